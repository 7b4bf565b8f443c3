//! Verdicts on controllers and plans of random models, against rational arithmetic and enumeration.

use std::ops::ControlFlow;

use dashu_ratio::RBig;
use rayon::prelude::*;
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::io::PolicyGraph;
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::{Gap, Limits, SolveOptions};
use warpkov_pomdp::solution::Solution;
use warpkov_pomdp::solve::solve_with;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_verify::interval::Interval;
use warpkov_verify::mdp::Verdict;
use warpkov_verify::pomdp::{
    Comparison, Nodes, Promise, Tolerance, Unverifiable, verify_controller, verify_first_step,
};
use warpkov_verify::rational::{Exact, rational};

#[path = "support/models.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod models;

#[path = "support/pomdps.rs"]
mod pomdps;

use models::{Random, seeds};
use pomdps::{by_enumeration, depth, model};

/// A controller that goes on for ever.
fn controller(random: &mut Random, model: &Pomdp) -> Nodes {
    let count = 1 + random.below(4);
    let places = count * u64::from(model.observation_count());
    Nodes {
        numbers: (0..count as u32).collect(),
        actions: (0..count).map(|_| random.below(model.actions().into()) as u32).collect(),
        next: (0..places).map(|_| Some(random.below(count) as u32)).collect(),
        starts: vec![random.below(count) as u32],
    }
}

fn of_graph(graph: PolicyGraph) -> Nodes {
    let PolicyGraph { starts, actions, next, .. } = graph;
    Nodes { numbers: (0..actions.len() as u32).collect(), actions, next, starts }
}

/// Σ T Σ O x_{g(o)}: the expectation of the next node's value, exactly. `known` has entries of all nodes and states.
fn ahead(model: &Pomdp, nodes: &Nodes, node: usize, state: u32, each: &mut dyn FnMut(usize, RBig)) {
    let (action, observations) = (nodes.actions[node], model.observation_count() as usize);
    let (to, probs) = model.successors(state, action);
    for (&to, &p) in to.iter().zip(probs) {
        let (seen, shares) = model.observed(action, to);
        for (&o, &share) in seen.iter().zip(shares) {
            if let Some(next) = nodes.next[node * observations + o as usize] {
                let at = next as usize * model.states() as usize + to as usize;
                each(at, rational(model.gamma()) * rational(p) * rational(share));
            }
        }
    }
}

fn reward(model: &Pomdp, state: u32, action: u32) -> RBig {
    let row = model.process().choices().first(state as usize) + action as usize;
    let (_, probs) = model.process().transitions().row(row);
    let earned = model.process().rewards_of(row).zip(probs).map(|(r, &p)| rational(p) * rational(r));
    earned.fold(rational(model.process().action_reward(row)), |sum, x| sum + x)
}

/// V^π(b₀) by Gaussian elimination, for one node to begin in.
fn exactly(model: &Pomdp, nodes: &Nodes) -> RBig {
    let states = model.states() as usize;
    let n = nodes.actions.len() * states;
    let equation = |at: usize| {
        let (node, state) = (at / states, (at % states) as u32);
        let mut row = vec![RBig::ZERO; n + 1];
        row[at] = RBig::ONE;
        ahead(model, nodes, node, state, &mut |to, p| row[to] -= p);
        row[n] = reward(model, state, nodes.actions[node]);
        row
    };
    let mut a: Vec<Vec<RBig>> = (0..n).map(equation).collect();
    for k in 0..n {
        let pivot = (k..n).find(|&i| a[i][k] != RBig::ZERO).unwrap();
        a.swap(k, pivot);
        let pivot = a[k].clone();
        for row in a.iter_mut().skip(k + 1).filter(|row| row[k] != RBig::ZERO) {
            let factor = &row[k] / &pivot[k];
            row.iter_mut().zip(&pivot).skip(k).for_each(|(x, y)| *x -= &factor * y);
        }
    }
    let mut x = vec![RBig::ZERO; n];
    for k in (0..n).rev() {
        let known = (k + 1..n).fold(a[k][n].clone(), |sum, j| sum - &a[k][j] * &x[j]);
        x[k] = known / &a[k][k];
    }
    at_start(model, nodes, &x)
}

fn at_start(model: &Pomdp, nodes: &Nodes, x: &[RBig]) -> RBig {
    let states = model.states() as usize;
    let sum = |node: u32| {
        let terms = model.start().iter().map(|(s, p)| rational(p) * &x[node as usize * states + s as usize]);
        terms.fold(RBig::ZERO, |sum, x| sum + x)
    };
    assert_eq!(nodes.starts.len(), 1);
    sum(nodes.starts[0])
}

/// What the first `steps` steps earn, exactly.
fn within(model: &Pomdp, nodes: &Nodes, steps: u32) -> RBig {
    let states = model.states() as usize;
    let mut x = vec![RBig::ZERO; nodes.actions.len() * states];
    for _ in 0..steps {
        let of_pair = |at: usize| {
            let (node, state) = (at / states, (at % states) as u32);
            let mut sum = reward(model, state, nodes.actions[node]);
            ahead(model, nodes, node, state, &mut |to, p| sum += p * &x[to]);
            sum
        };
        x = (0..x.len()).map(of_pair).collect();
    }
    at_start(model, nodes, &x)
}

fn contains(found: Interval, x: &RBig) -> bool {
    (!found.lo.is_finite() || rational(found.lo) <= *x) && (!found.hi.is_finite() || *x <= rational(found.hi))
}

fn promise(scale: f64, horizon: Option<u32>, value: Option<f64>, loss: Option<f64>) -> Promise {
    Promise { horizon, value, tolerance: Tolerance { epsilon: 1e-6 * scale, loss, visits: 3_000_000 } }
}

/// A model without an observed component: controllers begin in one node.
fn plain(random: &mut Random, gammas: &[f64]) -> (Pomdp, f64) {
    loop {
        let found = model(random, gammas);
        if found.0.seen().is_empty() {
            return found;
        }
    }
}

/// The values and the losses of this controller are proved and refuted as they must be. Returns whether a claim of half of a large loss is
/// refuted.
fn check(
    seed: u64,
    (model, scale): (&Pomdp, f64),
    nodes: &Nodes,
    horizon: Option<u32>,
    (own, best, error): (&RBig, f64, f64),
) -> Option<bool> {
    let near = Exact::Finite(own.clone()).nearest();
    let lost = model.process().objective().sign() * (best - near);
    let run = |value: Option<f64>, loss: Option<f64>| -> Comparison {
        let found = verify_controller(model, nodes, &promise(scale, horizon, value, loss)).unwrap();
        assert!(contains(found.own, own), "seed {seed}: {found:?}, exactly {near}");
        assert!(found.own.hi - found.own.lo <= 1e-6 * scale, "seed {seed}: {found:?}");
        let optimal = found.optimal;
        assert!(optimal.lo <= best + error && best - error <= optimal.hi, "seed {seed}: {found:?}, {best} ± {error}");
        found
    };
    for (off, verdict) in [(0.0, Verdict::Proved), (0.5, Verdict::Proved), (2.0, Verdict::Refuted)] {
        for off in [off, -off] {
            let found = run(Some(near + off * 1e-6 * scale), None);
            assert_eq!(found.value.unwrap().verdict, verdict, "seed {seed}: {found:?}");
        }
    }
    let found = run(None, Some((lost + error).max(0.0)));
    assert_ne!(found.verdict(), Verdict::Refuted, "seed {seed}: {found:?}, {lost} ± {error}");
    let wrong = lost > 4.0 * error + 1e-3 * scale;
    wrong.then(|| run(None, Some(lost / 2.0)).verdict() == Verdict::Refuted)
}

fn mostly(tried: &[Option<bool>]) {
    let wrong = tried.iter().flatten().count();
    let refuted = tried.iter().filter(|found| **found == Some(true)).count();
    eprintln!("of {wrong} claims that are half of the loss, {refuted} are refuted");
    assert!(wrong * 4 > tried.len() && refuted * 10 >= 9 * wrong, "{refuted} of {wrong}, {}", tried.len());
}

#[test]
fn controllers_are_proved_or_refuted() {
    let check = |seed: u64| {
        let random = &mut Random(seed ^ 0xc0);
        let (model, scale) = plain(random, &[0.0, 0.1, 0.3, 0.5]);
        let nodes = controller(random, &model);
        let steps = depth(&model);
        let error = scale * (model.gamma().powi(steps as i32) / (1.0 - model.gamma()) + 1e-12);
        let truth = (&exactly(&model, &nodes), by_enumeration(&model, steps), error);
        check(seed, (&model, scale), &nodes, None, truth)
    };
    let tried: Vec<Option<bool>> = seeds(60).into_par_iter().map(check).collect();
    mostly(&tried);
}

#[test]
fn controllers_are_proved_or_refuted_in_the_first_steps() {
    let check = |seed: u64| {
        let random = &mut Random(seed ^ 0xc1);
        let (model, scale) = plain(random, &[0.5, 0.9, 1.0]);
        let nodes = controller(random, &model);
        let steps = (1 + random.below(4) as u32).min(depth(&model));
        let truth = (&within(&model, &nodes, steps), by_enumeration(&model, steps), 1e-11 * scale);
        check(seed, (&model, scale), &nodes, Some(steps), truth)
    };
    let tried: Vec<Option<bool>> = seeds(60).into_par_iter().map(check).collect();
    mostly(&tried);
}

fn solve(model: &Pomdp, horizon: Option<u32>, gap: f64) -> Solution {
    let options = SolveOptions {
        device: DeviceChoice::Cpu,
        horizon,
        limits: Limits { gap: Gap::Absolute(gap), iterations: Some(300), ..Limits::default() },
        ..SolveOptions::default()
    };
    solve_with(model, &options, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// None of the solver's plans and first vectors is refuted, and most are proved; planted errors are refuted.
#[test]
fn plans_of_the_solver_are_proved_and_planted_errors_refuted() {
    let tried: Vec<[bool; 3]> = seeds(60)
        .into_par_iter()
        .map(|seed| {
            let random = &mut Random(seed ^ 0x91a);
            let (model, scale) = plain(random, &[0.5, 0.9, 1.0]);
            let (sign, steps) = (model.process().objective().sign(), 1 + random.below(5) as u32);
            let solution = solve(&model, Some(steps), 1e-6 * scale);
            let nodes = of_graph(PolicyGraph::of_stages(&model, &solution.stages).unwrap());
            let exact = Exact::Finite(within(&model, &nodes, steps)).nearest();
            let loss = solution.end().gap() + 1e-6 * scale;
            let claim = promise(scale, Some(steps), Some(exact), Some(loss));
            let plan = verify_controller(&model, &nodes, &claim).unwrap();
            let what = format!("seed {seed}, {:?}: {plan:?}", solution.end());
            assert_ne!(plan.verdict(), Verdict::Refuted, "{what}");
            let vectors = verify_first_step(&model, &solution.vectors, steps, &claim.tolerance).unwrap();
            assert_ne!(vectors.verdict(), Verdict::Refuted, "{what}, {vectors:?}");

            // Another first action, with the value that it had before.
            let mut other = nodes.clone();
            let first = &mut other.actions[nodes.starts[0] as usize];
            *first = (*first + 1) % model.actions();
            let worth = within(&model, &other, steps);
            let found = verify_controller(&model, &other, &claim).unwrap();
            assert!(contains(found.own, &worth), "{what}, {found:?}");
            let off = (Exact::Finite(worth).nearest() - exact).abs();
            if off > 2e-6 * scale {
                assert_eq!(found.verdict(), Verdict::Refuted, "{what}, {found:?}");
            }
            // Vectors that are too high.
            let raised: Vec<f64> =
                solution.vectors.values().iter().map(|x| x + sign * (2.0 * loss + 1e-5 * scale)).collect();
            let raised = AlphaVectors::from_parts(model.states(), raised, solution.vectors.actions().to_vec()).unwrap();
            let high = verify_first_step(&model, &raised, steps, &claim.tolerance).unwrap();
            assert_ne!(high.value.unwrap().verdict, Verdict::Proved, "{what}, {high:?}");
            [
                plan.verdict() == Verdict::Proved,
                vectors.verdict() == Verdict::Proved,
                high.verdict() == Verdict::Refuted,
            ]
        })
        .collect();
    let counts = [0, 1, 2].map(|place| tried.iter().filter(|found| found[place]).count());
    eprintln!(
        "of {}: plans proved {}, vectors proved {}, raised ones refuted {}",
        tried.len(),
        counts[0],
        counts[1],
        counts[2]
    );
    assert!(counts.iter().all(|count| count * 10 >= 9 * tried.len()), "{counts:?}");
}

#[test]
fn what_cannot_be_verified_is_said() {
    let random = &mut Random(1);
    let (model, scale) = plain(random, &[1.0]);
    let observations = model.observation_count() as usize;
    let nodes = |next: Option<u32>| Nodes {
        numbers: vec![7],
        actions: vec![0],
        next: vec![next; observations],
        starts: vec![0],
    };
    let run = |nodes: &Nodes, horizon| verify_controller(&model, nodes, &promise(scale, horizon, None, None));
    assert_eq!(run(&nodes(Some(0)), None).unwrap_err(), Unverifiable::Discount(1.0));
    assert!(run(&nodes(Some(0)), Some(3)).is_ok() && run(&nodes(None), Some(1)).is_ok());
    assert_eq!(run(&nodes(None), Some(3)).unwrap_err(), Unverifiable::Ends { node: 7, steps: 1, horizon: 3 });
    let unknown = |what, found, below| Unverifiable::Unknown { what, found, below };
    assert_eq!(run(&nodes(Some(4)), Some(1)).unwrap_err(), unknown("node", 4, 1));
    let wrong = Nodes { actions: vec![9], ..nodes(None) };
    assert_eq!(run(&wrong, Some(1)).unwrap_err(), unknown("action", 9, model.actions()));
    assert_eq!(run(&Nodes::default(), Some(1)).unwrap_err(), Unverifiable::NoNodes);
    let short = Nodes { next: Vec::new(), ..nodes(None) };
    let count = Unverifiable::Count { what: "successors", found: 0, expected: observations };
    assert_eq!(run(&short, Some(1)).unwrap_err(), count);
    let (discounted, _) = plain(random, &[0.5]);
    let ends = Nodes { next: vec![None; discounted.observation_count() as usize], ..nodes(None) };
    let found = verify_controller(&discounted, &ends, &promise(scale, None, None, None));
    assert_eq!(found.unwrap_err(), Unverifiable::Ending(7));
}
