//! The M step of the Baum-Welch algorithm: parameters that maximise the expected log-likelihood given the expected
//! counts.
//!
//! πᵢ ∝ Σ γ₁(i); Aᵢⱼ ∝ Σₜ ξₜ(i, j) over t < T, normalised together with endᵢ ∝ Σ γ_T(i) where the model has end
//! probabilities; Bⱼₒ ∝ Σ γₜ(j) over the t with oₜ = o; μⱼ and Σⱼ are moments weighted by γ. Pseudocounts c, a
//! Dirichlet prior, are added to the counts, and a [sticky](super::options::Options::sticky) one to those of Aᵢᵢ. Zeros
//! stay zeros, with pseudocounts too. A row without counts keeps its parameters. A [prior](super::options::NormalPrior) of means and covariances adds to the moments. Parameters may be
//! [frozen](super::options::Frozen), covariances [constrained](Constraint), and emissions
//! and transitions [tied](super::options::Options::ties). Missing components of vectors have
//! contributed their expectations to the moments, so that the step maximises the likelihood of the observed ones.
//!
//! Variances have a floor, because the likelihood is unbounded as a state collapses onto one observation. The floor
//! f(k) of dimension k is a fraction of the variance of all observations in that dimension, by the weights of their
//! sequences. With F = diag(f), every
//! eigenvalue of F⁻½ Σⱼ F⁻½ must be at least b = 1. If the previous Σⱼ has a smaller eigenvalue, b is that eigenvalue
//! instead, so that the previous model satisfies the constraint and the likelihood never decreases. Raising the
//! eigenvalues below b to b gives the constrained maximiser.

use std::ops::Range;

use rayon::prelude::*;

use super::backend::{Expected, Statistics};
use super::channels::Channels;
use super::covariances::least_variance;
use super::durations::Segments;
use super::model::{Covariances, Emissions, Hmm, HmmParts};
use super::options::{Constraint, Options, Pseudocounts};
use super::sequences::{Observations, Sequences};
use super::ties::Moves;

/// The scale of the observed vectors in each dimension. Observations count by the [weights](Sequences::weights) of their sequences; those
/// of weight 0 do not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// The variance of all observed numbers, D numbers; 0 for a dimension without any.
    pub variances: Vec<f64>,
    /// The largest absolute value, D numbers.
    pub largest: Vec<f64>,
}

impl Spread {
    /// The spread of all observations together. D is 0 for symbols.
    #[must_use]
    pub fn new(sequences: &Sequences) -> Self {
        let Observations::Vectors { dimensions, values } = sequences.observations() else { return Self::default() };
        let d = *dimensions as usize;
        // Weights in a unit that keeps their sum from overflow.
        let weight = |sequence: usize| sequences.weight(sequence) / sequences.unit();
        let rows = || {
            let weighed = (0..sequences.len()).filter(move |&sequence| weight(sequence) > 0.0);
            weighed.flat_map(move |sequence| {
                let range = sequences.range(sequence);
                values[range.start * d..range.end * d].chunks_exact(d).map(move |row| (row, weight(sequence)))
            })
        };
        let (mut least, mut most) = (vec![f64::INFINITY; d], vec![f64::NEG_INFINITY; d]);
        let [mut counts, mut means, mut variances] = [(); 3].map(|()| vec![0.0; d]);
        for (row, weight) in rows() {
            (0..d).filter(|&k| !row[k].is_nan()).for_each(|k| counts[k] += weight);
            least.iter_mut().zip(row).for_each(|(least, x)| *least = least.min(*x));
            most.iter_mut().zip(row).for_each(|(most, x)| *most = most.max(*x));
        }
        // No number, ±∞, is as no difference: 0.
        let most_of = |(least, most): (&f64, &f64)| if least <= most { least.abs().max(most.abs()) } else { 0.0 };
        let largest: Vec<f64> = least.iter().zip(&most).map(most_of).collect();
        // Scaling by the largest value keeps squares from overflow and underflow.
        let units: Vec<f64> = largest.iter().map(|&most| if most > 0.0 { most } else { 1.0 }).collect();
        for (row, weight) in rows() {
            (0..d).filter(|&k| !row[k].is_nan()).for_each(|k| means[k] += weight * (row[k] / units[k]) / counts[k]);
        }
        for (row, weight) in rows() {
            let observed = (0..d).filter(|&k| !row[k].is_nan());
            observed.for_each(|k| variances[k] += weight * (row[k] / units[k] - means[k]).powi(2) / counts[k]);
        }
        for (k, variance) in variances.iter_mut().enumerate() {
            // Equal values have variance 0, even where their computed mean is rounded.
            *variance = if least[k] < most[k] { *variance * units[k] * units[k] } else { 0.0 };
        }
        Self { variances, largest }
    }

    /// The variance floor of each dimension, D numbers: `fraction` times the variance of all observations, and at least
    /// the variance that rounding the observations causes. Where all observations are equal, their square replaces the
    /// variance; where all are 0, 1 replaces it.
    #[must_use]
    pub fn floors(&self, fraction: f64) -> Vec<f64> {
        let floor = |(&variance, &largest): (&f64, &f64)| {
            let rounding = (f64::EPSILON * largest).powi(2);
            let scale = match variance > 0.0 {
                true => variance,
                false if largest > 0.0 => largest * largest,
                false => 1.0,
            };
            (fraction * scale).max(rounding).clamp(f64::MIN_POSITIVE, f64::MAX)
        };
        self.variances.iter().zip(&self.largest).map(floor).collect()
    }
}

/// Number of states and variances at the variance floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Held {
    /// States with at least one variance at the floor.
    pub states: usize,
    /// Variances at the floor, over all states; eigenvalues for full covariances.
    pub variances: usize,
}

impl Held {
    /// Counts the variances of a trained model at `floors`, D numbers.
    #[must_use]
    pub fn new(model: &Hmm, floors: &[f64]) -> Self {
        let Emissions::Gaussian { covariances, .. } = model.emissions() else { return Self::default() };
        let d = floors.len();
        let count = |scaled: &[f64]| scaled.iter().filter(|&&part| part <= AT_FLOOR).count();
        let counts: Vec<usize> = match covariances {
            Covariances::Diagonal(variances) => {
                let scaled = |row: &[f64]| -> Vec<f64> { row.iter().zip(floors).map(|(x, floor)| x / floor).collect() };
                variances.chunks_exact(d).map(|row| count(&scaled(row))).collect()
            }
            Covariances::Full(matrices) => {
                let eigenvalues = |matrix: &[f64]| Scaled::new(matrix, floors).eigenvalues();
                matrices.chunks_exact(d * d).map(|matrix| count(&eigenvalues(matrix))).collect()
            }
        };
        Self { states: counts.iter().filter(|count| **count > 0).count(), variances: counts.iter().sum() }
    }

    /// Says so of a model of `all` states whose floor is `floor`, if there are any.
    pub(crate) fn note(self, all: u32, floor: f64) -> Option<String> {
        let Self { states, variances } = self;
        let held =
            || format!("the floor holds variances of {states} of {all} states, {variances} in all (floor {floor:e})");
        (states > 0).then(held)
    }
}

/// A variance is at the floor up to this multiple of it, which allows for rounding of eigenvalues.
const AT_FLOOR: f64 = 1.001;

/// Rounding error of Σγ (x − μ)² / Σγ − s² relative to s², where s is the shift from μ to the new mean.
const ROUNDING: f64 = 1e-12;

/// Least expected count for which a prior determines covariances. With fewer they stay: Ψ / 0 is no covariance.
const FEWEST: f64 = 1e-5;

/// The M step, in place. `options` [fit](Options::check) the model; `floors` holds the variance floor of each
/// dimension, D numbers.
pub(crate) fn maximise(model: &mut Hmm, expected: &Expected, options: &Options, floors: &[f64]) {
    model.update_segments(|parts, segments| {
        let Expected { start, transitions, end, .. } = expected;
        let counts = [&start[..], transitions, end];
        match segments {
            Some(segments) => {
                maximise_segments(segments, counts, options);
                parts.take_chain(segments);
            }
            None => {
                let chain = Moves { transitions: &mut parts.transitions, end: parts.end.as_deref_mut() };
                maximise_chain(&mut parts.start, chain, counts, options);
            }
        }
        maximise_emissions(parts, expected, options, floors);
    });
}

/// The M step of π, A and end probabilities. Counts are those of starts, transitions and ends.
fn maximise_chain(start: &mut [f64], mut chain: Moves, [starts, moves, ends]: [&[f64]; 3], options: &Options) {
    let Pseudocounts { start: of_starts, transitions: of_moves, .. } = &options.pseudocounts;
    let (n, frozen) = (start.len(), options.frozen);
    if !frozen.start {
        normalise(start, starts, |i| of_starts.at(i), None);
    }
    if frozen.transitions {
        return;
    }
    let prior = |at: usize| options.of_transition(at, n);
    let tied = chain.maximise(&options.tied_transitions, |at| moves[at] + prior(at), |i| ends[i] + of_moves.of_ends());
    let Moves { transitions, mut end } = chain;
    let rows = transitions.chunks_exact_mut(n).zip(moves.chunks_exact(n)).enumerate();
    for (i, (row, counts)) in rows.filter(|(i, _)| !tied.get(*i).is_some_and(|tied| *tied)) {
        let end = end.as_deref_mut().map(|end| (&mut end[i], ends[i], of_moves.of_ends()));
        normalise(row, counts, |j| prior(i * n + j), end);
    }
}

/// The M step of the chain of a semi-Markov model. Counts of the expansion are summed over the steps of visits.
fn maximise_segments(segments: &mut Segments, counts: [&[f64]; 3], options: &Options) {
    let visited = segments.visited(counts);
    let counts = [&visited.start[..], &visited.led, &visited.ended];
    let Segments { start, transitions, end, .. } = segments;
    maximise_chain(start, Moves { transitions, end: end.as_deref_mut() }, counts, options);
    if options.frozen.transitions {
        return;
    }
    for (duration, counts) in segments.durations.iter_mut().zip(&visited.steps) {
        if let Some(duration) = duration {
            duration.maximise(counts);
        }
    }
}

fn maximise_emissions(model: &mut HmmParts, expected: &Expected, options: &Options, floors: &[f64]) {
    let shared = (!options.ties.is_empty()).then(|| {
        // Equal statistics lead to equal emissions. The mean, not the sum, so that all states together weigh as before.
        let mut shared = expected.clone();
        shared.share(&options.ties);
        shared
    });
    let expected = shared.as_ref().unwrap_or(expected);
    let (n, frozen, emissions) = (model.start.len(), options.frozen, &options.pseudocounts.emissions);
    match (&mut model.emissions, &expected.emissions) {
        (Emissions::Categorical { symbols, probs }, Statistics::Categorical(counts)) if !frozen.emissions => {
            let v = *symbols as usize;
            for (state, (row, counts)) in probs.chunks_exact_mut(v).zip(counts.chunks_exact(v)).enumerate() {
                normalise(row, counts, |o| emissions.at(state * v + o), None);
            }
        }
        (Emissions::Gaussian { means, covariances, .. }, Statistics::Gaussian { weights, sums, squares }) => {
            Moments { d: means.len() / n, weights, sums, squares }.maximise(means, covariances, options, floors);
        }
        (Emissions::Channels(channels), Statistics::Channels(sums)) if !frozen.emissions => {
            maximise_channels(channels, n, sums, options, floors);
        }
        // `Expected::zero` gives the statistics the model's kind.
        _ => {}
    }
}

/// The M step of all channels of `n` states, from their sums.
pub(crate) fn maximise_channels(channels: &mut Channels, n: usize, sums: &[f64], options: &Options, floors: &[f64]) {
    let mut first = 1;
    for channel in &mut channels.list {
        let (sizes, width) = (channel.sizes(n), channel.sums(n));
        let floors: Vec<f64> = channel.columns.iter().map(|&column| floors[column as usize]).collect();
        let of_state = |state: usize| &sums[state * (sums.len() / n) + first..][..width];
        match channel.family.estimated_mut() {
            Ok(family) => (0..n).for_each(|state| family.maximise(sizes, state, of_state(state), &floors)),
            Err(gaussian) => {
                let d = sizes.components;
                let part = |from: usize, length: usize| -> Vec<f64> {
                    (0..n).flat_map(|state| &of_state(state)[from..from + length]).copied().collect()
                };
                let (weights, sums, squares) = (part(0, 1), part(1, d), part(1 + d, width - 1 - d));
                Moments { d, weights: &weights, sums: &sums, squares: &squares }.maximise(
                    &mut gaussian.means,
                    &mut gaussian.covariances,
                    options,
                    &floors,
                );
            }
        }
        first += width;
    }
}

/// [`Statistics::Gaussian`], the moments about the previous means.
struct Moments<'e> {
    /// D.
    d: usize,
    weights: &'e [f64],
    sums: &'e [f64],
    squares: &'e [f64],
}

impl Moments<'_> {
    /// The M step of normal densities.
    fn maximise(&self, means: &mut [f64], covariances: &mut Covariances, options: &Options, floors: &[f64]) {
        let shifts = self.shifts(means, options);
        means.iter_mut().zip(&shifts).for_each(|(mean, shift)| *mean += shift);
        if !options.frozen.covariances {
            self.covariances(means, &shifts, covariances, options, floors);
        }
    }

    /// Σ γ (x − μ) / Σ γ in dimension `at` % D of state `at` / D; 0 for an unvisited state.
    fn centre(&self, at: usize) -> f64 {
        let weight = self.weights[at / self.d];
        if weight >= f64::MIN_POSITIVE { self.sums[at] / weight } else { 0.0 }
    }

    /// Changes of the means, N × D: from μ to (Σ γ x + w m) / (Σ γ + w). Unvisited states without a prior keep theirs.
    fn shifts(&self, means: &[f64], options: &Options) -> Vec<f64> {
        let shift = |at: usize| {
            let centre = self.centre(at);
            let Some(prior) = &options.normals else { return centre };
            let (state, pull) = (at / self.d, prior.means[at] - means[at]);
            let total = self.weights[state] + prior.weights[state];
            match total >= f64::MIN_POSITIVE {
                true => self.weights[state] / total * centre + prior.weights[state] / total * pull,
                false => 0.0,
            }
        };
        match options.frozen.emissions {
            true => vec![0.0; means.len()],
            false => (0..means.len()).map(shift).collect(),
        }
    }

    /// The covariances about the new means, in place.
    ///
    /// With S = Σ γ (x − μ)(x − μ)ᵀ + w (μ − m)(μ − m)ᵀ + Ψ, the objective is −½ (Σγ + ν) ln |Σ| − ½ tr(S Σ⁻¹), and
    /// S / (Σγ + ν) maximises it. Tied covariances divide the sums over all states. A variance of all dimensions is
    /// the mean of the diagonal.
    fn covariances(
        &self,
        means: &[f64],
        shifts: &[f64],
        covariances: &mut Covariances,
        options: &Options,
        floors: &[f64],
    ) {
        let (d, n, width) = (self.d, self.weights.len(), self.squares.len() / self.weights.len());
        let (prior, constraint) = (options.normals.as_ref(), options.constraint);
        let least = if prior.is_some() { FEWEST } else { f64::MIN_POSITIVE };
        let full = matches!(covariances, Covariances::Full(_));
        let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = covariances;
        // Without Ψ, divided by a number of observations.
        let scatter = |state: usize, total: f64| {
            let weight = self.weights[state];
            move |at: usize| {
                let (a, b) =
                    if full { (state * d + at / d, state * d + at % d) } else { (state * d + at, state * d + at) };
                let mut found = 0.0;
                if weight >= f64::MIN_POSITIVE {
                    let (centre, other) = (self.centre(a), self.centre(b));
                    let about = (centre - shifts[a]) * (other - shifts[b]);
                    found += weight / total * (self.squares[state * width + at] / weight - centre * other + about);
                }
                if let Some(prior) = prior {
                    found += prior.weights[state] / total * (means[a] - prior.means[a]) * (means[b] - prior.means[b]);
                }
                found
            }
        };
        let of_states = |states: &Range<usize>| -> Option<Vec<f64>> {
            let total = self.weights[states.clone()].iter().sum::<f64>() + prior.map_or(0.0, |prior| prior.degrees);
            if total < least {
                return None;
            }
            let first = states.start * width;
            let mut found = vec![0.0; width];
            for state in states.clone() {
                let scatter = scatter(state, total);
                found.iter_mut().enumerate().for_each(|(at, entry)| *entry += scatter(at));
            }
            if let Some(prior) = prior {
                found.iter_mut().zip(&prior.scales[first..]).for_each(|(entry, scale)| *entry += scale / total);
            }
            let of_dimension = |k: usize| states.clone().map(|state| shifts[state * d + k].abs()).fold(0.0, f64::max);
            let shift: Vec<f64> = (0..d).map(of_dimension).collect();
            let before = &numbers[first..first + width];
            Some(match (constraint, full) {
                (Constraint::Spherical, _) => equalised(found, before, floors, &shift),
                (_, true) => raised(found, before, floors, &shift),
                (_, false) => raised_variances(found, before, floors, &shift),
            })
        };
        let groups: Vec<Range<usize>> = match constraint {
            Constraint::Tied => std::iter::once(0..n).collect(),
            _ => (0..n).map(|state| state..state + 1).collect(),
        };
        let found: Vec<_> = match full {
            true => groups.par_iter().map(of_states).collect(),
            false => groups.iter().map(of_states).collect(),
        };
        for (states, found) in groups.into_iter().zip(found) {
            let Some(found) = found else { continue };
            let entries = &mut numbers[states.start * width..states.end * width];
            entries.chunks_exact_mut(width).for_each(|entries| entries.copy_from_slice(&found));
        }
    }
}

/// The variances `found`, raised to the floor.
fn raised_variances(mut found: Vec<f64>, before: &[f64], floors: &[f64], shift: &[f64]) -> Vec<f64> {
    for (k, variance) in found.iter_mut().enumerate() {
        *variance = variance.max(least_variance(before[k], floors[k], shift[k]));
    }
    found
}

/// The mean of the variances, raised to the floor of each dimension, in place of each variance of the diagonal or of the
/// matrix `found`. Other entries are 0.
fn equalised(mut found: Vec<f64>, before: &[f64], floors: &[f64], shift: &[f64]) -> Vec<f64> {
    let d = floors.len();
    let step = if found.len() > d { d + 1 } else { 1 };
    let mean = found.iter().step_by(step).map(|variance| variance / d as f64).sum::<f64>();
    let bounds = floors.iter().zip(shift).map(|(&floor, &shift)| least_variance(before[0], floor, shift));
    let variance = bounds.fold(mean, f64::max);
    found.iter_mut().enumerate().for_each(|(at, entry)| *entry = if at % step == 0 { variance } else { 0.0 });
    found
}

/// The covariance matrix `found` with its eigenvalues raised to the floor. `before` is the previous covariance matrix;
/// `shift` is the change of the mean.
fn raised(found: Vec<f64>, before: &[f64], floors: &[f64], shift: &[f64]) -> Vec<f64> {
    let bounds = |part: f64| -> Vec<f64> {
        let bound = |(floor, shift): (&f64, &f64)| (part * floor).max(ROUNDING * shift * shift);
        floors.iter().zip(shift).map(bound).collect()
    };
    let least = |eigenvalues: Vec<f64>| eigenvalues.into_iter().fold(f64::INFINITY, f64::min);
    // A matrix above the floor is returned unchanged, without rounding.
    if least(Scaled::new(&found, &bounds(1.0)).eigenvalues()) >= 1.0 {
        return found;
    }
    let part = least(Scaled::new(before, floors).eigenvalues());
    Scaled::new(&found, &bounds(if part > 0.0 { part.min(1.0) } else { 1.0 })).raised()
}

/// Sets `probs`, and the end probability, in proportion to their counts and pseudocounts. Zeros stay zeros. Without
/// counts nothing changes. `end` is the end probability, its count and its pseudocount.
fn normalise(probs: &mut [f64], counts: &[f64], pseudocount: impl Fn(usize) -> f64, end: Option<(&mut f64, f64, f64)>) {
    let count = |prob: f64, count: f64, pseudocount: f64| if prob > 0.0 { count + pseudocount } else { 0.0 };
    let last = end.as_ref().map_or(0.0, |(prob, ended, pseudocount)| count(**prob, *ended, *pseudocount));
    let of = |at: usize, prob: f64| count(prob, counts[at], pseudocount(at));
    let total = probs.iter().enumerate().map(|(at, &prob)| of(at, prob)).sum::<f64>() + last;
    if total < f64::MIN_POSITIVE {
        return;
    }
    probs.iter_mut().enumerate().for_each(|(at, prob)| *prob = of(at, *prob) / total);
    if let Some((prob, ..)) = end {
        *prob = last / total;
    }
}

/// Eigendecomposition B⁻½ Σ B⁻½ = V Λ Vᵀ of a symmetric matrix Σ scaled by a diagonal matrix B, by Jacobi rotations.
struct Scaled {
    /// Square roots of the diagonal of B, D.
    roots: Vec<f64>,
    /// D × D, with Λ on its diagonal.
    a: Vec<f64>,
    /// V, D × D.
    v: Vec<f64>,
}

impl Scaled {
    fn new(matrix: &[f64], bounds: &[f64]) -> Self {
        let d = bounds.len();
        let roots: Vec<f64> = bounds.iter().map(|bound| bound.sqrt()).collect();
        let mut a: Vec<f64> = (0..d * d).map(|at| matrix[at] / roots[at / d] / roots[at % d]).collect();
        let mut v = vec![0.0; d * d];
        (0..d).for_each(|i| v[i * d + i] = 1.0);
        let largest = |numbers: &mut dyn Iterator<Item = f64>| numbers.fold(0.0, |most: f64, x| most.max(x.abs()));
        let norm = largest(&mut a.iter().copied());
        // Convergence is quadratic; the bound is never reached in practice.
        for _ in 0..50 {
            let off = largest(&mut (0..d * d).filter(|at| at / d != at % d).map(|at| a[at]));
            if off <= f64::EPSILON * norm {
                break;
            }
            for p in 0..d {
                for q in p + 1..d {
                    if a[p * d + q] != 0.0 {
                        rotate(&mut a, &mut v, d, p, q);
                    }
                }
            }
        }
        Self { roots, a, v }
    }

    fn eigenvalues(&self) -> Vec<f64> {
        let d = self.roots.len();
        (0..d).map(|k| self.a[k * d + k]).collect()
    }

    /// Σ with every eigenvalue in Λ below 1 raised to 1.
    fn raised(&self) -> Vec<f64> {
        let (d, Self { roots, v, .. }) = (self.roots.len(), self);
        let eigenvalues: Vec<f64> = self.eigenvalues().into_iter().map(|lambda| lambda.max(1.0)).collect();
        let mut matrix = vec![0.0; d * d];
        for i in 0..d {
            for j in 0..=i {
                let sum: f64 = (0..d).map(|k| v[i * d + k] * eigenvalues[k] * v[j * d + k]).sum();
                let entry = sum * roots[i] * roots[j];
                (matrix[i * d + j], matrix[j * d + i]) = (entry, entry);
            }
        }
        matrix
    }
}

/// Makes a(p, q) zero (Golub and Van Loan, *Matrix Computations*, 8.5).
fn rotate(a: &mut [f64], v: &mut [f64], d: usize, p: usize, q: usize) {
    let tau = (a[q * d + q] - a[p * d + p]) / (2.0 * a[p * d + q]);
    let t = tau.signum() / (tau.abs() + tau.hypot(1.0));
    let c = 1.0 / t.hypot(1.0);
    let s = t * c;
    for k in 0..d {
        let (x, y) = (a[k * d + p], a[k * d + q]);
        (a[k * d + p], a[k * d + q]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..d {
        let (x, y) = (a[p * d + k], a[q * d + k]);
        (a[p * d + k], a[q * d + k]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..d {
        let (x, y) = (v[k * d + p], v[k * d + q]);
        (v[k * d + p], v[k * d + q]) = (c * x - s * y, s * x + c * y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_are_raised_to_the_floor() {
        let close = |found: &[f64], expected: [f64; 4], unit: f64| {
            let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-14 * unit);
            assert!(near, "{found:?}, expected {expected:?}");
        };
        let given = [9.0, 0.0, 0.0, 9.0];
        for unit in [1e-12, 1.0, 1e12] {
            // Eigenvalues 3 and −1 of (1, 1)/√2 and (1, −1)/√2.
            let matrix = vec![unit, 2.0 * unit, 2.0 * unit, unit];
            let before = given.map(|x| x * unit);
            let found = raised(matrix.clone(), &before, &[unit; 2], &[0.0; 2]);
            close(&found, [2.0 * unit, unit, unit, 2.0 * unit], unit);
            assert_eq!(raised(found.clone(), &before, &[0.5 * unit; 2], &[0.0; 2]), found);
            // A previous variance below the floor lowers the bound, so that the previous model stays feasible.
            let small = given.map(|x| x * unit / 18.0);
            close(&raised(matrix, &small, &[unit; 2], &[0.0; 2]), [1.75, 1.25, 1.25, 1.75].map(|x| x * unit), unit);
        }
        // Dimensions of very different scales: eigenvalues are taken in units of the floors.
        let found = raised(vec![1e-12, 2.0, 2.0, 1e12], &[9e-12, 0.0, 0.0, 9e12], &[1e-12, 1e12], &[0.0; 2]);
        for (found, expected) in found.iter().zip([2e-12, 1.0, 1.0, 2e12]) {
            assert!((found / expected - 1.0).abs() < 1e-14, "{found:?}");
        }
    }

    #[test]
    fn floors_scale_with_what_was_observed() {
        for unit in [1e-170, 1e-12, 1.0, 1e12, 1e150] {
            let values: Vec<f64> = [1.0, 0.7, 2.0, 0.7, 3.0, 0.7].iter().map(|x| x * unit).collect();
            let observations = Observations::Vectors { dimensions: 2, values };
            let spread = Spread::new(&Sequences::new(vec![0, 3], observations).unwrap());
            let floors = spread.floors(1e-6);
            let expected = [2.0 / 3.0, 0.49].map(|x| (1e-6 * x * unit * unit).max(f64::MIN_POSITIVE));
            let near = floors.iter().zip(expected).all(|(found, expected)| (found / expected - 1.0).abs() < 1e-12);
            assert!(near, "{floors:?} {expected:?}");
        }
        let zero = Observations::Vectors { dimensions: 1, values: vec![0.0; 3] };
        assert_eq!(Spread::new(&Sequences::new(vec![0, 3], zero).unwrap()).floors(1e-6), [1e-6]);
    }
}
