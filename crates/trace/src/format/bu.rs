//! The Boston University client traces (Cunha, Bestavros and Crovella, BU-CS TR-95-010), as tab separated columns: time,
//! room, machine, user, session start, URL, bytes, seconds that the answer took.

use super::{Format, Kept, Parser, Writer, fields, first_line, number, seconds, write_seconds};
use crate::{Access, hash};
use std::collections::HashMap;

pub const FORMAT: Format = Format {
    name: "bu",
    about: "Boston University client traces, tab separated; hits of the browsers' own caches are left out",
    begins: |bytes| {
        let line = first_line(bytes);
        line.iter().filter(|byte| **byte == b'\t').count() == 7
            && Bu::default().parse(line, &mut Access::default()).is_ok()
    },
    parser: || Box::new(Bu::default()),
    writer: || Box::new(Bu::default()),
};

/// Who reads which page: of each client the last one, be it from the browser's own cache.
#[derive(Default)]
struct Bu(HashMap<u64, u64>);

impl Parser for Bu {
    fn parse(&mut self, line: &[u8], access: &mut Access) -> Result<Kept, String> {
        let [time, room, machine, user, _session, url, size, delay] = fields(line, b'\t')?;
        access.time = seconds(time)?;
        access.size = number(size, "size")?;
        let delay: f64 = number(delay, "delay")?;
        access.client = hash(&[room, machine, user].join(&b'\t'));
        access.set_url(url);
        access.page = Some(match is_page(&access.url) {
            true => {
                self.0.insert(access.client, access.object);
                access.object
            }
            false => *self.0.get(&access.client).unwrap_or(&access.object),
        });
        // A size and a delay of 0 mark a hit of the browser's own cache.
        Ok(if access.size == 0 && delay == 0.0 { Kept::No } else { Kept::Yes })
    }
}

/// By its name: the trace has no types.
fn is_page(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit_once('/').map_or("", |(_, name)| name);
    name.rsplit_once('.').is_none_or(|(_, kind)| ["html", "htm"].contains(&kind))
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
        let (mut bu, mut access) = (Bu::default(), Access::default());
        let line = b"791131220.000100\t272\tbeaker\t1\t791129580\thttp://cs-www.bu.edu/\t2009\t0.518815";
        assert_eq!(bu.parse(line, &mut access), Ok(Kept::Yes));
        assert_eq!((access.time, access.size), (791_131_220_000_100, 2009));
        assert_eq!(access.url, "http://cs-www.bu.edu/");
        let line = b"791131220.0\t272\tbeaker\t1\t791129580\thttp://cs-www.bu.edu/\t0\t0.0";
        assert_eq!(bu.parse(line, &mut access), Ok(Kept::No));
        assert!(bu.parse(b"791131220.0\t272\tbeaker", &mut access).unwrap_err().contains("3 fields"));
    }

    #[test]
    fn an_image_is_of_the_page_that_its_client_read_last() {
        let mut bu = Bu::default();
        let mut page_of = |machine: &str, url: &str, size: u32| {
            let line = format!("791131220.0\t272\t{machine}\t1\t791129580\t{url}\t{size}\t0.0");
            let mut access = Access::default();
            bu.parse(line.as_bytes(), &mut access).unwrap();
            access.page
        };
        let urls =
            ["http://a.test/", "http://a.test/b.html", "http://a.test"].map(|url| Some(hash(url.as_bytes())));
        assert_eq!(
            page_of("x", "http://a.test/i.gif", 9),
            Some(hash(b"http://a.test/i.gif")),
            "of none that is known"
        );
        assert_eq!(page_of("x", "http://a.test/", 9), urls[0]);
        assert_eq!(page_of("y", "http://a.test/b.html", 0), urls[1], "from the browser's cache");
        assert_eq!(
            [page_of("x", "http://a.test/i.gif", 9), page_of("y", "http://b.test/i.gif", 9)],
            [urls[0], urls[1]]
        );
        assert_eq!(
            [page_of("x", "http://a.test", 9), page_of("x", "http://a.test/j.jpg", 9)],
            [urls[2], urls[2]]
        );
    }
}
