//! `cosm lab simulate` on the command line.

mod support;

use support::program::run;

#[test]
fn each_policy_and_size_has_a_row() {
    let output = run(["lab", "simulate", "--like", "dec", "--requests", "30000", "--seed", "4"]
        .into_iter()
        .chain(["--policies", "sieve,lru", "--sizes", "1MiB,16MiB", "--json"]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["requests"], &found["synthetic"]), (&30_000.into(), &true.into()));
    let rows = found["rows"].as_array().unwrap();
    let told: Vec<(&str, u64)> =
        rows.iter().map(|row| (row["policy"].as_str().unwrap(), row["size"].as_u64().unwrap())).collect();
    assert_eq!(told, [("sieve", 1 << 20), ("sieve", 16 << 20), ("lru", 1 << 20), ("lru", 16 << 20)]);
    let hits: Vec<f64> = rows.iter().map(|row| row["hit_ratio"].as_f64().unwrap()).collect();
    assert!(hits[0] < hits[1] && hits[2] < hits[3] && hits[2] > 0.05, "{hits:?}");
    assert!(rows.iter().all(|row| row["requests_per_second"].as_f64().unwrap() > 10_000.0), "{found}");
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    for (arguments, code, says) in [
        ("--like dec --policies lru,lfu", 2, "there is no replacement policy `lfu`; there are lru, "),
        ("--like dec --sizes 1GiB,much", 2, "--sizes: `much` is not a size"),
        ("--sizes 1GiB", 2, "--trace"),
        ("--trace /no/such/trace", 1, "/no/such/trace"),
    ] {
        let output = run(["lab", "simulate"].into_iter().chain(arguments.split(' ')));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{arguments}: {said}");
        assert!(said.contains(says), "{arguments}: {said}");
    }
}
