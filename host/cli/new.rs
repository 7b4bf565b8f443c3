//! `warpkov new`.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::error::{Error, Outcome};

/// Creates a crate with its own GPU kernels, or with a model as Rust code.
///
/// The crate, a copy of examples/own-kernel, holds kernels and `main`. `cargo run` runs the kernels on the GPU, or under the emulator if
/// there is no GPU; `cargo test` tests them under the emulator. With --model it is a copy of examples/own-model: a Markov decision
/// process as a Rust type, which `cargo run` solves on the GPU, or on the CPU if there is no GPU.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Name of the crate and of its new folder in the current folder.
    name: String,
    /// Create a crate with a model as Rust code.
    #[arg(long)]
    model: bool,
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
  cd mine && cargo test && cargo run
  warpkov new mine --model --path ~/warpkov";

/// An example that new crates copy.
struct Example {
    /// Its name in its manifest.
    name: &'static str,
    files: [(&'static str, &'static str); 7],
    /// What is in it.
    about: &'static str,
}

/// The files of an example: links in `new/`, because a published crate contains no file outside of its folder.
macro_rules! files {
    ($example:literal, $($file:literal = $link:literal),+) => {
        [$(($file, include_str!(concat!("new/", $example, "/", $link)))),+]
    };
}

static KERNEL: Example = Example {
    name: "own-kernel",
    files: files!(
        "kernel",
        ".cargo/config.toml" = "config.toml",
        ".cargo/lib64/libcuda.a" = "libcuda.a",
        ".gitignore" = "gitignore",
        "Cargo.toml" = "manifest.toml",
        "build.rs" = "build.rs",
        "src/kernels.rs" = "kernels.rs",
        "src/main.rs" = "main.rs"
    ),
    about: "kernels in src/kernels.rs, and what launches them in src/main.rs",
};

static MODEL: Example = Example {
    name: "own-model",
    files: files!(
        "model",
        ".cargo/config.toml" = "config.toml",
        ".cargo/lib64/libcuda.a" = "libcuda.a",
        ".gitignore" = "gitignore",
        "Cargo.toml" = "manifest.toml",
        "build.rs" = "build.rs",
        "src/models.rs" = "models.rs",
        "src/main.rs" = "main.rs"
    ),
    about: "a model in src/models.rs, and what solves it in src/main.rs",
};

/// Start of the dependencies' paths in the manifests of the examples: the folder of warpkov's sources.
const SOURCES: &str = "path = \"../..";

/// A new crate.
pub struct Crate {
    name: String,
    example: &'static Example,
    dependencies: Dependencies,
}

/// Source of the crates that the new crate depends on.
enum Dependencies {
    /// The folder of warpkov's sources.
    Path(PathBuf),
    Version(String),
}

impl TryFrom<Arguments> for Crate {
    type Error = Error;

    fn try_from(Arguments { name, model, path, version }: Arguments) -> Result<Self, Error> {
        check_name(&name).map_err(|why| Error::Usage(format!("{name:?} {why}")))?;
        let dependencies = match path {
            Some(path) => {
                if !path.join("toolchain/device/Cargo.toml").is_file() {
                    let why = format!(
                        "--path {}: expected warpkov's sources, and found no toolchain/device in it",
                        path.display()
                    );
                    return Err(Error::Usage(why));
                }
                // The new crate may be moved: the path must be absolute.
                let sources = path.canonicalize().map_err(|error| Error::Usage(format!("--path: {error}")))?;
                let plain = sources.to_str().is_some_and(|path| !path.contains(char::is_control));
                if !plain {
                    let why = format!("--path {}: cargo reads no such path from a manifest", path.display());
                    return Err(Error::Usage(why));
                }
                Dependencies::Path(sources)
            }
            None => {
                check_version(&version).map_err(|why| Error::Usage(format!("--version {version:?}: {why}")))?;
                Dependencies::Version(version)
            }
        };
        Ok(Self { name, example: if model { &MODEL } else { &KERNEL }, dependencies })
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
        let named = example.replacen(&format!("\"{}\"", self.example.name), &format!("\"{}\"", self.name), 1);
        match &self.dependencies {
            Dependencies::Path(sources) => {
                let sources = sources.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
                named.replace(SOURCES, &format!("path = \"{sources}"))
            }
            Dependencies::Version(version) => {
                let line = |line: &str| match line.split_once(&format!("{{ {SOURCES}")) {
                    // What stands behind the path stays: features.
                    Some((dependency, rest)) => match rest.split_once(',') {
                        Some((_, rest)) => format!("{dependency}{{ version = \"{version}\",{rest}\n"),
                        None => format!("{dependency}\"{version}\"\n"),
                    },
                    None => format!("{line}\n"),
                };
                named.lines().map(line).collect()
            }
        }
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        for (file, text) in self.example.files {
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
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let new = Crate::try_from(arguments)?;
    let folder = Path::new(&new.name);
    let failed = |error| Error::from(warpkov_common::io::Error::write(folder)(error));
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
    writeln!(out, "{}: {}", new.name, new.example.about)?;
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
        let example = KERNEL.files.iter().find(|(file, _)| *file == "Cargo.toml").unwrap().1;
        let of = |dependencies| Crate { name: "mine".to_owned(), example: &KERNEL, dependencies }.manifest(example);
        let manifest = of(Dependencies::Version("0.3".to_owned()));
        let (changed, kept): (Vec<_>, Vec<_>) =
            manifest.lines().zip(example.lines()).partition(|(new, old)| new != old);
        let changed: Vec<_> = changed.into_iter().map(|(new, _)| new).collect();
        let expected =
            ["name = \"mine\"", "warpkov-cuda = \"0.3\"", "warpkov-device = \"0.3\"", "warpkov-build = \"0.3\""];
        assert_eq!(changed, expected);
        assert_eq!(changed.len() + kept.len(), example.lines().count());
        let manifest = of(Dependencies::Path(PathBuf::from("/a \"b\"")));
        assert!(manifest.contains("warpkov-device = { path = \"/a \\\"b\\\"/toolchain/device\" }"), "{manifest}");

        let example = MODEL.files.iter().find(|(file, _)| *file == "Cargo.toml").unwrap().1;
        let of = |dependencies| Crate { name: "mine".to_owned(), example: &MODEL, dependencies }.manifest(example);
        let features = "default-features = false, features = [\"mdp\"] }";
        for (dependencies, start) in [
            (Dependencies::Version("0.3".to_owned()), "warpkov = { version = \"0.3\", "),
            (Dependencies::Path(PathBuf::from("/a")), "warpkov = { path = \"/a\", "),
        ] {
            let manifest = of(dependencies);
            assert!(manifest.contains(&format!("{start}{features}")), "{manifest}");
        }
    }
}
