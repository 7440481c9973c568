//! The trace formats: one row each, one file each. A format is added by its file and its row.

mod bu;
mod clf;
mod columns;
mod dec;
mod json;
mod oracle;
mod squid;

use crate::Access;

/// A trace format.
#[derive(Clone, Copy)]
pub struct Format {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether a file that begins so is of this format; asked in the order of `ALL`.
    pub begins: fn(&[u8]) -> bool,
    pub parser: fn() -> Box<dyn Parser>,
    pub writer: fn() -> Box<dyn Writer>,
}

pub const ALL: [Format; 9] = [
    dec::V2,
    dec::V1,
    oracle::FORMAT,
    bu::FORMAT,
    json::FORMAT,
    squid::FORMAT,
    clf::FORMAT,
    columns::TABS,
    columns::COMMAS,
];

/// How records follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Lines,
    /// All of one size, after a header; bytes.
    Records {
        header: usize,
        record: usize,
    },
}

/// Whether a record is a request that a shared cache would have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Yes,
    No,
}

pub trait Parser: Send {
    fn framing(&self) -> Framing {
        Framing::Lines
    }

    /// Fills a cleared `access` with what a record says. An error says why the record is malformed.
    fn parse(&mut self, record: &[u8], access: &mut Access) -> Result<Kept, String>;
}

pub trait Writer {
    /// What comes before the first record.
    fn header(&mut self, _into: &mut Vec<u8>) {}

    /// `next` is the number of the next record of the same object, if there is one.
    fn write(&mut self, access: &Access, next: Option<u64>, into: &mut Vec<u8>);

    /// Whether `next` is worth finding out, which takes another pass and eight bytes a record.
    fn wants_next(&self) -> bool {
        false
    }
}

/// The format of this name; an error lists all.
pub fn named(name: &str) -> Result<&'static Format, String> {
    ALL.iter().find(|format| format.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|format| format.name).collect();
        format!("there is no trace format `{name}`; there are {}", names.join(", "))
    })
}

/// Whether its traces say what a cache could store.
pub fn tells_cacheable(format: &Format) -> bool {
    format.name == json::FORMAT.name
}

/// The format of a file that begins so.
pub fn of_beginning(bytes: &[u8]) -> Option<&'static Format> {
    ALL.iter().find(|format| (format.begins)(bytes))
}

/// Whether a file that begins so has columns with names, but no sizes.
pub fn lacks_size(bytes: &[u8]) -> bool {
    columns::lacks_size(first_line(bytes))
}

/// The first line that is no comment, without its end.
fn first_line(bytes: &[u8]) -> &[u8] {
    lines(bytes).find(|line| !line.is_empty() && line[0] != b'#').unwrap_or_default()
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn number<T: std::str::FromStr>(text: &[u8], what: &str) -> Result<T, String> {
    let shown = || String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| format!("`{}` is no {what}", shown()))
}

/// Seconds with a fraction, in microseconds.
fn seconds(text: &[u8]) -> Result<u64, String> {
    let wrong = || format!("`{}` is no time", String::from_utf8_lossy(&text[..text.len().min(40)]));
    let (whole, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    let whole: u64 = number(whole, "time")?;
    let mut micros = 0;
    for place in 0..6 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return Err(wrong());
        }
        micros = micros * 10 + u64::from(digit - b'0');
    }
    whole.checked_mul(1_000_000).and_then(|time| time.checked_add(micros)).ok_or_else(wrong)
}

/// One line's fields between bytes of `separator`.
fn fields<const N: usize>(line: &[u8], separator: u8) -> Result<[&[u8]; N], String> {
    let mut found = [&[][..]; N];
    let mut all = line.split(|byte| *byte == separator);
    for (at, field) in found.iter_mut().enumerate() {
        *field = all.next().ok_or_else(|| format!("{at} fields where {N} should be"))?;
    }
    Ok(found)
}

/// Microseconds as seconds with a fraction.
fn write_seconds(time: u64, places: usize, into: &mut Vec<u8>) {
    let text = format!("{}.{:06}", time / 1_000_000, time % 1_000_000);
    into.extend_from_slice(&text.as_bytes()[..text.len() - 6 + places]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Source};
    use proptest::prelude::*;

    /// Reads all; the faults as they were noted.
    fn read(format: &Format, bytes: &[u8]) -> (Vec<Access>, u64) {
        let mut source = Source::of(Box::new(std::io::Cursor::new(bytes.to_vec())), format).unwrap();
        let (mut all, mut access) = (Vec::new(), Access::default());
        while source.next(&mut access).unwrap() {
            all.push(access.clone());
        }
        (all, source.faults().count)
    }

    fn written(format: &Format, all: &[Access]) -> Vec<u8> {
        let mut writer = (format.writer)();
        let mut bytes = Vec::new();
        writer.header(&mut bytes);
        all.iter().for_each(|access| writer.write(access, None, &mut bytes));
        bytes
    }

    prop_compose! {
        fn access()(seconds in 790_000_000u64..860_000_000, client in 1u64..50, server in 1u64..50, object in 1u64..200,
                    size in 1u64..1_000_000, modified in prop_oneof![Just(0), 700_000_000u64..790_000_000]) -> Access {
            Access {
                time: seconds * 1_000_000, client, server, object: server * 1000 + object, size, status: 200,
                method: Method::Get, dynamic: object % 5 == 0, modified, ..Access::default()
            }
        }
    }

    proptest! {
        /// What one format writes it reads again, as the same requests for the same objects.
        #[test]
        fn what_is_written_is_read(mut all in proptest::collection::vec(access(), 1..60)) {
            all.sort_by_key(|access| access.time);
            for format in &ALL {
                let bytes = written(format, &all);
                let (read, faults) = read(format, &bytes);
                prop_assert_eq!((read.len(), faults), (all.len(), 0), "{}", format.name);
                let same = |a: &[Access], at: usize, b: usize| a[at].object == a[b].object;
                for (at, access) in read.iter().enumerate() {
                    prop_assert_eq!(access.size, all[at].size, "{}", format.name);
                    if ["json", "tsv", "csv"].contains(&format.name) {
                        prop_assert_eq!(access.modified, all[at].modified, "{}", format.name);
                    }
                    let since = |a: &[Access]| a[at].time - a[0].time;
                    prop_assert!(since(&read).abs_diff(since(&all)) < 1_000_000, "{}", format.name);
                    for before in 0..at {
                        prop_assert_eq!(same(&read, at, before), same(&all, at, before), "{}", format.name);
                    }
                }
            }
        }

        /// Bytes of any kind are malformed or not, and the reading ends.
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            for format in &ALL {
                read(format, &bytes);
            }
            of_beginning(&bytes);
        }
    }

    #[test]
    fn a_format_is_known_by_how_its_file_begins() {
        let some: Vec<Access> = (1..200)
            .map(|n| Access {
                time: (800_000_000 + n) * 1_000_000,
                client: n % 7 + 1,
                server: n % 5 + 1,
                object: n % 50 + 1,
                size: n * 10,
                status: 200,
                ..Access::default()
            })
            .collect();
        for format in &ALL {
            let found = of_beginning(&written(format, &some)).map(|format| format.name);
            assert_eq!(found, Some(format.name));
        }
        assert!(of_beginning(b"nothing that anybody knows\n").is_none());
    }
}
