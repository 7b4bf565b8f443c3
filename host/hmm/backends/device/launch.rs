//! What all launches of the recursions share, and the sums over the rows of a trellis.

use warpkov_device::launch::{Dim3, Shape};
use warpkov_kernels::hmm::counts::{PRODUCT_THREADS, TILE, pair_product, product_shared, sum_chunks, sum_rows};
use warpkov_kernels::hmm::model::{SequencesArgs, Split};
use warpkov_kernels::hmm::trace::trace;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::backends::device::chunks::Chunks;
use crate::backends::device::model::Models;
use crate::backends::device::packing::Packing;
use crate::backends::device::trellis::{Counts, Paths, Trellis};
use crate::backends::device::variant::{Back, Variant};

/// Device copy of [`Lists`](crate::backends::device::packing::Lists).
pub struct OnDevice {
    pub order: AnyBuffer<u32>,
    pub chunk: AnyBuffer<u32>,
    pub list: AnyBuffer<u32>,
    pub chunks: u32,
    pub count: u32,
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
pub struct Launch<'a, T: Precise> {
    pub device: &'a AnyDevice,
    pub variant: &'a dyn Variant<T>,
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

impl<T: Precise> Launch<'_, T> {
    /// A grid of `x` blocks per model.
    pub fn shape(&self, x: u32, threads: u32) -> Shape {
        Shape::new(Dim3 { x, y: self.count, z: 1 }, threads)
    }

    /// Number of pairs of a model and a sequence.
    pub fn cells(&self) -> usize {
        self.count as usize * self.sequences as usize
    }

    /// Kernel arguments of the sequences.
    pub fn sequences(&self) -> SequencesArgs<'_, AnyDevice> {
        let Self { sequences, rows, lengths, base, symbol, .. } = *self;
        SequencesArgs { count: sequences, rows, lengths, base, symbol }
    }

    /// Launches the sums over the rows of a window after its backward recursion: sums of γ by lists, and `splits` partial
    /// sums of α̂ᵀ û unless the backward recursion has summed them.
    pub fn count(
        &self,
        back: &Back<'_>,
        splits: u32,
        lists: &OnDevice,
        trellis: &mut Trellis<T>,
        counts: &mut Counts,
    ) -> Result<(), DeviceError> {
        let (device, models, stride) = (self.device, self.count as usize, self.stride as u32);
        let (capacity, more) = (back.capacity, u32::from(back.more));
        let threads = stride.next_multiple_of(32).min(512);
        let chunks = counts.chunks.at_least(device, models * lists.chunks as usize * self.stride)?;
        let listed = counts.listed.at_least(device, models * lists.count as usize * self.stride)?;
        let Trellis { alpha, gamma, pairs, parts, .. } = trellis;
        let (gamma, alpha) = (gamma.get(), alpha.get());
        // SAFETY: `Lists` names rows of this window, which has at most `capacity` rows. `chunks` has a row per chunk of each
        // model; the caller has sized `parts` for `splits` parts of each model.
        unsafe {
            if self.variant.parts(self.sequences).is_none() {
                let (rows, tiles) = (back.window.rows.len() as u32, stride / TILE as u32);
                let split = capacity.div_ceil(splits).next_multiple_of(16);
                let grid = Dim3 { x: tiles * tiles, y: self.count, z: splits };
                let shape = Shape::new(grid, PRODUCT_THREADS).with_shared(product_shared(T::WIDE));
                let split = Split { rows, window: capacity, split, more };
                let scale = 1.0 / self.variant.lift();
                pair_product(device, shape, stride, split, scale, alpha, pairs.get(), parts.get_mut())?;
            }
            if lists.chunks > 0 {
                let shape = self.shape(lists.chunks, threads);
                sum_rows(device, shape, stride, capacity, &lists.chunk, &lists.order, gamma, chunks)?;
            }
        }
        let rows = self.count * lists.count;
        sum_chunks(
            device,
            Shape::new(rows, threads),
            rows,
            stride,
            lists.count,
            lists.chunks,
            more,
            &lists.list,
            chunks,
            listed,
        )
    }

    /// Launches the traceback of Viterbi's algorithm through δ, which has a row per observation of each model.
    pub fn trace(&self, logs: &Models<T>, delta: &AnyBuffer<T>, paths: &mut Paths) -> Result<(), DeviceError> {
        let (device, stride) = (self.device, self.stride as u32);
        let path = paths.path.at_least(device, self.count as usize * self.rows as usize)?;
        let scores = paths.scores.at_least(device, self.cells())?;
        let (all, logs, shape) = (self.sequences(), logs.args(self.symbols), self.shape(self.sequences, 32));
        // SAFETY: `Packing` derives rows in bounds from ascending offsets; `path` has an element per row of each model,
        // `scores` one per sequence and model.
        unsafe {
            instance!(usize::from(self.stride > 128); 0 => trace::<1>, 1 => trace::<4>;
                (device, shape, all, logs, stride, 0, delta, path, scores))
        }
    }
}
