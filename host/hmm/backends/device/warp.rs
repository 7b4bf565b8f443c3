//! At most 32 states: a warp has 8 sequences.

use warpkov_kernels::hmm::TILE;
use warpkov_kernels::hmm::backward::{CountsArgs, backward_warp, counts_len, want, warp_shared, warp_threads};
use warpkov_kernels::hmm::forward::forward_warp;
use warpkov_kernels::hmm::model::ForwardArgs;
use warpkov_kernels::hmm::viterbi::{self, viterbi_warp};
use warpkov_runtime::Precise;
use warpkov_runtime::device::DeviceError;

use crate::backends::device::launch::{Launch, instance};
use crate::backends::device::model::Models;
use crate::backends::device::trellis::{BackwardRows, ForwardRows, Paths, Trellis};
use crate::backends::device::variant::{Back, Onward, Variant, Wanted};

/// Sequences per warp.
const SEQUENCES: u32 = 8;

/// Maximum number of blocks of the backward recursion. Each has a partial sum of its own.
const PARTS: u32 = 2048;

/// Shared memory per block for symbol counts, in bytes. If they need more, counts are summed by lists of rows.
const CELLS: usize = 64 * 1024;

/// The variant for at most 32 states.
pub struct Warp {
    /// Stride / 8: 1, 2 or 4.
    pub tiles: usize,
}

impl Warp {
    /// Blocks of the backward recursion, each with a partial sum.
    fn blocks(sequences: u32) -> u32 {
        sequences.div_ceil(SEQUENCES).min(PARTS)
    }
}

impl<T: Precise> Variant<T> for Warp {
    fn stride(&self) -> usize {
        TILE * self.tiles
    }

    fn arrays(&self, want: u32) -> usize {
        if want == want::COUNTS { 1 } else { 2 }
    }

    fn counting(&self, symbols: Option<u32>) -> Wanted {
        let fits = |&slots: &u32| warp_shared(self.tiles, size_of::<T>(), slots as usize, want::COUNTS) <= CELLS;
        match symbols.filter(fits) {
            Some(slots) => Wanted { want: want::COUNTS, slots },
            None => Wanted { want: want::BOTH, slots: 0 },
        }
    }

    fn sums_len(&self, slots: u32) -> usize {
        counts_len(TILE * self.tiles, slots as usize)
    }

    fn parts(&self, sequences: u32) -> Option<u32> {
        Some(Self::blocks(sequences))
    }

    fn forward(
        &self,
        launch: &Launch<'_, T>,
        onward: &Onward<'_, T>,
        trellis: &mut Trellis<T>,
    ) -> Result<(), DeviceError> {
        let (device, all, (window, own, model)) = (launch.device, launch.sequences(), onward.args(launch));
        let shape = launch.shape(launch.sequences.div_ceil(SEQUENCES), 32);
        let ForwardRows { carry, alpha, exponents, likelihoods, .. } =
            trellis.forward(launch, onward.stored(), onward.again)?;
        // SAFETY: `Sequences` guarantees ascending offsets, from which `Packing` derives rows in bounds. `fit`, asserted
        // in `set_models`, guarantees a row of the emission table for every symbol. `Hmm` guarantees the shapes of π, A
        // and B, which `Models` pads to the stride of the kernel instance. `Trellis::forward` sizes the buffers for
        // `capacity`, which covers the window.
        unsafe {
            instance!((self.tiles, onward.store);
                (1, false) => forward_warp::<1, false>, (1, true) => forward_warp::<1, true>,
                (2, false) => forward_warp::<2, false>, (2, true) => forward_warp::<2, true>,
                (4, false) => forward_warp::<4, false>, (4, true) => forward_warp::<4, true>;
                (device, shape, all, window, model, own, carry, alpha, exponents, likelihoods))
        }
    }

    fn backward(&self, launch: &Launch<'_, T>, back: &Back<'_>, trellis: &mut Trellis<T>) -> Result<(), DeviceError> {
        let Back { capacity, wanted: Wanted { want, slots }, more, .. } = *back;
        let (device, all, model) = (launch.device, launch.sequences(), launch.models.args(launch.symbols));
        let shared = warp_shared(self.tiles, size_of::<T>(), slots as usize, want) as u32;
        let shape = launch.shape(Self::blocks(launch.sequences), warp_threads(self.tiles, want)).with_shared(shared);
        let BackwardRows { alpha, exponents, likelihoods, carry, gamma, parts, .. } =
            trellis.backward(launch, [if want == want::COUNTS { 0 } else { capacity }, 0])?;
        let forward = ForwardArgs { alpha, exponents, likelihoods };
        let counts = CountsArgs { slots, more: u32::from(more), parts };
        // SAFETY: as in `forward`, which has stored α̂ of this window. `Trellis::backward` sizes the buffers for
        // `capacity`, which covers the window, and the caller `parts` for the partial sum of each block, unless only γ is
        // wanted.
        unsafe {
            instance!((self.tiles, want);
                (1, 0) => backward_warp::<1, 0>, (1, 1) => backward_warp::<1, 1>, (1, 2) => backward_warp::<1, 2>,
                (2, 0) => backward_warp::<2, 0>, (2, 1) => backward_warp::<2, 1>, (2, 2) => backward_warp::<2, 2>,
                (4, 0) => backward_warp::<4, 0>, (4, 1) => backward_warp::<4, 1>, (4, 2) => backward_warp::<4, 2>;
                (device, shape, all, back.steps(), model, forward, carry, gamma, counts))
        }
    }

    fn decode(
        &self,
        launch: &Launch<'_, T>,
        logs: &Models<T>,
        _trellis: &mut Trellis<T>,
        paths: &mut Paths,
    ) -> Result<(), DeviceError> {
        let (device, all, logs) = (launch.device, launch.sequences(), logs.args(launch.symbols));
        let (rows, stride) = (launch.count as usize * launch.rows as usize, launch.stride);
        let pointers = paths.pointers.at_least(device, rows * stride)?;
        let (path, scores) = (paths.path.at_least(device, rows)?, paths.scores.at_least(device, launch.cells())?);
        let shared = viterbi::warp_shared(stride, size_of::<T>()) as u32;
        let shape = launch.shape(launch.sequences.div_ceil(32 / stride as u32), 32).with_shared(shared);
        // SAFETY: as in `forward`, with logarithms; the buffers have `rows` rows or elements, and one score per sequence
        // and model.
        unsafe {
            instance!(stride;
                8 => viterbi_warp::<8>, 16 => viterbi_warp::<16>, 32 => viterbi_warp::<32>;
                (device, shape, all, logs, pointers, path, scores))
        }
    }
}
