//! Compiles the kernels of `kernels/` for GPUs and embeds them in the library.

fn main() -> std::process::ExitCode {
    warpkov_build::package("../../kernels").build()
}
