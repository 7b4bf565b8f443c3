//! Several paths of sequences, occupancies, and scores of windows.

use pyo3::prelude::*;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::model::Hmm;
use warpkov_hmm::occupancy::occupancy;
use warpkov_hmm::paths::{self, Scored, best_paths, sample_paths};
use warpkov_hmm::sequences::{NO_STATE, Sequences};
use warpkov_hmm::windows::Windows;

use super::{Observed, Parts, Where, compute, only};
use crate::array::Buffer;
use crate::error::exception;
use crate::wait::detached;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(hmm_best, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_occupancy, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_sample_paths, module)?)?;
    module.add_function(wrap_pyfunction!(hmm_windows, module)?)
}

/// Paths of each sequence as arrays: states, `count` × ΣT, and ln P(O, q), `count` × M.
fn arrays(
    py: Python<'_>,
    parts: &Parts,
    sequences: &Observed,
    count: u32,
    find: impl FnOnce(&Hmm, &Sequences) -> Result<Vec<Vec<Scored>>, paths::Error> + Send,
) -> PyResult<(Buffer, Buffer)> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    let lists = detached(py, || find(&model, &sequences))?.map_err(exception)?;
    let (mut states, mut scores) = (Vec::new(), Vec::new());
    for number in 0..count as usize {
        for (sequence, list) in lists.iter().enumerate() {
            match list.get(number) {
                Some(path) => states.extend_from_slice(&path.states),
                None => states.resize(states.len() + sequences.range(sequence).len(), NO_STATE),
            }
            scores.push(list.get(number).map_or(f64::NEG_INFINITY, |path| path.score));
        }
    }
    Ok((states.into(), scores.into()))
}

/// The most probable paths of each sequence.
#[pyfunction]
fn hmm_best(py: Python<'_>, parts: Parts, sequences: Observed, count: u32) -> PyResult<(Buffer, Buffer)> {
    arrays(py, &parts, &sequences, count, |model, sequences| best_paths(model, sequences, count))
}

/// Paths of each sequence, drawn from P(q | O).
#[pyfunction]
fn hmm_sample_paths(
    py: Python<'_>,
    parts: Parts,
    sequences: Observed,
    count: u32,
    seed: u64,
) -> PyResult<(Buffer, Buffer)> {
    arrays(py, &parts, &sequences, count, |model, sequences| sample_paths(model, sequences, count, seed))
}

/// Expected times in each state and numbers of visits, M × N each.
#[pyfunction]
fn hmm_occupancy(py: Python<'_>, parts: Parts, sequences: Observed) -> PyResult<(Buffer, Buffer)> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    let found = detached(py, || occupancy(&model, &sequences, None))?.map_err(exception)?;
    Ok((found.time.into(), found.visits.into()))
}

/// ln P of each window of each sequence.
#[pyfunction]
fn hmm_windows(
    py: Python<'_>,
    parts: Parts,
    sequences: Observed,
    place: Where,
    window: usize,
    step: usize,
) -> PyResult<Buffer> {
    let model = parts.model()?;
    let sequences = sequences.sequences(&model)?;
    let mut logs = Vec::new();
    for batch in Windows::new(&sequences, window, step).batches() {
        let found = compute(py, &model, &batch, &place, (OverPaths::Sums, 1.0), |recursions| {
            Ok(only(recursions.log_likelihoods()?))
        });
        logs.extend(found?);
    }
    Ok(logs.into())
}
