//! The tests of `cache.rs`, asked by HTTP/2 (`support::bridge`).

#[path = "cache.rs"]
mod same;
