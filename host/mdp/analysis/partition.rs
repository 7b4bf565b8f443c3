//! Division of the states of a model into parts that few transitions leave, by METIS.
//!
//! METIS divides a graph into parts of about equal weight, with edges of little weight between them (Karypis and Kumar,
//! *SIAM J. Sci. Comput.* 20, 1998). The vertices are the states, with their work in a sweep; the edges are the pairs of
//! different states with transitions between them under any action, with the number of these.
//!
//! METIS is C, and an optional part of the program: cargo's feature `metis` builds it.

use super::reorder::Order;
use crate::model::Mdp;

/// The least share of ghosts in the states for which contiguous parts may be given up.
const LEAST_GHOSTS: f64 = 1.0 / 8.0;

/// The least number of states of a part.
const LEAST_STATES: u32 = 32;

/// Numbers the states by their parts, in their order within each: `of_state` holds the part of each state, below `parts`.
/// Returns the order, and the first state of each part and S.
#[must_use]
pub fn by_parts(of_state: &[u32], parts: u32) -> (Order, Vec<u64>) {
    let mut borders = vec![0; parts as usize + 1];
    for &part in of_state {
        borders[part as usize + 1] += 1;
    }
    let mut sum = 0;
    for border in &mut borders {
        sum += *border;
        *border = sum;
    }
    let (mut next, mut old) = (borders.clone(), vec![0; of_state.len()]);
    for (state, &part) in (0..).zip(of_state) {
        old[next[part as usize] as usize] = state;
        next[part as usize] += 1;
    }
    (Order::built(old), borders)
}

/// The number of ghosts of all parts: the pairs of a part and a state of another part that it leads to.
#[must_use]
pub fn ghosts(mdp: &Mdp, of_state: &[u32], parts: u32) -> u64 {
    let (order, _) = by_parts(of_state, parts);
    // The part that has last found a state.
    let (mut found, mut ghosts) = (vec![u32::MAX; of_state.len()], 0);
    for &state in order.old() {
        let part = of_state[state as usize];
        for row in mdp.choices().rows(state as usize) {
            for &successor in mdp.transitions().row(row).0 {
                let successor = successor as usize;
                if of_state[successor] != part && found[successor] != part {
                    found[successor] = part;
                    ghosts += 1;
                }
            }
        }
    }
    ghosts
}

/// A division, or none to keep contiguous parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposal<P> {
    /// The parts.
    pub parts: Option<P>,
    /// The reason, for the user.
    pub note: Option<String>,
}

impl<P> Proposal<P> {
    /// Contiguous parts.
    fn contiguous(note: Option<String>) -> Self {
        Self { parts: None, note }
    }
}

/// The part of each state by METIS. `splits` are the borders of contiguous parts, whose number is that of the parts. With
/// `only_if_halved`, these stay if the number of ghosts would be more than half of theirs.
///
/// # Errors
/// METIS is not built in, or cannot divide the graph; not with `only_if_halved`.
pub fn by_metis(mdp: &Mdp, splits: &[u64], only_if_halved: bool) -> Result<Proposal<Vec<u32>>, String> {
    let (states, parts) = (mdp.states(), splits.len() as u32 - 1);
    if only_if_halved && cfg!(not(feature = "metis")) {
        return Ok(Proposal::contiguous(None));
    }
    if states / parts < LEAST_STATES {
        let note = format!("parts are contiguous: METIS takes {LEAST_STATES} states for each rank or more");
        return Ok(Proposal::contiguous(Some(note).filter(|_| !only_if_halved)));
    }
    let contiguous: Vec<u32> =
        (0..parts).zip(splits.windows(2)).flat_map(|(part, range)| (range[0]..range[1]).map(move |_| part)).collect();
    let before = ghosts(mdp, &contiguous, parts);
    if only_if_halved && (before as f64) < LEAST_GHOSTS * f64::from(states) {
        return Ok(Proposal::contiguous(None));
    }
    let of_state = match metis(mdp, parts) {
        Err(why) if only_if_halved => {
            return Ok(Proposal::contiguous(Some(format!("auto kept contiguous parts: {why}"))));
        }
        found => found?,
    };
    let after = ghosts(mdp, &of_state, parts);
    if only_if_halved && 2 * after > before {
        let note = format!("auto kept contiguous parts: {before} ghosts in all, {after} in METIS's parts");
        return Ok(Proposal::contiguous(Some(note)));
    }
    let note = format!("METIS divides the states: {after} ghosts in all, {before} in contiguous parts");
    Ok(Proposal { parts: Some(of_state), note: Some(note) })
}

/// Checks that METIS is built in.
///
/// # Errors
/// How to build it in.
pub fn require_metis() -> Result<(), String> {
    const BUILD: &str = "cargo build --release --features metis";

    if cfg!(feature = "metis") { Ok(()) } else { Err(format!("this build has no METIS: {BUILD} makes one that has")) }
}

#[cfg(not(feature = "metis"))]
fn metis(_: &Mdp, _: u32) -> Result<Vec<u32>, String> {
    require_metis().map(|()| Vec::new())
}

#[cfg(feature = "metis")]
fn metis(mdp: &Mdp, parts: u32) -> Result<Vec<u32>, String> {
    use std::sync::{Mutex, PoisonError};

    use metis::option::Seed;
    use metis::{Graph, Idx};

    /// Parts up to which METIS's manual advises recursive bisection.
    const FEW: u32 = 8;
    /// One call at a time: METIS's random numbers are those of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    let network = Network::new(mdp);
    let too_large = || format!("METIS counts edges in 31 bits, and the graph of the model has {}", network.edges.len());
    let (ends, neighbours, weights) = network.adjacency().ok_or_else(too_large)?;
    if neighbours.is_empty() {
        return Err("no state leads to another".to_owned());
    }
    let work = network.work();
    let failed = |error: &dyn std::fmt::Display| format!("METIS cannot divide the graph of the model: {error}");
    let graph = Graph::new(1, parts as Idx, &ends, &neighbours).map_err(|error| failed(&error))?;
    // The same parts in every run.
    let graph = graph.set_vwgt(&work).set_adjwgt(&weights).set_option(Seed(1));
    let mut found = vec![0; mdp.states() as usize];
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let divided = if parts <= FEW { graph.part_recursive(&mut found) } else { graph.part_kway(&mut found) };
    divided.map_err(|error| failed(&error))?;
    let valid = |part: Idx| u32::try_from(part).ok().filter(|&part| part < parts);
    found.into_iter().map(valid).collect::<Option<_>>().ok_or_else(|| failed(&"a state has no part"))
}

/// The graph of a model.
#[cfg(feature = "metis")]
struct Network<'m> {
    mdp: &'m Mdp,
    /// Pairs of states, the smaller one first, in ascending order, with the number of transitions between them.
    edges: Vec<([u32; 2], u32)>,
}

#[cfg(feature = "metis")]
impl<'m> Network<'m> {
    fn new(mdp: &'m Mdp) -> Self {
        use rayon::prelude::*;

        let of_state = |state: u32| {
            let rows = mdp.choices().rows(state as usize);
            let successors = rows.flat_map(|row| mdp.transitions().row(row).0);
            let others = successors.filter(move |&&successor| successor != state);
            others.map(move |&successor| [state.min(successor), state.max(successor)])
        };
        let mut pairs: Vec<[u32; 2]> = (0..mdp.states()).into_par_iter().flat_map_iter(of_state).collect();
        pairs.par_sort_unstable();
        let edges = pairs.chunk_by(|a, b| a == b).map(|same| (same[0], same.len().min(i32::MAX as usize) as u32));
        Self { mdp, edges: edges.collect() }
    }

    /// The end of each state's neighbours, the neighbours, and the weights of the edges to them, as METIS takes them. `None`
    /// if there are too many for it.
    fn adjacency(&self) -> Option<(Vec<i32>, Vec<i32>, Vec<i32>)> {
        let count = i32::try_from(2 * self.edges.len()).ok()? as usize;
        i32::try_from(self.mdp.states()).ok()?;
        let mut ends = vec![0; self.mdp.states() as usize + 1];
        for state in self.edges.iter().flat_map(|(pair, _)| pair) {
            ends[*state as usize + 1] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let (mut next, mut neighbours, mut weights) = (ends.clone(), vec![0; count], vec![0; count]);
        // METIS adds weights in 31 bits.
        let unit = self.edges.iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>() >> 29;
        for &([one, other], weight) in &self.edges {
            for (from, to) in [(one, other), (other, one)] {
                let at = next[from as usize] as usize;
                (neighbours[at], weights[at]) = (to as i32, (u64::from(weight) / (unit + 1)).max(1) as i32);
                next[from as usize] += 1;
            }
        }
        Some((ends, neighbours, weights))
    }

    /// The work of each state in a sweep: its transitions, and its value read and written.
    fn work(&self) -> Vec<i32> {
        let mdp = self.mdp;
        let row_ptr = mdp.transitions().row_ptr();
        let work = |state: u32| {
            let rows = mdp.choices().rows(state as usize);
            row_ptr[rows.end] - row_ptr[rows.start] + 2
        };
        let unit = ((0..mdp.states()).map(work).sum::<u64>() >> 30) + 1;
        (0..mdp.states()).map(|state| (work(state) / unit).clamp(1, i32::MAX as u64) as i32).collect()
    }
}
