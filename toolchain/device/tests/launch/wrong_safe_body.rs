use warpkov_device::device::kernel;
use warpkov_device::device::safe::{In, Len, Out};

#[kernel(safe)]
fn writes_what_another_thread_owns<'n>(n: Len<'n>, y: Out<'n, f32>) {
    y.set(&n.at(0), 1.0);
}

#[kernel(safe)]
fn is_unsafe<'n>(n: Len<'n>, y: Out<'n, f32>) {
    for i in n.elements() {
        y.set(&i, unsafe { *core::ptr::null() });
    }
}

#[kernel(safe)]
fn reads_by_the_index_of_another_length<'n, 'm>(n: Len<'n>, m: Len<'m>, x: In<'n, f32>, y: Out<'m, f32>) {
    let _ = n;
    for i in m.elements() {
        y.set(&i, x.get(&i));
    }
}

fn main() {}
