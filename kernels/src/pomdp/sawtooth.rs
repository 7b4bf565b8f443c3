//! The sawtooth bound of many rows at a time: what V\* is at most, by what it is at most at some points and at the corners.
//!
//! *Mathematics*: V\* is convex, and rows x ≥ 0 that are no distributions have V\*(λx) = λV\*(x). So where V\*(e_s) ≤ v(s) and
//! V\*(cᵢ) ≤ uᵢ,
//!
//! > V\*(x) ≤ x·v + ρᵢ dᵢ,  ρᵢ = min over cᵢ(s) > 0 of x(s)/cᵢ(s),  dᵢ = uᵢ − cᵢ·v < 0
//!
//! and V\*(x) ≤ maxₐ Σ x(s) Q(s, a) by the fast informed bound Q, of which v(s) is the largest in each state. The least of all
//! is the bound of x: that of p(·, o | b, a) needs no division by p(o | b, a), and
//!
//! > V\*(b) ≤ maxₐ r(b, a) + γ Σₒ bound of p(·, o | b, a)
//!
//! makes a point of b. Everything is computed in f64, from the numbers that the model and beliefs were rounded to.
//!
//! *Memory*: a block scatters its row into S elements of its own, so that threads or warps, each with points of their own, find x(s) at once;
//! a point is passed over as soon as ρ is known to be too small, which its likeliest state as a rule says.
//!
//! Source: M. Hauskrecht, *Journal of Artificial Intelligence Research* 13, 2000, 4.3.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, atomic, block, kernel, math, thread, warp};
use warpkov_device::shared_array;

use crate::primitives::rows::Rows;

/// Entries of points, on average, from which on a warp looks at one of them together.
const LONG: u32 = 64;

/// No point.
pub const NO_POINT: u32 = u32::MAX;

/// A point that came before and says as much to so many digits says all.
const EARLIER: f64 = 1.0 + 1.0 / (1_u64 << 40) as f64;

/// One that came later has to say a little more: so no two give way to each other.
const LATER: f64 = 1.0 - 1.0 / (1_u64 << 20) as f64;

/// What V\* is at most: at corners, by Q, and at points.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `states`, `actions` | 1 | S, A |
/// | `corners` | S | v(s), reward |
/// | `informed` | S·A | Q(s, a), reward, at s·A + a |
/// | `points` | points | beliefs c and their d |
/// | `now` | 1 | uses of the bound |
/// | `used` | points | uses of the bound |
#[derive(Clone, Copy, Parameter)]
pub struct UpperBound<T> {
    /// S.
    pub states: u32,
    /// A.
    pub actions: u32,
    /// v.
    pub corners: Global<f64>,
    /// Q.
    pub informed: Global<f64>,
    /// Beliefs at which V\* is less.
    pub points: Points<T>,
    /// When it is.
    pub now: u32,
    /// When each point was last the best.
    pub used: GlobalMut<u32>,
}

/// Beliefs cᵢ, and how far V\* is below the corners there.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `count` | 1 | points |
/// | `rows` | points × S | c(s) > 0 |
/// | `peak_state` | points | states |
/// | `peak_prob` | points | probability |
/// | `drop` | points | d < 0, reward |
#[derive(Clone, Copy, Parameter)]
pub struct Points<T> {
    /// How many.
    pub count: u32,
    /// Their states and probabilities.
    pub rows: Rows<T, u32>,
    /// The likeliest state of each.
    pub peak_state: Global<u32>,
    /// Its probability.
    pub peak_prob: Global<T>,
    /// d.
    pub drop: Global<f64>,
}

/// The bound of a row and x·v, in every thread, and how many entries of points this thread looked at. The row is in x(s) = `x[first + s]`, and its states s are
/// `state_of(0..count)`; `base` are a thread's terms of x·v. The point `without` is left out, if it is one, as if it were to
/// be found out whether the others imply it.
///
/// *Barriers*: several.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn bound_row<T: Real>(
    known: UpperBound<T>,
    (x, first): (GlobalMut<f64>, usize),
    (count, state_of): (u32, impl Fn(u32) -> u32),
    base: f64,
    without: u32,
) -> (f64, f64, u32) {
    let Points { count: points, rows, peak_state, peak_prob, drop } = known.points;
    let common = shared_array!(sawtooth_known: f64; 2);
    let t = thread::thread_idx_x();
    // The row's elements are there for all, and nobody reads `common` any more.
    thread::sync_threads();
    let mut most = f64::NEG_INFINITY;
    let mut a = warp::warp_id();
    while a < known.actions {
        let mut sum = 0.0;
        let mut k = warp::lane_id();
        while k < count {
            let s = state_of(k) as usize;
            sum = math::fma(x.get(first + s), known.informed.get(s * known.actions as usize + a as usize), sum);
            k += warp::SIZE;
        }
        most = warp::reduce(sum, |a, b| a + b).max(most);
        a += thread::block_dim_x() / warp::SIZE;
    }
    let base = block::reduce(base, 0.0, |a, b| a + b);
    let most = block::reduce(most, f64::NEG_INFINITY, f64::max);
    if t == 0 {
        common.set(0, base);
        common.set(1, base.min(most));
    }
    thread::sync_threads();
    let (base, mut best, mut winner) = (common.get(0), common.get(1), NO_POINT);
    // A point with many entries is looked at by a whole warp.
    let together = points > 0 && rows.ptr.get(points as usize) / points >= LONG;
    let (group, lane, groups) = if together {
        (warp::warp_id(), warp::lane_id(), thread::block_dim_x() / warp::SIZE)
    } else {
        (t, 0, thread::block_dim_x())
    };
    let mut looked_at = 0;
    let mut i = group;
    while i < points {
        looked_at += 1;
        let weight = if without == NO_POINT {
            1.0
        } else if i == without {
            0.0
        } else if i < without {
            EARLIER
        } else {
            LATER
        };
        let drop = weight * drop.get(i as usize);
        // What a point has to lower the bound by to say more than is known.
        let needed = base - best;
        let ratio_of =
            |entry: u32| x.get(first + rows.col.get(entry as usize) as usize) / rows.prob.get(entry as usize).to_f64();
        let mut ratio = x.get(first + peak_state.get(i as usize) as usize) / peak_prob.get(i as usize).to_f64();
        let (mut entry, end) = (rows.ptr.get(i as usize), rows.ptr.get(i as usize + 1));
        if together {
            while entry < end && -drop * ratio > needed {
                // Loads do not wait for each other.
                let ratios = [0, 1, 2, 3].map(|k| {
                    let own = entry + warp::SIZE * k + lane;
                    if own < end { ratio_of(own) } else { f64::INFINITY }
                });
                ratio = warp::reduce(ratios.into_iter().fold(ratio, f64::min), f64::min);
                entry += 4 * warp::SIZE;
                looked_at += 4;
            }
        } else {
            while entry < end && -drop * ratio > needed {
                ratio = ratio.min(ratio_of(entry));
                entry += 1;
                looked_at += 1;
            }
        }
        let value = math::fma(ratio, drop, base);
        if value < best {
            (best, winner) = (value, i);
        }
        i += groups;
    }
    let least = block::reduce(best, f64::INFINITY, f64::min);
    if t == 0 {
        common.set(1, least);
    }
    thread::sync_threads();
    let least = common.get(1);
    if best <= least && winner != NO_POINT {
        known.used.set(winner as usize, known.now);
    }
    (least, base, looked_at)
}

/// The rows p(·, o | b, a) of some beliefs b.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `pairs` | 1 | B·A |
/// | `codes` | 1 | B·A·Ω |
/// | `q` | B·A·S | probability |
/// | `flags` | B·A·Ω | 1 or 0 |
#[derive(Clone, Copy, Parameter)]
pub struct Successors<T> {
    /// Pairs of belief and action.
    pub pairs: u32,
    /// Codes of rows.
    pub codes: u32,
    /// The predictions of [`predict`](super::project::predict).
    pub q: Global<T>,
    /// Whether there is a row of each code.
    pub flags: Global<u32>,
}

/// The bound of each row p(·, o | b, a), at its code o·(B·A) + j·A + a, from the predictions and flags of
/// [`predict`](super::project::predict); 0 where there is none. `work` grows by the states and entries that were looked at.
///
/// *Thread mapping*: a block per code, and then one for as many further as there are blocks; a thread per state, then per point, or a warp where points are long.
/// *Shared memory*: what a block's reduction and scan take, and two words. *Barriers*: several per row. *Deterministic*: yes.
/// *Safety*: blocks have whole warps; `scores` has B·A·Ω elements; points are of the model's states; `x` has S zeros per block, and they are zeros after; `list` has S per block; `work` has one.
#[kernel(T = [f32, f64])]
pub fn bound_successors<T: Real>(
    observations: Rows<T, u64>,
    successors: Successors<T>,
    known: UpperBound<T>,
    x: GlobalMut<f64>,
    list: GlobalMut<u32>,
    scores: GlobalMut<f64>,
    work: GlobalMut<u64>,
) {
    let UpperBound { states, actions, corners, .. } = known;
    let Successors { pairs, codes, q, flags } = successors;
    let (t, first) = (thread::thread_idx_x(), thread::block_idx_x() as usize * states as usize);
    let mut looked_at = 0;
    let mut code = thread::block_idx_x();
    while code < codes {
        let (o, pair) = (code / pairs, code % pairs);
        let (row, column) = (pair as usize * states as usize, (pair % actions) as usize * states as usize);
        let mut score = 0.0;
        if flags.get(code as usize) > 0 {
            let (mut count, mut base) = (0, 0.0);
            let mut chunk = 0;
            while chunk < states {
                let s = chunk + t;
                let here = if s < states { q.get(row + s as usize).to_f64() } else { 0.0 };
                let mut value = 0.0;
                if here > 0.0 {
                    let (mut entry, end) =
                        (observations.ptr.get(column + s as usize), observations.ptr.get(column + s as usize + 1));
                    while entry < end && observations.col.get(entry as usize) != o {
                        entry += 1;
                    }
                    if entry < end {
                        value = here * observations.prob.get(entry as usize).to_f64();
                    }
                }
                let (before, found) = block::exclusive_scan(u32::from(value > 0.0), 0, |a, b| a + b);
                if value > 0.0 {
                    list.set(first + (count + before) as usize, s);
                    x.set(first + s as usize, value);
                    base = math::fma(value, corners.get(s as usize), base);
                }
                count += found;
                looked_at += 1;
                chunk += thread::block_dim_x();
            }
            let state_of = |k: u32| list.get(first + k as usize);
            let (bound, _, more) = bound_row(known, (x, first), (count, state_of), base, NO_POINT);
            (score, looked_at) = (bound, looked_at + more);
            let mut k = t;
            while k < count {
                x.set(first + state_of(k) as usize, 0.0);
                k += thread::block_dim_x();
            }
            thread::sync_threads();
        }
        if t == 0 {
            scores.set(code as usize, score);
        }
        code += thread::grid_dim_x();
    }
    let all = block::reduce(u64::from(looked_at), 0, |a, b| a + b);
    if t == 0 {
        atomic::add((work, 0), all);
    }
}

/// The bound of each of `count` compressed rows, and x·v. If they are the points themselves, each is bounded without itself.
///
/// *Thread mapping*, *Shared memory*, *Deterministic* and *Safety*: as in [`bound_successors`], with rows for codes.
#[kernel(T = [f32, f64])]
pub fn bound_beliefs<T: Real>(
    count: u32,
    rows: Rows<T, u32>,
    themselves: u32,
    known: UpperBound<T>,
    x: GlobalMut<f64>,
    bounds: GlobalMut<f64>,
    bases: GlobalMut<f64>,
) {
    let UpperBound { states, corners, .. } = known;
    let (t, first) = (thread::thread_idx_x(), thread::block_idx_x() as usize * states as usize);
    let mut row = thread::block_idx_x();
    while row < count {
        let (start, end) = (rows.ptr.get(row as usize), rows.ptr.get(row as usize + 1));
        let state_of = |k: u32| rows.col.get((start + k) as usize);
        let mut base = 0.0;
        let mut k = t;
        while start + k < end {
            let (s, value) = (state_of(k) as usize, rows.prob.get((start + k) as usize).to_f64());
            x.set(first + s, value);
            base = math::fma(value, corners.get(s), base);
            k += thread::block_dim_x();
        }
        let without = if themselves > 0 { row } else { NO_POINT };
        let (bound, base, _) = bound_row(known, (x, first), (end - start, state_of), base, without);
        let mut k = t;
        while start + k < end {
            x.set(first + state_of(k) as usize, 0.0);
            k += thread::block_dim_x();
        }
        thread::sync_threads();
        if t == 0 {
            bounds.set(row as usize, bound);
            bases.set(row as usize, base);
        }
        row += thread::grid_dim_x();
    }
}

/// Rows that become points.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `picked` | new points | numbers of rows |
/// | `starts` | new points | entries |
/// | `drops` | new points | d < 0, reward |
/// | `uses` | new points | uses of the bound |
#[derive(Clone, Copy, Parameter)]
pub struct NewPoints {
    /// The row of each.
    pub picked: Global<u32>,
    /// Where its entries begin.
    pub starts: Global<u32>,
    /// Its d.
    pub drops: Global<f64>,
    /// When it was last the best.
    pub uses: Global<u32>,
}

/// [`Points`] that a kernel adds to, and when each was last the best: the shapes are those of its fields.
#[derive(Clone, Copy, Parameter)]
pub struct PlacedPoints<T> {
    /// Where each begins, and where the last ends.
    pub ptr: GlobalMut<u32>,
    /// States.
    pub state: GlobalMut<u32>,
    /// Probabilities.
    pub prob: GlobalMut<T>,
    /// The likeliest state of each.
    pub peak_state: GlobalMut<u32>,
    /// Its probability.
    pub peak_prob: GlobalMut<T>,
    /// d.
    pub drop: GlobalMut<f64>,
    /// When each was last the best.
    pub used: GlobalMut<u32>,
}

/// Makes points of some rows: of row `picked(k)` the point `first + k`, with the drop `drops(k)`, last the best at `uses(k)`, and
/// with entries from `starts(k)` on.
///
/// *Thread mapping*: a block per point, a thread per entry. *Shared memory*: what a block's reduction takes, and a word.
/// *Barriers*: several. *Deterministic*: yes. *Safety*: blocks have whole warps; `new` has an element per block; rows are
/// not empty; there is room for all points and their entries.
#[kernel(T = [f32, f64])]
pub fn place_points<T: Real>(first: u32, new: NewPoints, rows: Rows<T, u32>, points: PlacedPoints<T>) {
    let NewPoints { picked, starts, drops, uses } = new;
    let PlacedPoints { ptr, state, prob: probs, peak_state, peak_prob, drop, used } = points;
    let largest = shared_array!(place_largest: f64; 1);
    let (k, t) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    let (point, start) = (first as usize + k, starts.get(k));
    let row = picked.get(k) as usize;
    let (from, end) = (rows.ptr.get(row), rows.ptr.get(row + 1));
    let (mut most, mut place) = (0.0, 0);
    let mut entry = from + t;
    while entry < end {
        let prob = rows.prob.get(entry as usize);
        state.set((start + (entry - from)) as usize, rows.col.get(entry as usize));
        probs.set((start + (entry - from)) as usize, prob);
        if prob.to_f64() > most {
            (most, place) = (prob.to_f64(), entry);
        }
        entry += thread::block_size();
    }
    let all = block::reduce(most, 0.0, f64::max);
    if t == 0 {
        largest.set(0, all);
    }
    thread::sync_threads();
    let place = block::reduce(if most >= largest.get(0) { place } else { u32::MAX }, u32::MAX, u32::min);
    if t == 0 {
        peak_state.set(point, rows.col.get(place as usize));
        peak_prob.set(point, rows.prob.get(place as usize));
        drop.set(point, drops.get(k));
        used.set(point, uses.get(k));
        ptr.set(point, start);
        ptr.set(point + 1, start + (end - from));
    }
}
