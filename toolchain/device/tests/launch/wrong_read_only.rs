use warpkov_device::emulator::Emulator;
use warpkov_device::launch::{Device, Shape};

mod vector_add;
use vector_add::vector_add;

fn main() {
    let device = Emulator::default();
    let x = device.zeros::<f32>(2).unwrap();
    let y = device.zeros::<f32>(2).unwrap();
    let mut z = device.zeros::<f32>(2).unwrap();
    let _ = unsafe { vector_add(&device, Shape::new(1, 32), 2, &x, &y, &z) };
    let _ = &mut z;
}
