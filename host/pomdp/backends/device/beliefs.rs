//! Beliefs in device memory.

use warpkov_device::launch::{Buffer, Device};
use warpkov_kernels::primitives::rows::RowsArgs;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::belief::Belief;
use warpkov_runtime::Precise;

/// Beliefs as compressed sparse rows. Invariant: columns are below |S| of the model that they were uploaded for.
pub struct Beliefs<T: Precise> {
    /// Number of beliefs.
    pub(super) count: u32,
    /// Number of branches (s, s', o) out of the states of the beliefs, over all actions: entries of their projected
    /// rows.
    pub(super) branches: usize,
    /// Row pointer, `count` + 1 elements.
    pub(super) row_ptr: AnyBuffer<u32>,
    /// States, ascending within each row.
    pub(super) state: AnyBuffer<u32>,
    /// Probabilities of `state`.
    pub(super) prob: AnyBuffer<T>,
}

impl<T: Precise> Beliefs<T> {
    /// Uploads beliefs with `branches` branches in all. The caller has checked that their states fit the model.
    ///
    /// # Errors
    /// Errors of the device.
    pub(super) fn upload(device: &AnyDevice, beliefs: &[Belief], branches: usize) -> Result<Self, DeviceError> {
        let ends = beliefs.iter().scan(0, |end, belief| {
            *end += belief.states().len() as u32;
            Some(*end)
        });
        let row_ptr: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let states: Vec<u32> = beliefs.iter().flat_map(|belief| belief.states()).copied().collect();
        let probs: Vec<f64> = beliefs.iter().flat_map(|belief| belief.probs()).copied().collect();
        Ok(Self {
            count: beliefs.len() as u32,
            branches,
            row_ptr: device.upload(&row_ptr)?,
            state: device.upload(&states)?,
            prob: device.upload(&T::rounded(&probs))?,
        })
    }

    /// The rows as kernel arguments.
    pub(super) fn args(&self) -> RowsArgs<'_, T, u32, AnyDevice> {
        RowsArgs { ptr: &self.row_ptr, col: &self.state, prob: &self.prob }
    }

    /// Copies the beliefs to the host.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn download(&self, device: &AnyDevice) -> Result<Vec<Belief>, DeviceError> {
        let (row_ptr, state, prob) =
            (device.to_vec(&self.row_ptr)?, device.to_vec(&self.state)?, device.to_vec(&self.prob)?);
        let row = |ends: &[u32]| {
            let entries = ends[0] as usize..ends[1] as usize;
            let probs = prob[entries.clone()].iter().map(|p| p.to_f64()).collect();
            Belief::built(state[entries].to_vec(), probs)
        };
        Ok(row_ptr.windows(2).map(row).collect())
    }

    /// Number of nonzeros.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.state.len()
    }

    /// Bytes of device memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries() * (4 + size_of::<T>()) + 4 * (self.count as usize + 1)
    }
}
