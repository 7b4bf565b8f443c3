//! Constrained values, against the best mixture of all plans, random controllers, and values by hand.

use std::ops::ControlFlow;

use warpkov_mdp::model::Objective;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::constrained::{Constrained, Constraint, Error, solve};
use warpkov_pomdp::io::PolicyGraph;
use warpkov_pomdp::model::{Pomdp, PomdpParts};
use warpkov_pomdp::options::{Gap, Limits, SolveOptions};
use warpkov_pomdp::solution::Status;
use warpkov_runtime::choose::DeviceChoice;

use crate::common::{discounted, model_of, watch};
use crate::random::Random;

/// R and C of a policy in each state.
type Pair = [Vec<f64>; 2];

fn at(model: &Pomdp, vector: &[f64]) -> f64 {
    let mut sum = 0.0;
    model.start().iter().for_each(|(state, prob)| sum += prob * vector[state as usize]);
    sum
}

/// One step of an action, then what follows each observation.
fn ahead(model: &Pomdp, rewards: &[f64], action: u32, next: &[&[f64]]) -> Vec<f64> {
    let entry = |state: u32| {
        let (successors, probs) = model.successors(state, action);
        let of = |(&after, prob): (&u32, &f64)| {
            let (observed, chances) = model.observed(action, after);
            prob * observed.iter().zip(chances).map(|(&o, q)| q * next[o as usize][after as usize]).sum::<f64>()
        };
        let later: f64 = successors.iter().zip(probs).map(of).sum();
        rewards[(state * model.actions() + action) as usize] + model.gamma() * later
    };
    (0..model.states()).map(entry).collect()
}

/// All plans of some steps.
fn plans(model: &Pomdp, costs: &[f64], steps: u32) -> Vec<Pair> {
    let (states, width, rewards) =
        (model.states() as usize, model.observation_count() as usize, model.expected_rewards());
    let mut all: Vec<Pair> = vec![[vec![0.0; states], vec![0.0; states]]];
    for _ in 0..steps {
        let mut longer = Vec::new();
        for action in 0..model.actions() {
            for choice in 0..all.len().pow(width as u32) {
                let follows = |o: usize| &all[choice / all.len().pow(o as u32) % all.len()];
                let of = |which: usize, rewards: &[f64]| {
                    let next: Vec<&[f64]> = (0..width).map(|o| &follows(o)[which][..]).collect();
                    ahead(model, rewards, action, &next)
                };
                longer.push([of(0, &rewards), of(1, costs)]);
            }
        }
        all = longer;
    }
    all
}

/// The largest R of a mixture of two points with C at most the limit.
fn best_mixture(points: &[[f64; 2]], limit: f64) -> Option<f64> {
    let mut best: Option<f64> = None;
    for own in points.iter().filter(|own| own[1] <= limit) {
        let mixed = points.iter().filter(|other| other[1] > limit).map(|other| {
            let part = (limit - own[1]) / (other[1] - own[1]);
            own[0] + part * (other[0] - own[0])
        });
        best = mixed.chain([own[0]]).chain(best).reduce(f64::max);
    }
    best
}

fn costs_of(random: &mut Random, model: &Pomdp, size: f64) -> Vec<f64> {
    random.signed((model.states() * model.actions()) as usize).into_iter().map(|cost| size * cost).collect()
}

fn options(gap: Gap, horizon: Option<u32>) -> SolveOptions {
    SolveOptions {
        device: DeviceChoice::Cpu,
        horizon,
        limits: Limits { gap, ..Limits::default() },
        ..SolveOptions::default()
    }
}

/// Bounds of a controller from its own nodes to begin in, by repeated backups.
fn evaluated(model: &Pomdp, rewards: &[f64], policy: &PolicyGraph) -> f64 {
    let width = model.observation_count() as usize;
    let zeros = vec![0.0; model.states() as usize];
    let mut values = vec![zeros.clone(); policy.actions.len()];
    for _ in 0..(40.0 / -model.gamma().ln()).clamp(20.0, 4000.0) as u32 {
        let backup = |(node, &action): (usize, &u32)| {
            let next = |o: usize| policy.next[node * width + o].map_or(&zeros[..], |next| &values[next as usize]);
            ahead(model, rewards, action, &(0..width).map(next).collect::<Vec<_>>())
        };
        values = policy.actions.iter().enumerate().map(backup).collect();
    }
    let starts = model.starts().into_iter().zip(&policy.starts);
    starts.map(|((prob, start), &node)| prob * start.dot(&values[node as usize])).sum()
}

/// What holds for each result.
fn check(model: &Pomdp, costs: &[f64], constraint: Constraint, found: &Constrained, what: &str) {
    let steps = 1.0 / (1.0 - model.gamma());
    let most = |numbers: &[f64]| numbers.iter().fold(0.0, |most: f64, x| most.max(x.abs())) * steps;
    let (rewards, minimize) = (model.expected_rewards(), model.process().objective() == Objective::Minimize);
    let slacks = [most(&rewards), most(costs)].map(|most| 1e-8 * most);
    assert!(found.lower <= found.upper, "{what}: {found:?}");
    assert!((found.parts.iter().map(|part| part.probability).sum::<f64>() - 1.0).abs() < 1e-15, "{what}");
    let (mut value, mut cost) = (0.0, 0.0);
    for part in &found.parts {
        let [own, its] = [&rewards[..], costs].map(|rewards| evaluated(model, rewards, &part.policy));
        for ([lower, upper], exact, slack) in [(part.value, own, slacks[0]), (part.cost, its, slacks[1])] {
            assert!(lower <= exact + slack && exact <= upper + slack, "{what}: {exact} in [{lower}, {upper}]");
        }
        value += part.probability * own;
        cost += part.probability * its;
    }
    match constraint {
        Constraint::AtMost(limit) => assert!(cost <= limit + slacks[1], "{what}: {cost} above {limit}"),
        Constraint::AtLeast(limit) => assert!(cost >= limit - slacks[1], "{what}: {cost} below {limit}"),
    }
    // The mixture attains its side of the bounds, and is on the right side of the other.
    let (attained, other) = if minimize { (-found.upper, -found.lower) } else { (found.lower, found.upper) };
    let value = if minimize { -value } else { value };
    assert!(value >= attained - slacks[0] && value <= other + slacks[0], "{what}: {value}, {found:?}");
}

#[test]
fn constrained_plans_are_the_best_mixture_of_all_plans() {
    let mut random = Random::new(71);
    let mut solved = [0; 3];
    for index in 0..120 {
        let observations = 1 + random.below(2) as u32;
        let steps = if observations == 1 { 4 } else { 2 + random.below(2) as u32 };
        let [size, of_costs] = [12.0, 8.0].map(|width| 10_f64.powf(width * (random.unit() - 0.5)));
        let gamma = if random.unit() < 0.3 { 1.0 } else { 0.2 + 0.8 * random.unit() };
        let model = model_of(&mut random, [2 + index % 2, 2, observations], 0.5, size);
        let model = discounted(model, gamma);
        let costs = costs_of(&mut random, &model, of_costs);
        let all = plans(&model, &costs, steps);
        let (sign, turned) = (model.process().objective().sign(), if index % 3 == 0 { -1.0 } else { 1.0 });
        let points: Vec<[f64; 2]> = all.iter().map(|[r, c]| [sign * at(&model, r), turned * at(&model, c)]).collect();
        let [least, most] = [f64::min, f64::max].map(|pick| points.iter().map(|point| point[1]).reduce(pick).unwrap());
        // Also below all costs, and above them.
        let limit = least + (1.2 * random.unit() - 0.1) * (most - least);
        let constraint = if turned > 0.0 { Constraint::AtMost(limit) } else { Constraint::AtLeast(-limit) };
        let gap = 1e-7 * points.iter().fold(0.0, |most: f64, point| most.max(point[0].abs()));
        let found = solve(&model, &costs, constraint, &options(Gap::Absolute(gap), Some(steps)), &mut watch());
        let what = format!("model {index}");
        match (best_mixture(&points, limit), found) {
            (None, Err(Error::Infeasible { best, .. })) => {
                solved[0] += 1;
                let bound = turned * best;
                assert!(bound > limit && bound <= least + 1e-6 * (most - least), "{what}: {bound} {least} {limit}");
            }
            (Some(best), Ok(found)) => {
                solved[found.parts.len()] += 1;
                let (lower, upper) = if sign > 0.0 { (found.lower, found.upper) } else { (-found.upper, -found.lower) };
                // The limit has a slack of 1e-9, whose price is `multiplier`.
                let slack = 1e-2 * gap + 1e-8 * found.multiplier * of_costs * f64::from(steps);
                assert!(lower <= best + slack && best <= upper + slack, "{what}: {best} in [{lower}, {upper}]");
                assert!(found.status == Status::Gap && upper - lower <= gap, "{what}: {found:?}");
                let [below, above] = found.cost.map(|cost| turned * cost);
                assert!(below.min(above) <= limit + 1e-8 * of_costs * f64::from(steps), "{what}: {found:?}");
            }
            (best, found) => panic!("{what}: {best:?}, {found:?}"),
        }
    }
    assert!(solved.iter().all(|count| *count >= 5), "{solved:?}");
}

#[test]
fn no_random_controllers_are_better_within_the_limit() {
    let mut random = Random::new(72);
    for index in 0..30 {
        let size = 10_f64.powf(8.0 * random.unit() - 4.0);
        let shape = [2 + random.below(3), 2 + random.below(2), 1 + random.below(2)].map(|count| count as u32);
        let gamma = 0.3 + 0.6 * random.unit();
        let model = model_of(&mut random, shape, gamma, size);
        let costs = costs_of(&mut random, &model, 1.0);
        let [_, actions, observations] = shape;
        let points: Vec<[f64; 2]> = (0..200)
            .map(|_| {
                let count = 1 + random.below(3) as u32;
                let mut draw = |most: u32, numbers: u32| -> Vec<u32> {
                    (0..numbers).map(|_| random.below(u64::from(most)) as u32).collect()
                };
                let policy = PolicyGraph {
                    starts: vec![0],
                    reached: vec![true; count as usize],
                    actions: draw(actions, count),
                    next: draw(count, count * observations).into_iter().map(Some).collect(),
                };
                [&model.expected_rewards()[..], &costs].map(|rewards| evaluated(&model, rewards, &policy))
            })
            .collect();
        let costs_found = points.iter().map(|point| point[1]);
        let [least, most] = [f64::min, f64::max].map(|pick| costs_found.clone().reduce(pick).unwrap());
        let limit = least + random.unit() * (most - least);
        let (sign, what) = (model.process().objective().sign(), format!("model {index}"));
        let constraint = Constraint::AtMost(limit);
        let found = solve(&model, &costs, constraint, &options(Gap::Relative(1e-3), None), &mut watch()).unwrap();
        check(&model, &costs, constraint, &found, &what);
        assert!(matches!(found.status, Status::Gap | Status::Stalled), "{what}: {found:?}");
        let signed: Vec<[f64; 2]> = points.iter().map(|[value, cost]| [sign * value, *cost]).collect();
        let best = best_mixture(&signed, limit).unwrap();
        let upper = if sign > 0.0 { found.upper } else { -found.lower };
        assert!(best <= upper + 1e-8 * size / (1.0 - gamma), "{what}: {best} above {upper}");
    }
}

/// Work earns 1 and costs 2, rest neither.
fn work(gamma: f64) -> (Pomdp, Vec<f64>) {
    let mut random = Random::new(1);
    let model = model_of(&mut random, [1, 2, 1], gamma, 1.0);
    (model.with_rewards(vec![1.0, 0.0], Objective::Maximize).unwrap(), vec![2.0, 0.0])
}

#[test]
fn half_of_the_work_is_half_of_the_value() {
    let (model, costs) = work(0.9);
    let of = |constraint| solve(&model, &costs, constraint, &options(Gap::Absolute(1e-6), None), &mut watch());
    let within = |found: &Constrained, value: f64| found.lower <= value + 1e-6 && value <= found.upper + 1e-6;
    let found = of(Constraint::AtMost(5.0)).unwrap();
    assert!(within(&found, 2.5) && (found.multiplier - 0.5).abs() < 1e-6, "{found:?}");
    assert!((found.cost[1] - 5.0).abs() < 1e-6, "{found:?}");
    let (controller, begins) = found.controller();
    assert_eq!((begins.len(), controller.starts.len()), (found.parts.len(), found.parts.len()));
    // All limits that do not bind, and those that leave one policy.
    assert!(within(&of(Constraint::AtMost(100.0)).unwrap(), 10.0));
    assert!(within(&of(Constraint::AtMost(0.0)).unwrap(), 0.0));
    assert!(within(&of(Constraint::AtLeast(20.0)).unwrap(), 10.0));
    assert!(within(&of(Constraint::AtLeast(-3.0)).unwrap(), 10.0));
    let refused = |constraint| of(constraint).unwrap_err().to_string();
    assert!(
        refused(Constraint::AtMost(-1.0))
            .starts_with("no policy keeps the cost at most -1: that of every policy is at least ")
    );
    assert!(
        refused(Constraint::AtLeast(21.0))
            .starts_with("no policy keeps the cost at least 21: that of every policy is at most ")
    );
    assert_eq!(refused(Constraint::AtMost(f64::NAN)), "the limit is NaN, expected a number");
    let short = solve(&model, &[1.0], Constraint::AtMost(1.0), &SolveOptions::default(), &mut watch()).unwrap_err();
    assert_eq!(short.to_string(), "1 costs, expected 2, one of each state and action");
    let endless = solve(&model, &[f64::INFINITY, 0.0], Constraint::AtMost(1.0), &SolveOptions::default(), &mut watch());
    assert!(matches!(endless, Err(Error::Model(_))));
}

/// Costs that differ by little of their size, and limits just beside one of them, leave mixtures with a part of nearly 0 or 1.
#[test]
fn mixtures_of_nearly_one_policy_end() {
    let (model, _) = work(0.5);
    for cost in [1e-12, 1.0, 1e12] {
        for more in [1e-14, 1e-9, 1e-3] {
            let costs = [cost * (1.0 + more), cost];
            for part in [1e-15, 1e-7, 0.5, 1.0 - 1e-7, 1.0 - 1e-15] {
                let limit = 2.0 * cost * (1.0 + part * more);
                let found =
                    solve(&model, &costs, Constraint::AtMost(limit), &options(Gap::Absolute(1e-2), None), &mut watch());
                let found = found.unwrap();
                check(&model, &costs, Constraint::AtMost(limit), &found, &format!("{cost:e} {more:e} {part:e}"));
            }
        }
    }
}

#[test]
fn costs_that_are_the_rewards_bound_them() {
    // The largest reward of at most d is d, or the least one.
    let mut random = Random::new(73);
    for _ in 0..10 {
        let model = model_of(&mut random, [3, 2, 2], 0.8, 1.0).to_maximize();
        let rewards = model.expected_rewards();
        let options = options(Gap::Absolute(1e-4), None);
        let free = solve(&model, &rewards, Constraint::AtMost(1e3), &options, &mut watch()).unwrap();
        let least = solve(&model, &rewards, Constraint::AtLeast(free.lower - 1e-3), &options, &mut watch()).unwrap();
        assert!((least.lower - free.lower).abs() < 2e-4, "{least:?}");
        let limit = free.lower - 0.1;
        let found = solve(&model, &rewards, Constraint::AtMost(limit), &options, &mut watch()).unwrap();
        assert!(found.lower <= limit + 1e-6 && found.upper >= limit - 1e-6 && found.upper - found.lower <= 1e-4);
        check(&model, &rewards, Constraint::AtMost(limit), &found, "rewards");
    }
}

#[test]
fn an_observed_component_has_its_own_nodes() {
    let mut random = Random::new(74);
    for index in 0..8 {
        let model = model_of(&mut random, [4, 2, 2], 0.7, 1.0).to_maximize();
        let costs = costs_of(&mut random, &model, 1.0);
        // The first two states are told from the others, if the successors' is observed.
        let parts =
            PomdpParts { start: Belief::uniform(vec![0, 1, 2, 3]), seen: vec![0, 0, 1, 1], ..model.into_parts() };
        let Ok(model) = parts.validated() else { continue };
        let constraint = Constraint::AtMost(0.0);
        match solve(&model, &costs, constraint, &options(Gap::Absolute(1e-3), None), &mut watch()) {
            Ok(found) => check(&model, &costs, constraint, &found, &format!("model {index}")),
            Err(error) => assert!(matches!(error, Error::Infeasible { .. }), "{error}"),
        }
    }
}

/// A gap below what the limit is exact to ends a run, too.
#[test]
fn gaps_that_cannot_be_reached_end_a_run() {
    let (model, costs) = work(0.9);
    let found =
        solve(&model, &costs, Constraint::AtMost(5.0), &options(Gap::Absolute(1e-12), None), &mut watch()).unwrap();
    assert_eq!(found.status, Status::Stalled);
    assert!(found.upper - found.lower < 1e-7 && found.upper - found.lower > found.gap_limit, "{found:?}");
    assert_eq!(Constraint::AtMost(-2.5).to_string(), "at most -2.5");
    assert_eq!(Constraint::AtLeast(1e308).to_string(), "at least 1e308");
}

#[test]
fn limits_and_observers_end_a_run() {
    let (model, costs) = work(0.99);
    let constraint = Constraint::AtMost(7.0);
    let limits = Limits { time: Some(std::time::Duration::ZERO), ..Limits::default() };
    let options = SolveOptions { limits, ..options(Gap::Absolute(1e-9), None) };
    match solve(&model, &costs, constraint, &options, &mut watch()) {
        Ok(found) => check(&model, &costs, constraint, &found, "no time"),
        Err(error) => assert!(matches!(error, Error::NotFound { status: Status::Time, .. }), "{error}"),
    }
    let options = SolveOptions { limits: Limits::default(), ..options };
    let mut count = 0;
    for last in 0..8 {
        let mut left = last;
        let found = solve(&model, &costs, constraint, &options, &mut |_| {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match found {
            Ok(found) => check(&model, &costs, constraint, &found, "interrupted"),
            Err(error) => {
                count += 1;
                assert!(matches!(error, Error::NotFound { status: Status::Interrupted, .. }), "{error}");
            }
        }
    }
    assert!(count > 0);
}
