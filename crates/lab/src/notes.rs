//! What else is told of a row: figures by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Figures by name.
pub type Notes = BTreeMap<Cow<'static, str>, f64>;

/// Requests that passed because this storage takes no object as large.
pub const TOO_LARGE: &str = "passed_as_too_large";
/// 1 where a storage goes by servers and the trace has none.
pub const ONE_SERVER: &str = "all_of_one_server";

/// Notes without which a row is misread, and what they say.
pub const CAVEATS: [(&str, &str); 2] = [
    (TOO_LARGE, "requests that memory did not answer passed, as their objects are larger than a segment"),
    (ONE_SERVER, "it places objects by their server, and the trace tells none: all lie as if of one"),
];
