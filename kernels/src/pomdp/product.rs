//! The product of all rows with all vectors, of which only the best vector of each row is kept.
//!
//! *Mathematics*: i\*(r) = argmaxᵢ x_r · αᵢ over n vectors, the lowest of equal ones, for M rows x_r.
//!
//! Two ways: [`best_of_sparse`] for rows of compressed entries, in the precision of the vectors; [`best_of_dense`] for rows of S
//! elements, on tensor cores. What is best is a choice: any other gives a lower bound too. So it may be made in few
//! digits, and [`rescore`] then computes what it is worth in more.
//!
//! *Bytes*: M·n products never go to memory.

use crate::device::{Global, GlobalMut, Real, copy, kernel, math, mma, shared, thread, warp};
use crate::device::{Shared, atomic};
use crate::shared_array;

/// Threads of a block of [`best_of_sparse`].
pub const SPARSE_THREADS: u32 = 128;

/// Vectors that a thread takes at a time.
const PER_THREAD: usize = 4;

/// Writes vectors to places of their own: `count` vectors, from vector `first` on.
///
/// `rows` is Γ\[i\]\[s\], `columns` is Γ\[s\]\[i\] with `column_stride` ≥ n, `padded` is Γ\[i\]\[s\] in f32 with `padded_stride` ≥ S.
/// A stride of 0 leaves that one out.
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
    row_stride: u32,
    rows: GlobalMut<T>,
    column_stride: u32,
    columns: GlobalMut<T>,
    padded_stride: u32,
    padded: GlobalMut<f32>,
) {
    let l = thread::index_1d() as usize;
    let states = states as usize;
    if l < count as usize * states {
        let (i, s) = (first as usize + l / states, l % states);
        let value = source.get(source_first as usize * states + l);
        if row_stride > 0 {
            rows.set(i * row_stride as usize + s, value);
        }
        if column_stride > 0 {
            columns.set(s * column_stride as usize + i, value);
        }
        if padded_stride > 0 {
            padded.set(i * padded_stride as usize + s, value.to_f64() as f32);
        }
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

/// The best vector for each row of compressed entries, and its score; both at the row's code.
///
/// *Thread mapping*: one block per row, a thread per vector: all threads read the same entry, and neighbouring elements
/// of a row of Γ\[s\]\[i\]. *Shared memory*: two words per thread. *Barriers*: one. *Deterministic*: yes. *Safety*: blocks have
/// [`SPARSE_THREADS`] threads; `row_ptr` has one element per row and one more, `row_code` one per row; `col` is below S;
/// `alpha` has S·`stride` elements, `stride` ≥ n ≥ 1; `winners` and `scores` have one per code.
#[kernel(T = [f32, f64])]
pub fn best_of_sparse<T: Real>(
    rows: u32,
    vectors: u32,
    stride: u32,
    row_ptr: Global<u32>,
    row_code: Global<u32>,
    col: Global<u32>,
    weight: Global<T>,
    alpha: Global<T>,
    winners: GlobalMut<u32>,
    scores: GlobalMut<f64>,
) {
    let best_scores = shared_array!(sparse_scores: T; 128);
    let best_vectors = shared_array!(sparse_vectors: u32; 128);
    let row = thread::block_idx_x() as usize;
    if row >= rows as usize {
        return;
    }
    let (start, end) = (row_ptr.get(row) as usize, row_ptr.get(row + 1) as usize);
    let t = thread::thread_idx_x();
    let mut best = Scored { score: T::NEG_INFINITY, vector: 0 };
    let mut first = t;
    while first < vectors {
        let mut sums = [T::ZERO; PER_THREAD];
        let mut entry = start;
        while entry < end {
            let (place, x) = (col.get(entry) as usize * stride as usize, weight.get(entry));
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
/// States of a step, of which S is padded to a multiple.
pub const STEP: usize = 32;
/// Threads of a block: four warps, each with a quarter of the tile, 64 × 64.
pub const DENSE_THREADS: u32 = 128;
/// Steps that are on their way, or in use.
const STAGES: u32 = 3;
/// From row to row in shared memory: 4 more than a step, so that the lanes of a warp read from 32 banks.
const PITCH: u32 = STEP as u32 + 4;
/// Elements of a stage: rows of both factors.
const STAGE: u32 = 2 * TILE as u32 * PITCH;
/// Shared memory of a block in bytes.
pub const DENSE_SHARED: u32 = 4 * STAGES * STAGE;
/// Tiles of rows that share their tiles of vectors at about the same time, through the cache.
const GROUP: u32 = 16;

/// Unrolls what needs constant indices to stay in registers.
macro_rules! each {
    ($name:ident in [$($value:literal)*] $body:block) => {$({ const $name: usize = $value; $body })*};
}

/// Asks for the copies of one step: rows `row…` of x and vectors `vector…`, states from `STEP·step` on.
#[inline(always)]
fn stage(tile: Shared<f32>, x: Global<f32>, row: usize, alpha: Global<f32>, vector: usize, stride: usize, step: usize) {
    // Eight threads share a row of 32 elements, 16 rows at a time.
    let (t_row, t_quad) = (thread::thread_idx_x() / 8, thread::thread_idx_x() % 8);
    let mut k = 0;
    while k < TILE as u32 {
        let (here, quad) = (k + t_row, step * (STEP / 4) + t_quad as usize);
        let place = here * PITCH + 4 * t_quad;
        tile.copy4(place, x, (row + here as usize) * (stride / 4) + quad);
        tile.copy4(TILE as u32 * PITCH + place, alpha, (vector + here as usize) * (stride / 4) + quad);
        k += DENSE_THREADS / 8;
    }
}

/// The best vector for each dense row: `best[r]` ← max of the [key]s of its scores.
///
/// With `TERMS` = 1 factors have the 11 bits of TF32; with 3, each is a sum of two such numbers, and three of the four
/// products are added: about 21 bits.
///
/// *Thread mapping*: one block per tile of 128 rows × 128 vectors, a warp per 64 × 64 of it; tiles of rows in groups. Steps of 32
/// states come through three stages of shared memory. *Shared memory*: [`DENSE_SHARED`] bytes, dynamic. *Barriers*: one per
/// step. *Deterministic*: yes. *Safety*: blocks have [`DENSE_THREADS`] threads; the grid has a block per pair of tiles; `x` and
/// `alpha` have whole tiles of rows of `stride` elements, a multiple of [`STEP`], with zeros behind S; `best` has `rows` zeros.
#[kernel(TERMS = [1, 3])]
pub fn best_of_dense<const TERMS: u32>(
    rows: u32,
    vectors: u32,
    stride: u32,
    x: Global<f32>,
    alpha: Global<f32>,
    best: GlobalMut<u64>,
) {
    let memory = shared::dynamic_shared_mem::<f32>();
    let (row_tiles, vector_tiles) = (rows.div_ceil(TILE as u32), vectors.div_ceil(TILE as u32));
    let group = thread::block_idx_x() / (GROUP * vector_tiles);
    let in_group = thread::block_idx_x() - group * GROUP * vector_tiles;
    let group_rows = (row_tiles - group * GROUP).min(GROUP);
    let (row_tile, vector_tile) = (group * GROUP + in_group % group_rows, in_group / group_rows);
    let (row, vector) = (row_tile as usize * TILE, vector_tile as usize * TILE);

    let (lane, id) = (warp::lane_id(), warp::warp_id());
    let (g, t) = (lane / 4, lane % 4);
    let (top, left) = (64 * (id / 2), 64 * (id % 2));
    let steps = stride / STEP as u32;
    let stage_of = |step: u32| memory.split(step % STAGES * STAGE).1.split(STAGE).0;

    let mut step = 0;
    while step < STAGES - 1 {
        if step < steps {
            stage(stage_of(step), x, row, alpha, vector, stride as usize, step as usize);
        }
        copy::commit();
        step += 1;
    }
    let mut sums = [[[0f32; 4]; 8]; 4];
    step = 0;
    while step < steps {
        copy::wait::<{ STAGES - 2 }>();
        thread::sync_threads();
        let ahead = step + STAGES - 1;
        if ahead < steps {
            stage(stage_of(ahead), x, row, alpha, vector, stride as usize, ahead as usize);
        }
        copy::commit();
        let (of_x, of_alpha) = stage_of(step).split(TILE as u32 * PITCH);
        let mut k = 0;
        while k < STEP as u32 {
            let mut a = [[0f32; 4]; 4];
            each!(M in [0 1 2 3] {
                let place = (top + 16 * M as u32 + g) * PITCH + k + t;
                a[M] = [
                    of_x.get(place),
                    of_x.get(place + 8 * PITCH),
                    of_x.get(place + 4),
                    of_x.get(place + 8 * PITCH + 4),
                ];
            });
            each!(N in [0 1 2 3 4 5 6 7] {
                let place = (left + 8 * N as u32 + g) * PITCH + k + t;
                let b = [of_alpha.get(place), of_alpha.get(place + 4)];
                each!(M in [0 1 2 3] { sums[M][N] = multiply::<TERMS>(a[M], b, sums[M][N]); });
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

/// a·b + c in one or three products.
#[inline(always)]
fn multiply<const TERMS: u32>(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    if TERMS == 1 {
        return mma::tf32_16x8x8(a, b, c);
    }
    mma::tf32x3_16x8x8(a, b, c)
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

/// What the winners of dense rows are worth, in f64; winner and score at the row's code.
///
/// *Thread mapping*: a warp per row, a lane per state. *Safety*: `row_code` has `first + count` elements; `x` has `count` rows of
/// `stride` ≥ S elements, `best` as many keys; `alpha` n·S; `winners` and `scores` one per code.
#[kernel(T = [f32, f64])]
pub fn rescore<T: Real>(
    states: u32,
    first: u32,
    count: u32,
    stride: u32,
    x: Global<f32>,
    best: Global<u64>,
    row_code: Global<u32>,
    alpha: Global<T>,
    winners: GlobalMut<u32>,
    scores: GlobalMut<f64>,
) {
    let row = thread::index_1d() as usize / 32;
    if row >= count as usize {
        return;
    }
    let vector = vector_of(best.get(row));
    let mut sum = 0.0;
    let mut s = warp::lane_id() as usize;
    while s < states as usize {
        let value = alpha.get(vector as usize * states as usize + s).to_f64();
        sum = math::fma(f64::from(x.get(row * stride as usize + s)), value, sum);
        s += 32;
    }
    let sum = warp::reduce(sum, |a, b| a + b);
    if warp::lane_id() == 0 {
        let code = row_code.get(first as usize + row) as usize;
        winners.set(code, vector);
        scores.set(code, sum);
    }
}
