//! The tests of `keys.rs`, asked by HTTP/2 (`support::bridge`).

#[path = "keys.rs"]
mod same;
