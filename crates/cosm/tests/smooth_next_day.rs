//! `cosm smooth evaluate`, `plan` and `train` of a trace, as their user meets them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn smooth(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosm"));
    command.arg("smooth").args(words.split(' ')).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn fails(folder: &Path, words: &str, code: i32, says: &str) {
    let (status, out, err) = said(&smooth(folder, words));
    assert_eq!((status, out.as_str()), (Some(code), ""), "{words}: {err}");
    assert!(err.contains(says), "{words}: {err}");
    assert!(!err.contains("panicked"), "{err}");
}

const RULES: &str = "cosm rules 1
attribute server: nominal
attribute size: number
class prefetchable, non-prefetchable.
prefetchable :- server='a.test' (90/10).
default non-prefetchable (1000/10).
";

#[test]
fn a_plan_has_reasons_and_keeps_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules"), RULES).unwrap();
    let rows = r#"{"url":"http://a.test/one","size":700}
{"url":"http://a.test/two","size":600}
{"url":"http://a.test/three","size":200}
{"url":"http://me:secret@a.test/","size":1}
{"url":"http://a.test/find?x=1","size":1}
{"url":"http://b.test/","size":1}
"#;
    fs::write(folder.join("rows"), rows).unwrap();
    let (status, out, _) =
        said(&smooth(folder, "plan rows --rules rules --budget 1000 --night 900000000 --json"));
    assert_eq!(status, Some(0));
    let plan: serde_json::Value = serde_json::from_str(&out).unwrap();
    let urls: Vec<&str> =
        plan["lines"].as_array().unwrap().iter().map(|line| line["url"].as_str().unwrap()).collect();
    assert_eq!(urls, ["http://a.test/three", "http://a.test/two"]);
    assert_eq!((plan["bytes"].as_u64(), plan["budget"].as_u64()), (Some(800), Some(1000)));
    assert!(plan["lines"][0]["reason"].as_str().unwrap().contains("(90/10)"));
    let left: Vec<u64> = ["credentials", "query", "not_chosen", "over_budget"]
        .map(|why| plan["left_out"][why].as_u64().unwrap())
        .to_vec();
    assert_eq!(left, [1, 1, 1, 1]);
    let (_, out, _) = said(&smooth(folder, "plan rows --rules rules --budget 1000 --night 900000000"));
    assert!(
        out.contains("2 of 6 candidates, 800 of 1000 bytes") && out.contains("left out: with credentials"),
        "{out}"
    );
    // Equation 6.2 of Figure 7.2's day, in bytes.
    let usage = "--b-pre 1965930000 --b-peak 4968190000 --b-off 2296780000 --l-max 140667000";
    let (_, out, _) = said(&smooth(folder, &format!("plan rows --rules rules {usage} --night 1 --json")));
    let plan: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(plan["budget"].as_u64().unwrap() / 100_000, 18_885);
}

/// Rows that are none of a server's, and dates that do not fit the night, are counted or said.
#[test]
fn a_plan_goes_on_over_odd_rows_and_says_what_the_trace_is_of() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rules = "cosm rules 1\nattribute uses: number\nclass prefetchable, non-prefetchable.\n\
                 prefetchable :- uses>=1 (9/1).\ndefault non-prefetchable.\n";
    fs::write(folder.join("rules"), rules).unwrap();
    fs::write(
        folder.join("trace.csv"),
        "time,url,size\n1743465600,http://a.test/x,500\n1743552000,http://a.test/y,500\n",
    )
    .unwrap();
    let row = |url: &str| format!("{{\"url\":\"{url}\",\"size\":500000}}\n");
    let rows = [
        "http://a.test/x",
        "HTTP://A.TEST:80/x",
        "http://a.test/y",
        "mailto:a@b",
        "",
        " http://a.test/x",
        "http:/u:p@a.test/",
    ];
    fs::write(folder.join("rows"), rows.map(row).concat()).unwrap();
    let plan = |night: u64| {
        let words = format!("plan rows --rules rules --budget 1MiB --trace trace.csv --night {night} --json");
        let (status, out, err) = said(&smooth(folder, &words));
        assert_eq!(status, Some(0), "{err}");
        let found: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(found["left_out"]["not_http"], 4);
        let urls =
            found["lines"].as_array().unwrap().iter().map(|line| line["url"].as_str().unwrap().to_owned());
        (urls.collect::<Vec<_>>(), err)
    };
    let (urls, err) = plan(1_743_379_200);
    assert!(
        urls.is_empty() && err.contains("2 requests of the trace are later") && err.contains("no request"),
        "{err}"
    );
    let (urls, err) = plan(1_743_500_000);
    assert!(
        urls == ["http://a.test/x"] && err.contains("1 requests of the trace are later"),
        "{urls:?} {err}"
    );
    let (urls, err) = plan(1_760_000_000);
    assert!(urls.len() == 2 && err.contains("the trace ends 190 days before the night"), "{urls:?} {err}");
}

/// What the trace has seen is in the cache; what nights offered makes a section's yield.
#[test]
fn a_plan_knows_the_days_before() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rules = "cosm rules 1\nattribute section-yield: number\nclass prefetchable, non-prefetchable.\n\
                 prefetchable :- section-yield>=0.5 (9/1).\ndefault non-prefetchable (90/10).\n";
    fs::write(folder.join("rules"), rules).unwrap();
    // Three days from 1 June 2026, at noon: of /news/ what is new each day is asked for, of /old/ nothing.
    let (first, day) = (1_780_272_000u64, 86_400);
    let mut trace = "time,method,url,size,status,modified\n".to_string();
    fs::create_dir(folder.join("offered")).unwrap();
    let row = |name: &str, modified: u64| {
        format!("{{\"url\":\"http://a.test/{name}\",\"size\":100,\"modified\":{modified}}}\n")
    };
    for nth in 0..3 {
        let (midnight, edited) = (first + nth * day, first + nth * day - 36_000);
        let noon = midnight + day / 2;
        trace += &format!("{noon},GET,http://a.test/news/{nth},100,200,{edited}\n");
        let offered = row(&format!("news/{nth}"), edited) + &row(&format!("old/{nth}"), edited);
        // The night begins at 16:30 of the day before.
        let name = ["2026-05-31", "2026-06-01", "2026-06-02"][nth as usize];
        fs::write(folder.join(format!("offered/{name}.jsonl")), offered).unwrap();
    }
    fs::write(folder.join("trace.csv"), trace).unwrap();
    let night = first + 3 * day;
    let rows = [
        row("news/2", night - day - 36_000),
        row("news/3", night - 10),
        row("old/3", night - 10),
        row("news/4", night + 10),
    ];
    fs::write(folder.join("rows"), rows.concat()).unwrap();
    let plan = |more: &str| {
        let words = format!("plan rows --rules rules --budget 1000 --night {night} --json {more}");
        let (status, out, err) = said(&smooth(folder, words.trim_end()));
        assert_eq!(status, Some(0), "{err}");
        (serde_json::from_str::<serde_json::Value>(&out).unwrap(), err)
    };
    let (found, _) = plan("--trace trace.csv --inventory offered");
    let lines = found["lines"].as_array().unwrap();
    assert!(lines.len() == 1 && lines[0]["url"] == "http://a.test/news/3", "{found}");
    let left_out = |why: &str| found["left_out"][why].as_u64();
    assert_eq!(["cached", "not_yet", "not_chosen"].map(left_out), [Some(1); 3]);
    for more in ["", "--trace trace.csv"] {
        let (found, err) = plan(more);
        assert!(found["lines"].as_array().unwrap().is_empty(), "{found}");
        assert!(err.contains("section-yield, and without --inventory"), "{err}");
    }
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules"), RULES).unwrap();
    fs::write(folder.join("cut"), &RULES[..RULES.len() / 2]).unwrap();
    fs::write(folder.join("odd"), RULES.replace("size: number", "colour: number")).unwrap();
    fs::write(folder.join("rows"), "{\"url\":\"http://a.test/\",\"size\":1}\n").unwrap();
    fs::write(folder.join("half"), "{\"url\":\"http://a.test/\",\"size\":1}\n{\"url\":\"http://a.te")
        .unwrap();
    fs::write(folder.join("none"), "").unwrap();
    let newer =
        RULES.replace("size: number", "section-newer: number").replace("' (90", "', section-newer<=3 (90");
    fs::write(folder.join("newer"), newer).unwrap();
    fails(
        folder,
        "plan /dev/null --rules newer --budget 1MiB",
        1,
        "section-newer, so it is read twice and has to be a file",
    );
    // A rule without conditions asks for nothing.
    let open = RULES
        .replace("size: number", "section-newer: number")
        .replace("server='a.test' (90/10)", "(9/1 in 4)");
    fs::write(folder.join("open"), open).unwrap();
    fails(folder, "plan /dev/null --rules open --budget 1", 1, "/dev/null: there is no candidate in it");
    let (_, out, err) = said(&smooth(folder, "plan rows --rules open --budget 1"));
    assert!(out.contains("1 of 1 candidates") && err.is_empty(), "{out}{err}");
    fs::write(folder.join("latin"), [RULES.as_bytes(), b"# gr\xfc\xdfe\n"].concat()).unwrap();
    fails(folder, "plan rows --rules latin --budget 1", 1, "latin: line 7: not in UTF-8");
    fails(folder, "plan rows --rules rules", 2, "--b-pre is missing");
    fails(folder, "plan rows --rules cut --budget 1", 1, "cut: line ");
    fails(folder, "plan rows --rules odd --budget 1", 1, "there is no attribute `colour`");
    fails(folder, "plan half --rules rules --budget 1", 1, "half: line 2: no JSON object");
    fails(folder, "plan none --rules rules --budget 1", 1, "none: there is no candidate");
    fails(folder, "plan gone --rules rules --budget 1", 1, "gone: ");
    fails(folder, "plan rows --rules rules --budget 1 --confidence 2", 2, "--confidence");
    fails(folder, "plan rows --rules rules --budget 1 --confidence 2", 2, "`2` is no share");
    fails(folder, "plan rows --rules rules --budget 1 --intervals 3", 2, "--intervals");
    fails(folder, "plan rows --rules rules --budget 1 --format clf", 2, "--trace");
    fails(folder, "evaluate", 2, "name a trace");
    fails(folder, "evaluate --world small --world-days 0", 2, "--world-days: 0 is out of bounds");
    fails(
        folder,
        "evaluate --world small --loss-ratio 1e-10",
        2,
        "--loss-ratio: `1e-10` is not a number from 1e-9",
    );
    fails(folder, "evaluate --world small --rounds 0", 2, "--rounds: 0 is out of bounds");
    fails(folder, "evaluate --world small --servers 0", 2, "--servers: a number from 1 on");
    fails(folder, "evaluate --world small --same-kind --train-days 2", 2, "--train-days");
    fails(folder, "evaluate --world small --strategies nothing,nothing", 2, "is there twice");
    fails(folder, "evaluate --world small --warm-up 36h", 2, "are no whole days");
    fails(folder, "evaluate --world tiny", 2, "`tiny` is not small");
    fails(folder, "evaluate --world small --attributes size,colour", 2, "there is no attribute `colour`");
    fails(folder, "evaluate --world small --strategies luck", 2, "`luck` is not one of");
    fails(folder, "evaluate --world small --world-days 2", 1, "2 days with a peak");
    fails(folder, "evaluate --world small --holidays 1998-02-30", 2, "is no date");
    let trace = "time,method,url,size,status\n900000000,GET,http://a.test/,5,200\n";
    fs::write(folder.join("trace.csv"), trace).unwrap();
    fails(folder, "evaluate trace.csv", 1, "1 days with a peak");
    fails(folder, "evaluate trace.csv --world-days 3", 2, "--world-days");
    fs::write(folder.join("bad.csv"), "time,url,size\nnan,http://a.test/,5\n").unwrap();
    for words in ["evaluate bad.csv", "train bad.csv", "plan rows --rules rules --budget 1 --trace bad.csv"] {
        fails(folder, words, 1, "no cache could answer any request of it: 1 malformed lines");
    }
    fs::write(folder.join("odd-rows"), "{\"url\":\"http:/me:hunter2@a.test/\",\"size\":1}\n").unwrap();
    fails(
        folder,
        "plan odd-rows --rules rules --budget 1 --strict",
        1,
        "odd-rows: line 1: `url` is no URL of a server",
    );
    fails(folder, "evaluate trace.csv --inventory half --warm-up 0", 1, "half");
    let ratio = "--loss-ratio: `1e-300` is not a number from 1e-9 to 1e9";
    fails(folder, "train trace.csv --loss-ratio 1e-300", 2, ratio);
    fails(folder, "loop --loss-ratio 1e-300", 2, ratio);
    fails(folder, "train trace.csv --holidays 1998-05-25", 2, "--same-kind");
    fails(folder, "plan rows --rules rules --budget 1 --cache 1MiB", 2, "--trace");
    fs::write(
        folder.join("ensemble"),
        RULES
            .replace("rules", "ensemble")
            .replace("prefetchable.\n", "prefetchable.\nmembers 1\nvote 1e308\n"),
    )
    .unwrap();
    fails(
        folder,
        "plan rows --rules ensemble --budget 1",
        1,
        "ensemble: line 6: the vote `1e308` is not a number",
    );
    fails(folder, "train trace.csv", 1, "no day is left to learn from");
    for (names, says) in [
        (["README", "1998-13-45.jsonl"], "1998-13-45.jsonl: there is no day 1998-13-45"),
        (["1998-05-20.jsonl", "1998-05-20.jsonl.gz"], "1998-05-20.jsonl.gz are of one day"),
    ] {
        let offered = folder.join("offered");
        fs::create_dir(&offered).unwrap();
        names.iter().for_each(|name| fs::write(offered.join(name), "").unwrap());
        fails(folder, "evaluate trace.csv --inventory offered", 1, says);
        fs::remove_dir_all(offered).unwrap();
    }
}

/// A trace of five days: each asks for something new.
fn days(folder: &Path, first: u64) {
    let mut trace = "time,method,url,size,status,modified\n".to_string();
    for day in 0..5 {
        let noon = first + day * 86_400 + 43_200;
        trace += &format!("{noon},GET,http://a.test/{day},100,200,{}\n", noon - 80_000);
    }
    fs::write(folder.join("trace.csv"), trace).unwrap();
}

/// Rows of no server are left out and counted, as in a plan; that an inventory is of one time, and that days have no names, is noted.
#[test]
fn an_inventory_of_one_time_and_days_without_names_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows: String =
        (0..5).map(|day| format!("{{\"url\":\"http://a.test/{day}\",\"size\":100}}\n")).collect();
    let odd = "{\"url\":\"http://a.test/\\n\",\"size\":1}\n{\"url\":\"/x\",\"size\":1}\n";
    fs::write(folder.join("rows"), rows + odd).unwrap();
    let left_out = "rows: rows without a URL of a server are left out: 2;";
    let one_time = "the inventory is of one time, and is offered in every night";
    for (first, has_names) in [(1_780_272_000, true), (864_000, false)] {
        days(folder, first);
        let words = "evaluate trace.csv --inventory rows --warm-up 1 --strategies rules,oracle";
        let (status, out, err) = said(&smooth(folder, words));
        assert_eq!(status, Some(0), "{err}");
        assert_eq!(err.matches(left_out).count(), 1, "{err}");
        assert!(out.contains(&format!("note: {one_time}")), "{out}");
        assert_eq!(out.contains("no day has a name"), !has_names, "{out}");
        assert_eq!(out.contains("day 14 "), !has_names, "{out}");
        assert!(!out.contains("1970-"), "{out}");
        let (_, _, err) = said(&smooth(folder, "train trace.csv --inventory rows --warm-up 1"));
        assert!(err.contains(one_time) && err.contains(left_out), "{err}");
        assert_eq!(err.contains("no day has a name"), !has_names, "{err}");
    }
    fails(
        folder,
        "evaluate trace.csv --inventory rows --warm-up 1 --strict",
        1,
        "rows: line 6: `url` is no URL",
    );
}

/// What a finite cache has forgotten is planned, and what it has is not, however it is spelled.
#[test]
fn a_plan_knows_what_a_cache_has_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules"), RULES).unwrap();
    days(folder, 1_780_272_000);
    let row = |day: u64, url: &str| {
        let modified = 1_780_272_000 + day * 86_400 + 43_200 - 80_000;
        format!("{{\"url\":\"{url}\",\"size\":100,\"modified\":{modified}}}\n")
    };
    let rows = [
        row(0, "http://a.test/0"),
        row(4, "http://a.test/4"),
        row(4, "HTTP://a.test/4"),
        row(4, "http://A.test:80/4#a"),
    ];
    fs::write(folder.join("rows"), rows.concat()).unwrap();
    for (cache, cached) in [("", 4), (" --cache 150", 3), (" --cache 150 --versions size", 3)] {
        let words = format!(
            "plan rows --rules rules --budget 1MiB --trace trace.csv --night 1780704000 --json{cache}"
        );
        let (status, out, err) = said(&smooth(folder, &words));
        assert_eq!(status, Some(0), "{err}");
        let found: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(found["left_out"]["cached"], cached, "{found}");
        assert_eq!(found["lines"].as_array().unwrap().len(), 4 - cached, "{found}");
    }
}

/// The day after a world of five is a Saturday: it learns from the last day off, if there is one.
#[test]
fn rules_are_learned_from_days_of_the_same_kind() {
    let folder = tempfile::tempdir().unwrap();
    let train = |words: &str| {
        let (status, out, err) =
            said(&smooth(folder.path(), &format!("train --world small --servers all {words}")));
        assert_eq!(status, Some(0), "{err}");
        (out, err)
    };
    let (of_friday, err) = train("--same-kind");
    assert!(err.contains("rules for 1998-05-23, a free day, from 1998-05-22"), "{err}");
    let (of_thursday, err) = train("--same-kind --holidays 1998-05-21");
    assert!(err.contains("rules for 1998-05-23, a free day, from 1998-05-21"), "{err}");
    assert_ne!(of_friday, of_thursday);
}

/// A small world is learned, written, loaded again and planned with; the page is well-formed.
#[test]
fn a_world_is_evaluated_and_its_rules_make_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let words = "evaluate --world small --servers all --strategies nothing,rules,trees,oracle --out page --rules-out rules --json";
    let (status, out, err) = said(&smooth(folder, words));
    assert_eq!(status, Some(0), "{err}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let strategies = found["evaluation"]["strategies"].as_array().unwrap();
    let of = |name: &str| strategies.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(of("oracle")["totals"]["accuracy"], 1.0);
    assert_eq!(of("nothing")["totals"]["coverage"], 0.0);
    for strategy in strategies {
        let coverage = strategy["totals"]["coverage"].as_f64().unwrap();
        assert!(coverage <= of("oracle")["totals"]["coverage"].as_f64().unwrap());
    }
    let page = fs::read_to_string(folder.join("page/report.html")).unwrap();
    assert!(page.contains("synthetic input") && page.contains("<svg"));
    assert_eq!(fs::read_to_string(folder.join("page/evaluation.json")).unwrap(), out.trim_end());
    let rules = fs::read_dir(folder.join("rules"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let rules = rules.into_iter().find(|name| name.starts_with("rules-")).unwrap();
    fs::write(folder.join("rows"), "{\"url\":\"http://a.test/\",\"size\":1}\n").unwrap();
    let words = format!("plan rows --rules rules/{rules} --budget 1MiB --night 895900000 --json");
    let (status, _, err) = said(&smooth(folder, &words));
    assert_eq!(status, Some(0), "{err}");
    let (status, out, err) =
        said(&smooth(folder, "train --world small --world-days 4 --servers all --last 2"));
    assert!(status == Some(0) && out.starts_with("cosm rules 1"), "{out}{err}");
}

#[test]
fn a_world_as_files_is_the_same_world() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (status, _, err) = said(&smooth(folder, "world --size small --out world"));
    assert_eq!(status, Some(0), "{err}");
    assert!(err.contains("1998-05-22: ") && err.contains("the night after it begins at 895854600"), "{err}");
    let totals = |of: &str| {
        let words = format!("evaluate {of} --servers all --strategies nothing,rules,oracle --json");
        let (status, out, err) = said(&smooth(folder, &words));
        assert_eq!(status, Some(0), "{err}");
        let found: serde_json::Value = serde_json::from_str(&out).unwrap();
        let strategies = found["evaluation"]["strategies"].as_array().unwrap();
        strategies.iter().map(|one| one["totals"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(totals("world/trace.csv --inventory world/inventory"), totals("--world small"));
    let words = "train world/trace.csv --inventory world/inventory --servers all --out rules";
    assert_eq!(said(&smooth(folder, words)).0, Some(0));
    let words = "plan world/inventory/1998-05-22.jsonl --rules rules --trace world/trace.csv --inventory world/inventory --night 895854600 --budget 1MiB";
    let (status, out, err) = said(&smooth(folder, words));
    assert!(status == Some(0) && out.contains("http://www"), "{out}{err}");
    let words = "analyze world/trace.csv --inventory world/inventory/1998-05-22.jsonl";
    let (status, out, err) = said(&smooth(folder, words));
    assert!(status == Some(0) && out.contains("no-miss"), "{out}{err}");
    let words = "analyze world/trace.csv --inventory world/inventory";
    fails(folder, words, 1, "world/inventory: is a folder: name one of the inventories in it");
    fails(folder, "world --size tiny --out world", 2, "--size: `tiny` is not small");
    fails(folder, "world --days 0 --out world", 2, "--days: 0 is out of bounds");
}
