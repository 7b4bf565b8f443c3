//! Launches the kernels.

mod kernels;

use learn::mdp_sweep::{MdpSweep, Narrow, Patterns, Rows, Sell};
use learn::{Device, Shape};

struct Launch;

impl MdpSweep for Launch {
    fn block<D: Device>(
        device: &D,
        model: &Rows<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let Rows { states, ptr, col, prob, reward } = model;
        // SAFETY: a block per state.
        unsafe { kernels::sweep_block(device, Shape::new(*states, 32), ptr, col, prob, reward, v, new) }
    }

    fn rows<D: Device>(
        device: &D,
        model: &Rows<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let Rows { states, ptr, col, prob, reward } = model;
        let shape = Shape::cover(32 * u64::from(*states), 256);
        // SAFETY: the model says so; a warp per state.
        unsafe { kernels::sweep_rows(device, shape, *states, ptr, col, prob, reward, v, new) }
    }

    fn sell<D: Device>(
        device: &D,
        model: &Sell<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let Sell { states, first, col, prob, reward } = model;
        // ANCHOR: sell
        let shape = Shape::cover((*states).into(), 256);
        // ANCHOR_END: sell
        // SAFETY: the model says so.
        unsafe { kernels::sweep_sell(device, shape, *states, first, col, prob, reward, v, new) }
    }

    fn narrow<D: Device>(
        device: &D,
        model: &Narrow<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let Narrow { states, first, offset, prob, palette, reward, rewards } = model;
        // ANCHOR: narrow
        let shape = Shape::cover((*states).into(), 256);
        // ANCHOR_END: narrow
        // SAFETY: the model says so.
        unsafe { kernels::sweep_narrow(device, shape, *states, first, offset, prob, palette, reward, rewards, v, new) }
    }

    fn patterns<D: Device>(
        device: &D,
        model: &Patterns<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let Patterns { states, pattern, offset, prob, rewards } = model;
        // Four states per thread: the copies of the tables are then small beside the states.
        let shape = Shape::cover(u64::from(*states).div_ceil(4), 256).with_shared(4 * (16 * 21 + 4 * 5 + 16 * 5));
        // SAFETY: the model says so; shared memory holds the tables.
        unsafe { kernels::sweep_patterns(device, shape, *states, pattern, offset, prob, rewards, v, new) }
    }
}

learn::main!(learn::mdp_sweep::Check<Launch>);
