//! Whether the proxy is alive, and whether it is ready for clients.

use super::AdminError;
use crate::tiers::stores::State;
use crate::worker::Shared;
use http::StatusCode;
use std::time::Duration;

/// A worker that has done nothing for so long is stuck: three times as long as it ever sleeps.
const STUCK: Duration = Duration::from_secs(15);

pub fn alive(shared: &Shared) -> Result<String, AdminError> {
    match stuck(shared.counters.iter().map(|counters| counters.silent_for())) {
        None => Ok("ok\n".into()),
        Some(stuck) => Err(AdminError(StatusCode::SERVICE_UNAVAILABLE, stuck)),
    }
}

/// Which workers are stuck, given for how long each has done nothing.
fn stuck(silent: impl Iterator<Item = Duration>) -> Option<String> {
    let stuck: Vec<_> = silent
        .enumerate()
        .filter(|(_, silent)| *silent >= STUCK)
        .map(|(n, silent)| format!("worker {n} has done nothing for {} s", silent.as_secs()))
        .collect();
    (!stuck.is_empty()).then(|| stuck.join("\n"))
}

/// A disk that has not answered for so long is told of.
const LATE: Duration = Duration::from_secs(5);

/// Without a disk it serves as well, from memory and origins, and says what is wrong with disks. A proxy that stops does not answer here.
pub fn ready(shared: &Shared) -> Result<String, AdminError> {
    let stores = &shared.tiers.stores;
    let (left, signs) = (stores.count(State::Left), stores.signs());
    let disks = left as usize + signs.len();
    let told = [
        (left as usize, "left"),
        (signs.iter().filter(|signs| signs.late >= LATE).count(), "not answering"),
        (signs.iter().filter(|signs| signs.writes_fail).count(), "taking no writes"),
    ];
    let told = told.iter().filter(|(count, _)| *count > 0);
    let told = told.map(|(count, what)| format!("{count} of {disks} disks are {what}\n")).collect::<String>();
    alive(shared).map(|ok| ok + &told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::counters::Counters;
    use crate::report::{Exit, Transaction};
    use std::sync::Arc;
    use std::thread::sleep;

    #[test]
    fn workers_that_do_nothing_are_named() {
        let seconds = |all: [u64; 3]| stuck(all.into_iter().map(Duration::from_secs));
        assert_eq!(seconds([0, 14, 5]), None);
        assert_eq!(
            seconds([15, 1, 90]).as_deref(),
            Some("worker 0 has done nothing for 15 s\nworker 2 has done nothing for 90 s")
        );
    }

    #[test]
    fn a_beat_ends_the_silence() {
        let counters = Arc::<Counters>::default();
        let exit = Exit::new(counters.clone(), Arc::new(|_: &Transaction| {}));
        sleep(Duration::from_millis(300));
        let before = counters.silent_for();
        exit.beat();
        assert!(before >= Duration::from_millis(300) && counters.silent_for() < before);
    }
}
