//! JSON: one object with these keys.
//!
//! | key | value |
//! | --- | --- |
//! | `pi` | N probabilities |
//! | `A` | N rows of N probabilities |
//! | `B` | N rows of V probabilities; or instead: |
//! | `means` | N rows of D numbers |
//! | `covariances` | N rows of D variances, or N matrices of D rows |
//! | `end` | N probabilities; optional |
//! | `states`, `symbols` | lists of names; optional |

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::{Error, flat};
use crate::hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(non_snake_case, reason = "the keys")]
struct Model {
    pi: Vec<f64>,
    A: Vec<Vec<f64>>,
    B: Option<Vec<Vec<f64>>>,
    end: Option<Vec<f64>>,
    means: Option<Vec<Vec<f64>>>,
    covariances: Option<Matrices>,
    #[serde(default)]
    states: Vec<String>,
    #[serde(default)]
    symbols: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected rows of variances, or matrices of covariances, of numbers")]
enum Matrices {
    Diagonal(Vec<Vec<f64>>),
    Full(Vec<Vec<Vec<f64>>>),
}

/// Reads a model, without validation.
pub fn read(text: &[u8], file: &str) -> Result<HmmParts, Error> {
    let model: Model = serde_json::from_slice(text).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&place).unwrap_or(&message).to_owned();
        Error::Line { file: file.to_owned(), line: error.line() as u64, message }
    })?;
    model.hmm().map_err(|message| Error::Content { file: file.to_owned(), message })
}

impl Model {
    fn hmm(self) -> Result<HmmParts, String> {
        let n = self.pi.len();
        let rows = |name: &str, found: usize| match found == n {
            true => Ok(()),
            false => Err(format!("{name} has {found} rows, expected {n}, the length of pi")),
        };
        let transitions = flat("A", &self.A, n)?;
        rows("A", self.A.len())?;
        let width = |rows: &[Vec<f64>]| rows.first().map_or(0, Vec::len);
        let emissions = match (self.B, self.means, self.covariances) {
            (Some(probs), None, None) => {
                rows("B", probs.len())?;
                Emissions::Categorical { symbols: width(&probs) as u32, probs: flat("B", &probs, width(&probs))? }
            }
            (None, Some(means), Some(covariances)) => {
                let d = width(&means);
                rows("means", means.len())?;
                let covariances = match covariances {
                    Matrices::Diagonal(variances) => {
                        rows("covariances", variances.len())?;
                        Covariances::Diagonal(flat("covariances", &variances, d)?)
                    }
                    Matrices::Full(matrices) => {
                        rows("covariances", matrices.len())?;
                        if let Some(state) = matrices.iter().position(|matrix| matrix.len() != d) {
                            let found = matrices[state].len();
                            return Err(format!("covariances[{state}] has {found} rows, expected {d}"));
                        }
                        Covariances::Full(flat("a row of covariances", &matrices.concat(), d)?)
                    }
                };
                Emissions::Gaussian { dimensions: d as u32, means: flat("means", &means, d)?, covariances }
            }
            _ => return Err("expected either \"B\", or \"means\" and \"covariances\"".to_owned()),
        };
        let names = Names { states: self.states, symbols: self.symbols };
        Ok(HmmParts { start: self.pi, transitions, end: self.end, emissions, names })
    }
}

/// Writes a model, one line per row.
pub fn write(out: &mut impl Write, model: &Hmm) -> io::Result<()> {
    let n = model.start().len();
    write!(out, "{{\n\"pi\": ")?;
    put(out, &model.start())?;
    matrix(out, "A", model.transitions(), n)?;
    if let Some(end) = model.end() {
        field(out, "end", &end)?;
    }
    match model.emissions() {
        Emissions::Categorical { symbols, probs } => matrix(out, "B", probs, *symbols as usize)?,
        Emissions::Gaussian { dimensions, means, covariances } => {
            let d = *dimensions as usize;
            matrix(out, "means", means, d)?;
            match covariances {
                Covariances::Diagonal(variances) => matrix(out, "covariances", variances, d)?,
                Covariances::Full(matrices) => {
                    let matrices: Vec<Vec<&[f64]>> =
                        matrices.chunks_exact(d * d).map(|matrix| matrix.chunks_exact(d).collect()).collect();
                    list(out, "covariances", &matrices)?;
                }
            }
        }
    }
    for (key, names) in [("states", &model.names().states), ("symbols", &model.names().symbols)] {
        if !names.is_empty() {
            field(out, key, names)?;
        }
    }
    writeln!(out, "\n}}")
}

fn put(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    Ok(serde_json::to_writer(out, value)?)
}

fn field(out: &mut impl Write, key: &str, value: &impl Serialize) -> io::Result<()> {
    write!(out, ",\n\"{key}\": ")?;
    put(out, value)
}

fn matrix(out: &mut impl Write, key: &str, numbers: &[f64], columns: usize) -> io::Result<()> {
    list(out, key, &numbers.chunks_exact(columns).collect::<Vec<_>>())
}

fn list(out: &mut impl Write, key: &str, entries: &[impl Serialize]) -> io::Result<()> {
    write!(out, ",\n\"{key}\": [")?;
    for (at, entry) in entries.iter().enumerate() {
        out.write_all(if at == 0 { b"\n  " } else { b",\n  " })?;
        put(out, entry)?;
    }
    write!(out, "\n]")
}
