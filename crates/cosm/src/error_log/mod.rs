//! The error log: what goes wrong while the proxy runs, and what changes, as events (`tracing`), a line each.
//!
//! Whatever happens names an area, of which each has a level of its own (`Levels`), which a reload changes. Of warnings and errors of
//! one kind a line a second is written (`limit`), which says how many were left out. Lines wait for a thread that writes them
//! (`writer`), so that no request waits for the disk; those that find no room are counted.

mod limit;
mod line;
mod recent;
mod writer;

pub use line::Style;
pub use recent::Recent;
pub use writer::ErrorLog;

use crate::sink::To;
use std::str::FromStr;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// An area, and what happens there.
pub const AREAS: &[(&str, &str)] = &[
    (
        "request",
        "answers of the proxy's own with a status from 500 on, where that is not what the client asked for",
    ),
    ("origin", "names that cannot be looked up, connections that cannot be made, answers that do not come"),
    ("client", "connections of clients that are ended for what their clients do"),
    ("tls", "certificates that are read anew, or cannot be; handshakes that fail (debug)"),
    ("acme", "certificates that are ordered, or cannot be"),
    ("disk", "disks that fail, are left and come back; records that cannot be read"),
    ("service", "another process takes over, or does not"),
    ("settings", "what a reload changed"),
    ("admin", "what was changed by way of the admin interface, and by whom"),
];

/// Areas of which each event is written: the operator is the cause, or each disk or certificate says a thing once.
const UNLIMITED: [&str; 5] = ["acme", "disk", "service", "settings", "admin"];

/// Where events are written, how, and which.
#[derive(Clone, Debug)]
pub struct Settings {
    pub to: To,
    pub style: Style,
    pub levels: Levels,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { to: To::Stderr, style: Style::Text, levels: Levels::default() }
    }
}

/// From which level on the events of each area are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels([LevelFilter; AREAS.len()]);

impl Default for Levels {
    fn default() -> Levels {
        Levels([LevelFilter::INFO; AREAS.len()])
    }
}

impl Levels {
    /// Events of other crates are none of ours.
    fn filter(self) -> Targets {
        Targets::new().with_targets(AREAS.iter().map(|(area, _)| *area).zip(self.0))
    }
}

impl FromStr for Levels {
    type Err = String;

    /// A level for all areas, or `AREA=LEVEL`, separated by commas; the later goes before the earlier.
    fn from_str(text: &str) -> Result<Levels, String> {
        let level = |word: &str| match word {
            "off" => Ok(LevelFilter::OFF),
            "error" => Ok(LevelFilter::ERROR),
            "warn" => Ok(LevelFilter::WARN),
            "info" => Ok(LevelFilter::INFO),
            "debug" => Ok(LevelFilter::DEBUG),
            _ => Err(format!("`{word}` is no level: off, error, warn, info or debug")),
        };
        let mut levels = Levels::default();
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => levels.0.fill(level(part)?),
                Some((area, word)) => {
                    let at = AREAS.iter().position(|(name, _)| *name == area);
                    let names = || AREAS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                    let at = at.ok_or_else(|| format!("`{area}` is no area: {}", names()))?;
                    levels.0[at] = level(word)?;
                }
            }
        }
        Ok(levels)
    }
}

/// A line for each area.
pub fn area_list() -> String {
    AREAS.iter().map(|(name, about)| format!("  {name:<16} {about}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_the_areas() {
        let text = include_str!("../../../../docs/error-log.md");
        for (area, about) in AREAS {
            assert!(text.contains(&format!("| `{area}` | {about} |")), "{area}");
        }
    }

    #[test]
    fn each_area_has_the_level_that_was_said_last() {
        let levels = |text: &str| text.parse::<Levels>().map(|levels| levels.0);
        let (off, warn, info, debug) =
            (LevelFilter::OFF, LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG);
        assert_eq!(levels("warn"), Ok([warn; 9]));
        assert_eq!(levels("warn, origin=debug"), Ok([warn, debug, warn, warn, warn, warn, warn, warn, warn]));
        assert_eq!(
            levels("request=off,disk=warn"),
            Ok([off, info, info, info, info, warn, info, info, info])
        );
        assert_eq!(levels("origin=debug,warn"), Ok([warn; 9]));
        for wrong in ["", "loud", "origin=", "orign=warn", "warn,,info", "=warn"] {
            assert!(levels(wrong).is_err_and(|why| why.contains("is no ")), "{wrong}");
        }
    }
}
