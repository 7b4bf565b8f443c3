//! Known states and weights of sequences, against recursions in logarithms, and against formulas.

use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_hmm::backend::{NO_STATE, Recursions, Statistics};
use warpkov_hmm::backends::cpu::{Batch, Exact};
use warpkov_hmm::backends::device::{ForwardMethod, Limits, OverPaths, Scan};
use warpkov_hmm::divided::{Divided, Division};
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{By, Options, Precision, Pseudocounts};
use warpkov_hmm::place::recursions;
use warpkov_hmm::run::{Running, Setup};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_hmm::solution::Run;
use warpkov_hmm::train::train;
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Communicator, Local};

use crate::logarithms::{Trellis, step};
use crate::random::Random;

/// A random distribution over many orders of magnitude, with zeros.
fn distribution(random: &mut Random, len: usize) -> Vec<f64> {
    let mut probs = random.magnitudes(len, -15.0, 0.0);
    probs.iter_mut().skip(1).for_each(|p| *p = if random.unit() < 0.2 { 0.0 } else { *p });
    let total: f64 = probs.iter().sum();
    probs.into_iter().map(|p| p / total).collect()
}

/// A model of N states, and sequences of it with known states and weights over many orders of magnitude.
fn case(seed: u64, n: usize, vectors: bool) -> (Hmm, Sequences) {
    let random = &mut Random(seed);
    let mut rows = |len: usize| (0..n).flat_map(|_| distribution(random, len)).collect::<Vec<_>>();
    let (with_end, probs) = (rows(n + 1), rows(4));
    let ends = !vectors;
    let row = |row: &[f64]| {
        let total: f64 = if ends { 1.0 } else { row[1..].iter().sum() };
        row[1..].iter().map(|p| p / total).collect::<Vec<_>>()
    };
    let usable = |row: &[f64]| ends || row[1..].iter().sum::<f64>() > 0.0;
    let uniform = vec![1.0 / n as f64; n];
    let transitions = with_end.chunks_exact(n + 1).flat_map(|r| if usable(r) { row(r) } else { uniform.clone() });
    let emissions = match vectors {
        false => Emissions::Categorical { symbols: 4, probs },
        true => Emissions::Gaussian {
            dimensions: 2,
            means: (0..2 * n).map(|at| 3.0 * (2.0 * random.unit() - 1.0) * [1e8, 1e-8][at % 2]).collect(),
            covariances: Covariances::Diagonal(
                (0..2 * n).map(|at| random.magnitude(-1.0, 1.0) * [1e16, 1e-16][at % 2]).collect(),
            ),
        },
    };
    let parts = HmmParts {
        start: distribution(random, n),
        transitions: transitions.collect(),
        end: ends.then(|| with_end.iter().step_by(n + 1).copied().collect()),
        emissions,
        names: Names::default(),
    };
    let model = parts.validated().unwrap();
    let drawn = sample(&model, 5, Some(1 + seed as usize % 12), seed).unwrap();
    let rate = random.unit();
    let state = |&state: &u32| match random.unit() {
        wrong if wrong < 0.01 => (wrong * 100.0 * n as f64) as u32,
        x if x < rate => state,
        _ => NO_STATE,
    };
    let states = drawn.states.iter().map(state).collect();
    let mut sequences = drawn.sequences;
    if let Observations::Vectors { dimensions, values } = sequences.observations().clone() {
        let values = values.into_iter().map(|x| if random.unit() < 0.2 { f64::NAN } else { x }).collect();
        let observations = Observations::Vectors { dimensions, values };
        if seed.is_multiple_of(3) {
            sequences = Sequences::with_missing(sequences.offsets().to_vec(), observations).unwrap();
        }
    }
    let sequences = sequences.with_states(states).unwrap();
    let mut weights = random.magnitudes(5, -4.0, 4.0);
    weights[2] = if seed.is_multiple_of(5) { 0.0 } else { weights[2] };
    (model, if seed.is_multiple_of(2) { sequences.with_weights(weights).unwrap() } else { sequences })
}

/// ln bⱼ(o) of an observation, −∞ if another state is known to have emitted it.
fn log_emission(model: &Hmm, sequences: &Sequences, at: usize, j: usize) -> f64 {
    if sequences.states().get(at).is_some_and(|&state| state != NO_STATE && state as usize != j) {
        return f64::NEG_INFINITY;
    }
    match (model.emissions(), sequences.observations()) {
        (Emissions::Categorical { symbols, probs }, Observations::Symbols(seen)) => {
            probs[j * *symbols as usize + seen[at] as usize].ln()
        }
        (
            Emissions::Gaussian { dimensions, means, covariances: Covariances::Diagonal(variances) },
            Observations::Vectors { values, .. },
        ) => {
            let d = *dimensions as usize;
            let of = |k: usize| {
                let (x, variance) = (values[at * d + k], variances[j * d + k]);
                let z = (x - means[j * d + k]) / variance.sqrt();
                if x.is_nan() { 0.0 } else { -0.5 * (z * z + variance.ln() + std::f64::consts::TAU.ln()) }
            };
            (0..d).map(of).sum()
        }
        _ => panic!("of one kind"),
    }
}

/// All results by recursions in logarithms.
struct Reference {
    logs: Vec<f64>,
    scores: Vec<f64>,
    gamma: Vec<f64>,
    /// Weighted: starts, transitions, ends, and Σ γ of the states.
    counts: [Vec<f64>; 4],
}

fn reference(model: &Hmm, sequences: &Sequences) -> Reference {
    let n = model.start().len();
    let counts = [n, n * n, n, n].map(|len| vec![0.0; len]);
    let mut found = Reference { logs: Vec::new(), scores: Vec::new(), gamma: Vec::new(), counts };
    for m in 0..sequences.len() {
        let (range, weight) = (sequences.range(m), sequences.weight(m));
        let emitted = |t: usize, j: usize| log_emission(model, sequences, range.start + t, j);
        let trellis = Trellis::new(model, range.len(), emitted);
        found.logs.push(trellis.log);
        found.scores.push(trellis.score);
        for t in 0..range.len() {
            let gamma = trellis.gamma(t);
            let [starts, pairs, ends, visits] = &mut found.counts;
            for j in 0..n {
                visits[j] += weight * gamma[j];
                starts[j] += if t == 0 { weight * gamma[j] } else { 0.0 };
                ends[j] += if t + 1 == range.len() { weight * gamma[j] } else { 0.0 };
            }
            for (at, pair) in pairs.iter_mut().enumerate().filter(|_| t > 0) {
                let (i, j) = (at / n, at % n);
                let log_joint = trellis.alpha[t - 1][i] + step(model, i, j) + emitted(t, j) + trellis.beta[t][j];
                *pair += weight * trellis.share(log_joint);
            }
            found.gamma.extend(gamma);
        }
    }
    found
}

/// Compares numbers; errors are relative to `unit` where that is larger. Equal infinities agree.
#[track_caller]
fn near(found: &[f64], expected: &[f64], unit: f64, tolerance: f64, place: &str) {
    assert_eq!(found.len(), expected.len(), "{place}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let close = found == expected || (found - expected).abs() <= tolerance * expected.abs().max(unit);
        assert!(close, "{place}, {at}: {found:e}, expected {expected:e}");
    }
}

/// Compares the courses of trainings, of which one may converge before the other in the last digits.
#[track_caller]
fn agree(one: &[f64], other: &[f64], place: &str) {
    let common = one.len().min(other.len());
    near(&one[..common], &other[..common], 1.0, 1e-8, place);
    near(&one[one.len() - 1..], &other[other.len() - 1..], 1.0, 1e-8, place);
}

fn total_weight(sequences: &Sequences) -> f64 {
    (0..sequences.len()).map(|m| sequences.weight(m) * sequences.range(m).len() as f64).sum()
}

/// Compares all results on a place with the reference.
fn compare(place: &Place, scan: Scan, model: &Hmm, sequences: &Sequences, limits: Limits, name: &str) {
    let expected = reference(model, sequences);
    for precision in [Precision::F64, Precision::F32] {
        let name = format!("{name}, {}, {scan:?}, {precision:?}", place.name());
        let chunks = scan.steps(OverPaths::Sums, model.states(), 1, sequences);
        let limits = Limits { chunks, ..limits };
        let mut all = recursions(place, sequences, precision, limits).unwrap();
        all.set_models(std::slice::from_ref(model)).unwrap();
        let tolerance = if precision == Precision::F64 { 1e-10 } else { 2e-4 };
        near(&all.log_likelihoods().unwrap().remove(0), &expected.logs, 1.0, tolerance, &name);
        let decoded = all.viterbi().unwrap().remove(0);
        near(&decoded.scores, &expected.scores, 1.0, tolerance, &name);
        for (at, &state) in decoded.states.iter().enumerate().filter(|(_, state)| **state != NO_STATE) {
            assert!(sequences.state(at).is_none_or(|known| known == state), "{name}");
        }
        near(&all.posteriors().unwrap().remove(0), &expected.gamma, 1.0, tolerance, &name);
        let found = all.expect().unwrap().remove(0);
        let visits: Vec<f64> = match &found.emissions {
            Statistics::Categorical(counts) => counts.chunks_exact(4).map(|row| row.iter().sum()).collect(),
            Statistics::Gaussian { weights, .. } => weights.clone(),
            Statistics::Channels(_) => panic!("channels"),
        };
        let unit = total_weight(sequences);
        for (found, expected) in [&found.start, &found.transitions, &found.end, &visits].iter().zip(&expected.counts) {
            near(found, expected, unit, tolerance, &name);
        }
    }
}

#[test]
fn known_states_restrict_all_recursions_and_weights_multiply_counts() {
    let places = [DeviceChoice::Cpu, DeviceChoice::Emulated].map(|device| Place::open(device, None).unwrap().0);
    let (mut impossible, mut possible) = (0, 0);
    for seed in 0..240_u64 {
        let (model, sequences) = case(seed, 1 + seed as usize % 5, seed % 4 > 1);
        let expected = reference(&model, &sequences);
        impossible += expected.logs.iter().filter(|log| **log == f64::NEG_INFINITY).count();
        possible += expected.logs.iter().filter(|log| log.is_finite()).count();
        for m in 0..sequences.len() {
            let explained = sequences.impossible_at(&model, m).is_some();
            assert_eq!(explained, expected.logs[m] == f64::NEG_INFINITY, "{seed}");
        }
        let name = format!("seed {seed}");
        compare(&places[0], Scan::Never, &model, &sequences, Limits::default(), &name);
        if seed % 12 < 4 {
            compare(&places[1], Scan::Never, &model, &sequences, Limits::default(), &name);
            compare(&places[1], Scan::Always, &model, &sequences, Limits::default(), &name);
        }
        let which: Vec<u32> = (0..sequences.len() as u32).collect();
        let exact = Exact::new(&model).expect(&sequences, &which);
        near(&exact.log_likelihoods, &expected.logs, 1.0, 1e-11, &name);
        near(&exact.start, &expected.counts[0], total_weight(&sequences), 1e-11, &name);
        near(&exact.transitions, &expected.counts[1], total_weight(&sequences), 1e-11, &name);
    }
    assert!(impossible > 10 && possible > 1000, "{impossible} impossible, {possible} possible");
}

/// Every variant of the kernels, and windows of few rows.
#[test]
fn every_kernel_knows_states_and_weights() {
    let emulated = Place::open(DeviceChoice::Emulated, None).unwrap().0;
    for (n, vectors) in [(20, false), (40, true), (140, false)] {
        // Weights, and some missing components.
        let (model, sequences) = case(6, n, vectors);
        let few = 3 * 8 * 8 * n.next_multiple_of(32);
        for trellis in [few, Limits::default().trellis] {
            let limits = Limits { trellis, ..Limits::default() };
            compare(&emulated, Scan::Never, &model, &sequences, limits, &format!("{n} states, {trellis} bytes"));
        }
    }
}

fn trained(place: DeviceChoice, model: &Hmm, sequences: &Sequences, options: &Options) -> Run {
    let (place, _) = Place::open(place, None).unwrap();
    let mut all = recursions(&place, sequences, Precision::F64, Limits::default()).unwrap();
    train(&mut *all, vec![model.clone()], options, &mut |_| ControlFlow::Continue(())).unwrap().runs.remove(0)
}

#[test]
fn training_raises_the_weighted_likelihood_on_all_devices_and_ranks() {
    let mut trainings = 0;
    for seed in 0..200 {
        let (model, sequences) = case(seed, 1 + seed as usize % 4, seed % 4 > 1);
        let logs = reference(&model, &sequences).logs;
        if logs.contains(&f64::NEG_INFINITY) {
            continue;
        }
        let pseudocounts = Pseudocounts::equal(if seed % 3 == 0 { 0.5 } else { 0.0 });
        let options = Options { iterations: 10, tolerance: 0.0, pseudocounts, ..Options::default() };
        let cpu = trained(DeviceChoice::Cpu, &model, &sequences, &options);
        assert_eq!(cpu.fell, None, "{seed}");
        let weighted: f64 = logs.iter().enumerate().map(|(m, log)| sequences.weight(m) * log).sum();
        near(&cpu.log_likelihoods[..1], &[weighted], 1.0, 1e-10, "the first likelihood");
        cpu.model.clone().into_parts().validated().unwrap();
        trainings += 1;
        if seed < 24 {
            let emulated = trained(DeviceChoice::Emulated, &model, &sequences, &options);
            agree(&emulated.objectives, &cpu.objectives, &format!("seed {seed}"));
            let ranks = Local::run(2, Duration::from_secs(60), |local| {
                let division = Division::new(&sequences, 2);
                let share = division.share(local.rank());
                let (place, _) = Place::open(DeviceChoice::Emulated, None).unwrap();
                let limits = Limits::default();
                let mut all = Divided::open(&division, share.as_ref(), &place, Precision::F64, limits, local)
                    .map_err(|error| error.to_string())?;
                let trained = train(&mut all, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(()));
                trained.map(|mut trained| trained.runs.remove(0)).map_err(|error| error.to_string())
            });
            agree(&ranks.unwrap()[1].objectives, &cpu.objectives, &format!("ranks, seed {seed}"));
        }
    }
    assert!(trainings > 60, "{trainings}");
}

/// One iteration yields the estimates of counted paths, and a weight of 3 is that of three copies.
#[test]
fn known_paths_are_counted_in_one_iteration() {
    for kind in [Kind::Symbols(3), Kind::Vectors { dimensions: 1, full: true }] {
        let model = Uniform { states: 2, kind, ends: true, seed: 1 }.generate().unwrap();
        let seen = [0, 1, 2, 2, 0, 1, 1];
        let path = vec![0, 0, 1, 1, 0, 0, 1];
        let observations = match kind {
            Kind::Symbols(_) => Observations::Symbols(seen.to_vec()),
            Kind::Vectors { .. } => {
                Observations::Vectors { dimensions: 1, values: seen.iter().copied().map(f64::from).collect() }
            }
        };
        let sequences = Sequences::new(vec![0, 4, 7], observations).unwrap().with_states(path).unwrap();
        let weighted = sequences.clone().with_weights(vec![3.0, 1.0]).unwrap();
        let options = Options { iterations: 1, ..Options::default() };
        for (sequences, [one, two]) in [(&sequences, [1.0, 1.0]), (&weighted, [3.0, 1.0])] {
            for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
                let run = trained(device, &model, sequences, &options);
                let (model, name) = (&run.model, format!("{kind:?}, {device:?}"));
                near(model.start(), &[1.0, 0.0], 1.0, 1e-12, &name);
                // From state 0: 0 → 0 in both sequences, 0 → 1 in both; from state 1: 1 → 1 in the first, and both end.
                let stays = one / (2.0 * one + two);
                near(model.transitions(), &[0.5, 0.5, 0.0, stays], 1.0, 1e-12, &name);
                near(model.end().unwrap(), &[0.0, 1.0 - stays], 1.0, 1e-12, &name);
                let visits = [2.0 * one + 2.0 * two, 2.0 * one + two];
                match model.emissions() {
                    Emissions::Categorical { probs, .. } => {
                        let counts = [one + two, one + two, 0.0, 0.0, two, 2.0 * one];
                        let expected: Vec<f64> = counts.iter().enumerate().map(|(at, c)| c / visits[at / 3]).collect();
                        near(probs, &expected, 1.0, 1e-12, &name);
                    }
                    Emissions::Gaussian { means, covariances: Covariances::Full(variances), .. } => {
                        let expected = [(one + two) / visits[0], (4.0 * one + two) / visits[1]];
                        near(means, &expected, 1.0, 1e-12, &name);
                        let squares = [(one + two) / visits[0], (8.0 * one + two) / visits[1]];
                        let expected = [0, 1].map(|j| squares[j] - expected[j] * expected[j]);
                        near(&variances[..1], &expected[..1], 1.0, 1e-12, &name);
                        near(&variances[1..], &[expected[1]], 1.0, 1e-6, &name);
                    }
                    _ => panic!("matrices"),
                }
            }
        }
    }
}

#[test]
fn states_and_weights_are_checked() {
    let sequences = Sequences::of_symbols(&[vec![0, 1], vec![2]]).unwrap();
    let states = |states: &[u32]| sequences.clone().with_states(states.to_vec());
    assert_eq!(states(&[0]).unwrap_err().to_string(), "found 1 states, expected 3, one for each observation");
    assert_eq!(states(&[NO_STATE; 3]).unwrap(), sequences);
    let model = Uniform { states: 2, kind: Kind::Symbols(3), ends: false, seed: 1 }.generate().unwrap();
    let known = states(&[NO_STATE, 1, 2]).unwrap();
    let message = "sequence 2, position 1: found state 2, expected one below 2";
    assert_eq!(known.check(&model).unwrap_err().to_string(), message);
    assert_eq!(known.select(&[1]).unwrap().states(), [2]);
    assert_eq!(known.select(&[0]).unwrap().state(0), None);
    let weights = |weights: &[f64]| sequences.clone().with_weights(weights.to_vec());
    assert_eq!(weights(&[1.0]).unwrap_err().to_string(), "found 1 weights, expected 2, one for each sequence");
    let message = "the weight of sequence 2 is -1, expected a finite number of at least 0";
    assert_eq!(weights(&[1.0, -1.0]).unwrap_err().to_string(), message);
    assert_eq!(weights(&[0.0, 0.0]).unwrap_err().to_string(), "all weights are 0");
    assert_eq!(weights(&[1.0, 1.0]).unwrap(), sequences);
    assert_eq!(weights(&[2.0, 5.0]).unwrap().select(&[1]).unwrap().weights(), [5.0]);
}

/// Training by paths, on one of several ranks.
fn by_paths(
    device: DeviceChoice,
    comm: &dyn Communicator,
    model: &Hmm,
    sequences: &Sequences,
    options: &Options,
) -> Result<Run, String> {
    let (place, _) = Place::open(device, None).unwrap();
    let (scan, over, method) = (Scan::Auto, options.by.over(), ForwardMethod::Fused);
    let setup = Setup { sequences, sets: &[], place: &place, precision: Precision::F64, scan, over, method, comm };
    let work = |recursions: &mut Running| {
        let trained = train(recursions, vec![model.clone()], options, &mut |_| ControlFlow::Continue(()))?;
        Ok::<_, Box<dyn std::error::Error>>(trained.best().clone())
    };
    let found = setup.with_recursions(model, 1, |divided| Ok(divided?), work);
    found.map(|(run, _)| run).map_err(|error| error.to_string())
}

/// A model with full covariances, and vectors of it with missing components.
fn correlated(seed: u64) -> (Hmm, Sequences) {
    let kind = Kind::Vectors { dimensions: 3, full: true };
    let source = Uniform { states: 3, kind, ends: true, seed }.generate().unwrap();
    let drawn = sample(&source, 6, Some(12), seed).unwrap().sequences;
    let Observations::Vectors { dimensions, mut values } = drawn.observations().clone() else { panic!("vectors") };
    values.iter_mut().skip(2).step_by(11).for_each(|x| *x = f64::NAN);
    let observations = Observations::Vectors { dimensions, values };
    let weights = (1..7).map(f64::from).collect();
    let sequences = Sequences::with_missing(drawn.offsets().to_vec(), observations).unwrap();
    let start = Uniform { states: 3, kind, ends: true, seed: seed + 1000 }.generate().unwrap();
    (start, sequences.with_weights(weights).unwrap())
}

/// The first M step is that of the best paths as known states. Then ln P(O, q) rises until the paths stay.
#[test]
fn viterbi_training_is_supervised_training_by_the_best_paths() {
    let (mut trainings, mut converged) = (0, 0);
    for seed in 0..150 {
        let (model, sequences) = match seed % 5 {
            4 => correlated(seed),
            _ => case(seed, 1 + seed as usize % 4, seed % 4 > 1),
        };
        let mut batch = Batch::<f64>::new(&sequences);
        batch.set_models(std::slice::from_ref(&model)).unwrap();
        let decoded = batch.viterbi().unwrap().remove(0);
        if decoded.scores.contains(&f64::NEG_INFINITY) {
            continue;
        }
        let pseudocounts = Pseudocounts::equal(if seed % 3 == 0 { 0.5 } else { 0.0 });
        let options = Options { by: By::Viterbi, tolerance: 0.0, pseudocounts, ..Options::default() };
        let one = Options { iterations: 1, ..options.clone() };
        let train = |device, options: &Options| by_paths(device, &Local::alone(), &model, &sequences, options).unwrap();
        let first = train(DeviceChoice::Cpu, &one);
        let weighted: f64 = decoded.scores.iter().enumerate().map(|(m, score)| sequences.weight(m) * score).sum();
        near(&first.log_likelihoods[..1], &[weighted], 1.0, 1e-10, "the first score");
        let known = sequences.clone().with_states(decoded.states).unwrap();
        let counted = trained(DeviceChoice::Cpu, &model, &known, &Options { by: By::BaumWelch, ..one });
        for (found, expected) in
            [(first.model.start(), counted.model.start()), (first.model.transitions(), counted.model.transitions())]
        {
            near(found, expected, 1.0, 1e-9, &format!("seed {seed}"));
        }
        let emitted = |run: &Run| match run.model.emissions() {
            Emissions::Categorical { probs, .. } => probs.clone(),
            Emissions::Gaussian { means, covariances: Covariances::Diagonal(s) | Covariances::Full(s), .. } => {
                [&means[..], s].concat()
            }
            Emissions::Channels(_) => panic!("channels are not drawn"),
        };
        near(&emitted(&first), &emitted(&counted), 1e-12, 1e-6, &format!("emissions, seed {seed}"));
        let run = train(DeviceChoice::Cpu, &options);
        assert_eq!(run.fell, None, "{seed}");
        run.model.clone().into_parts().validated().unwrap();
        (trainings, converged) = (trainings + 1, converged + usize::from(run.converged));
        if seed < 30 {
            let emulated = train(DeviceChoice::Emulated, &options);
            agree(&emulated.objectives, &run.objectives, &format!("seed {seed}"));
            let ranks = Local::run(2, Duration::from_secs(60), |local| {
                by_paths(DeviceChoice::Cpu, local, &model, &sequences, &options)
            });
            let ranks = ranks.unwrap();
            assert_eq!(ranks[0].model, ranks[1].model);
            agree(&ranks[1].objectives, &run.objectives, &format!("ranks, seed {seed}"));
        }
    }
    assert!(trainings > 60 && converged > 50, "{trainings} trainings, {converged} converged");
}
