//! Posteriors of parameters as JSON: one object with the parameters of all distributions of [`Beliefs`]. It can be read as a prior.
//!
//! | key | value |
//! | --- | --- |
//! | `pi` | N Dirichlet parameters of π |
//! | `A` | N rows of N: those of the rows of A |
//! | `end` | N: those of the end probabilities, which belong to the rows of A; optional |
//! | `B` | N rows of V: those of the rows of B |
//! | `m` | instead of B: N rows of D numbers |
//! | `beta` | N numbers above 0 |
//! | `nu` | N numbers, or one if all states have the same precision |
//! | `S` | for each number of `nu`, a row of D numbers or a matrix of D rows |
//! | `states`, `symbols` | lists of names; optional |
//!
//! As in models, objects with names as keys may replace the arrays.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path as FilePath;

use serde::de::MapAccess;

use super::json::{count, field, matrices, matrix, put};
use crate::covariances::symmetrise;
use crate::model::{Covariances, Names};
use crate::variational::{Beliefs, EmissionBeliefs};
use warpkov_common::io::input::Input;
use warpkov_common::io::json::{Axis, Dense, Fields, Path, Table, Tabular, parse};
use warpkov_common::io::{BUFFER, Error};

/// The JSON Schema (draft 2020-12) of posteriors.
pub const SCHEMA: &str = include_str!("beliefs.schema.json");

#[derive(Default)]
struct Distributions {
    start: Option<Table>,
    transitions: Option<Table>,
    counts: Option<Table>,
    means: Option<Table>,
    strengths: Option<Table>,
    degrees: Option<Table>,
    scales: Option<Table>,
    end: Option<Table>,
    names: Names,
}

impl Fields for Distributions {
    const KEYS: &'static [&'static str] = &["pi", "A", "B", "m", "beta", "nu", "S", "end", "states", "symbols"];
    const REQUIRED: usize = 2;
    const ONE_OF: &'static [&'static [&'static str]] = &[&["B", "m"]];

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        let target = match key {
            "states" => return map.next_value().map(|names| self.names.states = names),
            "symbols" => return map.next_value().map(|names| self.names.symbols = names),
            "pi" => &mut self.start,
            "A" => &mut self.transitions,
            "B" => &mut self.counts,
            "m" => &mut self.means,
            "beta" => &mut self.strengths,
            "nu" => &mut self.degrees,
            "S" => &mut self.scales,
            _ => &mut self.end,
        };
        *target = Some(map.next_value_seed(Tabular::at(path, "a number"))?);
        Ok(())
    }

    fn complete(&self) -> Result<(), &'static str> {
        let of_vectors = [&self.strengths, &self.degrees, &self.scales].map(Option::is_some);
        match self.means.is_some() {
            true if of_vectors != [true; 3] => Err("expected \"beta\", \"nu\" and \"S\" with \"m\""),
            false if of_vectors != [false; 3] => Err("found \"beta\", \"nu\" or \"S\" without \"m\""),
            _ => Ok(()),
        }
    }
}

impl Distributions {
    fn beliefs(self) -> Result<(Beliefs, Names), String> {
        let Self { start, transitions, counts, means, strengths, degrees, scales, end, names } = self;
        let axis = |kind, names, length| Axis { kind, names, length };
        let dense = |table: Option<Table>, place: &str, axes: &[Axis]| match table {
            Some(table) => table.dense(place, axes),
            None => Ok(Dense::default()),
        };
        let start = dense(start, "pi", &[axis("state", &names.states, None)])?.numbers;
        let n = Some(start.len());
        let state = axis("state", &names.states, n);
        let transitions = dense(transitions, "A", &[axis("from", &names.states, n), axis("to", &names.states, n)])?;
        let end = end.map(|end| end.dense("end", &[state])).transpose()?;
        let emissions = match (counts, means) {
            (Some(counts), _) => {
                let counts = counts.dense("B", &[state, axis("symbol", &names.symbols, None)])?;
                EmissionBeliefs::Categorical { symbols: count(&counts, 1)?, counts: counts.numbers }
            }
            (None, means) => {
                let means = dense(means, "m", &[state, axis("dimension", &[], None)])?;
                let degrees = dense(degrees, "nu", &[axis("state", &names.states, None)])?.numbers;
                let full = matches!(&scales, Some(Table::Dense(dense)) if dense.shape.len() == 3);
                let d = axis("dimension", &[], means.shape.last().copied());
                let axes = [axis("state", &names.states, Some(degrees.len())), d, d];
                let mut numbers = dense(scales, "S", &axes[..if full { 3 } else { 2 }])?.numbers;
                let width = means.shape.last().copied().unwrap_or_default();
                let mut matrices = numbers.chunks_exact_mut((width * width).max(1));
                if full && !matrices.all(|matrix| symmetrise(matrix, width)) {
                    return Err("S is not symmetric".to_owned());
                }
                EmissionBeliefs::Gaussian {
                    dimensions: count(&means, 1)?,
                    means: means.numbers,
                    strengths: dense(strengths, "beta", &[state])?.numbers,
                    degrees,
                    scales: if full { Covariances::Full(numbers) } else { Covariances::Diagonal(numbers) },
                }
            }
        };
        let beliefs = Beliefs { start, transitions: transitions.numbers, end: end.map(|end| end.numbers), emissions };
        beliefs.check()?;
        let symbols = match &beliefs.emissions {
            EmissionBeliefs::Categorical { symbols, .. } => *symbols as usize,
            EmissionBeliefs::Gaussian { .. } => 0,
        };
        for (kind, names, expected) in [("states", &names.states, n), ("symbols", &names.symbols, Some(symbols))] {
            if !names.is_empty() && Some(names.len()) != expected {
                return Err(format!("{} names of {kind}, expected {}", names.len(), expected.unwrap_or_default()));
            }
        }
        Ok((beliefs, names))
    }
}

/// Reads a distribution of the parameters, and the names of states and symbols in its file.
///
/// # Errors
/// If the file cannot be read, or the parameters are not [valid](Beliefs::check).
pub fn read(path: &FilePath) -> Result<(Beliefs, Names), Error> {
    let file = path.display().to_string();
    read_from(Input::open(path).map_err(Error::read(&file))?, &file)
}

/// Reads a distribution from a stream. Messages refer to the stream as `name`.
///
/// # Errors
/// Those of [`read()`].
pub fn read_from(reader: impl Read, name: &str) -> Result<(Beliefs, Names), Error> {
    let found: Distributions = parse(reader, name.to_owned())?;
    found.beliefs().map_err(|message| Error::Content { file: name.to_owned(), message })
}

/// Writes a distribution of the parameters of a model with these names, one line per row.
///
/// # Errors
/// Those of `writer`.
pub fn write_to(writer: impl Write, beliefs: &Beliefs, names: &Names) -> io::Result<()> {
    let out = &mut BufWriter::with_capacity(BUFFER, writer);
    write!(out, "{{\n\"pi\": ")?;
    put(out, &beliefs.start)?;
    matrix(out, "A", &beliefs.transitions, beliefs.start.len())?;
    if let Some(end) = &beliefs.end {
        field(out, "end", end)?;
    }
    match &beliefs.emissions {
        EmissionBeliefs::Categorical { symbols, counts } => matrix(out, "B", counts, *symbols as usize)?,
        EmissionBeliefs::Gaussian { dimensions, means, strengths, degrees, scales } => {
            let d = *dimensions as usize;
            matrix(out, "m", means, d)?;
            field(out, "beta", strengths)?;
            field(out, "nu", degrees)?;
            match scales {
                Covariances::Diagonal(diagonals) => matrix(out, "S", diagonals, d)?,
                Covariances::Full(numbers) => matrices(out, "S", numbers, d)?,
            }
        }
    }
    for (key, names) in [("states", &names.states), ("symbols", &names.symbols)] {
        if !names.is_empty() {
            field(out, key, names)?;
        }
    }
    writeln!(out, "\n}}")?;
    out.flush()
}
