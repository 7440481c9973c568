//! One trace through one recipe on one medium, measured.

use crate::input::Reading;
use crate::medium::{Counted, Failed, Medium, Operations};
use crate::pipeline::{Outcomes, Pipeline};
use crate::recipe::{Recipe, Scale};
use serde::Serialize;
use trace::{Access, Requests};

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub recipe: &'static str,
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
}

/// Replays all requests.
pub fn replay(
    requests: &mut Reading,
    recipe: &Recipe,
    scale: &Scale,
    medium: &mut dyn Medium,
    medium_name: &str,
) -> Result<Row, Failed> {
    let mut storage = (recipe.storage)(scale);
    storage.prepare(medium)?;
    medium.sync()?;
    let (began, before, programmed) = (medium.seconds(), medium.traffic(), medium.programmed());
    let mut counted = Counted::new(medium);
    let mut pipeline = Pipeline::new(scale.memory);
    let mut access = Access::default();
    while requests.next(&mut access)? {
        pipeline
            .get(&mut *storage, &mut counted, &access)
            .map_err(|why| format!("{}: request {}: {why}", recipe.name, pipeline.outcomes.gets))?;
    }
    storage.finish(&mut counted)?;
    counted.settle()?;
    let operations = std::mem::take(&mut counted.operations);
    let seconds = medium.seconds() - began;
    let (outcomes, traffic, counted_by) = (pipeline.outcomes, medium.traffic(), medium.counted_by());
    let known = |after: u64, before: u64| counted_by.map(|_| after.saturating_sub(before));
    let device_bytes_written = known(traffic.bytes_written, before.bytes_written);
    let taken = medium.programmed().zip(programmed).map(|(after, before)| after - before);
    Ok(Row {
        recipe: recipe.name,
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
    })
}
