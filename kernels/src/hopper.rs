//! Kernels for GPUs of compute capability 9.0 and newer: clusters. Each shows one primitive; the test suite runs them under emulation
//! and on such GPUs.

use atomic::{AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, Named, Word, atomic, cluster, kernel, thread};
use warpkov_device::shared_array;

/// Bins of one block in [`cluster_histogram`].
pub const BINS: u32 = 256;

/// Passes the elements of each block to the next block of its cluster: y = x, rotated by a block within each cluster. The way there is by
/// a store, that of the results by a load.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: 128 words, static. *Barriers*: four of the cluster. *Deterministic*: yes.
/// - *Valid result in*: `y` and `z`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | threads of the grid | |
/// | `y` | threads of the grid | from the block before in the cluster |
/// | `z` | threads of the grid | from the block after |
#[kernel(
    cluster = 4,
    T = [f32, u64],
    requires(
        x.len() >= shape.threads,
        y.len() >= shape.threads,
        z.len() >= shape.threads,
        shape.block == 64,
        shape.dimensions == 1,
    )
)]
pub fn cluster_rotate<T: Word + Named>(x: Global<T>, y: GlobalMut<T>, z: GlobalMut<T>) {
    let (passed, own) = (shared_array!(rotate_passed: T; 64), shared_array!(rotate_own: T; 64));
    let (t, i) = (thread::thread_idx_x(), thread::index_1d() as usize);
    let next = (cluster::rank() + 1) % cluster::size();
    // Until here, the next block may not have begun.
    cluster::sync();
    cluster::map(passed, next).set(t, x.get(i));
    own.set(t, x.get(i));
    cluster::sync();
    y.set(i, passed.get(t));
    z.set(i, cluster::map(own, next).get(t));
    // The next block keeps its memory until all have read.
    cluster::sync();
}

/// Counts of keys, in bins that are distributed over the shared memory of a cluster: block r holds the bins 256·r … 256·r + 255.
///
/// - *Thread mapping*: a grid-stride loop over keys.
/// - *Shared memory*: 256 words, static. *Barriers*: two of the cluster. *Deterministic*: yes. *Valid result in*: `counts`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `keys` | n | 0 … 1023; others are not counted |
/// | `counts` | 1024 | 0 before the launch |
#[kernel(
    cluster = 4,
    requires(keys.len() >= n, counts.len() >= 4 * BINS, shape.block == 256, shape.dimensions == 1)
)]
pub fn cluster_histogram(n: u32, keys: Global<u32>, counts: GlobalMut<u32>) {
    let bins = shared_array!(histogram_bins: u32; 256);
    let (t, first) = (thread::thread_idx_x(), thread::index_1d() as usize);
    bins.set(t, 0);
    cluster::sync();
    for i in (first..n as usize).step_by((thread::grid_dim_x() * thread::block_dim_x()) as usize) {
        let key = keys.get(i);
        if key < BINS * cluster::size() {
            let bins = cluster::map(bins, key / BINS);
            u32::fetch_add((bins, key % BINS), 1, Ordering::Relaxed, Scope::Device);
        }
    }
    cluster::sync();
    atomic::add((counts, (cluster::rank() * BINS + t) as usize), bins.get(t));
}
