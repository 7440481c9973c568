//! One budget for bytes in transit: what of requests and responses is in memory beyond what each connection has anyway.
//!
//! It is divided into three pools, so that who sends heads without end takes nothing from those who read. A pool is used up by
//! degrees. Until a third of it is taken windows grow, until five eighths bodies are kept, until three quarters small ones; those that
//! begin later pass. Until half of it is taken whoever wants more
//! gets it; later a body has the least with which it moves. At the end those who begin wait until others end, and as long as an
//! origin or a client may stall, or a disk be late. What moves is not broken off; clients that hardly take or send anything make way
//! while others wait (`client::relieve`).
//!
//! | pool | what is taken from it | when it is used up |
//! |---|---|---|
//! | `heads` | a request's or a response's head beyond the first `HEAD` bytes; of HTTP/2, a request beside others of its connection, until its response has gone | the rest of the head is not read, until its timeout; the request waits |
//! | `origins` | a body from an origin of more than `SMALL` bytes, or of unknown length: its window, and the span that is gathered for the store; a request's content; a large window of HTTP/2; a smaller body that its client does not take | windows stay at `FLOOR`, bodies pass without being kept, then those of more than `HELD_ANYWAY` bytes are read one after the other |
//! | `disk` | what was read from the disk for a response | spans are shared and copied out in small pieces, then responses wait for the disk's patience and come from the origin |
//!
//! Of `origins` one client's address has no more than half, beside windows while there is plenty ([`Shares`]), and its large heads and
//! streams of HTTP/2 no more than half of `heads`: who has that waits, others do not. Where a pool is used up, what comes back goes to the address that holds least of it, to the one that waits for
//! longest, and to claims with which no address is charged (clients of proxies in `trust` and on Unix sockets, repairs, objects
//! that are read whole), by turns ([`pool`]). Content and response of
//! one exchange have one lease. What a body took it keeps until its last byte has gone to the client.
//!
//! A hit in memory takes nothing: its bytes are the memory tier's, also when they have left it (`tiers::lent`). A connection has
//! one response at a time that its client does not take: requests behind it wait, so that answers without content do not
//! gather. What it has anyway, beside its buffers, is `HELD_ANYWAY` bytes of that response.

mod clients;
mod pool;

pub use self::clients::{ClientsClaim, Shares};
pub use self::pool::{Allowance, Claim, Lease};

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

/// Bytes of a request's head that are part of what a connection has anyway.
pub const HEAD: usize = 8 << 10;

/// Bytes of a body that are part of what a connection has anyway.
pub const HELD_ANYWAY: usize = 16 << 10;

/// Bytes of a body for which nothing is taken before its client proves slow, as long as there is enough.
pub const SMALL: usize = 64 << 10;

/// The least that a body from an origin takes while it moves: a small window, and what the two connections hold of it.
pub const FLOOR: usize = 96 << 10;

/// The least budget: a few bodies of each kind at a time, bytes.
const LEAST: u64 = 8 << 20;

/// What a large head takes, bytes: the buffer that it lies in grows by doubling, and it goes on to an origin.
pub fn of_head(head_max: usize) -> usize {
    4 * head_max
}

/// The least budget with heads of so many bytes at most.
pub fn least(head_max: usize) -> u64 {
    LEAST.max(8 * of_head(head_max) as u64)
}

/// Memory that somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Bodies,
    Heads,
}

impl Wanted {
    pub const ALL: [Wanted; 2] = [Wanted::Bodies, Wanted::Heads];
}

/// Whose requests make way, since others wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Whose {
    All,
    /// Of these clients alone, which wait for what is theirs.
    Of(HashSet<IpAddr>),
}

impl Whose {
    pub fn has(&self, client: Option<IpAddr>) -> bool {
        match self {
            Whose::All => true,
            Whose::Of(all) => client.is_some_and(|client| all.contains(&clients::network(client))),
        }
    }
}

#[derive(Clone)]
pub struct Budget {
    /// Bytes of memory for all of the process, of which this is a part.
    pub total: u64,
    pub heads: Allowance,
    pub origins: Allowance,
    pub disk: Allowance,
    /// What each client has of `origins`, of `disk`, and of `heads`; of the last for responses apart, since requests that have all of
    /// their share wait for them.
    pub clients: Arc<Shares>,
    pub readers: Arc<Shares>,
    pub askers: Arc<Shares>,
    pub answered: Arc<Shares>,
}

impl Budget {
    /// Who has to end for those who wait for this, if anybody does.
    pub fn makes_way(&self, wanted: Wanted) -> Option<Whose> {
        let (pools, shares): (&[_], &[_]) = match wanted {
            Wanted::Bodies => (&[&self.origins, &self.disk], &[&self.clients, &self.readers]),
            Wanted::Heads => (&[&self.heads], &[&self.askers]),
        };
        if pools.iter().any(|pool| pool.is_waited_for()) {
            return Some(Whose::All);
        }
        let of: HashSet<_> = shares.iter().flat_map(|shares| shares.waited_for()).collect();
        (!of.is_empty()).then_some(Whose::Of(of))
    }

    /// Of no pool of bodies more than half is taken.
    pub fn is_ample(&self) -> bool {
        self.origins.is_ample() && self.disk.is_ample()
    }

    /// Of so many bytes, `LEAST` at least, of `total`.
    pub fn new(bytes: u64, total: u64) -> Budget {
        let eighth = usize::try_from(bytes.max(LEAST) / 8).unwrap_or(usize::MAX >> 16);
        let (origins, disk) = (Allowance::new(4 * eighth), Allowance::new(3 * eighth));
        let clients = Arc::new(Shares::new(origins.size() / 2));
        // Only for whose turn it is: pieces are small, and spans are shared.
        let readers = Arc::new(Shares::new(disk.size()));
        let heads = Allowance::new(eighth);
        let [askers, answered] = [2, 4].map(|part| Arc::new(Shares::new(heads.size() / part)));
        Budget { total, heads, origins, disk, clients, readers, askers, answered }
    }
}
