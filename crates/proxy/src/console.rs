//! Lines on standard error, for who started the proxy: what comes of that, and what cannot be told otherwise. What happens later is
//! an event of the error log (`tracing`).

use std::fmt::Display;
use std::io::{self, Write};

/// A line on standard error. That nobody reads it any more is no reason to stop.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "cosm: {line}");
}
