//! `warpkov hmm score`.

use std::io::Write;

use clap::Args;
use warpkov_hmm::backends::device::ForwardMethod;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::report::{ScoreFormat, Scores, WindowScores};
use warpkov_hmm::windows::Windows;

use super::file::{Given, Source};
use super::{Error, Outcome, verify};
use crate::common::choice::{choice, format};
use crate::common::file::FileOrStd;
use crate::common::number;
use crate::common::output::Output;
use crate::common::ranks::Ranks;
use crate::common::watch::Watch;

/// Scores sequences: ln P(O) of each, by the forward recursion.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm score model.json data.txt
  warpkov hmm score model.npz data.npy --lengths lengths.npy --out scores.npy
  warpkov hmm score dna.json genes.fasta --out - --to csv | sort -t , -k 2 -g
  warpkov hmm score dna.json genes.fasta --json | jq .log_likelihoods
  warpkov hmm score dna.json genes.fasta --verify
  warpkov hmm score dna.json genes.fasta --window 100 --step 50 --out windows.csv
  warpkov hmm score model.json data.txt --method slices --device emulated")]
pub struct Arguments {
    #[command(flatten)]
    pub source: Source,
    /// Score each window of W observations by itself, as a sequence that starts with π. Prints one line per window: its sequence, the
    /// position of its first observation, ln P. Overlapping windows take W / S times the work, and up to 2²⁴ observations are copied at a time.
    #[arg(long, value_name = "W", conflicts_with = "verify", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// Observations from the begin of a window to that of the next one.
    #[arg(long, value_name = "S", default_value_t = 1, requires = "window", value_parser = clap::value_parser!(u32).range(1..))]
    step: u32,
    /// Kernels of the forward recursion on a GPU or the emulator.
    #[arg(long, value_parser = choice::<ForwardMethod>(), value_name = "METHOD", default_value_t = ForwardMethod::Fused)]
    method: ForwardMethod,
    /// Write ln P(O) of each sequence to this file, .csv with the names of the sequences or .npy; or with - to the standard output, in
    /// place of the report.
    #[arg(long, value_name = "FILE|-")]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; csv on the standard output].
    #[arg(long, value_parser = format::<ScoreFormat>(), value_name = "FORMAT", requires = "out")]
    to: Option<ScoreFormat>,
    /// Prove the result by intervals with outward rounding, apart from the recursions. E is the largest error of ln P(O), relative or, below 1, absolute [1e-9 without a number]. Exit code 1 if that is not proved.
    #[arg(long, value_name = "E", num_args = 0..=1, require_equals = true, default_missing_value = "1e-9", value_parser = number::non_negative)]
    verify: Option<f64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The sequences to score, and the destination of the scores.
struct Options {
    source: Source,
    method: ForwardMethod,
    /// The observations of a window, and from its begin to that of the next one.
    window: Option<(usize, usize)>,
    output: Output<ScoreFormat>,
    verify: Option<f64>,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { source, window, step, method, out, to, verify, json } = arguments;
        source.check()?;
        source.check_method(method)?;
        let output = Output::new(out, to, json, ScoreFormat::Csv)?;
        let window = window.map(|window| (window as usize, step as usize));
        Ok(Self { source, method, window, output, verify })
    }
}

/// Reads model and sequences, scores, writes the file, prints the report.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let ranks = arguments.source.join()?;
    let options: Options = ranks.agree(arguments.try_into())?;
    let passes = options.window.map_or(1.0, |(window, step)| window as f64 / step as f64);
    let given = options.source.read(&ranks)?.with_method(options.method).with_passes(passes);
    if let Some((window, step)) = options.window {
        return score_windows(&given, &ranks, &options, Windows::new(given.sequences(), window, step), out);
    }
    let (log_likelihoods, context) =
        given.compute(&ranks, OverPaths::Sums, |recursions| recursions.log_likelihoods())?;
    if !ranks.is_first() {
        return Ok(Outcome::Success);
    }
    let mut scores = Scores { context, method: options.method, log_likelihoods };
    given.note_impossible(|sequence| scores.is_possible(sequence));
    let mut watch = Watch::start();
    options.output.write(&scores)?;
    scores.context.phases.write = watch.lap();
    let proof = |limit| verify::scores(&given.model, given.observed(), &scores.log_likelihoods, limit);
    scores.context.verified = options.verify.map(proof).transpose()?;
    options.output.print(&scores, out)?;
    Ok(verify::say("ln P(O) of each sequence is off by", scores.context.verified))
}

/// Scores windows, batch by batch.
fn score_windows(
    given: &Given,
    ranks: &Ranks,
    options: &Options,
    windows: Windows<'_>,
    out: impl Write,
) -> Result<Outcome, Error> {
    if windows.places().is_empty() {
        let longest = (0..given.sequences().len()).map(|sequence| given.sequences().range(sequence).len()).max();
        let message = format!("--window: expected at most {}, the longest sequence", longest.unwrap_or_default());
        return ranks.agree(Err(Error::Usage(message)));
    }
    let (log_likelihoods, context) = given.score_windows(ranks, &windows)?;
    if !ranks.is_first() {
        return Ok(Outcome::Success);
    }
    let places = windows.places().to_vec();
    let mut scores = WindowScores { context, window: windows.window(), places, log_likelihoods };
    let mut watch = Watch::start();
    options.output.write(&scores)?;
    scores.context.phases.write = watch.lap();
    if options.output.path().is_none() {
        options.output.print(&scores, out)?;
    }
    Ok(Outcome::Success)
}
