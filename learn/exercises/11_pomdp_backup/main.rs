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
        // TODO: one launch.
        let grid = Dim3 { x: vectors.div_ceil(THREADS), y: beliefs.div_ceil(TILE), z: 1 };
        let shape = Shape::new(grid, THREADS).with_shared(shared_bytes);
        // SAFETY: the model says so; a block per tile of beliefs and vectors.
        unsafe { kernels::product(device, shape, beliefs, states, vectors, belief, alpha, scores)? };
        // SAFETY: a warp per belief.
        unsafe {
            kernels::best(device, Shape::cover(32 * u64::from(beliefs), THREADS), beliefs, vectors, scores, winners)
        }
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
        // TODO: one block per 16 beliefs leaves the GPU idle.
        let _ = keys;
        Self::best(device, model, scores, winners)
        // ANCHOR_END: few
    }
}

learn::main!(learn::pomdp_backup::Check<Launch>);
