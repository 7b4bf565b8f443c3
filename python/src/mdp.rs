//! Markov decision processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warpkov_common::interrupt;
use warpkov_mdp::analysis::guards::{Purpose, Warning, inspect_quickly};
use warpkov_mdp::ask::evaluate::{PolicyError, unrolled, value};
use warpkov_mdp::ask::q::q_factors;
use warpkov_mdp::ask::simulate::{Options as Extent, Simulated, Simulator};
use warpkov_mdp::criterion::{Criterion, Persistence, Report as CriterionReport, backward_kept_on, solve_kept_on};
use warpkov_mdp::io::{Format, ReadOptions, read_from, read_policy, read_with, write_as, write_to};
use warpkov_mdp::matrix_free::many::{Named, solve_many_sparse};
use warpkov_mdp::model::validate::{Invalid, Matrix as MatrixName, ROW_SUM_TOLERANCE, Row};
use warpkov_mdp::model::{ActionNames, Choices, Csr, Mdp, MdpParts, Objective};
use warpkov_mdp::report::{Report, Summary};
use warpkov_mdp::solution::{Round, Status};
use warpkov_mdp::solve::{Session, Solve as Solving};
use warpkov_runtime::comm::Local;
use warpkov_verify::mdp::{Arithmetic, Claim, Finding, Verdict, verify as prove};

use crate::array::{Buffer, Input, Matrix, ascending, greatest, interleave, matrix};
use crate::error::{exception, invalid};
use crate::options::{Question, Solve, choice};
use crate::wait::detached;
use warpkov_cli::error::Error;
use warpkov_cli::mdp::generate::Family;
use warpkov_cli::mdp::{ExactReport, quantity, refusal, solve_exactly as prove_exactly};
use warpkov_cli::named;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Buffer>()?;
    module.add_class::<Model>()?;
    module.add_function(wrap_pyfunction!(ascending, module)?)?;
    module.add_function(wrap_pyfunction!(greatest, module)?)?;
    module.add_function(wrap_pyfunction!(interleave, module)?)?;
    module.add_function(wrap_pyfunction!(solve, module)?)?;
    module.add_function(wrap_pyfunction!(solve_exactly, module)?)?;
    module.add_function(wrap_pyfunction!(solve_many, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(verify, module)?)?;
    module.add_function(wrap_pyfunction!(policy, module)?)?;
    module.add_function(wrap_pyfunction!(factors, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(generate, module)?)
}

/// A validated model.
#[pyclass(frozen, module = "warpkov._warpkov")]
pub struct Model(Mdp);

/// The arrays of a model beside its matrices.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Parts {
    states: u32,
    /// The number of actions of every state, or
    actions: Option<u32>,
    /// the first row of each state.
    offsets: Option<Input<u64>>,
    gamma: f64,
    minimize: bool,
    ends: Option<Input<f64>>,
    action_rewards: Option<Input<f64>>,
    labels: BTreeMap<String, Vec<u32>>,
    state_names: Option<Vec<String>>,
    /// Distinct names, and the name of each row.
    action_names: Option<(Vec<String>, Vec<u32>)>,
}

#[pymethods]
impl Model {
    /// A model whose arrays are those of NumPy. Rows are state-action pairs, those of a state adjacent.
    ///
    /// `place` names the caller's entry of an array ("P", "R", "action_rewards" or "ends") in a row: `place(array, row, n)`
    /// entry n of a matrix, which counts from its first row, and `place(array, row, None)` the row.
    #[staticmethod]
    fn from_arrays(
        py: Python<'_>,
        parts: Parts,
        transitions: Matrix,
        rewards: Option<Matrix>,
        place: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let transitions = matrix(transitions, MatrixName::P)?;
        let rewards = rewards.map(|rewards| matrix(rewards, MatrixName::R)).transpose()?.unwrap_or_default();
        let choices = match (parts.actions, parts.offsets) {
            (Some(actions), None) => Choices::Uniform(actions),
            (None, Some(offsets)) => Choices::Ragged(offsets.kept()),
            _ => return Err(invalid("expected either actions or offsets")),
        };
        let numbers = |array: Option<Input<f64>>| array.map(Input::kept).unwrap_or_default();
        let parts = MdpParts {
            states: parts.states,
            choices,
            gamma: parts.gamma,
            objective: if parts.minimize { Objective::Minimize } else { Objective::Maximize },
            transitions,
            ends: numbers(parts.ends),
            rewards,
            action_rewards: numbers(parts.action_rewards),
            labels: parts.labels,
            action_names: parts.action_names.map(|(names, of_row)| ActionNames { names, of_row }),
            state_names: parts.state_names.map(Arc::new),
            grid: None,
        };
        detached(py, || parts.validated())?.map(Self).map_err(|error| wrong(&error, place))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        reward: Option<String>,
        costs: Option<PathBuf>,
    ) -> PyResult<Self> {
        let format = format.map(|name| choice("format", name)).transpose()?;
        let options = ReadOptions { format, reward, costs, map: false };
        detached(py, || read_with(&path, &options))?.map(Self).map_err(exception)
    }

    /// Reads bytes, which messages call `name`.
    #[staticmethod]
    fn loads(py: Python<'_>, bytes: &[u8], format: &str, name: &str) -> PyResult<Self> {
        let options = ReadOptions { format: Some(choice("format", format)?), ..ReadOptions::default() };
        detached(py, || read_from(bytes, name, &options))?.map(Self).map_err(exception)
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<()> {
        let format = match format {
            Some(name) => choice("format", name)?,
            None => Format::of_name(&path).unwrap_or(Format::Json),
        };
        detached(py, || write_as(&path, format, &self.0))?.map_err(exception)
    }

    /// Writes bytes.
    fn dumps<'py>(&self, py: Python<'py>, format: &str) -> PyResult<Bound<'py, PyBytes>> {
        let format: Format = choice("format", format)?;
        let mut bytes = Vec::new();
        detached(py, || write_to(&mut bytes, format, &self.0))??;
        Ok(PyBytes::new(py, &bytes))
    }

    /// This model with another discount factor or objective.
    fn replaced(&self, gamma: Option<f64>, minimize: Option<bool>) -> PyResult<Self> {
        let mut mdp = self.0.clone();
        if let Some(gamma) = gamma {
            mdp = mdp.with_gamma(gamma).map_err(invalid)?;
        }
        if let Some(minimize) = minimize {
            mdp = mdp.with_objective(if minimize { Objective::Minimize } else { Objective::Maximize });
        }
        Ok(Self(mdp))
    }

    #[getter]
    fn states(&self) -> u32 {
        self.0.states()
    }

    /// The most actions of a state.
    #[getter]
    fn actions(&self) -> u32 {
        self.0.choices().max()
    }

    #[getter]
    fn rows(&self) -> usize {
        self.0.rows()
    }

    #[getter]
    fn nnz(&self) -> usize {
        self.0.transitions().nnz()
    }

    #[getter]
    fn gamma(&self) -> f64 {
        self.0.gamma()
    }

    #[getter]
    fn minimize(&self) -> bool {
        self.0.objective() == Objective::Minimize
    }

    #[getter]
    fn labels(&self) -> BTreeMap<String, Vec<u32>> {
        self.0.labels().clone()
    }

    #[getter]
    fn state_names(&self) -> Option<Vec<String>> {
        self.0.state_names().map(<[_]>::to_vec)
    }

    /// Distinct names of actions, and the name of each row.
    #[getter]
    fn action_names(slf: &Bound<'_, Self>) -> Option<(Vec<String>, Buffer)> {
        let names = slf.get().0.action_names()?;
        Some((names.names.clone(), Buffer::view(slf.as_any(), &names.of_row)))
    }

    /// Height, width, and the states that are walls, if the states are the cells of a grid, row by row.
    #[getter]
    fn grid(&self) -> Option<(u32, u32, Vec<u32>)> {
        self.0.grid().map(|grid| (grid.height, grid.width, grid.walls.clone()))
    }

    /// The first row of each state, and the number of rows.
    #[getter]
    fn offsets(slf: &Bound<'_, Self>) -> Buffer {
        match slf.get().0.choices() {
            Choices::Ragged(offsets) => Buffer::view(slf.as_any(), offsets),
            Choices::Uniform(actions) => {
                let first = |state: u64| state * u64::from(*actions);
                (0..=u64::from(slf.get().0.states())).map(first).collect::<Vec<_>>().into()
            }
        }
    }

    /// P: row pointers, columns and values.
    #[getter]
    fn transitions(slf: &Bound<'_, Self>) -> Buffers {
        csr(slf, slf.get().0.transitions())
    }

    /// R: row pointers, columns and values.
    #[getter]
    fn rewards(slf: &Bound<'_, Self>) -> Buffers {
        csr(slf, slf.get().0.rewards())
    }

    /// The reward of each row beside R; empty if it is 0.
    #[getter]
    fn action_rewards(slf: &Bound<'_, Self>) -> Buffer {
        Buffer::view(slf.as_any(), slf.get().0.action_rewards())
    }

    /// The probability that the process ends after each row; empty if it is 0.
    #[getter]
    fn ends(slf: &Bound<'_, Self>) -> Buffer {
        Buffer::view(slf.as_any(), slf.get().0.ends())
    }

    /// What looks wrong.
    fn warnings(&self, py: Python<'_>, rewards: bool, epsilon: Option<f64>) -> PyResult<Vec<String>> {
        let found: Vec<Warning> = detached(py, || inspect_quickly(&self.0, Purpose { rewards, epsilon }))?;
        Ok(found.into_iter().map(|warning| warning.message).collect())
    }
}

/// The exception of an invalid model, in terms of the caller's arrays, whose entries `place` names.
pub fn wrong(error: &Invalid, place: &Bound<'_, PyAny>) -> PyErr {
    let named = |array: String, row: &Row, position: Option<usize>| -> PyResult<String> {
        place.call1((array, row.row, position))?.extract()
    };
    let text = |error: &Invalid| -> PyResult<String> {
        Ok(match error {
            Invalid::Column { matrix, row, found, states, .. } => {
                let place = named(matrix.to_string(), row, None)?;
                format!("{place} has next state {found}, expected a state below {states}")
            }
            Invalid::Value { matrix, row, position, found, expected } => {
                format!("{} is {found}, expected {expected}", named(matrix.to_string(), row, Some(*position))?)
            }
            Invalid::EmptyRow { row } => {
                format!("{} is 0, expected probabilities that sum to 1", named("P".to_owned(), row, None)?)
            }
            Invalid::RowValue { array, row, found, expected } => {
                format!("{} is {found}, expected {expected}", named((*array).to_owned(), row, None)?)
            }
            Invalid::RowSum { row, sum } => {
                let place = named("P".to_owned(), row, None)?;
                format!("{place} sums to {sum}, expected 1 within {ROW_SUM_TOLERANCE:e}")
            }
            error => error.to_string(),
        })
    };
    let found = match error {
        Invalid::Transposed(inner) => text(inner).map(|text| {
            format!("{text}; the columns of each action sum to 1, so P seems to be transposed: expected P[s][s'], found P[s'][s]")
        }),
        error => text(error),
    };
    found.map_or_else(|error| error, invalid)
}

/// Row pointers, columns and values.
type Buffers = (Buffer, Buffer, Buffer);

fn csr(model: &Bound<'_, Model>, csr: &Csr) -> Buffers {
    let owner = model.as_any();
    (Buffer::view(owner, csr.row_ptr()), Buffer::view(owner, csr.col()), Buffer::view(owner, csr.val()))
}

/// Values, policy, the report as JSON, lower and upper bounds where they differ from state to state, and the values and
/// policies of all steps where they were asked for.
type Solved = (Buffer, Buffer, String, Option<(Buffer, Buffer)>, Option<(Buffer, Buffer)>);

/// Observes a run: stops it after a request.
fn observe(_: &Round) -> ControlFlow<()> {
    if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The exception of a run that was stopped.
fn stopped(status: Status) -> PyResult<()> {
    if status == Status::Interrupted { Err(PyKeyboardInterrupt::new_err(())) } else { Ok(()) }
}

/// A report without values and policy.
fn json(report: &dyn Summary) -> PyResult<String> {
    let mut text = Vec::new();
    report.write_json(&mut text, false)?;
    Ok(String::from_utf8(text)?)
}

#[pyfunction]
fn solve(
    py: Python<'_>,
    model: &Model,
    question: Question,
    options: Solve,
    values: Option<Input<f64>>,
) -> PyResult<Solved> {
    let mdp = &model.0;
    let Some(criterion) = question.criterion()? else {
        let options = options.discounted(mdp.gamma())?;
        let initial = values.map(|values| values.to_vec());
        let solution = detached(py, || {
            let initial = initial.as_deref().into();
            let session = Session { initial, observe: Some(&mut observe), ..Session::default() };
            Solving::new(mdp, &options).session(session).run()
        })?;
        let solution = solution.map_err(exception)?;
        stopped(solution.run.status)?;
        let text = json(&Report::new(mdp, &options.limits, &solution))?;
        return Ok((solution.values.into(), solution.policy.into(), text, None, None));
    };
    if values.is_some() {
        return Err(invalid("values is for the discounted criterion only"));
    }
    let (device, accuracy) = options.undiscounted(question.relative())?;
    let (terminal, keep) = (question.terminal_values(), question.all_steps());
    let begun = Instant::now();
    let solved = detached(py, || {
        let persistence = Persistence::default();
        match criterion {
            Criterion::Horizon(steps) => {
                let last = terminal.as_deref();
                backward_kept_on(&Local::alone(), device, mdp, steps, last, keep, persistence, &mut observe)
            }
            _ => solve_kept_on(&Local::alone(), device, mdp, &criterion, &accuracy, persistence, &mut observe)
                .map(|solved| (solved, None)),
        }
    })?;
    let (solved, steps) = solved.map_err(exception)?;
    stopped(solved.bounded.status)?;
    let text = json(&CriterionReport::new(mdp, &criterion, &accuracy, &solved, begun.elapsed()))?;
    let bounded = solved.bounded;
    let values = bounded.values().into();
    let bounds = (bounded.lower.into(), bounded.upper.into());
    let steps = steps.map(|steps| (steps.values.into(), steps.policies.into()));
    Ok((values, bounded.policy.into(), text, Some(bounds), steps))
}

/// Nearest values, policy, the report as JSON, proved bounds, device, notes and sweeps of the solve in f64, and fractions as text.
type SolvedExactly = (Buffer, Buffer, String, (Buffer, Buffer), (String, Vec<String>, u64), Option<Vec<String>>);

#[pyfunction]
fn solve_exactly(py: Python<'_>, model: &Model, question: Question, options: Solve) -> PyResult<SolvedExactly> {
    let (criterion, options) = (question.criterion()?, options.evaluation(&question)?);
    let solved = detached(py, || prove_exactly(&model.0, criterion.as_ref(), &options, true, &mut observe))?;
    let Some(report) = solved.map_err(exception)? else { return Err(PyKeyboardInterrupt::new_err(())) };
    let (text, fractions) = (json(&report)?, report.fractions());
    let ExactReport { values, policy, lower, upper, origin, .. } = report;
    Ok((values.into(), policy.into(), text, (lower.into(), upper.into()), origin, fractions))
}

/// Values, policy, bound, status and number of sweeps of each model.
type One = (Buffer, Buffer, Option<f64>, String, u64);

#[pyfunction]
fn solve_many(py: Python<'_>, models: Vec<(String, PyRef<'_, Model>)>, options: Solve) -> PyResult<Vec<One>> {
    let gamma = models.iter().map(|(_, model)| model.0.gamma()).fold(0.0, f64::max);
    let options = options.discounted(gamma)?;
    let models: Vec<_> = models.into_iter().map(|(name, model)| Named { name, mdp: model.0.clone() }).collect();
    let solved = detached(py, || solve_many_sparse(&models, &options))?.map_err(exception)?;
    solved
        .into_iter()
        .map(|one| {
            stopped(one.run.status)?;
            let status = serde_json::to_value(one.run.status).map_err(invalid)?;
            let (bound, sweeps) = (one.certificate.bound, one.run.sweeps());
            let status = status.as_str().unwrap_or_default().to_owned();
            Ok((one.values.into(), one.policy.into(), bound, status, sweeps))
        })
        .collect()
}

/// The actions of a policy in a file, of a plan step by step.
#[pyfunction]
fn policy(py: Python<'_>, model: &Model, path: PathBuf) -> PyResult<Buffer> {
    Ok(detached(py, || read_policy(&path, &model.0))?.map_err(exception)?.into())
}

/// Lower and upper bounds, whether they meet ε, the device, and the number of sweeps.
type Between = (Buffer, Buffer, Buffer, f64, bool, String, u64);

#[pyfunction]
fn evaluate(
    py: Python<'_>,
    model: &Model,
    policy: Input<u32>,
    question: Question,
    options: Solve,
) -> PyResult<Between> {
    let (criterion, options, policy) = (question.criterion()?, options.evaluation(&question)?, policy.to_vec());
    let found = detached(py, || {
        value(&model.0, &policy, criterion.as_ref(), &options, &mut observe).map_err(|error| match error {
            PolicyError::Invalid(error) => Error::Usage(error.to_string()),
            PolicyError::Solve(error) => error.into(),
        })
    })?;
    let found = found.map_err(exception)?;
    stopped(found.status)?;
    Ok((
        found.values.into(),
        found.lower.into(),
        found.upper.into(),
        found.error,
        found.converged,
        found.device,
        found.sweeps,
    ))
}

/// Verdict, arithmetic, limit, bounds of the error, and the place of the largest.
type Found = (&'static str, &'static str, f64, f64, f64, usize);

fn found(Finding { verdict, limit, lower, upper, worst, arithmetic }: Finding) -> Found {
    let verdict = match verdict {
        Verdict::Proved => "proved",
        Verdict::Refuted => "refuted",
        Verdict::Undecided => "undecided",
    };
    let arithmetic = if arithmetic == Arithmetic::Intervals { "intervals" } else { "rationals" };
    (verdict, arithmetic, limit, lower, upper, worst)
}

/// The error of values, the loss of a policy, and bounds of V*.
#[pyfunction]
fn verify(
    py: Python<'_>,
    model: &Model,
    values: Input<f64>,
    policy: Option<Input<u32>>,
    question: Question,
    epsilon: f64,
    loss: f64,
) -> PyResult<(Found, Option<Found>, Buffer, Buffer)> {
    let quantity = quantity(question.criterion()?.as_ref());
    let (values, policy) = (values.to_vec(), policy.map(|policy| policy.to_vec()));
    let claim = Claim { epsilon, loss, ..Claim::default() };
    let proof = detached(py, || prove(&model.0, &quantity, &values, policy.as_deref(), &claim))?;
    let proof = proof.map_err(|error| exception(refusal(error, "the solution".as_ref())))?;
    let (lower, upper): (Vec<f64>, Vec<f64>) = proof.optimal.iter().map(|x| (x.lo, x.hi)).unzip();
    Ok((found(proof.values), proof.policy.map(found), lower.into(), upper.into()))
}

/// Q and advantages, one per row, and the bound of Q.
#[pyfunction]
fn factors(
    py: Python<'_>,
    model: &Model,
    values: Input<f64>,
    bound: Option<f64>,
) -> PyResult<(Buffer, Buffer, Option<f64>)> {
    let values = values.to_vec();
    if values.len() != model.0.states() as usize {
        let (found, states) = (values.len(), model.0.states());
        return Err(invalid(format!("{found} values, expected one per state, {states}")));
    }
    let found = detached(py, || q_factors(&model.0, &values, bound))?;
    Ok((found.q.into(), found.advantages.into(), found.bound))
}

/// The extent of a simulation.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Paths {
    episodes: u32,
    steps: Option<u64>,
    seed: u64,
    starts: Vec<u32>,
    confidence: f64,
}

/// Statistics as JSON.
#[pyfunction]
fn simulate(py: Python<'_>, model: &Model, policy: Input<u32>, question: Question, paths: Paths) -> PyResult<String> {
    use warpkov_common::report::Report as _;

    let Paths { episodes, steps, seed, starts, confidence } = paths;
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(invalid(format!("confidence is {confidence}, expected a number between 0 and 1")));
    }
    if let Some(state) = starts.iter().find(|&&state| state >= model.0.states()) {
        return Err(invalid(format!("start {state}, expected a state below {}", model.0.states())));
    }
    let (criterion, policy) = (question.criterion()?, policy.to_vec());
    let begun = Instant::now();
    let text = detached(py, || {
        let usage = |error: &dyn std::error::Error| Error::Usage(error.to_string());
        let chain = unrolled(&model.0, &policy, criterion.as_ref()).map_err(|error| usage(&error))?;
        let extent = Extent { episodes, steps, seed, starts: starts.clone(), confidence };
        let simulator = Simulator::new(&chain, criterion.as_ref(), extent).map_err(|error| usage(&error))?;
        let evaluation = simulator.evaluate(&interrupt::requested);
        let evaluation = evaluation.ok_or(warpkov_runtime::Error::Interrupted)?;
        let simulated = Simulated {
            mdp: &model.0,
            criterion: criterion.as_ref(),
            evaluation,
            starts: &starts,
            starts_from: "arguments",
            policy_from: "arguments",
            seed,
            elapsed: begun.elapsed(),
        };
        let mut text = Vec::new();
        simulated.write_json(&mut text)?;
        Ok::<_, Error>(text)
    })?;
    Ok(String::from_utf8(text.map_err(exception)?)?)
}

/// A model of a family, whose options are those of the command line.
#[pyfunction]
fn generate(py: Python<'_>, words: Vec<OsString>) -> PyResult<Model> {
    let family: Family = named(words.into_iter()).map_err(invalid)?;
    detached(py, || family.generate())?.map(Model).map_err(exception)
}
