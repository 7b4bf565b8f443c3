//! Builds a model by breadth-first search from a start state and a function that expands a state.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use super::Error;
use crate::model::validate::ROW_SUM_TOLERANCE;
use crate::model::{ActionNames, Choices, Csr, Mdp, MdpParts};
use warpkov_common::parameters;

/// The states and rows found so far.
pub struct Search<S> {
    numbers: HashMap<S, u32>,
    states: Vec<S>,
    offsets: Vec<u64>,
    row_ptr: Vec<u64>,
    col: Vec<u32>,
    val: Vec<f64>,
    action_rewards: Vec<f64>,
    of_row: Vec<u32>,
    /// Whether there are more states than numbers.
    full: bool,
}

impl<S: Clone + Eq + Hash> Search<S> {
    /// Adds an action to the state that is being expanded. `name` is an index into the action names. `successors` are
    /// probabilities and states; the probabilities of equal states add up.
    pub fn action(&mut self, name: u32, reward: f64, successors: impl IntoIterator<Item = (f64, S)>) {
        let start = self.col.len();
        for (probability, state) in successors {
            if probability == 0.0 {
                continue;
            }
            let number = self.number(state);
            match self.col[start..].iter().position(|&successor| successor == number) {
                // Rounding may push the sum above 1.
                Some(position) => match self.val[start + position] + probability {
                    sum if sum <= 1.0 + ROW_SUM_TOLERANCE => self.val[start + position] = sum.min(1.0),
                    wrong => self.val[start + position] = wrong,
                },
                None => {
                    self.col.push(number);
                    self.val.push(probability);
                }
            }
        }
        self.row_ptr.push(self.col.len() as u64);
        self.action_rewards.push(reward);
        self.of_row.push(name);
    }

    fn number(&mut self, state: S) -> u32 {
        match self.numbers.entry(state) {
            Entry::Occupied(entry) => *entry.get(),
            // u32::MAX is never a state number. The search stops at `full`, so the 0 never reaches a model.
            Entry::Vacant(_) if self.states.len() >= u32::MAX as usize => {
                self.full = true;
                0
            }
            Entry::Vacant(entry) => {
                let number = self.states.len() as u32;
                self.states.push(entry.key().clone());
                *entry.insert(number)
            }
        }
    }
}

/// A model and the meaning of its states.
pub struct Explored<S> {
    /// `states[s]` is state s of the model.
    pub states: Vec<S>,
    /// The model: γ = 1, with the label `init` on the start state.
    pub mdp: Mdp,
}

impl<S> Explored<S> {
    /// Adds a label to the states for which `holds` returns true.
    #[must_use]
    pub fn label(mut self, name: &str, holds: impl Fn(&S) -> bool) -> Self {
        let members = (0..self.mdp.states())
            .zip(&self.states)
            .filter(|(_, state)| holds(state))
            .map(|(number, _)| number)
            .collect();
        self.mdp.insert_label(name, members);
        self
    }
}

/// The model of all states reachable from `start`, numbered in the order of discovery.
///
/// Calls `expand` once for each state to add its [actions](Search::action). A state without actions is terminal.
///
/// # Errors
/// There are more than 2³² − 1 states, or the result is not a valid model.
pub fn explore<S: Clone + Eq + Hash>(
    start: S,
    names: &[&str],
    mut expand: impl FnMut(&S, &mut Search<S>),
) -> Result<Explored<S>, Error> {
    let mut search = Search {
        numbers: HashMap::from([(start.clone(), 0)]),
        states: vec![start],
        offsets: vec![0],
        row_ptr: vec![0],
        col: Vec::new(),
        val: Vec::new(),
        action_rewards: Vec::new(),
        of_row: Vec::new(),
        full: false,
    };
    let mut next = 0;
    while let Some(state) = search.states.get(next).cloned() {
        expand(&state, &mut search);
        search.offsets.push(search.of_row.len() as u64);
        if search.full {
            return Err(parameters::Error::States.into());
        }
        next += 1;
    }
    let Search { states, offsets, row_ptr, col, val, action_rewards, of_row, .. } = search;
    let mdp = MdpParts {
        states: states.len() as u32,
        choices: Choices::Ragged(offsets.into()),
        gamma: 1.0,
        transitions: Csr::built(row_ptr, col, val),
        rewards: Csr::empty(of_row.len()),
        action_rewards: action_rewards.into(),
        labels: [("init".to_owned(), vec![0])].into(),
        action_names: Some(ActionNames { names: names.iter().map(|&name| name.to_owned()).collect(), of_row }),
        ..MdpParts::default()
    };
    Ok(Explored { states, mdp: mdp.validated()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_found_once() {
        // A walk from 2 that stops at either end of 0 … 4.
        let walk = explore(2_u8, &["walk", "wait"], |&x, search| {
            if x > 0 && x < 4 {
                search.action(0, 1.0, [(0.5, x - 1), (0.25, x + 1), (0.25, x + 1)]);
                search.action(1, 2.0, [(1.0, x), (0.0, 9)]);
            }
        });
        let walk = walk.unwrap().label("end", |&x| x == 0 || x == 4);
        assert_eq!(walk.states, [2, 1, 3, 0, 4]);
        assert_eq!(walk.mdp.transitions().row(0), (&[1, 2][..], &[0.5, 0.5][..]));
        assert_eq!(walk.mdp.transitions().row(1), (&[0][..], &[1.0][..]));
        assert_eq!((walk.mdp.rows(), walk.mdp.choices().count(3)), (6, 0));
        assert_eq!((&walk.mdp.labels()["init"], &walk.mdp.labels()["end"]), (&vec![0], &vec![3, 4]));
    }
}
