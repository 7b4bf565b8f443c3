//! `warpkov pomdp`.

use std::io::Write;

use clap::Subcommand;

use super::{Error, Outcome};

mod file;
mod info;
mod trace;

pub const EXAMPLES: &str = "\
Examples:
  warpkov pomdp info hallway.pomdp
  warpkov pomdp trace two-state.json --alphas two-state.alpha --beliefs two-state.beliefs";

#[derive(Subcommand)]
pub enum PomdpCommand {
    Info(info::Arguments),
    Trace(trace::Arguments),
}

/// Runs a command.
pub fn run(command: PomdpCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        PomdpCommand::Info(arguments) => info::run(&arguments, out),
        PomdpCommand::Trace(arguments) => trace::run(&arguments, out),
    }
}
