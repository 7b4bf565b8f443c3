//! The layouts of a model on a device for value iteration, and the choice of the most compact one that fits.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;
use warpkov_device::device::Offset;
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use super::layouts::narrow::Palettes;
use super::layouts::numbers::Footprint;
use super::layouts::patterns::PatternTable;
use super::layouts::rows::{self, RowIndex};
use super::layouts::slices::{self, Slices};
use super::layouts::uploaded::{AnyIndex, Uploaded};
use super::sweeps::THREADS;
use crate::analysis::tiles::Tiles;
use crate::certificate::greedy;
use crate::generate::GridPatterns;
use crate::model::{Choices, Mdp};
use crate::options::Storage;

/// A model in a device layout.
pub struct SweepLayout<'m> {
    pub(super) source: Source<'m>,
    /// Expected rewards; none for a generated model.
    pub(super) reward: Vec<f64>,
    pub(super) layout: AnyLayout<'m>,
    pub(super) tiles: Option<Tiles>,
}

/// The layouts of a model.
pub(super) enum AnyLayout<'m> {
    Rows(&'m Mdp),
    Slices(Slices<'m>),
    Narrow(Slices<'m>, Palettes),
    Patterns(Box<PatternTable>),
}

impl<'m> SweepLayout<'m> {
    /// The most compact layout that fits the model, or the requested one; `None` if the model does not fit the
    /// requested layout.
    #[must_use]
    pub fn new(mdp: &'m Mdp, storage: Option<Storage>) -> Option<Self> {
        let reward = mdp.expected_rewards();
        let narrow = || Palettes::new(mdp, &reward).map(|(slices, palettes)| AnyLayout::Narrow(slices, palettes));
        let patterns = || PatternTable::find(mdp, &reward).map(|table| AnyLayout::Patterns(table.into()));
        let layout = match storage {
            Some(Storage::Rows) => AnyLayout::Rows(mdp),
            Some(Storage::Slices) => AnyLayout::Slices(Slices::new(mdp)?),
            Some(Storage::Narrow) => narrow()?,
            Some(Storage::Patterns) => patterns()?,
            None => patterns().or_else(narrow).unwrap_or_else(|| slices_or_rows(mdp)),
        };
        Some(Self::with_layout(mdp, reward, layout))
    }

    /// The pattern layout of a grid whose pattern numbers the device generates; `None` if rows are too long for it.
    #[must_use]
    pub fn generated(grid: &'m GridPatterns) -> Option<Self> {
        let layout = AnyLayout::Patterns(PatternTable::new(&grid.patterns, grid.grid.gamma)?.into());
        let layout = Self { source: Source::Generated(grid), reward: Vec::new(), layout, tiles: None };
        let tiles = Tiles::of_grid(grid.grid.width, grid.states(), layout.tile() as usize);
        Some(Self { tiles: Some(tiles), ..layout })
    }

    /// The most compact layout with a separate reward per row, as refinement requires.
    #[must_use]
    pub fn with_rewards(mdp: &'m Mdp) -> Self {
        Self::with_layout(mdp, mdp.expected_rewards(), slices_or_rows(mdp))
    }

    fn with_layout(mdp: &'m Mdp, reward: Vec<f64>, layout: AnyLayout<'m>) -> Self {
        let layout = Self { source: Source::Host(mdp), reward, layout, tiles: None };
        // An all-gather replaces the ghosts in their place, and does not tell which ones change; tiles would depend on most
        // of them.
        let gathered = mdp.part().is_some_and(|part| part.all_gather);
        Self { tiles: if gathered { None } else { Tiles::find(mdp, layout.tile() as usize) }, ..layout }
    }

    /// Disables skipping: every sweep backs up all states.
    #[must_use]
    pub fn without_skipping(self) -> Self {
        Self { tiles: None, ..self }
    }

    /// The chosen layout.
    #[must_use]
    pub fn storage(&self) -> Storage {
        match self.layout {
            AnyLayout::Rows(_) => Storage::Rows,
            AnyLayout::Slices(_) => Storage::Slices,
            AnyLayout::Narrow(..) => Storage::Narrow,
            AnyLayout::Patterns(_) => Storage::Patterns,
        }
    }

    /// Whether sweeps skip tiles whose values cannot change.
    #[must_use]
    pub fn skips(&self) -> bool {
        self.tiles.is_some()
    }

    /// Whether offsets into the arrays need 64 bits. Kernels add a few rows to an offset before they compare it with
    /// the end, and that sum must not overflow.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.footprint::<u32>().longest > u32::MAX as usize - 1024
    }

    /// The model, unless the device generates it.
    pub(super) fn mdp(&self) -> Option<&'m Mdp> {
        if let Source::Host(mdp) = self.source { Some(mdp) } else { None }
    }

    fn footprint<O: Offset>(&self) -> Footprint {
        match &self.layout {
            AnyLayout::Rows(mdp) => rows::footprint::<O>(mdp),
            AnyLayout::Slices(slices) => slices.footprint::<O>(),
            AnyLayout::Narrow(slices, palettes) => palettes.footprint::<O>(slices),
            AnyLayout::Patterns(table) => table.footprint(self.source.states()),
        }
    }

    /// Bytes of the model that a sweep reads, with V and probabilities in T and offsets in O.
    #[must_use]
    pub fn model_bytes<T: Precise, O: Offset>(&self) -> u64 {
        let Footprint { shared, numbers, .. } = self.footprint::<O>();
        (shared + numbers * size_of::<T>()) as u64
    }

    /// The part of [`model_bytes`](Self::model_bytes) that an `f32` and an `f64` model share.
    #[must_use]
    pub fn shared_bytes<O: Offset>(&self) -> u64 {
        self.footprint::<O>().shared as u64
    }

    /// Total bytes of device memory.
    #[must_use]
    pub fn bytes<T: Precise, O: Offset>(&self) -> u64 {
        let tiles = self.tiles.as_ref().map_or(0, |tiles| 4 * (3 * tiles.ptr.len() + tiles.needs.len()));
        let kinds = self.source.grid().map_or(0, |grid| grid.kinds.len());
        let values = 2 * u64::from(self.source.states()) * size_of::<T>() as u64;
        self.model_bytes::<T, O>() + values + (tiles + kinds) as u64
    }

    pub(super) fn upload<T: Precise, O: Offset>(&self, device: &AnyDevice) -> Result<Uploaded<'m, T, O>, DeviceError> {
        let reward = &self.reward;
        let (index, numbers) = match &self.layout {
            AnyLayout::Rows(mdp) => {
                let (rows, numbers) = RowIndex::upload(device, mdp, reward)?;
                (AnyIndex::Rows(rows), numbers)
            }
            AnyLayout::Slices(slices) => {
                let (slices, numbers) = slices.upload(device, reward)?;
                (AnyIndex::Slices(slices), numbers)
            }
            AnyLayout::Narrow(slices, palettes) => {
                let index = match palettes.wide {
                    false => AnyIndex::Narrow8(palettes.index(device, slices, reward, |distance| distance as i8)?),
                    true => AnyIndex::Narrow16(palettes.index(device, slices, reward, |distance| distance as i16)?),
                };
                (index, palettes.upload(device, self.source.gamma())?)
            }
            AnyLayout::Patterns(table) => {
                let (patterns, numbers) = table.upload(device, self.source.grid())?;
                (AnyIndex::Patterns(patterns), numbers)
            }
        };
        Ok(Uploaded { index: index.into(), numbers })
    }

    /// The longest range of tiles of own states that other ranks do not need and that lead to no ghost, as states; empty
    /// for a whole model.
    pub(super) fn interior(&self) -> Range<u32> {
        let Source::Host(mdp) = self.source else { return 0..0 };
        let Some(part) = mdp.part().filter(|part| part.works) else { return 0..0 };
        let (tile, states, own) = (self.tile() as usize, mdp.states() as usize, &part.own);
        let inside = |tile_number: usize| {
            let tile = tile_number * tile..states.min((tile_number + 1) * tile);
            let mut rows = mdp.choices().first(tile.start)..mdp.choices().first(tile.end);
            let leads_inside = |row: usize| {
                // Columns ascend.
                let columns = mdp.transitions().row(row).0;
                [columns.first(), columns.last()].iter().flatten().all(|&&state| own.contains(&(state as usize)))
            };
            own.start <= tile.start && tile.end <= own.end && rows.all(leads_inside)
        };
        let mut inside: Vec<bool> = (0..states.div_ceil(tile)).into_par_iter().map(inside).collect();
        part.peers.iter().flat_map(|peer| peer.sends.iter()).for_each(|state| inside[state as usize / tile] = false);
        let (mut longest, mut start) = (0..0, 0);
        for run in inside.chunk_by(|a, b| a == b) {
            if run[0] && run.len() > longest.len() {
                longest = start..start + run.len();
            }
            start += run.len();
        }
        (longest.start * tile) as u32..states.min(longest.end * tile) as u32
    }

    /// The states that a sweep must visit, in whole tiles but for the last: the own ones, and with skipping those of all
    /// tiles, whose flags it sets.
    pub(super) fn visited(&self) -> Range<u32> {
        match self.source {
            Source::Host(mdp) if self.tiles.is_none() => {
                let own = mdp.own();
                (own.start - own.start % self.tile() as usize) as u32..own.end as u32
            }
            source => 0..source.states(),
        }
    }

    /// States per tile. In the narrow and pattern layouts 1 to 4 per thread, more for models with many states.
    pub(super) fn tile(&self) -> u32 {
        match &self.layout {
            AnyLayout::Rows(mdp) => rows::lanes_and_states(mdp).1,
            AnyLayout::Slices(_) => slices::TILE,
            AnyLayout::Narrow(..) | AnyLayout::Patterns(_) => {
                (self.source.states() / 512).next_power_of_two().clamp(THREADS, 4 * THREADS)
            }
        }
    }
}

/// Slices if rows are short and padding at most doubles the size; otherwise rows.
fn slices_or_rows(mdp: &Mdp) -> AnyLayout<'_> {
    let mean = mdp.transitions().nnz() as f64 / mdp.rows() as f64;
    let slices = if mean <= 8.0 { Slices::new(mdp) } else { None };
    slices.map_or_else(|| AnyLayout::Rows(mdp), AnyLayout::Slices)
}

/// The model on the host side.
#[derive(Clone, Copy)]
pub(super) enum Source<'m> {
    Host(&'m Mdp),
    Generated(&'m GridPatterns),
}

impl Source<'_> {
    pub fn states(self) -> u32 {
        match self {
            Self::Host(mdp) => mdp.states(),
            Self::Generated(grid) => grid.states(),
        }
    }

    /// The grid whose patterns the device generates.
    fn grid(&self) -> Option<&GridPatterns> {
        if let Self::Generated(grid) = self { Some(grid) } else { None }
    }

    pub fn gamma(self) -> f64 {
        match self {
            Self::Host(mdp) => mdp.gamma(),
            Self::Generated(grid) => grid.grid.gamma,
        }
    }

    /// The values, with 0 for states without actions, which sweeps leave alone.
    pub fn without_terminal(self, values: &[f64]) -> Cow<'_, [f64]> {
        match self {
            Self::Host(mdp) if matches!(mdp.choices(), Choices::Ragged(_)) => {
                let value = |(state, value): (usize, &f64)| if mdp.choices().count(state) > 0 { *value } else { 0.0 };
                values.par_iter().enumerate().map(value).collect::<Vec<_>>().into()
            }
            _ => values.into(),
        }
    }

    pub fn greedy(self, values: &[f64]) -> Vec<u32> {
        match self {
            Self::Host(mdp) => greedy(mdp, values),
            Self::Generated(grid) => grid.greedy(values),
        }
    }
}
