//! Launches the kernels.

mod kernels;

use kernels::{SMALL, TILE, WIDE, words};
use learn::{Device, Dim3, Shape};

struct Launch;

/// A grid with a block of `x` × `y` threads for each tile of as many elements as `tile` says.
fn shape(n: u32, tile: (u32, u32), (x, y): (u32, u32)) -> Shape {
    let grid = Dim3 { x: n.div_ceil(tile.0), y: n.div_ceil(tile.1), z: 1 };
    Shape::new(grid, Dim3 { x, y, z: 1 })
}

impl learn::matrix_product::MatrixProduct for Launch {
    fn matrix_product<D: Device>(
        device: &D,
        part: usize,
        n: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        c: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let square = |edge| shape(n, (edge, edge), (16, 16));
        // SAFETY: the matrices have n² elements, and n is a multiple of the tiles from part 3 on.
        unsafe {
            match part {
                1 => kernels::product_naive(device, shape(n, (32, 8), (32, 8)), n, a, b, c),
                2 => kernels::product_tiled(device, square(SMALL).with_shared(8 * SMALL * SMALL), n, a, b, c),
                3 => kernels::product_registers(device, square(TILE).with_shared(4 * words(TILE)), n, a, b, c),
                4 => kernels::product_pipelined(device, square(TILE).with_shared(8 * words(TILE)), n, a, b, c),
                _ => kernels::product_tensor(device, square(WIDE).with_shared(8 * words(WIDE)), n, a, b, c),
            }
        }
    }
}

learn::main!(learn::matrix_product::Check<Launch>);
