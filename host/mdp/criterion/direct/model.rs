//! Models with unrounded numbers.

use super::{Big, Numbers, size};
use crate::analysis::graph::Graph;
use crate::analysis::quotient::{Quotient, STAY};
use crate::model::Mdp;

/// A row without division by its sum.
pub(in crate::criterion) struct Row {
    /// Successors other than the row's own state, ascending, and their weights.
    pub to: Vec<(u32, Big)>,
    /// Weight of termination.
    pub end: Big,
    /// Sum of all weights, including the weight of the row's own state.
    pub sum: Big,
    /// Reward of the row, times `sum`.
    pub reward: Big,
    /// Sum of the magnitudes of the terms of `reward`.
    pub size: Big,
    /// Maximum number of operations behind a number of the row and a sum over its entries.
    pub operations: usize,
}

/// Maps a row and its sum to the reward times the sum, and to the sum of the magnitudes of its terms.
pub(in crate::criterion) type Reward<'a> = dyn Fn(usize, &Big, Numbers) -> (Big, Big) + 'a;

/// A model to maximise.
pub(in crate::criterion) struct Model {
    pub numbers: Numbers,
    /// State s has rows `first[s]..first[s + 1]`.
    pub first: Vec<usize>,
    pub rows: Vec<Row>,
}

impl Model {
    /// The model of a quotient, rebuilt from the unrounded original. `stay` maps a quotient state to the reward for
    /// staying in its component.
    pub fn of_quotient(
        quotient: &Quotient,
        graph: &Graph,
        numbers: Numbers,
        reward: &Reward,
        stay: &dyn Fn(usize, Numbers) -> Big,
    ) -> Self {
        let mut model = Self { numbers, first: vec![0], rows: Vec::with_capacity(quotient.origin.len()) };
        let Some(mdp) = &quotient.mdp else { return model };
        for state in 0..mdp.states() as usize {
            for row in mdp.choices().rows(state) {
                let made = match quotient.origin[row] {
                    STAY => {
                        let (pay, one) = (stay(state, numbers), numbers.big(1.0));
                        let (end, size) = (one.clone(), size(&pay));
                        Row { to: Vec::new(), end, sum: one, reward: pay, size, operations: 4 }
                    }
                    origin => Row::new(graph.mdp(), origin, state, |col| quotient.target(col), reward, numbers),
                };
                model.rows.push(made);
            }
            model.first.push(model.rows.len());
        }
        model
    }

    /// The submodel of `states` with the rows that `within` accepts, which must lead to these states only. `number`
    /// maps a state to its position in `states`.
    pub fn of_part(
        graph: &Graph,
        states: &[usize],
        number: &[u32],
        within: &dyn Fn(usize) -> bool,
        numbers: Numbers,
        reward: &Reward,
    ) -> Self {
        let mut model = Self { numbers, first: vec![0], rows: Vec::new() };
        for (own, &state) in states.iter().enumerate() {
            for row in graph.rows(state).filter(|&row| within(row)) {
                let target = |col: u32| Some(number[col as usize]);
                model.rows.push(Row::new(graph.mdp(), row, own, target, reward, numbers));
            }
            model.first.push(model.rows.len());
        }
        model
    }

    pub fn states(&self) -> usize {
        self.first.len() - 1
    }

    /// The rows of a state.
    pub fn rows_of(&self, state: usize) -> std::ops::Range<usize> {
        self.first[state]..self.first[state + 1]
    }

    /// Entries of all rows.
    pub fn entries(&self) -> usize {
        self.rows.iter().map(|row| row.to.len() + 1).sum()
    }

    /// The rows of a policy, one per state.
    pub fn policy(&self, policy: &[usize]) -> Vec<&Row> {
        policy.iter().map(|&row| &self.rows[row]).collect()
    }

    /// Changes `policy` in each state that is not yet `there`, to a row that ends the process or leads, with positive
    /// weight, to a state nearer to the set `there`. States that cannot get there keep their row.
    pub fn lead(&self, policy: &mut [usize], there: &mut [bool]) {
        let mut entering = vec![Vec::new(); self.states()];
        let mut queue: Vec<usize> = (0..self.states()).filter(|&state| there[state]).collect();
        for state in 0..self.states() {
            for row in self.rows_of(state) {
                self.rows[row].to.iter().for_each(|(next, _)| entering[*next as usize].push((state, row)));
                if !there[state] && self.rows[row].end > Big::ZERO {
                    (there[state], policy[state]) = (true, row);
                    queue.push(state);
                }
            }
        }
        let mut next = 0;
        while let Some(&state) = queue.get(next) {
            next += 1;
            for &(before, row) in &entering[state] {
                if !there[before] {
                    (there[before], policy[before]) = (true, row);
                    queue.push(before);
                }
            }
        }
    }
}

impl Row {
    /// Row `row` of the original as a row of state `own`. `target` maps a successor to a state, or to `None` for
    /// termination.
    fn new(
        mdp: &Mdp,
        row: usize,
        own: usize,
        target: impl Fn(u32) -> Option<u32>,
        reward: &Reward,
        numbers: Numbers,
    ) -> Self {
        let (cols, probs) = mdp.transitions().row(row);
        let mut end = numbers.big(mdp.end(row));
        let mut sum = end.clone();
        let mut to: Vec<(u32, Big)> = Vec::with_capacity(cols.len());
        for (&col, &p) in cols.iter().zip(probs).filter(|(_, p)| **p > 0.0) {
            let p = numbers.big(p);
            sum += &p;
            match target(col) {
                None => end += p,
                Some(next) if next as usize == own => {}
                Some(next) => to.push((next, p)),
            }
        }
        to.sort_by_key(|entry| entry.0);
        to.dedup_by(|next, last| {
            let same = next.0 == last.0;
            if same {
                last.1 += &next.1;
            }
            same
        });
        let (reward, size) = reward(row, &sum, numbers);
        Self { to, end, sum, reward, size, operations: 8 * cols.len() + 16 }
    }

    /// Σ p (xⱼ − xᵢ) − e xᵢ with i = `own`, and the sum of the magnitudes of its terms.
    pub fn change(&self, own: usize, x: &[Big]) -> (Big, Big) {
        let (here, here_size) = (&x[own], size(&x[own]));
        let ended = &self.end * here;
        let first = (-&ended, size(&ended));
        self.to.iter().fold(first, |(sum, sizes), (next, p)| {
            let next = &x[*next as usize];
            (sum + p * (next - here), sizes + p * (size(next) + &here_size))
        })
    }
}

/// Expected reward of a row times `sign` and the row's `sum`, and the sum of the magnitudes of its terms.
pub(in crate::criterion) fn expected(mdp: &Mdp, row: usize, sign: f64, sum: &Big, numbers: Numbers) -> (Big, Big) {
    let (_, probs) = mdp.transitions().row(row);
    let own = numbers.big(mdp.action_reward(row));
    let first = (own.clone(), size(&own));
    let (reward, magnitude) =
        mdp.rewards_of(row).zip(probs).filter(|(r, _)| *r != 0.0).fold(first, |(total, sizes), (r, &p)| {
            let earned = numbers.big(p) * numbers.big(r);
            let next = size(&earned);
            (total + earned, sizes + next)
        });
    (numbers.big(sign) * reward * sum, magnitude * sum)
}
