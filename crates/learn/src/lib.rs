//! Bandwidth smoothing (Maltzahn, chapters 6 and 7): the profile of the days, what of a peak could be fetched before it and how
//! far that lowers the peak, and learners that choose what to fetch. No sockets, no clock.

pub mod analysis;
pub mod boost;
pub mod candidate;
pub mod day;
pub mod evaluate;
pub mod examples;
pub mod judge;
pub mod number;
pub mod plan;
pub mod profile;
pub mod ripper;
pub mod rules;
pub mod target;
