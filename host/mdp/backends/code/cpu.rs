//! Value iteration of a model as code on all cores.

use std::ops::Range;
use std::time::Instant;

use rayon::prelude::*;
use warpkov_kernels::mdp::matrix_free::{Measured, Outcomes, change, examine};

use crate::backend::{Backups, GreedySweeps, Measure, Pace, State, Stop};
use crate::error::SolveError;
use crate::model::NO_ACTION;
use warpkov_common::interrupt;
use warpkov_runtime::Precise;
use warpkov_runtime::comm::Communicator;

/// States per block: the unit of work, and of a Gauss-Seidel sweep, which uses the new values of its own block only, so
/// that the result does not depend on the number of cores.
const BLOCK: usize = 1024;

/// Greedy sweeps straight from the outcomes of a model, V in T. Every rank has all of V, and backs up its own states.
pub struct MatrixFree<'c, M, T> {
    comm: &'c dyn Communicator,
    code: Code<M>,
    own: Range<usize>,
    /// Whether sweeps are Gauss-Seidel; `None`: if the change of V is bounded, not its span, which they do not make smaller.
    gauss_seidel: Option<bool>,
    in_place: bool,
    backward: bool,
    old: Vec<T>,
    new: Vec<T>,
    /// The greedy policy of the own states when V was last measured.
    policy: Vec<u32>,
    pace: Pace,
    /// Least and greatest ΔV of the last sweep.
    change: [f64; 2],
}

/// The change of V over some states.
#[derive(Clone, Copy)]
struct Change {
    least: f64,
    greatest: f64,
    any: bool,
}

impl Change {
    const NONE: Self = Self { least: f64::INFINITY, greatest: f64::NEG_INFINITY, any: false };

    fn and(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            any: self.any || other.any,
        }
    }
}

/// A product and a sum with two roundings: without hardware for one rounding, that takes a call.
fn multiply_add(x: f64, y: f64, z: f64) -> f64 {
    x * y + z
}

/// A model with its table.
struct Code<M> {
    model: M,
    table: Vec<f64>,
}

impl<M: Outcomes> Code<M> {
    /// [`examine`] for one state.
    fn examine<const MEASURE: bool>(&self, state: u64, value: impl Fn(u64) -> f64) -> (f64, u32, Measured) {
        examine::<M, 1, MEASURE>(&self.model, &self.table, state, value, multiply_add)
    }
}

impl<'c, M: Outcomes + Sync, T: Precise> MatrixFree<'c, M, T> {
    /// V = 0. This rank backs up the states `own`.
    pub fn new(comm: &'c dyn Communicator, model: M, own: Range<u64>, gauss_seidel: Option<bool>) -> Self {
        let states = model.states() as usize;
        Self {
            comm,
            code: Code { table: model.table(), model },
            own: own.start as usize..own.end as usize,
            gauss_seidel,
            in_place: false,
            backward: false,
            old: vec![T::ZERO; states],
            new: vec![T::ZERO; states],
            policy: vec![NO_ACTION; (own.end - own.start) as usize],
            pace: Pace::default(),
            change: [0.0; 2],
        }
    }

    /// One sweep over the own states, Gauss-Seidel within blocks if `in_place`, then all V.
    fn sweep(&mut self, in_place: bool) -> Result<Change, SolveError> {
        let mut new = std::mem::take(&mut self.new);
        let (code, old, own) = (&self.code, &self.old, self.own.clone());
        let backward = in_place && self.backward;
        let of_block = |(block, target): (usize, &mut [T])| {
            let first = own.start + block * BLOCK;
            target.copy_from_slice(&old[first..first + target.len()]);
            let mut all = Change::NONE;
            for step in 0..target.len() {
                let at = if backward { target.len() - 1 - step } else { step };
                let value = |next: u64| match (next as usize).checked_sub(first) {
                    Some(here) if in_place && here < target.len() => target[here].to_f64(),
                    _ => old[next as usize].to_f64(),
                };
                let (best, ..) = code.examine::<false>((first + at) as u64, value);
                if best == f64::NEG_INFINITY {
                    continue;
                }
                let after = T::from_f64(best);
                let by = change(target[at].to_f64(), after.to_f64());
                target[at] = after;
                all = all.and(Change { least: -by.fall, greatest: by.greatest, any: by.any });
            }
            all
        };
        let blocks = new[own.clone()].par_chunks_mut(BLOCK).enumerate();
        let all = blocks.map(of_block).reduce(|| Change::NONE, Change::and);
        self.new = new;
        std::mem::swap(&mut self.old, &mut self.new);
        self.gather(all)
    }

    /// All V and the change over all ranks.
    fn gather(&mut self, own: Change) -> Result<Change, SolveError> {
        if self.comm.size() == 1 {
            return Ok(own);
        }
        let parts = self.comm.gather(&self.old[self.own.clone()])?;
        self.old = parts.concat();
        self.new.resize(self.old.len(), T::ZERO);
        let mut numbers = [-own.least, own.greatest, f64::from(u8::from(own.any))];
        self.comm.all_reduce_max(&mut numbers)?;
        Ok(Change { least: -numbers[0], greatest: numbers[1], any: numbers[2] > 0.0 })
    }

    fn stopped(&self) -> Result<bool, SolveError> {
        Ok(self.comm.any(interrupt::requested())?)
    }
}

impl<M: Outcomes + Sync, T: Precise> State for MatrixFree<'_, M, T> {
    type Error = SolveError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), SolveError> {
        match initial {
            Some(values) => self.old.par_iter_mut().zip(values).for_each(|(v, &value)| *v = T::from_f64(value)),
            None => self.old.fill(T::ZERO),
        }
        Ok(())
    }

    fn values(&mut self) -> Result<Vec<f64>, SolveError> {
        Ok(self.old.par_iter().map(|value| value.to_f64()).collect())
    }

    fn policy(&mut self) -> Result<Vec<u32>, SolveError> {
        Ok(self.policy.clone())
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    fn sweep_bytes(&mut self) -> Result<u64, SolveError> {
        Ok(2 * size_of_val(&self.old[..]) as u64)
    }
}

impl<M: Outcomes + Sync, T: Precise> GreedySweeps for MatrixFree<'_, M, T> {
    /// Gauss-Seidel sweeps end with a Jacobi sweep, whose changes bound the distance to V*.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, SolveError> {
        let begun = Instant::now();
        self.in_place = self.gauss_seidel.unwrap_or(matches!(stop, Stop::Change(_)));
        let (mut sweeps, mut trial_bound) = (0, stop.bound());
        loop {
            while self.in_place && sweeps + 1 < max_sweeps {
                let Change { least, greatest, any } = self.sweep(true)?;
                self.backward = !self.backward;
                sweeps += 1;
                if greatest.max(-least) < trial_bound || !any || self.stopped()? {
                    break;
                }
            }
            trial_bound /= 4.0;
            let found = self.sweep(false)?;
            sweeps += 1;
            // No state has actions.
            let (least, greatest) =
                if found.least > found.greatest { (0.0, 0.0) } else { (found.least, found.greatest) };
            if sweeps >= max_sweeps || !found.any || stop.is_met(least, greatest) || self.stopped()? {
                self.pace.took(sweeps, begun.elapsed(), self.comm)?;
                self.change = [least, greatest];
                return Ok(Backups { sweeps, least, greatest, fixed: !found.any });
            }
        }
    }

    fn sweeps_per_round(&self) -> u32 {
        self.pace.sweeps()
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        self.in_place.then_some(T::UNIT)
    }
}

impl<M: Outcomes + Sync, T: Precise> Measure for MatrixFree<'_, M, T> {
    fn change(&self) -> [f64; 2] {
        self.change
    }

    fn measure(&mut self) -> Result<Measured, SolveError> {
        let Self { code, old, own, policy, .. } = self;
        let value = |next: u64| old[next as usize].to_f64();
        let of_block = |(block, policy): (usize, &mut [u32])| {
            let first = own.start + block * BLOCK;
            let states = (first as u64..).zip(policy);
            states.fold(Measured::NONE, |all, (state, action)| {
                let (_, best, here) = code.examine::<true>(state, value);
                *action = best;
                all.and(here)
            })
        };
        let blocks = policy.par_chunks_mut(BLOCK).enumerate();
        Ok(blocks.map(of_block).reduce(|| Measured::NONE, Measured::and))
    }
}
