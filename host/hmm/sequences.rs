//! Sequences of observations of any lengths.

use std::collections::HashMap;
use std::ops::Range;

use super::channels::{Channels, Unsupported};
use super::model::{Emissions, Hmm};

/// Placeholder for the state of an observation where none is known, and in the path of an impossible sequence.
pub const NO_STATE: u32 = u32::MAX;

/// M validated sequences, stored contiguously. Invariants: M ≥ 1; `offsets` ascends strictly from 0 to the number of
/// observations, so each sequence has length at least 1; symbols are below 2³² − 1; vectors are finite, except that NaN
/// marks a missing component in sequences [with missing components](Self::with_missing). There is no [known state](Self::with_states),
/// or each observation has one or [`NO_STATE`].
///
/// ```compile_fail,E0616
/// use warpkov_hmm::sequences::Sequences;
/// let mut sequences = Sequences::of_symbols(&[[0, 1]]).unwrap();
/// sequences.offsets = vec![0, 100];
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sequences {
    offsets: Vec<u64>,
    observations: Observations,
    /// The largest symbol plus 1; 0 for vectors.
    symbols: u32,
    /// Number of vectors with missing components.
    partial: usize,
    /// The state of each observation, [`NO_STATE`] where it is unknown; empty if none is known.
    states: Vec<u32>,
    /// The weight of each sequence; empty if all are 1.
    weights: Vec<f64>,
}

/// The ΣT observations of all sequences.
#[derive(Clone, Debug, PartialEq)]
pub enum Observations {
    /// Symbol numbers, from 0.
    Symbols(Vec<u32>),
    /// Vectors.
    Vectors {
        /// D, the dimension.
        dimensions: u32,
        /// Components, ΣT × D, row by row. NaN: the component is missing.
        values: Vec<f64>,
    },
}

/// An observation of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation<'a> {
    /// A symbol number, from 0.
    Symbol(u32),
    /// The D components of a vector. NaN: the component is missing.
    Vector(&'a [f64]),
    /// The step has no observation: every state emits it with probability 1.
    Missing,
}

impl Observations {
    /// The symbol of observation `at`; `None` for vectors.
    #[inline(always)]
    pub(crate) fn symbol(&self, at: usize) -> Option<u32> {
        match self {
            Self::Symbols(symbols) => Some(symbols[at]),
            Self::Vectors { .. } => None,
        }
    }
}

/// Why sequences are invalid or do not fit a model. Sequences and positions are numbered from 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// There are no sequences.
    #[error("there is no sequence")]
    None,
    /// A sequence has no observations, or offsets descend.
    #[error("sequence {sequence} is empty")]
    Empty {
        /// The sequence.
        sequence: usize,
    },
    /// The offsets do not end at the number of observations.
    #[error("the offsets describe {expected} observations, found {found}")]
    Length {
        /// Number of observations.
        found: usize,
        /// Number of observations according to the offsets.
        expected: u64,
    },
    /// A number is not finite.
    #[error("sequence {sequence}, position {position}: found {found}, expected a finite number")]
    Value {
        /// The sequence.
        sequence: usize,
        /// The position in the sequence.
        position: usize,
        /// The number.
        found: f64,
    },
    /// The model does not have a symbol.
    #[error("sequence {sequence}, position {position}: found symbol {found}, expected one below {symbols}")]
    Symbol {
        /// The sequence.
        sequence: usize,
        /// The position in the sequence.
        position: usize,
        /// The symbol.
        found: u32,
        /// V.
        symbols: u32,
    },
    /// The number of known and unknown states is not that of observations.
    #[error("found {found} states, expected {expected}, one for each observation")]
    States {
        /// Number of states.
        found: usize,
        /// Number of observations.
        expected: usize,
    },
    /// The model does not have a known state.
    #[error("sequence {sequence}, position {position}: found state {found}, expected one below {states}")]
    State {
        /// The sequence.
        sequence: usize,
        /// The position in the sequence.
        position: usize,
        /// The state.
        found: u32,
        /// N.
        states: u32,
    },
    /// There are not as many weights as sequences, one is not a finite number of at least 0, or all are 0.
    #[error("{0}")]
    Weights(String),
    /// A channel of the model does not emit a component, whatever its parameters.
    #[error("sequence {sequence}, position {position}, column {column}: found {found}, expected {expected}")]
    Component {
        /// The sequence.
        sequence: usize,
        /// The position in the sequence.
        position: usize,
        /// The column, by name or number.
        column: String,
        /// The component; NaN if it is missing.
        found: f64,
        /// What the channel emits.
        expected: &'static str,
    },
    /// The sequences hold symbols and the model emits vectors, or vice versa, or the dimensions differ.
    #[error("the sequences hold {found}, expected {expected}, which the model emits")]
    Kind {
        /// The observations.
        found: String,
        /// The model's emissions.
        expected: String,
    },
}

impl Sequences {
    /// Offsets into the observations, M + 1: sequence m is `offsets[m]..offsets[m + 1]`.
    #[inline]
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The observations of all sequences.
    #[inline]
    #[must_use]
    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// M, the number of sequences.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no sequences.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// ΣT, the number of observations.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.offsets.last().map_or(0, |&end| end as usize)
    }

    /// The indices of a sequence's observations.
    #[must_use]
    pub fn range(&self, sequence: usize) -> Range<usize> {
        self.offsets[sequence] as usize..self.offsets[sequence + 1] as usize
    }

    /// Validates sequences of symbols.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of_symbols<S: AsRef<[u32]>>(sequences: &[S]) -> Result<Self, Invalid> {
        let lengths = sequences.iter().map(|sequence| sequence.as_ref().len());
        let symbols = sequences.iter().flat_map(|sequence| sequence.as_ref()).copied().collect();
        Self::new(offsets(lengths), Observations::Symbols(symbols))
    }

    /// Validates sequences given by M + 1 [`offsets`](Self::offsets).
    ///
    /// # Errors
    /// If there are no sequences, if one is empty, if the offsets do not match the observations, if a number is not
    /// finite, or if a symbol is 2³² − 1.
    pub fn new(offsets: Vec<u64>, observations: Observations) -> Result<Self, Invalid> {
        let symbols = match &observations {
            Observations::Symbols(symbols) => symbols.iter().max().map_or(0, |largest| largest.saturating_add(1)),
            Observations::Vectors { .. } => 0,
        };
        Self { offsets, observations, symbols, partial: 0, states: Vec::new(), weights: Vec::new() }.checked()
    }

    /// Validates sequences in which a component of NaN is missing. The model then emits the vector with the marginal
    /// density of its other components; a vector without components has density 1.
    ///
    /// ```
    /// use warpkov_hmm::sequences::{Observations, Sequences};
    ///
    /// let vectors = Observations::Vectors { dimensions: 2, values: vec![0.5, f64::NAN, 1.0, 2.0] };
    /// assert_eq!(Sequences::with_missing(vec![0, 2], vectors.clone())?.partial(), 1);
    /// assert!(Sequences::new(vec![0, 2], vectors).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`new`](Self::new), except for NaN in vectors.
    pub fn with_missing(offsets: Vec<u64>, mut observations: Observations) -> Result<Self, Invalid> {
        let mut partial = 0;
        if let Observations::Vectors { dimensions, values } = &mut observations {
            for row in values.chunks_mut((*dimensions).max(1) as usize) {
                partial += usize::from(row.iter().any(|x| x.is_nan()));
            }
            // Equal sequences have equal bits.
            values.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = f64::NAN);
        }
        let symbols = match &observations {
            Observations::Symbols(symbols) => symbols.iter().max().map_or(0, |largest| largest.saturating_add(1)),
            Observations::Vectors { .. } => 0,
        };
        Self { offsets, observations, symbols, partial, states: Vec::new(), weights: Vec::new() }.checked()
    }

    /// The same sequences with weights, M finite numbers of at least 0: training maximises Σ w ln P(O), as if a sequence occurred w
    /// times. No other result depends on weights.
    ///
    /// # Errors
    /// [`Invalid::Weights`].
    pub fn with_weights(mut self, weights: Vec<f64>) -> Result<Self, Invalid> {
        let (found, expected) = (weights.len(), self.len());
        if found != expected {
            return Err(Invalid::Weights(format!("found {found} weights, expected {expected}, one for each sequence")));
        }
        if let Some(at) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            let (sequence, weight) = (at + 1, weights[at]);
            let message =
                format!("the weight of sequence {sequence} is {weight}, expected a finite number of at least 0");
            return Err(Invalid::Weights(message));
        }
        if weights.iter().all(|weight| *weight == 0.0) {
            return Err(Invalid::Weights("all weights are 0".to_owned()));
        }
        self.weights = if weights.iter().all(|weight| *weight == 1.0) { Vec::new() } else { weights };
        Ok(self)
    }

    /// The weight of each sequence, M numbers; empty if all are 1.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The weight of a sequence.
    #[must_use]
    pub fn weight(&self, sequence: usize) -> f64 {
        self.weights.get(sequence).copied().unwrap_or(1.0)
    }

    /// Σ w T over the sequences: the number of observations, each counted by the weight of its sequence.
    #[must_use]
    pub fn weighted_steps(&self) -> f64 {
        match &self.weights[..] {
            [] => self.steps() as f64,
            weights => (0..).zip(weights).map(|(sequence, weight)| weight * self.range(sequence).len() as f64).sum(),
        }
    }

    /// The greatest power of two up to the largest weight. Recursions in any precision bear weights in this unit.
    pub(crate) fn unit(&self) -> f64 {
        let largest = self.weights.iter().copied().fold(0.0, f64::max);
        // Without the mantissa.
        if largest >= f64::MIN_POSITIVE { f64::from_bits(largest.to_bits() >> 52 << 52) } else { 1.0 }
    }

    /// The same sequences, whose hidden states are known at some or all steps: ΣT states, [`NO_STATE`] where one is unknown. A
    /// known state s restricts the recursions: bⱼ(o) is 0 in every other state j. P(O) then becomes P(O, the known states), and
    /// training is supervised.
    ///
    /// ```
    /// use warpkov_hmm::backends::cpu::Exact;
    /// use warpkov_hmm::generate::IceCream;
    /// use warpkov_hmm::sequences::{NO_STATE, Sequences};
    ///
    /// let model = IceCream.generate()?;
    /// let days = Sequences::of_symbols(&[[1, 2, 2]])?;
    /// let known = days.clone().with_states(vec![NO_STATE, 0, NO_STATE])?;
    /// let log = |days: &Sequences| Exact::new(&model).log_likelihoods(days, &[0])[0];
    /// assert!(log(&known) < log(&days));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Invalid::States`] if there are not as many states as observations.
    pub fn with_states(mut self, states: Vec<u32>) -> Result<Self, Invalid> {
        let (found, expected) = (states.len(), self.steps());
        if found != expected {
            return Err(Invalid::States { found, expected });
        }
        let known = states.iter().any(|&state| state != NO_STATE);
        self.states = if known { states } else { Vec::new() };
        Ok(self)
    }

    /// The state of each observation, ΣT, [`NO_STATE`] where it is unknown; empty if none is known.
    #[must_use]
    pub fn states(&self) -> &[u32] {
        &self.states
    }

    /// The state of observation `at`, if it is known.
    #[inline(always)]
    #[must_use]
    pub fn state(&self, at: usize) -> Option<u32> {
        self.states.get(at).copied().filter(|&state| state != NO_STATE)
    }

    /// Number of vectors with missing components.
    #[must_use]
    pub fn partial(&self) -> usize {
        self.partial
    }

    fn checked(self) -> Result<Self, Invalid> {
        if self.is_empty() {
            return Err(Invalid::None);
        }
        if let Some(at) = self.offsets.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(Invalid::Empty { sequence: at + 1 });
        }
        let expected = self.offsets[self.len()];
        let found = match &self.observations {
            Observations::Symbols(symbols) => {
                if self.symbols == u32::MAX
                    && let Some(at) = symbols.iter().position(|&symbol| symbol == u32::MAX)
                {
                    let (sequence, position) = self.place(at);
                    return Err(Invalid::Symbol { sequence, position, found: u32::MAX, symbols: u32::MAX });
                }
                symbols.len()
            }
            Observations::Vectors { dimensions: 0, .. } => 0,
            Observations::Vectors { dimensions, values } => {
                let d = *dimensions as usize;
                if let Some(at) = values.iter().position(|x| !(x.is_finite() || x.is_nan() && self.partial > 0)) {
                    let (sequence, position) = self.place(at / d);
                    return Err(Invalid::Value { sequence, position, found: values[at] });
                }
                if values.len() % d == 0 { values.len() / d } else { usize::MAX }
            }
        };
        if self.offsets[0] != 0 || found as u64 != expected {
            return Err(Invalid::Length { found, expected });
        }
        Ok(self)
    }

    /// The first observation with a known state that a model of N states lacks.
    fn foreign(&self, states: u32) -> Option<usize> {
        self.states.iter().position(|&state| state >= states && state != NO_STATE)
    }

    /// Whether a model emits the observations, symbols below its V or vectors of its dimension, and has the known states.
    #[must_use]
    pub fn fit(&self, model: &Hmm) -> bool {
        let emits = match (&self.observations, model.emissions()) {
            (Observations::Symbols(_), Emissions::Categorical { symbols, .. }) => self.symbols <= *symbols,
            (Observations::Vectors { dimensions: found, .. }, Emissions::Gaussian { dimensions, .. }) => {
                found == dimensions
            }
            (Observations::Vectors { dimensions, .. }, Emissions::Channels(channels)) => {
                *dimensions == channels.dimensions && self.unsupported(channels, model).is_none()
            }
            _ => false,
        };
        emits && self.foreign(model.states()).is_none()
    }

    /// The first observation with a component that a channel of the model does not emit, and that component.
    fn unsupported(&self, channels: &Channels, model: &Hmm) -> Option<(usize, Unsupported)> {
        let n = model.start().len();
        (0..self.steps())
            .find_map(|at| channels.unsupported(n, self.rows(at, channels.lags())).map(|found| (at, found)))
    }

    /// The vector `at` and up to `lags` vectors before it in its sequence; empty for symbols.
    pub(crate) fn rows(&self, at: usize, lags: usize) -> &[f64] {
        let Observations::Vectors { dimensions, values } = &self.observations else { return &[] };
        let (d, lags) = (*dimensions as usize, if lags > 0 { lags.min(self.place(at).1 - 1) } else { 0 });
        &values[(at - lags) * d..(at + 1) * d]
    }

    /// Checks that a model emits the observations; see [`fit`](Self::fit).
    ///
    /// # Errors
    /// [`Invalid::Symbol`] or [`Invalid::State`] with the first symbol or known state that the model lacks, or [`Invalid::Kind`].
    pub fn check(&self, model: &Hmm) -> Result<(), Invalid> {
        if self.fit(model) {
            return Ok(());
        }
        self.check_states(model)?;
        match (&self.observations, model.emissions()) {
            (Observations::Symbols(observed), &Emissions::Categorical { symbols, .. }) => {
                let at = observed.iter().position(|&symbol| symbol >= symbols).unwrap_or_default();
                let (sequence, position) = self.place(at);
                Err(Invalid::Symbol { sequence, position, found: observed[at], symbols })
            }
            (Observations::Vectors { dimensions, .. }, Emissions::Channels(channels))
                if *dimensions == channels.dimensions
                    && let Some((at, Unsupported { column, found, expected })) = self.unsupported(channels, model) =>
            {
                let (sequence, position) = self.place(at);
                Err(Invalid::Component { sequence, position, column: channels.column(column), found, expected })
            }
            (observations, emissions) => Err(Invalid::Kind {
                found: match observations {
                    Observations::Symbols(_) => "symbols".to_owned(),
                    Observations::Vectors { dimensions, .. } => vectors(*dimensions),
                },
                expected: emissions.dimensions().map_or_else(|| "symbols".to_owned(), vectors),
            }),
        }
    }

    /// Checks that a model has the known states.
    ///
    /// # Errors
    /// [`Invalid::State`] with the first one that the model lacks.
    pub fn check_states(&self, model: &Hmm) -> Result<(), Invalid> {
        let Some(at) = self.foreign(model.states()) else { return Ok(()) };
        let (sequence, position) = self.place(at);
        Err(Invalid::State { sequence, position, found: self.states[at], states: model.states() })
    }

    /// The position, from 1, at which the zeros of the model make a sequence impossible: the first one whose
    /// observation no reachable state emits, or T + 1 if no reachable state can end the sequence. `None` if the
    /// sequence is possible.
    ///
    /// The sequences [fit](Self::fit) the model.
    #[must_use]
    pub fn impossible_at(&self, model: &Hmm, sequence: usize) -> Option<usize> {
        let n = model.start().len();
        let channels = match model.emissions() {
            Emissions::Channels(channels) => Some((channels.emitting(n), channels.lags())),
            _ => None,
        };
        let emits = |state: usize, at: usize| match (&self.observations, model.emissions()) {
            _ if self.state(at).is_some_and(|known| known as usize != state) => false,
            (Observations::Symbols(seen), Emissions::Categorical { symbols, probs }) => {
                probs[state * *symbols as usize + seen[at] as usize] > 0.0
            }
            // Normal densities are positive everywhere.
            _ => true,
        };
        // Only few distinct sets of states occur, so their successors are memoised.
        let mut successors: HashMap<Vec<bool>, Vec<bool>> = HashMap::new();
        let mut reached: Vec<bool> = model.start().iter().map(|p| *p > 0.0).collect();
        for (position, at) in self.range(sequence).enumerate() {
            if position > 0 {
                let next = successors.entry(reached).or_insert_with_key(|reached| {
                    let from = || (0..n).filter(|&state| reached[state]);
                    (0..n).map(|to| from().any(|state| model.row(state)[to] > 0.0)).collect()
                });
                reached = next.clone();
            }
            reached.iter_mut().enumerate().for_each(|(state, reached)| *reached = *reached && emits(state, at));
            if let Some((emitting, lags)) = &channels {
                let emitting = emitting(self.rows(at, *lags));
                reached.iter_mut().zip(emitting).for_each(|(reached, emits)| *reached = *reached && emits);
            }
            if !reached.contains(&true) {
                return Some(position + 1);
            }
        }
        let end = model.end()?;
        let ends = (0..n).any(|state| reached[state] && end[state] > 0.0);
        (!ends).then(|| self.range(sequence).len() + 1)
    }

    /// The sequences with these indices, in this order; `None` if there are none.
    ///
    /// # Panics
    /// If there is no such sequence.
    #[must_use]
    pub fn select(&self, which: &[usize]) -> Option<Self> {
        let mut selected = self.cut(&which.iter().map(|&sequence| self.range(sequence)).collect::<Vec<_>>())?;
        if !self.weights.is_empty() {
            selected.weights = which.iter().map(|&sequence| self.weights[sequence]).collect();
        }
        Some(selected)
    }

    /// Sequences of the observations in `ranges`, in this order, with weights of 1; `None` if there are none.
    pub(crate) fn cut(&self, ranges: &[Range<usize>]) -> Option<Self> {
        let offsets = offsets(ranges.iter().map(Range::len));
        let each = || ranges.iter().cloned();
        let observations = match &self.observations {
            Observations::Symbols(symbols) => {
                Observations::Symbols(each().flat_map(|range| &symbols[range]).copied().collect())
            }
            &Observations::Vectors { dimensions, ref values } => {
                let d = dimensions as usize;
                let values = each().flat_map(|range| &values[range.start * d..range.end * d]).copied().collect();
                Observations::Vectors { dimensions, values }
            }
        };
        let mut cut = match self.partial {
            0 => Self::new(offsets, observations),
            _ => Self::with_missing(offsets, observations),
        }
        .ok()?;
        if !self.states.is_empty() {
            cut.states = each().flat_map(|range| &self.states[range]).copied().collect();
        }
        Some(cut)
    }

    /// The sequence and the position, both from 1, of observation `at`.
    #[must_use]
    pub fn place(&self, at: usize) -> (usize, usize) {
        place(&self.offsets, at)
    }
}

/// [`Sequences::place`] for given offsets.
pub(crate) fn place(offsets: &[u64], at: usize) -> (usize, usize) {
    let sequence = offsets.partition_point(|&offset| offset <= at as u64).max(1);
    (sequence, at - offsets[sequence - 1] as usize + 1)
}

fn vectors(dimensions: u32) -> String {
    if dimensions == 1 { "numbers".to_owned() } else { format!("vectors of {dimensions} numbers") }
}

/// Offsets of sequences of these lengths.
#[must_use]
pub fn offsets(lengths: impl IntoIterator<Item = usize>) -> Vec<u64> {
    let ends = lengths.into_iter().scan(0, |end, length| {
        *end += length as u64;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let message = |sequences: &[&[u32]]| Sequences::of_symbols(sequences).unwrap_err().to_string();
        assert_eq!(message(&[]), "there is no sequence");
        assert_eq!(message(&[&[0], &[], &[1]]), "sequence 2 is empty");
        let values = vec![0.0, 1.0, 2.0, f64::NAN];
        let vectors = |offsets, values| Sequences::new(offsets, Observations::Vectors { dimensions: 2, values });
        let error = vectors(vec![0, 1, 2], values).unwrap_err();
        assert_eq!(error.to_string(), "sequence 2, position 1: found NaN, expected a finite number");
        let error = vectors(vec![0, 1, 3], vec![0.0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "the offsets describe 3 observations, found 2");
    }

    #[test]
    fn places_are_counted_from_one() {
        let sequences = Sequences::of_symbols(&[vec![0, 1], vec![2], vec![3, 4, 5]]).unwrap();
        assert_eq!(sequences.offsets, [0, 2, 3, 6]);
        assert_eq!([0, 1, 2, 3, 5].map(|at| sequences.place(at)), [(1, 1), (1, 2), (2, 1), (3, 1), (3, 3)]);
    }
}
