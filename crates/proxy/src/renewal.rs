//! Certificates are read anew when their files are others than they were, and keys of session tickets change in time.

use crate::phase::Phase;
use crate::tls::Certificates;
use crate::worker::Shared;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Builder;
use tokio::sync::watch;

/// How often it looks at the files.
const LOOK: Duration = Duration::from_secs(2);

/// Until told to stop, or another process accepts.
pub fn run(shared: &Shared, mut phases: watch::Receiver<Phase>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let (mut failed, mut unkept) = (None, None);
        loop {
            look(shared, &mut failed);
            tend(shared, &mut unkept);
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                // An error means that the sender is gone.
                _ = phases.wait_for(|phase| matches!(phase, Phase::Moves | Phase::Stops(_))) => return Ok(()),
            }
        }
    })
}

/// `failed`: what was said of why the files are of no use. While one of two is replaced they may not fit together: then what was
/// read before stays, and they are looked at again.
fn look(shared: &Shared, failed: &mut Option<String>) {
    let settings = shared.settings.newest();
    let Some(before) = settings.tls.certificates.as_ref().filter(|held| held.is_outdated()) else {
        return *failed = None;
    };
    match before.again() {
        Ok(new) => {
            tracing::info!(target: "tls", names = new.names().join(","), "certificates were read anew");
            adopt(shared, before, Arc::new(new));
            *failed = None;
        }
        Err(why) => {
            if failed.as_ref() != Some(&why) {
                tracing::warn!(target: "tls", cause = why, "certificates stay as they were");
                *failed = Some(why);
            }
        }
    }
}

/// Those that are there go on to be used where that fails, for as long as they last.
fn tend(shared: &Shared, failed: &mut Option<String>) {
    let tickets = shared.acceptor.as_ref().and_then(|acceptor| acceptor.tickets.as_ref());
    let result = tickets.map_or(Ok(()), |tickets| tickets.tend(now())).err();
    if let Some(why) = result.as_ref().filter(|why| failed.as_ref() != Some(why)) {
        tracing::warn!(target: "tls", cause = why, "keys of session tickets stay as they were");
    }
    *failed = result;
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Unless a reload has put others in their place.
fn adopt(shared: &Shared, before: &Arc<Certificates>, new: Arc<Certificates>) {
    shared.settings.change(|settings| {
        if settings.tls.certificates.as_ref().is_some_and(|held| Arc::ptr_eq(held, before)) {
            settings.tls.certificates = Some(new);
            shared.renew_terms(settings);
        }
    });
}
