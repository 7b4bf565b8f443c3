//! Kernels that do little but move memory.

use warpkov_device::device::prelude::*;
use warpkov_device::device::safe::*;

/// Elements that a thread of `copy` copies.
pub const EACH: u32 = 8;

/// y = x: each of n / 8 threads copies [`EACH`] elements.
// ANCHOR: part1
#[kernel(safe)]
pub fn copy<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    for i in n.elements() {
        y.set(&i, x.get(&i));
    }
}
// ANCHOR_END: part1

/// Where the number `field` (0 … 7) of particle i lies, of `n` particles.
#[inline(always)]
fn place(n: usize, i: usize, field: usize) -> usize {
    // ANCHOR: part2
    field * n + i
    // ANCHOR_END: part2
}

/// `out[i]` = ½·m·|v|² of particle i: fields 3, 4 and 5 are the velocity v, field 6 is the mass m.
#[kernel(safe, requires(particles.len() >= 8 * n))]
pub fn energy<'n>(n: Len<'n>, particles: Slice<f32>, out: Out<'n, f32>) {
    if let Some(own) = n.element() {
        let (n, i) = (n.get() as usize, own.index().get());
        let vx = particles.get(place(n, i, 3));
        let vy = particles.get(place(n, i, 4));
        let vz = particles.get(place(n, i, 5));
        let mass = particles.get(place(n, i, 6));
        out.set(&own, 0.5 * mass * (vx * vx + vy * vy + vz * vz));
    }
}

/// y = factor · x.
// ANCHOR: part3
#[kernel(safe)]
pub fn scale<'q>(quads: Len<'q>, factor: f32, x: In<'q, [f32; 4]>, y: Out<'q, [f32; 4]>) {
    if let Some(i) = quads.element() {
        y.set(&i, x.get(&i).map(|x| factor * x));
    }
}
// ANCHOR_END: part3
