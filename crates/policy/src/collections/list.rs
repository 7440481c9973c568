//! Lists through one array: a number is in at most one of them, and comes and goes in constant time.

/// No number.
pub const NONE: u32 = u32::MAX;

/// What comes before and behind each number.
#[derive(Default)]
pub struct Links(Vec<Link>);

#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
}

/// The two ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    pub oldest: u32,
    pub newest: u32,
}

impl Default for List {
    fn default() -> List {
        List { oldest: NONE, newest: NONE }
    }
}

impl Links {
    /// A number that is in no list becomes the newest of one.
    pub fn put_in(&mut self, list: &mut List, number: u32) {
        let at = number as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Link { older: NONE, newer: NONE });
        }
        self.0[at] = Link { older: list.newest, newer: NONE };
        match list.newest {
            NONE => list.oldest = number,
            newest => self.0[newest as usize].newer = number,
        }
        list.newest = number;
    }

    /// A number that is in no list comes before another one of it, or becomes its newest (`NONE`).
    pub fn put_before(&mut self, list: &mut List, at: u32, number: u32) {
        if at == NONE {
            return self.put_in(list, number);
        }
        let older = self.0[at as usize].older;
        if self.0.len() <= number as usize {
            self.0.resize(number as usize + 1, Link { older: NONE, newer: NONE });
        }
        self.0[number as usize] = Link { older, newer: at };
        self.0[at as usize].older = number;
        match older {
            NONE => list.oldest = number,
            older => self.0[older as usize].newer = number,
        }
    }

    /// A number leaves the list that it is in.
    pub fn take_out(&mut self, list: &mut List, number: u32) {
        let Link { older, newer } = self.0[number as usize];
        match older {
            NONE => list.oldest = newer,
            older => self.0[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            newer => self.0[newer as usize].older = older,
        }
    }

    /// What comes behind a number, or `NONE`.
    pub fn newer(&self, number: u32) -> u32 {
        self.0[number as usize].newer
    }
}
