//! Models in sliced ELLPACK (SELL) layout, 32 states per slice, for the kernels of [`warpkov_kernels::mdp::backup`].

use std::ops::Range;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use rayon::prelude::*;
use warpkov_common::parallel;
use warpkov_device::device::{DeviceCopy, Offset};
use warpkov_device::launch::Device;
use warpkov_kernels::mdp::backup::slices::SLICE;

use super::resident::checked_offset;
use crate::analysis::palette::{distinct, indices};
use crate::model::Mdp;
use warpkov_runtime::Precise;

/// Slices per task of a parallel loop.
const TASK: usize = 64;

/// Bytes per upload piece; the host fills one piece while the previous one is copied.
const PIECE: usize = 16 << 20;

/// Positions of the elements of a model in SELL layout.
#[derive(Clone)]
pub(super) struct Slices {
    states: usize,
    /// First entry of each slice, then the number of entries.
    pub ptr: Vec<u64>,
    /// First reward of each slice, then the number of rewards.
    pub reward_ptr: Vec<u64>,
    /// Per slice: maximum number of actions · 2¹⁶ + length of the longest row.
    pub extent: Vec<u32>,
}

impl Slices {
    /// The slices of a model. `None` if padding more than doubles the size, or if a state has 2¹⁶ actions or a row has
    /// 2¹⁶ entries.
    pub fn of(mdp: &Mdp) -> Option<Self> {
        let states = mdp.states() as usize;
        let extent = |slice: usize| {
            let states = slice * SLICE..states.min((slice + 1) * SLICE);
            let rows = mdp.choices().first(states.start)..=mdp.choices().first(states.end);
            let actions = states.map(|state| mdp.choices().count(state)).max().unwrap_or(0);
            let ends = &mdp.transitions().row_ptr()[rows];
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
        let least = mdp.transitions().nnz() as u64 + mdp.rows() as u64;
        (entries + rewards <= 2 * least + 4096).then_some(Self { states, ptr, reward_ptr, extent })
    }

    /// The slice descriptors that the kernels read: first entry, first reward, actions, row length. `first` maps the
    /// first two to their positions on the device.
    pub fn place<O: Offset>(&self, first: impl Fn(usize, [u64; 2]) -> [u64; 2] + Sync) -> Vec<O> {
        let of_slice = |slice: usize| {
            let [entry, reward] = first(slice, [self.ptr[slice], self.reward_ptr[slice]]);
            let extent = u64::from(self.extent[slice]);
            [entry, reward, extent >> 16, extent & 0xFFFF].map(checked_offset)
        };
        parallel::flat_map(self.extent.len(), of_slice)
    }

    /// Number of entries including padding.
    pub fn entries(&self) -> usize {
        self.ptr[self.extent.len()] as usize
    }

    /// Number of rewards including padding.
    pub fn rewards(&self) -> usize {
        self.reward_ptr[self.extent.len()] as usize
    }

    /// An array with one element per entry of all slices, filled by `fill`.
    pub fn entries_of<E: DeviceCopy>(&self, fill: impl Fn(Range<usize>, &mut [E])) -> Vec<E> {
        let mut elements = vec![E::zeroed(); self.entries()];
        fill(0..self.extent.len(), &mut elements);
        elements
    }

    /// An array with one element per reward of all slices, filled by `fill`.
    pub fn rewards_of<E: DeviceCopy>(&self, fill: impl Fn(Range<usize>, &mut [E])) -> Vec<E> {
        let mut elements = vec![E::zeroed(); self.rewards()];
        fill(0..self.extent.len(), &mut elements);
        elements
    }

    /// Uploads an array with one element per entry; copies one piece while `fill` computes the next.
    pub fn upload_entries<E: DeviceCopy>(
        &self,
        device: &AnyDevice,
        fill: impl Fn(Range<usize>, &mut [E]),
    ) -> Result<AnyBuffer<E>, DeviceError> {
        upload(device, &self.ptr, PIECE, fill)
    }

    /// Uploads an array with one element per reward in the same way.
    pub fn upload_rewards<E: DeviceCopy>(
        &self,
        device: &AnyDevice,
        fill: impl Fn(Range<usize>, &mut [E]),
    ) -> Result<AnyBuffer<E>, DeviceError> {
        upload(device, &self.reward_ptr, PIECE, fill)
    }

    /// Fills the entries of `slices` with `of(state, entry)`, where `entry` is the index in the model, and the padding
    /// with `padding(state)`.
    fn fill_entries<E: Send>(
        &self,
        mdp: &Mdp,
        slices: Range<usize>,
        elements: &mut [E],
        of: impl Fn(usize, usize) -> E + Sync,
        padding: impl Fn(usize) -> E + Sync,
    ) {
        parallel::map(tasks(&self.ptr, slices, elements), |(slices, elements)| {
            let first = slices.start;
            for slice in slices {
                let start = (self.ptr[slice] - self.ptr[first]) as usize;
                let (actions, length) = ((self.extent[slice] >> 16) as usize, (self.extent[slice] & 0xFFFF) as usize);
                for lane in 0..SLICE {
                    let state = slice * SLICE + lane;
                    let rows = if state < self.states { mdp.choices().rows(state) } else { 0..0 };
                    for action in 0..actions {
                        let row = rows.start + action;
                        let range = match row < rows.end {
                            true => {
                                mdp.transitions().row_ptr()[row] as usize..mdp.transitions().row_ptr()[row + 1] as usize
                            }
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
    }

    /// Fills with successors; padding refers to the state itself.
    pub fn successors<'a>(&'a self, mdp: &'a Mdp) -> impl Fn(Range<usize>, &mut [u32]) + 'a {
        let of = move |_: usize, entry: usize| mdp.transitions().col()[entry];
        move |slices, elements| self.fill_entries(mdp, slices, elements, of, |state| state as u32)
    }

    /// Fills with discounted probabilities; padding is 0.
    pub fn probabilities<'a, T: Precise>(&'a self, mdp: &'a Mdp) -> impl Fn(Range<usize>, &mut [T]) + 'a {
        let of = move |_: usize, entry: usize| T::from_f64(mdp.gamma() * mdp.transitions().val()[entry]);
        move |slices, elements| self.fill_entries(mdp, slices, elements, of, |_| T::ZERO)
    }

    /// Fills with expected rewards; −∞ for actions that a state lacks.
    pub fn earnings<'a, T: Precise>(&'a self, mdp: &'a Mdp, reward: &'a [f64]) -> impl Fn(Range<usize>, &mut [T]) + 'a {
        move |slices, elements| {
            self.fill_rewards(mdp, slices, elements, |row| T::from_f64(reward[row]), T::NEG_INFINITY);
        }
    }

    /// Fills with successor offsets relative to the state, converted by `narrow`.
    pub fn distances<'a, I: DeviceCopy>(
        &'a self,
        mdp: &'a Mdp,
        narrow: impl Fn(i64) -> I + Sync + 'a,
    ) -> impl Fn(Range<usize>, &mut [I]) + 'a {
        let of = move |state: usize, entry: usize| narrow(i64::from(mdp.transitions().col()[entry]) - state as i64);
        move |slices, elements| self.fill_entries(mdp, slices, elements, &of, |_| I::zeroed())
    }

    /// Fills with indices of probabilities in `palette`, whose element 0 is 0.
    pub fn probability_indices<'a>(&'a self, mdp: &'a Mdp, palette: &[f64]) -> impl Fn(Range<usize>, &mut [u8]) + 'a {
        let index: Vec<u8> = indices(mdp.transitions().val(), palette);
        move |slices, elements| self.fill_entries(mdp, slices, elements, |_, entry| index[entry], |_| 0)
    }

    /// Fills with indices of expected rewards in `palette`, whose element 0 is −∞.
    pub fn reward_indices<'a>(
        &'a self,
        mdp: &'a Mdp,
        reward: &[f64],
        palette: &[f64],
    ) -> impl Fn(Range<usize>, &mut [u16]) + 'a {
        let index: Vec<u16> = indices(reward, palette);
        move |slices, elements| self.fill_rewards(mdp, slices, elements, |row| index[row], 0)
    }

    /// Fills the rewards of `slices` with `of(row)`, and with `none` for actions that a state lacks.
    fn fill_rewards<E: Copy + Send + Sync>(
        &self,
        mdp: &Mdp,
        slices: Range<usize>,
        elements: &mut [E],
        of: impl Fn(usize) -> E + Sync,
        none: E,
    ) {
        parallel::map(tasks(&self.reward_ptr, slices, elements), |(slices, elements)| {
            let first = slices.start;
            for slice in slices {
                let start = (self.reward_ptr[slice] - self.reward_ptr[first]) as usize;
                for lane in 0..SLICE {
                    let state = slice * SLICE + lane;
                    let rows = if state < self.states { mdp.choices().rows(state) } else { 0..0 };
                    for action in 0..(self.extent[slice] >> 16) as usize {
                        let row = rows.start + action;
                        elements[start + action * SLICE + lane] = if row < rows.end { of(row) } else { none };
                    }
                }
            }
        });
    }
}

/// Splits the elements of `slices`, which start at `ptr`, into tasks of a few slices.
fn tasks<'e, E>(ptr: &[u64], slices: Range<usize>, mut elements: &'e mut [E]) -> Vec<(Range<usize>, &'e mut [E])> {
    let end = slices.end;
    let part = |first: usize| {
        let part = first..end.min(first + TASK);
        let length = ptr[part.end] - ptr[part.start];
        (part, elements.split_off_mut(..length as usize).unwrap_or_default())
    };
    slices.step_by(TASK).map(part).collect()
}

/// Uploads the elements of all slices in pieces of at most `bytes` bytes or one slice.
fn upload<E: DeviceCopy>(
    device: &AnyDevice,
    ptr: &[u64],
    bytes: usize,
    fill: impl Fn(Range<usize>, &mut [E]),
) -> Result<AnyBuffer<E>, DeviceError> {
    // The slice after each piece.
    let (mut last, mut start) = (Vec::new(), 0);
    for slice in 0..ptr.len() - 1 {
        if (ptr[slice + 1] - start) as usize * size_of::<E>() > bytes && start < ptr[slice] {
            last.push(slice);
            start = ptr[slice];
        }
    }
    last.push(ptr.len() - 1);
    let ends: Vec<usize> = last.iter().map(|&slice| ptr[slice] as usize).collect();
    device.upload_pieces(&ends, |piece, elements| {
        let first = if piece == 0 { 0 } else { last[piece - 1] };
        fill(first..last[piece], elements);
    })
}

/// The distinct numbers of an array, compared by their bits, with `first` at index 0; `None` if there are more than
/// `most`.
pub(super) fn palette(first: f64, numbers: &[f64], most: usize) -> Option<Vec<f64>> {
    let mut found = distinct(numbers, most)?;
    found.retain(|number| number.to_bits() != first.to_bits());
    found.insert(0, first);
    (found.len() <= most).then_some(found)
}

#[cfg(test)]
mod tests {
    use warpkov_device::emulator::Emulator;

    use super::*;
    use crate::generate::Garnet;

    #[test]
    fn uploads_in_pieces_equal_one_upload() {
        let garnet = Garnet { states: 5001, ragged: true, terminal_fraction: 0.1, ..Garnet::default() };
        let mdp = garnet.generate().unwrap();
        let slices = Slices::of(&mdp).unwrap();
        let whole = slices.entries_of(slices.probabilities::<f64>(&mdp));
        assert!(whole.len() > 50_000);
        let device = AnyDevice::from(Emulator::default());
        for bytes in [1, 1000, 8 * SLICE * 20, 100_000, usize::MAX] {
            let uploaded = upload(&device, &slices.ptr, bytes, slices.probabilities::<f64>(&mdp)).unwrap();
            assert!(device.to_vec(&uploaded).unwrap() == whole, "{bytes}");
        }
        let reward = mdp.expected_rewards();
        let whole = slices.rewards_of(slices.earnings::<f32>(&mdp, &reward));
        let uploaded = upload(&device, &slices.reward_ptr, 500, slices.earnings::<f32>(&mdp, &reward)).unwrap();
        assert!(device.to_vec(&uploaded).unwrap() == whole);
    }

    #[test]
    #[should_panic(expected = "too small")]
    fn offsets_do_not_wrap() {
        let slices = Slices::of(&Garnet::default().generate().unwrap()).unwrap();
        let wide: Vec<u64> = slices.place(|_, [entry, reward]| [entry + (1 << 32), reward]);
        assert_eq!(wide[0], 1 << 32);
        let _: Vec<u32> = slices.place(|_, [entry, reward]| [entry + (1 << 32), reward]);
    }
}
