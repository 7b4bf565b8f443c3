//! Compiling the kernels to PTX, by a cargo within cargo.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::compiler::Compiler;

/// What the device code is compiled for: a generation of GPUs, and a version of the PTX language.
pub struct Target {
    /// Compute capability: 80 for 8.0.
    pub sm: u32,
    /// PTX version: (7, 4).
    pub ptx: (u32, u32),
}

/// Everything that a cargo passes to its build scripts, or that would change how the inner one compiles.
fn is_inherited(name: &str) -> bool {
    let exact = ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN", "RUSTC_WRAPPER"];
    let more =
        ["RUSTC_WORKSPACE_WRAPPER", "RUSTC_LINKER", "TARGET", "HOST", "OPT_LEVEL", "DEBUG", "PROFILE", "NUM_JOBS"];
    exact.contains(&name)
        || more.contains(&name)
        || ["CARGO_", "DEP_"].iter().any(|prefix| name.starts_with(prefix)) && name != "CARGO_HOME"
}

/// Compiles the kernels for `target`, and returns the PTX. Cargo keeps its work in `folder` and does none twice.
///
/// # Errors
/// What the compiler said.
pub fn compile(compiler: &Compiler, target: &Target, root: &Path, folder: &Path) -> Result<String, String> {
    let flags = format!(
        "-Ctarget-cpu=sm_{sm} -Ctarget-feature=+ptx{major}{minor} -Cpanic=immediate-abort -Zunstable-options \
         -Zmir-enable-passes=-JumpThreading --cfg warpkov_sm=\"{sm}\"",
        sm = target.sm,
        major = target.ptx.0,
        minor = target.ptx.1
    );
    let inherited: Vec<OsString> =
        env::vars_os().map(|(name, _)| name).filter(|name| is_inherited(&name.to_string_lossy())).collect();
    let mut cargo = Command::new(&compiler.cargo);
    cargo.current_dir(root);
    inherited.iter().for_each(|name| {
        cargo.env_remove(name);
    });
    cargo
        .args(["rustc", "--profile", "ptx", "--package", "warpkov-kernels", "--lib", "-Zbuild-std=core"])
        .args(["--target", "nvptx64-nvidia-cuda", "--target-dir"])
        .arg(folder)
        .args(["--", "--emit=asm"])
        // The compiler is a released one; build-std and the PTX target are not stable there.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", &compiler.rustc)
        .env("RUSTFLAGS", flags);
    let output = cargo.output().map_err(|error| format!("{:?} cannot be run: {error}", compiler.cargo))?;
    if !output.status.success() {
        return Err(format!("the kernels do not compile:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let assembly = newest_assembly(&folder.join("nvptx64-nvidia-cuda/ptx/deps"))?;
    fs::read_to_string(&assembly).map_err(|error| format!("{}: {error}", assembly.display()))
}

/// The PTX of the last compilation; a change of flags leaves those of earlier ones beside it.
fn newest_assembly(folder: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("warpkov_kernels-") && name.ends_with(".s")
        })
        .max_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok())
        .ok_or_else(|| format!("the compiler left no PTX in {}", folder.display()))
}
