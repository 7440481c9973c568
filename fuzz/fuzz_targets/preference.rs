//! Lists of preferences, as in Accept-Language: lines of the input are lines of the field. Order, case, space and
//! the spelling of weights mean nothing; the canonical form is its own; the one language that is preferred is a tag of
//! the list, and stays so whatever is liked less.
#![no_main]

use cache::fuzzing::canonical_preferences;
use cache::preferred_language;
use cosm_fuzz::{has_quote, mapped, reversed, values};
use http::header::ACCEPT_LANGUAGE;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let headers = values(ACCEPT_LANGUAGE, data);
    let preferred = preferred_language(&headers);
    let line = joined(&headers);
    let canonical = canonical_preferences(&line);

    if let Some(canonical) = &canonical {
        assert_eq!(canonical_preferences(canonical).as_ref(), Some(canonical));
        assert!(canonical.len() <= line.len() && !canonical.contains(&b' '));
        let again = HeaderValue::from_bytes(canonical).expect("still a value");
        assert_eq!(preferred_language(&[(ACCEPT_LANGUAGE, again)].into_iter().collect()), preferred);
    }
    if !has_quote(&headers) {
        let loud = mapped(&headers, |_, value| value.to_ascii_uppercase());
        let members: Vec<_> = line.split(|b| *b == b',').map(<[u8]>::to_vec).rev().collect();
        for same in [joined(&reversed(&headers)), joined(&loud), members.join(&b" ,\t"[..])] {
            assert_eq!(canonical_preferences(&same), canonical);
        }
        assert_eq!(preferred_language(&loud), preferred);
        let mut more = headers.clone();
        more.append(ACCEPT_LANGUAGE, HeaderValue::from_static("zz;q=0"));
        let still = preferred_language(&more);
        assert!(still == preferred || preferred.is_none());
    }
    if let Some(tag) = preferred {
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        assert!(canonical.is_some() && text.contains(&tag) && tag != "*");
    }
});

fn joined(headers: &HeaderMap) -> Vec<u8> {
    headers.values().map(|line| line.as_bytes()).collect::<Vec<_>>().join(&b',')
}
