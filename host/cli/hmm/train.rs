//! `warpkov hmm train`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpkov_common::checkpoint::{Checkpoints, Hash};
use warpkov_common::io::output;
use warpkov_hmm::checkpoint::{Checkpoint, hash};
use warpkov_hmm::generate::Start;
use warpkov_hmm::io::Format;
use warpkov_hmm::io::sequences::{Records, read_states, read_tied_transitions, read_weights};
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::{self, By, Constraint, Pseudocounts};
use warpkov_hmm::plot::draw_training;
use warpkov_hmm::report::{Context, Training};
use warpkov_hmm::run::Running;
use warpkov_hmm::select::{self, Candidate, HeldOut, shape};
use warpkov_hmm::train::{self as training, Run, Session, Status, Trained, train_session};
use warpkov_runtime as runtime;

use super::file::{Given, Opened, Source};
use super::restrict::{Freezable, Kind, frozen, kept, tied, ties, with_covariances};
use super::training::{ModelOutput, least_bytes, outcome, watched};
use super::{Error, Outcome, stochastic, variational};
use crate::common::checkpoint;
use crate::common::choice::choice;
use crate::common::file::{FileOrStd, reads};
use crate::common::number;
use crate::common::output::Quiet;
use crate::common::progress::Steps;
use crate::common::watch::Watch;

/// An algorithm of training.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Algorithm {
    /// By all paths and their probabilities: maximises P(O).
    BaumWelch,
    /// Segmental k-means, by the most probable path q: maximises P(O, q).
    Viterbi,
    /// Variational Bayes, a posterior: maximises a bound of the evidence.
    Variational,
    /// Stochastic EM, for files that do not fit in memory: lines, FASTA, .npy.
    Stochastic,
}

impl Algorithm {
    /// The name that the command line has for it.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Trains a model by the algorithm of Baum and Welch, which finds a local maximum of the likelihood, by best paths, by variational
/// Bayes, or by batches of a file that does not fit in memory.
///
/// Probabilities that are 0 in MODEL stay 0. Exit code 0 if the best model has converged, 1 if it has not within --iterations.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm train model.json data.txt --out trained.json
  warpkov hmm train model.json data.csv --missing marginalise --out trained.json
  warpkov hmm train model.json data.txt --restarts 20 --out trained.json --plot training.svg
  warpkov hmm train model.json data.txt --choose-states 1..6 --restarts 10 --out trained.json
  warpkov hmm train model.json data.txt --checkpoint part.checkpoint --out trained.json
  warpkov hmm train model.json data.txt --resume part.checkpoint --out trained.json
  warpkov hmm train classes.json data.txt --tie --sticky 10 --out trained.json
  warpkov hmm train model.json data.csv --restarts 20 --start kmeans --by viterbi --out trained.json
  warpkov hmm train model.json data.txt --by variational --posterior posterior.json --out mean.json
  warpkov hmm train model.json large.fasta --by stochastic --batch 1000 --out trained.json
  warpkov hmm train model.json data.txt --states states.txt --weights weights.txt --out trained.json
  warpkov hmm train model.npz data.npy --lengths lengths.npy --pseudocount 0.1 --out trained.npz")]
pub struct Arguments {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    known: Supervision,
    /// Number of random models of the same shape to train beside MODEL. The best model is the result.
    #[arg(long, value_name = "N", default_value_t = 0)]
    restarts: u32,
    /// Seed of the random models.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Means of the random models: observations, or centres of clusters by k-means++.
    #[arg(long, value_parser = choice::<Start>(), value_name = "random|kmeans", default_value_t = Start::Random, hide_possible_values = true)]
    start: Start,
    /// Choose the number of states, as in 1..6 or 2,4,8: train --restarts random models of each, at least one, and take the best by BIC.
    #[arg(long, value_name = "NUMBERS", value_parser = numbers,
        conflicts_with_all = ["freeze", "tie", "tie_transitions", "states", "checkpoint", "resume", "auto_resume"])]
    choose_states: Option<Numbers>,
    /// Choose by the likelihood of this part of the sequences, drawn at random, and train on the others.
    #[arg(long, value_name = "PART", value_parser = part, requires = "choose_states")]
    held_out: Option<f64>,
    /// Algorithm of training.
    #[arg(long, value_enum, value_name = "ALGORITHM", default_value = "baum-welch")]
    by: Algorithm,
    #[command(flatten)]
    beliefs: variational::Arguments,
    #[command(flatten)]
    batches: stochastic::Arguments,
    /// Maximum number of iterations; of --by stochastic, of passes over the file.
    #[arg(long, value_name = "N", default_value_t = 100)]
    iterations: u32,
    /// Stop when the relative increase of the log-likelihood is at most X [default: 1e-6; 0 with --tolerance-absolute].
    #[arg(long, value_name = "X", value_parser = number::non_negative)]
    tolerance: Option<f64>,
    /// Stop when the increase of the log-likelihood is at most X: hmmlearn's tol.
    #[arg(long, value_name = "X", value_parser = number::non_negative)]
    tolerance_absolute: Option<f64>,
    /// Pseudocount to add to each expected count of π, A, B and ends that is not always 0: a Dirichlet prior.
    #[arg(long, value_name = "C", default_value = "0", value_parser = number::non_negative)]
    pseudocount: f64,
    /// Pseudocount to add to the expected counts of all transitions from a state to itself: states then last.
    #[arg(long, value_name = "C", default_value = "0", value_parser = number::non_negative)]
    sticky: f64,
    /// Least variance that training sets in each dimension, as a fraction of the variance of all observations in it. Smaller variances
    /// in MODEL stay [default: 1e-9].
    #[arg(long, value_name = "X", value_parser = number::positive)]
    floor: Option<f64>,
    /// Kind of the covariances to train [default: that of MODEL].
    #[arg(long, value_enum, value_name = "KIND")]
    covariances: Option<Kind>,
    /// Tie the emissions of the states of each class in MODEL: they share all parameters, which start at their means.
    #[arg(long)]
    tie: bool,
    /// File of the transitions to tie: a line per state with the name of a class for each transition from it, - for one on its own, or .npy
    /// with numbers. Those of a class share their probability, which starts at their mean.
    #[arg(long, value_name = "FILE")]
    tie_transitions: Option<PathBuf>,
    /// Parameters that keep their values in MODEL; separated by commas.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    freeze: Vec<Freezable>,
    /// Write the trained model to this file; or with - to the standard output, and the report to the standard error.
    #[arg(long, value_name = "FILE|-")]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT", requires = "out")]
    to: Option<Format>,
    #[command(flatten)]
    checkpoints: checkpoint::Arguments,
    /// Draw the log-likelihood against the iterations to this file, .svg or .png; as ranks:FILE, the time of each rank in recursions (sweeps),
    /// exchange and waiting. May be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

/// Numbers of states.
#[derive(Clone, Debug)]
struct Numbers(Vec<u32>);

/// Reads numbers as in 1..6 or 2,4,8.
fn numbers(text: &str) -> Result<Numbers, String> {
    let number = |text: &str| text.trim().parse().ok().filter(|&number: &u32| number > 0);
    let all: Option<Vec<u32>> = match text.split_once("..") {
        Some((first, last)) => number(first).zip(number(last)).map(|(first, last)| (first..=last).take(1000).collect()),
        None => text.split(',').map(number).collect(),
    };
    match all {
        Some(all) if !all.is_empty() => Ok(Numbers(all)),
        _ => Err("expected numbers of at least 1, as in 1..6 or 2,4,8".to_owned()),
    }
}

/// Reads a part between none and all.
fn part(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|part: &f64| *part > 0.0 && *part < 1.0);
    found.ok_or_else(|| "expected a number between 0 and 1".to_owned())
}

/// What is known of the sequences beside their observations.
#[derive(Args)]
struct Supervision {
    /// File of known states, which restrict the paths: one line per sequence, as `hmm decode --out` writes it, with - or ? where a
    /// state is unknown; or .npy with the numbers of all states, below 0 where unknown. If all are known, the model is that of their counts.
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    states: Option<PathBuf>,
    /// File of the weights of the sequences, one number per line, or .npy: training maximises the sum of w ln P(O).
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    weights: Option<PathBuf>,
}

impl Supervision {
    /// Adds what is known to the sequences.
    fn read(&self, mut given: Given) -> Result<Given, Error> {
        let Self { states, weights } = self;
        if states.is_none() && weights.is_none() {
            return Ok(given);
        }
        let Records { sequences, starts, positions, .. } = &given.records;
        if !(starts.is_empty() && positions.is_empty()) {
            let message =
                "--states and --weights are those of whole sequences, expected --missing refuse or marginalise";
            return Err(Error::Usage(message.to_owned()));
        }
        states.iter().chain(weights).try_for_each(|file| reads(file))?;
        let mut known = sequences.clone();
        if let Some(file) = states {
            known = read_states(file, known, &given.model)?;
        }
        if let Some(file) = weights {
            known = read_weights(file, known)?;
        }
        given.records.sequences = known;
        Ok(given)
    }
}

impl Arguments {
    /// Refuses options that are for other algorithms.
    fn check(&self) -> Result<(), Error> {
        let (by, of_beliefs, of_batches) = (self.by, self.beliefs.asked(), self.batches.asked());
        for (option, algorithm) in [(of_beliefs, Algorithm::Variational), (of_batches, Algorithm::Stochastic)] {
            if let (Some(option), true) = (option, by != algorithm) {
                return Err(Error::Usage(format!("{option} is for --by {}", algorithm.name())));
            }
        }
        if self.tie_transitions.is_some() && self.freeze.contains(&Freezable::Transitions) {
            return Err(Error::Usage("--tie-transitions changes what --freeze transitions keeps".to_owned()));
        }
        let means = [Freezable::Means, Freezable::Covariances].map(|part| self.freeze.contains(&part));
        let others: &[(bool, &str)] = match by {
            Algorithm::BaumWelch | Algorithm::Viterbi => return Ok(()),
            Algorithm::Variational => &[
                (self.tie, "--tie"),
                (self.tie_transitions.is_some(), "--tie-transitions"),
                (self.floor.is_some(), "--floor"),
                (self.held_out.is_some(), "--held-out"),
                (self.covariances == Some(Kind::Spherical), "--covariances spherical"),
                (means == [true, false], "--freeze means without covariances"),
                (means == [false, true], "--freeze covariances without means"),
            ],
            Algorithm::Stochastic => &[
                (self.restarts > 0, "--restarts"),
                (self.choose_states.is_some(), "--choose-states"),
                (self.known.states.is_some(), "--states"),
                (self.known.weights.is_some(), "--weights"),
                (self.iterations == 0, "--iterations 0"),
            ],
        };
        let given = others.iter().find(|(given, _)| *given).map(|(_, option)| *option);
        match given.or(self.checkpoints.asked()) {
            Some(option) => Err(Error::Usage(format!("{option} is not for --by {}", by.name()))),
            None => self.beliefs.check(),
        }
    }
}

/// The models to train, and the destination of the result.
struct Options {
    source: Source,
    known: Supervision,
    restarts: u32,
    seed: u64,
    start: Start,
    choose: Option<Vec<u32>>,
    held_out: Option<f64>,
    /// All but the slack, which depends on the precision.
    training: options::Options,
    covariances: Option<Kind>,
    tie: bool,
    tie_transitions: Option<PathBuf>,
    freeze: Vec<Freezable>,
    algorithm: Algorithm,
    beliefs: variational::Arguments,
    batches: stochastic::Arguments,
    output: ModelOutput,
    checkpoints: checkpoint::Options,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        arguments.check()?;
        let Arguments {
            source,
            known,
            restarts,
            seed,
            start,
            by,
            beliefs,
            batches,
            iterations,
            pseudocount,
            sticky,
            floor,
            tolerance,
            tolerance_absolute: absolute,
            choose_states,
            held_out,
            covariances,
            tie,
            tie_transitions,
            freeze,
            out,
            to,
            checkpoints,
            plot,
            json,
            quiet: Quiet { quiet },
        } = arguments;
        source.check()?;
        if restarts == 0 && choose_states.is_none() && start != Start::Random {
            return Err(Error::Usage("--start is that of random models, expected --restarts".to_owned()));
        }
        let pseudocounts = Pseudocounts::equal(pseudocount);
        let constraint = covariances.map_or(Constraint::None, Kind::constraint);
        let default = options::Options::default();
        let tolerance = tolerance.unwrap_or(if absolute.is_some() { 0.0 } else { default.tolerance });
        let tolerance_absolute = absolute.unwrap_or_default();
        let training = options::Options {
            by: if by == Algorithm::Viterbi { By::Viterbi } else { By::BaumWelch },
            iterations,
            tolerance,
            tolerance_absolute,
            pseudocounts,
            sticky,
            constraint,
            floor: floor.unwrap_or(default.floor),
            ..default
        };
        let output = ModelOutput::new(out, to, plot, json, quiet)?;
        Ok(Self {
            source,
            known,
            restarts,
            seed,
            start,
            choose: choose_states.map(|Numbers(all)| all),
            held_out,
            training,
            covariances,
            tie,
            tie_transitions,
            freeze,
            algorithm: by,
            beliefs,
            batches,
            output,
            checkpoints: checkpoints.try_into()?,
        })
    }
}

impl Options {
    /// Checks that the format can hold the model, and that the disk has room for it and for checkpoints.
    fn check(&self, model: &Hmm, ranks: usize) -> Result<(), Error> {
        self.checkpoints.room((u64::from(self.restarts) + 1) * least_bytes(Format::Npz, model))?;
        self.output.check(model, ranks)
    }

    /// The classes of the transitions that are tied.
    fn tied_transitions(&self, model: &Hmm) -> Result<Vec<u32>, Error> {
        let Some(file) = &self.tie_transitions else { return Ok(Vec::new()) };
        reads(file)?;
        Ok(read_tied_transitions(file, model)?)
    }

    /// Draws the sequences that are held out, which then weigh nothing.
    fn hold_out(&self, mut given: Given) -> Result<(Given, Option<HeldOut>), Error> {
        let Some(part) = self.held_out else { return Ok((given, None)) };
        let sequences = given.records.sequences.clone();
        let drawn = HeldOut::draw(sequences, part, self.seed);
        let (sequences, held) = drawn.map_err(|error| Error::Usage(format!("--held-out: {error}")))?;
        given.records.sequences = sequences;
        Ok((given, Some(held)))
    }

    /// The models to train together, of each number of states.
    fn trainings(&self, model: Hmm, given: &Given) -> Result<Vec<Vec<Hmm>>, Error> {
        let with_random = || Ok([vec![model.clone()], self.random(&model, given, self.restarts)?].concat());
        let of_number = |&states: &u32| {
            if states == model.visits().states() {
                return with_random();
            }
            let shape = shape(&model, states).map_err(|error| Error::Usage(format!("--choose-states: {error}")))?;
            self.random(&shape, given, self.restarts.max(1))
        };
        match &self.choose {
            Some(numbers) => numbers.iter().map(of_number).collect(),
            None => Ok(vec![with_random()?]),
        }
    }

    /// Random models of the shape of `model`.
    fn random(&self, model: &Hmm, given: &Given, count: u32) -> Result<Vec<Hmm>, Error> {
        let ties = options::Options { ties: ties(model, self.tie)?, ..self.training.clone() };
        let random = |stream: u32| {
            let fresh = self.start.model(model, given.sequences(), self.seed, stream.into());
            tied(kept(with_covariances(fresh, self.covariances)?, model, self.training.frozen)?, &ties)
        };
        (0..count).map(random).collect()
    }
}

/// Reads model and sequences, trains, writes the model and the plot, prints the report.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let ranks = arguments.source.join()?;
    let mut options: Options = ranks.agree(arguments.try_into())?;
    options.checkpoints.join(&ranks)?;
    // Of stochastic EM, the first batch.
    let first = (options.algorithm == Algorithm::Stochastic).then(|| options.batches.batch());
    let given = options.source.read_some(&ranks, first)?;
    let given = ranks.agree(options.known.read(given))?;
    let (given, held) = ranks.agree(options.hold_out(given))?;
    ranks.same_files()?;
    options.training.ties = ranks.agree(ties(&given.model, options.tie))?;
    options.training.tied_transitions = ranks.agree(options.tied_transitions(&given.model))?;
    let model = with_covariances(given.model.clone(), options.covariances);
    let model = model.and_then(|model| tied(model, &options.training));
    let model = ranks.agree(model.and_then(|model| options.check(&model, given.ranks(&ranks)).map(|()| model)))?;
    options.training.frozen = ranks.agree(frozen(&model, &options.freeze))?;
    if first.is_some() {
        let (source, output, batches, options) = (&options.source, &options.output, options.batches, &options.training);
        return stochastic::Streaming { source, given: &given, model, options, batches, output }.run(&ranks, out);
    }
    let trainings = ranks.agree(options.trainings(model, &given))?;
    if options.algorithm == Algorithm::Variational {
        let files = &options.beliefs;
        let (options, output, name) = (&options.training, &options.output, options.source.input.model.name());
        return variational::Task { given: &given, name, starts: &trainings, options, files, output }.run(&ranks, out);
    }
    let models = &trainings[0];
    let data = (given.sequences(), &given.records.sets[..]);
    let read = |path| Checkpoint::read(path, models, data, &options.training);
    let resume = ranks.agree(options.checkpoints.resume().map(read).transpose().map_err(Error::from))?;
    let writes = options.checkpoints.are_written() && ranks.is_first();
    let model = if writes { hash(models, data) } else { Hash::default() };
    let trained = given.run(&ranks, |opened| {
        let (mut all, mut candidates) = (Vec::new(), Vec::new());
        for models in &trainings {
            let (context, resume) = (opened.context(), resume.as_ref());
            // The steps of durations are tied, which differ with the number of states.
            let training = options::Options { ties: ties(&models[0], options.tie)?, ..options.training.clone() };
            let watch = Watch::start();
            let mut job = Job { options: &options, training, context, resume, hash: model, watch };
            let (trained, checkpoints, logs) = job.train(opened, models).map_err(|error| match error {
                Error::Train(training::Error::Impossible { sequence }) => {
                    Error::Usage(format!("{}: its likelihood is 0, and stays so", given.why_impossible(sequence - 1)))
                }
                error => error,
            })?;
            if !logs.is_empty() {
                candidates.push(Candidate::new(&trained, &logs, &job.training, given.sequences(), held.as_ref()));
            }
            let interrupted = trained.status == Status::Interrupted;
            all.push((job, trained, checkpoints));
            if interrupted {
                break;
            }
        }
        let interrupted = all.last().is_some_and(|(_, trained, _)| trained.status == Status::Interrupted);
        let (job, mut trained, checkpoints) = all.swap_remove(select::best(&candidates));
        if interrupted {
            trained.status = Status::Interrupted;
        }
        Ok((job, trained, checkpoints, candidates))
    });
    let (job, trained, checkpoints, candidates) = trained?;
    if ranks.is_first() {
        job.finish(&trained, &candidates, out)?;
    }
    checkpoint::finish(checkpoints)?;
    Ok(outcome(trained.status))
}

/// A training run.
struct Job<'a> {
    options: &'a Options,
    /// Those of these models.
    training: options::Options,
    context: Context<'a>,
    resume: Option<&'a Checkpoint>,
    /// The hash of the models and sequences.
    hash: Hash,
    /// Started with the training.
    watch: Watch,
}

impl Job<'_> {
    /// Trains the models on one of the ranks. Where models are chosen, it also returns ln P(O) of each sequence under the best one.
    fn train(&mut self, opened: &Opened, models: &[Hmm]) -> Result<(Trained, Option<Checkpoints>, Vec<f64>), Error> {
        let job = &*self;
        let over = self.training.by.over();
        let trained = opened.recursions(over, &models[0], models.len(), |recursions| {
            let (trained, checkpoints) = job.train_by(recursions, opened, models)?;
            let mut logs = Vec::new();
            if job.options.choose.is_some() && trained.status != Status::Interrupted {
                recursions.set_models(std::slice::from_ref(&trained.best().model))?;
                logs = match recursions.log_likelihoods() {
                    Err(_) if recursions.interrupted() => Vec::new(),
                    found => found?.pop().unwrap_or_default(),
                };
            }
            Ok((trained, checkpoints, logs))
        });
        let (trained, ranks) = trained?;
        self.context.ranks = ranks;
        Ok(trained)
    }

    fn train_by(
        &self,
        recursions: &mut Running<'_>,
        opened: &Opened,
        models: &[Hmm],
    ) -> Result<(Trained, Option<Checkpoints>), Error> {
        let options = options::Options { slack: self.context.precision.slack(), ..self.training.clone() };
        let mut checkpoints = self.options.checkpoints.of_rank(opened.comm().rank());
        let session = Session {
            resume: self.resume,
            checkpoints: checkpoints.as_mut().map(|checkpoints| (checkpoints, self.hash)),
        };
        let steps = Steps::new(options.iterations as usize + 1, self.options.output.quiet || opened.comm().rank() > 0);
        let finish = |so_far: Option<Trained>| {
            let trained = so_far.ok_or(runtime::Error::Interrupted)?;
            let kept = self.keep(&trained);
            // The training thread holds the lock of the standard output.
            self.finish(&trained, &[], output::stdout()?).and(kept)
        };
        let trained = watched(opened, steps, options.by.likelihood(), finish, |observe| {
            train_session(recursions, models.to_vec(), &options, session, observe)
        });
        Ok((trained?, checkpoints))
    }

    /// Writes a checkpoint of the last round, if checkpoints are asked for.
    fn keep(&self, trained: &Trained) -> Result<(), Error> {
        let Some(mut checkpoints) = self.options.checkpoints.of_rank(0) else { return Ok(()) };
        let runs = trained.runs.clone();
        let logs = |run: &Run| run.log_likelihoods.len().saturating_sub(1) as u32;
        let iteration = runs.iter().map(logs).max().unwrap_or_default();
        let seconds = self.resume.map_or(0.0, |checkpoint| checkpoint.seconds) + self.watch.elapsed();
        checkpoints.save(&Checkpoint { iteration, runs, seconds }.contents(&self.training, self.hash));
        Ok(checkpoints.finish()?)
    }

    /// Writes the model and the plot, prints the report.
    fn finish(&self, trained: &Trained, candidates: &[Candidate], out: impl Write) -> Result<(), Error> {
        let &Self { options, ref training, ref context, mut watch, .. } = self;
        let mut report = Training { context: context.clone(), trained, options: training, candidates };
        let earlier = self.resume.map_or(0.0, |checkpoint| checkpoint.seconds);
        report.context.phases.solve = earlier + watch.lap();
        let objective = training.by.likelihood();
        let (name, log) = (options.source.input.model.name(), trained.best().log_likelihood());
        let title = format!("{name}: {objective} = {log:.6} after {} iterations", report.iterations());
        let courses: Vec<&[f64]> = trained.runs.iter().map(|run| &run.log_likelihoods[..]).collect();
        let drawn = |format| draw_training(&title, &courses, trained.best, objective, format);
        // A full disk or a closed pipe must not lose the other results.
        let written = options.output.write(&report, &name, &report.context.ranks, drawn);
        report.context.phases.write = watch.lap();
        let printed = options.output.print(&report, &report.notes(), out);
        written.and(printed)
    }
}
