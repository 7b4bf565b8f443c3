//! `warpkov hmm train --by variational`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use warpkov_common::io::output;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::divided::RankShare;
use warpkov_hmm::io::beliefs;
use warpkov_hmm::model::{Hmm, Names};
use warpkov_hmm::options::Options;
use warpkov_hmm::plot::draw_training;
use warpkov_hmm::report::{BeliefTraining, Context, LOWER_BOUND};
use warpkov_hmm::train::{self as training, Status};
use warpkov_hmm::variational::{Beliefs, TrainedBeliefs, train_beliefs};
use warpkov_runtime as runtime;

use super::file::{Given, Opened};
use super::training::{ModelOutput, outcome, watched};
use crate::common::file::{extension, reads, write_whole, writes};
use crate::common::progress::Steps;
use crate::common::ranks::Ranks;
use crate::common::watch::Watch;
use crate::error::{Error, Outcome};

/// The files of distributions of the parameters.
#[derive(Args, Default)]
#[group(skip)]
pub struct Arguments {
    /// Prior of --by variational: a file of --posterior, whose evidence then counts too [default: Dirichlet parameters of 1 over the number
    /// of outcomes; for vectors, m the mean of all, β 1, ν D, S 0.001 I].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pseudocount", "sticky", "choose_states"])]
    prior: Option<PathBuf>,
    /// Write the posterior of --by variational to this file, .json: the parameters of its Dirichlet and normal-Wishart distributions.
    #[arg(long, value_name = "FILE")]
    posterior: Option<PathBuf>,
}

impl Arguments {
    /// An option, if one is given.
    pub fn asked(&self) -> Option<&'static str> {
        match (&self.prior, &self.posterior) {
            (Some(_), _) => Some("--prior"),
            (_, Some(_)) => Some("--posterior"),
            _ => None,
        }
    }

    /// Validates the names of the files.
    pub fn check(&self) -> Result<(), Error> {
        self.prior.as_deref().map_or(Ok(()), reads)?;
        let Some(posterior) = &self.posterior else { return Ok(()) };
        extension(posterior, &["json"])?;
        writes(posterior)
    }

    /// The prior of the parameters of `model`.
    fn read(&self, model: &Hmm, default: Beliefs) -> Result<Beliefs, Error> {
        let Some(path) = &self.prior else { return Ok(default) };
        let (prior, Names { states, symbols, .. }) = beliefs::read(path)?;
        let names = model.names();
        let differ = |found: &[String], own: &[String]| !found.is_empty() && !own.is_empty() && found != own;
        if prior.fits(&default).is_err() || differ(&states, &names.states) || differ(&symbols, &names.symbols) {
            let message = "expected the shape, the zeros and the names of MODEL, and its kind of covariances";
            return Err(Error::Usage(format!("--prior {}: {message}", path.display())));
        }
        Ok(prior)
    }
}

/// A training to run.
pub struct Task<'a> {
    /// The given model and the sequences.
    pub given: &'a Given,
    /// Name of the given model.
    pub name: String,
    /// The models to start from, of each number of states.
    pub starts: &'a [Vec<Hmm>],
    pub options: &'a Options,
    pub files: &'a Arguments,
    pub output: &'a ModelOutput,
}

/// A prior, and the starts of a training.
struct Inference {
    names: Names,
    prior: Beliefs,
    starts: Vec<Beliefs>,
}

impl Task<'_> {
    /// Trains, writes the model, the posterior and the plots, prints the report.
    pub fn run(&self, ranks: &Ranks, out: impl Write) -> Result<Outcome, Error> {
        let prepared: Result<Vec<_>, Error> = self.starts.iter().map(|models| self.prepare(models)).collect();
        let prepared = ranks.agree(prepared)?;
        let (context, mut all) = self.given.run(ranks, |opened| {
            let (mut context, mut all) = (opened.context(), Vec::new());
            let mut watch = Watch::start();
            for (inference, models) in prepared.iter().zip(self.starts) {
                let (trained, of_ranks) = self.train(inference, models, opened)?;
                context.ranks = of_ranks;
                let interrupted = trained.status == Status::Interrupted;
                all.push(trained);
                if interrupted {
                    break;
                }
            }
            context.phases.solve = watch.lap();
            Ok((context, all))
        })?;
        let interrupted = all.iter().any(|trained| trained.status == Status::Interrupted);
        let bound = |at: usize| all[at].best().bound();
        let best = (0..all.len()).fold(0, |best, at| if bound(at) > bound(best) { at } else { best });
        let mut trained = all[best].clone();
        if interrupted {
            trained.status = Status::Interrupted;
        }
        if prepared.len() == 1 {
            all.clear();
        }
        if ranks.is_first() {
            self.finish(&trained, &all, &prepared[best].names, context, out)?;
        }
        Ok(outcome(trained.status))
    }

    /// The prior of models of one shape, and the starts from them.
    fn prepare(&self, models: &[Hmm]) -> Result<Inference, Error> {
        let refused = |message: String| Error::Usage(format!("--by variational: {message}"));
        let (sequences, options) = (self.given.sequences(), self.options);
        let default = Beliefs::prior(&models[0], sequences, options).map_err(refused)?;
        let prior = self.files.read(&models[0], default)?;
        let starts: Result<_, String> = models.iter().map(|model| prior.start_at(model, sequences, options)).collect();
        Ok(Inference { names: models[0].names().clone(), prior, starts: starts.map_err(refused)? })
    }

    /// Trains on one of the ranks; also returns what each of several ranks did.
    fn train(
        &self,
        inference: &Inference,
        models: &[Hmm],
        opened: &Opened<'_, '_>,
    ) -> Result<(TrainedBeliefs, Vec<RankShare>), Error> {
        let Inference { names, prior, starts } = inference;
        let options = Options { slack: opened.precision().slack(), ..self.options.clone() };
        let (watch, context) = (Watch::start(), opened.context());
        let finish = |so_far: Option<TrainedBeliefs>| {
            let trained = so_far.ok_or(runtime::Error::Interrupted)?;
            let mut context = context.clone();
            context.phases.solve = watch.elapsed();
            self.finish(&trained, &[], names, context, output::stdout()?)
        };
        opened.recursions(OverPaths::Sums, &models[0], models.len(), |recursions| {
            let quiet = self.output.quiet || opened.comm().rank() > 0;
            let steps = Steps::new(options.iterations as usize + 1, quiet);
            let trained = watched(opened, steps, LOWER_BOUND, finish, |observe| {
                train_beliefs(recursions, self.given.sequences(), prior, starts.clone(), &options, observe)
            });
            trained.map_err(|error| match error {
                training::Error::Impossible { sequence } => Error::Usage(format!(
                    "{}: its likelihood is 0, and stays so",
                    self.given.why_impossible(sequence - 1)
                )),
                error => error.into(),
            })
        })
    }

    /// Writes the model, the posterior and the plots, prints the report.
    fn finish(
        &self,
        trained: &TrainedBeliefs,
        candidates: &[TrainedBeliefs],
        names: &Names,
        context: Context<'_>,
        out: impl Write,
    ) -> Result<(), Error> {
        let mut watch = Watch::start();
        let best = trained.best();
        let model = best.beliefs.mean(names.clone());
        let model = model.map_err(|error| Error::Usage(format!("--by variational: {error}")))?;
        let mut report = BeliefTraining { context, trained, model: &model, candidates };
        let (bound, iterations) = (best.bound(), best.iterations());
        let title = format!("{}: {LOWER_BOUND} {bound:.6} after {iterations} iterations", self.name);
        let courses: Vec<&[f64]> = trained.runs.iter().map(|run| &run.bounds[..]).collect();
        let drawn = |format| draw_training(&title, &courses, trained.best, LOWER_BOUND, format);
        let written = self.output.write(&report, &self.name, &report.context.ranks, drawn);
        let write = |out: &mut dyn Write| -> io::Result<()> { beliefs::write_to(out, &best.beliefs, names) };
        let posterior = self.files.posterior.as_deref().map_or(Ok(()), |path| write_whole(path, write));
        report.context.phases.write = watch.lap();
        let printed = self.output.print(&report, &report.notes(), out);
        written.and(posterior).and(printed)
    }
}
