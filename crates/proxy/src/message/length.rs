//! How the end of a response's body is told (RFC 9112 sections 6.1, 6.3 and 7), settled before its head is used.
//!
//! What always holds afterwards: the head has at most one Content-Length, which is plain digits and says what the library
//! that reads the body goes by; none beside a transfer coding. What two readers could understand differently is refused.

use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use http::{HeaderValue, StatusCode, Version, response};

/// What a head says of its body, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// The end is told by the last chunk.
    pub chunked: bool,
    /// The head is one that a server has no reason to send: nothing more is read from its connection.
    pub doubtful: bool,
}

/// Reads how the body ends, and leaves in the head what may go on. `Err`: why it cannot be known.
pub fn settle(head: &mut response::Parts) -> Result<Length, &'static str> {
    let headers = &mut head.headers;
    let coding = coding(headers)?;
    let length = length(headers)?;
    if coding == Coding::UntilClose && length.is_some() {
        return Err("both a Content-Length and a Transfer-Encoding without an end");
    }
    let bodyless = head.status.is_informational() || head.status == StatusCode::NO_CONTENT;
    if length.is_some() && (coding != Coding::None || bodyless) {
        headers.remove(CONTENT_LENGTH);
    }
    let doubtful = match coding {
        Coding::None => bodyless && length.is_some_and(|length| length > 0),
        _ => length.is_some() || bodyless || head.version < Version::HTTP_11,
    };
    Ok(Length { chunked: coding == Coding::Chunked, doubtful })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    None,
    Chunked,
    /// The body ends with the connection, and whether that was all of it is not known.
    UntilClose,
}

/// No coding but `chunked` was offered to the origin (TE), and a client could not decode it. The library goes by the last
/// member of the last line.
fn coding(headers: &HeaderMap) -> Result<Coding, &'static str> {
    if !headers.contains_key(TRANSFER_ENCODING) {
        return Ok(Coding::None);
    }
    let members = || members(headers, &TRANSFER_ENCODING);
    if members().all(|member| member.is_empty() || is(member, "identity")) {
        return Ok(Coding::UntilClose);
    }
    let alone = members().filter(|member| !member.is_empty()).count() == 1;
    match members().last() {
        Some(last) if alone && is(last, "chunked") => Ok(Coding::Chunked),
        _ => Err("a transfer coding other than chunked"),
    }
}

/// Section 6.3: several values, in a list or in lines, are one if they are equal.
fn length(headers: &mut HeaderMap) -> Result<Option<u64>, &'static str> {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter().map(HeaderValue::as_bytes);
    let is_plain = |line: &[u8]| line == b"0" || !line.starts_with(b"0");
    match (lines.next(), lines.next()) {
        (None, _) => return Ok(None),
        (Some(line), None)
            if is_plain(line)
                && let Some(length) = number(line) =>
        {
            return Ok(Some(length));
        }
        _ => {}
    }
    let mut values = members(headers, &CONTENT_LENGTH).map(number);
    let first = values.next().flatten().ok_or("a Content-Length that is not a number")?;
    if values.any(|other| other != Some(first)) {
        return Err("several Content-Length values");
    }
    drop(values);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(first));
    Ok(Some(first))
}

/// Members of all lines, also empty ones.
fn members<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let lines = headers.get_all(name).into_iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

fn is(member: &[u8], name: &str) -> bool {
    member.eq_ignore_ascii_case(name.as_bytes())
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    /// What `settle` says, and the length that is left.
    fn settled(status: u16, version: Version, fields: Fields) -> Option<(Length, Option<String>)> {
        let mut response = Response::builder().status(status).version(version);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let (mut parts, ()) = response.body(()).unwrap().into_parts();
        let length = settle(&mut parts).ok()?;
        assert!(parts.headers.get_all(CONTENT_LENGTH).iter().count() <= 1);
        let left = parts.headers.get(CONTENT_LENGTH).map(|value| value.to_str().unwrap().to_owned());
        Some((length, left))
    }

    #[test]
    fn lengths() {
        const CL: &str = "content-length";
        let table: &[(Fields, Option<Option<&str>>)] = &[
            (&[], Some(None)),
            (&[(CL, "5")], Some(Some("5"))),
            (&[(CL, "0")], Some(Some("0"))),
            (&[(CL, "005")], Some(Some("5"))),
            (&[(CL, "5,5")], Some(Some("5"))),
            (&[(CL, "5"), (CL, "5 , 5")], Some(Some("5"))),
            (&[(CL, "5"), (CL, "6")], None),
            (&[(CL, "5, 6")], None),
            (&[(CL, "5,")], None),
            (&[(CL, "")], None),
            (&[(CL, "+5")], None),
            (&[(CL, "-5")], None),
            (&[(CL, "0x5")], None),
            (&[(CL, "5 5")], None),
            (&[(CL, "99999999999999999999")], None),
        ];
        for (fields, expected) in table {
            let found = settled(200, Version::HTTP_11, fields);
            assert_eq!(found.is_some(), expected.is_some(), "{fields:?}");
            if let (Some((length, left)), Some(expected)) = (found, expected) {
                assert_eq!(left.as_deref(), *expected, "{fields:?}");
                assert_eq!(length, Length { chunked: false, doubtful: false });
            }
        }
    }

    #[test]
    fn transfer_codings() {
        const TE: &str = "transfer-encoding";
        let table: &[(&[&str], Option<bool>)] = &[
            (&["chunked"], Some(true)),
            (&["Chunked"], Some(true)),
            (&[" , chunked"], Some(true)),
            (&[""], Some(false)),
            (&[",", ""], Some(false)),
            (&["identity"], Some(false)),
            (&["Identity, identity"], Some(false)),
            // The library would not take these as chunked.
            (&["chunked,"], None),
            (&["chunked", ""], None),
            (&["chunked, chunked"], None),
            (&["chunked", "chunked"], None),
            (&["x"], None),
            (&["gzip, chunked"], None),
            (&["chunked, gzip"], None),
            (&["chunked, identity"], None),
            (&["identity", "chunked"], None),
            (&["chunked;q=1"], None),
            (&["\"chunked\""], None),
            (&["chunked x"], None),
        ];
        for (lines, expected) in table {
            let fields: Vec<_> = lines.iter().map(|line| (TE, *line)).collect();
            let found = settled(200, Version::HTTP_11, &fields);
            assert_eq!(found.map(|(length, _)| length.chunked), *expected, "{lines:?}");
        }
    }

    #[test]
    fn both_and_neither() {
        let both: Fields = &[("content-length", "2"), ("transfer-encoding", "chunked")];
        let chunked: Fields = &[("transfer-encoding", "chunked")];
        let (new, old) = (Version::HTTP_11, Version::HTTP_10);
        let length = |chunked, doubtful| Length { chunked, doubtful };
        assert_eq!(settled(200, new, both), Some((length(true, true), None)));
        assert_eq!(settled(200, new, chunked), Some((length(true, false), None)));
        assert_eq!(settled(200, old, chunked), Some((length(true, true), None)));
        assert_eq!(settled(204, new, chunked), Some((length(true, true), None)));
        assert_eq!(settled(204, new, &[("content-length", "0")]), Some((length(false, false), None)));
        assert_eq!(settled(204, new, &[("content-length", "7")]), Some((length(false, true), None)));
        assert_eq!(settled(101, new, both), Some((length(true, true), None)));
        let identity: Fields = &[("content-length", "2"), ("transfer-encoding", "identity")];
        assert_eq!(settled(200, new, identity), None, "one of them is wrong");
    }
}
