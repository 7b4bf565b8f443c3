//! Derivatives of ln P(O), and of the partition function of any linear chain.

use pyo3::prelude::*;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::gradient::gradient;
use warpkov_hmm::options::Precision;
use warpkov_hmm::potentials::{ChainError, Potentials};
use warpkov_runtime::choose::DeviceChoice;

use super::{OF_ITERATION, Observed, Parts, Where, compute};
use crate::array::{Buffer, Input};
use crate::error::{exception, invalid};
use crate::options::choice;
use crate::wait::detached;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(hmm_gradient, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_log_partition, module)?)
}

/// The index of a channel, the name of a parameter, whether the derivative is one with respect to logarithms, and the derivative.
type Derivative = (Option<usize>, &'static str, bool, Buffer);

/// Derivatives with respect to ln π, ln A and the parameters of the emissions.
#[pyfunction]
fn hmm_gradient(
    py: Python<'_>,
    parts: Parts,
    sequences: Observed,
    place: Where,
) -> PyResult<(Buffer, Buffer, Vec<Derivative>)> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    let expected =
        compute(
            py,
            &model,
            &sequences,
            &place,
            (OverPaths::Sums, OF_ITERATION),
            |recursions| Ok(recursions.expect()?),
        )?;
    let Some(expected) = expected.into_iter().next() else { return Err(invalid("there is no model")) };
    let found = gradient(&model, &expected).map_err(invalid)?;
    let emissions = found.emissions.into_iter().map(|of| (of.channel, of.name, of.logarithmic, of.numbers.into()));
    Ok((found.start.into(), found.transitions.into(), emissions.collect()))
}

/// ln Z of each sequence, and with `weights` the derivatives of Σ w ln Z with respect to all potentials.
#[pyfunction]
fn hmm_log_partition(
    py: Python<'_>,
    start: Input<f64>,
    transitions: Input<f64>,
    steps: Input<f64>,
    lengths: Input<u64>,
    place: Where,
    weights: Option<Input<f64>>,
) -> PyResult<(Buffer, Option<[Buffer; 3]>)> {
    let device: DeviceChoice =
        place.device.parse().map_err(|error| invalid(format!("device is '{}', {error}", place.device)))?;
    let precision: Precision = choice("precision", &place.precision)?;
    let lengths: Vec<usize> = lengths.as_ref().iter().map(|&length| length as usize).collect();
    let found = detached(py, || {
        let potentials = Potentials {
            start: start.as_ref(),
            transitions: transitions.as_ref(),
            steps: steps.as_ref(),
            lengths: &lengths,
        };
        match &weights {
            None => Ok((potentials.log_z(device, precision)?.into(), None)),
            Some(weights) => {
                let found = potentials.derivatives(weights.as_ref(), device, precision)?;
                Ok((found.log_z.into(), Some([found.start, found.transitions, found.steps].map(Buffer::from))))
            }
        }
    })?;
    found.map_err(|error| match error {
        ChainError::Recursions(error) => exception(error),
        error => invalid(error),
    })
}
