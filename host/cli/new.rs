//! `warpkov new`.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::error::{Error, Outcome};

/// Creates a crate with its own GPU kernels.
///
/// The crate, a copy of examples/own-kernel, holds kernels and `main`. `cargo run` runs the kernels on the GPU, or under the emulator if
/// there is no GPU; `cargo test` tests them under the emulator.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Name of the crate and of its new folder in the current folder.
    name: String,
    /// Depend on the crates in this folder of warpkov's sources [default: on the crates in the registry].
    #[arg(long, value_name = "FOLDER", conflicts_with = "version")]
    path: Option<PathBuf>,
    /// Depend on this version of the crates in the registry.
    #[arg(long, value_name = "VERSION", default_value = env!("CARGO_PKG_VERSION"))]
    version: String,
}

const EXAMPLES: &str = "\
Examples:
  warpkov new mine --path ~/warpkov
  cd mine && cargo test && cargo run";

/// The files of the crate, from the example.
const FILES: [(&str, &str); 7] = [
    (".cargo/config.toml", include_str!("../../examples/own-kernel/.cargo/config.toml")),
    (".cargo/lib64/libcuda.a", include_str!("../../examples/own-kernel/.cargo/lib64/libcuda.a")),
    (".gitignore", include_str!("../../examples/own-kernel/.gitignore")),
    ("Cargo.toml", include_str!("../../examples/own-kernel/Cargo.toml")),
    ("build.rs", include_str!("../../examples/own-kernel/build.rs")),
    ("src/kernels.rs", include_str!("../../examples/own-kernel/src/kernels.rs")),
    ("src/main.rs", include_str!("../../examples/own-kernel/src/main.rs")),
];

/// Name of the example in its manifest.
const NAME: &str = "own-kernel";

/// Start of the dependencies' paths in the manifest of the example.
const TOOLCHAIN: &str = "path = \"../../toolchain";

/// A new crate.
pub struct Crate {
    name: String,
    dependencies: Dependencies,
}

/// Source of the crates that the new crate depends on.
enum Dependencies {
    /// The folder `toolchain` of warpkov's sources.
    Path(PathBuf),
    Version(String),
}

impl TryFrom<Arguments> for Crate {
    type Error = Error;

    fn try_from(Arguments { name, path, version }: Arguments) -> Result<Self, Error> {
        check_name(&name).map_err(|why| Error::Usage(format!("{name:?} {why}")))?;
        let dependencies = match path {
            Some(path) => {
                let toolchain = path.join("toolchain");
                if !toolchain.join("device/Cargo.toml").is_file() {
                    let why = format!(
                        "--path {}: expected warpkov's sources, and found no toolchain/device in it",
                        path.display()
                    );
                    return Err(Error::Usage(why));
                }
                // The new crate may be moved: the path must be absolute.
                let toolchain = toolchain.canonicalize().map_err(|error| Error::Usage(format!("--path: {error}")))?;
                let plain = toolchain.to_str().is_some_and(|path| !path.contains(char::is_control));
                if !plain {
                    let why = format!("--path {}: cargo reads no such path from a manifest", path.display());
                    return Err(Error::Usage(why));
                }
                Dependencies::Path(toolchain)
            }
            None => {
                check_version(&version).map_err(|why| Error::Usage(format!("--version {version:?}: {why}")))?;
                Dependencies::Version(version)
            }
        };
        Ok(Self { name, dependencies })
    }
}

/// Checks that cargo and rustc accept the name, and that no dependency has it.
fn check_name(name: &str) -> Result<(), &'static str> {
    let (mut characters, first) = (name.chars(), name.chars().next());
    if !first.is_some_and(|first| first.is_ascii_alphabetic()) {
        return Err("is no name for a crate: expected a letter at its beginning");
    }
    if !characters.all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') || name.len() > 64 {
        return Err("is no name for a crate: expected at most 64 letters, digits, - and _");
    }
    let symbol = name.replace('-', "_").to_ascii_lowercase();
    if RESERVED.contains(&symbol.as_str()) || symbol.starts_with("warpkov_") {
        return Err("is no name for a crate: it is a word of Rust, or the name of another crate");
    }
    Ok(())
}

/// Keywords of Rust, and names of existing crates.
#[rustfmt::skip]
const RESERVED: [&str; 62] = [
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "build", "const", "continue", "core", "crate", "deps",
    "do", "dyn", "else", "enum", "examples", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "incremental",
    "let", "loop", "macro", "main", "match", "mod", "move", "mut", "override", "priv", "proc_macro", "pub", "ref", "return", "self",
    "static", "std", "struct", "super", "test", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "warpkov", "where", "while", "yield",
];

/// Checks that this is a version of cargo: `0.1`, `1.2.3-beta`.
fn check_version(version: &str) -> Result<(), &'static str> {
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let good = (1..=3).contains(&numbers.split('.').count())
        && numbers.split('.').all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte));
    if good { Ok(()) } else { Err("expected a version, as 0.1.0") }
}

impl Crate {
    /// The manifest of the example, with the name and the dependencies of the crate.
    fn manifest(&self, example: &str) -> String {
        let named = example.replacen(&format!("\"{NAME}\""), &format!("\"{}\"", self.name), 1);
        match &self.dependencies {
            Dependencies::Path(toolchain) => {
                let toolchain = toolchain.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
                named.replace(TOOLCHAIN, &format!("path = \"{toolchain}"))
            }
            Dependencies::Version(version) => {
                let line = |line: &str| match line.split_once(&format!("{{ {TOOLCHAIN}")) {
                    Some((dependency, _)) => format!("{dependency}\"{version}\"\n"),
                    None => format!("{line}\n"),
                };
                named.lines().map(line).collect()
            }
        }
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        for (file, text) in FILES {
            let path = folder.join(file);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let text = if file == "Cargo.toml" { self.manifest(text) } else { text.to_owned() };
            fs::write(path, text)?;
        }
        Ok(())
    }
}

/// Creates the folder and writes the crate, whole or not at all.
pub fn run(new: &Crate, mut out: impl Write) -> Result<Outcome, Error> {
    let folder = Path::new(&new.name);
    let failed = |error| Error::from(warpkov::common::io::Error::write(folder)(error));
    fs::create_dir(folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Error::Usage(format!("{} is there already: choose another name, or remove it", new.name))
        }
        _ => failed(error),
    })?;
    if let Err(error) = new.write(folder) {
        // `create_dir` has made the folder, so it holds no file of the user's.
        let _ = fs::remove_dir_all(folder);
        return Err(failed(error));
    }
    writeln!(out, "{}: kernels in src/kernels.rs, and what launches them in src/main.rs", new.name)?;
    writeln!(out, "Next: cd {} && cargo run", new.name)?;
    Ok(Outcome::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order() {
        assert!(RESERVED.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn the_manifest_differs_from_the_example_in_name_and_dependencies() {
        let example = FILES.iter().find(|(file, _)| *file == "Cargo.toml").unwrap().1;
        let dependencies = Dependencies::Version("0.3".to_owned());
        let manifest = Crate { name: "mine".to_owned(), dependencies }.manifest(example);
        let (changed, kept): (Vec<_>, Vec<_>) =
            manifest.lines().zip(example.lines()).partition(|(new, old)| new != old);
        let changed: Vec<_> = changed.into_iter().map(|(new, _)| new).collect();
        let expected =
            ["name = \"mine\"", "warpkov-cuda = \"0.3\"", "warpkov-device = \"0.3\"", "warpkov-build = \"0.3\""];
        assert_eq!(changed, expected);
        assert_eq!(changed.len() + kept.len(), example.lines().count());
        let dependencies = Dependencies::Path(PathBuf::from("/a \"b\"/toolchain"));
        let manifest = Crate { name: "mine".to_owned(), dependencies }.manifest(example);
        assert!(manifest.contains("warpkov-device = { path = \"/a \\\"b\\\"/toolchain/device\" }"), "{manifest}");
    }
}
