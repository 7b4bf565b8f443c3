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

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::model::{Array, CHUNK, Choices, Csr, Mdp, MdpParts, Part, Peer};
use crate::runtime::comm::{Communicator, Error};

/// The first state of each of `ranks` parts, and S: parts of about equal work in a sweep, which reads the transitions
/// and the values.
#[must_use]
pub fn balanced(mdp: &Mdp, ranks: u32) -> Vec<u64> {
    let states = mdp.states() as usize;
    let row_ptr = &mdp.transitions().row_ptr()[..];
    let work = |state: usize| row_ptr[mdp.choices().first(state)] + 2 * state as u64;
    let all = work(states);
    let boundary = |rank: u32| {
        let wanted = (u128::from(all) * u128::from(rank) / u128::from(ranks)) as u64;
        // The first state with at least this much work before it.
        let (mut least, mut most) = (0, states);
        while least < most {
            let middle = (least + most) / 2;
            if work(middle) < wanted { least = middle + 1 } else { most = middle }
        }
        least as u64
    };
    (0..=ranks).map(boundary).collect()
}

/// A set of states of the whole model, which numbers its members in ascending order.
struct Local {
    words: Vec<u64>,
    /// The number of members before each word.
    before: Vec<u32>,
    /// The own states.
    own: Range<usize>,
    order: GhostOrder,
}

/// The place of the ghosts in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GhostOrder {
    /// Before and behind the own states, in the order of the whole model: compact layouts stay compact.
    Around,
    /// Behind the own states, which are the first: a kernel for the first states needs no ghosts.
    Behind,
}

impl Local {
    /// The own states and all successors of their rows.
    fn of(mdp: &Mdp, own: &Range<usize>, entries: Range<usize>, order: GhostOrder) -> Self {
        let words: Vec<AtomicU64> = (0..(mdp.states() as usize).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let insert = |state: usize| {
            let (word, bit) = (&words[state / 64], 1 << (state % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        };
        own.clone().into_par_iter().with_min_len(CHUNK).for_each(insert);
        mdp.transitions().col()[entries].par_iter().with_min_len(CHUNK).for_each(|&state| insert(state as usize));
        let words: Vec<u64> = words.into_iter().map(AtomicU64::into_inner).collect();
        let before = words
            .iter()
            .scan(0, |sum: &mut u32, word| {
                let before = *sum;
                *sum += word.count_ones();
                Some(before)
            })
            .collect();
        Self { words, before, own: own.clone(), order }
    }

    fn contains(&self, state: usize) -> bool {
        self.words[state / 64] & 1 << (state % 64) != 0
    }

    /// The local number of a member.
    fn number(&self, state: usize) -> u32 {
        let (number, own) = (self.below(state), &self.own);
        match self.order {
            GhostOrder::Behind if own.contains(&state) => (state - own.start) as u32,
            GhostOrder::Behind if state < own.start => number + own.len() as u32,
            _ => number,
        }
    }

    /// The local numbers of the members in a range that no border of the part divides.
    fn numbers(&self, range: Range<usize>) -> Range<usize> {
        let count = (self.below(range.end) - self.below(range.start)) as usize;
        let first = match self.order {
            GhostOrder::Behind if range.start == self.own.start => 0,
            _ => self.number(range.start) as usize,
        };
        first..first + count
    }

    /// The number of members below `state`, which may be S.
    fn below(&self, state: usize) -> u32 {
        match self.words.get(state / 64) {
            Some(word) => self.before[state / 64] + (word & ((1 << (state % 64)) - 1)).count_ones(),
            None => self.before.last().map_or(0, |before| before + self.words[self.words.len() - 1].count_ones()),
        }
    }

    /// The members in a range, as offsets from its start.
    fn members(&self, range: Range<usize>) -> Vec<u32> {
        let start = range.start;
        range.filter(|&state| self.contains(state)).map(|state| (state - start) as u32).collect()
    }
}

/// The part of `mdp` on this rank. `splits` holds the first state of each rank's part, and S; `order` the place of the
/// ghosts.
///
/// # Errors
/// If a rank fails.
///
/// # Panics
/// If `splits` has not one number for each rank and one more, ascending from 0 to S.
pub fn cut(mdp: &Mdp, splits: &[u64], order: GhostOrder, comm: &dyn Communicator) -> Result<Mdp, Error> {
    let (rank, size, states) = (comm.rank() as usize, comm.size() as usize, mdp.states() as usize);
    let whole = splits.len() == size + 1 && splits.is_sorted() && (splits[0], splits[size]) == (0, states as u64);
    assert!(whole, "the parts must cover the states");
    let range = |rank: usize| splits[rank] as usize..splits[rank + 1] as usize;
    let own = range(rank);
    let rows = mdp.choices().first(own.start)..mdp.choices().first(own.end);
    let entries = |csr: &Csr| csr.row_ptr()[rows.start] as usize..csr.row_ptr()[rows.end] as usize;
    let local = Local::of(mdp, &own, entries(mdp.transitions()), order);
    let count = local.below(states);

    // Tell each owner which of its states are ghosts here.
    let others: Vec<usize> = (0..size).filter(|&other| other != rank).collect();
    let needed: Vec<Vec<u32>> = others.iter().map(|&other| local.members(range(other))).collect();
    let counts: Vec<u64> =
        (0..size).map(|other| others.binary_search(&other).map_or(0, |at| needed[at].len() as u64)).collect();
    let counts = comm.gather(&counts)?;
    let sends = others.iter().zip(&needed).filter(|(_, list)| !list.is_empty());
    let sends = sends.map(|(&other, list)| (other as u32, bytemuck::cast_slice(list).to_vec())).collect();
    let receives: Vec<(u32, usize)> = others
        .iter()
        .map(|&other| (other as u32, 4 * counts[other][rank] as usize))
        .filter(|&(_, bytes)| bytes > 0)
        .collect();
    let mut asked = vec![Vec::new(); size];
    let inside = local.numbers(own.clone());
    for (&(other, _), bytes) in receives.iter().zip(comm.exchange(sends, &receives)?.wait()?) {
        let offsets: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes);
        asked[other as usize] = offsets.iter().map(|offset| inside.start as u32 + offset).collect();
    }
    let peers = others.iter().map(|&other| Peer {
        rank: other as u32,
        sends: std::mem::take(&mut asked[other]),
        ghosts: local.numbers(range(other)),
    });
    let peers = peers.filter(|peer| !peer.sends.is_empty() || !peer.ghosts.is_empty()).collect();

    let of_rows = |values: &Array<f64>| values.get(rows.clone()).map_or_else(Vec::new, <[f64]>::to_vec);
    let choices = match mdp.choices() {
        Choices::Uniform(actions) if inside.len() == count as usize => Choices::Uniform(*actions),
        choices => {
            let before = std::iter::repeat_n(0, inside.start);
            let of_own = own.clone().map(|state| (choices.first(state) - rows.start) as u64);
            let after = std::iter::repeat_n(rows.len() as u64, count as usize - inside.end + 1);
            Choices::Ragged(before.chain(of_own).chain(after).collect::<Vec<_>>().into())
        }
    };
    let ends = of_rows(mdp.ends());
    let terminates = !ends.is_empty() || own.clone().any(|state| mdp.choices().count(state) == 0);
    let works = !rows.is_empty();
    let part = Part {
        first: splits[rank],
        all: states as u64,
        own: inside,
        never_terminates: !comm.any(terminates)?,
        works,
        peers,
    };
    if !works {
        let parts = MdpParts {
            states: count + 1,
            choices: Choices::Ragged([vec![0; count as usize + 1], vec![1]].concat().into()),
            gamma: mdp.gamma(),
            objective: mdp.objective(),
            transitions: Csr::built(vec![0, 1], vec![count], vec![1.0]),
            rewards: Csr::empty(1),
            ..MdpParts::default()
        };
        return Ok(Mdp::built(parts).with_part(part));
    }
    let parts = MdpParts {
        states: count,
        choices,
        gamma: mdp.gamma(),
        objective: mdp.objective(),
        transitions: of_columns(mdp.transitions(), &rows, &local),
        ends: ends.into(),
        rewards: of_columns(mdp.rewards(), &rows, &local),
        action_rewards: of_rows(mdp.action_rewards()).into(),
        ..MdpParts::default()
    };
    Ok(Mdp::built(parts).with_part(part))
}

/// The rows of a matrix, without columns that are not local, which only rewards without a transition have.
fn of_columns(csr: &Csr, rows: &Range<usize>, local: &Local) -> Csr {
    let row_ptr = &csr.row_ptr()[rows.start..=rows.end];
    let entries = row_ptr[0] as usize..row_ptr[rows.len()] as usize;
    let (col, val) = (&csr.col()[entries.clone()], &csr.val()[entries]);
    let start = row_ptr[0];
    if col.par_iter().with_min_len(CHUNK).all(|&state| local.contains(state as usize)) {
        let col: Vec<u32> = col.par_iter().with_min_len(CHUNK).map(|&state| local.number(state as usize)).collect();
        let ends: Vec<u64> = row_ptr.par_iter().with_min_len(CHUNK).map(|end| end - start).collect();
        let val: Vec<f64> = val.par_iter().with_min_len(CHUNK).copied().collect();
        return Csr::built(ends, col, val).sorted();
    }
    let (mut ends, mut kept) = (vec![0], (Vec::new(), Vec::new()));
    for row in row_ptr.windows(2) {
        for entry in (row[0] - start) as usize..(row[1] - start) as usize {
            if local.contains(col[entry] as usize) {
                kept.0.push(local.number(col[entry] as usize));
                kept.1.push(val[entry]);
            }
        }
        ends.push(kept.0.len() as u64);
    }
    Csr::built(ends, kept.0, kept.1).sorted()
}
