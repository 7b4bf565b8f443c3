//! Reordering of states. Successors with numbers near their state are cheaper to read, and their distances cheaper to
//! store.
//!
//! Reverse Cuthill–McKee numbers states by breadth-first search from a peripheral state, neighbours of small degree
//! first, and reverses the numbers (Cuthill and McKee, *Proc. 24th ACM National Conference*, 1969; George and Liu,
//! *Computer Solution of Large Sparse Positive Definite Systems*, 1981). The neighbours of a state are its successors
//! and predecessors under any action.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use crate::model::{ActionNames, Array, CHUNK, Choices, Csr, Mdp, MdpParts, split};
use warpkov_common::interrupt;

/// Minimum number of states: a smaller V fits in the caches in any order.
const MIN_STATES: u32 = 1 << 16;

/// Minimum factor by which a new order must reduce the mean distance.
const MIN_GAIN: f64 = 4.0;

/// Maximum number of searches for a peripheral state.
const MAX_SEARCHES: usize = 4;

/// Minimum number of sweeps of a solve: finding and applying an order takes about as long as this many sweeps on the
/// CPU.
const MIN_SWEEPS: f64 = 40.0;

/// Rows in the sample.
const SAMPLE_ROWS: usize = 1 << 14;

/// States whose neighbourhoods are sampled.
const SAMPLE_STARTS: usize = 8;

/// Maximum states of a sampled neighbourhood, and maximum entries of P read for it.
const MAX_NEIGHBOURHOOD: [usize; 2] = [1 << 12, 1 << 16];

/// Maximum share of transitions into one state. No order brings a more frequent successor near to all its predecessors.
const MAX_HUB_SHARE: f64 = 1.0 / 64.0;

/// Maximum growth of the number of reachable states when the number of steps doubles. It is 2 on a line, 4 on a plane
/// and 8 in space. A larger growth indicates a model without locality, which no order helps.
const MAX_GROWTH: f64 = 16.0;

/// A permutation of states.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The old number of each new state.
    old: Vec<u32>,
    /// The new number of each old state.
    new: Vec<u32>,
}

impl Order {
    /// The order in which new state i is old state `old[i]`; `None` if `old` is not a permutation of `0..old.len()`.
    #[must_use]
    pub fn new(old: Vec<u32>) -> Option<Self> {
        let mut seen = vec![false; old.len()];
        let fresh = |&state: &u32| seen.get_mut(state as usize).is_some_and(|seen| !std::mem::replace(seen, true));
        old.iter().all(fresh).then(|| Self::built(old))
    }

    /// [`new`](Self::new) for a permutation by construction.
    pub(super) fn built(old: Vec<u32>) -> Self {
        let mut new = vec![0; old.len()];
        for (number, &state) in (0..).zip(&old) {
            new[state as usize] = number;
        }
        Self { old, new }
    }

    /// The reverse Cuthill–McKee order of a model.
    #[must_use]
    pub fn rcm(mdp: &Mdp) -> Self {
        let neighbours = Neighbours::new(mdp);
        let first = neighbours.any();
        first.then(&neighbours.renumbered(&first).rcm())
    }

    /// The reverse Cuthill–McKee order, with the mean distances |s' − s| before and after, or `None` if reordering does
    /// not pay. It pays if successors are far from their states, the order brings them much nearer, and the solve takes
    /// enough `sweeps`.
    ///
    /// A sample, which takes less time than a sweep, rules out most other models.
    #[must_use]
    pub fn worthwhile(mdp: &Mdp, sweeps: impl FnOnce() -> f64) -> Option<(Self, [f64; 2])> {
        if mdp.states() < MIN_STATES || !may_pay(mdp) || sweeps() < MIN_SWEEPS {
            return None;
        }
        let before = mean_distance(mdp);
        let neighbours = Neighbours::new(mdp);
        // Few levels of breadth-first search mean wide levels, in which successors are far away in any order.
        let (reached, levels) = neighbours.breadth_first(0, &mut vec![false; mdp.states() as usize]);
        if reached.len() as f64 / levels as f64 > before || interrupt::requested() {
            return None;
        }
        // Renumber first: the searches of `rcm` are faster if neighbours have nearby numbers.
        let first = neighbours.any_from(reached);
        let near = neighbours.renumbered(&first);
        if interrupt::requested() {
            return None;
        }
        let order = first.then(&near.rcm());
        let distance = |state: usize, successor: u32| order.new[state].abs_diff(order.new[successor as usize]);
        let after = mean(mdp, distance);
        (after * MIN_GAIN < before).then_some((order, [before, after]))
    }

    /// The old number of each new state.
    #[must_use]
    pub fn old(&self) -> &[u32] {
        &self.old
    }

    /// The composition of this order and `next`, an order of its new states.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        Self { old: next.to_new(&self.old), new: self.new.par_iter().map(|&state| next.new[state as usize]).collect() }
    }

    /// The model in this order, without its grid.
    ///
    /// # Panics
    /// The model has a different number of states.
    #[must_use]
    pub fn apply(&self, mdp: &Mdp) -> Mdp {
        assert_eq!(self.old.len(), mdp.states() as usize, "the order and the model have different numbers of states");
        let states = self.old.par_iter().with_min_len(CHUNK);
        let rows: Vec<usize> = states.flat_map_iter(|&state| mdp.choices().rows(state as usize)).collect();
        let choices = match mdp.choices() {
            Choices::Uniform(actions) => Choices::Uniform(*actions),
            Choices::Ragged(_) => Choices::Ragged(
                offsets(self.old.iter().map(|&state| mdp.choices().count(state as usize) as u64)).into(),
            ),
        };
        let of_rows = |numbers: &Array<f64>| match numbers.is_empty() {
            true => Array::default(),
            false => rows.par_iter().map(|&row| numbers[row]).collect::<Vec<_>>().into(),
        };
        let labels = mdp.labels().iter().map(|(name, states)| (name.clone(), self.renumbered(states)));
        let names = |names: &ActionNames| ActionNames {
            names: names.names.clone(),
            of_row: rows.par_iter().map(|&row| names.of_row[row]).collect(),
        };
        Mdp::built(MdpParts {
            states: mdp.states(),
            choices,
            gamma: mdp.gamma(),
            objective: mdp.objective(),
            transitions: self.matrix(mdp.transitions(), &rows),
            ends: of_rows(mdp.ends()),
            rewards: self.matrix(mdp.rewards(), &rows),
            action_rewards: of_rows(mdp.action_rewards()),
            labels: labels.collect::<BTreeMap<_, _>>(),
            action_names: mdp.action_names().map(names),
            state_names: mdp
                .state_names()
                .map(|names| Arc::new(self.old.iter().map(|&state| names[state as usize].clone()).collect())),
            grid: None,
        })
    }

    /// Permutes one element per state from the old order to the new order.
    #[must_use]
    pub fn to_new<T: Copy + Send + Sync>(&self, of_old: &[T]) -> Vec<T> {
        self.old.par_iter().map(|&state| of_old[state as usize]).collect()
    }

    /// Permutes one element per state from the new order to the old order.
    #[must_use]
    pub fn to_old<T: Copy + Send + Sync>(&self, of_new: &[T]) -> Vec<T> {
        self.new.par_iter().map(|&state| of_new[state as usize]).collect()
    }

    fn renumbered(&self, states: &[u32]) -> Vec<u32> {
        let mut states: Vec<u32> = states.iter().map(|&state| self.new[state as usize]).collect();
        states.sort_unstable();
        states
    }

    /// The given rows of a matrix, with columns renumbered and sorted.
    fn matrix(&self, matrix: &Csr, rows: &[usize]) -> Csr {
        let row_ptr = offsets(rows.iter().map(|&row| matrix.row_ptr()[row + 1] - matrix.row_ptr()[row]));
        let (mut col, mut val) = (vec![0; matrix.nnz()], vec![0.0; matrix.nnz()]);
        let chunks = split(&row_ptr, &mut col).into_par_iter().zip(split(&row_ptr, &mut val));
        chunks.for_each(|((first, col), (_, val))| {
            let mut entries = Vec::new();
            let mut target = 0;
            for &row in rows[first..].iter().take(CHUNK) {
                let (columns, values) = matrix.row(row);
                entries.clear();
                entries.extend(columns.iter().map(|&column| self.new[column as usize]).zip(values.iter().copied()));
                entries.sort_unstable_by_key(|entry| entry.0);
                for &(column, value) in &entries {
                    (col[target], val[target]) = (column, value);
                    target += 1;
                }
            }
        });
        Csr::built(row_ptr, col, val)
    }
}

/// Exclusive prefix sum of the lengths, with the total at the end.
fn offsets(lengths: impl ExactSizeIterator<Item = u64>) -> Vec<u64> {
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    offsets.push(0);
    offsets.extend(lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    }));
    offsets
}

/// The mean |s' − s| over the entries of P.
#[must_use]
pub fn mean_distance(mdp: &Mdp) -> f64 {
    mean(mdp, |state, successor| (state as u32).abs_diff(successor))
}

fn mean(mdp: &Mdp, distance: impl Fn(usize, u32) -> u32 + Sync) -> f64 {
    let of_state = |state: usize| {
        let successors = mdp.choices().rows(state).flat_map(|row| mdp.transitions().row(row).0);
        successors.map(|&successor| u64::from(distance(state, successor))).sum::<u64>() as f64
    };
    let total: f64 = (0..mdp.states() as usize).into_par_iter().with_min_len(CHUNK).map(of_state).sum();
    total / mdp.transitions().nnz().max(1) as f64
}

/// Whether a sample shows that successors are far from their states and that another order may bring them nearer.
fn may_pay(mdp: &Mdp) -> bool {
    let states = f64::from(mdp.states());
    let (mut distances, mut entries, mut arrivals) = (0.0, 0.0, HashMap::new());
    for row in (0..mdp.rows()).step_by((mdp.rows() / SAMPLE_ROWS).max(1)) {
        let (state, successors) = (mdp.choices().state_of(row) as u32, mdp.transitions().row(row).0);
        distances += successors.iter().map(|&successor| f64::from(successor.abs_diff(state))).sum::<f64>();
        entries += successors.len() as f64;
        // One successor represents the row, so that long rows do not dominate.
        if let Some(&successor) = successors.get(row % successors.len().max(1)).filter(|&&found| found != state) {
            *arrivals.entry(successor).or_insert(0.0) += 1.0;
        }
    }
    let before = distances / f64::max(entries, 1.0);
    let most = arrivals.values().copied().fold(0.0, f64::max);
    // The threshold is a quarter of the range of 16-bit distances.
    if before < f64::from(1 << 13) || most > MAX_HUB_SHARE * arrivals.values().sum::<f64>() {
        return false;
    }
    let start = |number: usize| (states * (number as f64 + 0.5) / SAMPLE_STARTS as f64) as u32;
    let widths: Vec<f64> = (0..SAMPLE_STARTS).into_par_iter().filter_map(|number| width(mdp, start(number))).collect();
    let narrow = widths.iter().filter(|&&width| width * MIN_GAIN < before).count();
    // Without any width, as all samples end early, decide on the whole model.
    2 * narrow >= widths.len()
}

/// Estimate, from the neighbourhood of `start`, of the mean level width of a breadth-first search through all states.
/// Infinite if the search would have few levels; `None` if too few states are reachable.
fn width(mdp: &Mdp, start: u32) -> Option<f64> {
    let (mut seen, mut found) = (HashSet::from([start]), vec![start]);
    // `within[k]` is the number of states within k steps.
    let mut within = Vec::new();
    let (mut first, mut entries) = (0, 0);
    while first < found.len() {
        within.push(found.len() as f64);
        let last = found.len();
        for place in first..last {
            for row in mdp.choices().rows(found[place] as usize) {
                let successors = mdp.transitions().row(row).0;
                entries += successors.len();
                found.extend(successors.iter().filter(|&&successor| seen.insert(successor)));
                if found.len() > MAX_NEIGHBOURHOOD[0] || entries > MAX_NEIGHBOURHOOD[1] {
                    let steps = within.len() - 1;
                    let (half, whole) = (within[steps / 2], within[steps]);
                    if steps < 4 || whole > MAX_GROWTH * half {
                        return Some(f64::INFINITY);
                    }
                    // Assume that the number of states within k steps keeps growing as the same power of k.
                    let power = (whole / half).ln() / (steps as f64 / (steps / 2) as f64).ln();
                    let levels = steps as f64 * (f64::from(mdp.states()) / whole).powf(1.0 / power.max(1.0));
                    return Some(f64::from(mdp.states()) / levels);
                }
            }
        }
        first = last;
    }
    None
}

/// Successors and predecessors of each state s: `state[ptr[s]..ptr[s + 1]]`, ascending.
struct Neighbours {
    ptr: Vec<u64>,
    state: Vec<u32>,
}

impl Neighbours {
    fn new(mdp: &Mdp) -> Self {
        let states = mdp.states() as usize;
        let successors = |state: usize, found: &mut Vec<u32>| {
            found.clear();
            found.extend(mdp.choices().rows(state).flat_map(|row| mdp.transitions().row(row).0));
            found.sort_unstable();
            found.dedup();
            found.retain(|&successor| successor as usize != state);
        };
        let each = |of: &(dyn Fn(usize, &[u32]) + Sync)| {
            (0..states).into_par_iter().with_min_len(CHUNK).for_each_init(Vec::new, |found, state| {
                successors(state, found);
                of(state, found);
            });
        };
        let counts: Vec<AtomicU32> = (0..states).into_par_iter().map(|_| AtomicU32::new(0)).collect();
        each(&|state, successors| {
            counts[state].fetch_add(successors.len() as u32, Relaxed);
            successors.iter().for_each(|&successor| _ = counts[successor as usize].fetch_add(1, Relaxed));
        });
        let ptr = offsets(counts.iter().map(|count| u64::from(count.load(Relaxed))));
        let next: Vec<AtomicU64> = ptr.par_iter().map(|&start| AtomicU64::new(start)).collect();
        let listed: Vec<AtomicU32> = (0..ptr[states]).into_par_iter().map(|_| AtomicU32::new(0)).collect();
        let put = |of: usize, neighbour: u32| {
            listed[next[of].fetch_add(1, Relaxed) as usize].store(neighbour, Relaxed);
        };
        each(&|state, successors| {
            for &successor in successors {
                put(state, successor);
                put(successor as usize, state as u32);
            }
        });
        let mut state: Vec<u32> = listed.into_par_iter().map(AtomicU32::into_inner).collect();
        // Sorted, so that the order does not depend on timing. Mutual neighbours are listed twice, which does no harm.
        sort_lists(&ptr, &mut state);
        Self { ptr, state }
    }

    /// The same neighbours under a new order of states.
    fn renumbered(&self, order: &Order) -> Self {
        let ptr = offsets(order.old.iter().map(|&state| self.degree(state)));
        let mut state = vec![0; self.state.len()];
        split(&ptr, &mut state).into_par_iter().for_each(|(first, target)| {
            let lists = order.old[first..].iter().take(CHUNK).flat_map(|&old| self.neighbours(old));
            target.iter_mut().zip(lists).for_each(|(target, &old)| *target = order.new[old as usize]);
        });
        sort_lists(&ptr, &mut state);
        Self { ptr, state }
    }

    /// An order by breadth-first search, in which neighbours have nearby numbers.
    fn any(&self) -> Order {
        self.any_from(Vec::new())
    }

    /// As [`any`](Self::any), with the given states first.
    fn any_from(&self, mut order: Vec<u32>) -> Order {
        let states = self.ptr.len() - 1;
        let mut seen = vec![false; states];
        order.iter().for_each(|&state| seen[state as usize] = true);
        for state in 0..states as u32 {
            if !seen[state as usize] {
                order.extend(self.breadth_first(state, &mut seen).0);
            }
        }
        Order::built(order)
    }

    fn degree(&self, state: u32) -> u64 {
        self.ptr[state as usize + 1] - self.ptr[state as usize]
    }

    fn neighbours(&self, state: u32) -> &[u32] {
        &self.state[self.ptr[state as usize] as usize..self.ptr[state as usize + 1] as usize]
    }

    /// States reachable from `start` in breadth-first order, neighbours of small degree first, and the number of
    /// levels. Skips states marked in `seen`, and marks the states it finds.
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
            // Search from one end of the connected component to the other, until the number of levels stops growing.
            let (mut start, mut most) = (state, 0);
            for _ in 0..MAX_SEARCHES {
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
        Order::built(order)
    }
}

/// Sorts each list `ptr[i]..ptr[i + 1]` of `elements`.
fn sort_lists(ptr: &[u64], elements: &mut [u32]) {
    split(ptr, elements).into_par_iter().for_each(|(first, mut elements)| {
        for ends in ptr[first..].windows(2).take(CHUNK) {
            elements.split_off_mut(..(ends[1] - ends[0]) as usize).unwrap_or_default().sort_unstable();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::device::SweepLayout;
    use crate::generate::{Garnet, QueueNetwork, SlipGrid};
    use crate::options::Storage;

    /// A grid, the same grid with new state n as old state n·7919 mod S, and that order.
    fn shuffled(side: u32) -> (Mdp, Mdp, Order) {
        let grid = SlipGrid { width: side, height: side, ..SlipGrid::default() }.generate().unwrap();
        let states = u64::from(side * side);
        let order = Order::new((0..states).map(|state| (state * 7919 % states) as u32).collect()).unwrap();
        let mdp = order.apply(&grid);
        (grid, mdp, order)
    }

    #[test]
    fn a_renumbered_model_is_the_same_model() {
        let (grid, mdp, order) = shuffled(20);
        let back = Order::built(order.new.clone()).apply(&mdp);
        assert_eq!(back.transitions().row_ptr()[..], grid.transitions().row_ptr()[..]);
        assert_eq!(back.transitions().col()[..], grid.transitions().col()[..]);
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
        assert!(SweepLayout::new(&mdp, Some(Storage::Narrow)).is_none());
        let (order, [before, after]) = Order::worthwhile(&mdp, || 1000.0).unwrap();
        assert!(after <= f64::from(side) && before > 10_000.0, "{before} → {after}");
        let near = order.apply(&mdp);
        assert_eq!(mean_distance(&near), after);
        let layout = SweepLayout::new(&near, None).unwrap();
        assert!(matches!(layout.storage(), Storage::Narrow | Storage::Patterns), "{}", layout.storage());
        assert!(layout.skips(), "near");
    }

    /// The same model with scattered states. The multiplier must be coprime to S.
    fn scattered(mdp: &Mdp) -> Mdp {
        let states = u64::from(mdp.states());
        Order::new((0..states).map(|state| (state * 48_271 % states) as u32).collect()).unwrap().apply(mdp)
    }

    #[test]
    fn orders_are_found() {
        let queues = QueueNetwork { queues: 3, capacity: 40, ..QueueNetwork::default() }.generate().unwrap();
        let ring = Garnet { states: 100_001, window: Some(20), ..Garnet::default() }.generate().unwrap();
        // Terminal states and walls cut neighbourhoods short.
        let ends = Garnet { states: 100_001, window: Some(20), terminals: 0.2, ragged: true, ..Garnet::default() };
        let maze = SlipGrid { width: 300, height: 300, walls: 0.3, ..SlipGrid::default() };
        for mdp in [queues, ring, ends.generate().unwrap(), maze.generate().unwrap()] {
            let mdp = scattered(&mdp);
            assert!(may_pay(&mdp));
            let (order, [before, after]) = Order::worthwhile(&mdp, || 1000.0).unwrap();
            assert!(after * MIN_GAIN < before, "{before} → {after}");
            assert_eq!(mean_distance(&order.apply(&mdp)), after);
            assert!(Order::worthwhile(&mdp, || 20.0).is_none(), "in 20 sweeps");
        }
    }

    #[test]
    fn models_without_locality_stay_as_they_are() {
        let garnet = |states, actions, branching| Garnet { states, actions, branching, ..Garnet::default() };
        let irregular = Garnet { ragged: true, power_law: true, terminals: 0.1, ..garnet(80_000, 5, 40) };
        for garnet in [garnet(70_000, 2, 3), garnet(100_000, 8, 6), garnet(70_000, 1, 2), irregular] {
            assert!(!may_pay(&garnet.generate().unwrap()), "{garnet:?}");
        }
        let (grid, _, _) = shuffled(260);
        assert!(!may_pay(&grid) && Order::worthwhile(&grid, || 1000.0).is_none(), "near already");
    }

    /// On a line, every state may be reset to the first, which therefore neighbours all states.
    #[test]
    fn a_hub_is_near_in_no_order() {
        let states = 100_001;
        let row = |state: u32| [(0, 0.1), (state + 1, 0.9)].into_iter().filter(move |&(next, _)| next < states);
        let rows = (0..states).map(|state| if state + 1 < states { row(state).collect() } else { vec![(0, 1.0)] });
        let rows: Vec<Vec<(u32, f64)>> = rows.collect();
        let transitions = Csr::built(
            offsets(rows.iter().map(|row| row.len() as u64)),
            rows.iter().flatten().map(|entry| entry.0).collect::<Vec<_>>(),
            rows.iter().flatten().map(|entry| entry.1).collect::<Vec<_>>(),
        );
        let line = Mdp::new(states, 1, 0.9, transitions, Csr::default(), None).unwrap();
        assert!(Order::worthwhile(&scattered(&line), || 1000.0).is_none());
    }
}
