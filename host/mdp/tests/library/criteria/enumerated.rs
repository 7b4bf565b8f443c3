//! Random models against the exact values of all their policies, and relative errors where values cancel.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov_mdp::criterion::{Criterion, Options};
use warpkov_mdp::model::{Mdp, Objective};
use warpkov_mdp::solution::Status;

use crate::rational::{Chain, Value, enumerate};

use super::common::{Row, model, run};

/// A random model of 2 to 4 states with up to 3 actions; some states are terminal, and some rows end the process.
fn random(rng: &mut ChaCha8Rng, reward: impl Fn(u32) -> f64) -> Vec<Vec<Row>> {
    let below = |rng: &mut ChaCha8Rng, n: u32| rng.next_u32() % n;
    let n = 2 + below(rng, 3);
    let state = |rng: &mut ChaCha8Rng| {
        let actions = if below(rng, 10) == 0 { 0 } else { 1 + below(rng, 3) };
        let row = |rng: &mut ChaCha8Rng| {
            let mut weights = vec![0_u32; n as usize + 1];
            let successors = 1 + below(rng, 3);
            for _ in 0..successors {
                let end = below(rng, 20) == 0;
                let next = if end { n } else { below(rng, n) };
                weights[next as usize] += 1 + below(rng, 9);
            }
            let sum: u32 = weights.iter().sum();
            let successors = (0..n).zip(&weights).filter(|(_, w)| **w > 0);
            let successors = successors.map(|(s, &w)| (s, f64::from(w) / f64::from(sum))).collect();
            (successors, reward(below(rng, 4)))
        };
        (0..actions).map(|_| row(rng)).collect()
    };
    (0..n).map(|_| state(rng)).collect()
}

/// Checks the bounds against the values of all policies, and the returned policy's own value.
fn compare(mdp: &Mdp, criterion: &Criterion, value: impl Fn(&[u32]) -> Vec<Value>, case: u64) {
    let best = enumerate(mdp, &value);
    for (epsilon, relative) in [(1e-7, false), (1e-6, true)] {
        let found = run(mdp, criterion, &Options { epsilon, relative, ..Options::default() }).unwrap();
        let attained = value(&found.policy);
        let name = format!("case {case}, {criterion:?}, {:?}, relative {relative}", mdp.objective());
        assert_eq!(found.status, Status::Solved, "{name}");
        for s in 0..mdp.states() as usize {
            let (lower, upper, middle) = (found.lower[s], found.upper[s], found.values()[s]);
            assert!(best[s].is_within(lower, upper), "{name}: {:?} not in [{lower}, {upper}]", best[s]);
            let (absolute, relative) = if relative { (0.0, epsilon) } else { (epsilon, 0.0) };
            assert!(best[s].is_near(middle, absolute, relative), "{name}, state {s}: {middle}, not {:?}", best[s]);
            assert!(
                attained[s].is_near(middle, 2.0 * absolute, 4.0 * relative),
                "{name}, state {s}: the policy {:?} is worth {:?}, not {middle}",
                found.policy,
                attained[s]
            );
        }
    }
}

#[test]
fn random_models_agree_with_enumeration() {
    for case in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        for objective in [Objective::Maximize, Objective::Minimize] {
            // Rewards of both signs, many of them 0.
            let sign = if rng.next_u32().is_multiple_of(2) { 1.0 } else { -1.0 };
            let states = random(&mut rng, |kind| sign * [0.0, 0.0, 1.0, 2.5][kind as usize]);
            if states.iter().all(Vec::is_empty) {
                continue;
            }
            let mdp = model(objective, &states);
            let n = states.len();
            let rewards = mdp.expected_rewards();
            let last = n as u32 - 1;
            let goal: Vec<bool> = (0..=n).map(|s| s == n - 1).collect();
            let none = vec![false; n + 1];

            let reach = |policy: &[u32]| Chain::new(&mdp, policy, &goal).reach(&goal);
            compare(&mdp, &Criterion::Reach { goal: vec![last] }, reach, case);
            // A path that misses the goal earns or pays forever.
            let idle = (0..rewards.len()).all(|row| rewards[row] == 0.0 || mdp.choices().state_of(row) == n - 1);
            let missed = if idle { f64::INFINITY } else { f64::INFINITY.copysign(sign) };
            let total = |policy: &[u32]| Chain::new(&mdp, policy, &goal).total(&goal, missed);
            compare(&mdp, &Criterion::TotalReward { goal: Some(vec![last]) }, total, case);
            let cumulative = |policy: &[u32]| Chain::new(&mdp, policy, &none).cumulative();
            compare(&mdp, &Criterion::TotalReward { goal: None }, cumulative, case);
            let gain = |policy: &[u32]| Chain::new(&mdp, policy, &none).gain();
            compare(&mdp, &Criterion::Average, gain, case);
        }
    }
}

/// A random number of many possible magnitudes and both signs.
fn wide(rng: &mut ChaCha8Rng) -> f64 {
    let sign = if rng.next_u32().is_multiple_of(2) { 1.0 } else { -1.0 };
    let exponent = f64::from(rng.next_u32() % 1300) / 100.0 - 6.0;
    sign * 10_f64.powf(exponent)
}

/// A probability in (0, 1).
fn chance(rng: &mut ChaCha8Rng) -> f64 {
    f64::from(1 + rng.next_u32() % 999) / 1000.0
}

/// Two recurrent components of two states each, and two states that lead to them. Their gains cancel, exactly or to a
/// relative 10⁻³ to 10⁻¹³. An error relative to the values is not relative to the gains.
#[test]
fn relative_errors_hold_if_gains_cancel() {
    let epsilon = 1e-6;
    for case in 0..240 {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        let (q, scale) = (chance(&mut rng), wide(&mut rng));
        let off = match rng.next_u32() % 3 {
            0 => 0.0,
            _ => 10_f64.powi(-3 - (rng.next_u32() % 11) as i32),
        };
        // A component of the states i and i + 1 with a gain of about `gain`.
        let component = |rng: &mut ChaCha8Rng, i: u32, gain: f64| {
            let (a, b) = (chance(rng), chance(rng));
            // The stationary distribution is (b, a) / (a + b).
            let spread = gain * chance(rng);
            let rewards = [gain + spread * a, gain - spread * b];
            let row = |p: f64, own: u32, other: u32, reward: f64| {
                let mut successors = vec![(own, 1.0 - p), (other, p)];
                successors.sort_by_key(|entry| entry.0);
                (successors, reward)
            };
            let mut states = vec![vec![row(a, i, i + 1, rewards[0])], vec![row(b, i + 1, i, rewards[1])]];
            if rng.next_u32().is_multiple_of(2) {
                // A worse action that stays in the component.
                states[0].push((vec![(i, 1.0)], gain - gain.abs() / 2.0));
            }
            states
        };
        let mut states = vec![vec![(vec![(2, q), (4, 1.0 - q)], 0.0)], vec![(vec![(0, 0.5), (1, 0.5)], 0.0)]];
        states.extend(component(&mut rng, 2, scale));
        states.extend(component(&mut rng, 4, -scale * q / (1.0 - q) * (1.0 + off)));
        let mdp = model(Objective::Maximize, &states);
        let none = vec![false; states.len() + 1];
        let best = enumerate(&mdp, |policy| Chain::new(&mdp, policy, &none).gain());
        let options = Options { epsilon, relative: true, ..Options::default() };
        let found = run(&mdp, &Criterion::Average, &options).unwrap();
        assert_eq!(found.status, Status::Solved, "case {case}: {:?} to {:?}", found.lower, found.upper);
        for (s, best) in best.iter().enumerate().take(states.len()) {
            let value = found.values()[s];
            assert!(best.is_within(found.lower[s], found.upper[s]), "case {case}, state {s}");
            assert!(best.is_near(value, 0.0, epsilon), "case {case}, state {s}: {value}, not {best:?}");
        }
    }
}

/// Rewards cancel, exactly or nearly, so that a total is 0 or near 0. The rewards are on transitions, on actions, or
/// averaged.
#[test]
fn relative_errors_hold_if_totals_cancel() {
    let epsilon = 1e-6;
    let mut zeros = 0;
    for case in 0..120 {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        let (p, q, earned) = (chance(&mut rng), chance(&mut rng), wide(&mut rng));
        let off = if case % 2 == 0 { 0.0 } else { 10_f64.powi(-((rng.next_u32() % 13) as i32)) };
        // State 0 earns and stays for 1/(1 − p) steps in expectation; state 1 loses this amount in one step.
        let p = if case % 4 == 0 { 0.5 } else { p };
        let states = [
            vec![(vec![(0, p), (1, 1.0 - p)], earned), (vec![(3, 1.0)], -earned.abs())],
            vec![(vec![(2, q), (3, 1.0 - q)], -earned / (1.0 - p) * (1.0 + off))],
            vec![(vec![(2, q), (3, 1.0 - q)], 0.0)],
            Vec::new(),
        ];
        for objective in [Objective::Maximize, Objective::Minimize] {
            let mdp = model(objective, &states);
            let none = vec![false; states.len() + 1];
            let best = enumerate(&mdp, |policy| Chain::new(&mdp, policy, &none).cumulative());
            let options = Options { epsilon, relative: true, ..Options::default() };
            let found = run(&mdp, &Criterion::TotalReward { goal: None }, &options).unwrap();
            assert_eq!(found.status, Status::Solved, "case {case}: {:?} to {:?}", found.lower, found.upper);
            for (s, best) in best.iter().enumerate().take(states.len()) {
                zeros += u32::from(found.values()[s] == 0.0 && s == 0);
                assert!(best.is_within(found.lower[s], found.upper[s]), "case {case}, state {s}");
                assert!(best.is_near(found.values()[s], 0.0, epsilon), "case {case}, state {s}: {best:?}");
            }
        }
    }
    assert!(zeros >= 15, "{zeros} values are exactly 0");
}
