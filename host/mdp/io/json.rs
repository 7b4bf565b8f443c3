//! The JSON of Aydin, *Policy Iteration on the GPU* (2025), Listing A.1.
//!
//! A model is an object with `S`, `A`, `gamma` and the matrices `P` and `R`. Each matrix is an object of `indptr`,
//! `indices` and `data`. Where states have different numbers of actions, `choices` replaces `A`: state s has rows
//! `choices[s]` to `choices[s + 1]` − 1.
//!
//! Optional keys are `"format": "CSR"`, `"objective": "minimize"`, `ends` and `action_rewards` (one number per row),
//! `labels` (an object of arrays of states), `action_names` (`names` and `of_row`) and `grid`, the fields of [`Grid`].
//! `R` may be absent: then all rewards are `action_rewards`. Keys come in any order. Unknown keys are errors, except
//! `comment`, `$schema` and those that begin with `_`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::de::MapAccess;

use super::Error;
use crate::common::io::invalid;
use crate::common::io::json::{Array, Fields, Number, Object, Path, Word, field, parse, value};
use crate::mdp::model::validate::{self, Invalid};
use crate::mdp::model::{ActionNames, Choices, Csr, Grid, InvalidCsr, Mdp, MdpParts, Objective};

/// Reads and validates a model.
pub fn read(reader: impl Read, file: String) -> Result<Mdp, Error> {
    let model: Model = parse(reader, file.clone())?;
    MdpParts::try_from(model).and_then(MdpParts::validated).map_err(invalid(file))
}

/// The fields of a model object.
#[derive(Default)]
pub(crate) struct Model {
    states: u32,
    actions: Option<u32>,
    choices: Option<Vec<u64>>,
    gamma: f64,
    objective: Objective,
    transitions: Matrix,
    ends: Vec<f64>,
    rewards: Matrix,
    action_rewards: Vec<f64>,
    labels: BTreeMap<String, Vec<u32>>,
    action_names: Option<ActionNames>,
    grid: Option<Grid>,
}

impl Fields for Model {
    const KEYS: &'static [&'static str] = &[
        "S",
        "gamma",
        "P",
        "A",
        "choices",
        "R",
        "action_rewards",
        "ends",
        "objective",
        "labels",
        "action_names",
        "format",
        "grid",
    ];
    const REQUIRED: usize = 3;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "S" => self.states = map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?,
            "A" => self.actions = Some(map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?),
            "choices" => self.choices = Some(map.next_value_seed(Array::at(path, "a number of rows"))?),
            "gamma" => self.gamma = map.next_value_seed(Number::new("a number"))?,
            "objective" => self.objective = map.next_value_seed(Word(&OBJECTIVES))?,
            "P" => self.transitions = map.next_value_seed(Object::at(path))?,
            "ends" => self.ends = map.next_value_seed(Array::at(path, "a probability"))?,
            "R" => self.rewards = map.next_value_seed(Object::at(path))?,
            "action_rewards" => self.action_rewards = map.next_value_seed(Array::at(path, "a number"))?,
            "labels" => self.labels = map.next_value()?,
            "action_names" => self.action_names = Some(map.next_value_seed(Object::at(path))?),
            "grid" => self.grid = Some(map.next_value_seed(Object::at(path))?),
            _ => map.next_value_seed(Word(&[("CSR", ())]))?,
        }
        Ok(())
    }

    fn complete(&self) -> Result<(), &'static str> {
        match (self.actions, &self.choices) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            (None, None) => Err("found neither key \"A\" nor key \"choices\", expected one of them"),
            (Some(_), Some(_)) => Err("found both key \"A\" and key \"choices\", expected one of them"),
        }
    }
}

const OBJECTIVES: [(&str, Objective); 2] = [("maximize", Objective::Maximize), ("minimize", Objective::Minimize)];

impl TryFrom<Model> for MdpParts {
    type Error = Invalid;

    fn try_from(model: Model) -> Result<Self, Invalid> {
        let csr = |matrix, arrays: Matrix| arrays.try_into().map_err(|source| Invalid::Csr { matrix, source });
        let uniform = Choices::Uniform(model.actions.unwrap_or_default());
        Ok(Self {
            states: model.states,
            choices: model.choices.map_or(uniform, |offsets| Choices::Ragged(offsets.into())),
            gamma: model.gamma,
            objective: model.objective,
            transitions: csr(validate::Matrix::P, model.transitions)?,
            ends: model.ends.into(),
            rewards: csr(validate::Matrix::R, model.rewards)?,
            action_rewards: model.action_rewards.into(),
            labels: model.labels,
            action_names: model.action_names,
            state_names: None,
            grid: model.grid,
        })
    }
}

/// A matrix in compressed sparse rows.
#[derive(Default)]
pub(crate) struct Matrix {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    data: Vec<f64>,
}

impl Fields for Matrix {
    const KEYS: &'static [&'static str] = &["indptr", "indices", "data"];
    const REQUIRED: usize = 3;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "indptr" => self.indptr = map.next_value_seed(Array::at(path, "a number of entries"))?,
            "indices" => self.indices = map.next_value_seed(Array::at(path, "a column index"))?,
            _ => self.data = map.next_value_seed(Array::at(path, "a number"))?,
        }
        Ok(())
    }
}

impl TryFrom<Matrix> for Csr {
    type Error = InvalidCsr;

    fn try_from(Matrix { indptr, indices, data }: Matrix) -> Result<Self, InvalidCsr> {
        Self::new(indptr, indices, data)
    }
}

impl Fields for ActionNames {
    const KEYS: &'static [&'static str] = &["names", "of_row"];
    const REQUIRED: usize = 2;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "names" => self.names = map.next_value()?,
            _ => self.of_row = map.next_value_seed(Array::at(path, "the number of a name"))?,
        }
        Ok(())
    }
}

impl Fields for Grid {
    const KEYS: &'static [&'static str] = &["width", "height", "goal", "walls", "obstacles"];
    const REQUIRED: usize = 5;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "width" => self.width = map.next_value_seed(Number::new("a number of cells"))?,
            "height" => self.height = map.next_value_seed(Number::new("a number of cells"))?,
            "goal" => self.goal = map.next_value_seed(Number::new("a state"))?,
            "walls" => self.walls = map.next_value_seed(Array::at(path, "a state"))?,
            _ => self.obstacles = map.next_value_seed(Array::at(path, "a state"))?,
        }
        Ok(())
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    open(out, mdp)?;
    writeln!(out, "}}")
}

/// Writes the object of a model without its closing brace, so that the caller can append keys.
pub(crate) fn open(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    write!(out, "{{\"S\":{}", mdp.states())?;
    match mdp.choices() {
        Choices::Uniform(actions) => field(out, "A", actions)?,
        Choices::Ragged(offsets) => field(out, "choices", &offsets[..])?,
    }
    field(out, "gamma", &mdp.gamma())?;
    field(out, "format", "CSR")?;
    if mdp.objective() != Objective::default() {
        field(out, "objective", &mdp.objective())?;
    }
    matrix(out, "P", mdp.transitions())?;
    matrix(out, "R", mdp.rewards())?;
    for (name, numbers) in [("ends", mdp.ends()), ("action_rewards", mdp.action_rewards())] {
        if !numbers.is_empty() {
            field(out, name, &numbers[..])?;
        }
    }
    if !mdp.labels().is_empty() {
        field(out, "labels", mdp.labels())?;
    }
    if let Some(ActionNames { names, of_row }) = mdp.action_names() {
        write!(out, ",\n\"action_names\":{{\"names\":")?;
        value(out, names)?;
        field(out, "of_row", of_row)?;
        write!(out, "}}")?;
    }
    if let Some(grid) = mdp.grid() {
        field(out, "grid", grid)?;
    }
    Ok(())
}

/// Writes a comma, a key and its matrix.
pub(crate) fn matrix(out: &mut impl Write, name: &str, matrix: &Csr) -> io::Result<()> {
    write!(out, ",\n\"{name}\":{{\"indptr\":")?;
    value(out, &matrix.row_ptr()[..])?;
    field(out, "indices", &matrix.col()[..])?;
    field(out, "data", &matrix.val()[..])?;
    write!(out, "}}")
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Reader of a text in parts of random lengths. Fails at the end if the third field is true.
    struct Parts<'t>(&'t [u8], ChaCha8Rng, bool);

    impl Read for Parts<'_> {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() && self.2 {
                return Err(io::Error::other("the cable is out"));
            }
            let part = target.len().min(1 + self.1.next_u32() as usize % 100_000);
            self.0.read(&mut target[..part])
        }
    }

    fn parts(text: &str, fails: bool) -> Parts<'_> {
        Parts(text.as_bytes(), ChaCha8Rng::seed_from_u64(text.len() as u64), fails)
    }

    /// A chain of `states` states with long arrays in all number styles; `indices` is the content of the array of that
    /// name.
    fn chain(states: usize, indices: &str) -> String {
        let row_ptr: Vec<_> = (0..=states).map(|row| row.to_string()).collect();
        let ones = ["1", "1.0", "10e-1", "0.1E+1", "1000000000000000000000e-21"];
        let data: Vec<_> = (0..states).map(|row| ones[row % ones.len()]).collect();
        let (row_ptr, data) = (row_ptr.join(",\n"), data.join(", "));
        format!(
            r#"{{"S":{states},"A":1,"gamma":0.5,"P":{{"indptr":[{row_ptr}],"data":[ {data} ],"indices":[{indices}]}}}}"#
        )
    }

    /// Numbers from 0, with white space of all kinds around the commas.
    fn numbers(count: usize) -> Vec<String> {
        let style = |n: usize| match n {
            n if n % 1000 == 0 => format!("\n\t {n} "),
            n if n % 7 == 0 => format!(" {n}"),
            n if n % 11 == 0 => format!("\r\n{n}"),
            n => n.to_string(),
        };
        (0..count).map(style).collect()
    }

    const STATES: usize = 700_000;

    #[test]
    fn long_arrays_are_read_whole() {
        let mdp = read(parts(&chain(STATES, &numbers(STATES).join(",")), false), "text".into()).unwrap();
        assert!(mdp.transitions().col()[..].iter().copied().eq(0..STATES as u32));
        assert!(mdp.transitions().row_ptr()[..].iter().copied().eq(0..=STATES as u64));
        assert!(mdp.transitions().val()[..].iter().all(|&p| p == 1.0));
    }

    #[test]
    fn errors_in_long_arrays_have_positions() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for (found, what) in [
            ("\"x\"", "found string \"x\", expected a column index"),
            ("-4", "found -4, expected a column index"),
            ("4294967296", "found 4294967296, expected a column index"),
            ("0.5", "found 0.5, expected a column index"),
            ("01", "invalid number"),
            ("", "expected value"),
            ("7 7", "expected `,` or `]`"),
        ] {
            for position in [0, 1, random.next_u32() as usize % STATES, STATES - 1] {
                let mut elements = numbers(STATES);
                elements[position] = found.to_owned();
                let before = chain(STATES, &(elements[..position].join(",") + if position == 0 { "" } else { "," }));
                let text = chain(STATES, &elements.join(","));
                // Position at which serde_json alone reports the error.
                let read_all = serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|e| (e.line(), e.column()));
                let end = before.len() - "]}}".len() + found.len();
                let line = 1 + text[..end].matches('\n').count();
                let place = (line, end - text[..end].rfind('\n').map_or(0, |last| last + 1));
                // The parser recognizes the end of a number at the byte after it.
                let past = usize::from(found.ends_with(|c: char| c.is_ascii_digit()));
                let (line, column) = read_all.err().unwrap_or((place.0, place.1 + past));
                let error = read(parts(&text, false), "text".into()).err().unwrap().to_string();
                let what = if found.is_empty() && position == STATES - 1 { "trailing comma" } else { what };
                let position = if found == "7 7" { position + 1 } else { position };
                assert_eq!(error, format!("text:{line}:{column}: P.indices[{position}]: {what}"));
            }
        }
    }

    #[test]
    fn read_errors_are_reported() {
        let text = chain(STATES, &numbers(STATES).join(","));
        for end in [10, text.len() / 2, text.len() - 5] {
            let error = read(parts(&text[..end], true), "text".into()).err().unwrap();
            assert!(matches!(error, Error::Read { .. }), "{error}");
            let error = read(parts(&text[..end], false), "text".into()).err().unwrap();
            assert!(error.to_string().contains("EOF while parsing"), "{error}");
        }
    }
}
