//! `cosm top` and `cosm get`: a proxy that runs, asked from a shell.

mod support;

use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output};
use support::client::Client;
use support::origin::{Origin, Reply};
use support::program::{COSM, Server};

fn cosm(words: &str) -> Output {
    Command::new(COSM).args(words.split_whitespace()).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one line of an error, and the exit status.
fn error(output: &Output) -> (String, Option<i32>) {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.lines().count() == 1 && output.stdout.is_empty(), "{output:?}");
    (said, output.status.code())
}

#[test]
fn get_says_what_is_stored_and_top_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|_| Reply::fresh("some content").field("X-Escape: \u{9}b"));
    let options = "--cache-size 4MiB --packet 64KiB --memory 8MiB --admin 127.0.0.1:0";
    let server = Server::start(&folder.path().join("cache"), options);
    let admin = server.admin();
    let get = |words: &str| text(&cosm(&format!("get {} --admin {admin} {words}", origin.url("/a?b=c&d"))));
    assert!(get("").contains(": not-stored\n"), "{}", get(""));
    let mut client = Client::new(server.address);
    for _ in 0..3 {
        assert_eq!(client.get(&origin.url("/a?b=c&d"), &[]).unwrap().status, 200);
    }
    let told = get("");
    assert!(told.starts_with(&format!("{}: fresh\nIt answers", origin.url("/a?b=c&d"))), "{told}");
    assert!(told.contains("in memory               yes\n") && told.contains("\non disk "), "{told}");
    let told: Value = serde_json::from_str(&get("--json")).unwrap();
    assert_eq!((&told["state"], &told["body-bytes"]), (&"fresh".into(), &12.into()));
    let told: Value = serde_json::from_str(&get("--json -H cache-control:no-cache")).unwrap();
    assert_eq!(told["state"], "request");
    // It asked nobody.
    assert_eq!(origin.asked_for("/a?b=c&d"), 1);

    let top = text(&cosm(&format!("top --admin {admin}")));
    assert!(top.starts_with(&format!("cosm on {admin}, up ")), "{top}");
    let row = top.lines().find(|line| line.starts_with("hit-memory")).unwrap_or_else(|| panic!("{top}"));
    assert_eq!(row.split_whitespace().nth(2), Some("2"), "{row}");
    assert!(top.contains(&origin.url("/a?b=c&d")) && !top.contains('\u{1b}'), "{top}");
    assert!(server.stop().success());
}

#[test]
fn address_and_token_come_from_the_configuration_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, token) = (folder.path().join("admin"), folder.path().join("token"));
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let config = folder.path().join("cosm.toml");
    let (socket, token) = (socket.display(), token.display());
    let settings = format!("admin = \"unix:{socket}\"\nadmin-token = \"{token}\"\nworkers = 1\n");
    fs::write(&config, settings).unwrap();
    let config = config.display();
    let server = Server::start(
        &folder.path().join("cache"),
        &format!("--cache-size 4MiB --packet 64KiB --config {config}"),
    );
    assert!(text(&cosm(&format!("get http://a.example/ --config {config}"))).contains("not-stored"));
    assert!(text(&cosm(&format!("top --config {config}"))).contains("hit ratio"));
    for words in ["top", "reload"] {
        let (said, code) = error(&cosm(&format!("{words} --admin unix:{socket}")));
        assert!(said.contains("--admin-token") && code == Some(1), "{said}");
    }
    assert!(text(&cosm(&format!("reload --config {config}"))).starts_with("settings were read again"));
    let (said, code) = error(&cosm(&format!("get ftp://a/ --config {config}")));
    assert!(said.contains("not an http or https URL") && code == Some(1), "{said}");
    assert!(server.stop().success());
}

#[test]
fn where_nobody_listens_one_line_says_what_to_do() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for words in ["top", "get http://a/"] {
        let (said, code) = error(&cosm(&format!("{words} --admin {free}")));
        assert!(
            said.contains(&free.to_string()) && said.contains("cosm serve --admin") && code == Some(1),
            "{said}"
        );
        let (said, code) = error(&cosm(&format!("{words} --admin unix:/nowhere/at/all")));
        assert!(said.contains("/nowhere/at/all") && code == Some(1), "{said}");
        let (_, code) = error(&cosm(&format!("{words} --admin nonsense")));
        assert_eq!(code, Some(2));
        let (_, code) = error(&cosm(&format!("{words} --config /nowhere/at/all")));
        assert_eq!(code, Some(1));
    }
    // Another program.
    let other = Origin::start(|_| Reply::fresh("no numbers"));
    let address = other.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    for words in ["top", "get http://a/", "reload", "log --follow"] {
        let (said, code) = error(&cosm(&format!("{words} --admin {address}")));
        assert!(said.contains("is no admin interface") && code == Some(1), "{words}: {said}");
    }
    let other = Origin::start(|_| Reply::fresh("{}"));
    let address = other.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    for words in ["top", "get http://a/"] {
        let (said, code) = error(&cosm(&format!("{words} --admin {address}")));
        assert!(said.contains("is no admin interface") && code == Some(1), "{words}: {said}");
    }
}
