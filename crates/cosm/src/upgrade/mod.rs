//! SIGUSR2: another process, of the program as it is on disk now, takes over all of this one's work. docs/upgrade.md draws the steps.

mod channel;
mod predecessor;
mod successor;

pub use channel::Word;
pub use predecessor::Upgrade;
pub use successor::Successor;

/// The environment's name for the process whose work is taken over, which the standard input leads to.
const OF: &str = "COSM_UPGRADE_OF";
