//! Elections, windows and slow readers, each as it is; then random walks through the whole machine.

use super::state::Stage;
use super::*;
use crate::budget::Budget;
use crate::message::hops::Names;
use crate::tiers::memory::{Memory, nonce};
use crate::tiers::stores::Stores;
use bytes::Bytes;
use cache::{Asked, Head, SetCookie};
use http::{HeaderMap, Method};
use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};
use std::future::Future;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use store::disk::sim::SimDisk;
use store::{Body, Options, Store, Writer};

const LONG: Duration = Duration::from_secs(3600);

fn fills(turn: Duration) -> Arc<Fills> {
    Fills::new(windows(64 << 10), LONG, 16, turn)
}

fn windows(most: usize) -> Windows {
    Windows { most, allowance: Budget::new(0, 0).origins }
}

fn tiers() -> Tiers {
    Tiers::new(Memory::new(0, 0), Stores::default(), SetCookie::Never)
}

fn join(fills: &Arc<Fills>, vain: u32) -> Joined {
    fills.join(&key(), &tiers(), None, vain, None)
}

fn key() -> Key {
    Key::new("k")
}

fn leader(fills: &Arc<Fills>) -> Leader {
    match join(fills, 0) {
        Joined::Leader(lead) => lead,
        _ => panic!("somebody leads already"),
    }
}

fn followers(fills: &Arc<Fills>, count: usize) -> Vec<FillReader> {
    let follow = |_| match join(fills, 0) {
        Joined::Follower(seat) => seat,
        _ => panic!("nobody leads"),
    };
    (0..count).map(follow).collect()
}

fn news(seat: &FillReader) -> Option<News> {
    match pin!(seat.news()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(news) => Some(news),
        Poll::Pending => None,
    }
}

/// What the seats hear now: the one that leads, how many go alone, and who still waits.
fn hear(seats: &mut Vec<FillReader>) -> (Option<Leader>, usize) {
    let (mut lead, mut alone) = (None, 0);
    seats.retain(|seat| match news(seat) {
        None => true,
        Some(News::Leader(called)) => {
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
    let Joined::Leader(lead) = fills.join(&key(), &tiers, None, 0, None) else { panic!("somebody leads") };
    let mut seats = followers(&fills, 2);
    tiers.remove(&key());
    let Joined::Leader(later) = fills.join(&key(), &tiers, None, 0, None) else { panic!("it was joined") };
    let Joined::Follower(seat) = fills.join(&key(), &tiers, None, 0, None) else { panic!("nobody leads") };
    // Those who asked before go on among themselves.
    drop(lead);
    assert!(hear(&mut seats).0.is_some() && news(&seat).is_none());
    drop(later);
    assert!(matches!(news(&seat), Some(News::Leader(_))));
}

#[test]
fn who_looked_before_a_fetch_stored_what_it_brought_looks_again() {
    let (fills, tiers) = (fills(LONG), tiers());
    let looked = tiers.now();
    let join = |looked| fills.join(&key(), &tiers, Some(looked), 0, None);
    let Joined::Leader(lead) = join(looked) else { panic!("somebody leads") };
    tiers.mark(CacheEntry::queries(key(), nonce()), tiers.now());
    assert!(matches!(join(looked), Joined::Follower(_)));
    lead.again();
    assert!(matches!(join(looked), Joined::Again));
    assert!(matches!(join(tiers.now()), Joined::Leader(_)));
    tiers.remove(&key());
    assert!(matches!(join(looked), Joined::Leader(_)), "nothing is there any more");
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
fn five_thousand_readers_cost_no_more_than_their_places() {
    let fills = fills(LONG);
    let lead = leader(&fills);
    let seats = followers(&fills, 5_000);
    let (producer, own) = lead.open(opened(), Keep::given_up(None));
    drop(own);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        producer.push(Bytes::from(vec![0; 8 << 10]));
        for seat in &seats {
            assert!(matches!(seat.poll_piece(&mut context), Poll::Ready(Piece::Bytes(_))));
        }
        let state = producer.fill.lock();
        assert_eq!(state.readers.check(), 1);
        assert!(state.body().unwrap().window.len() <= fills.windows.most);
    }
}

/// It has caught up, nobody else is left, and the fetch ends: it goes on by itself.
#[test]
fn one_who_was_cut_off_and_caught_up_is_not_broken_off() {
    let fills = fills(LONG);
    let lead = leader(&fills);
    let mut seats = followers(&fills, 2);
    let (producer, own) = lead.open(opened(), Keep::given_up(None));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..4 {
        producer.push(Bytes::from(vec![0; 8 << 10]));
    }
    assert!(matches!(seats[1].poll_piece(&mut context), Poll::Ready(Piece::Bytes(_))));
    while own.poll_piece(&mut context).is_ready() {}
    producer.fill.lock().cut_off();
    while seats[1].poll_piece(&mut context).is_ready() {}
    drop(own);
    producer.end(End::Broken, [None, None]);
    assert!(matches!(seats[1].poll_piece(&mut context), Poll::Ready(Piece::Gone)));
    seats.clear();
}

/// Its readers begin at the begin, also those that come later, whether more is stored or not.
#[test]
fn a_body_whose_first_part_is_stored_goes_on_behind_it() {
    let spans = store::Spans { store: 0, id: 7, length: 100, span: 50 };
    let fills = fills(LONG);
    let (producer, own) = leader(&fills).open(Opened { from: 100, ..opened() }, Keep::stored(&spans));
    let late = followers(&fills, 1).remove(0);
    producer.push(Bytes::from_static(b"the rest"));
    let mut context = Context::from_waker(Waker::noop());
    for seat in [&own, &late] {
        assert!(
            matches!(seat.poll_piece(&mut context), Poll::Ready(Piece::Stored(there, 0)) if there == spans)
        );
        seat.took(100);
        let Poll::Ready(Piece::Bytes(bytes)) = seat.poll_piece(&mut context) else { panic!("nothing comes") };
        assert_eq!(bytes, "the rest");
        assert!(seat.poll_piece(&mut context).is_pending());
    }
    producer.end(End::Complete, [None, None]);
    assert!(matches!(own.poll_piece(&mut context), Poll::Ready(Piece::End(End::Complete))));
}

fn head() -> Head {
    let parts = http::Response::builder().header("cache-control", "max-age=60").body(()).unwrap();
    let asked = Asked::of(&Method::GET, &HeaderMap::new());
    Head::storable(&asked, &parts.into_parts().0, 1, 1).unwrap()
}

fn answer() -> Answer {
    Answer { held: Arc::new(opened().held), validated: false, verdict: Verdict::Fresh }
}

fn opened() -> Opened {
    let held = CacheEntry::response(key(), head(), Body::Whole(Bytes::new()), &Names::new("t"));
    Opened { key: key(), held, from: 0, length: None, verdict: Verdict::Fresh, repair: None }
}

/// A store whose writers' spans are short.
fn store() -> &'static Store {
    static STORE: OnceLock<Store> = OnceLock::new();
    STORE.get_or_init(|| {
        let options = Options {
            size: Some(16 << 20),
            packet: 64 << 10,
            object_max: Some(16 << 20),
            tell: |_| {},
            ..Options::at("")
        };
        Store::over(Arc::new(SimDisk::new(16 << 20, StdRng::seed_from_u64(1))), &options).unwrap()
    })
}

/// Bytes that a walk pushes at once, at most.
const PUSHED: usize = 40_000;

/// What a test may do to a fill.
#[derive(Clone, Debug)]
enum Step {
    Join(u32),
    /// A reader that waits for news looks whether there are some.
    Hear(usize),
    Read(usize),
    Leave(usize),
    /// The leader, if there is one.
    Leader(Leads),
    /// The producer, if there is one.
    Push(usize),
    CutOff,
    /// The store takes what comes from now on, or all that came.
    Write,
    /// It takes no more.
    Refuse,
    End(Option<End>),
}

#[derive(Clone, Copy, Debug)]
enum Leads {
    Open { kept: bool },
    Answered,
    Alone,
    Again,
    Failed,
    Unusable,
    Leaves,
}

fn step() -> impl Strategy<Value = Step> {
    let leads = prop_oneof![
        8 => any::<bool>().prop_map(|kept| Leads::Open { kept }),
        1 => Just(Leads::Answered),
        1 => Just(Leads::Alone),
        1 => Just(Leads::Again),
        1 => Just(Leads::Failed),
        2 => Just(Leads::Unusable),
        2 => Just(Leads::Leaves),
    ];
    prop_oneof![
        6 => (0_u32..3).prop_map(Step::Join),
        4 => any::<usize>().prop_map(Step::Hear),
        12 => any::<usize>().prop_map(Step::Read),
        2 => any::<usize>().prop_map(Step::Leave),
        2 => leads.prop_map(Step::Leader),
        10 => (1..PUSHED).prop_map(Step::Push),
        4 => Just(Step::CutOff),
        2 => Just(Step::Write),
        1 => Just(Step::Refuse),
        1 => prop_oneof![Just(Some(End::Complete)), Just(Some(End::Broken)), Just(None)].prop_map(Step::End),
    ]
}

/// What should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Waiting,
    /// Which news.
    Decided(&'static str),
    Open,
    Over(End),
}

/// A fill, who drives it, and its readers with the offset of each.
struct Walk {
    fills: Arc<Fills>,
    fill: Arc<Fill>,
    lead: Option<Leader>,
    producer: Option<(Producer, Option<Writer>)>,
    seats: Vec<(FillReader, u64)>,
    expected: Expected,
    /// Bytes pushed.
    length: u64,
}

fn byte(at: u64) -> u8 {
    (at ^ (at >> 8)) as u8
}

impl Walk {
    fn new() -> Walk {
        // Less than a span: more than that is held for the store.
        let fills = Fills::new(windows(store().span_size() / 4), LONG, 16, LONG);
        let lead = leader(&fills);
        let (fill, seats, expected) = (lead.fill.clone(), Vec::new(), Expected::Waiting);
        Walk { fills, fill, lead: Some(lead), producer: None, seats, expected, length: 0 }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Join(vain) => match join(&self.fills, vain) {
                Joined::Follower(seat) => {
                    assert_eq!(seat.early, self.expected == Expected::Waiting);
                    assert!(matches!(self.expected, Expected::Waiting | Expected::Open));
                    self.seats.push((seat, 0));
                }
                Joined::Alone => {
                    let known = self.expected == Expected::Decided("alone");
                    assert!(known || (self.expected == Expected::Waiting && vain > 1));
                }
                Joined::Again => panic!("nothing was stored"),
                Joined::Leader(other) => {
                    assert!(!Arc::ptr_eq(&other.fill, &self.fill), "two lead");
                    assert_ne!(self.expected, Expected::Waiting);
                    // Another fill, which is not looked at.
                }
            },
            Step::Hear(n) if !self.seats.is_empty() => self.hear(n % self.seats.len()),
            Step::Read(n) if !self.seats.is_empty() => self.read(n % self.seats.len()),
            Step::Leave(n) if !self.seats.is_empty() => {
                self.seats.swap_remove(n % self.seats.len());
                self.find_out();
            }
            Step::Leader(leads) => {
                if let Some(lead) = self.lead.take() {
                    self.lead(lead, leads);
                }
            }
            Step::Push(length) => self.push(length as u64),
            Step::CutOff => {
                let mut state = self.fill.lock();
                if state.slow_ones_hold() {
                    state.cut_off();
                }
            }
            Step::Write => self.begin_writing(),
            Step::Refuse => self.refuse(),
            Step::End(end) => {
                if let Some((producer, writer)) = self.producer.take() {
                    match end {
                        Some(end) => producer.end(end, [None, None]),
                        None => drop(producer),
                    }
                    self.expected = Expected::Over(end.unwrap_or(End::Broken));
                    if let Some(mut writer) = writer {
                        let _ = writer.finish(b"");
                    }
                }
            }
            Step::Hear(_) | Step::Read(_) | Step::Leave(_) => {}
        }
        self.check();
    }

    fn lead(&mut self, lead: Leader, leads: Leads) {
        let failure = || Failure { refusal: Refusal::bad_request("no"), answered: None };
        match leads {
            Leads::Open { kept } => {
                let keep = if kept { Keep::Gathered } else { Keep::given_up(None) };
                let (producer, own) = lead.open(opened(), keep);
                (self.expected, self.producer) = (Expected::Open, Some((producer, None)));
                self.seats.push((own, 0));
            }
            Leads::Answered => {
                lead.answered(answer());
                self.expected = Expected::Decided("answered");
            }
            Leads::Alone => {
                lead.alone(&self.fills);
                self.expected = Expected::Decided("alone");
            }
            Leads::Again => {
                lead.again();
                self.expected = Expected::Decided("again");
            }
            Leads::Failed => {
                lead.failed(failure());
                self.expected = Expected::Decided("failed");
            }
            Leads::Unusable => lead.unusable(),
            Leads::Leaves => drop(lead),
        }
        self.find_out();
    }

    /// Without a leader one of those who wait is called, or all is over.
    fn find_out(&mut self) {
        if self.expected == Expected::Waiting && self.lead.is_none() {
            let called = |seat: &FillReader| self.fill.lock().readers.get(seat.id).unwrap().call;
            let leaders = self.seats.iter().filter(|(seat, _)| called(seat) == Some(readers::Call::Leader));
            match leaders.count() {
                0 => self.expected = Expected::Decided("again"),
                n => assert_eq!(n, 1, "one is called to lead"),
            }
        }
    }

    fn hear(&mut self, n: usize) {
        let (seat, at) = &self.seats[n];
        if *at > 0 {
            return;
        }
        let heard = news(seat);
        let expected = match heard {
            None => Expected::Waiting,
            Some(News::Open(_)) if matches!(self.expected, Expected::Over(_)) => self.expected,
            Some(News::Open(_)) => Expected::Open,
            Some(News::Answered(_)) => Expected::Decided("answered"),
            Some(News::Again) => Expected::Decided("again"),
            Some(News::Failed(_)) => Expected::Decided("failed"),
            Some(News::Leader(lead)) => {
                assert!(self.lead.replace(lead).is_none(), "two lead");
                self.seats.swap_remove(n);
                Expected::Waiting
            }
            // Called, or told of all.
            Some(News::Alone) => {
                let called = self.fill.lock().readers.get(seat.id).unwrap().call.is_some();
                self.seats.swap_remove(n);
                if called { self.expected } else { Expected::Decided("alone") }
            }
        };
        assert_eq!(expected, self.expected);
    }

    fn read(&mut self, n: usize) {
        if matches!(self.expected, Expected::Waiting | Expected::Decided(_)) {
            return;
        }
        let (seat, at) = &mut self.seats[n];
        if self.fill.lock().readers.get(seat.id).unwrap().call.is_some() {
            return;
        }
        let cut = self.fill.lock().readers.get(seat.id).unwrap().cut;
        match seat.poll_piece(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Piece::Bytes(bytes)) => {
                assert!(bytes.iter().enumerate().all(|(n, b)| *b == byte(*at + n as u64)));
                *at += bytes.len() as u64;
            }
            Poll::Ready(Piece::Stored(spans, from)) => {
                assert_eq!(from, *at);
                let span = u64::from(spans.span);
                let end = (from / span + 1) * span;
                assert!(end <= spans.length, "the store has the whole span");
                seat.took(end - from);
                *at = end;
            }
            Poll::Ready(Piece::Gone) => assert!(cut, "only who was cut off misses something"),
            Poll::Pending => assert_eq!((*at, self.expected), (self.length, Expected::Open)),
            Poll::Ready(Piece::End(end)) => {
                assert_eq!((*at, self.expected), (self.length, Expected::Over(end)));
            }
        }
    }

    fn push(&mut self, length: u64) {
        let Some((producer, _)) = &self.producer else { return };
        if self.fill.lock().room(&self.fills.windows) != Some(Room::Yes) {
            return;
        }
        let bytes: Bytes = (self.length..self.length + length).map(byte).collect();
        self.length += length;
        producer.push(bytes.clone());
        self.write(&bytes);
        // As the keeper does: no more than so much is gathered.
        if self.length > store().span_size() as u64 {
            self.begin_writing();
        }
    }

    fn begin_writing(&mut self) {
        let Some((producer, writer @ None)) = &mut self.producer else { return };
        if !matches!(&producer.fill.lock().stage, Stage::Open(body, _) if body.is_gathered()) {
            return;
        }
        let Ok(begun) = store().begin(&key(), None) else { return self.refuse() };
        producer.keep(Keep::written(&begun));
        *writer = Some(begun);
        let gathered = producer.gathered();
        assert!(gathered.len() as u64 == self.length, "something of what is gathered is gone");
        self.write(&gathered);
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some((producer, Some(writer))) = &mut self.producer else { return };
        let taken = writer.push(&mut { bytes });
        producer.keep(Keep::written(writer));
        if taken.is_err() {
            self.refuse();
        }
    }

    fn refuse(&mut self) {
        let Some((producer, writer)) = &mut self.producer else { return };
        let keeps = matches!(&producer.fill.lock().stage, Stage::Open(body, _) if body.keeps());
        if keeps {
            producer.keep(Keep::given_up(writer.take()));
        }
    }

    fn check(&self) {
        let state = self.fill.lock();
        state.readers.check();
        match (&state.stage, self.expected) {
            (Stage::Waiting(_), Expected::Waiting) => assert!(self.producer.is_none()),
            (Stage::Decided(_), Expected::Decided(_)) => assert!(self.lead.is_none()),
            (Stage::Open(body, _), Expected::Open) => {
                assert!(self.lead.is_none() && self.producer.is_some());
                assert_eq!(body.window.end(), self.length);
                let most = self.fills.windows.most + store().span_size() + 2 * PUSHED;
                assert!(body.window.len() < most, "{} bytes are held", body.window.len());
            }
            (Stage::Over(_, end), Expected::Over(expected)) => {
                assert!(self.producer.is_none() && *end == expected);
            }
            (_, expected) => panic!("it should be {expected:?}"),
        }
        drop(state);
        let listed = lock(&self.fills.table).values().any(|fill| Arc::ptr_eq(fill, &self.fill));
        let goes_on = matches!(self.expected, Expected::Waiting | Expected::Open);
        // One that cannot be followed any more may have been replaced.
        assert!(goes_on || !listed, "what is over is joined by nobody");
        assert!(listed || self.expected != Expected::Waiting);
    }

    /// Everybody who was not cut off gets the whole body, whatever happened before.
    fn finish(mut self) {
        while let Expected::Waiting = self.expected {
            match self.lead.take() {
                Some(lead) => self.lead(lead, Leads::Open { kept: true }),
                None => (0..self.seats.len()).rev().for_each(|n| self.hear(n)),
            }
        }
        self.take(Step::End(Some(End::Complete)));
        for n in 0..self.seats.len() {
            loop {
                let before = self.seats[n].1;
                self.read(n);
                if self.seats[n].1 == before {
                    break;
                }
            }
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn every_walk_through_the_machine_is_as_drawn(steps in prop::collection::vec(step(), 1..200)) {
        let mut walk = Walk::new();
        steps.into_iter().for_each(|step| walk.take(step));
        walk.finish();
    }
}
