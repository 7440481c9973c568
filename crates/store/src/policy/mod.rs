//! Policies: what is let in. One file each; a new one stands beside these.

pub mod threshold;

pub use threshold::Threshold;

/// Decides whether an object is stored at all.
pub trait Admission: Send + Sync {
    /// `length` is the body's, in bytes: the whole one's when it is known, else what has arrived so far.
    fn admits(&self, length: u64) -> bool;
}
