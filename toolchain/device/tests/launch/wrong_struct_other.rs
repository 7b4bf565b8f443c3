use warpkov_device::device::{Global, Parameter, kernel};

#[derive(Clone, Copy, Parameter)]
pub struct Unnamed(Global<f32>);

#[derive(Clone, Copy, Parameter)]
pub struct Counted<const N: usize> {
    pub x: Global<f32>,
}

#[kernel]
pub fn slices(x: &[f32]) {}

fn main() {}
