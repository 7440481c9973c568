//! Recipes side by side, beside what the papers have.

use super::axis::Axis;
use super::html::{figure, heading, paragraph, per_cent, table, thousands};
use super::named;
use super::pictures;
use super::plot::{Bars, bars};
use crate::experiments::papers::published_speed;
use crate::replay::Row;
use crate::results::Run;
use std::collections::BTreeSet;

/// How far from a published figure is still near.
const NEAR: f64 = 0.25;

/// All runs together, then each.
pub fn section(runs: &[(&str, &Run)]) -> Result<String, String> {
    let mut body = String::new();
    if runs.len() > 1 {
        body += &together(runs)?;
    }
    for (name, run) in runs {
        let title = |title: &str| named(title, name, runs.len());
        body += &heading(2, &title("Gets a second"), run.asked.synthetic);
        body += &gets(run)?;
        body += &heading(2, &title("Score"), run.asked.synthetic);
        body += &super::score::section(run)?;
        body += &heading(2, &title("What the device did"), run.asked.synthetic);
        body += &device(run)?;
        body += &heading(2, &title("Hits"), run.asked.synthetic);
        body += &hits(run)?;
        body += &heading(2, &title("Operations"), run.asked.synthetic);
        body += &operations(run);
        body += &notes(run);
        for looked in &run.seen {
            body += &heading(2, &title(&format!("Pictures of {}", looked.recipe)), run.asked.synthetic);
            body += &pictures::all(&looked.recipe, &looked.seen)?;
        }
    }
    Ok(body)
}

fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn gets(run: &Run) -> Result<String, String> {
    let axis = Axis::logarithmic(
        "gets a second",
        run.rows.iter().flat_map(|row| {
            let found = row.gets_per_second;
            [found, published_speed(run, row).unwrap_or(found)]
        }),
    );
    let group = |row: &Row| Bars {
        name: row.recipe.clone(),
        values: vec![row.gets_per_second],
        published: published_speed(run, row),
    };
    let plot = bars(axis, &["gets a second"], &run.rows.iter().map(group).collect::<Vec<_>>())?;
    let mut rows = Vec::new();
    for row in &run.rows {
        let beside = match published_speed(run, row) {
            Some(published) => {
                let ratio = row.gets_per_second / published;
                let near = (1.0 - NEAR..=1.0 + NEAR).contains(&ratio);
                [
                    format!("{published:.0}"),
                    format!("{ratio:.2}"),
                    if near { "yes".into() } else { "no".into() },
                ]
            }
            None => [String::new(), String::new(), String::new()],
        };
        let mut cells = vec![row.recipe.clone(), format!("{:.1}", row.gets_per_second)];
        cells.extend(beside);
        cells.extend([format!("{:.0}", row.seconds), thousands(row.gets)]);
        rows.push(cells);
    }
    let head = columns(&["recipe", "gets/s", "published", "ratio", "within 25 %", "seconds", "gets"]);
    let mut text =
        figure(&plot, "On a logarithmic scale; seconds are the medium's own.") + &table(false, &head, &rows);
    if run.rows.iter().any(|row| published_speed(run, row).is_some()) {
        text += &paragraph(
            "Published: WebCoSM's Table 2. From BUDDY on it counts reads, writes and deletions, of which 1,058,206 gets cause \
             1,000,000: here all is in gets.",
        );
    }
    Ok(text)
}

fn device(run: &Run) -> Result<String, String> {
    // What nobody counted has no bar.
    let counts = |row: &Row| {
        [row.device_reads, row.device_writes].map(|count| count.map_or(f64::NAN, |count| count as f64))
    };
    let axis = Axis::linear("device reads and writes", run.rows.iter().flat_map(counts));
    let group = |row: &Row| Bars { name: row.recipe.clone(), values: counts(row).to_vec(), published: None };
    let plot = bars(axis, &["reads", "writes"], &run.rows.iter().map(group).collect::<Vec<_>>())?;
    let known = |count: Option<u64>, say: &dyn Fn(u64) -> String| count.map_or("not counted".into(), say);
    let per =
        |row: &Row, count| known(count, &|count| format!("{:.3}", count as f64 / row.gets.max(1) as f64));
    let megabytes = |count| known(count, &|count| thousands(count / 1_000_000));
    let on_flash = run.rows.iter().any(|row| row.write_amplification.is_some());
    let cells = |row: &Row| {
        let mut cells = vec![
            row.recipe.clone(),
            known(row.device_reads, &thousands),
            known(row.device_writes, &thousands),
            per(row, row.device_reads),
            per(row, row.device_writes),
            megabytes(row.device_bytes_read),
            megabytes(row.device_bytes_written),
            row.counted_by.clone().unwrap_or_else(|| "nobody".to_owned()),
        ];
        if on_flash {
            cells.push(row.write_amplification.map_or(String::new(), |found| format!("{found:.2}")));
        }
        cells
    };
    let mut names = vec![
        "recipe",
        "reads",
        "writes",
        "reads a get",
        "writes a get",
        "MB read",
        "MB written",
        "counted by",
    ];
    names.extend(on_flash.then_some("write amplification"));
    let head = columns(&names);
    let rows: Vec<Vec<String>> = run.rows.iter().map(cells).collect();
    Ok(figure(&plot, "Transfers of the device, as many as it was told.") + &table(false, &head, &rows))
}

fn hits(run: &Run) -> Result<String, String> {
    let ratios = |row: &Row| vec![100.0 * row.hit_ratio, 100.0 * row.byte_hit_ratio];
    let axis = Axis::linear("per cent", run.rows.iter().flat_map(ratios));
    let group = |row: &Row| Bars { name: row.recipe.clone(), values: ratios(row), published: None };
    let plot = bars(axis, &["of requests", "of bytes"], &run.rows.iter().map(group).collect::<Vec<_>>())?;
    let cells = |row: &Row| {
        let outcomes = &row.outcomes;
        vec![
            row.recipe.clone(),
            per_cent(row.hit_ratio),
            per_cent(row.byte_hit_ratio),
            thousands(outcomes.memory_hits),
            thousands(outcomes.disk_hits),
            thousands(outcomes.stored),
            thousands(outcomes.passed),
        ]
    };
    let head = columns(&["recipe", "hits", "of bytes", "in memory", "on disk", "stored", "not stored"]);
    let rows: Vec<Vec<String>> = run.rows.iter().map(cells).collect();
    Ok(figure(&plot, "Of both caches together.") + &table(false, &head, &rows))
}

/// What else a paper tells of recipes.
fn notes(run: &Run) -> String {
    let names: BTreeSet<&str> = run.rows.iter().flat_map(|row| row.notes.keys().map(AsRef::as_ref)).collect();
    let head: Vec<String> =
        std::iter::once("recipe".to_owned()).chain(names.iter().map(|name| name.replace('_', " "))).collect();
    let cells = |row: &Row| {
        let values = names
            .iter()
            .map(|name| row.notes.get(*name).map_or(String::new(), |value| format!("{value:.2}")));
        std::iter::once(row.recipe.clone()).chain(values).collect()
    };
    let noted = run.rows.iter().filter(|row| !row.notes.is_empty());
    let rows: Vec<Vec<String>> = noted.map(cells).collect();
    if rows.is_empty() { String::new() } else { table(false, &head, &rows) }
}

fn operations(run: &Run) -> String {
    let kinds: BTreeSet<&str> =
        run.rows.iter().flat_map(|row| row.operations.0.keys().map(AsRef::as_ref)).collect();
    let head: Vec<String> =
        std::iter::once("recipe").chain(kinds.iter().copied()).map(str::to_owned).collect();
    let cells = |row: &Row| {
        let counts =
            kinds.iter().map(|kind| row.operations.0.get(*kind).map_or(String::new(), |n| thousands(*n)));
        std::iter::once(row.recipe.clone()).chain(counts).collect()
    };
    let rows: Vec<Vec<String>> = run.rows.iter().map(cells).collect();
    table(false, &head, &rows) + &paragraph("Calls that the recipe made of the medium, by kind.")
}

/// One figure of each recipe in each run.
fn together(runs: &[(&str, &Run)]) -> Result<String, String> {
    let mut recipes: Vec<&str> = Vec::new();
    for row in runs.iter().flat_map(|(_, run)| &run.rows) {
        if !recipes.contains(&row.recipe.as_str()) {
            recipes.push(&row.recipe);
        }
    }
    let of = |run: &Run, recipe: &str| {
        run.rows.iter().find(|row| row.recipe == recipe).map(|row| row.gets_per_second)
    };
    let groups: Vec<Bars> = recipes
        .iter()
        .map(|recipe| Bars {
            name: (*recipe).to_owned(),
            values: runs.iter().map(|(_, run)| of(run, recipe).unwrap_or(f64::NAN)).collect(),
            published: None,
        })
        .collect();
    let names: Vec<&str> = runs.iter().map(|(name, _)| *name).collect();
    let values = || groups.iter().flat_map(|group| group.values.iter().copied());
    let axis = Axis::logarithmic("gets a second", values().collect::<Vec<_>>().into_iter());
    let plot = bars(axis, &names, &groups)?;
    let head = std::iter::once("recipe").chain(names.iter().copied()).map(str::to_owned);
    let head: Vec<String> =
        head.chain(names.iter().skip(1).map(|name| format!("{name} / {}", names[0]))).collect();
    let cells = |recipe: &&str| {
        let found: Vec<Option<f64>> = runs.iter().map(|(_, run)| of(run, recipe)).collect();
        let shown = found.iter().map(|rate| rate.map_or(String::new(), |rate| format!("{rate:.1}")));
        let ratio = |rate: &Option<f64>| match (rate, found[0]) {
            (Some(rate), Some(first)) if first > 0.0 => format!("{:.2}", rate / first),
            _ => String::new(),
        };
        std::iter::once((*recipe).to_owned()).chain(shown).chain(found.iter().skip(1).map(ratio)).collect()
    };
    let rows: Vec<Vec<String>> = recipes.iter().map(cells).collect();
    let synthetic = runs.iter().any(|(_, run)| run.asked.synthetic);
    let caption = "Gets a second of each run, on a logarithmic scale.";
    Ok(heading(2, "Runs side by side", synthetic) + &figure(&plot, caption) + &table(false, &head, &rows))
}
