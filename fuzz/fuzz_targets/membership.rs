//! What a cache's ledger says of the set of disks that it was in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proxy::Membership;

fuzz_target!(|ledger: &[u8]| {
    if let Some(set) = Membership::of(ledger) {
        assert!(34 + 8 * set.members.len() <= ledger.len());
    }
});
