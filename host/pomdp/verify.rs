//! Certificates for alpha vectors: a proof that they are lower bounds on V\*.
//!
//! *Claimed value.* V(b) = max over α ∈ Γ of b·α. Let H be the Bellman operator of the model. If V ≤ HV + δ in every
//! belief, then V ≤ V\* + δ/(1 − γ). Proof: let W = V − δ/(1 − γ). Then HW = HV − γδ/(1 − γ) ≥ V − δ − γδ/(1 − γ) = W,
//! so the sequence W, HW, HHW, … increases, and it converges to V\*. For one vector α with action a, it suffices to
//! find a continuation g(o) for each observation, or a mixture of such g, with
//!
//! > α(s) ≤ r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{g(o)}(s') + δ for all s,
//!
//! because the right-hand side is at most HV + δ in every belief. The search for g is a [matrix game](super::game)
//! against an opponent who picks the belief in which α is too high. The best g against a belief w is the backup of w.
//! The first g comes from the [policy graph](PolicyGraph); each further g is the best reply to the worst belief for all
//! mixtures so far. δ of α is the least δ of a mixture. It is exact when no reply improves the mixture, and an upper
//! bound before.
//!
//! *Attained value.* The policy graph is a finite-state controller. Its values are the solution of
//!
//! > α'ᵢ(s) = r(s, aᵢ) + γ Σ_{s'} T(s, aᵢ, s') Σₒ O(aᵢ, s', o) α'_{gᵢ(o)}(s')
//!
//! independently of Γ's claims, and V\*(b₀) is at least the value of its first node at b₀. Let L be the operator on the
//! right-hand side. If u ≤ L u, the sequence u, L u, LL u, … increases to α'. The iteration starts from such a u: if α
//! ≤ L α + δ, then u = α − δ/(1 − γ) satisfies u ≤ L u.
//!
//! The theorems are about exact arithmetic. All numbers here are computed in f64, without bounds of their rounding errors, which
//! the crate `warpkov-verify` has.

use rayon::prelude::*;

use super::alpha::AlphaVectors;
use super::backends::cpu::{Assembler, Vectors};
use super::belief::Belief;
use super::game::least_loss;
use super::io::PolicyGraph;
use super::model::Pomdp;
use super::projection::Projection;

/// Stopping tolerance of the iteration for α', relative to the largest value.
const TOLERANCE: f64 = 1e-9;

/// Relative accuracy of δ where δ exceeds the tolerance.
const RESIDUAL_ACCURACY: f64 = 1e-3;

/// Certificate of a set of alpha vectors.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Certificate {
    /// V(b₀) as Γ claims it.
    pub value: f64,
    /// |Γ|.
    pub vectors: usize,
    /// Vectors with δ ≤ the tolerance.
    pub supported: usize,
    /// The largest δ of all vectors, at least 0.
    pub residual: f64,
    /// Index of the vector with the largest δ.
    pub worst: usize,
    /// V(b₀) − δ/(1 − γ).
    pub certified: f64,
    /// Lower bound on the value that the controller attains at b₀; up to 10⁻⁹ of the largest value below it.
    pub attained: f64,
    /// Number of nodes of the controller that b₀ reaches.
    pub nodes: usize,
}

impl Certificate {
    /// A certified lower bound on V\*(b₀), up to rounding.
    #[must_use]
    pub fn lower(&self) -> f64 {
        self.certified.max(self.attained)
    }
}

/// Computes δ of each vector in at most `rounds` rounds, and evaluates the controller; `None` if there are no vectors.
/// The model is a maximisation problem with γ < 1, and `policy` must fit it. Once `stop` returns true, the result is
/// what has been proved so far: valid, but possibly not the best.
#[must_use]
pub fn verify(
    model: &Pomdp,
    policy: &AlphaVectors,
    tolerance: f64,
    rounds: u32,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Certificate> {
    let graph = PolicyGraph::new(model, policy)?;
    let (vectors, assembler) = (Vectors::new(policy), Assembler::new(model, &model.expected_rewards()));
    let parts = model.parts();
    let claims = Claims { model, policy, graph: &graph, vectors: &vectors, assembler: &assembler, parts: &parts, stop };
    let search = |projection: &mut Projection, vector: usize| claims.residual(projection, vector, tolerance, rounds);
    let residuals: Vec<f64> = (0..policy.len()).into_par_iter().map_init(Projection::default, search).collect();
    let (worst, residual) = residuals.iter().copied().enumerate().fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
    let of_start =
        |(prob, start): (f64, Belief)| policy.best(&start).map_or(f64::NEG_INFINITY, |(_, value)| prob * value);
    let value = model.starts().into_iter().map(of_start).sum();
    Some(Certificate {
        value,
        vectors: policy.len(),
        supported: residuals.iter().filter(|residual| **residual <= tolerance).count(),
        residual,
        worst,
        certified: value - residual / (1.0 - model.gamma()),
        attained: claims.attained(),
        nodes: graph.reached.iter().filter(|&&reached| reached).count(),
    })
}

struct Claims<'a> {
    model: &'a Pomdp,
    policy: &'a AlphaVectors,
    graph: &'a PolicyGraph,
    vectors: &'a Vectors,
    assembler: &'a Assembler<'a>,
    parts: &'a [Vec<u32>],
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Claims<'_> {
    /// The graph's g of a vector. Impossible observations may continue with any vector.
    fn followers(&self, vector: usize) -> Vec<u32> {
        let count = self.model.observation_count() as usize;
        let next = &self.graph.next[vector * count..(vector + 1) * count];
        let other = next.iter().flatten().next().copied().unwrap_or(vector as u32);
        next.iter().map(|next| next.unwrap_or(other)).collect()
    }

    /// δ of a vector. The continuation may depend on the fully observed component, so each of its values is a separate
    /// game.
    fn residual(&self, projection: &mut Projection, vector: usize, tolerance: f64, rounds: u32) -> f64 {
        let of_part = |part: &Vec<u32>| self.residual_in(part, projection, vector, tolerance, rounds);
        self.parts.iter().map(of_part).fold(0.0, f64::max)
    }

    /// δ of a vector restricted to the states `part`.
    fn residual_in(
        &self,
        part: &[u32],
        projection: &mut Projection,
        vector: usize,
        tolerance: f64,
        rounds: u32,
    ) -> f64 {
        let (alpha, action) = (self.policy.vector(vector), self.policy.actions()[vector]);
        // α − L α in each state, for continuation `next`.
        let excess = |next: &[u32]| -> Vec<f64> {
            let backup = self.assembler.vector(self.policy, action, next);
            part.iter().map(|&state| alpha[state as usize] - backup[state as usize]).collect()
        };
        let first = excess(&self.followers(vector));
        let least = least_loss(first, tolerance, RESIDUAL_ACCURACY, rounds, self.stop, |belief| {
            let states = belief.iter().map(|(place, _)| part[*place]).collect();
            let probs = belief.iter().map(|(_, prob)| *prob).collect();
            excess(&self.response(projection, action, &Belief::built(states, probs)))
        });
        least.max(0.0)
    }

    /// The best g against a belief.
    fn response(&self, projection: &mut Projection, action: u32, belief: &Belief) -> Vec<u32> {
        let mut next = vec![None; self.model.observation_count() as usize];
        projection.each(self.model, belief, action, |observation, _, after| {
            next[observation as usize] = self.vectors.best(&after).map(|best| best.0);
        });
        let other = next.iter().flatten().next().copied().unwrap_or_default();
        next.iter().map(|next| next.unwrap_or(other)).collect()
    }

    /// b₀·α' of the first node, averaged over the initial beliefs, by iteration over the nodes that b₀ reaches.
    fn attained(&self) -> f64 {
        let nodes: Vec<usize> = (0..self.policy.len()).filter(|&node| self.graph.reached[node]).collect();
        let mut number = vec![0_u32; self.policy.len()];
        let mut values = AlphaVectors::new(self.policy.states());
        for (new, &node) in (0..).zip(&nodes) {
            number[node] = new;
            values.push(self.policy.actions()[node], self.policy.vector(node));
        }
        let next: Vec<Vec<u32>> = nodes
            .iter()
            .map(|&node| self.followers(node).iter().map(|&next| number[next as usize]).collect())
            .collect();
        let step = |values: &AlphaVectors| {
            let node = |node: usize| self.assembler.vector(values, values.actions()[node], &next[node]);
            let vectors: Vec<Vec<f64>> = (0..next.len()).into_par_iter().map(node).collect();
            let mut stepped = AlphaVectors::new(values.states());
            vectors.iter().zip(values.actions()).for_each(|(vector, &action)| stepped.push(action, vector));
            stepped
        };
        // max (a − b).
        let over = |a: &AlphaVectors, b: &AlphaVectors| {
            a.values().iter().zip(b.values()).map(|(a, b)| a - b).fold(0.0, f64::max)
        };
        let gamma = self.model.gamma();
        let missing = over(&values, &step(&values)) / (1.0 - gamma);
        values.values_mut().iter_mut().for_each(|value| *value -= missing);
        loop {
            let next = step(&values);
            let scale = next.values().iter().fold(1.0, |most: f64, value| most.max(value.abs()));
            // ‖α' − L u‖ ≤ γ/(1 − γ) · ‖L u − u‖.
            let rest = over(&next, &values) * gamma / (1.0 - gamma);
            values = next;
            if rest.is_nan() || rest <= TOLERANCE * scale || (self.stop)() {
                let starts = self.model.starts().into_iter().zip(&self.graph.starts);
                let value = |((prob, start), &node): ((f64, Belief), &u32)| {
                    prob * start.dot(values.vector(number[node as usize] as usize))
                };
                return starts.map(value).sum();
            }
        }
    }
}
