//! Where a filesystem puts things: groups of blocks, which may have fragments (McKusick and others, 1984).

use super::fs_type::{FsType, Spread};
use trace::random::mix;

/// The groups of one filesystem. Addresses are fragments from the disk's beginning.
pub struct Space {
    /// What was never used is not there.
    groups: Vec<Option<Box<Group>>>,
    fs_type: FsType,
    /// Blocks of a group, and how many of them its map and its inodes take.
    size: u64,
    taken: u64,
    /// Inodes of a group, and how many of all are free.
    inodes: u32,
    free_inodes: u64,
    directories: u64,
}

struct Group {
    /// A bit for each free fragment of each block.
    free: Vec<u8>,
    free_blocks: u64,
    /// Inodes never used yet begin here; those given back.
    unused: u32,
    given_back: Vec<u32>,
    directories: u64,
    /// Where the last whole block was found.
    rotor: usize,
}

/// Where an inode lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    pub group: u32,
    pub nth: u32,
}

impl Space {
    /// For a disk of `bytes`.
    pub fn new(bytes: u64, fs_type: FsType) -> Space {
        let size = fs_type.group / fs_type.block;
        let inodes = (fs_type.group / fs_type.per_inode).next_multiple_of(fs_type.inodes_a_block());
        let count = (bytes / fs_type.group).max(1);
        Space {
            groups: (0..count).map(|_| None).collect(),
            fs_type,
            size,
            taken: 1 + inodes / fs_type.inodes_a_block(),
            inodes: inodes as u32,
            free_inodes: count * inodes,
            directories: 0,
        }
    }

    /// A group that is about to be used.
    fn group(&mut self, at: usize) -> &mut Group {
        let (size, taken, whole) = (self.size, self.taken, self.fs_type.whole());
        self.groups[at].get_or_insert_with(|| {
            let mut free = vec![whole; size as usize];
            free[..taken as usize].fill(0);
            Box::new(Group {
                free,
                free_blocks: size - taken,
                unused: 0,
                given_back: Vec::new(),
                directories: 0,
                rotor: 0,
            })
        })
    }

    /// The block that says what of a group is free.
    pub fn map_of(&self, group: u32) -> u64 {
        u64::from(group) * self.size * self.fs_type.fragments()
    }

    /// The block that an inode lies in.
    pub fn inode_block(&self, seat: Seat) -> u64 {
        self.map_of(seat.group)
            + (1 + u64::from(seat.nth) / self.fs_type.inodes_a_block()) * self.fs_type.fragments()
    }

    pub fn group_of(&self, fragment: u64) -> u32 {
        (fragment / (self.size * self.fs_type.fragments())) as u32
    }

    /// The inode of a new directory: in the group with the fewest of those that have inodes enough; or in its parent's
    /// group, and anywhere when the root is its parent. The root comes first.
    pub fn seat_directory(&mut self, parent: Option<u32>) -> Option<Seat> {
        self.directories += 1;
        let count = self.groups.len() as u64;
        let at = match (self.fs_type.spread, parent) {
            (Spread::Fewest, _) => {
                let mean = self.free_inodes / count;
                let counts = |group: &Option<Box<Group>>| group.as_ref().map_or(0, |group| group.directories);
                let suits = |group: &&Option<Box<Group>>| self.inodes_of(group) >= mean.max(1);
                let fewest = self.groups.iter().filter(suits).map(counts).min()?;
                self.groups.iter().position(|group| counts(group) == fewest && suits(&group))?
            }
            (Spread::Anywhere, None) if self.directories == 1 => 0,
            (Spread::Anywhere, None) => (mix(self.directories) % count) as usize,
            (Spread::Anywhere, Some(parent)) => parent as usize,
        };
        let seat = self.seat_file(at as u32)?;
        self.group(seat.group as usize).directories += 1;
        Some(seat)
    }

    /// The inode of a new file: in its directory's group, or where there is one.
    pub fn seat_file(&mut self, wanted: u32) -> Option<Seat> {
        let at = self.search(wanted, |space, group| space.inodes_of(group) > 0)?;
        self.free_inodes -= 1;
        let group = self.group(at);
        let nth = match group.given_back.pop() {
            Some(nth) => nth,
            None => {
                group.unused += 1;
                group.unused - 1
            }
        };
        Some(Seat { group: at as u32, nth })
    }

    /// Free inodes of a group.
    fn inodes_of(&self, group: &Option<Box<Group>>) -> u64 {
        let inodes = u64::from(self.inodes);
        group
            .as_ref()
            .map_or(inodes, |group| inodes - u64::from(group.unused) + group.given_back.len() as u64)
    }

    pub fn leave(&mut self, seat: Seat) {
        self.group(seat.group as usize).given_back.push(seat.nth);
        self.free_inodes += 1;
    }

    /// A whole block: behind `after` if it is free, else in the group of choice, else where there is one.
    pub fn take_block(&mut self, after: Option<u64>, group: u32) -> Option<u64> {
        let (fragments, whole) = (self.fs_type.fragments(), self.fs_type.whole());
        if let Some(next) = after.map(|after| after + fragments) {
            let (at, block) = self.at(next);
            if at < self.groups.len() && self.group(at).free[block] == whole {
                return Some(self.take_whole(at, block));
            }
        }
        let has_blocks =
            |_: &Space, group: &Option<Box<Group>>| group.as_ref().is_none_or(|group| group.free_blocks > 0);
        let at = self.search(group, has_blocks)?;
        let Group { free, rotor, .. } = self.group(at);
        let first = |blocks: &[u8]| blocks.iter().position(|bits| *bits == whole);
        let block = first(&free[*rotor..]).map(|nth| nth + *rotor).or_else(|| first(&free[..*rotor]))?;
        Some(self.take_whole(at, block))
    }

    fn take_whole(&mut self, at: usize, block: usize) -> u64 {
        let group = self.group(at);
        group.free[block] = 0;
        group.free_blocks -= 1;
        group.rotor = block;
        (at as u64 * self.size + block as u64) * self.fs_type.fragments()
    }

    /// Some fragments of one block, from one that is already broken if possible.
    pub fn take_fragments(&mut self, count: u64, group: u32) -> Option<u64> {
        let (fragments, whole) = (self.fs_type.fragments(), self.fs_type.whole());
        let fits = |bits: u8| bits != whole && first_run(bits, count, fragments).is_some();
        let broken = self.group(group as usize).free.iter().position(|bits| fits(*bits));
        let (at, block) = match broken {
            Some(block) => (group as usize, block),
            None => {
                let fragment = self.take_block(None, group)?;
                let (at, block) = self.at(fragment);
                self.group(at).free[block] = whole;
                (at, block)
            }
        };
        let free = &mut self.group(at).free[block];
        let first = first_run(*free, count, fragments)?;
        *free &= !mask(first, count);
        Some((at as u64 * self.size + block as u64) * fragments + first)
    }

    /// Gives back fragments of one block.
    pub fn give(&mut self, fragment: u64, count: u64) {
        let (at, block) = self.at(fragment);
        let bits = mask(fragment % self.fs_type.fragments(), count);
        let whole = self.fs_type.whole();
        let group = self.group(at);
        debug_assert_eq!(group.free[block] & bits, 0, "given back twice");
        group.free[block] |= bits;
        group.free_blocks += u64::from(group.free[block] == whole);
    }

    /// The group that a fragment lies in, and which of its blocks.
    fn at(&self, fragment: u64) -> (usize, usize) {
        (self.group_of(fragment) as usize, (fragment / self.fs_type.fragments() % self.size) as usize)
    }

    /// The group of choice, others at growing distances, then all in turn.
    fn search(&self, wanted: u32, suits: impl Fn(&Space, &Option<Box<Group>>) -> bool) -> Option<usize> {
        let count = self.groups.len();
        let wanted = wanted as usize % count;
        let doubling = (0..usize::BITS).map(|power| 1usize << power).take_while(|step| *step < count);
        let mut near = std::iter::once(0).chain(doubling);
        let suits = |step: &usize| suits(self, &self.groups[(wanted + step) % count]);
        let found = near.find(&suits).or_else(|| (0..count).find(&suits));
        found.map(|step| (wanted + step) % count)
    }

    /// Bytes that are free.
    #[cfg(test)]
    pub fn free(&self) -> u64 {
        let fragments = |group: &Option<Box<Group>>| match group {
            Some(group) => group.free.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>(),
            None => (self.size - self.taken) * self.fs_type.fragments(),
        };
        self.groups.iter().map(fragments).sum::<u64>() * self.fs_type.fragment
    }
}

fn mask(first: u64, count: u64) -> u8 {
    (((1u16 << count) - 1) << first) as u8
}

/// Where `count` free fragments lie side by side.
fn first_run(bits: u8, count: u64, fragments: u64) -> Option<u64> {
    (0..=fragments - count).find(|first| bits & mask(*first, count) == mask(*first, count))
}

#[cfg(test)]
mod tests {
    use super::super::fs_type::UFS;
    use super::*;
    use proptest::prelude::*;

    const FRAGMENTS: u64 = 8;

    /// 64 MB in groups of four.
    fn space() -> Space {
        Space::new(64 << 20, FsType { group: 4 << 20, ..UFS })
    }

    #[test]
    fn blocks_of_a_file_follow_each_other() {
        let mut space = space();
        let seat = space.seat_file(3).unwrap();
        let first = space.take_block(None, seat.group).unwrap();
        assert_eq!(space.group_of(first), 3);
        assert!(first > space.inode_block(seat));
        assert_eq!(space.take_block(Some(first), seat.group), Some(first + FRAGMENTS));
    }

    #[test]
    fn directories_are_spread() {
        let mut space = space();
        let groups: Vec<u32> = (0..16).map(|_| space.seat_directory(None).unwrap().group).collect();
        let mut sorted = groups.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 16, "{groups:?}");
    }

    proptest! {
        /// Nothing is given to two, all that is given back is free again, and a full disk says so.
        #[test]
        fn space_is_kept_account_of(turns in proptest::collection::vec((0u64..9, 0u32..16, any::<bool>()), 1..400)) {
            let mut space = space();
            let whole = space.free();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (count, group, keep) in turns {
                let taken = match count {
                    0 | 8 => space.take_block(held.last().filter(|(_, n)| *n == 8).map(|(at, _)| *at), group)
                        .map(|at| (at, 8)),
                    count => space.take_fragments(count, group).map(|at| (at, count)),
                };
                let Some(taken) = taken else { continue };
                let apart = |other: &(u64, u64)| taken.0 >= other.0 + other.1 || other.0 >= taken.0 + taken.1;
                prop_assert!(held.iter().all(apart));
                held.push(taken);
                if !keep {
                    let (at, count) = held.swap_remove(held.len() / 2);
                    space.give(at, count);
                }
                let used: u64 = held.iter().map(|(_, count)| count * UFS.fragment).sum();
                prop_assert_eq!(space.free() + used, whole);
            }
            held.into_iter().for_each(|(at, count)| space.give(at, count));
            prop_assert_eq!(space.free(), whole);
            prop_assert!(space.groups.iter().flatten().all(|group| group.free_blocks ==
                group.free.iter().filter(|bits| **bits == 0xff).count() as u64));
        }
    }
}
