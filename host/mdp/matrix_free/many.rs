//! Thousands of small models in one run: calibration, sensitivity, fleets of machines.
//!
//! On a device, one block solves each small model from start to certificate, in few launches for all of them; all threads
//! work together on each larger model, one after another. On the CPU, each core solves a model at a time.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Instant;
use warpkov_runtime::device::{AnyBuffer, AnyDevice};

use rayon::prelude::*;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::mdp::explicit::Explicit;
use warpkov_kernels::mdp::matrix_free::{Blocks, Compiled, MEASURED, MET, ManyLaunch, Measured, Outcomes};

use super::{ModelOptions, ModelSolution, Representation, extremes, solve_model, why_wrong};
use crate::backend::{Attempt, change_bound, quarter_of_a_second};
use crate::error::SolveError;
use crate::model::{Mdp, NO_ACTION};
use crate::options::{Limits, Method, Precision, SolveOptions, Target};
use crate::solution::{Round, Run, Status};
use crate::solve::Solve;
use crate::solve::certify::{Attempts, ended};
use warpkov_common::interrupt;
use warpkov_common::report::{Report, write_object};
use warpkov_common::terminal::escaped;
use warpkov_runtime::choose::{Decision, DeviceChoice};
use warpkov_runtime::emulator;
use warpkov_runtime::gpu::{Gpu, MODULES};

/// Most states of a model that one block solves.
const MOST_STATES: u64 = 8192;

/// Most threads of a block.
const MOST_THREADS: u64 = 256;

/// Solves models of one type, with different parameters: each as by [`solve_model`], in f64, by value iteration.
///
/// # Errors
/// As for [`solve_model`]; messages about a model begin with its number.
pub fn solve_many<M: Compiled>(models: &[M], options: &ModelOptions) -> Result<Vec<ModelSolution>, SolveError> {
    for (number, model) in models.iter().enumerate() {
        check(model).map_err(|why| of_model(number, why))?;
    }
    let code = ModelOptions { precision: Precision::F64, representation: Representation::Code, ..*options };
    let one = |number: usize, device: DeviceChoice| {
        let options = ModelOptions { device, ..code };
        solve_model(&models[number], &options).map_err(|error| of_model(number, error))
    };
    let small = |number: usize| models[number].states() <= MOST_STATES;
    let blocks = |device: &AnyDevice, small: &[usize]| {
        let with_tables: Vec<_> = small.par_iter().map(|&number| (models[number], models[number].table())).collect();
        by_blocks(device, &with_tables, &code, small)
    };
    on_device(options, models.len(), small, blocks, one)
}

/// A sparse model with a name.
#[derive(Clone)]
pub struct Named {
    /// Its name, for people.
    pub name: String,
    /// The model.
    pub mdp: Mdp,
}

/// Solves sparse models, each with its own γ: small ones by a block each, if a device is asked for; all others as by
/// [`Solve::run`].
///
/// # Errors
/// As for [`Solve::run`]; messages about a model begin with its number.
pub fn solve_many_sparse(models: &[Named], options: &SolveOptions) -> Result<Vec<ModelSolution>, SolveError> {
    let many = ModelOptions {
        modules: Some(&MODULES),
        device: options.device,
        limits: options.limits,
        representation: Representation::Sparse,
        ..ModelOptions::default()
    };
    let of_model = |number: usize, error: SolveError| match error {
        SolveError::Undiscounted => {
            SolveError::Model(format!("{}: gamma is 1, but discounted values need gamma < 1", models[number].name))
        }
        error => error,
    };
    for (number, model) in models.iter().enumerate() {
        if model.mdp.gamma() >= 1.0 {
            return Err(of_model(number, SolveError::Undiscounted));
        }
    }
    let one = |number: usize, device: DeviceChoice| -> Result<ModelSolution, SolveError> {
        let (begun, options) = (Instant::now(), SolveOptions { device, ..*options });
        let solved = Solve::new(&models[number].mdp, &options).run();
        let solved = solved.map_err(|error| of_model(number, error))?;
        Ok(ModelSolution::of_sparse(solved, begun.elapsed()))
    };
    let small = |number: usize| u64::from(models[number].mdp.states()) <= MOST_STATES;
    let blocks = |device: &AnyDevice, small: &[usize]| {
        let with_tables: Vec<_> = small.par_iter().map(|&number| explicit(&models[number].mdp)).collect();
        let mut solved = by_blocks(device, &with_tables, &many, small)?;
        for (&number, solution) in small.iter().zip(&mut solved) {
            let sign = models[number].mdp.objective().sign();
            solution.values.iter_mut().for_each(|value| *value = sign * *value + 0.0);
        }
        Ok(solved)
    };
    on_device(&many, models.len(), small, blocks, one)
}

/// A model as numbers in a table.
fn explicit(mdp: &Mdp) -> (Explicit, Vec<f64>) {
    let mdp = &*mdp.to_maximize();
    let (transitions, rows) = (mdp.transitions(), mdp.rows());
    let firsts = (0..=mdp.states() as usize).map(|state| mdp.choices().first(state) as f64);
    let ptr = transitions.row_ptr().iter().map(|&at| at as f64);
    let ends = (0..rows).map(|row| mdp.end(row));
    let columns = transitions.col().iter().map(|&next| f64::from(next));
    let rewards = mdp.expected_rewards();
    let table =
        firsts.chain(ptr).chain(rewards).chain(ends).chain(columns).chain(transitions.val().iter().copied()).collect();
    let model = Explicit {
        states: mdp.states().into(),
        rows: rows as u64,
        transitions: transitions.nnz() as u64,
        gamma: mdp.gamma(),
    };
    (model, table)
}

/// An error with the number of its model.
fn of_model(number: usize, error: SolveError) -> SolveError {
    match error {
        SolveError::Model(why) => SolveError::Model(format!("model {number}: {why}")),
        SolveError::Undiscounted => {
            SolveError::Model(format!("model {number}: its gamma is not in [0, 1), as discounted values need"))
        }
        error => error,
    }
}

fn check<M: Outcomes>(model: &M) -> Result<(), SolveError> {
    match () {
        () if !(0.0..1.0).contains(&model.gamma()) => Err(SolveError::Undiscounted),
        () if model.states() == 0 => Err(SolveError::Model("it has no states, expected at least 1".to_owned())),
        () => Ok(()),
    }
}

/// Solves `count` models: on the CPU each by `one`, on all cores; on a device the `small` ones by `blocks`, together, and then
/// each other one by `one`.
fn on_device(
    options: &ModelOptions,
    count: usize,
    small: impl Fn(usize) -> bool,
    blocks: impl Fn(&AnyDevice, &[usize]) -> Result<Vec<ModelSolution>, SolveError>,
    one: impl Fn(usize, DeviceChoice) -> Result<ModelSolution, SolveError> + Sync,
) -> Result<Vec<ModelSolution>, SolveError> {
    if !matches!(options.method, None | Some(Method::Values)) {
        let method = options.method.unwrap_or(Method::Values);
        let instead = "many models run value iteration";
        return Err(SolveError::Unsupported { method, device: options.device, instead });
    }
    let on_cpu = |note: Option<String>| {
        let solved = (0..count).into_par_iter().map(|number| {
            let mut solution = one(number, DeviceChoice::Cpu)?;
            solution.notes.extend(note.clone());
            Ok(solution)
        });
        solved.collect()
    };
    let on_blocks = |device: &AnyDevice, name: DeviceChoice| {
        let (small, large): (Vec<_>, Vec<_>) = (0..count).partition(|&number| small(number));
        let mut solved: Vec<(usize, ModelSolution)> = small.iter().copied().zip(blocks(device, &small)?).collect();
        for number in large {
            solved.push((number, one(number, name)?));
        }
        solved.sort_by_key(|(number, _)| *number);
        Ok(solved.into_iter().map(|(_, solution)| solution).collect())
    };
    let missing = || SolveError::Model("GPUs need the compiled kernels of the model: set `modules`".to_owned());
    match Decision::new(options.device, None).0 {
        Decision::Cpu => on_cpu(None),
        Decision::Emulated => on_blocks(&emulator().into(), DeviceChoice::Emulated),
        Decision::Gpu { ordinal, or_cpu } => {
            let opened = options.modules.ok_or_else(missing).and_then(|modules| Ok(Gpu::open(ordinal, modules)?));
            match opened {
                Ok(gpu) => on_blocks(&gpu.into(), DeviceChoice::Cuda(ordinal)),
                Err(error) if or_cpu => on_cpu(Some(format!("auto chose the CPU: {error}"))),
                Err(error) => Err(error),
            }
        }
    }
}

/// The elements before each model's own, and all of them.
fn prefix(lengths: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut sum = 0;
    let ends = lengths.map(|length| {
        sum += length as u64;
        sum
    });
    std::iter::once(0).chain(ends.collect::<Vec<_>>()).collect()
}

/// What is known of a model on its way.
#[derive(Clone)]
struct Progress {
    attempts: Attempts,
    run: Run,
    measured: Measured,
    done: bool,
}

impl Progress {
    /// Takes in a launch: its `sweeps`, whether they met the bound of the attempt, and what it measured. The status of the model,
    /// and whether it is done, follow.
    fn judge(&mut self, sweeps: u32, met: bool, gamma: f64, limits: &Limits, stopped: bool, seconds: f64) {
        let residual = self.measured.change.map(f64::abs);
        let (round, residual) = (self.run.rounds.len() as u32 + 1, residual[0].max(residual[1]));
        self.run.rounds.push(Round { round, sweeps, residual, changed: None, seconds });
        let limit = match self.run.sweeps() >= limits.max_sweeps.into() {
            _ if stopped => Some(Status::Interrupted),
            true => Some(Status::SweepLimit),
            false => None,
        };
        // Without either, the launch ended for the time it took.
        let Some(status) = met.then_some(Status::Solved).or(limit) else { return };
        let (certificate, _) = extremes(&self.measured).certified(gamma, limits.target);
        let again = self.attempts.again(status, &certificate);
        // At a limit, nothing is left for the next attempt.
        self.run.status = limit.filter(|_| again).unwrap_or(status);
        self.done = !again || limit.is_some();
    }
}

/// Models in device memory, each with its table, and their V and policies.
struct Uploads {
    shape: Shape,
    /// The states before each model's own, and all of them.
    states: Vec<u64>,
    words: AnyBuffer<u64>,
    tables: AnyBuffer<f64>,
    table_ptr: AnyBuffer<u64>,
    state_ptr: AnyBuffer<u64>,
    /// Twice the states of each model: the first half is V.
    v: AnyBuffer<f64>,
    policy: AnyBuffer<u32>,
    /// The slots of each model: what a launch measured, and its sweeps.
    found: AnyBuffer<u64>,
}

impl Uploads {
    fn new<M: Blocks>(device: &AnyDevice, models: &[(M, Vec<f64>)]) -> Result<Self, SolveError> {
        let states = prefix(models.iter().map(|(model, _)| model.states() as usize));
        let table_ptr = prefix(models.iter().map(|(_, table)| table.len()));
        let mut words = Vec::with_capacity(models.len() * M::WORDS);
        models.iter().for_each(|(model, _)| model.to_words(&mut |word| words.push(word)));
        let mut tables = models.iter().flat_map(|(_, table)| table.iter().copied()).collect::<Vec<_>>();
        // A kernel's view has at least one element.
        words.resize(words.len().max(1), 0);
        tables.resize(tables.len().max(1), 0.0);
        let most = models.iter().map(|(model, _)| model.states()).max().unwrap_or(1);
        let threads = most.next_multiple_of(32).min(MOST_THREADS) as u32;
        let all = states[models.len()] as usize;
        Ok(Self {
            shape: Shape::new(models.len() as u32, threads),
            words: device.upload(&words)?,
            tables: device.upload(&tables)?,
            state_ptr: device.upload(&states)?,
            table_ptr: device.upload(&table_ptr)?,
            v: device.zeros(2 * all)?,
            policy: device.zeros(all)?,
            found: device.zeros((MEASURED + 1) * models.len())?,
            states,
        })
    }

    /// Sweeps each model until a change below its bound, `max_sweeps` times at most. Returns the slots of all models.
    fn sweep<M: Blocks>(
        &mut self,
        device: &AnyDevice,
        bounds: &[f64],
        max_sweeps: &[u32],
    ) -> Result<Vec<u64>, SolveError> {
        let launch = ManyLaunch {
            words: &self.words,
            tables: &self.tables,
            table_ptr: &self.table_ptr,
            state_ptr: &self.state_ptr,
            bounds: &device.upload(bounds)?,
            v: &mut self.v,
            policy: &mut self.policy,
            found: &mut self.found,
            max_sweeps: &device.upload(max_sweeps)?,
        };
        // SAFETY: the arrays have the shapes that the kernel's documentation asks for: one block, bound, limit and set of slots for
        // each model, and offsets that are prefix sums of the numbers of states and of the lengths of the tables.
        unsafe { M::many(device, self.shape, launch)? };
        Ok(device.to_vec(&self.found)?)
    }
}

/// Solves models, each with its table, by a block each. `numbers` are those of the models for messages.
fn by_blocks<M: Blocks>(
    device: &AnyDevice,
    models: &[(M, Vec<f64>)],
    options: &ModelOptions,
    numbers: &[usize],
) -> Result<Vec<ModelSolution>, SolveError> {
    if models.is_empty() {
        return Ok(Vec::new());
    }
    let (begun, limits) = (Instant::now(), options.limits);
    let mut uploads = Uploads::new(device, models)?;
    let attempts = Attempts::new(limits.target, Attempt::FIRST);
    let new = Progress { attempts, run: Run::default(), measured: Measured::NONE, done: false };
    let mut progress = vec![new; models.len()];
    // Launches take about a quarter of a second, so that a stop request is seen.
    let mut most_sweeps = 2u32;
    while !progress.iter().all(|progress| progress.done) {
        let bound = |((model, _), progress): (&(M, Vec<f64>), &Progress)| match limits.target {
            Target::Theta(theta) => theta,
            Target::Epsilon(epsilon) => {
                change_bound(model.gamma(), progress.attempts.current().epsilon_fraction * epsilon)
            }
        };
        let bounds = models.iter().zip(&progress).map(bound).collect::<Vec<_>>();
        let left = |progress: &Progress| match progress.done {
            true => 0,
            false => progress.run.left(Method::Values, &limits).max_sweeps.clamp(1, most_sweeps),
        };
        let max_sweeps = progress.iter().map(left).collect::<Vec<_>>();
        let launched = Instant::now();
        let slots = uploads.sweep::<M>(device, &bounds, &max_sweeps)?;
        let fit = quarter_of_a_second(most_sweeps, launched.elapsed().as_secs_f64());
        most_sweeps = fit.clamp(1.0, 64.0 * f64::from(most_sweeps)) as u32;
        let stopped = interrupt::requested();
        for (at, progress) in progress.iter_mut().enumerate().filter(|(_, progress)| !progress.done) {
            let own = &slots[at * (MEASURED + 1)..][..MEASURED + 1];
            let (model, table) = &models[at];
            progress.measured = Measured::of_slots(&std::array::from_fn(|slot| own[slot]));
            if progress.measured.wrong < u64::MAX {
                let why = SolveError::Model(why_wrong(model, table, progress.measured.wrong));
                return Err(of_model(numbers[at], why));
            }
            let (sweeps, met) = (own[MEASURED] as u32, own[MEASURED] >> MET != 0);
            progress.judge(sweeps, met, model.gamma(), &limits, stopped, begun.elapsed().as_secs_f64());
        }
    }
    solutions(device, models, &uploads, progress, options, begun)
}

/// Reads V and the policies of models that are done.
fn solutions<M: Blocks>(
    device: &AnyDevice,
    models: &[(M, Vec<f64>)],
    uploads: &Uploads,
    progress: Vec<Progress>,
    options: &ModelOptions,
    begun: Instant,
) -> Result<Vec<ModelSolution>, SolveError> {
    let (v, policy) = (device.to_vec(&uploads.v)?, device.to_vec(&uploads.policy)?);
    let (elapsed, target, name, states) = (begun.elapsed(), options.limits.target, device.name(), &uploads.states);
    let solution = |(at, Progress { mut run, measured, .. }): (usize, Progress)| {
        let own = states[at] as usize..states[at + 1] as usize;
        let (certificate, shift) = extremes(&measured).certified(models[at].0.gamma(), target);
        run.status = ended(run.status, &certificate, target);
        run.elapsed = elapsed;
        let sign = if M::MINIMIZE { -1.0 } else { 1.0 };
        let policy = policy[own.clone()].to_vec();
        let of_state = |(value, action): (&f64, &u32)| match *action {
            // A terminal state has V = 0, whatever the shift.
            NO_ACTION => 0.0,
            _ => sign * (value + shift) + 0.0,
        };
        let values = v[2 * own.start..2 * own.start + own.len()].iter().zip(&policy).map(of_state).collect();
        ModelSolution {
            values,
            policy,
            run,
            certificate,
            method: Method::Values,
            representation: options.representation,
            device: name.clone(),
            notes: Vec::new(),
            elapsed,
        }
    };
    Ok(progress.into_par_iter().enumerate().map(solution).collect())
}

/// The solutions of many sparse models, for a report.
pub struct Many<'m> {
    /// The models.
    pub models: &'m [Named],
    /// Their solutions.
    pub solutions: &'m [ModelSolution],
    /// The limits of the solves.
    pub limits: &'m Limits,
    /// Whether JSON contains values and policies.
    pub full: bool,
}

impl Many<'_> {
    /// Whether every target was reached.
    #[must_use]
    pub fn solved(&self) -> bool {
        self.solutions.iter().all(|solution| solution.converged(self.limits))
    }

    fn all(&self) -> impl Iterator<Item = (&Named, &ModelSolution)> {
        self.models.iter().zip(self.solutions)
    }

    /// Writes one CSV row per state of every model: the model's name, the state, its value and its action, by name where
    /// there are names.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(["model", "state", "value", "action"])?;
        for (Named { name, mdp }, solution) in self.all() {
            for (state, (value, &action)) in (0..).zip(solution.values.iter().zip(&solution.policy)) {
                let action = if action == NO_ACTION { String::new() } else { mdp.action_name(state, action) };
                csv.write_record([name.as_str(), &mdp.state_name(state), &format!("{value:?}"), &action])?;
            }
        }
        csv.flush()
    }
}

/// The value of the first state labelled `init`, or of state 0.
fn start(mdp: &Mdp, solution: &ModelSolution) -> (String, f64) {
    let state = mdp.labels().get("init").and_then(|states| states.first()).copied().unwrap_or_default();
    (mdp.state_name(state), solution.values[state as usize])
}

impl Report for Many<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = self.models.iter().map(|model| model.name.chars().count()).max().unwrap_or_default().max(5);
        writeln!(out, "{:<width$} {:>8} {:>7} {:>9}  V of the start", "Model", "States", "Sweeps", "V within")?;
        for (Named { name, mdp }, solution) in self.all() {
            let bound = solution.certificate.bound_text().unwrap_or_else(|| "-".to_owned());
            let (state, value) = start(mdp, solution);
            let (states, sweeps) = (mdp.states(), solution.run.sweeps());
            write!(out, "{:<width$} {states:>8} {sweeps:>7} {bound:>9}  {value} ({})", escaped(name), escaped(&state))?;
            writeln!(out, "{}", if solution.converged(self.limits) { "" } else { "  not converged" })?;
        }
        let devices: BTreeSet<_> = self.solutions.iter().map(|solution| &solution.device[..]).collect();
        let solved = self.solutions.iter().filter(|solution| solution.converged(self.limits)).count();
        writeln!(out, "{solved} of {} models solved on {}", self.models.len(), Vec::from_iter(devices).join(", "))
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let model = |(Named { name, mdp }, solution): (&Named, &ModelSolution)| {
            let (state, value) = start(mdp, solution);
            let mut object = serde_json::json!({
                "name": name,
                "states": mdp.states(),
                "gamma": mdp.gamma(),
                "status": solution.run.status,
                "sweeps": solution.run.sweeps(),
                "bound": solution.certificate.bound,
                "device": solution.device,
                "start": { "state": state, "value": value },
            });
            if self.full {
                object["values"] = solution.values.clone().into();
                let action = |&action: &u32| (action != NO_ACTION).then_some(action);
                object["policy"] = solution.policy.iter().map(action).collect::<Vec<_>>().into();
            }
            object
        };
        let models: Vec<_> = self.all().map(model).collect();
        write_object(out, &serde_json::json!({ "solved": self.solved(), "models": models }))
    }
}
