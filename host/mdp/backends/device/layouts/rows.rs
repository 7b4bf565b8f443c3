//! Compressed rows, with several threads per row; for long rows. Policy iteration reads the model in this form too.

use warpkov_common::parallel;
use warpkov_device::device::Offset;
use warpkov_device::launch::Device;
use warpkov_kernels::mdp::backup::rows::backup_rows;
use warpkov_kernels::mdp::choices::ChoicesArgs;
use warpkov_kernels::mdp::model::ModelArgs;
use warpkov_kernels::primitives::rows::RowsArgs;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::numbers::{Footprint, ModelNumbers};
use crate::backends::device::sweeps::{BackupLaunch, THREADS, by_tile};
use crate::model::{Choices, Mdp};

/// Threads per row of a greedy backup, and states per block.
pub(in crate::backends::device) fn lanes_and_states(mdp: &Mdp) -> (u32, u32) {
    let lanes = lanes_for(mdp.transitions().nnz() as f64 / mdp.rows() as f64 / 2.0);
    let actions = mdp.rows().div_ceil(mdp.states() as usize) as u32;
    (lanes, (THREADS / lanes / actions).max(1))
}

/// Threads per row of `mean` entries: 1 to 32, with one to two entries per thread if that suffices.
pub(in crate::backends::device) fn lanes_for(mean: f64) -> u32 {
    ((mean / 2.0).ceil() as u32).next_power_of_two().clamp(1, 32)
}

/// Sizes of the rows of a model.
pub(in crate::backends::device) fn footprint<O: Offset>(mdp: &Mdp) -> Footprint {
    let (nnz, rows) = (mdp.transitions().nnz(), mdp.rows());
    Footprint { longest: nnz.max(rows), shared: nnz * 4 + rows * size_of::<O>(), numbers: nnz + rows }
}

/// The rows of a model in device memory, without their numbers.
pub(crate) struct RowIndex<O: Offset> {
    /// A, or 0 if the number of actions varies.
    pub actions: u32,
    /// Row offsets of the states if the number of actions varies.
    pub choices: AnyBuffer<O>,
    pub gamma: f64,
    /// Threads per row of a greedy backup, and states per block.
    pub lanes_and_states: (u32, u32),
    pub row_ptr: AnyBuffer<O>,
    col: AnyBuffer<u32>,
}

impl<O: Offset> RowIndex<O> {
    /// Uploads a model with expected rewards `reward`.
    pub fn upload<T: Precise>(
        device: &AnyDevice,
        mdp: &Mdp,
        reward: &[f64],
    ) -> Result<(Self, ModelNumbers<T>), DeviceError> {
        let (actions, choices) = upload_choices(device, mdp.choices())?;
        let index = Self {
            actions,
            choices,
            gamma: mdp.gamma(),
            lanes_and_states: lanes_and_states(mdp),
            row_ptr: device.upload(&offsets::<O>(mdp.transitions().row_ptr()))?,
            col: device.upload(mdp.transitions().col())?,
        };
        Ok((index, ModelNumbers::upload(device, mdp.transitions().val(), reward)?))
    }

    /// No rows: of a model that stays on the host.
    pub fn none<T: Precise>(device: &AnyDevice, gamma: f64) -> Result<(Self, ModelNumbers<T>), DeviceError> {
        let nothing = || device.zeros(0);
        let index = Self {
            actions: 0,
            choices: nothing()?,
            gamma,
            lanes_and_states: (1, 1),
            row_ptr: nothing()?,
            col: device.zeros(0)?,
        };
        Ok((index, ModelNumbers::upload(device, &[], &[])?))
    }

    /// The model as kernel arguments.
    pub fn args<'a, T: Precise>(&'a self, numbers: &'a ModelNumbers<T>) -> ModelArgs<'a, T, O, AnyDevice> {
        ModelArgs {
            choices: ChoicesArgs { actions: self.actions, offsets: &self.choices },
            rows: RowsArgs { ptr: &self.row_ptr, col: &self.col, prob: &numbers.prob },
            reward: &numbers.reward,
            gamma: self.gamma,
        }
    }

    /// # Safety
    /// As [`BackupLaunch`] says, with the `numbers` of these rows.
    pub(in crate::backends::device) unsafe fn launch<T: Precise>(
        &self,
        numbers: &ModelNumbers<T>,
        launch: BackupLaunch<T>,
    ) -> Result<(), DeviceError> {
        let (lanes, _) = self.lanes_and_states;
        let BackupLaunch { device, states, v, sweep } = launch;
        let shape = by_tile(&states, sweep.tiles.len).with_shared(THREADS / lanes * 8);
        let model = self.args(numbers);
        macro_rules! rows {
            ($lanes:literal) => {
                // SAFETY: `Mdp` guarantees columns below |S| and non-decreasing row pointers, and `upload` copied them. A
                // block has shared memory for a Q-factor per row of `lanes` threads. The caller assures the rest.
                unsafe { backup_rows::<T, O, $lanes, _>(device, shape, states.end, model, v, sweep, states.start) }
            };
        }
        match lanes {
            1 => rows!(1),
            2 => rows!(2),
            4 => rows!(4),
            8 => rows!(8),
            16 => rows!(16),
            _ => rows!(32),
        }
    }
}

/// Converts row pointers to `O`; panics if they do not fit.
pub(crate) fn offsets<O: Offset>(row_ptr: &[u64]) -> Vec<O> {
    let mut offsets = vec![O::ZERO; row_ptr.len()];
    parallel::fill(&mut offsets, |row| checked_offset(row_ptr[row]));
    offsets
}

/// An offset as `O`, into which it must fit.
pub(crate) fn checked_offset<O: Offset>(offset: u64) -> O {
    assert!(O::WIDE || u32::try_from(offset).is_ok(), "offsets of 32 bits are too small for the model");
    O::from_usize(offset as usize)
}

/// Uploads the choices: A and no offsets if all states have A actions, otherwise 0 and the row offsets of the states.
pub(crate) fn upload_choices<O: Offset>(
    device: &AnyDevice,
    choices: &Choices,
) -> Result<(u32, AnyBuffer<O>), DeviceError> {
    match choices {
        Choices::Uniform(actions) => Ok((*actions, device.upload(&[])?)),
        Choices::Ragged(choices) => Ok((0, device.upload(&offsets(choices))?)),
    }
}
