//! Compiles the kernels, and embeds them.

fn main() -> std::process::ExitCode {
    warpkov_build::package("kernels").build()
}
