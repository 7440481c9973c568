//! The binary: the allocator, and the command line of the library.

use std::process::ExitCode;

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cosm::run(std::env::args_os().collect())
}
