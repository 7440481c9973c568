//! Elections, windows and slow readers, each as it is.

use super::state::{PATIENCE, Patience};
use super::*;
use crate::budget::Budget;
use crate::tiers::memory::Memory;
use bytes::Bytes;
use cache::SetCookie;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const LONG: Duration = Duration::from_secs(3600);

fn fills(turn: Duration) -> Arc<Fills> {
    Fills::new(Windows { most: 64 << 10, pool: Budget::new(0, 0).origins }, LONG, 16, turn)
}

fn tiers() -> Tiers {
    Tiers::new(Memory::new(0, 0), None, SetCookie::Never)
}

fn join(fills: &Arc<Fills>, vain: u32) -> Joined {
    fills.join(&key(), &tiers(), vain, None)
}

fn key() -> Key {
    Key::new("k")
}

fn leader(fills: &Arc<Fills>) -> Lead {
    match join(fills, 0) {
        Joined::Leader(lead) => lead,
        _ => panic!("somebody leads already"),
    }
}

fn followers(fills: &Arc<Fills>, count: usize) -> Vec<Seat> {
    let follow = |_| match join(fills, 0) {
        Joined::Follower(seat) => seat,
        _ => panic!("nobody leads"),
    };
    (0..count).map(follow).collect()
}

fn news(seat: &Seat) -> Option<News> {
    match pin!(seat.news()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(news) => Some(news),
        Poll::Pending => None,
    }
}

/// What the seats hear now: the one that leads, how many go alone, and who still waits.
fn hear(seats: &mut Vec<Seat>) -> (Option<Lead>, usize) {
    let (mut lead, mut alone) = (None, 0);
    seats.retain(|seat| match news(seat) {
        None => true,
        Some(News::Lead(called)) => {
            assert!(lead.replace(called).is_none(), "two lead");
            false
        }
        Some(News::Alone) => {
            alone += 1;
            false
        }
        Some(_) => panic!("decided"),
    });
    (lead, alone)
}

#[test]
fn a_leader_that_leaves_is_succeeded_by_one() {
    let fills = fills(LONG);
    let mut lead = leader(&fills);
    let mut seats = followers(&fills, 10);
    for left in (0..10).rev() {
        assert!(hear(&mut seats).0.is_none());
        drop(lead);
        let (called, alone) = hear(&mut seats);
        assert_eq!((alone, seats.len()), (0, left));
        lead = called.expect("a successor");
    }
    assert_eq!(lock(&fills.table).len(), 1);
    drop(lead);
    assert!(lock(&fills.table).is_empty(), "nobody waits: whoever comes begins anew");
}

#[test]
fn answers_of_no_use_call_twice_as_many_each_time() {
    let fills = fills(LONG);
    let mut lead = leader(&fills);
    let mut seats = followers(&fills, 20);
    for (beside, left) in [(0, 19), (1, 17), (3, 13), (7, 5), (4, 0)] {
        lead.unusable();
        let (called, alone) = hear(&mut seats);
        assert_eq!((alone, seats.len()), (beside, left));
        lead = called.unwrap();
    }
}

#[test]
fn beyond_one_fetchs_time_departures_count_as_answers_of_no_use() {
    let fills = fills(Duration::ZERO);
    let mut lead = leader(&fills);
    let mut seats = followers(&fills, 20);
    for left in [19, 17, 13, 5, 0] {
        std::thread::sleep(Duration::from_millis(1));
        drop(lead);
        lead = hear(&mut seats).0.unwrap();
        assert_eq!(seats.len(), left);
    }
}

#[test]
fn one_who_leaves_before_it_hears_of_its_call_is_succeeded_too() {
    let fills = fills(LONG);
    let lead = leader(&fills);
    let mut seats = followers(&fills, 3);
    drop(lead);
    seats.remove(0);
    let (called, _) = hear(&mut seats);
    assert!(called.is_some() && seats.len() == 1);
    drop(called);
    seats.clear();
    assert!(lock(&fills.table).is_empty());
}

#[test]
fn what_was_removed_is_joined_by_nobody() {
    let (fills, tiers) = (fills(LONG), tiers());
    let Joined::Leader(lead) = fills.join(&key(), &tiers, 0, None) else { panic!("somebody leads") };
    let mut seats = followers(&fills, 2);
    tiers.remove(&key());
    let Joined::Leader(later) = fills.join(&key(), &tiers, 0, None) else { panic!("it was joined") };
    let Joined::Follower(seat) = fills.join(&key(), &tiers, 0, None) else { panic!("nobody leads") };
    // Those who asked before go on among themselves.
    drop(lead);
    assert!(hear(&mut seats).0.is_some() && news(&seat).is_none());
    drop(later);
    assert!(matches!(news(&seat), Some(News::Lead(_))));
}

#[test]
fn whom_nothing_suits_may_fetch_beside_the_leader() {
    let fills = fills(LONG);
    let _lead = leader(&fills);
    for (vain, beside) in [(0, 0), (1, 0), (2, 3), (3, 12), (4, 48)] {
        let joined: Vec<_> = (0..100).map(|_| join(&fills, vain)).collect();
        let alone = joined.iter().filter(|joined| matches!(joined, Joined::Alone)).count();
        assert_eq!(alone, beside, "after {vain}");
    }
}

#[test]
fn slow_readers_have_a_second_and_a_fifth_of_the_time() {
    let began = Instant::now();
    let at = |millis| began + Duration::from_millis(millis);
    let mut patience = Patience::default();
    assert_eq!(patience.note_at(true, at(0)), PATIENCE);
    assert_eq!(patience.note_at(true, at(600)), PATIENCE * 4 / 10);
    // A byte now and then gives back no more than a fourth.
    assert_eq!(patience.note_at(false, at(800)), PATIENCE * 2 / 10);
    assert_eq!(patience.note_at(true, at(1_200)), PATIENCE * 3 / 10);
    assert_eq!(patience.note_at(true, at(1_500)), Duration::ZERO);
    let mut patience = Patience::default();
    for round in 0..1_000 {
        assert!(!patience.note_at(true, at(round * 50)).is_zero());
        assert!(!patience.note_at(false, at(round * 50 + 10)).is_zero());
    }
}

#[test]
fn five_thousand_readers_cost_no_more_than_their_places() {
    let fills = fills(LONG);
    let lead = leader(&fills);
    let seats = followers(&fills, 5_000);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        lead.push(Bytes::from(vec![0; 8 << 10]));
        for seat in &seats {
            assert!(matches!(seat.poll_piece(&mut context), Poll::Ready(Piece::Bytes(_))));
        }
        let state = lead.fill.lock();
        assert_eq!(state.places.len(), 1);
        assert!(state.window.len() <= fills.windows.most);
    }
}

/// It has caught up, nobody else is left, and the fetch ends: it goes on by itself.
#[test]
fn one_who_was_cut_off_and_caught_up_is_not_broken_off() {
    let fills = fills(LONG);
    let lead = leader(&fills);
    let mut seats = followers(&fills, 3);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..4 {
        lead.push(Bytes::from(vec![0; 8 << 10]));
    }
    assert!(matches!(seats[1].poll_piece(&mut context), Poll::Ready(Piece::Bytes(_))));
    while seats[2].poll_piece(&mut context).is_ready() {}
    lead.fill.lock().cut_off();
    while seats[1].poll_piece(&mut context).is_ready() {}
    seats.pop();
    lead.end(End::Broken);
    assert!(matches!(seats[1].poll_piece(&mut context), Poll::Ready(Piece::Gone)));
}

/// What a test may do to a fill.
#[derive(Clone, Debug)]
enum Step {
    Join,
    Read(usize),
    Leave(usize),
    Push(usize),
    CutOff,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Join),
        6 => any::<usize>().prop_map(Step::Read),
        1 => any::<usize>().prop_map(Step::Leave),
        4 => (1usize..20_000).prop_map(Step::Push),
        1 => Just(Step::CutOff),
    ]
}

proptest! {
    #[test]
    fn readers_get_the_body_in_order_and_are_where_the_maps_say(steps in prop::collection::vec(step(), 1..200)) {
        let fills = fills(LONG);
        let lead = leader(&fills);
        let mut seats: Vec<(Seat, u64)> = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        let byte = |at: u64| (at ^ (at >> 8)) as u8;
        for step in steps {
            match step {
                Step::Join => if let Joined::Follower(seat) = join(&fills, 0) {
                    seats.push((seat, 0));
                },
                Step::Leave(n) if !seats.is_empty() => drop(seats.swap_remove(n % seats.len())),
                Step::Read(n) if !seats.is_empty() => {
                    let n = n % seats.len();
                    let (seat, at) = &mut seats[n];
                    let cut = lead.fill.lock().readers[&seat.id].cut;
                    match seat.poll_piece(&mut context) {
                        Poll::Ready(Piece::Bytes(bytes)) => {
                            prop_assert!(bytes.iter().enumerate().all(|(n, b)| *b == byte(*at + n as u64)));
                            *at += bytes.len() as u64;
                        }
                        Poll::Ready(Piece::Gone) => prop_assert!(cut, "only who was cut off misses something"),
                        Poll::Pending => prop_assert_eq!(*at, lead.fill.lock().window.end()),
                        Poll::Ready(_) => prop_assert!(false),
                    }
                }
                Step::Push(length) if lead.fill.lock().room(&fills.windows).is_some() => {
                    let from = lead.fill.lock().window.end();
                    lead.push((from..from + length as u64).map(byte).collect());
                }
                Step::CutOff if lead.fill.lock().slow_ones_hold() => lead.fill.lock().cut_off(),
                _ => {}
            }
            let state = lead.fill.lock();
            let mut places = BTreeMap::new();
            for slot in state.readers.values().filter(|slot| !slot.cut) {
                *places.entry(slot.at).or_insert(0) += 1;
            }
            prop_assert_eq!(&places, &state.places);
            prop_assert_eq!(state.readers.values().filter(|slot| slot.waker.is_some()).count(), state.hungry);
            prop_assert!(state.window.len() < fills.windows.most + 20_000);
        }
    }
}
