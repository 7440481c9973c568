//! Changes of protocol that can pass through an intermediary (RFC 9110 section 7.8).

use crate::hop::is_nominated;
use crate::list::members_of;
use http::HeaderMap;
use http::header::UPGRADE;

/// The protocols that a request asks for and that two hops can share: what follows is bytes between client and origin.
///
/// HTTP in another version and TLS are spoken hop by hop: behind a tunnel to one of them a client would speak to the
/// origin past whoever has to look at its requests. What is no `name[/version]` could be read as something else.
pub fn upgrades(request: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let asks = request.contains_key(UPGRADE) && is_nominated(request, &UPGRADE);
    members_of(request, UPGRADE).filter(move |protocol| asks && passes_through(protocol))
}

/// Whether a 101 changes to protocols that the request asked for as above, and to nothing else.
pub fn is_asked_upgrade(request: &HeaderMap, switching: &HeaderMap) -> bool {
    let is_asked = |protocol: &[u8]| upgrades(request).any(|asked| asked.eq_ignore_ascii_case(protocol));
    let mut protocols = members_of(switching, UPGRADE).peekable();
    protocols.peek().is_some() && protocols.all(is_asked)
}

fn passes_through(protocol: &[u8]) -> bool {
    let mut parts = protocol.split(|byte| *byte == b'/');
    let (name, version) = (parts.next().unwrap_or_default(), parts.next());
    let begins = |with: &[u8]| name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    let hop_by_hop = ["http", "tls"].iter().any(|hop| name.eq_ignore_ascii_case(hop.as_bytes()))
        || ["h2", "h3"].iter().any(|hop| begins(hop.as_bytes()));
    is_token(name) && version.is_none_or(is_token) && parts.next().is_none() && !hop_by_hop
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header::CONNECTION};

    fn fields(connection: &'static str, upgrade: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static(connection));
        for line in upgrade {
            headers.append(UPGRADE, HeaderValue::from_static(line));
        }
        headers
    }

    #[test]
    fn only_what_two_hops_can_share_goes_on() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("upgrade", &["websocket"], &["websocket"]),
            ("keep-alive, Upgrade", &["WebSocket, IRC/6.9"], &["WebSocket", "IRC/6.9"]),
            ("close", &["websocket"], &[]),
            ("upgrade", &["h2c"], &[]),
            ("upgrade, http2-settings", &["h2c, websocket"], &["websocket"]),
            ("upgrade", &["websocket ,\tH2C", "h2", "x"], &["websocket", "x"]),
            ("upgrade", &["HTTP/2.0, http/3, HTTP, h3, h3-29, h2c-14, TLS/1.0, tls"], &[]),
            ("upgrade", &["\"a, h2c\", ws;h2c, h2c/1, a/b/c, a/, /b, a b"], &[]),
            ("upgrade", &["\"h2c, websocket"], &["websocket"]),
            ("upgrade", &["hx, hash/1"], &["hx", "hash/1"]),
        ];
        for (connection, lines, expected) in table {
            let headers = fields(connection, lines);
            let found: Vec<&str> = upgrades(&headers).map(|m| std::str::from_utf8(m).unwrap()).collect();
            assert_eq!(found, *expected, "{connection}: {lines:?}");
        }
    }

    #[test]
    fn a_101_is_for_what_was_asked() {
        let asked = fields("upgrade", &["h2c, websocket, irc/1"]);
        let table: &[(&[&str], bool)] = &[
            (&["WebSocket"], true),
            (&["irc/1, websocket"], true),
            (&["h2c"], false),
            (&["websocket", "h2c"], false),
            (&["irc"], false),
            (&[""], false),
            (&[], false),
        ];
        for (lines, accepted) in table {
            assert_eq!(is_asked_upgrade(&asked, &fields("upgrade", lines)), *accepted, "{lines:?}");
        }
        assert!(!is_asked_upgrade(&fields("close", &["websocket"]), &fields("upgrade", &["websocket"])));
    }
}
