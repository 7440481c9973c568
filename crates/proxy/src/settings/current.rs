//! The settings in force. A reload replaces them; each worker takes the newest ones between two requests.
//!
//! A number tells which are the newest. Each request reads it, and nobody but a reload writes it.

use super::Settings;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all workers take their settings from.
pub struct InForce {
    version: AtomicU64,
    newest: Mutex<Arc<Settings>>,
}

/// One worker's settings: as they were when it last looked.
pub struct Current {
    in_force: Arc<InForce>,
    version: Cell<u64>,
    settings: RefCell<Rc<Settings>>,
}

impl InForce {
    pub fn new(settings: Settings) -> Arc<InForce> {
        Arc::new(InForce { version: AtomicU64::new(0), newest: Mutex::new(Arc::new(settings)) })
    }

    pub fn replace(&self, settings: Settings) {
        let mut newest = self.lock();
        *newest = Arc::new(settings);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes something of them, whatever a reload does meanwhile.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) {
        let mut newest = self.lock();
        change(Arc::make_mut(&mut newest));
        self.version.fetch_add(1, Ordering::Release);
    }

    pub fn newest(&self) -> Arc<Settings> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Settings>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    pub fn of(in_force: &Arc<InForce>) -> Rc<Current> {
        let newest = in_force.lock();
        // Under the lock, so that number and settings belong together.
        let version = Cell::new(in_force.version.load(Ordering::Acquire));
        let settings = RefCell::new(Rc::new(Settings::clone(&newest)));
        drop(newest);
        Rc::new(Current { in_force: in_force.clone(), version, settings })
    }

    /// The worker's own copy: holding on to it shares no counter with other workers.
    pub fn get(&self) -> Rc<Settings> {
        self.settings.borrow().clone()
    }

    /// Which ones they are.
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// Takes the newest settings; whether there were any newer ones.
    pub fn refresh(&self) -> bool {
        if self.in_force.version.load(Ordering::Acquire) == self.version.get() {
            return false;
        }
        let newest = self.in_force.lock();
        self.version.set(self.in_force.version.load(Ordering::Acquire));
        self.settings.replace(Rc::new(Settings::clone(&newest)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_what_it_had_until_it_looks() {
        let in_force = InForce::new(Settings { workers: 1, ..Settings::default() });
        let current = Current::of(&in_force);
        let (held, version) = (current.get(), current.version());
        assert!(!current.refresh());
        in_force.replace(Settings { workers: 2, ..Settings::default() });
        assert_eq!((current.get().workers, in_force.newest().workers), (1, 2));
        assert!(current.refresh() && !current.refresh());
        assert_eq!((current.get().workers, held.workers), (2, 1));
        assert_ne!(current.version(), version);
        assert_eq!(Current::of(&in_force).version(), current.version());
    }
}
