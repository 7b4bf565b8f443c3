//! Baseline backends on the CPU: `Serial` on one core and `Parallel` on all cores.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

use rayon::prelude::*;

use crate::backend::{Backups, Evaluate, Evaluation, GreedySweeps, State, Stop};
use crate::model::{Mdp, NO_ACTION};
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

/// States per task of a parallel loop: enough work to amortise the task, few enough states to balance the load.
const CHUNK: usize = 4096;

/// The model in precision T with V and π.
struct Working<'m, T: Precise> {
    model: &'m Mdp,
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

impl<'m, T: Precise> Working<'m, T> {
    fn new(model: &'m Mdp) -> Self {
        let states = model.states() as usize;
        Self {
            model,
            gamma: model.gamma(),
            row_ptr: model.transitions().row_ptr(),
            col: model.transitions().col(),
            prob: T::rounded(model.transitions().val()),
            reward: T::rounded(&model.expected_rewards()).into_owned(),
            policy: model.first_policy(),
            v_old: vec![T::ZERO; states],
            v_new: vec![T::ZERO; states],
        }
    }

    /// The entries of a row.
    fn entries(&self, row: usize) -> Range<usize> {
        self.row_ptr[row] as usize..self.row_ptr[row + 1] as usize
    }

    /// The row of a state's current action; `None` for terminal states.
    fn row(&self, state: usize) -> Option<usize> {
        let action = self.policy[state];
        (action != NO_ACTION).then(|| self.model.choices().first(state) + action as usize)
    }

    /// The entries of the row of a state's current action.
    fn selected(&self, state: usize) -> Range<usize> {
        self.row(state).map_or(0..0, |row| self.entries(row))
    }

    /// r(s, π(s)) + γ Σ P(s'|s, π(s)) V(s'); 0 for terminal states.
    fn backup(&self, state: usize) -> f64 {
        self.row(state).map_or(0.0, |row| self.q_factor(row))
    }

    /// The largest Q-factor of a state and its action, the lowest-numbered one of equals; `None` for terminal states.
    fn best(&self, state: usize) -> Option<(f64, u32)> {
        let factors = self.model.choices().rows(state).map(|row| self.q_factor(row)).zip(0..);
        factors.reduce(|best, next| if next.0 > best.0 { next } else { best })
    }

    /// r(s, a) + γ Σ P(s'|s, a) V(s') for a row.
    fn q_factor(&self, row: usize) -> f64 {
        let entries = self.entries(row);
        let expected: f64 = self.col[entries.clone()]
            .iter()
            .zip(&self.prob[entries])
            .map(|(&successor, &prob)| prob.to_f64() * self.v_old[successor as usize].to_f64())
            .sum();
        self.reward[row].to_f64() + self.gamma * expected
    }

    /// The greedy action of a state, or its current one unless another is better by more than `tie`.
    fn greedy(&self, state: usize, tie: f64) -> u32 {
        let old = self.policy[state];
        let (mut old_q, mut best_q, mut best) = (f64::NEG_INFINITY, f64::NEG_INFINITY, old);
        for (row, action) in self.model.choices().rows(state).zip(0..) {
            let q = self.q_factor(row);
            if action == old {
                old_q = q;
            }
            if q > best_q {
                (best_q, best) = (q, action);
            }
        }
        if best_q > old_q + tie { best } else { old }
    }

    fn reset(&mut self, initial: Option<&[f64]>) {
        self.policy = self.model.first_policy();
        match initial {
            Some(values) => self.v_old.copy_from_slice(&T::rounded(values)),
            None => self.v_old.fill(T::ZERO),
        }
    }

    fn values(&self) -> Vec<f64> {
        self.v_old.iter().map(|v| v.to_f64()).collect()
    }

    /// Entries of the policy's rows, two offsets and a reward per state, and V read and written.
    fn sweep_bytes(&self) -> u64 {
        let entries: usize = (0..self.policy.len()).map(|state| self.selected(state).len()).sum();
        let t = size_of::<T>() as u64;
        entries as u64 * (4 + t) + self.policy.len() as u64 * (8 + 3 * t)
    }
}

/// Runs `sweep`, which returns its residual, until the residual is below `theta` or `max_sweeps` sweeps are done.
fn sweep_until(theta: f64, max_sweeps: u32, mut sweep: impl FnMut() -> f64) -> Evaluation {
    let mut evaluation = Evaluation { sweeps: 0, residual: f64::INFINITY };
    while evaluation.sweeps < max_sweeps && evaluation.residual >= theta {
        evaluation = Evaluation { sweeps: evaluation.sweeps + 1, residual: sweep() };
        if interrupt::requested() {
            break;
        }
    }
    evaluation
}

/// Runs `sweep`, which returns the extremes of ΔV, until `stop` is met, nothing changes, or `max_sweeps` sweeps are
/// done.
fn backup_until(stop: Stop, max_sweeps: u32, mut sweep: impl FnMut() -> (f64, f64)) -> Backups {
    let mut sweeps = 0;
    loop {
        let (least, greatest) = sweep();
        sweeps += 1;
        let unchanged = least >= 0.0 && greatest <= 0.0;
        if sweeps >= max_sweeps || stop.is_met(least, greatest) || unchanged || interrupt::requested() {
            // No state has actions.
            let (least, greatest) = if least > greatest { (0.0, 0.0) } else { (least, greatest) };
            return Backups { sweeps, least, greatest, fixed: least == 0.0 && greatest == 0.0 };
        }
    }
}

/// The extremes of ΔV over no states.
const NO_CHANGE: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

/// The extremes of ΔV over two sets of states.
fn extremes(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Policy and value iteration on one core, written directly from the algorithm; the baseline for comparisons.
pub struct Serial<'m, T: Precise>(Working<'m, T>);

impl<'m, T: Precise> Serial<'m, T> {
    /// Starts at V = 0, π = 0.
    #[must_use]
    pub fn new(model: &'m Mdp) -> Self {
        Self(Working::new(model))
    }
}

impl<T: Precise> State for Serial<'_, T> {
    type Error = Infallible;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Infallible> {
        self.0.reset(initial);
        Ok(())
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

impl<T: Precise> Evaluate for Serial<'_, T> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Infallible> {
        let state = &mut self.0;
        Ok(sweep_until(theta, max_sweeps, || {
            let mut residual: f64 = 0.0;
            for s in 0..state.policy.len() {
                let value = T::from_f64(state.backup(s));
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
}

impl<T: Precise> GreedySweeps for Serial<'_, T> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, Infallible> {
        let state = &mut self.0;
        Ok(backup_until(stop, max_sweeps, || {
            let mut change = NO_CHANGE;
            for s in 0..state.policy.len() {
                let Some((q, action)) = state.best(s) else { continue };
                let value = T::from_f64(q);
                let delta = value.to_f64() - state.v_old[s].to_f64();
                change = extremes(change, (delta, delta));
                (state.v_new[s], state.policy[s]) = (value, action);
            }
            std::mem::swap(&mut state.v_old, &mut state.v_new);
            change
        }))
    }
}

/// Policy and value iteration on all cores. Evaluations sweep over the projected matrix P^π.
pub struct Parallel<'m, T: Precise> {
    state: Working<'m, T>,
    projected: Projected<T>,
}

/// P^π and r^π: the rows of the current policy.
pub(in crate::backends) struct Projected<T> {
    pub row_ptr: Vec<usize>,
    pub col: Vec<u32>,
    pub prob: Vec<T>,
    pub reward: Vec<T>,
}

impl<'m, T: Precise> Parallel<'m, T> {
    /// Starts at V = 0, π = 0.
    #[must_use]
    pub fn new(model: &'m Mdp) -> Self {
        let states = model.states() as usize;
        let projected = Projected {
            row_ptr: vec![0; states + 1],
            col: Vec::new(),
            prob: Vec::new(),
            reward: vec![T::ZERO; states],
        };
        Self { state: Working::new(model), projected }
    }

    /// V.
    pub(in crate::backends) fn values_mut(&mut self) -> &mut [T] {
        &mut self.state.v_old
    }

    /// Gathers the rows of the current policy: lengths, prefix sum, copy.
    pub(in crate::backends) fn project(&mut self) -> &Projected<T> {
        let Self { state, projected } = self;
        let entries = |s: usize| state.selected(s);
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
                *reward = state.row(s).map_or(T::ZERO, |row| state.reward[row]);
                target = end;
            }
        });
        projected
    }
}

impl<T: Precise> State for Parallel<'_, T> {
    type Error = Infallible;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Infallible> {
        self.state.reset(initial);
        Ok(())
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

impl<T: Precise> Evaluate for Parallel<'_, T> {
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
}

impl<T: Precise> GreedySweeps for Parallel<'_, T> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, Infallible> {
        let state = &mut self.state;
        Ok(backup_until(stop, max_sweeps, || {
            let (mut v_new, mut policy) = (std::mem::take(&mut state.v_new), std::mem::take(&mut state.policy));
            let parts = v_new.par_chunks_mut(CHUNK).zip(policy.par_chunks_mut(CHUNK)).enumerate();
            let change = parts.map(|(chunk, (values, actions))| {
                let mut change = NO_CHANGE;
                for (s, (target, action)) in (chunk * CHUNK..).zip(values.iter_mut().zip(actions)) {
                    let Some((q, best)) = state.best(s) else { continue };
                    let value = T::from_f64(q);
                    let delta = value.to_f64() - state.v_old[s].to_f64();
                    change = extremes(change, (delta, delta));
                    (*target, *action) = (value, best);
                }
                change
            });
            let change = change.reduce(|| NO_CHANGE, extremes);
            (state.v_new, state.policy) = (v_new, policy);
            std::mem::swap(&mut state.v_old, &mut state.v_new);
            change
        }))
    }
}
