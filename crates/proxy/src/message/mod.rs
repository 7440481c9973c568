//! HTTP messages without a connection: targets, fields, framing, and refusals. Nothing here waits or knows a client.

pub mod fields;
pub mod framing;
pub mod hops;
pub mod interim;
pub mod length;
pub mod pieces;
pub mod refusal;
pub mod target;
