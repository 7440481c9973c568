//! What a place in the log is worth, from live counts.
//!
//! A byte appended takes a place for a lap and shortens the stay of all others by as much: what is lost is the hits that fall in
//! the oldest share of the log, one for each record that has any there, since the next miss would bring it back. So these, for each
//! byte appended, are the *price* of a byte. A hit counts one and its bytes, as the origin takes a time for each request and for
//! each byte: without them nobody large would ever pay. An object is appended if what is to be expected of it in a lap is more than
//! its bytes cost:
//!
//! - of one that was seen once: what the same sizes gave, whether they were appended at once or turned away. Of those of them that
//!   were asked for again within a lap, who was at once appended was hit and who was turned away was not; only who was never asked
//!   for again took bytes that the second request would have saved;
//! - of one that was used: a share of its uses, as large as those of its sizes got that were appended again before.
//!
//! All counts fade with a lap, so that an estimate is of the last lap or so.

/// The oldest share of the log that tells the price.
const TAIL: f64 = 0.25;
/// Times the price that is asked of what was seen once and of what was used. Of the first: what is hit in the oldest share is
/// written again and hit again, which the price does not count; from 2 to 16 hits hardly differ. Of the second: with 1 there are a few
/// more hits, fewer of bytes, and an object of a quarter of the log does not get in.
const OF_SEEN_ONCE: f64 = 4.0;
const OF_USED: f64 = 0.5;
/// Bytes that count as much as a request: with more, fewer bytes are hit than by a log without admission.
const BYTES_A_REQUEST: f64 = 65_536.0;
/// Classes of size: two for each power of two, the last one for all that is larger.
pub const CLASSES: usize = 48;
/// What is believed of a class before anything was counted: uses, and hits of them.
const PRIOR_USES: f64 = 10.0;
const PRIOR_HITS: f64 = 5.0;

pub struct Worth {
    /// What is left of a count when a segment was opened.
    fades: f64,
    seen_once: [SeenOnce; CLASSES],
    used: [Used; CLASSES],
    /// Bytes appended, and hits in the oldest share by their weight.
    appended: f64,
    tail_hits: f64,
}

/// Objects of a class of size: how many of those that were seen once came back within a lap, and how many did not.
#[derive(Clone, Copy, Default)]
struct SeenOnce {
    came_back: f64,
    stayed_away: f64,
}

/// Uses of what was appended again, then, and hits that it got since.
#[derive(Clone, Copy, Default)]
struct Used {
    uses: f64,
    hits: f64,
}

pub fn class(bytes: u64) -> usize {
    let bytes = bytes.max(2);
    let power = bytes.ilog2();
    let upper = bytes >> (power - 1) & 1;
    (2 * power as usize + upper as usize).min(CLASSES - 1)
}

/// Whether a record of this age lies in the share of the log that tells the price.
pub fn is_in_tail(age: f64) -> bool {
    age >= 1.0 - TAIL
}

/// Of a hit, in requests.
fn weight(bytes: u64) -> f64 {
    1.0 + bytes as f64 / BYTES_A_REQUEST
}

impl Worth {
    /// Of a log of so many segments.
    pub fn new(segments: usize) -> Worth {
        Worth {
            fades: 1.0 - 1.0 / (segments as f64).max(2.0),
            seen_once: [SeenOnce::default(); CLASSES],
            used: [Used::default(); CLASSES],
            appended: 0.0,
            tail_hits: 0.0,
        }
    }

    /// A segment was opened.
    pub fn fade(&mut self) {
        for SeenOnce { came_back, stayed_away } in &mut self.seen_once {
            *came_back *= self.fades;
            *stayed_away *= self.fades;
        }
        for Used { uses, hits } in &mut self.used {
            *uses *= self.fades;
            *hits *= self.fades;
        }
        self.appended *= self.fades;
        self.tail_hits *= self.fades;
    }

    pub fn appended(&mut self, bytes: u64) {
        self.appended += bytes as f64;
    }

    /// What was used so often is appended again.
    pub fn appended_again(&mut self, uses: u8, bytes: u64) {
        self.used[class(bytes)].uses += f64::from(uses);
    }

    /// A hit on a record that was appended again.
    pub fn hit_again(&mut self, bytes: u64) {
        self.used[class(bytes)].hits += 1.0;
    }

    /// The first hit on a record since it came into the oldest share.
    pub fn hit_in_tail(&mut self, bytes: u64) {
        self.tail_hits += weight(bytes);
    }

    /// What was seen once and has left memory was asked for again.
    pub fn came_back(&mut self, bytes: u64) {
        self.seen_once[class(bytes)].came_back += 1.0;
    }

    /// Of a class so many that were seen once were overwritten, or forgotten, before they were asked for again.
    pub fn stayed_away(&mut self, class: usize, count: f64) {
        self.seen_once[class].stayed_away += count;
    }

    /// Requests that a byte costs.
    pub fn price(&self) -> f64 {
        self.tail_hits / TAIL / self.appended.max(1.0)
    }

    /// Hits that an object used so often may expect in a lap; of one that was seen once, for each that takes bytes in vain.
    pub fn expected(&self, uses: u8, bytes: u64) -> f64 {
        if uses > 0 {
            let used = self.used[class(bytes)];
            return f64::from(uses) * (used.hits + PRIOR_HITS) / (used.uses + PRIOR_USES);
        }
        let SeenOnce { came_back, stayed_away } = self.seen_once[class(bytes)];
        (came_back + 1.0) / (stayed_away + 1.0)
    }

    /// Whether an object used so often pays, if `share` of what it may expect is to be counted.
    pub fn pays(&self, uses: u8, bytes: u64, share: f64) -> bool {
        let times = if uses > 0 { OF_USED } else { OF_SEEN_ONCE };
        self.expected(uses, bytes) * weight(bytes) * share > times * self.price() * bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_half_a_power_of_two() {
        assert_eq!(
            [1, 2, 3, 4, 6, 8, 11, 12, 1024, 1535, 1536].map(class),
            [2, 2, 3, 4, 5, 6, 6, 7, 20, 20, 21]
        );
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn without_hits_in_the_oldest_share_all_is_worth_its_bytes() {
        let mut worth = Worth::new(64);
        worth.appended(1 << 20);
        assert!(worth.pays(0, 1 << 30, 1.0));
        (0..5).for_each(|_| worth.hit_in_tail(0));
        assert_eq!(worth.price(), 20.0 / f64::from(1 << 20));
        assert!(!worth.pays(0, 1 << 30, 1.0));
    }

    #[test]
    fn who_comes_back_pays_and_fades() {
        let mut worth = Worth::new(64);
        worth.appended(10 << 20);
        (0..500).for_each(|_| worth.hit_in_tail(4000));
        (0..100).for_each(|_| worth.came_back(4000));
        (0..100).for_each(|_| worth.stayed_away(class(40_000), 1.0));
        assert!(worth.pays(0, 4000, 1.0) && !worth.pays(0, 40_000, 1.0));
        assert!(worth.pays(3, 3000, 1.0) && !worth.pays(1, 300_000, 1.0));
        assert!(!worth.pays(3, 3000, 0.01), "it will likely be used before");
        (0..64 * 8).for_each(|_| worth.fade());
        assert!((worth.expected(0, 4000) - 1.0).abs() < 0.1, "nothing is known any more");
    }

    /// A hundred times as large costs a hundred times as much, and its hits count more.
    #[test]
    fn large_objects_that_are_used_get_in() {
        let mut worth = Worth::new(64);
        worth.appended(100 << 20);
        (0..100).for_each(|_| worth.hit_in_tail(10_000));
        assert!(
            worth.pays(1, 100 << 10, 1.0) && worth.pays(1, 100 << 20, 1.0) && worth.pays(1, 1 << 40, 1.0)
        );
        (0..500).for_each(|_| worth.appended_again(3, 100 << 20));
        assert!(!worth.pays(3, 100 << 20, 1.0), "its class gets no hits");
        assert!(worth.pays(1, 100 << 10, 1.0));
    }
}
