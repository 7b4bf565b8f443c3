//! The gain of an end component: the maximum expected reward per step in the long run.
//!
//! # Mathematics
//! A policy with one recurrent class has the same gain g in every state. Choose a reference state in that class and end
//! the process there. Let V be the expected rewards and t the expected steps until then. Then g is the ratio of the
//! expected reward to the expected length of a cycle from the reference state, and h = V − g·t is the bias. Rows whose
//! advantage r + Ph − g − h is positive improve the policy. If the new policy has several classes, the best of them is
//! better than the previous policy. All other states can be led to it, because an end component is strongly connected.
//!
//! For every h, min maxₐ (r + Ph − h) ≤ g* ≤ max maxₐ (r + Ph − h). The last h proves the bounds, however it was found
//! (Odoni 1969; Puterman, *Markov Decision Processes*, 1994, 8.5.3).

use super::chain::evaluate;
use super::model::Model;
use super::{Big, Halt, Work};
use crate::analysis::graph::strongly_connected;

/// Bounds of a gain.
pub(in crate::criterion) struct Gain {
    pub lower: Big,
    pub upper: Big,
    /// A policy whose gain is at least `lower`, one row per state.
    pub rows: Vec<usize>,
    pub bias: Vec<Big>,
}

/// Maximum number of policies.
const POLICIES: usize = 1000;

/// Finds the gain of `model`, starting from `policy`. The model must be strongly connected and never end.
///
/// # Errors
/// [`Halt::Coarse`] if the precision does not suffice; [`Halt::Spent`], [`Halt::Interrupted`].
pub(in crate::criterion) fn solve(model: &Model, policy: &[usize], work: &mut Work) -> Result<Gain, Halt> {
    let numbers = model.numbers;
    let margin = numbers.power(-(numbers.bits as isize) * 3 / 4);
    let mut policy = policy.to_vec();
    let mut reference = None;
    for _ in 0..POLICIES {
        let (gain, bias) = keep_best_class(model, &mut policy, &mut reference, work)?;
        work.spend(4 * model.entries(), numbers)?;
        // The advantage of each row over g, and its error.
        let (mut lower, mut upper) = (None, None);
        let mut changed = false;
        let mut next = policy.clone();
        for state in 0..model.states() {
            let (mut best, mut low) = (Big::ZERO, None);
            for row in model.rows_of(state) {
                let made = &model.rows[row];
                let (change, sizes) = made.change(state, &bias);
                let paid = &gain * &made.sum;
                let sizes = sizes + &made.size + super::size(&paid);
                let over = change + &made.reward - paid;
                let error = numbers.error(made.operations) * &sizes;
                if row != policy[state] && over > &margin * &sizes && over > best {
                    (best, next[state], changed) = (over.clone(), row, true);
                }
                let (least, most) = ((&over - &error) / &made.sum, (over + error) / &made.sum);
                low = Some(low.map_or(least.clone(), |low: Big| low.max(least)));
                upper = Some(upper.map_or(most.clone(), |upper: Big| upper.max(most)));
            }
            if let Some(low) = low {
                lower = Some(lower.map_or(low.clone(), |lower: Big| lower.min(low)));
            }
        }
        if !changed {
            let (Some(lower), Some(upper)) = (lower, upper) else { return Err(Halt::Coarse) };
            // Covers the rounding of a quotient and a sum.
            let round = |x: &Big| numbers.error(4) * (super::size(x) + super::size(&gain));
            let (lower, upper) = (&gain + &lower - round(&lower), &gain + &upper + round(&upper));
            return Ok(Gain { lower, upper, rows: policy, bias });
        }
        policy = next;
    }
    Err(Halt::Coarse)
}

/// Changes `policy` so that its best recurrent class is its only one, and returns its gain and bias. The class that
/// contains `reference` counts as best unless another is better by more than rounding. Sets `reference` to a state of
/// the best class.
fn keep_best_class(
    model: &Model,
    policy: &mut [usize],
    reference: &mut Option<usize>,
    work: &mut Work,
) -> Result<(Big, Vec<Big>), Halt> {
    let numbers = model.numbers;
    let sizes = model.rows.iter().map(|row| &row.size / &row.sum);
    let margin = numbers.power(-(numbers.bits as isize) * 3 / 4) * sizes.fold(Big::ZERO, Big::max);
    loop {
        let classes = recurrent_classes(model, policy);
        let stops: Vec<usize> = classes
            .iter()
            .map(|class| match *reference {
                Some(state) if class.contains(&state) => state,
                _ => class[0],
            })
            .collect();
        let mut is_stop = vec![false; model.states()];
        stops.iter().for_each(|&state| is_stop[state] = true);
        let found = evaluate(&model.policy(policy), |state| is_stop[state], numbers, work)?;
        let gain_of = |stop: usize| {
            let row = &model.rows[policy[stop]];
            let round = |first: &Big, x: &[Big]| {
                row.to.iter().fold(first.clone(), |sum, (next, p)| sum + p * &x[*next as usize])
            };
            round(&row.reward, &found.values) / round(&row.sum, &found.steps)
        };
        // Start from the class of `reference`; another must be better by more than rounding.
        let first = reference.and_then(|state| stops.iter().position(|&stop| stop == state)).unwrap_or(0);
        let Some(&stop) = stops.get(first) else { return Err(Halt::Coarse) };
        let (mut best, mut gain) = (first, gain_of(stop));
        for (class, &stop) in stops.iter().enumerate() {
            let other = gain_of(stop);
            if other > &gain + &margin {
                (best, gain) = (class, other);
            }
        }
        *reference = Some(stops[best]);
        if classes.len() == 1 {
            let bias = found.values.iter().zip(&found.steps).map(|(v, t)| v - &gain * t).collect();
            return Ok((gain, bias));
        }
        // Redirect the states from which the process may reach another class.
        work.spend(2 * model.entries(), numbers)?;
        let mut there = surely_reach(model, policy, &classes[best]);
        model.lead(policy, &mut there);
    }
}

/// The recurrent classes of a policy.
fn recurrent_classes(model: &Model, policy: &[usize]) -> Vec<Vec<usize>> {
    let next = |state: usize, cursor: &mut usize| {
        let (next, _) = model.rows[policy[state]].to.get(*cursor)?;
        *cursor += 1;
        Some(*next as usize)
    };
    let (count, of_state) = strongly_connected(model.states(), 0..model.states(), next);
    let mut classes = vec![Vec::new(); count as usize];
    (0..model.states()).for_each(|state| classes[of_state[state] as usize].push(state));
    let leaves =
        |state: usize| model.rows[policy[state]].to.iter().any(|(next, _)| of_state[*next as usize] != of_state[state]);
    classes.retain(|class| !class.iter().any(|&state| leaves(state)));
    classes
}

/// The states from which the policy surely reaches `class`, which must be recurrent.
fn surely_reach(model: &Model, policy: &[usize], class: &[usize]) -> Vec<bool> {
    let mut before = vec![Vec::new(); model.states()];
    for (state, &row) in policy.iter().enumerate() {
        model.rows[row].to.iter().for_each(|(next, _)| before[*next as usize].push(state));
    }
    let back = |mut queue: Vec<usize>, mut seen: Vec<bool>| {
        while let Some(state) = queue.pop() {
            for &earlier in &before[state] {
                if !std::mem::replace(&mut seen[earlier], true) {
                    queue.push(earlier);
                }
            }
        }
        seen
    };
    let mut inside = vec![false; model.states()];
    class.iter().for_each(|&state| inside[state] = true);
    let may = back(class.to_vec(), inside);
    let astray: Vec<usize> = (0..model.states()).filter(|&state| !may[state]).collect();
    let mut seen = vec![false; model.states()];
    astray.iter().for_each(|&state| seen[state] = true);
    back(astray, seen).into_iter().map(|astray| !astray).collect()
}
