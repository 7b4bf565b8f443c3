//! Qualitative analysis on the graph of a model: which states can reach, can avoid or surely reach a set, and where a
//! process can stay for ever.
//!
//! The vertices are the S states and one more, the *end* S, which represents termination. A row leads to its successors
//! of positive probability, and to the end if its termination probability is positive. A set is a slice of `bool`s, one
//! per vertex.
//!
//! Sources: Tarjan, *Depth-First Search and Linear Graph Algorithms* (1972); de Alfaro, *Formal Verification of
//! Probabilistic Systems* (1997), chapter 3; Baier & Katoen, *Principles of Model Checking* (2008), section 10.6.

use crate::model::Mdp;

mod components;

pub(crate) use components::strongly_connected;

/// Marks a vertex without a chosen row.
pub const NO_ROW: usize = usize::MAX;

/// Marks a state outside all components.
pub const NO_COMPONENT: u32 = u32::MAX;

/// The graph of a model, with rows indexed by state and by successor.
pub struct Graph<'m> {
    mdp: &'m Mdp,
    /// The state of each row.
    owner: Vec<u32>,
    /// Rows that lead to vertex v are `entering[entering_ptr[v]..entering_ptr[v + 1]]`.
    entering_ptr: Vec<usize>,
    entering: Vec<usize>,
}

/// A set of vertices and, for each state in it, a witness: a row that keeps the property that defines the set.
pub struct Witnessed {
    /// Whether a vertex is in the set.
    pub contains: Vec<bool>,
    /// The witness of each vertex, or [`NO_ROW`].
    pub row: Vec<usize>,
}

/// Maximal end components. An end component is a set of states with some of their rows such that the rows do not leave
/// the set and connect it strongly: a process can stay in it for ever and reach all of it.
pub struct EndComponents {
    /// Number of components.
    pub count: u32,
    /// The component of each state, or [`NO_COMPONENT`].
    pub of_state: Vec<u32>,
    /// For each row, whether it stays within the component of its state.
    pub inside: Vec<bool>,
}

impl EndComponents {
    /// No components.
    #[must_use]
    pub fn none(graph: &Graph) -> Self {
        Self { count: 0, of_state: vec![NO_COMPONENT; graph.end() + 1], inside: vec![false; graph.owner.len()] }
    }
}

impl<'m> Graph<'m> {
    /// Builds the graph of a model in O(nnz).
    #[must_use]
    pub fn new(mdp: &'m Mdp) -> Self {
        let states = mdp.states() as usize;
        let mut owner = vec![0; mdp.rows()];
        for state in 0..states {
            owner[mdp.choices().rows(state)].fill(state as u32);
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

    /// The vertex that represents termination, S.
    #[must_use]
    pub fn end(&self) -> usize {
        self.mdp.states() as usize
    }

    /// The successors of a row with positive probability.
    pub fn successors(&self, row: usize) -> impl Iterator<Item = usize> {
        let (cols, probs) = self.mdp.transitions().row(row);
        let states = cols.iter().zip(probs).filter(|(_, p)| **p > 0.0).map(|(&col, _)| col as usize);
        states.chain((self.mdp.end(row) > 0.0).then_some(self.end()))
    }

    /// The state that a row belongs to.
    #[must_use]
    pub fn owner(&self, row: usize) -> usize {
        self.owner[row] as usize
    }

    /// The rows of a vertex. The end has none.
    #[must_use]
    pub fn rows(&self, vertex: usize) -> std::ops::Range<usize> {
        if vertex == self.end() { 0..0 } else { self.mdp.choices().rows(vertex) }
    }

    /// The rows that lead to a vertex.
    fn entering(&self, vertex: usize) -> &[usize] {
        &self.entering[self.entering_ptr[vertex]..self.entering_ptr[vertex + 1]]
    }

    /// Vertices from which a path of `allowed` rows leads to `target`: some policy reaches it with positive
    /// probability. Each witness has a successor one step nearer to the target, along a shortest path.
    pub fn can_reach(&self, target: &[bool], allowed: impl Fn(usize) -> bool) -> Witnessed {
        let mut contains = target.to_vec();
        let mut towards = vec![NO_ROW; contains.len()];
        // Breadth-first, so that paths are shortest.
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

    /// Vertices from which some policy never reaches `target`: the minimum probability of reaching it is 0. The
    /// witnesses avoid it.
    #[must_use]
    pub fn can_avoid(&self, target: &[bool]) -> Witnessed {
        // Computes the complement: a state is caught if each of its rows may lead to a caught vertex or the target.
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

    /// Vertices from which some policy reaches `target` almost surely: the maximum probability of reaching it is 1. The
    /// witnesses form such a policy.
    ///
    /// A process that leaves every end component it enters reaches, almost surely, the target or a state without rows.
    /// The policy therefore only has to avoid states without rows, and components that it cannot leave without the risk
    /// of reaching one. Takes O(nnz) time in addition to the end components.
    #[must_use]
    pub fn can_ensure(&self, target: &[bool]) -> Witnessed {
        let components = self.end_components(|row| !target[self.owner(row)]);
        // All members of a component share the rows that leave it, so they are lost together.
        let single = components.count as usize;
        let group = |vertex: usize| match components.of_state[vertex] {
            NO_COMPONENT => single + vertex,
            component => component as usize,
        };
        let mut safe = vec![0; single + target.len()];
        for row in (0..self.owner.len()).filter(|&row| !components.inside[row]) {
            safe[group(self.owner(row))] += 1;
        }
        let mut members = vec![Vec::new(); single];
        for (state, &component) in components.of_state.iter().enumerate().filter(|(_, c)| **c != NO_COMPONENT) {
            members[component as usize].push(state);
        }
        let mut lost = vec![false; target.len()];
        let mut risky = vec![false; self.owner.len()];
        let mut stack: Vec<usize> = (0..target.len()).filter(|&v| !target[v] && safe[group(v)] == 0).collect();
        stack.iter().for_each(|&vertex| lost[vertex] = true);
        while let Some(vertex) = stack.pop() {
            for &row in self.entering(vertex) {
                let state = self.owner(row);
                if target[state] || components.inside[row] || std::mem::replace(&mut risky[row], true) {
                    continue;
                }
                let own = group(state);
                safe[own] -= 1;
                if safe[own] == 0 {
                    let alone = [state];
                    for &state in members.get(own).map_or(&alone[..], Vec::as_slice) {
                        lost[state] = true;
                        stack.push(state);
                    }
                }
            }
        }
        let leaves = |&row: &usize| !components.inside[row] && !risky[row];
        let mut row: Vec<usize> = (0..target.len())
            .map(|vertex| match lost[vertex] || target[vertex] {
                true => NO_ROW,
                false => self.rows(vertex).find(leaves).unwrap_or(NO_ROW),
            })
            .collect();
        // Inside a component, move towards a state with a leaving row.
        let exits: Vec<bool> = row.iter().map(|&row| row != NO_ROW).collect();
        let towards = self.can_reach(&exits, |row| components.inside[row]).row;
        for (vertex, row) in row.iter_mut().enumerate().filter(|(vertex, _)| !lost[*vertex] && !target[*vertex]) {
            if *row == NO_ROW {
                *row = towards[vertex];
            }
        }
        Witnessed { contains: lost.iter().map(|lost| !lost).collect(), row }
    }

    /// Vertices from which every policy reaches `target` almost surely: the minimum probability of reaching it is 1.
    #[must_use]
    pub fn must_reach(&self, target: &[bool]) -> Vec<bool> {
        let avoid = self.can_avoid(target).contains;
        let may_miss = self.can_reach(&avoid, |row| !target[self.owner(row)]).contains;
        may_miss.iter().map(|miss| !miss).collect()
    }

    /// The maximal end components of the model restricted to the `allowed` rows.
    pub fn end_components(&self, allowed: impl Fn(usize) -> bool) -> EndComponents {
        components::Decomposition::new(self, allowed).run().0
    }
}
