//! The process whose work is taken over. Until the other one serves, this one takes back what it gave.

use super::OF;
use super::channel::{Channel, Message, VERSION, Word};
use proxy::{Change, Handed, Moved, Predecessor, Service};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the successor may take to start, to open the caches, and to begin.
const PREPARES: Duration = Duration::from_secs(60);
const OPENS: Duration = Duration::from_secs(300);
const BEGINS: Duration = Duration::from_secs(30);
/// How long the sockets wait for the kernel to take them before the successor is started.
const STARTS: Duration = Duration::from_millis(100);
/// How long the caches may take to be written here, and the threads to stand still.
const WRITES: Duration = Duration::from_secs(30);
const HOLDS: Duration = Duration::from_secs(5);
/// And the answer to an unsafe request, until the successor has done what that invalidates.
const CONFIRMS: Duration = Duration::from_secs(2);

/// How this process is replaced.
pub struct Upgrade {
    program: PathBuf,
    words: Vec<OsString>,
    predecessor: Predecessor,
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Serves,
    /// The process that is about to take over.
    Tries(Arc<Mutex<Child>>),
    /// It serves. What is still to be told goes through this thread.
    Done(Arc<Link>, JoinHandle<()>),
    /// This process is told to stop: nobody takes over.
    Over,
}

impl Upgrade {
    /// `words` are the command line's. The program is what is found then where this one was started from.
    pub fn new(words: Vec<OsString>, predecessor: Predecessor) -> Upgrade {
        let named = words.first().map(PathBuf::from).filter(|path| path.components().count() > 1);
        let program = named.and_then(|path| std::path::absolute(path).ok());
        let program = program.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| "cosm".into());
        Upgrade { program, words, predecessor, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands all over. An error is one line: this process goes on.
    pub fn run(&self) -> Result<(), String> {
        if !matches!(*self.state(), State::Serves) {
            return Err("another process takes over already".into());
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
        let (ours, sockets) = (Channel::new(ours), self.sockets()?);
        let to = ours.try_clone().map_err(|error| error.to_string())?;
        // So that it has them when this process is no more. What has no room in the kernel is sent once it reads.
        let (sent, is_sent) = channel();
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
        let (id, child) = (child.id(), Arc::new(Mutex::new(child)));
        {
            let mut state = self.state();
            if !matches!(*state, State::Serves) {
                end(&child);
                return Err("this process stops".into());
            }
            *state = State::Tries(child.clone());
        }
        match self.hand_over(ours, id) {
            Ok(()) => Ok(()),
            Err(why) => {
                let ended = end(&child);
                let mut state = self.state();
                if let State::Tries(_) = &*state {
                    *state = State::Serves;
                }
                let taken = self.predecessor.take_back();
                let without = taken.err().map(|why| format!("; and the cache cannot be taken back: {why}"));
                Err(format!("{why}{ended}{}", without.unwrap_or_default()))
            }
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

    fn hand_over(&self, channel: Channel, id: u32) -> Result<(), String> {
        let lost = |step: &str, error: &io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("the new process did not {step} in time"),
            _ => format!("the new process ended before it could {step}"),
        };
        let hear = |word: Word, step: &str, patience: Duration| {
            channel.set_patience(Some(patience));
            match channel.receive() {
                Ok(message) if message.word == word => Ok(()),
                Ok(_) => Err("the new process says something else than it should".to_owned()),
                Err(error) => Err(lost(step, &error)),
            }
        };
        hear(Word::Prepared, "start", PREPARES)?;

        let (link, queue) = Link::new();
        if !self.predecessor.give_caches(link.clone(), WRITES) {
            return Err("the cache cannot be written".into());
        }
        link.queue(Message::of(Word::Open, []));
        let to = channel.try_clone().map_err(|error| error.to_string())?;
        let writer = std::thread::Builder::new().name("successor".into()).spawn(move || write(&to, &queue));
        let writer = writer.map_err(|error| format!("cannot start a thread: {error}"))?;
        let begun = hear(Word::Opened, "open the cache", OPENS).and_then(|()| {
            if !self.predecessor.hold(HOLDS) {
                return Err("this process stops, or is too busy to stand still".into());
            }
            link.serves.store(true, Release);
            link.queue(Message::of(Word::Serve, []));
            hear(Word::Serving, "serve", BEGINS)
        });
        if let Err(why) = begun {
            link.close();
            return Err(why);
        }
        {
            // Before anything here can end: whoever ends this process leaves that one alone from now on.
            let mut state = self.state();
            if !matches!(*state, State::Tries(_)) {
                link.close();
                return Err("this process stops".into());
            }
            *state = State::Done(link.clone(), writer);
        }
        tracing::info!(target: "service", "process {id} serves; this one ends with what is under way");
        let mover = link.clone();
        self.predecessor.leave(move |Moved { socket, read }| {
            mover.queue(Message::of(Word::Connection, read).with(socket));
        });
        channel.set_patience(None);
        let reads = link.clone();
        let reader = std::thread::Builder::new().name("successor-says".into());
        if reader.spawn(move || reads.hear(&channel)).is_err() {
            link.close();
        }
        Ok(())
    }

    /// At the end of this process: what is to be told is told. A successor that does not serve yet goes with this process, and what
    /// was given to it is back.
    pub fn end(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Over);
        match before {
            State::Done(link, writer) => {
                link.finish();
                let _ = writer.join();
            }
            State::Tries(child) => {
                end(&child);
                let _ = self.predecessor.take_back();
            }
            _ => {}
        }
    }
}

/// Ends a process, and says how it ended if it did by itself.
fn end(child: &Mutex<Child>) -> String {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    // One that has just said its last word.
    let until = Instant::now() + Duration::from_millis(100);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return format!(" ({status})"),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            _ => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
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
}

#[derive(Default)]
struct Questions {
    asked: u64,
    /// By their numbers, those that somebody waits for.
    answers: HashMap<u64, Option<bool>>,
    closed: bool,
}

impl Link {
    fn new() -> (Arc<Link>, Receiver<Option<Message>>) {
        let (queue, receiver) = channel();
        let (questions, changed, serves) = Default::default();
        (Arc::new(Link { queue, questions, changed, serves }), receiver)
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

    fn hear(&self, channel: &Channel) {
        while let Ok(message) = channel.receive() {
            let number = <[u8; 8]>::try_from(&message.text[..]).map_or(0, u64::from_le_bytes);
            if let (Word::Yes | Word::No, Some(answer)) =
                (message.word, self.questions().answers.get_mut(&number))
            {
                *answer = Some(message.word == Word::Yes);
            }
            self.changed.notify_all();
        }
        self.close();
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
    }

    fn confirm(&self) {
        if self.serves.load(Acquire) {
            self.ask(Word::Confirm, CONFIRMS);
        }
    }

    fn persist(&self, patience: Duration) -> bool {
        self.ask(Word::Persist, patience)
    }
}

fn write(to: &Channel, queue: &Receiver<Option<Message>>) {
    while let Ok(Some(message)) = queue.recv() {
        if to.send(&message).is_err() {
            // What still comes has nowhere to go.
            return;
        }
    }
}
