//! Builds a model's arrays from transitions in file order.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{ActionNames, Array, Choices, Csr, Mdp, MdpParts};

/// Collects rows: state-action pairs, their names and their entries.
///
/// Input in ascending order, the common case, costs no sort. Parts of one row are joined. Duplicate successors of a row
/// are merged: their probabilities add up, and their reward becomes the mean weighted by probability.
#[derive(Default)]
pub struct RowsBuilder {
    /// State and action of each part of a row.
    keys: Vec<(u32, u32)>,
    /// First entry of each part.
    starts: Vec<u64>,
    col: Vec<u32>,
    val: Vec<f64>,
    /// Rewards of the entries.
    rewards: Sparse,
    /// Action rewards of the parts.
    action_rewards: Sparse,
    names: Names,
    /// Whether some key is less than the one before it.
    disordered: bool,
    /// Whether some row has successors that do not ascend strictly.
    unsorted: bool,
}

/// A state has an action without all lower-numbered actions.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("state {state} has choice {found}, expected choice {missing} first")]
pub struct Gap {
    state: u32,
    missing: u64,
    found: u32,
}

impl RowsBuilder {
    /// Begins a part of a row and returns true, unless the last part already has this state and action.
    #[inline]
    pub fn begin(&mut self, state: u32, action: u32) -> bool {
        match self.keys.last() {
            Some(&last) if last == (state, action) => return false,
            Some(&last) => self.disordered |= last > (state, action),
            None => {}
        }
        self.keys.push((state, action));
        self.starts.push(self.col.len() as u64);
        true
    }

    /// Adds an entry to the last row.
    #[inline]
    pub fn entry(&mut self, successor: u32, value: f64, reward: f64) {
        let first = self.starts.last().is_none_or(|&start| start == self.col.len() as u64);
        self.unsorted |= !first && self.col.last() >= Some(&successor);
        self.rewards.add(self.col.len(), reward);
        self.col.push(successor);
        self.val.push(value);
    }

    /// Adds to the action reward of the last row.
    pub fn earns(&mut self, reward: f64) {
        self.action_rewards.add(self.keys.len().saturating_sub(1), reward);
    }

    /// Names the last row.
    pub fn named(&mut self, name: &str) {
        if let Some(&(_, action)) = self.keys.last() {
            self.names.add(self.keys.len() - 1, action, name);
        }
    }

    /// Number of parts of rows so far.
    pub fn parts(&self) -> usize {
        self.keys.len()
    }

    /// Builds a model of these rows with γ = 1, without validation.
    pub fn into_model(mut self, states: u32) -> Result<MdpParts, Gap> {
        self.put_in_order();
        self.merge();
        let (choices, rows) = (self.choices(states)?, self.keys.len());
        self.starts.push(self.col.len() as u64);
        // Growth leaves up to twice the needed capacity, which a large model would hold for its whole life.
        self.starts.shrink_to_fit();
        self.col.shrink_to_fit();
        self.val.shrink_to_fit();
        let transitions = Csr::built(self.starts, self.col, self.val);
        Ok(MdpParts {
            states,
            choices,
            gamma: 1.0,
            rewards: self.rewards.into_matrix(&transitions),
            transitions,
            action_rewards: self.action_rewards.into_vec(rows).into(),
            action_names: self.names.into_names(rows),
            ..MdpParts::default()
        })
    }

    /// Names the rows of a model. State s has rows `offsets[s]..offsets[s + 1]`.
    pub fn named_by(&mut self, names: &Option<ActionNames>, offsets: &[u64]) {
        let Some(ActionNames { names, of_row }) = names else { return };
        for own in offsets.windows(2) {
            for (action, row) in (0..).zip(own[0] as usize..own[1] as usize) {
                self.names.add(row, action, names.get(of_row[row] as usize).map_or("", String::as_str));
            }
        }
    }

    /// Builds a model with γ = 1 from arrays already in model order and the row names collected so far, without
    /// validation.
    ///
    /// `choices` are the row offsets of states, `row_ptr` the entry offsets of rows. `col` ascends in each row.
    /// `rewards` holds one number per entry and `action_rewards` one per row; either may be empty.
    pub fn ordered(
        self,
        choices: Vec<u64>,
        row_ptr: Vec<u64>,
        col: Vec<u32>,
        val: Vec<f64>,
        rewards: Vec<f64>,
        action_rewards: Vec<f64>,
    ) -> MdpParts {
        let (states, rows) = (choices.len() as u32 - 1, row_ptr.len() - 1);
        let transitions = Csr::built(row_ptr, col, val);
        let earned = if action_rewards.iter().all(|&reward| reward == 0.0) { Vec::new() } else { action_rewards };
        MdpParts {
            states,
            choices: offsets_as_choices(choices),
            gamma: 1.0,
            rewards: Sparse(rewards).into_matrix(&transitions),
            transitions,
            action_rewards: Sparse(earned).into_vec(rows).into(),
            action_names: self.names.into_names(rows),
            ..MdpParts::default()
        }
    }

    /// Builds the matrix of the values, with the rows of a model that has these choices. Every collected row must be
    /// one of them.
    pub fn into_matrix(mut self, states: u32, choices: &Choices) -> Csr {
        self.put_in_order();
        let rows = choices.total(states);
        let mut row_ptr = Vec::with_capacity(rows + 1);
        for (&(state, action), &start) in self.keys.iter().zip(&self.starts) {
            row_ptr.resize(choices.first(state as usize) + action as usize + 1, start);
        }
        row_ptr.resize(rows + 1, self.col.len() as u64);
        Csr::built(row_ptr, self.col, self.val)
    }

    /// Sorts the parts by key and joins parts with equal keys.
    fn put_in_order(&mut self) {
        if !self.disordered {
            return;
        }
        let old = std::mem::take(self);
        let mut order: Vec<usize> = (0..old.keys.len()).collect();
        order.sort_by_key(|&part| old.keys[part]);
        for part in order {
            let (state, action) = old.keys[part];
            self.begin(state, action);
            self.earns(old.action_rewards.get(part));
            if let Some(name) = old.names.get(part) {
                self.named(name);
            }
            let end = old.starts.get(part + 1).map_or(old.col.len(), |&end| end as usize);
            for entry in old.starts[part] as usize..end {
                self.entry(old.col[entry], old.val[entry], old.rewards.get(entry));
            }
        }
    }

    /// Sorts each row by successor and merges duplicate successors.
    fn merge(&mut self) {
        if !self.unsorted {
            return;
        }
        let old = std::mem::take(&mut self.rewards);
        let (mut row, mut written) = (Vec::new(), 0);
        for part in 0..self.starts.len() {
            let end = self.starts.get(part + 1).map_or(self.col.len(), |&end| end as usize);
            let entries = self.starts[part] as usize..end;
            row.clear();
            row.extend(entries.map(|entry| (self.col[entry], self.val[entry], old.get(entry))));
            row.sort_by_key(|entry| entry.0);
            self.starts[part] = written as u64;
            for same in row.chunk_by(|a, b| a.0 == b.0) {
                let value: f64 = same.iter().map(|entry| entry.1).sum();
                let earned: f64 = same.iter().map(|entry| entry.1 * entry.2).sum();
                let reward = if same.len() == 1 || value == 0.0 { same[0].2 } else { earned / value };
                (self.col[written], self.val[written]) = (same[0].0, value);
                self.rewards.add(written, reward);
                written += 1;
            }
        }
        self.col.truncate(written);
        self.val.truncate(written);
    }

    fn choices(&self, states: u32) -> Result<Choices, Gap> {
        let mut offsets: Vec<u64> = Vec::with_capacity(states as usize + 1);
        for (row, &(state, found)) in self.keys.iter().enumerate() {
            let row = row as u64;
            if offsets.len() <= state as usize {
                offsets.resize(state as usize + 1, row);
            }
            let missing = row - offsets[state as usize];
            if missing != u64::from(found) {
                return Err(Gap { state, missing, found });
            }
        }
        offsets.resize(states as usize + 1, self.keys.len() as u64);
        Ok(offsets_as_choices(offsets))
    }
}

/// Choices from row offsets, uniform where possible.
fn offsets_as_choices(offsets: Vec<u64>) -> Choices {
    let first = offsets.get(1).copied().unwrap_or_default();
    let uniform = offsets.windows(2).all(|ends| ends[1] - ends[0] == first);
    match u32::try_from(first) {
        Ok(actions) if uniform && actions > 0 => Choices::Uniform(actions),
        _ => Choices::Ragged(offsets.into()),
    }
}

/// A vector with its trailing zeros cut off. It costs nothing while all numbers are 0.
#[derive(Default)]
struct Sparse(Vec<f64>);

impl Sparse {
    #[inline]
    fn add(&mut self, position: usize, number: f64) {
        if number != 0.0 {
            if position >= self.0.len() {
                self.0.resize(position + 1, 0.0);
            }
            self.0[position] += number;
        }
    }

    fn get(&self, position: usize) -> f64 {
        self.0.get(position).copied().unwrap_or_default()
    }

    /// All `length` numbers, or an empty vector if all are 0.
    fn into_vec(mut self, length: usize) -> Vec<f64> {
        if !self.0.is_empty() {
            self.0.resize(length, 0.0);
            self.0.shrink_to_fit();
        }
        self.0
    }

    /// The matrix with number i at entry i of `pattern`, without zeros.
    fn into_matrix(self, pattern: &Csr) -> Csr {
        let nonzero = self.0.iter().filter(|&&number| number != 0.0).count();
        if nonzero == 0 {
            return Csr::empty(pattern.rows());
        }
        if nonzero == pattern.nnz() {
            return Csr::built(pattern.row_ptr().clone(), pattern.col().clone(), self.0);
        }
        let mut row_ptr = Vec::with_capacity(pattern.row_ptr().len());
        let (mut col, mut val) = (Vec::with_capacity(nonzero), Vec::with_capacity(nonzero));
        row_ptr.push(0);
        for ends in pattern.row_ptr().windows(2) {
            for entry in ends[0] as usize..self.0.len().min(ends[1] as usize) {
                if self.0[entry] != 0.0 {
                    col.push(pattern.col()[entry]);
                    val.push(self.0[entry]);
                }
            }
            row_ptr.push(col.len() as u64);
        }
        Csr::built(row_ptr, col, val)
    }
}

/// Names of rows, each stored once.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    known: HashMap<String, u32>,
    /// For each part of a row, 1 + the index of its name in the list, or 0 for none.
    of_part: Vec<u32>,
    /// Whether some name differs from the number of its action.
    informative: bool,
}

impl Names {
    fn add(&mut self, part: usize, action: u32, name: &str) {
        if name.is_empty() {
            return;
        }
        let number = match self.known.get(name) {
            Some(&number) => number,
            None => {
                self.list.push(name.to_owned());
                let number = self.list.len() as u32;
                self.known.insert(name.to_owned(), number);
                number
            }
        };
        self.informative = self.informative || name.parse() != Ok(action);
        self.of_part.resize(part + 1, 0);
        self.of_part[part] = number;
    }

    fn get(&self, part: usize) -> Option<&str> {
        let number = self.of_part.get(part)?.checked_sub(1)?;
        self.list.get(number as usize).map(String::as_str)
    }

    /// Names of `rows` rows, or `None` if they are all action numbers. An unnamed row gets the empty name.
    fn into_names(mut self, rows: usize) -> Option<ActionNames> {
        if !self.informative {
            return None;
        }
        self.of_part.resize(rows, 0);
        let unnamed = self.list.len() as u32;
        if self.of_part.contains(&0) {
            self.list.push(String::new());
        }
        let of_row = self.of_part.iter().map(|number| number.checked_sub(1).unwrap_or(unnamed)).collect();
        Some(ActionNames { names: self.list, of_row })
    }
}

/// Iterates over states in ascending order and yields the labels of each. Every label keeps its members still to come.
pub struct Labels<'m>(Vec<(&'m str, &'m [u32])>);

impl<'m> Labels<'m> {
    /// The labels of a model, with "init" first.
    pub fn new(mdp: &'m Mdp) -> Self {
        let mut labels: Vec<_> = mdp.labels().iter().map(|(label, members)| (label.as_str(), &members[..])).collect();
        labels.sort_by_key(|(label, _)| *label != "init");
        Self(labels)
    }

    /// Names of all labels.
    pub fn names(&self) -> impl Iterator<Item = &'m str> {
        self.0.iter().map(|(label, _)| *label)
    }

    /// Number and name of each label of `state`. Calls must pass ascending states without gaps.
    pub fn next(&mut self, state: u32) -> impl Iterator<Item = (usize, &'m str)> {
        self.0.iter_mut().enumerate().filter_map(move |(number, (label, members))| {
            let (_, rest) = members.split_first().filter(|(first, _)| **first == state)?;
            *members = rest;
            Some((number, *label))
        })
    }
}

/// Name of a row, if rows have names.
pub fn name_of(mdp: &Mdp, row: usize) -> Option<&str> {
    mdp.action_names().map(|names| names.names[names.of_row[row] as usize].as_str())
}

/// The action reward that all actions of a state share, or 0 if they differ.
pub fn state_reward(mdp: &Mdp, state: usize) -> f64 {
    let rows = mdp.choices().rows(state);
    let reward = rows.clone().next().map_or(0.0, |row| mdp.action_reward(row));
    if rows.into_iter().all(|row| mdp.action_reward(row) == reward) { reward } else { 0.0 }
}

/// A name for a further state: `end`, or with as many further letters as make it new.
fn end_name(names: &[String]) -> String {
    let most = names.iter().filter(|name| name.starts_with("end")).map(String::len).max();
    most.map_or_else(|| "end".to_owned(), |most| format!("end{}", "_".repeat(most - 2)))
}

/// The same model for a format without termination probabilities: an additional terminal state takes them up. The
/// values of the other states do not change.
pub fn without_ends(mdp: &Mdp) -> Cow<'_, Mdp> {
    let Some(states) = mdp.states().checked_add(1).filter(|_| mdp.ends().iter().any(|&end| end != 0.0)) else {
        return Cow::Borrowed(mdp);
    };
    let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
    for row in 0..mdp.rows() {
        let (successors, probs) = mdp.transitions().row(row);
        col.extend_from_slice(successors);
        val.extend_from_slice(probs);
        if mdp.end(row) != 0.0 {
            col.push(mdp.states());
            val.push(mdp.end(row));
        }
        row_ptr.push(col.len() as u64);
    }
    let offsets = (0..=mdp.states() as usize).map(|state| mdp.choices().first(state) as u64).chain([mdp.rows() as u64]);
    Cow::Owned(Mdp::built(MdpParts {
        states,
        choices: Choices::Ragged(offsets.collect::<Vec<_>>().into()),
        transitions: Csr::built(row_ptr, col, val),
        ends: Array::default(),
        grid: None,
        state_names: mdp.state_names().map(|names| Arc::new(names.iter().cloned().chain([end_name(names)]).collect())),
        ..mdp.clone().into_parts()
    }))
}
