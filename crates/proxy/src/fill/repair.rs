//! How a body that was begun and cannot go on is asked for: `transfer::mend` does it.

use crate::access::reach::Zone;
use crate::message::target::Target;
use cache::Resume;
use http::Request;

/// What is to be asked of whom, if a body cannot go on. Needs no client.
pub struct Repair {
    pub target: Target,
    /// The request that brought the response, as the origin saw it.
    pub request: Request<()>,
    pub resume: Resume,
    /// Where the client was that brought the response.
    pub client: Zone,
}
