//! Small models, their solutions on one core, and the check of bounds.

use std::convert::Infallible;
use std::ops::ControlFlow;

use warpkov_mdp::backends::cpu::Serial;
use warpkov_mdp::criterion::{Bounded, Boxed, Criterion, Error, Make, Options, solve};
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts, Objective};
use warpkov_mdp::solution::Status;

/// A row: successors with probabilities, and the reward. The process ends with probability 1 minus their sum.
pub type Row = (Vec<(u32, f64)>, f64);

pub fn model(objective: Objective, states: &[Vec<Row>]) -> Mdp {
    let (mut choices, mut row_ptr, mut col, mut val) = (vec![0], vec![0], Vec::new(), Vec::new());
    let (mut ends, mut action_rewards) = (Vec::new(), Vec::new());
    for state in states {
        for (successors, reward) in state {
            col.extend(successors.iter().map(|(successor, _)| *successor));
            val.extend(successors.iter().map(|(_, p)| *p));
            row_ptr.push(col.len() as u64);
            let end = 1.0 - successors.iter().map(|(_, p)| p).sum::<f64>();
            ends.push(if end.abs() < 1e-9 { 0.0 } else { end });
            action_rewards.push(*reward);
        }
        choices.push(action_rewards.len() as u64);
    }
    MdpParts {
        states: states.len() as u32,
        choices: Choices::Ragged(choices.into()),
        gamma: 1.0,
        objective,
        transitions: Csr::new(row_ptr, col, val).unwrap(),
        ends: ends.into(),
        action_rewards: action_rewards.into(),
        ..MdpParts::default()
    }
    .validated()
    .unwrap()
}

/// Gambler's ruin with a fair coin: from i to i ± 1 until 0 or `n`. There is one action.
pub fn gambler(n: u32) -> Mdp {
    let state = |i: u32| match i {
        _ if i == 0 || i == n => vec![(vec![(i, 1.0)], 0.0)],
        _ => vec![(vec![(i - 1, 0.5), (i + 1, 0.5)], 1.0)],
    };
    model(Objective::Maximize, &(0..=n).map(state).collect::<Vec<_>>())
}

/// Makes backends that use one core.
pub struct OneCore;

impl Make for OneCore {
    type Error = Infallible;

    fn make<'m>(&'m self, mdp: &'m Mdp) -> Result<Boxed<'m, Infallible>, Infallible> {
        Ok(Box::new(Serial::<f64>::new(mdp)))
    }
}

pub fn run(mdp: &Mdp, criterion: &Criterion, options: &Options) -> Result<Bounded, Error<Infallible>> {
    solve(mdp, criterion, options, &OneCore, &mut |_| ControlFlow::Continue(()))
}

/// Solves, and checks that the bounds are within `epsilon`.
pub fn solved(mdp: &Mdp, criterion: &Criterion, epsilon: f64) -> Bounded {
    let found = run(mdp, criterion, &Options { epsilon, ..Options::default() }).unwrap();
    assert_eq!(found.status, Status::Solved);
    assert!(found.error() <= epsilon, "{} > {epsilon}", found.error());
    found
}

#[track_caller]
pub fn assert_holds(found: &Bounded, state: usize, exact: f64) {
    let (lower, upper) = (found.lower[state], found.upper[state]);
    assert!(lower <= exact && exact <= upper, "state {state}: {exact} is not in [{lower}, {upper}]");
}
