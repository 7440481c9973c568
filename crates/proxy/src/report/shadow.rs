//! What other replacement policies and other sizes would have answered (`policy::shadow`): told of each request that a cache could
//! answer, simulated by a thread of its own.

use super::Transaction;
use crate::phase::Phase;
use cache::{Miss, Outcome};
use policy::replacement::Policy;
use policy::shadow::{self, Found, Point, Ratios};
use serde_json::{Value as Json, json};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};

/// What was told is applied as often, if nobody asks before and there is little of it.
const APPLIED: Duration = Duration::from_secs(60);

pub struct Shadow {
    policies: shadow::Shadow,
    much: Arc<Notify>,
}

/// One worker's.
pub struct Teller {
    policies: Arc<shadow::Teller>,
    much: Arc<Notify>,
}

impl Shadow {
    /// Beside a cache of so many bytes; none for no policies.
    pub fn new(policies: &[Policy], size: u64, workers: usize) -> Option<Shadow> {
        let secret = RandomState::new().hash_one(size);
        let shadow = || Shadow {
            policies: shadow::Shadow::new(policies, size, workers, secret, now()),
            much: Arc::default(),
        };
        (!policies.is_empty()).then(shadow)
    }

    pub fn teller(&self, worker: usize) -> Teller {
        Teller { policies: self.policies.teller(worker), much: self.much.clone() }
    }

    /// Share of hits of each policy and size that has counted requests.
    pub(super) fn hit_ratios(&self) -> Vec<(&'static str, u64, f64)> {
        let points = self.policies.view(now()).points.into_iter();
        points.filter_map(|point| Some((point.policy, point.size, point.ratios?.hits))).collect()
    }

    /// As docs/caching.md describes it.
    pub fn json(&self) -> Json {
        let view = self.policies.view(now());
        json!({
            "size": view.size,
            "since": view.since / 1000,
            "requests": view.requests.round() as u64,
            "hit-ratio": view.ratios.map(|ratios| ratios.hits),
            "byte-hit-ratio": view.ratios.map(|ratios| ratios.bytes),
            "dropped": view.dropped,
            "curve": view.points.iter().map(point).collect::<Json>(),
        })
    }
}

fn point(point: &Point) -> Json {
    let Point { policy, size, ratios, sampled, rate, since, full } = point;
    json!({
        "policy": policy,
        "size": size,
        "hit-ratio": ratios.map(|Ratios { hits, .. }| hits),
        "byte-hit-ratio": ratios.map(|Ratios { bytes, .. }| bytes),
        "sampled": sampled.round() as u64,
        "rate": rate,
        "since": since / 1000,
        "full": full,
    })
}

/// Until told to stop.
pub fn run(shadow: &Option<Shadow>, mut phases: watch::Receiver<Phase>) -> io::Result<()> {
    let Some(shadow) = shadow else { return Ok(()) };
    let runtime = Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        loop {
            tokio::select! {
                () = shadow.much.notified() => {}
                () = tokio::time::sleep(APPLIED) => {}
                // An error means that the sender is gone.
                _ = phases.wait_for(|phase| matches!(phase, Phase::Moves | Phase::Stops(_))) => return Ok(()),
            }
            shadow.policies.apply(now());
        }
    })
}

impl Teller {
    /// Of what could be answered from a cache, whatever becomes of the response.
    pub(super) fn tell(&self, transaction: &Transaction) {
        let Some(object) = transaction.object else { return };
        let Some(found) = found(transaction) else { return };
        if let Some(bytes) = transaction.size()
            && self.policies.tell(object.key, bytes, found)
        {
            self.much.notify_one();
        }
    }
}

/// What the cache had. Who is answered by another's fetch comes to no origin: a cache that kept the object would have had it by then.
fn found(transaction: &Transaction) -> Option<Found> {
    let report = transaction.report?;
    Some(match report.outcome {
        Outcome::Pass(_) => return None,
        _ if report.collapsed == Some(true) => Found::Hit,
        Outcome::Miss(Miss::Stale(_)) => Found::Old,
        Outcome::Miss(Miss::Uri | Miss::Vary | Miss::Partial) => Found::Nothing,
        _ => Found::Hit,
    })
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
