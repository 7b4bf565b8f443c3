//! Launches the kernel.

mod kernels;

use kernels::{BYTES, STAGES, TILE};
use learn::{Device, Dim3, Shape};
use warpkov_device::device::Named;
use warpkov_device::device::wgmma::Factor;
use warpkov_device::launch::Tensor;

struct Launch;

impl learn::warp_groups::Product for Launch {
    const KERNEL: [&'static str; 2] = ["multicast_F16", "multicast_Bf16"];

    fn product<D: Device, T: Factor + Named>(
        device: &D,
        _blocks: u32,
        n: u32,
        k: u32,
        a: Tensor<'_, D::Buffer<T>, 2>,
        b: Tensor<'_, D::Buffer<T>, 2>,
        c: &mut D::Buffer<T>,
    ) -> Result<(), D::Error> {
        let grid = Dim3 { x: n / TILE[0], y: n / TILE[1], z: 1 };
        let shape = Shape::new(grid, 288).with_shared(1024 + STAGES * BYTES);
        // SAFETY: the matrices have these sizes, and the tensors these tiles.
        unsafe { kernels::multicast::<T, _>(device, shape, n, k, a, b, c) }
    }

    fn loads(n: usize, k: usize) -> usize {
        // For each tile of C, 256 rows of A and B.
        2 * k * 256 * (n / 128) * (n / 256)
    }
}

learn::main!(learn::warp_groups::Check<Launch>);
