//! Device memory of the recursions, reused between launches.

use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_runtime::link::Sums;
use warpkov_runtime::scratch::{Scratch, scratch};

use crate::backends::device::launch::Launch;
use crate::backends::device::{chunks, wide};

/// All memory that a batch works in.
pub struct Work<T: Precise> {
    pub trellis: Trellis<T>,
    /// The forward carry before each window but the first.
    pub checkpoints: Vec<Scratch<T>>,
    pub counts: Counts,
    pub paths: Paths,
    /// For sequences in chunks.
    pub scan: chunks::Work<T>,
    /// For doubtful sequences.
    pub wide: wide::Work,
    /// For the counts of all ranks.
    pub ranks: Sums,
}

impl<T: Precise> Work<T> {
    pub fn new(device: &AnyDevice) -> Result<Self, DeviceError> {
        Ok(Self {
            trellis: Trellis::new(device)?,
            checkpoints: Vec::new(),
            counts: Counts::new(device)?,
            paths: Paths::new(device)?,
            scan: chunks::Work::new(device)?,
            wide: wide::Work::new(device)?,
            ranks: Sums::new(device)?,
        })
    }
}

scratch! {
    /// The forward and backward variables of a window of steps, and what goes from one window to the next. All buffers hold
    /// the models one behind the other.
    pub struct Trellis<T: Precise> {
        /// α̂ of the step before the window, or of a sequence's last step; a row per sequence.
        pub forward_carry: T,
        /// û of the step after the window; a row per sequence.
        pub backward_carry: T,
        /// α̂, a row per row of the window; for Viterbi's algorithm δ, a row per observation.
        pub alpha: T,
        /// γ, likewise.
        pub gamma: T,
        /// û, likewise.
        pub pairs: T,
        /// Exponents of the scales of α̂, one per observation.
        pub exponents: i32,
        /// Whether underflow may change a sequence's result, one per sequence.
        pub doubts: u32,
        /// P(O) as a number and an exponent, two per sequence.
        pub likelihoods: f64,
        /// The same from forward recursions that are repeated.
        replayed: f64,
        /// Partial sums of the expected counts.
        pub parts: f64,
    }
}

/// What a forward recursion writes.
pub struct ForwardRows<'t, T: Precise> {
    pub carry: &'t mut AnyBuffer<T>,
    pub alpha: &'t mut AnyBuffer<T>,
    pub exponents: &'t mut AnyBuffer<i32>,
    pub doubts: &'t mut AnyBuffer<u32>,
    pub likelihoods: &'t mut AnyBuffer<f64>,
}

/// What a backward recursion reads and writes.
pub struct BackwardRows<'t, T: Precise> {
    pub alpha: &'t AnyBuffer<T>,
    pub exponents: &'t AnyBuffer<i32>,
    pub likelihoods: &'t AnyBuffer<f64>,
    pub carry: &'t mut AnyBuffer<T>,
    pub gamma: &'t mut AnyBuffer<T>,
    pub pairs: &'t mut AnyBuffer<T>,
    pub parts: &'t mut AnyBuffer<f64>,
}

impl<T: Precise> Trellis<T> {
    /// The buffers of a forward recursion that stores α̂ in `capacity` rows per model, or in none for 0. `again`: its
    /// likelihoods are known, and kept.
    pub fn forward(
        &mut self,
        launch: &Launch<'_, T>,
        capacity: u32,
        again: bool,
    ) -> Result<ForwardRows<'_, T>, DeviceError> {
        let (device, models, cells) = (launch.device, launch.count as usize, launch.cells());
        let stored = usize::from(capacity > 0);
        // One row more per sequence for the extra step of chunks.
        let rows = models * launch.rows as usize + launch.sequences as usize;
        let likelihoods = if again { &mut self.replayed } else { &mut self.likelihoods };
        Ok(ForwardRows {
            carry: self.forward_carry.at_least(device, cells * launch.stride)?,
            alpha: self.alpha.at_least(device, models * capacity as usize * launch.stride)?,
            exponents: self.exponents.at_least(device, stored * rows)?,
            doubts: self.doubts.at_least(device, stored * cells)?,
            likelihoods: likelihoods.at_least(device, 2 * cells)?,
        })
    }

    /// The buffers of a backward recursion over the α̂ of the last forward recursion, with so many rows per model for γ
    /// and for û.
    pub fn backward(
        &mut self,
        launch: &Launch<'_, T>,
        [gamma, pairs]: [u32; 2],
    ) -> Result<BackwardRows<'_, T>, DeviceError> {
        let device = launch.device;
        let elements = |capacity: u32| launch.count as usize * capacity as usize * launch.stride;
        Ok(BackwardRows {
            alpha: self.alpha.get(),
            exponents: self.exponents.get(),
            likelihoods: self.likelihoods.get(),
            carry: self.backward_carry.at_least(device, launch.cells() * launch.stride)?,
            gamma: self.gamma.at_least(device, elements(gamma))?,
            pairs: self.pairs.at_least(device, elements(pairs))?,
            parts: self.parts.get_mut(),
        })
    }
}

scratch! {
    /// Sums over the rows of a trellis.
    pub struct Counts {
        /// Σ α̂ᵀ û of each model, and with the recursion of a warp the other counts.
        pub sums: f64,
        /// Σ γ over chunks of lists of rows.
        pub chunks: f64,
        /// Σ γ over lists of rows.
        pub listed: f64,
        /// Partial sums of moments.
        pub moment_parts: f64,
        /// Moments.
        pub moments: f64,
    }
}

scratch! {
    /// Results of Viterbi's algorithm.
    pub struct Paths {
        /// The most probable state before each state, a row per observation.
        pub pointers: u32,
        /// The state of each observation.
        pub path: u32,
        /// ln P(O, q), one per sequence.
        pub scores: f64,
    }
}
