//! Partial content: parts are stored, answered from, combined and completed.

mod support;

use support::{Message, Origin, Proxy, field};

const TEXT: &str = "0123456789";

/// An origin that knows ranges, with this field on each answer.
async fn origin(fields: &'static str) -> Origin {
    Origin::with(move |mut client, seen| async move {
        while let Some(head) = client.head().await {
            let answer = answer(&head, fields);
            seen.lock().unwrap().push(head);
            client.send(answer).await;
        }
    })
    .await
}

fn answer(head: &str, fields: &str) -> String {
    let fields = format!("Cache-Control: max-age=60\r\n{fields}");
    let Some((first, last)) = field(head, "range").and_then(|r| r.strip_prefix("bytes=")?.split_once('-'))
    else {
        return format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n{fields}\r\n{TEXT}");
    };
    let last = last.parse().unwrap_or(9).min(9);
    let first: usize = first.parse().unwrap();
    let part = &TEXT[first..=last];
    let length = part.len();
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\nContent-Range: bytes {first}-{last}/10\r\n{fields}\r\n{part}"
    )
}

const STRONG: &str = "ETag: \"1\"\r\n";

struct Asking {
    client: support::Client,
    origin: Origin,
}

impl Asking {
    async fn of(origin: Origin, proxy: &Proxy) -> Asking {
        Asking { client: proxy.client().await, origin }
    }

    async fn range(&mut self, range: &str) -> Message {
        self.client.get(self.origin.request("/", &format!("Range: bytes={range}\r\n"))).await
    }

    async fn whole(&mut self) -> Message {
        self.client.get(self.origin.request("/", "")).await
    }

    fn asked(&self) -> Vec<Option<String>> {
        self.origin.requests().iter().map(|r| field(r, "range").map(str::to_owned)).collect()
    }
}

fn seen(response: &Message) -> (u16, &str, Option<&str>, &str) {
    let status = support::cache_status(response);
    (response.status(), response.text(), response.field("content-range"), status)
}

#[tokio::test]
async fn a_stored_part_answers_what_lies_within_it() {
    let proxy = Proxy::forward();
    let mut asking = Asking::of(origin("").await, &proxy).await;
    let part = asking.range("2-6").await;
    assert_eq!(seen(&part), (206, "23456", Some("bytes 2-6/10"), "cosm; fwd=uri-miss; stored"));
    for (range, text, content_range) in
        [("2-6", "23456", "bytes 2-6/10"), ("4-4", "4", "bytes 4-4/10"), ("5-6", "56", "bytes 5-6/10")]
    {
        assert_eq!(seen(&asking.range(range).await), (206, text, Some(content_range), "cosm; hit"));
    }
    let other = asking.range("6-7").await;
    assert_eq!(seen(&other), (206, "67", Some("bytes 6-7/10"), "cosm; fwd=partial; stored"));
    assert_eq!(asking.origin.requests().len(), 2);
}

#[tokio::test]
async fn parts_with_one_strong_validator_are_combined() {
    let proxy = Proxy::forward();
    let mut asking = Asking::of(origin(STRONG).await, &proxy).await;
    asking.range("4-6").await;
    asking.range("0-4").await;
    assert_eq!(seen(&asking.range("1-6").await), (206, "123456", Some("bytes 1-6/10"), "cosm; hit"));
    // Together they are everything.
    asking.range("7-9").await;
    assert_eq!(seen(&asking.whole().await), (200, TEXT, None, "cosm; hit"));
    assert_eq!(asking.origin.requests().len(), 3);
}

#[tokio::test]
async fn the_rest_of_a_part_is_asked_for() {
    let proxy = Proxy::forward();
    let mut asking = Asking::of(origin(STRONG).await, &proxy).await;
    asking.range("0-3").await;
    let whole = asking.whole().await;
    assert_eq!(seen(&whole), (200, TEXT, None, "cosm; fwd=partial; fwd-status=206; stored"));
    assert_eq!(whole.field("content-length"), Some("10"));
    assert_eq!(seen(&asking.whole().await), (200, TEXT, None, "cosm; hit"));
    let requests = asking.origin.requests();
    assert_eq!((requests.len(), field(&requests[1], "range")), (2, Some("bytes=4-")));
    assert_eq!(field(&requests[1], "if-range"), Some("\"1\""));
}

#[tokio::test]
async fn parts_without_a_strong_validator_are_never_mixed() {
    for fields in ["", "ETag: W/\"1\"\r\n"] {
        let proxy = Proxy::forward();
        let mut asking = Asking::of(origin(fields).await, &proxy).await;
        asking.range("0-3").await;
        asking.range("4-9").await;
        let other = asking.range("0-5").await;
        assert_eq!(seen(&other).3, "cosm; fwd=partial; stored");
        // The rest comes, cannot be used, and the whole is fetched.
        assert_eq!(seen(&asking.whole().await), (200, TEXT, None, "cosm; fwd=partial; stored"));
        let asked = asking.asked();
        assert_eq!(asked[3..], [Some("bytes=6-".to_owned()), None]);
    }
}

/// It says that it is everything, and is half of it: a whole that is shorter would answer everybody.
#[tokio::test]
async fn a_part_that_falls_short_of_the_whole_it_claims_is_not_stored() {
    let origin = support::origin_of(|head, _| match support::field(head, "range") {
        Some(_) => "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\nContent-Length: 5\r\n\
                    Cache-Control: max-age=60\r\nETag: \"1\"\r\n\r\n01234"
            .into(),
        None => support::ok("Cache-Control: max-age=60\r\nETag: \"1\"\r\n", "0123456789"),
    })
    .await;
    let proxy = Proxy::forward();
    let mut client = proxy.client().await;
    assert_eq!(client.get(origin.request("/", "Range: bytes=0-\r\n")).await.status(), 206);
    assert_eq!(client.get(origin.request("/", "")).await.text(), "0123456789");
}
