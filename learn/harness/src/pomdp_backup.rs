//! Chapter 11: the best α-vector of each belief, i*(j) = argmaxᵢ b_j · αᵢ.
//!
//! Beliefs are multiples of 1/8 and vectors are integers, so all products are exact in f32, in any order of summation.
//! Many vectors tie.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::{KernelProfile, Operation, Profile};
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// S.
pub const STATES: usize = 32;

/// Tokens of 1/8 that make up a belief.
const TOKENS: usize = 8;

// ANCHOR: model
/// Beliefs and α-vectors.
pub struct Model<D: Device> {
    /// B.
    pub beliefs: u32,
    /// S, 32 in this exercise.
    pub states: u32,
    /// n.
    pub vectors: u32,
    /// B × S: b_j(s) at j·S + s.
    pub belief: D::Buffer<f32>,
    /// S × n: αᵢ(s) at s·n + i.
    pub alpha: D::Buffer<f32>,
}
// ANCHOR_END: model

/// What the student launches.
pub trait PomdpBackup {
    /// The vector with the largest b_j · αᵢ for each belief j, into `winners`; of equal ones that with the smallest i.
    /// `scores` has B·n elements for any use.
    ///
    /// # Errors
    /// Those of the device.
    fn best<D: Device>(
        device: &D,
        model: &Model<D>,
        scores: &mut D::Buffer<f32>,
        winners: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;

    /// The same for few beliefs and many vectors. `keys` has B elements, all zero before the first launch.
    ///
    /// # Errors
    /// Those of the device.
    fn best_of_few<D: Device>(
        device: &D,
        model: &Model<D>,
        scores: &mut D::Buffer<f32>,
        keys: &mut D::Buffer<u64>,
        winners: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;
}

/// B and n at a size: part 1 has `size` beliefs, part 2 `size` vectors. The other number is often no multiple of 16.
fn extents(part: usize, size: usize) -> (usize, usize) {
    if part == 0 { (size, 16 * size.isqrt() - 5 * (size % 2)) } else { (16 - 11 * (size % 2), size) }
}

/// i* of each belief, whose tokens lie on the states `tokens`, in integers.
fn expected(tokens: &[u32], alpha: &[i32], vectors: usize) -> Vec<u32> {
    let winner = |tokens: &[u32]| {
        let mut scores = vec![0; vectors];
        for &s in tokens {
            let row = &alpha[s as usize * vectors..][..vectors];
            scores.iter_mut().zip(row).for_each(|(score, alpha)| *score += alpha);
        }
        let best = scores.iter().max();
        scores.iter().position(|score| Some(score) == best).unwrap_or_default() as u32
    };
    tokens.chunks(TOKENS).map(winner).collect()
}

/// Checks a [`PomdpBackup`].
pub struct Check<S>(PhantomData<S>);

impl<S: PomdpBackup> Exercise for Check<S> {
    const PARTS: &'static [&'static str] =
        &["a product that keeps its maximum", "few beliefs: the vectors divided among blocks"];

    fn sizes(part: usize) -> Vec<usize> {
        if part == 0 { vec![1, 16, 33, 100] } else { vec![1, 31, 128, 129, 1000] }
    }

    fn counted(part: usize) -> usize {
        if part == 0 { 256 } else { 2048 }
    }

    fn timed(part: usize) -> usize {
        if part == 0 { 1 << 16 } else { 1 << 19 }
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, size: usize) -> Result<(), Failure> {
        let (beliefs, vectors) = extents(part, size);
        let tokens = lab.integers(TOKENS * beliefs, STATES as u32, 0);
        let alpha: Vec<i32> = lab.integers(STATES * vectors, 16, 1).into_iter().map(|x| x as i32 - 12).collect();
        let expected = expected(&tokens, &alpha, vectors);
        let mut belief = vec![0.0; beliefs * STATES];
        for (token, &s) in tokens.iter().enumerate() {
            belief[token / TOKENS * STATES + s as usize] += 1.0 / TOKENS as f32;
        }
        let alpha: Vec<f32> = alpha.into_iter().map(|x| x as f32).collect();
        let model = Model {
            beliefs: beliefs as u32,
            states: STATES as u32,
            vectors: vectors as u32,
            belief: lab.device.upload(&belief)?,
            alpha: lab.device.upload(&alpha)?,
        };
        let mut scores = lab.device.uninitialised(beliefs * vectors)?;
        let mut winners = lab.device.uninitialised(beliefs)?;
        if part == 0 {
            lab.launch(|device| S::best(device, &model, &mut scores, &mut winners))?;
        } else {
            let mut keys = lab.device.zeros(beliefs)?;
            lab.launch(|device| S::best_of_few(device, &model, &mut scores, &mut keys, &mut winners))?;
        }
        lab.equal("winners", &lab.device.to_vec(&winners)?, &expected)
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let stores = |profile: &Profile| {
            profile.kernels.values().map(|kernel| kernel.total(Operation::Store).sectors as f64).sum()
        };
        let what = "sectors of stores of all kernels";
        if part == 0 {
            return vec![Budget::of_all(what, 256.0, stores), Budget::bytes_of_all(640_000.0)];
        }
        let atomics = |kernel: &KernelProfile| kernel.atomics_per_address.first().copied().unwrap_or(0);
        let loads_per_warp = |kernel: &KernelProfile| {
            let warps = kernel.blocks * u64::from(kernel.block_threads.div_ceil(32));
            kernel.total(Operation::Load).requests as f64 / warps.max(1) as f64
        };
        vec![
            Budget::of_all(what, 16.0, stores),
            Budget::of_all("loads of a warp", 80.0, move |profile| profile.kernels.values().map(loads_per_warp).sum()),
            Budget::of_all("atomic operations on one address", 16.0, move |profile| {
                profile.kernels.values().map(atomics).sum::<u64>() as f64
            }),
        ]
    }

    /// Beliefs, vectors and winners once.
    fn work(part: usize, size: usize) -> Work {
        let (beliefs, vectors) = extents(part, size);
        let words = beliefs * STATES + vectors * STATES + beliefs;
        Work { bytes: (4 * words) as f64, flops: (2 * beliefs * vectors * STATES) as f64 }
    }
}
