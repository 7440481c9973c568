//! `cosm lab` on a real directory, its block trace on modelled devices, and what it says when it cannot.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const COSM: &str = env!("CARGO_BIN_EXE_cosm");
const RUN: [&str; 8] = ["lab", "compare", "--like", "dec", "--memory", "1MiB", "--disk", "8MiB"];

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(COSM);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn compare(medium: &str, more: &[&str]) -> (u32, Output) {
    let child = start(&[&RUN[..], &["--medium", medium, "--json"], more].concat());
    (child.id(), child.wait_with_output().unwrap())
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    all["rows"].as_array().unwrap().clone()
}

/// The one line that was said.
fn refusal(output: &Output, status: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn is_empty(folder: &Path) -> bool {
    folder.read_dir().unwrap().next().is_none()
}

/// Control groups and tracing instances of a process.
fn left_behind(process: u32) -> Vec<String> {
    let name = format!("cosm-lab-{process}-");
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let ours = groups.lines().filter_map(|line| line.rsplit(':').next());
    let mut folders: Vec<String> = ours.map(|path| format!("/sys/fs/cgroup/memory{path}")).collect();
    folders.extend(
        ["/sys/fs/cgroup/memory", "/sys/fs/cgroup", "/sys/kernel/tracing/instances"].map(str::to_owned),
    );
    let entries = folders.iter().filter_map(|folder| Path::new(folder).read_dir().ok()).flatten().flatten();
    entries
        .map(|one| one.file_name().to_string_lossy().into_owned())
        .filter(|one| one.starts_with(&name))
        .collect()
}

#[test]
fn a_real_directory_is_asked_for_the_same_as_a_model() {
    let place = tempfile::tempdir().unwrap();
    let recipes = ["--recipes", "squid,buddy,stream-packetizer,lazy-reads-loc,unified", "--requests", "4000"];
    let (process, output) = compare(&format!("dir:{}", place.path().display()), &recipes);
    let real = rows(&output);
    assert!(is_empty(place.path()));
    assert_eq!(left_behind(process), [""; 0]);
    for medium in ["st15150w", "hdd-18t", "sata-ssd", "nvme"] {
        let modelled = rows(&compare(medium, &recipes).1);
        assert_eq!(modelled.len(), real.len());
        for (model, real) in modelled.iter().zip(&real) {
            assert_eq!(model["outcomes"], real["outcomes"], "{medium}");
            // How long reads wait for others depends on the clock, and so does what they find in memory.
            if model["recipe"] != "lazy-reads-loc" {
                assert_eq!(model["operations"], real["operations"], "{medium}: {}", model["recipe"]);
            }
            assert!(model["device_writes"].as_u64().unwrap() > 0);
            let flash = medium == "sata-ssd" || medium == "nvme";
            assert_eq!(model["write_amplification"].is_null(), !flash, "{medium}");
        }
    }
    for row in &real {
        match row["counted_by"].as_str() {
            Some(_) => assert!(row["device_bytes_written"].as_u64().unwrap() > 1 << 20, "{row}"),
            None => assert!(row["device_writes"].is_null() && row["device_bytes_read"].is_null(), "{row}"),
        }
    }
}

#[test]
fn modelled_media_are_the_same_in_every_run() {
    for medium in ["hdd-18t:1GiB", "sata-ssd", "nvme:256MiB"] {
        let run = || compare(medium, &["--recipes", "squid,stream", "--requests", "3000"]).1;
        assert_eq!(rows(&run()), rows(&run()), "{medium}");
    }
}

#[test]
fn a_captured_trace_is_replayed_on_every_device() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, file) = (place.path().join("work"), place.path().join("captured"));
    std::fs::create_dir(&work).unwrap();
    let capture = ["--recipes", "stream", "--requests", "3000", "--capture", file.to_str().unwrap()];
    let (process, output) = compare(&format!("dir:{}", work.display()), &capture);
    assert!(is_empty(&work));
    assert_eq!(left_behind(process), [""; 0]);
    if !output.status.success() {
        // Who may not see the kernel's events is told so, and what to do.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let why = said.lines().last().unwrap_or_default();
        assert!(["tracefs", "tracing", "disk"].iter().any(|word| why.contains(word)), "{said}");
        return;
    }
    let full = ["--recipes", "stream", "--requests", "300", "--capture", "/dev/full"];
    let cut = compare(&format!("dir:{}", work.display()), &full).1;
    let said = String::from_utf8_lossy(&cut.stderr);
    assert!(cut.status.code() == Some(1) && said.contains("the captured trace"), "{said}");
    let real = &rows(&output)[0];
    assert_eq!(real["counted_by"], "block events");
    let output = start(&["lab", "devices", "--trace", file.to_str().unwrap(), "--strict", "--json"]);
    let found = rows(&output.wait_with_output().unwrap());
    assert_eq!(found.len(), 4);
    for row in &found {
        // What was captured began before the first request was counted.
        let counted = real["device_reads"].as_u64().unwrap() + real["device_writes"].as_u64().unwrap();
        assert!(row["requests"].as_u64().unwrap() >= counted && counted > 0, "{row}");
    }
}

#[test]
fn what_was_measured_is_a_medium() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, file) = (place.path().join("work"), place.path().join("disk.json"));
    std::fs::create_dir(&work).unwrap();
    let (work, file) = (work.to_str().unwrap(), file.to_str().unwrap());
    let measure = |size: &str, more: &[&str]| {
        let run = ["lab", "measure", work, "--size", size, "--time", "10ms", "--files", "500", "--out", file];
        start(&[&run[..], more].concat()).wait_with_output().unwrap()
    };
    let output = measure("2MiB", &[]);
    assert!(is_empty(Path::new(work)));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        // Not every filesystem can be read and written past the page cache.
        assert!(said.contains("past the page cache"), "{said}");
        return;
    }
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.lines().count() == 18 && table.contains("hdd-18t"), "{table}");
    let speeds: Value = serde_json::from_slice(&measure("2MiB", &["--json"]).stdout).unwrap();
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(speeds == kept && speeds["read-4k"].as_f64().unwrap() > 0.0, "{speeds}");
    let medium = format!("measured:{file}");
    let run = || compare(&medium, &["--recipes", "squid,stream", "--requests", "3000"]).1;
    assert_eq!(rows(&run()), rows(&run()));
    std::fs::write(file, "{}").unwrap();
    assert!(refusal(&compare(&medium, &["--recipes", "stream"]).1, 1).contains("no speed `read-4k-32`"));
    assert!(refusal(&measure("1KiB", &[]), 2).contains("at least 1MiB"));
}

#[test]
fn a_signal_ends_a_run_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let medium = format!("dir:{}", place.path().display());
    let child = start(&[&RUN[..], &["--medium", &medium, "--recipes", "squid,simple"]].concat());
    let (process, patience) = (child.id(), Instant::now() + Duration::from_secs(60));
    while !place.path().join("cosm-lab/0").exists() {
        assert!(Instant::now() < patience, "the run does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("interrupted"), "{said}");
    assert!(is_empty(place.path()));
    assert_eq!(left_behind(process), [""; 0]);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    for (medium, more, status, why) in [
        ("floppy", &[][..], 2, "there are st15150w"),
        ("nvme:1GB", &[], 2, "not a size"),
        ("nvme:1MiB", &["--recipes", "stream"], 1, "smaller than the file of the cache"),
        ("nvme", &["--limit", "1MiB"], 2, "at least 64MiB"),
        ("nvme", &["--capture", "x"], 2, "--capture"),
        ("nvme", &["--largest", "8192TiB"], 2, "0B to 4096TiB"),
        (&format!("dir:{}", "d".repeat(300)), &["--recipes", "stream"], 2, "medium is longer than 200 bytes"),
        (&format!("dir:{}", at("nowhere")), &["--recipes", "stream"], 1, "not a directory"),
    ] {
        let said = refusal(&compare(medium, more).1, status);
        assert!(said.contains(why), "{said}");
    }
    std::fs::create_dir(at("cosm-lab")).unwrap();
    std::fs::write(at("cosm-lab/notes"), "of somebody").unwrap();
    let medium = format!("dir:{}", place.path().display());
    assert!(refusal(&compare(&medium, &["--recipes", "stream"]).1, 1).contains("not ours"));
    assert_eq!(std::fs::read_to_string(at("cosm-lab/notes")).unwrap(), "of somebody");
    let huge = [&RUN[..4], &["--recipes", "stream", "--disk", "1000TiB", "--medium", &medium]].concat();
    std::fs::remove_dir_all(at("cosm-lab")).unwrap();
    assert!(refusal(&start(&huge).wait_with_output().unwrap(), 1).contains("MB needed"));

    std::fs::write(at("trace"), "0 10 R 8 8\nnonsense\n").unwrap();
    let devices = |more: &[&str]| {
        start(&[&["lab", "devices", "--trace", &at("trace")], more].concat()).wait_with_output().unwrap()
    };
    assert!(refusal(&devices(&["--strict"]), 1).contains("line 2: `nonsense`"));
    assert!(refusal(&devices(&["--devices", "floppy"]), 2).contains("there are st15150w"));
    assert!(refusal(&devices(&["--depth", "0"]), 2).contains("at least 1"));
    let found = devices(&["--json"]);
    assert_eq!(rows(&found).len(), 4);
    assert!(String::from_utf8_lossy(&found.stderr).contains("1 malformed lines"));

    // More than one of them has room for.
    let wide: String = (0..5000).map(|nth| format!("0 - W {} 8\n", nth * 3 * 2048)).collect();
    std::fs::write(at("trace"), wide).unwrap();
    let found = devices(&["--json"]);
    assert_eq!(rows(&found).len(), 3);
    assert!(String::from_utf8_lossy(&found.stderr).contains("st15150w has"));
    assert!(refusal(&devices(&["--devices", "st15150w"]), 1).contains("choose another"));
    assert_eq!(rows(&devices(&["--devices", "nvme, hdd-18t", "--json"])).len(), 2);
}
