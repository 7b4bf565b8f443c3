//! Value iteration in place on one core: the baseline of Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009),
//! Appendix B.

use std::borrow::Cow;
use std::convert::Infallible;

use crate::backend::{Backups, GreedySweeps, State, Stop};
use crate::model::Mdp;
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

/// Value iteration that sweeps over the states in order and replaces each value immediately. As in the source, all
/// arithmetic is in T, and each term is P·(R + γV).
pub struct Sequential<'m, T: Precise> {
    model: &'m Mdp,
    gamma: T,
    prob: Cow<'m, [T]>,
    /// R(s, a, s') of each entry of P.
    reward: Vec<T>,
    /// Reward of each row independent of the successor.
    action_reward: Vec<T>,
    v: Vec<T>,
    policy: Vec<u32>,
}

impl<'m, T: Precise> Sequential<'m, T> {
    /// Starts at V = 0, π = 0.
    #[must_use]
    pub fn new(model: &'m Mdp) -> Self {
        Self {
            model,
            gamma: T::from_f64(model.gamma()),
            prob: T::rounded(model.transitions().val()),
            reward: T::rounded(&model.transition_rewards()).into_owned(),
            action_reward: (0..model.rows()).map(|row| T::from_f64(model.action_reward(row))).collect(),
            v: vec![T::ZERO; model.states() as usize],
            policy: model.first_policy(),
        }
    }

    /// The Q-factor of a row.
    fn q_factor(&self, row: usize) -> T {
        let transitions = self.model.transitions();
        let entries = transitions.row_ptr()[row] as usize..transitions.row_ptr()[row + 1] as usize;
        let results = self.prob[entries.clone()].iter().zip(&self.reward[entries.clone()]);
        let mut sum = self.action_reward[row];
        for (&successor, (&prob, &reward)) in transitions.col()[entries].iter().zip(results) {
            sum += prob * (reward + self.gamma * self.v[successor as usize]);
        }
        sum
    }

    /// Runs one sweep; returns min(ΔV, 0) and max(ΔV, 0) over all states.
    fn sweep(&mut self) -> (f64, f64) {
        let (mut least, mut greatest) = (T::ZERO, T::ZERO);
        for state in 0..self.v.len() {
            let factors = self.model.choices().rows(state).map(|row| self.q_factor(row)).zip(0..);
            let Some((value, action)) = factors.reduce(|best, next| if next.0 > best.0 { next } else { best }) else {
                continue;
            };
            let change = value - self.v[state];
            if change < least {
                least = change;
            }
            if change > greatest {
                greatest = change;
            }
            (self.v[state], self.policy[state]) = (value, action);
        }
        (least.to_f64(), greatest.to_f64())
    }
}

impl<T: Precise> State for Sequential<'_, T> {
    type Error = Infallible;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Infallible> {
        self.policy = self.model.first_policy();
        match initial {
            Some(values) => self.v.copy_from_slice(&T::rounded(values)),
            None => self.v.fill(T::ZERO),
        }
        Ok(())
    }

    fn values(&mut self) -> Result<Vec<f64>, Infallible> {
        Ok(self.v.iter().map(|v| v.to_f64()).collect())
    }

    fn policy(&mut self) -> Result<Vec<u32>, Infallible> {
        Ok(self.policy.clone())
    }

    /// All entries with their rewards, an offset and a reward per row, V read and written, and π written.
    fn sweep_bytes(&mut self) -> Result<u64, Infallible> {
        let (entries, rows, states) = (self.prob.len(), self.action_reward.len(), self.v.len());
        let t = size_of::<T>();
        Ok((entries * (4 + 2 * t) + rows * (8 + t) + states * (4 + 2 * t)) as u64)
    }
}

impl<T: Precise> GreedySweeps for Sequential<'_, T> {
    /// Differs from the trait in two ways. States see the new values of earlier states. The returned extremes include
    /// 0: an in-place sweep is monotone and contracts, but does not map V + c to TV + γc. Bounds from extremes on both
    /// sides of 0 do not need that property.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, Infallible> {
        let mut sweeps = 0;
        loop {
            let (least, greatest) = self.sweep();
            sweeps += 1;
            if sweeps >= max_sweeps || stop.is_met(least, greatest) || interrupt::requested() {
                return Ok(Backups { sweeps, least, greatest, fixed: least == 0.0 && greatest == 0.0 });
            }
        }
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        Some(T::UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Csr;

    /// State 0: reward 1 and a self-loop. State 1: moves to state 0, or a self-loop with reward 3/8.
    #[test]
    fn later_states_see_new_values() {
        let csr =
            |row_ptr: &[u64], col: &[u32], val: &[f64]| Csr::new(row_ptr.to_vec(), col.to_vec(), val.to_vec()).unwrap();
        let p = csr(&[0, 1, 2, 3, 4], &[0, 0, 0, 1], &[1.0; 4]);
        let r = csr(&[0, 1, 2, 2, 3], &[0, 0, 1], &[1.0, 0.5, 0.375]);
        let model = Mdp::new(2, 2, 0.5, p, r, None).unwrap();
        let mut sequential = Sequential::<f32>::new(&model);
        let Ok(first) = sequential.backup(Stop::Change(0.0), 1);
        assert_eq!(first, Backups { sweeps: 1, least: 0.0, greatest: 1.0, fixed: false });
        assert_eq!(sequential.values(), Ok(vec![1.0, 0.5]));
        assert_eq!(sequential.policy(), Ok(vec![0, 0]));
        // V* = (2, 1). Each sweep halves the changes.
        //
        let Ok(rest) = sequential.backup(Stop::Change(1e-3), 100);
        assert_eq!((rest.sweeps, rest.greatest), (10, 0.5_f64.powi(10)));
        let Ok(()) = sequential.reset(Some(&[2.0, 1.0]));
        let Ok(last) = sequential.backup(Stop::Change(1e-3), 100);
        assert_eq!(last, Backups { sweeps: 1, least: 0.0, greatest: 0.0, fixed: true });
        assert_eq!(sequential.values(), Ok(vec![2.0, 1.0]));
    }
}
