//! What a proxy is doing: it serves, stops, or hands over to another process.
//!
//! ```text
//! serves ⇄ holds → moves → (ended)
//!    └────────┴──────┴──→ stops → (ended)
//! ```
//!
//! A process that takes over begins in `holds`.

use bytes::Bytes;
use std::os::fd::OwnedFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Serves,
    /// No connection is accepted and no request begun: they wait for whoever will serve them. What is under way goes on. By its
    /// number it is told from other times.
    Holds(u32),
    /// The successor accepts. Connections go over to it as soon as they have no request under way.
    Moves,
    Stops(Stop),
}

impl Phase {
    pub fn holds(self) -> bool {
        matches!(self, Phase::Holds(_))
    }
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
