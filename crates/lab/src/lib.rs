//! The laboratory: a trace goes through the papers' two caches, and what they ask of the disk through storage policies.
//!
//! What misses the cache in memory (`pipeline`) goes to a storage policy (`recipe`, `storage`), which lays objects out
//! (`layout`) on a medium (`medium`) and lets them go (`replacement`); `replay` measures it, `watch` looks on. `simulate` counts
//! hits alone. `score` is what designs are compared by. `chosen` lists what of the models was chosen. `papers` are the papers' tables, `figures` their curves and pictures; `saved` keeps what was found, `report`
//! shows it.

pub mod block;
pub mod chosen;
pub mod content;
pub mod figures;
pub mod fill;
mod heap;
pub mod input;
pub mod layout;
mod list;
mod lru;
pub mod mapped;
pub mod medium;
pub mod papers;
pub mod pipeline;
pub mod recipe;
pub mod replacement;
pub mod replay;
pub mod report;
mod response;
pub mod saved;
pub mod score;
pub mod simulate;
pub mod storage;
mod today;
pub mod watch;

pub use recipe::Recipe;
pub use replay::Row;

/// The rows of a table that have these names, `all` being all of them; an error lists what there is.
fn rows_named<T: Copy>(
    names: &[String],
    table: &[T],
    name_of: fn(&T) -> &'static str,
    what: &str,
) -> Result<Vec<T>, String> {
    if names.iter().any(|name| name == "all") {
        return Ok(table.to_vec());
    }
    let one = |name: &String| {
        table.iter().find(|row| name_of(row) == name).copied().ok_or_else(|| {
            let known: Vec<&str> = table.iter().map(name_of).collect();
            format!("there is no {what} `{name}`; there are {}", known.join(", "))
        })
    };
    names.iter().map(one).collect()
}
