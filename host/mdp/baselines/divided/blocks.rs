//! Block Divided Iteration: launches of several sweeps over blocks of states in shared memory.

use std::mem;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_device::device::Offset;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::mdp::block_divided::{BlocksArgs, sweep_actions, sweep_blocks};
use warpkov_kernels::mdp::model::IteratesArgs;

use super::Extremes;
use super::layout::{DividedModel, Division};
use crate::backend::{Backups, GreedySweeps, SWEEPS_PER_ROUND, State, Stop};
use crate::certificate::greedy;
use crate::model::Mdp;
use crate::options::BlockDivided;
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
    fn upload(device: &AnyDevice, layout: &DividedModel<T, O>, resident: u32, gamma: f64) -> Result<Self, DeviceError> {
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
    model: &'d Mdp,
    division: &'d Division,
    shape: Shape,
    blocks: Blocks<T, O>,
    v: AnyBuffer<T>,
    v_new: AnyBuffer<T>,
    change: AnyBuffer<T>,
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
    pub fn new(device: &'d AnyDevice, model: &'d Mdp, division: &'d Division) -> Result<Self, DeviceError> {
        let layout: DividedModel<T, O> = division.layout(model);
        let places = layout.actions.len();
        let BlockDivided { width, height, by_action, .. } = division.parameters;
        let threads = match by_action {
            true => Dim3 { x: division.cells, y: division.lanes, z: 1 },
            false => Dim3 { x: width, y: height, z: 1 },
        };
        let shape = Shape::new(division.blocks, threads).with_shared(division.shared_bytes::<T>());
        let (t, o) = (size_of::<T>(), size_of::<O>());
        let bytes = (layout.reward.len() + layout.prob.len()) * (4 + t)
            + places * (4 + 2 * o + 3 * t)
            + layout.buffer_ptr.len() * o
            + layout.buffer.len() * (4 + t);
        Ok(Self {
            device,
            model,
            shape,
            blocks: Blocks::upload(device, &layout, division.resident(), model.gamma())?,
            v: device.zeros(places)?,
            v_new: device.zeros(places)?,
            change: device.zeros(places)?,
            extremes: Extremes::new(device)?,
            expected: 8,
            bytes: bytes as u64,
            division,
        })
    }
}

impl<T: Precise, O: Offset> State for BlockIteration<'_, T, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        let Some(values) = initial else { return self.device.clear(&mut self.v) };
        assert_eq!(values.len(), self.model.states() as usize, "a value for each state");
        // Empty places have no state.
        let value = |&state: &u32| values.get(state as usize).map_or(T::ZERO, |&value| T::from_f64(value));
        self.v = self.device.upload(&self.division.states.iter().map(value).collect::<Vec<_>>())?;
        Ok(())
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        let mut values = vec![0.0; self.model.states() as usize];
        for (&state, value) in self.division.states.iter().zip(self.device.to_vec(&self.v)?) {
            if let Some(target) = values.get_mut(state as usize) {
                *target = value.to_f64();
            }
        }
        Ok(values)
    }

    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        Ok(greedy(self.model, &self.values()?))
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    /// The whole layout including padding, V read and written, and ΔV. The sweeps of one launch share most of that traffic.
    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        Ok(self.bytes)
    }
}

impl<T: Precise, O: Offset> GreedySweeps for BlockIteration<'_, T, O> {
    /// Launches of several sweeps each until the change of V over one launch is small: the algorithm of the source. The last
    /// launch has the sweeps that are left of `max_sweeps`.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, DeviceError> {
        // A launch does not shift all values equally, so a small span alone proves nothing.
        let stop = Stop::Change(match stop {
            Stop::Change(bound) => bound,
            Stop::Span(bound) => bound / 2.0,
        });
        let per_launch = self.division.parameters.sweeps_per_launch;
        let Self { device, division, shape, blocks, v, v_new, change, extremes, .. } = self;
        let parameters = &division.parameters;
        let launches = max_sweeps.div_ceil(per_launch);
        let done = extremes.run_until(device, stop, launches, self.expected, |extremes, turn, launch| {
            let sweeps = per_launch.min(max_sweeps - launch * per_launch);
            let (v_old, v_new) = if launch % 2 == 0 { (&*v, &mut *v_new) } else { (&*v_new, &mut *v) };
            let iterates = IteratesArgs { old: v_old, new: v_new };
            if parameters.by_action {
                let (cells, lanes) = (division.cells, division.lanes);
                // SAFETY: as below.
                unsafe {
                    sweep_actions(
                        *device,
                        *shape,
                        cells,
                        lanes,
                        sweeps,
                        blocks.args(),
                        extremes.args(turn),
                        iterates,
                        change,
                    )?;
                }
                return extremes.take(device, division.places(), change, turn);
            }
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
                    iterates,
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
        Ok(Backups { sweeps: max_sweeps.min(done.sweeps.saturating_mul(per_launch)), ..done })
    }

    /// Whole launches.
    fn sweeps_per_round(&self) -> u32 {
        SWEEPS_PER_ROUND.next_multiple_of(self.division.parameters.sweeps_per_launch)
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        Some(T::UNIT)
    }
}
