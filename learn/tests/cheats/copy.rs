//! Chapter 2.

use learn::check::{Verdict, emulated};
use learn::copy::{Check, Copies, Particle};
use learn::{Device, Shape};

use crate::{Case, fails, passes};

mod chunks {
    use warpkov_device::device::prelude::*;
    use warpkov_device::device::safe::*;

    /// Thread t copies the elements 8t … 8t + 7.
    #[kernel(safe)]
    pub fn copy<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32, ByRun<8>>) {
        for i in n.run::<8>().into_iter().flatten() {
            y.set(&i, x.get(&i));
        }
    }

    /// Thread t scales eight times four elements.
    #[kernel(safe)]
    pub fn scale<'q>(quads: Len<'q>, factor: f32, x: In<'q, [f32; 4]>, y: Out<'q, [f32; 4], ByRun<8>>) {
        for i in quads.run::<8>().into_iter().flatten() {
            y.set(&i, x.get(&i).map(|x| factor * x));
        }
    }
}

mod blocks {
    use warpkov_device::device::prelude::*;

    /// Thread t copies the elements 8t … 8t + 7.
    #[kernel]
    pub fn copy(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
        let first = 8 * thread::index_1d() as u32;
        for i in first..n.min(first + 8) {
            y.set(i, x.get(i));
        }
    }
}

mod wide {
    use warpkov_device::device::prelude::*;
    use warpkov_device::device::safe::*;

    #[kernel]
    pub fn copy(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
        let mut i = thread::index_1d() as u32;
        while 4 * i + 4 <= n {
            y.set4(i, x.get4(i));
            i += thread::grid_dim_x() * thread::block_dim_x();
        }
        for i in 4 * i..n {
            y.set(i, x.get(i));
        }
    }

    /// The velocity and the mass of a particle lie together.
    #[kernel]
    pub fn energy(n: u32, particles: Global<f32>, out: GlobalMut<f32>) {
        let i = thread::index_1d() as u32;
        if i < n {
            let [vx, vy, vz, mass] = particles.get4(i);
            out.set(i, 0.5 * mass * (vx * vx + vy * vy + vz * vz));
        }
    }

    #[kernel(safe)]
    pub fn scale<'q>(quads: Len<'q>, factor: f32, x: In<'q, [f32; 4]>, y: Out<'q, [f32; 4]>) {
        for i in quads.elements() {
            y.set(&i, x.get(&i).map(|x| factor * x));
        }
    }
}

const CHUNKS: u32 = 0;
const CHUNKS_OF_BLOCKS: u32 = 1;
const WIDE: u32 = 2;

struct Launch<const CASE: u32>;

impl<const CASE: u32> Copies for Launch<CASE> {
    fn copy<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        let eighths = n.div_ceil(8).into();
        match CASE {
            CHUNKS => chunks::copy(device, Shape::cover(eighths, 256), n, x, y),
            // SAFETY: the vectors have n elements.
            CHUNKS_OF_BLOCKS => unsafe { blocks::copy(device, Shape::cover(eighths, 1), n, x, y) },
            // SAFETY: the vectors have n elements.
            _ => unsafe { wide::copy(device, Shape::cover(eighths, 256), n, x, y) },
        }
    }

    fn layout(particles: &[Particle]) -> Vec<f32> {
        let mut first: Vec<f32> = particles.iter().flat_map(|particle| particle[3..7].to_vec()).collect();
        first.extend(particles.iter().flat_map(|&[x, y, z, .., charge]| [x, y, z, charge]));
        first
    }

    fn energy<D: Device>(
        device: &D,
        n: u32,
        particles: &D::Buffer<f32>,
        energy: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        // SAFETY: there are n energies, and eight numbers of each particle.
        unsafe { wide::energy(device, Shape::cover(n.into(), 256), n, particles, energy) }
    }

    fn scale<D: Device>(
        device: &D,
        n: u32,
        factor: f32,
        x: &D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let quads = n.div_ceil(4);
        match CASE {
            CHUNKS => chunks::scale(device, Shape::cover(quads.div_ceil(8).into(), 64), quads, factor, x, y),
            _ => wide::scale(device, Shape::cover(quads.div_ceil(2).into(), 256), quads, factor, x, y),
        }
    }
}

fn case<const CASE: u32, const PART: usize>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(PART)
}

pub const CASES: &[Case] = &[
    fails("contiguous chunks", case::<CHUNKS, 0>, "at most 2048 sectors of loads of copy"),
    fails("contiguous chunks, blocks of one thread", case::<CHUNKS_OF_BLOCKS, 0>, "parallelism of copy"),
    fails("contiguous chunks of four", case::<CHUNKS, 2>, "at most 2049 sectors of loads of scale"),
    passes("four elements at a time", case::<WIDE, 0>),
    passes("four fields at a time", case::<WIDE, 1>),
    passes("a grid-stride loop", case::<WIDE, 2>),
];
