//! The command line: raw arguments become one validated value per command, and the library does the work.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, StdoutLock};
use std::process::{self, ExitCode};

use clap::{Parser, Subcommand};
use warpkov::mdp;
use warpkov::terminal::{cut, escaped};

mod bench;
mod blocks;
mod compare;
mod completions;
mod convert;
mod criterion;
mod devices;
mod file;
mod generate;
mod hmm;
mod info;
mod number;
mod pomdp;
mod solve;

/// Characters at most that an error has.
const LONGEST: usize = 1200;

/// Solves Markov models on NVIDIA GPUs, or on all CPU cores where there is none.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = EXAMPLES)]
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
  3    no such device, or out of memory
  130  interrupted";

#[derive(Subcommand)]
enum Command {
    /// Markov decision processes.
    #[command(subcommand, arg_required_else_help = true, after_help = MDP_EXAMPLES)]
    Mdp(MdpCommand),
    /// Partially observable Markov decision processes.
    #[command(subcommand, arg_required_else_help = true, after_help = pomdp::EXAMPLES)]
    Pomdp(pomdp::PomdpCommand),
    /// Hidden Markov models.
    #[command(subcommand, arg_required_else_help = true, after_help = hmm::EXAMPLES)]
    Hmm(hmm::HmmCommand),
    /// Measures solvers on the models of the literature.
    #[command(subcommand, arg_required_else_help = true, after_help = bench::EXAMPLES)]
    Bench(bench::Suite),
    Devices(devices::Arguments),
    Completions(completions::Arguments),
}

const MDP_EXAMPLES: &str = "\
Examples:
  warpkov mdp generate grid --width 64 --height 64 --out - | warpkov mdp solve -
  warpkov mdp info model.safetensors";

#[derive(Subcommand)]
enum MdpCommand {
    Solve(Box<solve::Arguments>),
    #[command(subcommand, arg_required_else_help = true, after_help = generate::EXAMPLES)]
    Generate(generate::Family),
    Convert(convert::Arguments),
    Info(info::Arguments),
    Compare(compare::Arguments),
}

/// How a command that ran to its end came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, or solved.
    Success,
    /// Not converged within its limits, or the solutions differ.
    Negative,
    /// The user asked to stop.
    Interrupted,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Success => 0,
            Outcome::Negative => 1,
            Outcome::Interrupted => 130,
        })
    }
}

/// Why a command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Arguments that are fine one by one do not fit together.
    #[error("{0}")]
    Usage(String),
    /// A model cannot be read or written.
    #[error(transparent)]
    Model(#[from] mdp::io::Error),
    /// A partially observable model cannot be read or written.
    #[error(transparent)]
    PomdpModel(#[from] warpkov::pomdp::io::Error),
    /// A hidden Markov model or sequences cannot be read or written.
    #[error(transparent)]
    HmmModel(#[from] warpkov::hmm::io::Error),
    /// A hidden Markov model cannot be generated.
    #[error(transparent)]
    HmmGenerate(#[from] warpkov::hmm::generate::Error),
    /// A hidden Markov model cannot be trained.
    #[error(transparent)]
    Train(warpkov::hmm::train::Error<mdp::SolveError>),
    /// A model cannot be generated.
    #[error(transparent)]
    Generate(#[from] mdp::generate::Error),
    /// A partially observable model cannot be generated.
    #[error(transparent)]
    PomdpGenerate(#[from] warpkov::pomdp::generate::Error),
    /// A policy cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] warpkov::pomdp::simulate::Error),
    /// A solution cannot be read.
    #[error(transparent)]
    Solution(#[from] mdp::compare::ReadError),
    /// The model cannot be solved as asked.
    #[error(transparent)]
    Solve(#[from] mdp::SolveError),
    /// The model has no solution by the criterion.
    #[error(transparent)]
    Criterion(mdp::criterion::Error<mdp::SolveError>),
    /// A plot cannot be drawn.
    #[error(transparent)]
    Plot(#[from] mdp::plot::PlotError),
    /// A result cannot be written.
    #[error("cannot write {file}")]
    Write {
        /// Where to.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The standard output is gone or full.
    #[error("cannot write to the standard output")]
    Stdout(#[from] io::Error),
}

impl From<mdp::criterion::Error<mdp::SolveError>> for Error {
    fn from(error: mdp::criterion::Error<mdp::SolveError>) -> Self {
        match error {
            mdp::criterion::Error::Backend(error) => Self::Solve(error),
            error => Self::Criterion(error),
        }
    }
}

impl From<warpkov::hmm::train::Error<mdp::SolveError>> for Error {
    fn from(error: warpkov::hmm::train::Error<mdp::SolveError>) -> Self {
        match error {
            warpkov::hmm::train::Error::Backend(error) => Self::Solve(error),
            error => Self::Train(error),
        }
    }
}

impl From<warpkov::pomdp::solve::Error> for Error {
    fn from(error: warpkov::pomdp::solve::Error) -> Self {
        match error {
            warpkov::pomdp::solve::Error::Process(error) => Self::Solve(error),
            error => Self::Usage(error.to_string()),
        }
    }
}

impl Error {
    /// Prints the error and what caused it, and gives the exit code.
    pub fn report(&self) -> u8 {
        match self {
            // Whoever read the output has read enough.
            Self::Stdout(source) if source.kind() == io::ErrorKind::BrokenPipe => return 0,
            _ => eprintln!("error: {}", self.message()),
        }
        match self {
            Self::Solve(mdp::SolveError::Interrupted) => 130,
            Self::Solve(mdp::SolveError::Device(_)) | Self::Generate(mdp::generate::Error::Memory { .. }) => 3,
            // Nothing is wrong with what was asked for.
            Self::Solve(mdp::SolveError::Hmm(_)) => 1,
            error if lacks_memory(error) => 3,
            _ => 2,
        }
    }
}

/// Whether an error comes from the operating system's having no more memory.
fn lacks_memory(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

impl Error {
    /// What it is and what caused it. Of what files say nothing reaches the terminal as it is, and nothing at length.
    fn message(&self) -> String {
        let text = chain(self);
        let (text, lines) = match self {
            // The line where the error is, and a mark under it.
            Self::PomdpModel(warpkov::pomdp::io::Error::Place { excerpt, .. }) => {
                (text.strip_suffix(excerpt.as_str()).unwrap_or(&text), excerpt.as_str())
            }
            // What drivers and compilers say.
            Self::Solve(_) => text.split_at(text.find('\n').unwrap_or(text.len())),
            _ => (&*text, ""),
        };
        let lines: Vec<_> = lines.split('\n').map(escaped).collect();
        cut(&escaped(text), LONGEST) + &lines.join("\n")
    }
}

/// The messages of an error and of its causes, without those that an outer message holds already.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            let _ = write!(text, ": {message}");
        }
        cause = error.source();
    }
    text
}

/// The arguments, or the end of the process with a message.
fn parse() -> Arguments {
    Arguments::try_parse().unwrap_or_else(|error| {
        // Names of files are among them.
        let odd = |argument: OsString| {
            let text = argument.to_string_lossy();
            escaped(&text) != text
        };
        if !error.use_stderr() || !env::args_os().any(odd) {
            error.exit();
        }
        let lines: Vec<_> = error.render().to_string().lines().map(escaped).collect();
        eprintln!("{}", lines.join("\n"));
        process::exit(error.exit_code());
    })
}

/// Runs the command that the arguments name.
pub fn run() -> Result<Outcome, Error> {
    let arguments = parse();
    let out = io::stdout().lock();
    match arguments.command {
        Command::Mdp(command) => run_mdp(command, out),
        Command::Pomdp(command) => pomdp::run(command, out),
        Command::Hmm(command) => hmm::run(command, out),
        Command::Bench(suite) => bench::run(&suite, out),
        Command::Devices(arguments) => devices::run(arguments, out),
        Command::Completions(arguments) => completions::run(arguments, out),
    }
}

fn run_mdp(command: MdpCommand, out: StdoutLock) -> Result<Outcome, Error> {
    match command {
        MdpCommand::Solve(arguments) => solve::run(&(*arguments).try_into()?, out),
        MdpCommand::Generate(family) => generate::run(&family, out),
        MdpCommand::Convert(arguments) => convert::run(&arguments.try_into()?, out),
        MdpCommand::Info(arguments) => info::run(&arguments, out),
        MdpCommand::Compare(arguments) => compare::run(&arguments, out),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Arguments::command().debug_assert();
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
        let mut command = Arguments::command();
        command.build();
        assert!(read(&mut command, "warpkov") > 50);
    }

    #[test]
    fn errors_are_one_line_that_no_terminal_obeys() {
        let content = |message: &str| {
            let message = message.to_owned();
            Error::Model(mdp::io::Error::Content { file: "a\nb.json".to_owned(), message }).message()
        };
        assert_eq!(content("\x1b[2J\u{202e}"), "a\\nb.json: \\u{1b}[2J\\u{202e}");
        assert!(content(&"long ".repeat(100_000)).chars().count() < 2 * LONGEST);
        let place = warpkov::pomdp::io::Error::Place {
            file: "a.pomdp".to_owned(),
            line: 1,
            column: 1,
            message: "found \x07".to_owned(),
            excerpt: "\n  x\u{2028}\n  ^".to_owned(),
        };
        assert_eq!(Error::PomdpModel(place).message(), "a.pomdp:1:1: found \\u{7}\n  x\\u{2028}\n  ^");
    }
}
