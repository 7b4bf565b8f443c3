//! A model divided among ranks: each has a contiguous part of the states.
//!
//! The part of a rank is an [`Mdp`] of its own. Its states are, in the order of their numbers in the whole model, the rank's
//! own states and its *ghosts*: the states of other ranks that an own state can move to. Ghosts have no actions here, so
//! sweeps leave them alone; their values come from their owners, in an exchange before each sweep. The owners keep for
//! each other rank the list of the states that it needs.
//!
//! > [ghosts of lower ranks | own states | ghosts of higher ranks]
//!
//! The order of the whole model is kept, so a model whose successors are near, such as a grid, stays one: narrow
//! offsets and patterns of successors hold across the borders. State numbers are of 64 bits in the whole model, and of
//! 32 bits in a part.
//!
//! If the ghosts of all ranks are more than half of what they could be, all states of other ranks become ghosts: V is whole on
//! every rank, the exchange is an all-gather of the own values, and there are no lists of states.
//!
//! A rank reads the rows of its own states from a [`Whole`] model. Its memory grows with its part and its ghosts alone.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use warpkov_common::parallel;

use crate::analysis::partition::{self, Proposal, by_parts};
use crate::analysis::reorder::Order;
use crate::model::whole::{Actions, Column, Entries, Fault, Lines, Rows, with_lines};
use crate::model::{CHUNK, Choices, Csr, Mdp, MdpParts, Part, Peer, Sends, Whole};
use warpkov_runtime::comm::{Communicator, Error};

/// The most states of a part: 32 bits number them, [`NO_ACTION`](crate::model::NO_ACTION) is no number, and a part without
/// work has one state more.
const MOST: u64 = u32::MAX as u64 - 1;

/// Why a model cannot be divided. All ranks have the same error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DivideError {
    /// A rank cannot read its rows, or has too many states: the message of the first such rank.
    #[error("{0}")]
    Part(String),
    /// A rank failed.
    #[error(transparent)]
    Comm(#[from] Error),
}

/// The first state of each rank's part, and S: parts of about equal work in a sweep, which reads the transitions and the
/// values. Each rank looks for its own border.
///
/// # Errors
/// If a rank fails.
pub fn balanced(whole: &dyn Whole, comm: &dyn Communicator) -> Result<Vec<u64>, Error> {
    let states = whole.states();
    let work = |state: u64| whole.transitions_before(state).saturating_add(2 * state);
    let wanted = (u128::from(work(states)) * u128::from(comm.rank()) / u128::from(comm.size())) as u64;
    // The first state with at least this much work before it.
    let (mut least, mut most) = (0, states);
    while least < most {
        let middle = least + (most - least) / 2;
        if work(middle) < wanted { least = middle + 1 } else { most = middle }
    }
    let mut splits = vec![0];
    for border in comm.gather(&[least])?.into_iter().flatten().skip(1) {
        // The source may be invalid: then the borders may not ascend.
        splits.push(border.max(splits[splits.len() - 1]));
    }
    splits.push(states);
    Ok(splits)
}

/// States in the order of the parts that METIS makes of them, with the first state of each rank's part and S. The first rank
/// has METIS at work. With `only_if_halved`, parts stay contiguous if METIS is not built in or does not halve the number of
/// ghosts.
///
/// # Errors
/// METIS is not built in, or cannot divide the model; or a rank fails.
pub fn by_metis(
    mdp: &Mdp,
    only_if_halved: bool,
    comm: &dyn Communicator,
) -> Result<Proposal<(Order, Vec<u64>)>, DivideError> {
    let splits = balanced(mdp, comm)?;
    let found = match comm.rank() {
        0 => partition::by_metis(mdp, &splits, only_if_halved).map_err(Fault::from),
        _ => Ok(Proposal::default()),
    };
    let Proposal { parts, note } = agreed(found, comm)?;
    let mut taken = [u8::from(parts.is_some())];
    comm.broadcast(0, &mut taken)?;
    if taken == [0] {
        return Ok(Proposal { parts: None, note });
    }
    let mut parts = parts.unwrap_or_else(|| vec![0; mdp.states() as usize]);
    comm.broadcast(0, bytemuck::cast_slice_mut(&mut parts))?;
    Ok(Proposal { parts: Some(by_parts(&parts, comm.size())), note })
}

/// The place of the ghosts in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GhostOrder {
    /// Before and behind the own states, in the order of the whole model: compact layouts stay compact.
    Around,
    /// Behind the own states, which are the first: a kernel for the first states needs no ghosts.
    Behind,
}

/// The states of a part: the own ones and the ghosts.
struct Local {
    own: Range<u64>,
    ghosts: GhostStates,
    /// The number of ghosts below the own states.
    below: usize,
    order: GhostOrder,
}

/// The ghosts of a part, ascending.
enum GhostStates {
    /// The successors of own states.
    Halo {
        states: Vec<u64>,
        /// The position of the first ghost whose number, without its lowest `shift` bits, is at least an index: it leaves
        /// few ghosts to search.
        directory: Vec<u32>,
        shift: u32,
    },
    /// The other ones of so many states.
    All(u64),
}

/// Ghosts for each entry of the directory.
const PER_ENTRY: usize = 4;

impl Local {
    /// The own states of `rows` and all their successors, in a model of `states` states.
    fn new(rows: &Rows, states: u64, order: GhostOrder) -> Result<Self, Fault> {
        let own = rows.states.clone();
        let ghosts = with_lines!(&rows.transitions, |lines| ghosts(lines.col, &own, states));
        let found = own.end - own.start + ghosts.len() as u64;
        if found > MOST {
            return Err(too_large(found, states));
        }
        let below = ghosts.partition_point(|&ghost| ghost < own.start);
        let bits = u64::BITS - states.leading_zeros();
        let shift = bits.saturating_sub((ghosts.len() / PER_ENTRY).max(1).ilog2());
        let last = states.checked_shr(shift).unwrap_or_default();
        let mut directory = vec![0; last as usize + 2];
        for &ghost in &ghosts {
            directory[ghost.checked_shr(shift).unwrap_or_default() as usize + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut directory {
            sum += *count;
            *count = sum;
        }
        Ok(Self { own, ghosts: GhostStates::Halo { states: ghosts, directory, shift }, below, order })
    }

    /// The same own states, and all other ones of `states` states.
    fn of_all(self, states: u64) -> Self {
        Self { below: self.own.start as usize, ghosts: GhostStates::All(states), ..self }
    }

    /// The number of own states.
    fn len(&self) -> usize {
        (self.own.end - self.own.start) as usize
    }

    /// The own states and the ghosts.
    fn count(&self) -> usize {
        match &self.ghosts {
            GhostStates::Halo { states, .. } => self.len() + states.len(),
            GhostStates::All(states) => *states as usize,
        }
    }

    /// The local number of a state of the whole model; `None` if the part has no such state.
    fn number(&self, state: u64) -> Option<u32> {
        if self.own.contains(&state) {
            return Some((self.inside().start as u64 + (state - self.own.start)) as u32);
        }
        let ghost = match &self.ghosts {
            GhostStates::Halo { states, directory, shift } => {
                let entry = state.checked_shr(*shift).unwrap_or_default() as usize;
                let range = *directory.get(entry)? as usize..*directory.get(entry + 1)? as usize;
                range.start + states[range].binary_search(&state).ok()?
            }
            GhostStates::All(states) => (state < *states).then(|| self.among(&(state..state)).start)?,
        };
        Some(self.ghost(ghost) as u32)
    }

    /// The local number of the ghost at a position.
    fn ghost(&self, position: usize) -> usize {
        match self.order {
            GhostOrder::Around if position < self.below => position,
            GhostOrder::Around | GhostOrder::Behind => self.len() + position,
        }
    }

    /// The local numbers of the own states.
    fn inside(&self) -> Range<usize> {
        let first = if self.order == GhostOrder::Around { self.below } else { 0 };
        first..first + self.len()
    }

    /// The positions of the ghosts among some states.
    fn among(&self, states: &Range<u64>) -> Range<usize> {
        let position = |state: u64| match &self.ghosts {
            GhostStates::Halo { states, .. } => states.partition_point(|&ghost| ghost < state),
            GhostStates::All(_) => (state.min(self.own.start) + state.saturating_sub(self.own.end)) as usize,
        };
        position(states.start)..position(states.end)
    }

    /// The ghosts at some positions, unless all other states are.
    fn halo(&self, positions: &Range<usize>) -> &[u64] {
        match &self.ghosts {
            GhostStates::Halo { states, .. } => &states[positions.clone()],
            GhostStates::All(_) => &[],
        }
    }

    /// The ghosts of each rank, as positions.
    fn needed(&self, splits: &[u64]) -> Vec<Range<usize>> {
        splits.windows(2).map(|range| self.among(&(range[0]..range[1]))).collect()
    }
}

/// Whether the ranks exchange all values: if their `ghosts`, together, are more than half of the states of other ranks.
/// Lists of so many ghosts take more memory than their values, and packing them takes longer than to send the rest. A model
/// of `states` states must have room on each of the `size` ranks.
fn gathers_all(ghosts: u64, states: u64, size: usize) -> bool {
    states <= MOST && 2 * u128::from(ghosts) > u128::from(states) * (size as u128 - 1)
}

/// The error of a part of `found` states.
fn too_large(found: u64, states: u64) -> Fault {
    let ranks = states.div_ceil(MOST);
    format!(
        "a part of the model has {found} states, of {states} in all, expected at most {MOST} for a rank: at least {ranks} \
         ranks are necessary, and more if many states are successors on other ranks"
    )
    .into()
}

/// The distinct columns that are not among the `own` states, ascending.
///
/// They are marked in a set of one bit for each of the `states`, if that takes less memory than the columns themselves;
/// else they are sorted. So the memory is at most that of the rows, however many states the whole model has.
fn ghosts<C: Column>(columns: &[C], own: &Range<u64>, states: u64) -> Vec<u64> {
    /// Columns that are sorted at a time.
    const BLOCK: usize = 1 << 22;

    let others = |&column: &C| Some(column.into()).filter(|column| !own.contains(column));
    if states / 8 <= size_of_val(columns) as u64 {
        let words: Vec<AtomicU64> = (0..states.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        columns.par_iter().with_min_len(CHUNK).filter_map(others).for_each(|state| {
            let (word, bit) = (&words[(state / 64) as usize], 1 << (state % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        });
        let members = |(first, word): (usize, AtomicU64)| {
            let word = word.into_inner();
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 64 * first as u64 + bit)
        };
        return words.into_par_iter().with_min_len(CHUNK).enumerate().flat_map_iter(members).collect();
    }
    let mut all: Vec<u64> = Vec::new();
    let mut distinct = 0;
    for block in columns.chunks(BLOCK) {
        let mut found: Vec<u64> = block.par_iter().with_min_len(CHUNK).filter_map(others).collect();
        found.par_sort_unstable();
        found.dedup();
        all.extend(found);
        if all.len() > 2 * distinct + BLOCK {
            all.par_sort_unstable();
            all.dedup();
            distinct = all.len();
        }
    }
    all.par_sort_unstable();
    all.dedup();
    all
}

/// The result, if all ranks have one; else the message of the first rank that has none, on all ranks.
///
/// # Errors
/// That message, or the failure of a rank.
pub(crate) fn agreed<T>(result: Result<T, Fault>, comm: &dyn Communicator) -> Result<T, DivideError> {
    let message = result.as_ref().err().map(|fault| causes(&**fault)).unwrap_or_default();
    let first = comm.all_gather(message.as_bytes())?.into_iter().find(|message| !message.is_empty());
    match (first, result) {
        (None, Ok(result)) => Ok(result),
        (first, _) => Err(DivideError::Part(String::from_utf8_lossy(&first.unwrap_or_default()).into_owned())),
    }
}

/// The messages of an error and of its causes, as far as none holds the next.
fn causes(fault: &(dyn std::error::Error + 'static)) -> String {
    let mut text = fault.to_string();
    for cause in std::iter::successors(fault.source(), |error| error.source()).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The part of a model on this rank. `splits` holds the first state of each rank's part, and S; `order` the place of the
/// ghosts.
///
/// # Errors
/// If a rank cannot read its rows or has too many states, and if a rank fails.
///
/// # Panics
/// If `splits` has not one number for each rank and one more, ascending from 0 to S.
pub fn cut(whole: &dyn Whole, splits: &[u64], order: GhostOrder, comm: &dyn Communicator) -> Result<Mdp, DivideError> {
    let (rank, size, states) = (comm.rank() as usize, comm.size() as usize, whole.states());
    let covers = splits.len() == size + 1 && splits.is_sorted() && (splits[0], splits[size]) == (0, states);
    assert!(covers, "the parts must cover the states");
    let (rows, local) = agreed(read_own(whole, splits[rank]..splits[rank + 1], order), comm)?;
    let needed = local.needed(splits);
    let counts = comm.gather(&needed.iter().map(|needed| needed.len() as u64).collect::<Vec<_>>())?;
    let all_gather = gathers_all(counts.iter().flatten().sum(), states, size);
    let local = if all_gather { local.of_all(states) } else { local };
    let inside = local.inside();
    let (needed, asked) = match all_gather {
        true => (local.needed(splits), vec![Sends::Run(inside.start as u32..inside.end as u32); size]),
        false => {
            let asked = exchange_ghosts(&local, splits, &needed, &counts, comm)?;
            (needed, asked)
        }
    };
    let terminates = !rows.ends.is_empty() || rows.has_terminal();
    let part = Part {
        first: splits[rank],
        all: states,
        own: inside,
        never_terminates: !comm.any(terminates)?,
        works: rows.count() > 0,
        peers: peers(&local, rank, &needed, asked),
        all_gather,
    };
    let own = if part.works { own_parts(&rows, &local) } else { empty_parts(local.count()) };
    Ok(Mdp::built(MdpParts { gamma: whole.gamma(), objective: whole.objective(), ..own }).with_part(part))
}

/// The rows of the own states, with the local numbers of their states.
fn read_own(whole: &dyn Whole, own: Range<u64>, order: GhostOrder) -> Result<(Rows<'_>, Local), Fault> {
    let states = whole.states();
    if own.end - own.start > MOST {
        return Err(too_large(own.end - own.start, states));
    }
    let rows = whole.rows(own)?;
    let local = Local::new(&rows, states, order)?;
    Ok((rows, local))
}

/// Tells each owner which of its states are ghosts here. Returns the own states that each rank asks for. `counts` holds the number of
/// ghosts by rank and owner.
fn exchange_ghosts(
    local: &Local,
    splits: &[u64],
    needed: &[Range<usize>],
    counts: &[Vec<u64>],
    comm: &dyn Communicator,
) -> Result<Vec<Sends>, Error> {
    let (rank, first) = (comm.rank() as usize, local.inside().start as u32);
    let others = || (0..needed.len()).filter(|&other| other != rank);
    let offsets = |other: usize| {
        let offsets: Vec<u32> = local.halo(&needed[other]).iter().map(|ghost| (ghost - splits[other]) as u32).collect();
        bytemuck::cast_slice(&offsets).to_vec()
    };
    let sends = others().filter(|&other| !needed[other].is_empty());
    let sends = sends.map(|other| (other as u32, offsets(other))).collect();
    let receives: Vec<(u32, usize)> = others()
        .map(|other| (other as u32, 4 * counts[other][rank] as usize))
        .filter(|&(_, bytes)| bytes > 0)
        .collect();
    let mut asked = vec![Sends::default(); needed.len()];
    for (&(other, _), bytes) in receives.iter().zip(comm.exchange(sends, &receives)?.wait()?) {
        let offsets: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes);
        asked[other as usize] = offsets.iter().map(|offset| first + offset).collect::<Vec<u32>>().into();
    }
    Ok(asked)
}

/// The ranks that own ghosts of this one or ask for its states.
fn peers(local: &Local, rank: usize, needed: &[Range<usize>], asked: Vec<Sends>) -> Vec<Peer> {
    let peer = |(other, (needed, sends)): (usize, (&Range<usize>, Sends))| {
        let first = local.ghost(needed.start);
        Peer { rank: other as u32, sends, ghosts: first..first + needed.len() }
    };
    let others = needed.iter().zip(asked).enumerate().filter(|(other, _)| *other != rank).map(peer);
    others.filter(|peer| !peer.sends.is_empty() || !peer.ghosts.is_empty()).collect()
}

/// The model of a rank whose `count` states have no rows: these and one more, with one row that stays there.
fn empty_parts(count: usize) -> MdpParts {
    MdpParts {
        states: count as u32 + 1,
        choices: Choices::Ragged([vec![0; count + 1], vec![1]].concat().into()),
        transitions: Csr::built(vec![0, 1], vec![count as u32], vec![1.0]),
        rewards: Csr::empty(1),
        ..MdpParts::default()
    }
}

/// The model of the own states and the ghosts.
fn own_parts(rows: &Rows, local: &Local) -> MdpParts {
    let (inside, count) = (local.inside(), local.count());
    let choices = match rows.actions {
        Actions::Uniform(actions) if inside.len() == count => Choices::Uniform(actions),
        _ => {
            let first = rows.first(local.own.start);
            // A state before the own ones is at the first of them, one behind at their end.
            let offset = |state: usize| {
                let within = state.clamp(inside.start, inside.end) - inside.start;
                rows.first(local.own.start + within as u64) - first
            };
            Choices::Ragged(parallel::array(count + 1, offset).into())
        }
    };
    MdpParts {
        states: count as u32,
        choices,
        transitions: numbered(&rows.transitions, local),
        ends: copied(&rows.ends).into(),
        rewards: numbered(&rows.rewards, local),
        action_rewards: copied(&rows.action_rewards).into(),
        ..MdpParts::default()
    }
}

/// The rows with the local numbers of their columns, without columns that are not local, which only rewards without a
/// transition have.
fn numbered(entries: &Entries, local: &Local) -> Csr {
    with_lines!(entries, |lines| numbered_lines(lines, local))
}

/// The values in memory of their own.
fn copied(values: &[f64]) -> Vec<f64> {
    parallel::array(values.len(), |i| values[i])
}

fn numbered_lines<C: Column>(lines: Lines<C>, local: &Local) -> Csr {
    /// No number of a part's state.
    const NONE: u32 = u32::MAX;

    let Lines { row_ptr, col, val } = lines;
    let number = |&state: &C| local.number(state.into());
    let all = parallel::array(col.len(), |entry| number(&col[entry]).unwrap_or(NONE));
    if parallel::all(all.len(), |entry| all[entry] != NONE) {
        let ends = parallel::array(row_ptr.len(), |row| row_ptr[row] - row_ptr[0]);
        return Csr::built(ends, all, copied(val)).sorted();
    }
    drop(all);
    let (mut ends, mut kept) = (vec![0], (Vec::new(), Vec::new()));
    for row in 0..lines.rows() {
        let (col, val) = lines.row(row);
        for (number, &val) in col.iter().map(number).zip(val) {
            if let Some(number) = number {
                kept.0.push(number);
                kept.1.push(val);
            }
        }
        ends.push(kept.0.len() as u64);
    }
    Csr::built(ends, kept.0, kept.1).sorted()
}
