//! Certificates are read anew when their files are others than they were, and ordered where that is wanted (`acme`); keys of session
//! tickets change in time.

use crate::phase::Phase;
use crate::tls::{Certificates, NamedLife};
use crate::worker::Shared;
use acme::{Keeper, date, span};
use aws_lc_rs::rand;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::sleep;

/// How often it looks at the files.
const LOOK: Duration = Duration::from_secs(2);
/// How often it is said again that a certificate has expired.
const AGAIN: Duration = Duration::from_secs(24 * 3600);

/// A certificate of which little or nothing is left: whether it had expired when that was said, and when that was.
type Warned = (NamedLife, bool, Instant);

/// Until told to stop, or another process accepts.
pub fn run(shared: &Shared, mut phases: watch::Receiver<Phase>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ends = |phase: &Phase| matches!(phase, Phase::Moves | Phase::Stops(_));
        let orders = order(shared, phases.clone());
        tokio::select! {
            () = look_and_tend(shared) => {}
            () = orders => {}
            // An error means that the sender is gone.
            _ = phases.wait_for(ends) => {}
        }
    });
    // A name that is looked up for an order is not waited for.
    runtime.shutdown_background();
    Ok(())
}

async fn look_and_tend(shared: &Shared) {
    let (mut failed, mut unkept, mut warned) = (None, None, Vec::new());
    loop {
        look(shared, &mut failed);
        warn(shared, &mut warned);
        tend(shared, &mut unkept);
        sleep(LOOK).await;
    }
}

/// Orders certificates while this process serves: what it answers challenges with is asked of nobody else. It writes files, which are
/// looked at as others are.
async fn order(shared: &Shared, mut phases: watch::Receiver<Phase>) {
    let mut keeper = Keeper::new(shared.challenges.clone(), chance);
    let mut failed = None;
    // It ends when the sender is gone.
    while phases.wait_for(|phase| *phase == Phase::Serves).await.is_ok() {
        let ordering = async {
            loop {
                let settings = shared.settings.newest();
                let wanted = (!settings.tls.acme.certificates.is_empty())
                    .then(|| settings.tls.acme_server.config(false));
                match wanted.transpose() {
                    Ok(network) => {
                        failed = None;
                        if let Some(network) = network {
                            keeper.tend(&settings.tls.acme, &network).await;
                        }
                    }
                    Err(why) if failed.as_ref() == Some(&why) => {}
                    Err(why) => {
                        tracing::error!(target: "acme", cause = why, "no certificates are ordered");
                        failed = Some(why);
                    }
                }
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = ordering => {}
            _ = phases.wait_for(|phase| *phase != Phase::Serves) => {}
        }
    }
}

/// From 0 to 1.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without any, it is in the middle of what is allowed.
    rand::fill(&mut bytes).map_or(0.5, |()| f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX))
}

/// `failed`: what was said of why the files are of no use. While one of two is replaced they may not fit together: then what was
/// read before stays, and they are looked at again.
fn look(shared: &Shared, failed: &mut Option<String>) {
    let settings = shared.settings.newest();
    let Some(before) = settings.tls.certificates.as_ref().filter(|held| held.is_outdated()) else {
        return *failed = None;
    };
    let stays = match before.again(now()) {
        Ok(new) => {
            let stays = new.why_one_stays().map(str::to_owned);
            if !new.is_same(before) {
                tracing::info!(target: "tls", names = new.names().join(","), "certificates were read anew");
                adopt(shared, before, Arc::new(new));
            }
            stays
        }
        Err(why) => Some(why),
    };
    if let Some(why) = stays.as_ref().filter(|why| failed.as_ref() != Some(why)) {
        tracing::warn!(target: "tls", cause = why, "certificates stay as they were");
    }
    *failed = stays;
}

/// Of each certificate of which little is left, once, and daily of one that has expired. `warned`: of which it was said.
fn warn(shared: &Shared, warned: &mut Vec<Warned>) {
    let settings = shared.settings.newest();
    let mut near = settings.tls.certificates.as_ref().map_or_else(Vec::new, |all| all.lives());
    near.retain(|one| one.life.nears_its_end(now()));
    warned.retain(|(one, expired, at)| near.contains(one) && !(*expired && at.elapsed() >= AGAIN));
    for one in near {
        let NamedLife { name, life } = &one;
        let left = life.until.saturating_sub(now());
        let expired = left == 0;
        if warned.iter().any(|(other, was_expired, _)| *other == one && *was_expired == expired) {
            continue;
        }
        match expired {
            true => {
                tracing::error!(target: "tls", name, until = %date(life.until), "a certificate has expired")
            }
            false => {
                tracing::warn!(target: "tls", name, left = span(left), "less than a tenth of the certificate's life is left")
            }
        }
        warned.push((one, expired, Instant::now()));
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
