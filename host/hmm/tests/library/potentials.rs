//! Linear chains with any potentials, against the sum over all paths.

use warpkov_hmm::options::Precision;
use warpkov_hmm::potentials::{ChainError, Potentials};
use warpkov_runtime::choose::DeviceChoice;

use crate::random::Random;

/// ln Z of a sequence over all paths.
fn all_paths(start: &[f64], transitions: &[f64], steps: &[f64]) -> f64 {
    let n = start.len();
    let length = steps.len() / n;
    let weight = |path: usize| {
        let states: Vec<usize> = (0..length).map(|t| path / n.pow(t as u32) % n).collect();
        let moves: f64 = states.windows(2).map(|pair| transitions[pair[0] * n + pair[1]]).sum();
        start[states[0]] + moves + states.iter().enumerate().map(|(t, &state)| steps[t * n + state]).sum::<f64>()
    };
    let logs: Vec<f64> = (0..n.pow(length as u32)).map(weight).collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY { most } else { most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln() }
}

struct Case {
    start: Vec<f64>,
    transitions: Vec<f64>,
    steps: Vec<f64>,
    lengths: Vec<usize>,
}

impl Case {
    /// Potentials over many orders of magnitude, some of which are −∞.
    fn new(seed: u64) -> Self {
        let random = &mut Random(seed);
        let n = 1 + seed as usize % 4;
        let scale = [0.1, 1.0, 30.0][seed as usize % 3];
        let never = if seed.is_multiple_of(2) { 0.0 } else { 0.15 };
        let lengths = vec![1 + seed as usize % 5, 1, 3];
        let mut drawn = |count: usize| -> Vec<f64> {
            let number =
                |_| if random.unit() < never { f64::NEG_INFINITY } else { scale * (2.0 * random.unit() - 1.0) };
            (0..count).map(number).collect()
        };
        let (start, transitions) = (drawn(n), drawn(n * n));
        let steps = drawn(lengths.iter().sum::<usize>() * n);
        Self { start, transitions, steps, lengths }
    }

    fn potentials(&self) -> Potentials<'_> {
        let Self { start, transitions, steps, lengths } = self;
        Potentials { start, transitions, steps, lengths }
    }

    fn log_z(&self) -> Vec<f64> {
        let n = self.start.len();
        let mut first = 0;
        let of = |&length: &usize| {
            let steps = &self.steps[first * n..(first + length) * n];
            first += length;
            all_paths(&self.start, &self.transitions, steps)
        };
        self.lengths.iter().map(of).collect()
    }

    /// Σ w ln Z over the sequences whose Z is not 0.
    fn objective(&self, weights: &[f64]) -> f64 {
        self.log_z().iter().zip(weights).filter(|(log, _)| log.is_finite()).map(|(log, w)| w * log).sum()
    }
}

#[track_caller]
fn near(found: f64, expected: f64, tolerance: f64, place: &str) {
    let near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
    assert!(found == expected || near, "{place}: {found}, expected {expected}");
}

#[test]
fn every_device_sums_over_all_paths() {
    for seed in 0..60 {
        let case = Case::new(seed);
        let expected = case.log_z();
        for (device, precision, tolerance) in [
            (DeviceChoice::Cpu, Precision::F64, 1e-12),
            (DeviceChoice::Cpu, Precision::F32, 1e-4),
            (DeviceChoice::Emulated, Precision::F64, 1e-12),
            (DeviceChoice::Emulated, Precision::F32, 1e-4),
        ] {
            let found = case.potentials().log_z(device, precision).unwrap();
            for (found, expected) in found.iter().zip(&expected) {
                near(*found, *expected, tolerance, &format!("seed {seed}, {device}, {precision:?}"));
            }
        }
    }
}

#[test]
fn derivatives_are_differences() {
    for seed in 0..24 {
        let case = Case::new(seed);
        let weights = [[1.0, 1.0, 1.0], [-1.0, -2.0, -0.5], [0.5, -3.0, 0.0]][seed as usize % 3];
        for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
            let found = case.potentials().derivatives(&weights, device, Precision::F64).unwrap();
            found.log_z.iter().zip(case.log_z()).for_each(|(found, expected)| near(*found, expected, 1e-12, "ln Z"));
            let h = 1e-5;
            let check = |at: usize, slopes: &[f64], numbers: fn(&mut Case) -> &mut Vec<f64>| {
                let moved = |by: f64| {
                    let mut case = Case::new(seed);
                    numbers(&mut case)[at] += by;
                    case.objective(&weights)
                };
                let difference = (moved(h) - moved(-h)) / (2.0 * h);
                near(slopes[at], difference, 1e-6, &format!("seed {seed}, {device}, {at}"));
            };
            (0..case.start.len()).for_each(|at| check(at, &found.start, |case| &mut case.start));
            (0..case.transitions.len()).for_each(|at| check(at, &found.transitions, |case| &mut case.transitions));
            (0..case.steps.len()).for_each(|at| check(at, &found.steps, |case| &mut case.steps));
        }
    }
}

/// Nothing is derived with weights of 0, and ln Z is there.
#[test]
fn weights_of_zero_have_no_derivatives() {
    let case = Case::new(3);
    let found = case.potentials().derivatives(&[0.0; 3], DeviceChoice::Cpu, Precision::F64).unwrap();
    found.log_z.iter().zip(case.log_z()).for_each(|(found, expected)| near(*found, expected, 1e-12, "ln Z"));
    assert!([&found.start, &found.transitions, &found.steps].into_iter().flatten().all(|x| *x == 0.0));
    assert_eq!(found.steps.len(), case.steps.len());
}

#[test]
fn wrong_numbers_are_refused() {
    let (start, transitions, steps) = ([0.0; 2], [0.0; 4], [0.0; 6]);
    let good = Potentials { start: &start, transitions: &transitions, steps: &steps, lengths: &[3] };
    let refused =
        |potentials: Potentials<'_>| -> ChainError { potentials.log_z(DeviceChoice::Cpu, Precision::F64).unwrap_err() };
    let said = |potentials| refused(potentials).to_string();
    assert_eq!(said(Potentials { transitions: &[0.0; 3], ..good }), "transitions has 3 numbers, expected 4");
    assert_eq!(said(Potentials { lengths: &[2], ..good }), "steps has 6 numbers, expected 4");
    let wrong = "steps has the number NaN at 1, expected a number below ∞";
    assert_eq!(said(Potentials { steps: &[0.0, f64::NAN, 0.0, 0.0, 0.0, 0.0], ..good }), wrong);
    assert!(matches!(refused(Potentials { lengths: &[3, 0], ..good }), ChainError::Sequences(_)));
    let none = Potentials { start: &[], transitions: &[], steps: &[], lengths: &[3] };
    assert!(!said(none).is_empty());
    let weights = good.derivatives(&[1.0, 2.0], DeviceChoice::Cpu, Precision::F64).unwrap_err();
    assert_eq!(weights.to_string(), "weights has 2 numbers, expected 1");
    assert!(good.derivatives(&[f64::NAN], DeviceChoice::Cpu, Precision::F64).is_err());
}
