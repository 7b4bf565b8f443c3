//! Reader of the solutions that `warpkov mdp solve` writes with `--out` and `--all-steps`.

use std::io::BufReader;
use std::path::Path;

use serde::{Deserialize, Deserializer, de};

use super::table::{Table, has_columns};
use super::{Error, of_file};
use crate::model::NO_ACTION;
use warpkov_common::io::input::{Input, SNIFFED};
use warpkov_common::io::lines::quoted;
use warpkov_common::io::npy;
use warpkov_common::terminal::escaped;

/// Start of the line of actions in text.
pub(super) const ACTIONS: &str = "Optimal policy:";

/// V and π read from a file; those of a plan are one step behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SolutionFile {
    /// π, one action per state; [`NO_ACTION`] in terminal states.
    pub policy: Vec<u32>,
    /// V, one entry per state.
    pub values: Vec<f64>,
    /// The names of the states; none if they have only numbers.
    pub names: Vec<String>,
    /// The number of steps of a plan; 0 for a policy.
    pub steps: usize,
}

/// A solution in JSON.
#[derive(Deserialize)]
struct Json {
    policy: Steps<Option<u32>>,
    values: Steps<Number>,
}

/// The entries of one step, or of several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Steps<T> {
    One(Vec<T>),
    Several(Vec<Vec<T>>),
}

impl<T> Steps<T> {
    fn entries(self) -> Vec<T> {
        match self {
            Self::One(entries) => entries,
            Self::Several(steps) => steps.into_iter().flatten().collect(),
        }
    }
}

/// A number. Infinities are strings, since JSON has no literal for them.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a number or \"inf\"")]
        enum Form {
            Finite(f64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Finite(number) => Ok(Self(number)),
            Form::Text(text) => match text.parse() {
                Ok(number) => Ok(Self(number)),
                Err(_) => Err(de::Error::custom(format!("found {text:?}, expected a number"))),
            },
        }
    }
}

impl From<Json> for SolutionFile {
    fn from(Json { policy, values }: Json) -> Self {
        let steps = if let Steps::Several(steps) = &values { steps.len() } else { 0 };
        let policy = policy.entries().into_iter().map(|action| action.unwrap_or(NO_ACTION)).collect();
        let values = values.entries().into_iter().map(|Number(value)| value).collect();
        Self { policy, values, steps, names: Vec::new() }
    }
}

/// Why a file is not a solution.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file begins with `{` but is not a JSON object with `values` and `policy`.
    #[error("{file}: not a solution in JSON")]
    Json {
        /// The file name.
        file: String,
        /// The cause and its position.
        source: serde_json::Error,
    },
    /// A required line is missing.
    #[error("{file}: no line starts with '{line}'; expected a solution file")]
    Missing {
        /// The file name.
        file: String,
        /// Start of the line.
        line: &'static str,
    },
    /// An entry of a line is not an action or a number.
    #[error("{file}, line {line}, entry {entry}: '{found}' is not {expected}{hint}")]
    Entry {
        /// The file name.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// Number of the entry within the line, from 1.
        entry: usize,
        /// The entry.
        found: String,
        /// Expected kind of entry.
        expected: &'static str,
        /// Advice to the user, or an empty text.
        hint: &'static str,
    },
    /// Policy and value function have different lengths.
    #[error("{file}: the policy has {policy} states, the value function {values}")]
    Lengths {
        /// The file name.
        file: String,
        /// States of the policy.
        policy: usize,
        /// States of the value function.
        values: usize,
    },
    /// The solution has no states.
    #[error("{file}: no states")]
    Empty {
        /// The file name.
        file: String,
    },
}

impl ReadError {
    /// The error of a file.
    pub(super) fn in_file(&self, file: &str) -> Error {
        Error::Content { file: file.to_owned(), message: self.without(file) }
    }

    /// The message without the leading file name.
    pub(super) fn without(&self, file: &str) -> String {
        let text = self.to_string();
        text.strip_prefix(file).map_or(&*text, |rest| rest.trim_start_matches([':', ',', ' '])).to_owned()
    }
}

impl SolutionFile {
    /// Reads the solution in `path`: JSON, CSV, text, or NumPy's array of values with that of actions beside it.
    ///
    /// # Errors
    /// The file cannot be read or is not a solution.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = path.display().to_string();
        let mut input = Input::open(path).map_err(of_file(file.clone()))?;
        if npy::sniff(input.start(SNIFFED).map_err(of_file(file.clone()))?) {
            let values = npy::read(&mut BufReader::new(input)).map_err(of_file(file.clone()))?;
            let steps = if values.shape.len() > 1 { values.shape[0] } else { 0 };
            let values = values.elements;
            let beside = path.with_extension("policy.npy");
            let of_policy = || of_file(beside.display().to_string());
            let input = Input::open(&beside).map_err(of_policy())?;
            let policy = npy::read::<i64>(&mut BufReader::new(input)).map_err(of_policy())?.elements;
            let policy = policy.into_iter().map(|action| u32::try_from(action).unwrap_or(NO_ACTION)).collect();
            return Self { policy, values, steps, ..Self::default() }
                .checked(&file)
                .map_err(|error| error.in_file(&file));
        }
        let text = input.read_text().map_err(of_file(file.clone()))?;
        if !has_columns(text.as_bytes(), &["value", "action"]) {
            return Self::parse(&text, file.clone()).map_err(|error| error.in_file(&file));
        }
        let mut solved = Self::default();
        let optional = ["action_number", "step", "state"];
        let table = Table::open(text.as_bytes(), file.clone(), &["value", "action"], &optional, true)?;
        table.each(|_, [value, action, number, step, state]| {
            let row = solved.values.len();
            // The rows are in the order of steps and states.
            if step.parse().is_ok_and(|step: usize| step >= solved.steps) {
                solved.steps += 1;
            }
            let is_named = !state.is_empty() && state.parse() != Ok(row);
            if solved.steps <= 1 && (is_named || !solved.names.is_empty()) {
                solved.names.extend((solved.names.len()..row).map(|number| number.to_string()));
                solved.names.push(state.to_owned());
            }
            let expected = |text: &str, what: &str| format!("found '{}', expected {what}", quoted(text.as_bytes()));
            solved.values.push(value.parse().map_err(|_| expected(value, "a value"))?);
            // With names of actions, their numbers are in a column of their own.
            solved.policy.push(match if number.is_empty() { action } else { number } {
                "" => NO_ACTION,
                text => text.parse().map_err(|_| expected(text, "the number of an action"))?,
            });
            Ok(())
        })?;
        solved.checked(&file).map_err(|error| error.in_file(&file))
    }

    /// Start of the line of values in text.
    pub(super) const VALUES: &str = "Optimal value:";

    pub(super) fn parse(text: &str, file: String) -> Result<Self, ReadError> {
        let solved: Self = if text.trim_start().starts_with('{') {
            let solved = serde_json::from_str::<Json>(text);
            solved.map_err(|source| ReadError::Json { file: file.clone(), source })?.into()
        } else {
            Self {
                policy: entries(text, &file, ACTIONS, "an action", |word| match word {
                    "-" => Some(NO_ACTION),
                    _ => word.parse().ok(),
                })?,
                values: entries(text, &file, Self::VALUES, "a number", |word| word.parse().ok())?,
                ..Self::default()
            }
        };
        solved.checked(&file)
    }

    /// A state in words, by its name if it has one, with its step in a plan.
    #[must_use]
    pub fn place(&self, row: usize) -> String {
        let states = self.values.len() / self.steps.max(1);
        let state = row % states.max(1);
        let name = self.names.get(state).map_or_else(|| state.to_string(), |name| escaped(name));
        if self.steps > 0 { format!("step {}, state {name}", row / states.max(1)) } else { format!("state {name}") }
    }

    /// The solution, if it has a value and an action for each state.
    fn checked(self, file: &str) -> Result<Self, ReadError> {
        let (policy, values, file) = (self.policy.len(), self.values.len(), file.to_owned());
        match policy {
            _ if policy != values => Err(ReadError::Lengths { file, policy, values }),
            0 => Err(ReadError::Empty { file }),
            _ => Ok(self),
        }
    }
}

/// Parses the entries of the line that starts with `start`.
pub(super) fn entries<T>(
    text: &str,
    file: &str,
    start: &'static str,
    expected: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ReadError> {
    let found = text.lines().enumerate().find_map(|(number, line)| Some((number + 1, line.strip_prefix(start)?)));
    let (line, rest) = found.ok_or_else(|| ReadError::Missing { file: file.to_owned(), line: start })?;
    let parse = |(index, word): (usize, &str)| {
        let truncated = word.starts_with('…') || word.starts_with("...");
        read(word).ok_or_else(|| ReadError::Entry {
            file: file.to_owned(),
            line,
            entry: index + 1,
            found: word.to_owned(),
            expected,
            hint: if truncated { "; the terminal output is truncated, write the solution to a file" } else { "" },
        })
    };
    rest.split_whitespace().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SolutionFile, ReadError> {
        SolutionFile::parse(text, "x".into())
    }

    #[test]
    fn reads_text_and_json() {
        let text = parse("Precision: f64\nOptimal policy: 1 2 2\nOptimal value: 0.000000 0.008266 -1e-3\n").unwrap();
        let json = parse(r#"{"policy": [1, 2, 2], "values": [0, 0.008266, -1e-3], "gamma": 0.9}"#).unwrap();
        assert_eq!(text, json);
        let text = parse("Optimal policy: - 2\nOptimal value: 0.5 -inf\n").unwrap();
        let json = parse(r#"{"policy": [null, 2], "values": [0.5, "-inf"]}"#).unwrap();
        assert_eq!((&text, text.policy[0], text.values[1]), (&json, NO_ACTION, f64::NEG_INFINITY));
    }

    #[test]
    fn a_step_may_be_any_number() {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), format!("step,state,value,action\n{},0,0.5,1\n", usize::MAX)).unwrap();
        assert_eq!(SolutionFile::read(path.path()).unwrap().steps, 1);
    }

    #[test]
    fn says_what_is_wrong() {
        let message = |text| parse(text).unwrap_err().to_string();
        assert!(message("").contains("no line starts with 'Optimal policy:'"));
        assert!(message("Optimal policy: 1 x\nOptimal value: 0 0").contains("line 1, entry 2: 'x' is not an action"));
        assert!(message("Optimal policy: 1 … (9 states)\nOptimal value: 0 0").contains("write the solution to a file"));
        assert!(message("Optimal policy: 1\nOptimal value: 0 0").contains("has 1 states, the value function 2"));
        assert!(message("{}").contains("not a solution in JSON"));
    }
}
