//! Cache-Control of responses and requests: lines of the input are lines of the field. Order, repetition and the case
//! of names mean nothing; more lines never loosen what was said; without quotes it is what splitting at commas says.
#![no_main]

use cache::fuzzing::{Directives, request_directives, response_directives};
use cosm_fuzz::{has_quote, mapped, reversed, values};
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;

const NO_STORE: u32 = 1 << 2;
const FLAGS: [&str; 8] = [
    "public",
    "private",
    "no-store",
    "no-cache",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "immutable",
];
const NUMBERS: [&str; 4] = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];

fuzz_target!(|data: &[u8]| {
    let headers = values(CACHE_CONTROL, data);
    let twice = headers.iter().chain(&headers).map(|(n, v)| (n.clone(), v.clone())).collect();
    let loud = mapped(&headers, |_, value| value.to_ascii_uppercase());
    for read in [response_directives, request_directives] {
        let said = read(&headers);
        for same in [&reversed(&headers), &twice, &loud] {
            assert_eq!(read(same), said);
        }
    }

    let (flags, numbers) = response_directives(&headers);
    let mut more = headers.clone();
    more.append(CACHE_CONTROL, HeaderValue::from_static("no-store, max-age=7"));
    let (more_flags, more_numbers) = response_directives(&more);
    assert_eq!(more_flags, flags | NO_STORE);
    assert_eq!(more_numbers[0], Some(numbers[0].map_or(7, |age| age.min(7))));
    assert_eq!(more_numbers[1..], numbers[1..]);

    if !has_quote(&headers) {
        assert_eq!((flags, numbers), naive(&headers));
    }
});

fn naive(headers: &HeaderMap) -> Directives {
    let mut all: Directives = (0, [None; 4]);
    let members = headers.values().flat_map(|value| value.as_bytes().split(|b| *b == b','));
    for member in members.map(|member| String::from_utf8_lossy(member.trim_ascii()).to_ascii_lowercase()) {
        let (name, argument) = member.split_once('=').unwrap_or((&member, ""));
        let argument = if name.ends_with([' ', '\t']) { "" } else { argument };
        let name = name.trim_ascii();
        if let Some(bit) = FLAGS.iter().position(|known| *known == name) {
            all.0 |= 1 << bit;
        }
        if let Some(place) = NUMBERS.iter().position(|known| *known == name) {
            let plain = !argument.is_empty() && argument.bytes().all(|b| b.is_ascii_digit());
            let seconds = argument.parse().unwrap_or(u64::MAX).min(1 << 31) as u32;
            let seconds = if plain { seconds } else { 0 };
            all.1[place] = Some(all.1[place].map_or(seconds, |least| least.min(seconds)));
        }
    }
    all
}
