//! Reads an origin's body once: into the window of a fill, and into the store (`keeper`).
//!
//! When the origin breaks off, it is asked once more for the rest, for all readers together (`mend`).

use crate::fill::repair::Repair;
use crate::fill::window::joined;
use crate::fill::{Answer, End, FillReader, Leader, Opened, Producer, Room};
use crate::message::pieces::Pieces as _;
use crate::origin::body::OriginBody;
use crate::tiers::memory::CacheEntry;
use crate::transfer::intake::Intake;
use crate::transfer::keeper::{Keeper, Object, gather_max, keep};
use crate::transfer::mend::For;
use crate::transfer::reading::FillBody;
use crate::transfer::span::Supply;
use crate::worker::Worker;
use bytes::Bytes;
use cache::{NotStored, Verdict};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use store::Body;
use tokio::task::spawn_local;

/// What was started.
pub struct Started {
    /// The leader's body.
    pub body: LeadersBody,
    /// It is stored, or being stored; or why it is not. What was removed meanwhile has no reason.
    pub kept: Result<(), Option<NotStored>>,
}

pub enum LeadersBody {
    Whole(Bytes),
    Pieces(FillBody),
}

/// Stores a response, at once or while it is read. The returned body is the leader's, to whom the response is what
/// `verdict` says. `repair` tells how a body of that length goes on if it must; `charged`, whose share of memory it takes.
pub fn start(
    worker: &Rc<Worker>,
    lead: Leader,
    mut body: OriginBody,
    mut object: Object,
    verdict: Verdict,
    charged: Option<IpAddr>,
    repair: impl FnOnce(&Object, Option<u64>) -> Option<Repair>,
) -> Started {
    let length = body.left().map(|left| left + object.begin.len());
    if length.is_some_and(|length| length <= gather_max(worker))
        && let Some(whole) = body.take_whole()
    {
        return keep_whole(worker, lead, object, whole, verdict);
    }
    let names = &worker.shared.names;
    let held =
        CacheEntry::response(object.key.clone(), object.head.clone(), Body::Whole(Bytes::new()), names);
    let repair = repair(&object, length).map(Arc::new);
    let key = object.key.clone();
    let (begin, from) = match &mut object.begin {
        Body::Whole(begin) => (std::mem::take(begin), 0),
        Body::Spans(stored) => (Bytes::new(), stored.length),
    };
    let (keeper, kept) = Keeper::new(worker, object, length);
    let opened = Opened { key, held, from, length, verdict, repair: repair.clone() };
    let (producer, seat) = lead.open(opened, keeper.keep());
    let pump =
        Pump { worker: worker.clone(), producer, body: Intake::new(body), keeper, repair: repair.clone() };
    let counted = Counted::new(worker);
    spawn_local(async move {
        pump.run(begin).await;
        drop(counted);
    });
    let supply = Supply { charged, repair };
    let body = LeadersBody::Pieces(FillBody::new(worker, seat, length, supply));
    Started { body, kept: kept.map_err(Some) }
}

/// All of the body is here, for those who follow too.
fn keep_whole(
    worker: &Rc<Worker>,
    lead: Leader,
    mut object: Object,
    mut pieces: Vec<Bytes>,
    verdict: Verdict,
) -> Started {
    // What begins with pieces in the store is larger than what is kept whole.
    if let Body::Whole(begin) = &object.begin
        && !begin.is_empty()
    {
        pieces.insert(0, begin.clone());
    }
    let body = match &pieces[..] {
        [one] if !worker.shared.tiers.memory.takes(one.len()) => one.clone(),
        several => joined(several),
    };
    object.head.settle(body.len() as u64);
    let answer = lead.is_followed().then(|| {
        let (key, head) = (object.key.clone(), object.head.clone());
        let held = CacheEntry::response(key, head, Body::Whole(body.clone()), &worker.shared.names);
        Answer { held: Arc::new(held), validated: false, verdict }
    });
    let kept = keep(worker, object, body.clone());
    match answer {
        Some(answer) => lead.answered(answer),
        None => lead.again(),
    }
    Started { body: LeadersBody::Whole(body), kept }
}

/// The body of a follower.
pub fn follow(worker: &Rc<Worker>, seat: FillReader, opened: &Opened, charged: Option<IpAddr>) -> FillBody {
    FillBody::new(worker, seat, opened.length, Supply { charged, repair: opened.repair.clone() })
}

/// Something that a stopping worker waits for.
pub struct Counted(Rc<Worker>);

impl Counted {
    pub fn new(worker: &Rc<Worker>) -> Counted {
        worker.pumps.set(worker.pumps.get() + 1);
        Counted(worker.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.pumps.set(self.0.pumps.get() - 1);
    }
}

/// One fetch on its way to its readers and into the store.
struct Pump {
    worker: Rc<Worker>,
    producer: Producer,
    body: Intake,
    keeper: Keeper,
    /// How an origin that breaks off is asked for the rest: once, for one that breaks off again is no better the third time.
    repair: Option<Arc<Repair>>,
}

/// How a body came to its end, or by whom it did not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Whole,
    ByOrigin,
    ByReaders,
}

impl Pump {
    /// `begin` goes before what the origin sends.
    async fn run(mut self, begin: Bytes) {
        if !begin.is_empty() {
            self.take(begin);
        }
        let end = self.take_all().await;
        // Its readers may have all of it yet to take.
        let leases = [self.body.take_lease(), self.keeper.take_lease()];
        match end {
            Ended::Whole => Box::pin(self.keeper.commit(&self.producer)).await,
            broken => Box::pin(self.keeper.break_off(&self.producer, broken == Ended::ByOrigin)).await,
        }
        self.producer.end(if end == Ended::Whole { End::Complete } else { End::Broken }, leases);
    }

    async fn take_all(&mut self) -> Ended {
        let worth_finishing = self.worker.settings().bounds.finish_bytes;
        loop {
            match self.body.next().await {
                Some(Ok(bytes)) => {
                    self.take(bytes);
                    self.keeper.wait_for_store(&self.producer).await;
                    // All is here: what is kept need not wait for its readers.
                    if self.body.is_over() {
                        continue;
                    }
                    let few_left = self.body.left().is_some_and(|left| left <= worth_finishing);
                    if self.producer.room().await == Room::NobodyReads && !(few_left && self.keeper.keeps()) {
                        return Ended::ByReaders;
                    }
                }
                None => return Ended::Whole,
                Some(Err(_)) => {
                    let Some(repair) = self.repair.take() else { return Ended::ByOrigin };
                    let (from, to) = (self.keeper.got, self.keeper.expected);
                    match repair.fetch(&self.worker, For::All, from, to).await {
                        Ok(rest) => self.body.rest = Some(rest),
                        Err(_) => return Ended::ByOrigin,
                    }
                }
            }
        }
    }

    fn take(&mut self, bytes: Bytes) {
        self.producer.push(bytes.clone());
        self.keeper.take(bytes, &self.producer);
    }
}
