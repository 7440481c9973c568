//! Fetches that nobody waits for: validation in the background (RFC 5861 section 3), and whatever else is to be in the cache
//! before somebody asks for it.

use super::{Fetch, Filled, Presented, Want};
use crate::fill::{Joined, Leader};
use crate::message::pieces::Pieces;
use crate::transfer::pump::{Counted, LeadersBody};
use cache::Asked;
use http::header::{CACHE_CONTROL, PRAGMA};
use http::{Method, Version};
use std::future::poll_fn;
use tokio::time::timeout;

/// A worker begins none of these while it has so many bodies and fetches of this kind under way.
pub(super) const BEHIND: usize = 256;

impl Presented {
    /// Has the cache fetch, or validate, what a request asks for. Nobody waits for it; where it is being fetched already, is
    /// known not to be for sharing, or the worker has too much to do, nothing happens.
    pub fn behind(self, want: Want) {
        // Whoever answers a client has asked this before it looked into the cache.
        let reach = self.worker.origins.reach();
        let refused = self.target.authority().is_some_and(|host| reach.check(host, self.zone).is_err());
        let ample = self.worker.shared.budget.origins.is_ample();
        let may_ask = self.worker.origins.may_ask().is_ok();
        if refused || !may_ask || !ample || self.worker.pumps.get() >= BEHIND {
            return;
        }
        let (fills, tiers) = (&self.worker.shared.fills, &self.worker.shared.tiers);
        let Joined::Leader(lead) = fills.join(&want.look.key, tiers, Some(want.look.began), 0, None) else {
            return;
        };
        let counted = Counted::new(&self.worker);
        tokio::task::spawn_local(async move {
            self.for_all().fetch_all(lead, &want).await;
            drop(counted);
        });
    }

    /// The same request as nobody's: a plain GET or QUERY.
    fn for_all(mut self) -> Presented {
        if self.asked.is_head() {
            self.parts.method = Method::GET;
        }
        self.parts.version = Version::HTTP_10;
        let headers = &mut self.parts.headers;
        cache::make_unconditional(headers);
        for name in [CACHE_CONTROL, PRAGMA] {
            headers.remove(name);
        }
        self.asked = Asked::of(&self.parts.method, headers);
        self
    }

    /// Reads the body to its end: a fill goes on as long as somebody reads, and a connection is used again when its response was
    /// read. What is not kept, what may have no end, and what takes too long is not worth it; nor is anything while clients
    /// need the memory.
    async fn fetch_all(&self, lead: Leader, want: &Want) {
        let fetch = self.fetch(lead, want, &|_| {}).await;
        let settings = self.worker.settings();
        let few = settings.bounds.finish_bytes;
        let (mut body, most): (Box<dyn Pieces>, u64) = match fetch {
            Fetch::Filled(Filled { body: LeadersBody::Pieces(body), kept: Ok(()), .. }) => {
                let most = body.left().map_or(few, |length| length.min(settings.bounds.object_bytes));
                (Box::new(body), most)
            }
            Fetch::Filled(Filled { body: LeadersBody::Pieces(body), .. }) => (Box::new(body), few),
            Fetch::Passed(fetched, _) => (Box::new(fetched.body), few),
            Fetch::Filled(_) | Fetch::Validated(_) | Fetch::Failed(_) | Fetch::Refused(_) => return,
        };
        let read = async {
            let mut left = most;
            while !self.worker.stopping.get()
                && body.left().is_none_or(|promised| promised <= left)
                && self.worker.shared.budget.origins.is_ample()
                && let Some(Ok(frame)) = poll_fn(|cx| body.poll_piece(cx)).await
            {
                left = left.saturating_sub(frame.data_ref().map_or(0, |bytes| bytes.len() as u64));
                if left == 0 && !body.is_over() {
                    return;
                }
            }
        };
        let _ = timeout(settings.timeouts.origin_first_byte, read).await;
    }
}
