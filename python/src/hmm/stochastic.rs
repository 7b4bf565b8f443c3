//! Stochastic EM: a model that learns from one batch after another.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::stochastic::{EXPONENT, Stochastic};

use super::{OF_ITERATION, Observed, Parts, Training, Where, arrays, compute};
use crate::error::invalid;
use crate::options::choice;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HmmStochastic>()
}

/// A model in training.
#[pyclass(module = "warpkov._warpkov")]
struct HmmStochastic {
    trained: Stochastic,
}

#[pymethods]
impl HmmStochastic {
    #[new]
    fn new(parts: Parts, training: Training, place: Where) -> PyResult<Self> {
        let (options, _) = training.options(choice("precision", &place.precision)?)?;
        Ok(Self { trained: Stochastic::new(parts.model()?, options, EXPONENT).map_err(invalid)? })
    }

    /// Learns from a batch. Returns ln P(O) under the model before, and the parameters behind it.
    fn learn<'py>(
        &mut self,
        py: Python<'py>,
        sequences: Observed,
        place: Where,
    ) -> PyResult<(f64, Bound<'py, PyDict>)> {
        let model = self.trained.model().clone();
        let sequences = sequences.sequences(&model)?;
        let trained = &mut self.trained;
        let log = compute(py, &model, &sequences, &place, (OverPaths::Sums, OF_ITERATION), |recursions| {
            Ok(trained.learn(recursions, &sequences)?)
        })?;
        Ok((log, arrays(py, self.trained.model().clone())?))
    }
}
