//! Rows as comma-separated values.

use crate::saved::Run;
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
    ];
    let head = names
        .iter()
        .map(|name| (*name).to_owned())
        .chain(kinds.iter().map(|kind| format!("{kind}_operations")))
        .chain(notes.iter().map(|note| (*note).to_owned()));
    let mut text = line(head);
    for row in &run.rows {
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
            row.write_amplification.map_or(String::new(), |found| found.to_string()),
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
    use crate::saved::tests::run;

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
            lines[0].ends_with(
                "counted_by,write_amplification,read_operations,write_operations,free_piece_bytes"
            )
        );
        assert!(
            lines[1].starts_with("\"synthetic, like dec, seed 1\",true,squid,st15150w,1058206,"),
            "{}",
            lines[1]
        );
        assert!(
            lines[1].ends_with(",model,,42085,9,66560") && lines[2].ends_with(",model,1.25,0,0,"),
            "{text}"
        );
        assert_eq!(quoted("a \"b\"\n"), "\"a \"\"b\"\"\n\"");
    }
}
