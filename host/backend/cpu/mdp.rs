//! Policy iteration on the CPU.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

use rayon::prelude::*;

use crate::backend::Precise;
use crate::mdp::model::Mdp;
use crate::mdp::solve::{Backend, Evaluation};

/// States that one task of a parallel loop handles: enough to pay for the task, few enough to balance.
const CHUNK: usize = 4096;

/// The model in precision T, with V and π.
struct State<'m, T: Precise> {
    actions: usize,
    gamma: f64,
    row_ptr: &'m [u64],
    col: &'m [u32],
    prob: Cow<'m, [T]>,
    /// r(s, a).
    reward: Vec<T>,
    policy: Vec<u32>,
    v_old: Vec<T>,
    v_new: Vec<T>,
}

impl<'m, T: Precise> State<'m, T> {
    fn new(model: &'m Mdp) -> Self {
        let states = model.states as usize;
        Self {
            actions: model.actions as usize,
            gamma: model.gamma,
            row_ptr: &model.transitions.row_ptr,
            col: &model.transitions.col,
            prob: T::of(&model.transitions.val),
            reward: T::of(&model.expected_rewards()).into_owned(),
            policy: vec![0; states],
            v_old: vec![T::ZERO; states],
            v_new: vec![T::ZERO; states],
        }
    }

    /// Where the entries of a row are.
    fn entries(&self, row: usize) -> Range<usize> {
        self.row_ptr[row] as usize..self.row_ptr[row + 1] as usize
    }

    /// The row of a state's present action.
    fn row(&self, state: usize) -> usize {
        state * self.actions + self.policy[state] as usize
    }

    /// r(s, a) + γ Σ P(s'|s, a) V(s').
    fn q_factor(&self, row: usize) -> f64 {
        let entries = self.entries(row);
        let expected: f64 = self.col[entries.clone()]
            .iter()
            .zip(&self.prob[entries])
            .map(|(&successor, &prob)| prob.to_f64() * self.v_old[successor as usize].to_f64())
            .sum();
        self.reward[row].to_f64() + self.gamma * expected
    }

    /// The greedy action of a state, or its old one where no other is better by more than `tie`.
    fn greedy(&self, state: usize, tie: f64) -> u32 {
        let (old, first) = (self.policy[state], state * self.actions);
        let (mut old_q, mut best_q, mut best) = (f64::NEG_INFINITY, f64::NEG_INFINITY, 0);
        for action in 0..self.actions as u32 {
            let q = self.q_factor(first + action as usize);
            if action == old {
                old_q = q;
            }
            if q > best_q {
                (best_q, best) = (q, action);
            }
        }
        if best_q > old_q + tie { best } else { old }
    }

    fn reset(&mut self) {
        self.policy.fill(0);
        self.v_old.fill(T::ZERO);
    }

    fn values(&self) -> Vec<f64> {
        self.v_old.iter().map(|v| v.to_f64()).collect()
    }

    /// The entries of the policy's rows, two offsets and a reward for each, and V read and written.
    fn sweep_bytes(&self) -> u64 {
        let entries: usize = (0..self.policy.len()).map(|state| self.entries(self.row(state)).len()).sum();
        let t = size_of::<T>() as u64;
        entries as u64 * (4 + t) + self.policy.len() as u64 * (8 + 3 * t)
    }
}

/// Sweeps until the residual is below `theta`, or `max_sweeps` are done. `sweep` does one and returns its residual.
fn sweep_until(theta: f64, max_sweeps: u32, mut sweep: impl FnMut() -> f64) -> Evaluation {
    let mut evaluation = Evaluation { sweeps: 0, residual: f64::INFINITY };
    while evaluation.sweeps < max_sweeps && evaluation.residual >= theta {
        evaluation = Evaluation { sweeps: evaluation.sweeps + 1, residual: sweep() };
    }
    evaluation
}

/// One core, straight from the algorithm: the baseline that others are compared with.
pub struct Serial<'m, T: Precise>(State<'m, T>);

impl<'m, T: Precise> Serial<'m, T> {
    /// Starts at V = 0, π = 0.
    #[must_use]
    pub fn new(model: &'m Mdp) -> Self {
        Self(State::new(model))
    }
}

impl<T: Precise> Backend for Serial<'_, T> {
    type Error = Infallible;

    fn reset(&mut self) -> Result<(), Infallible> {
        self.0.reset();
        Ok(())
    }

    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Infallible> {
        let state = &mut self.0;
        Ok(sweep_until(theta, max_sweeps, || {
            let mut residual: f64 = 0.0;
            for s in 0..state.policy.len() {
                let value = T::from_f64(state.q_factor(state.row(s)));
                residual = residual.max((value.to_f64() - state.v_old[s].to_f64()).abs());
                state.v_new[s] = value;
            }
            std::mem::swap(&mut state.v_old, &mut state.v_new);
            residual
        }))
    }

    fn improve(&mut self, tie: f64) -> Result<u64, Infallible> {
        let state = &mut self.0;
        let mut changed = 0;
        for s in 0..state.policy.len() {
            let best = state.greedy(s, tie);
            changed += u64::from(best != state.policy[s]);
            state.policy[s] = best;
        }
        Ok(changed)
    }

    fn values(&mut self) -> Result<Vec<f64>, Infallible> {
        Ok(self.0.values())
    }

    fn policy(&mut self) -> Result<Vec<u32>, Infallible> {
        Ok(self.0.policy.clone())
    }

    fn sweep_bytes(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.sweep_bytes())
    }
}

/// All cores, on the projected matrix P^π.
pub struct Parallel<'m, T: Precise> {
    state: State<'m, T>,
    projected: Projected<T>,
}

/// P^π and r^π: the rows of the present policy, side by side.
struct Projected<T> {
    row_ptr: Vec<usize>,
    col: Vec<u32>,
    prob: Vec<T>,
    reward: Vec<T>,
}

impl<'m, T: Precise> Parallel<'m, T> {
    /// Starts at V = 0, π = 0.
    #[must_use]
    pub fn new(model: &'m Mdp) -> Self {
        let states = model.states as usize;
        let projected = Projected {
            row_ptr: vec![0; states + 1],
            col: Vec::new(),
            prob: Vec::new(),
            reward: vec![T::ZERO; states],
        };
        Self { state: State::new(model), projected }
    }

    /// Gathers the rows of the present policy: lengths, their prefix sum, copy.
    fn project(&mut self) {
        let Self { state, projected } = self;
        let entries = |s: usize| state.entries(state.row(s));
        projected.row_ptr[1..].par_iter_mut().enumerate().for_each(|(s, length)| *length = entries(s).len());
        for s in 1..projected.row_ptr.len() {
            projected.row_ptr[s] += projected.row_ptr[s - 1];
        }
        let total = projected.row_ptr.last().copied().unwrap_or(0);
        projected.col.resize(total, 0);
        projected.prob.resize(total, T::ZERO);

        // Each task owns the entries of its states.
        let mut tasks = Vec::new();
        let (mut cols, mut probs) = (&mut projected.col[..], &mut projected.prob[..]);
        for (chunk, rewards) in projected.reward.chunks_mut(CHUNK).enumerate() {
            let first = chunk * CHUNK;
            let length = projected.row_ptr[first + rewards.len()] - projected.row_ptr[first];
            let (col, prob);
            (col, cols) = cols.split_at_mut(length);
            (prob, probs) = probs.split_at_mut(length);
            tasks.push((first, rewards, col, prob));
        }
        tasks.into_par_iter().for_each(|(first, rewards, col, prob)| {
            let mut target = 0;
            for (s, reward) in (first..).zip(rewards) {
                let source = entries(s);
                let end = target + source.len();
                col[target..end].copy_from_slice(&state.col[source.clone()]);
                prob[target..end].copy_from_slice(&state.prob[source]);
                *reward = state.reward[state.row(s)];
                target = end;
            }
        });
    }
}

impl<T: Precise> Backend for Parallel<'_, T> {
    type Error = Infallible;

    fn reset(&mut self) -> Result<(), Infallible> {
        self.state.reset();
        Ok(())
    }

    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Infallible> {
        self.project();
        let Self { state, projected } = self;
        let gamma = state.gamma;
        Ok(sweep_until(theta, max_sweeps, || {
            let v_old = &state.v_old[..];
            let residual = state
                .v_new
                .par_chunks_mut(CHUNK)
                .enumerate()
                .map(|(chunk, values)| {
                    let first = chunk * CHUNK;
                    let mut start = projected.row_ptr[first];
                    let mut residual: f64 = 0.0;
                    for (s, target) in (first..).zip(values) {
                        let end = projected.row_ptr[s + 1];
                        let expected: f64 = projected.col[start..end]
                            .iter()
                            .zip(&projected.prob[start..end])
                            .map(|(&successor, &prob)| prob.to_f64() * v_old[successor as usize].to_f64())
                            .sum();
                        let value = T::from_f64(projected.reward[s].to_f64() + gamma * expected);
                        residual = residual.max((value.to_f64() - v_old[s].to_f64()).abs());
                        *target = value;
                        start = end;
                    }
                    residual
                })
                .reduce(|| 0.0, f64::max);
            std::mem::swap(&mut state.v_old, &mut state.v_new);
            residual
        }))
    }

    fn improve(&mut self, tie: f64) -> Result<u64, Infallible> {
        let state = &self.state;
        let policy: Vec<u32> = (0..state.policy.len()).into_par_iter().map(|s| state.greedy(s, tie)).collect();
        let changed = policy.par_iter().zip(&state.policy).filter(|(new, old)| new != old).count();
        self.state.policy = policy;
        Ok(changed as u64)
    }

    fn values(&mut self) -> Result<Vec<f64>, Infallible> {
        Ok(self.state.values())
    }

    fn policy(&mut self) -> Result<Vec<u32>, Infallible> {
        Ok(self.state.policy.clone())
    }

    fn sweep_bytes(&mut self) -> Result<u64, Infallible> {
        Ok(self.state.sweep_bytes())
    }
}
