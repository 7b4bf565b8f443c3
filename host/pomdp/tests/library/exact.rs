//! Exact finite-horizon value iteration by incremental pruning (Cassandra, Littman and Zhang, *UAI*, 1997), for models
//! with few states: a reference to test bounds against.

use warpkov_common::numbers::max_norm;
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::game::Game;
use warpkov_pomdp::model::Pomdp;

/// Least advantage at some belief that keeps a vector, relative to the largest value.
const MARGIN: f64 = 1e-12;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// A first action with its vector.
type Alpha = (u32, Vec<f64>);

/// The bounds between which V\*ₙ − V lies, for V(b) = max over α of b·α by [`incremental_pruning`] over n steps.
///
/// A vector is the value of a plan, so that V exceeds V\*ₙ by rounding alone: sums of fewer than 16 terms per step, of numbers of at most
/// M = max |r|/(1 − γ). Each step prunes at most 2 |Ω| + 1 times, and each time loses at most the margin; as much again is for the rounding of
/// the games that find it.
pub fn error(model: &Pomdp, horizon: u32) -> [f64; 2] {
    let most = max_norm(&model.expected_rewards()) / (1.0 - model.gamma());
    let steps = f64::from(horizon);
    let prunings = f64::from(2 * model.observation_count() + 1);
    let rounding = 16.0 * steps * UNIT * most;
    [-rounding, 2.0 * steps * prunings * MARGIN * most + rounding]
}

/// Γₙ for horizon n, starting from Γ₀ = {0}: V\*ₙ(b) = max over α of b·α, up to its [`error`]. The model is a maximisation
/// problem. `None` if more than `most` vectors arise on the way.
pub fn incremental_pruning(model: &Pomdp, horizon: u32, most: usize) -> Option<AlphaVectors> {
    let (states, actions, gamma) = (model.states(), model.actions(), model.gamma());
    let rewards = model.expected_rewards();
    let largest = max_norm(&rewards);
    let margin = MARGIN * largest.max(f64::MIN_POSITIVE) / (1.0 - gamma);
    let mut vectors: Vec<Alpha> = vec![(0, vec![0.0; states as usize])];
    for _ in 0..horizon {
        let mut union = Vec::new();
        for action in 0..actions {
            let reward = |s: u32| rewards[(s * actions + action) as usize] / f64::from(model.observation_count());
            let mut sums: Vec<Alpha> = vec![(action, vec![0.0; states as usize])];
            for observation in 0..model.observation_count() {
                let part = |alpha: &Alpha| {
                    let entry = |s: u32| {
                        let (successors, probs) = model.successors(s, action);
                        let weight = |next: u32| {
                            let (observed, chances) = model.observed(action, next);
                            observed.iter().position(|&o| o == observation).map_or(0.0, |o| chances[o])
                        };
                        let next = successors.iter().zip(probs).map(|(&n, p)| p * weight(n) * alpha.1[n as usize]);
                        reward(s) + gamma * next.sum::<f64>()
                    };
                    (action, (0..states).map(entry).collect())
                };
                let parts = pruned(vectors.iter().map(part).collect(), margin);
                let sum = |a: &Alpha, b: &Alpha| (action, a.1.iter().zip(&b.1).map(|(a, b)| a + b).collect());
                let crossed = sums.iter().flat_map(|a| parts.iter().map(move |b| sum(a, b))).collect::<Vec<_>>();
                if crossed.len() > most * most {
                    return None;
                }
                sums = pruned(crossed, margin);
            }
            union.extend(sums);
        }
        vectors = pruned(union, margin);
        if vectors.len() > most {
            return None;
        }
    }
    let mut alpha = AlphaVectors::new(states);
    vectors.iter().for_each(|(action, vector)| alpha.push(*action, vector));
    Some(alpha)
}

/// The vectors that exceed all others by more than `margin` at some belief.
fn pruned(mut vectors: Vec<Alpha>, margin: f64) -> Vec<Alpha> {
    let mut kept: Vec<Alpha> = Vec::new();
    while let Some(candidate) = vectors.pop() {
        let below = |other: &Alpha| candidate.1.iter().zip(&other.1).all(|(own, other)| own <= other);
        if kept.iter().any(below) || vectors.iter().any(below) {
            continue;
        }
        let Some(belief) = witness(&candidate.1, &kept, margin) else { continue };
        // The best vector at the witness belief, which need not be the candidate.
        let value = |alpha: &Alpha| alpha.1.iter().zip(&belief).map(|(a, b)| a * b).sum::<f64>();
        let own = value(&candidate);
        let best = vectors
            .iter()
            .map(value)
            .enumerate()
            .fold((None, own), |best, (i, next)| if next > best.1 { (Some(i), next) } else { best });
        match best.0 {
            None => kept.push(candidate),
            Some(i) => {
                kept.push(vectors.swap_remove(i));
                vectors.push(candidate);
            }
        }
    }
    kept
}

/// A belief b where b·α exceeds b·β for all β by more than `margin`, if any. It is the opponent's optimal strategy in
/// the [game](Game) in which strategy β loses α(s) − β(s) in state s, and the value of the game is the margin.
fn witness(alpha: &[f64], others: &[Alpha], margin: f64) -> Option<Vec<f64>> {
    let states = alpha.len();
    if others.is_empty() {
        return Some(vec![1.0 / states as f64; states]);
    }
    let mut game = Game::default();
    others.iter().for_each(|(_, beta)| game.push(alpha.iter().zip(beta).map(|(a, b)| a - b).collect()));
    game.solve();
    let value = game.losses().into_iter().fold(f64::NEG_INFINITY, f64::max);
    let mut belief = vec![0.0; states];
    game.belief().into_iter().for_each(|(state, prob)| belief[state] = prob);
    (value > margin).then_some(belief)
}

#[test]
fn a_vector_below_the_envelope_is_found_out() {
    // At b = ½ the first two vectors give 1. The third gives 0.9 in one case and 1.1 in the other.
    let all = |last: f64| vec![(0, vec![2.0, 0.0]), (1, vec![0.0, 2.0]), (2, vec![last, last])];
    let actions = |vectors: Vec<Alpha>| {
        let mut actions: Vec<u32> = vectors.into_iter().map(|(action, _)| action).collect();
        actions.sort_unstable();
        actions
    };
    assert_eq!(actions(pruned(all(0.9), 1e-9)), [0, 1]);
    assert_eq!(actions(pruned(all(1.1), 1e-9)), [0, 1, 2]);
    let belief = witness(&[1.1, 1.1], &all(0.0)[..2], 1e-9).unwrap();
    assert!((belief[0] - 0.5).abs() < 1e-12, "{belief:?}");
}
