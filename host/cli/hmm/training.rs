//! What all algorithms of `warpkov hmm train` share: their progress, their end after Ctrl-C, and the destination of the result.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{process, thread};

use warpkov_common::interrupt;
use warpkov_common::plot::{Format as Picture, PlotError};
use warpkov_common::report::Results;
use warpkov_hmm::divided::RankShare;
use warpkov_hmm::io::{self as formats, Format};
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::report::progress;
use warpkov_hmm::train::{Round, Status};
use warpkov_runtime::comm;

use super::file::{Opened, output_format};
use crate::common::file::{FileOrStd, room};
use crate::common::interrupts::handle_interrupts;
use crate::common::output::{Output, Plots};
use crate::common::progress::Steps;
use crate::error::{Error, Outcome};

/// The files of a trained model and its plots, and the report.
pub struct ModelOutput {
    output: Output<Format>,
    /// Whether the model has the standard output.
    streamed: bool,
    plots: Plots,
    /// Whether no progress is shown.
    pub quiet: bool,
}

impl ModelOutput {
    /// Validates the names of the files.
    pub fn new(
        out: Option<FileOrStd>,
        to: Option<Format>,
        plot: Vec<PathBuf>,
        json: bool,
        quiet: bool,
    ) -> Result<Self, Error> {
        let streamed = out == Some(FileOrStd::Standard);
        let file = match out {
            Some(file) => {
                let format = output_format(&file, to)?;
                Some((file, format))
            }
            None => None,
        };
        let output = Output::to_file(file, json)?.quiet(quiet);
        Ok(Self { output, streamed, plots: Plots::new(plot)?, quiet: quiet || json })
    }

    /// Checks that the plots fit the number of ranks, that the format can hold the model, and that the disk has room for it.
    pub fn check(&self, model: &Hmm, ranks: usize) -> Result<(), Error> {
        self.plots.check(ranks)?;
        let Some(format) = self.output.format() else { return Ok(()) };
        formats::holds(format, model).map_err(|message| Error::Usage(format!("--out: {message}")))?;
        self.output.path().map_or(Ok(()), |(path, format)| room(path, least_bytes(format, model)))
    }

    /// Writes the model, and the plots of a training from the model with this name.
    pub fn write(
        &self,
        report: &impl Results<Format = Format>,
        name: &str,
        ranks: &[RankShare],
        draw: impl Fn(Picture) -> Result<Vec<u8>, PlotError>,
    ) -> Result<(), Error> {
        // A full disk must not lose the other results.
        let written = self.output.write(report);
        written.and(self.plots.draw(name, ranks, draw))
    }

    /// Prints the notes and the report; if the model has the standard output, to the standard error.
    pub fn print(
        &self,
        report: &impl Results<Format = Format>,
        notes: &[String],
        out: impl Write,
    ) -> Result<(), Error> {
        notes.iter().for_each(|note| eprintln!("note: {note}"));
        let printed = self.output.print(report, out);
        match report.guarantee() {
            Some(guarantee) if self.streamed && self.quiet => eprintln!("{guarantee}"),
            _ if self.streamed => report.write_text(&mut io::stderr())?,
            _ => {}
        }
        printed
    }
}

/// How the command ends after a training.
pub fn outcome(status: Status) -> Outcome {
    match status {
        Status::Converged => Outcome::Success,
        Status::Iterations | Status::Fell => Outcome::Negative,
        Status::Interrupted => Outcome::Interrupted,
    }
}

/// A lower bound of the bytes of a model.
pub fn least_bytes(format: Format, model: &Hmm) -> u64 {
    let states = u64::from(model.states());
    let of_state = match model.emissions() {
        Emissions::Categorical { symbols, .. } => u64::from(*symbols),
        Emissions::Gaussian { dimensions, .. } => 2 * u64::from(*dimensions),
        Emissions::Channels(channels) => u64::from(channels.dimensions),
    };
    let size = match format {
        Format::Npz => 8,
        // One digit and one separator per number.
        Format::Json | Format::Umdhmm => 2,
    };
    states * (states + of_state) * size
}

/// Runs `train` with an observer that shows the progress of `objective`, and stops it after Ctrl-C. If an E step takes too long then, `finish` writes
/// the result so far, if there is any, and all ranks end.
pub fn watched<T: Clone + Send, R>(
    opened: &Opened,
    steps: Steps,
    objective: &str,
    finish: impl Fn(Option<T>) -> Result<(), Error> + Sync,
    train: impl FnOnce(&mut dyn FnMut(&Round<'_, T>) -> ControlFlow<()>) -> R,
) -> R {
    let so_far = Mutex::new(None);
    handle_interrupts();
    let alone = opened.comm().size() == 1;
    let mut observe = |round: &Round<'_, T>| {
        steps.next();
        steps.say(progress(round, objective));
        *so_far.lock().unwrap_or_else(PoisonError::into_inner) = round.so_far.cloned();
        // Several ranks stop together, in the next E step.
        if alone && interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    thread::scope(|scope| {
        // The end of the training drops the sender.
        let (_training, ended) = mpsc::channel();
        if opened.comm().rank() == 0 {
            scope.spawn(|| end_in_time(&finish, &so_far, ended));
        }
        train(&mut observe)
    })
}

/// Time for an E step to end after Ctrl-C.
const GRACE: Duration = Duration::from_millis(250);

/// Ends this process, and with it all ranks, with the result of the last round if an E step does not end within [`GRACE`] after Ctrl-C: a
/// running kernel cannot be stopped.
fn end_in_time<T>(finish: &impl Fn(Option<T>) -> Result<(), Error>, so_far: &Mutex<Option<T>>, ended: Receiver<()>) {
    let mut asked = None;
    while ended.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
        if !interrupt::requested() || asked.get_or_insert_with(Instant::now).elapsed() < GRACE {
            continue;
        }
        let found = so_far.lock().unwrap_or_else(PoisonError::into_inner).take();
        let code = match finish(found) {
            Ok(()) => 130,
            Err(error) => error.report(),
        };
        comm::abort(code);
        process::exit(code.into());
    }
}
