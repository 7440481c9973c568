//! What filesystems do differently, as data.

use crate::block::Millis;

/// How a filesystem goes about it.
#[derive(Clone, Copy, Debug)]
pub struct FsType {
    /// Bytes of a block, which is a page of memory, too, and of the fragments that the end of a small file may take: a
    /// block has at most eight.
    pub block: u64,
    pub fragment: u64,
    /// Bytes of a group, of an inode, and of disk for each inode.
    pub group: u64,
    pub inode: u64,
    pub per_inode: u64,
    pub spread: Spread,
    pub names: Names,
    pub metadata: Metadata,
    /// Whether blocks of a file are found by extents, which lie in its inode, else by blocks of addresses.
    pub extents: bool,
    /// A large file goes on in another group after so many blocks.
    pub blocks_a_group: usize,
    pub writing: Writing,
    /// Pages of a file that the daemon, which looks at a sixth of all every five seconds, sees as one.
    pub stretch: u64,
}

/// Where directories go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// To the group with the fewest.
    Fewest,
    /// Those of the root anywhere, others to their parent's group (Orlov).
    Anywhere,
}

/// How a name is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// One after the other.
    Listed,
    /// By a hash of it, in one block.
    Hashed,
}

/// When inodes and directories are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// At once: an inode when it is made, gets a block of data or gives all up, a directory when a name comes or goes, and
    /// its inode when one comes. Of these, the last and that of a new block are what HBENCH's times ask for.
    Now,
    /// To a journal of so many bytes, every five seconds; to their own places within thirty.
    Logged(u64),
}

/// When whole pages are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Writing {
    /// In clusters, as soon as one is whole; of a large file only so many bytes wait before, and after, its writer is let go
    /// on.
    Clusters { cluster: u64, high: u64, low: u64 },
    /// Within thirty seconds, or when they take more than the first share of memory; whoever writes while more than the
    /// second share waits for the device waits, too.
    Aged { background: f64, most: f64 },
}

/// Solaris' UFS.
pub const UFS: FsType = FsType {
    block: 8192,
    fragment: 1024,
    group: 16 << 20,
    inode: 128,
    per_inode: 8192,
    spread: Spread::Fewest,
    names: Names::Listed,
    metadata: Metadata::Now,
    extents: false,
    blocks_a_group: 2048,
    writing: Writing::Clusters { cluster: 128 << 10, high: 384 << 10, low: 256 << 10 },
    stretch: 7,
};

/// ext4 as `mke2fs -T news` makes it for many small files, and as Linux mounts it: data=ordered, delayed allocation, shares of
/// dirty memory 10 and 20 %.
pub const EXT4: FsType = FsType {
    block: 4096,
    fragment: 4096,
    group: 128 << 20,
    inode: 256,
    per_inode: 4096,
    spread: Spread::Anywhere,
    names: Names::Hashed,
    metadata: Metadata::Logged(64 << 20),
    extents: true,
    blocks_a_group: usize::MAX,
    writing: Writing::Aged { background: 0.1, most: 0.2 },
    stretch: u64::MAX,
};

/// The daemon looks this often, each time at this part of the pages.
pub const FLUSH_EVERY: Millis = 5_000.0;
pub const FLUSH_PARTS: u64 = 6;

impl FsType {
    /// Of a block.
    pub fn fragments(&self) -> u64 {
        self.block / self.fragment
    }

    /// The bits of a block that is free.
    pub fn whole(&self) -> u8 {
        ((1u16 << self.fragments()) - 1) as u8
    }

    pub fn inodes_a_block(&self) -> u64 {
        self.block / self.inode
    }

    /// Addresses that a block holds.
    pub fn addresses(&self) -> usize {
        self.block as usize / 4
    }

    /// Names that a block of a directory holds, of 20 bytes.
    pub fn names(&self) -> u64 {
        self.block / 20
    }
}
