//! What several disks answer, each asked by a thread of its own, since one may never do. Whoever waits for long says for which of them.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Waited for longer than that, it is said.
const SAY: Duration = Duration::from_secs(2);

/// The answers as they come, until all have, or for as long as somebody waits: of each the disk's place among the names.
pub struct Answers<T, S> {
    received: Receiver<(usize, T)>,
    /// Of those that did not answer so far.
    names: Vec<Option<String>>,
    began: Instant,
    patience: Duration,
    quiet: Duration,
    say: S,
}

impl<T, S: FnMut(String)> Answers<T, S> {
    pub fn new(
        received: Receiver<(usize, T)>,
        names: impl Iterator<Item = String>,
        patience: Duration,
        say: S,
    ) -> Answers<T, S> {
        let names = names.map(Some).collect();
        Answers { received, names, began: Instant::now(), patience, quiet: SAY.min(patience), say }
    }
}

impl<T, S: FnMut(String)> Iterator for Answers<T, S> {
    type Item = (usize, T);

    fn next(&mut self) -> Option<(usize, T)> {
        loop {
            match self.received.recv_timeout(self.quiet.saturating_sub(self.began.elapsed())) {
                Ok(answer) => {
                    self.names[answer.0] = None;
                    return Some(answer);
                }
                Err(RecvTimeoutError::Timeout) if self.quiet < self.patience => {
                    self.quiet = self.patience;
                    let names: Vec<&str> = self.names.iter().flatten().map(String::as_str).collect();
                    (self.say)(format!("waiting for cache {}, which does not answer", names.join(", ")));
                }
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn who_waits_for_long_says_so_once_and_then_goes_on() {
        let (sender, received) = channel();
        let names = ["one", "two", "three"].map(str::to_owned).into_iter();
        let (mut said, begin) = (Vec::new(), Duration::from_millis(5));
        let mut answers = Answers::new(received, names, 20 * begin, |line| said.push(line));
        answers.quiet = begin;
        sender.send((1, 'b')).unwrap();
        assert_eq!(answers.by_ref().collect::<Vec<_>>(), [(1, 'b')]);
        assert!(answers.began.elapsed() >= 20 * begin);
        assert_eq!(said, ["waiting for cache one, three, which does not answer"]);
    }

    #[test]
    fn who_has_all_answers_says_nothing() {
        let (sender, received) = channel();
        sender.send((0, ())).unwrap();
        drop(sender);
        let names = std::iter::once("one".to_owned());
        let answers = Answers::new(received, names, 10 * SAY, |line| panic!("{line}"));
        assert_eq!(answers.count(), 1);
    }
}
