//! Partially observable models: every way to sample and to back up beliefs, and both precisions of a device.

use std::ops::ControlFlow;

use warpkov_common::choice::Choice;
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::{Expansion, Gap, Limits, Precision, Scheme, SolveOptions};
use warpkov_pomdp::solve::solve_with;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_verify::mdp::Verdict;
use warpkov_verify::pomdp::{Tolerance, verify};

use crate::models::Random;
use crate::pomdps::model;
use crate::{gpu, night};

/// Solves, and verifies that the vectors are below V\* and attained, and that both bounds hold.
fn holds(seed: u64, model: &Pomdp, scale: f64, options: &SolveOptions) {
    let solution = solve_with(model, options, &mut |_| ControlFlow::Continue(()));
    let what = format!("seed {seed}, {options:?}");
    let solution = solution.unwrap_or_else(|error| panic!("{what}: {error}"));
    let (end, vectors) = (*solution.end(), &solution.vectors);
    let rounding = if options.precision == Precision::F32 { 1e-4 } else { 1e-9 };
    let epsilon = rounding * scale / (1.0 - model.gamma());
    let claim = Tolerance { epsilon, loss: Some(2.0 * end.gap() + epsilon), visits: 1_000_000 };
    let found = verify(model, vectors, &claim).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_ne!(found.verdict(), Verdict::Refuted, "{what}, {end:?}: {found:?}");
    let meet = found.optimal.lo <= end.upper + epsilon && end.lower <= found.optimal.hi + epsilon;
    assert!(meet && end.lower <= end.upper, "{what}, {end:?}: {found:?}");
}

/// Each model in one of `part` parts of the ways, in turn.
fn searches(device: DeviceChoice, count: u64, part: usize) {
    let (beliefs, iterations) = match device {
        DeviceChoice::Cpu => (16, 20),
        DeviceChoice::Emulated => (4, 2),
        _ => (16, 5),
    };
    let mut all = Vec::new();
    for &expansion in Expansion::ALL {
        for &scheme in Scheme::ALL {
            for &precision in if device == DeviceChoice::Cpu { &[Precision::F64][..] } else { Precision::ALL } {
                all.push((expansion, scheme, precision));
            }
        }
    }
    night(device, count, |seed| {
        let (model, scale) = model(&mut Random(seed ^ 0xb0d), &[0.0, 0.5, 0.9, 0.99]);
        let gap = 1e-4 * scale / (1.0 - model.gamma());
        for (expansion, scheme, precision) in all.iter().skip(seed as usize % part).step_by(part) {
            let limits =
                Limits { gap: Gap::Absolute(gap), iterations: Some(iterations), vectors: 64, ..Limits::default() };
            let options = SolveOptions {
                device,
                precision: *precision,
                expansion: Some(*expansion),
                scheme: Some(*scheme),
                beliefs,
                trials: Some(2),
                seed,
                limits,
                ..SolveOptions::default()
            };
            holds(seed, &model, scale, &options);
        }
        if device == DeviceChoice::Cpu {
            // Some models have thousands of vectors.
            let limits = Limits { gap: Gap::NONE, vectors: 4096, ..Limits::default() };
            holds(seed, &model, scale, &SolveOptions { exact: true, limits, ..SolveOptions::default() });
        }
        1
    });
}

#[test]
fn on_the_cpu() {
    searches(DeviceChoice::Cpu, 12, 3);
}

#[test]
fn under_the_emulator() {
    searches(DeviceChoice::Emulated, 6, 18);
}

#[test]
fn on_a_gpu() {
    if let Some(gpu) = gpu() {
        searches(gpu, 50, 18);
    }
}
