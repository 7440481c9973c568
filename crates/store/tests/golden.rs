//! The byte layout of format 2, pinned. When this fails, say in docs/format.md what changed. If older caches would be misread,
//! raise `format::VERSION` and add a new golden file; a field in bytes that were zero needs neither. `COSM_BLESS=1` writes
//! the file anew.

use std::fmt::Write;
use store::format::contents::{self, Entry, Mark};
use store::format::fence::{self, Fence};
use store::format::ledger::{Ledger, offset};
use store::format::record::{About, Kind, Record};
use store::format::superblock::{Checkpoint, Superblock};
use store::format::update::{Target, push_entry};
use store::format::{BLOCK, Layout, UNIT};

const LAYOUT: Layout = Layout { segment: 16 << 10, segments: 20, identity: 0x0123_4567_89ab_cdef };

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
fn format_2_is_as_it_was() {
    let checkpoint =
        Checkpoint { root_place: 0x4001, root_units: 7, replay_seq: 21, replay_from: 1, virgin: 20 };
    let superblock = Superblock { layout: LAYOUT, generation: 2, checkpoint };

    let mut segment = vec![0; LAYOUT.segment as usize];
    let about = |kind, id, length, span| About { kind, id, length, span, written: 1_000_000_000 };
    let target = Target { place: 0x4000, units: 2, sum: 0x5555_6666_7777_8888 };
    let names = target.encode();
    let records = [
        Record::new(LAYOUT.identity, about(Kind::Object, 0, 5, 0), b"key one", b"meta", b"hello"),
        Record::new(LAYOUT.identity, about(Kind::Span, 42, 64, 64), b"span", b"", &[0x5a; 64]),
        Record::new(LAYOUT.identity, about(Kind::Head, 42, 64, 64), b"key two", b"meta", b""),
        Record::new(LAYOUT.identity, about(Kind::Update, 0, 20, 0), b"key one", b"newer", &names),
    ];
    let mut page = Vec::new();
    push_entry(&mut page, 0x1111, &target, b"newer");
    let mut entries = Vec::new();
    let mut at = 0;
    for record in records.iter().flatten() {
        record.copy_to(&mut segment[at..at + record.size()]);
        let units = (record.size() / UNIT) as u16;
        let n = entries.len();
        let mark = [Mark::Stayed, Mark::Put, Mark::Put, Mark::Update][n];
        entries.push(Entry { hash: 0x1111 * (n as u64 + 1), offset: (at / UNIT) as u32, units, mark });
        at += record.size();
    }
    entries.push(Entry::removal(0x9999));
    contents::encode(LAYOUT.identity, 3, 21, &entries, &mut segment);

    let ledger = Ledger { generation: 9, bytes: b"the ledger".to_vec() };
    let mut copy = vec![0; ledger.size()];
    ledger.encode(LAYOUT.identity, &mut copy);

    let fence = Fence { seq: 0x1_0000_0015, ledger: 9 };

    let mut text = String::new();
    dump("superblock", &superblock.encode(), &mut text);
    dump(&format!("fence, at {:#x}", fence::OFFSET), &fence.encode(LAYOUT.identity), &mut text);
    dump(&format!("ledger, at {:#x}", offset(ledger.generation)), &copy, &mut text);
    dump("records at the start of a segment", &segment[..BLOCK], &mut text);
    dump("body of an overlay page", &page, &mut text);
    dump("table of contents in its last block", &segment[segment.len() - BLOCK..], &mut text);

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/format-2.hex");
    if std::env::var_os("COSM_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap());
}
