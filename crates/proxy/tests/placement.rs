//! What stays on a disk that is written round and round.

mod support;

use std::path::Path;
use std::time::Duration;
use store::{Key, Options, Refused, Store};
use support::{Origin, Proxy, cache_status};

fn open(path: &Path) -> Store {
    let options = Options { size: Some(8 << 20), packet: 64 << 10, ..Options::at(path) };
    Store::open(&options).unwrap_or_else(|error| panic!("{error:?}"))
}

async fn put(store: &Store, n: u32) {
    let key = Key::new(format!("GET http://others/{n}").into_bytes());
    while store.put(&key, b"meta", &[n as u8; 8000]) == Err(Refused::Busy) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What is put again because memory answers with it is also found again.
#[tokio::test]
async fn a_variant_that_memory_answers_is_found_after_a_restart() {
    for vary in ["", "Vary: Accept-Language\r\n"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let store = open(&path);
        let origin = Origin::with(move |mut client, seen| async move {
            while let Some(head) = client.head().await {
                seen.lock().unwrap().push(head);
                let fields = format!("{vary}Cache-Control: max-age=600\r\nContent-Length: 2");
                client.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nxx")).await;
            }
        })
        .await;
        let proxy = Proxy::over(Some(store.clone()), |_| {});
        let mut client = proxy.client().await;
        let mut n = 0;
        for round in 0..100 {
            for _ in 0..16 {
                let response = client.get(origin.request("/", "Accept-Language: de\r\n")).await;
                assert_eq!(origin.requests().len(), 1, "{round} {}", response.head);
            }
            for _ in 0..30 {
                put(&store, n).await;
                n += 1;
            }
        }
        assert!(store.stats().engine.swept > 1000, "{:?}", store.stats());
        proxy.stop();
        proxy.ended().await;
        tokio::task::spawn_blocking(move || store.close()).await.unwrap();
        let store = open(&path);
        let proxy = Proxy::over(Some(store.clone()), |_| {});
        let mut client = proxy.client().await;
        let response = client.get(origin.request("/", "Accept-Language: de\r\n")).await;
        assert_eq!(cache_status(&response), "cosm; hit", "with {vary:?}");
        proxy.stop();
        proxy.ended().await;
        tokio::task::spawn_blocking(move || store.close()).await.unwrap();
    }
}

/// Nobody asks for what is old: what memory answers costs the disk next to nothing.
#[tokio::test]
async fn what_memory_answers_is_not_written_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("cache"));
    let origin = Origin::with(move |mut client, seen| async move {
        while let Some(head) = client.head().await {
            seen.lock().unwrap().push(head);
            let fields = "Cache-Control: max-age=600\r\nContent-Length: 12000";
            client.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n")).await;
            client.send(vec![b'x'; 12_000]).await;
        }
    })
    .await;
    for n in 0..1200 {
        put(&store, n).await;
    }
    let proxy = Proxy::over(Some(store.clone()), |_| {});
    let mut client = proxy.client().await;
    let before = store.stats();
    for _ in 0..3200 {
        client.get(origin.request("/", "")).await;
    }
    let after = store.stats();
    assert_eq!(origin.requests().len(), 1);
    let again = after.engine.put_again - before.engine.put_again;
    let swept = after.engine.swept - before.engine.swept;
    assert!(
        again < 5,
        "one object of 12 kB was written {again} times in 3200 hits, and {swept} others were swept"
    );
    proxy.stop();
    proxy.ended().await;
    tokio::task::spawn_blocking(move || store.close()).await.unwrap();
}
