//! `cargo xtask sim`: random histories of the store on a simulated disk, for as long as it is told. Builds the model
//! (`crates/store/src/model`) with optimisation and all assertions, and hands over to it.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Without `--for`.
const SECONDS: u64 = 60;

#[derive(Debug, PartialEq)]
struct Asked {
    /// 0: the history of the seed, and no other.
    seconds: u64,
    seed: Option<u64>,
    threads: u64,
}

/// Becomes the model, so that signals and its exit status are its own; returns only when that fails.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let Asked { seconds, seed, threads } = asked(arguments)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(crate::root()?);
    command.args(["test", "--profile", "sim", "--package", "store", "--lib", "--locked", "--quiet", "--"]);
    command.args(["--ignored", "--exact", "--nocapture", "model::histories_for_a_while"]);
    command.env("COSM_SIM_SECONDS", seconds.to_string()).env("COSM_SIM_THREADS", threads.to_string());
    match seed {
        Some(seed) => command.env("COSM_SEED", seed.to_string()),
        None => command.env_remove("COSM_SEED"),
    };
    Err(format!("start cargo: {}", command.exec()))
}

fn asked(arguments: &[&str]) -> Result<Asked, String> {
    let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number"));
    let (mut seconds, mut seed, mut threads) = (None, None, 1);
    for pair in arguments.chunks(2) {
        match *pair {
            ["--for", time] => {
                seconds = Some(duration(time).ok_or(format!("`{time}` is no time like 90s, 5m, 1h"))?)
            }
            ["--seed", text] => seed = Some(number(text)?),
            ["--threads", text] => threads = number(text)?,
            [option, ..] => return Err(format!("`{option}`: only --for TIME, --seed N and --threads N")),
            [] => {}
        }
    }
    let seconds = seconds.unwrap_or(if seed.is_some() { 0 } else { SECONDS });
    Ok(Asked { seconds, seed, threads })
}

/// Seconds of a number with its unit; at least one.
fn duration(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds).filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_alone_is_one_history() {
        let asked = |text: &str| asked(&text.split_whitespace().collect::<Vec<_>>());
        assert_eq!(asked("--seed 7"), Ok(Asked { seconds: 0, seed: Some(7), threads: 1 }));
        assert_eq!(
            asked("--for 1h --seed 7 --threads 2"),
            Ok(Asked { seconds: 3600, seed: Some(7), threads: 2 })
        );
        assert_eq!(asked(""), Ok(Asked { seconds: SECONDS, seed: None, threads: 1 }));
        for wrong in ["--for 1", "--for h", "--for 0s", "--for é", "--seed", "--seed x", "--far 1h"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
