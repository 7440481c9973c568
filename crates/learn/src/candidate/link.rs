//! What a link tells by itself: whether it asks a program, and its escapes.

use std::borrow::Cow;

/// Endings of names of programs.
const PROGRAMS: [&str; 29] = [
    "action", "asp", "aspx", "ashx", "asmx", "axd", "cfc", "cfm", "cgi", "dll", "do", "exe", "fcgi", "jsp",
    "jspx", "nsf", "phar", "php", "php3", "php4", "php5", "php7", "php8", "pht", "phtml", "pl", "py", "rb",
    "wsgi",
];
/// Folders of programs.
const FOLDERS: [&str; 3] = ["isapi", "servlet", "servlets"];
/// Names of what does something, whatever they end in.
const ACTIONS: [&str; 6] = ["login", "logoff", "logout", "signin", "signout", "unsubscribe"];
/// Layers of percent-encoding that are taken off.
const LAYERS: usize = 16;

/// Whether a link has a query, or names a program: by its folder, or by a name in its path. A sign counts as what it stands for where it is
/// escaped.
pub fn asks_program(url: &str) -> bool {
    let Some(url) = unescaped(url) else { return true };
    let rest = url.split_once("://").map_or(&*url, |(_, rest)| rest);
    let path = &rest[rest.find(['/', '?', ';']).unwrap_or(rest.len())..];
    let is_one_of = |words: &[&str], name: &str| words.iter().any(|one| name.eq_ignore_ascii_case(one));
    let is_program = |name: &str| {
        let name = name.trim_end_matches(|sign: char| sign == '.' || sign.is_whitespace());
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        is_one_of(&PROGRAMS, ending) || is_one_of(&FOLDERS, name) || is_one_of(&ACTIONS, stem)
    };
    let has_cgi_bin = path.as_bytes().windows(7).any(|seven| seven.eq_ignore_ascii_case(b"cgi-bin"));
    has_cgi_bin || path.contains(['?', ';']) || path.split(['/', '\\', '\0']).any(is_program)
}

/// With `%74` read as `t`, also where that is escaped once more. What is no text counts as something else. None where there is no end to it.
pub fn unescaped(url: &str) -> Option<Cow<'_, str>> {
    let mut text = Cow::Borrowed(url);
    for _ in 0..LAYERS {
        if !text.contains('%') {
            return Some(text);
        }
        let next = decoded(&text, |_| true);
        if next == text {
            return Some(text);
        }
        text = next.into();
    }
    None
}

/// Without escapes of what RFC 3986 section 2.3 calls unreserved.
pub fn without_escapes(text: &str) -> String {
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
    fn programs_are_known_by_their_names() {
        for url in [
            "/x?a",
            "?a",
            "/CGI-BIN/x",
            "/x;y",
            "/x.cgi",
            "/x.PL",
            "/a/x.php/more",
            "/x%2ephp",
            "/x.jsp;y",
            "/index.aspx",
            "/x%3Fpage=2",
            "/x%253Fpage=2",
            "/x%3Bid=2",
            "/CGI%2DBIN/x",
            "/x.php%2Fmore",
            "/x.php%00.gif",
            "/x.php.",
            "/x.pl%20",
            "/x.php4",
            "/x.php7",
            "/x.exe",
            "/x.dll",
            "/x.do",
            "/servlet/x",
            "/logout",
            "/a/Logout.html",
        ] {
            assert!(asks_program(&format!("http://a.test{url}")), "{url}");
        }
        for url in ["/", "/x.html", "/php", "/x.plain", "/cgi/x.gif", "", "/x%20y%", "/servlets.html"] {
            assert!(!asks_program(&format!("http://a.php{url}")), "{url}");
        }
    }

    #[test]
    fn escapes_of_escapes_have_an_end() {
        let layers = |count: usize| format!("%{}74", "25".repeat(count));
        assert_eq!(unescaped(&layers(9)).as_deref(), Some("t"));
        assert_eq!(unescaped("100%").as_deref(), Some("100%"));
        assert_eq!(unescaped(&layers(99)), None);
        assert!(asks_program(&format!("http://a.test/{}", layers(99))));
    }
}
