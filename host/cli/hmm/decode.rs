//! `warpkov hmm decode`.

use std::io::Write;

use clap::{Args, ValueEnum};
use warpkov_common::names::name;
use warpkov_hmm::backend::posterior_path;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::model::Hmm;
use warpkov_hmm::paths::{best_paths, sample_paths};
use warpkov_hmm::report::{PathFormat, PathLists, Paths};

use super::file::{Given, List, Source, list};
use super::{Error, Outcome, verify};
use crate::common::choice::format;
use crate::common::file::{FileOrStd, room};
use crate::common::number;
use crate::common::output::Output;
use crate::common::ranks::Ranks;
use crate::common::watch::Watch;

/// Finds the hidden states of sequences: the most probable path or paths, the most probable state of each step, or paths drawn at random.
///
/// Prints one line per sequence, the names or numbers of its states, or `impossible` if the model cannot emit the sequence. Of equally
/// probable paths, the result is the one whose last state has the lowest number; of those, the one whose last state but one has the
/// lowest number; and so on.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm decode model.json data.txt
  warpkov hmm decode dna.json genes.fasta.gz --missing marginalise --out islands.bed --states CpG
  warpkov hmm decode dna.json genes.fasta.gz --missing marginalise --out islands.bed --classes --states island
  warpkov hmm decode model.json days.csv --columns rain,wind --id station --out states.csv
  warpkov hmm decode model.json data.txt --out - --to csv | head
  warpkov hmm decode model.json data.txt --by posterior --json
  warpkov hmm decode model.json data.txt --best 10
  warpkov hmm decode model.json data.txt --samples 1000 --out paths.npy")]
pub struct Arguments {
    #[command(flatten)]
    pub source: Source,
    /// Criterion of the states.
    #[arg(long, value_enum, default_value = "viterbi")]
    by: Criterion,
    /// List Viterbi: find the K most probable paths of each sequence, all possible ones if they are fewer. Prints ln P(O, q) and q on
    /// each line. Takes 8 bytes for each step, state and path of a sequence. The CPU computes.
    #[arg(long, value_name = "K", conflicts_with_all = ["by", "verify"], value_parser = clap::value_parser!(u32).range(1..))]
    best: Option<u32>,
    /// Draw K paths of each sequence from their distribution given the observations, P(q | O), in place of a best one. The CPU computes.
    #[arg(long, value_name = "K", conflicts_with_all = ["best", "by", "verify"], value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// Seed of --samples: path i of sequence j depends on the seed, i and j alone.
    #[arg(long, value_name = "N", default_value_t = 42, requires = "samples")]
    seed: u64,
    /// Write the states to this file: .txt as printed, .csv, .bed with one line per run of equal states, or .npy with the numbers of the
    /// states (2³² − 1: none); or with - to the standard output.
    #[arg(long, value_name = "FILE|-")]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; text on the standard output].
    #[arg(long, value_parser = format::<PathFormat>(), value_name = "FORMAT", requires = "out")]
    to: Option<PathFormat>,
    /// States whose runs a .bed file holds, or classes with --classes, by name, or by number from 0 if they have no names [default: all].
    #[arg(long, value_name = "LIST", value_parser = list, requires = "out")]
    states: Option<List>,
    /// Show the classes of the states in place of the states: runs of a class in a .bed file, and by posterior the most probable class.
    #[arg(long, conflicts_with = "verify")]
    classes: bool,
    /// Prove the result by intervals with outward rounding, apart from the recursions. E is how far ln P(O, q) of a path may be below that of a best one [1e-9 without a number]. By viterbi. Exit code 1 if that is not proved.
    #[arg(long, value_name = "E", num_args = 0..=1, require_equals = true, default_missing_value = "1e-9", value_parser = number::non_negative)]
    verify: Option<f64>,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

/// What the states maximise.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Criterion {
    /// The probability of the whole path, by Viterbi's algorithm.
    Viterbi,
    /// The posterior probability of each state by itself.
    Posterior,
}

/// Several paths of each sequence.
#[derive(Clone, Copy)]
enum Several {
    /// The most probable ones.
    Best(u32),
    /// Draws with a seed.
    Samples(u32, u64),
}

/// The sequences to decode, and the destination of the paths.
struct Options {
    source: Source,
    by: Criterion,
    several: Option<Several>,
    output: Output<PathFormat>,
    states: Option<List>,
    classes: bool,
    verify: Option<f64>,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { source, by, best, samples, seed, out, to, states, classes, verify, json } = arguments;
        source.check()?;
        let several = best.map(Several::Best).or(samples.map(|count| Several::Samples(count, seed)));
        if several.is_some() {
            source.check_cpu(if best.is_some() { "--best" } else { "--samples" })?;
        }
        let output = Output::new(out, to, json, PathFormat::Text)?;
        if several.is_some() && output.format() == Some(PathFormat::Bed) {
            return Err(Error::Usage("a .bed file holds one path of each sequence".to_owned()));
        }
        if states.is_some() && output.format() != Some(PathFormat::Bed) {
            return Err(Error::Usage("--states selects the states of a .bed file: expected --out FILE.bed".to_owned()));
        }
        if verify.is_some() && by == Criterion::Posterior {
            return Err(Error::Usage("--verify proves paths, expected --by viterbi".to_owned()));
        }
        Ok(Self { source, by, several, output, states, classes, verify })
    }
}

impl Options {
    /// Checks that the disk has room for the paths.
    fn check(&self, given: &Given) -> Result<(), Error> {
        match self.output.path() {
            // There may be fewer paths than asked for.
            Some((path, format)) => room(path, given.sequences().steps() as u64 * format.least_bytes()),
            None => Ok(()),
        }
    }

    /// For each state, whether a .bed file holds its runs.
    fn shown(&self, model: &Hmm) -> Result<Vec<bool>, Error> {
        let Some(List(asked)) = &self.states else { return Ok(vec![true; model.start().len()]) };
        let mut shown = vec![false; model.start().len()];
        let names: Vec<String> = (0..model.states()).map(|state| name(&model.names().states, state)).collect();
        for text in asked {
            let Some(state) = names.iter().position(|name| name == text) else {
                return Err(Error::Usage(format!("--states: the model has no state {text:?}")));
            };
            shown[state] = true;
        }
        Ok(shown)
    }
}

/// Reads model and sequences, decodes, writes the file, prints the paths.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let ranks = arguments.source.join()?;
    let mut options: Options = ranks.agree(arguments.try_into())?;
    let given = options.source.read(&ranks)?;
    // Steps of durations are shown as their states, unless they are to be proved.
    options.classes |= given.model.segments().is_some() && options.verify.is_none();
    let lumped = options.classes.then(|| given.model.by_class());
    let model = lumped.as_ref().unwrap_or(&given.model);
    let shown = ranks.agree(options.check(&given).and_then(|()| options.shown(model)))?;
    if let Some(several) = options.several {
        let mut paths = several_paths(&given, &ranks, several)?;
        paths.context.model = model;
        return write_several(&given, &options, paths, out);
    }
    let mut paths = decode(&given, &ranks, &options, shown)?;
    paths.context.model = model;
    if !ranks.is_first() {
        return Ok(Outcome::Success);
    }
    given.note_impossible(|sequence| paths.is_possible(sequence));
    let mut watch = Watch::start();
    if options.output.format() == Some(PathFormat::Npy) {
        given.note_removed();
    }
    options.output.write(&paths)?;
    paths.context.phases.write = watch.lap();
    let proof = |limit| verify::paths(&given.model, given.observed(), &paths.states, limit);
    paths.context.verified = options.verify.map(proof).transpose()?;
    if options.output.path().is_none() {
        options.output.print(&paths, out)?;
    }
    Ok(verify::say("ln P(O, q) of each path is below the largest one by", paths.context.verified))
}

fn decode<'g>(given: &'g Given, ranks: &Ranks, options: &Options, shown: Vec<bool>) -> Result<Paths<'g>, Error> {
    let classes = options.classes.then(|| given.model.classes());
    Ok(match options.by {
        Criterion::Viterbi => {
            let (decoded, context) = given.compute(ranks, OverPaths::Maxima, |recursions| recursions.viterbi())?;
            let states = match classes {
                Some(classes) => classes.path(&decoded.states),
                None => decoded.states,
            };
            Paths { context, states, scores: Some(decoded.scores), shown }
        }
        Criterion::Posterior => {
            let (posteriors, context) = given.compute(ranks, OverPaths::Sums, |recursions| recursions.posteriors())?;
            let states = match classes {
                Some(classes) => posterior_path(&classes.posteriors(&posteriors), classes.names.len() as u32),
                None => posterior_path(&posteriors, given.model.states()),
            };
            Paths { context, states, scores: None, shown }
        }
    })
}

/// Finds or draws several paths of each sequence.
fn several_paths<'g>(given: &'g Given, ranks: &Ranks, several: Several) -> Result<PathLists<'g>, Error> {
    let sequences = given.sequences();
    let (lists, context) = given.compute_on_cpu(ranks, |model| {
        Ok(match several {
            Several::Best(count) => best_paths(model, sequences, count)?,
            Several::Samples(count, seed) => sample_paths(model, sequences, count, seed)?,
        })
    })?;
    Ok(match several {
        Several::Best(count) => PathLists { context, lists, count, ordered: true },
        Several::Samples(count, _) => PathLists { context, lists, count, ordered: false },
    })
}

fn write_several(given: &Given, options: &Options, mut paths: PathLists, out: impl Write) -> Result<Outcome, Error> {
    if options.classes {
        let classes = given.model.classes();
        paths.lists.iter_mut().flatten().for_each(|path| path.states = classes.path(&path.states));
    }
    given.note_impossible(|sequence| !paths.lists[sequence].is_empty());
    let mut watch = Watch::start();
    if options.output.format() == Some(PathFormat::Npy) {
        given.note_removed();
    }
    options.output.write(&paths)?;
    paths.context.phases.write = watch.lap();
    if options.output.path().is_none() {
        options.output.print(&paths, out)?;
    }
    Ok(Outcome::Success)
}
