//! How a run goes and ends: equal runs, the default gap, turns of expansions, and limits.

use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_common::choice::Choice;
use warpkov_pomdp::generate::{FourByThree, Inspection, Tag, Tiger};
use warpkov_pomdp::io::{Format, read_from};
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::{Expansion, Gap, Limits, Scheme, SolveOptions, earned};
use warpkov_pomdp::solution::Status;
use warpkov_pomdp::solve::solve_with;
use warpkov_runtime::choose::DeviceChoice;

use crate::common::{options, solve};

/// Equal seeds give equal runs.
#[test]
fn runs_are_reproducible() {
    let model = FourByThree::default().generate().unwrap();
    for &expansion in Expansion::ALL {
        let run = |seed| {
            let limits = Limits { gap: Gap::Absolute(1e-9), iterations: Some(20), ..Limits::default() };
            let options =
                SolveOptions { expansion: Some(expansion), beliefs: 20, seed, limits, ..SolveOptions::default() };
            let solution = solve(&model, &options);
            (solution.vectors.clone(), solution.end().lower, solution.end().upper, solution.end().beliefs)
        };
        assert_eq!(run(5), run(5), "{expansion}");
    }
}

/// All expansions and schemes, and trials with batched updates of the upper bound, have the same result on any number of threads.
#[test]
fn cores_do_not_matter() {
    let model = FourByThree::default().generate().unwrap();
    let schemes = |expansion| Scheme::ALL.iter().map(move |&scheme| (expansion, Some(scheme), None, 3));
    let runs = Expansion::ALL.iter().flat_map(|&expansion| schemes(expansion));
    for (expansion, scheme, trials, iterations) in runs.chain([(Expansion::Hsvi, None, Some(8), 12)]) {
        let options =
            SolveOptions { expansion: Some(expansion), scheme, trials, beliefs: 20, ..options(1e-3, iterations) };
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let found = pool.install(|| solve_with(&model, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
            let end = *found.end();
            (found.vectors, end.lower.to_bits(), end.upper.to_bits(), end.beliefs, end.backups)
        };
        let one = on(1);
        assert!([2, 3, 5].into_iter().all(|threads| on(threads) == one), "{expansion}, {scheme:?}");
    }
}

/// The default gap is relative to the value: it does not depend on the unit of rewards, and ends where the value is 0.
#[test]
fn the_default_gap_is_relative_to_the_value() {
    let limits = Limits { iterations: Some(20_000), ..Limits::default() };
    let run = |factor: f64, gap: Gap| {
        let tiger = Tiger { listen: -factor, treasure: 10.0 * factor, tiger: -100.0 * factor, ..Tiger::default() };
        let options =
            SolveOptions { device: DeviceChoice::Cpu, limits: Limits { gap, ..limits }, ..Default::default() };
        solve(&tiger.generate().unwrap(), &options)
    };
    for exponent in [-40, 0, 40] {
        let factor = 2.0_f64.powi(exponent);
        let found = run(factor, Gap::default());
        let end = found.end();
        assert_eq!(found.status, Status::Gap);
        assert!(end.lower > 19.34 * factor && end.upper < 19.40 * factor, "{end:?}");
        assert_eq!(found.gap_limit, 1e-3 * end.lower);
        assert!(end.gap() <= found.gap_limit && found.relative_gap <= 1e-3, "{end:?}");
        assert_eq!(end.iterations, run(1.0, Gap::default()).end().iterations);
    }
    // Nothing is ever earned: the value is 0, and the limit follows the rewards.
    let options = SolveOptions { limits, ..SolveOptions::default() };
    let none = Tiger { listen: 0.0, treasure: -1.0, ..Tiger::default() }.generate().unwrap();
    let found = solve(&none, &options);
    assert_eq!((found.status, found.gap_limit), (Status::Gap, 1e-3 * 0.01));
    assert!(found.end().lower <= 0.0 && found.end().upper >= 0.0);
    let nothing = Tiger { listen: 0.0, treasure: 0.0, tiger: 0.0, ..Tiger::default() }.generate().unwrap();
    let found = solve(&nothing, &options);
    assert_eq!((found.status, found.relative_gap), (Status::Gap, 0.0));
}

/// Neither an action with a large penalty nor a state in which all actions have one changes the default gap.
#[test]
fn the_default_gap_ignores_what_good_play_avoids() {
    let limits = Limits { iterations: Some(20_000), ..Limits::default() };
    for sign in [1.0, -1.0] {
        for penalty in [0.0, 1e3, 1e6] {
            let model = tiger_with_penalty(sign, penalty);
            let found = solve(&model, &SolveOptions { device: DeviceChoice::Cpu, limits, ..SolveOptions::default() });
            let end = found.end();
            assert_eq!(found.status, Status::Gap, "{penalty}");
            let [lower, upper] = if sign > 0.0 { [end.lower, end.upper] } else { [-end.upper, -end.lower] };
            assert!(lower > 19.34 && upper < 19.40, "{penalty}: {end:?}");
        }
    }
    // What a step earns: rewards, else costs that are not 0, else what the worse actions cost.
    assert_eq!(earned(&[-1.0, 10.0, -1e9, -1e6, -1e7, -1e8], 3), 10.0);
    assert_eq!(earned(&[-1.0, -2.0, -1e6, -1e7, 0.0, -5.0], 2), 1.0);
    assert_eq!((earned(&[0.0, -2.0, 0.0, -3.0], 2), earned(&[0.0; 4], 2)), (2.0, 0.0));
}

/// Tiger with an action that tells nothing and costs `penalty`; with costs, if `sign` is negative.
fn tiger_with_penalty(sign: f64, penalty: f64) -> Pomdp {
    let (objective, number) = if sign > 0.0 { ("reward", 1.0) } else { ("cost", -1.0) };
    let text = format!(
        "discount: 0.95\nvalues: {objective}\nstates: left right\nactions: listen open-left open-right forbidden\n\
         observations: hear-left hear-right\nT: listen identity\nT: open-left uniform\nT: open-right uniform\n\
         T: forbidden identity\nO: listen\n0.85 0.15\n0.15 0.85\nO: open-left uniform\nO: open-right uniform\n\
         O: forbidden uniform\nR: listen : * : * : * {}\nR: open-left : left : * : * {}\nR: open-left : right : * : * {}\n\
         R: open-right : left : * : * {}\nR: open-right : right : * : * {}\nR: forbidden : * : * : * {}\n",
        -number,
        -100.0 * number,
        10.0 * number,
        10.0 * number,
        -100.0 * number,
        -penalty * number
    );
    read_from(text.as_bytes(), "tiger", Some(Format::Pomdp)).unwrap()
}

/// The default search is not much slower than trials alone where walks of the observed process help little.
#[test]
fn mixed_turns_follow_the_progress() {
    let model = Inspection { gamma: 0.97, ..Inspection::default() }.generate().unwrap();
    let backups = [Expansion::Mixed, Expansion::Sarsop, Expansion::Hsvi].map(|expansion| {
        let options = SolveOptions { device: DeviceChoice::Cpu, expansion: Some(expansion), ..options(1.0, 3000) };
        solve(&model, &options).end().backups
    });
    assert!(backups[0] < 2 * backups[1].min(backups[2]), "{backups:?}");
}

/// Every limit ends a run with a valid solution.
#[test]
fn limits_end_runs() {
    let model = Tag::default().generate().unwrap();
    let run = |limits: Limits| {
        solve(
            &model,
            &SolveOptions { limits: Limits { gap: Gap::Absolute(1e-9), ..limits }, ..SolveOptions::default() },
        )
    };
    let none = Limits::default();
    assert_eq!(run(Limits { iterations: Some(3), ..none }).status, Status::Iterations);
    assert_eq!(run(Limits { time: Some(Duration::ZERO), ..none }).status, Status::Time);
    // Data beyond the memory limit is dropped. If not even the beliefs of one trial fit, the run ends.
    let small = run(Limits { memory: Some(4 << 20), iterations: Some(40), ..none });
    assert_eq!(small.status, Status::Iterations);
    let small = run(Limits { memory: Some(1 << 12), ..none });
    assert_eq!(small.status, Status::Memory);
    assert!(!small.vectors.is_empty() && small.end().lower < small.end().upper);
    // Few vectors are the best at a belief; the vectors that they refer to are additional.
    let lengths = [40, 1 << 20].map(|vectors| run(Limits { vectors, iterations: Some(80), ..none }).found);
    assert!(lengths[0] < lengths[1], "{lengths:?}");
    let stopped = solve_with(&model, &SolveOptions::default(), &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((stopped.status, stopped.rounds.len()), (Status::Interrupted, 1));
}
