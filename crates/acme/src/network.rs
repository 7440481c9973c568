//! How an authority is asked: one request a connection, over TLS, each within a time and a size.

use http::header::{HOST, HeaderValue};
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// For one request, with its connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer: a chain is a few thousand.
const MOST: usize = 1 << 20;

type Sent = hyper::body::Bytes;

pub struct Network {
    config: Arc<ClientConfig>,
}

impl Network {
    /// By what is believed of the authority's certificate.
    pub fn new(config: &Arc<ClientConfig>) -> Network {
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Network { config: Arc::new(config) }
    }
}

impl HttpClient for Network {
    fn request(
        &self,
        request: Request<BodyWrapper<Sent>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let config = self.config.clone();
        Box::pin(async move {
            let host = request.uri().host().unwrap_or_default().to_owned();
            let told = |why: String| Error::Other(format!("{host}: {why}").into());
            match timeout(PATIENCE, send(config, request)).await {
                Ok(answer) => answer.map_err(told),
                Err(_) => Err(told(format!("no answer within {} s", PATIENCE.as_secs()))),
            }
        })
    }
}

async fn send(
    config: Arc<ClientConfig>,
    mut request: Request<BodyWrapper<Sent>>,
) -> Result<BytesResponse, String> {
    let uri = request.uri();
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https"));
    let authority = authority.ok_or("it is not asked by https")?.clone();
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
    let field = HeaderValue::try_from(authority.as_str()).map_err(|error| error.to_string())?;
    request.headers_mut().insert(HOST, field);
    let socket = TcpStream::connect((host.as_str(), authority.port_u16().unwrap_or(443)));
    let socket = socket.await.map_err(|error| format!("cannot connect: {error}"))?;
    let secure = TlsConnector::from(config).connect(name, socket);
    let secure = secure.await.map_err(|error| format!("no TLS: {error}"))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(secure)).await.map_err(|error| error.to_string())?;
    let exchange = async move {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, MOST).collect().await.map_err(|error| error.to_string())?;
        Ok(BytesResponse { parts, body: Box::new(body.to_bytes()) })
    };
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        _ = connection => exchange.await,
    }
}
