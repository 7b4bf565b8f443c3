//! Writes the PTX and the kernels' signatures where the host crate finds them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::compile::Baseline;
use crate::ptx::Module;

/// Writes `ptx_table.rs` and the PTX beside it. `compiler` is what made them, or why nothing did.
pub fn write(
    out: &Path,
    modules: &[(&Baseline, &str, Module<'_>)],
    compiler: Result<&str, &str>,
) -> Result<(), String> {
    let mut table = String::from("static BASELINES: &[Baseline] = &[\n");
    for (Baseline { sm, ptx }, text, module) in modules {
        save(&out.join(format!("sm_{sm}.ptx")), text)?;
        // Writing to a string cannot fail.
        let _ =
            writeln!(table, "    Baseline {{ sm: {sm}, ptx: {ptx:?}, text: include_str!(\"sm_{sm}.ptx\"), entries: &[");
        for entry in &module.entries {
            let _ = writeln!(table, "        Entry {{ name: {:?}, params: &{:?} }},", entry.name, entry.params);
        }
        table.push_str("    ] },\n");
    }
    let _ = writeln!(
        table,
        "];\n/// Why this binary holds no device code.\npub static NO_PTX: Option<&str> = {:?};\n\
         /// The compiler of the device code.\npub static DEVICE_COMPILER: Option<&str> = {:?};",
        compiler.err(),
        compiler.ok()
    );
    save(&out.join("ptx_table.rs"), &table)
}

/// Keeps a copy of the PTX where people and tools find it: `target/ptx/sm_80.ptx`.
pub fn keep(target: &Path, baseline: &Baseline, text: &str) -> Result<PathBuf, String> {
    let folder = target.join("ptx");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join(format!("sm_{}.ptx", baseline.sm));
    save(&path, text)?;
    Ok(path)
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
