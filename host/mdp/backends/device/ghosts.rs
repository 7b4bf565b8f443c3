//! Ghosts in device memory: their exchange between the devices of the ranks, and the maximum of a sweep's changes.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_runtime::gpu::Graph;

use bytemuck::Pod;
use warpkov_device::launch::{Arg, Buffer, Device, IndexBuffer, IndexError, Shape};
use warpkov_kernels::mdp::ghosts::{pack, unpack};

use super::sweeps::THREADS;
use crate::backends::dynamic::{Failure, Unified};
use crate::model::{Part, Peer};
use crate::team::Team;
use warpkov_common::interrupt;
use warpkov_runtime as runtime;
use warpkov_runtime::Precise;
use warpkov_runtime::comm::{self, Communicator};
use warpkov_runtime::link::Link;

/// The devices of the ranks that share a model, seen from one of them.
pub struct Ranks<'c> {
    team: Team<'c>,
    link: Option<Rc<Link>>,
    /// The first failure of an exchange. The operations of a device return the device's own errors only.
    failure: Failure,
}

impl Clone for Ranks<'_> {
    fn clone(&self) -> Self {
        Self { team: self.team.clone(), link: self.link.clone(), failure: Rc::clone(&self.failure) }
    }
}

impl<'c> Ranks<'c> {
    /// Links the devices of `team`; `None` for a team of one rank.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn new(device: &AnyDevice, team: &Team<'c>) -> Result<Option<Self>, runtime::Error> {
        let Some(comm) = team.comm() else { return Ok(None) };
        Ok(Some(Self::linked(team, Link::new(device, comm)?.map(Rc::new))))
    }

    /// The devices of `team`, which have a link.
    pub fn linked(team: &Team<'c>, link: Option<Rc<Link>>) -> Self {
        Self { team: team.clone(), link, failure: Rc::default() }
    }

    /// The ghosts of vectors of `T`.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn ghosts<T: Precise>(&self, device: &AnyDevice) -> Result<Ghosts<'c, T>, DeviceError> {
        let values = match (self.team.part(), self.team.comm()) {
            (Some(part), Some(comm)) if part.all_gather => Values::All(parts(part, comm)),
            (part, _) => Values::Halo(Box::new(Halo::new(part.map_or(&[][..], |part| &part.peers), device)?)),
        };
        Ok(Ghosts { ranks: self.clone(), values, recorded: HashMap::new() })
    }

    /// The exchanges of vectors of `T` on one of several ranks.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn exchanges<T: Precise>(
        ranks: Option<&Self>,
        device: &AnyDevice,
    ) -> Result<Option<Box<dyn Exchanges<T> + 'c>>, DeviceError> {
        Ok(match ranks {
            Some(ranks) => Some(Box::new(ranks.ghosts::<T>(device)?)),
            None => None,
        })
    }

    /// Wraps a backend whose exchanges may fail.
    pub fn wrap<B>(&self, backend: B) -> Unified<'c, B> {
        Unified::in_team(backend, self.team.clone(), Rc::clone(&self.failure))
    }

    /// Whether an exchange failed.
    fn failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Keeps a failure for the backend's caller.
    fn note<X>(&self, result: Result<X, comm::Error>) -> Option<X> {
        result.map_err(|error| self.failure.borrow_mut().get_or_insert(error).clone()).ok()
    }
}

/// States per tile, and a flag for each tile that has changed.
pub type Flags<'b> = (u32, &'b mut AnyBuffer<u32>);

/// Numbers, each of which is replaced by its maximum over all ranks.
pub type Maxima<'b> = (&'b mut AnyBuffer<u64>, Range<usize>);

/// Exchanges of a backend on one of several ranks.
pub trait Exchanges<T: Precise> {
    /// Replaces the ghosts of `values` by the values of their owners, and takes the `maxima`. Marks the tiles of ghosts
    /// that change, if there are tiles. Can be recorded if [`records`](Self::records).
    ///
    /// # Errors
    /// Errors of the device.
    fn exchange(
        &mut self,
        device: &AnyDevice,
        values: &mut AnyBuffer<T>,
        tiles: Option<Flags>,
        maxima: Option<Maxima>,
    ) -> Result<(), DeviceError>;

    /// Replaces the ghosts of `values` by the values of their owners. Not within a recording: this records the exchange
    /// of each vector once, and replays it.
    ///
    /// # Errors
    /// Errors of the device.
    fn refresh(&mut self, device: &AnyDevice, values: &mut AnyBuffer<T>) -> Result<(), DeviceError>;

    /// Replaces each number of the host by its maximum over all ranks.
    fn max(&mut self, numbers: &mut [u64]);

    /// Whether it holds on all ranks.
    fn all(&self, holds: bool) -> bool;

    /// Replaces each number of the host by its sum over all ranks, in the order of the ranks. Returns whether a stop was requested,
    /// or an exchange failed, on any rank: one message for both.
    fn sum(&mut self, numbers: &mut [f64; 2]) -> bool;

    /// Whether a stop was requested, or an exchange failed, on any rank.
    fn stopped(&self) -> bool;

    /// Whether this rank has states with actions.
    fn works(&self) -> bool;

    /// Whether exchanges can be recorded.
    fn records(&self) -> bool;
}

/// The ghosts of a vector in device memory, with what their exchange needs.
pub struct Ghosts<'c, T: Precise> {
    ranks: Ranks<'c>,
    values: Values<T>,
    /// Recorded exchanges, by the addresses of the vectors.
    recorded: HashMap<u64, Graph>,
}

/// The values that travel.
enum Values<T: Precise> {
    /// Those that others need.
    Halo(Box<Halo<T>>),
    /// All: the elements of each rank.
    All(Vec<Range<usize>>),
}

/// The own states that other ranks need, and the ghosts, rank by rank.
struct Halo<T: Precise> {
    states: IndexBuffer<AnyBuffer<u32>>,
    ghosts: AnyBuffer<u32>,
    no_tiles: AnyBuffer<u32>,
    /// Their values.
    packed: AnyBuffer<T>,
    received: AnyBuffer<T>,
    /// The range of each rank in `packed` and in `received`.
    sends: Vec<(u32, Range<usize>)>,
    receives: Vec<(u32, Range<usize>)>,
    /// The same states and ghosts as ranges of the vector; `None` if the states for a rank are not neighbours.
    runs: Option<Vec<(u32, Range<usize>)>>,
    places: Vec<(u32, Range<usize>)>,
}

impl<T: Precise> Halo<T> {
    fn new(peers: &[Peer], device: &AnyDevice) -> Result<Self, DeviceError> {
        let states: Vec<u32> = peers.iter().flat_map(|peer| peer.sends.iter()).collect();
        let below = states.iter().max().map_or(0, |largest| largest + 1);
        let ghosts: Vec<u32> = peers.iter().flat_map(|peer| peer.ghosts.clone()).map(|ghost| ghost as u32).collect();
        let ranges = |count: fn(&Peer) -> usize| {
            let end = peers.iter().scan(0, |end, peer| {
                let start = *end;
                *end += count(peer);
                Some((peer.rank, start..*end))
            });
            end.filter(|(_, range)| !range.is_empty()).collect::<Vec<_>>()
        };
        let runs = peers.iter().filter(|peer| !peer.sends.is_empty());
        let places = peers.iter().filter(|peer| !peer.ghosts.is_empty());
        Ok(Self {
            sends: ranges(|peer| peer.sends.len()),
            receives: ranges(|peer| peer.ghosts.len()),
            runs: runs.map(|peer| peer.sends.run().map(|run| (peer.rank, run))).collect(),
            places: places.map(|peer| (peer.rank, peer.ghosts.clone())).collect(),
            no_tiles: device.zeros(0)?,
            packed: device.zeros(states.len())?,
            received: device.zeros(ghosts.len())?,
            states: IndexBuffer::upload(device, &states, below).map_err(|error| match error {
                IndexError::Device(error) => error,
                IndexError::TooLarge { .. } => unreachable!("the bound is above the largest state"),
            })?,
            ghosts: device.upload(&ghosts)?,
        })
    }

    /// Packs the values that other ranks need.
    fn pack(&mut self, device: &AnyDevice, values: &AnyBuffer<T>) -> Result<(), DeviceError> {
        let count = self.states.len() as u32;
        if count == 0 {
            return Ok(());
        }
        let shape = Shape::grid_stride(count.into(), THREADS);
        pack(device, shape, count, values.len() as u32, &self.states, values, &mut self.packed)
    }

    /// Puts received values in place of the ghosts, and marks the tiles of those that change.
    fn unpack(
        &mut self,
        device: &AnyDevice,
        values: &mut AnyBuffer<T>,
        tiles: Option<Flags>,
    ) -> Result<(), DeviceError> {
        let count = self.ghosts.len() as u32;
        if count == 0 {
            return Ok(());
        }
        let shape = Shape::grid_stride(count.into(), THREADS);
        let (tile, changed) = tiles.unwrap_or((0, &mut self.no_tiles));
        // SAFETY: `ghosts` holds distinct states below the length of `values`; `received` is as long. `changed` has an
        // element for each tile if there are tiles.
        unsafe { unpack(device, shape, count, &self.ghosts, &self.received, values, tile, changed) }
    }
}

/// The elements of each rank in a vector of `part`, of which all other states are ghosts.
fn parts(part: &Part, comm: &dyn Communicator) -> Vec<Range<usize>> {
    let mut parts = vec![0..0; comm.size() as usize];
    parts[comm.rank() as usize] = part.own.clone();
    part.peers.iter().for_each(|peer| parts[peer.rank as usize] = peer.ghosts.clone());
    parts
}

fn bytes<T: Pod>(elements: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(elements).to_vec()
}

impl<T: Precise> Ghosts<'_, T> {
    /// Exchanges values through the memory of the hosts.
    fn exchange_on_hosts(
        &mut self,
        device: &AnyDevice,
        values: &mut AnyBuffer<T>,
        tiles: Option<Flags>,
    ) -> Result<(), DeviceError> {
        let ranks = &self.ranks;
        match &mut self.values {
            Values::Halo(halo) => {
                let Some(comm) = ranks.team.comm() else { return Ok(()) };
                halo.pack(device, values)?;
                let packed = device.to_vec(&halo.packed)?;
                let sends = halo.sends.iter().map(|(rank, range)| (*rank, bytes(&packed[range.clone()]))).collect();
                let receives: Vec<_> =
                    halo.receives.iter().map(|(rank, range)| (*rank, range.len() * size_of::<T>())).collect();
                let received = comm.exchange(sends, &receives).and_then(|exchange| exchange.wait());
                if let Some(received) = ranks.note(received) {
                    let received: Vec<T> = bytemuck::pod_collect_to_vec(&received.concat());
                    device.write(&mut halo.received, &received)?;
                }
                halo.unpack(device, values, tiles)
            }
            Values::All(_) => {
                let mut all = device.to_vec(values)?;
                ranks.note(ranks.team.refresh(&mut all));
                device.write(values, &all)
            }
        }
    }
}

impl<T: Precise> Exchanges<T> for Ghosts<'_, T> {
    fn exchange(
        &mut self,
        device: &AnyDevice,
        values: &mut AnyBuffer<T>,
        tiles: Option<Flags>,
        maxima: Option<Maxima>,
    ) -> Result<(), DeviceError> {
        let Some(link) = self.ranks.link.clone() else {
            self.exchange_on_hosts(device, values, tiles)?;
            if let Some((numbers, range)) = maxima {
                let mut all = device.to_vec(numbers)?;
                self.max(&mut all[range]);
                device.write(numbers, &all)?;
            }
            // The sweep beside the exchange changes other elements of what is written whole.
            device.synchronize()?;
            return Ok(());
        };
        let reduce = || {
            maxima.map_or(Ok(()), |(numbers, range)| {
                // SAFETY: all ranks take the maxima of the same sweep.
                unsafe { link.max(numbers, range) }
            })
        };
        let halo = match &mut self.values {
            Values::Halo(halo) => halo,
            Values::All(parts) => {
                // SAFETY: the parts have the lengths of the ranks' own states, and are no maxima.
                return unsafe { link.group(|| link.share(values, parts).and_then(|()| reduce())) };
            }
        };
        // A link takes neighbours from where they are, and puts ghosts in their places.
        let placed = tiles.is_none();
        if halo.runs.is_none() {
            halo.pack(device, values)?;
        }
        let Halo { packed, received, sends, receives, runs, places, .. } = &mut **halo;
        // SAFETY: `cut` makes the lists of both sides of an exchange equally long, and own states are no ghosts.
        unsafe {
            link.group(|| {
                match (runs, placed) {
                    (Some(runs), true) => link.exchange_in_place(values, runs, places)?,
                    (Some(runs), false) => link.exchange(values, runs, received, receives)?,
                    (None, true) => link.exchange(packed, sends, values, places)?,
                    (None, false) => link.exchange(packed, sends, received, receives)?,
                }
                reduce()
            })?;
        }
        if placed { Ok(()) } else { halo.unpack(device, values, tiles) }
    }

    fn refresh(&mut self, device: &AnyDevice, values: &mut AnyBuffer<T>) -> Result<(), DeviceError> {
        let Arg::Buffer { address, .. } = values.arg() else { unreachable!("the argument of a buffer") };
        if self.records() && !self.recorded.contains_key(&address) {
            let graph = device.capture(|| self.exchange(device, values, None, None))?;
            graph.map(|graph| self.recorded.insert(address, graph));
        }
        match self.recorded.get(&address) {
            // SAFETY: the recorded exchange is that of this vector, or of one that had its place and its length.
            Some(graph) => unsafe { device.launch_graph(graph) },
            None => self.exchange(device, values, None, None),
        }
    }

    fn max(&mut self, numbers: &mut [u64]) {
        let Some(comm) = self.ranks.team.comm() else { return };
        if let Some(of_ranks) = self.ranks.note(comm.gather(numbers)) {
            for (at, number) in numbers.iter_mut().enumerate() {
                *number = of_ranks.iter().map(|of_rank| of_rank[at]).max().unwrap_or_default();
            }
        }
    }

    fn all(&self, holds: bool) -> bool {
        !self.ranks.note(self.ranks.team.any(!holds)).unwrap_or(true)
    }

    fn sum(&mut self, numbers: &mut [f64; 2]) -> bool {
        let ranks = &self.ranks;
        let [first, second] = *numbers;
        let mut sums = [first, second, f64::from(ranks.failed() || interrupt::requested())];
        let done = ranks.note(ranks.team.sum(&mut sums));
        *numbers = [sums[0], sums[1]];
        done.is_none() || sums[2] > 0.0
    }

    fn stopped(&self) -> bool {
        let ranks = &self.ranks;
        ranks.failed() || ranks.note(ranks.team.any(interrupt::requested())).unwrap_or(true)
    }

    fn works(&self) -> bool {
        self.ranks.team.works()
    }

    fn records(&self) -> bool {
        self.ranks.link.is_some()
    }
}
