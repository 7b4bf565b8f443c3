//! Comparison of two solutions by the rule of Aydin, *Policy Iteration on the GPU* (2025), Appendix D.2.
//!
//! Two solutions agree if their policies match on at least 95 % of the states and all their values agree within 10⁻⁴.
//! Policies may differ where actions tie. Input is what `warpkov mdp solve` writes with `--out` or `--all-steps`.

use std::io::{self, Write};

use serde::Serialize;

use crate::io::Solved;
use warpkov_common::report::{Report, write_object};

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

/// Compares two solutions.
pub fn compare(first: &Solved, second: &Solved, tolerance: Tolerance) -> Comparison {
    let states = [first.values.len(), second.values.len()];
    let plans = first.steps > 0 && second.steps > 0;
    if states[0] != states[1] {
        return Comparison { agree: false, states, plans, tolerance, differences: None };
    }
    let same_action = first.policy.iter().zip(&second.policy).filter(|(a, b)| a == b).count();
    let mut differences = Differences {
        same_action,
        max_difference: 0.0,
        mean_difference: 0.0,
        worst_state: 0,
        worst: String::new(),
        within: 0,
    };
    for (state, (a, b)) in first.values.iter().zip(&second.values).enumerate() {
        // NaN agrees with nothing.
        let difference = match (a - b).abs() {
            _ if a == b => 0.0,
            difference if difference.is_nan() => f64::INFINITY,
            difference => difference,
        };
        differences.within += usize::from(difference <= tolerance.value_tolerance);
        differences.mean_difference += difference / states[0] as f64;
        if difference > differences.max_difference {
            differences.max_difference = difference;
            differences.worst_state = state;
        }
    }
    differences.worst = first.place(differences.worst_state);
    let rate = same_action as f64 / states[0] as f64;
    let agree = rate >= tolerance.policy_agreement && differences.within == states[0];
    Comparison { agree, states, plans, tolerance, differences: Some(differences) }
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
            found.same_action,
            self.states[0],
            percent(found.same_action),
            100.0 * policy_agreement
        )?;
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

    #[test]
    fn agreement_follows_the_rule_of_the_source() {
        let solved =
            |policy: Vec<u32>, value: f64| Solved { values: vec![value; policy.len()], policy, ..Solved::default() };
        let first = solved(vec![0; 100], 1.0);
        let mut policy = vec![0; 100];
        policy[..5].fill(1);
        assert!(compare(&first, &solved(policy.clone(), 1.00009), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(policy.clone(), 1.00011), Tolerance::default()).agree);
        policy[5] = 1;
        assert!(!compare(&first, &solved(policy, 1.0), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(vec![0; 99], 1.0), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(vec![0; 100], f64::NAN), Tolerance::default()).agree);
    }
}
