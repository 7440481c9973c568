//! The bare reference: one fixed response from the epoll loop, whatever is asked. No proxy can be cheaper.

use crate::body::{Object, TAG};
use crate::server::{Answer, Reply};
use std::time::Duration;

pub struct Bare {
    head: Vec<u8>,
    object: Object,
}

impl Bare {
    pub fn new(size: u64) -> Bare {
        let object = Object { size, number: 0 };
        let mut head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        head.extend_from_slice(&object.tag()[..TAG.min(size as usize)]);
        Bare { head, object }
    }
}

impl Answer for Bare {
    fn answer(&mut self, _request: &[u8], head: &mut Vec<u8>) -> Reply {
        head.extend_from_slice(&self.head);
        let rest = Some(self.object).filter(|object| object.size > TAG as u64);
        Reply { rest, delay: Duration::ZERO }
    }
}
