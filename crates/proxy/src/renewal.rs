//! Certificates are read anew when their files are others than they were.

use crate::phase::Phase;
use crate::tls::Certificates;
use crate::worker::Shared;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// How often it looks at the files.
const LOOK: Duration = Duration::from_secs(2);

/// Until told to stop.
pub fn run(shared: &Shared, mut phases: watch::Receiver<Phase>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let mut failed = None;
        loop {
            look(shared, &mut failed);
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                // An error means that the sender is gone.
                _ = phases.wait_for(|phase| matches!(phase, Phase::Stops(_))) => return Ok(()),
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

/// Unless a reload has put others in their place.
fn adopt(shared: &Shared, before: &Arc<Certificates>, new: Arc<Certificates>) {
    shared.settings.change(|settings| {
        if settings.tls.certificates.as_ref().is_some_and(|held| Arc::ptr_eq(held, before)) {
            settings.tls.certificates = Some(new);
            shared.renew_terms(settings);
        }
    });
}
