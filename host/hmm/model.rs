//! The model: a hidden Markov chain over N states, each of which emits observations.
//!
//! The chain starts in state i with probability πᵢ. From state i it moves to state j with probability Aᵢⱼ. A model with
//! end probabilities terminates after state i with probability endᵢ. State j emits a symbol o with probability Bⱼₒ, or
//! a vector x with the normal density 𝒩(x; μⱼ, Σⱼ); bⱼ(o) denotes either. A path q and the observations O have the
//! joint probability (or density)
//!
//! > P(O, q) = π(q₁) b(q₁, o₁) · Πₜ A(qₜ₋₁, qₜ) b(qₜ, oₜ) · end(q_T)
//!
//! A model without end probabilities has no last factor.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::take;

use warpkov_common::parameters::SUM_TOLERANCE;

use super::channels::{Channels, InvalidChannel};
pub(super) use super::covariances::is_semidefinite;
use super::covariances::symmetrise;
pub use super::covariances::{Covariances, cholesky};
use super::durations::{self, Duration, InvalidDuration, Segments, free};
use super::ties::Moves;
pub use warpkov_common::names::name;

/// Deviation of a row's sum from 1 that rounding explains. Rows within it are not rescaled.
const ROUNDING: f64 = 1e-12;

/// Names of states and symbols. Each list is empty or complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Names {
    /// State names: none, or N distinct ones.
    pub states: Vec<String>,
    /// Symbol names: none, or V distinct ones.
    pub symbols: Vec<String>,
    /// The class of each state: none, or N names, empty for a state without a class. See [`StateClasses`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
}

/// Classes of states: those with a name, in the order of their first states, and each state without a class by itself, under its own
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateClasses {
    /// Distinct names, K.
    pub names: Vec<String>,
    /// The class of each state, N numbers below K.
    pub of_state: Vec<u32>,
}

impl StateClasses {
    fn new(names: &Names, states: u32) -> Self {
        let (mut found, mut of_state, mut numbers) = (Vec::new(), Vec::new(), HashMap::new());
        for state in 0..states {
            let own = names.classes.get(state as usize).filter(|class| !class.is_empty());
            let next = found.len() as u32;
            let class = own.map_or(next, |class| *numbers.entry(class).or_insert(next));
            if class == next {
                found.push(own.cloned().unwrap_or_else(|| name(&names.states, state)));
            }
            of_state.push(class);
        }
        Self { names: found, of_state }
    }

    /// Posterior probabilities of the classes, ΣT × K: sums of those of their states, ΣT × N.
    #[must_use]
    pub fn posteriors(&self, of_states: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; of_states.len() / self.of_state.len() * self.names.len()];
        for (sums, row) in sums.chunks_exact_mut(self.names.len()).zip(of_states.chunks_exact(self.of_state.len())) {
            self.of_state.iter().zip(row).for_each(|(&class, p)| sums[class as usize] += p);
        }
        sums
    }

    /// The class of each state of a path. What is no state stays.
    #[must_use]
    pub fn path(&self, states: &[u32]) -> Vec<u32> {
        states.iter().map(|&state| self.of_state.get(state as usize).copied().unwrap_or(state)).collect()
    }
}

/// The parameters of a hidden Markov model, before [validation](Self::validated).
#[derive(Clone, Debug, PartialEq)]
pub struct HmmParts {
    /// π, N entries.
    pub start: Vec<f64>,
    /// A, N × N, row by row.
    pub transitions: Vec<f64>,
    /// End probabilities, N entries: Σⱼ Aᵢⱼ + endᵢ = 1. `None`: the model does not describe where sequences end.
    pub end: Option<Vec<f64>>,
    /// Emission distributions, one per state.
    pub emissions: Emissions,
    /// State and symbol names.
    pub names: Names,
}

/// A validated hidden Markov model. Invariants:
///
/// - N ≥ 1, and V ≥ 1 or D ≥ 1; every array has the shape that [`HmmParts`] and [`Emissions`] document;
/// - π, each row of A together with its end probability, and each row of B are distributions;
/// - means are finite, variances are positive, covariance matrices are symmetric and positive definite;
/// - parameters of channels lie in their domains.
///
/// ```compile_fail,E0616
/// # use warpkov_hmm::generate::IceCream;
/// let mut hmm = IceCream.generate().unwrap();
/// hmm.parts.start.clear();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Hmm {
    parts: HmmParts,
    /// Of the expansion of a semi-Markov model.
    segments: Option<Box<Segments>>,
}

/// Emission distributions of all states.
#[derive(Clone, Debug, PartialEq)]
pub enum Emissions {
    /// Each state emits one of V symbols.
    Categorical {
        /// V, the number of symbols.
        symbols: u32,
        /// B, N × V, row by row.
        probs: Vec<f64>,
    },
    /// Each state emits a vector of D numbers with a normal density.
    Gaussian {
        /// D, the dimension of the vectors.
        dimensions: u32,
        /// μ, N × D, row by row.
        means: Vec<f64>,
        /// Σ of each state.
        covariances: Covariances,
    },
    /// Each state emits a vector of D numbers, of which independent channels describe some each.
    Channels(Channels),
}

/// A violation of an invariant of [`Hmm`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// There are no states, no symbols or no dimensions.
    #[error("a hidden Markov model needs at least one {0}")]
    None(&'static str),
    /// A number of states or entries overflows its integer type.
    #[error("too many {0}")]
    Many(&'static str),
    /// An array has the wrong length.
    #[error("{array} has {found} numbers, expected {expected}")]
    Length {
        /// The array's name.
        array: &'static str,
        /// Its length.
        found: usize,
        /// The length that its shape requires.
        expected: usize,
    },
    /// A number is out of range.
    #[error("{place} is {found}, expected {expected}")]
    Value {
        /// The array's name and the number's indices.
        place: String,
        /// The number.
        found: f64,
        /// The range.
        expected: &'static str,
    },
    /// A row does not sum to 1.
    #[error("{place} sums to {sum}, expected 1")]
    Sum {
        /// The array or the row.
        place: String,
        /// Its sum.
        sum: f64,
    },
    /// Rows of a matrix do not sum to 1, and those of its transpose do.
    #[error(
        "{place} sums to {sum}, expected 1, but every column of {matrix} does: {matrix} looks transposed, expected \
         {order}"
    )]
    Transposed {
        /// The first row that does not sum to 1.
        place: String,
        /// Its sum.
        sum: f64,
        /// The matrix.
        matrix: &'static str,
        /// The meaning of its indices.
        order: &'static str,
    },
    /// A covariance matrix is not symmetric or not positive definite.
    #[error("covariances[{state}] is not symmetric and positive definite")]
    Covariance {
        /// The state.
        state: usize,
    },
    /// A duration is out of range.
    #[error(transparent)]
    Duration(#[from] InvalidDuration),
    /// A channel is invalid.
    #[error(transparent)]
    Channel(#[from] InvalidChannel),
    /// A list of names is neither empty nor complete.
    #[error("{found} names of {what}, expected {expected}")]
    Names {
        /// `states`, `symbols` or `classes`.
        what: &'static str,
        /// Number of names.
        found: usize,
        /// N or V.
        expected: u32,
    },
    /// Two states, symbols or classes share a name, or a class and a state without a class do.
    #[error("two {what} are called {name:?}")]
    Twice {
        /// `states`, `symbols` or `classes`.
        what: &'static str,
        /// The name.
        name: String,
    },
}

impl Hmm {
    /// A model from parts of valid shape, without validation. The caller guarantees distributions, except that rows of
    /// B may sum to more than 1: a column may stand for a set of symbols.
    pub(crate) fn built(parts: HmmParts) -> Self {
        debug_assert!(parts.has_shape());
        Self { parts, segments: None }
    }

    /// Changes parameters in place. `change` preserves all shapes.
    pub(crate) fn update(&mut self, change: impl FnOnce(&mut HmmParts)) {
        self.update_segments(|parts, _| change(parts));
    }

    /// Changes parameters in place, and those of the segments with them, for an M step. `change` preserves all shapes.
    pub(crate) fn update_segments(&mut self, change: impl FnOnce(&mut HmmParts, Option<&mut Segments>)) {
        change(&mut self.parts, self.segments.as_deref_mut());
        debug_assert!(self.parts.has_shape());
    }

    /// The parameters. Of a semi-Markov model, those of the expansion.
    #[must_use]
    pub fn into_parts(self) -> HmmParts {
        self.parts
    }

    /// The model with π, and with A, end probabilities and durations, of another model of this shape, if asked.
    #[must_use]
    pub fn with_chain(mut self, other: &Self, start: bool, transitions: bool) -> Self {
        self.update_segments(|parts, segments| match (segments, &other.segments) {
            (Some(segments), Some(given)) => {
                segments.take(given, start, transitions);
                parts.take_chain(segments);
            }
            _ => {
                if start {
                    parts.start.clone_from(&other.parts.start);
                }
                if transitions {
                    parts.transitions.clone_from(&other.parts.transitions);
                    parts.end.clone_from(&other.parts.end);
                }
            }
        });
        self
    }

    /// The model with other emissions of the same states, validated again.
    ///
    /// # Errors
    /// Those of [`HmmParts::validated`].
    pub fn with_emissions(self, change: impl FnOnce(Emissions) -> Emissions) -> Result<Self, Invalid> {
        let Self { mut parts, segments } = self;
        parts.emissions = change(parts.emissions);
        Ok(Self { segments, ..parts.validated()? })
    }

    /// The model with equal probabilities in each class of transitions, their means; see
    /// [`tied_transitions`](super::options::Options::tied_transitions).
    ///
    /// # Errors
    /// If rows have only some classes in common, or if some of them have nothing beside tied transitions.
    pub fn with_tied_transitions(mut self, classes: &[u32]) -> Result<Self, String> {
        self.chain().share(classes)?;
        self.update_segments(|parts, segments| {
            if let Some(segments) = segments {
                parts.take_chain(segments);
            }
        });
        Ok(self)
    }

    /// A and end probabilities; those of visits if states have durations.
    pub(crate) fn chain(&mut self) -> Moves<'_> {
        match &mut self.segments {
            Some(segments) => segments.chain(),
            None => Moves { transitions: &mut self.parts.transitions, end: self.parts.end.as_deref_mut() },
        }
    }

    /// The chain of the semi-Markov model of which this is the [expansion](super::durations).
    #[must_use]
    pub fn segments(&self) -> Option<&Segments> {
        self.segments.as_deref()
    }

    /// π, N entries.
    #[inline]
    #[must_use]
    pub fn start(&self) -> &[f64] {
        &self.parts.start
    }

    /// A, N × N, row by row.
    #[inline]
    #[must_use]
    pub fn transitions(&self) -> &[f64] {
        &self.parts.transitions
    }

    /// End probabilities, N entries; see [`HmmParts::end`].
    #[inline]
    #[must_use]
    pub fn end(&self) -> Option<&[f64]> {
        self.parts.end.as_deref()
    }

    /// Emission distributions of all states.
    #[inline]
    #[must_use]
    pub fn emissions(&self) -> &Emissions {
        &self.parts.emissions
    }

    /// State and symbol names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.parts.names
    }

    /// The chain of visits to the states: of a semi-Markov model, that of its own states, where [`segments`](Self::segments) has the
    /// durations; else this model.
    #[must_use]
    pub fn visits(&self) -> Cow<'_, Self> {
        let Some(segments) = self.segments() else { return Cow::Borrowed(self) };
        let Names { symbols, .. } = self.names().clone();
        Cow::Owned(Self::built(HmmParts {
            start: segments.start().to_vec(),
            transitions: segments.transitions().to_vec(),
            end: segments.end().map(<[f64]>::to_vec),
            emissions: self.emissions().of_states(self.start().len(), &segments.firsts()),
            names: Names { states: segments.names().to_vec(), symbols, classes: Vec::new() },
        }))
    }

    /// The classes of the states.
    #[must_use]
    pub fn classes(&self) -> StateClasses {
        StateClasses::new(self.names(), self.states())
    }

    /// A model with the [classes](Self::classes) as states, whose names reports show: π sums over the states of a class, the rows of A
    /// are means of sums, and emissions are those of the first state.
    #[must_use]
    pub fn by_class(&self) -> Self {
        let classes = self.classes();
        let (k, of_state) = (classes.names.len(), &classes.of_state[..]);
        let first = |class: usize| of_state.iter().position(|&c| c as usize == class).unwrap_or(0);
        let members = |class: usize| (0..of_state.len()).filter(move |&i| of_state[i] as usize == class);
        let mean = |class: usize, of: &dyn Fn(usize) -> f64| {
            members(class).map(of).sum::<f64>() / members(class).count() as f64
        };
        let transitions =
            (0..k).flat_map(|from| (0..k).map(move |to| mean(from, &|i| members(to).map(|j| self.row(i)[j]).sum())));
        let firsts: Vec<u32> = (0..k).map(|class| first(class) as u32).collect();
        Self::built(HmmParts {
            start: (0..k).map(|class| members(class).map(|i| self.start()[i]).sum()).collect(),
            transitions: transitions.collect(),
            end: self.end().map(|end| (0..k).map(|class| mean(class, &|i| end[i])).collect()),
            emissions: self.emissions().of_states(of_state.len(), &firsts),
            names: Names { states: classes.names, symbols: self.names().symbols.clone(), classes: Vec::new() },
        })
    }

    /// N, the number of states.
    #[must_use]
    pub fn states(&self) -> u32 {
        self.start().len() as u32
    }

    /// Row Aᵢ of A, N entries.
    #[must_use]
    pub fn row(&self, state: usize) -> &[f64] {
        &self.transitions()[state * self.start().len()..][..self.start().len()]
    }

    /// Number of free parameters: the positive entries of each distribution less one, plus all means and the distinct
    /// entries of all covariances. Of a semi-Markov model, those of its own states, and of its durations.
    #[must_use]
    pub fn parameters(&self) -> usize {
        if let Some(segments) = &self.segments {
            let firsts = segments.firsts();
            let emissions = self.emissions().of_states(self.start().len(), &firsts);
            return segments.parameters() + emissions.parameters(firsts.len());
        }
        let n = self.start().len();
        let end = |state: usize| self.end().map_or(0.0, |end| end[state]);
        let chain = free(self.start(), 0.0) + (0..n).map(|i| free(self.row(i), end(i))).sum::<usize>();
        chain + self.emissions().parameters(n)
    }
}

impl HmmParts {
    /// Validates the invariants of [`Hmm`].
    ///
    /// Entries of π, A, end and B lie in [0, 1], and each distribution sums to 1 within [`SUM_TOLERANCE`].
    /// Distributions are rescaled to sum to 1; zeros stay zeros.
    ///
    /// # Errors
    /// The first violation found; see [`Invalid`].
    pub fn validated(mut self) -> Result<Hmm, Invalid> {
        let n = self.start.len();
        if n == 0 {
            return Err(Invalid::None("state"));
        }
        let square = n.checked_mul(n).filter(|_| u32::try_from(n).is_ok()).ok_or(Invalid::Many("states"))?;
        distribution(&mut self.start, None, || "pi".to_owned(), |i| format!("pi[{i}]"))?;
        length("A", &self.transitions, square)?;
        if let Some(end) = &self.end {
            length("end", end, n)?;
        }
        let mut rows = self.transitions.chunks_exact_mut(n).enumerate();
        let found = rows.try_for_each(|(i, row)| {
            let end = self.end.as_mut().map(|end| &mut end[i]);
            if let Some(&mut found) = end
                && !(0.0..=1.0 + SUM_TOLERANCE).contains(&found)
            {
                return Err(Invalid::Value { place: format!("end[{i}]"), found, expected: PROBABILITY });
            }
            let place = if end.is_some() { format!("A[{i}] with end[{i}]") } else { format!("A[{i}]") };
            distribution(row, end, || place, |j| format!("A[{i}][{j}]"))
        });
        found.map_err(|error| transposed(error, &self.transitions, self.end.as_deref(), n, ("A", FROM_TO)))?;
        let kinds = self.emissions.validate(n)?;
        let Names { states, symbols, classes } = &self.names;
        for (what, names, expected) in
            [("states", states, n as u32), ("symbols", symbols, kinds), ("classes", classes, n as u32)]
        {
            if names.is_empty() {
                continue;
            }
            if names.len() != expected as usize {
                return Err(Invalid::Names { what, found: names.len(), expected });
            }
            let classes = StateClasses::new(&self.names, if what == "classes" { expected } else { 0 });
            let mut sorted: Vec<_> = if what == "classes" { classes.names.iter() } else { names.iter() }.collect();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Invalid::Twice { what, name: pair[0].clone() });
            }
        }
        Ok(Hmm { parts: self, segments: None })
    }

    /// Validates a semi-Markov model, whose states have these durations, and expands it; see [`durations`]. A state
    /// without one is left after each step, to itself with Aᵢᵢ.
    ///
    /// # Errors
    /// The first violation found; see [`Invalid`].
    pub fn with_durations(self, durations: Vec<Option<Duration>>) -> Result<Hmm, Invalid> {
        let Hmm { mut parts, .. } = self.validated()?;
        let (found, expected) = (durations.len(), parts.start.len());
        if found != expected {
            return Err(Invalid::Length { array: "durations", found, expected });
        }
        if !parts.names.classes.is_empty() {
            return Err(Invalid::Names { what: "classes", found: parts.names.classes.len(), expected: 0 });
        }
        let chain = (take(&mut parts.start), take(&mut parts.transitions), parts.end.take());
        let segments = Segments::new(chain, durations, take(&mut parts.names.states))?;
        let n = segments.steps();
        if n.saturating_mul(n.saturating_add(parts.emissions.width(expected))) > durations::MOST {
            return Err(Invalid::Many("steps of durations"));
        }
        parts.emissions = parts.emissions.of_states(expected, &segments.of_state());
        (parts.start, parts.transitions) = (vec![0.0; n], vec![0.0; n * n]);
        parts.end = segments.end().map(|_| vec![0.0; n]);
        (parts.names.states, parts.names.classes) = (segments.step_names(), segments.class_names());
        parts.take_chain(&segments);
        Ok(Hmm { parts, segments: Some(Box::new(segments)) })
    }

    /// Takes π, A and end probabilities of the expansion of `segments`, whose shape they have.
    pub(super) fn take_chain(&mut self, segments: &Segments) {
        segments.write(&mut self.start, &mut self.transitions, self.end.as_deref_mut());
    }

    /// Whether the lengths of all arrays agree with N, V and D.
    fn has_shape(&self) -> bool {
        let n = self.start.len();
        let emissions = match &self.emissions {
            Emissions::Categorical { symbols, probs } => *symbols > 0 && probs.len() == n * *symbols as usize,
            Emissions::Gaussian { dimensions, means, covariances } => {
                let d = *dimensions as usize;
                let covariances = match covariances {
                    Covariances::Diagonal(variances) => variances.len() == n * d,
                    Covariances::Full(matrices) => matrices.len() == n * d * d,
                };
                d > 0 && means.len() == n * d && covariances
            }
            Emissions::Channels(channels) => {
                channels.numbers(n.max(1)).iter().all(|numbers| numbers.len() % n.max(1) == 0)
            }
        };
        let end = self.end.as_ref().is_none_or(|end| end.len() == n);
        n > 0 && self.transitions.len() == n * n && end && emissions
    }
}

/// Replaces the rows of the states of each class, N rows, by their mean. Equal rows keep their bits.
pub(crate) fn share(numbers: &mut [f64], of_state: &[u32]) {
    let width = numbers.len() / of_state.len().max(1);
    for class in 0..of_state.iter().max().map_or(0, |last| last + 1) {
        let members: Vec<usize> = (0..of_state.len()).filter(|&state| of_state[state] == class).collect();
        for column in 0..width {
            let each = || members.iter().map(|state| numbers[state * width + column]);
            let first = each().next().unwrap_or_default();
            if each().any(|x| x != first) {
                let mean = each().map(|x| x / members.len() as f64).sum();
                members.iter().for_each(|state| numbers[state * width + column] = mean);
            }
        }
    }
}

impl Emissions {
    /// The emissions of these of `n` states, in this order.
    #[must_use]
    pub fn of_states(&self, n: usize, states: &[u32]) -> Self {
        let rows = |numbers: &[f64]| -> Vec<f64> {
            let width = numbers.len() / n;
            states.iter().flat_map(|&state| &numbers[state as usize * width..][..width]).copied().collect()
        };
        match self {
            Self::Categorical { symbols, probs } => Self::Categorical { symbols: *symbols, probs: rows(probs) },
            Self::Gaussian { dimensions, means, covariances } => Self::Gaussian {
                dimensions: *dimensions,
                means: rows(means),
                covariances: match covariances {
                    Covariances::Diagonal(numbers) => Covariances::Diagonal(rows(numbers)),
                    Covariances::Full(numbers) => Covariances::Full(rows(numbers)),
                },
            },
            Self::Channels(channels) => {
                let mut channels = channels.clone();
                channels.numbers_mut().into_iter().for_each(|numbers| *numbers = rows(numbers));
                Self::Channels(channels)
            }
        }
    }

    /// Number of parameters of each of `n` states.
    fn width(&self, n: usize) -> usize {
        match self {
            Self::Categorical { symbols, .. } => *symbols as usize,
            Self::Gaussian { means, covariances: Covariances::Diagonal(rest) | Covariances::Full(rest), .. } => {
                (means.len() + rest.len()) / n
            }
            Self::Channels(channels) => channels.numbers(n).iter().map(|numbers| numbers.len() / n).sum(),
        }
    }

    /// Number of free parameters of `n` states.
    fn parameters(&self, n: usize) -> usize {
        match self {
            Self::Categorical { symbols, probs } => {
                probs.chunks_exact(*symbols as usize).map(|row| free(row, 0.0)).sum()
            }
            Self::Gaussian { dimensions, means, covariances } => {
                let d = *dimensions as usize;
                means.len()
                    + match covariances {
                        Covariances::Diagonal(variances) => variances.len(),
                        Covariances::Full(_) => means.len() * (d + 1) / 2,
                    }
            }
            Self::Channels(channels) => channels.free(n),
        }
    }

    /// Replaces the emissions of the states of each class by their mean. `of_state` has the class of each state.
    #[must_use]
    pub fn shared(mut self, of_state: &[u32]) -> Self {
        match &mut self {
            Self::Categorical { probs, .. } => share(probs, of_state),
            Self::Gaussian {
                means, covariances: Covariances::Diagonal(numbers) | Covariances::Full(numbers), ..
            } => {
                share(means, of_state);
                share(numbers, of_state);
            }
            Self::Channels(channels) => {
                channels.numbers_mut().into_iter().for_each(|numbers| share(numbers, of_state));
            }
        }
        self
    }

    /// D, the dimension of the vectors; `None` for symbols.
    #[must_use]
    pub fn dimensions(&self) -> Option<u32> {
        match self {
            Self::Categorical { .. } => None,
            Self::Gaussian { dimensions, .. } | Self::Channels(Channels { dimensions, .. }) => Some(*dimensions),
        }
    }

    /// V, the number of symbols; 0 for vectors.
    #[must_use]
    pub fn symbols(&self) -> u32 {
        if let Self::Categorical { symbols, .. } = self { *symbols } else { 0 }
    }

    /// Validates the emissions of `n` states and rescales the rows of B. Returns V, or 0 for vectors.
    fn validate(&mut self, n: usize) -> Result<u32, Invalid> {
        match self {
            Self::Categorical { symbols: 0, .. } => Err(Invalid::None("symbol")),
            Self::Categorical { symbols, probs } => {
                let v = *symbols as usize;
                length("B", probs, n.checked_mul(v).ok_or(Invalid::Many("symbols"))?)?;
                let mut rows = probs.chunks_exact_mut(v).enumerate();
                let found = rows
                    .try_for_each(|(i, row)| distribution(row, None, || format!("B[{i}]"), |o| format!("B[{i}][{o}]")));
                found.map_err(|error| transposed(error, probs, None, n, ("B", STATE_SYMBOL)))?;
                Ok(*symbols)
            }
            Self::Gaussian { dimensions: 0, .. } => Err(Invalid::None("dimension")),
            Self::Gaussian { dimensions, means, covariances } => {
                let d = *dimensions as usize;
                let entries = n.checked_mul(d).ok_or(Invalid::Many("dimensions"))?;
                length("means", means, entries)?;
                all(means, "a finite number", f64::is_finite, |at| format!("means[{}][{}]", at / d, at % d))?;
                match covariances {
                    Covariances::Diagonal(variances) => {
                        length("covariances", variances, entries)?;
                        let valid = |x: f64| x.is_finite() && x > 0.0;
                        let place = |at| format!("covariances[{}][{}]", at / d, at % d);
                        all(variances, "a positive number", valid, place)?;
                    }
                    Covariances::Full(matrices) => {
                        length("covariances", matrices, entries.checked_mul(d).ok_or(Invalid::Many("dimensions"))?)?;
                        let place = |at| format!("covariances[{}][{}][{}]", at / (d * d), at / d % d, at % d);
                        all(matrices, "a finite number", f64::is_finite, place)?;
                        for (state, matrix) in matrices.chunks_exact_mut(d * d).enumerate() {
                            let symmetric = symmetrise(matrix, d);
                            if !symmetric || cholesky(matrix, d).is_none() {
                                return Err(Invalid::Covariance { state });
                            }
                        }
                    }
                }
                Ok(0)
            }
            Self::Channels(channels) => {
                channels.validate(n)?;
                Ok(0)
            }
        }
    }
}

const PROBABILITY: &str = "a probability";

fn length(array: &'static str, numbers: &[f64], expected: usize) -> Result<(), Invalid> {
    let found = numbers.len();
    if found == expected { Ok(()) } else { Err(Invalid::Length { array, found, expected }) }
}

fn all(
    numbers: &[f64],
    expected: &'static str,
    valid: impl Fn(f64) -> bool,
    place: impl Fn(usize) -> String,
) -> Result<(), Invalid> {
    match numbers.iter().position(|&x| !valid(x)) {
        Some(at) => Err(Invalid::Value { place: place(at), found: numbers[at], expected }),
        None => Ok(()),
    }
}

/// Validates that `probs` and `end` together form a distribution within [`SUM_TOLERANCE`], and rescales them to sum to
/// 1.
fn distribution(
    probs: &mut [f64],
    end: Option<&mut f64>,
    whole: impl FnOnce() -> String,
    place: impl Fn(usize) -> String,
) -> Result<(), Invalid> {
    all(probs, PROBABILITY, |p| (0.0..=1.0 + SUM_TOLERANCE).contains(&p), place)?;
    let sum = probs.iter().sum::<f64>() + end.as_deref().copied().unwrap_or(0.0);
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(Invalid::Sum { place: whole(), sum });
    }
    if (sum - 1.0).abs() > ROUNDING {
        probs.iter_mut().chain(end).for_each(|p| *p /= sum);
    }
    Ok(())
}

/// The order of the indices of A and B.
const FROM_TO: &str = "A[i][j] from state i to state j";
const STATE_SYMBOL: &str = "B[i][o] of state i and symbol o";

/// The error for a sum of a row, or [`Invalid::Transposed`] if the numbers are distributions over the first index of a
/// matrix with `n` columns, each together with its end probability.
fn transposed(
    error: Invalid,
    numbers: &[f64],
    end: Option<&[f64]>,
    n: usize,
    named: (&'static str, &'static str),
) -> Invalid {
    let Invalid::Sum { place, sum } = error else { return error };
    let mut sums = end.map_or_else(|| vec![0.0; n], <[f64]>::to_vec);
    for row in numbers.chunks_exact(n) {
        sums.iter_mut().zip(row).for_each(|(sum, p)| *sum += p);
    }
    match sums.iter().all(|sum| (sum - 1.0).abs() <= SUM_TOLERANCE) {
        true => Invalid::Transposed { place, sum, matrix: named.0, order: named.1 },
        false => Invalid::Sum { place, sum },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> HmmParts {
        HmmParts {
            start: vec![0.5, 0.5],
            transitions: vec![0.8, 0.1, 0.1, 0.8],
            end: Some(vec![0.1, 0.1]),
            emissions: Emissions::Categorical { symbols: 3, probs: vec![0.7, 0.2, 0.1, 0.1, 0.2, 0.7] },
            names: Names::default(),
        }
    }

    fn message(change: impl FnOnce(&mut HmmParts)) -> String {
        let mut model = model();
        change(&mut model);
        model.validated().unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(model().validated().map(Hmm::into_parts), Ok(model()));
        assert_eq!(message(|m| m.start.clear()), "a hidden Markov model needs at least one state");
        assert_eq!(message(|m| m.start[1] = f64::NAN), "pi[1] is NaN, expected a probability");
        assert_eq!(message(|m| m.start[1] = 0.25), "pi sums to 0.75, expected 1");
        assert_eq!(message(|m| m.transitions.push(0.0)), "A has 5 numbers, expected 4");
        assert_eq!(message(|m| m.transitions[2] = -0.5), "A[1][0] is -0.5, expected a probability");
        assert_eq!(message(|m| m.transitions[2] = 0.35), "A[1] with end[1] sums to 1.25, expected 1");
        assert_eq!(message(|m| m.end = None), "A[0] sums to 0.9, expected 1");
        assert_eq!(message(|m| m.end = Some(vec![0.1, 2.0])), "end[1] is 2, expected a probability");
        assert_eq!(message(|m| m.names.states = vec!["C".to_owned()]), "1 names of states, expected 2");
        assert_eq!(message(|m| m.names.states = vec!["C".to_owned(); 2]), "two states are called \"C\"");
        let gaussian = |covariances| Emissions::Gaussian { dimensions: 2, means: vec![0.0; 4], covariances };
        let diagonal = gaussian(Covariances::Diagonal(vec![1.0, 1.0, 0.0, 1.0]));
        assert_eq!(message(|m| m.emissions = diagonal), "covariances[1][0] is 0, expected a positive number");
        let full = gaussian(Covariances::Full(vec![1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 1.0]));
        assert_eq!(message(|m| m.emissions = full), "covariances[1] is not symmetric and positive definite");
    }

    #[test]
    fn zeros_stay_when_rows_are_scaled() {
        let mut model = model();
        (model.end, model.transitions) = (None, vec![0.333333, 0.666666, 0.0, 1.0]);
        let model = model.validated().unwrap();
        assert_eq!(model.transitions()[2..], [0.0, 1.0]);
        assert_eq!(model.transitions()[0] + model.transitions()[1], 1.0);
        assert_eq!(model.parameters(), 1 + 1 + 2 + 2);
    }
}
