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
pub(in crate::criterion) struct TotalAndSteps {
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

/// An eliminated state: its equation is x · `total` = c + Σ `to`ⱼ xⱼ.
struct Eliminated {
    state: usize,
    to: BTreeMap<u32, Big>,
    total: Big,
}

/// The equations on the way.
struct Elimination {
    equations: Vec<Equation>,
    /// The states whose equations have an entry of each state.
    from: Vec<BTreeSet<u32>>,
    /// Entries of all equations.
    entries: usize,
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
) -> Result<TotalAndSteps, Halt> {
    let mut elimination = Elimination::new(rows, &absorbing);
    work.spend(elimination.entries + rows.len(), numbers)?;
    let mut left: BinaryHeap<Reverse<(usize, usize)>> =
        (0..rows.len()).filter(|&k| !absorbing(k)).map(|k| Reverse((elimination.cost(k), k))).collect();
    let mut done = vec![false; rows.len()];
    let mut eliminated = Vec::with_capacity(left.len());
    while let Some(Reverse((seen, k))) = left.pop() {
        if done[k] || seen != elimination.cost(k) {
            // Stale: the queue also holds `k` with its present cost.
            continue;
        }
        done[k] = true;
        let (state, into) = elimination.eliminate(k, numbers, work)?;
        for &other in into.iter().chain(state.to.keys()) {
            left.push(Reverse((elimination.cost(other as usize), other as usize)));
        }
        eliminated.push(state);
    }
    elimination.substitute_back(eliminated, numbers, work)
}

impl Elimination {
    fn new(rows: &[&Row], absorbing: impl Fn(usize) -> bool) -> Self {
        let mut from = vec![BTreeSet::new(); rows.len()];
        let mut equations: Vec<Equation> = Vec::with_capacity(rows.len());
        let mut entries = 0;
        for (i, row) in rows.iter().enumerate() {
            let (end, value, steps) = (row.end.clone(), row.reward.clone(), row.sum.clone());
            let mut equation = Equation { to: BTreeMap::new(), end, value, steps };
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
        Self { equations, from, entries }
    }

    /// The most entries that the elimination of `k` adds.
    fn cost(&self, k: usize) -> usize {
        self.from[k].len() * self.equations[k].to.len()
    }

    /// Substitutes the equation of `k` into those that have an entry of `k`. Returns it, and their states.
    fn eliminate(&mut self, k: usize, numbers: Numbers, work: &mut Work) -> Result<(Eliminated, BTreeSet<u32>), Halt> {
        let Self { equations, from, entries } = self;
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
        *entries -= to.len();
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
            *entries = *entries + equation.to.len() - before;
        }
        if *entries > 4 * ENTRIES {
            return Err(Halt::Spent);
        }
        Ok((Eliminated { state: k, to, total }, into))
    }

    /// Solves the equations of eliminated states, the last one first.
    fn substitute_back(
        self,
        eliminated: Vec<Eliminated>,
        numbers: Numbers,
        work: &mut Work,
    ) -> Result<TotalAndSteps, Halt> {
        let mut values = vec![Big::ZERO; self.equations.len()];
        let mut steps = values.clone();
        for Eliminated { state, to, total } in eliminated.into_iter().rev() {
            work.spend(2 * to.len() + 2, numbers)?;
            let known = |first: &Big, x: &[Big]| {
                to.iter().fold(first.clone(), |sum, (&j, p)| sum + p * &x[j as usize]) / &total
            };
            let equation = &self.equations[state];
            (values[state], steps[state]) = (known(&equation.value, &values), known(&equation.steps, &steps));
        }
        Ok(TotalAndSteps { values, steps })
    }
}
