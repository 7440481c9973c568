//! Lists and heaps of many small things.

pub mod heap;
pub mod list;
pub mod lru;
