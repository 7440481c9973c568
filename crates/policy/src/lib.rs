//! Who stays in a cache of so many bytes, for the proxy and the laboratory alike: replacement policies, and samples of what they
//! are asked for.
//!
//! Read upward: each part uses only those above it in this list (`cargo xtask deps` and a test hold that).

pub mod collections;
pub mod lookup;
pub mod mix;
pub mod replacement;
pub mod sample;
pub mod shadow;
