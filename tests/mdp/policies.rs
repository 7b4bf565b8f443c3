//! What the library says of a policy: certified values, plans, simulations and Q-factors.

use std::ops::ControlFlow;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov::mdp::ask::evaluate::{InvalidPolicy, bounds, chain, plan, unrolled, value};
use warpkov::mdp::ask::q::q_factors;
use warpkov::mdp::ask::select;
use warpkov::mdp::ask::simulate::{self, Simulator};
use warpkov::mdp::criterion::Criterion;
use warpkov::mdp::generate::Garnet;
use warpkov::mdp::io::{Format, ReadOptions, read_from};
use warpkov::mdp::model::{Mdp, MdpParts, NO_ACTION, Objective};

use crate::models::{on_cpu, random_model, replacement};
use crate::rational::{Chain, Value};

fn random_policy(random: &mut ChaCha8Rng, mdp: &Mdp) -> Vec<u32> {
    (0..mdp.states() as usize).map(|state| random.next_u32() % mdp.choices().count(state) as u32).collect()
}

/// The bounds of policies enclose their exact values, in rational arithmetic, under all criteria.
#[test]
fn certified_values_of_policies_are_exact() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for round in 0..120 {
        let (states, scale) = (2 + round % 5, (round as i32 * 7) % 61 - 30);
        let gamma = [0.0, 0.5, 0.9, 0.99, 0.9999][round as usize % 5];
        let mdp = random_model(&mut random, states, gamma, round % 2 == 0, scale);
        let mdp = mdp.with_objective([Objective::Maximize, Objective::Minimize][round as usize / 2 % 2]);
        let policy = random_policy(&mut random, &mdp);
        let none = vec![false; states as usize];
        let goal = vec![states - 1];
        let is_goal: Vec<bool> = (0..=states).map(|state| state == states - 1).collect();
        let mut absorbing = none.clone();
        absorbing[states as usize - 1] = true;
        let chain_of = chain(&mdp, &policy).unwrap();
        let unit = 1000.0 * 2f64.powi(scale);
        let check = |criterion: Option<Criterion>, epsilon: f64, exact: Vec<Value>| {
            let found =
                bounds(&chain_of, criterion.as_ref(), &on_cpu(epsilon), &mut |_| ControlFlow::Continue(())).unwrap();
            assert!(found.converged && found.error <= epsilon, "{criterion:?}, round {round}: {}", found.error);
            for (state, value) in exact[..states as usize].iter().enumerate() {
                let (lower, upper) = (found.lower[state], found.upper[state]);
                assert!(
                    value.is_within(lower, upper),
                    "{criterion:?}, round {round}, state {state}: {value:?} not in [{lower}, {upper}]"
                );
            }
        };
        let exact = Chain::new(&mdp, &policy, &none);
        check(None, 1e-7 * unit / (1.0 - gamma), exact.discounted(gamma));
        let stopped = Chain::new(&mdp, &policy, &absorbing);
        check(Some(Criterion::Reach { goal }), 1e-7, stopped.reach(&is_goal));
        if round % 2 == 0 {
            check(Some(Criterion::TotalReward { goal: None }), 1e-7 * unit, exact.cumulative());
        }
        check(Some(Criterion::Average), 1e-7 * unit, exact.gain());
    }
}

/// A policy that earns nothing and misses the goal is worth what the rewards of the model say.
#[test]
fn missing_the_goal_is_worth_what_the_model_says() {
    for (reward, expected) in [(-1.0, f64::NEG_INFINITY), (1.0, f64::INFINITY), (0.0, f64::INFINITY)] {
        for objective in [Objective::Maximize, Objective::Minimize] {
            // State 0 waits for nothing, or goes to the goal; state 2 goes.
            let text = format!(
                r#"{{"gamma": 1, "S": 3, "choices": [0, 2, 3, 4], "action_rewards": [0, {reward}, 0, {reward}],
                    "P": {{"indptr": [0, 1, 2, 3, 4], "indices": [0, 1, 1, 1], "data": [1, 1, 1, 1]}}}}"#
            );
            let options = ReadOptions { format: Some(Format::Json), ..ReadOptions::default() };
            let mdp = read_from(text.as_bytes(), "m", &options).unwrap().with_objective(objective);
            let criterion = Criterion::TotalReward { goal: Some(vec![1]) };
            let of = |policy: &[u32]| {
                value(&mdp, policy, Some(&criterion), &on_cpu(1e-6), &mut |_| ControlFlow::Continue(())).unwrap()
            };
            let (waits, goes) = (of(&[0, 0, 0]), of(&[1, 0, 0]));
            assert_eq!([waits.lower[0], waits.values[0], waits.upper[0]], [expected; 3]);
            for (found, state) in [(&waits, 2), (&goes, 0), (&goes, 2)] {
                assert!(found.lower[state] <= reward && reward <= found.upper[state] && found.error <= 1e-6);
            }
        }
    }
}

/// The bounds of plans enclose their exact values, in rational arithmetic; optimal plans have the optimal values; and simulations of
/// plans hold their values as often as they say.
#[test]
fn plans_act_differently_at_each_step() {
    let mut random = ChaCha8Rng::seed_from_u64(23);
    let (mut held, rounds) = (0, 200_u32);
    for round in 0..rounds {
        let (states, scale, steps) = (2 + round % 5, (round as i32 * 7) % 61 - 30, 2 + random.next_u32() % 7);
        let gamma = [0.0, 0.5, 0.9, 1.0][round as usize % 4];
        let mdp = random_model(&mut random, states, 0.9, round % 2 == 0, scale).with_gamma(gamma).unwrap();
        let mdp = mdp.with_objective([Objective::Maximize, Objective::Minimize][round as usize / 2 % 2]);
        let criterion = Some(Criterion::Horizon(steps));
        let options = on_cpu(1e-6 * 2f64.powi(scale));
        let mut go = |_: &_| ControlFlow::Continue(());
        // Some steps are equal, as most steps of optimal plans are.
        let mut policy = random_policy(&mut random, &mdp);
        let mut planned = Vec::new();
        for _ in 0..steps {
            if random.next_u32() % 2 == 0 {
                policy = random_policy(&mut random, &mdp);
            }
            planned.extend_from_slice(&policy);
        }
        let exact_of = |plan: &[u32]| {
            let mut v = vec![Value::of(0.0); states as usize + 1];
            for policy in plan.chunks(states as usize).rev() {
                v = Chain::new(&mdp, policy, &vec![false; states as usize]).backup(gamma, &v);
            }
            v
        };
        let found = value(&mdp, &planned, criterion.as_ref(), &options, &mut go).unwrap();
        assert!(found.converged, "round {round}: {}", found.error);
        let optimal = plan(&mdp, steps, &options, &mut go).unwrap();
        assert_eq!(optimal.policy.len(), (steps * states) as usize);
        let (of_plan, of_optimal) = (exact_of(&planned), exact_of(&optimal.policy));
        let start = random.next_u32() % states;
        for state in 0..states as usize {
            let (lower, upper) = (found.lower[state], found.upper[state]);
            assert!(
                of_plan[state].is_within(lower, upper),
                "round {round}: {:?} not in [{lower}, {upper}]",
                of_plan[state]
            );
            // What an optimal plan earns is the optimal value, and no plan earns more.
            let (lower, upper) = (optimal.lower[state], optimal.upper[state]);
            let near = of_optimal[state].is_near(f64::midpoint(lower, upper), 1e-6 * 2f64.powi(scale), 0.0);
            assert!(near, "round {round}: {:?} is not near [{lower}, {upper}]", of_optimal[state]);
            let better = if mdp.objective() == Objective::Maximize {
                found.lower[state] - upper
            } else {
                lower - found.upper[state]
            };
            assert!(better <= 0.0, "round {round}: {better}");
        }
        let chain = unrolled(&mdp, &planned, criterion.as_ref()).unwrap();
        let extent = simulate::Options { episodes: 200, steps: None, seed: 1, starts: vec![start], confidence: 0.9 };
        let simulated = Simulator::new(&chain, criterion.as_ref(), extent).unwrap().evaluate(&|| false).unwrap();
        held += u32::from(simulated.holds(found.values[start as usize]));
    }
    println!("{held} of {rounds} intervals of 90 % hold the value of the plan");
    assert!((155..=200).contains(&held), "{held} of {rounds}");
    let mdp = replacement(4);
    let refused = |plan: &[u32], criterion: Option<&Criterion>| {
        let error = value(&mdp, plan, criterion, &on_cpu(1e-6), &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(unrolled(&mdp, plan, criterion).err().unwrap().to_string(), error.to_string());
        error.to_string()
    };
    assert!(refused(&[0; 12], Some(&Criterion::Horizon(4))).contains("a plan of 3 steps, expected one of 4 steps"));
    assert!(refused(&[0; 12], None).contains("the criterion has no steps"));
    assert!(refused(&[0; 13], Some(&Criterion::Horizon(3))).contains("has 13 actions"));
    assert!(refused(&[], Some(&Criterion::Horizon(3))).contains("has 0 actions"));
    assert!(refused(&[0, 0, 0, 0, 0, 2, 0, 0], Some(&Criterion::Horizon(2))).contains("action 2 in state 1"));
}

#[test]
fn policies_must_fit() {
    let mdp = replacement(4);
    assert!(matches!(chain(&mdp, &[0, 0]), Err(InvalidPolicy::Length { found: 2, expected: 4 })));
    assert!(matches!(chain(&mdp, &[0, 2, 0, 0]), Err(InvalidPolicy::Action { actions: 2, .. })));
    assert!(matches!(chain(&mdp, &[0, 0, 0, NO_ACTION]), Err(InvalidPolicy::Action { actions: 2, .. })));
    let garnet = Garnet { states: 50, ragged: true, terminals: 0.3, ..Garnet::default() }.generate().unwrap();
    let of = chain(&garnet, &garnet.first_policy()).unwrap();
    assert!((0..50).all(|state| of.choices().count(state) == garnet.choices().count(state).min(1)));
}

/// The interval of a simulation holds the exact value about as often as its confidence says: for 1000 models with rewards
/// of magnitudes from 10⁻⁶ to 10¹².
#[test]
fn intervals_hold_as_often_as_they_say() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (mut held, mut of_kind) = (0, [(0, 0); 4]);
    for round in 0..1000_u32 {
        let (states, scale) = (2 + round % 7, (round as i32 * 7) % 61 - 30);
        let gamma = [0.5, 0.8, 0.9][round as usize % 3];
        let kind = round as usize % 4;
        let mdp = random_model(&mut random, states, gamma, kind == 2 || round % 8 < 4, scale);
        let policy = random_policy(&mut random, &mdp);
        let chain = chain(&mdp, &policy).unwrap();
        let criterion = match kind {
            0 => None,
            1 => Some(Criterion::Reach { goal: vec![states - 1] }),
            2 => Some(Criterion::TotalReward { goal: None }),
            _ => Some(Criterion::Horizon(20)),
        };
        let start = random.next_u32() % states;
        let options = simulate::Options {
            episodes: 200,
            steps: None,
            seed: u64::from(round),
            starts: vec![start],
            confidence: 0.9,
        };
        let found = Simulator::new(&chain, criterion.as_ref(), options).unwrap().evaluate(&|| false).unwrap();
        let epsilon = 1e-9 * 2f64.powi(scale);
        let epsilon = if kind == 1 { 1e-9 } else { epsilon };
        let exact = bounds(&chain, criterion.as_ref(), &on_cpu(epsilon), &mut |_| ControlFlow::Continue(())).unwrap();
        let holds = found.holds(exact.values[start as usize]);
        held += u32::from(holds);
        of_kind[kind] = (of_kind[kind].0 + u32::from(holds), of_kind[kind].1 + 1);
    }
    println!("{held} of 1000 intervals of 90 % hold the exact value: {of_kind:?}");
    // Five standard deviations of a binomial distribution, and two percent for the normal approximation.
    assert!((830..=970).contains(&held), "{held}: {of_kind:?}");
}

/// Equal seeds give equal bits on one thread and on several; cut paths widen the interval.
#[test]
fn simulations_are_reproducible_and_admit_what_they_cut() {
    let mdp = replacement(6);
    let chain = chain(&mdp, &[0, 0, 0, 1, 1, 1]).unwrap();
    let options = |steps| simulate::Options { episodes: 500, steps, seed: 3, starts: vec![0, 1], confidence: 0.99 };
    let run = |criterion: Option<&Criterion>, steps| {
        Simulator::new(&chain, criterion, options(steps)).unwrap().evaluate(&|| false).unwrap()
    };
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (one, three) = (pool(1).install(|| run(None, None)), pool(3).install(|| run(None, None)));
    assert_eq!(one, three);
    let exact = bounds(&chain, None, &on_cpu(1e-9), &mut |_| ControlFlow::Continue(())).unwrap();
    let mean = f64::midpoint(exact.values[0], exact.values[1]);
    assert!(one.holds(mean), "{mean} {one:?}");
    let short = run(None, Some(3));
    assert!(short.cut == 500 && short.holds(mean) && short.tail.0 > 1.0, "{short:?}");
    let total = Criterion::TotalReward { goal: None };
    assert!(run(Some(&total), Some(100)).tail.0.is_infinite(), "a cut path of the total reward may go on to any value");
    let average = run(Some(&Criterion::Average), None);
    let gain = bounds(&chain, Some(&Criterion::Average), &on_cpu(1e-9), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(average.holds(gain.values[0]), "{average:?} {}", gain.values[0]);
}

/// ‖Q − Q*‖∞ is within the bound, and the advantages of greedy actions are 0.
#[test]
fn q_factors_are_within_their_bound() {
    use warpkov::mdp::Solve;
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for round in 0..60 {
        let scale = (round * 7) % 61 - 30;
        let gamma = [0.0, 0.5, 0.9, 0.99][round as usize % 4];
        let objective = [Objective::Maximize, Objective::Minimize][round as usize / 2 % 2];
        let mdp = random_model(&mut random, 5, gamma, round % 3 == 0, scale).with_objective(objective);
        let epsilon = 1e-3 * 2f64.powi(scale);
        let solve = on_cpu(epsilon).discounted(gamma);
        let found = Solve::new(&mdp, &solve).run().unwrap();
        let factors = q_factors(&mdp, &found.values, found.certificate.bound);
        let bound = factors.bound.unwrap();
        assert!(bound <= epsilon, "{bound}");
        // V* by policy iteration with dense solves.
        let n = 5;
        let mut policy = mdp.first_policy();
        let exact = loop {
            let of = |state: usize| mdp.choices().first(state) + policy[state] as usize;
            let matrix = |state: usize| {
                let mut row = vec![0.0; n];
                row[state] = 1.0;
                let (next, p) = mdp.transitions().row(of(state));
                next.iter().zip(p).for_each(|(&next, p)| row[next as usize] -= gamma * p);
                row
            };
            let values =
                crate::exact::linear((0..n).map(matrix).collect(), (0..n).map(|s| mdp.action_reward(of(s))).collect());
            let q = |row: usize| {
                let (next, p) = mdp.transitions().row(row);
                mdp.action_reward(row)
                    + gamma * next.iter().zip(p).map(|(&next, p)| p * values[next as usize]).sum::<f64>()
            };
            let sign = objective.sign();
            let better = |state: usize| {
                let rows = mdp.choices().rows(state);
                let best = rows.clone().max_by(|&a, &b| (sign * q(a)).total_cmp(&(sign * q(b)))).unwrap();
                let current = of(state);
                if sign * (q(best) - q(current)) > 1e-12 * 2f64.powi(scale) {
                    (best - rows.start) as u32
                } else {
                    policy[state]
                }
            };
            let next: Vec<u32> = (0..n).map(better).collect();
            if next == policy {
                break (0..mdp.rows()).map(q).collect::<Vec<_>>();
            }
            policy = next;
        };
        let rounding = 1e-9 * 2f64.powi(scale);
        assert!(crate::exact::distance(&factors.q, &exact) <= bound + rounding, "round {round}: {bound}");
        for state in 0..n {
            let own = &factors.advantages[mdp.choices().rows(state)];
            assert!(own.iter().all(|a| objective.sign() * a <= 0.0) && own.contains(&0.0), "{own:?}");
        }
    }
}

#[test]
fn states_are_chosen_by_name_number_and_range() {
    let names = ["new", "worn, a bit", "7", "0..1"].map(str::to_owned).to_vec();
    let parts = replacement(4).into_parts();
    let mdp = MdpParts { state_names: Some(names.into()), ..parts }.validated().unwrap();
    let found = |text: &str| select::states(&mdp, text).map_err(|error| error.to_string());
    assert_eq!(found("new"), Ok(vec![0]));
    assert_eq!(found("worn, a bit"), Ok(vec![1]));
    assert_eq!(found("7,2, new"), Ok(vec![2, 2, 0]));
    assert_eq!(found("0..1"), Ok(vec![3]), "a name");
    assert_eq!(found("1..3"), Ok(vec![1, 2, 3]));
    assert_eq!(found("3..1"), Err("found the range 3..1, expected the first state first".to_owned()));
    let message = "found 'old', expected a state: one of new, worn, a bit, 7, 0..1, or a number below 4";
    assert_eq!(found("old"), Err(message.to_owned()));
}
