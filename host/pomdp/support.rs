//! What keeps vectors attained when others are given up.
//!
//! A vector is a plan: take the action a, and after the observation o go on as α_{g(o)}. A policy that takes the action of its best
//! vector in every belief attains V(b) = max over α ∈ Γ of b·α if every vector is *supported* by Γ,
//!
//! > α(s) ≤ r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{g(o)}(s') for all s, with α_{g(o)} ∈ Γ,
//!
//! as then V ≤ T_π V, and V ≤ T_πⁿ V → V_π. A backup is supported by the Γ that it is made from. Whoever takes a vector away has to
//! see to those that go on with it, though it be the best nowhere any more: without it V is still a lower bound on V\*, and
//! what the policy earns may be any amount less. So a vector that is given up but gone on with is *retired*: kept aside, where no
//! backup looks for it. It is let go once a vector of Γ is at least as large in every state, which then takes its place.
//! Sums of products with weights of one sign are monotone when they are rounded, too, so that this loses nothing by rounding.

use crate::pomdp::alpha::AlphaVectors;

/// What marks the number of a retired vector.
const RETIRED: u32 = 1 << 31;

/// How the vectors of Γ go on, and those that are kept aside for them.
pub struct Supports {
    /// |Ω|.
    observations: usize,
    /// g(o) of vector i at i·|Ω| + o: the number of a vector of Γ, or [`RETIRED`] and one of the retired.
    next: Vec<u32>,
    retired: AlphaVectors,
    /// The same of those.
    retired_next: Vec<u32>,
    /// Vectors of Γ, the first, that no retired one is below.
    met: usize,
}

impl Supports {
    /// Of vectors that go on with themselves, each for ever: as many as Γ begins with.
    #[must_use]
    pub fn new(states: u32, observations: u32, first: usize) -> Self {
        let observations = observations as usize;
        let next = (0..first as u32).flat_map(|vector| std::iter::repeat_n(vector, observations)).collect();
        Self { observations, next, retired: AlphaVectors::new(states), retired_next: Vec::new(), met: 0 }
    }

    /// Vectors of Γ of which it is known how they go on, the first.
    #[must_use]
    pub fn active(&self) -> usize {
        self.next.len() / self.observations
    }

    /// Notes how the next vector of Γ goes on: `next` are |Ω| vectors that Γ has.
    pub fn push(&mut self, next: &[u32]) {
        debug_assert_eq!(next.len(), self.observations);
        self.next.extend_from_slice(next);
    }

    /// Vectors that are kept aside.
    #[must_use]
    pub fn retired(&self) -> &AlphaVectors {
        &self.retired
    }

    /// Bytes of all this.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.retired.capacity() * size_of::<f64>() + 4 * (self.next.capacity() + self.retired_next.capacity())
    }

    /// Γ, `active`, is about to be left with those vectors only that `stays` says yes to: retires what they need of the others. Once
    /// it is `late`, no vector takes the place of another any more.
    pub fn retain(&mut self, active: &AlphaVectors, stays: &[bool], late: &mut dyn FnMut() -> bool) {
        let (count, width) = (active.len(), self.observations);
        debug_assert_eq!((stays.len(), self.next.len()), (count, count * width));
        let total = count + self.retired.len();
        let place =
            |number: u32| if number & RETIRED == 0 { number as usize } else { count + (number & !RETIRED) as usize };
        let staying: Vec<usize> = (0..count).filter(|&i| stays[i]).collect();
        // A vector that is as large everywhere has as large a sum.
        let sum = |vector: &[f64]| vector.iter().sum::<f64>();
        let sums: Vec<f64> = staying.iter().map(|&i| sum(active.vector(i))).collect();
        // What takes a vector's place; itself at first.
        let mut instead: Vec<usize> = (0..total).collect();
        let mut needed = vec![false; total];
        staying.iter().for_each(|&i| needed[i] = true);
        let (mut queue, mut no_time) = (staying.clone(), false);
        while let Some(vector) = queue.pop() {
            for &number in self.next_of(vector, count) {
                let follower = place(number);
                if std::mem::replace(&mut needed[follower], true) {
                    continue;
                }
                let (own, from) = if follower < count {
                    (active.vector(follower), 0)
                } else {
                    (self.retired.vector(follower - count), self.met)
                };
                let least = sum(own);
                let above = |i: usize| own.iter().zip(active.vector(i)).all(|(own, its)| own <= its);
                no_time = no_time || late();
                // The last ones are the likeliest to be above what is older.
                let mut others = staying.iter().zip(&sums).rev().filter(|_| !no_time);
                match others.find(|&(&i, &sum)| i >= from && sum >= least && above(i)) {
                    Some((&i, _)) => instead[follower] = i,
                    None => queue.push(follower),
                }
            }
        }
        // New numbers, and new places of what is retired: first what was before.
        let mut number = vec![0_u32; total];
        (0..).zip(&staying).for_each(|(new, &old)| number[old] = new);
        let aside = |&i: &usize| needed[i] && instead[i] == i && (i >= count || !stays[i]);
        let before: Vec<usize> = (count..total).filter(aside).collect();
        let new: Vec<usize> = (0..count).filter(aside).collect();
        (0..).zip(before.iter().chain(&new)).for_each(|(new, &old)| number[old] = RETIRED | new);
        let renumbered = |&vector: &usize| -> Vec<u32> {
            self.next_of(vector, count).iter().map(|&next| number[instead[place(next)]]).collect()
        };
        let next = staying.iter().flat_map(renumbered).collect();
        let retired_next = before.iter().chain(&new).flat_map(renumbered).collect();
        self.retired.keep(|i| aside(&(count + i)));
        self.retired.reserve_exact(new.len());
        new.iter().for_each(|&i| self.retired.push(active.actions()[i], active.vector(i)));
        self.retired.shrink_to_fit();
        (self.next, self.retired_next, self.met) = (next, retired_next, staying.len());
    }

    /// How a vector goes on, of which the retired come behind `count` others.
    fn next_of(&self, vector: usize, count: usize) -> &[u32] {
        let width = self.observations;
        match vector.checked_sub(count) {
            None => &self.next[vector * width..][..width],
            Some(retired) => &self.retired_next[retired * width..][..width],
        }
    }

    /// `active` and behind it what is retired, with g(o) of vector i at i·|Ω| + o.
    #[must_use]
    pub fn join(self, mut active: AlphaVectors) -> (AlphaVectors, Vec<u32>) {
        let count = active.len() as u32;
        active.reserve_exact(self.retired.len());
        active.append(self.retired.values().iter().copied(), self.retired.actions());
        let number = |number: u32| if number & RETIRED == 0 { number } else { count + (number & !RETIRED) };
        let next = self.next.into_iter().chain(self.retired_next).map(number).collect();
        (active, next)
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

    #[test]
    fn what_others_go_on_with_is_retired_until_something_is_above_it() {
        // 0 goes on with itself, 1 with 0, 2 with 1.
        let mut supports = Supports::new(1, 1, 1);
        supports.push(&[0]);
        supports.push(&[1]);
        supports.retain(&vectors(&[0.0, 5.0, 3.0]), &[true, false, true], &mut || false);
        assert_eq!(supports.retired().values(), [5.0]);
        // 4 is not above it, 6 is.
        supports.push(&[1]);
        supports.retain(&vectors(&[0.0, 3.0, 4.0]), &[true, true, true], &mut || false);
        assert_eq!(supports.retired().values(), [5.0]);
        supports.push(&[2]);
        supports.retain(&vectors(&[0.0, 3.0, 4.0, 6.0]), &[true, true, false, true], &mut || false);
        // 6 goes on with 4, of which it takes the place.
        let (joined, next) = supports.join(vectors(&[0.0, 3.0, 6.0]));
        assert_eq!((joined.values(), next), (&[0.0, 3.0, 6.0][..], vec![0, 2, 2]));
    }
}
