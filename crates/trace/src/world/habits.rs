//! What kinds of sites there are: a row each. All numbers here are put in; docs/smoothing.md says which are published and which are ours.

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Media {
    Html,
    Gif,
    Jpeg,
    Zip,
}

impl Media {
    pub const ALL: [Media; 4] = [Media::Html, Media::Gif, Media::Jpeg, Media::Zip];

    pub fn content_type(self) -> &'static str {
        self.row().0
    }

    /// Of its URL.
    pub fn ending(self) -> &'static str {
        self.row().1
    }

    /// Median of its sizes, bytes, and the deviation of their logarithm. HTML, GIF and JPEG: Wessels, Web Caching (2001), Table A-1,
    /// as the workload `pages` has them; archives: ours.
    pub fn sizes(self) -> (f64, f64) {
        let (.., median, sigma) = self.row();
        (median, sigma)
    }

    fn row(self) -> (&'static str, &'static str, f64, f64) {
        match self {
            Media::Html => ("text/html", "html", 3_394.0, 1.1),
            Media::Gif => ("image/gif", "gif", 2_097.0, 1.1),
            Media::Jpeg => ("image/jpeg", "jpg", 6_218.0, 1.1),
            Media::Zip => ("application/zip", "zip", 60_000.0, 1.2),
        }
    }
}

/// When a site publishes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// As its staff works: mostly from 8 to 22, on each day of the week.
    Shift,
    /// All at once, within half an hour: each site has an hour of its own between these, and may publish after midnight.
    Edition(u64, u64),
}

/// What the sites of one kind do.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    pub name: &'static str,
    /// Of the sites.
    pub share: f64,
    /// How much more than its rank says such a site is visited.
    pub draw: f64,
    /// Pages that stay, the median; sites differ by `PAGES_SIGMA`.
    pub standing: f64,
    /// Sections, of a site of average popularity: somebody is interested in one of them.
    pub sections: f64,
    /// New pages of a weekday, the median, and the share of them on other days.
    pub published: f64,
    pub on_other_days: f64,
    pub when: When,
    /// Hours in which the interest in a new page falls by half.
    pub half_life: f64,
    /// Share of the views that go to new pages, to the front page and the sections' pages, and to answers of programs; the rest goes
    /// to pages that stay.
    pub views: (f64, f64, f64),
    /// Hours between the edits of the front page and the sections' pages, by day.
    pub index_hours: f64,
    /// Days between the edits of a page that stays.
    pub page_days: f64,
    /// Images of a page, the mean, and the share of photographs (JPEG).
    pub images: f64,
    pub photographs: f64,
    /// Share of pages that come with an archive to fetch.
    pub archives: f64,
    /// Advertisements of a view: images that no cache may keep.
    pub advertisements: f64,
    /// Share of the sites that say how long images are fresh.
    pub says_lifetime: f64,
}

/// Deviation of the logarithm of how many pages sites of one kind have, and publish.
pub const PAGES_SIGMA: f64 = 0.7;

/// That images change less than pages, and popular pages more than others: Douglis and others (USITS 1997), as the thesis has it in
/// 2.3.3. The hours and shares are ours.
pub const HABITS: [Habits; 6] = [
    Habits {
        name: "news",
        share: 0.1,
        draw: 4.0,
        standing: 300.0,
        sections: 70.0,
        published: 140.0,
        on_other_days: 0.6,
        when: When::Shift,
        half_life: 14.0,
        views: (0.62, 0.18, 0.10),
        index_hours: 1.0,
        page_days: 200.0,
        images: 4.0,
        photographs: 0.7,
        archives: 0.0,
        advertisements: 0.8,
        says_lifetime: 0.3,
    },
    Habits {
        name: "daily",
        share: 0.12,
        draw: 2.0,
        standing: 200.0,
        sections: 40.0,
        published: 50.0,
        on_other_days: 0.7,
        when: When::Edition(9, 27),
        half_life: 16.0,
        views: (0.62, 0.18, 0.10),
        index_hours: 24.0,
        page_days: 200.0,
        images: 4.0,
        photographs: 0.5,
        archives: 0.0,
        advertisements: 0.6,
        says_lifetime: 0.3,
    },
    Habits {
        name: "portal",
        share: 0.05,
        draw: 4.0,
        standing: 1500.0,
        sections: 100.0,
        published: 80.0,
        on_other_days: 0.5,
        when: When::Edition(9, 21),
        half_life: 30.0,
        views: (0.15, 0.25, 0.35),
        index_hours: 2.0,
        page_days: 30.0,
        images: 1.5,
        photographs: 0.1,
        archives: 0.0,
        advertisements: 1.5,
        says_lifetime: 0.5,
    },
    Habits {
        name: "company",
        share: 0.4,
        draw: 0.9,
        standing: 500.0,
        sections: 6.0,
        published: 2.0,
        on_other_days: 0.1,
        when: When::Shift,
        half_life: 100.0,
        views: (0.08, 0.15, 0.20),
        index_hours: 72.0,
        page_days: 60.0,
        images: 2.5,
        photographs: 0.3,
        archives: 0.01,
        advertisements: 0.0,
        says_lifetime: 0.2,
    },
    Habits {
        name: "archive",
        share: 0.23,
        draw: 0.8,
        standing: 2000.0,
        sections: 6.0,
        published: 3.0,
        on_other_days: 0.5,
        when: When::Shift,
        half_life: 60.0,
        views: (0.04, 0.08, 0.06),
        index_hours: 100.0,
        page_days: 200.0,
        images: 1.2,
        photographs: 0.4,
        archives: 0.005,
        advertisements: 0.0,
        says_lifetime: 0.1,
    },
    Habits {
        name: "software",
        share: 0.1,
        draw: 0.8,
        standing: 800.0,
        sections: 8.0,
        published: 4.0,
        on_other_days: 0.2,
        when: When::Shift,
        half_life: 72.0,
        views: (0.2, 0.2, 0.15),
        index_hours: 24.0,
        page_days: 45.0,
        images: 1.5,
        photographs: 0.1,
        archives: 0.08,
        advertisements: 0.2,
        says_lifetime: 0.2,
    },
];
