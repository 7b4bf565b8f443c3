//! JSON: one object with these keys. `schema.json` says the same for programs.
//!
//! | key | value |
//! | --- | --- |
//! | `pi` | N probabilities |
//! | `A` | N rows of N probabilities: `A[i][j]` leads from state i to state j. Or `A[to][from]`, the transpose |
//! | `B` | N rows of V probabilities: state i emits symbol o with `B[i][o]`. Or `B[symbol][state]`, the transpose |
//! | `means` | instead of B: N rows of D numbers |
//! | `covariances` | N rows of D variances, or N matrices of D rows |
//! | `channels` | instead of B: a list of objects, see below |
//! | `columns` | names of the columns that channels describe; optional |
//! | `end` | N probabilities; optional |
//! | `durations` | of each state, null or an object with one key, a [family of durations](Duration); optional |
//! | `states`, `symbols` | lists of names; optional |
//! | `classes` | the name of the class of each state, empty for a state without one; optional |
//!
//! With lists of names, objects with names as keys may replace the arrays: `"A": {"hot": {"hot": 0.7, "cold": 0.3}}`.
//! Their absent entries are 0.
//!
//! A [channel](crate::channels) has a `family` and the `columns` that it emits, by number or name. `inputs` are the columns that a regression
//! depends on, `lags` the number of earlier steps, `trials` that of a multinomial distribution. Parameters have their names in the
//! documentation of the families, such as `rates`, and one entry for each state: an array of the shape that the documentation says, or a
//! number in place of an array of one number.

use std::fmt;
use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::channels::{self, ChannelList, ChannelObject};
use crate::durations::Duration;
use crate::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_common::io::Error;
use warpkov_common::io::json::{Axis, Dense, Fields, Path, Table, Tabular, parse};

#[derive(Default)]
struct Model {
    start: Option<Table>,
    transitions: Option<Table>,
    transitions_to: Option<Table>,
    probs: Option<Table>,
    probs_of: Option<Table>,
    means: Option<Table>,
    covariances: Option<Table>,
    end: Option<Table>,
    durations: Option<Durations>,
    channels: Option<Vec<ChannelObject>>,
    columns: Option<Vec<String>>,
    names: Names,
}

/// The durations of all states.
type OfStates = Vec<Option<Duration>>;

/// Durations of all states, or of those with these names.
enum Durations {
    Each(OfStates),
    Named(Vec<(String, Option<Duration>)>),
}

impl<'de> Deserialize<'de> for Durations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Durations;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("the durations of all states, or an object with names of states as keys")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Durations, A::Error> {
                let mut each = Vec::new();
                while let Some(duration) = list.next_element()? {
                    each.push(duration);
                }
                Ok(Durations::Each(each))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Durations, A::Error> {
                let mut named = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    named.push(entry);
                }
                Ok(Durations::Named(named))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl Durations {
    /// Those of all states, in their order.
    fn each(self, states: &[String]) -> Result<OfStates, String> {
        let named = match self {
            Self::Each(each) => return Ok(each),
            Self::Named(named) => named,
        };
        let mut each = vec![None; states.len()];
        let mut seen = vec![false; states.len()];
        for (name, duration) in named {
            let state = states.iter().position(|state| *state == name);
            let state = state.ok_or_else(|| format!("durations: no state is called {name:?}"))?;
            if std::mem::replace(&mut seen[state], true) {
                return Err(format!("durations: {name:?} occurs twice"));
            }
            each[state] = duration;
        }
        Ok(each)
    }
}

/// The keys of the transposed matrices.
const A_TO: &str = "A[to][from]";
const B_OF: &str = "B[symbol][state]";

impl Fields for Model {
    const KEYS: &'static [&'static str] = &[
        "pi",
        "A",
        "B",
        A_TO,
        B_OF,
        "means",
        "covariances",
        "channels",
        "columns",
        "end",
        "durations",
        "states",
        "symbols",
        "classes",
    ];
    const REQUIRED: usize = 1;
    const ONE_OF: &'static [&'static [&'static str]] = &[&["A", A_TO], &["B", B_OF, "means", "channels"]];

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        let (target, expected) = match key {
            "states" => return map.next_value().map(|names| self.names.states = names),
            "symbols" => return map.next_value().map(|names| self.names.symbols = names),
            "classes" => return map.next_value().map(|names| self.names.classes = names),
            "durations" => return map.next_value().map(|durations| self.durations = Some(durations)),
            "columns" => return map.next_value().map(|names| self.columns = Some(names)),
            "channels" => {
                self.channels = Some(map.next_value_seed(ChannelList(path))?);
                return Ok(());
            }
            "pi" => (&mut self.start, "a probability"),
            "A" => (&mut self.transitions, "a probability"),
            "B" => (&mut self.probs, "a probability"),
            A_TO => (&mut self.transitions_to, "a probability"),
            B_OF => (&mut self.probs_of, "a probability"),
            "means" => (&mut self.means, "a number"),
            "covariances" => (&mut self.covariances, "a number"),
            _ => (&mut self.end, "a probability"),
        };
        *target = Some(map.next_value_seed(Tabular::at(path, expected))?);
        Ok(())
    }

    fn complete(&self) -> Result<(), &'static str> {
        match (&self.means, &self.covariances) {
            (Some(_), None) => Err("key \"covariances\" is missing, expected it with \"means\""),
            (None, Some(_)) => Err("found \"covariances\" without \"means\""),
            _ if self.channels.is_none() && self.columns.is_some() => Err("found \"columns\" without \"channels\""),
            _ => Ok(()),
        }
    }
}

/// Reads a model without validation, and the durations of its states.
pub fn read(text: impl Read, file: &str) -> Result<(HmmParts, Option<OfStates>), Error> {
    let mut model: Model = parse(text, file.to_owned())?;
    let durations = model.durations.take().map(|durations| durations.each(&model.names.states)).transpose();
    let content = |message| Error::Content { file: file.to_owned(), message };
    let durations = durations.map_err(content)?;
    Ok((model.hmm().map_err(content)?, durations))
}

impl Model {
    fn hmm(self) -> Result<HmmParts, String> {
        let Self { start, transitions, transitions_to, probs, probs_of, means, covariances, end, names, .. } = self;
        let (listed, columns) = (self.channels, self.columns.unwrap_or_default());
        let axis = |kind, names, length| Axis { kind, names, length };
        let states = |length| axis("state", &names.states, length);
        let numbers = |table: Option<Table>, place: &str, axes: &[Axis]| match table {
            Some(table) => table.dense(place, axes).map(Some),
            None => Ok(None),
        };
        let start = numbers(start, "pi", &[states(None)])?.unwrap_or_default().numbers;
        let n = Some(start.len());
        let (from, to) = (axis("from", &names.states, n), axis("to", &names.states, n));
        let transitions = match numbers(transitions, "A", &[from, to])? {
            Some(by_row) => by_row.numbers,
            None => transposed(numbers(transitions_to, A_TO, &[to, from])?.unwrap_or_default()),
        };
        let symbol = axis("symbol", &names.symbols, None);
        let by_state = numbers(probs, "B", &[states(n), symbol])?;
        let by_symbol = numbers(probs_of, B_OF, &[symbol, states(n)])?;
        let means = numbers(means, "means", &[states(n), axis("dimension", &[], None)])?;
        let emissions = match (by_state, by_symbol, means, covariances) {
            (None, None, None, None) if listed.is_some() => Emissions::Channels(channels::channels(
                listed.unwrap_or_default(),
                columns,
                &names.states,
                start.len(),
            )?),
            (Some(probs), ..) => Emissions::Categorical { symbols: count(&probs, 1)?, probs: probs.numbers },
            (_, Some(probs), ..) => Emissions::Categorical { symbols: count(&probs, 0)?, probs: transposed(probs) },
            (.., Some(means), Some(covariances)) => {
                let d = axis("dimension", &[], means.shape.last().copied());
                let full = matches!(&covariances, Table::Dense(dense) if dense.shape.len() == 3);
                let axes = [states(n), d, d];
                let Dense { numbers, .. } = covariances.dense("covariances", &axes[..if full { 3 } else { 2 }])?;
                let covariances = if full { Covariances::Full(numbers) } else { Covariances::Diagonal(numbers) };
                Emissions::Gaussian { dimensions: count(&means, 1)?, means: means.numbers, covariances }
            }
            _ => return Err("key \"B\" is missing".to_owned()),
        };
        let end = numbers(end, "end", &[states(n)])?.map(|end| end.numbers);
        Ok(HmmParts { start, transitions, end, emissions, names })
    }
}

/// The number of columns or rows of a matrix.
pub(super) fn count(matrix: &Dense, index: usize) -> Result<u32, String> {
    let length = matrix.shape.get(index).copied().unwrap_or_default();
    u32::try_from(length).map_err(|_| format!("{length} columns, expected at most {}", u32::MAX))
}

/// The transpose of a matrix.
fn transposed(Dense { shape, numbers }: Dense) -> Vec<f64> {
    let columns = shape.last().copied().unwrap_or_default();
    (0..columns).flat_map(|column| numbers.iter().skip(column).step_by(columns.max(1)).copied()).collect()
}

/// Writes a model, one line per row. A semi-Markov model is written with its own states.
pub fn write(out: &mut impl Write, model: &Hmm) -> io::Result<()> {
    let visits = model.visits();
    let n = visits.start().len();
    write!(out, "{{\n\"pi\": ")?;
    put(out, &visits.start())?;
    matrix(out, "A", visits.transitions(), n)?;
    if let Some(end) = visits.end() {
        field(out, "end", &end)?;
    }
    if let Some(segments) = model.segments() {
        list(out, "durations", segments.durations())?;
    }
    match visits.emissions() {
        Emissions::Channels(channels) => channels::write(out, channels, n)?,
        Emissions::Categorical { symbols, probs } => matrix(out, "B", probs, *symbols as usize)?,
        Emissions::Gaussian { dimensions, means, covariances } => {
            let d = *dimensions as usize;
            matrix(out, "means", means, d)?;
            match covariances {
                Covariances::Diagonal(variances) => matrix(out, "covariances", variances, d)?,
                Covariances::Full(numbers) => matrices(out, "covariances", numbers, d)?,
            }
        }
    }
    let Names { states, symbols, classes } = visits.names();
    for (key, names) in [("states", states), ("symbols", symbols), ("classes", classes)] {
        if !names.is_empty() {
            field(out, key, names)?;
        }
    }
    writeln!(out, "\n}}")
}

pub(super) fn put(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    Ok(serde_json::to_writer(out, value)?)
}

pub(super) fn field(out: &mut impl Write, key: &str, value: &impl Serialize) -> io::Result<()> {
    write!(out, ",\n\"{key}\": ")?;
    put(out, value)
}

pub(super) fn matrix(out: &mut impl Write, key: &str, numbers: &[f64], columns: usize) -> io::Result<()> {
    list(out, key, &numbers.chunks_exact(columns).collect::<Vec<_>>())
}

/// Writes matrices of D × D, each on a line.
pub(super) fn matrices(out: &mut impl Write, key: &str, numbers: &[f64], d: usize) -> io::Result<()> {
    let rows = |matrix| <[f64]>::chunks_exact(matrix, d).collect::<Vec<_>>();
    list(out, key, &numbers.chunks_exact(d * d).map(rows).collect::<Vec<_>>())
}

fn list(out: &mut impl Write, key: &str, entries: &[impl Serialize]) -> io::Result<()> {
    write!(out, ",\n\"{key}\": [")?;
    for (at, entry) in entries.iter().enumerate() {
        out.write_all(if at == 0 { b"\n  " } else { b",\n  " })?;
        put(out, entry)?;
    }
    write!(out, "\n]")
}
