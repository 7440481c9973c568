//! What one fill's lock guards: the state of its machine, and its readers.
//!
//! ```text
//!    an answer of no use, or nobody leads: one of those who wait does
//!                ┌───┐
//!                ▼   │
//!    ────────► Waiting ─── open ───► Open ─── end ───► Over(Complete | Broken)
//!                │                   ▲  │
//!                │                   └──┘ Gathered ─► Written ─► Passing
//!                │                            └──────────────────▲
//!                └── answered, alone, again, failed ──► Decided
//! ```
//!
//! | state | what there is | who leaves it, and how |
//! |---|---|---|
//! | `Waiting` | readers that wait for news, all at the body's begin | the one [`Leader`](super::Leader) there is |
//! | `Decided` | what those who waited do now; no body, and nobody joins | nobody |
//! | `Open` | a head, a window of the body, and what the store does with it (`Keep`) | the one [`Producer`](super::Producer) |
//! | `Over` | the same without more to come; nobody joins | nobody |
//!
//! `Open` begins with any `Keep`, and goes from one to another as drawn. A body of which the store has the first part already
//! (`Opened::from`) begins `Written`, or `Passing` with that part: its window begins there. `Gathered`: the window holds all of the body, and is
//! what is stored when it ends. `Written`: the store has what came before `Readable::before`. `Passing`: the body is read along
//! only, and what was written of it stays readable while this state lasts. A pump ends a body that nobody reads as
//! `Broken`, and one whose producer is dropped is so too.

use super::patience::Patience;
use super::readers::Readers;
use super::window::Window;
use super::window_size::{WindowSize, Windows};
use super::{Answer, Failure, Opened};
use crate::budget::Lease;
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use store::{Spans, Writer};

#[derive(Default)]
pub(super) struct State {
    pub(super) stage: Stage,
    pub(super) readers: Readers,
}

pub(super) enum Stage {
    Waiting(Election),
    Decided(Decision),
    Open(Body, Pump),
    Over(Body, End),
}

/// How the next leader is found.
#[derive(Default)]
pub(super) struct Election {
    /// How many were called last, after an answer that was of no use.
    called: usize,
    /// The leader's answer was of no use to the others.
    pub(super) unusable: bool,
    /// Those who fetch beside the leader, since nothing suited them.
    beside: u32,
}

/// What those who waited do without a body.
pub(super) enum Decision {
    Answered(Answer),
    /// The response is not for sharing.
    Alone,
    /// Look again.
    Again,
    Failed(Failure),
}

/// A body that comes, or came.
pub(super) struct Body {
    pub(super) head: Arc<Opened>,
    pub(super) window: Window,
    /// What that may hold.
    pub(super) size: WindowSize,
    keep: Keep,
    /// What its bytes were taken from, once it is over.
    _leases: [Option<Lease>; 2],
}

/// What the store does with a body. It changes as the table in this module's head says.
pub enum Keep {
    Gathered,
    Written(Readable),
    /// With what was written before, if anything was.
    Passing(Option<Abandoned>),
}

/// What of a body the store can give back.
#[derive(Clone, Copy)]
pub struct Readable {
    pub(super) spans: Spans,
    /// Everything before this offset.
    before: u64,
}

/// A write that came to nothing, or none: what it wrote stays readable as long as this is there, or is stored anyway.
pub struct Abandoned {
    readable: Readable,
    _writer: Option<Writer>,
}

/// Who fills the window.
#[derive(Default)]
pub(super) struct Pump {
    pub(super) waker: Option<Waker>,
    pub(super) patience: Patience,
}

/// How a body ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Complete,
    Broken,
}

/// What the pump is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Yes,
    NobodyReads,
}

/// The transitions.
impl State {
    /// From `Waiting` to `Waiting`: the leader went without a decision, and the next of those who wait are called. Their
    /// wakers; `None` when nobody waits.
    pub(super) fn succeed(&mut self, late: bool) -> Option<Vec<Waker>> {
        let Stage::Waiting(election) = &mut self.stage else { return None };
        let grows = std::mem::take(&mut election.unusable) || late;
        let number = if grows { (2 * election.called).max(1) } else { 1 };
        if grows {
            election.called = number;
        }
        self.readers.call(number)
    }

    /// From `Waiting` to `Decided`.
    pub(super) fn decide(&mut self, decision: Decision) {
        debug_assert!(matches!(self.stage, Stage::Waiting(_)), "decided twice");
        self.stage = Stage::Decided(decision);
    }

    /// From `Waiting` to `Open`.
    pub(super) fn open(&mut self, head: Arc<Opened>, keep: Keep) {
        debug_assert!(matches!(self.stage, Stage::Waiting(_)), "opened after a decision");
        let (window, size) = (Window::from(head.from), WindowSize::default());
        debug_assert!(head.from <= keep.readable_before(), "what comes before the window is nowhere");
        self.stage = Stage::Open(Body { head, window, size, keep, _leases: [None, None] }, Pump::default());
    }

    /// From `Open` to `Open`.
    pub(super) fn keep(&mut self, keep: Keep) {
        let Stage::Open(body, _) = &mut self.stage else { return debug_assert!(false, "no body comes") };
        debug_assert!(body.keep.may_become(&keep), "the store takes no such step");
        body.keep = keep;
    }

    /// From `Open` to `Over`.
    pub(super) fn end(&mut self, end: End, leases: [Option<Lease>; 2]) {
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::Open(body, _) => Stage::Over(Body { _leases: leases, ..body }, end),
            other => {
                debug_assert!(false, "no body comes");
                other
            }
        };
    }
}

impl State {
    /// Counts one more in who fetches beside the leader, if that may be: `vain` fetches did not suit it.
    pub(super) fn lets_go(&mut self, vain: u32) -> bool {
        let Stage::Waiting(election) = &mut self.stage else { return false };
        let goes = election.beside + 1 < 4_u32.saturating_pow(vain.saturating_sub(1));
        election.beside += u32::from(goes);
        goes
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    pub(super) fn body(&self) -> Option<&Body> {
        match &self.stage {
            Stage::Waiting(_) | Stage::Decided(_) => None,
            Stage::Open(body, _) | Stage::Over(body, _) => Some(body),
        }
    }

    pub(super) fn head(&self) -> Option<&Arc<Opened>> {
        self.body().map(|body| &body.head)
    }

    /// Whether a reader can still begin.
    pub(super) fn reaches_back(&self) -> bool {
        match &self.stage {
            Stage::Waiting(_) => true,
            Stage::Decided(_) | Stage::Over(..) => false,
            Stage::Open(body, _) => body.readable_before() >= body.window.start(),
        }
    }

    /// Whether the pump may push; `None`: not yet.
    pub(super) fn room(&mut self, windows: &Windows) -> Option<Room> {
        if let Stage::Open(Body { head, window, size, .. }, _) = &mut self.stage
            && window.len() >= size.bytes()
        {
            size.widen(windows, window.end() - head.from);
        }
        self.make_room();
        let Stage::Open(body, _) = &self.stage else { return Some(Room::NobodyReads) };
        if self.readers.nobody_reads() {
            return Some(Room::NobodyReads);
        }
        // What is kept need not wait for the slow ones: they find it in the store.
        let has_room =
            body.window.len() < body.size.bytes() || (body.keep.keeps() && self.readers.some_wait());
        has_room.then_some(Room::Yes)
    }

    /// When full, lets go of pieces that the store can give, or, when nothing is kept or to come, that every reader took.
    /// Until then they stay, for readers that are yet to come.
    pub(super) fn make_room(&mut self) {
        let (body, comes) = match &mut self.stage {
            Stage::Waiting(_) | Stage::Decided(_) => return,
            Stage::Open(body, _) => (body, true),
            Stage::Over(body, _) => (body, false),
        };
        let readable = body.readable_before();
        let spared = match comes && body.keep.keeps() {
            true => readable,
            false => self.readers.slowest().unwrap_or(body.window.end()).max(readable),
        };
        body.window.let_go(body.size.bytes(), spared);
    }

    /// Some readers keep the fetch from going on for one that has taken everything.
    pub(super) fn slow_ones_hold(&self) -> bool {
        matches!(&self.stage, Stage::Open(body, _) if !body.keep.keeps()) && self.readers.differ()
    }

    /// Waits no longer for readers that are more than half of the window behind.
    pub(super) fn cut_off(&mut self) {
        let Stage::Open(body, pump) = &mut self.stage else { return };
        let half = body.window.end().saturating_sub(body.size.bytes() as u64 / 2);
        self.readers.cut_off(half.max(body.window.first_end()));
        pump.patience = Patience::default();
    }
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::Waiting(Election::default())
    }
}

impl Body {
    fn readable_before(&self) -> u64 {
        self.keep.readable_before()
    }

    pub(super) fn readable(&self) -> Option<&Readable> {
        self.keep.readable()
    }
}

impl Keep {
    /// What a writer wrote so far.
    pub fn written(writer: &Writer) -> Keep {
        Keep::Written(Readable::of(&writer.spans()))
    }

    /// Nothing is kept any more.
    pub fn given_up(writer: Option<Writer>) -> Keep {
        Keep::Passing(
            writer.map(|writer| Abandoned { readable: Readable::of(&writer.spans()), _writer: Some(writer) }),
        )
    }

    /// Nothing is kept, but these pieces are stored.
    pub fn stored(spans: &Spans) -> Keep {
        Keep::Passing(Some(Abandoned { readable: Readable::of(spans), _writer: None }))
    }

    fn readable(&self) -> Option<&Readable> {
        match self {
            Keep::Gathered | Keep::Passing(None) => None,
            Keep::Written(readable) | Keep::Passing(Some(Abandoned { readable, .. })) => Some(readable),
        }
    }

    fn readable_before(&self) -> u64 {
        self.readable().map_or(0, |readable| readable.before)
    }

    /// Whether the body is being kept: the window may let go only of what the store can give.
    fn keeps(&self) -> bool {
        !matches!(self, Keep::Passing(_))
    }

    fn may_become(&self, next: &Keep) -> bool {
        match (self, next) {
            (Keep::Gathered, Keep::Written(_) | Keep::Passing(None)) => true,
            (
                Keep::Written(now),
                Keep::Written(then) | Keep::Passing(Some(Abandoned { readable: then, .. })),
            ) => now.spans.id == then.spans.id && now.before <= then.before,
            _ => false,
        }
    }
}

impl Readable {
    fn of(spans: &Spans) -> Readable {
        let size = u64::from(spans.span.max(1));
        Readable { spans: *spans, before: spans.length / size * size }
    }

    /// Whether the byte at an offset is among it.
    pub(super) fn has(&self, at: u64) -> bool {
        at < self.before
    }
}

pub(super) fn wake_readers(mut state: MutexGuard<'_, State>) {
    let wakers = state.readers.wakers();
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

pub(super) fn wake_pump(mut state: MutexGuard<'_, State>) {
    let waker = match &mut state.stage {
        Stage::Open(_, pump) => pump.waker.take(),
        Stage::Waiting(_) | Stage::Decided(_) | Stage::Over(..) => None,
    };
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
impl Body {
    pub(super) fn keeps(&self) -> bool {
        self.keep.keeps()
    }

    pub(super) fn is_gathered(&self) -> bool {
        matches!(self.keep, Keep::Gathered)
    }
}
