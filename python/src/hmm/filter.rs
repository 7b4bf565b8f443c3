//! Filtering: whole arrays, and streams.

use pyo3::prelude::*;
use warpkov_hmm::filter::{Filter, Refused};
use warpkov_hmm::sequences::Observation;

use super::{Observed, Parts};
use crate::array::{Buffer, Input};
use crate::error::invalid;
use crate::wait::detached;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HmmFilter>()?;
    module.add_function(wrap_pyfunction!(hmm_filter, module)?)
}

/// Observations that may be none of the model.
struct Seen<'a> {
    symbols: Option<&'a [u32]>,
    values: Option<&'a [f64]>,
    /// D.
    width: usize,
    steps: usize,
}

impl<'a> Seen<'a> {
    fn new(Observed { symbols, vectors, .. }: &'a Observed) -> PyResult<Self> {
        let symbols = symbols.as_ref().map(AsRef::as_ref);
        let values = vectors.as_ref().map(|(_, values)| values.as_ref());
        let width = vectors.as_ref().map_or(1, |(d, _)| (*d).max(1) as usize);
        let steps = match (symbols, values) {
            (Some(symbols), None) => symbols.len(),
            (None, Some(values)) => values.len() / width,
            _ => return Err(invalid("expected either symbols or vectors")),
        };
        Ok(Self { symbols, values, width, steps })
    }

    fn at(&self, at: usize) -> Observation<'a> {
        match (self.symbols, self.values) {
            (Some(symbols), _) => Observation::Symbol(symbols[at]),
            (_, Some(values)) => Observation::Vector(&values[at * self.width..][..self.width]),
            _ => Observation::Missing,
        }
    }

    /// The exception of an observation that is refused.
    fn refused(&self, at: usize, refused: Refused) -> PyErr {
        invalid(match refused {
            Refused::Symbol { found, symbols } => format!("X[{at}, 0] is {found}, expected a symbol below {symbols}"),
            Refused::Vector { expected, .. } if expected == self.width => {
                format!("X[{at}] is not finite, expected {expected} finite numbers, or NaN where one is missing")
            }
            refused => format!("X[{at}]: {refused}"),
        })
    }
}

/// What is written of each step.
struct Rows {
    filter: Filter,
    ahead: u32,
    probs: Vec<f64>,
    logs: Vec<f64>,
}

impl Rows {
    fn push(&mut self, seen: Observation<'_>) -> Result<(), Refused> {
        self.filter.push(seen)?;
        match self.ahead {
            0 => self.probs.extend(self.filter.smoothed().into_iter().flatten()),
            ahead => self.probs.extend(self.filter.predicted(ahead)),
        }
        self.logs.push(self.filter.log_likelihood());
        Ok(())
    }

    /// Takes an observation; one that is refused ends the call, is missing, or begins another sequence.
    fn push_or(&mut self, seen: Observation<'_>, on_error: &str) -> Result<(), Refused> {
        match (self.push(seen), on_error) {
            (Ok(()), _) => Ok(()),
            (refused, "stop") => refused,
            (Err(_), "missing") => self.push(Observation::Missing).or_else(|_| {
                self.break_off();
                self.push(Observation::Missing)
            }),
            (Err(_), _) => {
                self.break_off();
                self.push(seen).or_else(|_| self.push(Observation::Missing))
            }
        }
    }

    fn break_off(&mut self) {
        self.probs.extend(self.filter.break_off().0.into_iter().flatten());
    }
}

/// The probability of each state, `lag` steps before each observation or `ahead` steps behind it, and ln P of the observations
/// of its sequence so far. An observation that the model cannot emit, or that is none, ends the call, is missing, or begins
/// another sequence.
#[pyfunction]
fn hmm_filter(
    py: Python<'_>,
    parts: Parts,
    sequences: Observed,
    on_error: &str,
    lag: usize,
    ahead: u32,
) -> PyResult<(Buffer, Buffer)> {
    let model = parts.model()?;
    // Checked and used: no other thread may change them in between.
    let offsets = sequences.offsets.to_vec();
    let seen = Seen::new(&sequences)?;
    if offsets.first() != Some(&0) || offsets.last() != Some(&(seen.steps as u64)) || !offsets.is_sorted() {
        return Err(invalid("the lengths do not sum to the number of observations"));
    }
    let mut rows = Rows { filter: Filter::new(&model, lag), ahead, probs: Vec::new(), logs: Vec::new() };
    let found = detached(py, || {
        for pair in offsets.windows(2) {
            for at in pair[0] as usize..pair[1] as usize {
                rows.push_or(seen.at(at), on_error).map_err(|refused| (at, refused))?;
            }
            rows.break_off();
        }
        Ok((rows.probs, rows.logs))
    })?;
    let (probs, logs) = found.map_err(|(at, refused)| seen.refused(at, refused))?;
    Ok((probs.into(), logs.into()))
}

/// A filter of a stream.
#[pyclass(module = "warpkov._warpkov")]
struct HmmFilter(Filter);

#[pymethods]
impl HmmFilter {
    #[new]
    fn new(parts: Parts, lag: usize) -> PyResult<Self> {
        Ok(Self(Filter::new(&parts.model()?, lag)))
    }

    /// Takes the only observation of a sequence, or a missing one. Returns the smoothed distribution, if there is one yet.
    fn push(&mut self, observation: Option<Observed>) -> PyResult<Option<Buffer>> {
        match &observation {
            None => self.0.push(Observation::Missing).map_err(invalid)?,
            Some(observed) => {
                let seen = Seen::new(observed)?;
                if seen.steps != 1 {
                    return Err(invalid(format!("found {} observations, expected one", seen.steps)));
                }
                self.0.push(seen.at(0)).map_err(|refused| seen.refused(0, refused))?;
            }
        }
        Ok(self.0.smoothed().map(Buffer::from))
    }

    fn probs(&self) -> Buffer {
        self.0.probs().to_vec().into()
    }

    fn predicted(&self, py: Python<'_>, ahead: u32) -> Buffer {
        py.detach(|| self.0.predicted(ahead)).into()
    }

    fn log_likelihood(&self) -> f64 {
        self.0.log_likelihood()
    }

    fn steps(&self) -> u64 {
        self.0.steps()
    }

    /// Begins another sequence. Returns the smoothed distributions that the lag has kept back, row by row.
    fn reset(&mut self) -> Buffer {
        self.0.break_off().0.concat().into()
    }

    fn save(&self) -> Buffer {
        self.0.save().into()
    }

    fn restore(&mut self, saved: Input<f64>) -> PyResult<()> {
        match self.0.restore(saved.as_ref()) {
            true => Ok(()),
            false => Err(invalid("the saved numbers are not of a filter of this model and lag")),
        }
    }
}
