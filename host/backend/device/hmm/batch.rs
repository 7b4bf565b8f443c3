//! The recursions over a batch, by the kernels that the number of states has.

use std::ops::Range;
use std::sync::Arc;

use warpkov_kernels::hmm::backward::{backward_block, backward_warp, counts_len, want, warp_shared};
use warpkov_kernels::hmm::counts::{
    PRODUCT_THREADS, TILE, pair_product, product_shared, sum_chunks, sum_parts, sum_rows, sum_threads,
};
use warpkov_kernels::hmm::forward::{forward_block, forward_warp};
use warpkov_kernels::hmm::scan::{
    self, join_pieces, link_pieces, maxima_shared, operators_shared, piece_ends, piece_maxima, piece_operators,
    piece_paths, piece_scores, piece_starts, pin_pieces,
};
use warpkov_kernels::hmm::step::{
    self, THREADS, backward_step, forward_end, forward_start, forward_step, level_rows, place_rows, viterbi_step,
};
use warpkov_kernels::hmm::trace::trace;
use warpkov_kernels::hmm::viterbi::{self, PERIOD, viterbi_block, viterbi_warp};
use warpkov_kernels::launch::{Device, Dim3, Shape};
use warpkov_kernels::primitives::copy::copy;

use super::gaussian::{Gaussians, vectors};
use super::model::{Models, Way, symbols};
use super::packing::{Lists, Packing, Window};
use super::pieces::Pieces;
use crate::backend::Precise;
use crate::backend::device::pomdp::buffers::Scratch;
use crate::hmm::model::Hmm;
use crate::hmm::recursions::{Decoded, Expected, Recursions, Statistics};
use crate::hmm::sequences::Sequences;

/// Blocks of the backward recursion at most, each with a part of the sums.
const PARTS: u32 = 2048;

/// Parts of moments at most.
const MOMENT_PARTS: u32 = 64;

/// Blocks of a product over all rows, about.
const PRODUCT_BLOCKS: u32 = 256;

/// Shared memory of a block up to which counts of symbols are kept there, in bytes.
const CELLS: usize = 64 * 1024;

/// What a batch may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes for the forward and backward variables; what does not fit is computed again, window by window.
    pub trellis: usize,
    /// Steps of the pieces that sequences are cut into for a [scan](super::Scan::steps) by models of at most 64 states; `None`: they are not
    /// cut. Operators take 8·N²/`pieces` bytes more for each step.
    pub pieces: Option<u32>,
    /// In f32: products of more than 128 states are of TF32 numbers, which have 11 bits, and not of sums of two such.
    pub plain_tf32: bool,
}

impl Default for Limits {
    /// 16 GiB, no pieces, and all bits.
    fn default() -> Self {
        Self { trellis: 16 << 30, pieces: None, plain_tf32: false }
    }
}

/// M sequences on a device, and the models that they are looked at by; in precision `T`. Both stay there.
///
/// What is said of a sequence has the same bits in any batch and within any memory. Where sequences are cut into pieces, sums are in
/// another order: last bits are others then, for each number of steps of a piece.
pub struct Batch<'d, T: Precise, D: Device> {
    device: &'d D,
    limits: Limits,
    packing: Packing,
    /// Where sequences are cut. Then their pieces are what is packed.
    pieces: Option<Pieces<D>>,
    /// The symbol of each row, on the host and there.
    symbol: Vec<u32>,
    lengths: D::Buffer<u32>,
    base: D::Buffer<u32>,
    symbols: D::Buffer<u32>,
    /// Vectors by row, where such were observed.
    vectors: D::Buffer<f64>,
    set: Option<Set<T, D>>,
    work: Work<T, D>,
    lists: Vec<OnDevice<D>>,
    /// How many windows, and lists of symbols, `lists` are for.
    listed: Option<(usize, u32)>,
}

/// The models that are set.
struct Set<T: Precise, D: Device> {
    hosts: Vec<Hmm>,
    way: Way,
    states: u32,
    stride: usize,
    /// Rows of the emission table of a model.
    symbols: u32,
    models: Models<T, D>,
    /// Their logarithms, once they are asked for.
    logs: Option<Models<T, D>>,
    /// Where vectors are emitted; and the table of ln densities, until `logs` has it.
    gaussians: Option<Gaussians<D>>,
    log_table: Option<D::Buffer<T>>,
}

impl<T: Precise, D: Device> Set<T, D> {
    /// Symbols that are counted.
    fn counted(&self) -> u32 {
        if self.gaussians.is_some() { 0 } else { self.symbols }
    }
}

/// [`Lists`] on a device.
struct OnDevice<D: Device> {
    order: D::Buffer<u32>,
    chunk: D::Buffer<u32>,
    list: D::Buffer<u32>,
    chunks: u32,
    count: u32,
}

/// Memory that is used again.
struct Work<T: Precise, D: Device> {
    forward_carry: Scratch<T, D>,
    backward_carry: Scratch<T, D>,
    checkpoints: Vec<Scratch<T, D>>,
    alpha: Scratch<T, D>,
    gamma: Scratch<T, D>,
    pairs: Scratch<T, D>,
    exponents: Scratch<i32, D>,
    likelihoods: Scratch<f64, D>,
    again: Scratch<f64, D>,
    parts: Scratch<f64, D>,
    moment_parts: Scratch<f64, D>,
    moments: Scratch<f64, D>,
    sums: Scratch<f64, D>,
    chunks: Scratch<f64, D>,
    listed: Scratch<f64, D>,
    pointers: Scratch<u32, D>,
    path: Scratch<u32, D>,
    scores: Scratch<f64, D>,
    /// Of pieces: operators, what their rows are scaled by, what they begin with and what is behind them; of sequences, likelihoods.
    operators: Scratch<f64, D>,
    scales: Scratch<f64, D>,
    starts: Scratch<T, D>,
    behind: Scratch<T, D>,
    totals: Scratch<f64, D>,
    /// Of pieces: maps of states, and states between them.
    lasts: Scratch<u32, D>,
    firsts: Scratch<u32, D>,
    bounds: Scratch<u32, D>,
}

impl<T: Precise, D: Device> Work<T, D> {
    fn new(device: &D) -> Result<Self, D::Error> {
        Ok(Self {
            forward_carry: Scratch::new(device)?,
            backward_carry: Scratch::new(device)?,
            checkpoints: Vec::new(),
            alpha: Scratch::new(device)?,
            gamma: Scratch::new(device)?,
            pairs: Scratch::new(device)?,
            exponents: Scratch::new(device)?,
            likelihoods: Scratch::new(device)?,
            again: Scratch::new(device)?,
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
        })
    }
}

/// Calls a kernel with the constants that a value stands for.
macro_rules! instance {
    ($value:expr; $($pattern:pat => $kernel:ident::<$($constant:tt),*>),*; $arguments:tt) => {
        match $value {
            $($pattern => instance!(@ $kernel::<$($constant),*> $arguments),)*
            _ => unreachable!("a stride that no kernel has"),
        }
    };
    (@ $kernel:ident::<$($constant:tt),*> ($($argument:expr),*)) => {
        $kernel::<T, $($constant,)* D>($($argument),*)
    };
}

/// What all launches are told.
struct Launch<'a, T: Precise, D: Device> {
    device: &'a D,
    way: Way,
    count: u32,
    states: u32,
    stride: usize,
    sequences: u32,
    symbols: u32,
    rows: u32,
    plain: u32,
    lengths: &'a D::Buffer<u32>,
    base: &'a D::Buffer<u32>,
    symbol: &'a D::Buffer<u32>,
    models: &'a Models<T, D>,
    packing: &'a Packing,
    pieces: Option<&'a Pieces<D>>,
}

impl<T: Precise, D: Device> Launch<'_, T, D> {
    /// A grid of `x` blocks for each model.
    fn shape(&self, x: u32, threads: u32) -> Shape {
        Shape::new(Dim3 { x, y: self.count, z: 1 }, threads)
    }

    /// Sequences of all models.
    fn cells(&self) -> usize {
        self.count as usize * self.sequences as usize
    }

    fn groups(&self) -> u32 {
        self.sequences.div_ceil(8)
    }

    /// α̂ of a window; stored, where `store`; with a π of its own for each sequence, where there are `starts`.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep works on")]
    fn forward(
        &self,
        steps: &Range<u32>,
        window: u32,
        store: bool,
        starts: Option<&D::Buffer<T>>,
        carry: &mut D::Buffer<T>,
        alpha: &mut D::Buffer<T>,
        exponents: &mut D::Buffer<i32>,
        likelihoods: &mut D::Buffer<f64>,
    ) -> Result<(), D::Error> {
        let Self { device, sequences, symbols, rows, lengths, base, symbol, models, .. } = self;
        let Models { start, transitions, table, end, .. } = models;
        let own = u32::from(starts.is_some());
        let start = starts.unwrap_or(start);
        let (way, shape) = match self.way {
            Way::Warp { tiles } => (tiles, self.shape(self.groups(), 32)),
            Way::Block { per } => (per, self.shape(*sequences, 16 * per as u32)),
            Way::Step => {
                return self.forward_steps(steps, window, store, carry, alpha, exponents, likelihoods);
            }
        };
        // SAFETY: the packing is of valid sequences, tables have the kernel's stride, and the window's rows have room.
        unsafe {
            instance!((way, store);
                (1, false) => forward_warp::<1, false>, (1, true) => forward_warp::<1, true>,
                (2, false) => forward_warp::<2, false>, (2, true) => forward_warp::<2, true>,
                (4, false) => forward_warp::<4, false>, (4, true) => forward_warp::<4, true>,
                (16, false) => forward_block::<16, false>, (16, true) => forward_block::<16, true>,
                (32, false) => forward_block::<32, false>, (32, true) => forward_block::<32, true>;
                (*device, shape, *sequences, *symbols, steps.start, steps.end, window, *rows, own, lengths, base, symbol, start,
                 transitions, table, end, carry, alpha, exponents, likelihoods))
        }
    }

    /// The grid of a step of `live` sequences.
    fn tiles(&self, live: u32) -> Shape {
        let tiles = live.div_ceil(step::ROWS) * (self.stride as u32 / step::COLUMNS);
        self.shape(tiles, step::THREADS).with_shared(step::step_shared(T::WIDE))
    }

    /// Sequences that have step `t`.
    fn live(&self, t: u32) -> u32 {
        let base = &self.packing.base;
        if t as usize + 1 < base.len() { base[t as usize + 1] - base[t as usize] } else { 0 }
    }

    /// [`forward`](Self::forward), a launch for each step. The last M rows of `alpha` hold what was carried here; where nothing is stored,
    /// steps take turns in the first 2·M.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep works on")]
    fn forward_steps(
        &self,
        steps: &Range<u32>,
        window: u32,
        store: bool,
        carry: &mut D::Buffer<T>,
        alpha: &mut D::Buffer<T>,
        exponents: &mut D::Buffer<i32>,
        likelihoods: &mut D::Buffer<f64>,
    ) -> Result<(), D::Error> {
        let Self { device, sequences, symbols, rows, base, symbol, models, .. } = *self;
        let Models { start, transitions, table, end, .. } = models;
        let stride = self.stride as u32;
        let origin = self.packing.base[steps.start as usize];
        let place = |t: u32| if store { self.packing.base[t as usize] - origin } else { t % 2 * sequences };
        let carried = window - sequences;
        // SAFETY: the packing is of valid sequences, tables have the kernels' stride, and the window's rows have room.
        unsafe {
            if steps.start > 0 {
                let shape = self.shape(self.live(steps.start - 1), THREADS);
                place_rows(device, shape, stride, 0, sequences, carried, window, carry, alpha)?;
            }
            for t in steps.clone() {
                let (live, now) = (self.live(t), place(t));
                if t == 0 {
                    let shape = self.shape(live, 32);
                    forward_start(
                        device, shape, stride, symbols, now, window, rows, symbol, start, table, alpha, exponents,
                    )?;
                } else {
                    let before = if t == steps.start { carried } else { place(t - 1) };
                    forward_step(
                        device,
                        self.tiles(live),
                        self.packing.base[t as usize],
                        live,
                        stride,
                        symbols,
                        before,
                        now,
                        window,
                        rows,
                        self.plain,
                        symbol,
                        transitions,
                        table,
                        alpha,
                        exponents,
                    )?;
                }
                let on = self.live(t + 1);
                if on < live {
                    let shape = self.shape(live - on, 32);
                    forward_end(
                        device,
                        shape,
                        t,
                        stride,
                        sequences,
                        on,
                        now,
                        window,
                        rows,
                        base,
                        end,
                        alpha,
                        exponents,
                        likelihoods,
                    )?;
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

    /// [`backward`](Self::backward), a launch for each step. The last M rows of `pairs` hold what is carried on.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep works on")]
    fn backward_steps(
        &self,
        window: &Window,
        capacity: u32,
        likelihoods: &D::Buffer<f64>,
        exponents: &D::Buffer<i32>,
        alpha: &D::Buffer<T>,
        carry: &mut D::Buffer<T>,
        gamma: &mut D::Buffer<T>,
        pairs: &mut D::Buffer<T>,
    ) -> Result<(), D::Error> {
        let Self { device, sequences, symbols, rows, symbol, models, .. } = *self;
        let Models { transposed, table, end, .. } = models;
        let (stride, carried) = (self.stride as u32, capacity - sequences);
        let (from, until) = (window.steps.start, window.steps.end);
        let place = |t: u32| self.packing.base[t as usize] - window.rows.start;
        let last = self.packing.steps().end - 1;
        // SAFETY: as in `forward_steps`.
        unsafe {
            if until <= last {
                let shape = self.shape(self.live(until), THREADS);
                place_rows(device, shape, stride, 0, sequences, place(until - 1), capacity, carry, pairs)?;
            }
            for t in (from..until).rev() {
                let (live, now) = (self.live(t), if t == from { carried } else { place(t - 1) });
                backward_step(
                    device,
                    self.tiles(live),
                    self.packing.base[t as usize],
                    live,
                    self.live(t + 1),
                    stride,
                    sequences,
                    symbols,
                    place(t),
                    now,
                    place(t),
                    capacity,
                    rows,
                    self.plain,
                    symbol,
                    transposed,
                    table,
                    end,
                    likelihoods,
                    alpha,
                    exponents,
                    gamma,
                    pairs,
                )?;
            }
            if from > 0 {
                let shape = self.shape(self.live(from), THREADS);
                place_rows(device, shape, stride, carried, capacity, 0, sequences, pairs, carry)?;
            }
        }
        Ok(())
    }

    /// ûₜ and γₜ of a window, or parts of the counts.
    #[expect(clippy::too_many_arguments, reason = "all that a sweep works on")]
    fn backward(
        &self,
        window: &Window,
        capacity: u32,
        wanted: Wanted,
        more: bool,
        likelihoods: &D::Buffer<f64>,
        exponents: &D::Buffer<i32>,
        alpha: &D::Buffer<T>,
        carry: &mut D::Buffer<T>,
        gamma: &mut D::Buffer<T>,
        pairs: &mut D::Buffer<T>,
        parts: &mut D::Buffer<f64>,
    ) -> Result<(), D::Error> {
        let Self { device, sequences, symbols, rows, lengths, base, symbol, models, .. } = self;
        let Models { transitions, table, end, .. } = models;
        let (from, until) = (window.steps.start, window.steps.end);
        // SAFETY: as in `forward`, which has stored the same window; and parts have room for the blocks of the grid.
        unsafe {
            match self.way {
                Way::Warp { tiles } => {
                    let slots = wanted.slots;
                    let shared = warp_shared(tiles, size_of::<T>(), slots as usize) as u32;
                    let shape = self.shape(self.groups().min(PARTS), 32).with_shared(shared);
                    instance!((tiles, wanted.want);
                        (1, 0) => backward_warp::<1, 0>, (1, 1) => backward_warp::<1, 1>, (1, 2) => backward_warp::<1, 2>,
                        (2, 0) => backward_warp::<2, 0>, (2, 1) => backward_warp::<2, 1>, (2, 2) => backward_warp::<2, 2>,
                        (4, 0) => backward_warp::<4, 0>, (4, 1) => backward_warp::<4, 1>, (4, 2) => backward_warp::<4, 2>;
                        (*device, shape, *sequences, *symbols, slots, from, until, capacity, *rows, u32::from(more), lengths,
                         base, symbol, transitions, table, end, likelihoods, alpha, exponents, carry, gamma, parts))
                }
                Way::Block { per } => {
                    let shape = self.shape(*sequences, 16 * per as u32);
                    let with_pairs = wanted.want != want::POSTERIORS;
                    instance!((per, with_pairs);
                        (16, false) => backward_block::<16, false>, (16, true) => backward_block::<16, true>,
                        (32, false) => backward_block::<32, false>, (32, true) => backward_block::<32, true>;
                        (*device, shape, *sequences, *symbols, from, until, capacity, *rows, lengths, base, symbol,
                         transitions, table, end, likelihoods, alpha, exponents, carry, gamma, pairs))
                }
                Way::Step => self.backward_steps(window, capacity, likelihoods, exponents, alpha, carry, gamma, pairs),
            }
        }
    }

    /// Σ over the rows of a window: ξ in parts from `pairs`, where they are not counted yet, and γ in lists.
    #[expect(clippy::too_many_arguments, reason = "all that sums are made of")]
    fn count(
        &self,
        window: &Window,
        capacity: u32,
        splits: u32,
        more: bool,
        lists: &OnDevice<D>,
        alpha: &D::Buffer<T>,
        gamma: &D::Buffer<T>,
        pairs: Option<&D::Buffer<T>>,
        parts: &mut D::Buffer<f64>,
        chunks: &mut D::Buffer<f64>,
        listed: &mut D::Buffer<f64>,
    ) -> Result<(), D::Error> {
        let (device, stride, more) = (self.device, self.stride as u32, u32::from(more));
        let threads = stride.next_multiple_of(32).min(512);
        let list_count = lists.count;
        // SAFETY: lists name rows of this window, and sums have room for all lists and parts.
        unsafe {
            if let Some(pairs) = pairs {
                let (rows, tiles) = (window.rows.len() as u32, stride / TILE as u32);
                let split = capacity.div_ceil(splits).next_multiple_of(16);
                let grid = Dim3 { x: tiles * tiles, y: self.count, z: splits };
                let shape = Shape::new(grid, PRODUCT_THREADS).with_shared(product_shared(T::WIDE));
                pair_product(device, shape, stride, rows, capacity, split, more, alpha, pairs, parts)?;
            }
            if lists.chunks > 0 {
                let shape = self.shape(lists.chunks, threads);
                sum_rows(device, shape, stride, capacity, &lists.chunk, &lists.order, gamma, chunks)?;
            }
            sum_chunks(device, self.shape(list_count, threads), stride, lists.chunks, more, &lists.list, chunks, listed)
        }
    }

    /// Paths and scores.
    fn decode(
        &self,
        logs: &Models<T, D>,
        delta: &mut D::Buffer<T>,
        pointers: &mut D::Buffer<u32>,
        path: &mut D::Buffer<u32>,
        scores: &mut D::Buffer<f64>,
    ) -> Result<(), D::Error> {
        let Self { device, sequences, symbols, rows, lengths, base, symbol, .. } = self;
        let Models { start, transitions, transposed, table, end } = logs;
        // SAFETY: as in `forward`; δ and paths have room for all rows.
        unsafe {
            match self.way {
                Way::Warp { .. } => {
                    let together = 32 / viterbi::lanes_of(self.stride) as u32;
                    let shared = viterbi::warp_shared(self.stride, size_of::<T>()) as u32;
                    let shape = self.shape(sequences.div_ceil(together), 32).with_shared(shared);
                    return instance!(self.stride;
                        8 => viterbi_warp::<8>, 16 => viterbi_warp::<16>, 32 => viterbi_warp::<32>;
                        (*device, shape, *sequences, *symbols, *rows, lengths, base, symbol, start, transitions, table, end,
                         pointers, path, scores));
                }
                Way::Block { per } => {
                    let shape = self.shape(*sequences, 16 * per as u32);
                    instance!(per;
                        16 => viterbi_block::<16>, 32 => viterbi_block::<32>;
                        (*device, shape, *symbols, *rows, lengths, base, symbol, start, transitions, table, delta))?;
                }
                Way::Step => {
                    let stride = self.stride as u32;
                    for t in self.packing.steps() {
                        let (live, first) = (self.live(t), self.packing.base[t as usize]);
                        viterbi_step(
                            *device,
                            self.tiles(live),
                            first,
                            live,
                            self.packing.base[t.saturating_sub(1) as usize],
                            stride,
                            *symbols,
                            *rows,
                            symbol,
                            start,
                            transitions,
                            table,
                            delta,
                        )?;
                        if t % PERIOD == PERIOD - 1 {
                            level_rows(*device, self.shape(live, 32), stride, first, *rows, delta)?;
                        }
                    }
                }
            }
            let (shape, stride) = (self.shape(*sequences, 32), self.stride as u32);
            instance!(usize::from(self.stride > 128); 0 => trace::<1>, 1 => trace::<4>;
                (*device, shape, *sequences, stride, *symbols, *rows, 0, lengths, base, symbol, start, transposed, table, end,
                 delta, path, scores))
        }
    }

    /// Operators of all pieces, and what each begins with; and likelihoods of sequences.
    fn piece_starts(&self, pieces: &Pieces<D>, work: &mut Work<T, D>) -> Result<(), D::Error> {
        let Self { device, count, states, stride, sequences, symbols, lengths, base, symbol, models, .. } = *self;
        let Models { start, transitions, table, end, .. } = models;
        let Work { operators, scales, starts, totals, .. } = work;
        let cells = self.cells() * stride;
        let (operators, scales) = (operators.of(device, cells * stride)?, scales.of(device, cells)?);
        let starts = starts.of(device, cells)?;
        let of_sequences = pieces.sequences();
        let totals = totals.of(device, 2 * count as usize * of_sequences)?;
        let (chain, link) = (&pieces.on_device.chain, &pieces.on_device.link);
        let tiles = stride / 8;
        let blocks = (sequences * states.div_ceil(8)).div_ceil(scan::GROUPS);
        let shape = self.shape(blocks, scan::THREADS).with_shared(operators_shared(tiles));
        // SAFETY: the packing is of valid pieces, tables have the kernels' stride, and there is room for all pieces.
        unsafe {
            instance!(tiles;
                1 => piece_operators::<1>, 2 => piece_operators::<2>, 4 => piece_operators::<4>, 8 => piece_operators::<8>;
                (device, shape, sequences, states, symbols, pieces.steps, lengths, base, symbol, transitions, table,
                 operators, scales))?;
            let shape = self.shape(of_sequences as u32, 4 * stride as u32);
            instance!(stride;
                8 => piece_starts::<8>, 16 => piece_starts::<16>, 32 => piece_starts::<32>, 64 => piece_starts::<64>;
                (device, shape, sequences, states, chain, link, start, end, operators, scales, starts, totals))
        }
    }

    /// What is behind each piece, once [`piece_starts`](Self::piece_starts) has made the operators.
    fn piece_ends(&self, pieces: &Pieces<D>, work: &mut Work<T, D>) -> Result<(), D::Error> {
        let Self { device, states, stride, sequences, models, .. } = *self;
        let Work { operators, scales, starts, behind, .. } = work;
        let behind = behind.of(device, self.cells() * stride)?;
        let (operators, scales, starts) = (operators.get(), scales.get(), starts.get());
        let (chain, link, end) = (&pieces.on_device.chain, &pieces.on_device.link, &models.end);
        let shape = self.shape(pieces.sequences() as u32, 4 * stride as u32);
        // SAFETY: as in `piece_starts`.
        unsafe {
            instance!(stride;
                8 => piece_ends::<8>, 16 => piece_ends::<16>, 32 => piece_ends::<32>, 64 => piece_ends::<64>;
                (device, shape, sequences, states, chain, link, end, operators, scales, starts, behind))
        }
    }

    /// Paths and scores of all pieces.
    fn decode_pieces(&self, pieces: &Pieces<D>, logs: &Models<T, D>, work: &mut Work<T, D>) -> Result<(), D::Error> {
        let Self { device, count, states, stride, sequences, symbols, rows, lengths, base, symbol, .. } = *self;
        let Models { start, transitions, transposed, table, end } = logs;
        let Work { operators, scales, starts, behind, alpha, path, scores, lasts, firsts, bounds, .. } = work;
        let (cells, all) = (self.cells(), count as usize * rows as usize);
        let (operators, scales) = (operators.of(device, cells * stride * stride)?, scales.of(device, cells * stride)?);
        let (starts, ends) = (starts.of(device, cells * stride)?, behind.of(device, cells * stride)?);
        let (lasts, firsts) = (lasts.of(device, cells * stride)?, firsts.of(device, cells * stride)?);
        let (bounds, scores) = (bounds.of(device, 2 * cells)?, scores.of(device, cells)?);
        let (delta, path) = (alpha.of(device, all * stride)?, path.of(device, all)?);
        let (chain, link, own_lengths) = (&pieces.on_device.chain, &pieces.on_device.link, &pieces.on_device.lengths);
        let (of_sequences, until, width) = (pieces.sequences() as u32, pieces.steps, stride as u32);
        // SAFETY: as in `piece_starts`; δ and paths have room for all rows.
        unsafe {
            if pieces.open > 0 {
                let shape = self.shape(pieces.open, 4 * width).with_shared(maxima_shared(stride, size_of::<T>()));
                instance!(stride;
                    8 => piece_maxima::<8>, 16 => piece_maxima::<16>, 32 => piece_maxima::<32>, 64 => piece_maxima::<64>;
                    (device, shape, sequences, states, symbols, until, base, symbol, transitions, table, operators, scales))?;
            }
            let shape = self.shape(of_sequences, 4 * width);
            instance!(stride;
                8 => piece_scores::<8>, 16 => piece_scores::<16>, 32 => piece_scores::<32>, 64 => piece_scores::<64>;
                (device, shape, sequences, states, chain, link, start, operators, scales, starts))?;
            let threads = width.max(32);
            let shape = self.shape(sequences.div_ceil(threads / width), threads);
            instance!(stride;
                8 => piece_paths::<8>, 16 => piece_paths::<16>, 32 => piece_paths::<32>, 64 => piece_paths::<64>;
                (device, shape, sequences, symbols, until, rows, lengths, base, symbol, transitions, table, end, starts,
                 delta, lasts, firsts))?;
            let shape = self.shape(of_sequences, 32);
            link_pieces(device, shape, sequences, width, chain, link, lasts, firsts, bounds)?;
            let shape = self.shape(sequences, 32);
            pin_pieces(device, shape, width, until, lengths, bounds, start, transitions, end, starts, ends)?;
            trace::<T, 1, D>(
                device,
                shape,
                sequences,
                width,
                symbols,
                rows,
                1,
                own_lengths,
                base,
                symbol,
                starts,
                transposed,
                table,
                ends,
                delta,
                path,
                scores,
            )
        }
    }
}

/// What a backward kernel is asked for.
#[derive(Clone, Copy)]
struct Wanted {
    /// As in [`want`].
    want: u32,
    /// Symbols that it counts.
    slots: u32,
}

impl<'d, T: Precise, D: Device> Batch<'d, T, D> {
    /// Uploads valid sequences.
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// Where there are 2³² observations or more.
    pub fn new(device: &'d D, sequences: &Sequences, limits: Limits) -> Result<Self, D::Error> {
        let (pieces, packing, lengths) = match limits.pieces {
            Some(steps) => {
                let (pieces, packing, lengths) = Pieces::new(device, sequences, steps)?;
                (Some(pieces), packing, lengths)
            }
            None => {
                let packing = Packing::new(sequences);
                let lengths = packing.lengths.clone();
                (None, packing, lengths)
            }
        };
        let mut symbol = packing.symbols(sequences);
        // Pieces that are told to be longer than they are look one step ahead.
        symbol.resize(symbol.len() + pieces.as_ref().map_or(0, |_| packing.lengths.len()), 0);
        Ok(Self {
            device,
            limits,
            lengths: device.upload(&lengths)?,
            base: device.upload(&packing.base)?,
            symbols: device.upload(&symbol)?,
            vectors: device.upload(&vectors(&packing, sequences))?,
            packing,
            pieces,
            symbol,
            set: None,
            work: Work::new(device)?,
            lists: Vec::new(),
            listed: None,
        })
    }

    /// What launches are told, and the memory that they work in; `None` before models are set.
    #[expect(clippy::type_complexity, reason = "parts of one thing, which have no other name")]
    fn parts(&mut self) -> Option<(Launch<'_, T, D>, &mut Work<T, D>, &Set<T, D>, &[OnDevice<D>])> {
        let Self { device, limits, packing, pieces, lengths, base, symbols, set, work, lists, .. } = self;
        let set = set.as_ref()?;
        let launch = Launch {
            device: *device,
            way: set.way,
            count: set.hosts.len() as u32,
            states: set.states,
            stride: set.stride,
            sequences: packing.sequences(),
            symbols: set.symbols,
            rows: packing.rows(),
            plain: u32::from(limits.plain_tf32),
            lengths,
            base,
            symbol: symbols,
            models: &set.models,
            packing,
            pieces: pieces.as_ref(),
        };
        Some((launch, work, set, lists))
    }

    /// Launches the forward recursion: likelihoods stay on the device. Nothing where no models are set.
    ///
    /// # Errors
    /// Those of the device.
    pub fn score(&mut self) -> Result<(), D::Error> {
        let (device, steps) = (self.device, self.packing.steps());
        let Some((launch, work, ..)) = self.parts() else { return Ok(()) };
        if let Some(pieces) = launch.pieces {
            return launch.piece_starts(pieces, work);
        }
        let cells = launch.cells();
        let Work { forward_carry, alpha, exponents, likelihoods, .. } = work;
        let carry = forward_carry.of(device, cells * launch.stride)?;
        let likelihoods = likelihoods.of(device, 2 * cells)?;
        let rows = launch.count as usize * launch.rows as usize;
        if launch.way == Way::Step {
            exponents.of(device, rows)?;
            alpha.of(device, 3 * cells * launch.stride)?;
        }
        let (exponents, window) = (exponents.get_mut(), 3 * launch.sequences);
        launch.forward(&steps, window, false, None, carry, alpha.get_mut(), exponents, likelihoods)
    }

    /// Launches Viterbi's recursion: paths and scores stay on the device. Nothing where no models are set.
    ///
    /// # Errors
    /// Those of the device.
    pub fn decode(&mut self) -> Result<(), D::Error> {
        let device = self.device;
        if let Some(set) = self.set.as_mut().filter(|set| set.logs.is_none()) {
            let mut logs = Models::upload(device, &set.hosts, set.stride, f64::NEG_INFINITY, f64::ln)?;
            if let Some(table) = set.log_table.take() {
                logs.table = table;
            }
            set.logs = Some(logs);
        }
        let Some((launch, work, set, _)) = self.parts() else { return Ok(()) };
        let Some(logs) = &set.logs else { return Ok(()) };
        if let Some(pieces) = launch.pieces {
            return launch.decode_pieces(pieces, logs, work);
        }
        let rows = launch.count as usize * launch.rows as usize;
        let Work { alpha, pointers, path, scores, .. } = work;
        if let Way::Warp { .. } = launch.way {
            pointers.of(device, rows * viterbi::lanes_of(launch.stride))?;
        } else {
            alpha.of(device, rows * launch.stride)?;
        }
        let (path, scores) = (path.of(device, rows)?, scores.of(device, launch.cells())?);
        launch.decode(logs, alpha.get_mut(), pointers.get_mut(), path, scores)
    }

    /// What the backward recursion has to be asked for expected counts.
    fn counting(&self) -> Wanted {
        let Some(set) = &self.set else { return Wanted { want: want::COUNTS, slots: 0 } };
        let fits = |tiles| warp_shared(tiles, size_of::<T>(), set.symbols as usize) <= CELLS;
        match set.way {
            Way::Warp { tiles } if set.gaussians.is_none() && self.pieces.is_none() && fits(tiles) => {
                Wanted { want: want::COUNTS, slots: set.symbols }
            }
            _ => Wanted { want: want::BOTH, slots: 0 },
        }
    }

    /// Windows for which forward and backward variables fit within the limits, and rows to have room for.
    fn windows(&self, wanted: Wanted) -> (Vec<Window>, u32) {
        let Some(set) = &self.set else { return (Vec::new(), 0) };
        let arrays = match (set.way, wanted.want) {
            (Way::Warp { .. }, want::COUNTS) => 1,
            (Way::Warp { .. }, _) | (Way::Block { .. }, want::POSTERIORS) => 2,
            _ => 3,
        };
        let row = arrays * set.hosts.len() * set.stride * size_of::<T>();
        let windows = self.packing.windows(u32::try_from(self.limits.trellis / row).unwrap_or(u32::MAX));
        let rows = windows.iter().map(|window| window.rows.len() as u32).max().unwrap_or(0);
        let sequences = self.packing.sequences();
        let capacity = if set.way == Way::Step { rows.max(2 * sequences) + sequences } else { rows };
        (windows, capacity)
    }

    /// The forward and the backward recursion, window by window from the last one on; `done` is told of each.
    fn sweep(
        &mut self,
        wanted: Wanted,
        windows: &[Window],
        capacity: u32,
        mut done: impl FnMut(&Launch<'_, T, D>, &mut Work<T, D>, usize) -> Result<(), D::Error>,
    ) -> Result<(), D::Error> {
        let device = self.device;
        let Some((launch, work, ..)) = self.parts() else { return Ok(()) };
        let (cells, stride) = (launch.cells(), launch.stride);
        let elements = launch.count as usize * capacity as usize * stride;
        let last = windows.len() - 1;
        while work.checkpoints.len() < last {
            work.checkpoints.push(Scratch::new(device)?);
        }
        if let Some(pieces) = launch.pieces {
            launch.piece_starts(pieces, work)?;
            launch.piece_ends(pieces, work)?;
        }
        {
            let Work { forward_carry, checkpoints, alpha, exponents, likelihoods, again, starts, .. } = work;
            let starts = launch.pieces.map(|_| starts.get());
            let rows = launch.count as usize * launch.rows as usize;
            let carry = forward_carry.of(device, cells * stride)?;
            let alpha = alpha.of(device, elements)?;
            // With one step more, which pieces look ahead to.
            let exponents = exponents.of(device, rows + launch.sequences as usize)?;
            let likelihoods = likelihoods.of(device, 2 * cells)?;
            again.of(device, 2 * cells)?;
            for (w, window) in windows.iter().enumerate() {
                if w > 0 {
                    copy_all(device, cells * stride, carry, checkpoints[w - 1].of(device, cells * stride)?)?;
                }
                launch.forward(&window.steps, capacity, w == last, starts, carry, alpha, exponents, likelihoods)?;
            }
        }
        let carry = work.backward_carry.of(device, cells * stride)?;
        if let Some(open) = launch.pieces.map(|pieces| pieces.open).filter(|&open| open > 0) {
            let (transitions, behind, ends) = (&launch.models.transitions, work.behind.get(), work.forward_carry.get());
            let (shape, stride) = (launch.shape(open, 32), stride as u32);
            // SAFETY: the forward recursion has left α̂ of the last step of each piece that another one follows.
            unsafe { join_pieces(device, shape, launch.sequences, stride, transitions, behind, ends, carry)? };
        }
        if wanted.want != want::COUNTS {
            work.gamma.of(device, elements)?;
        }
        if launch.way == Way::Step || wanted.want == want::BOTH && matches!(launch.way, Way::Block { .. }) {
            work.pairs.of(device, elements)?;
        }
        for (w, window) in windows.iter().enumerate().rev() {
            let Work { forward_carry, backward_carry, checkpoints, alpha, gamma, pairs, exponents, .. } = work;
            if w < last {
                let carry = forward_carry.get_mut();
                if w > 0 {
                    copy_all(device, cells * stride, checkpoints[w - 1].get(), carry)?;
                }
                let alpha = alpha.get_mut();
                let (exponents, again) = (exponents.get_mut(), work.again.get_mut());
                let starts = launch.pieces.map(|_| work.starts.get());
                launch.forward(&window.steps, capacity, true, starts, carry, alpha, exponents, again)?;
            }
            launch.backward(
                window,
                capacity,
                wanted,
                w < last,
                work.likelihoods.get(),
                exponents.get(),
                alpha.get(),
                backward_carry.get_mut(),
                gamma.get_mut(),
                pairs.get_mut(),
                work.parts.get_mut(),
            )?;
            done(&launch, work, w)?;
        }
        Ok(())
    }

    /// Lists of the rows of each window, made once.
    fn prepare_lists(&mut self, windows: &[Window], symbols: u32) -> Result<(), D::Error> {
        let key = (windows.len(), symbols);
        if self.listed != Some(key) {
            self.lists.clear();
            for window in windows {
                let lists = Lists::new(&self.packing, window, &self.symbol, symbols);
                self.lists.push(OnDevice {
                    order: self.device.upload(&lists.order)?,
                    chunk: self.device.upload(&lists.chunk)?,
                    list: self.device.upload(&lists.list)?,
                    chunks: lists.chunk.len() as u32 - 1,
                    count: lists.list.len() as u32 - 1,
                });
            }
            self.listed = Some(key);
        }
        Ok(())
    }

    /// Launches forward and backward recursion and the sums: expected counts stay on the device. Nothing where no models are set.
    ///
    /// # Errors
    /// Those of the device.
    pub fn count(&mut self) -> Result<(), D::Error> {
        let (device, wanted) = (self.device, self.counting());
        let (windows, capacity) = self.windows(wanted);
        let Some(set) = &self.set else { return Ok(()) };
        let (count, stride, in_warps) = (set.hosts.len(), set.stride, matches!(set.way, Way::Warp { .. }));
        let symbols = set.counted();
        let tiles = (stride / TILE).pow(2).max(1) as u32;
        let splits = (PRODUCT_BLOCKS / tiles).clamp(1, capacity.div_ceil(64));
        let (pieces, len) = if in_warps {
            (self.packing.sequences().div_ceil(8).min(PARTS), counts_len(stride, wanted.slots as usize))
        } else {
            (splits, stride * stride)
        };
        let in_lists = wanted.want == want::BOTH;
        if in_lists {
            self.prepare_lists(&windows, symbols)?;
        }
        let lists = std::mem::take(&mut self.lists);
        let gaussians = self.set.as_mut().and_then(|set| set.gaussians.take());
        let x = std::mem::replace(&mut self.vectors, device.zeros(0)?);
        let moment_splits = capacity.div_ceil(64).min(MOMENT_PARTS);
        let moments_len = gaussians.as_ref().map_or(0, |gaussians| gaussians.moments_len() * stride);
        self.work.moment_parts.of(device, count * moment_splits as usize * moments_len)?;
        self.work.moments.of(device, count * moments_len)?;
        self.work.parts.of(device, count * pieces as usize * len)?;
        self.work.sums.of(device, count * len)?;
        let last = windows.len() - 1;
        let swept = self.sweep(wanted, &windows, capacity, |launch, work, w| {
            if !in_lists {
                return Ok(());
            }
            let Work { alpha, gamma, pairs, parts, chunks, listed, .. } = work;
            let chunks = chunks.of(device, count * lists[w].chunks as usize * stride)?;
            let listed = listed.of(device, count * lists[w].count as usize * stride)?;
            let pairs = (!in_warps).then(|| pairs.get());
            let (alpha, gamma, more) = (alpha.get(), gamma.get(), w < last);
            let (window, lists) = (&windows[w], &lists[w]);
            if let Some(gaussians) = &gaussians {
                let parts = work.moment_parts.get_mut();
                gaussians.count(
                    device,
                    count as u32,
                    stride,
                    window,
                    capacity,
                    moment_splits,
                    more,
                    &x,
                    gamma,
                    parts,
                )?;
            }
            launch.count(window, capacity, splits, more, lists, alpha, gamma, pairs, parts.get_mut(), chunks, listed)
        });
        (self.lists, self.vectors) = (lists, x);
        if let Some(set) = &mut self.set {
            set.gaussians = gaussians;
        }
        swept?;
        let shape = |len: usize, parts: u32| {
            Shape::new(Dim3 { x: len.div_ceil(32) as u32, y: count as u32, z: 1 }, sum_threads(parts))
        };
        let Work { parts, sums, moment_parts, moments, .. } = &mut self.work;
        // SAFETY: there are as many parts as blocks have written.
        unsafe {
            if moments_len > 0 {
                let shape = shape(moments_len, moment_splits);
                sum_parts(device, shape, moments_len as u32, moment_splits, moment_parts.get(), moments.get_mut())?;
            }
            sum_parts(device, shape(len, pieces), len as u32, pieces, parts.get(), sums.get_mut())
        }
    }

    /// ln P(O) by the likelihoods that are on the device.
    fn read_likelihoods(&self) -> Result<Vec<Vec<f64>>, D::Error> {
        let packed = self.packing.lengths.len();
        let count = self.set.as_ref().map_or(0, |set| set.hosts.len());
        let (m, likelihoods) = match &self.pieces {
            Some(pieces) => (pieces.sequences(), &self.work.totals),
            None => (packed, &self.work.likelihoods),
        };
        let mut found = vec![0.0; 2 * m * count];
        self.device.download(likelihoods.get(), &mut found)?;
        let mut shifts = vec![0.0; packed * count];
        if let Some(gaussians) = self.set.as_ref().and_then(|set| set.gaussians.as_ref()) {
            self.device.download(&gaussians.shifts, &mut shifts)?;
        }
        let log = |(pair, shift): (&[f64], f64)| {
            if pair[0] > 0.0 { pair[0].ln() + (pair[1] * std::f64::consts::LN_2 + shift) } else { f64::NEG_INFINITY }
        };
        let of_model = |(pairs, shifts): (&[f64], &[f64])| match &self.pieces {
            Some(pieces) => pairs.chunks_exact(2).zip(pieces.sums(shifts)).map(log).collect(),
            None => {
                let mut logs = vec![0.0; m];
                let found = pairs.chunks_exact(2).zip(shifts.iter().copied()).map(log);
                found.zip(&self.packing.order).for_each(|(log, &at)| logs[at as usize] = log);
                logs
            }
        };
        Ok(found.chunks_exact(2 * m).zip(shifts.chunks_exact(packed)).map(of_model).collect())
    }
}

/// Copies `len` elements, a multiple of 8.
fn copy_all<T: Precise, D: Device>(
    device: &D,
    len: usize,
    from: &D::Buffer<T>,
    to: &mut D::Buffer<T>,
) -> Result<(), D::Error> {
    // SAFETY: both have `len` elements at least.
    unsafe { copy(device, Shape::grid_stride(len as u64 / 4, 256), len as u32 / 4, from, to) }
}

impl<T: Precise, D: Device> Recursions for Batch<'_, T, D> {
    type Error = D::Error;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), D::Error> {
        let states = models.first().map_or(0, Hmm::states);
        assert!(self.pieces.is_none() || states <= scan::STATES, "sequences are cut for models of at most 64 states");
        let way = Way::of(states);
        let stride = way.stride(states);
        // The old models go before the new ones need memory.
        self.set = None;
        let mut set = Set {
            hosts: models.to_vec(),
            way,
            states,
            stride,
            symbols: models.first().map_or(0, symbols) as u32,
            models: Models::upload(self.device, models, stride, 0.0, |x| x)?,
            logs: None,
            gaussians: None,
            log_table: None,
        };
        let Self { device, packing, pieces, lengths, base, vectors, .. } = self;
        let lengths = pieces.as_ref().map_or(&*lengths, |pieces| &pieces.on_device.lengths);
        if let Some((gaussians, tables)) = Gaussians::new(*device, models, stride, packing, lengths, base, vectors)? {
            set.symbols = packing.rows();
            set.models.table = tables.table;
            (set.gaussians, set.log_table) = (Some(gaussians), Some(tables.log_table));
        }
        self.set = Some(set);
        Ok(())
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, D::Error> {
        self.score()?;
        self.read_likelihoods()
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, D::Error> {
        let wanted = Wanted { want: want::POSTERIORS, slots: 0 };
        let (windows, capacity) = self.windows(wanted);
        let Some(set) = &self.set else { return Ok(Vec::new()) };
        let (device, n, stride) = (self.device, set.states as usize, set.stride);
        let mut all = vec![vec![0.0; self.packing.observation.len() * n]; set.hosts.len()];
        let observation = Arc::clone(&self.packing.observation);
        let mut found = vec![T::ZERO; all.len() * capacity as usize * stride];
        let swept = self.sweep(wanted, &windows, capacity, |_, work, w| {
            device.download(work.gamma.get(), &mut found)?;
            for (all, found) in all.iter_mut().zip(found.chunks_exact(capacity as usize * stride)) {
                let rows = &observation[windows[w].rows.start as usize..windows[w].rows.end as usize];
                for (&at, gamma) in rows.iter().zip(found.chunks_exact(stride)) {
                    let row = &mut all[at as usize * n..][..n];
                    row.iter_mut().zip(gamma).for_each(|(to, from)| *to = from.to_f64());
                }
            }
            Ok(())
        });
        swept?;
        Ok(all)
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, D::Error> {
        self.decode()?;
        let Some(set) = &self.set else { return Ok(Vec::new()) };
        let (rows, m) = (self.packing.observation.len(), self.packing.lengths.len());
        let (mut path, mut score) = (vec![0; rows * set.hosts.len()], vec![0.0; m * set.hosts.len()]);
        self.device.download(self.work.path.get(), &mut path)?;
        self.device.download(self.work.scores.get(), &mut score)?;
        let of_model = |(path, score): (&[u32], &[f64])| {
            let mut decoded = Decoded { states: vec![0; rows], scores: vec![0.0; m] };
            for (&state, &at) in path.iter().zip(self.packing.observation.iter()) {
                decoded.states[at as usize] = state;
            }
            match &self.pieces {
                Some(pieces) => decoded.scores = pieces.sums(score),
                None => {
                    let placed = score.iter().zip(&self.packing.order);
                    placed.for_each(|(&score, &at)| decoded.scores[at as usize] = score);
                }
            }
            decoded
        };
        Ok(path.chunks_exact(rows).zip(score.chunks_exact(m)).map(of_model).collect())
    }

    fn expect(&mut self) -> Result<Vec<Expected>, D::Error> {
        self.count()?;
        let log_likelihoods = self.read_likelihoods()?;
        let Some(set) = &self.set else { return Ok(Vec::new()) };
        let (n, stride, wanted) = (set.states as usize, set.stride, self.counting());
        let (count, slots) = (set.hosts.len(), set.counted() as usize);
        let len = match set.way {
            Way::Warp { .. } => counts_len(stride, wanted.slots as usize),
            _ => stride * stride,
        };
        let mut sums = vec![0.0; count * len];
        self.device.download(self.work.sums.get(), &mut sums)?;
        let in_lists = wanted.want == want::BOTH;
        // The lists: one for each symbol, and those of starts and ends.
        let listed_len = (slots + 2) * stride;
        let mut listed = vec![0.0; if in_lists { count * listed_len } else { 0 }];
        self.device.download(self.work.listed.get(), &mut listed)?;
        let moments_len = set.gaussians.as_ref().map_or(0, |gaussians| gaussians.moments_len() * stride);
        let mut moments = vec![0.0; count * moments_len];
        self.device.download(self.work.moments.get(), &mut moments)?;
        let expected = set.hosts.iter().zip(log_likelihoods).enumerate().map(|(k, (model, log_likelihoods))| {
            let sums = &sums[k * len..][..len];
            let row = |place: usize| match in_lists {
                true => &listed[k * listed_len + place * stride..][..n],
                // Starts and ends come before symbols here.
                false => &sums[(stride + (place + 2) % (slots + 2)) * stride..][..n],
            };
            let xi = (0..n * n).map(|at| sums[at / n * stride + at % n] * T::from_f64(model.transitions[at]).to_f64());
            let by_symbol = (0..n * slots).map(|at| row(at % slots)[at / slots]);
            Expected {
                log_likelihoods,
                start: row(slots).to_vec(),
                transitions: xi.collect(),
                end: row(slots + 1).to_vec(),
                emissions: match &set.gaussians {
                    Some(gaussians) => gaussians.statistics(&moments[k * moments_len..], n, stride),
                    None => Statistics::Categorical(by_symbol.collect()),
                },
            }
        });
        Ok(expected.collect())
    }
}
