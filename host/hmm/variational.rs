//! Variational Bayes: an approximate posterior of the parameters in place of a point (MacKay, *Ensemble Learning for Hidden Markov
//! Models*, 1997; Beal, *Variational Algorithms for Approximate Bayesian Inference*, 2003, chapter 3; Bishop, *Pattern Recognition and
//! Machine Learning*, 2006, section 10.2).
//!
//! The joint posterior of the parameters θ and the paths q is approximated by Q(θ) Q(q). Its lower bound of the evidence is
//!
//! > L = E[ln P(O, q, θ)] − E[ln Q(θ) Q(q)] ≤ ln P(O)
//!
//! Priors, and so Q(θ), are Dirichlet distributions of π, of each row of A with its end probability, and of each row of B; and
//! normal-Wishart distributions of means and precisions, Λⱼ ~ W(νⱼ, Sⱼ⁻¹) and μⱼ given Λⱼ ~ 𝒩(mⱼ, (βⱼ Λⱼ)⁻¹). Of diagonal precisions, each
//! entry has a gamma distribution of shape ν / 2 and rate s / 2.
//!
//! The E step is that of Baum and Welch with parameters exp(E[ln θ]), whose rows sum to less than 1. It yields ln Z, the sum over all
//! paths, and L = ln Z − KL(Q(θ) ‖ P(θ)). For vectors, E[ln 𝒩(x; μⱼ, Λⱼ)] = ln 𝒩(x; mⱼ, Sⱼ / νⱼ) + cⱼ, and exp(cⱼ) ≤ 1 becomes a factor of
//! all probabilities to enter state j. The M step adds the expected counts to the prior. L never decreases; each iteration checks this.

use std::ops::ControlFlow;
use std::time::Instant;

use super::backend::{Expected, Recursions, Statistics};
use super::covariances::solve_lower;
use super::model::{Covariances, Emissions, Hmm, HmmParts, Invalid, Names, cholesky};
use super::options::{Constraint, Options};
use super::sequences::{Observations, Sequences};
use super::special::digamma;
use super::train::{Error, Round, Status, add_log_likelihoods};

/// A distribution of the parameters of a model of N states. A Dirichlet parameter of 0 stands for a probability that is always 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Beliefs {
    /// Dirichlet parameters of π, N.
    pub start: Vec<f64>,
    /// Those of the rows of A, N × N.
    pub transitions: Vec<f64>,
    /// Those of the end probabilities, N, which belong to the rows of A.
    pub end: Option<Vec<f64>>,
    /// Those of the emissions.
    pub emissions: EmissionBeliefs,
}

/// A distribution of the parameters of all emissions.
#[derive(Clone, Debug, PartialEq)]
pub enum EmissionBeliefs {
    /// Dirichlet distributions.
    Categorical {
        /// V.
        symbols: u32,
        /// Parameters of the rows of B, N × V.
        counts: Vec<f64>,
    },
    /// Normal-Wishart distributions.
    Gaussian {
        /// D.
        dimensions: u32,
        /// m, N × D.
        means: Vec<f64>,
        /// β, N numbers above 0: the precision of the means as a number of observations.
        strengths: Vec<f64>,
        /// ν, N numbers, or one if all states have the same precision; above D − 1 for full ones, above 0 for diagonal ones.
        degrees: Vec<f64>,
        /// S, positive definite, for each number of `degrees`: E(Λ) = ν S⁻¹.
        scales: Covariances,
    },
}

/// The training of one start.
#[derive(Clone, Debug, PartialEq)]
pub struct BeliefRun {
    /// Q(θ) after the last M step.
    pub beliefs: Beliefs,
    /// L before the first M step, and after each.
    pub bounds: Vec<f64>,
    /// Whether L has converged.
    pub converged: bool,
    /// L before it decreased by more than [`Options::slack`].
    pub fell: Option<f64>,
}

impl BeliefRun {
    /// The last L.
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.bounds.last().copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// M steps.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    fn ended(&self) -> bool {
        self.converged || self.fell.is_some()
    }
}

/// The result of training.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedBeliefs {
    /// All starts, in the order of the input; at least one.
    pub runs: Vec<BeliefRun>,
    /// Index of the run with the highest bound; ties go to the lowest index.
    pub best: usize,
    /// Why training ended.
    pub status: Status,
}

impl TrainedBeliefs {
    /// The result of `runs`. The best run's own end takes precedence over `status`.
    fn from_runs(runs: Vec<BeliefRun>, status: Status) -> Self {
        let best = (0..runs.len()).fold(0, |best, at| if runs[at].bound() > runs[best].bound() { at } else { best });
        let status = match &runs[best] {
            run if run.converged => Status::Converged,
            run if run.fell.is_some() => Status::Fell,
            _ => status,
        };
        Self { runs, best, status }
    }

    /// The run with the highest bound.
    #[must_use]
    pub fn best(&self) -> &BeliefRun {
        &self.runs[self.best]
    }
}

/// A Wishart distribution of a precision, or independent gamma distributions of the diagonal of one.
struct Wishart<'s> {
    degrees: f64,
    /// S, D × D, or its diagonal.
    scale: &'s [f64],
    /// The Cholesky factor of S, or the square roots of its diagonal.
    lower: Vec<f64>,
    d: usize,
}

impl<'s> Wishart<'s> {
    /// `None` if S is not positive definite, or ν is too small.
    fn new(degrees: f64, scale: &'s [f64], d: usize) -> Option<Self> {
        let full = scale.len() > d;
        let lower = match scale.len() == d * d {
            true => cholesky(scale, d)?,
            false => scale.iter().map(|s| s.sqrt()).collect(),
        };
        let valid = lower.iter().step_by(if full { d + 1 } else { 1 }).all(|root| *root > 0.0 && root.is_finite());
        let least = if full { d as f64 - 1.0 } else { 0.0 };
        (valid && degrees > least && degrees.is_finite()).then_some(Self { degrees, scale, lower, d })
    }

    fn full(&self) -> bool {
        self.scale.len() > self.d
    }

    /// ln |S / 2|
    fn log_half_scale(&self) -> f64 {
        let step = if self.full() { self.d + 1 } else { 1 };
        self.lower.iter().step_by(step).map(|root| 2.0 * root.ln() - std::f64::consts::LN_2).sum()
    }

    /// The shapes of the gamma distributions whose product has the distribution of |Λ| |S / 2|.
    fn shapes(&self) -> impl Iterator<Item = f64> {
        let (degrees, full) = (self.degrees, self.full());
        (0..self.d).map(move |k| if full { (degrees - k as f64) / 2.0 } else { degrees / 2.0 })
    }

    /// E[ln |Λ|]
    fn log_determinant(&self) -> f64 {
        self.shapes().map(digamma).sum::<f64>() - self.log_half_scale()
    }

    /// ln of the normalisation, up to a constant of D.
    fn log_norm(&self) -> f64 {
        self.shapes().map(libm::lgamma).sum::<f64>() - self.degrees / 2.0 * self.log_half_scale()
    }

    /// xᵀ S⁻¹ x = |L⁻¹ x|²
    fn quadratic(&self, mut x: Vec<f64>) -> f64 {
        match self.full() {
            true => solve_lower(&self.lower, &mut x),
            false => x.iter_mut().zip(&self.lower).for_each(|(x, root)| *x /= root),
        }
        x.iter().map(|x| x * x).sum()
    }

    /// tr(T S⁻¹) of the scale T of another distribution: the sum of xᵀ S⁻¹ x over the columns of its factor.
    fn trace(&self, other: &Self) -> f64 {
        let d = self.d;
        let column = |k: usize| match self.full() {
            true => (0..d).map(|i| other.lower[i * d + k]).collect(),
            false => (0..d).map(|i| if i == k { other.lower[i] } else { 0.0 }).collect(),
        };
        (0..d).map(|k| self.quadratic(column(k))).sum()
    }

    /// KL(self ‖ prior)
    fn divergence(&self, prior: &Self) -> f64 {
        let (nu, nu0) = (self.degrees, prior.degrees);
        (nu - nu0) / 2.0 * self.log_determinant() + nu / 2.0 * (self.trace(prior) - self.d as f64) + prior.log_norm()
            - self.log_norm()
    }
}

impl Beliefs {
    /// The default prior of the parameters of `model`, as in hmmlearn: Dirichlet parameters of 1 / K for each of the K positive
    /// probabilities of a distribution, plus the pseudocounts of `options`; and for vectors, m the mean of all observations, β = 1, ν = D and S =
    /// 0.001 I, in the squared unit of the observations. Of [tied](Constraint::Tied) covariances, all states have one precision.
    ///
    /// # Errors
    /// If the model has channels or durations, its covariances are spherical, the pseudocounts do not fit it, or vectors have missing
    /// components.
    pub fn prior(model: &Hmm, sequences: &Sequences, options: &Options) -> Result<Self, String> {
        if model.segments().is_some() {
            return Err("a model with durations has no variational Bayes".to_owned());
        }
        options.check(model)?;
        complete(sequences)?;
        let n = model.start().len();
        let rows: Vec<Vec<f64>> = (0..n)
            .map(|state| even(model.row(state).iter().chain(model.end().iter().map(|end| &end[state]))))
            .collect();
        let emissions = match model.emissions() {
            Emissions::Categorical { symbols, probs } => EmissionBeliefs::Categorical {
                symbols: *symbols,
                counts: probs.chunks_exact(*symbols as usize).flat_map(|row| even(row.iter())).collect(),
            },
            Emissions::Gaussian { dimensions, covariances, .. } => {
                let (d, shared) = (*dimensions as usize, options.constraint == Constraint::Tied);
                if options.constraint == Constraint::Spherical {
                    return Err("variational Bayes has no spherical covariances".to_owned());
                }
                let of_states = if shared { 1 } else { n };
                let scales = match covariances {
                    Covariances::Diagonal(_) => Covariances::Diagonal(vec![SCALE; of_states * d]),
                    Covariances::Full(_) => Covariances::Diagonal(vec![SCALE; of_states * d]).full(d),
                };
                EmissionBeliefs::Gaussian {
                    dimensions: *dimensions,
                    means: mean_of_all(sequences, d).repeat(n),
                    strengths: vec![1.0; n],
                    degrees: vec![d as f64; of_states],
                    scales,
                }
            }
            Emissions::Channels(_) => return Err("a model with channels has no variational Bayes".to_owned()),
        };
        let mut prior = Self {
            start: even(model.start().iter()),
            transitions: rows.iter().flat_map(|row| &row[..n]).copied().collect(),
            end: model.end().map(|_| rows.iter().map(|row| row[n]).collect()),
            emissions,
        };
        prior.add_pseudocounts(options);
        Ok(prior)
    }

    /// Adds the pseudocounts of `options` to all Dirichlet parameters above 0.
    fn add_pseudocounts(&mut self, options: &Options) {
        let add = |counts: &mut [f64], pseudocount: &dyn Fn(usize) -> f64| {
            let possible = counts.iter_mut().enumerate().filter(|(_, count)| **count > 0.0);
            possible.for_each(|(at, count)| *count += pseudocount(at));
        };
        let (n, pseudocounts) = (self.states(), &options.pseudocounts);
        add(&mut self.start, &|at| pseudocounts.start.at(at));
        add(&mut self.transitions, &|at| options.of_transition(at, n));
        self.end.iter_mut().for_each(|end| add(end, &|_| pseudocounts.transitions.of_ends()));
        if let EmissionBeliefs::Categorical { counts, .. } = &mut self.emissions {
            add(counts, &|at| pseudocounts.emissions.at(at));
        }
    }

    /// A start of training from `model`, for this prior: its parameters, and the counts that the model expects of the sequences if it is in each
    /// state equally often. With M sequences of T observations in all, counted by their weights, M π, T/N A and T/N B are added to the
    /// Dirichlet parameters, and T/N to β and ν; m is the mean of the model, and S = ν Σ has its covariances.
    ///
    /// # Errors
    /// Those of [`prior`](Self::prior), and if the prior does not [fit](Self::fits) the model's.
    pub fn start_at(&self, model: &Hmm, sequences: &Sequences, options: &Options) -> Result<Self, String> {
        self.fits(&Self::prior(model, sequences, options)?)?;
        let (n, steps) = (self.states() as f64, sequences.weighted_steps());
        let starts: f64 = (0..sequences.len()).map(|sequence| sequences.weight(sequence)).sum();
        let add = |prior: &[f64], probs: &[f64], count: f64| -> Vec<f64> {
            prior.iter().zip(probs).map(|(prior, prob)| prior + count * prob).collect()
        };
        let emissions = match (&self.emissions, model.emissions()) {
            (EmissionBeliefs::Categorical { symbols, counts }, Emissions::Categorical { probs, .. }) => {
                EmissionBeliefs::Categorical { symbols: *symbols, counts: add(counts, probs, steps / n) }
            }
            (
                EmissionBeliefs::Gaussian { strengths, degrees, .. },
                Emissions::Gaussian { dimensions, means, covariances },
            ) => {
                let of_precision = steps / degrees.len() as f64;
                let degrees: Vec<f64> = degrees.iter().map(|nu| nu + of_precision).collect();
                let scaled = |numbers: &[f64], width: usize| -> Vec<f64> {
                    let of_states = degrees.iter().zip(numbers.chunks_exact(width));
                    of_states.flat_map(|(nu, own)| own.iter().map(move |entry| nu * entry)).collect()
                };
                let d = *dimensions as usize;
                let scales = match covariances {
                    Covariances::Diagonal(variances) => Covariances::Diagonal(scaled(variances, d)),
                    Covariances::Full(matrices) => Covariances::Full(scaled(matrices, d * d)),
                };
                EmissionBeliefs::Gaussian {
                    dimensions: *dimensions,
                    means: means.clone(),
                    strengths: strengths.iter().map(|beta| beta + steps / n).collect(),
                    degrees,
                    scales,
                }
            }
            // Unreachable: the prior fits.
            (others, _) => others.clone(),
        };
        let end = self.end.as_deref().zip(model.end()).map(|(prior, end)| add(prior, end, steps / n));
        Ok(Self {
            start: add(&self.start, model.start(), starts),
            transitions: add(&self.transitions, model.transitions(), steps / n),
            end,
            emissions,
        })
    }

    /// N.
    fn states(&self) -> usize {
        self.start.len()
    }

    /// The row of A and its end probability.
    fn row(&self, state: usize) -> Vec<f64> {
        let n = self.states();
        let end = self.end.iter().map(|end| end[state]);
        self.transitions[state * n..][..n].iter().copied().chain(end).collect()
    }

    /// All Dirichlet distributions.
    fn rows(&self) -> Vec<Vec<f64>> {
        let mut all = vec![self.start.clone()];
        all.extend((0..self.states()).map(|state| self.row(state)));
        if let EmissionBeliefs::Categorical { symbols, counts } = &self.emissions {
            all.extend(counts.chunks_exact(*symbols as usize).map(<[f64]>::to_vec));
        }
        all
    }

    /// The distribution of the precision of a state.
    fn wishart(&self, state: usize) -> Option<Wishart<'_>> {
        let EmissionBeliefs::Gaussian { dimensions, degrees, scales, .. } = &self.emissions else { return None };
        let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = scales;
        let (at, width) = (state % degrees.len(), numbers.len() / degrees.len());
        Wishart::new(degrees[at], &numbers[at * width..][..width], *dimensions as usize)
    }

    /// Checks shapes and ranges.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let n = self.states();
        let length = |name: &str, found: usize, expected: usize| match found == expected {
            true => Ok(()),
            false => Err(format!("{name} has {found} numbers, expected {expected}")),
        };
        if n == 0 {
            return Err("a hidden Markov model needs at least one state".to_owned());
        }
        length("A", self.transitions.len(), n * n)?;
        self.end.as_ref().map_or(Ok(()), |end| length("end", end.len(), n))?;
        match &self.emissions {
            EmissionBeliefs::Categorical { symbols: 0, .. } => return Err("B has no symbols".to_owned()),
            EmissionBeliefs::Categorical { symbols, counts } => length("B", counts.len(), n * *symbols as usize)?,
            EmissionBeliefs::Gaussian { dimensions: 0, .. } => return Err("m has no dimensions".to_owned()),
            EmissionBeliefs::Gaussian { dimensions, means, strengths, degrees, scales } => {
                let d = *dimensions as usize;
                length("m", means.len(), n * d)?;
                length("beta", strengths.len(), n)?;
                length("nu", degrees.len(), if degrees.len() == 1 { 1 } else { n })?;
                match scales {
                    Covariances::Diagonal(numbers) => length("S", numbers.len(), degrees.len() * d)?,
                    Covariances::Full(numbers) => length("S", numbers.len(), degrees.len() * d * d)?,
                }
                if let Some(x) = means.iter().find(|x| !x.is_finite()) {
                    return Err(format!("a mean is {x}, expected a finite number"));
                }
                if let Some(beta) = strengths.iter().find(|beta| !(beta.is_finite() && **beta > 0.0)) {
                    return Err(format!("beta is {beta}, expected a number above 0"));
                }
                if let Some(state) = (0..degrees.len()).find(|&state| self.wishart(state).is_none()) {
                    return Err(format!(
                        "the precision of state {state} has nu = {}, expected a number above {}, and S positive definite",
                        degrees[state],
                        if matches!(scales, Covariances::Full(_)) { d - 1 } else { 0 }
                    ));
                }
            }
        }
        for row in self.rows() {
            if let Some(count) = row.iter().find(|count| !(count.is_finite() && **count >= 0.0)) {
                return Err(format!("a Dirichlet parameter is {count}, expected a number of at least 0"));
            }
            if row.iter().all(|count| *count == 0.0) {
                return Err("all Dirichlet parameters of a distribution are 0".to_owned());
            }
        }
        Ok(())
    }

    /// Checks that these distributions are [valid](Self::check), and have the shape and the zeros of `other`.
    ///
    /// # Errors
    /// What is wrong.
    pub fn fits(&self, other: &Self) -> Result<(), String> {
        self.check()?;
        let shape = |beliefs: &Self| match &beliefs.emissions {
            EmissionBeliefs::Categorical { symbols, .. } => (0, *symbols, 0),
            EmissionBeliefs::Gaussian { dimensions, degrees, scales, .. } => {
                let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = scales;
                (degrees.len(), *dimensions, numbers.len())
            }
        };
        let zeros =
            |beliefs: &Self| -> Vec<bool> { beliefs.rows().concat().iter().map(|count| *count == 0.0).collect() };
        match self.states() == other.states() && shape(self) == shape(other) && zeros(self) == zeros(other) {
            true => Ok(()),
            false => Err("a start and the prior differ in shape or in zeros".to_owned()),
        }
    }

    /// The model with parameters exp(E[ln θ]). Its rows sum to less than 1.
    fn geometric(&self) -> Hmm {
        let n = self.states();
        let logs = |row: &[f64]| -> Vec<f64> {
            let whole = digamma(row.iter().sum());
            row.iter().map(|&count| if count > 0.0 { (digamma(count) - whole).exp() } else { 0.0 }).collect()
        };
        let mut start = logs(&self.start);
        let rows: Vec<Vec<f64>> = (0..n).map(|state| logs(&self.row(state))).collect();
        let mut transitions: Vec<f64> = rows.iter().flat_map(|row| &row[..n]).copied().collect();
        let end = self.end.as_ref().map(|_| rows.iter().map(|row| row[n]).collect());
        let emissions = match &self.emissions {
            EmissionBeliefs::Categorical { symbols, counts } => {
                let probs = counts.chunks_exact(*symbols as usize).flat_map(logs).collect();
                Emissions::Categorical { symbols: *symbols, probs }
            }
            EmissionBeliefs::Gaussian { dimensions, means, strengths, .. } => {
                for state in 0..n {
                    let factor = self.wishart(state).map_or(0.0, |precision| {
                        let (d, nu) = (f64::from(*dimensions), precision.degrees);
                        // ln |ν S⁻¹|
                        let log = d * (nu / 2.0).ln() - precision.log_half_scale();
                        ((precision.log_determinant() - log) / 2.0 - d / (2.0 * strengths[state])).exp()
                    });
                    start[state] *= factor;
                    transitions.iter_mut().skip(state).step_by(n).for_each(|prob| *prob *= factor);
                }
                let covariances = self.covariances();
                Emissions::Gaussian { dimensions: *dimensions, means: means.clone(), covariances }
            }
        };
        Hmm::built(HmmParts { start, transitions, end, emissions, names: Names::default() })
    }

    /// Sⱼ / νⱼ of each state.
    fn covariances(&self) -> Covariances {
        let EmissionBeliefs::Gaussian { degrees, scales, .. } = &self.emissions else {
            return Covariances::Diagonal(Vec::new());
        };
        let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = scales;
        let width = numbers.len() / degrees.len();
        let of_state = |state: usize| {
            let at = state % degrees.len();
            numbers[at * width..][..width].iter().map(move |s| s / degrees[at])
        };
        let all = (0..self.states()).flat_map(of_state).collect();
        match scales {
            Covariances::Diagonal(_) => Covariances::Diagonal(all),
            Covariances::Full(_) => Covariances::Full(all),
        }
    }

    /// The model of the means of all probabilities and of μ, with covariances E(Λ)⁻¹.
    ///
    /// # Errors
    /// If the parameters are not [valid](Self::check).
    pub fn mean(&self, names: Names) -> Result<Hmm, Invalid> {
        let n = self.states();
        let share = |row: &[f64]| -> Vec<f64> {
            let whole: f64 = row.iter().sum();
            row.iter().map(|count| count / whole).collect()
        };
        let rows: Vec<Vec<f64>> = (0..n).map(|state| share(&self.row(state))).collect();
        let emissions = match &self.emissions {
            EmissionBeliefs::Categorical { symbols, counts } => {
                let probs = counts.chunks_exact(*symbols as usize).flat_map(share).collect();
                Emissions::Categorical { symbols: *symbols, probs }
            }
            EmissionBeliefs::Gaussian { dimensions, means, .. } => {
                Emissions::Gaussian { dimensions: *dimensions, means: means.clone(), covariances: self.covariances() }
            }
        };
        let parts = HmmParts {
            start: share(&self.start),
            transitions: rows.iter().flat_map(|row| &row[..n]).copied().collect(),
            end: self.end.as_ref().map(|_| rows.iter().map(|row| row[n]).collect()),
            emissions,
            names,
        };
        parts.validated()
    }

    /// KL(self ‖ prior)
    fn divergence(&self, prior: &Self) -> f64 {
        let dirichlets =
            self.rows().iter().zip(prior.rows()).map(|(row, prior)| dirichlet_divergence(row, &prior)).sum();
        let (
            EmissionBeliefs::Gaussian { dimensions, means, strengths, degrees, .. },
            EmissionBeliefs::Gaussian { means: means0, strengths: strengths0, .. },
        ) = (&self.emissions, &prior.emissions)
        else {
            return dirichlets;
        };
        let d = *dimensions as usize;
        let of_state = |state: usize| -> Option<f64> {
            let (precision, prior) = (self.wishart(state)?, prior.wishart(state)?);
            let (beta, beta0) = (strengths[state], strengths0[state]);
            let shift = (state * d..(state + 1) * d).map(|at| means[at] - means0[at]).collect();
            let ratio = beta0 / beta;
            let of_mean =
                d as f64 * (ratio - 1.0 - ratio.ln()) + beta0 * precision.degrees * precision.quadratic(shift);
            let shared = state >= degrees.len();
            Some(of_mean / 2.0 + if shared { 0.0 } else { precision.divergence(&prior) })
        };
        // Unreachable infinity: each M step checks its result.
        dirichlets + (0..self.states()).map(|state| of_state(state).unwrap_or(f64::INFINITY)).sum::<f64>()
    }

    /// The M step: the prior and the expected counts, which are moments about the present means. What is frozen stays.
    fn updated(&self, prior: &Self, expected: &Expected, options: &Options) -> Self {
        let add = |prior: &[f64], counts: &[f64]| -> Vec<f64> {
            prior.iter().zip(counts).map(|(prior, count)| if *prior > 0.0 { prior + count } else { 0.0 }).collect()
        };
        let mut new = self.clone();
        if !options.frozen.start {
            new.start = add(&prior.start, &expected.start);
        }
        if !options.frozen.transitions {
            new.transitions = add(&prior.transitions, &expected.transitions);
            new.end = prior.end.as_ref().map(|end| add(end, &expected.end));
        }
        if !options.frozen.emissions {
            match (&mut new.emissions, &prior.emissions, &expected.emissions) {
                (
                    EmissionBeliefs::Categorical { counts, .. },
                    EmissionBeliefs::Categorical { counts: prior, .. },
                    Statistics::Categorical(seen),
                ) => *counts = add(prior, seen),
                (own, prior, Statistics::Gaussian { weights, sums, squares }) => {
                    own.add_moments(prior, weights, sums, squares);
                }
                _ => {}
            }
        }
        new
    }
}

impl EmissionBeliefs {
    /// Replaces normal-Wishart distributions by those of the prior with the moments about the present means.
    fn add_moments(&mut self, prior: &Self, weights: &[f64], sums: &[f64], squares: &[f64]) {
        let (
            Self::Gaussian { dimensions, means, strengths, degrees, scales },
            Self::Gaussian { means: means0, strengths: strengths0, degrees: degrees0, scales: scales0, .. },
        ) = (self, prior)
        else {
            return;
        };
        let (d, n, width) = (*dimensions as usize, weights.len(), squares.len() / weights.len());
        let full = matches!(scales, Covariances::Full(_));
        let (Covariances::Diagonal(numbers) | Covariances::Full(numbers)) = scales;
        let (Covariances::Diagonal(numbers0) | Covariances::Full(numbers0)) = scales0;
        numbers.clone_from(numbers0);
        degrees.clone_from(degrees0);
        for state in 0..n {
            let (weight, beta0) = (weights[state], strengths0[state]);
            let beta = beta0 + weight;
            // m' − m and m' − m₀ of the new mean m'.
            let shift: Vec<f64> = (0..d)
                .map(|k| (sums[state * d + k] + beta0 * (means0[state * d + k] - means[state * d + k])) / beta)
                .collect();
            let pull: Vec<f64> = (0..d).map(|k| means[state * d + k] + shift[k] - means0[state * d + k]).collect();
            let at = state % degrees.len();
            for (place, entry) in numbers[at * width..][..width].iter_mut().enumerate() {
                let (a, b) = if full { (place / d, place % d) } else { (place, place) };
                let (sum_a, sum_b) = (sums[state * d + a], sums[state * d + b]);
                let about = squares[state * width + place] - sum_a * shift[b] - shift[a] * sum_b;
                *entry += about + weight * shift[a] * shift[b] + beta0 * pull[a] * pull[b];
            }
            degrees[at] += weight;
            strengths[state] = beta;
            (0..d).for_each(|k| means[state * d + k] += shift[k]);
        }
    }
}

/// Each entry of the diagonal of the default S.
const SCALE: f64 = 1e-3;

/// Dirichlet parameters of 1 / K for each of the K positive probabilities.
fn even<'p>(probs: impl Iterator<Item = &'p f64> + Clone) -> Vec<f64> {
    let possible = probs.clone().filter(|prob| **prob > 0.0).count() as f64;
    probs.map(|prob| if *prob > 0.0 { 1.0 / possible } else { 0.0 }).collect()
}

/// Checks that no vector has missing components.
fn complete(sequences: &Sequences) -> Result<(), String> {
    match sequences.partial() {
        0 => Ok(()),
        _ => Err("vectors have missing components, which variational Bayes does not take".to_owned()),
    }
}

/// The mean of all vectors by the weights of their sequences, D numbers.
fn mean_of_all(sequences: &Sequences, d: usize) -> Vec<f64> {
    let (mut mean, steps) = (vec![0.0; d], sequences.weighted_steps());
    if let Observations::Vectors { values, .. } = sequences.observations() {
        for sequence in 0..sequences.len() {
            let (range, share) = (sequences.range(sequence), sequences.weight(sequence) / steps);
            let rows = values[range.start * d..range.end * d].chunks_exact(d);
            rows.for_each(|row| mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += share * x));
        }
    }
    mean
}

/// KL between Dirichlet distributions.
fn dirichlet_divergence(row: &[f64], prior: &[f64]) -> f64 {
    let whole: f64 = row.iter().sum();
    let each = row
        .iter()
        .zip(prior)
        .filter(|(_, prior)| **prior > 0.0)
        .map(|(&a, &b)| libm::lgamma(b) - libm::lgamma(a) + (a - b) * (digamma(a) - digamma(whole)));
    libm::lgamma(whole) - libm::lgamma(prior.iter().sum()) + each.sum::<f64>()
}

/// Trains Q(θ) from each of `starts` until its bound converges, all in one batch. `observe` sees the highest bound after each E step, as
/// objective and as log-likelihood, and may stop training. Of `options`, the iterations, the tolerances, the slack, and what is
/// frozen apply; covariances are frozen with the means.
///
/// # Errors
/// Those of the backend, [`Error::Options`] if beliefs are not [valid](Beliefs::check), differ in shape or the sequences have vectors with
/// missing components, and [`Error::Impossible`].
pub fn train_beliefs<R: Recursions + ?Sized>(
    recursions: &mut R,
    sequences: &Sequences,
    prior: &Beliefs,
    starts: Vec<Beliefs>,
    options: &Options,
    observe: &mut dyn FnMut(&Round<'_, TrainedBeliefs>) -> ControlFlow<()>,
) -> Result<TrainedBeliefs, Error<R::Error>> {
    starts.iter().chain([prior]).try_for_each(|beliefs| beliefs.fits(prior)).map_err(Error::Options)?;
    complete(sequences).map_err(Error::Options)?;
    let run = |beliefs| BeliefRun { beliefs, bounds: Vec::new(), converged: false, fell: None };
    let mut runs: Vec<BeliefRun> = starts.into_iter().map(run).collect();
    if runs.is_empty() {
        return Err(Error::None);
    }
    let mut status = Status::Iterations;
    for iteration in 0..=options.iterations {
        let active: Vec<usize> = (0..runs.len()).filter(|&at| !runs[at].ended()).collect();
        let models: Vec<Hmm> = active.iter().map(|&at| runs[at].beliefs.geometric()).collect();
        recursions.set_models(&models).map_err(Error::Backend)?;
        let begun = Instant::now();
        let found = match recursions.e_step() {
            Err(_) if iteration > 0 && recursions.interrupted() => {
                status = Status::Interrupted;
                break;
            }
            found => found.map_err(Error::Backend)?,
        };
        for (&at, logs) in active.iter().zip(&found) {
            judge(&mut runs[at], logs, sequences, prior, options)?;
        }
        let left = runs.iter().filter(|run| !run.ended()).count();
        let bound = runs.iter().map(BeliefRun::bound).fold(f64::NEG_INFINITY, f64::max);
        let slow = recursions.slow(begun.elapsed());
        let so_far = slow.then(|| TrainedBeliefs::from_runs(runs.clone(), Status::Interrupted));
        let (objective, log_likelihood) = (bound, bound);
        let round = Round { iteration, active: left, objective, log_likelihood, so_far: so_far.as_ref() };
        let stop = observe(&round).is_break();
        if left == 0 || iteration == options.iterations {
            break;
        }
        if stop {
            status = Status::Interrupted;
            break;
        }
        let counts = recursions.take_counts().map_err(Error::Backend)?;
        for (&at, counts) in active.iter().zip(&counts).filter(|(at, _)| !runs[**at].ended()).collect::<Vec<_>>() {
            runs[at].beliefs = runs[at].beliefs.updated(prior, counts, options);
            runs[at].beliefs.check().map_err(Error::Options)?;
        }
    }
    Ok(TrainedBeliefs::from_runs(runs, status))
}

/// Adds L to the record of a run, which has then converged or fallen.
fn judge<E>(
    run: &mut BeliefRun,
    logs: &[f64],
    sequences: &Sequences,
    prior: &Beliefs,
    options: &Options,
) -> Result<(), Error<E>> {
    let bound = add_log_likelihoods(-run.beliefs.divergence(prior), logs, |sequence| sequences.weight(sequence))?;
    if let Some(&from) = run.bounds.last() {
        if bound < from - options.slack * from.abs().max(1.0) {
            run.fell = Some(from);
        } else {
            run.converged = options.tolerates(bound - from, from);
        }
    }
    run.bounds.push(bound);
    Ok(())
}
