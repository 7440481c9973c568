//! One trace through one recipe on one medium, measured.

pub mod pipeline;
pub mod watch;

use crate::input::{Input, Reading};
use crate::medium::{Busy, Counted, Failed, Medium, Operations, Traffic};
use crate::notes::{Notes, ONE_SERVER};
use crate::recipe::Recipe;
use crate::scale::Scale;
use crate::storage::Storage;
use pipeline::{Outcomes, Pipeline};
use serde::{Deserialize, Serialize};
use trace::{Access, Requests};
use watch::Watch;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub recipe: String,
    pub medium: String,
    pub gets: u64,
    /// Of the medium's own clock.
    pub seconds: f64,
    pub gets_per_second: f64,
    /// Of both caches together.
    pub hit_ratio: f64,
    pub byte_hit_ratio: f64,
    /// Nothing where nobody could count them.
    pub device_reads: Option<u64>,
    pub device_writes: Option<u64>,
    pub device_bytes_read: Option<u64>,
    pub device_bytes_written: Option<u64>,
    /// What these took: of a real device with what they waited for each other.
    #[serde(default)]
    pub device_read_seconds: Option<f64>,
    #[serde(default)]
    pub device_write_seconds: Option<f64>,
    /// Who counted them: a model, block events, or diskstats.
    pub counted_by: Option<String>,
    /// Bytes that flash took for each that the device was given to write; of modelled flash only.
    pub write_amplification: Option<f64>,
    /// Bytes that flash took; of modelled flash only.
    #[serde(default)]
    pub bytes_programmed: Option<u64>,
    pub operations: Operations,
    pub outcomes: Outcomes,
    /// What else a paper tells of the recipe.
    #[serde(default)]
    pub notes: Notes,
}

/// Of a replay: what of the trace only fills the caches.
pub struct Plan<'a> {
    pub input: &'a Input,
    pub recipe: &'a Recipe,
    pub scale: &'a Scale,
    /// Requests of the trace that are replayed, but not measured.
    pub warm_up: u64,
}

/// Where a measurement begins.
struct Start {
    seconds: f64,
    traffic: Traffic,
    busy: Option<Busy>,
    programmed: Option<u64>,
}

impl Start {
    /// What was counted before is forgotten.
    fn now(
        counted: &mut Counted,
        pipeline: &mut Pipeline,
        storage: &mut dyn Storage,
        watch: &mut Watch,
    ) -> Start {
        (counted.operations, pipeline.outcomes) = (Operations::default(), Outcomes::default());
        storage.begin_notes();
        watch.begin(counted);
        // A real medium takes its time to tell its traffic.
        let (traffic, busy, programmed) = (counted.traffic(), counted.busy(), counted.programmed());
        Start { seconds: counted.seconds(), traffic, busy, programmed }
    }
}

/// Replays all requests, while `watch` looks on. What was malformed, the reading knows.
pub fn replay(
    plan: &Plan,
    medium: &mut dyn Medium,
    medium_name: &str,
    watch: &mut Watch,
) -> Result<(Row, Reading), Failed> {
    let Plan { input, recipe, scale, warm_up } = plan;
    let mut storage = (recipe.storage)(scale);
    storage.foresee(&|| input.open())?;
    storage.prepare(medium)?;
    medium.sync()?;
    let mut counted = Counted::new(medium);
    let mut pipeline = Pipeline::new(scale.memory.saturating_sub(storage.memory()), recipe.memory);
    let (mut reading, mut access) = (input.open()?, Access::default());
    let (mut start, mut today) = (None, None);
    while reading.next(&mut access)? {
        if reading.read > *warm_up && start.is_none() {
            start = Some(Start::now(&mut counted, &mut pipeline, &mut *storage, watch));
        }
        let day = access.time / DAY;
        if day > *today.get_or_insert(day) {
            storage.night(&mut counted)?;
            today = Some(day);
        }
        pipeline
            .get(&mut *storage, &mut counted, &access)
            .map_err(|why| format!("{}: request {}: {why}", recipe.name, reading.read))?;
        watch.look(pipeline.outcomes.gets, &*storage);
    }
    let Start { seconds, traffic: before, busy, programmed } = match start {
        Some(start) => start,
        None if *warm_up == 0 => Start::now(&mut counted, &mut pipeline, &mut *storage, watch),
        None => return Err(format!("a warm-up of {warm_up} requests leaves none of the trace to measure")),
    };
    reading.check()?;
    watch.end(&mut counted, &*storage);
    storage.finish(&mut counted)?;
    counted.settle()?;
    let operations = std::mem::take(&mut counted.operations);
    let mut notes = storage.notes();
    if let Some((pieces, bytes)) = storage.free_pieces() {
        notes.insert("free_piece_bytes".into(), bytes as f64 / pieces.max(1) as f64);
    }
    if recipe.goes_by_server() && !reading.tells_servers() {
        notes.insert(ONE_SERVER.into(), 1.0);
    }
    let seconds = medium.seconds() - seconds;
    let (outcomes, traffic, counted_by) = (pipeline.outcomes, medium.traffic(), medium.counted_by());
    let known = |after: u64, before: u64| counted_by.map(|_| after.saturating_sub(before));
    let device_bytes_written = known(traffic.bytes_written, before.bytes_written);
    let busy = medium.busy().zip(busy);
    let taken = medium.programmed().zip(programmed).map(|(after, before)| after - before);
    let row = Row {
        recipe: recipe.name.to_owned(),
        medium: medium_name.to_owned(),
        gets: outcomes.gets,
        seconds,
        gets_per_second: if seconds > 0.0 { outcomes.gets as f64 / seconds } else { 0.0 },
        hit_ratio: outcomes.hit_ratio(),
        byte_hit_ratio: outcomes.byte_hit_ratio(),
        device_reads: known(traffic.reads, before.reads),
        device_writes: known(traffic.writes, before.writes),
        device_bytes_read: known(traffic.bytes_read, before.bytes_read),
        device_bytes_written,
        device_read_seconds: busy.map(|(after, before)| after.reads - before.reads),
        device_write_seconds: busy.map(|(after, before)| after.writes - before.writes),
        counted_by: counted_by.map(str::to_owned),
        write_amplification: taken
            .zip(device_bytes_written)
            .filter(|(_, written)| *written > 0)
            .map(|(taken, written)| taken as f64 / written as f64),
        bytes_programmed: taken,
        operations,
        outcomes,
        notes,
    };
    Ok((row, reading))
}

/// Microseconds.
const DAY: u64 = 86_400_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::From;
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};
    use crate::notes::TOO_LARGE;
    use crate::recipe;
    use trace::synthetic;

    fn measured(name: &str, requests: u64, warm_up: u64) -> Result<(Row, Watch<'static>), Failed> {
        let from = From::Synthetic { like: synthetic::named("dec")?, seed: 3 };
        let input = Input { from, requests: Some(requests), largest: None };
        let recipe = &recipe::named(&[name.to_owned()])?[0];
        let scale = Scale { memory: 1 << 20, disk: 8 << 20, ..Scale::default() };
        let mut watch = Watch { looks: true, ..Watch::default() };
        let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
        let plan = Plan { input: &input, recipe, scale: &scale, warm_up };
        replay(&plan, &mut ufs, "st15150w", &mut watch).map(|(row, _)| (row, watch))
    }

    #[test]
    fn a_warm_up_is_not_measured() {
        let (all, seen) = measured("stream", 4000, 0).unwrap();
        let (half, half_seen) = measured("stream", 4000, 2000).unwrap();
        assert_eq!((all.gets, half.gets), (4000, 2000));
        assert!(half.hit_ratio > all.hit_ratio && half.seconds < all.seconds);
        assert!(half.device_writes < all.device_writes && half.outcomes.stored < all.outcomes.stored);
        assert_eq!(seen.seen.free.looks.len(), 2 * half_seen.seen.free.looks.len());
        assert!(half_seen.seen.free.looks.is_sorted_by_key(|(nth, ..)| nth));
        assert!(half_seen.seen.distances.pairs < seen.seen.distances.pairs);
    }

    fn notes_of(name: &str, lines: &str) -> Result<Notes, Failed> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        std::fs::write(&path, lines).unwrap();
        let from = From::File { path, format: None, strict: false };
        let input = Input { from, requests: None, largest: None };
        let recipe = &recipe::named(&[name.to_owned()])?[0];
        let scale = Scale { memory: 1 << 20, disk: 8 << 20, ..Scale::default() };
        let plan = Plan { input: &input, recipe, scale: &scale, warm_up: 0 };
        let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
        replay(&plan, &mut ufs, "st15150w", &mut Watch::default()).map(|(row, _)| row.notes)
    }

    #[test]
    fn a_row_says_what_would_mislead() {
        let alone = "url,size\n/a,500\n/b,9000\n/c,9001\n";
        let named = "url,size\nhttp://a.test/a,500\nhttp://b.test/b,9000\n";
        for recipe in recipe::ALL.iter().filter(|recipe| recipe.goes_by_server()) {
            assert_eq!(notes_of(recipe.name, alone).unwrap()[ONE_SERVER], 1.0, "{}", recipe.name);
            assert!(!notes_of(recipe.name, named).unwrap().contains_key(ONE_SERVER), "{}", recipe.name);
        }
        assert_eq!(recipe::ALL.iter().filter(|recipe| recipe.goes_by_server()).count(), 16);
        assert!(!notes_of("stream", alone).unwrap().contains_key(ONE_SERVER));
        for mapped in ["lru", "fbc", "fbc-c", "future"] {
            assert_eq!(notes_of(mapped, alone).unwrap()[TOO_LARGE], 2.0, "{mapped}");
        }
        assert!(notes_of("stream", "url,size\n/a?b,500\n").unwrap_err().contains("1 for a query or a CGI"));
    }

    #[test]
    fn a_warm_up_as_long_as_the_trace_leaves_nothing() {
        assert!(measured("stream", 500, 499).is_ok());
        assert!(measured("stream", 500, 500).is_err_and(|why| why.contains("warm-up of 500")));
    }
}
