//! Policy iteration and modified policy iteration on a device: buffers, launch shapes and kernel choice.
//!
//! One file because the plain and the projected method share the model buffers, the batched evaluation loop and the
//! improvement in `Resident`.

use rayon::prelude::*;
use warpkov_device::device::Offset;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::backup::slices::SLICE;
use warpkov_kernels::mdp::change::{extremes_between, of_sweep};
use warpkov_kernels::mdp::choices::ChoicesArgs;
use warpkov_kernels::mdp::evaluate::{evaluate_block_per_state, evaluate_rows, evaluate_slices};
use warpkov_kernels::mdp::improve::improve;
use warpkov_kernels::mdp::model::{IteratesArgs, ModelArgs};
use warpkov_kernels::mdp::project::{ProjectedArgs, copy_rows, copy_slices, count_rows, count_slices};
use warpkov_kernels::mdp::residual::{ResidualsArgs, max_change};
use warpkov_kernels::primitives::rows::RowsArgs;

use crate::common::interrupt;
use crate::mdp::backend::{Backups, Evaluate, Evaluation, GreedySweeps, Modify, State, Stop};
use crate::mdp::model::{Choices, Mdp, NO_ACTION};
use crate::runtime::Precise;
use crate::runtime::prefix_sum::{exclusive_scan, scratch_len};

/// Threads per block for kernels without a fixed block size.
pub(super) const THREADS: u32 = 256;

/// Maximum sweeps per batch without host synchronisation.
const MAX_BATCH: usize = 256;

/// Converts row pointers to `O`; panics if they do not fit.
pub(super) fn offsets<O: Offset>(row_ptr: &[u64]) -> Vec<O> {
    row_ptr.par_iter().map(|&offset| checked_offset(offset)).collect()
}

/// An offset as `O`, into which it must fit.
pub(super) fn checked_offset<O: Offset>(offset: u64) -> O {
    assert!(O::WIDE || u32::try_from(offset).is_ok(), "offsets of 32 bits are too small for the model");
    O::from_usize(offset as usize)
}

/// Uploads the choices: A and no offsets if all states have A actions, otherwise 0 and the row offsets of the states.
pub(super) fn upload_choices<O: Offset, D: Device>(
    device: &D,
    choices: &Choices,
) -> Result<(u32, D::Buffer<O>), D::Error> {
    match choices {
        Choices::Uniform(actions) => Ok((*actions, device.upload(&[])?)),
        Choices::Ragged(choices) => Ok((0, device.upload(&offsets(choices))?)),
    }
}

/// A model in device memory.
struct Model<T: Precise, O: Offset, D: Device> {
    /// A, or 0 if the number of actions varies.
    actions: u32,
    /// Row offsets of the states if the number of actions varies.
    choices: D::Buffer<O>,
    gamma: f64,
    row_ptr: D::Buffer<O>,
    col: D::Buffer<u32>,
    prob: D::Buffer<T>,
    /// r(s, a).
    reward: D::Buffer<T>,
}

impl<T: Precise, O: Offset, D: Device> Model<T, O, D> {
    fn upload(device: &D, model: &Mdp) -> Result<Self, D::Error> {
        let (actions, choices) = upload_choices(device, model.choices())?;
        Ok(Self {
            actions,
            choices,
            gamma: model.gamma(),
            row_ptr: device.upload(&offsets::<O>(model.transitions().row_ptr()))?,
            col: device.upload(model.transitions().col())?,
            prob: device.upload(&T::of(model.transitions().val()))?,
            reward: device.upload(&T::of(&model.expected_rewards()))?,
        })
    }

    /// The model as kernel arguments.
    fn args(&self) -> ModelArgs<'_, T, O, D> {
        ModelArgs {
            choices: ChoicesArgs { actions: self.actions, offsets: &self.choices },
            rows: RowsArgs { ptr: &self.row_ptr, col: &self.col, prob: &self.prob },
            reward: &self.reward,
            gamma: self.gamma,
        }
    }
}

/// The model, V and π in device memory.
struct Resident<T: Precise, O: Offset, D: Device> {
    states: u32,
    model: Model<T, O, D>,
    first_policy: Vec<u32>,
    policy: D::Buffer<u32>,
    v_old: D::Buffer<T>,
    v_new: D::Buffer<T>,
    residuals: D::Buffer<u64>,
    changed: D::Buffer<u64>,
    /// Sweeps of the last evaluation, plus one: the length of the next first batch.
    expected_sweeps: usize,
}

impl<T: Precise, O: Offset, D: Device> Resident<T, O, D> {
    fn upload(device: &D, model: &Mdp) -> Result<Self, D::Error> {
        let states = model.states() as usize;
        let first_policy = model.first_policy();
        Ok(Self {
            states: model.states(),
            model: Model::upload(device, model)?,
            policy: device.upload(&first_policy)?,
            first_policy,
            v_old: device.zeros(states)?,
            v_new: device.zeros(states)?,
            residuals: device.zeros(MAX_BATCH)?,
            changed: device.zeros(1)?,
            expected_sweeps: 16,
        })
    }

    /// Bytes of device memory allocated by [`upload`](Self::upload).
    fn bytes(model: &Mdp) -> u64 {
        let (t, o) = (size_of::<T>() as u64, size_of::<O>() as u64);
        let (states, rows, nnz) = (u64::from(model.states()), model.rows() as u64, model.transitions().nnz() as u64);
        let choices = if matches!(model.choices(), Choices::Ragged(_)) { states + 1 } else { 0 };
        (choices + rows + 1) * o + nnz * (4 + t) + rows * t + states * (4 + 2 * t) + 8 * (MAX_BATCH as u64 + 1)
    }

    /// Launches batches of sweeps until one meets `theta`. The launches do not wait for residuals; sweeps after one
    /// that met `theta` return at once. `sweep` launches sweep number `k` of a batch.
    fn sweep_until(
        &mut self,
        device: &D,
        theta: f64,
        max_sweeps: u32,
        mut sweep: impl FnMut(&mut Self, u32) -> Result<(), D::Error>,
    ) -> Result<Evaluation, D::Error> {
        let mut evaluation = Evaluation { sweeps: 0, residual: f64::INFINITY };
        // θ = 0 is never met, so all sweeps are necessary.
        let [first, next] = if theta > 0.0 { [self.expected_sweeps, 8] } else { [MAX_BATCH; 2] };
        let mut batch = first;
        while evaluation.sweeps < max_sweeps && evaluation.residual >= theta {
            batch = batch.clamp(1, MAX_BATCH).min((max_sweeps - evaluation.sweeps) as usize);
            device.clear(&mut self.residuals)?;
            for k in 0..batch {
                if k > 0 && interrupt::requested() {
                    batch = k;
                    break;
                }
                sweep(self, k as u32)?;
                std::mem::swap(&mut self.v_old, &mut self.v_new);
            }
            let mut residuals = [0; MAX_BATCH];
            device.download(&self.residuals, &mut residuals[..batch])?;
            let met = residuals[..batch].iter().position(|&bits| f64::from_bits(bits) < theta);
            let done = met.map_or(batch, |k| k + 1);
            // Skipped sweeps wrote nothing. If their number is odd, the buffers have swapped once too often.
            if (batch - done) % 2 == 1 {
                std::mem::swap(&mut self.v_old, &mut self.v_new);
            }
            evaluation.sweeps += done as u32;
            evaluation.residual = f64::from_bits(residuals[done - 1]);
            if interrupt::requested() {
                break;
            }
            batch = next;
        }
        if theta > 0.0 {
            self.expected_sweeps = evaluation.sweeps as usize + 1;
        }
        Ok(evaluation)
    }

    /// Improves the policy with `lanes` threads per row and `states_per_block` states per block.
    fn improve(
        &mut self,
        device: &D,
        tie: f64,
        lanes: u32,
        threads: u32,
        states_per_block: u32,
    ) -> Result<u64, D::Error> {
        device.clear(&mut self.changed)?;
        let blocks = self.states.div_ceil(states_per_block);
        let shape = Shape::new(blocks, threads).with_shared(threads / lanes * 8);
        let model = self.model.args();
        macro_rules! launch {
            ($lanes:literal) => {
                // SAFETY: `Mdp` guarantees columns below |S| and non-decreasing row pointers. `Resident::upload`
                // allocated the buffers with the sizes of this model.
                unsafe {
                    improve::<T, O, $lanes, D>(
                        device,
                        shape,
                        self.states,
                        states_per_block,
                        model,
                        &self.v_old,
                        tie,
                        &mut self.policy,
                        &mut self.changed,
                    )
                }
            };
        }
        match lanes {
            1 => launch!(1),
            2 => launch!(2),
            4 => launch!(4),
            8 => launch!(8),
            16 => launch!(16),
            _ => launch!(32),
        }?;
        let mut changed = [0];
        device.download(&self.changed, &mut changed)?;
        Ok(changed[0])
    }

    fn reset(&mut self, device: &D, initial: Option<&[f64]>) -> Result<(), D::Error> {
        self.policy = device.upload(&self.first_policy)?;
        match initial {
            Some(values) => {
                assert_eq!(values.len(), self.states as usize, "a value for each state");
                self.v_old = device.upload(&T::of(values))?;
            }
            None => device.clear(&mut self.v_old)?,
        }
        Ok(())
    }

    fn values(&self, device: &D) -> Result<Vec<f64>, D::Error> {
        Ok(device.to_vec(&self.v_old)?.into_iter().map(T::to_f64).collect())
    }
}

/// The plain method of the source: one block per state, rows read from the full model.
pub struct BlockPerState<'d, T: Precise, O: Offset, D: Device> {
    device: &'d D,
    resident: Resident<T, O, D>,
    /// R(s, a, s') for each entry of P.
    transition_reward: D::Buffer<T>,
    /// Reward of each row independent of the successor.
    action_reward: D::Buffer<T>,
    evaluate_threads: u32,
    improve_threads: u32,
}

impl<'d, T: Precise, O: Offset, D: Device> BlockPerState<'d, T, O, D> {
    /// Uploads the model; V = 0, π = 0.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(device: &'d D, model: &Mdp) -> Result<Self, D::Error> {
        let longest = model.transitions().row_ptr().windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(1);
        let action_reward: Vec<f64> = (0..model.rows()).into_par_iter().map(|row| model.action_reward(row)).collect();
        let whole_warps = |n: u64| (n.next_power_of_two() as u32).clamp(32, THREADS);
        Ok(Self {
            device,
            resident: Resident::upload(device, model)?,
            transition_reward: device.upload(&T::of(&model.transition_rewards()))?,
            action_reward: device.upload(&T::of(&action_reward))?,
            evaluate_threads: whole_warps(longest),
            improve_threads: whole_warps(u64::from(model.choices().max())),
        })
    }

    /// Bytes of device memory for this method.
    #[must_use]
    pub fn bytes(model: &Mdp) -> u64 {
        Resident::<T, O, D>::bytes(model) + ((model.transitions().nnz() + model.rows()) * size_of::<T>()) as u64
    }
}

impl<T: Precise, O: Offset, D: Device> State for BlockPerState<'_, T, O, D> {
    type Error = D::Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), D::Error> {
        self.resident.reset(self.device, initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, D::Error> {
        self.resident.values(self.device)
    }

    fn policy(&mut self) -> Result<Vec<u32>, D::Error> {
        self.device.to_vec(&self.resident.policy)
    }

    /// Entries of the policy's rows with their rewards; two offsets, an action and its reward per state; V read and
    /// written, and both read again for the residual.
    fn sweep_bytes(&mut self) -> Result<u64, D::Error> {
        let policy = self.policy()?;
        let row_ptr = self.device.to_vec(&self.resident.model.row_ptr)?;
        let choices = self.device.to_vec(&self.resident.model.choices)?;
        let first = |state: usize| match self.resident.model.actions {
            0 => choices[state].to_usize(),
            actions => state * actions as usize,
        };
        let length = |row: usize| row_ptr[row + 1].to_usize() - row_ptr[row].to_usize();
        let taken = policy.iter().enumerate().filter(|&(_, &action)| action != NO_ACTION);
        let entries: usize = taken.map(|(state, &action)| length(first(state) + action as usize)).sum();
        let (t, o) = (size_of::<T>(), size_of::<O>());
        Ok((entries * (4 + 2 * t) + policy.len() * (2 * o + 4 + 5 * t)) as u64)
    }
}

impl<T: Precise, O: Offset, D: Device> Evaluate for BlockPerState<'_, T, O, D> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, D::Error> {
        let Self { device, resident, transition_reward, action_reward, evaluate_threads, .. } = self;
        let shape = Shape::new(resident.states, *evaluate_threads).with_shared(*evaluate_threads * 8);
        let reduction = Shape::grid_stride(u64::from(resident.states), THREADS);
        resident.sweep_until(device, theta, max_sweeps, |resident, k| {
            // SAFETY: `Mdp` guarantees columns below |S| and non-decreasing row pointers. `upload` and `new` allocated
            // the buffers with the sizes of this model.
            unsafe {
                let Resident { states, model, policy, v_old, v_new, residuals, .. } = resident;
                let model = ModelArgs { reward: action_reward, ..model.args() };
                let v = IteratesArgs { old: v_old, new: v_new };
                let residuals = &mut *residuals;
                evaluate_block_per_state(
                    *device,
                    shape,
                    model,
                    transition_reward,
                    policy,
                    v,
                    ResidualsArgs { theta, sweep: k, slots: residuals },
                )?;
                max_change(
                    *device,
                    reduction,
                    *states,
                    v_old,
                    v_new,
                    ResidualsArgs { theta, sweep: k, slots: residuals },
                )
            }
        })
    }

    fn improve(&mut self, tie: f64) -> Result<u64, D::Error> {
        self.resident.improve(self.device, tie, 1, self.improve_threads, 1)
    }
}

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
        let mean = model.transitions().nnz() as f64 / model.rows() as f64;
        if mean <= 8.0 && slice_capacity(model) as f64 <= 2.0 * mean * f64::from(model.states()) + 4096.0 {
            Self::Slices
        } else {
            Self::Rows { lanes: lanes_for(mean).max(2) }
        }
    }
}

impl PolicyLayout {
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

/// Threads per row of `mean` entries: 1 to 32, with one to two entries per thread if that suffices.
pub(super) fn lanes_for(mean: f64) -> u32 {
    ((mean / 2.0).ceil() as u32).next_power_of_two().clamp(1, 32)
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

/// The projected method: gathers P^π and r^π on the device for each policy and sweeps over them.
pub struct Projected<'d, T: Precise, O: Offset, D: Device> {
    device: &'d D,
    resident: Resident<T, O, D>,
    layout: PolicyLayout,
    improve_lanes: u32,
    /// States per block of the improvement kernel.
    improve_states: u32,
    counts: D::Buffer<O>,
    offsets: D::Buffer<O>,
    scratch: D::Buffer<O>,
    col: D::Buffer<u32>,
    prob: D::Buffer<T>,
    reward: D::Buffer<T>,
    /// Whether P^π and r^π belong to the current policy.
    current: bool,
    /// Keys of the greatest change and of the greatest decrease of a greedy sweep.
    extremes: D::Buffer<u64>,
}

/// Launches an evaluation sweep over P^π with the kernel for its layout.
macro_rules! evaluate_projected {
    ($layout:expr, $($argument:expr),*) => {
        match $layout {
            PolicyLayout::Slices => evaluate_slices($($argument),*),
            PolicyLayout::Rows { lanes: 2 } => evaluate_rows::<T, O, 2, D>($($argument),*),
            PolicyLayout::Rows { lanes: 4 } => evaluate_rows::<T, O, 4, D>($($argument),*),
            PolicyLayout::Rows { lanes: 8 } => evaluate_rows::<T, O, 8, D>($($argument),*),
            PolicyLayout::Rows { lanes: 16 } => evaluate_rows::<T, O, 16, D>($($argument),*),
            PolicyLayout::Rows { .. } => evaluate_rows::<T, O, 32, D>($($argument),*),
        }
    };
}

impl<'d, T: Precise, O: Offset, D: Device> Projected<'d, T, O, D> {
    /// Uploads the model; V = 0, π = 0.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// If `layout` has an invalid number of threads per row, or if P^π may have more entries than `O` can index.
    pub fn new(device: &'d D, model: &Mdp, layout: PolicyLayout) -> Result<Self, D::Error> {
        if let PolicyLayout::Rows { lanes } = layout {
            assert!([2, 4, 8, 16, 32].contains(&lanes), "2, 4, 8, 16 or 32 lanes per row, not {lanes}");
        }
        let groups = layout.groups(model);
        let capacity = layout.capacity(model);
        assert!(
            size_of::<O>() == 8 || u32::try_from(capacity).is_ok(),
            "offsets of 32 bits are too small for the model"
        );
        let improve_lanes = lanes_for(model.transitions().nnz() as f64 / model.rows() as f64 / 2.0);
        let actions = model.rows().div_ceil(model.states() as usize) as u32;
        Ok(Self {
            device,
            resident: Resident::upload(device, model)?,
            layout,
            improve_lanes,
            improve_states: (THREADS / improve_lanes / actions).max(1),
            counts: device.zeros(groups)?,
            offsets: device.zeros(groups + 1)?,
            scratch: device.zeros(scratch_len(groups))?,
            col: device.zeros(capacity)?,
            prob: device.zeros(capacity)?,
            reward: device.zeros(model.states() as usize)?,
            current: false,
            extremes: device.zeros(2)?,
        })
    }

    /// Bytes of device memory for this method.
    #[must_use]
    pub fn bytes(model: &Mdp, layout: PolicyLayout) -> u64 {
        let (t, o) = (size_of::<T>(), size_of::<O>());
        let groups = layout.groups(model);
        let own =
            (2 * groups + 1 + scratch_len(groups)) * o + layout.capacity(model) * (4 + t) + model.states() as usize * t;
        Resident::<T, O, D>::bytes(model) + own as u64 + 16
    }

    /// The device.
    pub(super) fn device(&self) -> &'d D {
        self.device
    }

    /// The device and V.
    pub(super) fn values_mut(&mut self) -> (&'d D, &mut D::Buffer<T>) {
        (self.device, &mut self.resident.v_old)
    }

    /// `y` ← `reward` + γ P^π `x` with P^π from the last [`project`](Self::project). `None` means `reward` = r^π.
    pub(super) fn product(
        &mut self,
        x: &D::Buffer<T>,
        reward: Option<&D::Buffer<T>>,
        y: &mut D::Buffer<T>,
    ) -> Result<(), D::Error> {
        let Self { device, resident, layout, offsets, col, prob, reward: own, .. } = self;
        let device = *device;
        let shape = Shape::grid_stride(u64::from(resident.states) * layout.lanes(), THREADS);
        device.clear(&mut resident.residuals)?;
        // SAFETY: `project` filled the buffers from an `Mdp`, whose columns are below |S|, and callers pass vectors of
        // |S| elements.
        unsafe {
            evaluate_projected!(
                *layout,
                device,
                shape,
                resident.states,
                RowsArgs { ptr: offsets, col, prob },
                reward.unwrap_or(own),
                resident.model.gamma,
                IteratesArgs { old: x, new: y },
                ResidualsArgs { theta: 0.0, sweep: 0, slots: &mut resident.residuals }
            )
        }
    }

    /// ‖y − x‖∞ of the last [`product`](Self::product); ignores NaN.
    pub(super) fn change(&self) -> Result<f64, D::Error> {
        let mut norm = [0];
        self.device.download(&self.resident.residuals, &mut norm)?;
        Ok(f64::from_bits(norm[0]))
    }

    /// Gathers P^π and r^π of the current policy unless they are up to date: count, scan, copy.
    pub(super) fn project(&mut self) -> Result<(), D::Error> {
        if std::mem::replace(&mut self.current, true) {
            return Ok(());
        }
        let Self { device, resident, layout, counts, offsets, scratch, col, prob, reward, .. } = self;
        let Resident { states, model, policy, .. } = resident;
        let (device, model) = (*device, model.args());
        let per_state = Shape::cover(u64::from(*states), THREADS);
        let per_warp = Shape::cover(u64::from(*states) * 32, THREADS);
        let groups = counts.len();
        macro_rules! launch {
            ($count:ident, $copy:ident, $shape:expr) => {{
                // SAFETY: `Mdp` guarantees columns below |S| and non-decreasing row pointers. `col` and `prob` have
                // `capacity` elements, enough for any policy; `counts` and `offsets` have one element per group, plus
                // one for `offsets`.
                unsafe {
                    $count(device, per_state, *states, model.choices, model.rows.ptr, policy, counts)?;
                    exclusive_scan(device, groups, counts, offsets, scratch)?;
                    $copy(device, $shape, *states, model, policy, ProjectedArgs { ptr: offsets, col, prob, reward })
                }
            }};
        }
        match layout {
            PolicyLayout::Slices => launch!(count_slices, copy_slices, per_state),
            PolicyLayout::Rows { .. } => launch!(count_rows, copy_rows, per_warp),
        }
    }
}

impl<T: Precise, O: Offset, D: Device> State for Projected<'_, T, O, D> {
    type Error = D::Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), D::Error> {
        self.current = false;
        self.resident.reset(self.device, initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, D::Error> {
        self.resident.values(self.device)
    }

    fn policy(&mut self) -> Result<Vec<u32>, D::Error> {
        self.device.to_vec(&self.resident.policy)
    }

    /// Stored entries of P^π including padding, offsets, r^π, and V read and written.
    fn sweep_bytes(&mut self) -> Result<u64, D::Error> {
        let offsets = self.device.to_vec(&self.offsets)?;
        let entries = offsets.last().map_or(0, |last| last.to_usize());
        let t = size_of::<T>();
        Ok((entries * (4 + t) + offsets.len() * size_of::<O>() + self.resident.states as usize * 3 * t) as u64)
    }
}

impl<T: Precise, O: Offset, D: Device> Evaluate for Projected<'_, T, O, D> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, D::Error> {
        self.project()?;
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
                    resident.model.gamma,
                    IteratesArgs { old: &resident.v_old, new: &mut resident.v_new },
                    ResidualsArgs { theta, sweep: k, slots: &mut resident.residuals }
                )
            }
        })
    }

    fn improve(&mut self, tie: f64) -> Result<u64, D::Error> {
        let changed = self.resident.improve(self.device, tie, self.improve_lanes, THREADS, self.improve_states)?;
        self.current &= changed == 0;
        Ok(changed)
    }
}

impl<T: Precise, O: Offset, D: Device> GreedySweeps for Projected<'_, T, O, D> {
    /// Each sweep improves the policy greedily and then evaluates it for one sweep.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, D::Error> {
        let mut sweeps = 0;
        loop {
            self.improve(0.0)?;
            sweeps += self.evaluate(0.0, 1)?.sweeps;
            let Self { device, resident: model, extremes, .. } = self;
            device.clear(extremes)?;
            let shape = Shape::grid_stride(u64::from(model.states), THREADS);
            // SAFETY: both vectors have |S| elements. After the swap, the last sweep read `v_new` and wrote `v_old`.
            unsafe { extremes_between(*device, shape, model.states, &model.v_new, &model.v_old, extremes)? };
            let mut keys = [0; 2];
            device.download(extremes, &mut keys)?;
            let (least, greatest) = of_sweep(keys[0], keys[1]);
            let fixed = least == 0.0 && greatest == 0.0;
            if fixed || stop.is_met(least, greatest) || sweeps >= max_sweeps || interrupt::requested() {
                return Ok(Backups { sweeps, least, greatest, fixed });
            }
        }
    }
}

impl<T: Precise, O: Offset, D: Device> Modify for Projected<'_, T, O, D> {
    fn unit(&self) -> f64 {
        T::UNIT
    }
}
