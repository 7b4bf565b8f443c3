//! Point-based backups: the interface between solvers and the CPU or a device.
//!
//! The backup of a belief b by a set of vectors Γ is the vector
//!
//! > backup(b) = argmax over g ∈ {gₐᵇ : a ∈ A} of b·g,  gₐᵇ = rₐ + γ Σₒ argmax over g ∈ {g^i_{a,o} : i} of b·g,
//! > g^i_{a,o}(s) = Σ_{s'} T(s, a, s') O(a, s', o) αᵢ(s')
//!
//! with the maximising action a as its first action. If Γ is a lower bound on V\*, Γ with gₐᵇ added is one for every
//! choice of a and of the i. So the choice may use rounded scores, while the vector itself needs full precision. Ties
//! go to the lowest a and the lowest i.

use std::ops::Range;

use super::alpha::AlphaVectors;
use super::belief::Belief;

/// Alpha vectors with their continuations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plans {
    /// The vectors.
    pub vectors: AlphaVectors,
    /// Index of the vector of Γ that vector i continues with after observation o, at i·|Ω| + o.
    pub next: Vec<u32>,
}

/// Backups of batches of beliefs. Γ stays in the memory of the backend. The model is a maximisation problem.
pub trait PointBackup {
    /// A failure of the backend.
    type Error;

    /// Replaces Γ.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// If the vectors do not [fit](AlphaVectors::fit) the model.
    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Self::Error>;

    /// Appends vectors to Γ.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// If the vectors do not [fit](AlphaVectors::fit) the model.
    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Self::Error>;

    /// Returns backup(b) for each belief, in the order of `beliefs`, with its action and the chosen i as continuations.
    /// Γ stays unchanged.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// If a belief does not fit the model, or if Γ is empty.
    fn backup(&mut self, beliefs: &[Belief]) -> Result<Plans, Self::Error> {
        self.backup_part(beliefs, 0..beliefs.len())
    }

    /// The part of [`backup`](Self::backup)'s result that belongs to the beliefs in `part`, with the same bits.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// As [`backup`](Self::backup).
    fn backup_part(&mut self, beliefs: &[Belief], part: Range<usize>) -> Result<Plans, Self::Error>;

    /// Returns for each belief the first best vector of Γ and its value b·α.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// As [`backup`](Self::backup).
    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, Self::Error>;
}

/// Parameters of a batch of walks: simulated trajectories of beliefs from b₀.
#[derive(Clone, Debug, PartialEq)]
pub struct Walks {
    /// Number of simultaneous walks.
    pub count: u32,
    /// The first `optimistic` walks take the best action by the upper bound.
    pub optimistic: u32,
    /// The next `guided` walks take the best action of the MDP in a sampled state; the rest take the action of the best
    /// vector.
    pub guided: u32,
    /// Probability of a random action instead, in [0, 1].
    pub explored: f64,
    /// The best action of the underlying MDP, per state.
    pub best_in: Vec<u32>,
}

/// The beliefs that a set of walks visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Number of batches; batch 0 begins at b₀.
    pub batches: usize,
    /// Total number of beliefs.
    pub beliefs: usize,
}

/// Result of backing up a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Improved {
    /// Number of backups.
    pub beliefs: usize,
    /// Largest increase of the lower bound at a belief of the batch.
    pub risen: f64,
}

/// Walks, backups along them, and upper bounds at their beliefs. All data stay in the memory of the backend.
pub trait Trials: PointBackup {
    /// Starts new walks from b₀ and follows them for at most `steps` steps, `bytes` bytes of beliefs, or until `late`.
    /// Equal seeds give equal walks for equal Γ. Γ must not be empty.
    ///
    /// # Errors
    /// Errors of the device.
    fn walk(
        &mut self,
        walks: &Walks,
        steps: u32,
        bytes: u64,
        seed: u64,
        late: &mut dyn FnMut() -> bool,
    ) -> Result<Walked, Self::Error>;

    /// Selects low-precision scores from now on. Low precision keeps bounds valid; choices may be slightly worse.
    fn set_rough(&mut self, rough: bool);

    /// Backs up the beliefs of a batch and adds vectors that improve the value at their beliefs by more than
    /// `min_improvement`. Stops as soon as every belief has a good part of the increase that its own vector would give.
    ///
    /// # Errors
    /// Errors of the device.
    fn improve(&mut self, batch: usize, min_improvement: f64) -> Result<Improved, Self::Error>;

    /// Lowers the upper bound at beliefs of a batch to its one-step lookahead, where that lowers it by more than
    /// `min_improvement`. A slow backend may skip some beliefs or batches. Returns the largest decrease.
    ///
    /// # Errors
    /// Errors of the device.
    fn tighten(&mut self, batch: usize, min_improvement: f64) -> Result<f64, Self::Error>;

    /// Upper bounds on V\* at each belief.
    ///
    /// # Errors
    /// Errors of the device.
    fn upper(&mut self, beliefs: &[Belief]) -> Result<Vec<f64>, Self::Error>;

    /// Number of beliefs at which each vector of Γ is the best, in a sample of the batches up to `batch`. The best vector at b₀
    /// counts more than all beliefs.
    ///
    /// # Errors
    /// Errors of the device.
    fn uses(&mut self, batch: usize) -> Result<Vec<u64>, Self::Error>;

    /// Reduces Γ to the vectors i with `stays[i]`. The continuations of these are [retired](super::support).
    ///
    /// # Errors
    /// Errors of the device.
    fn retain(&mut self, stays: &[bool]) -> Result<(), Self::Error>;

    /// Reduces Γ to its first `kept` vectors and those that are best at a belief of a sample of the batches up to
    /// `batch`. If more than `most` remain, the best vector at b₀ and those that are best most often stay. Their
    /// continuations are [retired](super::support).
    ///
    /// # Errors
    /// Errors of the device.
    fn prune(&mut self, kept: usize, most: usize, batch: usize) -> Result<(), Self::Error> {
        let uses = self.uses(batch)?;
        self.retain(&staying(&uses, kept, most))
    }

    /// Releases memory until sawtooth points take at most `bytes` bytes: those unused for longest.
    ///
    /// # Errors
    /// Errors of the device.
    fn drop_points(&mut self, bytes: u64) -> Result<(), Self::Error>;

    /// The vectors of Γ from index `first` on. None of them has been pruned since.
    ///
    /// # Errors
    /// Errors of the device.
    fn plans_from(&mut self, first: usize) -> Result<Plans, Self::Error>;

    /// Γ and, behind it, the retired vectors.
    ///
    /// # Errors
    /// Errors of the device.
    fn plans(&mut self) -> Result<Plans, Self::Error>;

    /// Replaces the vectors of Γ from index `first` on. None of them has been pruned since. Continuations are indices into the
    /// new Γ.
    ///
    /// # Errors
    /// Errors of the device.
    fn replace_from(&mut self, first: usize, plans: &Plans) -> Result<(), Self::Error>;

    /// The points that [`tighten`](Self::tighten) added since the last call of [`add_points`](Self::add_points): beliefs c, and
    /// the drops u − c·v of their bounds u below the vertices v of the fast informed bound.
    ///
    /// # Errors
    /// Errors of the device.
    fn new_points(&mut self) -> Result<Vec<(Belief, f64)>, Self::Error>;

    /// Adds those of these points that lower the upper bound at their belief by more than `min_improvement`.
    ///
    /// # Errors
    /// Errors of the device.
    fn add_points(&mut self, points: &[(Belief, f64)], min_improvement: f64) -> Result<(), Self::Error>;

    /// |Γ|, without retired vectors.
    fn count(&self) -> usize;

    /// Bytes of Γ, of beliefs, and of the upper bound.
    fn bytes(&self) -> u64;

    /// Bounds on rounding errors, `[below, above]`, for rewards with |r| ≤ `largest`: V\*(b) ≥ b·α − below, and V\*(b)
    /// ≤ upper(b) + above.
    fn slack(&self, largest: f64) -> [f64; 2];
}

/// Which vectors stay, by the number of their uses: the first `kept` and those in use, the `most` with the most uses if these
/// are more.
#[must_use]
pub fn staying(uses: &[u64], kept: usize, most: usize) -> Vec<bool> {
    let uses_of = |vector: usize| if vector < kept { u64::MAX } else { uses[vector] };
    let mut picked: Vec<usize> = (0..uses.len()).filter(|&vector| uses_of(vector) > 0).collect();
    if picked.len() > most {
        picked.sort_by_key(|&vector| std::cmp::Reverse(uses_of(vector)));
        picked.truncate(most);
    }
    let mut stays = vec![false; uses.len()];
    picked.into_iter().for_each(|vector| stays[vector] = true);
    stays
}
