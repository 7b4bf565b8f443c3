//! The CPU engine: every storage, order and method against the plain serial backend, on random models.

use std::convert::Infallible;
use std::fmt::Debug;

use warpkov_mdp::Solve;
use warpkov_mdp::backend::{Backups, Evaluate, Evaluation, GreedySweeps, Modify, State, Stop};
use warpkov_mdp::backends::cpu::{BackupOrder, Engine, EngineOptions, Serial, Storage, System};
use warpkov_mdp::backends::krylov::{Krylov, Scale};
use warpkov_mdp::generate::{Garnet, SlipGrid};
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts};
use warpkov_mdp::options::{Limits, Method, SolveOptions, Target};
use warpkov_mdp::solution::Status;
use warpkov_mdp::solve::loops::{modified_policy_iteration, policy_iteration, to_the_end, value_iteration};
use warpkov_mdp::team::Team;
use warpkov_runtime::Precise;
use warpkov_runtime::choose::DeviceChoice;

use crate::random::Random;

const LIMITS: Limits = Limits { target: Target::Theta(1e-10), max_sweeps: 1_000_000, max_policies: 10_000, tie: 1e-12 };

const STORAGES: [Storage; 4] = [Storage::Auto, Storage::Plain, Storage::Packed, Storage::Patterns];

fn krylov(model: &Mdp, options: EngineOptions) -> Result<Krylov<System<'_>>, warpkov_runtime::comm::Error> {
    Krylov::new(System::new(Engine::new(model, options)), Scale::new(model, &Team::alone())?)
}

/// Models of every kind: ragged ones with terminal states and ends, long rows, grids with repeated patterns, and
/// one with a single state that has an action.
pub fn models() -> Vec<Mdp> {
    let mut random = Random::new(7);
    let grid = |width, height, walls, obstacles| {
        let grid = SlipGrid { width, height, walls, obstacles, ..SlipGrid::default() };
        grid.generate().unwrap()
    };
    vec![
        random.mdp(1, 2, 1, 0.5),
        random.mdp(300, 3, 40, 0.9),
        random.ragged(7, 2, 3, 0.8),
        random.ragged(5000, 4, 6, 0.95),
        random.ragged(1100, 3, 30, 0.9),
        grid(100, 70, 0.0, 0.0),
        grid(131, 60, 0.2, 0.1),
        toroid(2500, 0.9),
        almost_over(3000),
    ]
}

/// A ring on which both directions have equal costs, except for one toll: three patterns, and offsets that wrap around.
fn toroid(states: u32, gamma: f64) -> Mdp {
    let (mut col, mut val, mut cost) = (Vec::new(), Vec::new(), Vec::new());
    for state in 0..states {
        for step in [1, states - 1] {
            let mut successors = [(state, 0.25), ((state + step) % states, 0.75)];
            successors.sort_unstable_by_key(|successor| successor.0);
            col.extend(successors.map(|successor| successor.0));
            val.extend(successors.map(|successor| successor.1));
            cost.push(if state == 0 { -5.0 } else { -1.0 });
        }
    }
    let row_ptr: Vec<u64> = (0..=2 * u64::from(states)).map(|row| 2 * row).collect();
    let transitions = Csr::new(row_ptr, col, val).unwrap();
    let choices = Choices::Uniform(2);
    MdpParts { states, choices, gamma, transitions, action_rewards: cost.into(), ..MdpParts::default() }
        .validated()
        .unwrap()
}

/// Only state 0 has an action: it stays with probability ½ and otherwise enters the last state, which is terminal.
fn almost_over(states: u32) -> Mdp {
    let mut offsets = vec![1; states as usize + 1];
    offsets[0] = 0;
    MdpParts {
        states,
        choices: Choices::Ragged(offsets.into()),
        gamma: 0.9,
        transitions: Csr::new(vec![0, 2], vec![0, states - 1], vec![0.5; 2]).unwrap(),
        action_rewards: vec![1.0].into(),
        ..MdpParts::default()
    }
    .validated()
    .unwrap()
}

fn solved<B: State<Error: Debug>>(mut backend: B) -> (Vec<f64>, Vec<u32>) {
    (backend.values().unwrap(), backend.policy().unwrap())
}

fn assert_close(what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    let distance = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(distance <= tolerance, "{what}: ‖V − V*‖ = {distance:e}");
}

/// The optimal values, by the serial backend.
fn reference(model: &Mdp) -> Vec<f64> {
    let mut serial = Serial::<f64>::new(model);
    let run = policy_iteration(&mut serial, 1e-13, &LIMITS, to_the_end).unwrap();
    assert_eq!(run.status, Status::Solved);
    solved(serial).0
}

#[test]
fn every_storage_gives_the_same_bits() {
    fn check<T: Precise>(model: &Mdp) {
        let sweeps = |storage, skip| {
            let mut engine = Engine::<T>::new(model, EngineOptions { storage, skip, ..EngineOptions::default() });
            let backups = engine.backup(Stop::Change(0.0), 40).unwrap();
            let evaluation = engine.evaluate(0.0, 7).unwrap();
            let changed = engine.improve(1e-9).unwrap();
            let more = engine.backup(Stop::Change(0.0), 3).unwrap();
            let (values, policy) = solved(engine);
            let bits: Vec<u64> = values.into_iter().map(f64::to_bits).collect();
            (bits, policy, backups, evaluation, changed, more)
        };
        let expected = sweeps(Storage::Plain, false);
        for storage in STORAGES {
            for skip in [false, true] {
                assert!(sweeps(storage, skip) == expected, "{storage:?}, skip {skip}");
            }
        }
    }
    for model in models() {
        check::<f64>(&model);
        check::<f32>(&model);
    }
}

#[test]
fn sweeps_agree_with_the_serial_backend() {
    for model in models() {
        let mut serial = Serial::<f64>::new(&model);
        let expected = serial.backup(Stop::Change(0.0), 25).unwrap();
        for storage in STORAGES {
            let mut engine = Engine::<f64>::new(&model, EngineOptions { storage, ..EngineOptions::default() });
            let found = engine.backup(Stop::Change(0.0), 25).unwrap();
            assert_eq!(found.sweeps, expected.sweeps);
            assert!((found.least - expected.least).abs() < 1e-13 && (found.greatest - expected.greatest).abs() < 1e-13);
            let (Ok(values), Ok(policy)) = (serial.values(), serial.policy());
            let (own, own_policy) = solved(engine);
            assert_close("sweeps", &own, &values, 1e-12);
            let differ = own_policy.iter().zip(&policy).filter(|(a, b)| a != b).count();
            assert!(differ * 50 <= policy.len(), "{differ} of {} actions differ", policy.len());
        }
    }
}

#[test]
fn sweeps_start_from_given_values() {
    for model in models() {
        let optimal = reference(&model);
        let mut engine = Engine::<f64>::new(&model, EngineOptions::default());
        engine.reset(Some(&optimal)).unwrap();
        let backups = engine.backup(Stop::Change(1e-9), 100).unwrap();
        assert_eq!(backups.sweeps, 1);
        engine.reset(None).unwrap();
        let values = engine.values().unwrap();
        assert!(values.iter().all(|&value| value == 0.0));
    }
}

#[test]
fn all_methods_agree() {
    for model in models() {
        let optimal = reference(&model);
        let classic = BackupOrder::GaussSeidel { block: usize::MAX };
        let small = BackupOrder::GaussSeidel { block: 100 };
        for order in [BackupOrder::Jacobi, BackupOrder::BLOCKS, classic, small] {
            for storage in STORAGES {
                let options = EngineOptions { storage, order, ..EngineOptions::default() };
                let mut engine = Engine::<f64>::new(&model, options);
                let run = value_iteration(&mut engine, Stop::Change(1e-11), &LIMITS, to_the_end).unwrap();
                assert_eq!(run.status, Status::Solved, "{options:?}");
                assert_close(&format!("{options:?}"), &solved(engine).0, &optimal, 1e-9);

                // Sweep by sweep, those of Gauss-Seidel only measure.
                if order != BackupOrder::Jacobi {
                    continue;
                }
                let mut engine = Engine::<f64>::new(&model, options);
                let run =
                    modified_policy_iteration(&mut engine, model.gamma(), Stop::Change(1e-11), 10, &LIMITS, to_the_end)
                        .unwrap();
                assert_eq!(run.status, Status::Solved, "modified, {options:?}");
                assert_close(&format!("modified, {options:?}"), &solved(engine).0, &optimal, 1e-9);
            }
        }
        for storage in STORAGES {
            let options = EngineOptions { storage, ..EngineOptions::default() };
            let mut engine = Engine::<f64>::new(&model, options);
            let run = policy_iteration(&mut engine, 1e-11, &LIMITS, to_the_end).unwrap();
            assert_eq!(run.status, Status::Solved);
            assert_close("policy iteration", &solved(engine).0, &optimal, 1e-9);
            let mut krylov = krylov(&model, options).unwrap();
            let run = policy_iteration(&mut krylov, 1e-11, &LIMITS, to_the_end).unwrap();
            assert_eq!(run.status, Status::Solved);
            assert!(run.rounds.last().unwrap().residual < 1e-11);
            assert_close("Krylov", &solved(krylov).0, &optimal, 1e-9);
        }
    }
}

/// With γ near 1, distant rewards matter, and aggregation transports them: without it, 2099 and 1367 products.
#[test]
fn krylov_evaluation_needs_few_products_for_distant_rewards() {
    let ring = Garnet { states: 8000, window: Some(20), gamma: 0.9999, ..Garnet::default() }.generate().unwrap();
    let ended =
        Garnet { terminals: 0.01, ragged: true, ..Garnet { states: 8000, window: Some(20), ..Garnet::default() } };
    let ended = ended.generate().unwrap().with_gamma(0.9999).unwrap();
    for (model, most) in [(ring, 800), (ended, 1000)] {
        let options = SolveOptions {
            method: Some(Method::Krylov),
            device: DeviceChoice::Cpu,
            limits: Limits { target: Target::Epsilon(1e-6), ..Limits::default() },
            ..SolveOptions::default()
        };
        let found = Solve::new(&model, &options).run().unwrap();
        assert!(found.converged(&options.limits), "{:?}", found.certificate);
        assert!(found.run.sweeps() < most, "{} products", found.run.sweeps());
        let auto = SolveOptions { method: None, ..options };
        let auto = Solve::new(&model, &auto).run().unwrap();
        assert_close("auto", &auto.values, &found.values, 2e-6);
    }
}

/// Residuals of inexact evaluations are up to 10⁴ times as large in V, and greedy actions for such a V are not better: without
/// sweeps in between, values grew beyond all bounds.
#[test]
fn krylov_policy_iteration_solves_walled_grids() {
    for side in [10, 30, 60] {
        let grid = SlipGrid { width: side, height: side, walls: 0.1, ..SlipGrid::default() };
        let model = grid.generate().unwrap().with_gamma(0.9999).unwrap();
        for max_sweeps in [100, 1_000_000] {
            let options = SolveOptions {
                method: Some(Method::Krylov),
                device: DeviceChoice::Cpu,
                limits: Limits { max_sweeps, ..Limits::default() },
                ..SolveOptions::default()
            };
            let found = Solve::new(&model, &options).run().unwrap();
            let most = found.values.iter().fold(0.0, |most: f64, value| value.abs().max(most));
            assert!(most <= 1e4 * (1.0 + 1e-9), "{side}: {most:e}");
            let solved = found.converged(&options.limits) && found.run.sweeps() < 2000;
            assert!(solved || max_sweeps == 100, "{side}: {:?}, {} sweeps", found.certificate, found.run.sweeps());
        }
    }
}

#[test]
fn modified_policy_iteration_stops_on_the_span() {
    let model = toroid(2500, 0.99);
    let mut engine = Engine::<f64>::new(&model, EngineOptions::default());
    let run = modified_policy_iteration(&mut engine, model.gamma(), Stop::Span(1e-8), 20, &LIMITS, to_the_end).unwrap();
    assert_eq!(run.status, Status::Solved);
    let mut values = engine.values().unwrap();
    let bound = warpkov_mdp::certificate::certify_centred(&model, &mut values).bound.unwrap();
    assert!(bound <= 0.5 * 1e-8 / (1.0 - 0.99) * 1.001, "{bound:e}");
}

/// On a grid whose far side is many rounds away from the goal, the changes grow before they fall.
#[test]
fn modified_policy_iteration_waits_for_distant_states() {
    let grid = SlipGrid { width: 60, height: 60, gamma: 0.99, ..SlipGrid::default() }.generate().unwrap();
    let limits = Limits { target: Target::Epsilon(1e-6), ..Limits::default() };
    let options =
        SolveOptions { method: Some(Method::Modified), device: DeviceChoice::Cpu, limits, ..SolveOptions::default() };
    let found = Solve::new(&grid, &options).run().unwrap();
    assert_eq!(found.run.status, Status::Solved);
    assert!(found.certificate.bound.unwrap() <= 1e-6, "{:?}", found.certificate);
    let rounds: Vec<f64> = found.run.rounds.iter().map(|round| round.residual).collect();
    let (mut smallest, mut waited, mut longest) = (f64::INFINITY, 0, 0);
    for residual in rounds {
        waited = if residual < smallest { 0 } else { waited + 1 };
        (smallest, longest) = (smallest.min(residual), longest.max(waited));
    }
    assert!(longest > 32, "{longest} rounds: the grid is too small to show anything");
}

/// A backend of one state with V = 1 in f32. Greedy sweep k reports the change `changes[k]`, and the last one
/// afterwards.
struct Restless {
    changes: Vec<f64>,
    /// Changes after this many sweeps are in another number type.
    other: usize,
    made: usize,
}

impl Restless {
    fn now(&self) -> f64 {
        self.changes[self.made.saturating_sub(1).min(self.changes.len() - 1)]
    }
}

impl State for Restless {
    type Error = Infallible;
    fn reset(&mut self, _: Option<&[f64]>) -> Result<(), Infallible> {
        Ok(())
    }
    fn values(&mut self) -> Result<Vec<f64>, Infallible> {
        Ok(vec![1.0])
    }
    fn policy(&mut self) -> Result<Vec<u32>, Infallible> {
        Ok(vec![0])
    }
    fn phase(&self) -> u32 {
        u32::from(self.made > self.other)
    }

    fn sweep_bytes(&mut self) -> Result<u64, Infallible> {
        Ok(0)
    }
}

impl Evaluate for Restless {
    fn evaluate(&mut self, _: f64, max_sweeps: u32) -> Result<Evaluation, Infallible> {
        Ok(Evaluation { sweeps: max_sweeps, residual: self.now() })
    }
    fn improve(&mut self, _: f64) -> Result<u64, Infallible> {
        Ok(1)
    }
}

impl GreedySweeps for Restless {
    fn backup(&mut self, _: Stop, _: u32) -> Result<Backups, Infallible> {
        self.made += 1;
        Ok(Backups { sweeps: 1, least: -self.now(), greatest: self.now(), fixed: false })
    }
}

impl Modify for Restless {
    fn unit(&self) -> f64 {
        f32::UNIT
    }
}

/// A run whose changes do not fall is stopped if they may be rounding errors, and only then.
#[test]
fn modified_policy_iteration_stops_at_rounding_errors() {
    let limits = Limits { max_sweeps: 10_000, ..LIMITS };
    for (change, status, rounds) in [(1e-7, Status::Stalled, 33), (1e-2, Status::SweepLimit, 9999)] {
        let mut backend = Restless { changes: vec![change], other: usize::MAX, made: 0 };
        let run = modified_policy_iteration(&mut backend, 0.9, Stop::Change(1e-9), 20, &limits, to_the_end).unwrap();
        assert_eq!((run.status, run.rounds.len()), (status, rounds), "changes of {change:e}");
    }
}

/// A Gauss-Seidel sweep may change V by more than the sweep before, and an error that is equal in all states falls
/// slowly: neither is a rounding error. On such models, earlier rules took more than a million sweeps or stopped too
/// soon.
#[test]
fn gauss_seidel_does_not_stop_too_soon() {
    for (gamma, epsilon) in [(0.99999, 1.0), (0.99999, 1e-2), (0.999, 1e-6), (0.9, 1e-9)] {
        let mut slow = 0;
        for seed in (0..300).chain([108, 297, 383]) {
            let garnet =
                Garnet { states: 10, actions: 3, branching: 3, ragged: true, gamma, seed, ..Garnet::default() };
            let mdp = garnet.generate().unwrap();
            let options = EngineOptions { order: BackupOrder::BLOCKS, ..EngineOptions::default() };
            let mut engine = Engine::<f64>::new(&mdp, options);
            let run =
                value_iteration(&mut engine, Stop::Span(1.8 * epsilon * (1.0 - gamma)), &LIMITS, to_the_end).unwrap();
            let mut values = engine.values().unwrap();
            let found = warpkov_mdp::certificate::certify_centred(&mdp, &mut values);
            assert_eq!(run.status, Status::Solved, "seed {seed}, {} sweeps: {found:?}", run.sweeps());
            assert!(found.bound.is_some_and(|bound| bound <= epsilon), "seed {seed}: {found:?}");
            slow += u32::from(run.sweeps() > 10_000);
        }
        assert!(slow <= 15, "gamma {gamma}: {slow} models take more than 10,000 sweeps");
    }
}

/// Larger changes after a change of the number type do not count as rounding errors.
#[test]
fn a_finer_type_restarts_the_stopping_rule() {
    let changes = [1e-5, 1e-7].into_iter().chain((0..100).map(|k| 1e-5 * 0.9_f64.powi(k)));
    let run = |other| {
        let mut backend = Restless { changes: changes.clone().collect(), other, made: 0 };
        let run = value_iteration(&mut backend, Stop::Change(1e-8), &LIMITS, to_the_end).unwrap();
        (run.status, run.rounds.len())
    };
    // 1e-5 · .9⁶⁶ is the first below 1e-8.
    assert_eq!(run(2), (Status::Solved, 2 + 67));
    assert_eq!(run(usize::MAX), (Status::Stalled, 4));
}

/// A queue of up to `capacity` customers: one arrives with probability λ, and one is served with probability μ, slow or
/// fast; the fast server costs more. It mixes slowly if λ ≈ μ.
fn queue(capacity: u32, gamma: f64) -> Mdp {
    let (mut row_ptr, mut col, mut val, mut reward) = (vec![0], Vec::new(), Vec::new(), Vec::new());
    for customers in 0..=capacity {
        for (serve, cost) in [(0.30, 0.0), (0.32, 30.0)] {
            let up = if customers < capacity { 0.31 } else { 0.0 };
            let down = if customers > 0 { serve } else { 0.0 };
            if customers > 0 {
                col.push(customers - 1);
                val.push(down);
            }
            col.push(customers);
            val.push(1.0 - up - down);
            if customers < capacity {
                col.push(customers + 1);
                val.push(up);
            }
            row_ptr.push(col.len() as u64);
            reward.push(-f64::from(customers) - cost);
        }
    }
    let transitions = Csr::new(row_ptr, col, val).unwrap();
    let choices = Choices::Uniform(2);
    MdpParts { states: capacity + 1, choices, gamma, transitions, action_rewards: reward.into(), ..MdpParts::default() }
        .validated()
        .unwrap()
}

/// γ = .9999 on a birth-death chain: evaluation by sweeps would need more than 10⁵ sweeps per policy.
#[test]
fn krylov_evaluation_is_fast_on_slow_chains() {
    let model = queue(20_000, 0.9999);
    let mut krylov = krylov(&model, EngineOptions::default()).unwrap();
    let theta = 1e-6;
    let run = policy_iteration(&mut krylov, theta, &LIMITS, to_the_end).unwrap();
    assert_eq!(run.status, Status::Solved);
    assert!(run.sweeps() < 20_000, "{} products", run.sweeps());
    let (values, _) = solved(krylov);
    // An independent certificate, from the Bellman residual.
    let found = warpkov_mdp::certificate::certify(&model, &values);
    assert!(found.bound.unwrap() < 2e-2, "{found:?}, {} products", run.sweeps());
}
