use warpkov_device::device::{Global, kernel};
use warpkov_device::emulator::Emulator;
use warpkov_device::launch::{Device, Shape};
use warpkov_device::shared_array;

#[kernel]
fn copies(x: Global<u32>) {
    let tile = shared_array!(tile: u32; 4);
    tile.copy::<3>(0, x, 0);
}

fn main() {
    let emulator = Emulator::default();
    let x = emulator.zeros(4).unwrap();
    unsafe { copies(&emulator, Shape::new(1, 1), &x) }.unwrap();
}
