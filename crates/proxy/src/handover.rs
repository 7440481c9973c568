//! Handing all that a proxy has to another process, without a request that notices: caches, listening sockets, connections.
//!
//! The steps, and what becomes of a failure at each of them, are in docs/upgrade.md. What always holds: a request is begun by one
//! process alone, and by the successor only after the predecessor has told it all that was changed before.

use crate::phase::{Moved, Phase};
use crate::tiers::stores::{Change, Successor};
use crate::transport::{Address, Bound, Handed, Service, SocketFile};
use crate::worker::Shared;
use std::io;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What a proxy begins with that goes on with another's work.
#[derive(Default)]
pub struct Beginning {
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
        self.shared.handover.held.store(0, std::sync::atomic::Ordering::Release);
        if !self.go_from(Phase::Serves, Phase::Holds) {
            return false;
        }
        let until = Instant::now() + patience;
        while self.shared.handover.held.fetch_add(0, AcqRel) < self.parties {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }

    /// Serves again, the caches too. An error, one line: without them, but for what is read of them.
    pub fn take_back(&self) -> Result<(), String> {
        // Clients need not wait for the caches, which are read meanwhile.
        self.go_from(Phase::Holds, Phase::Serves);
        self.shared.tiers.stores.take_back()
    }

    /// The successor serves: connections go there, as soon as they have no request under way, and this proxy ends with the last.
    pub fn leave(&self, mover: impl Fn(Moved) + Send + Sync + 'static) {
        let Sockets { files, .. } =
            std::mem::take(&mut *self.sockets.lock().unwrap_or_else(PoisonError::into_inner));
        files.iter().for_each(|file| file.leave());
        self.shared.tiers.end();
        *self.shared.handover.mover.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(mover));
        self.go_from(Phase::Holds, Phase::Moves);
    }

    /// Not where the proxy was told to stop meanwhile.
    fn go_from(&self, from: Phase, to: Phase) -> bool {
        self.phases.send_if_modified(|phase| {
            let is = *phase == from;
            if is {
                *phase = to;
            }
            is
        })
    }
}
