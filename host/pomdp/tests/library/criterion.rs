//! Criteria without a discount: bounds against exact recursions, and controllers against the chain that they make.

use std::ops::ControlFlow;

use warpkov_mdp::criterion::{Cpu, Criterion, Options, solve as solve_mdp};
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts, Objective};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::criterion::{Undiscounted, solve};
use warpkov_pomdp::io::{Format, read_from};
use warpkov_pomdp::model::{Pomdp, PomdpParts};
use warpkov_pomdp::options::{Gap, Limits};
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::solution::Status;
use warpkov_runtime::choose::DeviceChoice;

use crate::common::model_of;
use crate::random::Random;

/// A hidden door. Waiting may tell which; the wrong door is the end.
const DOORS: &str = "discount: 1\nvalues: reward\nstates: left right good bad\nactions: wait l r\nobservations: a b\n\
    start: 0.5 0.5 0 0\nT: wait\nidentity\nT: l : left : good 1\nT: l : right : bad 1\nT: l : good : good 1\n\
    T: l : bad : bad 1\nT: r : left : bad 1\nT: r : right : good 1\nT: r : good : good 1\nT: r : bad : bad 1\nO: *\n\
    uniform\nO: wait : left HEAR\nO: wait : right RAEH\n";

fn doors(hear: f64) -> Pomdp {
    let text =
        DOORS.replace("HEAR", &format!("{hear} {}", 1.0 - hear)).replace("RAEH", &format!("{} {hear}", 1.0 - hear));
    read_from(text.as_bytes(), "doors", Some(Format::Pomdp)).unwrap()
}

fn bounds(model: &Pomdp, criterion: &Criterion, gap: f64, iterations: u64) -> Undiscounted {
    let limits = Limits { gap: Gap::Absolute(gap), iterations: Some(iterations), ..Limits::default() };
    let mut last = [f64::NEG_INFINITY, f64::INFINITY];
    let mut watch = |round: &warpkov_pomdp::solution::Round| {
        assert!(round.lower <= round.upper + 1e-9, "{round:?}");
        assert!(round.lower >= last[0] && round.upper <= last[1], "{round:?} after {last:?}");
        last = [round.lower, round.upper];
        ControlFlow::Continue(())
    };
    solve(model, criterion, DeviceChoice::Cpu, &limits, &mut watch).unwrap()
}

/// The value of a controller: that of the chain of its nodes and the states, a solver of MDPs bounds it.
fn of_controller(model: &Pomdp, criterion: &Criterion, found: &Undiscounted) -> [f64; 2] {
    let (states, width) = (model.states() as usize, model.observation_count() as usize);
    let (nodes, rewards) = (found.policy.actions.len(), model.expected_rewards());
    let (mut row_ptr, mut col, mut val, mut earned) = (vec![0], Vec::new(), Vec::new(), Vec::new());
    for node in 0..nodes {
        let action = found.policy.actions[node];
        for state in 0..states {
            let mut row = vec![0.0; nodes * states];
            let (next, probs) = model.successors(state as u32, action);
            for (&next, p) in next.iter().zip(probs) {
                let (observed, chances) = model.observed(action, next);
                for (&observation, q) in observed.iter().zip(chances).filter(|(_, q)| **q > 0.0) {
                    let follower = found.policy.next[node * width + observation as usize].unwrap();
                    row[follower as usize * states + next as usize] += p * q;
                }
            }
            for (place, p) in row.into_iter().enumerate().filter(|(_, p)| *p > 0.0) {
                col.push(place as u32);
                val.push(p);
            }
            row_ptr.push(col.len() as u64);
            earned.push(rewards[state * model.actions() as usize + action as usize]);
        }
    }
    let all = |goal: &[u32]| -> Vec<u32> {
        (0..nodes as u32).flat_map(|node| goal.iter().map(move |&state| node * states as u32 + state)).collect()
    };
    let criterion = match criterion {
        Criterion::Reach { goal } => Criterion::Reach { goal: all(goal) },
        Criterion::TotalReward { goal: Some(goal) } => Criterion::TotalReward { goal: Some(all(goal)) },
        _ => unreachable!(),
    };
    let chain: Mdp = MdpParts {
        states: (nodes * states) as u32,
        choices: Choices::Uniform(1),
        gamma: 1.0,
        objective: model.process().objective(),
        transitions: Csr::new(row_ptr, col, val).unwrap(),
        action_rewards: earned.into(),
        ..MdpParts::default()
    }
    .validated()
    .unwrap();
    let options = Options { epsilon: 1e-10, ..Options::default() };
    let solved = solve_mdp(&chain, &criterion, &options, &Cpu::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    let value = |values: &[f64]| -> f64 {
        let of_start = |(start, &node): (&(f64, Belief), &u32)| {
            let (prob, belief) = start;
            prob * belief.iter().map(|(state, p)| p * values[node as usize * states + state as usize]).sum::<f64>()
        };
        model.starts().iter().zip(&found.policy.starts).map(of_start).sum()
    };
    [value(&solved.lower), value(&solved.upper)]
}

/// The best probability of having reached the goal within some steps, by the recursion over beliefs.
fn within(model: &Pomdp, goal: &[u32], belief: &Belief, steps: u32) -> f64 {
    let reached: f64 = belief.iter().filter(|(state, _)| goal.contains(state)).map(|(_, p)| p).sum();
    if steps == 0 || reached > 1.0 - 1e-12 {
        return reached;
    }
    let value = |action: u32| {
        let mut sum = 0.0;
        Projection::default()
            .each(model, belief, action, |_, prob, after| sum += prob * within(model, goal, &after, steps - 1));
        sum
    };
    (0..model.actions()).map(value).fold(f64::NEG_INFINITY, f64::max)
}

/// A random model whose last state is the goal, where it stays.
fn random_model(random: &mut Random) -> Pomdp {
    let shape = [3 + random.below(3), 2 + random.below(2), 1 + random.below(3)].map(|count| count as u32);
    let model = model_of(random, shape, 0.9, 1.0);
    let goal = shape[0] - 1;
    let mut parts = model.into_parts();
    let transitions = &parts.process.transitions;
    let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
    for row in 0..transitions.rows() {
        let (next, probs) = transitions.row(row);
        let stays = row as u32 / shape[1] == goal;
        match stays {
            true => (col.push(goal), val.push(1.0)),
            false => (col.extend(next), val.extend(probs)),
        };
        row_ptr.push(col.len() as u64);
    }
    parts.process.transitions = Csr::new(row_ptr, col, val).unwrap();
    parts.process.objective = Objective::Maximize;
    parts.process.gamma = 1.0;
    let size: Vec<f64> = parts.process.action_rewards.iter().map(|reward| reward.abs()).collect();
    parts.process.action_rewards = size.into();
    parts.validated().unwrap()
}

#[test]
fn probabilities_have_bounds_that_hold() {
    let (mut random, mut met) = (Random::new(51), 0);
    for index in 0..60 {
        let model = random_model(&mut random);
        let goal = vec![model.states() - 1];
        let criterion = Criterion::Reach { goal: goal.clone() };
        let found = bounds(&model, &criterion, 1e-3, 6);
        met += u32::from(found.status == Status::Gap);
        let [least, most] = of_controller(&model, &criterion, &found);
        assert!(
            most >= found.lower - 1e-9 && least <= found.upper + 1e-9,
            "model {index}: {least} to {most}, {found:?}"
        );
        let early = within(&model, &goal, model.start(), 4);
        assert!(found.upper >= early - 1e-9, "model {index}: {} below {early}", found.upper);
        // The least probability is at most the largest, and its controller attains it, too.
        let model = model.with_objective(true);
        let least = bounds(&model, &criterion, 1e-3, 6);
        assert!(least.lower <= found.upper + 1e-9, "model {index}: {least:?}");
        let [_, most] = of_controller(&model, &criterion, &least);
        assert!(most <= least.upper + 1e-9, "model {index}: {most}, {least:?}");
    }
    assert!(met >= 40, "{met} of 60");
}

#[test]
fn sums_have_bounds_that_hold() {
    let (mut random, mut finite) = (Random::new(52), 0);
    for index in 0..60 {
        let model = random_model(&mut random).with_objective(true);
        let criterion = Criterion::TotalReward { goal: Some(vec![model.states() - 1]) };
        let found = bounds(&model, &criterion, 1e-3, 6);
        let [least, most] = of_controller(&model, &criterion, &found);
        finite += u32::from(found.upper.is_finite());
        assert!(least >= found.lower - 1e-6, "model {index}: {least} to {most}, {found:?}");
        assert!(most <= found.upper * (1.0 + 1e-6) + 1e-6, "model {index}: {least} to {most}, {found:?}");
    }
    assert!(finite >= 30, "{finite} of 60");
}

/// Without knowledge the doors are even; with it, the probability comes as close to 1 as the gap asks.
#[test]
fn doors_are_guessed_or_heard() {
    let goal = || Criterion::Reach { goal: vec![2] };
    let guessed = bounds(&doors(0.5), &goal(), 1e-9, 10);
    assert!(guessed.status == Status::Gap && (guessed.lower - 0.5).abs() < 1e-9, "{guessed:?}");
    for hear in [0.6, 0.85, 0.99] {
        let heard = bounds(&doors(hear), &goal(), 1e-4, 60);
        assert!(heard.status == Status::Gap && heard.lower > 0.9999 && heard.upper <= 1.0, "{hear}: {heard:?}");
        let [least, _] = of_controller(&doors(hear), &goal(), &heard);
        assert!(least >= heard.lower - 1e-9, "{hear}: {least}");
    }
    let never = bounds(&doors(0.85).with_objective(true), &goal(), 1e-9, 10);
    assert_eq!((never.lower, never.upper), (0.0, 0.0));
}

/// A goal that may be missed has an infinite sum, of the sign of the rewards. If only the hidden state decides, the other bound grows round
/// by round.
#[test]
fn missed_goals_are_infinite() {
    let rewarded = |reward: f64| {
        let parts = doors(0.85).into_parts();
        let rewards = vec![reward; 12];
        let process = MdpParts { action_rewards: rewards.into(), ..parts.process };
        PomdpParts { process, ..parts }.validated().unwrap()
    };
    let good = Criterion::TotalReward { goal: Some(vec![2]) };
    let both = Criterion::TotalReward { goal: Some(vec![2, 3]) };
    for (reward, minimize, criterion, value) in [
        (1.0, true, &good, f64::INFINITY),
        (1.0, true, &both, 1.0),
        (1.0, false, &both, f64::INFINITY),
        (-1.0, false, &good, f64::NEG_INFINITY),
        (-1.0, false, &both, -1.0),
        (-1.0, true, &both, f64::NEG_INFINITY),
    ] {
        let found = bounds(&rewarded(reward).with_objective(minimize), criterion, 1e-9, 10);
        let near = |bound: f64| bound == value || (bound - value).abs() < 1e-9;
        let (attained, other) = if minimize { (found.upper, found.lower) } else { (found.lower, found.upper) };
        let grows = *criterion == good && other.abs() > 10.0 && other * value > 0.0;
        assert!(near(attained) && (near(other) || grows), "{reward} {minimize} {value}: {found:?}");
    }
}

#[test]
fn other_criteria_are_refused() {
    let mut watch = |_: &_| ControlFlow::Continue(());
    let mut message = |criterion| {
        solve(&doors(0.85), &criterion, DeviceChoice::Cpu, &Limits::default(), &mut watch).unwrap_err().to_string()
    };
    assert_eq!(message(Criterion::Average), "criterion average: expected reach, or total with a goal");
    assert_eq!(message(Criterion::Reach { goal: vec![9] }), "goal[0] is 9, expected a state below 4");
}
