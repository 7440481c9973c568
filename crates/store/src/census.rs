//! What the log's bytes are: how much of it answers, and why the rest does not. For the laboratory.

use crate::disk::Disk;
use crate::format::Layout;
use crate::format::record::{self, Kind};
use crate::index::Index;
use crate::reads::Reads;
use crate::recovery::read_table;
use crate::scrub::verify::bytes_of;
use std::collections::{HashMap, HashSet};
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the segments that are full, by what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub all: u64,
    /// Of records that are found.
    pub live: u64,
    /// Of spans in the index whose head is not.
    pub headless: u64,
    /// Of records after which the same was put again, another was put under the same key, and that was removed.
    pub put_again: u64,
    pub replaced: u64,
    pub removed: u64,
    /// Of records that left the index for another reason, such as those of a body that broke off, or one that lies in a segment that is not
    /// full.
    pub forgotten: u64,
    /// Of records that are not live, in segments of which less than half is.
    pub sparse: u64,
}

/// A record that is listed.
struct Listed {
    order: u64,
    place: u64,
    bytes: u64,
    kind: Kind,
    /// Of the body; and the id of a large one.
    sum: u64,
    id: u64,
}

pub fn census(
    reads: &Reads<'_>,
    disk: &dyn Disk,
    layout: &Layout,
    index: &Index,
    newest: u64,
) -> io::Result<Census> {
    let mut listed: HashMap<u64, Vec<Listed>> = HashMap::new();
    let mut census = Census::default();
    let mut image = crate::Buffer::new(layout.segment as usize);
    for number in 0..layout.segments {
        let table = read_table(reads, layout, number)?;
        let Some(table) = table.filter(|table| Some(table.seq) == layout.seq_of(number, newest)) else {
            continue;
        };
        disk.read(layout.start(number), &mut image, layout.segment as usize)?;
        census.all += u64::from(layout.segment);
        for entry in &table.entries {
            let range = bytes_of(layout, entry);
            let Some(found) = record::parse(layout.identity, &image[range.clone()]) else { continue };
            let sum = xxh3_64(&image[range.clone()][found.body]);
            let place = layout.place(number, range.start);
            let (order, kind, id, bytes) = (entry.order, entry.kind, found.about.id, range.len() as u64);
            listed.entry(entry.hash).or_default().push(Listed { order, place, bytes, kind, sum, id });
        }
    }
    let is_live =
        |hash: u64, listed: &Listed| index.find(hash).is_some_and(|slot| slot.place == listed.place);
    let of_heads = |(hash, all): (&u64, &Vec<Listed>)| {
        all.iter().find(|one| one.kind == Kind::Head && is_live(*hash, one)).map(|head| head.id)
    };
    let heads: HashSet<u64> = listed.iter().filter_map(of_heads).collect();
    let mut segments: HashMap<u64, (u64, u64)> = HashMap::new();
    for (hash, all) in &mut listed {
        all.sort_unstable_by_key(|one| one.order);
        for (n, one) in all.iter().enumerate() {
            let place = match all.get(n + 1) {
                _ if !one.kind.is_answer() => continue,
                _ if is_live(*hash, one) && one.kind == Kind::Span && !heads.contains(&one.id) => {
                    &mut census.headless
                }
                _ if is_live(*hash, one) => &mut census.live,
                None => &mut census.forgotten,
                Some(next) if next.kind == Kind::Removal => &mut census.removed,
                Some(next) if (next.sum, next.id) == (one.sum, one.id) => &mut census.put_again,
                Some(_) => &mut census.replaced,
            };
            *place += one.bytes;
            let (live, dead) = segments.entry(layout.segment_of(one.place)).or_default();
            *if is_live(*hash, one) { live } else { dead } += one.bytes;
        }
    }
    let is_sparse = |&(live, _): &(u64, u64)| live < u64::from(layout.segment) / 2;
    census.sparse = segments.into_values().filter(is_sparse).map(|(_, dead)| dead).sum();
    Ok(census)
}
