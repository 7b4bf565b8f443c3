//! A model, V and π in device memory, with what both methods of policy iteration share: the batched evaluation loop, the
//! improvement and start values.

use std::collections::HashMap;
use std::ops::Range;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_runtime::gpu::Graph;

use warpkov_common::interrupt;
use warpkov_device::device::Offset;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::improve::improve;

use super::ghosts::Exchanges;
use super::layouts::numbers::ModelNumbers;
use super::layouts::rows::RowIndex;
use super::sweeps::launch_batch;
use crate::backend::Evaluation;
use crate::model::{Choices, Mdp};
use warpkov_runtime::Precise;

/// Maximum sweeps per batch without host synchronisation.
pub(super) const MAX_BATCH: usize = 256;

/// The model, V and π in device memory.
pub(crate) struct Resident<'d, T: Precise, O: Offset> {
    /// The states of this rank; ghosts follow them.
    pub states: u32,
    pub rows: RowIndex<O>,
    pub numbers: ModelNumbers<T>,
    pub first_policy: Vec<u32>,
    pub policy: AnyBuffer<u32>,
    pub v_old: AnyBuffer<T>,
    pub v_new: AnyBuffer<T>,
    pub residuals: AnyBuffer<u64>,
    pub changed: AnyBuffer<u64>,
    /// Sweeps of the last evaluation, plus one: the length of the next first batch.
    pub expected_sweeps: usize,
    /// Exchanges with the other ranks, if there are some.
    pub ranks: Option<Box<dyn Exchanges<T> + 'd>>,
    /// Whether V has swapped its buffers an odd number of times.
    swapped: bool,
    /// Recorded batches of sweeps with exchanges; `None` after the first batch of its kind, which may be the only one.
    recorded: HashMap<Batch, Option<Graph>>,
}

/// What distinguishes recorded batches: the bits of θ, the number of sweeps, and the roles of the buffers.
type Batch = (u64, usize, bool);

/// The least and the greatest number of sweeps in a batch of ranks with θ > 0.
const RECORDED: Range<usize> = 8..64;

impl<'d, T: Precise, O: Offset> Resident<'d, T, O> {
    /// # Panics
    /// If ghosts precede other states.
    pub fn upload(
        device: &AnyDevice,
        model: &Mdp,
        ranks: Option<Box<dyn Exchanges<T> + 'd>>,
    ) -> Result<Self, DeviceError> {
        assert_eq!(model.own().start, 0, "ghosts follow the states of this rank");
        let rows = RowIndex::upload(device, model, &model.expected_rewards())?;
        Self::with_rows(device, model, rows, model.first_policy(), ranks)
    }

    /// V in device memory, for a model that stays on the host with π.
    pub fn without_rows(device: &AnyDevice, model: &Mdp) -> Result<Self, DeviceError> {
        Self::with_rows(device, model, RowIndex::none(device, model.gamma())?, Vec::new(), None)
    }

    fn with_rows(
        device: &AnyDevice,
        model: &Mdp,
        (rows, numbers): (RowIndex<O>, ModelNumbers<T>),
        first_policy: Vec<u32>,
        ranks: Option<Box<dyn Exchanges<T> + 'd>>,
    ) -> Result<Self, DeviceError> {
        let states = model.states() as usize;
        let ghosts = model.part().map_or(0, |part| part.ghosts());
        Ok(Self {
            ranks,
            states: (states - ghosts) as u32,
            rows,
            numbers,
            policy: device.upload(&first_policy)?,
            first_policy,
            v_old: device.zeros(states)?,
            v_new: device.zeros(states)?,
            residuals: device.zeros(MAX_BATCH)?,
            changed: device.zeros(1)?,
            expected_sweeps: 16,
            swapped: false,
            recorded: HashMap::new(),
        })
    }

    /// Bytes of device memory allocated by [`upload`](Self::upload).
    pub fn bytes(model: &Mdp) -> u64 {
        let (t, o) = (size_of::<T>() as u64, size_of::<O>() as u64);
        let (states, rows, nnz) = (u64::from(model.states()), model.rows() as u64, model.transitions().nnz() as u64);
        let choices = if matches!(model.choices(), Choices::Ragged(_)) { states + 1 } else { 0 };
        (choices + rows + 1) * o + nnz * (4 + t) + rows * t + 4 * states + Self::bytes_without_rows(model)
    }

    /// Bytes of device memory allocated by [`without_rows`](Self::without_rows).
    pub fn bytes_without_rows(model: &Mdp) -> u64 {
        2 * u64::from(model.states()) * size_of::<T>() as u64 + 8 * (MAX_BATCH as u64 + 1)
    }

    /// Launches batches of sweeps until one meets `theta`. The launches do not wait for residuals; sweeps after one
    /// that met `theta` return at once. `sweep` launches sweep number `k` of a batch.
    pub fn sweep_until(
        &mut self,
        device: &AnyDevice,
        theta: f64,
        max_sweeps: u32,
        mut sweep: impl FnMut(&mut Self, u32) -> Result<(), DeviceError>,
    ) -> Result<Evaluation, DeviceError> {
        let mut evaluation = Evaluation { sweeps: 0, residual: f64::INFINITY };
        // θ = 0 is never met, so all sweeps are necessary.
        let [first, next] = if theta > 0.0 { [self.expected_sweeps, 8] } else { [MAX_BATCH; 2] };
        let mut batch = first;
        while evaluation.sweeps < max_sweeps && evaluation.residual >= theta {
            if theta > 0.0 && self.ranks.is_some() {
                // Few lengths, since each is recorded.
                batch = batch.next_power_of_two().clamp(RECORDED.start, RECORDED.end);
            }
            batch = batch.clamp(1, MAX_BATCH).min((max_sweeps - evaluation.sweeps) as usize);
            batch = match self.ranks {
                // All ranks launch the same sweeps.
                Some(_) => self.batch_on_ranks(device, theta, batch, &mut sweep).map(|()| batch)?,
                None => {
                    device.clear(&mut self.residuals)?;
                    launch_batch(batch, |k| {
                        sweep(self, k as u32)?;
                        self.swap();
                        Ok::<_, DeviceError>(())
                    })?
                }
            };
            let mut residuals = [0; MAX_BATCH];
            device.download(&self.residuals, &mut residuals[..batch])?;
            if let Some(ranks) = &mut self.ranks {
                // No exchange followed the last sweep.
                ranks.max(&mut residuals[batch - 1..batch]);
            }
            let met = residuals[..batch].iter().position(|&bits| f64::from_bits(bits) < theta);
            let done = met.map_or(batch, |k| k + 1);
            // Skipped sweeps wrote nothing. If their number is odd, the buffers have swapped once too often.
            if (batch - done) % 2 == 1 {
                self.swap();
            }
            evaluation.sweeps += done as u32;
            evaluation.residual = f64::from_bits(residuals[done - 1]);
            if self.stopped() {
                break;
            }
            batch = next;
        }
        if theta > 0.0 {
            self.expected_sweeps = evaluation.sweeps as usize + 1;
        }
        Ok(evaluation)
    }

    pub(super) fn swap(&mut self) {
        self.swapped = !self.swapped;
        std::mem::swap(&mut self.v_old, &mut self.v_new);
    }

    /// Launches a batch of sweeps, each after an exchange, which also takes the residual of the sweep before. The second
    /// batch of a kind is recorded, and later ones replay it.
    fn batch_on_ranks(
        &mut self,
        device: &AnyDevice,
        theta: f64,
        sweeps: usize,
        sweep: &mut impl FnMut(&mut Self, u32) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let key = (theta.to_bits(), sweeps, self.swapped);
        if let Some(Some(graph)) = self.recorded.get(&key) {
            // SAFETY: `self` owns the recorded buffers and never reallocates them, and they are in their recorded roles.
            unsafe { device.launch_graph(graph)? };
            if sweeps % 2 == 1 {
                self.swap();
            }
            return Ok(());
        }
        let mut batch = |resident: &mut Self| {
            device.clear(&mut resident.residuals)?;
            (0..sweeps).try_for_each(|k| {
                if let Some(ranks) = &mut resident.ranks {
                    let before = k.checked_sub(1).map(|before| (&mut resident.residuals, before..k));
                    ranks.exchange(device, &mut resident.v_old, None, before)?;
                }
                sweep(resident, k as u32)?;
                resident.swap();
                Ok(())
            })
        };
        if !self.recorded.contains_key(&key) || !self.ranks.as_ref().is_some_and(|ranks| ranks.records()) {
            self.recorded.insert(key, None);
            return batch(self);
        }
        match device.capture(|| batch(self))? {
            Some(graph) => {
                // SAFETY: these are the buffers in their recorded roles: the recording swapped them as the batch does.
                unsafe { device.launch_graph(&graph)? };
                self.recorded.insert(key, Some(graph));
                Ok(())
            }
            None => batch(self),
        }
    }

    /// Replaces the ghosts of V.
    pub fn refresh(&mut self, device: &AnyDevice) -> Result<(), DeviceError> {
        self.ranks.as_mut().map_or(Ok(()), |ranks| ranks.refresh(device, &mut self.v_old))
    }

    /// Whether a stop was requested, on any rank.
    pub fn stopped(&self) -> bool {
        self.ranks.as_ref().map_or_else(interrupt::requested, |ranks| ranks.stopped())
    }

    /// Improves the policy with `lanes` threads per row and `states_per_block` states per block.
    pub fn improve(
        &mut self,
        device: &AnyDevice,
        tie: f64,
        lanes: u32,
        threads: u32,
        states_per_block: u32,
    ) -> Result<u64, DeviceError> {
        self.refresh(device)?;
        device.clear(&mut self.changed)?;
        let blocks = self.states.div_ceil(states_per_block);
        let shape = Shape::new(blocks, threads).with_shared(threads / lanes * 8);
        let model = self.rows.args(&self.numbers);
        macro_rules! launch {
            ($lanes:literal) => {
                // SAFETY: `Mdp` guarantees columns below |S| and non-decreasing row pointers. `Resident::upload`
                // allocated the buffers with the sizes of this model.
                unsafe {
                    improve::<T, O, $lanes, _>(
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

    pub fn reset(&mut self, device: &AnyDevice, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        device.write(&mut self.policy, &self.first_policy)?;
        match initial {
            Some(values) => {
                assert_eq!(values.len(), self.v_old.len(), "a value for each state");
                device.write(&mut self.v_old, &T::rounded(values))?;
            }
            None => device.clear(&mut self.v_old)?,
        }
        Ok(())
    }

    pub fn values(&mut self, device: &AnyDevice) -> Result<Vec<f64>, DeviceError> {
        self.refresh(device)?;
        Ok(device.to_vec(&self.v_old)?.into_iter().map(T::to_f64).collect())
    }
}
