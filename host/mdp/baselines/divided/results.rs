//! Result Divided Iteration: three kernels per sweep, over the entries of P, the rows and the states.

use warpkov_device::device::Offset;
use warpkov_device::launch::{Device, IndexBuffer, IndexError, Shape};
use warpkov_kernels::mdp::choices::CheckedChoicesArgs;
use warpkov_kernels::mdp::result_divided::{action_values, greedy_actions, result_values, state_values};
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::{EXTREMES, Extremes, THREADS};
use crate::backend::{Backups, GreedySweeps, State, Stop};
use crate::backends::device::layouts::rows::{offsets, upload_choices};
use crate::model::{Choices, Mdp};
use warpkov_runtime::Precise;

/// Value iteration with one thread per entry of P, then one per row, then one per state.
pub struct ResultIteration<'d, T: Precise, O: Offset> {
    device: &'d AnyDevice,
    states: u32,
    rows: u64,
    entries: u64,
    gamma: f64,
    /// A, or 0 if the number of actions varies.
    actions: u32,
    /// Row offsets of the states if the number of actions varies.
    choices: AnyBuffer<O>,
    row_ptr: AnyBuffer<O>,
    col: IndexBuffer<AnyBuffer<u32>>,
    prob: AnyBuffer<T>,
    /// R(s, a, s') of each entry of P.
    reward: AnyBuffer<T>,
    /// Reward of each row independent of the successor.
    action_reward: AnyBuffer<T>,
    results: AnyBuffer<T>,
    q: AnyBuffer<T>,
    v: AnyBuffer<T>,
    change: AnyBuffer<T>,
    extremes: Extremes,
    /// Sweeps of the last run, plus one: the length of the next first batch.
    expected: u32,
}

impl<'d, T: Precise, O: Offset> ResultIteration<'d, T, O> {
    /// Uploads the model; V = 0.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(device: &'d AnyDevice, model: &Mdp) -> Result<Self, DeviceError> {
        let (states, rows, entries) = (model.states() as usize, model.rows(), model.transitions().nnz());
        let (actions, choices) = upload_choices(device, model.choices())?;
        let action_reward = if model.action_rewards().is_empty() {
            device.zeros(rows)
        } else {
            device.upload(&T::rounded(model.action_rewards()))
        };
        Ok(Self {
            device,
            states: model.states(),
            rows: rows as u64,
            entries: entries as u64,
            gamma: model.gamma(),
            actions,
            choices,
            row_ptr: device.upload(&offsets::<O>(model.transitions().row_ptr()))?,
            col: IndexBuffer::upload(device, model.transitions().col(), model.states()).map_err(
                |error| match error {
                    IndexError::Device(error) => error,
                    wrong => unreachable!("{wrong}, and a model has no such successor"),
                },
            )?,
            prob: device.upload(&T::rounded(model.transitions().val()))?,
            reward: device.upload(&T::rounded(&model.transition_rewards()))?,
            action_reward: action_reward?,
            results: device.zeros(entries)?,
            q: device.zeros(rows)?,
            v: device.zeros(states)?,
            change: device.zeros(states)?,
            extremes: Extremes::new(device)?,
            expected: 16,
        })
    }

    /// Bytes of device memory for the method.
    #[must_use]
    pub fn bytes(model: &Mdp) -> u64 {
        let (t, o) = (size_of::<T>() as u64, size_of::<O>() as u64);
        let (states, rows, entries) =
            (u64::from(model.states()), model.rows() as u64, model.transitions().nnz() as u64);
        let choices = if matches!(model.choices(), Choices::Ragged(_)) { states + 1 } else { 0 };
        (choices + rows + 1) * o + entries * (4 + 3 * t) + rows * 2 * t + states * 2 * t + 8 * EXTREMES as u64
    }
}

impl<T: Precise, O: Offset> State for ResultIteration<'_, T, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        match initial {
            Some(values) => {
                assert_eq!(values.len(), self.states as usize, "a value for each state");
                self.device.write(&mut self.v, &T::rounded(values))?;
            }
            None => self.device.clear(&mut self.v)?,
        }
        self.device.clear(&mut self.q)
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        Ok(self.device.to_vec(&self.v)?.into_iter().map(T::to_f64).collect())
    }

    /// The greedy policy by the Q-factors of the last sweep.
    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        let mut policy = self.device.zeros(self.states as usize)?;
        let shape = Shape::cover(u64::from(self.states), THREADS);
        let choices = CheckedChoicesArgs { actions: self.actions, offsets: &self.choices };
        greedy_actions(self.device, shape, self.states, choices, &self.q, &mut policy)?;
        self.device.to_vec(&policy)
    }

    /// Per entry: successor, probability, reward, and the result written and read. Per row: offset, action reward, and
    /// the Q-factor written and read. Per state: V read and written, ΔV written and read, and a row offset if the
    /// number of actions varies.
    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        let (t, o) = (size_of::<T>() as u64, size_of::<O>() as u64);
        let offsets = if self.actions == 0 { o } else { 0 };
        Ok(self.entries * (4 + 4 * t) + self.rows * (o + 3 * t) + u64::from(self.states) * (4 * t + offsets))
    }
}

impl<T: Precise, O: Offset> GreedySweeps for ResultIteration<'_, T, O> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, DeviceError> {
        let Self { device, states, rows, entries, gamma, actions, choices, row_ptr, col, prob, reward, .. } = self;
        let Self { action_reward, results, q, v, change, extremes, expected, .. } = self;
        let cover = |threads| Shape::cover(threads, THREADS);
        let done = extremes.run_until(device, stop, max_sweeps, *expected, |extremes, turn, _| {
            let (shape, told) = (cover(*entries), extremes.args(turn));
            result_values(*device, shape, *entries, *states, col, prob, reward, *gamma, v, told, results)?;
            let (shape, told) = (cover(*rows), extremes.args(turn));
            action_values(*device, shape, *rows, row_ptr, results, action_reward, told, q)?;
            let (shape, told) = (cover(u64::from(*states)), extremes.args(turn));
            let choices = CheckedChoicesArgs { actions: *actions, offsets: choices };
            state_values(*device, shape, *states, choices, q, told, v, change)?;
            extremes.take(device, *states, change, turn)
        })?;
        *expected = done.sweeps + 1;
        Ok(done)
    }
}
