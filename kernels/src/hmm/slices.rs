//! The forward recursion in its parts, slice by slice: W = B_o ∘ C, D = W × A, and row sums.
//!
//! Each part is a kernel of its own with little in it, to read, to run and to compare with. A slice has one row per
//! sequence that has this step, M rows. As in the source, the emissions of a slice multiply the previous product before
//! the next product: C is a product, and W is α.
//!
//! > [`start_rows`]: C₁ = π; then for each slice
//! > [`scale_rows`]: C ← C · 2^−e, [`emission_product`]: W = B_o ∘ C, [`product`]: C = W × A;
//! > [`row_sums`]: P̂ = Σⱼ W(j) endⱼ where sequences end
//!
//! *Scaling.* The source has none: after some hundreds of steps its α underflows. [`scale_rows`] multiplies each row by a
//! power of two, which rounds nothing, and sums the exponents: ln P(O) = ln P̂ + ln 2 · Σ e.
//!
//! *Underflow.* A row may still hold numbers that trail its largest by more than the range of the type. Let b and a be the
//! least positive emission probability and the least positive entry of A and end, and 2^ν the least normal number. If all
//! positive elements of a scaled row of C are at least 2^(ν + 1) / (a b), then every product of the slice is a normal number:
//! none becomes 0, and each has a relative error of one rounding. A sequence with a smaller positive element is *in doubt*:
//! its Σ e becomes NaN, and [`wide`](super::wide) recomputes it. The other kernels of [`hmm`](super) add a floor in
//! place of this test, and doubt less.
//!
//! *Bytes* per step of M sequences: 7·M·N + N² elements in three launches, and M·N² through the caches. The fused kernels
//! keep α in registers: they move the symbols, or for many states 2·M·N + N² elements.
//!
//! Source: C. Brändle and M. Haubenstock, "Bayesian Network Inference with Cuda", 2016, figure 8 and section 2.2, after
//! C. Liu, "A CUDA Implementation of Hidden Markov Models", 2009.

use warpkov_device::device::safe::{ByBlock, Counters, In, In2, Len, Out, Out2, Slice};
use warpkov_device::device::{Real, block, kernel, thread};

use super::{BIAS, high, power, top};

/// C₁ = π in every row.
///
/// - *Mathematics*: `c[m][j]` = πⱼ.
/// - *Thread mapping*: a thread per element, or per stride of a grid in two dimensions.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `c`.
/// - *Bytes*: M·N elements.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences`, `states` | scalar | M, N |
/// | `start` | N | probability |
/// | `c` | M × N | |
#[kernel(safe, T = [f32, f64])]
pub fn start_rows<'m, 'n, T: Real>(sequences: Len<'m>, states: Len<'n>, start: In<'n, T>, c: Out2<'m, 'n, T>) {
    for own in sequences.by(states).elements() {
        c.set(&own, start.get(own.cell().column()));
    }
}

/// C ← C · 2^−e, row by row, where 2^−e scales the largest element of the row to 2^[`top`]. Adds e to the row's exponent, or
/// NaN if a positive element becomes less than `least`.
///
/// |e| ≤ 1000, so that 2^−e is a number: a row below 2^(`top` − 1000) is scaled further with the next slice.
///
/// - *Mathematics*: `c[m][j]` ← `c[m][j]` · 2^−e, `exponents[m]` ← `exponents[m]` + e.
/// - *Thread mapping*: a block per sequence; a thread per state, and a block reduction.
/// - *Shared memory*: 33 numbers, static. *Barriers*: four. *Deterministic*: yes. *Valid result in*: `c` and `exponents`.
/// - *Bytes*: 2·M·N elements.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences`, `states` | scalar | M, N |
/// | `least` | scalar | > 0 |
/// | `c` | M × N | ≥ 0 |
/// | `exponents` | M | binary orders of magnitude |
#[kernel(safe, T = [f32, f64], requires(shape.grid >= sequences))]
pub fn scale_rows<'m, 'n, T: Real>(
    sequences: Len<'m>,
    states: Len<'n>,
    least: f64,
    c: Out2<'m, 'n, T, ByBlock>,
    exponents: Counters<'m, f64>,
) {
    if let Some(m) = sequences.block_element() {
        let mut largest = 0.0;
        for own in m.cells(states) {
            largest = f64::max(largest, c.get(&own).to_f64());
        }
        let largest = block::broadcast(block::reduce(largest, 0.0, f64::max), 0);
        let biased = (high(largest) >> 20) as i32;
        let e = if biased == 0 { 0 } else { (biased - BIAS as i32 - top(T::WIDE)).max(-1000) };
        for own in m.cells(states) {
            let x = c.get(&own).to_f64();
            let scaled = x * power(-e);
            if x > 0.0 && scaled < least {
                exponents.add(&m, f64::NAN);
            }
            c.set(&own, T::from_f64(scaled));
        }
        if thread::thread_idx_x() == 0 {
            exponents.add(&m, f64::from(e));
        }
    }
}

/// W = B_o ∘ C, where row v of B holds the probabilities of symbol v.
///
/// - *Mathematics*: `w[m][j]` = bⱼ(`observed[first + m]`) · `c[m][j]`.
/// - *Thread mapping*: as [`start_rows`].
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `w`.
/// - *Bytes*: 3·M·N elements.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences`, `states`, `symbols` | scalar | M, N, V |
/// | `first` | scalar | row of the slice's first sequence |
/// | `observed` | all rows | symbols, below V |
/// | `emissions` | V × N | probability |
/// | `c`, `w` | M × N | |
#[kernel(safe, T = [f32, f64])]
pub fn emission_product<'m, 'n, 'v, T: Real>(
    sequences: Len<'m>,
    states: Len<'n>,
    symbols: Len<'v>,
    first: u32,
    observed: Slice<u32>,
    emissions: In2<'v, 'n, T>,
    c: In2<'m, 'n, T>,
    w: Out2<'m, 'n, T>,
) {
    for own in sequences.by(states).elements() {
        let cell = own.cell();
        let v = symbols.at(u64::from(observed.get(first as usize + cell.row().get())));
        let b = emissions.get(symbols.by(states).cell(v, cell.column()));
        w.set(&own, b * c.get(&own));
    }
}

/// D = W × A.
///
/// - *Mathematics*: `d[m][j]` = Σᵢ `w[m][i]` Aᵢⱼ, summed in f64.
/// - *Thread mapping*: as [`start_rows`]; neighbouring threads read neighbouring elements of A and the same element of W.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `d`.
/// - *Bytes*: 2·M·N + N² elements, and M·N² through the caches.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences`, `states` | scalar | M, N |
/// | `w`, `d` | M × N | |
/// | `transitions` | N × N | probability |
#[kernel(safe, T = [f32, f64])]
pub fn product<'m, 'n, T: Real>(
    sequences: Len<'m>,
    states: Len<'n>,
    w: In2<'m, 'n, T>,
    transitions: In2<'n, 'n, T>,
    d: Out2<'m, 'n, T>,
) {
    for own in sequences.by(states).elements() {
        let (w, j) = (w.row(own.cell().row(), states), own.cell().column());
        let mut sum = 0.0;
        for i in states.indices() {
            sum = w.get(i).to_f64().fma(transitions.get(states.by(states).cell(i, j)).to_f64(), sum);
        }
        d.set(&own, T::from_f64(sum));
    }
}

/// Row sums of W with the end probabilities: on the last slice, the likelihood of each sequence.
///
/// - *Mathematics*: `likelihoods[m]` = (P̂, e), with P̂ = Σⱼ `w[m][j]` endⱼ and e = `exponents[m]`; P̂ is NaN where e is.
/// - *Thread mapping*: a block per sequence; a thread per state, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes. *Valid result in*: `likelihoods`.
/// - *Bytes*: M·N elements.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences`, `states` | scalar | M, N |
/// | `w` | M × N | |
/// | `end` | N | probability, or 1 |
/// | `exponents` | M | from [`scale_rows`] |
/// | `likelihoods` | M × 2 | |
#[kernel(safe, T = [f32, f64], requires(shape.grid >= sequences))]
pub fn row_sums<'m, 'n, T: Real>(
    sequences: Len<'m>,
    states: Len<'n>,
    w: In2<'m, 'n, T>,
    end: In<'n, T>,
    exponents: In<'m, f64>,
    likelihoods: Out<'m, [f64; 2], ByBlock>,
) {
    if let Some(m) = sequences.block_element() {
        let w = w.row(&m, states);
        let sum = states.threads().map(|j| w.get(j).to_f64() * end.get(j).to_f64()).sum();
        let (sum, e) = (block::reduce(sum, 0.0, |a, b| a + b), exponents.get(&m));
        likelihoods.set(&m, [if e.is_nan() { e } else { sum }, e]);
    }
}
