//! Verdicts on alpha vectors of random models, against the solver's bounds and a tree of all action and observation sequences.

use std::ops::ControlFlow;

use rayon::prelude::*;
use warpkov_mdp::model::{Choices, Csr, MdpParts, Objective};
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::generate::Tiger;
use warpkov_pomdp::model::{Pomdp, PomdpParts};
use warpkov_pomdp::options::{Gap, Limits, SolveOptions};
use warpkov_pomdp::solution::Solution;
use warpkov_pomdp::solve::solve_with;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_verify::mdp::Verdict;
use warpkov_verify::pomdp::{Tolerance, Unverifiable, verify};

#[path = "support/models.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod models;

use models::{Random, seeds};

/// Rows of a matrix: row i is a distribution over `columns(i)`.
fn rows(random: &mut Random, count: u32, columns: impl Fn(u32) -> Vec<u32>) -> Csr {
    let (mut ptr, mut col, mut val) = (vec![0_u64], Vec::new(), Vec::new());
    for row in 0..count {
        let all = columns(row);
        let mut some: Vec<u32> = all.iter().copied().filter(|_| random.below(3) > 0).collect();
        if some.is_empty() {
            some.push(all[random.below(all.len() as u64) as usize]);
        }
        let weights: Vec<f64> =
            some.iter().map(|_| random.unit() * 10_f64.powi(-(random.below(4) as i32)) + 1e-9).collect();
        let sum: f64 = weights.iter().sum();
        col.extend(some);
        val.extend(weights.iter().map(|weight| weight / sum));
        ptr.push(col.len() as u64);
    }
    Csr::new(ptr, col, val).unwrap()
}

/// A model of few states, some with an observed component, and the largest reward.
fn model(random: &mut Random, gammas: &[f64]) -> (Pomdp, f64) {
    let (states, actions, signals) =
        (1 + random.below(4) as u32, 1 + random.below(3) as u32, 1 + random.below(3) as u32);
    let sees = states > 1 && random.below(4) == 0;
    let parts = if sees { 2 } else { 1 };
    let scale = 10_f64.powi(random.below(15) as i32 - 6);
    let count = (states * actions) as usize;
    let rewards: Vec<f64> =
        (0..count).map(|_| if random.below(4) == 0 { 0.0 } else { scale * (2.0 * random.unit() - 1.0) }).collect();
    let transitions = rows(random, states * actions, |_| (0..states).collect());
    let process = MdpParts {
        states,
        choices: Choices::Uniform(actions),
        gamma: gammas[random.below(gammas.len() as u64) as usize],
        objective: if random.below(3) == 0 { Objective::Minimize } else { Objective::Maximize },
        transitions,
        action_rewards: rewards.into(),
        ..MdpParts::default()
    };
    // The signals of each value of the observed component differ.
    let observations =
        rows(random, states * actions, |row| (0..signals).map(|o| row % states % parts * signals + o).collect());
    let start = rows(random, 1, |_| (0..states).collect());
    let start = Belief::new(start.col().to_vec(), start.val().to_vec()).unwrap();
    let seen = if sees { (0..states).map(|state| state % parts).collect() } else { Vec::new() };
    let model =
        PomdpParts { process, observation_count: parts * signals, observations, start, seen, ..PomdpParts::default() };
    (model.validated().unwrap(), scale)
}

fn solve(model: &Pomdp, gap: f64) -> Solution {
    let options = SolveOptions {
        device: DeviceChoice::Cpu,
        limits: Limits { gap: Gap::Absolute(gap), iterations: Some(300), ..Limits::default() },
        ..SolveOptions::default()
    };
    solve_with(model, &options, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The vector that is best at the start, of a model without an observed component.
fn best(model: &Pomdp, vectors: &AlphaVectors) -> usize {
    vectors.clone().times(model.process().objective().sign()).best(model.start()).unwrap().0
}

#[test]
fn solutions_are_proved_and_wrong_claims_are_not() {
    let tried: Vec<[bool; 3]> = seeds(60)
        .into_par_iter()
        .map(|seed| {
            let (model, scale) = model(&mut Random(seed), &[0.0, 0.5, 0.9, 0.99]);
            let size = scale / (1.0 - model.gamma());
            let solution = solve(&model, 1e-4 * size);
            let (end, vectors) = (*solution.end(), &solution.vectors);
            let epsilon = 1e-9 * size;
            let claim = Tolerance { epsilon, loss: Some(2.0 * end.gap() + epsilon), visits: 30_000_000 };
            let found = verify(&model, vectors, &claim).unwrap();
            let what = format!("seed {seed}, {end:?}: {found:?}");
            assert_ne!(found.verdict(), Verdict::Refuted, "{what}");
            assert!(found.optimal.lo <= end.upper + epsilon && end.lower <= found.optimal.hi + epsilon, "{what}");
            assert!(found.optimal.lo <= found.optimal.hi, "{what}");

            // All vectors are above the truth.
            let sign = model.process().objective().sign();
            let above = 2.0 * (found.optimal.hi - found.optimal.lo) + 10.0 * epsilon;
            let raised: Vec<f64> = vectors.values().iter().map(|x| x + sign * above).collect();
            let raised = AlphaVectors::from_parts(model.states(), raised, vectors.actions().to_vec()).unwrap();
            let wrong = verify(&model, &raised, &claim).unwrap();
            assert_ne!(wrong.value.verdict, Verdict::Proved, "{what}: {wrong:?}");

            // One vector is too high by 1 %.
            let first = best(&model, vectors);
            let states = model.states() as usize;
            let mut raised = vectors.clone();
            raised.values_mut()[first * states..][..states].iter_mut().for_each(|x| *x += sign * 0.01 * x.abs());
            let rise = model.start().dot(raised.vector(first)) - model.start().dot(vectors.vector(first));
            let one = verify(&model, &raised, &claim).unwrap();
            if rise.abs() > 2.0 * end.gap() + 10.0 * epsilon && model.seen().is_empty() {
                assert_ne!(one.verdict(), Verdict::Proved, "{what}, {one:?}");
            }
            [
                found.value.verdict == Verdict::Proved && found.policy.verdict == Verdict::Proved,
                found.verdict() == Verdict::Proved,
                wrong.verdict() == Verdict::Refuted,
            ]
        })
        .collect();
    let count = |place: usize| tried.iter().filter(|found| found[place]).count();
    let counts = [0, 1, 2].map(count);
    eprintln!("of {}: supported {}, proved {}, wrong claims refuted {}", tried.len(), counts[0], counts[1], counts[2]);
    assert!(counts.iter().all(|count| count * 10 >= 9 * tried.len()), "{counts:?} of {}", tried.len());
}

/// The largest expected sum of the next `steps` rewards from an unscaled belief.
fn tree(model: &Pomdp, rewards: &[f64], belief: &[f64], steps: u32) -> f64 {
    if steps == 0 {
        return 0.0;
    }
    let of_action = |action: u32| {
        let now: f64 =
            (0..model.states()).map(|s| belief[s as usize] * rewards[(s * model.actions() + action) as usize]).sum();
        let mut next = vec![vec![0.0; model.states() as usize]; model.observation_count() as usize];
        for state in 0..model.states() {
            let (to, probs) = model.successors(state, action);
            for (&to, p) in to.iter().zip(probs) {
                let (seen, shares) = model.observed(action, to);
                for (&o, share) in seen.iter().zip(shares) {
                    next[o as usize][to as usize] += belief[state as usize] * p * share;
                }
            }
        }
        now + model.gamma() * next.iter().map(|belief| tree(model, rewards, belief, steps - 1)).sum::<f64>()
    };
    (0..model.actions()).map(of_action).fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn bounds_enclose_values_by_enumeration() {
    seeds(60).into_par_iter().for_each(|seed| {
        let (model, scale) = model(&mut Random(seed ^ 0x5eed), &[0.0, 0.1, 0.2]);
        let branches = f64::from(model.actions() * model.observation_count());
        let steps = (1e5_f64.ln() / branches.ln().max(0.5)) as u32;
        let maximized = model.to_maximize();
        let rewards = maximized.expected_rewards();
        // The observed component is known from the start.
        let known = |x: u32| -> Vec<f64> {
            let dense = model.start().to_dense(model.states()).into_iter().enumerate();
            dense.map(|(s, p)| if model.seen().get(s).is_none_or(|&own| own == x) { p } else { 0.0 }).collect()
        };
        let parts = if model.seen().is_empty() { 1 } else { 2 };
        let value: f64 = (0..parts).map(|x| tree(&maximized, &rewards, &known(x), steps)).sum();
        let value = model.process().objective().sign() * value;
        let error = scale * (model.gamma().powi(steps as i32) / (1.0 - model.gamma()) + 1e-12);
        let solution = solve(&model, 1e-6 * scale);
        for vectors in [
            solution.vectors,
            AlphaVectors::from_parts(model.states(), vec![0.0; model.states() as usize], vec![0]).unwrap(),
        ] {
            let found =
                verify(&model, &vectors, &Tolerance { epsilon: 1e-9 * scale, loss: None, visits: 3_000_000 }).unwrap();
            assert!(
                found.optimal.lo <= value + error && value - error <= found.optimal.hi,
                "seed {seed}: {value} {found:?}"
            );
        }
    });
}

#[test]
fn wrong_policies_of_the_tiger() {
    let model = Tiger::default().generate().unwrap();
    let solution = solve(&model, 1e-3);
    let claim = Tolerance { epsilon: 1e-6, loss: Some(2e-3), ..Tolerance::default() };
    let found = verify(&model, &solution.vectors, &claim).unwrap();
    assert_eq!(found.verdict(), Verdict::Proved, "{found:?}");
    assert!(found.optimal.lo > 19.37 && found.optimal.hi < 19.374, "{found:?}");
    let (vectors, first) = (&solution.vectors, best(&model, &solution.vectors));
    let mut actions = vectors.actions().to_vec();
    actions[first] = (actions[first] + 1) % 3;
    let other = AlphaVectors::from_parts(2, vectors.values().to_vec(), actions).unwrap();
    let found = verify(&model, &other, &claim).unwrap();
    assert_ne!(found.policy.verdict, Verdict::Proved, "{found:?}");
    let raised =
        AlphaVectors::from_parts(2, vectors.values().iter().map(|x| x + 0.01).collect(), vectors.actions().to_vec());
    let found = verify(&model, &raised.unwrap(), &claim).unwrap();
    assert_eq!(found.value.verdict, Verdict::Refuted, "{found:?}");

    let parts = model.into_parts();
    let process = MdpParts { gamma: 1.0, ..parts.process };
    let endless = PomdpParts { process, ..parts }.validated().unwrap();
    assert_eq!(verify(&endless, vectors, &claim).unwrap_err(), Unverifiable::Discount(1.0));
}
