//! Compiles kernels/ to PTX and embeds it, with a table of its kernels, in the host crate.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "build/audit.rs"]
mod audit;
#[path = "build/compile.rs"]
mod compile;
#[path = "build/compiler.rs"]
mod compiler;
#[path = "build/expected.rs"]
mod expected;
#[path = "build/ptx.rs"]
mod ptx;

use compile::Target;

/// One that runs on every GPU since Ampere, and one that may use what Hopper has.
const BASELINES: [Target; 2] = [Target { sm: 80, ptx: (7, 4) }, Target { sm: 90, ptx: (8, 0) }];

fn main() -> Result<(), String> {
    for path in ["kernels/src", "kernels/Cargo.toml", "kernels/macros", "build", "build.rs", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={path}");
    }
    for name in ["WARPKOV_DEVICE_RUSTC", "WARPKOV_REQUIRE_PTX", "RUSTUP_HOME"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let table = match compiler::find() {
        Ok(compiler) => {
            if compiler.untested {
                println!("cargo:warning=the device compiler is newer than the tested one: {}", compiler.version);
            }
            table_of(&compiler)?
        }
        Err(why) if env::var_os("WARPKOV_REQUIRE_PTX").is_some_and(|value| value == "1") => {
            return Err(format!("no device code: {why}; {}", compiler::HOW_TO_GET));
        }
        Err(why) => {
            println!("cargo:warning=building for the CPU only, without device code: {why}; {}", compiler::HOW_TO_GET);
            empty_table(&why)
        }
    };
    write(&folder("OUT_DIR")?.join("ptx_table.rs"), &table)
}

/// Compiles and audits every baseline; the Rust source of the table that the host includes.
fn table_of(compiler: &compiler::Compiler) -> Result<String, String> {
    let (root, out) = (folder("CARGO_MANIFEST_DIR")?, folder("OUT_DIR")?);
    let expected = expected::entries(&root.join("kernels/src"))?;
    // target/<profile>/build/<package>/out: the device code does not depend on the host's profile.
    let target_folder = out.ancestors().nth(4).ok_or("OUT_DIR is not where cargo puts it")?;
    let mut baselines = String::new();
    for target in &BASELINES {
        let name = format!("sm_{}", target.sm);
        let text = compile::compile(compiler, target, &root, &target_folder.join("nvptx").join(&name))?;
        let mut entries = ptx::entries(&text)?;
        let faults = audit::audit(&text, &entries, target, &expected);
        if !faults.is_empty() {
            return Err(format!("the PTX for {name} is not as it should be:\n{}", faults.join("\n")));
        }
        let file = out.join(format!("{name}.ptx"));
        write(&file, &text)?;
        // A copy in a place with a name, for people and for ptxas.
        fs::create_dir_all(target_folder.join("ptx")).map_err(|error| format!("target/ptx: {error}"))?;
        write(&target_folder.join("ptx").join(format!("{name}.ptx")), &text)?;
        entries.sort_by_key(|entry| entry.name);
        let entries = entries.iter().fold(String::new(), |mut list, entry| {
            let _ = writeln!(list, "        Entry {{ name: {:?}, params: &{:?} }},", entry.name, entry.params);
            list
        });
        let _ = writeln!(
            baselines,
            "    Baseline {{ sm: {}, ptx: {:?}, text: include_str!({file:?}), entries: &[\n{entries}    ] }},",
            target.sm, target.ptx
        );
    }
    Ok(source(&baselines, None, Some(&compiler.version)))
}

fn empty_table(why: &str) -> String {
    source("", Some(why), None)
}

fn source(baselines: &str, why: Option<&str>, compiler: Option<&str>) -> String {
    format!(
        "static BASELINES: &[Baseline] = &[\n{baselines}];\n\
         /// Why this binary holds no device code.\n\
         pub static NO_PTX: Option<&str> = {why:?};\n\
         /// The compiler of the device code.\n\
         pub static DEVICE_COMPILER: Option<&str> = {compiler:?};\n"
    )
}

fn folder(variable: &str) -> Result<PathBuf, String> {
    env::var_os(variable).map(PathBuf::from).ok_or_else(|| format!("{variable} is not set: is this not cargo?"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
