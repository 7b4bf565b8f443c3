//! Any number of states: a launch has one step of all sequences.

use warpkov_device::launch::Shape;
use warpkov_kernels::hmm::model::{ForwardArgs, Step as StepArgs};
use warpkov_kernels::hmm::step::{
    self, THREADS, backward_step, forward_end, forward_start, forward_step, level_rows, place_rows, viterbi_step,
};
use warpkov_kernels::hmm::viterbi::PERIOD;
use warpkov_runtime::Precise;
use warpkov_runtime::device::DeviceError;

use crate::backends::device::launch::Launch;
use crate::backends::device::model::Models;
use crate::backends::device::trellis::{BackwardRows, ForwardRows, Paths, Trellis};
use crate::backends::device::variant::{Back, Onward, Variant};

/// Threads of a block that loops over the states of one sequence.
const STATE_THREADS: u32 = 128;

/// The variant for any number of states.
pub struct Step {
    stride: usize,
}

impl Step {
    pub fn new(states: u32) -> Self {
        Self { stride: (states as usize).next_multiple_of(step::COLUMNS as usize) }
    }

    /// The grid of one step over `live` sequences.
    fn tiles<T: Precise>(&self, launch: &Launch<'_, T>, live: u32) -> Shape {
        let tiles = live.div_ceil(step::ROWS) * (self.stride as u32 / step::COLUMNS);
        launch.shape(tiles, THREADS).with_shared(step::step_shared(T::WIDE))
    }
}

/// Number of sequences that have step `t`.
fn live<T: Precise>(launch: &Launch<'_, T>, t: u32) -> u32 {
    let base = &launch.packing.base;
    if t as usize + 1 < base.len() { base[t as usize + 1] - base[t as usize] } else { 0 }
}

impl<T: Precise> Variant<T> for Step {
    fn stride(&self) -> usize {
        self.stride
    }

    fn arrays(&self, _want: u32) -> usize {
        3
    }

    /// M rows for the step beside the window, and at least two steps before them.
    fn capacity(&self, rows: u32, sequences: u32) -> u32 {
        rows.max(2 * sequences) + sequences
    }

    fn lift(&self) -> f64 {
        step::LIFT
    }

    /// The last M rows of α̂ hold the step before the window. If α̂ is not to be kept, steps alternate between the first
    /// two groups of M rows.
    fn forward(
        &self,
        launch: &Launch<'_, T>,
        onward: &Onward<'_, T>,
        trellis: &mut Trellis<T>,
    ) -> Result<(), DeviceError> {
        let Onward { steps, capacity, store, again, .. } = onward;
        let (device, sequences, stride, window) = (launch.device, launch.sequences, self.stride as u32, *capacity);
        let (all, model) = (launch.sequences(), launch.models.args(launch.symbols));
        let base = &launch.packing.base;
        let origin = base[steps.start as usize];
        let place = |t: u32| if *store { base[t as usize] - origin } else { t % 2 * sequences };
        let (live, carried) = (|t| live(launch, t), window - sequences);
        let ForwardRows { carry, alpha, exponents, doubts, likelihoods } = trellis.forward(launch, window, *again)?;
        // SAFETY: `Sequences` guarantees ascending offsets, from which `Packing` derives rows in bounds. `fit`, asserted
        // in `set_models`, guarantees a row of the emission table for every symbol. `Hmm` guarantees the shapes of π, A
        // and B, which `Models` pads to the stride. `Trellis::forward` sizes the buffers for `capacity`: the rows of
        // the window, at least 2·M, and M rows more.
        unsafe {
            if steps.start > 0 {
                let shape = launch.shape(live(steps.start - 1), THREADS);
                place_rows(device, shape, stride, 0, sequences, carried, window, carry, alpha)?;
            }
            for t in steps.clone() {
                let (on, now) = (live(t), place(t));
                let step =
                    StepArgs { first: base[t as usize], live: on, stride, before: 0, now, window, plain: launch.plain };
                if t == 0 {
                    let shape = launch.shape(on, STATE_THREADS);
                    forward_start(device, shape, all, model, step, alpha, exponents, doubts)?;
                } else {
                    let before = if t == steps.start { carried } else { place(t - 1) };
                    let (shape, step) = (self.tiles(launch, on).overlapping(), StepArgs { before, ..step });
                    forward_step(device, shape, all, model, step, alpha, exponents, doubts)?;
                }
                let next = live(t + 1);
                if next < on {
                    let shape = launch.shape(on - next, STATE_THREADS);
                    let step = StepArgs { first: next, ..step };
                    forward_end(device, shape, t, all, model, step, alpha, exponents, doubts, likelihoods)?;
                }
            }
            let on = live(steps.end);
            if on > 0 {
                let (shape, last) = (launch.shape(on, THREADS), place(steps.end - 1));
                place_rows(device, shape, stride, last, window, 0, sequences, alpha, carry)?;
            }
        }
        Ok(())
    }

    /// The last M rows of û hold the row for the step before the window.
    fn backward(&self, launch: &Launch<'_, T>, back: &Back<'_>, trellis: &mut Trellis<T>) -> Result<(), DeviceError> {
        let Back { window, capacity, .. } = *back;
        let (device, sequences, stride) = (launch.device, launch.sequences, self.stride as u32);
        let (all, model) = (launch.sequences(), launch.models.args(launch.symbols));
        let (from, until, carried) = (window.steps.start, window.steps.end, capacity - sequences);
        let base = &launch.packing.base;
        let place = |t: u32| base[t as usize] - window.rows.start;
        let live = |t| live(launch, t);
        let BackwardRows { alpha, exponents, likelihoods, carry, gamma, pairs, .. } =
            trellis.backward(launch, [capacity, capacity])?;
        // SAFETY: as in `forward`, which has stored α̂ of this window; `Trellis::backward` sizes the buffers for the same
        // `capacity`.
        unsafe {
            if until < launch.packing.steps().end {
                let shape = launch.shape(live(until), THREADS);
                place_rows(device, shape, stride, 0, sequences, place(until - 1), capacity, carry, pairs)?;
            }
            for t in (from..until).rev() {
                let (on, now) = (live(t), if t == from { carried } else { place(t - 1) });
                let shape = self.tiles(launch, on);
                let shape = if t + 1 < until { shape.overlapping() } else { shape };
                let step = StepArgs {
                    first: base[t as usize],
                    live: on,
                    stride,
                    before: place(t),
                    now,
                    window: capacity,
                    plain: launch.plain,
                };
                let forward = ForwardArgs { alpha, exponents, likelihoods };
                backward_step(device, shape, live(t + 1), place(t), all, model, step, forward, gamma, pairs)?;
            }
            if from > 0 {
                let shape = launch.shape(live(from), THREADS);
                place_rows(device, shape, stride, carried, capacity, 0, sequences, pairs, carry)?;
            }
        }
        Ok(())
    }

    fn decode(
        &self,
        launch: &Launch<'_, T>,
        logs: &Models<T>,
        trellis: &mut Trellis<T>,
        paths: &mut Paths,
    ) -> Result<(), DeviceError> {
        let (device, rows, stride) = (launch.device, launch.rows, self.stride as u32);
        let base = &launch.packing.base;
        let delta = trellis.alpha.at_least(device, launch.count as usize * rows as usize * self.stride)?;
        for t in launch.packing.steps() {
            let (on, first) = (live(launch, t), base[t as usize]);
            let tiles = self.tiles(launch, on);
            let shape = if t > 0 { tiles.overlapping() } else { tiles };
            let before = base[t.saturating_sub(1) as usize];
            let step = StepArgs { first, live: on, stride, before, now: first, window: rows, plain: 0 };
            // SAFETY: as in `forward`, with logarithms; `delta` has a row per observation of each model.
            unsafe {
                viterbi_step(device, shape, launch.sequences(), logs.args(launch.symbols), step, delta)?;
                if t % PERIOD == PERIOD - 1 {
                    level_rows(device, launch.shape(on, 32), stride, first, rows, delta)?;
                }
            }
        }
        launch.trace(logs, delta, paths)
    }
}
