//! Cosm beside other caches, in one run on one machine: each alone on one core as one worker, load and origin
//! together on another.
//!
//! Everyone takes turns (A B C, A B C, …), so that a noisy machine harms all alike. Nothing is installed: the peers'
//! programs are unpacked under target/ and run in namespaces of their own. A figure whose check fails is not printed,
//! and the report says why.

mod certificate;
mod contender;
mod field;
mod figure;
mod measured;
mod packages;
mod report;
mod running;
mod scale;
mod scenario;

use crate::{cleanup, machine, process};
use clap::Args;
use contender::{ALL, BEFORE, Contender, Package, Tier};
use field::Field;
use report::Report;
use scale::Scale;
use scenario::{Name, Results};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Request {
    /// The cosm to measure.
    #[arg(long)]
    cosm: PathBuf,
    /// Another build of cosm, which takes part as `cosm-before`.
    #[arg(long)]
    before: Option<PathBuf>,
    /// Fewer objects and shorter runs, about ten minutes: a look, not a result.
    #[arg(long)]
    quick: bool,
    /// Folder of the report [default: results/<date>]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Folder for packages and temporary files, on the disk to measure.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Only these scenarios [default: all]
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Name>,
    /// Only these beside cosm, by their names or their packages' [default: all]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// The command that the report names.
    #[arg(long, hide = true, default_value = "bench peers")]
    command: String,
}

pub fn run(request: &Request) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err(
            "`bench peers` needs root, for control groups and for namespaces that hold the peers; run it \
                    by sudo or in a container"
                .into(),
        );
    }
    let contenders = chosen(&request.peers, request.before.is_some(), &scenario::tiers(&request.only))?;
    let wanted: Vec<Package> = contenders.iter().map(|contender| contender.package).collect();
    process::open_many()?;
    let say = |e: std::io::Error| format!("{}: {e}", request.dir.display());
    std::fs::create_dir_all(&request.dir).map_err(say)?;
    let within = request.dir.canonicalize().map_err(say)?;
    let packages = packages::unpack(&wanted, &within.join("packages"))?;
    let folder = temporary(&within)?;
    cleanup::at_signals(folder.path())?;
    let machine = machine::Machine::look(&request.cosm, folder.path());
    let cores = process::cores()?;
    process::pin(cores.1)?;
    let scale = if request.quick { Scale::quick(&machine) } else { Scale::whole(&machine) };
    let program = |path: &PathBuf| path.canonicalize().map_err(|e| format!("{}: {e}", path.display()));
    let builds = (program(&request.cosm)?, request.before.as_ref().map(program).transpose()?);
    let field = Field::open(builds, folder.path().to_path_buf(), cores, packages, contenders, scale)?;
    let mut results = Results::default();
    scenario::run(&field, &request.only, &mut results);
    let report = Report::of(request.command.clone(), machine, cores, &field, results);
    report.write(&request.out.clone().unwrap_or_else(|| Path::new("results").join(machine::today())))
}

/// Cosm always takes part: the others are compared with it; so does another build of it where one is given. Of the others
/// those who are at home in one of the tiers.
fn chosen(names: &[String], before: bool, tiers: &[Tier]) -> Result<Vec<Contender>, String> {
    if let Some(unknown) = names.iter().find(|name| !ALL.iter().any(|one| one.is_called(name))) {
        let known: Vec<&str> = ALL.iter().map(|one| one.name).collect();
        return Err(format!("there is no peer `{unknown}`; there are {}", known.join(", ")));
    }
    let takes_part = |one: &Contender| match one.name {
        BEFORE => before,
        _ if one.is_cosm() => true,
        _ => {
            one.tiers.iter().any(|tier| tiers.contains(tier))
                && (names.is_empty() || names.iter().any(|name| one.is_called(name)))
        }
    };
    Ok(ALL.into_iter().filter(takes_part).collect())
}

fn temporary(within: &Path) -> Result<tempfile::TempDir, String> {
    tempfile::Builder::new()
        .prefix("peers-")
        .tempdir_in(within)
        .map_err(|e| format!("temporary folder in {}: {e}", within.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosm_always_takes_part() {
        let all = scenario::tiers(&[]);
        let names = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
            chosen(&list, false, &all).map(|chosen| chosen.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["nginx", "squid-rock"]).unwrap(), ["cosm", "nginx", "squid-rock"]);
        assert_eq!(names(&[]).unwrap().len(), ALL.len() - 1);
        let disk = chosen(&[], false, &scenario::tiers(&[Name::Fill])).unwrap();
        assert!(disk.iter().any(|one| one.name == "nginx") && !disk.iter().any(|one| one.name == "envoy"));
        assert!(names(&["apache"]).unwrap_err().contains("haproxy"));
    }
}
