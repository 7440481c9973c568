//! The Boston University client traces (Cunha, Bestavros and Crovella, BU-CS TR-95-010), as tab separated columns: time,
//! room, machine, user, session start, URL, bytes, seconds that the answer took.

use super::{Format, Kept, Parser, Writer, fields, first_line, number, seconds, write_seconds};
use crate::{Access, hash};

pub const FORMAT: Format = Format {
    name: "bu",
    about: "Boston University client traces, tab separated; hits of the browsers' own caches are left out",
    begins: |bytes| {
        let line = first_line(bytes);
        line.iter().filter(|byte| **byte == b'\t').count() == 7
            && Bu.parse(line, &mut Access::default()).is_ok()
    },
    parser: || Box::new(Bu),
    writer: || Box::new(Bu),
};

struct Bu;

impl Parser for Bu {
    fn parse(&mut self, line: &[u8], access: &mut Access) -> Result<Kept, String> {
        let [time, room, machine, user, _session, url, size, delay] = fields(line, b'\t')?;
        access.time = seconds(time)?;
        access.size = number(size, "size")?;
        let delay: f64 = number(delay, "delay")?;
        access.client = hash(&[room, machine, user].join(&b'\t'));
        access.set_url(url);
        // A size and a delay of 0 mark a hit of the browser's own cache.
        Ok(if access.size == 0 && delay == 0.0 { Kept::No } else { Kept::Yes })
    }
}

impl Writer for Bu {
    fn write(&mut self, access: &Access, _next: Option<u64>, into: &mut Vec<u8>) {
        write_seconds(access.time, 6, into);
        into.extend_from_slice(format!("\troom\tmachine\tc{}\t0\t", access.client).as_bytes());
        access.write_url(into);
        into.extend_from_slice(format!("\t{}\t1\n", access.size).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_of_the_browser_are_left_out() {
        let mut access = Access::default();
        let line = b"791131220.000100\t272\tbeaker\t1\t791129580\thttp://cs-www.bu.edu/\t2009\t0.518815";
        assert_eq!(Bu.parse(line, &mut access), Ok(Kept::Yes));
        assert_eq!((access.time, access.size), (791_131_220_000_100, 2009));
        assert_eq!(access.url, "http://cs-www.bu.edu/");
        let line = b"791131220.0\t272\tbeaker\t1\t791129580\thttp://cs-www.bu.edu/\t0\t0.0";
        assert_eq!(Bu.parse(line, &mut access), Ok(Kept::No));
        assert!(Bu.parse(b"791131220.0\t272\tbeaker", &mut access).unwrap_err().contains("3 fields"));
    }
}
