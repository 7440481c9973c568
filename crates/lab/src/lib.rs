//! The laboratory: a trace goes through the papers' two caches, and what they ask of the disk through storage policies.
//!
//! Read upward: each part uses only those above it in this list (`cargo xtask deps` and a test hold that).

// Ground: what is replayed.
pub mod input;
pub mod notes;
pub mod object;
pub mod object_cache;
mod response;
pub mod scale;
// What a device is asked for, and what carries it out.
pub mod block;
pub mod medium;
// Hits alone.
pub mod simulate;
// Where objects lie, and the storage policies made of all this.
pub mod layout;
pub mod recipe;
pub mod storage;
// A trace through a recipe; what is kept of it and how it is compared.
pub mod replay;
pub mod results;
// What is replayed for whom, and how it is shown.
pub mod experiments;
pub mod report;
// The production store filled, without a trace.
pub mod fill;
// Bandwidth smoothing, day after day, in a synthetic world.
pub mod smooth;
