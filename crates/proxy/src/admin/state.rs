//! What the page shows beside counters: what happened of late, who takes the memory, how the disks are filled, what a day is like.

use crate::off_peak::curve::DayCurve;
use crate::report::recent;
use crate::report::stats::Part;
use crate::tiers::stores::State;
use crate::worker::Shared;
use serde_json::{Value as Json, json};
use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

/// Parts of a log that are told of.
const CELLS: u64 = 256;

pub fn recent(shared: &Shared) -> String {
    let mut told = recent::json(&shared.recent);
    told["events"] = shared.log.events().iter().map(recent::Event::json).collect();
    told["now"] = now(SystemTime::now()).into();
    line(&told)
}

pub fn history(shared: &Shared, when: SystemTime) -> String {
    let mut told = shared.told_history(when);
    told["now"] = now(when).into();
    line(&told)
}

pub fn state(shared: &Shared) -> String {
    let settings = shared.settings.newest();
    let origin = settings.origin.as_ref().map(|origin| origin.hop.to_string());
    let day = shared.day.lock().unwrap_or_else(PoisonError::into_inner).clone();
    line(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "reverse-proxy-for": origin,
        "memory": memory(shared),
        "memory-clients": clients(shared),
        "disks": disks(shared),
        "day": if shared.tiers.stores.is_empty() { Json::Null } else { day_of(shared, &day) },
    }))
}

fn line(told: &Json) -> String {
    format!("{told}\n")
}

fn now(when: SystemTime) -> u64 {
    when.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The parts of `--memory-total`, and what is taken of those of which that is known.
fn memory(shared: &Shared) -> Json {
    let counted = shared.counted();
    let part = |part: &Part| json!({ "name": part.name, "bytes": part.bytes, "taken": part.taken });
    counted.parts().iter().map(part).collect()
}

/// The clients that have most of what is for bodies from origins, by address.
fn clients(shared: &Shared) -> Json {
    const MOST: usize = 10;
    let client =
        |(address, bytes): (IpAddr, usize)| json!({ "address": address.to_string(), "taken": bytes });
    shared.budget.clients.most(MOST).into_iter().map(client).collect()
}

fn disks(shared: &Shared) -> Json {
    let (disks, maps) = (shared.tiers.stores.disks(), shared.tiers.stores.maps(CELLS));
    let told = disks.iter().zip(maps).map(|(disk, map)| {
        let map = map.map(|map| {
            let cells = map.cells.iter().map(|cell| {
                json!([
                    cell.held as f64 / cell.of.max(1) as f64,
                    cell.behind,
                    cell.age.map(|age| age.as_secs())
                ])
            });
            json!({
                "segments": map.segments,
                "segment": map.segment,
                "next": map.next,
                "cells": cells.collect::<Vec<_>>(),
            })
        });
        let stats = disk.stats.map(|stats| {
            json!({
                "size": stats.size,
                "filled": stats.filled,
                "objects": stats.objects,
                "lap": stats.lap,
                "written-last-day": stats.written_last_day,
                "write-budget": stats.write_budget,
                "waiting-reads": stats.waiting_reads,
                "waiting-writes": stats.waiting_writes,
                "writes-fail": stats.writes_fail,
                "read-errors": stats.read_errors,
                "bad-records": stats.bad_records,
                "parts-left": stats.parts_left,
                "scrub-damaged": stats.scrub.damaged,
                "scrub-behind": stats.scrub_behind,
            })
        });
        let serves = disk.state == State::Serves;
        json!({ "name": disk.name, "serves": serves, "share": disk.share, "stats": stats, "map": map })
    });
    told.collect()
}

/// Requests of each quarter of an hour, and which are off-peak.
fn day_of(shared: &Shared, curve: &DayCurve) -> Json {
    let off_peak = &shared.settings.newest().off_peak;
    let slots = curve.loads().into_iter().zip((0..24 * 60).step_by(15));
    let slots = slots.map(|(load, minute)| json!([load, off_peak.share(minute, curve).is_some()]));
    json!({ "minute": crate::night::local_minute(), "slots": slots.collect::<Vec<_>>() })
}
