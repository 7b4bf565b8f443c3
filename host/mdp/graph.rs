//! What the graph of a model says before any number is computed: which states can, may avoid or surely reach a set, and
//! where a process can stay for ever.
//!
//! The vertices are the S states and one more, the *end* S, where the process is once it has ended. A row leads to the
//! successors that it has a positive probability of, and to the end where it may end. Sets are `bool`s, one per vertex.
//!
//! Sources: Tarjan, *Depth-First Search and Linear Graph Algorithms* (1972); de Alfaro, *Formal Verification of
//! Probabilistic Systems* (1997), chapter 3; Baier & Katoen, *Principles of Model Checking* (2008), section 10.6.

use super::model::Mdp;

/// The row of a vertex that none was chosen for.
pub const NO_ROW: usize = usize::MAX;

/// The component of a state that is in none.
pub const NO_COMPONENT: u32 = u32::MAX;

/// A model's graph: rows by state, and by successor.
pub struct Graph<'m> {
    mdp: &'m Mdp,
    /// The state of each row.
    owner: Vec<u32>,
    /// Rows that lead to vertex v are `entering[entering_ptr[v]..entering_ptr[v + 1]]`.
    entering_ptr: Vec<usize>,
    entering: Vec<usize>,
}

/// A set of vertices, and for each state in it a row that witnesses why it is.
pub struct Witnessed {
    /// Whether a vertex is in the set.
    pub contains: Vec<bool>,
    /// A row per vertex; [`NO_ROW`] where there is none to take.
    pub row: Vec<usize>,
}

/// Maximal end components: sets of states, with rows of theirs, that a process can stay in for ever, and move about in
/// as it likes.
pub struct EndComponents {
    /// How many there are.
    pub count: u32,
    /// The component of each state, or [`NO_COMPONENT`].
    pub of_state: Vec<u32>,
    /// Whether a row stays within the component of its state.
    pub inside: Vec<bool>,
}

impl EndComponents {
    /// None at all.
    #[must_use]
    pub fn none(graph: &Graph) -> Self {
        Self { count: 0, of_state: vec![NO_COMPONENT; graph.end() + 1], inside: vec![false; graph.owner.len()] }
    }
}

impl<'m> Graph<'m> {
    /// Reads the graph off a model: O(nnz).
    #[must_use]
    pub fn new(mdp: &'m Mdp) -> Self {
        let states = mdp.states as usize;
        let mut owner = vec![0; mdp.rows()];
        for state in 0..states {
            owner[mdp.choices.rows(state)].fill(state as u32);
        }
        let mut graph = Self { mdp, owner, entering_ptr: vec![0; states + 2], entering: Vec::new() };
        let mut next = vec![0; states + 2];
        for row in 0..mdp.rows() {
            graph.successors(row).for_each(|vertex| next[vertex + 1] += 1);
        }
        for vertex in 0..=states {
            next[vertex + 1] += next[vertex];
        }
        let mut entering = vec![0; next[states + 1]];
        graph.entering_ptr.copy_from_slice(&next);
        for row in 0..mdp.rows() {
            graph.successors(row).for_each(|vertex| {
                entering[next[vertex]] = row;
                next[vertex] += 1;
            });
        }
        graph.entering = entering;
        graph
    }

    /// The model.
    #[must_use]
    pub fn mdp(&self) -> &'m Mdp {
        self.mdp
    }

    /// The vertex where the process is once it has ended.
    #[must_use]
    pub fn end(&self) -> usize {
        self.mdp.states as usize
    }

    /// The vertices that a row leads to.
    pub fn successors(&self, row: usize) -> impl Iterator<Item = usize> {
        let (cols, probs) = self.mdp.transitions.row(row);
        let states = cols.iter().zip(probs).filter(|(_, p)| **p > 0.0).map(|(&col, _)| col as usize);
        states.chain((self.mdp.end(row) > 0.0).then_some(self.end()))
    }

    /// The state that a row belongs to.
    #[must_use]
    pub fn owner(&self, row: usize) -> usize {
        self.owner[row] as usize
    }

    /// The rows of a vertex; the end has none.
    #[must_use]
    pub fn rows(&self, vertex: usize) -> std::ops::Range<usize> {
        if vertex == self.end() { 0..0 } else { self.mdp.choices.rows(vertex) }
    }

    /// The rows that lead to a vertex.
    fn entering(&self, vertex: usize) -> &[usize] {
        &self.entering[self.entering_ptr[vertex]..self.entering_ptr[vertex + 1]]
    }

    /// Vertices from which some path of `allowed` rows leads to `target`: it is reached with a positive probability. The
    /// rows lead there: who takes them is nearer with a positive probability after each.
    pub fn can_reach(&self, target: &[bool], allowed: impl Fn(usize) -> bool) -> Witnessed {
        let mut contains = target.to_vec();
        let mut towards = vec![NO_ROW; contains.len()];
        // First in, first out: paths are shortest.
        let mut queue: Vec<usize> = (0..contains.len()).filter(|&vertex| contains[vertex]).collect();
        let mut next = 0;
        while let Some(&vertex) = queue.get(next) {
            next += 1;
            for &row in self.entering(vertex) {
                let state = self.owner(row);
                if !contains[state] && allowed(row) {
                    contains[state] = true;
                    towards[state] = row;
                    queue.push(state);
                }
            }
        }
        Witnessed { contains, row: towards }
    }

    /// Vertices from which some policy never reaches `target`: its smallest probability is 0. The rows avoid it.
    #[must_use]
    pub fn can_avoid(&self, target: &[bool]) -> Witnessed {
        // Those who cannot: a state all of whose rows may lead to the target, or to another that cannot.
        let mut caught = target.to_vec();
        let mut safe: Vec<usize> = (0..caught.len()).map(|vertex| self.rows(vertex).len()).collect();
        let mut may = vec![false; self.owner.len()];
        let mut stack: Vec<usize> = (0..caught.len()).filter(|&vertex| caught[vertex]).collect();
        while let Some(vertex) = stack.pop() {
            for &row in self.entering(vertex) {
                let state = self.owner(row);
                if !std::mem::replace(&mut may[row], true) {
                    safe[state] -= 1;
                    if safe[state] == 0 && !caught[state] {
                        caught[state] = true;
                        stack.push(state);
                    }
                }
            }
        }
        let row = (0..caught.len()).map(|vertex| self.rows(vertex).find(|&row| !may[row]).unwrap_or(NO_ROW)).collect();
        Witnessed { contains: caught.iter().map(|caught| !caught).collect(), row }
    }

    /// Vertices from which some policy reaches `target` almost surely: its largest probability is 1. The rows do so.
    #[must_use]
    pub fn can_ensure(&self, target: &[bool]) -> Witnessed {
        let mut within = Within::new(self, |_| true);
        loop {
            let alive = |row: usize| within.rows[row];
            let reached = self.can_reach(target, alive);
            let lost: Vec<usize> =
                (0..=self.end()).filter(|&vertex| within.states[vertex] && !reached.contains[vertex]).collect();
            if lost.is_empty() {
                return reached;
            }
            within.remove_states(self, lost, |vertex| target[vertex]);
        }
    }

    /// Vertices from which every policy reaches `target` almost surely: its smallest probability is 1.
    #[must_use]
    pub fn must_reach(&self, target: &[bool]) -> Vec<bool> {
        let avoid = self.can_avoid(target).contains;
        let may_miss = self.can_reach(&avoid, |row| !target[self.owner(row)]).contains;
        may_miss.iter().map(|miss| !miss).collect()
    }

    /// The maximal end components of the model with the `allowed` rows only.
    pub fn end_components(&self, allowed: impl Fn(usize) -> bool) -> EndComponents {
        let mut within = Within::new(self, allowed);
        let stuck = (0..=self.end()).filter(|&vertex| within.left[vertex] == 0).collect();
        within.remove_states(self, stuck, |_| false);
        loop {
            let (count, of_state) = self.strongly_connected(&within);
            let leaves = |row: &usize| {
                let own = of_state[self.owner(*row)];
                within.rows[*row] && self.successors(*row).any(|vertex| of_state[vertex] != own)
            };
            let leaving: Vec<usize> = (0..self.owner.len()).filter(leaves).collect();
            if leaving.is_empty() {
                return EndComponents { count, of_state, inside: within.rows };
            }
            within.remove_rows(self, leaving, |_| false);
        }
    }

    /// The strongly connected components of what is left of the model, by Tarjan's algorithm without recursion.
    fn strongly_connected(&self, within: &Within) -> (u32, Vec<u32>) {
        const UNSEEN: u32 = u32::MAX;
        struct Frame {
            state: usize,
            row: usize,
            entry: usize,
        }
        let states = self.end();
        let (mut number, mut low) = (vec![UNSEEN; states], vec![UNSEEN; states]);
        let mut component = vec![NO_COMPONENT; states + 1];
        let (mut stack, mut frames) = (Vec::new(), Vec::new());
        let (mut seen, mut count) = (0, 0);

        // The next successor, and where to go on after it. Rows that are left lead to states that are left.
        let advance = |frame: &mut Frame| {
            let end = self.rows(frame.state).end;
            while frame.row < end {
                let (cols, probs) = self.mdp.transitions.row(frame.row);
                while within.rows[frame.row] && frame.entry < cols.len() {
                    frame.entry += 1;
                    if probs[frame.entry - 1] > 0.0 {
                        return Some(cols[frame.entry - 1] as usize);
                    }
                }
                (frame.row, frame.entry) = (frame.row + 1, 0);
            }
            None
        };
        for root in 0..states {
            if !within.states[root] || number[root] != UNSEEN {
                continue;
            }
            let mut entered = Some(root);
            loop {
                if let Some(state) = entered.take() {
                    (number[state], low[state]) = (seen, seen);
                    seen += 1;
                    stack.push(state);
                    frames.push(Frame { state, row: self.rows(state).start, entry: 0 });
                }
                let Some(frame) = frames.last_mut() else { break };
                let state = frame.state;
                match advance(frame) {
                    Some(next) if number[next] == UNSEEN => entered = Some(next),
                    Some(next) if component[next] == NO_COMPONENT => low[state] = low[state].min(number[next]),
                    Some(_) => {}
                    None => {
                        frames.pop();
                        if let Some(Frame { state: parent, .. }) = frames.last() {
                            low[*parent] = low[*parent].min(low[state]);
                        }
                        if low[state] == number[state] {
                            while let Some(member) = stack.pop() {
                                component[member] = count;
                                if member == state {
                                    break;
                                }
                            }
                            count += 1;
                        }
                    }
                }
            }
        }
        (count, component)
    }
}

/// What is left of a model from which states and rows are removed.
struct Within {
    states: Vec<bool>,
    rows: Vec<bool>,
    /// Rows left of each vertex.
    left: Vec<usize>,
}

impl Within {
    fn new(graph: &Graph, allowed: impl Fn(usize) -> bool) -> Self {
        let rows: Vec<bool> = (0..graph.owner.len()).map(allowed).collect();
        let left = (0..=graph.end()).map(|vertex| graph.rows(vertex).filter(|&row| rows[row]).count()).collect();
        Self { states: vec![true; graph.end() + 1], rows, left }
    }

    /// Removes states, the rows that may lead to them, and in turn the states that have no row left, but those to keep.
    fn remove_states(&mut self, graph: &Graph, mut lost: Vec<usize>, keep: impl Fn(usize) -> bool) {
        lost.iter().for_each(|&vertex| self.states[vertex] = false);
        while let Some(vertex) = lost.pop() {
            graph.rows(vertex).for_each(|row| self.rows[row] = false);
            for &row in graph.entering(vertex) {
                if let Some(state) = self.remove_row(graph, row).filter(|&state| !keep(state)) {
                    self.states[state] = false;
                    lost.push(state);
                }
            }
        }
    }

    /// Removes rows, the states that have none left, and so on.
    fn remove_rows(&mut self, graph: &Graph, rows: Vec<usize>, keep: impl Fn(usize) -> bool) {
        let lost: Vec<usize> =
            rows.into_iter().filter_map(|row| self.remove_row(graph, row)).filter(|&state| !keep(state)).collect();
        self.remove_states(graph, lost, keep);
    }

    /// Removes a row; gives its state where that was the last one of a state that is left.
    fn remove_row(&mut self, graph: &Graph, row: usize) -> Option<usize> {
        let state = graph.owner(row);
        if !std::mem::replace(&mut self.rows[row], false) || !self.states[state] {
            return None;
        }
        self.left[state] -= 1;
        (self.left[state] == 0).then_some(state)
    }
}
