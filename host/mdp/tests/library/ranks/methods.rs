//! Every method, layout and criterion on several ranks, against one rank.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_mdp::SolveError;
#[cfg(feature = "metis")]
use warpkov_mdp::analysis::reorder::Order;
use warpkov_mdp::criterion::{self, Criterion, SolvedOn, solve_on};
use warpkov_mdp::generate::{Garnet, SlipGrid};
#[cfg(feature = "metis")]
use warpkov_mdp::model::{Mdp, Objective};
use warpkov_mdp::options::{Divide, Limits, Method, Precision, Reorder, SolveOptions, Spmv, Storage, Target};
use warpkov_mdp::solution::{Round, Solution, Status};
use warpkov_mdp::solve::Solve;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::{Communicator, Error, Exchange, Local, Message};

use crate::random::Random;

use super::common::{PATIENCE, assert_agree, cpu, models, solved};

fn go(_: &Round) -> ControlFlow<()> {
    ControlFlow::Continue(())
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
                for ranks in [[2, 7], [3, 5]][number % 2] {
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
                    let limits = Limits { target: Target::Theta(1e-9), max_sweeps: 60, ..Limits::default() };
                    let options = SolveOptions { skip, storage, limits, reorder, ..cpu(Some(Method::Values)) };
                    let one = Solve::new(&mdp, &options).run().unwrap();
                    let counts: &[u32] = match (skip, storage) {
                        (true, None) => &[1, 2, 3, 4, 5, 6, 7],
                        (true, _) => &[2, 7],
                        _ => &[2, 3],
                    };
                    for &ranks in counts {
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
            for (local_sweeps, epsilon) in [[(2, 1e-6), (100, 1e-3)], [(5, 1e-9), (2, 1e-3)]][(turn + number) % 2] {
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
