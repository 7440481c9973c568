//! A reverse proxy: the host it names to its origin, what it tells of clients, and that no client's word becomes another's
//! page.

mod support;

use proxy::{OriginHost, Settings, Told};
use support::{Client, Origin, Proxy, cache_status, field, ok, origin_of};

/// Tells in its pages what origins believe, and says that they may be kept.
async fn mirror() -> Origin {
    origin_of(|request, _| {
        let names = ["host", "forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];
        let said = names.map(|name| format!("{name}={}", field(request, name).unwrap_or("-"))).join("\n");
        let host = field(request, "host").unwrap();
        ok(&format!("Cache-Control: max-age=600\r\nLocation: http://{host}/login\r\n"), &said)
    })
    .await
}

fn reverse(origin: &Origin, change: impl FnOnce(&mut Settings)) -> Proxy {
    Proxy::with(|settings| {
        settings.admin = Some("127.0.0.1:0".parse().unwrap());
        settings.origin = Some(origin.url("").parse().unwrap());
        change(settings);
    })
}

fn get(path: &str, host: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
}

async fn is_hit(client: &mut Client, path: &str, host: &str) -> bool {
    cache_status(&client.get(get(path, host, "")).await) == "cosm; hit"
}

#[tokio::test]
async fn each_host_has_its_own_page() {
    let origin = mirror().await;
    let proxy = reverse(&origin, |_| {});
    let mut client = proxy.client().await;
    let authority = origin.address.to_string();
    for (host, named, hit) in [
        ("a.example", "a.example", false),
        ("b.example", "b.example", false),
        ("A.Example", "a.example", true),
        ("a.example:80", "a.example", true),
        ("a.example:81", "a.example:81", false),
        ("[::1]:80", "[::1]", false),
        ("", &authority, false),
        ("a.example", "a.example", true),
    ] {
        let answer = client.get(get("/", host, "")).await;
        assert_eq!(answer.text().lines().next(), Some(&*format!("host={named}")), "{host}");
        assert_eq!(cache_status(&answer) == "cosm; hit", hit, "{host}");
        assert_eq!(answer.field("location"), Some(&*format!("http://{named}/login")), "the outer name");
    }
    let absolute = client.get("GET http://B.example/ HTTP/1.1\r\nHost: evil\r\n\r\n").await;
    assert!(absolute.text().starts_with("host=b.example\n") && cache_status(&absolute) == "cosm; hit");
    let old = proxy.exchange("GET / HTTP/1.0\r\n\r\n").await;
    assert!(old.contains(&format!("host={authority}\n")), "{old}");
    for host in ["a:b", "a:1:2", "[x]", "u@a", ":80"] {
        assert_eq!(proxy.client().await.get(get("/", host, "")).await.status(), 400, "{host}");
    }
}

#[tokio::test]
async fn a_setting_names_another_host_and_then_all_share_a_page() {
    let origin = mirror().await;
    let authority = origin.address.to_string();
    for (setting, named) in [("origin", &*authority), ("Www.Example:80", "www.example")] {
        let proxy = reverse(&origin, |settings| settings.origin_host = setting.parse().unwrap());
        let mut client = proxy.client().await;
        for host in ["evil.example", "good.example"] {
            let answer = client.get(get("/", host, "")).await;
            assert!(answer.text().starts_with(&format!("host={named}\n")), "{answer:?}");
            assert!(!answer.text().contains("evil"), "{answer:?}");
        }
        assert!(is_hit(&mut client, "/", "other.example").await);
    }
    assert!("a b".parse::<OriginHost>().is_err() && "http://a".parse::<OriginHost>().is_err());
}

#[tokio::test]
async fn what_clients_say_of_their_origin_poisons_nothing() {
    let origin = origin_of(|request, _| {
        let lines = request.lines().filter(|line| line.contains("evil"));
        ok("Cache-Control: max-age=600\r\nVary: X-Forwarded-Host, X-A\r\n", &lines.collect::<String>())
    })
    .await;
    for (number, name) in [
        "X-Forwarded-Host",
        "X_Forwarded_Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Prefix",
        "Forwarded",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Host",
        "X-Real-IP",
        "True-Client-IP",
        "Front-End-Https",
    ]
    .into_iter()
    .enumerate()
    {
        let evil = format!("{name}: evil.example\r\nConnection: x-forwarded-for, forwarded\r\n");
        let reversed = reverse(&origin, |_| {});
        let answer = reversed.client().await.get(get("/", "a", &evil)).await;
        assert_eq!(answer.text(), "", "{name}");
        let sent = origin.requests().pop().unwrap();
        assert_eq!(field(&sent, "x-forwarded-for"), Some("127.0.0.1"), "{name}");
        assert!(is_hit(&mut reversed.client().await, "/", "a").await, "{name}: it is no other variant");
        let forward = Proxy::forward();
        let path = format!("/{number}");
        assert_eq!(forward.client().await.get(origin.request(&path, &evil)).await.text(), "", "{name}");
    }
}

#[tokio::test]
async fn origins_are_told_of_clients_as_it_is_set() {
    let said = |proxy: Proxy, request: String| async move {
        proxy.client().await.get(request).await.text().replace("127.0.0.1", "C")
    };
    let (origin, proxies) = (mirror().await, "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Proto: https\r\n");
    let told = "host=h:81\nforwarded=for=C;proto=http\nx-forwarded-for=C\n\
                x-forwarded-proto=http\nx-forwarded-host=h:81";
    let nothing = "\nforwarded=-\nx-forwarded-for=-\nx-forwarded-proto=-\nx-forwarded-host=-";
    let request = || get("/", "H:81", "");
    assert_eq!(said(reverse(&origin, |_| {}), request()).await, told);
    let off = reverse(&origin, |settings| settings.forwarded = Told::Off);
    assert_eq!(said(off, request()).await, format!("host=h:81{nothing}"));
    let named = reverse(&origin, |settings| settings.origin_host = "n".parse().unwrap());
    let told = said(named, request()).await;
    assert_eq!(
        told,
        "host=n\nforwarded=for=C;proto=http\nx-forwarded-for=C\nx-forwarded-proto=http\nx-forwarded-host=-"
    );
    let trusting = reverse(&origin, |settings| settings.trust = vec!["127.0.0.0/8".parse().unwrap()]);
    let told = said(trusting, get("/", "h", proxies)).await;
    assert_eq!(
        told,
        "host=h\nforwarded=-\nx-forwarded-for=192.0.2.9, C\nx-forwarded-proto=https\nx-forwarded-host=h"
    );
    // A forward proxy keeps it to itself.
    assert!(said(Proxy::forward(), origin.request("/", proxies)).await.ends_with(nothing));
    let on = Proxy::with(|settings| settings.forwarded = Told::On);
    assert!(said(on, origin.request("/", proxies)).await.contains("\nx-forwarded-for=C\n"));
}

#[tokio::test]
async fn pages_that_vary_by_what_origins_are_told_are_selected_by_that() {
    let origin = origin_of(|request, _| {
        let proto = field(request, "x-forwarded-proto").unwrap_or("-");
        ok("Cache-Control: max-age=600\r\nVary: X-Forwarded-Proto\r\n", proto)
    })
    .await;
    let proxy = reverse(&origin, |settings| settings.trust = vec!["127.0.0.2".parse().unwrap()]);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut trusted = Client::of(socket.connect(proxy.address).await.unwrap());
    let mut other = proxy.client().await;
    let (http, https) = ("X-Forwarded-Proto: http\r\n", "X-Forwarded-Proto: https\r\n");
    for (is_trusted, fields, page, hit) in [
        (true, "", "http", false),
        (true, https, "https", false),
        (true, "", "http", true),
        (true, http, "http", true),
        (true, https, "https", true),
        (false, https, "http", true),
        (false, "", "http", true),
    ] {
        let client = if is_trusted { &mut trusted } else { &mut other };
        let answer = client.get(get("/", "h", fields)).await;
        assert_eq!((answer.text(), cache_status(&answer) == "cosm; hit"), (page, hit), "{fields}");
    }
}

#[tokio::test]
async fn the_star_is_for_options_alone() {
    let origin = mirror().await;
    let proxy = reverse(&origin, |_| {});
    let star = |method: &str| format!("{method} * HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(proxy.client().await.get(star("OPTIONS")).await.status(), 200);
    assert!(origin.requests()[0].starts_with("OPTIONS * HTTP/1.1\r\n"));
    for method in ["GET", "HEAD", "POST", "QUERY"] {
        for proxy in [&proxy, &Proxy::forward()] {
            let mut client = proxy.client().await;
            client.send(star(method)).await;
            assert!(client.head().await.unwrap().starts_with("HTTP/1.1 400 "), "{method}");
        }
    }
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn purges_name_hosts_as_the_world_knows_them() {
    let origin = mirror().await;
    for (what, gone) in [
        ("url=http://a.example/x", &["a /x"][..]),
        ("url=https://A.example:443/x", &["a /x"]),
        ("url=http://a.example:80/x", &["a /x"]),
        ("prefix=https://a.example/", &["a /x", "a /y"]),
        ("host=a.example", &["a /x", "a /y"]),
        ("host=127.0.0.1", &[]),
        ("all", &["a /x", "a /y", "b /x", "b /y"]),
    ] {
        let proxy = reverse(&origin, |_| {});
        let mut client = proxy.client().await;
        let pages = [("a", "/x"), ("a", "/y"), ("b", "/x"), ("b", "/y")];
        for (host, path) in pages {
            assert!(!is_hit(&mut client, path, &format!("{host}.example")).await);
            assert!(is_hit(&mut client, path, &format!("{host}.example")).await);
        }
        assert_eq!(proxy.purge(what).await.status(), 200, "{what}");
        for (host, path) in pages {
            let page = format!("{host} {path}");
            let stays = is_hit(&mut client, path, &format!("{host}.example")).await;
            assert_eq!(stays, !gone.contains(&&*page), "{what}: {page}");
        }
    }
}

#[tokio::test]
async fn a_path_alone_is_purged_on_every_host() {
    let origin = mirror().await;
    for what in ["url=/x", "prefix=/"] {
        let proxy = reverse(&origin, |_| {});
        let mut client = proxy.client().await;
        for host in ["a.example", "b.example"] {
            assert!(!is_hit(&mut client, "/x", host).await && is_hit(&mut client, "/x", host).await);
        }
        assert_eq!(proxy.purge(what).await.status(), 200, "{what}");
        for host in ["a.example", "b.example"] {
            assert!(!is_hit(&mut client, "/x", host).await, "{what}: {host}");
        }
    }
}
