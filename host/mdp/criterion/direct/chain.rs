//! Evaluation of one policy by elimination of states.
//!
//! # Mathematics
//! Let a row have entries pᵢⱼ, termination weight eᵢ and sum sᵢ. Its equation is
//!
//! xᵢ · (Σ_{j≠i} pᵢⱼ + eᵢ) = cᵢ + Σ_{j≠i} pᵢⱼ xⱼ
//!
//! with cᵢ = sᵢ·r for the expected total and cᵢ = sᵢ for the expected number of steps. To eliminate state k, substitute
//! its right-hand side into the other equations: pᵢⱼ grows by pᵢₖ pₖⱼ / (Σ_{l≠k} pₖₗ + eₖ). The method never subtracts,
//! so every entry keeps its relative accuracy, even if the process is very unlikely to end (Grassmann, Taksar and
//! Heyman, *Regenerative Analysis and Steady State Distributions for Markov Chains*, Operations Research 33, 1985;
//! O'Cinneide, *Entrywise Perturbation Theory and Error Analysis for Markov Chains*, 1993). The next state to eliminate
//! is one with little fill-in (Markowitz 1957).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::model::Row;
use super::{Big, ENTRIES, Halt, Numbers, Work};

/// Expected total reward and expected number of steps of a policy, from each state.
pub(in crate::criterion) struct Evaluation {
    pub values: Vec<Big>,
    pub steps: Vec<Big>,
}

/// The remaining equation of a state.
struct Equation {
    to: BTreeMap<u32, Big>,
    end: Big,
    value: Big,
    steps: Big,
}

/// Evaluates the policy that takes `rows`, one per state. The process ends in `absorbing` states, which have value 0.
///
/// # Errors
/// [`Halt::Improper`] if the process may never end, [`Halt::Spent`], [`Halt::Interrupted`].
pub(in crate::criterion) fn evaluate(
    rows: &[&Row],
    absorbing: impl Fn(usize) -> bool,
    numbers: Numbers,
    work: &mut Work,
) -> Result<Evaluation, Halt> {
    let mut from = vec![BTreeSet::new(); rows.len()];
    let mut equations: Vec<Equation> = Vec::with_capacity(rows.len());
    let mut entries = 0;
    for (i, row) in rows.iter().enumerate() {
        let mut equation =
            Equation { to: BTreeMap::new(), end: row.end.clone(), value: row.reward.clone(), steps: row.sum.clone() };
        if !absorbing(i) {
            for (j, p) in &row.to {
                if absorbing(*j as usize) {
                    equation.end += p;
                } else {
                    equation.to.insert(*j, p.clone());
                    from[*j as usize].insert(i as u32);
                }
            }
        }
        entries += equation.to.len();
        equations.push(equation);
    }
    work.spend(entries + rows.len(), numbers)?;

    let cost = |from: &[BTreeSet<u32>], equations: &[Equation], k: usize| from[k].len() * equations[k].to.len();
    let mut left: BinaryHeap<Reverse<(usize, usize)>> =
        (0..rows.len()).filter(|&k| !absorbing(k)).map(|k| Reverse((cost(&from, &equations, k), k))).collect();
    let mut done = vec![false; rows.len()];
    let mut eliminated = Vec::with_capacity(left.len());
    while let Some(Reverse((seen, k))) = left.pop() {
        if done[k] || seen != cost(&from, &equations, k) {
            // Stale: the queue also holds `k` with its present cost.
            continue;
        }
        done[k] = true;
        let to = std::mem::take(&mut equations[k].to);
        let total = to.values().fold(equations[k].end.clone(), |sum, p| sum + p);
        if total <= Big::ZERO {
            return Err(Halt::Improper);
        }
        let into = std::mem::take(&mut from[k]);
        work.spend((into.len() + 1) * (to.len() + 4), numbers)?;
        to.keys().for_each(|&j| {
            from[j as usize].remove(&(k as u32));
        });
        let Equation { end, value, steps, .. } = &equations[k];
        let (end, value, steps) = (end.clone(), value.clone(), steps.clone());
        entries -= to.len();
        for &i in &into {
            let equation = &mut equations[i as usize];
            let Some(p) = equation.to.remove(&(k as u32)) else { continue };
            let factor = p / &total;
            let before = equation.to.len() + 1;
            for (&j, q) in to.iter().filter(|(j, _)| **j != i) {
                let product = &factor * q;
                match equation.to.get_mut(&j) {
                    Some(entry) => *entry += product,
                    None => {
                        equation.to.insert(j, product);
                        from[j as usize].insert(i);
                    }
                }
            }
            equation.end += &factor * &end;
            equation.value += &factor * &value;
            equation.steps += &factor * &steps;
            entries = entries + equation.to.len() - before;
        }
        if entries > 4 * ENTRIES {
            return Err(Halt::Spent);
        }
        for &other in into.iter().chain(to.keys()) {
            left.push(Reverse((cost(&from, &equations, other as usize), other as usize)));
        }
        eliminated.push((k, to, total));
    }

    let mut evaluation = Evaluation { values: vec![Big::ZERO; rows.len()], steps: vec![Big::ZERO; rows.len()] };
    for (k, to, total) in eliminated.into_iter().rev() {
        work.spend(2 * to.len() + 2, numbers)?;
        let Evaluation { values, steps } = &mut evaluation;
        let known =
            |first: &Big, x: &[Big]| to.iter().fold(first.clone(), |sum, (&j, p)| sum + p * &x[j as usize]) / &total;
        let (value, step) = (known(&equations[k].value, values), known(&equations[k].steps, steps));
        (values[k], steps[k]) = (value, step);
    }
    Ok(evaluation)
}
