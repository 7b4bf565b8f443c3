//! Markov decision processes.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::time::Instant;

use warpkov_cli::error::Error;
use warpkov_cli::mdp::generate::Family;
use warpkov_cli::mdp::goal_states;
use warpkov_cli::named;
use warpkov_common::parameters::{NON_NEGATIVE, POSITIVE};
use warpkov_mdp::criterion::{
    self, Criterion, Persistence, Report as CriterionReport, backward_kept_on, solve_kept_on,
};
use warpkov_mdp::io::{self, Format, ReadOptions};
use warpkov_mdp::model::validate::Matrix;
use warpkov_mdp::model::{Array, Choices, Csr, InvalidCsr, Mdp, MdpParts, Objective};
use warpkov_mdp::options::{Limits, Method, Precision, SolveOptions, Target};
use warpkov_mdp::report::{Report, Summary};
use warpkov_mdp::solution::{Round, Status};
use warpkov_mdp::solve::{Session, Solve};
use warpkov_runtime::comm::Local;

use crate::border::{
    Ending, Out, c_text, elements, entry, file_format, file_path, free, invalid, look, shared, view, wk_status, words,
};
use crate::options::{OF_MDP, wk_options};
use crate::progress::{Observer, wk_observer, wk_progress};

/// A matrix of the caller: compressed sparse rows, or a dense one. It is read during a call, and not kept.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wk_matrix {
    /// Number of rows; 0 for no matrix.
    pub rows: usize,
    /// Number of entries of `col` and `val`.
    pub count: usize,
    /// rows + 1 positions in `col` and `val`, from 0 to `count`: row r has those from row_ptr[r] to before row_ptr[r + 1].
    pub row_ptr: *const u64,
    /// The column of each entry, distinct in a row, in any order.
    pub col: *const u32,
    /// The value of each entry. If `row_ptr` and `col` are NULL, the matrix is dense: `val` has all rows one after the other, and
    /// zeros count as absent.
    pub val: *const f64,
}

/// Row pointers, columns and values.
type Arrays = (Vec<u64>, Vec<u32>, Vec<f64>);

impl wk_matrix {
    /// A copy of the arrays, of which none has been checked.
    ///
    /// # Safety
    /// The pointers are NULL or point at as many elements as the members say.
    pub unsafe fn arrays(&self, columns: u32, name: &str) -> Result<Arrays, Error> {
        let Self { rows, count, row_ptr, col, val } = *self;
        if rows == 0 {
            return Ok(Arrays::default());
        }
        // SAFETY: the caller's guarantee.
        let val = unsafe { elements(val, count, &format!("{name}.val")) }?;
        if row_ptr.is_null() && col.is_null() {
            let columns = columns as usize;
            if rows.checked_mul(columns) != Some(count) {
                let found = format!("{name} has {count} values for {rows} rows");
                return Err(invalid(format!("{found}, expected {columns} for each, or row pointers and columns")));
            }
            let (mut starts, mut cols, mut vals) = (vec![0], Vec::new(), Vec::new());
            for row in val.chunks_exact(columns.max(1)) {
                let entries = (0..).zip(row).filter(|(_, value)| **value != 0.0);
                entries.for_each(|(column, value)| {
                    cols.push(column);
                    vals.push(*value);
                });
                starts.push(vals.len() as u64);
            }
            return Ok((starts, cols, vals));
        }
        let ends = rows.checked_add(1).ok_or_else(|| invalid(format!("{name} has too many rows")))?;
        // SAFETY: the caller's guarantee.
        let (row_ptr, col) = unsafe {
            (elements(row_ptr, ends, &format!("{name}.row_ptr"))?, elements(col, count, &format!("{name}.col"))?)
        };
        Ok((row_ptr.to_vec(), col.to_vec(), val.to_vec()))
    }

    /// A copy, as a matrix of the model.
    ///
    /// # Safety
    /// That of [`arrays`](Self::arrays).
    pub unsafe fn csr(&self, columns: u32, name: Matrix) -> Result<Csr, Error> {
        // SAFETY: the caller's guarantee.
        let (row_ptr, col, val) = unsafe { self.arrays(columns, &name.to_string()) }?;
        name.csr(row_ptr, col, val).map_err(invalid)
    }

    /// A copy, as a matrix that is not of an MDP.
    ///
    /// # Safety
    /// That of [`arrays`](Self::arrays).
    pub unsafe fn plain(&self, columns: u32, name: &str) -> Result<Csr, Error> {
        // SAFETY: the caller's guarantee.
        let (row_ptr, col, val) = unsafe { self.arrays(columns, name) }?;
        Csr::new(row_ptr, col, val).map_err(|error: InvalidCsr| invalid(format!("{name}.{error}")))
    }
}

/// The arrays of a Markov decision process, with a row for each pair of a state and an action: those of a state are adjacent.
/// Fill unused members with 0: `wk_mdp_parts parts = {.size = sizeof parts, .states = 3};` in C. Everything is copied.
#[repr(C)]
pub struct wk_mdp_parts {
    /// sizeof(wk_mdp_parts): later versions may add members at the end.
    pub size: usize,
    /// S, the number of states.
    pub states: u32,
    /// A, the number of actions of every state: row s·A + a belongs to state s and action a. 0 if `offsets` are given.
    pub actions: u32,
    /// S + 1 row numbers, where states have different numbers of actions: state s has the rows from offsets[s] to before
    /// offsets[s + 1]. The process ends in a state without rows. NULL if `actions` is given.
    pub offsets: *const u64,
    /// The discount factor, in [0, 1]; below 1 for the discounted criterion.
    pub gamma: f64,
    /// Whether to minimise: rewards are costs. 0 maximises.
    pub minimize: c_int,
    /// P, probabilities of the next states: S columns. Each row sums to 1, with its `ends`.
    pub transitions: wk_matrix,
    /// R(s, a, s'), rewards of transitions: S columns; without rows for none.
    pub rewards: wk_matrix,
    /// r(s, a), one reward per row beside R; NULL for none.
    pub action_rewards: *const f64,
    /// The probability that the process ends, one per row; NULL for none.
    pub ends: *const f64,
}

/// Checks the member `size` of a struct of the caller.
pub fn check_size<T>(found: usize, name: &str) -> Result<(), Error> {
    match found == size_of::<T>() {
        true => Ok(()),
        false => Err(invalid(format!("size is {found}, expected {} of this version: sizeof({name})", size_of::<T>()))),
    }
}

/// Elements of an array that may be absent.
///
/// # Safety
/// `pointer` is NULL or points at `count` elements.
pub unsafe fn optional<T: Copy>(pointer: *const T, count: usize, name: &str) -> Result<Array<T>, Error> {
    match pointer.is_null() {
        true => Ok(Array::default()),
        // SAFETY: the caller's guarantee.
        false => Ok(unsafe { elements(pointer, count, name) }?.to_vec().into()),
    }
}

/// The objective that a member `minimize` means.
pub fn objective(minimize: c_int) -> Objective {
    if minimize == 0 { Objective::Maximize } else { Objective::Minimize }
}

impl wk_mdp_parts {
    /// # Safety
    /// The pointers are NULL or point at as many elements as the header says.
    unsafe fn model(&self) -> Result<Mdp, Error> {
        check_size::<Self>(self.size, "wk_mdp_parts")?;
        let Self { states, actions, offsets, gamma, minimize, transitions, rewards, action_rewards, ends, .. } = *self;
        let rows = transitions.rows;
        let choices = match (actions, offsets.is_null()) {
            (1.., true) => Choices::Uniform(actions),
            // SAFETY: the caller's guarantee.
            (0, false) => Choices::Ragged(unsafe { optional(offsets, states as usize + 1, "offsets") }?),
            (0, true) => return Err(invalid("actions is 0 and offsets is NULL, expected one of them")),
            _ => return Err(invalid("actions and offsets are both given, expected one of them")),
        };
        // SAFETY: the caller's guarantee.
        let (transitions, rewards, action_rewards, ends) = unsafe {
            (
                transitions.csr(states, Matrix::P)?,
                rewards.csr(states, Matrix::R)?,
                optional(action_rewards, rows, "action_rewards")?,
                optional(ends, rows, "ends")?,
            )
        };
        let parts = MdpParts {
            states,
            choices,
            gamma,
            objective: objective(minimize),
            transitions,
            ends,
            rewards,
            action_rewards,
            ..MdpParts::default()
        };
        parts.validated().map_err(invalid)
    }
}

/// A Markov decision process. It does not change, so that threads may share it.
pub struct wk_mdp(Mdp);

/// Makes a model of arrays, which are copied and checked.
///
/// \return WK_INVALID if it is no model; the text names the place
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_new(parts: *const wk_mdp_parts, mdp: *mut *mut wk_mdp) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, parts) = unsafe { (Out::new(mdp, "mdp")?, shared(parts, "parts")?) };
        // SAFETY: as above.
        out.put(wk_mdp(unsafe { parts.model() }?));
        Ok(Ending::Complete)
    })
}

/// Reads a model from a file. `format` is a name of the command's formats, such as "json" or "xml"; with NULL, the extension of the
/// file decides, or else the content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_read(path: *const c_char, format: *const c_char, mdp: *mut *mut wk_mdp) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, path, format) = unsafe { (Out::new(mdp, "mdp")?, file_path(path)?, file_format(format)?) };
        out.put(wk_mdp(io::read_with(path, &ReadOptions { format, ..ReadOptions::default() })?));
        Ok(Ending::Complete)
    })
}

/// Makes a model of a family, with the words of `warpkov mdp generate`: "grid --width 16 --height 16".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_generate(family: *const c_char, mdp: *mut *mut wk_mdp) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, words) = unsafe { (Out::new(mdp, "mdp")?, words(family)?) };
        let family: Family = named(words).map_err(invalid)?;
        out.put(wk_mdp(family.generate()?));
        Ok(Ending::Complete)
    })
}

/// Writes a model to a file: completely, or not at all. With NULL as the format, the extension decides, or else it is "json".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_write(mdp: *const wk_mdp, path: *const c_char, format: *const c_char) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (mdp, path, format) = unsafe { (shared(mdp, "mdp")?, file_path(path)?, file_format(format)?) };
        io::write_as(path, format.or(Format::of_name(path)).unwrap_or(Format::Json), &mdp.0)?;
        Ok(Ending::Complete)
    })
}

/// S, the number of states; 0 if `mdp` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_states(mdp: *const wk_mdp) -> u32 {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(mdp, "mdp") }?.0.states()))
}

/// The most actions of a state; 0 if `mdp` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_actions(mdp: *const wk_mdp) -> u32 {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(mdp, "mdp") }?.0.choices().max()))
}

/// The number of pairs of a state and an action; 0 if `mdp` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_rows(mdp: *const wk_mdp) -> usize {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(mdp, "mdp") }?.0.rows()))
}

/// The discount factor; NaN if `mdp` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_gamma(mdp: *const wk_mdp) -> f64 {
    // SAFETY: the caller guarantees what the header says.
    look(f64::NAN, || Ok(unsafe { shared(mdp, "mdp") }?.0.gamma()))
}

/// Frees a model; NULL is nothing. Solutions stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_free(mdp: *mut wk_mdp) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(mdp) };
}

/// What a solve optimises, where and how accurately.
struct Request<'o> {
    criterion: Option<Criterion>,
    options: SolveOptions,
    accuracy: criterion::Options,
    values: Option<&'o [f64]>,
    terminal: Option<&'o [f64]>,
}

impl<'o> Request<'o> {
    fn new(mdp: &Mdp, given: &'o wk_options) -> Result<Self, Error> {
        given.check("an MDP", &OF_MDP, &["values", "terminal_values"])?;
        let horizon = given.count("horizon", 0)?;
        let goal = given.text("goal").map(|text| goal_states(text, mdp)).transpose()?;
        let name = given.text("criterion").unwrap_or("discounted");
        let criterion = match (name, goal, horizon) {
            ("discounted", None, None) => None,
            ("discounted", None, Some(steps)) => Some(Criterion::Horizon(steps)),
            ("discounted", Some(_), _) => return Err(invalid("goal needs criterion 'reach' or 'total'")),
            (_, _, Some(_)) => return Err(invalid("horizon is for the discounted criterion only")),
            ("reach", Some(goal), _) => Some(Criterion::Reach { goal }),
            ("reach", None, _) => return Err(invalid("criterion 'reach' needs goal, the states to reach")),
            ("total", goal, _) => Some(Criterion::TotalReward { goal }),
            ("average", None, _) => Some(Criterion::Average),
            ("average", Some(_), _) => return Err(invalid("goal needs criterion 'reach' or 'total'")),
            _ => {
                return Err(invalid(format!(
                    "criterion is '{name}', expected one of discounted, reach, total, average"
                )));
            }
        };
        let (values, terminal) = (given.array("values"), given.array("terminal_values"));
        match &criterion {
            None | Some(Criterion::Horizon(_)) if given.holds("relative", false)? => {
                return Err(invalid("relative needs criterion 'reach', 'total' or 'average'"));
            }
            Some(_) if values.is_some() => return Err(invalid("values is for the discounted criterion only")),
            Some(Criterion::Horizon(_)) => {}
            _ if terminal.is_some() => return Err(invalid("terminal_values needs horizon")),
            _ => {}
        }
        if let Some(found) = terminal.map(<[_]>::len).filter(|&found| found != mdp.states() as usize) {
            return Err(invalid(format!(
                "terminal_values has {found} numbers, expected one per state, {}",
                mdp.states()
            )));
        }
        let (epsilon, theta) = (given.number("epsilon", &POSITIVE)?, given.number("theta", &POSITIVE)?);
        let target = match (epsilon, theta) {
            (Some(_), Some(_)) => return Err(invalid("expected epsilon or theta, not both")),
            (_, Some(theta)) => Target::Theta(theta),
            (epsilon, None) => epsilon.map_or(Limits::default().target, Target::Epsilon),
        };
        let default = SolveOptions::default();
        let method: Option<Method> = given.parsed("method")?;
        let precision: Precision = given.choice("precision")?.unwrap_or(default.precision);
        let used = method.map_or(precision, |method| method.precision(precision));
        let sweeps = given.count("max_sweeps", 1)?;
        let limits = Limits {
            target,
            max_sweeps: sweeps.unwrap_or(default.limits.max_sweeps),
            max_policies: given.count("max_policies", 1)?.unwrap_or(default.limits.max_policies),
            tie: given.number("tie", &NON_NEGATIVE)?.unwrap_or_else(|| used.tie_for(target, mdp.gamma())),
        };
        let options = SolveOptions {
            method,
            device: given.device()?,
            precision,
            storage: given.choice("storage")?,
            skip: given.holds("skip", true)?,
            device_memory: given.count("device_memory", 1)?,
            reorder: given.choice("reorder")?.unwrap_or_default(),
            limits,
            ..default
        };
        let default = criterion::Options::default();
        let accuracy = criterion::Options {
            epsilon: epsilon.unwrap_or(default.epsilon),
            relative: given.holds("relative", false)?,
            max_sweeps: sweeps.map_or(default.max_sweeps, u64::from),
        };
        Ok(Self { criterion, options, accuracy, values, terminal })
    }

    fn solve(&self, mdp: &Mdp, observer: &Observer) -> Result<wk_mdp_solution, Error> {
        let Self { criterion, options, accuracy, .. } = self;
        let (begun, mut sweeps) = (Instant::now(), 0);
        let mut observe = |round: &Round| {
            sweeps += u64::from(round.sweeps);
            let progress = wk_progress::new(round.round.into(), round.seconds);
            observer.see(&wk_progress { sweeps, residual: round.residual, ..progress })
        };
        let Some(criterion) = criterion else {
            let session = Session { initial: self.values.into(), observe: Some(&mut observe), ..Session::default() };
            let solution = Solve::new(mdp, options).session(session).run()?;
            let report = Report::new(mdp, &options.limits, &solution);
            let (text, guarantee) = (json(&report)?, report.guarantee());
            return Ok(wk_mdp_solution {
                converged: solution.converged(&options.limits),
                bound: solution.certificate.bound.unwrap_or(f64::INFINITY),
                sweeps: solution.run.sweeps(),
                seconds: begun.elapsed().as_secs_f64(),
                interrupted: solution.run.status == Status::Interrupted,
                status: named_status(solution.run.status)?,
                device: c_text(solution.device.clone()),
                report: text,
                guarantee,
                values: solution.values,
                policy: solution.policy,
                lower: Vec::new(),
                upper: Vec::new(),
            });
        };
        let comm = Local::alone();
        let solved = match criterion {
            Criterion::Horizon(steps) => {
                let kept = Persistence::default();
                backward_kept_on(&comm, options.device, mdp, *steps, self.terminal, false, kept, &mut observe)?.0
            }
            _ => {
                let kept = Persistence::default();
                solve_kept_on(&comm, options.device, mdp, criterion, accuracy, kept, &mut observe)?
            }
        };
        let report = CriterionReport::new(mdp, criterion, accuracy, &solved, begun.elapsed());
        let (text, guarantee) = (json(&report)?, report.guarantee());
        let (converged, status) = (report.converged(), report.status());
        let (device, bounded) = (c_text(solved.device), solved.bounded);
        Ok(wk_mdp_solution {
            converged,
            bound: bounded.error(),
            sweeps: bounded.sweeps(),
            seconds: begun.elapsed().as_secs_f64(),
            interrupted: status == Status::Interrupted,
            status: named_status(status)?,
            device,
            report: text,
            guarantee,
            values: bounded.values(),
            policy: bounded.policy,
            lower: bounded.lower,
            upper: bounded.upper,
        })
    }
}

/// A report without values and policy.
fn json(report: &dyn Summary) -> Result<CString, Error> {
    let mut text = Vec::new();
    report.write_json(&mut text, false)?;
    Ok(c_text(String::from_utf8_lossy(&text).into_owned()))
}

/// The name of how a run ended.
pub fn named_status(status: impl serde::Serialize) -> Result<CString, Error> {
    let name = serde_json::to_value(status).map_err(invalid)?;
    Ok(c_text(name.as_str().unwrap_or_default().to_owned()))
}

/// Values, a policy, and what is proven of them. It belongs to the caller of the solver, and holds no memory of the model.
pub struct wk_mdp_solution {
    values: Vec<f64>,
    policy: Vec<u32>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    bound: f64,
    converged: bool,
    interrupted: bool,
    status: CString,
    sweeps: u64,
    seconds: f64,
    device: CString,
    report: CString,
    guarantee: String,
}

/// Solves a model. `options` may be NULL, and so may `observer`, which is called with `user` after each round.
///
/// Without options, the criterion is the discounted sum of rewards with an error of at most 1e-6, on the device that suits the
/// size of the model.
///
/// \param[out] solution the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
/// \return WK_OK if the values are as accurate as asked
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_solve(
    mdp: *const wk_mdp,
    options: *const wk_options,
    observer: wk_observer,
    user: *mut c_void,
    solution: *mut *mut wk_mdp_solution,
) -> wk_status {
    entry(|| {
        let none = wk_options::default();
        // SAFETY: the caller guarantees what the header says.
        let (out, mdp) = unsafe { (Out::new(solution, "solution")?, shared(mdp, "mdp")?) };
        let options = match options.is_null() {
            true => &none,
            // SAFETY: as above.
            false => unsafe { shared(options, "options") }?,
        };
        let minimised = options.holds("minimize", mdp.0.objective() == Objective::Minimize)?;
        let mdp = mdp.0.clone().with_objective(objective(minimised.into()));
        let found = Request::new(&mdp, options)?.solve(&mdp, &Observer { call: observer, user })?;
        let text = format!("{}: {}", found.status.to_string_lossy(), found.guarantee);
        let ending = match (found.interrupted, found.converged) {
            (true, _) => Ending::Early(wk_status::WK_INTERRUPTED, text),
            (_, true) => Ending::Complete,
            _ => Ending::Early(wk_status::WK_NOT_CERTIFIED, text),
        };
        out.put(found);
        Ok(ending)
    })
}

/// V, one value per state; of a criterion without a discount, the middle between both bounds. The array stays until the solution is
/// freed; its length goes to `count` unless that is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_values(solution: *const wk_mdp_solution, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(solution, "solution").map(|solution| &solution.values[..])) }
}

/// The action of each state, from 0; UINT32_MAX where a state has none. The array stays until the solution is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_policy(solution: *const wk_mdp_solution, count: *mut usize) -> *const u32 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(solution, "solution").map(|solution| &solution.policy[..])) }
}

/// Lower bounds of the optimal values, for a horizon or a criterion without a discount; NULL for the discounted criterion, where
/// `wk_mdp_bound` holds for all states. The array stays until the solution is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_lower(solution: *const wk_mdp_solution, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(solution, "solution").map(|solution| &solution.lower[..])) }
}

/// Upper bounds, as `wk_mdp_lower`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_upper(solution: *const wk_mdp_solution, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(solution, "solution").map(|solution| &solution.upper[..])) }
}

/// The certificate: no value differs by more than this from the optimal one, rounding errors included. Infinite if nothing is
/// proven; NaN if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_bound(solution: *const wk_mdp_solution) -> f64 {
    // SAFETY: the caller guarantees what the header says.
    look(f64::NAN, || Ok(unsafe { shared(solution, "solution") }?.bound))
}

/// The number of sweeps; 0 if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_sweeps(solution: *const wk_mdp_solution) -> u64 {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(solution, "solution") }?.sweeps))
}

/// The seconds that the solve took; NaN if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_seconds(solution: *const wk_mdp_solution) -> f64 {
    // SAFETY: the caller guarantees what the header says.
    look(f64::NAN, || Ok(unsafe { shared(solution, "solution") }?.seconds))
}

/// How the run ended, in a word: "solved", "sweep-limit", "policy-limit", "stalled", "overflow" or "interrupted". The text stays until
/// the solution is freed; NULL if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_ended(solution: *const wk_mdp_solution) -> *const c_char {
    // SAFETY: the caller guarantees what the header says.
    look(ptr::null(), || Ok(unsafe { shared(solution, "solution") }?.status.as_ptr()))
}

/// The device that computed the solution, such as "NVIDIA H100 (cuda:0)" or "16 CPU cores". The text stays until the solution is
/// freed; NULL if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_device(solution: *const wk_mdp_solution) -> *const c_char {
    // SAFETY: the caller guarantees what the header says.
    look(ptr::null(), || Ok(unsafe { shared(solution, "solution") }?.device.as_ptr()))
}

/// The report of the command as a JSON object: method, notes, certificate, times, rounds. It has no values and no policy. The text stays
/// until the solution is freed; NULL if `solution` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_report(solution: *const wk_mdp_solution) -> *const c_char {
    // SAFETY: the caller guarantees what the header says.
    look(ptr::null(), || Ok(unsafe { shared(solution, "solution") }?.report.as_ptr()))
}

/// Frees a solution; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_mdp_solution_free(solution: *mut wk_mdp_solution) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(solution) };
}
