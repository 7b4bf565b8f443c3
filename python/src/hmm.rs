//! Hidden Markov models. Arrays are flat, row by row.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpkov_common::interrupt;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::generate::restart;
use warpkov_hmm::io::{self, Format};
use warpkov_hmm::model::{self, Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{By, Constraint, Frozen, NormalPrior, Options, Precision, Pseudocount, Pseudocounts};
use warpkov_hmm::place::core_seconds;
use warpkov_hmm::run::{Running, alone};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{self, Observations, Sequences};
use warpkov_hmm::solution::Run;
use warpkov_hmm::train::{Round, Status, train};
use warpkov_hmm::variational::{BeliefRun, Beliefs, EmissionBeliefs, TrainedBeliefs, train_beliefs};
use warpkov_runtime::choose::DeviceChoice;

use crate::array::{Buffer, Input};
use crate::error::{exception, invalid};
use crate::options::choice;
use crate::wait::{brief, detached};
use warpkov_cli::error::Error;
use warpkov_cli::hmm::generate::Family;
use warpkov_cli::named;

mod derivatives;
mod filter;
mod paths;
mod stochastic;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(hmm_scores, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_decode, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_check, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_generate, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_load, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_posteriors, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_save, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_train, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_variational, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_sample, module)?)?;
    derivatives::register(module)?;
    filter::register(module)?;
    paths::register(module)?;
    stochastic::register(module)
}

/// The parameters of a model.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Parts {
    start: Input<f64>,
    transitions: Input<f64>,
    /// B of symbols, or
    symbols: Option<(u32, Input<f64>)>,
    /// the dimension and the means of vectors, and
    means: Option<(u32, Input<f64>)>,
    /// their covariances: variances, or full matrices.
    variances: Option<Input<f64>>,
    covariances: Option<Input<f64>>,
    /// Channels, as in JSON, in place of all of these.
    channels: Option<String>,
}

impl Parts {
    fn model(&self) -> PyResult<Hmm> {
        if let Some(channels) = &self.channels {
            let start = self.start.as_ref();
            let rows: Vec<&[f64]> = self.transitions.as_ref().chunks(start.len().max(1)).collect();
            let text = format!("{{\"pi\": {}, \"A\": {}, \"channels\": {channels}}}", json(&start)?, json(&rows)?);
            return io::read_from(text.as_bytes(), "channels", Some(Format::Json)).map_err(invalid);
        }
        let emissions = match (&self.symbols, &self.means, &self.variances, &self.covariances) {
            (Some((symbols, probs)), None, None, None) => {
                Emissions::Categorical { symbols: *symbols, probs: probs.to_vec() }
            }
            (None, Some((dimensions, means)), Some(variances), None) => Emissions::Gaussian {
                dimensions: *dimensions,
                means: means.to_vec(),
                covariances: Covariances::Diagonal(variances.to_vec()),
            },
            (None, Some((dimensions, means)), None, Some(covariances)) => Emissions::Gaussian {
                dimensions: *dimensions,
                means: means.to_vec(),
                covariances: Covariances::Full(covariances.to_vec()),
            },
            _ => return Err(invalid("expected symbols, or means and variances or covariances")),
        };
        let (start, transitions) = (self.start.to_vec(), self.transitions.to_vec());
        HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().map_err(wrong)
    }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(invalid)
}

/// The exception of an invalid model, in terms of hmmlearn's arrays.
fn wrong(error: model::Invalid) -> PyErr {
    use model::Invalid;
    PyValueError::new_err(match error {
        Invalid::Length { array, found, expected } => {
            format!("{} has {found} numbers, expected {expected}", attribute(array))
        }
        Invalid::Value { place, found, expected } => format!("{} is {found}, expected {expected}", attribute(&place)),
        Invalid::Sum { place, sum } => format!("{} sums to {sum}, expected 1", attribute(&place)),
        Invalid::Transposed { place, sum, matrix, .. } => {
            let (place, matrix) = (attribute(&place), attribute(matrix));
            let order = if matrix == "transmat_" { "[from, to]" } else { "[state, symbol]" };
            format!(
                "{place} sums to {sum}, expected 1, but every column of {matrix} does: {matrix} looks transposed, expected \
                 {matrix}{order}"
            )
        }
        Invalid::Covariance { state } => format!("covars_[{state}] is not symmetric and positive definite"),
        error => error.to_string(),
    })
}

/// hmmlearn's name of an array, or of an entry, of a model: `transmat_[0, 1]` of `A[0][1]`.
fn attribute(place: &str) -> String {
    let (array, indices) = place.split_at(place.find('[').unwrap_or(place.len()));
    let name = match array {
        "pi" => "startprob_",
        "A" => "transmat_",
        "B" => "emissionprob_",
        "means" => "means_",
        "covariances" => "covars_",
        other => other,
    };
    format!("{name}{}", indices.replace("][", ", "))
}

/// Sequences of observations, one behind the other.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Observed {
    offsets: Input<u64>,
    symbols: Option<Input<u32>>,
    vectors: Option<(u32, Input<f64>)>,
}

impl Observed {
    /// The sequences, which fit `model`.
    fn sequences(&self, model: &Hmm) -> PyResult<Sequences> {
        let observations = match (&self.symbols, &self.vectors) {
            (Some(symbols), None) => Observations::Symbols(symbols.to_vec()),
            (None, Some((dimensions, values))) => {
                Observations::Vectors { dimensions: *dimensions, values: values.to_vec() }
            }
            _ => return Err(invalid("expected either symbols or vectors")),
        };
        // NaN is a missing component. The package has checked that no other number is infinite.
        let sequences = Sequences::with_missing(self.offsets.to_vec(), observations).map_err(invalid)?;
        sequences.check(model).map_err(|error| match error {
            sequences::Invalid::Symbol { sequence, position, found, symbols } => {
                let row = sequences.range(sequence - 1).start + position - 1;
                invalid(format!("X[{row}, 0] is {found}, expected a symbol below {symbols}"))
            }
            sequences::Invalid::Component { sequence, position, column, found, expected } => {
                let row = sequences.range(sequence - 1).start + position - 1;
                invalid(format!("X[{row}, {column}] is {found}, expected {expected}"))
            }
            error => invalid(error),
        })?;
        Ok(sequences)
    }
}

/// Where to compute, and how accurately.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Where {
    device: String,
    precision: String,
}

/// Estimated seconds of one core up to which work is brief. Densities of vectors may take ten times as long.
const BRIEF: f64 = 2e-3;

/// Passes over the sequences that an iteration of training costs.
const OF_ITERATION: f64 = 3.0;

/// Computes a result of the recursions of a model over sequences, which costs so many `passes` over them.
fn compute<T: Send>(
    py: Python<'_>,
    model: &Hmm,
    sequences: &Sequences,
    place: &Where,
    (over, passes): (OverPaths, f64),
    work: impl FnOnce(&mut Running<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let device: DeviceChoice =
        place.device.parse().map_err(|error| invalid(format!("device is '{}', {error}", place.device)))?;
    let precision: Precision = choice("precision", &place.precision)?;
    let work = || alone(model, sequences, device, precision, over, work);
    let on_cores = matches!(device, DeviceChoice::Auto | DeviceChoice::Cpu);
    let found = match on_cores && passes * core_seconds(model, sequences) < BRIEF {
        true => brief(py, work),
        false => detached(py, work),
    };
    found?.map_err(exception)
}

/// The result for the only model.
fn only<T: Default>(results: Vec<T>) -> T {
    results.into_iter().next().unwrap_or_default()
}

/// Fails if the parameters are no model.
#[pyfunction]
fn hmm_check(parts: Parts) -> PyResult<()> {
    parts.model().map(drop)
}

/// ln P(O) of each sequence.
#[pyfunction]
fn hmm_scores(py: Python<'_>, parts: Parts, sequences: Observed, place: Where) -> PyResult<Buffer> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    Ok(compute(py, &model, &sequences, &place, (OverPaths::Sums, 1.0), |recursions| {
        Ok(only(recursions.log_likelihoods()?))
    })?
    .into())
}

/// The state of each observation, and ln P(O, q) of each sequence.
#[pyfunction]
fn hmm_decode(py: Python<'_>, parts: Parts, sequences: Observed, place: Where) -> PyResult<(Buffer, Buffer)> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    let decoded = compute(py, &model, &sequences, &place, (OverPaths::Maxima, 1.0), |recursions| {
        Ok(only(recursions.viterbi()?))
    })?;
    Ok((decoded.states.into(), decoded.scores.into()))
}

/// The probability of each state at each observation.
#[pyfunction]
fn hmm_posteriors(py: Python<'_>, parts: Parts, sequences: Observed, place: Where) -> PyResult<Buffer> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    Ok(compute(py, &model, &sequences, &place, (OverPaths::Sums, 2.0), |recursions| {
        Ok(only(recursions.posteriors()?))
    })?
    .into())
}

/// Pseudocounts: one number, or one for each parameter.
#[derive(FromPyObject)]
enum Counts {
    Each(Input<f64>),
    Equal(f64),
}

impl From<Counts> for Pseudocount {
    fn from(counts: Counts) -> Self {
        match counts {
            Counts::Each(counts) => Self::Each(counts.to_vec()),
            Counts::Equal(count) => Self::Equal(count),
        }
    }
}

/// The prior of means and covariances.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Normals {
    means: Input<f64>,
    weights: Input<f64>,
    scales: Input<f64>,
    degrees: f64,
}

/// What training does.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Training {
    by: String,
    iterations: u32,
    /// Of several models, each of which ends by itself.
    tolerance: f64,
    start: Counts,
    transitions: Counts,
    emissions: Counts,
    normals: Option<Normals>,
    constraint: String,
    /// Whether π, A, B or means, and covariances stay as they are.
    frozen: [bool; 4],
    /// The known states, 2³² − 1 where one is unknown, and the weights of the sequences.
    states: Option<Input<u32>>,
    weights: Option<Input<f64>>,
    /// The class of each state, whose emissions are tied.
    ties: Option<Input<u32>>,
    /// The class of each transition, N × N, 0 for one on its own.
    tied_transitions: Option<Input<u32>>,
    /// The seed with which the parameters of channels are redrawn before.
    redraw: Option<u64>,
    /// Takes ln P(O) and the objective of the only model after each E step. Returns whether to stop.
    observe: Option<Py<PyAny>>,
}

impl Training {
    /// The sequences with what is known of them.
    fn sequences(&self, mut sequences: Sequences, model: &Hmm) -> PyResult<Sequences> {
        if let Some(states) = &self.states {
            sequences = sequences.with_states(states.to_vec()).map_err(invalid)?;
        }
        if let Some(weights) = &self.weights {
            sequences = sequences.with_weights(weights.to_vec()).map_err(invalid)?;
        }
        sequences.check_states(model).map_err(invalid)?;
        Ok(sequences)
    }

    fn options(self, precision: Precision) -> PyResult<(Options, Option<Py<PyAny>>)> {
        let [start, transitions, emissions, covariances] = self.frozen;
        let normals = self.normals.map(|prior| NormalPrior {
            means: prior.means.to_vec(),
            weights: prior.weights.to_vec(),
            scales: prior.scales.to_vec(),
            degrees: prior.degrees,
        });
        let pseudocounts = Pseudocounts {
            start: self.start.into(),
            transitions: self.transitions.into(),
            emissions: self.emissions.into(),
        };
        let options = Options {
            by: choice::<By>("by", &self.by)?,
            iterations: self.iterations,
            tolerance: 0.0,
            // Otherwise `observe` decides.
            tolerance_absolute: if self.observe.is_none() { self.tolerance } else { 0.0 },
            pseudocounts,
            normals,
            frozen: Frozen { start, transitions, emissions, covariances },
            constraint: choice::<Constraint>("constraint", &self.constraint)?,
            ties: self.ties.map(|ties| ties.to_vec()).unwrap_or_default(),
            tied_transitions: self.tied_transitions.map(|ties| ties.to_vec()).unwrap_or_default(),
            slack: precision.slack(),
            ..Options::default()
        };
        Ok((options, self.observe))
    }
}

/// The best model after training, how its training ended, ln P(O) and the objective in its course, and the last ln P(O) of all models.
type Learnt<'py> = (Bound<'py, PyDict>, &'static str, (Buffer, Buffer), Buffer);

/// Trains models of one shape.
#[pyfunction]
fn hmm_train<'py>(
    py: Python<'py>,
    starts: Vec<Parts>,
    sequences: Observed,
    place: Where,
    training: Training,
) -> PyResult<Learnt<'py>> {
    let tied = |parts: &Parts| {
        let mut model = parts.model()?;
        if let Some(ties) = &training.ties {
            model = model.with_emissions(|emissions| emissions.shared(&ties.to_vec())).map_err(wrong)?;
        }
        match &training.tied_transitions {
            Some(ties) => model.with_tied_transitions(&ties.to_vec()).map_err(invalid),
            None => Ok(model),
        }
    };
    let mut models: Vec<Hmm> = starts.iter().map(tied).collect::<PyResult<_>>()?;
    let first = models.first().ok_or_else(|| invalid("there is no model to train"))?;
    let sequences = training.sequences(sequences.sequences(first)?, first)?;
    if let Some(seed) = training.redraw {
        for (stream, model) in (0..).zip(&mut models) {
            let fresh = restart(model, &sequences, seed, stream).into_parts().emissions;
            *model = model.clone().with_emissions(|_| fresh).map_err(wrong)?;
        }
    }
    let model = &models[0];
    let (options, observer) = training.options(choice("precision", &place.precision)?)?;
    let mut stopped = Ok(false);
    let passes = OF_ITERATION * (f64::from(options.iterations) + 1.0) * models.len() as f64;
    let trained = compute(py, model, &sequences, &place, (options.by.over(), passes), |recursions| {
        let mut observe = |round: &Round| tell(observer.as_ref(), round, &mut stopped);
        Ok(train(recursions, models.clone(), &options, &mut observe)?)
    });
    let stopped = stopped?;
    let trained = trained?;
    let status = ended(trained.status, stopped)?;
    let all = trained.runs.iter().map(Run::log_likelihood).collect::<Vec<_>>().into();
    let best = trained.best().clone();
    let course = (best.log_likelihoods.into(), best.objectives.into());
    Ok((arrays(py, best.model)?, status, course, all))
}

/// Tells the observer of an E step, and keeps whether it stops.
fn tell<T>(observer: Option<&Py<PyAny>>, round: &Round<'_, T>, stopped: &mut PyResult<bool>) -> ControlFlow<()> {
    if let Some(observer) = observer {
        let told = (round.log_likelihood, round.objective);
        *stopped = Python::attach(|py| observer.call1(py, told)?.extract(py));
    }
    match stopped {
        Ok(false) if !interrupt::requested() => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    }
}

/// How training ended. An observer that stops it has found it converged.
fn ended(status: Status, stopped: bool) -> PyResult<&'static str> {
    Ok(match status {
        Status::Interrupted if !stopped => return Err(PyKeyboardInterrupt::new_err(())),
        Status::Converged | Status::Interrupted => "converged",
        Status::Iterations => "iterations",
        Status::Fell => "fell",
    })
}

/// A distribution of the parameters.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Believed {
    start: Input<f64>,
    transitions: Input<f64>,
    /// Dirichlet parameters of B, or
    symbols: Option<(u32, Input<f64>)>,
    /// the dimension and m, and
    means: Option<(u32, Input<f64>)>,
    /// beta,
    strengths: Option<Input<f64>>,
    /// nu,
    degrees: Option<Input<f64>>,
    /// and S: diagonals, or matrices.
    variances: Option<Input<f64>>,
    covariances: Option<Input<f64>>,
}

impl Believed {
    fn beliefs(&self) -> PyResult<Beliefs> {
        let scales = match (&self.variances, &self.covariances) {
            (Some(diagonals), None) => Covariances::Diagonal(diagonals.to_vec()),
            (_, matrices) => Covariances::Full(matrices.as_ref().map(|matrices| matrices.to_vec()).unwrap_or_default()),
        };
        let emissions = match (&self.symbols, &self.means, &self.strengths, &self.degrees) {
            (Some((symbols, counts)), None, None, None) => {
                EmissionBeliefs::Categorical { symbols: *symbols, counts: counts.to_vec() }
            }
            (None, Some((dimensions, means)), Some(strengths), Some(degrees)) => EmissionBeliefs::Gaussian {
                dimensions: *dimensions,
                means: means.to_vec(),
                strengths: strengths.to_vec(),
                degrees: degrees.to_vec(),
                scales,
            },
            _ => return Err(invalid("expected symbols, or means, strengths, degrees and scales")),
        };
        let (start, transitions) = (self.start.to_vec(), self.transitions.to_vec());
        let beliefs = Beliefs { start, transitions, end: None, emissions };
        beliefs.check().map_err(invalid)?;
        Ok(beliefs)
    }
}

/// The best posterior after variational training, how it ended, the lower bound in its course (twice), and the last one of all starts.
#[pyfunction]
fn hmm_variational<'py>(
    py: Python<'py>,
    starts: Vec<Believed>,
    prior: Believed,
    sequences: Observed,
    place: Where,
    training: Training,
) -> PyResult<Learnt<'py>> {
    let prior = prior.beliefs()?;
    let starts: Vec<Beliefs> = starts.iter().map(Believed::beliefs).collect::<PyResult<_>>()?;
    let model = prior.mean(Names::default()).map_err(wrong)?;
    let sequences = training.sequences(sequences.sequences(&model)?, &model)?;
    let (options, observer) = training.options(choice("precision", &place.precision)?)?;
    let mut stopped = Ok(false);
    let passes = OF_ITERATION * (f64::from(options.iterations) + 1.0) * starts.len() as f64;
    let trained = compute(py, &model, &sequences, &place, (OverPaths::Sums, passes), |recursions| {
        let mut observe = |round: &Round<'_, TrainedBeliefs>| tell(observer.as_ref(), round, &mut stopped);
        Ok(train_beliefs(recursions, &sequences, &prior, starts, &options, &mut observe)?)
    });
    let stopped = stopped?;
    let TrainedBeliefs { mut runs, best, status } = trained?;
    let status = ended(status, stopped)?;
    let all = runs.iter().map(BeliefRun::bound).collect::<Vec<_>>().into();
    let BeliefRun { beliefs, bounds, .. } = runs.swap_remove(best);
    let found = PyDict::new(py);
    found.set_item("start", Buffer::from(beliefs.start))?;
    found.set_item("transitions", Buffer::from(beliefs.transitions))?;
    match beliefs.emissions {
        EmissionBeliefs::Categorical { counts, .. } => found.set_item("emissions", Buffer::from(counts))?,
        EmissionBeliefs::Gaussian { means, strengths, degrees, scales, .. } => {
            let (Covariances::Diagonal(scales) | Covariances::Full(scales)) = scales;
            let arrays = [("means", means), ("strengths", strengths), ("degrees", degrees), ("scales", scales)];
            for (name, numbers) in arrays {
                found.set_item(name, Buffer::from(numbers))?;
            }
        }
    }
    Ok((found, status, (bounds.clone().into(), bounds.into()), all))
}

/// The parameters of a model by name.
fn arrays(py: Python<'_>, model: Hmm) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    if let Emissions::Channels(_) = model.emissions() {
        let mut text = Vec::new();
        io::write_to(&mut text, Format::Json, &model).map_err(invalid)?;
        found.set_item("channels", String::from_utf8_lossy(&text))?;
    }
    let HmmParts { start, transitions, emissions, .. } = model.into_parts();
    found.set_item("start", Buffer::from(start))?;
    found.set_item("transitions", Buffer::from(transitions))?;
    match emissions {
        Emissions::Categorical { probs, .. } => found.set_item("emissions", Buffer::from(probs))?,
        Emissions::Gaussian { means, covariances, .. } => {
            found.set_item("means", Buffer::from(means))?;
            let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = covariances;
            found.set_item("covariances", Buffer::from(numbers))?;
        }
        Emissions::Channels(_) => {}
    }
    Ok(found)
}

/// The arrays of a model, and the type of its covariances if it emits vectors, or "channels".
type Found<'py> = (Bound<'py, PyDict>, Option<&'static str>);

fn found<'py>(py: Python<'py>, model: Hmm, from: &str) -> PyResult<Found<'py>> {
    if model.end().is_some() {
        return Err(invalid(format!(
            "{from}: the model has end probabilities, for which hmmlearn's models have no place"
        )));
    }
    let kind = match model.emissions() {
        Emissions::Categorical { .. } => None,
        Emissions::Channels(_) => Some("channels"),
        Emissions::Gaussian { covariances: Covariances::Diagonal(_), .. } => Some("diag"),
        Emissions::Gaussian { covariances: Covariances::Full(_), .. } => Some("full"),
    };
    Ok((arrays(py, model)?, kind))
}

/// The model of the family that the first word names, with the options that the other words are.
#[pyfunction]
fn hmm_generate(py: Python<'_>, words: Vec<OsString>) -> PyResult<Found<'_>> {
    let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let family: Family = named(words.into_iter()).map_err(invalid)?;
    found(py, detached(py, || family.generate())?.map_err(exception)?, &name)
}

/// Reads a model from a file.
#[pyfunction]
fn hmm_load<'py>(py: Python<'py>, path: PathBuf, format: Option<&str>) -> PyResult<Found<'py>> {
    let format = format.map(|name| choice("format", name)).transpose()?;
    let model = detached(py, || io::read(&path, format))?.map_err(exception)?;
    found(py, model, &path.display().to_string())
}

/// Writes a model to a file.
#[pyfunction]
fn hmm_save(py: Python<'_>, parts: Parts, path: PathBuf, format: Option<&str>) -> PyResult<()> {
    let model = parts.model()?;
    let format = match format {
        Some(name) => choice("format", name)?,
        None => Format::of_name(&path).unwrap_or(Format::Json),
    };
    detached(py, || io::write(&path, format, &model))?.map_err(exception)
}

/// Observations and hidden states of sequences of equal lengths.
#[pyfunction]
fn hmm_sample(py: Python<'_>, parts: Parts, count: usize, length: usize, seed: u64) -> PyResult<(Buffer, Buffer)> {
    let model = parts.model()?;
    let drawn = detached(py, || sample(&model, count, Some(length), seed))?.map_err(invalid)?;
    let observations = match drawn.sequences.observations() {
        Observations::Symbols(symbols) => symbols.clone().into(),
        Observations::Vectors { values, .. } => values.clone().into(),
    };
    Ok((observations, drawn.states.into()))
}
