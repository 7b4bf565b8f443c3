//! The full backup with all intermediate tensors, and the one-step lookahead: a readable reference that tests compare
//! the fast path with.
//!
//! Both run the kernels of [`warpkov_kernels::pomdp`] on any device. T and O may be arbitrary arrays, not only distributions.

use warpkov_device::launch::{Device, Shape, SparseBuffer, SparseError};
use warpkov_kernels::pomdp::action_scores::action_scores;
use warpkov_kernels::pomdp::backup::backup;
use warpkov_kernels::pomdp::best::best;
use warpkov_kernels::pomdp::best_action::best_action;
use warpkov_kernels::pomdp::g_ab::g_ab;
use warpkov_kernels::pomdp::g_ao::{g_ao_deterministic, g_ao_sparse};
use warpkov_kernels::pomdp::lookahead::{
    Branch, next_belief, next_belief_inverse, products, t_ao_deterministic, t_ao_sparse,
};
use warpkov_kernels::pomdp::model::Sizes;
use warpkov_kernels::pomdp::scores::scores;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::alpha::AlphaVectors;
use super::belief::Belief;
use super::model::{Pomdp, by_columns};
use warpkov_mdp::model::Csr;
use warpkov_runtime::Precise;

/// Threads per block.
const THREADS: u32 = 128;

/// T in one of two layouts.
#[derive(Clone)]
pub enum Transitions {
    /// T\[a\]\[s\] = s', if every action has a single successor.
    Deterministic(Vec<u32>),
    /// T(s, a, ·) in row s·A + a.
    Sparse(Csr),
}

/// Operands of a backup: dense row-major arrays.
#[derive(Clone)]
pub struct Operands {
    /// |S|.
    pub states: u32,
    /// |A|.
    pub actions: u32,
    /// |Ω|.
    pub observation_count: u32,
    /// γ.
    pub gamma: f64,
    /// T, deterministic or sparse.
    pub transitions: Transitions,
    /// O\[o\]\[a\]\[s'\].
    pub observations: Vec<f64>,
    /// R\[a\]\[s\].
    pub rewards: Vec<f64>,
    /// Γ\[i\]\[s\].
    pub vectors: Vec<f64>,
    /// B\[j\]\[s\].
    pub beliefs: Vec<f64>,
}

/// The tensors of a full backup, with their dimensions: n vectors, B beliefs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors {
    /// G_AO \[n\]\[Ω\]\[A\]\[S\].
    pub g_ao: Vec<f64>,
    /// Ĝ_AO \[B\]\[Ω\]\[A\]\[n\].
    pub scores: Vec<f64>,
    /// Ĝ\*_AO \[B\]\[A\]\[Ω\].
    pub best: Vec<u32>,
    /// G_A^B \[B\]\[A\]\[S\].
    pub g_ab: Vec<f64>,
    /// Ĝ_A^B \[B\]\[A\].
    pub action_scores: Vec<f64>,
    /// Ĝ\*_A^B \[B\].
    pub best_action: Vec<u32>,
    /// B_KP \[B\]\[S\].
    pub backup: Vec<f64>,
}

impl Operands {
    /// The operands of a maximisation problem with any O.
    #[must_use]
    pub fn new(model: &Pomdp, vectors: &AlphaVectors, beliefs: &[Belief]) -> Self {
        let (states, actions) = (model.states(), model.actions());
        let mut observations = vec![0.0; (model.observation_count() * actions * states) as usize];
        for row in 0..model.observations().rows() {
            let (seen, prob) = model.observations().row(row);
            for (&o, &p) in seen.iter().zip(prob) {
                observations[o as usize * (actions * states) as usize + row] = p;
            }
        }
        let expected = model.expected_rewards();
        let by_action = || (0..actions as usize).flat_map(|a| (0..states as usize).map(move |s| (a, s)));
        let next = by_action().map(|(a, s)| match model.successors(s as u32, a as u32) {
            ([next], [1.0]) => Some(*next),
            _ => None,
        });
        let transitions = match next.collect::<Option<Vec<_>>>() {
            Some(next) => Transitions::Deterministic(next),
            None => Transitions::Sparse(model.process().transitions().clone()),
        };
        Self {
            states,
            actions,
            observation_count: model.observation_count(),
            gamma: model.gamma(),
            transitions,
            observations,
            rewards: by_action().map(|(a, s)| expected[s * actions as usize + a]).collect(),
            vectors: vectors.values().to_vec(),
            beliefs: beliefs.iter().flat_map(|belief| belief.to_dense(states)).collect(),
        }
    }

    /// Panics unless every array has the size of its dimensions, every successor is below |S|, and Γ is not empty. The
    /// kernels rely on these bounds.
    fn check(&self) {
        let (states, pairs) = (self.states as usize, self.states as usize * self.actions as usize);
        assert!(states > 0 && self.actions > 0, "at least one state and one action");
        let below = |next: &[u32]| next.iter().all(|&next| next < self.states);
        let fits = match &self.transitions {
            Transitions::Deterministic(next) => next.len() == pairs && below(next),
            Transitions::Sparse(matrix) => matrix.rows() == pairs && below(matrix.col()),
        };
        assert!(fits, "successors are below |S|, one row per state and action");
        assert_eq!(self.observations.len(), pairs * self.observation_count as usize, "O has |Ω||A||S| elements");
        assert_eq!(self.rewards.len(), pairs, "R has |A||S| elements");
        assert!(
            !self.vectors.is_empty() && self.vectors.len().is_multiple_of(states),
            "Γ has n|S| elements, n at least 1"
        );
        assert!(self.beliefs.len().is_multiple_of(states), "B has |B||S| elements");
    }

    /// n, the number of vectors.
    #[must_use]
    pub fn vector_count(&self) -> u32 {
        (self.vectors.len() / self.states as usize) as u32
    }

    /// |B|.
    #[must_use]
    pub fn belief_count(&self) -> u32 {
        (self.beliefs.len() / self.states as usize) as u32
    }

    /// Successors s' with T(s, a, s').
    #[must_use]
    pub fn successors(&self, state: u32, action: u32) -> Vec<(u32, f64)> {
        match &self.transitions {
            Transitions::Deterministic(next) => vec![(next[(action * self.states + state) as usize], 1.0)],
            Transitions::Sparse(matrix) => {
                let (col, val) = matrix.row((state * self.actions + action) as usize);
                col.iter().copied().zip(val.iter().copied()).collect()
            }
        }
    }

    /// O(a, s', o).
    #[must_use]
    pub fn observation(&self, action: u32, state: u32, seen: u32) -> f64 {
        self.observations[((seen * self.actions + action) * self.states + state) as usize]
    }

    /// T_inv\[a\]\[s'\] = s with T(s, a) = s'; `None` unless T is deterministic and injective for each action.
    #[must_use]
    pub fn inverse(&self) -> Option<Vec<u32>> {
        let Transitions::Deterministic(next) = &self.transitions else { return None };
        let mut inverse = vec![u32::MAX; next.len()];
        for (place, &to) in next.iter().enumerate() {
            let (action, state) = (place as u32 / self.states, place as u32 % self.states);
            let slot = &mut inverse[(action * self.states + to) as usize];
            if *slot != u32::MAX {
                return None;
            }
            *slot = state;
        }
        Some(inverse)
    }

    /// T_inv as the source has it where there is no [inverse](Self::inverse): the last s with T(s, a) = s', and s' itself where no
    /// state leads to s'. `None` unless T is deterministic.
    #[must_use]
    pub fn last_predecessors(&self) -> Option<Vec<u32>> {
        let Transitions::Deterministic(next) = &self.transitions else { return None };
        let states = self.states as usize;
        let mut from: Vec<u32> = (0..self.states).cycle().take(next.len()).collect();
        for (place, &to) in next.iter().enumerate() {
            from[place / states * states + to as usize] = (place % states) as u32;
        }
        Some(from)
    }

    /// T by columns: row a·S + s' holds the predecessors s of s' under action a, ascending, and T(s, a, s').
    #[must_use]
    pub fn predecessors(&self) -> Csr {
        match &self.transitions {
            Transitions::Sparse(matrix) => by_columns(matrix, self.states, self.actions),
            Transitions::Deterministic(_) => {
                let rows = || (0..self.states).flat_map(|s| (0..self.actions).map(move |a| self.successors(s, a)[0]));
                let (col, val): (Vec<_>, Vec<_>) = rows().unzip();
                let row_ptr: Vec<u64> = (0..=col.len() as u64).collect();
                let matrix = Csr::built(row_ptr, col, val);
                by_columns(&matrix, self.states, self.actions)
            }
        }
    }
}

/// T on the device.
enum Resident<T: Precise> {
    Deterministic(AnyBuffer<u32>),
    Sparse(SparseOnDevice<T>),
}

impl<T: Precise> Resident<T> {
    fn upload(device: &AnyDevice, transitions: &Transitions, states: u32) -> Result<Self, DeviceError> {
        Ok(match transitions {
            Transitions::Deterministic(next) => Self::Deterministic(device.upload(next)?),
            Transitions::Sparse(matrix) => Self::Sparse(sparse(device, matrix, states)?),
        })
    }
}

/// A sparse matrix on the device.
type SparseOnDevice<T> = SparseBuffer<AnyBuffer<u64>, AnyBuffer<u32>, AnyBuffer<T>>;

/// Uploads a matrix of `columns` columns.
fn sparse<T: Precise>(device: &AnyDevice, matrix: &Csr, columns: u32) -> Result<SparseOnDevice<T>, DeviceError> {
    let uploaded = SparseBuffer::upload(device, matrix.row_ptr(), matrix.col(), &T::rounded(matrix.val()), columns);
    uploaded.map_err(|error| match error {
        SparseError::Device(error) => error,
        wrong => panic!("{wrong}"),
    })
}

fn widened<T: Precise>(device: &AnyDevice, buffer: &AnyBuffer<T>) -> Result<Vec<f64>, DeviceError> {
    Ok(device.to_vec(buffer)?.into_iter().map(T::to_f64).collect())
}

/// backup(b) of every belief, in seven kernels, in precision T. Γ must not be empty.
///
/// # Errors
/// Errors of the device, whose memory must hold all tensors at once.
///
/// # Panics
/// If an array of `operands` does not match its dimensions.
pub fn full_backup<T: Precise>(device: &AnyDevice, operands: &Operands) -> Result<Tensors, DeviceError> {
    operands.check();
    let Operands { states, actions, observation_count: observed, gamma, .. } = *operands;
    let (vectors, beliefs) = (operands.vector_count(), operands.belief_count());
    let sizes = Sizes { actions, observations: observed, vectors, beliefs };
    let size = |factors: &[u32]| factors.iter().map(|&factor| factor as usize).product::<usize>();
    let zeros = |factors: &[u32]| device.zeros::<T>(size(factors));
    let shape = |factors: &[u32]| Shape::cover(size(factors) as u64, THREADS);
    let observation = device.upload(&T::rounded(&operands.observations))?;
    let reward = device.upload(&T::rounded(&operands.rewards))?;
    let alpha = device.upload(&T::rounded(&operands.vectors))?;
    let belief = device.upload(&T::rounded(&operands.beliefs))?;

    let [of_g_ao, of_scores] = [[vectors, observed, actions, states], [beliefs, observed, actions, vectors]];
    let [of_best, of_g_ab] = [[beliefs, actions, observed], [beliefs, actions, states]];
    let (mut g_ao, mut scored) = (zeros(&of_g_ao)?, zeros(&of_scores)?);
    let mut winners = device.zeros::<u32>(size(&of_best))?;
    let (mut by_action, mut valued) = (zeros(&of_g_ab)?, zeros(&[beliefs, actions])?);
    let (mut chosen, mut b_kp) = (device.zeros::<u32>(beliefs as usize)?, zeros(&[beliefs, states])?);
    let elements = |factors: &[u32]| size(factors) as u64;
    let (launch, count) = (shape(&of_g_ao), elements(&of_g_ao));
    match &Resident::<T>::upload(device, &operands.transitions, states)? {
        Resident::Deterministic(next) => {
            g_ao_deterministic(device, launch, count, states, sizes, next, &observation, &alpha, &mut g_ao)?;
        }
        Resident::Sparse(matrix) => {
            let rows = elements(&[states, actions]);
            g_ao_sparse(device, launch, count, states, rows, sizes, matrix, &observation, &alpha, &mut g_ao)?;
        }
    }
    let (launch, count) = (shape(&of_scores), elements(&of_scores));
    scores(device, launch, count, states, sizes, &belief, &g_ao, &mut scored)?;
    best(device, shape(&of_best), elements(&of_best), vectors, sizes, &scored, &mut winners)?;
    let (launch, count) = (shape(&of_g_ab), elements(&of_g_ab));
    g_ab(device, launch, count, states, sizes, gamma, &reward, &winners, &g_ao, &mut by_action)?;
    let (launch, count) = (shape(&[beliefs, actions]), elements(&[beliefs, actions]));
    action_scores(device, launch, count, states, actions, &belief, &by_action, &mut valued)?;
    best_action(device, shape(&[beliefs]), actions, beliefs, &valued, &mut chosen)?;
    let (launch, count) = (shape(&[beliefs, states]), elements(&[beliefs, states]));
    backup(device, launch, count, states, actions, &chosen, &by_action, &mut b_kp)?;
    Ok(Tensors {
        g_ao: widened(device, &g_ao)?,
        scores: widened(device, &scored)?,
        best: device.to_vec(&winners)?,
        g_ab: widened(device, &by_action)?,
        action_scores: widened(device, &valued)?,
        best_action: device.to_vec(&chosen)?,
        backup: widened(device, &b_kp)?,
    })
}

/// The belief update for one action and one observation.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Outlook {
    /// b̂(s'), unnormalised.
    pub unnormalised: Vec<f64>,
    /// b^{a,o}; `None` if Σ b̂ = 0.
    pub belief: Option<Vec<f64>>,
    /// t_{a,o}(s).
    pub t: Vec<f64>,
    /// p(o|b, a) = b · t_{a,o}.
    pub probability: f64,
    /// v(b^{a,o}); 0 if there is no such belief.
    pub value: f64,
}

/// The lookahead of one action.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Prospect {
    /// c₁ = b · R\[a\].
    pub c1: f64,
    /// c₂ = Σₒ p(o|b, a) v(b^{a,o}).
    pub c2: f64,
    /// c₁ + γ c₂.
    pub sum: f64,
    /// One entry per observation.
    pub outlooks: Vec<Outlook>,
}

/// The one-step lookahead from a belief.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Lookahead {
    /// One entry per action.
    pub prospects: Vec<Prospect>,
    /// The action with the largest sum; the lowest in case of ties.
    pub best: u32,
}

/// argmaxₐ c₁ + γ c₂ for `belief`, of |S| entries, in precision T. Γ must not be empty.
///
/// With `inverse`, T_inv\[a\]\[s'\], the belief update uses it in place of T, even if the two disagree;
/// [`Operands::inverse`] computes one that agrees.
///
/// # Errors
/// Errors of the device.
///
/// # Panics
/// If `belief`, `inverse` or an array of `operands` does not match its dimensions.
pub fn one_step_lookahead<T: Precise>(
    device: &AnyDevice,
    operands: &Operands,
    belief: &[f64],
    inverse: Option<&[u32]>,
) -> Result<Lookahead, DeviceError> {
    operands.check();
    let Operands { states, actions, observation_count: observed, gamma, .. } = *operands;
    assert_eq!(belief.len(), states as usize, "the belief has |S| elements");
    let from = |inverse: &[u32]| inverse.len() == operands.rewards.len() && inverse.iter().all(|&from| from < states);
    assert!(inverse.is_none_or(from), "the inverse has |A||S| elements below |S|");
    let (shape, pairs) = (Shape::cover(u64::from(states), THREADS), u64::from(states) * u64::from(actions));
    let transitions = Resident::<T>::upload(device, &operands.transitions, states)?;
    let observation = device.upload(&T::rounded(&operands.observations))?;
    let reward = device.upload(&T::rounded(&operands.rewards))?;
    let alpha = device.upload(&T::rounded(&operands.vectors))?;
    let inverse = inverse.map(|inverse| device.upload(inverse)).transpose()?;
    let columns = match inverse {
        None => Some(sparse(device, &operands.predecessors(), states)?),
        Some(_) => None,
    };
    let rows_times = |x: &AnyBuffer<T>, matrix: &AnyBuffer<T>, rows: u32| -> Result<Vec<f64>, DeviceError> {
        let mut out = device.zeros::<T>(rows as usize)?;
        products(device, Shape::cover(u64::from(rows), THREADS), states, rows, x, matrix, &mut out)?;
        widened(device, &out)
    };

    let b = device.upload(&T::rounded(belief))?;
    let c1 = rows_times(&b, &reward, actions)?;
    let (mut next, mut t_ao) = (device.zeros::<T>(states as usize)?, device.zeros::<T>(states as usize)?);
    let mut prospects = Vec::new();
    for (a, c1) in (0..actions).zip(c1) {
        let mut outlooks = Vec::new();
        for o in 0..observed {
            let branch = Branch { actions, action: a, seen: o };
            if let Some(inverse) = &inverse {
                next_belief_inverse(device, shape, states, branch, inverse, &observation, &b, &mut next)?;
            }
            if let Some(predecessors) = &columns {
                next_belief(device, shape, states, pairs, branch, predecessors, &observation, &b, &mut next)?;
            }
            match &transitions {
                Resident::Deterministic(to) => {
                    t_ao_deterministic(device, shape, states, branch, to, &observation, &mut t_ao)?;
                }
                Resident::Sparse(matrix) => {
                    t_ao_sparse(device, shape, states, pairs, branch, matrix, &observation, &mut t_ao)?;
                }
            }
            let unnormalised = widened(device, &next)?;
            let total: f64 = unnormalised.iter().sum();
            let belief = (total > 0.0).then(|| unnormalised.iter().map(|x| x / total).collect::<Vec<_>>());
            let value = match &belief {
                None => 0.0,
                Some(belief) => {
                    let belief = device.upload(&T::rounded(belief))?;
                    rows_times(&belief, &alpha, operands.vector_count())?.into_iter().fold(f64::NEG_INFINITY, f64::max)
                }
            };
            let probability = rows_times(&b, &t_ao, 1)?[0];
            outlooks.push(Outlook { unnormalised, belief, t: widened(device, &t_ao)?, probability, value });
        }
        let c2 = outlooks.iter().map(|outlook| outlook.probability * outlook.value).sum();
        prospects.push(Prospect { c1, c2, sum: c1 + gamma * c2, outlooks });
    }
    let better = |best: usize, a: usize| if prospects[a].sum > prospects[best].sum { a } else { best };
    let best = (1..prospects.len()).fold(0, better) as u32;
    Ok(Lookahead { prospects, best })
}
