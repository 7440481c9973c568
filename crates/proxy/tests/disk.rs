//! Caching on a disk: what outlives the memory tier and the process, and what a slow reader finds there.

mod support;

use proxy::Settings;
use std::path::Path;
use store::{Options, Store};
use support::{Client, Origin, Proxy, SOON, cache_status, field};

fn open(path: &Path) -> Store {
    let options = Options {
        size: Some(256 << 20),
        object_max: Some(128 << 20),
        patience: std::time::Duration::from_secs(60),
        ..Options::at(path)
    };
    Store::open(&options).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Nothing is answered from memory, so what hits comes from the disk.
fn no_memory(settings: &mut Settings) {
    settings.bounds.memory_bytes = 0;
}

/// Answers `/n` with n bytes that depend on their place. All that the tests ask of it waits in memory if the disk is slow.
async fn sized() -> Origin {
    Origin::with(|mut client, seen| async move {
        while let Some(head) = client.head().await {
            let length = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            seen.lock().unwrap().push(head);
            let fields = "Cache-Control: max-age=600\r\nETag: \"1\"";
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n\r\n")).await;
            client.send(content(length)).await;
        }
    })
    .await
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

const SIZES: [usize; 6] = [0, 1, 8192, 65_536, 1_500_000, 5_000_000];

#[tokio::test]
async fn objects_of_all_sizes_hit() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("cache"));
    let origin = sized().await;
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let mut client = proxy.client().await;
    for size in SIZES {
        for expected in ["cosm; fwd=uri-miss; stored", "cosm; hit", "cosm; hit"] {
            let response = client.get(origin.request(&format!("/{size}"), "")).await;
            assert!(response.body == content(size), "{size}");
            assert_eq!(cache_status(&response), expected, "{size}");
        }
    }
    assert_eq!(origin.requests().len(), SIZES.len());
    proxy.stop();
    proxy.ended().await;
    tokio::task::spawn_blocking(move || store.close()).await.unwrap();
}

#[tokio::test]
async fn ranges_read_from_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("cache"));
    let origin = sized().await;
    let proxy = Proxy::over(Some(store), no_memory);
    let mut client = proxy.client().await;
    for size in [8192usize, 5_000_000] {
        client.get(origin.request(&format!("/{size}"), "")).await;
        for (first, last) in
            [(0, 0), (100, 4000), (size - 1, size - 1), (size / 2, size - 1), (size / 3, size / 3 * 2)]
        {
            let range = format!("Range: bytes={first}-{last}\r\n");
            let part = client.get(origin.request(&format!("/{size}"), &range)).await;
            assert_eq!(part.status(), 206);
            assert!(part.body == content(size)[first..=last], "{size} {first}-{last}");
        }
    }
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test]
async fn a_restart_is_warm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let origin = sized().await;
    for round in 0..2 {
        let store = open(&path);
        let proxy = Proxy::over(Some(store.clone()), |_| {});
        let mut client = proxy.client().await;
        for size in SIZES {
            let response = client.get(origin.request(&format!("/{size}"), "")).await;
            assert!(response.body == content(size), "{size}");
            assert_eq!(cache_status(&response) == "cosm; hit", round == 1, "{size} {}", response.head);
        }
        proxy.stop();
        proxy.ended().await;
        tokio::task::spawn_blocking(move || store.close()).await.unwrap();
    }
    assert_eq!(origin.requests().len(), SIZES.len());
}

#[tokio::test]
async fn a_validation_writes_a_small_object_or_a_head_anew_and_a_later_hit_reads_once() {
    for length in [60_000, 3_000_000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let store = open(&path);
        let origin = Origin::with(move |mut client, seen| async move {
            while let Some(head) = client.head().await {
                let validates = field(&head, "if-none-match").is_some();
                seen.lock().unwrap().push(head);
                if validates {
                    let fields = "ETag: \"1\"\r\nCache-Control: max-age=600\r\nX-New: 1";
                    client.send(format!("HTTP/1.1 304 x\r\n{fields}\r\n\r\n")).await;
                } else {
                    let fields = "ETag: \"1\"\r\nCache-Control: max-age=0";
                    client
                        .send(format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {length}\r\n\r\n"))
                        .await;
                    client.send(content(length)).await;
                }
            }
        })
        .await;
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        let mut client = proxy.client().await;
        let first = client.get(origin.request("/", "")).await;
        assert_eq!(cache_status(&first), "cosm; fwd=uri-miss; stored");
        let put = store.stats().engine.put_bytes;
        let validated = client.get(origin.request("/", "")).await;
        assert_eq!(cache_status(&validated), "cosm; fwd=stale; fwd-status=304");
        let cost = store.stats().engine.put_bytes - put;
        let body = if length <= store.span_size() { length as u64 } else { 0 };
        assert!((1..1_000 + body).contains(&cost), "{cost} bytes for new fields of {length}");
        drop(proxy);
        store.close();

        let store = open(&path);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        let mut client = proxy.client().await;
        let reads = store.stats().device_reads;
        let hit = client.get(origin.request("/", "")).await;
        assert_eq!((cache_status(&hit), hit.field("x-new")), ("cosm; hit", Some("1")));
        assert!(first.body == content(length) && validated.body == first.body && hit.body == first.body);
        if length < 64 << 10 {
            assert_eq!(store.stats().device_reads - reads, 1);
        }
        assert_eq!(origin.requests().len(), 2);
        drop(proxy);
        store.close();
    }
}

/// The head of a large object stays in memory; where the store has lost the object, that is of no use.
#[tokio::test]
async fn a_hit_of_a_large_object_reads_its_body_alone() {
    const LENGTH: usize = 1_500_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let origin = sized().await;
    let request = origin.request(&format!("/{LENGTH}"), "");
    let store = open(&path);
    let proxy = Proxy::over(Some(store.clone()), |_| {});
    proxy.client().await.get(&request).await;
    proxy.stop();
    proxy.ended().await;
    store.close();

    let store = open(&path);
    let proxy = Proxy::over(Some(store.clone()), |_| {});
    let mut client = proxy.client().await;
    let spans = LENGTH.div_ceil(store.span_size()) as u64;
    for expected in [spans + 1, spans, spans] {
        let reads = store.stats().device_reads;
        let hit = client.get(&request).await;
        assert!(cache_status(&hit) == "cosm; hit" && hit.body == content(LENGTH));
        assert_eq!(store.stats().device_reads - reads, expected);
    }
    let reads = store.stats().device_reads;
    let same = client.get(origin.request(&format!("/{LENGTH}"), "If-None-Match: \"1\"\r\n")).await;
    assert_eq!((same.status(), store.stats().device_reads), (304, reads));
    let key = cache::key::primary("http", &origin.address.to_string(), &format!("/{LENGTH}"));
    store.remove(&store::Key::new(key));
    assert_eq!(cache_status(&client.get(&request).await), "cosm; fwd=uri-miss; stored");
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test]
async fn variants_and_their_marker_are_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("cache"));
    let origin = Origin::with(|mut client, seen| async move {
        while let Some(head) = client.head().await {
            let language = field(&head, "accept-language").unwrap_or("").to_owned();
            client.body(&head).await;
            seen.lock().unwrap().push(head);
            client
                .send(format!(
                    "HTTP/1.1 200 OK\r\nVary: Accept-Language\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\n{language}"
                ))
                .await;
        }
    })
    .await;
    let proxy = Proxy::over(Some(store), no_memory);
    let mut client = proxy.client().await;
    for expected in [1, 2, 2, 2] {
        let language = if expected == 1 { "de" } else { "fr" };
        let response = client.get(origin.request("/", &format!("Accept-Language: {language}\r\n"))).await;
        assert_eq!((response.text(), origin.requests().len()), (language, expected));
    }
    let post = format!(
        "POST {} HTTP/1.1\r\nHost: a\r\nAccept-Language: xx\r\nContent-Length: 0\r\n\r\n",
        origin.url("/")
    );
    client.get(post).await;
    assert_eq!(client.get(origin.request("/", "Accept-Language: de\r\n")).await.text(), "de");
    assert_eq!(client.get(origin.request("/", "Accept-Language: fr\r\n")).await.text(), "fr");
    assert_eq!(origin.requests().len(), 5);
}

#[tokio::test]
async fn a_reader_that_falls_behind_reads_from_the_disk() {
    const TOTAL: usize = 12 << 20;
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("cache"));
    let origin = sized().await;
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        settings.workers = 2;
        settings.bounds.window_bytes = 256 << 10;
    });
    let request = origin.request(&format!("/{TOTAL}"), "");
    // What it does not take the kernel does not hold either.
    let mut slow = Client::narrow(proxy.address).await;
    slow.send(&request).await;
    let head = slow.head().await.unwrap();
    assert_eq!(field(&head, "cache-status"), Some("cosm; fwd=uri-miss; stored"));
    // Another reader takes everything meanwhile: the origin is not held back.
    let mut quick = proxy.client().await;
    assert!(quick.get(&request).await.body == content(TOTAL));
    let (disk, reads) = (store.clone(), store.stats().device_reads);
    assert!(tokio::task::spawn_blocking(move || disk.persist(SOON)).await.unwrap());
    assert!(slow.exactly(TOTAL).await == content(TOTAL));
    let least = TOTAL / 2 / store.span_size();
    assert!(store.stats().device_reads - reads > least as u64, "it was not behind");
    assert_eq!(origin.requests().len(), 1);
}
