//! Belief updates by Bayes' rule, for all observations that can follow an action.
//!
//! > b^{a,o}(s') = O(a, s', o) · Σₛ T(s, a, s') b(s) / p(o|b, a),  p(o|b, a) = Σ_{s'} O(a, s', o) · Σₛ T(s, a, s') b(s)

use super::belief::Belief;
use super::model::Pomdp;

/// Scratch memory for belief updates.
#[derive(Default)]
pub struct Projection {
    /// Probability of each predicted state; all 0 between calls.
    weights: Vec<f64>,
    /// Predicted states.
    reached: Vec<u32>,
    /// Unnormalised b^{a,o}, one per observation.
    parts: Vec<Belief>,
}

impl Projection {
    /// Calls `take`(o, p(o|b, a), b^{a,o}) for each observation o with positive probability after `action` in `belief`,
    /// in ascending order of o.
    pub fn each(&mut self, model: &Pomdp, belief: &Belief, action: u32, mut take: impl FnMut(u32, f64, Belief)) {
        self.parts.resize(model.observation_count() as usize, Belief::default());
        self.predict(model, belief, action);
        for &state in &self.reached {
            let weight = std::mem::take(&mut self.weights[state as usize]);
            let (observations, probs) = model.observed(action, state);
            for (&observation, &p) in observations.iter().zip(probs) {
                if weight * p > 0.0 {
                    let part = &mut self.parts[observation as usize];
                    part.push(state, weight * p);
                }
            }
        }
        for (observation, part) in (0..).zip(&mut self.parts) {
            if !part.states().is_empty() {
                let part = std::mem::take(part);
                let prob = part.sum();
                take(observation, prob, part.divided(prob));
            }
        }
    }

    /// Writes Σₛ T(s, a, s') b(s) to `weights` and the reachable states to `reached`, ascending.
    fn predict(&mut self, model: &Pomdp, belief: &Belief, action: u32) {
        self.weights.resize(model.states() as usize, 0.0);
        self.reached.clear();
        for (state, prob) in belief.iter() {
            let (successors, probs) = model.successors(state, action);
            for (&successor, &p) in successors.iter().zip(probs) {
                let weight = &mut self.weights[successor as usize];
                if *weight == 0.0 {
                    self.reached.push(successor);
                }
                *weight += prob * p;
            }
        }
        self.reached.sort_unstable();
        self.reached.dedup();
    }

    /// b^{a,o}; `None` if o has probability 0.
    pub fn update(&mut self, model: &Pomdp, belief: &Belief, action: u32, observation: u32) -> Option<Belief> {
        self.predict(model, belief, action);
        let mut part = Belief::default();
        for &state in &self.reached {
            let weight = std::mem::take(&mut self.weights[state as usize]);
            let (observations, probs) = model.observed(action, state);
            if let Ok(place) = observations.binary_search(&observation)
                && weight * probs[place] > 0.0
            {
                part.push(state, weight * probs[place]);
            }
        }
        let prob = part.sum();
        (!part.states().is_empty()).then(|| part.divided(prob))
    }
}
