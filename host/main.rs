//! The `warpkov` binary. Module `cli` parses the command line, and this file turns the outcome into an exit code.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    match cli::run() {
        Ok(outcome) => outcome.into(),
        Err(error) => error.report().into(),
    }
}
