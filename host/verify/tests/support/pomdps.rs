//! Random partially observable models, and their values by enumeration.

use warpkov_mdp::model::{Choices, Csr, MdpParts, Objective};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::model::{Pomdp, PomdpParts};

use crate::models::Random;

/// Rows of a matrix: row i is a distribution over `columns(i)`.
fn rows(random: &mut Random, count: u32, columns: impl Fn(u32) -> Vec<u32>) -> Csr {
    let (mut ptr, mut col, mut val) = (vec![0_u64], Vec::new(), Vec::new());
    for row in 0..count {
        let all = columns(row);
        let mut some: Vec<u32> = all.iter().copied().filter(|_| random.below(3) > 0).collect();
        if some.is_empty() {
            some.push(all[random.below(all.len() as u64) as usize]);
        }
        let weights: Vec<f64> =
            some.iter().map(|_| random.unit() * 10_f64.powi(-(random.below(4) as i32)) + 1e-9).collect();
        let sum: f64 = weights.iter().sum();
        col.extend(some);
        val.extend(weights.iter().map(|weight| weight / sum));
        ptr.push(col.len() as u64);
    }
    Csr::new(ptr, col, val).unwrap()
}

/// A model of few states, some with an observed component, and the largest reward.
pub fn model(random: &mut Random, gammas: &[f64]) -> (Pomdp, f64) {
    let (states, actions, signals) =
        (1 + random.below(4) as u32, 1 + random.below(3) as u32, 1 + random.below(3) as u32);
    let sees = states > 1 && random.below(4) == 0;
    let parts = if sees { 2 } else { 1 };
    let scale = 10_f64.powi(random.below(15) as i32 - 6);
    let count = (states * actions) as usize;
    let rewards: Vec<f64> =
        (0..count).map(|_| if random.below(4) == 0 { 0.0 } else { scale * (2.0 * random.unit() - 1.0) }).collect();
    let transitions = rows(random, states * actions, |_| (0..states).collect());
    let process = MdpParts {
        states,
        choices: Choices::Uniform(actions),
        gamma: gammas[random.below(gammas.len() as u64) as usize],
        objective: if random.below(3) == 0 { Objective::Minimize } else { Objective::Maximize },
        transitions,
        action_rewards: rewards.into(),
        ..MdpParts::default()
    };
    // The signals of each value of the observed component differ.
    let observations =
        rows(random, states * actions, |row| (0..signals).map(|o| row % states % parts * signals + o).collect());
    let start = rows(random, 1, |_| (0..states).collect());
    let start = Belief::new(start.col().to_vec(), start.val().to_vec()).unwrap();
    let seen = if sees { (0..states).map(|state| state % parts).collect() } else { Vec::new() };
    let model =
        PomdpParts { process, observation_count: parts * signals, observations, start, seen, ..PomdpParts::default() };
    (model.validated().unwrap(), scale)
}

/// The largest expected sum of the next `steps` rewards from an unscaled belief.
pub fn tree(model: &Pomdp, rewards: &[f64], belief: &[f64], steps: u32) -> f64 {
    if steps == 0 {
        return 0.0;
    }
    let of_action = |action: u32| {
        let now: f64 =
            (0..model.states()).map(|s| belief[s as usize] * rewards[(s * model.actions() + action) as usize]).sum();
        let mut next = vec![vec![0.0; model.states() as usize]; model.observation_count() as usize];
        for state in 0..model.states() {
            let (to, probs) = model.successors(state, action);
            for (&to, p) in to.iter().zip(probs) {
                let (seen, shares) = model.observed(action, to);
                for (&o, share) in seen.iter().zip(shares) {
                    next[o as usize][to as usize] += belief[state as usize] * p * share;
                }
            }
        }
        now + model.gamma() * next.iter().map(|belief| tree(model, rewards, belief, steps - 1)).sum::<f64>()
    };
    (0..model.actions()).map(of_action).fold(f64::NEG_INFINITY, f64::max)
}

/// V\*(b₀) of the next `steps` rewards, in the model's own sign.
pub fn by_enumeration(model: &Pomdp, steps: u32) -> f64 {
    let maximized = model.to_maximize();
    let rewards = maximized.expected_rewards();
    // The observed component is known from the start.
    let known = |x: u32| -> Vec<f64> {
        let dense = model.start().to_dense(model.states()).into_iter().enumerate();
        dense.map(|(s, p)| if model.seen().get(s).is_none_or(|&own| own == x) { p } else { 0.0 }).collect()
    };
    let parts = if model.seen().is_empty() { 1 } else { 2 };
    let value: f64 = (0..parts).map(|x| tree(&maximized, &rewards, &known(x), steps)).sum();
    model.process().objective().sign() * value
}

/// The most steps that [`by_enumeration`] does at once.
pub fn depth(model: &Pomdp) -> u32 {
    let branches = f64::from(model.actions() * model.observation_count());
    (1e5_f64.ln() / branches.ln().max(0.5)) as u32
}
