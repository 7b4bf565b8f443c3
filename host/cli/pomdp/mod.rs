//! `warpkov pomdp`.

use std::io::Write;

use clap::Subcommand;

use super::{Error, Outcome};

mod convert;
mod file;
mod generate;
mod info;
mod solve;

pub const EXAMPLES: &str = "\
Examples:
  warpkov pomdp solve tiger.pomdp
  warpkov pomdp generate tag --out tag.json
  warpkov pomdp info hallway.pomdp
  warpkov pomdp convert tag.pomdpx tag.pomdp";

#[derive(Subcommand)]
pub enum PomdpCommand {
    Convert(convert::Arguments),
    #[command(subcommand, arg_required_else_help = true, after_help = generate::EXAMPLES)]
    Generate(generate::Family),
    Solve(solve::Arguments),
    Info(info::Arguments),
}

/// Runs a command.
pub fn run(command: PomdpCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        PomdpCommand::Convert(arguments) => convert::run(&arguments, out),
        PomdpCommand::Generate(family) => generate::run(&family, out),
        PomdpCommand::Solve(arguments) => solve::run(&arguments, out),
        PomdpCommand::Info(arguments) => info::run(&arguments, out),
    }
}
