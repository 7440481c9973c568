//! Cache-Groups: lines of the input are lines of the field. Groups are few, short, distinct and what a plain reading
//! of plain strings says; written as strings they are read as the same; the field that ends them is read alike, and
//! only where it may.
#![no_main]

use cache::{groups, invalidated_groups};
use cosm_fuzz::values;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, response};
use libfuzzer_sys::fuzz_target;

static GROUPS: HeaderName = HeaderName::from_static("cache-groups");
static ENDS: HeaderName = HeaderName::from_static("cache-group-invalidation");

fuzz_target!(|data: &[u8]| {
    let headers = values(GROUPS.clone(), data);
    let found = groups(&headers);
    assert!(found.len() <= 32 && found.iter().all(|name| name.len() <= 32 && name.is_ascii()));
    assert!(found.iter().enumerate().all(|(i, name)| !found[..i].contains(name)));

    let written: Vec<_> = found.iter().map(|name| quoted(name)).collect();
    for written in [written.join(","), written.join(" ,\t")] {
        let line = HeaderValue::from_str(&written).expect("what a field can hold");
        assert_eq!(groups(&[(GROUPS.clone(), line)].into_iter().collect()), found);
    }
    if let Some(plain) = headers.get_all(&GROUPS).iter().map(plain).collect::<Option<Vec<_>>>() {
        let mut distinct = Vec::new();
        for name in plain.concat() {
            if name.len() <= 32 && !distinct.contains(&name) {
                distinct.push(name);
            }
        }
        distinct.truncate(32);
        assert_eq!(found, distinct);
    }

    let ends = headers.values().map(|line| (ENDS.clone(), line.clone())).collect::<HeaderMap>();
    assert!(groups(&ends).is_empty());
    let ended = |method: &Method, status| invalidated_groups(method, &answered(status, ends.clone()));
    assert_eq!(ended(&Method::POST, 200), found);
    assert_eq!(ended(&Method::DELETE, 303), found);
    assert!(ended(&Method::GET, 200).is_empty() && ended(&Method::POST, 500).is_empty());
});

fn answered(status: u16, headers: HeaderMap) -> response::Parts {
    let (mut parts, ()) = Response::new(()).into_parts();
    parts.status = StatusCode::from_u16(status).expect("a status");
    parts.headers = headers;
    parts
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A line of strings of letters and digits between commas.
fn plain(line: &HeaderValue) -> Option<Vec<String>> {
    let name = |member: &str| {
        let name = member.trim_matches([' ', '\t']).strip_prefix('"')?.strip_suffix('"')?;
        name.bytes().all(|b| b.is_ascii_alphanumeric()).then(|| name.to_owned())
    };
    // Tabs around a whole value are the message parser's to remove.
    let line = line.to_str().ok()?.trim_matches(' ');
    if line.starts_with('\t') || line.ends_with('\t') {
        return None;
    }
    line.split(',').map(name).collect()
}
