//! The digests of a cache that becomes smaller: what of them lies behind its new end.

use super::{ATTEMPTS, Resizing, not_there, unnoted};
use crate::buffer::Buffer;
use crate::by_hand::ByHand;
use crate::digester::Wanted;
use crate::engine::Placed;
use crate::format::digest;
use crate::format::record::Kind;
use crate::format::root::{self, DigestAt, Root};
use crate::format::{BLOCK, Layout, align_up};
use crate::recovery::root_of;
use std::collections::HashMap;

impl Resizing<'_> {
    /// Puts what lies behind the segments that stay of the digests of some that do: else their tables would have to be read, and
    /// memory may not have room for what these say. Where the digests lie then, by their first orders. One that is damaged is left as it is.
    pub fn move_digests(
        &self,
        store: &ByHand,
        layout: Layout,
        now: &mut u64,
    ) -> Result<HashMap<u64, DigestAt>, String> {
        let (identity, mut moved) = (layout.identity, HashMap::new());
        let stays = |place: u64| layout.segment_of(place) < layout.in_turn();
        for at in
            root_of(self.reads, layout).digests.into_iter().filter(|at| is_of_use(at, layout, store.newest()))
        {
            let bytes = self.record(layout, at.place, at.bytes as usize);
            let Some(mut head) = bytes.and_then(|bytes| digest::parse_head(identity, &at, &bytes)) else {
                continue;
            };
            if stays(at.place) && head.places.iter().all(|place| stays(*place)) {
                continue;
            }
            for n in (0..head.places.len()).filter(|n| !stays(head.places[*n])).collect::<Vec<_>>() {
                let bytes = self.record(layout, head.places[n], digest::pages_size(head.pages_in(n)));
                if let Some(body) =
                    bytes.and_then(|bytes| digest::parse_pages(identity, &at, n as u32, &bytes))
                {
                    let pages = Wanted { kind: Kind::Pages, key: digest::pages_key(at.from, n as u32), body };
                    head.places[n] = self.put(store, &pages, now)?.place;
                }
            }
            let head = Wanted { kind: Kind::Digest, key: digest::head_key(at.from), body: head.encode() };
            let Placed { place, bytes, .. } = self.put(store, &head, now)?;
            moved.insert(at.from, DigestAt { place, bytes: bytes as u32, ..at });
        }
        Ok(moved)
    }

    /// A record's bytes, if it comes.
    fn record(&self, layout: Layout, place: u64, bytes: usize) -> Option<Vec<u8>> {
        if !layout.holds(place, bytes) {
            return None;
        }
        let start = layout.offset(place);
        let skip = start as usize % BLOCK;
        let read = self.reads.read(start - skip as u64, align_up(skip + bytes, BLOCK)).ok()?;
        Some(read[skip..skip + bytes].to_vec())
    }

    fn put(&self, store: &ByHand, wanted: &Wanted, now: &mut u64) -> Result<Placed, String> {
        for _ in 0..ATTEMPTS {
            if let Ok(placed) = store.put_of_digest(wanted) {
                return Ok(placed);
            }
            *now += 1_000;
            store.turn(self.disk, *now);
        }
        Err(unnoted(store))
    }

    /// A root that lists the digests of what stays, and where they lie now. All that it speaks of is synced.
    pub fn list(&self, store: &ByHand, layout: Layout, moved: &HashMap<u64, DigestAt>) -> Result<(), String> {
        let before = root_of(self.reads, layout);
        let kept = before.digests.iter().filter(|at| is_of_use(at, layout, store.newest()));
        let digests: Vec<DigestAt> = kept.map(|at| *moved.get(&at.from).unwrap_or(at)).collect();
        if digests == before.digests {
            return Ok(());
        }
        let root = Root { generation: before.generation + 1, digests, ..before };
        let mut image = Buffer::new(root.size());
        root.encode(layout.identity, &mut image);
        let at = root::offset(root.generation);
        let written = self.disk.write(at, &image).and_then(|()| self.disk.sync());
        let is_there = || match Root::decode(layout.identity, &self.reads.read(at, root::COPY)?) {
            Ok(there) if there == root => Ok(()),
            _ => Err(not_there()),
        };
        written.and_then(|()| is_there()).map_err(|error| format!("it cannot be written: {error}"))
    }
}

/// Whether a digest is of segments some of which stay.
fn is_of_use(at: &DigestAt, layout: Layout, newest: u64) -> bool {
    (at.first_seq..=at.last_seq).any(|seq| !layout.cut().is_gone(seq, newest))
}
