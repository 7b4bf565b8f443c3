//! Where a solve starts, who observes it, and where its checkpoints go.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use warpkov_common::checkpoint::{Checkpoints, Hash};
use warpkov_runtime::comm::Communicator;

use crate::analysis::divide::{agreed, balanced};
use crate::backend::{Attempt, InRound};
use crate::checkpoint::{Checkpoint, hash_of};
use crate::error::SolveError;
use crate::model::Whole;
use crate::model::whole::Fault;
use crate::options::{Method, Precision, SolveOptions, Target};
use crate::solution::{Round, Run, Solution, Status};

/// Called after each round; `Break` stops the run.
pub type Observer<'a> = &'a mut dyn FnMut(&Round) -> ControlFlow<()>;

/// Where a solve starts, who observes it, and where its checkpoints go.
#[derive(Default)]
pub struct Session<'a> {
    /// V to start at.
    pub initial: Initial<'a>,
    /// The file of a checkpoint to go on from, in place of `initial`. Limits of sweeps and policies count those before it,
    /// and the solution has their record. The target and the method may be others. An open method that had become krylov
    /// stays krylov.
    pub resume: Option<&'a Path>,
    /// Checkpoints to write. All ranks have them, or none.
    pub checkpoints: Option<&'a mut Checkpoints>,
    /// Called after each round.
    pub observe: Option<Observer<'a>>,
}

/// V to start at.
#[derive(Clone, Copy, Default)]
pub enum Initial<'a> {
    /// V = 0.
    #[default]
    Zero,
    /// One value per state.
    Values(&'a [f64]),
    /// Returns one value for each of a range of states.
    Parts(&'a dyn Fn(Range<u64>) -> Result<Vec<f64>, Fault>),
}

impl<'a> From<Option<&'a [f64]>> for Initial<'a> {
    fn from(values: Option<&'a [f64]>) -> Self {
        values.map_or(Self::Zero, Self::Values)
    }
}

impl<'a> Initial<'a> {
    /// The values of a range of states; `None` for 0.
    fn of_states(self, states: Range<u64>) -> Result<Option<Cow<'a, [f64]>>, Fault> {
        Ok(match self {
            Self::Zero => None,
            Self::Values(values) => Some(values[states.start as usize..states.end as usize].into()),
            Self::Parts(values) => Some(values(states)?.into()),
        })
    }
}

/// The initial values of a range of states; `None` for 0.
pub(super) type Values<'a> = &'a dyn Fn(Range<u64>) -> Result<Option<Cow<'a, [f64]>>, Fault>;

impl Session<'_> {
    /// Reads the checkpoint to go on from, and runs `solve` with the options, the start without values, the initial values, and a watch
    /// that keeps checkpoints of the values that it gets: of all ranks together, those of all states in their order.
    pub(super) fn run(
        self,
        comm: &dyn Communicator,
        whole: &dyn Whole,
        options: &SolveOptions,
        solve: impl FnOnce(&SolveOptions, Start, Values, &mut Watch) -> Result<Solution, SolveError>,
    ) -> Result<Solution, SolveError> {
        let Self { initial, resume, checkpoints, mut observe } = self;
        let model = match resume.is_some() || checkpoints.is_some() {
            true => hash_on_ranks(comm, whole)?,
            false => Hash::default(),
        };
        let resumed = agreed(resume.map(|path| Ok(Checkpoint::open(path, whole, model)?)).transpose(), comm)?;
        let mut options = *options;
        let nothing = Run::default();
        let start = match &resumed {
            None => Start::new(None, &nothing),
            Some((checkpoint, _)) => {
                if options.method.is_none() && checkpoint.method == Method::Krylov {
                    options.method = Some(Method::Krylov);
                }
                if options.precision == Precision::Mixed && checkpoint.in_f64 {
                    options.precision = Precision::F64;
                }
                Start::from_checkpoint(checkpoint, options.limits.target)
            }
        };
        let values = |states: Range<u64>| {
            let length = states.end - states.start;
            let values = match &resumed {
                Some((_, values)) => Some(values.take(states)?.into()),
                None => initial.of_states(states)?,
            };
            match values.as_ref().map_or(length, |values: &Cow<[f64]>| values.len() as u64) {
                found if found == length => Ok(values),
                found => Err(SolveError::Initial { found: found as usize, expected: length }.into()),
            }
        };
        // Two closures share the checkpoints.
        let checkpoints = checkpoints.map(RefCell::new);
        let mut follow = |round: &Round| {
            let due = checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.borrow().is_due());
            Ok(match observe.as_mut().map_or(ControlFlow::Continue(()), |observe| observe(round)) {
                ControlFlow::Break(()) => Next::Stop,
                ControlFlow::Continue(()) if due => Next::Keep,
                ControlFlow::Continue(()) => Next::Continue,
            })
        };
        let keep = checkpoints.as_ref().map(|checkpoints| -> Keep {
            Box::new(move |checkpoint| Ok(checkpoint.save(comm, &mut checkpoints.borrow_mut(), whole, model)?))
        });
        solve(&options, start, &values, &mut Watch { follow: &mut follow, keep })
    }
}

/// The hash of a model, of which each rank hashes its part.
fn hash_on_ranks(comm: &dyn Communicator, whole: &dyn Whole) -> Result<Hash, SolveError> {
    let (splits, rank) = (balanced(whole, comm)?, comm.rank() as usize);
    let own = agreed(hash_of(whole, splits[rank]..splits[rank + 1]), comm)?;
    let all = comm.gather(&[own.number()])?.concat();
    Ok(all.into_iter().map(Hash::of_number).fold(Hash::default(), Hash::and))
}

/// Where a solve starts.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    /// V; `None` for 0.
    pub values: Option<&'a [f64]>,
    /// The rounds before.
    pub earlier: &'a Run,
    /// The attempt to prove ε.
    pub attempt: Attempt,
    /// What the next sweeps depend on beside V.
    pub in_round: InRound,
    /// Whether V has met the stopping rule of this target.
    pub solved: bool,
}

impl<'a> Start<'a> {
    /// V of a first attempt.
    pub fn new(values: Option<&'a [f64]>, earlier: &'a Run) -> Self {
        Self { values, earlier, attempt: Attempt::FIRST, in_round: InRound::START, solved: false }
    }

    /// Where a solve with this target goes on.
    fn from_checkpoint(checkpoint: &'a Checkpoint, target: Target) -> Self {
        let (Checkpoint { values, run, .. }, mut in_round) = (checkpoint, checkpoint.in_round);
        // A run that its certificate has sent on with a tighter rule goes on with that rule.
        let mut attempt = checkpoint.attempt;
        if target != checkpoint.target {
            attempt = Attempt::FIRST;
            in_round = InRound { shift_span: in_round.shift_span, ..InRound::START };
        }
        let solved = target == checkpoint.target && run.status == Status::Solved;
        Self { values: Some(values), earlier: run, attempt, in_round, solved }
    }

    /// Whether V comes from earlier rounds.
    pub fn goes_on(&self) -> bool {
        !self.earlier.rounds.is_empty()
    }
}

/// What follows a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    /// The next round.
    Continue,
    /// A checkpoint, then the next round.
    Keep,
    /// The end of the run.
    Stop,
}

/// Takes a checkpoint with V in the order, and with the sign, of the model that is being solved.
pub(super) type Keep<'a> = Box<dyn FnMut(Checkpoint) -> Result<(), SolveError> + 'a>;

/// Decides after each round what follows, and keeps checkpoints. All ranks call it, and decide the same.
pub(super) struct Watch<'a> {
    pub follow: &'a mut dyn FnMut(&Round) -> Result<Next, SolveError>,
    /// `None` without checkpoints.
    pub keep: Option<Keep<'a>>,
}

impl Watch<'_> {
    /// A watch whose checkpoints have V after `map`.
    pub fn mapped<'s>(&'s mut self, map: impl Fn(Vec<f64>) -> Result<Vec<f64>, SolveError> + 's) -> Watch<'s> {
        let Self { follow, keep } = self;
        let keep = keep.as_mut().map(|keep| -> Keep<'s> {
            Box::new(move |checkpoint| keep(Checkpoint { values: map(checkpoint.values)?, ..checkpoint }))
        });
        Watch { follow: &mut **follow, keep }
    }
}
