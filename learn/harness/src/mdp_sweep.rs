//! Chapter 9: a sweep of value iteration over five layouts of the same sparse model.
//!
//! The model is a grid world. An action moves to its own side with probability 0.8 and to each neighbouring side with
//! probability 0.1; a move into a wall or over the edge stays. Equal successors are merged, so a row has 1 to 3 entries.

use std::marker::PhantomData;

use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// Actions of each state: north, east, south, west.
pub const ACTIONS: usize = 4;
/// States of a slice.
pub const SLICE: usize = 32;
/// The discount factor γ.
pub const GAMMA: f64 = 0.95;

/// Compressed rows (CSR): row 4s + a holds the entries `ptr[4s + a]..ptr[4s + a + 1]`.
pub struct Rows<D: Device> {
    /// S.
    pub states: u32,
    /// 4S + 1 row pointers.
    pub ptr: D::Buffer<u32>,
    /// Successor of each entry.
    pub col: D::Buffer<u32>,
    /// γ P(s'|s, a) of each entry.
    pub prob: D::Buffer<f32>,
    /// r(s, a) of each row.
    pub reward: D::Buffer<f32>,
}

// ANCHOR: layouts
/// SELL (sliced ELLPACK, C = 32). Slice i holds the states 32i … 32i + 31 and begins at entry `first[i]`; its rows have
/// the length L = (`first[i + 1]` − `first[i]`) / 128. Entry j of action a of the state in lane l is element
/// `first[i]` + (aL + j)·32 + l. Its reward is element (4i + a)·32 + l.
pub struct Sell<D: Device> {
    /// S.
    pub states: u32,
    /// ⌈S / 32⌉ + 1 positions.
    pub first: D::Buffer<u32>,
    /// Successor of each entry.
    pub col: D::Buffer<u32>,
    /// γ P(s'|s, a) of each entry; 0 for padding.
    pub prob: D::Buffer<f32>,
    /// r(s, a).
    pub reward: D::Buffer<f32>,
}

/// SELL with small entries: the successor of state s is s + `offset`, its probability `palette[prob]`, the reward
/// `rewards[reward]`.
pub struct Narrow<D: Device> {
    /// S.
    pub states: u32,
    /// ⌈S / 32⌉ + 1 positions.
    pub first: D::Buffer<u32>,
    /// s' − s of each entry.
    pub offset: D::Buffer<i16>,
    /// Palette index of each probability; 0 for padding.
    pub prob: D::Buffer<u8>,
    /// γ P(s'|s, a), 11 numbers; the first is 0.
    pub palette: D::Buffer<f32>,
    /// Palette index of each reward.
    pub reward: D::Buffer<u8>,
    /// r(s, a), 16 numbers.
    pub rewards: D::Buffer<f32>,
}
// ANCHOR_END: layouts

/// One byte per state: the pattern m + 16k, with one of 16 moves m and one of 4 kinds of cell k.
pub struct Patterns<D: Device> {
    /// S.
    pub states: u32,
    /// m + 16k of each state.
    pub pattern: D::Buffer<u8>,
    /// 16 × 5: s' − s of the five successors of each move.
    pub offset: D::Buffer<i32>,
    /// 16 × 21, the last column unused: γ P(s'|s, a) for action a and successor d in column 5a + d.
    pub prob: D::Buffer<f32>,
    /// 4 × 5, the last column unused: r(s, a) of each kind.
    pub rewards: D::Buffer<f32>,
}

/// What the student launches: V_new(s) = maxₐ r(s, a) + Σ γ P(s'|s, a) V(s'), from each layout.
pub trait MdpSweep {
    /// Compressed rows, a block per state.
    ///
    /// # Errors
    /// Those of the device.
    fn block<D: Device>(
        device: &D,
        model: &Rows<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// Compressed rows, eight lanes per row.
    ///
    /// # Errors
    /// Those of the device.
    fn rows<D: Device>(
        device: &D,
        model: &Rows<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// SELL.
    ///
    /// # Errors
    /// Those of the device.
    fn sell<D: Device>(
        device: &D,
        model: &Sell<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// SELL with small entries.
    ///
    /// # Errors
    /// Those of the device.
    fn narrow<D: Device>(
        device: &D,
        model: &Narrow<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// Patterns.
    ///
    /// # Errors
    /// Those of the device.
    fn patterns<D: Device>(
        device: &D,
        model: &Patterns<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// A cell: its number is part of its pattern.
const GOAL: u8 = 2;
const WALL: u8 = 3;

/// The model, before it is laid out: cells in rows of `width`.
struct Grid {
    states: usize,
    width: usize,
    kinds: Vec<u8>,
    /// r(s, a) of each kind, 4 × 4.
    rewards: Vec<f32>,
    /// γ·i/10.
    palette: Vec<f32>,
}

impl Grid {
    /// About as wide as high, with walls at random. The last row may be incomplete.
    fn new<D: Device>(lab: &Lab<'_, D>, states: usize) -> Self {
        let kind = |number| match number {
            0 => WALL,
            1 => GOAL,
            2 | 3 => 1,
            _ => 0,
        };
        Self {
            states,
            width: states.isqrt().next_power_of_two(),
            kinds: lab.integers(states, 16, 0).into_iter().map(kind).collect(),
            rewards: lab.floats(4 * ACTIONS, 1),
            palette: (0..=10).map(|i| (GAMMA * f64::from(i) / 10.0) as f32).collect(),
        }
    }

    /// s' − s in direction `side`.
    fn step(&self, side: usize) -> isize {
        let width = self.width as isize;
        [-width, 1, width, -1][side]
    }

    /// The sides to which state s can move, one bit each.
    fn moves(&self, s: usize) -> usize {
        let open = |side: usize| {
            let inside = match side {
                1 => !(s + 1).is_multiple_of(self.width),
                3 => !s.is_multiple_of(self.width),
                _ => true,
            };
            let to = s.checked_add_signed(self.step(side)).filter(|&to| inside && to < self.states);
            to.is_some_and(|to| self.kinds[to] != WALL)
        };
        if self.kinds[s] == WALL { 0 } else { (0..4).map(|side| usize::from(open(side)) << side).sum() }
    }

    /// The entries of a row, from the moves of its state: s' − s and tenths of probability. The count is 1 to 3.
    fn row(&self, moves: usize, action: usize) -> ([(isize, u8); 3], usize) {
        let (mut entries, mut count) = ([(0, 0); 3], 0);
        for (side, tenths) in [(action, 8), ((action + 1) % 4, 1), ((action + 3) % 4, 1)] {
            let offset = if moves >> side & 1 == 1 { self.step(side) } else { 0 };
            if let Some(entry) = entries[..count].iter_mut().find(|(known, _)| *known == offset) {
                entry.1 += tenths;
            } else {
                entries[count] = (offset, tenths);
                count += 1;
            }
        }
        (entries, count)
    }

    fn reward(&self, s: usize, action: usize) -> u8 {
        (ACTIONS * usize::from(self.kinds[s]) + action) as u8
    }

    /// The values after a sweep, in f64.
    fn sweep(&self, v: &[f32]) -> Vec<f64> {
        let value = |s: usize| {
            let moves = self.moves(s);
            let q = |action| {
                let (entries, count) = self.row(moves, action);
                let term = |&(offset, tenths): &(isize, u8)| {
                    f64::from(self.palette[usize::from(tenths)]) * f64::from(v[s.wrapping_add_signed(offset)])
                };
                let reward = self.rewards[usize::from(self.reward(s, action))];
                f64::from(reward) + entries[..count].iter().map(term).sum::<f64>()
            };
            (0..ACTIONS).map(q).fold(f64::NEG_INFINITY, f64::max)
        };
        (0..self.states).map(value).collect()
    }

    fn rows<D: Device>(&self, device: &D) -> Result<Rows<D>, D::Error> {
        let (mut ptr, mut col, mut prob, mut reward) = (vec![0], vec![], vec![], vec![]);
        for s in 0..self.states {
            let moves = self.moves(s);
            for action in 0..ACTIONS {
                let (entries, count) = self.row(moves, action);
                for &(offset, tenths) in &entries[..count] {
                    col.push(s.wrapping_add_signed(offset) as u32);
                    prob.push(self.palette[usize::from(tenths)]);
                }
                ptr.push(col.len() as u32);
                reward.push(self.rewards[usize::from(self.reward(s, action))]);
            }
        }
        Ok(Rows {
            states: self.states as u32,
            ptr: device.upload(&ptr)?,
            col: device.upload(&col)?,
            prob: device.upload(&prob)?,
            reward: device.upload(&reward)?,
        })
    }

    /// Positions of the slices; then state, offset and tenths of each entry, and state and number of each reward. Lanes
    /// behind the last state repeat it, with probability 0.
    fn slices(&self, mut entry: impl FnMut(usize, isize, u8), mut reward: impl FnMut(u8)) -> Vec<u32> {
        let mut first = vec![0];
        for slice in 0..self.states.div_ceil(SLICE) {
            let states = (SLICE * slice..SLICE * (slice + 1)).map(|s| (s.min(self.states - 1), s < self.states));
            let all: Vec<_> = states
                .map(|(s, real)| {
                    let moves = if real { self.moves(s) } else { 0 };
                    (s, real, [0, 1, 2, 3].map(|action| self.row(moves, action)))
                })
                .collect();
            let length = all.iter().flat_map(|(.., rows)| rows).map(|&(_, count)| count).max().unwrap_or(0);
            for action in 0..ACTIONS {
                for j in 0..length {
                    for &(s, real, rows) in &all {
                        let (entries, count) = rows[action];
                        let (offset, tenths) = if real && j < count { entries[j] } else { (0, 0) };
                        entry(s, offset, tenths);
                    }
                }
                all.iter().for_each(|&(s, ..)| reward(self.reward(s, action)));
            }
            first.push(first[slice] + (ACTIONS * length * SLICE) as u32);
        }
        first
    }

    fn sell<D: Device>(&self, device: &D) -> Result<Sell<D>, D::Error> {
        let (mut col, mut prob, mut reward) = (vec![], vec![], vec![]);
        let entry = |s: usize, offset, tenths| {
            col.push(s.wrapping_add_signed(offset) as u32);
            prob.push(self.palette[usize::from(tenths)]);
        };
        let first = self.slices(entry, |number| reward.push(self.rewards[usize::from(number)]));
        Ok(Sell {
            states: self.states as u32,
            first: device.upload(&first)?,
            col: device.upload(&col)?,
            prob: device.upload(&prob)?,
            reward: device.upload(&reward)?,
        })
    }

    fn narrow<D: Device>(&self, device: &D) -> Result<Narrow<D>, D::Error> {
        let (mut offsets, mut prob, mut reward) = (vec![], vec![], vec![]);
        let entry = |_, offset, tenths| {
            offsets.push(offset as i16);
            prob.push(tenths);
        };
        let first = self.slices(entry, |number| reward.push(number));
        Ok(Narrow {
            states: self.states as u32,
            first: device.upload(&first)?,
            offset: device.upload(&offsets)?,
            prob: device.upload(&prob)?,
            palette: device.upload(&self.palette)?,
            reward: device.upload(&reward)?,
            rewards: device.upload(&self.rewards)?,
        })
    }

    fn patterns<D: Device>(&self, device: &D) -> Result<Patterns<D>, D::Error> {
        let pattern: Vec<u8> = (0..self.states).map(|s| self.moves(s) as u8 + 16 * self.kinds[s]).collect();
        let (mut offset, mut prob, mut rewards) = (vec![0; 16 * 5], vec![0.0; 16 * 21], vec![0.0; 4 * 5]);
        for moves in 0..16 {
            for side in (0..4).filter(|side| moves >> side & 1 == 1) {
                offset[5 * moves + side + 1] = self.step(side) as i32;
            }
            for action in 0..ACTIONS {
                let (entries, count) = self.row(moves, action);
                for &(away, tenths) in &entries[..count] {
                    let d = (0..4).find(|&side| away == self.step(side) && moves >> side & 1 == 1);
                    let d = d.map_or(0, |side| side + 1);
                    prob[21 * moves + 5 * action + d] = self.palette[usize::from(tenths)];
                }
            }
        }
        for kind in 0..4 {
            rewards[5 * kind..5 * kind + 4].copy_from_slice(&self.rewards[4 * kind..4 * kind + 4]);
        }
        Ok(Patterns {
            states: self.states as u32,
            pattern: device.upload(&pattern)?,
            offset: device.upload(&offset)?,
            prob: device.upload(&prob)?,
            rewards: device.upload(&rewards)?,
        })
    }
}

/// Checks a [`MdpSweep`].
pub struct Check<S>(PhantomData<S>);

/// The size at which all layouts are compared.
const COUNTED: usize = 2048;

impl<S: MdpSweep> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &["SELL: a thread per state", "narrow: offsets and palettes"];

    fn sizes(_: usize) -> Vec<usize> {
        vec![1, 31, 33, 1000]
    }

    fn counted(_: usize) -> usize {
        COUNTED
    }

    fn timed(_: usize) -> usize {
        1 << 21
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        let grid = Grid::new(lab, n);
        let v = lab.floats(n, 2);
        let expected = grid.sweep(&v);
        let v = lab.device.upload(&v)?;
        let mut new = lab.device.uninitialised(n)?;
        let check = |new: &D::Buffer<f32>| lab.close("V_new", &lab.device.to_vec(new)?, &expected, 1e-5);
        if part == 0 {
            let model = grid.sell(lab.device)?;
            lab.launch(|device| S::sell(device, &model, &v, &mut new))?;
        } else {
            let model = grid.narrow(lab.device)?;
            lab.launch(|device| S::narrow(device, &model, &v, &mut new))?;
        }
        check(&new)?;
        // The other layouts, for comparison.
        if n == COUNTED && part == 0 {
            let model = grid.rows(lab.device)?;
            S::block(lab.device, &model, &v, &mut new)?;
            check(&new)?;
            S::rows(lab.device, &model, &v, &mut new)?;
            check(&new)?;
        } else if n == COUNTED {
            let model = grid.patterns(lab.device)?;
            S::patterns(lab.device, &model, &v, &mut new)?;
            check(&new)?;
        }
        Ok(())
    }

    fn budgets(part: usize) -> Vec<Budget> {
        if part == 0 {
            vec![Budget::bytes("sweep_sell", 200.0 * COUNTED as f64)]
        } else {
            vec![Budget::bytes("sweep_narrow", 150.0 * COUNTED as f64)]
        }
    }

    /// Each byte once: entries and rewards as if no row were padded, and V read and written.
    fn work(part: usize, n: usize) -> Work {
        let entries = 12 * n;
        let bytes = if part == 0 { 8 * entries + 16 * n + 8 * n } else { 3 * entries + 4 * n + 8 * n };
        Work { bytes: bytes as f64, flops: (2 * entries) as f64 }
    }
}
