//! Policies: what is let in and who goes. One file each; a new one stands beside these.

pub mod fbc;
pub mod threshold;

pub use fbc::Fbc;
pub use threshold::Threshold;

/// Decides whether an object is stored at all.
pub trait Admission: Send + Sync {
    /// `length` is the body's, in bytes: the whole one's when it is known, else what has arrived so far.
    fn admits(&self, length: u64) -> bool;
}

/// Decides what the sweep does with an object it meets.
pub trait Replacement: Send + Sync {
    /// True when the sweep skips an object with this many references.
    fn survives(&self, count: u8) -> bool;
    /// True when all counts are due to be halved.
    fn ages(&self, objects: u64, references: u64) -> bool;
}
