//! All of a shadow, its buffers included, takes no more than it says: whatever is asked for, by however many policies.

use peak_alloc::PeakAlloc;
use policy::mix::mix;
use policy::shadow::{Found, MEMORY, Shadow, named};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Alone in its file: what is allocated is its own.
#[test]
fn no_more_memory_is_taken_than_is_said() {
    let all = named(&["all".to_owned()]).unwrap();
    // Each policy alone has the most objects, of which those that are asked for once change all that is remembered.
    let mut sets: Vec<_> = all.iter().map(|policy| vec![*policy]).collect();
    sets.extend([all[..2].to_vec(), all]);
    for policies in sets {
        for (workers, size, bytes) in [(1, 1 << 30, 1), (64, 1 << 24, 1000), (2000, 1 << 40, 1 << 20)] {
            let before = ALLOCATED.current_usage();
            ALLOCATED.reset_peak_usage();
            let shadow = Shadow::new(&policies, size, workers, 1, 0);
            let tellers: Vec<_> = (0..workers).map(|worker| shadow.teller(worker)).collect();
            for nth in 0..60_000 {
                // Every third is one of a few, the others are new.
                let key = if nth % 3 == 0 { nth % 1000 } else { 1000 + nth };
                let (teller, bytes) = (&tellers[nth as usize % workers], bytes + nth % 7);
                if teller.tell(mix(key), bytes, Found::Nothing) || nth % 4_000 == 0 {
                    shadow.apply(nth);
                }
            }
            let peak = (ALLOCATED.peak_usage() - before) as u64;
            let names: Vec<_> = policies.iter().map(|policy| policy.name).collect();
            println!("{:>5.1} MiB: {workers} workers, {names:?}", peak as f64 / (1 << 20) as f64);
            assert!(peak <= MEMORY, "{peak} bytes: {workers} workers, {names:?}");
            assert!(peak > MEMORY / 8, "{peak} bytes of {MEMORY}: {names:?}");
        }
    }
}
