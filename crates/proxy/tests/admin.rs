//! Who may use the operator's address, as its clients see it.

mod support;

use proxy::Token;
use std::sync::Arc;
use support::{Message, Proxy};

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
