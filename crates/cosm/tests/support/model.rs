//! A cyclic log as simply as can be, in memory, with sizes alone.
//!
//! Records are appended to the open segment. One that has no room has the next segment opened, and what lies there
//! is gone. A body larger than a span is several records, and a head behind them: it is found only when all are there.

use std::collections::HashMap;

/// How bytes lie: records begin at multiples of a unit, and a segment ends with a table that lists its records.
const UNIT: usize = 64;
const BLOCK: usize = 4096;
const HEADER: usize = 64;
const TABLE_HEAD: usize = 64;
const TABLE_ENTRY: usize = 24;
const SPAN_KEY: usize = 16;
/// Spans of a segment, at most, are this large.
const SPAN: usize = 256 << 10;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Name {
    Head(String),
    Span { body: u64, n: usize },
}

/// A body that lies in spans: its number, and how many.
#[derive(Clone, Copy)]
struct Spans {
    body: u64,
    count: usize,
}

pub struct Model {
    segment: usize,
    span: usize,
    largest: usize,
    /// What was appended to each since it was opened.
    segments: Vec<Vec<Name>>,
    open: usize,
    /// Bytes that records take of the open one.
    filled: usize,
    /// The segment in which the last record of a name lies.
    records: HashMap<Name, usize>,
    spans: HashMap<String, Spans>,
    bodies: u64,
    pub swept: usize,
}

impl Model {
    /// A cache of `size` bytes in segments of `segment` bytes, for bodies of at most `largest` bytes.
    pub fn new(size: usize, segment: usize, largest: usize) -> Model {
        let parts = (segment / SPAN).clamp(4, 16);
        Model {
            segment,
            span: (segment - BLOCK) / parts / UNIT * UNIT - HEADER - SPAN_KEY,
            largest,
            segments: vec![Vec::new(); (size - (1 << 20)) / segment],
            open: 0,
            filled: 0,
            records: HashMap::new(),
            spans: HashMap::new(),
            bodies: 0,
            swept: 0,
        }
    }

    /// Whether the object is found.
    pub fn get(&self, key: &str) -> bool {
        let Some(&Spans { body, count }) = self.spans.get(key) else {
            return self.records.contains_key(&Name::Head(key.into()));
        };
        let names = (0..count).map(|n| Name::Span { body, n });
        names.chain([Name::Head(key.into())]).all(|name| self.records.contains_key(&name))
    }

    /// Stores an object whose key and metadata are `about` bytes, in place of what the key had.
    pub fn put(&mut self, key: &str, about: usize, length: usize) {
        let head = Name::Head(key.into());
        self.spans.remove(key);
        if length > self.largest {
            self.records.remove(&head);
            return;
        }
        if length <= self.span {
            return self.append(head, HEADER + about + length);
        }
        self.bodies += 1;
        let (body, count) = (self.bodies, length.div_ceil(self.span));
        for n in 0..count {
            let piece = self.span.min(length - n * self.span);
            self.append(Name::Span { body, n }, HEADER + SPAN_KEY + piece);
        }
        self.append(head, HEADER + about);
        self.spans.insert(key.into(), Spans { body, count });
    }

    fn append(&mut self, name: Name, length: usize) {
        let length = length.next_multiple_of(UNIT);
        let table = TABLE_HEAD + TABLE_ENTRY * (self.segments[self.open].len() + 1);
        if self.filled + length + table > self.segment {
            self.open = (self.open + 1) % self.segments.len();
            self.filled = 0;
            for name in std::mem::take(&mut self.segments[self.open]) {
                // It may have been put again since.
                if self.records.get(&name) == Some(&self.open) {
                    self.records.remove(&name);
                    self.swept += 1;
                }
            }
        }
        self.filled += length;
        self.segments[self.open].push(name.clone());
        self.records.insert(name, self.open);
    }
}
