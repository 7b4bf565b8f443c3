//! Published values of textbooks and of the Quantitative Verification Benchmark Set.

use std::ops::ControlFlow;
use std::path::Path;

use warpkov_mdp::criterion::{Bounded, Criterion, Options, solve_on};
use warpkov_mdp::generate::{Consensus, Csma, Firewire, Gambler, Zeroconf};
use warpkov_mdp::io::read;
use warpkov_mdp::model::{Csr, Mdp, MdpParts, Objective};
use warpkov_mdp::solution::Status;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;

use super::common::{assert_holds, run, solved};

fn with(objective: Objective, mdp: &Mdp) -> Mdp {
    mdp.clone().with_objective(objective)
}

fn start(mdp: &Mdp) -> usize {
    mdp.labels()["init"][0] as usize
}

/// Quantitative Verification Benchmark Set, `consensus`: c2, disagree, steps_max, steps_min. For K = 16, a solver
/// that stops when all changes are below 1e-6 returns 3265.6 and 3073.2.
#[test]
fn consensus() {
    let cases = [(2, 2, Some((49.0 / 128.0, 13.0 / 120.0)), 75.0, 48.0), (2, 16, None, 3267.0, 3072.0)];
    for (processes, bound, probabilities, most, least) in cases {
        let mdp = Consensus { processes, bound }.generate().unwrap();
        let init = start(&mdp);
        let finished = Criterion::TotalReward { goal: Some(mdp.labels()["finished"].clone()) };
        let epsilon = 1e-6;
        let found = solved(&with(Objective::Maximize, &mdp), &finished, epsilon);
        assert_holds(&found, init, most);
        let found = solved(&with(Objective::Minimize, &mdp), &finished, epsilon);
        assert_holds(&found, init, least);
        let Some((heads, disagree)) = probabilities else { continue };
        let holds = |label: &str, state: &u32| mdp.labels()[label].binary_search(state).is_ok();
        let all = || mdp.labels()["finished"].iter().copied();
        let goal = all().filter(|state| holds("all_coins_equal_1", state)).collect();
        assert_holds(&solved(&with(Objective::Minimize, &mdp), &Criterion::Reach { goal }, 1e-9), init, heads);
        let goal = all().filter(|state| !holds("agree", state)).collect();
        assert_holds(&solved(&with(Objective::Maximize, &mdp), &Criterion::Reach { goal }, 1e-9), init, disagree);
    }
}

/// `consensus` of four processes: c2, steps_max and steps_min.
#[test]
fn consensus_of_four() {
    let mdp = Consensus { processes: 4, bound: 2 }.generate().unwrap();
    let finished = Criterion::TotalReward { goal: Some(mdp.labels()["finished"].clone()) };
    for (objective, exact) in [(Objective::Maximize, 363.0), (Objective::Minimize, 192.0)] {
        assert_holds(&solved(&with(objective, &mdp), &finished, 1e-6), start(&mdp), exact);
    }
    let heads = |state: &u32| mdp.labels()["all_coins_equal_1"].binary_search(state).is_ok();
    let goal = mdp.labels()["finished"].iter().copied().filter(heads).collect();
    let found = solved(&with(Objective::Minimize, &mdp), &Criterion::Reach { goal }, 1e-9);
    assert_holds(&found, start(&mdp), 325.0 / 1024.0);
}

/// `csma` (all_before_max): deliver all messages before any station has reached the longest backoff. The states of
/// that event are absorbing.
#[test]
fn csma_before_the_longest_wait() {
    let mdp = Csma::default().generate().unwrap();
    let late = &mdp.labels()["collision_max_backoff"];
    let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
    for state in 0..mdp.states() {
        for row in mdp.choices().rows(state as usize) {
            let (cols, probs) = mdp.transitions().row(row);
            match late.binary_search(&state) {
                Ok(_) => {
                    col.push(state);
                    val.push(1.0);
                }
                Err(_) => {
                    col.extend_from_slice(cols);
                    val.extend_from_slice(probs);
                }
            }
            row_ptr.push(col.len() as u64);
        }
    }
    let transitions = Csr::new(row_ptr, col, val).unwrap();
    let MdpParts { states, choices, labels, .. } = mdp.clone().into_parts();
    let stuck =
        MdpParts { states, choices, gamma: 1.0, transitions, labels, ..MdpParts::default() }.validated().unwrap();
    let goal =
        stuck.labels()["all_delivered"].iter().copied().filter(|state| late.binary_search(state).is_err()).collect();
    assert_holds(&solved(&stuck, &Criterion::Reach { goal }, 1e-9), start(&mdp), 7.0 / 8.0);
}

/// Sutton and Barto, example 4.3, with p = .4 and .25: the probabilities of bold play from 25, 50 and 75. And the
/// undiscounted FrozenLake 8×8 of Gymnasium 1.4, whose goal is reachable with probability 1. On the CPU and emulated.
#[test]
fn textbook_models_undiscounted() {
    // Neither .4 nor 1/3 is exact in binary.
    let assert_near = |found: &Bounded, state: usize, exact: f64| {
        let value = found.values()[state];
        assert!((value - exact).abs() <= 1e-9 + 1e-12, "state {state}: {value}, not {exact}");
    };
    let devices = [DeviceChoice::Cpu, DeviceChoice::Emulated];
    let solved_on = |device, mdp: &Mdp, criterion: &Criterion| {
        let options = Options { epsilon: 1e-9, ..Options::default() };
        let found = solve_on(&Local::alone(), device, mdp, criterion, &options, &mut |_| ControlFlow::Continue(()))
            .unwrap()
            .bounded;
        assert_eq!(found.status, Status::Solved);
        found
    };
    for device in devices {
        for (heads, expected) in [(0.4, [0.16, 0.4, 0.64]), (0.25, [1.0 / 16.0, 0.25, 7.0 / 16.0])] {
            let mdp = Gambler { heads, ..Gambler::default() }.generate().unwrap();
            let goal = Criterion::Reach { goal: mdp.labels()["goal"].clone() };
            for criterion in [goal, Criterion::TotalReward { goal: None }] {
                let found = solved_on(device, &mdp, &criterion);
                [25, 50, 75].into_iter().zip(expected).for_each(|(state, exact)| assert_near(&found, state, exact));
            }
        }
        let coin = with(Objective::Minimize, &Consensus { processes: 2, bound: 2 }.generate().unwrap());
        let finished = Criterion::TotalReward { goal: Some(coin.labels()["finished"].clone()) };
        assert_holds(&solved_on(device, &coin, &finished), start(&coin), 48.0);
    }
    let lake = |name| read(&Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("data").join(name)).unwrap();
    for (name, exact) in [("frozen-lake-4x4.json", 14.0 / 17.0), ("frozen-lake-8x8.json", 1.0)] {
        let found = solved_on(DeviceChoice::Cpu, &lake(name), &Criterion::TotalReward { goal: None });
        assert_near(&found, 0, exact);
    }
}

/// Quantitative Verification Benchmark Set: `csma` (some_before), `firewire` (time_max, time_min) and `zeroconf`
/// (correct_max, to a relative error).
#[test]
fn protocols() {
    let mdp = Csma::default().generate().unwrap();
    let goal = mdp.labels()["early"].clone();
    assert_holds(&solved(&with(Objective::Minimize, &mdp), &Criterion::Reach { goal }, 1e-9), start(&mdp), 0.5);

    let mdp = Firewire::default().generate().unwrap();
    let elected = Criterion::TotalReward { goal: Some(mdp.labels()["elected"].clone()) };
    assert_holds(&solved(&with(Objective::Maximize, &mdp), &elected, 1e-6), start(&mdp), 299.0);
    assert_holds(&solved(&with(Objective::Minimize, &mdp), &elected, 1e-6), start(&mdp), 553.0 / 4.0);

    let mdp = with(Objective::Maximize, &Zeroconf::default().generate().unwrap());
    let collision = Criterion::Reach { goal: mdp.labels()["collision"].clone() };
    let found = run(&mdp, &collision, &Options { epsilon: 1e-6, relative: true, ..Options::default() }).unwrap();
    let (init, exact) = (start(&mdp), 65_341.0 / 3_250_265_341.0);
    assert_eq!(found.status, Status::Solved);
    assert_holds(&found, init, exact);
    assert!(found.upper[init] - found.lower[init] <= 2e-6 * exact);
}
