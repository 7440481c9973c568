//! Which links a plan never has, whatever rules say of them, and when two spellings are one link.

use super::LeftOut;
use crate::candidate::has_query;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

/// Words of a parameter's name which say that its value is secret, or somebody's own.
const SECRET: [&str; 32] = [
    "apikey",
    "auth",
    "authorization",
    "code",
    "credential",
    "csrf",
    "hmac",
    "jsessionid",
    "jwt",
    "key",
    "login",
    "nonce",
    "otp",
    "pass",
    "passwd",
    "password",
    "phpsessid",
    "pin",
    "pw",
    "pwd",
    "sas",
    "secret",
    "sess",
    "session",
    "sessionid",
    "sid",
    "sig",
    "signature",
    "sso",
    "ticket",
    "token",
    "xsrf",
];
/// Those that say so in longer words too.
const WITHIN: [&str; 9] =
    ["token", "secret", "passw", "pwd", "sess", "credential", "signature", "apikey", "accesskey"];
/// Endings of names of programs.
const PROGRAMS: [&str; 14] = [
    "asp", "aspx", "ashx", "asmx", "cfm", "cgi", "fcgi", "jsp", "jspx", "php", "php3", "php5", "phtml", "pl",
];
/// Layers of percent-encoding that are taken off.
const LAYERS: usize = 3;

/// Why a URL may never be fetched by a plan, whatever a judge says of it.
pub fn refused(url: &str) -> Option<LeftOut> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Some(LeftOut::NotHttp);
    }
    if carries_credentials(url) {
        return Some(LeftOut::Credentials);
    }
    let is_one_word = url.chars().all(|character| character != ' ' && trace::is_harmless(character));
    let server = trace::host(url);
    match is_one_word && is_server(server) {
        false => Some(LeftOut::NotHttp),
        true => is_private(host_and_port(server).0).then_some(LeftOut::Private),
    }
}

/// Whether a link has a query, or names a program: by its folder, or by the ending of a name in its path.
pub fn asks_program(url: &str) -> bool {
    let url = spelling(url);
    let path =
        url.split_once("://").map_or("", |(_, rest)| rest).split(['?', ';']).next().unwrap_or_default();
    let is_program = |name: &str| {
        name.rsplit_once('.')
            .is_some_and(|(_, ending)| PROGRAMS.iter().any(|one| ending.eq_ignore_ascii_case(one)))
    };
    has_query(&url) || path.split('/').skip(1).any(is_program)
}

/// One spelling for all of a link (RFC 3986, sections 6.2.2 and 6.2.3): scheme and host in lower case, no port that the scheme has
/// anyhow, no full stop behind the host, no dot segments, no escapes of what needs none, no fragment.
pub fn spelling(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let scheme = scheme.to_ascii_lowercase();
    let (host, port) = host_and_port(authority);
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let default = if scheme == "https" { "443" } else { "80" };
    let port = if port.is_empty() || port == default { String::new() } else { format!(":{port}") };
    let mut segments: Vec<Cow<str>> = Vec::new();
    let path = without_escapes(path);
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                // `/a/..` is a folder, as `/` is.
                segments.extend(is_last.then_some(Cow::Borrowed("")));
            }
            part => segments.push(part.into()),
        }
    }
    format!("{scheme}://{host}{port}/{}{}", segments.join("/"), without_escapes(query))
}

/// Host and port of an authority without a user's name; what follows the last colon that is in no address in brackets.
fn host_and_port(authority: &str) -> (&str, &str) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, ""),
    }
}

/// Whether this is a host, and if there is a port, one from 1 to 65535.
fn is_server(authority: &str) -> bool {
    let (host, port) = host_and_port(authority);
    let is_port = port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_')),
    };
    is_port && is_host && host.chars().any(char::is_alphanumeric)
}

/// Whether a host is this machine or of its network by its name alone: `localhost`, or an address that is not a global one. What is only meant as an
/// address, as `127.1` is, counts as one that is not.
fn is_private(host: &str) -> bool {
    let host = host.trim_end_matches('.').trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let last = host.rsplit('.').next().unwrap_or_default();
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => is_private_v4(address),
        Ok(IpAddr::V6(address)) => {
            let [first, ..] = address.segments();
            // fc00::/7 (RFC 4193), fe80::/10 (RFC 4291, 2.5.6), ff00::/8.
            first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80 || first >= 0xff00 || first == 0
        }
        Err(_) if host.contains(':') => false,
        Err(_) => last == "localhost" || is_number(last),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    // 0.0.0.0/8, 100.64.0.0/10 (RFC 6598), and from 224.0.0.0 on.
    let is_special = first == 0 || (first == 100 && second & 0xc0 == 64) || first >= 224;
    is_special || address.is_private() || address.is_loopback() || address.is_link_local()
}

/// As parsers of addresses read numbers: decimal, octal or hexadecimal.
fn is_number(text: &str) -> bool {
    match text.strip_prefix("0x") {
        None if text.is_empty() => false,
        Some(digits) => digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => text.bytes().all(|digit| digit.is_ascii_digit()),
    }
}

/// A user's name before a host, of this URL or of one in it, or a parameter whose name says that its value is secret.
fn carries_credentials(url: &str) -> bool {
    let after = unescaped(url.find("://").map_or(url, |at| &url[at + 3..]));
    let authorities = after.split("//").filter_map(|url| url.split(['/', '?', '#']).next());
    if authorities.into_iter().any(|authority| authority.contains('@')) {
        return true;
    }
    // What follows such a sign is a parameter; what follows a slash, only if it has a value.
    let named = after.split_inclusive(['?', '&', ';', '#', '/', ',']);
    let before = std::iter::once('/').chain(named.clone().filter_map(|part| part.chars().next_back()));
    let mut parameters = named.zip(before).skip(1).filter_map(|(part, before)| match part.split_once('=') {
        Some((name, _)) => Some(name),
        None if matches!(before, '/' | ',') => None,
        None => Some(part),
    });
    parameters.any(is_secret)
}

/// `access_token`, `accessToken`, `key[token]`; not `author`, `monkey`.
fn is_secret(name: &str) -> bool {
    let joined: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let mut words = vec![String::new()];
    let mut was_small = false;
    for character in name.chars() {
        if !character.is_ascii_alphabetic() || (was_small && character.is_ascii_uppercase()) {
            words.push(String::new());
        }
        was_small = character.is_ascii_lowercase();
        if character.is_ascii_alphabetic() {
            words.last_mut().expect("begins with one").push(character.to_ascii_lowercase());
        }
    }
    SECRET.contains(&joined.as_str())
        || words.iter().any(|word| SECRET.contains(&word.as_str()))
        || WITHIN.iter().any(|word| joined.contains(word))
}

/// With `%74` read as `t`, also where that is escaped once more. What is no text counts as something else.
fn unescaped(url: &str) -> String {
    let mut text = url.to_owned();
    for _ in 0..LAYERS {
        if !text.contains('%') {
            break;
        }
        text = decoded(&text, |_| true);
    }
    text
}

/// Without escapes of what RFC 3986 section 2.3 calls unreserved.
fn without_escapes(text: &str) -> String {
    decoded(text, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

fn decoded(text: &str, which: impl Fn(u8) -> bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = rest.strip_prefix(b"%").and_then(|code| std::str::from_utf8(code.get(..2)?).ok());
        let code = code.filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if which(byte) => (bytes.push(byte), rest = &behind[2..]).0,
            Some(_) => {
                bytes.extend(rest[..3].to_ascii_uppercase());
                rest = &behind[2..];
            }
            None => (bytes.push(*first), rest = behind).0,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_however_they_are_written() {
        for parameter in [
            "%74oken=1",
            "t%6fken=1",
            "accessToken=1",
            "refreshToken=1",
            "access_token=1",
            "token[]=1",
            "key[token]=1",
            "+token=1",
            "a=1%26token=2",
            "pwd=1",
            "user=bob&pw=1",
            "userPw=1",
            "sess=1",
            "otp=1",
            "ticket=1",
            "sas=1",
            "hmac=1",
            "nonce=1",
            "csrf=1",
            "login=1",
            "a=1&X-Amz-Signature=3",
            "next=http://u:p@b.test/",
            "next=//u:p@b.test/",
            "redirect=https%3A%2F%2Fu%3Ap%40b.test%2F",
            "redirect=https%253A%252F%252Fu%253Ap%2540b.test",
            "token",
            "key1=x",
        ] {
            let url = format!("http://a.test/x?{parameter}");
            assert_eq!(refused(&url), Some(LeftOut::Credentials), "{url}");
        }
        for url in [
            "http://u@a.test/",
            "http://u:p%40a.test/x",
            "https://u0&:p@b.test:4040/",
            "http://a.test/x;jsessionid=2",
            "http://a.test/x;user=me;pwd=1",
            "http://a.test/session=abc/x",
            "http://a.test/%3Ftoken=1",
        ] {
            assert_eq!(refused(url), Some(LeftOut::Credentials), "{url}");
        }
    }

    #[test]
    fn what_is_in_our_own_network_is_left_out() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "www.localhost:81",
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "2130706433",
            "0",
            "10.1.2.3:8080",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "[::1]",
            "[fe80::1]",
            "[fd00::1]",
            "[::ffff:10.0.0.1]",
        ] {
            assert_eq!(refused(&format!("http://{host}/x")), Some(LeftOut::Private), "{host}");
        }
        for host in [
            "a.localhost.test",
            "8.8.8.8",
            "100.128.0.1",
            "172.32.0.1",
            "[2001:db8::1]",
            "1.test",
            "fe80.test",
        ] {
            assert_eq!(refused(&format!("http://{host}/x")), None, "{host}");
        }
    }

    #[test]
    fn programs_are_known_by_their_names() {
        for url in [
            "/x?a",
            "/CGI-BIN/x",
            "/x;y",
            "/x.cgi",
            "/x.PL",
            "/a/x.php/more",
            "/x%2ephp",
            "/x.jsp;y",
            "/index.aspx",
        ] {
            assert!(asks_program(&format!("http://a.test{url}")), "{url}");
        }
        for url in ["/", "/x.html", "/php", "/x.plain", "/cgi/x.gif", ""] {
            assert!(!asks_program(&format!("http://a.php{url}")), "{url}");
        }
    }

    #[test]
    fn what_is_no_secret_passes() {
        for url in [
            "http://a.test/token",
            "http://a.test/token/x%2",
            "http://a.test/?page=3&monkey=1&author=2",
            "http://a.test/?next=/token/x&pinned=1",
            "HTTPS://a.test:8443/@me",
            "http://[2001:db8::1]:81/icon@2x.png",
            "http://bücher.test/a,b",
        ] {
            assert_eq!(refused(url), None, "{url}");
        }
    }

    #[test]
    fn what_is_no_link_of_http_is_refused() {
        for url in [
            "",
            "a.test/x",
            "http:///x",
            "http://a.test/a b",
            "http://a.test/\u{202e}b",
            "javascript://a.test/",
            "mailto:a@b",
            "http:/u:p@a.test/",
            "http://a.test:99999/x",
            "http://a.test:0/x",
            "http://a.test:x/",
            "http://a.test;x",
            "http://[::1/x",
            "http://[x]/",
            "http://./",
            "http://:80/",
        ] {
            assert_eq!(refused(url), Some(LeftOut::NotHttp), "{url}");
        }
    }

    #[test]
    fn spellings_of_one_link_are_alike() {
        let one = spelling("http://a.test/ok.html");
        for same in [
            "HTTP://A.TEST/ok.html",
            "http://a.test:80/ok.html",
            "http://a.test:/ok.html",
            "http://a.test./ok.html",
            "http://a.test/./ok.html",
            "http://a.test/x/../ok.html",
            "http://a.test/%6fk.html#part",
        ] {
            assert_eq!(spelling(same), one, "{same}");
        }
        for other in [
            "https://a.test/ok.html",
            "http://a.test:8080/ok.html",
            "http://a.test/OK.html",
            "http://a.test//ok.html",
            "http://a.test/ok.html/",
            "http://a.test/ok.html?",
            "http://a.test/ok%2Ehtml%2f",
            "http://b.test/ok.html",
        ] {
            assert_ne!(spelling(other), one, "{other}");
        }
        assert_eq!(spelling("http://a.test"), spelling("http://a.test/."));
        assert_eq!(spelling("http://a.test/a/b/.."), "http://a.test/a/");
        assert_eq!(spelling("https://[::1]:443/%2f?b=%7e"), "https://[::1]/%2F?b=~");
    }
}
