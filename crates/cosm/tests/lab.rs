//! `cosm lab` as its user meets it: what it writes, what it goes on from, what it refuses.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn lab(words: &str, folders: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosm"));
    let mut folders = folders.iter();
    command.arg("lab").stdin(Stdio::null());
    for word in words.split(' ') {
        match word {
            "DIR" => command.arg(folders.next().unwrap()),
            word => command.arg(word),
        };
    }
    command.output().unwrap()
}

#[track_caller]
fn works(words: &str, folders: &[&Path]) -> (String, String) {
    let output = lab(words, folders);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (found, said) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{words}: {said}");
    (found, said)
}

#[track_caller]
fn fails(words: &str, folders: &[&Path], code: i32) -> String {
    let output = lab(words, folders);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{words}: {said}");
    assert!(output.stdout.is_empty());
    said
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

const SMALL: &str = "--like dec --requests 3000 --memory 1MiB --disk 8MiB --out DIR";

#[test]
fn a_comparison_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (at_once, in_steps) = (folder.path().join("at-once"), folder.path().join("in-steps"));
    let (found, _) = works(&format!("compare {SMALL} --recipes squid,stream,buddy --json"), &[&at_once]);
    works(&format!("compare {SMALL} --recipes stream"), &[&in_steps]);
    let (text, said) = works(&format!("compare {SMALL} --recipes squid,stream,buddy"), &[&in_steps]);
    assert!(said.contains("1 of 3 recipes are there already"), "{said}");
    assert!(text.contains("squid") && text.contains("buddy"));
    for name in ["rows.json", "rows.csv", "report.html"] {
        let same = |text: String| text.replace("in-steps", "at-once");
        assert_eq!(read(&at_once, name), same(read(&in_steps, name)), "{name}");
    }
    let mut found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&read(&at_once, "rows.json")).unwrap();
    let scores = found.as_object_mut().unwrap().remove("scores").unwrap();
    assert_eq!((&found, scores.as_array().unwrap().len()), (&kept, 3), "scores follow from what is kept");
    assert_eq!(found["rows"].as_array().unwrap().len(), 3);
    assert_eq!((&found["synthetic"], &found["rows"][0]["recipe"]), (&true.into(), &"squid".into()));

    // Another seed is another run.
    let (_, said) = works(&format!("compare {SMALL} --seed 2 --recipes squid"), &[&in_steps]);
    assert!(said.contains("seed is 1, not 2") && said.contains("begun anew"), "{said}");
    let kept: serde_json::Value = serde_json::from_str(&read(&in_steps, "rows.json")).unwrap();
    assert_eq!((kept["rows"].as_array().unwrap().len(), &kept["seed"]), (1, &2.into()));
    let sizes = SMALL.replace("8MiB", "9MiB");
    let (_, said) = works(&format!("compare {sizes} --seed 2 --recipes squid"), &[&in_steps]);
    assert!(said.contains("other sizes: begun anew"), "{said}");
}

/// What origins take is asked for; what is there already is not measured again for it.
#[test]
fn a_score_follows_from_what_origins_take() {
    let folder = tempfile::tempdir().unwrap();
    let scores = |more: &str| {
        let words = format!("compare {SMALL} --recipes stream,cosm --json {more}");
        let (found, _) = works(words.trim(), &[folder.path()]);
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let number = |what: &str| found["scores"][0][what].as_f64().unwrap();
        let misses = found["rows"][0]["gets"].as_f64().unwrap() * (1.0 - number("hit_ratio"));
        (number("service_seconds"), misses, number("origin_bytes"))
    };
    let (usual, misses, bytes) = scores("");
    let (slow, ..) = scores("--origin-delay 1s --origin-bandwidth 1MiB");
    let more = 0.9 * misses + bytes * (1.0 - 0.1) / f64::from(1 << 20);
    assert!((slow - usual - more).abs() < 1e-6 * slow, "{usual} and {slow}");
    assert!(
        read(folder.path(), "report.html").contains("1000 ms until the origin answers and 1 MiB a second")
    );
    let said = fails("compare --like dec --origin-bandwidth 0", &[], 2);
    assert!(said.contains("--origin-bandwidth: more than 0"), "{said}");
}

#[test]
fn what_was_chosen_is_listed_and_measured() {
    let (text, _) = works("chosen --list", &[]);
    assert!(text.contains("synthetic, like dec") && text.contains("fitted to 31.8 % of hits in memory"));
    let (found, _) = works("chosen --requests 1000 --json", &[]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let repeats = found["chosen"].as_array().unwrap().iter().find(|row| row["name"] == "repeats").unwrap();
    assert_eq!(repeats["value"], 0.505);
    assert!(repeats["moves_per_cent"][0].as_f64().unwrap() > 5.0, "hits in memory follow them: {repeats}");
    let (text, _) = works("chosen --like pages --medium nvme --list", &[]);
    assert!(
        text.contains("\ndies ") && text.contains("embedded objects") && !text.contains("switch of heads")
    );
    let said = fails("chosen --like foxy", &[], 2);
    assert!(said.contains("dec, dec-small, pages"), "{said}");
    let said = fails("chosen --medium dir:/tmp", &[], 2);
    assert!(said.contains("st15150w, hdd-18t, sata-ssd, nvme"), "{said}");
}

#[test]
fn the_papers_experiments_take_another_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("access.log");
    works("generate --like dec --requests 3000 --to squid --out DIR", &[&trace]);
    let (text, _) = works("papers --trace DIR --only table-2,table-2-small,maltzahn-5.2", &[&trace]);
    assert!(text.contains("seconds, stream-loc over stream-packetizer") && text.contains("lazy-reads-loc"));
    assert!(text.contains("fbc-c over fbc") && text.contains("3000 requests"), "{text}");
    // What belongs to the papers' own trace does not stand beside another, nor is one experiment made twice.
    assert!(
        !text.contains("URL writes") && !text.contains("stream, gets/s") && !text.contains("5.4 KB"),
        "{text}"
    );
    let (found, _) = works("papers --trace DIR --only maltzahn-5.2 --json", &[&trace]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found[0]["synthetic"], &found[0]["rows"][0]["recipe"]), (&false.into(), &"fbc".into()));
    fs::write(&trace, "").unwrap();
    fails("papers --trace DIR", &[&trace], 1);
}

#[test]
fn figures_go_on_where_they_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (at_once, in_steps) = (folder.path().join("all"), folder.path().join("steps/all"));
    let words = "figures --like dec --requests 2000 --out DIR --figures";
    works(&format!("{words} 6,9,13,14,15"), &[&at_once]);
    let whole = read(&at_once, "points.jsonl");
    assert_eq!(
        whole.lines().count(),
        1 + 4 + 3,
        "what was asked, four recipes of Figure 6, three with pictures"
    );

    works(&format!("{words} 6,9"), &[&in_steps]);
    let some = read(&in_steps, "points.jsonl");
    // As if it had been stopped in the midst of a line.
    fs::write(in_steps.join("points.jsonl"), &some[..some.len() - 20]).unwrap();
    let (_, said) = works(&format!("{words} 6,9,13,14,15"), &[&in_steps]);
    assert!(said.contains("4 of 7 points are there already"), "{said}");
    assert_eq!(read(&in_steps, "points.jsonl"), whole);
    assert_eq!(read(&in_steps, "report.html"), read(&at_once, "report.html"));
    let output = lab(
        "figures --like dec --requests 2000 --figures 9 --medium nvme:1MiB --out DIR",
        &[&folder.path().join("x")],
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("smaller than the file"), "{said}");
    let why = fails("figures --like dec --figures 9,5 --out DIR", &[&in_steps], 2);
    assert!(why.contains("no figure `5`; there are 6, 7,"), "{why}");
}

#[test]
fn one_recipe_is_seen_in_detail() {
    let folder = tempfile::tempdir().unwrap();
    let (text, _) = works(&format!("replay {SMALL} --recipe stream-loc"), &[folder.path()]);
    assert!(text.contains("3000 requests: ") && text.contains("write"), "{text}");
    assert!(text.contains("free piece bytes") && text.contains("counted by: model"), "{text}");
    let page = read(folder.path(), "report.html");
    assert!(page.contains("<td>largest object</td><td>any</td>"));
    for part in
        ["Where the head was", "The free space at the end", "Mean size of the free pieces", "Distances"]
    {
        assert!(page.contains(part), "{part}");
    }
    // It stays when another comes.
    works(&format!("replay {SMALL} --recipe buddy"), &[folder.path()]);
    let page = read(folder.path(), "report.html");
    assert!(page.contains("Pictures of stream-loc") && page.contains("Pictures of buddy"));
    let why = fails(&format!("replay {SMALL} --recipe all"), &[folder.path()], 2);
    assert!(why.contains("--recipe"), "{why}");
}

#[test]
fn the_page_is_made_again_from_what_was_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    works(&format!("compare {SMALL} --recipes stream,buddy"), &[&one]);
    works(&format!("compare {SMALL} --recipes stream,buddy --utilization 0.5"), &[&other]);
    let page = folder.path().join("page.html");
    works("report --from DIR --out DIR", &[&one, &page]);
    assert_eq!(fs::read_to_string(&page).unwrap(), read(&one, "report.html"));
    let (text, _) = works("report --from DIR DIR --out -", &[&one, &other]);
    assert!(text.contains("Runs side by side") && text.contains("other / one"));

    let why = fails("report --from DIR --out -", &[folder.path()], 1);
    assert!(why.contains("neither rows.json nor points.jsonl"), "{why}");
    for (name, content, expected) in [
        ("rows.json", "{}", "rows.json: not results of this laboratory: missing field"),
        ("rows.json", "\u{0}", "rows.json: not results of this laboratory"),
        ("points.jsonl", "{\"version\":3}\n", "points.jsonl: line 1: not results"),
        ("points.jsonl", "", "points.jsonl: is empty"),
    ] {
        let spoilt = folder.path().join("spoilt");
        fs::create_dir_all(&spoilt).unwrap();
        fs::write(spoilt.join(name), content).unwrap();
        let why = fails("report --from DIR --out -", &[&spoilt], 1);
        assert!(why.contains(expected), "{why}");
        // Nor is it written over.
        let command = if name == "rows.json" { "compare --recipes buddy" } else { "figures --figures 9" };
        let why = fails(&format!("{command} --like dec --requests 9 --out DIR"), &[&spoilt], 1);
        assert!(why.contains(expected), "{why}");
        fs::remove_dir_all(&spoilt).unwrap();
    }
}

#[test]
fn a_trace_that_is_malformed_is_told_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "url,size\nhttp://a.test/1,100\nhttp://a.test/2,many\nhttp://a.test/1,100\n").unwrap();
    let out = folder.path().join("out");
    let (found, said) =
        works("compare --trace DIR --recipes stream,buddy,squid --json --out DIR", &[&trace, &out]);
    assert_eq!(said.matches("1 malformed").count(), 1, "{said}");
    assert!(found.contains("\"synthetic\":false") && !read(&out, "report.html").contains("synthetic input"));
    // A trace that grew is another.
    fs::write(&trace, "url,size\nhttp://a.test/1,100\n").unwrap();
    let (_, said) = works("compare --trace DIR --recipes stream --out DIR", &[&trace, &out]);
    assert!(said.contains("bytes of the trace is"), "{said}");
}

#[test]
fn a_trace_is_converted_whole_or_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, other) = (folder.path().join("trace.csv"), folder.path().join("other"));
    fs::write(&trace, "url,size\nhttp://a.test/1,100\n").unwrap();
    works("convert --trace DIR --out DIR --to bu", &[&trace, &trace]);
    assert!(read(folder.path(), "trace.csv").contains("http://a.test/1\t100"));
    fs::write(&other, "what was there").unwrap();
    fails("convert --trace DIR --out DIR", &[&folder.path().join("none"), &other], 1);
    assert_eq!(read(folder.path(), "other"), "what was there");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    works("convert --trace DIR --out /dev/null", &[&trace]);
    assert!(!Path::new("/dev/null.new").exists());
}

#[test]
fn a_recipe_that_fails_takes_no_other_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let words = "compare --like dec --requests 3000 --memory 1MiB --disk 8GiB --recipes squid,stream,future --out DIR";
    let output = lab(words, &[folder.path()]);
    let (found, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("recipes failed") && said.contains("is full"), "{said}");
    assert!(found.contains("squid") && read(folder.path(), "report.html").contains("<td>squid</td>"));
    fails("compare --trace /no/such/trace --recipes all", &[], 1);
}

#[test]
fn an_object_that_is_larger_than_all_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "url,size\nhttp://a.test/1,1000000000000\nhttp://a.test/2,18446744073709551615\n")
        .unwrap();
    let words = "compare --trace DIR --memory 1MiB --disk 64MiB --recipes cosm,nginx,rock,cyclic-log,stream,lru --json";
    let (found, said) = works(words, &[&trace]);
    assert!(said.contains("larger than any response"), "{said}");
    assert_eq!(found.matches("\"passed\":1").count(), 6, "{found}");
}

#[test]
fn who_reads_may_leave_before_the_end() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosm"));
    command
        .args("lab compare --like dec --requests 100 --memory 1MiB --disk 8MiB --recipes stream".split(' '));
    let output = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_would_not_be_looked_at_is_refused() {
    for words in ["replay --recipe stream --like dec --strict", "simulate --like dec --format csv"] {
        assert!(fails(words, &[], 2).contains("cannot be used with"), "{words}");
    }
}

#[test]
fn a_write_budget_bounds_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let written = |budget: &str| {
        let (found, _) =
            works(&format!("compare {SMALL} --recipes cosm,cosm-chance{budget} --json"), &[folder.path()]);
        let rows: serde_json::Value = serde_json::from_str(&found).unwrap();
        ["cosm", "cosm-chance"].map(|name| {
            let row = rows["rows"].as_array().unwrap().iter().find(|row| row["recipe"] == name).unwrap();
            row["device_bytes_written"].as_u64().unwrap()
        })
    };
    let [all, by_chance] = written("");
    for budget in [" --write-budget 100KiB/hour", " --write-budget 100KiB/1MiB"] {
        let [less, by_chance_less] = written(budget);
        assert!(
            less < all && by_chance_less < by_chance,
            "{budget}: {less} of {all}, {by_chance_less} of {by_chance}"
        );
    }
    for (budget, says) in [
        ("much", "`much` is not a size in a time: write one like 200GiB/day"),
        ("0/day", "`0/day` is too small"),
        ("1MiB/1KiB", "`1MiB/1KiB` is too small: at least 1 byte in a time, or for 1MiB"),
    ] {
        let why = fails(&format!("compare {SMALL} --write-budget {budget}"), &[folder.path()], 2);
        assert!(why.contains("--write-budget: ") && why.contains(says), "{why}");
    }
}
