//! Numbers as they are written, in rules and in messages.

use std::fmt::{self, Display, Formatter};

/// The shortest text that reads as the same number, without hundreds of zeros.
pub struct Number(pub f64);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Number(number) = *self;
        match number == 0.0 || (1e-5..1e15).contains(&number.abs()) {
            true => write!(f, "{number}"),
            false => write!(f, "{number:e}"),
        }
    }
}
