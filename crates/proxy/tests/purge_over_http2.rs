//! The tests of `purge.rs`, asked by HTTP/2 (`support::bridge`).

#[path = "purge.rs"]
mod same;
