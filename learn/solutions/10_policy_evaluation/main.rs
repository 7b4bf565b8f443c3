//! Predicts what the kernels do, and launches them.

mod kernels;

use learn::policy_evaluation::{PolicyEvaluation, Predictions, Rows, Sell};
use learn::{Device, Shape};

struct Launch;

impl PolicyEvaluation for Launch {
    // ANCHOR: predictions
    const PREDICTIONS: Predictions = Predictions {
        // 256 warps; 2 positions, 1 reward, and col, prob, v for each of 3 entries.
        sell_loads: 256.0 * (2.0 + 1.0 + 3.0 * 3.0),
        // All lanes read the same position; all else is 32 neighbours.
        sell_load_sectors: 256.0 * (2.0 * 1.0 + 4.0 + 3.0 * (4.0 + 4.0 + 4.0)),
        sell_bytes: 32.0 * 256.0 * (42.0 + 4.0),
        change_load_sectors: 256.0 * (4.0 + 4.0),
        change_atomics: 8192.0 / 256.0,
        // ptr[s + 1] straddles a fifth sector; the lanes' entries are 12 bytes apart; V is scattered.
        rows_load_sectors: 256.0 * (4.0 + 5.0 + 4.0 + 3.0 * (12.0 + 12.0 + 32.0)),
        // 65536 / (40 · 32) = 51 warps: six blocks of eight.
        warps_by_registers: 48.0,
        // 228 / (40 + 1) = 5 blocks of eight.
        warps_by_shared_memory: 40.0,
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
        let shape = Shape::grid_stride((*states).into(), 256);
        // SAFETY: the model says so.
        unsafe { kernels::sweep(device, shape, *states, first, col, prob, reward, v, new, residual) }
        // ANCHOR_END: sweep
    }
}

learn::main!(learn::policy_evaluation::Check<Launch>);
