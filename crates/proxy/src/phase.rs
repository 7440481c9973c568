//! What a proxy is doing: it serves, stops, or hands over to another process.
//!
//! ```text
//! serves ⇄ holds → moves → (ended)
//!    └────────┴──────┴──→ stops → (ended)
//! ```

use bytes::Bytes;
use std::os::fd::OwnedFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Serves,
    /// No connection is accepted and no request begun: they wait for whoever will serve them. What is under way goes on.
    Holds,
    /// The successor accepts. Connections go over to it as soon as they have no request under way.
    Moves,
    Stops(Stop),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// What is under way has the drain time, tunnels less.
    Soon,
    /// What is under way may end, tunnels too.
    Gracefully,
}

/// A client's connection on its way to another process: its socket, and what was read and not answered.
pub struct Moved {
    pub socket: OwnedFd,
    pub read: Bytes,
}
