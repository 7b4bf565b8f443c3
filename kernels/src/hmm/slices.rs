//! A step of the forward recursion in its parts, on one slice of the trellis: W = B_o ∘ C, D = W × A, and row sums.
//!
//! Each part is a kernel with one thread per element, to read and to compare with. A slice has one row per sequence, M
//! rows. As in the source, the emissions of a slice multiply the previous product before the next product: C is a
//! product, and W is α.
//!
//! Source: C. Brändle and M. Haubenstock, "Bayesian Network Inference with Cuda", 2016, figure 8 and section 2.2, after
//! C. Liu, "A CUDA Implementation of Hidden Markov Models", 2009.

use warpkov_device::device::safe::{ByBlock, In2, Indices, Len, Out, Out2};
use warpkov_device::device::{Real, block, kernel};

/// W = B_o ∘ C, where B is N × V.
///
/// - *Mathematics*: `w[m][j]` = bⱼ(`observed[m]`) · `c[m][j]`.
/// - *Thread mapping*: one thread per element, in a grid of two dimensions.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `w`.
/// - *Bytes*: 3·M·N elements.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences`, `states`, `symbols` | scalar | M, N, V |
/// | `observed` | M | symbols |
/// | `emissions` | N × V | probability |
/// | `c`, `w` | M × N | |
#[kernel(
    safe,
    T = [f32, f64],
    requires(shape.grid.x * shape.block.x >= states, shape.grid.y * shape.block.y >= sequences)
)]
pub fn emission_product<'m, 'n, 'v, T: Real>(
    sequences: Len<'m>,
    states: Len<'n>,
    symbols: Len<'v>,
    observed: Indices<'m, 'v>,
    emissions: In2<'n, 'v, T>,
    c: In2<'m, 'n, T>,
    w: Out2<'m, 'n, T>,
) {
    if let Some(own) = sequences.by(states).element() {
        let v = observed.get(own.cell().row());
        let b = emissions.get(states.by(symbols).cell(own.cell().column(), v));
        w.set(&own, b * c.get(&own));
    }
}

/// D = W × A.
///
/// - *Mathematics*: `d[m][j]` = Σᵢ `w[m][i]` Aᵢⱼ, summed in f64.
/// - *Thread mapping*: one thread per element, in a grid of two dimensions; neighbouring threads read neighbouring elements of A and the same
///   element of W.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `d`.
/// - *Bytes*: 2·M·N + N² elements, and M·N² through the caches.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences`, `states` | scalar | M, N |
/// | `w`, `d` | M × N | |
/// | `transitions` | N × N | probability |
#[kernel(
    safe,
    T = [f32, f64],
    requires(shape.grid.x * shape.block.x >= states, shape.grid.y * shape.block.y >= sequences)
)]
pub fn product<'m, 'n, T: Real>(
    sequences: Len<'m>,
    states: Len<'n>,
    w: In2<'m, 'n, T>,
    transitions: In2<'n, 'n, T>,
    d: Out2<'m, 'n, T>,
) {
    if let Some(own) = sequences.by(states).element() {
        let (w, j) = (w.row(own.cell().row(), states), own.cell().column());
        let mut sum = 0.0;
        for i in states.indices() {
            sum = w.get(i).to_f64().fma(transitions.get(states.by(states).cell(i, j)).to_f64(), sum);
        }
        d.set(&own, T::from_f64(sum));
    }
}

/// Row sums of W: on the last slice, the likelihood of each sequence.
///
/// - *Mathematics*: `sums[m]` = Σⱼ `w[m][j]`.
/// - *Thread mapping*: a block per sequence; a thread per state, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes. *Valid result in*: `sums`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences`, `states` | scalar | M, N |
/// | `w` | M × N | |
/// | `sums` | M | |
#[kernel(safe, T = [f32, f64], requires(shape.grid >= sequences))]
pub fn row_sums<'m, 'n, T: Real>(sequences: Len<'m>, states: Len<'n>, w: In2<'m, 'n, T>, sums: Out<'m, f64, ByBlock>) {
    if let Some(m) = sequences.block_element() {
        let w = w.row(&m, states);
        let sum = states.threads().map(|j| w.get(j).to_f64()).sum();
        sums.set(&m, block::reduce(sum, 0.0, |a, b| a + b));
    }
}
