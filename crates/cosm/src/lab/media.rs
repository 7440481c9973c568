//! `--medium` and what belongs to it.

use super::text;
use crate::Failure;
use crate::values::size;
use clap::{Arg, ArgMatches};
use lab::medium::table::{self, Given, LEAST_MEMORY, MediumKind, Memory, Takes};
use lab::medium::{Medium, real};
use lab::scale::Scale;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// `--medium` where many recipes are at work at once.
pub fn modelled() -> Arg {
    medium(|kind| !kind.alone).value_parser(|name: &str| match table::named(name)? {
        (kind, _) if kind.alone => Err("replays disturb each other there: choose a modelled one".to_owned()),
        _ => Ok(name.to_owned()),
    })
}

fn medium(suits: fn(&&MediumKind) -> bool) -> Arg {
    let kinds = table::ALL.iter().filter(suits);
    let known: Vec<String> = kinds.map(|kind| format!("{}: {}", kind.usage(), kind.about)).collect();
    Arg::new("medium")
        .long("medium")
        .value_name("NAME")
        .default_value("st15150w")
        .help(format!("Medium to store on. {}", known.join(". ")))
}

pub fn arguments() -> [Arg; 3] {
    let limit = Arg::new("limit").long("limit").value_name("SIZE").help(
        "Memory that the filesystem may use for files, or `none`. Default: an eighth of --disk, at least 64 MiB, and 256 MiB on \
         the papers' disk. For a real directory this needs root and a control group",
    );
    let capture = Arg::new("capture").long("capture").value_name("FILE").help(
        "Write the requests to a real directory's device as a block trace for `cosm lab devices`; needs root, and one recipe",
    );
    [medium(|_| true), limit, capture]
}

/// A medium that was asked for.
pub struct Chosen {
    /// As it was asked for.
    pub name: String,
    kind: &'static MediumKind,
    given: Given<'static>,
}

impl Chosen {
    pub fn of(args: &ArgMatches, scale: Scale, recipes: usize) -> Result<Chosen, Failure> {
        let name = text(args, "medium").unwrap_or_default();
        let chosen = Chosen::modelled(name, scale);
        let chosen = chosen.map_err(|why| Failure::Usage(format!("--medium: {why}")))?;
        let takes = chosen.kind.takes;
        let capture = text(args, "capture").map(PathBuf::from);
        if capture.is_some() && (takes != Takes::Directory || recipes > 1) {
            return Err(Failure::Usage(
                "--capture: of a real directory (--medium dir:…) and one recipe".into(),
            ));
        }
        let memory = memory(text(args, "limit"))?;
        if takes == Takes::Directory {
            stop_at_signals()?;
        }
        let given = Given { memory, capture, say: &|line| proxy::say(line), ..chosen.given };
        Ok(Chosen { given, ..chosen })
    }

    /// As an experiment names it, with a share of the memory that suits it.
    pub fn in_proportion(name: &str, scale: Scale, part: f64) -> Result<Chosen, String> {
        let chosen = Chosen::modelled(name, scale)?;
        Ok(Chosen { given: Given { memory: Memory::Part(part), ..chosen.given }, ..chosen })
    }

    /// With the memory that suits it.
    pub fn modelled(name: &str, scale: Scale) -> Result<Chosen, String> {
        let (kind, argument) = table::named(name)?;
        let given = Given {
            scale,
            size: argument.filter(|_| kind.takes == Takes::Size).map(size).transpose()?,
            path: PathBuf::from(argument.unwrap_or_default()),
            memory: Memory::Suitable,
            capture: None,
            say: &|_| {},
        };
        Ok(Chosen { name: name.to_owned(), kind, given })
    }

    /// Recipes that it bears at once.
    pub fn at_once(&self) -> usize {
        if self.kind.alone { 1 } else { usize::MAX }
    }

    pub fn make(&self) -> Result<Box<dyn Medium>, String> {
        (self.kind.make)(&self.given)
    }
}

fn memory(limit: Option<&str>) -> Result<Memory, Failure> {
    match limit {
        None => Ok(Memory::Suitable),
        Some("none") => Ok(Memory::Unbounded),
        Some(limit) => match size(limit) {
            Ok(bytes) if bytes >= LEAST_MEMORY => Ok(Memory::Bytes(bytes)),
            Ok(_) => Err(Failure::Usage("--limit: at least 64MiB".into())),
            Err(why) => Err(Failure::Usage(format!("--limit: {why}, or none"))),
        },
    }
}

/// From now on a signal ends the run after the call that is under way, so that what was made is removed.
fn stop_at_signals() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    let wait = async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        real::stop();
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || runtime.block_on(wait)).map_err(failed)?;
    Ok(())
}
