//! What a registry needs of the published crates.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::readme::fenced;

/// The folders of the published crates.
fn published() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let folders = members.split('"').skip(1).step_by(2).map(|member| root.join(member)).chain([root.to_owned()]);
    let is_published = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        !manifest.contains("publish = false")
    };
    let folders: Vec<_> = folders.filter(is_published).collect();
    assert!(folders.len() >= 13, "{folders:?}");
    folders
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.join("Cargo.toml").exists() && !path.ends_with("tests") && !path.ends_with("target") {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn readmes_start_with_a_complete_program() {
    for folder in published() {
        let page = fs::read_to_string(folder.join("README.md")).unwrap();
        let rust: Vec<_> = fenced(&page).filter(|(kind, _)| kind.starts_with("rust")).collect();
        let (_, program) = rust.first().unwrap_or_else(|| panic!("{} shows no program", folder.display()));
        let complete = ["fn main(", "warpkov_build::kernels!", "#[kernel"].iter().any(|part| program.contains(part));
        assert!(complete, "{}: {program}", folder.display());
    }
}

/// Doc tests run the others.
#[test]
fn blocks_that_doc_tests_ignore_are_those_of_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = root.join("examples/own-kernel");
    let files =
        ["build.rs", "src/kernels.rs", "src/main.rs"].map(|file| fs::read_to_string(example.join(file)).unwrap());
    let mut seen = 0;
    for folder in published() {
        let page = fs::read_to_string(folder.join("README.md")).unwrap();
        for (_, text) in fenced(&page).filter(|(kind, _)| kind.contains("ignore")) {
            assert!(files.iter().any(|file| file.contains(text)), "{}: {text}", folder.display());
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

/// A README cannot include a file: these show an example of the facade by the names of their own crates.
#[test]
fn readmes_of_the_solvers_show_the_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (krate, example) in [("mdp", "01_mdp"), ("pomdp", "02_pomdp"), ("hmm", "03_hmm")] {
        let page = fs::read_to_string(root.join("host").join(krate).join("README.md")).unwrap();
        let example = fs::read_to_string(root.join("examples").join(example).with_extension("rs")).unwrap();
        let (_, program) = fenced(&page).next().unwrap();
        assert!(program.starts_with("use ") && example.replace("warpkov::", "warpkov_").ends_with(program), "{krate}");
    }
}

/// A package holds the files below its folder; links are followed when it is packed.
#[test]
fn crates_include_files_of_their_own() {
    let mut seen = 0;
    for folder in published() {
        for path in sources(&folder) {
            let text = fs::read_to_string(&path).unwrap();
            // Tests are not compiled by those who depend on a crate.
            let code = text.split("#[cfg(test)]").next().unwrap();
            for include in ["include_str!(\"", "include_bytes!(\"", "#[path = \"", "include!(\""] {
                for after in code.split(include).skip(1) {
                    let named = path.with_file_name(after.split('"').next().unwrap());
                    let mut inside = PathBuf::new();
                    for part in named.components() {
                        if part == Component::ParentDir {
                            inside.pop();
                        } else {
                            inside.push(part)
                        }
                    }
                    assert!(inside.starts_with(&folder), "{}: {}", path.display(), inside.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen >= 15, "{seen}");
}
