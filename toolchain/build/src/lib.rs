//! Compiles a crate's GPU kernels when the crate is built: to PTX, its audit, machine code, and a table of both for the program.
//!
//! A crate that has its kernels in `src/kernels.rs`, beside its `main`, needs this `build.rs`:
//!
//! ```no_run
//! warpkov_build::kernels!("src/kernels.rs");
//! ```
//!
//! which is short for
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     warpkov_build::module("src/kernels.rs").build()
//! }
//! ```
//!
//! with `warpkov-device` among its dependencies and this crate among its build dependencies. The program then takes the table by
//! `warpkov_cuda::modules!()`. `warpkov new` writes such a crate.
//!
//! Only the kernels are compiled for the GPU, not the crate around them: the module becomes a small crate of its own in `OUT_DIR`,
//! which depends on `warpkov-device` alone, the very one that cargo has chosen for the crate. So kernels may use `core`,
//! `warpkov_device`, and one another by `crate::kernels::…`; what else is at the crate's root is not there, and `use` lines for
//! the host stand behind `#[cfg(not(target_arch = "nvptx64"))]`. A crate that is nothing but kernels is compiled as it is, by
//! [`package`], from its own build script or from that of the crate that embeds it.
//!
//! # Compiler
//!
//! Any rustc from 1.96.0 on serves that has its library's source. These are tried, and none is ever downloaded:
//!
//! 1. the one that `WARPKOV_DEVICE_RUSTC` names;
//! 2. that of this build, rustup's active toolchain;
//! 3. rustup's other toolchains, 1.96.0 first, with which this is tested;
//! 4. `/usr/bin/rustc`, as from Debian's `rustc-web` and `rust-web-src`;
//! 5. rustup's nightlies.
//!
//! Without any, the build prints a warning, and the table says why it is empty. `WARPKOV_REQUIRE_PTX=1` makes that an error.
//!
//! # Audit
//!
//! The build fails where the PTX calls a panic or a function that it does not hold, holds other kernels than the sources
//! declare, has a variable that two kernels write, or has barriers on both sides of a branch on which threads may part.
//!
//! # Machine code
//!
//! NVIDIA's assembler makes machine code of each kernel: the `ptxas` that `WARPKOV_PTXAS` names (`none` does without), else one in
//! `ptxas-venv` in the target folder, else one on the `PATH`. Without it the build prints a warning, and the driver compiles each
//! kernel when it is first launched; `WARPKOV_REQUIRE_CUBIN=1` makes that an error.
//!
//! # What it leaves
//!
//! | in the target folder | |
//! | --- | --- |
//! | `ptx/PACKAGE/sm_80.ptx` | the PTX, to be read |
//! | `machine-code/PACKAGE/sm_80/` | each kernel's machine code, and what the assembler says of its registers and spills |
//! | `nvptx/` | what cargo needs to compile only what has changed |
//!
//! | module | what it does |
//! | --- | --- |
//! | [`compiler`] | finds a Rust compiler that is right for GPU code |
//! | `source` | makes a crate of what is to be compiled |
//! | `compile` | compiles it, once for each baseline |
//! | [`ptx`] | reads the PTX that comes out, links it, and takes it apart |
//! | [`audit`], `divergence` | refuse PTX that would fail or hang on a GPU |
//! | [`assemble`] | makes machine code of it, kernel by kernel |
//! | `table` | writes what the program includes: PTX, machine code and the kernels' signatures |

pub mod assemble;
pub mod audit;
mod compile;
pub mod compiler;
mod divergence;
pub mod ptx;
mod source;
mod table;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use assemble::{Assembler, Job};
use compiler::Places;
use source::Source;
use table::Compiled;

/// One way to compile kernels: for a generation of GPUs and all later ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The oldest compute capability that runs it: 80 for 8.0.
    pub sm: u32,
    /// The version of the PTX language (major, minor).
    pub ptx: (u32, u32),
    /// The compute capabilities for which it becomes machine code, ascending.
    pub machine: Vec<u32>,
}

impl Baseline {
    /// Code for Ampere and later GPUs, which drivers from CUDA 11.4 on read.
    #[must_use]
    pub fn ampere() -> Self {
        Self { sm: 80, ptx: (7, 4), machine: vec![80, 86, 89] }
    }

    /// Code that uses what Hopper added, which drivers from CUDA 12.0 on read.
    #[must_use]
    pub fn hopper() -> Self {
        Self { sm: 90, ptx: (8, 0), machine: vec![90, 100, 120] }
    }
}

/// What is to be compiled, and for which GPUs.
#[must_use]
pub struct Builder {
    source: Source,
    baselines: Vec<Baseline>,
}

/// All of a build script that compiles one [`module`] and does nothing else: `warpkov_build::kernels!("src/kernels.rs");`.
#[macro_export]
macro_rules! kernels {
    ($file:literal) => {
        fn main() -> ::std::process::ExitCode {
            $crate::module($file).build()
        }
    };
}

/// Compiles the kernels in a module of the crate whose build script this is: `module("src/kernels.rs")`, with all modules that
/// belong to it.
pub fn module(file: impl Into<PathBuf>) -> Builder {
    Builder::new(Source::Module(file.into()))
}

/// Compiles a crate that is nothing but kernels, at `folder`, as it is: `package(".")` is the one whose build script this is.
///
/// Its `src/lib.rs` begins with `#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]`.
pub fn package(folder: impl Into<PathBuf>) -> Builder {
    Builder::new(Source::Package(folder.into()))
}

impl Builder {
    fn new(source: Source) -> Self {
        Self { source, baselines: vec![Baseline::ampere(), Baseline::hopper()] }
    }

    /// Compiles for these GPUs in place of [`Baseline::ampere`] and [`Baseline::hopper`]. A GPU runs the newest that it can.
    pub fn baselines(mut self, baselines: impl IntoIterator<Item = Baseline>) -> Self {
        self.baselines = baselines.into_iter().collect();
        self.baselines.sort_by_key(|baseline| baseline.sm);
        self
    }

    /// Compiles, and writes the table. What goes wrong becomes cargo's error message.
    #[must_use]
    pub fn build(self) -> ExitCode {
        match self.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                for line in message.lines() {
                    println!("cargo::error={line}");
                }
                ExitCode::FAILURE
            }
        }
    }

    fn run(&self) -> Result<(), String> {
        // A kernels' crate that has itself compiled runs this again, on the way to the GPU.
        if env::var("TARGET").is_ok_and(|target| target.starts_with("nvptx")) {
            return Ok(());
        }
        let Self { source, baselines } = self;
        // Only what the device code depends on: a change of host code must not compile the kernels again.
        for path in source.watched()? {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        println!("cargo::rerun-if-env-changed=WARPKOV_DEVICE_RUSTC");

        let out = PathBuf::from(variable("OUT_DIR")?);
        let named = env::var_os("WARPKOV_DEVICE_RUSTC");
        let compiler = match compiler::find(named.as_deref(), &Places::of_this_build())? {
            compiler::Search::Found(compiler) => compiler,
            compiler::Search::Missing(why) => {
                missing("WARPKOV_REQUIRE_PTX", &why)?;
                return table::write(&out, &[], Err(&why), None);
            }
        };

        let (target, name) = (target_directory(&out)?, source.name()?);
        let outputs = compile::all(&compiler, baselines, source, &out, &target)?;
        for path in outputs.iter().flat_map(|output| &output.sources) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        let expected = source.entries()?;
        let mut compiled = Vec::new();
        for (baseline, output) in baselines.iter().zip(&outputs) {
            // Before the audit, whose messages speak of its lines.
            let kept = table::keep(&target.join("ptx").join(&name), baseline, &output.text)?;
            let module = ptx::parse(&output.text)?;
            let faults = audit::faults(&output.text, &module, baseline.sm, baseline.ptx, &expected);
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
            machine_code(assembler, &mut compiled, &target.join("machine-code").join(&name))?;
        }
        table::write(&out, &compiled, Ok(&compiler.version), assembler.as_ref())
    }
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

/// Assembles every kernel for every GPU that the assembler knows, and keeps the results in `folder`.
fn machine_code(assembler: &Assembler, compiled: &mut [Compiled<'_>], folder: &Path) -> Result<(), String> {
    let all = compiled.iter().flat_map(|compiled| compiled.baseline.machine.iter().copied());
    let (known, unknown): (Vec<u32>, Vec<u32>) = all.partition(|&sm| assembler.knows(sm));
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
    let mut codes = assembler.all(&jobs, folder)?.into_iter();
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
