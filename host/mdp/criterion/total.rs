//! The expected undiscounted sum of rewards, until a set is reached or for ever.
//!
//! Written as a maximum with rewards f = ±r, there are three cases:
//!
//! - *Gains*, f ≥ 0. With a goal, a state from which some policy may miss it has value ∞. Without a goal, a state from
//!   which an end component with a positive reward is reachable has value ∞. The remaining components earn nothing and
//!   are merged.
//! - *Costs*, f ≤ 0. A state from which no policy surely reaches the goal has value −∞. Without a goal, the end and the
//!   components where staying is free take the place of the goal. Components with free rows are merged: sweeps would
//!   stay in one, and take it for the goal. Afterwards, every policy that does not end pays without bound.
//! - *Both signs*. The sum is defined if every policy reaches the goal, or, without a goal, if no end component has
//!   nonzero rewards.

use super::direct::model::expected;
use super::direct::{Big, Numbers};
use super::proper::{self, ExactTerms, Policies};
use super::{Bounded, Error, Session, signed};
use crate::analysis::graph::{EndComponents, Graph, NO_COMPONENT, NO_ROW};
use crate::analysis::quotient::QuotientParts;
use crate::model::Objective;

/// Which states have infinite values, and which components are merged in the other states.
struct Case {
    /// The value of the states that are not `finite`.
    infinity: f64,
    /// Per vertex, whether its value is finite.
    finite: Vec<bool>,
    /// Per row, whether it leads to finite values only.
    allowed: Vec<bool>,
    /// Components to merge.
    components: EndComponents,
    policies: Policies,
    /// One row per state, for the states that are not finite.
    rows: Vec<usize>,
}

pub(super) fn solve<E: std::error::Error>(
    graph: &Graph,
    goal: Option<&[bool]>,
    session: &mut Session<E>,
) -> Result<Bounded, Error<E>> {
    let mdp = graph.mdp();
    let states = mdp.states() as usize;
    let sign = mdp.objective().sign();
    let rewards: Vec<f64> = mdp.expected_rewards().iter().map(|r| sign * r).collect();
    let is_goal = |state: usize| goal.is_some_and(|goal| goal[state]);
    let counts = |row: &usize| !is_goal(graph.owner(*row));
    let has = |wanted: fn(f64) -> bool| (0..mdp.rows()).filter(counts).any(|row| wanted(rewards[row]));
    let (gains, costs) = (has(|f| f > 0.0), has(|f| f < 0.0));
    let case = match (gains, costs, mdp.objective(), goal) {
        (true, true, _, Some(goal)) => {
            let case = all_proper(graph, goal);
            if let Some(state) = (0..states).find(|&state| !case.finite[state]) {
                return Err(Error::Missed { state });
            }
            case
        }
        (true, true, _, None) => {
            let case = gains_for_ever(graph, &rewards, |f| f != 0.0);
            if let Some(state) = (0..states).find(|&state| !case.finite[state]) {
                return Err(Error::Recurrent { state });
            }
            case
        }
        // Rewards that are all 0 count as gains when maximising and as costs when minimising.
        (true, false, _, Some(goal)) | (false, false, Objective::Maximize, Some(goal)) => all_proper(graph, goal),
        (true, false, _, None) | (false, false, Objective::Maximize, None) => {
            gains_for_ever(graph, &rewards, |f| f > 0.0)
        }
        (false, _, _, goal) => some_proper(graph, goal, &rewards),
    };

    let Case { infinity, finite, allowed, components, policies, rows } = case;
    let open: Vec<bool> = (0..states).map(|s| finite[s] && !is_goal(s) && !graph.rows(s).is_empty()).collect();
    let allowed: Vec<bool> = (0..mdp.rows()).map(|row| allowed[row] && open[graph.owner(row)]).collect();
    let free = vec![0.0; components.count as usize];
    let quotient = QuotientParts {
        graph,
        open: &open,
        allowed: &allowed,
        components: &components,
        stay: goal.is_none().then_some(&free[..]),
        reward: |row| rewards[row],
        reward_size: reward_size(graph),
    }
    .quotient()?;
    let earned = |row: usize, sum: &Big, numbers: Numbers| expected(mdp, row, sign, sum, numbers);
    let source = ExactTerms { graph, reward: &earned, stay: &|_, _| Big::ZERO };
    let found = proper::solve(&quotient, &source, policies, session)?;

    let settled = |state: usize| if finite[state] { 0.0 } else { infinity };
    let (lower, upper) = (quotient.values(&found.lower, settled), quotient.values(&found.upper, settled));
    let (lower, upper) = signed(mdp.objective(), lower, upper);
    let stay = |state: usize| graph.rows(state).find(|&row| components.inside[row]).unwrap_or(NO_ROW);
    let policy = quotient.policy(graph, &components, &found.rows, stay, |state| rows[state]);
    Ok(session.bounded(lower, upper, policy, found.status))
}

/// Maximum sum of the magnitudes of the terms of an expected reward.
pub(super) fn reward_size(graph: &Graph) -> f64 {
    let mdp = graph.mdp();
    let size = |row: usize| {
        let (_, probs) = mdp.transitions().row(row);
        mdp.rewards_of(row).zip(probs).fold(mdp.action_reward(row).abs(), |sum, (r, p)| sum + (p * r).abs())
    };
    (0..mdp.rows()).map(size).fold(0.0, f64::max)
}

/// With a goal: a state has value ∞ if some policy may miss the goal.
fn all_proper(graph: &Graph, goal: &[bool]) -> Case {
    let finite = graph.must_reach(goal);
    let avoid = graph.can_avoid(goal);
    let astray = graph.can_reach(&avoid.contains, |row| !goal[graph.owner(row)]).row;
    let rows = avoid.row.iter().zip(astray).enumerate();
    let rows = rows.map(|(vertex, (&avoid_row, astray))| if avoid.contains[vertex] { avoid_row } else { astray });
    Case {
        infinity: f64::INFINITY,
        allowed: (0..graph.mdp().rows()).map(|row| finite[graph.owner(row)]).collect(),
        rows: rows.collect(),
        finite,
        components: EndComponents::none(graph),
        policies: Policies::Proper,
    }
}

/// Without a goal: a state has value ∞ if it can reach an end component with a reward that `count` accepts.
fn gains_for_ever(graph: &Graph, rewards: &[f64], count: fn(f64) -> bool) -> Case {
    let components = graph.end_components(|_| true);
    let mut earning = vec![NO_ROW; components.count as usize];
    for row in (0..rewards.len()).filter(|&row| components.inside[row] && count(rewards[row])) {
        earning[components.of_state[graph.owner(row)] as usize] = row;
    }
    // Inside such a component, move to the state of its earning row; elsewhere, move to such a component.
    let mut sources = vec![false; graph.end() + 1];
    earning.iter().filter(|&&row| row != NO_ROW).for_each(|&row| sources[graph.owner(row)] = true);
    let within = graph.can_reach(&sources, |row| components.inside[row]);
    let reached = graph.can_reach(&within.contains, |_| true);
    let row = |state: usize| match components.of_state[state] {
        component if sources[state] => earning[component as usize],
        _ if within.contains[state] => within.row[state],
        _ => reached.row[state],
    };
    Case {
        infinity: f64::INFINITY,
        allowed: vec![true; rewards.len()],
        rows: (0..graph.end()).map(row).collect(),
        finite: reached.contains.iter().map(|infinite| !infinite).collect(),
        components,
        policies: Policies::Proper,
    }
}

/// Costs: a state has value −∞ if no policy surely reaches the goal or, without a goal, the end or a free component.
fn some_proper(graph: &Graph, goal: Option<&[bool]>, rewards: &[f64]) -> Case {
    let is_goal = |state: usize| goal.is_some_and(|goal| goal[state]);
    let target = match goal {
        Some(goal) => goal.to_vec(),
        None => {
            let free = graph.end_components(|row| rewards[row] == 0.0);
            let stops = |vertex| graph.rows(vertex).is_empty() || free.of_state[vertex] != NO_COMPONENT;
            (0..=graph.end()).map(stops).collect()
        }
    };
    let finite = graph.can_ensure(&target).contains;
    let stays = |row: usize| finite[graph.owner(row)] && graph.successors(row).all(|next| finite[next]);
    let allowed: Vec<bool> = (0..rewards.len()).map(stays).collect();
    let free = |row: usize| allowed[row] && rewards[row] == 0.0 && !is_goal(graph.owner(row));
    let components = graph.end_components(free);
    let rows = vec![NO_ROW; graph.end()];
    Case { infinity: f64::NEG_INFINITY, finite, allowed, components, policies: Policies::SomeProper, rows }
}
