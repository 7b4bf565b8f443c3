//! Derivatives of ln P(O) against differences of ln P(O).

use warpkov_hmm::backend::Expected;
use warpkov_hmm::backends::cpu::Exact;
use warpkov_hmm::channels::{Channels, Domain};
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::gradient::{Gradient, NoGradient, gradient};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts};
use warpkov_hmm::options::Precision;
use warpkov_hmm::place::recursions;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::Sequences;
use warpkov_runtime::choose::{DeviceChoice, Place};

use crate::channels::{ALL, case};
use crate::random::Random;

/// Numbers of a parameter, their derivatives, and how they may change.
struct Direction<'r> {
    random: &'r mut Random,
    /// Step along the direction.
    step: f64,
    /// Derivative along the direction.
    slope: f64,
}

impl Direction<'_> {
    fn drawn(&mut self) -> f64 {
        2.0 * self.random.unit() - 1.0
    }

    /// Changes a distribution by factors, and scales it to the sum 1. `slopes` are those of the logarithms.
    fn distribution(&mut self, probs: &mut [&mut f64], slopes: &[f64]) {
        let drawn: Vec<f64> = probs.iter().map(|_| self.drawn()).collect();
        let mean: f64 = probs.iter().zip(&drawn).map(|(p, d)| **p * d).sum();
        self.slope += slopes.iter().zip(&drawn).map(|(slope, d)| slope * (d - mean)).sum::<f64>();
        probs.iter_mut().zip(&drawn).for_each(|(p, d)| **p *= (self.step * d).exp());
        let sum: f64 = probs.iter().map(|p| **p).sum();
        probs.iter_mut().for_each(|p| **p /= sum);
    }

    /// Changes real numbers.
    fn real(&mut self, numbers: &mut [f64], slopes: &[f64]) {
        for (number, slope) in numbers.iter_mut().zip(slopes) {
            let d = self.drawn();
            *number += self.step * d;
            self.slope += slope * d;
        }
    }

    /// Changes positive numbers, each in proportion.
    fn positive(&mut self, numbers: &mut [f64], slopes: &[f64]) {
        for (number, slope) in numbers.iter_mut().zip(slopes) {
            let d = 0.3 * self.drawn() * *number;
            *number += self.step * d;
            self.slope += slope * d;
        }
    }

    /// Changes a symmetric matrix in proportion to its diagonal.
    fn matrix(&mut self, matrix: &mut [f64], slopes: &[f64], d: usize) {
        let scale: Vec<f64> = (0..d).map(|k| matrix[k * (d + 1)].sqrt()).collect();
        for a in 0..d {
            for b in 0..=a {
                let by = 0.1 * self.drawn() * scale[a] * scale[b];
                for at in if a == b { vec![a * d + b] } else { vec![a * d + b, b * d + a] } {
                    matrix[at] += self.step * by;
                    self.slope += slopes[at] * by;
                }
            }
        }
    }

    fn channels(&mut self, channels: &mut Channels, n: usize, found: &Gradient) {
        let shapes: Vec<(Domain, usize)> = channels
            .list
            .iter()
            .flat_map(|channel| channel.parameters(n))
            .map(|parameter| (parameter.domain, parameter.shape.last().copied().unwrap_or(1)))
            .collect();
        for ((numbers, derivative), (domain, last)) in
            channels.numbers_mut().into_iter().zip(&found.emissions).zip(shapes)
        {
            let slopes = &derivative.numbers;
            assert_eq!(numbers.len(), slopes.len(), "{}", derivative.name);
            match domain {
                Domain::Distribution => {
                    for (row, slopes) in numbers.chunks_exact_mut(last).zip(slopes.chunks_exact(last)) {
                        self.distribution(&mut row.iter_mut().collect::<Vec<_>>(), slopes);
                    }
                }
                Domain::Real => self.real(numbers, slopes),
                Domain::Covariance => {
                    let of_state = numbers.chunks_exact_mut(last * last).zip(slopes.chunks_exact(last * last));
                    of_state.for_each(|(matrix, slopes)| self.matrix(matrix, slopes, last));
                }
                // Probabilities far from 1 may grow in proportion.
                _ => self.positive(numbers, slopes),
            }
        }
    }

    fn all(&mut self, mut parts: HmmParts, found: &Gradient) -> HmmParts {
        let n = parts.start.len();
        self.distribution(&mut parts.start.iter_mut().collect::<Vec<_>>(), &found.start);
        for (i, row) in parts.transitions.chunks_exact_mut(n).enumerate() {
            let mut probs: Vec<&mut f64> = row.iter_mut().collect();
            let mut slopes = found.transitions[i * n..][..n].to_vec();
            if let (Some(end), Some(slope)) = (&mut parts.end, &found.end) {
                probs.push(&mut end[i]);
                slopes.push(slope[i]);
            }
            self.distribution(&mut probs, &slopes);
        }
        let emissions = &found.emissions;
        match &mut parts.emissions {
            Emissions::Categorical { symbols, probs } => {
                let v = *symbols as usize;
                for (row, slopes) in probs.chunks_exact_mut(v).zip(emissions[0].numbers.chunks_exact(v)) {
                    self.distribution(&mut row.iter_mut().collect::<Vec<_>>(), slopes);
                }
            }
            Emissions::Gaussian { means, covariances, dimensions } => {
                self.real(means, &emissions[0].numbers);
                let d = *dimensions as usize;
                match covariances {
                    Covariances::Diagonal(variances) => self.positive(variances, &emissions[1].numbers),
                    Covariances::Full(all) => {
                        for (matrix, slopes) in
                            all.chunks_exact_mut(d * d).zip(emissions[1].numbers.chunks_exact(d * d))
                        {
                            self.matrix(matrix, slopes, d);
                        }
                    }
                }
            }
            Emissions::Channels(channels) => self.channels(channels, n, found),
        }
        parts
    }
}

fn which(sequences: &Sequences) -> Vec<u32> {
    (0..sequences.len() as u32).collect()
}

/// Σ w ln P(O).
fn objective(model: &Hmm, sequences: &Sequences) -> f64 {
    let logs = Exact::new(model).log_likelihoods(sequences, &which(sequences));
    logs.iter().enumerate().map(|(m, log)| sequences.weight(m) * log).sum()
}

/// The slope along a random direction, and the difference of ln P(O) there.
fn check(model: &Hmm, sequences: &Sequences, expected: &Expected, seed: u64, name: &str) {
    let found = gradient(model, expected).unwrap();
    let mut slope = 0.0;
    let mut at = |step: f64| {
        let mut direction = Direction { random: &mut Random(seed), step, slope: 0.0 };
        let moved = direction.all(model.clone().into_parts(), &found).validated().unwrap();
        slope = direction.slope;
        objective(&moved, sequences)
    };
    let h = 1e-4;
    // Of order h⁴.
    let difference = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
    let size = slope.abs().max(1e-3 * objective(model, sequences).abs()).max(1.0);
    assert!((slope - difference).abs() <= 1e-6 * size, "{name}, seed {seed}: {slope}, expected {difference}");
}

#[test]
fn derivatives_of_symbols_and_vectors_are_differences() {
    for seed in 0..30_u64 {
        for (kind, name) in [
            (Kind::Symbols(4), "symbols"),
            (Kind::Vectors { dimensions: 2, full: false }, "diagonal"),
            (Kind::Vectors { dimensions: 3, full: true }, "full"),
        ] {
            let states = 1 + seed as u32 % 4;
            let model = Uniform { states, kind, ends: seed % 2 == 0, seed }.generate().unwrap();
            let sequences = sample(&model, 3, Some(8), seed).unwrap().sequences;
            let sequences = sequences.with_weights(vec![1.0, 0.25, 3.0]).unwrap();
            check(&model, &sequences, &Exact::new(&model).expect(&sequences, &which(&sequences)), seed, name);
        }
    }
}

/// Of each family, with missing components.
#[test]
fn derivatives_of_channels_are_differences() {
    for (index, name) in ALL[..12].iter().enumerate() {
        for seed in 0..12_u64 {
            let (model, sequences) =
                case(1000 * seed + index as u64, 1 + seed as usize % 3, &[name, "gamma"], &[9, 1, 5]);
            check(&model, &sequences, &Exact::new(&model).expect(&sequences, &which(&sequences)), seed, name);
        }
    }
}

/// The counts of every backend have the same gradient.
#[test]
fn devices_have_the_same_gradient() {
    let (model, sequences) = case(5, 3, &["poisson", "gaussian"], &[9, 14]);
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        let place = Place::open(device, None).unwrap().0;
        let mut all = recursions(&place, &sequences, Precision::F64, Default::default()).unwrap();
        all.set_models(std::slice::from_ref(&model)).unwrap();
        check(&model, &sequences, &all.expect().unwrap()[0], 1, "device");
    }
}

#[test]
fn what_has_no_gradient_says_so() {
    let (model, sequences) = case(3, 2, &["poisson", "Rayleigh"], &[4]);
    let expected = Exact::new(&model).expect(&sequences, &[0]);
    assert_eq!(gradient(&model, &expected), Err(NoGradient::Code(1)));
}
