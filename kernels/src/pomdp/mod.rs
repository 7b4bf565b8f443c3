//! Kernels for partially observable processes: point-based backups of alpha vectors.
//!
//! # The full backup, tensor by tensor
//!
//! A set Γ of n vectors αᵢ and a set B of beliefs bⱼ give a new vector for each belief. Every step is a kernel, every tensor
//! lies in memory as a whole, and each of its elements has one thread: the thread with the index l computes the element l, and
//! finds by division and remainder which one that is.
//!
//! | kernel | tensor | dimensions | element |
//! | --- | --- | --- | --- |
//! | [`g_ao`] | G_AO | \[n\]\[Ω\]\[A\]\[S\] | g^i_{a,o}(s) = Σ_{s'} O(a, s', o) T(s, a, s') αᵢ(s') |
//! | [`scores`] | Ĝ_AO | \[B\]\[Ω\]\[A\]\[n\] | bⱼ · g^i_{a,o} |
//! | [`best`] | Ĝ\*_AO | \[B\]\[A\]\[Ω\] | i\* = argmaxᵢ bⱼ · g^i_{a,o} |
//! | [`g_ab`] | G_A^B | \[B\]\[A\]\[S\] | gₐᵇ(s) = r(s, a) + γ Σₒ g^{i\*}_{a,o}(s) |
//! | [`action_scores`] | Ĝ_A^B | \[B\]\[A\] | bⱼ · gₐᵇ |
//! | [`best_action`] | Ĝ\*_A^B | \[B\] | a\* = argmaxₐ bⱼ · gₐᵇ |
//! | [`backup`] | B_KP | \[B\]\[S\] | gᵇ_{a\*}(s) |
//!
//! What they compute from: beliefs B\[j\]\[s\], vectors Γ\[i\]\[s\], rewards R\[a\]\[s\], observations O\[o\]\[a\]\[s'\], all dense
//! with the last index fastest; and transitions, either as the matrix T\[a\]\[s\] = s' of a process that is deterministic, or
//! as compressed rows, of which row s·A + a holds T(s, a, ·).
//!
//! [`lookahead`] has the kernels of the other direction, from a belief to the best action by Γ.
//!
//! # The backup that is fast
//!
//! G_AO has n·Ω·A·S elements, most of which no belief asks for. The same vectors come from [`project`]ing beliefs forward
//! instead of vectors backward, since b · g^i_{a,o} = Σ_{s'} p(s', o | b, a) αᵢ(s'): [`product`] finds the best i for each row
//! p(·, o | b, a), and [`gather`] builds the vectors of the winners only. Where the beliefs come from, if they are to stay
//! where they are backed up: [`walk`].
//!
//! Source of the first part: G. Losapio, "Understanding kernel computations", 2022.

pub mod action_scores;
pub mod backup;
pub mod best;
pub mod best_action;
pub mod g_ab;
pub mod g_ao;
pub mod gather;
pub mod lookahead;
pub mod model;
pub mod product;
pub mod project;
pub mod sawtooth;
pub mod scores;
pub mod walk;

use warpkov_device::device::{Global, Real};

/// Σₛ x\[x₀ + s\] · y\[y₀ + s\] over `states` elements of each, in f64 and in ascending order.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn dot<T: Real>(states: usize, x: Global<T>, x_first: usize, y: Global<T>, y_first: usize) -> f64 {
    let mut sum = 0.0;
    let mut s = 0;
    while s < states {
        sum = warpkov_device::device::math::fma(x.get(x_first + s).to_f64(), y.get(y_first + s).to_f64(), sum);
        s += 1;
    }
    sum
}

/// The index k of the largest of `count` elements of x from `first` on, the lowest of equal ones.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn argmax<T: Real>(count: usize, x: Global<T>, first: usize) -> u32 {
    let mut best = 0;
    let mut k = 1;
    while k < count {
        if x.get(first + k) > x.get(first + best) {
            best = k;
        }
        k += 1;
    }
    best as u32
}
