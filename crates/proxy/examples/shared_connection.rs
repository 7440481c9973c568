//! What a request costs two workers that share a connection of HTTP/2 to an origin, beside a connection of each worker's own: in the
//! cheapest way that the library has, by which both write to one connection that one of them drives.
//!
//! `cargo run --release -p proxy --example shared_connection`

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Response};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::error::Error;
use std::net::SocketAddr;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_local};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes of a response, those that may come before they are asked for, and requests of each worker at once.
const BODY: usize = 8 << 10;
const WINDOW: u32 = 256 << 10;
const AT_ONCE: usize = 32;
const LASTS: Duration = Duration::from_secs(3);
const ROUNDS: usize = 5;

fn main() -> Outcome<()> {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || local(serve(tell)));
    let origin = told.recv()?;
    println!(
        "{ROUNDS} rounds of {LASTS:?}, two workers with {AT_ONCE} requests at once each, responses of {BODY} bytes"
    );
    for round in 1..=ROUNDS {
        for shared in [false, true] {
            let (requests, seconds) = measured(origin, shared)?;
            let name = if shared { "one connection, shared" } else { "a connection of each" };
            println!(
                "round {round}, {name:<22} {:>8.0} requests/s, {:>6.2} us of the workers' processor time each",
                requests as f64 / LASTS.as_secs_f64(),
                1e6 * seconds / requests as f64
            );
        }
    }
    Ok(())
}

/// Requests of both workers, and their processor time in seconds.
fn measured(origin: SocketAddr, shared: bool) -> Outcome<(u64, f64)> {
    let ((lend, lent), (say, said)) = (oneshot::channel(), oneshot::channel());
    let first = thread::spawn(move || {
        local(async move {
            let requests = connected(origin).await?;
            if shared {
                let _ = lend.send(requests.clone());
            }
            let worked = work(requests).await?;
            // The connection is there until the other one has ended, too.
            let _ = said.await;
            Ok((worked, processor_time()))
        })
    });
    let second = thread::spawn(move || {
        local(async move {
            let requests = if shared { lent.await? } else { connected(origin).await? };
            let worked = work(requests).await?;
            let _ = say.send(());
            Ok((worked, processor_time()))
        })
    });
    let ended = |worker: thread::JoinHandle<_>| worker.join().map_err(|_| "a worker ended in a panic")?;
    let (first, second): ((u64, f64), (u64, f64)) = (ended(first)?, ended(second)?);
    Ok((first.0 + second.0, first.1 + second.1))
}

fn local<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?.block_on(work)
}

fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

async fn connected(origin: SocketAddr) -> Outcome<SendRequest<Bytes>> {
    let socket = TcpStream::connect(origin).await?;
    socket.set_nodelay(true)?;
    let (requests, connection) = h2::client::Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size((1 << 31) - 1)
        .handshake(socket)
        .await?;
    spawn_local(connection);
    Ok(requests)
}

/// Requests that were answered.
async fn work(requests: SendRequest<Bytes>) -> Outcome<u64> {
    let (until, answered) = (Instant::now() + LASTS, Rc::new(Cell::new(0)));
    let mut all = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (requests, answered) = (requests.clone(), answered.clone());
        all.spawn_local(async move {
            while Instant::now() < until {
                let request = Request::get("http://origin/").body(())?;
                let (response, _) = requests.clone().ready().await?.send_request(request, true)?;
                let (mut body, mut got) = (response.await?.into_body(), 0);
                while let Some(bytes) = body.data().await {
                    let length = bytes?.len();
                    got += length;
                    body.flow_control().release_capacity(length)?;
                }
                assert_eq!(got, BODY);
                answered.set(answered.get() + 1);
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(answered.get())
}

async fn serve(tell: std::sync::mpsc::Sender<SocketAddr>) -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    tell.send(listener.local_addr()?)?;
    let body = Bytes::from(vec![b'x'; BODY]);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let body = body.clone();
        spawn_local(async move {
            let mut connection = h2::server::handshake(socket).await?;
            while let Some(request) = connection.accept().await {
                let (_, mut respond) = request?;
                let mut response = respond.send_response(Response::new(()), false)?;
                response.send_data(body.clone(), true)?;
            }
            Outcome::Ok(())
        });
    }
}
