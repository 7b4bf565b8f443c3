//! Models as [kernels](warpkov_kernels::hmm) want them: rows padded to a stride, one model behind the other.

use warpkov_kernels::hmm::{TILE, step};
use warpkov_kernels::launch::Device;

use crate::backend::Precise;
use crate::hmm::model::{Emissions, Hmm};

/// Which kernels a number of states has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A warp for 8 sequences: N ≤ 32.
    Warp {
        /// Eighths of the stride: 1, 2 or 4.
        tiles: usize,
    },
    /// A block for a sequence: N ≤ 128.
    Block {
        /// Quarters of the stride: 16 or 32.
        per: usize,
    },
    /// A launch for a step: any N.
    Step,
}

impl Way {
    /// The one for N states.
    pub fn of(states: u32) -> Self {
        match states {
            0..=8 => Self::Warp { tiles: 1 },
            9..=16 => Self::Warp { tiles: 2 },
            17..=32 => Self::Warp { tiles: 4 },
            33..=64 => Self::Block { per: 16 },
            65..=128 => Self::Block { per: 32 },
            _ => Self::Step,
        }
    }

    /// Elements of a row.
    pub fn stride(self, states: u32) -> usize {
        match self {
            Self::Warp { tiles } => TILE * tiles,
            Self::Block { per } => 4 * per,
            Self::Step => (states as usize).next_multiple_of(step::COLUMNS as usize),
        }
    }
}

/// Models of one shape on a device, as probabilities or as their logarithms.
pub struct Models<T: Precise, D: Device> {
    /// π, and end or 1.
    pub start: D::Buffer<T>,
    pub end: D::Buffer<T>,
    /// A, and Aᵀ.
    pub transitions: D::Buffer<T>,
    pub transposed: D::Buffer<T>,
    /// bⱼ(v) at v·stride + j, where symbols are emitted.
    pub table: D::Buffer<T>,
}

impl<T: Precise, D: Device> Models<T, D> {
    /// `of` is applied to each number; `outside` stands where there is no state.
    pub fn upload(
        device: &D,
        models: &[Hmm],
        stride: usize,
        outside: f64,
        of: impl Fn(f64) -> f64,
    ) -> Result<Self, D::Error> {
        let n = models.first().map_or(0, Hmm::states) as usize;
        let padded = |rows: usize, width: usize, at: &dyn Fn(&Hmm, usize, usize) -> f64| {
            let cells = models.iter().flat_map(|model| {
                let of = &of;
                (0..rows).flat_map(move |i| {
                    (0..stride).map(move |j| if i < width && j < n { of(at(model, i, j)) } else { outside })
                })
            });
            let cells: Vec<f64> = cells.collect();
            device.upload(&T::of(&cells))
        };
        let symbols = models.first().map_or(0, symbols);
        Ok(Self {
            start: padded(1, 1, &|model, _, j| model.start[j])?,
            end: padded(1, 1, &|model, _, j| model.end.as_ref().map_or(1.0, |end| end[j]))?,
            transitions: padded(stride, n, &|model, i, j| model.transitions[i * n + j])?,
            transposed: padded(stride, n, &|model, i, j| model.transitions[j * n + i])?,
            table: padded(symbols, symbols, &|model, v, j| match &model.emissions {
                Emissions::Categorical { probs, .. } => probs[j * symbols + v],
                Emissions::Gaussian { .. } => outside,
            })?,
        })
    }
}

/// V, or 0 where vectors are emitted.
pub fn symbols(model: &Hmm) -> usize {
    match model.emissions {
        Emissions::Categorical { symbols, .. } => symbols as usize,
        Emissions::Gaussian { .. } => 0,
    }
}
