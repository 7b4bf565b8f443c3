//! Eisner's ice cream diary.

use super::Error;
use crate::model::{Emissions, Hmm, HmmParts, Names};

/// A diary of ice creams eaten per day, one to three; the hidden state is the weather, cold or hot (Eisner, *An
/// Interactive Spreadsheet for Teaching the Forward-Backward Algorithm*, 2002).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IceCream;

impl IceCream {
    /// Generates the model.
    ///
    /// # Errors
    /// None.
    pub fn generate(&self) -> Result<Hmm, Error> {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let model = HmmParts {
            start: vec![0.5, 0.5],
            transitions: vec![0.8, 0.1, 0.1, 0.8],
            end: Some(vec![0.1, 0.1]),
            emissions: Emissions::Categorical { symbols: 3, probs: vec![0.7, 0.2, 0.1, 0.1, 0.2, 0.7] },
            names: Names { states: names(&["C", "H"]), symbols: names(&["1", "2", "3"]), classes: Vec::new() },
        };
        Ok(model.validated()?)
    }
}
