//! Copy of a vector: measures the attainable memory bandwidth of a device.

use warpkov_device::device::safe::{In, Len, Out, Own};
use warpkov_device::device::{Real, kernel};

/// Quads in flight per thread.
const STEP: usize = 4;

/// Copies a vector, four elements per access.
///
/// - *Mathematics*: yᵢ = xᵢ.
/// - *Thread mapping*: a grid-stride loop over quads; a thread moves four quads per iteration.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `y`.
#[kernel(safe, T = [f32, f64])]
pub fn copy<'q, T: Real>(quads: Len<'q>, x: In<'q, [T; 4]>, y: Out<'q, [T; 4]>) {
    let mut own = quads.elements();
    own.each_chunk(|chunk: &[Own<'q>; STEP]| {
        let mut moved = [[T::ZERO; 4]; STEP];
        for (i, quad) in chunk.iter().zip(&mut moved) {
            *quad = x.get(i);
        }
        for (i, quad) in chunk.iter().zip(&moved) {
            y.set(i, *quad);
        }
    });
    for i in own {
        y.set(&i, x.get(&i));
    }
}
