//! One-step lookahead: Q-factors of a belief from a value function.
//!
//! > Q(b, a) = Σₛ b(s) r(s, a) + γ Σₒ p(o|b, a) V(b^{a,o}),  V(b) = max over α ∈ Γ of Σₛ b(s) α(s)
//!
//! The greedy action of the lookahead is at least as good as the action of the best vector.

use super::alpha::AlphaVectors;
use super::belief::Belief;
use super::model::Pomdp;
use super::projection::Projection;

/// Q-factor of an action in a belief, with its parts.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Outlook {
    /// The action.
    pub action: u32,
    /// Q(b, a).
    pub value: f64,
    /// Σ b(s) r(s, a).
    pub reward: f64,
    /// Observations with positive probability, ascending: (o, p(o|b, a), V(b^{a,o})).
    pub observations: Vec<(u32, f64, f64)>,
}

/// The Q-factors of all actions in a belief, in ascending order of actions. The model is a maximisation problem, and
/// `policy` must not be empty.
#[must_use]
pub fn lookahead(model: &Pomdp, policy: &AlphaVectors, belief: &Belief) -> Vec<Outlook> {
    let rewards = model.expected_rewards();
    let gamma = model.gamma();
    let mut projection = Projection::default();
    let outlook = |action: u32| {
        let reward = model.reward(&rewards, belief, action);
        let mut observations = Vec::new();
        projection.each(model, belief, action, |observation, prob, after| {
            let value = policy.best(&after).map_or(f64::NEG_INFINITY, |best| best.1);
            observations.push((observation, prob, value));
        });
        let future: f64 = observations.iter().map(|(_, prob, value)| prob * value).sum();
        Outlook { action, value: reward + gamma * future, reward, observations }
    };
    (0..model.actions()).map(outlook).collect()
}
