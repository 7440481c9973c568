//! `cosm smooth analyze`: what of the misses in the peaks of a trace could have been fetched before them.

use crate::Failure;
use crate::lab::{from_format, json, like, number, requests, say_faults, seed, strict, text};
use crate::values::{duration, say_time, size};
use crate::written;
use clap::{Arg, ArgMatches, Command};
use lab::input::{From, Input, Reading, say_unusable};
use learn::analysis::{Amount, Analysis, Basis, Offered, Report, Settings, Split, find_peak, share};
use learn::day::{Peak, Weekdays};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace::inventory::Inventory;
use trace::{Access, Requests, format, synthetic};

/// Requests between two looks at the clock.
const LOOK: u64 = 1 << 16;

pub fn command() -> Command {
    let traces = Arg::new("TRACE").num_args(1..).conflicts_with("like").help(
        "Trace to analyze, plain or compressed with gzip or zstd, also Cosm's own access log as JSON; several follow each \
         other in time. With a --peak also a pipe, such as /dev/stdin",
    );
    let peak = Arg::new("peak").long("peak").value_name("HH:MM-HH:MM|auto").default_value("auto").help(
        "When peak is, in local time; the thesis: 04:30-16:30. auto: the 12 hours in which most is asked for, for which the \
         trace is read twice",
    );
    let days = Arg::new("days")
        .long("days")
        .value_name("DAYS")
        .default_value("mon-fri")
        .help("Days that have a peak, such as mon-fri or sat,sun");
    let utc_offset = Arg::new("utc-offset")
        .long("utc-offset")
        .value_name("+HH:MM")
        .default_value("+00:00")
        .allow_hyphen_values(true)
        .help("What local time is ahead of UTC, the whole year");
    let warm_up = Arg::new("warm-up")
        .long("warm-up")
        .value_name("TIME")
        .default_value("2d")
        .help("Time from the first request for which the caches fill before anything is measured; a number alone is of days");
    let cache = Arg::new("cache")
        .long("cache")
        .value_name("SIZE")
        .default_value("1GiB")
        .help("Size of the finite cache, beside an infinite one");
    let inventory = Arg::new("inventory").long("inventory").value_name("FILE").help(
        "What servers had to offer, as JSON, an object a line: url, size, modified, created (seconds since 1970), content_type, \
         cacheable",
    );
    let out = Arg::new("out")
        .long("out")
        .value_name("DIR")
        .help("Write a page with plots, and analysis.json, there");
    Command::new("analyze")
        .about("Measure what of the misses in the peaks of a trace could have been fetched before them (thesis, 6.2)")
        .args([traces, from_format().conflicts_with("like"), strict().conflicts_with("like"), like(), requests()])
        .arg(seed().conflicts_with("TRACE"))
        .args([peak, days, utc_offset, warm_up, cache, inventory, json(), out])
        .after_help(
            "A hit has the same modification date as the request before. Where a trace has no dates, sizes tell what they can; \
             what that leaves open is said beside the figures.\n\n\
             Examples:\n  \
             cosm smooth analyze access.json --utc-offset +02:00 --out day\n  \
             cosm smooth analyze bu-all.tsv.zst --utc-offset -05:00 --cache 100MiB",
        )
}

pub fn run(args: &ArgMatches) -> Result<(), Failure> {
    let usage = |name: &str, why: String| Failure::Usage(format!("--{name}: {why}"));
    let parsed = |name: &'static str| text(args, name).unwrap_or_default();
    let days: Weekdays = parsed("days").parse().map_err(|why| usage("days", why))?;
    let utc_offset = offset(parsed("utc-offset")).map_err(|why| usage("utc-offset", why))?;
    let warm_up = warm_up(parsed("warm-up")).map_err(|why| usage("warm-up", why))?.as_secs();
    let cache = size(parsed("cache")).map_err(|why| usage("cache", why))?;
    let given = match parsed("peak") {
        "auto" => None,
        text => Some(text.parse::<Peak>().map_err(|why| usage("peak", why))?),
    };
    let inputs = inputs(args)?;
    if given.is_none() {
        inputs.iter().try_for_each(|input| read_again(input, "--peak auto reads it twice; name a --peak"))?;
    }
    let out = written::folder(args, "out")?;
    let offered = text(args, "inventory").map(|path| offered(Path::new(path))).transpose()?;

    let peak = match given {
        Some(mut peak) => {
            peak.days = days;
            peak
        }
        None => {
            let mut all = All::open(&inputs, "finding the peak")?;
            let found = find_peak(&mut all, days, utc_offset);
            // Why nothing is found is first of all what could not be read.
            all.end(found.is_err())?;
            found.map_err(Failure::Failed)?
        }
    };
    let mut analysis = Analysis::new(Settings { peak, utc_offset, warm_up, cache }, offered);
    let (mut all, mut access) = (All::open(&inputs, "analyzing")?, Access::default());
    while all.next(&mut access).map_err(Failure::Failed)? {
        analysis.see(&access).map_err(Failure::Failed)?;
    }
    let left_out = all.end(true)?;
    let described: Vec<String> = inputs.iter().map(Input::describe).collect();
    let described = described.join(", ");
    let report = analysis.finish().map_err(|why| Failure::Failed(format!("{described}: {why}")))?;
    let is_synthetic = inputs.iter().any(Input::is_synthetic);
    let json = || {
        serde_json::to_string(&serde_json::json!({
            "trace": described, "synthetic": is_synthetic, "peak_found": given.is_none(), "not_cacheable": left_out,
            "analysis": report,
        }))
        .map_err(|error| Failure::Failed(error.to_string()))
    };
    match args.get_flag("json") {
        true => line!("{}", json()?),
        false => print(&described, &report, given.is_none(), left_out.as_deref()),
    }
    if let Some(out) = out {
        let page =
            lab::report::smoothing::page(&described, is_synthetic, &report).map_err(Failure::Failed)?;
        written::write_in(&out, "analysis.json", &json()?)?;
        written::write_in(&out, "report.html", &page)?;
        proxy::say(format_args!("{}", out.join("report.html").display()));
    }
    Ok(())
}

fn inputs(args: &ArgMatches) -> Result<Vec<Input>, Failure> {
    let requests = number(args, "requests")?;
    let format = text(args, "format").map(format::named).transpose().map_err(Failure::Usage)?;
    let paths: Vec<&String> = args.get_many::<String>("TRACE").into_iter().flatten().collect();
    if let Some(like) = text(args, "like") {
        let like = synthetic::named(like).map_err(Failure::Usage)?;
        let from = From::Synthetic { like, seed: number(args, "seed")?.unwrap_or(1) };
        return Ok(vec![Input { from, requests, largest: None }]);
    }
    if paths.is_empty() {
        return Err(Failure::Usage("name a trace, or a workload by --like".into()));
    }
    let strict = args.get_flag("strict");
    let from = |path: &&String| From::File { path: PathBuf::from(path), format, strict };
    Ok(paths.iter().map(|path| Input { from: from(path), requests, largest: None }).collect())
}

/// `+02:00`, `-05:00`: minutes.
pub fn offset(text: &str) -> Result<i16, String> {
    let wrong = || format!("`{text}` is no offset: write one like +02:00 or -05:00");
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => return Err(wrong()),
    };
    let digits = |text: &str| (text.len() == 2).then(|| text.parse::<u8>().ok()).flatten();
    let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
    match (digits(hours), digits(minutes)) {
        (Some(hours @ ..=14), Some(minutes @ ..=59)) => {
            Ok(sign * (i16::from(hours) * 60 + i16::from(minutes)))
        }
        _ => Err(wrong()),
    }
}

fn offered(path: &Path) -> Result<Offered, Failure> {
    if path.is_dir() {
        let why = "is a folder: name one of the inventories in it, which is taken for all days";
        return Err(Failure::Failed(format!("{}: {why}", path.display())));
    }
    let rows = Inventory::open(path).map_err(Failure::Failed)?;
    Offered::of(rows).map_err(Failure::Failed)
}

/// An error of what can be read only once; files that are not there are found out when they are opened.
pub fn read_again(input: &Input, why: &str) -> Result<(), Failure> {
    match &input.from {
        From::File { path, .. } if path.exists() && !path.is_file() => {
            Err(Failure::Failed(format!("{}: is no file, and {why}", path.display())))
        }
        _ => Ok(()),
    }
}

/// `2d`, `36h`; a number alone is of days.
pub fn warm_up(text: &str) -> Result<Duration, String> {
    duration(text).or_else(|why| duration(&format!("{text}d")).map_err(|_| why))
}

/// All traces, one after the other, with progress on standard error.
struct All<'a> {
    readings: Vec<Reading>,
    at: usize,
    inputs: &'a [Input],
    what: &'static str,
    count: u64,
    shown: Instant,
}

impl All<'_> {
    fn open<'a>(inputs: &'a [Input], what: &'static str) -> Result<All<'a>, Failure> {
        let readings = inputs.iter().map(Input::open).collect::<Result<Vec<Reading>, _>>();
        let readings = readings.map_err(Failure::Failed)?;
        Ok(All { readings, at: 0, inputs, what, count: 0, shown: Instant::now() })
    }

    fn progress(&mut self) {
        let shows = std::io::stderr().is_terminal();
        let every = Duration::from_secs(if shows { 1 } else { 10 });
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let line = format!("{}: {} requests", self.what, self.count);
        match shows {
            true => {
                let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
            }
            false => proxy::say(line),
        }
    }

    /// Says what was malformed, and gives what no cache could answer. An error if there was nothing that one could.
    fn end(self, says: bool) -> Result<Option<String>, Failure> {
        if std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        if !says {
            return Ok(None);
        }
        self.readings.iter().for_each(say_faults);
        let checked = self.readings.iter().map(Reading::check).find(Result::is_ok);
        if checked.is_none() {
            self.readings[0].check().map_err(Failure::Failed)?;
        }
        Ok(say_unusable(&self.readings))
    }
}

impl Requests for All<'_> {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        while let Some(reading) = self.readings.get_mut(self.at) {
            let more = reading.next(access);
            let more = more.map_err(|why| format!("{}: {why}", self.inputs[self.at].describe()))?;
            if more {
                self.count += 1;
                if self.count.is_multiple_of(LOOK) {
                    self.progress();
                }
                return Ok(true);
            }
            self.at += 1;
        }
        Ok(false)
    }
}

fn print(trace: &str, report: &Report, is_found: bool, not_cacheable: Option<&str>) {
    let Report { settings, whole, infinite, finite, .. } = report;
    let sides = [("infinite", infinite), ("finite", finite)];
    let notes = |about: &str| {
        report
            .notes
            .iter()
            .filter(|note| note.about == about)
            .for_each(|note| line!("  note: {}", note.text));
    };
    line!("{trace}");
    line!(
        "{} requests for {} of {} objects and {} servers, over {:.1} days",
        whole.referenced.requests,
        mb(whole.referenced.bytes as f64),
        report.objects,
        report.servers,
        (report.last - report.first) as f64 / 86_400.0
    );
    if let Some(not_cacheable) = not_cacheable {
        line!("of these no cache could answer {not_cacheable}");
    }

    line!("\nPeaks: {} on {}{}", settings.peak, settings.peak.days, if is_found { ", as found" } else { "" });
    let basis = match report.basis {
        Basis::Whole => "whole and after the warm-up",
        Basis::Partial => "after the warm-up",
        Basis::Cold | Basis::NoPeak => "none after the warm-up",
    };
    let warm_up = say_time(Duration::from_secs(settings.warm_up));
    line!("  {} of {} measured: {basis} of {warm_up}", report.measured, report.peaks.len());
    notes("peaks");

    let day = &report.peak_days;
    line!(
        "\nThe mean of the {} days with a peak, KB a second by hours of local time (--json has quarters)",
        day.days
    );
    line!("  {:<5} {:>12} {:>12} {:>12} {:>12}", "", "asked for", "missed", "finite cache", "prefetchable");
    for hour in 0..24 {
        let [asked, missed, finite, prefetchable] =
            [&day.referenced, &day.missed, &day.missed_finite, &day.prefetchable].map(|levels| {
                let quarters = levels.iter().skip(4 * hour).take(4);
                quarters.sum::<f64>() / 3600.0 / 1000.0
            });
        line!("  {hour:02}:00 {asked:>12.3} {missed:>12.3} {finite:>12.3} {prefetchable:>12.3}");
    }

    line!("\nHits of an infinite cache, and of one of {}", mb(settings.cache as f64));
    line!("  {:<26} {:>9} {:>9}", "", "requests", "bytes");
    let row = |name: &str, hits: Amount, all: Amount| {
        let requests = share(hits.requests as f64, all.requests as f64);
        line!("  {name:<26} {:>8.1}% {:>8.1}%", 100.0 * requests, 100.0 * hits.share_of(all));
    };
    row("infinite, whole trace", whole.hits, whole.referenced);
    row("finite, whole trace", whole.finite_hits, whole.referenced);
    for (name, side) in sides {
        row(&format!("{name}, measured peaks"), side.hits, report.referenced);
    }
    notes("hits");

    line!("\nMisses of the measured peaks, by bytes");
    line!("  {:<34} {:>22} {:>22}", "", "infinite cache", "finite cache");
    let split = |name: &str, of: fn(&Split) -> Amount| {
        let [one, other] = [infinite, finite].map(|side| {
            let part = of(&side.misses);
            let share = 100.0 * part.share_of(side.misses.missed());
            format!("{:>12} {share:>8.2}%", mb(part.bytes as f64))
        });
        line!("  {name:<34} {one:>22} {other:>22}");
    };
    split("missed", Split::missed);
    split("prefetchable", Split::prefetchable);
    split("  seen", |split| split.seen);
    split("  seen-server", |split| split.seen_server);
    split("    of a server new in that peak", |split| split.server_of_this_peak);
    split("  unseen-server", |split| split.unseen_server);
    split("  of these, assumed unaltered", |split| split.assumed);
    split("not prefetchable: altered", |split| split.altered);
    split("not prefetchable: not cacheable", |split| split.not_cacheable);
    let [least, lower, median, upper, most] = report.prefetchable_shares.map(|share| 100.0 * share);
    line!(
        "  prefetchable by peak, infinite cache: {least:.1}% at least, quartiles {lower:.1}, {median:.1} and {upper:.1}%, {most:.1}% at most"
    );
    if report.again.requests > 0 {
        let (again, altered) = (report.again, report.altered_again);
        line!(
            "  asked for again since the off-peak began: {}; altered in between: {:.1}% of the requests, {:.1}% of the bytes",
            mb(again.bytes as f64),
            100.0 * share(altered.requests as f64, again.requests as f64),
            100.0 * altered.share_of(again)
        );
    }
    if let Some((objects, bytes)) = report.no_miss_prefetchable {
        line!("  no-miss-prefetchable: {objects:.0} objects, {} a peak", mb(bytes));
    }
    if let Some(share) = report.inventory_share {
        line!("  the inventory has {:.1}% of what is prefetchable", 100.0 * share);
    }
    notes("split");
    notes("inventory");

    line!(
        "\nThe prefetchable share of each quarter of an hour: {:.2} ± {:.2}, over {} of them that missed anything",
        report.uniformity.mean,
        report.uniformity.deviation,
        report.uniformity.levels
    );

    line!("\nServers, by what they serve of what is prefetchable (infinite cache)");
    line!(
        "  in the median peak a tenth of the servers with a miss serves {:.0}%, and {:.1}% of them serve half",
        100.0 * report.of_top_tenth,
        100.0 * report.for_half
    );
    for (name, bytes) in report.top.iter().take(5) {
        let all = infinite.misses.prefetchable().bytes as f64;
        line!("  {name:<40} {:>12} {:>6.1}%", mb(*bytes as f64), 100.0 * share(*bytes as f64, all));
    }
    if !report.groups.is_empty() {
        line!("  whether a server that serves in one peak serves in the next (PVP)");
        line!(
            "  {:>10} {:>10} {:>6} {:>14} {:>6} {:>14} {:>8}",
            "servers",
            "predicted",
            "mean",
            "first quartile",
            "median",
            "third quartile",
            "pooled"
        );
        for group in &report.groups {
            let [lower, median, upper] = group.quartiles;
            line!(
                "  {:>10} {:>10} {:>6.2} {lower:>14.2} {median:>6.2} {upper:>14.2} {:>8.2}",
                group.size,
                group.predicted,
                group.mean,
                group.pooled
            );
        }
    }
    notes("servers");

    line!(
        "\nThe highest quarter of an hour of a peak (L_m), and how far perfect prefetching lowers it (L_t), means of the peaks"
    );
    for (name, side) in sides {
        line!("  {name:<9} L_m {:>12}, lower by {:>5.1}%", mb(side.level_max), 100.0 * side.potential);
    }
    notes("target");
}

/// Bytes as MB, 10^6, as the thesis has them; few as KB.
fn mb(bytes: f64) -> String {
    match bytes {
        few if few > 0.0 && few < 1e5 => format!("{:.2} KB", few / 1e3),
        some => format!("{:.2} MB", some / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_read_as_people_write_them() {
        for (text, minutes) in [("+00:00", 0), ("-05:00", -300), ("+05:45", 345), ("+14:00", 840)] {
            assert_eq!(offset(text), Ok(minutes));
        }
        for wrong in ["", "5", "+5:00", "05:00", "+15:00", "+01:60", "+01:0x", "é", "-05"] {
            assert!(offset(wrong).is_err(), "{wrong}");
        }
    }
}
