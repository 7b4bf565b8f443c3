//! Finds a Rust compiler for GPU code.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first release that marks every GPU function as convergent. With an older release, LLVM may duplicate a barrier
/// into the two sides of a branch, and the threads of a block then wait at different barriers.
pub const OLDEST: (u32, u32) = (1, 96);

/// A compiler for device code.
pub struct Compiler {
    /// Path of its executable.
    pub rustc: PathBuf,
    /// Path of the cargo that runs it.
    pub cargo: PathBuf,
    /// Name and version: `rustc 1.96.0 (…)`.
    pub version: String,
}

/// The result of the search for a compiler.
pub enum Search {
    /// A suitable compiler.
    Found(Compiler),
    /// There is none: the reasons, and advice.
    Missing(String),
}

/// The places to search.
pub struct Places {
    /// The compiler and the cargo of this build: rustup's active toolchain, or the one on the `PATH`.
    pub active: (PathBuf, PathBuf),
    /// Rustup's folder of toolchains.
    pub toolchains: Option<PathBuf>,
    /// The distribution's compiler.
    pub system: PathBuf,
}

impl Places {
    /// The places of the machine that runs this build script.
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

    /// The compilers to check, in order, each with its cargo. Checking them never makes rustup download a toolchain.
    fn candidates(&self) -> Vec<(PathBuf, PathBuf)> {
        // The tested release first, numbered releases before named channels, nightlies last.
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

    /// Makes cargo rerun the build script after a compiler may have been installed.
    fn watch(&self) {
        let hashes = self.toolchains.as_deref().and_then(|folder| Some(folder.parent()?.join("update-hashes")));
        let installed = self.system.parent().map(Path::to_path_buf);
        for folder in [installed, hashes].into_iter().flatten().filter(|folder| folder.exists()) {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }
}

/// Finds a compiler: `named`, the value of `WARPKOV_DEVICE_RUSTC`, otherwise the first suitable one in `places`.
///
/// # Errors
/// The compiler `named` is not suitable.
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
        "no Rust compiler for GPU code, so this build contains none ({}): with rustc 1.96 or newer, run `rustup component add \
         rust-src`; otherwise `rustup toolchain install 1.96.0 -c rust-src`, or on Debian `apt-get install rustc-web \
         rust-web-src`",
        refused.join("; ")
    )))
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Checks that `rustc` is recent enough, and that the source of `core` is installed, which must be compiled for the
/// GPU.
fn check(rustc: &Path, cargo: &Path) -> Result<Compiler, String> {
    let version = output(rustc, &["--version"])?;
    let number = parse_version(&version).ok_or_else(|| format!("{} is not rustc: {version:?}", rustc.display()))?;
    // `rustc` may be rustup's proxy, whose choice depends on the working directory.
    let sysroot = PathBuf::from(output(rustc, &["--print", "sysroot"])?);
    let own = sysroot.join("bin/rustc");
    let rustc = if own.exists() { own } else { rustc.to_path_buf() };
    if number < OLDEST {
        return Err(format!(
            "{} is {version}, and rustc before 1.96 may move a barrier into divergent code",
            rustc.display()
        ));
    }
    if !sysroot.join("lib/rustlib/src/rust/library/core").exists() {
        return Err(format!("{} is {version}, but the library's source (rust-src) is not installed", rustc.display()));
    }
    let cargo = if cargo.exists() { cargo } else { Path::new("cargo") };
    Ok(Compiler { rustc, cargo: cargo.to_path_buf(), version })
}

/// The release (major, minor) in the output of `rustc --version`.
pub fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("rustc ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn output(program: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{} {} failed: {}", program.display(), args.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
