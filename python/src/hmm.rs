//! Hidden Markov models. Arrays are flat, row by row.

use std::ops::ControlFlow;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpkov_common::interrupt;
use warpkov_hmm::device::{Limits, Scan};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{Constraint, Frozen, NormalPrior, Options, Precision, Pseudocount, Pseudocounts};
use warpkov_hmm::place::{Dynamic, cost, recursions};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_hmm::train::{Round, Status, train};
use warpkov_runtime::choose::{DeviceChoice, Place};

use crate::array::{Buffer, Input};
use crate::error::{exception, invalid};
use crate::options::choice;
use crate::wait::detached;
use warpkov_cli::error::Error;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(hmm_scores, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_decode, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_posteriors, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_train, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_sample, module)?)
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
}

impl Parts {
    fn model(&self) -> PyResult<Hmm> {
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
        HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().map_err(invalid)
    }
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
        let sequences = Sequences::new(self.offsets.to_vec(), observations).map_err(invalid)?;
        sequences.check(model).map_err(invalid)?;
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

/// Computes a result of the recursions of a model over sequences.
fn compute<T: Send>(
    py: Python<'_>,
    model: &Hmm,
    sequences: &Sequences,
    place: &Where,
    work: impl FnOnce(&mut Dynamic<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let device: DeviceChoice =
        place.device.parse().map_err(|error| invalid(format!("device is '{}', {error}", place.device)))?;
    let precision: Precision = choice("precision", &place.precision)?;
    let found = detached(py, || {
        let (place, _) = Place::open(device, Some(&cost(model, sequences)))?;
        let chunks = Scan::Auto.steps(model.states(), 1, sequences);
        let mut recursions = recursions(&place, sequences, precision, Limits { chunks, ..Limits::default() })?;
        recursions.set_models(std::slice::from_ref(model))?;
        work(&mut recursions)
    })?;
    found.map_err(exception)
}

/// The result for the only model.
fn only<T: Default>(results: Vec<T>) -> T {
    results.into_iter().next().unwrap_or_default()
}

/// ln P(O) of each sequence.
#[pyfunction]
fn hmm_scores(py: Python<'_>, parts: Parts, sequences: Observed, place: Where) -> PyResult<Buffer> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    Ok(compute(py, &model, &sequences, &place, |recursions| Ok(only(recursions.log_likelihoods()?)))?.into())
}

/// The state of each observation, and ln P(O, q) of each sequence.
#[pyfunction]
fn hmm_decode(py: Python<'_>, parts: Parts, sequences: Observed, place: Where) -> PyResult<(Buffer, Buffer)> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    let decoded = compute(py, &model, &sequences, &place, |recursions| Ok(only(recursions.viterbi()?)))?;
    Ok((decoded.states.into(), decoded.scores.into()))
}

/// The probability of each state at each observation.
#[pyfunction]
fn hmm_posteriors(py: Python<'_>, parts: Parts, sequences: Observed, place: Where) -> PyResult<Buffer> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    Ok(compute(py, &model, &sequences, &place, |recursions| Ok(only(recursions.posteriors()?)))?.into())
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
    iterations: u32,
    start: Counts,
    transitions: Counts,
    emissions: Counts,
    normals: Option<Normals>,
    constraint: String,
    /// Whether π, A, B or means, and covariances stay as they are.
    frozen: [bool; 4],
    /// Takes ln P(O) and the objective after each E step. Returns whether to stop.
    observe: Py<PyAny>,
}

impl Training {
    fn options(self, precision: Precision) -> PyResult<(Options, Py<PyAny>)> {
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
            iterations: self.iterations,
            // `observe` decides.
            tolerance: 0.0,
            pseudocounts,
            normals,
            frozen: Frozen { start, transitions, emissions, covariances },
            constraint: choice::<Constraint>("constraint", &self.constraint)?,
            slack: precision.slack(),
            ..Options::default()
        };
        Ok((options, self.observe))
    }
}

/// The parameters after training, and how training ended.
#[pyfunction]
fn hmm_train<'py>(
    py: Python<'py>,
    parts: Parts,
    sequences: Observed,
    place: Where,
    training: Training,
) -> PyResult<(Bound<'py, PyDict>, &'static str)> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    let (options, observer) = training.options(choice("precision", &place.precision)?)?;
    let mut stopped = Ok(false);
    let trained = compute(py, &model, &sequences, &place, |recursions| {
        let mut observe = |round: &Round| {
            let told = (round.log_likelihood, round.objective);
            stopped = Python::attach(|py| observer.call1(py, told)?.extract(py));
            match stopped {
                Ok(false) if !interrupt::requested() => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        Ok(train(recursions.as_mut(), vec![model.clone()], &options, &mut observe)?)
    });
    let stopped = stopped?;
    let trained = trained?;
    let status = match trained.status {
        Status::Interrupted if !stopped => return Err(PyKeyboardInterrupt::new_err(())),
        Status::Converged | Status::Interrupted => "converged",
        Status::Iterations => "iterations",
        Status::Fell => "fell",
    };
    let best = trained.best();
    let found = PyDict::new(py);
    let HmmParts { start, transitions, emissions, .. } = best.model.clone().into_parts();
    found.set_item("start", Buffer::from(start))?;
    found.set_item("transitions", Buffer::from(transitions))?;
    match emissions {
        Emissions::Categorical { probs, .. } => found.set_item("emissions", Buffer::from(probs))?,
        Emissions::Gaussian { means, covariances, .. } => {
            found.set_item("means", Buffer::from(means))?;
            let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = covariances;
            found.set_item("covariances", Buffer::from(numbers))?;
        }
    }
    Ok((found, status))
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
