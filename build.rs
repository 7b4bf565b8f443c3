//! Compiles the kernels to PTX and to machine code, and embeds both in the host crate.
//!
//! | module | what it does |
//! | --- | --- |
//! | `compiler` | finds a Rust compiler that is right for GPU code |
//! | `compile` | runs it, once for each baseline |
//! | `ptx` | reads the PTX that comes out |
//! | `audit`, `divergence` | refuse PTX that would fail or hang on a GPU |
//! | `assemble` | makes machine code of it, kernel by kernel |
//! | `table` | writes what the host includes: PTX, machine code and the kernels' signatures |

#[path = "build/assemble.rs"]
mod assemble;
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

use assemble::{Assembler, Job};
use compile::Baseline;
use table::Compiled;

/// What the binary holds: code for Ampere and later GPUs, and code that uses what Hopper added.
const BASELINES: [Baseline; 2] = [
    Baseline { sm: 80, ptx: (7, 4), machine: &[80, 86, 89] },
    Baseline { sm: 90, ptx: (8, 0), machine: &[90, 100, 120] },
];

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
    println!("cargo::rerun-if-env-changed=WARPKOV_DEVICE_RUSTC");

    let out = PathBuf::from(variable("OUT_DIR")?);
    let compiler = match compiler::find(Path::new(&variable("CARGO")?))? {
        compiler::Search::Found(compiler) => compiler,
        compiler::Search::Missing(why) => {
            missing("WARPKOV_REQUIRE_PTX", &why)?;
            return table::write(&out, &[], Err(&why), None);
        }
    };
    if let Some(note) = &compiler.note {
        println!("cargo::warning={note}");
    }

    let target = target_directory(&out)?;
    let texts = compile::all(&compiler, &BASELINES, &target)?;
    let expected = audit::expected_entries(Path::new("kernels/src"))?;
    let mut compiled = Vec::new();
    for (baseline, text) in BASELINES.iter().zip(&texts) {
        // Before the audit, whose messages speak of its lines.
        let kept = table::keep(&target, baseline, text)?;
        let module = ptx::parse(text)?;
        let faults = audit::faults(text, &module, baseline.sm, baseline.ptx, &expected);
        if !faults.is_empty() {
            return Err(format!("{} is not fit for a GPU:\n{}", kept.display(), faults.join("\n")));
        }
        let texts = module.entries.iter().map(|entry| module.alone(entry)).collect();
        compiled.push(Compiled { baseline, module, texts, machine: Vec::new() });
    }
    let assembler = match assemble::find(&target)? {
        assemble::Search::Found(assembler) => Some(assembler),
        assemble::Search::Missing(why) => {
            missing("WARPKOV_REQUIRE_CUBIN", &why)?;
            None
        }
    };
    if let Some(assembler) = &assembler {
        machine_code(assembler, &mut compiled, &target)?;
    }
    table::write(&out, &compiled, Ok(&compiler.version), assembler.as_ref())
}

/// Warns that something is not there, which is an error if the variable `requires` asks for it.
fn missing(requires: &str, why: &str) -> Result<(), String> {
    // Where everything is there, the variable changes nothing, and must not have the host compiled again.
    println!("cargo::rerun-if-env-changed={requires}");
    if env::var(requires).is_ok_and(|value| value == "1") {
        return Err(format!("{why} ({requires}=1 asks for it)"));
    }
    println!("cargo::warning={why}");
    Ok(())
}

/// Assembles every kernel for every GPU that the assembler knows.
fn machine_code(assembler: &Assembler, compiled: &mut [Compiled<'_>], target: &Path) -> Result<(), String> {
    let (known, unknown): (Vec<u32>, Vec<u32>) =
        BASELINES.iter().flat_map(|baseline| baseline.machine).partition(|&&sm| assembler.knows(sm));
    if !unknown.is_empty() {
        let why = format!("ptxas {} makes no machine code for sm_{unknown:?}", assembler.version);
        missing("WARPKOV_REQUIRE_CUBIN", &why)?;
    }
    let mut jobs = Vec::new();
    for Compiled { baseline, module, texts, .. } in compiled.iter() {
        for &sm in baseline.machine.iter().filter(|sm| known.contains(sm)) {
            jobs.extend(module.entries.iter().zip(texts).map(|(entry, text)| Job { sm, name: entry.name, text }));
        }
    }
    let mut codes = assembler.all(&jobs, &target.join("machine-code"))?.into_iter();
    for Compiled { baseline, texts, machine, .. } in compiled {
        for &sm in baseline.machine.iter().filter(|sm| known.contains(sm)) {
            machine.push((sm, codes.by_ref().take(texts.len()).collect()));
        }
    }
    Ok(())
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
