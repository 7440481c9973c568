//! What was removed does not come back, whatever was under way when it was removed.

mod support;

use proxy::Settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use store::{Options, Store};
use support::gated::Gated;
use support::{Client, Origin, Proxy, cache_status, field, ok, soon};

const SIZE: usize = 24 << 20;

fn with_admin(settings: &mut Settings) {
    settings.admin = Some("127.0.0.1:0".parse().unwrap());
}

/// Answers with how often it was asked; what a path names: `/slow…` waits in the middle of the answer until it may go on.
struct Counting {
    origin: Origin,
    go: Arc<tokio::sync::Semaphore>,
}

impl Counting {
    async fn new() -> Counting {
        let go = Arc::new(tokio::sync::Semaphore::new(0));
        let (permits, count) = (go.clone(), Arc::new(AtomicUsize::new(0)));
        let origin = Origin::with(move |mut client, seen| {
            let (permits, count) = (permits.clone(), count.clone());
            async move {
                while let Some(head) = client.head().await {
                    client.body(&head).await;
                    let n = count.fetch_add(1, SeqCst);
                    seen.lock().unwrap().push(head.clone());
                    if head.contains("/slow") && !head.starts_with("POST") {
                        permits.acquire().await.unwrap().forget();
                    }
                    client.send(answer(&head, n)).await;
                }
            }
        })
        .await;
        Counting { origin, go }
    }

    async fn asked(&self, times: usize) {
        soon(async {
            while self.origin.requests().len() < times {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    async fn get(&self, client: &mut Client, path: &str, fields: &str) -> support::Message {
        client.get(self.origin.request(path, fields)).await
    }
}

/// A body of eight bytes that says which answer it is.
fn answer(head: &str, n: usize) -> String {
    let fields = "Cache-Control: max-age=600\r\nETag: \"same\"\r\n";
    let body = format!("{n:08}");
    if head.starts_with("POST") {
        return ok("", "changed");
    }
    if field(head, "if-none-match").is_some() {
        return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n");
    }
    if head.starts_with("HEAD") {
        return format!("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n{fields}\r\n");
    }
    if field(head, "range").is_some() {
        let part = &body[..4];
        return format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\nContent-Range: bytes 0-3/8\r\n{fields}\r\n{part}"
        );
    }
    ok(fields, &body)
}

/// How something is removed.
enum Removal {
    Purge(&'static str),
    Post,
}

impl Removal {
    const ALL: [Removal; 4] =
        [Removal::Purge("url"), Removal::Purge("host"), Removal::Purge("all"), Removal::Post];

    async fn of(&self, proxy: &Proxy, counting: &Counting, path: &str) {
        let what = match self {
            Removal::Purge("url") => format!("url={}", counting.origin.url(path)),
            Removal::Purge("host") => "host=127.0.0.1".into(),
            Removal::Purge(what) => (*what).into(),
            Removal::Post => {
                let head = format!(
                    "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
                    counting.origin.url(path)
                );
                assert_eq!(proxy.client().await.get(head).await.status(), 200);
                return;
            }
        };
        assert_eq!(proxy.purge(&what).await.status(), 200, "{what}");
    }
}

#[tokio::test]
async fn a_read_in_flight_does_not_bring_back_what_was_removed() {
    for removal in Removal::ALL {
        let counting = Counting::new().await;
        let disk = Gated::new(SIZE);
        let options =
            Options { size: Some(SIZE as u64), patience: Duration::from_secs(60), ..Options::at("") };
        let store = Store::over(disk.clone(), &options).unwrap();
        let before = Proxy::over(Some(store.clone()), |_| {});
        assert_eq!(counting.get(&mut before.client().await, "/x", "").await.text(), "00000000");
        before.stop();
        before.ended().await;
        store.close();
        // After a restart nothing is in memory.
        let store = Store::over(disk.clone(), &options).unwrap();
        let proxy = Proxy::over(Some(store.clone()), with_admin);
        disk.close();
        let mut reading = proxy.client().await;
        reading.send(counting.origin.request("/x", "")).await;
        soon(async {
            while disk.waiting.load(SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        removal.of(&proxy, &counting, "/x").await;
        disk.open();
        reading.message().await;
        let after = counting.get(&mut reading, "/x", "").await;
        assert_ne!(after.text(), "00000000", "it came back");
        drop(proxy);
        store.close();
    }
}

/// What is fetched alone (for a range, for a condition) is in no table of fetches.
#[tokio::test]
async fn a_lone_fetch_does_not_bring_back_what_was_removed() {
    for removal in Removal::ALL {
        for fields in ["Range: bytes=0-3\r\n", "If-None-Match: \"other\"\r\n"] {
            let counting = Counting::new().await;
            let proxy = Proxy::with(with_admin);
            let mut client = proxy.client().await;
            // The origin answers conditions about another response with all of it.
            client.send(counting.origin.request("/slow", fields)).await;
            counting.asked(1).await;
            removal.of(&proxy, &counting, "/slow").await;
            counting.go.add_permits(1);
            client.message().await;
            counting.go.add_permits(1);
            let asked = counting.origin.requests().len();
            counting.get(&mut client, "/slow", "Range: bytes=0-3\r\n").await;
            assert_eq!(counting.origin.requests().len(), asked + 1, "{fields}: it came back");
        }
    }
}

#[tokio::test]
async fn a_validation_or_an_answer_to_head_does_not_bring_back_what_was_removed() {
    for removal in Removal::ALL {
        for method in ["GET", "HEAD"] {
            let counting = Counting::new().await;
            let proxy = Proxy::with(with_admin);
            let mut client = proxy.client().await;
            counting.go.add_permits(1);
            counting.get(&mut client, "/slow", "").await;
            let request = counting.origin.request("/slow", "Cache-Control: no-cache\r\n");
            let mut asking = proxy.client().await;
            asking.send(request.replacen("GET", method, 1)).await;
            counting.asked(2).await;
            removal.of(&proxy, &counting, "/slow").await;
            counting.go.add_permits(1);
            assert_eq!(asking.head().await.unwrap().split(' ').nth(1), Some("200"));
            counting.go.add_permits(1);
            let after = counting.get(&mut client, "/slow", "").await;
            assert_eq!(cache_status(&after), "cosm; fwd=uri-miss; stored", "{method}: it came back");
            assert_ne!(after.text(), "00000000");
        }
    }
}

/// Two that change the same: the answer to the first is not stored over the change by the second.
#[tokio::test]
async fn the_answer_to_a_post_is_not_stored_over_a_later_change() {
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let permits = go.clone();
    let origin = Origin::with(move |mut client, seen| {
        let permits = permits.clone();
        async move {
            while let Some(head) = client.head().await {
                client.body(&head).await;
                seen.lock().unwrap().push(head.clone());
                let (method, path) = (head.split(' ').next().unwrap(), head.split(' ').nth(1).unwrap());
                if field(&head, "x-wait").is_some() {
                    permits.acquire().await.unwrap().forget();
                }
                let fields = format!("Cache-Control: max-age=600\r\nContent-Location: {path}\r\n");
                let body = if field(&head, "x-wait").is_some() { "first" } else { "later" };
                client.send(ok(&fields, if method == "GET" { "later" } else { body })).await;
            }
        }
    })
    .await;
    let proxy = Proxy::forward();
    let post = |fields: &str| {
        format!("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n{fields}\r\n", origin.url("/x"))
    };
    let mut first = proxy.client().await;
    first.send(post("X-Wait: 1\r\n")).await;
    soon(async {
        while origin.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let mut client = proxy.client().await;
    assert_eq!(client.get(post("")).await.text(), "later");
    go.add_permits(1);
    assert_eq!(first.message().await.text(), "first");
    assert_eq!(client.get(origin.request("/x", "")).await.text(), "later");
}

/// An origin whose first answer takes until it may end, and whose others are newer.
#[tokio::test]
async fn what_comes_slowly_does_not_replace_what_was_asked_for_later() {
    for length in [4_000_usize, 600_000] {
        let may_end = Arc::new(tokio::sync::Semaphore::new(0));
        let ends = may_end.clone();
        let asked = Arc::new(AtomicUsize::new(0));
        let counts = asked.clone();
        let origin = Origin::with(move |mut client, seen| {
            let (ends, counts) = (ends.clone(), counts.clone());
            async move {
                while let Some(head) = client.head().await {
                    seen.lock().unwrap().push(head);
                    let n = counts.fetch_add(1, SeqCst) + 1;
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nCache-Control: max-age=600\r\n\r\n"
                    );
                    client.send(head).await;
                    let body = vec![b'0' + n as u8; length];
                    client.try_send(&body[..length / 2]).await;
                    if n == 1 {
                        ends.acquire().await.unwrap().forget();
                    }
                    client.try_send(&body[length / 2..]).await;
                }
            }
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let options =
            Options { size: Some(64 << 20), tell: |_| {}, ..Options::at(folder.path().join("cache")) };
        let store = Store::open(&options).unwrap();
        let proxy = Proxy::over(Some(store.clone()), |_| {});
        let mut slow = proxy.client().await;
        slow.send(origin.request("/", "")).await;
        slow.head().await.unwrap();
        let reload = || origin.request("/", "Cache-Control: no-cache\r\n");
        let newer = proxy.client().await.get(reload()).await;
        assert_eq!((newer.body.len(), newer.body[0]), (length, b'2'));
        may_end.add_permits(1);
        let older = slow.exactly(length).await;
        assert!(older.iter().all(|byte| *byte == b'1'));
        proxy.settled().await;
        for _ in 0..2 {
            let hit = proxy.client().await.get(origin.request("/", "")).await;
            assert!(cache_status(&hit).starts_with("cosm; hit"), "{}", hit.head);
            assert!(hit.body.len() == length && hit.body.iter().all(|byte| *byte == b'2'), "{length}");
        }
        // What is asked for after all that does.
        let newest = proxy.client().await.get(reload()).await;
        assert_eq!(newest.body[0], b'3');
        proxy.settled().await;
        let hit = proxy.client().await.get(origin.request("/", "")).await;
        assert_eq!((cache_status(&hit), hit.body[0]), ("cosm; hit", b'3'));
    }
}
