//! Chapter 12: the forward recursion, Viterbi's algorithm, and the scan of a recursion over a semiring.

use std::marker::PhantomData;

use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// States of the models of part 1: one per lane of a warp.
pub const STATES: usize = 32;

/// States of the model of part 2.
pub const FEW: usize = 4;

/// Symbols of all models.
const SYMBOLS: usize = 8;

/// A hidden Markov model on a device. All weights are powers of two, given by their exponents: log₂ of a weight.
pub struct Model<D: Device> {
    /// log₂ π: a weight for each state.
    pub start: D::Buffer<f32>,
    /// log₂ A, row by row: element (i, j) is the weight of the step from i to j.
    pub transitions: D::Buffer<f32>,
    /// log₂ B, symbol by symbol: element (k, j) is the weight of symbol k in state j.
    pub emissions: D::Buffer<f32>,
}

/// Observed sequences of equal length on a device.
pub struct Sequences<D: Device> {
    /// Number of sequences M.
    pub count: u32,
    /// Steps of each sequence T.
    pub steps: u32,
    /// Symbols: sequence m has `symbols[m·T] … symbols[m·T + T − 1]`.
    pub symbols: D::Buffer<u32>,
}

/// What [`HmmForward::viterbi`] writes.
pub struct Paths<D: Device> {
    /// For the predecessors: M·T·[`STATES`] elements.
    pub pointers: D::Buffer<u32>,
    /// The states of the best path of each sequence: M·T elements.
    pub path: D::Buffer<u32>,
    /// log₂ of the path's weight, for each sequence.
    pub scores: D::Buffer<f32>,
}

/// What the student launches.
pub trait HmmForward {
    /// `scores[m]` = log₂ of the sum of the weights of all paths of sequence m.
    ///
    /// # Errors
    /// Those of the device.
    fn forward<D: Device>(
        device: &D,
        model: &Model<D>,
        sequences: &Sequences<D>,
        scores: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// The best path of each sequence and log₂ of its weight. Of equal states the smallest counts, for the last step and
    /// for each predecessor.
    ///
    /// # Errors
    /// Those of the device.
    fn viterbi<D: Device>(
        device: &D,
        model: &Model<D>,
        sequences: &Sequences<D>,
        paths: &mut Paths<D>,
    ) -> Result<(), D::Error>;

    /// The product `matrices[0] ⊗ … ⊗ matrices[t]` for each t < `steps`, over the semiring (max, +), or if `sums` over
    /// that of logarithms of sums. Matrices have [`FEW`]² elements, row by row. May allocate.
    ///
    /// # Errors
    /// Those of the device.
    fn scan<D: Device>(
        device: &D,
        sums: bool,
        steps: u32,
        matrices: &D::Buffer<f32>,
        products: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// Checks an [`HmmForward`].
pub struct Check<S>(PhantomData<S>);

/// A model and sequences on the host.
struct Case {
    states: usize,
    start: Vec<f32>,
    transitions: Vec<f32>,
    emissions: Vec<f32>,
    sequences: usize,
    steps: usize,
    symbols: Vec<u32>,
}

impl Case {
    fn new<D: Device>(lab: &Lab<'_, D>, states: usize, sequences: usize, steps: usize) -> Self {
        let weights = |n: usize, stream| lab.integers(n, 6, stream).into_iter().map(|x| -(x as f32)).collect();
        Self {
            states,
            start: weights(states, 0),
            transitions: weights(states * states, 1),
            emissions: weights(SYMBOLS * states, 2),
            sequences,
            steps,
            symbols: lab.integers(sequences * steps, SYMBOLS as u32, 3),
        }
    }

    fn emission(&self, sequence: usize, step: usize) -> &[f32] {
        &self.emissions[self.symbols[sequence * self.steps + step] as usize * self.states..][..self.states]
    }

    /// log₂ αₜ(j) of each step: with sums of weights, scaled at each step.
    fn sums(&self, sequence: usize) -> Vec<f64> {
        let weight = |x: &f32| f64::from(*x).exp2();
        let matrix: Vec<f64> = self.transitions.iter().map(weight).collect();
        let (mut all, mut exponent) = (Vec::with_capacity(self.steps * self.states), 0.0);
        let mut alpha: Vec<f64> = self.start.iter().map(weight).collect();
        for step in 0..self.steps {
            if step > 0 {
                let mut next = vec![0.0; self.states];
                for (i, a) in alpha.iter().enumerate() {
                    let row = &matrix[i * self.states..][..self.states];
                    next.iter_mut().zip(row).for_each(|(next, weight)| *next += a * weight);
                }
                alpha = next;
            }
            alpha.iter_mut().zip(self.emission(sequence, step)).for_each(|(alpha, b)| *alpha *= weight(b));
            let sum: f64 = alpha.iter().sum();
            alpha.iter_mut().for_each(|alpha| *alpha /= sum);
            exponent += sum.log2();
            all.extend(alpha.iter().map(|alpha| alpha.log2() + exponent));
        }
        all
    }

    /// δₜ(j) of each step and the predecessor of each maximum, in integers.
    fn maxima(&self, sequence: usize) -> (Vec<i32>, Vec<u32>) {
        let mut delta: Vec<i32> = self.start.iter().map(|&x| x as i32).collect();
        let (mut all, mut from) = (Vec::new(), Vec::new());
        for step in 0..self.steps {
            if step > 0 {
                let best = |j: usize| {
                    let sum = |i: usize| delta[i] + self.transitions[i * self.states + j] as i32;
                    (1..self.states)
                        .fold((sum(0), 0), |best, i| if sum(i) > best.0 { (sum(i), i as u32) } else { best })
                };
                let best: Vec<(i32, u32)> = (0..self.states).map(best).collect();
                delta = best.iter().map(|best| best.0).collect();
                from.extend(best.iter().map(|best| best.1));
            } else {
                from.extend((0..self.states).map(|_| 0));
            }
            delta.iter_mut().zip(self.emission(sequence, step)).for_each(|(delta, &b)| *delta += b as i32);
            all.extend_from_slice(&delta);
        }
        (all, from)
    }

    fn model<D: Device>(&self, device: &D) -> Result<Model<D>, D::Error> {
        Ok(Model {
            start: device.upload(&self.start)?,
            transitions: device.upload(&self.transitions)?,
            emissions: device.upload(&self.emissions)?,
        })
    }

    /// Matrix t is A·diag b(oₜ); in matrix 0, each row is π ∘ b(o₀), so that each row of the products is αₜ.
    fn matrices(&self) -> Vec<f32> {
        let mut matrices = Vec::with_capacity(self.steps * self.states * self.states);
        for step in 0..self.steps {
            for i in 0..self.states {
                let row = if step == 0 { &self.start } else { &self.transitions[i * self.states..][..self.states] };
                matrices.extend(row.iter().zip(self.emission(0, step)).map(|(a, b)| a + b));
            }
        }
        matrices
    }
}

fn paths<S: HmmForward, D: Device>(lab: &Lab<'_, D>, steps: usize) -> Result<(), Failure> {
    let case = Case::new(lab, STATES, count(steps), steps);
    let (device, rows) = (lab.device, case.sequences * steps);
    let model = case.model(device)?;
    let symbols = device.upload(&case.symbols)?;
    let sequences = Sequences { count: case.sequences as u32, steps: steps as u32, symbols };
    let mut sums = device.uninitialised(case.sequences)?;
    S::forward(device, &model, &sequences, &mut sums)?;
    let last = |all: &[f64]| all[(steps - 1) * STATES..].iter().map(|x| x.exp2()).sum::<f64>().log2();
    let expected: Vec<f64> = (0..case.sequences)
        .map(|m| {
            let all = case.sums(m);
            let largest = all[(steps - 1) * STATES..].iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let shifted: Vec<f64> = all.iter().map(|x| x - largest).collect();
            largest + last(&shifted)
        })
        .collect();
    lab.close("the sum of", &device.to_vec(&sums)?, &expected, 1e-5)?;

    let mut paths = Paths {
        pointers: device.uninitialised(rows * STATES)?,
        path: device.uninitialised(rows)?,
        scores: device.uninitialised(case.sequences)?,
    };
    lab.launch(|device| S::viterbi(device, &model, &sequences, &mut paths))?;
    let (mut scores, mut path) = (Vec::new(), vec![0; rows]);
    for m in 0..case.sequences {
        let (delta, from) = case.maxima(m);
        let delta = &delta[(steps - 1) * STATES..];
        let best = (0..STATES).fold(0, |best, j| if delta[j] > delta[best] { j } else { best });
        scores.push(delta[best] as f32);
        let mut state = best as u32;
        for step in (0..steps).rev() {
            path[m * steps + step] = state;
            state = from[step * STATES + state as usize];
        }
    }
    lab.equal("scores", &device.to_vec(&paths.scores)?, &scores)?;
    lab.equal("path", &device.to_vec(&paths.path)?, &path)
}

fn products<S: HmmForward, D: Device>(lab: &Lab<'_, D>, steps: usize) -> Result<(), Failure> {
    let case = Case::new(lab, FEW, 1, steps);
    let matrices = lab.device.upload(&case.matrices())?;
    let mut products = lab.device.uninitialised(steps * FEW * FEW)?;
    // Every row of a product is αₜ, in each semiring.
    let rows = |alpha: &[f64]| alpha.chunks(FEW).flat_map(|alpha| alpha.repeat(FEW)).collect::<Vec<f64>>();
    S::scan(lab.device, true, steps as u32, &matrices, &mut products)?;
    lab.close("αₜ in row", &lab.device.to_vec(&products)?, &rows(&case.sums(0)), 1e-4)?;
    lab.launch(|device| S::scan(device, false, steps as u32, &matrices, &mut products))?;
    let maxima: Vec<f64> = case.maxima(0).0.into_iter().map(f64::from).collect();
    lab.close("δₜ in row", &lab.device.to_vec(&products)?, &rows(&maxima), 0.0)
}

/// Sequences of part 1.
fn count(steps: usize) -> usize {
    if steps < 1000 { 3 } else { 132 }
}

impl<S: HmmForward> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &["the best path", "⌈log₂ T⌉ steps instead of T"];

    fn sizes(part: usize) -> Vec<usize> {
        if part == 0 { vec![1, 2, 33] } else { vec![1, 2, 7, 64, 100] }
    }

    fn counted(part: usize) -> usize {
        if part == 0 { 64 } else { 256 }
    }

    fn timed(part: usize) -> usize {
        if part == 0 { 1000 } else { 1 << 14 }
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, steps: usize) -> Result<(), Failure> {
        if part == 0 { paths::<S, D>(lab, steps) } else { products::<S, D>(lab, steps) }
    }

    fn budgets(part: usize) -> Vec<Budget> {
        if part == 0 {
            // Each step waits once for the one before, on the way forth and on the way back. The best state of the last step
            // takes a few exchanges more.
            let steps = 3.0 * (2.0 * 64.0 + 16.0);
            return vec![Budget::waits("viterbi", steps), Budget::bank_conflicts("viterbi", 0.0)];
        }
        // 256 steps: 8 launches, each of which waits for the one before.
        vec![Budget::launches("combine_MaxPlus", 8.0), Budget::launches("combine_LogSum", 8.0)]
    }

    fn work(part: usize, steps: usize) -> Work {
        let (states, sequences) = if part == 0 { (STATES, count(steps)) } else { (FEW, 1) };
        // Part 1: each element of δ takes an addition and a comparison for each state. Part 2: the chain of vectors.
        let flops = (2 * states * states * steps * sequences) as f64;
        let bytes = if part == 0 { 4 * steps * sequences * (states + 2) } else { 2 * 4 * steps * states * states };
        Work { bytes: bytes as f64, flops }
    }
}
