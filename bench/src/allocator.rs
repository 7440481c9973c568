//! What it costs UNIFIED (Chang and Lai, 4.3 and 4.4) to take and give back room, by how many pieces are free.

use lab::layout::unified::FreePieces;
use std::time::Instant;
use trace::random::Random;

/// Chunks of an object, on the average and at most.
const MEAN: u64 = 8;
const MOST: u64 = 2 * MEAN - 1;
const SEED: u64 = 1;

#[derive(clap::Args)]
pub struct Request {
    /// Free pieces, at most; from a thousand on, ten times as many each.
    #[arg(long, default_value_t = 10_000_000)]
    pieces: u64,
    /// Objects that are deleted and stored again, in each of five rounds.
    #[arg(long, default_value_t = 200_000)]
    turns: u32,
    #[arg(long, hide = true)]
    cosm: Option<std::path::PathBuf>,
    #[arg(long, hide = true)]
    command: Option<String>,
}

pub fn run(request: &Request) -> Result<(), String> {
    println!("{:>12} {:>12} {:>14} {:>8}", "free pieces", "ns a turn", "ns / log2 n", "spread");
    let mut count = 1000;
    while count <= request.pieces {
        let mut file = Worn::with(count)?;
        let mut rounds: Vec<f64> = (0..5).map(|_| file.measure(request.turns)).collect();
        rounds.sort_by(f64::total_cmp);
        let (pieces, median) = (file.pieces.count(), rounds[2]);
        let spread = 100.0 * (rounds[3] - rounds[1]) / 2.0 / median;
        println!("{pieces:>12} {median:>12.0} {:>14.1} {spread:>7.0}%", median / (pieces as f64).log2());
        count *= 10;
    }
    Ok(())
}

/// A file whose objects were stored and deleted for long.
struct Worn {
    pieces: FreePieces,
    /// First chunk and count of each object.
    objects: Vec<(u32, u32)>,
    random: Random,
}

impl Worn {
    /// With about so many free pieces: every other object is gone.
    fn with(count: u64) -> Result<Worn, String> {
        let chunks = u32::try_from(2 * count * MEAN).map_err(|_| format!("{count} pieces are too many"))?;
        let mut worn =
            Worn { pieces: FreePieces::new(chunks), objects: Vec::new(), random: Random::of(SEED) };
        worn.pieces.take_largest();
        let (mut at, mut gone) = (0, Vec::new());
        while at < chunks {
            let object = (at, (1 + worn.random.below(MOST) as u32).min(chunks - at));
            if worn.objects.len() > gone.len() {
                gone.push(object)
            } else {
                worn.objects.push(object)
            }
            at += object.1;
        }
        gone.into_iter().for_each(|(first, count)| worn.pieces.give(first, count));
        Ok(worn)
    }

    /// Nanoseconds for an object that goes and another that comes.
    fn measure(&mut self, turns: u32) -> f64 {
        let begin = Instant::now();
        (0..turns).for_each(|_| self.turn());
        begin.elapsed().as_nanos() as f64 / f64::from(turns)
    }

    fn turn(&mut self) {
        let nth = self.random.below(self.objects.len() as u64) as usize;
        let (first, count) = self.objects.swap_remove(nth);
        self.pieces.give(first, count);
        // The largest is never smaller than what was just given.
        let Some((first, free)) = self.pieces.take_largest() else { return };
        self.objects.push((first, count));
        if free > count {
            self.pieces.give(first + count, free - count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_keep_the_pieces_many() {
        let mut worn = Worn::with(1000).unwrap();
        let (objects, free) = (worn.objects.len(), worn.pieces.free());
        assert!((900..1100).contains(&worn.pieces.count()));
        assert!(worn.measure(2000) > 0.0);
        assert_eq!((worn.objects.len(), worn.pieces.free()), (objects, free));
        assert!(worn.pieces.count() > 300, "{}", worn.pieces.count());
    }
}
