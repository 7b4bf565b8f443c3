//! Upper bounds on a device: the fast informed bound, and the sawtooth bound over points that stay there.

use std::cmp::Reverse;

use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::pomdp::best_action::best_action;
use warpkov_kernels::pomdp::gather::belief_values;
use warpkov_kernels::pomdp::sawtooth::{
    NewPointsArgs, PlacedPointsArgs, PointsArgs, SuccessorsArgs, UpperBoundArgs, bound_beliefs, bound_successors,
    place_points,
};
use warpkov_kernels::primitives::rows::RowsArgs;

use crate::pomdp::device::backup::{Backups, THREADS, threads};
use crate::pomdp::device::beliefs::Beliefs;
use crate::runtime::Precise;
use crate::runtime::scratch::Scratch;

/// Points at most.
const POINTS: usize = 1 << 14;

/// The part of the elements, and of the entries, that a batch may take elsewhere is one by this.
const PART: usize = 4;

/// Beliefs of a batch that are looked at, at most.
pub(super) const LOOKED_AT: usize = 256;

/// States and entries of points that may be looked at for them, about: as many as take no longer than to back the batch up.
const WORK: u64 = 1 << 24;

/// Where fewer beliefs than this are worth their while, not every batch is worth a launch.
const FEW: usize = 64;

/// Points times their entries, at most: what it takes to find out which points others imply.
const PAIRS: usize = 1 << 29;

/// Rows that are bounded at one time, where there is memory for them.
const AT_ONCE: usize = 1024;

/// Threads of a block that bounds a row: the more, the more points are looked at together.
const MOST_THREADS: u32 = 512;

/// Elements of them.
const ELEMENTS: usize = 1 << 25;

/// What bounds V\* from above, with points in precision T.
pub(super) struct Upper<T: Precise, D: Device> {
    states: u32,
    actions: u32,
    /// Q(s, a) at s·A + a, and the largest for each s.
    informed: D::Buffer<f64>,
    corners: D::Buffer<f64>,
    points: Points<T, D>,
    /// Points when they were last pruned.
    pruned: usize,
    /// Batches that were tightened.
    now: u32,
    /// Beliefs that are worth their while, by what the last ones took.
    affordable: usize,
    /// What was looked at.
    work: D::Buffer<u64>,
    /// A row of S elements for each block, zeros between uses, and its states.
    row: D::Buffer<f64>,
    list: D::Buffer<u32>,
    chosen: Scratch<u32, D>,
    bounds: Scratch<f64, D>,
    bases: Scratch<f64, D>,
}

/// Beliefs and how far V\* is below the corners there.
struct Points<T: Precise, D: Device> {
    /// |S|.
    states: u32,
    /// Where each begins, and where the last ends.
    ends: Vec<u32>,
    ptr: D::Buffer<u32>,
    state: D::Buffer<u32>,
    prob: D::Buffer<T>,
    peak_state: D::Buffer<u32>,
    peak_prob: D::Buffer<T>,
    drop: D::Buffer<f64>,
    used: D::Buffer<u32>,
}

/// Rows of which some become points.
type Rows<'a, T, D> = RowsArgs<'a, T, u32, D>;

/// A row that becomes a point: its number, its entries, its drop, and when it was last of use.
struct New {
    row: u32,
    entries: u32,
    drop: f64,
    used: u32,
}

impl<T: Precise, D: Device> Points<T, D> {
    /// Room for points and entries.
    fn new(device: &D, states: u32, points: usize, entries: usize) -> Result<Self, D::Error> {
        Ok(Self {
            states,
            ends: vec![0],
            ptr: device.zeros(points + 1)?,
            state: device.zeros(entries)?,
            prob: device.zeros(entries)?,
            peak_state: device.zeros(points)?,
            peak_prob: device.zeros(points)?,
            drop: device.zeros(points)?,
            used: device.zeros(points)?,
        })
    }

    fn count(&self) -> usize {
        self.ends.len() - 1
    }

    fn entries(&self) -> usize {
        self.ends[self.count()] as usize
    }

    fn rows(&self) -> Rows<'_, T, D> {
        RowsArgs { ptr: &self.ptr, col: &self.state, prob: &self.prob }
    }

    fn bytes(&self) -> usize {
        Self::bytes_of(self.drop.len(), self.state.len())
    }

    fn bytes_of(points: usize, entries: usize) -> usize {
        entries * (4 + size_of::<T>()) + points * (4 + 4 + size_of::<T>() + 8 + 4)
    }

    /// Adds points, for which there is room.
    fn place(&mut self, device: &D, from: Rows<'_, T, D>, new: &[New]) -> Result<(), D::Error> {
        if new.is_empty() {
            return Ok(());
        }
        let (first, mut end) = (self.count(), self.ends[self.count()]);
        let mut starts = Vec::with_capacity(new.len());
        for point in new {
            starts.push(end);
            end += point.entries;
            self.ends.push(end);
        }
        let rows: Vec<u32> = new.iter().map(|point| point.row).collect();
        let drops: Vec<f64> = new.iter().map(|point| point.drop).collect();
        let uses: Vec<u32> = new.iter().map(|point| point.used).collect();
        // SAFETY: there are such rows, none of them empty, and there is room for as many points and entries.
        unsafe {
            place_points(
                device,
                Shape::new(new.len() as u32, threads(self.states)),
                first as u32,
                NewPointsArgs {
                    picked: &device.upload(&rows)?,
                    starts: &device.upload(&starts)?,
                    drops: &device.upload(&drops)?,
                    uses: &device.upload(&uses)?,
                },
                from,
                PlacedPointsArgs {
                    ptr: &mut self.ptr,
                    state: &mut self.state,
                    prob: &mut self.prob,
                    peak_state: &mut self.peak_state,
                    peak_prob: &mut self.peak_prob,
                    drop: &mut self.drop,
                    used: &mut self.used,
                },
            )
        }
    }

    /// Those of the points that stay, by number and drop.
    fn some(&self, device: &D, stays: impl Fn(usize, f64) -> bool) -> Result<Vec<New>, D::Error> {
        let (mut drops, mut used) = (vec![0.0; self.count()], vec![0; self.count()]);
        device.download(&self.drop, &mut drops)?;
        device.download(&self.used, &mut used)?;
        let point =
            |i: usize| New { row: i as u32, entries: self.ends[i + 1] - self.ends[i], drop: drops[i], used: used[i] };
        Ok((0..self.count()).filter(|&i| stays(i, drops[i])).map(point).collect())
    }
}

/// The bound as kernels want it: of an [`Upper`], the rest of which may be written meanwhile.
macro_rules! known {
    ($upper:ident) => {{
        let (count, points) = ($upper.points.count() as u32, &mut $upper.points);
        UpperBoundArgs {
            states: $upper.states,
            actions: $upper.actions,
            corners: &$upper.corners,
            informed: &$upper.informed,
            points: PointsArgs {
                count,
                rows: RowsArgs { ptr: &points.ptr, col: &points.state, prob: &points.prob },
                peak_state: &points.peak_state,
                peak_prob: &points.peak_prob,
                drop: &points.drop,
            },
            now: $upper.now,
            used: &mut points.used,
        }
    }};
}

impl<T: Precise, D: Device> Upper<T, D> {
    /// Bounds by Q(s, a), and no point.
    pub fn new(device: &D, actions: u32, informed: &[f64]) -> Result<Self, D::Error> {
        let corners = informed
            .chunks(actions as usize)
            .map(|of_state| of_state.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        let corners: Vec<f64> = corners.collect();
        let elements = corners.len() * (ELEMENTS / corners.len().max(1)).clamp(1, AT_ONCE);
        Ok(Self {
            states: corners.len() as u32,
            actions,
            informed: device.upload(informed)?,
            corners: device.upload(&corners)?,
            points: Points::new(device, corners.len() as u32, 0, 0)?,
            pruned: 0,
            now: 0,
            affordable: LOOKED_AT,
            work: device.zeros(1)?,
            row: device.zeros(elements)?,
            list: device.zeros(elements)?,
            chosen: Scratch::new(device)?,
            bounds: Scratch::new(device)?,
            bases: Scratch::new(device)?,
        })
    }

    /// What points take.
    pub fn bytes(&self) -> usize {
        self.points.bytes()
    }

    /// A block for each row, as long as there is memory for them.
    fn shape(&self, rows: usize) -> Shape {
        Shape::new(
            rows.clamp(1, self.row.len() / self.states as usize) as u32,
            self.states.next_multiple_of(32).min(MOST_THREADS),
        )
    }

    /// Leaves points of half so many bytes, those that were of use last, if they take more.
    pub fn shrink(&mut self, device: &D, bytes: usize) -> Result<(), D::Error> {
        if self.bytes() <= bytes {
            return Ok(());
        }
        let mut kept = self.points.some(device, |_, _| true)?;
        kept.sort_by_key(|point| (Reverse(point.used), point.row));
        let mut taken = 0;
        kept.retain(|point| {
            taken += Points::<T, D>::bytes_of(1, point.entries as usize);
            taken <= bytes / 2
        });
        kept.sort_by_key(|point| point.row);
        let entries = kept.iter().map(|point| point.entries as usize).sum();
        let mut left = Points::new(device, self.states, kept.len(), entries)?;
        left.place(device, self.points.rows(), &kept)?;
        (self.points, self.pruned) = (left, kept.len());
        Ok(())
    }

    /// How many beliefs of a batch can be looked at together.
    pub fn fitting(&self, backups: &Backups<'_, T, D>, beliefs: &Beliefs<T, D>) -> u32 {
        let each = self.actions as usize * (self.states as usize).max(backups.observations as usize);
        (backups.limits.elements / PART / each).clamp(1, self.affordable).min(beliefs.count as usize) as u32
    }

    /// What the first `count` beliefs are worth at most by each action, in `work.values`.
    fn look_ahead(
        &mut self,
        backups: &mut Backups<'_, T, D>,
        beliefs: &Beliefs<T, D>,
        count: u32,
    ) -> Result<(), D::Error> {
        backups.predict(beliefs, count)?;
        let (device, states, actions) = (backups.device, self.states, self.actions);
        let (codes, pairs) = (backups.codes(count), count * actions);
        let Backups { model, work, observations, .. } = backups;
        let model = model.args();
        let (q, flags) = (work.predicted.get(), work.flags.get());
        let (scores, values) = (work.scores.of(device, codes)?, work.values.of(device, pairs as usize)?);
        let shape = self.shape(codes);
        device.clear(&mut self.work)?;
        let known = known!(self);
        // SAFETY: a `Pomdp` has only columns below |S| and |Ω|, beliefs and points are of its states, and buffers have room for every code; rows are
        // zeros between uses.
        unsafe {
            bound_successors(
                device,
                shape,
                model.observations,
                SuccessorsArgs { pairs, codes: codes as u32, q, flags },
                known,
                &mut self.row,
                &mut self.list,
                scores,
                &mut self.work,
            )?;
            belief_values(
                device,
                Shape::new(pairs, threads(states)),
                model,
                beliefs.args(),
                *observations,
                scores,
                values,
            )
        }
    }

    /// One batch of how many is looked at: where a belief takes long, few of them are.
    pub fn every(&self) -> usize {
        (FEW / self.affordable).max(1)
    }

    /// Learns from what the last `count` beliefs took, how many there may be.
    fn afford(&mut self, device: &D, count: u32) -> Result<(), D::Error> {
        let mut work = [0];
        device.download(&self.work, &mut work)?;
        self.affordable = (u64::from(count) * WORK / work[0].max(1)).clamp(1, LOOKED_AT as u64) as usize;
        Ok(())
    }

    /// The actions that look best at the first `count` beliefs, which [fit](Self::fitting).
    pub fn actions(
        &mut self,
        backups: &mut Backups<'_, T, D>,
        beliefs: &Beliefs<T, D>,
        count: u32,
    ) -> Result<Vec<u32>, D::Error> {
        self.look_ahead(backups, beliefs, count)?;
        let (device, values) = (backups.device, backups.work.values.get());
        let (best, shape) = (self.chosen.of(device, count as usize)?, Shape::cover(u64::from(count), THREADS));
        // SAFETY: there is a value for each belief and action.
        unsafe { best_action(device, shape, self.actions, count, values, best)? };
        let mut chosen = vec![0; count as usize];
        device.download(best, &mut chosen)?;
        self.afford(device, count)?;
        Ok(chosen)
    }

    /// The bounds of the first `count` of some rows, and of each x·v. If they are the points, each is bounded by the others.
    fn bound(
        &mut self,
        device: &D,
        count: usize,
        rows: Option<Rows<'_, T, D>>,
    ) -> Result<(Vec<f64>, Vec<f64>), D::Error> {
        let shape = self.shape(count);
        let (bounds, bases) = (self.bounds.of(device, count)?, self.bases.of(device, count)?);
        let known = known!(self);
        let (themselves, rows) = (u32::from(rows.is_none()), rows.unwrap_or(known.points.rows));
        // SAFETY: rows and points are of the model's states, and the memory of blocks is zeros between uses.
        unsafe {
            bound_beliefs(device, shape, count as u32, rows, themselves, known, &mut self.row, bounds, bases)?;
        }
        let (mut found, mut without) = (vec![0.0; count], vec![0.0; count]);
        device.download(bounds, &mut found)?;
        device.download(bases, &mut without)?;
        Ok((found, without))
    }

    /// The bounds of beliefs.
    pub fn at(&mut self, device: &D, beliefs: &Beliefs<T, D>) -> Result<Vec<f64>, D::Error> {
        Ok(self.bound(device, beliefs.count as usize, Some(beliefs.args()))?.0)
    }

    /// Makes points of those of the first beliefs whose bound falls by more than `min_improvement` by one step of lookahead. Returns by how
    /// much it falls at most.
    pub fn tighten(
        &mut self,
        backups: &mut Backups<'_, T, D>,
        beliefs: &Beliefs<T, D>,
        min_improvement: f64,
    ) -> Result<f64, D::Error> {
        let device = backups.device;
        self.now += 1;
        let count = self.fitting(backups, beliefs);
        self.look_ahead(backups, beliefs, count)?;
        let mut values = vec![0.0; (count * self.actions) as usize];
        device.download(backups.work.values.get(), &mut values)?;
        self.afford(device, count)?;
        let rows = beliefs.args();
        let (known, bases) = self.bound(device, count as usize, Some(rows))?;
        let mut ptr = vec![0; count as usize + 1];
        device.download(&beliefs.row_ptr, &mut ptr)?;
        let (mut new, mut fallen) = (Vec::new(), 0.0_f64);
        for (j, values) in values.chunks(self.actions as usize).enumerate() {
            let value = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if known[j] - value > min_improvement {
                fallen = fallen.max(known[j] - value);
                let (row, entries) = (j as u32, ptr[j + 1] - ptr[j]);
                new.push(New { row, entries, drop: value - bases[j], used: self.now });
            }
        }
        self.add(device, rows, &new, backups.limits.entries / PART)?;
        Ok(fallen)
    }

    /// Adds points, and takes others away where there are too many.
    fn add(&mut self, device: &D, rows: Rows<'_, T, D>, new: &[New], most: usize) -> Result<(), D::Error> {
        let added: usize = new.iter().map(|point| point.entries as usize).sum();
        let (points, entries) = (self.points.count() + new.len(), self.points.entries() + added);
        if points > self.points.drop.len() || entries > self.points.state.len() {
            // Twice as much, so that points move seldom.
            let (points, entries) = (points.max(2 * self.points.count()), entries.max(2 * self.points.entries()));
            let mut grown = Points::new(device, self.states, points, entries)?;
            grown.place(device, self.points.rows(), &self.points.some(device, |_, _| true)?)?;
            self.points = grown;
        }
        self.points.place(device, rows, new)?;
        let many = points > POINTS || entries > most || points.saturating_mul(entries) > PAIRS;
        if many || points > self.pruned + self.pruned / 2 + LOOKED_AT {
            self.prune(device, most)?;
        }
        Ok(())
    }

    /// Takes those points away that others imply, and of too many those that were not of use for the longest time.
    fn prune(&mut self, device: &D, most: usize) -> Result<(), D::Error> {
        let (bounds, bases) = self.bound(device, self.points.count(), None)?;
        let mut kept = self.points.some(device, |i, drop| bounds[i] - bases[i] > drop)?;
        kept.sort_by_key(|point| (Reverse(point.used), point.row));
        let (mut points, mut entries) = (0, 0);
        kept.retain(|point| {
            points += 1;
            entries += point.entries as usize;
            points <= POINTS - POINTS / 4 && entries <= most - most / 4 && points.saturating_mul(entries) <= PAIRS / 2
        });
        kept.sort_by_key(|point| point.row);
        self.pruned = kept.len();
        if kept.len() < self.points.count() {
            let (points, entries) = (self.points.drop.len(), self.points.state.len());
            let mut left = Points::new(device, self.states, points, entries)?;
            left.place(device, self.points.rows(), &kept)?;
            self.points = left;
        }
        Ok(())
    }
}
