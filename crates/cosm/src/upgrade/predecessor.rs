//! The process whose work is taken over. Until the other one serves, this one takes back what it gave.

use super::OF;
use super::channel::{Channel, Message, VERSION, Word};
use crate::pid_file::PidFile;
use proxy::{Change, Handed, Moved, Predecessor, Service, Stop};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the successor may take to start, to open the caches, and to begin.
const PREPARES: Duration = Duration::from_secs(60);
const OPENS: Duration = Duration::from_secs(300);
const BEGINS: Duration = Duration::from_secs(10);
/// How long the sockets wait for the kernel to take them before the successor is started.
const STARTS: Duration = Duration::from_millis(100);
/// How long the caches may take to be written here, and the threads to stand still.
const WRITES: Duration = Duration::from_secs(30);
const HOLDS: Duration = Duration::from_secs(5);
/// And the answer to an unsafe request, until the successor has done what that invalidates.
const CONFIRMS: Duration = Duration::from_secs(2);
/// A process that has said its last word.
const LAST: Duration = Duration::from_millis(100);
/// A process that was killed.
const ENDS: Duration = Duration::from_secs(1);
/// The successor, until it has read what this process told it last.
const READS: Duration = Duration::from_secs(60);
/// The process before this one, which has the same time to drain, beyond that.
const FOLLOWS: Duration = Duration::from_secs(5);
/// The caches, once more, at the end of this process.
const RETURNS: Duration = Duration::from_secs(5);
/// Between attempts to have the caches again: the first pause, and the longest.
const REGAINS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

const UNTOLD: &str = "the process that took over reads nothing: it may serve what was invalidated here";
const UNHEARD: &str = "the process that took over has ended: the next start may serve what was invalidated here since; purge it";
const UNTAKEN: &str =
    "the process before this one does not end: the next start may serve what is invalidated there now";

/// How this process is replaced.
pub struct Upgrade {
    program: PathBuf,
    words: Vec<OsString>,
    predecessor: Predecessor,
    pid_file: Option<PathBuf>,
    /// Does what a signal says that came to another of these processes.
    obey: Box<dyn Fn(Word) + Send + Sync>,
    /// Told when another process serves.
    goes: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    /// An attempt is under way, or what it left is taken back.
    attempts: AtomicBool,
    older: Mutex<Older>,
}

#[derive(Default)]
struct Older {
    /// To the process before this one, while it still has something under way.
    channel: Option<Arc<Mutex<Channel>>>,
    /// How this process stops, and that one with it.
    stops: Option<Word>,
}

#[derive(Default)]
enum State {
    #[default]
    Serves,
    /// The process that is about to take over.
    Tries(Arc<Mutex<Child>>, Arc<Link>),
    /// It serves. What is still to be told goes through this thread.
    Done(Arc<Link>, JoinHandle<()>),
    /// This process is told to stop: nobody takes over.
    Over,
}

impl Older {
    /// Nobody waits for it to read.
    fn tell(&self, word: Word) {
        let Some(channel) = self.channel.clone() else { return };
        let tell = move || {
            let _ = channel.lock().unwrap_or_else(PoisonError::into_inner).send(&Message::of(word, []));
        };
        let _ = std::thread::Builder::new().name("tell-older".into()).spawn(tell);
    }
}

/// Why nobody takes over.
struct Failed {
    why: String,
    /// The successor ends by itself.
    ends: bool,
    /// It has said that it serves.
    serves: bool,
}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed { why, ends: false, serves: false }
    }
}

/// What a successor that was just started is spoken to with.
struct Started {
    child: Arc<Mutex<Child>>,
    channel: Channel,
    link: Arc<Link>,
    queue: Receiver<Option<Message>>,
}

impl Upgrade {
    /// `words` are the command line's. The program is what is found then where this one was started from.
    pub fn new(
        words: Vec<OsString>,
        predecessor: Predecessor,
        pid_file: Option<PathBuf>,
        obey: impl Fn(Word) + Send + Sync + 'static,
        goes: impl Fn() + Send + Sync + 'static,
    ) -> Upgrade {
        let exe = std::env::current_exe().ok();
        let program = program(words.first(), std::env::var_os("PATH"), exe);
        let (state, attempts, older) = Default::default();
        let (obey, goes) = (Box::new(obey), Box::new(goes));
        Upgrade { program, words, predecessor, pid_file, obey, goes, state, attempts, older }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands all over. An error is one line: this process goes on.
    pub fn run(self: &Arc<Self>) -> Result<(), String> {
        let started = self.start()?;
        let done = self.run_with(started);
        self.attempts.store(false, Release);
        done
    }

    fn run_with(self: &Arc<Self>, started: Started) -> Result<(), String> {
        let Started { child, channel, link, queue } = started;
        let failed = self.hand_over(&channel, &child, link.clone(), queue);
        let Err(Failed { why, ends, serves }) = failed else { return Ok(()) };
        let ended = end(&child, if ends { LAST } else { Duration::ZERO });
        // It may have answered requests, and have said so too late.
        if serves || link.serves.load(Acquire) && channel.has_said(Word::Serving) {
            self.predecessor.purge_all();
        }
        self.predecessor.serve_again();
        self.keep_pid_file();
        {
            let mut state = self.state();
            if let State::Tries(..) = &*state {
                *state = State::Serves;
            }
        }
        let Err(without) = self.predecessor.take_back() else { return Err(format!("{why}{ended}")) };
        let again = self.clone();
        let begun = std::thread::Builder::new().name("caches".into()).spawn(move || again.regain());
        let again = begun.map_or("", |_| "; it is tried again");
        Err(format!("{why}{ended}; and the cache cannot be taken back: {without}{again}"))
    }

    /// One at a time, and none any more when this process is to stop.
    fn start(&self) -> Result<Started, String> {
        let mut state = self.state();
        match *state {
            State::Serves if self.predecessor.has_caches() => {}
            State::Serves => return Err("the cache could not be taken back yet".into()),
            State::Tries(..) | State::Done(..) => return Err("another process takes over already".into()),
            State::Over => return Err("this process stops".into()),
        }
        if std::process::id() == 1 {
            return Err(
                "this is the first process of a container, which ends with it: replace the container".into(),
            );
        }
        let (ours, theirs) = UnixStream::pair().map_err(|error| format!("no socket: {error}"))?;
        let mut command = Command::new(&self.program);
        command.args(self.words.iter().skip(1)).env(OF, std::process::id().to_string());
        if let Some(name) = self.words.first() {
            command.arg0(name);
        }
        let (channel, sockets) = (Channel::new(ours), self.sockets()?);
        let to = channel.try_clone().map_err(|error| error.to_string())?;
        // So that it has them when this process is no more. What has no room in the kernel is sent once it reads.
        let (sent, is_sent) = std::sync::mpsc::channel();
        let sending = std::thread::Builder::new().name("sockets".into()).spawn(move || {
            let _ = sockets.iter().try_for_each(|message| to.send(message));
            let _ = sent.send(());
        });
        sending.map_err(|error| format!("cannot start a thread: {error}"))?;
        let _ = is_sent.recv_timeout(STARTS);
        let child = command.stdin(OwnedFd::from(theirs)).spawn();
        // It has the other end of the pair, and must be the only one.
        drop(command);
        let child = child.map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        let (child, (link, queue)) = (Arc::new(Mutex::new(child)), Link::new());
        *state = State::Tries(child.clone(), link.clone());
        self.attempts.store(true, Release);
        Ok(Started { child, channel, link, queue })
    }

    /// Tries until the caches are back, or this process stops.
    fn regain(&self) {
        let mut pause = REGAINS.0;
        loop {
            std::thread::sleep(pause);
            pause = (2 * pause).min(REGAINS.1);
            if !matches!(*self.state(), State::Serves) {
                return;
            }
            if self.predecessor.take_back().is_ok() {
                tracing::info!(target: "service", "the cache is taken back");
                return;
            }
        }
    }

    /// A process that came to nothing may have left its number there.
    fn keep_pid_file(&self) {
        let Some(path) = &self.pid_file else { return };
        if PidFile::read(path) != Some(std::process::id())
            && let Err(why) = PidFile::put(path)
        {
            tracing::warn!(target: "service", "{why}");
        }
    }

    /// What came from the process before this one goes on to the one after it.
    pub fn obey_older(&self, word: Word) {
        (self.obey)(word);
        self.tell_newer(word);
    }

    fn obey_newer(&self, word: Word) {
        (self.obey)(word);
        // A stop goes on from `stop`.
        if word == Word::Reopen {
            self.tell_older(word);
        }
    }

    /// A signal came. Who only finishes what is under way has logs too, and goes on with the settings that it has.
    pub fn obey(&self, word: Word) {
        (self.obey)(word);
        self.tell_newer(word);
        if word == Word::Reopen {
            self.tell_older(word);
        }
    }

    fn tell_newer(&self, word: Word) {
        if let State::Tries(_, link) | State::Done(link, _) = &*self.state() {
            link.queue(Message::of(word, []));
        }
    }

    fn tell_older(&self, word: Word) {
        self.older().tell(word);
    }

    fn older(&self) -> MutexGuard<'_, Older> {
        self.older.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process before this one, as long as it is there.
    pub fn follows(&self, channel: Option<Arc<Mutex<Channel>>>) {
        let mut older = self.older();
        older.channel = channel;
        if let Some(word) = older.stops {
            older.tell(word);
        }
    }

    /// This process stops, and has the one before it stop: what that one invalidates meanwhile reaches the caches before they are closed.
    pub fn stop(&self, how: Stop) {
        let word = match how {
            Stop::Soon => Word::Stop,
            Stop::Gracefully => Word::StopGracefully,
        };
        let mut older = self.older();
        older.stops = Some(word);
        older.tell(word);
    }

    /// Waits until the process before this one has ended, which has its time to drain from about the same moment on.
    fn outlive_older(&self) {
        if self.older().stops.is_none() {
            self.stop(Stop::Soon);
        }
        let until = Instant::now() + FOLLOWS;
        while self.older().channel.is_some() {
            if Instant::now() > until {
                return tracing::warn!(target: "service", "{UNTAKEN}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the successor is told first.
    fn sockets(&self) -> Result<Vec<Message>, String> {
        let sockets = self.predecessor.sockets().map_err(|error| format!("no descriptors: {error}"))?;
        let listeners = sockets.into_iter().filter_map(|Handed { given, socket }| {
            let (service, address) = given?;
            let word = match service {
                Service::Clients => Word::Listener,
                Service::Operator => Word::Admin,
            };
            Some(Message::of(word, address.to_string()).with(socket))
        });
        let hello = std::iter::once(Message::of(Word::Hello, [VERSION]));
        Ok(hello.chain(listeners).chain([Message::of(Word::Prepare, [])]).collect())
    }

    fn hand_over(
        self: &Arc<Self>,
        channel: &Channel,
        child: &Mutex<Child>,
        link: Arc<Link>,
        queue: Receiver<Option<Message>>,
    ) -> Result<(), Failed> {
        let lost = |step: &str, error: &io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Failed::from(format!("the new process did not {step} in time"))
            }
            _ => {
                Failed { ends: true, ..Failed::from(format!("the new process ended before it could {step}")) }
            }
        };
        let hear = |word: Word, step: &str, patience: Duration| {
            channel.set_patience(Some(patience));
            match channel.receive() {
                Ok(message) if message.word == word => Ok(()),
                Ok(_) => Err("the new process says something else than it should".to_owned().into()),
                Err(error) => Err(lost(step, &error)),
            }
        };
        hear(Word::Prepared, "start", PREPARES)?;
        let (hears, to) = (channel.try_clone(), channel.try_clone());
        let (hears, to) = hears.and_then(|hears| Ok((hears, to?))).map_err(|error| error.to_string())?;
        if !self.predecessor.give_caches(link.clone(), WRITES) {
            // Nobody hears what is asked on it.
            link.close();
            return Err("the cache cannot be written".to_owned().into());
        }
        link.queue(Message::of(Word::Open, []));
        let writes = link.clone();
        let writer = std::thread::Builder::new().name("successor".into());
        let writer = writer.spawn(move || writes.write(&to, &queue));
        let writer = writer.map_err(|error| {
            link.close();
            format!("cannot start a thread: {error}")
        })?;
        let begun = hear(Word::Opened, "open the cache", OPENS).and_then(|()| {
            if !self.predecessor.hold(HOLDS) {
                return Err("this process stops, or is too busy to stand still".to_owned().into());
            }
            link.serves.store(true, Release);
            link.queue(Message::of(Word::Serve, []));
            hear(Word::Serving, "serve", BEGINS)
        });
        if let Err(why) = begun {
            link.close();
            return Err(why);
        }
        let id = child.lock().unwrap_or_else(PoisonError::into_inner).id();
        {
            // Before anything here can end: whoever ends this process leaves that one alone from now on.
            let mut state = self.state();
            let mover = link.clone();
            let mover = move |Moved { socket, read }| {
                mover.queue(Message::of(Word::Connection, read).with(socket));
            };
            if !matches!(*state, State::Tries(..)) || !self.predecessor.leave(mover) {
                link.close();
                return Err(Failed { serves: true, ..Failed::from("this process stops".to_owned()) });
            }
            // Said before the lock goes, for which the end of this process waits.
            tracing::info!(target: "service", "process {id} serves; this one ends with what is under way");
            *state = State::Done(link.clone(), writer);
        }
        (self.goes)();
        link.took_over.store(true, Release);
        hears.set_patience(None);
        let (upgrade, reads) = (self.clone(), link.clone());
        let reader = std::thread::Builder::new().name("successor-says".into());
        if reader.spawn(move || reads.hear(&hears, |word| upgrade.obey_newer(word))).is_err() {
            link.close();
        }
        Ok(())
    }

    /// At the end of this process: what is to be told is told. A successor that does not serve yet goes with this process, and what
    /// was given to it is back.
    pub fn end(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Over);
        self.outlive_older();
        match before {
            State::Done(link, writer) => {
                link.finish();
                let until = Instant::now() + READS;
                while !writer.is_finished() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if !writer.is_finished() {
                    tracing::warn!(target: "service", "{UNTOLD}");
                }
            }
            State::Tries(child, _) => {
                end(&child, Duration::ZERO);
                // What answered already is heard of there, before the caches are closed.
                let until = Instant::now() + RETURNS;
                while self.attempts.load(Acquire) && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.keep_pid_file();
                self.take_back_soon();
            }
            State::Serves => self.take_back_soon(),
            State::Over => {}
        }
    }

    /// So that what was changed meanwhile leaves the caches before this process ends.
    fn take_back_soon(&self) {
        let until = Instant::now() + RETURNS;
        while let Err(why) = self.predecessor.take_back() {
            if Instant::now() > until {
                tracing::warn!(target: "service", "the cache cannot be taken back: {why}");
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// This process exits at once: who does not serve yet must not outlive it.
    pub fn kill(&self) {
        if let State::Tries(child, _) = std::mem::replace(&mut *self.state(), State::Over) {
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
            self.keep_pid_file();
        }
    }
}

/// Where this program was started from: by a path, which may lead through links to another program by now, or by a name. A name that
/// leads elsewhere is not how it was started.
fn program(name: Option<&OsString>, folders: Option<OsString>, exe: Option<PathBuf>) -> PathBuf {
    let name = name.map(PathBuf::from).unwrap_or_default();
    let candidates: Vec<PathBuf> = match name.components().count() {
        0 => Vec::new(),
        1 if !name.is_absolute() => {
            folders.iter().flat_map(std::env::split_paths).map(|folder| folder.join(&name)).collect()
        }
        _ => vec![name],
    };
    let is_this = |path: &PathBuf| exe.is_some() && path.canonicalize().ok() == exe;
    let found = candidates.into_iter().find(is_this).and_then(|path| std::path::absolute(path).ok());
    found.or(exe).unwrap_or_else(|| "cosm".into())
}

/// Ends a process, and says how it ended if it did so by itself in time.
fn end(child: &Mutex<Child>, patience: Duration) -> String {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return format!(" ({status})"),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            _ => break,
        }
    }
    let _ = child.kill();
    // One that a disk keeps ends later, but does nothing any more.
    let until = Instant::now() + ENDS;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    String::new()
}

/// What is told to the successor while requests go on: nobody waits for it to listen.
struct Link {
    /// `None` at the end.
    queue: Sender<Option<Message>>,
    questions: Mutex<Questions>,
    changed: Condvar,
    /// It serves, or is about to: what it is told is to be done before anybody hears of it.
    serves: AtomicBool,
    /// It serves: nothing is taken back any more.
    took_over: AtomicBool,
    /// That it does not hear was said.
    is_said: AtomicBool,
}

#[derive(Default)]
struct Questions {
    asked: u64,
    /// By their numbers, those that somebody waits for.
    answers: HashMap<u64, Option<bool>>,
    closed: bool,
    /// The last answer did not come in time, and none since: what need not be answered is not waited for.
    late: bool,
}

impl Link {
    fn new() -> (Arc<Link>, Receiver<Option<Message>>) {
        let (queue, receiver) = channel();
        let (questions, changed, serves, took_over, is_said) = Default::default();
        (Arc::new(Link { queue, questions, changed, serves, took_over, is_said }), receiver)
    }

    fn queue(&self, message: Message) {
        let _ = self.queue.send(Some(message));
    }

    fn finish(&self) {
        let _ = self.queue.send(None);
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody answers any more.
    fn close(&self) {
        self.questions().closed = true;
        self.changed.notify_all();
        self.finish();
    }

    /// Sends what is queued. A successor that opens the caches, or stalls, reads it later: nobody waits for this thread.
    fn write(&self, to: &Channel, queue: &Receiver<Option<Message>>) {
        while let Ok(Some(message)) = queue.recv() {
            if to.send(&message).is_err() {
                to.end();
                self.close();
                let mut unsent = std::iter::once(message).chain(queue.try_iter().flatten());
                if unsent.any(|message| matches!(message.word, Word::Removed | Word::Purged)) {
                    self.say_unheard();
                }
                return;
            }
        }
    }

    /// Nobody else knows of a change. Once is enough.
    fn say_unheard(&self) {
        if self.took_over.load(Acquire) && !self.is_said.swap(true, AcqRel) {
            tracing::warn!(target: "service", "{UNHEARD}");
        }
    }

    fn hear(&self, channel: &Channel, obey: impl Fn(Word)) {
        while let Ok(message) = channel.receive() {
            if let Word::Reopen | Word::Stop | Word::StopGracefully = message.word {
                obey(message.word);
                continue;
            }
            let number = <[u8; 8]>::try_from(&message.text[..]).map_or(0, u64::from_le_bytes);
            if let (Word::Yes | Word::No, Some(answer)) =
                (message.word, self.questions().answers.get_mut(&number))
            {
                *answer = Some(message.word == Word::Yes);
            }
            self.questions().late = false;
            self.changed.notify_all();
        }
        self.close();
        // What it was told last it had not done.
        if self.questions().late {
            self.say_unheard();
        }
    }

    fn ask(&self, question: Word, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut questions = self.questions();
        questions.asked += 1;
        let number = questions.asked;
        questions.answers.insert(number, None);
        self.queue(Message::of(question, number.to_le_bytes()));
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let answer = questions.answers.get(&number).copied().flatten();
            if answer.is_some() || questions.closed || rest.is_zero() {
                questions.late |= answer.is_none();
                questions.answers.remove(&number);
                return answer.unwrap_or(false);
            }
            questions = self.changed.wait_timeout(questions, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl proxy::Successor for Link {
    fn tell(&self, change: Change) {
        self.queue(match change {
            Change::Removed(key) => Message::of(Word::Removed, key),
            Change::Purged(scope) => Message::of(Word::Purged, scope),
        });
        if self.questions().closed {
            self.say_unheard();
        }
    }

    fn confirm(&self) {
        let asks = self.serves.load(Acquire) && !self.questions().late;
        if asks && !self.ask(Word::Confirm, CONFIRMS) && self.questions().closed {
            self.say_unheard();
        }
    }

    fn persist(&self, patience: Duration) -> bool {
        self.ask(Word::Persist, patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy::Successor as _;
    use std::os::unix::fs::symlink;

    #[test]
    fn it_is_started_again_by_the_path_that_led_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let at = |name: &str| folder.join(name);
        let put = |name: &str| std::fs::write(at(name), name).unwrap();
        std::fs::create_dir(at("bin")).unwrap();
        std::fs::create_dir(at("other")).unwrap();
        ["cosm-1", "other/cosm"].into_iter().for_each(put);
        symlink(at("cosm-1"), at("bin/cosm")).unwrap();
        let path = std::env::join_paths([at("none"), at("other"), at("bin")]).unwrap();
        let found = |name: &str| program(Some(&OsString::from(name)), Some(path.clone()), Some(at("cosm-1")));
        // Who flips the link upgrades.
        assert_eq!(found("cosm"), at("bin/cosm"));
        assert_eq!(found(at("bin/cosm").to_str().unwrap()), at("bin/cosm"));
        assert_eq!(found(at("cosm-1").to_str().unwrap()), at("cosm-1"));
        // Names that say something else.
        assert_eq!(found(at("other/cosm").to_str().unwrap()), at("cosm-1"));
        assert_eq!(found("-cosm"), at("cosm-1"));
        assert_eq!(found(""), at("cosm-1"));
        assert_eq!(program(None, None, Some(at("cosm-1"))), at("cosm-1"));
    }

    /// As one that opens the caches for minutes: the kernel has room for some hundred changes.
    #[test]
    fn a_successor_that_reads_late_is_told_everything() {
        let ((ours, theirs), (link, queue)) = (UnixStream::pair().unwrap(), Link::new());
        let is_patient = ours.try_clone().unwrap();
        let (ours, theirs) = (Channel::new(ours), Channel::new(theirs));
        assert_eq!(is_patient.write_timeout().unwrap(), None, "for as long as it takes");
        let key = |n: u32| [&n.to_le_bytes()[..], &[b'k'; 1000]].concat();
        (0..1000).for_each(|n| link.tell(Change::Removed(key(n).into())));
        link.finish();
        let writes = link.clone();
        let writer = std::thread::spawn(move || writes.write(&ours, &queue));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!writer.is_finished(), "it waits for who reads");
        (0..1000).for_each(|n| assert_eq!(theirs.receive().unwrap().text, key(n)));
        writer.join().unwrap();
        assert!(!link.questions().closed);
    }

    #[test]
    fn a_successor_that_is_gone_is_not_asked() {
        let ((ours, theirs), (link, queue)) = (UnixStream::pair().unwrap(), Link::new());
        drop(theirs);
        let (ours, writes) = (Channel::new(ours), link.clone());
        let writer = std::thread::spawn(move || writes.write(&ours, &queue));
        let began = Instant::now();
        assert!(!link.persist(Duration::from_secs(60)));
        assert!(began.elapsed() < Duration::from_secs(30));
        writer.join().unwrap();
        assert!(link.questions().closed);
    }

    /// Else each change would keep a worker waiting.
    #[test]
    fn a_successor_that_does_not_answer_is_waited_for_once() {
        let (link, _queue) = Link::new();
        link.serves.store(true, Release);
        let began = Instant::now();
        link.confirm();
        assert!(began.elapsed() >= CONFIRMS);
        let began = Instant::now();
        (0..1000).for_each(|_| link.confirm());
        assert!(began.elapsed() < CONFIRMS, "{:?}", began.elapsed());
    }
}
