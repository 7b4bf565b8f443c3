//! Tied transitions in training.

use std::ops::ControlFlow;

use rand_chacha::ChaCha8Rng;
use warpkov_common::random::{below, random, unit};
use warpkov_hmm::backend::{Expected, Recursions};
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::durations::Duration;
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::model::{Hmm, HmmParts};
use warpkov_hmm::options::{Options, Precision, Pseudocounts};
use warpkov_hmm::place::recursions;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::Sequences;
use warpkov_hmm::train::train;
use warpkov_runtime::choose::{DeviceChoice, Place};

/// Some classes in some rows, each at random places.
fn random_ties(rng: &mut ChaCha8Rng, n: usize) -> Vec<u32> {
    let mut ties = vec![0; n * n];
    let mut class = 0;
    for group in 0..2 {
        let rows: Vec<usize> = (0..n).filter(|i| i % 2 == group && unit(rng) < 0.8).collect();
        let tied = 1 + below(rng, n as u64);
        let pattern: Vec<u32> = (0..tied).map(|_| class + 1 + below(rng, 3) as u32).collect();
        class += 3;
        for row in rows {
            let mut open: Vec<usize> = (0..n).collect();
            for &class in &pattern {
                let at = below(rng, open.len() as u64) as usize;
                ties[row * n + open.swap_remove(at)] = class;
            }
        }
    }
    ties
}

fn trained(place: DeviceChoice, model: &Hmm, sequences: &Sequences, options: &Options) -> Hmm {
    let (place, _) = Place::open(place, None).unwrap();
    let mut all = recursions(&place, sequences, Precision::F64, Default::default()).unwrap();
    let run =
        train(&mut *all, vec![model.clone()], options, &mut |_| ControlFlow::Continue(())).unwrap().runs.remove(0);
    assert_eq!(run.fell, None);
    run.model
}

fn expected(model: &Hmm, sequences: &Sequences) -> Expected {
    let mut batch = Batch::<f64>::new(sequences);
    let Ok(()) = batch.set_models(std::slice::from_ref(model));
    let Ok(mut expected) = batch.expect();
    expected.remove(0)
}

/// Σ c ln p of A and ends.
fn objective(model: &Hmm, counts: &Expected, options: &Options) -> f64 {
    let n = model.start().len();
    let term = |count: f64, prob: f64| if count > 0.0 { count * prob.ln() } else { 0.0 };
    let prior = |at: usize| options.sticky * f64::from(at / n == at % n) + 0.5;
    let moves = model.transitions().iter().zip(&counts.transitions).enumerate();
    let ends = model.end().unwrap_or_default().iter().zip(&counts.end);
    moves.map(|(at, (prob, count))| term(count + prior(at), *prob)).sum::<f64>()
        + ends.map(|(prob, count)| term(count + 0.5, *prob)).sum::<f64>()
}

/// A mixture of the chains of two models.
fn between(model: &Hmm, other: &Hmm, part: f64) -> Hmm {
    let mix = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + part * (b - a)).collect::<Vec<f64>>();
    let mut parts = model.clone().into_parts();
    parts.transitions = mix(&parts.transitions, other.transitions());
    parts.end = parts.end.map(|end| mix(&end, other.end().unwrap()));
    parts.validated().unwrap()
}

#[test]
fn tied_transitions_maximise_the_expected_likelihood_on_all_devices() {
    for seed in 0..60_u64 {
        let rng = &mut random(seed, 7);
        let n = 2 + seed as usize % 4;
        let kind = if seed % 3 == 0 { Kind::Vectors { dimensions: 2, full: false } } else { Kind::Symbols(3) };
        let uniform = |seed: u64| Uniform { states: n as u32, kind, ends: seed % 2 == 1, seed }.generate().unwrap();
        let ties = random_ties(rng, n);
        let Ok(model) = uniform(seed).with_tied_transitions(&ties) else { panic!("{seed}: {ties:?}") };
        let sequences = sample(&model, 4, Some(40), seed + 1).unwrap().sequences;
        let pseudocounts = Pseudocounts::equal(0.5);
        let sticky = if seed % 5 == 0 { 3.0 } else { 0.0 };
        let options =
            Options { iterations: 1, tied_transitions: ties.clone(), pseudocounts, sticky, ..Options::default() };
        let counts = expected(&model, &sequences);
        let found = trained(DeviceChoice::Cpu, &model, &sequences, &options);
        for (at, &class) in ties.iter().enumerate().filter(|(_, class)| **class > 0) {
            let first = ties.iter().position(|&other| other == class).unwrap();
            assert_eq!(found.transitions()[at], found.transitions()[first], "{seed}: {ties:?}");
        }
        for (i, row) in found.transitions().chunks(n).enumerate() {
            let sum = row.iter().sum::<f64>() + found.end().map_or(0.0, |end| end[i]);
            assert!((sum - 1.0).abs() < 1e-14, "{seed}: {sum}");
        }
        let best = objective(&found, &counts, &options);
        for other in 0..20 {
            let other = uniform(2 * (100 * seed + other) + seed % 2).with_tied_transitions(&ties).unwrap();
            for part in [1e-4, 1e-2, 0.5, 1.0] {
                let worse = objective(&between(&found, &other, part), &counts, &options);
                assert!(worse <= best + 1e-12 * best.abs(), "{seed}: {worse} {best}");
            }
        }
        let emulated = trained(DeviceChoice::Emulated, &model, &sequences, &options);
        for (a, b) in found.transitions().iter().zip(emulated.transitions()) {
            assert!((a - b).abs() < 1e-10, "{seed}: {a} {b}");
        }
        // The likelihood and the prior rise in each iteration, or `fell` would say so.
        trained(DeviceChoice::Cpu, &model, &sequences, &Options { iterations: 8, tolerance: 0.0, ..options });
    }
}

/// Two states that last as if each had two steps: the steps of one have the same probability to end.
fn two_steps() -> (Hmm, Vec<u32>) {
    let (p, q) = (0.2, 0.05);
    #[rustfmt::skip]
    let transitions = vec![
        1.0 - p, p, 0.0, 0.0,
        0.0, 1.0 - p, p, 0.0,
        0.0, 0.0, 1.0 - q, q,
        q, 0.0, 0.0, 1.0 - q,
    ];
    #[rustfmt::skip]
    let ties = vec![
        1, 2, 0, 0,
        0, 1, 2, 0,
        0, 0, 3, 4,
        4, 0, 0, 3,
    ];
    let parts = Uniform { states: 4, kind: Kind::Symbols(4), ends: false, seed: 3 }.generate().unwrap().into_parts();
    let emissions = parts.emissions.shared(&[0, 0, 1, 1]);
    (HmmParts { transitions, start: vec![0.25; 4], emissions, ..parts }.validated().unwrap(), ties)
}

#[test]
fn steps_of_a_duration_have_one_probability_to_end() {
    let (model, ties) = two_steps();
    let sequences = sample(&model, 10, Some(200), 1).unwrap().sequences;
    let emissions = vec![0, 0, 1, 1];
    let options = Options { iterations: 1, tied_transitions: ties, ties: emissions, ..Options::default() };
    // Two of A; π; two rows of B.
    assert_eq!(options.parameters(&model), 2 + 3 + 2 * 3);
    assert_eq!(Options::default().parameters(&model), 4 + 3 + 4 * 3);
    let counts = expected(&model, &sequences).transitions;
    let found = trained(DeviceChoice::Cpu, &model, &sequences, &options);
    for ([first, second], [after, next]) in [([0, 5], [1, 6]), ([10, 15], [11, 12])] {
        let (stays, leaves) = (counts[first] + counts[second], counts[after] + counts[next]);
        for at in [after, next] {
            assert!((found.transitions()[at] - leaves / (stays + leaves)).abs() < 1e-14);
        }
    }
}

#[test]
fn equal_rows_are_draws_that_do_not_depend_on_the_state() {
    let model = Uniform { states: 3, kind: Kind::Symbols(5), ends: false, seed: 8 }.generate().unwrap();
    let ties = [1, 2, 3].repeat(3);
    let model = model.with_tied_transitions(&ties).unwrap();
    let sequences = sample(&model, 3, Some(50), 1).unwrap().sequences;
    let counts = expected(&model, &sequences).transitions;
    let options = Options { iterations: 1, tied_transitions: ties, ..Options::default() };
    let found = trained(DeviceChoice::Cpu, &model, &sequences, &options);
    for (at, prob) in found.transitions().iter().enumerate() {
        let column: f64 = (0..3).map(|i| counts[3 * i + at % 3]).sum();
        assert!((prob - column / (3.0 * 49.0)).abs() < 1e-13);
    }
    assert_eq!(options.parameters(&model), 2 + 2 + 3 * 4);
}

#[test]
fn zeros_and_rows_without_counts_stay() {
    // State 2 is never visited, and state 0 never goes to state 2.
    let parts = Uniform { states: 3, kind: Kind::Symbols(2), ends: false, seed: 1 }.generate().unwrap().into_parts();
    let transitions = vec![0.5, 0.5, 0.0, 0.5, 0.5, 0.0, 0.2, 0.3, 0.5];
    let model = HmmParts { transitions, start: vec![1.0, 0.0, 0.0], ..parts }.validated().unwrap();
    let sequences = sample(&model, 3, Some(50), 1).unwrap().sequences;
    let of = |tied_transitions: Vec<u32>| Options { iterations: 5, tied_transitions, ..Options::default() };
    let found = trained(DeviceChoice::Cpu, &model, &sequences, &of(vec![1, 0, 0, 0, 1, 0, 0, 0, 0]));
    let a = found.transitions();
    assert_eq!((a[0], a[2], a[5], &a[6..]), (a[4], 0.0, 0.0, &[0.2, 0.3, 0.5][..]));
    // Tied to rows that are visited, the unvisited one follows them; what it has on its own keeps its proportions.
    let model = model.with_tied_transitions(&[1, 0, 0, 0, 1, 0, 0, 0, 1]).unwrap();
    let found = trained(DeviceChoice::Cpu, &model, &sequences, &of(vec![1, 0, 0, 0, 1, 0, 0, 0, 1]));
    let a = found.transitions();
    assert_eq!((a[0], a[0]), (a[4], a[8]));
    assert!((a[6] / a[7] - 2.0 / 3.0).abs() < 1e-12 && a[0] != 0.5);
}

#[test]
fn visits_of_durations_are_tied() {
    let parts = Uniform { states: 3, kind: Kind::Symbols(4), ends: false, seed: 5 }.generate().unwrap().into_parts();
    let transitions = vec![0.0, 0.5, 0.5, 0.4, 0.0, 0.6, 0.3, 0.7, 0.0];
    let durations = vec![
        Some(Duration::Poisson { rate: 1.5, max: 6 }),
        Some(Duration::Categorical(vec![0.5, 0.3, 0.2])),
        Some(Duration::Geometric { probability: 0.3 }),
    ];
    let model = HmmParts { transitions, ..parts }.with_durations(durations).unwrap();
    let tied_transitions = vec![0, 1, 2, 2, 0, 1, 1, 2, 0];
    let model = model.with_tied_transitions(&tied_transitions).unwrap();
    let sequences = sample(&model, 5, Some(60), 2).unwrap().sequences;
    let ties = model.segments().unwrap().of_state();
    let options = Options { iterations: 6, tolerance: 0.0, ties, tied_transitions, ..Options::default() };
    let found = trained(DeviceChoice::Cpu, &model, &sequences, &options);
    let a = found.segments().unwrap().transitions();
    assert!(a[1] == a[5] && a[5] == a[6] && a[2] == a[3] && a[3] == a[7] && (a[1] + a[2] - 1.0).abs() < 1e-14);
    assert_ne!(a[1], model.segments().unwrap().transitions()[1]);
}

#[test]
fn ties_that_do_not_fit_are_refused() {
    let model = Uniform { states: 3, kind: Kind::Symbols(2), ends: false, seed: 5 }.generate().unwrap();
    let refused = |ties: &[u32]| model.clone().with_tied_transitions(ties).unwrap_err();
    assert_eq!(refused(&[1, 2]), "2 classes of transitions are tied, expected 9");
    let some = "rows 0 and 1 of A share a class of tied transitions, but not all their classes";
    assert_eq!(refused(&[1, 2, 0, 1, 0, 0, 0, 0, 0]), some);
    assert_eq!(refused(&[1, 2, 0, 1, 2, 2, 0, 0, 0]), some);
    assert_eq!(refused(&[1, 2, 0, 3, 2, 0, 0, 0, 0]), some);
    let mut parts = model.clone().into_parts();
    parts.transitions[..3].copy_from_slice(&[0.5, 0.5, 0.0]);
    let bounded = parts.validated().unwrap();
    assert_eq!(
        bounded.with_tied_transitions(&[1, 2, 0, 1, 2, 0, 0, 0, 0]).unwrap_err(),
        "row 0 of A has only tied transitions, but rows that share them have others, too"
    );
    let sequences = sample(&model, 2, Some(5), 1).unwrap().sequences;
    let mut batch = Batch::<f64>::new(&sequences);
    let options = Options { tied_transitions: vec![1, 0, 0, 0, 1, 0, 0, 0, 0], ..Options::default() };
    let error = train(&mut batch, vec![model], &options, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.to_string(), "the probabilities of tied transitions differ");
}
