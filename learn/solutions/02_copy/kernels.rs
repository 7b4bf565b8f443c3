//! Kernels that do little but move memory.

use warpkov_device::device::{Global, GlobalMut, kernel, thread};

/// Elements that a thread of `copy` copies.
pub const EACH: u32 = 8;

/// y = x: each thread copies [`EACH`] elements.
///
/// *Safety*: x and y have `n` elements, and the grid has at least n / 8 threads.
#[kernel]
pub fn copy(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let thread = thread::index_1d() as u32;
    // ANCHOR: part1
    let threads = thread::grid_dim_x() * thread::block_dim_x();
    for k in 0..EACH {
        let i = k * threads + thread;
        if i < n {
            y.set(i as usize, x.get(i as usize));
        }
    }
    // ANCHOR_END: part1
}

/// Where the number `field` (0 … 7) of particle i lies, of `n` particles.
#[inline(always)]
fn place(n: u32, i: u32, field: u32) -> usize {
    // ANCHOR: part2
    (field * n + i) as usize
    // ANCHOR_END: part2
}

/// `out[i]` = ½·m·|v|² of particle i: fields 3, 4 and 5 are the velocity v, field 6 is the mass m.
///
/// *Safety*: particles has 8 · `n` elements, out has `n`.
#[kernel]
pub fn energy(n: u32, particles: Global<f32>, out: GlobalMut<f32>) {
    let i = thread::index_1d() as u32;
    if i < n {
        let vx = particles.get(place(n, i, 3));
        let vy = particles.get(place(n, i, 4));
        let vz = particles.get(place(n, i, 5));
        let mass = particles.get(place(n, i, 6));
        out.set(i as usize, 0.5 * mass * (vx * vx + vy * vy + vz * vz));
    }
}

/// y = factor · x.
///
/// *Safety*: x and y have `n` elements.
#[kernel]
pub fn scale(n: u32, factor: f32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    // ANCHOR: part3
    let (n, whole) = (n as usize, n as usize / 4);
    if i < whole {
        y.set4(i, x.get4(i).map(|x| factor * x));
    } else if i < whole + n % 4 {
        // The last n mod 4 elements, one each.
        let last = 4 * whole + (i - whole);
        y.set(last, factor * x.get(last));
    }
    // ANCHOR_END: part3
}
