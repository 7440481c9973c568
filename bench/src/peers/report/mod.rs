//! The results: raw figures as JSON, medians as text, Markdown and pictures.

mod plots;
mod svg;
mod table;
mod tables;

use super::field::Field;
use super::figure::{self, Row};
use super::scale::Scale;
use super::scenario::Results;
use crate::cgroup;
use crate::figures::median;
use crate::machine::{Machine, today};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use table::Table;

/// Cores that others may keep busy before the report warns.
const QUIET: f64 = 0.25;
/// Share of its core from which load and origin hold a contender back.
const LIMIT: f64 = 0.95;

#[derive(Serialize)]
pub struct Report {
    command: String,
    date: String,
    machine: Machine,
    versions: BTreeMap<String, String>,
    cgroup_version: &'static str,
    proxy_core: usize,
    load_core: usize,
    scale: Scale,
    notes: Vec<&'static str>,
    #[serde(flatten)]
    results: Results,
}

impl Report {
    pub fn of(
        command: String,
        machine: Machine,
        cores: (usize, usize),
        field: &Field,
        results: Results,
    ) -> Report {
        let is_peer =
            |name: &String| field.contenders.iter().any(|one| one.package.name() == Some(name.as_str()));
        let versions = field.packages.versions.clone().into_iter().filter(|(name, _)| is_peer(name));
        Report {
            command,
            date: today(),
            machine,
            versions: versions.collect(),
            cgroup_version: cgroup::version(),
            proxy_core: cores.0,
            load_core: cores.1,
            scale: field.scale,
            notes: field.contenders.iter().filter_map(|one| one.note()).collect(),
            results,
        }
    }

    /// Writes all forms and prints the text.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let tables = tables::of(&self.results);
        let text = self.text(&tables, Table::text, "");
        let say = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(folder).map_err(say)?;
        let pictures = plots::of(&self.results);
        let mut markdown = self.text(&tables, Table::markdown, "## ");
        for (name, picture) in &pictures {
            std::fs::write(folder.join(name), picture).map_err(say)?;
            markdown += &format!("\n![{name}]({name})\n");
        }
        let json = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        std::fs::write(folder.join("peers.txt"), &text).map_err(say)?;
        std::fs::write(folder.join("peers.md"), markdown).map_err(say)?;
        std::fs::write(folder.join("peers.json"), json + "\n").map_err(say)?;
        println!("{text}");
        eprintln!("written to {}", folder.display());
        Ok(())
    }

    /// `mark` begins a title.
    fn text(&self, tables: &[Table], form: fn(&Table) -> String, mark: &str) -> String {
        let title = if mark.is_empty() { "" } else { "# " };
        let mut lines = vec![format!("{title}Side by side, {}", self.date)];
        lines.extend(self.preamble());
        for table in tables {
            lines.push(format!("{mark}{}\n\n{}", table.title, form(table)));
            lines.extend(table.note.iter().map(|note| format!("{note}\n")));
        }
        if !self.results.refused.is_empty() {
            lines.push(format!("{mark}No figure\n"));
            let each = self.results.refused.iter();
            lines.extend(each.map(|one| format!("- {}, {}: {}", one.scenario, one.contender, one.why)));
        }
        lines.join("\n") + "\n"
    }

    fn preamble(&self) -> Vec<String> {
        let Machine { cpu, cores, memory_bytes, kernel, file_system_device, cosm, commit, rustc } =
            &self.machine;
        let versions: Vec<String> =
            self.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let mut lines = vec![
            format!("\n`{}`\n", self.command),
            format!("{cpu}, {cores} cores, {} GiB; {kernel}; {file_system_device}.", memory_bytes >> 30),
            format!("{cosm} at {commit}, {rustc}. Packages: {}.", versions.join(", ")),
            format!(
                "Each contender one worker alone on core {}, load generator and origin on core {}.",
                self.proxy_core, self.load_core
            ),
            format!(
                "Medians of {} rounds, least to most in parentheses; everyone takes turns in every round. Control \
                 groups of version {}.",
                self.scale.rounds, self.cgroup_version
            ),
            "Device figures are for each request and hold everyone's traffic; `by itself` is what the kernel holds the \
             contender's own processes to account for."
                .into(),
        ];
        lines.extend(self.notes.iter().map(|note| (*note).to_owned()));
        if self.proxy_core == self.load_core {
            lines.push("There was one core for all: requests/s and latencies mean little.".into());
        }
        if self.scale.quick {
            lines.push("Quick: fewer objects and shorter runs than a result needs.".into());
        }
        let others = self.results.rows.iter().filter_map(|row| row.figure(&figure::OTHERS));
        if let Some(others) = median(others) {
            lines.push(format!("Others, and kernel threads, kept {others:.2} cores busy meanwhile."));
            if others > QUIET {
                lines.push(
                    "Not a quiet machine: requests/s, latencies and device figures are too bad.".into(),
                );
            }
        }
        let limited = at_limit(&self.results.rows);
        if !limited.is_empty() {
            lines.push(format!(
                "Load and origin were at their own limit, and requests/s would be more: {}.",
                limited.join("; ")
            ));
        }
        lines.push(String::new());
        lines
    }
}

/// Whose requests came no faster for want of load, and where.
fn at_limit(rows: &[Row]) -> Vec<String> {
    let busy = rows.iter().filter(|row| row.figure(&figure::LOAD_CORE).is_some_and(|core| core > LIMIT));
    let mut names: Vec<String> = busy.map(|row| format!("{}, {}", row.scenario, row.contender)).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_held_back_is_named_once() {
        let row = |contender, round, core| Row {
            scenario: "hit".into(),
            contender,
            round,
            figures: vec![(&figure::LOAD_CORE, core)],
        };
        let rows = [row("cosm", 0, 0.99), row("nginx", 0, 0.5), row("cosm", 1, 0.97)];
        assert_eq!(at_limit(&rows), ["hit, cosm"]);
    }
}
