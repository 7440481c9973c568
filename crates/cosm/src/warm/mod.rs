//! `cosm warm`: has a proxy that runs fetch a list of URLs, so that it has them when clients ask.

mod connection;
mod list;
mod outcome;

use self::connection::{Connection, Target};
use self::list::{Line, lines};
use self::outcome::{Outcome, Tally};
use crate::Failure;
use crate::look::progress::Progress;
use crate::settings::{Config, file};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use proxy::Address;
use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::{Mutex, Notify};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until};

/// Fields that a request has, or must not have, whatever anybody wants.
const OWN: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::CONNECTION,
    header::UPGRADE,
    header::EXPECT,
];

pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let list = option("list", "FILE").required(true).help("The URLs, a line each; -: standard input");
    let proxy = option("proxy", "ADDRESS").help(
        "Where the proxy listens, or unix:PATH; default: as in the configuration file, or 127.0.0.1:3128",
    );
    let config =
        option("config", "FILE").help("The configuration file of cosm serve, which says where it listens");
    let rate = option("rate", "N")
        .default_value("100")
        .value_parser(value_parser!(u64).range(1..=1_000_000))
        .help("Requests a second, at most");
    let connections = option("connections", "N")
        .default_value("8")
        .value_parser(value_parser!(u64).range(1..=1000))
        .help("Requests at once, at most");
    let header = option("header", "NAME:VALUE")
        .short('H')
        .action(ArgAction::Append)
        .help("A header field of the requests, for responses that vary, such as Accept-Encoding:gzip; may be repeated");
    Command::new("warm")
        .about("Have a running proxy fetch a list of URLs, so that it has them when clients ask")
        .after_help(
            "Each URL is asked for once, through the proxy, as a client would: http://HOST/PATH, also of a reverse proxy, where HOST is \
             what clients call it. Redirects are not followed. Empty lines, and those that begin with #, are passed over. It prints how \
             many were there already (hits), are stored now, are not stored, and failed (no response, all of it, or a status from 400 \
             on), with the first reasons.\n\nExit status: 0 done, 1 some failed, 2 wrong usage.",
        )
        .args([list, proxy, config, rate, connections, header])
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let number = |name: &str| *args.get_one::<u64>(name).unwrap_or(&1);
    let target = Target { proxy: proxy(args)?, fields: fields(args)? };
    let path = args.get_one::<String>("list").map_or("-", String::as_str);
    let (send, listed) = channel(64);
    let reader = lines(path).map_err(|error| Failure::Failed(format!("cannot read list {path}: {error}")))?;
    // A list may come as slowly as somebody types.
    std::thread::spawn(move || reader.map_while(|line| send.blocking_send(line).ok()).for_each(drop));
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    let begun = Instant::now();
    let warming = Rc::new(Warming {
        target,
        listed: Mutex::new(listed),
        every: Duration::from_secs(1) / u32::try_from(number("rate")).unwrap_or(u32::MAX),
        next: Cell::new(begun),
        tally: RefCell::default(),
        gone: RefCell::default(),
        over: Notify::new(),
        progress: RefCell::new(Progress::new("URLs")),
    });
    let workers = (0..number("connections")).map(|_| warming.clone());
    runtime.block_on(async {
        let workers: Vec<_> = workers.map(|warming| spawn_local(warming.work())).collect();
        for worker in workers {
            worker.await.map_err(|error| Failure::Failed(format!("a connection failed: {error}")))?;
        }
        Ok(())
    })?;
    let tally = warming.tally.borrow();
    warming.progress.borrow_mut().tell(true, format_args!("{} URLs", tally.count()));
    tally.lines(begun.elapsed()).into_iter().for_each(|line| line!("{line}"));
    match (&*warming.gone.borrow(), tally.failed()) {
        (Some(why), _) => Err(Failure::Failed(why.clone())),
        (None, 0) => Ok(()),
        (None, failed) => Err(Failure::Failed(format!("{failed} of {} URLs failed", tally.count()))),
    }
}

/// What all connections share.
struct Warming {
    target: Target,
    listed: Mutex<Receiver<Line>>,
    /// Between two requests, at least.
    every: Duration,
    /// When the next request may begin.
    next: Cell<Instant>,
    tally: RefCell<Tally>,
    /// Why nothing more is asked for.
    gone: RefCell<Option<String>>,
    /// Wakes those who wait for a line then.
    over: Notify,
    progress: RefCell<Progress>,
}

impl Warming {
    async fn work(self: Rc<Warming>) {
        let mut connection = Connection::default();
        while self.gone.borrow().is_none()
            && let Some(line) = self.next().await
        {
            let (name, outcome) = match line.url {
                Ok(url) => {
                    self.pause().await;
                    match connection.get(&self.target, &url).await {
                        Ok(outcome) => (url.to_string(), outcome),
                        Err(why) => {
                            self.gone.borrow_mut().get_or_insert(why);
                            return self.over.notify_waiters();
                        }
                    }
                }
                Err(why) => (format!("line {}", line.number), Outcome::Failed(why)),
            };
            let mut tally = self.tally.borrow_mut();
            tally.add(name, outcome);
            self.progress.borrow_mut().tell(false, format_args!("{}", tally.summary()));
        }
    }

    async fn next(&self) -> Option<Line> {
        let line = async { self.listed.lock().await.recv().await };
        tokio::select! {
            line = line => line,
            () = self.over.notified() => None,
        }
    }

    /// Until it is this request's turn. What was not used of the rate is lost.
    async fn pause(&self) {
        let at = self.next.get().max(Instant::now());
        self.next.set(at + self.every);
        sleep_until(at).await;
    }
}

/// As the command line says, else as the configuration file does.
fn proxy(args: &ArgMatches) -> Result<Address, Failure> {
    if let Some(given) = args.get_one::<String>("proxy") {
        return crate::values::address(given).map_err(|why| Failure::Usage(format!("proxy: {why}")));
    }
    let first = |wrong: Vec<String>| Failure::Usage(wrong.into_iter().next().unwrap_or_default());
    let mut given = Vec::new();
    if let Some(path) = args.get_one::<String>("config") {
        let text = file::load(path)
            .map_err(|error| Failure::Failed(format!("cannot read configuration {path}: {error}")))?;
        given = file::read(&text, path).map_err(first)?;
        // Where it listens, and what that needs.
        given.retain(|given| ["listen", "origin", "tls-certificate"].contains(&given.name));
    }
    let config = Config::build(&given, &crate::machine::Machine::here()).map_err(first)?;
    let speaks_http = |listen: &proxy::Listen| listen.speaks == proxy::Speaks::Http;
    let address = config.proxy.listen.into_iter().find(speaks_http).map(|listen| listen.address);
    let Some(address) = address else {
        return Err(Failure::Usage("it listens nowhere without TLS: name an address with --proxy".into()));
    };
    Ok(match address {
        // Where it listens on all addresses, it is here too.
        Address::Tcp(mut address) if address.ip().is_unspecified() => {
            let here =
                if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            address.set_ip(here);
            Address::Tcp(address)
        }
        address => address,
    })
}

fn fields(args: &ArgMatches) -> Result<HeaderMap, Failure> {
    let mut fields = HeaderMap::new();
    for given in args.get_many::<String>("header").unwrap_or_default() {
        let field = given.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            Some((name, HeaderValue::try_from(value.trim()).ok()?))
        });
        let Some((name, value)) = field else {
            return Err(Failure::Usage(format!("header: `{given}` is not NAME:VALUE")));
        };
        if OWN.contains(&name) {
            return Err(Failure::Usage(format!("header: {name} follows from the URL and the connection")));
        }
        fields.append(name, value);
    }
    Ok(fields)
}
