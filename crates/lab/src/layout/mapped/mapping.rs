//! A file that is mapped into memory.

use crate::layout::check;
use crate::medium::{Failed, File, Medium, ROOT};
use crate::object::Object;

/// The file's name, above those of files of one object.
const NAME: u64 = 1 << 41;
/// Bytes: it is written in such pieces once, so that its blocks lie together, and loads are counted by them.
const PIECE: u64 = 1 << 20;

/// The file, and what objects are copied through.
pub struct Mapping {
    pub bytes: u64,
    file: Option<File>,
    buffer: Vec<u8>,
    /// Loads from each piece.
    pub loads: Vec<u64>,
}

impl Mapping {
    pub fn new(bytes: u64) -> Mapping {
        Mapping { bytes, file: None, buffer: Vec::new(), loads: vec![0; bytes.div_ceil(PIECE) as usize] }
    }

    /// Makes the file, all zeros.
    pub fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        let file = medium.create(ROOT, NAME)?;
        let zeros = vec![0; PIECE as usize];
        let mut at = 0;
        while at < self.bytes {
            let count = PIECE.min(self.bytes - at);
            medium.write(file, at, &zeros[..count as usize])?;
            at += count;
        }
        self.file = Some(file);
        Ok(())
    }

    pub fn store(&mut self, medium: &mut dyn Medium, object: &Object, at: u64) -> Result<(), Failed> {
        let file = self.file()?;
        self.buffer.resize(object.size as usize, 0);
        object.fill(0, &mut self.buffer);
        medium.store(file, at, &self.buffer)
    }

    pub fn load(&mut self, medium: &mut dyn Medium, object: &Object, at: u64) -> Result<(), Failed> {
        let file = self.file()?;
        self.buffer.resize(object.size as usize, 0);
        medium.load(file, at, &mut self.buffer)?;
        self.loads[(at / PIECE) as usize] += 1;
        check(object, 0, &self.buffer)
    }

    /// Share of the loads that went to the first quarter of the file's first `used` bytes (Figure 4.6).
    pub fn first_quarter(&self, used: u64) -> f64 {
        let quarter = (used / 4).div_ceil(PIECE) as usize;
        let all: u64 = self.loads.iter().sum();
        self.loads[..quarter].iter().sum::<u64>() as f64 / all.max(1) as f64
    }

    fn file(&self) -> Result<File, Failed> {
        self.file.ok_or_else(|| "the file is not there yet".to_owned())
    }
}
