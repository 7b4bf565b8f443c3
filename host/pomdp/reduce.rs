//! Reduction of a policy: removes vectors without losing value at the start.
//!
//! [Supported](super::support) sets keep the whole history of every vector back to the first ones. Newer vectors
//! jointly cover much of that history, although none dominates an old vector alone. The reduction keeps the vectors
//! that plans of the start continue with, unless the kept vectors already cover them. Let vector u take action a and
//! continue with β after observation o. The beliefs that can follow live on the face F(a, o) = {s' : O(a, s', o) > 0,
//! T(s, a, s') > 0 for some s}. Let K be the set of kept vectors. β is not needed if
//!
//! > V_K(b) = max over α ∈ K of b·α ≥ b·β for all beliefs b over F(a, o)
//!
//! because then the backup of K is at least u in every belief. By the minimax theorem, this holds if and only if a
//! mixture of K is at least β in every state of F(a, o), which is the value of a [game](crate::game). It follows
//! that V_K ≤ H V_K with the actions of V_K, so K attains V_K in every belief, and V_K equals V at the start. Elsewhere
//! V_K may be less than V: no plan of the start leads there.

use std::collections::BinaryHeap;

use super::backends::cpu::Vectors;
use crate::alpha::AlphaVectors;
use crate::belief::Belief;
use crate::game::least_loss;
use crate::model::Pomdp;
use crate::solution::Support;

/// Maximum number of replies per game.
const MAX_REPLIES: u32 = 64;

/// Work limit of all games, in multiplications: a few seconds on one core.
const MAX_PRODUCTS: usize = 1 << 31;

/// The vectors of `all` that are needed. `next` is g(o) of vector i at i·|Ω| + o. The model is a maximisation problem. Once
/// it is `late`, or the work limit is reached, every continuation stays.
#[must_use]
pub fn reduced(model: &Pomdp, all: &AlphaVectors, next: &[u32], late: &mut dyn FnMut() -> bool) -> AlphaVectors {
    let count = model.observation_count() as usize;
    let mut kept = Kept {
        model,
        all,
        faces: faces(model),
        vectors: Vectors::new(&AlphaVectors::new(all.states())),
        corners: vec![f64::NEG_INFINITY; all.states() as usize],
        stays: vec![false; all.len()],
        products: 0,
        late,
        no_time: false,
    };
    let sum = |vector: usize| all.vector(vector).iter().sum::<f64>();
    let mut order: Vec<usize> = (0..all.len()).collect();
    let sums: Vec<f64> = order.iter().map(|&vector| sum(vector)).collect();
    order.sort_by(|&a, &b| sums[b].total_cmp(&sums[a]));
    let mut rank = vec![0; all.len()];
    order.iter().enumerate().for_each(|(place, &vector)| rank[vector] = all.len() - place);
    // The largest vectors first: they cover most of the others.
    let mut queue = BinaryHeap::new();
    for (_, start) in model.starts() {
        if let Some((best, _)) = all.best(&start)
            && kept.add(best)
        {
            queue.push((rank[best], best));
        }
    }
    while let Some((_, vector)) = queue.pop() {
        for (observation, &follower) in next[vector * count..(vector + 1) * count].iter().enumerate() {
            let follower = follower as usize;
            if !kept.covers(follower, all.actions()[vector], observation) && kept.add(follower) {
                queue.push((rank[follower], follower));
            }
        }
    }
    kept.vectors.into_alpha()
}

/// The vectors that plans of the start continue with, in breadth-first order, and whether each vector is one of them. `next` is
/// g(o) of vector i at i·|Ω| + o. The model is a maximisation problem.
#[must_use]
pub fn support(model: &Pomdp, all: &AlphaVectors, next: &[u32]) -> (Support, Vec<bool>) {
    let count = model.observation_count() as usize;
    let mut found = Support::default();
    let mut numbers = vec![u32::MAX; all.len()];
    let mut order: Vec<usize> = Vec::new();
    let mut number = |vector: usize, order: &mut Vec<usize>| {
        if numbers[vector] == u32::MAX {
            numbers[vector] = order.len() as u32;
            order.push(vector);
        }
        numbers[vector]
    };
    for (prob, start) in model.starts() {
        if let Some((best, value)) = all.best(&start) {
            found.starts.push(number(best, &mut order));
            found.value += prob * value;
        }
    }
    while let Some(&vector) = order.get(found.actions.len()) {
        found.actions.push(all.actions()[vector]);
        for &follower in &next[vector * count..(vector + 1) * count] {
            found.next.push(number(follower as usize, &mut order));
        }
    }
    (found, numbers.iter().map(|&number| number != u32::MAX).collect())
}

/// K, the kept vectors.
struct Kept<'a> {
    model: &'a Pomdp,
    all: &'a AlphaVectors,
    /// F(a, o) at a·|Ω| + o.
    faces: Vec<Vec<u32>>,
    vectors: Vectors,
    /// V_K at each vertex of the simplex.
    corners: Vec<f64>,
    stays: Vec<bool>,
    products: usize,
    late: &'a mut dyn FnMut() -> bool,
    no_time: bool,
}

impl Kept<'_> {
    /// Adds a vector; returns whether it is new.
    fn add(&mut self, vector: usize) -> bool {
        let new = !std::mem::replace(&mut self.stays[vector], true);
        if new {
            let own = self.all.vector(vector);
            self.vectors.push(self.all.actions()[vector], own);
            self.corners.iter_mut().zip(own).for_each(|(most, own)| *most = most.max(*own));
        }
        new
    }

    /// Whether V_K is at least the vector on all beliefs that can follow the action and the observation.
    fn covers(&mut self, vector: usize, action: u32, observation: usize) -> bool {
        let face = &self.faces[action as usize * self.model.observation_count() as usize + observation];
        if self.stays[vector] || face.is_empty() {
            return true;
        }
        let own = self.all.vector(vector);
        self.no_time = self.no_time || self.products > MAX_PRODUCTS || (self.late)();
        if self.no_time || face.iter().any(|&s| own[s as usize] > self.corners[s as usize]) {
            return false;
        }
        let (vectors, products) = (&self.vectors, &mut self.products);
        let mut losses = |belief: &Belief| {
            *products += vectors.alpha().len() * belief.states().len();
            let best = vectors.best_from(belief, 0).map_or(0, |best| best.0);
            let other = vectors.alpha().vector(best as usize);
            face.iter().map(|&s| own[s as usize] - other[s as usize]).collect::<Vec<f64>>()
        };
        let first = losses(&Belief::uniform(face.clone()));
        if first.iter().sum::<f64>() > 0.0 {
            return false;
        }
        let least = least_loss(first, 0.0, 1.0, MAX_REPLIES, &|| false, |belief| {
            let states = belief.iter().map(|(place, _)| face[*place]).collect();
            losses(&Belief::built(states, belief.iter().map(|(_, prob)| *prob).collect()))
        });
        least <= 0.0
    }
}

/// F(a, o) at a·|Ω| + o, ascending.
fn faces(model: &Pomdp) -> Vec<Vec<u32>> {
    let (states, actions, count) = (model.states(), model.actions(), model.observation_count() as usize);
    let mut faces = vec![Vec::new(); actions as usize * count];
    for action in 0..actions {
        let mut reached = vec![false; states as usize];
        for state in 0..states {
            let (successors, probs) = model.successors(state, action);
            successors.iter().zip(probs).for_each(|(&next, &p)| reached[next as usize] |= p > 0.0);
        }
        for state in (0..states).filter(|&state| reached[state as usize]) {
            let (observed, chances) = model.observed(action, state);
            for (&observation, _) in observed.iter().zip(chances).filter(|(_, chance)| **chance > 0.0) {
                faces[action as usize * count + observation as usize].push(state);
            }
        }
    }
    faces
}
