//! The laboratory: a trace goes through the papers' two caches, and what they ask of the disk through storage policies.
//!
//! What misses the cache in memory (`pipeline`) goes to a storage policy (`recipe`, `storage`), which lays objects out
//! (`layout`) on a medium (`medium`); `replay` measures it, `watch` looks on. `figures` are the papers' curves and pictures,
//! `saved` keeps what was found, `report` shows it.

pub mod content;
pub mod figures;
pub mod input;
pub mod layout;
mod lru;
pub mod medium;
pub mod pipeline;
pub mod recipe;
pub mod replay;
pub mod report;
pub mod saved;
pub mod storage;
pub mod watch;

pub use recipe::Recipe;
pub use replay::Row;
