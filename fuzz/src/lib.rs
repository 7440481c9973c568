//! What the targets share: reading something structured out of the fuzzer's bytes.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Reads one thing after the other; what is missing at the end is zero or empty.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(count.min(self.0.len()));
        self.0 = tail;
        head
    }

    pub fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    pub fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    pub fn u64(&mut self) -> u64 {
        self.number(8)
    }

    /// A byte that says how long, and as many bytes.
    pub fn piece(&mut self) -> &'a [u8] {
        let length = self.u8();
        self.take(length.into())
    }

    /// Up to the next line feed, which goes.
    pub fn line(&mut self) -> &'a [u8] {
        let line = self.take(self.0.iter().position(|b| *b == b'\n').unwrap_or(self.0.len()));
        self.take(1);
        line
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Lines `name: value`; those that are no field are left out.
pub fn fields(text: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.split(|b| *b == b'\n') {
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// Every line is a value of this field; those that cannot be are left out.
pub fn values(name: HeaderName, text: &[u8]) -> HeaderMap {
    let lines = text.split(|b| *b == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok());
    lines.map(|value| (name.clone(), value)).collect()
}

/// The same lines of the same fields, in reverse order.
pub fn reversed(headers: &HeaderMap) -> HeaderMap {
    let mut all: Vec<_> = headers.iter().collect();
    all.reverse();
    all.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Every value changed.
pub fn mapped(headers: &HeaderMap, change: impl Fn(&HeaderName, &[u8]) -> Vec<u8>) -> HeaderMap {
    let changed = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = HeaderValue::from_bytes(&change(name, value.as_bytes()));
        (name.clone(), value.expect("what a field can hold"))
    };
    headers.iter().map(changed).collect()
}

pub fn has_quote(headers: &HeaderMap) -> bool {
    headers.values().any(|value| value.as_bytes().contains(&b'"'))
}
