//! The access log: a line for each request, when its response has ended.
//!
//! Workers write lines into buffers of their own, which are bounded and wait for nobody (`buffers`); a thread takes them and
//! writes them out (`writer`), to a file that it keeps small, to standard output, or to a log daemon (`sink`). A line is made of
//! the fields of one table (`field`), as a format says (`format`).

mod buffers;
mod field;
mod format;
mod mask;
mod writer;

pub use field::list as field_list;
pub use format::Format;
pub use mask::Mask;
pub use writer::AccessLog;

use self::field::Entry;
use crate::sink::{Rotation, To};
use cache::Item;
use jiff::Timestamp;
use proxy::Transaction;
use std::time::Duration;

/// What is logged, how, and where to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `None`: nothing is logged.
    pub to: Option<To>,
    pub format: Format,
    pub mask: Mask,
    /// One request in so many is logged, by chance; at least 1.
    pub one_in: u64,
    pub rotation: Rotation,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            to: None,
            format: Format::COMBINED.parse().expect("a format"),
            mask: Mask::default(),
            one_in: 1,
            rotation: Rotation::default(),
        }
    }
}

/// Lines of JSON, for those who watch.
pub struct Lines {
    format: Format,
    mask: Mask,
    item: Item,
    is_forward: bool,
}

impl Lines {
    /// `pseudonym` is what Cache-Status calls this cache.
    pub fn new(settings: &Settings, pseudonym: &str, is_forward: bool) -> Lines {
        let format = Format::JSON.parse().expect("a format");
        Lines { format, mask: settings.mask, item: Item::new(pseudonym), is_forward }
    }

    /// Adds that of a request which ends now.
    pub fn add(&self, transaction: &Transaction, to: &mut Vec<u8>) {
        let Lines { format, mask, item, is_forward } = self;
        // JSON has the time in UTC alone.
        let (ended, local) = (Timestamp::now(), "");
        format.write(&Entry { transaction, ended, local, mask: *mask, item, is_forward: *is_forward }, to);
    }
}

/// Bytes of lines on their way from so many workers: those that wait, and those that are being written.
pub fn memory(workers: u64) -> u64 {
    2 * buffers::ROOM as u64 * workers.min(buffers::BUFFERS as u64)
}

/// How long a line waits at most before it is written.
pub const INTERVAL: Duration = Duration::from_millis(100);
