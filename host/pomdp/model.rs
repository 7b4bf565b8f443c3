//! The model: a finite Markov decision process with hidden states and an observation after every action.
//!
//! Action a moves the process from s to s' with probability T(s, a, s') and emits observation o ∈ {0 … |Ω| − 1} with
//! probability O(a, s', o). A [belief](super::belief) b is the posterior distribution over states. Action a and
//! observation o update it by Bayes' rule:
//!
//! > b^{a,o}(s') ∝ O(a, s', o) · Σₛ T(s, a, s') b(s)

use std::collections::BTreeMap;

use super::belief::Belief;
use warpkov_common::names::Item;
use warpkov_common::parameters::SUM_TOLERANCE;
use warpkov_common::terminal::quoted;
use warpkov_mdp::info::bytes;
use warpkov_mdp::model::{Choices, Csr, InvalidCsr, Mdp, MdpParts, Objective, validate};

/// Largest deviation of a probability row's sum from 1 that rounding explains; such a row is not rescaled.
const ROUNDING: f64 = 1e-12;

/// Exclusive upper limit of max |r(s, a)|/(1 − γ), so that bounds on values and their differences stay finite.
const LARGEST: f64 = 1e300;

/// Names of states, actions and observations. Each list is empty or complete, and its names are distinct.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Names {
    /// One name per state.
    pub states: Vec<String>,
    /// One name per action.
    pub actions: Vec<String>,
    /// One name per observation.
    pub observations: Vec<String>,
}

/// The parts of a partially observable Markov decision process, before [validation](Self::validated).
#[derive(Clone, Default)]
pub struct PomdpParts {
    /// The underlying MDP with A actions in every state: row s·A + a of `transitions` is T(s, a, ·). Rewards R(s, a,
    /// s', o) are replaced by their expectations over o, which leaves all values unchanged.
    pub process: MdpParts,
    /// |Ω|, the number of observations.
    pub observation_count: u32,
    /// O(a, s', o): row a·S + s', |Ω| columns.
    pub observations: Csr,
    /// b₀, the initial belief.
    pub start: Belief,
    /// x(s), the fully observed component of each state, known from the start (mixed observability: Ong, Png, Hsu and
    /// Lee, *International Journal of Robotics Research* 29, 2010). Each entry is below |S|; empty for a model without
    /// such a component.
    pub seen: Vec<u32>,
    /// Names of states, actions and observations.
    pub names: Names,
}

/// A finite partially observable Markov decision process, built from validated [`PomdpParts`]. Invariants:
///
/// - the process is a valid [`Mdp`] with the same number of actions in every state and no terminal states;
/// - O has one row per action and state, with strictly ascending columns below |Ω|;
/// - b₀ has strictly ascending states below |S|, and `seen` is empty or has one number below |S| per state;
/// - b₀ and the rows of T and O sum to 1, except rows of O built by [`PomdpParts::with_any_observations`].
///
/// ```compile_fail,E0616
/// # use warpkov_pomdp::generate::Tiger;
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

/// Why the parts of a model are invalid.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// The underlying MDP is invalid.
    #[error(transparent)]
    Process(#[from] validate::Invalid),
    /// States have different numbers of actions, or a state is terminal.
    #[error("every state of a POMDP needs the same actions, and no state may be terminal")]
    Choices,
    /// |Ω| = 0.
    #[error("a POMDP needs at least one observation")]
    NoObservations,
    /// O has the wrong number of rows.
    #[error("O has {found} rows, expected {expected}, one per action and state")]
    Rows {
        /// Rows found.
        found: usize,
        /// A·S.
        expected: usize,
    },
    /// The arrays of O are not a CSR matrix.
    #[error("O.{0}")]
    Matrix(#[from] InvalidCsr),
    /// An observation out of range.
    #[error("O of action {action} in state {state}: observation {observation}, expected one below {count}")]
    Observation {
        /// The action.
        action: Item,
        /// The successor state.
        state: Item,
        /// The observation found.
        observation: Item,
        /// |Ω|.
        count: u32,
    },
    /// Two entries for one observation in a row.
    #[error("O of action {action} in state {state}: observation {observation} appears more than once")]
    Twice {
        /// The action.
        action: Item,
        /// The successor state.
        state: Item,
        /// The observation.
        observation: Item,
    },
    /// An entry outside [0, 1].
    #[error("O of action {action} in state {state}: observation {observation} has probability {value}, not in [0, 1]")]
    Probability {
        /// The action.
        action: Item,
        /// The successor state.
        state: Item,
        /// The observation.
        observation: Item,
        /// The entry found.
        value: f64,
    },
    /// A row that does not sum to 1.
    #[error("O of action {action} in state {state} sums to {sum}, expected 1")]
    Sum {
        /// The action.
        action: Item,
        /// The successor state.
        state: Item,
        /// Sum over observations.
        sum: f64,
    },
    /// Values may overflow.
    #[error("rewards as large as {largest:e} add up beyond the range of f64; expected |r(s, a)|/(1 − γ) below 1e300")]
    Rewards {
        /// max |r(s, a)|.
        largest: f64,
    },
    /// b₀ is not a distribution over states.
    #[error("the start belief {0}")]
    Start(String),
    /// `seen` has the wrong length.
    #[error("the observed component is given for {found} states, expected {expected}")]
    SeenStates {
        /// Entries found.
        found: usize,
        /// |S|.
        expected: usize,
    },
    /// An entry of `seen` is out of range.
    #[error("the observed component of state {state} is {part}, expected a number below {count}, the number of states")]
    SeenPart {
        /// The state.
        state: Item,
        /// x(s).
        part: u32,
        /// |S|.
        count: usize,
    },
    /// Observations do not determine the component declared as fully observed.
    #[error(
        "after action {action}, states {} and {} both emit observation {observation} but differ in their observed \
         component; expected observations that determine it",
        .states[0], .states[1]
    )]
    NotSeen {
        /// The action.
        action: Item,
        /// The observation.
        observation: Item,
        /// Two states with the same observation and different components.
        states: [Item; 2],
    },
    /// Rows of O do not sum to 1, and those of its transpose do.
    #[error(
        "O of action {action} in state {state} sums to {sum}, expected 1, but every column does: O looks transposed, \
         expected O(a, s', o) of successor s' and observation o"
    )]
    Transposed {
        /// The action.
        action: Item,
        /// The successor state.
        state: Item,
        /// Sum over observations.
        sum: f64,
    },
    /// A table does not have the shape or the names of the model.
    #[error("{0}")]
    Table(String),
    /// Two states, actions or observations have the same name.
    #[error("two {what} are called \"{}\"", quoted(name.as_bytes()))]
    SameName {
        /// Kind of names.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A list of names has the wrong length.
    #[error("{found} names of {what}, expected {expected}")]
    Names {
        /// Kind of names.
        what: &'static str,
        /// Names found.
        found: usize,
        /// |S|, |A| or |Ω|.
        expected: u32,
    },
}

impl Pomdp {
    /// Takes the model apart, so that a caller can change parts and validate them again.
    #[must_use]
    pub fn into_parts(self) -> PomdpParts {
        let Self { process, observation_count, observations, start, seen, names } = self;
        PomdpParts { process: process.into_parts(), observation_count, observations, start, seen, names }
    }

    /// The underlying MDP with A actions in every state: row s·A + a of its transitions is T(s, a, ·). Rewards R(s, a,
    /// s', o) are expectations over o.
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

    /// b₀, the initial belief.
    #[must_use]
    pub fn start(&self) -> &Belief {
        &self.start
    }

    /// x(s), the fully observed component of each state; empty for a model without one.
    #[must_use]
    pub fn seen(&self) -> &[u32] {
        &self.seen
    }

    /// Names of states, actions and observations.
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

    /// T(s, a, ·): successors in ascending order and their probabilities.
    #[inline]
    #[must_use]
    pub fn successors(&self, state: u32, action: u32) -> (&[u32], &[f64]) {
        self.process.transitions().row(self.process.choices().first(state as usize) + action as usize)
    }

    /// O(a, s', ·): observations in ascending order and their probabilities.
    #[inline]
    #[must_use]
    pub fn observed(&self, action: u32, state: u32) -> (&[u32], &[f64]) {
        self.observations.row(action as usize * self.states() as usize + state as usize)
    }

    /// Bytes of the arrays in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let process = self.process();
        let matrices = [process.transitions(), process.rewards(), self.observations()];
        matrices.map(bytes).iter().sum::<usize>() + size_of_val(&process.action_rewards()[..])
    }

    /// r(s, a) at index s·A + a, in the model's own sign.
    #[must_use]
    pub fn expected_rewards(&self) -> Vec<f64> {
        self.process.expected_rewards()
    }

    /// r(b, a) = Σ b(s) r(s, a), with `rewards` r(s, a) at index s·A + a.
    #[must_use]
    pub fn reward(&self, rewards: &[f64], belief: &Belief, action: u32) -> f64 {
        let actions = self.actions();
        belief.iter().map(|(state, prob)| prob * rewards[state as usize * actions as usize + action as usize]).sum()
    }

    /// Initial beliefs after the observed component is known: (p(x), b₀ given x) for every x with p(x) > 0, in
    /// ascending order of x. Without an observed component, (1, b₀).
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

    /// The states of each value x of the observed component, ascending, in ascending order of x. Values without states
    /// are skipped. Without an observed component, one list of all states.
    #[must_use]
    pub fn parts(&self) -> Vec<Vec<u32>> {
        let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for state in 0..self.states() {
            parts.entry(self.seen.get(state as usize).copied().unwrap_or_default()).or_default().push(state);
        }
        parts.into_values().collect()
    }

    /// Whether every action keeps the process in this state.
    #[must_use]
    pub fn is_absorbing(&self, state: u32) -> bool {
        (0..self.actions()).all(|action| self.successors(state, action).0 == [state])
    }

    /// The same model with the objective to minimise, or to maximise: rewards stay as they are.
    #[must_use]
    pub fn with_objective(&self, minimize: bool) -> Self {
        let objective = if minimize { Objective::Minimize } else { Objective::Maximize };
        Self { process: self.process.clone().with_objective(objective), ..self.clone() }
    }

    /// The same model with rewards r(s, a) at s·A + a.
    ///
    /// # Errors
    /// If a reward is no number, or their number is wrong.
    pub fn with_rewards(&self, rewards: Vec<f64>, objective: Objective) -> Result<Self, Invalid> {
        let process = self.process.clone().into_parts();
        let process = MdpParts { rewards: Csr::default(), action_rewards: rewards.into(), objective, ..process };
        let changed = Self { process: process.validated()?, ..self.clone() };
        changed.check_rewards()?;
        Ok(changed)
    }

    /// The same model as a maximisation problem: costs become negated rewards.
    #[must_use]
    pub fn to_maximize(&self) -> Self {
        Self { process: self.process.to_maximize().into_owned(), ..self.clone() }
    }
}

impl PomdpParts {
    /// Validates the model like [`validated`](Self::validated), but accepts rows of O with any positive sum and keeps them
    /// unscaled: only the scaled row must be a distribution.
    ///
    /// # Errors
    /// The errors of [`validated`](Self::validated).
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

    /// Validates the parts.
    ///
    /// Every row of T, every row of O and b₀ must be distributions: entries in [0, 1] that sum to 1 within
    /// [`SUM_TOLERANCE`]. They are rescaled to sum to 1, because bounds hold only for exact distributions.
    ///
    /// # Errors
    /// The first violation found, as [`Invalid`].
    pub fn validated(self) -> Result<Pomdp, Invalid> {
        let Self { process, observation_count, observations, start, seen, names } = self;
        let process = MdpParts { transitions: scaled(process.transitions), ..process }.validated();
        let process = process.map_err(|error| {
            let named = |names: &[String], item: &Item| names.get(item.number).map(|name| name.as_str().into());
            error.named(|row| named(&names.states, &row.state), |row| named(&names.actions, &row.action))
        })?;
        Pomdp { process, observation_count, observations, start, seen, names }.checked()
    }
}

impl Pomdp {
    /// Checks that values are finite.
    fn check_rewards(&self) -> Result<(), Invalid> {
        // NaN arises where infinities of both signs meet.
        let largest = self
            .expected_rewards()
            .iter()
            .fold(0.0, |most: f64, r| if r.is_nan() { f64::INFINITY } else { most.max(r.abs()) });
        let rest = 1.0 - self.gamma();
        match largest / (if rest > 0.0 { rest } else { 1.0 }) >= LARGEST {
            true => Err(Invalid::Rewards { largest }),
            false => Ok(()),
        }
    }

    /// Validates everything except the process. Sorts the rows of O, and rescales these rows and b₀ to sum to 1.
    fn checked(mut self) -> Result<Self, Invalid> {
        if !matches!(self.process.choices(), Choices::Uniform(_)) || !self.process.ends().is_empty() {
            return Err(Invalid::Choices);
        }
        let (states, actions, count) = (self.states() as usize, self.actions() as usize, self.observation_count);
        self.check_rewards()?;
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
                let [action, state, observation] = self.items([action, state, observation as usize]);
                return Err(Invalid::Observation { action, state, observation, count });
            }
            if let Some(pair) = col.windows(2).find(|pair| pair[0] == pair[1]) {
                let [action, state, observation] = self.items([action, state, pair[0] as usize]);
                return Err(Invalid::Twice { action, state, observation });
            }
            if let Some((&observation, &value)) =
                col.iter().zip(val).find(|(_, p)| !(0.0..=1.0 + SUM_TOLERANCE).contains(*p))
            {
                let [action, state, observation] = self.items([action, state, observation as usize]);
                return Err(Invalid::Probability { action, state, observation, value });
            }
            // The sum of no numbers is −0.
            let sum = val.iter().sum::<f64>() + 0.0;
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                let sums = if count as usize == states { self.observation_columns(action) } else { vec![0.0] };
                let [action, state, _] = self.items([action, state, 0]);
                return Err(match sums.iter().all(|sum| (sum - 1.0).abs() <= SUM_TOLERANCE) {
                    true => Invalid::Transposed { action, state, sum },
                    false => Invalid::Sum { action, state, sum },
                });
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
            let mut sorted: Vec<_> = names.iter().collect();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Invalid::SameName { what, name: pair[0].clone() });
            }
        }
        Ok(self)
    }

    /// An action, a state and an observation for messages.
    fn items(&self, [action, state, observation]: [usize; 3]) -> [Item; 3] {
        let Names { states, actions, observations } = &self.names;
        [Item::new(actions, action), Item::new(states, state), Item::new(observations, observation)]
    }

    /// Σ O(a, s', o) over s' for each observation below |Ω|.
    fn observation_columns(&self, action: usize) -> Vec<f64> {
        let states = self.states() as usize;
        let mut sums = vec![0.0; self.observation_count as usize];
        for row in action * states..(action + 1) * states {
            let (col, val) = self.observations.row(row);
            col.iter().zip(val).for_each(|(&o, p)| sums.get_mut(o as usize).into_iter().for_each(|sum| *sum += p));
        }
        sums
    }

    /// Checks that observations determine the fully observed component.
    fn sees(&self) -> Result<(), Invalid> {
        let states = self.states() as usize;
        if self.seen.is_empty() {
            return Ok(());
        }
        if self.seen.len() != states {
            return Err(Invalid::SeenStates { found: self.seen.len(), expected: states });
        }
        if let Some(state) = self.seen.iter().position(|&part| part as usize >= states) {
            let part = self.seen[state];
            return Err(Invalid::SeenPart { state: Item::new(&self.names.states, state), part, count: states });
        }
        for action in 0..self.actions() as usize {
            let mut told: Vec<Option<usize>> = vec![None; self.observation_count as usize];
            for state in 0..states {
                let (observed, probs) = self.observed(action as u32, state as u32);
                for (&observation, _) in observed.iter().zip(probs).filter(|(_, prob)| **prob > 0.0) {
                    let first = *told[observation as usize].get_or_insert(state);
                    if self.seen[first] != self.seen[state] {
                        let states = [first, state].map(|state| Item::new(&self.names.states, state));
                        let [action, _, observation] = self.items([action, state, observation as usize]);
                        return Err(Invalid::NotSeen { action, observation, states });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Transposes a matrix with rows s·A + a, action by action: row a·S + s' holds the states s with an entry at s',
/// ascending, and these entries.
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

/// Rescales rows that sum to 1 within the tolerance; leaves all other rows unchanged.
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
