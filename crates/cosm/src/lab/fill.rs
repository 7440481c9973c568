//! `cosm lab fill`: the production store filled with synthetic objects, and what that took. `cosm serve` on the same file answers
//! them.

use super::{json, number, seed, text};
use crate::machine::Machine;
use crate::settings::{Config, Part, Setting, TABLE, given_by_flags};
use crate::values::{say_size, size_within};
use crate::{Failure, look, machine};
use clap::{Arg, ArgAction, ArgMatches, Command};
use lab::fill::{HOST, Wanted, fill};
use rustix::process::{Signal, getpid, kill_process};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::Store;

/// How long what was put may take to reach the file.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes of a mean body at most.
const LARGEST_MEAN: u64 = 16 << 20;

pub fn command() -> Command {
    let objects =
        Arg::new("objects").long("objects").value_name("N").required(true).help("Number of objects");
    let mean = Arg::new("mean-size")
        .long("mean-size")
        .value_name("SIZE")
        .default_value("1KiB")
        .help("Mean body size; sizes follow an exponential distribution");
    let crash = Arg::new("crash").long("crash").action(ArgAction::SetTrue).help(
        "End by SIGKILL instead of closing the cache, after everything has been written and printed, so that the next \
         start must recover",
    );
    Command::new("fill")
        .about(format!("Fill a cache with objects, as if fetched from http://{HOST}/0 and so on"))
        .after_help(
            "bytes put are those of keys, heads and bodies; device writes and their bytes are counted by the store, at \
             its calls, until all is in the file, kernel bytes written are write_bytes of /proc/self/io; resident bytes \
             are what VmRSS grew by, buffers included; those of further objects what it grew by after the first half.",
        )
        .args([objects, mean, seed(), crash, json()])
        .args(of_the_store().map(Setting::argument))
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let config = Config::build(&given_by_flags(args, of_the_store()), &Machine::here());
    let config = config.map_err(|wrong| Failure::Usage(wrong.join("; ")))?;
    let stores = config.stores();
    let [options] = &stores[..] else {
        return Err(Failure::Usage("--cache: one cache is filled at a time".into()));
    };
    let mean = text(args, "mean-size").map(|text| size_within(text, &(1..=LARGEST_MEAN))).transpose();
    let wanted = Wanted {
        objects: number(args, "objects")?.unwrap_or(0),
        mean_size: mean.map_err(|why| Failure::Usage(format!("--mean-size: {why}")))?.unwrap_or(0) as f64,
        seed: number(args, "seed")?.unwrap_or(1),
    };
    let store = Store::open(options).map_err(|error| Failure::Failed(error.to_string()))?;
    proxy::say(store.opened());
    let filled = filled(&store, &wanted);
    match filled {
        Ok(figures) => look::print(&figures, args.get_flag("json")),
        Err(why) => {
            store.close();
            return Err(Failure::Failed(format!("cache {}: {why}", options.path.display())));
        }
    }
    if args.get_flag("crash") {
        let _ = std::io::stdout().flush();
        return kill_process(getpid(), Signal::KILL)
            .map_err(|error| Failure::Failed(format!("cannot kill myself: {error}")));
    }
    store.close();
    Ok(())
}

fn of_the_store() -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().filter(|setting| setting.part == Part::Store)
}

/// Puts all, and waits until it is in the file.
fn filled(store: &Store, wanted: &Wanted) -> Result<Vec<(&'static str, serde_json::Value)>, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let shows = std::io::stderr().is_terminal();
    let mut half = None;
    let mut progress = |done: u64, taken: u64| {
        if done == wanted.objects / 2 {
            half = Some((taken, machine::resident()));
        }
        if shows {
            eprint!("\rcosm: {done} of {} objects", wanted.objects);
        }
    };
    let (before, resident) = (store.stats(), machine::resident());
    let (by_kernel, began) = (machine::written_to_devices(), Instant::now());
    let taken = fill(store, wanted, now, &mut progress)?;
    if !store.persist(PATIENCE) {
        return Err(format!("after {} s not all of it was written", PATIENCE.as_secs()));
    }
    let seconds = began.elapsed().as_secs_f64();
    if shows {
        eprintln!("\rcosm: {} of {} objects", wanted.objects, wanted.objects);
    }
    if taken.refused > 0 {
        proxy::say(format_args!(
            "{} objects were larger than the cache takes (object-size-max); the mean was {}",
            taken.refused,
            say_size(wanted.mean_size as u64)
        ));
    }
    let (after, in_the_end) = (store.stats(), machine::resident());
    let objects = after.objects.saturating_sub(before.objects);
    let (at_half, resident_at_half) = half.unwrap_or((0, resident));
    let resident = in_the_end.saturating_sub(resident);
    let further = in_the_end.saturating_sub(resident_at_half);
    let per =
        |bytes: u64, objects: u64| ((bytes as f64 / objects.max(1) as f64 * 100.0).round() / 100.0).into();
    Ok(vec![
        ("objects_put", taken.objects.into()),
        ("objects_refused", taken.refused.into()),
        ("objects_there", after.objects.into()),
        ("bytes_put", taken.bytes.into()),
        ("body_bytes_put", taken.body_bytes.into()),
        ("device_bytes_written", (after.device_written_bytes - before.device_written_bytes).into()),
        ("device_writes", (after.device_writes - before.device_writes).into()),
        ("kernel_bytes_written", machine::written_to_devices().saturating_sub(by_kernel).into()),
        ("resident_bytes", resident.into()),
        ("resident_bytes_per_object", per(resident, objects)),
        ("resident_bytes_per_further_object", per(further, objects.saturating_sub(at_half))),
        ("index_bytes_per_object", per(after.index_bytes.saturating_sub(before.index_bytes), objects)),
        ("seconds", ((seconds * 1000.0).round() / 1000.0).into()),
    ])
}
