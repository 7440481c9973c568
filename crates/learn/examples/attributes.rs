//! What attributes tell, one by one: `attributes [--days N] SEED...`. In the synthetic world rules are learned from each night and its
//! peak, and tested on the next, with the attributes of the thesis, with each other one beside them, with all, with all but each, and with
//! all by several loss ratios.
//!
//! A twentieth of the negatives that were not modified lately is learned from, with weights that stand for all; tests are on all.

use learn::candidate::{Encoding, PREFETCHABLE};
use learn::evaluate::{Settings, Web, date, survey, walk};
use learn::examples::{Column, Examples, Schema, Value};
use learn::judge::Matrix;
use learn::ripper::Learner;
use std::process::ExitCode;
use trace::inventory::Row;
use trace::random::Random;
use trace::world::{self, World};
use trace::{Access, world::Day};

/// Share of the negatives, and the age in seconds below which all are taken.
const NEGATIVES: f64 = 0.05;
const LATELY: f64 = 3.0 * 86_400.0;
const LOSS_RATIOS: [f64; 4] = [0.25, 0.5, 2.0, 4.0];

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut days = 5;
    if args.len() > 1 && args[0] == "--days" {
        days = args[1].parse().unwrap_or(days);
        args.drain(..2);
    }
    if args.is_empty() {
        eprintln!("attributes [--days N] SEED...");
        return ExitCode::from(2);
    }
    for seed in args {
        let done = seed.parse().map_err(|_| format!("`{seed}` is no seed")).and_then(|seed| all(days, seed));
        if let Err(why) = done {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn all(days: u32, seed: u64) -> Result<(), String> {
    let world = world::Settings { days, ..world::Settings::default() };
    let settings = Settings { servers: None, ..Settings::new(Encoding::all()) };
    let open = || Ok::<_, String>(OfWorld { world: World::new(world.clone(), seed)?, day: None });
    let found = survey(&mut open()?, &settings, &mut |_| {})?;
    let mut taught: Option<(i64, Examples)> = None;
    walk(
        &mut open()?,
        &settings,
        &found,
        &mut |material| {
            eprintln!("seed {seed}, {}: {} candidates", date(material.day), material.examples.len());
            if let Some((day, lesson)) = &taught {
                let title =
                    format!("seed {seed}, learned on {}, tested on {}", date(*day), date(material.day));
                test(&title, lesson, &material.examples)?;
            }
            taught = Some((material.day, thinned(&material.examples, seed)));
            Ok(())
        },
        &mut |_| {},
    )?;
    Ok(())
}

fn test(title: &str, lesson: &Examples, day: &Examples) -> Result<(), String> {
    println!("\n{title}\nattributes                     accuracy  coverage  rules");
    let (thesis, every) = (names(&Encoding::thesis()), names(&Encoding::all()));
    let others: Vec<&String> = every.iter().filter(|name| !thesis.contains(name)).collect();
    let mut kinds = vec![("the thesis' five".to_owned(), thesis.clone(), 1.0)];
    for name in &others {
        kinds.push((format!("five + {name}"), [&thesis[..], &[(*name).clone()]].concat(), 1.0));
    }
    kinds.push(("all".into(), every.clone(), 1.0));
    for left_out in &every {
        let rest = every.iter().filter(|name| *name != left_out).cloned().collect();
        kinds.push((format!("all but {left_out}"), rest, 1.0));
    }
    let rest = every.iter().filter(|name| !name.starts_with("section-")).cloned().collect();
    kinds.push(("all but section-*".into(), rest, 1.0));
    for ratio in LOSS_RATIOS {
        kinds.push((format!("all, loss ratio {ratio}"), every.clone(), ratio));
    }
    for (what, names, loss_ratio) in kinds {
        let learner = Learner { positive: Some(PREFETCHABLE.into()), loss_ratio, ..Learner::default() };
        let rules = learner.learn(&only(lesson, &names)?)?;
        let matrix = Matrix::of(&rules, day)?;
        let shown = |share: Option<f64>| share.map_or("-".into(), |share| format!("{share:.3}"));
        let (accuracy, coverage) = (matrix.accuracy(PREFETCHABLE), matrix.coverage(PREFETCHABLE));
        println!("{what:<30} {:>8} {:>9} {:>6}", shown(accuracy), shown(coverage), rules.rules().len());
    }
    Ok(())
}

fn names(encoding: &Encoding) -> Vec<String> {
    encoding.schema().attributes().iter().map(|attribute| attribute.name.clone()).collect()
}

fn thinned(examples: &Examples, seed: u64) -> Examples {
    let mut random = Random::of(seed);
    let Some(Column::Number(ages)) = examples.column("age") else { return examples.clone() };
    let whole = |row: u32| ages[row as usize] < LATELY || examples.class()[row as usize] == 0;
    let rows: Vec<u32> =
        (0..examples.len() as u32).filter(|row| whole(*row) || random.unit() < NEGATIVES).collect();
    let mut few = examples.rows(&rows);
    for (place, _) in rows.iter().enumerate().filter(|(_, row)| !whole(**row)) {
        few.scale_weight(place, 1.0 / NEGATIVES);
    }
    few
}

/// The same with these attributes alone.
fn only(examples: &Examples, names: &[String]) -> Result<Examples, String> {
    let attributes =
        examples.schema().attributes().iter().filter(|attribute| names.contains(&attribute.name));
    let kept: Vec<_> = attributes.map(|attribute| (attribute.name.clone(), attribute.kind)).collect();
    let columns: Vec<&Column> = kept.iter().filter_map(|(name, _)| examples.column(name)).collect();
    let mut few = Examples::new(Schema::new(kept.clone())?, examples.classes().iter());
    for row in 0..examples.len() {
        let sets: Vec<Vec<&str>> = columns.iter().map(|column| words(column, row)).collect();
        let values = columns.iter().zip(&sets).map(|(column, set)| match column {
            Column::Number(values) => Value::Number(values[row]),
            Column::Nominal { .. } => set.first().map_or(Value::Missing, |word| Value::Nominal(word)),
            Column::Set(_) => Value::Set(set),
        });
        let class = examples.classes().word(examples.class()[row]);
        few.push(&values.collect::<Vec<_>>(), class, examples.weights()[row])?;
    }
    Ok(few)
}

fn words(column: &Column, row: usize) -> Vec<&str> {
    match column {
        Column::Number(_) => Vec::new(),
        Column::Nominal { words, values } => {
            (values[row] as usize).lt(&words.len()).then(|| words.word(values[row])).into_iter().collect()
        }
        Column::Set(sets) => sets.set(row).iter().map(|word| sets.words().word(*word)).collect(),
    }
}

struct OfWorld {
    world: World,
    day: Option<Day>,
}

impl Web for OfWorld {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        loop {
            if self.day.is_some() && self.world.next(access) {
                return Ok(true);
            }
            self.day = self.world.next_day();
            if self.day.is_none() {
                return Ok(false);
            }
        }
    }

    fn offers(&mut self, at: u64, each: &mut dyn FnMut(Row) -> Result<(), String>) -> Result<(), String> {
        self.world.inventory(at).try_for_each(each)
    }
}
