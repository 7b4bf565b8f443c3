//! Value iteration on a device: greedy sweeps in batches. The host reads the changes once per batch.

use std::ops::Range;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_runtime::gpu::Graph;

use rayon::prelude::*;
use warpkov_device::device::Offset;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::mdp::backup::{SLOTS, SweepArgs, convert};
use warpkov_kernels::mdp::model::IteratesArgs;
use warpkov_kernels::mdp::residual::largest;

use super::ghosts::Exchanges;
use super::layout::{Source, SweepLayout};
use super::layouts::uploaded::Uploaded;
use super::sweeps::{BackupLaunch, Dependencies, StopOnDevice, THREADS, changes, launch_batch};
use crate::backend::{Backups, Certify, Correct, GreedySweeps, Residual, State, Stop};
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

/// Maximum sweeps per batch without host synchronisation; also the length of the recorded CUDA graph.
const MAX_BATCH: usize = 64;

/// Sweeps in the first batch. Its residuals predict the length of the next batches.
const FIRST_BATCH: usize = 32;

/// Value iteration by greedy sweeps, V in T.
pub struct ValueIteration<'d, T: Precise, O: Offset> {
    device: &'d AnyDevice,
    pub(super) source: Source<'d>,
    pub(super) model: Uploaded<'d, T, O>,
    model_bytes: u64,
    tiles: Dependencies,
    v_old: AnyBuffer<T>,
    v_new: AnyBuffer<T>,
    slots: AnyBuffer<u64>,
    /// The current stopping rule on the device.
    stop: StopOnDevice,
    /// Whether `v_old` and `v_new` are swapped relative to the recorded graph.
    swapped: bool,
    /// A batch of [`MAX_BATCH`] sweeps; valid only while the buffers are not swapped.
    graph: Option<Graph>,
    /// Exchanges with the other ranks, if there are some. The ghosts of `v_old` are those of the last exchange.
    ranks: Option<Box<dyn Exchanges<T> + 'd>>,
    /// The states of a sweep, in whole tiles.
    visited: Range<u32>,
    /// Those of them that are swept during the exchange. Empty if a rank has too few.
    interior: Range<u32>,
    /// Sweeps for each exchange.
    local_sweeps: u32,
}

impl<'d, T: Precise, O: Offset> ValueIteration<'d, T, O> {
    /// Uploads the model. V starts at 0.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(device: &'d AnyDevice, sweep_layout: &SweepLayout<'d>) -> Result<Self, DeviceError> {
        Self::with(device, sweep_layout, sweep_layout.upload(device)?, None)
    }

    /// [`new`](Self::new) for the part of one rank. All ranks call the methods in the same order.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn in_team(
        device: &'d AnyDevice,
        sweep_layout: &SweepLayout<'d>,
        ranks: Option<Box<dyn Exchanges<T> + 'd>>,
    ) -> Result<Self, DeviceError> {
        Self::with(device, sweep_layout, sweep_layout.upload(device)?, ranks)
    }

    /// Builds the backend for a model on the device. V starts at 0.
    pub(super) fn with(
        device: &'d AnyDevice,
        sweep_layout: &SweepLayout<'d>,
        model: Uploaded<'d, T, O>,
        ranks: Option<Box<dyn Exchanges<T> + 'd>>,
    ) -> Result<Self, DeviceError> {
        assert!(O::WIDE || !sweep_layout.is_wide(), "offsets of 32 bits are too small for the model");
        let source = sweep_layout.source;
        let states = source.states() as usize;
        let interior = sweep_layout.interior();
        let worth = |range: &Range<u32>| !range.is_empty() && range.len() >= states / 2;
        let overlaps = ranks.as_ref().is_some_and(|ranks| ranks.all(worth(&interior)));
        let mut values = Self {
            device,
            source,
            model,
            model_bytes: sweep_layout.model_bytes::<T, O>(),
            tiles: Dependencies::upload(device, sweep_layout.tiles.as_ref(), sweep_layout.tile())?,
            v_old: device.zeros(states)?,
            v_new: device.zeros(states)?,
            slots: device.zeros(SLOTS * MAX_BATCH)?,
            stop: StopOnDevice::new(device)?,
            swapped: false,
            graph: None,
            ranks,
            visited: sweep_layout.visited(),
            interior: if overlaps { interior } else { 0..0 },
            local_sweeps: 1,
        };
        values.record()?;
        Ok(values)
    }

    /// With `sweeps` ≥ 1 sweeps of this rank for each exchange of ghosts, which keep their values in between. Of one rank, it
    /// changes nothing.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn with_local_sweeps(mut self, sweeps: u32) -> Result<Self, DeviceError> {
        if self.ranks.is_some() && sweeps > 1 {
            // Sweeps copy the ghosts, too.
            (self.local_sweeps, self.interior, self.visited) = (sweeps, 0..0, 0..self.source.states());
            self.graph = None;
            self.record()?;
        }
        Ok(self)
    }

    /// Records a batch of [`MAX_BATCH`] sweeps, if the device can.
    fn record(&mut self) -> Result<(), DeviceError> {
        if self.ranks.as_ref().is_none_or(|ranks| ranks.records()) {
            let device = self.device;
            self.graph = device.capture(|| self.submit(MAX_BATCH))?;
        }
        Ok(())
    }

    /// Submits the sweeps of a batch.
    fn submit(&mut self, sweeps: usize) -> Result<(), DeviceError> {
        let device = self.device;
        device.clear(&mut self.slots)?;
        if self.local_sweeps == 1 {
            return (0..sweeps).try_for_each(|sweep| self.sweep(sweep as u32));
        }
        // The changes of the last sweep alone count; exchanges precede it and follow it. All sweeps have number 0: none returns
        // because the one before it changed nothing here, for ghosts may have changed since.
        for sweep in 1..=sweeps {
            let last = sweep == sweeps;
            if last {
                device.clear(&mut self.slots)?;
            }
            if self.ranks.as_ref().is_none_or(|ranks| ranks.works()) {
                self.launch(0, self.visited.clone())?;
            }
            if last || sweep + 1 == sweeps || sweep.is_multiple_of(self.local_sweeps as usize) {
                self.exchange(last.then_some(0))?;
            }
            self.swap();
        }
        Ok(())
    }

    /// Launches sweep number `sweep` of a batch on all ranks, and swaps the old and new buffers. Ranks exchange the new
    /// values of their ghosts.
    ///
    /// If the ranks overlap, they sweep the states beside the ghosts first, and exchange their values during the sweep of
    /// the others. The exchange also takes the maxima of the sweep before, which ends too late for its own; a batch thus
    /// ends one sweep after that which meets the rule, and [`backup`](Self::backup) undoes this sweep.
    fn sweep(&mut self, sweep: u32) -> Result<(), DeviceError> {
        let (device, visited) = (self.device, self.visited.clone());
        if self.overlaps() {
            let interior = self.interior.clone();
            let border = |own: &mut Self| {
                for range in [visited.start..interior.start, interior.end..visited.end] {
                    own.launch(sweep, range)?;
                }
                own.exchange(sweep.checked_sub(1))
            };
            // SAFETY: the sweeps write the new values of different states and the flags of different tiles, and raise the
            // same slots by atomic operations. The exchange uses new values and flags of the border, which is swept before
            // it on the same side, and the slots of another sweep. The kernels read those of the sweep before only to
            // learn whether they are 0, and no maximum changes that.
            unsafe { device.beside(self, border, |own| own.launch(sweep, interior.clone()))? };
        } else {
            if self.ranks.as_ref().is_none_or(|ranks| ranks.works()) {
                self.launch(sweep, visited)?;
            }
            self.exchange(Some(sweep))?;
        }
        self.swap();
        Ok(())
    }

    /// Whether exchanges overlap with sweeps.
    fn overlaps(&self) -> bool {
        !self.interior.is_empty()
    }

    /// Replaces the ghosts of the new V, and takes the maxima of a sweep.
    fn exchange(&mut self, sweep: Option<u32>) -> Result<(), DeviceError> {
        let Some(ranks) = &mut self.ranks else { return Ok(()) };
        let tiles = self.tiles.skip.then_some((self.tiles.len, &mut self.tiles.changed_new));
        let maxima = sweep.map(|sweep| (&mut self.slots, slots_of(sweep)));
        ranks.exchange(self.device, &mut self.v_new, tiles, maxima)
    }

    /// The slots of a batch of `sweeps` sweeps, over all ranks.
    fn read(&mut self, sweeps: usize) -> Result<Vec<u64>, DeviceError> {
        let mut slots = vec![0; SLOTS * sweeps];
        self.device.download(&self.slots, &mut slots)?;
        if let Some(ranks) = self.ranks.as_mut().filter(|_| !self.interior.is_empty()) {
            // No exchange followed the last sweep.
            ranks.max(&mut slots[slots_of(sweeps as u32 - 1)]);
        }
        Ok(slots)
    }

    /// Launches the sweep of some states of this rank.
    fn launch(&mut self, sweep: u32, states: Range<u32>) -> Result<(), DeviceError> {
        if states.is_empty() {
            return Ok(());
        }
        let lag = if self.overlaps() { 2 } else { 1 };
        let Self { device, model, tiles, v_old, v_new, slots, stop, .. } = self;
        let sweep = SweepArgs { number: sweep, stop: &stop.buffer, slots, tiles: tiles.args(), lag };
        let launch = BackupLaunch { device, states, v: IteratesArgs { old: v_old, new: v_new }, sweep };
        // SAFETY: V and V_new have |S| elements. `slots` has `SLOTS · MAX_BATCH`, and the number is below `MAX_BATCH`. The
        // visited states and the interior begin with a tile and end at or below |S|, and `with` uploaded the tiles of the layout.
        unsafe { model.launch(launch) }
    }

    /// Launches a batch of sweeps; returns their number, which is smaller after an interrupt.
    fn batch(&mut self, sweeps: usize) -> Result<usize, DeviceError> {
        if self.ranks.is_some() {
            // All ranks launch the same sweeps.
            return self.submit(sweeps).map(|()| sweeps);
        }
        self.device.clear(&mut self.slots)?;
        launch_batch(sweeps, |sweep| self.sweep(sweep as u32))
    }

    /// Whether a stop was requested, on any rank.
    fn stopped(&self) -> bool {
        self.ranks.as_ref().map_or_else(interrupt::requested, |ranks| ranks.stopped())
    }

    fn swap(&mut self) {
        self.swapped = !self.swapped;
        std::mem::swap(&mut self.v_old, &mut self.v_new);
        std::mem::swap(&mut self.tiles.changed_old, &mut self.tiles.changed_new);
    }

    /// Copies V from a run in another precision.
    pub(super) fn take<U: Precise>(&mut self, other: &ValueIteration<'_, U, O>) -> Result<(), DeviceError> {
        let states = self.source.states();
        let shape = Shape::cover(u64::from(states), THREADS);
        convert(self.device, shape, states, &other.v_old, &mut self.v_old)?;
        self.tiles.changed_all(self.device)
    }
}

impl<T: Precise, O: Offset> State for ValueIteration<'_, T, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        match initial {
            Some(values) => {
                assert_eq!(values.len(), self.source.states() as usize, "a value for each state");
                self.device.write(&mut self.v_old, &T::rounded(&self.source.without_terminal(values)))?;
                if let Some(ranks) = &mut self.ranks {
                    ranks.refresh(self.device, &mut self.v_old)?;
                }
            }
            None => self.device.clear(&mut self.v_old)?,
        }
        self.tiles.changed_all(self.device)
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        Ok(self.device.to_vec(&self.v_old)?.into_par_iter().map(T::to_f64).collect())
    }

    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        Ok(self.source.greedy(&self.values()?))
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    /// The model once, V read and written.
    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        Ok(self.model_bytes + 2 * u64::from(self.source.states()) * size_of::<T>() as u64)
    }
}

impl<T: Precise, O: Offset> Correct for ValueIteration<'_, T, O> {
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, DeviceError> {
        let Source::Host(mdp) = self.source else { return Ok(false) };
        assert_eq!(rewards.len(), mdp.rows(), "a reward for each row");
        let set = self.model.set_rewards(self.device, rewards)?;
        if set {
            self.tiles.changed_all(self.device)?;
        }
        Ok(set)
    }
}

impl<T: Precise, O: Offset> GreedySweeps for ValueIteration<'_, T, O> {
    /// Launches sweeps in batches. Sweeps after one that met `stop` return at once.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, DeviceError> {
        let mut done = Backups { sweeps: 0, least: 0.0, greatest: 0.0, fixed: false };
        self.stop.set(self.device, stop)?;
        // Bound 0 is never met, so all sweeps are necessary.
        let mut batch = if stop.bound() > 0.0 { FIRST_BATCH } else { MAX_BATCH };
        loop {
            let left = (max_sweeps - done.sweeps) as usize;
            batch = batch.clamp(1, MAX_BATCH).min(left);
            // A recorded sweep that returns at once costs less than a single launch, so round up to the full graph.
            match &self.graph {
                Some(graph) if batch > MAX_BATCH / 4 && left >= MAX_BATCH && !self.swapped => {
                    batch = MAX_BATCH;
                    // SAFETY: `self` owns the recorded buffers and never reallocates them. They are in their recorded
                    // roles since `swapped` is false, and the contract of each launch is that in `sweep`.
                    unsafe { self.device.launch_graph(graph)? };
                }
                // One single sweep restores the buffer roles of the graph.
                Some(_) if batch > MAX_BATCH / 4 && self.swapped => {
                    batch = self.batch(1)?;
                }
                _ => batch = self.batch(batch)?,
            }
            let slots = self.read(batch)?;
            // Of local sweeps, the changes of the last one are in the first slot.
            let mut swept = if self.local_sweeps > 1 { batch - 1 } else { 0 };
            for slot in slots.chunks_exact(SLOTS).take(batch - swept) {
                // 0 is never a valid key: the sweep returned at once.
                if slot[0] == 0 {
                    break;
                }
                swept += 1;
                [done.least, done.greatest] = changes(slot);
                done.fixed = slot[2] == 0;
                if done.fixed || stop.is_met(done.least, done.greatest) {
                    break;
                }
            }
            // Sweeps behind the last one wrote nothing, or the values of the sweep that would follow it. If their number
            // is odd, the buffers have swapped once too often.
            if (batch - swept) % 2 == 1 {
                self.swap();
            }
            done.sweeps += swept as u32;
            let met = done.fixed || stop.is_met(done.least, done.greatest);
            if met || done.sweeps >= max_sweeps || self.stopped() {
                return Ok(done);
            }
            batch = self.expected(stop, &done);
        }
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        (self.local_sweeps > 1).then_some(T::UNIT)
    }
}

impl<T: Precise, O: Offset> ValueIteration<'_, T, O> {
    /// Predicted number of sweeps until `stop` if changes fall by γ per sweep.
    fn expected(&self, stop: Stop, now: &Backups) -> usize {
        let sweeps = (stop.bound() / stop.size(now.least, now.greatest)).ln() / self.source.gamma().ln();
        if sweeps.is_finite() { sweeps as usize + 2 } else { MAX_BATCH }
    }
}

/// The slots of a sweep.
fn slots_of(sweep: u32) -> Range<usize> {
    let first = SLOTS * sweep as usize;
    first..first + SLOTS
}

impl<O: Offset> Certify for ValueIteration<'_, f64, O> {
    fn residual(&mut self) -> Result<Residual, DeviceError> {
        let device = self.device;
        device.clear(&mut self.slots)?;
        let states = self.source.states();
        largest(device, Shape::grid_stride(states.into(), THREADS), states, &self.v_old, &mut self.slots)?;
        let mut bits = [0];
        device.download(&self.slots, &mut bits)?;
        let largest = f64::from_bits(bits[0]);
        device.clear(&mut self.slots)?;
        self.tiles.changed_all(device)?;
        // Bound 0 is never met. The sweep computes V_new = TV in f64 and its change V_new − V with one rounding; the
        // certificate covers both rounding errors.
        self.sweep(0)?;
        let range = changes(&self.read(1)?);
        self.swap();
        self.tiles.changed_all(device)?;
        Ok(Residual { range, largest })
    }
}
