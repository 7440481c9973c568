//! HTTP messages without a connection: targets, fields, lengths, refusals, and frames of HTTP/2. Nothing here waits or knows a client.

pub mod fields;
pub mod flood;
pub mod frames;
pub mod hops;
pub mod inflow;
pub mod interim;
pub mod length;
pub mod pieces;
pub mod refusal;
pub mod target;
