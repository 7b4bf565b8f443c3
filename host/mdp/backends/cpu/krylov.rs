//! The linear system (I − γP^π)x = r^π on all cores.

use rayon::prelude::*;
use warpkov_common::parallel;

use super::engine::Engine;
use super::layout::{BLOCK, Storable};
use crate::backend::{Backups, Evaluate, Evaluation, GreedySweeps, State, Stop};
use crate::backends::krylov::Linear;
use crate::team::Team;
use warpkov_common::interrupt;
use warpkov_runtime::comm::Error;

/// States per block of the DILU preconditioner. Independent of the number of cores, so the result is too.
const PRECONDITIONED: usize = 4 * BLOCK;

/// States per aggregate.
const AGGREGATE: usize = 8;

/// Maximum size of the dense system on the coarsest level.
const DENSE: usize = 256;

/// Vector length up to which one core works alone; sharing the work would take longer.
const SHARED: usize = 8 * BLOCK;

/// The engine with the system of the last prepared policy.
///
/// The preconditioner is a multilevel cycle. The levels are the states, aggregates of adjacent states, aggregates of
/// these, and so on down to a dense system. On each level, block-wise DILU smooths what the coarser levels leave of the
/// right-hand side. For γ near 1, the coarse levels propagate distant rewards. If successors are not near their states,
/// coarser levels do not exist.
pub struct System<'m> {
    engine: Engine<'m, f64>,
    /// γP^π without rewards.
    matrix: Option<Box<dyn Storable<f64>>>,
    reward: Vec<f64>,
    finest: Level,
    coarser: Vec<(Box<dyn Storable<f64>>, Level)>,
    dense: Option<Dense>,
    /// Whether a stop was requested, on any rank, before the last reduction.
    stopped: bool,
}

/// Data of one level of the preconditioner; its matrix γP is stored separately.
#[derive(Default)]
struct Level {
    /// Inverse diagonal of DILU.
    weight: Vec<f64>,
    /// 1 / (number of members with actions) of each aggregate; 0 if none has actions. Empty on the last level.
    share: Vec<f64>,
    /// Whether each state or aggregate has actions.
    has_actions: Vec<bool>,
    /// Right-hand side and solution of the next level.
    next: [Vec<f64>; 2],
    /// Residual after the next level, and its DILU correction.
    rest: [Vec<f64>; 2],
}

/// LU factors of I − γP of a few aggregates, in one array. Rows are diagonally dominant, so no pivoting is necessary.
struct Dense {
    size: usize,
    factors: Vec<f64>,
}

impl Dense {
    fn new(matrix: &dyn Storable<f64>, size: usize) -> Self {
        let mut factors = vec![0.0; size * size];
        let (mut unit, mut image) = (vec![0.0; size], vec![0.0; size]);
        for column in 0..size {
            unit[column] = 1.0;
            matrix.backup(0, &unit, &mut image);
            unit[column] = 0.0;
            for row in 0..size {
                factors[row * size + column] = f64::from(u8::from(row == column)) - image[row];
            }
        }
        for pivot in 0..size {
            let (above, below) = factors.split_at_mut((pivot + 1) * size);
            let above = &above[pivot * size..];
            for row in below.chunks_exact_mut(size) {
                row[pivot] /= above[pivot];
                let factor = row[pivot];
                if factor != 0.0 {
                    row[pivot + 1..].iter_mut().zip(&above[pivot + 1..]).for_each(|(x, y)| *x -= factor * y);
                }
            }
        }
        Self { size, factors }
    }

    fn solve(&self, x: &[f64], y: &mut [f64]) {
        let dot = |row: &[f64], y: &[f64]| row.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
        for (i, row) in self.factors.chunks_exact(self.size).enumerate() {
            y[i] = x[i] - dot(&row[..i], &y[..i]);
        }
        for (i, row) in self.factors.chunks_exact(self.size).enumerate().rev() {
            y[i] = (y[i] - dot(&row[i + 1..], &y[i + 1..])) / row[i];
        }
    }
}

impl Level {
    /// Computes the DILU weights of `matrix`, which has `states` states.
    fn prepare(&mut self, matrix: &dyn Storable<f64>, states: usize) {
        self.weight.resize(states, 0.0);
        let blocks = self.weight.par_chunks_mut(PRECONDITIONED).enumerate();
        blocks.for_each(|(block, weight)| matrix.factor(block * PRECONDITIONED, weight));
    }

    /// Applies DILU to each block of states separately.
    fn smooth(matrix: &dyn Storable<f64>, weight: &[f64], x: &[f64], y: &mut [f64]) {
        let blocks = x.par_chunks(PRECONDITIONED).zip(weight.par_chunks(PRECONDITIONED));
        let blocks = y.par_chunks_mut(PRECONDITIONED).zip(blocks).enumerate();
        blocks.for_each(|(block, (y, (x, weight)))| matrix.precondition(block * PRECONDITIONED, weight, x, y));
    }

    /// Allocates the vectors of the next coarser level and returns which of its aggregates have actions.
    fn coarsen(&mut self) -> Vec<bool> {
        let members = self
            .has_actions
            .chunks(AGGREGATE)
            .map(|members| members.iter().filter(|&&has_actions| has_actions).count());
        self.share = members.map(|count| if count == 0 { 0.0 } else { 1.0 / count as f64 }).collect();
        self.next = [vec![0.0; self.share.len()], vec![0.0; self.share.len()]];
        self.rest = [vec![0.0; self.has_actions.len()], vec![0.0; self.has_actions.len()]];
        self.share.iter().map(|&share| share > 0.0).collect()
    }

    /// `y` ← M⁻¹`x` with M ≈ I − `matrix`: one solve on the coarser levels, if any, then DILU on the remainder.
    fn cycle(
        &mut self,
        matrix: &dyn Storable<f64>,
        coarser: &mut [(Box<dyn Storable<f64>>, Self)],
        dense: Option<&Dense>,
        x: &[f64],
        y: &mut [f64],
    ) {
        let Self { weight, share, has_actions, next: [right, solution], rest: [rest, correction] } = self;
        if share.is_empty() {
            return Self::smooth(matrix, weight, x, y);
        }
        blocks(right, |first, right| {
            let members = x[first * AGGREGATE..].chunks(AGGREGATE);
            for ((right, members), share) in right.iter_mut().zip(members).zip(&share[first..]) {
                *right = share * members.iter().sum::<f64>();
            }
        });
        match (coarser.split_first_mut(), dense) {
            (Some(((matrix, level), coarser)), dense) => level.cycle(&**matrix, coarser, dense, right, solution),
            (None, Some(dense)) => dense.solve(right, solution),
            (None, None) => solution.fill(0.0),
        }
        blocks(y, |first, y| {
            for (state, y) in (first..).zip(y) {
                *y = if has_actions[state] { solution[state / AGGREGATE] } else { 0.0 };
            }
        });
        let solved = &*y;
        blocks(rest, |first, rest| {
            matrix.backup(first, solved, rest);
            for ((rest, x), y) in rest.iter_mut().zip(&x[first..]).zip(&solved[first..]) {
                *rest += x - y;
            }
        });
        // Terminal states keep a remainder of 0: `backup` leaves their entries unchanged, and x and y are 0 there.
        Self::smooth(matrix, weight, rest, correction);
        blocks(y, |first, y| y.iter_mut().zip(&correction[first..]).for_each(|(y, correction)| *y += correction));
    }
}

impl<'m> System<'m> {
    /// Builds the system on an engine.
    #[must_use]
    pub fn new(engine: Engine<'m, f64>) -> Self {
        let finest = Level { has_actions: engine.has_actions(), ..Level::default() };
        Self { engine, matrix: None, reward: Vec::new(), finest, coarser: Vec::new(), dense: None, stopped: false }
    }

    /// Builds the levels of the preconditioner for a policy.
    fn prepare_levels(&mut self, matrix: &dyn Storable<f64>) {
        let Self { finest, coarser, dense, .. } = self;
        let known = !finest.weight.is_empty();
        finest.prepare(matrix, finest.has_actions.len());
        if known && finest.share.is_empty() {
            // The previous policy had no coarser levels either.
            return;
        }
        (*coarser, *dense) = (Vec::new(), None);
        finest.share.clear();
        loop {
            let (matrix, level) = match coarser.last_mut() {
                Some((matrix, level)) => (&**matrix, level),
                None => (matrix, &mut *finest),
            };
            let states = level.has_actions.len();
            let Some(next) = (states > DENSE).then(|| matrix.aggregated(states, AGGREGATE)).flatten() else { return };
            let has_actions = level.coarsen();
            let size = has_actions.len();
            if size <= DENSE {
                *dense = Some(Dense::new(&*next, size));
                return;
            }
            let mut level = Level { has_actions, ..Level::default() };
            level.prepare(&*next, size);
            coarser.push((next, level));
        }
    }
}

impl State for System<'_> {
    type Error = Error;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), Error> {
        self.engine.reset(initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, Error> {
        self.engine.values()
    }

    fn policy(&mut self) -> Result<Vec<u32>, Error> {
        self.engine.policy()
    }

    fn sweep_bytes(&mut self) -> Result<u64, Error> {
        self.engine.sweep_bytes()
    }
}

impl Evaluate for System<'_> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, Error> {
        self.engine.evaluate(theta, max_sweeps)
    }

    fn improve(&mut self, tie: f64) -> Result<u64, Error> {
        self.engine.improve(tie)
    }
}

impl GreedySweeps for System<'_> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, Error> {
        self.engine.backup(stop, max_sweeps)
    }
}

/// Sets the ghosts of `y` to 0, so that scalar products leave them out.
fn clear_ghosts(team: &Team, y: &mut [f64]) {
    if let Some(part) = team.part() {
        y[..part.own.start].fill(0.0);
        y[part.own.end..].fill(0.0);
    }
}

/// Applies `f` to the blocks of `y` on all cores; returns the results in block order.
fn blocks<R: Send>(y: &mut [f64], f: impl Fn(usize, &mut [f64]) -> R + Sync) -> Vec<R> {
    let each = |(block, y): (usize, &mut [f64])| f(block * BLOCK, y);
    if y.len() <= SHARED {
        return y.chunks_mut(BLOCK).enumerate().map(each).collect();
    }
    parallel::map(y.chunks_mut(BLOCK).enumerate(), each)
}

/// x·y in eight partial sums, which the compiler keeps in vector registers.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (xs, x_rest) = x.as_chunks::<8>();
    let (ys, y_rest) = y.as_chunks::<8>();
    for (x, y) in xs.iter().zip(ys) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

impl Linear for System<'_> {
    type Vector = Vec<f64>;

    fn vector(&mut self) -> Result<Vec<f64>, Error> {
        Ok(vec![0.0; self.engine.states()])
    }

    fn prepare(&mut self) -> Result<(), Error> {
        let (matrix, reward) = self.engine.system();
        self.prepare_levels(&*matrix);
        (self.matrix, self.reward) = (Some(matrix), reward);
        Ok(())
    }

    fn load(&mut self, x: &mut Vec<f64>) -> Result<(), Error> {
        x.copy_from_slice(self.engine.current_values());
        Ok(())
    }

    fn store(&mut self, x: &Vec<f64>) -> Result<(), Error> {
        self.engine.set_values(x);
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stopped
    }

    fn apply(&mut self, x: &mut Vec<f64>, y: &mut Vec<f64>) -> Result<(), Error> {
        if let Some(matrix) = &self.matrix {
            self.engine.team().refresh(x)?;
            blocks(y, |first, y| {
                matrix.backup(first, x, y);
                for (y, x) in y.iter_mut().zip(&x[first..]) {
                    *y = x - *y;
                }
            });
            clear_ghosts(self.engine.team(), y);
        }
        Ok(())
    }

    fn precondition(&mut self, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<(), Error> {
        let Self { matrix: Some(matrix), finest, coarser, dense, .. } = self else { return Ok(()) };
        // Enter the thread pool once for the whole cycle; entering it takes longer than a coarse level.
        rayon::scope(|_| finest.cycle(&**matrix, coarser, dense.as_ref(), x, y));
        Ok(())
    }

    fn residual(&mut self, x: &mut Vec<f64>, y: &mut Vec<f64>) -> Result<f64, Error> {
        let Self { matrix: Some(matrix), reward, engine, .. } = self else { return Ok(f64::INFINITY) };
        engine.team().refresh(x)?;
        let own = engine.own();
        let norms = blocks(y, |first, y| {
            matrix.backup(first, x, y);
            let mut norm: f64 = 0.0;
            for (state, ((y, x), r)) in (first..).zip(y.iter_mut().zip(&x[first..]).zip(&reward[first..])) {
                *y = if own.contains(&state) { r + *y - x } else { 0.0 };
                norm = if y.is_nan() { f64::INFINITY } else { norm.max(y.abs()) };
            }
            norm
        });
        let mut numbers = [norms.into_iter().fold(0.0, f64::max), f64::from(interrupt::requested())];
        engine.team().max(&mut numbers)?;
        let [norm, stopped] = numbers;
        self.stopped = stopped > 0.0;
        Ok(norm)
    }

    fn dots(&mut self, x: &Vec<f64>, y: &Vec<f64>, z: &Vec<f64>) -> Result<(f64, f64), Error> {
        let blocks = x.par_chunks(BLOCK).zip(y.par_chunks(BLOCK)).zip(z.par_chunks(BLOCK));
        let blocks = blocks.with_min_len(SHARED / BLOCK).map(|((x, y), z)| (dot(x, y), dot(x, z)));
        // Add in block order, so that the result does not depend on the number of cores.
        let blocks: Vec<(f64, f64)> = blocks.collect();
        let (first, second) = blocks.into_iter().fold((0.0, 0.0), |sums, block| (sums.0 + block.0, sums.1 + block.1));
        // A request to stop travels with the sums.
        let mut sums = [first, second, f64::from(interrupt::requested())];
        self.engine.team().sum(&mut sums)?;
        let [first, second, stopped] = sums;
        self.stopped = stopped > 0.0;
        Ok((first, second))
    }

    fn combine(&mut self, a: f64, y: &mut Vec<f64>, b: f64, x: &Vec<f64>, c: f64, z: &Vec<f64>) -> Result<(), Error> {
        blocks(y, |first, y| {
            for ((y, x), z) in y.iter_mut().zip(&x[first..]).zip(&z[first..]) {
                let rest = b * x + c * z;
                *y = if a == 0.0 { rest } else { a * *y + rest };
            }
        });
        Ok(())
    }
}
