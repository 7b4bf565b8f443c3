//! Placeholder.
fn main() {
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let text = "/// Why this binary holds no device code.\npub static NO_PTX: Option<&str> = Some(\"placeholder\");\nstatic BASELINES: &[Baseline] = &[];\n/// The compiler of the device code.\npub static DEVICE_COMPILER: Option<&str> = None;\n";
    let _ = std::fs::write(format!("{out}/ptx_table.rs"), text);
}
