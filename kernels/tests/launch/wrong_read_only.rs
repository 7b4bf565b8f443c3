use warpkov_kernels::emulator::Emulator;
use warpkov_kernels::launch::{Device, Shape};
use warpkov_kernels::lessons::vector_add;

fn main() {
    let device = Emulator::default();
    let x = device.zeros::<f32>(2).unwrap();
    let y = device.zeros::<f32>(2).unwrap();
    let mut z = device.zeros::<f32>(2).unwrap();
    let _ = unsafe { vector_add(&device, Shape::new(1, 32), 2, &x, &y, &z) };
    let _ = &mut z;
}
