//! Sets `DEP_WARPKOV_KERNELS_ROOT` to this crate's path for the build scripts of dependent crates: `warpkov-build`
//! compiles this crate for the GPU together with their kernels.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=root={}", env!("CARGO_MANIFEST_DIR"));
}
