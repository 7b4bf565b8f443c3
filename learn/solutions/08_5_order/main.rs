//! Launches the kernel.

mod kernels;

use kernels::{BYTES, STAGES, TILE};
use learn::{Device, Shape};
use warpkov_device::device::Named;
use warpkov_device::device::wgmma::Factor;
use warpkov_device::launch::Tensor;

struct Launch;

impl learn::warp_groups::Product for Launch {
    const KERNEL: [&'static str; 2] = ["order_F16", "order_Bf16"];

    fn product<D: Device, T: Factor + Named>(
        device: &D,
        blocks: u32,
        n: u32,
        k: u32,
        a: Tensor<'_, D::Buffer<T>, 2>,
        b: Tensor<'_, D::Buffer<T>, 2>,
        c: &mut D::Buffer<T>,
    ) -> Result<(), D::Error> {
        let squares = (n / TILE[1]) * (n / TILE[1]);
        let shape = Shape::new(2 * squares.min(blocks / 2), 288).with_shared(1024 + STAGES * BYTES);
        // SAFETY: the matrices have these sizes, and the tensors these tiles.
        unsafe { kernels::order::<T, _>(device, shape, n, k, a, b, c) }
    }

    fn loads(n: usize, k: usize) -> usize {
        // For each tile of C, 256 rows of A and B.
        2 * k * 256 * (n / 128) * (n / 256)
    }

    fn square(edge: u32, i: u32) -> Option<(u32, u32)> {
        Some(kernels::square(edge, i))
    }
}

learn::main!(learn::warp_groups::Check<Launch>);
