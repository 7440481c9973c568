//! What a closed loop asks on: a connection of HTTP/1, plain or over TLS, or one of HTTP/2.

use super::connection::{Answered, Broken, Connection, Event, Target};
use super::tls::Tls;
use crate::body::Object;
use std::net::TcpStream;
use std::sync::Arc;

/// What is spoken to the server.
#[derive(Clone, Debug)]
pub enum Speaks {
    Http,
    /// HTTP/1.1 over TLS.
    Https(Arc<Tls>),
    /// HTTP/2 over TLS, with so many requests at once on each connection.
    Http2(Arc<Tls>, usize),
}

impl Speaks {
    pub fn tls(&self) -> Option<&Tls> {
        match self {
            Speaks::Http => None,
            Speaks::Https(tls) | Speaks::Http2(tls, _) => Some(tls),
        }
    }

    /// Requests at once on each connection.
    pub fn streams(&self) -> usize {
        match self {
            Speaks::Http2(_, streams) => *streams,
            _ => 1,
        }
    }
}

pub trait Client: Sized {
    /// Does not wait for the server to accept.
    fn open(target: &Target, speaks: &Speaks) -> Result<Self, String>;

    fn stream(&self) -> &TcpStream;

    /// Goes out with the next `send` at the latest.
    fn ask(&mut self, object: Object, check: bool) -> Result<(), String>;

    /// What is asked for and not answered.
    fn under_way(&self) -> Vec<Object>;

    /// Sends what the socket takes.
    fn send(&mut self) -> Result<(), String>;

    /// Whether more could be sent if the socket took it.
    fn waits_for_socket(&self) -> bool;

    /// Takes what has come.
    fn receive(&mut self, scratch: &mut [u8], answers: &mut Vec<Answered>) -> Result<(), Broken>;
}

impl Client for Connection {
    fn open(target: &Target, speaks: &Speaks) -> Result<Connection, String> {
        match speaks {
            Speaks::Https(tls) => Connection::open_tls(target, tls),
            _ => Connection::open(target),
        }
    }

    fn stream(&self) -> &TcpStream {
        Connection::stream(self)
    }

    fn ask(&mut self, object: Object, check: bool) -> Result<(), String> {
        Connection::ask(self, object, check).map(|_| ())
    }

    fn under_way(&self) -> Vec<Object> {
        vec![self.object()]
    }

    fn send(&mut self) -> Result<(), String> {
        if !self.is_sent() {
            Connection::send(self)?;
        }
        Ok(())
    }

    fn waits_for_socket(&self) -> bool {
        !self.is_sent()
    }

    fn receive(&mut self, scratch: &mut [u8], answers: &mut Vec<Answered>) -> Result<(), Broken> {
        match Connection::receive(self, scratch)? {
            Event::Waiting => Ok(()),
            Event::Closed => Err(Broken::Closed),
            Event::Answered(answer) => {
                answers.push(answer);
                Ok(())
            }
        }
    }
}
