//! Whether two solutions agree: the rule of Aydin, *Policy Iteration on the GPU* (2025), Appendix D.2.
//!
//! Two solutions agree if their policies match on at least 95 % of the states (ties may be broken differently) and all
//! their values agree within 10⁻⁴. Solutions are read from what `warpkov mdp solve --out` writes: a JSON object with
//! `values` and `policy`, or text with the lines `Optimal policy:` and `Optimal value:`.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::model::NO_ACTION;
use crate::input::Input;

/// V and π as read from a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Solved {
    /// π, one action per state, [`NO_ACTION`] where it has none.
    #[serde(deserialize_with = "actions")]
    pub policy: Vec<u32>,
    /// V, one entry per state.
    #[serde(deserialize_with = "numbers")]
    pub values: Vec<f64>,
}

/// Actions, `null` where there is none.
fn actions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let actions = Vec::<Option<u32>>::deserialize(deserializer)?;
    Ok(actions.into_iter().map(|action| action.unwrap_or(NO_ACTION)).collect())
}

/// Numbers, and texts for those that JSON has not: "inf".
fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number or \"inf\"")]
    enum Number {
        Finite(f64),
        Text(String),
    }
    let number = |number| match number {
        Number::Finite(number) => Ok(number),
        Number::Text(text) => text.parse().map_err(|_| de::Error::custom(format!("found {text:?}, expected a number"))),
    };
    Vec::<Number>::deserialize(deserializer)?.into_iter().map(number).collect()
}

/// Why a file is no solution.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read, or is not UTF-8.
    #[error("{file}: cannot read it")]
    Io {
        /// The file's name.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// It begins with `{` but is no JSON object with `values` and `policy`.
    #[error("{file}: not a solution in JSON")]
    Json {
        /// The file's name.
        file: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A line that must be there is not.
    #[error("{file}: no line starts with '{line}'; expected the output of `warpkov mdp solve --out`")]
    Missing {
        /// The file's name.
        file: String,
        /// How the line starts.
        line: &'static str,
    },
    /// An entry is not a number.
    #[error("{file}, line {line}, entry {entry}: '{found}' is not {expected}{hint}")]
    Entry {
        /// The file's name.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Number of the entry in the line, from 1.
        entry: usize,
        /// The entry.
        found: String,
        /// What it should have been.
        expected: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// Policy and values have different lengths.
    #[error("{file}: the policy has {policy} states, the value function {values}")]
    Lengths {
        /// The file's name.
        file: String,
        /// States of the policy.
        policy: usize,
        /// States of the value function.
        values: usize,
    },
    /// There is no state.
    #[error("{file}: no states")]
    Empty {
        /// The file's name.
        file: String,
    },
}

impl ReadError {
    /// The message without the file's name.
    pub(super) fn without(&self, file: &str) -> String {
        let text = self.to_string();
        text.strip_prefix(file).map_or(&*text, |rest| rest.trim_start_matches([':', ',', ' '])).to_owned()
    }
}

impl Solved {
    /// Reads the solution in `path`.
    ///
    /// # Errors
    /// If the file cannot be read or is no solution.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let file = path.display().to_string();
        match Input::open(path).and_then(Input::read_text) {
            Ok(text) => Self::parse(&text, file),
            Err(source) => Err(ReadError::Io { file, source }),
        }
    }

    /// How the line of values starts in text.
    pub(super) const VALUES: &str = "Optimal value:";

    pub(super) fn parse(text: &str, file: String) -> Result<Self, ReadError> {
        let solved = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|source| ReadError::Json { file: file.clone(), source })?
        } else {
            Self {
                policy: entries(text, &file, "Optimal policy:", "an action", |word| match word {
                    "-" => Some(NO_ACTION),
                    _ => word.parse().ok(),
                })?,
                values: entries(text, &file, Self::VALUES, "a number", |word| word.parse().ok())?,
            }
        };
        let (policy, values) = (solved.policy.len(), solved.values.len());
        if policy != values {
            return Err(ReadError::Lengths { file, policy, values });
        }
        if policy == 0 {
            return Err(ReadError::Empty { file });
        }
        Ok(solved)
    }
}

/// The entries of the line that starts with `start`.
fn entries<T>(
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
            hint: if truncated { "; the line was cut for the terminal, --out writes all of it" } else { "" },
        })
    };
    rest.split_whitespace().enumerate().map(parse).collect()
}

/// How much disagreement is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// Least share of states on which the policies match, in [0, 1].
    pub policy_agreement: f64,
    /// Largest difference of two values.
    pub value_tolerance: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { policy_agreement: 0.95, value_tolerance: 1e-4 }
    }
}

/// How far two solutions agree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether they agree within the tolerance.
    pub agree: bool,
    /// States of the first and of the second.
    pub states: [usize; 2],
    /// What was allowed.
    pub tolerance: Tolerance,
    /// The figures; `None` where the numbers of states differ.
    pub differences: Option<Differences>,
}

/// The differences of two solutions over the same states.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Differences {
    /// States on which the policies match.
    pub same_action: usize,
    /// Largest |V₁(s) − V₂(s)|.
    pub max_difference: f64,
    /// Mean |V₁(s) − V₂(s)|.
    pub mean_difference: f64,
    /// The state of the largest difference.
    pub worst_state: usize,
    /// States whose values agree within the tolerance.
    pub within: usize,
}

/// Compares two solutions.
pub fn compare(first: &Solved, second: &Solved, tolerance: Tolerance) -> Comparison {
    let states = [first.values.len(), second.values.len()];
    if states[0] != states[1] {
        return Comparison { agree: false, states, tolerance, differences: None };
    }
    let same_action = first.policy.iter().zip(&second.policy).filter(|(a, b)| a == b).count();
    let mut differences =
        Differences { same_action, max_difference: 0.0, mean_difference: 0.0, worst_state: 0, within: 0 };
    for (state, (a, b)) in first.values.iter().zip(&second.values).enumerate() {
        // A value that is not a number agrees with nothing.
        let difference = match (a - b).abs() {
            _ if a == b => 0.0,
            difference if difference.is_nan() => f64::INFINITY,
            difference => difference,
        };
        differences.within += usize::from(difference <= tolerance.value_tolerance);
        differences.mean_difference += difference / states[0] as f64;
        if difference > differences.max_difference {
            differences.max_difference = difference;
            differences.worst_state = state;
        }
    }
    let rate = same_action as f64 / states[0] as f64;
    let agree = rate >= tolerance.policy_agreement && differences.within == states[0];
    Comparison { agree, states, tolerance, differences: Some(differences) }
}

impl Comparison {
    /// Writes the comparison for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let verdict = if self.agree { "The solutions agree." } else { "The solutions differ." };
        let Some(found) = &self.differences else {
            let [first, second] = self.states;
            return writeln!(out, "{verdict} The first has {first} states, the second {second}.");
        };
        let percent = |count: usize| 100.0 * count as f64 / self.states[0] as f64;
        let Tolerance { policy_agreement, value_tolerance } = self.tolerance;
        writeln!(
            out,
            "Policies match on {} of {} states ({:.2} %, at least {} % asked)",
            found.same_action,
            self.states[0],
            percent(found.same_action),
            100.0 * policy_agreement
        )?;
        writeln!(
            out,
            "Values within {value_tolerance:e} on {} of {} states ({:.2} %, all asked)",
            found.within,
            self.states[0],
            percent(found.within)
        )?;
        writeln!(
            out,
            "Difference: at most {:.3e} (state {}), {:.3e} on average",
            found.max_difference, found.worst_state, found.mean_difference
        )?;
        writeln!(out, "{verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Solved, ReadError> {
        Solved::parse(text, "x".into())
    }

    #[test]
    fn reads_text_and_json() {
        let text = parse("Precision: f64\nOptimal policy: 1 2 2\nOptimal value: 0.000000 0.008266 -1e-3\n").unwrap();
        let json = parse(r#"{"policy": [1, 2, 2], "values": [0, 0.008266, -1e-3], "gamma": 0.9}"#).unwrap();
        assert_eq!(text, json);
        let text = parse("Optimal policy: - 2\nOptimal value: 0.5 -inf\n").unwrap();
        let json = parse(r#"{"policy": [null, 2], "values": [0.5, "-inf"]}"#).unwrap();
        assert_eq!((&text, text.policy[0], text.values[1]), (&json, NO_ACTION, f64::NEG_INFINITY));
        assert!(compare(&text, &json, Tolerance::default()).agree);
    }

    #[test]
    fn says_what_is_wrong() {
        let message = |text| parse(text).unwrap_err().to_string();
        assert!(message("").contains("no line starts with 'Optimal policy:'"));
        assert!(message("Optimal policy: 1 x\nOptimal value: 0 0").contains("line 1, entry 2: 'x' is not an action"));
        assert!(message("Optimal policy: 1 … (9 states)\nOptimal value: 0 0").contains("--out writes all of it"));
        assert!(message("Optimal policy: 1\nOptimal value: 0 0").contains("has 1 states, the value function 2"));
        assert!(message("{}").contains("not a solution in JSON"));
    }

    #[test]
    fn rule_of_the_source() {
        let solved = |policy: Vec<u32>, value: f64| Solved { values: vec![value; policy.len()], policy };
        let first = solved(vec![0; 100], 1.0);
        let mut policy = vec![0; 100];
        policy[..5].fill(1);
        assert!(compare(&first, &solved(policy.clone(), 1.00009), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(policy.clone(), 1.00011), Tolerance::default()).agree);
        policy[5] = 1;
        assert!(!compare(&first, &solved(policy, 1.0), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(vec![0; 99], 1.0), Tolerance::default()).agree);
        assert!(!compare(&first, &solved(vec![0; 100], f64::NAN), Tolerance::default()).agree);
    }
}
