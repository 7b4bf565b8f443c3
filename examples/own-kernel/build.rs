fn main() -> std::process::ExitCode { warpkov_build::module("src/kernels.rs").build() }
