//! States in another order: successors near their states are cheaper to read, and their distances to store.
//!
//! Reverse Cuthill–McKee numbers states by breadth-first search from an outlying one, neighbours of small degree first, and
//! turns the numbers round (Cuthill and McKee, *Proc. 24th ACM National Conference*, 1969; George and Liu, *Computer
//! Solution of Large Sparse Positive Definite Systems*, 1981). Neighbours are the states that some action leads to, and
//! those that it leads from.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::model::{ActionNames, Array, CHUNK, Choices, Csr, Mdp};
use super::validate::Invalid;

/// States below which no order matters: V is in the caches as a whole.
const FEW: u32 = 1 << 16;

/// How much nearer successors must become for a new order to pay.
const GAIN: f64 = 4.0;

/// Searches for an outlying state, at most.
const SEARCHES: usize = 4;

/// A bijection of states.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The old number of each new state.
    pub old: Vec<u32>,
    /// The new number of each old state.
    pub new: Vec<u32>,
}

impl Order {
    /// That in which new state i is old state `old[i]`, each once.
    #[must_use]
    pub fn new(old: Vec<u32>) -> Self {
        let mut new = vec![0; old.len()];
        for (number, &state) in (0..).zip(&old) {
            new[state as usize] = number;
        }
        Self { old, new }
    }

    /// The reverse Cuthill–McKee order of a model.
    #[must_use]
    pub fn rcm(mdp: &Mdp) -> Self {
        Neighbours::of(mdp).rcm()
    }

    /// The reverse Cuthill–McKee order, if successors are far from their states and it brings them much nearer; with the
    /// mean distances |s' − s| before and after.
    #[must_use]
    pub fn worthwhile(mdp: &Mdp) -> Option<(Self, [f64; 2])> {
        let before = mean_distance(mdp);
        // A quarter of all distances fit in 16 bits.
        if mdp.states < FEW || before < f64::from(1 << 13) {
            return None;
        }
        let neighbours = Neighbours::of(mdp);
        // What is connected through few levels has wide ones, in which successors are far away in any order.
        let (reached, levels) = neighbours.breadth_first(0, &mut vec![false; mdp.states as usize]);
        if reached.len() as f64 / levels as f64 > before {
            return None;
        }
        let order = neighbours.rcm();
        let distance = |state: usize, successor: u32| order.new[state].abs_diff(order.new[successor as usize]);
        let after = mean(mdp, distance);
        (after * GAIN < before).then_some((order, [before, after]))
    }

    /// The model in this order; its grid is dropped.
    ///
    /// # Errors
    /// None, if the model is valid.
    pub fn apply(&self, mdp: &Mdp) -> Result<Mdp, Invalid> {
        let rows: Vec<usize> = self.old.iter().flat_map(|&state| mdp.choices.rows(state as usize)).collect();
        let choices = match &mdp.choices {
            Choices::Uniform(actions) => Choices::Uniform(*actions),
            Choices::Ragged(_) => {
                let mut offsets = vec![0];
                offsets.extend(self.old.iter().scan(0, |first, &state| {
                    *first += mdp.choices.count(state as usize) as u64;
                    Some(*first)
                }));
                Choices::Ragged(offsets.into())
            }
        };
        let of_rows = |numbers: &Array<f64>| match numbers.is_empty() {
            true => Array::default(),
            false => rows.par_iter().map(|&row| numbers[row]).collect::<Vec<_>>().into(),
        };
        let labels = mdp.labels.iter().map(|(name, states)| (name.clone(), self.renumbered(states)));
        let names = |names: &ActionNames| ActionNames {
            names: names.names.clone(),
            of_row: rows.iter().map(|&row| names.of_row[row]).collect(),
        };
        Mdp {
            states: mdp.states,
            choices,
            gamma: mdp.gamma,
            objective: mdp.objective,
            transitions: self.matrix(&mdp.transitions, &rows),
            ends: of_rows(&mdp.ends),
            rewards: self.matrix(&mdp.rewards, &rows),
            action_rewards: of_rows(&mdp.action_rewards),
            labels: labels.collect::<BTreeMap<_, _>>(),
            action_names: mdp.action_names.as_ref().map(names),
            grid: None,
        }
        .validated()
    }

    /// What belongs to old states, in the new order.
    #[must_use]
    pub fn to_new<T: Copy>(&self, of_old: &[T]) -> Vec<T> {
        self.old.iter().map(|&state| of_old[state as usize]).collect()
    }

    /// What belongs to new states, in the old order.
    #[must_use]
    pub fn to_old<T: Copy>(&self, of_new: &[T]) -> Vec<T> {
        self.new.iter().map(|&state| of_new[state as usize]).collect()
    }

    fn renumbered(&self, states: &[u32]) -> Vec<u32> {
        let mut states: Vec<u32> = states.iter().map(|&state| self.new[state as usize]).collect();
        states.sort_unstable();
        states
    }

    /// Some rows of a matrix, with their columns renumbered and ascending.
    fn matrix(&self, matrix: &Csr, rows: &[usize]) -> Csr {
        let of_chunk = |rows: &[usize]| {
            let (mut lengths, mut col, mut val) = (Vec::with_capacity(rows.len()), Vec::new(), Vec::new());
            let mut entries = Vec::new();
            for &row in rows {
                let (columns, values) = matrix.row(row);
                entries.clear();
                entries.extend(columns.iter().map(|&column| self.new[column as usize]).zip(values.iter().copied()));
                entries.sort_unstable_by_key(|entry| entry.0);
                lengths.push(entries.len() as u64);
                col.extend(entries.iter().map(|entry| entry.0));
                val.extend(entries.iter().map(|entry| entry.1));
            }
            (lengths, col, val)
        };
        let chunks: Vec<_> = rows.par_chunks(CHUNK).map(of_chunk).collect();
        let mut row_ptr = Vec::with_capacity(rows.len() + 1);
        let (mut all_col, mut all_val) = (Vec::with_capacity(matrix.nnz()), Vec::with_capacity(matrix.nnz()));
        let mut end = 0;
        row_ptr.push(end);
        for (lengths, col, val) in chunks {
            row_ptr.extend(lengths.iter().map(|length| {
                end += length;
                end
            }));
            all_col.extend(col);
            all_val.extend(val);
        }
        Csr { row_ptr: row_ptr.into(), col: all_col.into(), val: all_val.into() }
    }
}

/// The mean |s' − s| over the entries of P.
#[must_use]
pub fn mean_distance(mdp: &Mdp) -> f64 {
    mean(mdp, |state, successor| (state as u32).abs_diff(successor))
}

fn mean(mdp: &Mdp, distance: impl Fn(usize, u32) -> u32 + Sync) -> f64 {
    let of_state = |state: usize| {
        let successors = mdp.choices.rows(state).flat_map(|row| mdp.transitions.row(row).0);
        successors.map(|&successor| u64::from(distance(state, successor))).sum::<u64>() as f64
    };
    let total: f64 = (0..mdp.states as usize).into_par_iter().with_min_len(CHUNK).map(of_state).sum();
    total / mdp.transitions.nnz().max(1) as f64
}

/// The states that are a step away in either direction: those of state s are `state[ptr[s]..ptr[s + 1]]`.
struct Neighbours {
    ptr: Vec<u64>,
    state: Vec<u32>,
}

impl Neighbours {
    fn of(mdp: &Mdp) -> Self {
        let states = mdp.states as usize;
        let successors = |state: usize| {
            let rows = mdp.choices.rows(state);
            let mut found: Vec<u32> = rows.flat_map(|row| mdp.transitions.row(row).0).copied().collect();
            found.sort_unstable();
            found.dedup();
            found.retain(|&successor| successor as usize != state);
            found
        };
        let forth: Vec<Vec<u32>> = (0..states).into_par_iter().with_min_len(CHUNK).map(successors).collect();
        let mut ptr = vec![0_u64; states + 1];
        for (state, successors) in forth.iter().enumerate() {
            ptr[state + 1] += successors.len() as u64;
            successors.iter().for_each(|&successor| ptr[successor as usize + 1] += 1);
        }
        for state in 0..states {
            ptr[state + 1] += ptr[state];
        }
        let mut next = ptr.clone();
        // A pair that goes both ways is listed twice, which does no harm.
        let mut state = vec![0; ptr[states] as usize];
        let mut put = |of: u32, neighbour: u32| {
            let place = &mut next[of as usize];
            state[*place as usize] = neighbour;
            *place += 1;
        };
        for (own, successors) in (0..).zip(&forth) {
            for &successor in successors {
                put(own, successor);
                put(successor, own);
            }
        }
        Self { ptr, state }
    }

    fn degree(&self, state: u32) -> u64 {
        self.ptr[state as usize + 1] - self.ptr[state as usize]
    }

    fn neighbours(&self, state: u32) -> &[u32] {
        &self.state[self.ptr[state as usize] as usize..self.ptr[state as usize + 1] as usize]
    }

    /// All that can be reached from `start` in the order of a breadth-first search, neighbours of small degree first, and
    /// the number of levels. `seen` tells what is not to be entered, and is told what was.
    fn breadth_first(&self, start: u32, seen: &mut [bool]) -> (Vec<u32>, usize) {
        let mut found = vec![start];
        seen[start as usize] = true;
        let (mut first, mut levels) = (0, 0);
        while first < found.len() {
            levels += 1;
            let last = found.len();
            for place in first..last {
                let from = found.len();
                for &neighbour in self.neighbours(found[place]) {
                    if !std::mem::replace(&mut seen[neighbour as usize], true) {
                        found.push(neighbour);
                    }
                }
                found[from..].sort_by_key(|&state| self.degree(state));
            }
            first = last;
        }
        (found, levels)
    }

    fn rcm(&self) -> Order {
        let states = self.ptr.len() - 1;
        let mut seen = vec![false; states];
        let mut order: Vec<u32> = Vec::with_capacity(states);
        for state in 0..states as u32 {
            if seen[state as usize] {
                continue;
            }
            // From one end of a component to the other, until it becomes no longer.
            let (mut start, mut most) = (state, 0);
            for _ in 0..SEARCHES {
                let (found, levels) = self.breadth_first(start, &mut seen);
                found.iter().for_each(|&state| seen[state as usize] = false);
                if levels <= most {
                    break;
                }
                most = levels;
                start = found[found.len() - 1];
            }
            order.extend(self.breadth_first(start, &mut seen).0);
        }
        order.reverse();
        Order::new(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::device::{Plan, Storage};
    use crate::mdp::generate::{Garnet, SlipGrid};

    /// A grid whose states are numbered in the order of n·7919 mod S.
    fn shuffled(side: u32) -> (Mdp, Mdp, Order) {
        let grid = SlipGrid { width: side, height: side, ..SlipGrid::default() }.generate().unwrap();
        let states = u64::from(side * side);
        let order = Order::new((0..states).map(|state| (state * 7919 % states) as u32).collect());
        let mdp = order.apply(&grid).unwrap();
        (grid, mdp, order)
    }

    #[test]
    fn a_renumbered_model_is_the_same_model() {
        let (grid, mdp, order) = shuffled(20);
        let back = Order::new(order.new.clone()).apply(&mdp).unwrap();
        assert_eq!(back.transitions.row_ptr[..], grid.transitions.row_ptr[..]);
        assert_eq!(back.transitions.col[..], grid.transitions.col[..]);
        assert_eq!(back.expected_rewards(), grid.expected_rewards());
        let numbers: Vec<u32> = (0..400).collect();
        assert_eq!(order.to_old(&order.to_new(&numbers)), numbers);
    }

    /// The bandwidth of an n × n grid is n (Chvátalová 1975); level sets of a corner have at most n cells.
    #[test]
    fn a_shuffled_grid_becomes_narrow() {
        let side = 300;
        let (_, mdp, _) = shuffled(side);
        assert!(mean_distance(&mdp) > 10_000.0);
        assert!(Plan::new(&mdp, Some(Storage::Narrow)).is_none());
        let (order, [before, after]) = Order::worthwhile(&mdp).unwrap();
        assert!(after <= f64::from(side) && before > 10_000.0, "{before} → {after}");
        let near = order.apply(&mdp).unwrap();
        assert_eq!(mean_distance(&near), after);
        let plan = Plan::new(&near, None).unwrap();
        assert!(matches!(plan.storage(), Storage::Narrow | Storage::Patterns), "{}", plan.storage());
        assert!(plan.skips(), "near");
    }

    #[test]
    fn models_without_locality_stay_as_they_are() {
        let garnet = Garnet { states: 70_000, actions: 2, branching: 3, ..Garnet::default() }.generate().unwrap();
        assert!(Order::worthwhile(&garnet).is_none());
        let (grid, _, _) = shuffled(260);
        assert!(Order::worthwhile(&grid).is_none(), "near already");
    }
}
