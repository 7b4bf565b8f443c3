//! With the feature `gpu`: compiles the kernels of the exercise in the folder `LEARN_EXERCISE` for GPUs; with `LEARN_EXERCISE=solutions`, those of
//! all solutions at once.

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
    let file = if folder == "solutions" { all_solutions() } else { Ok(format!("{folder}/kernels.rs").into()) };
    match file {
        Ok(file) => warpkov_build::module(file).build(),
        Err(error) => {
            println!("cargo::error=cannot list the solutions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes a module that has the kernels of each solution as a module.
#[cfg(feature = "gpu")]
fn all_solutions() -> std::io::Result<std::path::PathBuf> {
    let course = std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut text = String::new();
    for folder in std::fs::read_dir(course.join("solutions"))? {
        let folder = folder?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text += &format!("#[path = {:?}]\npub mod kernels_{name};\n", folder.join("kernels.rs"));
    }
    let file = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("solutions.rs");
    std::fs::write(&file, text)?;
    Ok(file)
}
