//! The product of all rows with all vectors, of which only the best vector of each row is kept.
//!
//! *Mathematics*: i\*(r) = argmaxᵢ x_r · αᵢ over n vectors, the lowest of equal ones, for M rows x_r.
//!
//! Two ways: [`best_of_sparse`] for rows of compressed entries, in the precision of the vectors; [`best_of_dense`] for rows of S
//! elements, on tensor cores. What is best is a choice: any other gives a lower bound too. So it may be made in few
//! digits; [`evaluate_winners`] and [`evaluate_actions`](super::gather::evaluate_actions) then compute their values in f64.
//!
//! *Bytes*: M·n products never go to memory.

use warpkov_device::device::{DeviceCopy, Global, GlobalMut, Named, Parameter, Real, Shared};
use warpkov_device::device::{atomic, block, copy, half, kernel, math, mma, shared, thread, warp};
use warpkov_device::shared_array;

use super::model::Strided;
use crate::primitives::rows::Rows;

/// Threads of a block of [`best_of_sparse`].
pub const SPARSE_THREADS: u32 = 128;

/// Vectors that a thread takes at a time.
const PER_THREAD: usize = 4;

/// Writes vectors to places of their own: `count` vectors, from vector `first` on.
///
/// `rows` is Γ\[i\]\[s\], `columns` is Γ\[s\]\[i\] with a stride ≥ n. A stride of 0 leaves that one out.
///
/// *Thread mapping*: one thread per element. *Safety*: `source` has `count`·S elements, from `source_first`·S on; what is
/// not left out has room for `first + count` vectors.
#[kernel(T = [f32, f64])]
pub fn place_vectors<T: Real>(
    states: u32,
    first: u32,
    count: u32,
    source_first: u32,
    source: Global<T>,
    rows: Strided<T>,
    columns: Strided<T>,
) {
    let l = thread::index_1d() as usize;
    let states = states as usize;
    if l < count as usize * states {
        let (i, s) = (first as usize + l / states, l % states);
        let value = source.get(source_first as usize * states + l);
        if rows.stride > 0 {
            rows.values.set(i * rows.stride as usize + s, value);
        }
        if columns.stride > 0 {
            columns.values.set(s * columns.stride as usize + i, value);
        }
    }
}

/// Vectors `first..first + count` as factors of the dense product: Γ\[i\]\[s\]·`scale` in rows of a stride ≥ S.
///
/// *Thread mapping*: one thread per element. *Safety*: `rows` and `factors` have `first + count` vectors.
#[kernel(T = [f32, f64], E = [f32, u16])]
pub fn place_factors<T: Real, E: Factor>(
    states: u32,
    first: u32,
    count: u32,
    rows: Global<T>,
    scale: f64,
    factors: Strided<E>,
) {
    let l = thread::index_1d() as usize;
    let states = states as usize;
    if l < count as usize * states {
        let (i, s) = (first as usize + l / states, l % states);
        factors.values.set(i * factors.stride as usize + s, E::of(scale * rows.get(i * states + s).to_f64()));
    }
}

/// Vectors by number, one after the other: out\[k\]\[s\] = Γ\[picked(k)\]\[s\].
///
/// *Thread mapping*: one thread per element. *Safety*: `picked` has `count` numbers below n, `rows` n·S elements, `out` `count`·S.
#[kernel(T = [f32, f64])]
pub fn pick_vectors<T: Real>(states: u32, count: u32, picked: Global<u32>, rows: Global<T>, out: GlobalMut<T>) {
    let l = thread::index_1d() as usize;
    let states = states as usize;
    if l < count as usize * states {
        out.set(l, rows.get(picked.get(l / states) as usize * states + l % states));
    }
}

/// A score and the vector that has it.
#[derive(Clone, Copy)]
struct Scored<T> {
    score: T,
    vector: u32,
}

impl<T: Real> Scored<T> {
    /// The better of two: of equal ones that of the lower vector.
    #[inline(always)]
    fn better(self, other: Self) -> Self {
        let wins = other.score > self.score || (other.score == self.score && other.vector < self.vector);
        if wins { other } else { self }
    }
}

/// Γ\[s\]\[i\].
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `vectors` | 1 | n ≥ 1 |
/// | `stride` | 1 | elements, ≥ n |
/// | `values` | S × `stride` | reward |
#[derive(Clone, Copy, Parameter)]
pub struct Columns<T> {
    /// n.
    pub vectors: u32,
    /// From a state to the next.
    pub stride: u32,
    /// The elements.
    pub values: Global<T>,
}

/// The best vector for each row of compressed entries, and its score; both at the row's code.
///
/// *Thread mapping*: one block per row, a thread per vector: all threads read the same entry, and neighbouring elements
/// of a row of Γ\[s\]\[i\]. *Shared memory*: two words per thread. *Barriers*: one. *Deterministic*: yes. *Safety*: blocks have
/// [`SPARSE_THREADS`] threads; there are `count` rows, with columns below S, and as many elements of `row_code`; `winners` and
/// `scores` have one per code.
#[kernel(T = [f32, f64])]
pub fn best_of_sparse<T: Real>(
    count: u32,
    rows: Rows<T, u32>,
    row_code: Global<u32>,
    alpha: Columns<T>,
    winners: GlobalMut<u32>,
    scores: GlobalMut<f64>,
) {
    let best_scores = shared_array!(sparse_scores: T; 128);
    let best_vectors = shared_array!(sparse_vectors: u32; 128);
    let Columns { vectors, stride, values: alpha } = alpha;
    let row = thread::block_idx_x() as usize;
    if row >= count as usize {
        return;
    }
    let (start, end) = (rows.ptr.get(row) as usize, rows.ptr.get(row + 1) as usize);
    let t = thread::thread_idx_x();
    let mut best = Scored { score: T::NEG_INFINITY, vector: 0 };
    let mut first = t;
    while first < vectors {
        let mut sums = [T::ZERO; PER_THREAD];
        let mut entry = start;
        while entry < end {
            let (place, x) = (rows.col.get(entry) as usize * stride as usize, rows.prob.get(entry));
            for (k, sum) in sums.iter_mut().enumerate() {
                let i = first + k as u32 * SPARSE_THREADS;
                if i < vectors {
                    *sum = x.fma(alpha.get(place + i as usize), *sum);
                }
            }
            entry += 1;
        }
        for (k, &score) in sums.iter().enumerate() {
            let vector = first + k as u32 * SPARSE_THREADS;
            if vector < vectors {
                best = best.better(Scored { score, vector });
            }
        }
        first += PER_THREAD as u32 * SPARSE_THREADS;
    }
    best_scores.set(t, best.score);
    best_vectors.set(t, best.vector);
    thread::sync_threads();
    if t == 0 {
        let mut k = 1;
        while k < SPARSE_THREADS.min(vectors) {
            best = best.better(Scored { score: best_scores.get(k), vector: best_vectors.get(k) });
            k += 1;
        }
        let code = row_code.get(row) as usize;
        winners.set(code, best.vector);
        scores.set(code, best.score.to_f64());
    }
}

/// Rows of a tile of [`best_of_dense`], and vectors: neither buffer ends within a tile.
pub const TILE: usize = 128;
/// Words of a step, of which rows are padded to a multiple: 32 states in f32, 64 in f16.
pub const STEP: usize = 32;
/// Threads of a block: four warps, each with a quarter of the tile, 64 × 64.
pub const DENSE_THREADS: u32 = 128;
/// Steps that are on their way, or in use.
const STAGES: u32 = 3;
/// From row to row in shared memory: 4 more than a step, so that the lanes of a warp read from 32 banks.
const PITCH: u32 = STEP as u32 + 4;
/// Words of a stage: rows of both factors.
const STAGE: u32 = 2 * TILE as u32 * PITCH;
/// Shared memory of a block in bytes.
pub const DENSE_SHARED: u32 = 4 * STAGES * STAGE;
/// Tiles of rows that share their tiles of vectors at about the same time, through the cache.
const GROUP: u32 = 16;

/// What the factors of a dense product are kept in: [f32], of which tensor cores take about 21 bits in three products; or f16,
/// 11 bits, as the bits of a [u16].
pub trait Factor: DeviceCopy + Named {
    /// Factors in a word of 32 bits.
    const PER_WORD: usize;
    /// What probabilities are multiplied by: f16 has few digits below 2⁻¹⁴, and none below 2⁻²⁵.
    const BELIEF: f64;
    /// The nearest factor.
    fn of(x: f64) -> Self;
    /// A·B + C of the words that a lane holds.
    fn multiply(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4];
}

impl Factor for u16 {
    const PER_WORD: usize = 2;
    const BELIEF: f64 = 32_768.0;

    #[inline(always)]
    fn of(x: f64) -> Self {
        half::from_f32(x as f32)
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn multiply(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        mma::f16_16x8x16(a, b, c)
    }
}

impl Factor for f32 {
    const PER_WORD: usize = 1;
    const BELIEF: f64 = 1.0;

    #[inline(always)]
    fn of(x: f64) -> Self {
        x as f32
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn multiply(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        mma::tf32x3_16x8x8(a.map(f32::from_bits), b.map(f32::from_bits), c)
    }
}

/// For each tile of rows the steps that are not all zeros, ascending, and behind their places how many they are.
///
/// *Thread mapping*: one warp per tile, a lane per step. *Safety*: blocks have 32 threads, and there is one per tile; `used` has
/// `steps` elements per tile, `list` one more.
#[kernel]
pub fn list_steps(steps: u32, used: Global<u8>, list: GlobalMut<u32>) {
    let (tile, lane) = (thread::block_idx_x() as usize, warp::lane_id());
    let (first, place) = (tile * steps as usize, tile * (steps as usize + 1));
    let (mut step, mut count) = (lane, 0);
    while step - lane < steps {
        let here = step < steps && used.get(first + step as usize) > 0;
        let all = warp::ballot(warp::FULL, here);
        if here {
            let before = (all & ((1 << lane) - 1)).count_ones();
            list.set(place + (count + before) as usize, step);
        }
        count += all.count_ones();
        step += 32;
    }
    if lane == 0 {
        list.set(place + steps as usize, count);
    }
}

/// Unrolls what needs constant indices to stay in registers.
macro_rules! each {
    ($name:ident in [$($value:literal)*] $body:block) => {$({ const $name: usize = $value; $body })*};
}
pub(super) use each;

/// Asks for the copies of one step: rows `row…` of x and vectors `vector…`, words from `STEP·step` on of `words`.
#[inline(always)]
fn stage<E: Factor>(
    tile: Shared<u32>,
    x: Global<E>,
    row: usize,
    alpha: Global<E>,
    vector: usize,
    words: usize,
    step: usize,
) {
    // Eight threads share a row of 32 words, 16 rows at a time.
    let (t_row, t_quad) = (thread::thread_idx_x() / 8, thread::thread_idx_x() % 8);
    let mut k = 0;
    while k < TILE as u32 {
        let (here, quad) = (k + t_row, step * (STEP / 4) + t_quad as usize);
        let place = here * PITCH + 4 * t_quad;
        tile.copy_bits(place, x, (row + here as usize) * (words / 4) + quad);
        tile.copy_bits(TILE as u32 * PITCH + place, alpha, (vector + here as usize) * (words / 4) + quad);
        k += DENSE_THREADS / 8;
    }
}

/// The best vector for each dense row: `best[r]` ← max of the [key]s of its scores.
///
/// *Thread mapping*: one block per tile of 128 rows × 128 vectors, a warp per 64 × 64 of it; tiles of rows in groups. Steps of 32
/// words come through three stages of shared memory; those in which the rows are all zeros are passed over. *Shared memory*:
/// [`DENSE_SHARED`] bytes, dynamic. *Barriers*: one per step. *Deterministic*: yes. *Safety*: blocks have [`DENSE_THREADS`]
/// threads; the grid has a block per pair of tiles; `x` and `alpha` have whole tiles of rows of `words` words, a multiple of
/// [`STEP`], with zeros behind S; `list` is that of [`list_steps`] for `words`/[`STEP`] steps; `best` has `rows` zeros.
#[kernel(E = [f32, u16])]
pub fn best_of_dense<E: Factor>(
    rows: u32,
    vectors: u32,
    words: u32,
    x: Global<E>,
    list: Global<u32>,
    alpha: Global<E>,
    best: GlobalMut<u64>,
) {
    let memory = shared::dynamic_shared_mem::<u32>();
    let (row_tiles, vector_tiles) = (rows.div_ceil(TILE as u32), vectors.div_ceil(TILE as u32));
    let group = thread::block_idx_x() / (GROUP * vector_tiles);
    let in_group = thread::block_idx_x() - group * GROUP * vector_tiles;
    let group_rows = (row_tiles - group * GROUP).min(GROUP);
    let (row_tile, vector_tile) = (group * GROUP + in_group % group_rows, in_group / group_rows);
    let (row, vector) = (row_tile as usize * TILE, vector_tile as usize * TILE);

    let (lane, id) = (warp::lane_id(), warp::warp_id());
    let (g, t) = (lane / 4, lane % 4);
    let (top, left) = (64 * (id / 2), 64 * (id % 2));
    let listed = row_tile as usize * (words as usize / STEP + 1);
    let steps = list.get(listed + words as usize / STEP);
    let stage_of = |step: u32| memory.split(step % STAGES * STAGE).1.split(STAGE).0;
    let load = |step: u32| {
        if step < steps {
            let from = list.get(listed + step as usize) as usize;
            stage(stage_of(step), x, row, alpha, vector, words as usize, from);
        }
        copy::commit();
    };

    let mut step = 0;
    while step < STAGES - 1 {
        load(step);
        step += 1;
    }
    let mut sums = [[[0f32; 4]; 8]; 4];
    step = 0;
    while step < steps {
        copy::wait::<{ STAGES - 2 }>();
        thread::sync_threads();
        load(step + STAGES - 1);
        let (of_x, of_alpha) = stage_of(step).split(TILE as u32 * PITCH);
        let mut k = 0;
        while k < STEP as u32 {
            let mut a = [[0u32; 4]; 4];
            each!(M in [0 1 2 3] {
                let row = top + 16 * M as u32 + lane % 16;
                a[M] = of_x.load_matrices(row * PITCH + k + 4 * (lane / 16));
            });
            each!(N in [0 2 4 6] {
                let row = left + 8 * N as u32 + lane / 16 * 8 + lane % 8;
                let b = of_alpha.load_matrices(row * PITCH + k + 4 * (lane / 8 % 2));
                each!(M in [0 1 2 3] {
                    sums[M][N] = E::multiply(a[M], [b[0], b[1]], sums[M][N]);
                    sums[M][N + 1] = E::multiply(a[M], [b[2], b[3]], sums[M][N + 1]);
                });
            });
            k += 8;
        }
        step += 1;
    }

    each!(M in [0 1 2 3] {
        each!(HALF in [0 1] {
            let mut found = 0;
            each!(N in [0 1 2 3 4 5 6 7] {
                each!(C in [0 1] {
                    let i = vector as u32 + left + 8 * N as u32 + 2 * t + C as u32;
                    if i < vectors {
                        found = found.max(key(sums[M][N][2 * HALF + C], i));
                    }
                });
            });
            found = found.max(warp::shuffle_xor(warp::FULL, found, 1));
            found = found.max(warp::shuffle_xor(warp::FULL, found, 2));
            let r = row as u32 + top + 16 * M as u32 + 8 * HALF as u32 + g;
            if t == 0 && r < rows {
                atomic::max((best, r as usize), found);
            }
        });
    });
}

/// A number whose order is that of scores, and of equal ones puts the lower vector first. It is never 0.
#[inline(always)]
#[must_use]
pub fn key(score: f32, vector: u32) -> u64 {
    // Equal numbers have equal bits, but for the zeros.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(!vector)
}

/// The vector of a [key].
#[inline(always)]
#[must_use]
pub fn vector_of(key: u64) -> u32 {
    !(key as u32)
}

/// The vectors of the best keys of rows `first..first + count`, at the rows' codes.
///
/// *Thread mapping*: one thread per row. *Safety*: `row_code` has `first + count` elements, `best` `count` keys, `winners` one
/// element per code.
#[kernel]
pub fn note_winners(first: u32, count: u32, best: Global<u64>, row_code: Global<u32>, winners: GlobalMut<u32>) {
    let row = thread::index_1d() as usize;
    if row < count as usize {
        winners.set(row_code.get(first as usize + row) as usize, vector_of(best.get(row)));
    }
}

/// What the best vectors of beliefs are worth, in f64.
///
/// *Thread mapping*: a block per belief, a thread per state of it. *Shared memory*: what a block's reduction takes.
/// *Barriers*: two. *Deterministic*: yes. *Safety*: blocks have whole warps; `beliefs` has a row per block;
/// `winners` one per block, below n; `alpha` n·S; `scores` one per block.
#[kernel(T = [f32, f64])]
pub fn evaluate_winners<T: Real>(
    states: u32,
    beliefs: Rows<T, u32>,
    winners: Global<u32>,
    alpha: Global<T>,
    scores: GlobalMut<f64>,
) {
    let j = thread::block_idx_x() as usize;
    let first = winners.get(j) as usize * states as usize;
    let end = beliefs.ptr.get(j + 1);
    let mut k = beliefs.ptr.get(j) + thread::thread_idx_x();
    let mut sum = 0.0;
    while k < end {
        let value = alpha.get(first + beliefs.col.get(k as usize) as usize).to_f64();
        sum = math::fma(beliefs.prob.get(k as usize).to_f64(), value, sum);
        k += thread::block_dim_x();
    }
    let sum = block::reduce(sum, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        scores.set(j, sum);
    }
}
