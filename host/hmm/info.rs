//! The description of a model, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::model::{Covariances, Emissions, Hmm, Names};
use crate::common::report::{Report, write_object};

/// Size and structure of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Info<'a> {
    /// N.
    states: usize,
    /// V; none of a model that emits vectors.
    symbols: Option<u32>,
    /// D; none of a model that emits symbols.
    dimensions: Option<u32>,
    /// States whose initial probability is positive.
    starts: usize,
    /// Transitions whose probability is positive.
    transitions: usize,
    /// States whose end probability is positive; none where sequences may end at any time.
    ends: Option<usize>,
    /// Whether no transition leads to a state with a lower number.
    left_right: bool,
    /// Free parameters.
    parameters: usize,
    names: &'a Names,
    /// The emissions, in words.
    #[serde(skip)]
    emissions: String,
}

impl<'a> Info<'a> {
    /// Describes a model.
    #[must_use]
    pub fn of(model: &'a Hmm) -> Self {
        let positive = |probs: &[f64]| probs.iter().filter(|p| **p > 0.0).count();
        let (emissions, symbols, dimensions) = match model.emissions() {
            Emissions::Categorical { symbols, .. } => (format!("{symbols} symbols"), Some(*symbols), None),
            Emissions::Gaussian { dimensions, covariances, .. } => {
                let kind = match covariances {
                    Covariances::Diagonal(_) => "diagonal",
                    Covariances::Full(_) => "full",
                };
                let numbers = if *dimensions == 1 { "numbers".to_owned() } else { format!("vectors of {dimensions}") };
                (format!("{numbers}, normal, {kind} covariances"), None, Some(*dimensions))
            }
        };
        let states = model.start().len();
        Self {
            states,
            symbols,
            dimensions,
            starts: positive(model.start()),
            transitions: positive(model.transitions()),
            ends: model.end().map(positive),
            left_right: (0..states).flat_map(|state| &model.row(state)[..state]).all(|p| *p <= 0.0),
            parameters: model.parameters(),
            names: model.names(),
            emissions,
        }
    }
}

impl Report for Info<'_> {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_object(out, self)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { states, starts, transitions, parameters, emissions, .. } = self;
        writeln!(out, "States (N)       {states}, {starts} to start in")?;
        writeln!(out, "Emissions        {emissions}")?;
        let kind = if self.left_right { ", left to right" } else { "" };
        writeln!(out, "Transitions      {transitions} of {} possible{kind}", states * states)?;
        match self.ends {
            Some(ends) => writeln!(out, "Ends             behind {ends} states")?,
            None => writeln!(out, "Ends             at any time")?,
        }
        writeln!(out, "Free parameters  {parameters}")
    }
}
