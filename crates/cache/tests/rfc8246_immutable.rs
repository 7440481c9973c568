//! RFC 8246: what is immutable is not validated while it is fresh.

mod common;

use cache::{Stale, Verdict, judge};
use common::*;

#[test]
fn s2_1_fresh_and_immutable_is_validated_only_by_no_cache() {
    use Verdict::Fresh;
    let stale = Verdict::Stale;
    // request, response, seconds later
    for (request, response, later, verdict) in [
        ("", "max-age=60, immutable", 10, Fresh),
        // RFC 9111 section 5.2.1.1: "prefers". It is what a reload sends.
        ("max-age=0", "max-age=60, immutable", 10, Fresh),
        ("max-age=0", "max-age=60", 10, stale(Stale::RequestMaxAge)),
        ("max-age=5", "max-age=60, immutable", 59, Fresh),
        // "unless there is a signal from the client that a validation is necessary"
        ("no-cache", "max-age=60, immutable", 10, stale(Stale::RequestNoCache)),
        ("max-age=0, no-cache", "max-age=60, immutable", 10, stale(Stale::RequestNoCache)),
        // How long it will be fresh is another question than whether it has changed.
        ("min-fresh=50", "max-age=60, immutable", 10, Fresh),
        ("min-fresh=51", "max-age=60, immutable", 10, stale(Stale::MinFresh)),
        ("max-age=0, min-fresh=51", "max-age=60, immutable", 10, stale(Stale::MinFresh)),
    ] {
        let head = head(&[("cache-control", response), ("etag", "\"a\"")]);
        let asked = get(&[("cache-control", request)]);
        assert_eq!(judge(&asked, &head, NOW + later), verdict, "{request} / {response} + {later}");
    }
    let head = head(&[("cache-control", "max-age=60, immutable")]);
    assert_eq!(judge(&get(&[("pragma", "no-cache")]), &head, NOW), stale(Stale::RequestNoCache));
}

#[test]
fn s2_it_applies_during_the_freshness_lifetime_only() {
    let stale = Verdict::Stale;
    for (request, response, later, verdict) in [
        ("", "max-age=60, immutable", 60, stale(Stale::Expired)),
        ("max-age=0", "max-age=60, immutable", 60, stale(Stale::Expired)),
        ("max-age=0", "immutable, max-age=0", 1, stale(Stale::Expired)),
        ("", "max-age=60, immutable, no-cache", 10, stale(Stale::NoCache)),
        ("", "max-age=60, immutable, stale-while-revalidate=9", 60, Verdict::ServeWhileRevalidating),
        ("max-stale", "max-age=60, immutable", 60, Verdict::ServeStale),
    ] {
        let head = head(&[("cache-control", response), ("etag", "\"a\"")]);
        let asked = get(&[("cache-control", request)]);
        assert_eq!(judge(&asked, &head, NOW + later), verdict, "{request} / {response} + {later}");
    }
}

#[test]
fn s2_arguments_are_ignored_and_repetition_means_nothing() {
    for response in
        ["max-age=60, immutable=1", "immutable=\"x\", max-age=60", "IMMUTABLE, max-age=60, immutable"]
    {
        assert!(head(&[("cache-control", response)]).is_immutable(), "{response}");
    }
    assert!(!head(&[("cache-control", "max-age=60, ext=\"immutable\"")]).is_immutable());
    let head = head(&[("cache-control", "max-age=60")]);
    let asked = get(&[("cache-control", "max-age=0, immutable")]);
    assert_eq!(
        judge(&asked, &head, NOW + 1),
        Verdict::Stale(Stale::RequestMaxAge),
        "in a request it has no effect"
    );
}
