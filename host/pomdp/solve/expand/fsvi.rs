//! Forward search value iteration (Shani, Brafman and Shimony, *IJCAI*, 2007).

use rand_chacha::rand_core::Rng;

use super::super::search::Search;
use crate::mdp::generate::{below, draw, unit};

/// Part of the discounted time that may lie beyond the end of a walk.
const BEYOND: f64 = 0.01;

/// The probability of an action that is not the best.
const EXPLORED: f64 = 0.1;

/// Nodes of a walk from b₀ in which the state is drawn and acted on as if it were seen, b₀ first. It ends in a state that no
/// action leads out of, and back at b₀.
pub fn walk(search: &mut Search, random: &mut impl Rng) -> Vec<u32> {
    let model = search.model;
    let actions = model.actions();
    let steps = (BEYOND.ln() / model.gamma().ln()).clamp(1.0, 10_000.0) as usize;
    let mut node = search.root;
    let mut nodes = vec![node];
    let Some(mut state) = draw(random, model.start.iter()) else { return nodes };
    for _ in 0..steps {
        if model.is_absorbing(state) {
            break;
        }
        let factor = |action: u32| {
            let (successors, probs) = model.successors(state, action);
            let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * search.seen[s as usize]).sum();
            search.rewards[(state * actions + action) as usize] + model.gamma() * next
        };
        let best = (0..actions).map(|action| (action, factor(action)));
        let best = best.reduce(|best, next| if next.1 > best.1 { next } else { best }).map_or(0, |best| best.0);
        let explored = unit(random) < EXPLORED;
        let action = if explored { below(random, u64::from(actions)) as u32 } else { best };
        let (successors, probs) = model.successors(state, action);
        let Some(next) = draw(random, successors.iter().copied().zip(probs.iter().copied())) else { break };
        state = next;
        let (observations, probs) = model.observed(action, state);
        let Some(seen) = draw(random, observations.iter().copied().zip(probs.iter().copied())) else { break };
        let successor = search.successors(node, action).into_iter().find(|(observation, ..)| *observation == seen);
        let Some((.., belief)) = successor else { break };
        node = search.intern(belief);
        if node == search.root {
            break;
        }
        nodes.push(node);
    }
    nodes
}
