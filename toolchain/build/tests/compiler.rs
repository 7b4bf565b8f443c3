//! The choice among several compilers, which are shell scripts here.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use warpkov_build::compiler::{self, Places, Search};

/// A folder of toolchains whose `rustc` prints a version and a sysroot only.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Installs a compiler in the folder `name`, with or without the library's source.
    fn install(&self, name: &str, version: &str, source: bool) -> PathBuf {
        let (root, bin) = (self.path(name), self.path(name).join("bin"));
        fs::create_dir_all(&bin).unwrap();
        if source {
            fs::create_dir_all(root.join("lib/rustlib/src/rust/library/core")).unwrap();
        }
        let rustc = bin.join("rustc");
        let says =
            format!("#!/bin/sh\n[ \"$1\" = --version ] && echo 'rustc {version} (abc)' || echo '{}'\n", root.display());
        // Another process writes the file: a process that a test beside this one starts would inherit our open file, and then Linux
        // does not execute it.
        fs::write(root.join("script"), says).unwrap();
        let installed = Command::new("install").arg("-m755").args([&root.join("script"), &rustc]).status().unwrap();
        assert!(installed.success());
        rustc
    }

    fn places(&self, active: &Path) -> Places {
        Places {
            active: (active.to_path_buf(), self.path("cargo")),
            toolchains: Some(self.path("toolchains")),
            system: self.path("usr/bin/rustc"),
        }
    }

    /// The folder of the compiler found, or the reason why there is none.
    fn found(&self, active: &Path) -> Result<String, String> {
        match compiler::find(None, &self.places(active))? {
            Search::Found(compiler) => {
                let root = compiler.rustc.ancestors().nth(2).unwrap();
                Ok(root.strip_prefix(self.0.path()).unwrap().display().to_string())
            }
            Search::Missing(why) => Err(why),
        }
    }
}

#[test]
fn the_active_toolchain_comes_first() {
    let machine = Machine::new();
    machine.install("toolchains/1.96.0-x", "1.96.0", true);
    let active = machine.install("active", "1.99.1", true);
    assert_eq!(machine.found(&active).as_deref(), Ok("active"));
}

#[test]
fn other_toolchains_follow_in_order() {
    let machine = Machine::new();
    let active = machine.install("active", "1.95.0", true);
    machine.install("toolchains/nightly-x", "1.98.0-nightly", true);
    assert_eq!(machine.found(&active).as_deref(), Ok("toolchains/nightly-x"));
    machine.install("usr", "1.97.0", true);
    assert_eq!(machine.found(&active).as_deref(), Ok("usr"));
    machine.install("toolchains/stable-x", "1.97.0", true);
    assert_eq!(machine.found(&active).as_deref(), Ok("toolchains/stable-x"));
    machine.install("toolchains/1.97.2-x", "1.97.2", true);
    assert_eq!(machine.found(&active).as_deref(), Ok("toolchains/1.97.2-x"));
    machine.install("toolchains/1.96.0-x", "1.96.0", true);
    assert_eq!(machine.found(&active).as_deref(), Ok("toolchains/1.96.0-x"));
}

#[test]
fn unsuitable_compilers_are_listed_with_their_reasons() {
    let machine = Machine::new();
    let active = machine.install("active", "1.97.0", false);
    machine.install("toolchains/1.95.0-x", "1.95.0", true);
    let why = machine.found(&active).unwrap_err();
    for part in [
        "active/bin/rustc is rustc 1.97.0",
        "rust-src) is not installed",
        "before 1.96",
        "rustup component add rust-src",
    ] {
        assert!(why.contains(part), "{why}");
    }
    let nowhere = machine.path("nowhere/rustc");
    let why = machine.found(&nowhere).unwrap_err();
    assert!(why.contains(&format!("cannot run {}", nowhere.display())), "{why}");
}

#[test]
fn a_named_compiler_must_be_suitable() {
    let machine = Machine::new();
    let active = machine.install("active", "1.97.0", true);
    let (old, new) = (machine.install("old", "1.94.0", true), machine.install("new", "1.96.0", true));
    let find = |named: &OsStr| compiler::find(Some(named), &machine.places(&active));
    assert!(find(old.as_os_str()).is_err_and(|why| why.starts_with("WARPKOV_DEVICE_RUSTC: ")));
    assert!(find(new.as_os_str()).is_ok_and(|found| matches!(found, Search::Found(found) if found.rustc == new)));
    assert!(find(OsStr::new("")).is_ok_and(|found| matches!(found, Search::Found(found) if found.rustc == active)));
}
