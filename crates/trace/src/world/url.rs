//! What a URL of the world names.
//!
//! `http://www3.example.com/2-0.html`: of site 3, standing page 2, its own object; `-1.jpg` its first image. `/s4/10371-2-0.html`: page 2 that
//! section 4 published on day 10371 since 1970. `/i/5.gif`: an image of all of the site's pages. `/index-0.html`: the front page, and
//! `/index-3.html` the third section's. `/cgi-bin/9?12` and `/ad/9?12.gif` are made by programs.

use super::habits::Media;
use std::fmt::{self, Display};

/// Which object of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// The front page and those of sections.
    Index(u16),
    /// An image of all pages.
    Shared(u16),
    /// Of a page that stays: part 0 is the page, others what is embedded.
    Standing {
        page: u32,
        part: u16,
        media: Media,
    },
    /// Of a page that was published on a day since 1970.
    New {
        section: u16,
        day: u32,
        page: u32,
        part: u16,
        media: Media,
    },
    Program {
        page: u32,
        question: u32,
    },
    Advertisement {
        page: u32,
        question: u32,
    },
}

impl Path {
    /// Whether it is what somebody looks at, not embedded in it.
    pub fn is_page(self) -> bool {
        match self {
            Path::Index(_) | Path::Program { .. } => true,
            Path::Standing { part, .. } | Path::New { part, .. } => part == 0,
            Path::Shared(_) | Path::Advertisement { .. } => false,
        }
    }

    pub fn is_archive(self) -> bool {
        matches!(self, Path::Standing { media: Media::Zip, .. } | Path::New { media: Media::Zip, .. })
    }
}

const DOMAINS: [&str; 3] = ["com", "org", "net"];

/// The name of a site's server. Three top-level domains have names that nobody uses (RFC 2606, section 3).
pub fn host(site: u32) -> impl Display {
    // Most are commercial.
    let domain = DOMAINS[[0, 0, 1, 0, 2][site as usize % 5]];
    Show(move |to: &mut fmt::Formatter<'_>| write!(to, "www{site}.example.{domain}"))
}

pub fn write(site: u32, path: Path, into: &mut String) {
    use fmt::Write;
    let _ = write!(into, "http://{}", host(site));
    let _ = match path {
        Path::Index(0) => write!(into, "/"),
        Path::Index(nth) => write!(into, "/index-{nth}.html"),
        Path::Shared(nth) => write!(into, "/i/{nth}.gif"),
        Path::Standing { page, part, media } => {
            write!(into, "/{}/{page}-{part}.{}", page / 16, media.ending())
        }
        Path::New { section, day, page, part, media } => {
            write!(into, "/s{section}/{day}-{page}-{part}.{}", media.ending())
        }
        Path::Program { page, question } => write!(into, "/cgi-bin/{page}?{question}"),
        Path::Advertisement { page, question } => write!(into, "/ad/{page}?{question}.gif"),
    };
}

/// Site and path of a URL that `write` wrote, but for those of programs.
pub fn read(url: &str) -> Option<(u32, Path)> {
    let (host, path) = url.strip_prefix("http://www")?.split_once('/')?;
    let site = host.split('.').next()?.parse().ok()?;
    let path = match path {
        "" => Path::Index(0),
        path => read_path(path)?,
    };
    Some((site, path))
}

fn read_path(path: &str) -> Option<Path> {
    if let Some(index) = path.strip_prefix("index-") {
        return Some(Path::Index(index.strip_suffix(".html")?.parse().ok()?));
    }
    if let Some(shared) = path.strip_prefix("i/") {
        return Some(Path::Shared(shared.strip_suffix(".gif")?.parse().ok()?));
    }
    let (folder, name) = path.rsplit_once('/')?;
    let (numbers, ending) = name.split_once('.')?;
    let media = Media::ALL.into_iter().find(|media| media.ending() == ending)?;
    let mut numbers = numbers.split('-').map(|number| number.parse::<u32>().ok());
    let mut number = || numbers.next().flatten();
    let path = match folder.strip_prefix('s') {
        None => Path::Standing { page: number()?, part: u16::try_from(number()?).ok()?, media },
        Some(section) => Path::New {
            section: section.parse().ok()?,
            day: number()?,
            page: number()?,
            part: u16::try_from(number()?).ok()?,
            media,
        },
    };
    numbers.next().is_none().then_some(path)
}

struct Show<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> Display for Show<F> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_it_was_written() {
        let media = Media::Jpeg;
        for path in [
            Path::Index(0),
            Path::Index(7),
            Path::Shared(3),
            Path::Standing { page: 70_000, part: 0, media: Media::Html },
            Path::New { section: 7, day: 10_364, page: 12, part: 3, media },
        ] {
            let mut url = String::new();
            write(41, path, &mut url);
            assert_eq!(read(&url), Some((41, path)), "{url}");
        }
        for wrong in
            ["", "http://www1.example.com", "http://a.test/x", "http://www1.example.com/s1/x/1-0.html"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
