//! Models as Rust code: V and π are in memory, P and R are a function.
//!
//! [`solve_model`] runs greedy sweeps straight from the outcomes of a [`Model`] and certifies V, on all cores, on GPUs or
//! under the emulator. Where V fits and P does not, there is no other way; where P fits, too, a sparse model may
//! be faster, and `auto` measures which.
//!
//! The kernels of a model are compiled in the crate of the model: `warpkov new NAME --model` writes one.

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use rayon::prelude::*;
pub use warpkov_kernels::mdp::matrix_free::{Compiled, END, Measured, Outcomes, Row, SUM_TOLERANCE};
pub use warpkov_kernels::mdp::{Events, Model, Table};

use super::backend::{Measure, Stop};
use super::certificate::{Certificate, Extremes};
use super::cpu;
use super::device::{self, Linked};
use super::error::SolveError;
use super::generate::explore::{Explored, explore};
use super::model::{Choices, Csr, Mdp, MdpParts, Objective};
use super::options::{Limits, Method, Precision, SolveOptions, Target};
use super::solution::{Run, Solution, Status};
use super::solve::{Observer, change_bound, solve_with, span_stop, tighten, value_iteration};
use crate::common::choice::choice;
use crate::runtime::choose::{Decision, DeviceChoice};
use crate::runtime::comm::{Communicator, Local};
use crate::runtime::gpu::{Gpu, Modules};
use crate::runtime::{cores, emulator};

choice! {
    /// What a model as code is solved from.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Representation {
        /// The outcomes, or a sparse model, whichever is expected to take less time. The expectation comes from
        /// measurements of the model, and a note says it.
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
    /// [`Values`](Method::Values), or on the CPU [`GaussSeidel`](Method::GaussSeidel). `None` is value iteration on a
    /// device, Gauss-Seidel on the CPU.
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
    /// π, one action per state, [`NO_ACTION`](super::model::NO_ACTION) for states without actions; on ranks after the
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
    pub(super) fn of_sparse(solved: Solution, elapsed: Duration) -> Self {
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
    let mut solve = Solve { comm, model, options, observe, notes: Vec::new(), begun, bandwidth: None };
    let (decision, note) = match options.method {
        Some(Method::GaussSeidel) => (Decision::Cpu, None),
        _ => Decision::of(options.device, None),
    };
    solve.notes.extend(note);
    match decision {
        Decision::Cpu => solve.on_cpu(),
        // Times of the emulator say nothing of a GPU: without a bandwidth, there is no expectation.
        Decision::Emulated => solve.on_device(&emulator(), "the emulator".to_owned(), |_| Ok(())),
        Decision::Gpu { ordinal, or_cpu } => match solve.open(ordinal) {
            Ok(gpu) => {
                let name = gpu.name();
                solve.bandwidth = Some(GPU_BANDWIDTH);
                solve.on_device(&gpu, name, |bytes| Ok(gpu.reserve(bytes, "V")?))
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
    /// Bytes per second of a sweep over a sparse model, assumed; `None` if `auto` makes none.
    bandwidth: Option<f64>,
}

impl<M: Compiled> Solve<'_, M> {
    fn open(&self, ordinal: u32) -> Result<Gpu, SolveError> {
        let missing = || SolveError::Model("GPUs need the compiled kernels of the model: set `modules`".to_owned());
        Ok(Gpu::open(ordinal, self.options.modules.ok_or_else(missing)?)?)
    }

    /// The states of each rank: about equally many.
    fn parts(&self) -> Vec<Range<usize>> {
        let (states, ranks) = (u128::from(self.model.states()), u128::from(self.comm.size()));
        let border = |rank: u32| (states * u128::from(rank) / ranks) as usize;
        (0..self.comm.size()).map(|rank| border(rank)..border(rank + 1)).collect()
    }

    fn on_cpu(&mut self) -> Result<ModelSolution, SolveError> {
        self.bandwidth = Some(CPU_BANDWIDTH);
        let method = self.options.method.unwrap_or(Method::GaussSeidel);
        let part = &self.parts()[self.comm.rank() as usize];
        let (own, in_place) = (part.start as u64..part.end as u64, method == Method::GaussSeidel);
        let (comm, model) = (self.comm, *self.model);
        self.run(
            method,
            cores::all(),
            || Ok(cpu::MatrixFree::<M, f32>::new(comm, model, own.clone(), in_place)),
            || Ok(cpu::MatrixFree::<M, f64>::new(comm, model, own.clone(), in_place)),
        )
    }

    fn on_device<D: Linked>(
        &mut self,
        device: &D,
        name: String,
        reserve: impl Fn(u64) -> Result<(), SolveError>,
    ) -> Result<ModelSolution, SolveError>
    where
        SolveError: From<D::Error>,
    {
        let (comm, model, parts, states) = (self.comm, *self.model, self.parts(), self.model.states());
        let own = parts[comm.rank() as usize].len() as u64;
        self.run(
            Method::Values,
            name,
            || {
                reserve(2 * 4 * states + 4 * own)?;
                device::MatrixFree::<M, f32, D>::new(device, comm, model, parts.clone())
            },
            || {
                reserve(2 * 8 * states + 4 * own)?;
                device::MatrixFree::<M, f64, D>::new(device, comm, model, parts.clone())
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
            let measured = self.measured(&mut backend)?;
            return match self.by_sparse(&mut backend, &measured)? {
                Some(solution) => Ok(solution),
                None => self.until_certified(method, device, &mut backend, measured, Run::default()),
            };
        }
        let mut backend = fast()?;
        let measured = self.measured(&mut backend)?;
        if let Some(solution) = self.by_sparse(&mut backend, &measured)? {
            return Ok(solution);
        }
        if self.options.precision == Precision::F32 {
            return self.until_certified(method, device, &mut backend, measured, Run::default());
        }
        let stop = self.stop(&measured, 1.0);
        let run = value_iteration(&mut backend, stop, &self.options.limits, &mut *self.observe)?;
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

    /// The stopping rule, with ε multiplied by `fraction`.
    fn stop(&self, measured: &Measured, fraction: f64) -> Stop {
        let gamma = self.model.gamma();
        match self.options.limits.target {
            Target::Theta(theta) => Stop::Change(theta),
            Target::Epsilon(epsilon) if measured.ends => Stop::Change(change_bound(gamma, fraction * epsilon)),
            Target::Epsilon(epsilon) => span_stop(gamma, fraction * epsilon),
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
        let (gamma, limits) = (self.model.gamma(), self.options.limits);
        let epsilon = if let Target::Epsilon(epsilon) = limits.target { Some(epsilon) } else { None };
        let mut stop_of = measured;
        let (run, certificate, shift) = tighten(epsilon, |fraction| {
            let stop = self.stop(&stop_of, fraction);
            let run = value_iteration(&mut *backend, stop, &limits, &mut *self.observe)?;
            let found = self.measured(backend)?;
            stop_of = found;
            let (certificate, shift) = match epsilon {
                Some(_) => extremes(&found).centred(gamma),
                None => (extremes(&found).certificate(gamma, 0.0), 0.0),
            };
            Ok::<_, SolveError>((run, certificate, shift))
        })?;
        let mut all = earlier;
        all.append(run);
        self.solution(method, device, backend, all, (certificate, shift))
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
        (certificate, shift): (Certificate, f64),
    ) -> Result<ModelSolution, SolveError> {
        run.status = match (run.status, self.options.limits.target) {
            (Status::Interrupted, _) => Status::Interrupted,
            _ if !certificate.bellman_residual.is_finite() => Status::Overflow,
            (status, Target::Theta(_)) => status,
            (_, Target::Epsilon(epsilon)) if certificate.proves(epsilon) => Status::Solved,
            (Status::Solved, _) => Status::Stalled,
            (status, _) => status,
        };
        let policy = self.comm.collect(&backend.policy()?)?;
        let sign = if M::MINIMIZE { -1.0 } else { 1.0 };
        let mut values = if self.comm.rank() == 0 { backend.values()? } else { Vec::new() };
        values.par_iter_mut().for_each(|value| *value = sign * (*value + shift) + 0.0);
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

    /// The solution by a sparse model, if it is asked for, or expected to take less time.
    fn by_sparse<B: Measure<Error = SolveError>>(
        &mut self,
        backend: &mut B,
        measured: &Measured,
    ) -> Result<Option<ModelSolution>, SolveError> {
        let options = self.options;
        match options.representation {
            Representation::Code => return Ok(None),
            Representation::Auto if self.comm.size() > 1 => return Ok(None),
            Representation::Sparse if self.comm.size() > 1 => {
                return Err(SolveError::Model("representation sparse works on one rank".to_owned()));
            }
            Representation::Auto => match self.expectation(backend, measured)? {
                Some(note) => self.notes.push(note),
                None => return Ok(None),
            },
            Representation::Sparse => {}
        }
        let mdp = sparse(self.model)?;
        let solve = SolveOptions {
            device: options.device,
            precision: options.precision,
            method: options.method,
            limits: options.limits,
            ..SolveOptions::default()
        };
        let solved = solve_with(&mdp, &solve, &mut *self.observe)?;
        let mut solution = ModelSolution::of_sparse(solved, self.begun.elapsed());
        solution.notes.splice(0..0, std::mem::take(&mut self.notes));
        Ok(Some(solution))
    }

    /// The note of why a sparse model is expected to take less time; `None` if it is not. V is 0 afterwards.
    ///
    /// A few sweeps are timed, and so is the making of some rows. A sweep over a sparse model is taken to be bound by
    /// memory.
    fn expectation<B: Measure<Error = SolveError>>(
        &mut self,
        backend: &mut B,
        measured: &Measured,
    ) -> Result<Option<String>, SolveError> {
        let (model, states) = (self.model, self.model.states());
        let Some(bandwidth) = self.bandwidth.filter(|_| states <= MOST_SPARSE) else { return Ok(None) };
        // The first sweep may have to load the kernel.
        let trial = |backend: &mut B| backend.backup(Stop::Change(0.0), TRIAL);
        let first = trial(backend)?;
        let begun = Instant::now();
        trial(backend)?;
        let sweep = begun.elapsed().as_secs_f64() / f64::from(TRIAL);
        backend.reset(None)?;

        let begun = Instant::now();
        let (sample, table) = (states.min(SAMPLE), model.table());
        let row = |at: u64| rows_of_state(model, &table, states * at / sample).0.len() as u64;
        let found: u64 = (0..sample).into_par_iter().map(row).sum();
        let (of_sample, scale) = (begun.elapsed().as_secs_f64(), states as f64 / sample as f64);
        let transitions = found as f64 * scale;
        let (bytes, make) = (transitions * BYTES, of_sample * scale);
        if bytes > MOST_BYTES {
            return Ok(None);
        }
        let sweeps = match self.stop(measured, 1.0) {
            stop if first.residual() > 0.0 => {
                let sweeps = (stop.bound() / first.residual()).ln() / model.gamma().ln();
                sweeps.clamp(1.0, f64::from(self.options.limits.max_sweeps))
            }
            _ => 1.0,
        };
        let (code, sparse) = (sweeps * sweep, make + bytes / COPY_BANDWIDTH + sweeps * bytes / bandwidth);
        if sparse > code {
            return Ok(None);
        }
        Ok(Some(format!(
            "auto chose a sparse model: {code:.2} s expected from the code ({sweeps:.0} sweeps of {:.0} µs), {sparse:.2} s \
             with {:.1} MB of transitions",
            1e6 * sweep,
            bytes / 1e6
        )))
    }
}

/// Most states of a sparse model made of code.
const MOST_SPARSE: u64 = u32::MAX as u64 - 1;
/// Sweeps that are timed.
const TRIAL: u32 = 4;
/// States whose rows are timed.
const SAMPLE: u64 = 4096;
/// Bytes of a transition: a column and a probability.
const BYTES: f64 = 12.0;
/// Most bytes of transitions of a sparse model that `auto` makes.
const MOST_BYTES: f64 = 16e9;
/// Bytes per second of a sweep over a sparse model, assumed.
const GPU_BANDWIDTH: f64 = 2e12;
/// The same on a CPU.
const CPU_BANDWIDTH: f64 = 1e10;
/// Bytes per second of a copy to a device, assumed.
const COPY_BANDWIDTH: f64 = 1e10;

/// What a certificate needs.
pub(super) fn extremes(measured: &Measured) -> Extremes {
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
pub(super) fn why_wrong<M: Outcomes>(model: &M, table: &Vec<f64>, state: u64) -> String {
    let states = model.states();
    for action in 0..model.actions(table, state) {
        let row = Row::of(model, table, (state, action), |_| 0.0);
        if row.valid {
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
        let sum = row.sum;
        let why =
            wrong.unwrap_or_else(|| format!("the probabilities sum to {sum}, expected 1 within {SUM_TOLERANCE:e}"));
        return format!("state {state}, action {action}: {why}");
    }
    format!("state {state}: its outcomes are wrong on the device, but not on the CPU")
}

/// Transitions of the rows of a state, rewards and end probabilities of its rows, and the end of each row.
type RowsOfState = (Vec<(u32, f64)>, Vec<(f64, f64, usize)>);

/// The rows of a state: successors ascending, each once.
fn rows_of_state<M: Outcomes>(model: &M, table: &Vec<f64>, state: u64) -> RowsOfState {
    let (mut entries, mut rows) = (Vec::new(), Vec::new());
    for action in 0..model.actions(table, state) {
        let start = entries.len();
        let (mut reward, mut end) = (0.0, 0.0);
        model.outcomes(table, state, action, |next, probability, earned| {
            reward += probability * earned;
            match next {
                END => end += probability,
                _ if probability != 0.0 => entries.push((next as u32, probability)),
                _ => {}
            }
        });
        let mut row = entries.split_off(start);
        row.sort_by_key(|entry| entry.0);
        for (next, probability) in row {
            match entries[start..].last_mut() {
                Some(last) if last.0 == next => last.1 += probability,
                _ => entries.push((next, probability)),
            }
        }
        rows.push((reward, end, entries.len()));
    }
    (entries, rows)
}

/// The sparse model with the outcomes of all states. Its values are those of the model as code; rewards are those of
/// actions.
///
/// # Errors
/// [`SolveError::Model`] if the model has 2³² − 1 states or more, and [`SolveError::Invalid`] if it is not valid.
pub fn sparse<M: Outcomes + Sync>(model: &M) -> Result<Mdp, SolveError> {
    let states = u32::try_from(model.states()).ok().filter(|&states| u64::from(states) <= MOST_SPARSE);
    let states = states.ok_or_else(|| {
        SolveError::Model(format!("a sparse model has at most {MOST_SPARSE} states, found {}", model.states()))
    })?;
    let table = model.table();
    let of_state = |state: u32| rows_of_state(model, &table, state.into());
    let made: Vec<RowsOfState> = (0..states).into_par_iter().with_min_len(256).map(of_state).collect();
    let (mut offsets, mut row_ptr) = (vec![0], vec![0]);
    let (mut col, mut val, mut rewards, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (entries, rows) in made {
        let start = col.len();
        for (reward, end, entries) in rows {
            rewards.push(reward);
            ends.push(end);
            row_ptr.push((start + entries) as u64);
        }
        offsets.push(rewards.len() as u64);
        for (next, probability) in entries {
            col.push(next);
            val.push(probability);
        }
    }
    if ends.iter().all(|&end| end == 0.0) {
        ends.clear();
    }
    let parts = MdpParts {
        states,
        choices: Choices::Ragged(offsets.into()),
        gamma: model.gamma(),
        objective: if M::MINIMIZE { Objective::Minimize } else { Objective::Maximize },
        transitions: Csr::new(row_ptr, col, val).map_err(|source| SolveError::Model(source.to_string()))?,
        ends: ends.into(),
        action_rewards: rewards.into(),
        ..MdpParts::default()
    };
    Ok(parts.validated()?)
}

/// The sparse model of the states that the process reaches from `start`, and their numbers in the model as code: state 0 is
/// `start`. [`END`] is a terminal state of it.
///
/// # Errors
/// As for [`sparse`].
pub fn reachable<M: Outcomes + Sync>(model: &M, start: u64) -> Result<Explored<u64>, SolveError> {
    if start >= model.states() {
        return Err(SolveError::Model(format!("the start is state {start}, expected one below {}", model.states())));
    }
    let table = model.table();
    let found = explore(start, &[""], |&state, search| {
        if state == END {
            return;
        }
        for action in 0..model.actions(&table, state) {
            let (mut outcomes, mut reward) = (Vec::new(), 0.0);
            model.outcomes(&table, state, action, |next, probability, earned| {
                reward += probability * earned;
                outcomes.push((probability, next));
            });
            search.action(0, reward, outcomes);
        }
    });
    let Explored { states, mdp } = found.map_err(|error| SolveError::Model(error.to_string()))?;
    let objective = if M::MINIMIZE { Objective::Minimize } else { Objective::Maximize };
    let parts = MdpParts { gamma: model.gamma(), objective, action_names: None, ..mdp.into_parts() };
    Ok(Explored { states, mdp: parts.validated()? })
}
