//! Which of a connection's streams sends next: the most urgent that has something (RFC 9218), of those alike each in turn.
//!
//! What the library has of a connection goes out in the order in which it came, so that it is given little at a time.

use http::HeaderMap;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

/// Bytes that the library has to send, about.
const UNSENT: usize = 128 << 10;

/// What the library needs for a piece, beside its bytes, about: many small pieces are no more than few large ones.
const PIECE: usize = 512;

/// Of one connection.
#[derive(Default)]
pub struct Turns {
    unsent: Cell<usize>,
    gone: Cell<u64>,
    waiting: RefCell<BTreeMap<(Urgency, u64), Waker>>,
    next: Cell<u64>,
}

/// How urgent a response is to its client: the less the number, the more; those that are of use only when they are whole go before
/// those of which each piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency {
    level: u8,
    incremental: bool,
}

/// A stream's place among those that wait.
pub struct Turn<'a> {
    turns: &'a Turns,
    urgency: Urgency,
    at: Option<u64>,
    /// Of one that is to be whole, which goes before others of its kind that came later.
    first: u64,
}

impl Urgency {
    /// As the Priority field says (RFC 9218 section 4). Streams of whose client nothing is known share alike.
    pub fn of(headers: &HeaderMap) -> Urgency {
        let mut urgency = Urgency { level: 3, incremental: true };
        let Some(field) = headers.get("priority") else { return urgency };
        urgency.incremental = false;
        for member in field.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            match member {
                [b'u', b'=', level @ b'0'..=b'7'] => urgency.level = level - b'0',
                b"i" | b"i=?1" => urgency.incremental = true,
                b"i=?0" => urgency.incremental = false,
                // What is not known, or not as it should be, is passed over.
                _ => {}
            }
        }
        urgency
    }
}

impl Turns {
    /// Nobody waits, and there is room.
    pub fn is_free(&self) -> bool {
        self.unsent.get() < UNSENT && self.waiting.borrow().is_empty()
    }

    pub fn has_unsent(&self) -> bool {
        self.unsent.get() > 0
    }

    /// The library has a piece more, of so many bytes.
    pub fn took(&self, bytes: usize) {
        self.unsent.set(self.unsent.get() + PIECE + bytes);
        self.call();
    }

    /// It has gone, or never will.
    pub fn left(&self, bytes: usize) {
        self.unsent.set(self.unsent.get().saturating_sub(PIECE + bytes));
        self.gone.set(self.gone.get() + bytes as u64);
        self.call();
    }

    /// Bytes that have gone, or never will, in all.
    pub fn gone(&self) -> u64 {
        self.gone.get()
    }

    /// `stream`: its number.
    pub fn turn(&self, urgency: Urgency, stream: u32) -> Turn<'_> {
        Turn { turns: self, urgency, at: None, first: stream.into() }
    }

    fn call(&self) {
        if self.unsent.get() < UNSENT
            && let Some((_, waker)) = self.waiting.borrow().first_key_value()
        {
            waker.wake_by_ref();
        }
    }
}

impl Turn<'_> {
    /// Ready when it is this stream's.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let turns = self.turns;
        let at = *self.at.get_or_insert_with(|| match self.urgency.incremental {
            false => self.first,
            true => turns.next.replace(turns.next.get() + 1),
        });
        let key = (self.urgency, at);
        let mut waiting = turns.waiting.borrow_mut();
        let is_first = waiting.first_key_value().is_none_or(|(first, _)| *first >= key);
        if turns.unsent.get() < UNSENT && is_first {
            self.at = None;
            // Who has nothing to send after all does not keep the next from its turn.
            if waiting.remove(&key).is_some() {
                drop(waiting);
                turns.call();
            }
            return Poll::Ready(());
        }
        waiting.insert(key, cx.waker().clone());
        Poll::Pending
    }

    /// Others may go before it: it has nothing to send, or may not.
    pub fn yields(&mut self) {
        if let Some(at) = self.at.take() {
            self.turns.waiting.borrow_mut().remove(&(self.urgency, at));
            self.turns.call();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.yields();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    fn urgency(field: &'static str) -> Urgency {
        Urgency::of(&HeaderMap::from_iter([("priority".parse().unwrap(), HeaderValue::from_static(field))]))
    }

    #[test]
    fn the_priority_field_says_how_urgent_a_response_is() {
        let of = |level, incremental| Urgency { level, incremental };
        for (field, expected) in [
            ("", of(3, false)),
            ("u=0", of(0, false)),
            ("u=5, i", of(5, true)),
            ("i , u=7", of(7, true)),
            ("i=?0", of(3, false)),
            ("u=8", of(3, false)),
            ("u=x, q=1", of(3, false)),
        ] {
            assert_eq!(urgency(field), expected, "{field}");
        }
        assert_eq!(Urgency::of(&HeaderMap::new()), of(3, true));
    }

    #[test]
    fn who_has_nothing_to_send_keeps_nobody_waiting() {
        struct Woken(AtomicUsize);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let woken = [(); 2].map(|()| Arc::new(Woken(AtomicUsize::new(0))));
        let wakers = woken.clone().map(Waker::from);
        let (turns, urgency) = (Turns::default(), Urgency::of(&HeaderMap::new()));
        let mut all = [1, 3].map(|stream| turns.turn(urgency, stream));
        turns.took(UNSENT);
        for (turn, waker) in all.iter_mut().zip(&wakers) {
            assert!(turn.poll(&mut Context::from_waker(waker)).is_pending());
        }
        turns.left(1);
        assert_eq!(woken.each_ref().map(|woken| woken.0.load(Relaxed)), [1, 0]);
        assert!(all[0].poll(&mut Context::from_waker(&wakers[0])).is_ready());
        assert_eq!(woken.each_ref().map(|woken| woken.0.load(Relaxed)), [1, 1]);
    }

    #[test]
    fn many_small_pieces_are_as_much_as_few_large_ones() {
        let (turns, urgency) = (Turns::default(), Urgency::of(&HeaderMap::new()));
        let mut turn = turns.turn(urgency, 1);
        let mut cx = Context::from_waker(Waker::noop());
        let took = (0..)
            .take_while(|_| {
                turn.poll(&mut cx).is_ready() && {
                    turns.took(1);
                    true
                }
            })
            .count();
        assert!((100..1000).contains(&took), "{took} pieces");
        (0..took).for_each(|_| turns.left(1));
        assert_eq!((turns.unsent.get(), turns.gone()), (0, took as u64));
    }

    #[test]
    fn urgent_streams_go_first_and_others_by_turns() {
        let (turns, mut cx) = (Turns::default(), Context::from_waker(Waker::noop()));
        turns.took(UNSENT);
        let mut all: Vec<_> = [("u=3, i", 1), ("u=3, i", 3), ("u=1", 7), ("u=1", 5), ("u=0, i", 9)]
            .into_iter()
            .map(|(field, stream)| turns.turn(urgency(field), stream))
            .collect();
        assert!(all.iter_mut().all(|turn| turn.poll(&mut cx).is_pending()) && !turns.is_free());
        turns.left(UNSENT);
        let mut went = Vec::new();
        for _ in 0..all.len() {
            let ready = (0..all.len()).find(|n| !went.contains(n) && all[*n].poll(&mut cx).is_ready());
            went.push(ready.unwrap());
        }
        assert_eq!(went, [4, 3, 2, 0, 1]);
        assert!(turns.is_free());
        // Who leaves is out of the way.
        turns.took(UNSENT);
        assert!(all[0].poll(&mut cx).is_pending() && all[1].poll(&mut cx).is_pending());
        turns.left(UNSENT);
        drop(all.remove(0));
        assert!(all[0].poll(&mut cx).is_ready());
    }
}
