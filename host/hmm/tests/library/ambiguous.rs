//! Training with ambiguous symbols, against a sum over all paths and all sequences that may have been observed.

use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_hmm::ambiguous::Ambiguous;
use warpkov_hmm::backend::{Recursions, Statistics};
use warpkov_hmm::backends::device::Limits;
use warpkov_hmm::divided::{Divided, Division};
use warpkov_hmm::model::{Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{FLOOR, Options, Precision, Pseudocounts};
use warpkov_hmm::place::{Error, recursions};
use warpkov_hmm::sequences::Sequences;
use warpkov_hmm::train::train;
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Communicator, Local};

use crate::random::Random;

const SYMBOLS: u32 = 4;

/// A random distribution over many orders of magnitude, with zeros.
fn distribution(random: &mut Random, len: usize) -> Vec<f64> {
    let mut probs = random.magnitudes(len, -12.0, 0.0);
    probs.iter_mut().skip(1).for_each(|p| *p = if random.unit() < 0.2 { 0.0 } else { *p });
    let total: f64 = probs.iter().sum();
    probs.into_iter().map(|p| p / total).collect()
}

/// A model, the sets of its ambiguous symbols, and sequences of known, ambiguous and missing symbols.
fn case(seed: u64) -> (Hmm, Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let random = &mut Random(seed);
    let n = 1 + seed as usize % 3;
    let mut rows = |count: usize, len: usize| (0..count).flat_map(|_| distribution(random, len)).collect::<Vec<_>>();
    let (start, probs) = (rows(1, n), rows(n, SYMBOLS as usize));
    let with_end = rows(n, n + 1);
    let parts = HmmParts {
        start,
        transitions: with_end.chunks_exact(n + 1).flat_map(|row| &row[1..]).copied().collect(),
        end: Some(with_end.iter().step_by(n + 1).copied().collect()),
        emissions: Emissions::Categorical { symbols: SYMBOLS, probs },
        names: Names::default(),
    };
    let sets = vec![vec![0, 1, 2, 3], vec![0, 2], vec![1, 2, 3], vec![3]];
    let symbol = |random: &mut Random| (random.unit() * f64::from(SYMBOLS + sets.len() as u32)) as u32;
    let sequence = |m: usize| (0..1 + (seed as usize + m) % 4).map(|_| symbol(random)).collect();
    let sequences = (0..3).map(sequence).collect();
    (parts.validated().unwrap(), sets, sequences)
}

/// ln P(O) of each sequence, and the expected counts of the symbols in each state, by all paths and completions. What may
/// be any symbol is not counted.
fn reference(model: &Hmm, sets: &[Vec<u32>], sequences: &[Vec<u32>]) -> (Vec<f64>, Vec<f64>) {
    let Emissions::Categorical { probs, .. } = model.emissions() else { panic!("symbols") };
    let (n, v) = (model.start().len(), SYMBOLS as usize);
    let mut counts = vec![0.0; n * v];
    let of_sequence = |seen: &Vec<u32>| {
        // Steps (state, symbol) of all that may have happened, with its logarithm.
        let mut all: Vec<(Vec<(usize, usize)>, f64)> = vec![(Vec::new(), 0.0)];
        for &symbol in seen {
            let may = |o: &u32| symbol.checked_sub(SYMBOLS).map_or(*o == symbol, |set| sets[set as usize].contains(o));
            let next: Vec<(usize, usize)> =
                (0..n).flat_map(|j| (0..SYMBOLS).filter(may).map(move |o| (j, o as usize))).collect();
            let extend = |(steps, log): (Vec<(usize, usize)>, f64)| {
                let next = next.clone().into_iter();
                next.map(move |(j, o)| {
                    let moved = steps.last().map_or(model.start()[j], |&(i, _)| model.row(i)[j]);
                    let log = log + moved.ln() + probs[j * v + o].ln();
                    ([&steps[..], &[(j, o)]].concat(), log)
                })
            };
            all = all.into_iter().flat_map(extend).filter(|(_, log)| *log > f64::NEG_INFINITY).collect();
        }
        let end = |steps: &[(usize, usize)]| model.end().unwrap()[steps.last().unwrap().0].ln();
        all.iter_mut().for_each(|(steps, log)| *log += end(steps));
        let most = all.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        if most == f64::NEG_INFINITY {
            return most;
        }
        let total: f64 = all.iter().map(|(_, log)| (log - most).exp()).sum();
        for (steps, log) in &all {
            let share = (log - most).exp() / total;
            let known = steps.iter().zip(seen).filter(|(_, symbol)| **symbol != SYMBOLS);
            known.for_each(|((j, o), _)| counts[j * v + o] += share);
        }
        most + total.ln()
    };
    (sequences.iter().map(of_sequence).collect(), counts)
}

#[test]
fn expected_counts_are_those_of_all_completions() {
    for seed in 0..300 {
        let (model, sets, sequences) = case(seed);
        let (logs, counts) = reference(&model, &sets, &sequences);
        let sequences = Sequences::of_symbols(&sequences).unwrap();
        let devices = if seed < 20 { &[DeviceChoice::Cpu, DeviceChoice::Emulated][..] } else { &[DeviceChoice::Cpu] };
        for &device in devices {
            let (place, _) = Place::open(device, None).unwrap();
            let mut plain = recursions(&place, &sequences, Precision::F64, Limits::default()).unwrap();
            let mut ambiguous = Ambiguous::new(&mut *plain, &sets);
            ambiguous.set_models(std::slice::from_ref(&model)).unwrap();
            let expected = ambiguous.expect().unwrap().remove(0);
            for (found, log) in expected.log_likelihoods.iter().zip(&logs) {
                assert!(found == log || (found - log).abs() < 1e-9 * log.abs().max(1.0), "{seed}: {found} {log}");
            }
            let Statistics::Categorical(found) = &expected.emissions else { panic!("symbols") };
            assert_eq!(found.len(), counts.len());
            for (found, count) in found.iter().zip(&counts) {
                assert!((found - count).abs() < 1e-9, "{seed} {device:?}: {found} {count}");
            }
        }
    }
}

#[test]
fn the_objective_rises_and_devices_agree() {
    let mut trainings = 0;
    for seed in 0..200 {
        let (model, sets, sequences) = case(seed);
        if reference(&model, &sets, &sequences).0.contains(&f64::NEG_INFINITY) {
            continue;
        }
        let sequences = Sequences::of_symbols(&sequences).unwrap();
        let pseudocount = if seed % 2 == 0 { 0.0 } else { 0.5 };
        let pseudocounts = Pseudocounts::equal(pseudocount);
        let options = Options { iterations: 12, tolerance: 0.0, floor: FLOOR, pseudocounts, ..Options::default() };
        let run = |device| {
            let (place, _) = Place::open(device, None).unwrap();
            let mut plain = recursions(&place, &sequences, Precision::F64, Limits::default()).unwrap();
            let mut ambiguous = Ambiguous::new(&mut *plain, &sets);
            let trained = train(&mut ambiguous, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(()));
            trained.map(|mut trained| trained.runs.remove(0)).unwrap()
        };
        let cpu = run(DeviceChoice::Cpu);
        assert_eq!(cpu.fell, None, "{seed}");
        assert!(cpu.model.clone().into_parts().validated().is_ok());
        trainings += 1;
        if seed < 12 {
            let emulated = run(DeviceChoice::Emulated);
            for (a, b) in cpu.objectives.iter().zip(&emulated.objectives) {
                assert!((a - b).abs() < 1e-9 * a.abs().max(1.0), "{seed}: {a} {b}");
            }
            let ranks = Local::run(2, Duration::from_secs(60), |local| {
                let division = Division::new(&sequences, 2);
                let share = division.share(local.rank());
                let (place, share, limits) = (Place::Cpu, share.as_ref(), Limits::default());
                let mut divided = Divided::open(&division, share, &place, Precision::F64, limits, local)
                    .map_err(|error| error.to_string())?;
                let mut ambiguous = Ambiguous::new(&mut divided, &sets);
                let trained = train(&mut ambiguous, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(()));
                trained.map(|mut trained| trained.runs.remove(0)).map_err(|error| error.to_string())
            });
            let ranks = ranks.unwrap();
            assert_eq!(ranks[0], ranks[1]);
            for (a, b) in cpu.objectives.iter().zip(&ranks[0].objectives) {
                assert!((a - b).abs() < 1e-9 * a.abs().max(1.0), "{seed}: {a} {b}");
            }
        }
    }
    assert!(trainings > 50, "{trainings}");
}

/// Of one state, the likelihood Π Bₒ · (B₀ + B₂)ᵏ is greatest where B₁ and B₃ are the observed frequencies, and B₀ : B₂ is
/// the ratio of what was seen unambiguously.
#[test]
fn one_state_has_the_frequencies() {
    let parts = HmmParts {
        start: vec![1.0],
        transitions: vec![1.0],
        end: None,
        emissions: Emissions::Categorical { symbols: 4, probs: vec![0.25; 4] },
        names: Names::default(),
    };
    let (sets, seen) = (vec![vec![0, 2], vec![0, 1, 2, 3]], vec![0, 0, 0, 2, 1, 1, 4, 4, 5, 5, 5, 3]);
    let sequences = Sequences::of_symbols(&[seen]).unwrap();
    let mut plain = recursions(&Place::Cpu, &sequences, Precision::F64, Limits::default()).unwrap();
    let mut ambiguous = Ambiguous::new(&mut *plain, &sets);
    let pseudocounts = Pseudocounts::equal(0.0);
    let options = Options { iterations: 200, tolerance: -1.0, pseudocounts, ..Options::default() };
    let model = parts.validated().unwrap();
    let trained =
        train::<Ambiguous<'_, dyn Recursions<Error = Error>>>(&mut ambiguous, vec![model], &options, &mut |_| {
            ControlFlow::Continue(())
        });
    let Emissions::Categorical { probs, .. } = trained.unwrap().best().model.emissions().clone() else { panic!() };
    for (found, expected) in probs.iter().zip([0.75 * 6.0 / 9.0, 2.0 / 9.0, 0.25 * 6.0 / 9.0, 1.0 / 9.0]) {
        assert!((found - expected).abs() < 1e-12, "{probs:?}");
    }
}
