//! Names the shared library as programs ask for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number grows with each change that programs do not survive.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libwarpkov.so.0");
}
