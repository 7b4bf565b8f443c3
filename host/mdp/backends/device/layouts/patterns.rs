//! Patterns: one number per state, which selects its rows in a table; for grids and similar models. The device makes the
//! numbers of a generated grid.

use std::collections::HashMap;

use warpkov_common::parallel;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::backup::patterns::{self, PatternsArgs, backup_patterns};
use warpkov_kernels::mdp::generate::grid_patterns;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::numbers::{Footprint, ModelNumbers};
use crate::analysis::patterns::Patterns;
use crate::backends::device::sweeps::{BackupLaunch, THREADS, by_tile};
use crate::generate::GridPatterns;
use crate::model::Mdp;

/// Maximum distinct successors per pattern for which kernel instances exist.
const DISTINCT: [usize; 4] = [3, 5, 7, 15];

/// Maximum bytes of the table in shared memory; several blocks still fit on a multiprocessor.
const MAX_SHARED: u32 = 64 << 10;

/// Bytes of the table above which larger blocks share one copy of it.
const PATTERN_BYTES: u32 = 8 << 10;

/// Cells of a generated grid that the device copies at a time.
const PIECE: usize = 1 << 24;

/// The patterns of a model, split in two halves: *moves* (successor offsets and discounted probabilities) and
/// *rewards*.
///
/// Many patterns share one of their halves, so equal halves are stored once. With fewer halves, neighbouring states
/// more often read the same numbers, or numbers in different banks of shared memory.
pub(in crate::backends::device) struct PatternTable {
    actions: u32,
    distinct: usize,
    moves: Half,
    rewards: Half,
    /// Position of the moves index within a pattern number, in bits.
    shift: u32,
    /// Bit mask of the rewards index within a pattern number.
    mask: u32,
    /// The pattern number of each pattern.
    number: Vec<u16>,
    /// The pattern of each state; empty for a generated model.
    of_state: Vec<u32>,
    /// Offsets of distinct successors, one row per moves half.
    offset: Vec<i32>,
}

/// A table of distinct rows of numbers.
#[derive(Default)]
struct Half {
    /// Row-major elements.
    numbers: Vec<f64>,
    /// Number of rows.
    count: u32,
}

/// Row indices of a [`Half`] by key and bits.
type Index = HashMap<Vec<u64>, u32>;

impl Half {
    /// The index of a row, added if absent, and whether it was added. Rows with different `key`s are distinct.
    fn add(&mut self, index: &mut Index, key: impl Iterator<Item = u64>, row: &[f64]) -> (u32, bool) {
        let key = key.chain(row.iter().map(|x| x.to_bits())).collect();
        let next = self.count;
        let number = *index.entry(key).or_insert(next);
        if number == next {
            self.numbers.extend(row);
            self.count += 1;
        }
        (number, number == next)
    }
}

impl PatternTable {
    /// The table of a model. `None` if states rarely have equal patterns, or rows are too long.
    pub fn find(mdp: &Mdp, reward: &[f64]) -> Option<Self> {
        let patterns = Patterns::find(mdp, reward)?;
        let table = Self::new(&patterns, mdp.gamma())?;
        Some(Self { of_state: patterns.of_state, ..table })
    }

    pub fn footprint(&self, states: u32) -> Footprint {
        let shared = 2 * states as usize + 4 * self.offset.len();
        Footprint { longest: 0, shared, numbers: self.moves.numbers.len() + self.rewards.numbers.len() }
    }

    /// Uploads the table, and the patterns of the states or of a generated `grid`.
    pub fn upload<T: Precise>(
        &self,
        device: &AnyDevice,
        grid: Option<&GridPatterns>,
    ) -> Result<(PatternIndex, ModelNumbers<T>), DeviceError> {
        let (number, of_state) = (&self.number, &self.of_state);
        let pattern = match grid {
            None => device.upload(&parallel::array(of_state.len(), |state| number[of_state[state] as usize]))?,
            Some(grid) => generate(device, grid, number)?,
        };
        let index = PatternIndex {
            actions: self.actions,
            distinct: self.distinct,
            halves: [self.moves.count, self.rewards.count, self.shift, self.mask],
            pattern,
            offset: device.upload(&self.offset)?,
        };
        Ok((index, ModelNumbers::upload(device, &self.moves.numbers, &self.rewards.numbers)?))
    }

    /// Builds the table with discounted probabilities; `None` if a pattern has too many successors or the table has too
    /// many halves.
    pub fn new(patterns: &Patterns, gamma: f64) -> Option<Self> {
        Self::filled(patterns, gamma, true).or_else(|| Self::filled(patterns, gamma, false))
    }

    /// Builds the table, with equal halves stored once if `shared`; otherwise each pattern has its own halves under its
    /// own index.
    fn filled(patterns: &Patterns, gamma: f64, shared: bool) -> Option<Self> {
        let distances: Vec<Vec<isize>> = (0..patterns.count()).map(|p| distances(patterns, p)).collect();
        let most = distances.iter().map(Vec::len).max().unwrap_or(0);
        let distinct = DISTINCT.into_iter().find(|&distinct| distinct >= most)?;
        let actions = (0..patterns.count()).map(|p| patterns.rows_of(p).len()).max().unwrap_or(0);
        let (mut moves, mut rewards, mut all_offsets) = (Half::default(), Half::default(), Vec::new());
        let (mut moves_index, mut rewards_index) = (Index::new(), Index::new());
        let mut halves = Vec::new();
        for (p, distances) in distances.iter().enumerate() {
            let mut offset = vec![0; row_stride(distinct)];
            let mut prob = vec![0.0; row_stride(actions * distinct)];
            // −∞ marks an action that the pattern lacks.
            let mut reward = vec![f64::NEG_INFINITY; row_stride(actions)];
            for (target, &distance) in offset.iter_mut().zip(distances) {
                *target = i32::try_from(distance).ok()?;
            }
            for (action, row) in patterns.rows_of(p).enumerate() {
                reward[action] = patterns.reward[row];
                for entry in patterns.entries_of(row) {
                    let d = distances.binary_search(&patterns.distance[entry]).ok()?;
                    prob[action * distinct + d] = gamma * patterns.prob[entry];
                }
            }
            let own = if shared { 0 } else { p as u64 };
            let key = [own].into_iter().chain(offset.iter().map(|&offset| offset as u64));
            let (of_moves, new) = moves.add(&mut moves_index, key, &prob);
            if new {
                all_offsets.extend(offset);
            }
            halves.push((of_moves, rewards.add(&mut rewards_index, [own].into_iter(), &reward).0));
        }
        // A pattern number holds the moves index above the rewards index. If patterns do not share halves, one index
        // serves both.
        let shift = if shared { rewards.count.next_power_of_two().trailing_zeros() } else { 0 };
        let mask = if shared { (1 << shift) - 1 } else { u32::from(u16::MAX) };
        // In 64 bits: a number beyond 16 bits may exceed 32 bits too.
        let number = |(of_moves, of_rewards): (u32, u32)| {
            u16::try_from(u64::from(of_moves) << shift | u64::from(of_rewards)).ok()
        };
        let number = halves.into_iter().map(number).collect::<Option<_>>()?;
        Some(Self {
            actions: actions as u32,
            distinct,
            moves,
            rewards,
            shift,
            mask,
            number,
            of_state: Vec::new(),
            offset: all_offsets,
        })
    }
}

/// Stride between rows of `length` elements.
fn row_stride(length: usize) -> usize {
    patterns::row_stride(length as u32) as usize
}

/// Distinct successor offsets of a pattern, ascending.
fn distances(patterns: &Patterns, pattern: usize) -> Vec<isize> {
    let rows = patterns.rows_of(pattern);
    let entries = patterns.ends[rows.start] as usize..patterns.ends[rows.end] as usize;
    let mut found = patterns.distance[entries].to_vec();
    found.sort_unstable();
    found.dedup();
    found
}

/// The pattern of each cell, by the `number` of each pattern.
fn generate(device: &AnyDevice, grid: &GridPatterns, number: &[u16]) -> Result<AnyBuffer<u16>, DeviceError> {
    if grid.part().is_some() {
        // The kernel knows no ghosts: the host generates the patterns of a part, and the device copies meanwhile.
        let cells = grid.states() as usize;
        let ends: Vec<usize> = (1..=cells.div_ceil(PIECE)).map(|piece| cells.min(piece * PIECE)).collect();
        return device.upload_pieces(&ends, |piece, patterns: &mut [u16]| {
            parallel::fill(patterns, |cell| number[grid.pattern((piece * PIECE + cell) as u32)]);
        });
    }
    let mut pattern = device.zeros(grid.states() as usize)?;
    let index: Vec<u16> = grid.index.iter().map(|&pattern| number[pattern as usize]).collect();
    let (kinds, index) = (device.upload(&grid.kinds)?, device.upload(&index)?);
    let shape = Shape::grid_stride(grid.states().into(), THREADS);
    let (width, height, walled) = (grid.grid.width, grid.grid.height, u32::from(!grid.kinds.is_empty()));
    grid_patterns(device, shape, grid.states(), width, height, walled, &kinds, &index, &mut pattern)?;
    Ok(pattern)
}

/// Patterns in device memory, without the numbers of the table.
pub(in crate::backends::device) struct PatternIndex {
    actions: u32,
    distinct: usize,
    /// Number of move rows and of reward rows, then the shift and the mask that split a pattern number into the two.
    halves: [u32; 4],
    pattern: AnyBuffer<u16>,
    offset: AnyBuffer<i32>,
}

impl PatternIndex {
    /// # Safety
    /// As [`BackupLaunch`] says, with the `numbers` of this table.
    pub unsafe fn launch<T: Precise>(
        &self,
        numbers: &ModelNumbers<T>,
        launch: BackupLaunch<T>,
    ) -> Result<(), DeviceError> {
        let Self { actions, distinct, halves: [moves, rewards, shift, mask], ref pattern, ref offset } = *self;
        let ModelNumbers { prob, reward } = numbers;
        let BackupLaunch { device, states, v, sweep } = launch;
        // Whole elements of T: the kernel's type for shared memory.
        let elements = (prob.len() + reward.len()) * size_of::<T>();
        let bytes = (elements + offset.len() * 4).next_multiple_of(size_of::<T>()) as u32;
        let fits = bytes <= MAX_SHARED;
        // Twice the threads per block halve the number of table copies.
        let threads = if fits && bytes > PATTERN_BYTES { 2 * THREADS } else { THREADS };
        let shape = Shape { block: threads.into(), ..by_tile(&states, sweep.tiles.len) };
        let shape = shape.with_shared(if fits { bytes } else { 0 });
        let table = PatternsArgs { actions, moves, rewards, shift, mask, pattern, offset, prob, reward };
        macro_rules! patterns {
            ($distinct:literal) => {
                // SAFETY: `upload` gave each state a number of this table, whose rows have `distinct` successors below |S|,
                // and the block has shared memory for the table if it fits. The caller assures the rest.
                unsafe {
                    let (end, start) = (states.end, states.start);
                    backup_patterns::<T, $distinct, _>(device, shape, end, table, u32::from(fits), v, sweep, start)
                }
            };
        }
        match distinct {
            3 => patterns!(3),
            5 => patterns!(5),
            7 => patterns!(7),
            _ => patterns!(15),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::SlipGrid;

    #[test]
    fn walls_and_obstacles_share_moves_and_rewards() {
        let grid = SlipGrid { width: 90, height: 90, walls: 0.3, obstacles: 0.1, ..SlipGrid::default() };
        let mdp = grid.generate().unwrap();
        let patterns = Patterns::find(&mdp, &mdp.expected_rewards()).unwrap();
        let table = PatternTable::new(&patterns, 0.9).unwrap();
        // 2⁴ sets of open sides. Walls and the goal have the moves of an enclosed cell.
        assert_eq!(table.moves.count, 16);
        assert!(table.rewards.count < 40 && patterns.count() > 100);
        let own = PatternTable::filled(&patterns, 0.9, false).unwrap();
        assert_eq!((own.moves.count as usize, own.rewards.count as usize), (patterns.count(), patterns.count()));
        // Both tables describe the same patterns.
        let row = |half: &Half, number: u32| {
            let length = half.numbers.len() / half.count as usize;
            half.numbers[number as usize * length..][..length].to_vec()
        };
        for p in 0..patterns.count() {
            let of = |table: &PatternTable| {
                let number = u32::from(table.number[p]);
                let moves = number >> table.shift;
                let offset = table.offset[moves as usize * row_stride(5)..][..row_stride(5)].to_vec();
                (offset, row(&table.moves, moves), row(&table.rewards, number & table.mask))
            };
            assert_eq!(of(&table), of(&own));
        }
    }
}
