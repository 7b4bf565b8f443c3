//! Partially observable Markov decision processes.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::ptr;
use std::time::Duration;

use warpkov_cli::error::Error;
use warpkov_cli::named;
use warpkov_cli::pomdp::generate::Family;
use warpkov_common::parameters::{FINITE, POSITIVE};
use warpkov_common::report::Report;
use warpkov_mdp::model::validate::Matrix;
use warpkov_mdp::model::{Choices, MdpParts};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::io::{self, Format, Policy};
use warpkov_pomdp::model::{Names, Pomdp, PomdpParts};
use warpkov_pomdp::options::{Gap, Limits, SolveOptions};
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::report::Solved;
use warpkov_pomdp::solution::{Round, Solution, Status};
use warpkov_pomdp::solve::solve_with;

use crate::border::{
    Ending, Out, c_text, elements, entry, file_format, file_path, fill, free, invalid, look, shared, unique, view,
    wk_status, words,
};
use crate::mdp::{check_size, named_status, objective, optional, wk_matrix};
use crate::options::{OF_POMDP, wk_options};
use crate::progress::{Observer, wk_observer, wk_progress};

/// The arrays of a partially observable Markov decision process. Fill unused members with 0. Everything is copied.
#[repr(C)]
pub struct wk_pomdp_parts {
    /// sizeof(wk_pomdp_parts): later versions may add members at the end.
    pub size: usize,
    /// S, the number of states.
    pub states: u32,
    /// A, the number of actions.
    pub actions: u32,
    /// The number of observations.
    pub observations: u32,
    /// Whether to minimise: rewards are costs. 0 maximises.
    pub minimize: c_int,
    /// The discount factor, in [0, 1]; below 1 without a horizon.
    pub gamma: f64,
    /// T(s, a, s'): row s·A + a, S columns.
    pub transitions: wk_matrix,
    /// O(a, s', o), the probability of observation o after action a has led to state s': row a·S + s', a column per observation.
    pub emissions: wk_matrix,
    /// R(s, a, s'), with the rows of T; without rows for none.
    pub rewards: wk_matrix,
    /// r(s, a), one reward per row of T beside R; NULL for none.
    pub action_rewards: *const f64,
    /// The belief at the start, one probability per state; NULL if all states are equally probable.
    pub start: *const f64,
}

impl wk_pomdp_parts {
    /// # Safety
    /// The pointers are NULL or point at as many elements as the header says.
    unsafe fn model(&self) -> Result<Pomdp, Error> {
        check_size::<Self>(self.size, "wk_pomdp_parts")?;
        let Self { states, actions, observations, minimize, gamma, .. } = *self;
        // SAFETY: the caller's guarantee.
        let process = unsafe {
            MdpParts {
                states,
                choices: Choices::Uniform(actions),
                gamma,
                objective: objective(minimize),
                transitions: self.transitions.csr(states, Matrix::P)?,
                rewards: self.rewards.csr(states, Matrix::R)?,
                action_rewards: optional(self.action_rewards, self.transitions.rows, "action_rewards")?,
                ..MdpParts::default()
            }
        };
        let start = match self.start.is_null() {
            true => Belief::uniform((0..states).collect()),
            // SAFETY: the caller's guarantee.
            false => belief_of(states, unsafe { elements(self.start, states as usize, "start") }?, "start")?,
        };
        // SAFETY: the caller's guarantee.
        let emissions = unsafe { self.emissions.plain(observations, "O") }?;
        let parts = PomdpParts {
            process,
            observation_count: observations,
            observations: emissions,
            start,
            seen: Vec::new(),
            names: Names::default(),
        };
        parts.validated().map_err(invalid)
    }
}

/// A belief of one probability per state.
fn belief_of(states: u32, probs: &[f64], name: &str) -> Result<Belief, Error> {
    if probs.len() != states as usize {
        return Err(invalid(format!("{name} has {} probabilities, expected one per state, {states}", probs.len())));
    }
    Belief::dense(probs).map_err(|error| invalid(format!("{name} {error}")))
}

/// A partially observable Markov decision process. It does not change, so that threads may share it.
pub struct wk_pomdp(pub(crate) Pomdp);

/// Makes a model of arrays, which are copied and checked.
///
/// \return WK_INVALID if it is no model; the text names the place
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_new(parts: *const wk_pomdp_parts, pomdp: *mut *mut wk_pomdp) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, parts) = unsafe { (Out::new(pomdp, "pomdp")?, shared(parts, "parts")?) };
        // SAFETY: as above.
        out.put(wk_pomdp(unsafe { parts.model() }?));
        Ok(Ending::Complete)
    })
}

/// Reads a model from a file, with the format "pomdp", "pomdpx" or "json"; with NULL, content and extension decide.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_read(
    path: *const c_char,
    format: *const c_char,
    pomdp: *mut *mut wk_pomdp,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, path, format) = unsafe { (Out::new(pomdp, "pomdp")?, file_path(path)?, file_format(format)?) };
        out.put(wk_pomdp(io::read(path, format)?));
        Ok(Ending::Complete)
    })
}

/// Makes a model of a family, with the words of `warpkov pomdp generate`: "tiger".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_generate(family: *const c_char, pomdp: *mut *mut wk_pomdp) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, words) = unsafe { (Out::new(pomdp, "pomdp")?, words(family)?) };
        let family: Family = named(words).map_err(invalid)?;
        out.put(wk_pomdp(family.generate()?));
        Ok(Ending::Complete)
    })
}

/// Writes a model to a file: completely, or not at all. With NULL as the format, the extension decides, or else it is "json".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_write(
    pomdp: *const wk_pomdp,
    path: *const c_char,
    format: *const c_char,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (pomdp, path, format) = unsafe { (shared(pomdp, "pomdp")?, file_path(path)?, file_format(format)?) };
        io::write(path, format.or(Format::of_name(path)).unwrap_or(Format::Json), &pomdp.0)?;
        Ok(Ending::Complete)
    })
}

/// S, the number of states; 0 if `pomdp` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_states(pomdp: *const wk_pomdp) -> u32 {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(pomdp, "pomdp") }?.0.states()))
}

/// A, the number of actions; 0 if `pomdp` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_actions(pomdp: *const wk_pomdp) -> u32 {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(pomdp, "pomdp") }?.0.actions()))
}

/// The number of observations; 0 if `pomdp` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_observations(pomdp: *const wk_pomdp) -> u32 {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(pomdp, "pomdp") }?.0.observation_count()))
}

/// Writes the belief at the start to `probs`, which has `count` = S elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_start(pomdp: *const wk_pomdp, probs: *mut f64, count: usize) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let model = &unsafe { shared(pomdp, "pomdp") }?.0;
        // SAFETY: as above.
        unsafe { fill(probs, count, &model.start().to_dense(model.states()), "probs") }?;
        Ok(Ending::Complete)
    })
}

/// Writes to `after` the belief after an action and an observation, by Bayes' rule. Both beliefs have `count` = S elements, and may be
/// the same array.
///
/// \return WK_INVALID if the observation is impossible there
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_update(
    pomdp: *const wk_pomdp,
    belief: *const f64,
    action: u32,
    observation: u32,
    after: *mut f64,
    count: usize,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let model = &unsafe { shared(pomdp, "pomdp") }?.0;
        // SAFETY: as above; the belief is copied before `after` is written.
        let belief = belief_of(model.states(), unsafe { elements(belief, count, "belief") }?, "belief")?;
        if action >= model.actions() {
            return Err(invalid(format!("action is {action}, expected one below {}", model.actions())));
        }
        if observation >= model.observation_count() {
            let all = model.observation_count();
            return Err(invalid(format!("observation is {observation}, expected one below {all}")));
        }
        let found = Projection::default().update(model, &belief, action, observation);
        let found =
            found.ok_or_else(|| invalid(format!("observation {observation} is impossible after action {action}")))?;
        // SAFETY: as above.
        unsafe { fill(after, count, &found.to_dense(model.states()), "after") }?;
        Ok(Ending::Complete)
    })
}

/// Frees a model; NULL is nothing. Solutions stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_free(pomdp: *mut wk_pomdp) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(pomdp) };
}

/// The limits of a search.
pub fn limits(given: &wk_options) -> Result<Limits, Error> {
    let (gap, relative) = (given.number("gap", &POSITIVE)?, given.number("relative_gap", &POSITIVE)?);
    if gap.is_some() && relative.is_some() {
        return Err(invalid("expected gap or relative_gap, not both"));
    }
    Ok(Limits {
        gap: Gap::asked(gap, relative, given.holds("exact", false)?),
        target: given.number("target", &FINITE)?,
        // A time beyond the range of `Duration` is no limit.
        time: given.number("time", &POSITIVE)?.and_then(|time| Duration::try_from_secs_f64(time).ok()),
        memory: given.count("memory", 1)?,
        iterations: given.count("iterations", 0)?,
        vectors: given.count("vectors", 1)?.unwrap_or(Limits::default().vectors),
    })
}

/// The report of the command as text.
pub fn json(report: &dyn Report) -> Result<CString, Error> {
    let mut text = Vec::new();
    report.write_json(&mut text)?;
    Ok(c_text(String::from_utf8_lossy(&text).into_owned()))
}

/// Shows the rounds of a search to a callback.
pub fn seen_by(observer: Observer) -> impl FnMut(&Round) -> ControlFlow<()> {
    move |round| {
        let progress = wk_progress::new(round.iterations, round.seconds);
        observer.see(&wk_progress { lower: round.lower, upper: round.upper, ..progress })
    }
}

/// How a search ended, whose value is within bounds.
pub fn ending(status: Status, lower: f64, upper: f64) -> Ending {
    let text = || format!("{status}: the value is between {lower} and {upper}");
    match status {
        Status::Gap | Status::Target => Ending::Complete,
        Status::Interrupted => Ending::Early(wk_status::WK_INTERRUPTED, text()),
        Status::Time | Status::Memory | Status::Iterations | Status::Stalled => {
            Ending::Early(wk_status::WK_NOT_CERTIFIED, text())
        }
    }
}

/// The options of a solve.
fn solve_options(given: &wk_options) -> Result<SolveOptions, Error> {
    given.check("a POMDP", &OF_POMDP, &[])?;
    let default = SolveOptions::default();
    Ok(SolveOptions {
        device: given.device()?,
        precision: given.choice("precision")?.unwrap_or_default(),
        horizon: given.count("horizon", 1)?,
        exact: given.holds("exact", false)?,
        expansion: given.choice("expansion")?,
        scheme: given.choice("backups")?,
        beliefs: given.count("beliefs", 1)?.unwrap_or(default.beliefs),
        trials: given.count("trials", 1)?,
        companion: given.holds("companion", false)?,
        seed: given.count("seed", 0)?.unwrap_or(default.seed),
        limits: limits(given)?,
    })
}

/// Bounds of the value at the start, and a policy as alpha vectors. It belongs to the caller of the solver.
pub struct wk_pomdp_solution {
    solution: Solution,
    /// Its large arrays are those of the caller's model.
    model: Pomdp,
    status: CString,
    report: CString,
}

/// Solves a model. `options` may be NULL, and so may `observer`, which is called with `user` after each round.
///
/// \param[out] solution the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
/// \return WK_OK if the bounds are as close as asked
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_solve(
    pomdp: *const wk_pomdp,
    options: *const wk_options,
    observer: wk_observer,
    user: *mut c_void,
    solution: *mut *mut wk_pomdp_solution,
) -> wk_status {
    entry(|| {
        let none = wk_options::default();
        // SAFETY: the caller guarantees what the header says.
        let (out, pomdp) = unsafe { (Out::new(solution, "solution")?, shared(pomdp, "pomdp")?) };
        let options = match options.is_null() {
            true => &none,
            // SAFETY: as above.
            false => unsafe { shared(options, "options") }?,
        };
        let (model, options) = (&pomdp.0, solve_options(options)?);
        let solution = solve_with(model, &options, &mut seen_by(Observer { call: observer, user }))?;
        let report = json(&Solved { model, name: "", solution: &solution })?;
        let ending = ending(solution.status, solution.end().lower, solution.end().upper);
        out.put(wk_pomdp_solution { status: named_status(solution.status)?, report, model: model.clone(), solution });
        Ok(ending)
    })
}

/// A proven lower bound of the optimal value at the start; of costs, an upper one is attained. NaN if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_lower(solution: *const wk_pomdp_solution) -> f64 {
    // SAFETY: the caller guarantees what the header says.
    look(f64::NAN, || Ok(unsafe { shared(solution, "solution") }?.solution.end().lower))
}

/// A proven upper bound of the optimal value at the start; NaN if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_upper(solution: *const wk_pomdp_solution) -> f64 {
    // SAFETY: the caller guarantees what the header says.
    look(f64::NAN, || Ok(unsafe { shared(solution, "solution") }?.solution.end().upper))
}

/// The actions of the alpha vectors, one per vector; their number goes to `count` unless that is NULL. The array stays until the
/// solution is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_vector_actions(solution: *const wk_pomdp_solution, count: *mut usize) -> *const u32 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(solution, "solution").map(|solution| solution.solution.vectors.actions())) }
}

/// The alpha vectors one after the other, S values each: the value of a belief is the largest product with one of them, of costs the
/// smallest. The array stays until the solution is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_vector_values(solution: *const wk_pomdp_solution, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(solution, "solution").map(|solution| solution.solution.vectors.values())) }
}

/// The action of the policy in a belief, and its value there, which goes to `value` unless that is NULL. `belief` has `count` = S
/// elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_action(
    solution: *const wk_pomdp_solution,
    belief: *const f64,
    count: usize,
    action: *mut u32,
    value: *mut f64,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (solution, action) = unsafe { (shared(solution, "solution")?, unique(action, "action")?) };
        let model = &solution.model;
        // SAFETY: as above.
        let belief = belief_of(model.states(), unsafe { elements(belief, count, "belief") }?, "belief")?;
        let vectors = &solution.solution.vectors;
        let sign = model.process().objective().sign();
        let values = (0..vectors.len()).map(|i| sign * belief.dot(vectors.vector(i)));
        let best = values.enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
        let (best, found) = best.ok_or_else(|| invalid("the policy has no vectors"))?;
        *action = vectors.actions()[best];
        if !value.is_null() {
            // SAFETY: as above.
            *unsafe { unique(value, "value") }? = sign * found;
        }
        Ok(Ending::Complete)
    })
}

/// Writes the policy to a file: "alpha" or "policy-xml", its vectors; "pg" or "dot", its controller. With NULL as the format, the
/// extension decides, or else it is "alpha".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_write_policy(
    solution: *const wk_pomdp_solution,
    path: *const c_char,
    format: *const c_char,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (kept, path, format) = unsafe { (shared(solution, "solution")?, file_path(path)?, file_format(format)?) };
        let Solution { vectors, stages, support, .. } = &kept.solution;
        let policy = Policy { vectors, model: Some(&kept.model), name: "warpkov", stages, support: support.as_ref() };
        io::write_policy(path, format.or(Format::of_name(path)).unwrap_or(Format::Alpha), policy)?;
        Ok(Ending::Complete)
    })
}

/// How the run ended, in a word: "gap", "target", "time", "memory", "iterations", "stalled" or "interrupted". The text stays until the
/// solution is freed; NULL if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_ended(solution: *const wk_pomdp_solution) -> *const c_char {
    // SAFETY: the caller guarantees what the header says.
    look(ptr::null(), || Ok(unsafe { shared(solution, "solution") }?.status.as_ptr()))
}

/// The report of the command as a JSON object: bounds, method, device, notes, rounds. The text stays until the solution is freed; NULL
/// if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_report(solution: *const wk_pomdp_solution) -> *const c_char {
    // SAFETY: the caller guarantees what the header says.
    look(ptr::null(), || Ok(unsafe { shared(solution, "solution") }?.report.as_ptr()))
}

/// Frees a solution; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_solution_free(solution: *mut wk_pomdp_solution) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(solution) };
}
