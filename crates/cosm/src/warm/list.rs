//! A list of URLs, read line by line: it may be of any length, and so may its lines.

use http::Uri;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, stdin};

/// Bytes of a line.
const MOST: usize = 32 << 10;

/// A line that is meant to be a URL.
pub struct Line {
    /// From 1.
    pub number: u64,
    /// Or what is wrong with it.
    pub url: Result<Uri, String>,
}

/// Those of a file, or of standard input for `-`.
pub fn lines(path: &str) -> io::Result<impl Iterator<Item = Line> + Send + use<>> {
    let from: Box<dyn Read + Send> = match path {
        "-" => Box::new(stdin()),
        path => Box::new(File::open(path)?),
    };
    Ok(lines_of(BufReader::new(from)))
}

fn lines_of(mut from: impl BufRead) -> impl Iterator<Item = Line> {
    let (mut number, mut ended) = (0, false);
    std::iter::from_fn(move || {
        while !ended {
            number += 1;
            match line(&mut from) {
                Ok(None) => ended = true,
                Ok(Some(bytes)) => {
                    if let Some(url) = url(&bytes) {
                        return Some(Line { number, url });
                    }
                }
                Err(error) => {
                    ended = true;
                    return Some(Line { number, url: Err(format!("the list cannot be read on: {error}")) });
                }
            }
        }
        None
    })
}

/// A line, of which what is beyond `MOST` bytes is left out; `None` at the end.
fn line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut read = from.by_ref().take(MOST as u64 + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    let mut rest = Vec::new();
    while line.len() > MOST && line.last() != Some(&b'\n') && rest.last() != Some(&b'\n') && read > 0 {
        rest.clear();
        read = from.by_ref().take(MOST as u64).read_until(b'\n', &mut rest)?;
    }
    Ok(Some(line))
}

/// `None`: the line says nothing.
fn url(line: &[u8]) -> Option<Result<Uri, String>> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return None;
    }
    let shown = || String::from_utf8_lossy(&line[..line.len().min(100)]).escape_debug().to_string();
    if line.len() > MOST {
        return Some(Err(format!("`{}…` is too long", shown())));
    }
    let parsed = Uri::try_from(line).ok().filter(|url| {
        let host = url.authority().map(|authority| authority.as_str());
        matches!(url.scheme_str(), Some("http" | "https"))
            && host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
    });
    Some(parsed.ok_or_else(|| format!("`{}` is not an http URL", shown())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_url_or_wrong_or_nothing() {
        let long = format!("http://h/{}", "x".repeat(3 * MOST));
        let text = format!(
            "# the first\n\nhttp://a/b?c#d\r\n  https://h:8/ \nftp://a/\n/path\nhttp://u@h/\nhttp://a b/\n\u{1b}[2J\n{long}\nhttp://last/"
        );
        let read: Vec<_> = lines_of(text.as_bytes()).map(|line| (line.number, line.url)).collect();
        let fine: Vec<_> =
            read.iter().filter_map(|(number, url)| Some((*number, url.as_ref().ok()?.to_string()))).collect();
        let expected = [(3, "http://a/b?c"), (4, "https://h:8/"), (11, "http://last/")];
        assert_eq!(fine, expected.map(|(number, url)| (number, url.to_owned())));
        let wrong: Vec<_> = read.iter().filter_map(|(_, url)| url.as_ref().err()).collect();
        assert_eq!(wrong.len(), 6, "{wrong:?}");
        assert!(wrong.iter().all(|why| !why.contains(char::is_control) && why.len() < 200), "{wrong:?}");
        assert!(wrong[5].ends_with("is too long"), "{wrong:?}");
    }
}
