//! Several ranks solve a model: shared searches have the bits of one rank, and the bounds of searches apart hold for all.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use warpkov_pomdp::generate::{FourByThree, Maze, Olfactory, Tiger};
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::{Expansion, Limits, Precision, Scheme, SolveOptions};
use warpkov_pomdp::solution::{Solution, Status};
use warpkov_pomdp::solve::{Error, solve_on, solve_with};
use warpkov_pomdp::verify::verify;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::{self, Communicator, Local};

use crate::common::{model_of, options, small_gap, watch};
use crate::random::Random;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn try_on(size: u32, model: &Pomdp, options: &SolveOptions) -> Result<Vec<Solution>, Error> {
    Local::run(size, PATIENCE, |local| solve_on(local, model, options, &mut watch()))
}

/// The solution of each rank, all with equal policies and ends.
fn solve(size: u32, model: &Pomdp, options: &SolveOptions) -> Solution {
    let mut all = try_on(size, model, options).unwrap();
    for other in &all[1..] {
        assert_eq!((&other.vectors, other.status), (&all[0].vectors, all[0].status));
        assert_eq!(other.end().iterations, all[0].end().iterations);
        assert_eq!(other.end().backups, all[0].end().backups);
    }
    if size > 1 {
        let ranks = &all[0].ranks;
        assert_eq!(ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), (0..size).collect::<Vec<_>>());
        assert!(ranks.iter().all(|rank| rank.time.waiting > 0.0 && rank.time.sweeps > 0.0), "{ranks:?}");
    }
    all.swap_remove(0)
}

/// A random model of 2 to 6 states, 2 or 3 actions and 1 to 3 observations, with rewards and costs of any size.
fn random_model(random: &mut Random) -> Pomdp {
    let (states, actions) = (2 + random.below(5) as u32, 2 + random.below(2) as u32);
    let observations = 1 + random.below(3) as u32;
    let size = 10_f64.powf(6.0 * random.unit() - 3.0);
    let gamma = 0.3 + 0.6 * random.unit();
    model_of(random, [states, actions, observations], gamma, size)
}

/// Asserts that the policy attains the reported bound.
fn is_attained(model: &Pomdp, solution: &Solution, what: &str) {
    let end = solution.end();
    let (maximized, sign) = (model.to_maximize(), model.process().objective().sign());
    let attained = if sign > 0.0 { end.lower } else { -end.upper };
    let found = verify(&maximized, &solution.vectors.clone().times(sign), 1e-8, 3000, &|| false).unwrap();
    let size = 1e-6 * (1.0 + found.value.abs());
    assert!(found.value >= attained - 1e-9 * size && found.lower() >= attained - size, "{what}: {found:?}, {end:?}");
}

fn same(one: &Solution, many: &Solution, what: &str) {
    assert_eq!(one.vectors, many.vectors, "{what}");
    let ends = [one, many].map(|solution| {
        let end = solution.end();
        (end.lower.to_bits(), end.upper.to_bits(), end.iterations, end.backups, end.beliefs, end.vectors)
    });
    assert_eq!(ends[0], ends[1], "{what}");
    assert_eq!(one.status, many.status, "{what}");
}

/// Ranks that run the same search together have the result of one rank, bit for bit.
#[test]
fn shared_searches_have_the_bits_of_one_rank() {
    let mut random = Random::new(31);
    let mut models = vec![Tiger::default().generate().unwrap(), FourByThree::default().generate().unwrap()];
    models.extend((0..4).map(|_| random_model(&mut random)));
    let ways = [
        (Expansion::Ssea, Scheme::Full, None, 6),
        (Expansion::Ger, Scheme::Full, None, 4),
        (Expansion::Random, Scheme::Randomized, None, 6),
        (Expansion::Hsvi, Scheme::Path, Some(5), 8),
        (Expansion::Mixed, Scheme::Path, Some(3), 8),
    ];
    for (index, model) in models.iter().enumerate() {
        for (expansion, scheme, trials, iterations) in ways {
            let (expansion, scheme) = (Some(expansion), Some(scheme));
            let options = SolveOptions { expansion, scheme, trials, beliefs: 16, ..options(1e-9, iterations) };
            let one = solve_with(model, &options, &mut watch()).unwrap();
            let sizes: &[u32] = if index == 0 { &[1, 2, 3, 4, 5, 6, 7] } else { &[3] };
            for &size in sizes {
                same(&one, &solve(size, model, &options), &format!("model {index}, {options:?}, {size} ranks"));
            }
        }
    }
}

/// So have shared searches whose backups run on emulated devices.
#[test]
fn shared_searches_on_devices_have_the_bits_of_one_rank() {
    let tiger = Tiger::default().generate().unwrap();
    for (expansion, scheme, precision, size, iterations) in [
        (Expansion::Random, Scheme::Randomized, Precision::F64, 2, 2),
        (Expansion::Ssea, Scheme::Full, Precision::F32, 3, 1),
        (Expansion::Hsvi, Scheme::Path, Precision::F64, 3, 2),
    ] {
        let (expansion, scheme, trials, device) = (Some(expansion), Some(scheme), Some(4), DeviceChoice::Emulated);
        let options =
            SolveOptions { device, precision, expansion, scheme, trials, beliefs: 8, ..options(1e-9, iterations) };
        let one = solve_with(&tiger, &options, &mut watch()).unwrap();
        same(&one, &solve(size, &tiger, &options), &format!("{options:?}, {size} ranks"));
    }
}

/// Ranks with their own trials reach the gap, their bounds contain each other, their policies attain them, and equally many
/// ranks repeat themselves.
#[test]
fn trials_apart_reach_the_gap() {
    let mut random = Random::new(5);
    let known = [
        (Tiger::default().generate().unwrap(), Some((19.3711, 19.3722))),
        (FourByThree::default().generate().unwrap(), None),
    ];
    let mut models: Vec<(Pomdp, Option<(f64, f64)>)> = known.into_iter().collect();
    models.extend((0..6).map(|_| (random_model(&mut random), None)));
    for (index, (model, value)) in models.iter().enumerate() {
        let gap = if index < 2 { 1e-2 } else { small_gap(model) };
        let expansion = [None, Some(Expansion::Hsvi), Some(Expansion::Sarsop)][index % 3];
        let options = SolveOptions { expansion, ..options(gap, 20_000) };
        let alone = solve_with(model, &options, &mut watch()).unwrap();
        same(&alone, &solve(1, model, &options), "one rank is today's search");
        let mut ends = vec![*alone.end()];
        for size in [2, 3, 4, 5, 6, 7].into_iter().filter(|size| index == 0 || *size < 4) {
            let what = format!("model {index}, {size} ranks");
            let solution = solve(size, model, &options);
            let end = *solution.end();
            assert_eq!(solution.status, Status::Gap, "{what}: {end:?}");
            assert!(end.gap() <= gap, "{what}: {end:?}");
            if let Some((lower, upper)) = value {
                assert!(end.lower <= *upper && end.upper >= *lower, "{what}: {end:?}");
            }
            is_attained(model, &solution, &what);
            if size == 3 {
                same(&solution, &solve(size, model, &options), &what);
            }
            ends.push(end);
        }
        for one in &ends {
            assert!(ends.iter().all(|other| one.lower <= other.upper), "model {index}: {ends:?}");
        }
    }
}

/// A model that is not solved to the end, with several initial beliefs or with little memory: the bounds hold.
#[test]
fn trials_apart_keep_limits() {
    let maze = Maze::hallway().generate().unwrap();
    let mut ends = Vec::new();
    for size in [1, 3] {
        // A limit of expansions is met exactly, and shared among all ranks.
        for iterations in [1, 7] {
            let solution = solve(size, &maze, &options(1e-3, iterations));
            assert_eq!((solution.status, solution.end().iterations), (Status::Iterations, iterations), "{size} ranks");
            ends.push(*solution.end());
        }
        let limits = Limits { memory: Some(2_000_000), vectors: 40, ..options(1e-3, 12).limits };
        let solution = solve(size, &maze, &SolveOptions { limits, ..options(1e-3, 12) });
        assert!(matches!(solution.status, Status::Iterations | Status::Memory), "{solution:?}");
        is_attained(&maze, &solution, &format!("{size} ranks with little memory"));
        ends.push(*solution.end());
    }
    for one in &ends {
        assert!(ends.iter().all(|other| one.lower <= other.upper), "{ends:?}");
    }
    // More trials of more ranks close more of the gap than one trial.
    assert!(ends.last().unwrap().gap() < ends[0].gap());
}

/// Walks on emulated devices: bounds of all numbers of ranks contain each other, policies attain them, runs repeat.
fn walks_on_devices_share_their_findings(model: &Pomdp, precision: Precision, iterations: u64, least: f64) {
    let device = DeviceChoice::Emulated;
    let options = SolveOptions { device, precision, beliefs: 8, ..options(1e-3, iterations) };
    let alone = solve_with(model, &options, &mut watch()).unwrap();
    let mut ends = vec![*alone.end()];
    for size in [2, 3] {
        let what = format!("{} states, {size} ranks", model.states());
        let solution = solve(size, model, &options);
        let end = *solution.end();
        assert!(end.lower >= least, "{what}: {end:?}");
        assert_eq!(end.iterations, iterations, "{what}");
        is_attained(model, &solution, &what);
        ends.push(end);
        if size == 3 || precision == Precision::F32 {
            continue;
        }
        same(&solution, &solve(size, model, &options), "repeated");
        // With little memory, points and vectors are dropped and the run continues.
        let limits = Limits { memory: Some(300_000), vectors: 20, ..options.limits };
        let short = solve(size, model, &SolveOptions { limits, ..options });
        is_attained(model, &short, &what);
        ends.push(*short.end());
    }
    for one in &ends {
        assert!(ends.iter().all(|other| one.lower <= other.upper), "{ends:?}");
    }
}

#[test]
fn walks_for_the_tiger_share_their_findings() {
    walks_on_devices_share_their_findings(&Tiger::default().generate().unwrap(), Precision::F64, 34, -20.0);
}

#[test]
fn walks_by_smell_share_their_findings() {
    let smell = Olfactory { width: 7, height: 5, source: (1, 2), gamma: 0.9, ..Olfactory::default() };
    walks_on_devices_share_their_findings(&smell.generate().unwrap(), Precision::F32, 20, -0.01);
}

/// The ways in which ranks search, on a model that none of them solves.
fn ways() -> [SolveOptions; 4] {
    let endless = options(1e-12, u64::MAX);
    [
        endless,
        SolveOptions { trials: Some(4), ..endless },
        SolveOptions { expansion: Some(Expansion::Ssea), beliefs: 16, ..endless },
        SolveOptions { device: DeviceChoice::Emulated, beliefs: 8, ..endless },
    ]
}

/// The time limit, and a stop request of any rank, end all ranks in the same round.
#[test]
fn all_ranks_end_in_the_same_round() {
    let maze = Maze::hallway().generate().unwrap();
    for (way, endless) in ways().into_iter().enumerate() {
        // Emulated walks are slow.
        let stopping = if endless.device == DeviceChoice::Emulated { 1..2 } else { 0..3 };
        for stopping in stopping {
            let all = Local::run(3, PATIENCE, |local| {
                let (mut checks, mut watch) = (0, watch());
                solve_on(local, &maze, &endless, &mut |round| {
                    checks += 1;
                    let stops = local.rank() == stopping && checks > 8;
                    if stops { ControlFlow::Break(()) } else { watch(round) }
                })
            });
            let all = all.unwrap();
            assert!(all.iter().all(|one| one.status == Status::Interrupted), "way {way}, rank {stopping}");
            let iterations = |one: &Solution| (one.end().iterations, one.end().backups);
            assert!(all.iter().all(|one| iterations(one) == iterations(&all[0])), "way {way}, rank {stopping}");
            assert!(all.iter().all(|one| one.vectors.len() == all[0].vectors.len()), "way {way}, rank {stopping}");
        }
        let limits = Limits { time: Some(Duration::from_millis(250)), ..endless.limits };
        let start = Instant::now();
        let all = try_on(3, &maze, &SolveOptions { limits, ..endless }).unwrap();
        assert!(all.iter().all(|one| one.status == Status::Time), "way {way}");
        assert!(all.iter().all(|one| one.end().iterations == all[0].end().iterations), "way {way}");
        assert!(start.elapsed() < PATIENCE / 2, "way {way}");
    }
}

/// A rank that fails, that panics, or that never comes, ends all others with an error.
#[test]
fn a_failing_rank_ends_all() {
    let maze = Maze::hallway().generate().unwrap();
    for endless in ways() {
        let found = Local::run::<Solution, Error>(3, PATIENCE, |local| match local.rank() {
            1 => Err(Error::Endless),
            _ => solve_on(local, &maze, &endless, &mut watch()),
        });
        assert!(matches!(found, Err(Error::Endless)), "{found:?}");
        let panicked = std::panic::catch_unwind(|| {
            Local::run::<Solution, Error>(2, PATIENCE, |local| {
                let mut checks = 0;
                solve_on(local, &maze, &endless, &mut |_| {
                    checks += 1;
                    assert!(local.rank() == 0 || checks < 8, "a rank panics");
                    ControlFlow::Continue(())
                })
            })
        });
        assert!(panicked.is_err());
        let short = Duration::from_millis(300);
        let late = Local::run::<(), Error>(2, short, |local| {
            if local.rank() == 0 {
                solve_on(local, &maze, &endless, &mut watch())?;
            }
            Ok(())
        });
        let Err(Error::Runtime(warpkov_runtime::Error::Comm(error))) = late else { panic!("{late:?}") };
        assert!(matches!(&error, comm::Error::Timeout { rank: 0, others, .. } if others == &[1]), "{error}");
    }
}

/// Ranks with different models or without their device agree on the error.
#[test]
fn ranks_agree_on_errors() {
    let models = [Tiger::default().generate().unwrap(), FourByThree::default().generate().unwrap()];
    let errors = Local::run::<_, comm::Error>(3, PATIENCE, |local| {
        let model = &models[usize::from(local.rank() == 2)];
        Ok(solve_on(local, model, &options(1e-3, 3), &mut watch()).map(|solution| solution.status).unwrap_err())
    });
    assert!(errors.unwrap().iter().all(|error| matches!(error, Error::Models)));
    let errors = Local::run::<_, comm::Error>(3, PATIENCE, |local| {
        let device = if local.rank() == 1 { DeviceChoice::Cuda(4096) } else { DeviceChoice::Cpu };
        let options = SolveOptions { device, ..options(1e-3, 3) };
        Ok(solve_on(local, &models[0], &options, &mut watch()).map(|solution| solution.status).unwrap_err())
    });
    let errors = errors.unwrap();
    assert!(matches!(errors[1], Error::Runtime(warpkov_runtime::Error::Device(_))), "{errors:?}");
    assert!(matches!(errors[..], [Error::Elsewhere(1), _, Error::Elsewhere(1)]), "{errors:?}");
}

/// A finite horizon is not divided; all ranks find the plan of one.
#[test]
fn finite_horizons_are_repeated() {
    let tiger = Tiger::default().generate().unwrap();
    let options = SolveOptions { horizon: Some(6), ..options(1e-3, 10_000) };
    let one = solve_with(&tiger, &options, &mut watch()).unwrap();
    for size in [2, 3] {
        let many = solve(size, &tiger, &options);
        same(&one, &many, "horizon");
        assert_eq!(one.stages, many.stages);
        assert!(many.notes.iter().any(|note| note.contains("not divided")), "{:?}", many.notes);
    }
}
