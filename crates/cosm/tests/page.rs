//! What a browser makes of the operator's page.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use support::client::Client;
use support::origin::{Origin, Reply};
use support::program::Server;

const MARKUP: &str = "<img src=x onerror=\"document.title='taken'\">";

/// What a page has become after seconds of its own, and a picture of it. Nothing may be said on its console.
fn open(folder: &Path, url: &str, size: &str) -> String {
    let browse = |what: &str| {
        let output = Command::new("chromium")
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--enable-logging=stderr",
            ])
            .args([&format!("--window-size={size}"), "--virtual-time-budget=8000", what])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(url)
            .output()
            .expect("chromium");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("CONSOLE"), "{said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let picture = folder.join("page.png");
    browse(&format!("--screenshot={}", picture.display()));
    assert!(fs::metadata(&picture).unwrap().len() > 10_000);
    browse("--dump-dom")
}

/// What stands between the first of two texts and the next of the other.
fn between<'a>(dom: &'a str, begin: &str, end: &str) -> &'a str {
    let at = dom.find(begin).unwrap_or_else(|| panic!("no {begin} in {dom}")) + begin.len();
    &dom[at..at + dom[at..].find(end).unwrap()]
}

/// The content of the first cell of a class behind some text.
fn cell<'a>(dom: &'a str, row: &str, class: &str) -> &'a str {
    let at = dom.find(row).unwrap_or_else(|| panic!("no {row} in {dom}"));
    between(&dom[at..], &format!("<td class=\"{class}\">"), "</td>")
}

/// Needs chromium (Debian's package of that name).
#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_the_numbers_and_finds_an_object_and_text_stays_text() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|_| Reply::fresh("some content").field(format!("X-Markup: {MARKUP}")));
    let options = "--cache-size 4MiB --packet 64KiB --memory 8MiB --admin 127.0.0.1:0";
    let server = Server::start(&folder.path().join("cache"), options);
    let mut client = Client::new(server.address);
    for n in 0..12 {
        assert_eq!(client.get(&origin.url(&format!("/{}", n / 4)), &[]).unwrap().status, 200);
    }
    assert_eq!(client.get("http://127.0.0.1:1/", &[]).unwrap().status, 502);
    drop(client);
    let fragment: String = form_urlencoded::byte_serialize(origin.url("/0").as_bytes()).collect();
    let page = format!("http://{}/#url={fragment}", server.admin());
    for size in ["1200,3000", "390,3000"] {
        let dom = open(folder.path(), &page, size);
        assert!(dom.contains("data-ready=\"yes\""), "{dom}");
        for (outcome, requests) in [("hit-memory", "9"), ("miss", "3"), ("refused-502", "1")] {
            assert_eq!(cell(&dom, &format!("data-outcome=\"{outcome}\""), "requests"), requests, "{outcome}");
        }
        let found = between(&dom, "<div id=\"found\"", "</section>");
        assert!(found.contains(">fresh<") && found.contains(&origin.url("/0")), "{found}");
        assert!(found.contains("x-markup: &lt;img src=x onerror=") && !found.contains("<img"), "{found}");
        assert!(dom.contains("127.0.0.1:1 does not answer") && !dom.contains("<title>taken"), "{dom}");
        assert!(between(&dom, "<div id=\"disks\"", "</section>").contains("sweep at segment"), "{dom}");
    }
    assert!(server.stop().success());
}

/// Needs chromium (Debian's package of that name).
#[test]
#[ignore = "needs chromium"]
fn with_a_token_the_page_asks_for_it_first() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let options =
        format!("--cache-size 4MiB --packet 64KiB --admin 127.0.0.1:0 --admin-token {}", token.display());
    let server = Server::start(&folder.path().join("cache"), &options);
    // A refused request is named on the console, in its own words; nothing else is.
    let output = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("http://{}/", server.admin()))
        .output()
        .expect("chromium");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(dom.contains("<form id=\"login\">") && dom.contains("<div id=\"all\" hidden"), "{dom}");
    assert!(!dom.contains("data-outcome"), "{dom}");
    assert!(server.stop().success());
}
