//! Verdicts on random models, against rational arithmetic and enumeration of all policies.

use dashu_ratio::RBig;
use warpkov_mdp::model::{Mdp, NO_ACTION, Objective};
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
            let counts = |s: usize| !goal[s];
            let costs = (0..states)
                .filter(|&s| counts(s))
                .flat_map(|s| mdp.choices().rows(s))
                .any(|row| mdp.objective().sign() * mdp.action_reward(row) < 0.0);
            let gains = (0..states)
                .filter(|&s| counts(s))
                .flat_map(|s| mdp.choices().rows(s))
                .any(|row| mdp.objective().sign() * mdp.action_reward(row) > 0.0);
            let maximize = mdp.objective() == Objective::Maximize;
            let missed = if gains || (!costs && maximize) { f64::INFINITY } else { f64::NEG_INFINITY };
            enumerate(mdp, |policy| Chain::new(mdp, policy, &goal).total(&goal, mdp.objective().sign() * missed))
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
