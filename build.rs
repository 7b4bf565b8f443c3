//! Compiles the kernels of `kernels/` for GPUs and embeds them in the library.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(kernels) = env::var_os("DEP_WARPKOV_KERNELS_ROOT") else {
        println!("cargo::error=the package does not depend on warpkov-kernels");
        return ExitCode::FAILURE;
    };
    warpkov_build::package(kernels).build()
}
