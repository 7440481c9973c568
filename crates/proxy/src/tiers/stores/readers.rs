//! One worker's readers, of each disk that serves its own. They follow the set: a number tells when it has changed.

use super::Stores;
use super::view::View;
use std::cell::RefCell;
use std::rc::Rc;
use store::{Key, Reader, Spans, Store};

#[derive(Default)]
pub struct Readers {
    stores: Stores,
    seen: RefCell<Seen>,
}

/// As this worker last saw the set.
#[derive(Default)]
struct Seen {
    generation: u64,
    view: Rc<View>,
    readers: Vec<Option<Rc<Reader>>>,
    /// Of disks that were left, whose reads may never come: to drop one while it reads would wait for that.
    left: Vec<Rc<Reader>>,
}

impl Readers {
    /// A worker that cannot read a store serves without it.
    pub fn of_stores(stores: &Stores) -> Readers {
        let readers = Readers { stores: stores.clone(), seen: RefCell::default() };
        readers.follow(u64::MAX);
        readers
    }

    /// The disks as they are now, at least as new as whatever this thread knows of.
    pub fn view(&self) -> Rc<View> {
        let seen = self.seen.borrow().generation;
        self.follow(seen);
        self.seen.borrow().view.clone()
    }

    pub fn reader(&self, n: usize) -> Option<Rc<Reader>> {
        self.seen.borrow().readers.get(n)?.clone()
    }

    /// Of the store where an object with this key belongs.
    pub fn of(&self, key: &Key) -> Option<Rc<Reader>> {
        let home = self.view().home(key);
        self.reader(home)
    }

    /// Of the store where these spans lie.
    pub fn at(&self, spans: &Spans) -> Option<Rc<Reader>> {
        self.view();
        self.reader(usize::from(spans.store))
    }

    fn follow(&self, known: u64) {
        let generation = self.stores.generation();
        let seen = &mut *self.seen.borrow_mut();
        // With the last reader goes the index. Whose reads were under way when the disk was left has it until they have come.
        if !seen.left.is_empty() {
            seen.left.retain(|reader| !reader.is_idle());
        }
        if generation == known {
            return;
        }
        let view = self.stores.view();
        let mut before = std::mem::take(&mut seen.readers);
        let without = |error: &_| tracing::error!(target: "disk", cause = %error, "cannot read the cache, serving without it");
        for (n, slot) in view.0.iter().enumerate() {
            let old = before.get_mut(n).and_then(Option::take);
            let store: Option<&Store> = slot.store.as_ref();
            let keeps = |reader: &Rc<Reader>| store.is_some_and(|store| reader.is_of(store));
            let reader = match old {
                Some(old) if keeps(&old) => Some(old),
                old => {
                    seen.left.extend(old);
                    store.and_then(|store| store.reader().inspect_err(without).ok()).map(Rc::new)
                }
            };
            seen.readers.push(reader);
        }
        seen.left.retain(|reader| !reader.is_idle());
        (seen.generation, seen.view) = (generation, Rc::new(view));
    }
}

impl Drop for Readers {
    /// The end of a worker does not wait for a disk that hangs.
    fn drop(&mut self) {
        let Seen { readers, left, .. } = self.seen.get_mut();
        let serving = if readers.len() > 1 { std::mem::take(readers) } else { Vec::new() };
        for reader in left.drain(..).chain(serving.into_iter().flatten()).filter(|reader| !reader.is_idle()) {
            std::mem::forget(reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use std::sync::Arc;
    use store::Options;
    use store::disk::sim::SimDisk;

    /// The set stays as it is, and the worker looks at it now and then.
    #[test]
    fn a_reader_whose_reads_have_come_is_let_go_of() {
        let disk = Arc::new(SimDisk::new(3 << 20, StdRng::seed_from_u64(1)));
        let options = Options { size: Some(3 << 20), packet: 64 << 10, tell: |_| {}, ..Options::at("") };
        let readers = Stores::from(Some(Store::over(disk, &options).unwrap())).readers();
        let reader = readers.reader(0).unwrap();
        assert!(reader.is_idle());
        readers.seen.borrow_mut().left.push(reader);
        readers.view();
        assert!(readers.seen.borrow().left.is_empty());
    }
}
