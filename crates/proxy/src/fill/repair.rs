//! How a body that was begun and cannot go on is asked for: `transfer::mend` does it.

use crate::access::reach::Zone;
use crate::message::target::Target;
use cache::Resume;
use http::Request;
use std::sync::atomic::AtomicBool;
use store::{Key, Spans};

/// What is to be asked of whom, if a body cannot go on. Needs no client.
pub struct Repair {
    pub target: Target,
    /// The request that brought the response, as the origin saw it.
    pub request: Request<()>,
    pub resume: Resume,
    /// Under which the response lies, or will.
    pub key: Key,
    /// Where its body lies, if it is stored already.
    pub stored: Option<Spans>,
    /// Where the client was that brought the response.
    pub client: Zone,
    /// The origin refused the request when it was asked for pieces.
    pub refused: AtomicBool,
}
