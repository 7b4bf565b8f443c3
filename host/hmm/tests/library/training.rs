//! Training with priors, constrained covariances and frozen parameters: the objective never falls, and its maximum is
//! that of formulas.

use std::ops::ControlFlow;

use warpkov_hmm::backend::Recursions;
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::maximise::Spread;
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{Constraint, FLOOR, Frozen, NormalPrior, Options, Precision, Pseudocount, Pseudocounts};
use warpkov_hmm::run::alone;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_hmm::solution::Run;
use warpkov_hmm::train::{Error, bic, train};
use warpkov_runtime::choose::DeviceChoice;

use crate::random::Random;

fn trained(model: &Hmm, sequences: &Sequences, options: &Options) -> Result<Run, String> {
    let mut batch = Batch::<f64>::new(sequences);
    let trained = train(&mut batch, vec![model.clone()], options, &mut |_| ControlFlow::Continue(()));
    trained.map(|mut trained| trained.runs.remove(0)).map_err(|error: Error<_>| error.to_string())
}

/// The model, and observations, in a unit of the vectors, and with covariances that satisfy a constraint.
fn in_unit(model: Hmm, sequences: Sequences, unit: f64, constraint: Constraint) -> (Hmm, Sequences) {
    let mut parts = model.into_parts();
    if let Emissions::Gaussian { dimensions, means, covariances } = &mut parts.emissions {
        let d = *dimensions as usize;
        means.iter_mut().for_each(|mean| *mean *= unit);
        let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = covariances;
        numbers.iter_mut().for_each(|number| *number *= unit * unit);
        *covariances = match constraint {
            Constraint::None => covariances.clone(),
            Constraint::Spherical => covariances.clone().spherical(d),
            Constraint::Tied => covariances.clone().tied(d),
        };
    }
    let observations = match sequences.observations().clone() {
        Observations::Vectors { dimensions, mut values } => {
            values.iter_mut().for_each(|value| *value *= unit);
            Observations::Vectors { dimensions, values }
        }
        symbols => symbols,
    };
    (parts.validated().unwrap(), Sequences::new(sequences.offsets().to_vec(), observations).unwrap())
}

/// A random prior of a model's means and covariances.
fn normal_prior(model: &Hmm, random: &mut Random, unit: f64) -> Option<NormalPrior> {
    let Emissions::Gaussian { dimensions, means, covariances } = model.emissions() else { return None };
    let (n, d) = (model.start().len(), *dimensions as usize);
    let scales = match covariances {
        Covariances::Diagonal(_) => random.magnitudes(n * d, -8.0, 4.0),
        // v vᵀ is singular, as the scale of equal entries is.
        Covariances::Full(_) => (0..n)
            .flat_map(|_| {
                let v = random.magnitudes(d, -4.0, 2.0);
                (0..d * d).map(|at| v[at / d] * v[at % d]).collect::<Vec<_>>()
            })
            .collect(),
    };
    Some(NormalPrior {
        means: (0..means.len()).map(|_| unit * (random.unit() - 0.5) * 20.0).collect(),
        weights: if random.unit() < 0.3 { vec![0.0; n] } else { random.magnitudes(n, -6.0, 3.0) },
        scales: scales.into_iter().map(|scale: f64| scale * unit * unit).collect(),
        degrees: if random.unit() < 0.3 { 0.0 } else { random.magnitude(-6.0, 3.0) },
    })
}

fn emitted(model: &Hmm) -> (&[f64], &[f64]) {
    match model.emissions() {
        Emissions::Categorical { probs, .. } => (probs, &[]),
        Emissions::Gaussian {
            means, covariances: Covariances::Diagonal(numbers) | Covariances::Full(numbers), ..
        } => (means, numbers),
        Emissions::Channels(_) => panic!("channels"),
    }
}

#[test]
fn the_objective_rises_in_every_step_of_random_models_with_priors_and_constraints() {
    for seed in 0..600_u64 {
        let random = &mut Random(seed);
        let unit = random.magnitude(-30.0, 30.0);
        let (states, full) = (1 + seed as u32 % 4, seed % 2 == 0);
        let kind = match seed % 6 {
            0 | 3 => Kind::Symbols(2 + seed as u32 % 5),
            _ => Kind::Vectors { dimensions: 1 + seed as u32 % 3, full },
        };
        let symbols = matches!(kind, Kind::Symbols(_));
        let constraint = match seed % 5 {
            1 | 2 if !symbols => Constraint::Tied,
            3 if !symbols => Constraint::Spherical,
            _ => Constraint::None,
        };
        let source = Uniform { states: states + 1, kind, ends: false, seed }.generate().unwrap();
        let drawn = sample(&source, 4, Some(15), seed).unwrap().sequences;
        let model = Uniform { states, kind, ends: false, seed: seed + 1000 }.generate().unwrap();
        let (model, sequences) = in_unit(model, drawn, unit, constraint);
        let (means, covariances) = emitted(&model);
        let pseudocounts = Pseudocounts {
            start: Pseudocount::Each(random.magnitudes(states as usize, -6.0, 3.0)),
            transitions: random.magnitude(-6.0, 3.0).into(),
            emissions: Pseudocount::Each(random.magnitudes(means.len(), -6.0, 3.0)),
        };
        let frozen = Frozen {
            start: random.unit() < 0.2,
            transitions: random.unit() < 0.2,
            emissions: random.unit() < 0.3,
            covariances: random.unit() < 0.3,
        };
        let normals = if random.unit() < 0.8 { normal_prior(&model, random, unit) } else { None };
        let sticky = if random.unit() < 0.5 { 0.0 } else { random.magnitude(-6.0, 3.0) };
        let options = Options {
            iterations: 15,
            tolerance: 0.0,
            pseudocounts,
            sticky,
            normals,
            frozen,
            constraint,
            ..Options::default()
        };
        let run = trained(&model, &sequences, &options).unwrap();
        assert!(run.objectives.len() >= 2, "seed {seed}");
        for pair in run.objectives.windows(2) {
            let rounding = if full && !symbols { f64::EPSILON / FLOOR } else { 1e-9 };
            assert!(pair[1] >= pair[0] - rounding * pair[0].abs().max(1.0), "seed {seed}: {pair:?}, {options:?}");
        }
        let (after, spreads) = emitted(&run.model);
        assert!(constraint.holds(&run.model), "seed {seed}");
        assert_eq!(run.model.start() == model.start(), frozen.start || states == 1, "seed {seed}");
        assert!(!frozen.transitions || run.model.transitions() == model.transitions(), "seed {seed}");
        assert_eq!(after == means, frozen.emissions, "seed {seed}");
        assert!(!frozen.covariances || spreads == covariances, "seed {seed}");
        run.model.clone().into_parts().validated().unwrap();
    }
}

/// Points of the plane, all in one state.
const POINTS: [[f64; 2]; 5] = [[1.0, 2.0], [2.0, 1.5], [-1.0, 0.5], [0.5, 0.0], [3.0, 4.0]];

fn plane(covariances: Covariances) -> (Hmm, Sequences) {
    let observations = Observations::Vectors { dimensions: 2, values: POINTS.concat() };
    let emissions = Emissions::Gaussian { dimensions: 2, means: vec![0.0, 0.0], covariances };
    let parts = HmmParts { start: vec![1.0], transitions: vec![1.0], end: None, emissions, names: Names::default() };
    (parts.validated().unwrap(), Sequences::new(vec![0, 5], observations).unwrap())
}

/// The mean and the scatter about it of the points, with a prior of weight w at (1, −1) and this Ψ.
fn with_prior(w: f64, scale: [f64; 4]) -> ([f64; 2], [f64; 4]) {
    let m = [1.0, -1.0];
    let mean = [0, 1].map(|k| (POINTS.iter().map(|x| x[k]).sum::<f64>() + w * m[k]) / (5.0 + w));
    let product = |x: [f64; 2], at: usize| (x[at / 2] - mean[at / 2]) * (x[at % 2] - mean[at % 2]);
    let scatter = |at: usize| POINTS.iter().map(|x| product(*x, at)).sum::<f64>() + w * product(m, at) + scale[at];
    (mean, [0, 1, 2, 3].map(scatter))
}

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0), "{found}, expected {expected}");
    }
}

#[test]
fn one_state_has_the_textbooks_posterior_mode() {
    let (w, degrees) = (2.0, 3.0);
    let prior =
        |scales: &[f64]| NormalPrior { means: vec![1.0, -1.0], weights: vec![w], scales: scales.to_vec(), degrees };
    let options = |scales: &[f64], constraint| Options {
        iterations: 1,
        tolerance: 0.0,
        normals: Some(prior(scales)),
        constraint,
        ..Options::default()
    };
    let full = [0.5, 0.2, 0.2, 0.4];
    for constraint in [Constraint::None, Constraint::Tied] {
        let (model, sequences) = plane(Covariances::Full(vec![1.0, 0.0, 0.0, 1.0]));
        let run = trained(&model, &sequences, &options(&full, constraint)).unwrap();
        let (mean, scatter) = with_prior(w, full);
        near(emitted(&run.model).0, &mean);
        near(emitted(&run.model).1, &scatter.map(|x| x / (5.0 + degrees)));
        // −½ [tr(S Σ⁻¹) + ν ln |Σ|] − ½ Σ ln |2πΣ|: tr(S Σ⁻¹) = (n + ν) D at the mode.
        let covariance = emitted(&run.model).1;
        let determinant = covariance[0] * covariance[3] - covariance[1] * covariance[2];
        let objective = -0.5 * (8.0 * 2.0 + 8.0 * determinant.ln() + 5.0 * 2.0 * std::f64::consts::TAU.ln());
        near(&[run.objective()], &[objective]);
    }
    let (mean, scatter) = with_prior(w, [0.5, 0.0, 0.0, 0.4]);
    let variances = [scatter[0] / (5.0 + degrees), scatter[3] / (5.0 + degrees)];
    let (model, sequences) = plane(Covariances::Diagonal(vec![1.0, 1.0]));
    let run = trained(&model, &sequences, &options(&[0.5, 0.4], Constraint::None)).unwrap();
    near(emitted(&run.model).0, &mean);
    near(emitted(&run.model).1, &variances);
    let run = trained(&model, &sequences, &options(&[0.5, 0.4], Constraint::Spherical)).unwrap();
    near(emitted(&run.model).1, &[(variances[0] + variances[1]) / 2.0; 2]);
    // About a mean that stays.
    let frozen = Frozen { emissions: true, ..Frozen::default() };
    let stay = Options { iterations: 1, tolerance: 0.0, frozen, ..Options::default() };
    let run = trained(&model, &sequences, &stay).unwrap();
    let square = |k: usize| POINTS.iter().map(|x| x[k] * x[k]).sum::<f64>() / 5.0;
    near(emitted(&run.model).1, &[square(0), square(1)]);
}

#[test]
fn pseudocounts_of_each_parameter() {
    let (start, transitions) = (vec![0.5, 0.5], vec![0.6, 0.4, 0.0, 1.0]);
    let emissions = Emissions::Categorical { symbols: 2, probs: vec![0.5, 0.5, 0.2, 0.8] };
    let parts = HmmParts { start, transitions, end: None, emissions, names: Names::default() };
    let model = parts.validated().unwrap();
    let sequences = Sequences::of_symbols(&[[0, 1, 1, 0]]).unwrap();
    // So large that the counts do not matter.
    let large = |counts: [f64; 4]| Pseudocount::Each(counts.map(|count| 1e14 * count).to_vec());
    let pseudocounts = Pseudocounts {
        start: Pseudocount::Each(vec![3e14, 1e14]),
        transitions: large([1.0, 4.0, 2.0, 2.0]),
        emissions: large([1.0, 3.0, 0.0, 1.0]),
    };
    let run = trained(&model, &sequences, &Options { iterations: 1, pseudocounts, ..Options::default() }).unwrap();
    near(run.model.start(), &[0.75, 0.25]);
    // Zeros stay.
    near(run.model.transitions(), &[0.2, 0.8, 0.0, 1.0]);
    near(emitted(&run.model).0, &[0.25, 0.75, 0.0, 1.0]);
}

/// A_ij ∝ ξ(i, j) + c + κ [i = j], on all devices, and the prior has κ ln A_ii.
#[test]
fn a_sticky_count_is_added_to_the_diagonal() {
    let model = Uniform { states: 3, kind: Kind::Symbols(3), ends: true, seed: 3 }.generate().unwrap();
    let sequences = sample(&model, 20, None, 4).unwrap().sequences;
    let mut batch = Batch::<f64>::new(&sequences);
    batch.set_models(std::slice::from_ref(&model)).unwrap();
    let counts = batch.expect().unwrap().remove(0);
    let (count, sticky) = (0.25, 7.5);
    let options = Options { iterations: 1, sticky, pseudocounts: Pseudocounts::equal(count), ..Options::default() };
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        let run = alone(&model, &sequences, device, Precision::F64, OverPaths::Sums, |recursions| {
            let trained = train(recursions, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(()));
            Ok::<_, Box<dyn std::error::Error>>(trained?.best().clone())
        });
        let run = run.unwrap();
        for i in 0..3 {
            let of = |j: usize| counts.transitions[3 * i + j] + count + if i == j { sticky } else { 0.0 };
            let total = (0..3).map(of).sum::<f64>() + counts.end[i] + count;
            near(run.model.row(i), &[of(0) / total, of(1) / total, of(2) / total]);
        }
        let prior = |model: &Hmm| {
            let all = [model.start(), model.transitions(), model.end().unwrap(), emitted(model).0].concat();
            let diagonal = (0..3).map(|i| sticky * model.row(i)[i].ln());
            all.iter().map(|p| count * p.ln()).chain(diagonal).sum::<f64>()
        };
        for (at, model) in [&model, &run.model].into_iter().enumerate() {
            near(&[run.objectives[at] - run.log_likelihoods[at]], &[prior(model)]);
        }
    }
}

/// A sequence of weight w has w T observations in BIC, and its vectors have w observations each in the variance of the floor.
#[test]
fn weights_count_observations() {
    let values = |copies: [usize; 2]| -> Vec<f64> {
        [[1.0, 5.0, 2.0, 9.0], [3.0, 4.0, 8.0, 5.0]]
            .iter()
            .zip(copies)
            .flat_map(|(x, copies)| x.repeat(copies))
            .collect()
    };
    let sequences = |offsets: Vec<u64>, copies| {
        Sequences::new(offsets, Observations::Vectors { dimensions: 2, values: values(copies) }).unwrap()
    };
    let weighted = sequences(vec![0, 2, 4], [1, 1]).with_weights(vec![3.0, 2.0]).unwrap();
    let copied = sequences((0..6).map(|at| 2 * at).collect(), [3, 2]);
    let [one, other] = [&weighted, &copied].map(Spread::new);
    near(&one.variances, &other.variances);
    assert_eq!(one.largest, other.largest);
    near(&[bic(7, &weighted, -3.0)], &[bic(7, &copied, -3.0)]);
    let without = Spread::new(&sequences(vec![0, 2, 4], [1, 1]).with_weights(vec![1e-300, 0.0]).unwrap());
    near(&without.variances, &[0.25, 4.0]);
    assert_eq!(without.largest, [2.0, 9.0]);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let (model, sequences) = plane(Covariances::Full(vec![1.0, 0.5, 0.5, 2.0]));
    let prior = NormalPrior { means: vec![0.0; 2], weights: vec![0.0], scales: vec![0.0; 4], degrees: 0.0 };
    let refused = |options: Options| trained(&model, &sequences, &options).unwrap_err();
    let with = |prior| refused(Options { normals: Some(prior), ..Options::default() });
    assert_eq!(
        refused(Options { constraint: Constraint::Spherical, ..Options::default() }),
        "the covariances of the model are not spherical"
    );
    let pseudocounts = Pseudocounts { start: Pseudocount::Each(vec![1.0; 2]), ..Pseudocounts::default() };
    assert_eq!(refused(Options { pseudocounts, ..Options::default() }), "pi has 2 pseudocounts, expected 1");
    assert_eq!(
        refused(Options { pseudocounts: Pseudocounts::equal(-0.5), ..Options::default() }),
        "a pseudocount of pi is -0.5, expected a number of at least 0"
    );
    assert_eq!(
        refused(Options { sticky: f64::INFINITY, ..Options::default() }),
        "a pseudocount of A[i][i] is inf, expected a number of at least 0"
    );
    assert_eq!(with(NormalPrior { means: vec![0.0], ..prior.clone() }), "the prior has 1 means, expected 2");
    assert_eq!(
        with(NormalPrior { weights: vec![f64::NAN], ..prior.clone() }),
        "a weight of the prior is NaN, expected a number of at least 0"
    );
    for scales in [[1.0, 2.0, 2.0, 1.0], [1.0, 0.5, 0.0, 1.0], [1.0, 0.0, 0.0, f64::INFINITY]] {
        let message = with(NormalPrior { scales: scales.to_vec(), ..prior.clone() });
        assert_eq!(message, "a scale of the prior is not positive semidefinite");
    }
    let symbols = Sequences::of_symbols(&[[0]]).unwrap();
    let model = Uniform { states: 1, kind: Kind::Symbols(2), ends: false, seed: 1 }.generate().unwrap();
    let options = Options { normals: Some(prior), slack: Precision::F64.slack(), ..Options::default() };
    assert_eq!(
        trained(&model, &symbols, &options).unwrap_err(),
        "a prior of means and covariances is for models that emit numbers"
    );
}
