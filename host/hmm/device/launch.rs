//! Launches of the recursions for each kernel variant, and their scratch memory.

use std::ops::Range;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_device::launch::{Dim3, Shape};
use warpkov_kernels::hmm::backward::{CountsArgs, backward_block, backward_warp, want, warp_shared, warp_threads};
use warpkov_kernels::hmm::counts::{PRODUCT_THREADS, TILE, pair_product, product_shared, sum_chunks, sum_rows};
use warpkov_kernels::hmm::forward::{forward_block, forward_warp};
use warpkov_kernels::hmm::model::{ForwardArgs, ModelArgs, SequencesArgs, Split, Step, Window as WindowArgs};
use warpkov_kernels::hmm::step::{
    self, THREADS, backward_step, forward_end, forward_start, forward_step, level_rows, place_rows, viterbi_step,
};
use warpkov_kernels::hmm::trace::trace;
use warpkov_kernels::hmm::viterbi::{self, PERIOD, viterbi_block, viterbi_warp};

use crate::device::chunks::Chunks;
use crate::device::model::{KernelVariant, Models};
use crate::device::packing::{Packing, Window};
use crate::device::wide;
use warpkov_runtime::Precise;
use warpkov_runtime::scratch::Scratch;

/// Threads of a block that loops over the states of one sequence.
const STATE_THREADS: u32 = 128;

/// Maximum number of blocks of the backward recursion. Each has a partial sum of its own.
pub(super) const PARTS: u32 = 2048;

/// Device copy of [`Lists`](crate::device::packing::Lists).
pub(super) struct OnDevice {
    pub order: AnyBuffer<u32>,
    pub chunk: AnyBuffer<u32>,
    pub list: AnyBuffer<u32>,
    pub chunks: u32,
    pub count: u32,
}

/// Scratch memory, reused between launches.
pub(super) struct Work<T: Precise> {
    pub forward_carry: Scratch<T>,
    pub backward_carry: Scratch<T>,
    pub checkpoints: Vec<Scratch<T>>,
    pub alpha: Scratch<T>,
    pub gamma: Scratch<T>,
    pub pairs: Scratch<T>,
    pub exponents: Scratch<i32>,
    pub doubts: Scratch<u32>,
    pub likelihoods: Scratch<f64>,
    pub replayed: Scratch<f64>,
    pub parts: Scratch<f64>,
    pub moment_parts: Scratch<f64>,
    pub moments: Scratch<f64>,
    pub sums: Scratch<f64>,
    pub chunks: Scratch<f64>,
    pub listed: Scratch<f64>,
    pub pointers: Scratch<u32>,
    pub path: Scratch<u32>,
    pub scores: Scratch<f64>,
    /// Operators of chunks.
    pub operators: Scratch<f64>,
    /// Scales of the operators' rows.
    pub scales: Scratch<f64>,
    /// Prediction at the start of each chunk.
    pub starts: Scratch<T>,
    /// Vector that follows each chunk.
    pub behind: Scratch<T>,
    /// Likelihoods of original sequences, where chunks are packed.
    pub totals: Scratch<f64>,
    /// Viterbi over chunks: for each successor state the last state of the chunk.
    pub lasts: Scratch<u32>,
    /// Viterbi over chunks: for each successor state the first state of the chunk.
    pub firsts: Scratch<u32>,
    /// Viterbi over chunks: the last state of the previous chunk, and the last state of the chunk.
    pub bounds: Scratch<u32>,
    /// Scratch memory for doubtful sequences.
    pub wide: wide::Work,
}

impl<T: Precise> Work<T> {
    pub(super) fn new(device: &AnyDevice) -> Result<Self, DeviceError> {
        Ok(Self {
            forward_carry: Scratch::new(device)?,
            backward_carry: Scratch::new(device)?,
            checkpoints: Vec::new(),
            alpha: Scratch::new(device)?,
            gamma: Scratch::new(device)?,
            pairs: Scratch::new(device)?,
            exponents: Scratch::new(device)?,
            doubts: Scratch::new(device)?,
            likelihoods: Scratch::new(device)?,
            replayed: Scratch::new(device)?,
            parts: Scratch::new(device)?,
            moment_parts: Scratch::new(device)?,
            moments: Scratch::new(device)?,
            sums: Scratch::new(device)?,
            chunks: Scratch::new(device)?,
            listed: Scratch::new(device)?,
            pointers: Scratch::new(device)?,
            path: Scratch::new(device)?,
            scores: Scratch::new(device)?,
            operators: Scratch::new(device)?,
            scales: Scratch::new(device)?,
            starts: Scratch::new(device)?,
            behind: Scratch::new(device)?,
            totals: Scratch::new(device)?,
            lasts: Scratch::new(device)?,
            firsts: Scratch::new(device)?,
            bounds: Scratch::new(device)?,
            wide: wide::Work::new(device)?,
        })
    }
}

/// Launches the kernel instance whose constants match a value.
macro_rules! instance {
    ($value:expr; $($pattern:pat => $kernel:ident::<$($constant:tt),*>),*; $arguments:tt) => {
        match $value {
            $($pattern => instance!(@ $kernel::<$($constant),*> $arguments),)*
            _ => unreachable!("a stride that no kernel has"),
        }
    };
    (@ $kernel:ident::<$($constant:tt),*> ($($argument:expr),*)) => {
        $kernel::<T, $($constant,)* _>($($argument),*)
    };
}
pub(super) use instance;

/// Arguments common to all launches.
pub(super) struct Launch<'a, T: Precise> {
    pub device: &'a AnyDevice,
    pub variant: KernelVariant,
    pub count: u32,
    pub states: u32,
    pub stride: usize,
    pub sequences: u32,
    pub symbols: u32,
    pub rows: u32,
    pub plain: u32,
    pub lengths: &'a AnyBuffer<u32>,
    pub base: &'a AnyBuffer<u32>,
    pub symbol: &'a AnyBuffer<u32>,
    pub models: &'a Models<T>,
    pub packing: &'a Packing,
    pub chunks: Option<&'a Chunks>,
}

/// Outputs of a backward kernel.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// A constant of [`want`].
    pub want: u32,
    /// Number of symbols that it counts in shared memory.
    pub slots: u32,
}

impl<T: Precise> Launch<'_, T> {
    /// A grid of `x` blocks per model.
    pub(super) fn shape(&self, x: u32, threads: u32) -> Shape {
        Shape::new(Dim3 { x, y: self.count, z: 1 }, threads)
    }

    /// Number of pairs of a model and a sequence.
    pub(super) fn cells(&self) -> usize {
        self.count as usize * self.sequences as usize
    }

    /// Kernel arguments of the sequences.
    pub(super) fn sequences(&self) -> SequencesArgs<'_, AnyDevice> {
        let Self { sequences, rows, lengths, base, symbol, .. } = *self;
        SequencesArgs { count: sequences, rows, lengths, base, symbol }
    }

    fn groups(&self) -> u32 {
        self.sequences.div_ceil(8)
    }

    /// Launches the forward recursion over the steps of a window. `store` keeps α̂ in `alpha`. `starts` holds a π per
    /// sequence.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep works on")]
    pub(super) fn forward(
        &self,
        steps: &Range<u32>,
        window: u32,
        store: bool,
        starts: Option<&AnyBuffer<T>>,
        carry: &mut AnyBuffer<T>,
        alpha: &mut AnyBuffer<T>,
        exponents: &mut AnyBuffer<i32>,
        doubts: &mut AnyBuffer<u32>,
        likelihoods: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        let Self { device, sequences, symbols, models, .. } = self;
        let own = u32::from(starts.is_some());
        let start = starts.unwrap_or(&models.start);
        let (constant, shape) = match self.variant {
            KernelVariant::Warp { tiles } => (tiles, self.shape(self.groups(), 32)),
            KernelVariant::Block { per } => (per, self.shape(*sequences, 16 * per as u32)),
            KernelVariant::Step => {
                return self.forward_steps(steps, window, store, carry, alpha, exponents, doubts, likelihoods);
            }
        };
        let (all, model) = (self.sequences(), ModelArgs { start, ..models.args(*symbols) });
        let window = WindowArgs { from: steps.start, until: steps.end, capacity: window };
        // SAFETY: `Sequences` guarantees ascending offsets, from which `Packing` derives rows in bounds. `fit`,
        // asserted in `set_models`, guarantees a row of the emission table for every symbol. `Hmm` guarantees the
        // shapes of π, A and B, which `Models` pads to the stride of the kernel instance. `alpha` has `window` rows per
        // model; the other buffers have `cells` or `rows` elements or rows per model.
        unsafe {
            instance!((constant, store);
                (1, false) => forward_warp::<1, false>, (1, true) => forward_warp::<1, true>,
                (2, false) => forward_warp::<2, false>, (2, true) => forward_warp::<2, true>,
                (4, false) => forward_warp::<4, false>, (4, true) => forward_warp::<4, true>,
                (16, false) => forward_block::<16, false>, (16, true) => forward_block::<16, true>,
                (32, false) => forward_block::<32, false>, (32, true) => forward_block::<32, true>;
                (*device, shape, all, window, model, own, carry, alpha, exponents, likelihoods))
        }
    }

    /// The grid of one step over `live` sequences.
    fn tiles(&self, live: u32) -> Shape {
        let tiles = live.div_ceil(step::ROWS) * (self.stride as u32 / step::COLUMNS);
        self.shape(tiles, step::THREADS).with_shared(step::step_shared(T::WIDE))
    }

    /// Number of sequences that have step `t`.
    fn live(&self, t: u32) -> u32 {
        let base = &self.packing.base;
        if t as usize + 1 < base.len() { base[t as usize + 1] - base[t as usize] } else { 0 }
    }

    /// [`forward`](Self::forward) with one launch per step. The last M rows of `alpha` hold α̂ of the step before the
    /// window. Without `store`, steps alternate between the first two groups of M rows.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep works on")]
    fn forward_steps(
        &self,
        steps: &Range<u32>,
        window: u32,
        store: bool,
        carry: &mut AnyBuffer<T>,
        alpha: &mut AnyBuffer<T>,
        exponents: &mut AnyBuffer<i32>,
        doubts: &mut AnyBuffer<u32>,
        likelihoods: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        let Self { device, sequences, .. } = *self;
        let (all, model) = (self.sequences(), self.models.args(self.symbols));
        let stride = self.stride as u32;
        let origin = self.packing.base[steps.start as usize];
        let place = |t: u32| if store { self.packing.base[t as usize] - origin } else { t % 2 * sequences };
        let carried = window - sequences;
        // SAFETY: as in `forward`; `Batch::windows` gives `alpha` M rows more than the window has, and at least 3·M.
        unsafe {
            if steps.start > 0 {
                let shape = self.shape(self.live(steps.start - 1), THREADS);
                place_rows(device, shape, stride, 0, sequences, carried, window, carry, alpha)?;
            }
            for t in steps.clone() {
                let (live, now) = (self.live(t), place(t));
                let first = self.packing.base[t as usize];
                let step = Step { first, live, stride, before: 0, now, window, plain: self.plain };
                if t == 0 {
                    let shape = self.shape(live, STATE_THREADS);
                    forward_start(device, shape, all, model, step, alpha, exponents, doubts)?;
                } else {
                    let before = if t == steps.start { carried } else { place(t - 1) };
                    let (shape, step) = (self.tiles(live).overlapping(), Step { before, ..step });
                    forward_step(device, shape, all, model, step, alpha, exponents, doubts)?;
                }
                let on = self.live(t + 1);
                if on < live {
                    let shape = self.shape(live - on, STATE_THREADS);
                    let step = Step { first: on, ..step };
                    forward_end(device, shape, t, all, model, step, alpha, exponents, doubts, likelihoods)?;
                }
            }
            let on = self.live(steps.end);
            if on > 0 {
                let (shape, last) = (self.shape(on, THREADS), place(steps.end - 1));
                place_rows(device, shape, stride, last, window, 0, sequences, alpha, carry)?;
            }
        }
        Ok(())
    }

    /// [`backward`](Self::backward) with one launch per step. The last M rows of `pairs` hold the row for the step
    /// before the window.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep works on")]
    fn backward_steps(
        &self,
        window: &Window,
        capacity: u32,
        likelihoods: &AnyBuffer<f64>,
        exponents: &AnyBuffer<i32>,
        alpha: &AnyBuffer<T>,
        carry: &mut AnyBuffer<T>,
        gamma: &mut AnyBuffer<T>,
        pairs: &mut AnyBuffer<T>,
    ) -> Result<(), DeviceError> {
        let Self { device, sequences, .. } = *self;
        let (all, model) = (self.sequences(), self.models.args(self.symbols));
        let (stride, carried) = (self.stride as u32, capacity - sequences);
        let (from, until) = (window.steps.start, window.steps.end);
        let place = |t: u32| self.packing.base[t as usize] - window.rows.start;
        let last = self.packing.steps().end - 1;
        // SAFETY: as in `forward_steps`; `gamma` and `pairs` have `capacity` rows per model, as `alpha` has.
        unsafe {
            if until <= last {
                let shape = self.shape(self.live(until), THREADS);
                place_rows(device, shape, stride, 0, sequences, place(until - 1), capacity, carry, pairs)?;
            }
            for t in (from..until).rev() {
                let (live, now) = (self.live(t), if t == from { carried } else { place(t - 1) });
                let shape = self.tiles(live);
                let shape = if t + 1 < until { shape.overlapping() } else { shape };
                let step = Step {
                    first: self.packing.base[t as usize],
                    live,
                    stride,
                    before: place(t),
                    now,
                    window: capacity,
                    plain: self.plain,
                };
                let forward = ForwardArgs { alpha, exponents, likelihoods };
                backward_step(device, shape, self.live(t + 1), place(t), all, model, step, forward, gamma, pairs)?;
            }
            if from > 0 {
                let shape = self.shape(self.live(from), THREADS);
                place_rows(device, shape, stride, carried, capacity, 0, sequences, pairs, carry)?;
            }
        }
        Ok(())
    }

    /// Launches the backward recursion over a window: writes ûₜ and γₜ, or partial sums of the counts. `more`: add to
    /// the partial sums of later windows.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep works on")]
    pub(super) fn backward(
        &self,
        window: &Window,
        capacity: u32,
        wanted: Wanted,
        more: bool,
        likelihoods: &AnyBuffer<f64>,
        exponents: &AnyBuffer<i32>,
        alpha: &AnyBuffer<T>,
        carry: &mut AnyBuffer<T>,
        gamma: &mut AnyBuffer<T>,
        pairs: &mut AnyBuffer<T>,
        parts: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        let Self { device, sequences, symbols, models, .. } = self;
        let (all, model) = (self.sequences(), models.args(*symbols));
        let steps = WindowArgs { from: window.steps.start, until: window.steps.end, capacity };
        let forward = ForwardArgs { alpha, exponents, likelihoods };
        // SAFETY: as in `forward`, which has stored α̂ of this window. `gamma` and `pairs` have `capacity` rows per
        // model where `wanted` needs them, and `parts` a partial sum per block of the grid.
        unsafe {
            match self.variant {
                KernelVariant::Warp { tiles } => {
                    let slots = wanted.slots;
                    let shared = warp_shared(tiles, size_of::<T>(), slots as usize, wanted.want) as u32;
                    let shape =
                        self.shape(self.groups().min(PARTS), warp_threads(tiles, wanted.want)).with_shared(shared);
                    let counts = CountsArgs { slots, more: u32::from(more), parts };
                    instance!((tiles, wanted.want);
                        (1, 0) => backward_warp::<1, 0>, (1, 1) => backward_warp::<1, 1>, (1, 2) => backward_warp::<1, 2>,
                        (2, 0) => backward_warp::<2, 0>, (2, 1) => backward_warp::<2, 1>, (2, 2) => backward_warp::<2, 2>,
                        (4, 0) => backward_warp::<4, 0>, (4, 1) => backward_warp::<4, 1>, (4, 2) => backward_warp::<4, 2>;
                        (*device, shape, all, steps, model, forward, carry, gamma, counts))
                }
                KernelVariant::Block { per } => {
                    let shape = self.shape(*sequences, 16 * per as u32);
                    let with_pairs = wanted.want != want::POSTERIORS;
                    instance!((per, with_pairs);
                        (16, false) => backward_block::<16, false>, (16, true) => backward_block::<16, true>,
                        (32, false) => backward_block::<32, false>, (32, true) => backward_block::<32, true>;
                        (*device, shape, all, steps, model, forward, carry, gamma, pairs))
                }
                KernelVariant::Step => {
                    self.backward_steps(window, capacity, likelihoods, exponents, alpha, carry, gamma, pairs)
                }
            }
        }
    }

    /// Launches the sums over the rows of a window: partial sums of α̂ᵀ û, unless the backward kernel has counted them
    /// (`pairs` is `None`), and sums of γ by lists. `more`: add to the sums of later windows.
    #[expect(clippy::too_many_arguments, reason = "all that sums are made of")]
    pub(super) fn count(
        &self,
        window: &Window,
        capacity: u32,
        splits: u32,
        more: bool,
        lists: &OnDevice,
        alpha: &AnyBuffer<T>,
        gamma: &AnyBuffer<T>,
        pairs: Option<&AnyBuffer<T>>,
        parts: &mut AnyBuffer<f64>,
        chunks: &mut AnyBuffer<f64>,
        listed: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        let (device, stride, more) = (self.device, self.stride as u32, u32::from(more));
        let threads = stride.next_multiple_of(32).min(512);
        let list_count = lists.count;
        // SAFETY: `Lists` names rows of this window, which has at most `capacity` rows. `chunks` and `listed` have a
        // row per chunk and per list of each model, `parts` has `splits` parts of each model.
        unsafe {
            if let Some(pairs) = pairs {
                let (rows, tiles) = (window.rows.len() as u32, stride / TILE as u32);
                let split = capacity.div_ceil(splits).next_multiple_of(16);
                let grid = Dim3 { x: tiles * tiles, y: self.count, z: splits };
                let shape = Shape::new(grid, PRODUCT_THREADS).with_shared(product_shared(T::WIDE));
                let scale = if self.variant == KernelVariant::Step { 1.0 / step::LIFT } else { 1.0 };
                let split = Split { rows, window: capacity, split, more };
                pair_product(device, shape, stride, split, scale, alpha, pairs, parts)?;
            }
            if lists.chunks > 0 {
                let shape = self.shape(lists.chunks, threads);
                sum_rows(device, shape, stride, capacity, &lists.chunk, &lists.order, gamma, chunks)?;
            }
            sum_chunks(device, self.shape(list_count, threads), stride, lists.chunks, more, &lists.list, chunks, listed)
        }
    }

    /// Launches the Viterbi recursion and the traceback.
    pub(super) fn decode(
        &self,
        logs: &Models<T>,
        delta: &mut AnyBuffer<T>,
        pointers: &mut AnyBuffer<u32>,
        path: &mut AnyBuffer<u32>,
        scores: &mut AnyBuffer<f64>,
    ) -> Result<(), DeviceError> {
        let Self { device, sequences, symbols, rows, .. } = self;
        let (all, logs) = (self.sequences(), logs.args(*symbols));
        // SAFETY: as in `forward`; `delta` or `pointers`, and `path`, have `rows` rows per model, `scores` has `cells`
        // elements.
        unsafe {
            match self.variant {
                KernelVariant::Warp { .. } => {
                    let together = 32 / self.stride as u32;
                    let shared = viterbi::warp_shared(self.stride, size_of::<T>()) as u32;
                    let shape = self.shape(sequences.div_ceil(together), 32).with_shared(shared);
                    return instance!(self.stride;
                        8 => viterbi_warp::<8>, 16 => viterbi_warp::<16>, 32 => viterbi_warp::<32>;
                        (*device, shape, all, logs, pointers, path, scores));
                }
                KernelVariant::Block { per } => {
                    let shape = self.shape(*sequences, 16 * per as u32);
                    instance!(per;
                        16 => viterbi_block::<16>, 32 => viterbi_block::<32>;
                        (*device, shape, all, logs, delta))?;
                }
                KernelVariant::Step => {
                    let stride = self.stride as u32;
                    for t in self.packing.steps() {
                        let (live, first) = (self.live(t), self.packing.base[t as usize]);
                        let shape = if t > 0 { self.tiles(live).overlapping() } else { self.tiles(live) };
                        let before = self.packing.base[t.saturating_sub(1) as usize];
                        let step = Step { first, live, stride, before, now: first, window: *rows, plain: 0 };
                        viterbi_step(*device, shape, all, logs, step, delta)?;
                        if t % PERIOD == PERIOD - 1 {
                            level_rows(*device, self.shape(live, 32), stride, first, *rows, delta)?;
                        }
                    }
                }
            }
            let (shape, stride) = (self.shape(*sequences, 32), self.stride as u32);
            instance!(usize::from(self.stride > 128); 0 => trace::<1>, 1 => trace::<4>;
                (*device, shape, all, logs, stride, 0, delta, path, scores))
        }
    }
}
