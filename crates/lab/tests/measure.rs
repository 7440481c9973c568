//! A directory of this machine measured. The process's memory is bounded meanwhile, so that no other test may run in it.

use lab::medium::file_loads::FILE_LOADS;
use lab::medium::measured::{LOADS, Measured, host};
use lab::medium::real::measure::measure;
use std::time::Duration;

#[test]
fn a_directory_has_a_speed_under_each_load() {
    let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let found = measure(place.path(), 8 << 20, Duration::from_millis(20), 300, &|_| {});
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    match found {
        Ok(speeds) => {
            assert!(LOADS.iter().all(|load| speeds.0[load.name] > 0.0), "{speeds:?}");
            Measured::new(&speeds, 1 << 30).unwrap();
            assert!(FILE_LOADS.iter().all(|load| speeds.0[load.name] > 0.0), "{speeds:?}");
            host(&speeds).unwrap();
        }
        // Not every filesystem reads and writes directly.
        Err(why) => assert!(why.contains("past the page cache"), "{why}"),
    }
    assert!(measure(&place.path().join("nowhere"), 1, Duration::ZERO, 1, &|_| {}).is_err());
}
