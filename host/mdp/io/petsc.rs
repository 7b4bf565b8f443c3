//! PETSc's binary matrices. A model of madupite consists of two: transition probabilities P and stage costs g.
//!
//! P has S columns; its row s·A + a belongs to action a of state s. g has S rows and A columns. A file is big-endian. A
//! sparse matrix consists of the number 0x00127B50; the numbers of rows, columns and entries; the number of entries of
//! each row; the columns; the values. A dense matrix has −1 as its number of entries and then its values, row by row.
//! Integers have 4 bytes, or 8 in some builds of PETSc. Source: PETSc's manual page of `MatLoad`.
//!
//! Costs are minimised. The format has no discount factor: γ = 1 unless the caller sets it. The costs of `NAME.P.bin`
//! (or `P.bin`) are in `NAME.g.bin` (or `g.bin`) beside it by default. The writer negates rewards to costs, repeats the
//! last action of a state that has fewer actions than others, and gives terminal states self-loops at cost 0.

use std::borrow::Cow;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::Error;
use super::rows::without_ends;
use crate::model::{Array, Choices, Csr, Mdp, MdpParts, Objective};
use warpkov_common::io::BUFFER;
use warpkov_common::io::binary::{self, Encoding, Kind, invalid, of_file, within};
use warpkov_common::io::input::Input;
use warpkov_common::io::output::atomic_write;

/// Magic number of a matrix, 0x00127B50.
const MATRIX: u32 = 1_211_216;

/// Whether a file begins like a matrix with integers of 4 or 8 bytes.
pub fn sniff(start: &[u8]) -> bool {
    let start = start.strip_prefix(&[0; 4]).unwrap_or(start);
    start.first_chunk().is_some_and(|id| u32::from_be_bytes(*id) == MATRIX)
}

/// Reads a model without validation from its probabilities, which messages call `name`. `costs` is the cost file; by
/// default it is the path that [`beside`] returns.
pub fn read(probs: impl Read, path: Option<&Path>, name: String, costs: Option<&Path>) -> Result<MdpParts, Error> {
    let p = Matrix::read(probs).map_err(of_file(name.clone()))?;
    let content = |message| Error::Content { file: name.clone(), message };
    let states =
        u32::try_from(p.columns).map_err(|_| content(format!("has {} columns, expected fewer than 2³²", p.columns)))?;
    let actions =
        u32::try_from(p.rows / p.columns.max(1)).ok().filter(|&actions| p.rows == p.columns * actions as usize);
    let actions = actions.filter(|&actions| actions > 0);
    let actions = actions
        .ok_or_else(|| content(format!("has {} rows and {states} columns, expected S·A rows and S columns", p.rows)))?;

    let beside = || {
        path.and_then(beside).ok_or_else(|| {
            content("found no costs: expected a file of costs (option costs), or a name that ends in P.bin".into())
        })
    };
    let costs = costs.map_or_else(beside, |costs| Ok(costs.to_owned()))?;
    let costs_name = costs.display().to_string();
    let input = Input::open(&costs).map_err(Error::read(&costs))?;
    let g = Matrix::read(input).map_err(of_file(costs_name.clone()))?;
    if (g.rows, g.columns) != (states as usize, actions as usize) {
        let message = format!("has {} rows and {} columns, expected S = {states} and A = {actions}", g.rows, g.columns);
        return Err(Error::Content { file: costs_name, message });
    }
    Ok(MdpParts {
        states,
        choices: Choices::Uniform(actions),
        gamma: 1.0,
        objective: Objective::Minimize,
        action_rewards: g.dense().map_err(of_file(costs_name))?.into(),
        transitions: p.sparse(),
        ..MdpParts::default()
    })
}

/// The default path of the costs for the probabilities in `path`, or `None` unless the name ends in `P.bin`.
pub fn beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix("P.bin")?;
    (name.is_empty() || name.ends_with(['.', '_', '-'])).then(|| path.with_file_name(format!("{name}g.bin")))
}

struct Matrix {
    rows: usize,
    columns: usize,
    entries: Entries,
}

enum Entries {
    Sparse { counts: Vec<u64>, col: Vec<u32>, val: Vec<f64> },
    Dense(Vec<f64>),
}

impl Matrix {
    fn read(reader: impl Read) -> io::Result<Self> {
        let reader = &mut BufReader::with_capacity(BUFFER, reader);
        let mut first = [0; 4];
        reader.read_exact(&mut first).map_err(within("the header"))?;
        let mut size = 4;
        if first == [0; 4] {
            size = 8;
            reader.read_exact(&mut first).map_err(within("the header"))?;
        }
        let id = u32::from_be_bytes(first);
        if id != MATRIX {
            return Err(invalid(format!("begins with {id}, expected {MATRIX}, the header of a PETSc matrix")));
        }
        let integers = Encoding { kind: Kind::Signed, size, big_endian: true };
        let numbers = Encoding { kind: Kind::Float, size: 8, big_endian: true };
        let [rows, columns] = ["rows", "columns"].map(|what| {
            let read = binary::elements::<u64>(reader, integers, 1).map_err(within(what))?;
            usize::try_from(read[0]).map_err(|_| invalid(format!("{what}: {} are too many", read[0])))
        });
        let (rows, columns) = (rows?, columns?);
        let mut stored = vec![0; size];
        reader.read_exact(&mut stored).map_err(within("the number of entries"))?;
        if stored.iter().all(|&byte| byte == 0xff) {
            let count =
                rows.checked_mul(columns).ok_or_else(|| invalid(format!("{rows} × {columns} values are too many")))?;
            let values = binary::elements(reader, numbers, count).map_err(within("the values"))?;
            return Ok(Self { rows, columns, entries: Entries::Dense(values) });
        }
        let stored =
            binary::elements::<u64>(&mut &stored[..], integers, 1).map_err(within("the number of entries"))?[0];
        let counts: Vec<u64> = binary::elements(reader, integers, rows).map_err(within("the entries of each row"))?;
        let sum = counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
        if sum != Some(stored) {
            return Err(invalid(format!("the entries of each row do not sum to the number of entries, {stored}")));
        }
        let stored = usize::try_from(stored).map_err(|_| invalid(format!("{stored} entries are too many")))?;
        let col: Vec<u32> = binary::elements(reader, integers, stored).map_err(within("the columns"))?;
        if let Some(entry) = col.iter().position(|&column| column as usize >= columns) {
            return Err(invalid(format!("the columns: [{entry}] is {}, expected one below {columns}", col[entry])));
        }
        let val = binary::elements(reader, numbers, stored).map_err(within("the values"))?;
        Ok(Self { rows, columns, entries: Entries::Sparse { counts, col, val } })
    }

    fn sparse(self) -> Csr {
        let ends = |counts: &mut dyn Iterator<Item = u64>| {
            let mut end = 0;
            let ends = std::iter::once(0).chain(counts.map(|count| {
                end += count;
                end
            }));
            Array::from(ends.collect::<Vec<_>>())
        };
        match self.entries {
            Entries::Sparse { counts, col, val } => Csr::built(ends(&mut counts.into_iter()), col, val),
            Entries::Dense(values) => {
                let rows = || values.chunks(self.columns.max(1));
                let filled = |row: &[f64]| row.iter().filter(|&&value| value != 0.0).count() as u64;
                let row_ptr = ends(&mut rows().map(filled));
                let entries = rows().flat_map(|row| (0..).zip(row).filter(|(_, value)| **value != 0.0));
                let (col, val): (Vec<u32>, Vec<f64>) = entries.unzip();
                Csr::built(row_ptr, col, val)
            }
        }
    }

    fn dense(self) -> io::Result<Vec<f64>> {
        match self.entries {
            Entries::Dense(values) => Ok(values),
            Entries::Sparse { counts, col, val } => {
                let size = self.rows.checked_mul(self.columns).ok_or_else(|| invalid("is too large"))?;
                let mut values = vec![0.0; size];
                let rows = counts.iter().enumerate().flat_map(|(row, &count)| (0..count).map(move |_| row));
                for (row, (&column, &value)) in rows.zip(col.iter().zip(&val)) {
                    values[row * self.columns + column as usize] += value;
                }
                Ok(values)
            }
        }
    }
}

/// Writes the probabilities to `path` and the costs to the path that [`beside`] returns.
pub fn write(path: &Path, mdp: &Mdp) -> Result<(), Error> {
    let unsupported =
        |message: &str| Error::write(path)(io::Error::new(io::ErrorKind::Unsupported, message.to_owned()));
    let costs = beside(path).ok_or_else(|| unsupported("expected a name that ends in P.bin, for g.bin beside it"))?;
    let mdp = without_ends(mdp);
    let mdp = uniform(&mdp);
    let (p, actions) = (mdp.transitions(), mdp.choices().max());
    if [p.nnz(), mdp.rows()].iter().any(|&count| i32::try_from(count).is_err()) {
        return Err(unsupported(
            "the model has 2³¹ or more rows or entries, too many for PETSc's default 32-bit integers",
        ));
    }
    let costly = -mdp.objective().sign();
    let r: Vec<f64> = mdp.expected_rewards().into_iter().map(|reward| costly * reward).collect();

    let integer = |number: usize| (number as u32).to_be_bytes();
    let head = |rows: usize, columns: usize, entries: usize| [MATRIX as usize, rows, columns, entries].map(integer);
    let write_p = |out: &mut dyn Write| {
        let out = &mut BufWriter::with_capacity(BUFFER, out);
        binary::write_all(out, head(mdp.rows(), mdp.states() as usize, p.nnz()))?;
        binary::write_all(out, p.row_ptr().windows(2).map(|ends| integer((ends[1] - ends[0]) as usize)))?;
        binary::write_all(out, p.col().iter().map(|column| column.to_be_bytes()))?;
        binary::write_all(out, p.val().iter().map(|value| value.to_be_bytes()))?;
        out.flush()
    };
    let write_g = |out: &mut dyn Write| {
        let out = &mut BufWriter::with_capacity(BUFFER, out);
        binary::write_all(out, head(mdp.states() as usize, actions as usize, r.len()))?;
        binary::write_all(out, (0..mdp.states()).map(|_| actions.to_be_bytes()))?;
        binary::write_all(out, (0..mdp.states()).flat_map(|_| 0..actions).map(u32::to_be_bytes))?;
        binary::write_all(out, r.iter().map(|value| value.to_be_bytes()))?;
        out.flush()
    };
    atomic_write(&costs, write_g).map_err(Error::write(&costs))?;
    atomic_write(path, write_p).map_err(Error::write(path))
}

/// The same model with equally many actions in every state.
fn uniform(mdp: &Mdp) -> Cow<'_, Mdp> {
    if let Choices::Uniform(_) = mdp.choices() {
        return Cow::Borrowed(mdp);
    }
    let actions = mdp.choices().max().max(1);
    let (mut row_ptr, mut col, mut val, mut earned) = (vec![0], Vec::new(), Vec::new(), Vec::new());
    let expected = mdp.expected_rewards();
    for state in 0..mdp.states() {
        let rows = mdp.choices().rows(state as usize);
        for action in 0..actions as usize {
            match rows.clone().nth(action).or(rows.clone().last()) {
                Some(row) => {
                    let (successors, probs) = mdp.transitions().row(row);
                    col.extend_from_slice(successors);
                    val.extend_from_slice(probs);
                    earned.push(expected[row]);
                }
                None => {
                    col.push(state);
                    val.push(1.0);
                    earned.push(0.0);
                }
            }
            row_ptr.push(col.len() as u64);
        }
    }
    Cow::Owned(Mdp::built(MdpParts {
        choices: Choices::Uniform(actions),
        rewards: Csr::empty(row_ptr.len() - 1),
        transitions: Csr::built(row_ptr, col, val),
        action_rewards: earned.into(),
        ends: Array::default(),
        action_names: None,
        ..mdp.clone().into_parts()
    }))
}
