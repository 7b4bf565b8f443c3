//! Training: the Baum-Welch algorithm (expectation-maximisation) for one or several models in one batch, or
//! [Viterbi training](super::segmental).
//!
//! The E step computes expected counts of the hidden paths. The [M step](super::maximise) maximises the expected
//! log-likelihood given these counts. Each sequence's counts are divided by its own likelihood, and γ of the last step
//! is not in the denominator of A (Rahimi's errata to Rabiner's tutorial), and multiplied by its
//! [weight](super::sequences::Sequences::with_weights) w: ln P(O) is Σ w ln P(O) over the sequences. States may be
//! [known](super::sequences::Sequences::with_states): if all are, the counts are those of the known paths, and one iteration
//! yields the supervised estimate. With pseudocounts c, a Dirichlet prior, the
//! objective is ln P(O) + Σ c ln p, where c of Aᵢᵢ includes the [sticky](Options::sticky) count. A [prior](super::options::NormalPrior) of means and covariances adds its logarithm.
//! The objective never decreases; each iteration checks this.

use std::ops::ControlFlow;
use std::time::Instant;

use super::backend::Recursions;
use super::checkpoint::Checkpoint;
pub use super::maximise::{Held, Spread};
use super::model::{Covariances, Emissions, Hmm, cholesky};
pub use super::options::Pseudocounts;
use super::options::{Constraint, NormalPrior, Options, Pseudocount};
use super::sequences::Sequences;
pub use super::solution::Run;
use warpkov_common::checkpoint::{Checkpoints, Hash};

/// Progress after an E step.
#[derive(Clone, Debug, PartialEq)]
pub struct Round<'r, T = Trained> {
    /// M steps so far.
    pub iteration: u32,
    /// Models still in training.
    pub active: usize,
    /// The highest objective of all models.
    pub objective: f64,
    /// ln P(O) of all sequences under the model with the highest objective.
    pub log_likelihood: f64,
    /// The result if training stopped here. Present only where E steps are slow, so that an observer can save it before
    /// the next one.
    pub so_far: Option<&'r T>,
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The best model has converged.
    Converged,
    /// The best model has not converged within [`Options::iterations`].
    Iterations,
    /// The observer or a signal stopped training.
    Interrupted,
    /// The best model's objective decreased by more than [`Options::slack`]: the precision is too low for it.
    Fell,
}

/// The result of training.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// All models, in the order of the input.
    pub runs: Vec<Run>,
    /// Index of the run with the highest objective; ties go to the lowest index.
    pub best: usize,
    /// Why training ended.
    pub status: Status,
}

impl Trained {
    /// The result of `runs`. The best run's own end takes precedence over `status`. `None` if `runs` is empty.
    fn from_runs(runs: Vec<Run>, status: Status) -> Option<Self> {
        let mut best = 0;
        for (index, run) in runs.iter().enumerate() {
            best = if run.objective() > runs[best].objective() { index } else { best };
        }
        let status = match runs.get(best)? {
            run if run.converged => Status::Converged,
            run if run.fell.is_some() => Status::Fell,
            _ => status,
        };
        Some(Self { runs, best, status })
    }

    /// The run with the highest objective.
    #[must_use]
    pub fn best(&self) -> &Run {
        &self.runs[self.best]
    }
}

/// Why training fails.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// The backend failed.
    #[error(transparent)]
    Backend(E),
    /// The list of models is empty.
    #[error("there is no model to train")]
    None,
    /// The prior or the constraint does not fit the models.
    #[error("{0}")]
    Options(String),
    /// A sequence has likelihood 0. No M step changes that, because zeros stay zeros.
    #[error("sequence {sequence} has probability 0 under the model, and training cannot change that")]
    Impossible {
        /// The sequence, from 1.
        sequence: usize,
    },
}

/// Where training goes on from, and where its checkpoints go.
#[derive(Default)]
pub struct Session<'a> {
    /// A checkpoint of the same models and sequences. The limit of iterations counts those before it.
    pub resume: Option<&'a Checkpoint>,
    /// Checkpoints to write, with the hash of the models and sequences. Ranks that have them write them.
    pub checkpoints: Option<(&'a mut Checkpoints, Hash)>,
}

/// Keeps the checkpoints of a training.
struct Keeper<'a> {
    checkpoints: Option<(&'a mut Checkpoints, Hash)>,
    options: &'a Options,
    begun: Instant,
    /// Seconds before.
    earlier: f64,
}

impl Keeper<'_> {
    fn is_due(&self) -> bool {
        self.checkpoints.as_ref().is_some_and(|(checkpoints, _)| checkpoints.is_due())
    }

    /// Writes a checkpoint of these models, which have had `iteration` M steps.
    fn keep(&mut self, iteration: u32, runs: &[Run]) {
        if let Some((checkpoints, model)) = &mut self.checkpoints {
            let seconds = self.earlier + self.begun.elapsed().as_secs_f64();
            checkpoints.save(&Checkpoint { iteration, runs: runs.to_vec(), seconds }.contents(self.options, *model));
        }
    }
}

/// The models of a training.
struct InTraining<'a> {
    options: &'a Options,
    /// The weight of each sequence; empty if all are 1.
    weights: Vec<f64>,
    runs: Vec<Run>,
    /// Indices of the models that the backend holds.
    active: Vec<usize>,
}

impl<'a> InTraining<'a> {
    /// The models before the first E step, or as a checkpoint has them.
    fn new(models: Vec<Hmm>, weights: Vec<f64>, resume: Option<&Checkpoint>, options: &'a Options) -> Self {
        let run =
            |model| Run { model, log_likelihoods: Vec::new(), objectives: Vec::new(), converged: false, fell: None };
        let runs = match resume {
            Some(checkpoint) => checkpoint.runs.clone(),
            None => models.into_iter().map(run).collect(),
        };
        Self { options, weights, runs, active: Vec::new() }
    }

    /// Indices of the models still in training.
    fn left(&self) -> Vec<usize> {
        (0..self.runs.len()).filter(|&index| !self.runs[index].ended()).collect()
    }

    /// Gives the backend the models still in training, unless it holds them.
    fn load<R: Recursions + ?Sized>(&mut self, recursions: &mut R) -> Result<(), Error<R::Error>> {
        let left = self.left();
        if left != self.active {
            let models: Vec<Hmm> = left.iter().map(|&index| self.runs[index].model.clone()).collect();
            recursions.set_models(&models).map_err(Error::Backend)?;
            self.active = left;
        }
        Ok(())
    }

    /// Copies the backend's models to the active runs.
    fn take<R: Recursions + ?Sized>(&mut self, recursions: &mut R) -> Result<(), Error<R::Error>> {
        let models = recursions.models().map_err(Error::Backend)?;
        self.active.iter().zip(models).for_each(|(&index, model)| self.runs[index].model = model);
        Ok(())
    }

    /// Adds ln P(O) of each sequence to the records of the active models, of which some have then converged or fallen.
    fn judge<E>(&mut self, found: &[Vec<f64>]) -> Result<(), Error<E>> {
        let weight = |sequence: usize| self.weights.get(sequence).copied().unwrap_or(1.0);
        for (&index, log_likelihoods) in self.active.iter().zip(found) {
            let log_likelihood = add_log_likelihoods(0.0, log_likelihoods, weight)?;
            let (run, options) = (&mut self.runs[index], self.options);
            let objective = log_likelihood + log_prior(&run.model, options);
            let before = run.objectives.last().copied();
            run.log_likelihoods.push(log_likelihood);
            run.objectives.push(objective);
            if let Some(from) = before {
                let slack = options.slack.max(conditioning(&run.model, options.floor));
                if objective < from - slack * from.abs().max(1.0) {
                    run.fell = Some(from);
                } else {
                    run.converged = options.tolerates(objective - from, from);
                }
            }
        }
        Ok(())
    }

    /// The highest objective, and ln P(O) of its model.
    fn best(&self) -> (f64, f64) {
        let best = |best: (f64, f64), run: (f64, f64)| if run.0 > best.0 { run } else { best };
        self.runs.iter().map(|run| (run.objective(), run.log_likelihood())).fold((f64::NEG_INFINITY, 0.0), best)
    }

    /// The M step. Models that have converged skip it.
    fn m_step<R: Recursions + ?Sized>(&mut self, recursions: &mut R) -> Result<(), Error<R::Error>> {
        recursions.m_step(self.options).map_err(Error::Backend)?;
        if self.active.iter().any(|&index| self.runs[index].ended()) {
            for (&index, model) in self.active.iter().zip(recursions.models().map_err(Error::Backend)?) {
                if !self.runs[index].ended() {
                    self.runs[index].model = model;
                }
            }
        }
        Ok(())
    }
}

/// `sum` + Σ w ln P(O) over the sequences of positive weight w.
///
/// # Errors
/// [`Error::Impossible`].
pub(super) fn add_log_likelihoods<E>(
    mut sum: f64,
    logs: &[f64],
    weight: impl Fn(usize) -> f64,
) -> Result<f64, Error<E>> {
    for (sequence, log) in logs.iter().enumerate().filter(|(sequence, _)| weight(*sequence) > 0.0) {
        if !log.is_finite() {
            return Err(Error::Impossible { sequence: sequence + 1 });
        }
        sum += weight(sequence) * log;
    }
    Ok(sum)
}

/// Trains every model until it converges. `observe` sees each [`Round`] and may stop training.
///
/// # Errors
/// Those of the backend, [`Error::Options`], and [`Error::Impossible`] if a sequence has likelihood 0 under a model.
pub fn train<R: Recursions + ?Sized>(
    recursions: &mut R,
    models: Vec<Hmm>,
    options: &Options,
    observe: &mut dyn FnMut(&Round) -> ControlFlow<()>,
) -> Result<Trained, Error<R::Error>> {
    train_session(recursions, models, options, Session::default(), observe)
}

/// [`train`] with checkpoints.
///
/// # Errors
/// Those of [`train`]. A checkpoint that cannot be written is no error here: see [`Checkpoints::finish`].
pub fn train_session<R: Recursions + ?Sized>(
    recursions: &mut R,
    models: Vec<Hmm>,
    options: &Options,
    session: Session,
    observe: &mut dyn FnMut(&Round) -> ControlFlow<()>,
) -> Result<Trained, Error<R::Error>> {
    let Session { resume, checkpoints } = session;
    models.iter().try_for_each(|model| options.check(model)).map_err(Error::Options)?;
    let earlier = resume.map_or(0.0, |checkpoint| checkpoint.seconds);
    let mut keeper = Keeper { checkpoints, options, begun: Instant::now(), earlier };
    let mut models = InTraining::new(models, recursions.weights().to_vec(), resume, options);
    if models.runs.is_empty() {
        return Err(Error::None);
    }
    let first = resume.map_or(0, |checkpoint| checkpoint.iteration);
    if first > options.iterations || models.left().is_empty() {
        return Trained::from_runs(models.runs, Status::Iterations).ok_or(Error::None);
    }
    for run in models.runs.iter_mut().filter(|run| !run.ended()) {
        // The E step that follows the last M step is done again.
        run.log_likelihoods.truncate(first as usize);
        run.objectives.truncate(first as usize);
    }
    let mut status = Status::Iterations;
    for iteration in first..=options.iterations {
        models.load(recursions)?;
        let begun = Instant::now();
        let found = match recursions.e_step() {
            // The last M step has raised the objective beyond the last known value, so its models are the best result.
            Err(error) if recursions.interrupted() => {
                models.take(recursions)?;
                keeper.keep(iteration, &models.runs);
                if iteration == 0 {
                    return Err(Error::Backend(error));
                }
                status = Status::Interrupted;
                break;
            }
            found => found.map_err(Error::Backend)?,
        };
        if !options.no_prior() {
            // The prior depends on the present parameters.
            models.take(recursions)?;
        }
        models.judge(&found)?;
        let left = models.left().len();
        let (objective, log_likelihood) = models.best();
        let so_far = match recursions.slow(begun.elapsed()) {
            true => {
                models.take(recursions)?;
                Trained::from_runs(models.runs.clone(), Status::Interrupted)
            }
            false => None,
        };
        let round = Round { iteration, active: left, objective, log_likelihood, so_far: so_far.as_ref() };
        let stop = observe(&round).is_break();
        let last = stop || left == 0 || iteration == options.iterations;
        let due = keeper.is_due();
        if last || due || left < models.active.len() {
            models.take(recursions)?;
        }
        if last || due {
            keeper.keep(iteration, &models.runs);
        }
        if last {
            if stop && left > 0 && iteration < options.iterations {
                status = Status::Interrupted;
            }
            break;
        }
        models.m_step(recursions)?;
    }
    Trained::from_runs(models.runs, status).ok_or(Error::None)
}

/// Relative decrease of an objective that ill-conditioned covariances explain. Densities lose as many digits as the
/// condition number of a covariance matrix has, and the floor bounds this number by about 1 / `floor`.
fn conditioning(model: &Hmm, floor: f64) -> f64 {
    match model.emissions() {
        Emissions::Gaussian { covariances: Covariances::Full(_), .. } | Emissions::Channels(_) => f64::EPSILON / floor,
        _ => 0.0,
    }
}

/// Akaike's information criterion, 2 k − 2 ln P(O), for k free [parameters](Options::parameters).
#[must_use]
pub fn aic(parameters: usize, log_likelihood: f64) -> f64 {
    2.0 * parameters as f64 - 2.0 * log_likelihood
}

/// The Bayesian information criterion, k ln n − 2 ln P(O), for k free [parameters](Options::parameters) and n
/// observations: those of a sequence of [weight](Sequences::weights) w count as w.
#[must_use]
pub fn bic(parameters: usize, sequences: &Sequences, log_likelihood: f64) -> f64 {
    parameters as f64 * sequences.weighted_steps().ln() - 2.0 * log_likelihood
}

/// Logarithm of the prior up to a constant: Σ c ln p over all p > 0, and that of means and covariances.
fn log_prior(model: &Hmm, options: &Options) -> f64 {
    fn part(probs: &[f64], count: impl Fn(usize) -> f64) -> f64 {
        let term = |(at, p): (usize, &f64)| if *p > 0.0 && count(at) > 0.0 { count(at) * p.ln() } else { 0.0 };
        probs.iter().enumerate().map(term).sum()
    }
    let Pseudocounts { start, transitions, emissions } = &options.pseudocounts;
    let each = |probs: &[f64], counts: &Pseudocount| part(probs, |at| counts.at(at));
    let emitted = match (model.emissions(), &options.normals) {
        (Emissions::Categorical { probs, .. }, _) => each(probs, emissions),
        (Emissions::Gaussian { means, covariances, .. }, Some(prior)) => {
            log_normal_prior(prior, means, covariances, options.constraint)
        }
        (Emissions::Gaussian { .. }, None) | (Emissions::Channels(_), _) => 0.0,
    };
    let (pi, a, end) = match model.segments() {
        Some(segments) => (segments.start(), segments.transitions(), segments.end()),
        None => (model.start(), model.transitions(), model.end()),
    };
    each(pi, start)
        + part(a, |at| options.of_transition(at, pi.len()))
        + part(end.unwrap_or_default(), |_| transitions.of_ends())
        + emitted
}

/// Logarithm of the [prior](NormalPrior) of means and covariances, up to a constant.
fn log_normal_prior(prior: &NormalPrior, means: &[f64], covariances: &Covariances, constraint: Constraint) -> f64 {
    let n = prior.weights.len();
    let d = means.len() / n;
    let of_state = |state: usize| {
        let shift: Vec<f64> = (state * d..(state + 1) * d).map(|at| means[at] - prior.means[at]).collect();
        let (weight, first) = (prior.weights[state], constraint != Constraint::Tied || state == 0);
        let degrees = if first { prior.degrees } else { 0.0 };
        // w (μ − m)(μ − m)ᵀ + Ψ
        let scatter = |at: usize, a: usize, b: usize| {
            let scale = if first { prior.scales[at] } else { 0.0 };
            weight * shift[a] * shift[b] + scale
        };
        match covariances {
            Covariances::Diagonal(variances) => (0..d)
                .map(|k| {
                    let variance = variances[state * d + k];
                    scatter(state * d + k, k, k) / variance + degrees * variance.ln()
                })
                .sum(),
            Covariances::Full(matrices) => {
                let first = state * d * d;
                let matrix = (0..d * d).map(|at| scatter(first + at, at / d, at % d)).collect();
                // Training keeps covariances positive definite.
                let Some(lower) = cholesky(&matrices[first..][..d * d], d) else { return f64::INFINITY };
                let diagonal = || (0..d).map(|k| k * (d + 1));
                // tr(S Σ⁻¹) = tr(L⁻¹ S L⁻ᵀ)
                let scaled = forward(&lower, transposed(&forward(&lower, matrix, d), d), d);
                diagonal().map(|at| scaled[at] + 2.0 * degrees * lower[at].ln()).sum::<f64>()
            }
        }
    };
    -0.5 * (0..n).map(of_state).sum::<f64>()
}

/// L⁻¹ M of D × D matrices, where L is lower triangular.
fn forward(lower: &[f64], mut matrix: Vec<f64>, d: usize) -> Vec<f64> {
    for i in 0..d {
        for column in 0..d {
            let known: f64 = (0..i).map(|k| lower[i * d + k] * matrix[k * d + column]).sum();
            matrix[i * d + column] = (matrix[i * d + column] - known) / lower[i * d + i];
        }
    }
    matrix
}

fn transposed(matrix: &[f64], d: usize) -> Vec<f64> {
    (0..d * d).map(|at| matrix[at % d * d + at / d]).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::iter::Copied;
    use std::slice::Iter;
    use std::time::Duration;

    use super::super::generate::IceCream;
    use super::*;
    use crate::backend::{Decoded, Expected, SLOW};
    use crate::model::HmmParts;

    /// A backend that replays a given ln P(O) of one sequence per model and E step.
    struct Told<'l>(Vec<Copied<Iter<'l, f64>>>);

    impl Recursions for Told<'_> {
        type Error = Infallible;

        fn set_models(&mut self, models: &[Hmm]) -> Result<(), Infallible> {
            self.0.retain(|left| left.len() > 0);
            assert_eq!(models.len(), self.0.len());
            Ok(())
        }

        fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
            Ok(self.0.iter_mut().map(|left| left.next().into_iter().collect()).collect())
        }

        fn take_counts(&mut self) -> Result<Vec<Expected>, Infallible> {
            unreachable!("training does not ask for this")
        }

        fn m_step(&mut self, _: &Options) -> Result<(), Infallible> {
            Ok(())
        }

        fn models(&mut self) -> Result<Vec<Hmm>, Infallible> {
            Ok(vec![IceCream.generate().unwrap(); self.0.len()])
        }

        fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
            unreachable!("training does not ask for this")
        }

        fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
            unreachable!("training does not ask for this")
        }

        fn viterbi(&mut self) -> Result<Vec<Decoded>, Infallible> {
            unreachable!("training does not ask for this")
        }

        fn expect(&mut self) -> Result<Vec<Expected>, Infallible> {
            unreachable!("training does not ask for this")
        }
    }

    fn told(logs: &[&[f64]]) -> Trained {
        told_by(logs, &Options::default())
    }

    fn told_by(logs: &[&[f64]], options: &Options) -> Trained {
        let model = IceCream.generate().unwrap();
        let mut recursions = Told(logs.iter().map(|logs| logs.iter().copied()).collect());
        let Ok(trained) = train(&mut recursions, vec![model; logs.len()], options, &mut |_| ControlFlow::Continue(()))
        else {
            panic!("no sequence is impossible")
        };
        trained
    }

    /// [`Told`] with slow E steps.
    struct Slow<'l>(Told<'l>, Duration);

    impl Recursions for Slow<'_> {
        type Error = Infallible;

        fn set_models(&mut self, models: &[Hmm]) -> Result<(), Infallible> {
            self.0.set_models(models)
        }

        fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
            std::thread::sleep(self.1);
            self.0.e_step()
        }

        fn take_counts(&mut self) -> Result<Vec<Expected>, Infallible> {
            self.0.take_counts()
        }

        fn m_step(&mut self, options: &Options) -> Result<(), Infallible> {
            self.0.m_step(options)
        }

        fn models(&mut self) -> Result<Vec<Hmm>, Infallible> {
            self.0.models()
        }

        fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
            self.0.log_likelihoods()
        }

        fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
            self.0.posteriors()
        }

        fn viterbi(&mut self) -> Result<Vec<Decoded>, Infallible> {
            self.0.viterbi()
        }

        fn expect(&mut self) -> Result<Vec<Expected>, Infallible> {
            self.0.expect()
        }
    }

    #[test]
    fn slow_rounds_hand_out_what_they_have() {
        let logs = [-9.0, -5.0, -4.0, -4.0];
        let given = HmmParts { start: vec![1.0, 0.0], ..IceCream.generate().unwrap().into_parts() };
        let given = given.validated().unwrap();
        let mut recursions = Slow(Told(vec![logs.iter().copied()]), 2 * SLOW);
        let mut rounds = 0;
        let mut observe = |round: &Round| {
            let so_far = round.so_far.unwrap();
            rounds += 1;
            assert_eq!(so_far.best().log_likelihoods, logs[..rounds]);
            assert_eq!(so_far.best().model, IceCream.generate().unwrap());
            assert_eq!(so_far.status == Status::Interrupted, rounds < logs.len());
            ControlFlow::Continue(())
        };
        assert!(train(&mut recursions, vec![given], &Options::default(), &mut observe).is_ok());
        assert_eq!(rounds, logs.len());
    }

    #[test]
    fn tolerances_are_relative_or_absolute() {
        let logs = [-100.0, -50.0, -40.0, -39.0, -38.9, -38.9];
        let steps = |tolerance, tolerance_absolute| {
            let options = Options { tolerance, tolerance_absolute, ..Options::default() };
            told_by(&[&logs], &options).best().log_likelihoods.len()
        };
        assert_eq!([steps(0.2, 0.0), steps(0.0, 10.0), steps(0.0, 1.0), steps(0.0, 0.0)], [3, 3, 4, 6]);
        assert_eq!([steps(0.01, 1.0), steps(0.03, 0.5)], [4, 4]);
    }

    #[test]
    fn a_model_whose_objective_falls_ends_and_the_others_go_on() {
        let trained = told(&[&[-9.0, -5.0, -6.0], &[-9.0, -8.0, -7.0, -4.0, -4.0]]);
        assert_eq!((trained.best, trained.status), (1, Status::Converged));
        assert_eq!((trained.runs[0].fell, trained.runs[0].log_likelihood()), (Some(-5.0), -6.0));
        let trained = told(&[&[-9.0, -5.0, -6.0]]);
        assert_eq!((trained.status, trained.best().converged), (Status::Fell, false));
    }
}
