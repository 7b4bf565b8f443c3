//! The `warpkov` binary: module `cli`.

use std::env;
use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::main(env::args_os()).into()
}
