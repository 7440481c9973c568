//! Why the proxy does not serve a request: one line of plain text that says what happened and what to do.

use http::StatusCode;
use std::borrow::Cow;

/// Why a request is not served.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub text: Cow<'static, str>,
    /// The connection ends with the answer: its framing, or its owner, is in doubt.
    pub close: bool,
    /// It is what the client asked for, or how: nothing that the operator could mend.
    pub clients: bool,
    /// Another request for the same may fare better: who waits for this one's answer asks for itself.
    pub personal: bool,
}

impl Refusal {
    pub fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { status, text: text.into(), close: false, clients: false, personal: false }
    }

    pub fn bad_request(text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, text)
    }

    /// 400, and the connection is closed.
    pub fn closing(text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { close: true, ..Refusal::bad_request(text) }
    }

    pub fn clients(self) -> Refusal {
        Refusal { clients: true, ..self }
    }

    pub fn personal(self) -> Refusal {
        Refusal { personal: true, ..self }
    }
}

/// The origin gave no answer. Its address, and why, are for the operator alone.
pub fn unreachable() -> Refusal {
    Refusal::new(StatusCode::BAD_GATEWAY, "the origin cannot be reached")
}

pub fn too_slow() -> Refusal {
    Refusal::new(StatusCode::GATEWAY_TIMEOUT, "the origin did not answer in time")
}
