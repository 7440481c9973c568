//! Which links a plan never has, whatever rules say of them, and when two spellings are one link.

use super::LeftOut;
use std::borrow::Cow;

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
    (!is_one_word || !is_server(trace::host(url))).then_some(LeftOut::NotHttp)
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
