//! Settings as an operator meets them: files, what is printed of them, checks before a start, and signals.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};
use support::SOON;
use support::client::Client;
use support::origin::{Origin, Reply};
use support::program::{Server, run};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }
}

fn serve(words: &[&str]) -> Output {
    run([&["serve"], words].concat())
}

fn out(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn without_columns(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_file_is_toml_or_lines_and_says_the_same() {
    let folder = Folder::new();
    let toml = folder.write(
        "cosm.conf",
        "# ours\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\ncache = \"/srv/my #1\" # the first\ncmax = 2\n",
    );
    let lines = folder
        .write("cosm.lines", "# ours\nlisten 127.0.0.1:0,[::1]:0\ncache /srv/my#1  # the first\ncmax 2\n");
    let printed = out(&serve(&["--config", &toml, "--print-config", "--drain-timeout", "50s"]));
    for line in [
        format!("listen = \"127.0.0.1:0,[::1]:0\" # {toml}:2"),
        format!("cache = \"/srv/my #1\" # {toml}:3"),
        format!("cmax = 2 # {toml}:4"),
        "drain-timeout = \"50s\" # command line; reloads".into(),
        "packet = \"1MiB\" # default".into(),
    ] {
        assert!(printed.lines().any(|printed| without_columns(printed) == line), "no `{line}` in\n{printed}");
    }
    // Read again it is the same, and all of it comes from that file.
    let again = folder.write("printed.toml", &printed);
    let values = |text: &str| -> BTreeSet<String> {
        text.lines().map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect()
    };
    let reprinted = out(&serve(&["--config", &again, "--print-config"]));
    assert_eq!(values(&reprinted), values(&printed));
    assert!(!reprinted.contains("# default"));
    let of_lines = out(&serve(&["--config", &lines, "--print-config", "--drain-timeout", "50s"]));
    let expected = printed.replace("/srv/my #1\" ", "/srv/my#1\"  ");
    assert_eq!(values(&of_lines), values(&expected));
    // The command line goes before a file.
    let over = out(&serve(&["--config", &lines, "--print-config", "--cmax", "3"]));
    assert!(over.contains("cmax = 3 ") && !over.contains("cmax = 2"), "{over}");
}

#[test]
fn a_server_runs_by_a_file() {
    let folder = Folder::new();
    let file =
        folder.write("cosm.toml", "pseudonym = \"edge-7\"\ncache-size = \"4MiB\"\npacket = \"64KiB\"\n");
    let origin = Origin::start(|_| Reply::fresh("x"));
    let server = Server::start(&folder.path("cache"), &format!("--config {file}"));
    let answer = Client::new(server.address).get(&origin.url("/"), &[]).unwrap();
    assert_eq!(answer.header("via").as_deref(), Some("1.1 edge-7"));
    assert!(server.stop().success());
    assert_eq!(fs::metadata(folder.path("cache")).unwrap().len(), 4 << 20);
}

#[test]
fn what_is_wrong_in_a_file_is_one_line_with_its_place() {
    let folder = Folder::new();
    for (text, says) in [
        ("cmax = 1\nlisen = 1\n", ":2: no setting is called `lisen`; did you mean `listen`?"),
        ("cmax 1\n\ndisk-patience 0ms\n", ":3: disk-patience: 0ms is out of bounds: 1ms to 1h"),
        (
            "flush-interval = \"0ms\"\ncmax = 4\n",
            ":1: flush-interval: 0ms is out of bounds: 1ms to 1h; cosm serve --check tells 1 error more",
        ),
        ("cmax = 1\ncache = /srv\n", ":2: "),
    ] {
        let file = folder.write("cosm.toml", text);
        let output = serve(&["--config", &file]);
        let said = said(&output);
        assert!(output.status.code() == Some(2) && said.lines().count() == 1, "{said}");
        assert!(said.starts_with(&format!("cosm: {file}{says}")), "{text}: {said}");
        assert!(said.trim_end().ends_with("; see cosm serve --help"), "{said}");
    }
}

#[test]
fn wrong_options_point_to_the_help_that_has_them() {
    for (words, says, help) in [
        ("serve --lisen 1", "did you mean --listen?", "cosm serve --help"),
        ("serve --listen 8080", "write 127.0.0.1:8080 for clients on this host alone", "cosm serve --help"),
        ("serve --listen localhost:8080", "write an address, like 127.0.0.1:8080", "cosm serve --help"),
        ("serve --connect-ports 0", "`0` is not a port: 1 to 65535", "cosm serve --help"),
        ("serve --trust 10.0.0.5/8", "write 10.0.0.0/8 for the network", "cosm serve --help"),
        ("inspect", "<PATH>", "cosm inspect --help"),
        ("serv", "did you mean serve?", "cosm --help"),
    ] {
        let output = run(words.split(' '));
        let said = said(&output);
        assert!(output.status.code() == Some(2) && said.lines().count() == 1, "{words}: {said}");
        assert!(said.contains(says) && said.trim_end().ends_with(&format!("see {help}")), "{words}: {said}");
    }
}

#[test]
fn help_has_every_setting_with_its_default_and_bounds() {
    let help = out(&serve(&["--help"])).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "--packet <SIZE> Size of a write to the cache on disk, a power of two; an existing cache keeps its own [default: 1MiB; 64KiB to 16MiB]",
        "--cache-size <SIZE|auto> Maximum size of each cache on disk",
        "--io <auto|uring|threads>",
        "--check",
        "--print-config",
    ] {
        assert!(help.contains(words), "{words}: {help}");
    }
    for setting in cosm::settings::TABLE {
        assert!(help.contains(&format!(" --{} <", setting.name)), "{}", setting.name);
    }
}

/// Messages tell operators what to do: the options that they name are there.
#[test]
fn options_that_messages_name_are_there() {
    let known = |name: &str| {
        const OTHERS: [&str; 4] = ["config", "check", "print-config", "help"];
        OTHERS.contains(&name) || cosm::settings::TABLE.iter().any(|setting| setting.name == name)
    };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders = vec![crates.join("proxy/src"), crates.join("store/src")];
    let mut found = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // The simulation names options of its own command, to those who test.
                if !path.ends_with("store/src/model") {
                    folders.push(path);
                }
                continue;
            }
            // Names in a style sheet begin so, too.
            if path.extension().is_some_and(|extension| extension == "css") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for (at, _) in text.match_indices("--") {
                let end = |c: char| !(c.is_ascii_lowercase() || c == '-');
                let name = text[at + 2..].split(end).next().unwrap_or_default();
                if name.starts_with(|c: char| c.is_ascii_lowercase()) {
                    assert!(known(name), "{}: there is no option --{name}", path.display());
                    found += 1;
                }
            }
        }
    }
    assert!(found > 5, "the messages were not read");
}

// Before a start

#[test]
fn a_configuration_without_end_is_refused() {
    for words in [&["serve", "--check"][..], &["reload"], &["top"]] {
        let output = run(words.iter().chain(&["--config", "/dev/zero"]));
        assert!(
            !output.status.success() && said(&output).contains("larger than 16777216 bytes"),
            "{words:?}"
        );
    }
}

#[test]
fn a_check_finds_what_a_start_would_and_writes_nothing() {
    let folder = Folder::new();
    let (cache, foreign) = (folder.path("cache"), folder.write("foreign", &"not ours\n".repeat(10_000)));
    let cache = cache.to_str().unwrap();
    let check = |words: &str| {
        serve(&["--check", "--listen", "127.0.0.1:0"].into_iter().chain(words.split(' ')).collect::<Vec<_>>())
    };
    let right = check(&format!("--cache {cache} --cache-size 4MiB --packet 64KiB"));
    assert_eq!(out(&right), "ok\n");
    assert!(said(&right).contains("a start will create it, with 4MiB"), "{}", said(&right));
    assert_eq!(out(&check("--cache off")), "ok\n");
    let unix = format!("unix:{}", folder.path("admin.sock").display());
    assert_eq!(out(&check(&format!("--cache off --admin {unix}"))), "ok\n");
    fs::File::create(folder.path("blank")).unwrap().set_len(4 << 20).unwrap();
    let blank = check(&format!("--cache {} --packet 64KiB", folder.path("blank").display()));
    assert!(out(&blank) == "ok\n" && said(&blank).contains("it is blank"), "{}", said(&blank));
    fs::remove_file(folder.path("blank")).unwrap();
    let missing = folder.path("no/such/cache");
    let elsewhere = Folder::new();
    elsewhere.write("token", "0123456789abcdef\n");
    let token = elsewhere.path("token").display().to_string();
    let may_be_read = |mode| fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
    may_be_read(0o644);
    let open = check(&format!("--cache off --admin-token {token}"));
    assert!(out(&open) == "ok\n" && said(&open).contains("every user of this machine may read it"));
    let plain = check("--cache off --origin http://127.0.0.1:1 --hsts max-age=60");
    assert!(out(&plain) == "ok\n" && said(&plain).contains("hsts: nothing listens with TLS"));
    let pipe = elsewhere.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let pipe = check(&format!("--cache {}", pipe.display()));
    assert!(pipe.status.code() == Some(1) && said(&pipe).contains("the check found 1 error"));
    may_be_read(0o640);
    for (words, code, says) in [
        ("--cache off --cmax 4 --io fast", 2, &["--io: ", "--cmax: ", "the check found 2 errors"][..]),
        (&format!("--cache {}", missing.display()), 1, &["cannot be created", "the check found 1 error"]),
        (&format!("--cache {foreign}"), 1, &["not a Cosm cache", "1 error"]),
        (&format!("--cache {cache} --cache-size 4MiB"), 1, &["too small for its packets", "1 error"]),
        (
            &format!("--cache {cache} --cache-size 200TiB"),
            1,
            &["is too little: ", "free; choose a smaller --cache-size", "2 errors"],
        ),
        ("--cache off --admin 192.0.2.1:0", 2, &["other hosts reach 192.0.2.1:0", "1 error"]),
        (
            &format!("--cache off --admin 192.0.2.1:0 --admin-token {token}"),
            1,
            &["cannot listen on 192.0.2.1:0", "1 error"],
        ),
        (&format!("--cache off --admin-token {foreign}"), 2, &["cannot read token", "1 error"]),
        (
            &format!("--cache off --admin unix:{foreign}"),
            1,
            &["a file is there that is no socket", "the check found 1 error"],
        ),
        (
            &format!("--cache off --admin unix:{}", missing.display()),
            1,
            &["cache: its folder is not there", "the check found 1 error"],
        ),
        (
            &format!(
                "--cache off --access-log {0} --error-log {0}.error --pid-file {0}.pid",
                missing.display()
            ),
            1,
            &["cannot write access log", "cannot write error log", "cannot write pid-file", "3 errors"],
        ),
        (
            &format!("--cache off --access-log {}", folder.path("").display()),
            1,
            &["cannot write access log", "the check found 1 error"],
        ),
    ] {
        let output = check(words);
        let said = said(&output);
        assert!(output.status.code() == Some(code) && output.stdout.is_empty(), "{words}: {said}");
        assert_eq!(said.lines().count(), says.len(), "{words}: {said}");
        assert!(
            said.lines().zip(says).all(|(line, says)| line.starts_with("cosm: ") && line.contains(says)),
            "{said}"
        );
    }
    let left: Vec<_> =
        fs::read_dir(folder.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["foreign"]);
}

#[test]
fn a_check_works_beside_the_server() {
    let folder = Folder::new();
    let cache = folder.path("cache");
    let server = Server::start(&cache, "--cache-size 4MiB --packet 64KiB");
    let at = server.address.to_string();
    let words = ["--check", "--listen", &at, "--cache", cache.to_str().unwrap()];
    let output = serve(&words);
    assert_eq!(out(&output), "ok\n");
    assert!(said(&output).contains(&format!("{at} is in use")), "{}", said(&output));
    let other = serve(&[&words[..], &["--cache-size", "8MiB"]].concat());
    assert!(
        other.status.success() && said(&other).contains("a start will change it to 8MiB"),
        "{}",
        said(&other)
    );
    let other = serve(&[&words[..], &["--cache-size", "3TiB"]].concat());
    assert!(
        other.status.code() == Some(1) && said(&other).contains("choose a smaller --cache-size"),
        "{}",
        said(&other)
    );
    assert_eq!(std::fs::metadata(&cache).unwrap().len(), 4 << 20);
    assert!(server.stop().success());
}

/// What a kill leaves behind is in nobody's way; what a server that runs has is.
#[test]
fn a_socket_of_a_server_that_was_killed_is_taken_over() {
    let folder = Folder::new();
    let (cache, socket) = (folder.path("cache"), folder.path("admin.sock"));
    let options = format!("--cache-size 4MiB --packet 64KiB --admin unix:{}", socket.display());
    let check = || {
        let words = format!("--check --listen 127.0.0.1:0 --cache off --admin unix:{}", socket.display());
        serve(&words.split(' ').collect::<Vec<_>>())
    };
    let first = Server::start(&cache, &options);
    assert!(first.opened.contains(&format!("admin on unix:{}", socket.display())), "{}", first.opened);
    assert!(said(&check()).contains("admin.sock is in use: by this proxy"), "{}", said(&check()));
    first.kill();
    assert!(socket.exists());
    let checked = check();
    assert!(out(&checked) == "ok\n" && !said(&checked).contains("in use"), "{}", said(&checked));
    let second = Server::start(&cache, &options);
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
    assert!(second.stop().success());
    assert!(!socket.exists());
}

// Signals

#[test]
fn sighup_reads_the_settings_again() {
    let folder = Folder::new();
    let origin = Origin::start(|_| Reply::fresh("x"));
    let file = folder.path("cosm.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("allow = \"127.0.0.1\"\ncmax = 3\n");
    let options = format!("--cache-size 4MiB --packet 64KiB --config {}", file.display());
    let server = Server::start(&folder.path("cache"), &options);
    let id = Pid::from_raw(server.id() as i32).unwrap();
    let mut client = Client::new(server.address);
    let mut get = || client.get(&origin.url("/"), &[]).unwrap().status;
    assert_eq!(get(), 200);
    write("allow = \"10.0.0.0/8\"\ncmax = 2\n");
    kill_process(id, Signal::HUP).unwrap();
    assert_eq!(server.next_event(), "info settings: settings were read again; changed: allow");
    assert_eq!(server.next_event(), "info settings: these change at the next start: cmax");
    assert_eq!(get(), 403, "on the connection that was there before");
    write("allow = \"127.0.0.1\"\ncmax = 4\n");
    kill_process(id, Signal::HUP).unwrap();
    let said = server.next_event();
    assert!(
        said.starts_with("warn settings: settings stay as they are: ") && said.contains(":2: cmax: "),
        "{said}"
    );
    assert_eq!(get(), 403);
    write("allow = \"127.0.0.1\"\n");
    kill_process(id, Signal::HUP).unwrap();
    assert_eq!(server.next_event(), "info settings: settings were read again; changed: allow");
    assert_eq!(get(), 200);
    assert!(server.stop().success());
}

/// By day nothing of it is done; a reload says that there is no day any more.
#[test]
fn off_peak_hours_are_local_and_reload() {
    let folder = Folder::new();
    let date = std::process::Command::new("date").arg("+%H").output().unwrap();
    let hour: u8 = String::from_utf8(date.stdout).unwrap().trim().parse().unwrap();
    let (from, to) = ((hour + 11) % 24, (hour + 13) % 24);
    let config = folder.write("cosm.toml", &format!("off-peak = \"{from:02}:00-{to:02}:00\"\n"));
    let options = format!("--cache-size 4MiB --packet 64KiB --admin 127.0.0.1:0 --config {config}");
    let server = Server::start(&folder.path("cache"), &options);
    let admin = server.admin();
    let is_off_peak = || {
        let told = Client::new(admin).get("/stats.json", &[]).unwrap().body;
        serde_json::from_slice::<serde_json::Value>(&told).unwrap()["store"]["off-peak"].as_u64().unwrap()
    };
    let wait_for = |expected: u64| {
        let began = Instant::now();
        while is_off_peak() != expected {
            assert!(began.elapsed() < SOON, "{expected}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for(0);
    folder.write("cosm.toml", "off-peak = \"any\"\n");
    kill_process(Pid::from_raw(server.id() as i32).unwrap(), Signal::HUP).unwrap();
    assert_eq!(server.next_event(), "info settings: settings were read again; changed: off-peak");
    wait_for(1);
    assert!(server.stop().success());
}

#[test]
fn a_signal_to_open_logs_anew_is_survived_without_any() {
    let folder = Folder::new();
    let origin = Origin::start(|_| Reply::fresh("x"));
    let server = Server::start(&folder.path("cache"), "--cache-size 4MiB --packet 64KiB");
    let id = Pid::from_raw(server.id() as i32).unwrap();
    kill_process(id, Signal::USR1).unwrap();
    assert_eq!(Client::new(server.address).get(&origin.url("/"), &[]).unwrap().body, b"x");
    assert!(server.stop().success());
}

#[test]
fn small_packets_are_said_in_their_unit() {
    let folder = Folder::new();
    let server = Server::start(&folder.path("cache"), "--cache-size 8MiB --packet 256KiB");
    assert!(server.opened.contains("(8 MiB, 256 KiB packets)"), "{}", server.opened);
    assert!(server.stop().success());
}

/// The error says what would do, and that does; a little less does not.
#[test]
fn memory_that_is_too_little_is_refused_with_the_least_that_would_do() {
    let folder = Folder::new();
    let cache = folder.path("cache");
    let words = |total: &str, more: &str| -> Vec<String> {
        let line = format!(
            "serve --listen 127.0.0.1:0 --workers 1 --cache-size 32MiB --memory-total {total} {more} --cache"
        );
        line.split_whitespace().map(str::to_owned).chain([cache.to_str().unwrap().to_owned()]).collect()
    };
    for more in ["", "--memory 100MiB", "--connections-max 5000 --packet 64KiB"] {
        let output = run(words("16MiB", more));
        let refused = said(&output);
        assert!(output.status.code() == Some(2) && refused.lines().count() == 1, "{refused}");
        let start = "cosm: --memory-total 16MiB is too little: program ";
        assert!(refused.starts_with(start) && refused.contains("store buffers "), "{refused}");
        let least: u64 = refused
            .split("; at least ")
            .nth(1)
            .and_then(|rest| rest.split("MiB would do").next()?.parse().ok())
            .unwrap_or_else(|| panic!("{refused}"));
        assert!(!cache.exists(), "nothing was touched");
        let less = run(words(&format!("{}MiB", least - 1), more));
        assert_eq!(less.status.code(), Some(2), "{}", said(&less));
        assert!(said(&less).contains(&format!("; at least {least}MiB would do")), "{}", said(&less));
        let server = Server::start(&cache, &format!("--cache-size 32MiB --memory-total {least}MiB {more}"));
        assert!(server.stop().success());
        fs::remove_file(&cache).unwrap();
    }
    // A check shows the parts, which are all of it.
    let output = run([words("200MiB", "--check --memory 16MiB"), vec![]].concat());
    let table = said(&output);
    assert_eq!(output.status.code(), Some(0), "{table}");
    for part in ["memory 200 MiB:", "index ", "store buffers ", "memory tier ", "in transit ", "connections "]
    {
        assert!(table.contains(part), "no {part} in\n{table}");
    }
}
