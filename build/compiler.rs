//! Finds a Rust compiler that is right for GPU code.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first release that marks every GPU function convergent. With an older one LLVM may duplicate a barrier into the two
/// sides of a branch, and the threads of a block then wait at different ones.
pub const OLDEST: (u32, u32) = (1, 96);

/// A compiler of device code.
pub struct Compiler {
    /// Its executable.
    pub rustc: PathBuf,
    /// The cargo that runs it.
    pub cargo: PathBuf,
    /// What it says it is: `rustc 1.96.0 (…)`.
    pub version: String,
    /// What the user should know about it.
    pub note: Option<String>,
}

/// What the search for a compiler gave.
pub enum Search {
    /// One that serves.
    Found(Compiler),
    /// None, and what to do about it.
    Missing(String),
}

/// Looks for a compiler: the one that `WARPKOV_DEVICE_RUSTC` names, else rustup's, else the distribution's.
///
/// `cargo` is the cargo of this build. It serves with any compiler, but rustup's 1.96.0 brings its own.
pub fn find(cargo: &Path) -> Result<Search, String> {
    if let Some(rustc) = env::var_os("WARPKOV_DEVICE_RUSTC").filter(|value| !value.is_empty()) {
        let rustc = PathBuf::from(rustc);
        return match check(&rustc, cargo) {
            Ok(compiler) => Ok(Search::Found(compiler)),
            Err(why) => Err(format!("WARPKOV_DEVICE_RUSTC: {why}")),
        };
    }
    let mut refused = Vec::new();
    for (rustc, cargo) in candidates(cargo) {
        match check(&rustc, &cargo) {
            Ok(compiler) => return Ok(Search::Found(compiler)),
            Err(why) => refused.push(why),
        }
    }
    watch_for_installs();
    let found = if refused.is_empty() { String::new() } else { format!(" ({})", refused.join("; ")) };
    Ok(Search::Missing(format!(
        "no compiler for the GPU code, so this build runs on the CPU only{found}: run `make setup`, or `apt-get install \
         rustc-web rust-web-src`, or `rustup toolchain install 1.96.0 -c rust-src`"
    )))
}

/// The compilers that are worth a look, each with the cargo to run it. Nothing here makes rustup download anything.
fn candidates(cargo: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut list = Vec::new();
    if let Ok(entries) = toolchains_folder().map_or_else(|| Ok(Vec::new()), |folder| folders(&folder)) {
        for toolchain in entries {
            let name = toolchain.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name == "1.96.0" || name.starts_with("1.96.0-") {
                list.push((toolchain.join("bin/rustc"), toolchain.join("bin/cargo")));
            }
        }
    }
    list.push((PathBuf::from("/usr/bin/rustc"), cargo.to_path_buf()));
    list.retain(|(rustc, _)| rustc.exists());
    list
}

fn toolchains_folder() -> Option<PathBuf> {
    let rustup = env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".rustup")))?;
    Some(rustup.join("toolchains"))
}

fn folders(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut list: Vec<_> = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    list.sort();
    Ok(list)
}

/// Whether `rustc` serves: its age, and whether the source of `core` is there to be compiled for the GPU.
fn check(rustc: &Path, cargo: &Path) -> Result<Compiler, String> {
    let version = output(rustc, &["--version"])?;
    let number = parse_version(&version).ok_or_else(|| format!("{} calls itself {version:?}", rustc.display()))?;
    if number < OLDEST {
        return Err(format!(
            "{} is {version}, and before 1.96 rustc may move a barrier into divergent code",
            rustc.display()
        ));
    }
    let sysroot = output(rustc, &["--print", "sysroot"])?;
    if !Path::new(&sysroot).join("lib/rustlib/src/rust/library/core").exists() {
        return Err(format!("{} is {version}, but the library's source (rust-src) is not installed", rustc.display()));
    }
    let note = (number > OLDEST)
        .then(|| format!("the GPU code is compiled with {version}; 1.96.0 is the version it is tested with"));
    let cargo = if cargo.exists() { cargo } else { Path::new("cargo") };
    Ok(Compiler { rustc: rustc.to_path_buf(), cargo: cargo.to_path_buf(), version, note })
}

/// The release in what `rustc --version` prints.
pub fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("rustc ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn output(program: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        // Were `program` rustup's proxy, this would name the wrong toolchain.
        .env_remove("RUSTUP_TOOLCHAIN")
        .output()
        .map_err(|error| format!("{} does not run: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{} {} failed: {}", program.display(), args.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Has cargo run this script again once a compiler may have been installed.
fn watch_for_installs() {
    let rustup = toolchains_folder().and_then(|folder| Some(folder.parent()?.join("update-hashes")));
    for folder in [Some(PathBuf::from("/usr/bin")), rustup].into_iter().flatten().filter(|folder| folder.exists()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
}
