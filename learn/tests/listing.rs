//! The listings of PTX in the book are those of the compiler. Run with `LEARN_EXERCISE=solutions/13_registers` and the feature
//! `gpu`.
#![cfg(feature = "gpu")]

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

static MODULES: warpkov_cuda::Modules = warpkov_cuda::modules!();

/// The chapter whose page shows PTX, and its kernels.
const CHAPTER: &str = "13_registers";
const KERNELS: [&str; 2] = ["visits_indexed", "visits"];

#[test]
fn the_book_shows_what_the_compiler_writes() {
    if env!("LEARN_EXERCISE") != format!("solutions/{CHAPTER}") {
        eprintln!("not checked: these are the kernels of {}", env!("LEARN_EXERCISE"));
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/course/generated").join(CHAPTER);
    for kernel in KERNELS {
        let program = env!("CARGO_BIN_EXE_13_registers_solution");
        let output = Command::new(program).args(["ptx", kernel]).output().expect("a program that runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text in UTF-8");
        assert!(text.contains(&format!(".entry {kernel}(")), "{text}");
        let path = folder.join(format!("{kernel}.ptx"));
        if env::var_os("WARPKOV_UPDATE_BOOK").is_some() {
            fs::write(&path, &text).expect("a new file");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        // Another version of the compiler may write other registers; what the page says of the listing stays.
        let reserves = |text: &str| text.contains(".local ");
        assert_eq!(reserves(&found), reserves(&text), "{} is out of date", path.display());
        assert!(found.contains(".entry"), "{} is missing: WARPKOV_UPDATE_BOOK=1 writes it", path.display());
    }
}

/// Where an assembler has made machine code.
#[test]
fn the_stack_of_a_kernel_is_that_of_its_local_array() {
    if MODULES.assembler.is_none() || MODULES.registers("visits_indexed", 90).is_none() {
        eprintln!("not checked: there is no machine code of visits_indexed");
        return;
    }
    assert_eq!(MODULES.stack_bytes("visits_indexed", 90), Some(32));
    assert_eq!(MODULES.stack_bytes("visits", 90), Some(0));
    assert_eq!(MODULES.stack_bytes("nothing", 90), None);
}
