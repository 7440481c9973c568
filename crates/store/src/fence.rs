//! Writes the fence: while it is raised no segment and no ledger is written. Write → sync; what fails is tried again.

use crate::buffer::Buffer;
use crate::engine::{Millis, Op};
use crate::format::BLOCK;
use crate::format::fence::{Fence, OFFSET};
use crate::retry::Retry;
use std::sync::Arc;

#[derive(Default)]
pub struct Fencer {
    /// One is to be written, of what will be when that begins.
    wanted: bool,
    stage: Stage,
    /// The stage's I/O was handed out.
    sent: bool,
    pub retry: Retry,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Rest,
    Write,
    Sync,
}

impl Fencer {
    /// There is a gap in the log, or may be: a restart must be told where it goes on.
    pub fn raise(&mut self) {
        self.wanted = true;
    }

    pub fn is_raised(&self) -> bool {
        self.wanted || self.stage != Stage::Rest
    }

    /// What is to be done, if anything; `fence` is what holds now.
    pub fn next_io(&mut self, fence: Fence, identity: u64, now: Millis) -> Option<Op> {
        if self.sent || !self.is_raised() || !self.retry.is_due(now) {
            return None;
        }
        self.sent = true;
        if self.stage == Stage::Sync {
            return Some(Op::Sync);
        }
        (self.wanted, self.stage) = (false, Stage::Write);
        let mut image = Buffer::new(BLOCK);
        image.copy_from_slice(&fence.encode(identity));
        Some(Op::Write { offset: OFFSET, image: Arc::new(image), range: 0..BLOCK })
    }

    /// The outcome of `next_io`.
    pub fn io_done(&mut self, ok: bool, now: Millis) {
        debug_assert!(self.sent);
        self.sent = false;
        if !ok {
            self.retry.fail(now);
            (self.wanted, self.stage) = (true, Stage::Rest);
            return;
        }
        self.stage = match self.stage {
            Stage::Write => Stage::Sync,
            Stage::Sync | Stage::Rest => {
                self.retry = Retry::default();
                Stage::Rest
            }
        };
    }
}
