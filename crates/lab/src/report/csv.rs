//! Rows as comma-separated values.

use crate::results::Run;
use crate::results::score::scores;
use std::collections::BTreeSet;

/// One line for each recipe; operations by kind have columns of their own.
pub fn csv(run: &Run) -> String {
    let kinds: BTreeSet<&str> =
        run.rows.iter().flat_map(|row| row.operations.0.keys().map(AsRef::as_ref)).collect();
    let notes: BTreeSet<&str> = run.rows.iter().flat_map(|row| row.notes.keys().map(AsRef::as_ref)).collect();
    let names = [
        "trace",
        "synthetic",
        "recipe",
        "medium",
        "gets",
        "seconds",
        "gets_per_second",
        "hit_ratio",
        "byte_hit_ratio",
        "device_reads",
        "device_writes",
        "device_bytes_read",
        "device_bytes_written",
        "counted_by",
        "write_amplification",
        "device_read_seconds",
        "device_write_seconds",
        "bytes_programmed",
        "origin_bytes",
        "service_seconds",
        "dominated_by",
    ];
    let head = names
        .iter()
        .map(|name| (*name).to_owned())
        .chain(kinds.iter().map(|kind| format!("{kind}_operations")))
        .chain(notes.iter().map(|note| (*note).to_owned()));
    let mut text = line(head);
    for (row, score) in run.rows.iter().zip(scores(&run.rows, &run.origin)) {
        let cells = [
            run.asked.trace.clone(),
            run.asked.synthetic.to_string(),
            row.recipe.clone(),
            row.medium.clone(),
            row.gets.to_string(),
            row.seconds.to_string(),
            row.gets_per_second.to_string(),
            row.hit_ratio.to_string(),
            row.byte_hit_ratio.to_string(),
            known(row.device_reads),
            known(row.device_writes),
            known(row.device_bytes_read),
            known(row.device_bytes_written),
            row.counted_by.clone().unwrap_or_default(),
            number(row.write_amplification),
            number(row.device_read_seconds),
            number(row.device_write_seconds),
            known(row.bytes_programmed),
            score.origin_bytes.to_string(),
            score.service_seconds.to_string(),
            score.dominated_by.join(" "),
        ];
        let operations = kinds.iter().map(|kind| row.operations.0.get(*kind).unwrap_or(&0).to_string());
        let notes =
            notes.iter().map(|note| row.notes.get(*note).map_or(String::new(), |value| value.to_string()));
        text += &line(cells.into_iter().chain(operations).chain(notes));
    }
    text
}

/// Empty where nobody counted.
fn known(count: Option<u64>) -> String {
    count.map_or(String::new(), |count| count.to_string())
}

fn number(number: Option<f64>) -> String {
    number.map_or(String::new(), |number| number.to_string())
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| quoted(&cell)).collect::<Vec<_>>().join(",") + "\n"
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run;

    #[test]
    fn every_row_has_all_columns() {
        let mut run = run();
        run.rows[1].operations.0.clear();
        run.rows[1].notes.clear();
        run.rows[1].write_amplification = Some(1.25);
        let text = csv(&run);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0]
                .ends_with("service_seconds,dominated_by,read_operations,write_operations,free_piece_bytes")
        );
        assert!(
            lines[1].starts_with("\"synthetic, like dec, seed 1\",true,squid,st15150w,1058206,"),
            "{}",
            lines[1]
        );
        assert!(
            lines[1].contains(",model,,600,900,,0,") && lines[2].contains(",model,1.25,600,900,,0,"),
            "{text}"
        );
        assert_eq!(quoted("a \"b\"\n"), "\"a \"\"b\"\"\n\"");
    }
}
