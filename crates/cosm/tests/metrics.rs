//! What Prometheus makes of the metrics and of the alert rules.

mod support;

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::SOON;
use support::client::Client;
use support::origin::{Origin, Reply};
use support::program::Server;

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus/cosm.rules.yml");

/// An address that was free just now.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Ends with its guard.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn passes(command: &mut Command) {
    let output = command.output().expect("promtool");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// The value that Prometheus has for a query.
fn value(prometheus: &str, query: &str) -> Option<f64> {
    let answer =
        Client::new(prometheus.parse().unwrap()).get(&format!("/api/v1/query?query={query}"), &[]).ok()?;
    let answer: Value = serde_json::from_slice(&answer.body).ok()?;
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

/// Needs prometheus and promtool (Debian's package prometheus).
#[test]
#[ignore = "needs prometheus"]
fn prometheus_reads_the_metrics_and_the_rules() {
    const REQUESTS: usize = 7;
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|_| Reply::fresh("some content"));
    let options = "--cache-size 4MiB --packet 64KiB --admin 127.0.0.1:0";
    let server = Server::start(&folder.path().join("cache"), options);
    let admin = server.admin();
    let mut client = Client::new(server.address);
    for n in 0..REQUESTS {
        let answer = client.get(&origin.url(&format!("/{}", n / 2)), &[]).unwrap();
        assert_eq!(answer.status, 200);
    }
    drop(client);
    let text = Client::new(admin).get("/metrics", &[]).unwrap();
    assert_eq!(text.status, 200);
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut check = check.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("promtool");
    check.stdin.take().unwrap().write_all(&text.body).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    passes(Command::new("promtool").args(["check", "rules", RULES]));

    let config = folder.path().join("prometheus.yml");
    let scrape = format!(
        "global: {{scrape_interval: 100ms, scrape_timeout: 100ms, evaluation_interval: 1s}}\nrule_files: [\"{RULES}\"]\n\
         scrape_configs: [{{job_name: cosm, static_configs: [{{targets: [\"{admin}\"]}}]}}]\n"
    );
    fs::write(&config, scrape).unwrap();
    let address = free();
    let _prometheus = start(&config, &address);
    let began = Instant::now();
    while value(&address, "sum(cosm_requests_total)") != Some(REQUESTS as f64) {
        assert!(began.elapsed() < SOON, "{:?}", value(&address, "sum(cosm_requests_total)"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(value(&address, "cosm_disk_serves"), Some(1.0));
    assert!(server.stop().success());
}

fn start(config: &Path, address: &str) -> Running {
    let data = config.with_file_name("data");
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", data.display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=error")
        .stdout(Stdio::null())
        .spawn()
        .expect("prometheus");
    Running(prometheus)
}
