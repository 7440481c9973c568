//! What a write budget costs. In a process of its own: other tests bound the memory of theirs.

use lab::input::{From, Input};
use lab::medium::drive::ST15150W;
use lab::medium::filesystem::{FileSystem, ULTRA_1};
use lab::recipe;
use lab::replay::watch::Watch;
use lab::replay::{Plan, replay};
use lab::scale::{Clock, Scale, WriteBudget};
use trace::{Access, Requests, synthetic};

/// Hits, and bytes written, of a recipe that may write so many in all.
fn dec(name: &str, most: Option<u64>) -> (f64, u64) {
    let from = From::Synthetic { like: synthetic::named("dec").unwrap(), seed: 3 };
    let input = Input { from, requests: Some(60_000), largest: Some(1 << 20) };
    let recipe = &recipe::named(&[name.to_owned()]).unwrap()[0];
    let write_budget = most.map(|bytes| {
        let (mut asked, mut access, mut reading) = (0, Access::default(), input.open().unwrap());
        while reading.next(&mut access).unwrap() {
            asked += access.size;
        }
        let seconds = 16;
        WriteBudget { bytes: bytes * (seconds << 20) / asked, seconds, clock: Clock::Asked }
    });
    let scale = Scale { memory: 2 << 20, disk: 16 << 20, write_budget, ..Scale::default() };
    let plan = Plan { input: &input, recipe, scale: &scale, warm_up: 0 };
    let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
    let (row, reading) = replay(&plan, &mut ufs, "st15150w", &mut Watch::default()).unwrap();
    assert_eq!(reading.read, 60_000);
    (100.0 * row.hit_ratio, row.device_bytes_written.unwrap())
}

#[test]
fn a_third_of_the_writes_costs_few_hits() {
    for name in ["cosm", "cosm-all"] {
        let (hits, written) = dec(name, None);
        let third = written / 3;
        let (fewer, less) = dec(name, Some(third));
        let (by_chance, as_much) = dec("cosm-chance", Some(third));
        let told = format!(
            "{name}: {hits:.1} % with {written}; {fewer:.1} % with {less}; {by_chance:.1} % with {as_much}"
        );
        assert!(less < third + third / 10 && less > third / 2, "{told}");
        assert!(fewer > hits - 2.0 && fewer > by_chance + 1.0, "{told}");
    }
}
