//! The results: raw figures as JSON, medians as Markdown.

mod tables;

use super::memory::Memory;
use super::restart::Restart;
use super::run::Run;
use super::scale::Scale;
use crate::figures::median;
use crate::machine::{Machine, today};
use serde::Serialize;
use std::path::Path;

/// Cores that others may keep busy before the report warns.
const QUIET: f64 = 0.25;

#[derive(Debug, Serialize)]
pub struct Report {
    pub command: String,
    pub date: String,
    pub machine: Machine,
    pub proxy_core: usize,
    pub load_core: usize,
    pub scale: Scale,
    pub runs: Vec<Run>,
    pub restarts: Vec<Restart>,
    pub memory: Option<Memory>,
}

impl Report {
    pub fn begin(command: String, machine: Machine, scale: Scale, cores: (usize, usize)) -> Report {
        Report {
            command,
            date: today(),
            machine,
            proxy_core: cores.0,
            load_core: cores.1,
            scale,
            runs: Vec::new(),
            restarts: Vec::new(),
            memory: None,
        }
    }

    /// Writes both forms and prints the Markdown.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let markdown = self.markdown();
        let json = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        let say = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(folder).map_err(say)?;
        std::fs::write(folder.join("first-light.md"), &markdown).map_err(say)?;
        std::fs::write(folder.join("first-light.json"), json + "\n").map_err(say)?;
        println!("{markdown}");
        eprintln!("written to {}", folder.display());
        Ok(())
    }

    fn markdown(&self) -> String {
        let groups = tables::groups(&self.runs);
        let mut lines = self.preamble();
        lines.extend(tables::requests(&groups));
        lines.extend(tables::ratios(&groups));
        lines.extend(tables::device(&groups));
        lines.extend(tables::restarts(&self.restarts));
        lines.extend(self.memory.iter().flat_map(tables::memory));
        lines.join("\n") + "\n"
    }

    fn preamble(&self) -> Vec<String> {
        let Machine { cpu, cores, memory_bytes, kernel, file_system_device, cosm, commit, rustc } =
            &self.machine;
        let mut lines = vec![
            format!("# First light, {}\n\n`{}`\n", self.date, self.command),
            format!("{cpu}, {cores} cores, {} GiB; {kernel}; {file_system_device}.", memory_bytes >> 30),
            format!("{cosm} at {commit}, {rustc}."),
            format!(
                "The proxy alone on core {}, load generator and origin on core {}, {} keep-alive connections.",
                self.proxy_core, self.load_core, self.scale.connections
            ),
            format!("Medians of {} runs; those that are compared take turns.", self.scale.rounds),
        ];
        if self.proxy_core == self.load_core {
            lines.push("There was one core for all: requests/s and latencies mean little.".into());
        }
        if self.scale.quick {
            lines.push("Quick: fewer objects and shorter runs than a result needs.".into());
        }
        if let Some(others) = median(self.runs.iter().filter_map(|run| run.others_cores)) {
            lines.push(format!("Others, and kernel threads, kept {others:.2} cores busy meanwhile."));
            if others > QUIET {
                lines.push(
                    "**Not a quiet machine: requests/s, latencies and the device's figures are too bad.**"
                        .into(),
                );
            }
        }
        lines
    }
}
