//! Comparison of two solutions by the rule of Aydin, *Policy Iteration on the GPU* (2025), Appendix D.2.
//!
//! Two solutions agree if their policies match on at least 95 % of the states and all their values agree within 10⁻⁴.
//! Input is what `warpkov mdp solve` writes with `--out` or `--all-steps`.
//!
//! Where two actions are equally good, two correct solutions may differ, and more than 5 % of the states may be such. With the model, policies match
//! on a state also if the two actions *tie* there: by the values of each solution, their Q-factors r(s, a) + γ Σ P(s'|s, a)·V(s') differ by at most
//! the tolerance of values.

use std::io::{self, Write};

use serde::Serialize;

use crate::certificate::q_factor;
use crate::io::SolutionFile;
use crate::model::Mdp;
use warpkov_common::report::{Report, write_object};

/// The number of ties that the text shows.
const SHOWN: usize = 5;

/// Permitted disagreement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// Minimum share of states with equal actions, in [0, 1].
    pub policy_agreement: f64,
    /// Maximum difference of two values.
    pub value_tolerance: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { policy_agreement: 0.95, value_tolerance: 1e-4 }
    }
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether the solutions agree within the tolerance.
    pub agree: bool,
    /// Number of states of each solution; of plans, the number of steps times that.
    pub states: [usize; 2],
    /// Whether these are plans.
    #[serde(skip)]
    pub plans: bool,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// The differences; `None` if the numbers of states differ.
    pub differences: Option<Differences>,
}

/// Differences of two solutions with the same number of states.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differences {
    /// Number of states with equal actions.
    pub same_action: usize,
    /// The states where actions differ and tie, in ascending order; `None` without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ties: Option<Vec<Tie>>,
    /// The greatest difference of the Q-factors of two actions, by either solution's values; `None` without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_action_gap: Option<f64>,
    /// max |V₁(s) − V₂(s)|.
    pub max_difference: f64,
    /// Mean of |V₁(s) − V₂(s)|.
    pub mean_difference: f64,
    /// State of the maximum difference.
    pub worst_state: usize,
    /// The same by name, with its step in a plan.
    pub worst: String,
    /// Number of states whose values agree within the tolerance.
    pub within: usize,
}

/// Two actions of a state that are equally good within the tolerance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tie {
    /// The state.
    pub state: String,
    /// Its action in each solution.
    pub actions: [String; 2],
    /// The Q-factors of the two actions, by the values of the first solution.
    pub q: [f64; 2],
}

/// Why solutions cannot be compared with a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// A plan has a policy for each step.
    #[error("plans are compared without a model")]
    Plan,
    /// The number of states is another.
    #[error("a solution has {solution} states, and the model {model}")]
    States {
        /// States of the solution.
        solution: usize,
        /// States of the model.
        model: usize,
    },
    /// The state has no such action.
    #[error("a solution takes action {action} in state {state}, which has {actions} actions in the model")]
    Action {
        /// The action.
        action: u32,
        /// The state.
        state: String,
        /// The state's number of actions.
        actions: usize,
    },
}

/// Compares two solutions, and with a model also the Q-factors of actions that differ.
///
/// # Errors
/// [`Mismatch`] if the solutions cannot be of the model.
pub fn compare(
    first: &SolutionFile,
    second: &SolutionFile,
    tolerance: Tolerance,
    model: Option<&Mdp>,
) -> Result<Comparison, Mismatch> {
    let states = [first.values.len(), second.values.len()];
    let plans = first.steps > 0 && second.steps > 0;
    if let Some(mdp) = model {
        if first.steps > 0 || second.steps > 0 {
            return Err(Mismatch::Plan);
        }
        let model = mdp.states() as usize;
        states.into_iter().try_for_each(|solution| match solution == model {
            true => Ok(()),
            false => Err(Mismatch::States { solution, model }),
        })?;
    }
    if states[0] != states[1] {
        return Ok(Comparison { agree: false, states, plans, tolerance, differences: None });
    }
    let same_action = first.policy.iter().zip(&second.policy).filter(|(a, b)| a == b).count();
    let mut differences = Differences {
        same_action,
        ties: None,
        max_action_gap: None,
        max_difference: 0.0,
        mean_difference: 0.0,
        worst_state: 0,
        worst: String::new(),
        within: 0,
    };
    for (state, (a, b)) in first.values.iter().zip(&second.values).enumerate() {
        let difference = distance(*a, *b);
        differences.within += usize::from(difference <= tolerance.value_tolerance);
        differences.mean_difference += difference / states[0] as f64;
        if difference > differences.max_difference {
            differences.max_difference = difference;
            differences.worst_state = state;
        }
    }
    differences.worst = first.place(differences.worst_state);
    if let Some(mdp) = model {
        let (ties, gap) = ties(first, second, tolerance.value_tolerance, mdp)?;
        (differences.ties, differences.max_action_gap) = (Some(ties), Some(gap));
    }
    let rate = differences.matching() as f64 / states[0] as f64;
    let agree = rate >= tolerance.policy_agreement && differences.within == states[0];
    Ok(Comparison { agree, states, plans, tolerance, differences: Some(differences) })
}

/// |a − b|; NaN agrees with nothing.
fn distance(a: f64, b: f64) -> f64 {
    match (a - b).abs() {
        _ if a == b => 0.0,
        difference if difference.is_nan() => f64::INFINITY,
        difference => difference,
    }
}

/// The states whose actions differ and tie, and the greatest difference of two Q-factors.
fn ties(first: &SolutionFile, second: &SolutionFile, tolerance: f64, mdp: &Mdp) -> Result<(Vec<Tie>, f64), Mismatch> {
    let (mut ties, mut max_gap) = (Vec::new(), 0.0_f64);
    for (state, (&a, &b)) in (0..).zip(first.policy.iter().zip(&second.policy)) {
        let rows = mdp.choices().rows(state as usize);
        if rows.is_empty() {
            continue;
        }
        if let Some(action) = [a, b].into_iter().find(|&action| action as usize >= rows.len()) {
            return Err(Mismatch::Action { action, state: mdp.state_name(state), actions: rows.len() });
        }
        if a == b {
            continue;
        }
        let q = |values: &[f64]| [a, b].map(|action| q_factor(mdp, values, rows.start + action as usize));
        let (ours, theirs) = (q(&first.values), q(&second.values));
        let gap = distance(ours[0], ours[1]).max(distance(theirs[0], theirs[1]));
        max_gap = max_gap.max(gap);
        if gap <= tolerance {
            let actions = [a, b].map(|action| mdp.action_name(state, action));
            ties.push(Tie { state: mdp.state_name(state), actions, q: ours });
        }
    }
    Ok((ties, max_gap))
}

impl Differences {
    /// Number of states whose actions are equal or tie.
    fn matching(&self) -> usize {
        self.same_action + self.ties.as_ref().map_or(0, Vec::len)
    }
}

impl Report for Comparison {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_object(out, self)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let verdict = if self.agree { "The solutions agree." } else { "The solutions differ." };
        let Some(found) = &self.differences else {
            let [first, second] = self.states;
            return writeln!(out, "{verdict} The first has {first} states, the second {second}.");
        };
        let percent = |count: usize| 100.0 * count as f64 / self.states[0] as f64;
        let Tolerance { policy_agreement, value_tolerance } = self.tolerance;
        let of = if self.plans { "states of all steps" } else { "states" };
        writeln!(
            out,
            "Policies match on {} of {} {of} ({:.2} %, at least {} % required)",
            found.matching(),
            self.states[0],
            percent(found.matching()),
            100.0 * policy_agreement
        )?;
        if let (Some(ties), Some(gap)) = (&found.ties, found.max_action_gap) {
            writeln!(
                out,
                "Actions are equal on {}; of {} others, {} tie. Q-factors differ by at most {gap:.3e}",
                found.same_action,
                self.states[0] - found.same_action,
                ties.len()
            )?;
            for Tie { state, actions: [a, b], q } in ties.iter().take(SHOWN) {
                writeln!(out, "  state {state}: action {a} (Q = {:.5e}), action {b} (Q = {:.5e})", q[0], q[1])?;
            }
            if ties.len() > SHOWN {
                writeln!(out, "  … and {} more (--json has all)", ties.len() - SHOWN)?;
            }
        }
        writeln!(
            out,
            "Values within {value_tolerance:e} on {} of {} {of} ({:.2} %, all required)",
            found.within,
            self.states[0],
            percent(found.within)
        )?;
        writeln!(
            out,
            "Difference: at most {:.3e} ({}), {:.3e} on average",
            found.max_difference, found.worst, found.mean_difference
        )?;
        writeln!(out, "{verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::SlipGrid;
    use crate::model::NO_ACTION;

    #[test]
    fn agreement_follows_the_rule_of_the_source() {
        let solved = |policy: Vec<u32>, value: f64| SolutionFile {
            values: vec![value; policy.len()],
            policy,
            ..SolutionFile::default()
        };
        let first = solved(vec![0; 100], 1.0);
        let compare = |a: &SolutionFile, b: &SolutionFile, tolerance| super::compare(a, b, tolerance, None).unwrap();
        let mut policy = vec![0; 100];
        policy[..5].fill(1);
        assert!(compare(&first, &solved(policy.clone(), 1.00009), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(policy.clone(), 1.00011), Tolerance::default()).agree);
        policy[5] = 1;
        assert!(!compare(&first, &solved(policy, 1.0), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(vec![0; 99], 1.0), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(vec![0; 100], f64::NAN), Tolerance::default()).agree);
    }

    #[test]
    fn equally_good_actions_tie() {
        // On an open grid without slips, right and down are equally good almost everywhere; left is not.
        let mdp = SlipGrid { width: 6, height: 5, slip: 0.0, ..SlipGrid::default() }.generate().unwrap();
        let mut values = vec![0.0; mdp.states() as usize];
        for _ in 0..3000 {
            let best = |state| mdp.choices().rows(state).map(|row| q_factor(&mdp, &values, row)).max_by(f64::total_cmp);
            values = (0..values.len()).map(|state| best(state).unwrap_or(0.0)).collect();
        }
        let solved = |policy: Vec<u32>| SolutionFile { values: values.clone(), policy, ..SolutionFile::default() };
        let best = |state: usize, last: bool| {
            let q = |a: &u32| q_factor(&mdp, &values, mdp.choices().first(state) + *a as usize);
            let actions = 0..mdp.choices().count(state) as u32;
            let most = actions.clone().map(|a| q(&a)).fold(f64::NEG_INFINITY, f64::max);
            let mut ties = actions.filter(|a| q(a) >= most - 1e-5);
            if last { ties.next_back() } else { ties.next() }.unwrap_or(NO_ACTION)
        };
        let all = |last| (0..mdp.states() as usize).map(|state| best(state, last)).collect::<Vec<_>>();
        let (first, second) = (solved(all(false)), solved(all(true)));
        let differ = first.policy.iter().zip(&second.policy).filter(|(a, b)| a != b).count();
        assert!(differ * 20 > first.policy.len(), "{differ} ties");
        let tolerance = Tolerance::default();
        assert!(!compare(&first, &second, tolerance, None).unwrap().agree);
        let found = compare(&first, &second, tolerance, Some(&mdp)).unwrap();
        let differences = found.differences.unwrap();
        assert!(found.agree && differences.ties.unwrap().len() == differ && differences.max_action_gap.unwrap() < 1e-4);
        // An action that moves away does not tie.
        let mut wrong = second.policy.clone();
        for (state, action) in wrong.iter_mut().enumerate() {
            let q = |a: &u32| q_factor(&mdp, &values, mdp.choices().first(state) + *a as usize);
            *action = (0..mdp.choices().count(state) as u32).min_by(|a, b| q(a).total_cmp(&q(b))).unwrap_or(NO_ACTION);
        }
        let found = compare(&first, &solved(wrong), tolerance, Some(&mdp)).unwrap();
        assert!(!found.agree && found.differences.unwrap().max_action_gap.unwrap() > 0.01);
        // Solutions of other models, and plans.
        let wrong = solved(vec![9; first.policy.len()]);
        assert!(matches!(compare(&first, &wrong, tolerance, Some(&mdp)), Err(Mismatch::Action { action: 9, .. })));
        let short = SolutionFile { values: vec![0.0; 3], policy: vec![0; 3], ..SolutionFile::default() };
        let refused = compare(&first, &short, tolerance, Some(&mdp));
        assert_eq!(refused, Err(Mismatch::States { solution: 3, model: first.values.len() }));
        let plan = SolutionFile { steps: 1, ..first.clone() };
        assert_eq!(compare(&plan, &first, tolerance, Some(&mdp)), Err(Mismatch::Plan));
    }
}
