//! What a life wrote and a loss of power, or a failing read, kept from the next start: it must not come back at a later one.

use crate::buffer::Pool;
use crate::by_hand::ByHand;
use crate::cases::{disk, key, layout_of, recovered};
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::format::{BLOCK, fence, root};
use crate::reads::Reads;
use crate::recovery::{QUIET, read_table, root_of};
use crate::{Body, Options};
use std::ops::Range;

const SIZE: u64 = 12 << 20;

fn options() -> Options {
    Options { packet: 64 << 10, ..Options::at("") }
}

fn make(disk: &SimDisk) -> ByHand {
    ByHand::make(disk, SIZE, &options(), 1).unwrap()
}

fn again(disk: &SimDisk) -> ByHand {
    ByHand::open_again(disk, SIZE, &options())
}

/// Until the segment with this sequence number is open.
fn fill(store: &ByHand, disk: &SimDisk, until: u64) {
    let mut n = 100;
    while store.engine().newest() < until {
        store.put(&key(n), b"meta", &[7; 9_000]).unwrap();
        store.turn(disk, 0);
        n += 1;
    }
    store.flush(disk);
}

fn blank_segments(disk: &SimDisk, seqs: impl Iterator<Item = u64>) {
    let layout = layout_of(disk);
    seqs.for_each(|seq| disk.write(layout.start(seq), &vec![0; layout.segment as usize]).unwrap());
}

/// Both copies; of zeros, they are blank, and of anything else damaged, so that all of the log is looked at.
fn overwrite_roots(disk: &SimDisk, with: u8) {
    disk.write(root::COPIES[0], &vec![with; 2 * root::COPY]).unwrap();
}

fn is(store: &ByHand, disk: &SimDisk, n: u32, body: &[u8]) -> bool {
    let found = store.get(disk, &key(n)).map(|found| found.body);
    matches!(found, Some(Body::Whole(bytes)) if bytes == *body)
}

/// Of what a life wrote, a loss of power leaves the tables alone: they list nothing of the next life's segments.
#[test]
fn no_two_lives_give_the_same_orders() {
    let disk = disk(SIZE);
    let store = make(&disk);
    store.put(&key(1), b"meta", b"before").unwrap();
    store.flush(&disk);
    let store = again(&disk);
    let first = store.engine().newest() + 1;
    for n in 100..300 {
        let _ = store.put(&key(n), b"meta", &[7; 1_000]);
        store.turn(&disk, u64::from(n) * 10);
    }
    store.flush(&disk);
    let last = store.engine().newest();
    assert!(last > first + 1);
    let layout = layout_of(&disk);
    for seq in first..=last {
        disk.write(layout.start(seq), &[0; 4096]).unwrap();
    }
    overwrite_roots(&disk, 0);
    let store = again(&disk);
    store.put(&key(2), b"meta", b"after").unwrap();
    store.flush(&disk);
    let store = again(&disk);
    for (n, body) in [(1, &b"before"[..]), (2, b"after")] {
        assert!(is(&store, &disk, n, body), "{n} is lost");
    }
}

/// One segment is left, far behind what a start finds. A later start comes that far.
#[test]
fn what_a_start_did_not_find_is_not_found_later() {
    for surveys in [0, 1] {
        let disk = disk(SIZE);
        let store = make(&disk);
        let lost = QUIET + 2;
        fill(&store, &disk, lost);
        store.put(&key(1), b"meta", b"before").unwrap();
        fill(&store, &disk, lost + 1);
        blank_segments(&disk, (0..=lost + 1).filter(|seq| *seq != lost));
        overwrite_roots(&disk, 0);
        let store = again(&disk);
        assert_eq!(store.len(), 0);
        store.put(&key(1), b"meta", b"after").unwrap();
        fill(&store, &disk, 4);
        overwrite_roots(&disk, surveys);
        let store = again(&disk);
        assert!(is(&store, &disk, 1, b"after"));
        store.put(&key(2), b"meta", b"more").unwrap();
        assert_eq!(store.engine().newest(), 5, "the log goes on behind what was found");
    }
}

/// Two lives in a row have found the same.
#[test]
fn what_two_starts_did_not_find_is_not_found_later() {
    for surveys in [0, 1] {
        let disk = disk(SIZE);
        let store = make(&disk);
        store.put(&key(0), b"meta", b"first").unwrap();
        store.flush(&disk);
        let store = again(&disk);
        // Farther than a start reads at once.
        let lost = 40;
        fill(&store, &disk, lost);
        store.put(&key(1), b"meta", b"before").unwrap();
        fill(&store, &disk, lost + 1);
        blank_segments(&disk, (1..=lost + 1).filter(|seq| *seq != lost));
        overwrite_roots(&disk, 0);
        let store = again(&disk);
        assert_eq!(store.len(), 1);
        store.put(&key(1), b"meta", b"after").unwrap();
        fill(&store, &disk, lost - QUIET + 2);
        overwrite_roots(&disk, surveys);
        let store = again(&disk);
        assert!(is(&store, &disk, 1, b"after"));
    }
}

/// Of two writes of a segment without a sync between them the power took the first. The next life writes the same segment, and its end
/// is where the second begins.
#[test]
fn what_a_life_lost_does_not_go_on_with_the_next() {
    let disk = disk(SIZE);
    let layout = layout_of_new(&disk);
    let store = again(&disk);
    let block = [7; BLOCK - 64 - 5];
    store.put(&key(9), b"", &block).unwrap();
    store.flush(&disk);
    store.put(&key(1), b"", b"before").unwrap();
    store.flush(&disk);
    let seq = store.engine().newest();
    disk.write(layout.start(seq), &[0; BLOCK]).unwrap();
    let store = again(&disk);
    assert_eq!(store.len(), 1);
    store.put(&key(1), b"", &block).unwrap();
    store.flush(&disk);
    assert_eq!(store.engine().newest(), seq);
    assert!(is(&again(&disk), &disk, 1, &block));
}

/// With one object.
fn layout_of_new(disk: &SimDisk) -> crate::format::Layout {
    let store = make(disk);
    store.put(&key(0), b"", b"first").unwrap();
    store.flush(disk);
    layout_of(disk)
}

/// A segment that a life left open, far behind what later lives found, does not say what has been swept.
#[test]
fn what_a_start_did_not_find_sweeps_nothing() {
    let disk = disk(SIZE);
    let store = make(&disk);
    let layout = layout_of(&disk);
    fill(&store, &disk, 40);
    store.put(&key(1), b"meta", b"old").unwrap();
    let base = layout.segments + 14;
    fill(&store, &disk, base);
    store.turn(&disk, 10_000_000);
    store.flush(&disk);
    let before = disk.bytes();
    let store = again(&disk);
    fill(&store, &disk, base + 40);
    // Of all that it wrote there are one segment and the fence, which came before all else.
    let after = disk.bytes();
    disk.write(0, &before).unwrap();
    let segment = layout.start(layout.number(base + 40));
    for (from, length) in [(segment, layout.segment as usize), (fence::OFFSET, BLOCK)] {
        disk.write(from, &after[from as usize..from as usize + length]).unwrap();
    }
    let store = again(&disk);
    fill(&store, &disk, base + 3);
    let store = again(&disk);
    store.put(&key(3), b"meta", b"more").unwrap();
    store.flush(&disk);
    store.turn(&disk, 20_000_000);
    assert!(store.holds(&key(1)));
    overwrite_roots(&disk, 1);
    assert!(again(&disk).holds(&key(1)));
}

/// A start could not read a segment, and the life after it is killed before it has written over it. So a fence hides it, until another
/// one takes its place.
#[test]
fn what_a_fence_hid_does_not_come_back_with_the_next() {
    let disk = disk(SIZE);
    let store = make(&disk);
    let layout = layout_of(&disk);
    fill(&store, &disk, 2);
    store.put(&key(1), b"meta", b"hidden").unwrap();
    fill(&store, &disk, 3);
    let hidden = disk.bytes()[layout.start(2) as usize..][..layout.segment as usize].to_vec();
    overwrite_roots(&disk, 0);
    disk.fail_reads_in(layout.start(2)..layout.start(4));
    let store = again(&disk);
    disk.fail_reads_in(0..0);
    fill(&store, &disk, 4);
    overwrite_roots(&disk, 0);
    disk.write(layout.start(2), &hidden).unwrap();
    let store = again(&disk);
    assert!(store.get(&disk, &key(1)).is_none());
    // Which is not noted, for the key is not known.
    store.remove(&key(1));
    store.turn(&disk, 10_000);
    store.flush(&disk);
    let reads = (Pool::new(1 << 20), &disk);
    let table = read_table(&Reads::new(reads.1, &reads.0), &layout, 2).unwrap().unwrap();
    assert!(table.seq == 2 && table.entries.is_empty());
    overwrite_roots(&disk, 0);
    disk.fail_reads_in(layout.start(9)..layout.start(10));
    let store = again(&disk);
    disk.fail_reads_in(0..0);
    store.put(&key(2), b"meta", b"more").unwrap();
    store.turn(&disk, 20_000);
    store.flush(&disk);
    overwrite_roots(&disk, 0);
    assert!(again(&disk).get(&disk, &key(1)).is_none());
}

/// One read of a segment's first block came back wrong, once.
#[test]
fn a_block_that_is_read_badly_once_undoes_no_removal_for_good() {
    let disk = disk(SIZE);
    let store = make(&disk);
    let layout = layout_of(&disk);
    store.put(&key(1), b"meta", b"gone").unwrap();
    fill(&store, &disk, 2);
    store.remove(&key(1));
    store.turn(&disk, 10_000);
    assert!(store.get(&disk, &key(1)).is_none());
    fill(&store, &disk, 4);
    overwrite_roots(&disk, 0);
    let good = disk.bytes()[layout.start(2) as usize..][..BLOCK].to_vec();
    let mut bad = good.clone();
    bad[0] ^= 1;
    disk.write(layout.start(2), &bad).unwrap();
    drop(again(&disk));
    disk.write(layout.start(2), &good).unwrap();
    assert!(again(&disk).get(&disk, &key(1)).is_none(), "removed, and back for good");
}

/// One life puts and removes; the next one cannot read that, and makes a digest of what it knows. Where that digest's head lies.
fn digest_of_a_life_that_could_not_read(disk: &SimDisk) -> Range<u64> {
    let store = make(disk);
    let layout = layout_of(disk);
    store.put(&key(1), b"meta", b"removed by the first").unwrap();
    fill(&store, disk, 2);
    let roots = disk.bytes()[root::COPIES[0] as usize..][..2 * root::COPY].to_vec();
    store.remove(&key(1));
    store.put(&key(2), b"meta", b"put by the first").unwrap();
    store.flush(disk);
    let seq = store.engine().newest();
    fill(&store, disk, seq + 1);
    disk.write(root::COPIES[0], &roots).unwrap();
    disk.fail_reads_in(layout.start(seq)..layout.start(seq + 2));
    let store = again(disk);
    disk.fail_reads_in(0..0);
    store.turn(disk, 10_000);
    store.flush(disk);
    assert!(store.holds(&key(1)) && !store.holds(&key(2)));
    let pool = Pool::new(1 << 20);
    let digests = root_of(&Reads::new(disk, &pool), layout).digests;
    let [.., last] = digests[..] else { panic!("no digest") };
    assert!(last.partial && last.first_seq <= seq && last.last_seq > seq, "{digests:?}");
    let head = layout.offset(last.place);
    head..head + u64::from(last.bytes)
}

/// Reads the tables instead of a digest, of which the head does not come.
fn again_without(disk: &SimDisk, head: &Range<u64>) -> ByHand {
    let (state, _) = recovered(disk, &options());
    disk.fail_reads_in(head.clone());
    let store = ByHand::of(disk, state, &options());
    disk.fail_reads_in(0..0);
    store
}

fn remove_and_write(store: &ByHand, disk: &SimDisk, n: u32) {
    assert!(store.get(disk, &key(n)).is_none());
    store.remove(&key(n));
    store.turn(disk, 20_000);
    store.flush(disk);
}

/// Who reads the tables knows of a removal that the digest does not name.
#[test]
fn what_a_digest_does_not_say_is_noted_again() {
    let disk = disk(SIZE);
    let head = digest_of_a_life_that_could_not_read(&disk);
    remove_and_write(&again_without(&disk, &head), &disk, 1);
    assert!(again(&disk).get(&disk, &key(1)).is_none(), "removed, and back");
}

/// Who reads the digest does not know of what the tables say, nor notes a removal of it.
#[test]
fn what_a_digest_does_not_say_is_not_found_later() {
    let disk = disk(SIZE);
    let head = digest_of_a_life_that_could_not_read(&disk);
    remove_and_write(&again(&disk), &disk, 2);
    assert!(again_without(&disk, &head).get(&disk, &key(2)).is_none(), "removed, and back");
}

/// Whatever was put or removed and written since it was made, whether lives or digests lie between.
#[test]
fn the_log_of_an_older_copy_ends_earlier() {
    let (found, written) =
        (|store: &ByHand| store.engine().found_end(), |store: &ByHand| store.engine().written_end());
    let disk = disk(SIZE);
    let mut store = make(&disk);
    assert_eq!((found(&store), written(&store)), (0, 0));
    for round in 0..6 {
        let copy = crate::cases::disk(SIZE);
        copy.write(0, &disk.bytes()).unwrap();
        let (before, newest) = (written(&store), store.engine().newest());
        match round % 3 {
            0 => store.put(&key(1), b"meta", b"body").unwrap(),
            1 => store.remove(&key(1)),
            _ => fill(&store, &disk, newest + 80),
        }
        assert_eq!(written(&store) > before, round % 3 == 2, "what waits is not written");
        store.flush(&disk);
        let end = written(&store);
        assert!(end > before, "{round}");
        assert_eq!(found(&again(&copy)), before, "{round}");
        store = again(&disk);
        assert_eq!(found(&store), end, "{round}");
        store.engine().digest();
        store.turn(&disk, 1);
        store.flush(&disk);
        assert!(store.engine().counters().digests > 0, "{round}");
        assert_eq!(written(&store), end, "{round}");
        store = again(&disk);
        assert!(found(&store) >= end, "{round}");
    }
}

/// Zeros or garbage, where its last event was a removal: nobody else knows of that, unless a digest does.
#[test]
fn a_packet_that_is_missing_is_told_of() {
    let mut missed = 0;
    for (size, with) in [(4 << 20, 0), (4 << 20, 0xa5), (SIZE, 0), (SIZE, 0xa5)] {
        let disk = disk(size);
        let store = ByHand::make(&disk, size, &options(), 1).unwrap();
        let layout = layout_of(&disk);
        store.put(&key(1), b"meta", b"removed").unwrap();
        fill(&store, &disk, 20);
        store.remove(&key(1));
        let seq = store.engine().newest();
        store.turn(&disk, 10_000);
        fill(&store, &disk, seq + 3);
        let found = |disk: &SimDisk| recovered(disk, &options()).1;
        assert_eq!(found(&disk).missing, 0);
        disk.write(layout.start(seq), &vec![with; layout.segment as usize]).unwrap();
        let root = root_of(&Reads::new(&disk, &Pool::new(1 << 20)), layout);
        let missing = found(&disk).missing;
        assert_eq!(missing, u64::from(root.digests.is_empty() || seq >= root.seq), "{size} {with}");
        missed += missing;
        // The last one is what the process wrote last, for all that a start knows, and what was before the first is gone.
        let store = ByHand::open_again(&disk, size, &options());
        assert!(missing > 0 || store.get(&disk, &key(1)).is_none());
        let last = store.engine().newest();
        blank_segments(&disk, [0, last].into_iter().filter(|seq| *seq >= root.seq));
        assert_eq!(found(&disk).missing, missing);
    }
    assert!(missed > 0);
}
