//! What is counted of a simulated cache, and what it says of the whole. Sums are of samples at today's rate: they shrink with it, and
//! with time.

#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Of the whole load, without those that were lost on their way.
    pub whole: f64,
    pub sampled: f64,
    pub sampled_bytes: f64,
    pub hits: f64,
    pub hit_bytes: f64,
    /// The how manieth of its object each request is, all together, and of the hits.
    pub nths: f64,
    pub hit_nths: f64,
}

impl Sums {
    pub fn count(&mut self, bytes: f64, nth: f64, hit: bool) {
        self.sampled += 1.0;
        self.sampled_bytes += bytes;
        self.nths += nth;
        if hit {
            self.hits += 1.0;
            self.hit_bytes += bytes;
            self.hit_nths += nth;
        }
    }

    /// So much of all that was counted still counts.
    pub fn fade(&mut self, by: f64) {
        self.whole *= by;
        self.thin_out(by);
    }

    /// So much of the sample remains.
    pub fn thin_out(&mut self, by: f64) {
        let Sums { whole: _, sampled, sampled_bytes, hits, hit_bytes, nths, hit_nths } = self;
        for sum in [sampled, sampled_bytes, hits, hit_bytes, nths, hit_nths] {
            *sum *= by;
        }
    }

    /// Of requests and of bytes, in a sample of this rate. What the sample has more or fewer of requests than its rate corrects the
    /// hits, in so far as hits follow requests (`sample`).
    pub fn hit_ratios(&self, rate: f64) -> Option<(f64, f64)> {
        let expected = self.whole * rate;
        let any = expected > 0.0 && self.sampled_bytes > 0.0;
        let follow = self.hit_nths / self.nths.max(1.0);
        let hits = self.hits - follow * (self.sampled - expected);
        any.then(|| ((hits / expected).clamp(0.0, 1.0), self.hit_bytes / self.sampled_bytes))
    }
}
