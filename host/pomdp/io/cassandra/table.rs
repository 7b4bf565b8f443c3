//! T and O as a file specifies them, entry by entry, row by row or for all rows at once; later settings override
//! earlier ones.
//!
//! Settings for all actions or all states are stored once, and rows are built after the whole file is read.

use super::{ALL, ByteOffset, MAX_ENTRIES};
use crate::belief::Belief;
use crate::io::fault::Fault;
use warpkov_common::parameters::SUM_TOLERANCE;
use warpkov_mdp::model::Csr;

/// A setting of a whole row.
#[derive(Clone, Copy)]
pub enum Whole {
    /// The same value in every column.
    Fill(f64),
    /// 1 in the column of the row's own state, 0 elsewhere.
    Identity,
    /// The start belief.
    Start,
}

/// One setting of an entry or a whole row.
#[derive(Clone, Copy)]
struct Setting {
    /// Index of the given action and state; see `Table::key`.
    key: u32,
    /// A column, or [`FILL`], [`IDENTITY`] or [`START`].
    column: u32,
    /// Byte offset in the file; later settings override earlier ones.
    at: ByteOffset,
    value: f64,
}

const FILL: u32 = u32::MAX;
const IDENTITY: u32 = u32::MAX - 1;
const START: u32 = u32::MAX - 2;

/// A matrix with one row per action and state.
pub struct Table {
    /// T or O.
    name: &'static str,
    actions: u32,
    states: u32,
    columns: u32,
    /// Settings by wildcards: none, action, state, both.
    settings: [Vec<Setting>; 4],
}

impl Table {
    /// A table of zeros. Rows of T are ordered by state, then action; rows of O by action, then state.
    pub fn new(name: &'static str, actions: u32, states: u32, columns: u32) -> Self {
        Self { name, actions, states, columns, settings: Default::default() }
    }

    /// Whether there are no settings.
    pub fn is_empty(&self) -> bool {
        self.settings.iter().all(Vec::is_empty)
    }

    fn by_state(&self) -> bool {
        self.name == "T"
    }

    fn class(action: u32, state: u32) -> usize {
        usize::from(action == ALL) | usize::from(state == ALL) << 1
    }

    /// An index of action and state that is unique among settings with the same wildcards.
    fn key(&self, action: u32, state: u32) -> u32 {
        match (action, state) {
            (ALL, ALL) => 0,
            (ALL, given) | (given, ALL) => given,
            (action, state) if self.by_state() => state * self.actions + action,
            (action, state) => action * self.states + state,
        }
    }

    /// Sets the entry of a column.
    #[inline]
    pub fn set(&mut self, action: u32, state: u32, column: u32, at: ByteOffset, value: f64) {
        let setting = Setting { key: self.key(action, state), column, at, value };
        self.settings[Self::class(action, state)].push(setting);
    }

    /// Sets whole rows.
    pub fn set_row(&mut self, action: u32, state: u32, whole: Whole, at: ByteOffset) {
        let (column, value) = match whole {
            Whole::Fill(value) => (FILL, value),
            Whole::Identity => (IDENTITY, 1.0),
            Whole::Start => (START, 0.0),
        };
        if (action, state) == (ALL, ALL) {
            self.settings.iter_mut().for_each(Vec::clear);
        }
        self.set(action, state, column, at, value);
    }

    /// Puts the settings in order, and checks that the matrix is not too large, before any of it is built. `end` is the length of
    /// the file.
    pub fn sorted(mut self, end: usize) -> Result<Self, Fault> {
        // The sort is stable, so settings with equal keys stay in file order.
        self.settings.iter_mut().for_each(|settings| settings.sort_by_key(|setting| setting.key));
        if self.entries() > u64::from(MAX_ENTRIES) { Err(self.too_many(end)) } else { Ok(self) }
    }

    /// A lower bound on the bytes of the matrix.
    pub fn bytes(&self) -> u64 {
        8 * u64::from(self.actions) * u64::from(self.states) + 12 * self.entries()
    }

    fn too_many(&self, end: usize) -> Fault {
        Fault::new(end, format!("{} has more than {MAX_ENTRIES} nonzeros", self.name))
    }

    /// Builds the matrix of a [sorted](Self::sorted) table and checks that each row sums to 1. `describe` names an action and a
    /// state in messages; `end` is the length of the file.
    pub fn rows(&self, start: &Belief, end: usize, describe: impl Fn(u32, u32) -> String) -> Result<Csr, Fault> {
        let rows = self.actions as usize * self.states as usize;
        let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
        let (mut rest, mut merged, mut cells) = (&self.settings[0][..], Vec::new(), Vec::new());
        for row in 0..rows as u32 {
            let (action, state) = self.place(row);
            let length = rest.iter().take_while(|setting| setting.key == row).count();
            let own;
            (own, rest) = rest.split_at(length);
            let settings = self.merged(own, action, state, &mut merged);
            let whole = settings.iter().rposition(|setting| setting.column >= START);
            cells.clear();
            let mut fill = 0.0;
            match whole.map(|whole| settings[whole]) {
                Some(Setting { column: FILL, value, .. }) => fill = value,
                Some(Setting { column: IDENTITY, .. }) => cells.push((state, 1.0)),
                Some(_) => cells.extend(start.iter()),
                None => {}
            }
            let later = &settings[whole.map_or(0, |whole| whole + 1)..];
            cells.extend(later.iter().map(|setting| (setting.column, setting.value)));
            if !cells.is_sorted_by(|a, b| a.0 < b.0) {
                cells.sort_by_key(|cell| cell.0);
                // Keep the last of equal columns.
                cells.dedup_by(|after, before| {
                    let same = after.0 == before.0;
                    if same {
                        before.1 = after.1;
                    }
                    same
                });
            }
            let first = col.len();
            if fill != 0.0 && cells.len() < self.columns as usize {
                let mut cells = cells.iter().copied().peekable();
                let dense = (0..self.columns)
                    .map(|column| cells.next_if(|cell| cell.0 == column).unwrap_or((column, fill)))
                    .filter(|cell| cell.1 != 0.0);
                extend(&mut col, &mut val, dense);
            } else {
                extend(&mut col, &mut val, cells.iter().copied().filter(|cell| cell.1 != 0.0));
            }
            // Starts at +0, because an empty sum of f64 is −0.
            let sum = val[first..].iter().fold(0.0, |sum, prob| sum + prob);
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                let message = format!("{} of {} sums to {sum}, expected 1", self.name, describe(action, state));
                return Err(match settings.last() {
                    Some(last) => Fault::new(last.at as usize, format!("{message}; last set here")),
                    None => Fault::new(end, format!("{message}; never set")),
                });
            }
            if col.len() > MAX_ENTRIES as usize {
                return Err(self.too_many(end));
            }
            row_ptr.push(col.len() as u64);
        }
        Ok(Csr::built(row_ptr, col, val))
    }

    /// Action and state of a row.
    fn place(&self, row: u32) -> (u32, u32) {
        match self.by_state() {
            true => (row % self.actions, row / self.actions),
            false => (row / self.states, row % self.states),
        }
    }

    /// A lower bound on the number of nonzeros: all entries of rows whose last setting fills them, and one of each other row.
    fn entries(&self) -> u64 {
        let fills = |setting: &Setting| setting.column == FILL && setting.value != 0.0;
        let all = u64::from(self.actions) * u64::from(self.states);
        if !self.settings.iter().flatten().any(fills) {
            return all;
        }
        // Without settings of single states, all states are alike, and so are actions.
        let [own, of_states, of_actions, _] = self.settings.each_ref().map(|settings| !settings.is_empty());
        let states = if own || of_states { self.states } else { 1 };
        let actions = if own || of_actions { self.actions } else { 1 };
        let (mut merged, mut entries) = (Vec::new(), 0);
        for action in 0..actions {
            for state in 0..states {
                let own = self.settings_of(action, state);
                let filled = self.merged(own, action, state, &mut merged).last().is_some_and(fills);
                entries += if filled { u64::from(self.columns) } else { 1 };
            }
        }
        entries * (all / (u64::from(actions) * u64::from(states)))
    }

    /// The settings of an action and a state, each of which may be [`ALL`].
    fn settings_of(&self, action: u32, state: u32) -> &[Setting] {
        let (settings, key) = (&self.settings[Self::class(action, state)], self.key(action, state));
        let first = settings.partition_point(|setting| setting.key < key);
        let length = settings[first..].iter().take_while(|setting| setting.key == key).count();
        &settings[first..first + length]
    }

    /// All settings of a row in file order.
    fn merged<'s>(&self, own: &'s [Setting], action: u32, state: u32, merged: &'s mut Vec<Setting>) -> &'s [Setting] {
        if self.settings[1..].iter().all(Vec::is_empty) {
            return own;
        }
        merged.clear();
        merged.extend_from_slice(own);
        for (action, state) in [(ALL, state), (action, ALL), (ALL, ALL)] {
            merged.extend_from_slice(self.settings_of(action, state));
        }
        merged.sort_by_key(|setting| setting.at);
        merged
    }
}

fn extend(col: &mut Vec<u32>, val: &mut Vec<f64>, cells: impl Iterator<Item = (u32, f64)>) {
    for (column, value) in cells {
        col.push(column);
        val.push(value);
    }
}
