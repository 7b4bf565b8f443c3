//! A model in the layout of the CPU recursions.

use std::sync::OnceLock;

use crate::backend::NO_STATE;
use crate::backends::cpu::emissions::{Emitter, log_table};
use crate::backends::cpu::limits::Limits;
use crate::backends::cpu::product::{MaxPlus, Panels, SumProduct, stride};
use crate::backends::cpu::reach::Reach;
use crate::backends::cpu::sweeps::LogProduct;
use crate::backends::cpu::wide::Exact;
use crate::model::Hmm;
use crate::sequences::Sequences;
use warpkov_runtime::Precise;

/// A model's probabilities in precision `T`. Rows have `stride` numbers; those after the first `n` are 0.
pub struct Chain<T> {
    pub n: usize,
    pub stride: usize,
    pub start: Vec<T>,
    /// A.
    pub forward: Panels<T>,
    /// Aᵀ, computed on first use.
    backward: OnceLock<Panels<T>>,
    /// β_T: end probabilities, or 1.
    pub ending: Vec<T>,
    /// Whether the model has end probabilities.
    pub ends: bool,
    pub reach: Reach,
    /// Whether all entries of π and A are large enough that no predicted probability needs a check;
    /// see [`limits`](crate::backends::cpu::limits).
    pub firm: bool,
    /// Whether the model is firm and every sequence is possible.
    pub open: bool,
    pub emitter: Emitter<T>,
    /// Logarithms, computed on first use.
    logs: OnceLock<LogChain<T>>,
    pub model: Hmm,
}

/// Logarithms of a model's probabilities. Rows have `stride` numbers; those after the first n are −∞.
pub struct LogChain<T> {
    pub start: Vec<T>,
    /// ln A.
    pub forward: Panels<T>,
    /// ln Aᵀ, row by row.
    pub columns: Vec<T>,
    pub ending: Vec<T>,
    pub emitted: Vec<T>,
}

impl<T: Precise> Chain<T> {
    pub fn new(model: &Hmm) -> Self {
        let n = model.start().len();
        let (ones, reach) = (vec![1.0; n], Reach::new(model));
        // u Σ α is at least 1, so p(j) is at least the least Aᵢⱼ. The factor 2 covers rounding.
        let firm =
            model.start().iter().chain(model.transitions()).all(|prob| *prob >= 2.0 * Limits::current::<T>().least);
        Self {
            n,
            stride: stride(n),
            start: padded(model.start(), T::from_f64, T::ZERO),
            forward: Panels::new::<SumProduct>(n, |i, j| T::from_f64(model.transitions()[i * n + j])),
            backward: OnceLock::new(),
            ending: padded(model.end().unwrap_or(&ones), T::from_f64, T::ZERO),
            ends: model.end().is_some(),
            open: firm && reach.is_open(),
            reach,
            firm,
            emitter: Emitter::new(model),
            logs: OnceLock::new(),
            model: model.clone(),
        }
    }

    /// The exact recursions for this model.
    pub fn exact(&self) -> Exact<'_> {
        Exact::new(&self.model)
    }

    pub fn backward(&self) -> &Panels<T> {
        let (n, transitions) = (self.n, self.model.transitions());
        self.backward.get_or_init(|| Panels::new::<SumProduct>(n, |i, j| T::from_f64(transitions[j * n + i])))
    }

    /// ln P(O, q) of a sequence's path q, from the model's own probabilities.
    pub fn score(&self, seen: &Sequences, sequence: usize, path: &[u32]) -> f64 {
        if path[0] == NO_STATE {
            return f64::NEG_INFINITY;
        }
        let (model, first) = (&self.model, seen.range(sequence).start);
        let mut product = LogProduct::ONE;
        product.times(model.start()[path[0] as usize]);
        for pair in path.windows(2) {
            product.times(model.transitions()[pair[0] as usize * self.n + pair[1] as usize]);
        }
        self.emitter.emit(model, seen, first, path, &mut product);
        if let Some(end) = model.end() {
            product.times(end[path[path.len() - 1] as usize]);
        }
        product.ln()
    }

    pub fn logs(&self) -> &LogChain<T> {
        self.logs.get_or_init(|| {
            let (n, model) = (self.n, &self.model);
            let log = |x: f64| T::from_f64(x.ln());
            let ones = vec![1.0; n];
            let forward = Panels::new::<MaxPlus>(n, |i, j| log(model.transitions()[i * n + j]));
            let columns = (0..n).flat_map(|j| {
                let column: Vec<f64> = (0..n).map(|i| model.transitions()[i * n + j]).collect();
                padded(&column, log, T::NEG_INFINITY)
            });
            LogChain {
                start: padded(model.start(), log, T::NEG_INFINITY),
                forward,
                columns: columns.collect(),
                ending: padded(model.end().unwrap_or(&ones), log, T::NEG_INFINITY),
                emitted: log_table(model),
            }
        })
    }
}

fn padded<T: Precise>(numbers: &[f64], of: impl Fn(f64) -> T, padding: T) -> Vec<T> {
    let mut row = vec![padding; stride(numbers.len())];
    row.iter_mut().zip(numbers).for_each(|(target, &x)| *target = of(x));
    row
}
