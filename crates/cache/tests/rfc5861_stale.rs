//! RFC 5861 and RFC 9111 section 4.2.4: when a stale response may be served.

mod common;

use cache::{Head, Outage, Verdict, judge, may_serve_stale_on_error};
use common::*;

fn stored(control: &str) -> Head {
    head(&[("cache-control", control), ("etag", "\"a\"")])
}

#[test]
fn numbers_are_kept() {
    let head = stored("max-age=1, stale-while-revalidate=5, stale-if-error=\"7\"");
    assert_eq!((head.stale_while_revalidate(), head.stale_if_error()), (Some(5), Some(7)));
}

#[test]
fn s3_stale_while_revalidate() {
    use Verdict::*;
    let expired = Stale(cache::Stale::Expired);
    // request, response, seconds later
    for (request, response, later, verdict) in [
        ("", "max-age=60, stale-while-revalidate=30", 59, Fresh),
        ("", "max-age=60, stale-while-revalidate=30", 60, ServeWhileRevalidating),
        ("", "max-age=60, stale-while-revalidate=30", 89, ServeWhileRevalidating),
        ("", "max-age=60, stale-while-revalidate=30", 90, expired),
        ("", "max-age=60, stale-while-revalidate=0", 60, expired),
        ("", "max-age=60, stale-while-revalidate=x", 60, expired),
        ("", "max-age=60, stale-while-revalidate", 60, expired),
        ("", "stale-while-revalidate=30, max-age=0", 0, ServeWhileRevalidating),
        ("", "stale-while-revalidate=99999999999, max-age=60", 1 << 30, ServeWhileRevalidating),
        // Whoever forbids has the last word.
        ("", "max-age=60, stale-while-revalidate=30, must-revalidate", 60, expired),
        ("", "max-age=60, stale-while-revalidate=30, proxy-revalidate", 60, expired),
        ("", "max-age=60, stale-while-revalidate=30, no-cache", 10, Stale(cache::Stale::NoCache)),
        // RFC 9111 sections 4.2.4 and 5.2.2.10: explicitly permitted against what s-maxage implies.
        ("", "s-maxage=60, stale-while-revalidate=30", 60, ServeWhileRevalidating),
        ("", "s-maxage=60, stale-while-revalidate=30", 90, expired),
        ("", "s-maxage=60, stale-while-revalidate=30, must-revalidate", 60, expired),
        ("max-stale", "s-maxage=60, stale-while-revalidate=30", 90, expired),
        // The client's wishes.
        ("no-cache", "max-age=60, stale-while-revalidate=30", 60, Stale(cache::Stale::RequestNoCache)),
        ("max-age=65", "max-age=60, stale-while-revalidate=30", 66, expired),
        ("max-age=80", "max-age=60, stale-while-revalidate=30", 66, expired),
        ("max-age=80, max-stale", "max-age=60, stale-while-revalidate=30", 66, ServeWhileRevalidating),
        ("min-fresh=0", "max-age=60, stale-while-revalidate=30", 66, expired),
        ("max-stale=5", "max-age=60, stale-while-revalidate=30", 65, ServeWhileRevalidating),
        ("max-stale=5", "max-age=60, stale-while-revalidate=30", 66, expired),
        ("max-stale=50", "max-age=60, stale-while-revalidate=30", 89, ServeWhileRevalidating),
        ("max-stale=50", "max-age=60, stale-while-revalidate=30", 90, ServeStale),
        ("max-stale=50", "max-age=60, stale-while-revalidate=30", 111, expired),
    ] {
        let asked = get(&[("cache-control", request)]);
        let found = judge(&asked, &stored(response), NOW + later);
        assert_eq!(found, verdict, "{request} / {response} + {later}");
    }
    let pragma = judge(&get(&[("pragma", "no-cache")]), &stored("max-age=0, stale-while-revalidate=9"), NOW);
    assert_eq!(pragma, Stale(cache::Stale::RequestNoCache));
}

#[test]
fn s4_stale_if_error() {
    // request, response, seconds later: when unreachable, when the origin answers 5xx
    for (request, response, later, unreachable, answered) in [
        ("", "max-age=60", 60, true, false),
        ("", "max-age=60", 100_000, true, false),
        ("", "max-age=60, stale-if-error=30", 89, true, true),
        ("", "max-age=60, stale-if-error=30", 90, false, false),
        ("", "max-age=60, stale-if-error=0", 60, false, false),
        ("", "max-age=60, stale-if-error=x", 60, false, false),
        ("stale-if-error=30", "max-age=60", 89, true, true),
        ("stale-if-error=30", "max-age=60", 90, false, false),
        ("stale-if-error=10", "max-age=60, stale-if-error=30", 69, true, true),
        ("stale-if-error=10", "max-age=60, stale-if-error=30", 70, false, false),
        ("stale-if-error=30", "max-age=60, stale-if-error=10", 70, false, false),
        ("max-stale", "max-age=60", 600, true, true),
        ("max-stale=10", "max-age=60", 70, true, true),
        ("max-stale=10", "max-age=60", 71, true, false),
        // RFC 9111 section 4.2.4.
        ("stale-if-error=30", "max-age=60, stale-if-error=30, must-revalidate", 60, false, false),
        ("stale-if-error=30", "max-age=60, stale-if-error=30, proxy-revalidate", 60, false, false),
        ("stale-if-error=30, max-stale", "stale-if-error=30, no-cache", 0, false, false),
        ("max-stale", "max-age=60, must-revalidate", 60, false, false),
        ("max-stale", "s-maxage=60", 60, false, false),
        ("stale-if-error=30", "s-maxage=60", 60, false, false),
        ("", "s-maxage=60", 60, false, false),
        ("", "s-maxage=60, stale-if-error=30", 89, true, true),
        ("", "s-maxage=60, stale-if-error=30", 90, false, false),
        // RFC 9111 section 5.2.1.4: the client will not have it without the origin's word.
        ("no-cache", "max-age=60, stale-if-error=30", 10, false, false),
        // Section 4: "regardless of other freshness information".
        ("max-age=5", "max-age=60, stale-if-error=30", 10, true, true),
        ("max-age=5", "max-age=60, stale-if-error=30", 70, true, true),
        ("min-fresh=99", "max-age=60, stale-if-error=30", 10, true, true),
        // It is not even stale, but nobody said that it may stand in for an answer.
        ("max-age=5", "max-age=60", 10, true, false),
        ("max-age=5", "max-age=60, stale-if-error=0", 10, true, true),
    ] {
        let (asked, head) = (get(&[("cache-control", request)]), stored(response));
        let may = |outage| may_serve_stale_on_error(&asked, &head, NOW + later, outage);
        let found = (may(Outage::Unreachable), may(Outage::Answered5xx));
        assert_eq!(found, (unreachable, answered), "{request} / {response} + {later}");
    }
}
