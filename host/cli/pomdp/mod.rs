//! `warpkov pomdp`.

use std::io::Write;

use clap::Subcommand;
use warpkov_pomdp::solution::Status;

use super::common::ranks;
use super::error::{Error, Outcome};

mod act;
mod bound;
mod constrain;
mod convert;
mod evaluate;
mod file;
pub mod generate;
mod info;
pub mod reach;
mod search;
mod simulate;
mod solve;
mod trace;
mod verify;

pub const EXAMPLES: &str = "\
Examples:
  warpkov pomdp generate tag --out tag.json
  warpkov pomdp info hallway.pomdp
  warpkov pomdp convert tag.pomdpx tag.pomdp
  warpkov pomdp solve tiger.pomdp --out tiger.alpha
  warpkov pomdp reach grid.pomdp --goal 3
  warpkov pomdp constrain machine.pomdp --costs repairs.pomdp --at-most 2.5
  warpkov pomdp evaluate tiger.pomdp --policy tiger.alpha";

#[derive(Subcommand)]
pub enum PomdpCommand {
    #[command(subcommand, arg_required_else_help = true, after_help = generate::EXAMPLES)]
    Generate(generate::Family),
    Info(info::Arguments),
    Convert(convert::Arguments),
    Solve(Box<solve::Arguments>),
    Reach(Box<reach::Arguments>),
    Constrain(Box<constrain::Arguments>),
    Evaluate(evaluate::Arguments),
    Simulate(simulate::Arguments),
    Act(act::Arguments),
    Bound(bound::Arguments),
    Verify(verify::Arguments),
    Trace(trace::Arguments),
}

impl PomdpCommand {
    /// The options of ranks, if several can run this command together.
    pub fn ranks(&self) -> Option<&ranks::Arguments> {
        match self {
            Self::Solve(arguments) => Some(&arguments.ranks),
            _ => None,
        }
    }
}

/// How a command ends whose search ended so.
fn outcome(status: Status) -> Outcome {
    match status {
        Status::Gap | Status::Target => Outcome::Success,
        Status::Interrupted => Outcome::Interrupted,
        Status::Time | Status::Memory | Status::Iterations | Status::Stalled => Outcome::Negative,
    }
}

/// Validates the arguments of a command, and runs it.
pub fn run(command: PomdpCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        PomdpCommand::Generate(family) => generate::run(family, out),
        PomdpCommand::Info(arguments) => info::run(arguments, out),
        PomdpCommand::Convert(arguments) => convert::run(arguments, out),
        PomdpCommand::Solve(arguments) => solve::run(*arguments, out),
        PomdpCommand::Reach(arguments) => reach::run(*arguments, out),
        PomdpCommand::Constrain(arguments) => constrain::run(*arguments, out),
        PomdpCommand::Evaluate(arguments) => evaluate::run(arguments, out),
        PomdpCommand::Simulate(arguments) => simulate::run(arguments, out),
        PomdpCommand::Act(arguments) => act::run(arguments, out),
        PomdpCommand::Bound(arguments) => bound::run(arguments, out),
        PomdpCommand::Verify(arguments) => verify::run(arguments, out),
        PomdpCommand::Trace(arguments) => trace::run(arguments, out),
    }
}
