//! What is compiled for the GPU: a crate of kernels as it is, or a module of the crate whose build script this is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::{audit, variable};

/// Where kernels stand.
pub enum Source {
    /// In a crate of their own, at this folder.
    Package(PathBuf),
    /// In this module of the crate that is being built, a file below its folder.
    Module(PathBuf),
}

/// The crate that cargo compiles for the GPU.
pub struct Root {
    /// Its manifest.
    pub manifest: PathBuf,
    /// Its manifest, if it was written here.
    pub generated: PathBuf,
    /// Whether a lock file names all versions.
    pub locked: bool,
}

/// A package and its workspace, as `cargo metadata` has them.
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
    /// What the outputs in the target folder are called by.
    pub fn name(&self) -> Result<String, String> {
        match self {
            Self::Package(folder) => Ok(metadata(folder)?.1.name),
            Self::Module(_) => variable("CARGO_PKG_NAME"),
        }
    }

    /// The names of the kernels that the sources declare.
    pub fn entries(&self) -> Result<BTreeSet<String>, String> {
        match self {
            Self::Package(folder) => audit::expected_entries(&folder.join("src")),
            Self::Module(file) => {
                let (file, folder) = (self::absolute(file)?, self.module_folder());
                let mut entries = audit::entries_in(&file)?;
                if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
                    entries.append(&mut audit::expected_entries(&folder)?);
                }
                Ok(entries)
            }
        }
    }

    /// The files and folders that decide what is compiled, beside the crates that cargo names.
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

    /// The folder of a module's own modules.
    fn module_folder(&self) -> Option<PathBuf> {
        match self {
            Self::Package(_) => None,
            Self::Module(file) if file.file_name().is_some_and(|name| name == "mod.rs") => {
                file.parent().map(Path::to_path_buf)
            }
            Self::Module(file) => Some(file.with_extension("")),
        }
    }

    /// The crate to compile. Where there is none but a module, it is written to `folder`.
    pub fn root(&self, folder: &Path) -> Result<Root, String> {
        match self {
            Self::Package(package) => {
                let (workspace, package) = metadata(package)?;
                let locked = workspace.join("Cargo.lock").exists();
                Ok(Root { manifest: package.manifest_path, generated: PathBuf::new(), locked })
            }
            Self::Module(file) => write_root(file, folder),
        }
    }
}

/// Writes a crate that holds a module of the crate that is being built, and depends on `warpkov-device` as that one does.
fn write_root(module: &Path, folder: &Path) -> Result<Root, String> {
    let (workspace, package) = metadata(Path::new("."))?;
    let device = variable("DEP_WARPKOV_DEVICE_ROOT")
        .map_err(|_| "the package does not depend on warpkov-device: add it to [dependencies] in Cargo.toml")?;
    let module = absolute(module)?;
    let is_mod = module.file_name().is_some_and(|name| name == "mod.rs");
    let file = if is_mod { module.parent() } else { Some(module.as_path()) };
    let name = file.and_then(Path::file_stem).and_then(|stem| stem.to_str()).unwrap_or_default();
    let parent = file.and_then(Path::parent).unwrap_or(Path::new("/"));
    if syn::parse_str::<syn::Ident>(name).is_err() {
        return Err(format!("{} is no module's file", module.display()));
    }
    let (package_name, edition) = (&package.name, &package.edition);
    let manifest = format!(
        "# The kernels of {package_name}, to be compiled for GPUs. Written by its build script.\n[package]\n\
         name = \"{package_name}-device\"\nversion = \"0.0.0\"\nedition = \"{edition}\"\n\n[lib]\npath = \"lib.rs\"\n\n\
         [dependencies]\nwarpkov-device = {{ path = {device:?} }}\n\n[workspace]\n"
    );
    // The folder of an inline module is where its files are, and a file's own modules are where they are for the package.
    let library = format!(
        "#![no_std]\n#![feature(abi_ptx, asm_experimental_arch)]\n\n#[path = {parent:?}]\nmod source {{\n    \
         pub mod {name};\n}}\npub use source::{name};\n"
    );
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join("Cargo.toml");
    write(&path, &manifest)?;
    write(&folder.join("lib.rs"), &library)?;
    // The same versions as around it. Cargo strikes out what is not needed.
    let (lock, own) = (workspace.join("Cargo.lock"), folder.join("Cargo.lock"));
    if lock.exists() {
        fs::copy(&lock, &own).map_err(|error| format!("{}: {error}", own.display()))?;
    }
    Ok(Root { manifest: path.clone(), generated: path, locked: false })
}

/// Writes a file that may already be as it should: cargo goes by its age.
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
    let mut command = Command::new(variable("CARGO")?);
    command.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(&manifest);
    let output = command.output().map_err(|error| format!("cargo does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata says: {error}"))?;
    let package = metadata.packages.into_iter().find(|package| {
        // Through links the same file may have two names.
        package.manifest_path == manifest || absolute(&package.manifest_path).is_ok_and(|path| path == manifest)
    });
    let package = package.ok_or_else(|| format!("{} holds no package", manifest.display()))?;
    Ok((metadata.workspace_root, package))
}
