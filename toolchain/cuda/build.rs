//! Lets the linker find a `libcuda`, which is empty: programs define the functions that cust calls, and find the driver when they
//! run. So they link on machines without a driver.

fn main() {
    println!("cargo::rerun-if-changed=driver-stub");
    println!("cargo::rustc-link-search=native={}/driver-stub/lib64", env!("CARGO_MANIFEST_DIR"));
}
