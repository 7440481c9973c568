//! The operator's service: a listener of its own, with a thread of its own.
//!
//! `POST /purge?url=…` and its kin, `GET /healthz`, `GET /stats.json`, `GET /metrics`. Only people and programs that reach the address itself are served:
//! nothing that came through a proxy, and no page of another site in somebody's browser.

use crate::report::{metrics, stats};
use crate::scheme::Scheme;
use crate::transport::{Bound, Listener};
use crate::worker::Shared;
use cache::{Scope, key};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN, VIA};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{JoinError, spawn_blocking, spawn_local};

/// Of every key so far.
const SCHEME: &str = Scheme::Http.as_str();
/// Connections at once. For one more, that makes way whose silence has lasted longest; while all are being answered, it waits.
const CONNECTIONS: usize = 64;
/// From a request's first byte to its head's end.
const HEAD: Duration = Duration::from_secs(10);
/// How long an answer waits until a purge is in the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until told to stop.
pub fn run(shared: Arc<Shared>, listener: Bound, mut stop: watch::Receiver<bool>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let listener = listener.into_listener()?;
        tokio::select! {
            () = accept(shared, listener) => {}
            // An error means that the sender is gone.
            _ = stop.wait_for(|stop| *stop) => {}
        }
        Ok(())
    })
}

async fn accept(shared: Arc<Shared>, listener: Listener) {
    let (permits, silent) = (Arc::new(Semaphore::new(CONNECTIONS)), Rc::new(Silent::default()));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while permits.available_permits() == 0 && !silent.end_one() {
            silent.changes.notified().await;
        }
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let (shared, visitor) = (shared.clone(), Visitor::new(silent.clone()));
        spawn_local(async move {
            let service = service_fn(|request| visitor.answer(shared.clone(), request));
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD);
            tokio::select! {
                // An error is the client's: it went away, or was no client.
                _ = server.serve_connection(TokioIo::new(stream), service) => {}
                () = visitor.makes_way.notified() => {}
            }
            drop(permit);
        });
    }
}

/// Connections that nothing is being answered on, those first that are silent for longest.
#[derive(Default)]
struct Silent {
    next: Cell<u64>,
    connections: RefCell<BTreeMap<u64, Rc<Notify>>>,
    /// One more is silent, or gone.
    changes: Notify,
}

/// One connection.
struct Visitor {
    silent: Rc<Silent>,
    since: Cell<u64>,
    makes_way: Rc<Notify>,
}

impl Silent {
    fn end_one(&self) -> bool {
        let longest = self.connections.borrow_mut().pop_first();
        longest.map(|(_, makes_way)| makes_way.notify_one()).is_some()
    }
}

impl Visitor {
    fn new(silent: Rc<Silent>) -> Visitor {
        let visitor = Visitor { silent, since: Cell::new(0), makes_way: Rc::default() };
        visitor.falls_silent();
        visitor
    }

    async fn answer(&self, shared: Arc<Shared>, request: Request<Incoming>) -> Result<Reply, JoinError> {
        self.speaks();
        // What waits for the disk waits beside the others.
        let answered = spawn_blocking(move || route(&shared, &request.into_parts().0)).await;
        self.falls_silent();
        answered
    }

    fn falls_silent(&self) {
        self.since.set(self.silent.next.replace(self.silent.next.get() + 1));
        self.silent.connections.borrow_mut().insert(self.since.get(), self.makes_way.clone());
        self.silent.changes.notify_one();
    }

    fn speaks(&self) {
        self.silent.connections.borrow_mut().remove(&self.since.get());
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.speaks();
        self.silent.changes.notify_one();
    }
}

type Reply = Response<Full<Bytes>>;

/// What is to be done, and how it is asked for.
struct Route {
    path: &'static str,
    method: Method,
    help: &'static str,
    /// Of its answer.
    content_type: &'static str,
    answer: fn(&Shared, &str) -> Result<String, AdminError>,
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Status and text.
struct AdminError(StatusCode, String);

const ROUTES: &[Route] = &[
    Route {
        path: "/purge",
        method: Method::POST,
        help: "url=URL, prefix=URL, host=HOST, group=NAME (or tag=NAME), or all: what is stored there is not served \
               any more; several at once are joined by &, values are percent-encoded; to a reverse proxy a path \
               alone means every host",
        content_type: TEXT,
        answer: purge,
    },
    Route {
        path: "/healthz",
        method: Method::GET,
        help: "ok while the proxy serves",
        content_type: TEXT,
        answer: |_, _| Ok("ok\n".into()),
    },
    Route {
        path: "/stats.json",
        method: Method::GET,
        help: "what was counted since the start, and what is stored, as numbers",
        content_type: "application/json",
        answer: |shared, _| Ok(stats::json(&shared.counted())),
    },
    Route {
        path: "/metrics",
        method: Method::GET,
        help: "the same for Prometheus, in its text format",
        content_type: metrics::CONTENT_TYPE,
        answer: |shared, _| Ok(metrics::text(&shared.counted())),
    },
];

fn route(shared: &Shared, request: &http::request::Parts) -> Reply {
    if !is_direct(&request.headers) {
        let why = "the admin address answers neither through a proxy nor to another site's page\n";
        return reply(StatusCode::FORBIDDEN, TEXT, why.into());
    }
    let Some(route) = ROUTES.iter().find(|route| route.path == request.uri.path()) else {
        let routes = ROUTES.iter().map(|r| format!("{} {}  {}\n", r.method, r.path, r.help));
        return reply(StatusCode::NOT_FOUND, TEXT, format!("there is:\n{}", routes.collect::<String>()));
    };
    if request.method != route.method && (request.method != Method::HEAD || route.method != Method::GET) {
        let mut reply =
            reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, format!("{} takes {}\n", route.path, route.method));
        if let Ok(method) = HeaderValue::try_from(route.method.as_str()) {
            reply.headers_mut().insert(ALLOW, method);
        }
        return reply;
    }
    match (route.answer)(shared, request.uri.query().unwrap_or_default()) {
        Ok(done) => reply(StatusCode::OK, route.content_type, done),
        Err(AdminError(status, why)) => reply(status, TEXT, format!("{why}\n")),
    }
}

/// No proxy sent it (they all add Via), and no page of another origin; nor one whose name was made to lead here.
fn is_direct(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return !headers.contains_key(VIA) };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.parse::<Authority>().ok();
    let name = name.as_ref().map(crate::authority::bare_host).unwrap_or_default();
    let is_here = name == "localhost" || name.parse::<IpAddr>().is_ok();
    !headers.contains_key(VIA) && is_here && origin.as_bytes() == format!("http://{host}").as_bytes()
}

fn reply(status: StatusCode, content_type: &'static str, text: String) -> Reply {
    let mut reply = Response::new(Full::new(text.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// What one parameter asks to be purged, as keys write it.
enum What {
    Url(Bytes),
    Prefix {
        scope: String,
        path: Bytes,
    },
    /// Path and query, on every host of a reverse proxy.
    Path(String),
    PathPrefix(String),
    Host(String),
    Group(String),
    All,
}

/// Purges, and answers when a kill cannot undo it any more.
fn purge(shared: &Shared, query: &str) -> Result<String, AdminError> {
    let reverse = shared.settings.newest().origin.is_some();
    let mut done = String::new();
    let mut wanted = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let what = what(&name, &value, reverse).map_err(|why| AdminError(StatusCode::BAD_REQUEST, why))?;
        wanted.push(what);
        done.push_str(format!("purged {name} {value}").trim_end());
        done.push('\n');
    }
    if wanted.is_empty() {
        return Err(AdminError(
            StatusCode::BAD_REQUEST,
            "say what in the query: /purge?url=…, prefix=, host=, group= or all".into(),
        ));
    }
    let mut scopes = Vec::new();
    for what in &wanted {
        match what {
            What::Url(primary) => shared.tiers.forget(primary),
            What::Prefix { scope, path } => {
                // Searches that are answered alike are known by their path only.
                shared.tiers.forget_searches(path);
                scopes.push(Scope::Prefix(scope));
            }
            What::Path(path) => scopes.extend([Scope::Path(path), Scope::Path(without_query(path))]),
            What::PathPrefix(path) => {
                scopes.extend([Scope::PathPrefix(path), Scope::Path(without_query(path))]);
            }
            What::Host(host) => scopes.push(Scope::Host(host)),
            What::Group(name) => scopes.push(Scope::Group { origin: None, name }),
            What::All => scopes.push(Scope::All),
        }
    }
    shared.tiers.purge(scopes);
    match shared.tiers.stores.persist(PATIENCE) {
        true => Ok(done),
        false => {
            let why =
                "purged, but not yet on disk: it would be undone if the proxy were killed now; ask again";
            Err(AdminError(StatusCode::SERVICE_UNAVAILABLE, why.into()))
        }
    }
}

/// Searches that are answered alike are known by their path only.
fn without_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

fn what(name: &str, value: &str, reverse: bool) -> Result<What, String> {
    let url =
        |value: &str| url(value, reverse).ok_or_else(|| format!("{name}: `{value}` is not an http URL"));
    no_wildcards(name, value)?;
    match name {
        "url" => Ok(match url(value)? {
            (Some(authority), path) => What::Url(key::primary(SCHEME, &authority, &path)),
            (None, path) => What::Path(path),
        }),
        "prefix" => Ok(match url(value)? {
            (Some(authority), path) => {
                let primary = key::primary(SCHEME, &authority, &path);
                let scope = String::from_utf8_lossy(&primary[key::METHOD.len()..]).into_owned();
                What::Prefix { scope, path: primary }
            }
            (None, path) => What::PathPrefix(path),
        }),
        "host" => match value.parse::<Authority>() {
            Ok(authority) if authority.as_str() == authority.host() => {
                Ok(What::Host(value.to_ascii_lowercase()))
            }
            _ => Err(format!("host: `{value}` is not a host name (for one port, purge by prefix)")),
        },
        "group" | "tag" if !value.is_empty() => Ok(What::Group(value.to_owned())),
        "all" if matches!(value, "" | "true" | "1") => Ok(What::All),
        "group" | "tag" => Err(format!("{name}: a name is missing")),
        "all" => Err("all: takes no value".into()),
        _ => Err(format!(
            "`{name}` is none of url, prefix, host, group, tag, all (is a URL not percent-encoded?)"
        )),
    }
}

/// `*` stands for itself in a URL, and in no name of a host. Whoever ends a value with it means something else, and would be
/// told that it is purged.
fn no_wildcards(name: &str, value: &str) -> Result<(), String> {
    match name {
        "url" | "prefix" if value.ends_with('*') => Err(format!(
            "{name}: `{value}` ends with `*`, which is no wildcard: prefix={} purges all URLs that begin so",
            value.trim_end_matches('*')
        )),
        "host" if value.contains('*') => {
            Err(format!("host: `{value}` has a `*`, which is no wildcard: purge each host by its name"))
        }
        _ => Ok(()),
    }
}

/// The host of a URL, as keys have it, and its path with the query. A path alone is that of every host of a reverse
/// proxy, whose URLs may be https ones to the world.
fn url(text: &str, reverse: bool) -> Option<(Option<String>, String)> {
    let uri: Uri = text.parse().ok()?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) if scheme == SCHEME || reverse && scheme == "https" => {
            Some((Some(key::authority(scheme, authority.as_str()).into_owned()), path))
        }
        (None, None) if reverse && text.starts_with('/') => Some((None, path)),
        _ => None,
    }
}
