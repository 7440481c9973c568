//! What asks a proxy that runs: `cosm top`, `cosm get`, `cosm log` and `cosm reload`.

mod ask;
mod get;
mod log;
mod reload;
mod top;

use self::ask::Admin;
use crate::Failure;
use crate::machine::Machine;
use crate::settings::{Config, Setting, file, given_by_flags};
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Where the admin interface is thought to be, if nobody says.
const DEFAULT: &str = "127.0.0.1:3129";

/// The settings of `cosm serve` that say where it is.
const SETTINGS: [&str; 2] = ["admin", "admin-token"];

pub fn commands() -> [Command; 4] {
    let config = Arg::new("config").long("config").value_name("FILE").help(
        "The configuration file of cosm serve, which says where its admin interface is, and with which token",
    );
    let admin = format!(
        "Address of the admin interface, or unix:PATH; default: as in the configuration file, or {DEFAULT}"
    );
    let admin = Arg::new("admin").long("admin").value_name("ADDRESS").help(admin);
    let token = Arg::new("admin-token")
        .long("admin-token")
        .value_name("FILE")
        .help("File with the token that the admin interface wants");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON");
    let url = Arg::new("URL").required(true).help("The URL, such as http://example.com/");
    let header = Arg::new("header")
        .long("header")
        .short('H')
        .value_name("NAME:VALUE")
        .action(ArgAction::Append)
        .help("A header field of the request, for responses that vary; may be repeated");
    let follow = Arg::new("follow")
        .long("follow")
        .short('f')
        .action(ArgAction::SetTrue)
        .help("Show requests as they end, until ^C");
    let filter = Arg::new("filter")
        .long("filter")
        .value_name("NAME=VALUE")
        .action(ArgAction::Append)
        .help("Show only requests with status=404 or status=4xx, host=*.example.com, path=/img/*, outcome=miss*, or slower=500ms; may be \
               repeated: of each name one has to suit");
    [
        Command::new("top")
            .about("Show what a running proxy does, once a second")
            .after_help("^C ends it. Where standard output is no terminal, what happens within a second is printed once.")
            .args([config.clone(), admin.clone(), token.clone()]),
        Command::new("get")
            .about("Show what a running proxy has stored of a URL, and whether it answers")
            .after_help("It asks no origin, and counts as no use.")
            .args([url, header, config.clone(), admin.clone(), token.clone(), json.clone()]),
        Command::new("log")
            .about("Show the requests of a running proxy as they end")
            .after_help(
                "A line has the time, the client, the status, the outcome (docs/caching.md), where the response came from, its bytes, how \
                 long it took, the method and the URL. It needs no access log; --access-log-mask of the proxy holds. `*` stands for any \
                 text, `?` for one character. What comes faster than it is read is left out, and standard error says how much.",
            )
            .args([follow, filter, config, admin, token, json]),
        reload::command(),
    ]
}

pub use self::reload::reload;

pub fn top(args: &ArgMatches) -> Result<(), Failure> {
    top::run(&admin(args)?).map_err(Failure::Failed)
}

pub fn log(args: &ArgMatches) -> Result<(), Failure> {
    if !args.get_flag("follow") {
        return Err(Failure::Usage("say --follow: requests are shown as they end, until ^C".into()));
    }
    let filters: Vec<&str> =
        args.get_many::<String>("filter").unwrap_or_default().map(String::as_str).collect();
    let query = log::query(&filters).map_err(Failure::Usage)?;
    log::run(&admin(args)?, &query, args.get_flag("json")).map_err(Failure::Failed)
}

pub fn get(args: &ArgMatches) -> Result<(), Failure> {
    let url = args.get_one::<String>("URL").map_or("", String::as_str);
    let fields: Vec<&str> =
        args.get_many::<String>("header").unwrap_or_default().map(String::as_str).collect();
    get::run(&admin(args)?, url, &fields, args.get_flag("json")).map_err(Failure::Failed)
}

/// As the command line says, else as the configuration file does.
fn admin(args: &ArgMatches) -> Result<Admin, Failure> {
    let first = |wrong: Vec<String>| Failure::Usage(wrong.into_iter().next().unwrap_or_default());
    let settings = || SETTINGS.into_iter().filter_map(|name| Setting::named(name).ok());
    let mut given = Vec::new();
    if let Some(path) = args.get_one::<String>("config") {
        let text = file::load(path)
            .map_err(|error| Failure::Failed(format!("cannot read configuration {path}: {error}")))?;
        given = file::read(&text, path).map_err(first)?;
        given.retain(|given| SETTINGS.contains(&given.name));
    }
    given.extend(given_by_flags(args, settings()));
    let config = Config::build(&given, &Machine::here()).map_err(first)?;
    let address = match config.proxy.admin {
        Some(address) => address,
        None => crate::values::address(DEFAULT).map_err(Failure::Usage)?,
    };
    Ok(Admin { address, token: config.proxy.admin_token })
}
