//! Underflow analysis of the scaled recursions: thresholds, and the proof that results within them are accurate.
//!
//! **Scaling.** pₜ = uₜ₋₁ αₜ₋₁ A is the prediction of step t (p₁ = π), αₜ = pₜ ∘ b̃ and σₜ = Σⱼ αₜ(j). The emissions b̃
//! of a step are scaled so that the largest over the states that can be predicted is about 2ᵏ, where k is `bias`. uₜ is
//! the power of two with 1 ≤ uₜ σₜ < 2. The row uₜ αₜ therefore equals α̂ₜ up to a factor below 2; all bounds below
//! refer to it. Which states *can* be predicted follows from the zeros of the model
//! ([`Reach`](crate::backends::cpu::reach::Reach)), not from rounded numbers.
//!
//! **Forward.** Underflow in an entry of pₜ ∘ b̃ loses less than ν, the least positive number of the type. If σₜ is at
//! least `least_sum`, this is less than ν / `least_sum` = δ / 16 after multiplication by uₜ. An entry of αₜ A loses at
//! most N times as much. So if every entry of pₜ has a small relative error, every uₜ αₜ(j) has an absolute error of at
//! most δ beside rounding, and every pₜ₊₁(j) one of at most N δ. If pₜ₊₁(j) is at least `least` in every state that can
//! be predicted, its relative error is below N δ / `least`, which is N · 2⁻⁷⁰ in `f64` and N · 2⁻³⁵ in `f32`. By
//! induction every entry of every pₜ has a relative error of at most T times this bound. The same holds for every σₜ,
//! and P(O) is their product. A model is *firm* if π and all transitions are at least 2 `least`: then every entry of
//! every p is at least `least` and needs no check.
//!
//! **Doubts.** Some pₜ(j) may be below `least`, as in the first states of a left-right model, whose probability dies
//! out. The recursion then tracks a row dₜ of bounds of the absolute errors of uₜ αₜ, which starts at δ. The bounds of
//! pₜ₊₁ are e = dₜ A + N δ. A state with e(j) ≤ `negligible` · p(j) has a small relative error: dₜ₊₁(j) = δ. For every
//! other state dₜ₊₁(j) = uₜ₊₁ e(j) b̃ⱼ + δ. While the sum of e(j) b̃ⱼ over these states is at most `negligible` · σ,
//! they do not affect σₜ. A sequence that exceeds this bound, or whose σₜ is below `least_sum`, is *uncertain*.
//!
//! **Backward.** Underflow only decreases numbers, so the computed unscaled sums Sₜ = Σᵢ αₜ(i) βₜ(i) are lower bounds
//! of P(O), which the forward recursion knows accurately. The error of γₜ and ξₜ in total variation is 1 − Sₜ / P(O).
//! This quotient follows from step to step: Sₜ / Sₜ₊₁ = Σᵢ uₜ αₜ(i) (A (b̃ ∘ βₜ₊₁))(i) / Σⱼ αₜ₊₁(j) βₜ₊₁(j). A sequence
//! for which it differs from 1 by more than `tolerance` is uncertain. This checks at every step of every sequence that
//! posteriors sum to 1.
//!
//! Uncertain sequences are recomputed with the [exact recursions](crate::backends::cpu::wide), which cannot underflow.

use warpkov_runtime::Precise;

/// Thresholds of a floating-point type; the module documentation defines the symbols.
pub struct Limits {
    /// k, the exponent that emissions are scaled to.
    pub bias: i32,
    /// Least predicted probability of a state that needs no error bound.
    pub least: f64,
    /// δ, the absolute error that underflow causes in an entry of uₜ αₜ.
    pub lost: f64,
    /// Relative error that does not affect a result.
    pub negligible: f64,
    /// Least σₜ, and least Σ uₜ αₜ A (b̃ ∘ βₜ₊₁), by which the right factor of ξ is divided.
    pub least_sum: f64,
    /// Largest |Sₜ / P(O) − 1|: a constant, and a factor of √T.
    pub tolerance: (f64, f64),
}

impl Limits {
    /// The thresholds of `T`.
    pub const fn current<T: Precise>() -> Self {
        if T::WIDE {
            Self {
                bias: 500,
                least: power(-900),
                lost: power(-970),
                negligible: power(-55),
                least_sum: power(-100),
                tolerance: (1e-10, 1e-12),
            }
        } else {
            Self {
                bias: 60,
                least: power(-70),
                lost: power(-105),
                negligible: power(-27),
                least_sum: power(-40),
                tolerance: (1e-4, 1e-6),
            }
        }
    }

    /// Largest |Sₜ / P(O) − 1| for a sequence of `steps` steps.
    pub fn tolerance(&self, steps: usize) -> f64 {
        self.tolerance.0 + self.tolerance.1 * (steps as f64).sqrt()
    }
}

/// 2ᵉ for −1022 ≤ e ≤ 1023.
pub const fn power(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
