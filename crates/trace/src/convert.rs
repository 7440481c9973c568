//! From one format to another.

use crate::{Access, Format, Source};
use std::collections::HashMap;
use std::io::Write;

/// Writes all that `open` gives as `format`; how many requests, and what they came from. Where the format says when an object is asked for again,
/// the trace is opened and read twice. An error is one line.
pub fn convert<R: Requests>(
    mut open: impl FnMut() -> Result<R, String>,
    format: &Format,
    into: &mut dyn Write,
) -> Result<(u64, R), String> {
    let mut writer = (format.writer)();
    let nexts = if writer.wants_next() { nexts(&mut open()?)? } else { Vec::new() };
    let mut bytes = Vec::new();
    writer.header(&mut bytes);
    let (mut source, mut access, mut count) = (open()?, Access::default(), 0);
    while source.next(&mut access)? {
        let next = nexts.get(count as usize).copied().filter(|next| *next != NEVER);
        writer.write(&access, next, &mut bytes);
        count += 1;
        if bytes.len() > 64 << 10 {
            into.write_all(&bytes).map_err(|e| e.to_string())?;
            bytes.clear();
        }
    }
    into.write_all(&bytes).and_then(|()| into.flush()).map_err(|e| e.to_string())?;
    Ok((count, source))
}

/// What gives requests, one after the other.
pub trait Requests {
    /// False at the end. An error is one line.
    fn next(&mut self, access: &mut Access) -> Result<bool, String>;

    /// Before the first request: only objects for which this holds matter. What has to remember objects need remember no others. Requests
    /// for those that matter stay the same and at their places, but may lack a directory; each of the others may come as one
    /// for another of the others.
    fn only(&mut self, _matters: Matters) {}
}

/// Whether an object matters.
pub type Matters = Box<dyn Fn(u64) -> bool>;

impl Requests for Source {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        Source::next(self, access)
    }
}

const NEVER: u64 = u64::MAX;

/// For each request the number of the next one of its object.
fn nexts(source: &mut impl Requests) -> Result<Vec<u64>, String> {
    let (mut last, mut nexts, mut access) = (HashMap::new(), Vec::new(), Access::default());
    while source.next(&mut access)? {
        let number = nexts.len();
        if let Some(before) = last.insert(access.object, number) {
            nexts[before] = number as u64;
        }
        nexts.push(NEVER);
    }
    Ok(nexts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::named;
    use std::io::Cursor;

    #[test]
    fn the_next_request_of_an_object_is_known() {
        let lines = "time,url,size\n1,/a,5\n2,/b,6\n3,/a,5\n4,/a,5\n";
        let csv = named("csv").unwrap();
        let open = || Source::of(Box::new(Cursor::new(lines)), csv).map_err(|e| e.to_string());
        let mut bytes = Vec::new();
        let (count, _) = convert(open, named("oracle-general").unwrap(), &mut bytes).unwrap();
        assert_eq!(count, 4);
        let nexts: Vec<i64> =
            bytes.chunks(24).map(|record| i64::from_le_bytes(record[16..].try_into().unwrap())).collect();
        assert_eq!(nexts, [2, -1, 3, -1]);
    }
}
