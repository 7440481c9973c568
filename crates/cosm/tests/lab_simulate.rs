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
        ("--like dec --size-changes maybe", 2, "--size-changes: `maybe` is none of tolerate, count, ignore"),
        ("--like dec --sample 0.7", 2, "--sample: a share"),
        ("--like dec --requests 10 --warm-up 10", 1, "a warm-up of 10 requests leaves none"),
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

/// In small letters as in large ones; and what a cache cannot answer is said.
#[test]
fn nothing_is_wrong_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let said = |lines: &str, more: &str| {
        std::fs::write(&path, format!("time,method,url,size,status\n{lines}")).unwrap();
        let trace = path.to_str().unwrap();
        let output = run(["lab", "simulate", "--trace", trace, "--policies", "lru,2q", "--sizes", "1KiB"]
            .into_iter()
            .chain(more.split_whitespace()));
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, err)
    };
    let lines = "1,get,/a,600,200\n2,get,/a,600,200\n3,get,/a,700,200\n4,get,/b?c,6,200\n";
    let (code, out, err) = said(lines, "");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for words in [
        "25.00%",
        "4 requests for 1 objects",
        "requests 1 for a query or a CGI",
        "1 requests found a new version",
        "2q of 1024 bytes: 3 requests were for objects larger than it takes",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(said(lines, "--size-changes ignore").1.contains("50.00%"));
    let (code, out, err) = said("1,put,/a,6,200\n2,get,/a,6,404\n", "");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("trace.csv: no cache could answer any request of it: 1 of another method"), "{err}");
}
