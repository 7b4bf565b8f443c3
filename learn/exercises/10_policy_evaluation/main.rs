//! Predicts what the kernels do, and launches them.

mod kernels;

use learn::policy_evaluation::{PolicyEvaluation, Predictions, Rows, Sell};
use learn::{Device, Shape};

struct Launch;

impl PolicyEvaluation for Launch {
    // ANCHOR: predictions
    // TODO: predict, before you measure.
    const PREDICTIONS: Predictions = Predictions {
        sell_loads: 0.0,
        sell_load_sectors: 0.0,
        sell_bytes: 0.0,
        change_load_sectors: 0.0,
        change_atomics: 0.0,
        rows_load_sectors: 0.0,
        warps_by_registers: 0.0,
        warps_by_shared_memory: 0.0,
    };
    // ANCHOR_END: predictions

    fn evaluate_sell<D: Device>(
        device: &D,
        model: &Sell<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let Sell { states, first, col, prob, reward } = model;
        let shape = Shape::cover((*states).into(), 256);
        // SAFETY: the model says so.
        unsafe { kernels::evaluate_sell(device, shape, *states, first, col, prob, reward, v, new) }
    }

    fn evaluate_rows<D: Device>(
        device: &D,
        model: &Rows<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let Rows { states, ptr, col, prob, reward } = model;
        let shape = Shape::cover((*states).into(), 256);
        // SAFETY: the model says so.
        unsafe { kernels::evaluate_rows(device, shape, *states, ptr, col, prob, reward, v, new) }
    }

    fn max_change<D: Device>(
        device: &D,
        states: u32,
        v: &D::Buffer<f32>,
        new: &D::Buffer<f32>,
        residual: &mut D::Buffer<u64>,
    ) -> Result<(), D::Error> {
        let shape = Shape::cover(states.into(), 256);
        // SAFETY: both vectors have as many elements as there are states.
        unsafe { kernels::max_change(device, shape, states, v, new, residual) }
    }

    fn sweep<D: Device>(
        device: &D,
        model: &Sell<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
        residual: &mut D::Buffer<u64>,
    ) -> Result<(), D::Error> {
        let Sell { states, first, col, prob, reward } = model;
        // ANCHOR: sweep
        // TODO: one launch, of as many blocks as the GPU holds at a time.
        let shape = Shape::cover((*states).into(), 256);
        // SAFETY: the model says so.
        unsafe { kernels::sweep(device, shape, *states, first, col, prob, reward, v, new, residual)? };
        Self::max_change(device, *states, v, new, residual)
        // ANCHOR_END: sweep
    }
}

learn::main!(learn::policy_evaluation::Check<Launch>);
