//! A step of the forward recursion in its parts, slice by slice of the trellis: W = B_o ∘ C, D = W × A, and the sums of rows.
//!
//! Each is a kernel of one thread per element, to read and to compare with. A slice has a row for each of M sequences; as the source has it,
//! the emissions of a slice are multiplied in before the product that follows it, so that C is a product and W is α.
//!
//! Source: C. Brändle and M. Haubenstock, "Bayesian Network Inference with Cuda", 2016, figure 8 and section 2.2, after C. Liu, "A CUDA
//! Implementation of Hidden Markov Models", 2009.

use warpkov_device::device::{Global, GlobalMut, Real, block, kernel, thread};

/// W = B_o ∘ C: `w[m][j]` = bⱼ(`observed[m]`) · `c[m][j]`, where B is N × V.
///
/// *Thread mapping*: one thread per element. *Bytes*: 3·M·N elements. *Safety*: `c` and `w` have M × N elements, `observed` has M symbols
/// below V.
#[kernel(T = [f32, f64])]
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

/// D = W × A: `d[m][j]` = Σᵢ `w[m][i]` Aᵢⱼ, summed in f64.
///
/// *Thread mapping*: one thread per element; neighbours read neighbouring elements of A, and the same of W. *Bytes*: 2·M·N + N² elements, and
/// M·N² through the caches. *Safety*: `w` and `d` have M × N elements, `transitions` N × N.
#[kernel(T = [f32, f64])]
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

/// Σⱼ `w[m][j]`: of the last slice, the likelihood of each sequence.
///
/// *Thread mapping*: a block per sequence. *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes. *Safety*: `w` has M × N
/// elements, `sums` has M; blocks are whole warps.
#[kernel(T = [f32, f64])]
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
