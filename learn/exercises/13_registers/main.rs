//! Launches the kernels.

mod kernels;

use learn::registers::{Prediction, Registers, Walks};
use learn::{Device, Shape};

struct Launch;

impl Registers for Launch {
    // ANCHOR: prediction
    // TODO: read the listing of `visits_indexed` in the book, and its source.
    const PREDICTION: Prediction = Prediction { local_bytes: 0, loads_per_step: 0, stores: 0 };
    // ANCHOR_END: prediction

    fn visits_indexed<D: Device>(device: &D, walks: &Walks<D>, visits: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        let Walks { count, steps, next, choices } = walks;
        let shape = Shape::cover((*count).into(), 128);
        // SAFETY: there are 8·4 successors, `steps` choices for each walk, and 8 counters.
        unsafe { kernels::visits_indexed(device, shape, *count, *steps, next, choices, visits) }
    }

    fn visits<D: Device>(device: &D, walks: &Walks<D>, visits: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        let Walks { count, steps, next, choices } = walks;
        let shape = Shape::cover((*count).into(), 128);
        // SAFETY: as above.
        unsafe { kernels::visits(device, shape, *count, *steps, next, choices, visits) }
    }
}

learn::main!(learn::registers::Check<Launch>);
