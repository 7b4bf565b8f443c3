//! Beliefs as text: one per line, the probabilities of all states separated by blanks. `#` starts a comment.

use std::path::Path;

use super::Error;
use super::fault::Fault;
use crate::belief::Belief;
use warpkov_common::io::input::Input;
use warpkov_common::parameters::SUM_TOLERANCE;

/// Reads beliefs over `states` states. Rescales probabilities that sum to 1 within the tolerance.
///
/// # Errors
/// If the file cannot be read, a line is not a belief, or there is none.
pub fn read(path: &Path, states: u32) -> Result<Vec<Belief>, Error> {
    let text = Input::open(path).and_then(Input::read_text).map_err(Error::read(path))?;
    parse(&text, states).map_err(|fault| fault.error(path.display().to_string(), text.as_bytes()))
}

fn parse(text: &str, states: u32) -> Result<Vec<Belief>, Fault> {
    let mut beliefs = Vec::new();
    let at = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let mut probs = Vec::new();
        for word in line.split_whitespace() {
            let prob = word.parse().ok().filter(|prob| (0.0..=1.0 + SUM_TOLERANCE).contains(prob));
            probs.push(prob.ok_or_else(|| Fault::new(at(word), format!("found {word:?}, expected a probability")))?);
        }
        let sum: f64 = probs.iter().sum();
        if probs.len() != states as usize {
            let found = probs.len();
            return Err(Fault::new(at(line), format!("{found} probabilities, expected {states}, one per state")));
        }
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(Fault::new(at(line), format!("the probabilities sum to {sum}, expected 1")));
        }
        // Sums within rounding error of 1 keep their probabilities bit for bit.
        if (sum - 1.0).abs() > 8.0 * f64::EPSILON {
            probs.iter_mut().for_each(|prob| *prob /= sum);
        }
        let invalid = |error| Fault::new(at(line), format!("the belief {error}"));
        beliefs.push(Belief::dense(&probs).map_err(invalid)?);
    }
    if beliefs.is_empty() {
        return Err(Fault::new(text.len(), "the file ends, expected a belief"));
    }
    Ok(beliefs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_belief_a_line() {
        let beliefs = parse("# two\n0.25 0.75\n\n0 1 # certain\n", 2).unwrap();
        assert_eq!(beliefs, [Belief::new(vec![0, 1], vec![0.25, 0.75]).unwrap(), Belief::at(1)]);
    }

    #[test]
    fn faults_are_located() {
        let message = |text: &str| {
            let fault = parse(text, 2).unwrap_err();
            fault.error("f".to_owned(), text.as_bytes()).to_string()
        };
        assert!(message("0.5 0.5\n1 x\n").starts_with("f:2:3: found \"x\", expected a probability"));
        assert!(message("0.5 -0.5\n").starts_with("f:1:5: found \"-0.5\", expected a probability"));
        assert!(message("1\n").starts_with("f:1:1: 1 probabilities, expected 2, one per state"));
        assert!(message("# none\n").contains("the file ends, expected a belief"));
        assert!(message("0.5 0.4\n").starts_with("f:1:1: the probabilities sum to 0.9, expected 1"));
    }
}
