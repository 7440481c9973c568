//! `cosm inspect` and `cosm check`: a look at a cache, which never writes.

use crate::values::say_size;
use std::io::IsTerminal;
use std::path::Path;

/// Named figures, printed as a table or as one JSON object.
pub fn print(figures: &[(&str, String)], json: bool) {
    if json {
        let fields: Vec<String> =
            figures.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        line!("{{{}}}", fields.join(", "));
    } else {
        let widest = figures.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in figures {
            line!("{:<widest$} {value}", name.replace('_', " "));
        }
    }
}

pub fn inspect(path: &Path, json: bool) -> Result<(), String> {
    let seen = store::inspect(path).map_err(|e| e.to_string())?;
    let size = |bytes: u64| if json { bytes.to_string() } else { say_size(bytes) };
    let identity = format!("{:016x}", seen.identity);
    let figures = [
        ("format", seen.format.to_string()),
        ("size", size(seen.size)),
        ("packet", size(u64::from(seen.packet))),
        ("segments", seen.segments.to_string()),
        ("identity", if json { format!("\"{identity}\"") } else { identity }),
        ("generation", seen.generation.to_string()),
        ("checkpoint", seen.checkpoint.to_string()),
        ("checkpoint_entries", seen.from_checkpoint.to_string()),
        ("entries", seen.objects.to_string()),
        ("next_segment", seen.next_segment.to_string()),
        ("newest_sequence", seen.newest_sequence.to_string()),
    ];
    print(&figures, json);
    Ok(())
}

pub fn check(path: &Path, json: bool) -> Result<(), String> {
    let show = std::io::stderr().is_terminal();
    let checked = store::check(path, |done, of| {
        if show && (done.is_multiple_of(64) || done == of) {
            eprint!("\rcosm: {done} of {of} segments{}", if done == of { "\n" } else { "" });
        }
    })
    .map_err(|e| e.to_string())?;
    let figures = [
        ("segments", checked.segments.to_string()),
        ("without_table", checked.without_table.to_string()),
        ("sound", checked.sound.to_string()),
        ("sound_bytes", checked.sound_bytes.to_string()),
        ("superseded", checked.superseded.to_string()),
        ("damaged", checked.damaged.to_string()),
        ("unreadable", checked.unreadable_segments.to_string()),
    ];
    print(&figures, json);
    match checked.damaged + checked.unreadable_segments {
        0 => Ok(()),
        n => Err(format!(
            "cache {}: {n} records or segments are damaged; they are served as misses",
            path.display()
        )),
    }
}
