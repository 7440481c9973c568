//! HBENCH-OS's benchmark of a filesystem's metadata.

use super::{Failed, Medium, ROOT};

/// HBENCH-OS's latfs: 64 files of a size made and removed in a directory, milliseconds each.
pub fn hbench(medium: &mut dyn Medium, size: usize) -> Result<(f64, f64), Failed> {
    const FILES: u64 = 64;
    let bytes = vec![7; size];
    let began = medium.seconds();
    for name in 0..FILES {
        let file = medium.create(ROOT, name)?;
        medium.write(file, 0, &bytes)?;
        medium.close(file)?;
    }
    let made = medium.seconds();
    (0..FILES).rev().try_for_each(|name| medium.unlink(ROOT, name))?;
    let each = |seconds: f64| seconds * 1000.0 / FILES as f64;
    Ok((each(made - began), each(medium.seconds() - made)))
}
