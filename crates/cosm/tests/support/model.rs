//! Frequency-based cyclic replacement as Maltzahn's section 5.3.4 tells it, in memory, with sizes alone.
//!
//! The cache is a ring of segments. When a segment's turn comes, records referenced fewer than `CMAX` times go; the
//! others stay where they lie, and new records fill the gaps between them. Counts are halved (rounded up) when
//! their average passes `AMAX`. A body larger than a span is several records, each with a count of its own: it is
//! found only when all of them are.

use std::collections::HashMap;
use std::ops::Range;

const CMAX: u32 = 3;
const AMAX: u64 = 100;
/// How bytes lie: records begin at multiples of a unit, gaps at multiples of a block, and a segment ends with a
/// table that lists its records.
const UNIT: usize = 64;
const BLOCK: usize = 4096;
const LEAST_GAP: usize = 2 * BLOCK;
const HEADER: usize = 64;
const TABLE_HEAD: usize = 64;
const TABLE_ENTRY: usize = 16;
/// A segment is skipped when less than this share of it would be free.
const WORTH: usize = 16;
/// Segments that are tried for one record.
const PATIENCE: usize = 16;
const SPAN_KEY: usize = 16;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Name {
    Head(String),
    Span { body: u64, n: usize },
}

#[derive(Clone, Copy)]
struct Record {
    segment: usize,
    at: usize,
    length: usize,
    count: u32,
}

/// A body that lies in spans: its number, and how many.
#[derive(Clone, Copy)]
struct Spans {
    body: u64,
    count: usize,
}

/// The segment that is being filled.
struct Open {
    number: usize,
    /// Free from `start`, filled up to `position`.
    gaps: Vec<(Range<usize>, usize)>,
    entries: usize,
    /// Where its last survivor ends.
    floor: usize,
}

pub struct Model {
    segment: usize,
    span: usize,
    largest: usize,
    segments: Vec<Vec<Name>>,
    cursor: usize,
    open: Option<Open>,
    records: HashMap<Name, Record>,
    spans: HashMap<String, Spans>,
    bodies: u64,
    barren: usize,
    pub swept: usize,
    pub survived: usize,
}

impl Model {
    /// A cache of `size` bytes in segments of `segment` bytes, whose larger bodies lie in pieces of `span` bytes.
    pub fn new(size: usize, segment: usize, span: usize, largest: usize) -> Model {
        Model {
            segment,
            span,
            largest,
            segments: vec![Vec::new(); (size - (1 << 20)) / segment],
            cursor: 0,
            open: None,
            records: HashMap::new(),
            spans: HashMap::new(),
            bodies: 0,
            barren: 0,
            swept: 0,
            survived: 0,
        }
    }

    /// Whether the object is found; then it is referenced once more.
    pub fn get(&mut self, key: &str) -> bool {
        let Some(head) = self.records.get_mut(&Name::Head(key.into())) else { return false };
        head.count += 1;
        let Some(&Spans { body, count }) = self.spans.get(key) else { return true };
        let names: Vec<Name> = (0..count).map(|n| Name::Span { body, n }).collect();
        let whole = names.iter().all(|name| self.records.contains_key(name));
        if whole {
            names.iter().for_each(|name| self.records.get_mut(name).unwrap().count += 1);
        }
        whole
    }

    /// Stores an object whose key and metadata are `about` bytes, in place of what the key had.
    pub fn put(&mut self, key: &str, about: usize, length: usize) {
        let head = Name::Head(key.into());
        let mut stored = length <= self.largest;
        let mut spans = None;
        if stored && length > self.span {
            self.bodies += 1;
            let (body, count) = (self.bodies, length.div_ceil(self.span));
            spans = Some(Spans { body, count });
            stored = (0..count).all(|n| {
                let piece = self.span.min(length - n * self.span);
                self.append(Name::Span { body, n }, HEADER + SPAN_KEY + piece)
            });
        }
        let body = if spans.is_some() { 0 } else { length };
        let stored = stored && self.append(head.clone(), HEADER + about + body);
        if !stored {
            self.records.remove(&head);
            if let Some(Spans { body, .. }) = spans.take() {
                self.records.retain(|name, _| !matches!(name, Name::Span { body: of, .. } if *of == body));
            }
        }
        match spans {
            Some(spans) => self.spans.insert(key.into(), spans),
            None => self.spans.remove(key),
        };
    }

    fn append(&mut self, name: Name, length: usize) -> bool {
        let length = length.next_multiple_of(UNIT);
        for _ in 0..PATIENCE {
            if self.open.is_none() {
                self.open_next();
            }
            let Some(open) = &mut self.open else { continue };
            if let Some(at) = open.place(self.segment, length) {
                let record = Record { segment: open.number, at, length, count: 1 };
                self.segments[open.number].push(name.clone());
                self.records.insert(name, record);
                return true;
            }
            self.open = None;
        }
        false
    }

    /// The sweep comes to the next segment.
    fn open_next(&mut self) {
        let number = self.cursor;
        self.cursor = (number + 1) % self.segments.len();
        let there = |name: &Name| self.records.get(name).filter(|r| r.segment == number);
        let mut listed = std::mem::take(&mut self.segments[number]);
        // A record that was put anew into the same segment is listed twice.
        let mut seen = std::collections::HashSet::new();
        listed.retain(|name| there(name).is_some() && seen.insert(name.clone()));
        let (stay, go): (Vec<Name>, Vec<Name>) =
            listed.into_iter().partition(|n| self.records[n].count >= CMAX);
        let taken =
            stay.iter().map(|n| self.records[n].at..self.records[n].at + self.records[n].length).collect();
        let gaps = gaps(self.segment, taken);
        if gaps.iter().map(|g| g.len()).sum::<usize>() < self.segment / WORTH {
            self.segments[number] = [stay, go].concat();
            self.barren += 1;
            if self.barren >= self.segments.len() {
                self.age();
            }
            return;
        }
        self.barren = 0;
        self.swept += go.len();
        self.survived += stay.len();
        for name in &go {
            self.records.remove(name);
        }
        let floor = stay.iter().map(|n| self.records[n].at + self.records[n].length).max().unwrap_or(0);
        self.open = Some(Open {
            number,
            gaps: gaps.into_iter().map(|gap| (gap.clone(), gap.start)).collect(),
            entries: stay.len(),
            floor: floor.next_multiple_of(BLOCK),
        });
        self.segments[number] = stay;
        let references: u64 = self.records.values().map(|r| u64::from(r.count)).sum();
        if references > AMAX * self.records.len() as u64 {
            self.age();
        }
    }

    fn age(&mut self) {
        self.barren = 0;
        self.records.values_mut().for_each(|record| record.count = record.count.div_ceil(2));
    }
}

impl Open {
    /// The first gap that has room.
    fn place(&mut self, segment: usize, length: usize) -> Option<usize> {
        let limit = table_start(segment, self.entries + 1);
        let used = self.gaps.iter().filter(|(gap, position)| *position > gap.start).map(|(_, p)| *p).max();
        if limit < self.floor.max(used.unwrap_or(0)) {
            return None;
        }
        let (_, position) = self.gaps.iter_mut().find(|(gap, p)| *p + length <= gap.end.min(limit))?;
        self.entries += 1;
        *position += length;
        Some(*position - length)
    }
}

/// What is free between the records that stay, in whole blocks.
fn gaps(segment: usize, mut taken: Vec<Range<usize>>) -> Vec<Range<usize>> {
    taken.sort_by_key(|r| r.start);
    let limit = table_start(segment, taken.len());
    let mut from = 0;
    let mut free = Vec::new();
    for next in taken.into_iter().chain(std::iter::once(limit..segment)) {
        let gap = usize::next_multiple_of(from, BLOCK)..next.start / BLOCK * BLOCK;
        if gap.len() >= LEAST_GAP {
            free.push(gap);
        }
        from = next.end;
    }
    free
}

fn table_start(segment: usize, entries: usize) -> usize {
    (segment - TABLE_HEAD - TABLE_ENTRY * entries) / BLOCK * BLOCK
}
