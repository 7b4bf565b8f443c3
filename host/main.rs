//! The `warpkov` binary. Module `cli` parses the command line, and this file turns the outcome into an exit code.

use std::process::ExitCode;

use warpkov::runtime::comm;

mod cli;

fn main() -> ExitCode {
    match cli::run() {
        Ok(outcome) => {
            comm::finalize();
            outcome.into()
        }
        Err(error) => {
            let code = error.report();
            match error.is_agreed() {
                true => comm::finalize(),
                // The other ranks would wait for this one.
                false => comm::abort(code),
            }
            code.into()
        }
    }
}
