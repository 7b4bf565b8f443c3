//! `warpkov schema`.

use std::io::Write;

use clap::{Args, ValueEnum};
use {warpkov_hmm as hmm, warpkov_mdp as mdp, warpkov_pomdp as pomdp};

use super::error::{Error, Outcome};

/// Prints the JSON Schema (draft 2020-12) of models written as JSON.
///
/// Editors check and complete a model by it: save it beside the model, and name it there under the key "$schema".
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Class of the models.
    class: Class,
}

/// A class of models.
#[derive(Clone, Copy, ValueEnum)]
enum Class {
    /// Markov decision processes.
    Mdp,
    /// Partially observable Markov decision processes.
    Pomdp,
    /// Hidden Markov models.
    Hmm,
    /// Posteriors of the parameters of hidden Markov models.
    HmmPosterior,
}

const EXAMPLES: &str = "\
Examples:
  warpkov schema hmm > hmm.schema.json
  warpkov schema mdp | jq .properties.P.description";

/// Prints the schema.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    out.write_all(match arguments.class {
        Class::Mdp => mdp::io::SCHEMA.as_bytes(),
        Class::Pomdp => pomdp::io::SCHEMA.as_bytes(),
        Class::Hmm => hmm::io::SCHEMA.as_bytes(),
        Class::HmmPosterior => hmm::io::beliefs::SCHEMA.as_bytes(),
    })?;
    Ok(Outcome::Success)
}
