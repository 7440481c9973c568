//! What goes to standard output. Its reader may leave before the end, as `head` does: the rest is for nobody, and no failure.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};

/// As `println!`.
macro_rules! line {
    ($($words:tt)*) => { crate::out::write(format_args!($($words)*)) };
}

pub fn write(line: Arguments) {
    match writeln!(stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            proxy::say(format_args!("standard output: {error}"));
            std::process::exit(1);
        }
        _ => {}
    }
}
