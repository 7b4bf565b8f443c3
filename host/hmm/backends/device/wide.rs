//! Recomputation of doubtful sequences on the device, by the [exact recursions](warpkov_kernels::hmm::wide) in `f64`
//! with an exponent per number.

use std::cmp::Reverse;
use std::f64::consts::LN_2;
use std::ops::Range;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use rayon::prelude::*;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::hmm::gaussian::{GaussiansArgs, moments_len};
use warpkov_kernels::hmm::wide::{
    self, DoubtfulArgs, PLACES, TermsArgs, WideModelArgs, counts_len, pair, take_again, wanted, wide_shared,
};
use warpkov_kernels::primitives::sum::{sum_parts, sum_threads};

use crate::backend::{Expected, Statistics};
use crate::backends::device::chunks::Chunks;
use crate::backends::device::gaussian::Gaussians;
use crate::backends::device::packing::Packing;
use crate::model::{Emissions, Hmm};
use crate::sequences::Sequences;
use warpkov_runtime::scratch::scratch;

/// Maximum number of states.
pub const STATES: u32 = wide::STATES;

/// Maximum number of blocks with partial sums of their own, and the memory of these sums in bytes.
const PARTS: usize = 4096;
const SUMS: usize = 256 << 20;

/// Maximum memory for α and γ in bytes, beside that of the batch: enough for thousands of sequences per launch.
pub const TRELLIS: usize = 2 << 30;

/// The doubtful sequences under one model.
pub struct Doubtful {
    /// Index of the model.
    pub model: usize,
    /// Indices of the sequences, ascending.
    pub which: Vec<u32>,
}

/// Results to compute beside ln P(O).
pub enum Asked<'a> {
    Nothing,
    /// γ, written to the sequences' rows in the ΣT × N numbers of each model.
    Posteriors(&'a mut [Vec<f64>]),
    /// Expected counts of the doubtful sequences, appended per model.
    Counts(&'a mut Vec<(usize, Expected)>),
}

scratch! {
    /// Scratch memory, reused between launches.
    pub struct Work {
        alpha: f64,
        gamma: f64,
        likelihoods: f64,
        parts: f64,
        sums: f64,
    }
}

/// Inputs of a recomputation: the device data of a batch, and its models.
pub struct Recomputation<'a> {
    pub device: &'a AnyDevice,
    pub sequences: &'a Sequences,
    pub packing: &'a Packing,
    pub chunks: Option<&'a Chunks>,
    pub base: &'a AnyBuffer<u32>,
    pub symbol: &'a AnyBuffer<u32>,
    pub vectors: &'a AnyBuffer<f64>,
    pub gaussians: Option<&'a Gaussians>,
    pub models: &'a [Hmm],
    pub stride: usize,
    /// Bytes for α and γ.
    pub trellis: usize,
}

/// The nonzeros of the matrices of all models, in ELLPACK layout: `width` terms for each of N sums, padded with zeros.
struct Sparse {
    width: usize,
    /// Index of term k of sum j of a model at (model · `width` + k) · N + j.
    indices: Vec<u32>,
    index: AnyBuffer<u32>,
    values: AnyBuffer<f64>,
}

impl Sparse {
    /// `count` matrices; `entry(model, j, i)` is term i of sum j.
    fn new(
        device: &AnyDevice,
        count: usize,
        n: usize,
        entry: impl Fn(usize, usize, usize) -> f64 + Copy,
    ) -> Result<Self, DeviceError> {
        let terms = |k: usize, j: usize| (0..n).filter(move |&i| entry(k, j, i) > 0.0);
        let sums = || (0..count).flat_map(|k| (0..n).map(move |j| (k, j)));
        let width = sums().map(|(k, j)| terms(k, j).count()).max().unwrap_or(0);
        let mut indices = vec![0; count * width * n];
        let mut values: Vec<f64> = pair(0.0).repeat(indices.len());
        for (k, j) in sums() {
            for (place, i) in terms(k, j).enumerate() {
                let at = (k * width + place) * n + j;
                indices[at] = i as u32;
                values[2 * at..2 * at + 2].copy_from_slice(&pair(entry(k, j, i)));
            }
        }
        Ok(Self { width, index: device.upload(&indices)?, values: device.upload(&values)?, indices })
    }
}

impl Sparse {
    /// Kernel arguments.
    fn args(&self) -> TermsArgs<'_, AnyDevice> {
        TermsArgs { width: self.width as u32, index: &self.index, values: &self.values }
    }
}

/// A sequence to recompute.
struct Item {
    /// Index into the list of [`Doubtful`].
    slot: usize,
    sequence: u32,
    steps: usize,
    /// Steps whose α is stored at one time.
    stretch: usize,
    /// Rows of α: those of a stretch, and the checkpoints.
    rows: usize,
}

/// The items of one launch, and the rows of α and of γ that they need.
struct Round {
    items: Range<usize>,
    rows: usize,
    shown: usize,
}

fn pairs(x: impl Iterator<Item = f64>) -> Vec<f64> {
    x.flat_map(pair).collect()
}

/// The models of the doubtful sequences in device memory: slot k is the model of element k of the list of [`Doubtful`].
struct Uploads<'a> {
    models: Vec<&'a Hmm>,
    /// States and symbols of each model.
    states: usize,
    symbols: usize,
    /// Index of each slot's model in the batch.
    own: AnyBuffer<u32>,
    start: AnyBuffer<f64>,
    end: AnyBuffer<f64>,
    /// Emission probabilities of symbols.
    table: AnyBuffer<f64>,
    /// A by columns.
    into: Sparse,
    /// A by rows; empty where no backward recursion needs it.
    onward: Sparse,
    /// Numbers of a block's sums of counts, and the blocks of a slot that have such sums.
    counts: usize,
    blocks: usize,
}

impl<'a> Uploads<'a> {
    fn new(of: &Recomputation<'a>, doubtful: &[Doubtful], wants: u32) -> Result<Self, DeviceError> {
        let device = of.device;
        let models: Vec<&Hmm> = doubtful.iter().map(|doubtful| &of.models[doubtful.model]).collect();
        let (count, first) = (models.len(), of.models.first());
        let n = first.map_or(0, |model| model.start().len());
        let symbols = first.map_or(0, crate::backends::device::model::symbols);
        let into = Sparse::new(device, count, n, |slot, j, i| models[slot].transitions()[i * n + j])?;
        let onward = match wants {
            wanted::NOTHING => Sparse::new(device, 0, n, |_, _, _| 0.0)?,
            _ => Sparse::new(device, count, n, |slot, i, j| models[slot].transitions()[i * n + j])?,
        };
        let start = device.upload(&pairs(models.iter().flat_map(|model| model.start().iter().copied())))?;
        let ends = models.iter().flat_map(|model| (0..n).map(|j| model.end().map_or(1.0, |end| end[j])));
        let end = device.upload(&pairs(ends))?;
        let table = device.upload(&pairs((0..count * symbols * n).map(|at| {
            let (row, j) = (at / n, at % n);
            match models[row / symbols].emissions() {
                Emissions::Categorical { probs, .. } => probs[j * symbols + row % symbols],
                Emissions::Gaussian { .. } | Emissions::Channels(_) => 0.0,
            }
        })))?;
        let own = device.upload(&doubtful.iter().map(|doubtful| doubtful.model as u32).collect::<Vec<_>>())?;
        let emitted = match of.gaussians {
            Some(gaussians) if gaussians.dimensions > 0 => moments_len(gaussians.dimensions, gaussians.full),
            _ => symbols,
        };
        let counts = counts_len(n, onward.width, emitted);
        let most = doubtful.iter().map(|doubtful| doubtful.which.len()).max().unwrap_or(0);
        let blocks = most.min(PARTS).min(SUMS / (8 * counts * count).max(1)).max(1);
        Ok(Self { models, states: n, symbols, own, start, end, table, into, onward, counts, blocks })
    }

    /// Kernel arguments.
    fn args(&self) -> WideModelArgs<'_, AnyDevice> {
        WideModelArgs {
            states: self.states as u32,
            symbols: self.symbols as u32,
            start: &self.start,
            end: &self.end,
            table: &self.table,
            into: self.into.args(),
            onward: self.onward.args(),
        }
    }
}

impl<'a> Recomputation<'a> {
    /// Recomputes the sequences. Returns their ln P(O) in order, and fills `asked`. ln P(O) is NaN where the forward
    /// and backward recursions of a sequence disagree.
    pub fn run(
        &self,
        work: &mut Work,
        doubtful: &[Doubtful],
        asked: &mut Asked<'_>,
    ) -> Result<Vec<Vec<f64>>, DeviceError> {
        let wants = match asked {
            Asked::Nothing => wanted::NOTHING,
            Asked::Posteriors(_) => wanted::POSTERIORS,
            Asked::Counts(_) => wanted::COUNTS,
        };
        let uploads = Uploads::new(self, doubtful, wants)?;
        if wants == wanted::COUNTS {
            work.parts.cleared(self.device, doubtful.len() * uploads.blocks * uploads.counts)?;
        }
        let items = self.items(doubtful, uploads.states, wants);
        let mut logs: Vec<Vec<f64>> = doubtful.iter().map(|doubtful| vec![0.0; doubtful.which.len()]).collect();
        for round in self.rounds(&items, uploads.states, wants) {
            let items = &items[round.items.clone()];
            let probs = self.launch(&uploads, items, &round, wants, work)?;
            for (item, prob) in items.iter().zip(probs.chunks_exact(2)) {
                // `which` ascends.
                let place = doubtful[item.slot].which.partition_point(|&sequence| sequence < item.sequence);
                let log = if prob[0] == 0.0 { f64::NEG_INFINITY } else { prob[0].ln() + prob[1] * LN_2 };
                logs[item.slot][place] = log;
            }
            if let Asked::Posteriors(all) = asked {
                self.read_posteriors(work, items, round.shown, doubtful, all)?;
            }
        }
        if let Asked::Counts(missing) = asked {
            let expected = self.read_counts(work, &uploads, &logs)?;
            missing.extend(doubtful.iter().map(|doubtful| doubtful.model).zip(expected));
        }
        Ok(logs)
    }

    /// Runs the kernel on the items of a round. Returns P(O) of each as a pair of a number and its exponent. γ and the sums of
    /// the counts stay in `work`.
    fn launch(
        &self,
        uploads: &Uploads,
        items: &[Item],
        round: &Round,
        wants: u32,
        work: &mut Work,
    ) -> Result<Vec<f64>, DeviceError> {
        let (device, n, count) = (self.device, uploads.states, uploads.models.len());
        let (first, places, chain) = self.places(items, count);
        let widest = first.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let grid = if wants == wanted::COUNTS { uploads.blocks as u32 } else { widest };
        let shape = Shape::new(Dim3 { x: grid, y: count as u32, z: 1 }, wide::threads(n as u32));
        let shape = shape.with_shared(wide_shared(n as u32));
        // The download waits for the kernel, which reads these.
        let (first, places, chain) = (&device.upload(&first)?, &device.upload(&places)?, &device.upload(&chain)?);
        let Work { alpha, gamma, likelihoods, parts, .. } = work;
        let alpha = alpha.at_least(device, 2 * round.rows * n)?;
        let (likelihoods, parts) = (likelihoods.at_least(device, 2 * items.len())?, parts.get_mut());
        let gamma = gamma.at_least(device, round.shown * n)?;
        // Placeholders for categorical emissions: the kernel does not read them when `dimensions` is 0.
        let start = &uploads.start;
        let nothing = GaussiansArgs { stride: 0, dimensions: 0, full: 0, mean: start, inverse: start, constant: start };
        let normal = self.gaussians.map_or(nothing, |gaussians| gaussians.args(self.stride));
        let (models, until) = (&uploads.own, self.chunks.map_or(u32::MAX, |chunks| chunks.steps));
        let doubtful = DoubtfulArgs { until, first, models, places, chain, base: self.base, symbol: self.symbol };
        let (model, vectors) = (uploads.args(), self.vectors);
        macro_rules! launch {
            ($wanted:literal) => {
                take_again::<$wanted, _>(
                    device,
                    shape,
                    doubtful,
                    model,
                    normal,
                    vectors,
                    alpha,
                    likelihoods,
                    gamma,
                    parts,
                )?
            };
        }
        // SAFETY: `Packing` derives rows in bounds from the offsets that `Sequences` guarantees, and `places` and
        // `chain` name such rows only. `fit` guarantees a row of the emission table for every symbol, `Hmm` the
        // shapes of all tables. `rounds` has summed the rows that α and γ need, and `parts` has `counts` elements per
        // block.
        unsafe {
            match wants {
                wanted::NOTHING => launch!(0),
                wanted::POSTERIORS => launch!(1),
                _ => launch!(2),
            }
        }
        let mut probs = vec![0.0; 2 * items.len()];
        device.download(likelihoods, &mut probs)?;
        Ok(probs)
    }

    /// Copies γ of the items, `shown` rows, to those of their sequences.
    fn read_posteriors(
        &self,
        work: &Work,
        items: &[Item],
        shown: usize,
        doubtful: &[Doubtful],
        all: &mut [Vec<f64>],
    ) -> Result<(), DeviceError> {
        let n = self.models.first().map_or(0, |model| model.start().len());
        let mut found = vec![0.0; shown * n];
        self.device.download(work.gamma.get(), &mut found)?;
        let mut rest = &found[..];
        let mut shown: Vec<(&Item, &[f64])> = Vec::with_capacity(items.len());
        for item in items {
            let (gamma, behind) = rest.split_at(item.steps * n);
            shown.push((item, gamma));
            rest = behind;
        }
        shown.sort_by_key(|(item, _)| (item.slot, item.sequence));
        for shown in shown.chunk_by(|(a, _), (b, _)| a.slot == b.slot) {
            self.show(shown, &mut all[doubtful[shown[0].0.slot].model], n);
        }
        Ok(())
    }

    /// Sums the counts of all blocks: those of each slot.
    fn read_counts(&self, work: &mut Work, uploads: &Uploads, logs: &[Vec<f64>]) -> Result<Vec<Expected>, DeviceError> {
        let (device, count, len) = (self.device, uploads.models.len(), uploads.counts);
        let sums = work.sums.at_least(device, count * len)?;
        let shape = Dim3 { x: len.div_ceil(32) as u32, y: count as u32, z: 1 };
        let shape = Shape::new(shape, sum_threads(uploads.blocks as u32));
        // SAFETY: `parts` has `blocks` parts of `len` elements per model, cleared before the first launch; `sums`
        // has one per model.
        unsafe { sum_parts(device, shape, len as u32, uploads.blocks as u32, work.parts.get(), sums)? };
        let mut found = vec![0.0; count * len];
        device.download(sums, &mut found)?;
        let entries = uploads.onward.width * uploads.states;
        let expected =
            found.chunks_exact(len).zip(&uploads.models).zip(logs).enumerate().map(|(slot, ((sums, model), logs))| {
                self.expected(model, sums, &uploads.onward.indices[slot * entries..][..entries], logs.clone())
            });
        Ok(expected.collect())
    }

    /// Copies γ of the sequences, in ascending order, to their rows in `all`.
    fn show(&self, shown: &[(&Item, &[f64])], all: &mut [f64], n: usize) {
        let (mut rest, mut before, mut targets) = (all, 0, Vec::with_capacity(shown.len()));
        for (item, gamma) in shown {
            let first = self.sequences.range(item.sequence as usize).start * n;
            let (target, behind) = rest.split_at_mut(first - before).1.split_at_mut(gamma.len());
            targets.push((target, *gamma));
            (rest, before) = (behind, first + gamma.len());
        }
        targets.into_par_iter().for_each(|(target, gamma)| target.copy_from_slice(gamma));
    }

    /// The sequences to recompute, by model and descending length.
    fn items(&self, doubtful: &[Doubtful], n: usize, wants: u32) -> Vec<Item> {
        let row = n * if wants == wanted::POSTERIORS { 24 } else { 16 };
        let mut items: Vec<Item> = Vec::new();
        for (slot, Doubtful { which, .. }) in doubtful.iter().enumerate() {
            let first = items.len();
            items.extend(which.iter().map(|&sequence| {
                let steps = self.sequences.range(sequence as usize).len();
                let whole = wants == wanted::NOTHING || steps.saturating_mul(row) <= self.trellis;
                let stretch = if whole { steps } else { steps.isqrt() + 1 };
                let rows = if wants == wanted::NOTHING { 0 } else { stretch + steps.div_ceil(stretch) - 1 };
                Item { slot, sequence, steps, stretch, rows }
            }));
            items[first..].sort_by_key(|item| Reverse(item.steps));
        }
        items
    }

    /// Splits the items into launches that fit in memory, at least one item each.
    fn rounds(&self, items: &[Item], n: usize, wants: u32) -> Vec<Round> {
        let mut rounds: Vec<Round> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let shown = if wants == wanted::POSTERIORS { item.steps } else { 0 };
            match rounds.last_mut() {
                Some(round) if (2 * (round.rows + item.rows) + round.shown + shown) * 8 * n <= self.trellis => {
                    round.items.end = at + 1;
                    round.rows += item.rows;
                    round.shown += shown;
                }
                _ => rounds.push(Round { items: at..at + 1, rows: item.rows, shown }),
            }
        }
        rounds
    }

    /// Kernel indices: pointers to the first item of each model and the end; the place of each item; the packed indices
    /// of the items' chunks.
    fn places(&self, items: &[Item], count: usize) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let first = (0..=count).map(|slot| items.partition_point(|item| item.slot < slot) as u32).collect();
        let (mut places, mut chain) = (Vec::with_capacity(PLACES * items.len()), Vec::new());
        let (mut row, mut shown) = (0, 0);
        // Packed index of each sequence; unused where the packing holds chunks.
        let mut of_sequence = vec![0; if self.chunks.is_none() { self.sequences.len() } else { 0 }];
        if self.chunks.is_none() {
            self.packing.order.iter().zip(0..).for_each(|(&sequence, m)| of_sequence[sequence as usize] = m);
        }
        for item in items {
            places.extend([chain.len() as u32, item.steps as u32, row, item.stretch as u32, shown]);
            match self.chunks {
                Some(chunks) => chain.extend(chunks.of_sequence(item.sequence as usize)),
                None => chain.push(of_sequence[item.sequence as usize]),
            }
            row += item.rows as u32;
            shown += item.steps as u32;
        }
        (first, places, chain)
    }

    /// Expected counts from the sums of the kernel. `indices` are the column indices of the nonzeros of A.
    fn expected(&self, model: &Hmm, sums: &[f64], indices: &[u32], log_likelihoods: Vec<f64>) -> Expected {
        let n = model.start().len();
        let (xi, rest) = sums.split_at(indices.len());
        let (start, rest) = rest.split_at(n);
        let (end, emitted) = rest.split_at(n);
        let mut transitions = vec![0.0; n * n];
        for (at, (&xi, &j)) in xi.iter().zip(indices).enumerate() {
            transitions[at % n * n + j as usize] += xi;
        }
        let symbols = crate::backends::device::model::symbols(model);
        let emissions = match self.gaussians {
            Some(gaussians) => gaussians.statistics(emitted, n, n),
            None => {
                Statistics::Categorical((0..n * symbols).map(|at| emitted[at % symbols * n + at / symbols]).collect())
            }
        };
        Expected { log_likelihoods, start: start.to_vec(), transitions, end: end.to_vec(), emissions }
    }
}
