//! 33 to 128 states: a block has one sequence.

use warpkov_kernels::hmm::backward::{backward_block, want};
use warpkov_kernels::hmm::forward::forward_block;
use warpkov_kernels::hmm::model::ForwardArgs;
use warpkov_kernels::hmm::viterbi::viterbi_block;
use warpkov_runtime::Precise;
use warpkov_runtime::device::DeviceError;

use crate::backends::device::launch::{Launch, instance};
use crate::backends::device::model::Models;
use crate::backends::device::trellis::{BackwardRows, ForwardRows, Paths, Trellis};
use crate::backends::device::variant::{Back, Onward, Variant};

/// The variant for at most 128 states.
pub struct Block {
    /// Stride / 4: 16 or 32.
    pub per: usize,
}

impl Block {
    fn threads(&self) -> u32 {
        16 * self.per as u32
    }
}

impl<T: Precise> Variant<T> for Block {
    fn stride(&self) -> usize {
        4 * self.per
    }

    fn arrays(&self, want: u32) -> usize {
        if want == want::POSTERIORS { 2 } else { 3 }
    }

    fn forward(
        &self,
        launch: &Launch<'_, T>,
        onward: &Onward<'_, T>,
        trellis: &mut Trellis<T>,
    ) -> Result<(), DeviceError> {
        let (device, all, (window, own, model)) = (launch.device, launch.sequences(), onward.args(launch));
        let shape = launch.shape(launch.sequences, self.threads());
        let ForwardRows { carry, alpha, exponents, likelihoods, .. } =
            trellis.forward(launch, onward.stored(), onward.again)?;
        // SAFETY: `Sequences` guarantees ascending offsets, from which `Packing` derives rows in bounds. `fit`, asserted
        // in `set_models`, guarantees a row of the emission table for every symbol. `Hmm` guarantees the shapes of π, A
        // and B, which `Models` pads to the stride of the kernel instance. `Trellis::forward` sizes the buffers for
        // `capacity`, which covers the window.
        unsafe {
            instance!((self.per, onward.store);
                (16, false) => forward_block::<16, false>, (16, true) => forward_block::<16, true>,
                (32, false) => forward_block::<32, false>, (32, true) => forward_block::<32, true>;
                (device, shape, all, window, model, own, carry, alpha, exponents, likelihoods))
        }
    }

    fn backward(&self, launch: &Launch<'_, T>, back: &Back<'_>, trellis: &mut Trellis<T>) -> Result<(), DeviceError> {
        let (device, all, model) = (launch.device, launch.sequences(), launch.models.args(launch.symbols));
        let capacity = back.capacity;
        let with_pairs = back.wanted.want != want::POSTERIORS;
        let shape = launch.shape(launch.sequences, self.threads());
        let BackwardRows { alpha, exponents, likelihoods, carry, gamma, pairs, .. } =
            trellis.backward(launch, [capacity, if with_pairs { capacity } else { 0 }])?;
        let forward = ForwardArgs { alpha, exponents, likelihoods };
        // SAFETY: as in `forward`, which has stored α̂ of this window. `Trellis::backward` sizes the buffers for
        // `capacity`, which covers the window.
        unsafe {
            instance!((self.per, with_pairs);
                (16, false) => backward_block::<16, false>, (16, true) => backward_block::<16, true>,
                (32, false) => backward_block::<32, false>, (32, true) => backward_block::<32, true>;
                (device, shape, all, back.steps(), model, forward, carry, gamma, pairs))
        }
    }

    fn decode(
        &self,
        launch: &Launch<'_, T>,
        logs: &Models<T>,
        trellis: &mut Trellis<T>,
        paths: &mut Paths,
    ) -> Result<(), DeviceError> {
        let device = launch.device;
        let delta = trellis.alpha.at_least(device, launch.count as usize * launch.rows as usize * launch.stride)?;
        let shape = launch.shape(launch.sequences, self.threads());
        // SAFETY: as in `forward`, with logarithms; `delta` has a row per observation of each model.
        unsafe {
            instance!(self.per;
                16 => viterbi_block::<16>, 32 => viterbi_block::<32>;
                (device, shape, launch.sequences(), logs.args(launch.symbols), &mut *delta))?;
        }
        launch.trace(logs, delta, paths)
    }
}
