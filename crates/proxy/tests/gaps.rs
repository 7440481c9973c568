//! Large objects of which the disk lost pieces: these come from the origin, and stay.

mod support;

use rand::{SeedableRng, rngs::StdRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use store::disk::sim::SimDisk;
use store::{Key, Options, Store};
use support::ranged::*;
use support::{Origin, Proxy, SOON, cache_status, field, soon};

#[tokio::test]
async fn lost_pieces_are_asked_for_alone_and_put_back() {
    for memory in [0, 64 << 20] {
        let disk = disk();
        let (store, ranged) = (over(&disk), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), |settings| {
            no_memory(settings);
            settings.bounds.memory_bytes = memory;
        });
        let (all, size) = stored(&store, &proxy, &ranged, &[3, 4, 5, 9]).await;
        let last = all.count() - 1;
        store.remove(&span_key(&all, last));
        let hit = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit; detail=gaps", true));
        let asked = [None, range(size, 3, 6), range(size, 9, 10), range(size, last as usize, 99)];
        assert_eq!(ranged.ranges(), asked);
        assert_eq!(field(&ranged.origin.requests()[1], "if-range"), Some("\"1\""));
        // From then on the disk has all of it, also after a restart.
        let again = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&again), again.body == *CONTENT), ("cosm; hit", true));
        assert_eq!(healed(&proxy).await, 1);
        proxy.stop();
        proxy.ended().await;
        store.close();
        let proxy = Proxy::over(Some(over(&disk)), no_memory);
        let again = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&again), again.body == *CONTENT), ("cosm; hit", true));
        assert_eq!(ranged.ranges().len(), 4);
    }
}

/// The first bytes of a piece come before its last ones.
#[tokio::test]
async fn a_lost_piece_goes_to_all_who_wait_for_it_as_it_comes() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[0, 1]).await;
    ranged.hold(2);
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = proxy.client().await;
        client.send(ranged.origin.request("/", "")).await;
        client.head().await.unwrap();
        clients.push(client);
    }
    for client in &mut clients {
        assert!(client.exactly(128 << 10).await == CONTENT[..128 << 10]);
    }
    ranged.hold(1 << 10);
    for client in &mut clients {
        assert!(client.exactly(LENGTH - (128 << 10)).await == CONTENT[128 << 10..]);
    }
    assert_eq!(ranged.ranges(), [None, range(size, 0, 2)]);
}

#[tokio::test]
async fn what_touches_no_lost_piece_needs_no_origin() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    // More than may be asked for.
    let lost: Vec<u32> = (4..20).collect();
    let (_, size) = stored(&store, &proxy, &ranged, &lost).await;
    for (from, to) in [(0, 10), (4 * size - 1, 4 * size - 1), (20 * size, LENGTH - 1)] {
        let hit = ranged.get(&proxy, &format!("Range: bytes={from}-{to}\r\n")).await;
        assert_eq!((hit.status(), cache_status(&hit)), (206, "cosm; hit"));
        assert!(hit.body == CONTENT[from..=to]);
    }
    let same = ranged.get(&proxy, "If-None-Match: \"1\"\r\n").await;
    assert_eq!((same.status(), cache_status(&same)), (304, "cosm; hit"));
    assert_eq!(ranged.ranges(), [None]);
}

#[tokio::test]
async fn a_range_asks_for_the_lost_pieces_in_it_alone() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[2, 6, 7, 8]).await;
    let (from, to) = (6 * size + 100, 7 * size + 9);
    for expected in ["cosm; hit; detail=gaps", "cosm; hit"] {
        let hit = ranged.get(&proxy, &format!("Range: bytes={from}-{to}\r\n")).await;
        assert_eq!(cache_status(&hit), expected);
        assert!(hit.body == CONTENT[from..=to]);
        // The client has what it asked for before the end of the last piece has come.
        soon(async {
            while ranged.ranges().len() == 2 && spans_lost(&store, &ranged).await > 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
    assert_eq!(ranged.ranges(), [None, range(size, 6, 8)]);
}

/// What cannot be asked for by range is fetched whole, as is that of which too much is gone.
#[tokio::test]
async fn without_a_strong_validator_or_with_many_pieces_lost_it_is_a_miss() {
    let many: Vec<u32> = (10..20).collect();
    for (fields, lost) in [("Cache-Control: max-age=600\r\nETag: W/\"1\"\r\n", &[3][..]), (FRESH, &many)] {
        let (store, ranged) = (over(&disk()), Ranged::of(fields).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        stored(&store, &proxy, &ranged, lost).await;
        let miss = ranged.get(&proxy, "").await;
        assert!(cache_status(&miss).starts_with("cosm; fwd="), "{}", miss.head);
        assert!(miss.body == *CONTENT);
        let hit = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit", true));
    }
}

/// Nothing of another version is mixed in, and what cannot be made whole any more does not break off again and again.
#[tokio::test]
async fn an_origin_that_has_another_version_ends_what_has_gaps() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    stored(&store, &proxy, &ranged, &[3]).await;
    ranged.changed.store(true, SeqCst);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", "")).await;
    let head = client.head().await.unwrap();
    assert!(head.contains("hit; detail=gaps"), "{head}");
    assert!(CONTENT.starts_with(client.rest_of_bytes().await.as_slice()));
    let miss = ranged.get(&proxy, "").await;
    assert_eq!((miss.text(), cache_status(&miss)), ("new", "cosm; fwd=uri-miss; stored"));
    assert!(spans(&store, &ranged.key()).await.is_none());
}

#[tokio::test]
async fn what_was_removed_meanwhile_gets_no_piece_back() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    for scope in ["url=", "prefix="] {
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        let (spans, size) = stored(&store, &proxy, &ranged, &[3, 4]).await;
        ranged.hold(1);
        let mut client = proxy.client().await;
        client.send(ranged.origin.request("/", "")).await;
        client.head().await.unwrap();
        assert!(client.exactly(3 * size).await == CONTENT[..3 * size]);
        assert_eq!(proxy.purge(&format!("{scope}{}", ranged.origin.url("/"))).await.status(), 200);
        ranged.hold(1 << 20);
        // It has it all the same.
        assert!(client.exactly(LENGTH - 3 * size).await == CONTENT[3 * size..]);
        assert!(!store.contains(&span_key(&spans, 3)) && !store.contains(&span_key(&spans, 4)), "{scope}");
        assert_eq!(ranged.ranges().rsplit(Option::is_none).next(), Some(&[range(size, 3, 5)][..]));
        proxy.stop();
        proxy.ended().await;
    }
}

/// An object of three quarters of the disk, and a log that goes over it again and again.
#[tokio::test]
async fn what_the_log_overtakes_is_asked_for_piece_by_piece() {
    let options = Options {
        size: Some(9 << 20),
        packet: 64 << 10,
        object_max: Some(SIZE as u64),
        admission: store::Admission::All,
        patience: SOON,
        tell: |_| {},
        ..Options::at("")
    };
    let store = Store::over(Arc::new(SimDisk::new(9 << 20, StdRng::seed_from_u64(1))), &options).unwrap();
    let ranged = Ranged::of(FRESH).await;
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    stored(&store, &proxy, &ranged, &[]).await;
    let mut with_gaps = 0;
    for n in 0..40_u32 {
        for other in 0..20 {
            let key = Key::new(format!("GET http://others/{n}/{other}"));
            while store.put(&key, b"meta", &[0; 10_000]) == Err(store::Refused::Busy) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let hit = ranged.get(&proxy, "").await;
        assert!(hit.body == *CONTENT, "{n}");
        with_gaps += usize::from(cache_status(&hit) == "cosm; hit; detail=gaps");
        assert_eq!(ranged.ranges().iter().filter(|range| range.is_none()).count(), 1, "{n}: {}", hit.head);
    }
    assert!(with_gaps > 5, "{with_gaps}");
}

/// What came before the break is not asked for again, and nobody asks alone.
#[tokio::test]
async fn many_who_wait_for_a_lost_piece_all_get_it_when_the_origin_breaks_off() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[3, 4]).await;
    ranged.breaks.lock().unwrap().extend([64 << 10, size]);
    ranged.hold(0);
    let clients = ranged.clients(&proxy, 60).await;
    ranged.hold(1 << 20);
    assert_eq!(bodies(clients, 0).await, vec![LENGTH; 60]);
    let from = |at: usize| Some(format!("{}-{}", at, 5 * size - 1));
    let broke = 3 * size + (64 << 10);
    assert_eq!(ranged.ranges(), [None, from(3 * size), from(broke), from(broke + size)]);
    assert_eq!(cache_status(&ranged.get(&proxy, "").await), "cosm; hit");
}

/// One asks for all who wait, a few times, whatever the origin makes of that. Then nobody asks for ranges any more.
#[tokio::test]
async fn where_a_lost_piece_cannot_be_had_few_ask_and_the_next_request_gets_the_whole() {
    for (how, times) in
        [(Ranges::Refused, 3), (Ranges::Hanging, 1), (Ranges::Compressed, 1), (Ranges::Forbidden, 3)]
    {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), |settings| {
            no_memory(settings);
            settings.timeouts.origin_stall = Duration::from_millis(500);
        });
        let (all, size) = stored(&store, &proxy, &ranged, &[3, 9]).await;
        ranged.makes_of_ranges(how);
        let clients = ranged.clients(&proxy, 24).await;
        // Without what is on its way when it breaks off.
        let lengths = bodies(clients, 0).await;
        assert!(lengths.iter().all(|length| (2 * size..=3 * size).contains(length)), "{lengths:?}");
        let (asked, again) = (
            ranged.ranges(),
            match how {
                // What the end of a connection that was used before stops is sent on another one.
                Ranges::Refused => 1,
                // Each of the others may ask once, one after the other.
                Ranges::Forbidden => 21,
                _ => 0,
            },
        );
        assert!(asked[1..].iter().all(|asked| *asked == range(size, 3, 4)), "{asked:?}");
        assert!((times..=times + again).contains(&(asked.len() - 1)), "{asked:?}");
        assert_eq!(healed(&proxy).await, 0);
        // What touches no lost piece is still there.
        assert_eq!(kept(&store, &ranged, LENGTH as u64).await, all);
        assert_eq!(cache_status(&ranged.get(&proxy, "Range: bytes=5-9\r\n").await), "cosm; hit");
        let whole = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&whole), whole.body == *CONTENT), ("cosm; fwd=uri-miss; stored", true));
        let hit = ranged.get(&proxy, "").await;
        assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit", true));
        assert_eq!(ranged.ranges()[asked.len()..], [None]);
    }
}

/// Those that the index does not know of as missing.
#[tokio::test]
async fn damaged_neighbours_are_asked_for_in_ever_larger_numbers_and_no_sound_one_with_them() {
    let disk = disk();
    let (store, ranged) = (over(&disk), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[]).await;
    damage(&store, &disk, 2..14);
    let hit = ranged.get(&proxy, "").await;
    assert!(hit.body == *CONTENT);
    let asked = [(2, 3), (3, 5), (5, 9), (9, 14)].map(|(from, to)| range(size, from, to));
    assert_eq!(ranged.ranges()[1..], asked);
    assert!(ranged.get(&proxy, "").await.body == *CONTENT && ranged.ranges().len() == 5);
}

/// All who come share one fetch then, as of what is not stored.
#[tokio::test]
async fn with_too_little_memory_to_close_a_gap_it_is_a_miss() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        no_memory(settings);
        settings.bounds.transit_bytes = 0;
        settings.trust = vec!["127.0.0.0/8".parse().unwrap()];
    });
    stored(&store, &proxy, &ranged, &[3]).await;
    let other = Ranged::of("Cache-Control: no-store\r\n").await;
    let mut slow = Vec::new();
    let free = || async {
        let stats = proxy.admin("GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
        let of = |name: &str| stats["budget"][name].as_u64().unwrap();
        (of("origins") - of("origins-used"), of("origins") / 8 * 3)
    };
    while free().await.0 > free().await.1 {
        let mut client = proxy.client().await;
        client.send(other.request("")).await;
        client.head().await.unwrap();
        slow.push(client);
    }
    let miss = ranged.get(&proxy, "").await;
    assert!(cache_status(&miss).starts_with("cosm; fwd=") && miss.body == *CONTENT, "{}", miss.head);
    drop(slow);
    proxy.settled().await;
    let hit = ranged.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit; detail=gaps", true));
}

/// Where the proxy keeps what it asked for is another matter.
#[tokio::test]
async fn pieces_that_are_for_one_client_go_to_those_who_wait_and_not_to_the_disk() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[3, 4]).await;
    ranged.makes_of_ranges(Ranges::Private);
    for times in 1..=2 {
        ranged.hold(1);
        let (mut clients, there) = (ranged.clients(&proxy, 8).await, 3 * size + (64 << 10));
        for client in &mut clients {
            assert!(client.exactly(there).await == CONTENT[..there]);
        }
        ranged.hold(1 << 20);
        assert_eq!(bodies(clients, there).await, vec![LENGTH - there; 8]);
        assert_eq!(ranged.ranges()[1..], vec![range(size, 3, 5); times]);
        assert_eq!(spans_lost(&store, &ranged).await, 2);
    }
    ranged.makes_of_ranges(Ranges::Answered);
    assert!(ranged.get(&proxy, "").await.body == *CONTENT);
    assert_eq!(spans_lost(&store, &ranged).await, 0);
}

/// It is asked for on behalf of all: with what selects the representation, and who may have it. What one of them says beside, or is
/// refused, says nothing of the object.
#[tokio::test]
async fn a_refusal_of_one_clients_request_does_not_end_what_has_gaps() {
    for refusal in ["403", "404"] {
        a_refusal_says_nothing_of_the_object(refusal).await;
    }
}

async fn a_refusal_says_nothing_of_the_object(refusal: &'static str) {
    let origin = Origin::with(move |mut client, seen| async move {
        while let Some(head) = client.head().await {
            let bad = ["x-bad", "cookie", "authorization"].iter().any(|name| field(&head, name).is_some());
            let range = field(&head, "range").map(str::to_owned);
            seen.lock().unwrap().push(head);
            if bad {
                client.send(format!("HTTP/1.1 {refusal} no\r\nContent-Length: 0\r\n\r\n")).await;
                continue;
            }
            let vary = "Vary: X-Kind\r\n";
            let (status, body) = match range.as_deref().and_then(|range| range[6..].split_once('-')) {
                Some((from, to)) => (
                    format!("206 x\r\nContent-Range: bytes {from}-{to}/{LENGTH}"),
                    &CONTENT[from.parse().unwrap()..=to.parse().unwrap()],
                ),
                None => ("200 OK".into(), &CONTENT[..]),
            };
            let length = body.len();
            client.send(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{vary}{FRESH}\r\n")).await;
            client.try_send(body).await;
        }
    })
    .await;
    let disk = disk();
    let store = over(&disk);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let get = |fields: &str| {
        let request = origin.request("/", &format!("X-Kind: a\r\nConnection: close\r\n{fields}"));
        let proxy = &proxy;
        async move {
            let mut client = proxy.client().await;
            client.send(request).await;
            let head = client.head().await.unwrap();
            (head, client.rest_of_bytes().await)
        }
    };
    assert!(get("").await.1 == *CONTENT);
    proxy.settled().await;
    damage(&store, &disk, [3, 9]);
    let (head, body) = get("Authorization: x\r\n").await;
    assert!(head.contains("hit") && body.len() == 3 * store.span_size(), "{head}");
    let (head, body) = get("X-Bad: 1\r\nCookie: a=b\r\nUser-Agent: me\r\nAccept: */*\r\n").await;
    assert!(head.contains("hit; detail=gaps") && body == *CONTENT, "{head}");
    let asked = origin.requests();
    let last = asked.last().unwrap();
    assert_eq!((field(last, "x-kind"), field(last, "user-agent")), (Some("a"), Some("me")));
    assert_eq!((field(last, "cookie"), field(last, "x-bad")), (None, None));
}

/// An origin that is known to give nothing gives no lost pieces either, and one that is yet to be asked may have another version.
#[tokio::test]
async fn what_has_gaps_is_not_served_stale() {
    for (fields, status) in [
        ("Cache-Control: max-age=0, stale-if-error=600\r\n", "HTTP/1.1 502"),
        ("Cache-Control: max-age=0, stale-while-revalidate=600\r\n", "HTTP/1.1 502"),
    ] {
        let phase = Arc::<AtomicUsize>::default();
        let (store, origin) = (over(&disk()), failing(phase.clone(), fields).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        assert!(get_all(&proxy, &origin).await.1 == *CONTENT);
        proxy.settled().await;
        let key = Key::new(cache::key::primary("http", &origin.address.to_string(), "/"));
        store.remove(&span_key(&spans(&store, &key).await.unwrap(), 3));
        phase.store(2, SeqCst);
        let (head, body) = get_all(&proxy, &origin).await;
        assert!(head.starts_with(status), "{} of {LENGTH} bytes: {head}", body.len());
    }
}

#[tokio::test]
async fn one_503_does_not_cut_off_all_who_wait() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    stored(&store, &proxy, &ranged, &[3, 9]).await;
    ranged.makes_of_ranges(Ranges::BusyOnce);
    let clients = ranged.clients(&proxy, 12).await;
    assert_eq!(bodies(clients, 0).await, vec![LENGTH; 12], "{:?}", ranged.ranges());
}

/// Who is refused for what it says itself speaks for nobody else.
#[tokio::test]
async fn one_clients_refusals_do_not_cut_off_others_under_way() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[20, 21]).await;
    // Has not come to the gap, since it does not read yet.
    let clients = ranged.clients(&proxy, 1).await;
    for _ in 0..3 {
        let mut bad = proxy.client().await;
        let (from, to) = (20 * size - 1, 21 * size + 9);
        let fields = format!("Authorization: bad\r\nRange: bytes={from}-{to}\r\nConnection: close\r\n");
        bad.send(ranged.request(&fields)).await;
        let head = bad.head().await.unwrap();
        assert!(head.contains("gaps"), "{head}");
        assert_eq!(bad.rest_of_bytes().await.len(), 1);
    }
    ranged.hold(1 << 20);
    let lengths = bodies(clients, 0).await;
    assert_eq!(lengths, vec![LENGTH], "{:?}", ranged.ranges());
}

/// It was put back, and is lost once more while its gap is being closed.
#[tokio::test]
async fn a_piece_that_is_lost_again_while_its_gap_is_open_is_asked_for_again() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (spans, size) = stored(&store, &proxy, &ranged, &[3, 4]).await;
    // All of piece 3, and a little of the next.
    ranged.hold(4);
    let mut first = proxy.client().await;
    let begin = format!("Range: bytes={}-{}\r\n", 3 * size, 6 * size);
    first.send(ranged.origin.request("/", &begin)).await;
    first.head().await.unwrap();
    first.exactly(size + 100).await;
    soon(async {
        while spans_lost(&store, &ranged).await > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    store.remove(&span_key(&spans, 3));
    let range = format!("Range: bytes={}-{}\r\nConnection: close\r\n", 2 * size, 6 * size);
    let mut client = proxy.client().await;
    client.send(ranged.origin.request("/", &range)).await;
    let head = client.head().await.unwrap();
    assert!(head.starts_with("HTTP/1.1 206"), "{head}");
    ranged.origin.asked(3).await;
    ranged.hold(1 << 20);
    let body = client.rest_of_bytes().await;
    drop(first);
    assert_eq!(body.len(), 4 * size + 1, "{:?}", ranged.ranges());
}

/// Nor are they who wait for the same piece, however many are refused before them.
#[tokio::test]
async fn other_clients_refusals_do_not_cut_off_who_waits_with_them() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        no_memory(settings);
        settings.workers = 1;
    });
    let (_, size) = stored(&store, &proxy, &ranged, &[3]).await;
    ranged.hold(0);
    let mut clients = Vec::new();
    for fields in ["Authorization: bad\r\n"; 5].into_iter().chain([""]) {
        let mut client = proxy.client().await;
        client.send(ranged.request(&format!("{fields}Connection: close\r\n"))).await;
        let head = client.head().await.unwrap();
        assert!(head.contains("gaps") && client.exactly(3 * size).await == CONTENT[..3 * size], "{head}");
        clients.push(client);
    }
    ranged.origin.asked(2).await;
    ranged.hold(1 << 20);
    let lengths = bodies(clients, 3 * size).await;
    assert_eq!(lengths, [0, 0, 0, 0, 0, LENGTH - 3 * size], "{:?}", ranged.ranges());
}

/// However many of its pieces are waited for.
#[tokio::test]
async fn an_origin_that_does_not_answer_takes_neither_places_nor_memory_from_others() {
    let (size, object_max) = (Some(SIZE as u64), Some(SIZE as u64));
    let options = Options { size, object_max, packet: 64 << 10, tell: |_| {}, ..Options::at("") };
    let store = Store::over(disk(), &options).unwrap();
    let (silent, sound) = (Ranged::of(FRESH).await, Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        no_memory(settings);
        settings.workers = 1;
    });
    let lost: Vec<u32> = (0..64).map(|n| 5 * n + 1).collect();
    let (_, size) = stored(&store, &proxy, &silent, &lost).await;
    stored(&store, &proxy, &sound, &[3]).await;
    silent.makes_of_ranges(Ranges::Unanswered);
    let mut clients = Vec::new();
    for n in lost {
        let mut client = proxy.client().await;
        let first = n as usize * size;
        client.send(silent.request(&format!("Range: bytes={first}-{}\r\n", first + 9))).await;
        clients.push(client);
    }
    silent.origin.asked(1 + clients.len()).await;
    assert_eq!(stat(&proxy, "/budget/origins-used").await, 0);
    let hit = sound.get(&proxy, "").await;
    assert_eq!((cache_status(&hit), hit.body == *CONTENT), ("cosm; hit; detail=gaps", true));
}

const DATED: &str = "Cache-Control: max-age=600\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n";

/// One body of it is for all clients and for all gaps behind the first.
#[tokio::test]
async fn an_origin_without_ranges_gives_lost_pieces_with_all_of_it() {
    for (fields, lost) in [(FRESH, &[0, 1, 5, 20][..]), (DATED, &[0, 9]), (DATED, &[3, 4, 9])] {
        let (store, ranged) = (over(&disk()), Ranged::of(fields).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        let (all, size) = stored(&store, &proxy, &ranged, lost).await;
        ranged.makes_of_ranges(Ranges::Ignored);
        for (head, body) in ranged.at_once(&proxy, 64).await {
            assert!(
                head.contains("cosm; hit") && body == *CONTENT,
                "{} of {LENGTH} bytes: {head}",
                body.len()
            );
        }
        let from = lost[0] as usize;
        let to = from + lost.iter().zip(from..).take_while(|(n, at)| **n as usize == *at).count();
        assert_eq!(ranged.ranges(), [None, range(size, from, to)]);
        // The first client asked for the first gap at least, and all of them are closed.
        soon(async {
            while spans_lost(&store, &ranged).await > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert_eq!(kept(&store, &ranged, LENGTH as u64).await, all);
        assert_eq!(cache_status(&ranged.get(&proxy, "").await), "cosm; hit");
    }
}

/// It breaks off among the lost pieces: what came stays.
#[tokio::test]
async fn an_origin_without_ranges_that_breaks_off_is_asked_again() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    let (_, size) = stored(&store, &proxy, &ranged, &[0, 5, 9]).await;
    ranged.makes_of_ranges(Ranges::Ignored);
    ranged.breaks.lock().unwrap().extend([1000, 7 * size]);
    let bodies = ranged.at_once(&proxy, 8).await;
    assert!(bodies.iter().all(|(_, body)| *body == *CONTENT), "{:?}", ranged.ranges());
    assert_eq!(ranged.ranges().len(), 4);
    assert_eq!(cache_status(&ranged.get(&proxy, "").await), "cosm; hit");
}

/// As of what is not stored at all: one fetch for all of them.
#[tokio::test]
async fn where_a_body_begins_with_what_the_origin_does_not_give_it_is_a_miss() {
    for (how, clients) in [
        (Ranges::Status("503 busy"), 64),
        (Ranges::Status("429 slow down"), 4),
        (Ranges::Status("404 not found"), 4),
        (Ranges::Status("416 no"), 4),
        (Ranges::Status("302 elsewhere\r\nLocation: /login"), 4),
        (Ranges::Forbidden, 12),
        (Ranges::Refused, 64),
        (Ranges::Hanging, 4),
        (Ranges::Unanswered, 4),
        (Ranges::Compressed, 4),
        (Ranges::Other("ETag: \"2\"\r\n"), 12),
    ] {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), |settings| {
            no_memory(settings);
            if matches!(how, Ranges::Hanging | Ranges::Unanswered) {
                settings.timeouts.origin_stall = Duration::from_secs(1);
                settings.timeouts.origin_first_byte = Duration::from_secs(1);
            }
        });
        let (_, size) = stored(&store, &proxy, &ranged, &[0, 9]).await;
        ranged.makes_of_ranges(how);
        for (head, body) in ranged.at_once(&proxy, clients).await {
            assert!(
                head.starts_with("HTTP/1.1 200") && body == *CONTENT,
                "{how:?}: {} of {head}",
                body.len()
            );
        }
        let asked = ranged.ranges();
        assert_eq!(asked.iter().filter(|range| range.is_none()).count(), 2, "{how:?}: {asked:?}");
        assert!(asked.iter().flatten().all(|asked| Some(asked) == range(size, 0, 1).as_ref()), "{asked:?}");
        assert_eq!(cache_status(&ranged.get(&proxy, "").await), "cosm; hit", "{how:?}");
    }
}

/// It holds, says the origin, but gives no piece of it.
#[tokio::test]
async fn what_is_validated_and_begins_with_a_gap_is_fetched_whole_where_the_origin_does_not_give_it() {
    let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
    let proxy = Proxy::over(Some(store.clone()), no_memory);
    stored(&store, &proxy, &ranged, &[0]).await;
    ranged.makes_of_ranges(Ranges::Status("503 busy"));
    ranged.holds.store(true, SeqCst);
    let whole = ranged.get(&proxy, "Cache-Control: no-cache\r\n").await;
    assert!(whole.status() == 200 && whole.body == *CONTENT, "{}", whole.head);
    assert!(ranged.origin.requests().iter().any(|head| field(head, "if-none-match").is_some()));
}

/// Whatever it says of all of it, unless that is of the same version for certain.
#[tokio::test]
async fn all_of_another_version_fills_no_gap() {
    let others = ["ETag: \"2\"\r\n", "ETag: W/\"1\"\r\n", "", "ETag: \"1\"\r\nContent-Encoding: gzip\r\n"];
    for other in others {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        let (_, size) = stored(&store, &proxy, &ranged, &[3]).await;
        ranged.makes_of_ranges(Ranges::Other(other));
        for (head, body) in ranged.at_once(&proxy, 8).await {
            let is_cut = head.contains("detail=gaps") && body.len() <= 3 * size;
            assert!(CONTENT.starts_with(&body) && (is_cut || body.len() == LENGTH), "{other}: {head}");
        }
        let whole = ranged.get(&proxy, "").await;
        assert!(whole.body == *CONTENT, "{other}: {}", whole.head);
    }
}

#[tokio::test]
async fn what_is_removed_while_its_head_waits_does_not_answer() {
    for scope in ["url=", "prefix="] {
        let (store, ranged) = (over(&disk()), Ranged::of(FRESH).await);
        let proxy = Proxy::over(Some(store.clone()), no_memory);
        stored(&store, &proxy, &ranged, &[0]).await;
        ranged.hold(0);
        let mut client = proxy.client().await;
        client.send(ranged.request("")).await;
        ranged.origin.asked(2).await;
        assert_eq!(proxy.purge(&format!("{scope}{}", ranged.origin.url("/"))).await.status(), 200);
        ranged.hold(1 << 20);
        let head = client.head().await.unwrap();
        assert!(head.contains("cosm; fwd="), "{scope}: {head}");
        assert!(client.exactly(LENGTH).await == *CONTENT);
    }
}
