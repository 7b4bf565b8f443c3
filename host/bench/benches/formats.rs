//! Read and write speed of the MDP formats: `cargo bench -p warpkov-bench --bench formats [SIDE]`, on a slip grid of SIDE × SIDE cells
//! (512).
//!
//! Each line is the median of five runs. The first line is a plain copy of the JSON file. The other lines print their
//! ratio to this copy, because on a shared machine only ratios are reliable.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::time::Instant;

use warpkov_mdp::generate::SlipGrid;
use warpkov_mdp::io as formats;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes --bench to every benchmark.
    let side = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(512);
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("grid.json");
    let grid = SlipGrid { width: side, height: side, ..SlipGrid::default() };

    let model = grid.generate()?;
    formats::write(&json, &model)?;
    println!("{side} × {side} cells, {} transitions", model.transitions().nnz());
    println!("{:<28} {:>9} {:>9} {:>9}", "", "ms", "MB/s", "of a copy");

    let bytes = fs::metadata(&json)?.len();
    let copy = line("copy of the JSON file", bytes, None, || {
        let mut target = BufWriter::new(File::create(folder.path().join("copy"))?);
        io::copy(&mut File::open(&json)?, &mut target)?;
        Ok(target.flush()?)
    })?;
    line("generate", bytes, Some(copy), || Ok(grid.generate().map(drop)?))?;
    line("write JSON", bytes, Some(copy), || Ok(formats::write(&json, &model)?))?;
    line("read JSON", bytes, Some(copy), || Ok(formats::read(&json).map(drop)?))?;
    for (name, file) in [
        ("safetensors", "grid.safetensors"),
        ("NumPy", "grid.npz"),
        ("UMB", "grid.umb"),
        ("PETSc", "grid.P.bin"),
        ("PRISM", "grid.tra"),
        ("DRN", "grid.drn"),
        ("XML", "grid.xml"),
        ("text", "grid.txt"),
    ] {
        let path = folder.path().join(file);
        formats::write(&path, &model)?;
        // The largest of PRISM's files.
        let beside = fs::metadata(path.with_extension("trew")).map_or(0, |rewards| rewards.len());
        let bytes = fs::metadata(&path)?.len() + if name == "PRISM" { beside } else { 0 };
        line(&format!("write {name}"), bytes, Some(copy), || Ok(formats::write(&path, &model)?))?;
        line(&format!("read {name}"), bytes, Some(copy), || Ok(formats::read(&path).map(drop)?))?;
    }
    Ok(())
}

/// Measures and prints one line. Returns the rate in bytes per second.
fn line(
    name: &str,
    bytes: u64,
    copy: Option<f64>,
    mut run: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let rate = bytes as f64 / seconds[2];
    let ratio = copy.map_or_else(String::new, |copy| format!("{:.2}", rate / copy));
    println!("{name:<28} {:>9.1} {:>9.0} {ratio:>9}", 1e3 * seconds[2], rate / 1e6);
    Ok(rate)
}
