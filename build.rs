//! Compiles the kernels to PTX and embeds it in the host crate.
//!
//! | module | what it does |
//! | --- | --- |
//! | `compiler` | finds a Rust compiler that is right for GPU code |
//! | `compile` | runs it, once for each baseline |
//! | `ptx` | reads the PTX that comes out |
//! | `audit`, `divergence` | refuse PTX that would fail or hang on a GPU |
//! | `table` | writes what the host includes: the PTX and the kernels' signatures |

#[path = "build/audit.rs"]
mod audit;
#[path = "build/compile.rs"]
mod compile;
#[path = "build/compiler.rs"]
mod compiler;
#[path = "build/divergence.rs"]
mod divergence;
#[path = "build/ptx.rs"]
mod ptx;
#[path = "build/table.rs"]
mod table;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use compile::Baseline;

/// What the binary holds: code for Ampere and later GPUs, and code that uses what Hopper added.
const BASELINES: [Baseline; 2] = [Baseline { sm: 80, ptx: (7, 4) }, Baseline { sm: 90, ptx: (8, 0) }];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    // Only what the device code depends on: a change of host code must not compile the kernels again.
    for path in [
        "build.rs",
        "build",
        "Cargo.lock",
        "Cargo.toml",
        "kernels/Cargo.toml",
        "kernels/src",
        "kernels/macros/Cargo.toml",
        "kernels/macros/src",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    for name in ["WARPKOV_DEVICE_RUSTC", "WARPKOV_REQUIRE_PTX"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let out = PathBuf::from(variable("OUT_DIR")?);
    let compiler = match compiler::find(Path::new(&variable("CARGO")?))? {
        compiler::Search::Found(compiler) => compiler,
        compiler::Search::Missing(why) => {
            if env::var("WARPKOV_REQUIRE_PTX").is_ok_and(|value| value == "1") {
                return Err(format!("{why} (WARPKOV_REQUIRE_PTX=1 asks for device code)"));
            }
            println!("cargo::warning={why}");
            return table::write(&out, &[], Err(&why));
        }
    };
    if let Some(note) = &compiler.note {
        println!("cargo::warning={note}");
    }

    let target = target_directory(&out)?;
    let texts = compile::all(&compiler, &BASELINES, &target)?;
    let expected = audit::expected_entries(Path::new("kernels/src"))?;
    let mut modules = Vec::new();
    for (baseline, text) in BASELINES.iter().zip(&texts) {
        // Before the audit, whose messages speak of its lines.
        let kept = table::keep(&target, baseline, text)?;
        let module = ptx::parse(text)?;
        let faults = audit::faults(text, &module, baseline.sm, baseline.ptx, &expected);
        if !faults.is_empty() {
            return Err(format!("{} is not fit for a GPU:\n{}", kept.display(), faults.join("\n")));
        }
        modules.push((baseline, text.as_str(), module));
    }
    table::write(&out, &modules, Ok(&compiler.version))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo did not set {name}"))
}

/// Cargo's target folder, which holds `OUT_DIR` as `[<triple>/]<profile>/build/<package>/out`.
fn target_directory(out: &Path) -> Result<PathBuf, String> {
    let folder = out.ancestors().nth(4).ok_or_else(|| format!("{} is not inside a target folder", out.display()))?;
    let is_triple = folder.file_name().is_some_and(|name| env::var_os("TARGET").is_some_and(|triple| name == triple));
    Ok(if is_triple { folder.parent().unwrap_or(folder) } else { folder }.to_path_buf())
}
