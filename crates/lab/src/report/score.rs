//! What a design stands on, and the front of those that nothing dominates.

use super::axis::Axis;
use super::html::{figure, paragraph, per_cent, size, table, thousands};
use super::plot::{Spot, spots};
use crate::results::Run;
use crate::results::score::{Score, scores};

pub fn section(run: &Run) -> Result<String, String> {
    let scores = scores(&run.rows, &run.origin);
    let spot = |score: &Score| {
        let at = (score.device_seconds()?, 100.0 * score.hit_ratio);
        Some(Spot { name: score.recipe.clone(), at, on_front: score.is_on_front() })
    };
    let all: Vec<Spot> = scores.iter().filter_map(spot).collect();
    let mut text = String::new();
    if !all.is_empty() {
        let x = Axis::logarithmic_between("device seconds", all.iter().map(|spot| spot.at.0));
        let y = Axis::between("hits, per cent", all.iter().map(|spot| spot.at.1));
        text += &figure(
            &spots(&x, &y, &all)?,
            "Upwards and to the left is better. Nothing dominates those that the line joins; names that find no room are in \
             the table.",
        );
    }
    let head = [
        "recipe",
        "hits",
        "of bytes",
        "device s reading",
        "writing",
        "MB of origins",
        "MB written",
        "MB programmed",
        "service s",
        "dominated by",
        "unlike others",
    ];
    let seconds =
        |seconds: Option<f64>| seconds.map_or("not known".into(), |seconds| format!("{seconds:.0}"));
    let megabytes = |bytes: Option<u64>| bytes.map_or(String::new(), |bytes| thousands(bytes / 1_000_000));
    let cells = |score: &Score| {
        vec![
            score.recipe.clone(),
            per_cent(score.hit_ratio),
            per_cent(score.byte_hit_ratio),
            seconds(score.device_read_seconds),
            seconds(score.device_write_seconds),
            megabytes(Some(score.origin_bytes)),
            megabytes(score.bytes_written),
            megabytes(score.bytes_programmed),
            thousands(score.service_seconds as u64),
            if score.is_on_front() { "nobody".into() } else { score.dominated_by.join(", ") },
            score.unlike.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = scores.iter().map(cells).collect();
    text += &table(false, &head.map(str::to_owned), &rows);
    text += &paragraph(&format!(
        "All have {} of memory and {} of the medium, of which those that are told what to keep fill {} per cent. Service is \
         the medium's time and, for each miss, {} ms until the origin answers and {} a second from then on, one after the other.",
        size(run.scale.memory),
        size(run.scale.space()),
        (100.0 * run.scale.utilization).round(),
        run.origin.delay * 1000.0,
        size(run.origin.bandwidth as u64),
    ));
    Ok(text)
}
