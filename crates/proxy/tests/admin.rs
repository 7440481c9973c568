//! Who may use the operator's address, as its clients see it.

mod support;

use proxy::Token;
use std::sync::Arc;
use support::{Message, Proxy, cache_status, ok, origin_of};

const TOKEN: &str = "0123456789abcdef";

async fn ask(proxy: &Proxy, request: &str, fields: &str) -> Message {
    proxy.admin(format!("{request} HTTP/1.1\r\n{fields}\r\n")).await
}

#[tokio::test]
async fn without_a_token_only_names_of_this_host_are_answered() {
    let proxy = Proxy::with(|settings| settings.admin = Some("127.0.0.1:0".parse().unwrap()));
    for (fields, expected) in [
        ("Host: localhost\r\n", 200),
        ("Host: 127.0.0.1\r\n", 200),
        ("Host: rebound.example\r\n", 403),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403),
        ("Host: localhost\r\nVia: 1.1 x\r\n", 403),
    ] {
        for request in ["GET /stats.json", "POST /purge?all"] {
            let answer = ask(&proxy, request, fields).await;
            assert_eq!(answer.status(), expected, "{request} {fields}");
        }
    }
}

#[tokio::test]
async fn with_a_token_all_but_the_state_wants_it() {
    let proxy = Proxy::with(|settings| {
        settings.admin = Some("127.0.0.1:0".parse().unwrap());
        settings.admin_token = Some(Arc::new(Token::new(TOKEN).unwrap()));
    });
    for request in ["GET /stats.json", "POST /purge?all", "GET /nothing"] {
        let answer = ask(&proxy, request, "Host: localhost\r\n").await;
        assert_eq!(answer.status(), 401, "{request}");
        assert!(answer.field("www-authenticate").unwrap().starts_with("Basic "));
        assert!(!answer.text().contains("/purge"), "{}", answer.text());
        let authorized = format!("Host: cache.example\r\nAuthorization: Bearer {TOKEN}\r\n");
        assert_ne!(ask(&proxy, request, &authorized).await.status(), 401, "{request}");
    }
    let state = ask(&proxy, "GET /readyz", "Host: 127.0.0.1\r\n").await;
    assert_eq!((state.status(), state.text()), (200, "ok\n"));
    // By a probe's own name for it.
    assert_eq!(ask(&proxy, "GET /healthz", "Host: cache.example\r\n").await.status(), 200);
    assert_eq!(ask(&proxy, "GET /healthz", "Host: cache.example\r\nVia: 1.1 x\r\n").await.status(), 403);
}

#[test]
fn a_token_is_a_secret() {
    let token = Token::new(&format!(" {TOKEN}\n")).unwrap();
    assert_eq!(format!("{token:?}"), "Token");
    assert_eq!(token.reveal(), TOKEN);
    for wrong in ["", "short", "0123456789 abcdef", "0123456789abcdé0"] {
        assert!(Token::new(wrong).is_none(), "{wrong}");
    }
}

#[tokio::test]
async fn clients_that_may_purge_by_the_method_and_others_do_not() {
    let origin = origin_of(|request, _| match request.starts_with("PURGE") {
        true => ok("", "passed"),
        false => ok("Cache-Control: max-age=600\r\nVary: X-Kind\r\n", "page"),
    })
    .await;
    let purge = || origin.request("/", "").replacen("GET", "PURGE", 1);
    let proxy = |networks: &str| {
        let networks = networks.split(',').filter(|text| !text.is_empty()).map(|text| text.parse().unwrap());
        let networks: Vec<_> = networks.collect();
        Proxy::with(|settings| settings.purge_from = networks)
    };
    let allowed = proxy("127.0.0.0/8");
    let mut client = allowed.client().await;
    let kinds = ["X-Kind: a\r\n", "X-Kind: b\r\n"];
    for _ in 0..2 {
        assert_eq!(client.get(purge()).await.status(), 404);
        for kind in kinds {
            client.get(origin.request("/", kind)).await;
            assert_eq!(cache_status(&client.get(origin.request("/", kind)).await), "cosm; hit");
        }
        let purged = client.get(purge()).await;
        assert_eq!((purged.status(), purged.text()), (200, "purged\n"));
        for kind in kinds {
            let answer =
                client.get(origin.request("/", &format!("Cache-Control: only-if-cached\r\n{kind}"))).await;
            assert_eq!(answer.status(), 504, "{kind}");
        }
    }
    let refused = proxy("192.0.2.0/24").client().await.get(purge()).await;
    assert!(refused.status() == 403 && refused.reason().contains("--purge-from"), "{refused:?}");
    // Where nobody may, it is no word of ours.
    let passed = proxy("").client().await.get(purge()).await;
    assert_eq!((passed.status(), passed.text()), (200, "passed"));
}
