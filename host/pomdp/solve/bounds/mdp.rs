//! The MDP bound: the value of the process with observed states.

use std::ops::ControlFlow;

use crate::model::Pomdp;
use warpkov_mdp::options::{Limits, Precision, SolveOptions, Target};
use warpkov_mdp::solution::Round;
use warpkov_mdp::{Solve, SolveError};
use warpkov_runtime::choose::DeviceChoice;

/// An upper bound on V(s) of the underlying MDP: the result of value iteration to `epsilon` plus its certified error,
/// also if it ends early because it is `late`. `rewards` are r(s, a) at index s·A + a.
///
/// # Errors
/// The errors of [`Solve::run`].
pub fn mdp(
    model: &Pomdp,
    rewards: &[f64],
    epsilon: f64,
    late: &mut dyn FnMut() -> bool,
) -> Result<Vec<f64>, SolveError> {
    let limits = Limits { target: Target::Epsilon(epsilon), ..Limits::default() };
    let options =
        SolveOptions { device: DeviceChoice::Cpu, precision: Precision::F64, limits, ..SolveOptions::default() };
    let mut observe = |_: &Round| if late() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let solution = Solve::new(model.process(), &options).observed(&mut observe).run()?;
    // Without a certificate, max r / (1 − γ) is an upper bound.
    let most = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max) / (1.0 - model.gamma());
    let raised = |value: f64| solution.certificate.bound.map_or(most, |bound| (value + bound).next_up());
    Ok(solution.values.into_iter().map(raised).collect())
}
