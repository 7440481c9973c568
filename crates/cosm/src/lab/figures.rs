//! `cosm lab figures`: the curves and pictures of WebCoSM.

use super::folder::{self, Folder};
use super::media::{self, Chosen};
use super::work::{Progress, on_all_cores};
use super::{asked, input, input_args, names, send};
use crate::Failure;
use clap::{Arg, ArgMatches, Command};
use lab::experiments::figures::{FIGURES, Job, jobs, named};
use lab::input::Input;
use lab::replay::Plan;
use lab::replay::watch::Watch;
use lab::results::{Point, Points};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub fn command() -> Command {
    let known: Vec<String> = FIGURES.iter().map(|figure| figure.number.to_string()).collect();
    let figures = Arg::new("figures")
        .long("figures")
        .value_name("NUMBERS")
        .default_value("all")
        .help(format!("Numbers of WebCoSM's figures, separated by commas, or all: {}", known.join(", ")));
    let out = folder::arg(
        "Keep each point in this directory as soon as it is known, continue from there, and write report.html",
    );
    Command::new("figures")
        .about("Draw WebCoSM's figures from many replays, on all cores")
        .after_help(
            "Each figure uses the paper's number of requests and cache sizes. --requests changes both in proportion.",
        )
        .args(input_args())
        .args([figures, media::modelled(), out.required(true)])
}

pub fn figures(args: &ArgMatches) -> Result<(), Failure> {
    let input = input(args)?;
    let figures = named(&names(args, "figures")).map_err(Failure::Usage)?;
    if input.requests == Some(0) {
        return Err(Failure::Usage("--requests: at least 1".into()));
    }
    let Some(folder) = Folder::of(args)? else { return Err(Failure::Usage("name a folder by --out".into())) };
    let asked = asked(args, &input)?;
    let mut points = match folder.points()? {
        Some(kept) if folder.goes_on(&kept.asked, &asked) => kept,
        _ => Points { asked, points: Vec::new() },
    };
    let all = jobs(&figures, input.requests);
    let is_there = |job: &&Job| points.points.iter().any(|point| job.is_of(point));
    let (there, missing): (Vec<&Job>, Vec<&Job>) = all.iter().partition(is_there);
    if !there.is_empty() {
        proxy::say(format_args!("{} of {} points are there already", there.len(), all.len()));
    }
    // As it is now, without what was written in part.
    folder.write_points(&points)?;
    let medium = points.asked.medium.clone();
    let done = run(&input, &medium, &missing, &mut points, &folder);
    sort(&mut points, input.requests);
    folder.write_points(&points)?;
    folder.write_report()?;
    done
}

/// Makes the points that are missing.
fn run(
    input: &Input,
    medium: &str,
    missing: &[&Job],
    points: &mut Points,
    folder: &Folder,
) -> Result<(), Failure> {
    let expected = input.largest.is_none().then(|| missing.iter().map(|job| job.requests).sum());
    let progress = Progress::new(missing.len(), expected);
    let first = AtomicBool::new(true);
    let work = |job: &&Job| {
        let input = Input { requests: Some(job.requests), ..input.clone() };
        let mut watch = Watch { requests: Some(&progress.requests), looks: job.looks, ..Watch::default() };
        let plan = Plan { input: &input, recipe: job.recipe, scale: &job.scale, warm_up: 0 };
        let medium = Chosen::modelled(medium, job.scale)?;
        let row = send(&plan, &medium, &mut watch, first.swap(false, Relaxed))?;
        Ok(Point { requests: job.requests, scale: job.scale, row, seen: job.looks.then_some(watch.seen) })
    };
    let mut unwritten = None;
    on_all_cores(usize::MAX, missing, &progress, work, |job, point: Result<Point, String>| match point {
        Ok(point) => {
            let written = folder.add_point(&point);
            unwritten = unwritten.take().or(written.err());
            // One that was there without pictures goes.
            let bare = Job { looks: false, ..**job };
            points.points.retain(|other| !bare.is_of(other));
            points.points.push(point);
        }
        Err(why) => progress.fail(why),
    });
    unwritten.map_or_else(|| progress.failure("points"), Err)
}

/// In the order of the figures, whichever was done first.
fn sort(points: &mut Points, requests: Option<u64>) {
    let order = jobs(FIGURES, requests);
    points.points.sort_by_key(|point| {
        order.iter().position(|job| Job { looks: false, ..*job }.is_of(point)).unwrap_or(order.len())
    });
}
