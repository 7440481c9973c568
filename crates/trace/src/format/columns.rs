//! Columns with names in the first line, separated by commas or tabs.
//!
//! Known names are those in `NAMES`; a column of another name is not looked at. A trace needs a URL or an object, and a
//! size.

use super::{Format, Kept, Parser, Writer, first_line, number, seconds, write_seconds};
use crate::{Access, Method, hash};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

pub const COMMAS: Format = Format {
    name: "csv",
    about: "columns with names in the first line: time, client, server, url or object, size, status, method, modified",
    begins: |bytes| Columns::new(b',').header(first_line(bytes)).is_ok(),
    parser: || Box::new(Columns::new(b',')),
    writer: || Box::new(Columns::new(b',')),
};

pub const TABS: Format = Format {
    name: "tsv",
    about: "the same, separated by tabs",
    begins: |bytes| Columns::new(b'\t').header(first_line(bytes)).is_ok(),
    parser: || Box::new(Columns::new(b'\t')),
    writer: || Box::new(Columns::new(b'\t')),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time,
    Client,
    Server,
    Url,
    Object,
    Size,
    Status,
    Method,
    Modified,
}

/// What each column may be called, whatever its case.
const NAMES: [(Column, &[&str]); 9] = [
    (Column::Time, &["time", "timestamp", "ts"]),
    (Column::Client, &["client", "host", "user", "ip"]),
    (Column::Server, &["server"]),
    (Column::Url, &["url", "uri", "path"]),
    (Column::Object, &["object", "obj_id", "id", "key"]),
    (Column::Size, &["size", "bytes", "length", "obj_size"]),
    (Column::Status, &["status", "response", "code"]),
    (Column::Method, &["method", "op"]),
    (Column::Modified, &["modified", "last_mod"]),
];

struct Columns {
    separator: u8,
    reader: Reader,
    /// Of each column; empty before the header was read.
    columns: Vec<Option<Column>>,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Columns {
    fn new(separator: u8) -> Columns {
        let reader = ReaderBuilder::new().delimiter(separator).build();
        Columns { separator, reader, columns: Vec::new(), text: vec![0; 1024], ends: vec![0; 16] }
    }

    /// Cuts a line into fields; how many.
    fn cut(&mut self, line: &[u8]) -> usize {
        self.reader.reset();
        let (mut read, mut wrote, mut fields) = (0, 0, 0);
        loop {
            let input = &line[read..];
            let (result, took, gave, ended) =
                self.reader.read_record(input, &mut self.text[wrote..], &mut self.ends[fields..]);
            (read, wrote, fields) = (read + took, wrote + gave, fields + ended);
            match result {
                ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                // A line's end: the reader is told by an empty input.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record | ReadRecordResult::End => return fields,
            }
        }
    }

    fn field(&self, nth: usize) -> &[u8] {
        let from = if nth == 0 { 0 } else { self.ends[nth - 1] };
        &self.text[from..self.ends[nth]]
    }

    /// What the columns are that a line names.
    fn named(&mut self, line: &[u8]) -> Vec<Option<Column>> {
        let count = self.cut(line);
        let column = |nth| {
            let name = String::from_utf8_lossy(self.field(nth)).trim().to_lowercase();
            NAMES.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(column, _)| *column)
        };
        (0..count).map(column).collect()
    }

    fn header(&mut self, line: &[u8]) -> Result<(), String> {
        let columns = self.named(line);
        let has = |column| columns.contains(&Some(column));
        if !has(Column::Size) || !(has(Column::Url) || has(Column::Object)) {
            return Err(
                "the first line must name the columns, a size and a url or an object among them".into()
            );
        }
        self.columns = columns;
        Ok(())
    }
}

/// Whether a first line names a time and a URL or an object, but no size.
pub fn lacks_size(line: &[u8]) -> bool {
    b"\t,".iter().any(|separator| {
        let columns = Columns::new(*separator).named(line);
        let has = |column| columns.contains(&Some(column));
        has(Column::Time) && (has(Column::Url) || has(Column::Object)) && !has(Column::Size)
    })
}

impl Parser for Columns {
    fn parse(&mut self, line: &[u8], access: &mut Access) -> Result<Kept, String> {
        if self.columns.is_empty() {
            return self.header(line).map(|()| Kept::No);
        }
        let count = self.cut(line);
        let mut server = None;
        let mut wanted = self.columns.iter().filter(|column| column.is_some()).count();
        for nth in 0..count.min(self.columns.len()) {
            let Some(column) = self.columns[nth] else { continue };
            let field = self.field(nth);
            wanted -= 1;
            match column {
                Column::Time => access.time = seconds(field)?,
                Column::Client => access.client = named(field),
                Column::Server => server = Some(named(field)),
                Column::Url => access.set_url(field),
                Column::Object => access.object = named(field),
                Column::Size => access.size = number(field, "size")?,
                Column::Status => access.status = number(field, "status")?,
                Column::Method => access.method = Method::of(field),
                Column::Modified => access.modified = number(field, "time")?,
            }
        }
        access.server = server.unwrap_or(access.server);
        match wanted {
            0 => Ok(Kept::Yes),
            _ => Err(format!("{count} fields where {} should be", self.columns.len())),
        }
    }
}

/// A number stays what it is.
fn named(field: &[u8]) -> u64 {
    number(field, "number").unwrap_or_else(|_| hash(field))
}

impl Writer for Columns {
    fn header(&mut self, into: &mut Vec<u8>) {
        let names = ["time", "client", "server", "url", "size", "status", "method", "modified"];
        let line = names.join(&char::from(self.separator).to_string());
        into.extend_from_slice(line.as_bytes());
        into.push(b'\n');
    }

    fn write(&mut self, access: &Access, _next: Option<u64>, into: &mut Vec<u8>) {
        let separator = char::from(self.separator);
        write_seconds(access.time, 6, into);
        let who = format!("{separator}{}{separator}{}{separator}", access.client, access.server);
        into.extend_from_slice(who.as_bytes());
        let at = into.len();
        access.write_url(into);
        if into[at..].iter().any(|byte| matches!(byte, b'"' | b'\n' | b'\r') || *byte == self.separator) {
            let quoted = String::from_utf8_lossy(&into[at..]).replace('"', "\"\"");
            into.truncate(at);
            into.extend_from_slice(format!("\"{quoted}\"").as_bytes());
        }
        let Access { size, status, method, modified, .. } = access;
        let method = method.name();
        let rest = format!("{separator}{size}{separator}{status}{separator}{method}{separator}{modified}\n");
        into.extend_from_slice(rest.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let mut columns = Columns::new(b',');
        let mut access = Access::default();
        assert_eq!(columns.parse(b"Bytes,colour,URL,time", &mut access), Ok(Kept::No));
        let line = b"12,red,\"http://a.test/x,y\"\"z\",7.5";
        assert_eq!(columns.parse(line, &mut access), Ok(Kept::Yes));
        assert_eq!((access.size, access.time), (12, 7_500_000));
        assert_eq!(access.url, "http://a.test/x,y\"z");
        assert!(columns.parse(b"12,red", &mut access).unwrap_err().contains("2 fields where 4"));
        assert!(columns.parse(b"x,red,/,1", &mut access).unwrap_err().contains("no size"));
        assert!(Columns::new(b',').header(b"time,url").is_err());
    }

    #[test]
    fn a_method_may_be_spelt_in_small_letters() {
        let (mut columns, mut access) = (Columns::new(b','), Access::default());
        assert_eq!(columns.parse(b"op,id,size", &mut access), Ok(Kept::No));
        assert_eq!(columns.parse(b"get,7,12", &mut access), Ok(Kept::Yes));
        assert!(access.is_cacheable());
    }

    #[test]
    fn the_logs_of_nasa_are_such_columns() {
        let mut columns = Columns::new(b'\t');
        let mut access = Access::default();
        let head = b"host\tlogname\ttime\tmethod\turl\tresponse\tbytes";
        assert_eq!(columns.parse(head, &mut access), Ok(Kept::No));
        let line = b"199.72.81.55\t-\t804571201\tGET\t/history/apollo/\t200\t6245\t\t";
        assert_eq!(columns.parse(line, &mut access), Ok(Kept::Yes));
        assert_eq!((access.time, access.status, access.size), (804_571_201_000_000, 200, 6245));
    }
}
