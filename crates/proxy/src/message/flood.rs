//! What the other side of a connection of HTTP/2 may do in a minute that costs it less than the proxy: a table.

use super::frames::Frame;
use crate::settings::http2::Http2;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

/// Window updates in a minute, beside one for each `UPDATED` bytes that went out.
const UPDATES: u64 = 1000;
const UPDATED: u64 = 256;
/// Bytes that went out for which one ping more is let pass, as one is for each frame of content, however small: by pings many measure what
/// a connection carries (gRPC's do so at each frame).
const PINGED: u64 = 4 << 10;
/// Bytes, or frames of content, that go out until the time is looked at.
const LOOK: u64 = 1 << 20;
const LOOK_FRAMES: u64 = 256;

macro_rules! table {
    ($($(#[$meta:meta])* $kind:ident $name:literal $limit:expr;)*) => {
        /// What is counted, for which a connection may end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flood { $($(#[$meta])* $kind),* }

        impl Flood {
            const ALL: &[(Flood, &str, fn(&Http2, &Counts) -> u64)] = &[$((Flood::$kind, $name, $limit)),*];
        }
    };
}

table! {
    /// By either side: a client may make the proxy reset (MadeYouReset) as well as reset by itself (Rapid Reset).
    Resets "resets of streams" |of, _| of.resets.into();
    Pings "pings" |of, counts| u64::from(of.pings) + counts.content + counts.sent / PINGED;
    Settings "settings" |of, _| of.settings.into();
    Priorities "changes of priorities" |of, counts| u64::from(of.priorities) + 2 * counts.heads;
    Continuations "continued heads" |of, counts| u64::from(of.continuations) + counts.heads;
    Empty "empty frames" |of, counts| u64::from(of.empty) + counts.heads;
    Updates "updates of windows" |_, counts| UPDATES + 2 * counts.content + counts.sent / UPDATED;
}

impl Flood {
    pub fn name(self) -> &'static str {
        Flood::ALL[self as usize].1
    }

    /// Of frames that came. Those that are not known change priorities at most (RFC 9218 section 7.1).
    fn of(frame: Frame) -> Option<Flood> {
        match frame.kind {
            _ if frame.is_empty() => Some(Flood::Empty),
            Frame::DATA | Frame::HEADERS | Frame::GOAWAY => None,
            Frame::RST_STREAM => Some(Flood::Resets),
            Frame::SETTINGS => Some(Flood::Settings),
            Frame::PING => Some(Flood::Pings),
            Frame::WINDOW_UPDATE => Some(Flood::Updates),
            Frame::CONTINUATION => Some(Flood::Continuations),
            _ => Some(Flood::Priorities),
        }
    }
}

/// What came of one connection since a minute, at most.
pub struct Counts {
    since: Instant,
    of: [u64; Flood::ALL.len()],
    /// Heads that came.
    heads: u64,
    /// Frames of content that went out.
    content: u64,
    /// Bytes that went out.
    sent: u64,
}

impl Counts {
    pub fn new(now: Instant) -> Counts {
        Counts { since: now, of: [0; Flood::ALL.len()], heads: 0, content: 0, sent: 0 }
    }

    /// Counts a frame that came; `Some` when it is one too many.
    pub fn came(&mut self, frame: Frame, bounds: &Http2, now: impl FnOnce() -> Instant) -> Option<Flood> {
        self.heads += u64::from(frame.ends_head());
        self.count(Flood::of(frame)?, bounds, now)
    }

    /// The same of one that went.
    pub fn went(&mut self, frame: Frame, bounds: &Http2, now: impl FnOnce() -> Instant) -> Option<Flood> {
        match frame.kind {
            Frame::RST_STREAM => self.count(Flood::Resets, bounds, now),
            Frame::DATA => {
                self.content += 1;
                if self.content.is_multiple_of(LOOK_FRAMES) {
                    self.looks(now());
                }
                None
            }
            _ => None,
        }
    }

    /// What went out counts for a minute too, if that is looked at now and then.
    pub fn sent(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        let before = self.sent;
        self.sent += bytes as u64;
        if before / LOOK != self.sent / LOOK {
            self.looks(now());
        }
    }

    fn looks(&mut self, now: Instant) {
        if now.duration_since(self.since) >= MINUTE {
            *self = Counts::new(now);
        }
    }

    fn count(&mut self, flood: Flood, bounds: &Http2, now: impl FnOnce() -> Instant) -> Option<Flood> {
        self.of[flood as usize] += 1;
        if self.of[flood as usize] <= Flood::ALL[flood as usize].2(bounds, self) {
            return None;
        }
        let now = now();
        if now.duration_since(self.since) < MINUTE {
            return Some(flood);
        }
        *self = Counts::new(now);
        self.of[flood as usize] = 1;
        (Flood::ALL[flood as usize].2(bounds, self) == 0).then_some(flood)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: u32) -> Frame {
        Frame { kind, flags: 0, stream: 1, length }
    }

    #[test]
    fn rows_stand_where_their_variants_count() {
        assert!(Flood::ALL.iter().enumerate().all(|(n, (flood, ..))| *flood as usize == n));
    }

    #[test]
    fn each_kind_has_its_bound_a_minute() {
        let bounds = Http2 { empty: 0, ..Http2::default() };
        for (kind, length, most, flood) in [
            (Frame::RST_STREAM, 4, 200, Flood::Resets),
            (Frame::PING, 8, 60, Flood::Pings),
            (Frame::SETTINGS, 6, 60, Flood::Settings),
            (2, 5, 120, Flood::Priorities),
            (0x10, 9, 120, Flood::Priorities),
            (Frame::CONTINUATION, 5, 120, Flood::Continuations),
            (Frame::DATA, 0, 0, Flood::Empty),
            (Frame::WINDOW_UPDATE, 4, 1000, Flood::Updates),
        ] {
            let begin = Instant::now();
            let mut counts = Counts::new(begin);
            for n in 0..most {
                assert_eq!(
                    counts.came(frame(kind, length), &bounds, || begin + MINUTE / 2),
                    None,
                    "{kind} {n}"
                );
            }
            let found = counts.came(frame(kind, length), &bounds, || begin + MINUTE / 2);
            assert_eq!(found, Some(flood));
            let later = counts.came(frame(kind, length), &bounds, || begin + MINUTE);
            assert_eq!(later, (most == 0).then_some(flood), "{kind}: another minute");
        }
    }

    #[test]
    fn both_sides_resets_are_one_count_and_what_goes_out_earns_pings() {
        let (bounds, begin) = (Http2::default(), Instant::now());
        let mut counts = Counts::new(begin);
        for _ in 0..100 {
            assert_eq!(counts.came(frame(Frame::RST_STREAM, 4), &bounds, || begin), None);
            assert_eq!(counts.went(frame(Frame::RST_STREAM, 4), &bounds, || begin), None);
        }
        assert_eq!(counts.went(frame(Frame::RST_STREAM, 4), &bounds, || begin), Some(Flood::Resets));
        assert_eq!(counts.went(frame(Frame::PING, 8), &bounds, || begin), None);
        counts.sent(100 << 12, || begin);
        for _ in 0..160 {
            assert_eq!(counts.came(frame(Frame::PING, 8), &bounds, || begin), None);
        }
        assert_eq!(counts.came(frame(Frame::PING, 8), &bounds, || begin), Some(Flood::Pings));
        counts.sent(LOOK as usize, || begin + MINUTE);
        assert_eq!(counts.sent, 0, "another minute");
    }

    #[test]
    fn each_frame_of_content_earns_a_ping_and_two_windows() {
        let (bounds, begin) = (Http2::default(), Instant::now());
        let mut counts = Counts::new(begin);
        for _ in 0..2000 {
            assert_eq!(counts.went(frame(Frame::DATA, 10), &bounds, || begin), None);
            for (kind, length) in [(Frame::PING, 8), (Frame::WINDOW_UPDATE, 4), (Frame::WINDOW_UPDATE, 4)] {
                assert_eq!(counts.came(frame(kind, length), &bounds, || begin), None);
            }
        }
        for _ in 0..60 {
            assert_eq!(counts.came(frame(Frame::PING, 8), &bounds, || begin), None);
        }
        assert_eq!(counts.came(frame(Frame::PING, 8), &bounds, || begin), Some(Flood::Pings));
        for _ in 0..LOOK_FRAMES {
            assert_eq!(counts.went(frame(Frame::DATA, 10), &bounds, || begin + MINUTE), None);
        }
        assert!(counts.content < LOOK_FRAMES, "another minute");
    }
}
