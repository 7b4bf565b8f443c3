//! The `warpkov` binary: the command line of `warpkov_cli`.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    warpkov_cli::main(env::args_os()).into()
}
