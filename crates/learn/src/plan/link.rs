//! Which links a plan never has, whatever rules say of them, and when two spellings are one link.

use super::LeftOut;
use crate::candidate::{unescaped, without_escapes};
use std::borrow::Cow;
use std::net::IpAddr;
use trace::host_and_port;

/// Words of a parameter's name which say that its value is secret, or somebody's own.
const SECRET: [&str; 51] = [
    "accesscode",
    "apikey",
    "appkey",
    "auth",
    "authkey",
    "authorization",
    "cfid",
    "code",
    "consumerkey",
    "cred",
    "creds",
    "credential",
    "csrf",
    "hmac",
    "jsessionid",
    "jwt",
    "key",
    "login",
    "mfa",
    "nonce",
    "otp",
    "pass",
    "passwd",
    "password",
    "pat",
    "phpsessid",
    "pin",
    "pincode",
    "privatekey",
    "pw",
    "pwd",
    "sas",
    "secret",
    "ses",
    "sess",
    "session",
    "sessionid",
    "sid",
    "sig",
    "signature",
    "skey",
    "ssid",
    "sso",
    "subscriptionkey",
    "tan",
    "ticket",
    "tok",
    "token",
    "ukey",
    "userpass",
    "xsrf",
];
/// Those that say so in longer words too.
const WITHIN: [&str; 16] = [
    "accesskey",
    "apikey",
    "assertion",
    "bearer",
    "cookie",
    "credential",
    "oauth",
    "passcode",
    "passphrase",
    "passw",
    "pwd",
    "saml",
    "secret",
    "sess",
    "signature",
    "token",
];
/// Names of folders whose next name is secret.
const BEFORE: [&str; 8] =
    ["apikey", "jsessionid", "passwd", "password", "phpsessid", "secret", "sessionid", "token"];
/// What is no address of a server on the Internet: IANA's registries of special-purpose addresses (RFC 6890), multicast, and of IPv6 all but global
/// unicast (RFC 4291, 2.4).
const SPECIAL: [(&str, u32); 27] = [
    ("0.0.0.0", 8),
    ("10.0.0.0", 8),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("169.254.0.0", 16),
    ("172.16.0.0", 12),
    ("192.0.0.0", 24),
    ("192.0.2.0", 24),
    ("192.31.196.0", 24),
    ("192.52.193.0", 24),
    ("192.88.99.0", 24),
    ("192.168.0.0", 16),
    ("192.175.48.0", 24),
    ("198.18.0.0", 15),
    ("198.51.100.0", 24),
    ("203.0.113.0", 24),
    ("224.0.0.0", 4),
    ("240.0.0.0", 4),
    ("::", 3),
    ("4000::", 2),
    ("8000::", 1),
    ("2001::", 23),
    ("2001:db8::", 32),
    ("2002::", 16),
    ("2620:4f:8000::", 48),
    ("3ffe::", 16),
    ("3fff::", 20),
];

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

/// One spelling for all of a link (RFC 3986, sections 6.2.2 and 6.2.3): beside that of the cache's keys no full stop behind the host, no dot
/// segments, no escapes of what needs none. Origins are free to tell these apart; a plan asks for one of them.
pub fn spelling(url: &str) -> String {
    let url = trace::spelling(url);
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let (host, port) = authority.split_at(host_and_port(authority).0.len());
    let host = host.trim_end_matches('.');
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

/// Whether this is a host, and if there is a port, one from 1 to 65535. Characters beyond ASCII may stand for others, also for those of an address
/// (UTS 46): of such a host, its name in ASCII (`xn--`) is one.
fn is_server(authority: &str) -> bool {
    let (host, port) = host_and_port(authority);
    let is_port = port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')),
    };
    is_port && is_host && host.chars().any(|c| c.is_ascii_alphanumeric())
}

/// Whether a host is this machine or of its network by its name alone: `localhost`, or an address that is not a global one. What is only meant as an
/// address, as `127.1` is, counts as one that is not.
fn is_private(host: &str) -> bool {
    let host = host.trim_end_matches('.').trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let last = host.rsplit('.').next().unwrap_or_default();
    match host.parse() {
        Ok(address) => is_special(address),
        Err(_) if host.contains(':') => false,
        Err(_) => last == "localhost" || is_number(last),
    }
}

fn is_special(address: IpAddr) -> bool {
    let (bits, width) = bits(address);
    SPECIAL.iter().any(|(network, length)| {
        let (network, of_width) = self::bits(network.parse().expect("an address"));
        width == of_width && (bits ^ network) >> (width - length) == 0
    })
}

/// And how many they are.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), u32::BITS),
        IpAddr::V6(address) => (address.to_bits(), u128::BITS),
    }
}

/// As parsers of addresses read numbers: decimal, octal or hexadecimal.
fn is_number(text: &str) -> bool {
    match text.strip_prefix("0x") {
        None if text.is_empty() => false,
        Some(digits) => digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => text.bytes().all(|digit| digit.is_ascii_digit()),
    }
}

/// A user's name before a host, of this URL or of one in it, or a parameter or a folder whose name says that its value is secret. What is escaped
/// without an end may be either.
fn carries_credentials(url: &str) -> bool {
    let behind = |url: &str| url.split_once("://").map_or(0, |(scheme, _)| scheme.len() + 3);
    // A slash that is escaped ends no authority.
    if url[behind(url)..].split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
        return true;
    }
    let Some(url) = unescaped(url) else { return true };
    let after = &url[behind(&url)..];
    let mut authorities = after.split("//").filter_map(|url| url.split(['/', '?', '#']).next());
    let rest = &after[after.find(['/', '?', '#']).unwrap_or(after.len())..];
    let has_password = rest.find(':').zip(rest.rfind('@')).is_some_and(|(colon, at)| colon < at);
    if has_password || authorities.any(|authority| authority.contains('@')) {
        return true;
    }
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let folders: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if folders.windows(2).any(|two| BEFORE.contains(&joined(two[0]).as_str())) {
        return true;
    }
    // What follows such a sign is a parameter; what follows a slash, only if it has a value.
    let named = after.split_inclusive(['?', '&', ';', '#', '/', ',']);
    let before = std::iter::once('/').chain(named.clone().filter_map(|part| part.chars().next_back()));
    named.zip(before).skip(1).any(|(part, before)| {
        let end = part.rfind(['=', ':']).or((!matches!(before, '/' | ',')).then_some(part.len()));
        end.is_some_and(|end| part[..end].split(['=', ':']).any(is_secret))
    })
}

/// Its letters and digits, in lower case.
fn joined(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// `access_token`, `accessToken`, `key[token]`; not `author`, `monkey`.
fn is_secret(name: &str) -> bool {
    let joined = joined(name);
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
            "passphrase=1",
            "passcode=1",
            "pincode=1",
            "authkey=1",
            "appkey=1",
            "privatekey=1",
            "subscriptionkey=1",
            "consumerkey=1",
            "skey=1",
            "oauth=1",
            "oauth_verifier=1",
            "bearer=1",
            "SAMLResponse=1",
            "assertion=1",
            "cookie=1",
            "cfid=1",
            "ssid=1",
            "ses=1",
            "userpass=1",
            "tan=1",
            "mfa=1",
            "url=https:/u:p@b.test/",
            "u=bob:pw@b.test/",
            "%2525252574oken=1",
            "%252525252525252525252525252525252525252574oken=1",
            "a=token:1",
            "next=http://u:p%2F@b.test/",
            "a=1|token=2",
            "a=1%20token=2",
            "a=1+token=2",
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
            "http://a.test/https:/u:p@b.test/",
            "http://a.test/x=token:abc",
            "http://a.test/token/abc",
            "http://a.test/%74oken%2Fabc",
            "http://me:pa%2Fss@bank.test/",
            "http://u%3F@a.test/x",
            "http://%2F@a.test/",
            "http://a.test/go/https:u:p@b.test",
            "http://a.test/go/http:%5C%5Cu:p@b.test/x",
            "http://a.test/go///u:p@b.test/x",
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
        ] {
            assert_eq!(refused(&format!("http://{host}/x")), Some(LeftOut::Private), "{host}");
        }
        for host in [
            "a.localhost.test",
            "8.8.8.8",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "[2001:200::1]",
            "[2606:4700::1]",
            "1.test",
            "fe80.test",
        ] {
            assert_eq!(refused(&format!("http://{host}/x")), None, "{host}");
        }
    }

    #[test]
    fn all_special_purpose_addresses_are_left_out() {
        // One of each range of the registries.
        for host in [
            "0.1.2.3",
            "10.1.2.3",
            "100.127.255.255",
            "127.255.0.1",
            "169.254.169.254",
            "172.31.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.31.196.1",
            "192.52.193.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.175.48.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.5",
            "239.0.0.1",
            "255.255.255.255",
            "[0::]",
            "[::1]",
            "[::7f00:1]",
            "[::ffff:10.0.0.1]",
            "[::ffff:8.8.8.8]",
            "[64:ff9b::7f00:1]",
            "[64:ff9b::a00:1]",
            "[64:ff9b:1::1]",
            "[100::1]",
            "[100:0:0:1::1]",
            "[2001::1]",
            "[2001:20::1]",
            "[2001:1ff::1]",
            "[2001:db8::1]",
            "[2002:7f00:1::1]",
            "[2620:4f:8000::1]",
            "[3ffe::1]",
            "[3fff:fff::1]",
            "[5f00::1]",
            "[fd00::1]",
            "[fe80::1]",
            "[fec0::1]",
            "[ff02::1]",
        ] {
            assert_eq!(refused(&format!("http://{host}/x")), Some(LeftOut::Private), "{host}");
        }
    }

    #[test]
    fn what_is_no_secret_passes() {
        for url in [
            "http://a.test/token",
            "http://a.test/x/token/",
            "http://a.test/?page=3&monkey=1&author=2",
            "http://a.test/?next=/token/x&pinned=1",
            "HTTPS://a.test:8443/@me",
            "http://[2606:4700::1]:81/icon@2x.png",
            "http://xn--bcher-kva.test/a,b",
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
            "http://a.test:80:80/",
            "http://b\u{fc}cher.test/",
            "http://127.0.0.\u{ff11}/",
            "http://10.0.0.\u{661}/",
            "http://\u{ff4c}\u{ff4f}\u{ff43}\u{ff41}\u{ff4c}\u{ff48}\u{ff4f}\u{ff53}\u{ff54}/",
            "http://\u{24db}ocalhost/",
            "http://localhost\u{3002}/",
            "http://localhost%2e/",
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
