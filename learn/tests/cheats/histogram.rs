//! Chapter 3.

use learn::check::{Verdict, emulated};
use learn::histogram::{Check, Histogram};
use learn::{Device, Shape};

use crate::{Case, fails, passes};

mod serial {
    use warpkov_device::device::prelude::*;

    /// One thread, which needs no atomic operations.
    #[kernel]
    pub fn histogram(n: u32, x: Global<u32>, bins: GlobalMut<u32>) {
        if thread::index_1d() == 0 {
            for i in 0..n {
                let value = x.get(i);
                bins.set(value, bins.get(value) + 1);
            }
        }
    }

    /// Thread 0 of each block counts for it.
    #[kernel]
    pub fn histogram_by_blocks(n: u32, x: Global<u32>, bins: GlobalMut<u32>) {
        let private = shared_array!(serial: u32; 256);
        let t = thread::thread_idx_x();
        private.set(t, 0);
        thread::sync_threads();
        if t == 0 {
            for i in 0..256 {
                let i = 256 * thread::block_idx_x() + i;
                if i < n {
                    let value = x.get(i);
                    private.set(value, private.get(value) + 1);
                }
            }
        }
        thread::sync_threads();
        if private.get(t) > 0 {
            atomic::add((bins, t as usize), private.get(t));
        }
    }

    /// Lane 0 of each warp counts for it.
    #[kernel]
    pub fn count_above(n: u32, threshold: u32, x: Global<u32>, count: GlobalMut<u32>) {
        let first = thread::index_1d() as u32;
        if warp::lane_id() == 0 {
            let mut above = 0;
            for i in first..n.min(first + 32) {
                above += u32::from(x.get(i) > threshold);
            }
            if above > 0 {
                atomic::add((count, 0), above);
            }
        }
    }
}

mod large {
    use warpkov_device::device::prelude::*;

    /// A private histogram that leaves no room for another block.
    #[kernel]
    pub fn histogram_by_blocks(declared: u32, n: u32, x: Global<u32>, bins: GlobalMut<u32>) {
        let private =
            if declared == 0 { shared::dynamic_shared_mem() } else { shared_array!(large: u32; 56_000) };
        let (i, t) = (thread::index_1d(), thread::thread_idx_x());
        private.set(t, 0);
        thread::sync_threads();
        if i < n.into() {
            atomic::add((private, x.get(i)), 1);
        }
        thread::sync_threads();
        if private.get(t) > 0 {
            atomic::add((bins, t as usize), private.get(t));
        }
    }
}

mod strided {
    use warpkov_device::device::prelude::*;
    use warpkov_device::device::safe::{Atomics, In, Len};
    use warpkov_device::tile;

    /// Four elements at a time.
    #[kernel]
    pub fn histogram(n: u32, x: Global<u32>, bins: GlobalMut<u32>) {
        let i = thread::index_1d() as u32;
        if 4 * i + 4 <= n {
            for value in x.get4(i) {
                atomic::add((bins, value as usize), 1);
            }
            return;
        }
        for i in 4 * i..n {
            atomic::add((bins, x.get(i) as usize), 1);
        }
    }

    #[kernel(safe, requires(bins.len() >= 256, shape.block == 256))]
    pub fn histogram_by_blocks<'n>(n: Len<'n>, x: In<'n, u32>, bins: Atomics<u32>) {
        let mut private = tile!(private: u32; 256);
        let counts = private.sums(|private| {
            for i in n.elements() {
                private.add(x.get(&i), 1);
            }
        });
        let t = thread::thread_idx_x();
        if counts.get(t) > 0 {
            atomic::add(bins.at(t), counts.get(t));
        }
    }

    #[kernel(safe)]
    pub fn count_above<'n>(n: Len<'n>, threshold: u32, x: In<'n, u32>, count: Atomics<u32>) {
        let mut above = 0;
        for i in n.elements() {
            above += u32::from(x.get(&i) > threshold);
        }
        let above = warp::sum_u32(warp::FULL, above);
        if warp::lane_id() == 0 && above > 0 {
            atomic::add(count.at(0), above);
        }
    }
}

const SERIAL: u32 = 0;
const LARGE: u32 = 1;
const STRIDED: u32 = 2;
const DECLARED: u32 = 3;

struct Launch<const CASE: u32>;

impl<const CASE: u32> Histogram for Launch<CASE> {
    fn histogram<D: Device>(device: &D, n: u32, x: &D::Buffer<u32>, bins: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        // SAFETY: x has n elements, and there is a bin for each value.
        unsafe {
            match CASE {
                SERIAL => serial::histogram(device, Shape::new(1, 32), n, x, bins),
                _ => strided::histogram(device, Shape::cover(n.div_ceil(4).into(), 256), n, x, bins),
            }
        }
    }

    fn histogram_by_blocks<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        bins: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        let shape = Shape::cover(n.into(), 256);
        // SAFETY: x has n elements, and there is a bin for each value.
        unsafe {
            match CASE {
                SERIAL => serial::histogram_by_blocks(device, shape, n, x, bins),
                LARGE => large::histogram_by_blocks(device, shape.with_shared(224_000), 0, n, x, bins),
                DECLARED => large::histogram_by_blocks(device, shape, 1, n, x, bins),
                _ => strided::histogram_by_blocks(device, Shape::cover(n.div_ceil(8).into(), 256), n, x, bins),
            }
        }
    }

    fn count_above<D: Device>(
        device: &D,
        n: u32,
        threshold: u32,
        x: &D::Buffer<u32>,
        count: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        let shape = Shape::cover(n.into(), 256);
        match CASE {
            // SAFETY: x has n elements.
            SERIAL => unsafe { serial::count_above(device, shape, n, threshold, x, count) },
            _ => strided::count_above(device, Shape::cover(n.div_ceil(8).into(), 256), n, threshold, x, count),
        }
    }
}

fn case<const CASE: u32, const PART: usize>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(PART)
}

pub const CASES: &[Case] = &[
    fails("one thread without atomic operations", case::<SERIAL, 0>, "parallelism of histogram"),
    fails("one thread per block", case::<SERIAL, 1>, "parallelism of histogram_by_blocks"),
    fails("one lane per warp", case::<SERIAL, 2>, "parallelism of count_above"),
    fails("224,000 bytes of shared memory", case::<LARGE, 1>, "parallelism of histogram_by_blocks"),
    // The emulator refuses them.
    fails("224,000 bytes of static shared memory", case::<DECLARED, 1>, "results in ascending order"),
    passes("four elements at a time", case::<STRIDED, 0>),
    passes("a grid-stride loop", case::<STRIDED, 1>),
    passes("a grid-stride loop, and a sum per warp", case::<STRIDED, 2>),
];
