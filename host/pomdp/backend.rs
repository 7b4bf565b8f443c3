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

/// Vectors, and how they go on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plans {
    /// The vectors.
    pub vectors: AlphaVectors,
    /// At i·|Ω| + o the number of the vector of Γ that follows observation o in vector i.
    pub next: Vec<u32>,
}

/// Backups of many beliefs at a time, by vectors that stay where they are used. The model is one to be maximised.
pub trait PointBackup {
    /// What can go wrong.
    type Error;

    /// Replaces Γ.
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// If vectors are of other states or actions than those of the model.
    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Self::Error>;

    /// Adds vectors behind those that Γ has.
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// If vectors are of other states or actions than those of the model.
    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Self::Error>;

    /// backup(b) of each belief, in the order of beliefs, with its action and the i that were chosen. Γ stays as it is, and has
    /// one vector at least.
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// If a belief has a state that the model does not have, or if Γ is empty.
    fn backup(&mut self, beliefs: &[Belief]) -> Result<Plans, Self::Error>;

    /// The vector of Γ that is best at each belief, the first of those, and the belief's value by it.
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Panics
    /// As [`backup`](Self::backup).
    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, Self::Error>;
}

/// How walks go.
#[derive(Clone, Debug, PartialEq)]
pub struct Walks {
    /// How many at a time.
    pub count: u32,
    /// The first of them, which take the action that looks best from above.
    pub optimistic: u32,
    /// The next, which take the action that is best where the state is seen; the others take that of their best vector.
    pub guided: u32,
    /// The probability of a random action in place of any of these, in [0, 1].
    pub explored: f64,
    /// The action that is best where the state is seen, for each state.
    pub best_in: Vec<u32>,
}

/// Beliefs that were walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Batches, from b₀ on.
    pub batches: usize,
    /// Beliefs in all of them.
    pub beliefs: usize,
}

/// What backups of a batch were good for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Improved {
    /// Backups.
    pub beliefs: usize,
    /// By how much the value of one of the beliefs rose at most.
    pub risen: f64,
}

/// Backups of beliefs that walks come through, and upper bounds there, all of which stay where Γ is.
pub trait Trials: PointBackup {
    /// Walks anew from b₀, up to `steps` steps, no more beliefs than take `bytes` bytes, and until it is `late`; equal seeds
    /// give equal walks for an equal Γ. Γ has one vector at least.
    ///
    /// # Errors
    /// Those of the device.
    fn walk(
        &mut self,
        walks: &Walks,
        steps: u32,
        bytes: u64,
        seed: u64,
        late: &mut dyn FnMut() -> bool,
    ) -> Result<Walked, Self::Error>;

    /// Whether scores of few digits will do from now on: what they choose is as valid, and may be a little worse.
    fn set_rough(&mut self, rough: bool);

    /// Backs up the beliefs of a batch by Γ, and adds vectors that are better by more than `min_improvement` at their beliefs, until every
    /// belief has a good part of the rise that its own would give it.
    ///
    /// # Errors
    /// Those of the device.
    fn improve(&mut self, batch: usize, min_improvement: f64) -> Result<Improved, Self::Error>;

    /// Lowers the upper bound at beliefs of a batch to what one step of lookahead says, where that is news by more than `min_improvement`;
    /// at some of them, or of some batches, where it takes long. Returns by how much it fell at most.
    ///
    /// # Errors
    /// Those of the device.
    fn tighten(&mut self, batch: usize, min_improvement: f64) -> Result<f64, Self::Error>;

    /// V\* of each belief is not above this.
    ///
    /// # Errors
    /// Those of the device.
    fn upper(&mut self, beliefs: &[Belief]) -> Result<Vec<f64>, Self::Error>;

    /// Leaves in Γ the first `kept` vectors, and of the others those that are the best at a belief of some of the batches up to
    /// `batch`; of more than `most` those that are the best most often, and those of b₀. What these go on with is kept aside.
    ///
    /// # Errors
    /// Those of the device.
    fn prune(&mut self, kept: usize, most: usize, batch: usize) -> Result<(), Self::Error>;

    /// Gives up what takes memory until no more than so many bytes are taken, as far as that goes: points of the upper bound that were
    /// of no use for the longest time, and vectors as [`prune`](Self::prune) does.
    ///
    /// # Errors
    /// Those of the device.
    fn shrink(&mut self, kept: usize, bytes: u64, batch: usize) -> Result<(), Self::Error>;

    /// |Γ|, without what is kept aside.
    fn count(&self) -> usize;

    /// Bytes of Γ, of beliefs, and of what bounds V\* from above.
    fn bytes(&self) -> u64;

    /// What rounding may have added to a vector, and what it may have taken from an upper bound: V\*(b) is not below b·α by more
    /// than the first, and not above its upper bound by more than the second, for rewards of which none is above `largest` in
    /// amount.
    fn slack(&self, largest: f64) -> [f64; 2];
}
