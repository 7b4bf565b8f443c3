//! The bounds enclose exact values, and backups are the best plans.

use std::ops::ControlFlow;

use warpkov_mdp::model::{Choices, Csr, MdpParts};
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::backend::PointBackup;
use warpkov_pomdp::backends::cpu::{Assembler, PointBased};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::generate::{FourByThree, Tiger};
use warpkov_pomdp::model::{Pomdp, PomdpParts};
use warpkov_pomdp::options::{Expansion, Gap, Limits, Scheme, SolveOptions};
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::simulate::{Options, Simulator};
use warpkov_pomdp::solution::Status;
use warpkov_pomdp::solve::bounds::{blind, fib, mdp, qmdp};
use warpkov_pomdp::solve::solve_with;
use warpkov_pomdp::verify::verify;
use warpkov_runtime::choose::DeviceChoice;

use crate::exact::{error, incremental_pruning};
use crate::random::Random;

use crate::common::{discounted, model, options, solve};

/// 100 random models against exact value iteration: V*ₙ with the errors of the reference, plus the range of the rewards after n steps. The bounds
/// themselves have no tolerance: they include their rounding errors.
#[test]
fn bounds_hold_on_random_models() {
    let mut random = Random::new(8);
    for index in 0..100 {
        let model = model(&mut random);
        let (horizon, gamma) = (12, model.gamma());
        let maximized = model.to_maximize();
        let exact = incremental_pruning(&maximized, horizon, 4096).unwrap();
        let sign = model.process().objective().sign();
        let value = exact.best(model.start()).unwrap().1;
        let rewards = maximized.expected_rewards();
        let later = gamma.powi(horizon as i32) / (1.0 - gamma);
        let extreme = |pick: fn(f64, f64) -> f64, from: f64| later * rewards.iter().copied().fold(from, pick);
        let [below, above] = error(&maximized, horizon);
        let least = value + below + extreme(f64::min, f64::INFINITY);
        let range = [least, value + above + extreme(f64::max, f64::NEG_INFINITY)];
        let [low, high] = if sign < 0.0 { [-range[1], -range[0]] } else { range };
        let scheme = [Scheme::Path, Scheme::Full, Scheme::Randomized][index % 3];
        let expansion = [Expansion::Sarsop, Expansion::Hsvi, Expansion::Fsvi, Expansion::Ssea][index % 4];
        let options = SolveOptions { expansion: Some(expansion), scheme: Some(scheme), ..options(1e-4, 25) };
        let mut ends = vec![*solve(&model, &options).end()];
        if index % 10 == 0 {
            let limits = Limits { iterations: Some(24), ..options.limits };
            let (device, expansion) = (DeviceChoice::Emulated, Some(Expansion::Walks));
            ends.push(
                *solve(&model, &SolveOptions { device, expansion, scheme: None, beliefs: 6, limits, ..options }).end(),
            );
        }
        for end in ends {
            assert!(end.lower <= high && end.upper >= low, "model {index}: {end:?}, exact {low} to {high}");
        }
    }
}

/// The bounds that use no beliefs hold at all corners and at the centre, in the order blind ≤ V* ≤ FIB ≤ QMDP ≤ MDP.
#[test]
fn initial_bounds_are_ordered() {
    const HORIZON: u32 = 16;
    let mut random = Random::new(11);
    for index in 0..16 {
        let model = model(&mut random).to_maximize();
        let (states, actions) = (model.states(), model.actions() as usize);
        let rewards = model.expected_rewards();
        let seen = mdp::mdp(&model, &rewards, 1e-9, &mut || false).unwrap();
        let at_once = qmdp::qmdp(&model, &rewards, &seen, &mut || false);
        let informed = fib::fib(&model, &rewards, at_once.clone(), 1e-9, &mut || false);
        let blind = blind::blind(&model, &rewards, &Assembler::new(&model, &rewards), 1e-9, &mut || false);
        let exact = incremental_pruning(&model, HORIZON, 4096).unwrap();
        let largest = rewards.iter().fold(0.0, |most: f64, reward| most.max(reward.abs()));
        let later = model.gamma().powi(HORIZON as i32) * largest / (1.0 - model.gamma());
        let corners = (0..states).map(Belief::at);
        for belief in corners.chain([Belief::uniform((0..states).collect())]) {
            let factor = |factors: &[f64], action: usize| -> f64 {
                belief.iter().map(|(s, p)| p * factors[s as usize * actions + action]).sum()
            };
            let best = |factors: &[f64]| (0..actions).map(|a| factor(factors, a)).fold(f64::NEG_INFINITY, f64::max);
            let values = [
                blind.best(&belief).unwrap().1 - later,
                exact.best(&belief).unwrap().1,
                best(&informed) + later,
                best(&at_once) + later,
                belief.dot(&seen) + 2.0 * later,
            ];
            assert!(values.windows(2).all(|pair| pair[0] <= pair[1] + 1e-7), "model {index}: {values:?}");
        }
    }
}

/// If QMDP is interrupted, the remaining states get an upper bound, from the largest value of all states.
#[test]
fn interrupted_qmdp_is_an_upper_bound() {
    let states = 1 << 19;
    let rows =
        |col: Vec<u32>| Csr::new((0..=col.len() as u64).collect::<Vec<_>>(), col, vec![1.0; states as usize]).unwrap();
    let process = MdpParts {
        states,
        choices: Choices::Uniform(1),
        gamma: 0.5,
        transitions: rows((0..states).collect()),
        ..MdpParts::default()
    };
    let (observations, start) = (rows(vec![0; states as usize]), Belief::at(0));
    let model = PomdpParts { process, observation_count: 1, observations, start, ..PomdpParts::default() };
    let model = model.validated().unwrap();
    let values: Vec<f64> = (0..states).map(f64::from).collect();
    let rewards = vec![1.0; states as usize];
    let mut looks = 0;
    let found = qmdp::qmdp(&model, &rewards, &values, &mut || {
        looks += 1;
        true
    });
    let last = 1.0 + 0.5 * values[states as usize - 1];
    assert_eq!(
        (looks, found[0], found[1], found[states as usize / 2], found.len()),
        (1, 1.0, 1.5, last, states as usize)
    );
}

/// On random models, a backup equals the best one-step plan found by brute force, and all vectors are valid.
#[test]
fn a_backup_is_the_best_one_step_plan() {
    let mut random = Random::new(23);
    for index in 0..50 {
        let model = model(&mut random).to_maximize();
        let (states, actions, count) = (model.states(), model.actions(), model.observation_count());
        let mut gamma = AlphaVectors::new(states);
        for action in 0..5 {
            gamma.push(action % actions, &random.signed(states as usize));
        }
        let mut backend = PointBased::new(&model);
        let Ok(()) = backend.set_vectors(&gamma);
        let Ok(backed) = backend.backup(std::slice::from_ref(model.start()));
        let rewards = model.expected_rewards();
        // For each action, the sum over o of the best vector's contribution.
        let plan = |action: u32| {
            let reward: f64 = model.start().iter().map(|(s, p)| p * rewards[(s * actions + action) as usize]).sum();
            let share = |o: u32, i: usize| -> f64 {
                let mut sum = 0.0;
                for (s, b) in model.start().iter() {
                    let (successors, probs) = model.successors(s, action);
                    for (&next, &p) in successors.iter().zip(probs) {
                        let (observed, chances) = model.observed(action, next);
                        let chance = observed.iter().position(|&x| x == o).map_or(0.0, |x| chances[x]);
                        sum += b * p * chance * gamma.vector(i)[next as usize];
                    }
                }
                sum
            };
            let best = |o| (0..gamma.len()).map(|i| share(o, i)).fold(f64::NEG_INFINITY, f64::max);
            reward + model.gamma() * (0..count).map(best).sum::<f64>()
        };
        let expected = (0..actions).map(plan).fold(f64::NEG_INFINITY, f64::max);
        let found = model.start().dot(backed.vectors.vector(0));
        assert!((found - expected).abs() < 1e-6, "model {index}: {found}, expected {expected}");
        assert!(found <= expected + 1e-12, "model {index}: {found} is above {expected}");
    }
}

/// The bounds for a finite horizon enclose the exact value of incremental pruning, and the plan attains the value of
/// its vectors.
#[test]
fn horizons_have_their_values() {
    let undiscounted = |model: Pomdp| discounted(model, 1.0);
    let tiger = Tiger::default().generate().unwrap();
    let grid = FourByThree::default().generate().unwrap();
    for (model, horizons) in
        [(undiscounted(tiger.clone()), [1, 2, 5, 7]), (tiger, [1, 3, 6, 7]), (undiscounted(grid), [1, 2, 3, 4])]
    {
        for horizon in horizons {
            let limits = Limits { gap: Gap::Absolute(1e-6), ..Limits::default() };
            let options = SolveOptions { horizon: Some(horizon), limits, ..SolveOptions::default() };
            let solution = solve_with(&model, &options, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(solution.status, Status::Gap);
            let end = *solution.end();
            let exact = reference_value(&model, horizon, model.start());
            assert!(end.lower <= exact + 1e-9 && exact <= end.upper + 1e-9, "{horizon}: {end:?}, {exact}");
            assert_eq!(solution.stages.len(), horizon as usize);
            // The value of each plan, from the plans that follow it.
            let rewards = model.expected_rewards();
            let count = model.observation_count() as usize;
            for (stage, pair) in solution.stages.windows(2).enumerate() {
                for plan in 0..pair[0].vectors.len() {
                    let action = pair[0].vectors.actions()[plan];
                    let next = &pair[0].next[plan * count..(plan + 1) * count];
                    for state in 0..model.states() {
                        let (successors, probs) = model.successors(state, action);
                        let future: f64 = successors
                            .iter()
                            .zip(probs)
                            .map(|(&s, p)| {
                                let (seen, chances) = model.observed(action, s);
                                let value = |(&o, q): (&u32, &f64)| {
                                    q * pair[1].vectors.vector(next[o as usize] as usize)[s as usize]
                                };
                                p * seen.iter().zip(chances).map(value).sum::<f64>()
                            })
                            .sum();
                        let worth = rewards[(state * model.actions() + action) as usize] + model.gamma() * future;
                        let own = pair[0].vectors.vector(plan)[state as usize];
                        assert!((own - worth).abs() <= 1e-9 * (1.0 + worth.abs()), "{stage} {plan}: {own} {worth}");
                    }
                }
            }
        }
    }
}

/// The exact value by recursion over actions and observations, without alpha vectors.
fn reference_value(model: &Pomdp, horizon: u32, belief: &Belief) -> f64 {
    let rewards = model.expected_rewards();
    let mut best = f64::NEG_INFINITY;
    for action in 0..if horizon == 0 { 0 } else { model.actions() } {
        let mut value = model.reward(&rewards, belief, action);
        Projection::default().each(model, belief, action, |_, prob, after| {
            value += model.gamma() * prob * reference_value(model, horizon - 1, &after);
        });
        best = best.max(value);
    }
    if horizon == 0 { 0.0 } else { best }
}

/// Two states, always observed, also at the start, with uniform transitions. The reward is 1 if the action names the
/// current state, otherwise 0.
const SEEN: &str = r#"<pomdpx version="1.0"><Discount>0.95</Discount><Variable>
    <StateVar vnamePrev="x0" vnameCurr="x1" fullyObs="true"><NumValues>2</NumValues></StateVar>
    <ActionVar vname="a"><NumValues>2</NumValues></ActionVar><RewardVar vname="r"/></Variable>
    <InitialStateBelief><CondProb><Var>x0</Var><Parent>null</Parent><Parameter type="TBL">
    <Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb></InitialStateBelief>
    <StateTransitionFunction><CondProb><Var>x1</Var><Parent>a x0</Parent><Parameter type="TBL">
    <Entry><Instance>* - -</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb></StateTransitionFunction>
    <RewardFunction><Func><Var>r</Var><Parent>a x0</Parent><Parameter type="TBL">
    <Entry><Instance>a0 s0</Instance><ValueTable>1</ValueTable></Entry>
    <Entry><Instance>a1 s1</Instance><ValueTable>1</ValueTable></Entry></Parameter></Func></RewardFunction></pomdpx>"#;

/// A fully observed variable is known before the first action: 1 per step has the value 20; an unknown first state
/// would give 19.5.
#[test]
fn observed_variables_are_known_at_the_start() {
    let model = warpkov_pomdp::io::read_from(SEEN.as_bytes(), "seen", None).unwrap();
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        let options = SolveOptions { device, ..options(1e-3, 100_000) };
        let solution = solve_with(&model, &options, &mut |_| ControlFlow::Continue(())).unwrap();
        let end = *solution.end();
        assert!(end.lower <= 20.0 + 1e-9 && 20.0 <= end.upper + 1e-9 && end.gap() <= 1e-3, "{device}: {end:?}");
        let simulated =
            Simulator::new(&model, &solution.vectors, &Options { episodes: 50, ..Options::default() }).unwrap();
        let found = simulated.evaluate(&|| false).unwrap();
        assert!((found.mean - 20.0).abs() < 1e-3, "{found:?}");
        let bound = verify(&model, &solution.vectors, 1e-6, 32, &|| false).unwrap();
        assert!((bound.value - 20.0).abs() < 2e-3 && (bound.attained - 20.0).abs() < 1e-3, "{bound:?}");
    }
    let options = SolveOptions { horizon: Some(7), ..options(1e-3, 100_000) };
    let solution = solve_with(&model, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let exact = (1.0 - 0.95_f64.powi(7)) / 0.05;
    assert!((solution.end().lower - exact).abs() < 1e-3, "{:?}", solution.end());
}
