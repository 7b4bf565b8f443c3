//! The `warpkov` binary. Module `cli` parses the command line, and this file turns the outcome into an exit code.

use std::process::ExitCode;

use warpkov::runtime::comm::mpi;

mod cli;

fn main() -> ExitCode {
    match cli::run() {
        Ok(outcome) => {
            mpi::finalize();
            outcome.into()
        }
        Err(error) => {
            let code = error.report();
            // The other ranks would wait for this one.
            cli::ranks::end(code);
            code.into()
        }
    }
}
