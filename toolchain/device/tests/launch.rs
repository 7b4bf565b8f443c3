//! Launches with wrong arguments do not compile.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The compiler whose messages the `.stderr` files contain. Other releases word them differently.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn wrong_launches_do_not_compile() -> Result<(), Box<dyn Error>> {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = String::from_utf8(Command::new(compiler).arg("--version").output()?.stdout)?;
    let cases = trybuild::TestCases::new();
    cases.pass("tests/launch/right*.rs");
    if version.starts_with(COMPILER) {
        cases.compile_fail("tests/launch/wrong_*.rs");
        return Ok(());
    }
    // Copies of the cases without `.stderr` files: trybuild writes these files, and still fails if a case compiles.
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("launch");
    fs::create_dir_all(&copies)?;
    for case in fs::read_dir("tests/launch")? {
        let case = case?.path();
        let name = case.file_name().unwrap_or_default();
        if name == "vector_add.rs" {
            fs::copy(&case, copies.join(name))?;
        }
        if name.to_string_lossy().starts_with("wrong_") && case.extension().is_some_and(|kind| kind == "rs") {
            fs::copy(&case, copies.join(name))?;
            cases.compile_fail(copies.join(name));
        }
    }
    // SAFETY: this is the only test of the program, and no other thread reads the environment.
    unsafe { env::set_var("TRYBUILD", "overwrite") };
    Ok(())
}
