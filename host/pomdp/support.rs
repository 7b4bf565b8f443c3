//! Supported vectors: every vector of Γ keeps its continuations, so that the policy of Γ attains V.
//!
//! A vector is a conditional plan: take action a, then continue with α_{g(o)} after observation o. The policy that
//! takes the action of the best vector in every belief attains V(b) = max over α ∈ Γ of b·α if every vector is
//! *supported* by Γ,
//!
//! > α(s) ≤ r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{g(o)}(s') for all s, with α_{g(o)} ∈ Γ,
//!
//! because then V ≤ T_π V, and V ≤ T_πⁿ V → V_π. The Γ that a backup uses supports the new vector. Removing a vector
//! from Γ removes this support from all vectors that continue with it, even if it is nowhere the best: V stays a lower
//! bound on V\*, but the policy may attain arbitrarily less than V. So a removed vector that others continue with is
//! *retired*: it is stored, but backups ignore it. It is dropped once a vector of Γ that is at least as large in every
//! state can replace it. Rounding cannot break the replacement, because rounded sums of products with nonnegative
//! weights are monotone.

use crate::alpha::{AlphaVectors, VectorSet};

/// Flag bit of the index of a retired vector.
const RETIRED: u32 = 1 << 31;

/// A retired vector.
pub struct Retired {
    /// Its action.
    pub action: u32,
    /// Its group of states, 0 for all.
    pub group: u32,
    /// Its entries there.
    pub values: Box<[f64]>,
}

/// The continuations of the vectors of Γ, and the retired vectors.
pub struct Supports {
    /// |Ω|.
    observations: usize,
    /// g(o) of vector i at i·|Ω| + o: an index into Γ, or [`RETIRED`] plus an index into `retired`.
    next: Vec<u32>,
    retired: Vec<Retired>,
    /// Number of their entries.
    entries: usize,
    /// The same for retired vectors.
    retired_next: Vec<u32>,
    /// The first `compared` vectors of Γ do not dominate any retired vector.
    compared: usize,
}

impl Supports {
    /// The continuations of the first vectors of Γ: each continues with itself for ever.
    #[must_use]
    pub fn new(observations: u32, first: usize) -> Self {
        let observations = observations as usize;
        let next = (0..first as u32).flat_map(|vector| std::iter::repeat_n(vector, observations)).collect();
        Self { observations, next, retired: Vec::new(), entries: 0, retired_next: Vec::new(), compared: 0 }
    }

    /// Number of vectors of Γ with known continuations.
    #[must_use]
    pub fn active(&self) -> usize {
        self.next.len() / self.observations
    }

    /// Appends the continuations of the next vector of Γ: |Ω| indices into Γ.
    pub fn push(&mut self, next: &[u32]) {
        debug_assert_eq!(next.len(), self.observations);
        self.next.extend_from_slice(next);
    }

    /// The continuations of the vectors from index `first` on. None of them has been pruned since.
    #[must_use]
    pub fn from(&self, first: usize) -> &[u32] {
        &self.next[first * self.observations..]
    }

    /// Forgets the continuations of the vectors from index `count` on. Nothing has been pruned since they were added.
    pub fn truncate(&mut self, count: usize) {
        self.next.truncate(count * self.observations);
    }

    /// The retired vectors.
    #[must_use]
    pub fn retired(&self) -> &[Retired] {
        &self.retired
    }

    /// Bytes allocated.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries * size_of::<f64>() + 4 * (self.next.capacity() + self.retired_next.capacity())
    }

    /// Prepares Γ, here `active`, for the removal of every vector i with `stays[i]` false: retires removed vectors that
    /// others continue with, and renumbers continuations. Once it is `late`, stops looking for replacements.
    pub fn retain(&mut self, active: &impl VectorSet, stays: &[bool], late: &mut dyn FnMut() -> bool) {
        let (count, width) = (active.count(), self.observations);
        debug_assert_eq!((stays.len(), self.next.len()), (count, count * width));
        let total = count + self.retired.len();
        let place =
            |number: u32| if number & RETIRED == 0 { number as usize } else { count + (number & !RETIRED) as usize };
        let staying: Vec<usize> = (0..count).filter(|&i| stays[i]).collect();
        // A dominating vector has at least the same sum, which is cheaper to compare.
        let sum = |vector: &[f64]| vector.iter().sum::<f64>();
        let sums: Vec<f64> = staying.iter().map(|&i| sum(active.piece(i).1)).collect();
        // Replacement of each vector; itself if none.
        let mut replacement: Vec<usize> = (0..total).collect();
        let mut needed = vec![false; total];
        staying.iter().for_each(|&i| needed[i] = true);
        let (mut queue, mut no_time) = (staying.clone(), false);
        while let Some(vector) = queue.pop() {
            for &number in self.next_of(vector, count) {
                let follower = place(number);
                if std::mem::replace(&mut needed[follower], true) {
                    continue;
                }
                let ((group, own), from) = match follower.checked_sub(count) {
                    None => (active.piece(follower), 0),
                    Some(retired) => {
                        let Retired { group, values, .. } = &self.retired[retired];
                        ((*group, &values[..]), self.compared)
                    }
                };
                let least = sum(own);
                let above = |i: usize| {
                    let (of, its) = active.piece(i);
                    of == group && own.iter().zip(its).all(|(own, its)| own <= its)
                };
                no_time = no_time || late();
                // The newest vectors are the likeliest to dominate an older one.
                let mut others = staying.iter().zip(&sums).rev().filter(|_| !no_time);
                match others.find(|&(&i, &sum)| i >= from && sum >= least && above(i)) {
                    Some((&i, _)) => replacement[follower] = i,
                    None => queue.push(follower),
                }
            }
        }
        // New indices. Vectors retired before precede newly retired ones.
        let mut number = vec![0_u32; total];
        (0..).zip(&staying).for_each(|(new, &old)| number[old] = new);
        let aside = |&i: &usize| needed[i] && replacement[i] == i && (i >= count || !stays[i]);
        let before: Vec<usize> = (count..total).filter(aside).collect();
        let new: Vec<usize> = (0..count).filter(aside).collect();
        (0..).zip(before.iter().chain(&new)).for_each(|(new, &old)| number[old] = RETIRED | new);
        let renumbered = |&vector: &usize| -> Vec<u32> {
            self.next_of(vector, count).iter().map(|&next| number[replacement[place(next)]]).collect()
        };
        let next = staying.iter().flat_map(renumbered).collect();
        let retired_next = before.iter().chain(&new).flat_map(renumbered).collect();
        let mut number = count..;
        self.retired.retain(|_| number.next().is_some_and(|i| aside(&i)));
        self.retired.extend(new.iter().map(|&i| {
            let (group, values) = active.piece(i);
            Retired { action: active.action(i), group, values: values.into() }
        }));
        self.entries = self.retired.iter().map(|vector| vector.values.len()).sum();
        (self.next, self.retired_next, self.compared) = (next, retired_next, staying.len());
    }

    /// Continuations of a vector; indices from `count` on are retired vectors.
    fn next_of(&self, vector: usize, count: usize) -> &[u32] {
        let width = self.observations;
        match vector.checked_sub(count) {
            None => &self.next[vector * width..][..width],
            Some(retired) => &self.retired_next[retired * width..][..width],
        }
    }

    /// Appends the retired vectors, which span all states, to `active`, and returns g(o) of vector i at i·|Ω| + o.
    #[must_use]
    pub fn join(&self, mut active: AlphaVectors) -> (AlphaVectors, Vec<u32>) {
        let count = active.len() as u32;
        active.reserve_exact(self.retired.len());
        self.retired.iter().for_each(|vector| active.push(vector.action, &vector.values));
        (active, self.joined(count))
    }

    /// g(o) of vector i at i·|Ω| + o, if the retired vectors follow the `count` of Γ.
    #[must_use]
    pub fn joined(&self, count: u32) -> Vec<u32> {
        let number = |number: u32| if number & RETIRED == 0 { number } else { count + (number & !RETIRED) };
        self.next.iter().chain(&self.retired_next).map(|&next| number(next)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(values: &[f64]) -> AlphaVectors {
        let mut alpha = AlphaVectors::new(1);
        values.iter().for_each(|value| alpha.push(0, &[*value]));
        alpha
    }

    fn values(supports: &Supports) -> Vec<f64> {
        supports.retired().iter().flat_map(|vector| vector.values.to_vec()).collect()
    }

    #[test]
    fn continuations_are_retired_until_a_vector_dominates_them() {
        // Vector 0 continues with itself, 1 with 0, 2 with 1.
        let mut supports = Supports::new(1, 1);
        supports.push(&[0]);
        supports.push(&[1]);
        supports.retain(&vectors(&[0.0, 5.0, 3.0]), &[true, false, true], &mut || false);
        assert_eq!(values(&supports), [5.0]);
        // 4 does not dominate the retired vector, 6 does.
        supports.push(&[1]);
        supports.retain(&vectors(&[0.0, 3.0, 4.0]), &[true, true, true], &mut || false);
        assert_eq!(values(&supports), [5.0]);
        supports.push(&[2]);
        supports.retain(&vectors(&[0.0, 3.0, 4.0, 6.0]), &[true, true, false, true], &mut || false);
        // 6 continues with 4, which it replaces.
        let (joined, next) = supports.join(vectors(&[0.0, 3.0, 6.0]));
        assert_eq!((joined.values(), next), (&[0.0, 3.0, 6.0][..], vec![0, 2, 2]));
    }
}
