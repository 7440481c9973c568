//! Hop-by-hop fields. Nothing of the fixed list stays, nor what Connection names as plain tokens; fields for all
//! recipients stay whatever it says; what stays, stays as it was; doing it twice does no more.
#![no_main]

use cache::{hop, remove_hop_by_hop};
use cosm_fuzz::fields;
use http::header::{CONNECTION, HeaderName};
use libfuzzer_sys::fuzz_target;

const END_TO_END: [&str; 7] = ["host", "content-length", "cache-control", "vary", "date", "expires", "age"];

fuzz_target!(|data: &[u8]| {
    let before = fields(data);
    let mut after = before.clone();
    remove_hop_by_hop(&mut after);

    let lines = || before.get_all(CONNECTION).iter().map(|line| line.as_bytes());
    let quoted = lines().any(|line| line.contains(&b'"'));
    let options = lines().flat_map(|line| line.split(|b| *b == b','));
    let named: Vec<HeaderName> =
        options.filter_map(|o| HeaderName::from_bytes(o.trim_ascii()).ok()).collect();
    for name in before.keys() {
        let gone = hop::is_hop_by_hop(name) || named.contains(name) && !END_TO_END.contains(&name.as_str());
        if !quoted || hop::is_hop_by_hop(name) || END_TO_END.contains(&name.as_str()) {
            assert_eq!(!after.contains_key(name), gone, "{name}");
        }
    }
    for name in after.keys() {
        assert!(after.get_all(name).iter().eq(before.get_all(name)), "{name}");
    }
    let mut twice = after.clone();
    remove_hop_by_hop(&mut twice);
    assert_eq!(twice, after);
});
