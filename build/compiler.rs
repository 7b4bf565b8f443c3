//! Finding a compiler for the device code.
//!
//! Any rustc from [`OLDEST`] with the source of `core` beside it will do. From that release on, rustc marks every GPU
//! function as convergent; an older one may double a barrier into the two sides of a branch.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest release that compiles kernels safely.
const OLDEST: (u32, u32) = (1, 96);

/// The release that kernels/rust-toolchain.toml pins, for which rustup has a toolchain of this name.
const PINNED: &str = "1.96.0";

/// How to get one, in one line.
pub const HOW_TO_GET: &str = "run `make setup`, or `apt-get install rustc-web rust-web-src`, or \
                              `rustup toolchain install 1.96.0 --component rust-src`";

/// A compiler that has been checked.
pub struct Compiler {
    pub rustc: PathBuf,
    /// The cargo that goes with it.
    pub cargo: OsString,
    /// `rustc --version`.
    pub version: String,
    /// Newer than what has been tested.
    pub untested: bool,
}

/// The first usable compiler: that of `WARPKOV_DEVICE_RUSTC`, rustup's, or the distribution's.
///
/// # Errors
/// What was found, and why it is not used.
pub fn find() -> Result<Compiler, String> {
    if let Some(path) = env::var_os("WARPKOV_DEVICE_RUSTC") {
        return check(PathBuf::from(path), host_cargo()).map_err(|why| format!("WARPKOV_DEVICE_RUSTC: {why}"));
    }
    let mut refused = Vec::new();
    if let Some(folder) = rustup_toolchain() {
        match check(folder.join("bin/rustc"), folder.join("bin/cargo").into()) {
            Ok(compiler) => return Ok(compiler),
            Err(why) => refused.push(why),
        }
    }
    let distribution = Path::new("/usr/bin/rustc");
    if distribution.exists() {
        match check(distribution.to_owned(), host_cargo()) {
            Ok(compiler) => return Ok(compiler),
            Err(why) => refused.push(why),
        }
    }
    Err(if refused.is_empty() { "no device compiler was found".to_owned() } else { refused.join("; ") })
}

/// The cargo that runs this build: the real one, not rustup's proxy, which would look for the pinned toolchain.
fn host_cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The folder of rustup's pinned toolchain, if it is there. Asking rustup to run it would download it.
fn rustup_toolchain() -> Option<PathBuf> {
    let home = env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup")))?;
    let toolchains = std::fs::read_dir(home.join("toolchains")).ok()?;
    toolchains
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().starts_with(PINNED))
        .map(|entry| entry.path())
}

fn check(rustc: PathBuf, cargo: OsString) -> Result<Compiler, String> {
    let ask = |argument: &[&str]| {
        let output = Command::new(&rustc).args(argument).env_remove("RUSTUP_TOOLCHAIN").output();
        let output = output.map_err(|error| format!("{} cannot be run: {error}", rustc.display()))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let version = ask(&["--version"])?;
    let release = release(&version).ok_or_else(|| format!("{} says {version:?}", rustc.display()))?;
    if release < OLDEST {
        return Err(format!(
            "{} is {version}; the device code needs {}.{} or newer",
            rustc.display(),
            OLDEST.0,
            OLDEST.1
        ));
    }
    let core = Path::new(&ask(&["--print", "sysroot"])?).join("lib/rustlib/src/rust/library/core");
    if !core.exists() {
        return Err(format!("{} has no source of its library ({} is missing)", rustc.display(), core.display()));
    }
    Ok(Compiler { rustc, cargo, version, untested: release > OLDEST })
}

/// (1, 96) of `rustc 1.96.0 (ac68faa20 2026-05-25)`.
pub fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("rustc ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
