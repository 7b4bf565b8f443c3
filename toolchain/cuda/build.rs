//! Gives the linker an empty `libcuda`, so that programs link on machines without a driver. The crate itself defines
//! the driver functions that `cust` calls, and loads the driver at run time.

fn main() {
    println!("cargo::rerun-if-changed=driver-stub");
    println!("cargo::rustc-link-search=native={}/driver-stub/lib64", env!("CARGO_MANIFEST_DIR"));
}
