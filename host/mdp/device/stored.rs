//! A model in device memory, in one of the [layouts](super::layout): upload, generation and conversion between precisions.

use std::rc::Rc;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_common::parallel;
use warpkov_device::device::Offset;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::backup::convert;
use warpkov_kernels::mdp::generate::grid_patterns;

use super::layout::{Model, RowLayout, SweepLayout, discounted};
use super::patterns::Table;
use super::resident::{THREADS, offsets, upload_choices};
use crate::generate::GridPatterns;
use warpkov_runtime::Precise;

/// A model in device memory. Arrays not in T are shared between precisions.
pub(super) enum Stored<T: Precise, O: Offset> {
    Rows {
        lanes: u32,
        states_per_block: u32,
        actions: u32,
        choices: Rc<AnyBuffer<O>>,
        row_ptr: Rc<AnyBuffer<O>>,
        col: Rc<AnyBuffer<u32>>,
        prob: AnyBuffer<T>,
        reward: AnyBuffer<T>,
    },
    Slices {
        place: Rc<AnyBuffer<O>>,
        col: Rc<AnyBuffer<u32>>,
        prob: AnyBuffer<T>,
        reward: AnyBuffer<T>,
    },
    Narrow {
        place: Rc<AnyBuffer<O>>,
        offset: Narrow,
        prob: Rc<AnyBuffer<u8>>,
        palette: AnyBuffer<T>,
        reward: Rc<AnyBuffer<u16>>,
        rewards: AnyBuffer<T>,
    },
    Patterns {
        actions: u32,
        distinct: usize,
        /// Number of move rows and of reward rows, then the shift and the mask that split a pattern number into the
        /// two.
        halves: [u32; 4],
        pattern: Rc<AnyBuffer<u16>>,
        offset: Rc<AnyBuffer<i32>>,
        prob: AnyBuffer<T>,
        reward: AnyBuffer<T>,
    },
}

/// Successor offsets in one or two bytes.
pub(super) enum Narrow {
    One(Rc<AnyBuffer<i8>>),
    Two(Rc<AnyBuffer<i16>>),
}

/// Cells of a generated grid that the device copies at a time.
const PIECE: usize = 1 << 24;

impl<T: Precise, O: Offset> Stored<T, O> {
    pub fn upload(device: &AnyDevice, sweep_layout: &SweepLayout) -> Result<Self, DeviceError> {
        let (mdp, reward, layout) = match &sweep_layout.model {
            Model::Host { mdp, reward, layout } => (mdp, reward, layout),
            Model::Generated { grid, table } => return Self::generate(device, grid, table),
        };
        let transitions = mdp.transitions();
        Ok(match layout {
            RowLayout::Rows { lanes, states_per_block } => {
                let (actions, choices) = upload_choices(device, mdp.choices())?;
                Self::Rows {
                    lanes: *lanes,
                    states_per_block: *states_per_block,
                    actions,
                    choices: choices.into(),
                    row_ptr: device.upload(&offsets::<O>(transitions.row_ptr()))?.into(),
                    col: device.upload(transitions.col())?.into(),
                    prob: device.upload(&T::of(transitions.val()))?,
                    reward: device.upload(&T::of(reward))?,
                }
            }
            RowLayout::Slices(slices) => Self::Slices {
                place: device.upload(&slices.place::<O>(|_, first| first))?.into(),
                col: slices.upload_entries(device, slices.successors(mdp))?.into(),
                prob: slices.upload_entries(device, slices.probabilities(mdp))?,
                reward: slices.upload_rewards(device, slices.earnings(mdp, reward))?,
            },
            RowLayout::Narrow { slices, wide, palette, rewards } => Self::Narrow {
                place: device.upload(&slices.place::<O>(|_, first| first))?.into(),
                offset: match wide {
                    false => Narrow::One(slices.upload_entries(device, slices.distances(mdp, |d| d as i8))?.into()),
                    true => Narrow::Two(slices.upload_entries(device, slices.distances(mdp, |d| d as i16))?.into()),
                },
                prob: slices.upload_entries(device, slices.probability_indices(mdp, palette))?.into(),
                palette: device.upload(&T::of(&discounted(mdp.gamma(), palette)))?,
                reward: slices.upload_rewards(device, slices.reward_indices(mdp, reward, rewards))?.into(),
                rewards: device.upload(&T::of(rewards))?,
            },
            RowLayout::Patterns { patterns, table } => {
                let of_state = &patterns.of_state;
                let pattern = parallel::array(of_state.len(), |state| table.number[of_state[state] as usize]);
                let pattern = device.upload(&pattern)?;
                Self::patterns(device, pattern, table)?
            }
        })
    }

    /// Converts an `f64` model to T on the device; `None` if an array exceeds 2³² − 1 elements.
    pub fn shortened(device: &AnyDevice, exact: &Stored<f64, O>) -> Result<Option<Self>, DeviceError> {
        let (prob, reward) = match exact {
            Stored::Rows { prob, reward, .. } | Stored::Slices { prob, reward, .. } => (prob, reward),
            Stored::Narrow { palette, rewards, .. } => (palette, rewards),
            Stored::Patterns { prob, reward, .. } => (prob, reward),
        };
        let (Some(prob), Some(reward)) = (shortened(device, prob)?, shortened(device, reward)?) else {
            return Ok(None);
        };
        Ok(Some(match exact {
            Stored::Rows { lanes, states_per_block, actions, choices, row_ptr, col, .. } => Self::Rows {
                lanes: *lanes,
                states_per_block: *states_per_block,
                actions: *actions,
                choices: Rc::clone(choices),
                row_ptr: Rc::clone(row_ptr),
                col: Rc::clone(col),
                prob,
                reward,
            },
            Stored::Slices { place, col, .. } => {
                Self::Slices { place: Rc::clone(place), col: Rc::clone(col), prob, reward }
            }
            Stored::Narrow { place, offset, prob: index, reward: of_row, .. } => Self::Narrow {
                place: Rc::clone(place),
                offset: match offset {
                    Narrow::One(offset) => Narrow::One(Rc::clone(offset)),
                    Narrow::Two(offset) => Narrow::Two(Rc::clone(offset)),
                },
                prob: Rc::clone(index),
                palette: prob,
                reward: Rc::clone(of_row),
                rewards: reward,
            },
            Stored::Patterns { actions, distinct, halves, pattern, offset, .. } => Self::Patterns {
                actions: *actions,
                distinct: *distinct,
                halves: *halves,
                pattern: Rc::clone(pattern),
                offset: Rc::clone(offset),
                prob,
                reward,
            },
        }))
    }

    fn patterns(device: &AnyDevice, pattern: AnyBuffer<u16>, table: &Table) -> Result<Self, DeviceError> {
        Ok(Self::Patterns {
            actions: table.actions,
            distinct: table.distinct,
            halves: [table.moves.count, table.rewards.count, table.shift, table.mask],
            pattern: pattern.into(),
            offset: device.upload(&table.offset)?.into(),
            prob: device.upload(&T::of(&table.moves.numbers))?,
            reward: device.upload(&T::of(&table.rewards.numbers))?,
        })
    }

    fn generate(device: &AnyDevice, grid: &GridPatterns, table: &Table) -> Result<Self, DeviceError> {
        if grid.part().is_some() {
            // The kernel knows no ghosts: the host generates the patterns of a part, and the device copies meanwhile.
            let cells = grid.states() as usize;
            let ends: Vec<usize> = (1..=cells.div_ceil(PIECE)).map(|piece| cells.min(piece * PIECE)).collect();
            let pattern = device.upload_pieces(&ends, |piece, patterns: &mut [u16]| {
                parallel::fill(patterns, |cell| table.number[grid.pattern((piece * PIECE + cell) as u32)]);
            })?;
            return Self::patterns(device, pattern, table);
        }
        let mut pattern = device.zeros(grid.states() as usize)?;
        let index: Vec<u16> = grid.index.iter().map(|&pattern| table.number[pattern as usize]).collect();
        let (kinds, index) = (device.upload(&grid.kinds)?, device.upload(&index)?);
        let shape = Shape::grid_stride(grid.states().into(), THREADS);
        let (width, height, walled) = (grid.grid.width, grid.grid.height, u32::from(!grid.kinds.is_empty()));
        // SAFETY: `pattern` has one element per cell. `GridPatterns` guarantees that `kinds` is empty or has one
        // element below 4 per cell, and that `index` has `PATTERNS` elements.
        unsafe { grid_patterns(device, shape, width, height, walled, &kinds, &index, &mut pattern)? };
        Self::patterns(device, pattern, table)
    }
}

/// Converts an `f64` array to T; `None` if it exceeds the 2³² − 1 elements of one launch.
fn shortened<T: Precise>(device: &AnyDevice, exact: &AnyBuffer<f64>) -> Result<Option<AnyBuffer<T>>, DeviceError> {
    let Ok(count) = u32::try_from(exact.len()) else { return Ok(None) };
    let mut found = device.zeros(exact.len())?;
    // SAFETY: `exact` and `found` have `count` elements.
    unsafe { convert(device, Shape::cover(count.into(), THREADS), count, exact, &mut found)? };
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use warpkov_device::emulator::Emulator;

    use super::*;
    use crate::generate::{Garnet, SlipGrid};
    use crate::options::Storage;

    /// Conversion on the device and on the host gives the same bits.
    #[test]
    fn device_and_host_convert_to_the_same_bits() {
        let device = AnyDevice::from(Emulator::default());
        let numbers = |stored: &Stored<f32, u32>| {
            let (prob, reward) = match stored {
                Stored::Rows { prob, reward, .. } | Stored::Slices { prob, reward, .. } => (prob, reward),
                Stored::Narrow { palette, rewards, .. } => (palette, rewards),
                Stored::Patterns { prob, reward, .. } => (prob, reward),
            };
            [prob, reward]
                .map(|numbers| device.to_vec(numbers).unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        let garnet = Garnet { states: 300, ragged: true, terminal_fraction: 0.1, ..Garnet::default() };
        let grid = SlipGrid { width: 30, height: 20, wall_fraction: 0.2, ..SlipGrid::default() };
        let mut kinds = 0;
        for mdp in [garnet.generate().unwrap(), grid.generate().unwrap()] {
            for storage in [Storage::Rows, Storage::Slices, Storage::Narrow, Storage::Patterns] {
                let Some(sweep_layout) = SweepLayout::new(&mdp, Some(storage)) else { continue };
                let exact = Stored::<f64, u32>::upload(&device, &sweep_layout).unwrap();
                let short = Stored::<f32, u32>::shortened(&device, &exact).unwrap().unwrap();
                let uploaded = Stored::<f32, u32>::upload(&device, &sweep_layout).unwrap();
                assert_eq!(numbers(&short), numbers(&uploaded), "{storage}");
                kinds += 1;
            }
        }
        assert!(kinds >= 6, "{kinds}");
    }
}
