//! Messages of kernels whose formats are checked at compile time.

use warpkov_device::device::{device_assert, device_println, kernel, thread};

#[kernel]
fn named() {
    let x = thread::thread_idx_x();
    device_println!("{x}", x);
}

#[kernel]
fn too_few() {
    device_println!("{} {}", thread::thread_idx_x());
}

#[kernel]
fn too_many() {
    device_println!("{}", 1, 2);
}

#[kernel]
fn a_width_from_a_value() {
    device_println!("{:1$}", 1, 2);
}

#[kernel]
fn no_value() {
    device_println!("{}", [1, 2]);
}

#[kernel]
fn open_brace() {
    device_assert!(thread::thread_idx_x() < 7, "{");
}

fn main() {}
