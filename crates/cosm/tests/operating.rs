//! docs/operating.md names settings and metrics that exist; its configurations, and those in contrib, are right.

use cosm::machine::Machine;
use cosm::settings::{Config, Setting, file};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn page(name: &str) -> String {
    read(&format!("docs/{name}"))
}

fn read(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Words of `text` that begin with `start`, as far as letters, digits and `joins` go.
fn words<'a>(text: &'a str, start: &'a str, joins: &'a [char]) -> BTreeSet<&'a str> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || joins.contains(&c);
    let begins = |at: usize| text[..at].chars().next_back().is_none_or(|c| !is_word(c));
    let found = text.match_indices(start).map(|(at, _)| at).filter(|at| begins(*at));
    found
        .map(|at| {
            let word = &text[at..];
            word[..word.find(|c| !is_word(c)).unwrap_or(word.len())].trim_end_matches(joins)
        })
        .filter(|word| word.len() > start.len())
        .collect()
}

#[test]
fn each_option_is_a_setting() {
    /// Options of commands, of cargo among them, which are no settings.
    const OTHERS: [&str; 13] = [
        "help",
        "config",
        "check",
        "print-config",
        "force",
        "locked",
        "path",
        "verify",
        "list",
        "proxy",
        "rate",
        "connections",
        "follow",
    ];
    let text = page("operating.md");
    let named = words(&text, "--", &['-']);
    assert!(named.len() > 50, "{named:?}");
    for option in named.into_iter().map(|word| &word[2..]).filter(|name| !OTHERS.contains(name)) {
        if let Err(why) = Setting::named(option) {
            panic!("docs/operating.md: --{option}: {why}");
        }
    }
}

#[test]
fn each_metric_is_one() {
    let (text, all) = (page("operating.md"), page("metrics.md"));
    let named = words(&text, "cosm_", &['_']);
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        assert!(all.contains(&format!("| `{name}` |")), "docs/operating.md: {name} is no metric");
    }
}

#[test]
fn configurations_are_right() {
    let machine = Machine { memory: 16 << 30, cores: 4, descriptors: 1 << 20 };
    let is_right = |name: &str, text: &str| {
        let given = file::read(text, name).unwrap_or_else(|wrong| panic!("{name}: {wrong:?} in\n{text}"));
        if let Err(wrong) = Config::build(&given, &machine) {
            panic!("{name}: {wrong:?} in\n{text}");
        }
    };
    for name in ["operating.md", "settings.md"] {
        let text = page(name);
        let blocks: Vec<&str> =
            text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!blocks.is_empty(), "{name}");
        blocks.into_iter().for_each(|block| is_right(name, block));
    }
    for name in ["contrib/debian/cosm.toml", "contrib/container/cosm.toml"] {
        let text = read(name);
        is_right(name, &text);
        // What is shown as a comment is right, too.
        let shown = |line: &str| match line.strip_prefix("# ") {
            Some(rest) if rest.split(' ').nth(1) == Some("=") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        };
        is_right(name, &text.lines().map(shown).collect::<String>());
    }
}
