//! What a run keeps, and goes on from: `rows.json`, `rows.csv`, `points.jsonl` and `report.html` in a folder.

use crate::Failure;
use clap::{Arg, ArgMatches};
use lab::report::Source;
use lab::results::{Asked, Point, Points, Run};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

pub struct Folder(PathBuf);

const ROWS: &str = "rows.json";
const POINTS: &str = "points.jsonl";
/// Bytes of a file that is read at most.
const LARGEST: u64 = 256 << 20;

pub fn arg(help: &'static str) -> Arg {
    Arg::new("out").long("out").value_name("DIR").help(help)
}

impl Folder {
    /// The folder of `--out`, which is made if it is not there.
    pub fn of(args: &ArgMatches) -> Result<Option<Folder>, Failure> {
        let Some(path) = super::text(args, "out") else { return Ok(None) };
        fs::create_dir_all(path).map_err(|error| Failure::Failed(format!("{path}: {error}")))?;
        Ok(Some(Folder(PathBuf::from(path))))
    }

    /// One that is there already, to be read.
    pub fn existing(path: &str) -> Folder {
        Folder(PathBuf::from(path))
    }

    fn failed(&self, name: &str, why: impl std::fmt::Display) -> Failure {
        Failure::Failed(format!("{}: {why}", self.0.join(name).display()))
    }

    fn read(&self, name: &str) -> Result<Option<String>, Failure> {
        let file = match File::open(self.0.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(name, error)),
        };
        let mut text = String::new();
        file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| self.failed(name, error))?;
        match text.len() as u64 > LARGEST {
            true => Err(self.failed(name, format!("larger than {} MiB", LARGEST >> 20))),
            false => Ok(Some(text)),
        }
    }

    pub fn run(&self) -> Result<Option<Run>, Failure> {
        let text = self.read(ROWS)?;
        text.map(|text| Run::read(&text)).transpose().map_err(|why| self.failed(ROWS, why))
    }

    pub fn points(&self) -> Result<Option<Points>, Failure> {
        let text = self.read(POINTS)?;
        text.map(|text| Points::read(&text)).transpose().map_err(|why| self.failed(POINTS, why))
    }

    /// Whether what was kept is of the same question; else says how it differs.
    pub fn goes_on(&self, kept: &Asked, asked: &Asked) -> bool {
        let difference = kept.difference(asked);
        if let Some(difference) = &difference {
            let folder = self.0.display();
            proxy::say(format_args!("{folder}: what is there is of another run ({difference}): begun anew"));
        }
        difference.is_none()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        crate::written::write_in(&self.0, name, text)
    }

    pub fn write_run(&self, run: &Run) -> Result<(), Failure> {
        self.write(ROWS, &run.to_json().map_err(|why| self.failed(ROWS, why))?)?;
        self.write("rows.csv", &lab::report::csv(run))
    }

    pub fn write_points(&self, points: &Points) -> Result<(), Failure> {
        self.write(POINTS, &points.to_lines().map_err(|why| self.failed(POINTS, why))?)
    }

    pub fn add_point(&self, point: &Point) -> Result<(), Failure> {
        let line = Points::line(point).map_err(|why| self.failed(POINTS, why))?;
        let file = OpenOptions::new().append(true).open(self.0.join(POINTS));
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|error| self.failed(POINTS, error))
    }

    /// All that is there.
    pub fn source(&self) -> Result<Source, Failure> {
        let last = self.0.canonicalize().ok();
        let last = last.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let name = last.unwrap_or_else(|| self.0.display().to_string());
        Ok(Source { name, run: self.run()?, points: self.points()? })
    }

    /// Makes the page of what is there.
    pub fn write_report(&self) -> Result<(), Failure> {
        let page = lab::report::page(&[self.source()?]).map_err(|why| self.failed("report.html", why))?;
        self.write("report.html", &page)?;
        proxy::say(format_args!("{}", self.0.join("report.html").display()));
        Ok(())
    }
}
