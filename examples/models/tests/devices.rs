//! Models as code on every device agree with the sparse models that they describe.

use warpkov::hmm::backends::device::OverPaths;
use warpkov::hmm::channels::Family;
use warpkov::hmm::model::Emissions;
use warpkov::hmm::options::Precision as HmmPrecision;
use warpkov::hmm::place::Error as PlaceError;
use warpkov::hmm::run::alone;
use warpkov::mdp::matrix_free::many::{Named, solve_many, solve_many_sparse};
use warpkov::mdp::matrix_free::{Compiled, Representation, reachable, solve_model_on_ranks, sparse};
use warpkov::mdp::model::Mdp;
use warpkov::mdp::options::{Limits, Method, Precision, SolveOptions, Target};
use warpkov::mdp::solution::Status;
use warpkov::mdp::{ModelOptions, Solve, solve_model};
use warpkov::runtime::choose::DeviceChoice;
use warpkov::runtime::comm::Local;
use warpkov::runtime::gpu::Gpu;
use warpkov_models::MODULES;
use warpkov_models::models::{CostGarnet, Faulty, Forest, Garnet, Pallets};
use warpkov_models::movement::{fit, movement, steps_and_turns};

use std::ops::ControlFlow;
use std::time::Duration;

/// The CPU, the emulator, and GPU 0 if there is one.
fn devices() -> Vec<DeviceChoice> {
    let mut all = vec![DeviceChoice::Cpu, DeviceChoice::Emulated];
    match Gpu::open(0, &MODULES) {
        Ok(_) => all.push(DeviceChoice::Cuda(0)),
        Err(error) => assert!(std::env::var_os("WARPKOV_REQUIRE_GPU").is_none(), "{error}"),
    }
    all
}

fn limits(epsilon: f64) -> Limits {
    Limits { target: Target::Epsilon(epsilon), ..Limits::default() }
}

fn options(device: DeviceChoice, epsilon: f64) -> ModelOptions {
    let representation = Representation::Code;
    ModelOptions { modules: Some(&MODULES), device, representation, limits: limits(epsilon), ..ModelOptions::default() }
}

/// V* of a sparse model within `epsilon`.
fn reference(mdp: &Mdp, epsilon: f64) -> Vec<f64> {
    let options = SolveOptions {
        device: DeviceChoice::Cpu,
        method: Some(Method::Krylov),
        precision: Precision::F64,
        limits: limits(epsilon),
        ..SolveOptions::default()
    };
    let solved = Solve::new(mdp, &options).run().expect("the reference is solved");
    assert!(solved.certificate.proves(epsilon), "{:?}", solved.certificate);
    solved.values
}

/// Checks the model on all devices, in all precisions and methods, against its sparse model.
fn check<M: Compiled + std::fmt::Debug>(model: &M, epsilon: f64, scale: f64) {
    let mdp = sparse(model).expect("the sparse model is valid");
    let (epsilon, loose) = (epsilon * scale, 1e-3 * scale);
    let expected = reference(&mdp, epsilon);
    for device in devices() {
        for (precision, method, epsilon) in [
            (Precision::F64, None, epsilon),
            (Precision::F64, Some(Method::Values), epsilon),
            (Precision::Mixed, None, epsilon),
            (Precision::F32, None, loose),
        ] {
            let options = ModelOptions { precision, method, ..options(device, epsilon) };
            let found = solve_model(model, &options).expect("the model is solved");
            let case = format!("{model:?} {device} {precision} {method:?}");
            assert!(found.certificate.proves(epsilon), "{case}: {:?} {:?}", found.certificate, found.run.status);
            for (state, (value, expected)) in found.values.iter().zip(&expected).enumerate() {
                assert!(
                    (value - expected).abs() <= epsilon + 1e-9 * scale,
                    "{case}: state {state}: {value}, {expected}"
                );
            }
            for (state, &action) in found.policy.iter().enumerate() {
                let actions = mdp.choices().count(state) as u32;
                assert!(
                    action < actions || actions == 0 && action == u32::MAX,
                    "{case}: state {state}: action {action}"
                );
            }
        }
    }
}

#[test]
fn a_forest_agrees_with_its_sparse_model() {
    check(&Forest { ages: 50, wait_reward: 4.0, cut_reward: 2.0, fire: 0.1, gamma: 0.9 }, 1e-9, 1.0);
}

/// A garnet of 200 and some states.
fn garnet(seed: u64, ending: u64, gamma: f64, scale: f64) -> Garnet {
    Garnet { states: 200 + seed, actions: 5, outcomes: 4, ending, gamma, scale, seed }
}

#[test]
fn garnets_agree_with_their_sparse_models() {
    check(&garnet(1, 0, 0.9, 1.0), 1e-9, 1.0);
    check(&garnet(2, 7, 0.5, 1e6), 1e-9, 1e6);
    check(&garnet(4, 5, 0.0, 1e3), 1e-9, 1e3);
    check(&Garnet { states: 1, actions: 1, outcomes: 1, ending: 0, gamma: 0.5, scale: 1.0, seed: 9 }, 1e-9, 1.0);
}

/// Many sweeps.
#[test]
fn a_patient_garnet_agrees_with_its_sparse_model() {
    check(&garnet(3, 3, 0.99, 1e-6), 1e-9, 1e-6);
}

#[test]
fn cost_garnets_agree_with_their_sparse_models() {
    check(&CostGarnet { states: 150, actions: 6, events: 9, ending: 0, gamma: 0.95, seed: 7 }, 1e-8, 1.0);
}

/// More actions than a warp has lanes.
#[test]
fn many_actions_agree_with_their_sparse_model() {
    check(&CostGarnet { states: 70, actions: 70, events: 40, ending: 7, gamma: 0.9, seed: 8 }, 1e-8, 1.0);
}

#[test]
fn pallets_agree_with_their_sparse_model() {
    check(&Pallets { most: 1, ..Pallets::of(2) }, 1e-8, 1.0);
}

#[test]
fn wrong_models_are_refused_with_the_state_and_the_action() {
    /// A model with one fault.
    fn refused<M: Compiled>(model: &M, words: &str) {
        for device in devices() {
            let error = solve_model(model, &options(device, 1e-6)).expect_err("the model is wrong").to_string();
            assert!(error.contains(words), "{device}: {error}");
        }
    }
    let forest = Forest { ages: 20, wait_reward: 4.0, cut_reward: 2.0, fire: 0.1, gamma: 0.9 };
    refused(&Forest { fire: 1.5, ..forest }, "state 0, action 0: probability 1.5, expected a number in [0, 1]");
    refused(&Forest { wait_reward: f64::NAN, ..forest }, "state 19, action 0: reward NaN");
    refused(&Forest { gamma: 1.0, ..forest }, "gamma");
    refused(&Forest { gamma: f64::NAN, ..forest }, "gamma");
    refused(&Forest { ages: 0, ..forest }, "no states");
    let faulty = |fault| Faulty { states: 70, fault };
    refused(&faulty(0), "state 69, action 1: successor 70, expected a state below 70");
    refused(&faulty(1), "state 69, action 1: the probabilities sum to 0.5, expected 1 within 1e-6");
    refused(&faulty(2), "state 69, action 1: the probabilities sum to 0, expected 1 within 1e-6");
    refused(&faulty(3), "state 69, action 1: probability -0.5");
    refused(&faulty(4), "state 69, action 1: the probabilities sum to 2");
    refused(&faulty(5), "state 69, action 1: successor 4294967301, expected a state below 70");
    // A table that is too short has no number there.
    refused(&CostGarnet { states: 5, actions: 1, events: 0, ending: 0, gamma: 0.5, seed: 1 }, "state 0, action 0");
}

#[test]
fn options_that_do_not_fit_are_errors() {
    let forest = Forest { ages: 20, wait_reward: 4.0, cut_reward: 2.0, fire: 0.1, gamma: 0.9 };
    let refused = |options: ModelOptions, words: &str| {
        let error = solve_model(&forest, &options).expect_err("the options do not fit").to_string();
        assert!(error.contains(words), "{error}");
    };
    let options = |device| options(device, 1e-6);
    refused(ModelOptions { precision: Precision::Refined, ..options(DeviceChoice::Cpu) }, "refined");
    refused(ModelOptions { method: Some(Method::Krylov), ..options(DeviceChoice::Cpu) }, "krylov");
    refused(ModelOptions { method: Some(Method::GaussSeidel), ..options(DeviceChoice::Emulated) }, "gauss-seidel");
    refused(ModelOptions { modules: None, ..options(DeviceChoice::Cuda(0)) }, "modules");
}

#[test]
fn limits_and_interrupts_end_a_run() {
    let garnet = Garnet { states: 100, actions: 3, outcomes: 3, ending: 7, gamma: 0.999, scale: 1.0, seed: 1 };
    for device in devices() {
        let limits = Limits { max_sweeps: 3, ..limits(1e-9) };
        let found = solve_model(&garnet, &ModelOptions { limits, ..options(device, 1e-9) }).expect("it runs");
        assert_eq!((found.run.sweeps(), found.run.status), (3, Status::SweepLimit), "{device}");
        assert!(!found.certificate.proves(1e-9) && found.certificate.bound.is_some(), "{device}");
        // The sweeps of all attempts at a proof count.
        let sweeps = |max_sweeps| {
            let options = ModelOptions {
                limits: Limits { target: Target::Epsilon(1e-12), max_sweeps, ..Limits::default() },
                method: Some(Method::Values),
                representation: Representation::Code,
                ..options(device, 1e-12)
            };
            let one = solve_model(&garnet, &options).expect("it runs").run.sweeps();
            let many =
                solve_many(&[garnet; 2], &options).expect("they run").into_iter().map(|found| found.run.sweeps());
            (one, many.max().unwrap_or_default())
        };
        let (one, many) = sweeps(1_000_000);
        assert!(sweeps(one as u32 - 1).0 < one, "{device}");
        assert!(sweeps(many as u32 - 1).1 < many, "{device}");
        // θ is the rule of textbooks, whatever it proves.
        let limits = Limits { target: Target::Theta(1e-3), ..Limits::default() };
        let found = solve_model(&garnet, &ModelOptions { limits, ..options(device, 1e-9) }).expect("it runs");
        assert!(found.converged(&limits) && found.run.rounds.last().is_some_and(|round| round.residual < 1e-3));
    }
}

#[test]
fn ranks_agree_with_one() {
    let garnet = Garnet { states: 203, actions: 4, outcomes: 4, ending: 5, gamma: 0.95, scale: 1.0, seed: 5 };
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        for method in [Method::Values, Method::GaussSeidel] {
            if method == Method::GaussSeidel && device != DeviceChoice::Cpu {
                continue;
            }
            let options = ModelOptions { method: Some(method), ..options(device, 1e-9) };
            let one = solve_model(&garnet, &options).expect("the model is solved");
            for ranks in [2, 3, 7] {
                let all = Local::run(ranks, Duration::from_secs(60), |comm| {
                    solve_model_on_ranks(comm, &garnet, &options, &mut |_| ControlFlow::Continue(()))
                });
                let all = all.expect("the model is solved");
                let first = &all[0];
                assert!(first.certificate.proves(1e-9) && first.policy == one.policy, "{device} {ranks}");
                if method == Method::Values {
                    assert_eq!(first.values, one.values, "{device} {ranks}");
                }
                let close = first.values.iter().zip(&one.values).all(|(x, y)| (x - y).abs() <= 2e-9);
                assert!(close, "{device} {ranks}");
                assert!(all[1..].iter().all(|other| other.values.is_empty()));
            }
        }
    }
}

#[test]
fn a_sparse_model_has_the_same_values() {
    let garnet = Garnet { states: 300, actions: 4, outcomes: 5, ending: 4, gamma: 0.9, scale: 1.0, seed: 11 };
    let code = solve_model(&garnet, &options(DeviceChoice::Cpu, 1e-9)).expect("the model is solved");
    for representation in [Representation::Sparse, Representation::Auto] {
        let options = ModelOptions { representation, ..options(DeviceChoice::Cpu, 1e-9) };
        let found = solve_model(&garnet, &options).expect("the model is solved");
        assert!(found.values.iter().zip(&code.values).all(|(x, y)| (x - y).abs() <= 2e-9));
        assert_eq!(found.representation == Representation::Sparse, representation == Representation::Sparse);
    }
    let cost = CostGarnet { states: 50, actions: 3, events: 5, ending: 0, gamma: 0.9, seed: 2 };
    let all = solve_model(&cost, &options(DeviceChoice::Cpu, 1e-9)).expect("the model is solved");
    let found = reachable(&cost, 7).expect("the model is valid");
    let values = reference(&found.mdp, 1e-9);
    assert_eq!(found.states[0], 7);
    for (&state, value) in found.states.iter().zip(&values) {
        assert!((value - all.values[state as usize]).abs() <= 2e-9, "state {state}");
    }
    assert!(reachable(&cost, 50).is_err());
}

#[test]
fn wrong_models_have_no_sparse_model() {
    for (fault, why) in [
        (0, "state 69, action 1: successor 70, expected a state below 70"),
        (1, "state 69, action 1: the probabilities sum to 0.5"),
        (3, "state 69, action 1: probability -0.5"),
        (4, "state 69, action 1: the probabilities sum to 2"),
        (5, "state 69, action 1: successor 4294967301, expected a state below 70"),
    ] {
        let faulty = Faulty { states: 70, fault };
        for error in [sparse(&faulty).err(), reachable(&faulty, 3).err()] {
            let error = error.expect("the model is wrong").to_string();
            assert!(error.contains(why), "fault {fault}: {error}");
        }
    }
    let large = Faulty { states: u64::from(u32::MAX), fault: 9 };
    assert!(sparse(&large).is_err_and(|error| error.to_string().contains("at most 4294967294 states")));
}

/// The sweeps of a model with thousands of outcomes on few successors take a thousand times as long from the code.
#[test]
fn auto_goes_on_with_a_sparse_model() {
    let garnet = Garnet { states: 50, actions: 4, outcomes: 4000, ending: 7, gamma: 0.9999, scale: 1.0, seed: 3 };
    let options = options(DeviceChoice::Cpu, 1e-6);
    let auto = ModelOptions { representation: Representation::Auto, ..options };
    let found = solve_model(&garnet, &auto).expect("the model is solved");
    assert_eq!(found.representation, Representation::Sparse);
    assert!(found.notes.iter().any(|note| note.contains("auto chose a sparse model after")), "{:?}", found.notes);
    assert!(found.certificate.proves(1e-6), "{:?}", found.certificate);
    let expected = reference(&sparse(&garnet).expect("the sparse model is valid"), 1e-7);
    assert!(found.values.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1.2e-6));
}

#[test]
fn many_models_agree_with_each() {
    let forests: Vec<Forest> = (0..40)
        .map(|step| Forest {
            ages: 2 + step * 3,
            wait_reward: f64::from(step as u32),
            cut_reward: 2.0,
            fire: 0.01 * step as f64,
            gamma: 0.5 + 0.012 * step as f64,
        })
        .collect();
    let garnets: Vec<CostGarnet> = (0..12)
        .map(|seed| CostGarnet { states: 1 + 7 * seed, actions: 3, events: 4, ending: 0, gamma: 0.9, seed })
        .collect();
    /// Checks one type of models.
    fn check<M: Compiled>(models: &[M]) {
        for device in devices() {
            let options = options(device, 1e-8);
            let all = solve_many(models, &options).expect("the models are solved");
            assert_eq!(all.len(), models.len());
            for (model, found) in models.iter().zip(&all) {
                let expected = reference(&sparse(model).expect("the sparse model is valid"), 1e-9);
                assert!(found.certificate.proves(1e-8), "{device}: {:?}", found.certificate);
                assert!(found.values.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1.2e-8), "{device}");
            }
            assert!(solve_many::<M>(&[], &options).expect("there is nothing to do").is_empty());
        }
    }
    check(&forests);
    check(&garnets);
    let wrong = [Forest { fire: 2.0, ..forests[0] }, Forest { gamma: 1.0, ..forests[0] }];
    for device in devices() {
        for (number, model) in wrong.iter().enumerate() {
            let models = [forests[1], *model];
            let error = solve_many(&models, &options(device, 1e-6)).expect_err("model 1 is wrong").to_string();
            assert!(error.contains("model 1: "), "{device} {number}: {error}");
        }
    }
}

#[test]
fn many_sparse_models_agree_with_each() {
    let models: Vec<Named> = (0..20)
        .map(|seed| {
            let garnet = Garnet {
                states: 1 + 13 * seed,
                actions: 4,
                outcomes: 3,
                ending: seed % 5,
                gamma: 0.9,
                scale: 10.0,
                seed,
            };
            Named { name: format!("garnet {seed}"), mdp: sparse(&garnet).expect("the sparse model is valid") }
        })
        .filter(|model| model.mdp.rows() > 0)
        .collect();
    for device in devices() {
        let limits = limits(1e-7);
        let options = SolveOptions { device, limits, ..SolveOptions::default() };
        let all = solve_many_sparse(&models, &options).expect("the models are solved");
        for (Named { name, mdp }, found) in models.iter().zip(&all) {
            assert!(found.converged(&limits), "{device} {name}");
            let close = found.values.iter().zip(&reference(mdp, 1e-9)).all(|(x, y)| (x - y).abs() <= 1.2e-7);
            assert!(close, "{device} {name}");
        }
    }
}

/// A track of `steps` steps of an animal that changes its state every 50 steps.
fn track(steps: usize) -> (Vec<[f64; 2]>, Vec<u32>) {
    // The generator of Park and Miller.
    let mut seed = 7_u64;
    let mut uniform = || {
        seed = seed * 16_807 % 2_147_483_647;
        seed as f64 / 2_147_483_647.0
    };
    let (mut points, mut states) = (vec![[0.0; 2]], Vec::new());
    let mut heading = 0.0;
    for step in 0..steps {
        let state = (step / 50 % 2) as u32;
        let length: f64 = if state == 0 { 0.5 + uniform() } else { 8.0 + 4.0 * uniform() };
        // Sums of uniform numbers are nearly normal.
        let spread: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        heading += if state == 0 { std::f64::consts::TAU * uniform() } else { 0.2 * spread };
        let [x, y] = points[step];
        points.push([x + length * heading.cos(), y + length * heading.sin()]);
        states.push(state);
    }
    (points, states)
}

/// A code channel beside a gamma channel: training finds both states, and all devices find the same.
#[test]
fn movement_is_recognised_on_all_devices() {
    let (points, states) = track(1000);
    let sequences = steps_and_turns(&points).expect("the track is whole");
    let model = movement([[2.0, 2.0, 0.0, 0.5], [5.0, 3.0, 0.0, 2.0]], 0.8).expect("the numbers are in range");
    let mut logs = Vec::new();
    for device in devices() {
        for precision in [HmmPrecision::F64, HmmPrecision::F32] {
            let run = fit(&model, &sequences, device, precision).expect("training succeeds");
            let rises = run.objectives.windows(2).all(|pair| pair[1] >= pair[0] - 1e-3);
            assert!(run.fell.is_none() && rises, "{device} {precision:?}: {:?}", run.objectives);
            let found = alone(&run.model, &sequences, device, precision, OverPaths::Maxima, |recursions| {
                Ok::<_, PlaceError>(recursions.viterbi()?.remove(0).states)
            });
            let found = found.expect("decoding succeeds");
            let wrong = found.iter().zip(&states).filter(|(found, state)| found != state).count();
            assert!(wrong < 10, "{device} {precision:?}: {wrong} of 1000 states differ");
            let Emissions::Channels(channels) = run.model.emissions() else { panic!("channels") };
            let Family::Code(turns) = &channels.list[1].family else { panic!("code") };
            let kappa = [1, 4].map(|at| turns.parameters()[at]);
            // Normal turns of deviation 0.2 have κ ≈ 1 / 0.2².
            assert!(kappa[0] < 0.3 && (kappa[1] / 25.0 - 1.0).abs() < 0.2, "{device} {precision:?}: {kappa:?}");
            logs.push(*run.objectives.last().expect("there is one"));
        }
    }
    assert!(logs.iter().all(|log| (log - logs[0]).abs() <= 1e-3 * logs[0].abs()), "{logs:?}");
}
