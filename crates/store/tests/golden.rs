//! The byte layout of format 3, pinned. When this fails, say in docs/format.md what changed. If older caches would be misread,
//! raise `format::VERSION` and add a new golden file; a field in bytes that were zero needs neither. `COSM_BLESS=1` writes
//! the file anew.

use std::fmt::Write;
use store::Key;
use store::format::digest::{self, Event, Head};
use store::format::fence::{self, Fence};
use store::format::ledger::{self, Ledger};
use store::format::record::{About, Kind, Record};
use store::format::root::{self, DigestAt, Root};
use store::format::superblock;
use store::format::table::{Entry, Table};
use store::format::{BLOCK, Layout};

const IDENTITY: u64 = 0x0123_4567_89ab_cdef;
const SEQ: u64 = 0x9_0000_0005;
const FIRST: u64 = 0x77_0000_0001;

/// Lines of 32 bytes with their offset; lines of zeros are left out.
fn dump(title: &str, bytes: &[u8], to: &mut String) {
    writeln!(to, "# {title}").unwrap();
    for (n, line) in bytes.chunks(32).enumerate().filter(|(_, line)| line.iter().any(|&b| b != 0)) {
        let hex: Vec<String> =
            line.chunks(4).map(|w| w.iter().map(|b| format!("{b:02x}")).collect()).collect();
        writeln!(to, "{:05x}  {}", n * 32, hex.join(" ")).unwrap();
    }
}

#[test]
fn format_3_is_as_it_was() {
    let layout = Layout::new(16 << 10, 20, IDENTITY);
    let ledger = Ledger { generation: 9, bytes: b"the ledger".to_vec() };
    let mut ledger_copy = vec![0; ledger.size()];
    ledger.encode(IDENTITY, &mut ledger_copy);

    let hash = |key: &[u8]| layout.mix((Key::new(key.to_vec()).hash() >> 64) as u64);
    let mut events = vec![
        Event::put(hash(b"key one"), layout.place(3, 128), 2),
        Event::put(hash(b"key two"), layout.place(4, 0), 0x12_3456),
        Event::removal(hash(b"key three")),
    ];
    events.sort();
    let pages = digest::encode_pages(IDENTITY, &events);
    let head = Head::new(&events, vec![layout.place(5, 0)], layout.segment as usize).encode();

    let digests = [(1, 0x100, 0, 3), (0x100, 0x200, 3, 5)].map(|(from, to, first_seq, last_seq)| DigestAt {
        from,
        to,
        first_seq,
        last_seq,
        place: layout.place(5, 8192),
        bytes: 0x7a,
        partial: false,
    });
    let root = Root { generation: 2, order: 0x200, seq: 6, swept: 0x99, digests: digests.to_vec() };
    let mut root_copy = vec![0; root.size()];
    root.encode(IDENTITY, &mut root_copy);

    let about = |kind, id, length, span| About { kind, id, length, span, written: 1_000_000_000 };
    let record = |about, key: &'static [u8], meta: &'static [u8], body| {
        Record::new(IDENTITY, about, key, meta, body).expect("small enough")
    };
    let (pages_key, head_key) = (digest::pages_key(0x100, 1), digest::head_key(0x100));
    // The key under which a span lies, and the mixed hash that says which key was removed.
    let span_key = b"span\x2a\0\0\0\0\0\0\0\x01\0\0\0";
    let removed = hash(b"key three");
    let records = [
        record(about(Kind::Object, 0, 5, 0), b"key one", b"meta", b"hello"),
        record(about(Kind::Span, 42, 128, 64), span_key, b"", &[0x5a; 64]),
        record(about(Kind::Head, 42, 128, 64), b"key two", b"meta", b""),
        record(about(Kind::Removal, removed, 0, 0), b"", b"", b""),
        digest::record(IDENTITY, Kind::Pages, &pages_key, 1_000_000_000, &[0x77; 32]).expect("small enough"),
        digest::record(IDENTITY, Kind::Digest, &head_key, 1_000_000_000, &head).expect("small enough"),
    ];
    let hashes = [hash(b"key one"), hash(span_key), hash(b"key two"), removed];
    let mut segment = vec![0; layout.segment as usize];
    let (mut at, mut entries) = (0, Vec::new());
    for (n, record) in records.iter().enumerate() {
        let (size, order) = (record.size(layout.unit), FIRST + n as u64);
        record.copy_to(order, SEQ, &mut segment[at..at + size]);
        if let Some(hash) = hashes.get(n).copied() {
            let (offset, units) = (at as u32 / layout.unit, size as u32 / layout.unit);
            entries.push(Entry { hash, offset, units, order, kind: record.kind() });
        }
        at += size;
    }
    let table = Table { seq: SEQ, first: FIRST, entries };
    table.encode(IDENTITY, &mut segment);
    assert_eq!(Table::decode(&layout, layout.number(SEQ), &segment), Ok(table));

    let fence = Fence { seq: 0x15, order: fence::LEAP + 0x15, ledger: 9, life: 2 * fence::LEAP };

    let mut text = String::new();
    dump("superblock", &superblock::encode(&layout), &mut text);
    dump(&format!("fence, at {:#x}", fence::OFFSET), &fence.encode(IDENTITY), &mut text);
    dump(&format!("root, at {:#x}", root::offset(root.generation)), &root_copy, &mut text);
    dump(&format!("ledger, at {:#x}", ledger::offset(ledger.generation)), &ledger_copy, &mut text);
    dump("records at the start of a segment", &segment[..BLOCK], &mut text);
    dump("table in its segment's last block", &segment[segment.len() - BLOCK..], &mut text);
    dump("body of a digest's record of pages", &pages, &mut text);
    dump("body of a digest's own record", &head, &mut text);
    // Which of a key's two halves, and how it is mixed, is on disk in every table.
    writeln!(text, "# mixed hashes\n{:016x} {:016x}", layout.mix(0), hash(b"key one")).unwrap();

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/format-3.hex");
    if std::env::var_os("COSM_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap());
}
