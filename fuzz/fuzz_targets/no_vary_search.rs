//! No-Vary-Search: the first line is the field, the second a query, the third another; the rest are stored bytes.
//! Normalising twice is normalising once; queries that differ in spelling, or in parameters that do not count, are
//! equivalent; order counts when it is said to; what decodes is encoded to what decodes to the same.
#![no_main]

use cache::{NoVarySearch, Stored};
use cosm_fuzz::Input;
use http::{HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;

static FIELD: HeaderName = HeaderName::from_static("no-vary-search");

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (field, first, second) = (input.line(), input.line(), input.line());
    decoded(input.rest());
    let Ok(field) = HeaderValue::from_bytes(field) else { return };
    let config = NoVarySearch::of(&[(FIELD.clone(), field)].into_iter().collect());
    decoded(&config.encode());
    assert_eq!(NoVarySearch::decode(&config.encode()).as_ref(), Some(&config));
    let (Ok(first), Ok(second)) = (std::str::from_utf8(first), std::str::from_utf8(second)) else { return };

    for query in [first, second] {
        holds(&config, query);
    }
    let equivalent = config.normalise(Some(first)) == config.normalise(Some(second));
    let strict = NoVarySearch::of(&Default::default());
    assert_eq!(strict.normalise(Some(first)) == strict.normalise(Some(second)), first == second);
    assert!(equivalent || first != second);
    // Parameters that stand behind equivalent ones leave them so.
    if equivalent && !config.is_default() {
        let longer = |query: &str| config.normalise(Some(&format!("{query}&a=1&zz=2&a=3")));
        assert_eq!(longer(first), longer(second));
    }
});

fn holds(config: &NoVarySearch, query: &str) {
    let once = config.normalise(Some(query));
    assert_eq!(config.normalise(once.strip_prefix('?')), once, "once is enough");
    if config.is_default() {
        return assert_eq!(once, format!("?{query}"));
    }
    assert!(once.is_empty() || once.starts_with('?') && once.is_ascii());
    assert_eq!(config.normalise(Some(&format!("&&{query}&"))), once, "empty pairs");
    let respelt: String = query.split('&').map(respelt).collect::<Vec<_>>().join("&");
    assert_eq!(config.normalise(Some(&respelt)), once, "escapes: {respelt}");
}

/// Letters and digits that are no part of an escape, escaped.
fn respelt(pair: &str) -> String {
    if pair.contains('%') {
        return pair.to_owned();
    }
    pair.chars()
        .map(|c| if c.is_ascii_alphanumeric() { format!("%{:02x}", c as u32) } else { c.to_string() })
        .collect()
}

fn decoded(bytes: &[u8]) {
    let Some(config) = NoVarySearch::decode(bytes) else { return };
    let written = config.encode();
    assert_eq!(NoVarySearch::decode(&written).as_ref(), Some(&config));
    assert_eq!(Stored::decode(&written), Some(Stored::NoVarySearch(config.clone())));
    assert!((0..written.len()).all(|end| NoVarySearch::decode(&written[..end]).is_none()));
    holds(&config, "b=1&a=2&b");
}
