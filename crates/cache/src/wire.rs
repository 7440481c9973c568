//! The bytes that a stored response's metadata and a Vary marker are kept as. The sole author of this layout.
//!
//! ```text
//! response  0x01 | varint: status, flags, date, request time, response time, age at response time, lifetime,
//!           | last-modified + 1, stale-while-revalidate + 1, stale-if-error + 1, first byte of a part + 1,
//!           | complete length of its representation + 1 (0: none), purges known | names of Vary | fields
//! marker    0x02 | names of Vary
//! same as   0x04 | the key it stands for
//! queries   0x03
//! no vary   0x05 | varint flags: 1 the order of names counts, 2 only the names count, not all but them | texts
//! purges    0x06 | varint: newest, floor, count | (varint when, varint length, UTF-8 scope)...
//! purges    0x07 | as before | varint: seed, count | (varint: bucket, number)...
//! purges    0x08 | varint newest | scopes of purges | scopes of soft purges
//! scopes    varint: floor, count | (varint when, varint length, UTF-8 scope)... | varint: seed, count | (varint: bucket, number)...
//! names     varint count | name...
//! texts     varint count | (varint length, UTF-8)...
//! fields    varint count | (name, varint length, value)...
//! name      one byte, its place in NAMES + 1; or 0, varint length, bytes
//! ```
//!
//! Numbers are LEB128. The first byte is kind and version in one: another layout takes another byte. NAMES only ever
//! grows at its end.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const RESPONSE: u8 = 0x01;
pub(crate) const MARKER: u8 = 0x02;
pub(crate) const QUERIES: u8 = 0x03;
pub(crate) const SAME_AS: u8 = 0x04;
pub(crate) const NO_VARY_SEARCH: u8 = 0x05;
pub(crate) const PURGES: u8 = 0x06;
pub(crate) const PURGES_IN_BUCKETS: u8 = 0x07;
/// Where there are soft ones, or expressions, which versions before do not know.
pub(crate) const PURGES_OF_BOTH_KINDS: u8 = 0x08;

pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// `None` is 0, so the value may not be `u64::MAX`.
pub(crate) fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    put_number(out, value.map_or(0, |v| v.saturating_add(1)));
}

pub(crate) fn put_names(out: &mut Vec<u8>, names: &[HeaderName]) {
    put_number(out, names.len() as u64);
    for name in names {
        put_name(out, name);
    }
}

pub(crate) fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put_number(out, texts.len() as u64);
    for text in texts {
        put_number(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
}

pub(crate) fn put_fields(out: &mut Vec<u8>, fields: &HeaderMap) {
    put_number(out, fields.len() as u64);
    for (name, value) in fields {
        put_name(out, name);
        put_number(out, value.len() as u64);
        out.extend_from_slice(value.as_bytes());
    }
}

fn put_name(out: &mut Vec<u8>, name: &HeaderName) {
    match NAMES.iter().position(|known| known == name) {
        Some(place) => out.push(place as u8 + 1),
        None => {
            out.push(0);
            put_number(out, name.as_str().len() as u64);
            out.extend_from_slice(name.as_str().as_bytes());
        }
    }
}

/// Reads what the functions above write. Values share one allocation.
pub(crate) struct Reader {
    bytes: Bytes,
    at: usize,
}

impl Reader {
    pub(crate) fn new(bytes: &[u8]) -> Reader {
        Reader { bytes: Bytes::copy_from_slice(bytes), at: 0 }
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    pub(crate) fn option(&mut self) -> Option<Option<u64>> {
        Some(self.number()?.checked_sub(1))
    }

    pub(crate) fn names(&mut self) -> Option<Vec<HeaderName>> {
        let count = self.count()?;
        (0..count).map(|_| self.name()).collect()
    }

    pub(crate) fn texts(&mut self) -> Option<Vec<String>> {
        let count = self.count()?;
        (0..count).map(|_| self.text()).collect()
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        Some(std::str::from_utf8(&self.bytes()?).ok()?.to_owned())
    }

    pub(crate) fn fields(&mut self) -> Option<HeaderMap> {
        let count = self.count()?;
        let mut fields = HeaderMap::with_capacity(count.min(64));
        for _ in 0..count {
            let name = self.name()?;
            let value = HeaderValue::from_maybe_shared(self.bytes()?).ok()?;
            fields.try_append(name, value).ok()?;
        }
        Some(fields)
    }

    pub(crate) fn end(&self) -> Option<()> {
        (self.at == self.bytes.len()).then_some(())
    }

    /// Every counted thing takes a byte at least, so a count beyond the rest is a lie.
    fn count(&mut self) -> Option<usize> {
        let count = self.narrow()?;
        (count <= self.bytes.len() - self.at).then_some(count)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let length = self.count()?;
        let start = self.at;
        self.at += length;
        Some(self.bytes.slice(start..self.at))
    }

    fn name(&mut self) -> Option<HeaderName> {
        match self.byte()? {
            0 => HeaderName::from_bytes(&self.bytes()?).ok(),
            place => NAMES.get(usize::from(place) - 1).cloned(),
        }
    }
}

#[rustfmt::skip]
static NAMES: [HeaderName; 48] = {
    use http::header::*;
    const fn n(name: &'static str) -> HeaderName { HeaderName::from_static(name) }
    [
        DATE, CONTENT_TYPE, LAST_MODIFIED, ETAG, CACHE_CONTROL, EXPIRES, VARY, SERVER,
        CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_DISPOSITION, LOCATION, ACCEPT_RANGES, VIA, SET_COOKIE,
        ACCEPT_ENCODING, ACCEPT_LANGUAGE, ACCEPT, USER_AGENT, COOKIE, ORIGIN, AUTHORIZATION, REFERER,
        LINK, PRAGMA, ALT_SVC, RETRY_AFTER, ALLOW, CONTENT_RANGE, STRICT_TRANSPORT_SECURITY, CONTENT_SECURITY_POLICY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS, X_XSS_PROTECTION, REFERRER_POLICY,
        ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_EXPOSE_HEADERS,
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_MAX_AGE, CACHE_STATUS, n("x-cache"),
        n("x-powered-by"), n("timing-allow-origin"), n("cross-origin-resource-policy"), n("cdn-cache-control"),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_distinct() {
        for (i, name) in NAMES.iter().enumerate() {
            assert!(!NAMES[i + 1..].contains(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn numbers(value: u64, garbage: Vec<u8>) {
            let mut out = Vec::new();
            put_number(&mut out, value);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.number(), Some(value));
            prop_assert_eq!(reader.end(), Some(()));
            Reader::new(&garbage).number();
        }
    }
}
