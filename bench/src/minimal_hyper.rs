//! The hyper reference: one fixed response from hyper on a current-thread runtime, whatever is asked. What a proxy
//! made of hyper could reach on memory hits if it did nothing at all.

use crate::body::{Object, TAG};
use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;

/// Serves until the process is ended.
pub fn serve(listener: TcpListener, size: u64) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let body = body(Object { size, number: 0 });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let body = body.clone();
            tokio::task::spawn_local(async move {
                let answer = service_fn(move |_: Request<Incoming>| {
                    let response = Response::new(Full::new(body.clone()));
                    async move { Ok::<_, Infallible>(response) }
                });
                // A client that goes away is not an error here.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    })
}

fn body(object: Object) -> Bytes {
    let mut bytes = object.tag()[..TAG.min(object.size as usize)].to_vec();
    while (bytes.len() as u64) < object.size {
        bytes.extend_from_slice(object.noise_at(bytes.len() as u64));
    }
    bytes.into()
}
