//! Sequences of a file with their names, their positions in the original sequences, and the sets of symbols that
//! ambiguous observations stand for.

use std::borrow::Cow;
use std::collections::HashMap;

use super::missing::{HINT, MISSING, Missing};
use crate::ambiguous::extended;
use crate::io::Error;
use crate::model::{Emissions, Hmm};
use crate::sequences::{Invalid, Observations, Sequences, place};
use warpkov_common::io::invalid;
use warpkov_common::io::lines::quoted;
use warpkov_common::names::name;

/// The sequences of a file, and data about them.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// The sequences. Symbol V + k denotes `sets[k]`.
    pub sequences: Sequences,
    /// Name of each sequence in the file; empty if the file has no names. The parts of a split sequence share its name.
    pub names: Vec<String>,
    /// Position, from 0, at which each sequence begins in the sequence of the file; empty if all begin at 0.
    pub starts: Vec<u64>,
    /// For each symbol from V on, the symbols that it may be, ascending.
    pub sets: Vec<Vec<u32>>,
    /// Position, from 0, of each observation in the sequence of the file; empty if [`starts`](Self::starts) tells them,
    /// because no observations were removed.
    pub positions: Vec<u64>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Records {
    /// Records without names, sets or notes.
    #[must_use]
    pub fn new(sequences: Sequences) -> Self {
        let (names, starts, positions) = (Vec::new(), Vec::new(), Vec::new());
        Self { sequences, names, starts, positions, sets: Vec::new(), notes: Vec::new() }
    }

    /// The sequences, and the symbols that V, V + 1 … stand for in them.
    #[must_use]
    pub fn observed(&self) -> (&Sequences, &[Vec<u32>]) {
        (&self.sequences, &self.sets)
    }

    /// The name of a sequence, or its number from 1.
    #[must_use]
    pub fn name(&self, sequence: usize) -> Cow<'_, str> {
        self.names.get(sequence).map_or_else(|| (sequence + 1).to_string().into(), |name| name.as_str().into())
    }

    /// Position, from 0, at which a sequence begins in the sequence of the file.
    #[must_use]
    pub fn start(&self, sequence: usize) -> u64 {
        self.starts.get(sequence).copied().unwrap_or(0)
    }

    /// Positions, from 0, of the observations of a sequence in the sequence of the file.
    pub fn positions(&self, sequence: usize) -> impl Iterator<Item = u64> + '_ {
        let (range, start) = (self.sequences.range(sequence), self.start(sequence));
        (start..).zip(range).map(move |(position, at)| self.positions.get(at).copied().unwrap_or(position))
    }

    /// The model [extended](crate::ambiguous::extended) by the symbols of `sets`.
    #[must_use]
    pub fn extended<'m>(&self, model: &'m Hmm) -> Cow<'m, Hmm> {
        extended(model, &self.sets)
    }

    /// Explains why a sequence (index from 0) is impossible under a model.
    #[must_use]
    pub fn why_impossible(&self, model: &Hmm, sequence: usize) -> String {
        let range = self.sequences.range(sequence);
        // From 1.
        let in_file = |position: usize| self.positions(sequence).nth(position - 1).map_or(0, |at| at + 1);
        let reason = match self.sequences.impossible_at(&self.extended(model), sequence) {
            Some(position) if position > range.len() => {
                format!("after position {}, no reachable state can end the sequence", in_file(range.len()))
            }
            Some(position) => {
                let at = range.start + position - 1;
                let mut observed = self.seen(model, at);
                if let Some(state) = self.sequences.state(at) {
                    observed += &format!(" in state {}", quoted(name(&model.names().states, state).as_bytes()));
                }
                let position = in_file(position);
                format!("position {position}: found {observed}, which no reachable state emits")
            }
            None => "its probability underflows".to_owned(),
        };
        let name = self.names.get(sequence).map_or_else(String::new, |name| format!(" ({})", quoted(name.as_bytes())));
        format!("sequence {}{name}, {reason}", sequence + 1)
    }

    /// Description of observation `at`, for messages.
    fn seen(&self, model: &Hmm, at: usize) -> String {
        match (self.sequences.observations(), model.emissions()) {
            (Observations::Symbols(seen), Emissions::Categorical { symbols, .. }) => {
                let text = |symbol: &u32| quoted(name(&model.names().symbols, *symbol).as_bytes());
                match seen[at].checked_sub(*symbols) {
                    None => format!("symbol {}", text(&seen[at])),
                    Some(set) => self.sets[set as usize].iter().map(text).collect::<Vec<_>>().join(" or "),
                }
            }
            (Observations::Vectors { dimensions, values }, _) => {
                let d = *dimensions as usize;
                format!("{:?}", &values[at * d..][..d])
            }
            (Observations::Symbols(seen), _) => format!("symbol {}", seen[at]),
        }
    }
}

/// Raw contents of a file, before missing observations are treated. A record is a sequence of the file.
pub struct Read {
    /// Offsets of records, from 0.
    pub offsets: Vec<u64>,
    /// Observations; [`MISSING`] or NaN where one is missing.
    pub observations: Observations,
    /// Name of each record; empty if the file has no names.
    pub names: Vec<String>,
    /// See [`Records::sets`].
    pub sets: Vec<Vec<u32>>,
    codes: HashMap<Vec<u32>, u32>,
    /// See [`Records::notes`].
    pub notes: Vec<String>,
}

impl Read {
    /// Empty contents: vectors of the given dimension, or symbols for `None`.
    pub fn new(dimensions: Option<usize>) -> Self {
        let observations = match dimensions {
            Some(d) => Observations::Vectors { dimensions: d as u32, values: Vec::new() },
            None => Observations::Symbols(Vec::new()),
        };
        Self::from_observations(vec![0], observations)
    }

    /// Records without names.
    pub fn from_observations(offsets: Vec<u64>, observations: Observations) -> Self {
        let (names, sets, codes, notes) = (Vec::new(), Vec::new(), HashMap::new(), Vec::new());
        Self { offsets, observations, names, sets, codes, notes }
    }

    /// Number of observations.
    pub fn len(&self) -> u64 {
        match &self.observations {
            Observations::Symbols(symbols) => symbols.len() as u64,
            Observations::Vectors { dimensions, values } => values.len() as u64 / u64::from(*dimensions),
        }
    }

    /// Adds a missing observation.
    pub fn push_missing(&mut self) {
        match &mut self.observations {
            Observations::Symbols(symbols) => symbols.push(MISSING),
            Observations::Vectors { dimensions, values } => {
                values.extend(std::iter::repeat_n(f64::NAN, *dimensions as usize));
            }
        }
    }

    /// The symbol, from V = `symbols` on, that denotes a set of symbols.
    pub fn set(&mut self, set: Vec<u32>, symbols: u32) -> u32 {
        let sets = &mut self.sets;
        *self.codes.entry(set).or_insert_with_key(|set| {
            sets.push(set.clone());
            symbols + sets.len() as u32 - 1
        })
    }

    /// Whether observation `at`, or a component of it, is missing.
    fn is_missing(&self, at: usize) -> bool {
        match &self.observations {
            Observations::Symbols(symbols) => symbols[at] == MISSING,
            Observations::Vectors { dimensions, values } => {
                let d = *dimensions as usize;
                values[at * d..][..d].iter().any(|value| value.is_nan())
            }
        }
    }

    /// Applies the treatment of missing observations and checks that the model emits the sequences.
    pub fn settled(mut self, missing: Missing, file: &str, model: &Hmm) -> Result<Records, Error> {
        let invalid = |source| invalid(file)(source);
        self.check_symbols(missing, model.emissions().symbols()).map_err(invalid)?;
        let lost: Vec<bool> = match missing {
            Missing::Refuse => Vec::new(),
            _ => (0..self.len() as usize).map(|at| self.is_missing(at)).collect(),
        };
        let count = lost.iter().filter(|lost| **lost).count();
        let (mut starts, mut positions) = (Vec::new(), Vec::new());
        match missing {
            Missing::Marginalise => self.marginalise(count, model.emissions().symbols(), file),
            Missing::Split | Missing::Skip if count > 0 => {
                (starts, positions) = self.cut(&lost, missing == Missing::Split, file);
            }
            Missing::Refuse | Missing::Split | Missing::Skip => {}
        }
        let sequences = match missing {
            Missing::Marginalise => Sequences::with_missing(self.offsets, self.observations),
            _ => Sequences::new(self.offsets, self.observations),
        };
        let sequences = sequences.map_err(|error| match error {
            Invalid::Value { found, .. } if found.is_nan() => {
                Error::Content { file: file.to_owned(), message: format!("{error}{HINT}") }
            }
            error => invalid(error),
        })?;
        let Self { names, sets, notes, .. } = self;
        let records = Records { sequences, names, starts, positions, sets, notes };
        records.sequences.check(&records.extended(model)).map_err(invalid)?;
        Ok(records)
    }

    /// Compares symbols with V = `symbols`, which formats of plain numbers have not done. They have no sets, whose symbols begin at V.
    fn check_symbols(&self, missing: Missing, symbols: u32) -> Result<(), Invalid> {
        if let (Observations::Symbols(seen), true) = (&self.observations, self.sets.is_empty() && symbols > 0) {
            let valid = |&symbol: &u32| symbol < symbols || symbol == MISSING && missing != Missing::Refuse;
            if let Some(at) = seen.iter().position(|symbol| !valid(symbol)) {
                let (sequence, position) = place(&self.offsets, at);
                return Err(Invalid::Symbol { sequence, position, found: seen[at], symbols });
            }
        }
        Ok(())
    }

    /// Makes the `count` missing symbols the set of all V = `symbols`. Vectors keep NaN.
    fn marginalise(&mut self, count: usize, symbols: u32, file: &str) {
        if let (Observations::Vectors { values, .. }, 1..) = (&self.observations, count) {
            let numbers = values.iter().filter(|x| x.is_nan()).count();
            self.notes.push(format!("{file}: {numbers} missing numbers of {count} observations are integrated out"));
        }
        if count > 0 && symbols > 0 {
            let any = self.set((0..symbols).collect(), symbols);
            if let Observations::Symbols(seen) = &mut self.observations {
                seen.iter_mut().filter(|seen| **seen == MISSING).for_each(|seen| *seen = any);
            }
        }
        if let (Observations::Symbols(seen), false) = (&self.observations, self.sets.is_empty()) {
            let summed = seen.iter().filter(|seen| **seen >= symbols).count();
            self.notes.push(format!(
                "{file}: {summed} missing or ambiguous observations are summed over their possible symbols"
            ));
        }
    }

    /// Removes the `lost` observations, of which there is one, and splits records there if `split`. Returns
    /// [`Records::starts`] and [`Records::positions`].
    fn cut(&mut self, lost: &[bool], split: bool, file: &str) -> (Vec<u64>, Vec<u64>) {
        let (mut starts, mut positions, mut names, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), vec![0]);
        let (records, mut kept) = (self.offsets.len().saturating_sub(1), 0);
        for record in 0..records {
            let range = self.offsets[record] as usize..self.offsets[record + 1] as usize;
            let begun = offsets.len();
            let mut at = range.start;
            while at < range.end {
                let end = match split {
                    true => (at..range.end).find(|&at| lost[at]).unwrap_or(range.end),
                    false => range.end,
                };
                let here = (at..end).filter(|&at| !lost[at]).map(|at| (at - range.start) as u64);
                let before = positions.len();
                positions.extend(here);
                if positions.len() > before {
                    kept += (positions.len() - before) as u64;
                    offsets.push(kept);
                    starts.push((at - range.start) as u64);
                }
                at = end + 1;
            }
            let name = || self.names.get(record).cloned().unwrap_or_else(|| (record + 1).to_string());
            names.extend((begun..offsets.len()).map(|_| name()));
        }
        match &mut self.observations {
            Observations::Symbols(seen) => seen.retain(|symbol| *symbol != MISSING),
            Observations::Vectors { dimensions, values } => {
                let d = *dimensions as usize;
                let kept = values.chunks_exact(d).zip(lost).filter(|(_, lost)| !**lost);
                *values = kept.flat_map(|(row, _)| row).copied().collect();
            }
        }
        let (count, parts) = (lost.iter().filter(|lost| **lost).count(), offsets.len() - 1);
        self.notes.push(match split {
            true => format!("{file}: {count} missing observations split {records} sequences into {parts}"),
            false => format!("{file}: {count} missing observations are omitted"),
        });
        (self.offsets, self.names) = (offsets, names);
        // Parts of records have all observations from their start on.
        if split { (starts, Vec::new()) } else { (Vec::new(), positions) }
    }
}
