//! The answer of a listener that sends its clients to `https`.

use crate::answer::body::ReplyBody;
use crate::authority::host_and_port;
use crate::message::refusal::Refusal;
use crate::message::target::host_field;
use crate::transport::Speaks;
use crate::worker::Worker;
use http::header::LOCATION;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

/// To the same URL with `https`. Who changes the method after 301 would ask for something else (RFC 9110 section 15.4.2).
pub fn answer(worker: &Worker, request: &Parts) -> Result<Response<ReplyBody>, Refusal> {
    let named = match request.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => host_field(&request.headers, request.version)?.and_then(|field| field.to_str().ok()),
    };
    let Some((host, _)) = named.and_then(host_and_port).filter(|(host, _)| !host.is_empty()) else {
        return Err(Refusal::bad_request("say in the Host field which host is asked for"));
    };
    let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
    if !path.starts_with('/') {
        return Err(Refusal::bad_request("what is asked for has no path to lead to"));
    }
    let port = match port(worker) {
        443 => String::new(),
        port => format!(":{port}"),
    };
    let location = HeaderValue::try_from(format!("https://{host}{port}{path}"));
    let location = location.map_err(|_| Refusal::bad_request("the URL is not valid"))?;
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = match request.method {
        Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::PERMANENT_REDIRECT,
    };
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// As the settings say, or that of the first listener with TLS.
fn port(worker: &Worker) -> u16 {
    let settings = worker.settings();
    let real = worker.shared.addresses.get().into_iter().flatten();
    let mut secure = real.zip(&settings.listen).filter(|(_, listen)| listen.speaks == Speaks::Tls);
    let first = secure.find_map(|(address, _)| address.tcp());
    settings.tls.redirect_port.or(first.map(|address| address.port())).unwrap_or(443)
}
