//! HTTP caching as pure functions of request, stored response and time. No sockets, no runtime, no clock, no store.
//!
//! A request is read once into [`Asked`]; a response becomes a [`Head`] when it may be stored; [`judge`] says whether
//! a stored response may be reused, and [`answer`] what it answers. Each file is one meaning and cites its RFC.

mod answer;
mod date;
mod directives;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod groups;
pub mod hop;
mod invalidate;
mod judge;
pub mod key;
mod language;
mod list;
mod no_vary_search;
mod part;
mod preference;
mod purge;
mod request;
mod resume;
mod status;
mod stored;
mod structured;
mod targeted;
mod upgrade;
mod validate;
mod validators;
mod vary;
mod wire;

pub use answer::{Answer, answer, content_range, not_modified_headers, unsatisfied_content_range};
pub use date::{http_date, parse_http_date};
pub use groups::{groups, invalidated_groups};
pub use hop::remove_hop_by_hop;
pub use invalidate::{invalidated, names_target};
pub use judge::{Outage, Stale, Verdict, judge, may_serve_stale_on_error};
pub use language::{preferred_language, sole_language};
pub use no_vary_search::NoVarySearch;
pub use part::{Part, ask_for_the_rest, can_answer, combined, falls_short};
pub use purge::{Expression, Glob, Purges, Scope};
pub use request::{Asked, Pass, Plan};
pub use resume::Resume;
pub use status::{Item, Miss, Outcome, Report};
pub use stored::{Head, NotStored, SetCookie, Stored};
pub use upgrade::{is_asked_upgrade, upgrades};
pub use validate::{Asks, freshen, freshen_by_head, make_conditional, make_unconditional};
pub use vary::{Vary, VaryStar};

/// Whole seconds since the Unix epoch.
pub type Time = u64;
