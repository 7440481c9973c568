//! `cargo xtask fuzz`: every target of fuzz/ for some seconds, and a line about each.
//!
//! cargo-fuzz (installed under target/ when it is missing) instruments for coverage by flags that the stable compiler
//! takes; only sanitizers need another. So `--sanitizer none`: the parsers have no unsafe code in which one would find
//! more than a panic tells, overflow checks and debug assertions are on, and the toolchain stays the project's own.
//!
//! What the fuzzer learns is kept under target/fuzz/corpus and used again. fuzz/corpus is only read: seeds written by
//! hand. libFuzzer is C++, so this takes a C++ compiler.

use crate::tools;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const CARGO_FUZZ: &str = "0.13.2";
const SECONDS: &str = "20";
/// No parser needs more to show what it does; a single input that takes this many seconds is a finding.
const LIMITS: [&str; 2] = ["-max_len=4096", "-timeout=10"];

pub fn run(arguments: &[&str]) -> Result<(), String> {
    let (seconds, names) = match arguments {
        ["--seconds", seconds, names @ ..] => (*seconds, names),
        names => (SECONDS, names),
    };
    if !seconds.parse::<u32>().is_ok_and(|seconds| seconds > 0) {
        return Err(format!("`{seconds}` is not a number of seconds"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask lies in no folder")?;
    let known = targets(&root.join("fuzz/fuzz_targets"))?;
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|target| target == *name)) {
        return Err(format!("there is no target `{unknown}`; there are {}", known.join(", ")));
    }
    let chosen = known.iter().filter(|target| names.is_empty() || names.contains(&target.as_str()));
    let fuzz = CargoFuzz { program: tools::install("cargo-fuzz", CARGO_FUZZ)?, root };
    fuzz.build(names)?;
    let mut crashes = Vec::new();
    for target in chosen {
        let (line, crash) = fuzz.run(target, seconds)?;
        println!("{target:<12} {line}");
        crashes.extend(crash.map(|crash| format!("{target}: {crash}")));
    }
    if crashes.is_empty() { Ok(()) } else { Err(crashes.join("\n       ")) }
}

struct CargoFuzz<'a> {
    program: PathBuf,
    root: &'a Path,
}

impl CargoFuzz<'_> {
    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.root).args(["fuzz", what, "--fuzz-dir", "fuzz", "--sanitizer", "none"]);
        command.args(["--target-dir", "target/fuzz"]);
        command
    }

    /// One target alone is built alone; several come with all others, which cost little more.
    fn build(&self, names: &[&str]) -> Result<(), String> {
        let mut command = self.command("build");
        if let [name] = names {
            command.arg(name);
        }
        tools::call(&mut command)
    }

    /// What to print about a target, and what crashed it.
    fn run(&self, target: &str, seconds: &str) -> Result<(String, Option<String>), String> {
        let learned = format!("target/fuzz/corpus/{target}");
        std::fs::create_dir_all(self.root.join(&learned)).map_err(|e| format!("{learned}: {e}"))?;
        let mut command = self.command("run");
        command.args([target, &learned, &format!("fuzz/corpus/{target}"), "--"]).args(LIMITS);
        command.args([&format!("-max_total_time={seconds}"), "-print_final_stats=1"]);
        let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
        let log = String::from_utf8_lossy(&output.stderr);
        let told = Reported::of(&log);
        let line = told.line();
        if output.status.success() {
            return Ok((line, None));
        }
        let Some(input) = told.input else {
            return Err(format!("{target} did not run ({}):\n{log}", output.status));
        };
        let why = told.panic.unwrap_or("no panic: too slow, or out of memory");
        Ok((format!("{line}  CRASH"), Some(format!("{why}\n       the input is {input}"))))
    }
}

/// The targets are the files.
fn targets(folder: &Path) -> Result<Vec<String>, String> {
    let files = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let paths = files.flatten().map(|file| file.path());
    let sources = paths.filter(|path| path.extension() == Some(OsStr::new("rs")));
    let mut names: Vec<String> =
        sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// What of libFuzzer's words matters.
#[derive(Debug, Default, PartialEq)]
struct Reported<'a> {
    executions: u64,
    /// Places in the code that were reached, by the corpus at first and in the end.
    covered: Option<(u64, u64)>,
    panic: Option<&'a str>,
    input: Option<&'a str>,
}

impl<'a> Reported<'a> {
    fn of(log: &'a str) -> Reported<'a> {
        let mut told = Reported::default();
        let mut lines = log.lines();
        while let Some(line) = lines.next() {
            if let Some(covered) = number_after(line, "cov: ") {
                told.covered = Some((told.covered.map_or(covered, |c| c.0), covered));
            }
            if let Some(executions) = line.strip_prefix("stat::number_of_executed_units: ") {
                told.executions = executions.trim().parse().unwrap_or(0);
            } else if line.contains("' panicked at ") || line.contains(") panicked at ") {
                told.panic = lines.next();
            } else if let Some((_, path)) = line.split_once("Test unit written to ") {
                told.input = Some(path);
            }
        }
        told
    }

    fn line(&self) -> String {
        let (before, after) = self.covered.unwrap_or_default();
        let new = after - before;
        let crashes = usize::from(self.input.is_some());
        format!("{:>10} executions  {after:>5} covered, {new:>4} new  {crashes} crashes", self.executions)
    }
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuzzers_words_are_understood() {
        let log = "INFO: seed corpus: files: 2 min: 18b max: 19b total: 37b rss: 40Mb\n\
                   #3\tINITED cov: 110 ft: 143 corp: 2/37b exec/s: 0 rss: 41Mb\n\
                   #9\tNEW    cov: 112 ft: 150 corp: 3/40b lim: 19 exec/s: 0 rss: 41Mb\n\
                   thread '<unnamed>' (77) panicked at fuzz_targets/list.rs:14:9:\nassertion failed: x\n\
                   artifact_prefix='fuzz/artifacts/list/'; Test unit written to fuzz/artifacts/list/crash-00\n\
                   stat::number_of_executed_units: 17\n";
        let told = Reported::of(log);
        let crash = (Some("assertion failed: x"), Some("fuzz/artifacts/list/crash-00"));
        assert_eq!((told.panic, told.input), crash);
        assert_eq!((told.executions, told.covered), (17, Some((110, 112))));
    }

    #[test]
    fn every_target_is_declared_and_has_seeds() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
        let targets = targets(&fuzz.join("fuzz_targets")).unwrap();
        assert_eq!(targets.len(), manifest.matches("[[bin]]").count());
        for target in targets {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
            assert!(fuzz.join("corpus").join(&target).read_dir().unwrap().count() > 0, "{target}");
        }
    }
}
