//! Block Divided Iteration: launches of several sweeps over blocks of states in shared memory, then full sweeps.

use std::mem;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_device::device::Offset;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::mdp::block_divided::{BlocksArgs, sweep_blocks, sweep_once};
use warpkov_kernels::mdp::model::IteratesArgs;

use super::Extremes;
use super::layout::{Division, Layout};
use crate::backend::{Backups, GreedySweeps, State, Stop};
use crate::model::{Mdp, NO_ACTION};
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

/// A model in block layout in device memory.
struct Blocks<T: Precise, O: Offset> {
    gamma: f64,
    stride: u32,
    resident: u32,
    actions: AnyBuffer<u32>,
    first_row: AnyBuffer<O>,
    first_entry: AnyBuffer<O>,
    reward: AnyBuffer<T>,
    length: AnyBuffer<u32>,
    place: AnyBuffer<u32>,
    prob: AnyBuffer<T>,
    buffer_ptr: AnyBuffer<O>,
    buffer: AnyBuffer<u32>,
}

impl<T: Precise, O: Offset> Blocks<T, O> {
    fn upload(device: &AnyDevice, layout: &Layout<T, O>, resident: u32, gamma: f64) -> Result<Self, DeviceError> {
        Ok(Self {
            gamma,
            stride: layout.stride,
            resident,
            actions: device.upload(&layout.actions)?,
            first_row: device.upload(&layout.first_row)?,
            first_entry: device.upload(&layout.first_entry)?,
            reward: device.upload(&layout.reward)?,
            length: device.upload(&layout.length)?,
            place: device.upload(&layout.place)?,
            prob: device.upload(&layout.prob)?,
            buffer_ptr: device.upload(&layout.buffer_ptr)?,
            buffer: device.upload(&layout.buffer)?,
        })
    }

    /// The model as kernel arguments.
    fn args(&self) -> BlocksArgs<'_, T, O, AnyDevice> {
        BlocksArgs {
            actions: &self.actions,
            first_row: &self.first_row,
            first_entry: &self.first_entry,
            stride: self.stride,
            reward: &self.reward,
            length: &self.length,
            place: &self.place,
            prob: &self.prob,
            resident: self.resident,
            buffer_ptr: &self.buffer_ptr,
            buffer: &self.buffer,
            gamma: self.gamma,
        }
    }
}

/// Value iteration in blocks of states whose values stay in shared memory for several sweeps.
pub struct BlockIteration<'d, T: Precise, O: Offset> {
    device: &'d AnyDevice,
    division: &'d Division,
    states: usize,
    shape: Shape,
    blocks: Blocks<T, O>,
    v: AnyBuffer<T>,
    v_new: AnyBuffer<T>,
    change: AnyBuffer<T>,
    policy: AnyBuffer<u32>,
    first_policy: Vec<u32>,
    extremes: Extremes,
    /// Launches of the last run, plus one: the length of the next first batch.
    expected: u32,
    bytes: u64,
}

impl<'d, T: Precise, O: Offset> BlockIteration<'d, T, O> {
    /// Lays the model out and uploads it; V = 0.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(device: &'d AnyDevice, model: &Mdp, division: &'d Division) -> Result<Self, DeviceError> {
        let layout: Layout<T, O> = division.layout(model);
        let places = layout.actions.len();
        let first_policy: Vec<u32> =
            layout.actions.iter().map(|&actions| if actions == 0 { NO_ACTION } else { 0 }).collect();
        let threads = Dim3 { x: division.parameters.width, y: division.parameters.height, z: 1 };
        let shape = Shape::new(division.blocks, threads).with_shared(division.shared_bytes::<T>());
        let (t, o) = (size_of::<T>(), size_of::<O>());
        let bytes = (layout.reward.len() + layout.prob.len()) * (4 + t)
            + places * (8 + 2 * o + 3 * t)
            + layout.buffer_ptr.len() * o
            + layout.buffer.len() * (4 + t);
        Ok(Self {
            device,
            states: model.states() as usize,
            shape,
            blocks: Blocks::upload(device, &layout, division.resident(), model.gamma())?,
            v: device.zeros(places)?,
            v_new: device.zeros(places)?,
            change: device.zeros(places)?,
            policy: device.upload(&first_policy)?,
            first_policy,
            extremes: Extremes::new(device)?,
            expected: 8,
            bytes: bytes as u64,
            division,
        })
    }

    /// Launches of several sweeps each, `most` sweeps in all, until the change of V over one launch meets `stop`.
    /// Returns the number of sweeps.
    fn sweep_blocks(&mut self, stop: Stop, most: u32) -> Result<u32, DeviceError> {
        let per_launch = self.division.parameters.sweeps_per_launch;
        let Self { device, division, shape, blocks, v, v_new, change, extremes, .. } = self;
        let parameters = &division.parameters;
        let done =
            extremes.run_until(device, stop, most.div_ceil(per_launch), self.expected, |extremes, turn, launch| {
                let sweeps = per_launch.min(most - launch * per_launch);
                let (v_old, v_new) = if launch % 2 == 0 { (&*v, &mut *v_new) } else { (&*v_new, &mut *v) };
                // SAFETY: `Division::layout` built the arrays from an `Mdp`, whose columns are below |S|, so every
                // place is in bounds. V, V_new and `change` have one element per place.
                unsafe {
                    sweep_blocks(
                        *device,
                        *shape,
                        parameters.states_per_thread,
                        sweeps.saturating_mul(parameters.states_per_thread),
                        parameters.update_constant,
                        blocks.args(),
                        extremes.args(turn),
                        IteratesArgs { old: v_old, new: v_new },
                        change,
                    )?;
                }
                extremes.take(device, division.places(), change, turn)
            })?;
        self.expected = done.sweeps + 1;
        // Launches after the one that met `stop` wrote nothing.
        if done.sweeps % 2 == 1 {
            mem::swap(&mut self.v, &mut self.v_new);
        }
        Ok(most.min(done.sweeps.saturating_mul(per_launch)))
    }

    /// One sweep V ← TV over all states.
    fn sweep_once(&mut self) -> Result<Backups, DeviceError> {
        let Self { device, division, shape, blocks, v, v_new, change, policy, extremes, .. } = self;
        let done = extremes.run_until(device, Stop::Change(0.0), 1, 1, |extremes, turn, _| {
            // SAFETY: `Division::layout` built the arrays from an `Mdp`, whose columns are below |S|, so every place is
            // in bounds. V, V_new, `change` and `policy` have one element per place.
            unsafe {
                sweep_once(
                    *device,
                    *shape,
                    division.parameters.states_per_thread,
                    blocks.args(),
                    IteratesArgs { old: v, new: v_new },
                    change,
                    policy,
                )?;
            }
            extremes.take(device, division.places(), change, turn)
        })?;
        mem::swap(&mut self.v, &mut self.v_new);
        Ok(done)
    }

    /// Converts elements at positions to elements per state.
    fn by_state<X: Copy + Default, Y: Copy>(&self, at_positions: &[Y], of: impl Fn(Y) -> X) -> Vec<X> {
        let mut of_states = vec![X::default(); self.states];
        for (&state, &element) in self.division.states.iter().zip(at_positions) {
            if let Some(target) = of_states.get_mut(state as usize) {
                *target = of(element);
            }
        }
        of_states
    }
}

impl<T: Precise, O: Offset> State for BlockIteration<'_, T, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        self.policy = self.device.upload(&self.first_policy)?;
        let Some(values) = initial else { return self.device.clear(&mut self.v) };
        assert_eq!(values.len(), self.states, "a value for each state");
        // Empty places have no state.
        let value = |&state: &u32| values.get(state as usize).map_or(T::ZERO, |&value| T::from_f64(value));
        self.v = self.device.upload(&self.division.states.iter().map(value).collect::<Vec<_>>())?;
        Ok(())
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        Ok(self.by_state(&self.device.to_vec(&self.v)?, T::to_f64))
    }

    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        Ok(self.by_state(&self.device.to_vec(&self.policy)?, |action| action))
    }

    /// A full sweep: the whole layout including padding, V read and written, ΔV and π. The sweeps of one launch share
    /// most of that traffic.
    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        Ok(self.bytes)
    }
}

impl<T: Precise, O: Offset> GreedySweeps for BlockIteration<'_, T, O> {
    /// Launches until one meets `stop`, then a full sweep; repeats if the full sweep does not meet `stop`. So the
    /// returned changes are those of V ← TV over all states.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, DeviceError> {
        let mut sweeps = 0;
        loop {
            let left = max_sweeps.saturating_sub(sweeps + 1);
            if left > 0 {
                sweeps += self.sweep_blocks(stop, left)?;
            }
            let last = self.sweep_once()?;
            sweeps += 1;
            if sweeps >= max_sweeps || stop.is_met(last.least, last.greatest) || interrupt::requested() {
                return Ok(Backups { sweeps, ..last });
            }
        }
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        Some(T::UNIT)
    }
}
