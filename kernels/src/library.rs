//! The device library, function by function, with many results per thread: the test suite compares them with references on
//! every device. [`lessons`](crate::lessons) are for readers; these kernels are for coverage.

use atomic::{AtomicCounter, AtomicFloat, AtomicInteger, AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, Real, atomic, kernel, thread};
use warpkov_device::shared_array;

/// Every atomic operation that [`lessons::atomics`](crate::lessons::atomics) and `histogram` lack, all threads on the same
/// cells.
///
/// - *Mathematics*: of x: Σ, max, min, and, or, xor, the number of elements; xor; counters modulo 100, up and down, and a
///   count by compare-and-exchange; extremes of x / 2 without those of x divisible by 7, which are NaN; and Σ of the sums
///   of all blocks, by the last block.
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: 2 words, static. *Barriers*: three. *Deterministic*: yes.
/// - *Valid result in*: all buffers but `x` and `sums`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | threads of the grid | |
/// | `wide` | 9 | Σ, max, min, and, or, xor, count, exchange, Σ of `sums` |
/// | `narrow` | 4 | up, down, count, blocks that have ended |
/// | `sums` | blocks | 0 before the launch |
/// | `extremes` | 2 | max, min |
/// | `narrow_extremes` | 2 | max, min |
///
/// *Launch*: any grid, any block.
#[kernel]
pub fn library_atomics(
    x: Global<i64>,
    wide: GlobalMut<i64>,
    narrow: GlobalMut<u32>,
    sums: GlobalMut<i64>,
    extremes: GlobalMut<f64>,
    narrow_extremes: GlobalMut<f32>,
) {
    let local = shared_array!(library_extremes: f32; 2);
    let last = shared_array!(library_last: u32; 1);
    let (t, block, value) =
        (thread::thread_idx_x(), thread::block_idx_x() as usize, x.get(thread::index_1d() as usize));
    if t == 0 {
        local.set(0, f32::NEG_INFINITY);
        local.set(1, f32::INFINITY);
    }
    thread::sync_threads();

    i64::fetch_add((wide, 0), value, Ordering::SeqCst, Scope::Device);
    i64::fetch_max((wide, 1), value, Ordering::Relaxed, Scope::System);
    i64::fetch_min((wide, 2), value, Ordering::AcqRel, Scope::Device);
    i64::fetch_and((wide, 3), value, Ordering::Release, Scope::Device);
    i64::fetch_or((wide, 4), value, Ordering::Acquire, Scope::Device);
    i64::fetch_xor((wide, 5), value, Ordering::SeqCst, Scope::System);
    let mut seen = atomic::load((wide, 6), Ordering::SeqCst, Scope::Device);
    loop {
        let found = atomic::compare_exchange((wide, 6), seen, seen + 1, Ordering::SeqCst, Scope::Device);
        if found == seen {
            break;
        }
        seen = found;
    }
    i64::fetch_replace((wide, 7), -5, Ordering::Relaxed, Scope::Device);

    u32::fetch_inc((narrow, 0), 99, Ordering::Relaxed, Scope::Device);
    u32::fetch_dec((narrow, 1), 99, Ordering::SeqCst, Scope::Device);
    let mut seen = 0;
    loop {
        let found = atomic::compare_exchange((narrow, 2), seen, seen + 1, Ordering::Relaxed, Scope::Device);
        if found == seen {
            break;
        }
        seen = found;
    }

    let half = if value % 7 == 0 { f64::NAN } else { value as f64 / 2.0 };
    f64::fetch_max((extremes, 0), half, Ordering::Relaxed, Scope::Device);
    f64::fetch_min((extremes, 1), half, Ordering::SeqCst, Scope::Device);
    f32::fetch_max((local, 0), half as f32, Ordering::Relaxed, Scope::Block);
    f32::fetch_min((local, 1), half as f32, Ordering::Relaxed, Scope::Block);

    atomic::add((sums, block), value);
    thread::sync_threads();
    if t == 0 {
        f32::fetch_max((narrow_extremes, 0), local.get(0), Ordering::Relaxed, Scope::Device);
        f32::fetch_min((narrow_extremes, 1), local.get(1), Ordering::Relaxed, Scope::Device);
        atomic::fence(Ordering::Release, Scope::Device);
        let ended = u32::fetch_inc((narrow, 3), u32::MAX, Ordering::Relaxed, Scope::Device);
        last.set(0, u32::from(ended == thread::grid_dim_x() - 1));
    }
    thread::sync_threads();
    if t == 0 && last.get(0) == 1 {
        atomic::fence(Ordering::SeqCst, Scope::System);
        let mut sum = 0;
        for block in 0..thread::grid_dim_x() {
            sum += atomic::load((sums, block as usize), Ordering::Relaxed, Scope::Device);
        }
        atomic::store((wide, 8), sum, Ordering::SeqCst, Scope::Device);
    }
}

/// The elementary functions of x and y, eleven numbers per element: √x, 1/√x, eˣ, 2ˣ, ln x, log₂ x, sin x, cos x, tanh x,
/// erf x, xʸ.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes; NaN may have other bits. *Valid result in*: `out`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `n` | scalar | elements |
/// | `x`, `y` | n | |
/// | `out` | 11n | |
///
/// *Launch*: ⌈n / B⌉ blocks or more of any B threads.
#[kernel(T = [f32, f64])]
pub fn library_math<T: Real>(n: u32, x: Global<T>, y: Global<T>, out: GlobalMut<T>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        let (x, y) = (x.get(i), y.get(i));
        for (k, value) in elementary(x, y).into_iter().enumerate() {
            out.set(11 * i + k, value);
        }
    }
}

/// The numbers of [`library_math`].
#[inline(always)]
pub fn elementary<T: Real>(x: T, y: T) -> [T; 11] {
    [
        x.sqrt(), x.rsqrt(), x.exp(), x.exp2(), x.ln(), x.log2(), x.sin(), x.cos(), x.tanh(), x.erf(), x.pow(y),
    ]
}
