//! What must be gone when a run ends by return or by an error. (A child ends with its parent, by its parent-death signal.)

use std::path::Path;
use std::time::{Duration, Instant};

pub fn remember_group(_: &Path) {}

/// Removes a control group; those who were in it take a moment to be gone.
pub fn remove_group(folder: &Path) {
    let patience = Instant::now() + Duration::from_secs(10);
    while std::fs::remove_dir(folder).is_err() && folder.exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
}
