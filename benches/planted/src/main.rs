//! Runs kernels with planted faults on GPU 0, for compute-sanitizer.
//!
//! `planted` lists them: number, kernel, and the start of the emulator's report. `planted NUMBER 1` runs one with its
//! fault, `planted NUMBER 0` without.

#[path = "../../../toolchain/device/tests/planted/kernels.rs"]
mod kernels;
#[path = "../../../toolchain/device/tests/planted/launches.rs"]
mod launches;

use std::error::Error;

use warpkov_cuda::{Gpu, Modules};
use warpkov_device::launch::Device;

static MODULES: Modules = warpkov_cuda::modules!();

fn main() -> Result<(), Box<dyn Error>> {
    let planted = launches::planted::<Gpu>();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [number, broken] = arguments.as_slice() else {
        for (number, planted) in planted.iter().enumerate() {
            let array = if planted.array.is_empty() { "-" } else { planted.array };
            println!("{number}\t{}\t{}\t{array}\t{}", planted.kernel, planted.report, planted.title);
        }
        return Ok(());
    };
    let chosen = planted.get(number.parse::<usize>()?).ok_or("no such kernel")?;
    let gpu = Gpu::open(0, &MODULES)?;
    (chosen.run)(&gpu, broken.parse()?)?;
    gpu.synchronize()?;
    println!("{}: done", chosen.kernel);
    Ok(())
}
