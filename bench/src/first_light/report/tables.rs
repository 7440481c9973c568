//! The tables of the report, as lines of Markdown; one that has nothing to show is no lines.

use super::super::memory::Memory;
use super::super::restart::Restart;
use super::super::run::Run;
use crate::figures::{median, spread, thousands};

/// The runs of one contender in one scenario, a round each.
pub type Group<'a> = Vec<&'a Run>;

/// In the order in which they were first met.
pub fn groups(runs: &[Run]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for run in runs {
        let same =
            |group: &&mut Group| group[0].scenario == run.scenario && group[0].contender == run.contender;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

pub fn requests(groups: &[Group]) -> Vec<String> {
    let head = "| | | requests per CPU-second | least to most | requests/s | p50 µs | p99 µs | hits | proxy's core \
                | load's core |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|";
    let mut lines = table("Requests", head, groups.iter().map(request_row));
    if groups.iter().any(load_was_limit) {
        lines.push(
            "\n\\* The load's core was the limit: requests/s and latencies are its own, not the proxy's."
                .into(),
        );
    }
    lines
}

fn request_row(group: &Group) -> String {
    let (least, most) = spread(group.iter().map(|run| run.per_cpu_second()));
    format!(
        "| {} | {} | {} | {} to {} | {}{} | {} | {} | {} | {:.2} | {:.2} |",
        group[0].scenario,
        group[0].contender,
        thousands(middle(group, Run::per_cpu_second)),
        thousands(least),
        thousands(most),
        thousands(middle(group, |run| run.load.per_second())),
        if load_was_limit(group) { " *" } else { "" },
        thousands(middle(group, |run| run.load.p50_us)),
        thousands(middle(group, |run| run.load.p99_us)),
        hits(group),
        middle(group, Run::proxy_share),
        middle(group, Run::load_share),
    )
}

/// In most of its runs.
fn load_was_limit(group: &Group) -> bool {
    group.iter().filter(|run| run.load_was_limit()).count() * 2 > group.len()
}

/// The references know of no cache.
fn hits(group: &Group) -> String {
    if is_cosm(group) { format!("{:.2} %", 100.0 * middle(group, Run::hit_share)) } else { "–".into() }
}

/// Round by round, since runs of one round saw the same machine.
pub fn ratios(groups: &[Group]) -> Vec<String> {
    let pairs = groups.iter().filter(|group| is_cosm(group)).flat_map(|cosm| {
        let rival = |group: &&Group| group[0].scenario == cosm[0].scenario && !is_cosm(group);
        groups.iter().filter(rival).map(move |other| ratio_row(cosm, other))
    });
    let head = "| | to | ratio | least to most |\n|---|---|---:|---:|";
    table("Cosm's requests per CPU-second to the references', round by round", head, pairs)
}

fn ratio_row(cosm: &Group, other: &Group) -> String {
    let each = || cosm.iter().zip(other).map(|(a, b)| a.per_cpu_second() / b.per_cpu_second());
    let (least, most) = spread(each());
    let middle = median(each()).unwrap_or(f64::NAN);
    format!("| {} | {} | {middle:.2} | {least:.2} to {most:.2} |", cosm[0].scenario, other[0].contender)
}

fn is_cosm(group: &Group) -> bool {
    group[0].contender == "cosm"
}

pub fn device(groups: &[Group]) -> Vec<String> {
    let head = "| | reads | bytes read | of the process | writes | bytes written | of the process | written per \
                byte of body |\n|---|---:|---:|---:|---:|---:|---:|---:|";
    let on_disk = groups.iter().filter(|group| !group[0].scenario.starts_with("memory hit"));
    let mut lines = table("Device, for each request", head, on_disk.map(device_row));
    if !lines.is_empty() {
        lines.push(
            "\nThe device's figures hold everyone's traffic; those of the process are the proxy's alone."
                .into(),
        );
    }
    lines
}

fn device_row(group: &Group) -> String {
    let middle = |figure: fn(&Run) -> f64| middle(group, figure);
    format!(
        "| {} | {:.3} | {} | {} | {:.4} | {} | {} | {:.3} |",
        group[0].scenario,
        middle(|run| run.per_request(run.device.unwrap_or_default().reads)),
        thousands(middle(|run| run.per_request(run.device.unwrap_or_default().read_bytes))),
        thousands(middle(|run| run.per_request(run.proxy.read_bytes))),
        middle(|run| run.per_request(run.device.unwrap_or_default().writes)),
        thousands(middle(|run| run.per_request(run.device.unwrap_or_default().written_bytes))),
        thousands(middle(|run| run.per_request(run.proxy.written_bytes))),
        middle(|run| run.proxy.written_bytes as f64 / run.body_bytes()),
    )
}

pub fn restarts(restarts: &[Restart]) -> Vec<String> {
    if restarts.is_empty() {
        return Vec::new();
    }
    let middle = |figure: fn(&Restart) -> f64| median(restarts.iter().map(figure)).unwrap_or(f64::NAN);
    let spread = |figure: fn(&Restart) -> f64| spread(restarts.iter().map(figure));
    let ready = |restart: &Restart| 1e3 * restart.ready_seconds;
    let first = |restart: &Restart| restart.first_hit_seconds.map_or(f64::INFINITY, |seconds| 1e3 * seconds);
    let kept = |restart: &Restart| 100.0 * restart.kept();
    let rows = [
        format!("| exec to ready | {:.1} ms | {:.1} ms |", middle(ready), spread(ready).1),
        format!("| exec to the first disk hit | {:.1} ms | {:.1} ms |", middle(first), spread(first).1),
        format!("| former hits that hit again | {:.2} % | {:.2} % |", middle(kept), spread(kept).0),
    ];
    let title = format!("Restart after `kill -9`, {} times", restarts.len());
    table(&title, "| | median | worst |\n|---|---:|---:|", rows)
}

pub fn memory(memory: &Memory) -> Vec<String> {
    let row = format!(
        "| {:.1} MiB | {:.1} | {:.1} | {:.1} % |",
        memory.fixed() as f64 / f64::from(1 << 20),
        memory.bytes_per_object(),
        memory.bytes_per_further_object(),
        100.0 * memory.hit_share
    );
    let title =
        format!("Memory, {} objects of 1 KB on disk, no memory tier", thousands(memory.objects as f64));
    let head = "| resident when ready | growth an object, bytes | from the first tenth on | sample that hits \
                |\n|---:|---:|---:|---:|";
    table(&title, head, [row])
}

fn table(title: &str, head: &str, rows: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines = vec![format!("\n## {title}\n"), head.into()];
    lines.extend(rows);
    if lines.len() == 2 { Vec::new() } else { lines }
}

fn middle(group: &Group, figure: fn(&Run) -> f64) -> f64 {
    median(group.iter().map(|run| figure(run))).unwrap_or(f64::NAN)
}
