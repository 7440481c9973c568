//! HTTP/2 with clients: whether it is spoken, and what one connection may do.

/// What a connection of a client's is given, and what it may do in a minute. What is beyond ends it with `ENHANCE_YOUR_CALM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2 {
    /// Offered over TLS, and understood where a client begins with it.
    pub on: bool,
    /// Streams of one connection at a time. More are refused, and may be asked for again.
    pub streams: u32,
    /// Bytes of one stream's content that may be here before they have gone on; of a connection it is `WINDOWS` as much.
    pub window: u32,
    /// Streams that either side resets.
    pub resets: u32,
    pub pings: u32,
    pub settings: u32,
    /// Frames that change priorities, and those of types that are not known; two for each request beside.
    pub priorities: u32,
    pub continuations: u32,
    /// Frames without content that end nothing.
    pub empty: u32,
}

/// The window of a connection, in windows of a stream.
pub const WINDOWS: u32 = 4;

impl Default for Http2 {
    fn default() -> Http2 {
        Http2 {
            on: true,
            streams: 100,
            window: 256 << 10,
            resets: 200,
            pings: 60,
            settings: 60,
            priorities: 120,
            continuations: 120,
            empty: 10,
        }
    }
}
