//! SELL slices with successors as offsets of one or two bytes, and probabilities and rewards as indices into palettes.

use rayon::prelude::*;
use warpkov_device::device::Offset;
use warpkov_device::launch::Device;
use warpkov_kernels::mdp::backup::narrow::{Distance, NarrowSlicesArgs, backup_narrow};
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::numbers::{Footprint, ModelNumbers};
use super::slices::{Slices, upload};
use crate::analysis::palette::{distinct, seem_distinct};
use crate::backends::device::sweeps::{BackupLaunch, by_tile};
use crate::model::Mdp;

/// The distinct numbers of a model.
pub(in crate::backends::device) struct Palettes {
    /// Whether offsets have two bytes.
    pub wide: bool,
    /// Probabilities; the first is 0.
    pub prob: Vec<f64>,
    /// Expected rewards; the first is −∞.
    pub reward: Vec<f64>,
}

impl Palettes {
    /// The slices of a model with its palettes. `None` if successors are far away, or numbers too many.
    pub fn new<'m>(mdp: &'m Mdp, reward: &[f64]) -> Option<(Slices<'m>, Self)> {
        let reach = |state: usize| {
            let rows = mdp.choices().rows(state);
            let entries =
                mdp.transitions().row_ptr()[rows.start] as usize..mdp.transitions().row_ptr()[rows.end] as usize;
            let offsets = mdp.transitions().col()[entries].iter().map(|&successor| i64::from(successor) - state as i64);
            offsets.fold([0, 0], |[least, greatest]: [i64; 2], offset| [least.min(offset), greatest.max(offset)])
        };
        let fits = |[least, greatest]: [i64; 2], bits: u32| least >= -(1 << (bits - 1)) && greatest < 1 << (bits - 1);
        // An offset beyond 16 bits ends the search.
        let both = |a: [i64; 2], b: [i64; 2]| Some([a[0].min(b[0]), a[1].max(b[1])]).filter(|&both| fits(both, 16));
        let reached = (0..mdp.states() as usize).into_par_iter().map(|state| Some(reach(state)));
        let reached = reached.try_reduce(|| [0, 0], both)?;
        if seem_distinct(mdp.transitions().val(), 1 << 8) {
            return None;
        }
        let slices = Slices::new(mdp)?;
        let prob = palette(0.0, mdp.transitions().val(), 1 << 8)?;
        let reward = palette(f64::NEG_INFINITY, reward, 1 << 16)?;
        Some((slices, Self { wide: !fits(reached, 8), prob, reward }))
    }

    pub fn footprint<O: Offset>(&self, slices: &Slices) -> Footprint {
        let ([entry, reward], [entries, rewards]) = (self.bytes(), [slices.entries(), slices.rewards()]);
        let shared = slices.extent.len() * 4 * size_of::<O>() + entries * entry + rewards * reward;
        Footprint { longest: entries.max(rewards), shared, numbers: 0 }
    }

    /// Bytes per entry and per reward.
    pub fn bytes(&self) -> [usize; 2] {
        [if self.wide { 3 } else { 2 }, 2]
    }

    /// Uploads the palettes, with discounted probabilities.
    pub fn upload<T: Precise>(&self, device: &AnyDevice, gamma: f64) -> Result<ModelNumbers<T>, DeviceError> {
        let discounted: Vec<f64> = self.prob.iter().map(|p| gamma * p).collect();
        ModelNumbers::upload(device, &discounted, &self.reward)
    }

    /// Uploads `slices` with expected rewards `reward`, and their offsets converted by `narrow`.
    pub fn index<O: Offset, I: Distance>(
        &self,
        device: &AnyDevice,
        slices: &Slices,
        reward: &[f64],
        narrow: fn(i64) -> I,
    ) -> Result<NarrowIndex<O, I>, DeviceError> {
        Ok(NarrowIndex {
            place: device.upload(&slices.place::<O>(|_, first| first))?,
            offset: upload(device, &slices.ptr, slices.distances(narrow))?,
            prob: upload(device, &slices.ptr, slices.probability_indices(&self.prob))?,
            reward: upload(device, &slices.reward_ptr, slices.reward_indices(reward, &self.reward))?,
        })
    }
}

/// The distinct numbers of an array, compared by their bits, with `first` at index 0; `None` if there are more than
/// `most`.
fn palette(first: f64, numbers: &[f64], most: usize) -> Option<Vec<f64>> {
    let mut found = distinct(numbers, most)?;
    found.retain(|number| number.to_bits() != first.to_bits());
    found.insert(0, first);
    (found.len() <= most).then_some(found)
}

/// Slices in device memory, without their palettes.
pub(in crate::backends::device) struct NarrowIndex<O: Offset, I: Distance> {
    place: AnyBuffer<O>,
    offset: AnyBuffer<I>,
    prob: AnyBuffer<u8>,
    reward: AnyBuffer<u16>,
}

impl<O: Offset, I: Distance> NarrowIndex<O, I> {
    /// # Safety
    /// As [`BackupLaunch`] says, with the palettes `numbers` of these slices.
    pub unsafe fn launch<T: Precise>(
        &self,
        numbers: &ModelNumbers<T>,
        launch: BackupLaunch<T>,
    ) -> Result<(), DeviceError> {
        let Self { place, offset, prob, reward } = self;
        let ModelNumbers { prob: palette, reward: rewards } = numbers;
        let slices = NarrowSlicesArgs { place, offset, prob, palette, reward, rewards };
        let BackupLaunch { device, states, v, sweep } = launch;
        let shape = by_tile(&states, sweep.tiles.len);
        // SAFETY: `Mdp` guarantees columns below |S|, and `Palettes::index` made all arrays by the same slices and palettes.
        // The caller assures the rest.
        unsafe { backup_narrow(device, shape, states.end, states.start, slices, v, sweep) }
    }
}
