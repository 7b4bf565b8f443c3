//! Writes the table of device code that the program includes.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::Baseline;
use crate::assemble::Assembler;
use crate::ptx::Module;

/// The device code of one baseline.
pub struct Compiled<'a> {
    pub baseline: &'a Baseline,
    pub module: Module<'a>,
    /// For each entry of `module`: the PTX of a module that contains this kernel alone.
    pub texts: Vec<String>,
    /// For each compute capability with machine code: the machine code of each of the `texts`.
    pub machine: Vec<(u32, Vec<Vec<u8>>)>,
}

/// Writes `warpkov_modules.rs`, an expression of type `warpkov_cuda::Modules`, and a file `sm_<n>.code` for each
/// baseline.
///
/// The latter contains for each kernel its PTX and then its machine code for each GPU, each compressed by itself.
/// `compiler` is the compiler's version, or the reason why there is no device code.
pub fn write(
    out: &Path,
    baselines: &[Compiled<'_>],
    compiler: Result<&str, &str>,
    assembler: Option<&Assembler>,
) -> Result<(), String> {
    let assembler = assembler.map(|assembler| (&assembler.version, assembler.cuda));
    let mut table = format!(
        "::warpkov_cuda::Modules {{\n  compiler: {compiler:?},\n  assembler: {assembler:?},\n  baselines: &[\n"
    );
    for Compiled { baseline, module, texts, machine } in baselines {
        let (Baseline { sm, ptx, alone, .. }, name) = (baseline, baseline.name());
        let gpus: Vec<u32> = machine.iter().map(|&(sm, _)| sm).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "    ::warpkov_cuda::Baseline {{ sm: {sm}, alone: {alone}, ptx: {ptx:?}, machine: &{gpus:?},"
        );
        let _ = writeln!(table, "      data: include_bytes!(\"sm_{name}.code\"), entries: &[");
        // In parallel: cargo compiles build scripts without optimisation, so this is slow.
        let packed: Vec<Vec<Vec<u8>>> = thread::scope(|scope| {
            let texts = scope.spawn(|| compressed(texts));
            let codes: Vec<_> = machine.iter().map(|(_, codes)| scope.spawn(|| compressed(codes))).collect();
            let threads = std::iter::once(texts).chain(codes);
            let joined = threads.map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())));
            joined.collect::<Result<_, String>>()
        })?;
        let mut data = Vec::new();
        for (index, entry) in module.entries.iter().enumerate() {
            let mut at = vec![data.len()];
            for kind in &packed {
                data.extend_from_slice(&kind[index]);
                at.push(data.len());
            }
            let _ = writeln!(
                table,
                "        ::warpkov_cuda::Entry {{ name: {:?}, params: &{:?}, at: &{at:?} }},",
                entry.name, entry.params
            );
        }
        table.push_str("    ] },\n");
        save(&out.join(format!("sm_{name}.code")), &data)?;
    }
    table.push_str("  ],\n}\n");
    save(&out.join("warpkov_modules.rs"), table.as_bytes())
}

/// Saves the PTX as `sm_<n>.ptx` in `folder`, for readers and tools. Returns the path.
pub fn keep(folder: &Path, baseline: &Baseline, text: &str) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join(format!("sm_{}.ptx", baseline.name()));
    save(&path, text.as_bytes())?;
    Ok(path)
}

fn compressed<T: AsRef<[u8]>>(codes: &[T]) -> Result<Vec<Vec<u8>>, String> {
    let compress = |code: &T| {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(code.as_ref())?;
        encoder.finish()
    };
    codes.iter().map(compress).collect::<Result<_, io::Error>>().map_err(|error| error.to_string())
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
