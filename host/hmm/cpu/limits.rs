//! What makes scaled recursions certain.
//!
//! Emissions of each step are scaled to at most 2ᵏ, k the `bias`, by the largest of the states that are predicted: pₜ = uₜ₋₁ αₜ₋₁ A (and
//! p₁ = π), αₜ = pₜ ∘ b̃, σₜ = Σⱼ αₜ(j), and uₜ is the power of two for which uₜ σₜ is between 1 and 2. So is the sum of uₜ αₜ, of which all that
//! follows speaks: it is what α̂ is to others, but for a factor below 2. Which states *can* be predicted follows from the zeros of the model
//! ([`Reach`](crate::hmm::cpu::reach::Reach)), not from the numbers.
//!
//! **Forward.** What vanishes in an entry of pₜ ∘ b̃ is below the least number ν of the type, and below ν / `least_sum` = δ / 16 once multiplied by uₜ,
//! where σₜ is at least `least_sum`; in an entry of αₜ A it is N times that. So each uₜ αₜ(j) is right but for an absolute error δ (and rounding), if pₜ was
//! right relatively, in each entry, and pₜ₊₁(j) is right but for N δ; where it is at least `least` in every state that can be
//! predicted, its relative error is below N δ / `least`: N · 2⁻⁷⁰ in `f64`, N · 2⁻³⁵ in `f32`. By induction every pₜ is right in each
//! entry but for T times that, and so are the σₜ, which P(O) is the product of. A model whose π and transitions are all at least 2 `least` is *firm*: every
//! entry of every p is at least `least`, and need not be looked at.
//!
//! **Doubts.** Where some pₜ(j) is smaller, as in the first states of a model from left to right, which die out, absolute errors are followed: a row dₜ
//! of bounds of those of uₜ αₜ; δ where none are followed yet. Of pₜ₊₁ they are e = dₜ A + N δ. A state with e(j) ≤ `negligible` · p(j) is right relatively, and
//! dₜ₊₁(j) = δ; for the others dₜ₊₁(j) = uₜ₊₁ e(j) b̃ⱼ + δ. As long as Σ e(j) b̃ⱼ over these is at most `negligible` · σ, no σₜ depends on them. A sequence
//! of which it is more, or of which σₜ is below `least_sum`, is *uncertain*.
//!
//! **Backward.** Numbers only vanish, so that computed sums Sₜ = Σᵢ αₜ(i) βₜ(i), unscaled, are lower bounds of P(O), of which the
//! forward recursion is certain. What γₜ and ξₜ miss, in total variation, is 1 − Sₜ / P(O). The quotient follows from step to step:
//! Sₜ / Sₜ₊₁ = Σᵢ uₜ αₜ(i) (A (b̃ ∘ βₜ₊₁))(i) / Σⱼ αₜ₊₁(j) βₜ₊₁(j). A sequence of which it is off 1 by more than the `tolerance` is uncertain.
//! That posteriors sum to 1, and to the same P(O) at every step, is so checked at every step of every sequence.
//!
//! Uncertain sequences are taken [again](crate::hmm::cpu::wide), in numbers without limits.

use crate::runtime::Precise;

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
    /// Of σₜ, and of Σ uₜ αₜ A (b̃ ∘ βₜ₊₁), whose right factor is divided by it.
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
