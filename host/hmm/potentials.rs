//! Linear chains with any potentials, such as those that a neural network computes: conditional random fields, or hidden Markov models whose
//! densities are given.
//!
//! A path q of a sequence of T steps has the weight e^(a(q₁) + Σₜ b(qₜ₋₁, qₜ) + Σₜ cₜ(qₜ)), and Z is the sum of the weights of all paths. With the logarithms
//! of π, A and the densities of the observations, Z is P(O).
//!
//! The recursions are those of a hidden Markov model whose rows of A are e^b, scaled to the sum 1; what scales row i is added to cₜ(i) of all steps but the
//! last.

use std::ops::Range;

use warpkov_kernels::hmm::emission::Given;
use warpkov_runtime::choose::DeviceChoice;

use super::backends::device::OverPaths;
use super::channels::{Channel, Channels, Code, Family};
use super::model::{Emissions, Hmm, HmmParts, Invalid, Names};
use super::options::Precision;
use super::place::Error;
use super::run::alone;
use super::sequences::{self, Observations, Sequences, offsets};
use super::special::log_sum;

/// The logarithms of all potentials. −∞ is a weight of 0.
#[derive(Clone, Copy, Debug)]
pub struct Potentials<'p> {
    /// a, N.
    pub start: &'p [f64],
    /// b, N × N, row by row.
    pub transitions: &'p [f64],
    /// c of all steps of all sequences, ΣT × N, row by row.
    pub steps: &'p [f64],
    /// T of each sequence, at least 1.
    pub lengths: &'p [usize],
}

/// ln Z of each sequence, and the derivatives of Σ w ln Z.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derivatives {
    /// ln Z of each sequence; −∞ if Z is 0, which adds nothing to the derivatives.
    pub log_z: Vec<f64>,
    /// With respect to a, N.
    pub start: Vec<f64>,
    /// With respect to b, N × N.
    pub transitions: Vec<f64>,
    /// With respect to c, ΣT × N.
    pub steps: Vec<f64>,
}

/// Why there is no Z.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// An array has the wrong length.
    #[error("{array} has {found} numbers, expected {expected}")]
    Length {
        /// The array.
        array: &'static str,
        /// Its length.
        found: usize,
        /// What it should be.
        expected: usize,
    },
    /// A number is NaN or ∞.
    #[error("{array} has the number {found} at {at}, expected a number below ∞")]
    Number {
        /// The array.
        array: &'static str,
        /// The index of the number.
        at: usize,
        /// The number.
        found: f64,
    },
    /// A sequence without steps, or too many.
    #[error(transparent)]
    Sequences(#[from] sequences::Invalid),
    /// There are no states.
    #[error(transparent)]
    Model(#[from] Invalid),
    /// The recursions failed.
    #[error(transparent)]
    Recursions(#[from] Error),
}

/// In place of −∞ in the observations, which are finite.
const NEVER: f64 = f64::MIN;

/// e^x of a row, scaled to the sum 1, and the logarithm of its sum; equal numbers if that is −∞.
fn scaled(row: &[f64]) -> (Vec<f64>, f64) {
    let sum = log_sum(row.iter().copied());
    match sum > f64::NEG_INFINITY {
        true => (row.iter().map(|x| (x - sum).exp()).collect(), sum),
        false => (vec![1.0 / row.len() as f64; row.len()], sum),
    }
}

impl Potentials<'_> {
    fn check(&self) -> Result<usize, ChainError> {
        let (n, rows) = (self.start.len(), self.lengths.iter().sum::<usize>());
        for (array, numbers, expected) in [
            ("start", self.start, n),
            ("transitions", self.transitions, n * n),
            ("steps", self.steps, rows.saturating_mul(n)),
        ] {
            let found = numbers.len();
            if found != expected {
                return Err(ChainError::Length { array, found, expected });
            }
            if let Some(at) = numbers.iter().position(|x| x.is_nan() || *x == f64::INFINITY) {
                return Err(ChainError::Number { array, at, found: numbers[at] });
            }
        }
        if n == 0 {
            return Err(Invalid::None("state").into());
        }
        Ok(n)
    }

    /// The hidden Markov model and its observations; what is to be added to ln P(O).
    fn model(&self) -> Result<(Hmm, Sequences, f64), ChainError> {
        let n = self.check()?;
        let (start, shift) = scaled(self.start);
        let rows: Vec<(Vec<f64>, f64)> = self.transitions.chunks_exact(n).map(scaled).collect();
        let mut values = self.steps.to_vec();
        let mut first = 0;
        for &length in self.lengths {
            let steps = &mut values[first * n..(first + length) * n];
            for step in steps.chunks_exact_mut(n).rev().skip(1) {
                step.iter_mut().zip(&rows).for_each(|(x, (_, sum))| *x += sum);
            }
            first += length;
        }
        values.iter_mut().for_each(|x| *x = x.max(NEVER));
        let family = Family::Code(Code::new(Given { states: n as u32 }, None, (0..n).map(|j| j as f64).collect()));
        let list = vec![Channel { columns: (0..n as u32).collect(), family }];
        let model = HmmParts {
            start,
            transitions: rows.into_iter().flat_map(|(row, _)| row).collect(),
            end: None,
            emissions: Emissions::Channels(Channels { dimensions: n as u32, names: Vec::new(), list }),
            names: Names::default(),
        };
        let observations = Observations::Vectors { dimensions: n as u32, values };
        let sequences = Sequences::new(offsets(self.lengths.iter().copied()), observations)?;
        Ok((model.validated()?, sequences, shift))
    }

    /// ln Z of each sequence.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn log_z(&self, device: DeviceChoice, precision: Precision) -> Result<Vec<f64>, ChainError> {
        let (model, sequences, shift) = self.model()?;
        let logs = alone(&model, &sequences, device, precision, OverPaths::Sums, |recursions| {
            Ok::<_, Error>(recursions.log_likelihoods()?.remove(0))
        })?;
        Ok(logs.iter().map(|log| log + shift).collect())
    }

    /// ln Z of each sequence, and the derivatives of Σ w ln Z with any real `weights` w of the sequences.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn derivatives(
        &self,
        weights: &[f64],
        device: DeviceChoice,
        precision: Precision,
    ) -> Result<Derivatives, ChainError> {
        let (model, sequences, shift) = self.model()?;
        let (n, m) = (self.start.len(), self.lengths.len());
        if weights.len() != m {
            return Err(ChainError::Length { array: "weights", found: weights.len(), expected: m });
        }
        if let Some(at) = weights.iter().position(|w| !w.is_finite()) {
            return Err(ChainError::Number { array: "weights", at, found: weights[at] });
        }
        let mut found = Derivatives { start: vec![0.0; n], transitions: vec![0.0; n * n], ..Derivatives::default() };
        // Weights of sequences are positive: one pass for each sign. The first has the posteriors, too.
        for sign in [1.0, -1.0] {
            let own: Vec<f64> = weights.iter().map(|weight| (sign * weight).max(0.0)).collect();
            if own.iter().all(|weight| *weight == 0.0) {
                continue;
            }
            let weighted = sequences.clone().with_weights(own)?;
            let counts = alone(&model, &weighted, device, precision, OverPaths::Sums, |recursions| {
                if found.steps.is_empty() {
                    found.steps = recursions.posteriors()?.remove(0);
                }
                Ok::<_, Error>(recursions.expect()?.remove(0))
            })?;
            let add = |sums: &mut [f64], counts: &[f64]| {
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += sign * count);
            };
            add(&mut found.start, &counts.start);
            add(&mut found.transitions, &counts.transitions);
            found.log_z = counts.log_likelihoods;
        }
        if found.steps.is_empty() {
            // All weights are 0.
            return Ok(Derivatives {
                log_z: self.log_z(device, precision)?,
                steps: vec![0.0; self.steps.len()],
                ..found
            });
        }
        for (of, &weight) in weights.iter().enumerate() {
            let Range { start, end } = sequences.range(of);
            found.steps[start * n..end * n].iter_mut().for_each(|x| *x *= weight);
        }
        found.log_z.iter_mut().for_each(|log| *log += shift);
        Ok(found)
    }
}
