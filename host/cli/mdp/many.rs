//! `warpkov mdp solve-many`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use warpkov_common::io::Error as FileError;
use warpkov_common::io::output::atomic_write;
use warpkov_mdp::io::{self as formats, Format};
use warpkov_mdp::matrix_free::many::{Many, Named, solve_many_sparse};
use warpkov_mdp::options::{Limits, Precision, SolveOptions, Target};
use warpkov_mdp::solution::Status;
use warpkov_runtime::choose::DeviceChoice;

use super::{Error, Outcome};
use crate::common::file::{FileOrStd, reads};
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::output::print;

/// Solves many small models in one run: on a GPU one block each, on the CPU one core each.
///
/// Every result is certified: the sup-norm error of its values is at most ε. Exit code 0 if all certificates hold, 1 if one does not.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Files of models; folders, whose files are models; and files .jsonl, with a model in JSON on each line.
    #[arg(value_name = "FILE", required = true)]
    inputs: Vec<PathBuf>,
    /// Device: auto, cpu, cuda:N or emulated.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Discount factor γ in [0, 1), in place of those of the models.
    #[arg(long, value_name = "G", value_parser = number::probability)]
    gamma: Option<f64>,
    /// ε: maximum error of the values.
    #[arg(long, value_name = "E", default_value = "1e-6", value_parser = number::positive)]
    epsilon: f64,
    /// Maximum number of sweeps of a model.
    #[arg(long, value_name = "K", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_sweeps: u32,
    /// Write the values and actions of all states of all models to this file as CSV, or with - to the standard output, in place of the
    /// report.
    #[arg(long, value_name = "FILE")]
    out: Option<FileOrStd>,
    /// Print one JSON object. It holds values and policies unless --out is given.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp solve-many machines/ --out values.csv
  warpkov mdp solve-many machines.jsonl --gamma 0.95 --json | jq '.models[].start'
  warpkov mdp solve-many small.json large.json --device cuda:0";

/// What to solve, and the destination of the results.
pub struct Options {
    files: Vec<PathBuf>,
    gamma: Option<f64>,
    solve: SolveOptions,
    out: Option<FileOrStd>,
    json: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { inputs, device, gamma, epsilon, max_sweeps, out, json } = arguments;
        let mut files = Vec::new();
        for input in inputs {
            if !input.is_dir() {
                files.push(input);
                continue;
            }
            let before = files.len();
            let entries = fs::read_dir(&input).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let entries = entries.map_err(FileError::read(&input))?;
            let is_model = |path: &PathBuf| path.is_file() && (is_lines(path) || Format::of_name(path).is_some());
            files.extend(entries.into_iter().map(|entry| entry.path()).filter(is_model));
            files[before..].sort();
            if files.len() == before {
                return Err(Error::Usage(format!("{}: the folder has no files of models", input.display())));
            }
        }
        files.iter().try_for_each(|file| reads(file))?;
        if let Some(out) = &out {
            out.writes()?;
        }
        let limits = Limits { target: Target::Epsilon(epsilon), max_sweeps, ..Limits::default() };
        let solve = SolveOptions { device, precision: Precision::F64, limits, ..SolveOptions::default() };
        Ok(Self { files, gamma, solve, out, json })
    }
}

/// Whether a file has a model on each line.
fn is_lines(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"))
}

/// The models of a file, with their names.
fn models_of(path: &Path) -> Result<Vec<Named>, Error> {
    let name = path.display().to_string();
    if !is_lines(path) {
        return Ok(vec![Named { name, mdp: formats::read(path)? }]);
    }
    let lines = BufReader::new(File::open(path).map_err(FileError::read(path))?).lines();
    let mut models = Vec::new();
    for (number, line) in (1..).zip(lines) {
        let line = line.map_err(FileError::read(path))?;
        if !line.trim().is_empty() {
            let name = format!("{name}:{number}");
            models.push(Named { mdp: formats::read_json(line.as_bytes(), &name)?, name });
        }
    }
    Ok(models)
}

/// Reads the models, solves them, writes the results.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    handle_interrupts();
    let mut models = Vec::new();
    for file in &options.files {
        models.extend(models_of(file)?);
    }
    if let Some(gamma) = options.gamma {
        for model in &mut models {
            let Named { name, mdp } = model;
            let invalid = |error| Error::Usage(format!("{name}: {error}"));
            *mdp = mdp.clone().with_gamma(gamma).map_err(invalid)?;
        }
    }
    let solutions = solve_many_sparse(&models, &options.solve)?;
    let many =
        Many { models: &models, solutions: &solutions, limits: &options.solve.limits, full: options.out.is_none() };
    match &options.out {
        Some(FileOrStd::Standard) => many.write_csv(&mut out)?,
        Some(FileOrStd::At(path)) => {
            atomic_write(path, |file| many.write_csv(file)).map_err(FileError::write(path))?;
            print(&many, options.json, out)?;
        }
        None => print(&many, options.json, out)?,
    }
    let interrupted = solutions.iter().any(|solution| solution.run.status == Status::Interrupted);
    Ok(match many.solved() {
        true => Outcome::Success,
        false if interrupted => Outcome::Interrupted,
        false => Outcome::Negative,
    })
}
