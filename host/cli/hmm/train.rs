//! `warpkov hmm train`.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{process, thread};

use clap::{Args, ValueEnum};
use warpkov_common::checkpoint::{Checkpoints, Hash};
use warpkov_common::interrupt;
use warpkov_common::io::output;
use warpkov_common::report::Report;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::checkpoint::{Checkpoint, hash};
use warpkov_hmm::generate::restart;
use warpkov_hmm::io::sequences::{Records, read_states, read_weights};
use warpkov_hmm::io::{self as formats, Format};
use warpkov_hmm::model::{Covariances, Emissions, Hmm};
use warpkov_hmm::options::{self, Constraint, Frozen, Pseudocounts};
use warpkov_hmm::plot::draw_training;
use warpkov_hmm::report::{Context, Training, progress};
use warpkov_hmm::run::Running;
use warpkov_hmm::train::{self as training, Round, Run, Session, Status, Trained, train_session};
use warpkov_runtime as runtime;
use warpkov_runtime::comm;

use super::file::{Given, Opened, Source, output_format};
use super::{Error, Outcome};
use crate::common::checkpoint;
use crate::common::choice::choice;
use crate::common::file::{FileOrStd, reads, room};
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::output::{Output, Plots, Quiet};
use crate::common::progress::Steps;
use crate::common::watch::Watch;

/// Trains a model by the algorithm of Baum and Welch, which finds a local maximum of the likelihood.
///
/// Probabilities that are 0 in MODEL stay 0. Exit code 0 if the best model has converged, 1 if it has not within --iterations.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm train model.json data.txt --out trained.json
  warpkov hmm train model.json data.csv --missing marginalise --out trained.json
  warpkov hmm train model.json data.txt --restarts 20 --seed 7 --out trained.json --plot training.svg
  warpkov hmm train model.json data.txt --checkpoint training.checkpoint --checkpoint-every 60 --out trained.json
  warpkov hmm train model.json data.txt --resume training.checkpoint --iterations 500 --out trained.json
  warpkov hmm train classes.json data.txt --tie --out trained.json
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
    /// Maximum number of iterations.
    #[arg(long, value_name = "N", default_value_t = 100)]
    iterations: u32,
    /// Stop when the relative increase of the log-likelihood is at most X.
    #[arg(long, value_name = "X", default_value = "1e-6", value_parser = number::non_negative)]
    tolerance: f64,
    /// Pseudocount to add to each expected count of π, A, B and ends that is not always 0: a Dirichlet prior.
    #[arg(long, value_name = "C", default_value = "0", value_parser = number::non_negative)]
    pseudocount: f64,
    /// Least variance that training sets in each dimension, as a fraction of the variance of all observations in it. Smaller variances
    /// in MODEL stay.
    #[arg(long, value_name = "X", default_value = "1e-9", value_parser = number::positive)]
    floor: f64,
    /// Kind of the covariances to train [default: that of MODEL].
    #[arg(long, value_enum, value_name = "KIND")]
    covariances: Option<Kind>,
    /// Tie the emissions of the states of each class in MODEL: they share all parameters, which start at their means.
    #[arg(long)]
    tie: bool,
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

/// What is known of the sequences beside their observations.
#[derive(Args)]
struct Supervision {
    /// File of known states, which restrict the paths: one line per sequence, as `hmm sample --states` and `hmm decode --out` write
    /// them, with - or ? where a state is unknown; or .npy with the numbers of all states, below 0 where one is unknown. If all are
    /// known, the model is that of their counts.
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

/// The entries of the covariance matrices that are trained.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Kind {
    /// The variances.
    Diagonal,
    /// All entries.
    Full,
    /// One variance per state.
    Spherical,
    /// One full matrix for all states.
    Tied,
}

impl Kind {
    fn constraint(self) -> Constraint {
        match self {
            Self::Diagonal | Self::Full => Constraint::None,
            Self::Spherical => Constraint::Spherical,
            Self::Tied => Constraint::Tied,
        }
    }
}

/// Parameters that training may leave as they are.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Freezable {
    /// Start probabilities, π.
    Start,
    /// Transition and end probabilities, A.
    Transitions,
    /// Probabilities of symbols, B.
    Symbols,
    /// Means of vectors.
    Means,
    /// Covariances of vectors.
    Covariances,
}

/// What stays of a model as it is.
fn frozen(model: &Hmm, parts: &[Freezable]) -> Result<Frozen, Error> {
    let has = |part| parts.contains(&part);
    let (vectors, symbols) = (has(Freezable::Means) || has(Freezable::Covariances), has(Freezable::Symbols));
    match model.emissions() {
        Emissions::Categorical { .. } if vectors => {
            return Err(Error::Usage("--freeze means and covariances is for models that emit numbers".to_owned()));
        }
        Emissions::Gaussian { .. } if symbols => {
            return Err(Error::Usage("--freeze symbols is for models that emit symbols".to_owned()));
        }
        Emissions::Channels(_) if vectors || symbols => {
            return Err(Error::Usage("--freeze start and transitions are for models of channels, not this".to_owned()));
        }
        _ => {}
    }
    let (start, transitions) = (has(Freezable::Start), has(Freezable::Transitions));
    Ok(Frozen {
        start,
        transitions,
        emissions: symbols || has(Freezable::Means),
        covariances: has(Freezable::Covariances),
    })
}

/// A random model with the frozen parameters of `model`.
fn kept(fresh: Hmm, model: &Hmm, frozen: Frozen) -> Result<Hmm, Error> {
    if frozen == Frozen::default() {
        return Ok(fresh);
    }
    let given = model.emissions();
    let keep = |fresh| match (fresh, given) {
        (
            Emissions::Gaussian { dimensions, means, covariances },
            Emissions::Gaussian { means: given, covariances: spreads, .. },
        ) => Emissions::Gaussian {
            dimensions,
            means: if frozen.emissions { given.clone() } else { means },
            covariances: if frozen.covariances { spreads.clone() } else { covariances },
        },
        (_, given) if frozen.emissions => given.clone(),
        (fresh, _) => fresh,
    };
    let kept = fresh.with_chain(model, frozen.start, frozen.transitions).with_emissions(keep);
    kept.map_err(|error| Error::Usage(format!("--freeze: {error}")))
}

/// The model with covariances of this kind.
fn with_covariances(model: Hmm, kind: Option<Kind>) -> Result<Hmm, Error> {
    let Some(kind) = kind else { return Ok(model) };
    let of_kind = |d: usize, given: Covariances| match kind {
        Kind::Diagonal => given.diagonal(d),
        Kind::Full => given.full(d),
        Kind::Spherical => given.diagonal(d).spherical(d),
        Kind::Tied => given.full(d).tied(d),
    };
    let changed = match model.emissions() {
        Emissions::Gaussian { .. } => model.with_emissions(|emissions| match emissions {
            Emissions::Gaussian { dimensions, means, covariances } => {
                Emissions::Gaussian { dimensions, means, covariances: of_kind(dimensions as usize, covariances) }
            }
            other => other,
        }),
        _ => return Err(Error::Usage("--covariances is for models that emit numbers".to_owned())),
    };
    changed.map_err(|error| Error::Usage(format!("--covariances: {error}")))
}

/// The class of each state, if `tie` asks for ties. The steps of a duration are always tied.
fn ties(model: &Hmm, tie: bool) -> Result<Vec<u32>, Error> {
    match (model.segments(), tie) {
        (Some(segments), _) => Ok(segments.of_state()),
        (None, false) => Ok(Vec::new()),
        (None, true) if model.names().classes.is_empty() => {
            Err(Error::Usage("--tie: the model has no classes of states".to_owned()))
        }
        (None, true) => Ok(model.classes().of_state),
    }
}

/// The model with equal emissions in the states of each class.
fn tied(model: Hmm, ties: &[u32]) -> Result<Hmm, Error> {
    if ties.is_empty() {
        return Ok(model);
    }
    let shared = model.with_emissions(|emissions| emissions.shared(ties));
    shared.map_err(|error| Error::Usage(format!("--tie: {error}")))
}

/// A lower bound of the bytes of a model.
fn least_bytes(format: Format, model: &Hmm) -> u64 {
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

/// The models to train, and the destination of the result.
struct Options {
    source: Source,
    known: Supervision,
    restarts: u32,
    seed: u64,
    /// All but the slack, which depends on the precision.
    training: options::Options,
    covariances: Option<Kind>,
    tie: bool,
    freeze: Vec<Freezable>,
    output: Output<Format>,
    /// Whether the model has the standard output.
    streamed: bool,
    checkpoints: checkpoint::Options,
    plots: Plots,
    quiet: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { source, known, restarts, seed, iterations, tolerance, pseudocount, floor, .. } = arguments;
        let Arguments { covariances, tie, freeze, out, to, checkpoints, plot, json, quiet: Quiet { quiet }, .. } =
            arguments;
        source.check()?;
        let streamed = out == Some(FileOrStd::Standard);
        let file = match out {
            Some(file) => {
                let format = output_format(&file, to)?;
                Some((file, format))
            }
            None => None,
        };
        let pseudocounts = Pseudocounts::equal(pseudocount);
        let constraint = covariances.map_or(Constraint::None, Kind::constraint);
        let training =
            options::Options { iterations, tolerance, pseudocounts, constraint, floor, ..options::Options::default() };
        let output = Output::to_file(file, json)?.quiet(quiet);
        let (checkpoints, plots, quiet) = (checkpoints.try_into()?, Plots::new(plot)?, quiet || json);
        Ok(Self {
            source,
            known,
            restarts,
            seed,
            training,
            covariances,
            tie,
            freeze,
            output,
            streamed,
            checkpoints,
            plots,
            quiet,
        })
    }
}

impl Options {
    /// Checks that the format can hold the model, and that the disk has room for it and for checkpoints.
    fn check(&self, model: &Hmm) -> Result<(), Error> {
        self.checkpoints.room((u64::from(self.restarts) + 1) * least_bytes(Format::Npz, model))?;
        let Some(format) = self.output.format() else { return Ok(()) };
        formats::holds(format, model).map_err(|message| Error::Usage(format!("--out: {message}")))?;
        self.output.path().map_or(Ok(()), |(path, format)| room(path, least_bytes(format, model)))
    }

    /// `model`, and random models of its shape.
    fn models(&self, model: Hmm, given: &Given) -> Result<Vec<Hmm>, Error> {
        let random = |stream: u32| {
            let fresh = restart(&model, given.sequences(), self.seed, stream.into());
            tied(kept(with_covariances(fresh, self.covariances)?, &model, self.training.frozen)?, &self.training.ties)
        };
        let random: Vec<Hmm> = (0..self.restarts).map(random).collect::<Result<_, _>>()?;
        Ok(std::iter::once(model).chain(random).collect())
    }
}

/// Reads model and sequences, trains, writes the model and the plot, prints the report.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let ranks = arguments.source.join()?;
    let mut options: Options = ranks.agree(arguments.try_into())?;
    options.checkpoints.join(&ranks)?;
    let given = options.source.read(&ranks)?;
    let given = ranks.agree(options.known.read(given))?;
    ranks.same_files()?;
    ranks.agree(options.plots.check(given.ranks(&ranks)))?;
    options.training.ties = ranks.agree(ties(&given.model, options.tie))?;
    let model = with_covariances(given.model.clone(), options.covariances);
    let model = model.and_then(|model| tied(model, &options.training.ties));
    let model = ranks.agree(model.and_then(|model| options.check(&model).map(|()| model)))?;
    options.training.frozen = ranks.agree(frozen(&model, &options.freeze))?;
    let models = ranks.agree(options.models(model, &given))?;
    let data = (given.sequences(), &given.records.sets[..]);
    let read = |path| Checkpoint::read(path, &models, data, &options.training);
    let resume = ranks.agree(options.checkpoints.resume().map(read).transpose().map_err(Error::from))?;
    let writes = options.checkpoints.are_written() && ranks.is_first();
    let model = if writes { hash(&models, data) } else { Hash::default() };
    let trained = given.run(&ranks, |opened| {
        let (context, resume) = (opened.context(), resume.as_ref());
        let mut job = Job { options: &options, context, resume, hash: model, watch: Watch::start() };
        let trained = job.train(opened, &models).map_err(|error| match error {
            Error::Train(training::Error::Impossible { sequence }) => {
                Error::Usage(format!("{}: its likelihood is 0, and stays so", given.why_impossible(sequence - 1)))
            }
            error => error,
        })?;
        Ok((job, trained))
    });
    let (job, (trained, checkpoints)) = trained?;
    let outcome = if ranks.is_first() { job.finish(&trained, out) } else { Ok(outcome(&trained)) }?;
    checkpoint::finish(checkpoints)?;
    Ok(outcome)
}

fn outcome(trained: &Trained) -> Outcome {
    match trained.status {
        Status::Converged => Outcome::Success,
        Status::Iterations | Status::Fell => Outcome::Negative,
        Status::Interrupted => Outcome::Interrupted,
    }
}

/// A training run.
struct Job<'a> {
    options: &'a Options,
    context: Context<'a>,
    resume: Option<&'a Checkpoint>,
    /// The hash of the models and sequences.
    hash: Hash,
    /// Started with the training.
    watch: Watch,
}

impl Job<'_> {
    /// Trains the models on one of the ranks. The first shows progress, and ends all if Ctrl-C comes and an E step takes too long.
    fn train(&mut self, opened: &Opened, models: &[Hmm]) -> Result<(Trained, Option<Checkpoints>), Error> {
        let job = &*self;
        let trained = opened.recursions(OverPaths::Sums, &models[0], models.len(), |recursions| {
            job.train_by(recursions, opened, models)
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
        let options = options::Options { slack: self.context.precision.slack(), ..self.options.training.clone() };
        let so_far = Mutex::new(None);
        handle_interrupts();
        let (alone, first) = (opened.comm().size() == 1, opened.comm().rank() == 0);
        let steps = Steps::new(options.iterations as usize + 1, self.options.quiet || !first);
        let mut observe = |round: &Round| {
            steps.next();
            steps.say(progress(round));
            *so_far.lock().unwrap_or_else(PoisonError::into_inner) = round.so_far.cloned();
            // Several ranks stop together, in the next E step.
            if alone && interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut checkpoints = self.options.checkpoints.of_rank(opened.comm().rank());
        let session = Session {
            resume: self.resume,
            checkpoints: checkpoints.as_mut().map(|checkpoints| (checkpoints, self.hash)),
        };
        let trained = thread::scope(|scope| {
            // The end of the training drops the sender.
            let (_training, ended) = mpsc::channel();
            if first {
                scope.spawn(|| end_in_time(self, &so_far, ended));
            }
            train_session(recursions, models.to_vec(), &options, session, &mut observe)
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
        checkpoints.save(&Checkpoint { iteration, runs, seconds }.contents(&self.options.training, self.hash));
        Ok(checkpoints.finish()?)
    }

    /// Writes the model and the plot, prints the report.
    fn finish(&self, trained: &Trained, out: impl Write) -> Result<Outcome, Error> {
        let &Self { options, ref context, mut watch, .. } = self;
        let mut report = Training { context: context.clone(), trained, options: &options.training };
        let earlier = self.resume.map_or(0.0, |checkpoint| checkpoint.seconds);
        report.context.phases.solve = earlier + watch.lap();
        // A full disk or a closed pipe must not lose the other results.
        let written = options.output.write(&report);
        let (name, log) = (options.source.input.model.name(), trained.best().log_likelihood());
        let title = format!("{name}: ln P(O) = {log:.6} after {} iterations", report.iterations());
        let ranks = &report.context.ranks;
        let drawn = options.plots.draw(&name, ranks, |format| draw_training(&title, trained, format));
        report.context.phases.write = watch.lap();
        for note in report.notes() {
            eprintln!("note: {note}");
        }
        let printed = options.output.print(&report, out);
        match report.guarantee() {
            Some(guarantee) if options.streamed && options.quiet => eprintln!("{guarantee}"),
            _ if options.streamed => report.write_text(&mut io::stderr())?,
            _ => {}
        }
        written.and(drawn).and(printed)?;
        Ok(outcome(trained))
    }
}

/// Time for an E step to end after Ctrl-C.
const GRACE: Duration = Duration::from_millis(250);

/// Ends this process, and with it all ranks, with the models of the last round if an E step does not end within [`GRACE`] after Ctrl-C: a
/// running kernel cannot be stopped.
fn end_in_time(job: &Job, so_far: &Mutex<Option<Trained>>, ended: Receiver<()>) {
    let mut asked = None;
    while ended.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
        if !interrupt::requested() || asked.get_or_insert_with(Instant::now).elapsed() < GRACE {
            continue;
        }
        let trained = so_far.lock().unwrap_or_else(PoisonError::into_inner).take();
        let finished = match trained {
            // The training thread holds the lock of the standard output.
            Some(trained) => {
                let kept = job.keep(&trained);
                let finished = output::stdout().map_err(Error::from).and_then(|out| job.finish(&trained, out));
                finished.and_then(|outcome| kept.map(|()| outcome))
            }
            None => Err(runtime::Error::Interrupted.into()),
        };
        let code = match finished {
            Ok(_) => 130,
            Err(error) => error.report(),
        };
        comm::abort(code);
        process::exit(code.into());
    }
}
