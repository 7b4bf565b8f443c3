//! Launches the kernels.

mod kernels;

use learn::copy::Particle;
use learn::{Device, Shape};

struct Launch;

impl learn::copy::Copies for Launch {
    fn copy<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        let shape = Shape::cover(n.div_ceil(kernels::EACH).into(), 256);
        kernels::copy(device, shape, n, x, y)
    }

    fn layout(particles: &[Particle]) -> Vec<f32> {
        // ANCHOR: part2
        (0..8).flat_map(|field| particles.iter().map(move |particle| particle[field])).collect()
        // ANCHOR_END: part2
    }

    fn energy<D: Device>(
        device: &D,
        n: u32,
        particles: &D::Buffer<f32>,
        energy: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::energy(device, Shape::cover(n.into(), 256), n, particles, energy)
    }

    fn scale<D: Device>(
        device: &D,
        n: u32,
        factor: f32,
        x: &D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        // ANCHOR: part3
        let elements = n.div_ceil(4);
        // ANCHOR_END: part3
        kernels::scale(device, Shape::cover(elements.into(), 256), elements, factor, x, y)
    }
}

learn::main!(learn::copy::Check<Launch>);
