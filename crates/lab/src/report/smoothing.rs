//! The page of `cosm smooth analyze`: the day, what of its peak could be fetched before, and who serves it.

use learn::analysis::Report;

/// The page. An error says what could not be drawn.
pub fn page(_trace: &str, _is_synthetic: bool, _report: &Report) -> Result<String, String> {
    Err("not yet".into())
}
