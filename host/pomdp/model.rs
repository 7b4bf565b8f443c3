//! The model: a finite Markov decision process whose states are not seen, and what is seen instead.
//!
//! After action a the process goes from s to s' with probability T(s, a, s') and shows observation o ∈ {0 … |Ω| − 1} with
//! probability O(a, s', o). What is known of the state is a [belief](super::belief) b, which action a and observation o take to
//!
//! > b^{a,o}(s') ∝ O(a, s', o) · Σₛ T(s, a, s') b(s)

use std::collections::BTreeMap;

use super::belief::Belief;
use crate::common::parameters::SUM_TOLERANCE;
use crate::mdp::model::{Choices, Csr, InvalidCsr, Mdp, MdpParts, validate};

/// How far what sums to 1 may be from it by rounding alone: such rows are left as they are.
const ROUNDING: f64 = 1e-12;

/// What max |r(s, a)|/(1 − γ) must be below: bounds of values and their differences are numbers then.
const LARGEST: f64 = 1e300;

/// Names of what a model has, each list empty or with one name for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Names {
    /// Of states.
    pub states: Vec<String>,
    /// Of actions.
    pub actions: Vec<String>,
    /// Of observations.
    pub observations: Vec<String>,
}

/// What a partially observable Markov decision process is made of, to be [validated](Self::validated).
#[derive(Clone, Default)]
pub struct PomdpParts {
    /// The process beneath, with A actions in every state: row s·A + a of `transitions` is T(s, a, ·). Rewards
    /// R(s, a, s', o) are their expectations over o, which no value depends on.
    pub process: MdpParts,
    /// |Ω|, the number of observations.
    pub observation_count: u32,
    /// O(a, s', o): row a·S + s', |Ω| columns.
    pub observations: Csr,
    /// b₀, where the process starts.
    pub start: Belief,
    /// x(s), the part of each state that is always seen, also at the start (mixed observability: Ong, Png, Hsu and Lee,
    /// *International Journal of Robotics Research* 29, 2010), each below |S|; empty where there is none.
    pub seen: Vec<u32>,
    /// What states, actions and observations are called.
    pub names: Names,
}

/// A finite partially observable Markov decision process, made of [`PomdpParts`] that have been validated:
///
/// - the process is a valid [`Mdp`] with the same number of actions in every state, and never ends;
/// - O has a row for each action and state, with ascending columns below |Ω|;
/// - b₀ has states below |S|, ascending, and `seen` is empty or has a number below |S| for each state;
/// - rows of T and O and b₀ sum to 1, but for O of a model [with any observations](PomdpParts::with_any_observations).
///
/// ```compile_fail,E0616
/// # use warpkov::pomdp::generate::Tiger;
/// let mut pomdp = Tiger::default().generate().unwrap();
/// pomdp.observation_count = 1;
/// ```
#[derive(Clone)]
pub struct Pomdp {
    process: Mdp,
    observation_count: u32,
    observations: Csr,
    start: Belief,
    seen: Vec<u32>,
    names: Names,
}

/// Why a model is none.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// The process beneath is not valid.
    #[error(transparent)]
    Process(#[from] validate::Invalid),
    /// States differ in how many actions they have, or end.
    #[error("every state of a POMDP has the same actions and goes on: no state ends it")]
    Choices,
    /// No observation.
    #[error("a POMDP needs at least one observation")]
    NoObservations,
    /// O has the wrong shape.
    #[error("O has {found} rows, expected one for each action and state, {expected}")]
    Rows {
        /// Rows that are there.
        found: usize,
        /// A·S.
        expected: usize,
    },
    /// O's arrays are no matrix.
    #[error("O.{0}")]
    Matrix(#[from] InvalidCsr),
    /// An observation that is not there.
    #[error("O of action {action} in state {state}: observation {observation}, expected one below {count}")]
    Observation {
        /// The action.
        action: usize,
        /// The state that it led to.
        state: usize,
        /// What is said to be observed.
        observation: u32,
        /// |Ω|.
        count: u32,
    },
    /// Two entries for one observation.
    #[error("O of action {action} in state {state}: observation {observation} appears more than once")]
    Twice {
        /// The action.
        action: usize,
        /// The state that it led to.
        state: usize,
        /// The observation.
        observation: u32,
    },
    /// A number that is no probability.
    #[error("O of action {action} in state {state}: {value} for observation {observation} is no probability")]
    Probability {
        /// The action.
        action: usize,
        /// The state that it led to.
        state: usize,
        /// The observation.
        observation: u32,
        /// What it has.
        value: f64,
    },
    /// A row that is no distribution.
    #[error("O of action {action} in state {state} sums to {sum}, expected 1")]
    Sum {
        /// The action.
        action: usize,
        /// The state that it led to.
        state: usize,
        /// Σ over observations.
        sum: f64,
    },
    /// Values are beyond the numbers.
    #[error(
        "rewards as large as {largest:e} add up beyond the range of numbers; expected |r(s, a)|/(1 − γ) below 1e300"
    )]
    Rewards {
        /// max |r(s, a)|.
        largest: f64,
    },
    /// b₀ is no distribution over states.
    #[error("the start belief {0}")]
    Start(String),
    /// Parts that are seen of another number.
    #[error("the seen parts of {found} states, expected those of {expected}")]
    SeenStates {
        /// How many.
        found: usize,
        /// |S|.
        expected: usize,
    },
    /// A part that is seen has a number that is too large.
    #[error("the seen part of state {state} is {part}, expected a number below {count}, that of the states")]
    SeenPart {
        /// The state.
        state: usize,
        /// Its part.
        part: u32,
        /// |S|.
        count: usize,
    },
    /// A part that is said to be seen is not.
    #[error(
        "after action {action} observation {observation} can be seen in states {states:?}, whose seen parts differ; expected \
         observations that tell them apart"
    )]
    NotSeen {
        /// The action.
        action: usize,
        /// The observation.
        observation: u32,
        /// Two states.
        states: [usize; 2],
    },
    /// Names of another number.
    #[error("{found} names of {what}, expected {expected}")]
    Names {
        /// Of what.
        what: &'static str,
        /// How many names.
        found: usize,
        /// How many things.
        expected: u32,
    },
}

impl Pomdp {
    /// What the model is made of: to change some of it, and validate that.
    #[must_use]
    pub fn into_parts(self) -> PomdpParts {
        let Self { process, observation_count, observations, start, seen, names } = self;
        PomdpParts { process: process.into_parts(), observation_count, observations, start, seen, names }
    }

    /// The process beneath, with A actions in every state: row s·A + a of its transitions is T(s, a, ·). Rewards
    /// R(s, a, s', o) are their expectations over o, which no value depends on.
    #[inline]
    #[must_use]
    pub fn process(&self) -> &Mdp {
        &self.process
    }

    /// |Ω|, the number of observations.
    #[inline]
    #[must_use]
    pub fn observation_count(&self) -> u32 {
        self.observation_count
    }

    /// O(a, s', o): row a·S + s', |Ω| columns.
    #[inline]
    #[must_use]
    pub fn observations(&self) -> &Csr {
        &self.observations
    }

    /// b₀, where the process starts.
    #[must_use]
    pub fn start(&self) -> &Belief {
        &self.start
    }

    /// x(s), the part of each state that is always seen, also at the start; empty where there is none.
    #[must_use]
    pub fn seen(&self) -> &[u32] {
        &self.seen
    }

    /// What states, actions and observations are called.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// |S|.
    #[must_use]
    pub fn states(&self) -> u32 {
        self.process.states()
    }

    /// |A|.
    #[must_use]
    pub fn actions(&self) -> u32 {
        self.process.choices().max()
    }

    /// γ.
    #[must_use]
    pub fn gamma(&self) -> f64 {
        self.process.gamma()
    }

    /// T(s, a, ·): successors, ascending, and their probabilities.
    #[inline]
    #[must_use]
    pub fn successors(&self, state: u32, action: u32) -> (&[u32], &[f64]) {
        self.process.transitions().row(self.process.choices().first(state as usize) + action as usize)
    }

    /// O(a, s', ·): observations, ascending, and their probabilities.
    #[inline]
    #[must_use]
    pub fn observed(&self, action: u32, state: u32) -> (&[u32], &[f64]) {
        self.observations.row(action as usize * self.states() as usize + state as usize)
    }

    /// r(s, a), at s·A + a, in the model's own sign.
    #[must_use]
    pub fn expected_rewards(&self) -> Vec<f64> {
        self.process.expected_rewards()
    }

    /// r(b, a) = Σ b(s) r(s, a), of `rewards` r(s, a) at s·A + a.
    #[must_use]
    pub fn reward(&self, rewards: &[f64], belief: &Belief, action: u32) -> f64 {
        let actions = self.actions();
        belief.iter().map(|(state, prob)| prob * rewards[state as usize * actions as usize + action as usize]).sum()
    }

    /// What may be known at the start, before the first action: p(x) and b₀ given x for every x that b₀ allows, in the order of x.
    /// Without a part that is seen it is b₀.
    #[must_use]
    pub fn starts(&self) -> Vec<(f64, Belief)> {
        if self.seen.is_empty() {
            return vec![(1.0, self.start.clone())];
        }
        let mut parts: BTreeMap<u32, Belief> = BTreeMap::new();
        for (state, prob) in self.start.iter() {
            let part = parts.entry(self.seen[state as usize]).or_default();
            part.push(state, prob);
        }
        let known = |part: Belief| {
            let prob = part.sum();
            (prob, part.divided(prob))
        };
        parts.into_values().map(known).collect()
    }

    /// The states of each part x that is always seen, ascending, in the order of x, without parts that no state has: one part of
    /// all states, where none is seen.
    #[must_use]
    pub fn parts(&self) -> Vec<Vec<u32>> {
        let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for state in 0..self.states() {
            parts.entry(self.seen.get(state as usize).copied().unwrap_or_default()).or_default().push(state);
        }
        parts.into_values().collect()
    }

    /// Whether no action leads out of a state.
    #[must_use]
    pub fn is_absorbing(&self, state: u32) -> bool {
        (0..self.actions()).all(|action| self.successors(state, action).0 == [state])
    }

    /// The same model as one to be maximised: rewards are negated where they are costs.
    #[must_use]
    pub fn to_maximize(&self) -> Self {
        Self { process: self.process.to_maximize().into_owned(), ..self.clone() }
    }
}

impl PomdpParts {
    /// The model, [valid](Self::validated) but for rows of O, which are left as they are if scaling makes them distributions.
    ///
    /// # Errors
    /// Those of [`validated`](Self::validated).
    pub fn with_any_observations(self) -> Result<Pomdp, Invalid> {
        let observations = self.observations.clone();
        let mut val = observations.val().to_vec();
        for ends in observations.row_ptr().windows(2) {
            let row = &mut val[ends[0] as usize..ends[1] as usize];
            let sum: f64 = row.iter().sum();
            if sum > 0.0 {
                row.iter_mut().for_each(|p| *p /= sum);
            }
        }
        let valid = Self { observations: self.observations.with_values(val)?, ..self }.validated()?;
        Ok(Pomdp { observations: observations.sorted(), ..valid })
    }

    /// The model, if it is one.
    ///
    /// Every row of T and of O and the start belief are distributions: entries in [0, 1] that sum to 1 within
    /// [`SUM_TOLERANCE`]. Such rows are scaled to sum to 1, as nothing else has bounds that hold.
    ///
    /// # Errors
    /// The first violation found; see [`Invalid`].
    pub fn validated(self) -> Result<Pomdp, Invalid> {
        let Self { process, observation_count, observations, start, seen, names } = self;
        let process = MdpParts { transitions: scaled(process.transitions), ..process }.validated()?;
        Pomdp { process, observation_count, observations, start, seen, names }.checked()
    }
}

impl Pomdp {
    /// The model, if everything but the process is as it must be: rows of O are sorted, they and b₀ scaled to sum to 1.
    fn checked(mut self) -> Result<Self, Invalid> {
        if !matches!(self.process.choices(), Choices::Uniform(_)) || !self.process.ends().is_empty() {
            return Err(Invalid::Choices);
        }
        let (states, actions, count) = (self.states() as usize, self.actions() as usize, self.observation_count);
        // NaN where infinities of both signs meet.
        let largest = self
            .expected_rewards()
            .iter()
            .fold(0.0, |most: f64, r| if r.is_nan() { f64::INFINITY } else { most.max(r.abs()) });
        let rest = 1.0 - self.gamma();
        if largest / (if rest > 0.0 { rest } else { 1.0 }) >= LARGEST {
            return Err(Invalid::Rewards { largest });
        }
        if count == 0 {
            return Err(Invalid::NoObservations);
        }
        if self.observations.rows() != states * actions {
            return Err(Invalid::Rows { found: self.observations.rows(), expected: states * actions });
        }
        self.observations = self.observations.sorted();
        for row in 0..self.observations.rows() {
            let (action, state) = (row / states, row % states);
            let (col, val) = self.observations.row(row);
            if let Some(&observation) = col.iter().find(|&&observation| observation >= count) {
                return Err(Invalid::Observation { action, state, observation, count });
            }
            if let Some(pair) = col.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Invalid::Twice { action, state, observation: pair[0] });
            }
            if let Some((&observation, &value)) =
                col.iter().zip(val).find(|(_, p)| !(0.0..=1.0 + SUM_TOLERANCE).contains(*p))
            {
                return Err(Invalid::Probability { action, state, observation, value });
            }
            let sum: f64 = val.iter().sum();
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(Invalid::Sum { action, state, sum });
            }
        }
        self.observations = scaled(self.observations);
        self.sees()?;
        if !self.start.is_below(states as u32) {
            let state = self.start.states().last().copied().unwrap_or_default();
            return Err(Invalid::Start(format!("has state {state}, expected one below {states}")));
        }
        self.start = self.start.checked().map_err(|error| Invalid::Start(error.to_string()))?;
        let sum = self.start.sum();
        if (sum - 1.0).abs() > ROUNDING {
            self.start = self.start.divided(sum);
        }
        for (what, names, expected) in [
            ("states", &self.names.states, states as u32),
            ("actions", &self.names.actions, actions as u32),
            ("observations", &self.names.observations, count),
        ] {
            if !names.is_empty() && names.len() != expected as usize {
                return Err(Invalid::Names { what, found: names.len(), expected });
            }
        }
        Ok(self)
    }

    /// Whether the parts that are seen are.
    fn sees(&self) -> Result<(), Invalid> {
        let states = self.states() as usize;
        if self.seen.is_empty() {
            return Ok(());
        }
        if self.seen.len() != states {
            return Err(Invalid::SeenStates { found: self.seen.len(), expected: states });
        }
        if let Some(state) = self.seen.iter().position(|&part| part as usize >= states) {
            return Err(Invalid::SeenPart { state, part: self.seen[state], count: states });
        }
        for action in 0..self.actions() as usize {
            let mut told: Vec<Option<usize>> = vec![None; self.observation_count as usize];
            for state in 0..states {
                let (observed, probs) = self.observed(action as u32, state as u32);
                for (&observation, _) in observed.iter().zip(probs).filter(|(_, prob)| **prob > 0.0) {
                    let first = *told[observation as usize].get_or_insert(state);
                    if self.seen[first] != self.seen[state] {
                        return Err(Invalid::NotSeen { action, observation, states: [first, state] });
                    }
                }
            }
        }
        Ok(())
    }
}

/// A matrix with rows s·A + a by its columns: row a·S + s' holds the states s with an entry for s', ascending, and these entries.
#[must_use]
pub fn by_columns(matrix: &Csr, states: u32, actions: u32) -> Csr {
    let (states, actions) = (states as usize, actions as usize);
    let entries = || {
        (0..states * actions).flat_map(|row| {
            let (col, val) = matrix.row(row);
            col.iter()
                .zip(val)
                .map(move |(&next, &val)| (row % actions * states + next as usize, (row / actions) as u32, val))
        })
    };
    let mut row_ptr = vec![0; states * actions + 1];
    entries().for_each(|(column, ..)| row_ptr[column + 1] += 1);
    (0..states * actions).for_each(|column| row_ptr[column + 1] += row_ptr[column]);
    let (mut places, mut col, mut val) = (row_ptr.clone(), vec![0; matrix.nnz()], vec![0.0; matrix.nnz()]);
    for (column, state, value) in entries() {
        let place = places[column] as usize;
        places[column] += 1;
        (col[place], val[place]) = (state, value);
    }
    Csr::built(row_ptr, col, val)
}

/// Rows that nearly sum to 1, made to; others as they are.
pub(crate) fn scaled(matrix: Csr) -> Csr {
    let sum = |row: usize| matrix.row(row).1.iter().sum::<f64>();
    let near = |sum: f64| (ROUNDING..=SUM_TOLERANCE).contains(&(sum - 1.0).abs());
    if !(0..matrix.rows()).any(|row| near(sum(row))) {
        return matrix;
    }
    let mut val = matrix.val().to_vec();
    for row in 0..matrix.rows() {
        let sum = sum(row);
        if near(sum) {
            val[matrix.row_ptr()[row] as usize..matrix.row_ptr()[row + 1] as usize].iter_mut().for_each(|p| *p /= sum);
        }
    }
    Csr::built(matrix.row_ptr().clone(), matrix.col().clone(), val)
}
