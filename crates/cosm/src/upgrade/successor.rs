//! The process that takes over. Where the other one ends meanwhile, whatever the step, this one goes on alone.

use super::channel::{Channel, Message, VERSION, Word};
use super::{OF, Upgrade};
use proxy::{Beginning, Change, Handed, Moved, Running, Service, Stores};
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long an answer to a purge there waits until it survives a kill.
const PATIENCE: Duration = Duration::from_secs(10);
/// And how long the other process may take to read what it is answered.
const READS: Duration = Duration::from_secs(60);

pub struct Successor {
    channel: Channel,
    sockets: Vec<Handed>,
    changes: Vec<Change>,
    /// What it was asked of these.
    asked: Vec<(Word, Vec<u8>)>,
    /// Signals that came there meanwhile.
    signals: Vec<Word>,
}

impl Successor {
    /// If this process was started to take over.
    pub fn of_environment() -> Result<Option<Successor>, String> {
        // Whoever inherits the name alone has something else there.
        let is_socket = socket_domain(io::stdin()).is_ok_and(|domain| domain == AddressFamily::UNIX);
        let Some(of) = std::env::var(OF).ok().filter(|_| is_socket) else { return Ok(None) };
        let failed = |error: io::Error| format!("cannot take over from process {of}: {error}");
        let stream = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        // What reads it later finds nothing there.
        let nothing = std::fs::File::open("/dev/null").map_err(failed)?;
        rustix::stdio::dup2_stdin(&nothing).map_err(|error| failed(error.into()))?;
        let channel = Channel::new(UnixStream::from(stream));
        channel.set_patience_to_send(READS);
        let (sockets, changes, asked, signals) = Default::default();
        let mut successor = Successor { channel, sockets, changes, asked, signals };
        alone_if_gone(successor.hear_until(Word::Prepare)).map_err(failed)?;
        Ok(Some(successor))
    }

    /// What can be known without the caches is right: waits until they are closed.
    pub fn prepared(&mut self) -> Result<(), String> {
        self.say_and_hear(Word::Prepared, Word::Open)
    }

    /// The caches are open: waits until nothing is begun there any more. Gives what this process begins with.
    pub fn opened(&mut self) -> Result<Beginning, String> {
        self.say_and_hear(Word::Opened, Word::Serve)?;
        let (sockets, changes) = (std::mem::take(&mut self.sockets), std::mem::take(&mut self.changes));
        Ok(Beginning { holds: true, sockets, changes })
    }

    /// This process serves. What the other one tells from now on is done as it comes.
    pub fn serving(self, running: &Running, stores: Stores, upgrade: Arc<Upgrade>) -> io::Result<()> {
        let Successor { channel, asked, signals, .. } = self;
        // Before anything is answered: whoever does not hear it goes on by itself.
        let told = channel.send(&Message::of(Word::Serving, []));
        let before = running.succeed();
        signals.into_iter().for_each(|signal| upgrade.obey_older(signal));
        if told.is_err() {
            return Ok(());
        }
        let (change, mut take_in) = (running.change(), running.take_in());
        let answers = Arc::new(Mutex::new(channel.try_clone()?));
        upgrade.follows(Some(answers.clone()));
        let answer = move |question: Word, number: Vec<u8>| {
            let (stores, answers) = (stores.clone(), answers.clone());
            let answer = move || {
                let is_so = question == Word::Confirm || stores.persist(PATIENCE);
                let word = if is_so { Word::Yes } else { Word::No };
                let _ =
                    answers.lock().unwrap_or_else(PoisonError::into_inner).send(&Message::of(word, number));
            };
            match question {
                // What comes behind it does not wait for the disk.
                Word::Persist => drop(std::thread::Builder::new().name("persist".into()).spawn(answer)),
                _ => answer(),
            }
        };
        let listen = move || {
            asked.into_iter().for_each(|(question, number)| answer(question, number));
            while let Ok(message) = channel.receive() {
                match (message.word, message.descriptor) {
                    (Word::Removed | Word::Purged, _) => change(&change_of(message.word, message.text)),
                    (question @ (Word::Confirm | Word::Persist), _) => answer(question, message.text),
                    (Word::Connection, Some(socket)) => {
                        take_in(Moved { socket, read: message.text.into() });
                    }
                    (signal @ (Word::Reopen | Word::Reload), _) => upgrade.obey_older(signal),
                    _ => {}
                }
            }
            // What it told is done.
            upgrade.follows(None);
            drop(before);
        };
        std::thread::Builder::new().name("predecessor".into()).spawn(listen).map(drop)
    }

    fn say_and_hear(&mut self, say: Word, hear: Word) -> Result<(), String> {
        // That the other is gone shows when its answer is waited for.
        let _ = self.channel.send(&Message::of(say, []));
        alone_if_gone(self.hear_until(hear)).map_err(|error| format!("cannot take over: {error}"))
    }

    fn hear_until(&mut self, last: Word) -> io::Result<()> {
        loop {
            let message = self.channel.receive()?;
            match (message.word, message.descriptor) {
                (Word::Hello, _) if message.text != [VERSION] => {
                    return Err(io::Error::other("it speaks another version; restart instead"));
                }
                (word @ (Word::Listener | Word::Admin), Some(socket)) => {
                    let service = if word == Word::Admin { Service::Operator } else { Service::Clients };
                    let text = String::from_utf8(message.text).map_err(io::Error::other)?;
                    let address = text.parse().map_err(io::Error::other)?;
                    self.sockets.push(Handed { given: Some((service, address)), socket });
                }
                (Word::Removed | Word::Purged, _) => self.changes.push(change_of(message.word, message.text)),
                (question @ (Word::Confirm | Word::Persist), _) => self.asked.push((question, message.text)),
                (signal @ (Word::Reopen | Word::Reload), _) => self.signals.push(signal),
                _ => {}
            }
            if message.word == last {
                return Ok(());
            }
        }
    }
}

/// Whoever hears no more since the other one has ended goes on with what it has.
fn alone_if_gone(heard: io::Result<()>) -> io::Result<()> {
    match heard {
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(()),
        heard => heard,
    }
}

fn change_of(word: Word, text: Vec<u8>) -> Change {
    match word {
        Word::Removed => Change::Removed(text.into()),
        _ => Change::Purged(String::from_utf8_lossy(&text).into_owned()),
    }
}
