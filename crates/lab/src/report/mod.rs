//! The results as a page that needs nothing else: tables, plots and pictures, from what was saved.

mod axis;
mod csv;
mod figures;
mod html;
pub mod next_day;
pub mod nights;
mod pictures;
mod plot;
mod rows;
mod score;
pub mod smoothing;

use crate::results::{Asked, Points, Run};
use crate::scale::{Clock, Scale, WriteBudget};
use html::{escape, heading, paragraph, size, table, thousands};

pub use csv::csv;

/// What one folder holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// How it is told from others.
    pub name: String,
    pub run: Option<Run>,
    pub points: Option<Points>,
}

impl Source {
    fn asked(&self) -> impl Iterator<Item = &Asked> {
        let run = self.run.iter().map(|run| &run.asked);
        run.chain(self.points.iter().map(|points| &points.asked))
    }
}

/// The page. An error says what could not be drawn.
pub fn page(sources: &[Source]) -> Result<String, String> {
    let title = "Storage policies side by side";
    let mut body = format!("<h1>{title}</h1>\n");
    let synthetic: Vec<&Asked> =
        sources.iter().flat_map(Source::asked).filter(|asked| asked.synthetic).collect();
    if let Some(first) = synthetic.first() {
        body += &format!(
            "<p><span class=\"tag\">synthetic input</span> The requests are synthetic ({}): results on them are not \
             those of a real trace.</p>\n",
            escape(&first.trace)
        );
    }
    body += &asked(sources);
    let runs: Vec<(&str, &Run)> =
        sources.iter().filter_map(|source| Some((source.name.as_str(), source.run.as_ref()?))).collect();
    body += &rows::section(&runs)?;
    for source in sources {
        if let Some(points) = &source.points {
            body += &figures::section(&named("Figures of WebCoSM", &source.name, sources.len()), points)?;
        }
    }
    Ok(document(title, &body))
}

/// A page that needs nothing else.
fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        include_str!("style.css")
    )
}

/// A title, and of which of several it is.
fn named(title: &str, name: &str, of: usize) -> String {
    if of > 1 { format!("{title}: {name}") } else { title.into() }
}

fn asked(sources: &[Source]) -> String {
    let mut head = vec![String::new()];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (asked, scale, name) in sources.iter().flat_map(|source| {
        let run = source.run.iter().map(|run| (&run.asked, Some(&run.scale), &source.name));
        run.chain(source.points.iter().map(|points| (&points.asked, None, &source.name)))
    }) {
        head.push(name.clone());
        let each = "each figure's own";
        let asked = asked.fields().map(|(name, value)| match value.parse() {
            Ok(number) => (name, thousands(number)),
            Err(_) if name == "requests at most" && scale.is_none() => (name, each.into()),
            Err(_) => (name, value),
        });
        let scale = [
            ("memory", scale.map_or(each.into(), |scale| size(scale.memory))),
            ("disk", scale.map_or(each.into(), |scale| size(scale.disk))),
            ("utilisation", scale.map_or(each.into(), |scale| format!("{}", scale.utilization))),
            ("write budget", scale.map_or(each.into(), said_budget)),
        ];
        for (nth, (name, cell)) in asked.into_iter().chain(scale).enumerate() {
            if rows.len() == nth {
                rows.push(vec![name.to_owned()]);
            }
            rows[nth].push(cell);
        }
    }
    let note = "Requests go to a cache in memory, then to one on disk, which forget what was used least lately unless a recipe says \
                otherwise; what they read, \
                write and delete takes as long as the medium says, one after the other (docs/lab.md).";
    heading(2, "What was asked", false) + &table(true, &head, &rows) + &paragraph(note)
}

fn said_budget(scale: &Scale) -> String {
    match scale.write_budget {
        None => "none".into(),
        Some(WriteBudget { bytes, seconds, clock: Clock::Trace }) => {
            format!("{} in {} h of the trace", size(bytes), seconds / 3600)
        }
        Some(WriteBudget { bytes, seconds, clock: Clock::Asked }) => {
            format!("{} for {} asked for", size(bytes), size(seconds << 20))
        }
    }
}

#[cfg(test)]
mod tests;
