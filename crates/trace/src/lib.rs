//! What an access record is, one file for each trace format, and synthetic workloads.
//!
//! A trace larger than memory streams: nothing here holds more than one record, but for what `statistics` counts.

mod access;
pub mod convert;
pub mod format;
pub mod inventory;
pub mod random;
mod source;
pub mod statistics;
pub mod synthetic;
pub mod world;

pub use access::{Access, Method, Unusable, hash, host, host_and_port, is_harmless, spelling};
pub use convert::{Matters, Requests};
pub use format::{ALL, Format};
pub use source::{Faults, Source, line, unpacked};
