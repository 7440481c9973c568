//! Large objects that broke off: what came is kept, and completed by range.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use store::{Options, Store};
use support::ranged::*;
use support::{Proxy, SOON, cache_status, field, soon};

#[tokio::test]
async fn what_breaks_off_is_kept_and_completed_by_range() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let open =
        || Store::open(&Options { size: Some(SIZE as u64), patience: SOON, ..Options::at(&path) }).unwrap();
    let ranged = Ranged::of(FRESH).await;
    let store = open();
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 100_000]).await;
    let (size, count) = pieces(&store, 2_100_000);
    let part = kept(&store, &ranged, (count * size) as u64).await;
    // A kill leaves it.
    assert!(store.persist(SOON));
    store.abandon();
    drop(proxy);
    drop(store);
    let checked = store::check(&path, |_, _| {}).unwrap();
    assert_eq!((checked.damaged, checked.sound), (0, count as u64 + 1));
    let mut heads = Vec::new();
    let note = |seen: store::Seen<'_>| {
        if seen.kind == store::format::record::Kind::Head {
            heads.push(seen.body);
        }
    };
    store::survey(&path, u64::MAX, note, |_, _| {}).unwrap();
    assert_eq!(heads, [part.length]);

    let store = open();
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    // What lies in it needs no origin.
    let within = ranged.get(&proxy, "Range: bytes=100-1999999\r\n").await;
    assert_eq!((within.status(), cache_status(&within)), (206, "cosm; hit"));
    assert!(within.body == CONTENT[100..2_000_000]);
    assert_eq!(within.field("content-range"), Some(&*format!("bytes 100-1999999/{LENGTH}")));
    // It breaks off again, and grows.
    ranged.break_off(&proxy, [1_000_000, 100_000]).await;
    let before = count;
    let (_, count) = pieces(&store, count * size + 1_100_000);
    assert_eq!(kept(&store, &ranged, (count * size) as u64).await.id, part.id);
    // What is less does not take its place.
    let beyond = ranged.get(&proxy, "Range: bytes=5000000-5000009\r\n").await;
    assert_eq!((beyond.status(), cache_status(&beyond)), (206, "cosm; fwd=partial; detail=partial"));
    let whole = ranged.get(&proxy, "").await;
    assert_eq!((whole.status(), cache_status(&whole)), (200, "cosm; fwd=partial; fwd-status=206; stored"));
    assert!(whole.body == *CONTENT && whole.field("content-range").is_none());
    let requests = ranged.origin.requests();
    assert_eq!(ranged.ranges()[2], Some(format!("{}-", before * size)));
    assert_eq!(ranged.ranges()[5..], [Some(format!("{}-", count * size))]);
    assert_eq!(field(&requests[5], "if-range"), Some("\"1\""));
    assert_eq!(kept(&store, &ranged, LENGTH as u64).await.id, part.id);
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((hit.status(), cache_status(&hit), hit.body == *CONTENT), (200, "cosm; hit", true));
    assert_eq!(ranged.ranges().len(), 6);
}

#[tokio::test]
async fn what_the_last_client_leaves_is_kept_and_all_who_come_share_the_rest() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let client = ranged.taking(&proxy, 2 << 20).await;
    drop(client);
    proxy.settled().await;
    ranged.hold(1);
    let (size, count) = pieces(&store, 33 << 16);
    kept(&store, &ranged, (count * size) as u64).await;
    ranged.hold(1);
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = proxy.client().await;
        client.send(ranged.origin.request("/", "")).await;
        clients.push(client);
    }
    for client in &mut clients {
        client.head().await.unwrap();
        assert!(client.exactly(count * size).await == CONTENT[..count * size]);
    }
    ranged.hold(1 << 10);
    for client in &mut clients {
        assert!(client.exactly(LENGTH - count * size).await == CONTENT[count * size..]);
    }
    assert_eq!(ranged.ranges(), [None, Some(format!("{}-", count * size))]);
}

/// What is missing from there on is fetched, and what was before stays.
#[tokio::test]
async fn an_object_of_which_much_is_lost_goes_on_from_its_first_pieces() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (all, size) = stored(&store, &proxy, &ranged, &(10..20).collect::<Vec<_>>()).await;
    let whole = ranged.get(&proxy, "").await;
    assert_eq!(cache_status(&whole), "cosm; fwd=partial; fwd-status=206; stored");
    assert!(whole.body == *CONTENT);
    assert_eq!(ranged.ranges(), [None, Some(format!("{}-", 10 * size))]);
    assert_eq!(kept(&store, &ranged, LENGTH as u64).await, all);
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit", true));
}

#[tokio::test]
async fn a_part_of_an_older_version_goes() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    kept(&store, &ranged, (count * size) as u64).await;
    ranged.changed.store(true, SeqCst);
    let fresh = ranged.get(&proxy, "").await;
    assert_eq!(
        (fresh.status(), fresh.text(), cache_status(&fresh)),
        (200, "new", "cosm; fwd=partial; stored")
    );
    assert_eq!(cache_status(&ranged.get(&proxy, "").await), "cosm; hit");
    assert!(spans(&store, &ranged.key()).await.is_none());
}

/// Whatever becomes of the range: nothing has gone to the client by then.
#[tokio::test]
async fn where_the_rest_cannot_be_had_the_whole_is_fetched() {
    for how in [Ranges::Refused, Ranges::Compressed] {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        ranged.break_off(&proxy, [2_000_000, 0]).await;
        let (size, count) = pieces(&store, 2_000_000);
        kept(&store, &ranged, (count * size) as u64).await;
        ranged.makes_of_ranges(how);
        let whole = ranged.get(&proxy, "").await;
        assert!((whole.status(), whole.body == *CONTENT) == (200, true), "{}", cache_status(&whole));
        assert_eq!(whole.field("content-encoding"), None);
        kept(&store, &ranged, LENGTH as u64).await;
    }
}

/// Who wants all of it anew gets no stored bytes.
#[tokio::test]
async fn a_reload_does_not_go_on_with_a_part() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    kept(&store, &ranged, (count * size) as u64).await;
    let whole = ranged.get(&proxy, "Cache-Control: no-cache\r\n").await;
    assert!(whole.status() == 200 && whole.body == *CONTENT);
    assert_eq!(ranged.ranges().last(), Some(&None));
}

/// Nor is what a weak validator, or none, says nothing of.
#[tokio::test]
async fn a_part_is_kept_neither_in_place_of_a_whole_nor_after_a_removal() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (all, _) = stored(&store, &proxy, &ranged, &[]).await;
    ranged.breaks.lock().unwrap().extend([2_000_000, 0]);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", "Cache-Control: no-cache\r\nIf-None-Match: \"0\"\r\n")).await;
    client.rest_of_bytes().await;
    proxy.settled().await;
    assert_eq!(spans(&store, &ranged.key()).await, Some(all));

    let purge = || proxy.purge("all");
    purge().await;
    let client = ranged.taking(&proxy, 2 << 20).await;
    purge().await;
    drop(client);
    proxy.settled().await;
    let puts = store.stats().engine.puts;
    ranged.hold(1);
    // The next one asks for all of it.
    ranged.go.add_permits(1 << 10);
    let whole = ranged.get(&proxy, "").await;
    assert!(whole.body == *CONTENT && ranged.ranges().last() == Some(&None), "{puts} {}", whole.head);

    let (store, ranged) =
        (over(&disk()), Ranged::of("Cache-Control: max-age=600\r\nETag: W/\"1\"\r\n").await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    proxy.settled().await;
    assert!(spans(&store, &ranged.key()).await.is_none());
}

/// What began earlier and broke off is less than a newer whole.
#[tokio::test]
async fn a_part_of_an_older_version_does_not_displace_a_newer_whole() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let client = ranged.taking(&proxy, 2 << 20).await;
    // Meanwhile somebody reloads, and gets the next version.
    ranged.changed.store(true, SeqCst);
    let fresh = ranged.get(&proxy, "Cache-Control: no-cache\r\n").await;
    assert_eq!(fresh.text(), "new", "{}", cache_status(&fresh));
    assert!(store.contains(&ranged.key()));
    drop(client);
    proxy.settled().await;
    ranged.hold(1);
    soon(async {
        while stat(&proxy, "/budget/origins-used").await > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(spans(&store, &ranged.key()).await, None, "the newer whole is gone");
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.text()), ("cosm; hit", "new"));
}

/// Who reads along with a fetch of the rest.
#[tokio::test]
async fn what_a_part_has_lost_is_asked_for_once_for_all_who_share_the_rest() {
    let disk = disk();
    let (store, ranged) = (over(&disk), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    kept(&store, &ranged, (count * size) as u64).await;
    damage(&store, &disk, [2, 5]);
    let asked = ranged.ranges().len();
    // The rest, and each lost piece, of which one breaks off.
    ranged.breaks.lock().unwrap().extend([LENGTH, 100_000]);
    ranged.hold(0);
    let mut clients = Vec::new();
    for _ in 0..60 {
        let mut client = proxy.client().await;
        client.send(ranged.request("Connection: close\r\n")).await;
        clients.push(client);
    }
    for client in &mut clients {
        client.head().await.unwrap();
    }
    ranged.hold(1 << 20);
    assert_eq!(bodies(clients, 0).await, vec![LENGTH; 60]);
    let rest = [2 * size, 2 * size + 100_000].map(|from| Some(format!("{from}-{}", 3 * size - 1)));
    let [piece, again] = rest;
    let all = [Some(format!("{}-", count * size)), piece, again, range(size, 5, 6)];
    assert_eq!(ranged.ranges()[asked..], all);
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit", true));
}

#[tokio::test]
async fn half_of_a_new_version_does_not_displace_what_may_stand_in() {
    let phase = Arc::<AtomicUsize>::default();
    let fields = "Cache-Control: max-age=0, stale-if-error=600\r\n";
    let (store, origin) = (over(&disk()), failing(phase.clone(), fields).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    assert!(get_all(&proxy, &origin).await.1 == *CONTENT);
    proxy.settled().await;
    phase.store(1, SeqCst);
    assert!(get_all(&proxy, &origin).await.1.len() < LENGTH);
    proxy.settled().await;
    phase.store(2, SeqCst);
    let (head, body) = get_all(&proxy, &origin).await;
    assert!(head.contains("stale-on-error") && body == *CONTENT, "{head}");
}

/// Its rest begins to come, each time, and does not go on.
#[tokio::test]
async fn a_part_whose_rest_never_comes_is_not_the_end_of_every_request() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        no_memory(settings);
        settings.timeouts.origin_stall = Duration::from_millis(500);
    });
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    let part = kept(&store, &ranged, (count * size) as u64).await;
    ranged.makes_of_ranges(Ranges::Hanging);
    let mut client = proxy.client().await;
    client.send(ranged.request("Connection: close\r\n")).await;
    client.head().await.unwrap();
    assert_eq!(client.rest_of_bytes().await.len(), count * size);
    proxy.settled().await;
    // It stays for who asks for what it has, and where all of it breaks off too it is gone on with again.
    assert_eq!(kept(&store, &ranged, part.length).await, part);
    ranged.breaks.lock().unwrap().push_back(1_000_000);
    let mut client = proxy.client().await;
    client.send(ranged.request("Connection: close\r\n")).await;
    client.rest_of_bytes().await;
    proxy.settled().await;
    assert_eq!(kept(&store, &ranged, part.length).await, part);
    let asked = ranged.ranges().len();
    ranged.makes_of_ranges(Ranges::Answered);
    let whole = ranged.get(&proxy, "").await;
    assert!(whole.body == *CONTENT);
    assert_eq!(ranged.ranges()[asked..], [Some(format!("{}-", count * size))]);
}

#[tokio::test]
async fn a_part_whose_rest_did_not_come_is_fetched_whole_the_next_time() {
    for first in [2_000_000, 100_000] {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), |settings| {
            no_memory(settings);
            settings.timeouts.origin_stall = Duration::from_millis(500);
        });
        if first > store.span_size() {
            ranged.break_off(&proxy, [first, 0]).await;
            let (size, count) = pieces(&store, first);
            kept(&store, &ranged, (count * size) as u64).await;
        } else {
            let part = ranged.get(&proxy, &format!("Range: bytes=0-{}\r\n", first - 1)).await;
            assert!(cache_status(&part).ends_with("stored"), "{}", part.head);
        }
        ranged.makes_of_ranges(Ranges::Hanging);
        let mut client = proxy.client().await;
        client.send(ranged.request("Connection: close\r\n")).await;
        assert!(client.rest_of_bytes().await.len() < LENGTH);
        proxy.settled().await;
        let whole = ranged.get(&proxy, "").await;
        assert!((whole.status(), whole.body == *CONTENT) == (200, true), "{}", whole.head);
        assert_eq!(ranged.ranges().last(), Some(&None));
        kept(&store, &ranged, LENGTH as u64).await;
    }
}

/// Much of it is lost, and more would be.
#[tokio::test]
async fn a_range_does_not_take_the_place_of_the_whole() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (all, _) = stored(&store, &proxy, &ranged, &(0..10).collect::<Vec<_>>()).await;
    let range = ranged.get(&proxy, "Range: bytes=0-9\r\n").await;
    assert_eq!((range.status(), range.body == CONTENT[..10]), (206, true), "{}", range.head);
    proxy.settled().await;
    assert_eq!(spans(&store, &ranged.key()).await, Some(all), "{}", range.head);
}

/// That says the same as the part does.
#[tokio::test]
async fn a_head_leaves_a_part() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    let part = kept(&store, &ranged, (count * size) as u64).await;
    let mut client = proxy.client().await;
    client.send(ranged.request("Connection: close\r\n").replacen("GET", "HEAD", 1)).await;
    let head = client.head().await.unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    proxy.settled().await;
    assert_eq!(spans(&store, &ranged.key()).await, Some(part), "{head}");
}

/// To ask it for all as well would make the client wait twice.
#[tokio::test]
async fn an_origin_that_cannot_be_reached_is_asked_once_for_the_rest_of_a_part() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    kept(&store, &ranged, (count * size) as u64).await;
    let (before, request) = (fetches(&proxy).await, ranged.request(""));
    ranged.origin.gone().await;
    assert_eq!(proxy.client().await.get(request).await.status(), 502);
    assert_eq!(fetches(&proxy).await, before + 1);
}

/// Nor is one that does not answer; since that may be for the range, the next request asks for all.
#[tokio::test]
async fn an_origin_that_does_not_answer_is_asked_once_for_the_rest_of_a_part() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        no_memory(settings);
        settings.timeouts.origin_first_byte = Duration::from_secs(1);
    });
    ranged.break_off(&proxy, [2_000_000, 0]).await;
    let (size, count) = pieces(&store, 2_000_000);
    kept(&store, &ranged, (count * size) as u64).await;
    let asked = ranged.ranges().len();
    ranged.makes_of_ranges(Ranges::Unanswered);
    assert_eq!(ranged.get(&proxy, "").await.status(), 504);
    assert!(ranged.get(&proxy, "").await.body == *CONTENT);
    assert_eq!(ranged.ranges()[asked..], [Some(format!("{}-", count * size)), None]);
}
