//! What makes scaled recursions certain.
//!
//! Emissions of each step are scaled to at most 2ᵏ, k the `bias`, by the largest of the states that are predicted: pₜ = α̂ₜ₋₁ A (and
//! p₁ = π), σₜ = Σⱼ pₜ(j) b̃ⱼ, α̂ₜ = pₜ ∘ b̃ / σₜ. Which states *can* be predicted follows from the zeros of the model
//! ([`Reach`](super::reach::Reach)), not from the numbers.
//!
//! **Forward.** What vanishes in pₜ ∘ b̃ is below the least number ν of the type, and after the division below ν / `least_sum`, where
//! σₜ is at least `least_sum`. So each α̂ₜ(j) is right but for an absolute error δ of that size (and rounding), if pₜ was right relatively,
//! in each entry. Then pₜ₊₁(j) has an absolute error of at most N (δ + ν); where it is at least `least` in every state that can be
//! predicted, its relative error is below N (δ + ν) / `least`: N · 2⁻⁷⁰ in `f64`, N · 2⁻³⁵ in `f32`. By induction every pₜ is right in each
//! entry but for T times that, and so are the σₜ, which ln P(O) is the sum of.
//!
//! **Doubts.** Where some pₜ(j) is smaller, as in the first states of a model from left to right, which die out, absolute errors are followed: a row dₜ
//! of bounds, dₜ(j) = δ where none are followed yet. Of pₜ₊₁ they are e = dₜ A. A state with e(j) ≤ `negligible` · p(j) is right relatively, and
//! dₜ₊₁(j) = δ; for the others dₜ₊₁(j) = e(j) b̃ⱼ / σ + δ. As long as Σ e(j) b̃ⱼ over these is at most `negligible` · σ, no σₜ depends on them. A sequence
//! of which it is more, or of which σₜ is below `least_sum`, is *uncertain*. In `f64` none is by a model whose π and transitions are all above 10⁻¹⁸⁰, which
//! never has doubts either.
//!
//! **Backward.** Numbers only vanish, so that computed sums Sₜ = Σᵢ αₜ(i) βₜ(i), unscaled, are lower bounds of P(O), of which the
//! forward recursion is certain. What γₜ and ξₜ miss, in total variation, is 1 − Sₜ / P(O). The quotient follows from step to step:
//! Sₜ / Sₜ₊₁ = Σᵢ α̂ₜ(i) (A (b̃ ∘ β̂ₜ₊₁))(i) / (σₜ₊₁ Σⱼ α̂ₜ₊₁(j) β̂ₜ₊₁(j)). A sequence of which it is off 1 by more than the `tolerance` is uncertain.
//! That posteriors sum to 1, and to the same P(O) at every step, is so checked at every step of every sequence.
//!
//! Uncertain sequences are taken [again](super::wide), in numbers without limits.

use crate::backend::Precise;

/// Those of a type.
pub struct Limits {
    /// k.
    pub bias: i32,
    /// Of the predicted probability of a state.
    pub least: f64,
    /// δ.
    pub lost: f64,
    /// What part an error may be of a number that is right.
    pub negligible: f64,
    /// Of Σ p b̃, and of Σ α̂ₜ A (b̃ ∘ β̂ₜ₊₁), whose right factor is divided by it.
    pub least_sum: f64,
    /// What Sₜ / P(O) may be off 1 by, and by which more for each √step.
    pub tolerance: (f64, f64),
}

impl Limits {
    /// Those of a precision.
    pub const fn of<T: Precise>() -> Self {
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

    /// Of a sequence of so many steps.
    pub fn tolerance(&self, steps: usize) -> f64 {
        self.tolerance.0 + self.tolerance.1 * (steps as f64).sqrt()
    }
}

/// 2ᵉ of a normal number.
pub const fn power(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
