//! What needs the whole trace: policies that know the future, and what no policy exceeds. All requests are kept, 32 bytes each.

use super::{Cache, Clock, Message, Numbered, PIECE, Request, Row};
use policy::replacement::NEVER;
use policy::sample;
use std::sync::Arc;

/// Of the row.
const BOUND: &str = "bound";

pub struct Kept {
    messages: Vec<Message>,
    parts: usize,
}

impl Kept {
    pub fn new(parts: usize) -> Kept {
        Kept { messages: Vec::with_capacity(PIECE), parts }
    }

    pub fn keep(&mut self, message: &Message) {
        self.messages.push(message.clone());
    }

    /// Finds each request's next one, from the last on.
    pub fn foresee(self) -> Foresight {
        let Kept { messages, parts } = self;
        let mut lasts: Vec<Vec<u64>> = vec![Vec::new(); parts];
        let mut ends = vec![0; parts];
        for message in &messages {
            if let Message::Piece(part, piece) = message {
                ends[*part] += piece.len() as u64;
            }
        }
        let mut pieces: Vec<(Message, Vec<u64>)> = messages
            .into_iter()
            .rev()
            .map(|message| {
                let nexts = match &message {
                    Message::Piece(part, piece) => nexts(piece, &mut ends[*part], &mut lasts[*part]),
                    Message::Measure => Vec::new(),
                };
                (message, nexts)
            })
            .collect();
        pieces.reverse();
        Foresight { pieces, parts }
    }
}

/// Of a piece that ends before request `end`; a new version is another object, so that before it comes `NEVER`.
fn nexts(piece: &Arc<Vec<Request>>, end: &mut u64, lasts: &mut Vec<u64>) -> Vec<u64> {
    let mut nexts = vec![NEVER; piece.len()];
    for (next, request) in nexts.iter_mut().zip(piece.iter()).rev() {
        *end -= 1;
        let at = request.object as usize;
        if lasts.len() <= at {
            lasts.resize(at + 1, NEVER);
        }
        *next = std::mem::replace(&mut lasts[at], if request.changed { NEVER } else { *end });
    }
    nexts
}

pub struct Foresight {
    /// With each request's next one, by its number in its part.
    pieces: Vec<(Message, Vec<u64>)>,
    parts: usize,
}

impl Foresight {
    pub fn run(&self, shares: Vec<Vec<Cache>>, clock: Clock<'_>) -> Result<Vec<Cache>, String> {
        std::thread::scope(|scope| {
            let run = |mut cache: Cache| {
                for (message, nexts) in &self.pieces {
                    match message {
                        Message::Piece(part, piece) if *part == cache.sample => {
                            cache.run(piece, Some(nexts), clock)
                        }
                        message => cache.take(message, clock),
                    }
                }
                cache
            };
            let share =
                |caches: Vec<Cache>| scope.spawn(move || caches.into_iter().map(run).collect::<Vec<_>>());
            let workers: Vec<_> = shares.into_iter().map(share).collect();
            let caches = workers
                .into_iter()
                .map(|worker| worker.join().map_err(|_| "a thread ended early".to_owned()));
            Ok(caches.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        })
    }

    /// More hits and more bytes of hits than any policy can have (PFOO-L; Berger, Beckmann and Harchol-Balter, Practical bounds on
    /// optimal caching with variable object sizes, SIGMETRICS 2018): a hit takes its object's bytes from the request before to its own; the cheapest
    /// are taken as long as all together take no more than the cache has in that time on the average. The two figures are bounds of their
    /// own, which one policy need not reach together.
    pub fn bound(&self, size: u64, numbered: &Numbered) -> Row {
        let split = &numbered.split;
        let parts: Vec<(Vec<Interval>, u64)> =
            (0..self.parts).map(|part| self.intervals(part, size)).collect();
        // What is popular is cheap.
        let follow =
            numbered.follow(parts.iter().flat_map(|(all, _)| all).map(|one| u64::from(one.nth)).sum());
        let ratios: Vec<(f64, f64)> = (0..self.parts)
            .zip(parts)
            .map(|(part, (mut intervals, time))| {
                let room = u128::from(split.scaled(size)) * u128::from(time);
                let hits = cheapest(&mut intervals, room, |_| 1);
                let bytes = cheapest(&mut intervals, room, |interval| interval.size);
                split.estimate((hits, bytes), follow, &numbered.parts[part].count, &numbered.whole)
            })
            .collect();
        let ((hit_ratio, byte_hit_ratio), errors) = sample::mean(&ratios);
        Row {
            policy: BOUND,
            size,
            hits: (hit_ratio * numbered.whole.requests as f64).round() as u64,
            hit_ratio,
            byte_hit_ratio,
            errors,
            too_large: 0,
            too_large_for_sample: 0,
            seconds: 0.0,
            requests_per_second: 0.0,
        }
    }

    /// Of hits that could be on objects of no more than `most` bytes, and how many requests there are in all; after the warm-up.
    fn intervals(&self, of: usize, most: u64) -> (Vec<Interval>, u64) {
        let (mut intervals, mut now, mut start) = (Vec::new(), 0, 0);
        // By object: its last request, and the fewest bytes of its version.
        let mut sizes: Vec<(u64, u64)> = Vec::new();
        for (message, _) in &self.pieces {
            match message {
                Message::Measure => {
                    start = now;
                    intervals.clear();
                }
                Message::Piece(part, piece) if *part == of => {
                    for Request { size, object, nth, changed } in piece.iter().copied() {
                        now += 1;
                        let at = object as usize;
                        if sizes.len() <= at {
                            sizes.resize(at + 1, (0, 0));
                        }
                        let (before, held) = sizes[at];
                        let same = before > 0 && !changed;
                        if same && held <= most {
                            intervals.push(Interval { size, held, nth, time: now - before.max(start) });
                        }
                        // Who holds a version may hold it as any request so far had it.
                        sizes[at] = (now, if same { held.min(size) } else { size });
                    }
                }
                Message::Piece(..) => {}
            }
        }
        (intervals, now - start)
    }
}

/// A request that may hit.
struct Interval {
    size: u64,
    /// Bytes that have to be held for it, and for how many requests.
    held: u64,
    time: u64,
    nth: u32,
}

impl Interval {
    fn cost(&self) -> u128 {
        u128::from(self.held) * u128::from(self.time)
    }
}

/// The most that can be had for so many bytes times requests, the last of it in part.
fn cheapest(intervals: &mut [Interval], mut room: u128, worth: fn(&Interval) -> u64) -> u64 {
    let price = |interval: &Interval| interval.cost() as f64 / worth(interval) as f64;
    intervals.sort_unstable_by(|one, other| price(one).total_cmp(&price(other)));
    let mut all = 0;
    for interval in intervals {
        if interval.cost() > room {
            return all + (worth(interval) as f64 * room as f64 / interval.cost() as f64) as u64;
        }
        room -= interval.cost();
        all += worth(interval);
    }
    all
}
