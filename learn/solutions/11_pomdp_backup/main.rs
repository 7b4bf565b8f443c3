//! Launches the kernels.

mod kernels;

use kernels::{PITCH, THREADS, TILE};
use learn::pomdp_backup::{Model, PomdpBackup};
use learn::{Device, Shape};
use warpkov_device::launch::Dim3;

struct Launch;

impl PomdpBackup for Launch {
    fn best<D: Device>(
        device: &D,
        model: &Model<D>,
        scores: &mut D::Buffer<f32>,
        winners: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        let &Model { beliefs, states, vectors, ref belief, ref alpha } = model;
        let shared_bytes = 4 * PITCH * states;
        // ANCHOR: launch
        let _ = scores;
        let shape = Shape::new(beliefs.div_ceil(TILE), THREADS).with_shared(shared_bytes);
        // SAFETY: the model says so; a block per tile of beliefs.
        unsafe { kernels::best_of_product(device, shape, beliefs, states, vectors, belief, alpha, winners) }
        // ANCHOR_END: launch
    }

    fn best_of_few<D: Device>(
        device: &D,
        model: &Model<D>,
        scores: &mut D::Buffer<f32>,
        keys: &mut D::Buffer<u64>,
        winners: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        // ANCHOR: few
        let _ = scores;
        let &Model { beliefs, states, vectors, ref belief, ref alpha } = model;
        let grid = Dim3 { x: vectors.div_ceil(THREADS), y: beliefs.div_ceil(TILE), z: 1 };
        let shape = Shape::new(grid, THREADS).with_shared(4 * PITCH * states);
        // SAFETY: the model says so; a block per tile of beliefs and vectors.
        unsafe { kernels::raise_keys(device, shape, beliefs, states, vectors, belief, alpha, keys)? };
        // SAFETY: both have an element per belief.
        unsafe { kernels::read_keys(device, Shape::cover(beliefs.into(), THREADS), beliefs, keys, winners) }
        // ANCHOR_END: few
    }
}

learn::main!(learn::pomdp_backup::Check<Launch>);
