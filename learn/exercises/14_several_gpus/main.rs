//! Launches the kernel on several devices.

mod kernels;

use kernels::PartArgs;
use learn::several_gpus::{Part, SeveralGpus};
use learn::{Device, Shape};

// ANCHOR: launch
/// Launches the sweep of a part.
fn launch<D: Device>(device: &D, width: u32, part: &mut Part<D>) -> Result<(), D::Error> {
    let Part { rows, rewards, values, next, above, below, .. } = part;
    let shape = Shape::cover(u64::from(*rows) * u64::from(width), 256);
    let part = PartArgs { width, rows: *rows, rewards, values, above, below };
    // SAFETY: the buffers have rows × width elements, `above` and `below` width.
    unsafe { kernels::sweep_part(device, shape, part, next) }
}
// ANCHOR_END: launch

struct Launch;

impl SeveralGpus for Launch {
    fn sweep<D: Device>(devices: &[D], width: u32, parts: &mut [Part<D>]) -> Result<(), D::Error> {
        // ANCHOR: exchange
        for (device, part) in devices.iter().zip(&mut *parts) {
            launch(device, width, part)?;
        }
        // TODO: neighbours need one row of a part; and they wait until all rows are computed.
        let all: Vec<Vec<f32>> =
            devices.iter().zip(&*parts).map(|(device, part)| device.to_vec(&part.next)).collect::<Result<_, _>>()?;
        let row = |rows: &[f32], last: bool| {
            let first = if last { rows.len() - width as usize } else { 0 };
            rows[first..][..width as usize].to_vec()
        };
        for (k, (device, part)) in devices.iter().zip(parts).enumerate() {
            let above = if k == 0 { row(&all[k], false) } else { row(&all[k - 1], true) };
            let below = if k + 1 == all.len() { row(&all[k], true) } else { row(&all[k + 1], false) };
            device.write(&mut part.above, &above)?;
            device.write(&mut part.below, &below)?;
        }
        Ok(())
        // ANCHOR_END: exchange
    }
}

learn::main!(learn::several_gpus::Check<Launch>);
