//! Training: the likelihood rises, densities and means agree with their formulas, and samples have the distribution of the model.

use std::ops::ControlFlow;

use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::generate::{Kind, LeftRight, Uniform, restart};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{FLOOR, Options, Pseudocounts};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_hmm::train::{Status, aic, bic, train};

use super::common::{all, close, gaussian, numbers, trained, without_ends};

#[test]
fn likelihood_rises_in_every_step_of_500_random_models() {
    for seed in 0..500 {
        let states = 1 + (seed % 6) as u32;
        let kind = match seed % 4 {
            0 | 1 => Kind::Symbols(2 + (seed % 5) as u32),
            2 => Kind::Vectors { dimensions: 1 + (seed % 3) as u32, full: false },
            _ => Kind::Vectors { dimensions: 1 + (seed % 3) as u32, full: true },
        };
        let ends = seed % 8 > 4;
        let source = Uniform { states: states + 1, kind, ends, seed }.generate().unwrap();
        let sequences = sample(&source, 5, Some(12), seed).unwrap().sequences;
        let model = Uniform { states, kind, ends, seed: seed + 1000 }.generate().unwrap();
        let prior = if seed % 3 == 0 { 0.5 } else { 0.0 };
        let pseudocounts = Pseudocounts::equal(prior);
        let options = Options { iterations: 25, tolerance: 0.0, pseudocounts, ..Options::default() };
        let trained = trained(&model, &sequences, &options);
        let run = trained.best();
        assert!(run.objectives.len() >= 2);
        for pair in run.objectives.windows(2) {
            // The condition number of a covariance is limited by the floor only, and densities lose the corresponding
            // digits.
            let rounding = if matches!(kind, Kind::Vectors { full: true, .. }) { f64::EPSILON / FLOOR } else { 1e-9 };
            assert!(pair[1] >= pair[0] - rounding * pair[0].abs(), "seed {seed}: {pair:?}");
        }
        run.model.clone().into_parts().validated().unwrap();
    }
}

#[test]
fn zeros_stay_zero_and_restarts_find_more() {
    let source = LeftRight { states: 4, jump: 1, kind: Kind::Symbols(6), ends: true, seed: 1 }.generate().unwrap();
    let sequences = sample(&source, 40, Some(60), 2).unwrap().sequences;
    let restarts: Vec<Hmm> = (0..6).map(|stream| restart(&source, &sequences, 5, stream)).collect();
    let mut batch = Batch::<f64>::new(&sequences);
    let options = Options { iterations: 500, tolerance: 1e-9, ..Options::default() };
    let trained = train(&mut batch, restarts, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((trained.runs.len(), trained.status), (6, Status::Converged));
    for run in &trained.runs {
        assert!(run.objective() <= trained.best().objective());
        let zeros = |model: &Hmm| model.transitions().iter().map(|p| *p == 0.0).collect::<Vec<_>>();
        assert!(zeros(&run.model).iter().zip(zeros(&source)).all(|(own, source)| *own || !source));
        assert_eq!(run.model.start(), [1.0, 0.0, 0.0, 0.0]);
    }
    let best = trained.best();
    assert!(best.log_likelihood() > all(&source, &sequences).logs.iter().sum::<f64>());
    // Free parameters: 3 · 1 of A, 1 of the end, 4 · 5 of B.
    assert_eq!(source.parameters(), 24);
    close(&[aic(source.parameters(), -100.0)], &[248.0], 1e-15);
    close(&[bic(source.parameters(), &sequences, -100.0)], &[24.0 * (sequences.steps() as f64).ln() + 200.0], 1e-15);
}

#[test]
fn gaussian_densities_agree_with_the_formula() {
    // One state: ln 𝒩((1, 2); (0, 0), Σ) with Σ = ((2, 1), (1, 2)): |Σ| = 3, xᵀ Σ⁻¹ x = (2 − 4 + 8) / 3 = 2.
    let model = |covariances| {
        let emissions = Emissions::Gaussian { dimensions: 2, means: vec![0.0, 0.0], covariances };
        HmmParts { start: vec![1.0], transitions: vec![1.0], end: None, emissions, names: Names::default() }
            .validated()
            .unwrap()
    };
    let observations = Observations::Vectors { dimensions: 2, values: vec![1.0, 2.0] };
    let sequences = Sequences::new(vec![0, 1], observations).unwrap();
    let log_two_pi = std::f64::consts::TAU.ln();
    let full = all(&model(Covariances::Full(vec![2.0, 1.0, 1.0, 2.0])), &sequences);
    close(&full.logs, &[-log_two_pi - 0.5 * 3f64.ln() - 1.0], 1e-15);
    let diagonal = all(&model(Covariances::Diagonal(vec![2.0, 0.5])), &sequences);
    close(&diagonal.logs, &[-log_two_pi - 0.25 - 4.0], 1e-15);
    assert_eq!(diagonal.decoded.scores, diagonal.logs);
}

#[test]
fn gaussian_training_finds_means_far_from_zero() {
    // Two clusters around 1e8 ± 3 with variance 1: sums of squares about 0 would lose all digits.
    let mut values = Vec::new();
    for k in 0..400 {
        let spread = [-1.0, 1.0][k / 2 % 2];
        values.push(1e8 + [-3.0, 3.0][k % 2] + spread);
    }
    let observations = Observations::Vectors { dimensions: 1, values };
    let sequences = Sequences::new(vec![0, 400], observations).unwrap();
    let emissions = Emissions::Gaussian {
        dimensions: 1,
        means: vec![1e8 - 1.0, 1e8 + 1.0],
        covariances: Covariances::Diagonal(vec![1.0, 1.0]),
    };
    let (start, transitions) = (vec![0.5, 0.5], vec![0.5; 4]);
    let model = HmmParts { start, transitions, end: None, emissions, names: Names::default() }.validated().unwrap();
    let trained = trained(&model, &sequences, &Options { tolerance: 1e-12, ..Options::default() });
    let Emissions::Gaussian { means, covariances: Covariances::Diagonal(variances), .. } =
        trained.best().model.emissions()
    else {
        panic!("diagonal")
    };
    close(&[means[0] - 1e8, means[1] - 1e8], &[-3.0, 3.0], 1e-4);
    close(variances, &[1.0, 1.0], 1e-3);
    close(trained.best().model.transitions(), &[0.0, 1.0, 1.0, 0.0], 1e-4);
}

#[test]
fn training_from_random_means_increases_the_likelihood() {
    let mut random = crate::wide::Random(7);
    for run in 0..160 {
        let n = 2 + run % 4;
        let spread = [1.0, 10.0, 100.0, 1000.0][run / 4 % 4];
        let centres: Vec<f64> = (0..n).map(|_| spread * random.unit()).collect();
        let sequences: Vec<Vec<f64>> = (0..4)
            .map(|_| {
                let mut state = 0;
                let mut draw = || {
                    state = if random.unit() < 0.1 { random.below(n) } else { state };
                    centres[state] + random.unit() - 0.5
                };
                (0..60).map(|_| draw()).collect()
            })
            .collect();
        let slices: Vec<&[f64]> = sequences.iter().map(Vec::as_slice).collect();
        let data = numbers(&slices);
        let means: Vec<f64> = (0..n).map(|_| spread * (3.0 * random.unit() - 1.0)).collect();
        // Left-right, and dense.
        let transitions: Vec<f64> = match run % 2 {
            0 => vec![1.0 / n as f64; n * n],
            _ => (0..n * n)
                .map(|at| match (at / n, at % n) {
                    (i, j) if i + 1 == n => f64::from(u8::from(i == j)),
                    (i, j) => {
                        if j == i || j == i + 1 {
                            0.5
                        } else {
                            0.0
                        }
                    }
                })
                .collect(),
        };
        let model = gaussian(&vec![1.0 / n as f64; n], &transitions, &means, &vec![1.0; n]);
        let first: f64 = (0..4).map(|sequence| crate::wide::truth(&model, &data, sequence).log).sum();
        let trained = trained(&model, &data, &Options { iterations: 30, ..Options::default() });
        let logs = &trained.best().log_likelihoods;
        close(&logs[..1], &[first], 1e-12);
        assert!(logs.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9 * pair[0].abs()), "{logs:?}");
        // The results for the trained model agree with the truth.
        let last: f64 = (0..4).map(|sequence| crate::wide::truth(&trained.best().model, &data, sequence).log).sum();
        close(&logs[logs.len() - 1..], &[last], 1e-9);
    }
}

#[test]
fn samples_have_the_distribution_of_the_model() {
    let model = Uniform { states: 3, kind: Kind::Symbols(4), ends: true, seed: 4 }.generate().unwrap();
    let drawn = sample(&model, 20_000, None, 1).unwrap();
    assert_eq!(drawn.sequences.len(), 20_000);
    let count = |state: u32| drawn.states.iter().filter(|&&s| s == state).count() as f64;
    // Each visit of a state ends with the same probability, so the count is binomial. It deviates by at most 4 σ,
    // except in 1 of 10⁴ tests.
    let last = |state: u32| {
        drawn.sequences.offsets()[1..].iter().filter(|end| drawn.states[**end as usize - 1] == state).count()
    };
    for state in 0..3 {
        let (visits, p) = (count(state), model.end().unwrap()[state as usize]);
        let deviation = (last(state) as f64 - visits * p) / (visits * p * (1.0 - p)).sqrt();
        assert!(deviation.abs() < 4.0, "state {state}: {deviation}");
    }
    assert_eq!(sample(&model, 3, None, 1).unwrap().sequences.range(2), drawn.sequences.range(2));
    let endless = without_ends(&model);
    assert_eq!(
        sample(&endless, 1, None, 1).unwrap_err().to_string(),
        "the model has no end probabilities: expected a length"
    );
}
