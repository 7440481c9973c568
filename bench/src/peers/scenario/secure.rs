//! What is asked for over TLS: a few hot objects in memory by HTTP/1.1 and by HTTP/2, new connections with one request
//! each, and objects that must be fetched for clients of HTTP/2.
//!
//! The origin speaks plain HTTP/1.1.

use super::super::contender::Tier;
use super::super::field::Field;
use super::super::figure::{self, Figures};
use super::super::measured::{Measured, measure};
use super::super::running::{Need, Running};
use super::{KEPT, Name, Results, SETTLE, next_begins, plan, start_all};
use crate::body::mix;
use crate::load::{self, Order, Plan, Speaks, Target};
use std::sync::Arc;
use std::time::Duration;

/// Share of the handshakes where sessions are resumed.
const RESUMED: f64 = 0.99;
const ASKED_AGAIN: u64 = 1000;
const FILL_BYTES: u64 = 8 << 10;

/// One table: what is asked for, and on which connections.
struct Look {
    name: Name,
    title: &'static str,
    size: u64,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    /// Connections of HTTP/1.1 that stay.
    Https,
    /// Each request on a new connection of HTTP/1.1.
    Connect { resumes: bool },
    /// Connections of HTTP/2 that stay, each with so many streams at once.
    Http2 { connections: usize, streams: usize },
    /// The same for objects that nobody asked for yet.
    Fill { connections: usize, streams: usize },
}

/// Cosm, HAProxy and nginx let a client have 100 streams at once, or a few more.
const ONE: Way = Way::Http2 { connections: 1, streams: 100 };
const MANY: Way = Way::Http2 { connections: 32, streams: 4 };

const LOOKS: [Look; 9] = [
    Look { name: Name::TlsHit, title: "TLS hit 1 KB", size: 1 << 10, way: Way::Https },
    Look { name: Name::TlsHit, title: "TLS hit 64 KB", size: 64 << 10, way: Way::Https },
    Look {
        name: Name::Handshake,
        title: "full handshake",
        size: 1 << 10,
        way: Way::Connect { resumes: false },
    },
    Look {
        name: Name::Handshake,
        title: "resumed handshake",
        size: 1 << 10,
        way: Way::Connect { resumes: true },
    },
    Look { name: Name::Http2Hit, title: "HTTP/2 hit 1 KB, one connection", size: 1 << 10, way: ONE },
    Look { name: Name::Http2Hit, title: "HTTP/2 hit 64 KB, one connection", size: 64 << 10, way: ONE },
    Look { name: Name::Http2Hit, title: "HTTP/2 hit 1 KB, many connections", size: 1 << 10, way: MANY },
    Look { name: Name::Http2Hit, title: "HTTP/2 hit 64 KB, many connections", size: 64 << 10, way: MANY },
    Look {
        name: Name::Http2Fill,
        title: "HTTP/2 fill 8 KB",
        size: FILL_BYTES,
        way: Way::Fill { connections: 32, streams: 4 },
    },
];

pub fn run(field: &Field, wanted: &[Name], results: &mut Results) {
    eprintln!("over TLS");
    let scale = &field.scale;
    let fills = u64::from(scale.rounds) * scale.fill_over_tls;
    let need = Need {
        tier: Tier::Tls,
        memory: scale.memory.tier_bytes,
        // Hot objects of all sizes together take less than eight times as many of 8 KB.
        objects: fills + 16 * scale.memory.objects,
        object_bytes: FILL_BYTES,
        limit: None,
    };
    let mut all = start_all(field, &need, "TLS", results);
    let mut out: Vec<(&str, &str)> = Vec::new();
    for round in 0..scale.rounds {
        for look in LOOKS.iter().filter(|look| wanted.contains(&look.name)) {
            for running in &all {
                let one = running.contender.name;
                if !out.contains(&(look.title, one))
                    && !results.take(look.title, one, round, look.figures(field, running, round))
                {
                    out.push((look.title, one));
                }
            }
        }
        next_begins(&mut all);
    }
}

impl Look {
    fn figures(&self, field: &Field, running: &Running, round: u32) -> Result<Figures, String> {
        let plan = self.way.plan(field, plan(field, running, self.size))?;
        match self.way {
            Way::Fill { .. } => fill(field, running, &plan, round),
            way => hits(field, running, plan, round, way),
        }
    }
}

fn hits(field: &Field, running: &Running, plan: Plan, round: u32, way: Way) -> Result<Figures, String> {
    let hot = Plan { order: Order::Cycle(0..field.scale.memory.objects), ..plan };
    if round == 0 {
        // To fetch each, and to look whether it is there.
        let all = 0..field.scale.memory.objects;
        let order = Order::Listed(all.clone().chain(all).collect());
        let fetch = Plan { order, connections: 1, check_every: 1, ..hot.clone() };
        load::run(&fetch)?.fault().map_or(Ok(()), Err)?;
    }
    if let Way::Connect { resumes: true } = way {
        // A ticket for each connection to begin with.
        let order = Order::Once(0..hot.connections as u64);
        load::run(&Plan { order, ..hot.clone() })?.fault().map_or(Ok(()), Err)?;
    }
    let lasts = Some(Duration::from_secs_f64(field.scale.seconds));
    let measured = measure(field, running, &Plan { lasts, check_every: 256, ..hot }, Duration::ZERO)?;
    let measured = measured.all_hits(0.0)?;
    let mut figures = measured.requests();
    if let Way::Connect { resumes } = way {
        figures.push((&figure::RESUMED, resumed(&measured, resumes)?));
    }
    Ok(figures)
}

/// The percentage; no figure where it is not as wanted, or connections were used again.
fn resumed(measured: &Measured, wanted: bool) -> Result<f64, String> {
    let (shakes, requests) = (measured.load.handshakes, measured.load.requests);
    let all = shakes.full + shakes.resumed;
    if all < requests {
        return Err(format!("{all} handshakes for {requests} requests"));
    }
    let share = shakes.resumed as f64 / all as f64;
    if wanted && share < RESUMED {
        return Err(format!("{} of {all} handshakes were full ones", shakes.full));
    }
    Ok(100.0 * share)
}

/// Objects that nobody asked for before; some of them are asked for again, which shows how many were kept.
fn fill(field: &Field, running: &Running, plan: &Plan, round: u32) -> Result<Figures, String> {
    if running.answers_from_files() {
        return Err("it answers from files and fetches nothing".into());
    }
    let count = field.scale.fill_over_tls;
    let (from, to) = (u64::from(round) * count, u64::from(round + 1) * count);
    let once = Plan { order: Order::Once(from..to), ..plan.clone() };
    let measured = measure(field, running, &once, SETTLE)?;
    if measured.asked.requests < count {
        return Err(format!("the origin was asked for {} of {count} misses", measured.asked.requests));
    }
    let again = (0..ASKED_AGAIN).map(|nth| from + mix(nth) % count).collect();
    let again = load::run(&Plan { order: Order::Listed(again), check_every: 1, ..plan.clone() })?;
    again.fault().map_or(Ok(()), Err)?;
    let kept = again.hits as f64 / again.requests as f64;
    if kept < KEPT {
        return Err(format!("{:.1} % of what it fetched was there afterwards", 100.0 * kept));
    }
    let mut figures = measured.requests();
    figures.push((&figure::KEPT, 100.0 * kept));
    Ok(figures)
}

impl Way {
    fn plan(self, field: &Field, plan: Plan) -> Result<Plan, String> {
        let tls = |protocol: &[u8], resumes| field.certificate.clients(protocol, resumes).map(Arc::new);
        Ok(match self {
            Way::Https => Plan { speaks: Speaks::Https(tls(b"http/1.1", false)?), ..plan },
            Way::Connect { resumes } => {
                let target = Target { close: true, ..plan.target };
                Plan { speaks: Speaks::Https(tls(b"http/1.1", resumes)?), target, ..plan }
            }
            Way::Http2 { connections, streams } | Way::Fill { connections, streams } => {
                Plan { speaks: Speaks::Http2(tls(b"h2", false)?, streams), connections, ..plan }
            }
        })
    }
}
