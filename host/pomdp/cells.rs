//! What is always known of the state: the finest division of the states into *cells* such that every belief after the first step lies in
//! one cell.
//!
//! All successors of the states of an initial belief, or of a cell, after an action and an observation are in one cell. An initial belief
//! itself may lie in several. If a component of the state is observed, its values have different cells (mixed observability: Ong, Png,
//! Hsu and Lee, *International Journal of Robotics Research* 29, 2010), whether the model declares it or not. An alpha vector is needed in
//! the cell of its belief alone.

use crate::belief::Belief;
use crate::model::Pomdp;

/// Work limit, relative to the numbers of the model. Models that would need more get one cell.
const WORK: usize = 64;

/// A division of the states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// The cell of each state.
    of: Vec<u32>,
    /// The place of each state among those of its cell.
    rank: Vec<u32>,
    /// The states by cell, ascending in each.
    states: Vec<u32>,
    /// Cell c has the states from `begins[c]` to `begins[c + 1]`.
    begins: Vec<usize>,
}

impl Cells {
    /// The cells of a model, in the order of their first states. States that the process cannot reach are a cell of their own, behind all
    /// others.
    #[must_use]
    pub fn new(model: &Pomdp) -> Self {
        let mut classes = Classes::new(model.states());
        // States whose successors are to be found.
        let mut starts: Vec<Vec<u32>> = model.starts().iter().map(|(_, start)| start.states().to_vec()).collect();
        let matrices = [model.process().transitions(), model.observations()];
        let mut work = WORK * matrices.iter().map(|matrix| matrix.nnz()).sum::<usize>();
        let (mut after, mut noted) = (Vec::new(), vec![false; model.states() as usize]);
        let mut by_observation: Vec<Vec<u32>> = vec![Vec::new(); model.observation_count() as usize];
        while let Some(members) = starts.pop().or_else(|| classes.grown()) {
            for action in 0..model.actions() {
                for &state in &members {
                    let (successors, probs) = model.successors(state, action);
                    work = work.saturating_sub(successors.len());
                    for (&next, _) in successors.iter().zip(probs).filter(|(_, p)| **p > 0.0) {
                        if !std::mem::replace(&mut noted[next as usize], true) {
                            after.push(next);
                        }
                    }
                }
                let mut seen = Vec::new();
                for next in after.drain(..) {
                    noted[next as usize] = false;
                    let (observations, probs) = model.observed(action, next);
                    work = work.saturating_sub(observations.len());
                    for (&observation, _) in observations.iter().zip(probs).filter(|(_, p)| **p > 0.0) {
                        let group = &mut by_observation[observation as usize];
                        if group.is_empty() {
                            seen.push(observation);
                        }
                        group.push(next);
                    }
                }
                for observation in seen {
                    let group = &mut by_observation[observation as usize];
                    classes.reach(group);
                    group.clear();
                }
            }
            if work == 0 {
                return Self::from_cells(vec![0; model.states() as usize]);
            }
        }
        Self::from_cells(classes.cells())
    }

    /// From the cell of each state, of which none is empty.
    fn from_cells(of: Vec<u32>) -> Self {
        let count = of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut begins = vec![0; count + 1];
        of.iter().for_each(|&cell| begins[cell as usize + 1] += 1);
        for cell in 0..count {
            begins[cell + 1] += begins[cell];
        }
        let (mut states, mut rank) = (vec![0; of.len()], vec![0; of.len()]);
        let mut filled = vec![0; count];
        for (state, &cell) in (0..).zip(&of) {
            let cell = cell as usize;
            rank[state as usize] = filled[cell];
            states[begins[cell] + filled[cell] as usize] = state;
            filled[cell] += 1;
        }
        Self { of, rank, states, begins }
    }

    /// The number of states.
    #[must_use]
    pub fn all(&self) -> usize {
        self.of.len()
    }

    /// The number of cells.
    #[must_use]
    pub fn count(&self) -> usize {
        self.begins.len() - 1
    }

    /// The cell of a state.
    #[must_use]
    pub fn of(&self, state: u32) -> u32 {
        self.of[state as usize]
    }

    /// The place of a state among those of its cell.
    #[must_use]
    pub fn rank(&self, state: u32) -> u32 {
        self.rank[state as usize]
    }

    /// The states of a cell, ascending.
    #[must_use]
    pub fn states(&self, cell: u32) -> &[u32] {
        &self.states[self.begins[cell as usize]..self.begins[cell as usize + 1]]
    }

    /// The cell of a belief; `None` if it lies in several.
    #[must_use]
    pub fn of_belief(&self, belief: &Belief) -> Option<u32> {
        let (&first, rest) = belief.states().split_first()?;
        rest.iter().all(|&state| self.of(state) == self.of(first)).then(|| self.of(first))
    }
}

/// Classes of states that grow together, and those of which the successors are still to be found.
struct Classes {
    /// The way from a state to the root of its class.
    parent: Vec<u32>,
    /// The states of a class are a ring.
    ring: Vec<u32>,
    size: Vec<u32>,
    reached: Vec<bool>,
    queue: Vec<u32>,
    queued: Vec<bool>,
}

impl Classes {
    fn new(states: u32) -> Self {
        let (count, own) = (states as usize, || (0..states).collect());
        Self {
            parent: own(),
            ring: own(),
            size: vec![1; count],
            reached: vec![false; count],
            queue: Vec::new(),
            queued: vec![false; count],
        }
    }

    fn root(&mut self, mut state: u32) -> u32 {
        while self.parent[state as usize] != state {
            let above = self.parent[self.parent[state as usize] as usize];
            self.parent[state as usize] = above;
            state = above;
        }
        state
    }

    /// Makes states one class, whose successors are to be found if it has grown.
    fn reach(&mut self, states: &[u32]) {
        let Some(&first) = states.first() else { return };
        let (mut root, mut grown) = (self.root(first), false);
        for &state in states {
            grown |= !std::mem::replace(&mut self.reached[state as usize], true);
            let other = self.root(state);
            if other != root {
                grown = true;
                let (large, small) =
                    if self.size[root as usize] < self.size[other as usize] { (other, root) } else { (root, other) };
                self.parent[small as usize] = large;
                self.size[large as usize] += self.size[small as usize];
                self.ring.swap(large as usize, small as usize);
                root = large;
            }
        }
        if grown && !std::mem::replace(&mut self.queued[root as usize], true) {
            self.queue.push(root);
        }
    }

    /// The states of a class that has grown; `None` if all successors are known.
    fn grown(&mut self) -> Option<Vec<u32>> {
        while let Some(root) = self.queue.pop() {
            self.queued[root as usize] = false;
            if self.parent[root as usize] != root {
                continue;
            }
            let mut members = vec![root];
            let mut state = self.ring[root as usize];
            while state != root {
                members.push(state);
                state = self.ring[state as usize];
            }
            return Some(members).filter(|members| members.len() < self.parent.len());
        }
        None
    }

    /// The number of each state's class, in the order of first states.
    fn cells(mut self) -> Vec<u32> {
        let mut numbers = vec![u32::MAX; self.parent.len()];
        let (mut count, mut unreached) = (0, Vec::new());
        let mut cells = Vec::with_capacity(self.parent.len());
        for state in 0..self.parent.len() as u32 {
            let root = self.root(state) as usize;
            if !self.reached[state as usize] {
                unreached.push(state);
            } else if numbers[root] == u32::MAX {
                numbers[root] = count;
                count += 1;
            }
            cells.push(numbers[root]);
        }
        unreached.iter().for_each(|&state| cells[state as usize] = count);
        cells
    }
}
