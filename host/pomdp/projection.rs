//! Beliefs after an action, by what may be observed: Bayes' rule.
//!
//! > b^{a,o}(s') = O(a, s', o) · Σₛ T(s, a, s') b(s) / p(o|b, a),  p(o|b, a) = Σ_{s'} O(a, s', o) · Σₛ T(s, a, s') b(s)

use super::belief::Belief;
use super::model::Pomdp;

/// p(o|b, a) · b^{a,o} for the observations that can follow, ascending.
#[derive(Default)]
pub struct Projection {
    /// Weight of each state that was reached; all 0 between uses.
    weights: Vec<f64>,
    /// The states that were.
    reached: Vec<u32>,
    /// For each observation what it leaves of them.
    parts: Vec<Belief>,
}

impl Projection {
    /// Calls `take` with each observation o that can follow action `action` in `belief`, ascending, with p(o|b, a), and with
    /// b^{a,o}.
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

    /// Σₛ T(s, a, s') b(s) in `weights` for the states that can be reached, ascending.
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

    /// b^{a,o} of this observation; `None` where it cannot follow.
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
