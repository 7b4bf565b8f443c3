use warpkov_device::emulator::Emulator;
use warpkov_device::launch::{Device, Shape};

mod vector_add;
use vector_add::vector_add;

fn main() {
    let device = Emulator::default();
    let x = device.upload(&[1.0f32, 2.0]).unwrap();
    let y = device.upload(&[3.0f32, 4.0]).unwrap();
    let mut z = device.zeros::<f32>(2).unwrap();
    unsafe { vector_add(&device, Shape::new(1, 32), 2, &x, &y, &mut z) }.unwrap();
    assert_eq!(device.to_vec(&z).unwrap(), [4.0, 6.0]);
}
