//! Memory hits: a few hot objects of each size, asked for by a closed loop.

use super::super::contender::Tier;
use super::super::field::Field;
use super::super::figure::Figures;
use super::super::measured::measure;
use super::super::running::{Need, Running};
use super::{Name, Results, plan, start_all};
use crate::load::{self, Order, Plan};
use std::time::Duration;

pub fn run(field: &Field, _wanted: &[Name], results: &mut Results) {
    eprintln!("memory hits");
    let memory = &field.scale.memory;
    let need = Need {
        tier: Tier::Memory,
        memory: memory.tier_bytes,
        objects: memory.objects * memory.sizes.len() as u64,
        object_bytes: memory.sizes[2],
        limit: None,
    };
    let all = start_all(field, &need, "memory hit", results);
    let mut out: Vec<(u64, &str)> = Vec::new();
    for round in 0..field.scale.rounds {
        for size in memory.sizes {
            let scenario = format!("memory hit {} KB", size >> 10);
            for running in &all {
                let one = running.contender.name;
                if !out.contains(&(size, one))
                    && !results.take(&scenario, one, round, hit(field, running, size, round))
                {
                    out.push((size, one));
                }
            }
        }
    }
}

fn hit(field: &Field, running: &Running, size: u64, round: u32) -> Result<Figures, String> {
    let hot = Plan { order: Order::Cycle(0..field.scale.memory.objects), ..plan(field, running, size) };
    if round == 0 {
        let half = Some(Duration::from_millis(500));
        load::run(&Plan { connections: 1, lasts: half, check_every: 1, ..hot.clone() })?;
    }
    let lasts = Some(Duration::from_secs_f64(field.scale.seconds));
    let measured = measure(field, running, &Plan { lasts, check_every: 256, ..hot }, Duration::ZERO)?;
    Ok(measured.all_hits(0.0)?.requests())
}
