//! A response as caching takes it in: how its body ends is settled, and what came with its head is here.

use crate::clock;
use crate::message::interim::Interim;
use crate::message::length;
use crate::message::refusal::Refusal;
use crate::message::target::Target;
use crate::origin::body::OriginBody;
use crate::origin::{Origins, Outgoing, Sent};
use crate::report::counters::{Number, Time};
use http::{StatusCode, response};
use std::rc::Rc;

/// The head of an origin's response, and its body with the connection it comes on.
pub struct Fetched {
    pub parts: response::Parts,
    pub body: OriginBody,
    /// Others may have it too: it came from where they all may reach.
    pub shareable: bool,
}

impl Origins {
    /// Sends a request and takes in what comes with the head of its response. `relay` sees the interim responses.
    pub async fn fetch(
        self: &Rc<Origins>,
        target: &Target,
        outgoing: Outgoing<'_>,
        relay: impl Fn(Interim),
    ) -> Result<Fetched, Refusal> {
        self.may_ask()?;
        self.exit.add(Number::Fetches, 1);
        let begun = clock::moment();
        let sent = self.send(target, outgoing, relay).await;
        let hop = || self.route.next_hop(target).ok();
        let Sent { response, way, gate, claim } = sent.inspect_err(|refusal| {
            // Whose client broke off its content did not fail.
            if !refusal.clients {
                self.exit.add(Number::Failed, 1);
                self.exit.asked(hop, Err(&refusal.text));
            }
        })?;
        self.exit.uplink.answered();
        let took = clock::moment().duration_since(begun);
        self.exit.took(Time::Origin, took);
        self.exit.asked(hop, Ok((response.status(), took)));
        if Number::of(response.status()) == Number::Status5 {
            self.exit.add(Number::ServerErrors, 1);
        }
        let shareable = way.is_shareable();
        let (mut parts, incoming) = response.into_parts();
        let length = length::settle(&mut parts).map_err(|why| {
            Refusal::new(StatusCode::BAD_GATEWAY, format!("the origin's response has {why}")).personal()
        })?;
        let way = if length.doubtful { way.not_again() } else { way };
        let (stall, exit) = (self.settings().timeouts.origin_stall, self.exit.clone());
        let allowance = self.budget.origins.clone();
        let mut body = OriginBody::new(incoming, way, length.chunked, stall, exit, allowance, (claim, gate));
        if parts.status != StatusCode::SWITCHING_PROTOCOLS {
            body.gather().await;
        }
        Ok(Fetched { parts, body, shareable })
    }
}
