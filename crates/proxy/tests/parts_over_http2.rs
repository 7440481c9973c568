//! The tests of `parts.rs`, asked by HTTP/2 (`support::bridge`).

#[path = "parts.rs"]
mod same;
