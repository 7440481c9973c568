//! Examples as a table: CSV, or TSV if the first line has a tab. The first line says each column's name and kind:
//!
//! ```text
//! type:nominal,size:number,words:set,wanted:class,bytes:weight,url:skip
//! image/gif,2048,news logo,yes,2048,http://a.com/a.gif
//! ```
//!
//! An empty field or `?` is missing. Words of a set are separated by blanks. Without a column for the weight, each row weighs 1.
//! Fields may be quoted, with `""` for a quote inside.

use super::{Examples, Kind, Schema, Value, one_line};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use std::io::{BufRead, Cursor, Read};

/// Bytes of a row's fields together. A longer row is an error.
pub const ROW_MAX: usize = 1 << 20;

/// Columns at most.
pub const COLUMNS_MAX: usize = 10_000;

/// Reads all rows. `classes` are given their numbers before those that come. `progress` is told how many rows there are, now and then. An
/// error is one line, with the row's place.
pub fn read(
    input: impl BufRead,
    classes: &[String],
    progress: impl FnMut(usize),
) -> Result<Examples, String> {
    read_rows(input, classes, progress).map_err(|what| one_line(&what))
}

fn read_rows(
    mut input: impl BufRead,
    classes: &[String],
    mut progress: impl FnMut(usize),
) -> Result<Examples, String> {
    let mut first = Vec::new();
    (&mut input).take(ROW_MAX as u64).read_until(b'\n', &mut first).map_err(|e| e.to_string())?;
    let separator = if first.contains(&b'\t') { b'\t' } else { b',' };
    let mut rows = Rows::of(Cursor::new(first).chain(input), separator);
    if !rows.next()? {
        return Err("line 1: no table: the first line says what the columns are, as `size:number`".into());
    }
    let columns = columns(&rows).map_err(|what| format!("line 1: {what}"))?;
    let attributes = columns.iter().filter_map(|(name, role)| match role {
        Role::Attribute(kind) => Some((name.as_str(), *kind)),
        _ => None,
    });
    let schema = Schema::new(attributes).map_err(|what| format!("line 1: {what}"))?;
    let mut examples = Examples::new(schema, classes.iter().map(String::as_str));
    while rows.next()? {
        push(&mut examples, &columns, &rows).map_err(|what| format!("line {}: {what}", rows.line))?;
        if examples.len().is_multiple_of(1 << 16) {
            progress(examples.len());
        }
    }
    Ok(examples)
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Attribute(Kind),
    Class,
    Weight,
    Skip,
}

fn columns<R: BufRead>(rows: &Rows<R>) -> Result<Vec<(String, Role)>, String> {
    let mut columns = Vec::new();
    for at in 0..rows.count {
        let said = rows.field(at)?;
        let Some((name, kind)) = said.rsplit_once(':') else {
            return Err(format!("the column `{said}` has no kind, as `{said}:number`"));
        };
        let role = match kind.trim() {
            "class" => Role::Class,
            "weight" => Role::Weight,
            "skip" => Role::Skip,
            kind => Role::Attribute(Kind::of(kind).ok_or_else(|| {
                format!("`{kind}` is none of the kinds number, nominal, set, class, weight and skip")
            })?),
        };
        columns.push((name.trim().to_owned(), role));
    }
    let count = |role| columns.iter().filter(|(_, is)| *is == role).count();
    match (count(Role::Class), count(Role::Weight)) {
        (1, 0 | 1) => Ok(columns),
        (0, _) => Err("no column is the class, as `wanted:class`".into()),
        (1, _) => Err("two columns are weights".into()),
        _ => Err("two columns are classes".into()),
    }
}

fn push<R: BufRead>(
    examples: &mut Examples,
    columns: &[(String, Role)],
    rows: &Rows<R>,
) -> Result<(), String> {
    if rows.count != columns.len() {
        return Err(format!("{} fields for {} columns", rows.count, columns.len()));
    }
    let fields = (0..rows.count).map(|at| rows.field(at)).collect::<Result<Vec<_>, String>>()?;
    let number = |name: &str, said: &str| {
        let parsed: Result<f64, _> = said.parse();
        parsed.map_err(|_| format!("`{name}`: `{said}` is not a number"))
    };
    let sets: Vec<Vec<&str>> = columns
        .iter()
        .zip(&fields)
        .filter(|((_, role), _)| *role == Role::Attribute(Kind::Set))
        .map(|(_, field)| field.split_whitespace().collect())
        .collect();
    let mut sets = sets.iter();
    let (mut values, mut class, mut weight) = (Vec::with_capacity(columns.len()), "", 1.0);
    for ((name, role), field) in columns.iter().zip(&fields) {
        let is_missing = field.is_empty() || *field == "?";
        values.push(match role {
            Role::Skip => continue,
            Role::Class if is_missing => return Err("no class".into()),
            Role::Class => {
                class = field;
                continue;
            }
            Role::Weight => {
                weight = number(name, field)?;
                continue;
            }
            Role::Attribute(Kind::Set) => {
                let set = sets.next().map_or(&[][..], Vec::as_slice);
                if is_missing { Value::Missing } else { Value::Set(set) }
            }
            Role::Attribute(_) if is_missing => Value::Missing,
            Role::Attribute(Kind::Number) => Value::Number(number(name, field)?),
            Role::Attribute(Kind::Nominal) => Value::Nominal(field),
        });
    }
    examples.push(&values, class, weight)
}

/// Goes through the rows. Empty lines are none.
struct Rows<R> {
    input: R,
    reader: Reader,
    fields: Vec<u8>,
    ends: Vec<usize>,
    /// Of the row that was read last: how many fields it has, and the line where it ends, from 1.
    count: usize,
    line: u64,
}

impl<R: BufRead> Rows<R> {
    fn of(input: R, separator: u8) -> Rows<R> {
        let reader = ReaderBuilder::new().delimiter(separator).build();
        Rows { input, reader, fields: vec![0; 4096], ends: vec![0; 64], count: 0, line: 0 }
    }

    /// Reads the next row; false at the end.
    fn next(&mut self) -> Result<bool, String> {
        let (mut length, mut count) = (0, 0);
        loop {
            let input = self.input.fill_buf().map_err(|e| format!("after line {}: {e}", self.line))?;
            let (result, taken, written, ended) =
                self.reader.read_record(input, &mut self.fields[length..], &mut self.ends[count..]);
            // A row is named by the line where it ends.
            self.line = self.reader.line() - u64::from(input[..taken].ends_with(b"\n"));
            self.input.consume(taken);
            (length, count) = (length + written, count + ended);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => grow(&mut self.fields, ROW_MAX)
                    .ok_or_else(|| format!("line {}: longer than {ROW_MAX} bytes", self.line))?,
                ReadRecordResult::OutputEndsFull => grow(&mut self.ends, COLUMNS_MAX)
                    .ok_or_else(|| format!("line {}: more than {COLUMNS_MAX} fields", self.line))?,
                ReadRecordResult::Record => {
                    self.count = count;
                    return Ok(true);
                }
                ReadRecordResult::End => return Ok(false),
            }
        }
    }

    fn field(&self, at: usize) -> Result<&str, String> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let field = std::str::from_utf8(&self.fields[start..self.ends[at]]);
        field.map(str::trim).map_err(|_| format!("field {} is not UTF-8", at + 1))
    }
}

/// Twice as large; None beyond the bound.
fn grow<T: Clone + Default>(room: &mut Vec<T>, most: usize) -> Option<()> {
    let larger = room.len() * 2;
    room.resize(if room.len() < most { larger.min(most) } else { return None }, T::default());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{Column, MISSING};
    use proptest::prelude::*;

    fn of(text: &str) -> Result<Examples, String> {
        read(text.as_bytes(), &[], |_| {})
    }

    #[test]
    fn a_table_is_read() {
        let text = "type:nominal,size:number,words:set,wanted:class,bytes:weight,url:skip\n\
                    image/gif, 2048,b a,yes,2.5,http://a,\r\n\"a, \"\"b\"\"\",?,,no,1,\n";
        let examples = of(&text.replace("http://a,", "http://a")).unwrap();
        assert_eq!((examples.len(), examples.weights()), (2, &[2.5, 1.0][..]));
        assert_eq!(examples.classes().iter().collect::<Vec<_>>(), ["yes", "no"]);
        let Some(Column::Nominal { words, .. }) = examples.column("type") else { panic!() };
        assert_eq!(words.iter().collect::<Vec<_>>(), ["image/gif", "a, \"b\""]);
        let tabs = of("a:nominal\tb:class\nx, y\tno\n?\tyes").unwrap();
        let Some(Column::Nominal { words, values }) = tabs.column("a") else { panic!() };
        assert_eq!((words.word(0), values[1]), ("x, y", MISSING));
    }

    #[test]
    fn the_first_line_may_come_in_pieces() {
        let text = b"\xef\xbb\xbfsize:number\twanted:class\n1\tyes\n2\tno\n";
        for end in 0..text.len() {
            let examples = read(text[..end].chain(&text[end..]), &[], |_| {}).unwrap();
            assert_eq!(examples.classes().iter().collect::<Vec<_>>(), ["yes", "no"], "{end}");
            assert!(examples.column("size").is_some());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_table_or_an_error_of_one_line(
            head in "(([ab]|\"x\n\"):(number|nominal|set|class|weight|skip)[,\t]?){1,4}\n",
            body in prop::collection::vec(prop::sample::select(&b"ab1-.,\t\"\n ?\xff"[..]), 0..60),
        ) {
            let text = [head.as_bytes(), &body].concat();
            if let Err(why) = read(&text[..], &[], |_| {}) {
                prop_assert!(why.starts_with("line ") && !why.contains('\n'), "{}", why);
            }
        }
    }

    #[test]
    fn what_is_wrong_names_its_line() {
        for (text, said) in [
            ("", "line 1: no table"),
            ("a,b:class\n", "line 1: the column `a` has no kind"),
            ("a:text,b:class\n", "line 1: `text` is none of the kinds"),
            ("a:number\n1\n", "line 1: no column is the class"),
            ("a:class,b:class\n", "line 1: two columns are classes"),
            ("a:number,a:set,b:class\n", "line 1: two attributes"),
            ("a:number,b:class\n1,x\n2\n", "line 3: 1 fields for 2 columns"),
            ("a:number,b:class\n1,x\n\nzwei,x\n", "line 4: `a`: `zwei` is not a number"),
            ("a:weight,b:class\n0,x\n", "line 2: the weight 0"),
            ("a:weight,b:class\n1e300,x\n", "line 2: the weight 1e300 is not"),
            ("a:number,b:class\n1,\n", "line 2: no class"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        let long = format!("a:nominal,b:class\nx,y\n{},y\n", "x".repeat(ROW_MAX + 1));
        assert!(of(&long).unwrap_err().contains("line 3: longer than"));
        assert!(
            of(&format!("a:class{}", ",".repeat(COLUMNS_MAX + 1)))
                .unwrap_err()
                .contains("more than 10000 fields")
        );
        assert!(
            read(&b"a:nominal,b:class\n\xff,x\n"[..], &[], |_| {})
                .unwrap_err()
                .starts_with("line 2: field 1")
        );
    }
}
