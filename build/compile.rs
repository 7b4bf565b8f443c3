//! Compiles the kernels' crate to PTX.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::compiler::Compiler;

/// One way to compile the kernels: for a generation of GPUs, and all later ones.
pub struct Baseline {
    /// The oldest compute capability that runs it: 80 for 8.0.
    pub sm: u32,
    /// The version of the PTX language.
    pub ptx: (u32, u32),
    /// The GPUs for which it becomes machine code.
    pub machine: &'static [u32],
}

/// Compiles every baseline, side by side, and gives the PTX of each.
pub fn all(compiler: &Compiler, baselines: &[Baseline], target: &Path) -> Result<Vec<String>, String> {
    thread::scope(|scope| {
        let running: Vec<_> =
            baselines.iter().map(|baseline| scope.spawn(|| compile(compiler, baseline, target))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    })
}

fn compile(compiler: &Compiler, baseline: &Baseline, target: &Path) -> Result<String, String> {
    let (sm, (major, minor)) = (baseline.sm, baseline.ptx);
    // immediate-abort: a panic that calls into core's formatting would leave unresolved calls in the PTX.
    // -JumpThreading: rustc's own pass may duplicate barriers, which LLVM's no longer does.
    let flags = format!(
        "-Ctarget-cpu=sm_{sm} -Ctarget-feature=+ptx{major}{minor} -Cpanic=immediate-abort -Zunstable-options \
         -Zmir-enable-passes=-JumpThreading --cfg warpkov_sm=\"{sm}\""
    );
    let mut command = Command::new(&compiler.cargo);
    command
        .args(["rustc", "--profile", "ptx", "-p", "warpkov-kernels", "--lib", "-Zbuild-std=core"])
        .args(["--target", "nvptx64-nvidia-cuda", "--message-format=json-render-diagnostics", "--target-dir"])
        .arg(target.join(format!("nvptx/sm_{sm}")))
        // The build around this one has settled the versions.
        .args(Path::new("Cargo.lock").exists().then_some("--locked"))
        .args(["--", "--emit=asm"]);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_this_builds_own) {
            command.env_remove(name);
        }
    }
    let output = command
        .env("RUSTC", &compiler.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
        .output()
        .map_err(|error| format!("{} does not run: {error}", compiler.cargo.display()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the kernels do not compile for sm_{sm}, with {}:\n{errors}", compiler.version));
    }
    let path = assembly(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("cargo did not say where it put the kernels for sm_{sm}"))?;
    fs::read_to_string(&path).map_err(|error| {
        format!("{}: {error} (if the file was deleted, delete {}/nvptx too)", path.display(), target.display())
    })
}

/// Whether a variable tells of this build, host code in another profile, and would lead the nested one astray.
fn is_this_builds_own(name: &str) -> bool {
    const PREFIXES: [&str; 5] = ["CARGO_PROFILE_", "CARGO_CFG_", "CARGO_FEATURE_", "CARGO_BUILD_", "CARGO_TARGET_"];
    const NAMES: [&str; 11] = [
        "CARGO",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "RUSTUP_TOOLCHAIN",
        "DEBUG",
        "HOST",
        "NUM_JOBS",
        "OPT_LEVEL",
        "PROFILE",
        "TARGET",
    ];
    NAMES.contains(&name) || name.starts_with("RUSTC") || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The PTX is beside the library that cargo's messages name, under the same name. The folder may hold older files, so the
/// name decides, not the age.
fn assembly(messages: &str) -> Option<PathBuf> {
    let library = messages.lines().flat_map(|line| line.split('"')).find(|word| {
        word.ends_with(".rmeta")
            && word.rsplit(['/', '\\']).next().is_some_and(|n| n.starts_with("libwarpkov_kernels-"))
    })?;
    let library = Path::new(library);
    let stem = library.file_stem()?.to_str()?.strip_prefix("lib")?;
    Some(library.with_file_name(format!("{stem}.s")))
}
