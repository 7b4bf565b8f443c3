//! Division of states into blocks and the model layout of the block kernels.

use std::collections::VecDeque;

use rayon::prelude::*;
use warpkov_common::parallel;
use warpkov_device::device::Offset;

use super::EXTREMES;
use crate::analysis::partition::by_metis;
use crate::analysis::reorder::Order;
use crate::backends::device::layouts::rows::checked_offset;
use crate::model::Mdp;
use crate::options::{BlockDivided, Grouping, InvalidBlocks, MAX_PLACES};
use warpkov_runtime::Precise;

/// Bytes of shared memory that every GPU provides per block without opt-in.
const SHARED: usize = 48 * 1024;

/// Adjacent positions whose rows are interleaved: one per thread of a warp.
const SLICE: usize = 32;

/// Positions per task of a parallel loop: whole slices.
const CHUNK: usize = 128 * SLICE;

/// Marks a place without a state.
const EMPTY: u32 = u32::MAX;

/// Position of each state: block · places per block + place in the block.
enum Positions {
    /// That of its number.
    Runs,
    /// Tiles of a grid: its columns, and tiles per tile row.
    Tiles(u32, u32),
    /// As listed.
    Listed(Vec<u32>),
}

/// A division of the states into blocks with equal numbers of places.
pub struct Division {
    /// The requested parameters.
    pub(super) parameters: BlockDivided,
    /// Positions per block.
    pub(super) cells: u32,
    /// Number of blocks.
    pub(super) blocks: u32,
    /// Positions outside each block that it reads, ascending, truncated to the available shared memory.
    buffers: Vec<Vec<u32>>,
    /// Number of blocks with truncated buffers.
    truncated: usize,
    /// Number of nonzeros of the model.
    entries: u64,
    /// Threads of each state.
    pub(super) lanes: u32,
    /// Where the states are.
    places: Positions,
    /// State at each position.
    pub(super) states: Vec<u32>,
    /// First row and first entry of each slice of adjacent positions, and the totals.
    row_starts: Vec<u64>,
    entry_starts: Vec<u64>,
    /// Positions per slice, 32 or 1. The rows of a slice are interleaved, and so are their entries.
    stride: usize,
}

/// The positions of the states in blocks of `cells` places, without a grid.
fn grouped(model: &Mdp, grouping: Grouping, cells: u32) -> Result<Positions, InvalidBlocks> {
    let states = model.states();
    let order = match grouping {
        Grouping::Tiles => return Ok(Positions::Runs),
        Grouping::Rcm => Order::rcm(model).old().to_vec(),
        Grouping::Grown => grown(model, cells),
        Grouping::Metis => {
            let borders = (0..states.div_ceil(cells)).map(|block| u64::from(block * cells));
            let borders: Vec<u64> = borders.chain([states.into()]).collect();
            let Some(of_state) = by_metis(model, &borders, false).map_err(InvalidBlocks::Metis)?.parts else {
                return Ok(Positions::Runs);
            };
            // What a part has beyond the places of a block goes where other parts leave some.
            let mut parts = vec![Vec::new(); borders.len() - 1];
            let mut others = Vec::new();
            for (state, part) in (0..states).zip(of_state) {
                let part = &mut parts[part as usize];
                if part.len() < cells as usize { part.push(state) } else { others.push(state) }
            }
            let mut positions = vec![EMPTY; states as usize];
            for (first, part) in (0..).step_by(cells as usize).zip(&mut parts) {
                let room = cells as usize - part.len();
                part.extend(others.split_off(others.len().saturating_sub(room)));
                for (position, &state) in (first..).zip(part.iter()) {
                    positions[state as usize] = position;
                }
            }
            return Ok(Positions::Listed(positions));
        }
    };
    let mut positions = vec![EMPTY; states as usize];
    for (position, state) in (0..).zip(order) {
        positions[state as usize] = position;
    }
    Ok(Positions::Listed(positions))
}

/// The states, `cells` by `cells` in neighbourhoods. A block begins at a state that an earlier one leads to and continues at further ones
/// when its neighbourhood ends.
fn grown(model: &Mdp, cells: u32) -> Vec<u32> {
    let states = model.states() as usize;
    let (mut order, mut taken) = (Vec::with_capacity(states), vec![false; states]);
    // States that finished blocks lead to, oldest first; then all states.
    let (mut border, mut next) = (VecDeque::new(), 0);
    let mut block = VecDeque::new();
    let mut left = cells;
    while order.len() < states {
        let state = match block.pop_front().or_else(|| border.pop_front()) {
            Some(state) => state,
            None => {
                next += 1;
                next - 1
            }
        };
        if std::mem::replace(&mut taken[state as usize], true) {
            continue;
        }
        order.push(state);
        let successors = model.choices().rows(state as usize).flat_map(|row| model.transitions().row(row).0);
        block.extend(successors.filter(|&&successor| !taken[successor as usize]));
        left -= 1;
        if left == 0 {
            border.append(&mut block);
            left = cells;
        }
    }
    order
}

impl Division {
    /// Divides the states as `parameters` say.
    ///
    /// # Errors
    /// [`InvalidBlocks`].
    pub fn new(model: &Mdp, parameters: BlockDivided) -> Result<Self, InvalidBlocks> {
        let BlockDivided { width, height, sweeps_per_launch, states_per_thread, update_constant, .. } = parameters;
        let threads = width.checked_mul(height).filter(|threads| (1..=1024).contains(threads));
        let threads = threads.ok_or(InvalidBlocks::Threads { width, height })?;
        if sweeps_per_launch == 0 {
            return Err(InvalidBlocks::Sweeps);
        }
        if !(1..=5).contains(&states_per_thread) {
            return Err(InvalidBlocks::StatesPerThread(states_per_thread));
        }
        if !(update_constant > 0.0 && update_constant.is_finite()) {
            return Err(InvalidBlocks::UpdateConstant(update_constant));
        }
        if parameters.by_action && states_per_thread > 1 {
            return Err(InvalidBlocks::ByAction(states_per_thread));
        }
        let lanes = if parameters.by_action { model.choices().max().clamp(1, 1024 / threads) } else { 1 };
        let cells = threads * states_per_thread;
        let rows = height * states_per_thread;
        let grid = model.grid().filter(|_| parameters.grouping == Grouping::Tiles);
        let across = grid.map(|grid| (grid.width, grid.width.div_ceil(width), grid.height.div_ceil(rows)));
        let blocks = match across {
            Some((_, across, down)) => u64::from(across) * u64::from(down),
            None => u64::from(model.states().div_ceil(cells)),
        };
        let places = blocks * u64::from(cells);
        if places > u64::from(MAX_PLACES) {
            return Err(InvalidBlocks::Places { width, height: rows, places, states: model.states() });
        }
        let mut division = Self {
            parameters,
            cells,
            blocks: blocks as u32,
            lanes,
            places: match across {
                Some((columns, across, _)) => Positions::Tiles(columns, across),
                None => grouped(model, parameters.grouping, cells)?,
            },
            buffers: vec![Vec::new(); blocks as usize],
            truncated: 0,
            entries: model.transitions().nnz() as u64,
            states: vec![EMPTY; places as usize],
            row_starts: Vec::new(),
            entry_starts: Vec::new(),
            stride: SLICE,
        };
        for state in 0..model.states() {
            let position = division.position(state);
            division.states[position as usize] = state;
        }
        division.find_slice_starts(model);
        // Interleaved, a slice takes 32 times its longest row. If row lengths vary much, most of that is padding.
        let most = |full: usize| 2 * full as u64 + 4096;
        let (rows, entries) = division.stored();
        if rows > most(model.rows()) || entries > most(model.transitions().nnz()) {
            division.stride = 1;
            division.find_slice_starts(model);
        }
        if parameters.buffering {
            division.fill_buffers(model);
        }
        Ok(division)
    }

    /// The position of a state: block · places per block + place in the block.
    #[must_use]
    pub fn position(&self, state: u32) -> u32 {
        let (columns, across) = match &self.places {
            Positions::Runs => return state,
            Positions::Listed(positions) => return positions[state as usize],
            &Positions::Tiles(columns, across) => (columns, across),
        };
        let (width, height) = (self.parameters.width, self.cells / self.parameters.width);
        let (x, y) = (state % columns, state / columns);
        (y / height * across + x / width) * self.cells + y % height * width + x % width
    }

    /// The requested parameters.
    #[must_use]
    pub fn parameters(&self) -> &BlockDivided {
        &self.parameters
    }

    /// Positions per block.
    #[must_use]
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// Total number of places.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.blocks * self.cells
    }

    /// Stored rows and entries, including padding.
    fn stored(&self) -> (u64, u64) {
        let last = |starts: &[u64]| starts.last().copied().unwrap_or_default();
        (last(&self.row_starts), last(&self.entry_starts))
    }

    /// Computes the start of each slice.
    fn find_slice_starts(&mut self, model: &Mdp) {
        let extent = |&state: &u32| {
            let rows = if state == EMPTY { 0..0 } else { model.choices().rows(state as usize) };
            let entries = model.transitions().row_ptr()[rows.end] - model.transitions().row_ptr()[rows.start];
            (rows.len() as u64, entries)
        };
        let longest = |slice: &[u32]| {
            let (rows, entries) =
                slice.iter().map(extent).fold((0, 0), |most, next| (most.0.max(next.0), most.1.max(next.1)));
            (self.stride as u64 * rows, self.stride as u64 * entries)
        };
        let lengths: Vec<(u64, u64)> = self.states.par_chunks(self.stride).map(longest).collect();
        let starts = |length: fn(&(u64, u64)) -> u64| {
            let ends = lengths.iter().map(length).scan(0, |end, length| {
                *end += length;
                Some(*end)
            });
            std::iter::once(0).chain(ends).collect()
        };
        let (row_starts, entry_starts) = (starts(|lengths| lengths.0), starts(|lengths| lengths.1));
        (self.row_starts, self.entry_starts) = (row_starts, entry_starts);
    }

    /// Whether offsets into the stored arrays need 64 bits.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        let (rows, entries) = self.stored();
        rows.max(entries).max(self.entries) > u64::from(u32::MAX)
    }

    /// The note on truncated buffers, if any.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (self.truncated > 0).then(|| {
            format!(
                "{} of {} blocks read more outside values than the {} that fit in shared memory; they load the rest \
                 from device memory",
                self.truncated,
                self.blocks,
                self.buffer_capacity()
            )
        })
    }

    /// Elements of shared memory for the block's own states: values, plus eligibility data for prioritizing, or Q-factors.
    fn own_elements(&self) -> usize {
        self.cells as usize
            * match &self.parameters {
                BlockDivided { by_action: true, .. } => 1 + self.lanes as usize,
                BlockDivided { states_per_thread: 1, .. } => 1,
                _ => 3,
            }
    }

    /// Outside values that fit in shared memory beside the block's own; in elements of 8 bytes, so that it is
    /// independent of T.
    fn buffer_capacity(&self) -> usize {
        (SHARED / 8).saturating_sub(self.own_elements())
    }

    /// Values per block in shared memory: its own and those of the largest buffer.
    pub(super) fn resident(&self) -> u32 {
        self.cells + self.buffers.iter().map(Vec::len).max().unwrap_or_default() as u32
    }

    /// Bytes of shared memory per block.
    pub(super) fn shared_bytes<T>(&self) -> u32 {
        let elements = self.own_elements() + (self.resident() - self.cells) as usize;
        (elements * size_of::<T>()) as u32
    }

    /// Bytes of device memory for the method.
    #[must_use]
    pub fn bytes<T: Precise, O: Offset>(&self) -> u64 {
        let (t, o) = (size_of::<T>() as u64, size_of::<O>() as u64);
        let (rows, entries) = self.stored();
        let buffers: usize = self.buffers.iter().map(Vec::len).sum();
        u64::from(self.places()) * (8 + 2 * o + 3 * t)
            + (rows + entries) * (4 + t)
            + (u64::from(self.blocks) + 1) * o
            + buffers as u64 * 4
            + 8 * EXTREMES as u64
    }

    /// Collects the outside positions that each block reads.
    fn fill_buffers(&mut self, model: &Mdp) {
        let (cells, row_ptr, buffer_capacity) =
            (self.cells as usize, model.transitions().row_ptr(), self.buffer_capacity());
        let buffer_of = |(block, states): (usize, &[u32])| {
            let mut outside = Vec::new();
            for &state in states.iter().filter(|&&state| state != EMPTY) {
                let rows = model.choices().rows(state as usize);
                let entries = row_ptr[rows.start] as usize..row_ptr[rows.end] as usize;
                let positions = model.transitions().col()[entries].iter().map(|&successor| self.position(successor));
                outside.extend(positions.filter(|&position| position as usize / cells != block));
            }
            outside.sort_unstable();
            outside.dedup();
            let truncated = outside.len() > buffer_capacity;
            outside.truncate(buffer_capacity);
            outside.shrink_to_fit();
            (outside, usize::from(truncated))
        };
        let buffers: Vec<_> = self.states.par_chunks(cells).enumerate().map(buffer_of).collect();
        self.truncated = buffers.iter().map(|(_, truncated)| truncated).sum();
        self.buffers = buffers.into_iter().map(|(buffer, _)| buffer).collect();
    }

    /// Lays the model out for the block kernels.
    pub(super) fn layout<T: Precise, O: Offset>(&self, model: &Mdp) -> DividedModel<T, O> {
        let Self { buffers, .. } = self;
        let resident = self.resident();
        let place = |block: u32, successor: u32| {
            let position = self.position(successor);
            if position / self.cells == block {
                return position % self.cells;
            }
            match buffers[block as usize].binary_search(&position) {
                Ok(index) => self.cells + index as u32,
                Err(_) => resident + position,
            }
        };

        let (rows, entries) = self.stored();
        let (prob, reward) = (T::rounded(model.transitions().val()), model.expected_rewards());
        let reward = T::rounded(&reward);
        let mut layout = DividedModel {
            actions: vec![0; self.states.len()],
            first_row: vec![O::ZERO; self.states.len()],
            first_entry: vec![O::ZERO; self.states.len()],
            stride: self.stride as u32,
            reward: vec![T::ZERO; rows as usize],
            length: vec![0; rows as usize],
            place: vec![0; entries as usize],
            prob: vec![T::ZERO; entries as usize],
            buffer_ptr: Vec::with_capacity(buffers.len() + 1),
            buffer: buffers.concat(),
        };
        let ends = buffers.iter().scan(0, |end, buffer| {
            *end += buffer.len();
            Some(checked_offset(*end as u64))
        });
        layout.buffer_ptr.extend(std::iter::once(O::ZERO).chain(ends));

        // Each task owns the rows and entries of its positions.
        let mut tasks = Vec::new();
        let (mut rewards, mut lengths) = (&mut layout.reward[..], &mut layout.length[..]);
        let (mut places, mut probs) = (&mut layout.place[..], &mut layout.prob[..]);
        let positions = layout.actions.chunks_mut(CHUNK).zip(layout.first_row.chunks_mut(CHUNK));
        for (chunk, ((actions, first_rows), first_entries)) in
            positions.zip(layout.first_entry.chunks_mut(CHUNK)).enumerate()
        {
            let slice = chunk * CHUNK / self.stride;
            let end = slice + actions.len().div_ceil(self.stride);
            let rows = (self.row_starts[end] - self.row_starts[slice]) as usize;
            let entries = (self.entry_starts[end] - self.entry_starts[slice]) as usize;
            let own = (
                rewards.split_off_mut(..rows).unwrap_or_default(),
                lengths.split_off_mut(..rows).unwrap_or_default(),
                places.split_off_mut(..entries).unwrap_or_default(),
                probs.split_off_mut(..entries).unwrap_or_default(),
            );
            tasks.push((chunk * CHUNK, actions, first_rows, first_entries, own));
        }
        parallel::map(tasks, |(first, actions, first_rows, first_entries, own)| {
            let (rewards, lengths, places, probs) = own;
            let start = first / self.stride;
            for (i, &state) in self.states[first..first + actions.len()].iter().enumerate() {
                let (slice, lane) = ((first + i) / self.stride, (first + i) % self.stride);
                let (first_row, first_entry) =
                    (self.row_starts[slice] as usize + lane, self.entry_starts[slice] as usize + lane);
                (first_rows[i], first_entries[i]) =
                    (checked_offset(first_row as u64), checked_offset(first_entry as u64));
                if state == EMPTY {
                    continue;
                }
                let block = (first + i) as u32 / self.cells;
                let mut target_row = first_row - self.row_starts[start] as usize;
                let mut target = first_entry - self.entry_starts[start] as usize;
                let rows = model.choices().rows(state as usize);
                actions[i] = rows.len() as u32;
                for row in rows {
                    let entries =
                        model.transitions().row_ptr()[row] as usize..model.transitions().row_ptr()[row + 1] as usize;
                    (rewards[target_row], lengths[target_row]) = (reward[row], entries.len() as u32);
                    for entry in entries {
                        (places[target], probs[target]) = (place(block, model.transitions().col()[entry]), prob[entry]);
                        target += self.stride;
                    }
                    target_row += self.stride;
                }
            }
        });
        layout
    }
}

/// The model layout of the kernels in `block_divided`.
pub(super) struct DividedModel<T, O> {
    pub actions: Vec<u32>,
    pub first_row: Vec<O>,
    pub first_entry: Vec<O>,
    pub stride: u32,
    pub reward: Vec<T>,
    pub length: Vec<u32>,
    pub place: Vec<u32>,
    pub prob: Vec<T>,
    pub buffer_ptr: Vec<O>,
    pub buffer: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::SlipGrid;
    use crate::model::MdpParts;

    fn grid(width: u32, height: u32) -> Mdp {
        SlipGrid { width, height, ..SlipGrid::default() }.generate().unwrap()
    }

    /// The same model, whose states have no places.
    fn without_grid(model: Mdp) -> Mdp {
        MdpParts { grid: None, ..model.into_parts() }.validated().unwrap()
    }

    #[test]
    fn blocks_are_tiles_of_the_grid() {
        let model = grid(5, 3);
        let parameters = BlockDivided { width: 2, height: 1, states_per_thread: 2, ..BlockDivided::PLAIN };
        let division = Division::new(&model, parameters).unwrap();
        // Tiles of 2 × 2 cells, three per tile row and two tile rows.
        assert_eq!((division.cells, division.blocks), (4, 6));
        let positions: Vec<u32> = (0..15).map(|state| division.position(state)).collect();
        assert_eq!(positions, [0, 1, 4, 5, 8, 2, 3, 6, 7, 10, 12, 13, 16, 17, 20]);
        assert!((0..15).all(|state| division.states[positions[state] as usize] == state as u32));
        assert_eq!(division.states.iter().filter(|&&state| state == EMPTY).count(), 9);
        let consecutive = Division::new(&without_grid(model), parameters).unwrap();
        assert_eq!((consecutive.blocks, consecutive.position(14)), (4, 14));
    }

    /// Every state has a place of its own, and blocks of neighbours are left by fewer transitions than runs of states.
    #[test]
    fn groups_keep_neighbours_together() {
        let model = without_grid(grid(40, 33));
        let leaving = |grouping| {
            let parameters = BlockDivided { width: 8, height: 8, grouping, ..BlockDivided::PLAIN };
            let division = Division::new(&model, parameters).unwrap();
            let positions: Vec<u32> = (0..model.states()).map(|state| division.position(state)).collect();
            assert!((0..model.states()).zip(&positions).all(|(state, &at)| division.states[at as usize] == state));
            let block = |state: usize| positions[state] / division.cells;
            let leads = |row: usize| model.transitions().row(row).0.iter().map(move |&next| (row / 4, next as usize));
            (0..model.rows()).flat_map(leads).filter(|&(from, to)| block(from) != block(to)).count()
        };
        let runs = leaving(Grouping::Tiles);
        assert!(5 * leaving(Grouping::Grown) < 4 * runs, "{} {runs}", leaving(Grouping::Grown));
        assert!(leaving(Grouping::Rcm) <= runs + runs / 2);
        #[cfg(feature = "metis")]
        assert!(5 * leaving(Grouping::Metis) < 3 * runs, "{} {runs}", leaving(Grouping::Metis));
        #[cfg(not(feature = "metis"))]
        assert!(matches!(
            Division::new(&model, BlockDivided { grouping: Grouping::Metis, ..BlockDivided::PLAIN }),
            Err(InvalidBlocks::Metis(_))
        ));
    }

    #[test]
    fn long_rows_are_not_interleaved() {
        let csr = |rows: &[usize]| {
            let row_ptr: Vec<u64> = std::iter::once(0)
                .chain(rows.iter().scan(0, |end, &n| {
                    *end += n as u64;
                    Some(*end)
                }))
                .collect();
            let col: Vec<u32> = rows.iter().flat_map(|&n| 0..n as u32).collect();
            let val: Vec<f64> = rows.iter().flat_map(|&n| std::iter::repeat_n(1.0 / n as f64, n)).collect();
            crate::model::Csr::built(row_ptr, col, val)
        };
        let mut rows = vec![1; 2000];
        rows[7] = 2000;
        let model = |rows: &[usize]| Mdp::new(2000, 1, 0.5, csr(rows), crate::model::Csr::empty(2000), None).unwrap();
        let division = |model: &Mdp| Division::new(model, BlockDivided::PLAIN).unwrap();
        let (even, uneven) = (division(&model(&[1; 2000])), division(&model(&rows)));
        assert_eq!((even.stride, even.stored()), (32, (2016, 2016)));
        assert_eq!((uneven.stride, uneven.stored()), (1, (2000, 3999)));
    }

    #[test]
    fn errors_name_the_invalid_parameter() {
        let model = grid(4, 4);
        let message = |parameters| Division::new(&model, parameters).err().unwrap().to_string();
        let plain = BlockDivided::PLAIN;
        let threads = |width, height| message(BlockDivided { width, height, ..plain });
        assert_eq!(threads(64, 17), "blocks of 64 × 17 threads, expected 1 to 1024 threads");
        assert_eq!(threads(0, 8), "blocks of 0 × 8 threads, expected 1 to 1024 threads");
        assert_eq!(threads(u32::MAX, 2), "blocks of 4294967295 × 2 threads, expected 1 to 1024 threads");
        assert_eq!(message(BlockDivided { sweeps_per_launch: 0, ..plain }), "0 sweeps per launch, expected at least 1");
        assert_eq!(message(BlockDivided { states_per_thread: 6, ..plain }), "6 states per thread, expected 1 to 5");
        assert_eq!(
            message(BlockDivided { update_constant: f64::NAN, ..plain }),
            "an update constant of NaN, expected a finite number above 0"
        );
    }
}
