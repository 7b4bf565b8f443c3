//! Verdicts on alpha vectors of random models, against the solver's bounds and a tree of all action and observation sequences.

use std::ops::ControlFlow;

use rayon::prelude::*;
use warpkov_mdp::model::MdpParts;
use warpkov_pomdp::alpha::AlphaVectors;
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

#[path = "support/pomdps.rs"]
mod pomdps;

#[path = "../../../tests/support/rational.rs"]
#[allow(dead_code, reason = "a part of it")]
mod chains;

use chains::{Chain, Value};
use models::{Random, seeds};
use pomdps::{by_enumeration, depth, model};

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

#[test]
fn bounds_enclose_values_by_enumeration() {
    seeds(60).into_par_iter().for_each(|seed| {
        let (model, scale) = model(&mut Random(seed ^ 0x5eed), &[0.0, 0.1, 0.2]);
        let steps = depth(&model);
        let value = by_enumeration(&model, steps);
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

/// What the same action in every step earns, exactly.
fn blind(model: &Pomdp, action: u32) -> f64 {
    let states = model.states() as usize;
    let values = Chain::new(model.process(), &vec![action; states], &vec![false; states + 1]).discounted(model.gamma());
    let number = |value: &Value| if let Value::Finite(x) = value { x.to_f64().value() } else { f64::NAN };
    let values: Vec<f64> = values[..states].iter().map(number).collect();
    model.start().dot(&values)
}

#[test]
fn losses_that_are_larger_than_claimed_are_refuted() {
    let tried: Vec<Option<bool>> = seeds(100)
        .into_par_iter()
        .map(|seed| {
            let random = &mut Random(seed ^ 0x1055);
            let (model, scale) = model(random, &[0.0, 0.1, 0.3, 0.5]);
            let (sign, steps) = (model.process().objective().sign(), depth(&model));
            let action = random.below(model.actions().into()) as u32;
            let states = model.states() as usize;
            let vectors = AlphaVectors::from_parts(model.states(), vec![0.0; states], vec![action]).unwrap();
            let lost = sign * (by_enumeration(&model, steps) - blind(&model, action));
            let error = scale * (model.gamma().powi(steps as i32) / (1.0 - model.gamma()) + 1e-12);
            let verdict = |loss: f64| {
                let claim = Tolerance { epsilon: 1e-9 * scale, loss: Some(loss), visits: 3_000_000 };
                let found = verify(&model, &vectors, &claim).unwrap().loss.unwrap();
                let is_within = found.lower <= lost + error && lost - error <= found.upper;
                assert!(is_within, "seed {seed}: {found:?}, {lost} ± {error}");
                found.verdict
            };
            assert_ne!(verdict((lost + error).max(0.0)), Verdict::Refuted, "seed {seed}: {lost}");
            (lost > 4.0 * error + 1e-3 * scale).then(|| verdict(lost / 2.0) == Verdict::Refuted)
        })
        .collect();
    let wrong = tried.iter().flatten().count();
    let refuted = tried.iter().filter(|found| **found == Some(true)).count();
    eprintln!("of {wrong} claims that are half of the loss, {refuted} are refuted");
    assert!(wrong * 3 > tried.len() && refuted * 10 >= 9 * wrong, "{refuted} of {wrong}");
}
