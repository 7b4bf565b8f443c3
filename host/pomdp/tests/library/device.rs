//! Solves on the emulator: the bounds of walks hold, and runs are reproducible.

use std::sync::OnceLock;

use warpkov_pomdp::generate::{Olfactory, Tiger};
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::{Expansion, Gap, Limits, Precision, Scheme, SolveOptions};
use warpkov_pomdp::solution::{Round, Status};
use warpkov_runtime::choose::DeviceChoice;

use crate::common::solve;

fn emulated(expansion: Option<Expansion>, precision: Precision, iterations: u64) -> SolveOptions {
    SolveOptions {
        device: DeviceChoice::Emulated,
        precision,
        expansion,
        beliefs: 8,
        trials: Some(4),
        limits: Limits { iterations: Some(iterations), ..Limits::default() },
        ..SolveOptions::default()
    }
}

/// Cassandra's tiger at γ = .95: SARSOP's bounds on V*(b₀) are 19.3711 and 19.3721. Walks by the state never listen.
///
/// Walks have 16, 32 and 64 steps, and the third ones find the bounds.
fn tiger_is_bracketed(expansion: Option<Expansion>, precision: Precision) {
    let tiger = Tiger::default().generate().unwrap();
    // Trials run in batches of four. The other expansions run one step of eight walks; random walks seldom listen
    // twice.
    let (iterations, least) = match expansion {
        Some(Expansion::Hsvi) => (14, 18.0),
        Some(Expansion::Random) => (120, 16.0),
        _ => (120, 18.5),
    };
    let options = emulated(expansion, precision, iterations);
    let solution = solve(&tiger, &options);
    let end = solution.end();
    assert!(end.lower <= 19.3722 && end.upper >= 19.3711 && end.lower >= least, "{expansion:?}: {end:?}");
    // The fast informed bound is 87. Few of the walks are optimistic, and they must listen several times.
    assert!(expansion.is_some() || end.upper <= 32.0, "{end:?}");
    // The reported lower bound is the value of the vectors, minus at most the rounding of their type.
    let value = solution.vectors.best(tiger.start()).unwrap().1;
    assert!(value >= end.lower && value - end.lower < 0.05, "{expansion:?}: {value}, {end:?}");
    assert_eq!(solution.device, "the emulator");
}

#[test]
fn tiger_is_bracketed_by_walks() {
    tiger_is_bracketed(None, Precision::F64);
}

#[test]
fn tiger_is_bracketed_by_greedy_walks() {
    tiger_is_bracketed(Some(Expansion::Ssga), Precision::F32);
}

#[test]
fn tiger_is_bracketed_by_random_walks() {
    tiger_is_bracketed(Some(Expansion::Random), Precision::F64);
}

#[test]
fn tiger_is_bracketed_by_trials() {
    tiger_is_bracketed(Some(Expansion::Hsvi), Precision::F64);
}

/// Random walks with backups of all beliefs also use the backend.
#[test]
fn hosted_schemes_run_on_devices() {
    let tiger = Tiger::default().generate().unwrap();
    for scheme in [Scheme::Full, Scheme::Randomized] {
        let options = SolveOptions { scheme: Some(scheme), ..emulated(Some(Expansion::Random), Precision::F64, 4) };
        let end = *solve(&tiger, &options).end();
        // Listening forever has the value −20.
        assert!(end.lower <= 19.3722 && end.lower >= -15.0, "{scheme} {end:?}");
    }
}

/// A small olfactory search, and the last round of its solve on the CPU.
fn smell() -> &'static (Pomdp, Round) {
    static SMELL: OnceLock<(Pomdp, Round)> = OnceLock::new();
    SMELL.get_or_init(|| {
        let model = Olfactory { width: 7, height: 5, source: (1, 2), gamma: 0.9, ..Olfactory::default() };
        let model = model.generate().unwrap();
        let limits = Limits { gap: Gap::Absolute(0.02), iterations: Some(2000), ..Limits::default() };
        let on_cpu = SolveOptions { device: DeviceChoice::Cpu, limits, ..SolveOptions::default() };
        let known = *solve(&model, &on_cpu).end();
        (model, known)
    })
}

/// The bounds agree with the CPU, and runs are reproducible.
fn bounds_agree_and_runs_repeat(precision: Precision) {
    let (model, known) = smell();
    // The first walks and their backups, and a part of the second ones.
    let options = emulated(None, precision, 18);
    let (first, again) = (solve(model, &options), solve(model, &options));
    assert_eq!(first.vectors, again.vectors);
    assert_eq!(first.end().lower.to_bits(), again.end().lower.to_bits());
    let other = solve(model, &SolveOptions { seed: 1, ..options });
    assert_ne!(first.vectors, other.vectors);
    let options = emulated(None, precision, 40);
    let first = solve(model, &options);
    let end = first.end();
    assert!(end.lower <= known.upper && end.upper >= known.lower, "{end:?} {known:?}");
    assert!(end.lower >= 0.9 * known.lower, "{end:?} {known:?}");
    // Half of the way from the fast informed bound, 0.74, to 0.55.
    assert!(first.rounds[0].upper >= 0.73 && end.upper <= 0.65, "{end:?}");
    // With little memory, points and vectors are dropped and the run continues.
    let limits = Limits { memory: Some(300_000), ..options.limits };
    let short = solve(model, &SolveOptions { limits, ..options });
    assert_eq!(short.status, Status::Iterations);
    assert!(short.found < first.found, "{} {}", short.found, first.found);
    let end = short.end();
    assert!(end.lower <= known.upper && end.upper >= known.lower, "{end:?} {known:?}");
    assert!(end.lower >= 0.9 * first.end().lower, "{end:?} {:?}", first.end());
}

#[test]
fn bounds_agree_and_runs_repeat_in_f64() {
    bounds_agree_and_runs_repeat(Precision::F64);
}

#[test]
fn bounds_agree_and_runs_repeat_in_f32() {
    bounds_agree_and_runs_repeat(Precision::F32);
}
