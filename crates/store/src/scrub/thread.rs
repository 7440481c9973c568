//! The scrub's thread: one for each store, so that no write waits for it.

use crate::disk::Disk;
use crate::engine::Io;
use crate::shared::Shared;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(crate) fn run(shared: &Shared, disk: &dyn Disk) {
    let mut engine = shared.engine();
    while !shared.is_ending() {
        match engine.next_scrub(shared.readers.load(Relaxed) > 0, shared.millis()) {
            Ok(Io { id, op }) => {
                drop(engine);
                let result = shared.carry_out(disk, op);
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
