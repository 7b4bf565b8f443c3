//! A step of the forward recursion in its parts, on one slice of the trellis: W = B_o ∘ C, D = W × A, and row sums.
//!
//! Each part is a kernel with one thread per element, to read and to compare with. A slice has one row per sequence, M
//! rows. As in the source, the emissions of a slice multiply the previous product before the next product: C is a
//! product, and W is α.
//!
//! Source: C. Brändle and M. Haubenstock, "Bayesian Network Inference with Cuda", 2016, figure 8 and section 2.2, after
//! C. Liu, "A CUDA Implementation of Hidden Markov Models", 2009.

use warpkov_device::device::{Global, GlobalMut, Real, block, kernel, thread};

/// W = B_o ∘ C, where B is N × V.
///
/// - *Mathematics*: `w[m][j]` = bⱼ(`observed[m]`) · `c[m][j]`.
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `w`.
/// - *Bytes*: 3·M·N elements.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | scalar | M |
/// | `states` | scalar | N |
/// | `symbols` | scalar | V |
/// | `observed` | M | symbols, below V |
/// | `emissions` | N × V | probability |
/// | `c`, `w` | M × N | |
#[kernel(
    T = [f32, f64],
    requires(
        observed.len() >= sequences,
        emissions.len() >= states * symbols,
        c.len() >= sequences * states,
        w.len() >= sequences * states,
        shape.threads >= sequences * states,
        shape.dimensions == 1,
    )
)]
pub fn emission_product<T: Real>(
    sequences: u32,
    states: u32,
    symbols: u32,
    observed: Global<u32>,
    emissions: Global<T>,
    c: Global<T>,
    w: GlobalMut<T>,
) {
    let (l, n) = (thread::index_1d() as usize, states as usize);
    if l < sequences as usize * n {
        let v = observed.get(l / n) as usize;
        w.set(l, emissions.get(l % n * symbols as usize + v) * c.get(l));
    }
}

/// D = W × A.
///
/// - *Mathematics*: `d[m][j]` = Σᵢ `w[m][i]` Aᵢⱼ, summed in f64.
/// - *Thread mapping*: one thread per element; neighbouring threads read neighbouring elements of A and the same
///   element of W.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `d`.
/// - *Bytes*: 2·M·N + N² elements, and M·N² through the caches.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | scalar | M |
/// | `states` | scalar | N |
/// | `w` | M × N | |
/// | `transitions` | N × N | probability |
/// | `d` | M × N | |
#[kernel(
    T = [f32, f64],
    requires(
        transitions.len() >= states * states,
        d.len() >= sequences * states,
        w.len() >= sequences * states,
        shape.threads >= sequences * states,
        shape.dimensions == 1,
    )
)]
pub fn product<T: Real>(sequences: u32, states: u32, w: Global<T>, transitions: Global<T>, d: GlobalMut<T>) {
    let (l, n) = (thread::index_1d() as usize, states as usize);
    if l < sequences as usize * n {
        let (m, j) = (l / n, l % n);
        let mut sum = 0.0;
        let mut i = 0;
        while i < n {
            sum = w.get(m * n + i).to_f64().fma(transitions.get(i * n + j).to_f64(), sum);
            i += 1;
        }
        d.set(l, T::from_f64(sum));
    }
}

/// Row sums of W: on the last slice, the likelihood of each sequence.
///
/// - *Mathematics*: `sums[m]` = Σⱼ `w[m][j]`.
/// - *Thread mapping*: a block per sequence; a thread per state, then a block reduction.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes. *Valid result in*: `sums`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | N |
/// | `w` | M × N | |
/// | `sums` | M | |
///
/// *Launch*: M blocks.
#[kernel(
    T = [f32, f64],
    requires(
        w.len() >= shape.grid * states,
        sums.len() >= shape.grid,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn row_sums<T: Real>(states: u32, w: Global<T>, sums: GlobalMut<f64>) {
    let (m, n) = (thread::block_idx_x() as usize, states as usize);
    let mut sum = 0.0;
    let mut j = thread::thread_idx_x() as usize;
    while j < n {
        sum += w.get(m * n + j).to_f64();
        j += thread::block_dim_x() as usize;
    }
    let sum = block::reduce(sum, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        sums.set(m, sum);
    }
}
