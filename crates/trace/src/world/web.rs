//! The sites: what each has at a time.
//!
//! What stays follows from the seed when it is asked for, and takes no memory: sizes, creation, and the last edit before any time. Only what
//! was published lately is kept, in the order of time, so that it can be chosen from.

use super::calendar::{DAY, Day, HOUR};
use super::habits::{HABITS, Habits, Media, PAGES_SIGMA, When};
use super::url::{self, Path};
use super::{Offer, Settings, Use, chance};
use crate::inventory::Row;
use crate::random::{Random, zipf};
use std::collections::VecDeque;
use std::ops::Range;

/// The bounds of how many sections a site has: the front page is the first index page, each section has one more.
const SECTIONS_BOUNDS: (f64, f64) = (2.0, 10_000.0);
/// Images that all pages of a site share, and how many a page has of them.
const SHARED: u16 = 8;
const SHARED_OF_PAGE: u16 = 3;
/// Days for which a new page is offered.
const KEPT: u64 = 5;
/// How what a site publishes, and what it has, grows with its popularity: exponents. Popular sites are large ones.
const PUBLISHED_GROWTH: f64 = 0.85;
const STANDING_GROWTH: f64 = 0.6;
const SECTIONS_GROWTH: f64 = 0.85;
/// New pages of which the front page shows an image.
const FRONT: usize = 3;
/// Exponent of the popularity of sections, and of a site's pages that stay: within what Breslau and others found (thesis, 2.3.3).
const SECTION_ZIPF: f64 = 0.64;
/// The same of how much is published in sections: popular ones have more.
const PUBLISHED_ZIPF: f64 = 0.2;
const PAGE_ZIPF: f64 = 0.64;
/// How much new pages of one section differ in popularity: the deviation of the logarithm.
const PAGE_SIGMA: f64 = 0.8;
/// Mean age of what was there before the world began, days.
const AGE: f64 = 400.0;
/// Share of the sites whose front page and sections' pages are made for each reader.
const PERSONAL: f64 = 0.15;
/// Seconds for which images are fresh where a site says so.
const LIFETIME: u32 = 86_400;
/// Bytes.
const SIZES: (f64, f64) = (64.0, 4e6);
const PARTS: usize = 20;

#[derive(Clone)]
pub struct Web {
    seed: u64,
    upheaval: Option<u64>,
    sites: Vec<Site>,
    /// Of the sites' weights, before the upheaval and after it.
    popularity: [Vec<f64>; 2],
    /// Of this day: whether it is after the upheaval.
    epoch: usize,
}

#[derive(Clone)]
pub struct Site {
    number: u32,
    /// Before the upheaval, and after it.
    habits: [&'static Habits; 2],
    standing: u32,
    /// What it publishes, of the median of its kind: before the upheaval, and after it.
    vigour: [f64; 2],
    sections: [u16; 2],
    personal: bool,
    lifetime: Option<u32>,
    /// By the time of publication.
    new: VecDeque<New>,
    /// The days whose pages are in `new`, since 1970.
    until: u64,
}

/// A page that was published.
#[derive(Clone, Copy, Debug)]
struct New {
    born: u64,
    day: u32,
    page: u32,
    section: u16,
    weight: f64,
    /// Of the weights up to this one.
    sum: f64,
}

impl Web {
    pub fn new(settings: &Settings, seed: u64) -> Web {
        let upheaval = settings.upheaval.map(|day| settings.begins + u64::from(day) * DAY);
        let kinds = [0, 1].map(|epoch| kinds(settings.sites, seed, epoch));
        let habits = |site: u32| [0, 1].map(|epoch: usize| &HABITS[kinds[epoch][site as usize]]);
        let weights =
            [0, 1].map(|epoch| weights(settings, seed, epoch, |site| habits(site)[epoch as usize].draw));
        let site = |number: u32| {
            let mut luck = chance(seed, Use::Site, [number.into(), 0]);
            let [before, after] = habits(number);
            let mut many = || (PAGES_SIGMA * luck.normal()).exp();
            let (standing, vigour) = (before.standing * many(), many());
            let weight = [0, 1].map(|epoch: usize| weights[epoch][number as usize]);
            Site {
                number,
                habits: [before, after],
                standing: (standing * weight[0].powf(STANDING_GROWTH)).max(1.0) as u32,
                vigour: weight.map(|weight| vigour * weight.powf(PUBLISHED_GROWTH)),
                sections: [0, 1].map(|epoch: usize| {
                    let sections = habits(number)[epoch].sections * weight[epoch].powf(SECTIONS_GROWTH);
                    sections.clamp(SECTIONS_BOUNDS.0, SECTIONS_BOUNDS.1) as u16
                }),
                personal: luck.unit() < PERSONAL,
                lifetime: (luck.unit() < before.says_lifetime).then_some(LIFETIME),
                new: VecDeque::new(),
                until: 0,
            }
        };
        let sites = (0..settings.sites).map(site).collect();
        let popularity = weights.map(|weights| {
            let sums = weights.iter().scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            });
            sums.collect()
        });
        Web { seed, upheaval, sites, popularity, epoch: 0 }
    }

    /// Publishes what this day will bring.
    pub fn begin(&mut self, day: Day) {
        let (today, epoch) = (day.begins / DAY, self.epoch_at(day.begins));
        for site in &mut self.sites {
            let first = site.until.max(today.saturating_sub(KEPT));
            for day in first..=today {
                let epoch = self.upheaval.is_some_and(|upheaval| day * DAY >= upheaval).into();
                site.publish(self.seed, day, epoch);
            }
            site.until = today + 1;
            site.forget(day.begins);
            site.sum(epoch as usize);
        }
        self.epoch = epoch as usize;
    }

    pub fn epoch_at(&self, at: u64) -> u64 {
        self.upheaval.is_some_and(|upheaval| at >= upheaval).into()
    }

    pub fn habits(&self, site: u32, at: u64) -> &'static Habits {
        self.sites[site as usize].habits[self.epoch_at(at) as usize]
    }

    /// A site, the popular ones more often.
    pub fn site(&self, luck: f64) -> u32 {
        let popularity = &self.popularity[self.epoch];
        let all = popularity.last().copied().unwrap_or_default();
        let found = popularity.partition_point(|sum| *sum <= luck * all);
        found.min(self.sites.len() - 1) as u32
    }

    /// A page that stays.
    pub fn standing(&self, site: u32, luck: f64) -> Path {
        let page = zipf(luck, self.sites[site as usize].standing.into(), PAGE_ZIPF) as u32;
        Path::Standing { page, part: 0, media: Media::Html }
    }

    /// A page that is new at a second; nothing where none was published lately.
    pub fn new_page(&self, site: u32, luck: f64, at: u64) -> Option<Path> {
        let new = &self.sites[site as usize].new;
        let out = new.partition_point(|page| page.born <= at);
        let all = new.get(out.checked_sub(1)?)?.sum;
        let found = new.partition_point(|page| page.sum <= luck * all).min(out - 1);
        Some(new[found].part(0, Media::Html))
    }

    /// Sections of a site.
    pub fn sections(&self, site: u32, at: u64) -> u16 {
        self.sites[site as usize].sections[self.epoch_at(at) as usize]
    }

    /// The section of a site that somebody is interested in, the popular ones more often.
    pub fn section(&self, site: u32, luck: f64, at: u64) -> u16 {
        let count = self.sections(site, at).into();
        let rank = zipf(luck, count, SECTION_ZIPF) as usize;
        let order = shuffled(count as u32, self.seed ^ u64::from(site) << 20, self.epoch_at(at) << 8 | 2);
        order[rank] as u16
    }

    /// What is new in a section since a time, the newest first.
    pub fn news(&self, site: u32, section: u16, since: u64, at: u64) -> impl Iterator<Item = Path> + '_ {
        let new = &self.sites[site as usize].new;
        let out = new.partition_point(|page| page.born <= at);
        let late = new.range(..out).rev().take_while(move |page| page.born > since);
        late.filter(move |page| page.section == section).map(|page| page.part(0, Media::Html))
    }

    /// What is embedded in a page, in its order; of what the front page and those of sections show, that which was published in a time.
    pub fn embedded(&self, site: u32, page: Path, time: Range<u64>, into: &mut Vec<Path>) {
        let owner = &self.sites[site as usize];
        into.extend((0..SHARED_OF_PAGE).map(Path::Shared));
        match page {
            Path::Standing { page, .. } => {
                into.push(Path::Shared(SHARED_OF_PAGE + (page % u32::from(SHARED - SHARED_OF_PAGE)) as u16));
                let parts = owner.parts(self.seed, [u64::from(page), 0], 0);
                let part = |(nth, part): (usize, &Part)| Path::Standing {
                    page,
                    part: nth as u16,
                    media: part.media,
                };
                into.extend(parts.iter().enumerate().skip(1).map(part));
            }
            Path::New { day, page, section, .. } => {
                let parts = owner.parts_of_new(self, day, page);
                let part = |(nth, part): (usize, &Part)| Path::New {
                    section,
                    day,
                    page,
                    part: nth as u16,
                    media: part.media,
                };
                into.extend(parts.iter().enumerate().skip(1).map(part));
            }
            Path::Index(nth) => {
                let out = owner.new.partition_point(|page| page.born < time.end);
                let shown = owner.new.range(..out).rev().take_while(|page| page.born >= time.start);
                let shown = shown.filter(|page| nth == 0 || page.section + 1 == nth);
                for new in shown.take(FRONT) {
                    let parts = owner.parts_of_new(self, new.day, new.page);
                    into.extend(parts.get(1).map(|part| new.part(1, part.media)));
                }
            }
            _ => {}
        }
    }

    pub fn offer(&self, url: &str, at: u64) -> Option<Offer> {
        let (site, path) = url::read(url)?;
        let owner = self.sites.get(site as usize)?;
        let found = self.find(owner, path, at)?;
        // Of what is spelled in another way there is nothing.
        let mut spelled = String::new();
        url::write(site, path, &mut spelled);
        (spelled == url).then(|| Offer { row: found.row(spelled), lifetime: found.lifetime })
    }

    /// What there is of a site under a path that can be found by links.
    pub fn find(&self, owner: &Site, path: Path, at: u64) -> Option<Found> {
        let site = u64::from(owner.number);
        match path {
            Path::Index(nth) if nth <= owner.sections[self.epoch_at(at) as usize] => {
                let created = owner.created(self.seed, [u64::from(nth), 1]);
                let edited = self.last_edit(owner, at, |habits, at| {
                    let edits = Edits { seed: self.seed, site, of: u64::from(nth) << 40 };
                    edits.index(habits.index_hours, at)
                });
                let modified = edited.max(created);
                let base =
                    sized(&mut chance(self.seed, Use::Media, [site, u64::from(nth) | 1 << 60]), Media::Html);
                let size = vary(base, modified);
                Some(Found {
                    media: Media::Html,
                    size,
                    created,
                    modified,
                    cacheable: !owner.personal,
                    lifetime: None,
                })
            }
            Path::Shared(nth) if nth < SHARED => {
                let size =
                    sized(&mut chance(self.seed, Use::Media, [site, u64::from(nth) | 2 << 60]), Media::Gif);
                let created = owner.created(self.seed, [u64::from(nth), 2]);
                Some(Found::still(Media::Gif, size, created, owner.lifetime))
            }
            Path::Standing { page, part, media } if page < owner.standing => {
                let parts = owner.parts(self.seed, [u64::from(page), 0], 0);
                let found = parts.get(usize::from(part)).filter(|part| part.media == media)?;
                Some(self.standing_part(owner, page, part, found, at))
            }
            Path::New { section, day, page, part, media } => {
                let first = owner.new.partition_point(|new| new.born < u64::from(day) * DAY);
                let near = owner.new.iter().skip(first).take_while(|new| new.born < u64::from(day + 2) * DAY);
                let is = |new: &&New| (new.day, new.page, new.section) == (day, page, section);
                let new = near.filter(|new| new.born <= at).find(is)?;
                let parts = owner.parts_of_new(self, day, page);
                let found = parts.get(usize::from(part)).filter(|part| part.media == media)?;
                Some(self.new_part(owner, new, part, found, at))
            }
            _ => None,
        }
    }

    pub fn owner(&self, site: u32) -> &Site {
        &self.sites[site as usize]
    }

    pub fn inventory(&self, at: u64) -> impl Iterator<Item = Row> + '_ {
        self.sites.iter().flat_map(move |owner| {
            let fixed =
                (0..=self.sections(owner.number, at)).map(Path::Index).chain((0..SHARED).map(Path::Shared));
            let fixed = fixed.filter_map(move |path| Some((path, self.find(owner, path, at)?)));
            let standing = (0..owner.standing).flat_map(move |page| {
                let parts = owner.parts(self.seed, [u64::from(page), 0], 0);
                (0..parts.len() as u16).map(move |part| {
                    let found = &parts[usize::from(part)];
                    let path = Path::Standing { page, part, media: found.media };
                    (path, self.standing_part(owner, page, part, found, at))
                })
            });
            let out = owner.new.iter().take_while(move |new| new.born <= at);
            let new = out.flat_map(move |new| {
                let parts = owner.parts_of_new(self, new.day, new.page);
                (0..parts.len() as u16).map(move |part| {
                    let found = &parts[usize::from(part)];
                    (new.part(part, found.media), self.new_part(owner, new, part, found, at))
                })
            });
            fixed.chain(standing).chain(new).map(move |(path, found)| {
                let mut url = String::new();
                url::write(owner.number, path, &mut url);
                found.row(url)
            })
        })
    }

    /// Images never change; a page does, now and then.
    fn standing_part(&self, owner: &Site, page: u32, part: u16, found: &Part, at: u64) -> Found {
        let created = owner.created(self.seed, [u64::from(page), 0]);
        if part > 0 {
            return Found::still(found.media, found.size, created, owner.lifetime);
        }
        let edited = self.last_edit(owner, at, |habits, at| {
            let edits = Edits { seed: self.seed, site: owner.number.into(), of: page.into() };
            edits.page(habits.page_days, at)
        });
        let modified = edited.max(created);
        let size = vary(found.size, modified);
        Found { media: found.media, size, created, modified, cacheable: true, lifetime: None }
    }

    /// Three pages in ten are corrected once, mostly within hours.
    fn new_part(&self, owner: &Site, new: &New, part: u16, found: &Part, at: u64) -> Found {
        if part > 0 {
            return Found::still(found.media, found.size, new.born, owner.lifetime);
        }
        let of = u64::from(new.day) << 32 | u64::from(new.page);
        let mut luck = chance(self.seed, Use::Edit, [owner.number.into(), of | 1 << 63]);
        let corrected =
            (luck.unit() < 0.3).then(|| new.born + 60 + luck.exponential(3.0 * HOUR as f64) as u64);
        let modified = corrected.filter(|corrected| *corrected <= at).unwrap_or(new.born);
        let size = vary(found.size, modified);
        Found { media: found.media, size, created: new.born, modified, cacheable: true, lifetime: None }
    }

    /// The last edit before a time, by the habits of that time; after the upheaval, by those before it, until there is one.
    fn last_edit(&self, owner: &Site, at: u64, edit: impl Fn(&'static Habits, u64) -> u64) -> u64 {
        let [before, after] = owner.habits;
        match self.upheaval {
            Some(upheaval) if at >= upheaval => match edit(after, at) {
                last if last >= upheaval => last,
                _ => edit(before, upheaval - 1),
            },
            _ => edit(before, at),
        }
    }
}

impl Site {
    fn publish(&mut self, seed: u64, day: u64, epoch: u64) {
        let habits = self.habits[epoch as usize];
        let mut luck = chance(seed, Use::Publish, [self.number.into(), day]);
        let other = (day + 3) % 7 >= 5;
        let mean =
            habits.published * self.vigour[epoch as usize] * if other { habits.on_other_days } else { 1.0 };
        let count = poisson(&mut luck, mean);
        let hour = chance(seed, Use::Publish, [self.number.into(), epoch | 1 << 40]).unit();
        let count_of_sections = self.sections[epoch as usize];
        let sections =
            shuffled(count_of_sections.into(), seed ^ u64::from(self.number) << 20, epoch << 8 | 2);
        for page in 0..count {
            let hours = match habits.when {
                When::Shift => shift(&mut luck),
                When::Edition(from, to) => from as f64 + hour * (to - from) as f64 + 0.5 * luck.unit(),
            };
            let rank = zipf(luck.unit(), count_of_sections.into(), PUBLISHED_ZIPF);
            let popular = (rank as f64 + 1.0).powf(-SECTION_ZIPF);
            self.new.push_back(New {
                born: day * DAY + (hours * HOUR as f64) as u64,
                day: day as u32,
                page: page as u32,
                section: sections[rank as usize] as u16,
                weight: popular * (PAGE_SIGMA * luck.normal()).exp(),
                sum: 0.0,
            });
        }
    }

    fn forget(&mut self, midnight: u64) {
        self.new.retain(|new| new.born + KEPT * DAY > midnight);
        self.new.make_contiguous().sort_by_key(|new| (new.born, new.day, new.page));
    }

    /// Interest falls by half in equal times, for all pages of a site: how they compare does not change with time.
    fn sum(&mut self, epoch: usize) {
        let half = self.habits[epoch].half_life * HOUR as f64;
        let last = self.new.back().map_or(0, |new| new.born);
        let mut sum = 0.0;
        for new in &mut self.new {
            sum += new.weight * (-((last - new.born) as f64) / half).exp2();
            new.sum = sum;
        }
    }

    /// The page's own object, and what is embedded in it.
    fn parts(&self, seed: u64, of: [u64; 2], epoch: usize) -> Vec<Part> {
        let habits = self.habits[epoch];
        let mut luck = chance(seed, Use::Media, [u64::from(self.number) << 2 | of[1], of[0]]);
        let images = (luck.exponential(1.0 / (1.0 + 1.0 / habits.images).ln()) as usize).min(PARTS);
        let mut parts = vec![Part { media: Media::Html, size: sized(&mut luck, Media::Html) }];
        for _ in 0..images {
            let media = if luck.unit() < habits.photographs { Media::Jpeg } else { Media::Gif };
            parts.push(Part { media, size: sized(&mut luck, media) });
        }
        if luck.unit() < habits.archives {
            parts.push(Part { media: Media::Zip, size: sized(&mut luck, Media::Zip) });
        }
        parts
    }

    fn parts_of_new(&self, web: &Web, day: u32, page: u32) -> Vec<Part> {
        let epoch = web.epoch_at(u64::from(day) * DAY) as usize;
        self.parts(web.seed, [u64::from(day) << 32 | u64::from(page), 1], epoch)
    }

    /// When what stays was made: before the world began.
    fn created(&self, seed: u64, of: [u64; 2]) -> u64 {
        let mut luck = chance(seed, Use::Edit, [u64::from(self.number) << 2 | of[1], of[0] | 1 << 62]);
        let age = luck.exponential(AGE * DAY as f64).min(8.0 * AGE * DAY as f64);
        // Some day before the default world's.
        (Settings::default().begins - KEPT * DAY).saturating_sub(age as u64)
    }
}

impl New {
    fn part(&self, part: u16, media: Media) -> Path {
        Path::New { section: self.section, day: self.day, page: self.page, part, media }
    }
}

#[derive(Clone, Copy, Debug)]
struct Part {
    media: Media,
    size: u64,
}

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub media: Media,
    pub size: u64,
    pub created: u64,
    pub modified: u64,
    pub cacheable: bool,
    pub lifetime: Option<u32>,
}

impl Found {
    fn still(media: Media, size: u64, created: u64, lifetime: Option<u32>) -> Found {
        Found { media, size, created, modified: created, cacheable: true, lifetime }
    }

    fn row(self, url: String) -> Row {
        let Found { media, size, created, modified, cacheable, .. } = self;
        Row { url, size, modified, created, content_type: media.content_type().into(), cacheable }
    }
}

/// When something of a site was edited last: once in each of equal periods, at a moment of it that is left to chance.
struct Edits {
    seed: u64,
    site: u64,
    of: u64,
}

impl Edits {
    /// Of an index page: staff edits less at night.
    fn index(&self, hours: f64, at: u64) -> u64 {
        let period = (hours * HOUR as f64) as u64;
        let mut nth = at / period;
        loop {
            let mut luck = self.luck(nth);
            let edit = nth * period + luck.below(period);
            let hour = edit % DAY / HOUR;
            if edit <= at && (hour >= 6 || hours > 6.0 || luck.unit() < 0.3) || nth == 0 {
                return edit.min(at);
            }
            nth -= 1;
        }
    }

    /// Of a page that stays: while staff works.
    fn page(&self, days: f64, at: u64) -> u64 {
        let period = days.max(1.0) as u64;
        let mut nth = at / DAY / period;
        loop {
            let mut luck = self.luck(nth);
            let day = nth * period + luck.below(period);
            let edit = day * DAY + (shift(&mut luck) * HOUR as f64) as u64;
            if edit <= at || nth == 0 {
                return edit.min(at);
            }
            nth -= 1;
        }
    }

    fn luck(&self, nth: u64) -> Random {
        chance(self.seed, Use::Edit, [self.site << 44 ^ nth, self.of])
    }
}

/// The hour of the day at which somebody of a site's staff does something.
fn shift(luck: &mut Random) -> f64 {
    let hour = luck.unit();
    if luck.unit() < 0.8 { 8.0 + 10.0 * hour } else { 24.0 * hour }
}

/// Bytes of a new object.
fn sized(luck: &mut Random, media: Media) -> u64 {
    let (median, sigma) = media.sizes();
    (median * (sigma * luck.normal()).exp()).clamp(SIZES.0, SIZES.1) as u64
}

/// An edit changes the size by up to a tenth.
fn vary(size: u64, modified: u64) -> u64 {
    let part = crate::random::mix(size ^ modified << 20) % 2_001;
    (size * (9_000 + part) / 10_000).max(1)
}

/// A count of what happens independently, `mean` times on the average.
fn poisson(luck: &mut Random, mean: f64) -> u64 {
    if mean > 50.0 {
        return (mean + mean.sqrt() * luck.normal()).round().max(0.0) as u64;
    }
    let (limit, mut product, mut count) = ((-mean).exp(), luck.unit(), 0);
    while product > limit {
        product *= luck.unit();
        count += 1;
    }
    count
}

/// Numbers below `count` in an order that follows from the seed.
fn shuffled(count: u32, seed: u64, of: u64) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count).collect();
    all.sort_by_cached_key(|nth| (chance(seed, Use::Rank, [of, (*nth).into()]).bits(), *nth));
    all
}

/// How often each site is visited, 1 on the average.
fn weights(settings: &Settings, seed: u64, epoch: u64, draw: impl Fn(u32) -> f64) -> Vec<f64> {
    let mut weights = vec![0.0; settings.sites as usize];
    for (rank, site) in shuffled(settings.sites, seed, epoch << 8 | 1).into_iter().enumerate() {
        weights[site as usize] = draw(site) * (rank as f64 + 1.0).powf(-settings.site_zipf);
    }
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    weights.iter().map(|weight| weight / mean).collect()
}

/// Which row of `HABITS` each site has, in just the shares of that table.
fn kinds(sites: u32, seed: u64, epoch: u64) -> Vec<usize> {
    let mut kinds = vec![0; sites as usize];
    for (place, site) in shuffled(sites, seed, epoch << 8 | 3).into_iter().enumerate() {
        let mut left = (place as f64 + 0.5) / f64::from(sites);
        let row = HABITS.iter().position(|habits| {
            left -= habits.share;
            left < 0.0
        });
        kinds[site as usize] = row.unwrap_or(HABITS.len() - 1);
    }
    kinds
}
