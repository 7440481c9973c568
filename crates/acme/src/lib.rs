//! Certificates by ACME (RFC 8555): ordered from a certificate authority, renewed in time, and kept in a folder.
//!
//! `Keeper` does all of it, on one thread beside the workers. What the authority asks to prove that a name is ours is in `Challenges`,
//! which the listeners ask. The protocol is `instant-acme`'s; this crate decides when, keeps what comes of it, and bounds each wait.
//!
//! What always holds:
//! - A certificate that is there is replaced by a whole one of the same names, at once, or not at all.
//! - Of processes with the same folder one orders at a time, and answers what the authority asks. Before it does, it writes down when the
//!   next order may be at the earliest.
//! - A private key is in files of mode 600 in folders of mode 700, in no message and in no `Debug`.

mod account;
mod certificate;
mod challenges;
mod folder;
mod hook;
mod keeper;
mod name;
mod network;
mod note;
mod order;
mod say;
mod schedule;
mod settings;

pub use certificate::{Certificate, Life};
pub use challenges::{Challenges, PROTOCOL};
pub use folder::{Folder, replace};
pub use keeper::Keeper;
pub use name::{Name, Names};
pub use say::{date, span};
pub use settings::{Binding, Challenge, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, Settings};
