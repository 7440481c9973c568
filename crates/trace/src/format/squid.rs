//! Squid's native access.log: time, milliseconds, client, code/status, bytes, method, URL, user, hierarchy/host, type.

use super::{Format, Kept, Parser, Writer, first_line, number, seconds, write_seconds};
use crate::{Access, Method, hash};

pub const FORMAT: Format = Format {
    name: "squid",
    about: "Squid's native access.log",
    begins: |bytes| Squid.parse(first_line(bytes), &mut Access::default()).is_ok(),
    parser: || Box::new(Squid),
    writer: || Box::new(Squid),
};

struct Squid;

impl Parser for Squid {
    fn parse(&mut self, line: &[u8], access: &mut Access) -> Result<Kept, String> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let mut word = |what: &str| words.next().ok_or_else(|| format!("the line ends before its {what}"));
        access.time = seconds(word("time")?)?;
        let _: i64 = number(word("duration")?, "duration")?;
        access.client = hash(word("client")?);
        let result = word("result")?;
        let status = result.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        access.status = number(status, "status")?;
        access.size = number(word("size")?, "size")?;
        access.method = Method::of(word("method")?);
        access.set_url(word("URL")?);
        // Talk among caches, and tunnels, hold nothing that could be cached.
        let other = result.starts_with(b"UDP_") || access.url.starts_with("cache_object:");
        Ok(if other || !access.url.contains("://") { Kept::No } else { Kept::Yes })
    }
}

impl Writer for Squid {
    fn write(&mut self, access: &Access, _next: Option<u64>, into: &mut Vec<u8>) {
        write_seconds(access.time, 3, into);
        let status = if access.status == 0 { 200 } else { access.status };
        let (size, method) = (access.size, access.method.name());
        into.extend_from_slice(
            format!(" 0 c{} TCP_MISS/{status} {size} {method} ", access.client).as_bytes(),
        );
        access.write_url(into);
        into.extend_from_slice(b" - HIER_DIRECT/- -\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let mut access = Access::default();
        let line = b"847087481.442   1357 10.0.0.1 TCP_MISS/200 4512 GET http://a.test/x.gif - DIRECT/a.test image/gif";
        assert_eq!(Squid.parse(line, &mut access), Ok(Kept::Yes));
        assert_eq!((access.time, access.status, access.size), (847_087_481_442_000, 200, 4512));
        assert_eq!(access.url, "http://a.test/x.gif");
        let tunnel = b"847087481.442 13 10.0.0.1 TCP_TUNNEL/200 45 CONNECT a.test:443 - DIRECT/1.2.3.4 -";
        assert_eq!(Squid.parse(tunnel, &mut access), Ok(Kept::No));
        assert!(Squid.parse(b"847087481.442 1357 10.0.0.1 TCP_MISS/200 x GET", &mut access).is_err());
    }
}
