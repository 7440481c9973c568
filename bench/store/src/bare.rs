//! The yardstick: a bare loop of direct reads by io_uring, of one thread, with nothing around it.

use crate::drive::{Ask, Tally};
use crate::object::Random;
use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;
use store::Buffer;

const BLOCK: u64 = 4096;

/// Reads `bytes` at random blocks of the file, `ask.depth` at once, until `ask.lasts`.
pub fn gets(path: &Path, bytes: usize, ask: &Ask) -> Result<Tally, String> {
    let say = |error: std::io::Error| format!("bare loop over {}: {error}", path.display());
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = File::options().read(true).custom_flags(direct).open(path).map_err(say)?;
    let blocks = (file.metadata().map_err(say)?.len() - bytes as u64) / BLOCK;
    let depth = ask.depth as u32;
    let mut ring = IoUring::builder().setup_coop_taskrun().setup_single_issuer().build(depth).map_err(say)?;
    let mut buffers: Vec<Buffer> = (0..depth).map(|_| Buffer::new(bytes)).collect();
    let mut random: Random = ask.random(0);
    let mut begun = vec![Instant::now(); depth as usize];
    let mut tally = Tally::default();
    let mut push = |ring: &mut IoUring, slot: usize, begun: &mut [Instant]| {
        let (to, offset) = (buffers[slot].as_mut_ptr(), random.next() % blocks * BLOCK);
        let read = opcode::Read::new(types::Fd(file.as_raw_fd()), to, bytes as u32).offset(offset).build();
        begun[slot] = Instant::now();
        #[allow(unsafe_code)]
        // SAFETY: the buffer lives, and is not used by anything else, until this slot's completion was reaped: every path
        // out of this function drains the ring first, but for a failure of the ring itself, which ends the process.
        unsafe { ring.submission().push(&read.user_data(slot as u64)) }
            .expect("the ring has a slot for each buffer");
    };
    let (began, until) = (Instant::now(), Instant::now() + ask.lasts);
    (0..depth as usize).for_each(|slot| push(&mut ring, slot, &mut begun));
    let mut flying = depth;
    let mut done = Vec::with_capacity(depth as usize);
    let mut failed = None;
    while flying > 0 {
        ring.submit_and_wait(1).expect("a ring that reads goes on");
        done.extend(ring.completion().map(|entry| (entry.user_data() as usize, entry.result())));
        for (slot, result) in done.drain(..) {
            flying -= 1;
            tally.gets += 1;
            tally.hits += 1;
            tally.nanos.push(begun[slot].elapsed().as_nanos() as u32);
            if result != bytes as i32 {
                failed = Some(result);
            } else if failed.is_none() && Instant::now() < until {
                push(&mut ring, slot, &mut begun);
                flying += 1;
            }
        }
    }
    tally.took = began.elapsed();
    match failed {
        Some(result) => Err(format!("bare loop over {}: a read came to {result}", path.display())),
        None => Ok(tally),
    }
}
