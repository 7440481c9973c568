//! Which part of a crate may use which: a table, and a check that the sources keep to it.
//!
//! A part is a folder of `src` or a file beside them; what is compiled for tests only is not looked at.

use std::path::{Path, PathBuf};

/// A crate's parts from the lowest up. Each uses those before it in the list, and itself.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "proxy",
        &[
            // Ground: no request is known here.
            "authority",
            "scheme",
            "budget",
            "clock",
            "console",
            "internal_error",
            "off_peak",
            "phase",
            // What carries bytes.
            "transport",
            "tls",
            "settings",
            // Messages and rules, without a connection.
            "message",
            "route",
            "access",
            // What is kept.
            "tiers",
            // What came of each request.
            "report",
            // Upstream.
            "origin",
            // Bodies shared and moved.
            "fill",
            "worker",
            "night",
            "renewal",
            "transfer",
            // What is looked up, asked for and stored, whoever wants it.
            "fetch",
            // A request's answer.
            "answer",
            // Downstream.
            "client",
            "admin",
            "handover",
        ],
    ),
    ("policy", &["lookup", "mix", "collections", "replacement", "sample", "shadow"]),
    (
        "learn",
        &[
            // Ground: how numbers are written.
            "number",
            // When peaks are, how far one can be lowered, and what a trace says of them.
            "day",
            "target",
            "profile",
            "analysis",
            // What is learned from, what comes of it, and how.
            "examples",
            "judge",
            "rules",
            "ripper",
            "boost",
            // What is fetched, and what came of it.
            "candidate",
            "plan",
            "evaluate",
        ],
    ),
    (
        "lab",
        &[
            // Ground: what is replayed.
            "notes",
            "object",
            "object_cache",
            "response",
            "scale",
            "input",
            // What a device is asked for, and what carries it out.
            "block",
            "medium",
            // Hits alone.
            "simulate",
            // Where objects lie, and storage policies.
            "layout",
            "storage",
            "recipe",
            // A trace through a recipe, and what is kept of it.
            "replay",
            "results",
            // What is replayed for whom, and how it is shown.
            "experiments",
            // Bandwidth smoothing in a synthetic world.
            "smooth",
            "report",
            // The production store filled.
            "fill",
        ],
    ),
];

/// Says each use that the table does not allow.
pub fn check(root: &Path) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (name, layers) in LAYERS {
        let src = root.join("crates").join(name).join("src");
        for file in sources(&src)? {
            let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let inside = file.strip_prefix(&src).unwrap_or(&file);
            wrong.extend(forbidden(layers, inside, &text));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("against xtask/src/layers.rs:\n{}", wrong.join("\n"))) }
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => files.extend(sources(&path)?),
            false if path.extension().is_some_and(|extension| extension == "rs") => files.push(path),
            false => {}
        }
    }
    Ok(files)
}

/// The uses in a file of what its part may not use.
fn forbidden(layers: &[&str], file: &Path, text: &str) -> Vec<String> {
    let part =
        file.iter().next().and_then(|first| Path::new(first).file_stem()?.to_str()).unwrap_or_default();
    // The crate's root puts its parts together, and tests take what they need.
    if part == "lib" || file.file_stem().is_some_and(|stem| stem == "tests") {
        return Vec::new();
    }
    let Some(place) = layers.iter().position(|layer| *layer == part) else {
        return vec![format!("{}: `{part}` is in no layer", file.display())];
    };
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let uses = lines.flat_map(|line| line.split("crate::").skip(1)).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    });
    uses.filter(|used| layers.iter().position(|layer| layer == used).is_none_or(|used| used > place))
        .map(|used| format!("{}: `{part}` uses `{used}`", file.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_keep_to_the_table() {
        check(crate::root().unwrap()).unwrap();
    }

    #[test]
    fn what_is_not_allowed_is_found() {
        let layers = ["low", "middle", "high"];
        let found = |file: &str, text: &str| forbidden(&layers, Path::new(file), text).len();
        assert_eq!(found("middle/a.rs", "use crate::low::A;\nuse crate::middle::b;"), 0);
        assert_eq!(found("middle/a.rs", "let x = crate::high::b(crate::low::C);"), 1);
        assert_eq!(found("middle.rs", "use crate::{low, high};"), 1);
        assert_eq!(found("middle.rs", "use crate::other;"), 1);
        assert_eq!(found("other.rs", ""), 1);
        assert_eq!(found("middle.rs", "// crate::high\n#[cfg(test)]\nuse crate::high;"), 0);
        assert_eq!(found("lib.rs", "use crate::high;"), 0);
        assert_eq!(found("middle/tests.rs", "use crate::high;"), 0);
    }
}
