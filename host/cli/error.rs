//! Outcomes and errors of commands, with their messages and exit codes.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use warpkov_common::parameters;
use warpkov_common::terminal::{cut, escaped};
use warpkov_pomdp::solution::Status;
use warpkov_runtime::choose::DeviceChoice;
use {warpkov_hmm as hmm, warpkov_mdp as mdp, warpkov_pomdp as pomdp, warpkov_runtime as runtime};

/// Outcome of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, or solved.
    Success,
    /// Not converged within its limits, or the solutions differ.
    Negative,
    /// The user asked to stop.
    Interrupted,
}

impl Outcome {
    /// The exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Negative => 1,
            Self::Interrupted => 130,
        }
    }
}

/// Maximum length of an error message, in characters.
const LONGEST: usize = 1200;

/// Reason why a command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The exercise of a course has no such device.
    #[error("{0}")]
    NoDevice(String),
    /// Arguments are invalid, or do not fit together.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] warpkov_common::io::Error),
    /// A hidden Markov model cannot be generated.
    #[error(transparent)]
    HmmGenerate(#[from] hmm::generate::Error),
    /// A hidden Markov model cannot be trained.
    #[error(transparent)]
    Train(hmm::train::Error<hmm::place::Error>),
    /// The recursions of a hidden Markov model failed.
    #[error(transparent)]
    Recursions(#[from] hmm::place::Error),
    /// There are too many paths.
    #[error(transparent)]
    Paths(hmm::paths::Error),
    /// A model cannot be generated.
    #[error(transparent)]
    Generate(#[from] mdp::generate::Error),
    /// A partially observable model cannot be generated.
    #[error(transparent)]
    PomdpGenerate(#[from] pomdp::generate::Error),
    /// A policy cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] pomdp::simulate::Error),
    /// A controller has no value.
    #[error(transparent)]
    Controller(#[from] pomdp::controller::Error),
    /// The model cannot be solved with these options.
    #[error(transparent)]
    Solve(#[from] mdp::SolveError),
    /// The partially observable model cannot be solved with these options.
    #[error(transparent)]
    PomdpSolve(#[from] pomdp::solve::Error),
    /// The device failed, or the user stopped the run.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    /// The device of one of several ranks of this process failed.
    #[error("{device}")]
    OnDevice {
        /// The device.
        device: DeviceChoice,
        /// Its error.
        source: Box<Error>,
    },
    /// The model has no solution by the criterion.
    #[error(transparent)]
    Criterion(mdp::criterion::Error<mdp::SolveError>),
    /// A constrained model has no solution.
    #[error(transparent)]
    Constrained(Box<pomdp::constrained::Error>),
    /// A plot cannot be drawn.
    #[error(transparent)]
    Plot(#[from] warpkov_common::plot::PlotError),
    /// All ranks know that this one has an error.
    #[error(transparent)]
    Agreed(Box<Error>),
    /// Another rank has the error, with this exit code, and reports it.
    #[error("another rank failed")]
    Elsewhere(u8),
    /// The standard output is closed or full.
    #[error("cannot write to the standard output")]
    Stdout(#[from] io::Error),
}

impl From<runtime::comm::Error> for Error {
    fn from(error: runtime::comm::Error) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<mdp::criterion::Error<mdp::SolveError>> for Error {
    fn from(error: mdp::criterion::Error<mdp::SolveError>) -> Self {
        match error {
            mdp::criterion::Error::Backend(error) => Self::Solve(error),
            error => Self::Criterion(error),
        }
    }
}

impl From<pomdp::criterion::Error> for Error {
    fn from(error: pomdp::criterion::Error) -> Self {
        match error {
            pomdp::criterion::Error::Process(error) => error.into(),
            error => Self::Usage(error.to_string()),
        }
    }
}

impl From<pomdp::constrained::Error> for Error {
    fn from(error: pomdp::constrained::Error) -> Self {
        match error {
            pomdp::constrained::Error::Solve(error) => error.into(),
            error => Self::Constrained(Box::new(error)),
        }
    }
}

impl From<hmm::train::Error<hmm::place::Error>> for Error {
    fn from(error: hmm::train::Error<hmm::place::Error>) -> Self {
        match error {
            hmm::train::Error::Backend(error) => Self::Recursions(error),
            error => Self::Train(error),
        }
    }
}

impl From<hmm::paths::Error> for Error {
    fn from(error: hmm::paths::Error) -> Self {
        match error {
            hmm::paths::Error::Stopped(error) => Self::Recursions(error),
            error => Self::Paths(error),
        }
    }
}

impl Error {
    /// The error of the device, if that is the cause.
    fn runtime(&self) -> Option<&runtime::Error> {
        match self {
            Self::Runtime(error)
            | Self::Solve(mdp::SolveError::Runtime(error))
            | Self::PomdpSolve(
                pomdp::solve::Error::Runtime(error) | pomdp::solve::Error::Process(mdp::SolveError::Runtime(error)),
            )
            | Self::Recursions(hmm::place::Error::Runtime(error)) => Some(error),
            Self::OnDevice { source, .. } => source.runtime(),
            _ => None,
        }
    }

    /// The error of a rank with this device, which it names if the device has failed.
    pub fn on(self, device: DeviceChoice) -> Self {
        match self.runtime() {
            Some(runtime::Error::Device(_)) => Self::OnDevice { device, source: Box::new(self) },
            _ => self,
        }
    }

    /// Prints the error with its causes. Returns the exit code.
    pub fn report(&self) -> u8 {
        match self {
            // The reader of the output closed the pipe, as `head` does.
            Self::Stdout(source) if source.kind() == io::ErrorKind::BrokenPipe => return 0,
            Self::Agreed(error) => return error.report(),
            Self::Elsewhere(_) => {}
            // At once, so that the messages of several ranks do not mix.
            _ => _ = io::stderr().write_all(format!("error: {}\n", self.message()).as_bytes()),
        }
        self.exit_code()
    }

    /// Whether all ranks know of the error and end.
    pub fn is_agreed(&self) -> bool {
        matches!(self, Self::Agreed(_) | Self::Elsewhere(_))
    }

    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match (self, self.runtime()) {
            (Self::Agreed(error), _) => error.exit_code(),
            (Self::Elsewhere(code), _) => *code,
            (Self::NoDevice(_), _) => 3,
            (_, Some(runtime::Error::Interrupted)) => 130,
            (_, Some(runtime::Error::Device(_) | runtime::Error::Comm(_))) => 3,
            (Self::PomdpSolve(pomdp::solve::Error::Elsewhere(_)), _) => 3,
            (Self::Generate(mdp::generate::Error::Parameter(parameters::Error::Memory { .. })) | Self::Paths(_), _) => {
                3
            }
            (Self::Constrained(error), _) => match **error {
                pomdp::constrained::Error::NotFound { status: Status::Interrupted, .. } => 130,
                // An answer, if not the one hoped for.
                pomdp::constrained::Error::NotFound { .. } | pomdp::constrained::Error::Infeasible { .. } => 1,
                _ => 2,
            },
            // The input is valid; the computation failed.
            (Self::Recursions(hmm::place::Error::Violated(_)), _) => 1,
            (error, _) if lacks_memory(error) => 3,
            _ => 2,
        }
    }
}

/// Whether the operating system's lack of memory caused the error.
fn lacks_memory(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

impl Error {
    /// The message with its causes, shortened. Text from files is escaped, so that it cannot control the terminal.
    fn message(&self) -> String {
        let text = chain(self);
        let (text, lines) = match self {
            // The line with the error, and a caret under it.
            Self::File(warpkov_common::io::Error::Place { excerpt, .. }) => {
                (text.strip_suffix(excerpt.as_str()).unwrap_or(&text), excerpt.as_str())
            }
            // The log of a driver or a compiler.
            error if error.runtime().is_some() => text.split_at(text.find('\n').unwrap_or(text.len())),
            _ => (&*text, ""),
        };
        let lines: Vec<_> = lines.split('\n').map(escaped).collect();
        cut(&escaped(text), LONGEST) + &lines.join("\n")
    }
}

/// The message of an error with its causes, in one line.
pub fn message(error: &dyn std::error::Error) -> String {
    cut(&escaped(&chain(error)), LONGEST)
}

/// The messages of an error and of its causes; a message that an outer message contains appears once.
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

#[cfg(test)]
mod tests {
    use warpkov_common::io::Error::{Content, Place};
    use warpkov_runtime::gpu::CudaError;

    use super::*;

    #[test]
    fn errors_of_devices_name_one_of_several() {
        let lacking = CudaError::OutOfMemory {
            needed: 2 << 30,
            free: 1 << 30,
            total: 80 << 30,
            what: "a buffer".to_owned(),
            instead: CudaError::SMALLER,
        };
        let error = Error::Runtime(runtime::Error::Device(lacking)).on(DeviceChoice::Cuda(3));
        assert_eq!(
            error.message(),
            "cuda:3: a buffer needs 2.00 GiB of GPU memory, and 1.00 GiB of 80.00 GiB are free: use a smaller problem, f32, or the CPU"
        );
        assert_eq!(error.exit_code(), 3);
        let other = Error::Runtime(runtime::Error::Interrupted).on(DeviceChoice::Cuda(3));
        assert_eq!(other.exit_code(), 130);
        assert!(!matches!(other, Error::OnDevice { .. }));
    }

    /// A defect of the program, not of the input.
    #[test]
    fn a_violated_invariant_has_exit_code_1() {
        let violated = hmm::invariants::Violated {
            what: "ln P(O)",
            sequence: 3,
            found: f64::NAN,
            expected: "the logarithm of a likelihood".to_owned(),
        };
        let message =
            "internal error: ln P(O) of sequence 3 is NaN, expected the logarithm of a likelihood; please report this";
        let found = || hmm::place::Error::Violated(violated.clone());
        for error in [Error::from(found()), hmm::train::Error::Backend(found()).into()] {
            assert_eq!((error.exit_code(), error.message()), (1, message.to_owned()));
            assert_eq!(Error::Agreed(Box::new(error)).exit_code(), 1);
        }
    }

    #[test]
    fn errors_are_one_line_that_no_terminal_obeys() {
        let content = |message: &str| {
            let message = message.to_owned();
            Error::File(Content { file: "a\nb.json".to_owned(), message }).message()
        };
        assert_eq!(content("\x1b[2J\u{202e}"), "a\\nb.json: \\u{1b}[2J\\u{202e}");
        assert!(content(&"long ".repeat(100_000)).chars().count() < 2 * LONGEST);
        let place = Place {
            file: "a.pomdp".to_owned(),
            line: 1,
            column: 1,
            message: "found \x07".to_owned(),
            excerpt: "\n  x\u{2028}\n  ^".to_owned(),
        };
        assert_eq!(Error::File(place).message(), "a.pomdp:1:1: found \\u{7}\n  x\\u{2028}\n  ^");
    }
}
