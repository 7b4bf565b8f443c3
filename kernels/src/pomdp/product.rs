//! The product of all rows with all vectors, reduced to the best vector of each row.
//!
//! *Mathematics*: i\*(r) = argmaxᵢ x_r · αᵢ over n vectors for M rows x_r; the lowest i breaks ties.
//!
//! Two variants: [`best_of_sparse`] for compressed rows, in the precision of the vectors; [`best_of_dense`] for rows of
//! S elements, on tensor cores. Any choice of vectors yields a valid lower bound, so low precision suffices for the
//! choice; [`evaluate_winners`] and [`evaluate_actions`](super::gather::evaluate_actions) then compute the values in
//! f64.
//!
//! *Bytes*: the M·n products never reach device memory.

use warpkov_device::device::safe::{Len, Out, Slice};
use warpkov_device::device::{DeviceCopy, Global, GlobalMut, Named, Parameter, Real, Shared};
use warpkov_device::device::{atomic, block, copy, half, kernel, math, mma, shared, thread, warp};
use warpkov_device::shared_array;

use super::model::Strided;
use crate::primitives::rows::Rows;

/// Threads per block of [`best_of_sparse`].
pub const SPARSE_THREADS: u32 = 128;

/// Vectors per thread and pass.
const PER_THREAD: usize = 4;

/// Stores `count` vectors as vectors `first..first + count` of Γ, in up to two layouts.
///
/// `rows` is Γ\[i\]\[s\] with a stride ≥ S; `columns` is Γ\[s\]\[i\] with a stride ≥ n. A stride of 0 omits that
/// layout.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `rows` and `columns`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `first`, `count` | scalar | vectors of Γ |
/// | `source_first` | scalar | first vector of `source` |
/// | `source` | (`source_first` + `count`)·S | reward |
/// | `rows` | `first` + `count` rows, [`Strided`] | stride ≥ S, or 0 |
/// | `columns` | S rows, [`Strided`] | stride ≥ `first` + `count`, or 0 |
#[kernel(
    T = [f32, f64],
    requires(
        source.len() >= (source_first + count) * states,
        rows.holds(first + count, states),
        columns.holds(states, first + count),
        shape.threads >= count * states,
        shape.dimensions == 1,
    )
)]
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

/// Stores the vectors `first..first + count` as factors of the dense product: `scale` · Γ\[i\]\[s\].
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `factors`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `first`, `count` | scalar | vectors of Γ |
/// | `rows` | (`first` + `count`)·S | reward |
/// | `scale` | scalar | 1 / reward |
/// | `factors` | `first` + `count` rows, [`Strided`] | stride ≥ S |
#[kernel(
    T = [f32, f64], E = [f32, u16],
    requires(
        rows.len() >= (first + count) * states,
        factors.stride >= states,
        factors.holds(first + count, states),
        shape.threads >= count * states,
        shape.dimensions == 1,
    )
)]
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

/// Gathers vectors by index: out\[k\]\[s\] = Γ\[picked(k)\]\[s\].
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `out`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `elements` | scalar | picked vectors · S |
/// | `states` | scalar | S |
/// | `picked` | picked vectors | vectors, below n |
/// | `rows` | n·S | reward |
/// | `out` | picked vectors · S | reward |
#[kernel(safe, T = [f32, f64], requires(shape.threads >= elements))]
pub fn pick_vectors<'l, T: Real>(
    elements: Len<'l, u64>,
    states: u32,
    picked: Slice<u32>,
    rows: Slice<T>,
    out: Out<'l, T>,
) {
    if let Some(l) = elements.element() {
        let [k, s] = l.index().unravel([0, states]);
        out.set(&l, rows.get(picked.get(k) as usize * states as usize + s));
    }
}

/// A score and its vector.
#[derive(Clone, Copy)]
struct Scored<T> {
    score: T,
    vector: u32,
}

impl<T: Real> Scored<T> {
    /// The better of two; of equal scores, that of the lower vector.
    #[inline(always)]
    fn better(self, other: Self) -> Self {
        let wins = other.score > self.score || (other.score == self.score && other.vector < self.vector);
        if wins { other } else { self }
    }
}

/// Γ by columns: Γ\[s\]\[i\].
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `vectors` | scalar | n ≥ 1 |
/// | `stride` | scalar | elements, ≥ n |
/// | `values` | S × `stride` | reward |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(vectors >= 1, stride >= vectors))]
pub struct Columns<T> {
    /// n.
    pub vectors: u32,
    /// Distance between the rows of consecutive states.
    pub stride: u32,
    /// Elements of all rows.
    pub values: Global<T>,
}

/// The best vector of each compressed row, and its score, both at the row's code.
///
/// - *Thread mapping*: one block per row, a thread per vector: all threads read the same entry of the row, and
///   consecutive elements of a row of Γ\[s\]\[i\].
/// - *Shared memory*: two words per thread, static. *Barriers*: one. *Deterministic*: yes.
/// - *Valid result in*: `winners` and `scores`, at the codes of the rows.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `count` | scalar | rows |
/// | `rows` | `count` × S, [`Rows`] | columns below S |
/// | `row_code` | `count` | codes, all different |
/// | `alpha` | [`Columns`] | |
/// | `winners` | codes | vectors, below n |
/// | `scores` | codes | reward |
#[kernel(
    T = [f32, f64],
    requires(
        rows.holds(count),
        row_code.len() >= count,
        shape.grid >= count,
        shape.dimensions == 1,
    ),
    block = SPARSE_THREADS
)]
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

/// Rows, and vectors, per tile of [`best_of_dense`]. Both buffers hold whole tiles.
pub const TILE: usize = 128;
/// Words per step: 32 states in f32, 64 in f16. Rows are padded to a multiple.
pub const STEP: usize = 32;
/// Threads per block: four warps, each with a quarter of the tile, 64 × 64.
pub const DENSE_THREADS: u32 = 128;
/// Stages of the pipeline: steps in flight or in use.
const STAGES: u32 = 3;
/// Row pitch in shared memory: a step and 4 words, so that the lanes of a warp read from 32 different banks.
const PITCH: u32 = STEP as u32 + 4;
/// Words per stage: the rows of both factors.
const STAGE: u32 = 2 * TILE as u32 * PITCH;
/// Dynamic shared memory per block, in bytes.
pub const DENSE_SHARED: u32 = 4 * STAGES * STAGE;
/// Row tiles per group. The blocks of a group run at about the same time and share tiles of vectors through the L2
/// cache.
const GROUP: u32 = 16;

/// Number format of the factors of a dense product: [f32], of which the tensor cores use about 21 bits in three
/// products; or f16, 11 bits, stored as the bits of a [u16].
pub trait Factor: DeviceCopy + Named {
    /// Factors per 32-bit word.
    const PER_WORD: usize;
    /// Scale of the probabilities: f16 loses digits below 2⁻¹⁴ and is 0 below 2⁻²⁵.
    const BELIEF: f64;
    /// Rounds to the nearest factor.
    fn of(x: f64) -> Self;
    /// A·B + C, from the words that a lane holds.
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

/// For each tile of rows, the steps with a nonzero element in ascending order, followed at index `steps` by their
/// number.
///
/// - *Thread mapping*: one warp per tile, a lane per step.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `list`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `steps` | scalar | steps per row |
/// | `used` | tiles × `steps` | 1 or 0 |
/// | `list` | tiles × (`steps` + 1) | steps |
///
/// *Launch*: one block per tile.
#[kernel(
    requires(
        used.len() >= shape.grid * steps,
        list.len() >= shape.grid * (steps + 1),
        shape.dimensions == 1,
    ),
    block = 32
)]
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

/// Unrolls a loop, so that its indices are constants and the arrays stay in registers.
macro_rules! each {
    ($name:ident in [$($value:literal)*] $body:block) => {$({ const $name: usize = $value; $body })*};
}
pub(super) use each;

/// Issues the asynchronous copies of one step: 128 rows of x from `row` on and 128 vectors from `vector` on, words from
/// `STEP·step` on of `words` per row.
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
    // Eight threads copy a row of 32 words; the block copies 16 rows at a time.
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

/// The best vector of each dense row: `best[r]` ← max of the [key]s of its scores.
///
/// - *Thread mapping*: one block per tile of 128 rows × 128 vectors, a warp per 64 × 64 quarter. Row tiles are
///   processed in groups, so that blocks in flight share tiles of vectors. Steps of 32 words pass through three stages
///   of shared memory; a step in which all rows of the tile are zero is skipped.
/// - *Shared memory*: [`DENSE_SHARED`] bytes, dynamic. *Barriers*: one per step.
/// - *Deterministic*: yes: an integer maximum. *Valid result in*: `best`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `rows`, `vectors` | scalar | rows and vectors, ≥ 1 |
/// | `words` | scalar | words per row, a multiple of [`STEP`] |
/// | `x` | whole tiles of rows of `words` words | zeros behind S; aligned to 16 bytes |
/// | `list` | row tiles × (`words`/[`STEP`] + 1) | from [`list_steps`] with `words`/[`STEP`] steps |
/// | `alpha` | whole tiles of vectors of `words` words | zeros behind S; aligned to 16 bytes |
/// | `best` | `rows` | 0 before the launch |
#[kernel(
    E = [f32, u16],
    requires(
        rows >= 1,
        vectors >= 1,
        words % STEP == 0,
        x.len() >= rows.next_multiple_of(TILE) * words * E::PER_WORD,
        alpha.len() >= vectors.next_multiple_of(TILE) * words * E::PER_WORD,
        list.len() >= rows.div_ceil(TILE) * (words / STEP + 1),
        best.len() >= rows,
        shape.grid == rows.div_ceil(TILE) * vectors.div_ceil(TILE),
        shape.shared >= DENSE_SHARED,
        shape.dimensions == 1,
    ),
    block = DENSE_THREADS
)]
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

/// Maps a score and its vector to an integer that orders by score, and among equal scores puts the lower vector first.
/// Never 0.
#[inline(always)]
#[must_use]
pub fn key(score: f32, vector: u32) -> u64 {
    // Adding 0 turns −0 into +0: equal scores then have equal bits.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(!vector)
}

/// Vector of a [key].
#[inline(always)]
#[must_use]
pub fn vector_of(key: u64) -> u32 {
    !(key as u32)
}

/// Stores the vectors of the best keys of rows `first..first + count` at the rows' codes.
///
/// - *Thread mapping*: one thread per row.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes.
/// - *Valid result in*: `winners`, at the codes of the rows.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `first`, `count` | scalar | rows |
/// | `best` | `count` | [key]s |
/// | `row_code` | `first` + `count` | codes |
/// | `winners` | codes | vectors |
#[kernel(requires(best.len() >= count, row_code.len() >= first + count, shape.threads >= count, shape.dimensions == 1))]
pub fn note_winners(first: u32, count: u32, best: Global<u64>, row_code: Global<u32>, winners: GlobalMut<u32>) {
    let row = thread::index_1d() as usize;
    if row < count as usize {
        winners.set(row_code.get(first as usize + row), vector_of(best.get(row)));
    }
}

/// Value of each belief's best vector, b · α, in f64.
///
/// - *Thread mapping*: a block per belief, a thread per entry.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes. *Valid result in*: `scores`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `beliefs` | blocks × S, [`Rows`] | columns below S |
/// | `winners` | blocks | vectors, below n |
/// | `alpha` | n·S | reward |
/// | `scores` | blocks | reward |
///
/// *Launch*: one block per belief.
#[kernel(
    T = [f32, f64],
    requires(
        beliefs.holds(shape.grid),
        winners.len() >= shape.grid,
        scores.len() >= shape.grid,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
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
        let value = alpha.get(first + beliefs.col.get(k) as usize).to_f64();
        sum = math::fma(beliefs.prob.get(k).to_f64(), value, sum);
        k += thread::block_dim_x();
    }
    let sum = block::reduce(sum, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        scores.set(j, sum);
    }
}
