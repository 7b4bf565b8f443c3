//! The linear system of a policy, on all cores.

use std::convert::Infallible;

use rayon::prelude::*;

use super::engine::Engine;
use super::layout::{BLOCK, Layout};
use crate::mdp::krylov::Linear;
use crate::mdp::solve::{Evaluate, Evaluation, State};

/// Blocks that one task of a parallel loop handles, at least.
const BLOCKS_PER_TASK: usize = 4;

/// States whose equations are preconditioned together: as many as the cores have work with, whatever their number.
const PRECONDITIONED: usize = 4 * BLOCK;

/// The engine, with the system of the policy that was last prepared.
pub struct System<'m> {
    engine: Engine<'m, f64>,
    /// P^π, without rewards.
    matrix: Option<Box<dyn Layout<f64>>>,
    reward: Vec<f64>,
    /// 1 / (1 − γ P(s|s)).
    weight: Vec<f64>,
}

impl<'m> System<'m> {
    /// The systems of the policies of this engine.
    #[must_use]
    pub fn new(engine: Engine<'m, f64>) -> Self {
        Self { engine, matrix: None, reward: Vec::new(), weight: Vec::new() }
    }
}

impl State for System<'_> {
    type Error = Infallible;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Infallible> {
        self.engine.reset(initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, Infallible> {
        self.engine.values()
    }

    fn policy(&mut self) -> Result<Vec<u32>, Infallible> {
        self.engine.policy()
    }

    fn sweep_bytes(&mut self) -> Result<u64, Infallible> {
        self.engine.sweep_bytes()
    }
}

impl Evaluate for System<'_> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Infallible> {
        self.engine.evaluate(theta, max_sweeps)
    }

    fn improve(&mut self, tie: f64) -> Result<u64, Infallible> {
        self.engine.improve(tie)
    }
}

/// Goes through blocks of `y` on all cores, each with what `f` returns for it, in their order.
fn blocks<R: Send>(y: &mut [f64], f: impl Fn(usize, &mut [f64]) -> R + Sync) -> Vec<R> {
    let blocks = y.par_chunks_mut(BLOCK).enumerate().with_min_len(BLOCKS_PER_TASK);
    blocks.map(|(block, y)| f(block * BLOCK, y)).collect()
}

/// x·y in eight partial sums, which the compiler can keep in one register.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (xs, x_rest) = x.as_chunks::<8>();
    let (ys, y_rest) = y.as_chunks::<8>();
    for (x, y) in xs.iter().zip(ys) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

impl Linear for System<'_> {
    type Vector = Vec<f64>;

    fn vector(&mut self) -> Result<Vec<f64>, Infallible> {
        Ok(vec![0.0; self.engine.states()])
    }

    fn prepare(&mut self) -> Result<(), Infallible> {
        let (matrix, reward) = self.engine.system();
        self.weight = vec![0.0; reward.len()];
        self.weight.par_iter_mut().enumerate().for_each(|(s, weight)| *weight = 1.0 / (1.0 - matrix.loops(s)));
        (self.matrix, self.reward) = (Some(matrix), reward);
        Ok(())
    }

    fn load(&mut self, x: &mut Vec<f64>) -> Result<(), Infallible> {
        x.copy_from_slice(self.engine.present());
        Ok(())
    }

    fn store(&mut self, x: &Vec<f64>) -> Result<(), Infallible> {
        self.engine.replace(x);
        Ok(())
    }

    fn apply(&mut self, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<(), Infallible> {
        if let Some(matrix) = &self.matrix {
            blocks(y, |first, y| {
                matrix.backup(first, x, y);
                for (y, x) in y.iter_mut().zip(&x[first..]) {
                    *y = x - *y;
                }
            });
        }
        Ok(())
    }

    /// Symmetric Gauss-Seidel from 0, forth and back, in each block of states by itself.
    fn precondition(&mut self, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<(), Infallible> {
        let Some(matrix) = &self.matrix else { return Ok(()) };
        let blocks = x.par_chunks(PRECONDITIONED).zip(self.weight.par_chunks(PRECONDITIONED));
        y.par_chunks_mut(PRECONDITIONED).zip(blocks).enumerate().for_each(|(block, (y, (x, weight)))| {
            y.fill(0.0);
            matrix.relax(block * PRECONDITIONED, x, weight, y, false);
            matrix.relax(block * PRECONDITIONED, x, weight, y, true);
        });
        Ok(())
    }

    fn residual(&mut self, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<f64, Infallible> {
        let Some(matrix) = &self.matrix else { return Ok(f64::INFINITY) };
        let norms = blocks(y, |first, y| {
            matrix.backup(first, x, y);
            let mut norm: f64 = 0.0;
            for ((y, x), r) in y.iter_mut().zip(&x[first..]).zip(&self.reward[first..]) {
                *y = r + *y - x;
                norm = if y.is_nan() { f64::INFINITY } else { norm.max(y.abs()) };
            }
            norm
        });
        Ok(norms.into_iter().fold(0.0, f64::max))
    }

    fn dots(&mut self, x: &Vec<f64>, y: &Vec<f64>, z: &Vec<f64>) -> Result<(f64, f64), Infallible> {
        let blocks = x.par_chunks(BLOCK).zip(y.par_chunks(BLOCK)).zip(z.par_chunks(BLOCK));
        let blocks = blocks.with_min_len(BLOCKS_PER_TASK).map(|((x, y), z)| (dot(x, y), dot(x, z)));
        // Added in the order of the blocks, however many cores there are.
        let blocks: Vec<(f64, f64)> = blocks.collect();
        Ok(blocks.into_iter().fold((0.0, 0.0), |sums, block| (sums.0 + block.0, sums.1 + block.1)))
    }

    fn combine(
        &mut self,
        a: f64,
        y: &mut Vec<f64>,
        b: f64,
        x: &Vec<f64>,
        c: f64,
        z: &Vec<f64>,
    ) -> Result<(), Infallible> {
        blocks(y, |first, y| {
            for ((y, x), z) in y.iter_mut().zip(&x[first..]).zip(&z[first..]) {
                let rest = b * x + c * z;
                *y = if a == 0.0 { rest } else { a * *y + rest };
            }
        });
        Ok(())
    }
}
