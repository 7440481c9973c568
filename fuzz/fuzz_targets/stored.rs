//! Stored metadata as it comes from the disk. What decodes encodes to bytes that decode to the same and re-encode to
//! themselves; no shorter and no longer bytes are taken for it (but for a key's); what is read judges no better as time
//! passes.
#![no_main]

use cache::{Asked, Head, Stored, Time, Verdict, judge};
use http::{HeaderMap, Method};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(stored) = Stored::decode(bytes) else { return };
    let written = stored.encode();
    assert!(written.len() <= bytes.len(), "nobody writes it shorter");
    assert_eq!(Stored::is_vary_marker(&written), matches!(stored, Stored::Varies(_)));
    let again = Stored::decode(&written).expect("reads what it wrote");
    assert_eq!(again, stored);
    assert_eq!(again.encode(), written);
    // A key ends where its bytes end.
    if !matches!(stored, Stored::SameAs(_)) {
        for end in 0..written.len() {
            assert_eq!(Stored::decode(&written[..end]), None);
        }
        assert_eq!(Stored::decode(&[&written[..], b"\0"].concat()), None);
    }

    let Stored::Response(head) = stored else { return };
    assert_eq!(Head::decode(&written).as_ref(), Some(&head));
    let asked = Asked::of(&Method::GET, &HeaderMap::new());
    let times = [
        0,
        head.date(),
        head.response_time(),
        head.response_time().saturating_add(head.lifetime()),
        Time::MAX,
    ];
    let mut times = times.map(|time| (time, head.age(time), judge(&asked, &head, time) == Verdict::Fresh));
    times.sort_unstable();
    // Before the response's own time a clock has been set back, and how old it is is not known.
    let since: Vec<_> = times.iter().filter(|(time, ..)| *time >= head.response_time()).collect();
    assert!(since.is_sorted_by(|a, b| a.1 <= b.1 && a.2 >= b.2), "{times:?}");
    assert!(times.iter().all(|(time, ..)| head.is_fresh(*time) == (head.lifetime() > head.age(*time))));
});
