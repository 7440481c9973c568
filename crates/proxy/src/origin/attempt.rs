//! One request on one connection: sent, and its response's head waited for.

use super::content::{Gate, Upload};
use super::line::Line;
use crate::message::interim::Interim;
use crate::message::refusal::Refusal;
use crate::settings::Settings;
use http::{Request, Response, StatusCode};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::time::{Sleep, sleep};

/// How an attempt came to nothing.
pub enum Failed {
    /// The origin has not processed it. The content comes back, of which some may have gone.
    Unprocessed {
        content: Option<Box<Upload>>,
        /// It is to be asked by HTTP/1.1.
        wants_http1: bool,
        /// Its connection goes on, or others were processed on it.
        was_of_use: bool,
    },
    /// The connection, or the stream, broke before a response came.
    Broken(String),
    /// The connection ended for what came on another stream of it; and why.
    Ruined(String),
    /// What came is no response, or its head is too large; and why.
    Invalid(String),
    Refused(Refusal),
}

impl Failed {
    /// Nothing of it has gone.
    pub fn unsent(content: Upload) -> Failed {
        Failed::Unprocessed { content: Some(Box::new(content)), wants_http1: false, was_of_use: false }
    }
}

impl Line {
    /// Sends a request, and gives the head of its response, which `charged` pays for. `relay` sees each interim response but 100.
    pub async fn attempt(
        &mut self,
        settings: &Settings,
        charged: Option<IpAddr>,
        mut request: Request<Upload>,
        gate: &Gate,
        relay: &impl Fn(Interim),
    ) -> Result<Response<hyper::body::Incoming>, Failed> {
        let interims = self.interims().clone();
        interims.begin();
        self.wire().awaits_head(charged);
        let seen = interims.clone();
        hyper::ext::on_informational(&mut request, move |interim| {
            seen.push(interim.status(), interim.headers())
        });
        let mut response = pin!(self.send(request));
        let mut patience = pin!(Patience::new(settings, gate));
        let attempted = poll_fn(|cx| {
            let answered = response.as_mut().poll(cx);
            if interims.are_too_many() {
                let text = "the origin sent interim responses without end";
                return Poll::Ready(Err(Failed::Refused(
                    Refusal::new(StatusCode::BAD_GATEWAY, text).personal(),
                )));
            }
            // Both may have come in one piece: the interim responses go first.
            for interim in interims.take(cx.waker()) {
                if interim.status == StatusCode::CONTINUE {
                    gate.open();
                } else {
                    relay(interim);
                }
            }
            if let Poll::Ready(result) = answered {
                return Poll::Ready(result.map_err(|mut error| match error.take_message() {
                    Some(request) => Failed::unsent(request.into_body()),
                    None => Failed::Broken(describe(error.error())),
                }));
            }
            patience.as_mut().poll_end(cx, gate).map(|refusal| Err(Failed::Refused(refusal)))
        })
        .await;
        self.wire().has_head();
        attempted
    }
}

fn describe(error: &hyper::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// How long the response's head is waited for: first for a 100, then for content to move, then for the head.
pub struct Patience<'a> {
    settings: &'a Settings,
    timer: Pin<Box<Sleep>>,
    moved: u64,
    /// Content may go, and is waited for.
    opened: bool,
    sent: bool,
}

impl<'a> Patience<'a> {
    pub fn new(settings: &'a Settings, gate: &Gate) -> Patience<'a> {
        let timeouts = &settings.timeouts;
        let (sent, opened) = (gate.is_done(), gate.is_open());
        let first = match (sent, opened) {
            (true, _) => timeouts.origin_first_byte,
            (false, true) => timeouts.origin_stall,
            (false, false) => timeouts.expect,
        };
        Patience { settings, timer: Box::pin(sleep(first)), moved: 0, opened, sent }
    }

    pub fn poll_end(&mut self, cx: &mut Context<'_>, gate: &Gate) -> Poll<Refusal> {
        let timeouts = &self.settings.timeouts;
        if !self.sent && gate.poll_done(cx).is_ready() {
            (self.sent, self.opened) = (true, true);
            self.timer.set(sleep(timeouts.origin_first_byte));
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let more = if !self.opened {
                // Where the origin has not opened it by its 100.
                gate.open();
                self.opened = true;
                timeouts.origin_stall
            } else if !self.sent && gate.moved() != self.moved {
                self.moved = gate.moved();
                timeouts.origin_stall
            } else {
                let text = if self.sent { "did not answer" } else { "did not take the request" };
                return Poll::Ready(Refusal::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    format!("the origin {text} in time"),
                ));
            };
            self.timer.set(sleep(more));
        }
        Poll::Pending
    }
}
