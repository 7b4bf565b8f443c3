//! The finite controller that a set of alpha vectors stands for, and what it attains.
//!
//! Γ says in each belief which vector is best. Follow that from b₀: vector i, best at a belief bᵢ, takes its action aᵢ, and
//! observation o leads to bᵢ^{aᵢ,o}, where some vector gᵢ(o) is best. Let each vector that is met go on as in the belief in
//! which it was met first: that is a controller with a node for each such vector. Its values are the solution of
//!
//! > α'ᵢ(s) = r(s, aᵢ) + γ Σ_{s'} T(s, aᵢ, s') Σₒ O(aᵢ, s', o) α'_{gᵢ(o)}(s')
//!
//! and so attained, whatever Γ claims: b₀·α' of the first node is a lower bound on V\*(b₀).

use std::collections::VecDeque;

use rayon::prelude::*;

use super::alpha::AlphaVectors;
use super::belief::Belief;
use super::model::Pomdp;
use crate::backend::cpu::{Projection, Vectors, assemble};

/// A node for each vector that is met, the first one at b₀.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// The vector of Γ that a node stands for.
    pub vectors: Vec<usize>,
    /// The action of each node.
    pub actions: Vec<u32>,
    /// The belief in which each was met first.
    pub beliefs: Vec<Belief>,
    /// The node that follows each observation, |Ω| for each node.
    pub next: Vec<Vec<u32>>,
    /// Whether the observation can follow in the node's belief; if not, it leads where the likeliest does.
    pub possible: Vec<Vec<bool>>,
}

/// The largest vector of Γ at a belief, by its number, as `Vectors` finds it.
fn best(vectors: &Vectors, belief: &Belief) -> usize {
    vectors.best_from(belief, 0).map_or(0, |best| best.0 as usize)
}

impl Controller {
    /// The controller of `policy`, which fits the model and has a vector.
    #[must_use]
    pub fn new(model: &Pomdp, policy: &AlphaVectors) -> Self {
        let vectors = Vectors::new(policy);
        let mut projection = Projection::default();
        let mut node_of = vec![u32::MAX; policy.len()];
        let mut own = Self { vectors: vec![], actions: vec![], beliefs: vec![], next: vec![], possible: vec![] };
        let mut waiting = VecDeque::new();
        let mut meet = |own: &mut Self, waiting: &mut VecDeque<u32>, belief: Belief| {
            let vector = best(&vectors, &belief);
            if node_of[vector] == u32::MAX {
                node_of[vector] = own.vectors.len() as u32;
                waiting.push_back(node_of[vector]);
                own.vectors.push(vector);
                own.actions.push(policy.actions[vector]);
                own.beliefs.push(belief);
            }
            node_of[vector]
        };
        meet(&mut own, &mut waiting, model.start.clone());
        while let Some(node) = waiting.pop_front() {
            let (action, belief) = (own.actions[node as usize], own.beliefs[node as usize].clone());
            let mut followed = vec![None; model.observation_count as usize];
            let mut likeliest = (0.0, node);
            projection.each(model, &belief, action, |observation, prob, after| {
                let next = meet(&mut own, &mut waiting, after);
                followed[observation as usize] = Some(next);
                likeliest = if prob > likeliest.0 { (prob, next) } else { likeliest };
            });
            // Nodes are taken in the order of their numbers.
            own.possible.push(followed.iter().map(Option::is_some).collect());
            own.next.push(followed.into_iter().map(|next| next.unwrap_or(likeliest.1)).collect());
        }
        own
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.vectors.len()
    }

    /// Whether there is none, which is never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }

    /// One step of the equation for α': all nodes at once.
    fn step(&self, model: &Pomdp, rewards: &[f64], values: &AlphaVectors) -> AlphaVectors {
        let node = |node: usize| assemble(model, rewards, values, self.actions[node], &self.next[node]);
        let vectors: Vec<Vec<f64>> = (0..self.len()).into_par_iter().map(node).collect();
        AlphaVectors { states: values.states, values: vectors.concat(), actions: self.actions.clone() }
    }

    /// α', a vector for each node, from below: each is at most what the node attains, up to rounding, and less than that by
    /// no more than 10⁻⁹ of the largest value. The model is one to be maximised, and `policy` that of
    /// [`new`](Self::new); γ < 1.
    ///
    /// If u is at most its own step L u, so are L u, L L u, …, which rise to α'. That holds of u = α − δ/(1 − γ) where α is
    /// at most L α + δ.
    #[must_use]
    pub fn values(&self, model: &Pomdp, policy: &AlphaVectors) -> AlphaVectors {
        let (rewards, gamma) = (model.expected_rewards(), model.gamma());
        let mut values = AlphaVectors::new(policy.states);
        for (&vector, &action) in self.vectors.iter().zip(&self.actions) {
            values.push(action, policy.vector(vector));
        }
        let over = |values: &AlphaVectors, next: &AlphaVectors| {
            values.values.iter().zip(&next.values).map(|(value, next)| value - next).fold(0.0, f64::max)
        };
        let delta = over(&values, &self.step(model, &rewards, &values));
        values.values.iter_mut().for_each(|value| *value -= delta / (1.0 - gamma));
        loop {
            let next = self.step(model, &rewards, &values);
            let scale = next.values.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
            // ‖α' − L u‖ ≤ γ/(1 − γ) · ‖L u − u‖.
            let rest = over(&next, &values) * gamma / (1.0 - gamma);
            values = next;
            if rest.is_nan() || rest <= 1e-9 * scale {
                return values;
            }
        }
    }

    /// The controller as a graph in the DOT language: a node for each vector, with its action; an edge for each successor,
    /// with the observations that lead there from the node's belief. `names` are of actions and observations, or empty.
    #[must_use]
    pub fn to_dot(&self, names: &super::model::Names) -> String {
        use std::fmt::Write as _;
        let name = |names: &[String], index: usize| {
            let text = names.get(index).cloned().unwrap_or_else(|| index.to_string());
            text.replace('\\', "\\\\").replace('"', "\\\"")
        };
        let mut dot =
            String::from("digraph policy {\n    node [shape=circle];\n    start [shape=point];\n    start -> 0;\n");
        for (node, action) in self.actions.iter().enumerate() {
            let _ = writeln!(dot, "    {node} [label=\"{}\"];", name(&names.actions, *action as usize));
            let mut successors: Vec<u32> = Vec::new();
            let seen =
                || self.next[node].iter().zip(&self.possible[node]).enumerate().filter(|(_, (_, possible))| **possible);
            successors.extend(seen().map(|(_, (next, _))| *next));
            successors.sort_unstable();
            successors.dedup();
            for next in successors {
                let leading = seen().filter(|(_, (other, _))| **other == next);
                let labels: Vec<_> = leading.map(|(observation, _)| name(&names.observations, observation)).collect();
                let _ = writeln!(dot, "    {node} -> {next} [label=\"{}\"];", labels.join("\\n"));
            }
        }
        dot.push_str("}\n");
        dot
    }
}
