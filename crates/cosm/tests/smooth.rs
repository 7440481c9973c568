//! `cosm smooth` on the command line.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::program::run;

/// Figure 7.2.
const DAY: [&str; 10] = [
    "smooth", "target", "--b-pre", "1965.93", "--b-peak", "4968.19", "--b-off", "2296.78", "--l-max",
    "140.667",
];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bu-272-net.head.tsv")
}

#[track_caller]
fn json(output: Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn analyze(words: &[&str]) -> Output {
    run(["smooth", "analyze"].iter().chain(words))
}

/// One line, with this exit status and these words.
#[track_caller]
fn fails(output: &Output, code: i32, says: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
    assert!(said.contains(says), "{said}");
}

#[test]
fn the_target_of_figure_7_2_comes_out() {
    let found = json(run(DAY.iter().chain(&["--json"])));
    let level = found["target_level"].as_f64().unwrap();
    assert!((level - 87.19).abs() < 0.01 && found["bound"] == "room", "{found}");
    let worse = json(run(DAY.iter().chain(&["--json", "--accuracy", "0.5", "--coverage", "0.4"])));
    assert!(worse["target_level"].as_f64().unwrap() > level);
    let text = String::from_utf8(run(DAY).stdout).unwrap();
    assert!(text.starts_with("target level") && text.contains("87.19") && text.contains("1888.57"), "{text}");
    let full = run([
        "smooth",
        "target",
        "--b-pre",
        "1",
        "--b-peak",
        "9",
        "--b-off",
        "99",
        "--l-max",
        "2",
        "--intervals",
        "4",
    ]);
    assert!(String::from_utf8(full.stdout).unwrap().contains("no room"));
}

#[test]
fn a_target_of_nonsense_is_said_in_a_line() {
    for (words, says) in [
        (&["--accuracy", "NaN"][..], "accuracy is NaN"),
        (&["--accuracy", "-1"], "accuracy is -1"),
        (&["--coverage", "1.5"], "coverage is 1.5"),
        (&["--intervals", "0"], "intervals is 0: it is a whole number from 1 to 95"),
        (&["--accuracy", "1e300"], "accuracy is 1e300: "),
        (&["--intervals", "many"], "--intervals: `many` is no number"),
        (&["--intervals", "1.5"], "intervals is 1.5: it is a whole number from 1 to 95"),
    ] {
        fails(&run(DAY.iter().chain(words)), 2, says);
    }
    fails(
        &run(DAY[..8].iter().chain(&["--l-max", "100"])),
        2,
        "48 levels of at most that are less than B_peak",
    );
    fails(&run(&DAY[..4]), 2, "--b-peak");
    fails(&run(["smooth"]), 2, "subcommand");
}

#[test]
fn a_trace_is_analyzed_as_text_as_json_and_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (out, trace) = (folder.path().join("day"), fixture());
    let words = [
        trace.to_str().unwrap(),
        "--utc-offset",
        "-05:00",
        "--days",
        "mon-sun",
        "--warm-up",
        "0s",
        "--cache",
        "64KiB",
    ];
    let found = json(analyze(&[&words[..], &["--json", "--out", out.to_str().unwrap()]].concat()));
    let analysis = &found["analysis"];
    assert_eq!((&found["peak_found"], &analysis["by_date"]), (&true.into(), &false.into()));
    assert_eq!(analysis["whole"]["referenced"]["requests"], 400);
    let bytes = |side: &Value, part: &str| side["misses"][part]["bytes"].as_u64().unwrap();
    for side in [&analysis["infinite"], &analysis["finite"]] {
        let parts = ["seen", "seen_server", "unseen_server", "altered", "not_cacheable"];
        let missed: u64 = parts.iter().map(|part| bytes(side, part)).sum();
        let hits = side["hits"]["bytes"].as_u64().unwrap();
        assert_eq!(missed + hits, analysis["referenced"]["bytes"].as_u64().unwrap());
        assert!(missed > 0 && hits > 0, "{side}");
    }
    assert!(bytes(&analysis["finite"], "seen") > bytes(&analysis["infinite"], "seen"));
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("modification dates"));
    let kept: Value = serde_json::from_slice(&std::fs::read(out.join("analysis.json")).unwrap()).unwrap();
    assert_eq!(kept, found);
    let text = String::from_utf8(analyze(&words).stdout).unwrap();
    assert!(text.contains("as found") && text.contains("note: Without modification dates"), "{text}");
}

#[test]
fn the_proxys_own_log_and_an_inventory_are_analyzed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // A week from Monday, 2 September 1996, a request every ten minutes. Each URL comes twice a day.
    let mut log = String::new();
    for nth in 0..7 * 144u64 {
        let (time, day, url) = (841_622_400 + nth * 600, nth / 144, nth % 72);
        log += &format!(
            "{{\"time_unix\":{time}.5,\"client\":\"10.0.0.1\",\"method\":\"GET\",\"url\":\"http://s{}.test/{day}/{url}\",\"status\":200,\
             \"bytes\":1000,\"outcome\":\"miss\",\"cache_status\":\"cosm; fwd=uri-miss; stored\"}}\n",
            url % 5
        );
    }
    std::fs::write(path("log"), &log).unwrap();
    let (half, rest) = log.split_at(log[..log.len() / 2].rfind('\n').unwrap() + 1);
    std::fs::write(path("log.1"), half).unwrap();
    std::fs::write(path("log.2"), rest).unwrap();
    let row = |url: &str| format!("{{\"url\":\"{url}\",\"size\":1000,\"modified\":800000000}}\n");
    std::fs::write(path("inventory"), row("http://s0.test/4/0") + &row("http://s9.test/")).unwrap();
    let inventory = path("inventory");
    let words = ["--peak", "00:00-12:00", "--json", "--inventory", inventory.as_str()];
    let found = json(analyze(&[&[path("log").as_str()], &words[..]].concat()));
    let analysis = &found["analysis"];
    // Wednesday's off-peak begins a day and a half after the first request: Thursday and Friday are measured.
    assert_eq!((&analysis["measured"], &analysis["basis"]), (&2.into(), &"whole".into()));
    assert_eq!(analysis["infinite"]["misses"]["seen_server"]["bytes"], 144_000);
    // Friday's first URL is in it, and missed then.
    assert_eq!(analysis["no_miss_prefetchable"], serde_json::json!([1.5, 1500.0]));
    let two = json(analyze(&[&[path("log.1").as_str(), path("log.2").as_str()], &words[..]].concat()));
    assert_eq!(two["analysis"], *analysis);
    std::fs::write(path("inventory"), "{\"url\":\"http://s0.test/\"}\n{\"url\":\"http://s0").unwrap();
    fails(&analyze(&[&[path("log").as_str()], &words[..]].concat()), 1, "inventory: line 2: no JSON object");
}

#[test]
fn traces_and_words_that_say_nothing_are_errors_of_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write("empty.csv", "time,url,size\n");
    write("no-sizes.csv", "time,url,size\n800000000,http://a.test/,0\n800000001,http://b.test/,0\n");
    write("no-times.csv", "url,size\nhttp://a.test/,5\nhttp://b.test/,5\n");
    write("far.csv", "time,url,size\n800000000,http://a.test/,5\n4000000000,http://b.test/,5\n");
    write("text", "nothing that anybody knows\n");
    let mut cut = std::fs::read(fixture()).unwrap();
    cut.truncate(cut.len() / 2);
    std::fs::write(path("cut.tsv"), cut).unwrap();
    for (name, says) in [
        ("empty.csv", "there is no request in it"),
        ("no-sizes.csv", "size 0"),
        ("no-times.csv", "no times"),
        ("far.csv", "37037 days apart"),
        ("text", "not of a known trace format"),
        ("missing", "missing"),
    ] {
        fails(&analyze(&[&path(name), "--peak", "04:30-16:30"]), 1, says);
    }
    // What could not be read is said with the peak to be found, too.
    write("bad.csv", "time,url,size\nnan,http://a.test/,5\nnan,http://b.test/,5\n");
    for peak in ["auto", "04:30-16:30"] {
        let said = analyze(&[&path("bad.csv"), "--peak", peak]);
        let said = (said.status.code(), String::from_utf8(said.stderr).unwrap());
        assert!(said.0 == Some(1) && said.1.contains("2 malformed lines were left out"), "{said:?}");
        assert!(
            said.1.trim_end().ends_with("no cache could answer any request of it: 2 malformed lines"),
            "{said:?}"
        );
        fails(&analyze(&[&path("empty.csv"), "--peak", peak]), 1, "there is no request in it");
    }
    let falling: String =
        (0..9).map(|nth| format!("{},http://a.test/,5\n", 800_900_000 - nth * 90_000)).collect();
    write("falling.csv", &format!("time,url,size\n{falling}"));
    fails(&analyze(&[&path("falling.csv")]), 1, "8 of 9 requests are over a quarter of an hour earlier");
    fails(&run(["smooth", "evaluate", &path("falling.csv")]), 1, "sort the trace by time");
    fails(&analyze(&["/dev/null"]), 1, "/dev/null: is no file, and --peak auto reads it twice");
    // The lines before the cut are read, and what is left of the last one is said.
    let output = analyze(&[&path("cut.tsv"), "--days", "mon-sun"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 malformed lines were left out"), "{said}");
    let trace = fixture();
    let trace = trace.to_str().unwrap();
    for (words, says) in [
        (&["--peak", "04:31-16:30"][..], "--peak: `04:31-16:30`"),
        (&["--peak", "noon"], "--peak: `noon` is no part of a day"),
        (&["--days", "someday"], "--days: `someday` are no days"),
        (&["--utc-offset", "5"], "--utc-offset: `5` is no offset"),
        (&["--warm-up", "long"], "--warm-up: `long` is not a time"),
        (&["--out", ""], "--out: a path is missing"),
        (&["--seed", "3"], "--seed"),
        (&["--requests", "-1"], "--requests: `-1` is not a whole number"),
        (&["--cache", "big"], "--cache: `big` is not a size"),
    ] {
        fails(&analyze(&[&[trace], words].concat()), 2, says);
    }
    fails(&analyze(&[]), 2, "name a trace");
    fails(&analyze(&[trace, "--days", "sun"]), 1, "nothing was asked for on sun");
}

#[test]
fn rules_are_learned_from_a_table_and_written_as_text() {
    let golf = "outlook:nominal,temperature:number,humidity:number,windy:nominal,play:class\n\
                sunny,85,85,false,No Play\nsunny,80,90,true,No Play\novercast,83,78,false,Play\nrain,70,96,false,Play\n\
                rain,68,80,false,Play\nrain,65,70,true,No Play\novercast,64,65,true,Play\nsunny,72,95,false,No Play\n\
                sunny,69,70,false,Play\nrain,75,80,false,Play\nsunny,75,70,true,Play\novercast,72,90,true,Play\n\
                overcast,81,75,false,Play\nrain,71,80,true,No Play\n";
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (table, out) = (file("golf.csv", golf), file("rules", ""));
    let train = |words: &[&str]| run(["smooth", "train", "--examples"].iter().chain(words));
    let found = json(train(&[&table, "--out", &out, "--json", "--test", &table]));
    assert_eq!(
        (&found["conditions"], &found["test"]["right"]),
        (&Value::from(4), &Value::from(1.0)),
        "{found}"
    );
    let written = std::fs::read_to_string(&out).unwrap();
    assert!(written.ends_with(
        "'No Play' :- windy=true, outlook=rain (2/0).\n'No Play' :- humidity>=85, outlook=sunny (3/0).\ndefault Play (9/0).\n"
    ));
    // What goes to standard output is a file of rules as well.
    let said = String::from_utf8(train(&[&table]).stdout).unwrap();
    assert!(
        said.starts_with(&written) && said[written.len()..].lines().all(|line| line.starts_with('#')),
        "{said}"
    );

    fails(&train(&["nowhere"]), 1, "nowhere: ");
    fails(&train(&[&file("cut", &golf[..140])]), 1, "cut: line 4: 3 fields for 5 columns");
    fails(&train(&[&file("none", "")]), 1, "none: line 1: no table");
    fails(&train(&[&file("head", "a:number,b:class\n")]), 1, "head: there are no examples");
    for (words, says) in [
        (&["--loss-ratio", "2"][..], "--loss-ratio: name the positive class"),
        (&["--loss-ratio", "0", "--positive", "Play"], "--loss-ratio: `0` is not a number from 1e-9 to 1e9"),
        (&["--loss-ratio", "nan", "--positive", "Play"], "--loss-ratio: `nan`"),
        (&["--positive", "play"], "`play`; the table has No Play, Play"),
        (&["--boost", "0"], "--boost: 0 is out of bounds: 1 to 1000"),
        (&["--boost", "-1"], "--boost: `-1` is not a whole number"),
        (&["--optimizations", "1000000000"], "--optimizations: 1000000000 is out of bounds"),
        (&["--peak", "09:00-21:00"], "--peak"),
        (&["--out", ""], "--out: a path is missing"),
        (&["--out", &table], "is read, and would be written over"),
    ] {
        fails(&train(&[&[table.as_str()], words].concat()), 2, says);
    }
    assert_eq!(std::fs::read_to_string(&table).unwrap(), golf);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), written);
    let other = file("other", "size:number,play:class\n1,Play\n");
    fails(&train(&[&table, "--test", &other]), 1, "other: a rule asks for `");
    fails(&run(["smooth", "train"]), 2, "or a table by --examples");
    let alike = train(&[&file("alike", "a:number,b:class\n1,x\n2,x\n")]);
    assert!(
        alike.status.success()
            && String::from_utf8_lossy(&alike.stderr).starts_with("cosm: note: all examples")
    );
}

/// Names may have anything in them: what is written is read back, and no terminal obeys it.
#[test]
fn rules_of_odd_names_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let positive = "a\nb\u{1b}[2J of a long name\u{7}";
    let rows = |of: &str| (0..20).map(|nth| format!("{nth}\u{1b},{of}\n")).collect::<String>();
    let table = format!("a\u{9b}:nominal,wanted:class\n{}{}", rows(&format!("\"{positive}\"")), rows("no"));
    std::fs::write(path("table"), table).unwrap();
    std::fs::write(path("alike"), format!("a:nominal,wanted:class\n{}", rows("no\u{1b}"))).unwrap();
    let harmless = |text: &[u8]| {
        let text = std::str::from_utf8(text).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    };
    for name in ["table", "alike"] {
        let output = run(["smooth", "train", "--examples", &path(name)]);
        assert!(output.status.success());
        harmless(&output.stdout);
        harmless(&output.stderr);
        let text = String::from_utf8(output.stdout).unwrap();
        let rules: learn::rules::Model = text.parse().unwrap();
        assert!(name == "alike" || learn::judge::Judge::classes(&rules)[0] == positive);
        assert!(name == "alike" || text.contains(r"# a\nb\u{1b}[2J of a long name\u{7} "), "{text}");
    }
    for words in [&["--positive", "x"][..], &["--test", "gone\n\u{1b}"]] {
        let output = run(["smooth", "train", "--examples", &path("table")].iter().chain(words));
        assert!(!output.status.success());
        harmless(&output.stderr);
    }
}

/// Counted by the sizes of the trace, whatever the inventory says; a server has no user's name.
#[test]
fn an_inventory_of_other_sizes_has_no_more_than_all_and_no_password_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let url = |nth: u64| format!("http://bob:hunter2@s0.test/{nth}");
    let (first, mut trace, mut rows) =
        (841_622_400u64, "time,url,size,modified\n".to_string(), String::new());
    for nth in 0..7 * 24 {
        trace += &format!("{},{},1000,800000000\n", first + nth * 3600, url(nth));
        for size in [5_000_000, 7] {
            rows += &format!("{{\"url\":\"{}\",\"size\":{size},\"modified\":800000000}}\n", url(nth));
        }
    }
    std::fs::write(path("trace"), trace).unwrap();
    std::fs::write(path("rows"), rows).unwrap();
    let out = path("out");
    let words =
        [&path("trace"), "--inventory", &path("rows"), "--peak", "00:00-12:00", "--json", "--out", &out];
    let found = json(analyze(&words));
    let analysis = &found["analysis"];
    assert_eq!(analysis["inventory_share"], 1.0);
    assert_eq!(
        (&analysis["inventory"]["twice"], &analysis["other_sizes"]),
        (&168.into(), &24.into()),
        "{analysis}"
    );
    assert_eq!(analysis["top"][0][0], "s0.test");
    let page = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    assert!(!found.to_string().contains("hunter2") && !page.contains("hunter2"));
    // A folder that cannot be written into keeps what it had.
    std::fs::create_dir(Path::new(&out).join("analysis.json.new")).unwrap();
    fails(&analyze(&words), 1, "analysis.json");
    assert_eq!(std::fs::read_to_string(Path::new(&out).join("analysis.json")).unwrap(), found.to_string());
}

#[test]
fn a_loop_of_nothing_is_wrong_usage() {
    for (words, says) in [
        ("--seeds 0", "--seeds: 0 is out of bounds: 1 to 1000"),
        ("--seeds 99999999999", "--seeds: 99999999999 is out of bounds"),
        ("--nights 0", "--nights: 0"),
        ("--rounds 0", "--rounds: 0"),
        ("--days 5 --upheaval 99", "--upheaval: there is no day 99"),
        ("--strategies rules,rules", "`rules` is there twice"),
        ("--strategies ,", "`,` lacks a name at a comma"),
    ] {
        fails(&run(["smooth", "loop"].into_iter().chain(words.split(' '))), 2, says);
    }
}

#[test]
fn a_loop_says_that_a_world_is_made() {
    let words = "loop --sites 12 --clients 1 --sessions 1 --days 4 --strategies nothing";
    let output = run(["smooth"].into_iter().chain(words.split(' ')));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("cosm: seed 1, nothing: making a world of 12 sites\n"), "{said}");
}
