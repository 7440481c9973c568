//! `cargo xtask verify` and `cargo xtask soak`: live checks of what is claimed, each with real sockets and files. Builds what it needs and hands over to `bench`.

use crate::bench::{build, target};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes the measuring tool, so that signals and its exit status are its own; returns only when that fails.
pub fn run(name: &str, arguments: &[&str]) -> Result<(), String> {
    let root = crate::root()?;
    let profile = profile(arguments);
    build(root, profile, &["--package", "cosm", "--package", "bench"])?;
    let made = target(root).join(if profile == "dev" { "debug" } else { profile });
    let said = if name == "soak" { &arguments[1..] } else { arguments };
    let command = ["cargo xtask", name].into_iter().chain(said.iter().copied());
    let error = Command::new(made.join("bench"))
        .current_dir(root)
        .arg("verify")
        .arg("--cosm")
        .arg(made.join("cosm"))
        .arg("--command")
        .arg(command.collect::<Vec<_>>().join(" "))
        .args(arguments)
        .exec();
    Err(format!("start {}: {error}", made.join("bench").display()))
}

/// A list of topics and a smoke do not wait for a build in release.
fn profile(arguments: &[&str]) -> &'static str {
    if arguments.is_empty() || arguments.contains(&"--quick") { "dev" } else { "release" }
}

#[cfg(test)]
mod tests {
    use super::profile;

    #[test]
    fn results_alone_are_of_release_builds() {
        assert_eq!(
            [profile(&[]), profile(&["scrub", "--quick"]), profile(&["scrub"])],
            ["dev", "dev", "release"]
        );
    }
}
