//! `warpkov hmm posterior`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::occupancy::occupancy;
use warpkov_hmm::plot::draw_posteriors;
use warpkov_hmm::report::{Occupancies, PosteriorFormat, Posteriors};

use super::file::{Given, Source};
use super::{Error, Outcome};
use crate::common::choice::format;
use crate::common::file::{FileOrStd, room};
use crate::common::output::{Output, Plots};
use crate::common::ranks::Ranks;
use crate::common::watch::Watch;

/// Computes the posterior probability of every state at every step, by the forward and backward recursions.
///
/// Prints a table: sequence, position, and one probability per state.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm posterior model.json data.txt
  warpkov hmm posterior model.json data.txt --out posteriors.npy
  warpkov hmm posterior model.json data.txt --classes
  warpkov hmm posterior model.json data.txt --summary
  warpkov hmm posterior model.json data.txt --out posteriors.csv --plot states.svg --sequence 2")]
pub struct Arguments {
    #[command(flatten)]
    pub source: Source,
    /// Write the probabilities to this file: .csv, or .npy with one row per observation; or with - to the standard output.
    #[arg(long, value_name = "FILE|-")]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; csv on the standard output].
    #[arg(long, value_parser = format::<PosteriorFormat>(), value_name = "FORMAT", requires = "out")]
    to: Option<PosteriorFormat>,
    /// Show the classes of the states in place of the states: the probability of a class is the sum of those of its states.
    #[arg(long)]
    classes: bool,
    /// Report sums over time in their place: for each sequence and state, the expected number of steps (time) and of visits, which are
    /// runs of steps in it. The CPU computes. A .npy file has the shape 2 × sequences × states.
    #[arg(long, conflicts_with = "plot")]
    summary: bool,
    /// Draw the probabilities over time to this file, .svg or .png; as ranks:FILE, the time of each rank in recursions (sweeps), exchange and
    /// waiting. May be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Number of the sequence to draw, from 1.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    sequence: u64,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

/// The sequences, and the destination of the probabilities.
struct Options {
    source: Source,
    output: Output<PosteriorFormat>,
    classes: bool,
    summary: bool,
    plots: Plots,
    sequence: u64,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { source, out, to, classes, summary, plot, sequence, json } = arguments;
        source.check()?;
        if summary {
            source.check_cpu("--summary")?;
        }
        let output = Output::new(out, to, json, PosteriorFormat::Csv)?;
        Ok(Self { source, output, classes, summary, plots: Plots::new(plot)?, sequence })
    }
}

impl Options {
    /// Checks that there is such a sequence, and that the disk has room for the probabilities.
    fn check(&self, given: &Given) -> Result<(), Error> {
        let (sequence, count) = (self.sequence, given.sequences().len());
        if sequence > count as u64 {
            let message = format!("--sequence {sequence}: expected 1 to {count}, the number of sequences");
            return Err(Error::Usage(message));
        }
        let rows = if self.summary { 2 * count } else { given.sequences().steps() };
        let numbers = rows as u64 * u64::from(given.model.states());
        match self.output.path() {
            Some((path, format)) => room(path, numbers * format.least_bytes()),
            None => Ok(()),
        }
    }

    /// Draws the probabilities of one sequence, and the time of the ranks, if plots are requested.
    fn draw(&self, posteriors: &Posteriors) -> Result<(), Error> {
        let (sequence, records) = (self.sequence as usize - 1, posteriors.context.records);
        let (name, first) = (records.name(sequence), records.positions(sequence).next().unwrap_or(0) + 1);
        let model = self.source.input.model.name();
        let title = format!("{model}, sequence {name}: posterior of states");
        // Rows of zeros stand for observations that were removed.
        let (n, at) = (posteriors.context.model.start().len(), records.positions(sequence));
        let mut shown = Vec::new();
        for (position, row) in at.zip(posteriors.of_sequence(sequence).chunks_exact(n)) {
            shown.resize((position + 1 - first).saturating_mul(n as u64) as usize, 0.0);
            shown.extend_from_slice(row);
        }
        self.plots.draw(&model, &posteriors.context.ranks, |format| {
            draw_posteriors(&title, posteriors.context.model, &shown, first, format)
        })
    }
}

/// Reads model and sequences, computes the probabilities, writes file and plot, prints the table.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let ranks = arguments.source.join()?;
    let mut options: Options = ranks.agree(arguments.try_into())?;
    let given = options.source.read(&ranks)?;
    // Steps of durations are shown as their states.
    options.classes |= given.model.segments().is_some();
    ranks.agree(options.check(&given).and_then(|()| options.plots.check(given.ranks(&ranks))))?;
    if options.summary {
        return summarise(&given, &ranks, &options, out);
    }
    let (probabilities, context) = given.compute(&ranks, OverPaths::Sums, |recursions| recursions.posteriors())?;
    if !ranks.is_first() {
        return Ok(Outcome::Success);
    }
    let lumped = options.classes.then(|| given.model.by_class());
    let mut posteriors = Posteriors { context, probabilities };
    if let Some(model) = &lumped {
        posteriors.probabilities = given.model.classes().posteriors(&posteriors.probabilities);
        posteriors.context.model = model;
    }
    given.note_impossible(|sequence| posteriors.is_possible(sequence));
    let mut watch = Watch::start();
    if options.output.format() == Some(PosteriorFormat::Npy) {
        given.note_removed();
    }
    options.output.write(&posteriors)?;
    options.draw(&posteriors)?;
    posteriors.context.phases.write = watch.lap();
    if options.output.path().is_none() {
        options.output.print(&posteriors, out)?;
    }
    Ok(Outcome::Success)
}

/// Writes the expected time in each state, and the visits.
fn summarise(given: &Given, ranks: &Ranks, options: &Options, out: impl Write) -> Result<Outcome, Error> {
    let (lumped, classes) = (given.model.by_class(), given.model.classes());
    let classes = options.classes.then_some(&classes);
    let expected = given.compute_on_cpu(ranks, |model| Ok(occupancy(model, given.sequences(), classes)?))?;
    let (occupancy, mut context) = expected;
    context.model = if options.classes { &lumped } else { &given.model };
    let found = Occupancies { context, occupancy };
    given.note_impossible(|sequence| found.is_possible(sequence));
    options.output.write(&found)?;
    if options.output.path().is_none() {
        options.output.print(&found, out)?;
    }
    Ok(Outcome::Success)
}
