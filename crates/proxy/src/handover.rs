//! Handing all that a proxy has to another process, without a request that notices: caches, listening sockets, connections.
//!
//! The steps, and what becomes of a failure at each of them, are in docs/upgrade.md. What always holds: a request is begun by one
//! process alone, and by the successor only after the predecessor has told it all that was changed before.

use crate::phase::{Moved, Phase};
use crate::tiers::stores::{Change, Successor};
use crate::transport::{Address, Bound, Handed, Service, SocketFile};
use crate::worker::Shared;
use std::io;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What a proxy begins with that goes on with another's work.
#[derive(Default)]
pub struct Beginning {
    /// Nothing is begun until it is told that this process serves (`Running::succeed`).
    pub holds: bool,
    /// Of the addresses that are listened on, those that another process listens on.
    pub sockets: Vec<Handed>,
    /// What was changed of the caches since they were closed there.
    pub changes: Vec<Change>,
}

/// What another process can be given to listen on.
#[derive(Default)]
pub struct Sockets {
    handed: Vec<Handed>,
    files: Vec<Arc<SocketFile>>,
}

impl Sockets {
    pub fn add(&mut self, service: Service, address: &Address, bound: &Bound) -> io::Result<()> {
        let given = Some((service, address.clone()));
        self.handed.push(Handed { given, socket: bound.descriptor()? });
        self.files.extend(bound.file());
        Ok(())
    }

    /// Files of sockets that a predecessor handed over go with this process from now on.
    pub fn own_files(&self) {
        self.files.iter().for_each(|file| file.own());
    }
}

/// The one whose work another process takes over.
#[derive(Clone)]
pub struct Predecessor {
    phases: watch::Sender<Phase>,
    shared: Arc<Shared>,
    sockets: Arc<Mutex<Sockets>>,
    /// Threads that begin requests.
    parties: usize,
}

impl Predecessor {
    pub(crate) fn new(
        phases: watch::Sender<Phase>,
        shared: Arc<Shared>,
        sockets: Arc<Mutex<Sockets>>,
        parties: usize,
    ) -> Predecessor {
        Predecessor { phases, shared, sockets, parties }
    }

    /// The listening sockets once more.
    pub fn sockets(&self) -> io::Result<Vec<Handed>> {
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let again = |one: &Handed| Ok(Handed { given: one.given.clone(), socket: one.socket.try_clone()? });
        sockets.handed.iter().map(again).collect()
    }

    /// Writes what the caches have to write, and ends to write. False: that is not possible now, and all stays as it is.
    pub fn give_caches(&self, successor: Arc<dyn Successor>, patience: Duration) -> bool {
        self.shared.tiers.stores.give(successor, patience)
    }

    /// Begins nothing any more: connections and requests wait. False: a thread does not answer in time.
    pub fn hold(&self, patience: Duration) -> bool {
        let hold = self.shared.handover.next_hold();
        if !go(&self.phases, |phase| phase == Phase::Serves, Phase::Holds(hold)) {
            return false;
        }
        let until = Instant::now() + patience;
        while self.shared.handover.count_held() < self.parties {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }

    /// Clients need not wait for the caches, which are read meanwhile.
    pub fn serve_again(&self) {
        go(&self.phases, Phase::holds, Phase::Serves);
    }

    /// Has the caches again. An error, one line: without them, but for what is read of them.
    pub fn take_back(&self) -> Result<(), String> {
        self.shared.tiers.stores.take_back()
    }

    /// Not between `give_caches` and `take_back`.
    pub fn has_caches(&self) -> bool {
        !self.shared.tiers.stores.are_given()
    }

    /// The successor may have been asked to remove anything.
    pub fn purge_all(&self) {
        self.shared.tiers.purge([cache::Scope::All], false);
    }

    /// The successor serves: connections go there, as soon as they have no request under way, and this proxy ends with the last.
    /// False: this proxy was told to stop meanwhile, and keeps all.
    pub fn leave(&self, mover: impl Fn(Moved) + Send + Sync + 'static) -> bool {
        *self.shared.handover.mover.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(mover));
        if !go(&self.phases, Phase::holds, Phase::Moves) {
            return false;
        }
        let Sockets { files, .. } =
            std::mem::take(&mut *self.sockets.lock().unwrap_or_else(PoisonError::into_inner));
        files.iter().for_each(|file| file.leave());
        self.shared.tiers.end();
        true
    }
}

/// Not where the proxy was told to stop meanwhile.
pub fn go(phases: &watch::Sender<Phase>, is_from: impl Fn(Phase) -> bool, to: Phase) -> bool {
    phases.send_if_modified(|phase| {
        let is = is_from(*phase);
        if is {
            *phase = to;
        }
        is
    })
}

/// For as long as the process before this one may say something: this one does not end before.
pub struct Before(Arc<Shared>);

impl Before {
    pub(crate) fn of(shared: &Arc<Shared>) -> Before {
        shared.handover.has_predecessor.store(true, Release);
        Before(shared.clone())
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        self.0.handover.has_predecessor.store(false, Release);
    }
}
