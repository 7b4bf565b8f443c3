//! Finds a Rust compiler that is right for GPU code.

use std::env;
use std::ffi::OsStr;
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
    /// Its name and version: `rustc 1.96.0 (…)`.
    pub version: String,
}

/// What the search for a compiler gave.
pub enum Search {
    /// One that serves.
    Found(Compiler),
    /// None, and what to do about it.
    Missing(String),
}

/// Where to look.
pub struct Places {
    /// The compiler and the cargo of this build: rustup's active toolchain, or the one on the `PATH`.
    pub active: (PathBuf, PathBuf),
    /// Rustup's folder of toolchains.
    pub toolchains: Option<PathBuf>,
    /// The distribution's compiler.
    pub system: PathBuf,
}

impl Places {
    /// Those of this build script.
    pub fn of_this_build() -> Self {
        let or = |name, default: &str| env::var_os(name).map_or_else(|| default.into(), PathBuf::from);
        let rustup = env::var_os("RUSTUP_HOME")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".rustup")));
        Self {
            active: (or("RUSTC", "rustc"), or("CARGO", "cargo")),
            toolchains: rustup.map(|rustup| rustup.join("toolchains")),
            system: PathBuf::from("/usr/bin/rustc"),
        }
    }

    /// The compilers that are worth a look, each with the cargo to run it. Nothing here makes rustup download anything.
    fn candidates(&self) -> Vec<(PathBuf, PathBuf)> {
        // The release that this is tested with first, numbers before names, nightlies last.
        let rank = |toolchain: &PathBuf| {
            let name = toolchain.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let number = name.starts_with(|c: char| c.is_ascii_digit());
            (name.starts_with("nightly"), name != "1.96.0" && !name.starts_with("1.96.0-"), !number, name)
        };
        let mut toolchains: Vec<_> = self.toolchains.iter().flat_map(|folder| folders(folder)).collect();
        toolchains.sort_by_key(rank);
        let nightlies = toolchains.partition_point(|toolchain| !rank(toolchain).0);
        let executables = |toolchain: &PathBuf| (toolchain.join("bin/rustc"), toolchain.join("bin/cargo"));
        let mut list: Vec<_> = toolchains.iter().map(executables).collect();
        list.insert(nightlies, (self.system.clone(), self.active.1.clone()));
        list.retain(|(rustc, _)| rustc.exists());
        list.insert(0, self.active.clone());
        list
    }

    /// Has cargo run the build script again once a compiler may have been installed.
    fn watch(&self) {
        let hashes = self.toolchains.as_deref().and_then(|folder| Some(folder.parent()?.join("update-hashes")));
        let installed = self.system.parent().map(Path::to_path_buf);
        for folder in [installed, hashes].into_iter().flatten().filter(|folder| folder.exists()) {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }
}

/// Looks for a compiler: the one that `WARPKOV_DEVICE_RUSTC` names, else the first in `places` that serves.
///
/// # Errors
/// `WARPKOV_DEVICE_RUSTC` names one that does not serve.
pub fn find(named: Option<&OsStr>, places: &Places) -> Result<Search, String> {
    if let Some(rustc) = named.filter(|value| !value.is_empty()) {
        let found = check(Path::new(rustc), &places.active.1);
        return found.map(Search::Found).map_err(|why| format!("WARPKOV_DEVICE_RUSTC: {why}"));
    }
    let mut refused = Vec::new();
    for (rustc, cargo) in places.candidates() {
        match check(&rustc, &cargo) {
            Ok(compiler) => return Ok(Search::Found(compiler)),
            Err(why) if refused.contains(&why) => {}
            Err(why) => refused.push(why),
        }
    }
    places.watch();
    Ok(Search::Missing(format!(
        "no compiler for the GPU code, so this build has none ({}): with rustc 1.96 or newer, run `rustup component add \
         rust-src`; else `rustup toolchain install 1.96.0 -c rust-src`, or on Debian `apt-get install rustc-web rust-web-src`",
        refused.join("; ")
    )))
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Whether `rustc` serves: its age, and whether the source of `core` is there to be compiled for the GPU.
fn check(rustc: &Path, cargo: &Path) -> Result<Compiler, String> {
    let version = output(rustc, &["--version"])?;
    let number = parse_version(&version).ok_or_else(|| format!("{} calls itself {version:?}", rustc.display()))?;
    // The name of a proxy, as on the PATH, says nothing.
    let sysroot = PathBuf::from(output(rustc, &["--print", "sysroot"])?);
    let own = sysroot.join("bin/rustc");
    let rustc = if own.exists() { own } else { rustc.to_path_buf() };
    if number < OLDEST {
        return Err(format!(
            "{} is {version}, and before 1.96 rustc may move a barrier into divergent code",
            rustc.display()
        ));
    }
    if !sysroot.join("lib/rustlib/src/rust/library/core").exists() {
        return Err(format!("{} is {version}, but the library's source (rust-src) is not installed", rustc.display()));
    }
    let cargo = if cargo.exists() { cargo } else { Path::new("cargo") };
    Ok(Compiler { rustc, cargo: cargo.to_path_buf(), version })
}

/// The release in what `rustc --version` prints.
pub fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("rustc ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn output(program: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .map_err(|error| format!("{} does not run: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{} {} failed: {}", program.display(), args.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
