//! What is offered in a night beside a candidate: how many pages of its section are newer.

use super::{PAGE, made, media_type, role, section};
use std::collections::HashMap;
use trace::inventory::Row;

/// Pages that count in a section: readers come to none that is behind so many.
const NEWER: usize = 64;
const SECTIONS: usize = 1_000_000;

/// When the pages that are offered in a night were made, by section: the newest `NEWER` of each, and the first `SECTIONS` sections. 8 bytes a page
/// and about 50 a section.
#[derive(Default)]
pub struct Beside {
    /// Rising.
    made: HashMap<u64, Vec<u64>>,
}

impl Beside {
    /// Takes what is offered, one after the other.
    pub fn note(&mut self, row: &Row) {
        let (number, made) = (section(&row.url), made(row));
        if made == 0 || role(media_type(row)) != PAGE {
            return;
        }
        if self.made.len() >= SECTIONS && !self.made.contains_key(&number) {
            return;
        }
        let pages = self.made.entry(number).or_default();
        let place = pages.partition_point(|other| *other <= made);
        match pages.len() < NEWER {
            true => pages.insert(place, made),
            false if place == 0 => {}
            false => {
                pages[..place].rotate_left(1);
                pages[place - 1] = made;
            }
        }
    }

    /// How many pages of its section were made after an object, `NEWER` at most; none where nothing tells.
    pub fn newer(&self, row: &Row) -> Option<u32> {
        let made = made(row);
        if made == 0 {
            return None;
        }
        let pages = self.made.get(&section(&row.url)).map_or(&[][..], Vec::as_slice);
        Some((pages.len() - pages.partition_point(|other| *other <= made)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(url: &str, created: u64) -> Row {
        Row { url: url.into(), created, modified: 9_999, ..Row::default() }
    }

    #[test]
    fn newer_are_the_pages_of_the_section_that_were_made_later() {
        let mut beside = Beside::default();
        for (url, created) in
            [("b/1.html", 10), ("b/2.html", 30), ("b/3.html", 20), ("b/x.gif", 40), ("c/1.html", 50)]
        {
            beside.note(&row(&format!("http://a.test/{url}"), created));
        }
        let newer = |url: &str, created| beside.newer(&row(&format!("http://a.test/{url}"), created));
        assert_eq!(newer("b/1.html", 10), Some(2));
        assert_eq!(newer("b/3.html", 20), Some(1));
        assert_eq!(newer("b/2.jpg", 30), Some(0), "what a page shows has the rank of its page");
        assert_eq!(newer("d/1.html", 10), Some(0));
        let unknown = Row { url: "http://a.test/b/1.html".into(), ..Row::default() };
        assert_eq!(beside.newer(&unknown), None);
    }

    #[test]
    fn only_the_newest_are_kept() {
        let mut beside = Beside::default();
        for nth in 0..1000u64 {
            beside.note(&row(&format!("http://a.test/b/{nth}.html"), 1 + nth * 7919 % 1000));
        }
        assert_eq!(beside.made.values().map(Vec::len).collect::<Vec<_>>(), [NEWER]);
        assert_eq!(beside.newer(&row("http://a.test/b/x.html", 1000 - 5)), Some(5));
        assert_eq!(beside.newer(&row("http://a.test/b/x.html", 1)), Some(NEWER as u32));
    }
}
