//! Tells the build scripts of dependent crates where this one lies, as `DEP_WARPKOV_DEVICE_ROOT`: `warpkov-build` compiles it
//! for the GPU beside their kernels.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=root={}", env!("CARGO_MANIFEST_DIR"));
}
