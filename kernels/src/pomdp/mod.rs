//! Kernels for partially observable Markov decision processes: point-based backups of alpha vectors.
//!
//! # The full backup, tensor by tensor
//!
//! A set Γ of n alpha vectors αᵢ and a set B of beliefs bⱼ yield one new vector per belief. Each step is a kernel that
//! writes one complete tensor, one thread per element: thread l computes element l and derives the indices by division
//! and remainder.
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
//! Inputs, all dense with the last index fastest: beliefs B\[j\]\[s\], vectors Γ\[i\]\[s\], rewards R\[a\]\[s\],
//! observation probabilities O\[o\]\[a\]\[s'\]. The transitions are either the matrix T\[a\]\[s\] = s' of a
//! deterministic process, or compressed rows, where row s·A + a holds T(s, a, ·).
//!
//! [`lookahead`] holds the kernels of the opposite direction: from a belief to its best action with respect to Γ.
//!
//! # The fast backup
//!
//! G_AO has n·Ω·A·S elements, and the beliefs need few of them. The identity b · g^i_{a,o} = Σ_{s'} p(s', o | b, a)
//! αᵢ(s') yields the same vectors from beliefs [`project`]ed forward: [`product`] finds the best i for each row p(·,
//! o | b, a), and [`gather`] builds the vectors of the winners only. [`walk`] generates beliefs on the device;
//! [`sawtooth`] bounds V\* from above.
//!
//! Source of the full backup: G. Losapio, "Understanding kernel computations", 2022.

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

use warpkov_device::device::safe::{In, Len};
use warpkov_device::device::{Real, math};

/// Σₛ x\[s\] · y\[s\], in f64 and in ascending order.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn dot<'s, T: Real>(states: Len<'s>, x: In<'s, T>, y: In<'s, T>) -> f64 {
    let mut sum = 0.0;
    for s in states.indices() {
        sum = math::fma(x.get(s).to_f64(), y.get(s).to_f64(), sum);
    }
    sum
}

/// Index of the largest of n elements; the lowest index breaks ties. 0 of none.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn argmax<'n, T: Real>(n: Len<'n>, x: In<'n, T>) -> u32 {
    let Some(first) = n.index(0) else { return 0 };
    let (mut best, mut largest) = (0, x.get(first));
    for k in n.indices().skip(1) {
        if x.get(k) > largest {
            (best, largest) = (k.get() as u32, x.get(k));
        }
    }
    best
}
