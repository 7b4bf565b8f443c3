//! Ghosts: states of other ranks whose values a part of a model reads.
//!
//! Before a sweep, each rank packs the values of the states that others need, the devices exchange them, and each rank
//! puts what it received in place of its ghosts.

use warpkov_device::device::safe::{In, Indices, Len, Out};
use warpkov_device::device::{Global, GlobalMut, Real, atomic, kernel, thread};

/// Packs the values of some states.
///
/// - *Mathematics*: `packed[i]` = `values[states[i]]`.
/// - *Thread mapping*: a grid-stride loop over the states to pack.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `packed`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `count`, `all` | scalar | states to pack, and all |
/// | `values`, `packed` | states | reward |
#[kernel(safe, T = [f32, f64])]
pub fn pack<'n, 's, T: Real>(
    count: Len<'n>,
    all: Len<'s>,
    states: Indices<'n, 's>,
    values: In<'s, T>,
    packed: Out<'n, T>,
) {
    let _ = all;
    for i in count.elements() {
        packed.set(&i, values.get(states.get(&i)));
    }
}

/// Puts received values in place of the ghosts, and marks the tiles of those that changed.
///
/// - *Mathematics*: `values[ghosts[i]]` = `received[i]`; `changed[⌊ghosts[i] / tile⌋]` = 1 if that is another number.
/// - *Thread mapping*: a grid-stride loop over ghosts.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `values`, `changed`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `count` | scalar | elements of `ghosts` |
/// | `ghosts` | `count` | distinct, below the length of `values` |
/// | `received` | `count` | reward |
/// | `values` | states | reward |
/// | `tile` | scalar | states per tile; 0 to mark none |
/// | `changed` | ⌈states / `tile`⌉ if `tile` > 0; else any length | 1 or 0 |
#[kernel(T = [f32, f64], requires(ghosts.len() >= count, received.len() >= count, shape.dimensions == 1))]
pub fn unpack<T: Real>(
    count: u32,
    ghosts: Global<u32>,
    received: Global<T>,
    values: GlobalMut<T>,
    tile: u32,
    changed: GlobalMut<u32>,
) {
    let mut i = thread::index_1d();
    while i < u64::from(count) {
        let (ghost, value) = (ghosts.get(i) as usize, received.get(i));
        if tile > 0 && value != values.get(ghost) {
            // Several ghosts may be in one tile.
            atomic::max((changed, ghost / tile as usize), 1u32);
        }
        values.set(ghost, value);
        i += u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
    }
}
