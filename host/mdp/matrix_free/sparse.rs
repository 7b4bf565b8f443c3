//! Sparse models made of code, and when they pay.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use warpkov_kernels::mdp::matrix_free::{END, Outcomes, SUM_TOLERANCE, fits};

use super::why_wrong;
use crate::backend::Stop;
use crate::error::SolveError;
use crate::generate::explore::{Explored, explore};
use crate::model::{Choices, Csr, Mdp, MdpParts, Objective};
use crate::options::Limits;
use crate::solution::Run;
use warpkov_runtime::choose::DeviceChoice;

/// Most states of a sparse model.
const MOST_STATES: u64 = u32::MAX as u64 - 1;

/// States whose rows one thread makes at a time.
const BLOCK: u64 = 256;

/// The rows of some states, one after another.
#[derive(Default)]
struct RowBlock {
    col: Vec<u32>,
    val: Vec<f64>,
    /// Entries of each row.
    lengths: Vec<u32>,
    rewards: Vec<f64>,
    ends: Vec<f64>,
    /// Rows of each state.
    actions: Vec<u32>,
}

/// Puts the successors of an action with their probabilities, [`END`] among them, into `successors`, and returns Σ p·r.
/// `None` if the outcomes are not valid.
fn action<M: Outcomes>(
    model: &M,
    table: &Vec<f64>,
    (state, action): (u64, u32),
    successors: &mut Vec<(u64, f64)>,
) -> Option<f64> {
    successors.clear();
    let (states, mut reward, mut sum, mut valid) = (model.states(), 0.0, 0.0, true);
    model.outcomes(table, state, action, |next, probability, earned| {
        valid = valid && (next < states || next == END) && fits(probability, earned);
        reward += probability * earned;
        sum += probability;
        if probability != 0.0 {
            successors.push((next, probability));
        }
    });
    (valid && (sum - 1.0).abs() <= SUM_TOLERANCE).then_some(reward)
}

impl RowBlock {
    /// The rows of `states`: successors ascending, each once. An error is a state that is not valid.
    fn new<M: Outcomes>(model: &M, table: &Vec<f64>, states: Range<u64>) -> Result<Self, u64> {
        let (mut rows, mut successors) = (Self::default(), Vec::new());
        for state in states {
            let actions = model.actions(table, state);
            rows.actions.push(actions);
            for number in 0..actions {
                let reward = action(model, table, (state, number), &mut successors).ok_or(state)?;
                // A stable sort: the sum of equal successors does not depend on the sort.
                successors.sort_by_key(|&(next, _)| next);
                let (start, mut end) = (rows.col.len(), 0.0);
                for &(next, probability) in &successors {
                    if next == END {
                        end += probability;
                    } else if rows.col[start..].last().is_some_and(|&last| u64::from(last) == next) {
                        let at = rows.val.len() - 1;
                        rows.val[at] += probability;
                    } else {
                        // Below S, which is at most `MOST_STATES`.
                        rows.col.push(next as u32);
                        rows.val.push(probability);
                    }
                }
                rows.lengths.push((rows.col.len() - start) as u32);
                rows.rewards.push(reward);
                rows.ends.push(end);
            }
        }
        Ok(rows)
    }
}

/// All elements of `part` of all blocks, in order.
fn concat<T: Copy + Default + Send + Sync>(blocks: &[RowBlock], part: impl Fn(&RowBlock) -> &[T]) -> Vec<T> {
    let mut all = vec![T::default(); blocks.iter().map(|block| part(block).len()).sum()];
    let (mut rest, mut targets) = (&mut all[..], Vec::with_capacity(blocks.len()));
    for block in blocks {
        let (target, behind) = rest.split_at_mut(part(block).len());
        targets.push((target, part(block)));
        rest = behind;
    }
    targets.into_par_iter().for_each(|(target, source)| target.copy_from_slice(source));
    all
}

/// 0, and the sums of the first one, two … lengths.
fn offsets(lengths: &[u32]) -> Vec<u64> {
    let mut sum = 0;
    let ends = lengths.iter().map(|&length| {
        sum += u64::from(length);
        sum
    });
    std::iter::once(0).chain(ends).collect()
}

/// The sparse model with the outcomes of all states. Its values are those of the model as code; rewards are those of
/// actions.
///
/// # Errors
/// [`SolveError::Model`] if the model has 2³² − 1 states or more, or is not valid: with the state and the action.
pub fn sparse<M: Outcomes + Sync>(model: &M) -> Result<Mdp, SolveError> {
    let states = model.states();
    if states > MOST_STATES {
        return Err(SolveError::Model(format!("a sparse model has at most {MOST_STATES} states, found {states}")));
    }
    let table = model.table();
    let of_block = |block: u64| RowBlock::new(model, &table, block * BLOCK..states.min((block + 1) * BLOCK));
    let blocks: Vec<_> = (0..states.div_ceil(BLOCK)).into_par_iter().map(of_block).collect();
    let blocks: Result<Vec<RowBlock>, u64> = blocks.into_iter().collect();
    let blocks = blocks.map_err(|state| SolveError::Model(why_wrong(model, &table, state)))?;
    let mut ends = concat(&blocks, |rows| &rows.ends);
    if ends.iter().all(|&end| end == 0.0) {
        ends.clear();
    }
    let row_ptr = offsets(&concat(&blocks, |rows| &rows.lengths));
    let choices = Choices::Ragged(offsets(&concat(&blocks, |rows| &rows.actions)).into());
    let rewards = concat(&blocks, |rows| &rows.rewards);
    let (col, val) = (concat(&blocks, |rows| &rows.col), concat(&blocks, |rows| &rows.val));
    drop(blocks);
    let parts = MdpParts {
        states: states as u32,
        choices,
        gamma: model.gamma(),
        objective: if M::MINIMIZE { Objective::Minimize } else { Objective::Maximize },
        transitions: Csr::new(row_ptr, col, val).map_err(|source| SolveError::Model(source.to_string()))?,
        ends: ends.into(),
        action_rewards: rewards.into(),
        ..MdpParts::default()
    };
    Ok(parts.validated()?)
}

/// The sparse model of the states that the process reaches from `start`, and their numbers in the model as code: state 0 is
/// `start`. [`END`] is a terminal state of it.
///
/// # Errors
/// As for [`sparse`].
pub fn reachable<M: Outcomes + Sync>(model: &M, start: u64) -> Result<Explored<u64>, SolveError> {
    if start >= model.states() {
        return Err(SolveError::Model(format!("the start is state {start}, expected one below {}", model.states())));
    }
    let (table, mut successors, mut wrong) = (model.table(), Vec::new(), None);
    let found = explore(start, &[""], |&state, search| {
        if state == END || wrong.is_some() {
            return;
        }
        for number in 0..model.actions(&table, state) {
            let Some(reward) = action(model, &table, (state, number), &mut successors) else {
                wrong = Some(state);
                return;
            };
            search.action(0, reward, successors.iter().map(|&(next, probability)| (probability, next)));
        }
    });
    if let Some(state) = wrong {
        return Err(SolveError::Model(why_wrong(model, &table, state)));
    }
    let Explored { states, mdp } = found.map_err(|error| SolveError::Model(error.to_string()))?;
    let objective = if M::MINIMIZE { Objective::Minimize } else { Objective::Maximize };
    let parts = MdpParts { gamma: model.gamma(), objective, action_names: None, ..mdp.into_parts() };
    Ok(Explored { states, mdp: parts.validated()? })
}

/// How fast a device is with sparse models.
#[derive(Clone, Copy)]
pub(super) struct Speed {
    /// Seconds that a model takes to get there, however small it is.
    start: f64,
    /// Transitions per second of sweeps.
    sweeps: f64,
}

impl Speed {
    /// Of an H200: five models of `examples/models`, of 2 to 409 million transitions.
    pub(super) const GPU: Self = Self { start: 0.07, sweeps: 1.1e11 };

    /// Of some cores: 6.4 · 10⁷ transitions took 35 ms on the 16 beside that GPU.
    pub(super) fn of_cores(count: usize) -> Self {
        Self { start: 0.0, sweeps: 1.1e8 * count as f64 }
    }
}

/// Bytes of transitions per second that are copied together, checked and laid out, on those 16 cores.
const LAYOUT_RATE: f64 = 2.7e9;

/// Bytes of a transition: a column and a probability.
const BYTES: f64 = 12.0;

/// Most bytes of transitions of a sparse model that `auto` makes.
const MOST_BYTES: f64 = 16e9;

/// Time of the sweeps before which the cost of a sparse model is not even measured, and about what that takes.
const LEAST: Duration = Duration::from_millis(20);

/// When a sparse model is expected to take less time than the code.
///
/// The rule is that of the rent of skis: the code sweeps until it has taken as long as the making of the sparse model would.
/// With exact costs, that takes at most about twice the shorter time, whichever it is.
pub(super) struct Switch {
    /// The device that goes on.
    pub(super) device: DeviceChoice,
    speed: Speed,
    most_sweeps: f64,
    begun: Instant,
    /// What a thread beside the sweeps finds out, once it was asked for.
    cost: Option<Arc<OnceLock<Cost>>>,
    /// The bounded quantity of the round before.
    size: Option<f64>,
    /// Why the rest is expected to be faster with a sparse model.
    pub(super) why: Option<String>,
}

/// What a sparse model costs.
struct Cost {
    /// Seconds until the model is checked and laid out; infinite for one that `auto` does not make.
    make: f64,
    transitions: f64,
}

impl Switch {
    pub(super) fn new(device: DeviceChoice, speed: Speed, limits: &Limits) -> Self {
        let most_sweeps = f64::from(limits.max_sweeps);
        Self { device, speed, most_sweeps, begun: Instant::now(), cost: None, size: None, why: None }
    }

    /// Whether the rest is expected to be faster with a sparse model, after a round whose last sweep changed V by `change`,
    /// from the least to the greatest.
    pub(super) fn wanted<M: Outcomes + Send + Sync + 'static>(
        &mut self,
        model: &M,
        stop: Stop,
        [least, greatest]: [f64; 2],
        run: &Run,
    ) -> bool {
        let size = stop.size(least, greatest);
        let (Some(before), Some(round)) = (self.size.replace(size), run.rounds.last()) else { return false };
        let spent = self.begun.elapsed();
        if spent < LEAST {
            return false;
        }
        let cost = self.cost.get_or_insert_with(|| {
            let (place, model) = (Arc::<OnceLock<Cost>>::default(), *model);
            let found = Arc::clone(&place);
            // Without the thread, the cost stays unknown.
            let _ = thread::Builder::new().spawn(move || found.set(Cost::new(&model)));
            place
        });
        let Some(&Cost { make, transitions }) = cost.get() else { return false };
        let make = self.speed.start + make;
        if spent.as_secs_f64() < make {
            return false;
        }
        let start = run.rounds.len().checked_sub(2).map_or(0.0, |before| run.rounds[before].seconds);
        let sweep = (round.seconds - start) / f64::from(round.sweeps);
        // A sweep multiplies the change by γ at most, and by less where the process forgets its state.
        let factor = (size / before).powf(1.0 / f64::from(round.sweeps)).min(model.gamma());
        let left = ((stop.bound() / size).ln() / factor.ln()).clamp(0.0, self.most_sweeps);
        let (code, instead) = (left * sweep, make + left * transitions / self.speed.sweeps);
        if code > instead {
            self.why = Some(format!(
                "auto chose a sparse model after {:.2} s: {code:.2} s more expected from the code ({left:.0} sweeps of \
                 {:.0} µs), {instead:.2} s with {:.1} MB of transitions",
                spent.as_secs_f64(),
                1e6 * sweep,
                BYTES * transitions / 1e6
            ));
        }
        self.why.is_some()
    }
}

impl Cost {
    /// The cost of a model, from the rows of some states.
    fn new<M: Outcomes + Sync>(model: &M) -> Self {
        let (states, table, begun) = (model.states(), model.table(), Instant::now());
        if states > MOST_STATES {
            return Self { make: f64::INFINITY, transitions: 0.0 };
        }
        // States of all parts of the model, one of each part at first, twice as many the next time.
        let (mut made, mut transitions, mut round) = (0, 0, rayon::current_num_threads() as u64);
        while made < states && begun.elapsed() < LEAST {
            let stride = (states / round).max(1);
            let of_state = |at: u64| {
                let state = (at * stride + made) % states;
                RowBlock::new(model, &table, state..state + 1).map_or(0, |rows| rows.col.len())
            };
            transitions += (0..round).into_par_iter().map(of_state).sum::<usize>();
            (made, round) = (made + round, 2 * round);
        }
        let scale = states as f64 / made as f64;
        let (seconds, transitions) = (scale * begun.elapsed().as_secs_f64(), scale * transitions as f64);
        let bytes = transitions * BYTES;
        let make = if bytes <= MOST_BYTES { seconds + bytes / LAYOUT_RATE } else { f64::INFINITY };
        Self { make, transitions }
    }
}
