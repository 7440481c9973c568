//! `cargo xtask conformance`: the public suite http-cache-tests against `cosm serve`, as reverse and as forward proxy.
//!
//! `conformance/known.txt` names the tests that are not passed and says why; any other failure fails the run, and so
//! does a known one that passes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The newest release. `--suite` runs a checkout of the source instead.
const SUITE: &str = "http-cache-tests@0.4.5";
const KNOWN: &str = include_str!("../conformance/known.txt");
const RUNNER: &str = "xtask/conformance/run.mjs";

#[derive(Clone, Copy)]
enum Mode {
    Reverse,
    Forward,
}

/// What one test came to.
struct Row {
    kind: String,
    outcome: String,
    suite: String,
    id: String,
    detail: String,
}

/// Two servers of one run; they end with it.
struct Servers {
    origin: Running,
    cosm: Running,
    _folder: Folder,
}

struct Running {
    child: Child,
    address: String,
}

struct Folder(PathBuf);

pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let (suite, only) = match arguments {
        [] => (None, None),
        ["--suite", suite] => (Some(*suite), None),
        ["--id", id] => (None, Some(*id)),
        ["--suite", suite, "--id", id] => (Some(*suite), Some(*id)),
        _ => return Err("usage: cargo xtask conformance [--suite FOLDER] [--id TEST]".into()),
    };
    let cosm = build(root)?;
    let folder = match suite {
        Some(folder) => PathBuf::from(folder),
        None => install(root)?,
    };
    let folder = folder.canonicalize().map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut wrong = Vec::new();
    for (name, mode) in [("reverse proxy", Mode::Reverse), ("forward proxy", Mode::Forward)] {
        eprintln!("{name}: a few hundred tests, about half a minute");
        let servers = Servers::start(root, &folder, &cosm, mode)?;
        let mut rows = servers.tests(root, &folder, mode, only)?;
        // A pause that a busy machine stretched is not the cache's fault: what failed is run once more, alone.
        for row in
            rows.iter_mut().filter(|row| row.counts() && row.outcome != "pass" && reason(&row.id).is_none())
        {
            if let Some(again) = servers.tests(root, &folder, mode, Some(&row.id))?.pop() {
                (row.outcome, row.detail) = (again.outcome, again.detail);
            }
        }
        report(name, &rows);
        wrong.extend(
            verdict(&rows, suite.is_none() && only.is_none()).into_iter().map(|w| format!("{name}: {w}")),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

impl Row {
    fn counts(&self) -> bool {
        self.kind != "check"
    }
}

/// Prints the score by kind, and every test that is not passed with why.
fn report(name: &str, rows: &[Row]) {
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in rows {
        let (passed, all) = kinds.entry(&row.kind).or_default();
        *passed += usize::from(row.outcome == "pass");
        *all += 1;
    }
    let score = |kind| kinds.get(kind).map_or("none".into(), |(passed, all)| format!("{passed} of {all}"));
    let (required, optimal, checks) = (score("required"), score("optimal"), score("check"));
    println!(
        "{name}: required {required}, optimal {optimal}; of the questions without a right answer, yes to {checks}"
    );
    for row in rows.iter().filter(|row| row.counts() && row.outcome != "pass") {
        let why = reason(&row.id).unwrap_or(&row.detail);
        println!("  {:<8} {:<10} {}/{}: {why}", row.kind, row.outcome, row.suite, row.id);
    }
}

fn verdict(rows: &[Row], exact: bool) -> Vec<String> {
    let failed = |row: &&Row| row.counts() && row.outcome != "pass" && reason(&row.id).is_none();
    let mut wrong: Vec<String> = rows.iter().filter(failed).map(|row| format!("{} fails", row.id)).collect();
    if exact {
        let passes = |row: &&Row| row.outcome == "pass" && reason(&row.id).is_some();
        wrong.extend(
            rows.iter().filter(passes).map(|row| format!("{} passes: take it out of known.txt", row.id)),
        );
    }
    wrong
}

/// Why a test is known not to be passed.
fn reason(id: &str) -> Option<&'static str> {
    let lines = KNOWN.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(char::is_whitespace))
        .find(|(known, _)| *known == id)
        .map(|(_, why)| why.trim())
}

impl Servers {
    fn start(root: &Path, suite: &Path, cosm: &Path, mode: Mode) -> Result<Servers, String> {
        let folder = Folder::make(root)?;
        let newer = suite.join("test-engine").exists();
        let server = if newer { "test-engine/server/server.mjs" } else { "server/server.mjs" };
        let mut origin = Command::new("node");
        origin.current_dir(suite).args(["--no-warnings", server]);
        origin.env("npm_config_protocol", "http").env("npm_config_port", "0");
        origin.env("npm_config_pidfile", folder.0.join("origin.pid"));
        let origin =
            Running::start(origin.stdout(Stdio::piped()), |child| child.stdout.take(), "Listening on ")?;
        let mut proxy = Command::new(cosm);
        proxy.args(["serve", "--listen", "127.0.0.1:0", "--cache-size", "64MiB", "--cache"]);
        // The suite asks for what RFC 9111 section 7.3 permits, which is not the default.
        proxy.arg(folder.0.join("cache.cosm")).args(["--set-cookie", "fresh"]);
        if matches!(mode, Mode::Reverse) {
            proxy.args(["--origin", &origin.url()]);
        }
        let cosm =
            Running::start(proxy.stderr(Stdio::piped()), |child| child.stderr.take(), " on 127.0.0.1:")?;
        Ok(Servers { origin, cosm, _folder: folder })
    }

    fn tests(&self, root: &Path, suite: &Path, mode: Mode, only: Option<&str>) -> Result<Vec<Row>, String> {
        let (base, proxy) = match mode {
            Mode::Reverse => (self.cosm.url(), "-".to_owned()),
            Mode::Forward => (self.origin.url(), self.cosm.url()),
        };
        let mut node = Command::new("node");
        node.arg("--no-warnings").arg(root.join(RUNNER)).arg(suite).args([&base, &proxy]).args(only);
        let errors = if only.is_some() { Stdio::inherit() } else { Stdio::null() };
        let output = node.stderr(errors).output().map_err(|e| format!("node: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rows: Option<Vec<Row>> = text.lines().map(row).collect();
        match rows {
            Some(rows) if output.status.success() && !rows.is_empty() => Ok(rows),
            _ => Err(format!("{RUNNER} gave no result ({}); run it by hand to see why", output.status)),
        }
    }
}

fn row(line: &str) -> Option<Row> {
    let mut fields = line.splitn(5, '\t').map(str::to_owned);
    Some(Row {
        kind: fields.next()?,
        outcome: fields.next()?,
        suite: fields.next()?,
        id: fields.next()?,
        detail: fields.next()?,
    })
}

impl Running {
    /// Starts a server and waits for the line in which it tells its port.
    fn start<R: std::io::Read + Send + 'static>(
        command: &mut Command,
        output: impl FnOnce(&mut Child) -> Option<R>,
        before: &str,
    ) -> Result<Running, String> {
        let mut child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
        let lines = output(&mut child).map(|pipe| BufReader::new(pipe).lines());
        let mut running = Running { child, address: String::new() };
        let mut lines = lines.ok_or("no output to read")?;
        let mut said = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once(before) {
                let port = address.trim_end_matches('/').rsplit(':').next().unwrap_or_default();
                running.address = format!("127.0.0.1:{port}");
                // What it says later is read, so that it never waits for a reader.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(running);
            }
            said = line;
        }
        Err(format!("{command:?} did not start: {said}"))
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Folder {
    fn make(root: &Path) -> Result<Folder, String> {
        let path = root.join(format!("target/conformance/run-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    call(Command::new(cargo).current_dir(root).args(["build", "--quiet", "--locked", "--package", "cosm"]))?;
    Ok(crate::bench::target(root).join("debug/cosm"))
}

/// Where the suite is; from the package registry, under target/, when it is not there yet.
fn install(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/conformance");
    let suite = folder.join("node_modules/http-cache-tests");
    if !suite.exists() {
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        // A manifest of its own keeps npm from looking for one above.
        let manifest = std::fs::File::create(folder.join("package.json"));
        manifest.and_then(|mut file| file.write_all(b"{}")).map_err(|e| e.to_string())?;
        eprintln!("installing {SUITE} by npm");
        let mut npm = Command::new("npm");
        npm.current_dir(&folder).args(["install", "--silent", "--ignore-scripts", "--no-save", "--no-audit"]);
        call(npm.args(["--no-fund", "--omit=dev", SUITE]))
            .map_err(|e| format!("{e}; is Node.js with npm installed?"))?;
    }
    Ok(suite)
}

fn call(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[(&str, &str, &str)]) -> Vec<Row> {
        list.iter()
            .map(|(kind, outcome, id)| row(&format!("{kind}\t{outcome}\ts\t{id}\t")).unwrap())
            .collect()
    }

    #[test]
    fn every_known_test_has_a_reason() {
        for line in KNOWN.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let id = line.split_whitespace().next().unwrap();
            assert!(reason(id).is_some_and(|why| why.len() > 7), "{line}");
        }
    }

    #[test]
    fn only_what_is_known_may_fail_and_it_must() {
        let fine =
            [("required", "pass", "a"), ("optimal", "fail", "age-parse-float"), ("check", "fail", "b")];
        assert_eq!(verdict(&rows(&fine), true), [""; 0]);
        for bad in [("required", "fail", "a"), ("optimal", "dependency", "a"), ("required", "harness", "a")] {
            assert_eq!(verdict(&rows(&[bad]), true).len(), 1, "{bad:?}");
        }
        let better = rows(&[("required", "pass", "age-parse-float")]);
        assert_eq!((verdict(&better, true).len(), verdict(&better, false).len()), (1, 0));
    }
}
