//! Where a filesystem puts things: cylinder groups, blocks of 8 KB, fragments of 1 KB (McKusick and others, 1984).

/// Bytes.
pub const FRAGMENT: u64 = 1024;
pub const BLOCK: u64 = 8192;
pub const FRAGMENTS: u64 = BLOCK / FRAGMENT;
/// Bytes of an inode, and of disk for each.
const INODE: u64 = 128;
const PER_INODE: u64 = 8192;
pub const INODES_A_BLOCK: u64 = BLOCK / INODE;

/// The groups of one filesystem. Addresses are fragments from the disk's beginning.
pub struct Space {
    groups: Vec<Group>,
    /// Blocks of a group.
    size: u64,
}

struct Group {
    /// A bit for each free fragment of each block.
    free: Vec<u8>,
    free_blocks: u64,
    free_inodes: Vec<u32>,
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
    /// For a disk of `bytes`, in groups of `group` bytes.
    pub fn new(bytes: u64, group: u64) -> Space {
        let size = group / BLOCK;
        let inodes = (group / PER_INODE).next_multiple_of(INODES_A_BLOCK);
        let taken = 1 + inodes / INODES_A_BLOCK;
        let count = bytes / (size * BLOCK);
        let one = |_| {
            let mut free = vec![0xff; size as usize];
            free[..taken as usize].fill(0);
            Group {
                free,
                free_blocks: size - taken,
                free_inodes: (0..inodes as u32).rev().collect(),
                directories: 0,
                rotor: 0,
            }
        };
        Space { groups: (0..count).map(one).collect(), size }
    }

    /// The block that says what of a group is free.
    pub fn map_of(&self, group: u32) -> u64 {
        u64::from(group) * self.size * FRAGMENTS
    }

    /// The block that an inode lies in.
    pub fn inode_block(&self, seat: Seat) -> u64 {
        self.map_of(seat.group) + (1 + u64::from(seat.nth) / INODES_A_BLOCK) * FRAGMENTS
    }

    pub fn group_of(&self, fragment: u64) -> u32 {
        (fragment / (self.size * FRAGMENTS)) as u32
    }

    /// The inode of a new directory: in the group with the fewest of those that have inodes enough.
    pub fn seat_directory(&mut self) -> Option<Seat> {
        let mean = self.groups.iter().map(|group| group.free_inodes.len()).sum::<usize>() / self.groups.len();
        let suits = |group: &&Group| group.free_inodes.len() >= mean.max(1);
        let fewest = self.groups.iter().filter(suits).map(|group| group.directories).min()?;
        let at = self.groups.iter().position(|group| group.directories == fewest && suits(&group))?;
        self.groups[at].directories += 1;
        self.seat_in(at)
    }

    /// The inode of a new file: in its directory's group, or where there is one.
    pub fn seat_file(&mut self, wanted: u32) -> Option<Seat> {
        let at = self.search(wanted, |group| !group.free_inodes.is_empty())?;
        self.seat_in(at)
    }

    fn seat_in(&mut self, at: usize) -> Option<Seat> {
        let nth = self.groups[at].free_inodes.pop()?;
        Some(Seat { group: at as u32, nth })
    }

    pub fn leave(&mut self, seat: Seat) {
        self.groups[seat.group as usize].free_inodes.push(seat.nth);
    }

    /// A whole block: behind `after` if it is free, else in the group of choice, else where there is one.
    pub fn take_block(&mut self, after: Option<u64>, group: u32) -> Option<u64> {
        if let Some(next) = after.map(|after| after + FRAGMENTS) {
            let (at, block) = (self.group_of(next) as usize, (next / FRAGMENTS % self.size) as usize);
            if self.groups.get(at).is_some_and(|group| group.free[block] == 0xff) {
                return Some(self.take_whole(at, block));
            }
        }
        let at = self.search(group, |group| group.free_blocks > 0)?;
        let rotor = self.groups[at].rotor;
        let free = &self.groups[at].free;
        let whole = |blocks: &[u8]| blocks.iter().position(|bits| *bits == 0xff);
        let block = whole(&free[rotor..]).map(|nth| nth + rotor).or_else(|| whole(&free[..rotor]))?;
        Some(self.take_whole(at, block))
    }

    fn take_whole(&mut self, at: usize, block: usize) -> u64 {
        let group = &mut self.groups[at];
        group.free[block] = 0;
        group.free_blocks -= 1;
        group.rotor = block;
        (at as u64 * self.size + block as u64) * FRAGMENTS
    }

    /// Some fragments of one block, from one that is already broken if possible.
    pub fn take_fragments(&mut self, count: u64, group: u32) -> Option<u64> {
        let fits = |bits: u8| bits != 0xff && first_run(bits, count).is_some();
        let broken = self.groups[group as usize].free.iter().position(|bits| fits(*bits));
        let (at, block) = match broken {
            Some(block) => (group as usize, block),
            None => {
                let fragment = self.take_block(None, group)?;
                let (at, block) =
                    (self.group_of(fragment) as usize, (fragment / FRAGMENTS % self.size) as usize);
                self.groups[at].free[block] = 0xff;
                (at, block)
            }
        };
        let first = first_run(self.groups[at].free[block], count)?;
        self.groups[at].free[block] &= !mask(first, count);
        Some((at as u64 * self.size + block as u64) * FRAGMENTS + first)
    }

    /// Gives back fragments of one block.
    pub fn give(&mut self, fragment: u64, count: u64) {
        let (at, block) = (self.group_of(fragment) as usize, (fragment / FRAGMENTS % self.size) as usize);
        let bits = mask(fragment % FRAGMENTS, count);
        let group = &mut self.groups[at];
        debug_assert_eq!(group.free[block] & bits, 0, "given back twice");
        group.free[block] |= bits;
        group.free_blocks += u64::from(group.free[block] == 0xff);
    }

    /// The group of choice, others at growing distances, then all in turn.
    fn search(&self, wanted: u32, suits: impl Fn(&Group) -> bool) -> Option<usize> {
        let count = self.groups.len();
        let wanted = wanted as usize % count;
        let doubling = (0..usize::BITS).map(|power| 1usize << power).take_while(|step| *step < count);
        let mut near = std::iter::once(0).chain(doubling);
        let found = near.find(|step| suits(&self.groups[(wanted + step) % count]));
        let found = found.or_else(|| (0..count).find(|step| suits(&self.groups[(wanted + step) % count])));
        found.map(|step| (wanted + step) % count)
    }

    /// Bytes that are free.
    #[cfg(test)]
    pub fn free(&self) -> u64 {
        let fragments =
            |group: &Group| group.free.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        self.groups.iter().map(fragments).sum::<u64>() * FRAGMENT
    }
}

fn mask(first: u64, count: u64) -> u8 {
    (((1u16 << count) - 1) << first) as u8
}

/// Where `count` free fragments lie side by side.
fn first_run(bits: u8, count: u64) -> Option<u64> {
    (0..=FRAGMENTS - count).find(|first| bits & mask(*first, count) == mask(*first, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DISK: u64 = 64 << 20;

    #[test]
    fn blocks_of_a_file_follow_each_other() {
        let mut space = Space::new(DISK, 4 << 20);
        let seat = space.seat_file(3).unwrap();
        let first = space.take_block(None, seat.group).unwrap();
        assert_eq!(space.group_of(first), 3);
        assert!(first > space.inode_block(seat));
        assert_eq!(space.take_block(Some(first), seat.group), Some(first + FRAGMENTS));
    }

    #[test]
    fn directories_are_spread() {
        let mut space = Space::new(DISK, 4 << 20);
        let groups: Vec<u32> = (0..16).map(|_| space.seat_directory().unwrap().group).collect();
        let mut sorted = groups.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 16, "{groups:?}");
    }

    proptest! {
        /// Nothing is given to two, all that is given back is free again, and a full disk says so.
        #[test]
        fn space_is_kept_account_of(turns in proptest::collection::vec((0u64..9, 0u32..16, any::<bool>()), 1..400)) {
            let mut space = Space::new(DISK, 4 << 20);
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
                let used: u64 = held.iter().map(|(_, count)| count * FRAGMENT).sum();
                prop_assert_eq!(space.free() + used, whole);
            }
            held.into_iter().for_each(|(at, count)| space.give(at, count));
            prop_assert_eq!(space.free(), whole);
            prop_assert!(space.groups.iter().all(|group| group.free_blocks ==
                group.free.iter().filter(|bits| **bits == 0xff).count() as u64));
        }
    }
}
