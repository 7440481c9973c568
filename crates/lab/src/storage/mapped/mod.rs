//! A mapped file alone, which is its own cache (Maltzahn, Chapter 5).

mod fbc;
mod future;
mod slots;

pub use fbc::Fbc;
pub use future::Future;
pub use slots::{LeastRecent, Slots};
