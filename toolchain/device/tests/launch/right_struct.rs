use warpkov_device::device::{Global, GlobalMut, Parameter, Real, kernel, thread};
use warpkov_device::emulator::Emulator;
use warpkov_device::launch::{Device, Shape};

#[derive(Clone, Copy, Parameter)]
pub struct Axis<T> {
    pub scale: f64,
    pub x: Global<T>,
}

#[derive(Clone, Copy, Parameter)]
pub struct Scaled<T> {
    pub axis: Axis<T>,
    pub y: GlobalMut<T>,
}

#[kernel(T = [f32, f64])]
pub fn scale<T: Real>(n: u32, scaled: Scaled<T>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        scaled.y.set(i, T::from_f64(scaled.axis.scale * scaled.axis.x.get(i).to_f64()));
    }
}

fn main() {
    let device = Emulator::default();
    let x = device.upload(&[1.0f32, 2.0]).unwrap();
    let mut y = device.zeros::<f32>(2).unwrap();
    let axis = AxisArgs { scale: 3.0, x: &x };
    // An argument without `&mut` is `Copy`.
    let _ = axis;
    unsafe { scale(&device, Shape::new(1, 32), 2, ScaledArgs { axis, y: &mut y }) }.unwrap();
    assert_eq!(device.to_vec(&y).unwrap(), [3.0, 6.0]);
}
