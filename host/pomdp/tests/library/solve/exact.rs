//! Exact solutions against incremental pruning of the reference, in random beliefs.

use std::ops::ControlFlow;

use rayon::prelude::*;
use warpkov_common::numbers::max_norm;
use warpkov_pomdp::backends::cpu::Assembler;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::generate::{FourByThree, Inspection, Tiger};
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::{Expansion, Gap, Limits, Scheme, SolveOptions};
use warpkov_pomdp::solution::{Solution, Status};
use warpkov_pomdp::solve::solve_with;
use warpkov_pomdp::verify::verify;
use warpkov_runtime::choose::DeviceChoice;

use crate::common::{discounted, is_attained, model_of, options, solve, watch};
use crate::exact::{error, incremental_pruning};
use crate::random::Random;

fn exactly() -> SolveOptions {
    let limits = Limits { gap: Gap::NONE, ..Limits::default() };
    SolveOptions { exact: true, limits, ..SolveOptions::default() }
}

/// Random models may have thousands of vectors.
fn few_combinations() -> SolveOptions {
    let exactly = exactly();
    SolveOptions { limits: Limits { vectors: 4096, ..exactly.limits }, ..exactly }
}

/// Corners, the middle, and random beliefs.
fn beliefs(random: &mut Random, states: u32) -> Vec<Belief> {
    let mut beliefs: Vec<Belief> = (0..states).map(Belief::at).collect();
    beliefs.push(Belief::uniform((0..states).collect()));
    for _ in 0..20 {
        let weights: Vec<f64> = (0..states).map(|_| 10_f64.powf(-6.0 * random.unit())).collect();
        let sum: f64 = weights.iter().sum();
        beliefs.push(Belief::dense(&weights.iter().map(|weight| weight / sum).collect::<Vec<_>>()).unwrap());
    }
    beliefs
}

/// A random model whose rewards have any size from 1e-6 to 1e6.
fn random_model(random: &mut Random) -> Pomdp {
    let shape = [2 + random.below(3), 2 + random.below(2), 1 + random.below(3)].map(|count| count as u32);
    let (gamma, size) = (0.2 + 0.5 * random.unit(), 10_f64.powf(12.0 * random.unit() - 6.0));
    model_of(random, shape, gamma, size)
}

/// The value of a policy of the maximisation problem, in a belief.
fn value(model: &Pomdp, solution: &Solution, belief: &Belief) -> f64 {
    solution.vectors.clone().times(model.process().objective().sign()).best(belief).unwrap().1
}

#[test]
fn exact_values_hold_in_every_belief() {
    let (mut random, mut solved) = (Random::new(31), 0);
    for index in 0..100 {
        let model = random_model(&mut random);
        let solution = solve(&model, &few_combinations());
        let maximized = model.to_maximize();
        let (gamma, horizon) = (model.gamma(), 40);
        let largest = max_norm(&maximized.expected_rewards()) / (1.0 - gamma);
        let found = solution.error.unwrap();
        if solution.status == Status::Gap {
            solved += 1;
            assert!(found <= 1e-11 * largest / (1.0 - gamma), "model {index}: {found:e}, {largest:e}");
            assert!(solution.end().gap() <= 1e-11 * largest / (1.0 - gamma), "model {index}: {:?}", solution.end());
        } else {
            assert_eq!(solution.status, Status::Memory, "model {index}");
        }
        let Some(reference) = incremental_pruning(&maximized, horizon, 64) else { continue };
        let later = gamma.powi(horizon as i32) * largest;
        let [below, above] = error(&maximized, horizon);
        for belief in beliefs(&mut random, model.states()) {
            let (own, other) = (value(&model, &solution, &belief), reference.best(&belief).unwrap().1);
            let room = 1e-12 * largest;
            assert!(own <= other + above + later + room, "model {index}: {own} above {other}");
            assert!(own + found >= other + below - later - room, "model {index}: {own} + {found:e} below {other}");
        }
        is_attained(&model, &solution, 0, &format!("model {index}"));
    }
    assert!(solved >= 70, "{solved} of 100");
}

/// With γ near 1, each vector is at most its backup, and no one-step lookahead is above V by more than the error allows.
#[test]
fn exact_values_solve_the_bellman_equation() {
    let (mut random, mut solved) = (Random::new(32), 0);
    for index in 0..20 {
        let gamma = 1.0 - 10_f64.powf(-0.5 - 1.5 * random.unit());
        let model = discounted(random_model(&mut random), gamma);
        let solution = solve(&model, &few_combinations());
        solved += u32::from(solution.status == Status::Gap);
        let maximized = model.to_maximize();
        let largest = max_norm(&maximized.expected_rewards()) / (1.0 - gamma);
        let found = solution.error.unwrap();
        let rounding = 1e-11 * largest / (1.0 - gamma);
        assert!(found <= rounding || solution.status == Status::Memory, "model {index}: {found:e}");
        let vectors = solution.vectors.clone().times(model.process().objective().sign());
        let proof = verify(&maximized, &vectors, 1e-12 * largest, 300, &|| false).unwrap();
        assert_eq!(proof.supported, proof.vectors, "model {index}: {proof:?}");
        for belief in beliefs(&mut random, model.states()).into_iter().skip(1).step_by(8) {
            let one = SolveOptions { horizon: None, ..options(1e-5 * largest, 400) };
            let start = warpkov_pomdp::model::PomdpParts { start: belief.clone(), ..maximized.clone().into_parts() };
            let searched = *solve(&start.validated().unwrap(), &one).end();
            let own = value(&model, &solution, &belief);
            assert!(own <= searched.upper && own + found >= searched.lower, "model {index}: {own}, {searched:?}");
        }
    }
    assert!(solved >= 12, "{solved} of 20");
}

/// Cassandra's tiger: 9 vectors, and the value of the start is that of a search to 1e-6.
#[test]
fn the_tiger_has_nine_vectors() {
    let tiger = Tiger::default().generate().unwrap();
    let solution = solve(&tiger, &exactly());
    assert_eq!((solution.status, solution.vectors.len()), (Status::Gap, 9));
    let (exact, searched) = (*solution.end(), *solve(&tiger, &options(1e-6, 4000)).end());
    assert!(exact.gap() <= 1e-8, "{exact:?}");
    assert!(exact.upper >= searched.lower && exact.lower <= searched.upper, "{exact:?}, {searched:?}");
    let support = solution.support.unwrap();
    assert!((support.value - exact.lower).abs() <= 1e-8, "{} {exact:?}", support.value);
}

/// The plans of each number of steps: values of the reference, and each plan is worth its action and what it continues with.
#[test]
fn exact_plans_have_the_values_of_the_reference() {
    let (mut random, mut solved) = (Random::new(33), 0);
    for index in 0..40 {
        let (model, horizon) = (random_model(&mut random), 1 + random.below(6) as u32);
        let solution = solve(&model, &SolveOptions { horizon: Some(horizon), ..few_combinations() });
        assert_eq!(solution.stages.len(), horizon as usize, "model {index}");
        if solution.status == Status::Memory {
            continue;
        }
        assert_eq!(solution.status, Status::Gap, "model {index}");
        solved += 1;
        let maximized = model.to_maximize();
        let largest = max_norm(&maximized.expected_rewards()) / (1.0 - model.gamma());
        let assembler = Assembler::new(&maximized, &maximized.expected_rewards());
        for (place, stage) in solution.stages.iter().enumerate() {
            let reference = incremental_pruning(&maximized, horizon - place as u32, 64);
            let Some(reference) = reference else { continue };
            for belief in beliefs(&mut random, model.states()) {
                let (own, other) = (stage.vectors.best(&belief).unwrap().1, reference.best(&belief).unwrap().1);
                assert!((own - other).abs() <= 1e-10 * largest, "model {index}, stage {place}: {own}, {other}");
            }
            let Some(after) = solution.stages.get(place + 1) else { continue };
            let width = model.observation_count() as usize;
            for plan in 0..stage.vectors.len() {
                let next = &stage.next[plan * width..][..width];
                let backed_up = assembler.vector(&after.vectors, stage.vectors.actions()[plan], next);
                let pairs = backed_up.iter().zip(stage.vectors.vector(plan));
                assert!(pairs.clone().all(|(a, b)| (a - b).abs() <= 1e-12 * largest), "model {index}, plan {plan}");
            }
        }
    }
    assert!(solved >= 30, "{solved} of 40");
}

#[test]
fn a_horizon_needs_no_discount() {
    let machine = discounted(Inspection::default().generate().unwrap(), 1.0);
    let steps = SolveOptions { horizon: Some(5), ..exactly() };
    let (exact, searched) = (solve(&machine, &steps), solve(&machine, &SolveOptions { exact: false, ..steps }));
    let (exact, searched) = (*exact.end(), *searched.end());
    assert!(exact.lower <= searched.upper && exact.upper >= searched.lower, "{exact:?}, {searched:?}");
    assert!(exact.gap() <= 1e-9, "{exact:?}");
    let error = solve_with(&machine, &exactly(), &mut watch()).unwrap_err();
    assert!(error.to_string().starts_with("γ is 1"), "{error}");
}

/// A limit ends a run with bounds that hold.
#[test]
fn limits_end_exact_solutions() {
    let tiger = Tiger::default().generate().unwrap();
    let exact = solve(&tiger, &exactly());
    let limited = |limits: Limits, horizon| solve(&tiger, &SolveOptions { limits, horizon, ..exactly() });
    let limits = exactly().limits;
    let rounds = limited(Limits { iterations: Some(1), ..limits }, None);
    assert_eq!(rounds.status, Status::Iterations);
    let few = limited(Limits { vectors: 2, ..limits }, None);
    assert_eq!(few.status, Status::Memory);
    let near = limited(Limits { gap: Gap::Absolute(1.0), ..limits }, None);
    assert_eq!(near.status, Status::Gap);
    assert!(near.end().gap() <= 1.0 && near.end().iterations <= exact.end().iterations, "{:?}", near.end());
    for solution in [rounds, few, near] {
        let (end, best) = (solution.end(), exact.end());
        assert!(end.lower <= best.upper && end.upper >= best.lower, "{end:?}, {best:?}");
        is_attained(&tiger, &solution, 0, "a limit");
    }
    let plan = limited(Limits { vectors: 2, ..limits }, Some(4));
    assert_eq!((plan.status, plan.stages.len()), (Status::Memory, 4));
    assert_eq!(plan.error, Some(f64::INFINITY));
    let whole = limited(limits, Some(4));
    assert!(plan.end().lower <= whole.end().upper && plan.end().upper >= whole.end().lower);
}

/// In a pool of one thread, too, and as many at a time as a pool has threads: nobody waits for a thread that waits.
#[test]
fn pools_of_threads_solve_exactly() {
    let tiger = Tiger::default().generate().unwrap();
    let alone = solve(&tiger, &exactly());
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let solved: Vec<Solution> =
            pool.install(|| (0..6).into_par_iter().map(|_| solve(&tiger, &exactly())).collect());
        assert!(solved.iter().all(|solution| solution.vectors == alone.vectors), "{threads} threads");
    }
}

/// Whenever an observer stops it, the bounds hold and the policy attains its own.
#[test]
fn interrupted_exact_solutions_hold() {
    let grid = FourByThree::default().generate().unwrap();
    let best = *solve(&grid, &options(1e-3, 20_000)).end();
    for most in [1, 2, 4, 8, 16, 32, 64] {
        let mut looks = 0;
        let mut stop = |_: &_| {
            looks += 1;
            if looks > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let solution = solve_with(&grid, &exactly(), &mut stop).unwrap();
        let end = *solution.end();
        assert_eq!(solution.status, Status::Interrupted, "{most} looks");
        assert!(end.lower <= best.upper && end.upper >= best.lower, "{most} looks: {end:?}, {best:?}");
        is_attained(&grid, &solution, 0, &format!("{most} looks"));
    }
}

#[test]
fn options_of_a_search_are_refused() {
    let tiger = Tiger::default().generate().unwrap();
    let fsvi = SolveOptions { expansion: Some(Expansion::Fsvi), ..exactly() };
    let full = SolveOptions { scheme: Some(Scheme::Full), ..exactly() };
    let emulated = SolveOptions { device: DeviceChoice::Emulated, ..exactly() };
    let companion = SolveOptions { companion: true, ..exactly() };
    for (options, what) in [
        (fsvi, "option expansion"),
        (full, "option backups"),
        (emulated, "option device"),
        (companion, "option companion"),
    ] {
        let error = solve_with(&tiger, &options, &mut watch()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("an exact solution is found by one process on the CPU: expected no {what}")
        );
    }
}
