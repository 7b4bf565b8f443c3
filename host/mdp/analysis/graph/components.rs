//! Strongly connected components and maximal end components.
//!
//! An end component is strongly connected by rows that do not leave it. The decomposition therefore removes the rows
//! that leave a strongly connected component; this may break the component up, and the removal repeats. Recomputing all
//! strongly connected components after each removal would be quadratic: a component can break up state by state.
//!
//! A part that is no longer strongly connected contains a piece without outgoing edges and a piece without incoming
//! edges. The former contains a state that lost an outgoing edge; the latter contains a state that lost an incoming
//! edge. Searches start from such states, forwards from the former kind and backwards from the latter, and advance in
//! turn by a few steps each. The first search to finish has found a piece, at a cost of about its size (Chatterjee &
//! Henzinger, *Faster and Dynamic Algorithms for Maximal End-Component Decomposition and Related Graph Problems in
//! Probabilistic Verification*, 2011). States that lost edges last come first: the i-th search takes a share 1/i of the
//! steps. Once the searches have taken as many steps as the part has entries, Tarjan's algorithm takes over. With m
//! entries the total is O(m √m log m) in the worst case, and nearly O(m) where a component loses its states one by one.

use std::collections::HashSet;

use super::{EndComponents, Graph, NO_COMPONENT};

/// Tarjan's algorithm without recursion, on parts of a graph. The buffers are reused from one part to the next.
struct Tarjan {
    number: Vec<u32>,
    low: Vec<u32>,
    stack: Vec<usize>,
}

const UNSEEN: u32 = u32::MAX;
/// Marks a state whose component is known.
const DONE: u32 = u32::MAX - 1;

impl Tarjan {
    fn new(states: usize) -> Self {
        Self { number: vec![UNSEEN; states], low: vec![UNSEEN; states], stack: Vec::new() }
    }

    /// Passes the strongly connected components reachable from `roots` to `found`, each one after all components that
    /// it leads to. `next` returns the next successor of a state and advances its cursor.
    fn run<C: Default>(
        &mut self,
        roots: impl Iterator<Item = usize>,
        mut next: impl FnMut(usize, &mut C) -> Option<usize>,
        mut found: impl FnMut(&[usize]),
    ) {
        let Self { number, low, stack } = self;
        let mut frames: Vec<(usize, C)> = Vec::new();
        let (mut seen, mut all) = (0, Vec::new());
        for root in roots {
            let mut entered = Some(root).filter(|&root| number[root] == UNSEEN);
            loop {
                if let Some(state) = entered.take() {
                    (number[state], low[state]) = (seen, seen);
                    seen += 1;
                    stack.push(state);
                    frames.push((state, C::default()));
                }
                let Some((state, cursor)) = frames.last_mut() else { break };
                let state = *state;
                match next(state, cursor) {
                    Some(next) if number[next] == UNSEEN => entered = Some(next),
                    Some(next) if number[next] == DONE => {}
                    Some(next) => low[state] = low[state].min(number[next]),
                    None => {
                        frames.pop();
                        if let Some((parent, _)) = frames.last() {
                            low[*parent] = low[*parent].min(low[state]);
                        }
                        if low[state] == number[state] {
                            let first = stack.iter().rposition(|&member| member == state).unwrap_or(0);
                            stack[first..].iter().for_each(|&member| number[member] = DONE);
                            found(&stack[first..]);
                            all.extend(stack.drain(first..));
                        }
                    }
                }
            }
        }
        all.into_iter().for_each(|state| number[state] = UNSEEN);
    }
}

/// The strongly connected components reachable from `roots`: their number, and the component of each of `states`
/// states. A component has a higher number than the components that it leads to. `next` returns the next successor of a
/// state and advances its cursor.
pub(crate) fn strongly_connected(
    states: usize,
    roots: impl Iterator<Item = usize>,
    next: impl FnMut(usize, &mut usize) -> Option<usize>,
) -> (u32, Vec<u32>) {
    let (mut count, mut of_state) = (0, vec![NO_COMPONENT; states]);
    Tarjan::new(states).run(roots, next, |members| {
        members.iter().for_each(|&state| of_state[state] = count);
        count += 1;
    });
    (count, of_state)
}

/// Direction of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// From a state that lost an outgoing edge.
    Forward,
    /// From a state that lost an incoming edge.
    Backward,
}

/// A search within a part.
struct Search {
    direction: Direction,
    /// States found, in order; the first is the start.
    found: Vec<usize>,
    seen: HashSet<usize>,
    stack: Vec<(usize, Cursor)>,
    steps: usize,
}

/// Position in the entries of a state.
#[derive(Clone, Copy, Default)]
struct Cursor {
    row: usize,
    entry: usize,
}

/// A set of states that is, or was, strongly connected.
#[derive(Default)]
struct Component {
    /// Its states, and stale entries that have moved to another part.
    states: Vec<usize>,
    /// Number of states in the part.
    count: usize,
    /// Sum of [`Decomposition::size`] over its states.
    size: usize,
    /// States that lost edges since the part was strongly connected, in order, and stale entries that have moved to
    /// another part.
    marks: Vec<(usize, Direction)>,
}

/// The remaining model while states and rows are removed.
pub(super) struct Decomposition<'g, 'm> {
    graph: &'g Graph<'m>,
    /// Whether each row remains.
    rows: Vec<bool>,
    /// Remaining rows of each vertex.
    left: Vec<usize>,
    parts: Vec<Component>,
    /// The part of each vertex, or [`NO_COMPONENT`] once it is removed.
    part: Vec<u32>,
    /// For each state and [`Direction`], whether the marks of its part contain it.
    marked: Vec<[bool; 2]>,
    tarjan: Tarjan,
    /// Number of entries examined.
    work: usize,
}

impl<'g, 'm> Decomposition<'g, 'm> {
    pub(super) fn new(graph: &'g Graph<'m>, allowed: impl Fn(usize) -> bool) -> Self {
        let states = graph.end();
        let rows: Vec<bool> = (0..graph.owner.len()).map(allowed).collect();
        let left = (0..=states).map(|vertex| graph.rows(vertex).filter(|&row| rows[row]).count()).collect();
        Self {
            graph,
            rows,
            left,
            parts: Vec::new(),
            part: vec![0; states + 1],
            marked: vec![[false; 2]; states + 1],
            tarjan: Tarjan::new(states),
            work: 0,
        }
    }

    /// Returns the components and the number of entries examined.
    pub(super) fn run(mut self) -> (EndComponents, usize) {
        let states = self.graph.end();
        let size = (0..states).map(|state| self.size(state)).sum();
        self.parts.push(Component { states: (0..states).collect(), count: states, size, marks: Vec::new() });
        let stuck = (0..=states).filter(|&vertex| self.left[vertex] == 0).collect();
        self.remove(stuck, false);
        self.parts[0].marks.clear();
        self.marked.fill([false; 2]);
        let mut queue = self.separate(0);
        while let Some(part) = queue.pop() {
            queue.extend(self.examine(part));
        }
        // Number the components in the order of their first states.
        let mut number = vec![NO_COMPONENT; self.parts.len()];
        let mut count = 0;
        let of_part = |part: u32| {
            if part == NO_COMPONENT {
                return NO_COMPONENT;
            }
            let number = &mut number[part as usize];
            if *number == NO_COMPONENT {
                *number = count;
                count += 1;
            }
            *number
        };
        let of_state = self.part.into_iter().map(of_part).collect();
        (EndComponents { count, of_state, inside: self.rows }, self.work)
    }

    /// Number of entries of a state's rows and of rows that lead to it, plus constants.
    fn size(&self, state: usize) -> usize {
        let entries: usize = self.graph.rows(state).map(|row| self.graph.mdp.transitions().row(row).0.len() + 1).sum();
        entries + self.graph.entering(state).len() + 1
    }

    /// Removes vertices, the rows that lead to them, and then recursively states without rows. With `crossing`, lost
    /// edges between parts are marked, too.
    fn remove(&mut self, mut lost: Vec<usize>, crossing: bool) {
        lost.iter().for_each(|&vertex| self.leave(vertex));
        while let Some(vertex) = lost.pop() {
            let graph = self.graph;
            for row in graph.rows(vertex) {
                self.rows[row] = false;
            }
            for &row in graph.entering(vertex) {
                if let Some(state) = self.remove_row(row, crossing) {
                    self.leave(state);
                    lost.push(state);
                }
            }
        }
    }

    /// Removes a vertex from its part.
    fn leave(&mut self, vertex: usize) {
        let part = std::mem::replace(&mut self.part[vertex], NO_COMPONENT);
        if vertex < self.graph.end() && part != NO_COMPONENT {
            let size = self.size(vertex);
            let part = &mut self.parts[part as usize];
            (part.count, part.size) = (part.count - 1, part.size - size);
        }
    }

    /// Removes a row. Returns its state if the state remains and this was its last row.
    fn remove_row(&mut self, row: usize, crossing: bool) -> Option<usize> {
        let state = self.graph.owner(row);
        if !std::mem::replace(&mut self.rows[row], false) || self.part[state] == NO_COMPONENT {
            return None;
        }
        let graph = self.graph;
        for next in graph.successors(row) {
            self.work += 1;
            if crossing || self.part[next] == self.part[state] {
                self.mark(state, Direction::Forward);
                self.mark(next, Direction::Backward);
            }
        }
        self.left[state] -= 1;
        (self.left[state] == 0).then_some(state)
    }

    fn mark(&mut self, state: usize, direction: Direction) {
        let part = self.part[state];
        if part != NO_COMPONENT && !std::mem::replace(&mut self.marked[state][direction as usize], true) {
            self.parts[part as usize].marks.push((state, direction));
        }
    }

    /// Splits a part into its strongly connected components by Tarjan's algorithm and removes the rows between them.
    /// Returns the new parts that lost edges.
    fn separate(&mut self, part: usize) -> Vec<usize> {
        let states = std::mem::take(&mut self.parts[part].states);
        let states: Vec<usize> = states.into_iter().filter(|&state| self.part[state] == part as u32).collect();
        self.work += self.parts[part].size;
        self.parts[part] = Component::default();
        let Self { graph, rows, tarjan, .. } = self;
        let next = |state: usize, cursor: &mut Cursor| {
            let (all, cursor) = (graph.rows(state), cursor);
            while all.start + cursor.row < all.end {
                let row = all.start + cursor.row;
                let (cols, probs) = graph.mdp.transitions().row(row);
                while rows[row] && cursor.entry < cols.len() {
                    cursor.entry += 1;
                    if probs[cursor.entry - 1] > 0.0 {
                        return Some(cols[cursor.entry - 1] as usize);
                    }
                }
                *cursor = Cursor { row: cursor.row + 1, entry: 0 };
            }
            None
        };
        let mut found: Vec<Vec<usize>> = Vec::new();
        tarjan.run(states.iter().copied(), next, |members| found.push(members.to_vec()));
        let first = self.parts.len();
        for members in found {
            let own = self.parts.len() as u32;
            let size = members.iter().map(|&state| self.size(state)).sum();
            for &state in &members {
                (self.part[state], self.marked[state]) = (own, [false; 2]);
            }
            self.parts.push(Component { count: members.len(), states: members, size, marks: Vec::new() });
        }
        self.cut(&states, false);
        (first..self.parts.len()).filter(|&part| !self.parts[part].marks.is_empty()).collect()
    }

    /// Removes the rows of `states` that leave the part of their state.
    fn cut(&mut self, states: &[usize], crossing: bool) {
        let mut lost = Vec::new();
        for &state in states {
            for row in self.graph.rows(state) {
                let own = self.part[state];
                if self.rows[row]
                    && own != NO_COMPONENT
                    && self.graph.successors(row).any(|next| self.part[next] != own)
                {
                    lost.extend(self.remove_row(row, crossing));
                }
            }
        }
        self.remove(lost, crossing);
    }

    /// Checks whether a part is strongly connected, and breaks it up if it is not. Returns the parts to examine next.
    fn examine(&mut self, part: usize) -> Vec<usize> {
        let marks = std::mem::take(&mut self.parts[part].marks);
        let counts = |(state, direction): (usize, Direction)| {
            self.part[state] == part as u32 && self.marked[state][direction as usize]
        };
        let mut marks: Vec<_> = marks.into_iter().filter(|&mark| counts(mark)).collect();
        let mut searches: Vec<Option<Search>> = Vec::new();
        let mut waiting = marks.iter().rev();
        let (mut level, mut steps) = (1, 0);
        loop {
            while searches.len() < level
                && let Some(&(start, direction)) = waiting.next()
            {
                let (seen, stack) = (HashSet::from([start]), vec![(start, Cursor::default())]);
                searches.push(Some(Search { direction, found: vec![start], seen, stack, steps: 0 }));
            }
            for (index, place) in searches.iter_mut().enumerate() {
                let Some(mut search) = place.take() else { continue };
                let before = search.steps;
                let ended = self.search(&mut search, level / (index + 1));
                steps += search.steps - before;
                self.work += search.steps - before;
                if ended && search.found.len() < self.parts[part].count {
                    marks.retain(|&(state, direction)| self.marked[state][direction as usize]);
                    self.parts[part].marks = marks;
                    return self.split(part, search.found);
                }
                match ended {
                    // The search covers the part, so no piece that this state is in lacks outgoing, or incoming, edges.
                    true => self.marked[search.found[0]][search.direction as usize] = false,
                    false => *place = Some(search),
                }
            }
            if searches.len() == marks.len() && searches.iter().all(Option::is_none) {
                return Vec::new();
            }
            if steps > self.parts[part].size {
                return self.separate(part);
            }
            level *= 2;
        }
    }

    /// Advances a search to a total of `steps` steps. Returns whether it has finished.
    fn search(&self, search: &mut Search, steps: usize) -> bool {
        let Search { direction, found, seen, stack, .. } = search;
        while search.steps < steps {
            let Some((state, cursor)) = stack.last_mut() else { return true };
            search.steps += 1;
            let next = match direction {
                Direction::Forward => {
                    let all = self.graph.rows(*state);
                    let row = all.start + cursor.row;
                    if row >= all.end {
                        stack.pop();
                        continue;
                    }
                    let (cols, probs) = self.graph.mdp.transitions().row(row);
                    if !self.rows[row] || cursor.entry == cols.len() {
                        *cursor = Cursor { row: cursor.row + 1, entry: 0 };
                        continue;
                    }
                    cursor.entry += 1;
                    if probs[cursor.entry - 1] > 0.0 { cols[cursor.entry - 1] as usize } else { *state }
                }
                Direction::Backward => {
                    let Some(&row) = self.graph.entering(*state).get(cursor.entry) else {
                        stack.pop();
                        continue;
                    };
                    cursor.entry += 1;
                    if self.rows[row] { self.graph.owner(row) } else { *state }
                }
            };
            if seen.insert(next) {
                found.push(next);
                stack.push((next, Cursor::default()));
            }
        }
        stack.is_empty()
    }

    /// Moves a piece without outgoing or without incoming edges to a part of its own. Returns both parts.
    fn split(&mut self, part: usize, states: Vec<usize>) -> Vec<usize> {
        let own = self.parts.len();
        let size = states.iter().map(|&state| self.size(state)).sum();
        self.parts[part].count -= states.len();
        self.parts[part].size -= size;
        self.work += size;
        let mut marks = Vec::new();
        for &state in &states {
            self.part[state] = own as u32;
            let ways = [Direction::Forward, Direction::Backward]
                .into_iter()
                .filter(|&direction| self.marked[state][direction as usize]);
            marks.extend(ways.map(|direction| (state, direction)));
        }
        self.parts.push(Component { count: states.len(), states: states.clone(), size, marks });
        self.cut(&states, true);
        let graph = self.graph;
        let mut lost = Vec::new();
        for &state in &states {
            for &row in graph.entering(state) {
                if self.rows[row] && self.part[graph.owner(row)] == part as u32 {
                    lost.extend(self.remove_row(row, true));
                }
            }
        }
        self.remove(lost, true);
        vec![own, part]
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::super::NO_ROW;
    use super::*;
    use crate::model::{Choices, Csr, Mdp, MdpParts};

    /// A model with these successors of each row of each state. The number of states stands for the end.
    fn model(states: &[Vec<Vec<u32>>]) -> Mdp {
        let n = states.len() as u32;
        let (mut choices, mut row_ptr, mut col, mut val, mut ends) = (vec![0], vec![0], vec![], vec![], vec![]);
        for row in states.iter().flat_map(|rows| rows.iter().map(Some).chain([None])) {
            let Some(row) = row else {
                choices.push(ends.len() as u64);
                continue;
            };
            let mut row = row.clone();
            row.sort_unstable();
            row.dedup();
            let p = 1.0 / row.len() as f64;
            ends.push(if row.last() == Some(&n) { p } else { 0.0 });
            col.extend(row.iter().filter(|&&next| next < n));
            val.resize(col.len(), p);
            row_ptr.push(col.len() as u64);
        }
        MdpParts {
            states: n,
            choices: Choices::Ragged(choices.into()),
            gamma: 1.0,
            transitions: Csr::built(row_ptr, col, val),
            ends: ends.into(),
            ..MdpParts::default()
        }
        .validated()
        .unwrap()
    }

    /// Reference: removes leaving rows and recomputes all components until none is left.
    fn reference(graph: &Graph, allowed: impl Fn(usize) -> bool) -> (Vec<u32>, Vec<bool>) {
        let mut rows: Vec<bool> = (0..graph.owner.len()).map(allowed).collect();
        loop {
            let next = |state: usize, cursor: &mut usize| {
                let next =
                    graph.rows(state).filter(|&row| rows[row]).flat_map(|row| graph.successors(row)).nth(*cursor)?;
                *cursor += 1;
                Some(next)
            };
            let (_, of_state) = strongly_connected(graph.end() + 1, 0..=graph.end(), next);
            let leaves = |row: &usize| {
                let own = of_state[graph.owner(*row)];
                rows[*row] && graph.successors(*row).any(|next| of_state[next] != own)
            };
            let leaving: Vec<usize> = (0..rows.len()).filter(leaves).collect();
            if leaving.is_empty() {
                let stays = |v: usize| graph.rows(v).any(|row| rows[row]);
                let of_state = of_state.iter().enumerate().map(|(v, &c)| if stays(v) { c } else { NO_COMPONENT });
                return (of_state.collect(), rows);
            }
            leaving.into_iter().for_each(|row| rows[row] = false);
        }
    }

    /// A random model of up to 14 states with up to 3 rows of up to 3 successors; in half of the models, successors are
    /// neighbours.
    fn random(rng: &mut ChaCha8Rng) -> Mdp {
        loop {
            let n = 1 + rng.next_u32() % 14;
            let near = rng.next_u32().is_multiple_of(2);
            let next = |rng: &mut ChaCha8Rng, state: u32| match rng.next_u32() % 16 {
                0 => n,
                _ if near => (state + n + rng.next_u32() % 3 - 1) % n,
                _ => rng.next_u32() % n,
            };
            let row = |rng: &mut ChaCha8Rng, state: u32| {
                (0..1 + rng.next_u32() % 3).map(|_| next(rng, state)).collect::<Vec<_>>()
            };
            let rows =
                |rng: &mut ChaCha8Rng, state: u32| (0..rng.next_u32() % 4).map(|_| row(rng, state)).collect::<Vec<_>>();
            let states: Vec<_> = (0..n).map(|state| rows(rng, state)).collect();
            if states.iter().any(|rows| !rows.is_empty()) {
                return model(&states);
            }
        }
    }

    #[test]
    fn components_match_the_reference() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for case in 0..4000 {
            let mdp = random(&mut rng);
            let graph = Graph::new(&mdp);
            let mask: Vec<bool> = (0..mdp.rows()).map(|_| case % 2 == 0 || rng.next_u32() % 8 > 0).collect();
            let (of_state, inside) = reference(&graph, |row| mask[row]);
            let found = graph.end_components(|row| mask[row]);
            assert_eq!(found.inside, inside, "case {case}");
            for s in 0..=graph.end() {
                for t in 0..=graph.end() {
                    let same = of_state[s] == of_state[t];
                    assert_eq!(found.of_state[s] == found.of_state[t], same, "case {case}: states {s} and {t}");
                }
                assert_eq!(found.of_state[s] == NO_COMPONENT, of_state[s] == NO_COMPONENT, "case {case}: state {s}");
            }
            let count = found.of_state.iter().filter(|&&c| c != NO_COMPONENT).max().map_or(0, |&last| last + 1);
            assert_eq!(found.count, count, "case {case}");
        }
    }

    /// The reference is the largest set from which the target is reachable without leaving the set. The witnesses must
    /// stay in the set and reach the target.
    #[test]
    fn can_ensure_matches_the_reference() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for case in 0..4000 {
            let mdp = random(&mut rng);
            let graph = Graph::new(&mdp);
            let target: Vec<bool> = (0..=graph.end()).map(|_| rng.next_u32() % 5 == 0).collect();
            let mut inside = vec![true; target.len()];
            loop {
                let stays = |row: usize| graph.successors(row).all(|next| inside[next]);
                let reached = graph.can_reach(&target, stays).contains;
                if reached == inside {
                    break;
                }
                inside = reached;
            }
            let found = graph.can_ensure(&target);
            assert_eq!(found.contains, inside, "case {case}");
            // Every state that the witnesses lead to reaches the target under the witnesses.
            let taken = |row: usize| found.row[graph.owner(row)] == row;
            let arrives = graph.can_reach(&target, taken).contains;
            for state in (0..=graph.end()).filter(|&state| inside[state] && !target[state]) {
                assert!(found.row[state] != NO_ROW && arrives[state], "case {case}: state {state}");
                assert!(graph.successors(found.row[state]).all(|next| inside[next]), "case {case}: state {state}");
            }
        }
    }

    /// A ladder. In each state, one action stays and the other moves up or down at random. The top may end the process,
    /// so its move is in no end component; then neither is the move of the state below, and so on: each pass loses one
    /// state. With `upside_down`, the pass leaves one state of its own at the bottom instead.
    fn ladder(n: u32, shuffled: bool, upside_down: bool) -> Mdp {
        let place = |i: u32| {
            let i = if upside_down { n - 1 - i } else { i };
            if shuffled { (u64::from(i) * 7919 % u64::from(n)) as u32 } else { i }
        };
        let mut states = vec![Vec::new(); n as usize];
        for i in 0..n {
            let up = if i + 1 == n { n } else { place(i + 1) };
            states[place(i) as usize] = vec![vec![place(i)], vec![place(i.saturating_sub(1)), up]];
        }
        model(&states)
    }

    #[test]
    fn the_work_grows_with_the_model() {
        for (shuffled, upside_down) in [(false, false), (false, true), (true, false), (true, true)] {
            let work = |n: u32| {
                let mdp = ladder(n, shuffled, upside_down);
                let graph = Graph::new(&mdp);
                let (found, work) = Decomposition::new(&graph, |_| true).run();
                assert_eq!(found.count, n, "each state stays by itself");
                work
            };
            let (small, large) = (work(1000), work(16_000));
            assert!(large < 24 * small && large < 16_000 * 60, "{small} entries, then {large}");
        }
    }

    /// Components of √n states that break off a large one, each only after the one before.
    #[test]
    fn the_work_grows_with_the_model_where_parts_are_large() {
        let work = |side: u32| {
            let n = side * side;
            let mut states: Vec<Vec<Vec<u32>>> = (0..n).map(|i| vec![vec![i / side * side + (i + 1) % side]]).collect();
            for part in 0..side {
                let first = part * side;
                let up = if part + 1 == side { n } else { first + side };
                states[first as usize].push(vec![up, first.saturating_sub(side)]);
            }
            let mdp = model(&states);
            let graph = Graph::new(&mdp);
            let (found, work) = Decomposition::new(&graph, |_| true).run();
            assert_eq!(found.count, side);
            work
        };
        let (small, large) = (work(32), work(128));
        assert!(large < 32 * small, "{small} entries, then {large}");
    }
}
