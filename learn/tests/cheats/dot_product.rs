//! Chapter 6.

use learn::check::{Verdict, emulated};
use learn::dot_product::{Check, DotProduct};
use learn::{Device, Shape};
use warpkov_device::device::prelude::*;

use crate::{Case, fails, passes};

#[path = "../../solutions/06_dot_product/kernels.rs"]
#[allow(dead_code, reason = "only the last kernel is launched")]
mod solution;

/// Thread 0 adds the `each` products of the block.
fn serial(each: u32, n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
    let first = each * thread::block_idx_x();
    if thread::thread_idx_x() == 0 {
        let mut sum = 0.0;
        for i in first..n.min(first + each) {
            sum += x.get(i) * y.get(i);
        }
        partials.set(thread::block_idx_x(), sum);
    }
}

/// All threads multiply, and thread 0 adds.
fn gathered(each: u32, n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
    let products = shared::dynamic_shared_mem::<f32>();
    let (i, t) = (each * thread::block_idx_x() + thread::thread_idx_x(), thread::thread_idx_x());
    products.set(t, if i < n { x.get(i) * y.get(i) } else { 0.0 });
    thread::sync_threads();
    if t == 0 {
        let mut sum = 0.0;
        for i in 0..256 {
            sum += products.get(i);
        }
        partials.set(thread::block_idx_x(), sum);
    }
}

macro_rules! kernels {
    ($($module:ident)*) => {$(
        mod $module {
            use warpkov_device::device::prelude::*;

            #[kernel]
            pub fn dot_tree(n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
                super::$module(256, n, x, y, partials);
            }

            #[kernel]
            pub fn dot_shuffle(n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
                super::$module(256, n, x, y, partials);
            }

            #[kernel]
            pub fn dot_block(n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
                super::$module(2048, n, x, y, partials);
            }
        }
    )*};
}
kernels!(serial gathered);

mod wide {
    use warpkov_device::device::prelude::*;

    /// The sum of the block, in blocks of 256 threads.
    fn finish(mut sum: f32, partials: GlobalMut<f32>) {
        let sums = shared::dynamic_shared_mem::<f32>();
        let t = thread::thread_idx_x();
        sum = warp::reduce(sum, |a, b| a + b);
        if warp::lane_id() == 0 {
            sums.set(warp::warp_id(), sum);
        }
        thread::sync_threads();
        if warp::warp_id() == 0 {
            let own = if t < 8 { sums.get(t) } else { 0.0 };
            sum = warp::reduce_width(own, 8, |a, b| a + b);
        }
        if t == 0 {
            partials.set(thread::block_idx_x(), sum);
        }
    }

    /// Four products at a time, in a grid-stride loop.
    #[kernel]
    pub fn dot_block(n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
        let mut i = thread::index_1d() as u32;
        let mut sum = 0.0;
        while 4 * i + 4 <= n {
            let (x, y) = (x.get4(i), y.get4(i));
            for k in 0..4 {
                sum += x[k] * y[k];
            }
            i += thread::grid_dim_x() * thread::block_dim_x();
        }
        for i in 4 * i..n {
            sum += x.get(i) * y.get(i);
        }
        finish(sum, partials);
    }
}

const SERIAL: u32 = 0;
const GATHERED: u32 = 1;
const WIDE: u32 = 2;

struct Launch<const CASE: u32>;

impl<const CASE: u32> DotProduct for Launch<CASE> {
    fn dot_product<D: Device>(
        device: &D,
        part: usize,
        n: u32,
        x: &D::Buffer<f32>,
        y: &D::Buffer<f32>,
        partials: &mut D::Buffer<f32>,
        result: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let blocks = n.div_ceil(if part == 3 { 2048 } else { 256 });
        let shape = Shape::new(blocks, 256).with_shared(1024);
        // SAFETY: x and y have n elements, partials at least one for each block, result one.
        unsafe {
            match (CASE, part) {
                (SERIAL, 1) => serial::dot_tree(device, shape, n, x, y, partials)?,
                (SERIAL, 2) => serial::dot_shuffle(device, shape, n, x, y, partials)?,
                (SERIAL, _) => serial::dot_block(device, shape, n, x, y, partials)?,
                (GATHERED, 1) => gathered::dot_tree(device, shape, n, x, y, partials)?,
                (GATHERED, 2) => gathered::dot_shuffle(device, shape, n, x, y, partials)?,
                (GATHERED, _) => gathered::dot_block(device, shape, n, x, y, partials)?,
                _ => wide::dot_block(device, shape, n, x, y, partials)?,
            }
            let last = Shape::new(1, solution::LAST).with_shared(4 * solution::LAST);
            solution::sum_partials(device, last, blocks, partials, result)
        }
    }
}

fn case<const CASE: u32, const PART: usize>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(PART)
}

pub const CASES: &[Case] = &[
    fails("thread 0 adds all, part 1", case::<SERIAL, 0>, "parallelism of dot_tree"),
    fails("thread 0 adds all, part 2", case::<SERIAL, 1>, "parallelism of dot_shuffle"),
    fails("thread 0 adds all, part 3", case::<SERIAL, 2>, "parallelism of dot_block"),
    fails("thread 0 adds all products of the block, part 1", case::<GATHERED, 0>, "parallelism of dot_tree"),
    fails("thread 0 adds all products of the block, part 2", case::<GATHERED, 1>, "parallelism of dot_shuffle"),
    passes("four elements at a time, in a grid-stride loop", case::<WIDE, 2>),
];
