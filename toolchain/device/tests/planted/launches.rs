//! The launches of the kernels, on any device.

use std::fmt::Debug;

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Device, Shape, Swizzle, Tensor};

use super::kernels::*;

/// A mistake.
pub struct Planted<D: Device> {
    /// In words.
    pub title: &'static str,
    pub kernel: &'static str,
    /// The start of the emulator's report.
    pub report: &'static str,
    /// The array; empty if the fault is of none.
    pub array: &'static str,
    /// Launches the kernel: with the fault if the number is 1.
    pub run: fn(&D, u32) -> Result<(), D::Error>,
}

macro_rules! launch {
    ($kernel:ident($device:expr, $shape:expr $(, $argument:expr)*)) => {
        // SAFETY: the emulator checks every access. On a GPU, a fault is the purpose, and the process ends.
        unsafe { $kernel($device, $shape $(, $argument)*) }
    };
}

/// Checks a result of the mended kernel.
fn expect<T: PartialEq + Debug + DeviceCopy, D: Device>(
    device: &D,
    buffer: &D::Buffer<T>,
    expected: impl Iterator<Item = T>,
) -> Result<(), D::Error> {
    assert_eq!(device.to_vec(buffer)?, expected.collect::<Vec<T>>());
    Ok(())
}

/// All mistakes.
#[rustfmt::skip]
pub fn planted<D: Device>() -> Vec<Planted<D>> {
    vec![
        Planted { title: "A histogram without atomic operations", kernel: "histogram", report: "race", array: "bins", run: run_histogram },
        Planted { title: "A sum without atomic operations", kernel: "sum", report: "race", array: "total", run: run_sum },
        Planted { title: "A maximum without atomic operations", kernel: "largest", report: "race", array: "best", run: run_largest },
        Planted { title: "A missing barrier, in global memory", kernel: "neighbours", report: "race", array: "values", run: run_neighbours },
        Planted { title: "A barrier does not order blocks", kernel: "other_blocks", report: "race", array: "values", run: run_other_blocks },
        Planted { title: "In-place reversal", kernel: "reverse_in_place", report: "race", array: "y", run: run_reverse_in_place },
        Planted { title: "Two threads write one element", kernel: "two_writers", report: "race", array: "out", run: run_two_writers },
        Planted { title: "Overlapping halos of two blocks", kernel: "halo", report: "race", array: "out", run: run_halo },
        Planted { title: "Several threads set a flag", kernel: "found", report: "race", array: "flag", run: run_found },
        Planted { title: "Threads mark an element with different values", kernel: "marks", report: "race", array: "flag", run: run_marks },
        Planted { title: "A plain read beside atomic operations", kernel: "count_and_read", report: "race", array: "count", run: run_count_and_read },
        Planted { title: "One of three readers is not ordered", kernel: "third_reader", report: "race", array: "values", run: run_third_reader },
        Planted { title: "A missing first barrier, in shared memory", kernel: "reverse_block", report: "race", array: "tile", run: run_reverse_block },
        Planted { title: "A missing barrier before a tile is overwritten", kernel: "reuse_of_a_tile", report: "race", array: "tile", run: run_reuse_of_a_tile },
        Planted { title: "A misplaced barrier", kernel: "misplaced_barrier", report: "race", array: "tile", run: run_misplaced_barrier },
        Planted { title: "A tree reduction without barriers", kernel: "tree", report: "race", array: "sums", run: run_tree },
        Planted { title: "A warp that is expected to run in step", kernel: "last_warp", report: "race", array: "sums", run: run_last_warp },
        Planted { title: "sync_warp instead of sync_threads", kernel: "warp_for_block", report: "race", array: "tile", run: run_warp_for_block },
        Planted { title: "A shuffle instead of sync_warp", kernel: "shuffle_for_sync", report: "race", array: "tile", run: run_shuffle_for_sync },
        Planted { title: "A shared histogram without atomic operations", kernel: "shared_histogram", report: "race", array: "local", run: run_shared_histogram },
        Planted { title: "Counting before the counter is zero", kernel: "counting_before_zeros", report: "race", array: "count", run: run_counting_before_zeros },
        Planted { title: "Every thread writes the same value", kernel: "every_thread_writes", report: "race", array: "cell", run: run_every_thread_writes },
        Planted { title: "An asynchronous copy without wait", kernel: "copy_without_wait", report: "race", array: "tile", run: run_copy_without_wait },
        Planted { title: "An asynchronous copy without a barrier", kernel: "copy_without_barrier", report: "race", array: "tile", run: run_copy_without_barrier },
        Planted { title: "A pipeline with too few stages", kernel: "pipeline_too_short", report: "race", array: "stages", run: run_pipeline_too_short },
        Planted { title: "A misaligned asynchronous copy", kernel: "misaligned_copy", report: "misaligned", array: "x", run: run_misaligned_copy },
        Planted { title: "A source that is overwritten before its copy has ended", kernel: "overwritten_source", report: "race", array: "x", run: run_overwritten_source },
        Planted { title: "A return before a barrier", kernel: "early_return", report: "barrier divergence", array: "", run: run_early_return },
        Planted { title: "A barrier in a loop of different lengths", kernel: "barrier_in_a_loop", report: "barrier divergence", array: "", run: run_barrier_in_a_loop },
        Planted { title: "A lane that does not take part", kernel: "missing_lane", report: "warp divergence", array: "", run: run_missing_lane },
        Planted { title: "A lane outside of its mask", kernel: "outside_of_the_mask", report: "lane ", array: "", run: run_outside_of_the_mask },
        Planted { title: "A shuffle from a lane outside of the mask", kernel: "shuffle_from_outside", report: "a shuffle", array: "", run: run_shuffle_from_outside },
        Planted { title: "An index off by one", kernel: "off_by_one", report: "out of bounds", array: "x", run: run_off_by_one },
        Planted { title: "A forgotten guard", kernel: "forgotten_guard", report: "out of bounds", array: "y", run: run_forgotten_guard },
        Planted { title: "An index beyond a shared array", kernel: "beyond_a_tile", report: "out of bounds", array: "tile", run: run_beyond_a_tile },
        Planted { title: "Forgotten dynamic shared memory", kernel: "no_dynamic_memory", report: "out of bounds", array: "dynamic_shared_mem", run: run_no_dynamic_memory },
        Planted { title: "An index below zero", kernel: "underflow", report: "panic", array: "", run: run_underflow },
        Planted { title: "A misaligned 16-byte read", kernel: "misaligned_read", report: "misaligned", array: "x", run: run_misaligned_read },
        Planted { title: "A misaligned pair in shared memory", kernel: "misaligned_pair", report: "misaligned", array: "tile", run: run_misaligned_pair },
        Planted { title: "Shared memory that nothing has written", kernel: "unwritten_tile", report: "read of", array: "tile", run: run_unwritten_tile },
        Planted { title: "A sum into memory that nothing has written", kernel: "accumulate", report: "read of", array: "y", run: run_accumulate },
        Planted { title: "An element that the launch before has left out", kernel: "copy_all", report: "read of", array: "x", run: run_copy_all },
        Planted { title: "A last-block sum that does not release", kernel: "last_block", report: "race", array: "part", run: |device, broken| last_block_with(device, if broken == 1 { 1 } else { 0 }) },
        Planted { title: "A last-block sum that does not acquire", kernel: "last_block", report: "race", array: "part", run: |device, broken| last_block_with(device, if broken == 1 { 2 } else { 4 }) },
        Planted { title: "A last-block sum at the scope of a block", kernel: "last_block", report: "race", array: "arrived", run: |device, broken| last_block_with(device, if broken == 1 { 3 } else { 4 }) },
        Planted { title: "A look-back without ordering", kernel: "look_back", report: "race", array: "prefix", run: look_back_with },
        Planted { title: "A look-back that does not acquire", kernel: "look_back", report: "race", array: "prefix", run: |device, broken| look_back_with(device, 2 * broken) },
        Planted { title: "A look-back that does not release", kernel: "look_back", report: "race", array: "prefix", run: |device, broken| look_back_with(device, 3 * broken) },
        Planted { title: "A flag without atomic operations", kernel: "plain_flag", report: "race", array: "ready", run: run_plain_flag },
        Planted { title: "A counter at the scope of a block", kernel: "narrow_counter", report: "race", array: "count", run: run_narrow_counter },
        Planted { title: "A lock without ordering", kernel: "relaxed_lock", report: "race", array: "value", run: run_relaxed_lock },
        Planted { title: "A grid barrier that waits for too many", kernel: "grid_barrier", report: "no thread can continue", array: "gate", run: run_grid_barrier },
        Planted { title: "A grid barrier of more blocks than run at one time", kernel: "grid_barrier", report: "no thread can continue", array: "gate", run: run_too_many_blocks },
        Planted { title: "A lock that is never released", kernel: "lock", report: "no thread can continue", array: "cell", run: run_lock },
        Planted { title: "A flag that nobody raises", kernel: "shared_flag", report: "no thread can continue", array: "flag", run: run_shared_flag },
        Planted { title: "A loop without an end", kernel: "endless", report: "50001 steps", array: "", run: run_endless },
        Planted { title: "A barrier of the block in place of one of the grid", kernel: "shift_blocks", report: "race", array: "values", run: run_shift_blocks },
        Planted { title: "A block that misses the barrier of the grid", kernel: "block_without_work", report: "block divergence", array: "", run: run_block_without_work },
        Planted { title: "A missing barrier of the cluster", kernel: "read_neighbour", report: "race", array: "part", run: run_read_neighbour },
        Planted { title: "A write to a block that need not have begun", kernel: "write_to_a_neighbour", report: "distributed shared memory", array: "", run: run_write_to_a_neighbour },
        Planted { title: "A block that ends while another one reads its shared memory", kernel: "leave_early", report: "distributed shared memory", array: "", run: run_leave_early },
        Planted { title: "A block that misses the barrier of its cluster", kernel: "cluster_in_a_branch", report: "block divergence", array: "", run: run_cluster_in_a_branch },
        Planted { title: "A tile that is read before a bulk copy has ended", kernel: "bulk_read_early", report: "race", array: "tile", run: run_bulk_read_early },
        Planted { title: "A wait for a phase that has ended before", kernel: "bulk_phase", report: "race", array: "tile", run: run_bulk_phase },
        Planted { title: "A wait for a phase that never ends", kernel: "bulk_no_such_phase", report: "mbarrier", array: "full", run: run_bulk_no_such_phase },
        Planted { title: "More bytes than the barrier expects", kernel: "bulk_bytes", report: "mbarrier", array: "full", run: run_bulk_bytes },
        Planted { title: "Fewer bytes than the barrier expects", kernel: "bulk_bytes", report: "mbarrier", array: "full", run: run_bulk_bytes_2 },
        Planted { title: "A bulk copy of an odd size", kernel: "bulk_size", report: "bulk copy", array: "", run: run_bulk_size },
        Planted { title: "A bulk copy to an odd address", kernel: "bulk_place", report: "misaligned", array: "tile", run: run_bulk_place },
        Planted { title: "A missing fence after the initialisation of a barrier", kernel: "bulk_unfenced_barrier", report: "missing proxy fence", array: "full", run: run_bulk_unfenced_barrier },
        Planted { title: "A barrier in use before all know of it", kernel: "bulk_unordered_barrier", report: "race", array: "full", run: run_bulk_unordered_barrier },
        Planted { title: "A tile that a bulk copy overwrites too early", kernel: "bulk_reuse", report: "race", array: "tile", run: run_bulk_reuse },
        Planted { title: "A block that ends before a bulk copy to it", kernel: "bulk_unawaited", report: "bulk copy", array: "", run: run_bulk_unawaited },
        Planted { title: "A missing fence before a bulk copy reads", kernel: "bulk_unfenced", report: "missing proxy fence", array: "tile", run: run_bulk_unfenced },
        Planted { title: "A tile that is overwritten while a bulk copy reads it", kernel: "bulk_overwrite", report: "race", array: "tile", run: run_bulk_overwrite },
        Planted { title: "A thread that ends before its bulk copy has read", kernel: "bulk_leave", report: "bulk copy", array: "", run: run_bulk_leave },
        Planted { title: "A result of a bulk copy that is read too early", kernel: "bulk_result", report: "race", array: "y", run: run_bulk_result },
        Planted { title: "A tile of a tensor at an odd address", kernel: "tile_place", report: "misaligned", array: "tile", run: run_tile_place },
        Planted { title: "A tile of a tensor at an odd column", kernel: "tile_place", report: "bulk copy", array: "", run: run_tile_column },
        Planted { title: "A copy to a block that need not have begun", kernel: "multicast", report: "distributed shared memory", array: "", run: run_multicast_early },
        Planted { title: "A tile that another block overwrites too early", kernel: "multicast", report: "race", array: "tile", run: run_multicast_reuse },
        Planted { title: "A wait that does not count what other blocks have read", kernel: "multicast", report: "race", array: "tile", run: run_multicast_scope },
        Planted { title: "An accumulator that is read before its products have ended", kernel: "product_read_early", report: "wgmma", array: "", run: run_product_read_early },
        Planted { title: "A tile that is overwritten while a product reads it", kernel: "product_overwritten", report: "race", array: "dynamic_shared_mem", run: run_product_overwritten },
        Planted { title: "A missing fence between stores to a tile and a product", kernel: "product_without_fences", report: "missing proxy fence", array: "dynamic_shared_mem", run: run_product_unfenced_tile },
        Planted { title: "A missing fence between an accumulator and its product", kernel: "product_without_fences", report: "wgmma", array: "", run: run_product_unfenced_sum },
        Planted { title: "A read before the previous launch has written", kernel: "consume", report: "race", array: "x", run: run_consume },
        Planted { title: "A write before the previous launch has read", kernel: "overwrite", report: "race", array: "x", run: run_overwrite },
        Planted { title: "A read before the launch before the previous one has written", kernel: "read_early", report: "race", array: "x", run: run_read_early },
    ]
}

// Races in global memory.

fn run_histogram<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut bins = device.zeros(8)?;
    launch!(histogram(device, Shape::new(2, 64), broken, &x, &mut bins))?;
    expect(device, &bins, [16_u32; 8].into_iter())
}

fn run_sum<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut total) = (device.upload(&[2_u32; 96])?, device.zeros(1)?);
    launch!(sum(device, Shape::new(3, 32), broken, &x, &mut total))?;
    expect(device, &total, [192_u32].into_iter())
}

fn run_largest<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..64).map(|i| i * 37 % 64).collect::<Vec<u32>>())?;
    let mut best = device.zeros(1)?;
    launch!(largest(device, Shape::new(1, 64), broken, &x, &mut best))?;
    expect(device, &best, [63_u32].into_iter())
}

fn run_neighbours<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut values, mut out) = (device.zeros(64)?, device.zeros(64)?);
    launch!(neighbours(device, Shape::new(1, 64), broken, &mut values, &mut out))?;
    expect(device, &out, (0..64_u32).map(|t| 7 * (63 - t)))
}

fn run_other_blocks<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut values, mut out) = (device.zeros(96)?, device.zeros(96)?);
    launch!(other_blocks(device, Shape::new(3, 32), broken, &mut values, &mut out))
}

fn run_reverse_in_place<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x: Vec<u32> = (0..128).collect();
    let (x, mut y) = (device.upload(&x)?, device.upload(&x)?);
    launch!(reverse_in_place(device, Shape::new(4, 32), broken, &x, &mut y))?;
    expect(device, &y, (0..128_u32).rev())
}

fn run_two_writers<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(64)?;
    launch!(two_writers(device, Shape::new(2, 32), broken, &mut out))
}

fn run_halo<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(65)?;
    launch!(halo(device, Shape::new(2, 32), broken, &mut out))
}

fn run_found<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut flag) = (device.upload(&[1_u32, 5, 2, 9].repeat(16))?, device.zeros(1)?);
    launch!(found(device, Shape::new(2, 32), broken, &x, &mut flag))?;
    expect(device, &flag, [1_u32].into_iter())
}

fn run_marks<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut flag) = (device.upload(&[1_u32, 0, 1, 0].repeat(16))?, device.zeros(1)?);
    launch!(marks(device, Shape::new(2, 32), broken, &x, &mut flag))?;
    expect(device, &flag, [1_u32].into_iter())
}

fn run_count_and_read<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut count, mut out) = (device.zeros(1)?, device.zeros(1)?);
    launch!(count_and_read(device, Shape::new(1, 64), broken, &mut count, &mut out))?;
    expect(device, &out, [64_u32].into_iter())
}

fn run_third_reader<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut values, mut out) = (device.zeros(1)?, device.zeros(96)?);
    launch!(third_reader(device, Shape::new(1, 96), broken, &mut values, &mut out))
}

// Races in shared memory.

fn run_reverse_block<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.upload(&[1.5_f32; 64])?, device.zeros(64)?);
    launch!(reverse_block(device, Shape::new(1, 64), broken, &x, &mut y))
}

fn run_reuse_of_a_tile<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.upload(&[2_u32; 192])?, device.zeros(64)?);
    launch!(reuse_of_a_tile(device, Shape::new(1, 64), broken, &x, &mut y))?;
    expect(device, &y, [6_u32; 64].into_iter())
}

fn run_misplaced_barrier<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(64)?;
    launch!(misplaced_barrier(device, Shape::new(1, 64), broken, &mut out))
}

fn run_tree<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(1)?;
    launch!(tree(device, Shape::new(1, 128), broken, &mut out))?;
    expect(device, &out, [128_u32].into_iter())
}

fn run_last_warp<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(1)?;
    launch!(last_warp(device, Shape::new(1, 32), broken, &mut out))?;
    expect(device, &out, [64_u32].into_iter())
}

fn run_warp_for_block<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(64)?;
    launch!(warp_for_block(device, Shape::new(1, 64), broken, &mut out))
}

fn run_shuffle_for_sync<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(32)?;
    launch!(shuffle_for_sync(device, Shape::new(1, 32), broken, &mut out))
}

fn run_shared_histogram<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut bins = device.zeros(8)?;
    launch!(shared_histogram(device, Shape::new(2, 64), broken, &x, &mut bins))?;
    expect(device, &bins, [16_u32; 8].into_iter())
}

fn run_counting_before_zeros<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(1)?;
    launch!(counting_before_zeros(device, Shape::new(1, 64), broken, &mut out))?;
    expect(device, &out, [64_u32].into_iter())
}

fn run_every_thread_writes<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut out) = (device.upload(&[3_u32])?, device.zeros(64)?);
    launch!(every_thread_writes(device, Shape::new(1, 64), broken, &x, &mut out))
}

// Asynchronous copies.

fn run_copy_without_wait<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.upload(&[4_u32; 64])?, device.zeros(64)?);
    launch!(copy_without_wait(device, Shape::new(1, 64), broken, &x, &mut y))
}

fn run_copy_without_barrier<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.upload(&[4_u32; 64])?, device.zeros(64)?);
    launch!(copy_without_barrier(device, Shape::new(1, 64), broken, &x, &mut y))
}

fn run_pipeline_too_short<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.upload(&[4_u32; 128])?, device.zeros(32)?);
    launch!(pipeline_too_short(device, Shape::new(1, 32), broken, &x, &mut y))?;
    expect(device, &y, [16_u32; 32].into_iter())
}

// Barriers and warp operations.

fn run_misaligned_copy<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.upload(&(0..129).collect::<Vec<u32>>())?, device.zeros(32)?);
    launch!(misaligned_copy(device, Shape::new(1, 32), broken, &x, &mut y))?;
    expect(device, &y, (0..32_u32).map(|t| 4 * t))
}

fn run_overwritten_source<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut x, mut y) = (device.upload(&(0..64).collect::<Vec<u32>>())?, device.zeros(64)?);
    launch!(overwritten_source(device, Shape::new(1, 64), broken, &mut x, &mut y))?;
    expect(device, &y, 0..64)
}

fn run_early_return<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(40)?;
    launch!(early_return(device, Shape::new(1, 64), broken, 40, &mut out))
}

fn run_barrier_in_a_loop<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(64)?;
    launch!(barrier_in_a_loop(device, Shape::new(1, 64), broken, &mut out))
}

fn run_missing_lane<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(32)?;
    launch!(missing_lane(device, Shape::new(1, 32), broken, &mut out))
}

fn run_outside_of_the_mask<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(32)?;
    launch!(outside_of_the_mask(device, Shape::new(1, 32), broken, &mut out))
}

fn run_shuffle_from_outside<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(32)?;
    launch!(shuffle_from_outside(device, Shape::new(1, 32), broken, &mut out))
}

// Bounds and alignment.

fn run_off_by_one<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.zeros(64)?, device.zeros(64)?);
    launch!(off_by_one(device, Shape::new(2, 32), broken, &x, &mut y))
}

fn run_forgotten_guard<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(100)?;
    launch!(forgotten_guard(device, Shape::cover(100, 64), broken, 100, &mut y))
}

fn run_beyond_a_tile<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(32)?;
    launch!(beyond_a_tile(device, Shape::new(1, 32), broken, &mut y))
}

fn run_no_dynamic_memory<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.zeros(32)?, device.zeros(32)?);
    let shape = Shape::new(1, 32);
    launch!(no_dynamic_memory(device, if broken == 1 { shape } else { shape.with_shared(128) }, &x, &mut y))
}

fn run_underflow<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.zeros(32)?, device.zeros(32)?);
    launch!(underflow(device, Shape::new(1, 32), broken, &x, &mut y))
}

fn run_misaligned_read<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.zeros(140)?, device.zeros(32)?);
    launch!(misaligned_read(device, Shape::new(1, 32), broken, &x, &mut y))
}

fn run_misaligned_pair<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(32)?;
    launch!(misaligned_pair(device, Shape::new(1, 32), broken, &mut y))
}

// Memory without a value.

fn run_unwritten_tile<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(32)?;
    launch!(unwritten_tile(device, Shape::new(1, 32), broken, &mut y))
}

fn run_accumulate<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.zeros(64)?, device.uninitialised(64)?);
    if broken == 0 {
        device.clear(&mut y)?;
    }
    launch!(accumulate(device, Shape::new(2, 32), &x, &mut y))
}

fn run_copy_all<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut x, mut y) = (device.uninitialised(64)?, device.zeros(64)?);
    launch!(fill(device, Shape::new(2, 32), 64 - broken, &mut x))?;
    launch!(copy_all(device, Shape::new(2, 32), &x, &mut y))
}

// Communication between blocks.

fn last_block_with<D: Device>(device: &D, missing: u32) -> Result<(), D::Error> {
    let (mut part, mut arrived, mut total) = (device.zeros(6)?, device.zeros(1)?, device.zeros(1)?);
    launch!(last_block(device, Shape::new(6, 32), missing, &mut part, &mut arrived, &mut total))?;
    expect(device, &total, [21_u32].into_iter())
}

fn look_back_with<D: Device>(device: &D, mode: u32) -> Result<(), D::Error> {
    let (mut ticket, mut ready, mut prefix) = (device.zeros(1)?, device.zeros(6)?, device.zeros(6)?);
    launch!(look_back(device, Shape::new(6, 32), mode, &mut ticket, &mut ready, &mut prefix))?;
    expect(device, &prefix, 1..7_u32)
}

fn run_plain_flag<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut ready, mut out) = (device.zeros(1)?, device.zeros(2)?);
    launch!(plain_flag(device, Shape::new(2, 32), broken, &mut ready, &mut out))
}

fn run_grid_barrier<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut arrived, mut gate) = (device.zeros(1)?, device.zeros(1)?);
    let (mut part, mut out) = (device.zeros(3)?, device.zeros(3)?);
    launch!(grid_barrier(device, Shape::new(3, 32), 3 + broken, &mut arrived, &mut gate, &mut part, &mut out))?;
    expect(device, &out, [1_u32, 2, 0].into_iter())
}

/// A barrier of the grid that needs more blocks than run at one time.
fn run_too_many_blocks<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let blocks = if broken == 1 { 9 } else { 4 };
    let (mut arrived, mut gate) = (device.zeros(1)?, device.zeros(1)?);
    let (mut part, mut out) = (device.zeros(9)?, device.zeros(9)?);
    launch!(grid_barrier(device, Shape::new(blocks, 32), blocks, &mut arrived, &mut gate, &mut part, &mut out))
}

fn run_lock<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut cell, mut value) = (device.zeros(1)?, device.zeros(1)?);
    launch!(lock(device, Shape::new(3, 32), broken, &mut cell, &mut value))?;
    expect(device, &value, [3_u32].into_iter())
}

fn run_relaxed_lock<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut cell, mut value) = (device.zeros(1)?, device.zeros(1)?);
    launch!(relaxed_lock(device, Shape::new(2, 8), broken, &mut cell, &mut value))?;
    expect(device, &value, [16_u32].into_iter())
}

fn run_narrow_counter<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut count = device.zeros(1)?;
    launch!(narrow_counter(device, Shape::new(2, 32), broken, &mut count))
}

fn run_endless<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (x, mut y) = (device.zeros(100)?, device.zeros(100)?);
    launch!(endless(device, Shape::new(1, 32), broken, 100, &x, &mut y))
}

fn run_shared_flag<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(64)?;
    launch!(shared_flag(device, Shape::new(1, 64), broken, &mut out))
}

// Cooperative launches.

fn run_shift_blocks<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut values = device.upload(&(0..128).collect::<Vec<u32>>())?;
    launch!(shift_blocks(device, Shape::new(4, 32), broken, &mut values))?;
    expect(device, &values, (0..128_u32).map(|i| (i + 32) % 128 + 1))
}

fn run_block_without_work<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut values = device.zeros(100)?;
    launch!(block_without_work(device, Shape::new(3, 32), broken, 50, &mut values))?;
    expect(device, &values, (0..50_u32).chain((0..50).rev()))
}

// Clusters.

fn run_read_neighbour<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(128)?;
    launch!(read_neighbour(device, Shape::new(4, 32), broken, &mut out))
}

fn run_write_to_a_neighbour<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(128)?;
    launch!(write_to_a_neighbour(device, Shape::new(4, 32), broken, &mut out))
}

fn run_leave_early<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(128)?;
    launch!(leave_early(device, Shape::new(4, 32), broken, &mut out))
}

fn run_cluster_in_a_branch<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut out = device.zeros(128)?;
    launch!(cluster_in_a_branch(device, Shape::new(4, 32), broken, &mut out))
}

// Bulk copies.

fn run_bulk_read_early<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_read_early(device, Shape::new(1, 64), broken, &x, &mut y))?;
    expect(device, &y, (0..64_u32).chain([0; 64]))
}

fn run_bulk_phase<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_phase(device, Shape::new(1, 64), broken, &x, &mut y))?;
    expect(device, &y, 0..128_u32)
}

fn run_bulk_no_such_phase<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_no_such_phase(device, Shape::new(1, 64), broken, &x, &mut y))
}

fn run_bulk_bytes<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_bytes(device, Shape::new(1, 64), 256 - 64 * broken, &x, &mut y))
}

fn run_bulk_bytes_2<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_bytes(device, Shape::new(1, 64), 256 + 64 * broken, &x, &mut y))
}

fn run_bulk_size<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_size(device, Shape::new(1, 64), 64 - 2 * broken, &x, &mut y))
}

fn run_bulk_place<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_place(device, Shape::new(1, 64), broken, &x, &mut y))
}

fn run_bulk_unfenced_barrier<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_unfenced_barrier(device, Shape::new(1, 64), broken, &x, &mut y))
}

fn run_bulk_unordered_barrier<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(128)?;
    launch!(bulk_unordered_barrier(device, Shape::new(1, 64), broken, &mut y))
}

fn run_bulk_reuse<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(128)?;
    launch!(bulk_reuse(device, Shape::new(1, 64), broken, &x, &mut y))
}

fn run_bulk_unawaited<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    launch!(bulk_unawaited(device, Shape::new(1, 64), broken, &x))
}

fn run_bulk_unfenced<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(128)?;
    launch!(bulk_unfenced(device, Shape::new(1, 64), broken, &mut y))?;
    expect(device, &y, (0..64_u32).chain([0; 64]))
}

fn run_bulk_overwrite<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(128)?;
    launch!(bulk_overwrite(device, Shape::new(1, 64), broken, &mut y))?;
    expect(device, &y, 0..128_u32)
}

fn run_bulk_leave<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(128)?;
    launch!(bulk_leave(device, Shape::new(1, 64), broken, &mut y))?;
    expect(device, &y, (0..64_u32).chain([0; 64]))
}

fn run_bulk_result<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut y = device.zeros(128)?;
    let mut out = device.zeros(64)?;
    launch!(bulk_result(device, Shape::new(1, 64), broken, &mut y, &mut out))
}

fn run_multicast_early<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    multicast_with(device, broken)
}

fn run_multicast_reuse<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    multicast_with(device, 2 * broken)
}

fn run_multicast_scope<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    multicast_with(device, 3 * broken)
}

fn multicast_with<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(256)?;
    let Ok(tensor) = Tensor::new(&x, [16, 8], [16, 4], Swizzle::None) else { unreachable!("the sizes are valid") };
    launch!(multicast(device, Shape::new(2, 64), broken, tensor, &mut y))?;
    expect(device, &y, (0..256_u32).map(|i| i / 128 * 64 + 63 - i % 64))
}

fn run_tile_place<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    tile_place_with(device, broken)
}

fn run_tile_column<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    tile_place_with(device, 2 * broken)
}

fn tile_place_with<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut y = device.zeros(64)?;
    let Ok(tensor) = Tensor::new(&x, [16, 8], [16, 4], Swizzle::None) else { unreachable!("the sizes are valid") };
    launch!(tile_place(device, Shape::new(1, 64), broken, tensor, &mut y))?;
    // The tile begins four columns before the matrix, and ends two rows behind it.
    expect(device, &y, (0..64_u32).map(|i| if i % 16 < 4 || i >= 32 { 0 } else { 92 + i }))
}

// Products of warp groups.

fn run_product_read_early<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut d = device.zeros(2048)?;
    launch!(product_read_early(device, Shape::new(1, 128).with_shared(1024 + 12_288), broken, &mut d))?;
    expect(device, &d, [64.0_f32; 2048].into_iter())
}

fn run_product_overwritten<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut d = device.zeros(2048)?;
    launch!(product_overwritten(device, Shape::new(1, 128).with_shared(1024 + 12_288), broken, &mut d))?;
    expect(device, &d, [64.0_f32; 2048].into_iter())
}

fn run_product_unfenced_tile<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut d = device.zeros(2048)?;
    launch!(product_without_fences(device, Shape::new(1, 128).with_shared(1024 + 12_288), broken, &mut d))?;
    expect(device, &d, [64.0_f32; 2048].into_iter())
}

fn run_product_unfenced_sum<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let mut d = device.zeros(2048)?;
    launch!(product_without_fences(device, Shape::new(1, 128).with_shared(1024 + 12_288), 2 * broken, &mut d))?;
    expect(device, &d, [64.0_f32; 2048].into_iter())
}

// Overlapping launches.

fn run_consume<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut x, mut y) = (device.zeros(64)?, device.zeros(64)?);
    launch!(produce(device, Shape::new(2, 32), &mut x))?;
    launch!(consume(device, Shape::new(2, 32).overlapping(), broken, &x, &mut y))?;
    expect(device, &y, 1..65_u32)
}

fn run_overwrite<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut x, mut y) = (device.zeros(64)?, device.zeros(64)?);
    launch!(read_late(device, Shape::new(2, 32), &x, &mut y))?;
    launch!(overwrite(device, Shape::new(2, 32).overlapping(), broken, &mut x))
}

fn run_read_early<D: Device>(device: &D, broken: u32) -> Result<(), D::Error> {
    let (mut x, mut y, mut z) = (device.zeros(64)?, device.zeros(64)?, device.zeros(64)?);
    let shape = Shape::new(2, 32);
    launch!(produce(device, shape, &mut x))?;
    launch!(pass(device, shape.overlapping(), broken, &mut y))?;
    launch!(read_early(device, shape.overlapping(), &x, &mut z))?;
    expect(device, &z, 0..64_u32)
}
