//! Reads in flight, by the reader that serves: the world goes on between the look at the index and the answer of the disk, and
//! between the pieces of a large body.

use super::values::Value;
use crate::by_hand::{ManualReads, Wanted};
use crate::disk::Disk;
use crate::engine::Millis;
use crate::reader::{Backend, Lookup, Reader};
use crate::shared::Shared;
use crate::{Body, Key, Object, Spans};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What a get came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// This value, whole; and where its body lies, if it is a large one.
    Value(Value, Option<Spans>),
    Nothing,
    /// Its part of the index is not loaded.
    Late,
}

/// One reader: it waits for at most one read at a time.
pub struct Hand {
    reader: Reader,
    desk: ManualReads,
}

/// A get under way.
pub struct Reading {
    pub n: u64,
    /// How often the key had changed when it began, and what a start before may have found.
    pub changes: usize,
    pub possible: Vec<Value>,
    /// When the disk answers.
    pub due: Millis,
    wanted: Option<Wanted>,
    desk: ManualReads,
    future: Pin<Box<dyn Future<Output = Got>>>,
}

impl Hand {
    pub fn new(shared: &Arc<Shared>) -> Hand {
        let desk = ManualReads::default();
        Hand { reader: Reader::new(shared.clone(), Backend::Hand(desk.clone())), desk }
    }

    pub fn get(&self, disk: &dyn Disk, key: &Key) -> Got {
        let got = self.wait(disk, get(&self.reader, key));
        // A look without a trace sees the same, unless the disk fails it.
        if let Lookup::Found(Object { meta, body }) = self.wait(disk, self.reader.peek(key)) {
            let value = Value::of(&meta).expect("metadata of a value");
            assert!(!matches!(&got, Got::Value(other, _) if *other != value), "{got:?}, and then {value:?}");
            assert!(!matches!(body, Body::Whole(bytes) if bytes != value.body()), "{value:?}");
        }
        got
    }

    /// A piece of a body; `None`: it is not there.
    pub fn span(&self, disk: &dyn Disk, spans: &Spans, n: u32) -> Option<bytes::Bytes> {
        self.wait(disk, self.reader.span(spans, n))
    }

    fn wait<T>(&self, disk: &dyn Disk, reading: impl Future<Output = T>) -> T {
        let mut reading = std::pin::pin!(reading);
        loop {
            if let Poll::Ready(got) = reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return got;
            }
            self.desk.take().expect("a reader waits for nothing but the disk").carry_out(disk);
        }
    }
}

impl Reading {
    /// Begins one. Its first read, if any, is on its way then.
    pub fn new(shared: &Arc<Shared>, n: u64, key: Key) -> Reading {
        let Hand { reader, desk } = Hand::new(shared);
        let future = Box::pin(async move { get(&reader, &key).await });
        Reading { n, changes: 0, possible: Vec::new(), due: 0, wanted: None, desk, future }
    }

    /// Goes on until the disk is wanted again; `Some`: it is done.
    pub fn go_on(&mut self, disk: &dyn Disk) -> Option<Got> {
        if let Some(wanted) = self.wanted.take() {
            wanted.carry_out(disk);
        }
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(got) => Some(got),
            Poll::Pending => {
                self.wanted = self.desk.take();
                assert!(self.wanted.is_some(), "a reader waits for nothing but the disk");
                None
            }
        }
    }
}

/// Every byte is compared.
async fn get(reader: &Reader, key: &Key) -> Got {
    let Object { meta, body } = match reader.look(key).await {
        Lookup::Found(object) => object,
        Lookup::Late => return Got::Late,
        Lookup::Missing => return Got::Nothing,
    };
    let value = Value::of(&meta).expect("metadata of a value");
    let expected = value.body();
    let spans = match body {
        Body::Whole(bytes) => {
            assert!(bytes == expected, "{value:?}");
            return Got::Value(value, None);
        }
        Body::Spans(spans) => spans,
    };
    assert_eq!(spans.length, expected.len() as u64);
    for (n, part) in expected.chunks(spans.span as usize).enumerate() {
        let bytes = match reader.look_span(&spans, n as u32, &|| false).await {
            Lookup::Found(bytes) => bytes,
            Lookup::Late => return Got::Late,
            Lookup::Missing => return Got::Nothing,
        };
        assert!(bytes == *part, "{value:?} span {n}");
    }
    Got::Value(value, Some(spans))
}
