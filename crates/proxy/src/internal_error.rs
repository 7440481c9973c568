//! A panic is never silent and never partial: the process ends, since the next start is warm and half a proxy helps nobody.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// From here on a panic in any thread, caught by a runtime or not, ends the process with one message on standard error
/// (and the backtrace, if `RUST_BACKTRACE` asks for one).
pub fn end_on_panic() {
    std::panic::set_hook(Box::new(end));
}

fn end(panic: &PanicHookInfo<'_>) {
    static ENDS: AtomicBool = AtomicBool::new(false);
    // The first one speaks and ends the others.
    while ENDS.swap(true, Relaxed) {
        std::thread::park();
    }
    let what = panic.payload_as_str().unwrap_or("a panic").lines().collect::<Vec<_>>().join(" ");
    let place =
        panic.location().map_or("an unknown place".into(), |at| format!("{}:{}", at.file(), at.line()));
    crate::console::say(format_args!(
        "internal error: {what} at {place}; the process ends, the next start is warm"
    ));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        crate::console::say(format_args!("backtrace:\n{backtrace}"));
    }
    std::process::abort();
}
