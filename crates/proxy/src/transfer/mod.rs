//! Bodies on the move: from an origin into a fill's window and the store (`pump`), out of the store (`span`), and from the origin
//! once more where either cannot go on (`mend`). Nothing here knows a client.

pub mod mend;
pub mod pump;
pub mod span;
