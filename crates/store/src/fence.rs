//! Writes the fence of a life: before it lies on the medium no segment and no ledger is written. Write → sync; what fails is tried
//! again.

use crate::buffer::Buffer;
use crate::engine::{Millis, Op};
use crate::format::BLOCK;
use crate::format::fence::{Fence, OFFSET};
use crate::retry::Retry;
use std::sync::Arc;

#[derive(Default)]
pub struct Fencer {
    fence: Fence,
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
    /// With one that is to be written.
    pub fn raise(fence: Fence) -> Fencer {
        Fencer { fence, stage: Stage::Write, ..Fencer::default() }
    }

    pub fn is_raised(&self) -> bool {
        self.stage != Stage::Rest
    }

    /// What is to be done, if anything.
    pub fn next_io(&mut self, identity: u64, now: Millis) -> Option<Op> {
        if self.sent || !self.is_raised() || !self.retry.is_due(now) {
            return None;
        }
        self.sent = true;
        if self.stage == Stage::Sync {
            return Some(Op::Sync);
        }
        let mut image = Buffer::new(BLOCK);
        image.copy_from_slice(&self.fence.encode(identity));
        Some(Op::Write { offset: OFFSET, image: Arc::new(image), range: 0..BLOCK })
    }

    /// The outcome of `next_io`.
    pub fn io_done(&mut self, ok: bool, now: Millis) {
        debug_assert!(self.sent);
        self.sent = false;
        if !ok {
            self.retry.fail(now);
            self.stage = Stage::Write;
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
