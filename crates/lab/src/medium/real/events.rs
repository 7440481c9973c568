//! Block events of one device, from the kernel's tracefs, in an instance of our own: counted, and written to a file if wanted.
//!
//! They are told by device and not by process: what is written, kernel threads write, at a time of their choice. So whatever
//! else goes on at the device is counted, too.

use super::disk::Disk;
use crate::block::Millis;
use crate::block::{Action, Line, Pairs, Taken, Writer, parse};
use crate::medium::Traffic;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Of each processor, for events that were not read yet.
const BUFFER_KIB: &str = "8192";
/// Between looks at an empty buffer.
const PAUSE: Duration = Duration::from_millis(5);

/// Ends, and removes its instance, when dropped.
pub struct Events {
    instance: Instance,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    found: Mutex<Found>,
    /// Up to which question everything has been read.
    asked: AtomicU64,
    answered: AtomicU64,
    stop: AtomicBool,
}

#[derive(Default)]
struct Found {
    traffic: Traffic,
    lost: u64,
    failed: Option<String>,
}

impl Events {
    /// Of a device, or its partition; `capture` gets a block trace.
    pub fn of(disk: &Disk, capture: Option<&Path>) -> Result<Events, String> {
        if !disk.tells {
            return Err(format!(
                "{} is made of other devices, and the kernel tells no requests of it",
                disk.name
            ));
        }
        let instance = Instance::make()?;
        let actions: &[&str] = if capture.is_some() { &["issue", "complete"] } else { &["complete"] };
        for action in actions {
            let event = format!("events/block/block_rq_{action}");
            instance.write(&format!("{event}/filter"), &filter(disk))?;
            instance.write(&format!("{event}/enable"), "1")?;
        }
        let writer = match capture {
            Some(path) => {
                let at = |error: io::Error| format!("{}: {error}", path.display());
                let file = File::create(path).map_err(at)?;
                Some(Writer::new(BufWriter::new(file)).map_err(at)?)
            }
            None => None,
        };
        let path = instance.folder.join("trace_pipe");
        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let pipe = OpenOptions::new().read(true).custom_flags(nonblock).open(&path);
        let pipe = pipe.map_err(|error| format!("{}: {error}", path.display()))?;
        let shared = Arc::new(Shared::default());
        let reading = Reading { writer, pairs: Pairs::default(), begin: None, shared: shared.clone() };
        let reader = std::thread::Builder::new()
            .name("events".into())
            .spawn(move || reading.run(pipe))
            .map_err(|error| format!("a thread for block events: {error}"))?;
        Ok(Events { instance, shared, reader: Some(reader) })
    }

    /// Ends the reading, with what was captured written to its end; else an error says what is missing.
    pub fn finish(&mut self) -> Result<(), String> {
        self.stop();
        self.traffic().map(|_| ())
    }

    fn stop(&mut self) {
        let _ = self.instance.write("tracing_on", "0");
        self.shared.stop.store(true, SeqCst);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }

    /// All that the device has done until now; an error when not all of it is known.
    pub fn traffic(&self) -> Result<Traffic, String> {
        let question = self.shared.asked.fetch_add(1, SeqCst) + 1;
        let patience = Instant::now() + Duration::from_secs(5);
        while self.shared.answered.load(SeqCst) < question && Instant::now() < patience {
            std::thread::sleep(PAUSE);
        }
        let answered = self.shared.answered.load(SeqCst) >= question;
        let found = self.shared.found.lock().unwrap_or_else(PoisonError::into_inner);
        match &found.failed {
            None if !answered => Err("block events come faster than they are read".into()),
            Some(why) => Err(why.clone()),
            None if found.lost > 0 => Err(format!("{} block events were lost", found.lost)),
            None => Ok(found.traffic),
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the reading thread has.
struct Reading {
    writer: Option<Writer<BufWriter<File>>>,
    pairs: Pairs,
    /// Time of the first event.
    begin: Option<Millis>,
    shared: Arc<Shared>,
}

impl Reading {
    fn run(mut self, pipe: File) {
        if let Err(why) = self.read(pipe).and_then(|()| self.end()) {
            self.found().failed = Some(why);
        }
        // There will be no other answer.
        self.shared.answered.store(u64::MAX, SeqCst);
    }

    /// Until it is stopped and nothing is left.
    fn read(&mut self, mut pipe: File) -> Result<(), String> {
        let mut buffer = vec![0; 64 << 10];
        let mut rest = Vec::new();
        loop {
            let (asked, stop) = (self.shared.asked.load(SeqCst), self.shared.stop.load(SeqCst));
            match pipe.read(&mut buffer) {
                Ok(count) if count > 0 => {
                    rest.extend_from_slice(&buffer[..count]);
                    self.lines(&mut rest)?;
                }
                Err(error) if ![ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {
                    return Err(format!("trace_pipe: {error}"));
                }
                // Nothing is there that was not read.
                _ => {
                    self.shared.answered.store(asked, SeqCst);
                    if stop {
                        return Ok(());
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Captures what is still under way.
    fn end(&mut self) -> Result<(), String> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut unfinished = std::mem::take(&mut self.pairs).unfinished().into_iter();
        unfinished
            .try_for_each(|request| writer.write(&request))
            .and_then(|()| writer.flush())
            .map_err(captured)
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.shared.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes whole lines; what is left stays.
    fn lines(&mut self, rest: &mut Vec<u8>) -> Result<(), String> {
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in rest[..end].split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            if let Some(count) = lost(&line) {
                self.found().lost += count;
                continue;
            }
            // What cannot be read was not meant for us.
            let Ok(Line::Event(mut event)) = parse(&line) else { continue };
            event.at = (event.at - *self.begin.get_or_insert(event.at)).max(0.0);
            // What the device refused at first is issued again, but done once.
            if event.action == Action::Complete {
                self.found().traffic.count(event.transfer);
            }
            if let Some(writer) = &mut self.writer
                && let Taken::Request(request) = self.pairs.take(event)
            {
                writer.write(&request).map_err(captured)?;
            }
        }
        rest.drain(..end);
        Ok(())
    }
}

fn captured(error: io::Error) -> String {
    format!("the captured trace: {error}")
}

/// What the kernel says when its buffer was too small.
fn lost(line: &str) -> Option<u64> {
    line.split_once("[LOST ")?.1.split_once(' ')?.0.parse().ok()
}

/// Events are told of whole devices, numbered as the kernel does.
fn filter(disk: &Disk) -> String {
    let device = format!("dev == {}", u64::from(disk.whole.0) << 20 | u64::from(disk.whole.1));
    match &disk.sectors {
        Some(range) => format!("{device} && sector >= {} && sector < {}", range.start, range.end),
        None => device,
    }
}

/// A buffer of our own in tracefs.
struct Instance {
    folder: PathBuf,
}

impl Instance {
    fn make() -> Result<Instance, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let root = ROOTS.iter().map(Path::new).find(|root| root.join("events/block").is_dir());
        let root = root.ok_or(
            "tracefs with block events is not here, or not for us: run as root, and \
             `mount -t tracefs none /sys/kernel/tracing`",
        )?;
        let name = format!("cosm-lab-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst));
        let folder = root.join("instances").join(name);
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let instance = Instance { folder };
        instance.write("buffer_size_kb", BUFFER_KIB)?;
        instance.write("trace_clock", "mono")?;
        Ok(instance)
    }

    fn write(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let patience = Instant::now() + Duration::from_secs(2);
        while fs::remove_dir(&self.folder).is_err() && self.folder.exists() && Instant::now() < patience {
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_as_the_kernel_numbers_devices() {
        let mut disk =
            Disk { name: "vda1".into(), number: (254, 1), whole: (254, 0), sectors: None, tells: true };
        assert_eq!(filter(&disk), "dev == 266338304");
        disk.sectors = Some(2048..4096);
        assert_eq!(filter(&disk), "dev == 266338304 && sector >= 2048 && sector < 4096");
        assert_eq!(
            (lost("CPU:1 [LOST 77 EVENTS]"), lost("CPU:1 [LOST x EVENTS]"), lost("[LOST")),
            (Some(77), None, None)
        );
    }
}
