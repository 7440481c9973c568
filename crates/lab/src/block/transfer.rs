//! What a block device is asked for.

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// Milliseconds.
pub type Millis = f64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Read,
    Write,
}

/// Contiguous sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub way: Way,
    pub sector: u64,
    pub count: u64,
}

impl Transfer {
    pub fn bytes(&self) -> u64 {
        self.count * SECTOR as u64
    }

    pub fn end(&self) -> u64 {
        self.sector + self.count
    }
}
