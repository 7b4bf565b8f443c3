//! Policy iteration and modified policy iteration on P^π, extracted from the model for each policy.

use std::any::Any;

use rayon::prelude::*;
use warpkov_device::device::Offset;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::backup::slices::SLICE;
use warpkov_kernels::mdp::change::{extremes_between, of_sweep};
use warpkov_kernels::mdp::choices::CheckedChoicesArgs;
use warpkov_kernels::mdp::evaluate::{evaluate_rows, evaluate_slices};
use warpkov_kernels::mdp::model::IteratesArgs;
use warpkov_kernels::mdp::project::{ProjectedArgs, copy_rows, copy_slices, count_rows, count_slices};
use warpkov_kernels::mdp::residual::{ResidualsArgs, max_change};
use warpkov_kernels::primitives::rows::RowsArgs;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::ghosts::Exchanges;
use super::layouts::rows::{checked_offset, lanes_for};
use super::resident::{MAX_BATCH, Resident};
use super::sweeps::{THREADS, launch_batch};
use crate::backend::{Backups, Evaluate, Evaluation, GreedySweeps, Modify, State, Stop};
use crate::backends::cpu::Parallel;
use crate::model::Mdp;
use warpkov_runtime::Precise;
use warpkov_runtime::prefix_sum::{exclusive_scan, scratch_len};
use warpkov_runtime::sparse::Cusparse;

/// Layout of P^π.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyLayout {
    /// Sliced ELLPACK (SELL), 32 rows per slice, one thread per row.
    Slices,
    /// Compressed sparse rows with 2, 4, 8, 16 or 32 threads per row.
    Rows {
        /// Threads per row.
        lanes: u32,
    },
}

impl PolicyLayout {
    /// Chooses the layout by the mean row length: slices if rows are short and padding at most doubles the size,
    /// otherwise rows with one thread per one to two entries.
    #[must_use]
    pub fn choose(model: &Mdp) -> Self {
        let mean = mean_row(model);
        if mean <= 8.0 && slice_capacity(model) as f64 <= 2.0 * mean * f64::from(model.states()) + 4096.0 {
            Self::Slices
        } else {
            Self::rows(model)
        }
    }

    /// Rows, with one thread per one to two entries.
    #[must_use]
    pub fn rows(model: &Mdp) -> Self {
        Self::Rows { lanes: lanes_for(mean_row(model)).max(2) }
    }

    /// Number of row groups with an offset: slices or single rows.
    fn groups(self, model: &Mdp) -> usize {
        match self {
            Self::Slices => (model.states() as usize).div_ceil(SLICE),
            Self::Rows { .. } => model.states() as usize,
        }
    }

    /// Threads per row.
    fn lanes(self) -> u64 {
        match self {
            Self::Slices => 1,
            Self::Rows { lanes } => u64::from(lanes),
        }
    }

    /// Maximum number of stored entries of P^π over all policies.
    #[must_use]
    pub fn capacity(self, model: &Mdp) -> usize {
        match self {
            Self::Slices => slice_capacity(model),
            Self::Rows { .. } => row_capacity(model),
        }
    }
}

/// Mean number of entries of a row.
fn mean_row(model: &Mdp) -> f64 {
    model.transitions().nnz() as f64 / model.rows() as f64
}

/// Maximum number of entries of the slices over all policies: Σ over slices of 32 · (longest row of any action).
fn slice_capacity(model: &Mdp) -> usize {
    SLICE * sum_of_longest(model, SLICE)
}

/// Maximum number of entries of the compressed rows over all policies: Σ over states of the longest row of any action.
fn row_capacity(model: &Mdp) -> usize {
    sum_of_longest(model, 1)
}

/// Sum over groups of `states` adjacent states of the length of the longest row.
fn sum_of_longest(model: &Mdp, states: usize) -> usize {
    let (row_ptr, all) = (&model.transitions().row_ptr()[..], model.states() as usize);
    let longest = |group: usize| {
        let rows = model.choices().first(group * states)..=model.choices().first(all.min((group + 1) * states));
        row_ptr[rows].windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().unwrap_or(0)
    };
    (0..all.div_ceil(states)).into_par_iter().map(longest).sum()
}

/// The projected method: gathers P^π and r^π for each policy and sweeps over them on the device. Of a model that the device has no room
/// for, policies are improved and P^π is gathered on the host.
pub struct Projected<'d, T: Precise, O: Offset> {
    device: &'d AnyDevice,
    resident: Resident<'d, T, O>,
    layout: PolicyLayout,
    counts: AnyBuffer<O>,
    offsets: AnyBuffer<O>,
    scratch: AnyBuffer<O>,
    col: AnyBuffer<u32>,
    prob: AnyBuffer<T>,
    reward: AnyBuffer<T>,
    /// Whether P^π and r^π belong to the current policy.
    current: bool,
    /// Keys of the greatest change and of the greatest decrease of a greedy sweep.
    extremes: AnyBuffer<u64>,
    /// The model and π, if they are on the host.
    host: Option<Box<Parallel<'d, T>>>,
    /// The library whose products take the place of ours in evaluations.
    cusparse: Option<Cusparse>,
}

/// Launches an evaluation sweep over P^π with the kernel for its layout.
macro_rules! evaluate_projected {
    ($layout:expr, $($argument:expr),*) => {
        match $layout {
            PolicyLayout::Slices => evaluate_slices($($argument),*),
            PolicyLayout::Rows { lanes: 2 } => evaluate_rows::<T, O, 2, _>($($argument),*),
            PolicyLayout::Rows { lanes: 4 } => evaluate_rows::<T, O, 4, _>($($argument),*),
            PolicyLayout::Rows { lanes: 8 } => evaluate_rows::<T, O, 8, _>($($argument),*),
            PolicyLayout::Rows { lanes: 16 } => evaluate_rows::<T, O, 16, _>($($argument),*),
            PolicyLayout::Rows { .. } => evaluate_rows::<T, O, 32, _>($($argument),*),
        }
    };
}

impl<'d, T: Precise, O: Offset> Projected<'d, T, O> {
    /// Uploads the model; V = 0, π = 0.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// If `layout` has an invalid number of threads per row, or if P^π may have more entries than `O` can index.
    pub fn new(device: &'d AnyDevice, model: &Mdp, layout: PolicyLayout) -> Result<Self, DeviceError> {
        Self::in_team(device, model, layout, None)
    }

    /// [`new`](Self::new) for the part of one rank, whose ghosts follow its own states. All ranks call the methods in the
    /// same order.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// As [`new`](Self::new), and if ghosts precede other states.
    pub fn in_team(
        device: &'d AnyDevice,
        model: &Mdp,
        layout: PolicyLayout,
        ranks: Option<Box<dyn Exchanges<T> + 'd>>,
    ) -> Result<Self, DeviceError> {
        if let PolicyLayout::Rows { lanes } = layout {
            assert!([2, 4, 8, 16, 32].contains(&lanes), "2, 4, 8, 16 or 32 lanes per row, not {lanes}");
        }
        let groups = layout.groups(model);
        let capacity = layout.capacity(model);
        // Fails here and not after the uploads.
        let _: O = checked_offset(capacity as u64);
        Ok(Self {
            device,
            resident: Resident::upload(device, model, ranks)?,
            layout,
            counts: device.zeros(groups)?,
            offsets: device.zeros(groups + 1)?,
            scratch: device.zeros(scratch_len(groups))?,
            col: device.zeros(capacity)?,
            prob: device.zeros(capacity)?,
            reward: device.zeros(model.states() as usize)?,
            current: false,
            extremes: device.zeros(2)?,
            host: None,
            cusparse: None,
        })
    }

    /// The method for a model that stays on the host; V = 0, π = 0. P^π is in compressed rows.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn on_host(device: &'d AnyDevice, model: &'d Mdp) -> Result<Self, DeviceError> {
        let layout = PolicyLayout::rows(model);
        let _: O = checked_offset(layout.capacity(model) as u64);
        Ok(Self {
            device,
            resident: Resident::without_rows(device, model)?,
            layout,
            counts: device.zeros(0)?,
            offsets: device.zeros(0)?,
            scratch: device.zeros(0)?,
            col: device.zeros(0)?,
            prob: device.zeros(0)?,
            reward: device.zeros(0)?,
            current: false,
            extremes: device.zeros(0)?,
            host: Some(Box::new(Parallel::new(model))),
            cusparse: None,
        })
    }

    /// Evaluates policies with the products of `cusparse`, on one rank.
    ///
    /// # Panics
    /// If P^π is not in compressed rows with offsets of 32 bits.
    #[must_use]
    pub fn with_cusparse(self, cusparse: Cusparse) -> Self {
        assert!(!O::WIDE && self.layout != PolicyLayout::Slices && self.resident.ranks.is_none());
        Self { cusparse: Some(cusparse), ..self }
    }

    /// Bytes of device memory for this method.
    #[must_use]
    pub fn bytes(model: &Mdp, layout: PolicyLayout) -> u64 {
        let (t, o) = (size_of::<T>(), size_of::<O>());
        let groups = layout.groups(model);
        let own =
            (2 * groups + 1 + scratch_len(groups)) * o + layout.capacity(model) * (4 + t) + model.states() as usize * t;
        Resident::<T, O>::bytes(model) + own as u64 + 16
    }

    /// Bytes of device memory for this method if the model is on the host, with the largest P^π.
    #[must_use]
    pub fn bytes_on_host(model: &Mdp) -> u64 {
        let (t, states) = (size_of::<T>(), model.states() as usize);
        let own = (states + 1) * size_of::<O>() + PolicyLayout::rows(model).capacity(model) * (4 + t) + states * t;
        Resident::<T, O>::bytes_without_rows(model) + own as u64
    }

    /// The device.
    pub(super) fn device(&self) -> &'d AnyDevice {
        self.device
    }

    /// The device and V.
    pub(super) fn values_mut(&mut self) -> (&'d AnyDevice, &mut AnyBuffer<T>) {
        (self.device, &mut self.resident.v_old)
    }

    /// The ranks that share the model, if there are several.
    pub(super) fn ranks(&mut self) -> Option<&mut (dyn Exchanges<T> + 'd)> {
        self.resident.ranks.as_deref_mut()
    }

    /// The states of this rank.
    pub(super) fn states(&self) -> usize {
        self.resident.states as usize
    }

    /// `y` ← `reward` + γ P^π `x` with P^π from the last [`project`](Self::project). `None` means `reward` = r^π.
    pub(super) fn product(
        &mut self,
        x: &AnyBuffer<T>,
        reward: Option<&AnyBuffer<T>>,
        y: &mut AnyBuffer<T>,
    ) -> Result<(), DeviceError> {
        let Self { device, resident, layout, offsets, col, prob, reward: own, .. } = self;
        let device = *device;
        let shape = Shape::grid_stride(u64::from(resident.states) * layout.lanes(), THREADS);
        device.clear(&mut resident.residuals)?;
        // SAFETY: `project` filled the buffers from an `Mdp`, whose columns are below |S|, and callers pass vectors of
        // |S| elements, with the ghosts; `reward` has one for each own state.
        unsafe {
            evaluate_projected!(
                *layout,
                device,
                shape,
                resident.states,
                RowsArgs { ptr: offsets, col, prob },
                reward.unwrap_or(own),
                resident.rows.gamma,
                IteratesArgs { old: x, new: y },
                ResidualsArgs { theta: 0.0, sweep: 0, slots: &mut resident.residuals }
            )
        }
    }

    /// ‖y − x‖∞ of the last [`product`](Self::product), over all ranks; ignores NaN.
    pub(super) fn change(&mut self) -> Result<f64, DeviceError> {
        let mut norm = [0];
        self.device.download(&self.resident.residuals, &mut norm)?;
        if let Some(ranks) = &mut self.resident.ranks {
            ranks.max(&mut norm);
        }
        Ok(f64::from_bits(norm[0]))
    }

    /// Gathers P^π and r^π of the current policy unless they are up to date: count, scan, copy.
    pub(super) fn project(&mut self) -> Result<(), DeviceError> {
        if std::mem::replace(&mut self.current, true) {
            return Ok(());
        }
        if let Some(host) = &mut self.host {
            // What is not needed any more makes room.
            (self.offsets, self.col) = (self.device.zeros(0)?, self.device.zeros(0)?);
            (self.prob, self.reward) = (self.device.zeros(0)?, self.device.zeros(0)?);
            let projected = host.project();
            let offsets: Vec<O> = projected.row_ptr.iter().map(|&end| checked_offset(end as u64)).collect();
            self.offsets = self.device.upload(&offsets)?;
            self.col = self.device.upload(&projected.col)?;
            self.prob = self.device.upload(&projected.prob)?;
            self.reward = self.device.upload(&projected.reward)?;
            return Ok(());
        }
        let Self { device, resident, layout, counts, offsets, scratch, col, prob, reward, .. } = self;
        let Resident { states, rows, numbers, policy, .. } = resident;
        let (device, model) = (*device, rows.args(numbers));
        let per_state = Shape::cover(u64::from(*states), THREADS);
        let per_lane = Shape::cover(u64::from(*states) * layout.lanes(), THREADS);
        let groups = counts.len();
        let per_slice = Shape::cover(groups as u64 * 32, THREADS);
        let (states, row_ptr) = (*states, model.rows.ptr);
        let choices = CheckedChoicesArgs { actions: model.choices.actions, offsets: model.choices.offsets };
        match layout {
            PolicyLayout::Slices => {
                count_slices(device, per_slice, states, groups as u32, choices, row_ptr, policy, counts)?;
            }
            PolicyLayout::Rows { .. } => count_rows(device, per_state, states, choices, row_ptr, policy, counts)?,
        }
        exclusive_scan(device, groups, counts, offsets, scratch)?;
        let projected = ProjectedArgs { ptr: offsets, col, prob, reward };
        // SAFETY: `Mdp` guarantees columns below |S| and non-decreasing row pointers. `col` and `prob` have `capacity` elements,
        // enough for any policy; `offsets` has one element per group and one more.
        unsafe {
            match layout {
                PolicyLayout::Slices => copy_slices(device, per_state, states, model, policy, projected),
                PolicyLayout::Rows { lanes } => copy_rows(device, per_lane, states, *lanes, model, policy, projected),
            }
        }
    }
}

impl<T: Precise, O: Offset> Projected<'_, T, O> {
    /// Sweeps of three operations, as in Aydin (2025), 4.3.1: a product by cuSPARSE with r^π added, and the maximum of the changes. The
    /// host looks at the changes after a batch of sweeps, and counts all of them. A batch is as long as the last evaluation needed to be.
    fn evaluate_by_cusparse(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, DeviceError> {
        let Self { device, resident, offsets, col, prob, reward, cusparse, .. } = self;
        let (device, states) = (*device, resident.states);
        let offsets = (offsets as &dyn Any).downcast_ref().expect("offsets of 32 bits");
        let cusparse = cusparse.as_ref().expect("the library");
        let extent = [states as usize; 2];
        // SAFETY: `project` filled the buffers from an `Mdp`, whose columns are below |S|, with offsets that ascend from 0.
        let matrix = unsafe { cusparse.matrix(extent, offsets, col, prob) }?;
        let gamma = T::from_f64(resident.rows.gamma);
        let shape = Shape::grid_stride(states.into(), THREADS);
        let mut evaluation = Evaluation { sweeps: 0, residual: f64::INFINITY };
        let mut batch = if theta > 0.0 { resident.expected_sweeps } else { MAX_BATCH };
        let mut needed = 0;
        while evaluation.sweeps < max_sweeps && evaluation.residual >= theta && !resident.stopped() {
            batch = batch.clamp(1, MAX_BATCH).min((max_sweeps - evaluation.sweeps) as usize);
            device.clear(&mut resident.residuals)?;
            let done = launch_batch(batch, |k| {
                let Resident { v_old, v_new, residuals, .. } = resident;
                matrix.multiply_add(gamma, v_old, reward, v_new)?;
                max_change(device, shape, states, v_old, v_new, 0.0, k as u32, residuals)?;
                resident.swap();
                Ok::<_, DeviceError>(())
            })?;
            let mut residuals = [0; MAX_BATCH];
            device.download(&resident.residuals, &mut residuals[..done])?;
            let met = residuals[..done].iter().position(|&residual| f64::from_bits(residual) < theta);
            needed = evaluation.sweeps as usize + met.map_or(done, |k| k + 1);
            evaluation.sweeps += done as u32;
            evaluation.residual = f64::from_bits(residuals[done - 1]);
            batch = 8;
        }
        if theta > 0.0 {
            resident.expected_sweeps = needed + 1;
        }
        Ok(evaluation)
    }
}

impl<T: Precise, O: Offset> State for Projected<'_, T, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        self.current = false;
        if let Some(host) = &mut self.host {
            let Ok(()) = host.reset(None);
        }
        self.resident.reset(self.device, initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.resident.values(self.device)
    }

    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        match &mut self.host {
            Some(host) => host.policy().map_err(|error| match error {}),
            None => self.device.to_vec(&self.resident.policy),
        }
    }

    /// Stored entries of P^π including padding, offsets, r^π, and V read and written.
    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        let offsets = self.device.to_vec(&self.offsets)?;
        let entries = offsets.last().map_or(0, |last| last.to_usize());
        let t = size_of::<T>();
        Ok((entries * (4 + t) + offsets.len() * size_of::<O>() + self.resident.states as usize * 3 * t) as u64)
    }
}

impl<T: Precise, O: Offset> Evaluate for Projected<'_, T, O> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, DeviceError> {
        self.project()?;
        if self.cusparse.is_some() {
            return self.evaluate_by_cusparse(theta, max_sweeps);
        }
        let Self { device, resident, layout, offsets, col, prob, reward, .. } = self;
        let device = *device;
        let threads = u64::from(resident.states) * layout.lanes();
        let shape = Shape::grid_stride(threads, THREADS);
        resident.sweep_until(device, theta, max_sweeps, |resident, k| {
            // SAFETY: `project` filled the buffers from an `Mdp`, whose columns are below |S|; V has |S| elements.
            unsafe {
                evaluate_projected!(
                    *layout,
                    device,
                    shape,
                    resident.states,
                    RowsArgs { ptr: offsets, col, prob },
                    reward,
                    resident.rows.gamma,
                    IteratesArgs { old: &resident.v_old, new: &mut resident.v_new },
                    ResidualsArgs { theta, sweep: k, slots: &mut resident.residuals }
                )
            }
        })
    }

    fn improve(&mut self, tie: f64) -> Result<u64, DeviceError> {
        let changed = match &mut self.host {
            Some(host) => {
                self.device.download(&self.resident.v_old, host.values_mut())?;
                let Ok(changed) = host.improve(tie);
                changed
            }
            None => {
                let (lanes, states_per_block) = self.resident.rows.lanes_and_states;
                self.resident.improve(self.device, tie, lanes, THREADS, states_per_block)?
            }
        };
        self.current &= changed == 0;
        Ok(changed)
    }
}

impl<T: Precise, O: Offset> GreedySweeps for Projected<'_, T, O> {
    /// Each sweep improves the policy greedily and then evaluates it for one sweep. A model on the host is swept there: P^π would
    /// serve one sweep.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, DeviceError> {
        if let Some(host) = &mut self.host {
            self.current = false;
            self.device.download(&self.resident.v_old, host.values_mut())?;
            let Ok(backups) = host.backup(stop, max_sweeps);
            self.device.write(&mut self.resident.v_old, host.values_mut())?;
            return Ok(backups);
        }
        let mut sweeps = 0;
        loop {
            self.improve(0.0)?;
            sweeps += self.evaluate(0.0, 1)?.sweeps;
            let Self { device, resident: model, extremes, .. } = self;
            device.clear(extremes)?;
            let shape = Shape::grid_stride(u64::from(model.states), THREADS);
            if model.ranks.as_ref().is_none_or(|ranks| ranks.works()) {
                // After the swap, the last sweep read `v_new` and wrote `v_old`.
                extremes_between(*device, shape, model.states, &model.v_new, &model.v_old, extremes)?;
            }
            let mut keys = [0; 2];
            device.download(extremes, &mut keys)?;
            if let Some(ranks) = &mut model.ranks {
                ranks.max(&mut keys);
            }
            let (least, greatest) = of_sweep(keys[0], keys[1]);
            let fixed = least == 0.0 && greatest == 0.0;
            if fixed || stop.is_met(least, greatest) || sweeps >= max_sweeps || self.resident.stopped() {
                return Ok(Backups { sweeps, least, greatest, fixed });
            }
        }
    }
}

impl<T: Precise, O: Offset> Modify for Projected<'_, T, O> {
    fn unit(&self) -> f64 {
        T::UNIT
    }
}
