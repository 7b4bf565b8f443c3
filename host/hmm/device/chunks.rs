//! Few and long sequences, cut into chunks that a device [scans](warpkov_kernels::hmm::scan).

use warpkov_device::launch::Device;
use warpkov_kernels::hmm::model::{ChainsArgs, ModelArgs, NewOperatorsArgs, OperatorsArgs, SequencesArgs};
use warpkov_kernels::hmm::scan;
use warpkov_kernels::hmm::scan::maxima::{
    chunk_maxima, chunk_paths, chunk_scores, link_chunks, maxima_shared, pin_chunks,
};
use warpkov_kernels::hmm::scan::sums::{
    GROUPS, THREADS, chunk_ends, chunk_operators, chunk_starts, operators_shared, share_doubts,
};
use warpkov_kernels::hmm::trace::trace;

use crate::common::choice::choice;
use crate::hmm::device::launch::{Launch, Work, instance};
use crate::hmm::device::model::Models;
use crate::hmm::device::packing::Packing;
use crate::hmm::sequences::Sequences;
use crate::runtime::Precise;

/// Steps of a chunk. It does not depend on the sequence: so what is said of a sequence does not depend on others that are cut with it.
pub const STEPS: u32 = 512;

choice! {
    /// Whether sequences are cut into chunks, all of which are looked at together: a scan over time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Scan {
        /// Where it takes less time.
        #[default]
        Auto = "auto",
        /// No sequence.
        Never = "never",
        /// All of them, for models of up to 64 states.
        Always = "always",
    }
}

impl Scan {
    /// States at most.
    pub const STATES: u32 = scan::STATES;

    /// Eighths of sequences, or of operators, that a device works on at one time, about: the tensor cores of 132 multiprocessors.
    const AT_ONCE: f64 = 1024.0;

    /// How much less time the scan should take.
    const GAIN: f64 = 4.0;

    /// Steps of the chunks that sequences are to be cut into; `None` where they are not.
    ///
    /// Counted are steps that wait for each other. The recursion has T of them, for the longest sequence. Operators are ⌈N/8⌉ times 8
    /// recursions of ΣT steps in all, 1024 of them at one time; then come T/L products by operators and, forward and
    /// backward, L steps in each chunk. `Auto` cuts where T is four times their sum: of one sequence from about T = 7 000 on, and of many
    /// sequences never, which fill the device without.
    #[must_use]
    pub fn steps(self, states: u32, models: usize, sequences: &Sequences) -> Option<u32> {
        let longest = (0..sequences.len()).map(|m| sequences.range(m).len()).max().unwrap_or(0) as f64;
        let length = f64::from(STEPS);
        let operators = models as f64 * sequences.steps() as f64 * f64::from(states.div_ceil(8)) / Self::AT_ONCE;
        let scanned = operators + longest / length + 3.0 * length;
        let cut = match self {
            Self::Auto => states <= Self::STATES && Self::GAIN * scanned <= longest,
            Self::Never => false,
            Self::Always => states <= Self::STATES,
        };
        cut.then_some(STEPS)
    }
}

/// The chunks of sequences, which a packing has in place of them.
pub struct Chunks<D: Device> {
    /// Steps of each, but for the last of a sequence.
    pub steps: u32,
    /// How many are followed by others: these come first.
    pub open: u32,
    /// The chunks of one sequence after the other.
    chain: Vec<u32>,
    /// Where those of each sequence begin in `chain`, and the end of the last.
    link: Vec<u32>,
    /// Both there, and how many steps each chunk has.
    pub on_device: OnDevice<D>,
}

/// What a device has of [`Chunks`].
pub struct OnDevice<D: Device> {
    pub chain: D::Buffer<u32>,
    pub link: D::Buffer<u32>,
    pub lengths: D::Buffer<u32>,
}

impl<D: Device> Chunks<D> {
    /// Chunks of `steps` steps, their packing, and the lengths that kernels are told: one more for each chunk that another one follows.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(device: &D, sequences: &Sequences, steps: u32) -> Result<(Self, Packing, Vec<u32>), D::Error> {
        let (offsets, link) = cut(sequences.offsets(), steps);
        let mut last = vec![false; offsets.len() - 1];
        link[1..].iter().for_each(|&end| last[end as usize - 1] = true);
        let mut packing = Packing::of(&offsets, |p| !last[p as usize]);
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

    /// Chains of chunks as kernels want them.
    fn chains(&self) -> ChainsArgs<'_, D> {
        let OnDevice { chain, link, .. } = &self.on_device;
        ChainsArgs { chunks: self.chain.len() as u32, order: chain, link }
    }

    /// M, of sequences.
    pub fn sequences(&self) -> usize {
        self.link.len() - 1
    }

    /// The chunks of a sequence, in the order of time.
    pub fn of(&self, sequence: usize) -> &[u32] {
        &self.chain[self.link[sequence] as usize..self.link[sequence + 1] as usize]
    }

    /// Sums of what was found of chunks, over those of each sequence, in the order of time.
    pub fn sums(&self, of_chunks: &[f64]) -> Vec<f64> {
        let sum = |sequence| self.of(sequence).iter().map(|&m| of_chunks[m as usize]).sum();
        (0..self.sequences()).map(sum).collect()
    }
}

impl<T: Precise, D: Device> Launch<'_, T, D> {
    /// Operators of all chunks, and what each begins with; and likelihoods of sequences.
    pub(super) fn chunk_starts(&self, chunks: &Chunks<D>, work: &mut Work<T, D>) -> Result<(), D::Error> {
        let Self { device, count, states, stride, sequences, symbols, models, .. } = *self;
        let (all, model) = (self.sequences(), models.args(symbols));
        let Work { operators, scales, starts, totals, .. } = work;
        let cells = self.cells() * stride;
        let (operators, scales) = (operators.of(device, cells * stride)?, scales.of(device, cells)?);
        let starts = starts.of(device, cells)?;
        let of_sequences = chunks.sequences();
        let totals = totals.of(device, 2 * count as usize * of_sequences)?;
        let chains = chunks.chains();
        let tiles = stride / 8;
        let blocks = (sequences * states.div_ceil(8)).div_ceil(GROUPS);
        let shape = self.shape(blocks, THREADS).with_shared(operators_shared(tiles));
        // SAFETY: the packing is of valid chunks, tables have the kernels' stride, and there is room for all chunks.
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

    /// A sequence is in doubt as a whole, once the forward recursion has looked at its chunks.
    pub(super) fn share_doubts(&self, chunks: &Chunks<D>, work: &mut Work<T, D>) -> Result<(), D::Error> {
        let (likelihoods, totals) = (work.likelihoods.get_mut(), work.totals.get_mut());
        let shape = self.shape(chunks.sequences() as u32, 32);
        // SAFETY: there are likelihoods of all chunks, and totals of all sequences.
        unsafe { share_doubts(self.device, shape, chunks.chains(), likelihoods, totals) }
    }

    /// What is behind each chunk, once [`chunk_starts`](Self::chunk_starts) has made the operators.
    pub(super) fn chunk_ends(&self, chunks: &Chunks<D>, work: &mut Work<T, D>) -> Result<(), D::Error> {
        let Self { device, states, stride, symbols, models, .. } = *self;
        let Work { operators, scales, starts, behind, .. } = work;
        let behind = behind.of(device, self.cells() * stride)?;
        let (operators, starts) = (OperatorsArgs { values: operators.get(), scales: scales.get() }, starts.get());
        let (chains, model) = (chunks.chains(), models.args(symbols));
        let shape = self.shape(chunks.sequences() as u32, 4 * stride as u32);
        // SAFETY: as in `chunk_starts`.
        unsafe {
            instance!(stride;
                8 => chunk_ends::<8>, 16 => chunk_ends::<16>, 32 => chunk_ends::<32>, 64 => chunk_ends::<64>;
                (device, shape, chains, model, states, operators, starts, behind))
        }
    }

    /// Paths and scores of all chunks.
    pub(super) fn decode_chunks(
        &self,
        chunks: &Chunks<D>,
        logs: &Models<T, D>,
        work: &mut Work<T, D>,
    ) -> Result<(), D::Error> {
        let Self { device, count, states, stride, sequences, symbols, rows, lengths, .. } = *self;
        let (told, logs) = (self.sequences(), logs.args(symbols));
        let Work { operators, scales, starts, behind, alpha, path, scores, lasts, firsts, bounds, .. } = work;
        let (cells, all) = (self.cells(), count as usize * rows as usize);
        let (operators, scales) = (operators.of(device, cells * stride * stride)?, scales.of(device, cells * stride)?);
        let (starts, ends) = (starts.of(device, cells * stride)?, behind.of(device, cells * stride)?);
        let (lasts, firsts) = (lasts.of(device, cells * stride)?, firsts.of(device, cells * stride)?);
        let (bounds, scores) = (bounds.of(device, 2 * cells)?, scores.of(device, cells)?);
        let (delta, path) = (alpha.of(device, all * stride)?, path.of(device, all)?);
        let (chains, own_lengths) = (chunks.chains(), &chunks.on_device.lengths);
        let (of_sequences, until, width) = (chunks.sequences() as u32, chunks.steps, stride as u32);
        // SAFETY: as in `chunk_starts`; δ and paths have room for all rows.
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
            trace::<T, 1, D>(device, shape, told, pinned, width, 1, delta, path, scores)
        }
    }
}

/// Offsets of chunks of at most `steps` steps, and the number of the first chunk of each sequence, with the end of the last.
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

    use super::*;

    #[test]
    fn chunks_lie_open_ones_first() {
        let sequences = Sequences::of_symbols(&[vec![0; 4], vec![0; 9], vec![0; 3]]).unwrap();
        assert_eq!(cut(sequences.offsets(), 4), (vec![0, 4, 8, 12, 13, 16], vec![0, 1, 4, 5]));
        let (chunks, packing, told) = Chunks::new(&Emulator::default(), &sequences, 4).unwrap();
        assert_eq!(packing.order, [1, 2, 0, 4, 3]);
        assert_eq!(packing.lengths, [4, 4, 4, 3, 1]);
        assert_eq!((told, chunks.open), (vec![5, 5, 4, 3, 1], 2));
        assert_eq!((packing.begins, packing.ends), (vec![2, 0, 3], vec![2, 4, 3]));
        assert_eq!(chunks.sums(&[1.0, 2.0, 4.0, 8.0, 16.0]), [4.0, 19.0, 8.0]);
    }

    #[test]
    fn one_long_sequence_is_cut_and_many_are_not() {
        let of = |count: usize, length: usize| Sequences::of_symbols(&vec![vec![0; length]; count]).unwrap();
        assert_eq!(Scan::Auto.steps(64, 1, &of(1, 1_000_000)), Some(STEPS));
        assert_eq!(Scan::Auto.steps(65, 1, &of(1, 1_000_000)), None);
        assert_eq!(Scan::Auto.steps(8, 1, &of(1, 10_000)), Some(STEPS));
        assert_eq!(Scan::Auto.steps(8, 1, &of(1, 5_000)), None);
        assert_eq!(Scan::Auto.steps(64, 1, &of(64, 20_000)), None);
        assert_eq!(Scan::Auto.steps(64, 32, &of(1, 20_000)), None);
        assert_eq!(Scan::Always.steps(64, 1, &of(64, 3)), Some(STEPS));
        assert_eq!(Scan::Always.steps(65, 1, &of(1, 3)), None);
        assert_eq!(Scan::Never.steps(8, 1, &of(1, 1_000_000)), None);
    }
}
