//! Models as slices of 32 states, as the kernels of [`warpkov_kernels::mdp::backup`] read them.

use rayon::prelude::*;
use warpkov_kernels::device::Offset;
use warpkov_kernels::mdp::backup::slices::SLICE;

use crate::backend::Precise;
use crate::backend::palette::{distinct, indices};
use crate::mdp::model::{CHUNK, Mdp, split};

/// Where the elements of slices are.
#[derive(Clone)]
pub(super) struct Slices {
    states: usize,
    /// First entry of each slice, and their number.
    pub ptr: Vec<u64>,
    /// First reward of each slice, and their number.
    pub reward_ptr: Vec<u64>,
    /// Most actions · 2¹⁶ + longest row of each slice.
    pub extent: Vec<u32>,
}

impl Slices {
    /// The slices of a model; `None` where they would be mostly padding, or where a state has 2¹⁶ actions or a row so many
    /// entries.
    pub fn of(mdp: &Mdp) -> Option<Self> {
        let states = mdp.states as usize;
        let extent = |slice: usize| {
            let states = slice * SLICE..states.min((slice + 1) * SLICE);
            let rows = mdp.choices.first(states.start)..=mdp.choices.first(states.end);
            let actions = states.map(|state| mdp.choices.count(state)).max().unwrap_or(0);
            let ends = &mdp.transitions.row_ptr[rows];
            let length = ends.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
            (actions < 1 << 16 && length < 1 << 16).then_some((actions as u32) << 16 | length as u32)
        };
        let extent: Option<Vec<u32>> = (0..states.div_ceil(SLICE)).into_par_iter().map(extent).collect();
        let extent = extent?;
        let (mut ptr, mut reward_ptr) = (vec![0], vec![0]);
        let (mut entries, mut rewards) = (0, 0);
        for &extent in &extent {
            let (actions, length) = (u64::from(extent >> 16), u64::from(extent & 0xFFFF));
            entries += SLICE as u64 * actions * length;
            rewards += SLICE as u64 * actions;
            ptr.push(entries);
            reward_ptr.push(rewards);
        }
        let least = mdp.transitions.nnz() as u64 + mdp.rows() as u64;
        (entries + rewards <= 2 * least + 4096).then_some(Self { states, ptr, reward_ptr, extent })
    }

    /// Where each slice is, as the kernels read it. Its first entry and its first reward are those that `first` makes of them.
    pub fn place<O: Offset>(&self, first: impl Fn(usize, [u64; 2]) -> [u64; 2] + Sync) -> Vec<O> {
        let of_slice = |slice: usize| {
            let [entry, reward] = first(slice, [self.ptr[slice], self.reward_ptr[slice]]);
            let extent = u64::from(self.extent[slice]);
            [entry, reward, extent >> 16, extent & 0xFFFF].map(|number| O::from_usize(number as usize))
        };
        (0..self.extent.len()).into_par_iter().flat_map_iter(of_slice).collect()
    }

    /// Entries, padding included.
    pub fn entries(&self) -> usize {
        self.ptr[self.extent.len()] as usize
    }

    /// Rewards, padding included.
    pub fn rewards(&self) -> usize {
        self.reward_ptr[self.extent.len()] as usize
    }

    /// What `of` gives for each entry of the model, in the order of the slices: it is given the state, and the number of
    /// the entry in the model. Padding is what `padding` gives for the state.
    fn fill_entries<E: Copy + Default + Send>(
        &self,
        mdp: &Mdp,
        of: impl Fn(usize, usize) -> E + Sync,
        padding: impl Fn(usize) -> E + Sync,
    ) -> Vec<E> {
        let mut elements = vec![E::default(); self.entries()];
        split(&self.ptr, &mut elements).into_par_iter().for_each(|(first, elements)| {
            for slice in first..self.extent.len().min(first + CHUNK) {
                let start = (self.ptr[slice] - self.ptr[first]) as usize;
                let (actions, length) = ((self.extent[slice] >> 16) as usize, (self.extent[slice] & 0xFFFF) as usize);
                for lane in 0..SLICE {
                    let state = slice * SLICE + lane;
                    let rows = if state < self.states { mdp.choices.rows(state) } else { 0..0 };
                    for action in 0..actions {
                        let row = rows.start + action;
                        let range = match row < rows.end {
                            true => mdp.transitions.row_ptr[row] as usize..mdp.transitions.row_ptr[row + 1] as usize,
                            false => 0..0,
                        };
                        for j in 0..length {
                            let inside = j < range.len();
                            let target = &mut elements[start + (action * length + j) * SLICE + lane];
                            *target =
                                if inside { of(state, range.start + j) } else { padding(state.min(self.states - 1)) };
                        }
                    }
                }
            }
        });
        elements
    }

    /// Successors.
    pub fn successors(&self, mdp: &Mdp) -> Vec<u32> {
        self.fill_entries(mdp, |_, entry| mdp.transitions.col[entry], |state| state as u32)
    }

    /// Probabilities, discounted.
    pub fn probabilities<T: Precise>(&self, mdp: &Mdp) -> Vec<T> {
        self.fill_entries(mdp, |_, entry| T::from_f64(mdp.gamma * mdp.transitions.val[entry]), |_| T::ZERO)
    }

    /// Expected rewards; −∞ where a state has no such action.
    pub fn earnings<T: Precise>(&self, mdp: &Mdp, reward: &[f64]) -> Vec<T> {
        self.fill_rewards(mdp, |row| T::from_f64(reward[row]), T::NEG_INFINITY)
    }

    /// How far successors are from their state, in a type that has room for it.
    pub fn distances<I: Copy + Default + Send>(&self, mdp: &Mdp, narrow: impl Fn(i64) -> I + Sync) -> Vec<I> {
        let distance = |state: usize, entry: usize| i64::from(mdp.transitions.col[entry]) - state as i64;
        self.fill_entries(mdp, |state, entry| narrow(distance(state, entry)), |_| I::default())
    }

    /// Probabilities as numbers of a palette, whose first is 0.
    pub fn probability_indices(&self, mdp: &Mdp, palette: &[f64]) -> Vec<u8> {
        let index: Vec<u8> = indices(&mdp.transitions.val, palette);
        self.fill_entries(mdp, |_, entry| index[entry], |_| 0)
    }

    /// Expected rewards as numbers of a palette, whose first is −∞.
    pub fn reward_indices(&self, mdp: &Mdp, reward: &[f64], palette: &[f64]) -> Vec<u16> {
        let index: Vec<u16> = indices(reward, palette);
        self.fill_rewards(mdp, |row| index[row], 0)
    }

    /// What `of` gives for each row of the model, in the order of the slices; `none` where a state has no such action.
    fn fill_rewards<E: Copy + Default + Send + Sync>(
        &self,
        mdp: &Mdp,
        of: impl Fn(usize) -> E + Sync,
        none: E,
    ) -> Vec<E> {
        let mut elements = vec![E::default(); self.rewards()];
        split(&self.reward_ptr, &mut elements).into_par_iter().for_each(|(first, elements)| {
            for slice in first..self.extent.len().min(first + CHUNK) {
                let start = (self.reward_ptr[slice] - self.reward_ptr[first]) as usize;
                for lane in 0..SLICE {
                    let state = slice * SLICE + lane;
                    let rows = if state < self.states { mdp.choices.rows(state) } else { 0..0 };
                    for action in 0..(self.extent[slice] >> 16) as usize {
                        let row = rows.start + action;
                        elements[start + action * SLICE + lane] = if row < rows.end { of(row) } else { none };
                    }
                }
            }
        });
        elements
    }
}

/// The different numbers of an array, told apart by their bits, with `first` as number 0; `None` if they are more than
/// `most`.
pub(super) fn palette(first: f64, numbers: &[f64], most: usize) -> Option<Vec<f64>> {
    let mut found = distinct(numbers, most)?;
    found.retain(|number| number.to_bits() != first.to_bits());
    found.insert(0, first);
    (found.len() <= most).then_some(found)
}
