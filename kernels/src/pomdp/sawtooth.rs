//! The sawtooth bound for many rows at a time: an upper bound of V\* from upper bounds at points and at the corners of
//! the simplex.
//!
//! *Mathematics*: V\* is convex, and V\*(λx) = λV\*(x) extends it to rows x ≥ 0 that are not distributions. If V\*(e_s)
//! ≤ v(s) and V\*(cᵢ) ≤ uᵢ, then
//!
//! > V\*(x) ≤ x·v + ρᵢ dᵢ,  ρᵢ = min over cᵢ(s) > 0 of x(s)/cᵢ(s),  dᵢ = uᵢ − cᵢ·v < 0
//!
//! and V\*(x) ≤ maxₐ Σ x(s) Q(s, a) by the fast informed bound Q, where v(s) = maxₐ Q(s, a). The bound of x is the
//! minimum of all these. For x = p(·, o | b, a) it needs no division by p(o | b, a), and
//!
//! > V\*(b) ≤ maxₐ r(b, a) + γ Σₒ bound of p(·, o | b, a)
//!
//! makes a new point of b. All arithmetic is in f64, on the rounded numbers of the model and the beliefs.
//!
//! *Memory*: a block scatters its row into S elements of its own, so that its threads or warps, each with different
//! points, look up x(s) directly. A point is abandoned once ρ is known to be too small; its most probable state usually
//! shows that.
//!
//! Source: M. Hauskrecht, *Journal of Artificial Intelligence Research* 13, 2000, section 4.3.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, atomic, block, kernel, math, thread, warp};
use warpkov_device::shared_array;

use crate::primitives::rows::Rows;

/// Average number of entries per point above which a whole warp evaluates a point.
const LONG: u32 = 64;

/// Stands for no point.
pub const NO_POINT: u32 = u32::MAX;

/// Weight of an earlier point in the test for redundancy: an earlier point makes a point redundant if its bound is
/// equal up to rounding.
const EARLIER: f64 = 1.0 + 1.0 / (1_u64 << 40) as f64;

/// Weight of a later point: its bound must be slightly lower, so that no two points make each other redundant.
const LATER: f64 = 1.0 - 1.0 / (1_u64 << 20) as f64;

/// An upper bound of V\*: at the corners, by Q, and at points.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `states`, `actions` | scalar | S, A |
/// | `corners` | S | v(s), reward |
/// | `informed` | S·A | Q(s, a), reward, at s·A + a |
/// | `points` | [`Points`] | beliefs c and their d |
/// | `now` | scalar | time: uses of the bound |
/// | `used` | points | time of last use |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(corners.len() >= states, informed.len() >= states * actions, used.len() >= points.count))]
pub struct UpperBound<T> {
    /// S.
    pub states: u32,
    /// A.
    pub actions: u32,
    /// v, the bound at the corners.
    pub corners: Global<f64>,
    /// Q, the fast informed bound.
    pub informed: Global<f64>,
    /// Beliefs with a lower bound than the corners imply.
    pub points: Points<T>,
    /// Present time.
    pub now: u32,
    /// Last time that each point gave the minimum.
    pub used: GlobalMut<u32>,
}

/// Points: beliefs cᵢ, and the difference of the bound there to that of the corners.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `count` | scalar | points |
/// | `rows` | points × S, [`Rows`] | c(s) > 0; columns below S |
/// | `peak_state` | points | states, below S |
/// | `peak_prob` | points | probability > 0 |
/// | `drop` | points | d < 0, reward |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(rows.holds(count), peak_state.len() >= count, peak_prob.len() >= count, drop.len() >= count))]
pub struct Points<T> {
    /// Number of points.
    pub count: u32,
    /// States and probabilities of each point.
    pub rows: Rows<T, u32>,
    /// Most probable state of each point.
    pub peak_state: Global<u32>,
    /// Probability of that state.
    pub peak_prob: Global<T>,
    /// d.
    pub drop: Global<f64>,
}

/// Upper bound of a row, x·v, and the number of points and entries that this thread has read.
///
/// The row is x(s) = `x[first + s]`, with the states `state_of(0..count)`; `base` holds this thread's terms of x·v. The
/// point `without`, unless [`NO_POINT`], is left out, to test whether the other points make it redundant.
///
/// *Takes part*: every thread of the block, in whole warps. *Valid result in*: bound and x·v in every thread. *Shared
/// memory*: 34 words, static. *Barriers*: nine.
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
    // All elements of the row are written, and all reads of `common` for the previous row are done.
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
    // A whole warp evaluates a long point.
    let together = points > 0 && rows.ptr.get(points) / points >= LONG;
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
        let drop = weight * drop.get(i);
        // Decrease of the bound that a point must exceed to improve on the present minimum.
        let needed = base - best;
        let ratio_of = |entry: u32| x.get(first + rows.col.get(entry) as usize) / rows.prob.get(entry).to_f64();
        let mut ratio = x.get(first + peak_state.get(i) as usize) / peak_prob.get(i).to_f64();
        let (mut entry, end) = (rows.ptr.get(i), rows.ptr.get(i as usize + 1));
        if together {
            while entry < end && -drop * ratio > needed {
                // Independent loads.
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
        known.used.mark(winner, known.now);
    }
    (least, base, looked_at)
}

/// The rows p(·, o | b, a) of some beliefs b, in factored form.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `pairs` | scalar | B·A |
/// | `codes` | scalar | B·A·Ω |
/// | `q` | B·A·S | probability |
/// | `flags` | B·A·Ω | 1 or 0 |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(flags.len() >= codes))]
#[parameter(holds(states), requires(q.len() >= pairs * states))]
pub struct Successors<T> {
    /// Number of pairs of belief and action.
    pub pairs: u32,
    /// Number of codes of rows.
    pub codes: u32,
    /// Predictions of [`predict`](super::project::predict).
    pub q: Global<T>,
    /// Whether each code has a row.
    pub flags: Global<u32>,
}

/// Upper bound of each row p(·, o | b, a), at its code o·(B·A) + j·A + a; 0 for a code without a row. `work` grows by
/// the number of states and entries read.
///
/// - *Thread mapping*: a grid-stride loop over codes, a block per code; a thread per state, then a thread per point, or
///   a warp per point if points are long.
/// - *Shared memory*: 66 words, static.
/// - *Barriers*: per row: 10, and two per chunk of states, one state per thread; two at the end. *Deterministic*: yes.
/// - *Valid result in*: `scores` and `work`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `observations` | A·S × Ω, [`Rows`] | O(a, s', o), row a·S + s' |
/// | `successors` | [`Successors`] | |
/// | `known` | [`UpperBound`] | |
/// | `x` | S × blocks | 0 before and after the launch |
/// | `list` | S × blocks | scratch |
/// | `scores` | B·A·Ω | reward |
/// | `work` | 1 | counter; incremented |
#[kernel(
    T = [f32, f64],
    requires(
        observations.holds(known.actions * known.states),
        successors.holds(known.states),
        x.len() >= known.states * shape.grid,
        list.len() >= known.states * shape.grid,
        scores.len() >= successors.codes,
        work.len() >= 1,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
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
        if flags.get(code) > 0 {
            let (mut count, mut base) = (0, 0.0);
            let mut chunk = 0;
            while chunk < states {
                let s = chunk + t;
                let here = if s < states { q.get(row + s as usize).to_f64() } else { 0.0 };
                let mut value = 0.0;
                if here > 0.0 {
                    let (mut entry, end) =
                        (observations.ptr.get(column + s as usize), observations.ptr.get(column + s as usize + 1));
                    while entry < end && observations.col.get(entry) != o {
                        entry += 1;
                    }
                    if entry < end {
                        value = here * observations.prob.get(entry).to_f64();
                    }
                }
                let (before, found) = block::exclusive_scan(u32::from(value > 0.0), 0, |a, b| a + b);
                if value > 0.0 {
                    list.set(first + (count + before) as usize, s);
                    x.set(first + s as usize, value);
                    base = math::fma(value, corners.get(s), base);
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
            scores.set(code, score);
        }
        code += thread::grid_dim_x();
    }
    let all = block::reduce(u64::from(looked_at), 0, |a, b| a + b);
    if t == 0 {
        atomic::add((work, 0), all);
    }
}

/// Upper bound of each of `count` compressed rows, and x·v. If `themselves` is not 0, the rows are the points
/// themselves, and each is bounded without itself.
///
/// - *Thread mapping*: a grid-stride loop over rows, a block per row; a thread per entry, then a thread or a warp per
///   point.
/// - *Shared memory*: 34 words, static. *Barriers*: 10 per row. *Deterministic*: yes.
/// - *Valid result in*: `bounds` and `bases`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `count` | scalar | rows |
/// | `rows` | `count` × S, [`Rows`] | columns below S, different within a row |
/// | `themselves` | scalar | 1 or 0 |
/// | `known` | [`UpperBound`] | |
/// | `x` | S × blocks | 0 before and after the launch |
/// | `bounds`, `bases` | `count` | reward |
#[kernel(
    T = [f32, f64],
    requires(
        rows.holds(count),
        x.len() >= known.states * shape.grid,
        bounds.len() >= count,
        bases.len() >= count,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
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
        let (start, end) = (rows.ptr.get(row), rows.ptr.get(row as usize + 1));
        let state_of = |k: u32| rows.col.get(start + k);
        let mut base = 0.0;
        let mut k = t;
        while start + k < end {
            let (s, value) = (state_of(k) as usize, rows.prob.get(start + k).to_f64());
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
            bounds.set(row, bound);
            bases.set(row, base);
        }
        row += thread::grid_dim_x();
    }
}

/// Rows that become points.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `picked` | new points | rows, each with at least one entry |
/// | `starts` | new points | entries, consecutive: `starts[k + 1]` = `starts[k]` + length of row `picked[k]` |
/// | `drops` | new points | d < 0, reward |
/// | `uses` | new points | time of last use |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(points),
    requires(
        picked.len() >= points,
        starts.len() >= points,
        drops.len() >= points,
        uses.len() >= points,
    )
)]
pub struct NewPoints {
    /// Row of each new point.
    pub picked: Global<u32>,
    /// First entry of each new point.
    pub starts: Global<u32>,
    /// d of each new point.
    pub drops: Global<f64>,
    /// Last time that each new point gave the minimum.
    pub uses: Global<u32>,
}

/// [`Points`] that a kernel extends, and the time of last use of each.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `ptr` | points + 1 | entries, ascending |
/// | `state` | entries | states, below S |
/// | `prob` | entries | probability > 0 |
/// | `peak_state` | points | states, below S |
/// | `peak_prob` | points | probability > 0 |
/// | `drop` | points | d < 0, reward |
/// | `used` | points | time of last use |
///
/// "Points" and "entries" include the new ones.
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(points),
    requires(
        ptr.len() >= points + 1,
        peak_state.len() >= points,
        peak_prob.len() >= points,
        drop.len() >= points,
        used.len() >= points,
    )
)]
pub struct PlacedPoints<T> {
    /// First entry of each point, and the number of entries.
    pub ptr: GlobalMut<u32>,
    /// State of each entry.
    pub state: GlobalMut<u32>,
    /// Probability of each entry.
    pub prob: GlobalMut<T>,
    /// Most probable state of each point.
    pub peak_state: GlobalMut<u32>,
    /// Probability of that state.
    pub peak_prob: GlobalMut<T>,
    /// d of each point.
    pub drop: GlobalMut<f64>,
    /// Last time that each point gave the minimum.
    pub used: GlobalMut<u32>,
}

/// Appends points: row `picked(k)` becomes point `first + k`, with the drop `drops(k)`, the time of last use `uses(k)`,
/// and entries from `starts(k)` on.
///
/// - *Thread mapping*: a block per new point, a thread per entry.
/// - *Shared memory*: 33 words, static. *Barriers*: five. *Deterministic*: yes.
/// - *Valid result in*: `points`, from point `first` on.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `first` | scalar | index of the first new point |
/// | `new` | [`NewPoints`], one per block | |
/// | `rows` | [`Rows`] | columns below S |
/// | `points` | [`PlacedPoints`], room for all points and entries | |
///
/// *Launch*: one block per new point.
#[kernel(
    T = [f32, f64],
    requires(
        new.holds(shape.grid),
        points.holds(first + shape.grid),
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
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
        let prob = rows.prob.get(entry);
        state.set(start + (entry - from), rows.col.get(entry));
        probs.set(start + (entry - from), prob);
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
        peak_state.set(point, rows.col.get(place));
        peak_prob.set(point, rows.prob.get(place));
        drop.set(point, drops.get(k));
        used.set(point, uses.get(k));
        // The end of a point is the start of the next one, which another block writes.
        ptr.mark(point, start);
        ptr.mark(point + 1, start + (end - from));
    }
}
