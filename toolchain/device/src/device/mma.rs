//! Tensor cores: D = A·B + C for small matrices, by all 32 lanes of a warp.
//!
//! A is m × k, B is k × n, C and D are m × n. The name of a function is its number type followed by m × n × k. Each
//! lane holds some of the elements; the functions say which, with g = lane / 4 and t = lane mod 4.
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel(safe)]
//! fn row_sums(out: PerThread<[f32; 4]>) {
//!     // Element (r, k) of A is r, and those of B are 1.
//!     let g = (warp::lane_id() / 4) as f32;
//!     out.set(mma::tf32_16x8x8([g, g + 8.0, g, g + 8.0], [1.0; 2], [0.0; 4]));
//! }
//!
//! # let device = Emulator::default();
//! # let mut out = device.zeros(128)?;
//! row_sums(&device, Shape::new(1, 32), &mut out)?;
//! assert_eq!(device.to_vec(&out)?[16..20], [8.0, 8.0, 72.0, 72.0]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread::{self as emulated, WarpOp};

use super::Real;

/// A number type of tensor-core products.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(T = [f32, f64])]
/// fn product<T: mma::Multiply>(out: GlobalMut<T>) {
///     let d = T::multiply([T::from_f64(0.1); 4], [T::ONE; 2], [T::ZERO; 4]);
///     out.set(warp::lane_id() as usize, d[0]);
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// // SAFETY: `out` has one element per lane.
/// unsafe { product(&device, Shape::new(1, 32), &mut out)? };
/// assert!(device.to_vec(&out)?.iter().all(|sum: &f32| (sum - 0.8).abs() < 1e-6));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Multiply: Real {
    /// D = A·B + C with m = 16, n = 8, k = 8, to (nearly) the precision of the type.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(T = [f32, f64])]
    /// fn product<T: mma::Multiply>(out: GlobalMut<T>) {
    ///     let d = T::multiply([T::from_f64(0.1); 4], [T::ONE; 2], [T::ZERO; 4]);
    ///     out.set(warp::lane_id() as usize, d[0]);
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per lane.
    /// unsafe { product(&device, Shape::new(1, 32), &mut out)? };
    /// assert!(device.to_vec(&out)?.iter().all(|sum: &f32| (sum - 0.8).abs() < 1e-6));
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn multiply(a: [Self; 4], b: [Self; 2], c: [Self; 4]) -> [Self; 4];
    /// The same product by the fewest instructions, to their precision: [`tf32_16x8x8`] for f32.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(T = [f32, f64])]
    /// fn product<T: mma::Multiply>(out: GlobalMut<T>) {
    ///     let d = T::multiply_plain([T::from_f64(0.1); 4], [T::ONE; 2], [T::ZERO; 4]);
    ///     out.set(warp::lane_id() as usize, d[0]);
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// // SAFETY: `out` has one element per lane.
    /// unsafe { product(&device, Shape::new(1, 32), &mut out)? };
    /// assert!(device.to_vec(&out)?.iter().all(|sum: &f32| (sum - 0.8).abs() < 1e-3));
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn multiply_plain(a: [Self; 4], b: [Self; 2], c: [Self; 4]) -> [Self; 4];
}

impl Multiply for f64 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn multiply(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
        f64_16x8x8(a, b, c)
    }
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn multiply_plain(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
        f64_16x8x8(a, b, c)
    }
}

impl Multiply for f32 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn multiply(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
        tf32x3_16x8x8(a, b, c)
    }
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn multiply_plain(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
        tf32_16x8x8(a, b, c)
    }
}

/// D = A·B + C for A 16 × 8, B 8 × 8 and C, D 16 × 8, in TF32 (`mma.sync.m16n8k8.tf32`): factors keep the first 10 bits
/// of their fraction, products are exact, sums are f32.
///
/// A lane holds A(g, t), A(g + 8, t), A(g, t + 4), A(g + 8, t + 4); B(t, g), B(t + 4, g); and the elements (g, 2t),
/// (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1) of C and D.
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane. *Deterministic*: yes, on one GPU model.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn row_sums(out: PerThread<[f32; 4]>) {
///     // Element (r, k) of A is r, and those of B are 1.
///     let g = (warp::lane_id() / 4) as f32;
///     out.set(mma::tf32_16x8x8([g, g + 8.0, g, g + 8.0], [1.0; 2], [0.0; 4]));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(128)?;
/// row_sums(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[16..20], [8.0, 8.0, 72.0, 72.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn tf32_16x8x8(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    target! {
        nvptx => {
            let [mut d0, mut d1, mut d2, mut d3] = c;
            // SAFETY: the function's contract: all 32 lanes execute this call. The instruction accesses registers only.
            unsafe {
                core::arch::asm!(
                    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{}, {}, {}, {}}}, {{{}, {}, {}, {}}}, {{{}, {}}}, \
                     {{{}, {}, {}, {}}};",
                    out(reg32) d0, out(reg32) d1, out(reg32) d2, out(reg32) d3,
                    in(reg32) a[0].to_bits(), in(reg32) a[1].to_bits(), in(reg32) a[2].to_bits(), in(reg32) a[3].to_bits(),
                    in(reg32) b[0].to_bits(), in(reg32) b[1].to_bits(),
                    in(reg32) c[0], in(reg32) c[1], in(reg32) c[2], in(reg32) c[3],
                    options(nomem, nostack, preserves_flags)
                );
            }
            [d0, d1, d2, d3]
        },
        emulated => emulated_tf32(a, b, c),
    }
}

/// D = A·B + C for A 16 × 16, B 16 × 8 and C, D 16 × 8 (`mma.sync.m16n8k16.f16`): factors are f16, two in a word;
/// products are exact, sums are f32.
///
/// The lanes hold words of A and B as they hold elements in [`tf32_16x8x8`]. Word t contains the elements 2t (low half)
/// and 2t + 1 (high half) along k.
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane. *Deterministic*: yes, on one GPU model.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn row_sums(out: PerThread<[f32; 4]>) {
///     // Element (r, k) of A is r, and those of B are 1.
///     let pair = |x: u32| u32::from(half::from_f32(x as f32)) * 0x1_0001;
///     let g = warp::lane_id() / 4;
///     let a = [pair(g), pair(g + 8), pair(g), pair(g + 8)];
///     out.set(mma::f16_16x8x16(a, [pair(1); 2], [0.0; 4]));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(128)?;
/// row_sums(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[16..20], [16.0, 16.0, 144.0, 144.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn f16_16x8x16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    target! {
        nvptx => {
            let [mut d0, mut d1, mut d2, mut d3] = c;
            // SAFETY: the function's contract: all 32 lanes execute this call. The instruction accesses registers only.
            unsafe {
                core::arch::asm!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{}, {}, {}, {}}}, {{{}, {}, {}, {}}}, {{{}, {}}}, \
                     {{{}, {}, {}, {}}};",
                    out(reg32) d0, out(reg32) d1, out(reg32) d2, out(reg32) d3,
                    in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                    in(reg32) b[0], in(reg32) b[1],
                    in(reg32) c[0], in(reg32) c[1], in(reg32) c[2], in(reg32) c[3],
                    options(nomem, nostack, preserves_flags)
                );
            }
            [d0, d1, d2, d3]
        },
        emulated => {
            // The sum of 16 products is that of the 8 low halves plus that of the 8 high halves.
            let half = |words: u32, shift: u32| super::half::to_f32((words >> shift) as u16);
            let d = emulated_tf32(a.map(|word| half(word, 0)), b.map(|word| half(word, 0)), c);
            emulated_tf32(a.map(|word| half(word, 16)), b.map(|word| half(word, 16)), d)
        },
    }
}

/// D = A·B + C for A 8 × 4, B 4 × 8 and C, D 8 × 8, in f64 (`mma.sync.m8n8k4.f64`).
///
/// A lane holds A(g, t), B(t, g), and the elements (g, 2t) and (g, 2t + 1) of C and D.
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane. *Deterministic*: yes, on one GPU model.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn row_sums(out: PerThread<[f64; 2]>) {
///     // Element (r, k) of A is r, and those of B are 1.
///     let g = f64::from(warp::lane_id() / 4);
///     out.set(mma::f64_8x8x4(g, 1.0, [0.5; 2]));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// row_sums(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[8..10], [4.5, 4.5]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn f64_8x8x4(a: f64, b: f64, c: [f64; 2]) -> [f64; 2] {
    target! {
        nvptx => {
            let (d0, d1): (f64, f64);
            // SAFETY: the function's contract: all 32 lanes execute this call. The instruction accesses registers only.
            unsafe {
                core::arch::asm!(
                    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{{}, {}}}, {{{}}}, {{{}}}, {{{}, {}}};",
                    out(reg64) d0, out(reg64) d1, in(reg64) a, in(reg64) b, in(reg64) c[0], in(reg64) c[1],
                    options(nomem, nostack, preserves_flags)
                );
            }
            [d0, d1]
        },
        emulated => {
            let thread = emulated::current();
            let give = |x: f64| thread.exchange(WarpOp::Mma, super::warp::FULL, x.to_bits());
            let (rows, columns) = (give(a), give(b));
            let lane = super::warp::lane_id() as usize;
            let element = |column: usize, start| (0..4).fold(start, |sum, k| {
                f64::from_bits(rows[lane / 4 * 4 + k]).mul_add(f64::from_bits(columns[4 * column + k]), sum)
            });
            [element(2 * (lane % 4), c[0]), element(2 * (lane % 4) + 1, c[1])]
        },
    }
}

/// D = A·B + C for A 16 × 8, B 8 × 8 and C, D 16 × 8, in f64. One instruction from `sm_90` on, four [`f64_8x8x4`]
/// before.
///
/// Lanes hold the same elements as in [`tf32_16x8x8`].
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane. *Deterministic*: yes, on one GPU model.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn row_sums(out: PerThread<[f64; 4]>) {
///     // Element (r, k) of A is r, and those of B are 1.
///     let g = f64::from(warp::lane_id() / 4);
///     out.set(mma::f64_16x8x8([g, g + 8.0, g, g + 8.0], [1.0; 2], [0.0; 4]));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(128)?;
/// row_sums(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[16..20], [8.0, 8.0, 72.0, 72.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn f64_16x8x8(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
    #[cfg(all(target_arch = "nvptx64", warpkov_sm = "90"))]
    {
        let (d0, d1, d2, d3): (f64, f64, f64, f64);
        // SAFETY: the function's contract: all 32 lanes execute this call. The instruction accesses registers only.
        unsafe {
            core::arch::asm!(
                "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {{{}, {}, {}, {}}}, {{{}, {}, {}, {}}}, {{{}, {}}}, \
                 {{{}, {}, {}, {}}};",
                out(reg64) d0, out(reg64) d1, out(reg64) d2, out(reg64) d3,
                in(reg64) a[0], in(reg64) a[1], in(reg64) a[2], in(reg64) a[3], in(reg64) b[0], in(reg64) b[1],
                in(reg64) c[0], in(reg64) c[1], in(reg64) c[2], in(reg64) c[3],
                options(nomem, nostack, preserves_flags)
            );
        }
        [d0, d1, d2, d3]
    }
    #[cfg(not(all(target_arch = "nvptx64", warpkov_sm = "90")))]
    {
        let top = f64_8x8x4(a[2], b[1], f64_8x8x4(a[0], b[0], [c[0], c[1]]));
        let bottom = f64_8x8x4(a[3], b[1], f64_8x8x4(a[1], b[0], [c[2], c[3]]));
        [top[0], top[1], bottom[0], bottom[1]]
    }
}

/// [`tf32_16x8x8`] to nearly the precision of f32, by three products: each factor is split into a high and a low part
/// of 11 bits, and the product of the two low parts is omitted.
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane. *Deterministic*: yes, on one GPU model.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn precise(out: PerThread<[f32; 4]>) {
///     out.set(mma::tf32x3_16x8x8([0.1; 4], [1.0; 2], [0.0; 4]));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(128)?;
/// precise(&device, Shape::new(1, 32), &mut out)?;
/// assert!(device.to_vec(&out)?.iter().all(|sum| (sum - 0.8).abs() < 1e-6));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn tf32x3_16x8x8(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    let (a_high, b_high) = (a.map(tf32), b.map(tf32));
    let a_low = [a[0] - a_high[0], a[1] - a_high[1], a[2] - a_high[2], a[3] - a_high[3]];
    let b_low = [b[0] - b_high[0], b[1] - b_high[1]];
    let c = tf32_16x8x8(a_low, b_high, c);
    let c = tf32_16x8x8(a_high, b_low, c);
    tf32_16x8x8(a_high, b_high, c)
}

/// x truncated to TF32: 10 fraction bits.
///
/// ```
/// use warpkov_device::device::mma;
///
/// assert_eq!(mma::tf32(1.0 + 2_f32.powi(-10)), 1.0 + 2_f32.powi(-10));
/// assert_eq!(mma::tf32(1.0 + 2_f32.powi(-11)), 1.0);
/// ```
#[inline(always)]
#[must_use]
pub fn tf32(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0xffff_e000)
}

#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn emulated_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    let thread = emulated::current();
    let pair = |low: f32, high: f32| u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32;
    let give = |low, high| thread.exchange(WarpOp::Mma, super::warp::FULL, pair(tf32(low), tf32(high)));
    let (top, bottom, right) = (give(a[0], a[2]), give(a[1], a[3]), give(b[0], b[1]));
    let element = |raw: u64, k: u32| f32::from_bits((raw >> (32 * (k / 4))) as u32);
    let lane = super::warp::lane_id();
    let (g, t) = ((lane / 4) as usize, lane as usize % 4);
    let dot = |rows: &[u64; 32], column: usize, start: f32| {
        (0..8).fold(start, |sum, k| {
            let from = k as usize % 4;
            element(rows[4 * g + from], k).mul_add(element(right[4 * column + from], k), sum)
        })
    };
    [dot(&top, 2 * t, c[0]), dot(&top, 2 * t + 1, c[1]), dot(&bottom, 2 * t, c[2]), dot(&bottom, 2 * t + 1, c[3])]
}
