//! What could be fetched tonight, and what is known of it before (7.4).
//!
//! [`Candidate`] has the facts: a line of a content inventory, and what [`History`] remembers of past requests. [`ATTRIBUTES`]
//! says what is learned from them; [`Encoding`] writes them as rows of [`Examples`]. What a request of the coming day tells is
//! never among them.

mod beside;
mod history;
mod link;

pub use beside::Beside;
pub use history::{History, Past, section};
pub use link::{asks_program, unescaped, without_escapes};

use crate::examples::{Examples, Kind, Schema, Value};
use trace::Access;
use trace::inventory::Row;

/// The class of what is asked for in the peak, and could have been fetched before it (6.2.1).
pub const PREFETCHABLE: &str = "prefetchable";
/// The class of everything else: mostly no-miss-prefetchable (6.2.1).
pub const NON_PREFETCHABLE: &str = "non-prefetchable";

/// An object that a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// A line of an inventory.
    pub row: Row,
    pub past: Past,
    /// Pages of its section that are offered beside it and were made after it; none where that is not known.
    pub newer: Option<u32>,
}

impl Candidate {
    /// Takes what the history knows of the URL, and what is offered beside it. `scratch` saves allocations.
    pub fn remember(&mut self, history: &History, beside: &Beside, scratch: &mut Access) {
        scratch.set_url(trace::spelling(&self.row.url).as_bytes());
        self.past = history.past(scratch, made(&self.row));
        self.newer = beside.newer(&self.row);
    }
}

/// When an object was made, seconds since 1970: as far as is known, since when it is as it is; 0 where nothing is.
fn made(row: &Row) -> u64 {
    if row.created > 0 { row.created } else { row.modified }
}

/// Where an attribute's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// What is offered.
    Offer,
    /// What else is offered in the same night.
    Beside,
    /// Requests of the days before.
    Requests,
    /// These, and what was offered in the nights before.
    Nights,
}

/// Something that is learned from.
pub struct Attribute {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether it is one of the five of 7.4.
    pub of_thesis: bool,
    /// What it is taken from.
    pub from: Source,
    /// What it is, and in which unit.
    pub says: &'static str,
    value: for<'f> fn(&'f Facts<'f>) -> Value<'f>,
}

/// What values are taken from.
struct Facts<'c> {
    candidate: &'c Candidate,
    /// When the night begins, seconds since 1970.
    night: u64,
    server: &'c str,
    media_type: &'c str,
    words: Vec<&'c str>,
}

/// docs/smoothing.md says what each of the further ones gained.
pub static ATTRIBUTES: [Attribute; 25] = [
    Attribute {
        name: "age",
        kind: Kind::Number,
        of_thesis: true,
        from: Source::Offer,
        says: "seconds since the object was modified, in full hours",
        value: |facts| since(facts.candidate.row.modified, facts.night),
    },
    Attribute {
        name: "type",
        kind: Kind::Nominal,
        of_thesis: true,
        from: Source::Offer,
        says: "the media type: as the server says it, else by the name's ending",
        value: |facts| known(facts.media_type),
    },
    Attribute {
        name: "size",
        kind: Kind::Number,
        of_thesis: true,
        from: Source::Offer,
        says: "bytes",
        value: |facts| match facts.candidate.row.size {
            0 => Value::Missing,
            size => Value::Number(size as f64),
        },
    },
    Attribute {
        name: "server",
        kind: Kind::Nominal,
        of_thesis: true,
        from: Source::Offer,
        says: "host and port",
        value: |facts| known(facts.server),
    },
    Attribute {
        name: "domain",
        kind: Kind::Nominal,
        of_thesis: true,
        from: Source::Offer,
        says: "the top-level domain; `address` where the host is one",
        value: |facts| known(top_level_domain(facts.server)),
    },
    Attribute {
        name: "uses",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "requests for it so far",
        value: |facts| Value::Number(f64::from(facts.candidate.past.uses)),
    },
    Attribute {
        name: "days",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "days on which it was asked for",
        value: |facts| Value::Number(f64::from(facts.candidate.past.days)),
    },
    Attribute {
        name: "idle",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "seconds since it was last asked for, in full hours",
        value: |facts| since(facts.candidate.past.last, facts.night),
    },
    Attribute {
        name: "edited",
        kind: Kind::Nominal,
        of_thesis: false,
        from: Source::Requests,
        says: "whether it was modified since it was last asked for: `yes` or `no`",
        value: |facts| match (facts.candidate.row.modified, facts.candidate.past.last) {
            (0, _) | (_, 0) => Value::Missing,
            (modified, last) => yes(modified > last),
        },
    },
    Attribute {
        name: "existence",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Offer,
        says: "seconds since the object was created, in full hours",
        value: |facts| since(facts.candidate.row.created, facts.night),
    },
    Attribute {
        name: "server-share",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "the server's share of the bytes missed in the last peak, as the nearest power of two",
        value: |facts| share(facts.candidate.past.server_share),
    },
    Attribute {
        name: "server-days",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "days on which the server was asked for anything",
        value: |facts| Value::Number(f64::from(facts.candidate.past.server_days)),
    },
    Attribute {
        name: "folder-share",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "the share of the bytes missed in the last peak that the URL's folder had, as the nearest power of two",
        value: |facts| share(facts.candidate.past.directory_share),
    },
    Attribute {
        name: "folder-uses",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "requests of the last day with a peak for anything in the URL's folder",
        value: |facts| Value::Number(f64::from(facts.candidate.past.directory_uses)),
    },
    Attribute {
        name: "section-share",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "the share of the bytes missed in the last peak that the section had, as the nearest power of two. A section is the server and the first folder of the path",
        value: |facts| share(facts.candidate.past.section_share),
    },
    Attribute {
        name: "section-days",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "days on which something of the section was asked for",
        value: |facts| Value::Number(f64::from(facts.candidate.past.section_days)),
    },
    Attribute {
        name: "section-uses",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Requests,
        says: "requests of the last day with a peak for what is in the section",
        value: |facts| Value::Number(f64::from(facts.candidate.past.section_uses)),
    },
    Attribute {
        name: "section-yield",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Nights,
        says: "of what the section offered anew in the nights before, the share that the peaks asked for, in steps of 0.05",
        value: |facts| match facts.candidate.past.section_yield {
            unknown if unknown < 0.0 => Value::Missing,
            share => Value::Number((share * 20.0).round() / 20.0),
        },
    },
    Attribute {
        name: "section-new",
        kind: Kind::Nominal,
        of_thesis: false,
        from: Source::Requests,
        says: "whether it was modified since anything of its section was last asked for: `yes` or `no`",
        value: |facts| match (facts.candidate.row.modified, facts.candidate.past.section_last) {
            (0, _) | (_, 0) => Value::Missing,
            (modified, last) => yes(modified > last),
        },
    },
    Attribute {
        name: "section-readers",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Nights,
        says: "how many readers of the section are expected in the peak who have not come since the object was made, in steps of 0.1. A reader is a client that came to the section in one of the last eight peaks, and to its server in two",
        value: |facts| Value::Number((facts.candidate.past.section_readers * 10.0).round() / 10.0),
    },
    Attribute {
        name: "section-newer",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Beside,
        says: "pages of the section that are offered beside it and were made after it",
        value: |facts| facts.candidate.newer.map_or(Value::Missing, |newer| Value::Number(f64::from(newer))),
    },
    Attribute {
        name: "depth",
        kind: Kind::Number,
        of_thesis: false,
        from: Source::Offer,
        says: "slashes in the path",
        value: |facts| {
            let path = path(&facts.candidate.row.url);
            Value::Number(path.bytes().filter(|byte| *byte == b'/').count() as f64)
        },
    },
    Attribute {
        name: "role",
        kind: Kind::Nominal,
        of_thesis: false,
        from: Source::Offer,
        says: "`page`, `embedded` (what pages show: pictures, styles, scripts, fonts) or `other`, by the media type",
        value: |facts| match role(facts.media_type) {
            "" => Value::Missing,
            role => Value::Nominal(role),
        },
    },
    Attribute {
        name: "query",
        kind: Kind::Nominal,
        of_thesis: false,
        from: Source::Offer,
        says: "whether the link has a query or names a program: `yes` or `no`",
        value: |facts| yes(asks_program(&facts.candidate.row.url)),
    },
    Attribute {
        name: "words",
        kind: Kind::Set,
        of_thesis: false,
        from: Source::Offer,
        says: "words of letters in the path, at most 12",
        value: |facts| Value::Set(&facts.words),
    },
];

/// Candidates as rows, with some of the attributes.
pub struct Encoding {
    attributes: Vec<&'static Attribute>,
    schema: Schema,
}

impl Encoding {
    /// The five attributes of 7.4.
    pub fn thesis() -> Encoding {
        Encoding::of(ATTRIBUTES.iter().filter(|attribute| attribute.of_thesis))
    }

    pub fn all() -> Encoding {
        Encoding::of(ATTRIBUTES.iter())
    }

    /// Those of these names, in the table's order. Fails where there is no such attribute, or none at all.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Encoding, String> {
        let encoding = Encoding::known(names)?;
        match encoding.attributes.is_empty() {
            true => Err("name at least one attribute".into()),
            false => Ok(encoding),
        }
    }

    fn known<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Encoding, String> {
        let names: Vec<&str> = names.into_iter().collect();
        let unknown = names.iter().find(|name| ATTRIBUTES.iter().all(|attribute| attribute.name != **name));
        if let Some(unknown) = unknown {
            let known: Vec<&str> = ATTRIBUTES.iter().map(|attribute| attribute.name).collect();
            return Err(format!("there is no attribute `{unknown}`; there are {}", known.join(", ")));
        }
        Ok(Encoding::of(ATTRIBUTES.iter().filter(|attribute| names.contains(&attribute.name))))
    }

    /// Those that a judge asks for. Fails where it asks for one that candidates do not have, or have as another kind.
    pub fn for_schema(schema: &Schema) -> Result<Encoding, String> {
        let encoding = Encoding::known(schema.attributes().iter().map(|attribute| attribute.name.as_str()))?;
        for asked in schema.attributes() {
            let have = encoding.attributes.iter().find(|attribute| attribute.name == asked.name);
            if let Some(have) = have.filter(|have| have.kind != asked.kind) {
                let (have, asked_kind) = (have.kind.name(), asked.kind.name());
                return Err(format!("the attribute `{}` is a {have}, not a {asked_kind}", asked.name));
            }
        }
        Ok(encoding)
    }

    fn of(attributes: impl Iterator<Item = &'static Attribute>) -> Encoding {
        let attributes: Vec<&'static Attribute> = attributes.collect();
        let schema = Schema::new(attributes.iter().map(|attribute| (attribute.name, attribute.kind)));
        Encoding { attributes, schema: schema.expect("the table names each attribute once") }
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Names of the attributes that are taken from this.
    pub fn taken_from(&self, source: Source) -> Vec<&'static str> {
        self.attributes.iter().filter(|one| one.from == source).map(|one| one.name).collect()
    }

    /// Whether one of them needs what is offered beside a candidate ([`Beside`]).
    pub fn asks_beside(&self) -> bool {
        self.attributes.iter().any(|attribute| attribute.from == Source::Beside)
    }

    /// No rows yet, of the two classes.
    pub fn examples(&self) -> Examples {
        Examples::new(self.schema.clone(), [PREFETCHABLE, NON_PREFETCHABLE])
    }

    /// Adds a row. Its weight is the size (7.4). `night` is when it begins, in seconds since 1970. Fails only where the
    /// examples are of another schema, or full.
    pub fn push(
        &self,
        candidate: &Candidate,
        night: u64,
        class: &str,
        into: &mut Examples,
    ) -> Result<(), String> {
        let row = &candidate.row;
        let (server, media_type) = (trace::host(&row.url), media_type(row));
        let words = match self.attributes.iter().any(|attribute| attribute.kind == Kind::Set) {
            true => words(path(&row.url)),
            false => Vec::new(),
        };
        let facts = Facts { candidate, night, server, media_type, words };
        let values: Vec<Value> = self.attributes.iter().map(|attribute| (attribute.value)(&facts)).collect();
        into.push(&values, class, row.size.max(1) as f64)
    }
}

/// What will be in the future has no age, nor what was at no known moment.
fn since(moment: u64, now: u64) -> Value<'static> {
    match now.checked_sub(moment) {
        // Seconds would tell one object from all others, which says nothing about another day.
        Some(seconds) if moment > 0 => Value::Number((seconds / 3600 * 3600) as f64),
        _ => Value::Missing,
    }
}

/// Coarse, for the same reason.
fn share(share: f64) -> Value<'static> {
    Value::Number(if share > 0.0 { share.log2().round().exp2() } else { 0.0 })
}

fn known(text: &str) -> Value<'_> {
    if text.is_empty() { Value::Missing } else { Value::Nominal(text) }
}

fn yes(is: bool) -> Value<'static> {
    Value::Nominal(if is { "yes" } else { "no" })
}

fn top_level_domain(server: &str) -> &str {
    let host = match server.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => server,
    };
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_address = host.starts_with('[') || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()));
    if is_address { "address" } else { last }
}

/// From the first slash after the host up to query or fragment.
fn path(url: &str) -> &str {
    let rest = url.find("://").map_or(url, |at| &url[at + 3..]);
    let rest = &rest[rest.find('/').unwrap_or(rest.len())..];
    &rest[..rest.find(['?', '#']).unwrap_or(rest.len())]
}

/// By the name's ending where the server does not say it.
fn media_type(row: &Row) -> &str {
    if !row.content_type.is_empty() {
        return &row.content_type;
    }
    media_type_of(&row.url)
}

fn media_type_of(url: &str) -> &str {
    let name = path(url).rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.') {
        None => "text/html",
        Some((_, ending)) => mime_guess::from_ext(ending).first_raw().unwrap_or_default(),
    }
}

const PAGE: &str = "page";
const EMBEDDED: &str = "embedded";

fn role(media_type: &str) -> &'static str {
    const SHOWN: [&str; 5] = [
        "text/css",
        "text/javascript",
        "application/javascript",
        "application/x-javascript",
        "application/wasm",
    ];
    match media_type {
        "" => "",
        "text/html" | "application/xhtml+xml" => PAGE,
        other if SHOWN.contains(&other) => EMBEDDED,
        other if other.starts_with("image/") || other.starts_with("font/") => EMBEDDED,
        _ => "other",
    }
}

/// Numbers are no words: there are too many of them.
fn words(path: &str) -> Vec<&str> {
    const MOST: usize = 12;
    let parts = path.split(|character: char| !character.is_alphabetic());
    parts.filter(|word| word.len() > 1).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::Column;

    fn row(url: &str) -> Row {
        Row { url: url.into(), size: 1000, ..Row::default() }
    }

    #[test]
    fn what_a_url_tells() {
        let domains = ["a.b.com", "a.b.com:8080", "10.0.0.1", "[::1]:80", "host", ""].map(top_level_domain);
        assert_eq!(domains, ["com", "com", "address", "address", "host", ""]);
        let types = [
            "http://a.test/",
            "http://a.test/x.GIF",
            "http://a.test/x.zzzz",
            "http://a.test",
            "/x.html?a.gif",
        ];
        let types = types.map(|url| media_type(&row(url)).to_owned());
        assert_eq!(types, ["text/html", "image/gif", "", "text/html", "text/html"]);
        let said = Row { content_type: "image/png".into(), ..row("http://a.test/x.gif") };
        assert_eq!(media_type(&said), "image/png");
        assert_eq!(trace::host("http://me:secret@a.test:81/b"), "a.test:81");
        assert_eq!(words("/news/2024/a-b/front-page.html"), ["news", "front", "page", "html"]);
    }

    #[test]
    fn whatever_asks_a_program_has_a_query() {
        let encoding = Encoding::named(["query"]).unwrap();
        let mut examples = encoding.examples();
        for url in ["b?c", "b;c", "cgi-bin/x", "x.php", "x.cgi", "CGI%2DBIN/x", "b"] {
            let candidate = Candidate { row: row(&format!("http://a.test/{url}")), ..Candidate::default() };
            encoding.push(&candidate, 0, NON_PREFETCHABLE, &mut examples).unwrap();
        }
        let Some(Column::Nominal { words, values }) = examples.column("query") else { panic!() };
        let said: Vec<&str> = values.iter().map(|value| words.word(*value)).collect();
        assert_eq!(said, ["yes", "yes", "yes", "yes", "yes", "yes", "no"]);
    }

    #[test]
    fn all_attributes_fit_their_kinds_also_for_nonsense() {
        let encoding = Encoding::all();
        let mut examples = encoding.examples();
        let mut push = |row: Row, night| {
            let candidate = Candidate { row, ..Candidate::default() };
            encoding.push(&candidate, night, NON_PREFETCHABLE, &mut examples).unwrap();
        };
        for url in ["", "://", "http://", "?", "http://\u{1F600}/\u{e9}/;?#@"] {
            push(Row { size: 0, ..row(url) }, 0);
        }
        push(Row { modified: u64::MAX, created: 5, ..row("http://a.test/b/c.gif") }, 3700);
        let Some(Column::Number(ages)) = examples.column("age") else { panic!() };
        assert!(ages[5].is_nan(), "a date in the future is no age");
        let Some(Column::Number(created)) = examples.column("existence") else { panic!() };
        assert_eq!(created[5], 3600.0);
        assert_eq!(examples.weights()[4..], [1.0, 1000.0]);
    }

    #[test]
    fn attributes_that_candidates_do_not_have_are_named() {
        let error = Encoding::named(["size", "colour"]).err().unwrap();
        assert!(error.contains("`colour`") && error.contains("age, type, size"), "{error}");
        let schema = Schema::new([("size", Kind::Nominal)]).unwrap();
        assert!(Encoding::for_schema(&schema).err().unwrap().contains("is a number, not a nominal"));
        assert_eq!(Encoding::thesis().schema().attributes().len(), 5);
    }
}
