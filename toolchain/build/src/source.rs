//! The crate to compile for the GPU: a crate of kernels, or one that is generated around a module of the crate being
//! built.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::audit::{self, Expected};
use crate::variable;

/// The location of the kernels.
pub enum Source {
    /// A crate of kernels, in this folder.
    Package(PathBuf),
    /// A module of the crate being built: the path of its file, relative to the crate's folder.
    Module(PathBuf),
}

/// The crate that cargo compiles for the GPU.
pub struct Root {
    /// Path of its `Cargo.toml`.
    pub manifest: PathBuf,
    /// The same path if the crate is generated, otherwise empty.
    pub generated: PathBuf,
    /// Whether to compile with `--locked`.
    pub locked: bool,
}

/// The output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    edition: String,
    manifest_path: PathBuf,
}

impl Source {
    /// The package name in the paths of the outputs.
    pub fn name(&self) -> Result<String, String> {
        match self {
            Self::Package(folder) => Ok(metadata(folder)?.1.name),
            Self::Module(_) => variable("CARGO_PKG_NAME"),
        }
    }

    /// The entry points that the sources declare.
    pub fn entries(&self) -> Result<Expected, String> {
        match self {
            Self::Package(folder) => audit::expected_entries(&folder.join("src")),
            Self::Module(file) => {
                let (file, folder) = (self::absolute(file)?, self.module_folder());
                let mut entries = audit::entries_in(&file)?;
                if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
                    entries.append(audit::expected_entries(&folder)?);
                }
                Ok(entries)
            }
        }
    }

    /// The inputs of the compilation, apart from dependencies.
    ///
    /// # Errors
    /// There is no such package.
    pub fn watched(&self) -> Result<Vec<PathBuf>, String> {
        let (folder, sources) = match self {
            Self::Package(folder) => (folder.as_path(), vec![folder.join("src")]),
            Self::Module(file) => {
                let inner = self.module_folder().filter(|folder| folder.is_dir());
                (Path::new("."), [file.clone()].into_iter().chain(inner).collect())
            }
        };
        let lock = metadata(folder)?.0.join("Cargo.lock");
        Ok(sources.into_iter().chain([folder.join("Cargo.toml"), lock]).filter(|path| path.exists()).collect())
    }

    /// The folder of a module's submodules.
    fn module_folder(&self) -> Option<PathBuf> {
        match self {
            Self::Package(_) => None,
            Self::Module(file) if file.file_name().is_some_and(|name| name == "mod.rs") => {
                file.parent().map(Path::to_path_buf)
            }
            Self::Module(file) => Some(file.with_extension("")),
        }
    }

    /// The crate to compile. For a module, writes the crate to `folder`.
    pub fn root(&self, folder: &Path) -> Result<Root, String> {
        match self {
            // A dependency of the crate being built: cargo would resolve its dependencies once more, to other versions.
            Self::Package(package) if is_published(package) => {
                let (workspace, package) = metadata(package)?;
                let library = package.manifest_path.with_file_name("src").join("lib.rs");
                write_root(&workspace, &package, &library, folder)
            }
            Self::Package(package) => {
                let (workspace, package) = metadata(package)?;
                let locked = workspace.join("Cargo.lock").exists();
                Ok(Root { manifest: package.manifest_path, generated: PathBuf::new(), locked })
            }
            Self::Module(file) => {
                let (workspace, package) = metadata(Path::new("."))?;
                let library = library(file)?;
                fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
                write(&folder.join("lib.rs"), &library)?;
                write_root(&workspace, &package, Path::new("lib.rs"), folder)
            }
        }
    }
}

/// Whether the crate in `folder` comes from a registry: cargo keeps the manifest as written beside the one that it makes.
pub fn is_published(folder: &Path) -> bool {
    folder.join("Cargo.toml.orig").exists()
}

/// The root of a crate that contains a module of the crate being built, and nothing else.
fn library(module: &Path) -> Result<String, String> {
    let module = absolute(module)?;
    let is_mod = module.file_name().is_some_and(|name| name == "mod.rs");
    let file = if is_mod { module.parent() } else { Some(module.as_path()) };
    let name = file.and_then(Path::file_stem).and_then(|stem| stem.to_str()).unwrap_or_default();
    let parent = file.and_then(Path::parent).unwrap_or(Path::new("/"));
    if syn::parse_str::<syn::Ident>(name).is_err() {
        return Err(format!("{} is not the file of a module: its name is not an identifier", module.display()));
    }
    // `#[path]` on an inline module sets the folder of its submodules: the files stay where they are in the package.
    Ok(format!(
        "#![no_std]\n#![feature(abi_ptx, asm_experimental_arch)]\n\n#[path = {parent:?}]\nmod source {{\n    \
         pub mod {name};\n}}\npub use source::{name};\n"
    ))
}

/// Writes a crate with this `library`, the kernels of `package`, whose dependencies are the crates of device code that the crate being built
/// depends on.
fn write_root(workspace: &Path, package: &Package, library: &Path, folder: &Path) -> Result<Root, String> {
    let mut dependencies = device_crates();
    dependencies.remove(&package.name);
    if !dependencies.contains_key("warpkov-device") {
        return Err("the package does not depend on warpkov-device: add it to [dependencies] in Cargo.toml".into());
    }
    let line = |name: &str, path: &str| format!("{name} = {{ path = {path:?} }}\n");
    let all: String = dependencies.iter().map(|(name, path)| line(name, path)).collect();
    let macros = dependencies.get("warpkov-device").and_then(|device| macros_beside(Path::new(device)));
    let macros = macros.map(|path| line("warpkov-device-macros", &path)).unwrap_or_default();
    let (package_name, edition) = (&package.name, &package.edition);
    let manifest = format!(
        "# The kernels of {package_name}, for compilation to PTX. Generated by its build script.\n[package]\n\
         name = \"{package_name}-device\"\nversion = \"0.0.0\"\nedition = \"{edition}\"\n\n[lib]\npath = {library:?}\n\n\
         [dependencies]\n{all}\n[patch.crates-io]\n{all}{macros}\n[workspace]\n"
    );
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join("Cargo.toml");
    write(&path, &manifest)?;
    // The versions of the surrounding workspace. Cargo removes the entries that this crate does not need.
    let (lock, own) = (workspace.join("Cargo.lock"), folder.join("Cargo.lock"));
    if lock.exists() {
        fs::copy(&lock, &own).map_err(|error| format!("{}: {error}", own.display()))?;
    }
    Ok(Root { manifest: path.clone(), generated: path, locked: false })
}

/// The direct dependencies of the crate being built that kernels may use, each with its folder: those that pass it to this
/// build script as `DEP_NAME_ROOT`, and have a name of warpkov's own.
fn device_crates() -> BTreeMap<String, String> {
    let of_variable = |(name, path): (OsString, OsString)| {
        let (name, path) = (name.into_string().ok()?, path.into_string().ok()?);
        let name = name.strip_prefix("DEP_")?.strip_suffix("_ROOT")?.to_ascii_lowercase().replace('_', "-");
        name.starts_with("warpkov-").then_some((name, path))
    };
    env::vars_os().filter_map(of_variable).collect()
}

/// The crate of macros of the same version beside `warpkov-device` in a registry's folder. `cargo package` verifies crates with those that are packed
/// with them, which no registry has yet.
fn macros_beside(device: &Path) -> Option<String> {
    let version = device.file_name()?.to_str()?.strip_prefix("warpkov-device-")?;
    let macros = device.with_file_name(format!("warpkov-device-macros-{version}"));
    macros.is_dir().then(|| macros.display().to_string())
}

/// Writes a file unless it has this content already: cargo rebuilds after a change of the modification time.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The root of the workspace, and the package at `folder`.
fn metadata(folder: &Path) -> Result<(PathBuf, Package), String> {
    let manifest = absolute(&folder.join("Cargo.toml"))?;
    if is_published(folder) {
        return published(manifest);
    }
    let mut command = Command::new(variable("CARGO")?);
    command.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(&manifest);
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cannot read cargo metadata: {error}"))?;
    let package = metadata.packages.into_iter().find(|package| {
        // Symbolic links may give the same file two paths.
        package.manifest_path == manifest || absolute(&package.manifest_path).is_ok_and(|path| path == manifest)
    });
    let package = package.ok_or_else(|| format!("{} has no [package] section", manifest.display()))?;
    Ok((metadata.workspace_root, package))
}

/// The package of a registry with this manifest, and the root of the workspace that is being built: a folder above the build's outputs with
/// a `Cargo.lock`, or else the package's own.
fn published(manifest: PathBuf) -> Result<(PathBuf, Package), String> {
    let text = fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    // Cargo wrote the file: each field has a line of its own, and `package` is the first section.
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'));
        value.map(str::to_owned).ok_or_else(|| format!("{} has no {name}", manifest.display()))
    };
    let (name, edition) = (field("name")?, field("edition")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let workspace = out.ancestors().find(|folder| folder.join("Cargo.lock").exists()).map(Path::to_path_buf);
    let workspace = workspace.or_else(|| manifest.parent().map(Path::to_path_buf)).unwrap_or_default();
    Ok((workspace, Package { name, edition, manifest_path: manifest }))
}
