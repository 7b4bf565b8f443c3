//! Builds a crate's GPU kernels from its build script: compiles them to PTX, audits the PTX, assembles machine code,
//! and writes a table of both for the program.
//!
//! A crate whose kernels are in `src/kernels.rs` depends on `warpkov-device`, build-depends on this crate, and has this
//! `build.rs`:
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
//! The program includes the table with `warpkov_cuda::modules!()`. `warpkov new` creates such a crate.
//!
//! [`module`] compiles the kernels only. The module becomes a crate in `OUT_DIR`, whose single dependency is
//! `warpkov-device`, in the version that cargo has resolved. Kernels may use `core`, `warpkov_device`, and each other
//! through `crate::kernels::…`. Other items of the crate's root are not available: put `use` lines for the host behind
//! `#[cfg(not(target_arch = "nvptx64"))]`. [`package`] compiles a crate that contains kernels only, from its own build
//! script or from the build script of a crate that embeds it.
//!
//! # Compiler
//!
//! A suitable compiler is rustc 1.96.0 or later with the source of its library. The build tries, in this order:
//!
//! 1. the compiler that `WARPKOV_DEVICE_RUSTC` names;
//! 2. the compiler of this build, rustup's active toolchain;
//! 3. rustup's other toolchains: first 1.96.0, the tested release, then other numbered releases, then `stable` and
//!    `beta`;
//! 4. `/usr/bin/rustc`, for example from Debian's `rustc-web` and `rust-web-src`;
//! 5. rustup's nightlies.
//!
//! The build never downloads a compiler. If none is suitable, it prints a warning and writes a table without kernels,
//! which contains the reason. With `WARPKOV_REQUIRE_PTX=1` it fails instead.
//!
//! # Audit
//!
//! The build fails if the PTX
//!
//! - calls a function that it does not contain, or a panic;
//! - contains other kernels than the sources declare;
//! - has a global variable without an initial value that two kernels use;
//! - has different barriers on the two sides of a branch that may divide the threads of a block;
//! - uses instructions of compute capability 9.0 in a baseline for older GPUs.
//!
//! # Baselines
//!
//! The kernels are compiled for [`Baseline::ampere`] and [`Baseline::hopper`], of which a GPU runs the newest that it supports. A kernel
//! with `#[kernel(sm = 90)]`, or with clusters, is in the second only; one with `#[kernel(sm = "90a")]` is in
//! [`Baseline::hopper_alone`] only, which exists if there is such a kernel.
//!
//! # Machine code
//!
//! NVIDIA's assembler `ptxas` produces machine code of each kernel. The build uses the `ptxas` that `WARPKOV_PTXAS`
//! names (`none` disables this step), otherwise one in `ptxas-venv` in the target folder, otherwise one on the `PATH`.
//! If there is none, the build prints a warning, and the driver compiles each kernel at its first launch. With
//! `WARPKOV_REQUIRE_CUBIN=1` the build fails instead.
//!
//! # Environment variables
//!
//! | variable | effect |
//! | --- | --- |
//! | `WARPKOV_DEVICE_RUSTC` | path of the device compiler |
//! | `WARPKOV_PTXAS` | path of the assembler, or `none` |
//! | `WARPKOV_GPUS` | GPUs that get machine code: compute capabilities such as `80,90`, `all`, or `none`; by default those in this machine |
//! | `WARPKOV_LINES` | 1: profilers and debuggers show the source line of each instruction; 0: they do not. By default as the profile's `debug` says |
//! | `WARPKOV_REQUIRE_PTX=1` | fail without a suitable compiler |
//! | `WARPKOV_REQUIRE_CUBIN=1` | assemble for all GPUs unless `WARPKOV_GPUS` says otherwise, and fail where that is impossible |
//!
//! # Outputs in the target folder
//!
//! | path | contents |
//! | --- | --- |
//! | `ptx/PACKAGE/sm_80.ptx` | the PTX, for readers and tools |
//! | `machine-code/PACKAGE/sm_80/` | machine code of each kernel, and the assembler's log with registers and spills |
//! | `nvptx/` | cargo's cache of the device compilation |
//!
//! # Modules
//!
//! | module | task |
//! | --- | --- |
//! | `compiler` | finds a Rust compiler for GPU code |
//! | `source` | locates or writes the crate to compile |
//! | `compile` | compiles it once for each baseline |
//! | `ptx` | parses, links and splits PTX modules |
//! | `audit`, `divergence` | reject PTX that would fail or hang on a GPU |
//! | `assemble` | assembles machine code, kernel by kernel |
//! | `table` | writes the table: PTX, machine code and signatures of the kernels |

#[doc(hidden)]
pub mod assemble;
#[doc(hidden)]
pub mod audit;
mod compile;
#[doc(hidden)]
pub mod compiler;
mod divergence;
#[doc(hidden)]
pub mod ptx;
mod source;
mod table;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use assemble::{Assembler, Job};
use compile::Output;
use compiler::Places;
use source::Source;
use table::Compiled;

/// A target of the compilation: GPUs of one compute capability and all higher ones.
///
/// ```
/// use warpkov_build::Baseline;
///
/// // GPUs from Ampere on, and machine code for no GPU but the A100.
/// let baseline = Baseline { machine: vec![80], ..Baseline::ampere() };
/// assert_eq!((baseline.sm, baseline.ptx), (80, (7, 4)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The lowest compute capability that runs the code: 80 for 8.0.
    pub sm: u32,
    /// PTX ISA version (major, minor).
    pub ptx: (u32, u32),
    /// Whether the code is for `sm` alone, with instructions that only this compute capability has: `sm_90a`.
    pub alone: bool,
    /// Compute capabilities for which machine code can be assembled, ascending.
    pub machine: Vec<u32>,
}

impl Baseline {
    /// `sm_80` with PTX 7.4: GPUs from Ampere on, drivers from CUDA 11.4 on.
    ///
    /// ```
    /// use warpkov_build::Baseline;
    ///
    /// assert_eq!(Baseline::ampere().machine, [80, 86, 89]);
    /// ```
    #[must_use]
    pub fn ampere() -> Self {
        Self { sm: 80, ptx: (7, 4), alone: false, machine: vec![80, 86, 89] }
    }

    /// `sm_90` with PTX 8.0: GPUs from Hopper on, drivers from CUDA 12.0 on.
    ///
    /// ```
    /// use warpkov_build::Baseline;
    ///
    /// assert_eq!(Baseline::hopper().machine, [90, 100, 120]);
    /// ```
    #[must_use]
    pub fn hopper() -> Self {
        Self { sm: 90, ptx: (8, 0), alone: false, machine: vec![90, 100, 120] }
    }

    /// `sm_90a` with PTX 8.0: Hopper GPUs alone. It has only the kernels with `#[kernel(sm = "90a")]`, and the build adds it to those
    /// with [`hopper`](Self::hopper) if there are any.
    ///
    /// ```
    /// use warpkov_build::Baseline;
    ///
    /// assert_eq!(Baseline::hopper_alone().machine, [90]);
    /// ```
    #[must_use]
    pub fn hopper_alone() -> Self {
        Self { sm: 90, ptx: (8, 0), alone: true, machine: vec![90] }
    }

    /// The name of the target after `sm_`: "90" or "90a".
    ///
    /// ```
    /// use warpkov_build::Baseline;
    ///
    /// assert_eq!(Baseline::hopper_alone().name(), "90a");
    /// ```
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", self.sm, if self.alone { "a" } else { "" })
    }
}

/// The kernels to compile and their baselines.
///
/// ```no_run
/// use std::process::ExitCode;
/// use warpkov_build::{Baseline, Builder};
///
/// fn main() -> ExitCode {
///     let builder: Builder = warpkov_build::module("src/kernels.rs");
///     builder.baselines([Baseline::hopper()]).build()
/// }
/// ```
#[must_use]
pub struct Builder {
    source: Source,
    baselines: Vec<Baseline>,
}

/// A complete build script that compiles one [`module`]: `warpkov_build::kernels!("src/kernels.rs");`.
///
/// ```no_run
/// warpkov_build::kernels!("src/kernels.rs");
/// ```
#[macro_export]
macro_rules! kernels {
    ($file:literal) => {
        fn main() -> ::std::process::ExitCode {
            $crate::module($file).build()
        }
    };
}

/// Compiles the kernels in a module of the calling build script's crate, with its submodules:
/// `module("src/kernels.rs")`.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     warpkov_build::module("src/kernels.rs").build()
/// }
/// ```
pub fn module(file: impl Into<PathBuf>) -> Builder {
    Builder::new(Source::Module(file.into()))
}

/// Compiles the crate in `folder`, which contains kernels only. `package(".")` is the calling build script's own crate.
///
/// Its `src/lib.rs` must begin with
///
/// ```text
/// #![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]
/// ```
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     warpkov_build::package("../kernels").build()
/// }
/// ```
pub fn package(folder: impl Into<PathBuf>) -> Builder {
    Builder::new(Source::Package(folder.into()))
}

impl Builder {
    fn new(source: Source) -> Self {
        Self { source, baselines: vec![Baseline::ampere(), Baseline::hopper()] }
    }

    /// Replaces the default baselines, [`Baseline::ampere`] and [`Baseline::hopper`]. A GPU runs the newest one that it
    /// supports.
    ///
    /// ```no_run
    /// use warpkov_build::Baseline;
    ///
    /// fn main() -> std::process::ExitCode {
    ///     warpkov_build::module("src/kernels.rs").baselines([Baseline::hopper()]).build()
    /// }
    /// ```
    pub fn baselines(mut self, baselines: impl IntoIterator<Item = Baseline>) -> Self {
        self.baselines = baselines.into_iter().collect();
        self.baselines.sort_by_key(|baseline| baseline.sm);
        self
    }

    /// Compiles the kernels and writes the table. An error becomes an error message of cargo.
    ///
    /// ```no_run
    /// fn main() -> std::process::ExitCode {
    ///     warpkov_build::package(".").build()
    /// }
    /// ```
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
        // The device compilation of `package(".")` runs this build script again: nothing remains to be done.
        if env::var("TARGET").is_ok_and(|target| target.starts_with("nvptx")) {
            return Ok(());
        }
        let Self { source, baselines } = self;
        let out = PathBuf::from(variable("OUT_DIR")?);
        if env::var_os("DOCS_RS").is_some() {
            // No registry is reached there, and documentation needs no kernels.
            return table::write(&out, &[], Err("the documentation is built without GPU code"), None);
        }
        let expected = &source.entries()?;
        let mut baselines = baselines.clone();
        if !expected.hopper_alone.is_empty() && baselines.contains(&Baseline::hopper()) {
            baselines.push(Baseline::hopper_alone());
        }
        let baselines = &baselines;
        // The device code's inputs only: a change of host code must not recompile the kernels.
        for path in source.watched()? {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        println!("cargo::rerun-if-env-changed=WARPKOV_DEVICE_RUSTC");
        println!("cargo::rerun-if-env-changed=WARPKOV_LINES");

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
        let folder = &target.join("ptx").join(&name);
        let mut compiled: Vec<_> = thread::scope(|scope| {
            let both = baselines.iter().zip(&outputs);
            let running: Vec<_> = both
                .map(|(baseline, output)| scope.spawn(move || audited(baseline, output, expected, folder)))
                .collect();
            let joined =
                running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())));
            joined.collect::<Result<_, String>>()
        })?;
        let gpus = assemble::gpus(baselines)?;
        let assembler = match assemble::find(&target)? {
            _ if gpus.is_empty() => None,
            assemble::Search::Found(assembler) => Some(assembler),
            assemble::Search::Missing(why) => {
                missing("WARPKOV_REQUIRE_CUBIN", &why)?;
                None
            }
        };
        if let Some(assembler) = &assembler {
            machine_code(assembler, &gpus, &mut compiled, &target.join("machine-code").join(&name))?;
        }
        table::write(&out, &compiled, Ok(&compiler.version), assembler.as_ref())
    }
}

/// The kernels of one baseline, saved in `folder` and audited.
fn audited<'a>(
    baseline: &'a Baseline,
    output: &'a Output,
    expected: &audit::Expected,
    folder: &Path,
) -> Result<Compiled<'a>, String> {
    // Saved before the audit, because the audit's messages refer to lines of this file.
    let kept = table::keep(folder, baseline, &output.text)?;
    let module = ptx::parse(&output.text)?;
    let faults = audit::faults(&output.text, &module, baseline, expected);
    if !faults.is_empty() {
        return Err(format!("{} fails the audit:\n{}", kept.display(), faults.join("\n")));
    }
    let texts = module.entries.iter().map(|entry| module.alone(entry)).collect();
    Ok(Compiled { baseline, module, texts, machine: Vec::new() })
}

/// Warns that something is missing, or fails if the variable `requires` is 1.
fn missing(requires: &str, why: &str) -> Result<(), String> {
    // Printed only here: if nothing is missing, the variable has no effect and must not cause a rebuild.
    println!("cargo::rerun-if-env-changed={requires}");
    if env::var(requires).is_ok_and(|value| value == "1") {
        return Err(format!("{why} ({requires}=1 makes this an error)"));
    }
    println!("cargo::warning={why}");
    Ok(())
}

/// Assembles every kernel for each of the `gpus` that the assembler supports, and saves the machine code in `folder`.
fn machine_code(
    assembler: &Assembler,
    gpus: &[u32],
    compiled: &mut [Compiled<'_>],
    folder: &Path,
) -> Result<(), String> {
    let (known, unknown): (Vec<u32>, Vec<u32>) = gpus.iter().partition(|&&sm| assembler.knows(sm));
    if !unknown.is_empty() {
        let why = format!("ptxas {} cannot assemble for compute capabilities {unknown:?}", assembler.version);
        missing("WARPKOV_REQUIRE_CUBIN", &why)?;
    }
    let mut jobs = Vec::new();
    for Compiled { baseline, module, texts, .. } in compiled.iter() {
        for &sm in baseline.machine.iter().filter(|sm| known.contains(sm)) {
            let target = if baseline.alone { baseline.name() } else { sm.to_string() };
            jobs.extend(module.entries.iter().zip(texts).map(|(entry, text)| Job {
                target: target.clone(),
                name: entry.name,
                text,
            }));
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

/// Cargo's target folder: `OUT_DIR` without `[<triple>/]<profile>/build/<package>/out`.
fn target_directory(out: &Path) -> Result<PathBuf, String> {
    let folder = out.ancestors().nth(4).ok_or_else(|| format!("{} is not inside a target folder", out.display()))?;
    let is_triple = folder.file_name().is_some_and(|name| env::var_os("TARGET").is_some_and(|triple| name == triple));
    Ok(if is_triple { folder.parent().unwrap_or(folder) } else { folder }.to_path_buf())
}
