//! What the end-to-end tests share: the running program, a client, an origin, the workload and the model.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub mod browser;
pub mod client;
pub mod content;
pub mod model;
pub mod origin;
pub mod program;
pub mod random;
pub mod service;
pub mod trace;

use std::time::Duration;

/// No step of a test takes longer on a machine that works.
pub const SOON: Duration = Duration::from_secs(30);
