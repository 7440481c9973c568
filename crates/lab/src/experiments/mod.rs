//! What is replayed to be held against something: the papers' tables and figures, and what the models were given.

pub mod chosen;
pub mod figures;
pub mod papers;
