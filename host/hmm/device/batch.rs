//! The device implementation of [`Recursions`] over a batch of sequences.
//!
//! The file is one piece: [`Batch`] owns all device memory, and the order of its launches is the subject of every
//! function.

use std::sync::Arc;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use rayon::prelude::*;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::hmm::backward::{counts_len, want, warp_shared};
use warpkov_kernels::hmm::counts::{TILE, sum_parts, sum_threads};
use warpkov_kernels::hmm::maximise::{
    CountedArgs, EMISSION_THREADS, TablesArgs, maximise_emissions, maximise_transitions,
};
use warpkov_kernels::hmm::scan::{self, sums::join_chunks};
use warpkov_kernels::hmm::{entry, power};
use warpkov_kernels::primitives::copy::copy;

use crate::backend::{Decoded, Expected, Recursions, Statistics, fit};
use crate::cpu::Exact;
use crate::device::chunks::Chunks;
use crate::device::gaussian::{Gaussians, Partial, partial, vectors};
use crate::device::launch::{Launch, OnDevice, PARTS, Wanted, Work};
use crate::device::model::{KernelVariant, Models, raised, symbols};
use crate::device::packing::{Lists, Packing, Window};
use crate::device::wide::{self, Asked, Doubtful, Recomputation};
use crate::maximise::{Spread, maximise};
use crate::model::Hmm;
use crate::options::Options;
use crate::sequences::Sequences;
use warpkov_runtime::Precise;
use warpkov_runtime::scratch::Scratch;

/// Maximum number of partial sums of moments.
const MOMENT_PARTS: u32 = 64;

/// Approximate number of blocks of the product Σ α̂ᵀ û over all rows.
const PRODUCT_BLOCKS: u32 = 256;

/// Shared memory per block for symbol counts, in bytes. If they need more, counts are summed by lists of rows.
const CELLS: usize = 64 * 1024;

/// Largest |Σᵢ γₜ(i) − 1| that rounding explains.
fn tolerance(wide: bool, plain_tf32: bool) -> f64 {
    if wide {
        1e-6
    } else if plain_tf32 {
        0.3
    } else {
        0.05
    }
}

/// Memory and algorithm choices of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory for the forward and backward variables, in bytes. Larger batches run window by window and recompute α̂
    /// from checkpoints.
    pub trellis: usize,
    /// Steps per chunk of the [scan](crate::device::Scan::steps), for models of at most 64 states; `None`: no
    /// scan. The operators of the scan take 8·N²/`chunks` bytes per step.
    pub chunks: Option<u32>,
    /// For f32 and more than 128 states: multiply plain TF32 numbers (11 significant bits) on the tensor cores, instead
    /// of splitting each f32 into two TF32 numbers.
    pub plain_tf32: bool,
}

impl Default for Limits {
    /// 16 GiB, no scan, full f32 precision.
    fn default() -> Self {
        Self { trellis: 16 << 30, chunks: None, plain_tf32: false }
    }
}

/// The device backend in precision `T`: M sequences and the models, resident on the device.
///
/// [Doubtful](warpkov_kernels::hmm) sequences, for which underflow may change a result, are recomputed on the device
/// with the [exact recursions](warpkov_kernels::hmm::wide); for models of more than 1024 states, and
/// if vectors have missing components, on the [host](Exact). Densities and moments of these vectors come from the host,
/// too.
///
/// The results of a sequence have the same bits in any batch and for any [`Limits::trellis`]. [`Limits::chunks`]
/// changes the order of sums and thereby the last bits.
pub struct Batch<'d, T: Precise> {
    device: &'d AnyDevice,
    sequences: &'d Sequences,
    limits: Limits,
    packing: Packing,
    /// The chunks of the scan. If present, `packing` packs chunks instead of sequences.
    chunks: Option<Chunks>,
    /// The symbol of each row, on the host; `symbols` is the device copy.
    symbol: Vec<u32>,
    lengths: AnyBuffer<u32>,
    base: AnyBuffer<u32>,
    symbols: AnyBuffer<u32>,
    /// Observed vectors by row; empty for symbols.
    vectors: AnyBuffer<f64>,
    /// The vectors with missing components, on the host.
    partial: Vec<Partial>,
    spread: Spread,
    set: Option<Set<T>>,
    work: Work<T>,
    lists: Vec<OnDevice>,
    /// Number of windows and of symbols that `lists` were built for.
    listed: Option<(usize, u32)>,
}

/// The current models and what depends on them.
struct Set<T: Precise> {
    hosts: Vec<Hmm>,
    /// Whether device parameters are newer than the host copies `hosts`.
    host_stale: bool,
    /// Whether `work` holds expected counts under these models.
    has_counts: bool,
    /// Expected counts that the device lacks, those of doubtful sequences: indices of models, and their counts.
    missing: Vec<(usize, Expected)>,
    variant: KernelVariant,
    states: u32,
    stride: usize,
    /// Rows of the emission table of a model: V, or ΣT for densities.
    symbols: u32,
    models: Models<T>,
    /// Logarithms of the models, uploaded for the first [`Batch::decode`].
    logs: Option<Models<T>>,
    /// Gaussian emissions.
    gaussians: Option<Gaussians>,
    /// ln densities, until `logs` takes them.
    log_table: Option<AnyBuffer<T>>,
}

impl<T: Precise> Set<T> {
    /// Number of symbols with expected counts; 0 for Gaussian emissions.
    fn counted(&self) -> u32 {
        if self.gaussians.is_some() { 0 } else { self.symbols }
    }
}

/// Layout of the expected counts on the device. Pitches and offsets are in elements.
struct Places {
    /// Whether γ is summed by lists of rows, into a buffer of its own. Otherwise γ counts follow the sums of pairs.
    in_lists: bool,
    /// Pitch between models of Σ α̂ᵀ û, N rows of a stride.
    pairs_pitch: usize,
    /// Pitch between models of the other counts, rows of a stride.
    counts_pitch: usize,
    /// Offset of Σ γ₁.
    start: usize,
    /// Offset of Σ γ_T.
    end: usize,
    /// Offset of the counts of the first symbol; the other symbols follow.
    symbols: usize,
}

impl Places {
    fn new<T: Precise>(set: &Set<T>, wanted: Wanted) -> Self {
        let (stride, counted) = (set.stride, set.counted() as usize);
        let pairs_pitch = match set.variant {
            KernelVariant::Warp { .. } => counts_len(stride, wanted.slots as usize),
            _ => stride * stride,
        };
        match wanted.want == want::BOTH {
            true => Self {
                in_lists: true,
                pairs_pitch,
                counts_pitch: (counted + 2) * stride,
                start: counted * stride,
                end: (counted + 1) * stride,
                symbols: 0,
            },
            false => Self {
                in_lists: false,
                pairs_pitch,
                counts_pitch: pairs_pitch,
                start: stride * stride,
                end: (stride + 1) * stride,
                symbols: (stride + 2) * stride,
            },
        }
    }
}

impl<'d, T: Precise> Batch<'d, T> {
    /// Uploads the sequences.
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// If there are 2³² observations or more.
    pub fn new(device: &'d AnyDevice, sequences: &'d Sequences, limits: Limits) -> Result<Self, DeviceError> {
        let (chunks, packing, lengths) = match limits.chunks {
            Some(steps) => {
                let (chunks, packing, lengths) = Chunks::new(device, sequences, steps)?;
                (Some(chunks), packing, lengths)
            }
            None => {
                let packing = Packing::new(sequences);
                let lengths = packing.lengths.clone();
                (None, packing, lengths)
            }
        };
        let mut symbol = packing.symbols(sequences);
        // A chunk with a successor runs one step longer and reads one symbol more.
        symbol.resize(symbol.len() + chunks.as_ref().map_or(0, |_| packing.lengths.len()), 0);
        Ok(Self {
            device,
            sequences,
            limits,
            lengths: device.upload(&lengths)?,
            base: device.upload(&packing.base)?,
            symbols: device.upload(&symbol)?,
            vectors: device.upload(&vectors(&packing, sequences))?,
            partial: partial(&packing, sequences),
            spread: Spread::new(sequences),
            packing,
            chunks,
            symbol,
            set: None,
            work: Work::new(device)?,
            lists: Vec::new(),
            listed: None,
        })
    }

    /// Arguments and memory of launches; `None` before [`set_models`](Recursions::set_models).
    #[expect(clippy::type_complexity, reason = "disjoint borrows of one struct")]
    fn parts(&mut self) -> Option<(Launch<'_, T>, &mut Work<T>, &Set<T>, &[OnDevice])> {
        let Self { device, limits, packing, chunks, lengths, base, symbols, set, work, lists, .. } = self;
        let set = set.as_ref()?;
        let launch = Launch {
            device,
            variant: set.variant,
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
            chunks: chunks.as_ref(),
        };
        Some((launch, work, set, lists))
    }

    /// Launches the forward recursion; the likelihoods stay on the device. Does nothing before
    /// [`set_models`](Recursions::set_models).
    ///
    /// # Errors
    /// Those of the device.
    pub fn score(&mut self) -> Result<(), DeviceError> {
        let (device, steps) = (self.device, self.packing.steps());
        let Some((launch, work, ..)) = self.parts() else { return Ok(()) };
        if let Some(chunks) = launch.chunks {
            return launch.chunk_starts(chunks, work);
        }
        let cells = launch.cells();
        let Work { forward_carry, alpha, exponents, doubts, likelihoods, .. } = work;
        let carry = forward_carry.of(device, cells * launch.stride)?;
        let likelihoods = likelihoods.of(device, 2 * cells)?;
        let rows = launch.count as usize * launch.rows as usize;
        if launch.variant == KernelVariant::Step {
            exponents.of(device, rows)?;
            doubts.of(device, cells)?;
            alpha.of(device, 3 * cells * launch.stride)?;
        }
        let (exponents, doubts, window) = (exponents.get_mut(), doubts.get_mut(), 3 * launch.sequences);
        launch.forward(&steps, window, false, None, carry, alpha.get_mut(), exponents, doubts, likelihoods)
    }

    /// Launches the Viterbi recursion; paths and scores stay on the device. Does nothing before
    /// [`set_models`](Recursions::set_models).
    ///
    /// # Errors
    /// Those of the device.
    pub fn decode(&mut self) -> Result<(), DeviceError> {
        let device = self.device;
        self.refresh()?;
        if let Some(set) = self.set.as_mut().filter(|set| set.logs.is_none()) {
            let mut logs = Models::logarithms(device, &set.hosts, set.stride)?;
            if let Some(table) = set.log_table.take() {
                logs.table = table;
            }
            set.logs = Some(logs);
        }
        let Some((launch, work, set, _)) = self.parts() else { return Ok(()) };
        let Some(logs) = &set.logs else { return Ok(()) };
        if let Some(chunks) = launch.chunks {
            return launch.decode_chunks(chunks, logs, work);
        }
        let rows = launch.count as usize * launch.rows as usize;
        let Work { alpha, pointers, path, scores, .. } = work;
        if let KernelVariant::Warp { .. } = launch.variant {
            pointers.of(device, rows * launch.stride)?;
        } else {
            alpha.of(device, rows * launch.stride)?;
        }
        let (path, scores) = (path.of(device, rows)?, scores.of(device, launch.cells())?);
        launch.decode(logs, alpha.get_mut(), pointers.get_mut(), path, scores)
    }

    /// The outputs of the backward recursion that expected counts need.
    fn counting(&self) -> Wanted {
        let Some(set) = &self.set else { return Wanted { want: want::COUNTS, slots: 0 } };
        let fits = |tiles| warp_shared(tiles, size_of::<T>(), set.symbols as usize, want::COUNTS) <= CELLS;
        match set.variant {
            KernelVariant::Warp { tiles } if set.gaussians.is_none() && self.chunks.is_none() && fits(tiles) => {
                Wanted { want: want::COUNTS, slots: set.symbols }
            }
            _ => Wanted { want: want::BOTH, slots: 0 },
        }
    }

    /// Windows whose forward and backward variables fit in [`Limits::trellis`], and the capacity in rows that they
    /// need.
    fn windows(&self, wanted: Wanted) -> (Vec<Window>, u32) {
        let Some(set) = &self.set else { return (Vec::new(), 0) };
        let arrays = match (set.variant, wanted.want) {
            (KernelVariant::Warp { .. }, want::COUNTS) => 1,
            (KernelVariant::Warp { .. }, _) | (KernelVariant::Block { .. }, want::POSTERIORS) => 2,
            _ => 3,
        };
        let row = arrays * set.hosts.len() * set.stride * size_of::<T>();
        let windows = self.packing.windows(u32::try_from(self.limits.trellis / row).unwrap_or(u32::MAX));
        let rows = windows.iter().map(|window| window.rows.len() as u32).max().unwrap_or(0);
        let sequences = self.packing.sequences();
        let capacity = if set.variant == KernelVariant::Step { rows.max(2 * sequences) + sequences } else { rows };
        (windows, capacity)
    }

    /// Runs the forward recursion over all windows and stores α̂ of the last one. Then runs the backward recursion from
    /// the last window to the first, and before each of the others repeats its forward recursion from a checkpoint.
    /// Calls `done` after each backward window.
    ///
    /// The function is one piece because it documents the order of launches on shared buffers.
    fn sweep(
        &mut self,
        wanted: Wanted,
        windows: &[Window],
        capacity: u32,
        mut done: impl FnMut(&Launch<'_, T>, &mut Work<T>, usize) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let device = self.device;
        let Some((launch, work, ..)) = self.parts() else { return Ok(()) };
        let (cells, stride) = (launch.cells(), launch.stride);
        let elements = launch.count as usize * capacity as usize * stride;
        let last = windows.len() - 1;
        while work.checkpoints.len() < last {
            work.checkpoints.push(Scratch::new(device)?);
        }
        if let Some(chunks) = launch.chunks {
            launch.chunk_starts(chunks, work)?;
            launch.chunk_ends(chunks, work)?;
        }
        {
            let Work { forward_carry, checkpoints, alpha, exponents, doubts, likelihoods, replayed, starts, .. } = work;
            let starts = launch.chunks.map(|_| starts.get());
            let rows = launch.count as usize * launch.rows as usize;
            let carry = forward_carry.of(device, cells * stride)?;
            let alpha = alpha.of(device, elements)?;
            // One row more per sequence for the extra step of chunks.
            let exponents = exponents.of(device, rows + launch.sequences as usize)?;
            let (likelihoods, doubts) = (likelihoods.of(device, 2 * cells)?, doubts.of(device, cells)?);
            replayed.of(device, 2 * cells)?;
            for (w, window) in windows.iter().enumerate() {
                if w > 0 {
                    copy_all(device, cells * stride, carry, checkpoints[w - 1].of(device, cells * stride)?)?;
                }
                launch.forward(
                    &window.steps,
                    capacity,
                    w == last,
                    starts,
                    carry,
                    alpha,
                    exponents,
                    doubts,
                    likelihoods,
                )?;
            }
        }
        if let Some(chunks) = launch.chunks {
            launch.share_doubts(chunks, work)?;
        }
        let carry = work.backward_carry.of(device, cells * stride)?;
        if let Some(open) = launch.chunks.map(|chunks| chunks.open).filter(|&open| open > 0) {
            let (transitions, behind, ends) = (&launch.models.transitions, work.behind.get(), work.forward_carry.get());
            let likelihoods = work.likelihoods.get();
            let (shape, stride) = (launch.shape(open, 32), stride as u32);
            // SAFETY: `forward` has written to `ends` the last α̂ of the chunks below `open`, and `Work` sized all
            // buffers for `cells` rows of `stride` elements.
            unsafe {
                join_chunks(device, shape, launch.sequences, stride, transitions, likelihoods, behind, ends, carry)?;
            }
        }
        if wanted.want != want::COUNTS {
            work.gamma.of(device, elements)?;
        }
        if launch.variant == KernelVariant::Step
            || wanted.want == want::BOTH && matches!(launch.variant, KernelVariant::Block { .. })
        {
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
                let (exponents, doubts, replayed) =
                    (exponents.get_mut(), work.doubts.get_mut(), work.replayed.get_mut());
                let starts = launch.chunks.map(|_| work.starts.get());
                launch.forward(&window.steps, capacity, true, starts, carry, alpha, exponents, doubts, replayed)?;
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

    /// Uploads the lists of rows of each window, unless they are those of the last call.
    fn prepare_lists(&mut self, windows: &[Window], symbols: u32) -> Result<(), DeviceError> {
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

    /// Launches the forward and backward recursions and the sums; expected counts stay on the device. Does nothing
    /// before [`set_models`](Recursions::set_models).
    ///
    /// # Errors
    /// Those of the device.
    pub fn count(&mut self) -> Result<(), DeviceError> {
        let (device, wanted) = (self.device, self.counting());
        let (windows, capacity) = self.windows(wanted);
        let Some(set) = &self.set else { return Ok(()) };
        let (count, stride, in_warps) =
            (set.hosts.len(), set.stride, matches!(set.variant, KernelVariant::Warp { .. }));
        let symbols = set.counted();
        let tiles = (stride / TILE).pow(2).max(1) as u32;
        let splits = (PRODUCT_BLOCKS / tiles).clamp(1, capacity.div_ceil(64));
        let chunks = if in_warps { self.packing.sequences().div_ceil(8).min(PARTS) } else { splits };
        let Places { in_lists, pairs_pitch: len, .. } = Places::new(set, wanted);
        if in_lists {
            self.prepare_lists(&windows, symbols)?;
        }
        let lists = std::mem::take(&mut self.lists);
        let gaussians = self.set.as_mut().and_then(|set| set.gaussians.take());
        let x = std::mem::replace(&mut self.vectors, device.zeros(0)?);
        let partial = std::mem::take(&mut self.partial);
        let hosts = match &self.set {
            Some(set) if !partial.is_empty() => set.hosts.clone(),
            _ => Vec::new(),
        };
        let moment_splits = capacity.div_ceil(64).min(MOMENT_PARTS);
        let moments_len = gaussians.as_ref().map_or(0, |gaussians| gaussians.moments_len() * stride);
        self.work.moment_parts.of(device, count * moment_splits as usize * moments_len)?;
        self.work.moments.of(device, count * moments_len)?;
        self.work.parts.of(device, count * chunks as usize * len)?;
        self.work.sums.of(device, count * len)?;
        let last = windows.len() - 1;
        let mut completed = vec![0.0; if partial.is_empty() { 0 } else { count * moments_len }];
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
                let rest = gaussians.complete(device, &hosts, stride, window, &partial, gamma, &mut completed)?;
                gaussians.count(
                    device,
                    count as u32,
                    stride,
                    window,
                    capacity,
                    moment_splits,
                    more,
                    &x,
                    rest.as_ref().unwrap_or(gamma),
                    parts,
                )?;
            }
            launch.count(window, capacity, splits, more, lists, alpha, gamma, pairs, parts.get_mut(), chunks, listed)
        });
        (self.lists, self.vectors, self.partial) = (lists, x, partial);
        if let Some(set) = &mut self.set {
            set.gaussians = gaussians;
        }
        swept?;
        if let Some(set) = &mut self.set {
            set.has_counts = true;
            set.missing.clear();
        }
        let shape = |len: usize, parts: u32| {
            Shape::new(Dim3 { x: len.div_ceil(32) as u32, y: count as u32, z: 1 }, sum_threads(parts))
        };
        let Work { parts, sums, moment_parts, moments, .. } = &mut self.work;
        // SAFETY: the sweep has written `chunks` parts of `len` and `moment_splits` parts of `moments_len` elements for
        // each of the `count` models, and `Work` sized the sums for them.
        unsafe {
            if moments_len > 0 {
                let shape = shape(moments_len, moment_splits);
                sum_parts(device, shape, moments_len as u32, moment_splits, moment_parts.get(), moments.get_mut())?;
            }
            sum_parts(device, shape(len, chunks), len as u32, chunks, parts.get(), sums.get_mut())?;
        }
        if !completed.is_empty() {
            let mut all = device.to_vec(moments.get())?;
            all.iter_mut().zip(&completed).for_each(|(sum, more)| *sum += more);
            device.write(moments.get_mut(), &all)?;
        }
        Ok(())
    }

    /// Launches the M step of categorical models on the counts of the last [`count`](Self::count); the parameters on
    /// the device change in place. The pseudocounts are those of π, A and B. Does nothing without such counts, or for
    /// Gaussian emissions.
    ///
    /// # Errors
    /// Those of the device.
    pub fn maximise(&mut self, [start_count, transition_count, emission_count]: [f64; 3]) -> Result<(), DeviceError> {
        let (device, wanted) = (self.device, self.counting());
        let asked = self.set.as_mut().filter(|set| set.has_counts && set.gaussians.is_none());
        let Some(set) = asked else { return Ok(()) };
        let places = Places::new(set, wanted);
        add_missing(device, set, &places, &mut self.work)?;
        let Places { in_lists, pairs_pitch, counts_pitch, start, end, symbols } = places;
        let (states, stride) = (set.states, set.stride as u32);
        let Models { start: first, end: last, ends, transitions, transposed, table } = &mut set.models;
        let pairs = self.work.sums.get();
        let counts = if in_lists { self.work.listed.get() } else { pairs };
        let counted = CountedArgs {
            pairs_pitch: pairs_pitch as u64,
            pairs,
            counts_pitch: counts_pitch as u64,
            first_start: start as u64,
            first_final: end as u64,
            first_symbol: symbols as u64,
            counts,
        };
        let shape = |x: u32, threads: u32| Shape::new(Dim3 { x, y: set.hosts.len() as u32, z: 1 }, threads);
        let threads = stride.next_multiple_of(32).min(256);
        // SAFETY: `Hmm` guarantees the shapes of all tables, which `Models` stores with `stride` for each of the
        // `hosts.len()` models. `Places` describes the layout in which `count` wrote the counts, with the same stride.
        unsafe {
            maximise_transitions(
                device,
                shape(states + 1, threads),
                states,
                stride,
                start_count,
                transition_count,
                counted,
                TablesArgs { ends, start: first, transitions, transposed, end: last },
            )?;
            maximise_emissions(
                device,
                shape(stride.div_ceil(32), EMISSION_THREADS),
                stride,
                set.symbols,
                emission_count,
                counted,
                table,
            )?;
        }
        (set.host_stale, set.has_counts, set.logs) = (true, false, None);
        Ok(())
    }

    /// Downloads the models where the host copies are stale.
    fn refresh(&mut self) -> Result<(), DeviceError> {
        match &mut self.set {
            Some(set) if set.host_stale => {
                set.models.read(self.device, set.stride, &mut set.hosts)?;
                set.host_stale = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Recomputes doubtful sequences, whose entry in `logs` is NaN.
    fn settle(&mut self, logs: &mut [Vec<f64>], mut asked: Asked<'_>) -> Result<(), DeviceError> {
        let of_model = |(model, logs): (usize, &Vec<f64>)| {
            let which: Vec<u32> = (0..logs.len() as u32).filter(|&at| logs[at as usize].is_nan()).collect();
            (!which.is_empty()).then_some(Doubtful { model, which })
        };
        let doubtful: Vec<Doubtful> = logs.iter().enumerate().filter_map(of_model).collect();
        if doubtful.is_empty() {
            return Ok(());
        }
        self.refresh()?;
        let Some(set) = &self.set else { return Ok(()) };
        let found = if set.states <= wide::STATES && self.sequences.partial() == 0 {
            let recomputation = Recomputation {
                device: self.device,
                sequences: self.sequences,
                packing: &self.packing,
                chunks: self.chunks.as_ref(),
                base: &self.base,
                symbol: &self.symbols,
                vectors: &self.vectors,
                gaussians: set.gaussians.as_ref(),
                models: &set.hosts,
                stride: set.stride,
                trellis: self.limits.trellis.min(wide::TRELLIS),
            };
            recomputation.run(&mut self.work.wide, &doubtful, &mut asked)?
        } else {
            doubtful.iter().map(|of| on_host(&set.hosts[of.model], self.sequences, of, &mut asked)).collect()
        };
        for (Doubtful { model, which }, found) in doubtful.iter().zip(found) {
            which.iter().zip(found).for_each(|(&at, log)| logs[*model][at as usize] = log);
        }
        Ok(())
    }

    /// ln P(O) after [`count`](Self::count). Recomputes doubtful sequences and keeps their counts as missing.
    fn settle_counts(&mut self) -> Result<Vec<Vec<f64>>, DeviceError> {
        let (mut logs, mut missing) = (self.read_likelihoods()?, Vec::new());
        self.settle(&mut logs, Asked::Counts(&mut missing))?;
        if let Some(set) = &mut self.set {
            set.missing = missing;
        }
        Ok(logs)
    }

    /// The expected counts on the device plus the missing ones. The host copies of the models are current.
    fn read_counts(&self, log_likelihoods: Vec<Vec<f64>>) -> Result<Vec<Expected>, DeviceError> {
        let Some(set) = &self.set else { return Ok(Vec::new()) };
        let (n, stride, slots) = (set.states as usize, set.stride, set.counted() as usize);
        let (count, places) = (set.hosts.len(), Places::new(set, self.counting()));
        let mut sums = vec![0.0; count * places.pairs_pitch];
        self.device.download(self.work.sums.get(), &mut sums)?;
        let mut listed = vec![0.0; if places.in_lists { count * places.counts_pitch } else { 0 }];
        self.device.download(self.work.listed.get(), &mut listed)?;
        let moments_len = set.gaussians.as_ref().map_or(0, |gaussians| gaussians.moments_len() * stride);
        let mut moments = vec![0.0; count * moments_len];
        self.device.download(self.work.moments.get(), &mut moments)?;
        let counts = if places.in_lists { &listed } else { &sums };
        let mut log_likelihoods = log_likelihoods.into_iter();
        let expected = set.hosts.iter().enumerate().map(|(k, model)| {
            let pairs = &sums[k * places.pairs_pitch..];
            let row = |first: usize| &counts[k * places.counts_pitch + first..][..n];
            // The device sums ξ without the factor A; multiply by the entry of its table.
            let of_table = |prob: f64| T::from_f64(raised(prob, entry(T::WIDE))).to_f64();
            let xi = (0..n * n).map(|at| pairs[at / n * stride + at % n] * of_table(model.transitions()[at]));
            let by_symbol = (0..n * slots).map(|at| row(places.symbols + at % slots * stride)[at / slots]);
            let mut expected = Expected {
                log_likelihoods: log_likelihoods.next().unwrap_or_default(),
                start: row(places.start).to_vec(),
                transitions: xi.collect(),
                end: row(places.end).to_vec(),
                emissions: match &set.gaussians {
                    Some(gaussians) => gaussians.statistics(&moments[k * moments_len..], n, stride),
                    None => Statistics::Categorical(by_symbol.collect()),
                },
            };
            set.missing.iter().filter(|(at, _)| *at == k).for_each(|(_, missing)| expected.add_counts(missing));
            expected
        });
        Ok(expected.collect())
    }

    /// ln P(O) from the likelihoods on the device; NaN for doubtful sequences.
    fn read_likelihoods(&self) -> Result<Vec<Vec<f64>>, DeviceError> {
        let packed = self.packing.lengths.len();
        let count = self.set.as_ref().map_or(0, |set| set.hosts.len());
        let (m, likelihoods) = match &self.chunks {
            Some(chunks) => (chunks.sequences(), &self.work.totals),
            None => (packed, &self.work.likelihoods),
        };
        let mut found = vec![0.0; 2 * m * count];
        self.device.download(likelihoods.get(), &mut found)?;
        let mut shifts = vec![0.0; packed * count];
        if let Some(gaussians) = self.set.as_ref().and_then(|set| set.gaussians.as_ref()) {
            self.device.download(&gaussians.shifts, &mut shifts)?;
        }
        let log = |(pair, shift): (&[f64], f64)| {
            if pair[0] == 0.0 { f64::NEG_INFINITY } else { pair[0].ln() + (pair[1] * std::f64::consts::LN_2 + shift) }
        };
        let of_model = |(pairs, shifts): (&[f64], &[f64])| match &self.chunks {
            Some(chunks) => pairs.chunks_exact(2).zip(chunks.sums(shifts)).map(log).collect(),
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

/// ln P(O) of doubtful sequences, and the results in `asked`, computed on the host.
fn on_host(model: &Hmm, sequences: &Sequences, doubtful: &Doubtful, asked: &mut Asked<'_>) -> Vec<f64> {
    let exact = Exact::new(model);
    match asked {
        Asked::Nothing => exact.log_likelihoods(sequences, &doubtful.which),
        Asked::Posteriors(all) => exact.posteriors(sequences, &doubtful.which, &mut all[doubtful.model]),
        Asked::Counts(missing) => {
            let expected = exact.expect(sequences, &doubtful.which);
            let logs = expected.log_likelihoods.clone();
            missing.push((doubtful.model, expected));
            logs
        }
    }
}

/// Adds the counts of doubtful sequences to those on the device.
fn add_missing<T: Precise>(
    device: &AnyDevice,
    set: &Set<T>,
    places: &Places,
    work: &mut Work<T>,
) -> Result<(), DeviceError> {
    if set.missing.is_empty() {
        return Ok(());
    }
    let (n, stride, slots) = (set.states as usize, set.stride, set.counted() as usize);
    let mut sums = device.to_vec(work.sums.get())?;
    let mut listed = if places.in_lists { device.to_vec(work.listed.get())? } else { Vec::new() };
    for (k, missing) in &set.missing {
        let pairs = &mut sums[k * places.pairs_pitch..];
        for (at, (xi, &prob)) in missing.transitions.iter().zip(set.hosts[*k].transitions()).enumerate() {
            if *xi > 0.0 {
                // The device sums ξ without the factor A; divide by the entry of its table.
                pairs[at / n * stride + at % n] += xi / T::from_f64(prob.max(power(entry(T::WIDE)))).to_f64();
            }
        }
        let counts = if places.in_lists { &mut listed } else { &mut sums };
        let mut add = |first: usize, of: &dyn Fn(usize) -> f64| {
            let row = &mut counts[k * places.counts_pitch + first..][..n];
            row.iter_mut().enumerate().for_each(|(j, count)| *count += of(j));
        };
        add(places.start, &|j| missing.start[j]);
        add(places.end, &|j| missing.end[j]);
        if let Statistics::Categorical(emitted) = &missing.emissions {
            (0..slots).for_each(|v| add(places.symbols + v * stride, &|j| emitted[j * slots + v]));
        }
    }
    device.write(work.sums.get_mut(), &sums)?;
    if places.in_lists { device.write(work.listed.get_mut(), &listed) } else { Ok(()) }
}

/// Copies `len` elements, a multiple of 8.
fn copy_all<T: Precise>(
    device: &AnyDevice,
    len: usize,
    from: &AnyBuffer<T>,
    to: &mut AnyBuffer<T>,
) -> Result<(), DeviceError> {
    // SAFETY: callers take both buffers from `Scratch::of` with `len` elements.
    unsafe { copy(device, Shape::grid_stride(len as u64 / 4, 256), len as u32 / 4, from, to) }
}

impl<T: Precise> Recursions for Batch<'_, T> {
    type Error = DeviceError;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), DeviceError> {
        assert!(fit(models, self.sequences), "models of one shape that emit what was observed");
        let states = models.first().map_or(0, Hmm::states);
        assert!(self.chunks.is_none() || states <= scan::STATES, "sequences are cut for models of at most 64 states");
        let variant = KernelVariant::of(states);
        let stride = variant.stride(states);
        // Free the old models before allocating new ones.
        self.set = None;
        let mut set = Set {
            hosts: models.to_vec(),
            host_stale: false,
            has_counts: false,
            missing: Vec::new(),
            variant,
            states,
            stride,
            symbols: models.first().map_or(0, symbols) as u32,
            models: Models::probabilities(self.device, models, stride)?,
            logs: None,
            gaussians: None,
            log_table: None,
        };
        let Self { device, packing, chunks, lengths, base, vectors, partial, .. } = self;
        let lengths = chunks.as_ref().map_or(&*lengths, |chunks| &chunks.on_device.lengths);
        if let Some((gaussians, tables)) =
            Gaussians::new(device, models, stride, packing, lengths, base, vectors, partial)?
        {
            set.symbols = packing.rows();
            set.models.table = tables.table;
            (set.gaussians, set.log_table) = (Some(gaussians), Some(tables.log_table));
        }
        self.set = Some(set);
        Ok(())
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, DeviceError> {
        self.score()?;
        let mut logs = self.read_likelihoods()?;
        self.settle(&mut logs, Asked::Nothing)?;
        Ok(logs)
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, DeviceError> {
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
        let (mut logs, sequences) = (self.read_likelihoods()?, self.sequences);
        let tolerance = tolerance(T::WIDE, self.limits.plain_tf32);
        for (logs, all) in logs.iter_mut().zip(&all) {
            for (m, log) in logs.iter_mut().enumerate().filter(|(_, log)| log.is_finite()) {
                let range = sequences.range(m);
                let rows = all[range.start * n..range.end * n].chunks_exact(n);
                if !rows.map(|row| row.iter().sum::<f64>()).all(|sum| (sum - 1.0).abs() <= tolerance) {
                    *log = f64::NAN;
                }
            }
        }
        self.settle(&mut logs, Asked::Posteriors(&mut all))?;
        Ok(all)
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, DeviceError> {
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
            match &self.chunks {
                Some(chunks) => decoded.scores = chunks.sums(score),
                None => {
                    let placed = score.iter().zip(&self.packing.order);
                    placed.for_each(|(&score, &at)| decoded.scores[at as usize] = score);
                }
            }
            decoded
        };
        Ok(path.chunks_exact(rows).zip(score.chunks_exact(m)).map(of_model).collect())
    }

    fn expect(&mut self) -> Result<Vec<Expected>, DeviceError> {
        self.refresh()?;
        self.count()?;
        let log_likelihoods = self.settle_counts()?;
        let mut all = self.read_counts(log_likelihoods)?;
        let (sequences, tolerance) = (self.sequences, tolerance(T::WIDE, self.limits.plain_tf32));
        let models = self.set.as_ref().map_or(&[][..], |set| &set.hosts);
        for (expected, model) in all.iter_mut().zip(models) {
            // Each possible sequence contributes Σᵢ γ₁(i) = 1.
            let possible = expected.log_likelihoods.iter().filter(|log| log.is_finite()).count() as f64;
            let off = (expected.start.iter().sum::<f64>() - possible).abs();
            if off.is_nan() || off > tolerance * possible {
                let which: Vec<u32> = (0..sequences.len() as u32).collect();
                *expected = Exact::new(model).expect(sequences, &which);
            }
        }
        Ok(all)
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, DeviceError> {
        self.count()?;
        self.settle_counts()
    }

    fn take_counts(&mut self) -> Result<Vec<Expected>, DeviceError> {
        self.refresh()?;
        if !self.set.as_ref().is_some_and(|set| set.has_counts) {
            return Ok(Vec::new());
        }
        let expected = self.read_counts(Vec::new())?;
        if let Some(set) = &mut self.set {
            set.has_counts = false;
        }
        Ok(expected)
    }

    fn m_step(&mut self, options: &Options) -> Result<(), DeviceError> {
        match &self.set {
            Some(set) if set.has_counts => {
                if let (None, Some(pseudocounts)) = (&set.gaussians, options.plain()) {
                    return self.maximise(pseudocounts);
                }
            }
            _ => return Ok(()),
        }
        // Gaussian moments are few, so the host computes the M step with its eigenvalues; and that with other options.
        let expected = self.read_counts(Vec::new())?;
        let mut models = self.models()?;
        let floors = self.spread.floors(options.floor);
        let pairs = models.par_iter_mut().zip(&expected);
        pairs.for_each(|(model, expected)| model.update(|parts| maximise(parts, expected, options, &floors)));
        self.set_models(&models)
    }

    fn models(&mut self) -> Result<Vec<Hmm>, DeviceError> {
        self.refresh()?;
        Ok(self.set.as_ref().map_or_else(Vec::new, |set| set.hosts.clone()))
    }
}
