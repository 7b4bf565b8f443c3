//! Whether alpha vectors are what they claim to be: lower bounds on V\*.
//!
//! *Mathematics.* Let V(b) = max over α ∈ Γ of b·α, and H the Bellman operator of the model. If V ≤ HV + δ in every belief,
//! then V ≤ V\* + δ/(1 − γ): for W = V − δ/(1 − γ) we have HW = HV − γδ/(1 − γ) ≥ V − δ − γδ/(1 − γ) = W, so that W, HW, HHW, …
//! rise, and they rise to V\*. For one vector α with action a it is enough that some choice g of a vector for each
//! observation, or a mixture of such choices, has for all s
//!
//! > α(s) ≤ r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{g(o)}(s') + δ,
//!
//! as the right side is at most HV + δ in every belief. Whoever looks for g plays a game against one who picks the belief in
//! which α is too high; the best g against a belief w is the backup of w. So w starts as the belief in which α is used, or
//! uniform where it is not, and moves to the states in which α is too high (multiplicative weights: Freund and Schapire,
//! *Adaptive game playing using multiplicative weights*, 1999); the least δ met, of one g or of the mean of all so far,
//! counts. It is an upper bound on what is missing: a vector can be fine although none of the rounds shows it.
//!
//! What surely holds of V(b₀) is then the larger of V(b₀) − δ/(1 − γ), and what the [controller](super::controller) attains.

use rayon::prelude::*;

use super::alpha::AlphaVectors;
use super::belief::Belief;
use super::controller::Controller;
use super::model::Pomdp;
use crate::backend::cpu::{Projection, Vectors, assemble};

/// What is known of a set of vectors.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Certificate {
    /// V(b₀) as Γ has it.
    pub value: f64,
    /// |Γ|.
    pub vectors: usize,
    /// Vectors with δ ≤ the tolerance.
    pub supported: usize,
    /// The largest δ of a vector, 0 or more.
    pub residual: f64,
    /// The vector that has it.
    pub worst: usize,
    /// V(b₀) − δ/(1 − γ).
    pub certified: f64,
    /// What the controller attains at b₀.
    pub attained: f64,
    /// Its nodes: vectors that are met from b₀ on.
    pub nodes: usize,
}

impl Certificate {
    /// A lower bound on V\*(b₀) that holds, up to rounding.
    #[must_use]
    pub fn lower(&self) -> f64 {
        self.certified.max(self.attained)
    }
}

/// Looks for what supports each vector, in `rounds` rounds at most. The model is one to be maximised, with γ < 1; `policy`
/// fits it and has a vector.
#[must_use]
pub fn verify(model: &Pomdp, policy: &AlphaVectors, tolerance: f64, rounds: u32) -> Certificate {
    let controller = Controller::new(model, policy);
    let values = controller.values(model, policy);
    let attained = values.best(&model.start).map_or(f64::NEG_INFINITY, |best| best.1);
    let uniform = Belief::uniform((0..model.states()).collect());
    let mut witnesses = vec![&uniform; policy.len()];
    for (&vector, belief) in controller.vectors.iter().zip(&controller.beliefs) {
        witnesses[vector] = belief;
    }
    let (vectors, rewards) = (Vectors::new(policy), model.expected_rewards());
    let game = Game { model, policy, vectors: &vectors, rewards: &rewards, tolerance, rounds };
    let residual = |projection: &mut Projection, vector: usize| game.residual(projection, vector, witnesses[vector]);
    let residuals: Vec<f64> = (0..policy.len()).into_par_iter().map_init(Projection::default, residual).collect();
    let (worst, residual) = residuals.iter().copied().enumerate().fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
    let value = policy.best(&model.start).map_or(f64::NEG_INFINITY, |best| best.1);
    Certificate {
        value,
        vectors: policy.len(),
        supported: residuals.iter().filter(|residual| **residual <= tolerance).count(),
        residual,
        worst,
        certified: value - residual / (1.0 - model.gamma()),
        attained,
        nodes: controller.len(),
    }
}

struct Game<'a> {
    model: &'a Pomdp,
    policy: &'a AlphaVectors,
    vectors: &'a Vectors,
    rewards: &'a [f64],
    tolerance: f64,
    rounds: u32,
}

impl Game<'_> {
    /// δ of a vector.
    fn residual(&self, projection: &mut Projection, vector: usize, witness: &Belief) -> f64 {
        let (alpha, action) = (self.policy.vector(vector), self.policy.actions[vector]);
        let mut least = f64::INFINITY;
        let mut weights = witness.clone();
        let mut sum = vec![0.0; alpha.len()];
        for round in 1..=self.rounds.max(1) {
            let backup = self.response(projection, action, &weights);
            let mut most = f64::NEG_INFINITY;
            let mut range = 0.0_f64;
            for ((sum, alpha), backup) in sum.iter_mut().zip(alpha).zip(&backup) {
                let missing = alpha - backup;
                *sum += missing;
                most = most.max(missing);
                range = range.max(missing.abs());
            }
            let mixed = sum.iter().fold(f64::NEG_INFINITY, |most, sum| most.max(*sum)) / f64::from(round);
            least = least.min(most).min(mixed);
            if least <= self.tolerance || range == 0.0 {
                break;
            }
            // e^(η · sum) with a step that shrinks as the rounds go on, relative to the largest.
            let eta = (alpha.len().max(2) as f64).ln().sqrt() / (range * f64::from(round).sqrt());
            let top = mixed * f64::from(round);
            let dense: Vec<f64> = sum.iter().map(|sum| (eta * (sum - top)).exp()).collect();
            let total: f64 = dense.iter().sum();
            let likely = dense.iter().map(|weight| if weight / total < 1e-12 { 0.0 } else { weight / total });
            weights = Belief::dense(&likely.collect::<Vec<_>>());
        }
        least.max(0.0)
    }

    /// The backup of `belief` by this action: the best choice against it.
    fn response(&self, projection: &mut Projection, action: u32, belief: &Belief) -> Vec<f64> {
        let mut next = vec![u32::MAX; self.model.observation_count as usize];
        let mut likeliest = (0.0, 0);
        projection.each(self.model, belief, action, |observation, prob, after| {
            if let Some((vector, _)) = self.vectors.best_from(&after, 0) {
                next[observation as usize] = vector;
                likeliest = if prob > likeliest.0 { (prob, vector) } else { likeliest };
            }
        });
        next.iter_mut().filter(|next| **next == u32::MAX).for_each(|next| *next = likeliest.1);
        assemble(self.model, self.rewards, self.policy, action, &next)
    }
}
