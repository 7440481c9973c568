//! `cargo xtask deb`: a Debian package, made by `contrib/debian/build`; with `--verify`, installed and used on a Debian of its own.

use crate::tools::call;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask deb [--program FILE] [--smoke|--verify]";

pub fn run(root: &Path, args: &[&str]) -> Result<(), String> {
    let (program, rest) = match args {
        ["--program", program, rest @ ..] => (PathBuf::from(program), rest),
        rest => (root.join("target/release/cosm"), rest),
    };
    let script = match rest {
        [] => "build",
        ["--smoke"] => "smoke",
        ["--verify"] => "verify",
        _ => return Err(USAGE.to_owned()),
    };
    if !args.contains(&"--program") {
        call(Command::new("cargo").args(["build", "--release", "--locked", "-p", "cosm"]).current_dir(root))?;
    }
    let mut make = Command::new(root.join("contrib/debian").join(script));
    make.arg(program);
    if script == "build" {
        make.arg(root.join("target/debian"));
    }
    call(&mut make)
}
