//! `warpkov mdp`.

use std::io::Write;

use clap::Subcommand;

use super::common::ranks;
use super::error::{Error, Outcome};

mod accuracy;
mod compare;
mod convert;
pub mod criterion;
mod exact;
mod file;
pub mod generate;
mod info;
mod many;
pub mod method;
mod origin;
mod policy;
mod q;
mod sensitivity;
mod simulate;
mod solve;
mod start;
mod table;
mod verify;

pub use self::criterion::goal_states;
pub use self::exact::{ExactReport, solve_exactly};
pub use self::verify::{quantity, refusal};

pub const EXAMPLES: &str = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out - | warpkov mdp solve -
  warpkov mdp info model.safetensors";

#[derive(Subcommand)]
pub enum MdpCommand {
    Solve(Box<solve::Arguments>),
    SolveMany(many::Arguments),
    #[command(subcommand, arg_required_else_help = true, after_help = generate::EXAMPLES)]
    Generate(generate::Family),
    Convert(convert::Arguments),
    Info(info::Arguments),
    Compare(compare::Arguments),
    Verify(Box<verify::Arguments>),
    /// Works on a policy of a model.
    #[command(subcommand, arg_required_else_help = true, after_help = policy::EXAMPLES)]
    Policy(policy::PolicyCommand),
    Simulate(Box<simulate::Arguments>),
    Q(q::Arguments),
    Sensitivity(sensitivity::Arguments),
}

impl MdpCommand {
    /// The options of ranks, if several can run this command together.
    pub fn ranks(&self) -> Option<&ranks::Arguments> {
        match self {
            Self::Solve(arguments) => Some(&arguments.ranks),
            Self::Generate(family) => Some(family.ranks()),
            _ => None,
        }
    }
}

/// Validates the arguments of a command, and runs it.
pub fn run(command: MdpCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        MdpCommand::Solve(arguments) => solve::run(*arguments, out),
        MdpCommand::SolveMany(arguments) => many::run(arguments, out),
        MdpCommand::Generate(family) => generate::run(family, out),
        MdpCommand::Convert(arguments) => convert::run(arguments, out),
        MdpCommand::Info(arguments) => info::run(arguments, out),
        MdpCommand::Policy(command) => policy::run(command, out),
        MdpCommand::Simulate(arguments) => simulate::run(*arguments, out),
        MdpCommand::Q(arguments) => q::run(arguments, out),
        MdpCommand::Sensitivity(arguments) => sensitivity::run(arguments, out),
        MdpCommand::Compare(arguments) => compare::run(arguments, out),
        MdpCommand::Verify(arguments) => verify::run(*arguments, out),
    }
}
