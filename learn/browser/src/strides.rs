//! Kernels whose stride and offset a panel sets: what chapters 2 and 4 say of sectors and banks.

use learn::lab::{Failure, Lab};
use serde_json::{Value, json};
use warpkov_device::device::{Global, GlobalMut, kernel, thread};
use warpkov_device::emulator::Emulator;
use warpkov_device::emulator::profile::Profile;
use warpkov_device::launch::{Device, Shape};
use warpkov_device::shared_array;

use crate::{Program, Settings};

// ANCHOR: sectors
/// `y[i] = x[stride · i + offset]`.
///
/// *Safety*: none; the emulator checks every access.
#[kernel]
pub fn strided_copy(n: u32, stride: u32, offset: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as u32;
    if i < n {
        y.set(i, x.get(stride * i + offset));
    }
}
// ANCHOR_END: sectors

// ANCHOR: banks
/// Each thread t of a warp writes word `stride · t + offset` of 1024 words of shared memory, and reads it.
///
/// *Safety*: none; the emulator checks every access.
#[kernel]
pub fn strided_words(stride: u32, offset: u32, y: GlobalMut<f32>) {
    let words = shared_array!(words: f32; 1024);
    let t = thread::thread_idx_x();
    words.set(stride * t + offset, 1.0);
    y.set(t, words.get(stride * t + offset));
}
// ANCHOR_END: banks

/// Copies numbers that lie apart.
pub(crate) struct Sectors;

/// Uses words that lie apart.
pub(crate) struct Banks;

/// What a launch has come to.
fn launched(device: &Emulator, launch: impl FnOnce() -> Result<(), Failure>) -> (Profile, Result<(), Failure>) {
    let result = launch();
    (device.profile(), result)
}

impl Program for Sectors {
    fn parts(&self) -> Vec<Value> {
        let sizes = [1, 31, 32, 64, 128, 256, 1024];
        vec![json!({
            "name": "a stride and an offset: y[i] = x[stride · i + offset], of stride · n numbers x",
            "sizes": sizes,
            "size": 256,
            "strides": 33,
            "offsets": 33,
        })]
    }

    fn run(&self, _: usize, settings: &Settings<'_>) -> (Profile, Result<(), Failure>) {
        let device = Emulator::default().profiled();
        let lab = Lab::new(&device);
        let &Settings { size, stride, offset, blocks } = settings;
        launched(&device, || {
            let numbers = lab.floats(stride as usize * size, 0);
            let x = device.upload(&numbers)?;
            let mut y = device.uninitialised(size)?;
            let shape = Shape::cover(size as u64, blocks.map_or(256, |blocks| blocks.threads));
            // SAFETY: the emulator checks every access.
            unsafe { strided_copy(&device, shape, size as u32, stride, offset, &x, &mut y)? };
            let expected: Vec<f32> =
                numbers.into_iter().skip(offset as usize).step_by(stride.max(1) as usize).collect();
            lab.equal("y", &device.to_vec(&y)?, &expected[..size.min(expected.len())])
        })
    }
}

impl Program for Banks {
    fn parts(&self) -> Vec<Value> {
        vec![json!({
            "name": "a stride and an offset: thread t uses word stride · t + offset of 1024 words",
            "sizes": [32],
            "size": 32,
            "fixed": true,
            "strides": 40,
            "offsets": 33,
        })]
    }

    fn run(&self, _: usize, settings: &Settings<'_>) -> (Profile, Result<(), Failure>) {
        let device = Emulator::default().profiled();
        let lab = Lab::new(&device);
        let &Settings { size, stride, offset, .. } = settings;
        launched(&device, || {
            let mut y = device.uninitialised(size)?;
            // SAFETY: the emulator checks every access.
            unsafe { strided_words(&device, Shape::new(1, size as u32), stride, offset, &mut y)? };
            lab.equal("y", &device.to_vec(&y)?, &vec![1.0; size])
        })
    }
}
