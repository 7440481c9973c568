//! HTTP messages without a connection: targets, fields, lengths, and refusals. Nothing here waits or knows a client.

pub mod fields;
pub mod hops;
pub mod interim;
pub mod length;
pub mod pieces;
pub mod refusal;
pub mod target;
