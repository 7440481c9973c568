//! Tells the stores when off-peak is, and learns it from the load.

use crate::phase::Phase;
use crate::report::counters::{Class, Counters};
use crate::worker::Shared;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// How often it looks at the clock, the load, and the settings.
const LOOK: Duration = Duration::from_secs(5);

/// Until told to stop. `minute` says which minute of the day it is here.
pub fn run(shared: &Shared, minute: impl Fn() -> u16, mut phases: watch::Receiver<Phase>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let mut before = 0;
        loop {
            let (minute, requests) = (minute(), requests(&shared.counters));
            let share = {
                let mut curve = shared.day.lock().unwrap_or_else(PoisonError::into_inner);
                curve.note(minute, requests.wrapping_sub(before));
                shared.settings.newest().off_peak.share(minute, &curve)
            };
            before = requests;
            shared.tiers.stores.set_off_peak(share);
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                // An error means that the sender is gone.
                _ = phases.wait_for(|phase| matches!(phase, Phase::Moves | Phase::Stops(_))) => return Ok(()),
            }
        }
    })
}

/// The minute of the day, local time.
pub fn local_minute() -> u16 {
    let now = jiff::Zoned::now();
    now.hour() as u16 * 60 + now.minute() as u16
}

fn requests(workers: &[Arc<Counters>]) -> u64 {
    let of =
        |counters: &Arc<Counters>| Class::ALL.iter().map(|(class, _)| counters.requests(*class)).sum::<u64>();
    workers.iter().map(of).fold(0, u64::wrapping_add)
}
