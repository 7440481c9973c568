//! One trace through one recipe on one medium, measured.

use crate::input::{Input, Reading};
use crate::medium::{Counted, Failed, Medium, Operations, Traffic};
use crate::pipeline::{Outcomes, Pipeline};
use crate::recipe::{Recipe, Scale};
use crate::storage::Notes;
use crate::watch::Watch;
use serde::{Deserialize, Serialize};
use trace::{Access, Requests};

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
    /// Who counted them: a model, block events, or diskstats.
    pub counted_by: Option<String>,
    /// Bytes that flash took for each that the device was given to write; of modelled flash only.
    pub write_amplification: Option<f64>,
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
    programmed: Option<u64>,
}

impl Start {
    fn of(medium: &dyn Medium) -> Start {
        Start { seconds: medium.seconds(), traffic: medium.traffic(), programmed: medium.programmed() }
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
    let mut start = Start::of(medium);
    let mut counted = Counted::new(medium);
    watch.begin(&mut counted);
    let mut pipeline = Pipeline::new(scale.memory);
    let (mut reading, mut access) = (input.open()?, Access::default());
    let mut midnight = None;
    let mut warm = *warm_up == 0;
    while reading.next(&mut access)? {
        if !warm && reading.read > *warm_up {
            (warm, pipeline.outcomes) = (true, Outcomes::default());
            counted.operations = Operations::default();
            start = Start::of(&counted);
        }
        if access.time >= *midnight.get_or_insert(access.time + DAY) {
            storage.night(&mut counted)?;
            midnight = midnight.map(|time| time + DAY);
        }
        pipeline
            .get(&mut *storage, &mut counted, &access)
            .map_err(|why| format!("{}: request {}: {why}", recipe.name, reading.read))?;
        watch.look(pipeline.outcomes.gets, &*storage);
    }
    watch.end(&mut counted, &*storage);
    storage.finish(&mut counted)?;
    counted.settle()?;
    let operations = std::mem::take(&mut counted.operations);
    let mut notes = storage.notes();
    if let Some((pieces, bytes)) = storage.free_pieces() {
        notes.insert("free_piece_bytes".into(), bytes as f64 / pieces.max(1) as f64);
    }
    let Start { seconds, traffic: before, programmed } = start;
    let seconds = medium.seconds() - seconds;
    let (outcomes, traffic, counted_by) = (pipeline.outcomes, medium.traffic(), medium.counted_by());
    let known = |after: u64, before: u64| counted_by.map(|_| after.saturating_sub(before));
    let device_bytes_written = known(traffic.bytes_written, before.bytes_written);
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
        counted_by: counted_by.map(str::to_owned),
        write_amplification: taken
            .zip(device_bytes_written)
            .filter(|(_, written)| *written > 0)
            .map(|(taken, written)| taken as f64 / written as f64),
        operations,
        outcomes,
        notes,
    };
    Ok((row, reading))
}

/// Microseconds.
const DAY: u64 = 86_400_000_000;
