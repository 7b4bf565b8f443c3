//! The expected sum of the first T rewards, discounted or not, by backward induction.
//!
//! V_T is given. V_t = L V_{t+1} with the Bellman operator L, for t = T−1 … 0: T sweeps, exact up to rounding. A sweep
//! of values of magnitude at most B has an error of at most e = 2k·(u·(R + 2B) + m), in the notation of the
//! [certificate](crate::certificate). Each further sweep multiplies the error by at most γ.

use super::keeper::{Keeper, Stage};
use super::{
    Bounded, Criterion, Ended, Error, Make, Observe, Options, Persistence, Session, problem, signed, signed_value,
};
use crate::backend::Stop;
use crate::certificate::greedy;
use crate::model::Mdp;
use crate::solution::Status;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// The solution for a finite horizon.
#[derive(Clone, Debug)]
pub struct Stages {
    /// V_0, one value per state, and its bounds.
    pub bounded: Bounded,
    /// All steps, if requested.
    pub steps: Option<Steps>,
}

/// Values and policies of all steps, concatenated for t = 0 … T−1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// V_0 … V_{T−1}, one value per state each.
    pub values: Vec<f64>,
    /// π_0 … π_{T−1}, one action per state each.
    pub policies: Vec<u32>,
}

/// Computes V_0 and, if `keep`, all T·S values and actions. V_T is `terminal`, one value per state, or 0. States
/// without actions have value 0 at all times.
///
/// # Errors
/// [`Error::Backend`]. A run that the observer stops returns its [`Status`] instead, with the values of a shorter
/// horizon.
pub fn backward<'a, E: std::error::Error>(
    mdp: &Mdp,
    steps: u32,
    terminal: Option<&[f64]>,
    keep: bool,
    make: &'a dyn Make<Error = E>,
    observe: &'a mut Observe<'a>,
) -> Result<Stages, Error<E>> {
    backward_kept(mdp, steps, terminal, keep, make, Persistence::default(), observe)
}

/// [`backward`] with checkpoints, which hold the values of one step: they are ignored if all steps are kept.
///
/// # Errors
/// As for [`backward`].
pub fn backward_kept<'a, E: std::error::Error>(
    mdp: &Mdp,
    steps: u32,
    terminal: Option<&[f64]>,
    keep: bool,
    make: &'a dyn Make<Error = E>,
    persistence: Persistence<'a>,
    observe: &'a mut Observe<'a>,
) -> Result<Stages, Error<E>> {
    let persistence = if keep { Persistence::default() } else { persistence };
    let mut session = Session::new(Options::default(), make, observe);
    session.persist(Keeper::new(mdp, persistence, || problem(mdp, &Criterion::Horizon(steps), terminal)));
    stages(mdp, steps, terminal, keep, &mut session)
}

pub(super) fn solve<E: std::error::Error>(
    mdp: &Mdp,
    steps: u32,
    session: &mut Session<E>,
) -> Result<Bounded, Error<E>> {
    Ok(stages(mdp, steps, None, false, session)?.bounded)
}

fn stages<E: std::error::Error>(
    mdp: &Mdp,
    steps: u32,
    terminal: Option<&[f64]>,
    keep: bool,
    session: &mut Session<E>,
) -> Result<Stages, Error<E>> {
    let sign = mdp.objective().sign();
    let model = mdp.to_maximize();
    let last = |state: usize| match terminal {
        Some(values) if mdp.choices().count(state) > 0 => sign * values[state],
        _ => 0.0,
    };
    let last: Vec<f64> = (0..mdp.states() as usize).map(last).collect();
    let mut stages = Vec::new();
    let mut budget = u64::from(steps);
    let mut status = Status::Solved;
    let (values, policy) = if steps == 0 {
        (last.clone(), mdp.first_policy())
    } else {
        let part = session.part(&model)?;
        let mut backend = session.make(&part)?;
        let place = (0..mdp.states()).collect();
        let kept = session.keeper.enter(Stage::Values, place, mdp.states() as usize);
        if kept.is_some() {
            // The last step is taken in any case.
            budget -= session.keeper.earlier_sweeps().min(budget - 1);
        }
        let mut values = kept.unwrap_or_else(|| last.clone());
        backend.reset(Some(&values)).map_err(Error::Backend)?;
        let mut policy = Vec::new();
        while budget > 0 && status == Status::Solved {
            // Unless all steps are kept, run all but the last in one call. No change is below 0, so the stopping rule
            // is never met.
            let mut before = if keep { 0 } else { budget - 1 };
            budget -= before;
            if session.sweep(&mut *backend, Stop::Change(0.0), &mut before)? == Ended::Interrupted && before > 0 {
                status = Status::Interrupted;
            }
            budget += before;
            if !keep {
                values = backend.values().map_err(Error::Backend)?;
                session.keeper.note(&values);
            }
            let done = backend.backup(Stop::Change(0.0), 1).map_err(Error::Backend)?;
            budget -= 1;
            // π_t is greedy with respect to V_{t+1}.
            policy = greedy(&model, &values);
            values = backend.values().map_err(Error::Backend)?;
            if keep {
                stages.push((values.iter().map(|&v| signed_value(mdp.objective(), v)).collect(), policy.clone()));
            }
            if session.record_round(done.sweeps, done.residual()).is_break() && budget > 0 {
                status = Status::Interrupted;
            }
        }
        (values, policy)
    };
    let error = error(mdp, u64::from(steps) - budget, &last);
    let bound = |shift: f64| values.iter().map(|v| v + shift).collect::<Vec<_>>();
    let (lower, upper) = (bound(-error), bound(error));
    let (lower, upper) = signed(mdp.objective(), lower, upper);
    let bounded = session.bounded(lower, upper, policy, status);
    let steps = keep.then(|| {
        let (values, policies): (Vec<Vec<f64>>, Vec<_>) = stages.into_iter().rev().unzip();
        Steps { values: values.concat(), policies: policies.concat() }
    });
    Ok(Stages { bounded, steps })
}

/// Upper bound of the rounding error of V_0 after `steps` sweeps from V_T = `last`.
fn error(mdp: &Mdp, steps: u64, last: &[f64]) -> f64 {
    let (mut reward, mut sum, mut longest) = (0.0_f64, 0.0_f64, 0);
    for row in 0..mdp.rows() {
        let (_, probs) = mdp.transitions().row(row);
        let size =
            mdp.rewards_of(row).zip(probs).fold(mdp.action_reward(row).abs(), |size, (r, p)| size + (p * r).abs());
        (reward, sum, longest) = (reward.max(size), sum.max(probs.iter().sum()), longest.max(probs.len()));
    }
    let gamma = mdp.gamma() * sum * (1.0 + 4.0 * longest as f64 * UNIT);
    let terms = (longest + 4) as f64;
    let mut size = last.iter().map(|v| v.abs()).fold(0.0, f64::max);
    let mut error = 0.0;
    for _ in 0..steps {
        error = gamma * error + 2.0 * terms * (UNIT * (reward + 2.0 * size) + f64::MIN_POSITIVE);
        size = (reward + gamma * size) * (1.0 + 4.0 * f64::EPSILON);
    }
    // Covers the rounding of these sums and of the bounds.
    error * (1.0 + 1e-3) + 4.0 * UNIT * size
}
