//! The device implementation of [`Recursions`] over a batch of sequences.

use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use rayon::prelude::*;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::hmm::backward::want;
use warpkov_kernels::hmm::counts::TILE;
use warpkov_kernels::hmm::maximise::{
    CountedArgs, EMISSION_THREADS, TablesArgs, maximise_emissions, maximise_transitions,
};
use warpkov_kernels::hmm::scan;
use warpkov_kernels::hmm::{entry, power};
use warpkov_kernels::primitives::copy::copy;
use warpkov_kernels::primitives::sum::{sum_parts, sum_threads};

use crate::backend::{Decoded, Expected, Recursions, Statistics, Stored, fit};
use crate::backends::cpu::Exact;
use crate::backends::device::channels;
use crate::backends::device::chunks::Chunks;
use crate::backends::device::gaussian::{Gaussians, Partial, partial, states, vectors};
use crate::backends::device::known::KnownStates;
use crate::backends::device::launch::{Launch, OnDevice};
use crate::backends::device::model::{Models, raised, symbols};
use crate::backends::device::packing::{Lists, Packing, Window};
use crate::backends::device::slices::{ForwardMethod, Slices};
use crate::backends::device::trellis::{Counts, Work};
use crate::backends::device::variant::{Back, Onward, Variant, Wanted, variant};
use crate::backends::device::wide::{self, Asked, Doubtful, Recomputation};
use crate::maximise::{Spread, maximise};
use crate::model::{Emissions, Hmm};
use crate::options::Options;
use crate::sequences::Sequences;
use warpkov_runtime as runtime;
use warpkov_runtime::Precise;
use warpkov_runtime::comm::Communicator;
use warpkov_runtime::scratch::Scratch;

/// Maximum number of partial sums of moments.
const MOMENT_PARTS: u32 = 64;

/// Approximate number of blocks of the product Σ α̂ᵀ û over all rows.
const PRODUCT_BLOCKS: u32 = 256;

/// The error of a query before models are set, and after their upload failed.
const NO_MODELS: DeviceError =
    DeviceError::Missing("the batch has no models: their upload has failed, or was not asked for");

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
    /// Steps per chunk of the [scan](crate::backends::device::Scan::steps), for models of at most 64 states; `None`: no
    /// scan. The operators of the scan take 8·N²/`chunks` bytes per step. Sequences with weights are not cut.
    pub chunks: Option<u32>,
    /// For f32 and more than 128 states: multiply plain TF32 numbers (11 significant bits) on the tensor cores, instead
    /// of splitting each f32 into two TF32 numbers.
    pub plain_tf32: bool,
    /// The method of [`log_likelihoods`](Recursions::log_likelihoods). [`ForwardMethod::Slices`] is for models of symbols; it
    /// cuts no sequences, and multiplies without tensor cores.
    pub method: ForwardMethod,
}

impl Default for Limits {
    /// 16 GiB, no scan, full f32 precision, the fused kernels.
    fn default() -> Self {
        Self { trellis: 16 << 30, chunks: None, plain_tf32: false, method: ForwardMethod::Fused }
    }
}

/// The device backend in precision `T`: M sequences and the models, resident on the device.
///
/// [Doubtful](warpkov_kernels::hmm) sequences, for which underflow may change a result, are recomputed on the device
/// with the [exact recursions](warpkov_kernels::hmm::wide); for models of more than 1024 states, and
/// if vectors have missing components, known states or channels, on the [host](Exact). Densities and moments of vectors with missing
/// components and of channels come from the host, too. The host takes the M step if states of symbols are known, and if sequences have weights;
/// it then recomputes the doubtful ones.
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
    /// Known states of vectors by row; empty if none is known, and for symbols.
    states: AnyBuffer<u32>,
    /// Known states of symbols.
    known: KnownStates,
    /// The vectors with missing components, on the host.
    partial: Vec<Partial>,
    spread: Spread,
    set: Option<Set<T>>,
    work: Work<T>,
    lists: Vec<OnDevice>,
    /// Number of windows and of symbols that `lists` were built for.
    listed: Option<(usize, u32)>,
}

/// The launches of a batch with its models, and what they work with.
struct Launching<'a, T: Precise> {
    launch: Launch<'a, T>,
    work: &'a mut Work<T>,
    set: &'a Set<T>,
    lists: &'a [OnDevice],
    vectors: &'a AnyBuffer<f64>,
    partial: &'a [Partial],
}

/// The current models and what depends on them.
struct Set<T: Precise> {
    /// With a column of B for each pair of a symbol and its [known](KnownStates) state.
    hosts: Vec<Hmm>,
    /// Whether device parameters are newer than the host copies `hosts`.
    host_stale: bool,
    /// Whether `work` holds expected counts under these models.
    has_counts: bool,
    /// Expected counts that the device lacks, those of doubtful sequences: indices of models, and their counts.
    missing: Vec<(usize, Expected)>,
    variant: Box<dyn Variant<T>>,
    states: u32,
    stride: usize,
    /// Rows of the emission table of a model: V, or ΣT for densities.
    symbols: u32,
    models: Models<T>,
    /// Logarithms of the models, uploaded for the first [`Batch::decode`].
    logs: Option<Models<T>>,
    /// The forward recursion by slices, prepared for the first [`Batch::score`] with this method.
    slices: Option<Slices<T>>,
    /// Gaussian emissions, and those of channels.
    gaussians: Option<Gaussians>,
    /// Sums of the channels of each model after the last [`Batch::count`].
    channel_sums: Vec<Vec<f64>>,
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
        let pairs_pitch = set.variant.sums_len(wanted.slots);
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
        let whole = limits.method != ForwardMethod::Fused || !sequences.weights().is_empty();
        let cut = limits.chunks.filter(|_| !whole);
        let (chunks, packing, lengths) = match cut {
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
            states: device.upload(&states(&packing, sequences))?,
            known: KnownStates::new(&packing, sequences),
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

    /// The models and what depends on them.
    fn set(&self) -> Result<&Set<T>, DeviceError> {
        self.set.as_ref().ok_or(NO_MODELS)
    }

    /// What launches work with.
    fn launching(&mut self) -> Result<Launching<'_, T>, DeviceError> {
        let Self {
            device, limits, packing, chunks, lengths, base, symbols, set, work, lists, vectors, partial, ..
        } = self;
        let set = set.as_ref().ok_or(NO_MODELS)?;
        let launch = Launch {
            device,
            variant: &*set.variant,
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
        Ok(Launching { launch, work, set, lists, vectors, partial })
    }

    /// Launches the forward recursion; the likelihoods stay on the device.
    ///
    /// # Errors
    /// Those of the device; [`DeviceError::Missing`] before [`set_models`](Recursions::set_models), and after one that failed.
    pub fn score(&mut self) -> Result<(), DeviceError> {
        if self.limits.method == ForwardMethod::Slices {
            return self.score_by_slices();
        }
        let steps = self.packing.steps();
        let Launching { launch, work, .. } = self.launching()?;
        if let Some(chunks) = launch.chunks {
            return launch.chunk_starts(chunks, &mut work.scan);
        }
        let capacity = launch.variant.capacity(0, launch.sequences);
        let onward = Onward { steps, capacity, store: false, again: false, starts: None };
        launch.variant.forward(&launch, &onward, &mut work.trellis)
    }

    /// [`score`](Self::score) by [`ForwardMethod::Slices`].
    fn score_by_slices(&mut self) -> Result<(), DeviceError> {
        self.refresh()?;
        let Self { device, packing, symbols, set: Some(set), .. } = self else { return Err(NO_MODELS) };
        let mut slices = match set.slices.take() {
            Some(slices) => slices,
            None => Slices::new(device, &set.hosts, packing)?,
        };
        let launched = slices.forward(device, packing, symbols);
        set.slices = Some(slices);
        launched
    }

    /// Launches the Viterbi recursion; paths and scores stay on the device.
    ///
    /// # Errors
    /// As for [`score`](Self::score).
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
        let Launching { launch, work, set, .. } = self.launching()?;
        let Some(logs) = &set.logs else { return Ok(()) };
        let Work { trellis, paths, scan, .. } = work;
        match launch.chunks {
            Some(chunks) => launch.decode_chunks(chunks, logs, trellis, paths, scan),
            None => launch.variant.decode(&launch, logs, trellis, paths),
        }
    }

    /// Whether the kernels of the M step have all counts: no state of a symbol is known, and no sequence has a weight.
    fn is_plain(&self) -> bool {
        self.known.is_empty() && self.sequences.weights().is_empty()
    }

    /// The outputs of the backward recursion that expected counts need.
    fn counting(&self) -> Wanted {
        let Some(set) = &self.set else { return Wanted { want: want::BOTH, slots: 0 } };
        set.variant.counting((set.gaussians.is_none() && self.chunks.is_none()).then_some(set.symbols))
    }

    /// How the sums of expected counts of these models are stored.
    fn layout(&self, set: &Set<T>) -> Stored {
        let (count, places) = (set.hosts.len(), Places::new(set, self.counting()));
        let listed = if places.in_lists { count * places.counts_pitch } else { 0 };
        Stored { bytes: size_of::<T>() as u64, pairs: (count * places.pairs_pitch) as u64, listed: listed as u64 }
    }

    /// Windows whose forward and backward variables fit in [`Limits::trellis`], and the capacity in rows that they
    /// need.
    fn windows(&self, wanted: Wanted) -> (Vec<Window>, u32) {
        let Some(set) = &self.set else { return (Vec::new(), 0) };
        let row = set.variant.arrays(wanted.want) * set.hosts.len() * set.stride * size_of::<T>();
        let windows = self.packing.windows(u32::try_from(self.limits.trellis / row).unwrap_or(u32::MAX));
        let rows = windows.iter().map(|window| window.rows.len() as u32).max().unwrap_or(0);
        (windows, set.variant.capacity(rows, self.packing.sequences()))
    }

    /// Uploads the lists of rows of each window, unless they are those of the last call.
    fn prepare_lists(&mut self, windows: &[Window], symbols: u32) -> Result<(), DeviceError> {
        let key = (windows.len(), symbols);
        if self.listed != Some(key) {
            self.listed = None;
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

    /// Launches the forward and backward recursions and the sums; expected counts stay on the device.
    ///
    /// # Errors
    /// As for [`score`](Self::score).
    pub fn count(&mut self) -> Result<(), DeviceError> {
        let wanted = self.counting();
        let (windows, capacity) = self.windows(wanted);
        let Some(set) = &mut self.set else { return Err(NO_MODELS) };
        // The sums of the last call are overwritten.
        set.has_counts = false;
        let (Places { in_lists, pairs_pitch: len, .. }, symbols) = (Places::new(set, wanted), set.counted());
        if in_lists {
            self.prepare_lists(&windows, symbols)?;
        }
        let (sequences, unit) = (self.sequences, self.sequences.unit());
        let packed = |&m: &u32| sequences.weight(m as usize) / unit;
        let weights: Vec<f64> = match sequences.weights() {
            [] => Vec::new(),
            _ => self.packing.order.iter().map(packed).collect(),
        };
        let Launching { launch, work, set, lists, vectors, partial } = self.launching()?;
        let (device, count, stride) = (launch.device, set.hosts.len(), set.stride);
        let tiles = (stride / TILE).pow(2).max(1) as u32;
        let splits = (PRODUCT_BLOCKS / tiles).clamp(1, capacity.div_ceil(64));
        let parts = set.variant.parts(launch.sequences).unwrap_or(splits);
        let moment_splits = capacity.div_ceil(64).min(MOMENT_PARTS);
        let moments_len = set.gaussians.as_ref().map_or(0, |gaussians| gaussians.moments_len() * stride);
        work.trellis.parts.at_least(device, count * parts as usize * len)?;
        work.counts.sums.at_least(device, count * len)?;
        work.counts.moment_parts.at_least(device, count * moment_splits as usize * moments_len)?;
        work.counts.moments.at_least(device, count * moments_len)?;
        let mut channel_sums = channels::no_sums(&set.hosts);
        // The moments of vectors with missing components.
        let mut completed = vec![0.0; if partial.is_empty() { 0 } else { count * moments_len }];
        sweep(&launch, work, wanted, &windows, capacity, &weights, |work, back, w| {
            if !in_lists {
                return Ok(());
            }
            let Work { trellis, counts, .. } = work;
            if let Some(channels) = set.gaussians.as_ref().and_then(|gaussians| gaussians.channels.as_ref()) {
                let (packed, window) = ((launch.packing, sequences), (&back.window.rows, back.capacity));
                channels.count(device, packed, window, trellis.gamma.get(), &mut channel_sums)?;
            } else if let Some(gaussians) = &set.gaussians {
                let gamma = trellis.gamma.get();
                let rest = gaussians.complete(device, &set.hosts, stride, back, partial, gamma, &mut completed)?;
                gaussians.count(
                    &launch,
                    back,
                    moment_splits,
                    vectors,
                    rest.as_ref().unwrap_or(gamma),
                    counts.moment_parts.get_mut(),
                )?;
            }
            launch.count(back, splits, &lists[w], trellis, counts)
        })?;
        let shape = |len: usize, parts: u32| {
            Shape::new(Dim3 { x: len.div_ceil(32) as u32, y: count as u32, z: 1 }, sum_threads(parts))
        };
        let Counts { sums, moment_parts, moments, .. } = &mut work.counts;
        // SAFETY: the sweep has written `parts` parts of `len` and `moment_splits` parts of `moments_len` elements for
        // each of the `count` models; the sums are sized for them above.
        unsafe {
            if moments_len > 0 {
                let shape = shape(moments_len, moment_splits);
                sum_parts(device, shape, moments_len as u32, moment_splits, moment_parts.get(), moments.get_mut())?;
            }
            sum_parts(device, shape(len, parts), len as u32, parts, work.trellis.parts.get(), sums.get_mut())?;
        }
        if !completed.is_empty() {
            let mut all = device.to_vec(moments.get())?;
            all.iter_mut().zip(&completed).for_each(|(sum, more)| *sum += more);
            device.write(moments.get_mut(), &all)?;
        }
        if let Some(set) = &mut self.set {
            set.has_counts = true;
            set.channel_sums = channel_sums;
            set.missing.clear();
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
        let (places, counts) = (Places::new(set, wanted), &mut self.work.counts);
        (set.host_stale, set.has_counts, set.logs, set.slices) = (true, false, None, None);
        add_missing(device, set, &places, counts)?;
        let Places { in_lists, pairs_pitch, counts_pitch, start, end, symbols } = places;
        let (states, stride) = (set.states, set.stride as u32);
        let Models { start: first, end: last, ends, transitions, transposed, table } = &mut set.models;
        let pairs = counts.sums.get();
        let counts = if in_lists { counts.listed.get() } else { pairs };
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
        let set = self.set.as_ref().ok_or(NO_MODELS)?;
        let sequences = self.sequences;
        let of_channels = set.gaussians.as_ref().is_some_and(|gaussians| gaussians.channels.is_some());
        let restricted = of_channels || set.gaussians.is_some() && !sequences.states().is_empty();
        let on_device = sequences.partial() == 0 && !restricted && sequences.weights().is_empty();
        let found = if set.states <= wide::STATES && on_device {
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
        let set = self.set()?;
        let (n, stride, slots) = (set.states as usize, set.stride, set.counted() as usize);
        let (count, places, layout) = (set.hosts.len(), Places::new(set, self.counting()), self.layout(set));
        let mut sums = vec![0.0; layout.pairs as usize];
        self.device.download(self.work.counts.sums.get(), &mut sums)?;
        let mut listed = vec![0.0; layout.listed as usize];
        self.device.download(self.work.counts.listed.get(), &mut listed)?;
        let moments_len = set.gaussians.as_ref().map_or(0, |gaussians| gaussians.moments_len() * stride);
        let mut moments = vec![0.0; count * moments_len];
        self.device.download(self.work.counts.moments.get(), &mut moments)?;
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
                    Some(gaussians) if gaussians.channels.is_some() => {
                        Statistics::Channels(set.channel_sums[k].clone())
                    }
                    Some(gaussians) => gaussians.statistics(&moments[k * moments_len..], n, stride),
                    None => Statistics::Categorical(by_symbol.collect()),
                },
            };
            expected.scale(self.sequences.unit());
            set.missing.iter().filter(|(at, _)| *at == k).for_each(|(_, missing)| expected.add_counts(missing));
            self.known.fold(&mut expected);
            expected
        });
        Ok(expected.collect())
    }

    /// ln P(O) from the likelihoods on the device; NaN for doubtful sequences.
    fn read_likelihoods(&self) -> Result<Vec<Vec<f64>>, DeviceError> {
        let count = self.set.as_ref().map_or(0, |set| set.hosts.len());
        let (m, likelihoods) = match &self.chunks {
            Some(chunks) => (chunks.sequences(), &self.work.scan.totals),
            None => (self.packing.lengths.len(), &self.work.trellis.likelihoods),
        };
        let mut found = vec![0.0; 2 * m * count];
        self.device.download(likelihoods.get(), &mut found)?;
        self.logarithms(&found)
    }

    /// ln P(O) from P̂ and Σ e: two numbers for each sequence, model by model.
    fn logarithms(&self, found: &[f64]) -> Result<Vec<Vec<f64>>, DeviceError> {
        let packed = self.packing.lengths.len();
        let count = self.set.as_ref().map_or(0, |set| set.hosts.len());
        let m = self.chunks.as_ref().map_or(packed, Chunks::sequences);
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
    counts: &mut Counts,
) -> Result<(), DeviceError> {
    if set.missing.is_empty() {
        return Ok(());
    }
    let (n, stride, slots) = (set.states as usize, set.stride, set.counted() as usize);
    let mut sums = device.to_vec(counts.sums.get())?;
    let mut listed = if places.in_lists { device.to_vec(counts.listed.get())? } else { Vec::new() };
    for (k, missing) in &set.missing {
        let pairs = &mut sums[k * places.pairs_pitch..];
        for (at, (xi, &prob)) in missing.transitions.iter().zip(set.hosts[*k].transitions()).enumerate() {
            if *xi > 0.0 {
                // The device sums ξ without the factor A; divide by the entry of its table.
                pairs[at / n * stride + at % n] += xi / T::from_f64(prob.max(power(entry(T::WIDE)))).to_f64();
            }
        }
        let table = if places.in_lists { &mut listed } else { &mut sums };
        let mut add = |first: usize, of: &dyn Fn(usize) -> f64| {
            let row = &mut table[k * places.counts_pitch + first..][..n];
            row.iter_mut().enumerate().for_each(|(j, count)| *count += of(j));
        };
        add(places.start, &|j| missing.start[j]);
        add(places.end, &|j| missing.end[j]);
        if let Statistics::Categorical(emitted) = &missing.emissions {
            (0..slots).for_each(|v| add(places.symbols + v * stride, &|j| emitted[j * slots + v]));
        }
    }
    device.write(counts.sums.get_mut(), &sums)?;
    if places.in_lists { device.write(counts.listed.get_mut(), &listed) } else { Ok(()) }
}

/// Runs the forward recursion over all windows and stores α̂ of the last one. Then runs the backward recursion from the
/// last window to the first, and before each of the others repeats its forward recursion from a checkpoint. Calls `done`
/// after each backward window. γ and û have the `weights` of the packed sequences, if there are any: β̂_T = w end / P̂.
fn sweep<T: Precise>(
    launch: &Launch<'_, T>,
    work: &mut Work<T>,
    wanted: Wanted,
    windows: &[Window],
    capacity: u32,
    weights: &[f64],
    mut done: impl FnMut(&mut Work<T>, &Back<'_>, usize) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let (device, variant, carried) = (launch.device, launch.variant, launch.cells() * launch.stride);
    let last = windows.len() - 1;
    if let Some(chunks) = launch.chunks {
        launch.chunk_starts(chunks, &mut work.scan)?;
        launch.chunk_ends(chunks, &mut work.scan)?;
    }
    let Work { trellis, checkpoints, scan, .. } = &mut *work;
    while checkpoints.len() < last {
        checkpoints.push(Scratch::new(device)?);
    }
    for w in 0..=last {
        if w > 0 {
            let checkpoint = checkpoints[w - 1].at_least(device, carried)?;
            copy_all(device, carried, trellis.forward_carry.get(), checkpoint)?;
        }
        let starts = launch.chunks.map(|_| scan.starts.get());
        let steps = windows[w].steps.clone();
        variant.forward(launch, &Onward { steps, capacity, store: w == last, again: false, starts }, trellis)?;
    }
    if let Some(chunks) = launch.chunks {
        launch.share_doubts(chunks, trellis, scan)?;
        launch.join_chunks(chunks, trellis, scan)?;
    }
    // Forward recursions that are repeated keep the likelihoods.
    let likelihoods = if weights.is_empty() { Vec::new() } else { device.to_vec(trellis.likelihoods.get())? };
    if !weights.is_empty() {
        let of_sequence = |(pair, weight): (&[f64], &f64)| [pair[0] / weight, pair[1]];
        let weighted = likelihoods.chunks_exact(2).zip(weights.iter().cycle()).flat_map(of_sequence);
        device.write(trellis.likelihoods.get_mut(), &weighted.collect::<Vec<_>>())?;
    }
    for (w, window) in windows.iter().enumerate().rev() {
        let Work { trellis, checkpoints, scan, .. } = &mut *work;
        let more = w < last;
        if more {
            if w > 0 {
                copy_all(device, carried, checkpoints[w - 1].get(), trellis.forward_carry.get_mut())?;
            }
            let starts = launch.chunks.map(|_| scan.starts.get());
            let steps = window.steps.clone();
            variant.forward(launch, &Onward { steps, capacity, store: true, again: true, starts }, trellis)?;
        }
        let back = Back { window, capacity, wanted, more };
        variant.backward(launch, &back, trellis)?;
        done(work, &back, w)?;
    }
    if weights.is_empty() { Ok(()) } else { device.write(work.trellis.likelihoods.get_mut(), &likelihoods) }
}

/// Copies `len` elements, a multiple of 8.
fn copy_all<T: Precise>(
    device: &AnyDevice,
    len: usize,
    from: &AnyBuffer<T>,
    to: &mut AnyBuffer<T>,
) -> Result<(), DeviceError> {
    copy(device, Shape::grid_stride(len as u64 / 4, 256), len as u32 / 4, from, to)
}

impl<T: Precise> Recursions for Batch<'_, T> {
    type Error = DeviceError;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), DeviceError> {
        assert!(fit(models, self.sequences), "models of one shape that emit what was observed");
        let states = models.first().map_or(0, Hmm::states);
        assert!(self.chunks.is_none() || states <= scan::STATES, "sequences are cut for models of at most 64 states");
        let of_symbols = |model: &Hmm| matches!(model.emissions(), Emissions::Categorical { .. });
        let by_slices = self.limits.method == ForwardMethod::Slices;
        assert!(!by_slices || models.iter().all(of_symbols), "slices are for models of symbols");
        let variant = variant::<T>(states);
        let stride = variant.stride();
        // Free the old models before allocating new ones.
        self.set = None;
        let hosts: Vec<Hmm> = models.iter().map(|model| self.known.extended(model)).collect();
        let marked = |model| self.known.marked(&self.symbol, symbols(model) as u32);
        if let Some(marked) = models.first().and_then(marked) {
            self.symbols = self.device.upload(&marked)?;
            self.symbol = marked;
            self.listed = None;
        }
        let mut set = Set {
            symbols: hosts.first().map_or(0, symbols) as u32,
            models: Models::probabilities(self.device, &hosts, stride)?,
            hosts,
            host_stale: false,
            has_counts: false,
            missing: Vec::new(),
            variant,
            states,
            stride,
            logs: None,
            slices: None,
            gaussians: None,
            channel_sums: Vec::new(),
            log_table: None,
        };
        let Self { device, sequences, packing, chunks, lengths, base, vectors, states, partial, .. } = self;
        let lengths = chunks.as_ref().map_or(&*lengths, |chunks| &chunks.on_device.lengths);
        if let Some((gaussians, tables)) =
            Gaussians::new(device, models, sequences, stride, packing, lengths, base, vectors, states, partial)?
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
        let mut logs = match self.set.as_ref().and_then(|set| set.slices.as_ref()) {
            Some(slices) => self.logarithms(&slices.likelihoods(self.device)?)?,
            None => self.read_likelihoods()?,
        };
        self.settle(&mut logs, Asked::Nothing)?;
        Ok(logs)
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, DeviceError> {
        let wanted = Wanted { want: want::POSTERIORS, slots: 0 };
        let (windows, capacity) = self.windows(wanted);
        let set = self.set()?;
        let (n, stride) = (set.states as usize, set.stride);
        let mut all = vec![vec![0.0; self.packing.observation.len() * n]; set.hosts.len()];
        let Launching { launch, work, .. } = self.launching()?;
        let mut found = vec![T::ZERO; all.len() * capacity as usize * stride];
        sweep(&launch, work, wanted, &windows, capacity, &[], |work, Back { window, .. }, _| {
            launch.device.download(work.trellis.gamma.get(), &mut found)?;
            for (all, found) in all.iter_mut().zip(found.chunks_exact(capacity as usize * stride)) {
                let rows = &launch.packing.observation[window.rows.start as usize..window.rows.end as usize];
                for (&at, gamma) in rows.iter().zip(found.chunks_exact(stride)) {
                    let row = &mut all[at as usize * n..][..n];
                    row.iter_mut().zip(gamma).for_each(|(to, from)| *to = from.to_f64());
                }
            }
            Ok(())
        })?;
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
        let set = self.set()?;
        let (rows, m) = (self.packing.observation.len(), self.packing.lengths.len());
        let (mut path, mut score) = (vec![0; rows * set.hosts.len()], vec![0.0; m * set.hosts.len()]);
        self.device.download(self.work.paths.path.get(), &mut path)?;
        self.device.download(self.work.paths.scores.get(), &mut score)?;
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
        let (sequences, known) = (self.sequences, &self.known);
        let tolerance = tolerance(T::WIDE, self.limits.plain_tf32);
        let models = self.set.as_ref().map_or(&[][..], |set| &set.hosts);
        for (expected, model) in all.iter_mut().zip(models) {
            // Each possible sequence contributes Σᵢ γ₁(i) = 1, times its weight.
            let logs = expected.log_likelihoods.iter().enumerate();
            let possible: f64 = logs.filter(|(_, log)| log.is_finite()).map(|(m, _)| sequences.weight(m)).sum();
            let off = (expected.start.iter().sum::<f64>() - possible).abs();
            if off.is_nan() || off > tolerance * possible {
                let which: Vec<u32> = (0..sequences.len() as u32).collect();
                *expected = Exact::new(model).expect(sequences, &which);
                known.fold(expected);
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
        if !self.set()?.has_counts {
            return Ok(Vec::new());
        }
        let expected = self.read_counts(Vec::new())?;
        if let Some(set) = &mut self.set {
            set.has_counts = false;
        }
        Ok(expected)
    }

    fn stored(&self) -> Option<Stored> {
        // Moments are in a buffer of their own, and the host takes the M step from them.
        // Ranks know different pairs of symbols and states, and have different units of weights.
        let set = self.set.as_ref().filter(|set| set.gaussians.is_none() && self.is_plain());
        set.map(|set| self.layout(set))
    }

    unsafe fn add_ranks(&mut self, comm: &dyn Communicator) -> Result<(), runtime::Error> {
        let (device, wanted, Stored { pairs, listed, .. }) = (self.device, self.counting(), self.layout(self.set()?));
        let (Work { counts, ranks, .. }, set) = (&mut self.work, self.set.as_mut());
        if let Some(set) = set {
            add_missing(device, set, &Places::new(set, wanted), counts)?;
            set.missing.clear();
        }
        // SAFETY: the ranks have the same layout, by the caller's promise.
        unsafe {
            ranks.add(device, comm, counts.sums.get_mut(), pairs as usize)?;
            ranks.add(device, comm, counts.listed.get_mut(), listed as usize)
        }
    }

    fn m_step(&mut self, options: &Options) -> Result<(), DeviceError> {
        let set = self.set()?;
        if !set.has_counts {
            return Ok(());
        }
        if let (None, Some(pseudocounts), true) = (&set.gaussians, options.plain(), self.is_plain()) {
            return self.maximise(pseudocounts);
        }
        // Gaussian moments are few, so the host computes the M step with its eigenvalues; and that with other options.
        let expected = self.read_counts(Vec::new())?;
        let mut models = self.models()?;
        let floors = self.spread.floors(options.floor);
        let pairs = models.par_iter_mut().zip(&expected);
        pairs.for_each(|(model, expected)| maximise(model, expected, options, &floors));
        self.set_models(&models)
    }

    fn weights(&self) -> &[f64] {
        self.sequences.weights()
    }

    fn models(&mut self) -> Result<Vec<Hmm>, DeviceError> {
        self.refresh()?;
        Ok(self.set()?.hosts.iter().map(|model| self.known.reduced(model)).collect())
    }
}
