//! Forward search value iteration (Shani, Brafman and Shimony, *IJCAI*, 2007).

use rand_chacha::rand_core::Rng;

use super::super::search::Search;
use super::random::{EXPLORED, steps};
use warpkov_common::random::{below, draw, unit};

/// The nodes of a walk from b₀, b₀ first. The walk simulates a hidden state and takes its optimal MDP action. It ends
/// in an absorbing state, on return to b₀, or after `longest` steps.
pub fn walk(search: &mut Search, random: &mut impl Rng, longest: usize) -> Vec<u32> {
    let model = search.model;
    let actions = model.actions();
    let mut node = search.root;
    let mut nodes = vec![node];
    let Some(mut state) = draw(random, search.graph.nodes[node as usize].belief.iter()) else { return nodes };
    for _ in 0..longest.min(steps(model.gamma()) as usize) {
        if model.is_absorbing(state) || search.late() {
            break;
        }
        let best = search.upper_bound.best_seen(search.model, &search.rewards, state);
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
