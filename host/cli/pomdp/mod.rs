//! `warpkov pomdp`.

use std::io::Write;

use clap::Subcommand;

use super::{Error, Outcome};

mod convert;
mod file;
mod info;

pub const EXAMPLES: &str = "\
Examples:
  warpkov pomdp info hallway.pomdp
  warpkov pomdp convert tag.pomdpx tag.pomdp";

#[derive(Subcommand)]
pub enum PomdpCommand {
    Convert(convert::Arguments),
    Info(info::Arguments),
}

/// Runs a command.
pub fn run(command: PomdpCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        PomdpCommand::Convert(arguments) => convert::run(&arguments, out),
        PomdpCommand::Info(arguments) => info::run(&arguments, out),
    }
}
