//! Greedy error reduction (Pineau and Gordon, *Robotics Research*, 2005; Pineau, Gordon and Thrun, 2006, 4.5).

use rand_chacha::rand_core::Rng;

use super::super::search::Search;
use super::ssea::chosen;
use crate::alpha::VectorSet;
use crate::belief::Belief;

/// The successors of up to `count` beliefs of B with the largest weighted error bounds. Each belief contributes one:
/// the action with the largest Σₒ p(o|b, a) ε(b^{a,o}), and its observation with the largest term.
///
/// ε(b') bounds how far V\*(b') may exceed α, the best vector of the source belief b: ε(b') = Σ (b'(s) − b(s)) (v(s) −
/// α(s)). Here v(s) is the upper bound on the MDP value of s where b'(s) > b(s), and min r / (1 − γ) elsewhere.
pub fn greedy(search: &mut Search, random: &mut impl Rng, count: usize) -> Vec<u32> {
    let least = search.lower_bound.vectors.floor();
    let mut found: Vec<(f64, Belief)> = Vec::new();
    for source in chosen(search, random, count) {
        if search.late() {
            break;
        }
        search.lower(source);
        let actions = 0..search.model.actions();
        let successors: Vec<_> = actions.map(|action| search.successors(source, action)).collect();
        let node = &search.graph.nodes[source as usize];
        let (belief, vector) = (node.belief.clone(), search.lower_bound.vectors.row(node.vector as usize).into_owned());
        let seen = &search.upper_bound.seen;
        let error = |next: &Belief| {
            let mut error = 0.0;
            let mut own = next.iter().peekable();
            for (state, prob) in belief.iter() {
                while let Some((s, p)) = own.next_if(|(s, _)| *s < state) {
                    error += p * (seen[s as usize] - vector[s as usize]);
                }
                let change = own.next_if(|(s, _)| *s == state).map_or(0.0, |(_, p)| p) - prob;
                let extreme = if change > 0.0 { seen[state as usize] } else { least };
                error += change * (extreme - vector[state as usize]);
            }
            error + own.map(|(s, p)| p * (seen[s as usize] - vector[s as usize])).sum::<f64>()
        };
        let mut best: Option<(f64, f64, Belief)> = None;
        for successors in successors {
            let weighted = successors.into_iter().map(|(_, prob, next)| (prob * error(&next), next));
            let weighted: Vec<(f64, Belief)> = weighted.collect();
            let sum: f64 = weighted.iter().map(|(error, _)| error).sum();
            let largest = weighted.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
            if let Some((own, next)) = largest
                && best.as_ref().is_none_or(|best| sum > best.0)
            {
                best = Some((sum, own, next));
            }
        }
        found.extend(best.map(|(_, own, next)| (own, next)));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, belief)| search.intern(belief)).collect()
}
