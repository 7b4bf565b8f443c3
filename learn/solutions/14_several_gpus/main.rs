//! Launches the kernel on several devices.

mod kernels;

use kernels::PartArgs;
use learn::several_gpus::{Part, SeveralGpus};
use learn::{Device, Shape};

// ANCHOR: launch
/// Launches the sweep of the `count` rows `first`, `first + step`, … of a part.
fn launch<D: Device>(
    device: &D,
    width: u32,
    part: &mut Part<D>,
    (first, step, count): (u32, u32, u32),
) -> Result<(), D::Error> {
    let Part { rows, rewards, values, next, top, bottom, above, below } = part;
    let shape = Shape::cover(u64::from(count) * u64::from(width), 256);
    let part = PartArgs { width, rows: *rows, rewards, values, above, below };
    // SAFETY: the buffers have rows × width elements, the last four width, and the rows are different rows of the part.
    unsafe { kernels::sweep_part(device, shape, part, first, step, count, next, top, bottom) }
}
// ANCHOR_END: launch

struct Launch;

impl SeveralGpus for Launch {
    fn sweep<D: Device>(devices: &[D], width: u32, parts: &mut [Part<D>]) -> Result<(), D::Error> {
        // ANCHOR: exchange
        // The outer rows, on all devices at a time.
        for (device, part) in devices.iter().zip(&mut *parts) {
            let last = part.rows - 1;
            launch(device, width, part, (0, last, 2))?;
        }
        // A download waits for its device, which has the outer rows alone to compute.
        let mut outer = Vec::with_capacity(parts.len());
        for (device, part) in devices.iter().zip(&*parts) {
            outer.push((device.to_vec(&part.top)?, device.to_vec(&part.bottom)?));
        }
        // The devices compute the inner rows while the host carries the outer ones.
        for (device, part) in devices.iter().zip(&mut *parts) {
            let inner = part.rows - 2;
            launch(device, width, part, (1, 1, inner))?;
        }
        for (k, (device, part)) in devices.iter().zip(parts).enumerate() {
            let above = if k == 0 { &outer[k].0 } else { &outer[k - 1].1 };
            let below = if k + 1 == outer.len() { &outer[k].1 } else { &outer[k + 1].0 };
            device.write(&mut part.above, above)?;
            device.write(&mut part.below, below)?;
        }
        Ok(())
        // ANCHOR_END: exchange
    }
}

learn::main!(learn::several_gpus::Check<Launch>);
