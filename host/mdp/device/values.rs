//! Value iteration on a device: greedy sweeps over the smallest layout that a model has.

use std::rc::Rc;

use rayon::prelude::*;
use warpkov_device::device::Offset;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::mdp::backup::narrow::{NarrowSlicesArgs, backup_narrow};
use warpkov_kernels::mdp::backup::patterns::{PatternsArgs, backup_patterns};
use warpkov_kernels::mdp::backup::rows::backup_rows;
use warpkov_kernels::mdp::backup::slices::{SlicesArgs, backup_slices};
use warpkov_kernels::mdp::backup::{SLOTS, SweepArgs, TilesArgs, convert};
use warpkov_kernels::mdp::change::of_sweep;
use warpkov_kernels::mdp::choices::ChoicesArgs;
use warpkov_kernels::mdp::generate::grid_patterns;
use warpkov_kernels::mdp::model::{IteratesArgs, ModelArgs};
use warpkov_kernels::mdp::residual::largest;
use warpkov_kernels::primitives::rows::RowsArgs;

use super::patterns::Table;
use super::policy::{THREADS, lanes_for, offsets, upload_choices};
use super::slices::{Slices, palette};
use crate::common::interrupt;
use crate::mdp::analysis::palette::seem_distinct;
use crate::mdp::analysis::patterns::Patterns;
use crate::mdp::analysis::tiles::Tiles;
use crate::mdp::backend::{Backups, Correct, GreedySweeps, State, Stop};
use crate::mdp::certificate::greedy;
use crate::mdp::generate::GridPatterns;
use crate::mdp::model::Mdp;
use crate::mdp::options::Storage;
use crate::runtime::Precise;

/// Sweeps that are asked for without a word from the device in between, at most: so many are recorded.
const MAX_BATCH: usize = 64;

/// Sweeps of the first batch, from which the number of those that follow is told.
const FIRST_BATCH: usize = 32;

/// States of a tile of whole slices: one for each thread.
pub(super) const SLICES_TILE: usize = THREADS as usize;

/// States of a tile of what takes fewer bytes: a few for each thread where states are many.
pub(super) fn tile(states: usize) -> usize {
    (states / 512).next_power_of_two().clamp(THREADS as usize, 4 * THREADS as usize)
}

/// Bytes of patterns that go to shared memory: so many that some blocks still fit on a multiprocessor.
const MAX_SHARED: u32 = 64 << 10;

/// Bytes of patterns whose copies take time.
const PATTERN_BYTES: u32 = 8 << 10;

/// A model, laid out.
pub struct SweepLayout<'m> {
    pub(super) model: Model<'m>,
    pub(super) tiles: Option<Tiles>,
}

/// Where the model on the device comes from.
pub(super) enum Model<'m> {
    /// From the host, in a layout.
    Host { mdp: &'m Mdp, reward: Vec<f64>, layout: RowLayout },
    /// The device makes it.
    Generated { grid: &'m GridPatterns, table: Table },
}

pub(super) enum RowLayout {
    Rows { lanes: u32, states_per_block: u32 },
    Slices(Slices),
    Narrow { slices: Slices, wide: bool, palette: Vec<f64>, rewards: Vec<f64> },
    Patterns { patterns: Patterns, table: Box<Table> },
}

impl<'m> SweepLayout<'m> {
    /// The smallest layout of a model, or the one asked for; `None` if the model does not have that.
    #[must_use]
    pub fn new(mdp: &'m Mdp, storage: Option<Storage>) -> Option<Self> {
        let reward = mdp.expected_rewards();
        let layout = match storage {
            Some(Storage::Rows) => Some(rows(mdp)),
            Some(Storage::Slices) => Slices::of(mdp).map(RowLayout::Slices),
            Some(Storage::Narrow) => narrow(mdp, &reward),
            Some(Storage::Patterns) => patterns(mdp, &reward),
            None => patterns(mdp, &reward).or_else(|| narrow(mdp, &reward)).or_else(|| Some(slices_or_rows(mdp))),
        }?;
        let size = layout.tile(mdp);
        Some(Self { model: Model::Host { mdp, reward, layout }, tiles: Tiles::find(mdp, size) })
    }

    /// Patterns, of which the device finds out which states have which; `None` where rows are too long for it.
    #[must_use]
    pub fn generated(grid: &'m GridPatterns) -> Option<Self> {
        let table = Table::of(&grid.patterns, grid.grid.gamma)?;
        let tiles = Tiles::of_grid(grid.grid.width, grid.states(), tile(grid.states() as usize));
        Some(Self { model: Model::Generated { grid, table }, tiles: Some(tiles) })
    }

    /// The smallest layout in which every row has a reward of its own.
    #[must_use]
    pub fn with_rewards(mdp: &'m Mdp) -> Self {
        let layout = slices_or_rows(mdp);
        let size = layout.tile(mdp);
        let reward = mdp.expected_rewards();
        Self { model: Model::Host { mdp, reward, layout }, tiles: Tiles::find(mdp, size) }
    }

    /// Sweeps all states every time, whether they can have changed or not.
    #[must_use]
    pub fn without_skipping(self) -> Self {
        Self { tiles: None, ..self }
    }

    /// What it is.
    #[must_use]
    pub fn storage(&self) -> Storage {
        match &self.model {
            Model::Host { layout: RowLayout::Rows { .. }, .. } => Storage::Rows,
            Model::Host { layout: RowLayout::Slices(_), .. } => Storage::Slices,
            Model::Host { layout: RowLayout::Narrow { .. }, .. } => Storage::Narrow,
            Model::Host { layout: RowLayout::Patterns { .. }, .. } | Model::Generated { .. } => Storage::Patterns,
        }
    }

    /// Whether it passes over states that cannot have changed.
    #[must_use]
    pub fn skips(&self) -> bool {
        self.tiles.is_some()
    }

    /// Whether offsets into its arrays need 64 bits. Kernels look a few rows beyond an offset before they compare it with
    /// the end, and that must not wrap around.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        let Model::Host { mdp, layout, .. } = &self.model else { return false };
        let entries = match layout {
            RowLayout::Rows { .. } => mdp.transitions().nnz().max(mdp.rows()),
            RowLayout::Slices(slices) | RowLayout::Narrow { slices, .. } => slices.entries().max(slices.rewards()),
            RowLayout::Patterns { .. } => 0,
        };
        entries > u32::MAX as usize - 1024
    }

    /// Bytes of the model on a device, with V and probabilities in T and offsets in O: what a sweep reads of it.
    #[must_use]
    pub fn model_bytes<T: Precise, O: Offset>(&self) -> u64 {
        let (t, o) = (size_of::<T>(), size_of::<O>());
        let slices = |slices: &Slices| slices.extent.len() * 4 * o;
        let patterns = |states: u32, table: &Table| 2 * states as usize + table.bytes::<T>();
        let (mdp, layout) = match &self.model {
            Model::Host { mdp, layout, .. } => (mdp, layout),
            Model::Generated { grid, table } => return patterns(grid.states(), table) as u64,
        };
        (match layout {
            RowLayout::Rows { .. } => mdp.transitions().nnz() * (4 + t) + mdp.rows() * (o + t),
            RowLayout::Slices(s) => slices(s) + s.entries() * (4 + t) + s.rewards() * t,
            RowLayout::Narrow { slices: s, wide, .. } => {
                slices(s) + s.entries() * if *wide { 3 } else { 2 } + s.rewards() * 2
            }
            RowLayout::Patterns { table, .. } => patterns(mdp.states(), table),
        }) as u64
    }

    /// Of those, the bytes that a model in 64 bits and one in 32 have in common.
    #[must_use]
    pub fn shared_bytes<O: Offset>(&self) -> u64 {
        let Model::Host { mdp, layout, .. } = &self.model else { return 0 };
        let o = size_of::<O>();
        (match layout {
            RowLayout::Rows { .. } => mdp.transitions().nnz() * 4 + mdp.rows() * o,
            RowLayout::Slices(slices) => slices.extent.len() * 4 * o + slices.entries() * 4,
            RowLayout::Narrow { .. } => return self.model_bytes::<f32, O>(),
            RowLayout::Patterns { .. } => 2 * mdp.states() as usize,
        }) as u64
    }

    /// Bytes of device memory in all.
    #[must_use]
    pub fn bytes<T: Precise, O: Offset>(&self) -> u64 {
        let tiles = self.tiles.as_ref().map_or(0, |tiles| 4 * (3 * tiles.ptr.len() + tiles.needs.len()));
        let kinds = match &self.model {
            Model::Host { .. } => 0,
            Model::Generated { grid, .. } => grid.kinds.len(),
        };
        self.model_bytes::<T, O>()
            + 2 * u64::from(self.source().states()) * size_of::<T>() as u64
            + (tiles + kinds) as u64
    }

    fn source(&self) -> Source<'m> {
        match &self.model {
            Model::Host { mdp, .. } => Source::Host(mdp),
            Model::Generated { grid, .. } => Source::Generated(grid),
        }
    }
}

/// What the host knows of the model.
#[derive(Clone, Copy)]
enum Source<'m> {
    Host(&'m Mdp),
    Generated(&'m GridPatterns),
}

impl Source<'_> {
    fn states(self) -> u32 {
        match self {
            Self::Host(mdp) => mdp.states(),
            Self::Generated(grid) => grid.states(),
        }
    }

    fn gamma(self) -> f64 {
        match self {
            Self::Host(mdp) => mdp.gamma(),
            Self::Generated(grid) => grid.grid.gamma,
        }
    }

    fn greedy(self, values: &[f64]) -> Vec<u32> {
        match self {
            Self::Host(mdp) => greedy(mdp, values),
            Self::Generated(grid) => grid.greedy(values),
        }
    }
}

impl RowLayout {
    /// States of a tile.
    fn tile(&self, mdp: &Mdp) -> usize {
        match self {
            Self::Rows { states_per_block, .. } => *states_per_block as usize,
            Self::Slices(_) => SLICES_TILE,
            Self::Narrow { .. } | Self::Patterns { .. } => tile(mdp.states() as usize),
        }
    }
}

/// Slices where rows are short, if these would not be mostly padding; else rows.
fn slices_or_rows(mdp: &Mdp) -> RowLayout {
    let mean = mdp.transitions().nnz() as f64 / mdp.rows() as f64;
    let slices = if mean <= 8.0 { Slices::of(mdp).map(RowLayout::Slices) } else { None };
    slices.unwrap_or_else(|| rows(mdp))
}

fn rows(mdp: &Mdp) -> RowLayout {
    let lanes = lanes_for(mdp.transitions().nnz() as f64 / mdp.rows() as f64 / 2.0);
    let actions = mdp.rows().div_ceil(mdp.states() as usize) as u32;
    RowLayout::Rows { lanes, states_per_block: (THREADS / lanes / actions).max(1) }
}

fn narrow(mdp: &Mdp, reward: &[f64]) -> Option<RowLayout> {
    let reach = |state: usize| {
        let rows = mdp.choices().rows(state);
        let entries = mdp.transitions().row_ptr()[rows.start] as usize..mdp.transitions().row_ptr()[rows.end] as usize;
        let offsets = mdp.transitions().col()[entries].iter().map(|&successor| i64::from(successor) - state as i64);
        offsets.fold([0, 0], |[least, greatest]: [i64; 2], offset| [least.min(offset), greatest.max(offset)])
    };
    let fits = |[least, greatest]: [i64; 2], bits: u32| least >= -(1 << (bits - 1)) && greatest < 1 << (bits - 1);
    // The first that does not fit ends the search.
    let both = |a: [i64; 2], b: [i64; 2]| Some([a[0].min(b[0]), a[1].max(b[1])]).filter(|&both| fits(both, 16));
    let reached = (0..mdp.states() as usize).into_par_iter().map(|state| Some(reach(state)));
    let reached = reached.try_reduce(|| [0, 0], both)?;
    if seem_distinct(mdp.transitions().val(), 1 << 8) {
        return None;
    }
    let slices = Slices::of(mdp)?;
    let palette_of_probabilities = palette(0.0, mdp.transitions().val(), 1 << 8)?;
    let rewards = palette(f64::NEG_INFINITY, reward, 1 << 16)?;
    Some(RowLayout::Narrow { slices, wide: !fits(reached, 8), palette: palette_of_probabilities, rewards })
}

fn patterns(mdp: &Mdp, reward: &[f64]) -> Option<RowLayout> {
    let patterns = Patterns::find(mdp, reward)?;
    let table = Table::of(&patterns, mdp.gamma())?;
    Some(RowLayout::Patterns { patterns, table: Box::new(table) })
}

/// Probabilities with their discount.
pub(super) fn discounted(gamma: f64, probabilities: &[f64]) -> Vec<f64> {
    probabilities.iter().map(|p| gamma * p).collect()
}

/// The model in a device's memory. What is not in T is shared between precisions.
enum Stored<T: Precise, O: Offset, D: Device> {
    Rows {
        lanes: u32,
        states_per_block: u32,
        actions: u32,
        choices: Rc<D::Buffer<O>>,
        row_ptr: Rc<D::Buffer<O>>,
        col: Rc<D::Buffer<u32>>,
        prob: D::Buffer<T>,
        reward: D::Buffer<T>,
    },
    Slices {
        place: Rc<D::Buffer<O>>,
        col: Rc<D::Buffer<u32>>,
        prob: D::Buffer<T>,
        reward: D::Buffer<T>,
    },
    Narrow {
        place: Rc<D::Buffer<O>>,
        offset: Narrow<D>,
        prob: Rc<D::Buffer<u8>>,
        palette: D::Buffer<T>,
        reward: Rc<D::Buffer<u16>>,
        rewards: D::Buffer<T>,
    },
    Patterns {
        actions: u32,
        distinct: usize,
        /// How many there are of each half, and how a number tells which.
        halves: [u32; 4],
        pattern: Rc<D::Buffer<u16>>,
        offset: Rc<D::Buffer<i32>>,
        prob: D::Buffer<T>,
        reward: D::Buffer<T>,
    },
}

/// Successors as offsets.
enum Narrow<D: Device> {
    One(Rc<D::Buffer<i8>>),
    Two(Rc<D::Buffer<i16>>),
}

impl<T: Precise, O: Offset, D: Device> Stored<T, O, D> {
    fn upload(device: &D, plan: &SweepLayout) -> Result<Self, D::Error> {
        let (mdp, reward, layout) = match &plan.model {
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
                let pattern: Vec<u16> =
                    patterns.of_state.par_iter().map(|&pattern| table.number[pattern as usize]).collect();
                let pattern = device.upload(&pattern)?;
                Self::patterns(device, pattern, table)?
            }
        })
    }

    /// The same in a shorter type, made on the device of what `exact` holds; `None` where an array has too many elements.
    fn shortened(device: &D, exact: &Stored<f64, O, D>) -> Result<Option<Self>, D::Error> {
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

    fn patterns(device: &D, pattern: D::Buffer<u16>, table: &Table) -> Result<Self, D::Error> {
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

    fn generate(device: &D, grid: &GridPatterns, table: &Table) -> Result<Self, D::Error> {
        let mut pattern = device.zeros(grid.states() as usize)?;
        let index: Vec<u16> = grid.index.iter().map(|&pattern| table.number[pattern as usize]).collect();
        let (kinds, index) = (device.upload(&grid.kinds)?, device.upload(&index)?);
        let shape = Shape::grid_stride(grid.states().into(), THREADS);
        let (width, height, walled) = (grid.grid.width, grid.grid.height, u32::from(!grid.kinds.is_empty()));
        // SAFETY: `pattern` has one element per cell, `kinds` as many or none, and `index` one per number of a pattern.
        unsafe { grid_patterns(device, shape, width, height, walled, &kinds, &index, &mut pattern)? };
        Self::patterns(device, pattern, table)
    }
}

/// Numbers in another type; `None` where they are more than one launch takes.
fn shortened<T: Precise, D: Device>(device: &D, exact: &D::Buffer<f64>) -> Result<Option<D::Buffer<T>>, D::Error> {
    let Ok(count) = u32::try_from(exact.len()) else { return Ok(None) };
    let mut found = device.zeros(exact.len())?;
    // SAFETY: both have `count` elements.
    unsafe { convert(device, Shape::cover(count.into(), THREADS), count, exact, &mut found)? };
    Ok(Some(found))
}

/// A stop as the kernels read it, in a device's memory.
pub(super) struct OnDevice<D: Device> {
    pub buffer: D::Buffer<f64>,
    now: Option<Stop>,
}

impl<D: Device> OnDevice<D> {
    pub fn new(device: &D) -> Result<Self, D::Error> {
        Ok(Self { buffer: device.zeros(2)?, now: None })
    }

    /// Puts it there, if it is another than before.
    pub fn set(&mut self, device: &D, stop: Stop) -> Result<(), D::Error> {
        if self.now != Some(stop) {
            self.now = Some(stop);
            device.write(&mut self.buffer, &[stop.bound(), f64::from(u8::from(matches!(stop, Stop::Span(_))))])?;
        }
        Ok(())
    }
}

/// What tiles depend on, in a device's memory.
pub(super) struct Dependencies<D: Device> {
    pub skip: bool,
    pub ptr: D::Buffer<u32>,
    pub needs: D::Buffer<u32>,
    pub changed_old: D::Buffer<u32>,
    pub changed_new: D::Buffer<u32>,
    /// One 1 per tile: before the first sweep all have changed.
    pub all: Vec<u32>,
}

impl<D: Device> Dependencies<D> {
    pub fn upload(device: &D, tiles: Option<&Tiles>) -> Result<Self, D::Error> {
        let (ptr, needs) = tiles.map_or((&[][..], &[][..]), |tiles| (&tiles.ptr, &tiles.needs));
        let all = vec![1; ptr.len().saturating_sub(1)];
        Ok(Self {
            skip: tiles.is_some(),
            ptr: device.upload(ptr)?,
            needs: device.upload(needs)?,
            changed_old: device.upload(&all)?,
            changed_new: device.zeros(all.len())?,
            all,
        })
    }

    /// What kernels are told of tiles of `len` states.
    pub fn args(&mut self, len: u32) -> TilesArgs<'_, D> {
        let Self { skip, ptr, needs, changed_old, changed_new, .. } = self;
        TilesArgs { len, skip: u32::from(*skip), needs_ptr: ptr, needs, changed_old, changed_new }
    }

    /// Says that all have changed.
    pub fn changed_all(&mut self, device: &D) -> Result<(), D::Error> {
        device.write(&mut self.changed_old, &self.all)
    }
}

/// Value iteration by greedy sweeps, V in T.
pub struct ValueIteration<'d, T: Precise, O: Offset, D: Device> {
    device: &'d D,
    source: Source<'d>,
    model: Stored<T, O, D>,
    /// Where the elements are, if the model is stored as plain slices.
    slices: Option<Slices>,
    model_bytes: u64,
    tiles: Dependencies<D>,
    v_old: D::Buffer<T>,
    v_new: D::Buffer<T>,
    slots: D::Buffer<u64>,
    /// What the present stop is on the device.
    stop: OnDevice<D>,
    /// Whether V is in the other of the two buffers that it takes turns in.
    turned: bool,
    /// A whole batch that begins when it is not.
    recorded: Option<D::Graph>,
}

impl<'d, T: Precise, O: Offset, D: Device> ValueIteration<'d, T, O, D> {
    /// Uploads the model and starts at V = 0.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(device: &'d D, plan: &SweepLayout<'d>) -> Result<Self, D::Error> {
        Self::with(device, plan, Stored::upload(device, plan)?)
    }

    /// Starts at V = 0 with a model that is on the device.
    fn with(device: &'d D, plan: &SweepLayout<'d>, model: Stored<T, O, D>) -> Result<Self, D::Error> {
        assert!(O::WIDE || !plan.is_wide(), "offsets of 32 bits are too small for the model");
        let source = plan.source();
        let states = source.states() as usize;
        let mut values = Self {
            device,
            source,
            model,
            slices: match &plan.model {
                Model::Host { layout: RowLayout::Slices(slices), .. } => Some(slices.clone()),
                _ => None,
            },
            model_bytes: plan.model_bytes::<T, O>(),
            tiles: Dependencies::upload(device, plan.tiles.as_ref())?,
            v_old: device.zeros(states)?,
            v_new: device.zeros(states)?,
            slots: device.zeros(SLOTS * MAX_BATCH)?,
            stop: OnDevice::new(device)?,
            turned: false,
            recorded: None,
        };
        values.recorded = device.capture(|| {
            device.clear(&mut values.slots)?;
            (0..MAX_BATCH).try_for_each(|sweep| values.sweep(sweep as u32))
        })?;
        Ok(values)
    }

    /// Launches sweep number `sweep` of a batch, and swaps what was for what is.
    fn sweep(&mut self, sweep: u32) -> Result<(), D::Error> {
        let Self { device, source, model, tiles, v_old, v_new, slots, stop, .. } = self;
        let (device, states, gamma) = (*device, source.states(), source.gamma());
        // As many blocks as the device holds, and no more than there are tiles.
        let by_tile = |tile: u32| Shape {
            grid: states.div_ceil(tile).into(),
            ..Shape::grid_stride(u64::from(states.div_ceil(tile)) * u64::from(THREADS), THREADS)
        };
        macro_rules! launch {
            ($kernel:expr, $shape:expr, $tile:expr, [$($argument:expr),*]) => {
                // SAFETY: an `Mdp` has only columns below |S|; it is laid out as the kernel reads it, and the buffers have its sizes.
                unsafe {
                    let sweep = SweepArgs { number: sweep, stop: &stop.buffer, slots, tiles: tiles.args($tile) };
                    $kernel(device, $shape, states, $($argument,)* IteratesArgs { old: v_old, new: v_new }, sweep)
                }
            };
        }
        let tile = tile(states as usize) as u32;
        match model {
            Stored::Slices { place, col, prob, reward } => {
                let tile = SLICES_TILE as u32;
                launch!(backup_slices, by_tile(tile), tile, [0, SlicesArgs { place, col, prob, reward }])
            }
            Stored::Narrow { place, offset, prob, palette, reward, rewards } => {
                macro_rules! narrow {
                    ($offset:expr) => {{
                        let slices =
                            NarrowSlicesArgs::<T, O, _, D> { place, offset: $offset, prob, palette, reward, rewards };
                        launch!(backup_narrow, by_tile(tile), tile, [0, slices])
                    }};
                }
                match offset {
                    Narrow::One(offset) => narrow!(offset),
                    Narrow::Two(offset) => narrow!(offset),
                }
            }
            Stored::Patterns { actions, distinct, halves, pattern, offset, prob, reward } => {
                let [moves, rewards, shift, mask] = *halves;
                // In whole elements of T, which the kernel takes it for.
                let numbers = (prob.len() + reward.len()) * size_of::<T>();
                let bytes = (numbers + offset.len() * 4).next_multiple_of(size_of::<T>()) as u32;
                let fits = bytes <= MAX_SHARED;
                // Larger blocks, so that fewer copy the patterns.
                let threads = if fits && bytes > PATTERN_BYTES { 2 * THREADS } else { THREADS };
                let shape = Shape { block: threads.into(), ..by_tile(tile) }.with_shared(if fits { bytes } else { 0 });
                let patterns = PatternsArgs::<T, D> {
                    actions: *actions,
                    moves,
                    rewards,
                    shift,
                    mask,
                    pattern,
                    offset,
                    prob,
                    reward,
                };
                macro_rules! patterns {
                    ($distinct:literal) => {
                        launch!(backup_patterns::<T, $distinct, D>, shape, tile, [patterns, u32::from(fits)])
                    };
                }
                match distinct {
                    3 => patterns!(3),
                    5 => patterns!(5),
                    7 => patterns!(7),
                    _ => patterns!(15),
                }
            }
            Stored::Rows { lanes, states_per_block, actions, choices, row_ptr, col, prob, reward } => {
                let shape = by_tile(*states_per_block).with_shared(THREADS / *lanes * 8);
                let model = ModelArgs::<T, O, D> {
                    choices: ChoicesArgs { actions: *actions, offsets: choices },
                    rows: RowsArgs { ptr: row_ptr, col, prob },
                    reward,
                    gamma,
                };
                macro_rules! rows {
                    ($lanes:literal) => {
                        launch!(backup_rows::<T, O, $lanes, D>, shape, *states_per_block, [model])
                    };
                }
                match lanes {
                    1 => rows!(1),
                    2 => rows!(2),
                    4 => rows!(4),
                    8 => rows!(8),
                    16 => rows!(16),
                    _ => rows!(32),
                }
            }
        }?;
        self.swap();
        Ok(())
    }

    /// Launches a batch of sweeps.
    fn batch(&mut self, sweeps: usize) -> Result<usize, D::Error> {
        self.device.clear(&mut self.slots)?;
        for sweep in 0..sweeps {
            if sweep > 0 && interrupt::requested() {
                return Ok(sweep);
            }
            self.sweep(sweep as u32)?;
        }
        Ok(sweeps)
    }

    fn swap(&mut self) {
        self.turned = !self.turned;
        std::mem::swap(&mut self.v_old, &mut self.v_new);
        std::mem::swap(&mut self.tiles.changed_old, &mut self.tiles.changed_new);
    }

    /// Takes over V from a run in another precision.
    fn take<U: Precise>(&mut self, other: &ValueIteration<'_, U, O, D>) -> Result<(), D::Error> {
        let states = self.source.states();
        let shape = Shape::cover(u64::from(states), THREADS);
        // SAFETY: both vectors have one element per state.
        unsafe { convert(self.device, shape, states, &other.v_old, &mut self.v_old)? };
        self.tiles.changed_all(self.device)
    }
}

impl<T: Precise, O: Offset, D: Device> State for ValueIteration<'_, T, O, D> {
    type Error = D::Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), D::Error> {
        match initial {
            Some(values) => {
                assert_eq!(values.len(), self.source.states() as usize, "a value for each state");
                self.device.write(&mut self.v_old, &T::of(values))?;
            }
            None => self.device.clear(&mut self.v_old)?,
        }
        self.tiles.changed_all(self.device)
    }

    fn values(&mut self) -> Result<Vec<f64>, D::Error> {
        Ok(self.device.to_vec(&self.v_old)?.into_par_iter().map(T::to_f64).collect())
    }

    fn policy(&mut self) -> Result<Vec<u32>, D::Error> {
        Ok(self.source.greedy(&self.values()?))
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    /// The model once, and V read and written.
    fn sweep_bytes(&mut self) -> Result<u64, D::Error> {
        Ok(self.model_bytes + 2 * u64::from(self.source.states()) * size_of::<T>() as u64)
    }
}

impl<T: Precise, O: Offset, D: Device> Correct for ValueIteration<'_, T, O, D> {
    fn set_rewards(&mut self, rewards: &[f64]) -> Result<bool, D::Error> {
        if let Source::Host(mdp) = self.source {
            assert_eq!(rewards.len(), mdp.rows(), "a reward for each row");
        }
        match (&mut self.model, &self.slices, self.source) {
            (Stored::Rows { reward, .. }, ..) => self.device.write(reward, &T::of(rewards))?,
            (Stored::Slices { reward, .. }, Some(slices), Source::Host(mdp)) => {
                self.device.write(reward, &slices.rewards_of(slices.earnings::<T>(mdp, rewards)))?;
            }
            _ => return Ok(false),
        }
        self.tiles.changed_all(self.device)?;
        Ok(true)
    }
}

impl<T: Precise, O: Offset, D: Device> GreedySweeps for ValueIteration<'_, T, O, D> {
    /// Sweeps are asked for in batches; those after one that met `stop` return at once.
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, D::Error> {
        let mut done = Backups { sweeps: 0, least: 0.0, greatest: 0.0, fixed: false };
        self.stop.set(self.device, stop)?;
        // Where no sweep is good enough, all are wanted.
        let mut batch = if stop.bound() > 0.0 { FIRST_BATCH } else { MAX_BATCH };
        loop {
            let left = (max_sweeps - done.sweeps) as usize;
            batch = batch.clamp(1, MAX_BATCH).min(left);
            // To return at once takes a sweep less time than to be asked for by itself.
            match &self.recorded {
                Some(recorded) if batch > MAX_BATCH / 4 && left >= MAX_BATCH && !self.turned => {
                    batch = MAX_BATCH;
                    // SAFETY: it was made of the buffers that are still here, and they hold what they held.
                    unsafe { self.device.launch_graph(recorded)? };
                }
                // What is recorded begins with V in the first buffer.
                Some(_) if batch > MAX_BATCH / 4 && self.turned => {
                    batch = self.batch(1)?;
                }
                _ => batch = self.batch(batch)?,
            }
            let mut slots = vec![0; SLOTS * batch];
            self.device.download(&self.slots, &mut slots)?;
            let mut swept = 0;
            for slot in slots.chunks_exact(SLOTS) {
                // The slots of a sweep that returned at once are 0, which no number is ordered as.
                if slot[0] == 0 {
                    break;
                }
                swept += 1;
                [done.least, done.greatest] = changes(slot);
                done.fixed = slot[2] == 0;
            }
            // Sweeps that returned at once wrote nothing: where their number is odd, V is in the other buffer.
            if (batch - swept) % 2 == 1 {
                self.swap();
            }
            done.sweeps += swept as u32;
            let met = done.fixed || stop.is_met(done.least, done.greatest);
            if met || done.sweeps >= max_sweeps || interrupt::requested() {
                return Ok(done);
            }
            batch = self.expected(stop, &done);
        }
    }
}

impl<T: Precise, O: Offset, D: Device> ValueIteration<'_, T, O, D> {
    /// Sweeps that it takes to meet `stop`, if changes fall by γ in each.
    fn expected(&self, stop: Stop, now: &Backups) -> usize {
        let sweeps = (stop.bound() / stop.size(now.least, now.greatest)).ln() / self.source.gamma().ln();
        if sweeps.is_finite() { sweeps as usize + 2 } else { MAX_BATCH }
    }
}

/// Least and greatest change of the sweep that left these slots.
pub(super) fn changes(slot: &[u64]) -> [f64; 2] {
    let (least, greatest) = of_sweep(slot[0], slot[1]);
    // Where no state has an action, nothing changes.
    if greatest == f64::NEG_INFINITY { [0.0; 2] } else { [least, greatest] }
}

/// How far V is from TV, in f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// Least and greatest TV − V of states that have actions.
    pub range: [f64; 2],
    /// ‖V‖∞, infinite where V holds what is not a number.
    pub largest: f64,
}

/// What is asked of a backend that has the model alone: what V can be certified with.
pub trait Certify: GreedySweeps {
    /// TV − V of the present V, which stays, by a sweep over all states.
    fn residual(&mut self) -> Result<Residual, Self::Error>;
}

impl<O: Offset, D: Device> Certify for ValueIteration<'_, f64, O, D> {
    fn residual(&mut self) -> Result<Residual, D::Error> {
        let device = self.device;
        let read = |slots: &D::Buffer<u64>| {
            let mut slot = [0; SLOTS];
            device.download(slots, &mut slot).map(|()| slot)
        };
        device.clear(&mut self.slots)?;
        let states = self.source.states();
        // SAFETY: V has one element per state, and the slots are 0.
        unsafe { largest(device, Shape::grid_stride(states.into(), THREADS), states, &self.v_old, &mut self.slots)? };
        let largest = f64::from_bits(read(&self.slots)?[0]);
        device.clear(&mut self.slots)?;
        self.tiles.changed_all(device)?;
        // No change is below 0. V_new is TV as found in f64, and changes are its differences from V, rounded once: the
        // certificate accounts for all of it.
        self.sweep(0)?;
        let range = changes(&read(&self.slots)?);
        self.swap();
        self.tiles.changed_all(device)?;
        Ok(Residual { range, largest })
    }
}

impl<O: Offset, D: Device> Certify for Mixed<'_, O, D> {
    /// Goes over to f64.
    fn residual(&mut self) -> Result<Residual, D::Error> {
        self.go_over()?;
        self.exact.residual()
    }
}

/// Value iteration by greedy sweeps in f32 as far as these come, and in f64 from there.
pub struct Mixed<'d, O: Offset, D: Device> {
    fast: ValueIteration<'d, f32, O, D>,
    exact: ValueIteration<'d, f64, O, D>,
    /// Whether it has gone over to f64.
    exactly: bool,
    /// How far from the stop it was in f32.
    last: f64,
}

impl<'d, O: Offset, D: Device> Mixed<'d, O, D> {
    /// Uploads the model, has the device make one in 32 bits of it, and starts at V = 0.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(device: &'d D, plan: &SweepLayout<'d>) -> Result<Self, D::Error> {
        let exact = ValueIteration::new(device, plan)?;
        let fast = match Stored::shortened(device, &exact.model)? {
            Some(model) => ValueIteration::with(device, plan, model)?,
            None => ValueIteration::new(device, plan)?,
        };
        Ok(Self { fast, exact, exactly: false, last: f64::INFINITY })
    }

    /// Takes V over to f64, if it is not there.
    fn go_over(&mut self) -> Result<(), D::Error> {
        if !self.exactly {
            self.exact.take(&self.fast)?;
            self.exactly = true;
        }
        Ok(())
    }
}

impl<O: Offset, D: Device> State for Mixed<'_, O, D> {
    type Error = D::Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), D::Error> {
        (self.exactly, self.last) = (false, f64::INFINITY);
        self.fast.reset(initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, D::Error> {
        if self.exactly { self.exact.values() } else { self.fast.values() }
    }

    fn policy(&mut self) -> Result<Vec<u32>, D::Error> {
        if self.exactly { self.exact.policy() } else { self.fast.policy() }
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    fn sweep_bytes(&mut self) -> Result<u64, D::Error> {
        if self.exactly { self.exact.sweep_bytes() } else { self.fast.sweep_bytes() }
    }
}

impl<O: Offset, D: Device> GreedySweeps for Mixed<'_, O, D> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, D::Error> {
        let mut before = 0;
        if !self.exactly {
            let found = self.fast.backup(stop, max_sweeps)?;
            before = found.sweeps;
            // Without rounding, n sweeps make what is left γⁿ times as large at most. What comes nowhere near that is
            // rounding, and as little is known of what met the stop: on in f64, which finds out whether that was so.
            let left = stop.size(found.least, found.greatest);
            let rounding = left >= self.last * (1.0 + self.fast.source.gamma().powi(before as i32)) / 2.0;
            self.last = left;
            let met = stop.is_met(found.least, found.greatest);
            if before >= max_sweeps && !(met || found.fixed || rounding) {
                return Ok(found);
            }
            self.go_over()?;
        }
        // At least one, as what f32 found is not to be trusted any more.
        let found = self.exact.backup(stop, (max_sweeps - before).max(1))?;
        Ok(Backups { sweeps: before + found.sweeps, ..found })
    }

    fn phase(&self) -> u32 {
        u32::from(self.exactly)
    }
}

#[cfg(test)]
mod tests {
    use warpkov_device::emulator::Emulator;

    use super::*;
    use crate::mdp::generate::{Garnet, SlipGrid};

    /// The same bits, whether the host or the device makes them of what is in 64.
    #[test]
    fn models_in_32_bits_are_made_of_those_in_64() {
        let device = Emulator::default();
        let numbers = |stored: &Stored<f32, u32, Emulator>| {
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
                let Some(plan) = SweepLayout::new(&mdp, Some(storage)) else { continue };
                let exact = Stored::<f64, u32, Emulator>::upload(&device, &plan).unwrap();
                let short = Stored::<f32, u32, Emulator>::shortened(&device, &exact).unwrap().unwrap();
                let uploaded = Stored::<f32, u32, Emulator>::upload(&device, &plan).unwrap();
                assert_eq!(numbers(&short), numbers(&uploaded), "{storage}");
                kinds += 1;
            }
        }
        assert!(kinds >= 6, "{kinds}");
    }
}
