//! What browsers get that ask the proxy itself what to send to it.

mod support;

use proxy::{Network, Pac, Settings, Token};
use std::sync::Arc;
use support::{Message, Proxy, ok, origin_of};

async fn get(proxy: &Proxy, path: &str, host: &str) -> Message {
    proxy.client().await.get(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await
}

fn goes_to(answer: &Message, proxy: &str) -> bool {
    assert_eq!(
        (answer.status(), answer.field("content-type")),
        (200, Some("application/x-ns-proxy-autoconfig"))
    );
    answer.text().contains("function FindProxyForURL(url, host) {")
        && answer.text().contains(&format!("\"PROXY {proxy}; DIRECT\""))
}

#[tokio::test]
async fn a_forward_proxy_tells_browsers_of_itself() {
    let proxy = Proxy::forward();
    for (path, host, at) in [
        ("/proxy.pac", "cache.example:3128", "cache.example:3128"),
        ("/wpad.dat", "wpad", "wpad:80"),
        ("/proxy.pac?x", "[::1]:3128", "[::1]:3128"),
    ] {
        assert!(goes_to(&get(&proxy, path, host).await, at), "{path} {host}");
    }
    let head = proxy.client().await.get_head("HEAD /proxy.pac HTTP/1.1\r\nHost: a:1\r\n\r\n").await;
    let length = get(&proxy, "/proxy.pac", "a:1").await.body.len();
    assert!(
        head.starts_with("HTTP/1.1 200 ")
            && support::field(&head, "content-length") == Some(&length.to_string()),
        "{head}"
    );
    for (request, status) in [
        ("GET /proxy.pac HTTP/1.1\r\nHost: a;b\r\n\r\n", 400),
        ("GET /proxy.pac HTTP/1.0\r\n\r\n", 400),
        ("GET /proxy.pac HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("POST /proxy.pac HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400),
        ("GET /other HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ] {
        assert_eq!(proxy.client().await.get(request).await.status(), status, "{request}");
    }
    // Another server's own file is that.
    let origin = origin_of(|_, _| ok("Cache-Control: max-age=60\r\n", "of another")).await;
    let others = proxy.client().await.get(origin.request("/proxy.pac", "")).await;
    assert_eq!(others.text(), "of another");
    proxy.reload(Settings { pac: Pac::Own("own".into()), ..Settings::default() });
    assert_eq!(get(&proxy, "/proxy.pac", "a").await.text(), "own");
    proxy.reload(Settings { pac: Pac::Off, ..Settings::default() });
    assert_eq!(get(&proxy, "/proxy.pac", "a").await.status(), 400);
    proxy.reload(Settings { clients: vec!["192.0.2.0/24".parse().unwrap()], ..Settings::default() });
    assert_eq!(get(&proxy, "/proxy.pac", "a").await.status(), 403);
}

#[tokio::test]
async fn a_reverse_proxy_asks_its_origin() {
    let origin = origin_of(|_, _| ok("", "of the origin")).await;
    let proxy = Proxy::reverse(&origin);
    assert_eq!(get(&proxy, "/proxy.pac", "a").await.text(), "of the origin");
}

#[tokio::test]
async fn the_operators_address_tells_of_the_proxys() {
    let with = |listen: &str, change: &dyn Fn(&mut Settings)| {
        Proxy::with(|settings| {
            settings.listen = vec![listen.parse().unwrap()];
            settings.admin = Some("127.0.0.1:0".parse().unwrap());
            settings.admin_token = Some(Arc::new(Token::new("0123456789abcdef").unwrap()));
            settings.clients = Network::private();
            change(settings);
        })
    };
    let ask = async |proxy: &Proxy, path: &str| {
        proxy.admin(format!("GET {path} HTTP/1.1\r\nHost: cache.example:3129\r\n\r\n")).await
    };
    let here = with("127.0.0.1:0", &|_| {});
    assert!(goes_to(&ask(&here, "/wpad.dat").await, &here.address.to_string()));
    let anywhere = with("0.0.0.0:0", &|_| {});
    let at = format!("cache.example:{}", anywhere.address.port());
    assert!(goes_to(&ask(&anywhere, "/proxy.pac").await, &at));
    let reverse = with("127.0.0.1:0", &|settings| settings.origin = Some("http://a".parse().unwrap()));
    assert_eq!(ask(&reverse, "/proxy.pac").await.status(), 404);
    let off = with("127.0.0.1:0", &|settings| settings.pac = Pac::Off);
    assert_eq!(ask(&off, "/proxy.pac").await.status(), 404);
}
