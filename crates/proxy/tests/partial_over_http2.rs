//! The tests of `partial.rs`, asked by HTTP/2 (`support::bridge`).

#[path = "partial.rs"]
mod same;
