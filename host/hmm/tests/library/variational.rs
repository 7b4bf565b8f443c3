//! Variational Bayes against the exact evidence: the sum over all paths of the integral over all parameters.

use std::ops::ControlFlow;
use std::time::Duration;

use libm::lgamma;
use warpkov_hmm::backends::device::{ForwardMethod, OverPaths, Scan};
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::io::beliefs;
use warpkov_hmm::model::{Covariances, Emissions, HmmParts, Names, cholesky};
use warpkov_hmm::options::{Constraint, Options, Precision, Pseudocounts};
use warpkov_hmm::run::{Running, Setup};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_hmm::train::{Error, Round, Status};
use warpkov_hmm::variational::{BeliefRun, Beliefs, EmissionBeliefs, TrainedBeliefs, train_beliefs};
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Communicator, Local};

use crate::random::Random;

/// ln ∫ Π θₖ^nₖ dP(θ) of a Dirichlet distribution.
fn dirichlet(parameters: &[f64], counts: &[f64]) -> f64 {
    let [all, more] = [parameters.iter().sum::<f64>(), counts.iter().sum()];
    let each = parameters.iter().zip(counts).filter(|(_, count)| **count > 0.0);
    lgamma(all) - lgamma(all + more) + each.map(|(a, count)| lgamma(a + count) - lgamma(*a)).sum::<f64>()
}

/// ln ∫ Π 𝒩(xₜ; μ, Λ) dP(μ, Λ) of a normal-Wishart distribution with full precisions.
fn normal_wishart(points: &[&[f64]], mean: &[f64], beta: f64, nu: f64, scale: &[f64]) -> f64 {
    let (d, n) = (mean.len(), points.len() as f64);
    let log_determinant = |matrix: &[f64]| -> f64 {
        2.0 * cholesky(matrix, d).unwrap().iter().step_by(d + 1).map(|root| root.ln()).sum::<f64>()
    };
    let gamma = |nu: f64| -> f64 { (0..d).map(|k| lgamma((nu - k as f64) / 2.0)).sum() };
    let centre: Vec<f64> = (0..d).map(|k| points.iter().map(|x| x[k]).sum::<f64>() / n.max(1.0)).collect();
    let entry = |at: usize| {
        let (a, b) = (at / d, at % d);
        let about: f64 = points.iter().map(|x| (x[a] - centre[a]) * (x[b] - centre[b])).sum();
        scale[at] + about + beta * n / (beta + n) * (centre[a] - mean[a]) * (centre[b] - mean[b])
    };
    let posterior: Vec<f64> = (0..d * d).map(entry).collect();
    -n * d as f64 / 2.0 * std::f64::consts::PI.ln() + gamma(nu + n) - gamma(nu) + nu / 2.0 * log_determinant(scale)
        - (nu + n) / 2.0 * log_determinant(&posterior)
        + d as f64 / 2.0 * (beta / (beta + n)).ln()
}

/// ln P(O) under the prior.
fn evidence(prior: &Beliefs, sequences: &Sequences) -> f64 {
    let (n, steps) = (prior.start.len(), sequences.steps());
    let of_path = |path: &[usize]| {
        let [mut start, mut ends] = [(); 2].map(|()| vec![0.0; n]);
        let mut moves = vec![0.0; n * n];
        for m in 0..sequences.len() {
            let own = &path[sequences.range(m)];
            start[own[0]] += 1.0;
            ends[own[own.len() - 1]] += 1.0;
            own.windows(2).for_each(|pair| moves[pair[0] * n + pair[1]] += 1.0);
        }
        let row = |state: usize| match &prior.end {
            Some(end) => dirichlet(
                &[&prior.transitions[state * n..][..n], &[end[state]]].concat(),
                &[&moves[state * n..][..n], &[ends[state]]].concat(),
            ),
            None => dirichlet(&prior.transitions[state * n..][..n], &moves[state * n..][..n]),
        };
        let of_state = |state: usize| match (&prior.emissions, sequences.observations()) {
            (EmissionBeliefs::Categorical { symbols, counts }, Observations::Symbols(seen)) => {
                let v = *symbols as usize;
                let mut found = vec![0.0; v];
                (0..steps).filter(|&t| path[t] == state).for_each(|t| found[seen[t] as usize] += 1.0);
                dirichlet(&counts[state * v..][..v], &found)
            }
            (
                EmissionBeliefs::Gaussian { dimensions, means, strengths, degrees, scales },
                Observations::Vectors { values, .. },
            ) => {
                let d = *dimensions as usize;
                let points: Vec<&[f64]> =
                    (0..steps).filter(|&t| path[t] == state).map(|t| &values[t * d..][..d]).collect();
                let (mean, beta, nu) = (&means[state * d..][..d], strengths[state], degrees[state]);
                match scales {
                    Covariances::Full(all) => normal_wishart(&points, mean, beta, nu, &all[state * d * d..][..d * d]),
                    Covariances::Diagonal(all) => (0..d)
                        .map(|k| {
                            let column: Vec<&[f64]> = points.iter().map(|x| &x[k..=k]).collect();
                            normal_wishart(&column, &mean[k..=k], beta, nu, &all[state * d + k..=state * d + k])
                        })
                        .sum(),
                }
            }
            _ => panic!("of one kind"),
        };
        dirichlet(&prior.start, &start) + (0..n).map(|state| row(state) + of_state(state)).sum::<f64>()
    };
    let paths = (0..n.pow(steps as u32)).map(|code| (0..steps).map(|t| code / n.pow(t as u32) % n).collect::<Vec<_>>());
    let logs: Vec<f64> = paths.map(|path| of_path(&path)).collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}

/// A prior over magnitudes, a start, and sequences of `steps` steps in all.
fn case(seed: u64, n: usize, kind: Kind, lengths: &[u64]) -> (Beliefs, Beliefs, Sequences) {
    let random = &mut Random(seed);
    let unit = random.magnitude(-20.0, 20.0);
    let ends = seed.is_multiple_of(2);
    let model = Uniform { states: n as u32, kind, ends: false, seed }.generate().unwrap();
    let steps: u64 = lengths.iter().sum();
    let drawn = sample(&model, 1, Some(steps as usize), seed).unwrap().sequences;
    let observations = match drawn.observations().clone() {
        Observations::Vectors { dimensions, values } => {
            Observations::Vectors { dimensions, values: values.into_iter().map(|x| x * unit).collect() }
        }
        symbols => symbols,
    };
    let offsets = [0].into_iter().chain(lengths.iter().scan(0, |sum, length| {
        *sum += length;
        Some(*sum)
    }));
    let sequences = Sequences::new(offsets.collect(), observations).unwrap();
    let mut beliefs = |from: f64, to: f64| {
        let emissions = match kind {
            Kind::Symbols(symbols) => {
                EmissionBeliefs::Categorical { symbols, counts: random.magnitudes(n * symbols as usize, from, to) }
            }
            Kind::Vectors { dimensions, full } => {
                let d = dimensions as usize;
                let diagonal = |random: &mut Random| random.magnitudes(d, -1.0, 1.0);
                let scale = |random: &mut Random| -> Vec<f64> {
                    let diagonal = diagonal(random);
                    match full {
                        false => diagonal.iter().map(|s| s * unit * unit).collect(),
                        // Rows dominated by the diagonal.
                        true => (0..d * d)
                            .map(|at| unit * unit * if at / d == at % d { diagonal[at / d] + 1.0 } else { 0.3 })
                            .collect(),
                    }
                };
                let numbers = (0..n).flat_map(|_| scale(random)).collect();
                EmissionBeliefs::Gaussian {
                    dimensions,
                    means: (0..n * d).map(|_| (random.unit() - 0.5) * 6.0 * unit).collect(),
                    strengths: random.magnitudes(n, from, to),
                    degrees: random.magnitudes(n, from.max(-1.0), to).into_iter().map(|nu| nu + d as f64).collect(),
                    scales: if full { Covariances::Full(numbers) } else { Covariances::Diagonal(numbers) },
                }
            }
        };
        Beliefs {
            start: random.magnitudes(n, from, to),
            transitions: random.magnitudes(n * n, from, to),
            end: ends.then(|| random.magnitudes(n, from, to)),
            emissions,
        }
    };
    (beliefs(-2.0, 1.0), beliefs(0.0, 1.0), sequences)
}

fn trained(
    device: DeviceChoice,
    sequences: &Sequences,
    prior: &Beliefs,
    starts: &[Beliefs],
    options: &Options,
) -> (Vec<BeliefRun>, usize, Status) {
    let TrainedBeliefs { runs, best, status } =
        trained_by(&Local::alone(), device, sequences, prior, starts, options).unwrap();
    (runs, best, status)
}

/// Training on one of several ranks.
fn trained_by(
    comm: &dyn Communicator,
    device: DeviceChoice,
    sequences: &Sequences,
    prior: &Beliefs,
    starts: &[Beliefs],
    options: &Options,
) -> Result<TrainedBeliefs, String> {
    let model = prior.mean(Names::default()).unwrap();
    let (place, _) = Place::open(device, None).unwrap();
    let (scan, over, method, precision) = (Scan::Auto, OverPaths::Sums, ForwardMethod::Fused, Precision::F64);
    let setup = Setup { sequences, sets: &[], place: &place, precision, scan, over, method, comm };
    let work = |recursions: &mut Running| {
        let starts = starts.to_vec();
        let mut observe = |_: &Round<'_, TrainedBeliefs>| ControlFlow::Continue(());
        Ok::<_, Box<dyn std::error::Error>>(train_beliefs(recursions, sequences, prior, starts, options, &mut observe)?)
    };
    let found = setup.with_recursions(&model, starts.len(), |divided| Ok(divided?), work);
    found.map(|(trained, _)| trained).map_err(|error| error.to_string())
}

const KINDS: [Kind; 4] = [
    Kind::Symbols(3),
    Kind::Vectors { dimensions: 1, full: true },
    Kind::Vectors { dimensions: 2, full: true },
    Kind::Vectors { dimensions: 2, full: false },
];

/// Of one state nothing is approximated: after one M step, L = ln P(O).
#[test]
fn one_state_has_the_exact_evidence() {
    for seed in 0..80 {
        let (prior, start, sequences) = case(seed, 1, KINDS[seed as usize % 4], &[5, 1, 3]);
        let options = Options { tolerance: 1e-13, ..Options::default() };
        let (runs, _, status) = trained(DeviceChoice::Cpu, &sequences, &prior, &[start], &options);
        let (found, expected) = (runs[0].bound(), evidence(&prior, &sequences));
        assert_eq!(status, Status::Converged, "{seed}");
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{seed}: {found}, expected {expected}");
    }
}

#[test]
fn the_bound_rises_up_to_the_evidence_on_all_devices() {
    let mut gaps = Vec::new();
    for seed in 0..120 {
        let (prior, start, sequences) = case(seed, 2, KINDS[seed as usize % 4], &[4, 3, 1]);
        let options = Options { iterations: 200, tolerance: 1e-10, ..Options::default() };
        let (runs, best, _) = trained(DeviceChoice::Cpu, &sequences, &prior, &[start.clone(), prior.clone()], &options);
        let expected = evidence(&prior, &sequences);
        for run in &runs {
            assert_eq!(run.fell, None, "{seed}");
            assert!(run.bounds.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0)), "{seed}");
            assert!(run.bound() <= expected + 1e-9 * expected.abs().max(1.0), "{seed}: {} {expected}", run.bound());
            run.beliefs.mean(Names::default()).unwrap();
        }
        gaps.push(expected - runs[best].bound());
        if seed < 16 {
            let (emulated, ..) = trained(DeviceChoice::Emulated, &sequences, &prior, &[start], &options);
            let common = emulated[0].bounds.len().min(runs[0].bounds.len());
            for (one, other) in emulated[0].bounds[..common].iter().zip(&runs[0].bounds) {
                assert!((one - other).abs() < 1e-8 * other.abs().max(1.0), "{seed}: {one} {other}");
            }
        }
    }
    gaps.sort_by(f64::total_cmp);
    // Bounds are near, and not equal.
    assert!(gaps[60] > 1e-3 && gaps[60] < 5.0, "{gaps:?}");
}

/// The stronger the prior, the less is approximated.
#[test]
fn a_strong_prior_is_a_point() {
    for seed in 0..20 {
        let (mut prior, _, sequences) = case(seed, 2, Kind::Symbols(3), &[4, 3, 1]);
        let strong = |counts: &mut Vec<f64>| counts.iter_mut().for_each(|count| *count *= 1e9);
        strong(&mut prior.start);
        strong(&mut prior.transitions);
        prior.end.iter_mut().for_each(strong);
        if let EmissionBeliefs::Categorical { counts, .. } = &mut prior.emissions {
            strong(counts);
        }
        let (runs, ..) =
            trained(DeviceChoice::Cpu, &sequences, &prior, std::slice::from_ref(&prior), &Options::default());
        let expected = evidence(&prior, &sequences);
        assert!((runs[0].bound() - expected).abs() < 1e-4, "{seed}: {} {expected}", runs[0].bound());
    }
}

/// All states have one precision: with equal means and moves, that of all observations together.
#[test]
fn a_shared_precision_and_zeros_stay() {
    let (prior, _, sequences) = case(5, 2, Kind::Vectors { dimensions: 2, full: true }, &[6, 9]);
    let EmissionBeliefs::Gaussian { dimensions, means, strengths, scales: Covariances::Full(scales), .. } =
        prior.emissions.clone()
    else {
        panic!("vectors")
    };
    let (degrees, scales) = (vec![3.5], Covariances::Full(scales[..4].to_vec()));
    let emissions = EmissionBeliefs::Gaussian { dimensions, means, strengths, degrees, scales };
    let prior = Beliefs { emissions, transitions: vec![1.0, 1.0, 0.0, 1.0], end: None, ..prior };
    let options = Options { iterations: 50, ..Options::default() };
    let (runs, ..) = trained(DeviceChoice::Cpu, &sequences, &prior, std::slice::from_ref(&prior), &options);
    let run = &runs[0];
    assert_eq!((run.fell, run.beliefs.transitions[2]), (None, 0.0));
    let EmissionBeliefs::Gaussian { degrees, strengths: after, .. } = &run.beliefs.emissions else { panic!("vectors") };
    assert!((degrees[0] - 3.5 - 15.0).abs() < 1e-9);
    let EmissionBeliefs::Gaussian { strengths: before, .. } = &prior.emissions else { panic!("vectors") };
    assert!((after.iter().sum::<f64>() - before.iter().sum::<f64>() - 15.0).abs() < 1e-9);
    let model = run.beliefs.mean(Names::default()).unwrap();
    assert_eq!(model.transitions()[2], 0.0);
}

#[test]
fn wrong_beliefs_are_refused() {
    let (prior, start, sequences) = case(2, 2, Kind::Vectors { dimensions: 2, full: true }, &[3]);
    let refused = |start: Beliefs| {
        let model = prior.mean(Names::default()).unwrap();
        let mut batch = warpkov_hmm::backends::cpu::Batch::<f64>::new(&sequences);
        assert_eq!(model.states(), 2);
        let found = train_beliefs(&mut batch, &sequences, &prior, vec![start], &Options::default(), &mut |_| {
            ControlFlow::Continue(())
        });
        found.map_err(|error: Error<_>| error.to_string()).unwrap_err()
    };
    let negative = Beliefs { start: vec![1.0, -1.0], ..start.clone() };
    assert_eq!(refused(negative), "a Dirichlet parameter is -1, expected a number of at least 0");
    let none = Beliefs { start: vec![0.0, 0.0], ..start.clone() };
    assert_eq!(refused(none), "all Dirichlet parameters of a distribution are 0");
    let zero = Beliefs { start: vec![1.0, 0.0], ..start.clone() };
    assert_eq!(refused(zero), "a start and the prior differ in shape or in zeros");
    let short = Beliefs { transitions: vec![1.0; 3], ..start.clone() };
    assert_eq!(refused(short), "A has 3 numbers, expected 4");
    let EmissionBeliefs::Gaussian { dimensions, means, strengths, scales, .. } = start.emissions.clone() else {
        panic!("vectors")
    };
    let emissions = EmissionBeliefs::Gaussian { dimensions, means, strengths, degrees: vec![5.0, 1.0], scales };
    assert_eq!(
        refused(Beliefs { emissions, ..start }),
        "the precision of state 1 has nu = 1, expected a number above 1, and S positive definite"
    );
}

/// The numbers of a distribution in one list.
fn numbers(beliefs: &Beliefs) -> Vec<f64> {
    let own = match &beliefs.emissions {
        EmissionBeliefs::Categorical { counts, .. } => counts.clone(),
        EmissionBeliefs::Gaussian { means, strengths, degrees, scales, .. } => {
            let (Covariances::Diagonal(scales) | Covariances::Full(scales)) = scales;
            [&means[..], strengths, degrees, scales].concat()
        }
    };
    [&beliefs.start[..], &beliefs.transitions, beliefs.end.as_deref().unwrap_or_default(), &own].concat()
}

fn near(found: &Beliefs, expected: &Beliefs, tolerance: f64) -> bool {
    let (found, expected) = (numbers(found), numbers(expected));
    found.len() == expected.len()
        && found.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= tolerance * y.abs().max(1.0))
}

/// Of one state nothing is approximated: the posterior of some sequences is the prior of the others.
#[test]
fn evidence_of_batches_accumulates() {
    for seed in 0..40 {
        let (prior, start, all) = case(seed, 1, KINDS[seed as usize % 4], &[4, 2, 3]);
        let options = Options { tolerance: 1e-13, ..Options::default() };
        let posterior = |prior: &Beliefs, sequences: &Sequences| {
            let (mut runs, ..) = trained(DeviceChoice::Cpu, sequences, prior, std::slice::from_ref(&start), &options);
            runs.swap_remove(0).beliefs
        };
        let [first, second] = [&[0][..], &[1, 2]].map(|batch| all.select(batch).unwrap());
        // Through a file.
        let mut text = Vec::new();
        beliefs::write_to(&mut text, &posterior(&prior, &first), &Names::default()).unwrap();
        let (between, _) = beliefs::read_from(&text[..], "posterior").unwrap();
        let (one_by_one, at_once) = (posterior(&between, &second), posterior(&prior, &all));
        assert!(near(&one_by_one, &at_once, 1e-9), "{seed}: {one_by_one:?} {at_once:?}");
    }
}

#[test]
fn two_ranks_are_one() {
    for seed in 0..24 {
        let (prior, start, sequences) = case(seed, 2, KINDS[seed as usize % 4], &[4, 3, 1, 6]);
        let (starts, options) = ([start, prior.clone()], Options { iterations: 20, ..Options::default() });
        let (alone, ..) = trained(DeviceChoice::Cpu, &sequences, &prior, &starts, &options);
        for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
            let ranks = Local::run(2, Duration::from_secs(60), |local| {
                trained_by(local, device, &sequences, &prior, &starts, &options)
            });
            let ranks = ranks.unwrap();
            assert_eq!(ranks[0], ranks[1], "{seed}");
            for (one, other) in ranks[0].runs.iter().zip(&alone) {
                assert!(one.bounds.len() == other.bounds.len() && near(&one.beliefs, &other.beliefs, 1e-6), "{seed}");
            }
        }
    }
}

/// Where all states are known, the posterior is the prior and the counts.
#[test]
fn known_states_are_counted() {
    for seed in 0..20 {
        let model = Uniform { states: 3, kind: Kind::Symbols(4), ends: seed % 2 == 0, seed }.generate().unwrap();
        let drawn = sample(&model, 5, Some(8), seed).unwrap();
        let sequences = drawn.sequences.with_states(drawn.states).unwrap();
        let options = Options::default();
        let prior = Beliefs::prior(&model, &sequences, &options).unwrap();
        let start = prior.start_at(&model, &sequences, &options).unwrap();
        let (runs, ..) = trained(DeviceChoice::Cpu, &sequences, &prior, &[start], &options);
        let mut expected = prior;
        let Observations::Symbols(symbols) = sequences.observations() else { panic!("symbols") };
        let EmissionBeliefs::Categorical { counts, .. } = &mut expected.emissions else { panic!("symbols") };
        for sequence in 0..sequences.len() {
            let path: Vec<usize> = sequences.range(sequence).map(|at| sequences.state(at).unwrap() as usize).collect();
            expected.start[path[0]] += 1.0;
            path.windows(2).for_each(|pair| expected.transitions[pair[0] * 3 + pair[1]] += 1.0);
            expected.end.iter_mut().for_each(|end| end[path[path.len() - 1]] += 1.0);
            sequences
                .range(sequence)
                .zip(&path)
                .for_each(|(at, state)| counts[state * 4 + symbols[at] as usize] += 1.0);
        }
        assert!(near(&runs[0].beliefs, &expected, 1e-9), "{seed}: {:?} {expected:?}", runs[0].beliefs);
    }
}

/// The defaults of hmmlearn, and a start with the mean and the covariances of the model.
#[test]
fn default_priors_and_starts() {
    for seed in 0..20 {
        let kind = KINDS[seed as usize % 4];
        let model = Uniform { states: 2, kind, ends: seed % 3 == 0, seed }.generate().unwrap();
        // A transition that is impossible stays so.
        let mut parts: HmmParts = model.into_parts();
        parts.transitions[1] += parts.transitions[0];
        parts.transitions[0] = 0.0;
        let model = parts.validated().unwrap();
        let drawn = sample(&model, 4, Some(5), seed).unwrap().sequences.with_weights(vec![1.0, 2.0, 0.0, 0.5]).unwrap();
        let options = Options { pseudocounts: Pseudocounts::equal(0.25), sticky: 3.0, ..Options::default() };
        let prior = Beliefs::prior(&model, &drawn, &options).unwrap();
        let start = prior.start_at(&model, &drawn, &options).unwrap();
        let of_row = if model.end().is_some() { [2.0, 3.0] } else { [1.0, 2.0] };
        assert_eq!(prior.start, [0.75; 2]);
        assert_eq!(
            prior.transitions,
            [0.0, 1.0 / of_row[0] + 0.25, 1.0 / of_row[1] + 0.25, 1.0 / of_row[1] + (0.25 + 3.0)]
        );
        assert!((start.start.iter().sum::<f64>() - 1.5 - 3.5).abs() < 1e-12);
        let steps = drawn.weighted_steps();
        assert!((start.transitions[1] - prior.transitions[1] - model.transitions()[1] * steps / 2.0).abs() < 1e-12);
        assert_eq!(start.transitions[0], 0.0);
        match (&prior.emissions, &start.emissions, model.emissions()) {
            (EmissionBeliefs::Categorical { counts, .. }, ..) => assert_eq!(counts[..], [1.0 / 3.0 + 0.25; 6]),
            (
                EmissionBeliefs::Gaussian { dimensions, means, strengths, degrees, scales },
                EmissionBeliefs::Gaussian { strengths: counted, .. },
                Emissions::Gaussian { means: of_model, covariances: expected, .. },
            ) => {
                let d = *dimensions as usize;
                let Observations::Vectors { values, .. } = drawn.observations() else { panic!("vectors") };
                let of_sequence = |sequence: usize| -> f64 {
                    let rows = drawn.range(sequence).map(|at| values[at * d + d - 1]);
                    drawn.weight(sequence) * rows.sum::<f64>()
                };
                let mean = (0..4).map(of_sequence).sum::<f64>() / steps;
                assert!((means[d - 1] - mean).abs() < 1e-12 && means[..d] == means[d..]);
                assert_eq!((&strengths[..], &degrees[..]), (&[1.0; 2][..], &[d as f64; 2][..]));
                let (Covariances::Diagonal(scales) | Covariances::Full(scales)) = scales;
                assert!(scales.iter().all(|s| [0.0, 1e-3].contains(s)) && scales[0] == 1e-3);
                assert_eq!(counted[0], 1.0 + steps / 2.0);
                let Emissions::Gaussian { means, covariances, .. } =
                    start.mean(Names::default()).unwrap().emissions().clone()
                else {
                    panic!("vectors")
                };
                let (Covariances::Diagonal(found) | Covariances::Full(found)) = covariances;
                let (Covariances::Diagonal(expected) | Covariances::Full(expected)) = expected;
                assert!(means == *of_model && found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-12));
                let spherical = Options { constraint: Constraint::Spherical, ..Options::default() };
                assert!(Beliefs::prior(&model, &drawn, &spherical).is_err());
            }
            _ => panic!("of one kind"),
        }
        let other = Beliefs { transitions: vec![1.0; 4], ..prior };
        assert!(other.start_at(&model, &drawn, &options).unwrap_err().contains("differ in shape or in zeros"));
    }
}
