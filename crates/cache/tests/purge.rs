//! Purges against the plain list of what was purged.

use cache::{Asked, Expression, Head, Purges, Scope, Verdict, key};
use http::{HeaderMap, Method, Response};
use proptest::prelude::*;

fn head(known: u64, groups: &str) -> Head {
    let response = Response::builder().header("cache-control", "max-age=60").header("cache-groups", groups);
    let (parts, ()) = response.body(()).unwrap().into_parts();
    let mut head = Head::storable(&Asked::of(&Method::GET, &HeaderMap::new()), &parts, 1, 1).unwrap();
    head.purges_known = known;
    head
}

#[test]
fn what_each_scope_covers() {
    use Scope::{All, Expression, Group, Host, Origin, Path, PathPrefix, Prefix, Url};
    let table = [
        (All, "h", "/", true),
        (Host("h"), "h", "/a", true),
        (Host("h"), "h:8080", "/a", true),
        (Host("h"), "h.org", "/a", false),
        (Host("[::1]"), "[::1]:81", "/", true),
        (Origin("http://h"), "H:80", "/a", true),
        (Origin("http://h"), "h:8080", "/a", false),
        (Prefix("http://h/a"), "h", "/a", true),
        (Prefix("http://h/a"), "h", "/abc?d", true),
        (Prefix("http://h/a/"), "h", "/a", false),
        (Prefix("http://h/a?x"), "h", "/a?xy", true),
        (Prefix("http://h/a"), "h", "/A", false),
        (Prefix("http://h/a"), "g", "/a", false),
        (Path("/a?b"), "h:81", "/a?b", true),
        (Path("/a?b"), "h", "/a", false),
        (Path("/a"), "h", "/a?b", false),
        (PathPrefix("/a"), "h:81", "/abc?d", true),
        (PathPrefix("/a/"), "h", "/a", false),
        (PathPrefix("/"), "h", "/a", true),
        (Url("http://h/a"), "h", "/a", true),
        (Url("http://h/a"), "h", "/a?b", false),
        (Expression("*.h/a*"), "b.h:81", "/ab?c", true),
        (Expression("*.h/a*"), "h", "/ab", false),
        (Group { origin: None, name: "one" }, "h", "/", true),
        (Group { origin: Some("http://h"), name: "two words" }, "h", "/", true),
        (Group { origin: Some("http://g"), name: "one" }, "h", "/", false),
        (Group { origin: None, name: "two" }, "h", "/", false),
    ];
    for (scope, authority, path, covered) in table {
        let mut purges = Purges::default();
        purges.purge(Host("elsewhere"), 5);
        let key = key::primary("http", authority, path);
        let before = head(purges.newest(), r#""one", "two words""#);
        assert!(!purges.cover(&key, &before), "{scope:?}");
        purges.purge(scope, 3);
        assert_eq!(purges.newest(), 6, "the clock went back");
        assert_eq!(purges.cover(&key, &before), covered, "{scope:?} {authority}{path}");
        let after = head(purges.newest(), r#""one", "two words""#);
        assert!(!purges.cover(&key, &after), "{scope:?}: asked for afterwards");
        // Variants, queries and searches are covered with their URI.
        let variant = [&key[..], b"\0accept:x\n\xff"].concat();
        assert_eq!(purges.cover(&variant, &before), covered, "{scope:?}");
        let query = key::of_query(&key::queries(&key), [0; 8], &HeaderMap::new(), b"q");
        assert_eq!(purges.cover(&query, &before), covered, "{scope:?}");
        assert_eq!(Purges::decode(&purges.encode()), Some(purges));
        for softly in [false, true] {
            assert_eq!(Scope::parse(&scope.text(softly)), Some((scope, softly)), "{scope:?}");
        }
    }
    for unknown in ["", "soft", "hosts h", "expression h:80/"] {
        assert_eq!(Scope::parse(unknown), None, "{unknown}");
    }
    assert_eq!(Purges::decode(b""), Some(Purges::default()));
    // Everything was purged, by number 6 and by number 9, of 6 in all.
    assert!(Purges::decode(&[6, 6, 6, 0]).is_some());
    assert_eq!(Purges::decode(&[6, 6, 9, 0]), None);
}

#[test]
fn too_many_purges_become_wider_but_never_fewer() {
    let text = |n: usize| format!("http://h{}/{}{n}", n % 3, "x".repeat(40));
    let mut purges = Purges::default();
    let number = 20_000;
    for n in 0..number {
        purges.purge(Scope::Prefix(&text(n)), 0);
    }
    assert!(purges.encode().len() <= Purges::MAX && purges.len() > 1_000, "{} scopes", purges.len());
    assert_eq!(Purges::decode(&purges.encode()).as_ref(), Some(&purges));
    let covers = |purges: &Purges, authority: &str, path: &str, known| {
        purges.cover(&key::primary("http", authority, path), &head(known, ""))
    };
    for n in 0..number {
        let url = text(n);
        assert!(covers(&purges, &url[7..9], &url[9..], n as u64), "{n}");
        assert!(!covers(&purges, &url[7..9], &url[9..], number as u64), "{n}");
    }
    assert!(!covers(&purges, "other", "/", 0), "an origin with many purges is no other's harm");

    for n in 0..number {
        purges.purge(Scope::Host(&format!("{n}.{}", "y".repeat(40))), 0);
    }
    assert!(purges.encode().len() <= Purges::MAX);
    for n in 0..number {
        let host = format!("{n}.{}", "y".repeat(40));
        assert!(covers(&purges, &host, "/", (number + n) as u64), "{n}");
    }
    assert!(!covers(&purges, "other", "/", purges.newest() - 1));
    assert_eq!(Purges::decode(&purges.encode()).as_ref(), Some(&purges));
}

/// Each of somebody's many hosts ends a group of its own: others lose nothing by it.
#[test]
fn groups_of_many_hosts_do_not_empty_the_cache() {
    let hosts: [fn(usize) -> String; 5] = [
        |n| format!("h{n}.evil.example"),
        |n| format!("h{n}.abc.io"),
        |n| format!("h{n}.evil.co.uk"),
        |n| format!("[2001:db8:{n:x}::1]"),
        |n| format!("10.1.{}.{}:{n}", n / 256 % 256, n % 256),
    ];
    let others = |n: usize| {
        let host = ["site.example", "other.io", "www.bbc.co.uk", "[2001:db7::1]", "10.2.1.1"][n % 5];
        key::primary("http", host, &format!("/{n}"))
    };
    for host in hosts {
        let mut purges = Purges::new(1);
        for n in 0..40_000 {
            purges.purge(Scope::Group { origin: Some(&format!("http://{}", host(n))), name: "g" }, 0);
        }
        for n in 0..500 {
            assert!(!purges.cover(&others(n), &head(0, "\"g\"")), "{} lost {n}", host(0));
        }
        for n in 0..40_000 {
            let key = key::primary("http", &host(n), "/");
            assert!(purges.cover(&key, &head(n as u64, "\"g\"")), "{} came back", host(n));
            assert!(!purges.cover(&key, &head(n as u64, "")), "{} is in no group", host(n));
        }
        assert_eq!(Purges::decode(&purges.encode()).map(|p| p.seeded(1)), Some(purges));
    }
}

/// Where no site has many, what is lost by accident is in groups, and bounded.
#[test]
fn groups_of_many_sites_are_kept_by_buckets() {
    for seed in [1, 2, 3] {
        let mut purges = Purges::new(seed);
        for n in 0..5_000 {
            let origin = format!("http://h.evil{n}.example");
            purges.purge(
                Scope::Group { origin: Some(&origin.replace(".example", &format!("{n}"))), name: "g" },
                0,
            );
        }
        let others = |n: usize| key::primary("http", &format!("www.site{n}.org"), "/");
        let lost = (0..1_000).filter(|n| purges.cover(&others(*n), &head(0, "\"g\""))).count();
        assert!((1..950).contains(&lost), "{lost} of 1,000 others with seed {seed}");
        let lost = (0..1_000).filter(|n| purges.cover(&others(*n), &head(0, ""))).count();
        assert_eq!(lost, 0, "who is in no group");
        assert_eq!(Purges::decode(&purges.encode()).map(|p| p.seeded(9)), Some(purges));
    }
}

#[test]
fn paths_and_groups_of_any_host_are_kept_by_buckets_too() {
    let mut purges = Purges::new(7);
    let long = "x".repeat(80);
    for n in 0..8_000 {
        purges.purge(Scope::Path(&format!("/{long}{n}")), 0);
        purges.purge(Scope::PathPrefix(&format!("/{}/{long}{n}", n % 7)), 0);
        purges.purge(Scope::Group { origin: None, name: &format!("{n}{long}") }, 0);
    }
    assert!(purges.encode().len() <= Purges::MAX);
    for n in 0..8_000u64 {
        let known = 3 * n;
        let path = key::primary("http", "h", &format!("/{long}{n}"));
        assert!(purges.cover(&path, &head(known, "")), "{n}");
        let prefix = key::primary("http", "h", &format!("/{}/{long}{n}/more", n % 7));
        assert!(purges.cover(&prefix, &head(known + 1, "")), "{n}");
    }
    assert!(!purges.cover(&key::primary("http", "h", "/"), &head(purges.newest() - 3, "")));
}

fn expression(text: &str) -> String {
    text.parse::<Expression>().unwrap().to_string()
}

#[test]
fn what_expressions_cover() {
    for (text, authority, path, covered) in [
        ("*.h.org/img/*.jpg", "a.h.org:8080", "/img/x/1.jpg", true),
        ("*.h.org/img/*.jpg", "h.org", "/img/1.jpg", false),
        ("*.h.org/img/*.jpg", "a.h.org", "/img/1.jpg?2", false),
        ("*.H.org", "a.h.org", "/", true),
        ("/a/?", "h", "/a/b", true),
        ("[::1]/*", "[::1]:81", "/", true),
    ] {
        let expression = expression(text);
        let mut purges = Purges::default();
        purges.purge(Scope::Expression(&expression), 7);
        let key = key::primary("http", authority, path);
        assert_eq!(purges.cover(&key, &head(6, "")), covered, "{text} {authority}{path}");
        assert!(!purges.cover(&key, &head(7, "")), "{text}");
        assert_eq!(Purges::decode(&purges.encode()), Some(purges));
    }
    // Of searches that are answered alike the path is known alone.
    let mut purges = Purges::default();
    purges.purge(Scope::Expression(&expression("h/a*x=1")), 7);
    let searches = |path| key::searches(&key::primary("http", "h", path));
    assert!(purges.cover(&searches("/ab?x=2"), &head(6, "")));
    assert!(!purges.cover(&searches("/b?x=1"), &head(6, "")));
}

/// Of too many the older ones become their hosts' sites; those that name none become everything.
#[test]
fn too_many_expressions_become_wider_but_never_fewer() {
    let mut purges = Purges::default();
    let text = |n: usize| format!("*.site{n}.org/{n}/*.jpg");
    for n in 0..1_000 {
        purges.purge(Scope::Expression(&expression(&text(n))), 0);
    }
    let key = |n: usize| key::primary("http", &format!("a.site{n}.org"), &format!("/{n}/x.jpg"));
    for n in 0..1_000 {
        assert!(purges.cover(&key(n), &head(n as u64, "")), "{n}");
        assert!(!purges.cover(&key(n), &head(1_000, "")), "{n}");
    }
    assert!(!purges.cover(&key(1_000), &head(0, "")), "no other's harm");
    for n in 0..200 {
        purges.purge(Scope::Expression(&expression(&format!("/{n}/*"))), 0);
    }
    assert!(purges.cover(&key(1_000), &head(0, "")), "all before the older ones");
    assert!(!purges.cover(&key(1_000), &head(1_190, "")), "the newest are kept apart");
    assert!(purges.encode().len() <= Purges::MAX);
    assert_eq!(Purges::decode(&purges.encode()), Some(purges));
}

#[test]
fn what_is_purged_softly_is_stale_since_then_and_not_purged() {
    let key = key::primary("http", "h", "/a");
    let mut purges = Purges::default();
    purges.purge_softly(Scope::Url("http://h/a"), 50_000);
    purges.purge_softly(Scope::Host("other"), 60_000);
    let mut held = head(0, "");
    assert_eq!((purges.cover(&key, &held), purges.cover_softly(&key, &held)), (false, Some(50_000)));
    assert_eq!(purges.cover_softly(&key, &head(50_000, "")), None, "asked for afterwards");
    assert_eq!(purges.cover_softly(&key::primary("http", "h", "/ab"), &held), None);
    // Received at 1, for 60 seconds.
    held.expire(50);
    assert_eq!((held.lifetime(), held.is_fresh(50), held.age(51)), (49, false, 50));
    assert_eq!((held.is_fresh(10), held.age(10), held.ttl(10)), (false, 49, 0), "the clock was set back");
    let asked = Asked::of(&Method::GET, &HeaderMap::new());
    assert!(matches!(cache::judge(&asked, &held, 10), Verdict::Stale(_)));
    assert_eq!(Head::decode(&held.encode()).as_ref(), Some(&held));
    held.expire(1_000);
    assert_eq!(held.lifetime(), 49, "nothing makes it fresh for longer");

    // Of several that one counts which made it stale.
    purges.purge_softly(Scope::Host("h"), 70_000);
    purges.purge_softly(Scope::Prefix("http://h/"), 80_000);
    purges.purge_softly(Scope::Prefix("http://h/a"), 90_000);
    let since = |known| purges.cover_softly(&key, &head(known, ""));
    assert_eq!(
        [0, 50_000, 70_000, 80_000, 90_000].map(since),
        [Some(50_000), Some(70_000), Some(80_000), Some(90_000), None]
    );

    // Neither makes the other softer, in whatever order.
    let before = head(0, "");
    purges.purge(Scope::Host("h"), 0);
    purges.purge_softly(Scope::All, 0);
    assert!(purges.cover(&key, &before) && purges.cover_softly(&key, &before).is_some());
    assert_eq!(Purges::decode(&purges.encode()).as_ref(), Some(&purges));
    purges.purge(Scope::All, 0);
    assert_eq!(purges.cover_softly(&key, &head(purges.newest() - 1, "")), None, "there is nothing left");
}

#[test]
fn too_many_soft_purges_leave_the_others_alone() {
    let mut purges = Purges::default();
    purges.purge(Scope::Host("h"), 0);
    for n in 0..5_000 {
        purges.purge_softly(Scope::Url(&format!("http://h.site{n}.example{n}/{}", "x".repeat(60))), 0);
    }
    let key =
        |n: usize| key::primary("http", &format!("h.site{n}.example{n}"), &format!("/{}", "x".repeat(60)));
    for n in 0..5_000 {
        assert!(purges.cover_softly(&key(n), &head(n as u64, "")).is_some(), "{n}");
        assert!(!purges.cover(&key(n), &head(0, "")), "{n}");
    }
    assert_eq!(purges.cover_softly(&key(1), &head(purges.newest() - 1, "")), None);
    assert!(purges.cover(&key::primary("http", "h", "/"), &head(0, "")));
    assert!(purges.encode().len() <= Purges::MAX, "{}", purges.encode().len());
    assert_eq!(Purges::decode(&purges.encode()), Some(purges));
}

/// Who may purge URLs softly may not make everything stale, nor a whole origin.
#[test]
fn soft_purges_of_urls_leave_other_urls_alone() {
    let stale = |purges: &Purges, host: &str| {
        let key = |n: usize| key::primary("http", host, &format!("/other{n}"));
        (0..1_000).filter(|n| purges.cover_softly(&key(*n), &head(0, "")).is_some()).count()
    };
    let long = format!("http://h/{}", "x".repeat(60_000));
    let mut purges = Purges::default();
    purges.purge_softly(Scope::Url("http://h/a"), 0);
    purges.purge_softly(Scope::Url(&long), 0);
    let path = &long["http://h".len()..];
    assert_eq!(purges.cover_softly(&key::primary("http", "h", path), &head(0, "")), Some(2));
    assert!(stale(&purges, "h") < 10);
    assert_eq!(purges.cover_softly(&key::primary("http", "h", "/b"), &head(0, "")), None);

    purges.purge_softly(Scope::Host("the-operators"), 0);
    for n in 0..1_000 {
        purges.purge_softly(Scope::Url(&format!("http://h/{n}/{}", "x".repeat(60))), 0);
    }
    for n in 0..1_000 {
        let key = key::primary("http", "h", &format!("/{n}/{}", "x".repeat(60)));
        assert!(purges.cover_softly(&key, &head(3 + n, "")).is_some(), "{n}");
    }
    assert!(stale(&purges, "h") < 500 && stale(&purges, "g") < 500, "those in the same buckets");
    assert_eq!(stale(&purges, "the-operators"), 1_000);
    assert!(purges.encode().len() <= Purges::MAX);
    assert_eq!(Purges::decode(&purges.encode()), Some(purges));
}

#[derive(Clone, Debug)]
enum Plain {
    All,
    Host(String),
    Origin(String),
    Prefix(String),
    Path(String),
    PathPrefix(String),
    Group(Option<String>, String),
}

fn scope() -> impl Strategy<Value = Plain> {
    let host = "[ab](:8)?";
    prop_oneof![
        1 => Just(Plain::All),
        4 => "[ab]".prop_map(Plain::Host),
        4 => host.prop_map(|h| Plain::Origin(format!("http://{h}"))),
        4 => (host, "/[xy/]{0,3}").prop_map(|(h, p)| Plain::Prefix(format!("http://{h}{p}"))),
        2 => "/[xy/]{0,3}".prop_map(Plain::Path),
        2 => "/[xy/]{0,3}".prop_map(Plain::PathPrefix),
        4 => (proptest::option::of(host), "[gk]")
            .prop_map(|(h, g)| Plain::Group(h.map(|h| format!("http://{h}")), g)),
    ]
}

impl Plain {
    fn scope(&self) -> Scope<'_> {
        match self {
            Plain::All => Scope::All,
            Plain::Host(host) => Scope::Host(host),
            Plain::Origin(origin) => Scope::Origin(origin),
            Plain::Prefix(prefix) => Scope::Prefix(prefix),
            Plain::Path(path) => Scope::Path(path),
            Plain::PathPrefix(prefix) => Scope::PathPrefix(prefix),
            Plain::Group(origin, name) => Scope::Group { origin: origin.as_deref(), name },
        }
    }

    fn covers(&self, host: &str, path: &str, group: &str) -> bool {
        match self {
            Plain::All => true,
            Plain::Host(name) => name == host.split(':').next().unwrap(),
            Plain::Origin(origin) => *origin == format!("http://{host}"),
            Plain::Prefix(prefix) => format!("http://{host}{path}").starts_with(prefix),
            Plain::Path(purged) => purged == path,
            Plain::PathPrefix(prefix) => path.starts_with(prefix),
            Plain::Group(origin, name) => {
                name == group && origin.as_ref().is_none_or(|origin| *origin == format!("http://{host}"))
            }
        }
    }
}

proptest! {
    #[test]
    fn purges_cover_what_the_list_covers(
        list in proptest::collection::vec((scope(), 0u64..40), 0..12),
        host in "[ab](:8)?", path in "/[xy/]{0,3}", group in "[gk]", known_of in 0usize..12,
    ) {
        let mut purges = Purges::default();
        let mut known = 0;
        for (n, (scope, now)) in list.iter().enumerate() {
            if n == known_of {
                known = purges.newest();
            }
            purges.purge(scope.scope(), *now);
        }
        let known = if known_of >= list.len() { purges.newest() } else { known };
        let later = list.iter().skip(known_of);
        let expected = later.into_iter().any(|(scope, _)| scope.covers(&host, &path, &group));
        let key = key::primary("http", &host, &path);
        prop_assert_eq!(purges.cover(&key, &head(known, &format!("\"{group}\""))), expected);
        prop_assert_eq!(Purges::decode(&purges.encode()), Some(purges));
    }

    #[test]
    fn any_bytes_are_purges_or_not(bytes: Vec<u8>) {
        if let Some(purges) = Purges::decode(&bytes) {
            prop_assert_eq!(Purges::decode(&purges.encode()), Some(purges));
        }
    }
}
