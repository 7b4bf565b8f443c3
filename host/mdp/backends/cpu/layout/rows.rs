//! Compressed sparse rows, plain or packed.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use warpkov_common::parallel;

use super::{States, Storable, Stored, expect};
use crate::analysis::palette::{self, Index};
use crate::model::{CHUNK, Choices, Mdp, split};
use warpkov_runtime::Precise;

/// A stored successor: a state or an offset relative to the predecessor.
trait Successor: Copy + Default + Send + Sync + 'static {
    /// The successor of `state`.
    fn state_after(self, state: usize) -> usize;
}

impl Successor for u32 {
    #[inline(always)]
    fn state_after(self, _: usize) -> usize {
        self as usize
    }
}

impl Successor for i16 {
    #[inline(always)]
    fn state_after(self, state: usize) -> usize {
        state.wrapping_add_signed(isize::from(self))
    }
}

/// Storage of probabilities: direct or as palette indices.
trait Probability: Clone + Send + Sync + 'static {
    /// Stored element per entry.
    type Stored: Copy + Default + Send + Sync + 'static;
    /// The probability.
    fn decode(&self, stored: Self::Stored) -> f64;
}

/// Probabilities stored directly.
#[derive(Clone)]
struct Direct<T>(PhantomData<T>);

impl<T: Precise> Probability for Direct<T> {
    type Stored = T;
    #[inline(always)]
    fn decode(&self, stored: T) -> f64 {
        stored.to_f64()
    }
}

/// Probabilities stored as indices into a palette.
#[derive(Clone)]
struct Palette<I> {
    /// [`Index::COUNT`] probabilities; 0 beyond the palette.
    table: Arc<[f64]>,
    index: PhantomData<I>,
}

impl<I: Index> Palette<I> {
    /// Builds the table in the precision of the run.
    fn new<T: Precise>(numbers: &[f64]) -> Self {
        let padded = numbers.iter().map(|&x| T::from_f64(x).to_f64()).chain(std::iter::repeat(0.0)).take(I::COUNT);
        Self { table: padded.collect(), index: PhantomData }
    }
}

impl<I: Index> Probability for Palette<I> {
    type Stored = I;
    #[inline(always)]
    fn decode(&self, stored: I) -> f64 {
        self.table[stored.position()]
    }
}

/// Row pointers.
enum Ends<'m> {
    Narrow(Vec<u32>),
    Wide(Cow<'m, [u64]>),
}

impl Ends<'_> {
    #[inline(always)]
    fn entries(&self, row: usize) -> Range<usize> {
        match self {
            Self::Narrow(ends) => ends[row] as usize..ends[row + 1] as usize,
            Self::Wide(ends) => ends[row] as usize..ends[row + 1] as usize,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Narrow(ends) => size_of_val(&ends[..]),
            Self::Wide(ends) => size_of_val(&ends[..]),
        }
    }

    /// Converts row pointers to 32 bits if they fit.
    fn packed(ends: Cow<'_, [u64]>) -> Ends<'_> {
        match u32::try_from(ends.last().copied().unwrap_or_default()) {
            Ok(_) => Ends::Narrow(ends.par_iter().map(|&end| end as u32).collect()),
            Err(_) => Ends::Wide(ends),
        }
    }
}

/// One reward per row, or one for all rows.
enum Rewards<T> {
    Each(Vec<T>),
    Same(T),
}

impl<T: Precise> Rewards<T> {
    fn new(rewards: &[f64]) -> Self {
        match rewards {
            [first, rest @ ..] if rest.iter().all(|x| x.to_bits() == first.to_bits()) => {
                Self::Same(T::from_f64(*first))
            }
            _ => Self::Each(T::rounded(rewards).into_owned()),
        }
    }

    #[inline(always)]
    fn get(&self, row: usize) -> f64 {
        match self {
            Self::Each(rewards) => rewards[row].to_f64(),
            Self::Same(reward) => reward.to_f64(),
        }
    }

    fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Each(rewards) => Self::Each(parallel::array(rows.len(), |row| rewards[rows[row]])),
            Self::Same(reward) => Self::Same(*reward),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Each(rewards) => size_of_val(&rewards[..]),
            Self::Same(reward) => size_of_val(reward),
        }
    }
}

/// A model in compressed sparse rows.
struct CompressedRows<'m, T, C: Successor, P: Probability> {
    gamma: f64,
    choices: Choices,
    ends: Ends<'m>,
    successor: Cow<'m, [C]>,
    stored: Cow<'m, [P::Stored]>,
    probability: P,
    reward: Rewards<T>,
}

impl<T: Precise, C: Successor, P: Probability> States<T> for CompressedRows<'_, T, C, P> {
    #[inline(always)]
    fn count(&self, state: usize) -> usize {
        self.choices.count(state)
    }

    #[inline(always)]
    fn q_factors<'a>(
        &'a self,
        state: usize,
        value: impl Fn(usize) -> f64 + Copy + 'a,
    ) -> impl Iterator<Item = f64> + 'a {
        self.choices.rows(state).map(move |row| {
            let entries = self.ends.entries(row);
            let (successors, stored) = (&self.successor[entries.clone()], &self.stored[entries]);
            let stored = &stored[..successors.len()];
            let term = |i: usize| self.probability.decode(stored[i]) * value(successors[i].state_after(state));
            self.reward.get(row) + self.gamma * expect(successors.len(), term)
        })
    }

    fn entries(&self, state: usize, mut show: impl FnMut(usize, f64)) {
        for entry in self.choices.rows(state).flat_map(|row| self.ends.entries(row)) {
            show(self.successor[entry].state_after(state), self.gamma * self.probability.decode(self.stored[entry]));
        }
    }

    fn successors(&self, states: Range<usize>, mut show: impl FnMut(usize, usize) -> bool) {
        let mut last = usize::MAX;
        for state in states {
            let rows = self.choices.rows(state);
            let entries = match rows.is_empty() {
                true => continue,
                false => self.ends.entries(rows.start).start..self.ends.entries(rows.end - 1).end,
            };
            for successor in &self.successor[entries] {
                let successor = successor.state_after(state);
                // Adjacent entries are often in the same block; report it once.
                if successor / super::BLOCK != last {
                    last = successor / super::BLOCK;
                    if !show(successor, successor) {
                        return;
                    }
                }
            }
        }
    }

    fn set_rewards(&mut self, rewards: &[f64]) -> bool {
        self.reward = Rewards::new(rewards);
        true
    }

    type Projected = CompressedRows<'static, T, C, P>;

    fn project(&self, policy: &[u32], rewards: bool) -> Self::Projected {
        let selected = |state: usize| {
            let rows = self.choices.rows(state);
            (!rows.is_empty()).then(|| rows.start + policy[state] as usize)
        };
        let rows = parallel::flat_map(policy.len(), selected);
        let mut ends = vec![0; rows.len() + 1];
        parallel::fill(&mut ends[1..], |row| self.ends.entries(rows[row]).len() as u64);
        for row in 0..rows.len() {
            ends[row + 1] += ends[row];
        }
        let total = ends[rows.len()] as usize;
        let (mut successor, mut stored) = (vec![C::default(); total], vec![P::Stored::default(); total]);
        let chunks = split(&ends, &mut successor).into_iter().zip(split(&ends, &mut stored));
        parallel::map(chunks, |((first, successor), (_, stored))| {
            let mut target = 0;
            for &row in rows[first..].iter().take(CHUNK) {
                let source = self.ends.entries(row);
                let end = target + source.len();
                successor[target..end].copy_from_slice(&self.successor[source.clone()]);
                stored[target..end].copy_from_slice(&self.stored[source]);
                target = end;
            }
        });
        CompressedRows {
            gamma: self.gamma,
            choices: single(&self.choices, policy.len()),
            ends: Ends::packed(ends.into()),
            successor: successor.into(),
            stored: stored.into(),
            probability: self.probability.clone(),
            reward: if rewards { self.reward.select(&rows) } else { Rewards::Same(T::ZERO) },
        }
    }

    fn bytes(&self) -> u64 {
        (self.ends.bytes() + size_of_val(&*self.successor) + size_of_val(&*self.stored) + self.reward.bytes()) as u64
    }
}

/// The choices with one action for each state that has actions.
fn single(choices: &Choices, states: usize) -> Choices {
    match choices {
        Choices::Uniform(_) => Choices::Uniform(1),
        Choices::Ragged(_) => {
            let mut offsets = Vec::with_capacity(states + 1);
            offsets.push(0);
            offsets.extend((0..states).scan(0, |first, state| {
                *first += u64::from(choices.count(state) > 0);
                Some(*first)
            }));
            Choices::Ragged(offsets.into())
        }
    }
}

/// Stores a model in rows: plain, or packed without loss if `pack`.
pub(super) fn store<'m, T: Precise>(mdp: &'m Mdp, reward: &[f64], pack: bool) -> Box<dyn Storable<T> + 'm> {
    let (gamma, choices) = (mdp.gamma(), mdp.choices().clone());
    let ends = Ends::packed(Cow::Borrowed(mdp.transitions().row_ptr()));
    let reward = Rewards::new(reward);
    macro_rules! stored {
        ($successor:expr, $stored:expr, $probability:expr) => {
            Box::new(Stored(CompressedRows {
                gamma,
                choices,
                ends,
                successor: $successor,
                stored: $stored,
                probability: $probability,
                reward,
            }))
        };
    }
    macro_rules! with_successors {
        ($stored:expr, $probability:expr) => {
            match if pack { distances(mdp) } else { None } {
                Some(distances) => stored!(Cow::<[i16]>::Owned(distances), $stored, $probability),
                None => stored!(Cow::Borrowed(&mdp.transitions().col()[..]), $stored, $probability),
            }
        };
    }
    let probs = &mdp.transitions().val()[..];
    let pack = pack && !palette::seem_distinct(probs, u16::COUNT);
    match if pack { palette::distinct(probs, u16::COUNT) } else { None } {
        Some(palette) if palette.len() <= u8::COUNT => {
            with_successors!(palette::indices::<u8>(probs, &palette).into(), Palette::<u8>::new::<T>(&palette))
        }
        Some(palette) => {
            with_successors!(palette::indices::<u16>(probs, &palette).into(), Palette::<u16>::new::<T>(&palette))
        }
        None => with_successors!(T::rounded(probs), Direct(PhantomData)),
    }
}

/// A chain without rewards, from the rows of γP.
pub(super) fn chain<T: Precise>(rows: impl Iterator<Item = Vec<(u32, T)>>) -> Box<dyn Storable<T>> {
    let (mut ends, mut successor, mut stored) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        successor.extend(row.iter().map(|entry| entry.0));
        stored.extend(row.iter().map(|entry| entry.1));
        ends.push(successor.len() as u64);
    }
    Box::new(Stored(CompressedRows {
        gamma: 1.0,
        choices: Choices::Uniform(1),
        ends: Ends::packed(ends.into()),
        successor: Cow::<[u32]>::Owned(successor),
        stored: stored.into(),
        probability: Direct(PhantomData),
        reward: Rewards::Same(T::ZERO),
    }))
}

/// Successors as offsets relative to their state, if all fit in 16 bits.
fn distances(mdp: &Mdp) -> Option<Vec<i16>> {
    let (states, choices) = (mdp.states() as usize, mdp.choices());
    let (row_ptr, col) = (&mdp.transitions().row_ptr()[..], &mdp.transitions().col()[..]);
    let of_chunk = |first: usize| {
        let last = states.min(first + CHUNK);
        let start = row_ptr[choices.first(first)];
        let mut distances = Vec::with_capacity((row_ptr[choices.first(last)] - start) as usize);
        for state in first..last {
            let entries = row_ptr[choices.first(state)] as usize..row_ptr[choices.first(state + 1)] as usize;
            for &successor in &col[entries] {
                distances.push(i16::try_from(i64::from(successor) - state as i64).ok()?);
            }
        }
        Some(distances)
    };
    let chunks: Option<Vec<Vec<i16>>> =
        (0..states.div_ceil(CHUNK)).into_par_iter().map(|chunk| of_chunk(chunk * CHUNK)).collect();
    Some(chunks?.concat())
}
