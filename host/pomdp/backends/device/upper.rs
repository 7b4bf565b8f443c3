//! Upper bounds on a device: the fast informed bound and the sawtooth bound.

use std::cmp::Reverse;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::pomdp::best_action::best_action;
use warpkov_kernels::pomdp::gather::belief_values;
use warpkov_kernels::pomdp::sawtooth::{
    NewPointsArgs, PlacedPointsArgs, PointsArgs, SuccessorsArgs, UpperBoundArgs, bound_beliefs, bound_successors,
    place_points,
};
use warpkov_kernels::primitives::rows::RowsArgs;

use crate::backends::device::backup::{Backups, THREADS, threads};
use crate::backends::device::beliefs::Beliefs;
use crate::belief::Belief;
use warpkov_runtime::Precise;
use warpkov_runtime::scratch::Scratch;

/// Maximum number of points.
const MAX_POINTS: usize = 1 << 14;

/// Bounds may use 1/`LIMIT_DIVISOR` of the memory limits of a batch.
const LIMIT_DIVISOR: usize = 4;

/// Maximum number of beliefs bounded per batch.
pub(super) const MAX_BELIEFS: usize = 256;

/// Work limit per batch, in states and entries of points read: about as long as the backup of the batch.
const WORK_LIMIT: u64 = 1 << 24;

/// If fewer beliefs than this fit into the work limit, some batches are skipped.
const FEW_BELIEFS: usize = 64;

/// Maximum of points times entries, which bounds the work of pruning.
const MAX_PRUNING_WORK: usize = 1 << 29;

/// Maximum number of rows bounded in one launch.
const MAX_ROWS: usize = 1024;

/// Maximum number of threads per block; more threads read more points at once.
const MAX_THREADS: u32 = 512;

/// Maximum number of scratch elements for these rows.
const MAX_ELEMENTS: usize = 1 << 25;

/// The upper bound on V\*, with points in precision T.
pub(super) struct Upper<T: Precise> {
    states: u32,
    actions: u32,
    /// Fast informed bound Q(s, a) at index s·A + a.
    informed: AnyBuffer<f64>,
    /// v(s) = maxₐ Q(s, a).
    corners: AnyBuffer<f64>,
    points: Points<T>,
    /// Number of points after the last pruning.
    pruned: usize,
    /// The last points, which [`new_points`](Self::new_points) returns.
    fresh: usize,
    /// Number of calls of [`tighten`](Self::tighten), which serves as time.
    now: u32,
    /// Number of beliefs within the work limit, estimated from the last batch.
    affordable: usize,
    /// Work counter of the last launch.
    work: AnyBuffer<u64>,
    /// A scratch row of S elements per block; zeros between launches.
    row: AnyBuffer<f64>,
    /// Indices of the nonzeros of `row`, S elements per block.
    list: AnyBuffer<u32>,
    chosen: Scratch<u32>,
    bounds: Scratch<f64>,
    bases: Scratch<f64>,
}

/// Points of the sawtooth bound: beliefs c, and the drop u − c·v < 0 of the upper bound below the vertices'
/// interpolation.
struct Points<T: Precise> {
    /// |S|.
    states: u32,
    /// Host copy of the row pointer.
    ends: Vec<u32>,
    /// Row pointer of the points.
    ptr: AnyBuffer<u32>,
    /// States of their nonzeros.
    state: AnyBuffer<u32>,
    /// Probabilities of their nonzeros.
    prob: AnyBuffer<T>,
    /// The most probable state of each point.
    peak_state: AnyBuffer<u32>,
    /// The probability of that state.
    peak_prob: AnyBuffer<T>,
    /// u − c·v.
    drop: AnyBuffer<f64>,
    /// Time of the last use.
    used: AnyBuffer<u32>,
}

/// Sparse rows, some of which become points.
type Rows<'a, T> = RowsArgs<'a, T, u32, AnyDevice>;

/// A row that becomes a point: its index, its number of nonzeros, its drop, and the time of its last use.
struct New {
    row: u32,
    entries: u32,
    drop: f64,
    used: u32,
}

impl<T: Precise> Points<T> {
    /// Reserves memory for points and entries.
    fn new(device: &AnyDevice, states: u32, points: usize, entries: usize) -> Result<Self, DeviceError> {
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

    fn rows(&self) -> Rows<'_, T> {
        RowsArgs { ptr: &self.ptr, col: &self.state, prob: &self.prob }
    }

    fn bytes(&self) -> usize {
        Self::bytes_of(self.drop.len(), self.state.len())
    }

    fn bytes_of(points: usize, entries: usize) -> usize {
        entries * (4 + size_of::<T>()) + points * (4 + 4 + size_of::<T>() + 8 + 4)
    }

    /// Appends points. The caller has reserved their memory.
    fn place(&mut self, device: &AnyDevice, from: Rows<'_, T>, new: &[New]) -> Result<(), DeviceError> {
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
        // SAFETY: `row` of each new point is the index of a nonempty row of `from`, and callers have reserved memory
        // for the points and their entries.
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

    /// The points that `stays` selects by index and drop.
    fn some(&self, device: &AnyDevice, stays: impl Fn(usize, f64) -> bool) -> Result<Vec<New>, DeviceError> {
        let (mut drops, mut used) = (vec![0.0; self.count()], vec![0; self.count()]);
        device.download(&self.drop, &mut drops)?;
        device.download(&self.used, &mut used)?;
        let point =
            |i: usize| New { row: i as u32, entries: self.ends[i + 1] - self.ends[i], drop: drops[i], used: used[i] };
        Ok((0..self.count()).filter(|&i| stays(i, drops[i])).map(point).collect())
    }
}

/// Builds the kernel arguments of the bound from fields of an [`Upper`], so that its other fields can be borrowed
/// mutably. (A method would borrow all of it.)
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

impl<T: Precise> Upper<T> {
    /// The fast informed bound Q(s, a), without points.
    pub fn new(device: &AnyDevice, actions: u32, informed: &[f64]) -> Result<Self, DeviceError> {
        let corners = informed
            .chunks(actions as usize)
            .map(|of_state| of_state.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        let corners: Vec<f64> = corners.collect();
        let elements = corners.len() * (MAX_ELEMENTS / corners.len().max(1)).clamp(1, MAX_ROWS);
        Ok(Self {
            states: corners.len() as u32,
            actions,
            informed: device.upload(informed)?,
            corners: device.upload(&corners)?,
            points: Points::new(device, corners.len() as u32, 0, 0)?,
            pruned: 0,
            fresh: 0,
            now: 0,
            affordable: MAX_BELIEFS,
            work: device.zeros(1)?,
            row: device.zeros(elements)?,
            list: device.zeros(elements)?,
            chosen: Scratch::new(device)?,
            bounds: Scratch::new(device)?,
            bases: Scratch::new(device)?,
        })
    }

    /// Bytes of points.
    pub fn bytes(&self) -> usize {
        self.points.bytes()
    }

    /// One block per row, as far as scratch memory permits.
    fn shape(&self, rows: usize) -> Shape {
        Shape::new(
            rows.clamp(1, self.row.len() / self.states as usize) as u32,
            self.states.next_multiple_of(32).min(MAX_THREADS),
        )
    }

    /// If points exceed `bytes`, keeps the most recently used ones in half of that.
    pub fn shrink(&mut self, device: &AnyDevice, bytes: usize) -> Result<(), DeviceError> {
        if self.bytes() <= bytes {
            return Ok(());
        }
        let mut kept = self.points.some(device, |_, _| true)?;
        kept.sort_by_key(|point| (Reverse(point.used), point.row));
        let mut taken = 0;
        kept.retain(|point| {
            taken += Points::<T>::bytes_of(1, point.entries as usize);
            taken <= bytes / 2
        });
        kept.sort_by_key(|point| point.row);
        self.count_fresh(&kept);
        let entries = kept.iter().map(|point| point.entries as usize).sum();
        let mut left = Points::new(device, self.states, kept.len(), entries)?;
        left.place(device, self.points.rows(), &kept)?;
        (self.points, self.pruned) = (left, kept.len());
        Ok(())
    }

    /// Counts the fresh points among those that stay.
    fn count_fresh(&mut self, kept: &[New]) {
        let first = self.points.count() - self.fresh;
        self.fresh = kept.iter().filter(|point| point.row as usize >= first).count();
    }

    /// The points added since the last call of [`add_points`](Self::add_points), with their drops.
    pub fn new_points(&mut self, device: &AnyDevice) -> Result<Vec<(Belief, f64)>, DeviceError> {
        if self.fresh == 0 {
            return Ok(Vec::new());
        }
        let first = self.points.count() - self.fresh;
        let new = self.points.some(device, |i, _| i >= first)?;
        let entries = new.iter().map(|point| point.entries as usize).sum();
        let mut last = Points::new(device, self.states, new.len(), entries)?;
        last.place(device, self.points.rows(), &new)?;
        let (states, probs) = (device.to_vec(&last.state)?, device.to_vec(&last.prob)?);
        let point = |(ends, new): (&[u32], &New)| {
            let entries = ends[0] as usize..ends[1] as usize;
            let probs = probs[entries.clone()].iter().map(|p| p.to_f64()).collect();
            (Belief::built(states[entries].to_vec(), probs), new.drop)
        };
        Ok(last.ends.windows(2).zip(&new).map(point).collect())
    }

    /// Adds those of these points that lower the bound by more than `min_improvement`. Afterwards, no point is fresh.
    pub fn add_points(
        &mut self,
        backups: &Backups<'_, T>,
        points: &[(Belief, f64)],
        min_improvement: f64,
    ) -> Result<(), DeviceError> {
        let (device, most) = (backups.device, backups.limits.entries / LIMIT_DIVISOR);
        for points in points.chunks(MAX_ROWS) {
            let beliefs: Vec<Belief> = points.iter().map(|(belief, _)| belief.clone()).collect();
            let rows = Beliefs::upload(device, &beliefs, 0)?;
            let (known, bases) = self.bound(device, points.len(), Some(rows.args()))?;
            let lowers = |&j: &usize| known[j] - (bases[j] + points[j].1) > min_improvement;
            let new = (0..points.len()).filter(lowers).map(|j| New {
                row: j as u32,
                entries: beliefs[j].states().len() as u32,
                drop: points[j].1,
                used: self.now,
            });
            let new: Vec<New> = new.collect();
            self.add(device, rows.args(), &new, most)?;
        }
        self.fresh = 0;
        Ok(())
    }

    /// Number of beliefs of a batch that can be bounded in one launch.
    pub fn fitting(&self, backups: &Backups<'_, T>, beliefs: &Beliefs<T>) -> u32 {
        let each = self.actions as usize * (self.states as usize).max(backups.observations as usize);
        (backups.limits.elements / LIMIT_DIVISOR / each).clamp(1, self.affordable).min(beliefs.count as usize) as u32
    }

    /// Upper bounds on Q(b, a) of the first `count` beliefs, into `work.values`.
    fn look_ahead(
        &mut self,
        backups: &mut Backups<'_, T>,
        beliefs: &Beliefs<T>,
        count: u32,
    ) -> Result<(), DeviceError> {
        backups.predict(beliefs, count)?;
        let (device, states, actions) = (backups.device, self.states, self.actions);
        let (codes, pairs) = (backups.codes(count), count * actions);
        let Backups { model, work, observations, .. } = backups;
        let model = model.args();
        let (q, flags) = (work.predicted.get(), work.flags.get());
        let (scores, values) = (work.scores.at_least(device, codes)?, work.values.at_least(device, pairs as usize)?);
        let shape = self.shape(codes);
        device.clear(&mut self.work)?;
        let known = known!(self);
        // SAFETY: `Pomdp` guarantees columns of T below |S| and of O below |Ω|; states of beliefs and points are below
        // |S|; buffers have an element per code; every kernel leaves `row` zeroed.
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

    /// Only one batch in this number is bounded; more than 1 if beliefs are expensive.
    pub fn every(&self) -> usize {
        (FEW_BELIEFS / self.affordable).max(1)
    }

    /// Estimates from the work of the last `count` beliefs how many fit into the work limit.
    fn afford(&mut self, device: &AnyDevice, count: u32) -> Result<(), DeviceError> {
        let mut work = [0];
        device.download(&self.work, &mut work)?;
        self.affordable = (u64::from(count) * WORK_LIMIT / work[0].max(1)).clamp(1, MAX_BELIEFS as u64) as usize;
        Ok(())
    }

    /// The best actions by the upper bound at the first `count` beliefs, at most [`fitting`](Self::fitting) of them.
    pub fn actions(
        &mut self,
        backups: &mut Backups<'_, T>,
        beliefs: &Beliefs<T>,
        count: u32,
    ) -> Result<Vec<u32>, DeviceError> {
        self.look_ahead(backups, beliefs, count)?;
        let (device, values) = (backups.device, backups.work.values.get());
        let (best, shape) = (self.chosen.at_least(device, count as usize)?, Shape::cover(u64::from(count), THREADS));
        best_action(device, shape, self.actions, count, values, best)?;
        let mut chosen = vec![0; count as usize];
        device.download(best, &mut chosen)?;
        self.afford(device, count)?;
        Ok(chosen)
    }

    /// Upper bounds and vertex interpolations x·v of the first `count` rows. Without `rows`, bounds each point by the
    /// other points.
    fn bound(
        &mut self,
        device: &AnyDevice,
        count: usize,
        rows: Option<Rows<'_, T>>,
    ) -> Result<(Vec<f64>, Vec<f64>), DeviceError> {
        let shape = self.shape(count);
        let (bounds, bases) = (self.bounds.at_least(device, count)?, self.bases.at_least(device, count)?);
        let known = known!(self);
        let (themselves, rows) = (u32::from(rows.is_none()), rows.unwrap_or(known.points.rows));
        // SAFETY: states of rows and points are below |S|, and every kernel leaves `row` zeroed.
        unsafe {
            bound_beliefs(device, shape, count as u32, rows, themselves, known, &mut self.row, bounds, bases)?;
        }
        let (mut found, mut without) = (vec![0.0; count], vec![0.0; count]);
        device.download(bounds, &mut found)?;
        device.download(bases, &mut without)?;
        Ok((found, without))
    }

    /// Upper bounds at beliefs.
    pub fn at(&mut self, device: &AnyDevice, beliefs: &Beliefs<T>) -> Result<Vec<f64>, DeviceError> {
        Ok(self.bound(device, beliefs.count as usize, Some(beliefs.args()))?.0)
    }

    /// Computes one-step lookaheads at the first beliefs, and adds points where these lower the bound by more than
    /// `min_improvement`. Returns the largest decrease.
    pub fn tighten(
        &mut self,
        backups: &mut Backups<'_, T>,
        beliefs: &Beliefs<T>,
        min_improvement: f64,
    ) -> Result<f64, DeviceError> {
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
        self.add(device, rows, &new, backups.limits.entries / LIMIT_DIVISOR)?;
        Ok(fallen)
    }

    /// Adds points, and prunes if there are too many.
    fn add(&mut self, device: &AnyDevice, rows: Rows<'_, T>, new: &[New], most: usize) -> Result<(), DeviceError> {
        let added: usize = new.iter().map(|point| point.entries as usize).sum();
        let (points, entries) = (self.points.count() + new.len(), self.points.entries() + added);
        if points > self.points.drop.len() || entries > self.points.state.len() {
            // Growth by a factor of 2, so that points move seldom.
            let (points, entries) = (points.max(2 * self.points.count()), entries.max(2 * self.points.entries()));
            let mut grown = Points::new(device, self.states, points, entries)?;
            grown.place(device, self.points.rows(), &self.points.some(device, |_, _| true)?)?;
            self.points = grown;
        }
        self.points.place(device, rows, new)?;
        self.fresh += new.len();
        let many = points > MAX_POINTS || entries > most || points.saturating_mul(entries) > MAX_PRUNING_WORK;
        if many || points > self.pruned + self.pruned / 2 + MAX_BELIEFS {
            self.prune(device, most)?;
        }
        Ok(())
    }

    /// Removes points that other points imply. If too many remain, removes the least recently used ones.
    fn prune(&mut self, device: &AnyDevice, most: usize) -> Result<(), DeviceError> {
        let (bounds, bases) = self.bound(device, self.points.count(), None)?;
        let mut kept = self.points.some(device, |i, drop| bounds[i] - bases[i] > drop)?;
        kept.sort_by_key(|point| (Reverse(point.used), point.row));
        let (mut points, mut entries) = (0, 0);
        kept.retain(|point| {
            points += 1;
            entries += point.entries as usize;
            points <= MAX_POINTS - MAX_POINTS / 4
                && entries <= most - most / 4
                && points.saturating_mul(entries) <= MAX_PRUNING_WORK / 2
        });
        kept.sort_by_key(|point| point.row);
        self.count_fresh(&kept);
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
