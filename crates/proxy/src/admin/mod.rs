//! The operator's service: a listener of its own, with a thread of its own, which also notes what comes by the minute.
//!
//! What can be asked there is a table (`ROUTES`). `guard` says who may ask.

mod guard;
mod health;
mod log;
mod object;
mod pac;
mod page;
mod purge;
mod state;

use self::guard::Needs;
use self::log::{Lines, Speaks};
use self::object::Search;
use crate::phase::Phase;
use crate::report::recent::HALF;
use crate::report::watch::{WATCHERS, Watch};
use crate::report::{metrics, stats};
use crate::settings::pac::{CONTENT_TYPE as PAC, PATHS as PAC_PATHS};
use crate::transport::{Bound, Listener, Peer};
use crate::worker::Shared;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::task::{JoinError, spawn_blocking, spawn_local};

/// Connections at once. For one more, that makes way whose silence has lasted longest; while all are being answered, it waits.
const CONNECTIONS: usize = 64;
/// From a request's first byte to its head's end.
const HEAD: Duration = Duration::from_secs(10);
/// Answers that are made at once, each by a thread: more than purges that wait, and few enough that threads take little memory.
const MADE: usize = 24;

/// How long what is being answered may take where another process has taken over.
const LAST: Duration = Duration::from_secs(30);

/// Serves until told to stop or to move.
pub fn run(shared: Arc<Shared>, listener: Bound, mut phases: watch::Receiver<Phase>) -> io::Result<()> {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(MADE);
    let runtime = runtime.build_local(LocalOptions::default())?;
    let ended = runtime.block_on(async {
        let listener = listener.into_listener()?;
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let (silent, search) = (Rc::new(Silent::default()), Rc::new(Search::of(shared.clone())));
        let mut remembering = pin!(remember(&shared, &search));
        loop {
            let phase = *phases.borrow_and_update();
            match phase {
                Phase::Serves => {}
                Phase::Holds(hold) => shared.handover.note_held(hold),
                Phase::Moves => {
                    drop(listener);
                    shared.watchers.end();
                    let answered = async {
                        while permits.available_permits() < CONNECTIONS {
                            silent.end_one();
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    };
                    let _ = tokio::time::timeout(LAST, answered).await;
                    return Ok(());
                }
                Phase::Stops(_) => return Ok(()),
            }
            tokio::select! {
                biased;
                // An error means that the sender is gone.
                changed = phases.changed() => if changed.is_err() { return Ok(()) },
                () = &mut remembering => {}
                () = accept(&shared, &listener, &permits, &silent, &search), if phase == Phase::Serves => {}
            }
        }
    });
    // What asks a disk that does not answer is left behind.
    runtime.shutdown_timeout(LAST);
    ended
}

/// How long the rest of an answer may take on a connection that makes way.
const GOES_OUT: Duration = Duration::from_secs(1);

/// How often it is noted what came.
const LOOK: Duration = Duration::from_secs(5);

/// Notes what came by the minute, and ends what is of more than an hour ago, and who watches and reads nothing.
async fn remember(shared: &Shared, search: &Search) {
    let mut turned = Instant::now();
    loop {
        shared.note_history(SystemTime::now());
        search.refresh();
        shared.watchers.look(Instant::now());
        if turned.elapsed() >= HALF {
            turned = Instant::now();
            shared.recent.iter().for_each(|recent| recent.turn());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn accept(
    shared: &Arc<Shared>,
    listener: &Listener,
    permits: &Arc<Semaphore>,
    silent: &Rc<Silent>,
    search: &Rc<Search>,
) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while permits.available_permits() == 0 && !silent.end_one() {
            silent.changes.notified().await;
        }
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let visitor = Rc::new(Visitor::new(peer, silent.clone()));
        let (shared, search) = (shared.clone(), search.clone());
        spawn_local(async move {
            let service =
                service_fn(|request| visitor.clone().answer(shared.clone(), search.clone(), request));
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD);
            let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
            tokio::select! {
                // An error is the client's: it went away, or was no client.
                _ = &mut connection => {}
                // What was answered may not have gone out yet.
                () = visitor.makes_way.notified() => if visitor.has_asked.get() {
                    connection.as_mut().graceful_shutdown();
                    let _ = tokio::time::timeout(GOES_OUT, connection).await;
                }
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
    peer: Peer,
    silent: Rc<Silent>,
    since: Cell<u64>,
    has_asked: Cell<bool>,
    makes_way: Rc<Notify>,
}

impl Silent {
    fn end_one(&self) -> bool {
        let longest = self.connections.borrow_mut().pop_first();
        longest.map(|(_, makes_way)| makes_way.notify_one()).is_some()
    }
}

impl Visitor {
    fn new(peer: Peer, silent: Rc<Silent>) -> Visitor {
        let visitor = Visitor {
            peer,
            silent,
            since: Cell::default(),
            has_asked: Cell::default(),
            makes_way: Rc::default(),
        };
        visitor.falls_silent();
        visitor
    }

    async fn answer(
        self: Rc<Visitor>,
        shared: Arc<Shared>,
        search: Rc<Search>,
        request: Request<Incoming>,
    ) -> Result<Reply, JoinError> {
        self.speaks();
        let speaks = Speaks(self.clone());
        let (peer, request) = (self.peer, request.into_parts().0);
        match admit(&shared, peer, &request) {
            Ok(route) => {
                let query = request.uri.query().unwrap_or_default().to_owned();
                let asked = query.clone();
                let answer = match route.answer {
                    Answer::Text(text) => Ok(Ok(text.to_owned())),
                    // What waits for the disk waits beside the others.
                    Answer::Of(answer) => spawn_blocking(move || answer(&shared, &asked)).await,
                    Answer::Search => Ok(search.find(&asked).await),
                    Answer::Log => match watch(&shared, &asked) {
                        Ok((watch, leaves)) => {
                            let makes_way = self.makes_way.clone();
                            spawn_local(async move {
                                if leaves.await.is_ok() {
                                    makes_way.notify_one();
                                }
                            });
                            return Ok(stream(route, Lines::of(watch, speaks)));
                        }
                        Err(refused) => Ok(Err(refused)),
                    },
                    Answer::Pac => Ok(pac::text(&shared, &request.headers)),
                };
                answer.map(|answer| route.reply(peer, &query, answer))
            }
            Err(refused) => Ok(*refused),
        }
    }

    fn falls_silent(&self) {
        self.since.set(self.silent.next.replace(self.silent.next.get() + 1));
        self.silent.connections.borrow_mut().insert(self.since.get(), self.makes_way.clone());
        self.silent.changes.notify_one();
    }

    fn speaks(&self) {
        self.has_asked.set(true);
        self.silent.connections.borrow_mut().remove(&self.since.get());
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.speaks();
        self.silent.changes.notify_one();
    }
}

pub fn is_alive(shared: &Shared) -> bool {
    health::alive(shared).is_ok()
}

type Reply = Response<Either<Full<Bytes>, Lines>>;

/// What is to be done, and how it is asked for.
struct Route {
    path: &'static str,
    method: Method,
    help: &'static str,
    /// Of its answer.
    content_type: &'static str,
    answer: Answer,
    /// It says nothing that only the operator may know.
    open: bool,
}

#[derive(Clone, Copy)]
enum Answer {
    Text(&'static str),
    /// Of the query.
    Of(fn(&Shared, &str) -> Result<String, AdminError>),
    Search,
    /// Without an end.
    Log,
    Pac,
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// Status and text.
struct AdminError(StatusCode, String);

static ROUTES: &[Route] = &[
    Route {
        path: "/purge",
        method: Method::POST,
        help: "url=URL, prefix=URL, host=HOST, expression=HOST/PATH (with * and ?), group=NAME (or tag=NAME), or all: \
               what is stored there is not served any more, or, with soft=1, is stale from now on; several at once are \
               joined by &, values are percent-encoded; to a reverse proxy a path alone means every host",
        content_type: TEXT,
        answer: Answer::Of(purge::purge),
        open: false,
    },
    Route {
        path: "/reload",
        method: Method::POST,
        help: "reads the configuration file again, and says what took effect and what waits for the next start",
        content_type: TEXT,
        answer: Answer::Of(|shared, _| reload(shared)),
        open: false,
    },
    Route {
        path: "/healthz",
        method: Method::GET,
        help: "ok while the proxy is alive: each worker has done something in the last 15 seconds",
        content_type: TEXT,
        answer: Answer::Of(|shared, _| health::alive(shared)),
        open: true,
    },
    Route {
        path: "/readyz",
        method: Method::GET,
        help: "ok while the proxy is alive, and says how many disks are left; a proxy that stops does not answer",
        content_type: TEXT,
        answer: Answer::Of(|shared, _| health::ready(shared)),
        open: true,
    },
    Route {
        path: "/stats.json",
        method: Method::GET,
        help: "what was counted since the start, and what is stored, as numbers",
        content_type: JSON,
        answer: Answer::Of(|shared, _| Ok(stats::json(&shared.counted()))),
        open: false,
    },
    Route {
        path: "/metrics",
        method: Method::GET,
        help: "the same for Prometheus, in its text format",
        content_type: metrics::CONTENT_TYPE,
        answer: Answer::Of(|shared, _| Ok(metrics::text(&shared.counted()))),
        open: false,
    },
    Route {
        path: "/recent.json",
        method: Method::GET,
        help: "hosts and URLs that were asked for most, how origins answered, the slowest requests of the last half to full hour, and \
               the last events of the error log",
        content_type: JSON,
        answer: Answer::Of(|shared, _| Ok(state::recent(shared))),
        open: false,
    },
    Route {
        path: "/log",
        method: Method::GET,
        help: "requests as they end, a line of JSON each with the fields of the access log, until you leave; status=5xx, host=*.GLOB, \
               path=/GLOB*, outcome=miss* and slower=MILLISECONDS choose among them, several of a \
               kind each; what comes faster than it is read is dropped and counted",
        content_type: LINES,
        answer: Answer::Log,
        open: false,
    },
    Route {
        path: "/history.json",
        method: Method::GET,
        help: "requests, bytes and times of the last hour by the minute, and of two days by the quarter of an hour",
        content_type: JSON,
        answer: Answer::Of(|shared, _| Ok(state::history(shared, SystemTime::now()))),
        open: false,
    },
    Route {
        path: "/state.json",
        method: Method::GET,
        help: "what takes the memory, each disk with a map of its log, and the load of a day",
        content_type: JSON,
        answer: Answer::Of(|shared, _| Ok(state::state(shared))),
        open: false,
    },
    Route {
        path: PAC_PATHS[0],
        method: Method::GET,
        help: "which requests browsers send to this proxy; its listeners give it too",
        content_type: PAC,
        answer: Answer::Pac,
        open: true,
    },
    Route {
        path: PAC_PATHS[1],
        method: Method::GET,
        help: "the same",
        content_type: PAC,
        answer: Answer::Pac,
        open: true,
    },
    Route {
        path: "/object.json",
        method: Method::GET,
        help: "url=URL: what is stored of it, where, and whether it answers; field=NAME:VALUE, which may be repeated, is a header \
               field that it is asked for with; counts as no use, and asks no origin",
        content_type: JSON,
        answer: Answer::Search,
        open: false,
    },
];

/// A file that is wrong changes nothing.
fn reload(shared: &Shared) -> Result<String, AdminError> {
    let Some(reload) = shared.reload.get() else {
        return Err(AdminError(StatusCode::NOT_IMPLEMENTED, "there is no file to read settings from".into()));
    };
    reload().map(|lines| lines.join("\n") + "\n").map_err(|why| AdminError(StatusCode::CONFLICT, why))
}

fn watch(shared: &Shared, query: &str) -> Result<(Watch, oneshot::Receiver<()>), AdminError> {
    let filter = log::filter(query).map_err(|why| AdminError(StatusCode::BAD_REQUEST, why))?;
    let why =
        || format!("{WATCHERS} watch already, or another process takes over: there is no room for more");
    shared.watchers.join(filter).ok_or_else(|| AdminError(StatusCode::SERVICE_UNAVAILABLE, why()))
}

fn routes() -> impl Iterator<Item = &'static Route> {
    page::ROUTES.iter().chain(ROUTES)
}

/// The route of a request that may take it.
fn admit(shared: &Shared, peer: Peer, request: &http::request::Parts) -> Result<&'static Route, Box<Reply>> {
    let (found, settings) =
        (routes().find(|route| route.path == request.uri.path()), shared.settings.newest());
    let needs = match &settings.admin_token {
        _ if found.is_some_and(|route| route.open) => Needs::Nothing,
        Some(token) => Needs::Token(token.reveal()),
        None => Needs::Host,
    };
    if let Err(refused) = guard::check(&request.headers, peer, needs) {
        let mut reply = reply(refused.status, TEXT, format!("{}\n", refused.why));
        if refused.status == StatusCode::UNAUTHORIZED {
            let schemes = HeaderValue::from_static("Basic realm=\"cosm\", charset=\"UTF-8\"");
            reply.headers_mut().insert(WWW_AUTHENTICATE, schemes);
        }
        return Err(reply.into());
    }
    let Some(route) = found else {
        let routes = routes().map(|r| format!("{} {}  {}\n", r.method, r.path, r.help));
        let routes = format!("there is:\n{}", routes.collect::<String>());
        return Err(reply(StatusCode::NOT_FOUND, TEXT, routes).into());
    };
    if request.method != route.method && (request.method != Method::HEAD || route.method != Method::GET) {
        let mut reply =
            reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, format!("{} takes {}\n", route.path, route.method));
        if let Ok(method) = HeaderValue::try_from(route.method.as_str()) {
            reply.headers_mut().insert(ALLOW, method);
        }
        return Err(reply.into());
    }
    Ok(route)
}

impl Route {
    fn reply(&self, peer: Peer, query: &str, answer: Result<String, AdminError>) -> Reply {
        if self.method != Method::GET {
            let outcome = answer.as_ref().map_or_else(|AdminError(_, why)| why.as_str(), |_| "done");
            tracing::info!(target: "admin", by = %peer, outcome, what = query, "{} {}", self.method, self.path);
        }
        match answer {
            Ok(done) => reply(StatusCode::OK, self.content_type, done),
            Err(AdminError(status, why)) => reply(status, TEXT, format!("{why}\n")),
        }
    }
}

/// Of every answer, since a browser may show any: nothing is loaded, run or framed but what this address itself has.
const HEADERS: [(HeaderName, &str); 4] = [
    (CACHE_CONTROL, "no-store"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
];

fn reply(status: StatusCode, content_type: &'static str, text: String) -> Reply {
    let mut reply = with_fields(content_type, Either::Left(Full::new(text.into())));
    *reply.status_mut() = status;
    reply
}

fn stream(route: &Route, lines: Lines) -> Reply {
    with_fields(route.content_type, Either::Right(lines))
}

fn with_fields(content_type: &'static str, body: Either<Full<Bytes>, Lines>) -> Reply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}
