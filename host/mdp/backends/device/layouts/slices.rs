//! Slices in SELL (sliced ELLPACK, C = 32) layout: 32 states per slice, one thread per state; for short rows.

use std::ops::Range;

use rayon::prelude::*;
use warpkov_common::parallel;
use warpkov_device::device::{DeviceCopy, Offset};
use warpkov_device::launch::Device;
use warpkov_kernels::mdp::backup::slices::{SLICE, SlicesArgs, backup_slices};
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::numbers::{Footprint, ModelNumbers};
use super::rows::checked_offset;
use crate::analysis::palette::indices;
use crate::backends::device::sweeps::{BackupLaunch, THREADS, by_tile};
use crate::model::Mdp;

/// States per tile: one per thread.
pub(in crate::backends::device) const TILE: u32 = THREADS;

/// Slices per task of a parallel loop.
const TASK: usize = 64;

/// Bytes per upload piece; the host fills one piece while the previous one is copied.
const PIECE: usize = 16 << 20;

/// Positions of the elements of a model in slices.
#[derive(Clone)]
pub(in crate::backends::device) struct Slices<'m> {
    pub mdp: &'m Mdp,
    states: usize,
    /// First entry of each slice, then the number of entries.
    pub ptr: Vec<u64>,
    /// First reward of each slice, then the number of rewards.
    pub reward_ptr: Vec<u64>,
    /// Per slice: maximum number of actions · 2¹⁶ + length of the longest row.
    pub extent: Vec<u32>,
}

impl<'m> Slices<'m> {
    /// The slices of a model. `None` if padding more than doubles the size, or if a state has 2¹⁶ actions or a row has
    /// 2¹⁶ entries.
    pub fn new(mdp: &'m Mdp) -> Option<Self> {
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
        (entries + rewards <= 2 * least + 4096).then_some(Self { mdp, states, ptr, reward_ptr, extent })
    }

    pub fn footprint<O: Offset>(&self) -> Footprint {
        let (entries, rewards) = (self.entries(), self.rewards());
        let shared = self.extent.len() * 4 * size_of::<O>() + entries * 4;
        Footprint { longest: entries.max(rewards), shared, numbers: entries + rewards }
    }

    /// Uploads the slices with expected rewards `reward`.
    pub fn upload<T: Precise, O: Offset>(
        &self,
        device: &AnyDevice,
        reward: &[f64],
    ) -> Result<(SliceIndex<'m, O>, ModelNumbers<T>), DeviceError> {
        let index = SliceIndex {
            place: device.upload(&self.place::<O>(|_, first| first))?,
            col: upload(device, &self.ptr, self.successors())?,
            slices: self.clone(),
        };
        let prob = upload(device, &self.ptr, self.probabilities())?;
        Ok((index, ModelNumbers { prob, reward: upload(device, &self.reward_ptr, self.earnings(reward))? }))
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

    /// Fills the entries of `slices` with `of(state, entry)`, where `entry` is the index in the model, and the padding
    /// with `padding(state)`.
    fn fill_entries<E: Send>(
        &self,
        slices: Range<usize>,
        elements: &mut [E],
        of: impl Fn(usize, usize) -> E + Sync,
        padding: impl Fn(usize) -> E + Sync,
    ) {
        let ends = self.mdp.transitions().row_ptr();
        parallel::map(tasks(&self.ptr, slices, elements), |(slices, elements)| {
            let first = slices.start;
            for slice in slices {
                let start = (self.ptr[slice] - self.ptr[first]) as usize;
                let (actions, length) = ((self.extent[slice] >> 16) as usize, (self.extent[slice] & 0xFFFF) as usize);
                for lane in 0..SLICE {
                    let state = slice * SLICE + lane;
                    let rows = if state < self.states { self.mdp.choices().rows(state) } else { 0..0 };
                    for action in 0..actions {
                        let row = rows.start + action;
                        let range = if row < rows.end { ends[row] as usize..ends[row + 1] as usize } else { 0..0 };
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
    pub fn successors(&self) -> impl Fn(Range<usize>, &mut [u32]) {
        let of = move |_: usize, entry: usize| self.mdp.transitions().col()[entry];
        move |slices, elements| self.fill_entries(slices, elements, of, |state| state as u32)
    }

    /// Fills with discounted probabilities; padding is 0.
    pub fn probabilities<T: Precise>(&self) -> impl Fn(Range<usize>, &mut [T]) {
        let of = move |_: usize, entry: usize| T::from_f64(self.mdp.gamma() * self.mdp.transitions().val()[entry]);
        move |slices, elements| self.fill_entries(slices, elements, of, |_| T::ZERO)
    }

    /// Fills with expected rewards; −∞ for actions that a state lacks.
    pub fn earnings<T: Precise>(&self, reward: &[f64]) -> impl Fn(Range<usize>, &mut [T]) {
        move |slices, elements| {
            self.fill_rewards(slices, elements, |row| T::from_f64(reward[row]), T::NEG_INFINITY);
        }
    }

    /// Fills with successor offsets relative to the state, converted by `narrow`.
    pub fn distances<I: DeviceCopy>(&self, narrow: impl Fn(i64) -> I + Sync) -> impl Fn(Range<usize>, &mut [I]) {
        let of =
            move |state: usize, entry: usize| narrow(i64::from(self.mdp.transitions().col()[entry]) - state as i64);
        move |slices, elements| self.fill_entries(slices, elements, &of, |_| I::zeroed())
    }

    /// Fills with indices of probabilities in `palette`, whose element 0 is 0.
    pub fn probability_indices(&self, palette: &[f64]) -> impl Fn(Range<usize>, &mut [u8]) {
        let index: Vec<u8> = indices(self.mdp.transitions().val(), palette);
        move |slices, elements| self.fill_entries(slices, elements, |_, entry| index[entry], |_| 0)
    }

    /// Fills with indices of expected rewards in `palette`, whose element 0 is −∞.
    pub fn reward_indices(&self, reward: &[f64], palette: &[f64]) -> impl Fn(Range<usize>, &mut [u16]) {
        let index: Vec<u16> = indices(reward, palette);
        move |slices, elements| self.fill_rewards(slices, elements, |row| index[row], 0)
    }

    /// Fills the rewards of `slices` with `of(row)`, and with `none` for actions that a state lacks.
    fn fill_rewards<E: Copy + Send + Sync>(
        &self,
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
                    let rows = if state < self.states { self.mdp.choices().rows(state) } else { 0..0 };
                    for action in 0..(self.extent[slice] >> 16) as usize {
                        let row = rows.start + action;
                        elements[start + action * SLICE + lane] = if row < rows.end { of(row) } else { none };
                    }
                }
            }
        });
    }
}

/// Slices in device memory, without their numbers.
pub(in crate::backends::device) struct SliceIndex<'m, O: Offset> {
    place: AnyBuffer<O>,
    col: AnyBuffer<u32>,
    slices: Slices<'m>,
}

impl<O: Offset> SliceIndex<'_, O> {
    /// Expected rewards in the order of [`ModelNumbers`].
    pub fn rewards<T: Precise>(&self, reward: &[f64]) -> Vec<T> {
        array(&self.slices.reward_ptr, self.slices.earnings(reward))
    }

    /// # Safety
    /// As [`BackupLaunch`] says, with the `numbers` of these slices.
    pub unsafe fn launch<T: Precise>(
        &self,
        numbers: &ModelNumbers<T>,
        launch: BackupLaunch<T>,
    ) -> Result<(), DeviceError> {
        let slices = SlicesArgs { place: &self.place, col: &self.col, prob: &numbers.prob, reward: &numbers.reward };
        let BackupLaunch { device, states, v, sweep } = launch;
        let shape = by_tile(&states, sweep.tiles.len);
        // SAFETY: `Mdp` guarantees columns below |S|, and `upload` made all arrays by the same `Slices`. The caller assures
        // the rest.
        unsafe { backup_slices(device, shape, states.end, states.start, slices, v, sweep) }
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

/// An array of the elements of all slices, which start at `ptr`, filled by `fill`.
pub(in crate::backends::device) fn array<E: DeviceCopy>(ptr: &[u64], fill: impl Fn(Range<usize>, &mut [E])) -> Vec<E> {
    let slices = ptr.len() - 1;
    let mut elements = vec![E::zeroed(); ptr[slices] as usize];
    fill(0..slices, &mut elements);
    elements
}

/// Uploads such an array; copies one piece while `fill` computes the next.
pub(super) fn upload<E: DeviceCopy>(
    device: &AnyDevice,
    ptr: &[u64],
    fill: impl Fn(Range<usize>, &mut [E]),
) -> Result<AnyBuffer<E>, DeviceError> {
    upload_pieces(device, ptr, PIECE, fill)
}

/// Uploads in pieces of at most `bytes` bytes or one slice.
fn upload_pieces<E: DeviceCopy>(
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

#[cfg(test)]
mod tests {
    use warpkov_device::emulator::Emulator;

    use super::*;
    use crate::generate::Garnet;

    #[test]
    fn uploads_in_pieces_equal_one_upload() {
        let garnet = Garnet { states: 5001, ragged: true, terminals: 0.1, ..Garnet::default() };
        let mdp = garnet.generate().unwrap();
        let slices = Slices::new(&mdp).unwrap();
        let whole = array(&slices.ptr, slices.probabilities::<f64>());
        assert!(whole.len() > 50_000);
        let device = AnyDevice::from(Emulator::default());
        for bytes in [1, 1000, 8 * SLICE * 20, 100_000, usize::MAX] {
            let uploaded = upload_pieces(&device, &slices.ptr, bytes, slices.probabilities::<f64>()).unwrap();
            assert!(device.to_vec(&uploaded).unwrap() == whole, "{bytes}");
        }
        let reward = mdp.expected_rewards();
        let whole = array(&slices.reward_ptr, slices.earnings::<f32>(&reward));
        let uploaded = upload_pieces(&device, &slices.reward_ptr, 500, slices.earnings::<f32>(&reward)).unwrap();
        assert!(device.to_vec(&uploaded).unwrap() == whole);
    }

    #[test]
    #[should_panic(expected = "too small")]
    fn offsets_do_not_wrap() {
        let mdp = Garnet::default().generate().unwrap();
        let slices = Slices::new(&mdp).unwrap();
        let wide: Vec<u64> = slices.place(|_, [entry, reward]| [entry + (1 << 32), reward]);
        assert_eq!(wide[0], 1 << 32);
        let _: Vec<u32> = slices.place(|_, [entry, reward]| [entry + (1 << 32), reward]);
    }
}
