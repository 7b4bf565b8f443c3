//! The recursions over a batch.

use std::sync::Arc;

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

use crate::hmm::backend::{Decoded, Expected, Recursions, Statistics, fit};
use crate::hmm::cpu::Exact;
use crate::hmm::device::chunks::Chunks;
use crate::hmm::device::gaussian::{Gaussians, vectors};
use crate::hmm::device::launch::{Launch, OnDevice, PARTS, Wanted, Work};
use crate::hmm::device::model::{KernelVariant, Models, symbols};
use crate::hmm::device::packing::{Lists, Packing, Window};
use crate::hmm::device::wide::{self, Again, Asked, Doubtful};
use crate::hmm::maximise::{Spread, maximise};
use crate::hmm::model::Hmm;
use crate::hmm::options::Pseudocounts;
use crate::hmm::sequences::Sequences;
use crate::runtime::Precise;
use crate::runtime::scratch::Scratch;

/// Parts of moments at most.
const MOMENT_PARTS: u32 = 64;

/// Blocks of a product over all rows, about.
const PRODUCT_BLOCKS: u32 = 256;

/// Shared memory of a block up to which counts of symbols are kept there, in bytes.
const CELLS: usize = 64 * 1024;

/// How far Σᵢ γₜ(i) may be from 1 by rounding alone.
fn tolerance(wide: bool, plain_tf32: bool) -> f64 {
    if wide {
        1e-6
    } else if plain_tf32 {
        0.3
    } else {
        0.05
    }
}

/// What a batch may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes for the forward and backward variables; what does not fit is computed again, window by window.
    pub trellis: usize,
    /// Steps of the chunks that sequences are cut into for a [scan](crate::hmm::device::Scan::steps) by models of at most 64 states; `None`: they are not
    /// cut. Operators take 8·N²/`chunks` bytes more for each step.
    pub chunks: Option<u32>,
    /// In f32: products of more than 128 states are of TF32 numbers, which have 11 bits, and not of sums of two such.
    pub plain_tf32: bool,
}

impl Default for Limits {
    /// 16 GiB, no chunks, and all bits.
    fn default() -> Self {
        Self { trellis: 16 << 30, chunks: None, plain_tf32: false }
    }
}

/// M sequences on a device, and the models that they are looked at by; in precision `T`. Both stay there.
///
/// Sequences that the device's range of numbers is [in doubt](warpkov_kernels::hmm) of are taken again there in
/// [numbers without limits](warpkov_kernels::hmm::wide), in `f64`; those of models with more than 1024 states [on the host](Exact).
///
/// What is said of a sequence has the same bits in any batch and within any memory. Where sequences are cut into chunks, sums are in
/// another order: last bits are others then, for each number of steps of a chunk.
pub struct Batch<'d, T: Precise, D: Device> {
    device: &'d D,
    sequences: &'d Sequences,
    limits: Limits,
    packing: Packing,
    /// Where sequences are cut. Then their chunks are what is packed.
    chunks: Option<Chunks<D>>,
    /// The symbol of each row, on the host and there.
    symbol: Vec<u32>,
    lengths: D::Buffer<u32>,
    base: D::Buffer<u32>,
    symbols: D::Buffer<u32>,
    /// Vectors by row, where such were observed.
    vectors: D::Buffer<f64>,
    spread: Spread,
    set: Option<Set<T, D>>,
    work: Work<T, D>,
    lists: Vec<OnDevice<D>>,
    /// How many windows, and lists of symbols, `lists` are for.
    listed: Option<(usize, u32)>,
}

/// The models that are set.
struct Set<T: Precise, D: Device> {
    hosts: Vec<Hmm>,
    /// Whether tables have gone on from those of `hosts`, by M steps.
    ahead: bool,
    /// Whether there are expected counts by these models.
    has_counts: bool,
    /// What is missing in them: the counts of sequences in doubt, and the models that they are by.
    missing: Vec<(usize, Expected)>,
    way: KernelVariant,
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

/// Where expected counts lie, in elements: from those of a model to those of the next, and from there.
struct Places {
    /// Whether γ was summed in lists, and is not beside the sums of pairs.
    in_lists: bool,
    /// From the Σ α̂ᵀ û of a model, N rows of a stride, to that of the next.
    pairs_pitch: usize,
    /// The same of the other counts, which are rows of a stride.
    counts_pitch: usize,
    start: usize,
    end: usize,
    /// The first symbol's; those of others follow.
    symbols: usize,
}

impl Places {
    fn new<T: Precise, D: Device>(set: &Set<T, D>, wanted: Wanted) -> Self {
        let (stride, counted) = (set.stride, set.counted() as usize);
        let pairs_pitch = match set.way {
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

impl<'d, T: Precise, D: Device> Batch<'d, T, D> {
    /// Uploads valid sequences.
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// Where there are 2³² observations or more.
    pub fn new(device: &'d D, sequences: &'d Sequences, limits: Limits) -> Result<Self, D::Error> {
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
        // Chunks that are told to be longer than they are look one step ahead.
        symbol.resize(symbol.len() + chunks.as_ref().map_or(0, |_| packing.lengths.len()), 0);
        Ok(Self {
            device,
            sequences,
            limits,
            lengths: device.upload(&lengths)?,
            base: device.upload(&packing.base)?,
            symbols: device.upload(&symbol)?,
            vectors: device.upload(&vectors(&packing, sequences))?,
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

    /// What launches are told, and the memory that they work in; `None` before models are set.
    #[expect(clippy::type_complexity, reason = "parts of one thing, which have no other name")]
    fn parts(&mut self) -> Option<(Launch<'_, T, D>, &mut Work<T, D>, &Set<T, D>, &[OnDevice<D>])> {
        let Self { device, limits, packing, chunks, lengths, base, symbols, set, work, lists, .. } = self;
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
            chunks: chunks.as_ref(),
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
        if let Some(chunks) = launch.chunks {
            return launch.chunk_starts(chunks, work);
        }
        let cells = launch.cells();
        let Work { forward_carry, alpha, exponents, doubts, likelihoods, .. } = work;
        let carry = forward_carry.of(device, cells * launch.stride)?;
        let likelihoods = likelihoods.of(device, 2 * cells)?;
        let rows = launch.count as usize * launch.rows as usize;
        if launch.way == KernelVariant::Step {
            exponents.of(device, rows)?;
            doubts.of(device, cells)?;
            alpha.of(device, 3 * cells * launch.stride)?;
        }
        let (exponents, doubts, window) = (exponents.get_mut(), doubts.get_mut(), 3 * launch.sequences);
        launch.forward(&steps, window, false, None, carry, alpha.get_mut(), exponents, doubts, likelihoods)
    }

    /// Launches Viterbi's recursion: paths and scores stay on the device. Nothing where no models are set.
    ///
    /// # Errors
    /// Those of the device.
    pub fn decode(&mut self) -> Result<(), D::Error> {
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
        if let KernelVariant::Warp { .. } = launch.way {
            pointers.of(device, rows * launch.stride)?;
        } else {
            alpha.of(device, rows * launch.stride)?;
        }
        let (path, scores) = (path.of(device, rows)?, scores.of(device, launch.cells())?);
        launch.decode(logs, alpha.get_mut(), pointers.get_mut(), path, scores)
    }

    /// What the backward recursion has to be asked for expected counts.
    fn counting(&self) -> Wanted {
        let Some(set) = &self.set else { return Wanted { want: want::COUNTS, slots: 0 } };
        let fits = |tiles| warp_shared(tiles, size_of::<T>(), set.symbols as usize, want::COUNTS) <= CELLS;
        match set.way {
            KernelVariant::Warp { tiles } if set.gaussians.is_none() && self.chunks.is_none() && fits(tiles) => {
                Wanted { want: want::COUNTS, slots: set.symbols }
            }
            _ => Wanted { want: want::BOTH, slots: 0 },
        }
    }

    /// Windows for which forward and backward variables fit within the limits, and rows to have room for.
    fn windows(&self, wanted: Wanted) -> (Vec<Window>, u32) {
        let Some(set) = &self.set else { return (Vec::new(), 0) };
        let arrays = match (set.way, wanted.want) {
            (KernelVariant::Warp { .. }, want::COUNTS) => 1,
            (KernelVariant::Warp { .. }, _) | (KernelVariant::Block { .. }, want::POSTERIORS) => 2,
            _ => 3,
        };
        let row = arrays * set.hosts.len() * set.stride * size_of::<T>();
        let windows = self.packing.windows(u32::try_from(self.limits.trellis / row).unwrap_or(u32::MAX));
        let rows = windows.iter().map(|window| window.rows.len() as u32).max().unwrap_or(0);
        let sequences = self.packing.sequences();
        let capacity = if set.way == KernelVariant::Step { rows.max(2 * sequences) + sequences } else { rows };
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
        if let Some(chunks) = launch.chunks {
            launch.chunk_starts(chunks, work)?;
            launch.chunk_ends(chunks, work)?;
        }
        {
            let Work { forward_carry, checkpoints, alpha, exponents, doubts, likelihoods, again, starts, .. } = work;
            let starts = launch.chunks.map(|_| starts.get());
            let rows = launch.count as usize * launch.rows as usize;
            let carry = forward_carry.of(device, cells * stride)?;
            let alpha = alpha.of(device, elements)?;
            // With one step more, which chunks look ahead to.
            let exponents = exponents.of(device, rows + launch.sequences as usize)?;
            let (likelihoods, doubts) = (likelihoods.of(device, 2 * cells)?, doubts.of(device, cells)?);
            again.of(device, 2 * cells)?;
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
            // SAFETY: the forward recursion has left α̂ of the last step of each chunk that another one follows.
            unsafe {
                join_chunks(device, shape, launch.sequences, stride, transitions, likelihoods, behind, ends, carry)?;
            }
        }
        if wanted.want != want::COUNTS {
            work.gamma.of(device, elements)?;
        }
        if launch.way == KernelVariant::Step
            || wanted.want == want::BOTH && matches!(launch.way, KernelVariant::Block { .. })
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
                let (exponents, doubts, again) = (exponents.get_mut(), work.doubts.get_mut(), work.again.get_mut());
                let starts = launch.chunks.map(|_| work.starts.get());
                launch.forward(&window.steps, capacity, true, starts, carry, alpha, exponents, doubts, again)?;
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
        let (count, stride, in_warps) = (set.hosts.len(), set.stride, matches!(set.way, KernelVariant::Warp { .. }));
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
        let moment_splits = capacity.div_ceil(64).min(MOMENT_PARTS);
        let moments_len = gaussians.as_ref().map_or(0, |gaussians| gaussians.moments_len() * stride);
        self.work.moment_parts.of(device, count * moment_splits as usize * moments_len)?;
        self.work.moments.of(device, count * moments_len)?;
        self.work.parts.of(device, count * chunks as usize * len)?;
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
        if let Some(set) = &mut self.set {
            set.has_counts = true;
            set.missing.clear();
        }
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
            sum_parts(device, shape(len, chunks), len as u32, chunks, parts.get(), sums.get_mut())
        }
    }

    /// Launches the M step by what [`count`](Self::count) has left there, which the tables of symbols go on to. Nothing where nothing was
    /// counted, or where vectors are emitted.
    ///
    /// # Errors
    /// Those of the device.
    pub fn maximise(&mut self, pseudocounts: &Pseudocounts) -> Result<(), D::Error> {
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
        // SAFETY: tables have the stride that counts have, and these lie in the places that are named.
        unsafe {
            maximise_transitions(
                device,
                shape(states + 1, threads),
                states,
                stride,
                pseudocounts.start,
                pseudocounts.transitions,
                counted,
                TablesArgs { ends, start: first, transitions, transposed, end: last },
            )?;
            maximise_emissions(
                device,
                shape(stride.div_ceil(32), EMISSION_THREADS),
                stride,
                set.symbols,
                pseudocounts.emissions,
                counted,
                table,
            )?;
        }
        (set.ahead, set.has_counts, set.logs) = (true, false, None);
        Ok(())
    }

    /// Sees to it that `hosts` are the models of the tables.
    fn refresh(&mut self) -> Result<(), D::Error> {
        match &mut self.set {
            Some(set) if set.ahead => {
                set.models.read(self.device, set.stride, &mut set.hosts)?;
                set.ahead = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes sequences in doubt again, whose logarithm is NaN.
    fn settle(&mut self, logs: &mut [Vec<f64>], mut asked: Asked<'_>) -> Result<(), D::Error> {
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
        let found = if set.states <= wide::STATES {
            let again = Again {
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
            again.take(&mut self.work.wide, &doubtful, &mut asked)?
        } else {
            doubtful.iter().map(|of| on_host(&set.hosts[of.model], self.sequences, of, &mut asked)).collect()
        };
        for (Doubtful { model, which }, found) in doubtful.iter().zip(found) {
            which.iter().zip(found).for_each(|(&at, log)| logs[*model][at as usize] = log);
        }
        Ok(())
    }

    /// ln P(O) by the recursion that has counted, and what it has left out.
    fn settle_counts(&mut self) -> Result<Vec<Vec<f64>>, D::Error> {
        let (mut logs, mut missing) = (self.read_likelihoods()?, Vec::new());
        self.settle(&mut logs, Asked::Counts(&mut missing))?;
        if let Some(set) = &mut self.set {
            set.missing = missing;
        }
        Ok(logs)
    }

    /// Expected counts that are on the device, and those that are missing there, by models that `hosts` are.
    fn read_counts(&self, log_likelihoods: Vec<Vec<f64>>) -> Result<Vec<Expected>, D::Error> {
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
            let xi =
                (0..n * n).map(|at| pairs[at / n * stride + at % n] * T::from_f64(model.transitions()[at]).to_f64());
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

    /// ln P(O) by the likelihoods that are on the device; NaN of sequences in doubt.
    fn read_likelihoods(&self) -> Result<Vec<Vec<f64>>, D::Error> {
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

/// ln P(O) of sequences in doubt, and what is asked, by the host.
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

/// Adds the counts of sequences in doubt to those on the device.
fn add_missing<T: Precise, D: Device>(
    device: &D,
    set: &Set<T, D>,
    places: &Places,
    work: &mut Work<T, D>,
) -> Result<(), D::Error> {
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
                // ξ without A, as the table has it.
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
        assert!(fit(models, self.sequences), "models of one shape that emit what was observed");
        let states = models.first().map_or(0, Hmm::states);
        assert!(self.chunks.is_none() || states <= scan::STATES, "sequences are cut for models of at most 64 states");
        let way = KernelVariant::of(states);
        let stride = way.stride(states);
        // The old models go before the new ones need memory.
        self.set = None;
        let mut set = Set {
            hosts: models.to_vec(),
            ahead: false,
            has_counts: false,
            missing: Vec::new(),
            way,
            states,
            stride,
            symbols: models.first().map_or(0, symbols) as u32,
            models: Models::probabilities(self.device, models, stride)?,
            logs: None,
            gaussians: None,
            log_table: None,
        };
        let Self { device, packing, chunks, lengths, base, vectors, .. } = self;
        let lengths = chunks.as_ref().map_or(&*lengths, |chunks| &chunks.on_device.lengths);
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
        let mut logs = self.read_likelihoods()?;
        self.settle(&mut logs, Asked::Nothing)?;
        Ok(logs)
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

    fn expect(&mut self) -> Result<Vec<Expected>, D::Error> {
        self.refresh()?;
        self.count()?;
        let log_likelihoods = self.settle_counts()?;
        let mut all = self.read_counts(log_likelihoods)?;
        let (sequences, tolerance) = (self.sequences, tolerance(T::WIDE, self.limits.plain_tf32));
        let models = self.set.as_ref().map_or(&[][..], |set| &set.hosts);
        for (expected, model) in all.iter_mut().zip(models) {
            // Every sequence that is possible begins in some state.
            let possible = expected.log_likelihoods.iter().filter(|log| log.is_finite()).count() as f64;
            let off = (expected.start.iter().sum::<f64>() - possible).abs();
            if off.is_nan() || off > tolerance * possible {
                let which: Vec<u32> = (0..sequences.len() as u32).collect();
                *expected = Exact::new(model).expect(sequences, &which);
            }
        }
        Ok(all)
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, D::Error> {
        self.count()?;
        self.settle_counts()
    }

    fn m_step(&mut self, pseudocounts: &Pseudocounts, floor: f64) -> Result<(), D::Error> {
        match &self.set {
            Some(set) if set.gaussians.is_none() => return self.maximise(pseudocounts),
            Some(set) if set.has_counts => {}
            _ => return Ok(()),
        }
        // Moments of states are few: their eigenvalues are found on the host.
        let expected = self.read_counts(Vec::new())?;
        let mut models = self.models()?;
        let floors = self.spread.floors(floor);
        let pairs = models.par_iter_mut().zip(&expected);
        pairs.for_each(|(model, expected)| model.update(|parts| maximise(parts, expected, pseudocounts, &floors)));
        self.set_models(&models)
    }

    fn models(&mut self) -> Result<Vec<Hmm>, D::Error> {
        self.refresh()?;
        Ok(self.set.as_ref().map_or_else(Vec::new, |set| set.hosts.clone()))
    }
}
