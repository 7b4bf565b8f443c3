//! Expected totals of models all of whose policies end, or lose without bound.
//!
//! # Mathematics
//! Howard's method finds a policy π that no row improves on by more than rounding. With its values V and its steps t, V − κt
//! is a lower bound if its own rows gain −κ or more in a step. With w the most steps that rows as good as the best take, V +
//! κw is an upper bound if no row gains more than it takes: the bounds are those of [`proper`](super::super::proper), in
//! more bits.

use super::chain::{Evaluation, evaluate};
use super::model::Model;
use super::{Big, Halt, Work, size};

/// Bounds, and a policy whose values are not below the lower one.
pub(in crate::mdp::criterion) struct Bounds {
    pub lower: Vec<Big>,
    pub upper: Vec<Big>,
    pub rows: Vec<usize>,
}

/// What is to be made as large as can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    Values,
    Steps,
}

/// Solves `model`, from `policy` if it ends.
///
/// # Errors
/// [`Halt::Coarse`] where more bits are needed.
pub(in crate::mdp::criterion) fn solve(model: &Model, policy: &[usize], work: &mut Work) -> Result<Bounds, Halt> {
    let numbers = model.numbers;
    let mut policy = policy.to_vec();
    let all = vec![true; model.rows.len()];
    let found = match improve(model, &all, Aim::Values, &mut policy, work) {
        Err(Halt::Improper) => {
            model.lead(&mut policy, &mut vec![false; model.states()]);
            improve(model, &all, Aim::Values, &mut policy, work).map_err(coarse)?
        }
        found => found?,
    };
    let Evaluation { values, steps } = found;

    // What a row gains over the value of its state, what it could be off by, and what it takes of the steps.
    work.spend(4 * model.entries(), numbers)?;
    let mut gains = Vec::with_capacity(model.rows.len());
    for state in 0..model.states() {
        for row in model.rows_of(state) {
            let made = &model.rows[row];
            let (change, sizes) = made.change(state, &values);
            gains.push((change + &made.reward, numbers.error(made.operations) * (sizes + &made.size)));
        }
    }
    // The most steps that rows take which lack next to nothing: of these all must end, so that less and less may lack.
    let bits = numbers.bits as isize;
    let mut longest = None;
    for margin in [4, 5, 6].map(|share| numbers.power(bits - bits * share / 8)) {
        // What a gain could be off by is proportional to the magnitudes behind it.
        let near: Vec<bool> = gains.iter().map(|(gain, error)| -gain <= error * &margin).collect();
        if !policy.iter().all(|&row| near[row]) {
            break;
        }
        match improve(model, &near, Aim::Steps, &mut policy.clone(), work) {
            Ok(found) => {
                longest = Some(found.steps);
                break;
            }
            Err(Halt::Improper | Halt::Coarse) => {}
            Err(halt) => return Err(halt),
        }
    }
    let longest = longest.ok_or(Halt::Coarse)?;

    // What a row takes of these steps, at least.
    let fall = |row: usize, state: usize, x: &[Big]| {
        let made = &model.rows[row];
        let (change, sizes) = made.change(state, x);
        -change - numbers.error(made.operations) * sizes
    };
    work.spend(4 * model.entries(), numbers)?;
    let (mut up, mut down) = (Big::ZERO, Big::ZERO);
    let mut falls = Vec::with_capacity(model.rows.len());
    for (state, &taken) in policy.iter().enumerate().take(model.states()) {
        for row in model.rows_of(state) {
            let fallen = fall(row, state, &longest);
            let (gain, error) = &gains[row];
            let most = gain + error;
            if fallen > Big::ZERO && most > Big::ZERO {
                up = up.max(most / &fallen);
            }
            falls.push(fallen);
            if taken == row {
                let fallen = fall(row, state, &steps);
                if fallen <= Big::ZERO {
                    return Err(Halt::Coarse);
                }
                down = down.max((error - gain) / fallen);
            }
        }
    }
    // Quotients of rounded numbers.
    let margin = numbers.of(1.0 + 1.0 / 1024.0);
    (up, down) = (up * &margin, down * &margin);
    let fits = |(row, (gain, error)): (usize, &(Big, Big))| {
        falls[row] > Big::ZERO || gain + error - &margin * &up * &falls[row] <= Big::ZERO
    };
    if !gains.iter().enumerate().all(fits) {
        return Err(Halt::Coarse);
    }
    let round = numbers.error(4);
    let bound = |v: &Big, kappa: &Big, w: &Big| {
        let width = kappa * w * &margin;
        width + &round * size(v)
    };
    let lower = values.iter().zip(&steps).map(|(v, t)| v - bound(v, &down, t)).collect();
    let upper = values.iter().zip(&longest).map(|(v, w)| v + bound(v, &up, w)).collect();
    Ok(Bounds { lower, upper, rows: policy })
}

/// What ends no longer only because numbers are rounded.
fn coarse(halt: Halt) -> Halt {
    if halt == Halt::Improper { Halt::Coarse } else { halt }
}

/// Howard's method: evaluates `policy`, and takes better rows of those `allowed` until there are none. `policy` is the last.
fn improve(
    model: &Model,
    allowed: &[bool],
    aim: Aim,
    policy: &mut Vec<usize>,
    work: &mut Work,
) -> Result<Evaluation, Halt> {
    /// Policies at most.
    const POLICIES: usize = 1000;
    let numbers = model.numbers;
    let margin = numbers.power(-(numbers.bits as isize) * 3 / 4);
    let mut found = evaluate(&model.policy(policy), |_| false, numbers, work)?;
    for _ in 0..POLICIES {
        work.spend(2 * model.entries(), numbers)?;
        let x = if aim == Aim::Values { &found.values } else { &found.steps };
        let mut changed = false;
        let mut next = policy.clone();
        for state in 0..model.states() {
            let mut best = Big::ZERO;
            for row in model.rows_of(state).filter(|&row| allowed[row] && row != policy[state]) {
                let made = &model.rows[row];
                let (change, sizes) = made.change(state, x);
                let (gain, sizes) = match aim {
                    Aim::Values => (change + &made.reward, sizes + &made.size),
                    Aim::Steps => (change + &made.sum, sizes + &made.sum),
                };
                if gain > &margin * sizes && gain > best {
                    (best, next[state], changed) = (gain, row, true);
                }
            }
        }
        if !changed {
            return Ok(found);
        }
        // A better policy ends, too; what does not is better by rounding errors only.
        found = evaluate(&model.policy(&next), |_| false, numbers, work).map_err(coarse)?;
        *policy = next;
    }
    Err(Halt::Coarse)
}
