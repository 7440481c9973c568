//! What a browser makes of the operator's page. The tests need chromium (Debian's package of that name).

mod support;

use std::fs;
use support::browser::Browser;
use support::client::Client;
use support::origin::{Origin, Reply};
use support::program::Server;

const OPTIONS: &str = "--cache-size 4MiB --packet 64KiB --memory 8MiB --admin 127.0.0.1:0";

/// An expression for the text of what a selector finds.
fn text(selector: &str) -> String {
    format!("document.querySelector('{selector}').textContent")
}

#[test]
#[ignore = "needs chromium"]
fn the_page_shows_the_numbers_and_finds_and_purges_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|_| Reply::fresh("some content"));
    let server = Server::start(&folder.path().join("cache"), OPTIONS);
    let mut client = Client::new(server.address);
    for n in 0..12 {
        assert_eq!(client.get(&origin.url(&format!("/{}", n / 4)), &[]).unwrap().status, 200);
    }
    assert_eq!(client.get("http://127.0.0.1:1/", &[]).unwrap().status, 502);
    let url: String = form_urlencoded::byte_serialize(origin.url("/0").as_bytes()).collect();
    for width in [1200, 390] {
        let mut page = Browser::start(width);
        page.open(&format!("http://{}/#url={url}", server.admin()));
        page.until("document.documentElement.dataset.ready === 'yes'");
        page.until(&format!("{}.startsWith('fresh')", text("#found")));
        for (outcome, requests) in [("hit-memory", "9"), ("miss", "3"), ("refused-502", "1")] {
            let shown = page.eval(&text(&format!("[data-outcome={outcome}] .requests")));
            assert_eq!(shown, requests, "{outcome}");
        }
        assert!(page.eval(&text("#troubles")).as_str().unwrap().contains("127.0.0.1:1 does not answer"));
        assert!(page.eval(&text("#map-0")).as_str().unwrap().contains("sweep at segment"));
        assert!(page.eval(&text("#urls")).as_str().unwrap().contains(&origin.url("/0")));
        assert!(page.eval(&text("#events")).as_str().unwrap().contains("cannot connect"));
        assert_eq!(page.eval("document.querySelectorAll('#requests rect').length > 0"), true);
        let too_wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(page.eval(too_wide), false, "{width}");
        assert!(page.said.is_empty(), "{:#?}", page.said);
    }
    let mut page = Browser::start(1200);
    page.open(&format!("http://{}/#url={url}", server.admin()));
    page.until(&format!("{}.startsWith('fresh')", text("#found")));
    page.eval("document.querySelector('#purge').click()");
    assert!(client.get(&origin.url("/0"), &[]).unwrap().is_hit(), "it asks first");
    page.eval("document.querySelector('#purge').click()");
    page.until(&format!("{}.startsWith('not stored')", text("#found")));
    assert!(page.said.is_empty(), "{:#?}", page.said);
    assert!(!client.get(&origin.url("/0"), &[]).unwrap().is_hit());
    assert!(server.stop().success());
}

#[test]
#[ignore = "needs chromium"]
fn what_others_wrote_stays_text() {
    const MARKUP: &str =
        "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>";
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|_| Reply::fresh("some content").field(format!("X-Markup: {MARKUP}")));
    let server = Server::start(&folder.path().join("cache"), OPTIONS);
    let mut client = Client::new(server.address);
    let path = "/%3Cimg%20src=x%3E\"{}|'";
    assert_eq!(client.get(&origin.url(path), &[]).unwrap().status, 200);
    let mut page = Browser::start(1200);
    let url: String = form_urlencoded::byte_serialize(origin.url(path).as_bytes()).collect();
    page.open(&format!("http://{}/#url={url}", server.admin()));
    page.until(&format!("{}.startsWith('fresh')", text("#found")));
    page.until("document.documentElement.dataset.ready === 'yes'");
    for place in ["#found", "#urls"] {
        let shown = page.eval(&text(place));
        assert!(shown.as_str().unwrap().contains(path), "{place}: {shown}");
    }
    assert!(page.eval(&text("#found .fields")).as_str().unwrap().contains(MARKUP));
    // What is no URL comes back as text, too.
    let wrong: String = form_urlencoded::byte_serialize(MARKUP.as_bytes()).collect();
    page.eval(&format!("location.hash = 'url={wrong}'"));
    page.until(&format!("{}.includes('is not an http or https URL')", text("#found")));
    assert!(page.eval(&text("#found")).as_str().unwrap().contains("<img"));
    assert_eq!(page.eval("document.querySelectorAll('img, main script').length"), 0);
    assert_eq!(page.eval("document.title.includes('taken')"), false);
    assert!(server.stop().success());
}

#[test]
#[ignore = "needs chromium"]
fn with_a_token_the_page_asks_for_it_first() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let options = format!("{OPTIONS} --admin-token {}", token.display());
    let server = Server::start(&folder.path().join("cache"), &options);
    let mut page = Browser::start(1200);
    page.open(&format!("http://{}/", server.admin()));
    let sign_in = |token: &str| {
        format!(
            "document.querySelector('#token').value = '{token}'; document.querySelector('#login button').click()"
        )
    };
    page.until("document.readyState === 'complete' && !document.querySelector('#login').hidden");
    assert_eq!(page.eval("document.querySelector('#all').hidden"), true);
    for wrong in ["anotherOneWhichIsWrong", "falsch-für-Felder"] {
        page.eval("document.querySelector('#login-why').textContent = ''");
        page.eval(&sign_in(wrong));
        page.until(&format!("{} === 'That is not the token.'", text("#login-why")));
    }
    page.eval(&sign_in("0123456789abcdef"));
    page.until("document.querySelector('#login').hidden && !document.querySelector('#all').hidden");
    page.until(&format!("{}.includes('Nothing is wrong')", text("#troubles")));
    assert!(server.stop().success());
}
