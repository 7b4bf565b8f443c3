//! From transitions in the order of a file to a model's arrays.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::mdp::model::{ActionNames, Array, Choices, Csr, Mdp, MdpParts};

/// Collects rows: state-action pairs, their names, and their entries.
///
/// Files mostly give them in order, which then costs nothing. A row that comes in several parts is put together, and a
/// successor that comes more than once in a row is merged: probabilities add up, and the reward is the mean, weighted by
/// them.
#[derive(Default)]
pub struct Rows {
    /// State and action of each part of a row, and where its entries begin.
    keys: Vec<(u32, u32)>,
    starts: Vec<u64>,
    col: Vec<u32>,
    val: Vec<f64>,
    /// Of the entries.
    rewards: Sparse,
    /// Of the parts.
    action_rewards: Sparse,
    names: Names,
    /// Keys do not ascend.
    disordered: bool,
    /// Successors do not ascend.
    unsorted: bool,
}

/// That a state has an action, but not one before it.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("state {state} has choice {found}, expected choice {missing} first")]
pub struct Gap {
    state: u32,
    missing: u64,
    found: u32,
}

impl Rows {
    /// Begins a row, or a part of it, unless it is the last one. True if it does.
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

    /// Adds to what the last row earns.
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

    /// A model of these rows with γ = 1, not yet validated.
    pub fn into_model(mut self, states: u32) -> Result<MdpParts, Gap> {
        self.put_in_order();
        self.merge();
        let (choices, rows) = (self.choices(states)?, self.keys.len());
        self.starts.push(self.col.len() as u64);
        // Else the arrays of a large model would take up to twice their size for good.
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

    /// Names the rows of a model, of which a state's are those between its offsets.
    pub fn named_by(&mut self, names: &Option<ActionNames>, offsets: &[u64]) {
        let Some(ActionNames { names, of_row }) = names else { return };
        for own in offsets.windows(2) {
            for (action, row) in (0..).zip(own[0] as usize..own[1] as usize) {
                self.names.add(row, action, names.get(of_row[row] as usize).map_or("", String::as_str));
            }
        }
    }

    /// A model with γ = 1, not yet validated, of arrays that are as it has them, and the names of the rows: offsets of states'
    /// rows and of rows' entries, which ascend in each row, and rewards of entries and of rows, or none.
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

    /// The matrix of the values, for a model with these choices, all of which it must hold.
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

    /// Sorts the parts by their keys, and makes one of those with the same.
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

    /// Merges entries with the same successor in a row, after sorting it.
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

/// Choices of states between offsets.
fn offsets_as_choices(offsets: Vec<u64>) -> Choices {
    let first = offsets.get(1).copied().unwrap_or_default();
    let uniform = offsets.windows(2).all(|ends| ends[1] - ends[0] == first);
    match u32::try_from(first) {
        Ok(actions) if uniform && actions > 0 => Choices::Uniform(actions),
        _ => Choices::Ragged(offsets.into()),
    }
}

/// Numbers most of which may be 0, or all: they are kept up to the last that is not.
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

    /// All `length` numbers, or none where all are 0.
    fn into_vec(mut self, length: usize) -> Vec<f64> {
        if !self.0.is_empty() {
            self.0.resize(length, 0.0);
            self.0.shrink_to_fit();
        }
        self.0
    }

    /// A matrix of them where `pattern` has entries, without those that are 0.
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

/// The names of rows.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    known: HashMap<String, u32>,
    /// Per part of a row, the number of its name in the list, plus 1; 0 where it has none.
    of_part: Vec<u32>,
    /// Some name is not just the number of the action.
    telling: bool,
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
        self.telling = self.telling || name.parse() != Ok(action);
        self.of_part.resize(part + 1, 0);
        self.of_part[part] = number;
    }

    fn get(&self, part: usize) -> Option<&str> {
        let number = self.of_part.get(part)?.checked_sub(1)?;
        self.list.get(number as usize).map(String::as_str)
    }

    /// The names of `rows` rows, if they tell anything. One without a name has an empty one.
    fn into_names(mut self, rows: usize) -> Option<ActionNames> {
        if !self.telling {
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

/// The labels of one state after another.
pub struct Labels<'m>(Vec<(&'m str, &'m [u32])>);

impl<'m> Labels<'m> {
    /// The labels of a model, "init" before the others.
    pub fn of(mdp: &'m Mdp) -> Self {
        let mut labels: Vec<_> = mdp.labels().iter().map(|(label, members)| (label.as_str(), &members[..])).collect();
        labels.sort_by_key(|(label, _)| *label != "init");
        Self(labels)
    }

    /// All of them.
    pub fn names(&self) -> impl Iterator<Item = &'m str> {
        self.0.iter().map(|(label, _)| *label)
    }

    /// Those of a state, with their numbers. States are asked for in ascending order.
    pub fn next(&mut self, state: u32) -> impl Iterator<Item = (usize, &'m str)> {
        self.0.iter_mut().enumerate().filter_map(move |(number, (label, members))| {
            let (_, rest) = members.split_first().filter(|(first, _)| **first == state)?;
            *members = rest;
            Some((number, *label))
        })
    }
}

/// The name of a row, if rows have names.
pub fn name_of(mdp: &Mdp, row: usize) -> Option<&str> {
    mdp.action_names().map(|names| names.names[names.of_row[row] as usize].as_str())
}

/// What all actions of a state earn, if that is the same.
pub fn state_reward(mdp: &Mdp, state: usize) -> f64 {
    let rows = mdp.choices().rows(state);
    let reward = rows.clone().next().map_or(0.0, |row| mdp.action_reward(row));
    if rows.into_iter().all(|row| mdp.action_reward(row) == reward) { reward } else { 0.0 }
}

/// The same model for a format without rows that end the process: they lead to one more state, which is terminal. The
/// values of the others are the same.
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
        ..mdp.clone().into_parts()
    }))
}
