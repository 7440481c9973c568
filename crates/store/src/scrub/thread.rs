//! The scrub's thread: one for each store, so that no write waits for it.

use crate::disk::Disk;
use crate::engine::Io;
use crate::scrub::Clients;
use crate::shared::Shared;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(crate) fn run(shared: &Shared, disk: &dyn Disk) {
    let reads = || shared.traffic.reads.load(Relaxed);
    let mut after_last = reads();
    let mut engine = shared.engine();
    while !shared.is_ending() {
        let clients = match shared.readers.load(Relaxed) {
            0 if reads() == after_last => Clients::Away,
            0 => Clients::Near,
            _ => Clients::Wait,
        };
        match engine.next_scrub(clients, shared.millis()) {
            Ok(Io { id, op }) => {
                drop(engine);
                let result = shared.carry_out(disk, op);
                after_last = reads();
                engine = shared.done(id, result);
            }
            Err(wait) => {
                let wait = Duration::from_millis(wait.max(1));
                let waited = shared.ends.wait_timeout(engine, wait);
                engine = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
