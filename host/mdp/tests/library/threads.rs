//! The number of threads does not change a bit: every method and criterion that uses all cores, and what is asked of a solution.

use std::fmt::Debug;
use std::ops::ControlFlow;

use warpkov_mdp::Solve;
use warpkov_mdp::ask::{evaluate, q};
use warpkov_mdp::criterion::{Cpu, Criterion, Options, solve};
use warpkov_mdp::generate::{Garnet, SlipGrid};
use warpkov_mdp::model::{Mdp, Objective};
use warpkov_mdp::options::{Limits, Method, Precision, Reorder, SolveOptions, Target};
use warpkov_runtime::choose::DeviceChoice;

use crate::engine::models;

/// Asserts that `f` has the same result on 1, 2, 3 and 5 threads, and returns it.
fn same<R: PartialEq + Send>(what: impl Debug, f: impl Fn() -> R + Sync) -> R {
    let on = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(&f);
    let one = on(1);
    for threads in [2, 3, 5] {
        assert!(on(threads) == one, "{what:?}: {threads} threads");
    }
    one
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Models of several blocks of every method: 1024 states in most, 16,384 in Gauss-Seidel sweeps.
fn large() -> [Mdp; 2] {
    let garnet =
        Garnet { states: 40_000, actions: 3, branching: 4, terminals: 0.01, window: Some(300), ..Garnet::default() };
    let grid = SlipGrid { width: 220, height: 180, walls: 0.2, obstacles: 0.05, ..SlipGrid::default() };
    [garnet.generate().unwrap(), grid.generate().unwrap()]
}

#[test]
fn discounted_solutions_have_the_same_bits_on_any_number_of_threads() {
    let models: Vec<Mdp> = models().into_iter().chain(large()).collect();
    for (method, precision, reorder) in [
        (Method::Values, Precision::F64, Reorder::None),
        (Method::Values, Precision::F64, Reorder::Rcm),
        (Method::Values, Precision::F32, Reorder::None),
        (Method::Values, Precision::Refined, Reorder::None),
        (Method::GaussSeidel, Precision::F64, Reorder::None),
        (Method::GaussSeidel, Precision::F32, Reorder::None),
        (Method::Modified, Precision::F64, Reorder::None),
        (Method::Modified, Precision::F32, Reorder::None),
        (Method::Parallel, Precision::F64, Reorder::None),
        (Method::Parallel, Precision::F32, Reorder::None),
        (Method::Krylov, Precision::F64, Reorder::None),
    ] {
        let limits = Limits { target: Target::Epsilon(1e-7), max_sweeps: 40, max_policies: 8, tie: 1e-9 };
        let device = DeviceChoice::Cpu;
        let options =
            SolveOptions { method: Some(method), device, precision, reorder, limits, ..SolveOptions::default() };
        for (number, model) in models.iter().enumerate() {
            same((method, precision, reorder, number), || {
                let found = Solve::new(model, &options).run().unwrap();
                let rounds =
                    found.run.rounds.iter().map(|round| (round.sweeps, round.residual.to_bits(), round.changed));
                (bits(&found.values), found.policy, rounds.collect::<Vec<_>>(), found.run.status, found.certificate)
            });
        }
    }
}

#[test]
fn certified_intervals_have_the_same_bits_on_any_number_of_threads() {
    // More states than a partial sum of the extrapolation has.
    let garnet = Garnet { states: 70_000, actions: 2, branching: 3, terminals: 0.05, gamma: 1.0, ..Garnet::default() };
    let model = garnet.generate().unwrap();
    let goal: Vec<u32> = (0..70_000).step_by(500).collect();
    let options = Options { epsilon: 1e-4, max_sweeps: 100, ..Options::default() };
    for objective in [Objective::Maximize, Objective::Minimize] {
        let model = model.clone().with_objective(objective);
        for criterion in [
            Criterion::Reach { goal: goal.clone() },
            Criterion::TotalReward { goal: None },
            Criterion::TotalReward { goal: Some(goal.clone()) },
            Criterion::Average,
            Criterion::Horizon(30),
        ] {
            same((&criterion, objective), || {
                let found =
                    solve(&model, &criterion, &options, &Cpu::default(), &mut |_| ControlFlow::Continue(())).unwrap();
                (bits(&found.lower), bits(&found.upper), found.policy, found.status, found.bits)
            });
        }
    }
}

#[test]
fn answers_about_a_solution_have_the_same_bits_on_any_number_of_threads() {
    let options =
        evaluate::Options { device: DeviceChoice::Cpu, precision: Precision::F64, ..evaluate::Options::default() };
    for (number, model) in large().iter().enumerate() {
        let policy = model.first_policy();
        let (values, _) = same(("value", number), || {
            let found = evaluate::value(model, &policy, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
            (bits(&found.values), (bits(&found.lower), bits(&found.upper)))
        });
        let values: Vec<f64> = values.into_iter().map(f64::from_bits).collect();
        same(("Q-factors", number), || q::q_factors(model, &values, Some(1e-6)));
    }
}
