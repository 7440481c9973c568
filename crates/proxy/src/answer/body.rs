//! Bodies on their way to a client: each piece is asked for when the one before it was taken.

use crate::answer::stream::Flight;
use crate::message::pieces::Pieces;
use crate::report::Place;
use crate::transfer::pump::LeadersBody;
use bytes::Bytes;
use cache::Report;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// A response's body.
pub struct ReplyBody {
    source: Source,
    /// What the cache had to do with the response.
    report: Option<Report>,
    place: Place,
    /// Counts the request out when the body has gone.
    flight: Option<Flight>,
}

pub(super) enum Source {
    Whole(Bytes),
    Pieces(Box<dyn Pieces>),
}

impl ReplyBody {
    pub fn empty() -> ReplyBody {
        ReplyBody::whole(Bytes::new())
    }

    pub fn whole(bytes: Bytes) -> ReplyBody {
        ReplyBody::of(Source::Whole(bytes))
    }

    pub fn pieces(pieces: impl Pieces) -> ReplyBody {
        ReplyBody::of(Source::Pieces(Box::new(pieces)))
    }

    fn of(source: Source) -> ReplyBody {
        ReplyBody { source, report: None, place: Place::default(), flight: None }
    }

    /// The response is what the cache found, or has to do with the cache.
    pub fn tells(&mut self, report: Report, place: Place) {
        (self.report, self.place) = (Some(report), place);
    }

    /// The response goes out, which its last byte tells.
    #[inline(always)]
    pub fn carry(&mut self, mut flight: Flight, status: StatusCode) {
        flight.answered(status, self.report, self.place, self.is_end_stream());
        self.flight = Some(flight);
    }
}

impl ReplyBody {
    /// All that is left of a body that is here; `Err` gives back one that comes in pieces.
    pub fn into_whole(mut self) -> Result<Bytes, ReplyBody> {
        let Source::Whole(bytes) = &mut self.source else { return Err(self) };
        let bytes = std::mem::take(bytes);
        if let Some(flight) = &mut self.flight {
            flight.sent(bytes.len(), true);
        }
        Ok(bytes)
    }

    /// As [`Pieces::poll_ahead`].
    pub fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if let Source::Pieces(pieces) = &mut self.source {
            pieces.poll_ahead(cx);
        }
    }
}

impl Drop for ReplyBody {
    /// The end of what turned out to have no more is not asked for.
    fn drop(&mut self) {
        if !self.is_end_stream() {
            return;
        }
        let ReplyBody { source, flight: Some(flight), .. } = self else { return };
        flight.sent(0, true);
        if let Source::Pieces(pieces) = source {
            // To its end, at which it lets go of what it came by.
            let _ = pieces.poll_piece(&mut Context::from_waker(Waker::noop()));
            flight.hold(std::mem::replace(source, Source::Whole(Bytes::new())));
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let is_full = self.flight.as_ref().is_some_and(Flight::is_full);
        let next = match &mut self.source {
            Source::Whole(bytes) if bytes.is_empty() => None,
            Source::Whole(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
            Source::Pieces(pieces) if is_full => {
                pieces.poll_ahead(cx);
                return Poll::Pending;
            }
            Source::Pieces(pieces) => ready!(pieces.poll_piece(cx)),
        };
        let (bytes, over) = match &next {
            None => (0, true),
            Some(Ok(frame)) => (frame.data_ref().map_or(0, Bytes::len), self.is_end_stream()),
            Some(Err(_)) => (0, false),
        };
        let ReplyBody { source, flight, .. } = &mut *self;
        if let Some(flight) = flight {
            flight.sent(bytes, over);
            if over && matches!(source, Source::Pieces(_)) {
                flight.hold(std::mem::replace(source, Source::Whole(Bytes::new())));
            }
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Pieces(pieces) => pieces.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Pieces(pieces) => pieces.left().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

impl From<LeadersBody> for ReplyBody {
    fn from(body: LeadersBody) -> ReplyBody {
        match body {
            LeadersBody::Whole(bytes) => ReplyBody::whole(bytes),
            LeadersBody::Pieces(pieces) => ReplyBody::pieces(pieces),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::client::Client;
    use crate::answer::stream::Stream;
    use crate::report::Exit;
    use crate::settings::Settings;
    use crate::tiers::stores::Stores;
    use crate::transfer::span::{SpanBody, Supply};
    use crate::transport::Peer;
    use crate::worker::Worker;
    use http::Method;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use store::{Body::Spans, Key, Lookup, Options, Store};
    use tokio::runtime::{Builder, LocalOptions};

    const PATIENCE: Duration = Duration::from_millis(50);

    /// Otherwise the disk would count as one that keeps it waiting.
    #[test]
    fn a_read_for_a_client_that_takes_nothing_comes_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            Options { size: Some(16 << 20), patience: PATIENCE, ..Options::at(folder.path().join("a")) };
        let (key, content) = (Key::new("GET http://a/"), vec![7; 600_000]);
        let store = Store::open(&options).unwrap();
        let mut writer = store.begin(&key, None).unwrap();
        writer.push(&mut &content[..]).unwrap();
        writer.finish(b"").unwrap();
        assert!(store.close());
        drop(store);
        let store = Store::open(&options).unwrap();
        let settings = Settings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Settings::default() };
        let client = Client::of(Peer::Unix, crate::transport::Speaks::Http, &settings);
        let shared =
            crate::shared(settings, Stores::from(Some(store)), Arc::new(|_: &crate::report::Transaction| {}));
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.unwrap().block_on(async {
            let worker = Worker::new(
                Arc::new(shared),
                Exit::new(Arc::default(), Arc::new(|_: &crate::report::Transaction| {})),
            );
            let reader = (*worker.readers.of(&key).unwrap()).clone();
            let Lookup::Found(store::Object { body: Spans(spans), .. }) = reader.look(&key).await else {
                panic!("no large object")
            };
            let stream = Rc::new(Stream::new(client, worker.exit.clone()));
            let pieces = SpanBody::new(&worker, reader.clone(), &Supply::default(), spans, (0, spans.length));
            let mut body = ReplyBody::pieces(pieces);
            body.carry(stream.begin(Method::GET), StatusCode::OK);
            let mut poll = async || poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
            assert!(poll().await.is_pending(), "the disk is read");
            stream.set_full(true);
            let began = Instant::now();
            while began.elapsed() < 2 * PATIENCE || reader.is_late() {
                assert!(poll().await.is_pending() && began.elapsed() < 200 * PATIENCE);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stream.set_full(false);
            let Poll::Ready(Some(Ok(frame))) = poll().await else { panic!("what was read is not here") };
            assert!(frame.data_ref().unwrap().iter().all(|byte| *byte == 7));
        });
    }
}
