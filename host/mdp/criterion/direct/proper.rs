//! Expected totals of models in which every policy ends almost surely or loses without bound.
//!
//! # Mathematics
//! Howard's method finds a policy π that no row improves by more than rounding. Let V be its values and t its expected
//! steps. V − κt is a lower bound if each row of π has an advantage of at least −κ per step. Let w be the maximum
//! expected steps over rows as good as the best. V + κw is an upper bound if no row has an advantage above κ times its
//! fall of w. These are the conditions of [`proper`](super::super::proper) with more bits.

use super::chain::{TotalAndSteps, evaluate};
use super::model::Model;
use super::{Big, Halt, Work, size};

/// Bounds, and a policy whose values are at least `lower`.
pub(in crate::criterion) struct Bounds {
    pub lower: Vec<Big>,
    pub upper: Vec<Big>,
    pub rows: Vec<usize>,
}

/// The quantity to maximise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    Values,
    Steps,
}

/// Solves `model`, starting from `policy` if it ends almost surely.
///
/// # Errors
/// [`Halt::Coarse`] if the precision does not suffice; [`Halt::Spent`], [`Halt::Interrupted`].
pub(in crate::criterion) fn solve(model: &Model, policy: &[usize], work: &mut Work) -> Result<Bounds, Halt> {
    let numbers = model.numbers;
    let mut policy = policy.to_vec();
    let all = vec![true; model.rows.len()];
    let found = match improve(model, &all, Aim::Values, &mut policy, work) {
        Err(Halt::Improper) => {
            model.lead(&mut policy, &mut vec![false; model.states()]);
            improve(model, &all, Aim::Values, &mut policy, work).map_err(as_coarse)?
        }
        found => found?,
    };
    let TotalAndSteps { values, steps } = found;

    // The advantage of each row over the value of its state, and its error.
    work.spend(4 * model.entries(), numbers)?;
    let mut advantages = Vec::with_capacity(model.rows.len());
    for state in 0..model.states() {
        for row in model.rows_of(state) {
            let made = &model.rows[row];
            let (change, sizes) = made.change(state, &values);
            advantages.push((change + &made.reward, numbers.error(made.operations) * (sizes + &made.size)));
        }
    }
    // The maximum expected steps over near-optimal rows. All their policies must end, so the margin shrinks until they
    // do.
    let bits = numbers.bits as isize;
    let mut longest = None;
    for margin in [4, 5, 6].map(|share| numbers.power(bits - bits * share / 8)) {
        // The error of an advantage is proportional to its magnitudes, so it serves as the unit of the margin.
        let near: Vec<bool> = advantages.iter().map(|(advantage, error)| -advantage <= error * &margin).collect();
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

    // Lower bound of the fall of the steps `x` along a row.
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
            let (advantage, error) = &advantages[row];
            let most = advantage + error;
            if fallen > Big::ZERO && most > Big::ZERO {
                up = up.max(most / &fallen);
            }
            falls.push(fallen);
            if taken == row {
                let fallen = fall(row, state, &steps);
                if fallen <= Big::ZERO {
                    return Err(Halt::Coarse);
                }
                down = down.max((error - advantage) / fallen);
            }
        }
    }
    // Covers the rounding of the quotients.
    let margin = numbers.big(1.0 + 1.0 / 1024.0);
    (up, down) = (up * &margin, down * &margin);
    let fits = |(row, (advantage, error)): (usize, &(Big, Big))| {
        falls[row] > Big::ZERO || advantage + error - &margin * &up * &falls[row] <= Big::ZERO
    };
    if !advantages.iter().enumerate().all(fits) {
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

/// Reports an improper policy as a lack of precision: it is improper only because of rounding.
fn as_coarse(halt: Halt) -> Halt {
    if halt == Halt::Improper { Halt::Coarse } else { halt }
}

/// Howard's method: evaluates `policy` and switches to better `allowed` rows until there are none. Leaves the last
/// policy in `policy`.
fn improve(
    model: &Model,
    allowed: &[bool],
    aim: Aim,
    policy: &mut Vec<usize>,
    work: &mut Work,
) -> Result<TotalAndSteps, Halt> {
    /// Maximum number of policies.
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
                let (advantage, sizes) = match aim {
                    Aim::Values => (change + &made.reward, sizes + &made.size),
                    Aim::Steps => (change + &made.sum, sizes + &made.sum),
                };
                if advantage > &margin * sizes && advantage > best {
                    (best, next[state], changed) = (advantage, row, true);
                }
            }
        }
        if !changed {
            return Ok(found);
        }
        // A better policy ends, too. One that does not seems better only because of rounding.
        found = evaluate(&model.policy(&next), |_| false, numbers, work).map_err(as_coarse)?;
        *policy = next;
    }
    Err(Halt::Coarse)
}
