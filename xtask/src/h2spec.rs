//! `cargo xtask verify h2`: the cases of h2spec against `cosm serve`, over TLS and by prior knowledge.
//!
//! What is not passed is named in `KNOWN`, with why; any other failure fails the run.

use crate::tools::call;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// A case that is not passed without TLS, and why.
const KNOWN: [(&str, &str); 1] = [(
    "Sends invalid connection preface",
    "the port speaks HTTP/1.1 too, by which a client that begins with anything else is answered before its connection is closed",
)];

/// What an origin takes to answer, so that streams are open while frames for them come.
const PAUSE: Duration = Duration::from_millis(20);

pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let out = match arguments {
        [] => None,
        ["--out", folder] => Some(PathBuf::from(folder)),
        _ => return Err("usage: cargo xtask verify h2 [--out FOLDER]".into()),
    };
    let h2spec = install(root)?;
    call(Command::new("cargo").current_dir(root).args([
        "build",
        "--quiet",
        "--locked",
        "--package",
        "cosm",
    ]))?;
    let folder = root.join(format!("target/h2spec/run-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let result = cases(root, &folder, &h2spec);
    let _ = std::fs::remove_dir_all(&folder);
    let (text, wrong) = result?;
    print!("{text}");
    if let Some(out) = out {
        let path = out.join("h2spec.txt");
        std::fs::write(&path, format!("$ cargo xtask verify h2\n\n{text}"))
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What came of all cases, and what is wrong.
fn cases(root: &Path, folder: &Path, h2spec: &Path) -> Result<(String, Vec<String>), String> {
    let (certificate, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout"]);
    call(openssl.arg(&key).arg("-out").arg(&certificate).stderr(Stdio::null()))?;
    let origin = origin()?;
    let pair = format!("{}:{}", certificate.display(), key.display());
    let server = Server::start(root, &pair, &origin)?;
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for (name, port, tls) in
        [("TLS", server.ports.1, &["-t", "-k"][..]), ("prior knowledge", server.ports.0, &[][..])]
    {
        let mut run = Command::new(h2spec);
        run.args(["-h", "127.0.0.1", "-o", "5", "-p", &port.to_string()]).args(tls);
        let output = run.output().map_err(|e| format!("h2spec: {e}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let known = if tls.is_empty() { &KNOWN[..] } else { &[] };
        let (score, failed) = judge(&said);
        text += &format!("{name}: {}\n", score.as_deref().unwrap_or("no result"));
        for case in &failed {
            match known.iter().find(|(known, _)| case.contains(known)) {
                Some((_, why)) => text += &format!("  not passed: {case}: {why}\n"),
                None => wrong.push(format!("{name}: {case}")),
            }
        }
        if score.is_none() {
            wrong.push(format!("{name}: h2spec gave no result: {}", said.trim()));
        }
    }
    Ok((text, wrong))
}

/// The last line, and the cases that failed.
fn judge(said: &str) -> (Option<String>, Vec<String>) {
    let score = said.lines().rev().find(|line| line.contains(" tests, "));
    let failures = said.split_once("Failures:").map_or("", |(_, failures)| failures);
    let failed = failures.lines().filter_map(|line| line.trim().strip_prefix('×'));
    (score.map(|score| score.trim().to_owned()), failed.map(|case| case.trim().to_owned()).collect())
}

/// Where the program is; by Go, under target/, when it is not there yet.
fn install(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/tools/bin");
    let program = folder.join("h2spec");
    if !program.exists() {
        eprintln!("installing {H2SPEC}");
        call(
            Command::new("go").args(["install", H2SPEC]).env("GOBIN", &folder).env("GOFLAGS", "-modcacherw"),
        )
        .map_err(|e| format!("{e}; is Go installed?"))?;
    }
    Ok(program)
}

/// Answers all requests on a port, whose URL this gives.
fn origin() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| format!("origin: {e}"))?;
    let address = listener.local_addr().map_err(|e| format!("origin: {e}"))?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    Ok(format!("http://{address}"))
}

fn answer(mut stream: TcpStream) {
    let Ok(reading) = stream.try_clone() else { return };
    let mut lines = BufReader::new(reading);
    let mut length = 0;
    loop {
        let mut line = String::new();
        match lines.read_line(&mut line) {
            Ok(1..) => {}
            _ => return,
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            let _ = std::io::copy(&mut lines.by_ref().take(length), &mut std::io::sink());
            std::thread::sleep(PAUSE);
            let body = "x".repeat(100);
            let answer =
                format!("HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 100\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
            length = 0;
        }
    }
}

/// Ends with this.
struct Server {
    child: Child,
    /// Without TLS, and with it.
    ports: (u16, u16),
}

impl Server {
    fn start(root: &Path, certificate: &str, origin: &str) -> Result<Server, String> {
        let mut cosm = Command::new(crate::bench::target(root).join("debug/cosm"));
        cosm.args(["serve", "--listen", "127.0.0.1:0,tls:127.0.0.1:0", "--cache", "off", "--workers", "1"]);
        cosm.args(["--tls-certificate", certificate, "--origin", origin]).stderr(Stdio::piped());
        let mut child = cosm.spawn().map_err(|e| format!("cosm: {e}"))?;
        let mut lines = child.stderr.take().map(|pipe| BufReader::new(pipe).lines()).ok_or("no output")?;
        let mut server = Server { child, ports: (0, 0) };
        let mut said = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some((_, addresses)) = line.split_once(" on 127.0.0.1:") {
                let mut ports = addresses.split(", ").map(|address| address.rsplit(':').next()?.parse().ok());
                if let (Some(Some(plain)), Some(Some(tls))) = (ports.next(), ports.next()) {
                    server.ports = (plain, tls);
                    std::thread::spawn(move || lines.for_each(drop));
                    return Ok(server);
                }
            }
            said = line;
        }
        Err(format!("cosm did not start: {said}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_found_in_what_is_said() {
        let said = "  ✔ 1: Sends a frame\n  × 2: Sends nothing\n\nFailures:\n\n  3.5. Preface\n      × 2: Sends nothing\n        -> must\n\n\
                    Finished in 0.2 seconds\n145 tests, 144 passed, 0 skipped, 1 failed\n";
        let (score, failed) = judge(said);
        assert_eq!(score.unwrap(), "145 tests, 144 passed, 0 skipped, 1 failed");
        assert_eq!(failed, ["2: Sends nothing"]);
        assert_eq!(judge(""), (None, Vec::new()));
    }
}
