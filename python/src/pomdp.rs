//! Partially observable Markov decision processes.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warpkov_common::interrupt;
use warpkov_common::report::Report as _;
use warpkov_mdp::criterion::Criterion;
use warpkov_mdp::model::validate::Matrix as Name;
use warpkov_mdp::model::{Choices, Csr, MdpParts, Objective};
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::constrained::{self, Constraint, Part};
use warpkov_pomdp::controller::{self, Nodes, Values};
use warpkov_pomdp::criterion;
use warpkov_pomdp::io::{self, AnyPolicy, Format, Kind, Policy, PolicyGraph};
use warpkov_pomdp::model::{Invalid, Names, Pomdp as Model, PomdpParts};
use warpkov_pomdp::options::{Gap, Limits, SolveOptions};
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::report::{Limited, Reached, Solved};
use warpkov_pomdp::simulate::{Options as Extent, Simulator, check};
use warpkov_pomdp::solution::{Round, Status};
use warpkov_pomdp::solve::patience::Patience;
use warpkov_pomdp::solve::solve_with;
use warpkov_runtime::choose::DeviceChoice;

use crate::array::{Buffer, Input, Matrix, matrix};
use crate::error::{exception, invalid};
use crate::mdp::wrong;
use crate::options::choice;
use crate::wait::{detached, detached_with};
use warpkov_cli::error::Error;
use warpkov_cli::named;
use warpkov_cli::pomdp::generate::Family;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Pomdp>()?;
    module.add_class::<Controller>()?;
    module.add_function(wrap_pyfunction!(pomdp_generate, module)?)?;
    module.add_function(wrap_pyfunction!(pomdp_solve, module)?)?;
    module.add_function(wrap_pyfunction!(pomdp_reach, module)?)?;
    module.add_function(wrap_pyfunction!(pomdp_constrain, module)?)?;
    module.add_function(wrap_pyfunction!(pomdp_simulate, module)?)?;
    module.add_function(wrap_pyfunction!(pomdp_load_policy, module)?)?;
    module.add_function(wrap_pyfunction!(pomdp_save_policy, module)?)
}

/// A validated model.
#[pyclass(frozen, module = "warpkov._warpkov")]
pub struct Pomdp(Model);

/// The parts of a model beside its matrices.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Parts {
    states: u32,
    actions: u32,
    observations: u32,
    gamma: f64,
    minimize: bool,
    action_rewards: Option<Input<f64>>,
    start: Input<f64>,
    state_names: Vec<String>,
    action_names: Vec<String>,
    observation_names: Vec<String>,
}

/// The names of a format.
fn format_of(format: Option<&str>) -> PyResult<Option<Format>> {
    format.map(|name| choice("format", name)).transpose()
}

/// A belief of one probability per state.
fn belief_of(model: &Model, probs: &Input<f64>) -> PyResult<Belief> {
    let (probs, states) = (probs.as_ref(), model.states());
    if probs.len() != states as usize {
        return Err(invalid(format!("the belief has {} probabilities, expected one per state, {states}", probs.len())));
    }
    Belief::dense(probs).map_err(|error| invalid(format!("the belief {error}")))
}

#[pymethods]
impl Pomdp {
    /// A model of T and R, whose row s·A + a belongs to state s and action a, and O, whose row a·S + s' belongs to action a
    /// and next state s'. `place` is that of models of MDPs.
    #[staticmethod]
    fn from_arrays(
        py: Python<'_>,
        parts: Parts,
        transitions: Matrix,
        observations: Matrix,
        rewards: Option<Matrix>,
        place: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (row_ptr, col, val) = observations;
        let observations = Csr::new(row_ptr.kept(), col.kept(), val.kept());
        let observations = observations.map_err(|error| invalid(format!("O.{error}")))?;
        let rewards = rewards.map(|rewards| matrix(rewards, Name::R)).transpose()?.unwrap_or_default();
        let process = MdpParts {
            states: parts.states,
            choices: Choices::Uniform(parts.actions),
            gamma: parts.gamma,
            objective: if parts.minimize { Objective::Minimize } else { Objective::Maximize },
            transitions: matrix(transitions, Name::P)?,
            rewards,
            action_rewards: parts.action_rewards.map(Input::kept).unwrap_or_default(),
            ..MdpParts::default()
        };
        let start = Belief::dense(parts.start.as_ref()).map_err(|error| invalid(format!("start {error}")))?;
        let names =
            Names { states: parts.state_names, actions: parts.action_names, observations: parts.observation_names };
        let parts =
            PomdpParts { process, observation_count: parts.observations, observations, start, seen: Vec::new(), names };
        detached(py, || parts.validated())?.map(Self).map_err(|error| match &error {
            Invalid::Process(error) => wrong(error, place),
            Invalid::Probability { action, state, observation, value } => {
                let place = format!("O[{}, {}, {}]", action.number, state.number, observation.number);
                invalid(format!("{place} is {value}, expected a probability in [0, 1]"))
            }
            Invalid::Sum { action, state, sum } => {
                invalid(format!("O[{}, {}, :] sums to {sum}, expected 1", action.number, state.number))
            }
            error => invalid(error),
        })
    }

    /// Reads the bytes of [`dumps`](Self::dumps).
    #[staticmethod]
    fn loads(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        detached(py, || io::read_from(bytes, "pickle", Some(Format::Json)))?.map(Self).map_err(exception)
    }

    /// Writes bytes, in JSON.
    fn dumps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        detached(py, || io::write_to(&mut bytes, Format::Json, &self.0))??;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<Self> {
        let format = format_of(format)?;
        detached(py, || io::read(&path, format))?.map(Self).map_err(exception)
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<()> {
        let format = format_of(format)?.or(Format::of_name(&path)).unwrap_or(Format::Json);
        detached(py, || io::write(&path, format, &self.0))?.map_err(exception)
    }

    #[getter]
    fn states(&self) -> u32 {
        self.0.states()
    }

    #[getter]
    fn actions(&self) -> u32 {
        self.0.actions()
    }

    #[getter]
    fn observations(&self) -> u32 {
        self.0.observation_count()
    }

    #[getter]
    fn gamma(&self) -> f64 {
        self.0.gamma()
    }

    #[getter]
    fn minimize(&self) -> bool {
        self.0.process().objective() == Objective::Minimize
    }

    /// The belief at the start.
    #[getter]
    fn start(&self) -> Buffer {
        self.0.start().to_dense(self.0.states()).into()
    }

    /// Names of states, actions and observations; empty lists without names.
    #[getter]
    fn names(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        let Names { states, actions, observations } = self.0.names().clone();
        (states, actions, observations)
    }

    /// The belief after an action and an observation; none if the observation is impossible.
    fn update(&self, belief: Input<f64>, action: u32, observation: u32) -> PyResult<Option<Buffer>> {
        let belief = belief_of(&self.0, &belief)?;
        let (actions, observations) = (self.0.actions(), self.0.observation_count());
        if action >= actions {
            return Err(invalid(format!("action {action}, expected one below {actions}")));
        }
        if observation >= observations {
            return Err(invalid(format!("observation {observation}, expected one below {observations}")));
        }
        let after = Projection::default().update(&self.0, &belief, action, observation);
        Ok(after.map(|belief| belief.to_dense(self.0.states()).into()))
    }
}

/// Options of a solve.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    device: String,
    precision: String,
    horizon: Option<u32>,
    exact: bool,
    expansion: Option<String>,
    backups: Option<String>,
    beliefs: usize,
    trials: Option<usize>,
    companion: bool,
    seed: u64,
    gap: Option<f64>,
    relative_gap: Option<f64>,
    target: Option<f64>,
    time: Option<f64>,
    memory: Option<u64>,
    iterations: Option<u64>,
    vectors: usize,
}

/// The gap that ends a run.
fn gap_of(gap: Option<f64>, relative_gap: Option<f64>, exact: bool) -> PyResult<Gap> {
    for (name, gap) in [("gap", gap), ("relative_gap", relative_gap)] {
        if let Some(gap) = gap.filter(|gap| gap.is_nan() || *gap <= 0.0) {
            return Err(invalid(format!("{name} is {gap}, expected a number above 0")));
        }
    }
    match (gap, relative_gap) {
        (Some(_), Some(_)) => Err(invalid("expected gap or relative_gap, not both")),
        (gap, relative) => Ok(Gap::asked(gap, relative, exact)),
    }
}

/// A limit of time.
fn time_of(time: Option<f64>) -> PyResult<Option<Duration>> {
    match time {
        Some(seconds) if seconds.is_nan() || seconds <= 0.0 => {
            Err(invalid(format!("time is {seconds}, expected a number of seconds above 0")))
        }
        // A time beyond the range of `Duration` is no limit.
        time => Ok(time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())),
    }
}

/// A device by its name.
fn device_of(name: &str) -> PyResult<DeviceChoice> {
    name.parse().map_err(|error| invalid(format!("device is '{name}', {error}")))
}

impl Options {
    fn validated(self) -> PyResult<SolveOptions> {
        let (gap, time) = (gap_of(self.gap, self.relative_gap, self.exact)?, time_of(self.time)?);
        if self.horizon == Some(0) || self.beliefs == 0 || self.trials == Some(0) || self.vectors == 0 {
            return Err(invalid("horizon, beliefs, trials and vectors are at least 1"));
        }
        let device = device_of(&self.device)?;
        Ok(SolveOptions {
            device,
            precision: choice("precision", &self.precision)?,
            horizon: self.horizon,
            exact: self.exact,
            expansion: self.expansion.as_deref().map(|name| choice("expansion", name)).transpose()?,
            scheme: self.backups.as_deref().map(|name| choice("backups", name)).transpose()?,
            beliefs: self.beliefs,
            trials: self.trials,
            companion: self.companion,
            seed: self.seed,
            limits: Limits {
                gap,
                target: self.target,
                time,
                memory: self.memory,
                iterations: self.iterations,
                vectors: self.vectors,
            },
        })
    }
}

/// The values of the vectors, one after the other, their actions, and the report as JSON. Calls `slow` with the gap, once, if
/// it closes slowly.
#[pyfunction]
fn pomdp_solve(
    py: Python<'_>,
    model: &Pomdp,
    options: Options,
    slow: &Bound<'_, PyAny>,
) -> PyResult<(Buffer, Buffer, String)> {
    let options = options.validated()?;
    let mut patience = Patience::new(&options.limits);
    let (noticed, slow_gaps) = mpsc::channel();
    let mut observe = |round: &Round| {
        if patience.is_slow(round) {
            // The receiver outlives the solve.
            _ = noticed.send(round.gap());
        }
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let slow = slow.clone().unbind();
    let look = move |py: Python<'_>| slow_gaps.try_iter().try_for_each(|gap| slow.call1(py, (gap,)).map(drop));
    let solution = detached_with(py, look, || solve_with(&model.0, &options, &mut observe))?.map_err(exception)?;
    if solution.status == Status::Interrupted {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    let mut text = Vec::new();
    Solved { model: &model.0, name: "", solution: &solution }.write_json(&mut text)?;
    let (values, actions) = (solution.vectors.values().to_vec(), solution.vectors.actions().to_vec());
    Ok((values.into(), actions.into(), String::from_utf8(text)?))
}

/// Options of a run to a goal.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ToGoal {
    goal: Vec<u32>,
    rewards: bool,
    minimize: Option<bool>,
    relative_gap: Option<f64>,
    gap: Option<f64>,
    time: Option<f64>,
    iterations: Option<u64>,
    memory: Option<u64>,
    device: String,
}

/// The actions of the nodes of a controller, the node that follows node i after observation o at i·|Ω| + o, the bounds, and the report as
/// JSON.
#[pyfunction]
fn pomdp_reach(py: Python<'_>, model: &Pomdp, options: ToGoal) -> PyResult<(Buffer, Buffer, (f64, f64), String)> {
    let ToGoal { goal, rewards, minimize, relative_gap, gap, time, iterations, memory, device } = options;
    let device = device_of(&device)?;
    let limits = Limits {
        gap: gap_of(gap, relative_gap, false)?,
        time: time_of(time)?,
        iterations,
        memory,
        ..Limits::default()
    };
    let criterion = match rewards {
        true => Criterion::TotalReward { goal: Some(goal) },
        false => Criterion::Reach { goal },
    };
    let model = criterion::directed(&model.0, &criterion, minimize);
    let mut observe =
        |_: &Round| if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let found =
        detached(py, || criterion::solve(&model, &criterion, device, &limits, &mut observe))?.map_err(exception)?;
    if found.status == Status::Interrupted {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    let mut text = Vec::new();
    Reached { model: &model, criterion: &criterion, found: &found }.write_json(&mut text)?;
    let next: Vec<u32> = found.policy.next.iter().map(|next| next.unwrap_or(NO_NODE)).collect();
    let bounds = (found.lower, found.upper);
    Ok((found.policy.actions.into(), next.into(), bounds, String::from_utf8(text)?))
}

/// Options of a constrained solve.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Within {
    at_most: Option<f64>,
    at_least: Option<f64>,
    horizon: Option<u32>,
    exact: bool,
    relative_gap: Option<f64>,
    gap: Option<f64>,
    time: Option<f64>,
    memory: Option<u64>,
    seed: u64,
    device: String,
}

/// The actions of the nodes of a controller, the node that follows node i after observation o at i·|Ω| + o, and the nodes to begin in.
type Arrays = (Buffer, Buffer, Buffer);

/// The controllers of the mixture, and the report as JSON. The costs are r(s, a) at s·A + a, or the rewards of a model.
#[pyfunction]
fn pomdp_constrain(
    py: Python<'_>,
    model: &Pomdp,
    costs: Option<Input<f64>>,
    of_model: Option<&Pomdp>,
    options: Within,
) -> PyResult<(Vec<Arrays>, String)> {
    let costs = match (costs, of_model) {
        (Some(costs), _) => costs.to_vec(),
        (None, Some(other)) => {
            constrained::costs_of(&other.0, &model.0).map_err(|error| invalid(format!("costs: {error}")))?
        }
        (None, None) => Vec::new(),
    };
    let constraint = match (options.at_most, options.at_least) {
        (Some(limit), _) => Constraint::AtMost(limit),
        (None, limit) => Constraint::AtLeast(limit.unwrap_or(f64::NAN)),
    };
    let limits = Limits {
        gap: gap_of(options.gap, options.relative_gap, false)?,
        time: time_of(options.time)?,
        memory: options.memory,
        ..Limits::default()
    };
    let (device, horizon, exact, seed) = (device_of(&options.device)?, options.horizon, options.exact, options.seed);
    let options = SolveOptions { device, horizon, exact, seed, limits, ..SolveOptions::default() };
    let mut observe =
        |_: &Round| if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let model = &model.0;
    let found =
        detached(py, || constrained::solve(model, &costs, constraint, &options, &mut observe))?.map_err(exception)?;
    if found.status == Status::Interrupted {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    let mut text = Vec::new();
    Limited { model, constraint, found: &found }.write_json(&mut text)?;
    let controller = |Part { policy, .. }: Part| {
        let next: Vec<u32> = policy.next.iter().map(|next| next.unwrap_or(NO_NODE)).collect();
        (policy.actions.into(), next.into(), policy.starts.into())
    };
    Ok((found.parts.into_iter().map(controller).collect(), String::from_utf8(text)?))
}

/// The vectors of a policy that fits a model.
fn vectors_of(model: &Model, values: &Input<f64>, actions: &Input<u32>) -> PyResult<AlphaVectors> {
    let vectors = AlphaVectors::from_parts(model.states(), values.to_vec(), actions.to_vec()).map_err(invalid)?;
    check(model, &vectors).map_err(invalid)?;
    Ok(vectors)
}

/// A controller of a model, and its values.
#[pyclass(frozen, module = "warpkov._warpkov")]
pub struct Controller(controller::Controller, Values);

/// Stands for no node.
const NO_NODE: u32 = u32::MAX;

impl Controller {
    fn evaluated(py: Python<'_>, model: &Model, controller: controller::Controller) -> PyResult<Self> {
        let values = detached(py, || controller.evaluate(model, &interrupt::requested))?.map_err(invalid)?;
        Ok(Self(controller, values))
    }

    fn nodes(&self) -> std::ops::Range<u32> {
        0..self.0.len() as u32
    }
}

#[pymethods]
impl Controller {
    /// A controller of nodes with actions, successors (row i·|Ω| + o belongs to node i and observation o), and the nodes to
    /// begin in.
    #[staticmethod]
    fn from_arrays(
        py: Python<'_>,
        model: &Pomdp,
        actions: Input<u32>,
        next: Input<u32>,
        starts: Input<u32>,
    ) -> PyResult<Self> {
        let (actions, starts) = (actions.to_vec(), starts.to_vec());
        let next = next.as_ref().iter().map(|&next| Some(next).filter(|&next| next != NO_NODE)).collect();
        let numbers = (0..actions.len() as u32).collect();
        let nodes = Nodes { numbers, actions, next, starts };
        let controller = controller::Controller::new(&model.0, nodes).map_err(|error| match error.node() {
            Some(node) => invalid(format!("node {node}: {error}")),
            None => invalid(error),
        })?;
        Self::evaluated(py, &model.0, controller)
    }

    /// Reads a file. The controller begins in `node`.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, format: Option<&str>, model: &Pomdp, node: Option<u32>) -> PyResult<Self> {
        let format = format_of(format)?;
        match detached(py, || io::read_policy(&path, format, &model.0, node))?.map_err(exception)? {
            AnyPolicy::Controller(controller) => Self::evaluated(py, &model.0, controller),
            AnyPolicy::Vectors(_) => {
                Err(invalid(format!("{}: the file holds alpha vectors, expected a controller", path.display())))
            }
        }
    }

    /// Statistics of simulated episodes, as JSON.
    fn simulate(
        &self,
        py: Python<'_>,
        model: &Pomdp,
        episodes: u32,
        steps: Option<u32>,
        seed: u64,
    ) -> PyResult<String> {
        let extent = Extent { episodes, steps, seed };
        simulated(py, || Ok(Simulator::of_controller(&model.0, &self.0, &self.1, &extent)?))
    }

    /// The number that each node had before unreachable ones were left out.
    #[getter]
    fn numbers(&self) -> Buffer {
        self.nodes().map(|node| self.0.number(node)).collect::<Vec<_>>().into()
    }

    /// The action of each node.
    #[getter]
    fn actions(&self) -> Buffer {
        self.nodes().map(|node| self.0.action(node)).collect::<Vec<_>>().into()
    }

    /// The successors of each node.
    fn next(&self, model: &Pomdp) -> Buffer {
        let observations = 0..model.0.observation_count();
        let of_node = |node| observations.clone().map(move |o| self.0.next(node, o).unwrap_or(NO_NODE));
        self.nodes().flat_map(of_node).collect::<Vec<_>>().into()
    }

    /// The node to begin in for each initial belief.
    #[getter]
    fn starts(&self) -> Buffer {
        self.1.starts.clone().into()
    }

    /// The value of each node in each state.
    #[getter]
    fn values(&self) -> Buffer {
        self.1.nodes.values().to_vec().into()
    }

    /// Bounds on the value at the start.
    #[getter]
    fn bounds(&self) -> (f64, f64) {
        (self.1.lower, self.1.upper)
    }
}

/// Statistics of simulated episodes, as JSON.
fn simulated<'m>(py: Python<'_>, simulator: impl FnOnce() -> Result<Simulator<'m>, Error> + Send) -> PyResult<String> {
    let found = detached(py, || {
        let evaluation = simulator()?.evaluate(&interrupt::requested);
        Ok::<_, Error>(evaluation.ok_or(warpkov_runtime::Error::Interrupted)?)
    })?;
    serde_json::to_string(&found.map_err(exception)?).map_err(invalid)
}

/// Statistics of simulated episodes of vectors, as JSON.
#[pyfunction]
fn pomdp_simulate(
    py: Python<'_>,
    model: &Pomdp,
    values: Input<f64>,
    actions: Input<u32>,
    episodes: u32,
    steps: Option<u32>,
    seed: u64,
) -> PyResult<String> {
    let vectors = vectors_of(&model.0, &values, &actions)?;
    let extent = Extent { episodes, steps, seed };
    simulated(py, || Ok(Simulator::new(&model.0, &vectors, &extent)?))
}

/// Reads the vectors of a policy and their actions.
#[pyfunction]
fn pomdp_load_policy(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    model: Option<&Pomdp>,
) -> PyResult<(Buffer, Buffer, u32)> {
    let format = format_of(format)?;
    let model = model.map(|model| &model.0);
    let vectors = detached(py, || io::read_vectors(&path, format, model))?.map_err(exception)?;
    Ok((vectors.values().to_vec().into(), vectors.actions().to_vec().into(), vectors.states()))
}

/// Writes a policy. Returns the value of its vectors at the start and that of the controller that is written, if it is worse.
#[pyfunction]
fn pomdp_save_policy(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    model: &Pomdp,
    values: Input<f64>,
    actions: Input<u32>,
) -> PyResult<Option<[f64; 2]>> {
    let vectors = vectors_of(&model.0, &values, &actions)?;
    let format = format_of(format)?.or(Format::of_name(&path)).unwrap_or(Format::Alpha);
    let policy = Policy { vectors: &vectors, model: Some(&model.0), name: "warpkov", stages: &[], support: None };
    let write = || {
        io::write_policy(&path, format, policy)?;
        Ok(if format.kind() == Kind::Graph { PolicyGraph::shortfall(&model.0, &vectors) } else { None })
    };
    detached(py, write)?.map_err(|error: io::Error| exception(error))
}

/// The model of the family that the first word names, with the options that the other words are.
#[pyfunction]
fn pomdp_generate(py: Python<'_>, words: Vec<OsString>) -> PyResult<Pomdp> {
    let family: Family = named(words.into_iter()).map_err(invalid)?;
    detached(py, || family.generate())?.map(Pomdp).map_err(exception)
}
