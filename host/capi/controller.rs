//! Controllers of a partially observable Markov decision process: to a goal, and within a limit of costs.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use warpkov_cli::error::Error;
use warpkov_cli::pomdp::reach::goal_of;
use warpkov_common::parameters::FINITE;
use warpkov_common::report::Report;
use warpkov_mdp::criterion::Criterion;
use warpkov_pomdp::constrained::{self, Constraint};
use warpkov_pomdp::criterion;
use warpkov_pomdp::io::{self, Format, PolicyGraph};
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::SolveOptions;
use warpkov_pomdp::report::{Limited, Reached};
use warpkov_pomdp::solution::Status;

use crate::border::{
    Ending, Out, elements, entry, file_format, file_path, free, invalid, look, shared, view, wk_status,
};
use crate::mdp::named_status;
use crate::options::{OF_CONSTRAINED, OF_REACH, wk_options};
use crate::pomdp::{ending, json, limits, seen_by, wk_pomdp};
use crate::progress::{Observer, wk_observer};

/// Bounds of a value, and a finite-state controller that attains one of them: a mixture of one or two parts, of which a coin chooses
/// one at the start. It belongs to the caller of the solver.
pub struct wk_pomdp_controller {
    lower: f64,
    upper: f64,
    policy: PolicyGraph,
    /// The successors of `policy`, with UINT32_MAX for none.
    next: Vec<u32>,
    /// The probability of each part, and the nodes in which it begins.
    probabilities: Vec<f64>,
    starts: Vec<Vec<u32>>,
    /// Its large arrays are those of the caller's model.
    model: Pomdp,
    status: CString,
    report: CString,
}

impl wk_pomdp_controller {
    fn new(
        (lower, upper): (f64, f64),
        policy: PolicyGraph,
        (probabilities, starts): (Vec<f64>, Vec<Vec<u32>>),
        status: Status,
        report: &dyn Report,
        model: &Pomdp,
    ) -> Result<Self, Error> {
        Ok(Self {
            lower,
            upper,
            next: policy.next.iter().map(|next| next.unwrap_or(u32::MAX)).collect(),
            policy,
            probabilities,
            starts,
            model: model.clone(),
            status: named_status(status)?,
            report: json(report)?,
        })
    }

    /// The nodes in which a part begins.
    fn starts(&self, part: usize) -> Result<&[u32], Error> {
        let starts = self.starts.get(part).map(|starts| &starts[..]);
        starts.ok_or_else(|| invalid(format!("part is {part}, expected one below {}", self.starts.len())))
    }
}

/// Bounds the best probability of reaching goal states from the start, or the best sum of rewards until then. Ignores the discount.
///
/// The option "goal" has the goal states, names or numbers: "3,17", "!lost & !start". The option "criterion" is "reach", the probability,
/// or "total", the sum; "minimize" makes either the least. The controller attains the lower bound of a maximum, or the upper bound of a
/// minimum. A bound may be infinite. `observer` may be NULL; it is called with `user` after each round.
///
/// \param[out] controller the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
/// \return WK_OK if the bounds are as close as asked
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_reach(
    pomdp: *const wk_pomdp,
    options: *const wk_options,
    observer: wk_observer,
    user: *mut c_void,
    controller: *mut *mut wk_pomdp_controller,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, model, given) =
            unsafe { (Out::new(controller, "controller")?, &shared(pomdp, "pomdp")?.0, shared(options, "options")?) };
        given.check("a run to a goal", &OF_REACH, &[])?;
        let goal = given.text("goal").ok_or_else(|| invalid("there is no goal, expected the states to reach"))?;
        let goal = goal_of(model, goal)?;
        let criterion = match given.text("criterion").unwrap_or("reach") {
            "reach" => Criterion::Reach { goal },
            "total" => Criterion::TotalReward { goal: Some(goal) },
            other => return Err(invalid(format!("criterion is '{other}', expected reach or total"))),
        };
        let model = criterion::directed(model, &criterion, given.decided("minimize")?);
        let mut observe = seen_by(Observer { call: observer, user });
        let found = criterion::solve(&model, &criterion, given.device()?, &limits(given)?, &mut observe)?;
        let report = Reached { model: &model, criterion: &criterion, found: &found };
        let (bounds, parts) = ((found.lower, found.upper), (vec![1.0], vec![found.policy.starts.clone()]));
        out.put(wk_pomdp_controller::new(bounds, found.policy.clone(), parts, found.status, &report, &model)?);
        Ok(ending(found.status, found.lower, found.upper))
    })
}

/// Bounds the best value of the start belief among the policies that keep the expected discounted sum of costs within a limit: the
/// option "at_most" or "at_least". `costs` has the cost c(s, a) at s·A + a, `count` = S·A numbers. `observer` may be NULL; it is called
/// with `user` after each round.
///
/// \param[out] controller the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
/// \return WK_OK if the bounds are as close as asked; WK_NOT_CERTIFIED without a result if no policy is within the limit
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_constrain(
    pomdp: *const wk_pomdp,
    costs: *const f64,
    count: usize,
    options: *const wk_options,
    observer: wk_observer,
    user: *mut c_void,
    controller: *mut *mut wk_pomdp_controller,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, model, given) =
            unsafe { (Out::new(controller, "controller")?, &shared(pomdp, "pomdp")?.0, shared(options, "options")?) };
        // SAFETY: as above.
        let costs = unsafe { elements(costs, count, "costs") }?;
        given.check("a constrained solve", &OF_CONSTRAINED, &[])?;
        let constraint = match (given.number("at_most", &FINITE)?, given.number("at_least", &FINITE)?) {
            (Some(limit), None) => Constraint::AtMost(limit),
            (None, Some(limit)) => Constraint::AtLeast(limit),
            _ => return Err(invalid("expected at_most or at_least, one of them")),
        };
        let default = SolveOptions::default();
        let options = SolveOptions {
            device: given.device()?,
            horizon: given.count("horizon", 1)?,
            exact: given.holds("exact", false)?,
            seed: given.count("seed", 0)?.unwrap_or(default.seed),
            limits: limits(given)?,
            ..default
        };
        let mut observe = seen_by(Observer { call: observer, user });
        let found = constrained::solve(model, costs, constraint, &options, &mut observe)?;
        let report = Limited { model, constraint, found: &found };
        let (policy, starts) = found.controller();
        let parts = (found.parts.iter().map(|part| part.probability).collect(), starts);
        let bounds = (found.lower, found.upper);
        out.put(wk_pomdp_controller::new(bounds, policy, parts, found.status, &report, model)?);
        Ok(ending(found.status, found.lower, found.upper))
    })
}

/// A proven lower bound of the optimal value at the start; NaN if `controller` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_lower(controller: *const wk_pomdp_controller) -> f64 {
    // SAFETY: the caller guarantees what the header says.
    look(f64::NAN, || Ok(unsafe { shared(controller, "controller") }?.lower))
}

/// A proven upper bound of the optimal value at the start; NaN if `controller` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_upper(controller: *const wk_pomdp_controller) -> f64 {
    // SAFETY: the caller guarantees what the header says.
    look(f64::NAN, || Ok(unsafe { shared(controller, "controller") }?.upper))
}

/// The action of each node; their number goes to `count` unless that is NULL. The array stays until the controller is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_actions(
    controller: *const wk_pomdp_controller,
    count: *mut usize,
) -> *const u32 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(controller, "controller").map(|controller| &controller.policy.actions[..])) }
}

/// The node that follows node i after observation o, at i·|Ω| + o; UINT32_MAX where the observation is impossible, or where the
/// controller ends. The array stays until the controller is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_next(
    controller: *const wk_pomdp_controller,
    count: *mut usize,
) -> *const u32 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(controller, "controller").map(|controller| &controller.next[..])) }
}

/// The probability of each part of the mixture; their number goes to `count` unless that is NULL. The array stays until the controller
/// is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_probabilities(
    controller: *const wk_pomdp_controller,
    count: *mut usize,
) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(controller, "controller").map(|controller| &controller.probabilities[..])) }
}

/// The nodes in which a part of the mixture begins: one, or of a model whose start has a fully observed component, one for each value of
/// it. The array stays until the controller is freed; NULL if there is no such part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_starts(
    controller: *const wk_pomdp_controller,
    part: usize,
    count: *mut usize,
) -> *const u32 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(controller, "controller").and_then(|controller| controller.starts(part))) }
}

/// Writes the controller to a file, as "pg" or "dot". With NULL as the format, the extension decides, or else it is "pg".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_write(
    controller: *const wk_pomdp_controller,
    path: *const c_char,
    format: *const c_char,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (kept, path, format) =
            unsafe { (shared(controller, "controller")?, file_path(path)?, file_format(format)?) };
        io::write_controller(path, format.or(Format::of_name(path)).unwrap_or(Format::Pg), &kept.policy, &kept.model)?;
        Ok(Ending::Complete)
    })
}

/// How the run ended, in a word: "gap", "target", "time", "memory", "iterations", "stalled" or "interrupted". The text stays until the
/// controller is freed; NULL if `controller` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_ended(controller: *const wk_pomdp_controller) -> *const c_char {
    // SAFETY: the caller guarantees what the header says.
    look(ptr::null(), || Ok(unsafe { shared(controller, "controller") }?.status.as_ptr()))
}

/// The report of the command as a JSON object. The text stays until the controller is freed; NULL if `controller` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_report(controller: *const wk_pomdp_controller) -> *const c_char {
    // SAFETY: the caller guarantees what the header says.
    look(ptr::null(), || Ok(unsafe { shared(controller, "controller") }?.report.as_ptr()))
}

/// Frees a controller; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_pomdp_controller_free(controller: *mut wk_pomdp_controller) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(controller) };
}
