//! Compiles kernels to PTX with a nested cargo.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde::Deserialize;

use crate::compiler::Compiler;
use crate::source::{self, Root, Source};
use crate::{Baseline, ptx};

/// The profile of the device compilation, independent of the workspace's profiles.
const PROFILE: [&str; 10] = [
    "inherits='release'",
    "opt-level=3",
    "codegen-units=1",
    "lto=false",
    "debug-assertions=false",
    "overflow-checks=false",
    "panic='abort'",
    // Other dependencies contribute functions to the kernels, but no entry points.
    "package.'*'.rustflags=['--cfg=warpkov_dependency']",
    // Kernels inline what they use of core; its own machine code would never be read.
    "package.core.rustflags=['-Zno-codegen']",
    // Kernels use shared memory that this crate's own PTX declares; `ptx::link` needs that PTX.
    "package.warpkov-device.rustflags=['--emit=asm']",
];

/// The result of one compilation.
pub struct Output {
    /// The linked PTX.
    pub text: String,
    /// Sources outside of the registry. A change of one requires a new compilation.
    pub sources: BTreeSet<PathBuf>,
}

/// Compiles all baselines in parallel.
pub fn all(
    compiler: &Compiler,
    baselines: &[Baseline],
    source: &Source,
    out: &Path,
    target: &Path,
) -> Result<Vec<Output>, String> {
    let lines = has_lines();
    let compile = |baseline: &Baseline| {
        let root = source.root(&out.join(format!("kernels-sm_{}", baseline.name())))?;
        compile(compiler, baseline, &root, target, lines)
    };
    let compile = &compile;
    thread::scope(|scope| {
        let running: Vec<_> = baselines.iter().map(|baseline| scope.spawn(move || compile(baseline))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    })
}

/// Whether the PTX tells the source line of each instruction: `WARPKOV_LINES` is 1, or it is not set and the surrounding profile has debug
/// information.
pub fn has_lines() -> bool {
    let has = |value: String| !matches!(value.as_str(), "0" | "false" | "none" | "");
    env::var("WARPKOV_LINES").or_else(|_| env::var("DEBUG")).is_ok_and(has)
}

fn compile(
    compiler: &Compiler,
    baseline: &Baseline,
    root: &Root,
    target: &Path,
    lines: bool,
) -> Result<Output, String> {
    let (sm, name, (major, minor)) = (baseline.sm, baseline.name(), baseline.ptx);
    // immediate-abort: a panic that calls core's formatting leaves unresolved calls in the PTX.
    // -JumpThreading: this pass of rustc may duplicate barriers. LLVM's pass does not, from rustc 1.96 on.
    let mut flags = format!(
        "-Ctarget-cpu=sm_{name} -Ctarget-feature=+ptx{major}{minor} -Cpanic=immediate-abort -Zunstable-options \
         -Zmir-enable-passes=-JumpThreading"
    );
    for generation in GENERATIONS.into_iter().filter(|&generation| generation <= sm) {
        flags.push_str(&format!(" --cfg warpkov_sm=\"{generation}\""));
    }
    if baseline.alone {
        flags.push_str(&format!(" --cfg warpkov_sm=\"{name}\""));
    }
    let mut command = Command::new(&compiler.cargo);
    command.args(["rustc", "--lib", "--manifest-path"]).arg(&root.manifest).args(["--profile", "ptx"]);
    let debug = if lines { "debug='line-directives-only'" } else { "debug=false" };
    for setting in PROFILE.into_iter().chain([debug]) {
        command.args(["--config", &format!("profile.ptx.{setting}")]);
    }
    command
        .args(["-Zbuild-std=core", "-Zprofile-rustflags", "--target", "nvptx64-nvidia-cuda"])
        .args(["--message-format=json-render-diagnostics", "--target-dir"])
        .arg(target.join(format!("nvptx/sm_{name}")))
        // The surrounding build has resolved the versions.
        .args(root.locked.then_some("--locked"))
        .args(["--", "--emit=asm"]);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_this_builds_own) {
            command.env_remove(name);
        }
    }
    // Cargo's settings are those of the workspace that is being built, which a crate from a registry is not in.
    if source::is_published(Path::new("."))
        && let Some(folder) = root.manifest.parent()
    {
        command.current_dir(folder);
    }
    let output = command
        .env("RUSTC", &compiler.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
        .env("WARPKOV_SM", sm.to_string())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", compiler.cargo.display()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        // Unstable features may differ in a later release.
        let tested = compiler.version.starts_with("rustc 1.96.");
        let hint = if tested {
            ""
        } else {
            " (the kernels are tested with 1.96 and with the newest stable release; WARPKOV_DEVICE_RUSTC names another compiler)"
        };
        return Err(format!("the kernels do not compile for sm_{name} with {}{hint}:\n{errors}", compiler.version));
    }
    let artifacts = artifacts(&String::from_utf8_lossy(&output.stdout));
    let assembly = |artifact: &Artifact| {
        let path =
            artifact.assembly().ok_or_else(|| format!("cargo reports no output file of {}", artifact.target.name))?;
        let read = fs::read_to_string(&path);
        read.map_err(|error| {
            format!("{}: {error} (if the file was deleted, delete {}/nvptx too)", path.display(), target.display())
        })
    };
    let find = |wanted: &dyn Fn(&Artifact) -> bool| artifacts.iter().find(|artifact| wanted(artifact));
    let kernels = find(&|artifact| artifact.is_library() && artifact.manifest_path == root.manifest)
        .ok_or_else(|| format!("cargo reports no output of the kernels for sm_{name}"))?;
    let device = find(&|artifact| artifact.is_library() && artifact.target.name == "warpkov_device")
        .ok_or("the kernels' crate does not depend on warpkov-device")?;
    let text = ptx::link(&assembly(kernels)?, &assembly(device)?)?;
    let text = ptx::launch_bounds(&ptx::align_tensor_maps(&text));
    let sources =
        artifacts.iter().filter(|artifact| artifact.manifest_path != root.generated).filter_map(Artifact::source);
    Ok(Output { text, sources: sources.collect() })
}

/// The values of `cfg(warpkov_sm = "…")`. Each holds for baselines of at least this compute capability.
const GENERATIONS: [u32; 6] = [70, 75, 80, 90, 100, 120];

/// Whether an environment variable describes the surrounding build, for the host. The nested build must not inherit it.
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

/// A message of cargo about a compiled or cached crate.
#[derive(Deserialize)]
struct Artifact {
    package_id: String,
    manifest_path: PathBuf,
    target: Target,
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

/// The artifacts in the output of `cargo --message-format=json`.
fn artifacts(messages: &str) -> Vec<Artifact> {
    // Messages of other kinds lack these fields.
    messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

impl Artifact {
    fn is_library(&self) -> bool {
        self.target.kind.iter().any(|kind| kind == "lib" || kind == "rlib")
    }

    /// Path of the PTX: in the folder of the library, with the same stem. The stem contains the hash of this
    /// compilation, unlike those of older files in the folder.
    fn assembly(&self) -> Option<PathBuf> {
        let library = self.filenames.iter().find(|file| file.extension().is_some_and(|kind| kind == "rmeta"))?;
        let stem = library.file_stem()?.to_str()?.strip_prefix("lib")?;
        Some(library.with_file_name(format!("{stem}.s")))
    }

    /// The path to watch: the folder of a library's sources, or the file of a build script. `None` for sources that
    /// never change, from a registry or of the compiler's library.
    fn source(&self) -> Option<PathBuf> {
        let own = self.package_id.starts_with("path+") && !self.package_id.contains("/rustlib/src/");
        let script = self.target.kind.iter().any(|kind| kind == "custom-build");
        let path = if script { Some(self.target.src_path.as_path()) } else { self.target.src_path.parent() };
        path.filter(|_| own).map(Path::to_path_buf)
    }
}
