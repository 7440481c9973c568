//! What is written down of one certificate's orders: how many failed, before when there is no other, and what they have put into DNS.
//!
//! It is written before an order begins, and again when it has ended. So a process that ends within orders, one that starts again and
//! again, and another one with the same folder order no more often than one that runs on.

use crate::folder::{Stamp, read, replace};
use crate::hook::Record;
use crate::name::Names;
use crate::schedule::is_over;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;

#[derive(Debug, Default)]
pub struct Note {
    path: PathBuf,
    stamp: Stamp,
    /// Of which names it is: others are another certificate, which is not held back.
    names: String,
    /// In a row.
    failures: u32,
    /// Nothing is ordered before, in seconds since 1970.
    again: u64,
    cause: Option<String>,
    /// May be in DNS.
    records: Vec<Record>,
}

impl Note {
    pub fn at(path: PathBuf) -> Note {
        Note { path, ..Note::default() }
    }

    /// Reads it if it is another than it was, and gives whether it is. One that is of no use is as one that is not there.
    pub fn look(&mut self) -> bool {
        let stamp = Stamp::of(&self.path);
        if stamp == self.stamp {
            return false;
        }
        let text = read(&self.path).ok().flatten();
        let told: Value = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let number = |name: &str| told[name].as_u64().unwrap_or(0);
        let words = |value: &Value| value.as_str().map(str::to_owned);
        let records = told["records"].as_array().into_iter().flatten();
        *self = Note {
            path: std::mem::take(&mut self.path),
            stamp,
            names: words(&told["names"]).unwrap_or_default(),
            failures: u32::try_from(number("failures")).unwrap_or(u32::MAX),
            again: number("again"),
            cause: words(&told["cause"]),
            records: records
                .filter_map(|one| Some(Record { name: words(&one["name"])?, value: words(&one["value"])? }))
                .collect(),
        };
        true
    }

    /// Orders of these names that failed since one succeeded.
    pub fn failures(&self, names: &Names) -> u32 {
        if self.names == names.to_string() { self.failures } else { 0 }
    }

    /// Whether nothing may be ordered yet. `now`: seconds since 1970.
    pub fn holds_back(&self, names: &Names, now: u64) -> bool {
        self.names == names.to_string() && !is_over(self.again, now)
    }

    /// When the next order may be, in seconds since 1970.
    pub fn again(&self) -> u64 {
        self.again
    }

    /// Why the last one failed.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Holds orders back until then, but writes nothing down.
    pub fn wait(&mut self, names: &Names, until: u64) {
        self.failures = self.failures(names);
        (self.names, self.again) = (names.to_string(), until);
    }

    /// So many failures in a row, the last by this cause: nothing is ordered until then. It holds also where it cannot be written.
    pub fn tell(
        &mut self,
        names: &Names,
        failures: u32,
        until: u64,
        cause: Option<&str>,
    ) -> Result<(), String> {
        self.wait(names, until);
        (self.failures, self.cause) = (failures, cause.map(str::to_owned));
        self.write()
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Before it is put into DNS.
    pub fn add(&mut self, record: Record) -> Result<(), String> {
        self.records.push(record);
        self.write()
    }

    /// Forgets the first record.
    pub fn remove(&mut self) -> Result<(), String> {
        self.records.remove(0);
        self.write()
    }

    fn write(&mut self) -> Result<(), String> {
        let Note { names, failures, again, cause, .. } = &*self;
        let records: Vec<Value> =
            self.records.iter().map(|one| json!({ "name": one.name, "value": one.value })).collect();
        let told = json!({ "names": names, "failures": failures, "again": again, "cause": cause, "records": records });
        let written = replace(&self.path, format!("{told:#}\n").as_bytes());
        self.stamp = Stamp::of(&self.path);
        written.map_err(|error: io::Error| format!("cannot write {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn it_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.example.order.json");
        let names: Names = "a.example".parse().unwrap();
        let read = || {
            let mut note = Note::at(path.clone());
            note.look();
            note
        };
        let mut note = read();
        assert!(!note.holds_back(&names, NOW) && note.failures(&names) == 0);
        note.tell(&names, 3, NOW + 960, Some("no \"answer\"")).unwrap();
        note.add(Record { name: "n.".into(), value: "v".into() }).unwrap();
        note.add(Record { name: "n.".into(), value: "w".into() }).unwrap();
        note.remove().unwrap();
        let mut other = read();
        assert!(other.holds_back(&names, NOW + 959) && !other.holds_back(&names, NOW + 960));
        assert_eq!((other.failures(&names), other.records()), (3, note.records()));
        assert_eq!(other.records()[0].value, "w");
        // Other names are another certificate, whose records are the same.
        let more: Names = "a.example+b.example".parse().unwrap();
        assert!(!other.holds_back(&more, NOW) && other.failures(&more) == 0);
        // By a clock that was years ahead: not longer than any pause.
        other.tell(&names, 1, NOW + 2 * 86_400, None).unwrap();
        assert!(!other.holds_back(&names, NOW));
        // What another process writes is seen, what is of no use is not believed.
        note.look();
        assert_eq!(note.failures(&names), 1);
        for wrong in
            ["", "{", "[]", r#"{"names": "a.example", "failures": -1, "again": "x", "records": [1, {}]}"#]
        {
            fs::remove_file(&path).unwrap();
            fs::write(&path, wrong).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            let note = read();
            assert!(!note.holds_back(&names, NOW) && note.records().is_empty(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_written_holds_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let names: Names = "a.example".parse().unwrap();
        let mut note = Note::at(folder.path().join("none/a.json"));
        assert!(note.tell(&names, 1, NOW + 100, None).unwrap_err().starts_with("cannot write "));
        note.look();
        assert!(note.holds_back(&names, NOW));
    }
}
