//! All turns, one after the other.

use crate::Request;
use crate::cgroup::Group;
use crate::contender::{self, Spec};
use crate::machine::{Machine, today};
use crate::report::{Cell, Report};
use crate::scale::{self, Scale};
use crate::serve;
use crate::turn::{Part, Turn};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub fn run(request: &Request) -> Result<(), String> {
    let scales = chosen(request)?;
    let contenders = contenders(request)?;
    let folder = request.dir.clone().unwrap_or_else(|| "target/bench-store/run".into());
    // Only what this run made is removed.
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let folder =
        folder.canonicalize().map_err(|e| e.to_string())?.join(format!("run-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let _removed = Removed(folder.clone());
    let out = request.out.clone().unwrap_or_else(|| Path::new("results").join(today()));
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut report = Report::new(Machine::look(&request.cosm, &folder), out, request.add)?;
    for scale in scales {
        for spec in &contenders {
            if scale.samples.is_some() && spec.name != "cosm" {
                continue;
            }
            if scale.objects > spec.most {
                eprintln!("{} {}: not run", scale.name, spec.name);
                report.take(Cell::not_run(scale, spec, &request.command));
                continue;
            }
            eprintln!("{} {}", scale.name, spec.name);
            let cell = measure(request, scale, spec, &folder).inspect_err(|error| eprintln!("  {error}"))?;
            report.take(cell);
            report.write()?;
        }
    }
    report.write()?;
    print!("{}", report.text());
    Ok(())
}

struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn chosen(request: &Request) -> Result<Vec<&'static Scale>, String> {
    if request.quick {
        return Ok(scale::ALL.iter().filter(|scale| scale.quick).collect());
    }
    if request.only.is_empty() {
        return Ok(scale::ALL.iter().filter(|scale| !scale.quick && scale.samples.is_none()).collect());
    }
    let names = || scale::ALL.map(|scale| scale.name).join(", ");
    let each = request.only.iter();
    each.map(|name| {
        scale::named(name).ok_or_else(|| format!("there is no scale `{name}`; there are {}", names()))
    })
    .collect()
}

fn contenders(request: &Request) -> Result<Vec<&'static Spec>, String> {
    if request.contenders.is_empty() {
        return Ok(contender::ALL.iter().collect());
    }
    let names = || contender::ALL.map(|spec| spec.name).join(", ");
    let each = request.contenders.iter();
    each.map(|name| {
        contender::named(name).ok_or_else(|| format!("there is no contender `{name}`; there are {}", names()))
    })
    .collect()
}

fn measure(request: &Request, scale: &Scale, spec: &Spec, folder: &Path) -> Result<Cell, String> {
    let folder = folder.join(spec.name);
    std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let _removed = Removed(folder.clone());
    let group = Group::make().and_then(|group| group.limit_memory(scale.memory).map(|()| group));
    if let Err(error) = &group {
        eprintln!("  memory is not limited: {error}");
    }
    let yard = scale.samples.map(|_| yard(&folder)).transpose()?;
    let mut turn = Turn {
        contender: spec.name.into(),
        folder: folder.clone(),
        capacity: scale.capacity(),
        objects: scale.objects,
        body: scale.body,
        hollow: scale.hollow(),
        groups: group.as_ref().map(Group::folders).unwrap_or_default(),
        part: Part::Fill,
    };
    let filled: crate::turn::Filled = turn_of(&turn)?;
    eprintln!("  filled; {:.1} % of the objects are kept", filled.kept * 100.0);
    let (rounds, seconds) = if request.quick { (2, 0.4) } else { (request.rounds, request.seconds) };
    turn.part = Part::Ask { numbers: filled.durable.clone(), rounds, seconds, yard };
    let cold = drop_caches();
    // Both are starts after a kill.
    let served = match scale.samples {
        Some(_) => Some(serve::run(&request.cosm, &folder.join("cache"), &filled.durable, scale.body)?),
        None => None,
    };
    drop_caches();
    let asked = turn_of(&turn)?;
    Ok(Cell {
        filled: Some(filled),
        asked: Some(asked),
        served,
        memory: group.is_ok().then_some(scale.memory),
        cold,
        ..Cell::not_run(scale, spec, &request.command)
    })
}

/// Runs one in a process of its own, which is killed when it has said its figures.
fn turn_of<T: serde::de::DeserializeOwned>(turn: &Turn) -> Result<T, String> {
    let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
    let json = serde_json::to_string(turn).map_err(|e| e.to_string())?;
    let started = Command::new(own).args(["turn", &json]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = Killed(started.map_err(|e| format!("start {}: {e}", turn.contender))?);
    let stdout = child.0.stdout.take().ok_or("no stdout")?;
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    // Libraries may print lines of their own.
    let line =
        lines.find(|line| line.starts_with('{')).ok_or_else(|| format!("{} failed", turn.contender))?;
    serde_json::from_str(&line).map_err(|e| format!("{}: {e}", turn.contender))
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether the page cache was dropped.
fn drop_caches() -> bool {
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// A file of 1 GiB, written, that the bare loop reads where the contender's own is full of holes.
fn yard(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join("yard");
    let say = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut file = std::fs::File::create(&path).map_err(say)?;
    let bytes: Vec<u8> = (0..1u32 << 20).map(|n| (n % 251) as u8).collect();
    (0..1024).try_for_each(|_| file.write_all(&bytes)).and_then(|()| file.sync_all()).map_err(say)?;
    Ok(path)
}
