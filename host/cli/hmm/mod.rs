//! `warpkov hmm`.

use std::io::Write;

use clap::Subcommand;

use super::common::ranks;
use super::error::{Error, Outcome};

mod convert;
mod decode;
mod file;
mod filter;
pub mod generate;
mod info;
mod posterior;
mod restrict;
mod sample;
mod score;
mod stochastic;
mod train;
mod training;
mod variational;
mod verify;

pub const EXAMPLES: &str = "\
Examples:
  warpkov hmm generate random --states 3 --symbols 5 --out model.json
  warpkov hmm sample model.json --sequences 100 --length 50 --out data.txt
  warpkov hmm score model.json data.txt
  warpkov hmm decode model.json data.txt --out paths.txt
  tail -f sensor.txt | warpkov hmm filter model.json -
  warpkov hmm train model.json data.txt --restarts 10 --out trained.json --plot training.svg";

#[derive(Subcommand)]
pub enum HmmCommand {
    Score(score::Arguments),
    Decode(decode::Arguments),
    Posterior(posterior::Arguments),
    Filter(filter::Arguments),
    Train(Box<train::Arguments>),
    Sample(sample::Arguments),
    #[command(subcommand, arg_required_else_help = true, after_help = generate::EXAMPLES)]
    Generate(generate::Family),
    Info(info::Arguments),
    Convert(convert::Arguments),
}

impl HmmCommand {
    /// The options of ranks, if several can run this command together: where there are sequences to divide.
    pub fn ranks(&self) -> Option<&ranks::Arguments> {
        let source = match self {
            Self::Score(arguments) => &arguments.source,
            Self::Decode(arguments) => &arguments.source,
            Self::Posterior(arguments) => &arguments.source,
            Self::Train(arguments) => &arguments.source,
            Self::Filter(_) | Self::Sample(_) | Self::Generate(_) | Self::Info(_) | Self::Convert(_) => return None,
        };
        Some(&source.ranks)
    }
}

/// Validates the arguments of a command, and runs it.
pub fn run(command: HmmCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        HmmCommand::Score(arguments) => score::run(arguments, out),
        HmmCommand::Decode(arguments) => decode::run(arguments, out),
        HmmCommand::Posterior(arguments) => posterior::run(arguments, out),
        HmmCommand::Filter(arguments) => filter::run(arguments, out),
        HmmCommand::Train(arguments) => train::run(*arguments, out),
        HmmCommand::Sample(arguments) => sample::run(arguments, out),
        HmmCommand::Generate(family) => generate::run(family, out),
        HmmCommand::Info(arguments) => info::run(arguments, out),
        HmmCommand::Convert(arguments) => convert::run(arguments, out),
    }
}
