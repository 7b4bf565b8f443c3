//! Chapter 0.

use learn::check::{Verdict, emulated};
use learn::vector_add::{Check, VectorAdd};
use learn::{Device, Shape};

use crate::{Case, fails, passes};

#[path = "../../solutions/00_vector_add/kernels.rs"]
mod solution;

mod strided {
    use warpkov_device::device::prelude::*;

    /// The first `threads` threads do all the work.
    #[kernel]
    pub fn vector_add(threads: u32, n: u32, x: Global<f32>, y: Global<f32>, z: GlobalMut<f32>) {
        let mut i = thread::index_1d() as u32;
        while i < n && thread::index_1d() < threads.into() {
            z.set(i, x.get(i) + y.get(i));
            i += threads;
        }
    }

    /// The same under another name.
    #[kernel]
    pub fn work(threads: u32, n: u32, x: Global<f32>, y: Global<f32>, z: GlobalMut<f32>) {
        let mut i = thread::index_1d() as u32;
        while i < n && thread::index_1d() < threads.into() {
            z.set(i, x.get(i) + y.get(i));
            i += threads;
        }
    }
}

mod first_warps {
    use warpkov_device::device::prelude::*;

    /// The first warp of each block of 256 threads does the work of all.
    #[kernel]
    pub fn vector_add(n: u32, x: Global<f32>, y: Global<f32>, z: GlobalMut<f32>) {
        if thread::thread_idx_x() < 32 {
            for warp in 0..8 {
                let i = 256 * thread::block_idx_x() + 32 * warp + thread::thread_idx_x();
                if i < n {
                    z.set(i, x.get(i) + y.get(i));
                }
            }
        }
    }
}

mod barriers {
    use warpkov_device::device::prelude::*;

    #[kernel]
    pub fn vector_add(n: u32, x: Global<f32>, y: Global<f32>, z: GlobalMut<f32>) {
        for _ in 0..100 {
            thread::sync_threads();
        }
        let i = thread::index_1d();
        if i < n.into() {
            z.set(i, x.get(i) + y.get(i));
        }
    }
}

mod shared_memory {
    use warpkov_device::device::prelude::*;

    #[kernel]
    pub fn vector_add(n: u32, x: Global<f32>, y: Global<f32>, z: GlobalMut<f32>) {
        let large = shared::dynamic_shared_mem::<f32>();
        let (i, t) = (thread::index_1d(), thread::thread_idx_x());
        if i < n.into() {
            large.set(t, x.get(i) + y.get(i));
            z.set(i, large.get(t));
        }
    }
}

mod wide {
    use warpkov_device::device::prelude::*;

    /// Four elements at a time.
    #[kernel]
    pub fn vector_add(n: u32, x: Global<f32>, y: Global<f32>, z: GlobalMut<f32>) {
        let i = thread::index_1d() as u32;
        if 4 * i + 4 <= n {
            let (x, y) = (x.get4(i), y.get4(i));
            return z.set4(i, [0, 1, 2, 3].map(|k| x[k] + y[k]));
        }
        for i in 4 * i..n {
            z.set(i, x.get(i) + y.get(i));
        }
    }
}

const ONE_THREAD: u32 = 0;
const ONE_WARP: u32 = 1;
const TWO_WARPS: u32 = 2;
const BLOCKS_OF_ONE_THREAD: u32 = 3;
const FIRST_WARPS: u32 = 4;
const FIXED_SHAPE: u32 = 5;
const HOST: u32 = 6;
const OTHER_KERNEL: u32 = 7;
const BARRIERS: u32 = 8;
const SHARED_MEMORY: u32 = 9;
const GRID_STRIDE: u32 = 10;
const MULTIPROCESSORS: u32 = 11;
const WIDE: u32 = 12;
const LARGE_BLOCKS: u32 = 13;
const FEW_BLOCKS: u32 = 14;

struct Launch<const CASE: u32>;

impl<const CASE: u32> VectorAdd for Launch<CASE> {
    fn vector_add<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<f32>,
        y: &D::Buffer<f32>,
        z: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let cover = Shape::cover(n.into(), 256);
        // SAFETY: the vectors have n elements.
        unsafe {
            match CASE {
                ONE_THREAD => strided::vector_add(device, cover, 1, n, x, y, z),
                ONE_WARP => strided::vector_add(device, Shape::new(1, 32), 32, n, x, y, z),
                TWO_WARPS => strided::vector_add(device, Shape::new(2, 32), 64, n, x, y, z),
                BLOCKS_OF_ONE_THREAD => strided::vector_add(device, Shape::new(n, 1), n, n, x, y, z),
                FIRST_WARPS => first_warps::vector_add(device, cover, n, x, y, z),
                FIXED_SHAPE => solution::vector_add(device, Shape::new(1000, 1024), n, x, y, z),
                FEW_BLOCKS => solution::vector_add(device, Shape::new(132, 1024), n, x, y, z),
                HOST => {
                    let (x, y) = (device.to_vec(x)?, device.to_vec(y)?);
                    let sums: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
                    let (sums, zeros) = (device.upload(&sums)?, device.zeros(n as usize)?);
                    solution::vector_add(device, cover, n, &sums, &zeros, z)
                }
                OTHER_KERNEL => {
                    solution::vector_add(device, cover, n, x, y, z)?;
                    strided::work(device, Shape::new(1, 1), 1, n, x, y, z)
                }
                BARRIERS => barriers::vector_add(device, cover, n, x, y, z),
                SHARED_MEMORY => shared_memory::vector_add(device, cover.with_shared(224_000), n, x, y, z),
                GRID_STRIDE => {
                    let shape = Shape::cover(n.div_ceil(8).into(), 256);
                    strided::vector_add(device, shape, 256 * shape.grid.x, n, x, y, z)
                }
                MULTIPROCESSORS => strided::vector_add(device, Shape::new(132, 256), 132 * 256, n, x, y, z),
                WIDE => wide::vector_add(device, Shape::cover(n.div_ceil(4).into(), 256), n, x, y, z),
                _ => solution::vector_add(device, Shape::cover(n.into(), 1024), n, x, y, z),
            }
        }
    }
}

fn case<const CASE: u32>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(0)
}

const PARALLELISM: &str = "parallelism of vector_add";

pub const CASES: &[Case] = &[
    fails("one thread", case::<ONE_THREAD>, PARALLELISM),
    fails("one warp", case::<ONE_WARP>, PARALLELISM),
    fails("two blocks of one warp", case::<TWO_WARPS>, PARALLELISM),
    fails("blocks of one thread", case::<BLOCKS_OF_ONE_THREAD>, PARALLELISM),
    fails("the first warp of each block", case::<FIRST_WARPS>, PARALLELISM),
    fails("a fixed shape", case::<FIXED_SHAPE>, PARALLELISM),
    fails("a fixed shape of few blocks", case::<FEW_BLOCKS>, "results in ascending order"),
    fails("the host computes", case::<HOST>, "no copies between host and device"),
    fails("another kernel", case::<OTHER_KERNEL>, "at most 0 launches beside vector_add"),
    fails("100 barriers", case::<BARRIERS>, PARALLELISM),
    fails("224,000 bytes of shared memory", case::<SHARED_MEMORY>, PARALLELISM),
    passes("a grid-stride loop", case::<GRID_STRIDE>),
    passes("a grid-stride loop of a block per multiprocessor", case::<MULTIPROCESSORS>),
    passes("four elements at a time", case::<WIDE>),
    passes("blocks of 1024 threads", case::<LARGE_BLOCKS>),
];
