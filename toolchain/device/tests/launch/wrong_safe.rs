#![allow(unused_imports, dead_code)]

use warpkov_device::device::safe::{In, Index, Len, Out};
use warpkov_device::device::{Global, kernel};
use warpkov_device::shared_array;

#[kernel(safe)]
fn takes_a_view<'n>(n: Len<'n>, x: Global<f32>, y: Out<'n, f32>) {
    for i in n.elements() {
        y.set(&i, x.get(0));
    }
}

#[kernel(safe)]
fn has_no_length<'n>(x: In<'n, f32>) {
    let _ = x;
}

#[kernel(safe)]
fn has_two_lengths<'n>(n: Len<'n>, m: Len<'n>) {
    let _ = (n, m);
}

#[kernel(safe)]
fn declares_shared_memory<'n>(n: Len<'n>) {
    let array = shared_array!(array: f32; 32);
    array.set(n.get(), 0.0);
}

#[kernel(safe)]
fn makes_two_lengths_one<'n: 'm, 'm: 'n>(n: Len<'n>, m: Len<'m>) {
    let _ = (n, m);
}

#[kernel(safe)]
fn makes_them_one_by_a_clause<'n, 'm>(n: Len<'n>, m: Len<'m>)
where
    'n: 'm,
    'm: 'n,
{
    let _ = (n, m);
}

trait Same<T> {}
impl<T> Same<T> for T {}

#[kernel(safe, T = [f32])]
fn makes_them_one_by_a_trait<'n, 'm, T: Same<(Index<'n>, Index<'m>)>>(n: Len<'n>, m: Len<'m>, x: In<'n, T>) {
    let _ = (n, m, x);
}

#[kernel]
fn has_a_lifetime<'n>(n: u32) {
    let _ = n;
}

fn main() {}
