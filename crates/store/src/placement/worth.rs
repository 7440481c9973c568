//! The estimates: price of a byte, and what objects may be expected to give. The price is that of the last lap or so. What is known of a
//! class of size is of its last so many objects, however long ago: few large ones come in a lap.

/// A hit counts as one for each so many bytes of it, and one more: what it saves is an origin's delay and its bytes, and objects
/// however large that are asked for again and again have their place.
const HIT_BYTES: u64 = 64 << 10;
/// The oldest part of the log, whose hits are the price.
pub const TAIL: f64 = 0.25;
/// Times the price that is asked of what was seen once and of what was used. Of the first: what is hit in the oldest part is
/// put again and hit again, which the price does not count; with less, pages gain two points, and loads without locality lose as
/// much.
const OF_SEEN_ONCE: f64 = 3.0;
const OF_USED: f64 = 1.0;
/// What was used just now will likely be used once more before it is overwritten, and can be put again then: the hits expected
/// until then count so many times against putting it again now, as uses come in bursts.
const PATIENCE: f64 = 3.0;
/// Of hits at any age, one in so many counts.
const YOUNG: f64 = 8.0;
/// Of the log, one in so many bytes are unsure.
const UNSURE: f64 = 16.0;
/// Classes of size: two for each power of two, the last one for all that is larger.
pub const CLASSES: usize = 64;
/// What is believed before anything was counted: uses, and hits of them.
const PRIOR_USES: f64 = 10.0;
/// Of a size, as many objects as this are like those of all sizes.
const PRIOR_SEEN: f64 = 4.0;
const PRIOR_HITS: f64 = 5.0;

/// Objects of a class that are known of at most; at that half of the counts is forgotten.
const KNOWN: f64 = 2048.0;

pub struct Worth {
    /// What is left of the price's counts when a segment is opened.
    fades: f64,
    /// Bytes that count as put without a hit: few hits on little that was put are no price.
    unsure: f64,
    classes: [Class; CLASSES],
    /// Of all sizes.
    all: Class,
    /// Bytes put, and the value of hits, and of those in the oldest part.
    put: f64,
    hits: f64,
    tail: f64,
}

/// Objects of a class of size.
#[derive(Clone, Copy, Default)]
struct Class {
    /// That were seen once, and those of them that were asked for again after they had left memory.
    seen: f64,
    came_back: f64,
    /// Uses of those that were put again, then, and hits on them since.
    uses: f64,
    hits: f64,
}

/// What was counted since a segment was opened.
pub struct Counted {
    pub hits: u64,
    pub tail: u64,
    pub classes: [CountedClass; CLASSES],
}

/// Of a class of size.
pub struct CountedClass {
    pub came_back: u64,
    pub used_first: u64,
    pub again: u64,
}

/// What is known of objects of a size that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Value of the hits that a byte takes from others.
    pub price: f64,
    /// And of those that it has to bring to be written, beside that (`budget`).
    pub write_price: f64,
    /// Hits to be expected for each use.
    pub share: f64,
}

pub fn class(bytes: u64) -> usize {
    let bytes = bytes.max(2);
    let power = bytes.ilog2();
    let upper = bytes >> (power - 1) & 1;
    (2 * power as usize + upper as usize).min(CLASSES - 1)
}

/// Of a hit.
pub fn value(bytes: u64) -> u64 {
    HIT_BYTES + bytes
}

impl Rates {
    /// Whether an object that was used so often, and is not in the log, pays.
    pub fn pays(&self, uses: u8, bytes: u64) -> bool {
        self.pay(f64::from(uses) * self.share, bytes)
    }

    /// The same of one that was put this share of a lap ago: the less likely it is to be used once more before it is overwritten, the
    /// more of what is expected of it counts.
    pub fn pays_again(&self, uses: u8, bytes: u64, age: f64) -> bool {
        let expected = f64::from(uses) * self.share;
        self.pay(expected * (-PATIENCE * expected * (1.0 - age) / age.max(0.05)).exp(), bytes)
    }

    fn pay(&self, hits: f64, bytes: u64) -> bool {
        hits * value(bytes) as f64 > (OF_USED * self.price + self.write_price) * bytes as f64
    }
}

impl Class {
    fn stayed_away(&self) -> f64 {
        (self.seen - self.came_back).max(0.0)
    }

    fn forget(&mut self) {
        if self.seen > KNOWN {
            (self.seen, self.came_back) = (self.seen / 2.0, self.came_back / 2.0);
        }
        if self.uses > KNOWN {
            (self.uses, self.hits) = (self.uses / 2.0, self.hits / 2.0);
        }
    }
}

impl Worth {
    /// Of a log of so many segments, each of so many bytes.
    pub fn new(segments: u64, segment: u64) -> Worth {
        Worth {
            fades: 1.0 - 1.0 / (segments as f64).max(2.0),
            unsure: segments as f64 * segment as f64 / UNSURE,
            classes: [Class::default(); CLASSES],
            all: Class::default(),
            put: 0.0,
            hits: 0.0,
            tail: 0.0,
        }
    }

    /// As much as a segment was put.
    pub fn turn(&mut self, counted: &Counted) {
        self.hits += counted.hits as f64;
        self.tail += counted.tail as f64;
        for (class, counted) in self.classes.iter_mut().zip(&counted.classes) {
            for class in [class, &mut self.all] {
                class.came_back += counted.came_back as f64;
                class.hits += counted.again as f64;
                // What was used in memory first tells nothing of those that were not.
                class.seen = (class.seen - counted.used_first as f64).max(0.0);
                class.forget();
            }
        }
        [&mut self.put, &mut self.hits, &mut self.tail].into_iter().for_each(|count| *count *= self.fades);
    }

    pub fn seen_once(&mut self, bytes: u64) {
        self.each(bytes, |class| class.seen += 1.0);
    }

    /// What was seen once and turned away.
    pub fn came_back(&mut self, bytes: u64) {
        self.each(bytes, |class| class.came_back += 1.0);
    }

    pub fn put(&mut self, bytes: u64) {
        self.put += bytes as f64;
    }

    pub fn put_again(&mut self, bytes: u64, uses: u8) {
        self.classes[class(bytes)].uses += f64::from(uses);
    }

    #[cfg(test)]
    pub fn classes_for_tests(&self) -> Vec<(usize, u64, u64)> {
        let said =
            |(n, class): (usize, &Class)| (n, class.seen.round() as u64, class.came_back.round() as u64);
        self.classes.iter().enumerate().map(said).filter(|(_, seen, back)| seen + back > 0).collect()
    }

    fn each(&mut self, bytes: u64, count: impl Fn(&mut Class)) {
        count(&mut self.classes[class(bytes)]);
        count(&mut self.all);
    }

    /// Value of the hits that a byte takes from others. Where so much is put that nothing stays until it is old, those that are hit
    /// while they are young have to be paid for in part.
    pub fn price(&self) -> f64 {
        (self.tail / TAIL).max(self.hits / YOUNG) / (self.put + self.unsure)
    }

    /// Hits to be expected for each use, by class of size.
    pub fn shares(&self) -> impl Iterator<Item = f64> {
        self.classes.iter().map(|class| (class.hits + PRIOR_HITS) / (class.uses + PRIOR_USES))
    }

    /// Whether an object that was seen once pays: for each of its size that takes its bytes in vain there are so many hits.
    pub fn pays(&self, bytes: u64, places_cost: bool, write_price: f64) -> bool {
        let (of_all, of_size) = (&self.all, &self.classes[class(bytes)]);
        let known = (of_all.came_back + 1.0) / (of_all.stayed_away() + 1.0);
        let expected = (of_size.came_back + PRIOR_SEEN * known) / (of_size.stayed_away() + PRIOR_SEEN);
        let price = if places_cost { OF_SEEN_ONCE * self.price() } else { 0.0 };
        expected * value(bytes) as f64 > (price + write_price) * bytes as f64
    }
}
