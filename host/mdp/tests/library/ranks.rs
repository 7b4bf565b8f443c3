//! Models divided among ranks: every method gives the values of one rank.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use warpkov_common::checkpoint::{Checkpoints, Hash};
use warpkov_mdp::SolveError;
use warpkov_mdp::analysis::divide::{GhostOrder, balanced, cut};
use warpkov_mdp::analysis::partition::{by_parts, ghosts};
#[cfg(feature = "metis")]
use warpkov_mdp::analysis::reorder::Order;
use warpkov_mdp::backend::{GreedySweeps, State, Stop};
use warpkov_mdp::backends::device::{Exchanges, Ranks, SweepLayout, ValueIteration};
use warpkov_mdp::checkpoint::{Checkpoint, Proposal, hash, hash_of};
use warpkov_mdp::criterion::{self, Criterion, SolvedOn, solve_on};
use warpkov_mdp::generate::{
    CarRental, Forest, Gambler, Garnet, Inventory, QueueNetwork, RewardOf, SlipGrid, SuttonGrid, WetFloor,
};
use warpkov_mdp::io::{self as files, Mapped, ReadOptions};
use warpkov_mdp::model::whole::{Actions, Columns, Described, Entries, Fault, Rows};
use warpkov_mdp::model::{Csr, Mdp, Objective, Whole};
use warpkov_mdp::options::{Divide, Limits, Method, Precision, Reorder, SolveOptions, Spmv, Storage, Target};
use warpkov_mdp::report::{Report, SolutionFormat, Summary};
use warpkov_mdp::solution::{RankShare, Round, Solution, Status};
use warpkov_mdp::solve::{Initial, Session, Solve};
use warpkov_mdp::team::Team;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::{Column, Communicator, Divided, Error, Exchange, Local, Message};

use crate::random::Random;

const PATIENCE: Duration = Duration::from_secs(60);

fn go(_: &Round) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Models whose parts have ghosts of all kinds: neighbours alone, ranks far away, all states, none.
fn models() -> Vec<Mdp> {
    let mut random = Random::new(11);
    let garnet = |states, window| Garnet { states, window, terminals: 0.05, ragged: true, ..Garnet::default() };
    let grid = SlipGrid { width: 97, height: 60, walls: 0.1, ..SlipGrid::default() };
    vec![
        random.mdp(1, 2, 1, 0.5),
        random.mdp(5, 3, 3, 0.9),
        random.mdp(700, 3, 20, 0.9),
        random.ragged(2500, 4, 6, 0.95),
        garnet(6000, None).generate().unwrap(),
        garnet(6000, Some(3)).generate().unwrap(),
        grid.generate().unwrap(),
        grid.generate().unwrap().with_objective(Objective::Minimize),
    ]
}

fn solved(mdp: &Mdp, ranks: u32, initial: Option<&[f64]>, options: &SolveOptions) -> Solution {
    let work = |comm: &Local| {
        let session = Session { initial: initial.into(), ..Session::default() };
        Solve::new(mdp, options).session(session).run_on(comm)
    };
    Local::run(ranks, PATIENCE, work)
        .unwrap_or_else(|error: SolveError| panic!("{ranks} ranks: {error}"))
        .swap_remove(0)
}

fn cpu(method: Option<Method>) -> SolveOptions {
    SolveOptions { device: DeviceChoice::Cpu, method, ..SolveOptions::default() }
}

/// The distance of two solutions is at most the sum of their certified errors.
fn assert_agree(what: &str, found: &Solution, expected: &Solution) {
    let allowed = found.certificate.bound.unwrap() + expected.certificate.bound.unwrap();
    assert_eq!((found.values.len(), found.policy.len()), (expected.values.len(), expected.policy.len()), "{what}");
    for (state, (a, b)) in found.values.iter().zip(&expected.values).enumerate() {
        assert!((a - b).abs() <= allowed, "{what}: V({state}) is {a}, expected {b} within {allowed:e}");
    }
}

#[test]
fn a_part_has_the_rows_of_its_states() {
    for mdp in models() {
        for (ranks, order) in (1..=5).flat_map(|ranks| [(ranks, GhostOrder::Around), (ranks, GhostOrder::Behind)]) {
            let splits = Local::run(ranks, PATIENCE, |comm: &Local| balanced(&mdp, comm)).unwrap().swap_remove(0);
            assert!(splits.is_sorted() && splits.len() == ranks as usize + 1);
            let parts = Local::run(ranks, PATIENCE, |comm: &Local| cut(&mdp, &splits, order, comm)).unwrap();
            let mut entries = 0;
            for (rank, part) in parts.iter().enumerate() {
                let of_rank = part.part().unwrap();
                let (first, own) = (of_rank.first as usize, part.own());
                assert_eq!((first, own.len() as u64), (splits[rank] as usize, splits[rank + 1] - splits[rank]));
                let spare = usize::from(!of_rank.works);
                assert_eq!(part.states() as usize, of_rank.states());
                assert_eq!(part.never_terminates(), mdp.never_terminates());
                // The number in the whole model of each local state.
                let mut global = vec![0; part.states() as usize - spare];
                own.clone().for_each(|state| global[state] = first + state - own.start);
                for peer in &of_rank.peers {
                    let owner = parts[peer.rank as usize].part().unwrap();
                    let sends = &owner.peers.iter().find(|peer| peer.rank as usize == rank).unwrap().sends;
                    for (ghost, state) in peer.ghosts.clone().zip(sends.iter()) {
                        global[ghost] = owner.first as usize + state as usize - owner.own.start;
                    }
                }
                if of_rank.all_gather {
                    assert_eq!(global.len(), mdp.states() as usize, "all states");
                    assert!(of_rank.peers.iter().all(|peer| peer.sends.run() == Some(own.clone())));
                }
                match order {
                    GhostOrder::Around => {
                        assert!(global.is_sorted_by(|a, b| a < b), "the order of the whole model is kept")
                    }
                    GhostOrder::Behind => assert_eq!(own.start, 0),
                }
                for state in 0..global.len() {
                    let rows = part.choices().rows(state);
                    if !own.contains(&state) {
                        assert!(rows.is_empty(), "a ghost has no actions");
                        continue;
                    }
                    let expected = mdp.choices().rows(global[state]);
                    assert_eq!(rows.len(), expected.len());
                    for (row, expected) in rows.zip(expected) {
                        let (col, val) = part.transitions().row(row);
                        let mut entry: Vec<_> = col.iter().map(|&s| global[s as usize] as u32).zip(val).collect();
                        entry.sort_by_key(|entry| entry.0);
                        let (col, val): (Vec<u32>, Vec<f64>) = entry.into_iter().unzip();
                        assert_eq!((&col[..], &val[..]), mdp.transitions().row(expected));
                        assert_eq!(part.end(row), mdp.end(expected));
                        entries += val.len();
                    }
                }
                let rewards = mdp.expected_rewards();
                let rows = mdp.choices().first(first)..mdp.choices().first(first + own.len());
                let expected = if of_rank.works { rewards[rows].to_vec() } else { vec![0.0; spare] };
                for (found, expected) in part.expected_rewards().iter().zip(&expected) {
                    // Behind, the terms of a sum have another order.
                    assert!((found - expected).abs() <= 1e-14 * expected.abs().max(1.0), "{found} and {expected}");
                }
            }
            assert_eq!(entries, mdp.transitions().nnz());
        }
    }
}

/// Ranks exchange all values if most are ghosts, and only then.
#[test]
fn most_states_as_ghosts_make_an_all_gather() {
    let far = Garnet { states: 4000, ..Garnet::default() };
    let near = Garnet { window: Some(20), ..far };
    let grid = SlipGrid { width: 60, height: 60, ..SlipGrid::default() }.generate().unwrap();
    // State 0 leads to all states, the others to themselves.
    let states = 4096;
    let ends = std::iter::once(0).chain((0..states).map(|state| u64::from(states + state))).collect::<Vec<_>>();
    let columns: Vec<u32> = (0..states).chain(1..states).collect();
    let probability = |at: usize| if at < states as usize { 1.0 / f64::from(states) } else { 1.0 };
    let probabilities: Vec<f64> = (0..columns.len()).map(probability).collect();
    let transitions = Csr::new(ends, columns.clone(), probabilities).unwrap();
    let rewards = Csr::new(transitions.row_ptr().to_vec(), columns.clone(), vec![1.0; columns.len()]).unwrap();
    let hub = Mdp::new(states, 1, 0.9, transitions, rewards, None).unwrap();
    // The most ranks with an all-gather: of the hub, one of two ranks needs all states of the other one.
    let models = [(far.generate().unwrap(), 7), (near.generate().unwrap(), 0), (grid, 0), (hub, 2)];
    for (number, (mdp, most)) in models.iter().enumerate() {
        for ranks in 2..=7 {
            let what = format!("model {number} on {ranks} ranks");
            let expected = ranks <= *most;
            let found = solved(mdp, ranks, None, &cpu(Some(Method::Values)));
            let all = |rank: &RankShare| rank.work.all_gather;
            assert!(found.ranks.iter().all(|rank| all(rank) == expected), "{what}: {:?}", found.ranks);
            let options = cpu(None);
            let report = Report::new(mdp, &options.limits, &found);
            let (mut text, mut json) = (Vec::new(), Vec::new());
            report.write_summary(&mut text).unwrap();
            report.write_json(&mut json, false).unwrap();
            let name = if expected { "all-gather" } else { "halo" };
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(json["exchange"], name, "{what}");
            assert!(String::from_utf8(text).unwrap().contains(&format!("(exchange: {name})")), "{what}");
        }
    }
}

#[test]
fn every_method_on_ranks_has_the_values_of_one() {
    let methods = [Method::Values, Method::GaussSeidel, Method::Modified, Method::Parallel, Method::Krylov];
    for (number, mdp) in models().iter().enumerate() {
        let expected = Solve::new(mdp, &cpu(Some(Method::Values))).run().unwrap();
        for method in methods.map(Some).into_iter().chain([None]) {
            // The other methods compute in f64.
            let refines = matches!(method, Some(Method::Values) | None);
            for precision in [Precision::F64, Precision::Refined].into_iter().take(if refines { 2 } else { 1 }) {
                for ranks in [2, 3, 7] {
                    let options = SolveOptions { precision, ..cpu(method) };
                    let what = format!("model {number}, {method:?} in {precision} on {ranks} ranks");
                    let found = solved(mdp, ranks, None, &options);
                    assert!(found.converged(&options.limits), "{what}: {:?}", found.run.status);
                    assert_agree(&what, &found, &expected);
                }
            }
        }
    }
}

/// A communicator that counts its messages.
struct Counting<'c> {
    comm: &'c Local,
    messages: Cell<u32>,
}

impl Communicator for Counting<'_> {
    fn rank(&self) -> u32 {
        self.comm.rank()
    }

    fn size(&self) -> u32 {
        self.comm.size()
    }

    fn timeout(&self) -> Duration {
        self.comm.timeout()
    }

    fn exchange<'a>(&'a self, sends: Vec<Message>, receives: &[(u32, usize)]) -> Result<Box<dyn Exchange + 'a>, Error> {
        self.messages.set(self.messages.get() + 1);
        self.comm.exchange(sends, receives)
    }
}

/// An iteration of BiCGSTAB exchanges ghosts for its two products, and has one message for each of its three pairs of inner
/// products; a request to stop travels with them.
#[test]
fn an_iteration_of_bicgstab_has_five_messages() {
    let mdp = Random::new(31).ragged(700, 3, 4, 0.999);
    // On the CPU, the preconditioner lets few iterations suffice: the first is compared with none. Before it there is an
    // inner product, after it a residual with its ghosts and its maximum.
    let cases = [(DeviceChoice::Cpu, [1, 3], (1 + 5 + 2, 3)), (DeviceChoice::Emulated, [3, 5], (5, 2))];
    for (device, limits, expected) in cases {
        let messages = |max_sweeps: u32| {
            let limits = Limits { target: Target::Theta(1e-300), max_sweeps, max_policies: 1, ..Limits::default() };
            let options = SolveOptions { device, limits, ..cpu(Some(Method::Krylov)) };
            let counted = Local::run(2, PATIENCE, |comm: &Local| {
                let counting = Counting { comm, messages: Cell::new(0) };
                let solution = Solve::new(&mdp, &options).run_on(&counting)?;
                Ok::<_, SolveError>((counting.messages.get(), solution.run.sweeps()))
            });
            counted.unwrap().swap_remove(0)
        };
        let [(fewer, first), (more, second)] = limits.map(messages);
        assert_eq!((more - fewer, second - first), expected, "{device:?}");
    }
}

/// Emulated GPUs on ranks: sweeps have the bits of one, in every layout.
#[test]
fn emulated_sweeps_on_ranks_have_the_bits_of_one() {
    let mut random = Random::new(23);
    let grid = SlipGrid { width: 25, height: 16, walls: 0.1, ..SlipGrid::default() };
    let models = [random.mdp(3, 2, 2, 0.8), random.ragged(300, 3, 5, 0.9), grid.generate().unwrap()];
    let emulated = |limits, storage, skip, precision| SolveOptions {
        device: DeviceChoice::Emulated,
        method: Some(Method::Values),
        ..SolveOptions { limits, storage, skip, precision, reorder: Reorder::None, ..SolveOptions::default() }
    };
    for (number, mdp) in models.iter().enumerate() {
        let theta = Limits { target: Target::Theta(1e-9), max_sweeps: 40, ..Limits::default() };
        for storage in [None, Some(Storage::Rows), Some(Storage::Slices), Some(Storage::Narrow)] {
            for skip in [true, false] {
                let options = emulated(theta, storage, skip, Precision::F64);
                let Ok(one) = Solve::new(mdp, &options).run() else { continue };
                for ranks in [2, 5] {
                    let found = solved(mdp, ranks, None, &options);
                    let what = format!("model {number} as {storage:?} on {ranks} ranks, skip {skip}");
                    assert_eq!(found.run.sweeps(), one.run.sweeps(), "{what}");
                    assert_eq!((&found.values, &found.policy), (&one.values, &one.policy), "{what}");
                }
            }
        }
        let expected = Solve::new(mdp, &cpu(Some(Method::Values))).run().unwrap();
        for method in [Method::Projected(Spmv::Own), Method::Modified, Method::Krylov] {
            for ranks in [2, 3] {
                let options = SolveOptions { device: DeviceChoice::Emulated, ..cpu(Some(method)) };
                let found = solved(mdp, ranks, None, &options);
                let what = format!("model {number}, {method} on {ranks} emulated ranks");
                assert!(found.converged(&options.limits), "{what}: {:?}", found.run.status);
                assert_agree(&what, &found, &expected);
            }
        }
        for precision in [Precision::Mixed, Precision::Refined] {
            let options = emulated(Limits::default(), Some(Storage::Slices), true, precision);
            let found = solved(mdp, 3, None, &options);
            assert!(found.converged(&options.limits), "model {number} in {precision}: {:?}", found.certificate);
        }
    }
}

/// Parts of many tiles, most of them inside: ranks exchange their ghosts during the sweep, and learn one sweep later that
/// they are done. The sweeps still have the bits of one rank, and a run goes on from where it ended.
#[test]
fn emulated_sweeps_during_exchanges_have_the_bits_of_one() {
    let grid = SlipGrid { width: 12, height: 256, gamma: 0.6, walls: 0.05, ..SlipGrid::default() };
    let mdp = grid.generate().unwrap();
    for storage in [Storage::Rows, Storage::Slices, Storage::Narrow, Storage::Patterns] {
        for (skip, target) in [(true, Target::Theta(1e-3)), (false, Target::Theta(1e-3)), (true, Target::Epsilon(1e-4))]
        {
            let limits = Limits { target, max_sweeps: 40, ..Limits::default() };
            let (method, precision, reorder) = (Some(Method::Values), Precision::F64, Reorder::None);
            let options = SolveOptions { method, precision, reorder, limits, skip, ..SolveOptions::default() };
            let options = SolveOptions { device: DeviceChoice::Emulated, storage: Some(storage), ..options };
            let one = Solve::new(&mdp, &options).run().unwrap();
            assert!(one.run.status == Status::Solved, "{storage} within {target:?}: {:?}", one.run.status);
            for ranks in [2, 3] {
                let found = solved(&mdp, ranks, None, &options);
                assert_eq!(found.run.sweeps(), one.run.sweeps(), "{storage} on {ranks} ranks, skip {skip}");
                assert_eq!((&found.values, &found.policy), (&one.values, &one.policy), "{storage} on {ranks} ranks");
            }
        }
    }
}

/// Every criterion on ranks: the bounds of one rank and of several enclose the same value.
#[test]
fn every_criterion_on_ranks_bounds_the_same_values() {
    let mut random = Random::new(5);
    let ragged = random.ragged(400, 3, 4, 0.9);
    let grid = SlipGrid { width: 40, height: 50, walls: 0.1, ..SlipGrid::default() }.generate().unwrap();
    for mdp in [ragged, grid] {
        let goal = vec![mdp.states() - 1];
        let criteria = [
            Criterion::Reach { goal: goal.clone() },
            Criterion::TotalReward { goal: Some(goal) },
            Criterion::Average,
            Criterion::Horizon(30),
        ];
        for criterion in criteria {
            let solved = |device, ranks| {
                let work =
                    |comm: &Local| solve_on(comm, device, &mdp, &criterion, &criterion::Options::default(), &mut go);
                Local::run(ranks, PATIENCE, work).map(|mut all| {
                    let SolvedOn { bounded, ranks: shares, .. } = all.swap_remove(0);
                    assert_eq!(shares.len(), if ranks > 1 { ranks as usize } else { 0 });
                    // A part of the model, or of one that a criterion makes of it, unless the graph alone decides.
                    let swept = ranks > 1 && shares.iter().any(|share| share.work.states > 0);
                    assert!(ranks == 1 || swept || bounded.rounds.is_empty(), "{shares:?}, {:?}", bounded.rounds);
                    assert!(!swept || shares.iter().all(|share| share.time.waiting > 0.0 && share.time.sweeps > 0.0));
                    bounded
                })
            };
            let one = solved(DeviceChoice::Cpu, 1);
            let emulated = if mdp.states() < 500 { Some((DeviceChoice::Emulated, 2)) } else { None };
            for (device, ranks) in [(DeviceChoice::Cpu, 2), (DeviceChoice::Cpu, 5)].into_iter().chain(emulated) {
                let (one, found) = match (&one, solved(device, ranks)) {
                    (Ok(one), Ok(found)) => (one, found),
                    // The total reward may be undefined.
                    (Err(one), Err(found)) if one.to_string() == found.to_string() => continue,
                    (one, found) => panic!("{}: {:?} and {:?}", criterion.name(), one.is_ok(), found.is_ok()),
                };
                assert_eq!(found.status, one.status, "{}", criterion.name());
                assert_eq!(found.policy.len(), mdp.states() as usize);
                for state in 0..mdp.states() as usize {
                    let [least, most] =
                        [found.lower[state].max(one.lower[state]), found.upper[state].min(one.upper[state])];
                    assert!(least <= most, "{} of {state}: no value is within both bounds", criterion.name());
                }
            }
        }
    }
}

/// Jacobi sweeps do the same arithmetic wherever a state is.
#[test]
fn sweeps_on_ranks_have_the_bits_of_one() {
    for mdp in models() {
        let never_ends = mdp.never_terminates();
        for reorder in [Reorder::None, Reorder::Rcm] {
            for skip in [true, false] {
                for storage in [None, Some(Storage::Narrow), Some(Storage::Rows)] {
                    let limits = Limits { target: Target::Theta(1e-9), max_sweeps: 300, ..Limits::default() };
                    let options = SolveOptions { skip, storage, limits, reorder, ..cpu(Some(Method::Values)) };
                    let one = Solve::new(&mdp, &options).run().unwrap();
                    for ranks in if skip { 1..=7 } else { 2..=3 } {
                        let found = solved(&mdp, ranks, None, &options);
                        assert_eq!(found.run.sweeps(), one.run.sweeps());
                        assert_eq!((&found.values, &found.policy), (&one.values, &one.policy), "{ranks} ranks");
                        assert_eq!(found.certificate, one.certificate);
                        assert_eq!(never_ends, mdp.never_terminates());
                    }
                }
            }
        }
    }
}

#[test]
fn states_keep_their_order_within_parts() {
    let (order, borders) = by_parts(&[2, 0, 2, 0, 3, 0], 4);
    assert_eq!(order.old(), [1, 3, 5, 0, 2, 4]);
    assert_eq!(borders, [0, 3, 3, 5, 6]);
    // State s of a forest leads to s + 1, and to 0.
    let mdp = Forest { ages: 6, ..Forest::default() }.generate().unwrap();
    assert_eq!(ghosts(&mdp, &[0, 0, 0, 1, 1, 1], 2), 2);
    assert_eq!(ghosts(&mdp, &[0, 1, 0, 1, 0, 1], 2), 6);
    assert_eq!(ghosts(&mdp, &[0; 6], 1), 0);
}

/// A grid whose cells are numbered at random.
#[cfg(feature = "metis")]
fn shuffled(width: u32, height: u32, random: &mut Random) -> Mdp {
    let grid = SlipGrid { width, height, walls: 0.1, ..SlipGrid::default() }.generate().unwrap();
    let mut old: Vec<u32> = (0..grid.states()).collect();
    (1..old.len()).for_each(|i| old.swap(i, random.below(i as u64 + 1) as usize));
    Order::new(old).unwrap().apply(&grid)
}

/// METIS's parts have fewer ghosts, and the values of one rank in the order of the model; auto takes them only then.
#[cfg(feature = "metis")]
#[test]
fn parts_of_metis_have_the_values_of_one() {
    let mut random = Random::new(53);
    let grid = SlipGrid { width: 60, height: 60, ..SlipGrid::default() }.generate().unwrap();
    let far = Garnet { states: 2000, ..Garnet::default() }.generate().unwrap();
    let minimize = shuffled(50, 40, &mut random).with_objective(Objective::Minimize);
    // A shuffled model, and whether METIS halves its ghosts.
    let models = [
        (shuffled(60, 60, &mut random), true),
        (minimize, true),
        (grid, false),
        (far, false),
        (random.ragged(900, 3, 3, 0.9), false),
        (random.mdp(3, 2, 2, 0.5), false),
    ];
    for (number, (mdp, halves)) in models.iter().enumerate() {
        let expected = Solve::new(mdp, &cpu(Some(Method::Values))).run().unwrap();
        for ranks in 1..=7 {
            for method in [Method::Values, Method::Krylov] {
                let with = |divide| {
                    let options = SolveOptions { divide, reorder: Reorder::None, ..cpu(Some(method)) };
                    let found = solved(mdp, ranks, None, &options);
                    let what = format!("model {number}, {method} on {ranks} ranks, {divide}");
                    assert!(found.converged(&options.limits), "{what}: {:?}", found.run.status);
                    assert_agree(&what, &found, &expected);
                    let ghosts: u64 = found.ranks.iter().map(|rank| rank.work.ghosts).sum();
                    let noted = found.notes.iter().any(|note| note.contains("METIS divides"));
                    (ghosts, noted, found.values, what)
                };
                let [contiguous, auto, metis] = [Divide::Contiguous, Divide::Auto, Divide::Metis].map(with);
                if ranks == 1 {
                    continue;
                }
                assert_eq!((auto.1, contiguous.1), (*halves, false), "{}: {} ghosts", auto.3, auto.0);
                assert_eq!(metis.1, mdp.states() / ranks >= 32, "{}", metis.3);
                if *halves {
                    assert!(2 * metis.0 <= contiguous.0, "{} and {} ghosts", metis.0, contiguous.0);
                    assert_eq!((metis.0, &metis.2), (auto.0, &auto.2), "the same parts");
                }
            }
        }
    }
}

/// Without METIS, asking for it is an error that says how to build it, and auto does without.
#[cfg(not(feature = "metis"))]
#[test]
fn a_build_without_metis_says_so() {
    let mdp = &models()[6];
    let with = |divide| SolveOptions { divide, ..cpu(Some(Method::Values)) };
    let found = Local::run(3, PATIENCE, |comm: &Local| Solve::new(mdp, &with(Divide::Metis)).run_on(comm));
    let message = found.err().unwrap().to_string();
    assert_eq!(message, "this build has no METIS: cargo build --release --features metis makes one that has");
    let [auto, contiguous] = [Divide::Auto, Divide::Contiguous].map(|divide| solved(mdp, 3, None, &with(divide)));
    assert_eq!(auto.values, contiguous.values);
}

/// Several sweeps for each exchange: other bits, but certified values, for every backend, layout and precision.
#[test]
fn local_sweeps_end_within_their_certificates() {
    let mut random = Random::new(41);
    let grid = |width, height| SlipGrid { width, height, walls: 0.1, ..SlipGrid::default() }.generate().unwrap();
    let mut cases =
        vec![(DeviceChoice::Emulated, grid(20, 30)), (DeviceChoice::Emulated, random.ragged(300, 3, 4, 0.9))];
    cases.extend(models().into_iter().map(|mdp| (DeviceChoice::Cpu, mdp)));
    cases.extend([0.3, 0.99].map(|gamma| (DeviceChoice::Cpu, random.ragged(1500, 3, 3, gamma))));
    for (number, (device, mdp)) in cases.iter().enumerate() {
        let options = SolveOptions { device: *device, reorder: Reorder::None, ..cpu(Some(Method::Values)) };
        let expected = Solve::new(mdp, &SolveOptions { device: DeviceChoice::Cpu, ..options }).run().unwrap();
        let emulated = *device == DeviceChoice::Emulated;
        for (turn, ranks) in [1, 2, 3, 7].into_iter().enumerate() {
            for (local_sweeps, epsilon) in [(2, 1e-6), (5, 1e-9), (100, 1e-3)] {
                // The device takes its layouts and precisions in turn.
                let skip = turn % 2 == 0;
                let precision = [Precision::F64, Precision::Mixed, Precision::Refined][turn % 3];
                let storage = [None, Some(Storage::Slices), Some(Storage::Rows)][(turn + number) % 3];
                let limits = Limits { target: Target::Epsilon(epsilon), ..Limits::default() };
                let options = SolveOptions { local_sweeps, skip, precision, storage, limits, ..options };
                if emulated && (ranks > 3 || ranks == 1) {
                    continue;
                }
                let found = solved(mdp, ranks, None, &options);
                let what = format!("model {number}, {device:?}, {local_sweeps} sweeps on {ranks} ranks, {precision}");
                assert!(found.converged(&limits), "{what}: {:?}, {:?}", found.run.status, found.certificate);
                assert_agree(&what, &found, &expected);
            }
        }
    }
}

/// The last sweep follows an exchange, also at a limit; skipping has the bits of sweeps of all states.
#[test]
fn local_sweeps_skip_exactly() {
    let grid = SlipGrid { width: 40, height: 100, gamma: 0.8, walls: 0.1, ..SlipGrid::default() };
    let far = Garnet { states: 3000, window: None, ..Garnet::default() };
    for mdp in [grid.generate().unwrap(), far.generate().unwrap()] {
        for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
            for (local_sweeps, max_sweeps) in [(3, 7), (4, 64), (1000, 30)] {
                let limits = Limits { target: Target::Theta(1e-12), max_sweeps, ..Limits::default() };
                let options = SolveOptions { device, local_sweeps, limits, ..cpu(Some(Method::Values)) };
                let options = SolveOptions { precision: Precision::F64, reorder: Reorder::None, ..options };
                let [skipping, all] =
                    [true, false].map(|skip| solved(&mdp, 3, None, &SolveOptions { skip, ..options }));
                assert_eq!(skipping.run.sweeps(), u64::from(max_sweeps));
                assert_eq!(
                    (&skipping.values, &skipping.policy),
                    (&all.values, &all.policy),
                    "{device:?} {local_sweeps}"
                );
                assert_eq!(skipping.certificate, all.certificate);
                let changes = |solution: &Solution| solution.run.rounds.iter().map(|round| round.residual).collect();
                let [skipping, all]: [Vec<f64>; 2] = [changes(&skipping), changes(&all)];
                assert_eq!(skipping, all);
            }
        }
    }
}

#[test]
fn initial_values_reach_their_states() {
    let mdp = &models()[6];
    let options = cpu(Some(Method::Values));
    let whole = Solve::new(mdp, &options).run().unwrap();
    for ranks in [2, 5] {
        let again = solved(mdp, ranks, Some(&whole.values), &options);
        let sum = |of: fn(&RankShare) -> u64| again.ranks.iter().map(of).sum::<u64>();
        assert_eq!(sum(|rank| rank.work.states), u64::from(mdp.states()));
        assert_eq!(sum(|rank| rank.work.transitions), mdp.transitions().nnz() as u64);
        assert!(again.ranks.iter().all(|rank| rank.work.ghosts > 0 && rank.time.waiting > 0.0), "{:?}", again.ranks);
        assert!(again.run.sweeps() <= 2, "{} sweeps from the solution", again.run.sweeps());
        assert_agree("restart", &again, &whole);
    }
    let session = || Session { initial: Initial::Values(&[0.0]), ..Session::default() };
    let wrong = Local::run(2, PATIENCE, |comm: &Local| Solve::new(mdp, &options).session(session()).run_on(comm));
    assert!(matches!(wrong, Err(SolveError::Initial { found: 1, .. })), "{:?}", wrong.err());
}

#[test]
fn baselines_of_one_rank_say_so() {
    let mdp = &models()[2];
    for method in [Method::Serial, Method::Sequential] {
        let found = Local::run(2, PATIENCE, |comm: &Local| Solve::new(mdp, &cpu(Some(method))).run_on(comm));
        assert!(matches!(found, Err(SolveError::OneRank(found)) if found == method));
    }
}

/// One rank's request to stop stops all in the same round.
#[test]
fn a_stop_on_one_rank_stops_all() {
    let mdp = SlipGrid { gamma: 0.9999, ..SlipGrid::default() }.generate().unwrap();
    let limits = Limits { target: Target::Theta(1e-12), ..Limits::default() };
    let options = SolveOptions { limits, ..cpu(Some(Method::Values)) };
    let stopped = Local::run(3, PATIENCE, |comm: &Local| {
        let mut rounds = 0;
        let mut observe = |_: &Round| {
            rounds += 1;
            if comm.rank() == 1 && rounds == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let found = Solve::new(&mdp, &options).observed(&mut observe).run_on(comm);
        found.map(|found| (found.run.status, found.run.rounds.len()))
    });
    assert_eq!(stopped.unwrap_or_else(|error: SolveError| panic!("{error}")), [(Status::Interrupted, 2); 3]);
}

/// Values and policy of all states, from the solutions of all ranks.
fn solved_in_parts(whole: &dyn Whole, ranks: u32, options: &SolveOptions) -> Result<Solution, SolveError> {
    let work = |comm: &Local| Solve::in_parts(whole, options).run_on(comm);
    let mut all = Local::run(ranks, PATIENCE, work)?.into_iter();
    let mut first = all.next().unwrap();
    for part in all {
        assert_eq!(part.first as usize, first.values.len(), "parts are adjacent");
        assert_eq!((part.size, part.certificate), (first.size, first.certificate));
        first.values.extend(part.values);
        first.policy.extend(part.policy);
    }
    Ok(first)
}

/// The tensors of a safetensors file, which `change` may change, and its metadata.
fn rewritten(path: &Path, to: &Path, change: impl Fn(&mut HashMap<String, (Dtype, Vec<u8>)>)) {
    let bytes = std::fs::read(path).unwrap();
    let metadata = SafeTensors::read_metadata(&bytes).unwrap().1.metadata().clone();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut arrays: HashMap<_, _> =
        tensors.tensors().into_iter().map(|(name, view)| (name, (view.dtype(), view.data().to_vec()))).collect();
    change(&mut arrays);
    let view = |(dtype, data): &'_ (Dtype, Vec<u8>)| (*dtype, vec![8 * data.len() / dtype.bitsize()]);
    let views = arrays.iter().map(|(name, array)| {
        let (dtype, shape) = view(array);
        (name, TensorView::new(dtype, shape, &array.1).unwrap())
    });
    safetensors::serialize_to_file(views, metadata, to).unwrap();
}

/// Gives columns and sets of states 64 bits.
fn widen(arrays: &mut HashMap<String, (Dtype, Vec<u8>)>, wide: Dtype) {
    for (name, (dtype, data)) in arrays {
        if *dtype == Dtype::U32 && name != "action_names.of_row" {
            let numbers = data.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
            *data = numbers.flat_map(|number| u64::from(number).to_le_bytes()).collect();
            *dtype = wide;
        }
    }
}

fn open(path: &Path) -> Result<Mapped, files::Error> {
    files::open_parts(path, &ReadOptions::default()).map(|mapped| mapped.expect("a safetensors file"))
}

/// A file that each rank reads in part gives the bits of one process, with columns of 32 and of 64 bits.
#[test]
fn files_are_read_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (number, mdp) in models().iter().enumerate() {
        let [short, long, signed] =
            ["short", "long", "signed"].map(|kind| path(&format!("{kind}-{number}.safetensors")));
        files::write(&short, mdp).unwrap();
        rewritten(&short, &long, |arrays| widen(arrays, Dtype::U64));
        rewritten(&short, &signed, |arrays| widen(arrays, Dtype::I64));
        let read = files::read(&long).unwrap();
        assert_eq!(read.transitions().col()[..], mdp.transitions().col()[..]);
        assert_eq!((read.labels(), read.grid()), (mdp.labels(), mdp.grid()));
        let limits = Limits { target: Target::Theta(1e-9), max_sweeps: 200, ..Limits::default() };
        let options = SolveOptions { limits, reorder: Reorder::None, ..cpu(Some(Method::Values)) };
        let one = Solve::new(mdp, &options).run().unwrap();
        for (file, ranks) in [(&short, 1..=7), (&long, 2..=3), (&signed, 5..=5)] {
            let mapped = open(file).unwrap();
            assert_eq!(mapped.grid().unwrap().as_ref(), mdp.grid());
            for ranks in ranks {
                let found = solved_in_parts(&mapped, ranks, &options).unwrap();
                let what = format!("{} on {ranks} ranks", file.display());
                assert_eq!((&found.values, &found.policy), (&one.values, &one.policy), "{what}");
                assert_eq!((found.certificate, found.size), (one.certificate, one.size), "{what}");
            }
        }
        let mapped = open(&short).unwrap();
        for method in [None, Some(Method::Krylov), Some(Method::Modified), Some(Method::GaussSeidel)] {
            let found = solved_in_parts(&mapped, 3, &cpu(method)).unwrap();
            assert!(found.converged(&Limits::default()), "model {number}, {method:?}");
        }
    }
}

/// What is wrong in the part of one rank is the error of all, in the words of the whole reader.
#[test]
fn faults_of_a_part_are_those_of_the_whole() {
    type Arrays = HashMap<String, (Dtype, Vec<u8>)>;
    /// Replaces the bytes of an element of a tensor; from its end, if `at` is negative.
    fn set<const N: usize>(arrays: &mut Arrays, name: &str, at: isize, bytes: [u8; N]) {
        let data = &mut arrays.get_mut(name).unwrap().1;
        let first = (at * N as isize).rem_euclid(data.len() as isize) as usize;
        data[first..first + N].copy_from_slice(&bytes);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let good = path("good.safetensors");
    let garnet = Garnet { states: 900, ragged: true, terminals: 0.05, ..Garnet::default() };
    files::write(&good, &garnet.generate().unwrap()).unwrap();
    /// What a message must hold, and the change that leads to it.
    type Planted<'f> = (&'f str, &'f dyn Fn(&mut Arrays));
    let faults: [Planted; 12] = [
        ("expected a state below 900", &|arrays| set(arrays, "P.indices", -7, 900u32.to_le_bytes())),
        ("expected 1 within", &|arrays| set(arrays, "P.data", -7, 0.875f64.to_le_bytes())),
        ("expected a probability", &|arrays| set(arrays, "P.data", -9, f64::NAN.to_le_bytes())),
        ("expected a finite", &|arrays| set(arrays, "action_rewards", -3, f64::INFINITY.to_le_bytes())),
        ("P.indptr falls", &|arrays| set(arrays, "P.indptr", -9, 1u64.to_le_bytes())),
        ("P.indptr falls", &|arrays| set(arrays, "P.indptr", 9, u64::MAX.to_le_bytes())),
        ("P.indptr ends", &|arrays| set(arrays, "P.indptr", -1, (1u64 << 40).to_le_bytes())),
        ("P.indptr[0]", &|arrays| set(arrays, "P.indptr", 0, 3u64.to_le_bytes())),
        ("expected a step", &|arrays| set(arrays, "choices", -9, 1u64.to_le_bytes())),
        ("expected a step", &|arrays| set(arrays, "choices", 5, (u64::MAX - 9).to_le_bytes())),
        ("choices[0]", &|arrays| set(arrays, "choices", 0, 1u64.to_le_bytes())),
        ("more than once", &|arrays| {
            let data = &mut arrays.get_mut("P.indices").unwrap().1;
            let end = data.len();
            data.copy_within(end - 8..end - 4, end - 4);
        }),
    ];
    let wrong = |file: &PathBuf, expected: &str| {
        let whole = files::read(file).err().unwrap_or_else(|| panic!("{expected}")).to_string();
        assert!(whole.contains(expected), "{whole}");
        for ranks in [1, 4, 7] {
            let options = cpu(Some(Method::Values));
            let found = match open(file) {
                Ok(mapped) => solved_in_parts(&mapped, ranks, &options).unwrap_err().to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, whole, "{ranks} ranks");
        }
    };
    for (number, (expected, change)) in faults.into_iter().enumerate() {
        let bad = path(&format!("bad-{number}.safetensors"));
        rewritten(&good, &bad, change);
        wrong(&bad, expected);
    }
    // Columns of 64 bits, one of which no 32 bits hold.
    let far = path("far.safetensors");
    rewritten(&good, &far, |arrays| {
        widen(arrays, Dtype::U64);
        set(arrays, "P.indices", -7, (1u64 << 32 | 5).to_le_bytes());
    });
    wrong(&far, "is 4294967301, expected a state below 900");
    let bytes = std::fs::read(&good).unwrap();
    let short = path("short.safetensors");
    std::fs::write(&short, &bytes[..bytes.len() - 100]).unwrap();
    wrong(&short, "not a safetensors file");
}

/// Ranks write their values and actions into one file, or rank 0 reads them piece by piece: the bytes of one process.
#[test]
fn solutions_in_parts_have_the_bytes_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mdp = &models()[4];
    let file = path("model.safetensors");
    files::write(&file, mdp).unwrap();
    let options = SolveOptions { reorder: Reorder::None, ..cpu(Some(Method::Values)) };
    let one = Solve::new(mdp, &options).run().unwrap();
    let (mut values, mut policy) = (Vec::new(), Vec::new());
    files::write_npy(&mut values, &one.values).unwrap();
    files::write_npy(&mut policy, &one.policy).unwrap();
    let text = |format: SolutionFormat, report: &Report| {
        let mut out = Vec::new();
        format.write(report, &mut out).unwrap();
        out
    };
    let formats = [SolutionFormat::Csv, SolutionFormat::Npy, SolutionFormat::Text];
    let expected = formats.map(|format| text(format, &Report::new(mdp, &options.limits, &one)));
    for ranks in 1..=5 {
        let mapped = open(&file).unwrap();
        let [all_values, all_actions] = ["values.npy", "policy.npy"].map(&path);
        let texts = Local::run(ranks, PATIENCE, |comm: &Local| {
            let found = Solve::in_parts(&mapped, &options).run_on(comm)?;
            let (first, all) = (found.first, found.size.states);
            assert!(files::write_npy_together(comm, &all_values, &found.values, first, all).unwrap());
            assert!(files::write_npy_together(comm, &all_actions, &found.policy, first, all).unwrap());
            let divided = Divided::new(comm, &found.values, &found.policy)?;
            Ok::<_, SolveError>(divided.on_first(|| {
                let (values, policy) = (Column::Divided(&divided, 0), Column::Divided(&divided, 1));
                let report = Report { values, policy, ..Report::new(mdp, &options.limits, &found) };
                formats.map(|format| text(format, &report))
            })?)
        });
        assert!(std::fs::read(&all_values).unwrap() == values && std::fs::read(&all_actions).unwrap() == policy);
        let texts = texts.unwrap().swap_remove(0).unwrap();
        assert!(texts == expected, "{ranks} ranks");
        // From the file of values, each rank reads its own.
        let read = |states| Ok(files::read_values_of(&all_values, states, mdp.states().into())?);
        let again = Local::run(ranks, PATIENCE, |comm: &Local| {
            let session = Session { initial: Initial::Parts(&read), ..Session::default() };
            Solve::in_parts(&mapped, &options).session(session).run_on(comm)
        });
        let again = again.unwrap();
        assert!(again[0].run.sweeps() <= 2, "{} sweeps from the solution", again[0].run.sweeps());
    }
    let wrong = files::read_values_of(&path("values.npy"), 0..1, 7).unwrap_err().to_string();
    assert!(wrong.ends_with("6000 initial values, expected one per state, 7"), "{wrong}");
}

/// A grid that each rank generates in part: the sweeps, the values and the certificate of one rank.
#[test]
fn a_grid_generated_in_parts_has_the_bits_of_one() {
    let walls = SlipGrid { walls: 0.2, obstacles: 0.1, ..SlipGrid::default() };
    for grid in [SlipGrid { width: 23, height: 31, ..SlipGrid::default() }, SlipGrid { width: 40, height: 17, ..walls }]
    {
        let grid = SlipGrid { gamma: 0.8, ..grid };
        let values = |ranks: u32| {
            let work = |comm: &Local| {
                let device = DeviceChoice::Emulated.open_kernels(false)?.0;
                let made = grid.patterns_of(comm.rank(), comm.size()).unwrap();
                let team = made.part().map_or_else(Team::alone, |part| Team::new(comm, part));
                let layout = SweepLayout::generated(&made).unwrap();
                let ranks = Ranks::new(&device, &team)?;
                let ghosts = ranks.map(|ranks| ranks.ghosts::<f64>(&device)).transpose()?;
                let ghosts = ghosts.map(|ghosts| Box::new(ghosts) as Box<dyn Exchanges<f64>>);
                let mut backend = ValueIteration::<f64, u32>::in_team(&device, &layout, ghosts)?;
                backend.backup(Stop::Change(0.0), 40)?;
                let own = made.part().map_or(0..made.states() as usize, |part| part.own.clone());
                Ok::<_, SolveError>(backend.values()?[own].to_vec())
            };
            Local::run(ranks, PATIENCE, work).unwrap().concat()
        };
        let one = values(1);
        for ranks in [2, 3, 5] {
            assert_eq!(values(ranks), one, "{ranks} ranks");
        }
    }
}

/// Families whose rows are made on demand, each with its whole model.
fn families() -> Vec<(&'static str, Box<dyn Described>, Mdp)> {
    let mut all: Vec<(&'static str, Box<dyn Described>, Mdp)> = Vec::new();
    macro_rules! add {
        ($($family:expr),+ $(,)?) => {$(
            let family = $family;
            let name = stringify!($family).split([' ', ':']).next().unwrap();
            all.push((name, Box::new(family.source().unwrap()), family.generate().unwrap()));
        )+};
    }
    let walls = SlipGrid { width: 83, height: 71, walls: 0.2, obstacles: 0.15, ..SlipGrid::default() };
    let ragged = Garnet { states: 10_000, ragged: true, terminals: 0.3, ..Garnet::default() };
    let (reward_of, reward_density) = (RewardOf::Transition, 0.4);
    add! {
        SlipGrid { width: 57, height: 90, ..SlipGrid::default() },
        SlipGrid { walls: 0.01, ..walls },
        walls,
        SlipGrid { slip: 1.0, goal_reward: -2.0, ..walls },
        WetFloor { redirected: 0.2, real_rewards: true, ..WetFloor::new(90, 61, 4) },
        WetFloor { reward_states: Some(0), ..WetFloor::new(40, 31, 2) },
        SuttonGrid::default(),
        Garnet { states: 3000, reward_of, reward_density, ..Garnet::default() },
        Garnet { power_law: true, branching: 300, window: Some(200), ..ragged },
        Garnet { reward_of, reward_density, ragged: false, ..ragged },
        Garnet { states: 8193, ragged: true, ..Garnet::default() },
        QueueNetwork { queues: 3, capacity: 12, ..QueueNetwork::default() },
        QueueNetwork { queues: 1, capacity: 1, ..QueueNetwork::default() },
        Forest { ages: 5000, ..Forest::default() },
        Gambler { goal: 300, ..Gambler::default() },
        Inventory { capacity: 5000, max_order: Some(9), demand_mean: Some(4.0), ..Inventory::default() },
        CarRental { max_cars: 12, max_moves: 4, ..CarRental::default() },
    }
    all
}

/// The entries of rows: columns, bits of values.
fn entries(of: &Entries) -> Vec<Vec<(u64, u64)>> {
    let col: Vec<u64> = match &of.col {
        Columns::Short(col) => col.iter().map(|&col| col.into()).collect(),
        Columns::Long(col) => col.to_vec(),
    };
    let first = of.row_ptr[0];
    let row = |ends: &[u64]| {
        let range = (ends[0] - first) as usize..(ends[1] - first) as usize;
        col[range.clone()].iter().copied().zip(of.val[range].iter().map(|value| value.to_bits())).collect()
    };
    of.row_ptr.windows(2).map(row).collect()
}

fn assert_same_rows(what: &str, found: &Rows, expected: &Rows) {
    let firsts = |rows: &Rows| (rows.states.start..=rows.states.end).map(|s| rows.first(s)).collect::<Vec<_>>();
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!((&found.states, firsts(found)), (&expected.states, firsts(expected)), "{what}");
    assert_eq!(matches!(found.actions, Actions::Uniform(_)), matches!(expected.actions, Actions::Uniform(_)));
    assert!(entries(&found.transitions) == entries(&expected.transitions), "{what}: P differs");
    assert!(entries(&found.rewards) == entries(&expected.rewards), "{what}: R differs");
    assert_eq!(bits(&found.action_rewards), bits(&expected.action_rewards), "{what}");
    assert_eq!((bits(&found.ends), &found.names), (bits(&expected.ends), &expected.names), "{what}");
    let rows: Vec<_> = found.places(0..found.count()).collect();
    assert!(
        rows.iter()
            .all(|at| found.state_of(at.row) == at.state && found.first(at.state) + u64::from(at.action) == at.row)
    );
}

/// The rows of any range of states are those of the whole model, bit for bit.
#[test]
fn rows_on_demand_are_those_of_the_whole_model() {
    let mut random = Random::new(3);
    for (name, source, mdp) in families() {
        let states = u64::from(mdp.states());
        assert_eq!((source.states(), source.gamma(), source.objective()), (states, mdp.gamma(), mdp.objective()));
        assert_eq!((source.labels(), source.action_names()), (Described::labels(&mdp), Described::action_names(&mdp)));
        assert_eq!(source.grid().as_deref(), mdp.grid());
        let any: Vec<_> = (0..8).map(|_| [random.below(states + 1), random.below(states + 1)]).collect();
        for [a, b] in [[0, states], [0, 0], [states, states], [states - 1, states]].into_iter().chain(any) {
            let range = a.min(b)..a.max(b);
            let what = format!("{name}, states {range:?}");
            assert_same_rows(&what, &source.rows(range.clone()).unwrap(), &Whole::rows(&mdp, range).unwrap());
        }
        let work: Vec<_> = (0..=4).map(|part| source.transitions_before(states * part / 4)).collect();
        assert!(work.is_sorted() && work[4] > 0, "{name}: {work:?}");
    }
}

/// A model that ranks write block by block has the bytes of one that is written from memory. A rank that fails leaves no file.
#[test]
fn models_are_written_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole.safetensors", "parts.safetensors"].map(|name| folder.path().join(name));
    let mut all = families();
    all.extend(models().into_iter().map(|mdp| ("model in memory", Box::new(mdp.clone()) as Box<dyn Described>, mdp)));
    for (number, (name, source, mdp)) in all.into_iter().enumerate() {
        files::write(&whole, &mdp).unwrap();
        let expected = fs::read(&whole).unwrap();
        for ranks in [1, 2 + number as u32 % 6] {
            let work = |comm: &Local| {
                let mut last = 0.0;
                let observe = |done: f64| {
                    assert!(done >= last && done <= 1.0 + 1e-9, "{done} after {last}");
                    last = done;
                    ControlFlow::Continue(())
                };
                let written = files::write_blocks(comm, &parts, &*source, observe);
                Ok::<_, SolveError>(written.unwrap_or_else(|error| panic!("{error:?}")))
            };
            assert!(Local::run(ranks, PATIENCE, work).unwrap().into_iter().all(|written| written));
            assert!(fs::read(&parts).unwrap() == expected, "{name} on {ranks} ranks");
            fs::remove_file(&parts).unwrap();
        }
    }
    let garnet = Garnet { states: 50_000, ..Garnet::default() }.source().unwrap();
    for after in [0.1, 0.5] {
        let work = |comm: &Local| {
            let observe = |done| match comm.rank() == 1 && done > after {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            Ok::<_, SolveError>(files::write_blocks(comm, &parts, &garnet, observe).is_err())
        };
        assert_eq!(Local::run(3, PATIENCE, work).unwrap(), [true; 3]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no file is left but the whole one");
    let nowhere = files::write_blocks(&Local::alone(), Path::new("/dev/null"), &garnet, |_| ControlFlow::Continue(()));
    assert!(!nowhere.unwrap());
}

/// A family that several ranks make, each its own part, is solved with the bits of one process.
#[test]
fn generated_parts_have_the_bits_of_one() {
    let mut number = 0;
    for (name, source, mdp) in families() {
        if mdp.gamma() >= 1.0 {
            continue;
        }
        let limits = Limits { target: Target::Theta(1e-9), max_sweeps: 60, ..Limits::default() };
        let options = SolveOptions { limits, reorder: Reorder::None, ..cpu(Some(Method::Values)) };
        let one = Solve::new(&mdp, &options).run().unwrap();
        number += 1;
        for ranks in [1, 2 + number % 6] {
            let found = solved_in_parts(&*source, ranks, &options).unwrap();
            assert_eq!((&found.values, &found.policy), (&one.values, &one.policy), "{name} on {ranks} ranks");
            assert_eq!((found.certificate, found.size), (one.certificate, one.size), "{name} on {ranks} ranks");
        }
    }
}

/// Models of more states than 32 bits number have rows everywhere, and no whole.
#[test]
fn rows_on_demand_have_numbers_of_64_bits() {
    let grid = SlipGrid { width: 100_000, height: 100_000, ..SlipGrid::default() };
    let queues = QueueNetwork { queues: 5, capacity: 99, ..QueueNetwork::default() };
    let garnet = Garnet { states: 10_000_000_000, ..Garnet::default() };
    let forest = Forest { ages: 10_000_000_000, ..Forest::default() };
    let sources: [Box<dyn Described>; 4] = [
        Box::new(grid.source().unwrap()),
        Box::new(queues.source().unwrap()),
        Box::new(garnet.source().unwrap()),
        Box::new(forest.source().unwrap()),
    ];
    for source in &sources {
        assert_eq!(source.states(), 10_000_000_000);
        for first in [0, (1 << 32) - 50, 7_654_321_098, source.states() - 100] {
            let rows = source.rows(first..first + 100).unwrap();
            let Columns::Long(col) = &rows.transitions.col else { panic!("columns of 32 bits") };
            assert!(rows.count() >= 200 && col.len() >= rows.count() && col.iter().all(|&col| col < source.states()));
        }
    }
    let rows = sources[0].rows(5_000_050_000..5_000_050_001).unwrap();
    let Columns::Long(col) = &rows.transitions.col else { panic!("columns of 32 bits") };
    assert_eq!(col[..3], [4_999_950_000, 5_000_049_999, 5_000_050_001]);
    let last = sources[0].rows(9_999_999_999..10_000_000_000).unwrap();
    assert_eq!(last.rewards.val.len(), 4, "every action may stay in the goal");
    for error in [grid.generate().err(), queues.generate().err(), garnet.generate().err(), forest.generate().err()] {
        assert!(error.unwrap().to_string().contains("4294967295"));
    }
}

/// A model of more states than a rank can number, of which only the count matters here.
struct Vast;

impl Whole for Vast {
    fn states(&self) -> u64 {
        20_000_000_000
    }

    fn gamma(&self) -> f64 {
        0.9
    }

    fn objective(&self) -> Objective {
        Objective::Maximize
    }

    fn transitions_before(&self, state: u64) -> u64 {
        state
    }

    fn rows(&self, states: Range<u64>) -> Result<Rows<'_>, Fault> {
        Err(format!("{states:?} is read").into())
    }
}

#[test]
fn too_few_ranks_are_told_how_many_are_necessary() {
    let options = cpu(Some(Method::Values));
    let message = |ranks| solved_in_parts(&Vast, ranks, &options).unwrap_err().to_string();
    let few = message(4);
    assert!(few.contains("5000000000 states") && few.contains("at least 5 ranks"), "{few}");
    assert_eq!(message(5), "0..4000000000 is read");
}

/// Who has what of a model that several ranks solve.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    Whole,
    Part,
}

/// Files of checkpoints of a solve.
#[derive(Clone, Copy, Default)]
struct Kept<'a> {
    resume: Option<&'a Path>,
    write: Option<&'a Path>,
    /// Stops after this number of rounds; 0 for no stop.
    rounds: usize,
}

/// Solves on some ranks with checkpoints. Returns the values of all states, and why the last checkpoint could not be written.
fn kept(
    mdp: &Mdp,
    (ranks, holds): (u32, Holds),
    options: &SolveOptions,
    files: Kept,
) -> Result<(Solution, Option<String>), SolveError> {
    let work = |comm: &Local| {
        let mut checkpoints = files.write.map(|path| match comm.rank() {
            0 => Checkpoints::new(path.to_owned(), Duration::MAX, |_| {}),
            _ => Checkpoints::elsewhere(),
        });
        let mut rounds = 0;
        let observe = &mut |_: &Round| {
            rounds += 1;
            if rounds == files.rounds { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let solve = match holds {
            Holds::Whole => Solve::new(mdp, options),
            Holds::Part => Solve::in_parts(mdp, options),
        };
        let (resume, checkpoints_of_solve) = (files.resume, checkpoints.as_mut());
        let session =
            Session { initial: Initial::Zero, resume, checkpoints: checkpoints_of_solve, observe: Some(observe) };
        let solution = solve.session(session).run_on(comm)?;
        Ok::<_, SolveError>((solution, checkpoints.and_then(|kept| kept.finish().err()).map(|error| error.to_string())))
    };
    let mut all = Local::run(ranks, PATIENCE, work)?.into_iter();
    let (mut first, failed) = all.next().unwrap();
    for (part, _) in all {
        first.values.extend(part.values);
    }
    Ok((first, failed))
}

/// A checkpoint, its file and its values.
struct Stopped {
    solution: Solution,
    checkpoint: Checkpoint,
    values: Vec<f64>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// Solves on some ranks, stops after this number of rounds, and returns the checkpoint of that moment.
fn interrupted(mdp: &Mdp, ranks: (u32, Holds), options: &SolveOptions, rounds: usize) -> Stopped {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let files = Kept { write: Some(&path), rounds, ..Kept::default() };
    let (solution, failed) = kept(mdp, ranks, options, files).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((solution.run.status, failed), (Status::Interrupted, None));
    let (checkpoint, values) = Checkpoint::open(&path, mdp, hash(mdp)).unwrap();
    let values = values.take(0..mdp.states().into()).unwrap();
    Stopped { solution, checkpoint, values, path, _folder: folder }
}

fn resumed(mdp: &Mdp, ranks: (u32, Holds), options: &SolveOptions, path: &Path) -> Solution {
    let files = Kept { resume: Some(path), ..Kept::default() };
    kept(mdp, ranks, options, files).unwrap_or_else(|error| panic!("{error}")).0
}

/// A checkpoint of any number of ranks goes on on any other, with the bits of a run that was not interrupted if the sweeps
/// are those of Jacobi, and with all counters.
#[test]
fn checkpoints_go_on_on_other_numbers_of_ranks() {
    let random = Random::new(5).mdp(500, 3, 20, 0.995);
    let grid = SlipGrid { width: 37, height: 30, gamma: 0.999, ..SlipGrid::default() }.generate().unwrap();
    for (number, mdp) in [grid.clone(), random, grid.with_objective(Objective::Minimize)].into_iter().enumerate() {
        for (method, precision, device) in [
            (Method::Values, Precision::F64, DeviceChoice::Cpu),
            (Method::Values, Precision::Refined, DeviceChoice::Cpu),
            (Method::Values, Precision::F64, DeviceChoice::Emulated),
            (Method::Values, Precision::Mixed, DeviceChoice::Emulated),
            (Method::GaussSeidel, Precision::F64, DeviceChoice::Cpu),
            (Method::Modified, Precision::F64, DeviceChoice::Cpu),
            (Method::Krylov, Precision::F64, DeviceChoice::Cpu),
            (Method::Parallel, Precision::F64, DeviceChoice::Cpu),
        ] {
            // The first model shows what depends on the method, the others what depends on the model.
            if number > 0 && method != Method::Values {
                continue;
            }
            let what = format!("{method} in {precision} on {device}");
            let options = SolveOptions { device, precision, reorder: Reorder::Rcm, ..cpu(Some(method)) };
            let whole = solved(&mdp, 1, None, &options);
            if whole.run.rounds.len() < 3 {
                continue;
            }
            for (before, after) in [(1, 1), (1, 3), (4, 1), (2, 3)] {
                if device == DeviceChoice::Emulated && before + after > 4 {
                    continue;
                }
                let stopped = interrupted(&mdp, (before, Holds::Whole), &options, 2);
                assert_eq!(stopped.checkpoint.run.sweeps(), stopped.solution.run.sweeps());
                let found = resumed(&mdp, (after, Holds::Whole), &options, &stopped.path);
                assert_agree(&what, &found, &whole);
                assert_eq!(found.run.status, Status::Solved, "{what}");
                assert_eq!(found.run.rounds[1].sweeps, stopped.solution.run.rounds[1].sweeps, "{what}");
                assert!(found.run.elapsed >= stopped.solution.run.elapsed);
                // Blocks of Gauss-Seidel sweeps end where the states of a rank do.
                let same = method == Method::Values || method == Method::GaussSeidel && (before, after) == (1, 1);
                if same && precision == Precision::F64 {
                    assert_eq!(found.values, whole.values, "{what}");
                    assert_eq!(found.run.sweeps(), whole.run.sweeps(), "{what}");
                }
            }
        }
    }
}

/// A round of Gauss-Seidel sweeps that a limit cut short goes on where it was.
#[test]
fn a_cut_round_of_gauss_seidel_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let random = Random::new(5).mdp(500, 3, 20, 0.995);
    let grid = SlipGrid { width: 37, height: 30, gamma: 0.999, ..SlipGrid::default() }.generate().unwrap();
    for (number, mdp) in [random, grid].into_iter().enumerate() {
        let options = SolveOptions { precision: Precision::F64, ..cpu(Some(Method::GaussSeidel)) };
        let whole = solved(&mdp, 1, None, &options);
        for most in [1, 64, 127, 128, 129, 150] {
            let path = folder.path().join(format!("{number}-{most}"));
            let limits = Limits { max_sweeps: most, ..options.limits };
            let cut = SolveOptions { limits, ..options };
            kept(&mdp, (1, Holds::Whole), &cut, Kept { write: Some(&path), ..Kept::default() }).unwrap();
            let found = resumed(&mdp, (1, Holds::Whole), &options, &path);
            assert!(found.values == whole.values, "model {number}, {most} of {} sweeps", whole.run.sweeps());
        }
    }
}

/// A run that ends before its results are written has them again from its last checkpoint, without a sweep; but for another target.
#[test]
fn solved_checkpoints_need_no_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let mdp = SlipGrid { width: 37, height: 30, gamma: 0.999, ..SlipGrid::default() }.generate().unwrap();
    for (method, precision, ranks) in [
        (Method::Values, Precision::F64, 1),
        (Method::Values, Precision::F64, 3),
        (Method::Values, Precision::Refined, 1),
        (Method::GaussSeidel, Precision::F64, 1),
        (Method::Modified, Precision::F64, 1),
    ] {
        let path = folder.path().join(format!("{method}-{precision}-{ranks}"));
        let limits = Limits { target: Target::Epsilon(1e-3), ..Limits::default() };
        let options = SolveOptions { precision, limits, ..cpu(Some(method)) };
        let files = Kept { write: Some(&path), ..Kept::default() };
        let whole = kept(&mdp, (ranks, Holds::Whole), &options, files).unwrap().0;
        assert_eq!(whole.run.status, Status::Solved);
        let found = resumed(&mdp, (1, Holds::Whole), &options, &path);
        assert_eq!((found.run.status, found.run.sweeps()), (Status::Solved, whole.run.sweeps()), "{method}");
        assert_eq!((found.values, found.policy), (whole.values, whole.policy), "{method}");
        let limits = Limits { target: Target::Epsilon(1e-6), ..options.limits };
        let tighter = resumed(&mdp, (1, Holds::Whole), &SolveOptions { limits, ..options }, &path);
        assert!(tighter.converged(&limits) && tighter.run.sweeps() > whole.run.sweeps(), "{method}");
    }
}

/// Limits count the sweeps before a checkpoint.
#[test]
fn limits_count_what_came_before_a_checkpoint() {
    let mdp = SlipGrid { gamma: 0.9999, ..SlipGrid::default() }.generate().unwrap();
    let limits = Limits { max_sweeps: 150, ..Limits::default() };
    let options = SolveOptions { limits, ..cpu(Some(Method::Values)) };
    let stopped = interrupted(&mdp, (1, Holds::Whole), &options, 1);
    let found = resumed(&mdp, (2, Holds::Part), &options, &stopped.path);
    assert_eq!((found.run.status, found.run.sweeps()), (Status::SweepLimit, 150));
    assert_eq!(found.values, solved(&mdp, 1, None, &options).values);
}

/// Ranks write their values into one file and read their own: any number of ranks goes on after any other, whoever has the whole model,
/// with the bits of a run that was not interrupted.
#[test]
fn checkpoints_in_parts_go_on_on_other_numbers_of_ranks() {
    use Holds::{Part, Whole};
    let random = Random::new(5).mdp(500, 3, 20, 0.995);
    // The longer the way to the goal, the more sweeps.
    let grid = SlipGrid { width: 400, height: 4, gamma: 0.999, ..SlipGrid::default() }.generate().unwrap();
    let mut stopped_within = 0;
    for mdp in [random, grid.clone(), grid.with_objective(Objective::Minimize)] {
        let options = SolveOptions { precision: Precision::F64, reorder: Reorder::None, ..cpu(Some(Method::Values)) };
        let whole = solved(&mdp, 1, None, &options);
        if whole.run.rounds.len() < 3 {
            continue;
        }
        stopped_within += 1;
        let first = interrupted(&mdp, (1, Whole), &options, 2);
        for (before, after) in [(1, 7), (2, 3), (4, 5), (7, 2), (5, 1)] {
            let stopped = interrupted(&mdp, (before, Part), &options, 2);
            assert!(stopped.values == first.values, "{before} ranks");
            assert_eq!(stopped.checkpoint.run.sweeps(), first.checkpoint.run.sweeps());
            for (path, ranks) in
                [(&stopped.path, (after, Part)), (&stopped.path, (1, Whole)), (&first.path, (after, Part))]
            {
                let found = resumed(&mdp, ranks, &options, path);
                assert!(found.values == whole.values, "{before} ranks, then {ranks:?}");
                assert_eq!((found.run.sweeps(), found.run.status), (whole.run.sweeps(), Status::Solved));
            }
        }
        for method in [Method::GaussSeidel, Method::Modified, Method::Krylov, Method::Parallel] {
            let options = cpu(Some(method));
            if solved(&mdp, 3, None, &options).run.rounds.len() < 2 {
                continue;
            }
            let stopped = interrupted(&mdp, (3, Part), &options, 1);
            let found = resumed(&mdp, (2, Part), &options, &stopped.path);
            assert!(found.converged(&Limits::default()), "{method}: {:?}", found.run.status);
        }
    }
    assert!(stopped_within > 0, "every model is solved before its second round ends");
}

/// The hashes of ranges add up to that of the model, in any format, with columns of any type in any order, and made on demand.
#[test]
fn hashes_of_parts_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut random = Random::new(8);
    let mut sum = |whole: &dyn Whole, parts: usize| {
        let mut splits: Vec<_> = (1..parts).map(|_| random.below(whole.states() + 1)).collect();
        splits.extend([0, whole.states()]);
        splits.sort_unstable();
        splits.windows(2).map(|ends| hash_of(whole, ends[0]..ends[1]).unwrap()).fold(Hash::default(), Hash::and)
    };
    for (number, mdp) in models().iter().enumerate() {
        let expected = hash(mdp);
        let [short, long, turned] =
            ["short", "long", "turned"].map(|name| path(&format!("{name}-{number}.safetensors")));
        files::write(&short, mdp).unwrap();
        rewritten(&short, &long, |arrays| widen(arrays, Dtype::I64));
        let row_ptr = mdp.transitions().row_ptr();
        rewritten(&short, &turned, |arrays| {
            for (name, size) in [("P.indices", 4), ("P.data", 8)] {
                let data = &mut arrays.get_mut(name).unwrap().1;
                for ends in row_ptr.windows(2) {
                    let mut row: Vec<_> = data[ends[0] as usize * size..ends[1] as usize * size]
                        .chunks(size)
                        .map(<[u8]>::to_vec)
                        .collect();
                    row.reverse();
                    data[ends[0] as usize * size..ends[1] as usize * size].copy_from_slice(&row.concat());
                }
            }
        });
        for parts in 1..=7 {
            assert_eq!(sum(mdp, parts), expected, "model {number}");
            for file in [&short, &long, &turned] {
                assert_eq!(sum(&open(file).unwrap(), parts), expected, "{}", file.display());
            }
        }
        // A number that differs gives another hash.
        let values = mdp.transitions().val().to_vec();
        let Some(at) = values.iter().rposition(|&value| value < 1.0 && value > 1e-3) else { continue };
        rewritten(&short, &turned, |arrays| {
            arrays.get_mut("P.data").unwrap().1[8 * at..8 * at + 8]
                .copy_from_slice(&(values[at] * (1.0 - 1e-9)).to_le_bytes());
        });
        assert_ne!(sum(&open(&turned).unwrap(), 3), expected, "model {number}");
    }
    for (name, source, mdp) in families() {
        assert_eq!(sum(&*source, 5), hash(&mdp), "{name}");
    }
}

/// What is wrong with a checkpoint is one message, the same on all ranks. A checkpoint that cannot be written stops no solve.
#[test]
fn faults_of_checkpoints_in_parts_are_told() {
    let mdp = SlipGrid { gamma: 0.99, ..SlipGrid::default() }.generate().unwrap();
    let options = SolveOptions { reorder: Reorder::None, ..cpu(Some(Method::Values)) };
    let stopped = interrupted(&mdp, (3, Holds::Part), &options, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let bytes = fs::read(&stopped.path).unwrap();
    let end = bytes.len();
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let (path, mut bytes) = (path(name), bytes.clone());
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        path
    };
    let old = changed("old", &|bytes| {
        let at = bytes.windows(13).position(|text| text == br#""version":"2""#).unwrap();
        bytes[at + 11] = b'1';
    });
    let other = SlipGrid { slip: 0.3, gamma: 0.99, ..SlipGrid::default() }.generate().unwrap();
    let minimized = mdp.clone().with_objective(Objective::Minimize);
    for (mdp, path, expected) in [
        (&other, &stopped.path, "the checkpoint belongs to another model"),
        (&minimized, &stopped.path, "minimize"),
        (&mdp, &old, "the checkpoint has version \"1\", expected \"2\""),
        (&mdp, &changed("short", &|bytes| bytes.truncate(end - 8)), "damaged"),
        (
            &mdp,
            &changed("nan", &|bytes| bytes[end - 80..end - 72].copy_from_slice(&f64::NAN.to_le_bytes())),
            "4086 is NaN",
        ),
        (&mdp, &path("none"), "No such file"),
    ] {
        let error = |ranks| {
            let files = Kept { resume: Some(path), ..Kept::default() };
            kept(mdp, ranks, &options, files).map(drop).unwrap_err().to_string()
        };
        let one = error((1, Holds::Whole));
        assert!(one.contains(expected) && one.contains(path.to_str().unwrap()), "{one}");
        for ranks in [(3, Holds::Whole), (1, Holds::Part), (4, Holds::Part)] {
            assert_eq!(error(ranks), one, "{ranks:?}");
        }
    }
    let missing = path("none").join("checkpoint");
    for ranks in [(1, Holds::Whole), (3, Holds::Whole), (3, Holds::Part)] {
        let (solution, failed) =
            kept(&mdp, ranks, &options, Kept { write: Some(&missing), ..Kept::default() }).unwrap();
        assert!(solution.converged(&Limits::default()) && failed.is_some_and(|message| message.contains("no folder")));
    }
    // What is no regular file gets the values piece by piece.
    #[cfg(target_os = "linux")]
    for ranks in 1..=3 {
        use std::os::fd::AsRawFd;
        let file = fs::File::create(path("descriptor")).unwrap();
        let descriptor = PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()));
        let files = Kept { write: Some(&descriptor), rounds: 1, ..Kept::default() };
        assert_eq!(kept(&mdp, (ranks, Holds::Part), &options, files).unwrap().1, None);
        let (found, values) = Checkpoint::open(&path("descriptor"), &mdp, hash(&mdp)).unwrap();
        assert_eq!(found.run.sweeps(), stopped.checkpoint.run.sweeps());
        assert!(values.take(0..4096).unwrap() == stopped.values);
    }
}

/// A solve whose certificate sends it on writes one checkpoint, at its end.
#[test]
fn attempts_write_no_checkpoints() {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let mdp = Random::new(2).mdp(300, 3, 9, 0.999);
    for method in [Method::Values, Method::GaussSeidel, Method::Parallel, Method::Modified] {
        let limits = Limits { target: Target::Epsilon(1e-9), ..Limits::default() };
        let options = SolveOptions { limits, precision: Precision::F64, ..cpu(Some(method)) };
        WRITTEN.store(0, Ordering::Relaxed);
        let missing = tempfile::tempdir().unwrap().path().join("none/checkpoint");
        let mut checkpoints = Checkpoints::new(missing, Duration::MAX, |_| {
            WRITTEN.fetch_add(1, Ordering::Relaxed);
        });
        let session = Session { checkpoints: Some(&mut checkpoints), ..Session::default() };
        Solve::new(&mdp, &options).session(session).run().unwrap();
        assert_eq!(WRITTEN.load(Ordering::Relaxed), 1, "{method}");
    }
}

/// A checkpoint is that of one problem; the format of a model does not matter.
#[test]
fn checkpoints_belong_to_a_model() {
    let mdp = SlipGrid { gamma: 0.99, ..SlipGrid::default() }.generate().unwrap();
    let stopped = interrupted(&mdp, (1, Holds::Whole), &cpu(Some(Method::Values)), 1);
    let error = |mdp: &Mdp| Checkpoint::open(&stopped.path, mdp, hash(mdp)).err().unwrap().to_string();
    assert!(error(&SlipGrid { slip: 0.3, ..SlipGrid::default() }.generate().unwrap()).contains("another model"));
    assert!(error(&mdp.clone().with_gamma(0.5).unwrap()).contains("gamma 0.99"));
    assert!(error(&mdp.clone().with_objective(Objective::Minimize)).contains("minimize"));
    assert!(Proposal::read(&stopped.path, &mdp, "average, maximize").unwrap_err().to_string().contains("problem"));
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.json", "model.safetensors", "model.npz"] {
        let model = folder.path().join(name);
        files::write(&model, &mdp).unwrap();
        assert_eq!(hash(&files::read(&model).unwrap()), hash(&mdp), "{name}");
    }
}
