//! `warpkov hmm train`.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{process, thread};

use clap::{Args, ValueEnum};
use serde_json::json;
use warpkov::common::io::output;
use warpkov::common::{interrupt, plot};
use warpkov::hmm::generate::restart;
use warpkov::hmm::io::Format;
use warpkov::hmm::model::{Covariances, Emissions, Hmm};
use warpkov::hmm::options::{Options, Precision, Pseudocounts};
use warpkov::hmm::plot::draw_training;
use warpkov::hmm::train::{Held, Round, Spread, Status, Trained, aic, bic, train};
use warpkov::hmm::{io as formats, train as training};
use warpkov::runtime;

use super::file::{Data, Given, Input, Phases, Watch, numbers, output_format, print_json, write};
use super::{Error, Outcome};
use crate::cli::common::choice::choice;
use crate::cli::common::file::{ModelFile, plot_format, room, write_whole};
use crate::cli::common::interrupts::handle_interrupts;
use crate::cli::common::number;
use crate::cli::progress::Steps;

/// Trains a model by the algorithm of Baum and Welch: to the highest likelihood that is near.
///
/// What is 0 in MODEL stays 0. Exit code 0 if the best model has converged, 1 if it has not within the iterations allowed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm train model.json data.txt --out trained.json
  warpkov hmm train model.json data.txt --restarts 20 --seed 7 --out trained.json --plot training.svg
  warpkov hmm train model.npz data.npy --lengths lengths.npy --pseudocount 0.1 --out trained.npz")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    data: Data,
    /// Random models of the same shape to train beside MODEL; the best of all is the result.
    #[arg(long, value_name = "N", default_value_t = 0)]
    restarts: u32,
    /// Seed of what is random.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Iterations at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    iterations: u32,
    /// Stop when the relative increase of the log-likelihood is at most X.
    #[arg(long, value_name = "X", default_value = "1e-6", value_parser = number::non_negative)]
    tolerance: f64,
    /// What to add to each expected count of π, A, B and ends that is not always 0: a Dirichlet prior.
    #[arg(long, value_name = "C", default_value = "0", value_parser = number::non_negative)]
    pseudocount: f64,
    /// Least variance in each dimension that training may come to, as a fraction of the variance of all observations there. Smaller ones in
    /// MODEL stay.
    #[arg(long, value_name = "X", default_value = "1e-9", value_parser = number::positive)]
    floor: f64,
    /// Covariances to train [default: as MODEL has them].
    #[arg(long, value_enum, value_name = "KIND")]
    covariances: Option<Kind>,
    /// Write the trained model to this file, or - for the standard output.
    #[arg(long, value_name = "FILE|-")]
    out: Option<ModelFile>,
    /// Format of --out [default: as its extension says; JSON on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
    /// Draw the log-likelihood against the iterations to this file, .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

/// Which entries of covariances are trained.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Kind {
    /// The variances alone.
    Diagonal,
    /// All of them.
    Full,
}

/// The model with covariances of a kind.
fn with_covariances(model: Hmm, kind: Option<Kind>) -> Result<Hmm, Error> {
    let Some(kind) = kind else { return Ok(model) };
    let mut parts = model.into_parts();
    let Emissions::Gaussian { dimensions, covariances, .. } = &mut parts.emissions else {
        return Err(Error::Usage("--covariances is for models that emit numbers".to_owned()));
    };
    let (d, given) = (*dimensions as usize, std::mem::replace(covariances, Covariances::Diagonal(Vec::new())));
    *covariances = match kind {
        Kind::Diagonal => given.diagonal(d),
        Kind::Full => given.full(d),
    };
    parts.validated().map_err(|error| Error::Usage(format!("--covariances: {error}")))
}

/// Bytes that a model takes at least.
fn least(format: Format, model: &Hmm) -> u64 {
    let states = u64::from(model.states());
    let of_state = match model.emissions() {
        Emissions::Categorical { symbols, .. } => u64::from(*symbols),
        Emissions::Gaussian { dimensions, .. } => 2 * u64::from(*dimensions),
    };
    let size = match format {
        Format::Npz => 8,
        // A digit, and what stands between numbers.
        Format::Json | Format::Umdhmm => 2,
    };
    states * (states + of_state) * size
}

/// Reads, trains, writes, prints.
pub fn run(arguments: &Arguments, out: impl Write) -> Result<Outcome, Error> {
    let format = arguments.out.as_ref().map(|file| output_format(file, arguments.to)).transpose()?;
    let drawn = arguments.plot.as_deref().map(plot_format).transpose()?;
    let streamed = arguments.out == Some(ModelFile::Standard);
    if streamed && arguments.json {
        return Err(Error::Usage("--json and --out - both print to the standard output".to_owned()));
    }
    if arguments.data.marginalises() {
        let message = "--missing marginalise is for score, decode and posterior; to train, split or skip";
        return Err(Error::Usage(message.to_owned()));
    }
    let mut watch = Watch::start();
    let given = arguments.data.read(&arguments.input)?;
    let read = watch.lap();
    let sequences = given.sequences();
    let model = with_covariances(given.model.clone(), arguments.covariances)?;
    if let Some(format) = format {
        formats::holds(format, &model).map_err(|message| Error::Usage(format!("--out: {message}")))?;
        if let Some(ModelFile::At(path)) = &arguments.out {
            room(path, least(format, &model))?;
        }
    }
    let place = arguments.data.place(&given)?;
    let start = watch.lap();
    let precision = arguments.data.precision(&place, &given);
    let count = arguments.restarts as usize + 1;
    let (mut recursions, device) = (arguments.data.recursions(&place, &model, count, sequences)?, place.name());
    let pseudocount = arguments.pseudocount;
    let options = Options {
        iterations: arguments.iterations,
        tolerance: arguments.tolerance,
        pseudocounts: Pseudocounts { start: pseudocount, transitions: pseudocount, emissions: pseudocount },
        floor: arguments.floor,
        slack: precision.slack(),
    };
    let random = |stream: u32| restart(&model, sequences, arguments.seed, stream.into());
    let random: Vec<Hmm> = (0..arguments.restarts).map(random).collect();
    let models = std::iter::once(model).chain(random).collect();
    let job = Job { arguments, given: &given, format, drawn, device, precision, read, start, watch };
    let so_far = Mutex::new(None);
    handle_interrupts();
    let progress = Steps::new(arguments.iterations as usize + 1, arguments.quiet);
    let mut observe = |round: &Round| {
        progress.next();
        progress.say(format!("ln P(O) {:.6}, {} in training", round.objective, round.active));
        *so_far.lock().unwrap_or_else(PoisonError::into_inner) = round.so_far.cloned();
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let trained = thread::scope(|scope| {
        // Dropped when training has ended.
        let (_training, ended) = mpsc::channel();
        scope.spawn(|| end_in_time(&job, &so_far, ended));
        train(&mut *recursions, models, &options, &mut observe)
    });
    let trained = trained.map_err(|error| match error {
        training::Error::Impossible { sequence } => {
            Error::Usage(format!("{}: its likelihood is 0, and stays so", given.why_impossible(sequence - 1)))
        }
        error => error.into(),
    })?;
    drop(progress);
    job.finish(&trained, out)
}

/// Time that an E step has to end after Ctrl-C.
const GRACE: Duration = Duration::from_millis(250);

/// Ends the process with the model of the last round where an E step goes on after Ctrl-C: a kernel cannot be left off in the midst.
fn end_in_time(job: &Job, so_far: &Mutex<Option<Trained>>, ended: Receiver<()>) {
    let mut asked = None;
    while ended.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
        if !interrupt::requested() || asked.get_or_insert_with(Instant::now).elapsed() < GRACE {
            continue;
        }
        let trained = so_far.lock().unwrap_or_else(PoisonError::into_inner).take();
        let finished = match trained {
            // The thread that trains holds the lock of the standard output.
            Some(trained) => output::stdout().map_err(Error::from).and_then(|out| job.finish(&trained, out)),
            None => Err(runtime::Error::Interrupted.into()),
        };
        process::exit(match finished {
            Ok(_) => 130,
            Err(error) => error.report().into(),
        });
    }
}

/// What was asked for, and what is said of it.
struct Job<'a> {
    arguments: &'a Arguments,
    given: &'a Given,
    /// Of the model.
    format: Option<Format>,
    /// Of the plot.
    drawn: Option<plot::Format>,
    device: String,
    precision: Precision,
    /// Seconds of phases.
    read: f64,
    start: f64,
    /// From the end of these on.
    watch: Watch,
}

impl Job<'_> {
    /// Writes, prints.
    fn finish(&self, trained: &Trained, mut out: impl Write) -> Result<Outcome, Error> {
        let &Self { arguments, given, format, drawn, ref device, precision, read, start, mut watch } = self;
        let (solve, sequences) = (watch.lap(), given.sequences());
        let streamed = arguments.out == Some(ModelFile::Standard);
        let best = trained.best();
        let (iterations, log) = (best.log_likelihoods.len() - 1, best.log_likelihood());
        // Neither a full disk nor a closed pipe may cost the other results.
        let written = match (&arguments.out, format) {
            (Some(file), Some(format)) => write(file, format, &best.model, &mut out),
            _ => Ok(()),
        };
        let drawn = match (&arguments.plot, drawn) {
            (Some(path), Some(format)) => {
                let title = format!("{}: ln P(O) = {log:.6} after {iterations} iterations", arguments.input.name());
                draw_training(&title, trained, format)
                    .map_err(Error::from)
                    .and_then(|picture| write_whole(path, |out| out.write_all(&picture)))
            }
            _ => Ok(()),
        };
        let phases = Phases { read, start, solve, write: watch.lap() };
        let (aic, bic) = (aic(&best.model, log), bic(&best.model, sequences, log));
        let held = match iterations {
            0 => Held::default(),
            _ => Held::new(&best.model, &Spread::new(sequences).floors(arguments.floor)),
        };
        if held.states > 0 {
            let Held { states, variances } = held;
            let all = best.model.states();
            eprintln!(
                "note: the floor holds variances of {states} of {all} states, {variances} in all (--floor {:e})",
                arguments.floor
            );
        }
        if let Some(from) = best.fell {
            let to = best.objective();
            eprintln!(
                "note: the likelihood fell from {from} to {to}: {precision} is too inexact for this model and these sequences"
            );
        }
        let status = match trained.status {
            Status::Converged => "converged",
            Status::Iterations => "not converged",
            Status::Interrupted => "interrupted",
            Status::Fell => "not converged",
        };
        if arguments.json {
            let mut object = json!({
                "status": status, "iterations": iterations, "log_likelihood": log, "aic": aic, "bic": bic,
                "log_likelihoods": numbers(&best.log_likelihoods), "best": trained.best, "models": trained.runs.len(),
                "all": trained.runs.iter().map(|run| run.log_likelihood()).collect::<Vec<_>>(),
                "seconds": solve, "phases": phases, "device": device, "precision": precision, "floor": arguments.floor, "floored": held,
                "fell": best.fell,
            });
            given.describe(&mut object);
            print_json(&mut out, &object)?;
        } else {
            // The model has the standard output.
            let mut report: Box<dyn Write> = if streamed { Box::new(io::stderr()) } else { Box::new(&mut out) };
            let starts = match trained.runs.len() {
                1 => String::new(),
                models => format!(", the best of {models} models"),
            };
            writeln!(report, "Status           {status} after {iterations} iterations{starts}")?;
            writeln!(report, "ln P(O)          {:.6} at first, {log:.6} at last", best.log_likelihoods[0])?;
            writeln!(report, "AIC, BIC         {aic:.3}, {bic:.3}")?;
            let Phases { read, write, .. } = phases;
            writeln!(report, "Time             {solve:.3} s on {device}, {precision}")?;
            writeln!(report, "  files          {read:.3} s to read, {write:.3} s to write")?;
        }
        written?;
        drawn?;
        Ok(match trained.status {
            Status::Converged => Outcome::Success,
            Status::Iterations | Status::Fell => Outcome::Negative,
            Status::Interrupted => Outcome::Interrupted,
        })
    }
}
