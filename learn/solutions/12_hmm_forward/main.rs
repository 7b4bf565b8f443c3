//! Launches the kernels.

mod kernels;

use kernels::{LogSum, MaxPlus, Semiring};
use learn::hmm_forward::{HmmForward, Model, Paths, STATES, Sequences};
use learn::{Device, Shape};

struct Launch;

impl HmmForward for Launch {
    fn forward<D: Device>(
        device: &D,
        model: &Model<D>,
        sequences: &Sequences<D>,
        scores: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let Model { start, transitions, emissions } = model;
        let shape = Shape::new(sequences.count, STATES as u32);
        // SAFETY: the model has 32 states, and there are `steps` symbols and a score for each sequence.
        unsafe {
            kernels::forward(device, shape, sequences.steps, start, transitions, emissions, &sequences.symbols, scores)
        }
    }

    fn viterbi<D: Device>(
        device: &D,
        model: &Model<D>,
        sequences: &Sequences<D>,
        paths: &mut Paths<D>,
    ) -> Result<(), D::Error> {
        let Model { start, transitions, emissions } = model;
        let Paths { pointers, path, scores } = paths;
        let (steps, symbols) = (sequences.steps, &sequences.symbols);
        let shape = Shape::new(sequences.count, STATES as u32);
        // SAFETY: as above, and there are 32 pointers for each step of each sequence.
        unsafe {
            kernels::viterbi(device, shape, steps, start, transitions, emissions, symbols, pointers, path, scores)
        }
    }

    fn scan<D: Device>(
        device: &D,
        sums: bool,
        steps: u32,
        matrices: &D::Buffer<f32>,
        products: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        if sums {
            scan::<LogSum, D>(device, steps, matrices, products)
        } else {
            scan::<MaxPlus, D>(device, steps, matrices, products)
        }
    }
}

// ANCHOR: scan
/// The products of the first matrices, by doubling: after k launches, element t is the product of the last 2ᵏ matrices up
/// to t.
fn scan<S: Semiring, D: Device>(
    device: &D,
    steps: u32,
    matrices: &D::Buffer<f32>,
    products: &mut D::Buffer<f32>,
) -> Result<(), D::Error> {
    let mut scratch = device.uninitialised(16 * steps as usize)?;
    let launches = steps.next_power_of_two().trailing_zeros().max(1);
    let shape = Shape::cover(16 * u64::from(steps), 256).overlapping();
    // The last launch writes `products`.
    let (mut target, mut other) = (products, &mut scratch);
    if launches.is_multiple_of(2) {
        std::mem::swap(&mut target, &mut other);
    }
    // SAFETY: all buffers have `steps` matrices.
    unsafe { kernels::combine::<S, D>(device, shape, steps, 1, matrices, target)? };
    for k in 1..launches {
        std::mem::swap(&mut target, &mut other);
        // SAFETY: as above.
        unsafe { kernels::combine::<S, D>(device, shape, steps, 1 << k, other, target)? };
    }
    Ok(())
}
// ANCHOR_END: scan

learn::main!(learn::hmm_forward::Check<Launch>);
