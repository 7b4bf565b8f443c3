//! Point-based backups: what every point-based solver does most, as one narrow trait over where it runs.
//!
//! The backup of a belief b by a set of vectors Γ is the vector
//!
//! > backup(b) = argmax over g ∈ {gₐᵇ : a ∈ A} of b·g,  gₐᵇ = rₐ + γ Σₒ argmax over g ∈ {g^i_{a,o} : i} of b·g,
//! > g^i_{a,o}(s) = Σ_{s'} T(s, a, s') O(a, s', o) αᵢ(s')
//!
//! that begins with the action a that it was taken for. Where Γ is a lower bound on V\*, so is Γ with any such vector, whichever
//! i and a were chosen: choices may be rounded, vectors should not be. Ties go to the lowest a and the lowest i.

use super::alpha::AlphaVectors;
use super::belief::Belief;

/// Backups of many beliefs at a time, by vectors that stay where they are used. The model is one to be maximised.
pub trait Backup {
    /// What can go wrong.
    type Error;

    /// Replaces Γ.
    ///
    /// # Errors
    /// Those of the device.
    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Self::Error>;

    /// Adds vectors behind those that Γ has.
    ///
    /// # Errors
    /// Those of the device.
    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Self::Error>;

    /// backup(b) of each belief, in the order of beliefs, with its action. Γ stays as it is, and has one vector at least.
    ///
    /// # Errors
    /// Those of the device.
    fn backup(&mut self, beliefs: &[Belief]) -> Result<AlphaVectors, Self::Error>;

    /// The vector of Γ that is best at each belief, the first of those, and the belief's value by it.
    ///
    /// # Errors
    /// Those of the device.
    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, Self::Error>;
}
