//! Whether alpha vectors are what they claim to be: lower bounds on V\*.
//!
//! *Claimed.* V(b) = max over α ∈ Γ of b·α. Let H be the Bellman operator of the model. If V ≤ HV + δ in every belief, then
//! V ≤ V\* + δ/(1 − γ): for W = V − δ/(1 − γ) we have HW = HV − γδ/(1 − γ) ≥ V − δ − γδ/(1 − γ) = W, so that W, HW, HHW, … rise,
//! and they rise to V\*. For one vector α with action a it is enough that some choice g of a vector for each observation, or
//! a mixture of such choices, has for all s
//!
//! > α(s) ≤ r(s, a) + γ Σ_{s'} T(s, a, s') Σₒ O(a, s', o) α_{g(o)}(s') + δ,
//!
//! as the right side is at most HV + δ in every belief. Whoever looks for g plays a game against one who picks the belief in
//! which α is too high, and the best g against a belief w is the backup of w. The first g is that of the
//! [policy graph](PolicyGraph). Then g and w are found by turns (McMahan, Gordon and Blum, *Planning in the presence of cost
//! functions controlled by an adversary*, ICML, 2003): w is the belief that is the worst for all mixtures of the g so far, by a
//! linear program, and the best g against it is the next. The least δ of a mixture counts. Where no g is new it is what is
//! missing; before, it is an upper bound on that: a vector can be fine although no round shows it.
//!
//! *Attained.* The policy graph is a finite controller. Its values are the solution of
//!
//! > α'ᵢ(s) = r(s, aᵢ) + γ Σ_{s'} T(s, aᵢ, s') Σₒ O(aᵢ, s', o) α'_{gᵢ(o)}(s')
//!
//! whatever Γ claims, and V\*(b₀) is at least what its first node has at b₀. If u is at most its own step L u, so are L u, LL u, …,
//! which rise to α'; that holds of u = α − δ/(1 − γ) where α is at most L α + δ, so that the iteration comes from below.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::alpha::AlphaVectors;
use super::belief::Belief;
use super::io::PolicyGraph;
use super::model::Pomdp;
use super::projection::Projection;
use crate::backend::cpu::{Assembler, Vectors};

/// How much less than α' the iteration may end with, of the largest value.
const REST: f64 = 1e-9;

/// What is as good as 0 in a table of numbers about 1.
const EXACT: f64 = 1e-12;

/// Steps of the simplex method by the steepest column, and in all.
const STEEP: usize = 1000;
const STEPS: usize = 3000;

/// What is known of a set of vectors.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Certificate {
    /// V(b₀) as Γ has it.
    pub value: f64,
    /// |Γ|.
    pub vectors: usize,
    /// Vectors with δ ≤ the tolerance.
    pub supported: usize,
    /// δ: the largest of any vector, 0 or more.
    pub residual: f64,
    /// The vector that has it.
    pub worst: usize,
    /// V(b₀) − δ/(1 − γ).
    pub certified: f64,
    /// What the controller attains at b₀, or less by 10⁻⁹ of the largest value.
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

/// Looks for what supports each vector, in `rounds` rounds at most, and evaluates the controller; `None` where there are no
/// vectors. The model is one to be maximised, with γ < 1; `policy` fits it. Once `stop` says yes, what was found so far is
/// returned: it holds, but there may be better.
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
    let parts = parts(model);
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

/// The value of a game in which one picks a state s, and the other one of `payoffs`, of which the first gets the entry s: the mixture of
/// `payoffs` that gives away least, and the distribution over states against which none gives away less. `None` if the steps of
/// the simplex method do not come to an end.
///
/// With M = c − payoff > 0 it is the linear program max Σ y(s) subject to Σₛ M(k, s) y(s) ≤ 1 for all k, y ≥ 0: the distribution is
/// y/Σy, and its dual solution is the mixture, scaled alike (Dantzig, *Linear Programming and Extensions*, 1963, chapter 13).
fn worst(payoffs: &[Vec<f64>]) -> Option<(Vec<f64>, Belief)> {
    let (rows, states) = (payoffs.len(), payoffs.first()?.len());
    let bounds = [f64::INFINITY, f64::NEG_INFINITY];
    let range = payoffs.iter().flatten().fold(bounds, |[low, high]: [f64; 2], &x: &f64| [low.min(x), high.max(x)]);
    let width = (range[1] - range[0]).max(f64::MIN_POSITIVE);
    // Entries from 1 to 2; then a slack for each row, and the right side.
    let columns = states + rows + 1;
    let row = |(number, payoff): (usize, &Vec<f64>)| {
        let mut row: Vec<f64> = payoff.iter().map(|x| 1.0 + (range[1] - x) / width).collect();
        row.resize(columns, 0.0);
        row[states + number] = 1.0;
        row[columns - 1] = 1.0;
        row
    };
    let mut table: Vec<Vec<f64>> = payoffs.iter().enumerate().map(row).collect();
    let mut costs = vec![0.0_f64; columns];
    costs[..states].fill(-1.0);
    let mut basis: Vec<usize> = (states..states + rows).collect();
    for step in 0.. {
        // The steepest column; the first one where that may cycle.
        let entering = if step < STEEP {
            let least = (0..columns - 1).min_by(|&a, &b| costs[a].total_cmp(&costs[b]))?;
            (costs[least] < -EXACT).then_some(least)
        } else {
            (0..columns - 1).find(|&column| costs[column] < -EXACT)
        };
        let Some(column) = entering else { break };
        let ratio = |row: usize| table[row][columns - 1] / table[row][column];
        let bounded = (0..rows).filter(|&row| table[row][column] > EXACT);
        let pivot = bounded.min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)).then(basis[a].cmp(&basis[b])))?;
        if step == STEPS {
            return None;
        }
        let scale = table[pivot][column];
        table[pivot].iter_mut().for_each(|entry| *entry /= scale);
        basis[pivot] = column;
        let own = std::mem::take(&mut table[pivot]);
        let others = table.iter_mut().filter(|row| !row.is_empty()).chain(std::iter::once(&mut costs));
        for row in others {
            let factor = row[column];
            if factor != 0.0 {
                row.iter_mut().zip(&own).for_each(|(entry, own)| *entry -= factor * own);
            }
        }
        table[pivot] = own;
    }
    let mut belief = vec![0.0; states];
    for (row, &column) in basis.iter().enumerate().filter(|(_, column)| **column < states) {
        belief[column] = table[row][columns - 1].max(0.0);
    }
    let shares = |weights: &[f64]| {
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect::<Vec<f64>>()
    };
    let prices: Vec<f64> = costs[states..columns - 1].iter().map(|price| price.max(0.0)).collect();
    Some((shares(&prices), Belief::dense(&shares(&belief))))
}

/// The states with the same part that is always seen: all, where there is none.
fn parts(model: &Pomdp) -> Vec<Vec<u32>> {
    let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for state in 0..model.states() {
        parts.entry(model.seen.get(state as usize).copied().unwrap_or_default()).or_default().push(state);
    }
    parts.into_values().collect()
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
    /// The graph's g of a vector; what its witness cannot observe is followed as the first that it can.
    fn followers(&self, vector: usize) -> Vec<u32> {
        let count = self.model.observation_count as usize;
        let next = &self.graph.next[vector * count..(vector + 1) * count];
        let other = next.iter().flatten().next().copied().unwrap_or(vector as u32);
        next.iter().map(|next| next.unwrap_or(other)).collect()
    }

    /// δ of a vector. What is always seen of the state may decide how it goes on.
    fn residual(&self, projection: &mut Projection, vector: usize, tolerance: f64, rounds: u32) -> f64 {
        let of_part = |part: &Vec<u32>| self.residual_in(part, projection, vector, tolerance, rounds);
        self.parts.iter().map(of_part).fold(0.0, f64::max)
    }

    /// δ of a vector in these states.
    fn residual_in(
        &self,
        part: &[u32],
        projection: &mut Projection,
        vector: usize,
        tolerance: f64,
        rounds: u32,
    ) -> f64 {
        let (alpha, action) = (self.policy.vector(vector), self.policy.actions[vector]);
        let (mut least, mut next) = (f64::INFINITY, self.followers(vector));
        // What each g lacks in each state.
        let mut missing: Vec<Vec<f64>> = Vec::new();
        for _ in 0..rounds.max(1) {
            let backup = self.assembler.vector(self.policy, action, &next);
            let own: Vec<f64> = part.iter().map(|&state| alpha[state as usize] - backup[state as usize]).collect();
            let most = |missing: &[f64]| missing.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            least = least.min(most(&own));
            if least <= tolerance || !own.iter().all(|missing| missing.is_finite()) || (self.stop)() {
                break;
            }
            missing.push(own);
            let Some((mixture, mut belief)) = worst(&missing) else { break };
            belief.states.iter_mut().for_each(|state| *state = part[*state as usize]);
            let mut mixed = vec![0.0; part.len()];
            for (share, missing) in mixture.iter().zip(&missing) {
                mixed.iter_mut().zip(missing).for_each(|(mixed, missing)| *mixed += share * missing);
            }
            least = least.min(most(&mixed));
            if least <= tolerance {
                break;
            }
            let new = self.response(projection, action, &belief);
            if new == next {
                break;
            }
            next = new;
        }
        least.max(0.0)
    }

    /// The best g against a belief.
    fn response(&self, projection: &mut Projection, action: u32, belief: &Belief) -> Vec<u32> {
        let mut next = vec![None; self.model.observation_count as usize];
        projection.each(self.model, belief, action, |observation, _, after| {
            next[observation as usize] = self.vectors.best(&after).map(|best| best.0);
        });
        let other = next.iter().flatten().next().copied().unwrap_or_default();
        next.iter().map(|next| next.unwrap_or(other)).collect()
    }

    /// b₀·α' of the first node, in the mean over what may be known at the start, by iteration over the nodes that are met from b₀ on.
    fn attained(&self) -> f64 {
        let nodes: Vec<usize> = (0..self.policy.len()).filter(|&node| self.graph.reached[node]).collect();
        let mut number = vec![0_u32; self.policy.len()];
        let mut values = AlphaVectors::new(self.policy.states);
        for (new, &node) in (0..).zip(&nodes) {
            number[node] = new;
            values.push(self.policy.actions[node], self.policy.vector(node));
        }
        let next: Vec<Vec<u32>> = nodes
            .iter()
            .map(|&node| self.followers(node).iter().map(|&next| number[next as usize]).collect())
            .collect();
        let step = |values: &AlphaVectors| {
            let node = |node: usize| self.assembler.vector(values, values.actions[node], &next[node]);
            let vectors: Vec<Vec<f64>> = (0..next.len()).into_par_iter().map(node).collect();
            AlphaVectors { values: vectors.concat(), ..values.clone() }
        };
        // max (a − b).
        let over =
            |a: &AlphaVectors, b: &AlphaVectors| a.values.iter().zip(&b.values).map(|(a, b)| a - b).fold(0.0, f64::max);
        let gamma = self.model.gamma();
        let missing = over(&values, &step(&values)) / (1.0 - gamma);
        values.values.iter_mut().for_each(|value| *value -= missing);
        loop {
            let next = step(&values);
            let scale = next.values.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
            // ‖α' − L u‖ ≤ γ/(1 − γ) · ‖L u − u‖.
            let rest = over(&next, &values) * gamma / (1.0 - gamma);
            values = next;
            if rest.is_nan() || rest <= REST * scale || (self.stop)() {
                let starts = self.model.starts().into_iter().zip(&self.graph.starts);
                let value = |((prob, start), &node): ((f64, Belief), &u32)| {
                    prob * start.dot(values.vector(number[node as usize] as usize))
                };
                return starts.map(value).sum();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn games_have_their_values() {
        // Matching pennies, and stone, scissors, paper with a stake of 3 on stone.
        for (payoffs, mixture, belief) in [
            (vec![vec![1.0, -1.0], vec![-1.0, 1.0]], vec![0.5, 0.5], vec![0.5, 0.5]),
            (vec![vec![2.0, 5.0], vec![3.0, 4.0]], vec![0.0, 1.0], vec![0.0, 1.0]),
            (
                vec![vec![0.0, -1.0, 3.0], vec![1.0, 0.0, -1.0], vec![-3.0, 1.0, 0.0]],
                vec![0.2, 0.6, 0.2],
                vec![0.2, 0.6, 0.2],
            ),
        ] {
            let (found, against) = worst(&payoffs).unwrap();
            let against = against.to_dense(belief.len() as u32);
            let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(near(&found, &mixture) && near(&against, &belief), "{found:?} {against:?}");
        }
    }
}
