//! One trace through one recipe on one medium, measured.

use crate::input::Reading;
use crate::medium::{Counted, Failed, Medium, Operations};
use crate::pipeline::{Outcomes, Pipeline};
use crate::recipe::{Recipe, Scale};
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
    pub device_reads: u64,
    pub device_writes: u64,
    pub device_bytes_read: u64,
    pub device_bytes_written: u64,
    pub operations: Operations,
    pub outcomes: Outcomes,
}

/// Replays all requests, while `watch` looks on.
pub fn replay(
    requests: &mut Reading,
    recipe: &Recipe,
    scale: &Scale,
    medium: &mut dyn Medium,
    medium_name: &str,
    watch: &mut Watch,
) -> Result<Row, Failed> {
    let mut storage = (recipe.storage)(scale);
    storage.prepare(medium)?;
    medium.sync()?;
    let (began, before) = (medium.seconds(), medium.traffic());
    let mut counted = Counted::new(medium);
    watch.begin(&mut counted);
    let mut pipeline = Pipeline::new(scale.memory);
    let mut access = Access::default();
    while requests.next(&mut access)? {
        pipeline
            .get(&mut *storage, &mut counted, &access)
            .map_err(|why| format!("{}: request {}: {why}", recipe.name, pipeline.outcomes.gets))?;
        watch.look(pipeline.outcomes.gets, &*storage);
    }
    watch.end(&mut counted, &*storage);
    storage.finish(&mut counted)?;
    let operations = std::mem::take(&mut counted.operations);
    let seconds = medium.seconds() - began;
    let (outcomes, traffic) = (pipeline.outcomes, medium.traffic());
    Ok(Row {
        recipe: recipe.name.to_owned(),
        medium: medium_name.to_owned(),
        gets: outcomes.gets,
        seconds,
        gets_per_second: if seconds > 0.0 { outcomes.gets as f64 / seconds } else { 0.0 },
        hit_ratio: outcomes.hit_ratio(),
        byte_hit_ratio: outcomes.byte_hit_ratio(),
        device_reads: traffic.reads - before.reads,
        device_writes: traffic.writes - before.writes,
        device_bytes_read: traffic.bytes_read - before.bytes_read,
        device_bytes_written: traffic.bytes_written - before.bytes_written,
        operations,
        outcomes,
    })
}
