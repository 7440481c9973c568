//! What carries bytes: addresses, listeners and sockets of TCP and of Unix. Nothing here knows HTTP.
//!
//! A transport is a variant of each of these enums, so that reads and writes need neither a table of functions nor a box.
//! TLS is one more `Socket`, around one of these; its handshake is the connection's own task (`client::protocol`), so that
//! nobody who accepts waits for it. What is above reads and writes all of them alike.

mod address;
mod hop;
mod listen;
mod listener;
mod socket;
mod tls;

pub use address::{Address, UnixPath};
pub use hop::{Hop, Host};
pub use listen::{Listen, Speaks};
pub use listener::{Bound, Handed, Listener, Peer, Service, SocketFile, listen, listen_alone, try_to_listen};
pub use socket::Socket;
pub use tls::{BEYOND_MOST as TLS_BEYOND, Secured, secure, secure_to};
