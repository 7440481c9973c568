//! A set of disks: opened, looked after, left and taken back.
//!
//! Locks, in the order in which they are taken: the ledger's, the view's, the journal's.

use super::DiskStats;
use super::answers::Answers;
use super::care::{Care, Patience, Why};
use super::journal::Journal;
use super::record::{Epoch, Found, Record, leader};
use super::view::{Slot, View};
use cache::{Purges, Scope};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::{Key, OpenError, Store};

/// A ledger that nobody can read.
pub const UNREAD: [u8; 1] = [0xff];

/// How long a stop waits for disks that write, a little longer than each store does.
const CLOSE: Duration = Duration::from_secs(35);
/// Epochs that the set had, by which a disk is known that comes back.
const EPOCHS: usize = 4096;
/// Ticks that are remembered of a disk that is slow to write; a longer time counts as the oldest of them.
const TICKS: usize = 600;

/// One of the disks of a set.
pub struct Disk {
    /// How it is called in messages.
    pub name: String,
    /// Its share beside the others'; `None`: in proportion to its size, if all say so.
    pub weight: Option<f64>,
    /// Opens it, as store number so and so of the set; may take for ever.
    pub open: Box<dyn Fn(Opening) -> Result<Store, Unopened> + Send + Sync>,
}

/// What is to become of what lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Where nothing is, a cache is made.
    AsItIs,
    /// The same cache as before: where nothing is, something may be later.
    Again,
    /// It does not count.
    Anew,
}

/// Why a disk was not opened: one line.
#[derive(Clone, Debug)]
pub struct Unopened {
    pub why: String,
    pub obstacle: Obstacle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It cannot be read now.
    Unreadable,
    /// Another process has it.
    InUse,
    /// Something is there that is not to be touched.
    NotOurs,
}

/// What is told of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Serves,
    Left,
}

impl Disk {
    pub fn open(&self, how: Opening) -> Result<Store, Unopened> {
        (self.open)(how)
    }
}

impl From<OpenError> for Unopened {
    fn from(OpenError { why, in_use }: OpenError) -> Unopened {
        Unopened { why, obstacle: if in_use { Obstacle::InUse } else { Obstacle::Unreadable } }
    }
}

pub type PurgeAll = Box<dyn Fn() + Send + Sync>;

pub struct Set {
    disks: Arc<[Disk]>,
    patience: Patience,
    view: RwLock<View>,
    /// Of the view.
    generation: Arc<AtomicU64>,
    journal: Mutex<Journal>,
    ledger: Mutex<Ledger>,
    care: Mutex<Vec<Cared>>,
    stopping: AtomicBool,
    /// Purges all.
    pub apart: OnceLock<PurgeAll>,
    /// Told when the set stops.
    stop: (Mutex<()>, Condvar),
}

/// What the disks remember, and what a disk may remember that comes back.
struct Ledger {
    record: Record,
    purges: Vec<u8>,
    /// As the start found it.
    first: Record,
    /// The epochs of all that the set has had since then.
    since: VecDeque<Epoch>,
    /// Disks that are about to serve again: no purge counts as written now.
    coming: usize,
}

/// What is known of one disk beside its store.
struct Cared {
    care: Care,
    /// It needs what was changed from this tick of the journal on.
    needs: u64,
    /// Where its log ended in the file, as far as it served.
    end: u64,
    /// The store that was left, until nothing of it can reach the disk.
    old: Option<Store>,
    /// Why the last attempt was in vain.
    why: String,
}

impl Set {
    pub fn open(
        disks: Arc<[Disk]>,
        generation: Arc<AtomicU64>,
        patience: Patience,
    ) -> Result<Arc<Set>, String> {
        let set = Arc::new(Set::unattended(disks, generation, patience)?);
        let weak = Arc::downgrade(&set);
        thread::Builder::new()
            .name("disks".into())
            .spawn(move || look_after(&weak, patience.look))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(set)
    }

    /// The same without anybody who looks after it.
    pub(super) fn unattended(
        disks: Arc<[Disk]>,
        generation: Arc<AtomicU64>,
        patience: Patience,
    ) -> Result<Set, String> {
        let mut opened = open_all(&disks, patience)?;
        let now = Instant::now();
        let mut cared: Vec<Cared> = disks.iter().map(|_| Cared::new(patience)).collect();
        for (n, result) in opened.iter().enumerate() {
            if let Err(unopened) = result {
                tracing::warn!(target: "disk", "{}; it is left until it works", unopened.why);
                cared[n].why.clone_from(&unopened.why);
                cared[n].care.left(now);
            }
        }
        let mut stores: Vec<Option<Store>> = opened.drain(..).map(Result::ok).collect();
        if stores.iter().all(Option::is_none) {
            return Err("no cache can be opened".into());
        }
        let mut ledger = agree(&disks, &mut stores, &mut cared, patience)?;
        let weights = weights(&disks, &stores);
        let slots = stores.into_iter().zip(weights).map(|(store, weight)| Slot {
            identity: store.as_ref().map(Store::identity),
            weight,
            store,
        });
        let mut view = View(slots.collect());
        enter(&mut ledger, &mut view, &mut cared, patience, &disks);
        Ok(Set {
            disks,
            patience,
            view: RwLock::new(view),
            generation,
            journal: Mutex::default(),
            ledger: Mutex::new(ledger),
            care: Mutex::new(cared),
            stopping: AtomicBool::new(false),
            apart: OnceLock::new(),
            stop: Default::default(),
        })
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn view_to_change(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn care(&self) -> MutexGuard<'_, Vec<Cared>> {
        self.care.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what lies under a key on one disk, and removes it from all others. Removed first: a kill in between is to leave
    /// nothing rather than two.
    pub fn change<T>(
        &self,
        key: &Key,
        place: impl FnOnce(&View) -> usize,
        put: impl FnOnce(&Store) -> T,
    ) -> Option<T> {
        let view = self.view();
        self.journal().note(key.index_hash());
        let place = place(&view);
        view.serving().filter(|(n, _)| *n != place).for_each(|(_, store)| store.remove(key));
        view.store(place).map(put)
    }

    pub fn piece_max(&self) -> Option<u64> {
        self.view().serving().map(|(_, store)| store.span_size() as u64).min()
    }

    pub fn purges(&self) -> Vec<u8> {
        self.ledger().purges.clone()
    }

    pub fn set_purges(&self, purges: &[u8]) {
        let mut ledger = self.ledger();
        ledger.purges = purges.to_vec();
        ledger.write(&self.view());
    }

    pub fn persist(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            // A disk that is being left is, or the others know it.
            let (coming, epoch, generation, view) = {
                let ledger = self.ledger();
                let view = self.view();
                (ledger.coming > 0, ledger.record.epoch, self.generation(), view.clone())
            };
            let rest = || until.saturating_duration_since(Instant::now());
            if coming && !rest().is_zero() {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            if !coming && view.serving().all(|(_, store)| store.persist(rest())) {
                if self.is_settled(epoch) {
                    return view.serving().count() > 0;
                }
                if !rest().is_zero() {
                    continue;
                }
            }
            // One that was left meanwhile is not waited for.
            if generation == self.generation() || rest().is_zero() {
                return false;
            }
        }
    }

    /// Whether the present record is of this epoch, which all members have written, and they were told that it is settled.
    fn is_settled(&self, epoch: Epoch) -> bool {
        let mut ledger = self.ledger();
        let (is_present, was) = (ledger.record.epoch == epoch, ledger.record.settled);
        if is_present && !was {
            ledger.settle(&self.view());
        }
        is_present && was
    }

    /// Has the record settled once all members have written it.
    pub(super) fn settle(&self) {
        let mut ledger = self.ledger();
        let view = self.view();
        if !ledger.record.settled && view.serving().all(|(_, store)| store.is_ledger_written()) {
            ledger.settle(&view);
        }
    }

    /// Keys that a disk would have to be told of that was left now, or is.
    pub fn remembered(&self) -> u64 {
        self.journal().len() as u64
    }

    pub fn stats(&self) -> Vec<DiskStats> {
        let view = self.view().clone();
        let known = || view.0.iter().filter(|slot| slot.identity.is_some());
        let total: f64 = known().map(|slot| slot.weight).sum();
        self.disks
            .iter()
            .zip(&view.0)
            .map(|(disk, slot)| DiskStats {
                name: disk.name.clone(),
                share: slot.identity.map_or(0.0, |_| slot.weight / total),
                state: if slot.store.is_some() { State::Serves } else { State::Left },
                stats: slot.store.as_ref().map(Store::stats),
            })
            .collect()
    }

    pub fn close(&self) -> bool {
        // Nothing comes back from here on.
        let view = {
            let mut ledger = self.ledger();
            self.stopping.store(true, Ordering::Release);
            let view = self.view().clone();
            if ledger.coming > 0 {
                // What is about to may have the present record.
                ledger.advance(&view);
            }
            view
        };
        self.stop.1.notify_all();
        let (sender, closed) = channel();
        let stores: Vec<Store> = view.serving().map(|(_, store)| store.clone()).collect();
        let count = stores.len();
        for store in stores {
            let sender = sender.clone();
            let thread = thread::Builder::new().name("close".into());
            // A disk that hangs keeps its own thread alone.
            let _ = thread.spawn(move || sender.send(store.close()));
        }
        drop(sender);
        // What was left gives up its claim, if nothing of it can come any more.
        self.care().iter().filter_map(|one| one.old.as_ref()).for_each(|old| _ = old.has_left());
        let until = Instant::now() + CLOSE;
        let next = || closed.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
        std::iter::from_fn(next).filter(|clean| *clean).count() == count
    }

    /// One look at all disks.
    fn look(self: &Arc<Set>, now: Instant, ticks: &mut Ticks) {
        let view = self.view().clone();
        for (n, store) in view.serving() {
            let signs = store.signs();
            let why = self.care()[n].care.look(signs, now);
            if let Some(why) = why {
                self.leave(n, why, now);
            }
        }
        self.turn(ticks, now);
        self.settle();
        if self.apart.get().is_none() {
            // Nobody could be told yet of removals that are unknown.
            return;
        }
        let due: Vec<usize> = {
            let mut care = self.care();
            (0..care.len()).filter(|n| care[*n].care.is_due(now)).collect()
        };
        for n in due {
            let set = self.clone();
            let attempt = thread::Builder::new().name(format!("disk-{n}"));
            // It may hang for ever: nobody waits for it.
            let begun = attempt.spawn(move || {
                let result = set.take_back(n);
                set.tried(n, result);
            });
            if let Err(error) = begun {
                self.tried(n, Err(format!("cannot start a thread: {error}")));
            }
        }
    }

    /// A tick of the journal, if it is time: what is written of those before needs no remembering.
    pub(super) fn turn(&self, ticks: &mut Ticks, now: Instant) {
        if now.duration_since(ticks.last) < self.patience.tick {
            return;
        }
        ticks.last = now;
        // Whatever was noted was also done, since nobody who changes a key holds the view.
        let view = self.view_to_change();
        let tick = self.journal().turn();
        let serving: Vec<(usize, Store)> = view.serving().map(|(n, store)| (n, store.clone())).collect();
        drop(view);
        ticks.ended.push_back((tick, Instant::now()));
        if ticks.ended.len() > TICKS {
            ticks.ended.pop_front();
        }
        let written: Vec<(usize, Store, u64)> = serving
            .into_iter()
            .filter_map(|(n, store)| {
                let asked = Instant::now();
                let until = store.unwritten_for().map_or(Some(asked), |waits| asked.checked_sub(waits))?;
                let tick = ticks.ended.iter().rfind(|(_, ended)| *ended <= until)?.0;
                Some((n, store, tick))
            })
            .collect();
        let (mut care, view) = (self.care(), self.view());
        for (n, store, tick) in written {
            // It may have been left meanwhile.
            if view.store(n).is_some_and(|now| now.is_same(&store)) {
                care[n].needs = care[n].needs.max(tick);
            }
        }
        let needs = |serves| {
            let of = |(n, one): (usize, &Cared)| (view.store(n).is_some() == serves).then_some(one.needs);
            care.iter().enumerate().filter_map(of).min()
        };
        self.journal().need(needs(true).unwrap_or(0), needs(false));
    }

    /// Goes on without a disk, unless it is the last one.
    pub(super) fn leave(&self, n: usize, why: Why, now: Instant) {
        let mut ledger = self.ledger();
        let mut view = self.view_to_change();
        if view.serving().count() < 2 || self.stopping.load(Ordering::Acquire) {
            return;
        }
        let Some(store) = view.0[n].store.take() else { return };
        self.generation.fetch_add(1, Ordering::AcqRel);
        drop(view);
        store.leave();
        {
            let one = &mut self.care()[n];
            one.old = Some(store);
            one.care.left(now);
            one.why.clear();
        }
        ledger.advance(&self.view());
        tracing::warn!(
         target: "disk",
                    "cache {} is left, since {why}: what it holds is fetched from the origins until it works",
                    self.disks[n].name
        );
    }

    fn tried(&self, n: usize, result: Result<(), String>) {
        let one = &mut self.care()[n];
        one.care.tried(result.is_ok(), Instant::now());
        let why = result.err().unwrap_or_default();
        if !why.is_empty() && one.why != why {
            tracing::warn!(target: "disk", "{why}; it is tried again");
        }
        one.why = why;
    }

    /// Takes a disk back that was left, if it works: with what it holds, less all that was changed since it wrote last, or empty.
    pub(super) fn take_back(&self, n: usize) -> Result<(), String> {
        let (disk, name) = (&self.disks[n], &self.disks[n].name);
        let old = {
            let served = self.view().0[n].identity;
            let one = &mut self.care()[n];
            if one.old.as_ref().is_some_and(|old| !old.has_left()) {
                return Err(format!("cache {name} keeps a write waiting"));
            }
            let old = one.old.take();
            if let Some(old) = old.as_ref().filter(|old| served == Some(old.identity())) {
                one.end = one.end.max(old.written_end());
            }
            old
        };
        // With it goes its index. To close a file may take for ever: nobody waits for that.
        drop(old);
        let opened = |how| disk.open(how).map_err(|unopened| unopened.why);
        let was_seen = self.view().0[n].identity.is_some();
        let mut store = opened(if was_seen { Opening::Again } else { Opening::AsItIs })?;
        let (mut from, mut missed) = (0, 0);
        let known = self.knows(n, &store).then(|| {
            let needs = self.care()[n].needs;
            // What is changed from here on comes at the end.
            let _nobody = self.view_to_change();
            let journal = self.journal();
            from = journal.tick();
            journal.since(needs)
        });
        let empty = match known.flatten() {
            Some(changed) => {
                missed = changed.len();
                store.remove_all(&changed);
                false
            }
            None if store.was_blank() => true,
            None => {
                leave_for_good(&store, self.patience.open, name)?;
                drop(store);
                store = opened(Opening::Anew)?;
                true
            }
        };
        // That it takes writes is seen by some. Most of what is to be written is then, while nobody waits for it.
        let writes = store.set_ledger(&store.ledger()).is_ok() && store.persist(self.patience.open);
        let taken = writes && self.take_in(n, &store, from, empty);
        if !taken {
            store.leave();
            self.care()[n].old = Some(store);
            return match self.stopping.load(Ordering::Acquire) {
                true => Err(String::new()),
                false => Err(format!("writing to cache {name} fails")),
            };
        }
        let how = match (empty, missed) {
            (true, _) => ", empty, since it may have missed changes".to_owned(),
            (false, 0) => String::new(),
            (false, missed) => format!(", without {missed} objects that were changed meanwhile"),
        };
        tracing::info!(target: "disk", "cache {name} serves again{how}");
        Ok(())
    }

    /// Whether all that a disk has missed is in the journal, as far as it goes back: it is one that was left, with what it held then. An
    /// older copy of it lacks what was written since, which is in no journal any more.
    fn knows(&self, n: usize, store: &Store) -> bool {
        let ledger = self.ledger();
        let identity = store.identity();
        let bytes = store.ledger();
        let before = self.view().0[n].identity;
        let Some((record, _)) = Record::split(&bytes).filter(|_| is_read(store)) else { return false };
        let record = record.unwrap_or_else(|| Record::of_one(identity));
        let is_ours = ledger.first.admits(identity, &record) || ledger.since.contains(&record.epoch);
        if !is_ours && !store.was_blank() && ledger.first.knows_not(&record) {
            // What its set removed without this one's disks may be here.
            drop(ledger);
            tracing::warn!(
             target: "disk",
                            "cache {} went on without the others, which may hold what was removed then: nothing that was stored before is served",
                            self.disks[n].name
            );
            if let Some(purge_all) = self.apart.get() {
                purge_all();
            }
        }
        let is_same = |before| before == identity && store.found_end() >= self.care()[n].end;
        is_ours && before.is_none_or(is_same)
    }

    /// Has it serve again. Its removals are in its file first, then the present record of the set: so if it has that, whatever becomes
    /// of this process, it missed nothing of which a purge's answer tells. None is answered meanwhile.
    fn take_in(&self, n: usize, store: &Store, from: u64, empty: bool) -> bool {
        let changed = || if empty { Some(Vec::new()) } else { self.journal().since(from) };
        self.ledger().coming += 1;
        let gone: Option<HashSet<u64>> = changed().map(|changed| changed.into_iter().collect());
        let mut is_written = gone.as_ref().is_some_and(|gone| {
            store.remove_all(&gone.iter().copied().collect::<Vec<_>>());
            store.persist(self.patience.open)
        });
        let present = {
            let ledger = self.ledger();
            if is_written {
                is_written = store.set_ledger(&ledger.record.encode(&ledger.purges)).is_ok();
            }
            ledger.record.epoch
        };
        is_written = is_written && store.persist(self.patience.open);
        let mut ledger = self.ledger();
        ledger.coming -= 1;
        let mut view = self.view_to_change();
        let last = changed().filter(|_| {
            is_written && ledger.record.epoch == present && !self.stopping.load(Ordering::Acquire)
        });
        let serves = last.is_some();
        if let Some(mut last) = last {
            // Nothing was put on it since: workers wait for the rest alone.
            last.retain(|hash| gone.as_ref().is_none_or(|gone| !gone.contains(hash)));
            store.remove_all(&last);
            let size = store.stats().size as f64;
            let slot = &mut view.0[n];
            slot.identity = Some(store.identity());
            slot.weight = self.disks[n].weight.unwrap_or(size);
            slot.store = Some(store.clone());
            self.generation.fetch_add(1, Ordering::AcqRel);
            let needs = if empty { self.journal().tick() } else { from };
            drop(view);
            let one = &mut self.care()[n];
            (one.needs, one.end) = (needs, store.written_end());
        } else {
            drop(view);
        }
        // Another one begins also where it does not serve: it may have the present one.
        ledger.advance(&self.view());
        serves
    }
}

impl Cared {
    fn new(patience: Patience) -> Cared {
        Cared { care: Care::new(patience), needs: 0, end: 0, old: None, why: String::new() }
    }
}

/// The ends of ticks.
pub(super) struct Ticks {
    last: Instant,
    ended: VecDeque<(u64, Instant)>,
}

impl Ticks {
    pub fn new(now: Instant) -> Ticks {
        Ticks { last: now, ended: VecDeque::new() }
    }
}

fn look_after(set: &Weak<Set>, look: Duration) {
    let mut ticks = Ticks::new(Instant::now());
    loop {
        let Some(set) = set.upgrade().filter(|set| !set.stopping.load(Ordering::Acquire)) else { return };
        set.look(Instant::now(), &mut ticks);
        let guard = set.stop.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(set.stop.1.wait_timeout(guard, look));
    }
}

impl Ledger {
    /// The set is another from now on: those that serve write that down.
    fn advance(&mut self, view: &View) {
        self.record = self.record.next(view.members());
        if self.since.len() >= EPOCHS {
            self.since.pop_front();
        }
        self.since.push_back(self.record.epoch);
        self.write(view);
    }

    /// All members have written the record: who has the epoch before is an older copy from now on.
    fn settle(&mut self, view: &View) {
        self.record.settled = true;
        self.write(view);
    }

    fn write(&self, view: &View) {
        let bytes = self.record.encode(&self.purges);
        for (_, store) in view.serving() {
            let _ = store.set_ledger(&bytes);
        }
    }
}

/// Opens all at once; of those that take too long it is not known what they hold. Where this process takes over, the other one may
/// still have a disk that does not answer it.
fn open_all(disks: &Arc<[Disk]>, patience: Patience) -> Result<Vec<Result<Store, Unopened>>, String> {
    let (sender, opened) = channel();
    for n in 0..disks.len() {
        let (disks, sender) = (disks.clone(), sender.clone());
        thread::Builder::new()
            .name(format!("disk-{n}"))
            .spawn(move || sender.send((n, disks[n].open(Opening::AsItIs))))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
    }
    drop(sender);
    let late = |disk: &Disk| {
        let why = format!("cache {} does not answer", disk.name);
        Err(Unopened { why, obstacle: Obstacle::Unreadable })
    };
    let mut results: Vec<Result<Store, Unopened>> = disks.iter().map(late).collect();
    let names = disks.iter().map(|disk| disk.name.clone());
    for (n, result) in
        Answers::new(opened, names, patience.open, |line| tracing::warn!(target: "disk", "{line}"))
    {
        match result {
            Err(Unopened { why, obstacle: Obstacle::NotOurs }) => return Err(why),
            Err(Unopened { why, obstacle: Obstacle::InUse }) if !patience.takes_over => return Err(why),
            _ => {}
        }
        results[n] = result;
    }
    Ok(results)
}

/// What its ledger says is known.
fn is_read(store: &Store) -> bool {
    store.ledger() != UNREAD
}

/// Brings together what the disks remember: those that missed something begin anew.
fn agree(
    disks: &[Disk],
    stores: &mut [Option<Store>],
    cared: &mut [Cared],
    patience: Patience,
) -> Result<Ledger, String> {
    let mut found: Vec<Option<Found>> = Vec::new();
    let mut purges: Vec<Option<Purges>> = Vec::new();
    for (n, store) in stores.iter().enumerate() {
        let Some(store) = store else {
            found.push(None);
            purges.push(None);
            continue;
        };
        let identity = store.identity();
        if let Some(other) = found.iter().position(|one| one.as_ref().is_some_and(|f| f.identity == identity))
        {
            let (one, other) = (&disks[other].name, &disks[n].name);
            return Err(format!("caches {one} and {other} are copies of each other; remove one of them"));
        }
        let bytes = store.ledger();
        let (record, known) = match Record::split(&bytes) {
            Some((record, rest)) => (record, Purges::decode(rest)),
            None => (None, None),
        };
        let known = known.filter(|_| is_read(store));
        found.push(Some(Found {
            identity,
            blank: store.was_blank(),
            record: record.unwrap_or_else(|| Record::of_one(identity)),
            newest_purge: known.as_ref().map_or(0, Purges::newest),
            size: store.stats().size,
        }));
        purges.push(known);
    }
    let readable: Vec<Found> = found
        .iter()
        .zip(&purges)
        .filter(|(_, purges)| purges.is_some())
        .filter_map(|(f, _)| f.clone())
        .collect();
    if readable.is_empty() {
        // Nobody knows what was purged: all is, on all of them.
        let first = found.iter().flatten().next().map(|one| one.record.clone());
        let first = first.unwrap_or_else(|| Record::of_one(0));
        return Ok(Ledger {
            record: first.clone(),
            purges: UNREAD.to_vec(),
            since: VecDeque::new(),
            first,
            coming: 0,
        });
    }
    let first = leader(&readable).unwrap_or_else(|| readable[0].record.clone());
    let mut newest = Purges::default();
    let mut is_apart = false;
    for n in 0..stores.len() {
        let Some(one) = &found[n] else { continue };
        let name = &disks[n].name;
        let is_one = first.admits(one.identity, &one.record);
        if let Some(known) = purges[n].take_if(|_| is_one || one.blank) {
            // One that nothing was put on may have purges of elsewhere.
            if is_one && known.newest() > newest.newest() {
                newest = known;
            }
            continue;
        }
        is_apart |= purges[n].is_some() && first.knows_not(&one.record);
        let Some(store) = stores[n].take() else { continue };
        if purges[n].is_none() && store.may_ledger_return() {
            // A later attempt may read what it knows.
            cared[n].why = format!("cache {name} does not tell what was purged");
            tracing::warn!(target: "disk", "{}; it is left until it works", cared[n].why);
            store.leave();
            cared[n].old = Some(store);
            cared[n].care.left(Instant::now());
            continue;
        }
        let left = leave_for_good(&store, patience.open, name);
        let anew = left.and_then(|()| {
            drop(store);
            disks[n].open(Opening::Anew).map_err(|unopened| unopened.why)
        });
        stores[n] = match anew {
            Ok(store) => {
                tracing::warn!(target: "disk", "cache {name} may have missed what the others did: it begins empty");
                Some(store)
            }
            Err(why) => {
                tracing::warn!(target: "disk", "{why}; it is left until it works");
                cared[n].care.left(Instant::now());
                None
            }
        };
    }
    if is_apart {
        newest.purge(Scope::All, millis());
    }
    let purges = if newest == Purges::default() { Vec::new() } else { newest.encode() };
    Ok(Ledger { record: first.clone(), purges, since: VecDeque::new(), first, coming: 0 })
}

/// Has all that serve write down that another epoch begins, before anything is changed in it. A disk that cannot is left. That all have
/// it is written too, before what is changed counts as written; nobody waits for that.
fn enter(ledger: &mut Ledger, view: &mut View, cared: &mut [Cared], patience: Patience, disks: &[Disk]) {
    loop {
        ledger.advance(view);
        let fails = view.serving().find(|(_, store)| !store.persist(patience.open)).map(|(n, _)| n);
        match fails.filter(|_| view.serving().count() > 1) {
            None => {
                if fails.is_none() {
                    ledger.settle(view);
                }
                return;
            }
            Some(n) => {
                let store = view.0[n].store.take();
                cared[n].why = format!("writing to cache {} fails", disks[n].name);
                tracing::warn!(target: "disk", "{}; it is left until it works", cared[n].why);
                if let Some(store) = &store {
                    store.leave();
                }
                cared[n].old = store;
                cared[n].care.left(Instant::now());
            }
        }
    }
}

/// Waits until a store that was opened in vain has left its disk.
fn leave_for_good(store: &Store, patience: Duration, name: &str) -> Result<(), String> {
    let until = Instant::now() + patience;
    store.leave();
    while !store.has_left() {
        if Instant::now() > until {
            return Err(format!("cache {name} keeps a write waiting"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// As the settings say; else the sizes. Of a disk that is not there yet, nothing is known: it has no keys.
fn weights(disks: &[Disk], stores: &[Option<Store>]) -> Vec<f64> {
    let size = |store: &Option<Store>| store.as_ref().map_or(1.0, |store| store.stats().size as f64);
    disks.iter().zip(stores).map(|(disk, store)| disk.weight.unwrap_or_else(|| size(store))).collect()
}

fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
