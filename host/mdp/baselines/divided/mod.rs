//! Value iteration on a device after Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009): [Result Divided
//! Iteration](ResultIteration) and [Block Divided Iteration](BlockIteration).

mod blocks;
mod layout;
mod results;

use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::mdp::change::{ExtremesArgs, extremes_of_change, of_sweep};
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::backend::{Backups, Stop};
use crate::backends::device::sweeps::launch_batch;
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

pub use blocks::BlockIteration;
pub use layout::Division;
pub use results::ResultIteration;

/// Threads per block for kernels without a fixed block size; the value of the source for Result Divided Iteration.
const THREADS: u32 = 256;

/// Maximum launches per batch without host synchronisation.
const MAX_BATCH: u32 = 256;

/// Keys per batch: two per turn.
const EXTREMES: usize = 2 * MAX_BATCH as usize;

/// Keys of the extremes of ΔV, two per turn of a batch, in device memory.
struct Extremes(AnyBuffer<u64>);

/// A turn is a sweep or a launch of several sweeps. `span` is 1 if `bound` limits the span of ΔV, 0 if it limits ‖ΔV‖∞;
/// `number` counts the turns of the batch.
#[derive(Clone, Copy)]
struct Turn {
    span: u32,
    bound: f64,
    number: u32,
}

impl Extremes {
    fn new(device: &AnyDevice) -> Result<Self, DeviceError> {
        Ok(Self(device.zeros(EXTREMES)?))
    }

    /// Kernel arguments for a turn.
    fn args(&mut self, Turn { span, bound, number }: Turn) -> ExtremesArgs<'_, AnyDevice> {
        ExtremesArgs { sweep: number, bound, span, keys: &mut self.0 }
    }

    /// Reduces `change` to its extremes and stores them as the keys of the turn.
    fn take<T: Precise>(
        &mut self,
        device: &AnyDevice,
        states: u32,
        change: &AnyBuffer<T>,
        turn: Turn,
    ) -> Result<(), DeviceError> {
        let shape = Shape::grid_stride(u64::from(states), THREADS);
        extremes_of_change(device, shape, states, change, self.args(turn))
    }

    /// Runs turns in batches until one meets `stop` or `most` are done. The first batch has `expected` turns. The host
    /// launches a whole batch without synchronisation; turns after one that met `stop` return at once. `turn` also
    /// receives its number in the whole run.
    ///
    /// Returns the changes of the last turn; `sweeps` is the number of turns.
    fn run_until(
        &mut self,
        device: &AnyDevice,
        stop: Stop,
        most: u32,
        expected: u32,
        mut turn: impl FnMut(&mut Self, Turn, u32) -> Result<(), DeviceError>,
    ) -> Result<Backups, DeviceError> {
        let (span, bound) = match stop {
            Stop::Change(bound) => (0, bound),
            Stop::Span(bound) => (1, bound),
        };
        let mut done = Backups { sweeps: 0, least: 0.0, greatest: 0.0, fixed: false };
        let mut batch = expected;
        while done.sweeps < most {
            batch = batch.clamp(1, MAX_BATCH).min(most - done.sweeps);
            device.clear(&mut self.0)?;
            batch = launch_batch(batch as usize, |number| {
                let number = number as u32;
                turn(self, Turn { span, bound, number }, done.sweeps + number)
            })? as u32;
            let mut keys = [0; EXTREMES];
            device.download(&self.0, &mut keys[..2 * batch as usize])?;
            let mut met = false;
            for pair in keys[..2 * batch as usize].chunks_exact(2) {
                (done.least, done.greatest) = of_sweep(pair[0], pair[1]);
                done.sweeps += 1;
                done.fixed = done.least == 0.0 && done.greatest == 0.0;
                met = stop.is_met(done.least, done.greatest);
                if met {
                    break;
                }
            }
            if met || interrupt::requested() {
                break;
            }
            batch = 8;
        }
        Ok(done)
    }
}
