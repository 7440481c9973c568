//! gRPC through the proxy: another implementation's client and server (Python's grpcio), and what each of them sees.

use super::Request;
use super::bed::Bed;
use super::report::Report;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PEERS: &str = include_str!("grpc_peers.py");
const GRPCIO: &str = "grpcio==1.85.3";

pub fn run(bed: &Bed, _: &Request, report: &mut Report) -> Result<(), String> {
    let script = bed.folder.join("peers.py");
    std::fs::write(&script, PEERS).map_err(|e| format!("{}: {e}", script.display()))?;
    let python = bed.folder.join("python");
    whole(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
    let python = python.join("bin/python");
    whole(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        GRPCIO,
    ]))?;
    let (server, port) = Peer::serve(&python, &script)?;
    let options = ["--origin", &format!("http://127.0.0.1:{port}"), "--origin-http2", "prior-knowledge"];
    let proxy = bed.start_forward(&options.map(str::to_owned))?;
    report.say(format!(
        "{GRPCIO}, its server without TLS behind a reverse proxy, its client in front of it without TLS"
    ));
    let address = proxy.server.address().to_string();
    let asked = Command::new(&python).arg(&script).args(["ask", &address]).stderr(Stdio::inherit()).output();
    let asked = asked.map_err(|e| format!("{}: {e}", python.display()))?;
    let mut count = 0;
    for line in String::from_utf8_lossy(&asked.stdout).lines() {
        let (verdict, what) = line.split_once(": ").ok_or_else(|| format!("the client says `{line}`"))?;
        report.judge(verdict == "holds", what);
        count += 1;
    }
    report.judge(count == 10, format!("{count} of 10 checks were made"));
    drop(server);
    Ok(())
}

fn whole(command: &mut Command) -> Result<(), String> {
    let status = command.stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// A server, until it is dropped.
struct Peer(Child);

impl Peer {
    /// Also the port on which it listens.
    fn serve(python: &Path, script: &Path) -> Result<(Peer, u16), String> {
        let mut command = Command::new(python);
        command.arg(script).arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut peer = Peer(command.spawn().map_err(|e| format!("{}: {e}", python.display()))?);
        let mut line = String::new();
        if let Some(stdout) = peer.0.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|e| format!("the server of gRPC: {e}"))?;
        }
        let port = line.trim().parse().map_err(|_| format!("the server of gRPC says `{}`", line.trim()))?;
        Ok((peer, port))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
