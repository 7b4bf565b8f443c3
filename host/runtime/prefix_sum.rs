//! Exclusive prefix sum on a device.

use crate::device::{AnyBuffer, AnyDevice, DeviceError};
use warpkov_device::device::Offset;
use warpkov_device::launch::Shape;
use warpkov_kernels::primitives::scan::{THREADS, TILE, scan_add, scan_tiles, scan_totals};

/// Length of the scratch buffer of [`exclusive_scan`] for `n` elements, in elements.
#[must_use]
pub fn scratch_len(n: usize) -> usize {
    n.div_ceil(TILE).max(1) + 1
}

/// Computes `output`ᵢ = `input`₀ + … + `input`ᵢ₋₁ for i = 0 … n, for example row pointers from row lengths. Sums must
/// fit into `O`.
///
/// # Errors
/// The errors of the device.
///
/// # Panics
/// If `input` has fewer than `n` elements, `output` fewer than n + 1, or `scratch` fewer than [`scratch_len`].
pub fn exclusive_scan<O: Offset>(
    device: &AnyDevice,
    n: usize,
    input: &AnyBuffer<O>,
    output: &mut AnyBuffer<O>,
    scratch: &mut AnyBuffer<O>,
) -> Result<(), DeviceError> {
    use warpkov_device::launch::Buffer;
    assert!(input.len() >= n && output.len() > n && scratch.len() >= scratch_len(n));
    let sums = n as u64 + 1;
    let tiles = sums.div_ceil(TILE as u64);
    let shape = Shape::new(tiles as u32, THREADS);
    scan_tiles(device, shape, n as u64, sums, input, output, scratch)?;
    scan_totals(device, Shape::new(1, THREADS), tiles, scratch)?;
    scan_add(device, shape, sums, scratch, output)
}
