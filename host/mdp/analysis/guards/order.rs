//! Rows in another order than the one they are read in, and matrices that are their own columns.
//!
//! Row s·A + a belongs to (s, a). A file that stores row a·S + s there is valid too, and describes another model. Most
//! models show the right order: states are numbered so that successors are near, and neighbouring states have similar
//! rows. [`looks_action_major`] compares both orders on a sample of the rows by two measures.
//!
//! *Distance.* d(i) is the distance between the state of row i and its nearest successor. The gain of row i is log₂((1 +
//! d(i)) / (1 + d'(i))), where d' belongs to the other order. The mean gain m over n rows has the statistic t = m·√n / σ.
//!
//! *Likeness.* e is the share of the pairs of neighbouring states whose rows of one action have equal successors, or
//! successors shifted by 1 as well, plus the share of neighbouring actions of a state with different rows: in the other
//! order, minus that in the order read.
//!
//! The thresholds are measured: tests hold the number of false alarms and of missed files over the families of
//! [`generate`](crate::generate) and over random models.

use rayon::prelude::*;

use super::{Kind, Warning, row_name, uniform};
use crate::model::{CHUNK, Mdp};
use warpkov_common::choice::Choice;
use warpkov_common::random::{below, random};

/// Rows, and pairs of rows, in the sample. A smaller model is compared as a whole.
const SAMPLE: usize = 8192;

/// Rows of a model under both orders.
#[derive(Clone, Copy)]
struct RowsInOrder<'m> {
    mdp: &'m Mdp,
    states: usize,
    actions: usize,
}

impl RowsInOrder<'_> {
    /// The row of a state and an action, in the order that is read or in the other one.
    fn at(self, state: usize, action: usize, other: bool) -> usize {
        if other { action * self.states + state } else { state * self.actions + action }
    }

    fn count(self) -> usize {
        self.states * self.actions
    }
}

/// Whether the rows of a model with the same number of actions in all states look like rows a·S + s that are read as
/// rows s·A + a. The answer depends on at most 8192 rows, and is the same on every machine.
#[must_use]
pub fn looks_action_major(mdp: &Mdp) -> bool {
    let Some(actions) = uniform(mdp).filter(|&actions| actions > 1) else { return false };
    let rows = RowsInOrder { mdp, states: mdp.states() as usize, actions };
    if rows.states < 3 {
        return false;
    }
    let Some(Gain { mean, least, t, stays, stays_other }) = gain(rows) else { return false };
    // An order in which most rows lead nowhere is no better, however near that is.
    if mean < 0.1 || least < -0.35 || stays_other > 0.5 + stays / 2.0 {
        return false;
    }
    let near = mean >= 0.4 && least >= 0.1;
    if near && t >= 5.5 {
        return true;
    }
    let like = likeness(rows, true) - likeness(rows, false);
    // Three states have few pairs.
    let (needed, least_needed) = if rows.states == 3 { (0.8, 0.0) } else { (0.6, -0.35) };
    near && t >= 2.9 && like >= 0.25 || like >= needed && least >= least_needed
}

/// The distances of successors in the other order against those in the order that is read.
struct Gain {
    /// m, in bits per row.
    mean: f64,
    /// The least mean over the rows of one action of the other order.
    least: f64,
    t: f64,
    /// Share of the rows that lead to their own state only, in the order that is read.
    stays: f64,
    /// The same in the other order.
    stays_other: f64,
}

fn gain(rows: RowsInOrder) -> Option<Gain> {
    let RowsInOrder { mdp, states, actions } = rows;
    let (mut sum, mut squares, mut own, mut own_other) = (0.0, 0.0, 0, 0);
    let mut of_action = vec![(0.0, 0_u32); actions];
    let sample = sample(rows.count(), 0);
    for &row in &sample {
        let successors = mdp.transitions().row(row).0;
        let (here, there) = (row / actions, row % states);
        let Some((near, near_other)) = nearest(successors, here).zip(nearest(successors, there)) else { continue };
        let gain = ((1 + near) as f64 / (1 + near_other) as f64).log2();
        sum += gain;
        squares += gain * gain;
        let of_action = &mut of_action[row / states];
        *of_action = (of_action.0 + gain, of_action.1 + 1);
        own += usize::from(successors == [here as u32]);
        own_other += usize::from(successors == [there as u32]);
    }
    let count = sample.len() as f64;
    let mean = sum / count;
    // Equal gains would have no spread.
    let deviation = (squares / count - mean * mean).max(1e-12).sqrt();
    let least = of_action.iter().filter(|of| of.1 > 0).map(|(sum, count)| sum / f64::from(*count));
    Some(Gain {
        mean,
        least: least.reduce(f64::min)?,
        t: mean * count.sqrt() / deviation,
        stays: own as f64 / count,
        stays_other: own_other as f64 / count,
    })
}

/// The distance between a state and the nearest of some successors, in ascending order.
fn nearest(successors: &[u32], state: usize) -> Option<usize> {
    let at = successors.partition_point(|&next| (next as usize) < state);
    let around = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|at| successors.get(at));
    around.map(|&next| (next as usize).abs_diff(state)).min()
}

/// The share of neighbouring states whose rows of one action are alike, plus the share of neighbouring actions of a state
/// whose rows differ.
fn likeness(rows: RowsInOrder, other: bool) -> f64 {
    let RowsInOrder { mdp, states, actions } = rows;
    let row = |state: usize, action: usize| mdp.transitions().row(rows.at(state, action, other));
    let alike = |&pair: &usize| {
        let (state, action) = (pair / actions, pair % actions);
        let (here, next) = (row(state, action).0, row(state + 1, action).0);
        here == next || here.len() == next.len() && here.iter().zip(next).all(|(a, b)| a + 1 == *b)
    };
    let copies = |&pair: &usize| {
        let (state, action) = (pair / (actions - 1), pair % (actions - 1));
        let (first, second) = (row(state, action), row(state, action + 1));
        first == second && *first.0 != [state as u32]
    };
    let (neighbours, within) = (sample((states - 1) * actions, 1), sample(states * (actions - 1), 2));
    let share = |holds: usize, of: usize| holds as f64 / of as f64;
    share(neighbours.iter().filter(|pair| alike(pair)).count(), neighbours.len())
        - share(within.iter().filter(|pair| copies(pair)).count(), within.len())
}

/// The numbers below `count`, or [`SAMPLE`] of them.
fn sample(count: usize, stream: u64) -> Vec<usize> {
    if count <= SAMPLE {
        return (0..count).collect();
    }
    let mut random = random(0, stream);
    (0..SAMPLE).map(|_| below(&mut random, count as u64) as usize).collect()
}

pub(super) fn action_major(mdp: &Mdp) -> Option<Warning> {
    let actions = uniform(mdp)?;
    looks_action_major(mdp).then(|| Warning {
        kind: Kind::ActionMajor.name(),
        count: mdp.rows(),
        examples: (1..mdp.rows().min(3)).map(|row| row_name(mdp, row)).collect(),
        message: format!(
            "the rows look action-major: they are read as row s·A + a (all {actions} actions of state 0, then of state 1, …), \
             but successors are much nearer as row a·S + s (all {} states of action 0 first). Row 1 is now {}. Check it with \
             option show, and reorder the rows if that is wrong",
            mdp.states(),
            row_name(mdp, 1),
        ),
    })
}

/// Sums of squares of the rewards of actions in one order.
struct Spread {
    /// What neither the state nor the action explains: r(s, a) minus the mean of s, minus that of a, plus that of all.
    rest: f64,
    /// The steps between neighbouring states, for each action.
    steps: f64,
}

impl Spread {
    fn new(rows: RowsInOrder, states: usize, other: bool) -> Self {
        let RowsInOrder { mdp, actions, .. } = rows;
        let reward = |state: usize, action: usize| mdp.action_reward(rows.at(state, action, other));
        let of_state = |s: usize| (0..actions).map(|a| reward(s, a)).sum::<f64>() / actions as f64;
        let of_action = |a: usize| (0..states).map(|s| reward(s, a)).sum::<f64>() / states as f64;
        let of_states: Vec<f64> = (0..states).map(of_state).collect();
        let of_actions: Vec<f64> = (0..actions).map(of_action).collect();
        let all = of_states.iter().sum::<f64>() / states as f64;
        let cells = || (0..states).flat_map(|state| (0..actions).map(move |action| (state, action)));
        let rest = cells().map(|(s, a)| (reward(s, a) - of_states[s] - of_actions[a] + all).powi(2)).sum();
        let steps = cells().filter(|&(s, _)| s > 0).map(|(s, a)| (reward(s, a) - reward(s - 1, a)).powi(2)).sum();
        Self { rest, steps }
    }
}

/// Whether the rewards of actions look stored as a·S + s, in a model whose rows look right. In one order of most models, state and action
/// explain nearly all of a reward, or neighbouring states have similar ones. The answer depends on at most 8192 rewards of each order.
#[must_use]
pub fn rewards_look_action_major(mdp: &Mdp) -> bool {
    let Some(actions) = uniform(mdp).filter(|&actions| actions > 1) else { return false };
    let rows = RowsInOrder { mdp, states: mdp.states() as usize, actions };
    let states = rows.states.min(SAMPLE / actions);
    let earned = (0..states * actions).map(|row| mdp.action_reward(row));
    // Few rewards may be anywhere.
    if states < 3 || earned.clone().filter(|&reward| reward != 0.0).count() < states || looks_action_major(mdp) {
        return false;
    }
    let least = 1e-9 * earned.map(|reward| reward * reward).sum::<f64>();
    let [read, other] = [false, true].map(|other| Spread::new(rows, states, other));
    let ratio = |read: f64, other: f64| if read > least { other.max(1e-6 * least) / read } else { 1.0 };
    let rest = ratio(read.rest, other.rest);
    let freedom = ((states - 1) * (actions - 1)) as f64;
    rest <= 0.25 && -freedom * rest.ln() >= 24.0 || states >= 8 && ratio(read.steps, other.steps) <= 0.05
}

pub(super) fn action_major_rewards(mdp: &Mdp) -> Option<Warning> {
    rewards_look_action_major(mdp).then(|| Warning {
        kind: Kind::ActionMajorRewards.name(),
        count: mdp.rows(),
        examples: (1..mdp.rows().min(3)).map(|row| row_name(mdp, row)).collect(),
        message: format!(
            "the rewards look action-major: they are read as element s·A + a (all actions of state 0, then of state 1, …), but are much \
             more regular as element a·S + s. Element 1 is now that of {}. Check it with option show, and reorder the rewards if that is \
             wrong",
            row_name(mdp, 1),
        ),
    })
}

/// The first columns, by which most models are excluded.
const FIRST: usize = 32;

/// Tolerance of a column sum, per action.
const TOLERANCE: f64 = 1e-9;

/// Every action's columns of P sum to 1, some row has several successors, and some P is not symmetric: rows and columns
/// could be exchanged and the model would be valid too. Most such models are right: no error would show it if one were not.
pub(super) fn doubly_stochastic(mdp: &Mdp) -> Option<Warning> {
    let actions = uniform(mdp).filter(|&actions| actions > 0)?;
    let states = mdp.states() as usize;
    if states < 2 || !mdp.ends().is_empty() {
        return None;
    }
    let first = first_columns(mdp, actions, states.min(FIRST));
    if first.iter().any(|sum| (sum - 1.0).abs() > TOLERANCE) {
        return None;
    }
    let doubly = |action: usize| {
        let mut sums = vec![0.0; states];
        for state in 0..states {
            let (successors, probs) = mdp.transitions().row(state * actions + action);
            successors.iter().zip(probs).for_each(|(&next, p)| sums[next as usize] += p);
        }
        sums.iter().all(|sum| (sum - 1.0).abs() <= TOLERANCE)
    };
    let branches = |row: usize| mdp.transitions().row(row).0.len() > 1;
    let entry = |state: usize, action: usize, next: usize| {
        let (successors, probs) = mdp.transitions().row(state * actions + action);
        successors.binary_search(&(next as u32)).map_or(0.0, |at| probs[at])
    };
    let asymmetric = |row: usize| {
        let (state, action) = (row / actions, row % actions);
        let (successors, probs) = mdp.transitions().row(row);
        let mut entries = successors.iter().zip(probs);
        entries.any(|(&next, p)| (entry(next as usize, action, state) - p).abs() > TOLERANCE)
    };
    let rows = || (0..mdp.rows()).into_par_iter().with_min_len(CHUNK);
    let suspicious = rows().any(branches) && (0..actions).into_par_iter().all(doubly) && rows().any(asymmetric);
    suspicious.then(|| Warning {
        kind: Kind::DoublyStochastic.name(),
        count: actions,
        examples: vec![row_name(mdp, 0)],
        message: format!(
            "P is doubly stochastic: the probabilities of entering each state sum to 1 as well, under {}, so a file that held \
             P[s'][s] would be no error. Check a row with option show",
            if actions == 1 { "the only action".to_owned() } else { format!("each of the {actions} actions") },
        ),
    })
}

/// Most states of a model that people write as a table.
const WRITTEN: u32 = 32;

/// There are as many actions as states, few of both, and the model with both exchanged is another one. Nothing but the key of
/// a table, or the order given with an array, tells which is meant.
pub(super) fn exchangeable(mdp: &Mdp) -> Option<Warning> {
    let (states, actions) = (mdp.states() as usize, uniform(mdp)?);
    if states != actions || !(2..=WRITTEN).contains(&mdp.states()) {
        return None;
    }
    let place = |row: usize| row % actions * states + row / actions;
    let row = (0..mdp.rows()).find(|&row| mdp.transitions().row(row) != mdp.transitions().row(place(row)))?;
    Some(Warning {
        kind: Kind::Exchangeable.name(),
        count: 1,
        examples: vec![row_name(mdp, row)],
        message: format!(
            "there are as many actions as states, {states}, so a table P[a][s][s'] that is read as P[s][a][s'], or the other way \
             round, is no error. Check {} with option show",
            row_name(mdp, row)
        ),
    })
}

/// For each action, the sums of the first columns.
fn first_columns(mdp: &Mdp, actions: usize, count: usize) -> Vec<f64> {
    let rows = (0..mdp.rows()).into_par_iter().with_min_len(CHUNK);
    let add = |mut sums: Vec<f64>, row: usize| {
        let (successors, probs) = mdp.transitions().row(row);
        let first = successors.iter().zip(probs).take_while(|(next, _)| (**next as usize) < count);
        first.for_each(|(&next, p)| sums[row % actions * count + next as usize] += p);
        sums
    };
    let zero = || vec![0.0; actions * count];
    let sum = |mut a: Vec<f64>, b: Vec<f64>| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    };
    rows.fold(zero, add).reduce(zero, sum)
}
