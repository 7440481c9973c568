//! What a topic found, as text, and whether its claim holds.

use crate::figures::{median, spread};
use crate::machine::Machine;
use std::fmt::Display;
use std::path::Path;

pub struct Report {
    lines: Vec<String>,
    broken: usize,
}

impl Report {
    pub fn begin(claim: &str, command: &str, machine: &Machine) -> Report {
        let Machine { commit, cosm, cpu, cores, kernel, file_system_device, .. } = machine;
        let mut report = Report { lines: Vec::new(), broken: 0 };
        report.say(claim);
        report.say(format!("$ {command}"));
        report.say(format!("commit {commit}, {cosm}; {cpu}, {cores} cores; {kernel}; {file_system_device}"));
        report.say("");
        report
    }

    pub fn say(&mut self, line: impl Display) {
        println!("{line}");
        self.lines.push(line.to_string());
    }

    /// A part of the claim.
    pub fn judge(&mut self, holds: bool, what: impl Display) {
        self.broken += usize::from(!holds);
        self.say(format!("{}: {what}", if holds { "holds" } else { "DOES NOT HOLD" }));
    }

    pub fn write(&self, folder: &Path, topic: &str) -> Result<(), String> {
        let path = folder.join(format!("verify-{topic}.txt"));
        let say = |e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::create_dir_all(folder).map_err(say)?;
        std::fs::write(&path, self.lines.join("\n") + "\n").map_err(say)?;
        eprintln!("written to {}", path.display());
        Ok(())
    }

    pub fn verdict(&self) -> Result<(), String> {
        match self.broken {
            0 => Ok(()),
            broken => Err(format!("{broken} parts of the claim do not hold")),
        }
    }
}

/// Median, least and most.
pub fn summed(figures: &[f64], digits: usize) -> String {
    let (least, most) = spread(figures.iter().copied());
    let middle = median(figures.iter().copied()).unwrap_or(f64::NAN);
    format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_that_does_not_hold_is_enough() {
        let mut report = Report { lines: Vec::new(), broken: 0 };
        report.judge(true, "first");
        assert!(report.verdict().is_ok());
        report.judge(false, "second");
        report.judge(true, "third");
        assert!(report.verdict().is_err());
        assert_eq!(report.lines, ["holds: first", "DOES NOT HOLD: second", "holds: third"]);
    }

    #[test]
    fn summed_up() {
        assert_eq!(summed(&[1.0, 3.0, 2.0], 1), "2.0 (1.0 to 3.0)");
    }
}
