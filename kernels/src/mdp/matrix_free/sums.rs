//! Sums over the outcomes of a state: Q-factors, and what a certificate needs.

use warpkov_device::device::warp;

use super::super::backup::greater;
use super::super::change::key;
use super::{END, Events, Outcomes, Table};

/// Actions of which a thread adds up the outcomes together, at most: with 8, sweeps take 130 registers in place of 92, and are
/// slower.
pub const TILE: usize = 4;

/// Maximum deviation of the probabilities of an action from sum 1.
pub const SUM_TOLERANCE: f64 = 1e-6;

/// Sums over the outcomes of some actions of a state. Actions that are added up together have the same probabilities.
#[derive(Clone, Copy, Debug)]
pub struct Sums {
    /// Q(s, a) = Σ p·(r + γ V(s')) of each action, of the maximisation form: costs are negated.
    pub q: [f64; TILE],
    /// Σ p·|r| + γ Σ p·|V(s')| of each action, or more.
    pub magnitude: [f64; TILE],
    /// Σ p over the outcomes after which the process goes on.
    pub going: f64,
    /// Σ p over all outcomes.
    pub sum: f64,
    /// The number of outcomes of an action.
    pub outcomes: u32,
    /// Whether every successor is a state or [`END`], every probability within \[0, 1] and every reward finite.
    pub valid: bool,
}

/// Whether probability and reward may be those of an outcome. NaN fails every comparison.
#[inline(always)]
#[must_use]
pub fn fits(probability: f64, reward: f64) -> bool {
    (0.0..=1.0 + SUM_TOLERANCE).contains(&probability) && reward.abs() <= f64::MAX
}

impl Sums {
    /// Over no outcomes.
    pub const NONE: Self =
        Self { q: [0.0; TILE], magnitude: [0.0; TILE], going: 0.0, sum: 0.0, outcomes: 0, valid: true };

    /// Over the outcomes of one action.
    #[inline(always)]
    pub fn of_action<M: Outcomes>(
        model: &M,
        table: &impl Table,
        (state, action): (u64, u32),
        value: impl Fn(u64) -> f64,
        fma: impl Fn(f64, f64, f64) -> f64,
    ) -> Self {
        let (gamma, states, mut sums) = (model.gamma(), model.states(), Self::NONE);
        model.outcomes(table, state, action, |next, probability, reward| {
            let (goes, ends) = (next < states, next == END);
            let after = match () {
                () if goes => value(next),
                () if ends => 0.0,
                () => f64::NAN,
            };
            let earned = if M::MINIMIZE { -reward } else { reward };
            sums.q[0] = fma(probability, fma(gamma, after, earned), sums.q[0]);
            sums.magnitude[0] += probability * (reward.abs() + gamma * after.abs());
            sums.going += if goes { probability } else { 0.0 };
            sums.sum += probability;
            sums.outcomes += 1;
            sums.valid = sums.valid && (goes || ends) && fits(probability, reward);
        });
        sums
    }

    /// Over all events, of the actions of a [`Tile`], of a state with actions.
    ///
    /// With `LANES` = 32, each lane of the warp computes one event of 32, and hands it to those that add it up.
    ///
    /// *Takes part*: all 32 lanes, unless `LANES` = 1. *Valid result in*: all of them; but each lane knows only whether the
    /// outcomes that it has seen are valid.
    #[inline(always)]
    pub fn of_events<M: Events, const LANES: u32, const MEASURE: bool>(
        model: &M,
        table: &impl Table,
        number: u64,
        tile: Tile,
        value: impl Fn(u64) -> f64,
        fma: impl Fn(f64, f64, f64) -> f64,
    ) -> Self {
        let lane = if LANES > 1 { warp::lane_id() } else { 0 };
        let own = lane % tile.share;
        let (gamma, states, actions) = (model.gamma(), model.states(), model.actions(number));
        let (state, mut sums) = (model.state(number), Self::NONE);
        let (mut offsets, mut of_actions) = ([0; TILE], [0.0; TILE]);
        for k in 0..TILE {
            // Beyond the last action, the last one again: no branch in the loop below.
            (offsets[k], of_actions[k]) = model.action(&state, tile.action(k).min(actions.saturating_sub(1)));
        }
        // Σ p·V(s') and Σ p·|V(s')| of each action; Σ p·r and Σ p·|r| of the events of this lane.
        let (mut values, mut sizes, mut reward, mut size) = ([0.0; TILE], [0.0; TILE], 0.0, 0.0);
        let (mut first, events) = (0, model.events(&state));
        while first < events {
            let count = (events - first).min(LANES);
            let (mut probability, mut next) = (0.0, END);
            if lane < count {
                probability = model.probability(table, &state, first + lane);
                // An event that never happens costs no more than its probability. NaN is not 0.
                if probability != 0.0 {
                    let earned;
                    (next, earned) = model.outcome(&state, first + lane);
                    reward = fma(probability, earned, reward);
                    size += probability * earned.abs();
                    sums.sum += probability;
                    sums.going += if next == END { 0.0 } else { probability };
                    sums.outcomes += 1;
                    sums.valid = sums.valid && fits(probability, earned);
                }
            }
            let mut turn = 0;
            while turn < count {
                let (mut probability, mut next) = (probability, next);
                if LANES > 1 {
                    probability = warp::shuffle(warp::FULL, probability, turn + own);
                    next = warp::shuffle(warp::FULL, next, turn + own);
                }
                if next != END {
                    for k in 0..TILE {
                        let next = next.wrapping_add(offsets[k]);
                        let goes = next < states;
                        // A read without a branch: those of all actions are on their way at the same time.
                        let read = value(if goes { next } else { number });
                        let after = if goes { read } else { f64::NAN };
                        values[k] = fma(probability, after, values[k]);
                        sizes[k] += probability * after.abs();
                        sums.valid = sums.valid && goes;
                    }
                }
                turn += tile.share;
            }
            first += count;
        }
        if LANES > 1 {
            let over = |lanes: u32, sum: f64| warp::reduce_width(sum, lanes, |a, b| a + b);
            (reward, sums.sum) = (over(LANES, reward), over(LANES, sums.sum));
            values = values.map(|sum| over(tile.share, sum));
            if MEASURE {
                (size, sums.going) = (over(LANES, size), over(LANES, sums.going));
                sizes = sizes.map(|sum| over(tile.share, sum));
                sums.outcomes = warp::reduce(sums.outcomes, |a: u32, b| a + b);
            }
        }
        for k in 0..TILE {
            let q = fma(of_actions[k], sums.sum, reward);
            sums.q[k] = fma(gamma, values[k], if M::MINIMIZE { -q } else { q });
            sums.magnitude[k] = size + of_actions[k].abs() * sums.sum + gamma * sizes[k];
            sums.valid = sums.valid && of_actions[k].abs() <= f64::MAX;
        }
        sums
    }
}

/// Actions whose outcomes are added up together: every `step`-th from `first` on, at most [`TILE`].
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// The first action.
    pub first: u32,
    /// From one action to the next.
    pub step: u32,
    /// Neighbouring lanes that have these actions, each for some of the outcomes: a power of 2.
    pub share: u32,
}

impl Tile {
    /// Action `k`. It may be above those of the state.
    #[inline(always)]
    fn action(self, k: usize) -> u32 {
        self.first.saturating_add(k as u32 * self.step)
    }
}

/// The best Q-factor of a state; its action, the lowest-numbered of equals; with `MEASURE`, what a certificate needs of the
/// state, from V(s) and the actions of this lane. −∞ and `u32::MAX` without actions. NaN if a Q-factor is NaN.
///
/// *Takes part*: the `LANES` lanes of the state, 1 or 32. *Valid result in*: all of them.
#[inline(always)]
pub fn examine<M: Outcomes, const LANES: u32, const MEASURE: bool>(
    model: &M,
    table: &impl Table,
    state: u64,
    value: impl Fn(u64) -> f64,
    fma: impl Fn(f64, f64, f64) -> f64,
) -> (f64, u32, Measured) {
    let actions = model.actions(table, state);
    let tiles = actions.div_ceil(M::TOGETHER);
    // Neighbouring lanes share the outcomes of a tile of actions, if there are fewer tiles than lanes.
    let share = if LANES > 1 && M::SHARED { LANES / tiles.next_power_of_two().min(LANES) } else { 1 };
    let lane = if LANES > 1 { warp::lane_id() } else { 0 };
    // At the same time, neighbouring tiles have neighbouring actions, which often lead to neighbouring states.
    let step = LANES / share;
    let (mut best, mut of_best, mut found) = (f64::NEG_INFINITY, u32::MAX, Measured::NONE);
    let mut start = 0;
    while start < actions {
        let tile = Tile { first: start.saturating_add(lane / share), step, share };
        let mut sums = Sums::NONE;
        if (LANES > 1 && M::SHARED) || tile.first < actions {
            sums = model.sums::<LANES, MEASURE>(table, state, tile, &value, &fma);
        }
        for k in 0..M::TOGETHER as usize {
            if tile.action(k) < actions {
                let q = sums.q[k];
                if q > best || of_best == u32::MAX {
                    of_best = tile.action(k);
                }
                best = greater(best, q);
                if MEASURE {
                    let magnitude = sums.magnitude[k];
                    found.magnitude = if magnitude.is_nan() { f64::INFINITY } else { found.magnitude.max(magnitude) };
                }
            }
        }
        if MEASURE {
            let mut valid = sums.valid;
            if tile.first < actions {
                found.going = [found.going[0].min(sums.going), found.going[1].max(sums.going)];
                found.outcomes = found.outcomes.max(sums.outcomes);
                // One rounding of each probability of an action after which the process goes on.
                found.ends |= sums.going < sums.sum;
                valid = valid && (sums.sum - 1.0).abs() <= SUM_TOLERANCE;
            }
            if !valid {
                found.wrong = state;
            }
        }
        start = start.saturating_add(step * M::TOGETHER);
    }
    if LANES > 1 {
        let greatest = warp::reduce(best, greater);
        // The lowest of the actions whose Q-factor is the greatest.
        let mine = if best >= greatest { of_best } else { u32::MAX };
        (best, of_best) = (greatest, warp::reduce(mine, |a: u32, b| a.min(b)));
    }
    if MEASURE {
        // A terminal state has V = 0.
        let own = value(state);
        let by = if actions == 0 { -own } else { best - own };
        found.change = if by.is_nan() { [f64::NEG_INFINITY, f64::INFINITY] } else { [by, by] };
        found.magnitude += own.abs();
        found.ends |= actions == 0;
    }
    (best, of_best, found)
}

/// Number of slots of [`Measured`].
pub const MEASURED: usize = 8;

/// What a certificate needs to know of V and the model: extremes over states. In memory, every number is a slot whose
/// maximum over states is that of the extreme, 0 for no state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Least and greatest (TV)(s) − V(s) over states with actions.
    pub change: [f64; 2],
    /// Greatest of Σ p·|r| + γ Σ p·|V(s')| + |V(s)|.
    pub magnitude: f64,
    /// Least and greatest Σ p over the outcomes of an action after which the process goes on.
    pub going: [f64; 2],
    /// Most outcomes of an action.
    pub outcomes: u32,
    /// Whether the process may end.
    pub ends: bool,
    /// The lowest state with an action that is not [valid](Sums::valid), or whose probabilities do not sum to 1 within
    /// [`SUM_TOLERANCE`]; `u64::MAX` if there is none.
    pub wrong: u64,
}

impl Measured {
    /// Of no state.
    pub const NONE: Self = Self {
        change: [f64::INFINITY, f64::NEG_INFINITY],
        magnitude: 0.0,
        going: [f64::INFINITY, f64::NEG_INFINITY],
        outcomes: 0,
        ends: false,
        wrong: u64::MAX,
    };

    /// Of the union of two sets of states.
    #[inline(always)]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            change: [self.change[0].min(other.change[0]), self.change[1].max(other.change[1])],
            magnitude: self.magnitude.max(other.magnitude),
            going: [self.going[0].min(other.going[0]), self.going[1].max(other.going[1])],
            outcomes: self.outcomes.max(other.outcomes),
            ends: self.ends || other.ends,
            wrong: self.wrong.min(other.wrong),
        }
    }

    /// Gives number and value of each slot to `each`. An array of them would be in local memory.
    #[inline(always)]
    pub fn each_slot(&self, mut each: impl FnMut(usize, u64)) {
        each(0, key(-self.change[0]));
        each(1, key(self.change[1]));
        each(2, self.magnitude.to_bits());
        each(3, key(-self.going[0]));
        each(4, key(self.going[1]));
        each(5, u64::from(self.outcomes));
        each(6, u64::from(self.ends));
        each(7, !self.wrong);
    }

    /// The slots.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn slots(&self) -> [u64; MEASURED] {
        let mut slots = [0; MEASURED];
        self.each_slot(|slot, value| slots[slot] = value);
        slots
    }

    /// The extremes in the slots.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn of_slots(slots: &[u64; MEASURED]) -> Self {
        use super::super::change::number;
        Self {
            change: [-number(slots[0]), number(slots[1])],
            magnitude: f64::from_bits(slots[2]),
            going: [-number(slots[3]), number(slots[4])],
            outcomes: slots[5] as u32,
            ends: slots[6] > 0,
            wrong: !slots[7],
        }
    }
}
