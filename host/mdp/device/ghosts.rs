//! Ghosts in device memory: their exchange between the devices of the ranks, and the maximum of a sweep's changes.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use bytemuck::Pod;
use warpkov_device::device::DeviceCopy;
use warpkov_device::emulator::{Emulator, EmulatorError};
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::ghosts::{pack, unpack};

use super::resident::THREADS;
use super::values::{Certify, Residual};
use crate::common::interrupt;
use crate::mdp::backend::{Backups, Correct, Evaluate, Evaluation, GreedySweeps, Modify, State, Stop};
use crate::mdp::error::SolveError;
use crate::mdp::model::Peer;
use crate::mdp::team::Team;
use crate::runtime;
use crate::runtime::Precise;
use crate::runtime::comm::{self, Communicator};
use crate::runtime::gpu::{CudaError, Gpu};
use crate::runtime::link::Link;

/// A device that can be linked with the devices of other ranks.
pub trait Linked: Device + Sized {
    /// The link.
    type Link: Linking<Self>;

    /// Links the devices of all ranks; `None` if they exchange data through the memory of their hosts.
    ///
    /// # Errors
    /// If a rank fails.
    fn link(&self, comm: &dyn Communicator) -> Result<Option<Self::Link>, runtime::Error>;
}

/// Exchanges between linked devices, in the order of the device's other operations.
pub trait Linking<D: Device> {
    /// Sends ranges of `source` to ranks, and receives ranges of `target` from ranks.
    ///
    /// # Safety
    /// The ranks agree on the lengths.
    unsafe fn exchange<T: DeviceCopy>(
        &self,
        source: &D::Buffer<T>,
        sends: &[(u32, Range<usize>)],
        target: &mut D::Buffer<T>,
        receives: &[(u32, Range<usize>)],
    ) -> Result<(), D::Error>;

    /// Replaces each number of a range by its maximum over all ranks.
    ///
    /// # Safety
    /// The ranks agree on the range.
    unsafe fn max(&self, numbers: &mut D::Buffer<u64>, range: Range<usize>) -> Result<(), D::Error>;
}

impl Linked for Gpu {
    type Link = Link;

    fn link(&self, comm: &dyn Communicator) -> Result<Option<Link>, runtime::Error> {
        Link::new(self, comm)
    }
}

impl Linking<Gpu> for Link {
    unsafe fn exchange<T: DeviceCopy>(
        &self,
        source: &<Gpu as Device>::Buffer<T>,
        sends: &[(u32, Range<usize>)],
        target: &mut <Gpu as Device>::Buffer<T>,
        receives: &[(u32, Range<usize>)],
    ) -> Result<(), CudaError> {
        // SAFETY: the ranks agree on the lengths, by the caller's promise.
        unsafe { self.0.exchange(source, sends, target, receives) }
    }

    unsafe fn max(&self, numbers: &mut <Gpu as Device>::Buffer<u64>, range: Range<usize>) -> Result<(), CudaError> {
        // SAFETY: the ranks agree on the range, by the caller's promise.
        unsafe { self.0.all_reduce(numbers, range, crate::runtime::gpu::Reduction::Max) }
    }
}

/// Emulated devices have no link.
pub enum NoLink {}

impl Linked for Emulator {
    type Link = NoLink;

    fn link(&self, _: &dyn Communicator) -> Result<Option<NoLink>, runtime::Error> {
        Ok(None)
    }
}

impl Linking<Emulator> for NoLink {
    unsafe fn exchange<T: DeviceCopy>(
        &self,
        _: &<Emulator as Device>::Buffer<T>,
        _: &[(u32, Range<usize>)],
        _: &mut <Emulator as Device>::Buffer<T>,
        _: &[(u32, Range<usize>)],
    ) -> Result<(), EmulatorError> {
        match *self {}
    }

    unsafe fn max(&self, _: &mut <Emulator as Device>::Buffer<u64>, _: Range<usize>) -> Result<(), EmulatorError> {
        match *self {}
    }
}

/// The devices of the ranks that share a model, seen from one of them.
pub struct Ranks<'c, D: Linked> {
    team: Team<'c>,
    link: Option<Rc<D::Link>>,
    /// The first failure of an exchange. The operations of a device return the device's own errors only.
    failure: Rc<RefCell<Option<comm::Error>>>,
}

impl<D: Linked> Clone for Ranks<'_, D> {
    fn clone(&self) -> Self {
        Self { team: self.team.clone(), link: self.link.clone(), failure: Rc::clone(&self.failure) }
    }
}

impl<'c, D: Linked> Ranks<'c, D> {
    /// Links the devices of `team`; `None` for a team of one rank.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn new(device: &D, team: &Team<'c>) -> Result<Option<Self>, runtime::Error> {
        let Some(comm) = team.comm() else { return Ok(None) };
        Ok(Some(Self::linked(team, device.link(comm)?.map(Rc::new))))
    }

    /// The devices of `team`, which have a link.
    pub fn linked(team: &Team<'c>, link: Option<Rc<D::Link>>) -> Self {
        Self { team: team.clone(), link, failure: Rc::default() }
    }

    /// The ghosts of vectors of `T`.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn ghosts<T: Precise>(&self, device: &D) -> Result<Ghosts<'c, T, D>, D::Error> {
        let peers = self.team.part().map_or(&[][..], |part| &part.peers);
        let states: Vec<u32> = peers.iter().flat_map(|peer| &peer.sends).copied().collect();
        let ghosts: Vec<u32> = peers.iter().flat_map(|peer| peer.ghosts.clone()).map(|ghost| ghost as u32).collect();
        let ranges = |count: fn(&Peer) -> usize| {
            let end = peers.iter().scan(0, |end, peer| {
                let start = *end;
                *end += count(peer);
                Some((peer.rank, start..*end))
            });
            end.filter(|(_, range)| !range.is_empty()).collect::<Vec<_>>()
        };
        Ok(Ghosts {
            ranks: self.clone(),
            sends: ranges(|peer| peer.sends.len()),
            receives: ranges(|peer| peer.ghosts.len()),
            no_tiles: device.zeros(0)?,
            packed: device.zeros(states.len())?,
            received: device.zeros(ghosts.len())?,
            states: device.upload(&states)?,
            ghosts: device.upload(&ghosts)?,
        })
    }

    /// Wraps a backend whose exchanges may fail.
    pub fn wrap<B>(&self, backend: B) -> Checked<'c, B> {
        Checked { backend, team: self.team.clone(), failure: Rc::clone(&self.failure) }
    }

    /// Keeps a failure for the backend's caller.
    fn note<X>(&self, result: Result<X, comm::Error>) -> Option<X> {
        result.map_err(|error| self.failure.borrow_mut().get_or_insert(error).clone()).ok()
    }
}

/// Exchanges of a backend on one of several ranks.
pub trait Exchanges<T: Precise, D: Device> {
    /// Replaces the ghosts of `values` by the values of their owners. Marks the tiles of those that change, if there are
    /// tiles: states per tile, and a flag for each tile.
    ///
    /// # Errors
    /// Errors of the device.
    fn refresh(
        &mut self,
        device: &D,
        values: &mut D::Buffer<T>,
        tiles: Option<(u32, &mut D::Buffer<u32>)>,
    ) -> Result<(), D::Error>;

    /// Replaces each number of a range by its maximum over all ranks.
    ///
    /// # Errors
    /// Errors of the device.
    fn max(&mut self, device: &D, numbers: &mut D::Buffer<u64>, range: Range<usize>) -> Result<(), D::Error>;

    /// Replaces each number of the host by its sum over all ranks, in the order of the ranks.
    fn sum(&mut self, numbers: &mut [f64]);

    /// Whether a stop was requested, or an exchange failed, on any rank.
    fn stopped(&self) -> bool;

    /// Whether this rank has states with actions.
    fn works(&self) -> bool;

    /// Whether exchanges can be recorded.
    fn records(&self) -> bool;
}

/// The ghosts of a vector in device memory, with the buffers for their exchange.
pub struct Ghosts<'c, T: Precise, D: Linked> {
    ranks: Ranks<'c, D>,
    /// The own states that other ranks need, and the ghosts, rank by rank.
    states: D::Buffer<u32>,
    ghosts: D::Buffer<u32>,
    no_tiles: D::Buffer<u32>,
    /// Their values.
    packed: D::Buffer<T>,
    received: D::Buffer<T>,
    /// The range of each rank in `packed` and in `received`.
    sends: Vec<(u32, Range<usize>)>,
    receives: Vec<(u32, Range<usize>)>,
}

impl<T: Precise, D: Linked> Ghosts<'_, T, D> {
    /// Exchanges the packed values through the memory of the hosts.
    fn exchange_on_hosts(&mut self, device: &D) -> Result<(), D::Error> {
        let Some(comm) = self.ranks.team.comm() else { return Ok(()) };
        let packed = device.to_vec(&self.packed)?;
        let sends = self.sends.iter().map(|(rank, range)| (*rank, bytes(&packed[range.clone()]))).collect();
        let receives: Vec<_> =
            self.receives.iter().map(|(rank, range)| (*rank, range.len() * size_of::<T>())).collect();
        let received = comm.exchange(sends, &receives).and_then(|exchange| exchange.wait());
        if let Some(received) = self.ranks.note(received) {
            let received: Vec<T> = bytemuck::pod_collect_to_vec(&received.concat());
            device.write(&mut self.received, &received)?;
        }
        Ok(())
    }
}

fn bytes<T: Pod>(elements: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(elements).to_vec()
}

impl<T: Precise, D: Linked> Exchanges<T, D> for Ghosts<'_, T, D> {
    fn refresh(
        &mut self,
        device: &D,
        values: &mut D::Buffer<T>,
        tiles: Option<(u32, &mut D::Buffer<u32>)>,
    ) -> Result<(), D::Error> {
        let [sent, received] = [self.states.len(), self.ghosts.len()].map(|count| count as u32);
        if sent > 0 {
            let shape = Shape::grid_stride(sent.into(), THREADS);
            // SAFETY: `states` holds own states, which are below the length of `values`; `packed` is as long.
            unsafe { pack(device, shape, sent, &self.states, values, &mut self.packed)? };
        }
        match &self.ranks.link {
            // SAFETY: `cut` makes the lists of both sides of an exchange equally long.
            Some(link) => unsafe { link.exchange(&self.packed, &self.sends, &mut self.received, &self.receives)? },
            None => self.exchange_on_hosts(device)?,
        }
        if received > 0 {
            let shape = Shape::grid_stride(received.into(), THREADS);
            let (tile, changed) = tiles.unwrap_or((0, &mut self.no_tiles));
            // SAFETY: `ghosts` holds distinct states below the length of `values`; `received` is as long. `changed` has an
            // element for each tile if there are tiles.
            unsafe { unpack(device, shape, received, &self.ghosts, &self.received, values, tile, changed)? };
        }
        Ok(())
    }

    fn max(&mut self, device: &D, numbers: &mut D::Buffer<u64>, range: Range<usize>) -> Result<(), D::Error> {
        if let Some(link) = &self.ranks.link {
            // SAFETY: all ranks run the same sweep, whose slots these are.
            return unsafe { link.max(numbers, range) };
        }
        let Some(comm) = self.ranks.team.comm() else { return Ok(()) };
        let mut all = device.to_vec(numbers)?;
        if let Some(of_ranks) = self.ranks.note(comm.gather(&all[range.clone()])) {
            for (slot, number) in range.enumerate() {
                all[number] = of_ranks.iter().map(|of_rank| of_rank[slot]).max().unwrap_or_default();
            }
            device.write(numbers, &all)?;
        }
        Ok(())
    }

    fn sum(&mut self, numbers: &mut [f64]) {
        let sums = self.ranks.team.sum(numbers);
        self.ranks.note(sums);
    }

    fn stopped(&self) -> bool {
        let failed = self.ranks.failure.borrow().is_some();
        failed || self.ranks.note(self.ranks.team.any(interrupt::requested())).unwrap_or(true)
    }

    fn works(&self) -> bool {
        self.ranks.team.works()
    }

    fn records(&self) -> bool {
        self.ranks.link.is_some()
    }
}

/// A backend on one of several ranks, whose failed exchanges become errors.
pub struct Checked<'c, B> {
    backend: B,
    team: Team<'c>,
    failure: Rc<RefCell<Option<comm::Error>>>,
}

impl<B> Checked<'_, B> {
    /// The result of the backend, unless an exchange failed.
    fn of<X, E>(&mut self, work: impl FnOnce(&mut B) -> Result<X, E>) -> Result<X, SolveError>
    where
        SolveError: From<E>,
    {
        let result = work(&mut self.backend)?;
        match self.failure.borrow().clone() {
            Some(error) => Err(error.into()),
            None => Ok(result),
        }
    }
}

impl<B: State> State for Checked<'_, B>
where
    SolveError: From<B::Error>,
{
    type Error = SolveError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), SolveError> {
        self.of(|backend| backend.reset(initial))
    }

    fn values(&mut self) -> Result<Vec<f64>, SolveError> {
        self.of(State::values)
    }

    fn magnitude(&mut self) -> Result<f64, SolveError> {
        let mut largest = [self.of(State::magnitude)?];
        self.team.max(&mut largest)?;
        Ok(largest[0])
    }

    fn policy(&mut self) -> Result<Vec<u32>, SolveError> {
        self.of(State::policy)
    }

    fn policy_is_implicit(&self) -> bool {
        self.backend.policy_is_implicit()
    }

    fn sweep_bytes(&mut self) -> Result<u64, SolveError> {
        self.of(State::sweep_bytes)
    }
}

impl<B: GreedySweeps> GreedySweeps for Checked<'_, B>
where
    SolveError: From<B::Error>,
{
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, SolveError> {
        self.of(|backend| backend.backup(stop, max_sweeps))
    }

    fn phase(&self) -> u32 {
        self.backend.phase()
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        self.backend.non_monotone_unit()
    }
}

impl<B: Evaluate> Evaluate for Checked<'_, B>
where
    SolveError: From<B::Error>,
{
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, SolveError> {
        self.of(|backend| backend.evaluate(theta, max_sweeps))
    }

    fn improve(&mut self, tie: f64) -> Result<u64, SolveError> {
        let changed = self.of(|backend| backend.improve(tie))?;
        Ok(self.team.count(changed)?)
    }
}

impl<B: Modify> Modify for Checked<'_, B>
where
    SolveError: From<B::Error>,
{
    fn unit(&self) -> f64 {
        self.backend.unit()
    }
}

impl<B: Correct> Correct for Checked<'_, B>
where
    SolveError: From<B::Error>,
{
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, SolveError> {
        self.of(|backend| backend.set_rewards(rewards))
    }
}

impl<B: Certify> Certify for Checked<'_, B>
where
    SolveError: From<B::Error>,
{
    fn residual(&mut self) -> Result<Residual, SolveError> {
        let Residual { range, largest } = self.of(Certify::residual)?;
        let mut largest = [largest];
        self.team.max(&mut largest)?;
        Ok(Residual { range, largest: largest[0] })
    }
}
