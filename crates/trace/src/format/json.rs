//! Cosm's own access log as JSON: an object a line, with the fields that docs/access-log.md lists.
//!
//! It says what the cache made of each response: what that could not store, no cache could, whatever its URL looks like. Tunnels are
//! left out.

use super::{Format, Kept, Parser, Writer, first_line, seconds, write_seconds};
use crate::{Access, Method, hash};
use serde_json::{Map, Value, json};

pub const FORMAT: Format = Format {
    name: "json",
    about: "Cosm's access log as JSON",
    begins: |bytes| Json.parse(first_line(bytes), &mut Access::default()).is_ok(),
    parser: || Box::new(Json),
    writer: || Box::new(Json),
};

/// In Cache-Status: why something was not stored that another cache might have stored.
const REFUSED: [&str; 4] = ["detail=not-admitted", "detail=too-large", "detail=busy", "detail=no-room"];

struct Json;

impl Parser for Json {
    fn parse(&mut self, line: &[u8], access: &mut Access) -> Result<Kept, String> {
        let row: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| format!("no JSON object: {error}"))?;
        let text = |name: &str| row.get(name).and_then(Value::as_str);
        let number = |name: &str| row.get(name).and_then(Value::as_u64);
        let lacks = |name: &str| format!("there is no `{name}`");
        let time = row.get("time_unix").ok_or_else(|| lacks("time_unix"))?;
        access.time = seconds(time.to_string().as_bytes())?;
        access.client = text("client").map_or(0, |client| hash(client.as_bytes()));
        let status = number("status").ok_or_else(|| lacks("status"))?;
        access.status = u16::try_from(status).map_err(|_| format!("`{status}` is no status"))?;
        access.method = Method::of(text("method").ok_or_else(|| lacks("method"))?.as_bytes());
        // What broke off is as large as it was to be.
        access.size = number("size").or(number("bytes")).ok_or_else(|| lacks("bytes"))?;
        access.modified = number("modified").unwrap_or(0);
        // Of what could not be read as a request there is no URL.
        let Some(url) = text("url") else { return Ok(Kept::No) };
        access.set_url(url.as_bytes());
        access.dynamic = !is_for_caches(text("outcome"), text("cache_status"));
        let is_tunnel = row.get("tunnel").and_then(Value::as_bool) == Some(true);
        Ok(if is_tunnel { Kept::No } else { Kept::Yes })
    }
}

/// Whether a cache could answer with the response.
fn is_for_caches(outcome: Option<&str>, status: Option<&str>) -> bool {
    let (Some(outcome), Some(status)) = (outcome, status) else { return false };
    let mut parameters = status.split("; ");
    match outcome.split('-').next() {
        Some("pass") => false,
        Some("miss") => {
            parameters.any(|one| ["stored", "collapsed"].contains(&one) || REFUSED.contains(&one))
        }
        _ => true,
    }
}

impl Writer for Json {
    fn write(&mut self, access: &Access, _next: Option<u64>, into: &mut Vec<u8>) {
        into.extend_from_slice(b"{\"time_unix\":");
        write_seconds(access.time, 6, into);
        let mut url = Vec::new();
        access.write_url(&mut url);
        let cache_status = if access.dynamic { "cosm; fwd=uri-miss" } else { "cosm; fwd=uri-miss; stored" };
        let Access { client, size, method, modified, .. } = access;
        let status = if access.status == 0 { 200 } else { access.status };
        for (name, value) in [
            ("client", json!(format!("c{client}"))),
            ("method", json!(method.name())),
            ("url", json!(String::from_utf8_lossy(&url))),
            ("status", json!(status)),
            ("outcome", json!("miss")),
            ("cache_status", json!(cache_status)),
            ("bytes", json!(size)),
            ("modified", json!((*modified > 0).then_some(modified))),
        ] {
            into.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
        }
        into.extend_from_slice(b"}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: &str) -> (Result<Kept, String>, Access) {
        let mut access = Access::default();
        let line = format!(
            "{{\"time_unix\":1700000000.125,\"client\":\"10.0.0.1\",\"method\":\"GET\",\"url\":\"http://a.test/x?y=\\u0022\",\
             \"status\":200,\"bytes\":7{more}}}"
        );
        (Json.parse(line.as_bytes(), &mut access), access)
    }

    #[test]
    fn a_line_is_taken_apart() {
        let (kept, access) = read(",\"outcome\":\"hit\",\"cache_status\":\"cosm; hit; ttl=5\",\"size\":null");
        assert_eq!(kept, Ok(Kept::Yes));
        assert_eq!((access.time, access.status, access.size), (1_700_000_000_125_000, 200, 7));
        assert_eq!((access.url.as_str(), access.dynamic), ("http://a.test/x?y=\"", false));
        assert_eq!((access.unusable(), access.modified), (None, 0));
        assert_eq!(read(",\"modified\":null").1.modified, 0);
        assert_eq!(read(",\"modified\":1699999999").1.modified, 1_699_999_999);
        assert_eq!(read(",\"size\":900,\"complete\":false").1.size, 900);
        assert_eq!(read(",\"tunnel\":true").0, Ok(Kept::No));
        for wrong in ["", "[1]", "{}", "{\"time_unix\":1}", "{\"time_unix\":\"x\"}", "{\"time_unix\":1.5,"] {
            assert!(Json.parse(wrong.as_bytes(), &mut Access::default()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_the_cache_could_not_store_no_cache_can() {
        for (outcome, status, is_for_caches) in [
            ("hit", "cosm; hit; ttl=5", true),
            ("hit-stale", "cosm; hit; detail=max-stale", true),
            ("revalidated", "cosm; fwd=stale; fwd-status=304", true),
            ("stale-on-error", "cosm; fwd=stale; detail=stale-on-error", true),
            ("miss", "cosm; fwd=uri-miss; stored", true),
            ("miss-expired", "cosm; fwd=stale; fwd-status=200; stored", true),
            ("miss", "cosm; fwd=uri-miss; collapsed", true),
            ("miss", "cosm; fwd=uri-miss; detail=not-admitted", true),
            ("miss", "cosm; fwd=uri-miss; detail=private", false),
            ("miss", "cosm; fwd=uri-miss", false),
            ("pass-no-store", "cosm; fwd=bypass; detail=no-store", false),
        ] {
            let (_, access) = read(&format!(",\"outcome\":\"{outcome}\",\"cache_status\":\"{status}\""));
            assert_eq!(access.unusable().is_none(), is_for_caches, "{outcome}, {status}");
        }
        assert!(read("").1.dynamic);
    }
}
