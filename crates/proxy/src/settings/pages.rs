//! The words in which the proxy says itself why it does not serve a request: a page for those who ask for HTML, a line or two for
//! others, or what the operator has put in their place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Bytes of a file with words, at most.
const MOST: u64 = 64 << 10;

/// Words with `$status`, `$reason`, `$message` and `$id`, or `${status}` and so on, in places of what they stand for.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// By the name of the file.
    own: BTreeMap<String, String>,
}

/// What an answer of the proxy's own says.
pub struct Words<'a> {
    pub status: u16,
    pub reason: &'a str,
    pub message: &'a str,
    /// By which the request is found in the logs.
    pub id: &'a str,
}

/// How words are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Html,
    Text,
}

impl Style {
    fn extension(self) -> &'static str {
        match self {
            Style::Html => "html",
            Style::Text => "txt",
        }
    }

    fn common(self) -> &'static str {
        match self {
            Style::Html => include_str!("error.html"),
            Style::Text => "$message\nrequest $id\n",
        }
    }
}

impl Pages {
    /// Reads a folder's files: `502.html` is for that status, `5xx.html` for all from 500 on, `error.html` for what has none of its
    /// own; the same with `.txt` for who does not ask for HTML. Others are not looked at.
    ///
    /// # Errors
    /// A file cannot be read, is larger than 64 KiB, is no UTF-8, or is for no status; one line that names it.
    pub fn read(folder: &Path) -> Result<Pages, String> {
        let cannot = |path: &Path, why: String| format!("cannot read error page {}: {why}", path.display());
        let entries = fs::read_dir(folder).map_err(|error| cannot(folder, error.to_string()))?;
        let mut own = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(|error| cannot(folder, error.to_string()))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let Some((of, "html" | "txt")) = name.rsplit_once('.') else { continue };
            if !is_for_a_status(of) {
                let why = "it is for no status; such files are 400.html to 599.html, 4xx.html, 5xx.html and error.html, or .txt";
                return Err(cannot(&path, why.into()));
            }
            let text = read_small(&path, MOST).map_err(|why| cannot(&path, why))?;
            own.insert(name, text);
        }
        Ok(Pages { own })
    }

    /// What is said in a style; of the operator's pages the most particular one.
    pub fn say(&self, words: &Words<'_>, style: Style) -> String {
        let names = [words.status.to_string(), format!("{}xx", words.status / 100), "error".into()];
        let own = names.iter().find_map(|name| self.own.get(&format!("{name}.{}", style.extension())));
        fill_in(own.map_or(style.common(), String::as_str), words, style)
    }
}

/// Reads a file of at most so many bytes: nothing that may have no end, such as a pipe or a device.
///
/// # Errors
/// Why it cannot be read.
pub fn read_small(path: &Path, most: u64) -> Result<String, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no file".into());
    }
    if about.len() > most {
        return Err(format!("it is larger than {most} bytes"));
    }
    fs::read_to_string(path).map_err(|error| error.to_string())
}

fn is_for_a_status(of: &str) -> bool {
    let is_status = || matches!(of.as_bytes(), [b'4' | b'5', b'0'..=b'9', b'0'..=b'9']);
    matches!(of, "4xx" | "5xx" | "error") || is_status()
}

/// A `$` before anything else stands for itself.
fn fill_in(page: &str, words: &Words<'_>, style: Style) -> String {
    let status = words.status.to_string();
    let values =
        [("status", &*status), ("reason", words.reason), ("message", words.message), ("id", words.id)];
    let mut out = String::with_capacity(page.len() + words.message.len() + words.id.len());
    let mut rest = page;
    while let Some(at) = rest.find('$') {
        let (before, behind) = (&rest[..at], &rest[at + 1..]);
        out.push_str(before);
        let found = values.iter().find_map(|(name, value)| {
            let bare = || behind.strip_prefix(name);
            let braced = || behind.strip_prefix('{')?.strip_prefix(name)?.strip_prefix('}');
            Some((value, braced().or_else(bare)?))
        });
        match found {
            Some((value, behind)) => {
                out.push_str(&escaped(value, style));
                rest = behind;
            }
            None => {
                out.push('$');
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

fn escaped(value: &str, style: Style) -> Cow<'_, str> {
    if style == Style::Text || !value.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 16);
    for char in value.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words<'_> = Words { status: 502, reason: "Bad Gateway", message: "<a> & 'b'", id: "0f" };

    #[test]
    fn what_others_put_into_a_message_is_no_markup() {
        let page = Pages::default().say(&WORDS, Style::Html);
        assert!(page.contains("&lt;a&gt; &amp; &#39;b&#39;") && !page.contains("<a>"), "{page}");
        assert!(page.contains("502 Bad Gateway") && page.contains("0f"), "{page}");
        assert_eq!(Pages::default().say(&WORDS, Style::Text), "<a> & 'b'\nrequest 0f\n");
    }

    #[test]
    fn the_most_particular_page_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("error.html", "any");
        write("5xx.html", "server $status ${reason}");
        write("503.html", "$ later: $id$id $nothing $");
        write("502.txt", "$message");
        write("logo.svg", "not looked at");
        let pages = Pages::read(folder.path()).unwrap();
        let say = |status, style| pages.say(&Words { status, ..WORDS }, style);
        assert_eq!(say(503, Style::Html), "$ later: 0f0f $nothing $");
        assert_eq!(say(502, Style::Html), "server 502 Bad Gateway");
        assert_eq!(say(404, Style::Html), "any");
        assert_eq!(
            (say(502, Style::Text), say(503, Style::Text)),
            ("<a> & 'b'".into(), "<a> & 'b'\nrequest 0f\n".into())
        );
    }

    #[test]
    fn a_page_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let wrong = |name: &str, text: &[u8], why: &str| {
            fs::write(path(name), text).unwrap();
            let told = Pages::read(folder.path()).unwrap_err();
            assert!(told.contains(name) && told.contains(why), "{told}");
            fs::remove_file(path(name)).unwrap();
        };
        wrong("600.html", b"", "for no status");
        wrong("0502.html", b"", "for no status");
        wrong("errors.html", b"", "for no status");
        wrong("502.html", &[0xff], "UTF-8");
        wrong("5xx.txt", &vec![b'a'; MOST as usize + 1], "larger than");
        fs::create_dir(path("404.html")).unwrap();
        assert!(Pages::read(folder.path()).unwrap_err().contains("404.html: it is no file"));
        assert!(Pages::read(&path("none")).unwrap_err().contains("none"));
    }
}
