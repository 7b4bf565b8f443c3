//! With the feature `gpu`: compiles the kernels of the exercise in the folder `LEARN_EXERCISE` for GPUs.

use std::process::ExitCode;

#[cfg(not(feature = "gpu"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(feature = "gpu")]
fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed=LEARN_EXERCISE");
    let Ok(folder) = std::env::var("LEARN_EXERCISE") else {
        println!("cargo::error=LEARN_EXERCISE is not set: the folder of an exercise, such as exercises/00_vector_add");
        return ExitCode::FAILURE;
    };
    warpkov_build::module(format!("{folder}/kernels.rs")).build()
}
