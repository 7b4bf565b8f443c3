//! The fast informed bound (Hauskrecht, *Journal of Artificial Intelligence Research* 13, 2000, 4.2).

use rayon::prelude::*;

use super::ActionValues;
use crate::model::Pomdp;

/// Work limit of all sweeps, in multiplications.
const MAX_PRODUCTS: usize = 4_000_000_000;

/// Multiplications between two checks of the clock.
const PRODUCTS_PER_CHECK: usize = 1 << 25;

/// The fast informed bound by iteration of Q(s, a) = r(s, a) + γ Σₒ max_{a'} Σ_{s'} T(s, a, s') O(a, s', o) Q(s', a').
///
/// If the initial `factors` are upper bounds, so is every iterate. The iteration ends when a sweep changes no entry by
/// more than `tolerance` (1 − γ), after 4 · 10⁹ multiplications, or when it is `late`.
#[must_use]
pub fn fib(
    model: &Pomdp,
    rewards: &[f64],
    mut factors: ActionValues,
    tolerance: f64,
    late: &mut dyn FnMut() -> bool,
) -> ActionValues {
    let (actions, observations, gamma) = (model.actions() as usize, model.observation_count() as usize, model.gamma());
    let products =
        actions * model.process().transitions().nnz() * model.observations().nnz() / model.observations().rows();
    let rows = factors.len();
    let at_once = (PRODUCTS_PER_CHECK / (products / rows.max(1)).max(1)).max(1);
    for _ in 0..(MAX_PRODUCTS / products.max(1)).max(1) {
        let mut next = ActionValues::with_capacity(rows);
        while next.len() < rows {
            let sums = || vec![0.0; observations * actions];
            let own = (next.len()..rows.min(next.len() + at_once)).into_par_iter().with_min_len(256);
            next.par_extend(own.map_init(sums, |sums, row| backed_up(model, rewards, &factors, sums, row)));
            if late() {
                return factors;
            }
        }
        let change = next.iter().zip(&factors).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // Every iterate is an upper bound; the minimum also excludes increases by rounding.
        factors = next.into_iter().zip(factors).map(|(new, old)| new.min(old)).collect();
        if change <= tolerance * (1.0 - gamma) {
            break;
        }
    }
    factors
}

/// One sweep: the right-hand side of the iteration for `factors`.
#[must_use]
pub fn sweep(model: &Pomdp, rewards: &[f64], factors: &[f64]) -> ActionValues {
    let sums = || vec![0.0; model.observation_count() as usize * model.actions() as usize];
    let rows = (0..factors.len()).into_par_iter().with_min_len(256);
    rows.map_init(sums, |sums, row| backed_up(model, rewards, factors, sums, row)).collect()
}

/// The right-hand side for row s·A + a. `sums` is scratch memory of |Ω|·A numbers.
fn backed_up(model: &Pomdp, rewards: &[f64], factors: &[f64], sums: &mut [f64], row: usize) -> f64 {
    let actions = model.actions() as usize;
    let action = (row % actions) as u32;
    let (successors, probs) = model.successors((row / actions) as u32, action);
    sums.fill(0.0);
    let mut seen = false;
    for (&successor, &p) in successors.iter().zip(probs) {
        let own = &factors[successor as usize * actions..][..actions];
        let (observed, chances) = model.observed(action, successor);
        for (&observation, &chance) in observed.iter().zip(chances) {
            seen = true;
            let sums = &mut sums[observation as usize * actions..][..actions];
            sums.iter_mut().zip(own).for_each(|(sum, factor)| *sum += p * chance * factor);
        }
    }
    let most = |sums: &[f64]| sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let next: f64 = if seen { sums.chunks(actions).map(most).sum() } else { 0.0 };
    rewards[row] + model.gamma() * next
}
