//! The graph of a model: which states a process can reach, avoid, surely reach, or never leave.
//!
//! Vertices are the S states and one vertex S for the end of the process. A row leads to its successors of positive
//! probability, and to the end if its end probability is positive. No number but the sign of a probability counts.

use std::ops::Range;

use warpkov_mdp::model::Mdp;

/// No component.
pub(crate) const NONE: u32 = u32::MAX;

/// A model whose states have all their actions, or only that of a policy.
#[derive(Clone, Copy)]
pub(crate) struct Restricted<'a> {
    pub mdp: &'a Mdp,
    /// One action per state, below the number of actions of the state.
    pub policy: Option<&'a [u32]>,
}

impl<'a> Restricted<'a> {
    pub fn states(self) -> usize {
        self.mdp.states() as usize
    }

    /// The rows that a state may take.
    pub fn rows(self, state: usize) -> Range<usize> {
        let rows = self.mdp.choices().rows(state);
        match self.policy {
            Some(policy) if !rows.is_empty() => {
                let row = rows.start + policy[state] as usize;
                row..row + 1
            }
            _ => rows,
        }
    }

    /// Successors of positive probability, without the end.
    pub fn successors(self, row: usize) -> impl Iterator<Item = usize> + 'a {
        let (columns, probs) = self.mdp.transitions().row(row);
        columns.iter().zip(probs).filter(|(_, p)| **p > 0.0).map(|(&column, _)| column as usize)
    }

    /// Successors of positive probability, with the end as state S.
    pub fn targets(self, row: usize) -> impl Iterator<Item = usize> + 'a {
        let end = (self.mdp.end(row) > 0.0).then_some(self.states());
        self.successors(row).chain(end)
    }
}

/// The rows by the vertices that they lead to.
pub(crate) struct Backward<'a> {
    pub model: Restricted<'a>,
    first: Vec<usize>,
    /// State and row of each arrow.
    arrows: Vec<(u32, usize)>,
}

/// End components: sets of states that a process can stay in for ever, visiting each.
pub(crate) struct Components {
    /// The component of each state, or [`NONE`].
    pub of_state: Vec<u32>,
    /// The number of components.
    pub count: usize,
    /// Whether each row of the model stays in its component.
    pub inside: Vec<bool>,
}

impl<'a> Backward<'a> {
    pub fn new(model: Restricted<'a>) -> Self {
        let states = model.states();
        let each = |found: &mut dyn FnMut(usize, usize, usize)| {
            for state in 0..states {
                for row in model.rows(state) {
                    model.targets(row).for_each(|target| found(state, row, target));
                }
            }
        };
        let mut first = vec![0; states + 2];
        each(&mut |_, _, target| first[target + 1] += 1);
        for vertex in 0..=states {
            first[vertex + 1] += first[vertex];
        }
        let mut next = first.clone();
        let mut arrows = vec![(0, 0); first[states + 1]];
        each(&mut |state, row, target| {
            arrows[next[target]] = (state as u32, row);
            next[target] += 1;
        });
        Self { model, first, arrows }
    }

    fn into(&self, vertex: usize) -> &[(u32, usize)] {
        &self.arrows[self.first[vertex]..self.first[vertex + 1]]
    }

    /// The vertices from which `targets`, one flag per vertex, can be reached by `allowed` rows.
    pub fn can_reach(&self, targets: &[bool], allowed: impl Fn(usize, usize) -> bool) -> Vec<bool> {
        let mut found = targets.to_vec();
        let mut open: Vec<usize> = (0..found.len()).filter(|&vertex| found[vertex]).collect();
        while let Some(vertex) = open.pop() {
            for &(state, row) in self.into(vertex) {
                let state = state as usize;
                if !found[state] && allowed(state, row) {
                    found[state] = true;
                    open.push(state);
                }
            }
        }
        found
    }

    /// The vertices from which some policy surely never visits `goal`.
    pub fn can_avoid(&self, goal: &[bool]) -> Vec<bool> {
        let states = self.model.states();
        let mut safe: Vec<bool> = goal.iter().map(|goal| !goal).collect();
        let mut good: Vec<usize> = (0..states).map(|state| self.model.rows(state).len()).collect();
        let mut spoilt = vec![false; self.model.mdp.rows()];
        let mut open: Vec<usize> = (0..=states).filter(|&vertex| !safe[vertex]).collect();
        while let Some(vertex) = open.pop() {
            for &(state, row) in self.into(vertex) {
                let state = state as usize;
                if !std::mem::replace(&mut spoilt[row], true) {
                    good[state] -= 1;
                    if good[state] == 0 && std::mem::replace(&mut safe[state], false) {
                        open.push(state);
                    }
                }
            }
        }
        safe
    }

    /// The vertices from which every policy visits `goal` almost surely.
    pub fn must_reach(&self, goal: &[bool]) -> Vec<bool> {
        let avoid = self.can_avoid(goal);
        self.can_reach(&avoid, |state, _| !goal[state]).into_iter().map(|astray| !astray).collect()
    }

    /// The vertices from which some policy visits `targets` almost surely.
    pub fn can_ensure(&self, targets: &[bool]) -> Vec<bool> {
        let mut within = vec![true; targets.len()];
        loop {
            let found = self.can_reach(targets, |_, row| self.model.targets(row).all(|target| within[target]));
            if found == within {
                return found;
            }
            within = found;
        }
    }
}

impl Components {
    /// No components.
    pub fn none(model: Restricted<'_>) -> Self {
        Self { of_state: vec![NONE; model.states()], count: 0, inside: vec![false; model.mdp.rows()] }
    }

    /// The largest end components of the `allowed` rows. Rows that may leave their strongly connected component are
    /// removed until none is left.
    pub fn new(model: Restricted<'_>, allowed: impl Fn(usize, usize) -> bool) -> Self {
        let states = model.states();
        let mut inside = vec![false; model.mdp.rows()];
        for state in 0..states {
            model.rows(state).for_each(|row| inside[row] = allowed(state, row) && model.mdp.end(row) <= 0.0);
        }
        loop {
            let scc = strongly_connected(model, &inside);
            let mut removed = false;
            for state in 0..states {
                for row in model.rows(state) {
                    if inside[row] && model.successors(row).any(|next| scc[next] != scc[state]) {
                        (inside[row], removed) = (false, true);
                    }
                }
            }
            if !removed {
                let mut number = vec![NONE; states];
                let (mut of_state, mut count) = (vec![NONE; states], 0);
                for state in 0..states {
                    if model.rows(state).any(|row| inside[row]) {
                        let number = &mut number[scc[state] as usize];
                        if *number == NONE {
                            *number = count;
                            count += 1;
                        }
                        of_state[state] = *number;
                    }
                }
                return Self { of_state, count: count as usize, inside };
            }
        }
    }
}

/// The strongly connected component of each state, by the rows that are `inside` (Tarjan 1972, without recursion).
fn strongly_connected(model: Restricted<'_>, inside: &[bool]) -> Vec<u32> {
    let states = model.states();
    let next = |state: usize| model.rows(state).filter(|&row| inside[row]).flat_map(move |row| model.successors(row));
    let (mut order, mut low) = (vec![NONE; states], vec![NONE; states]);
    let mut component = vec![NONE; states];
    let (mut visited, mut components) = (0_u32, 0_u32);
    let mut path = Vec::new();
    for root in 0..states {
        if order[root] != NONE {
            continue;
        }
        let mut calls = vec![(root, next(root))];
        (order[root], low[root]) = (visited, visited);
        visited += 1;
        path.push(root);
        while let Some((state, successors)) = calls.last_mut() {
            let state = *state;
            match successors.next() {
                Some(target) if order[target] == NONE => {
                    (order[target], low[target]) = (visited, visited);
                    visited += 1;
                    path.push(target);
                    calls.push((target, next(target)));
                }
                Some(target) if component[target] == NONE => low[state] = low[state].min(order[target]),
                Some(_) => {}
                None => {
                    calls.pop();
                    if let Some((parent, _)) = calls.last() {
                        low[*parent] = low[*parent].min(low[state]);
                    }
                    if low[state] == order[state] {
                        while let Some(member) = path.pop() {
                            component[member] = components;
                            if member == state {
                                break;
                            }
                        }
                        components += 1;
                    }
                }
            }
        }
    }
    component
}
