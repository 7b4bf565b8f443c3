//! Verdicts on random models, against rational arithmetic and enumeration of all policies.

use dashu_ratio::RBig;
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts, NO_ACTION, Objective};
use warpkov_verify::interval::Interval;
use warpkov_verify::mdp::{Claim, ExactSolution, Quantity, Verdict, solve_exactly, verify};
use warpkov_verify::rational::{Exact, WORK};

#[path = "../../../tests/support/rational.rs"]
#[allow(dead_code, reason = "a part of it")]
mod chains;

#[path = "support/models.rs"]
mod models;

use chains::{Chain, Value, enumerate, exact};
use models::{Random, Rewards, model, seeds};

fn value(exact: &Exact) -> Value {
    match exact {
        Exact::Finite(x) => Value::Finite(x.clone()),
        Exact::Infinite(x) => Value::Infinite(*x),
    }
}

fn set(mdp: &Mdp, goal: &[u32]) -> Vec<bool> {
    let mut set = vec![false; mdp.states() as usize + 1];
    goal.iter().for_each(|&state| set[state as usize] = true);
    set
}

/// What missing the goal is worth, to be maximised.
fn missed(mdp: &Mdp, goal: &[bool]) -> f64 {
    let has = |sign: f64| {
        let states = (0..mdp.states() as usize).filter(|&s| !goal[s]);
        states
            .flat_map(|s| mdp.choices().rows(s))
            .any(|row| sign * mdp.objective().sign() * mdp.action_reward(row) > 0.0)
    };
    let gains = has(1.0) || (!has(-1.0) && mdp.objective() == Objective::Maximize);
    if gains { f64::INFINITY } else { f64::NEG_INFINITY }
}

/// V* by enumeration of all policies.
fn by_enumeration(mdp: &Mdp, quantity: &Quantity) -> Vec<Value> {
    let states = mdp.states() as usize;
    let none = vec![false; states + 1];
    let mut found = match quantity {
        Quantity::Reach(goal) => {
            let goal = set(mdp, goal);
            enumerate(mdp, |policy| Chain::new(mdp, policy, &goal).reach(&goal))
        }
        Quantity::Total(Some(goal)) => {
            let goal = set(mdp, goal);
            let missed = mdp.objective().sign() * missed(mdp, &goal);
            enumerate(mdp, |policy| Chain::new(mdp, policy, &goal).total(&goal, missed))
        }
        Quantity::Total(None) => enumerate(mdp, |policy| Chain::new(mdp, policy, &none).cumulative()),
        Quantity::Average => enumerate(mdp, |policy| Chain::new(mdp, policy, &none).gain()),
        Quantity::Discounted | Quantity::Horizon(_) => unreachable!(),
    };
    found.truncate(states);
    found
}

/// Solutions are accepted, perturbed ones refuted, and the exact values are those of `truth`.
fn check(seed: u64, mdp: &Mdp, quantity: &Quantity, truth: Option<Vec<Value>>) -> bool {
    let states = mdp.states() as usize;
    let solved = solve_exactly(mdp, quantity, &vec![0.0; states], None, WORK);
    let ExactSolution { values, policy } = match solved {
        Ok(solved) => solved,
        Err(error) => {
            assert!(error.to_string().contains("undefined"), "seed {seed}: {error}");
            return false;
        }
    };
    if let Some(truth) = truth {
        let found: Vec<Value> = values.iter().map(value).collect();
        assert!(found == truth, "seed {seed}, {quantity:?}: {values:?}, expected {truth:?}");
    }
    let near: Vec<f64> = values.iter().map(Exact::nearest).collect();
    let scale = near.iter().filter(|x| x.is_finite()).fold(0.0_f64, |most, x| most.max(x.abs()));
    let epsilon = 1e-6 * if scale > 0.0 { scale } else { 1.0 };
    let claim = Claim { epsilon, loss: 2.0 * epsilon, visits: 20_000_000, work: WORK };
    let infinite = values.iter().any(|value| matches!(value, Exact::Infinite(_)));
    let given = (!infinite).then_some(&policy[..]);
    let found = verify(mdp, quantity, &near, given, &claim).unwrap();
    assert_eq!(found.verdict(), Verdict::Proved, "seed {seed}, {quantity:?}: {found:?} {values:?} {policy:?}");
    for (bounds, exact) in found.optimal.iter().zip(&values) {
        assert!(value(exact).is_within(bounds.lo, bounds.hi), "seed {seed}, {quantity:?}: {bounds:?} {exact}");
    }
    // Intervals alone contain the values, too.
    let found = verify(mdp, quantity, &near, None, &Claim { work: 0, visits: 1_000_000, ..claim }).unwrap();
    assert_ne!(found.verdict(), Verdict::Refuted, "seed {seed}, {quantity:?}");
    for (bounds, exact) in found.optimal.iter().zip(&values) {
        assert!(value(exact).is_within(bounds.lo, bounds.hi), "seed {seed}, {quantity:?}: {bounds:?} {exact}");
    }
    let Some(state) = near.iter().position(|x| x.is_finite()) else { return true };
    for change in [2.0, -2.0] {
        let mut wrong = near.clone();
        wrong[state] += change * epsilon;
        let found = verify(mdp, quantity, &wrong, None, &claim).unwrap();
        assert_eq!(found.verdict(), Verdict::Refuted, "seed {seed}, {quantity:?}");
        wrong[state] = near[state] + change * 0.45 * epsilon;
        let found = verify(mdp, quantity, &wrong, None, &claim).unwrap();
        assert_eq!(found.verdict(), Verdict::Proved, "seed {seed}, {quantity:?}");
    }
    true
}

/// The discounted values of a policy, with rows as they are.
fn discounted(mdp: &Mdp, policy: &[u32]) -> Vec<RBig> {
    let n = mdp.states() as usize;
    let gamma = exact(mdp.gamma());
    let mut a: Vec<Vec<RBig>> = (0..n)
        .map(|s| {
            let mut row: Vec<RBig> = (0..=n).map(|j| if j == s { RBig::ONE } else { RBig::ZERO }).collect();
            if policy[s] != NO_ACTION {
                let of = mdp.choices().first(s) + policy[s] as usize;
                let (cols, probs) = mdp.transitions().row(of);
                cols.iter().zip(probs).for_each(|(&col, &p)| row[col as usize] -= &gamma * exact(p));
                row[n] = exact(mdp.action_reward(of));
            }
            row
        })
        .collect();
    for k in 0..n {
        let pivot = (k..n).find(|&i| a[i][k] != RBig::ZERO).unwrap();
        a.swap(k, pivot);
        let pivot = a[k].clone();
        for (i, row) in a.iter_mut().enumerate().filter(|(i, _)| *i != k) {
            let factor = &row[k] / &pivot[k];
            let _ = i;
            row.iter_mut().zip(&pivot).for_each(|(entry, pivot)| *entry -= &factor * pivot);
        }
    }
    (0..n).map(|k| &a[k][n] / &a[k][k]).collect()
}

#[test]
fn discounted_solutions() {
    for seed in seeds(150) {
        let mdp = model(&mut Random(seed), Rewards::Both);
        let truth = enumerate(&mdp, |policy| discounted(&mdp, policy).into_iter().map(Value::Finite).collect());
        assert!(check(seed, &mdp, &Quantity::Discounted, Some(truth)));
    }
}

#[test]
fn probabilities_of_reaching_a_goal() {
    for seed in seeds(150) {
        let mut random = Random(seed);
        let mdp = model(&mut random, Rewards::Both);
        let goal: Vec<u32> = (0..mdp.states()).filter(|_| random.below(4) == 0).collect();
        let quantity = Quantity::Reach(goal);
        let truth = by_enumeration(&mdp, &quantity);
        assert!(check(seed, &mdp, &quantity, Some(truth)));
    }
}

#[test]
fn total_rewards() {
    let mut defined = 0;
    for seed in seeds(150) {
        let mut random = Random(seed);
        let rewards = [Rewards::Gains, Rewards::Costs, Rewards::Both][random.below(3) as usize];
        let mdp = model(&mut random, rewards);
        let goal: Vec<u32> = (0..mdp.states()).filter(|_| random.below(3) == 0).collect();
        let quantity = Quantity::Total((random.below(2) == 0).then_some(goal));
        let truth = (rewards != Rewards::Both).then(|| by_enumeration(&mdp, &quantity));
        defined += usize::from(check(seed, &mdp, &quantity, truth));
    }
    assert!(defined * 2 > seeds(150).count(), "{defined}");
}

#[test]
fn average_rewards() {
    for seed in seeds(150) {
        let mdp = model(&mut Random(seed), Rewards::Both);
        let truth = by_enumeration(&mdp, &Quantity::Average);
        assert!(check(seed, &mdp, &Quantity::Average, Some(truth)));
    }
}

#[test]
fn finite_horizons() {
    for seed in seeds(150) {
        let mut random = Random(seed);
        let mdp = model(&mut random, Rewards::Both);
        assert!(check(seed, &mdp, &Quantity::Horizon(random.below(7) as u32), None));
    }
}

/// V^π of any policy, by solving its equations.
fn by_policy(mdp: &Mdp, quantity: &Quantity, policy: &[u32]) -> Vec<Value> {
    let states = mdp.states() as usize;
    let none = vec![false; states + 1];
    let sign = mdp.objective().sign();
    let mut found = match quantity {
        Quantity::Discounted => discounted(mdp, policy).into_iter().map(Value::Finite).collect(),
        Quantity::Reach(goal) => {
            let goal = set(mdp, goal);
            Chain::new(mdp, policy, &goal).reach(&goal)
        }
        Quantity::Total(Some(goal)) => {
            let goal = set(mdp, goal);
            Chain::new(mdp, policy, &goal).total(&goal, sign * missed(mdp, &goal))
        }
        Quantity::Total(None) => Chain::new(mdp, policy, &none).cumulative(),
        Quantity::Average => Chain::new(mdp, policy, &none).gain(),
        Quantity::Horizon(_) => unreachable!(),
    };
    found.truncate(states);
    found
}

/// The largest loss of a state, to be maximised; infinite where a value is.
fn largest_loss(best: &[Value], own: &[Value], sign: f64) -> Value {
    let of_state = |(best, own): (&Value, &Value)| match (best, own) {
        (Value::Finite(best), Value::Finite(own)) => Value::Finite((best - own) * exact(sign)),
        (best, own) if best == own => Value::Finite(RBig::ZERO),
        _ => Value::Infinite(f64::INFINITY),
    };
    let losses = best.iter().zip(own).map(of_state);
    losses.fold(Value::Finite(RBig::ZERO), |most, x| most.best(x, Objective::Maximize))
}

/// Claims below the exact loss of a random policy are refuted, others are not. Returns what intervals alone refute of the
/// former: nothing where the loss is 0.
fn check_loss(seed: u64, mdp: &Mdp, quantity: &Quantity, random: &mut Random) -> Option<bool> {
    let states = mdp.states() as usize;
    let solved = solve_exactly(mdp, quantity, &vec![0.0; states], None, WORK).ok()?;
    let near: Vec<f64> = solved.values.iter().map(Exact::nearest).collect();
    let best: Vec<Value> = solved.values.iter().map(value).collect();
    let action = |state| match mdp.choices().count(state) as u64 {
        0 => NO_ACTION,
        actions => random.below(actions) as u32,
    };
    let policy: Vec<u32> = (0..states).map(action).collect();
    let own = by_policy(mdp, quantity, &policy);
    let lost = largest_loss(&best, &own, mdp.objective().sign());
    let claim = Claim { epsilon: 1.0, visits: 2_000_000, ..Claim::default() };
    let verdict = |loss: f64, work: u64| {
        let found = verify(mdp, quantity, &near, Some(&policy), &Claim { loss, work, ..claim }).unwrap();
        let found = found.policy.unwrap();
        assert!(lost.is_within(found.lower, found.upper), "seed {seed}, {quantity:?}: {found:?}, exactly {lost:?}");
        found.verdict
    };
    // The neighbours of the loss.
    let loss = match &lost {
        Value::Finite(x) => Exact::Finite(x.clone()).enclosure(),
        Value::Infinite(_) => Interval::new(f64::MAX, f64::INFINITY),
    };
    for claimed in [loss.hi, 2.0 * loss.hi] {
        assert_eq!(verdict(claimed, WORK), Verdict::Proved, "seed {seed}, {quantity:?}: {lost:?}");
        assert_ne!(verdict(claimed, 0), Verdict::Refuted, "seed {seed}, {quantity:?}: {lost:?}");
    }
    if loss.hi == 0.0 {
        return None;
    }
    for claimed in [loss.lo.next_down(), loss.lo * (1.0 - 1e-6)] {
        assert_eq!(verdict(claimed, WORK), Verdict::Refuted, "seed {seed}, {quantity:?}: {lost:?}, {policy:?}");
    }
    Some(verdict(loss.lo * 0.9, 0) == Verdict::Refuted)
}

#[test]
fn losses_that_are_larger_than_claimed_are_refuted() {
    let (mut wrong, mut refuted) = (0, 0);
    for seed in seeds(150) {
        let mut random = Random(seed);
        let rewards = [Rewards::Gains, Rewards::Costs, Rewards::Both][random.below(3) as usize];
        let mdp = model(&mut random, rewards);
        let goal: Vec<u32> = (0..mdp.states()).filter(|_| random.below(3) == 0).collect();
        let total = Quantity::Total((random.below(2) == 0).then(|| goal.clone()));
        for quantity in [Quantity::Discounted, Quantity::Reach(goal.clone()), total, Quantity::Average] {
            let by_intervals = check_loss(seed, &mdp, &quantity, &mut random);
            wrong += usize::from(by_intervals.is_some());
            refuted += usize::from(by_intervals == Some(true));
        }
    }
    eprintln!("of {wrong} claims that are 10 % too small, intervals alone refute {refuted}");
    assert!(wrong >= seeds(150).count() && refuted * 10 >= 9 * wrong, "{refuted} of {wrong}");
}

/// A policy that waits for ever misses the goal, which is worth −∞ where other actions have costs, although waiting is free.
#[test]
fn missing_the_goal_is_worth_what_the_model_says() {
    for (objective, reward, waiting) in [(Objective::Maximize, -1.0, false), (Objective::Minimize, -1.0, true)] {
        let transitions = Csr::new(vec![0, 1, 2, 3], vec![0, 1, 1], vec![1.0; 3]).unwrap();
        let parts = MdpParts {
            states: 2,
            choices: Choices::Ragged(vec![0, 2, 3].into()),
            gamma: 1.0,
            objective,
            transitions,
            action_rewards: vec![0.0, reward, 0.0].into(),
            ..MdpParts::default()
        };
        let mdp = parts.validated().unwrap();
        let goal = Quantity::Total(Some(vec![1]));
        let optimal = solve_exactly(&mdp, &goal, &[0.0; 2], None, WORK).unwrap();
        let near: Vec<f64> = optimal.values.iter().map(Exact::nearest).collect();
        for work in [WORK, 0] {
            let found = verify(&mdp, &goal, &near, Some(&[0, 0]), &Claim { work, ..Claim::default() }).unwrap();
            // A gain for ever, when minimising: −∞ is the best.
            let expected = if waiting { Verdict::Proved } else { Verdict::Refuted };
            assert_eq!(found.policy.unwrap().verdict, expected, "{objective:?}: {found:?}");
        }
    }
}

/// V_t of each step, and of a plan, in rational arithmetic, to be maximised, last step first. Rows are taken as they are.
fn backward(mdp: &Mdp, steps: usize, plan: Option<&[u32]>) -> Vec<Vec<RBig>> {
    let states = mdp.states() as usize;
    let mut all = vec![vec![RBig::ZERO; states]];
    for step in (0..steps).rev() {
        let after = &all[0];
        let q = |row: usize| {
            let (to, probs) = mdp.transitions().row(row);
            let next = to.iter().zip(probs).fold(RBig::ZERO, |sum, (&to, &p)| sum + exact(p) * &after[to as usize]);
            exact(mdp.objective().sign() * mdp.action_reward(row)) + exact(mdp.gamma()) * next
        };
        let of_state = |state: usize| {
            let rows = mdp.choices().rows(state);
            let taken = |row: &usize| plan.is_none_or(|plan| plan[step * states + state] as usize == row - rows.start);
            rows.clone().filter(taken).map(q).max().unwrap_or(RBig::ZERO)
        };
        let new = (0..states).map(of_state).collect();
        all.insert(0, new);
    }
    all
}

#[test]
fn losses_of_plans_are_refuted() {
    let mut refuted = 0;
    for seed in seeds(150) {
        let mut random = Random(seed);
        let mdp = model(&mut random, Rewards::Both);
        let steps = 2 + random.below(5) as usize;
        let mut action = |state: usize| match mdp.choices().count(state) as u64 {
            0 => NO_ACTION,
            actions => random.below(actions) as u32,
        };
        let plan: Vec<u32> = (0..steps * mdp.states() as usize).map(|at| action(at % mdp.states() as usize)).collect();
        let (best, own) = (backward(&mdp, steps, None), backward(&mdp, steps, Some(&plan)));
        let lost = best.iter().flatten().zip(own.iter().flatten()).map(|(best, own)| best - own).max().unwrap();
        let near = |x: &RBig| mdp.objective().sign() * Exact::Finite(x.clone()).nearest();
        let values: Vec<f64> = best[..steps].iter().flatten().map(near).collect();
        let loss = Exact::Finite(lost.clone()).enclosure();
        let verdict = |loss: f64| {
            let claim = Claim { loss, epsilon: 1.0, ..Claim::default() };
            let found = verify(&mdp, &Quantity::Horizon(steps as u32), &values, Some(&plan), &claim).unwrap();
            let found = found.policy.unwrap();
            assert!(Value::Finite(lost.clone()).is_within(found.lower, found.upper), "seed {seed}: {found:?}, {lost}");
            found.verdict
        };
        assert_ne!(verdict(loss.hi), Verdict::Refuted, "seed {seed}");
        let scale = values.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        if loss.lo > 1e-9 * scale {
            assert_eq!(verdict(loss.lo * (1.0 - 1e-6)), Verdict::Refuted, "seed {seed}: {lost}");
            refuted += 1;
        }
    }
    assert!(refuted * 2 > seeds(150).count(), "{refuted}");
}
