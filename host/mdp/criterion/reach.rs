//! The maximum or minimum probability of reaching a set of states.
//!
//! The graph alone determines the states of probability 0 and of probability 1. On the other states, the probability is
//! a total reward: a row earns its probability of entering states of probability 1, and entering a state of probability
//! 0 ends the process. When maximising, end components are merged: in a component that a process need not leave, every
//! sufficiently large value would be a fixed point. When minimising, no end component is left, because staying in one
//! avoids the set.

use super::direct::{Big, Numbers, size};
use super::proper::{self, ExactTerms, Policies};
use super::{Bounded, Error, Session, signed};
use crate::analysis::graph::{EndComponents, Graph, NO_ROW};
use crate::analysis::quotient::QuotientParts;
use crate::model::Objective;

pub(super) fn solve<E: std::error::Error>(
    graph: &Graph,
    goal: &[bool],
    session: &mut Session<E>,
) -> Result<Bounded, Error<E>> {
    let mdp = graph.mdp();
    let states = mdp.states() as usize;
    let sign = mdp.objective().sign();
    // The states of probability 0 and 1, and rows that achieve these probabilities.
    let (zero, one, rows) = match mdp.objective() {
        Objective::Maximize => {
            let zero = graph.can_reach(goal, |_| true).contains.iter().map(|reached| !reached).collect();
            let sure = graph.can_ensure(goal);
            (zero, sure.contains, sure.row)
        }
        Objective::Minimize => {
            let avoid = graph.can_avoid(goal);
            (avoid.contains, graph.must_reach(goal), avoid.row)
        }
    };
    let open: Vec<bool> = (0..states).map(|state| !zero[state] && !one[state]).collect();
    let allowed: Vec<bool> = (0..mdp.rows()).map(|row| open[graph.owner(row)]).collect();
    let components = match mdp.objective() {
        Objective::Maximize => graph.end_components(|row| allowed[row]),
        Objective::Minimize => EndComponents::none(graph),
    };
    let reward = |row: usize| {
        let (cols, probs) = mdp.transitions().row(row);
        let sum = probs.iter().sum::<f64>() + mdp.end(row);
        let arrived = cols.iter().zip(probs).filter(|(col, _)| one[**col as usize]).map(|(_, p)| p);
        sign * (arrived.sum::<f64>() / sum)
    };
    let quotient = QuotientParts {
        graph,
        open: &open,
        allowed: &allowed,
        components: &components,
        stay: None,
        reward,
        reward_size: 0.0,
    }
    .quotient()?;
    let arrived = |row: usize, _: &Big, numbers: Numbers| {
        let (cols, probs) = mdp.transitions().row(row);
        let arrived = cols.iter().zip(probs).filter(|(col, _)| one[**col as usize]).map(|(_, &p)| numbers.big(p));
        let reward = arrived.fold(Big::ZERO, |sum, p| sum + p) * numbers.big(sign);
        let magnitude = size(&reward);
        (reward, magnitude)
    };
    let source = ExactTerms { graph, reward: &arrived, stay: &|_, _| Big::ZERO };
    let found = proper::solve(&quotient, &source, Policies::Proper, session)?;

    let settled = |state: usize| if one[state] { sign } else { 0.0 };
    let (lower, upper) = (quotient.values(&found.lower, settled), quotient.values(&found.upper, settled));
    let (mut lower, mut upper) = signed(mdp.objective(), lower, upper);
    lower.iter_mut().chain(&mut upper).for_each(|bound| *bound = bound.clamp(0.0, 1.0));
    let settled = |state: usize| if goal[state] { NO_ROW } else { rows[state] };
    let policy = quotient.policy(graph, &components, &found.rows, |_| NO_ROW, settled);
    Ok(session.bounded(lower, upper, policy, found.status))
}
