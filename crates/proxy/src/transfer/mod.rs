//! Bodies on the move, without a client: from an origin (`intake`) into a fill's window (`pump`) and the store (`keeper`), out of a
//! fill (`reading`) and out of the store (`span`), and from the origin once more: what the store lost of a body (`heal`), or the
//! rest of one that cannot go on otherwise (`mend`).

pub mod heal;
mod intake;
pub mod keeper;
pub mod mend;
pub mod pump;
pub mod reading;
pub mod span;
#[cfg(test)]
mod tests;
