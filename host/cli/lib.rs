#![doc = include_str!("README.md")]
//!
//! Each command has raw `Arguments` of clap, which become validated `Options` where clap cannot validate them alone, and a function `run`:
//! read, compute, write, print. The library computes, and makes the reports.

#![allow(missing_docs, reason = "documentation of arguments is help for users")]

use std::ffi::OsString;
use std::io;
use std::process;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use warpkov_common::terminal::escaped;
use warpkov_runtime::comm;

mod bench;
mod common;
mod completions;
mod devices;
pub mod error;
pub mod hmm;
mod learn;
mod man;
pub mod mdp;
pub mod memory;
mod new;
pub mod pomdp;
mod schema;

pub use common::family::named;

/// Solves Markov models on NVIDIA GPUs and on CPUs.
#[derive(Parser)]
#[command(name = "warpkov", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out grid.json
  warpkov mdp solve grid.json --plot grid.svg
  warpkov devices

Exit codes:
  0    done, or solved
  1    not converged within its limits, or solutions differ
  2    bad input or usage
  3    no such device, out of memory, or a rank failed
  130  interrupted";

#[derive(Subcommand)]
enum Command {
    /// Markov decision processes.
    #[command(subcommand, arg_required_else_help = true, after_help = mdp::EXAMPLES)]
    Mdp(mdp::MdpCommand),
    /// Partially observable Markov decision processes.
    #[command(subcommand, arg_required_else_help = true, after_help = pomdp::EXAMPLES)]
    Pomdp(pomdp::PomdpCommand),
    /// Hidden Markov models.
    #[command(subcommand, arg_required_else_help = true, after_help = hmm::EXAMPLES)]
    Hmm(hmm::HmmCommand),
    /// Measures solvers on models of the literature.
    #[command(subcommand, arg_required_else_help = true, after_help = bench::EXAMPLES)]
    Bench(bench::BenchCommand),
    New(new::Arguments),
    /// The exercises of the course in GPU programming.
    #[command(subcommand, arg_required_else_help = true, after_help = learn::EXAMPLES)]
    Learn(learn::LearnCommand),
    Schema(schema::Arguments),
    Devices(devices::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

use common::{help, interrupts, ranks, same};
use error::{Error, Outcome};

impl Command {
    /// The options of ranks, if several can run this command together.
    fn ranks(&self) -> Option<&ranks::Arguments> {
        match self {
            Self::Mdp(command) => command.ranks(),
            Self::Pomdp(command) => command.ranks(),
            Self::Hmm(command) => command.ranks(),
            Self::Devices(arguments) => Some(&arguments.ranks),
            Self::Bench(command) => command.ranks(),
            Self::New(_) | Self::Learn(_) | Self::Schema(_) | Self::Completions(_) | Self::Man(_) => None,
        }
    }

    /// Takes the place of this process among its ranks. Checks that no launcher started several processes of a command for one.
    fn check(&self) -> Result<(), Error> {
        let ranks = self.ranks();
        ranks::place(ranks)?;
        match ranks::launch() {
            Some(launch) if ranks.is_none() => {
                let message = format!("{} started {} processes of a command for one process", launch.by, launch.size);
                Err(ranks::refused(launch, message))
            }
            _ => Ok(()),
        }
    }
}

/// The command line with its options in groups.
fn command() -> clap::Command {
    help::grouped(Arguments::command())
}

/// Parses the arguments, or ends the process with a message.
fn parse(arguments: &[OsString]) -> Arguments {
    let mut command = match arguments.iter().any(|argument| argument == help::ALL) {
        true => command(),
        false => help::shortened(command()),
    };
    let arguments: Vec<_> = arguments
        .iter()
        .map(|argument| if argument == help::ALL { "--help".into() } else { argument.clone() })
        .collect();
    let parsed = command.try_get_matches_from_mut(&arguments).and_then(|mut matches| {
        same::note(&command, &matches);
        Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    });
    parsed.unwrap_or_else(|error| {
        // Names of files may hold control characters.
        let odd = |argument: &OsString| {
            let text = argument.to_string_lossy();
            escaped(&text) != text
        };
        if !ranks::writes() {
            // The first rank has most likely the same, and a launcher may end all others.
            ranks::leave_to_first();
            if let (true, Some(line)) = (error.use_stderr(), error.render().to_string().lines().next()) {
                eprintln!("rank {}: {}", ranks::launched(), escaped(line));
            }
            process::exit(error.exit_code());
        }
        if !error.use_stderr() || !arguments.iter().any(odd) {
            error.exit();
        }
        let lines: Vec<_> = error.render().to_string().lines().map(escaped).collect();
        eprintln!("{}", lines.join("\n"));
        process::exit(error.exit_code());
    })
}

/// Runs the command that the arguments name, the first of which is the name of the program. Prints an error. Returns the
/// exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<_> = arguments.into_iter().collect();
    interrupts::listen_to_signals();
    let code = match run(parse(&arguments)) {
        Ok(outcome) => outcome.exit_code(),
        Err(error) if error.is_agreed() => error.report(),
        Err(error) => return give_up(&error),
    };
    comm::finalize().map_or_else(|error| give_up(&error.into()), |()| code)
}

/// Reports the error, and ends the other ranks, which would wait for this one. Returns the exit code.
fn give_up(error: &Error) -> u8 {
    let code = error.report();
    comm::abort(code);
    code
}

fn run(arguments: Arguments) -> Result<Outcome, Error> {
    arguments.command.check()?;
    let out = io::stdout().lock();
    let ranks = arguments.command.ranks().cloned();
    let outcome = match arguments.command {
        Command::Mdp(command) => mdp::run(command, out),
        Command::Pomdp(command) => pomdp::run(command, out),
        Command::Hmm(command) => hmm::run(command, out),
        Command::Bench(command) => bench::run(command, out),
        Command::New(arguments) => new::run(arguments, out),
        Command::Learn(command) => learn::run(command, out),
        Command::Schema(arguments) => schema::run(arguments, out),
        Command::Devices(arguments) => devices::run(arguments, out),
        Command::Completions(arguments) => completions::run(arguments, out),
        Command::Man(arguments) => man::run(arguments, out),
    }?;
    ranks.map_or(Ok(()), |ranks| ranks.finish())?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        command().debug_assert();
    }

    /// `--option -1` has the value −1 in all commands: none takes it for an option. Options that may be negative take all ways to
    /// write such numbers.
    #[test]
    fn negative_numbers_are_values() {
        fn try_all(whole: &clap::Command, path: &[String], command: &clap::Command) -> [usize; 2] {
            let mut tried = [0; 2];
            for option in command.get_arguments().filter(|option| option.get_action().takes_values()) {
                let Some(long) = option.get_long() else { continue };
                let fails = |number: &str| {
                    let arguments = path.iter().cloned().chain([format!("--{long}"), number.to_owned()]);
                    whole.clone().try_get_matches_from(arguments).err().map(|error| error.kind())
                };
                assert_ne!(fails("-1"), Some(ErrorKind::UnknownArgument), "{path:?} --{long} -1");
                let signed = option.is_allow_hyphen_values_set();
                for number in ["-1", "-1e-6", "-.5"].into_iter().filter(|_| signed) {
                    let kind = fails(number);
                    assert!(kind.is_none() || kind == Some(ErrorKind::MissingRequiredArgument), "{path:?} {kind:?}");
                }
                tried[usize::from(signed)] += 1;
            }
            for below in command.get_subcommands() {
                let path = [path, &[below.get_name().to_owned()]].concat();
                let [others, signed] = try_all(whole, &path, below);
                tried = [tried[0] + others, tried[1] + signed];
            }
            tried
        }
        let command = command();
        let [others, signed] = try_all(&command, &["warpkov".to_owned()], &command);
        assert!(others > 300 && signed > 20, "{others} {signed}");
    }

    /// Every command says what it does, and no help has marks that only rustdoc reads.
    #[test]
    fn help_is_for_people() {
        fn read(command: &mut clap::Command, path: &str) -> usize {
            assert!(command.get_about().is_some(), "{path} says nothing");
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                for mark in ["](", "super::", "crate::", "[`", "`]"] {
                    assert!(!help.contains(mark), "{path}: {mark} in\n{help}");
                }
            }
            let read_all = |command: &mut clap::Command| {
                let path = format!("{path} {}", command.get_name());
                read(command, &path)
            };
            1 + command.get_subcommands_mut().map(read_all).sum::<usize>()
        }
        let mut command = command();
        command.build();
        assert!(read(&mut command, "warpkov") > 50);
    }
}
