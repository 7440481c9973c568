//! The Common Log Format of web servers, and the Combined one, which adds referrer and agent.

use super::{Format, Kept, Parser, Writer, first_line, number};
use crate::{Access, Method, hash};
use jiff::fmt::strtime;

pub const FORMAT: Format = Format {
    name: "clf",
    about: "Common or Combined log format of a web server or proxy",
    begins: |bytes| Clf.parse(first_line(bytes), &mut Access::default()).is_ok(),
    parser: || Box::new(Clf),
    writer: || Box::new(Clf),
};

const TIME: &str = "%d/%b/%Y:%H:%M:%S %z";

struct Clf;

impl Parser for Clf {
    fn parse(&mut self, line: &[u8], access: &mut Access) -> Result<Kept, String> {
        let (who, rest) = cut(line, b" [").ok_or("there is no [time]")?;
        let (time, rest) = cut(rest, b"] \"").ok_or("the [time] does not end before a \"request\"")?;
        // A request may hold quotation marks; what follows the last of them here cannot.
        let (request, rest) = end_of_request(rest).ok_or("the \"request\" does not end before a status")?;
        access.client = hash(who.split(|byte| *byte == b' ').next().unwrap_or_default());
        access.time = read_time(time)?;
        let mut words = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        access.status = number(words.next().unwrap_or_default(), "status")?;
        access.size = match words.next().unwrap_or_default() {
            b"-" => 0,
            size => number(size, "size")?,
        };
        let mut words = request.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        access.method = Method::of(words.next().unwrap_or_default());
        access.set_url(words.next().ok_or("the request has no URL")?);
        Ok(if access.method == Method::Other { Kept::No } else { Kept::Yes })
    }
}

fn cut<'a>(bytes: &'a [u8], by: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(by.len()).position(|some| some == by)?;
    Some((&bytes[..at], &bytes[at + by.len()..]))
}

/// Up to the first quotation mark that a space and a digit follow.
fn end_of_request(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.windows(3).position(|some| some.starts_with(b"\" ") && some[2].is_ascii_digit())?;
    Some((&bytes[..at], &bytes[at + 2..]))
}

/// Microseconds since 1970.
fn read_time(text: &[u8]) -> Result<u64, String> {
    let wrong = || format!("`{}` is no time", String::from_utf8_lossy(&text[..text.len().min(40)]));
    let time = strtime::parse(TIME, text).and_then(|time| time.to_timestamp()).map_err(|_| wrong())?;
    u64::try_from(time.as_microsecond()).map_err(|_| wrong())
}

impl Writer for Clf {
    fn write(&mut self, access: &Access, _next: Option<u64>, into: &mut Vec<u8>) {
        let seconds = (access.time / 1_000_000).min(i64::MAX as u64) as i64;
        let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
        let time = time.strftime("%d/%b/%Y:%H:%M:%S +0000");
        let head = format!("c{} - - [{time}] \"{} ", access.client, access.method.name());
        into.extend_from_slice(head.as_bytes());
        access.write_url(into);
        let status = if access.status == 0 { 200 } else { access.status };
        into.extend_from_slice(format!(" HTTP/1.0\" {status} {}\n", access.size).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_and_combined_lines_are_taken_apart() {
        let mut access = Access::default();
        let line = br#"h.test - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326"#;
        assert_eq!(Clf.parse(line, &mut access), Ok(Kept::Yes));
        assert_eq!((access.time, access.status, access.size), (971_211_336_000_000, 200, 2326));
        let line =
            br#"h - - [10/Oct/2000:13:55:36 -0700] "GET /"x" HTTP/1.0" 304 - "http://r/" "Mozilla \"4\"""#;
        assert_eq!(Clf.parse(line, &mut access), Ok(Kept::Yes));
        assert_eq!((access.url.as_str(), access.status, access.size), ("/\"x\"", 304, 0));
        let line = br#"h - - [32/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1"#;
        assert!(Clf.parse(line, &mut access).unwrap_err().contains("is no time"));
    }
}
