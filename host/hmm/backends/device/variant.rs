//! What the launches for different numbers of states have in common.

use std::ops::Range;

use warpkov_kernels::hmm::backward::want;
use warpkov_kernels::hmm::model::{ModelArgs, Window as WindowArgs};
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::backends::device::block::Block;
use crate::backends::device::launch::Launch;
use crate::backends::device::model::Models;
use crate::backends::device::packing::Window;
use crate::backends::device::step::Step;
use crate::backends::device::trellis::{Paths, Trellis};
use crate::backends::device::warp::Warp;

/// The recursions by the kernels for some numbers of states.
pub trait Variant<T: Precise> {
    /// Elements per row, at least N.
    fn stride(&self) -> usize;

    /// Number of arrays of a trellis (α̂, γ, û) that a backward recursion with these outputs uses.
    fn arrays(&self, want: u32) -> usize;

    /// Rows per model of these arrays for windows of at most `rows` rows.
    fn capacity(&self, rows: u32, _sequences: u32) -> u32 {
        rows
    }

    /// The outputs of the backward recursion that expected counts need, if it may count `symbols` symbols; `None`: the
    /// symbols are not to be counted.
    fn counting(&self, _symbols: Option<u32>) -> Wanted {
        Wanted { want: want::BOTH, slots: 0 }
    }

    /// Elements of the partial sum of a model.
    fn sums_len(&self, _slots: u32) -> usize {
        self.stride().pow(2)
    }

    /// Number of partial sums per model that the backward recursion over M sequences writes; `None`: it writes none, and
    /// α̂ᵀ û is to be summed over the rows.
    fn parts(&self, _sequences: u32) -> Option<u32> {
        None
    }

    /// The factor by which the recursion has lifted û.
    fn lift(&self) -> f64 {
        1.0
    }

    /// Launches a forward recursion.
    fn forward(
        &self,
        launch: &Launch<'_, T>,
        onward: &Onward<'_, T>,
        trellis: &mut Trellis<T>,
    ) -> Result<(), DeviceError>;

    /// Launches a backward recursion, after the forward one that has stored α̂ of the window: writes ûₜ and γₜ, or
    /// partial sums of the counts. For these, `trellis.parts` has [`parts`](Self::parts) sums of [`sums_len`](Self::sums_len)
    /// elements for each model.
    fn backward(&self, launch: &Launch<'_, T>, back: &Back<'_>, trellis: &mut Trellis<T>) -> Result<(), DeviceError>;

    /// Launches Viterbi's algorithm by the logarithms of the models.
    fn decode(
        &self,
        launch: &Launch<'_, T>,
        logs: &Models<T>,
        trellis: &mut Trellis<T>,
        paths: &mut Paths,
    ) -> Result<(), DeviceError>;
}

/// The kernels for N states: a warp per 8 sequences, a block per sequence, or a launch per step.
pub fn variant<T: Precise>(states: u32) -> Box<dyn Variant<T>> {
    match states {
        0..=8 => Box::new(Warp { tiles: 1 }),
        9..=16 => Box::new(Warp { tiles: 2 }),
        17..=32 => Box::new(Warp { tiles: 4 }),
        33..=64 => Box::new(Block { per: 16 }),
        65..=128 => Box::new(Block { per: 32 }),
        _ => Box::new(Step::new(states)),
    }
}

/// A forward recursion over a window of steps.
pub struct Onward<'a, T: Precise> {
    pub steps: Range<u32>,
    /// Rows per model of the trellis: [`Variant::capacity`] of at least the rows of the window, or of 0 rows if α̂ is not
    /// kept.
    pub capacity: u32,
    /// Whether to keep α̂ of all steps.
    pub store: bool,
    /// Whether it repeats an earlier one.
    pub again: bool,
    /// A π per sequence, if it is not that of the model.
    pub starts: Option<&'a AnyBuffer<T>>,
}

impl<T: Precise> Onward<'_, T> {
    /// Kernel arguments: the steps, whether each sequence has a π of its own, and the models with these.
    pub fn args<'l>(&'l self, launch: &'l Launch<'_, T>) -> (WindowArgs, u32, ModelArgs<'l, T, AnyDevice>) {
        let window = WindowArgs { from: self.steps.start, until: self.steps.end, capacity: self.capacity };
        let model = launch.models.args(launch.symbols);
        let model = ModelArgs { start: self.starts.unwrap_or(model.start), ..model };
        (window, u32::from(self.starts.is_some()), model)
    }

    /// Rows per model in which α̂ is kept.
    pub fn stored(&self) -> u32 {
        if self.store { self.capacity } else { 0 }
    }
}

/// A backward recursion over a window of steps.
pub struct Back<'a> {
    pub window: &'a Window,
    /// Rows per model of the trellis: [`Variant::capacity`] of at least the rows of the window.
    pub capacity: u32,
    pub wanted: Wanted,
    /// Whether to add to the partial sums of later windows.
    pub more: bool,
}

impl Back<'_> {
    /// The steps, as a kernel argument.
    pub fn steps(&self) -> WindowArgs {
        WindowArgs { from: self.window.steps.start, until: self.window.steps.end, capacity: self.capacity }
    }
}

/// Outputs of a backward kernel.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// A constant of [`want`].
    pub want: u32,
    /// Number of symbols that it counts in shared memory.
    pub slots: u32,
}
