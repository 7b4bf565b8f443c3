//! Value iteration on a model that is larger than the device's memory: parts of the model are streamed through it.
//!
//! V and the slice headers stay on the device. The elements stay in page-locked memory of the host, cut into parts of whole
//! tiles. The device has *windows*, each with room for the largest part. A sweep first processes the parts that are in a
//! window. The other parts are copied one after the other, while earlier parts are swept, each into the window that was swept
//! least recently: with n parts, w windows save w of n copies per sweep. Parts in which no value can change are neither copied
//! nor swept. V equals that of [`ValueIteration`](super::values::ValueIteration) bit for bit.

use std::ops::Range;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, AnyEvent, AnyPinned, DeviceError};

use rayon::prelude::*;
use warpkov_device::device::{DeviceCopy, Offset};
use warpkov_device::launch::Device;
use warpkov_kernels::mdp::backup::narrow::{NarrowSlicesArgs, backup_narrow};
use warpkov_kernels::mdp::backup::slices::{SLICE, SlicesArgs, backup_slices};
use warpkov_kernels::mdp::backup::{SLOTS, SweepArgs};
use warpkov_kernels::mdp::model::IteratesArgs;

use super::layout::{AnyLayout, Source, SweepLayout};
use super::layouts::narrow::Palettes;
use super::layouts::numbers::ModelNumbers;
use super::layouts::slices::{Slices, array};
use super::sweeps::{Dependencies, StopOnDevice, by_tile, changes};
use crate::analysis::tiles::Tiles;
use crate::backend::{Backups, GreedySweeps, State, Stop};
use crate::certificate::greedy;
use crate::model::Mdp;
use crate::options::Storage;
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

/// Maximum bytes of a part: enough for a copy at full bandwidth, and few enough that windows fill quickly.
const PART: u64 = 256 << 20;

/// Minimum number of windows, if tiles are small enough.
const WINDOWS: u64 = 8;

/// A model in a layout that can be streamed through a device.
pub struct Streaming<'m> {
    slices: Slices<'m>,
    /// The palettes of [`Storage::Narrow`].
    palettes: Option<Palettes>,
    reward: Vec<f64>,
    tiles: Option<Tiles>,
    /// States per tile.
    tile: u32,
    part_bytes: u64,
    room: u64,
    /// Why the model is streamed.
    pub(super) why: String,
}

/// Neighbouring tiles that are copied together.
struct Chunk {
    states: Range<u32>,
    slices: Range<usize>,
    entries: Range<usize>,
    rewards: Range<usize>,
    /// Tiles that the part's tiles depend on.
    needs: Vec<u32>,
}

impl<'m> Streaming<'m> {
    /// Cuts the model into parts of at most `part_bytes`, and at least one tile. The device holds as many parts as fit into
    /// `room` bytes, and at least two. `None` unless the layout is slices, plain or narrow.
    #[must_use]
    pub fn new(plan: SweepLayout<'m>, part_bytes: u64, room: u64) -> Option<Self> {
        let tile = plan.tile();
        let SweepLayout { reward, layout, tiles, .. } = plan;
        let (slices, palettes) = match layout {
            AnyLayout::Slices(slices) => (slices, None),
            AnyLayout::Narrow(slices, palettes) => (slices, Some(palettes)),
            AnyLayout::Rows(_) | AnyLayout::Patterns(_) => return None,
        };
        Some(Self { slices, palettes, reward, tiles, tile, part_bytes, room, why: "the model is streamed,".to_owned() })
    }

    /// The same for `free` bytes of device memory, with V in T; `None` if V and two parts do not fit.
    #[must_use]
    pub fn within<T: Precise>(plan: SweepLayout<'m>, free: u64) -> Option<Self> {
        let mut streaming = Self::new(plan, 0, 0)?;
        streaming.room = free.checked_sub(streaming.resident_bytes::<T>())?;
        streaming.part_bytes = (streaming.room / WINDOWS).min(PART);
        let parts = streaming.cut::<T>();
        (2 * streaming.window_bytes::<T>(&parts) <= streaming.room).then_some(streaming)
    }

    /// The layout of the entries.
    #[must_use]
    pub fn storage(&self) -> Storage {
        if self.palettes.is_some() { Storage::Narrow } else { Storage::Slices }
    }

    /// Whether sweeps skip tiles whose values cannot change.
    #[must_use]
    pub fn skips(&self) -> bool {
        self.tiles.is_some()
    }

    /// The number of parts, and the number of windows.
    #[must_use]
    pub fn parts<T: Precise>(&self) -> (usize, usize) {
        let parts = self.cut::<T>();
        (parts.len(), self.windows::<T>(&parts))
    }

    /// Whether offsets into a part need 64 bits.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        // Parts in f32 have the most elements.
        let (entries, rewards) = largest(&self.cut::<f32>());
        entries.max(rewards) > u32::MAX as usize - 1024
    }

    /// Total bytes of device memory, with V in T.
    #[must_use]
    pub fn bytes<T: Precise>(&self) -> u64 {
        let parts = self.cut::<T>();
        self.resident_bytes::<T>() + self.windows::<T>(&parts) as u64 * self.window_bytes::<T>(&parts)
    }

    /// Bytes of the model that a sweep reads.
    fn model_bytes<T>(&self) -> u64 {
        self.element_bytes::<T>(self.slices.entries(), self.slices.rewards()) + self.place_bytes()
    }

    fn element_bytes<T>(&self, entries: usize, rewards: usize) -> u64 {
        let plain = [4 + size_of::<T>(), size_of::<T>()];
        let [entry, reward] = self.palettes.as_ref().map_or(plain, Palettes::bytes);
        (entries * entry + rewards * reward) as u64
    }

    fn place_bytes(&self) -> u64 {
        4 * 8 * self.slices.extent.len() as u64
    }

    /// Bytes of device memory other than windows.
    fn resident_bytes<T>(&self) -> u64 {
        let palettes = self.palettes.as_ref().map_or(0, |palettes| palettes.prob.len() + palettes.reward.len());
        let tiles = self.tiles.as_ref().map_or(0, |tiles| 3 * tiles.ptr.len() + tiles.needs.len());
        let values = 2 * u64::from(self.slices.mdp.states()) * size_of::<T>() as u64;
        values + self.place_bytes() + (palettes * size_of::<T>() + 4 * tiles + 8 * SLOTS) as u64
    }

    fn window_bytes<T>(&self, parts: &[Chunk]) -> u64 {
        let (entries, rewards) = largest(parts);
        self.element_bytes::<T>(entries, rewards)
    }

    fn windows<T>(&self, parts: &[Chunk]) -> usize {
        let fit = self.room / self.window_bytes::<T>(parts).max(1);
        (fit as usize).max(2).min(parts.len())
    }

    /// The parts, in the order of their states.
    fn cut<T>(&self) -> Vec<Chunk> {
        let Slices { mdp, ptr, reward_ptr, extent, .. } = &self.slices;
        let (states, tile) = (mdp.states() as usize, self.tile as usize);
        let count = states.div_ceil(tile);
        let slice = |t: usize| (t * tile / SLICE).min(extent.len());
        let elements = |first: usize, end: usize| {
            let (first, end) = (slice(first), slice(end));
            let range = |ptr: &[u64]| ptr[first] as usize..ptr[end] as usize;
            (range(ptr), range(reward_ptr))
        };
        let mut parts = Vec::new();
        let mut first = 0;
        while first < count {
            let mut end = first + 1;
            while end < count {
                let (entries, rewards) = elements(first, end + 1);
                if self.element_bytes::<T>(entries.len(), rewards.len()) > self.part_bytes {
                    break;
                }
                end += 1;
            }
            let (entries, rewards) = elements(first, end);
            parts.push(Chunk {
                states: (first * tile) as u32..states.min(end * tile) as u32,
                slices: slice(first)..slice(end),
                entries,
                rewards,
                needs: self.tiles.as_ref().map_or_else(Vec::new, |tiles| needs(tiles, first..end)),
            });
            first = end;
        }
        parts
    }
}

/// Tiles that the tiles of `range` depend on, ascending.
fn needs(tiles: &Tiles, range: Range<usize>) -> Vec<u32> {
    let mut needs = tiles.needs[tiles.ptr[range.start] as usize..tiles.ptr[range.end] as usize].to_vec();
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// The largest numbers of entries and of rewards per part.
fn largest(parts: &[Chunk]) -> (usize, usize) {
    let most = |of: fn(&Chunk) -> usize| parts.iter().map(of).max().unwrap_or(0);
    (most(|part| part.entries.len()), most(|part| part.rewards.len()))
}

/// Successors, probabilities and rewards in page-locked memory, and the windows on the device.
struct Elements<C: DeviceCopy, P: DeviceCopy, R: DeviceCopy> {
    successor: AnyPinned<C>,
    probability: AnyPinned<P>,
    reward: AnyPinned<R>,
    /// The window swept least recently comes first.
    windows: Vec<Window<C, P, R>>,
    copies: u64,
}

struct Window<C: DeviceCopy, P: DeviceCopy, R: DeviceCopy> {
    /// The number of the part in the window.
    part: Option<usize>,
    /// Completion of the last sweep of the window.
    swept: AnyEvent,
    successor: AnyBuffer<C>,
    probability: AnyBuffer<P>,
    reward: AnyBuffer<R>,
}

impl<C: DeviceCopy, P: DeviceCopy, R: DeviceCopy> Elements<C, P, R> {
    fn new(
        device: &AnyDevice,
        (successor, probability, reward): (Vec<C>, Vec<P>, Vec<R>),
        parts: &[Chunk],
        windows: usize,
    ) -> Result<Self, DeviceError> {
        let (entries, rewards) = largest(parts);
        let window = || {
            let (successor, probability) = (device.zeros(entries)?, device.zeros(entries)?);
            let reward = device.zeros(rewards)?;
            Ok(Window { part: None, swept: device.record_event()?, successor, probability, reward })
        };
        let mut all = Vec::with_capacity(windows);
        for _ in 0..windows {
            match window() {
                Ok(window) => all.push(window),
                // Another process has taken the memory; two windows suffice.
                Err(_) if all.len() >= 2 => break,
                Err(error) => return Err(error),
            }
        }
        let (successor, probability) = (device.pin(successor)?, device.pin(probability)?);
        Ok(Self { successor, probability, reward: device.pin(reward)?, windows: all, copies: 0 })
    }

    /// Sorts the numbers of parts: parts in a window come first.
    fn order(&self, mut numbers: Vec<usize>) -> Vec<usize> {
        numbers.sort_by_key(|&number| !self.windows.iter().any(|window| window.part == Some(number)));
        numbers
    }

    /// The window of part `number`. Copies the part to the window swept least recently if no window holds it.
    fn hold(&mut self, device: &AnyDevice, number: usize, part: &Chunk) -> Result<&mut Window<C, P, R>, DeviceError> {
        let found = self.windows.iter().position(|window| window.part == Some(number));
        self.windows[found.unwrap_or(0)..].rotate_left(1);
        let last = self.windows.len() - 1;
        let window = &mut self.windows[last];
        if found.is_none() {
            // A copy that fails half-way leaves a window without a part.
            window.part = None;
            let Window { swept, successor, probability, reward, .. } = window;
            // SAFETY: only sweeps read a window, and the event `swept` follows the last sweep that did. The page-locked
            // elements live as long as `self`.
            unsafe {
                device.stage(&self.successor, part.entries.clone(), successor, swept)?;
                device.stage(&self.probability, part.entries.clone(), probability, swept)?;
                device.stage(&self.reward, part.rewards.clone(), reward, swept)?;
            }
            window.part = Some(number);
            self.copies += 1;
        }
        Ok(window)
    }
}

/// The elements of the three layouts.
enum Streams<T: Precise> {
    Plain(Elements<u32, T, T>),
    One(Elements<i8, u8, u16>, ModelNumbers<T>),
    Two(Elements<i16, u8, u16>, ModelNumbers<T>),
}

/// Value iteration by greedy sweeps over a streamed model, with V in T.
pub struct Streamed<'d, T: Precise, O: Offset> {
    device: &'d AnyDevice,
    mdp: &'d Mdp,
    parts: Vec<Chunk>,
    model: Streams<T>,
    model_bytes: u64,
    place: AnyBuffer<O>,
    tiles: Dependencies,
    v_old: AnyBuffer<T>,
    v_new: AnyBuffer<T>,
    slots: AnyBuffer<u64>,
    stop: StopOnDevice,
}

impl<'d, T: Precise, O: Offset> Streamed<'d, T, O> {
    /// Lays the model out in page-locked memory. V starts at 0.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Panics
    /// If O has 32 bits and the model [needs](Streaming::is_wide) 64.
    pub fn new(device: &'d AnyDevice, streaming: &Streaming<'d>) -> Result<Self, DeviceError> {
        assert!(O::WIDE || !streaming.is_wide(), "offsets of 32 bits are too small for the model");
        let Streaming { slices, palettes, reward, tiles, tile, .. } = streaming;
        let mdp = slices.mdp;
        let parts = streaming.cut::<T>();
        let windows = streaming.windows::<T>(&parts);
        // Positions are relative to the part.
        let part = |slice: usize| &parts[parts.partition_point(|part| part.slices.end <= slice)];
        let place = slices.place::<O>(|slice, [entry, reward]| {
            let part = part(slice);
            [entry - part.entries.start as u64, reward - part.rewards.start as u64]
        });
        let place = device.upload(&place)?;
        let states = mdp.states() as usize;
        let (v_old, v_new) = (device.zeros(states)?, device.zeros(states)?);
        let tiles = Dependencies::upload(device, tiles.as_ref(), *tile)?;
        // Windows take the remaining memory, so they are allocated last.
        let model = match palettes {
            None => {
                let successor = array(&slices.ptr, slices.successors());
                let probability = array(&slices.ptr, slices.probabilities());
                let elements = (successor, probability, array(&slices.reward_ptr, slices.earnings(reward)));
                Streams::Plain(Elements::new(device, elements, &parts, windows)?)
            }
            Some(palettes) => {
                let numbers = palettes.upload(device, mdp.gamma())?;
                let probability = array(&slices.ptr, slices.probability_indices(&palettes.prob));
                let reward = array(&slices.reward_ptr, slices.reward_indices(reward, &palettes.reward));
                if palettes.wide {
                    let elements = (array(&slices.ptr, slices.distances(|d| d as i16)), probability, reward);
                    Streams::Two(Elements::new(device, elements, &parts, windows)?, numbers)
                } else {
                    let elements = (array(&slices.ptr, slices.distances(|d| d as i8)), probability, reward);
                    Streams::One(Elements::new(device, elements, &parts, windows)?, numbers)
                }
            }
        };
        Ok(Self {
            device,
            mdp,
            parts,
            model,
            model_bytes: streaming.model_bytes::<T>(),
            place,
            tiles,
            v_old,
            v_new,
            slots: device.zeros(SLOTS)?,
            stop: StopOnDevice::new(device)?,
        })
    }

    /// The number of copies of parts to the device so far.
    #[must_use]
    pub fn copies(&self) -> u64 {
        match &self.model {
            Streams::Plain(elements) => elements.copies,
            Streams::One(elements, _) => elements.copies,
            Streams::Two(elements, _) => elements.copies,
        }
    }

    fn sweep(&mut self) -> Result<Backups, DeviceError> {
        let Self { device, parts, model, place, tiles, v_old, v_new, slots, stop, .. } = self;
        let device = *device;
        let changed = if tiles.skip { device.to_vec(&tiles.changed_old)? } else { Vec::new() };
        let may_change = |part: &Chunk| !tiles.skip || part.needs.iter().any(|&tile| changed[tile as usize] > 0);
        let active: Vec<usize> = (0..parts.len()).filter(|&number| may_change(&parts[number])).collect();
        let all = active.len() == parts.len();
        device.clear(slots)?;
        // No kernel writes the flags of tiles in skipped parts.
        device.clear(&mut tiles.changed_new)?;
        macro_rules! through {
            ($elements:ident, $kernel:ident, $slices:ident, $offset:ident $(, $numbers:ident)?) => {
                for number in $elements.order(active) {
                    let part = &parts[number];
                    let window = $elements.hold(device, number, part)?;
                    let Window { successor, probability, reward, .. } = &*window;
                    let slices = $slices {
                        place: &*place,
                        $offset: successor,
                        prob: probability,
                        reward,
                        $(palette: &$numbers.prob, rewards: &$numbers.reward)?
                    };
                    let Range { start, end } = part.states;
                    let shape = by_tile(&part.states, tiles.len);
                    let sweep =
                        SweepArgs { number: 0, stop: &stop.buffer, slots: &mut *slots, tiles: tiles.args(), lag: 1 };
                    let v = IteratesArgs { old: &*v_old, new: &mut *v_new };
                    // SAFETY: `Mdp` guarantees columns below |S|. `Streamed::new` gave the buffers the model's sizes. The window
                    // holds the part, which begins with a tile, and `place` has positions relative to it.
                    unsafe { $kernel(device, shape, end, start, slices, v, sweep)? };
                    window.swept = device.record_event()?;
                }
            };
        }
        match model {
            Streams::Plain(elements) => through!(elements, backup_slices, SlicesArgs, col),
            Streams::One(elements, numbers) => through!(elements, backup_narrow, NarrowSlicesArgs, offset, numbers),
            Streams::Two(elements, numbers) => through!(elements, backup_narrow, NarrowSlicesArgs, offset, numbers),
        }
        std::mem::swap(v_old, v_new);
        std::mem::swap(&mut tiles.changed_old, &mut tiles.changed_new);
        let mut found = [0; SLOTS];
        device.download(slots, &mut found)?;
        let [least, greatest] = changes(&found);
        let (least, greatest) = if all { (least, greatest) } else { (least.min(0.0), greatest.max(0.0)) };
        Ok(Backups { sweeps: 1, least, greatest, fixed: found[2] == 0 })
    }
}

impl<T: Precise, O: Offset> State for Streamed<'_, T, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        match initial {
            Some(values) => {
                assert_eq!(values.len(), self.mdp.states() as usize, "a value for each state");
                self.device.write(&mut self.v_old, &T::rounded(&Source::Host(self.mdp).without_terminal(values)))?;
            }
            None => self.device.clear(&mut self.v_old)?,
        }
        self.tiles.changed_all(self.device)
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        Ok(self.device.to_vec(&self.v_old)?.into_par_iter().map(T::to_f64).collect())
    }

    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        Ok(greedy(self.mdp, &self.values()?))
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    /// The model once, V read and written.
    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        Ok(self.model_bytes + 2 * u64::from(self.mdp.states()) * size_of::<T>() as u64)
    }
}

impl<T: Precise, O: Offset> GreedySweeps for Streamed<'_, T, O> {
    /// The host reads the changes of every sweep before it launches the next one: the copies take longer.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, DeviceError> {
        self.stop.set(self.device, stop)?;
        let mut done = Backups { sweeps: 0, least: 0.0, greatest: 0.0, fixed: false };
        loop {
            done = Backups { sweeps: done.sweeps + 1, ..self.sweep()? };
            let met = done.fixed || stop.is_met(done.least, done.greatest);
            if met || done.sweeps >= max_sweeps || interrupt::requested() {
                return Ok(done);
            }
        }
    }
}
