//! Requests over HTTP/2 that two readers could understand differently: refused, and nothing of them reaches an origin that speaks
//! HTTP/1 (RFC 9113 sections 8.2, 8.3 and 10.3).

mod support;

use support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Raw, block, frame, reason,
    status,
};
use support::{Origin, Proxy, field, ok};

const PROTOCOL_ERROR: u32 = 1;

/// What a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gets {
    Status(u16),
    /// The stream is reset.
    Reset,
    /// The connection ends.
    GoAway,
}

use Gets::{GoAway, Reset, Status};

type Fields<'a> = &'a [(&'a [u8], &'a [u8])];

/// Sends a request of its own connection, and then content; what comes of it.
async fn gets(proxy: &Proxy, fields: &[(Vec<u8>, Vec<u8>)], content: Option<&[&[u8]]>) -> Gets {
    let mut raw = Raw::connect(proxy.address).await;
    let flags = END_HEADERS | if content.is_none() { END_STREAM } else { 0 };
    let mut bytes = frame(HEADERS, flags, 1, &block(fields));
    let pieces = content.unwrap_or_default();
    for (n, piece) in pieces.iter().enumerate() {
        bytes.extend(frame(DATA, if n + 1 == pieces.len() { END_STREAM } else { 0 }, 1, piece));
    }
    raw.0.send(bytes).await;
    let came =
        raw.next_of(&[HEADERS, RST_STREAM, GOAWAY]).await.expect("the connection ended without a word");
    match came.0 {
        HEADERS => Status(status(&came.3).unwrap_or_else(|| panic!("{:x?}", came.3))),
        RST_STREAM => {
            assert_eq!(reason(&came), PROTOCOL_ERROR);
            // Others go on.
            raw.settled().await;
            Reset
        }
        _ => {
            assert_eq!(reason(&came), PROTOCOL_ERROR);
            GoAway
        }
    }
}

/// The pseudo-fields of `GET host/path`, then these.
fn asking(host: &str, path: &str, more: Fields) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pseudo: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "http"), (":authority", host), (":path", path)];
    let pseudo = pseudo.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    pseudo.into_iter().chain(more.iter().map(|(name, value)| (name.to_vec(), value.to_vec()))).collect()
}

#[tokio::test]
async fn fields_that_could_be_read_differently() {
    let origin = Origin::answering(ok("Cache-Control: no-store\r\n", "hello")).await;
    let table: &[(Fields, Gets)] = &[
        (&[(b"x-good", b"a\tb c")], Status(200)),
        (&[(b"te", b"trailers")], Status(200)),
        (&[(b"x", b"a\rb")], GoAway),
        (&[(b"x", b"a\nb")], GoAway),
        (&[(b"x", b"a\r\nhost: evil")], GoAway),
        (&[(b"x", b"a\0b")], GoAway),
        (&[(b"x\r\ny", b"a")], GoAway),
        (&[(b"x:y", b"a")], GoAway),
        (&[(b"x y", b"a")], GoAway),
        (&[(b"", b"a")], GoAway),
        (&[(b"X", b"a")], GoAway),
        (&[(b"Content-Length", b"0")], GoAway),
        (&[(b"transfer-encoding", b"chunked")], Reset),
        (&[(b"transfer-encoding", b"identity")], Reset),
        (&[(b"connection", b"close")], Reset),
        (&[(b"connection", b"x-a"), (b"x-a", b"1")], Reset),
        (&[(b"proxy-connection", b"keep-alive")], Reset),
        (&[(b"keep-alive", b"timeout=5")], Reset),
        (&[(b"upgrade", b"h2c")], Reset),
        (&[(b"te", b"gzip")], Reset),
        (&[(b"te", b"trailers, gzip")], Reset),
        (&[(b"content-length", b"1")], Reset),
        (&[(b"content-length", b"0"), (b"content-length", b"1")], Reset),
        (&[(b"content-length", b"-0")], Reset),
        (&[(b"content-length", b"+0")], Reset),
        (&[(b"content-length", b"0,0")], Reset),
        (&[(b"content-length", b" 0")], Reset),
        (&[(b"content-length", b"99999999999999999999999")], Reset),
        (&[(b":path", b"/other")], Reset),
        (&[(b":authority", b"evil")], Reset),
        (&[(b"x", b"y"), (b":method", b"POST")], Reset),
        (&[(b":status", b"200")], Reset),
        (&[(b":protocol", b"websocket")], Reset),
        (&[(b":unknown", b"x")], GoAway),
        (&[(b"host", b"evil")], Status(400)),
        (&[(b"host", b"")], Status(400)),
    ];
    for reverse in [false, true] {
        let proxy = if reverse { Proxy::reverse(&origin) } else { Proxy::forward() };
        for (more, expected) in table {
            let before = origin.requests().len();
            let found = gets(&proxy, &asking(&origin.address.to_string(), "/", more), None).await;
            let shown: Vec<_> = more
                .iter()
                .map(|(name, value)| (name.escape_ascii().to_string(), value.escape_ascii().to_string()))
                .collect();
            assert_eq!(found, *expected, "{shown:?}");
            let came = origin.requests().len() - before;
            assert_eq!(came, usize::from(*expected == Status(200)), "{shown:?}");
        }
    }
}

#[tokio::test]
async fn what_is_asked_for_has_one_meaning() {
    let origin = Origin::answering(ok("Cache-Control: no-store\r\n", "hello")).await;
    let host = origin.address.to_string();
    let proxy = Proxy::reverse(&origin);
    let table: &[(&str, Gets)] = &[
        ("/", Status(200)),
        ("/a?b=c", Status(200)),
        ("", Reset),
        ("*", Status(400)),
        ("a", Reset),
        ("?a", Status(400)),
        // Fragments go, as those of HTTP/1 do.
        ("#evil", Status(200)),
        ("/a#evil", Status(200)),
        ("http://evil/", Reset),
        ("/a b", Reset),
        ("/a HTTP/1.1\r\nhost: evil\r\n\r\n", Reset),
        ("/a\tb", Reset),
        ("/a\0", Reset),
        (" /a", Reset),
    ];
    for (path, expected) in table {
        let found = gets(&proxy, &asking(&host, path, &[]), None).await;
        assert_eq!(found, *expected, "{path:?}");
    }
    for (authority, expected) in [
        ("", Reset),
        ("a b", Reset),
        ("a\r\nx: y", Reset),
        ("a/b", Reset),
        ("u@a", Status(400)),
        ("a:1:2", Reset),
        ("a:99999", Status(400)),
        ("a,b", Reset),
    ] {
        let found = gets(&proxy, &asking(authority, "/", &[]), None).await;
        assert!(found == expected || (found == Status(400) && expected == Reset), "{authority:?} {found:?}");
    }
    let pseudo = |fields: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
        fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    };
    let (method, scheme, authority, path) =
        ((":method", "GET"), (":scheme", "http"), (":authority", &host[..]), (":path", "/"));
    for (fields, expected) in [
        (vec![scheme, authority, path], Reset),
        (vec![method, authority, path], Reset),
        (vec![method, scheme, authority], Reset),
        (vec![method, scheme, path], Status(400)),
        (vec![method, scheme, path, ("host", &host)], Status(200)),
        (vec![method, scheme, path, ("host", &host), ("host", &host)], Status(400)),
        (vec![method, scheme, authority, path, ("host", &host)], Status(200)),
        (vec![method, (":scheme", "ftp"), authority, path], Status(400)),
        (vec![method, (":scheme", "ht tp"), authority, path], Reset),
        (vec![(":method", "G T"), scheme, authority, path], GoAway),
        (vec![(":method", "CONNECT"), scheme, authority, path], Reset),
        (vec![(":method", "OPTIONS"), scheme, authority, (":path", "*")], Status(200)),
    ] {
        assert_eq!(gets(&proxy, &pseudo(&fields), None).await, expected, "{fields:?}");
    }
    for request in origin.requests() {
        assert!(!request.contains("evil") && field(&request, "host") == Some(&host), "{request}");
    }
}

/// An origin would wait for that content, and take the next request of its connection for it.
#[tokio::test]
async fn what_opens_a_tunnel_has_no_length() {
    let origin = Origin::answering(ok("Cache-Control: no-store\r\n", "hello")).await;
    let host = origin.address.to_string();
    for proxy in [Proxy::forward(), Proxy::reverse(&origin)] {
        for (length, protocol) in [("60", true), ("0", true), ("60", false)] {
            let mut fields = vec![(":method", "CONNECT"), (":authority", &host[..])];
            if protocol {
                fields.extend([(":protocol", "websocket"), (":scheme", "http"), (":path", "/chat")]);
            }
            fields.push(("content-length", length));
            let mut raw = Raw::connect(proxy.address).await;
            raw.0.send(frame(HEADERS, END_HEADERS, 1, &block(&fields))).await;
            let came = raw.next_of(&[HEADERS, RST_STREAM]).await.unwrap();
            assert!(came.0 == HEADERS && status(&came.3) == Some(400), "{length} {protocol} {came:?}");
        }
    }
    assert!(origin.requests().is_empty());
}

#[tokio::test]
async fn content_is_as_long_as_it_says() {
    let origin = Origin::answering(ok("Cache-Control: no-store\r\n", "hello")).await;
    let host = origin.address.to_string();
    let proxy = Proxy::reverse(&origin);
    let table: &[(&str, &[&[u8]], Gets)] = &[
        ("5", &[b"hello"], Status(200)),
        ("5", &[b"he", b"llo"], Status(200)),
        ("5", &[b"hell"], Reset),
        ("5", &[b"hello!"], Reset),
        ("5", &[b"hello", b"!"], Reset),
        ("5", &[b""], Reset),
        ("0", &[b"GET /evil HTTP/1.1\r\nhost: a\r\n\r\n"], Reset),
    ];
    for (length, content, expected) in table {
        let mut fields = asking(&host, "/", &[(b"content-length", length.as_bytes())]);
        fields[0].1 = b"POST".to_vec();
        let found = gets(&proxy, &fields, Some(content)).await;
        assert_eq!(found, *expected, "{length} {content:?}");
    }
    let bodies: Vec<_> = origin
        .requests()
        .iter()
        .map(|request| request.split_once("\r\n\r\n").unwrap().1.to_owned())
        .collect();
    assert!(bodies.iter().all(|body| body == "hello"), "{bodies:?}");
}

#[tokio::test]
async fn heads_have_bounds() {
    let origin = Origin::answering(ok("Cache-Control: no-store\r\n", "hello")).await;
    let host = origin.address.to_string();
    let proxy = Proxy::with(|settings| {
        settings.origin = Some(origin.url("").parse().unwrap());
        settings.bounds.head_bytes = 16 << 10;
        settings.bounds.head_fields = 20;
    });
    let long = |bytes: usize| asking(&host, "/", &[(b"x", &vec![b'y'; bytes][..])]);
    assert_eq!(gets(&proxy, &long(8000), None).await, Status(200));
    let many: Vec<(&[u8], &[u8])> = (0..21).map(|_| (&b"x"[..], &b"y"[..])).collect();
    let mut raw = Raw::connect(proxy.address).await;
    // 431 has no number in HPACK's table.
    raw.0.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&asking(&host, "/", &many)))).await;
    let (_, _, _, head) = raw.next_of(&[HEADERS]).await.unwrap();
    assert!(status(&head).is_none());
    // A little too long is an answer, or a reset; far too long is the end.
    let pieces = |bytes: usize| {
        let block = block(&long(bytes));
        let mut all: Vec<Vec<u8>> = Vec::new();
        for (n, piece) in block.chunks(16_000).enumerate() {
            let ends = if (n + 1) * 16_000 >= block.len() { END_HEADERS } else { 0 };
            let kind = if n == 0 { HEADERS } else { CONTINUATION };
            all.push(frame(kind, ends | if n == 0 { END_STREAM } else { 0 }, 3, piece));
        }
        all.concat()
    };
    raw.0.send(pieces(20_000)).await;
    assert_eq!(raw.next_of(&[HEADERS, RST_STREAM]).await.unwrap().2, 3);
    raw.settled().await;
    raw.0.send(pieces(100_000)).await;
    let end = raw.next_of(&[GOAWAY]).await.unwrap();
    assert_eq!(reason(&end), 11);
    assert_eq!(origin.requests().len(), 1);
}
