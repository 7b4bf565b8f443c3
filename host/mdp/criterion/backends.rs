//! Backends for the criteria: CPU, GPU and emulator.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use warpkov_device::device::Offset;

use super::{
    Bounded, Boxed, Criterion, Error, Make, Observe, Options, Persistence, Stages, Steps, backward_kept, solve_kept,
};
use crate::analysis::divide::{GhostOrder, balanced, cut};
use crate::auto::{Sweeps, criterion_cost};
use crate::backend::{Backups, GreedySweeps, State, Stop};
use crate::backends::cpu::{Engine, EngineOptions};
use crate::backends::device::{Ranks, SweepLayout, ValueIteration};
use crate::backends::dynamic::Unified;
use crate::error::SolveError;
use crate::model::{Mdp, Part};
use crate::options::Storage;
use crate::solution::{RankShare, RankWork};
use crate::team::Team;
use warpkov_runtime as runtime;
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Clocked, Communicator};
use warpkov_runtime::device::AnyDevice;
use warpkov_runtime::link::Link;

/// Backends on all CPU cores.
#[derive(Clone, Copy, Default)]
pub struct Cpu<'c> {
    /// The ranks that share the models, if there are several.
    pub comm: Option<&'c dyn Communicator>,
}

impl Make for Cpu<'_> {
    type Error = SolveError;

    fn part<'m>(&self, mdp: &'m Mdp) -> Result<Cow<'m, Mdp>, SolveError> {
        part(self.comm, mdp)
    }

    fn any(&self, holds: bool) -> Result<bool, SolveError> {
        Ok(self.comm.map_or(Ok(holds), |comm| comm.any(holds))?)
    }

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, SolveError>, SolveError> {
        let backend = |team| Unified::new(Engine::<f64>::in_team(mdp, EngineOptions::default(), team));
        Ok(match (self.comm, mdp.part()) {
            (Some(comm), Some(of_rank)) => {
                Box::new(Gathered { backend: backend(Team::new(comm, of_rank)), comm, part: of_rank })
            }
            _ => Box::new(backend(Team::alone())),
        })
    }
}

/// Backends on a GPU or the emulator.
pub struct OnDevice<'c> {
    device: AnyDevice,
    /// The ranks that share the models, if there are several.
    comm: Option<&'c dyn Communicator>,
    /// The link of their devices.
    link: Option<Rc<Link>>,
}

impl<'c> OnDevice<'c> {
    /// Backends on `device`, for the ranks of `comm` if there are several.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn new(device: AnyDevice, comm: Option<&'c dyn Communicator>) -> Result<Self, runtime::Error> {
        let link = match comm {
            Some(comm) => Link::new(&device, comm)?.map(Rc::new),
            None => None,
        };
        Ok(Self { device, comm, link })
    }

    fn typed<'m, O: Offset>(
        &'m self,
        mdp: &'m Mdp,
        layout: &SweepLayout<'m>,
    ) -> Result<Boxed<'m, SolveError>, SolveError> {
        let device = &self.device;
        Ok(match (self.comm, mdp.part()) {
            (Some(comm), Some(part)) => {
                let ranks = Ranks::linked(&Team::new(comm, part), self.link.clone());
                let ghosts = Box::new(ranks.ghosts(device)?);
                let backend = ValueIteration::<f64, O>::in_team(device, layout, Some(ghosts))?;
                Box::new(Gathered { backend: ranks.wrap(backend), comm, part })
            }
            _ => Box::new(Unified::new(ValueIteration::<f64, O>::new(device, layout)?)),
        })
    }
}

impl Make for OnDevice<'_> {
    type Error = SolveError;

    fn part<'m>(&self, mdp: &'m Mdp) -> Result<Cow<'m, Mdp>, SolveError> {
        part(self.comm, mdp)
    }

    fn any(&self, holds: bool) -> Result<bool, SolveError> {
        Ok(self.comm.map_or(Ok(holds), |comm| comm.any(holds))?)
    }

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, SolveError>, SolveError> {
        let layout = SweepLayout::new(mdp, None).ok_or(SolveError::Storage(Storage::Rows))?;
        if layout.is_wide() { self.typed::<u64>(mdp, &layout) } else { self.typed::<u32>(mdp, &layout) }
    }
}

/// The part of this rank, or the whole model of one rank.
fn part<'m>(comm: Option<&dyn Communicator>, mdp: &'m Mdp) -> Result<Cow<'m, Mdp>, SolveError> {
    Ok(match comm {
        Some(comm) => Cow::Owned(cut(mdp, &balanced(mdp, comm)?, GhostOrder::Around, comm)?),
        None => Cow::Borrowed(mdp),
    })
}

/// A backend for the part of a rank, with the values of all states: the proofs of the criteria need them on every rank.
struct Gathered<'c, B> {
    backend: B,
    comm: &'c dyn Communicator,
    part: &'c Part,
}

impl<B: GreedySweeps<Error = SolveError>> State for Gathered<'_, B> {
    type Error = SolveError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), SolveError> {
        let Some(values) = initial else { return self.backend.reset(None) };
        let Part { first, own, .. } = self.part;
        let first = *first as usize;
        // The ghosts follow.
        let mut local = vec![0.0; self.part.states()];
        local[own.clone()].copy_from_slice(&values[first..first + own.len()]);
        self.backend.reset(Some(&local))
    }

    fn values(&mut self) -> Result<Vec<f64>, SolveError> {
        Ok(self.comm.gather(&self.backend.values()?[self.part.own.clone()])?.concat())
    }

    fn magnitude(&mut self) -> Result<f64, SolveError> {
        self.backend.magnitude()
    }

    fn policy(&mut self) -> Result<Vec<u32>, SolveError> {
        Ok(self.comm.gather(&self.backend.policy()?[self.part.own.clone()])?.concat())
    }

    fn policy_is_implicit(&self) -> bool {
        self.backend.policy_is_implicit()
    }

    fn phase(&self) -> u32 {
        self.backend.phase()
    }

    fn sweep_bytes(&mut self) -> Result<u64, SolveError> {
        self.backend.sweep_bytes()
    }
}

impl<B: GreedySweeps<Error = SolveError>> GreedySweeps for Gathered<'_, B> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, SolveError> {
        self.backend.backup(stop, max_sweeps)
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        self.backend.non_monotone_unit()
    }
}

/// A solution and the device that computed it.
#[derive(Clone, Debug)]
pub struct SolvedOn {
    /// The solution.
    pub bounded: Bounded,
    /// The name of the device.
    pub device: String,
    /// Automatic choices and their reasons.
    pub notes: Vec<String>,
    /// The shares of the ranks, if there are several: of the largest model that they swept.
    pub ranks: Vec<RankShare>,
}

/// Runs [`solve`](super::solve) on the devices of the ranks of `comm`. Every rank has the whole model, and sweeps a part
/// of it.
///
/// # Errors
/// The errors of [`solve`](super::solve), an unavailable device, and a rank that fails.
pub fn solve_on(
    comm: &dyn Communicator,
    device: DeviceChoice,
    mdp: &Mdp,
    criterion: &Criterion,
    options: &Options,
    observe: &mut Observe,
) -> Result<SolvedOn, Error<SolveError>> {
    solve_kept_on(comm, device, mdp, criterion, options, Persistence::default(), observe)
}

/// [`solve_on`] with checkpoints.
///
/// # Errors
/// As for [`solve_on`].
pub fn solve_kept_on(
    comm: &dyn Communicator,
    device: DeviceChoice,
    mdp: &Mdp,
    criterion: &Criterion,
    options: &Options,
    persistence: Persistence,
    observe: &mut Observe,
) -> Result<SolvedOn, Error<SolveError>> {
    let clocked = Clocked::new(comm);
    let opened = Opened::new(&clocked, device, mdp, Sweeps::Unknown).map_err(|error| Error::Backend(error.into()))?;
    let bounded = solve_kept(mdp, criterion, options, &opened, persistence, &mut |round| observe(round))?;
    opened.solved(bounded, &clocked)
}

/// Runs [`backward`](super::backward) on the devices of the ranks of `comm`, as [`solve_on`]. Returns the solution and,
/// if `keep`, all steps.
///
/// # Errors
/// As for [`solve_on`].
pub fn backward_on(
    comm: &dyn Communicator,
    device: DeviceChoice,
    mdp: &Mdp,
    steps: u32,
    terminal: Option<&[f64]>,
    keep: bool,
    observe: &mut Observe,
) -> Result<(SolvedOn, Option<Steps>), Error<SolveError>> {
    backward_kept_on(comm, device, mdp, steps, terminal, keep, Persistence::default(), observe)
}

/// [`backward_on`] with checkpoints.
///
/// # Errors
/// As for [`backward_on`].
#[allow(clippy::too_many_arguments, reason = "those of backward_on and one more")]
pub fn backward_kept_on(
    comm: &dyn Communicator,
    device: DeviceChoice,
    mdp: &Mdp,
    steps: u32,
    terminal: Option<&[f64]>,
    keep: bool,
    persistence: Persistence,
    observe: &mut Observe,
) -> Result<(SolvedOn, Option<Steps>), Error<SolveError>> {
    let clocked = Clocked::new(comm);
    let opened =
        Opened::new(&clocked, device, mdp, Sweeps::Steps(steps)).map_err(|error| Error::Backend(error.into()))?;
    let observe = &mut |round: &_| observe(round);
    let Stages { bounded, steps } = backward_kept(mdp, steps, terminal, keep, &opened, persistence, observe)?;
    Ok((opened.solved(bounded, &clocked)?, steps))
}

/// An open device.
struct Opened<'c> {
    make: Box<dyn Make<Error = SolveError> + 'c>,
    /// The name of the device.
    device: String,
    notes: Vec<String>,
    /// This rank's part of the largest model so far.
    work: Cell<RankWork>,
}

impl Make for Opened<'_> {
    type Error = SolveError;

    fn part<'m>(&self, mdp: &'m Mdp) -> Result<Cow<'m, Mdp>, SolveError> {
        let part = self.make.part(mdp)?;
        if let Some(work) = RankWork::new(&part).filter(|work| work.states >= self.work.get().states) {
            self.work.set(work);
        }
        Ok(part)
    }

    fn any(&self, holds: bool) -> Result<bool, SolveError> {
        self.make.any(holds)
    }

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, SolveError>, SolveError> {
        self.make.make(mdp)
    }
}

impl<'c> Opened<'c> {
    fn new(
        comm: &'c dyn Communicator,
        device: DeviceChoice,
        mdp: &Mdp,
        sweeps: Sweeps,
    ) -> Result<Self, runtime::Error> {
        let (place, note) = Place::open(device, Some(&criterion_cost(mdp, sweeps)))?;
        let device = place.name();
        let comm = (comm.size() > 1).then_some(comm);
        let make: Box<dyn Make<Error = SolveError> + 'c> = match place {
            Place::Cpu => Box::new(Cpu { comm }),
            Place::Device(device) => Box::new(OnDevice::new(device, comm)?),
        };
        Ok(Self { make, device, notes: note.into_iter().collect(), work: Cell::default() })
    }

    /// The solution, with the shares of all ranks.
    fn solved(self, bounded: Bounded, clocked: &Clocked) -> Result<SolvedOn, Error<SolveError>> {
        let ranks = clocked.shares(&self.device, self.work.get());
        let ranks = ranks.map_err(|error| Error::Backend(error.into()))?;
        Ok(SolvedOn { bounded, device: self.device, notes: self.notes, ranks })
    }
}
