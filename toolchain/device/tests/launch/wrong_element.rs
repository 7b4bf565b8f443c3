//! Structs that cannot be elements of device memory.

use warpkov_device::device::DeviceCopy;

#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct HasPadding {
    small: u8,
    large: u32,
}

#[derive(Clone, Copy, DeviceCopy)]
struct InAnyOrder {
    x: f32,
}

#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct HasInvalidBits {
    flag: bool,
}

#[derive(Clone, Copy, DeviceCopy)]
#[repr(u8)]
enum Choice {
    One,
}

#[derive(DeviceCopy)]
#[repr(C)]
struct NotCopy {
    x: f32,
}

fn main() {}
