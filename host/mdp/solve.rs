//! The solver loops, written once for all backends.
//!
//! [`policy_iteration`] evaluates a policy by Jacobi sweeps until ‖Vₖ₊₁ − Vₖ‖∞ < θ, improves it greedily, and stops
//! when no state changes its action. [`value_iteration`] runs greedy sweeps V ← TV until ‖ΔV‖∞ or the span of ΔV proves
//! V close enough to V*. [`modified_policy_iteration`] alternates greedy sweeps with a few evaluation sweeps.
//!
//! Backends maximise. Each backend owns its copy of the model, V and π, and starts at V = 0 with the first action of
//! every state.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::analysis::partition::Proposal;
use super::analysis::reorder::Order;
use super::auto::{self, Features, MAX_TRIAL_SWEEPS};
use super::backend::{Attempt, Backups, Evaluate, GreedySweeps, Modify, State, Stop, change_bound};
use super::certificate::{Certificate, certify_greedy};
use super::checkpoint::{Checkpoint, hash_of};
use super::divide::{GhostOrder, agreed, balanced, by_metis, cut};
use super::dynamic::Dynamic;
use super::error::SolveError;
use super::model::whole::Fault;
use super::model::{Mdp, Whole};
use super::options::{Divide, Limits, Method, Precision, Reorder, SolveOptions, Target};
use super::place::Placement;
use super::solution::{Phases, RankWork, Round, Run, Size, Solution, Status};
use super::team::Team;
use warpkov_common::checkpoint::{Apart, Checkpoints, Hash};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::{Clocked, Communicator, Local};

/// Called after each round; `Break` stops the run.
pub type Observer<'a> = &'a mut dyn FnMut(&Round) -> ControlFlow<()>;

/// Where a solve starts, who observes it, and where its checkpoints go.
pub struct Session<'a, V = Option<&'a [f64]>> {
    /// V to start at: one value per state, or a function that returns the values of a range of states; `None` for V = 0.
    pub initial: V,
    /// The file of a checkpoint to go on from, in place of `initial`. Limits of sweeps and policies count those before it,
    /// and the solution has their record. The target and the method may be others. An open method that had become krylov
    /// stays krylov.
    pub resume: Option<&'a Path>,
    /// Checkpoints to write. All ranks have them, or none.
    pub checkpoints: Option<&'a mut Checkpoints>,
    /// Called after each round.
    pub observe: Observer<'a>,
}

/// Returns the initial values of a range of states; `None` for V = 0.
pub type Initial<'a> = &'a dyn Fn(Range<u64>) -> Result<Option<Vec<f64>>, Fault>;

/// Solves a discounted model (γ < 1) and certifies the result. Starts at V = `initial`, one value per state, or at
/// V = 0.
///
/// # Errors
/// [`SolveError::Initial`] if `initial` has the wrong length, [`SolveError::Undiscounted`] for γ = 1, and errors of the
/// layout and the device. A run that reaches a limit is not an error; its [`Status`] says so.
pub fn solve_from(
    mdp: &Mdp,
    initial: Option<&[f64]>,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Solution, SolveError> {
    solve_on_ranks(&Local::alone(), mdp, initial, options, observe)
}

/// Solves a discounted model on all ranks of `comm`. Every rank has the whole model, and solves a part of it: its states
/// are divided in their [order](SolveOptions::reorder) into parts of equal work. The solution of rank 0 has the values
/// and the policy of all states, those of the other ranks none.
///
/// # Errors
/// As for [`solve_from`], and if a rank fails.
pub fn solve_on_ranks(
    comm: &dyn Communicator,
    mdp: &Mdp,
    initial: Option<&[f64]>,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Solution, SolveError> {
    solve_session(comm, mdp, options, Session { initial, resume: None, checkpoints: None, observe })
}

/// [`solve_on_ranks`] with checkpoints.
///
/// # Errors
/// As for [`solve_on_ranks`], and [`SolveError::Part`] for a checkpoint to go on from that is none of this model. A checkpoint
/// that cannot be written is no error here: see [`Checkpoints::finish`].
pub fn solve_session(
    comm: &dyn Communicator,
    mdp: &Mdp,
    options: &SolveOptions,
    session: Session,
) -> Result<Solution, SolveError> {
    let Session { initial, resume, checkpoints, observe } = session;
    check(mdp, initial)?;
    let session = Session { initial: (), resume, checkpoints, observe };
    with_checkpoints(comm, mdp, options, session, |options, start, resumed, watch| {
        let of_states = |states: Range<u64>| {
            Ok(match resumed {
                Some(values) => Some(values.take(states)?),
                None => initial.map(|values| values_of(values, states)),
            })
        };
        if comm.size() > 1 {
            return solve_shared(comm, mdp, of_states, start, options, watch);
        }
        let values = match resumed {
            Some(_) => agreed(of_states(0..mdp.states().into()), comm)?.map(Cow::Owned),
            None => initial.map(Cow::Borrowed),
        };
        solve_alone(mdp, Start { values: values.as_deref(), ..start }, options, watch)
    })
}

/// Reads the checkpoint to go on from, and runs `solve` with the options, the start without values, the values of the checkpoint, and
/// a watch that keeps checkpoints of the values that it gets: of all ranks together, those of all states in their order.
fn with_checkpoints(
    comm: &dyn Communicator,
    whole: &dyn Whole,
    options: &SolveOptions,
    session: Session<()>,
    solve: impl FnOnce(&SolveOptions, Start, Option<&Apart>, &mut Watch) -> Result<Solution, SolveError>,
) -> Result<Solution, SolveError> {
    let Session { resume, checkpoints, observe, .. } = session;
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
            Start::of(checkpoint, options.limits.target)
        }
    };
    // Two closures share the checkpoints.
    let checkpoints = checkpoints.map(RefCell::new);
    let mut follow = |round: &Round| {
        let due = checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.borrow().is_due());
        Ok(match observe(round) {
            ControlFlow::Break(()) => Next::Stop,
            ControlFlow::Continue(()) if due => Next::Keep,
            ControlFlow::Continue(()) => Next::Continue,
        })
    };
    let keep = checkpoints.as_ref().map(|checkpoints| -> Keep {
        Box::new(move |checkpoint| Ok(checkpoint.save(comm, &mut checkpoints.borrow_mut(), whole, model)?))
    });
    let values = resumed.as_ref().map(|(_, values)| values);
    solve(&options, start, values, &mut Watch { follow: &mut follow, keep })
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
struct Start<'a> {
    /// V; `None` for 0.
    values: Option<&'a [f64]>,
    /// The rounds before.
    earlier: &'a Run,
    /// The attempt to prove ε.
    attempt: Attempt,
    /// The span of the changes at the last shift of V.
    shift_span: f64,
}

impl<'a> Start<'a> {
    /// V of a first attempt.
    fn new(values: Option<&'a [f64]>, earlier: &'a Run) -> Self {
        Self { values, earlier, attempt: Attempt::FIRST, shift_span: f64::INFINITY }
    }

    /// Where a solve with this target goes on.
    fn of(checkpoint: &'a Checkpoint, target: Target) -> Self {
        let Checkpoint { values, run, shift_span, .. } = checkpoint;
        // A run that its certificate has sent on with a tighter rule goes on with that rule.
        let attempt = if target == checkpoint.target { checkpoint.attempt } else { Attempt::FIRST };
        Self { values: Some(values), earlier: run, attempt, shift_span: *shift_span }
    }

    /// Whether V comes from earlier rounds.
    fn goes_on(&self) -> bool {
        !self.earlier.rounds.is_empty()
    }

    /// The limits that are left after the rounds before.
    fn left(&self, method: Method, limits: &Limits) -> Limits {
        let rounds = &self.earlier.rounds;
        let sweeps = rounds.iter().filter(|round| round.changed.is_none()).map(|round| u64::from(round.sweeps));
        let sweeps = u32::try_from(sweeps.sum::<u64>()).unwrap_or(u32::MAX);
        let policies = rounds.iter().filter(|round| round.changed.is_some()).count() as u32;
        Limits {
            // The limit of an evaluation is that of one policy.
            max_sweeps: if method.has_policies() {
                limits.max_sweeps
            } else {
                limits.max_sweeps.saturating_sub(sweeps)
            },
            max_policies: limits.max_policies.saturating_sub(policies),
            ..*limits
        }
    }
}

/// What follows a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// The next round.
    Continue,
    /// A checkpoint, then the next round.
    Keep,
    /// The end of the run.
    Stop,
}

/// Takes a checkpoint with V in the order, and with the sign, of the model that is being solved.
type Keep<'a> = Box<dyn FnMut(Checkpoint) -> Result<(), SolveError> + 'a>;

/// Decides after each round what follows, and keeps checkpoints. All ranks call it, and decide the same.
struct Watch<'a> {
    follow: &'a mut dyn FnMut(&Round) -> Result<Next, SolveError>,
    /// `None` without checkpoints.
    keep: Option<Keep<'a>>,
}

impl Watch<'_> {
    /// A watch whose checkpoints have V after `map`.
    fn mapped<'s>(&'s mut self, map: impl Fn(Vec<f64>) -> Result<Vec<f64>, SolveError> + 's) -> Watch<'s> {
        let Self { follow, keep } = self;
        let keep = keep.as_mut().map(|keep| -> Keep<'s> {
            Box::new(move |checkpoint| keep(Checkpoint { values: map(checkpoint.values)?, ..checkpoint }))
        });
        Watch { follow: &mut **follow, keep }
    }
}

/// [`solve_session`] on one rank.
fn solve_alone(mdp: &Mdp, start: Start, options: &SolveOptions, watch: &mut Watch) -> Result<Solution, SolveError> {
    let begun = Instant::now();
    if let Some((order, note)) = order(mdp, options) {
        let initial = start.values.map(|values| order.to_new(values));
        let start = Start { values: initial.as_deref(), ..start };
        let options = SolveOptions { reorder: Reorder::None, ..*options };
        let ordered = order.apply(mdp);
        let prepared = begun.elapsed();
        let mut watch = watch.mapped(|values| Ok(order.to_old(&values)));
        let mut solution = solve_alone(&ordered, start, &options, &mut watch)?;
        solution.notes.insert(0, note);
        solution.phases.prepare += prepared;
        solution.setup += prepared;
        let (values, policy) = (order.to_old(&solution.values), order.to_old(&solution.policy));
        return Ok(Solution { values, policy, ..solution });
    }
    let features = Features::if_auto(mdp, options);
    solve_by(mdp, &Team::alone(), start, options, features, begun, watch)
}

/// [`solve_session`] on several ranks, where `initial` returns the initial values of a range of states.
fn solve_shared(
    comm: &dyn Communicator,
    mdp: &Mdp,
    initial: impl Fn(Range<u64>) -> Result<Option<Vec<f64>>, Fault>,
    start: Start,
    options: &SolveOptions,
    watch: &mut Watch,
) -> Result<Solution, SolveError> {
    let (mut order, note) = order(mdp, options).unzip();
    let mut notes = Vec::from_iter(note);
    let mut ordered = order.as_ref().map(|order| order.apply(mdp));
    let mut borders = None;
    if options.divide != Divide::Contiguous {
        let model = ordered.as_ref().unwrap_or(mdp);
        let Proposal { parts, note } = by_metis(model, options.divide == Divide::Auto, comm)?;
        notes.extend(note);
        if let Some((next, splits)) = parts {
            ordered = Some(next.apply(model));
            order = Some(order.map_or_else(|| next.clone(), |order| order.then(&next)));
            borders = Some(splits);
        }
    }
    let Some(order) = order else {
        let mut solution = solve_parts(comm, mdp, borders, initial, start, options, watch)?;
        solution.values = comm.collect(&solution.values)?;
        solution.policy = comm.collect(&solution.policy)?;
        solution.notes.splice(0..0, notes);
        return Ok(Solution { first: 0, ..solution });
    };
    let initial = agreed(initial(0..mdp.states().into()), comm)?.map(|values| order.to_new(&values));
    let of_states = |states: Range<u64>| Ok(initial.as_ref().map(|values| values_of(values, states)));
    // The first rank has the values of all states, in the order of the model.
    let whole = |own: &[f64]| {
        let all = comm.collect(own)?;
        Ok(if comm.rank() == 0 { order.to_old(&all) } else { all })
    };
    let mut watch = watch.mapped(|own| whole(&own));
    let model = ordered.as_ref().unwrap_or(mdp);
    let mut solution = solve_parts(comm, model, borders, of_states, start, options, &mut watch)?;
    solution.values = whole(&solution.values)?;
    solution.policy = comm.collect(&solution.policy)?;
    if comm.rank() == 0 {
        solution.policy = order.to_old(&solution.policy);
    }
    solution.notes.splice(0..0, notes);
    Ok(Solution { first: 0, ..solution })
}

fn values_of(values: &[f64], states: Range<u64>) -> Vec<f64> {
    values[states.start as usize..states.end as usize].to_vec()
}

/// Solves a discounted model on all ranks of `comm`, of which each reads, solves and returns a part: contiguous states,
/// in the order of the model, of about equal work. No rank holds more than its part and its ghosts. The solution of a
/// rank has the values and the policy of its own states, from number [`first`](Solution::first).
///
/// `initial` returns the initial values of a range of states, or `None` for V = 0.
///
/// # Errors
/// As for [`solve_from`]; [`SolveError::Part`] on all ranks if one cannot read its part or `initial` fails, or if a part has
/// too many states; and if a rank fails.
pub fn solve_in_parts(
    comm: &dyn Communicator,
    whole: &dyn Whole,
    initial: impl Fn(Range<u64>) -> Result<Option<Vec<f64>>, Fault>,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Solution, SolveError> {
    let initial: &dyn Fn(Range<u64>) -> _ = &initial;
    solve_session_in_parts(comm, whole, options, Session { initial, resume: None, checkpoints: None, observe })
}

/// [`solve_in_parts`] with checkpoints, of which each rank writes and reads the values of its own states.
///
/// # Errors
/// As for [`solve_in_parts`], and [`SolveError::Part`] for a checkpoint to go on from that is none of this model. A checkpoint
/// that cannot be written is no error here: see [`Checkpoints::finish`].
pub fn solve_session_in_parts(
    comm: &dyn Communicator,
    whole: &dyn Whole,
    options: &SolveOptions,
    session: Session<Initial>,
) -> Result<Solution, SolveError> {
    let Session { initial, resume, checkpoints, observe } = session;
    let session = Session { initial: (), resume, checkpoints, observe };
    with_checkpoints(comm, whole, options, session, |options, start, resumed, watch| {
        let of_states = |states| match resumed {
            Some(values) => Ok(Some(values.take(states)?)),
            None => initial(states),
        };
        solve_parts(comm, whole, None, of_states, start, options, watch)
    })
}

/// [`solve_in_parts`] from `start`, whose values `initial` returns. Checkpoints get the values of the own states. `borders` are
/// those of the parts, unless their work decides.
fn solve_parts(
    comm: &dyn Communicator,
    whole: &dyn Whole,
    borders: Option<Vec<u64>>,
    initial: impl Fn(Range<u64>) -> Result<Option<Vec<f64>>, Fault>,
    start: Start,
    options: &SolveOptions,
    watch: &mut Watch,
) -> Result<Solution, SolveError> {
    if whole.gamma() >= 1.0 {
        return Err(SolveError::Undiscounted);
    }
    let begun = Instant::now();
    let clocked = Clocked::new(comm);
    let comm: &dyn Communicator = &clocked;
    let order = match options.method {
        Some(Method::Projected | Method::Modified | Method::Krylov) => GhostOrder::Behind,
        _ => GhostOrder::Around,
    };
    let splits = borders.map_or_else(|| balanced(whole, comm), Ok)?;
    let rank = comm.rank() as usize;
    let initial = agreed(initial(splits[rank]..splits[rank + 1]), comm)?;
    let part = cut(whole, &splits, order, comm)?;
    let of_rank = part.part().cloned().unwrap_or_default();
    let team = Team::of(comm, &of_rank);
    let options = &SolveOptions { reorder: Reorder::None, ..*options };
    let features = Features::of_ranks_if_auto(&part, &team, options)?;
    let mut initial = initial.map(|values| {
        let mut local = vec![0.0; part.states() as usize];
        local[part.own()].copy_from_slice(&values);
        local
    });
    if let Some(initial) = &mut initial {
        team.refresh(initial)?;
    }
    let start = Start { values: initial.as_deref(), ..start };
    let own = part.own();
    let Watch { follow, keep } = watch.mapped(|values| Ok(values[own.clone()].to_vec()));
    // A stop request reaches the ranks at different times, and the clock of the first says when a checkpoint is due.
    let mut follow = |round: &Round| {
        let next = follow(round)?;
        let mut most = [f64::from(next as u8)];
        team.max(&mut most)?;
        Ok([Next::Continue, Next::Keep, Next::Stop][most[0] as usize])
    };
    let mut watch = Watch { follow: &mut follow, keep };
    let mut solution = solve_by(&part, &team, start, options, features, begun, &mut watch)?;
    drop(watch);
    let local = options.local_sweeps;
    if local > 1 && solution.method == Method::Values && solution.precision != Precision::Refined {
        solution.notes.push(format!("ranks exchange values every {local} sweeps"));
    }
    solution.values.truncate(part.own().end);
    solution.values.drain(..part.own().start);
    solution.policy.truncate(part.own().end);
    solution.policy.drain(..part.own().start);
    solution.ranks = clocked.shares(&solution.device, RankWork::of(&part).unwrap_or_default())?;
    Ok(solution)
}

/// Checks that the model is discounted and that the initial values fit it.
fn check(mdp: &Mdp, initial: Option<&[f64]>) -> Result<(), SolveError> {
    if let Some(found) = initial.map(<[f64]>::len).filter(|&length| length != mdp.states() as usize) {
        return Err(SolveError::Initial { found, expected: mdp.states().into() });
    }
    if mdp.gamma() >= 1.0 { Err(SolveError::Undiscounted) } else { Ok(()) }
}

/// Solves in the model's own state order, with a trial of value iteration if the method is open.
fn solve_by(
    mdp: &Mdp,
    team: &Team,
    start: Start,
    options: &SolveOptions,
    features: Option<Features>,
    begun: Instant,
    watch: &mut Watch,
) -> Result<Solution, SolveError> {
    if features.is_some_and(|features| needs_trial(&features, options)) {
        return with_trial(mdp, team, start, options, watch);
    }
    let chosen = begun.elapsed();
    let mut solution = solve_as_is(mdp, team, start, options, features, false, watch)?;
    solution.phases.prepare += chosen;
    solution.setup += chosen;
    Ok(solution)
}

/// [`solve_from`] in the model's own state order and with a single method. A `trial` limits value iteration to
/// [`auto::trial`] sweeps.
fn solve_as_is(
    mdp: &Mdp,
    team: &Team,
    start: Start,
    options: &SolveOptions,
    features: Option<Features>,
    trial: bool,
    watch: &mut Watch,
) -> Result<Solution, SolveError> {
    let maximized = mdp.to_maximize();
    let sign = mdp.objective().sign();
    let signed = |(state, value): (usize, &f64)| if mdp.choices().count(state) == 0 { 0.0 } else { sign * value };
    let initial = start.values.map(|values| values.iter().enumerate().map(signed).collect::<Vec<_>>());
    let start = Start { values: initial.as_deref(), ..start };
    let place = Placement::choose_by(&maximized, team, features.as_ref(), options)?;
    let (mut backend, setup, upload) = place.open()?;
    let mut limits = start.left(place.method, &options.limits);
    if let (Dynamic::Values(backend), true) = (&mut backend, trial) {
        let mut most = [f64::from(auto::trial(&maximized, backend.sweep_bytes()?))];
        team.max(&mut most)?;
        limits.max_sweeps = limits.max_sweeps.min(most[0] as u32);
    }
    let mut watch = watch.mapped(|mut values| {
        values.iter_mut().for_each(|value| *value *= sign);
        Ok(values)
    });
    let certified = until_certified(&mut backend, &maximized, team, place.method, start, &limits, &mut watch)?;
    drop(watch);
    let Certified { mut values, policy, run, certificate, certify } = certified;
    drop(backend);
    let Placement { method, precision, device, notes, phases, .. } = place;
    let phases = Phases { upload, certify, ..phases };
    if sign < 0.0 {
        values.par_iter_mut().for_each(|value| *value = -*value);
    }
    Ok(Solution {
        values,
        policy,
        first: mdp.part().map_or(0, |part| part.first),
        size: Size::of(mdp, team)?,
        run,
        certificate,
        method,
        precision,
        device,
        notes,
        setup,
        phases,
        ranks: Vec::new(),
    })
}

/// Whether `auto` may switch the method: on the CPU, in `f64`, if value iteration may need many sweeps.
fn needs_trial(features: &Features, options: &SolveOptions) -> bool {
    let on_cpu = || match options.device {
        DeviceChoice::Cpu => true,
        DeviceChoice::Auto => features.cost().suits_cpu() || !options.device.runs_kernels(),
        DeviceChoice::Cuda(_) | DeviceChoice::Emulated => false,
    };
    let exact = matches!(options.precision, Precision::F64 | Precision::Mixed);
    let epsilon = matches!(options.limits.target, Target::Epsilon(_));
    exact && epsilon && features.needs_trial() && options.limits.max_sweeps > MAX_TRIAL_SWEEPS && on_cpu()
}

/// Runs a limited number of value iteration sweeps, then Krylov policy iteration from the V reached if these did not
/// converge.
fn with_trial(
    mdp: &Mdp,
    team: &Team,
    start: Start,
    options: &SolveOptions,
    watch: &mut Watch,
) -> Result<Solution, SolveError> {
    let on_cpu = SolveOptions { device: DeviceChoice::Cpu, reorder: Reorder::None, ..*options };
    let trial = SolveOptions { method: Some(Method::Values), ..on_cpu };
    let mut trial = solve_as_is(mdp, team, start, &trial, None, true, watch)?;
    if trial.converged(&options.limits) {
        trial.notes.push(format!("auto chose values: {} sweeps were enough", trial.run.sweeps()));
        return Ok(trial);
    }
    if trial.run.status != Status::SweepLimit {
        trial.notes.push("auto chose values".to_owned());
        return Ok(trial);
    }
    let krylov = SolveOptions { method: Some(Method::Krylov), precision: Precision::F64, ..on_cpu };
    let start = Start::new(Some(&trial.values), &trial.run);
    let mut solution = solve_as_is(mdp, team, start, &krylov, None, false, watch)?;
    let (sweeps, gamma) = (trial.run.sweeps(), mdp.gamma());
    let note = format!("auto chose krylov: value iteration did not converge in {sweeps} sweeps, gamma is {gamma}");
    solution.notes.insert(0, note);
    let (before, after) = (trial.phases, solution.phases);
    let phases = Phases {
        prepare: before.prepare + after.prepare,
        upload: before.upload + after.upload,
        certify: before.certify + after.certify,
        ..after
    };
    Ok(Solution { setup: trial.setup + solution.setup, phases, ..solution })
}

/// The state order to solve in, with a note for the user; `None` for the model's own order.
fn order(mdp: &Mdp, options: &SolveOptions) -> Option<(Order, String)> {
    match options.reorder {
        Reorder::None => None,
        Reorder::Rcm => Some((Order::rcm(mdp), "states are in reverse Cuthill–McKee order".to_owned())),
        Reorder::Auto => {
            // The baseline methods keep the model's own order.
            let methods = [Method::Values, Method::GaussSeidel, Method::Modified, Method::Krylov];
            if options.method.is_some_and(|method| !methods.contains(&method)) {
                return None;
            }
            let sweeps = || Features::of(mdp, options.limits.target).sweeps;
            let (order, [before, after]) = Order::worthwhile(mdp, sweeps)?;
            let note = format!(
                "auto chose reverse Cuthill–McKee order: mean distance of successors {after:.0} states, was {before:.0}"
            );
            Some((order, note))
        }
    }
}

/// [`solve_from`] with V = 0.
///
/// # Errors
/// As for [`solve_from`].
pub fn solve_with(mdp: &Mdp, options: &SolveOptions, observe: Observer) -> Result<Solution, SolveError> {
    solve_from(mdp, None, options, observe)
}

/// Result of [`until_certified`].
struct Certified {
    values: Vec<f64>,
    policy: Vec<u32>,
    run: Run,
    certificate: Certificate,
    /// Time spent on certificates.
    certify: Duration,
}

/// Smallest fraction of ε in the stopping rule. The first attempt uses ε, and each further attempt a quarter of the
/// previous value: the certificate includes rounding errors, so a run that stops at ε may miss it.
pub(super) const MIN_EPSILON_FRACTION: f64 = 1.0 / 256.0;

/// The stopping rule for greedy sweeps.
pub fn stop(mdp: &Mdp, target: Target, attempt: Attempt) -> Stop {
    match target {
        Target::Theta(theta) => Stop::Change(theta),
        Target::Epsilon(epsilon) => attempt.stop(mdp.gamma(), epsilon, mdp.never_terminates()),
    }
}

/// The θ for policy evaluations, with ε multiplied by `epsilon_fraction` ≤ 1.
fn theta(mdp: &Mdp, target: Target, epsilon_fraction: f64) -> f64 {
    match target {
        Target::Theta(theta) => theta,
        Target::Epsilon(epsilon) => change_bound(mdp.gamma(), epsilon_fraction * epsilon),
    }
}

/// Runs the loop of the backend's method once: greedy sweeps until `stop`, or evaluations of each policy to `theta`.
pub fn run(
    backend: &mut Dynamic,
    stop: Stop,
    theta: f64,
    limits: &Limits,
    observe: Observer,
) -> Result<Run, SolveError> {
    run_followed(backend, stop, theta, limits, &mut |run, _, _| Ok(after(run, &mut *observe)))
}

/// Called after each round of [`run_followed`] with the run so far, the backend, and whether V has left f32.
type Follow<'a> =
    &'a mut dyn FnMut(&Run, &mut dyn State<Error = SolveError>, bool) -> Result<ControlFlow<()>, SolveError>;

/// [`run`] with access to V after each round.
fn run_followed(
    backend: &mut Dynamic,
    stop: Stop,
    theta: f64,
    limits: &Limits,
    follow: Follow,
) -> Result<Run, SolveError> {
    match backend {
        Dynamic::Values(backend) => value_rounds(&mut **backend, stop, limits, |run, backend| {
            let in_f64 = backend.phase() > 0;
            follow(run, backend, in_f64)
        }),
        Dynamic::Policies(backend) => {
            policy_rounds(&mut **backend, theta, limits, |run, backend| follow(run, backend, false))
        }
        Dynamic::Modified(backend) => {
            modified_rounds(&mut **backend, stop, PARTIAL_SWEEPS, limits, |run, backend| follow(run, backend, false))
        }
    }
}

/// Calls an observer after a round.
pub(super) fn after(run: &Run, observe: impl FnOnce(&Round) -> ControlFlow<()>) -> ControlFlow<()> {
    run.rounds.last().map_or(ControlFlow::Continue(()), observe)
}

/// Starts at V = `initial` or 0, runs the loop and certifies V. Repeats with a tighter stopping rule until the
/// certificate proves ‖V − V\*‖∞ ≤ ε or the loop reaches a limit. The run includes the earlier rounds.
fn until_certified(
    backend: &mut Dynamic,
    mdp: &Mdp,
    team: &Team,
    method: Method,
    start: Start,
    limits: &Limits,
    watch: &mut Watch,
) -> Result<Certified, SolveError> {
    let target = limits.target;
    let epsilon = if let Target::Epsilon(epsilon) = target { Some(epsilon) } else { None };
    backend.state().reset(start.values)?;
    backend.state().set_shift_span(start.shift_span);
    if let (Dynamic::Policies(backend), true) = (&mut *backend, start.goes_on()) {
        // Not the first policy, which V has left behind.
        backend.improve(limits.tie)?;
    }
    let (mut certify, mut done, mut in_f64, mut last) = (Duration::ZERO, start.earlier.clone(), false, None);
    let (all, certificate, (values, greedy)) = tighten(epsilon, start.attempt, |attempt| {
        let (stop, theta) = (stop(mdp, target, attempt), theta(mdp, target, attempt.epsilon_fraction));
        let checkpoint = |done: &Run, run: &Run, values, in_f64, shift_span| {
            let mut all = done.clone();
            all.append(run.clone());
            Checkpoint { method, in_f64, target, attempt, shift_span, values, run: all }
        };
        let run = run_followed(backend, stop, theta, limits, &mut |run, state, now_in_f64| {
            in_f64 = now_in_f64;
            let Some(round) = run.rounds.last() else { return Ok(ControlFlow::Continue(())) };
            let next = (watch.follow)(round)?;
            if let (Next::Keep, Some(keep)) = (next, &mut watch.keep) {
                keep(checkpoint(&done, run, state.values()?, in_f64, state.shift_span()))?;
            }
            Ok(if next == Next::Stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let begun = Instant::now();
        let mut values = backend.state().values()?;
        if let Some(keep) = &mut watch.keep {
            let reached = checkpoint(&done, &run, values.clone(), in_f64, backend.state().shift_span());
            // A run that has not ended by its rule is the last.
            last = match run.status {
                Status::Solved => Some(reached),
                _ => keep(reached).map(|()| None)?,
            };
        }
        done.append(run.clone());
        let (certificate, greedy) = certify_greedy(mdp, team, &mut values, epsilon.is_some())?;
        certify += begun.elapsed();
        Ok::<_, SolveError>((run, certificate, (values, greedy)))
    })?;
    if let (Some(last), Some(keep)) = (last, &mut watch.keep) {
        keep(last)?;
    }
    let state = backend.state();
    let implicit = state.policy_is_implicit() || all.rounds.is_empty();
    let policy = if implicit { greedy } else { state.policy()? };
    done.status = match (all.status, epsilon) {
        (Status::Interrupted, _) => Status::Interrupted,
        _ if !certificate.bellman_residual.is_finite() => Status::Overflow,
        (status, None) => status,
        (_, Some(epsilon)) if certificate.proves(epsilon) => Status::Solved,
        (Status::Solved, _) => Status::Stalled,
        (status, _) => status,
    };
    Ok(Certified { values, policy, run: done, certificate, certify })
}

/// Repeats `attempt`, from the `first` on with ε multiplied by 1, 1/4, 1/16, … until its certificate proves `epsilon` or has no bound, or a run
/// reaches a limit. An attempt returns its run, certificate and result. Without `epsilon` there is one attempt.
///
/// Returns all runs as one, with certificate and result of the last attempt.
///
/// # Errors
/// The error of an attempt.
pub fn tighten<T, E>(
    epsilon: Option<f64>,
    first: Attempt,
    mut attempt: impl FnMut(Attempt) -> Result<(Run, Certificate, T), E>,
) -> Result<(Run, Certificate, T), E> {
    let (mut next, mut all) = (first, Run::default());
    loop {
        let (run, certificate, result) = attempt(next)?;
        let ended = run.status != Status::Solved || certificate.bound.is_none();
        all.append(run);
        // The stopping rule guarantees this residual unless the shift adds to it.
        let expected = epsilon.unwrap_or(f64::INFINITY) * next.epsilon_fraction * (1.0 - certificate.contraction);
        next.by_span &= certificate.bellman_residual <= expected;
        next.epsilon_fraction /= 4.0;
        let proved = epsilon.is_none_or(|epsilon| certificate.proves(epsilon));
        if ended || proved || next.epsilon_fraction <= MIN_EPSILON_FRACTION {
            return Ok((all, certificate, result));
        }
    }
}

/// Runs policy iteration on `backend` until the policy is stable, a limit is reached, or `observe` breaks (Howard 1960;
/// Puterman, *Markov Decision Processes*, 6.4). Each policy is evaluated until ‖ΔV‖∞ < `theta`. A V of which the backend
/// knows that ‖TV − V‖∞ < `theta` needs no stable policy.
///
/// # Errors
/// Errors of the backend.
pub fn policy_iteration<B: Evaluate + ?Sized>(
    backend: &mut B,
    theta: f64,
    limits: &Limits,
    mut observe: impl FnMut(&Round) -> ControlFlow<()>,
) -> Result<Run, B::Error> {
    policy_rounds(backend, theta, limits, |run, _| Ok(after(run, &mut observe)))
}

/// [`policy_iteration`] with access to the backend after each round.
fn policy_rounds<B: Evaluate + ?Sized>(
    backend: &mut B,
    theta: f64,
    limits: &Limits,
    mut follow: impl FnMut(&Run, &mut B) -> Result<ControlFlow<()>, B::Error>,
) -> Result<Run, B::Error> {
    let mut run = Timed::start();
    // Residual of the last evaluation if the policy has not changed since.
    let mut last = f64::INFINITY;
    for _ in 0..limits.max_policies {
        let evaluation = backend.evaluate(theta, limits.max_sweeps)?;
        if backend.bellman_residual() < theta {
            run.push(evaluation.sweeps, evaluation.residual, Some(0));
            return Ok(run.end(Status::Solved));
        }
        let changed = backend.improve(limits.tie)?;
        run.push(evaluation.sweeps, evaluation.residual, Some(changed));
        // A backend may stop an evaluation before θ. Evaluate the same policy again while its residual falls.
        let (evaluated, spent) = (evaluation.residual < theta, evaluation.sweeps >= limits.max_sweeps);
        if changed == 0 && (evaluated || spent || evaluation.residual >= last) {
            return Ok(run.end(match (evaluated, spent) {
                (true, _) => Status::Solved,
                (_, true) => Status::SweepLimit,
                (_, false) => Status::Stalled,
            }));
        }
        last = if changed == 0 { evaluation.residual } else { f64::INFINITY };
        if follow(&run.run, backend)?.is_break() {
            return Ok(run.end(Status::Interrupted));
        }
    }
    Ok(run.end(Status::PolicyLimit))
}

/// Runs value iteration V ← TV on `backend` until `stop` is met, rounding errors prevent further progress, a limit is
/// reached, or `observe` breaks (Puterman, *Markov Decision Processes*, 6.3).
///
/// # Errors
/// Errors of the backend.
pub fn value_iteration<B: GreedySweeps + ?Sized>(
    backend: &mut B,
    stop: Stop,
    limits: &Limits,
    mut observe: impl FnMut(&Round) -> ControlFlow<()>,
) -> Result<Run, B::Error> {
    value_rounds(backend, stop, limits, |run, _| Ok(after(run, &mut observe)))
}

/// [`value_iteration`] with access to the backend after each round.
pub(super) fn value_rounds<B: GreedySweeps + ?Sized>(
    backend: &mut B,
    stop: Stop,
    limits: &Limits,
    follow: impl FnMut(&Run, &mut B) -> Result<ControlFlow<()>, B::Error>,
) -> Result<Run, B::Error> {
    let round = |backend: &mut B, left: u32| Ok((backend.backup(stop, left.min(backend.sweeps_per_round()))?, 0));
    let stalled = |backend: &mut B, idle_rounds: u32, size: f64| match backend.non_monotone_unit() {
        // T is a contraction: without rounding errors, ‖ΔV‖∞ falls in every sweep.
        None => Ok(idle_rounds == 2),
        Some(unit) => may_be_rounding(backend, unit, idle_rounds, size),
    };
    greedy_rounds(backend, stop, limits, stalled, follow, round)
}

/// Most evaluation sweeps per round of modified policy iteration.
pub const PARTIAL_SWEEPS: u32 = 20;

/// Runs modified policy iteration on `backend`. Each round is a greedy sweep V ← TV, which may meet `stop`, followed by
/// sweeps V ← T_π V of its greedy policy π (Puterman and Shin, *Management Science* 24, 1978; Puterman, 6.5): 1 in the first
/// round, twice as many in each further one up to `partial_sweeps`, but no more than `stop` takes if the changes go on to fall
/// as they fell since the round before.
///
/// The iteration converges, but ‖TV − V‖ may grow from round to round: while the value of a distant goal spreads by a
/// few states per round, states it has not reached fall further behind. So the loop blames rounding errors for a lack
/// of progress only if the changes are of that size.
///
/// # Errors
/// Errors of the backend.
pub fn modified_policy_iteration<B: Modify + ?Sized>(
    backend: &mut B,
    stop: Stop,
    partial_sweeps: u32,
    limits: &Limits,
    mut observe: impl FnMut(&Round) -> ControlFlow<()>,
) -> Result<Run, B::Error> {
    modified_rounds(backend, stop, partial_sweeps, limits, |run, _| Ok(after(run, &mut observe)))
}

/// [`modified_policy_iteration`] with access to the backend after each round.
fn modified_rounds<B: Modify + ?Sized>(
    backend: &mut B,
    stop: Stop,
    partial_sweeps: u32,
    limits: &Limits,
    follow: impl FnMut(&Run, &mut B) -> Result<ControlFlow<()>, B::Error>,
) -> Result<Run, B::Error> {
    // The most evaluation sweeps of the round, and the sweeps since the greedy sweep of the last one with its changes.
    let (mut most, mut last) = (1, None);
    let round = |backend: &mut B, left: u32| {
        let backups = backend.backup(stop, 1)?;
        let size = stop.size(backups.least, backups.greatest);
        let needed = last.map_or(u32::MAX, |(sweeps, before)| sweeps_to(stop.bound(), size, before, sweeps));
        let partial = most.min(needed).min(left.saturating_sub(backups.sweeps));
        last = Some((partial + backups.sweeps, size));
        most = (2 * most).min(partial_sweeps);
        let ends = stop.is_met(backups.least, backups.greatest) || partial == 0;
        // No residual is below 0, so all the sweeps are done.
        let partial = if ends { 0 } else { backend.evaluate(0.0, partial)?.sweeps };
        Ok((backups, partial))
    };
    let stalled = |backend: &mut B, idle_rounds: u32, size: f64| {
        let unit = backend.unit();
        may_be_rounding(backend, unit, idle_rounds, size)
    };
    greedy_rounds(backend, stop, limits, stalled, follow, round)
}

/// Sweeps until changes of `size` are below `bound` if they fall as in the last `sweeps` sweeps, from `before`; the greatest number
/// if they do not fall.
fn sweeps_to(bound: f64, size: f64, before: f64, sweeps: u32) -> u32 {
    let count = f64::from(sweeps) * (bound / size).ln() / (size / before).ln();
    // Not for NaN, either.
    if size < before { count.ceil() as u32 } else { u32::MAX }
}

/// Period in rounds without progress after which changes are tested for rounding errors, where ‖ΔV‖∞ may grow without
/// them.
const PATIENCE: u32 = 32;

/// Changes of up to this many unit roundoffs of ‖V‖∞ count as rounding errors.
const NOISE: f64 = 1024.0;

/// Whether `size`, after `idle_rounds` rounds without progress, is of the magnitude of rounding errors. Tests only
/// every [`PATIENCE`] rounds.
fn may_be_rounding<B: GreedySweeps + ?Sized>(
    backend: &mut B,
    unit: f64,
    idle_rounds: u32,
    size: f64,
) -> Result<bool, B::Error> {
    if idle_rounds == 0 || !idle_rounds.is_multiple_of(PATIENCE) {
        return Ok(false);
    }
    Ok(size <= NOISE * unit * backend.magnitude()?)
}

/// Runs rounds of greedy sweeps until `stop` is met, `stalled` reports rounding errors, a limit is reached, or
/// `follow` breaks.
///
/// `round` takes the number of sweeps left. It returns the outcome of its greedy sweeps and the number of evaluation
/// sweeps after them. `stalled` takes the number of rounds without progress and the size of the last changes.
///
fn greedy_rounds<B: GreedySweeps + ?Sized>(
    backend: &mut B,
    stop: Stop,
    limits: &Limits,
    mut stalled: impl FnMut(&mut B, u32, f64) -> Result<bool, B::Error>,
    mut follow: impl FnMut(&Run, &mut B) -> Result<ControlFlow<()>, B::Error>,
    mut round: impl FnMut(&mut B, u32) -> Result<(Backups, u32), B::Error>,
) -> Result<Run, B::Error> {
    let mut run = Timed::start();
    let mut left = limits.max_sweeps;
    // Smallest change in this phase, and rounds since it was reached.
    let (mut smallest, mut idle_rounds, mut phase) = (f64::INFINITY, 0, backend.phase());
    while left > 0 {
        let (backups, evaluation_sweeps) = round(backend, left)?;
        let now = backend.phase();
        if now != phase {
            (phase, smallest) = (now, f64::INFINITY);
        }
        left = left.saturating_sub(backups.sweeps + evaluation_sweeps);
        run.push(backups.sweeps + evaluation_sweeps, backups.residual(), None);
        if stop.is_met(backups.least, backups.greatest) {
            return Ok(run.end(Status::Solved));
        }
        if backups.fixed {
            return Ok(run.end(Status::Stalled));
        }
        let size = stop.size(backups.least, backups.greatest);
        idle_rounds = if size < smallest { 0 } else { idle_rounds + 1 };
        smallest = smallest.min(size);
        // The observer comes first: a round cut short by an interrupt may look stalled.
        if follow(&run.run, backend)?.is_break() {
            return Ok(run.end(Status::Interrupted));
        }
        if stalled(backend, idle_rounds, size)? {
            return Ok(run.end(Status::Stalled));
        }
    }
    Ok(run.end(Status::SweepLimit))
}

/// A run and its clock.
struct Timed {
    run: Run,
    start: Instant,
}

impl Timed {
    /// Starts the clock.
    fn start() -> Self {
        Self { run: Run::default(), start: Instant::now() }
    }

    fn push(&mut self, sweeps: u32, residual: f64, changed: Option<u64>) {
        let (round, elapsed) = (self.run.rounds.len() as u32 + 1, self.start.elapsed());
        self.run.rounds.push(Round { round, sweeps, residual, changed, seconds: elapsed.as_secs_f64() });
        self.run.elapsed = elapsed;
    }

    fn end(self, status: Status) -> Run {
        Run { status, elapsed: self.start.elapsed(), ..self.run }
    }
}
