//! A table of text, in two forms.

pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    /// The first cell is a name, the others are figures.
    pub rows: Vec<Vec<String>>,
    pub note: Option<String>,
}

impl Table {
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|---|{}\n", "---:|".repeat(self.head.len().saturating_sub(1)));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        line(&self.head) + &rule + &rows
    }

    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let widths: Vec<usize> = (0..self.head.len())
            .map(|at| {
                lines().map(|row| row.get(at).map_or(0, |cell| cell.chars().count())).max().unwrap_or(0)
            })
            .collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate();
            let padded =
                cells.map(
                    |(at, (cell, width))| {
                        if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                    },
                );
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        lines().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let rows = vec![words("cosm 110"), words("nginx 7")];
        let table = Table { title: "hits".into(), head: words("who rate"), rows, note: None };
        assert_eq!(table.text(), "who    rate\ncosm    110\nnginx     7\n");
        assert_eq!(table.markdown(), "| who | rate |\n|---|---:|\n| cosm | 110 |\n| nginx | 7 |\n");
    }
}
