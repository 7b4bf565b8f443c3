//! From what the user asks to a backend: which device, which method, in which types.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use crate::runtime;
use crate::runtime::error::from_devices;
use warpkov_kernels::device::Offset;
use warpkov_kernels::emulator::Emulator;
use warpkov_kernels::launch::Device;

use rayon::prelude::*;

use super::analysis::reorder::Order;
use super::auto::{self, Features, LONGEST_TRIAL};
use super::backend::{Backup, Evaluate, Modify, State, Stop};
use super::certificate::{Certificate, certify_greedy};
use super::cpu;
use super::device::divided::{BadBlocks, BlockIteration, Division, ResultIteration};
use super::device::{Layout, Mixed, Plain, Plan, Projected, Streamed, Streaming, System, Values};
use super::krylov::Krylov;
use super::model::Mdp;
use super::model::validate::Invalid;
use super::options::{Limits, Method, Places, Precision, Reorder, SolveOptions, Storage, Target};
use super::refine::Refined;
use super::solution::{Phases, Round, Run, Solution, Status};
use super::solve::{PARTIAL_SWEEPS, modified_policy_iteration, policy_iteration, value_iteration};
use crate::backend::cuda::{CudaError, Gpu, size};
use crate::runtime::choose::DeviceChoice;
use crate::runtime::{Precise, cores, emulator};

/// Why a model is not solved.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The method does not run on the device.
    #[error("method {method} does not run on --device {device}: {instead}")]
    Unsupported {
        /// The method asked for.
        method: Method,
        /// The device asked for.
        device: DeviceChoice,
        /// What would.
        instead: &'static str,
    },
    /// A start of another number of states.
    #[error("{found} initial values, expected one per state, {expected}")]
    Initial {
        /// Values given.
        found: usize,
        /// States of the model.
        expected: u32,
    },
    /// γ = 1, and no criterion that makes sense of it.
    #[error("gamma is 1: discounted methods need less; see --criterion for undiscounted ones, or --gamma")]
    Undiscounted,
    /// The model has no such layout.
    #[error("the model cannot be stored as {0}: its rows or its numbers differ too much")]
    Storage(Storage),
    /// Refinement needs a reward per row.
    #[error("--precision refined needs a reward for every row: it works with --storage slices or rows, not {0}")]
    Shared(Storage),
    /// The model is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// States cannot be divided into such blocks.
    #[error(transparent)]
    Blocks(#[from] BadBlocks),
    /// Where it ran failed, or was stopped.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

from_devices!(SolveError);

/// Called after each round; breaks to stop the run.
pub type Observer<'a> = &'a mut dyn FnMut(&Round) -> ControlFlow<()>;

/// Solves a model, and certifies the result. `initial`, one value per state, is where to start, if not at V = 0.
///
/// # Errors
/// [`SolveError`]; that a run meets a limit is no error but its [`Status`](super::solution::Status).
pub fn solve_from(
    mdp: &Mdp,
    initial: Option<&[f64]>,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Solution, SolveError> {
    if let Some(found) = initial.map(<[f64]>::len).filter(|&length| length != mdp.states as usize) {
        return Err(SolveError::Initial { found, expected: mdp.states });
    }
    if mdp.gamma >= 1.0 {
        return Err(SolveError::Undiscounted);
    }
    let begun = Instant::now();
    if let Some((order, note)) = order(mdp, options) {
        let initial = initial.map(|values| order.to_new(values));
        let options = SolveOptions { reorder: Reorder::None, ..*options };
        let ordered = order.apply(mdp);
        let prepared = begun.elapsed();
        let mut solution = solve_from(&ordered, initial.as_deref(), &options, observe)?;
        solution.notes.insert(0, note);
        solution.phases.prepare += prepared;
        solution.setup += prepared;
        let (values, policy) = (order.to_old(&solution.values), order.to_old(&solution.policy));
        return Ok(Solution { values, policy, ..solution });
    }
    let features = features(mdp, options);
    if features.is_some_and(|features| needs_trial(&features, options)) {
        return with_trial(mdp, initial, options, observe);
    }
    let chosen = begun.elapsed();
    let mut solution = solve_as_is(mdp, initial, options, features, false, observe)?;
    solution.phases.prepare += chosen;
    solution.setup += chosen;
    Ok(solution)
}

/// [`solve_from`], in the model's order of states and by one method; as a `trial`, in no more sweeps of value iteration than
/// are worth it.
fn solve_as_is(
    mdp: &Mdp,
    initial: Option<&[f64]>,
    options: &SolveOptions,
    features: Option<Features>,
    trial: bool,
    observe: Observer,
) -> Result<Solution, SolveError> {
    let maximized = mdp.to_maximize();
    let sign = mdp.objective.sign();
    let start = |(state, value): (usize, &f64)| if mdp.choices.count(state) == 0 { 0.0 } else { sign * value };
    let initial = initial.map(|values| values.iter().enumerate().map(start).collect::<Vec<_>>());
    let job = Solve { mdp: &maximized, initial: initial.as_deref(), limits: &options.limits, trial, observe };
    let done = with_features(&maximized, features, options, job)?;
    let Done { result, method, precision, device, notes, setup, mut phases } = done;
    let Solved { mut values, policy, run, certificate, certify } = result;
    phases.certify = certify;
    if sign < 0.0 {
        values.par_iter_mut().for_each(|value| *value = -*value);
    }
    Ok(Solution { values, policy, run, certificate, method, precision, device, notes, setup, phases })
}

/// What `auto` chooses the method by, where it does.
fn features(mdp: &Mdp, options: &SolveOptions) -> Option<Features> {
    options.method.is_none().then(|| Features::of(mdp, options.limits.target))
}

/// Whether `auto` may change its mind: on the CPU, in `f64`, where value iteration may be slow.
fn needs_trial(features: &Features, options: &SolveOptions) -> bool {
    let on_cpu = || match options.device {
        DeviceChoice::Cpu => true,
        DeviceChoice::Auto => features.suits_cpu().is_some() || !Gpu::count().is_ok_and(|count| count > 0),
        DeviceChoice::Cuda(_) | DeviceChoice::Emulated => false,
    };
    let exact = matches!(options.precision, Precision::F64 | Precision::Mixed);
    let epsilon = matches!(options.limits.target, Target::Epsilon(_));
    exact && epsilon && features.needs_trial() && options.limits.max_sweeps > LONGEST_TRIAL && on_cpu()
}

/// Value iteration for some sweeps, and Krylov policy iteration from there if they were not enough.
fn with_trial(
    mdp: &Mdp,
    initial: Option<&[f64]>,
    options: &SolveOptions,
    observe: Observer,
) -> Result<Solution, SolveError> {
    let on_cpu = SolveOptions { device: DeviceChoice::Cpu, reorder: Reorder::None, ..*options };
    let trial = SolveOptions { method: Some(Method::Values), ..on_cpu };
    let mut trial = solve_as_is(mdp, initial, &trial, None, true, &mut *observe)?;
    if trial.converged(&options.limits) {
        trial.notes.push(format!("auto chose values: {} sweeps were enough", trial.run.sweeps()));
        return Ok(trial);
    }
    if trial.run.status != Status::SweepLimit {
        trial.notes.push("auto chose values".to_owned());
        return Ok(trial);
    }
    let krylov = SolveOptions { method: Some(Method::Krylov), precision: Precision::F64, ..on_cpu };
    let mut solution = solve_as_is(mdp, Some(&trial.values), &krylov, None, false, observe)?;
    let (sweeps, gamma) = (trial.run.sweeps(), mdp.gamma);
    let note = format!("auto chose krylov: {sweeps} sweeps of value iteration were not enough, gamma is {gamma}");
    solution.notes.insert(0, note);
    trial.run.append(solution.run);
    let (before, after) = (trial.phases, solution.phases);
    let phases = Phases {
        prepare: before.prepare + after.prepare,
        upload: before.upload + after.upload,
        certify: before.certify + after.certify,
        ..after
    };
    Ok(Solution { run: trial.run, setup: trial.setup + solution.setup, phases, ..solution })
}

/// Another order in which to solve a model, if there is to be one, and what there is to say of it.
fn order(mdp: &Mdp, options: &SolveOptions) -> Option<(Order, String)> {
    match options.reorder {
        Reorder::None => None,
        Reorder::Rcm => Some((Order::rcm(mdp), "states are in reverse Cuthill–McKee order".to_owned())),
        Reorder::Auto => {
            // Baselines take models as they are.
            let methods = [Method::Values, Method::GaussSeidel, Method::Modified, Method::Krylov];
            if options.method.is_some_and(|method| !methods.contains(&method)) {
                return None;
            }
            let sweeps = || Features::of(mdp, options.limits.target).sweeps;
            let (order, [before, after]) = Order::worthwhile(mdp, sweeps)?;
            let note = format!(
                "auto chose reverse Cuthill–McKee order: successors are {after:.0} states away on average, not {before:.0}"
            );
            Some((order, note))
        }
    }
}

/// [`solve_from`] V = 0.
///
/// # Errors
/// As there.
pub fn solve_with(mdp: &Mdp, options: &SolveOptions, observe: Observer) -> Result<Solution, SolveError> {
    solve_from(mdp, None, options, observe)
}

struct Solve<'a> {
    mdp: &'a Mdp,
    initial: Option<&'a [f64]>,
    limits: &'a Limits,
    /// Whether value iteration gives up after a [trial](auto::trial).
    trial: bool,
    observe: Observer<'a>,
}

struct Solved {
    values: Vec<f64>,
    policy: Vec<u32>,
    run: Run,
    certificate: Certificate,
    /// Time to certify.
    certify: Duration,
}

/// How much closer than theory asks for is tried for ε, by steps of 4: what is certified includes rounding errors, which no
/// sweep shows.
pub(super) const CLOSEST: f64 = 1.0 / 256.0;

/// What a sweep may change at most for ε: a little less than theory asks for.
fn change(gamma: f64, epsilon: f64) -> f64 {
    0.9 * epsilon * (1.0 - gamma)
}

/// The span of changes in a sweep that V may have for ε, in a model that never ends: twice as large, as V will be shifted
/// to the middle of it.
pub(super) fn span(gamma: f64, epsilon: f64) -> Stop {
    Stop::Span(2.0 * change(gamma, epsilon))
}

/// When value iteration has met a target.
pub(super) fn stop(mdp: &Mdp, target: Target) -> Stop {
    match target {
        Target::Theta(theta) => Stop::Change(theta),
        Target::Epsilon(epsilon) if mdp.goes_on() => span(mdp.gamma, epsilon),
        Target::Epsilon(epsilon) => Stop::Change(change(mdp.gamma, epsilon)),
    }
}

impl Solve<'_> {
    /// When greedy sweeps end.
    fn stop(&self, closer: f64) -> Stop {
        match (self.limits.target, stop(self.mdp, self.limits.target)) {
            (Target::Theta(_), stop) => stop,
            (Target::Epsilon(_), Stop::Change(bound)) => Stop::Change(closer * bound),
            (Target::Epsilon(_), Stop::Span(bound)) => Stop::Span(closer * bound),
        }
    }

    /// Runs until the target is met. `run` is given how much closer than theory asks for it has to come.
    fn run<B: State>(
        &mut self,
        backend: &mut B,
        mut run: impl FnMut(&mut Self, &mut B, f64) -> Result<Run, B::Error>,
    ) -> Result<Solved, B::Error> {
        backend.reset(self.initial)?;
        let mut closer = 1.0;
        let (mut all, mut certify) = (Run::default(), Duration::ZERO);
        loop {
            let last = run(self, backend, closer)?;
            let ended = !matches!(last.status, Status::Solved);
            all.append(last);
            let begun = Instant::now();
            let mut values = backend.values()?;
            let epsilon = if let Target::Epsilon(epsilon) = self.limits.target { Some(epsilon) } else { None };
            let (certificate, greedy) = certify_greedy(self.mdp, &mut values, epsilon.is_some());
            certify += begun.elapsed();
            let met = epsilon.is_none_or(|epsilon| certificate.bound.is_none_or(|bound| bound <= epsilon));
            closer /= 4.0;
            if ended || met || closer <= CLOSEST {
                let policy = if backend.leaves_policy() { greedy } else { backend.policy()? };
                all.status = match all.status {
                    Status::Interrupted => Status::Interrupted,
                    _ if !certificate.bellman_residual.is_finite() => Status::Overflow,
                    status if epsilon.is_none() => status,
                    _ if certificate.bound.is_some_and(|bound| epsilon.is_some_and(|epsilon| bound <= epsilon)) => {
                        Status::Solved
                    }
                    Status::Solved => Status::Stalled,
                    status => status,
                };
                return Ok(Solved { values, policy, run: all, certificate, certify });
            }
        }
    }
}

impl Job for Solve<'_> {
    type Result = Solved;

    fn policies<B: Evaluate>(mut self, mut backend: B) -> Result<Solved, SolveError>
    where
        SolveError: From<B::Error>,
    {
        Ok(self.run(&mut backend, |solve, backend, closer| {
            let theta = match solve.limits.target {
                Target::Theta(theta) => theta,
                Target::Epsilon(epsilon) => closer * change(solve.mdp.gamma, epsilon),
            };
            policy_iteration(backend, theta, solve.limits, &mut *solve.observe)
        })?)
    }

    fn modified<B: Modify>(mut self, mut backend: B) -> Result<Solved, SolveError>
    where
        SolveError: From<B::Error>,
    {
        Ok(self.run(&mut backend, |solve, backend, closer| {
            let stop = solve.stop(closer);
            modified_policy_iteration(backend, stop, PARTIAL_SWEEPS, solve.limits, &mut *solve.observe)
        })?)
    }

    fn values<B: Backup>(mut self, mut backend: B) -> Result<Solved, SolveError>
    where
        SolveError: From<B::Error>,
    {
        let trial = if self.trial { auto::trial(self.mdp, backend.sweep_bytes()?) } else { u32::MAX };
        let limits = Limits { max_sweeps: self.limits.max_sweeps.min(trial), ..*self.limits };
        Ok(self.run(&mut backend, |solve, backend, closer| {
            value_iteration(backend, solve.stop(closer), &limits, &mut *solve.observe)
        })?)
    }
}

/// Something to do with a backend, whichever it is.
pub trait Job {
    /// What comes of it.
    type Result;

    /// Does it with a backend for policy iteration.
    fn policies<B: Evaluate>(self, backend: B) -> Result<Self::Result, SolveError>
    where
        SolveError: From<B::Error>;

    /// Does it with a backend for modified policy iteration.
    fn modified<B: Modify>(self, backend: B) -> Result<Self::Result, SolveError>
    where
        SolveError: From<B::Error>;

    /// Does it with a backend for value iteration.
    fn values<B: Backup>(self, backend: B) -> Result<Self::Result, SolveError>
    where
        SolveError: From<B::Error>;
}

/// What came of a job, and where it was done.
pub struct Done<R> {
    /// What came of it.
    pub result: R,
    /// The method, asked for or chosen.
    pub method: Method,
    /// The precision, asked for or chosen.
    pub precision: Precision,
    /// The device, in words.
    pub device: String,
    /// What was chosen on the user's behalf, and why.
    pub notes: Vec<String>,
    /// Time to convert the model and to bring it to the device.
    pub setup: Duration,
    /// Where that went.
    pub phases: Phases,
}

/// Chooses the device, the method and the types, brings the model there, and does the job.
///
/// # Errors
/// [`SolveError`].
pub fn with_backend<J: Job>(mdp: &Mdp, options: &SolveOptions, job: J) -> Result<Done<J::Result>, SolveError> {
    with_features(mdp, features(mdp, options), options, job)
}

/// [`with_backend`], once the [`features`] are known.
fn with_features<J: Job>(
    mdp: &Mdp,
    features: Option<Features>,
    options: &SolveOptions,
    job: J,
) -> Result<Done<J::Result>, SolveError> {
    let start = Instant::now();
    let Place { device, precision, mut notes, mut phases } = choose(mdp, features.as_ref(), options)?;
    let chosen = start.elapsed();
    let method = match features.as_ref().map(Features::method) {
        Some((method, note)) => {
            notes.push(note);
            method
        }
        None => options.method.unwrap_or(Method::Values),
    };
    let precision = device.precision(method, precision);
    if options.precision == Precision::F32 && precision != Precision::F32 {
        notes.push(format!("{method} computes in {precision} whatever the precision asked for"));
    }
    let (method, device, (result, setup)) = match device {
        Chosen::Cpu => {
            let one = matches!(method, Method::Serial | Method::Sequential);
            let name = if one { cores::of(1) } else { cores::all() };
            let done = match precision {
                Precision::F32 => on_cpu::<f32, J>(mdp, method, options, start, job),
                Precision::Refined if method == Method::Values => refined_on_cpu(mdp, options, start, job),
                Precision::F64 | Precision::Mixed | Precision::Refined => {
                    on_cpu::<f64, J>(mdp, method, options, start, job)
                }
            };
            (method, name, done?)
        }
        Chosen::Gpu(gpu, prepared) => {
            notes.extend(prepared.note());
            (method, gpu.name(), prepared.run(&gpu, precision, start, job)?)
        }
        Chosen::Emulated(prepared) => {
            notes.extend(prepared.note());
            let done = prepared.run(&emulator(), precision, start, job)?;
            (method, "the emulator".to_owned(), done)
        }
    };
    phases.upload = setup.saturating_sub(chosen);
    Ok(Done { result, method, precision, device, notes, setup, phases })
}

/// A device, and what there is to say of the choice.
struct Place<'m> {
    device: Chosen<'m>,
    precision: Precision,
    notes: Vec<String>,
    phases: Phases,
}

enum Chosen<'m> {
    Cpu,
    Gpu(Gpu, Prepared<'m>),
    Emulated(Prepared<'m>),
}

impl Chosen<'_> {
    /// What a method computes in where `asked` is asked for.
    fn precision(&self, method: Method, asked: Precision) -> Precision {
        // A model that is streamed is swept in one type, and so is any on the CPU unless it is refined.
        let (refines, mixes) = match self {
            Self::Cpu => (true, false),
            Self::Gpu(_, prepared) | Self::Emulated(prepared) => {
                let fits = matches!(prepared.layout, Laid::Values(_));
                (fits, fits)
            }
        };
        match (method.precision(asked), method) {
            (Precision::Mixed, Method::Values) if mixes => Precision::Mixed,
            (Precision::Refined, Method::Values) if refines => Precision::Refined,
            (Precision::Mixed | Precision::Refined, _) => Precision::F64,
            (precision, _) => precision,
        }
    }
}

fn choose<'m>(mdp: &'m Mdp, features: Option<&Features>, options: &SolveOptions) -> Result<Place<'m>, SolveError> {
    let places = options.method.map_or(Places { cpu: true, gpu: true }, Method::places);
    let (only_cpu, only_gpu) = (!places.gpu, !places.cpu);
    let unsupported = |instead| match options.method {
        Some(method) => Err(SolveError::Unsupported { method, device: options.device, instead }),
        None => Ok(()),
    };
    let precision = options.precision;
    let place = |device, notes| Ok(Place { device, precision, notes, phases: Phases::default() });
    match options.device {
        DeviceChoice::Cpu if only_gpu => unsupported("it needs --device cuda:N or emulated")?,
        DeviceChoice::Cuda(_) | DeviceChoice::Emulated if only_cpu => unsupported("it needs --device cpu")?,
        _ => {}
    }
    let auto = features.filter(|_| options.device == DeviceChoice::Auto);
    if let Some(note) = auto.and_then(Features::suits_cpu) {
        return place(Chosen::Cpu, vec![note]);
    }
    match options.device {
        DeviceChoice::Cpu => place(Chosen::Cpu, Vec::new()),
        DeviceChoice::Emulated => {
            let free = options.device_memory.unwrap_or(u64::MAX);
            let begun = Instant::now();
            let prepared = Prepared::new(mdp, options)?.within(free, free, options)?;
            let phases = Phases { prepare: begun.elapsed(), ..Phases::default() };
            Ok(Place { device: Chosen::Emulated(prepared), precision, notes: Vec::new(), phases })
        }
        DeviceChoice::Cuda(ordinal) => on_gpu(ordinal, mdp, options),
        DeviceChoice::Auto if only_cpu => place(Chosen::Cpu, Vec::new()),
        DeviceChoice::Auto => match on_gpu(0, mdp, options) {
            Ok(found) => Ok(found),
            Err(SolveError::Runtime(runtime::Error::Device(error))) if !only_gpu => {
                place(Chosen::Cpu, vec![format!("auto chose the CPU: {error}")])
            }
            Err(error) => Err(error),
        },
    }
}

/// A GPU with enough free memory for the model, or for some parts of it at a time.
fn on_gpu<'m>(ordinal: u32, mdp: &'m Mdp, options: &SolveOptions) -> Result<Place<'m>, SolveError> {
    // Without a driver there is nothing to prepare for.
    Gpu::driver_version()?;
    let begun = Instant::now();
    let (gpu, start, prepared, prepare) = thread::scope(|scope| {
        let prepared = scope.spawn(|| (Prepared::new(mdp, options), begun.elapsed()));
        let (gpu, start) = (Gpu::open(ordinal), begun.elapsed());
        let (prepared, prepare) = prepared.join().unwrap_or_else(|panic| resume_unwind(panic));
        (gpu, start, prepared, prepare)
    });
    let (gpu, prepared) = (gpu?, prepared?);
    let phases = Phases { start, prepare, ..Phases::default() };
    let (free, total) = gpu.memory()?;
    let free = free.min(options.device_memory.unwrap_or(u64::MAX));
    let precision = options.precision;
    if precision == Precision::Mixed && options.method.is_none() && prepared.bytes(precision) > free {
        // What is too large in 64 bits may not be in 32.
        let precision = Precision::Refined;
        let refined = Prepared::new(mdp, &SolveOptions { precision, storage: None, ..*options })?;
        if refined.bytes(precision) <= free {
            let note = "auto chose precision refined: the device's memory holds the model in 32 bits only";
            return Ok(Place { device: Chosen::Gpu(gpu, refined), precision, notes: vec![note.to_owned()], phases });
        }
    }
    let device = Chosen::Gpu(gpu, prepared.within(free, total, options)?);
    Ok(Place { device, precision, notes: Vec::new(), phases })
}

/// A model, laid out for a method that runs on a device.
struct Prepared<'m> {
    mdp: &'m Mdp,
    method: Method,
    layout: Laid<'m>,
}

enum Laid<'m> {
    Policies(Layout),
    Values(Plan<'m>),
    Results,
    Blocks(Division),
    Streamed { streaming: Streaming<'m>, why: String },
}

impl<'m> Prepared<'m> {
    fn new(mdp: &'m Mdp, options: &SolveOptions) -> Result<Self, SolveError> {
        let method = options.method.unwrap_or(Method::Values);
        let layout = match method {
            Method::Values => {
                let plan = match (options.precision, options.storage) {
                    (Precision::Refined, None) => Some(Plan::with_rewards(mdp)),
                    (Precision::Refined, Some(storage @ (Storage::Narrow | Storage::Patterns))) => {
                        return Err(SolveError::Shared(storage));
                    }
                    (_, storage) => Plan::new(mdp, storage),
                };
                let plan = plan.ok_or_else(|| SolveError::Storage(options.storage.unwrap_or(Storage::Rows)))?;
                Laid::Values(if options.skip { plan } else { plan.without_skipping() })
            }
            Method::ResultDivided => Laid::Results,
            Method::BlockDivided => Laid::Blocks(Division::new(mdp, options.blocks)?),
            _ => Laid::Policies(Layout::choose(mdp)),
        };
        Ok(Self { mdp, method, layout })
    }

    /// The same in `free` bytes of device memory: streamed through them if it takes more.
    fn within(self, free: u64, total: u64, options: &SolveOptions) -> Result<Self, SolveError> {
        /// With the number of its parts, and of those at a time.
        fn stream<T: Precise>(plan: Plan, room: u64) -> Option<(Streaming, (usize, usize))> {
            let streaming = Streaming::within::<T>(plan, room)?;
            let parts = streaming.parts::<T>();
            Some((streaming, parts))
        }
        let needed = self.bytes(options.precision);
        if needed <= free {
            return Ok(self);
        }
        let lacking = || CudaError::OutOfMemory { needed, free, total, what: "the model".to_owned() };
        let Laid::Values(plan) = self.layout else { return Err(lacking().into()) };
        let plan = match (plan.storage(), options.storage) {
            (Storage::Rows | Storage::Patterns, None) => {
                let skip = |plan: Plan<'m>| if options.skip { plan } else { plan.without_skipping() };
                [Storage::Narrow, Storage::Slices].into_iter().find_map(|s| Plan::new(self.mdp, Some(s))).map(skip)
            }
            _ => Some(plan),
        };
        // Not all of it: the driver rounds what it is asked for up.
        let room = free - free / 32;
        let streaming = plan.and_then(|plan| match options.precision {
            Precision::F32 => stream::<f32>(plan, room),
            Precision::F64 | Precision::Mixed | Precision::Refined => stream::<f64>(plan, room),
        });
        let (streaming, (parts, at_a_time)) = streaming.ok_or_else(lacking)?;
        let (needed, free) = (size(needed), size(free));
        let why = format!(
            "the model takes {needed} of {free} free: streamed through in {parts} parts, {at_a_time} at a time"
        );
        Ok(Self { layout: Laid::Streamed { streaming, why }, ..self })
    }

    /// What was chosen.
    fn note(&self) -> Option<String> {
        let (prefix, storage, skips) = match &self.layout {
            Laid::Policies(_) | Laid::Results => return None,
            Laid::Blocks(division) => return division.note(),
            Laid::Values(plan) => ("the model is".to_owned(), plan.storage(), plan.skips()),
            Laid::Streamed { streaming, why } => (format!("{why},"), streaming.storage(), streaming.skips()),
        };
        let skipping = if skips { ", passing over states that cannot have changed" } else { "" };
        Some(format!("{prefix} stored as {storage}{skipping}"))
    }

    /// Whether offsets into the model, or into any P^π, need 64 bits. Kernels look a few rows of a slice beyond an offset
    /// before they compare it with the end, and that must not wrap around.
    fn is_wide(&self) -> bool {
        match &self.layout {
            Laid::Values(plan) => plan.is_wide(),
            Laid::Results => self.mdp.transitions.nnz().max(self.mdp.rows()) > u32::MAX as usize,
            Laid::Blocks(division) => division.is_wide(),
            Laid::Streamed { streaming, .. } => streaming.is_wide(),
            Laid::Policies(layout) => {
                let elements = layout.capacity(self.mdp).max(self.mdp.transitions.nnz()).max(self.mdp.rows());
                elements > u32::MAX as usize - 1024
            }
        }
    }

    /// Bytes of device memory that it takes.
    fn bytes(&self, precision: Precision) -> u64 {
        fn of<T: Precise, O: Offset>(prepared: &Prepared) -> u64 {
            match (&prepared.layout, prepared.method) {
                (Laid::Values(plan), _) => plan.bytes::<T, O>(),
                (Laid::Results, _) => ResultIteration::<T, O, Emulator>::bytes(prepared.mdp),
                (Laid::Blocks(division), _) => division.bytes::<T, O>(),
                (Laid::Streamed { streaming, .. }, _) => streaming.bytes::<T>(),
                (Laid::Policies(_), Method::Plain) => Plain::<T, O, Emulator>::bytes(prepared.mdp),
                (Laid::Policies(layout), Method::Krylov) => System::<O, Emulator>::bytes(prepared.mdp, *layout),
                (Laid::Policies(layout), _) => Projected::<T, O, Emulator>::bytes(prepared.mdp, *layout),
            }
        }
        let (f32s, f64s) = match self.is_wide() {
            false => (of::<f32, u32>(self), of::<f64, u32>(self)),
            true => (of::<f32, u64>(self), of::<f64, u64>(self)),
        };
        match precision {
            Precision::F32 => f32s,
            Precision::F64 => f64s,
            Precision::Mixed | Precision::Refined => match self.layout {
                Laid::Values(_) if precision == Precision::Refined => f32s,
                // What one launch cannot convert is uploaded twice.
                Laid::Values(_) if self.is_wide() => f32s + f64s,
                Laid::Values(ref plan) => f32s + f64s - plan.shared_bytes::<u32>(),
                _ => f64s,
            },
        }
    }

    /// Brings it to a device and does the job.
    fn run<D: Device, J: Job>(
        &self,
        device: &D,
        precision: Precision,
        start: Instant,
        job: J,
    ) -> Result<(J::Result, Duration), SolveError>
    where
        SolveError: From<D::Error>,
    {
        match (precision, self.is_wide()) {
            (Precision::F32, false) => self.typed::<f32, u32, D, J>(device, start, job),
            (Precision::F32, true) => self.typed::<f32, u64, D, J>(device, start, job),
            (Precision::F64, false) => self.typed::<f64, u32, D, J>(device, start, job),
            (Precision::F64, true) => self.typed::<f64, u64, D, J>(device, start, job),
            (Precision::Mixed, false) => self.mixed::<u32, D, J>(device, start, job),
            (Precision::Mixed, true) => self.mixed::<u64, D, J>(device, start, job),
            (Precision::Refined, false) => self.refined::<u32, D, J>(device, start, job),
            (Precision::Refined, true) => self.refined::<u64, D, J>(device, start, job),
        }
    }

    fn typed<T: Precise, O: Offset, D: Device, J: Job>(
        &self,
        device: &D,
        start: Instant,
        job: J,
    ) -> Result<(J::Result, Duration), SolveError>
    where
        SolveError: From<D::Error>,
    {
        match (&self.layout, self.method) {
            (Laid::Values(plan), _) => timed(start, Values::<T, O, D>::new(device, plan), |b| job.values(b)),
            (Laid::Streamed { streaming, .. }, _) => {
                timed(start, Streamed::<T, O, D>::new(device, streaming), |b| job.values(b))
            }
            (Laid::Results, _) => timed(start, ResultIteration::<T, O, D>::new(device, self.mdp), |b| job.values(b)),
            (Laid::Blocks(division), _) => {
                timed(start, BlockIteration::<T, O, D>::new(device, self.mdp, division), |b| job.values(b))
            }
            (Laid::Policies(_), Method::Plain) => {
                timed(start, Plain::<T, O, D>::new(device, self.mdp), |b| job.policies(b))
            }
            (Laid::Policies(layout), Method::Krylov) => {
                let system = System::<O, D>::new(device, self.mdp, *layout);
                timed(start, system.and_then(Krylov::new), |b| job.policies(b))
            }
            (Laid::Policies(layout), Method::Modified) => {
                timed(start, Projected::<T, O, D>::new(device, self.mdp, *layout), |b| job.modified(b))
            }
            (Laid::Policies(layout), _) => {
                timed(start, Projected::<T, O, D>::new(device, self.mdp, *layout), |b| job.policies(b))
            }
        }
    }

    fn mixed<O: Offset, D: Device, J: Job>(
        &self,
        device: &D,
        start: Instant,
        job: J,
    ) -> Result<(J::Result, Duration), SolveError>
    where
        SolveError: From<D::Error>,
    {
        match &self.layout {
            Laid::Values(plan) => timed(start, Mixed::<O, D>::new(device, plan), |b| job.values(b)),
            // All else is in one precision.
            _ => self.typed::<f64, O, D, J>(device, start, job),
        }
    }

    fn refined<O: Offset, D: Device, J: Job>(
        &self,
        device: &D,
        start: Instant,
        job: J,
    ) -> Result<(J::Result, Duration), SolveError>
    where
        SolveError: From<D::Error>,
    {
        match &self.layout {
            Laid::Values(plan) => {
                let backend = Values::<f32, O, D>::new(device, plan);
                timed(start, backend.map(|backend| Refined::new(backend, self.mdp)), |b| job.values(b))
            }
            _ => self.typed::<f64, O, D, J>(device, start, job),
        }
    }
}

fn on_cpu<T: Precise, J: Job>(
    mdp: &Mdp,
    method: Method,
    options: &SolveOptions,
    start: Instant,
    job: J,
) -> Result<(J::Result, Duration), SolveError> {
    let storage = match options.storage {
        None => cpu::Storage::Auto,
        Some(Storage::Rows | Storage::Slices) => cpu::Storage::Plain,
        Some(Storage::Narrow) => cpu::Storage::Packed,
        Some(Storage::Patterns) => cpu::Storage::Patterns,
    };
    let with = |order| cpu::EngineOptions { storage, order, skip: options.skip };
    let engine = |order| cpu::Engine::<T>::new(mdp, with(order));
    match method {
        Method::Serial => timed(start, Ok::<_, Infallible>(cpu::Serial::<T>::new(mdp)), |b| job.policies(b)),
        Method::Sequential => timed(start, Ok::<_, Infallible>(cpu::Sequential::<T>::new(mdp)), |b| job.values(b)),
        Method::Values => timed(start, Ok::<_, Infallible>(engine(cpu::Order::Jacobi)), |b| job.values(b)),
        Method::GaussSeidel => timed(start, Ok::<_, Infallible>(engine(cpu::Order::BLOCKS)), |b| job.values(b)),
        Method::Modified => timed(start, Ok::<_, Infallible>(engine(cpu::Order::Jacobi)), |b| job.modified(b)),
        Method::Krylov => {
            let engine = cpu::Engine::new(mdp, with(cpu::Order::Jacobi));
            timed(start, Krylov::new(cpu::System::new(engine)), |b| job.policies(b))
        }
        _ => timed(start, Ok::<_, Infallible>(cpu::Parallel::<T>::new(mdp)), |b| job.policies(b)),
    }
}

/// Sweeps in 32 bits on the CPU, refined.
fn refined_on_cpu<J: Job>(
    mdp: &Mdp,
    options: &SolveOptions,
    start: Instant,
    job: J,
) -> Result<(J::Result, Duration), SolveError> {
    let storage = match options.storage {
        None | Some(Storage::Narrow) => cpu::Storage::Packed,
        Some(Storage::Rows | Storage::Slices) => cpu::Storage::Plain,
        Some(storage @ Storage::Patterns) => return Err(SolveError::Shared(storage)),
    };
    let order = cpu::Order::Jacobi;
    let engine = cpu::Engine::<f32>::new(mdp, cpu::EngineOptions { storage, order, skip: options.skip });
    timed(start, Ok::<_, Infallible>(Refined::new(engine, mdp)), |b| job.values(b))
}

/// What `job` does with a backend whose making began at `start`, and how long that took.
fn timed<B: State, R>(
    start: Instant,
    backend: Result<B, B::Error>,
    job: impl FnOnce(B) -> Result<R, SolveError>,
) -> Result<(R, Duration), SolveError>
where
    SolveError: From<B::Error>,
{
    let backend = backend?;
    let setup = start.elapsed();
    Ok((job(backend)?, setup))
}
