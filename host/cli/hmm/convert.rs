//! `warpkov hmm convert`.

use std::io::Write;

use clap::Args;
use warpkov_hmm::io::Format;
use warpkov_hmm::model::Names;

use super::file::{Input, output_format, write};
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::file::FileOrStd;

/// Converts a model from one format to another.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm convert model.json model.npz
  warpkov hmm convert folder-of-arrays model.json
  warpkov hmm convert old.hmm - | jq .A")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// File to write, or - for the standard output.
    #[arg(value_name = "OUT")]
    output: FileOrStd,
    /// Format of OUT [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
}

/// Reads the model, writes it.
pub fn run(Arguments { input, output, to }: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let format = output_format(&output, to)?;
    let model = input.read()?;
    let names = model.names();
    if format != Format::Json && model.segments().is_some() {
        eprintln!("note: {format} has no place for durations: each step of a visit becomes a state");
    }
    if format == Format::Umdhmm && *names != Names::default() {
        eprintln!("note: {format} has no place for the names of states, symbols and classes, which are left out");
    }
    write(&output, format, &model, out)?;
    Ok(Outcome::Success)
}
