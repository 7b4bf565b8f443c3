//! Models as Rust code: V and π are in memory, P and R are a function.
//!
//! [`solve_model`] runs greedy sweeps straight from the outcomes of a [`Model`] and certifies V, on all cores, on GPUs or
//! under the emulator. Where V fits and P does not, there is no other way; where P fits, too, a sparse model may
//! be faster, and `auto` measures which.
//!
//! The kernels of a model are compiled in the crate of the model: `warpkov new NAME --model` writes one.

pub mod many;
mod sparse;

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};
use warpkov_runtime::device::AnyDevice;

use rayon::prelude::*;
pub use warpkov_kernels::mdp::matrix_free::{Compiled, END, Measured, Outcomes, SUM_TOLERANCE, Sums};
pub use warpkov_kernels::mdp::{Events, Model, Table};

use self::sparse::{Speed, Switch};
pub use self::sparse::{reachable, sparse};
use crate::backend::{Attempt, Measure, Stop};
use crate::backends::code;
use crate::certificate::{Certificate, Extremes};
use crate::error::SolveError;
use crate::options::{Limits, Method, Precision, SolveOptions, Target};
use crate::solution::{Run, Solution, Status};
use crate::solve::certify::{Attempts, ended};
use crate::solve::loops::value_iteration;
use crate::solve::{Observer, Session};
use warpkov_common::choice::choice;
use warpkov_runtime::choose::{Decision, DeviceChoice};
use warpkov_runtime::comm::{Communicator, Local};
use warpkov_runtime::gpu::{Gpu, Modules};
use warpkov_runtime::{cores, emulator};

choice! {
    /// What a model as code is solved from.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Representation {
        /// The outcomes at first. Once they have taken as long as the making of a sparse model would, and the rest is expected
        /// to take longer than making and sweeping it, the sparse model. A note says why.
        #[default]
        Auto = "auto",
        /// The outcomes.
        Code = "code",
        /// A sparse model made of the outcomes: more memory, and no computation of outcomes in a sweep.
        Sparse = "sparse",
    }
}

/// Options of [`solve_model`].
#[derive(Clone, Copy)]
pub struct ModelOptions {
    /// The compiled kernels of the model's crate, `warpkov_cuda::modules!()`; `None` without GPUs.
    pub modules: Option<&'static Modules>,
    /// Device.
    pub device: DeviceChoice,
    /// Floating-point type of V in sweeps: [`F32`](Precision::F32), [`F64`](Precision::F64), or
    /// [`Mixed`](Precision::Mixed), f32 and then f64. Outcomes are always computed and added in f64.
    pub precision: Precision,
    /// [`Values`](Method::Values), or on the CPU [`GaussSeidel`](Method::GaussSeidel). `None` is value iteration, but
    /// Gauss-Seidel on the CPU where the process may end: a process that never ends is stopped at the span of the change,
    /// which falls faster in value iteration.
    pub method: Option<Method>,
    /// What to solve from.
    pub representation: Representation,
    /// Stopping limits; those of policies have no effect.
    pub limits: Limits,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            modules: None,
            device: DeviceChoice::Auto,
            precision: Precision::F64,
            method: None,
            representation: Representation::default(),
            limits: Limits::default(),
        }
    }
}

/// Result of [`solve_model`].
#[derive(Clone, Debug)]
pub struct ModelSolution {
    /// V, one entry per state; on ranks after the first, none.
    pub values: Vec<f64>,
    /// π, one action per state, [`NO_ACTION`](crate::model::NO_ACTION) for states without actions; on ranks after the
    /// first, none.
    pub policy: Vec<u32>,
    /// Record of the loop.
    pub run: Run,
    /// Guarantee on `values`.
    pub certificate: Certificate,
    /// The method used.
    pub method: Method,
    /// What the model was solved from.
    pub representation: Representation,
    /// The device used.
    pub device: String,
    /// Automatic choices, with reasons.
    pub notes: Vec<String>,
    /// Time of everything: checks, sweeps, certificates, transfers.
    pub elapsed: Duration,
}

impl ModelSolution {
    /// The solution of a sparse model.
    pub(crate) fn of_sparse(solved: Solution, elapsed: Duration) -> Self {
        let Solution { values, policy, run, certificate, method, device, notes, .. } = solved;
        let representation = Representation::Sparse;
        Self { values, policy, run, certificate, method, representation, device, notes, elapsed }
    }

    /// Whether the target was reached, as [`Solution::converged`].
    #[must_use]
    pub fn converged(&self, limits: &Limits) -> bool {
        match limits.target {
            Target::Epsilon(epsilon) => self.certificate.proves(epsilon),
            Target::Theta(_) => self.run.status == Status::Solved,
        }
    }
}

/// Solves a discounted model and certifies the result: ‖V − V*‖∞ ≤ ε.
///
/// # Errors
/// [`SolveError::Model`] for a model whose probabilities, successors or rewards are wrong, with the state and the action;
/// [`SolveError::Undiscounted`] for γ outside of \[0, 1); a method, precision or device that does not fit; and those of the
/// device.
pub fn solve_model<M: Compiled>(model: &M, options: &ModelOptions) -> Result<ModelSolution, SolveError> {
    solve_model_on_ranks(&Local::alone(), model, options, &mut |_| ControlFlow::Continue(()))
}

/// [`solve_model`] on all ranks of `comm`. Every rank has V of all states, and backs up a part of them. `observe` is called
/// after every round of sweeps.
///
/// # Errors
/// As for [`solve_model`], and if a rank fails.
pub fn solve_model_on_ranks<M: Compiled>(
    comm: &dyn Communicator,
    model: &M,
    options: &ModelOptions,
    observe: Observer,
) -> Result<ModelSolution, SolveError> {
    let begun = Instant::now();
    let gamma = model.gamma();
    if !(0.0..1.0).contains(&gamma) {
        return Err(SolveError::Undiscounted);
    }
    if model.states() == 0 {
        return Err(SolveError::Model("the model has no states, expected at least 1".to_owned()));
    }
    // V and its next iterate.
    let fits =
        usize::try_from(model.states()).is_ok_and(|states| Vec::<[f64; 2]>::new().try_reserve_exact(states).is_ok());
    if !fits {
        return Err(SolveError::Model(format!("V of {} states does not fit in memory", model.states())));
    }
    let kernels = !matches!(options.device, DeviceChoice::Cpu);
    match (options.precision, options.method) {
        (Precision::Refined, _) => {
            return Err(SolveError::Model("precision refined needs a sparse model: expected f32, f64 or mixed".into()));
        }
        (_, None | Some(Method::Values)) => {}
        (_, Some(Method::GaussSeidel)) if !kernels || options.device == DeviceChoice::Auto => {}
        (_, Some(method)) => {
            let instead = "models as code run value iteration, on the CPU also gauss-seidel";
            return Err(SolveError::Unsupported { method, device: options.device, instead });
        }
    }
    let mut solve = Solve { comm, model, options, observe, notes: Vec::new(), begun, switch: None, interval: None };
    match options.representation {
        Representation::Sparse if comm.size() > 1 => {
            return Err(SolveError::Model("representation sparse works on one rank".to_owned()));
        }
        Representation::Sparse => return solve.by_sparse(options.device, None, Run::default()),
        Representation::Auto | Representation::Code => {}
    }
    let (decision, note) = match options.method {
        Some(Method::GaussSeidel) => (Decision::Cpu, None),
        _ => Decision::new(options.device, None),
    };
    solve.notes.extend(note);
    match decision {
        Decision::Cpu => solve.on_cpu(),
        // Times of the emulator say nothing of a GPU.
        Decision::Emulated => solve.on_device(&emulator().into()),
        Decision::Gpu { ordinal, or_cpu } => match solve.open(ordinal) {
            Ok(gpu) => {
                solve.may_switch(DeviceChoice::Cuda(ordinal), Speed::GPU);
                solve.on_device(&gpu.into())
            }
            Err(error) if or_cpu => {
                solve.notes.push(format!("auto chose the CPU: {error}"));
                solve.on_cpu()
            }
            Err(error) => Err(error),
        },
    }
}

/// A solve on its way.
struct Solve<'s, M> {
    comm: &'s dyn Communicator,
    model: &'s M,
    options: &'s ModelOptions,
    observe: Observer<'s>,
    notes: Vec<String>,
    begun: Instant,
    /// When to go on with a sparse model; `None` for never.
    switch: Option<Switch>,
    /// Contains all values of V*, in the maximisation form.
    interval: Option<[f64; 2]>,
}

impl<M: Compiled> Solve<'_, M> {
    fn open(&self, ordinal: u32) -> Result<Gpu, SolveError> {
        let missing = || SolveError::Model("GPUs need the compiled kernels of the model: set `modules`".to_owned());
        Ok(Gpu::open(ordinal, self.options.modules.ok_or_else(missing)?)?)
    }

    /// Lets `auto` go on with a sparse model on this device.
    fn may_switch(&mut self, device: DeviceChoice, speed: Speed) {
        let may = self.options.representation == Representation::Auto && self.comm.size() == 1;
        self.switch = may.then(|| Switch::new(device, speed, &self.options.limits));
    }

    /// The states of each rank: about equally many.
    fn parts(&self) -> Vec<Range<usize>> {
        let (states, ranks) = (u128::from(self.model.states()), u128::from(self.comm.size()));
        let border = |rank: u32| (states * u128::from(rank) / ranks) as usize;
        (0..self.comm.size()).map(|rank| border(rank)..border(rank + 1)).collect()
    }

    fn on_cpu(&mut self) -> Result<ModelSolution, SolveError> {
        self.may_switch(DeviceChoice::Cpu, Speed::of_cores(rayon::current_num_threads()));
        let gauss_seidel = self.options.method.map(|method| method == Method::GaussSeidel);
        let part = &self.parts()[self.comm.rank() as usize];
        let own = part.start as u64..part.end as u64;
        let (comm, model) = (self.comm, *self.model);
        self.run(
            Method::GaussSeidel,
            cores::all(),
            || Ok(code::cpu::MatrixFree::<M, f32>::new(comm, model, own.clone(), gauss_seidel)),
            || Ok(code::cpu::MatrixFree::<M, f64>::new(comm, model, own.clone(), gauss_seidel)),
        )
    }

    fn on_device(&mut self, device: &AnyDevice) -> Result<ModelSolution, SolveError> {
        let (comm, model, parts, states) = (self.comm, *self.model, self.parts(), self.model.states());
        let own = parts[comm.rank() as usize].len() as u64;
        self.run(
            Method::Values,
            device.name(),
            || {
                device.reserve(2 * 4 * states + 4 * own, "V")?;
                code::device::MatrixFree::<M, f32>::new(device, comm, model, parts.clone())
            },
            || {
                device.reserve(2 * 8 * states + 4 * own, "V")?;
                code::device::MatrixFree::<M, f64>::new(device, comm, model, parts.clone())
            },
        )
    }

    /// Runs the sweeps in the precision of the options.
    fn run<F: Measure<Error = SolveError>, E: Measure<Error = SolveError>>(
        &mut self,
        method: Method,
        device: String,
        fast: impl FnOnce() -> Result<F, SolveError>,
        exact: impl FnOnce() -> Result<E, SolveError>,
    ) -> Result<ModelSolution, SolveError> {
        if self.options.precision == Precision::F64 {
            let mut backend = exact()?;
            let measured = self.first_measured(&mut backend)?;
            let method = self.method(method, &measured);
            return self.until_certified(method, device, &mut backend, measured, Run::default());
        }
        let mut backend = fast()?;
        let measured = self.first_measured(&mut backend)?;
        let method = self.method(method, &measured);
        if self.options.precision == Precision::F32 {
            return self.until_certified(method, device, &mut backend, measured, Run::default());
        }
        let (stop, limits) = (self.stop(&measured, Attempt::FIRST), self.options.limits);
        let run = self.sweeps(&mut backend, stop, &limits)?;
        if let Some(solution) = self.switched(&mut backend, &run)? {
            return Ok(solution);
        }
        if run.status == Status::Interrupted {
            return self.certified(method, device, &mut backend, run);
        }
        let start = backend.values()?;
        drop(backend);
        let mut backend = exact()?;
        backend.reset(Some(&start))?;
        drop(start);
        self.until_certified(method, device, &mut backend, measured, run)
    }

    /// The method by which these backends sweep, Gauss-Seidel only where the change of V is bounded.
    fn method(&self, method: Method, measured: &Measured) -> Method {
        match (self.options.method, self.stop(measured, Attempt::FIRST)) {
            (None, Stop::Span(_)) => Method::Values,
            (chosen, _) => chosen.unwrap_or(method),
        }
    }

    /// Sweeps until the rule is met, a limit is reached, or a sparse model is expected to be faster.
    fn sweeps<B: Measure<Error = SolveError>>(
        &mut self,
        backend: &mut B,
        stop: Stop,
        limits: &Limits,
    ) -> Result<Run, SolveError> {
        let Self { model, switch, observe, .. } = self;
        value_iteration(backend, stop, limits, |run, backend| {
            let wanted = switch.as_mut().is_some_and(|switch| switch.wanted(*model, stop, backend.change(), run));
            let round = run.rounds.last().filter(|_| !wanted);
            Ok(round.map_or(ControlFlow::Break(()), &mut *observe))
        })
    }

    /// The solution by a sparse model after these sweeps, if it is expected to be faster.
    fn switched<B: Measure<Error = SolveError>>(
        &mut self,
        backend: &mut B,
        run: &Run,
    ) -> Result<Option<ModelSolution>, SolveError> {
        let Some(switch) = &mut self.switch else { return Ok(None) };
        let (Some(why), device) = (switch.why.take(), switch.device) else { return Ok(None) };
        self.notes.push(why);
        let mut start = backend.values()?;
        let sign = if M::MINIMIZE { -1.0 } else { 1.0 };
        start.par_iter_mut().for_each(|value| *value *= sign);
        Ok(Some(self.by_sparse(device, Some(&start), run.clone())?))
    }

    /// What a certificate needs of all ranks, after a check of all outcomes. π becomes the greedy policy.
    fn measured(&self, backend: &mut dyn Measure<Error = SolveError>) -> Result<Measured, SolveError> {
        let all = self.comm.gather(&backend.measure()?.slots())?;
        let of_rank = |slots: Vec<u64>| slots.try_into().map_or(Measured::NONE, |slots| Measured::of_slots(&slots));
        let found = all.into_iter().map(of_rank).fold(Measured::NONE, Measured::and);
        if found.wrong < u64::MAX {
            return Err(SolveError::Model(why_wrong(self.model, &self.model.table(), found.wrong)));
        }
        Ok(found)
    }

    /// [`measured`](Self::measured) of V = 0, from which the interval of all values of V* follows.
    fn first_measured(&mut self, backend: &mut dyn Measure<Error = SolveError>) -> Result<Measured, SolveError> {
        let measured = self.measured(backend)?;
        self.interval = extremes(&measured).interval(self.model.gamma());
        Ok(measured)
    }

    /// The stopping rule of an attempt.
    fn stop(&self, measured: &Measured, attempt: Attempt) -> Stop {
        match self.options.limits.target {
            Target::Theta(theta) => Stop::Change(theta),
            Target::Epsilon(epsilon) => attempt.stop(self.model.gamma(), epsilon, !measured.ends),
        }
    }

    /// Sweeps until V is certified.
    fn until_certified<B: Measure<Error = SolveError>>(
        &mut self,
        method: Method,
        device: String,
        backend: &mut B,
        measured: Measured,
        earlier: Run,
    ) -> Result<ModelSolution, SolveError> {
        let limits = self.options.limits;
        let (mut attempts, mut all, mut found) = (Attempts::new(limits.target, Attempt::FIRST), earlier, measured);
        let certified = loop {
            let stop = self.stop(&found, attempts.current());
            let run = self.sweeps(backend, stop, &all.left(Method::Values, &limits))?;
            found = self.measured(backend)?;
            let certified = extremes(&found).certified(self.model.gamma(), limits.target);
            let status = run.status;
            all.append(run);
            if !attempts.again(status, &certified.0) {
                break certified;
            }
        };
        if let Some(solution) = self.switched(backend, &all)? {
            return Ok(solution);
        }
        self.solution(method, device, backend, all, certified)
    }

    /// The solution with V as it is.
    fn certified<B: Measure<Error = SolveError>>(
        &mut self,
        method: Method,
        device: String,
        backend: &mut B,
        run: Run,
    ) -> Result<ModelSolution, SolveError> {
        let (certificate, shift) = extremes(&self.measured(backend)?).centred(self.model.gamma());
        self.solution(method, device, backend, run, (certificate, shift))
    }

    fn solution<B: Measure<Error = SolveError>>(
        &mut self,
        method: Method,
        device: String,
        backend: &mut B,
        mut run: Run,
        (mut certificate, shift): (Certificate, f64),
    ) -> Result<ModelSolution, SolveError> {
        let target = self.options.limits.target;
        run.status = ended(run.status, &certificate, target);
        let interval = self.interval.filter(|_| !matches!(run.status, Status::Solved | Status::Overflow));
        if let Some([low, high]) = interval {
            certificate.bound = Some(certificate.bound.map_or(high - low, |bound| bound.min(high - low)));
            run.status = ended(run.status, &certificate, target);
        }
        let policy = self.comm.collect(&backend.policy()?)?;
        let sign = if M::MINIMIZE { -1.0 } else { 1.0 };
        let mut values = if self.comm.rank() == 0 { backend.values()? } else { Vec::new() };
        let [low, high] = interval.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        values.par_iter_mut().for_each(|value| *value = sign * (*value + shift).clamp(low, high) + 0.0);
        Ok(ModelSolution {
            values,
            policy,
            run,
            certificate,
            method,
            representation: Representation::Code,
            device,
            notes: std::mem::take(&mut self.notes),
            elapsed: self.begun.elapsed(),
        })
    }

    /// The solution by a sparse model, from V = `start`, after `earlier` sweeps of the code.
    fn by_sparse(
        &mut self,
        device: DeviceChoice,
        start: Option<&[f64]>,
        earlier: Run,
    ) -> Result<ModelSolution, SolveError> {
        let mdp = sparse(self.model)?;
        let options = SolveOptions {
            device,
            precision: self.options.precision,
            method: self.options.method,
            limits: self.options.limits,
            ..SolveOptions::default()
        };
        let session = Session { initial: start.into(), observe: Some(&mut *self.observe), ..Session::default() };
        let solved = crate::solve::Solve::new(&mdp, &options).session(session).run()?;
        let mut solution = ModelSolution::of_sparse(solved, self.begun.elapsed());
        let mut run = earlier;
        run.append(std::mem::take(&mut solution.run));
        solution.run = run;
        solution.notes.splice(0..0, std::mem::take(&mut self.notes));
        Ok(solution)
    }
}

/// What a certificate needs.
pub(crate) fn extremes(measured: &Measured) -> Extremes {
    let [least, greatest] = measured.change;
    Extremes {
        least,
        greatest,
        magnitude: measured.magnitude,
        row_sum: [measured.going[0], measured.going[1].max(0.0)],
        length: measured.outcomes as usize,
        never_terminates: !measured.ends,
    }
}

/// What is wrong with a state.
pub(crate) fn why_wrong<M: Outcomes>(model: &M, table: &Vec<f64>, state: u64) -> String {
    let states = model.states();
    for action in 0..model.actions(table, state) {
        let sums = Sums::of_action(model, table, (state, action), |_| 0.0, |x, y, z| x * y + z);
        if sums.valid && (sums.sum - 1.0).abs() <= SUM_TOLERANCE {
            continue;
        }
        let mut wrong = None;
        model.outcomes(table, state, action, |next, probability, reward| {
            if next >= states && next != END {
                wrong.get_or_insert(format!("successor {next}, expected a state below {states}"));
            } else if !(0.0..=1.0 + SUM_TOLERANCE).contains(&probability) {
                wrong.get_or_insert(format!("probability {probability}, expected a number in [0, 1]"));
            } else if !reward.is_finite() {
                wrong.get_or_insert(format!("reward {reward}, expected a finite number"));
            }
        });
        let sum = sums.sum;
        let why =
            wrong.unwrap_or_else(|| format!("the probabilities sum to {sum}, expected 1 within {SUM_TOLERANCE:e}"));
        return format!("state {state}, action {action}: {why}");
    }
    format!("state {state}: its outcomes are wrong on the device, but not on the CPU")
}
