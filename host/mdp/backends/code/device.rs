//! Value iteration of a model as code on a device.

use std::ops::Range;
use std::time::Instant;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_runtime::gpu::Graph;
use warpkov_runtime::link::Link;

use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::mdp::matrix_free::{Compiled, MEASURED, MeasureLaunch, Measured, SLOTS, SweepLaunch};

use crate::backend::{Backups, GreedySweeps, Measure, Pace, State, Stop};
use crate::backends::device::sweeps::{StopOnDevice, changes};
use crate::error::SolveError;
use warpkov_common::interrupt;
use warpkov_runtime::Precise;
use warpkov_runtime::comm::Communicator;

/// Sweeps per batch without host synchronisation; also the length of the recorded CUDA graph.
const BATCH: usize = 32;

/// Threads per block: with about 90 registers each, smaller blocks fill a multiprocessor better.
const THREADS: u32 = 128;

/// States of a device below which a warp works on each state, whose lanes share the actions.
const FEW_STATES: u64 = 1 << 16;

/// Actions of a state from which that pays.
const MANY_ACTIONS: u32 = 4;

/// Greedy sweeps straight from the outcomes of a model, V in T. Every rank has all of V, and backs up its own states.
pub struct MatrixFree<'d, M, T: Precise> {
    device: &'d AnyDevice,
    comm: &'d dyn Communicator,
    link: Option<Link>,
    model: M,
    table: AnyBuffer<f64>,
    /// The states of each rank.
    parts: Vec<Range<usize>>,
    /// Whether a warp works on each state.
    by_warp: bool,
    old: AnyBuffer<T>,
    new: AnyBuffer<T>,
    /// The greedy policy of the own states when V was last measured.
    policy: AnyBuffer<u32>,
    slots: AnyBuffer<u64>,
    stop: StopOnDevice,
    pace: Pace,
    /// Least and greatest ΔV of the last sweep.
    change: [f64; 2],
    /// A batch of [`BATCH`] sweeps, an even number: the buffers are in the same roles before and after.
    graph: Option<Graph>,
}

impl<'d, M: Compiled, T: Precise> MatrixFree<'d, M, T> {
    /// V = 0. Rank r backs up the states `parts[r]`.
    ///
    /// # Errors
    /// Errors of the device, and if a rank fails.
    pub fn new(
        device: &'d AnyDevice,
        comm: &'d dyn Communicator,
        model: M,
        parts: Vec<Range<usize>>,
    ) -> Result<Self, SolveError> {
        let link = if comm.size() > 1 { Link::new(device, comm)? } else { None };
        let (states, table) = (model.states() as usize, model.table());
        let own = parts[comm.rank() as usize].len();
        let mut made = Self {
            device,
            comm,
            link,
            model,
            table: device.upload(&table)?,
            parts,
            by_warp: false,
            old: device.zeros(states)?,
            new: device.zeros(states)?,
            policy: device.zeros(own)?,
            slots: device.zeros(SLOTS * BATCH)?,
            stop: StopOnDevice::new(device)?,
            pace: Pace::default(),
            change: [0.0; 2],
            graph: None,
        };
        // Few states are shared by many threads. The first states stand for all.
        let own = made.own();
        let sample = (own.start..own.end.min(own.start + 64)).map(|state| model.actions(&table, state)).max();
        made.by_warp = own.end - own.start < FEW_STATES && sample.is_some_and(|actions| actions >= MANY_ACTIONS);
        Ok(made)
    }

    fn own(&self) -> Range<u64> {
        let part = &self.parts[self.comm.rank() as usize];
        part.start as u64..part.end as u64
    }

    fn shape(&self) -> Shape {
        let own = self.own();
        let states = own.end - own.start;
        // States of a warp each may have very different numbers of events: blocks that end make room for others.
        if self.by_warp { Shape::cover(32 * states, THREADS) } else { Shape::grid_stride(states, THREADS) }
    }

    /// Launches sweep `number` of a batch, and swaps the buffers.
    fn sweep(&mut self, number: usize) -> Result<(), DeviceError> {
        let (shape, states) = (self.shape(), self.own());
        let Self { device, model, table, old, new, slots, stop, .. } = self;
        let launch = SweepLaunch { table, states, old, new, stop: &stop.buffer, slots, number: number as u32 };
        // SAFETY: V has an element per state, the own states are among them, and the slots are those of a batch.
        unsafe {
            match self.by_warp {
                true => model.sweep::<T, 32, _>(*device, shape, launch)?,
                false => model.sweep::<T, 1, _>(*device, shape, launch)?,
            }
        }
        std::mem::swap(&mut self.old, &mut self.new);
        Ok(())
    }

    /// Submits a batch of sweeps of one rank.
    fn submit_alone(&mut self, sweeps: usize) -> Result<(), DeviceError> {
        self.device.clear(&mut self.slots)?;
        (0..sweeps).try_for_each(|number| self.sweep(number))
    }

    /// Submits a batch of sweeps, each followed by an exchange of V and of its slots.
    fn submit(&mut self, sweeps: usize) -> Result<(), SolveError> {
        if self.comm.size() == 1 {
            match &self.graph {
                // SAFETY: `self` owns the recorded buffers. They are in their recorded roles: the recording was dropped
                // if an odd number of sweeps followed it.
                Some(graph) if sweeps == BATCH => unsafe { self.device.launch_graph(graph)? },
                _ => self.submit_alone(sweeps)?,
            }
            return Ok(());
        }
        self.device.clear(&mut self.slots)?;
        for number in 0..sweeps {
            self.sweep(number)?;
            self.exchange(SLOTS * number..SLOTS * (number + 1))?;
        }
        Ok(())
    }

    /// Gives all ranks the own values of V, and the maxima of these slots.
    fn exchange(&mut self, slots: Range<usize>) -> Result<(), SolveError> {
        let Self { device, comm, link, parts, old, .. } = self;
        if let Some(link) = link {
            // SAFETY: all ranks have the same parts and slots, and call this after the same sweep.
            unsafe {
                link.group(|| link.share(old, parts))?;
                link.max(&mut self.slots, slots)?;
            }
            return Ok(());
        }
        let all = device.to_vec(old)?;
        let gathered = comm.gather(&all[parts[comm.rank() as usize].clone()])?.concat();
        device.write(old, &gathered)?;
        let mut found = device.to_vec(&self.slots)?;
        for of_rank in comm.gather(&found[slots.clone()])? {
            found[slots.clone()].iter_mut().zip(of_rank).for_each(|(slot, other)| *slot = other.max(*slot));
        }
        device.write(&mut self.slots, &found)?;
        Ok(())
    }
}

impl<M: Compiled, T: Precise> State for MatrixFree<'_, M, T> {
    type Error = SolveError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), SolveError> {
        match initial {
            Some(values) => self.device.write(&mut self.old, &T::rounded(values))?,
            None => self.device.clear(&mut self.old)?,
        }
        Ok(())
    }

    fn values(&mut self) -> Result<Vec<f64>, SolveError> {
        Ok(self.device.to_vec(&self.old)?.into_iter().map(T::to_f64).collect())
    }

    fn policy(&mut self) -> Result<Vec<u32>, SolveError> {
        Ok(self.device.to_vec(&self.policy)?)
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    fn sweep_bytes(&mut self) -> Result<u64, SolveError> {
        Ok(2 * self.model.states() * size_of::<T>() as u64)
    }
}

impl<M: Compiled, T: Precise> GreedySweeps for MatrixFree<'_, M, T> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, SolveError> {
        let begun = Instant::now();
        let mut done = Backups { sweeps: 0, least: 0.0, greatest: 0.0, fixed: false };
        self.stop.set(self.device, stop)?;
        loop {
            let batch = BATCH.min((max_sweeps - done.sweeps) as usize);
            // A few sweeps end before a recording pays.
            if self.comm.size() == 1 && self.graph.is_none() && batch == BATCH && done.sweeps > 0 {
                let device = self.device;
                self.graph = device.capture(|| self.submit_alone(BATCH))?;
            }
            self.submit(batch)?;
            let mut slots = vec![0; SLOTS * batch];
            self.device.download(&self.slots, &mut slots)?;
            let mut swept = 0;
            for slot in slots.chunks_exact(SLOTS) {
                swept += 1;
                [done.least, done.greatest] = changes(slot);
                done.fixed = slot[2] == 0;
                if done.fixed || stop.is_met(done.least, done.greatest) {
                    break;
                }
            }
            // Sweeps behind the last one wrote nothing. If their number is odd, the buffers have swapped once too often;
            // a batch of odd length leaves them in the other roles than the recorded ones.
            if (batch - swept) % 2 == 1 {
                std::mem::swap(&mut self.old, &mut self.new);
            }
            if swept % 2 == 1 {
                self.graph = None;
            }
            done.sweeps += swept as u32;
            let met = done.fixed || stop.is_met(done.least, done.greatest);
            if met || done.sweeps >= max_sweeps || self.comm.any(interrupt::requested())? {
                self.pace.took(done.sweeps, begun.elapsed(), self.comm)?;
                self.change = [done.least, done.greatest];
                return Ok(done);
            }
        }
    }

    fn sweeps_per_round(&self) -> u32 {
        self.pace.sweeps()
    }
}

impl<M: Compiled, T: Precise> Measure for MatrixFree<'_, M, T> {
    fn change(&self) -> [f64; 2] {
        self.change
    }

    fn measure(&mut self) -> Result<Measured, SolveError> {
        let (device, shape, states) = (self.device, self.shape(), self.own());
        let mut found = device.zeros(MEASURED)?;
        let Self { table, old: v, policy, .. } = self;
        let launch = MeasureLaunch { table, states, v, policy, found: &mut found };
        // SAFETY: V has an element per state, the policy one per own state, and `found` has the slots.
        unsafe {
            match self.by_warp {
                true => self.model.measure::<T, 32, _>(device, shape, launch)?,
                false => self.model.measure::<T, 1, _>(device, shape, launch)?,
            }
        }
        let mut slots = [0; MEASURED];
        device.download(&found, &mut slots)?;
        Ok(Measured::of_slots(&slots))
    }
}
