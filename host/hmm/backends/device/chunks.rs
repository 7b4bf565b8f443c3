//! Few long sequences, cut into chunks for a parallel [scan](warpkov_kernels::hmm::scan) over time.

use warpkov_device::launch::Device;
use warpkov_kernels::hmm::model::{ChainsArgs, ModelArgs, NewOperatorsArgs, OperatorsArgs, SequencesArgs};
use warpkov_kernels::hmm::scan;
use warpkov_kernels::hmm::scan::maxima::{
    chunk_maxima, chunk_paths, chunk_scores, link_chunks, maxima_shared, pin_chunks,
};
use warpkov_kernels::hmm::scan::sums::{
    GROUPS, THREADS, chunk_ends, chunk_operators, chunk_starts, join_chunks, operators_shared, share_doubts,
};
use warpkov_kernels::hmm::trace::trace;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::backends::device::launch::{Launch, instance};
use crate::backends::device::model::Models;
use crate::backends::device::packing::Packing;
use crate::backends::device::trellis::{Paths, Trellis};
use crate::sequences::Sequences;
use warpkov_common::choice::choice;
use warpkov_runtime::Precise;
use warpkov_runtime::scratch::scratch;

/// Steps per chunk: a constant, so that the bits of a sequence do not depend on the other sequences of the batch.
pub const STEPS: u32 = 512;

choice! {
    /// Use of the parallel scan over time, which processes chunks of a sequence in parallel.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Scan {
        /// Scan if an estimate finds it faster.
        #[default]
        Auto = "auto",
        /// Never scan.
        Never = "never",
        /// Scan for all models of at most 64 states.
        Always = "always",
    }
}

/// What a recursion over time computes of all paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverPaths {
    /// Sums: likelihoods, posteriors, expected counts.
    Sums,
    /// Maxima: the most probable paths.
    Maxima,
}

impl OverPaths {
    /// Approximate number of groups of 8 rows of operators that a device of 132 multiprocessors processes at once, by measurement on an H200
    /// (`benches/results/2026-11-27-h200.md`). Sums run on tensor cores.
    const fn at_once(self) -> f64 {
        match self {
            Self::Sums => 2048.0,
            Self::Maxima => 512.0,
        }
    }
}

impl Scan {
    /// Maximum number of states.
    pub const STATES: u32 = scan::STATES;

    /// Least estimated speedup for [`Scan::Auto`].
    const GAIN: f64 = 4.0;

    /// Steps per chunk, or `None` without a scan.
    ///
    /// The estimate counts dependent steps. The plain recursion has T of them, where T is the length of the longest
    /// sequence. With chunks of L steps the scan has three parts. The operators take ⌈N/8⌉ groups of 8 recursions over
    /// ΣT steps in total, of which 2048 run at once for sums and 512 for maxima. Products of operators with vectors take T/L steps. The forward and
    /// backward passes within chunks take about 3 L steps. `Auto` scans if T is at least four times their sum: for one
    /// sequence from about T = 7 000, and never for many sequences, which fill the device without a scan.
    #[must_use]
    pub fn steps(self, over: OverPaths, states: u32, models: usize, sequences: &Sequences) -> Option<u32> {
        let longest = (0..sequences.len()).map(|m| sequences.range(m).len()).max().unwrap_or(0) as f64;
        let length = f64::from(STEPS);
        let operators = models as f64 * sequences.steps() as f64 * f64::from(states.div_ceil(8)) / over.at_once();
        let scanned = operators + longest / length + 3.0 * length;
        let cut = match self {
            Self::Auto => states <= Self::STATES && Self::GAIN * scanned <= longest,
            Self::Never => false,
            Self::Always => states <= Self::STATES,
        };
        cut.then_some(STEPS)
    }
}

/// The chunks of all sequences. Their packing has chunks in place of sequences.
pub struct Chunks {
    /// Steps per chunk, except for the last chunk of a sequence.
    pub steps: u32,
    /// Number of chunks with a successor. They have the lowest packed indices.
    pub open: u32,
    /// Packed indices of the chunks, sequence by sequence, in order of time.
    chain: Vec<u32>,
    /// Pointers into `chain`, one per sequence and the end.
    link: Vec<u32>,
    /// Device copies.
    pub on_device: OnDevice,
}

/// Device copies of [`Chunks`], and the length of each chunk.
pub struct OnDevice {
    pub chain: AnyBuffer<u32>,
    pub link: AnyBuffer<u32>,
    pub lengths: AnyBuffer<u32>,
}

impl Chunks {
    /// Cuts the sequences into chunks of `steps` steps. Returns the chunks, their packing, and the lengths for kernels,
    /// which are one larger for chunks with a successor.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(
        device: &AnyDevice,
        sequences: &Sequences,
        steps: u32,
    ) -> Result<(Self, Packing, Vec<u32>), DeviceError> {
        let (offsets, link) = cut(sequences.offsets(), steps);
        let mut last = vec![false; offsets.len() - 1];
        link[1..].iter().for_each(|&end| last[end as usize - 1] = true);
        let mut packing = Packing::from_offsets(&offsets, |p| !last[p as usize]);
        let mut chain = vec![0; last.len()];
        packing.order.iter().zip(0..).for_each(|(&p, m)| chain[p as usize] = m);
        packing.begins = link[..link.len() - 1].iter().map(|&p| chain[p as usize]).collect();
        packing.ends = link[1..].iter().map(|&end| chain[end as usize - 1]).collect();
        let told = packing.order.iter().zip(&packing.lengths);
        let told = told.map(|(&p, &length)| length + u32::from(!last[p as usize])).collect();
        let open = last.iter().filter(|last| !**last).count() as u32;
        let on_device = OnDevice {
            chain: device.upload(&chain)?,
            link: device.upload(&link)?,
            lengths: device.upload(&packing.lengths)?,
        };
        Ok((Self { steps, open, chain, link, on_device }, packing, told))
    }

    /// Kernel arguments.
    fn chains(&self) -> ChainsArgs<'_, AnyDevice> {
        let OnDevice { chain, link, .. } = &self.on_device;
        ChainsArgs { chunks: self.chain.len() as u32, order: chain, link }
    }

    /// Number of original sequences.
    pub fn sequences(&self) -> usize {
        self.link.len() - 1
    }

    /// Packed indices of the chunks of a sequence, in order of time.
    pub fn of_sequence(&self, sequence: usize) -> &[u32] {
        &self.chain[self.link[sequence] as usize..self.link[sequence + 1] as usize]
    }

    /// Sums a number per chunk over each sequence, in order of time.
    pub fn sums(&self, of_chunks: &[f64]) -> Vec<f64> {
        let sum = |sequence| self.of_sequence(sequence).iter().map(|&m| of_chunks[m as usize]).sum();
        (0..self.sequences()).map(sum).collect()
    }
}

scratch! {
    /// Memory of the scan, reused between launches.
    pub struct Work<T: Precise> {
        /// Operators of chunks.
        operators: f64,
        /// Scales of the operators' rows.
        scales: f64,
        /// Prediction at the start of each chunk.
        pub starts: T,
        /// Vector that follows each chunk.
        pub behind: T,
        /// Likelihoods of original sequences.
        pub totals: f64,
        /// Viterbi: for each successor state the last state of the chunk.
        lasts: u32,
        /// Viterbi: for each successor state the first state of the chunk.
        firsts: u32,
        /// Viterbi: the last state of the previous chunk, and the last state of the chunk.
        bounds: u32,
    }
}

impl<T: Precise> Launch<'_, T> {
    /// Computes the operators of all chunks, the prediction at the start of each chunk, and the likelihoods of
    /// sequences.
    pub(super) fn chunk_starts(&self, chunks: &Chunks, work: &mut Work<T>) -> Result<(), DeviceError> {
        let Self { device, count, states, stride, sequences, symbols, models, .. } = *self;
        let (all, model) = (self.sequences(), models.args(symbols));
        let Work { operators, scales, starts, totals, .. } = work;
        let cells = self.cells() * stride;
        let (operators, scales) = (operators.at_least(device, cells * stride)?, scales.at_least(device, cells)?);
        let starts = starts.at_least(device, cells)?;
        let of_sequences = chunks.sequences();
        let totals = totals.at_least(device, 2 * count as usize * of_sequences)?;
        let chains = chunks.chains();
        let tiles = stride / 8;
        let blocks = (sequences * states.div_ceil(8)).div_ceil(GROUPS);
        let shape = self.shape(blocks, THREADS).with_shared(operators_shared(tiles));
        // SAFETY: as in `Launch::forward`, with chunks in place of sequences: `Sequences`, `Packing`, `fit` and `Hmm`
        // guarantee rows, symbols and shapes in bounds. The buffers have `cells` operators, rows or elements; `cut`
        // lists each chunk once in `chain` and `link`.
        unsafe {
            instance!(tiles;
                1 => chunk_operators::<1>, 2 => chunk_operators::<2>, 4 => chunk_operators::<4>, 8 => chunk_operators::<8>;
                (device, shape, all, model, states, chunks.steps,
                 NewOperatorsArgs { values: &mut *operators, scales: &mut *scales }))?;
            let operators = OperatorsArgs { values: operators, scales };
            let shape = self.shape(of_sequences as u32, 4 * stride as u32);
            instance!(stride;
                8 => chunk_starts::<8>, 16 => chunk_starts::<16>, 32 => chunk_starts::<32>, 64 => chunk_starts::<64>;
                (device, shape, chains, model, states, operators, starts, totals))
        }
    }

    /// Marks all chunks of a sequence as doubtful if one of them is. Runs after the forward recursion.
    pub(super) fn share_doubts(
        &self,
        chunks: &Chunks,
        trellis: &mut Trellis<T>,
        work: &mut Work<T>,
    ) -> Result<(), DeviceError> {
        let (likelihoods, totals) = (trellis.likelihoods.get_mut(), work.totals.get_mut());
        let shape = self.shape(chunks.sequences() as u32, 32);
        // SAFETY: `likelihoods` has a pair per chunk and model, `totals` a pair per sequence and model, and `chain` and
        // `link` list each chunk once.
        unsafe { share_doubts(self.device, shape, chunks.chains(), likelihoods, totals) }
    }

    /// Computes the vector that follows each chunk, from the operators of [`chunk_starts`](Self::chunk_starts).
    pub(super) fn chunk_ends(&self, chunks: &Chunks, work: &mut Work<T>) -> Result<(), DeviceError> {
        let Self { device, states, stride, symbols, models, .. } = *self;
        let Work { operators, scales, starts, behind, .. } = work;
        let behind = behind.at_least(device, self.cells() * stride)?;
        let (operators, starts) = (OperatorsArgs { values: operators.get(), scales: scales.get() }, starts.get());
        let (chains, model) = (chunks.chains(), models.args(symbols));
        let shape = self.shape(chunks.sequences() as u32, 4 * stride as u32);
        // SAFETY: as in `chunk_starts`, which has filled the operators and `starts`.
        unsafe {
            instance!(stride;
                8 => chunk_ends::<8>, 16 => chunk_ends::<16>, 32 => chunk_ends::<32>, 64 => chunk_ends::<64>;
                (device, shape, chains, model, states, operators, starts, behind))
        }
    }

    /// Starts the backward recursion of each chunk with a successor from the vector that follows it. Runs after the
    /// forward recursion, which leaves α̂ of the last steps.
    pub(super) fn join_chunks(
        &self,
        chunks: &Chunks,
        trellis: &mut Trellis<T>,
        work: &Work<T>,
    ) -> Result<(), DeviceError> {
        let carry = trellis.backward_carry.at_least(self.device, self.cells() * self.stride)?;
        if chunks.open == 0 {
            return Ok(());
        }
        let (transitions, likelihoods) = (&self.models.transitions, trellis.likelihoods.get());
        let (behind, ends, stride) = (work.behind.get(), trellis.forward_carry.get(), self.stride as u32);
        let shape = self.shape(chunks.open, 32);
        // SAFETY: the forward recursion has written to `ends` the last α̂ of the chunks below `open`; all buffers have
        // `cells` rows of `stride` elements.
        unsafe {
            join_chunks(self.device, shape, self.sequences, stride, transitions, likelihoods, behind, ends, carry)
        }
    }

    /// Computes the paths and scores of all chunks.
    pub(super) fn decode_chunks(
        &self,
        chunks: &Chunks,
        logs: &Models<T>,
        trellis: &mut Trellis<T>,
        paths: &mut Paths,
        work: &mut Work<T>,
    ) -> Result<(), DeviceError> {
        let Self { device, count, states, stride, sequences, symbols, rows, lengths, .. } = *self;
        let (told, logs) = (self.sequences(), logs.args(symbols));
        let Work { operators, scales, starts, behind, lasts, firsts, bounds, .. } = work;
        let (cells, all) = (self.cells(), count as usize * rows as usize);
        let (operators, scales) =
            (operators.at_least(device, cells * stride * stride)?, scales.at_least(device, cells * stride)?);
        let (starts, ends) = (starts.at_least(device, cells * stride)?, behind.at_least(device, cells * stride)?);
        let (lasts, firsts) = (lasts.at_least(device, cells * stride)?, firsts.at_least(device, cells * stride)?);
        let (bounds, scores) = (bounds.at_least(device, 2 * cells)?, paths.scores.at_least(device, cells)?);
        let (delta, path) = (trellis.alpha.at_least(device, all * stride)?, paths.path.at_least(device, all)?);
        let (chains, own_lengths) = (chunks.chains(), &chunks.on_device.lengths);
        let (of_sequences, until, width) = (chunks.sequences() as u32, chunks.steps, stride as u32);
        // SAFETY: as in `chunk_starts`; `delta` and `path` have `rows` rows per model.
        unsafe {
            if chunks.open > 0 {
                let shape = self.shape(chunks.open, 4 * width).with_shared(maxima_shared(stride, size_of::<T>()));
                instance!(stride;
                    8 => chunk_maxima::<8>, 16 => chunk_maxima::<16>, 32 => chunk_maxima::<32>, 64 => chunk_maxima::<64>;
                    (device, shape, told, logs, states, until,
                     NewOperatorsArgs { values: &mut *operators, scales: &mut *scales }))?;
            }
            let operators = OperatorsArgs { values: operators, scales };
            let shape = self.shape(of_sequences, 4 * width);
            instance!(stride;
                8 => chunk_scores::<8>, 16 => chunk_scores::<16>, 32 => chunk_scores::<32>, 64 => chunk_scores::<64>;
                (device, shape, chains, logs, states, operators, &mut *starts))?;
            let threads = width.max(32);
            let shape = self.shape(sequences.div_ceil(threads / width), threads);
            instance!(stride;
                8 => chunk_paths::<8>, 16 => chunk_paths::<16>, 32 => chunk_paths::<32>, 64 => chunk_paths::<64>;
                (device, shape, told, logs, until, &*starts, &mut *delta, &mut *lasts, &mut *firsts))?;
            let shape = self.shape(of_sequences, 32);
            link_chunks(device, shape, chains, width, lasts, firsts, &mut *bounds)?;
            let shape = self.shape(sequences, 32);
            pin_chunks(device, shape, width, until, lengths, bounds, logs, &mut *starts, &mut *ends)?;
            let told = SequencesArgs { lengths: own_lengths, ..told };
            let pinned = ModelArgs { start: starts, end: ends, ..logs };
            trace::<T, 1, _>(device, shape, told, pinned, width, 1, delta, path, scores)
        }
    }
}

/// Offsets of chunks of at most `steps` steps, and pointers to the first chunk of each sequence, with the end.
fn cut(offsets: &[u64], steps: u32) -> (Vec<u64>, Vec<u32>) {
    let (mut chunks, mut link) = (Vec::new(), Vec::new());
    for pair in offsets.windows(2) {
        link.push(chunks.len() as u32);
        chunks.extend((pair[0]..pair[1]).step_by(steps.max(1) as usize));
    }
    link.push(chunks.len() as u32);
    chunks.extend(offsets.last());
    (chunks, link)
}

#[cfg(test)]
mod tests {
    use warpkov_device::emulator::Emulator;

    use super::OverPaths::{Maxima, Sums};
    use super::*;

    #[test]
    fn chunks_lie_open_ones_first() {
        let sequences = Sequences::of_symbols(&[vec![0; 4], vec![0; 9], vec![0; 3]]).unwrap();
        assert_eq!(cut(sequences.offsets(), 4), (vec![0, 4, 8, 12, 13, 16], vec![0, 1, 4, 5]));
        let (chunks, packing, told) = Chunks::new(&Emulator::default().into(), &sequences, 4).unwrap();
        assert_eq!(packing.order, [1, 2, 0, 4, 3]);
        assert_eq!(packing.lengths, [4, 4, 4, 3, 1]);
        assert_eq!((told, chunks.open), (vec![5, 5, 4, 3, 1], 2));
        assert_eq!((packing.begins, packing.ends), (vec![2, 0, 3], vec![2, 4, 3]));
        assert_eq!(chunks.sums(&[1.0, 2.0, 4.0, 8.0, 16.0]), [4.0, 19.0, 8.0]);
    }

    #[test]
    fn one_long_sequence_is_cut_and_many_are_not() {
        let of = |count: usize, length: usize| Sequences::of_symbols(&vec![vec![0; length]; count]).unwrap();
        for over in [Sums, Maxima] {
            assert_eq!(Scan::Auto.steps(over, 64, 1, &of(1, 1_000_000)), Some(STEPS));
            assert_eq!(Scan::Auto.steps(over, 65, 1, &of(1, 1_000_000)), None);
            assert_eq!(Scan::Auto.steps(over, 8, 1, &of(1, 10_000)), Some(STEPS));
            assert_eq!(Scan::Auto.steps(over, 8, 1, &of(1, 5_000)), None);
            assert_eq!(Scan::Auto.steps(over, 64, 1, &of(64, 20_000)), None);
            assert_eq!(Scan::Auto.steps(over, 64, 64, &of(1, 20_000)), None);
            assert_eq!(Scan::Always.steps(over, 64, 1, &of(64, 3)), Some(STEPS));
            assert_eq!(Scan::Always.steps(over, 65, 1, &of(1, 3)), None);
            assert_eq!(Scan::Never.steps(over, 8, 1, &of(1, 1_000_000)), None);
        }
        // Measured: sums gain where maxima lose.
        for (states, count) in [(32, 64), (64, 16)] {
            assert_eq!(Scan::Auto.steps(Sums, states, 1, &of(count, 20_000)), Some(STEPS));
            assert_eq!(Scan::Auto.steps(Maxima, states, 1, &of(count, 20_000)), None);
        }
    }
}
