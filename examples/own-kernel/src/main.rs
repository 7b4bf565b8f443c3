//! The dot product of two vectors, on a GPU if there is one, otherwise on the emulator.

mod kernels;

use std::error::Error;

use warpkov_cuda::{Gpu, Modules};
use warpkov_device::device::Real;
use warpkov_device::emulator::Emulator;
use warpkov_device::launch::{Device, Shape};

/// The kernels compiled for GPUs.
static MODULES: Modules = warpkov_cuda::modules!();

const BLOCKS: u32 = 8;
const THREADS: u32 = 128;

/// Σ x\[i]·y\[i] on any device. It is an error if y is shorter than x.
fn dot<T: Real, D: Device>(device: &D, x: &[T], y: &[T]) -> Result<f64, D::Error> {
    let (n, x, y) = (x.len() as u32, device.upload(x)?, device.upload(y)?);
    let mut partial = device.zeros::<f64>(BLOCKS as usize)?;
    kernels::dot(device, Shape::new(BLOCKS, THREADS), n, &x, &y, &mut partial)?;
    Ok(device.to_vec(&partial)?.iter().sum())
}

/// `--trace FILE` runs the kernel on the emulator and draws its memory accesses (SVG).
fn main() -> Result<(), Box<dyn Error>> {
    let (x, y): (Vec<f32>, Vec<f32>) = (1..=1000).map(|i| (i as f32, 2.0)).unzip();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => {}
        [option, file] if option == "--trace" => {
            let device = Emulator::default().profiled();
            println!("emulated: x·y = {}", dot(&device, &x, &y)?);
            std::fs::write(file, device.profile().svg())?;
            return Ok(());
        }
        _ => return Err("expected no arguments, or --trace FILE".into()),
    }
    match Gpu::open(0, &MODULES) {
        Ok(gpu) => println!("{}: x·y = {}", gpu.name(), dot(&gpu, &x, &y)?),
        Err(error) => {
            eprintln!("{error}");
            println!("emulated: x·y = {}", dot(&Emulator::default(), &x, &y)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use warpkov_device::emulator::{EmulatorError, Explored};

    use super::*;

    /// The emulator reports races and accesses out of bounds as errors. It runs the blocks and threads in several orders, on
    /// which the result must not depend.
    #[test]
    fn the_kernel_agrees_with_a_loop_on_the_host() -> Result<(), Explored<EmulatorError>> {
        Emulator::explore(8, |device| {
            for n in [0, 1, 31, 128, 1024, 5000] {
                let x: Vec<f64> = (0..n).map(f64::from).collect();
                let y: Vec<f64> = (0..n).map(|i| f64::from(i % 7) - 3.0).collect();
                let expected: f64 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
                assert_eq!(dot(device, &x, &y)?, expected, "{n} elements");
            }
            Ok(())
        })
    }

    /// A launch that does not meet the kernel's contract is an error, on a GPU too, and runs nothing.
    #[test]
    fn a_vector_that_is_too_short_is_an_error() -> Result<(), EmulatorError> {
        let device = Emulator::default();
        let (x, y) = (device.upload(&[1.0f32; 10])?, device.upload(&[1.0f32; 9])?);
        let mut partial = device.zeros::<f64>(BLOCKS as usize)?;
        let shape = Shape::new(BLOCKS, THREADS);
        let refused = kernels::dot(&device, shape, 10, &x, &y, &mut partial);
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("y.len() is 9, n is 10"), "{said}");
        Ok(())
    }

    /// Passes without a test if there is no GPU.
    #[test]
    fn a_gpu_agrees() {
        if let Ok(gpu) = Gpu::open(0, &MODULES) {
            let (x, y) = ([1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]);
            assert_eq!(dot(&gpu, &x, &y).expect("no error"), 32.0);
        }
    }
}
