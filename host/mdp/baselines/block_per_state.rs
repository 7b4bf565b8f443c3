//! Policy iteration by the plain method of the source: one block per state.

use warpkov_common::parallel;
use warpkov_device::device::Offset;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::mdp::evaluate::evaluate_block_per_state;
use warpkov_kernels::mdp::model::{IteratesArgs, ModelArgs};
use warpkov_kernels::mdp::residual::{ResidualsArgs, max_change};
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::backend::{Evaluate, Evaluation, State};
use crate::backends::device::resident::Resident;
use crate::backends::device::sweeps::THREADS;
use crate::model::{Mdp, NO_ACTION};
use warpkov_runtime::Precise;

/// The plain method of the source: one block per state, rows read from the full model.
pub struct BlockPerState<'d, T: Precise, O: Offset> {
    device: &'d AnyDevice,
    resident: Resident<'d, T, O>,
    /// R(s, a, s') for each entry of P.
    transition_reward: AnyBuffer<T>,
    /// Reward of each row independent of the successor.
    action_reward: AnyBuffer<T>,
    evaluate_threads: u32,
    improve_threads: u32,
}

impl<'d, T: Precise, O: Offset> BlockPerState<'d, T, O> {
    /// Uploads the model; V = 0, π = 0.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(device: &'d AnyDevice, model: &Mdp) -> Result<Self, DeviceError> {
        let longest = model.transitions().row_ptr().windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(1);
        let action_reward = parallel::array(model.rows(), |row| model.action_reward(row));
        let whole_warps = |n: u64| (n.next_power_of_two() as u32).clamp(32, THREADS);
        Ok(Self {
            device,
            resident: Resident::upload(device, model, None)?,
            transition_reward: device.upload(&T::rounded(&model.transition_rewards()))?,
            action_reward: device.upload(&T::rounded(&action_reward))?,
            evaluate_threads: whole_warps(longest),
            improve_threads: whole_warps(u64::from(model.choices().max())),
        })
    }

    /// Bytes of device memory for this method.
    #[must_use]
    pub fn bytes(model: &Mdp) -> u64 {
        Resident::<T, O>::bytes(model) + ((model.transitions().nnz() + model.rows()) * size_of::<T>()) as u64
    }
}

impl<T: Precise, O: Offset> State for BlockPerState<'_, T, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        self.resident.reset(self.device, initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.resident.values(self.device)
    }

    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        self.device.to_vec(&self.resident.policy)
    }

    /// Entries of the policy's rows with their rewards; two offsets, an action and its reward per state; V read and
    /// written, and both read again for the residual.
    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        let policy = self.policy()?;
        let row_ptr = self.device.to_vec(&self.resident.rows.row_ptr)?;
        let choices = self.device.to_vec(&self.resident.rows.choices)?;
        let first = |state: usize| match self.resident.rows.actions {
            0 => choices[state].to_usize(),
            actions => state * actions as usize,
        };
        let length = |row: usize| row_ptr[row + 1].to_usize() - row_ptr[row].to_usize();
        let taken = policy.iter().enumerate().filter(|&(_, &action)| action != NO_ACTION);
        let entries: usize = taken.map(|(state, &action)| length(first(state) + action as usize)).sum();
        let (t, o) = (size_of::<T>(), size_of::<O>());
        Ok((entries * (4 + 2 * t) + policy.len() * (2 * o + 4 + 5 * t)) as u64)
    }
}

impl<T: Precise, O: Offset> Evaluate for BlockPerState<'_, T, O> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, DeviceError> {
        let Self { device, resident, transition_reward, action_reward, evaluate_threads, .. } = self;
        let shape = Shape::new(resident.states, *evaluate_threads).with_shared(*evaluate_threads * 8);
        let reduction = Shape::grid_stride(u64::from(resident.states), THREADS);
        resident.sweep_until(device, theta, max_sweeps, |resident, k| {
            // SAFETY: `Mdp` guarantees columns below |S| and non-decreasing row pointers. `upload` and `new` allocated
            // the buffers with the sizes of this model.
            unsafe {
                let Resident { rows, numbers, policy, v_old, v_new, residuals, .. } = resident;
                let model = ModelArgs { reward: action_reward, ..rows.args(numbers) };
                let v = IteratesArgs { old: v_old, new: v_new };
                let residuals = ResidualsArgs { theta, sweep: k, slots: residuals };
                evaluate_block_per_state(*device, shape, model, transition_reward, policy, v, residuals)?;
            }
            let Resident { states, v_old, v_new, residuals, .. } = resident;
            max_change(*device, reduction, *states, v_old, v_new, theta, k, residuals)
        })
    }

    fn improve(&mut self, tie: f64) -> Result<u64, DeviceError> {
        self.resident.improve(self.device, tie, 1, self.improve_threads, 1)
    }
}
