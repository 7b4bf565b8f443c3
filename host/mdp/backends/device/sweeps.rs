//! Parts of the loops of sweeps: the launch of a sweep, the stopping rule, and the dependencies between tiles.

use std::ops::Range;

use warpkov_common::interrupt;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::mdp::backup::{SweepArgs, TilesArgs};
use warpkov_kernels::mdp::change::of_sweep;
use warpkov_kernels::mdp::model::IteratesArgs;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::analysis::tiles::Tiles;
use crate::backend::Stop;

/// Threads per block for kernels without a fixed block size.
pub(crate) const THREADS: u32 = 256;

/// Launches at most `batch` steps without synchronisation. Returns their number, which is smaller after an interrupt.
pub(crate) fn launch_batch<E>(batch: usize, mut step: impl FnMut(usize) -> Result<(), E>) -> Result<usize, E> {
    for k in 0..batch {
        if k > 0 && interrupt::requested() {
            return Ok(k);
        }
        step(k)?;
    }
    Ok(batch)
}

/// The launch of a sweep over some states of a model.
///
/// It is valid if V and V_new have one element per state of the model, `sweep.slots` has the slots of `sweep.number`, and
/// `states` lies below |S|, begins with a tile, and ends with one or with the states to visit. `sweep.tiles` are those of the model's layout.
pub(super) struct BackupLaunch<'a, T: Precise> {
    pub device: &'a AnyDevice,
    pub states: Range<u32>,
    pub v: IteratesArgs<'a, T, AnyDevice>,
    pub sweep: SweepArgs<'a, AnyDevice>,
}

/// The shape of a grid-stride loop over tiles of states: at most one block per tile.
pub(super) fn by_tile(states: &Range<u32>, tile: u32) -> Shape {
    Shape { resident: true, ..Shape::new((states.end - states.start).div_ceil(tile), THREADS) }
}

/// The stopping rule in device memory, where the kernels read it.
pub(crate) struct StopOnDevice {
    pub buffer: AnyBuffer<f64>,
    now: Option<Stop>,
}

impl StopOnDevice {
    pub fn new(device: &AnyDevice) -> Result<Self, DeviceError> {
        Ok(Self { buffer: device.zeros(2)?, now: None })
    }

    /// Writes the rule to the device if it has changed.
    pub fn set(&mut self, device: &AnyDevice, stop: Stop) -> Result<(), DeviceError> {
        if self.now != Some(stop) {
            self.now = Some(stop);
            device.write(&mut self.buffer, &[stop.bound(), f64::from(u8::from(matches!(stop, Stop::Span(_))))])?;
        }
        Ok(())
    }
}

/// Dependencies between tiles in device memory, for skipping.
pub(super) struct Dependencies {
    pub skip: bool,
    pub ptr: AnyBuffer<u32>,
    pub needs: AnyBuffer<u32>,
    pub changed_old: AnyBuffer<u32>,
    pub changed_new: AnyBuffer<u32>,
    /// States per tile.
    pub len: u32,
    /// All ones, one per tile: before the first sweep, every tile counts as changed.
    pub all: Vec<u32>,
}

impl Dependencies {
    pub fn upload(device: &AnyDevice, tiles: Option<&Tiles>, len: u32) -> Result<Self, DeviceError> {
        let (ptr, needs) = tiles.map_or((&[][..], &[][..]), |tiles| (&tiles.ptr, &tiles.needs));
        let all = vec![1; ptr.len().saturating_sub(1)];
        Ok(Self {
            skip: tiles.is_some(),
            ptr: device.upload(ptr)?,
            needs: device.upload(needs)?,
            changed_old: device.upload(&all)?,
            changed_new: device.zeros(all.len())?,
            len,
            all,
        })
    }

    /// The tiles as kernel arguments.
    pub fn args(&mut self) -> TilesArgs<'_, AnyDevice> {
        let Self { skip, ptr, needs, changed_old, changed_new, len, .. } = self;
        TilesArgs { len: *len, skip: u32::from(*skip), needs_ptr: ptr, needs, changed_old, changed_new }
    }

    /// Marks all tiles as changed.
    pub fn changed_all(&mut self, device: &AnyDevice) -> Result<(), DeviceError> {
        device.write(&mut self.changed_old, &self.all)
    }
}

/// Least and greatest change from the slots of a sweep; 0 if no state has an action.
pub(crate) fn changes(slot: &[u64]) -> [f64; 2] {
    let (least, greatest) = of_sweep(slot[0], slot[1]);
    if greatest == f64::NEG_INFINITY { [0.0; 2] } else { [least, greatest] }
}
