use warpkov_device::device::{Global, GlobalMut, Real, kernel, thread};

#[kernel(T = [f32, f64])]
pub fn vector_add<T: Real>(n: u32, x: Global<T>, y: Global<T>, z: GlobalMut<T>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        z.set(i, x.get(i) + y.get(i));
    }
}
