//! Where one connection's requests come in, and its responses leave.

use super::Link;
use super::framing::Ambiguous;
use crate::answer;
use crate::answer::body::ReplyBody;
use crate::answer::stream::Flight;
use crate::client::departing;
use crate::message::refusal::Refusal;
use crate::report::Transaction;
use crate::transport::Speaks;
use crate::worker::Worker;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::Service;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Where one connection's requests come in.
pub struct Http1Service {
    pub worker: Rc<Worker>,
    pub link: Rc<Link>,
}

/// A response that is there, or one to wait for.
pub enum ResponseFuture {
    Now(Option<Response<ReplyBody>>),
    Later(Pin<Box<dyn Future<Output = Response<ReplyBody>>>>),
}

impl Service<Request<Incoming>> for Http1Service {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let Http1Service { worker, link } = self;
        link.refresh(worker);
        link.answered.set(false);
        link.give_back_head(worker);
        link.version.set(request.version());
        let flight = link.stream.begin(request.method().clone());
        link.stream.note_request(&request);
        if link.behind.get() {
            let (worker, link) = (worker.clone(), link.clone());
            return ResponseFuture::Later(Box::pin(async move {
                link.taken().await;
                match link.answer(&worker, request) {
                    Ok(response) => link.departing(&worker, response, flight),
                    Err(later) => link.answer_later(&worker, later, flight).await,
                }
            }));
        }
        match link.answer(worker, request) {
            Ok(response) => ResponseFuture::Now(Some(link.departing(worker, response, flight))),
            Err(later) => {
                let (worker, link) = (worker.clone(), link.clone());
                ResponseFuture::Later(Box::pin(
                    async move { link.answer_later(&worker, later, flight).await },
                ))
            }
        }
    }
}

impl Link {
    /// Answers a request that was counted in, at once if that can be.
    fn answer(
        &self,
        worker: &Rc<Worker>,
        request: Request<Incoming>,
    ) -> Result<Response<ReplyBody>, answer::Pending> {
        match self.refused() {
            Some(why) => Ok(refusal(why)),
            None => answer::answer(worker, &self.stream, request),
        }
    }

    async fn answer_later(
        &self,
        worker: &Rc<Worker>,
        later: answer::Pending,
        flight: Flight,
    ) -> Response<ReplyBody> {
        let mut response = later.answer(worker, &self.stream).await;
        // The body may have turned out to be ambiguous while it was passed on.
        if let Some(why) = self.refused() {
            response = refusal(why);
        }
        if self.interim_waits() {
            tokio::task::yield_now().await;
        }
        self.stream.take_interims();
        if self.stream.is_tunnel() {
            self.walker.borrow_mut().stop();
        }
        // The head goes out at once, whatever the body waits for.
        self.stream.note(Transaction::begins);
        self.departing(worker, response, flight)
    }

    fn departing(
        &self,
        worker: &Worker,
        mut response: Response<ReplyBody>,
        flight: Flight,
    ) -> Response<ReplyBody> {
        departing::finish(worker, &self.stream, self.speaks, &mut response);
        // What is left of a request's content behind its response is not read, so that no other can follow (RFC 9112 section 9.3).
        // In an upgrade a client over TLS is told that this is the end.
        let leaves = self.speaks != Speaks::Http && worker.moving.get();
        let ends = leaves || self.has_content_to_come();
        if ends && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // To a response of 1.1 the library would add that the connection stays.
        if self.version.get() == Version::HTTP_10
            && response.headers().get(CONNECTION).is_some_and(|says| says == "close")
        {
            *response.version_mut() = Version::HTTP_10;
        }
        self.stream.note_response(&response);
        let status = response.status();
        response.body_mut().carry(flight, status);
        response
    }
}

fn refusal(why: Ambiguous) -> Response<ReplyBody> {
    Refusal::closing(format!("refused: {}", why.text())).response()
}

impl Future for ResponseFuture {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            ResponseFuture::Now(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            ResponseFuture::Later(future) => future.as_mut().poll(cx).map(Ok),
        }
    }
}
