//! Best paths, drawn paths and occupancies against all paths, summed in logarithms, of models of any magnitude with missing
//! observations and known states.

use warpkov_hmm::backend::{NO_STATE, Recursions};
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::generate::{IceCream, Kind, Uniform};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::occupancy::occupancy;
use warpkov_hmm::paths::{Error, Scored, best_paths, sample_paths};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences, offsets};
use warpkov_hmm::windows::Windows;

use crate::logarithms::log_sum;
use crate::random::Random;

/// A random case whose sequences have at most 2000 paths, with missing components and known states.
fn short(seed: u64) -> (Hmm, Sequences) {
    let random = &mut Random(seed);
    let (model, drawn) = crate::wide::random_case(seed);
    let n = model.states();
    let longest = (1..).find(|&length| length == 9 || n.pow(length + 1) > 2000).unwrap() as usize;
    let ranges: Vec<_> = (0..drawn.len())
        .map(|m| drawn.range(m))
        .map(|range| range.start..range.end.min(range.start + longest))
        .collect();
    let offsets = offsets(ranges.iter().map(|range| range.len()));
    let observations = match drawn.observations() {
        Observations::Symbols(seen) => {
            Observations::Symbols(ranges.iter().flat_map(|range| &seen[range.clone()]).copied().collect())
        }
        &Observations::Vectors { dimensions, ref values } => {
            let d = dimensions as usize;
            let values = ranges.iter().flat_map(|range| &values[range.start * d..range.end * d]);
            let lost = seed.is_multiple_of(3);
            let values = values.map(|x| if lost && random.unit() < 0.3 { f64::NAN } else { *x }).collect();
            Observations::Vectors { dimensions, values }
        }
    };
    let sequences = Sequences::with_missing(offsets, observations).unwrap();
    let known =
        |random: &mut Random| if random.unit() < 0.2 { (random.unit() * f64::from(n)) as u32 } else { NO_STATE };
    let states: Vec<u32> = (0..sequences.steps()).map(|_| known(random)).collect();
    (model, if seed.is_multiple_of(5) { sequences.with_states(states).unwrap() } else { sequences })
}

/// ln bⱼ(o) of observation `at`.
fn emitted(model: &Hmm, sequences: &Sequences, at: usize, j: usize) -> f64 {
    if sequences.state(at).is_some_and(|known| known as usize != j) {
        return f64::NEG_INFINITY;
    }
    match (model.emissions(), sequences.observations()) {
        (Emissions::Categorical { symbols, probs }, Observations::Symbols(seen)) => {
            probs[j * *symbols as usize + seen[at] as usize].ln()
        }
        (Emissions::Gaussian { dimensions, means, covariances }, Observations::Vectors { values, .. }) => {
            let d = *dimensions as usize;
            let (x, mean, tau) = (&values[at * d..][..d], &means[j * d..][..d], std::f64::consts::TAU);
            let alone = |k: usize, variance: f64| -0.5 * ((x[k] - mean[k]).powi(2) / variance + (tau * variance).ln());
            let seen: Vec<usize> = (0..d).filter(|&k| !x[k].is_nan()).collect();
            match covariances {
                Covariances::Diagonal(variances) => seen.iter().map(|&k| alone(k, variances[j * d + k])).sum(),
                Covariances::Full(matrices) => {
                    let m = &matrices[j * d * d..][..d * d];
                    match seen[..] {
                        [] => 0.0,
                        [k] => alone(k, m[k * d + k]),
                        _ => {
                            let (y, z, det) = (x[0] - mean[0], x[1] - mean[1], m[0] * m[3] - m[1] * m[1]);
                            let square = (m[3] * y * y - 2.0 * m[1] * y * z + m[0] * z * z) / det;
                            -0.5 * (square + det.ln()) - tau.ln()
                        }
                    }
                }
            }
        }
        _ => panic!("the sequences fit"),
    }
}

/// All possible paths of a sequence with ln P(O, q), by descending scores; of equal ones, that with the lowest last states first.
fn enumerated(model: &Hmm, sequences: &Sequences, sequence: usize) -> Vec<Scored> {
    let (n, range) = (model.states(), sequences.range(sequence));
    let table: Vec<Vec<f64>> =
        range.clone().map(|at| (0..n as usize).map(|j| emitted(model, sequences, at, j)).collect()).collect();
    let score = |path: &[u32]| {
        let first = model.start()[path[0] as usize].ln();
        let steps: f64 = path.windows(2).map(|pair| model.row(pair[0] as usize)[pair[1] as usize].ln()).sum();
        let end = model.end().map_or(0.0, |end| end[path[path.len() - 1] as usize].ln());
        path.iter().zip(&table).map(|(&state, row)| row[state as usize]).sum::<f64>() + first + steps + end
    };
    let mut all: Vec<Scored> = (0..n.pow(range.len() as u32))
        .map(|number| {
            let states: Vec<u32> = (0..range.len() as u32).map(|t| number / n.pow(t) % n).collect();
            Scored { score: score(&states), states }
        })
        .filter(|path| path.score > f64::NEG_INFINITY)
        .collect();
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    all
}

fn close(found: f64, expected: f64) -> bool {
    found == expected || (found - expected).abs() <= 1e-12 * (1.0 + expected.abs())
}

#[test]
fn best_paths_are_those_of_all_paths() {
    let (mut fewer, mut impossible, mut least) = (0, 0, 0.0_f64);
    for seed in 0..400 {
        let (model, sequences) = short(seed);
        let count = [1, 3, 20, 5000][seed as usize % 4];
        let found = best_paths(&model, &sequences, count).unwrap();
        let mut batch = Batch::<f64>::new(&sequences);
        batch.set_models(std::slice::from_ref(&model)).unwrap();
        let decoded = batch.viterbi().unwrap().pop().unwrap();
        for (sequence, found) in found.iter().enumerate() {
            let place = format!("seed {seed}, sequence {sequence}");
            let expected = enumerated(&model, &sequences, sequence);
            assert_eq!(found.len(), expected.len().min(count as usize), "{place}");
            let path = &decoded.states[sequences.range(sequence)];
            match found.first() {
                Some(first) => {
                    assert_eq!((&first.states[..], first.score), (path, decoded.scores[sequence]), "{place}")
                }
                None => assert_eq!(path[0], NO_STATE, "{place}"),
            }
            for (found, expected) in found.iter().zip(&expected) {
                assert!(close(found.score, expected.score), "{place}: {found:?}, expected {expected:?}");
            }
            for (at, path) in found.iter().enumerate() {
                let own = expected.iter().find(|own| own.states == path.states).unwrap();
                assert!(close(path.score, own.score), "{place}: {path:?}");
                assert!(found[..at].iter().all(|before| before.states != path.states && before.score >= path.score));
            }
            fewer += usize::from(found.len() < count as usize && !found.is_empty());
            impossible += usize::from(found.is_empty());
            least = found.iter().map(|path| path.score).fold(least, f64::min);
        }
    }
    assert!(fewer > 50 && impossible > 20 && least < -3000.0, "{fewer} {impossible} {least}");
}

#[test]
fn tied_paths_come_in_the_order_of_their_last_states() {
    let half = Emissions::Categorical { symbols: 2, probs: vec![0.5; 4] };
    let parts = HmmParts {
        start: vec![0.5; 2],
        transitions: vec![0.5; 4],
        end: None,
        emissions: half,
        names: Names::default(),
    };
    let model = parts.validated().unwrap();
    let sequences = Sequences::of_symbols(&[vec![0; 4], vec![1]]).unwrap();
    let all = enumerated(&model, &sequences, 0);
    assert_eq!(all.len(), 16);
    for count in [1, 5, 16, 17, u32::MAX] {
        let found = best_paths(&model, &sequences, count).unwrap();
        assert_eq!(found[0], all[..16.min(count as usize)]);
        assert_eq!(found[1].len(), 2.min(count as usize));
    }
    // Paths of probability 0 are none.
    let ring = Emissions::Categorical { symbols: 2, probs: vec![1.0, 0.0, 0.5, 0.5] };
    let transitions = vec![0.0, 1.0, 0.5, 0.5];
    let parts = HmmParts { start: vec![1.0, 0.0], transitions, end: None, emissions: ring, names: Names::default() };
    let model = parts.validated().unwrap();
    let sequences = Sequences::of_symbols(&[vec![0, 0, 0], vec![0, 1, 0, 1], vec![1]]).unwrap();
    let states = |paths: &[Scored]| -> Vec<Vec<u32>> { paths.iter().map(|path| path.states.clone()).collect() };
    let found = best_paths(&model, &sequences, 9).unwrap();
    assert_eq!(states(&found[0]), [[0, 1, 0], [0, 1, 1]]);
    assert_eq!(states(&found[1]), [[0, 1, 0, 1], [0, 1, 1, 1]]);
    assert_eq!(states(&found[2]), [[0; 0]; 0]);
}

#[test]
fn too_many_paths_are_refused() {
    let model = Uniform { states: 100, kind: Kind::Symbols(2), ends: false, seed: 1 }.generate().unwrap();
    let sequences = Sequences::of_symbols(&[vec![0], vec![0; 100_000]]).unwrap();
    let error = best_paths(&model, &sequences, 1_000_000).unwrap_err();
    let Error::Memory { count, sequence, bytes, .. } = error else { panic!("{error}") };
    assert_eq!((count, sequence, bytes), (1_000_000, 2, 80_000_000_000_000));
    let message = "1000000 best paths of sequence 2 need 74505.8 GiB, 8 bytes for each step, state and path";
    assert!(error.to_string().starts_with(message), "{error}");
}

/// Drawn paths have the distribution P(q | O), by Pearson's χ².
#[test]
fn drawn_paths_have_their_posterior_distribution() {
    let (mut tested, mut spread) = (0, 0);
    for seed in 0..100 {
        let (model, sequences) = short(seed);
        let count = 3000;
        let found = sample_paths(&model, &sequences, count, seed).unwrap();
        for (sequence, found) in found.iter().enumerate() {
            let place = format!("seed {seed}, sequence {sequence}");
            let all = enumerated(&model, &sequences, sequence);
            assert_eq!(found.len(), if all.is_empty() { 0 } else { count as usize }, "{place}");
            let Some(best) = all.first() else { continue };
            let total: f64 = all.iter().map(|path| (path.score - best.score).exp()).sum();
            let mut counts = vec![0_u32; all.len()];
            for path in found {
                let at = all.iter().position(|own| own.states == path.states);
                let at = at.unwrap_or_else(|| panic!("{place}: {path:?} is impossible"));
                assert!(close(path.score, all[at].score), "{place}: {path:?}");
                counts[at] += 1;
            }
            // Paths of fewer than 8 expected draws are one cell.
            let (mut square, mut cells, mut rest) = (0.0_f64, 0.0_f64, [0.0_f64; 2]);
            for (path, seen) in all.iter().zip(&counts) {
                let expected = f64::from(count) * (path.score - best.score).exp() / total;
                if expected >= 8.0 {
                    square += (f64::from(*seen) - expected).powi(2) / expected;
                    cells += 1.0;
                } else {
                    rest = [rest[0] + expected, rest[1] + f64::from(*seen)];
                }
            }
            if rest[0] >= 8.0 {
                square += (rest[1] - rest[0]).powi(2) / rest[0];
                cells += 1.0;
            } else {
                assert!(rest[1] <= rest[0] + 5.0 * rest[0].sqrt() + 5.0, "{place}: {rest:?}");
            }
            // χ² has mean and half the variance `cells` − 1.
            assert!(square <= cells + 6.0 * (2.0 * cells).sqrt(), "{place}: {square} of {cells} cells");
            tested += 1;
            spread += usize::from(cells > 5.0);
        }
    }
    assert!(tested > 60 && spread > 15, "{tested} sequences, {spread} with several paths");
}

#[test]
fn a_drawn_path_depends_on_the_seed_and_its_place_alone() {
    let model = IceCream.generate().unwrap();
    let drawn = sample(&model, 6, Some(40), 3).unwrap().sequences;
    let all = sample_paths(&model, &drawn, 5, 7).unwrap();
    let fewer = sample_paths(&model, &drawn.select(&[0, 1, 2]).unwrap(), 2, 7).unwrap();
    for (few, all) in fewer.iter().zip(&all) {
        assert_eq!(few[..], all[..2]);
    }
    assert_ne!(all, sample_paths(&model, &drawn, 5, 8).unwrap());
    // Equal sequences have different paths.
    let twice = sample_paths(&model, &drawn.select(&[0, 0]).unwrap(), 5, 7).unwrap();
    assert_ne!(twice[0], twice[1]);
}

/// A sequence with checkpoints: shares of the steps of drawn paths are those of the posteriors.
#[test]
fn long_paths_are_drawn_in_parts() {
    let model = Uniform { states: 3, kind: Kind::Symbols(3), ends: false, seed: 5 }.generate().unwrap();
    let sequences = sample(&model, 1, Some(100_000), 1).unwrap().sequences;
    let expected = occupancy(&model, &sequences, None).unwrap();
    let paths = sample_paths(&model, &sequences, 4, 1).unwrap();
    for path in &paths[0] {
        for state in 0..3 {
            let steps = path.states.iter().filter(|&&q| q == state).count() as f64;
            assert!((steps - expected.time[state as usize]).abs() < 1500.0, "{steps}, {:?}", expected.time);
            let entries = path.states.windows(2).filter(|pair| pair[1] == state && pair[0] != state).count() as f64;
            assert!((entries - expected.visits[state as usize]).abs() < 1500.0, "{entries}, {:?}", expected.visits);
        }
    }
}

#[test]
fn occupancies_are_those_of_all_paths() {
    for seed in 0..150 {
        let (model, sequences) = short(seed);
        let n = model.start().len();
        // Every second state belongs to a class.
        let names = (0..n).map(|state| if state % 2 == 1 { "odd".to_owned() } else { String::new() }).collect();
        let mut parts = model.clone().into_parts();
        parts.names.classes = names;
        let classed = parts.validated().unwrap();
        for (classes, given) in [(model.classes(), false), (classed.classes(), true)] {
            let k = classes.names.len();
            let found = occupancy(&model, &sequences, given.then_some(&classes)).unwrap();
            for sequence in 0..sequences.len() {
                let all = enumerated(&model, &sequences, sequence);
                let (mut time, mut visits) = (vec![0.0; k], vec![0.0; k]);
                let most = all.first().map_or(0.0, |best| best.score);
                let total: f64 = all.iter().map(|path| (path.score - most).exp()).sum();
                for path in &all {
                    let share = (path.score - most).exp() / total;
                    let classes = classes.path(&path.states);
                    classes.iter().for_each(|&class| time[class as usize] += share);
                    classes.chunk_by(|a, b| a == b).for_each(|run| visits[run[0] as usize] += share);
                }
                let pairs = [(&found.time, time), (&found.visits, visits)];
                for (found, expected) in pairs {
                    for (found, expected) in found[sequence * k..][..k].iter().zip(&expected) {
                        assert!((found - expected).abs() < 1e-9, "seed {seed}: {found}, expected {expected}");
                    }
                }
            }
        }
    }
}

/// At all magnitudes and lengths.
#[test]
fn occupancies_are_sums_of_exact_posteriors() {
    for seed in 0..500 {
        let (model, sequences) = crate::wide::random_case(seed);
        let n = model.start().len();
        let found = occupancy(&model, &sequences, None).unwrap();
        for sequence in 0..sequences.len() {
            let truth = crate::wide::truth(&model, &sequences, sequence);
            let steps = sequences.range(sequence).len();
            let tolerance = 1e-12 * (1.0 + truth.steepest) * steps as f64;
            for j in 0..n {
                let time: f64 = truth.gamma.iter().skip(j).step_by(n).sum();
                let entered: f64 = (0..n).filter(|&i| i != j).map(|i| truth.pairs[i * n + j]).sum();
                let visits = truth.gamma[j] + entered;
                let [found_time, found_visits] = [found.time[sequence * n + j], found.visits[sequence * n + j]];
                assert!((found_time - time).abs() <= tolerance * (1.0 + time), "seed {seed}: {found_time}, {time}");
                assert!(
                    (found_visits - visits).abs() <= tolerance * (1.0 + visits),
                    "seed {seed}: {found_visits}, {visits}"
                );
                assert!(found_visits <= found_time * (1.0 + 1e-12), "seed {seed}");
            }
        }
    }
}

#[test]
fn windows_are_sequences() {
    for seed in 0..60 {
        let (model, sequences) = short(seed);
        let (window, step) = (1 + seed as usize % 4, 1 + seed as usize / 4 % 3);
        let windows = Windows::new(&sequences, window, step);
        let mut logs = Vec::new();
        for batch in windows.batches() {
            let mut recursions = Batch::<f64>::new(&batch);
            recursions.set_models(std::slice::from_ref(&model)).unwrap();
            logs.extend(recursions.log_likelihoods().unwrap().pop().unwrap());
        }
        assert_eq!(logs.len(), windows.places().len());
        let mut places = windows.places().iter().zip(&logs);
        for sequence in 0..sequences.len() {
            let range = sequences.range(sequence);
            for first in (0..range.len()).step_by(step).filter(|first| first + window <= range.len()) {
                let (place, log) = places.next().unwrap();
                assert_eq!(*place, (sequence, first));
                // ln of the sum over all paths of the window.
                let at = range.start + first;
                let n = model.start().len();
                let step = |before: Option<Vec<f64>>, at: usize| -> Vec<f64> {
                    let of = |j: usize| {
                        let logs: Vec<f64> = match &before {
                            None => vec![model.start()[j].ln()],
                            Some(before) => (0..n).map(|i| before[i] + model.row(i)[j].ln()).collect(),
                        };
                        log_sum(logs.iter().copied()) + emitted(&model, &sequences, at, j)
                    };
                    (0..n).map(of).collect()
                };
                let last = (at..at + window).fold(None, |before, at| Some(step(before, at))).unwrap();
                let end = |j: usize| model.end().map_or(0.0, |end| end[j].ln());
                let expected = log_sum((0..n).map(|j| last[j] + end(j)));
                assert!(close(*log, expected), "seed {seed}: {log}, expected {expected}");
            }
        }
        assert!(places.next().is_none());
    }
}

/// Windows that are longer than half a batch come one at a time.
#[test]
fn windows_come_in_batches() {
    let window = (1 << 23) + 1;
    let symbols: Vec<u32> = (0..window as u32 + 2).collect();
    let sequences = Sequences::of_symbols(&[&symbols]).unwrap();
    let windows = Windows::new(&sequences, window, 2);
    let batches: Vec<Sequences> = windows.batches().collect();
    let firsts: Vec<Option<u32>> = batches
        .iter()
        .map(|batch| match batch.observations() {
            Observations::Symbols(seen) => (seen.len() == window).then(|| seen[0]),
            Observations::Vectors { .. } => None,
        })
        .collect();
    assert_eq!(firsts, [Some(0), Some(2)]);
    assert_eq!(windows.places(), [(0, 0), (0, 2)]);
    assert_eq!(Windows::new(&sequences, window + 3, 1).batches().count(), 0);
}
