//! What is left open: the order of the states, and the method where only a trial can tell.

use std::time::Instant;

use warpkov_runtime::choose::DeviceChoice;

use super::once::once;
use super::session::{Start, Watch};
use crate::analysis::reorder::Order;
use crate::auto::{Features, MAX_TRIAL_SWEEPS};
use crate::error::SolveError;
use crate::model::Mdp;
use crate::options::{Method, Precision, Reorder, SolveOptions};
use crate::solution::{Phases, Solution, Status};
use crate::team::Team;

/// Solves in the model's own state order, with a trial of value iteration if the method is open.
pub(super) fn by_method(
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
    let mut solution = once(mdp, team, start, options, features, false, watch)?;
    solution.phases.prepare += chosen;
    solution.setup += chosen;
    Ok(solution)
}

/// Whether `auto` may switch the method: on the CPU, in `f64`, if value iteration may need many sweeps.
fn needs_trial(features: &Features, options: &SolveOptions) -> bool {
    let on_cpu = || match options.device {
        DeviceChoice::Cpu => true,
        DeviceChoice::Auto => features.cost().suits_cpu() || !options.device.runs_kernels(),
        DeviceChoice::Cuda(_) | DeviceChoice::Emulated => false,
    };
    let exact = matches!(options.precision, Precision::F64 | Precision::Mixed);
    exact
        && options.limits.target.epsilon().is_some()
        && features.needs_trial()
        && options.limits.max_sweeps > MAX_TRIAL_SWEEPS
        && on_cpu()
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
    let mut trial = once(mdp, team, start, &trial, None, true, watch)?;
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
    let mut solution = once(mdp, team, start, &krylov, None, false, watch)?;
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
pub(super) fn order(mdp: &Mdp, options: &SolveOptions) -> Option<(Order, String)> {
    match options.reorder {
        Reorder::None => None,
        Reorder::Rcm => Some((Order::rcm(mdp), "states are in reverse Cuthill–McKee order".to_owned())),
        Reorder::Auto => {
            // The baseline methods keep the model's own order.
            let methods = [Method::Values, Method::GaussSeidel, Method::Modified, Method::Krylov];
            if options.method.is_some_and(|method| !methods.contains(&method)) {
                return None;
            }
            let sweeps = || Features::new(mdp, options.limits.target).sweeps;
            let (order, [before, after]) = Order::worthwhile(mdp, sweeps)?;
            let note = format!(
                "auto chose reverse Cuthill–McKee order: mean distance of successors {after:.0} states, was {before:.0}"
            );
            Some((order, note))
        }
    }
}
