//! The functions of C against the library of Rust, and what they do with wrong arguments.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::ptr;
use std::slice::from_raw_parts;
use std::thread;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov_hmm::backends::device::Limits as Chunks;
use warpkov_hmm::generate::IceCream;
use warpkov_hmm::place::recursions;
use warpkov_hmm::sequences::Sequences;
use warpkov_hmm::train::train;
use warpkov_mdp::criterion::Criterion;
use warpkov_mdp::model::{Csr, Mdp};
use warpkov_mdp::options::{Limits, SolveOptions, Target};
use warpkov_mdp::solve::Solve;
use warpkov_pomdp::constrained::{self, Constraint};
use warpkov_pomdp::criterion;
use warpkov_pomdp::generate::{FourByThree, Tiger};
use warpkov_pomdp::solve::solve_with;
use warpkov_runtime::choose::{DeviceChoice, Place};

use crate::border::wk_status::{self, WK_INTERRUPTED, WK_INVALID, WK_NOT_CERTIFIED, WK_OK, WK_PANIC};
use crate::border::{Ending, entry, look, wk_last_error, wk_start_device, wk_version};
use crate::controller::*;
use crate::hmm::*;
use crate::mdp::*;
use crate::options::*;
use crate::pomdp::*;
use crate::progress::wk_progress;

/// A text of C.
fn text<'a>(pointer: *const c_char) -> &'a str {
    assert!(!pointer.is_null());
    // SAFETY: the library returns texts that end with 0; no test keeps one longer than its handle.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}

fn last_error() -> String {
    text(wk_last_error()).to_owned()
}

/// An array that the library returns.
fn array<'a, T>(get: impl FnOnce(*mut usize) -> *const T) -> &'a [T] {
    let mut count = 7;
    let start = get(&mut count);
    assert_eq!(start.is_null(), count == 0);
    // SAFETY: the library returns `count` elements; no test keeps them longer than their handle.
    if count == 0 { &[] } else { unsafe { from_raw_parts(start, count) } }
}

/// A handle that a function puts into its last argument.
fn made<T>(make: impl FnOnce(*mut *mut T) -> wk_status) -> *mut T {
    let mut handle = ptr::dangling_mut();
    let status = make(&mut handle);
    assert_eq!((status, &last_error()[..]), (WK_OK, ""));
    assert!(!handle.is_null());
    handle
}

/// The error of a function that makes a handle, which it leaves NULL.
fn refused<T>(make: impl FnOnce(*mut *mut T) -> wk_status) -> String {
    let mut handle = ptr::dangling_mut();
    assert_eq!(make(&mut handle), WK_INVALID);
    assert!(handle.is_null());
    last_error()
}

fn options(given: &[(&str, &str)]) -> *mut wk_options {
    // SAFETY: the pointers are valid.
    unsafe {
        let options = made(|out| wk_options_new(out));
        for (name, value) in given {
            let (name, value) = (CString::new(*name).unwrap(), CString::new(*value).unwrap());
            assert_eq!(wk_options_set(options, name.as_ptr(), value.as_ptr()), WK_OK, "{}", last_error());
        }
        options
    }
}

const EMPTY: wk_matrix = wk_matrix { rows: 0, count: 0, row_ptr: ptr::null(), col: ptr::null(), val: ptr::null() };

/// A matrix of the library as C has it.
fn lent(csr: &Csr) -> wk_matrix {
    wk_matrix {
        rows: csr.rows(),
        count: csr.nnz(),
        row_ptr: csr.row_ptr().as_ptr(),
        col: csr.col().as_ptr(),
        val: csr.val().as_ptr(),
    }
}

/// All entries of a matrix.
fn dense(csr: &Csr, columns: usize) -> Vec<f64> {
    let mut all = vec![0.0; csr.rows() * columns];
    for row in 0..csr.rows() {
        let (cols, vals) = csr.row(row);
        cols.iter().zip(vals).for_each(|(col, val)| all[row * columns + *col as usize] = *val);
    }
    all
}

fn parts(states: u32, actions: u32, gamma: f64) -> wk_mdp_parts {
    wk_mdp_parts {
        size: size_of::<wk_mdp_parts>(),
        states,
        actions,
        offsets: ptr::null(),
        gamma,
        minimize: 0,
        transitions: EMPTY,
        rewards: EMPTY,
        action_rewards: ptr::null(),
        ends: ptr::null(),
    }
}

/// A number in [0, 1).
fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Random rows that sum to 1, and rewards of this size.
fn random_model(states: u32, actions: u32, gamma: f64, size: f64, seed: u64) -> Mdp {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut row_ptr, mut col, mut prob, mut reward) = (vec![0], Vec::new(), Vec::new(), Vec::new());
    for _ in 0..states * actions {
        let mut next: Vec<u32> = (0..3).map(|_| random.next_u32() % states).collect();
        next.sort_unstable();
        next.dedup();
        let weights: Vec<f64> = next.iter().map(|_| 0.1 + unit(&mut random)).collect();
        let sum: f64 = weights.iter().sum();
        prob.extend(weights.iter().map(|weight| weight / sum));
        reward.extend(next.iter().map(|_| size * (unit(&mut random) - 0.5)));
        col.extend(next);
        row_ptr.push(col.len() as u64);
    }
    let transitions = Csr::new(row_ptr, col, prob).unwrap();
    let rewards = transitions.clone().with_values(reward).unwrap();
    Mdp::new(states, actions, gamma, transitions, rewards, None).unwrap()
}

#[test]
fn models_of_arrays_have_the_values_of_the_library() {
    for (seed, (states, actions, gamma, size)) in
        [(2, 1, 0.5, 1.0), (7, 3, 0.9, 1e-6), (40, 4, 0.99, 1e6), (64, 2, 0.0, 1e150), (100, 2, 0.999, 1e-150)]
            .into_iter()
            .enumerate()
    {
        let mdp = random_model(states, actions, gamma, size, seed as u64);
        let epsilon = 1e-6 * size;
        let limits = Limits { target: Target::Epsilon(epsilon), ..Limits::default() };
        let expected =
            Solve::new(&mdp, &SolveOptions { device: DeviceChoice::Cpu, limits, ..SolveOptions::default() }).run();
        let expected = expected.unwrap();
        let bound = expected.certificate.bound.unwrap();

        let full = [dense(mdp.transitions(), states as usize), dense(mdp.rewards(), states as usize)];
        let all = |values: &[f64]| wk_matrix { rows: mdp.rows(), count: values.len(), val: values.as_ptr(), ..EMPTY };
        let offsets: Vec<u64> = (0..=u64::from(states)).map(|state| state * u64::from(actions)).collect();
        let plain = parts(states, actions, gamma);
        let sparse = wk_mdp_parts { transitions: lent(mdp.transitions()), rewards: lent(mdp.rewards()), ..plain };
        let plain = parts(states, actions, gamma);
        let wide = wk_mdp_parts { transitions: all(&full[0]), rewards: all(&full[1]), ..plain };
        let plain = parts(states, 0, gamma);
        let expectations = mdp.expected_rewards();
        let ragged = wk_mdp_parts {
            offsets: offsets.as_ptr(),
            transitions: lent(mdp.transitions()),
            action_rewards: expectations.as_ptr(),
            ..plain
        };
        let set = options(&[("device", "cpu"), ("epsilon", &format!("{epsilon:e}"))]);
        for given in [&sparse, &wide, &ragged] {
            // SAFETY: the pointers are valid.
            unsafe {
                let model = made(|out| wk_mdp_new(given, out));
                assert_eq!((wk_mdp_states(model), wk_mdp_actions(model)), (states, actions));
                assert_eq!((wk_mdp_rows(model), wk_mdp_gamma(model)), (mdp.rows(), gamma));
                let solution = made(|out| wk_mdp_solve(model, set, None, ptr::null_mut(), out));
                // The solution needs no model.
                wk_mdp_free(model);
                let values = array(|count| wk_mdp_values(solution, count));
                let proven = wk_mdp_bound(solution);
                assert!(proven <= epsilon, "{proven} > {epsilon}");
                assert_eq!(values.len(), states as usize);
                for (found, expected) in values.iter().zip(&expected.values) {
                    assert!((found - expected).abs() <= proven + bound, "{found} {expected}");
                }
                let policy = array(|count| wk_mdp_policy(solution, count));
                assert!(policy.len() == values.len() && policy.iter().all(|action| *action < actions));
                assert!(array(|count| wk_mdp_lower(solution, count)).is_empty());
                assert_eq!(text(wk_mdp_ended(solution)), "solved");
                assert!(text(wk_mdp_device(solution)).contains("CPU"), "{}", text(wk_mdp_device(solution)));
                let report: serde_json::Value = serde_json::from_str(text(wk_mdp_report(solution))).unwrap();
                assert_eq!((&report["converged"], &report["states"]), (&true.into(), &states.into()));
                assert_eq!(report["sweeps"], wk_mdp_sweeps(solution));
                assert!(wk_mdp_seconds(solution) >= 0.0);
                wk_mdp_solution_free(solution);
            }
        }
        // SAFETY: as above.
        unsafe { wk_options_free(set) };
    }
}

/// A coin decides between two states that stay.
fn coin() -> *mut wk_mdp {
    let probs = [1.0, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 1.0];
    let transitions = wk_matrix { rows: 3, count: 9, val: probs.as_ptr(), ..EMPTY };
    let rewards = [0.0, 1.0, 0.0];
    let given = wk_mdp_parts { transitions, action_rewards: rewards.as_ptr(), ..parts(3, 1, 1.0) };
    // SAFETY: the pointers are valid.
    made(|out| unsafe { wk_mdp_new(&given, out) })
}

#[test]
fn criteria_have_bounds_per_state() {
    let model = coin();
    let solve = |given: &[(&str, &str)]| {
        let set = options(given);
        // SAFETY: the pointers are valid.
        unsafe {
            let solution = made(|out| wk_mdp_solve(model, set, None, ptr::null_mut(), out));
            let [lower, upper] = [wk_mdp_lower, wk_mdp_upper].map(|get| array(|count| get(solution, count)).to_vec());
            let values = array(|count| wk_mdp_values(solution, count)).to_vec();
            assert!(values.iter().zip(lower.iter().zip(&upper)).all(|(x, (low, high))| low <= x && x <= high));
            assert!(values.len() == 3 && lower.len() == 3 && wk_mdp_bound(solution) <= 1e-6);
            wk_mdp_solution_free(solution);
            wk_options_free(set);
            values
        }
    };
    assert_eq!(solve(&[("criterion", "reach"), ("goal", "2")]), [0.0, 0.5, 1.0]);
    assert_eq!(solve(&[("criterion", "reach"), ("goal", "0, 2"), ("minimize", "true")]), [1.0, 1.0, 1.0]);
    assert_eq!(solve(&[("criterion", "total")]), [0.0, 1.0, 0.0]);
    assert_eq!(solve(&[("criterion", "average")]), [0.0, 0.0, 0.0]);
    assert_eq!(solve(&[("horizon", "3")]), [0.0, 1.0, 0.0]);
    // SAFETY: the handle is valid.
    unsafe { wk_mdp_free(model) };
}

#[test]
fn values_at_a_horizon_and_at_the_start_are_options() {
    let (model, set) = (coin(), options(&[("horizon", "1")]));
    let terminal = [4.0, 0.0, 8.0];
    // SAFETY: the pointers are valid.
    unsafe {
        assert_eq!(wk_options_set_array(set, c"terminal-values".as_ptr(), terminal.as_ptr(), 3), WK_OK);
        let solution = made(|out| wk_mdp_solve(model, set, None, ptr::null_mut(), out));
        assert_eq!(array(|count| wk_mdp_values(solution, count)), [4.0, 7.0, 8.0]);
        wk_mdp_solution_free(solution);
        assert_eq!(wk_options_set_array(set, c"terminal_values".as_ptr(), terminal.as_ptr(), 2), WK_OK);
        let error = refused(|out| wk_mdp_solve(model, set, None, ptr::null_mut(), out));
        assert_eq!(error, "terminal_values has 2 numbers, expected one per state, 3");
        wk_options_free(set);
        wk_mdp_free(model);

        let family = c"grid --width 8 --height 8 --gamma 0.9";
        let (grid, set) = (made(|out| wk_mdp_generate(family.as_ptr(), out)), options(&[("method", "values")]));
        let first = made(|out| wk_mdp_solve(grid, set, None, ptr::null_mut(), out));
        let values = array(|count| wk_mdp_values(first, count));
        assert_eq!(wk_options_set_array(set, c"values".as_ptr(), values.as_ptr(), values.len()), WK_OK);
        let second = made(|out| wk_mdp_solve(grid, set, None, ptr::null_mut(), out));
        assert!(wk_mdp_sweeps(second) < wk_mdp_sweeps(first));
        assert_eq!(wk_options_set_array(set, c"values".as_ptr(), ptr::null(), 0), WK_OK);
        [first, second].into_iter().for_each(|solution| wk_mdp_solution_free(solution));
        wk_options_free(set);
        wk_mdp_free(grid);
    }
}

#[test]
fn files_are_those_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| CString::new(folder.path().join(file).to_str().unwrap()).unwrap();
    let (grid, other, tiger, hmm) = (name("grid.xml"), name("grid"), name("tiger.pomdp"), name("hmm.json"));
    // SAFETY: the pointers are valid.
    unsafe {
        let one = made(|out| wk_mdp_generate(c"grid --width 4 --height 3".as_ptr(), out));
        assert_eq!(wk_mdp_write(one, grid.as_ptr(), ptr::null()), WK_OK, "{}", last_error());
        assert_eq!(wk_mdp_write(one, other.as_ptr(), c"drn".as_ptr()), WK_OK, "{}", last_error());
        for file in [&grid, &other] {
            let two = made(|out| wk_mdp_read(file.as_ptr(), ptr::null(), out));
            assert_eq!((wk_mdp_states(two), wk_mdp_rows(two)), (wk_mdp_states(one), wk_mdp_rows(one)));
            wk_mdp_free(two);
        }
        wk_mdp_free(one);
        let one = made(|out| wk_pomdp_generate(c"tiger".as_ptr(), out));
        assert_eq!(wk_pomdp_write(one, tiger.as_ptr(), ptr::null()), WK_OK, "{}", last_error());
        let two = made(|out| wk_pomdp_read(tiger.as_ptr(), c"pomdp".as_ptr(), out));
        assert_eq!((wk_pomdp_states(two), wk_pomdp_actions(two), wk_pomdp_observations(two)), (2, 3, 2));
        [one, two].into_iter().for_each(|model| wk_pomdp_free(model));
        let one = ice_cream();
        assert_eq!(wk_hmm_write(one, hmm.as_ptr(), ptr::null()), WK_OK, "{}", last_error());
        let two = made(|out| wk_hmm_read(hmm.as_ptr(), ptr::null(), out));
        assert_eq!(array(|count| wk_hmm_emissions(one, count)), array(|count| wk_hmm_emissions(two, count)));
        [one, two].into_iter().for_each(|model| wk_hmm_free(model));

        let error = refused(|out| wk_mdp_read(name("absent.json").as_ptr(), ptr::null(), out));
        assert!(error.starts_with("cannot read ") && error.contains("absent.json: No such file"), "{error}");
        let error = refused(|out| wk_mdp_read(grid.as_ptr(), c"xlm".as_ptr(), out));
        assert!(error.starts_with("format is 'xlm', expected one of json, csv"), "{error}");
        let error = refused(|out| wk_mdp_generate(c"gird".as_ptr(), out));
        assert!(error.contains("gird"), "{error}");
    }
}

/// The tiger of `examples/02_pomdp.rs`.
fn tiger() -> *mut wk_pomdp {
    let transitions = [1.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.0, 1.0, 0.5, 0.5, 0.5, 0.5];
    let emissions = [0.85, 0.15, 0.15, 0.85, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5];
    let rewards = [-1.0, -100.0, 10.0, -1.0, 10.0, -100.0];
    let matrix =
        |values: &[f64]| wk_matrix { rows: values.len() / 2, count: values.len(), val: values.as_ptr(), ..EMPTY };
    let given = wk_pomdp_parts {
        size: size_of::<wk_pomdp_parts>(),
        states: 2,
        actions: 3,
        observations: 2,
        minimize: 0,
        gamma: 0.95,
        transitions: matrix(&transitions),
        emissions: matrix(&emissions),
        rewards: EMPTY,
        action_rewards: rewards.as_ptr(),
        start: ptr::null(),
    };
    // SAFETY: the pointers are valid.
    made(|out| unsafe { wk_pomdp_new(&given, out) })
}

/// The bounds and the parts of a controller fit each other, and its file has all nodes.
unsafe fn check_controller(controller: *mut wk_pomdp_controller, observations: usize) {
    // SAFETY: the caller guarantees that the handle is valid.
    unsafe {
        assert!(wk_pomdp_controller_lower(controller) <= wk_pomdp_controller_upper(controller));
        let actions = array(|count| wk_pomdp_controller_actions(controller, count));
        let next = array(|count| wk_pomdp_controller_next(controller, count));
        assert_eq!(next.len(), actions.len() * observations);
        assert!(next.iter().all(|&node| node == u32::MAX || (node as usize) < actions.len()));
        let probabilities = array(|count| wk_pomdp_controller_probabilities(controller, count));
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{probabilities:?}");
        for part in 0..probabilities.len() {
            let starts = array(|count| wk_pomdp_controller_starts(controller, part, count));
            assert!(starts.len() == 1 && (starts[0] as usize) < actions.len(), "{starts:?}");
        }
        assert!(array(|count| wk_pomdp_controller_starts(controller, probabilities.len(), count)).is_empty());
        let parts = probabilities.len();
        assert_eq!(last_error(), format!("part is {parts}, expected one below {parts}"));

        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| CString::new(folder.path().join(name).to_str().unwrap()).unwrap();
        for name in ["some", "some.dot"] {
            let status = wk_pomdp_controller_write(controller, file(name).as_ptr(), ptr::null());
            assert_eq!(status, WK_OK, "{}", last_error());
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("some")).unwrap().lines().count(), actions.len());
        let status = wk_pomdp_controller_write(controller, file("some.alpha").as_ptr(), ptr::null());
        assert!(
            status == WK_INVALID && last_error().contains("controllers cannot be written in alpha"),
            "{}",
            last_error()
        );
        assert!(!folder.path().join("some.alpha").exists());
    }
}

#[test]
fn goals_have_the_bounds_of_the_library() {
    let model = FourByThree::default().generate().unwrap();
    let limits =
        warpkov_pomdp::options::Limits { gap: warpkov_pomdp::options::Gap::Absolute(0.05), ..Default::default() };
    // SAFETY: the pointers are valid.
    unsafe {
        let grid = made(|out| wk_pomdp_generate(c"four-by-three".as_ptr(), out));
        let mut rounds = [0_u64, u64::MAX];
        for (name, minimize) in [("reach", None), ("reach", Some("true")), ("total", Some("false"))] {
            let set = options(&[("goal", "3"), ("criterion", name), ("gap", "0.05"), ("device", "cpu")]);
            if let Some(minimize) = minimize {
                let minimize = CString::new(minimize).unwrap();
                assert_eq!(wk_options_set(set, c"minimize".as_ptr(), minimize.as_ptr()), WK_OK);
            }
            let goal = vec![3];
            let criterion = match name {
                "reach" => Criterion::Reach { goal },
                _ => Criterion::TotalReward { goal: Some(goal) },
            };
            let directed = criterion::directed(&model, &criterion, minimize.map(|minimize| minimize == "true"));
            let go_on = &mut |_: &_| ControlFlow::Continue(());
            let expected = criterion::solve(&directed, &criterion, DeviceChoice::Cpu, &limits, go_on).unwrap();
            let user = (&raw mut rounds).cast();
            let mut controller = ptr::null_mut();
            let status = wk_pomdp_reach(grid, set, Some(stop_at), user, &mut controller);
            assert_eq!(
                status,
                if expected.status == warpkov_pomdp::solution::Status::Gap { WK_OK } else { WK_NOT_CERTIFIED }
            );
            let found = [wk_pomdp_controller_lower(controller), wk_pomdp_controller_upper(controller)];
            assert_eq!(found, [expected.lower, expected.upper], "{name} {minimize:?}");
            let actions = array(|count| wk_pomdp_controller_actions(controller, count));
            assert_eq!(actions, expected.policy.actions);
            let report: serde_json::Value = serde_json::from_str(text(wk_pomdp_controller_report(controller))).unwrap();
            assert_eq!(report["stopped_by"], text(wk_pomdp_controller_ended(controller)));
            assert_eq!(report["nodes"], actions.len());
            check_controller(controller, model.observation_count() as usize);
            wk_pomdp_controller_free(controller);
            wk_options_free(set);
        }
        assert!(rounds[0] > 0);
        for (given, expected) in [
            (&[][..], "there is no goal, expected the states to reach"),
            (&[("goal", "99")], "99"),
            (&[("goal", "3"), ("criterion", "average")], "criterion is 'average', expected reach or total"),
            (&[("goal", "3"), ("seed", "1")], "a run to a goal has no option 'seed'"),
            (&[("goal", "3"), ("gap", "1"), ("relative_gap", "1")], "expected gap or relative_gap, not both"),
        ] {
            let set = options(given);
            let error = refused(|out| wk_pomdp_reach(grid, set, None, ptr::null_mut(), out));
            assert!(error.contains(expected), "{error}");
            wk_options_free(set);
        }
        assert_eq!(refused(|out| wk_pomdp_reach(grid, ptr::null(), None, ptr::null_mut(), out)), "options is NULL");
        wk_pomdp_free(grid);
    }
}

#[test]
fn constraints_have_the_bounds_of_the_library() {
    let model = Tiger::default().generate().unwrap();
    // One for listening, rows by state, then action.
    let costs = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    let limits =
        warpkov_pomdp::options::Limits { gap: warpkov_pomdp::options::Gap::Absolute(0.1), ..Default::default() };
    let given = warpkov_pomdp::options::SolveOptions { device: DeviceChoice::Cpu, limits, ..Default::default() };
    let expected =
        constrained::solve(&model, &costs, Constraint::AtMost(8.0), &given, &mut |_| ControlFlow::Continue(()));
    let expected = expected.unwrap();
    // SAFETY: the pointers are valid.
    unsafe {
        let tiger = tiger();
        let set = options(&[("at_most", "8"), ("gap", "0.1"), ("device", "cpu")]);
        let none = ptr::null_mut;
        let solve = |set, out| wk_pomdp_constrain(tiger, costs.as_ptr(), 6, set, None, none(), out);
        let controller = made(|out| solve(set, out));
        let found = [wk_pomdp_controller_lower(controller), wk_pomdp_controller_upper(controller)];
        let near = |x: f64, y: f64| (x - y).abs() <= 1e-9 * y.abs();
        assert!(near(found[0], expected.lower) && near(found[1], expected.upper), "{found:?}");
        let probabilities = array(|count| wk_pomdp_controller_probabilities(controller, count));
        assert_eq!(probabilities.len(), expected.parts.len());
        let report: serde_json::Value = serde_json::from_str(text(wk_pomdp_controller_report(controller))).unwrap();
        assert!(report["cost"][1].as_f64().unwrap() <= 8.0 + 1e-9, "{report}");
        check_controller(controller, 2);
        wk_pomdp_controller_free(controller);
        wk_options_free(set);

        // Of 20 discounted steps, no policy has 21.
        let set = options(&[("at_least", "21"), ("device", "cpu")]);
        let mut controller = ptr::dangling_mut();
        assert_eq!(solve(set, &mut controller), WK_NOT_CERTIFIED);
        assert!(
            controller.is_null() && last_error().contains("no policy keeps the cost at least 21"),
            "{}",
            last_error()
        );
        wk_options_free(set);
        for (given, expected) in [
            (&[][..], "expected at_most or at_least, one of them"),
            (&[("at_most", "1"), ("at_least", "1")], "expected at_most or at_least, one of them"),
            (&[("at_most", "inf")], "at_most is 'inf', expected a finite number"),
            (&[("at_most", "1"), ("target", "1")], "a constrained solve has no option 'target'"),
        ] {
            let set = options(given);
            let error = refused(|out| solve(set, out));
            assert!(error.contains(expected), "{error}");
            wk_options_free(set);
        }
        let set = options(&[("at_most", "8")]);
        let error = refused(|out| wk_pomdp_constrain(tiger, costs.as_ptr(), 5, set, None, none(), out));
        assert_eq!(error, "5 costs, expected 6, one of each state and action");
        let error = refused(|out| wk_pomdp_constrain(tiger, ptr::null(), 6, set, None, none(), out));
        assert_eq!(error, "costs is NULL");
        wk_options_free(set);
        wk_pomdp_free(tiger);
    }
}

#[test]
fn the_tiger_has_the_bounds_of_the_library() {
    let model = Tiger::default().generate().unwrap();
    let expected = warpkov_pomdp::options::SolveOptions { device: DeviceChoice::Cpu, ..Default::default() };
    let expected = solve_with(&model, &expected, &mut |_| ControlFlow::Continue(())).unwrap();
    let (tiger, set) = (tiger(), options(&[("device", "cpu")]));
    // SAFETY: the pointers are valid.
    unsafe {
        let solution = made(|out| wk_pomdp_solve(tiger, set, None, ptr::null_mut(), out));
        let (lower, upper) = (wk_pomdp_lower(solution), wk_pomdp_upper(solution));
        let near = |x: f64, y: f64| (x - y).abs() <= 1e-9 * y.abs();
        assert!(near(lower, expected.end().lower) && near(upper, expected.end().upper), "{lower} {upper}");
        assert!(lower <= 19.3714 && 19.3713 <= upper);
        assert_eq!(array(|count| wk_pomdp_vector_actions(solution, count)), expected.vectors.actions());
        let vectors = array(|count| wk_pomdp_vector_values(solution, count));
        assert_eq!(vectors.len(), expected.vectors.values().len());
        assert!(vectors.iter().zip(expected.vectors.values()).all(|(x, y)| near(*x, *y)), "{vectors:?}");
        assert_eq!(text(wk_pomdp_ended(solution)), "gap");
        let report: serde_json::Value = serde_json::from_str(text(wk_pomdp_report(solution))).unwrap();
        assert_eq!(report["stopped_by"], "gap");

        // Twice the same noise: the other door is safe enough.
        let (mut belief, mut action, mut value) = ([0.0; 2], 7, f64::NAN);
        assert_eq!(wk_pomdp_start(tiger, belief.as_mut_ptr(), 2), WK_OK);
        assert_eq!(belief, [0.5, 0.5]);
        assert_eq!(wk_pomdp_action(solution, belief.as_ptr(), 2, &mut action, &mut value), WK_OK);
        assert!(action == 0 && (value - lower).abs() < 1e-9, "{value} {lower}");
        for _ in 0..2 {
            let place = belief.as_mut_ptr();
            assert_eq!(wk_pomdp_update(tiger, place, 0, 0, place, 2), WK_OK, "{}", last_error());
        }
        assert!((belief[0] - 0.7225 / 0.745).abs() < 1e-12);
        assert_eq!(wk_pomdp_action(solution, belief.as_ptr(), 2, &mut action, ptr::null_mut()), WK_OK);
        assert_eq!(action, 2);
        assert_eq!(wk_pomdp_update(tiger, belief.as_ptr(), 3, 0, belief.as_mut_ptr(), 2), WK_INVALID);
        assert_eq!(last_error(), "action is 3, expected one below 3");
        assert_eq!(wk_pomdp_action(solution, [0.5, 0.4].as_ptr(), 2, &mut action, ptr::null_mut()), WK_INVALID);
        assert_eq!(last_error(), "belief sums to 0.9, expected 1");

        let folder = tempfile::tempdir().unwrap();
        for file in ["tiger.alpha", "tiger.dot"] {
            let path = CString::new(folder.path().join(file).to_str().unwrap()).unwrap();
            assert_eq!(wk_pomdp_write_policy(solution, path.as_ptr(), ptr::null()), WK_OK, "{}", last_error());
            assert!(folder.path().join(file).exists());
        }
        wk_pomdp_free(tiger);
        wk_pomdp_solution_free(solution);
        wk_options_free(set);
    }
}

fn hmm_parts() -> wk_hmm_parts {
    wk_hmm_parts {
        size: size_of::<wk_hmm_parts>(),
        states: 0,
        symbols: 0,
        dimensions: 0,
        start: ptr::null(),
        transitions: ptr::null(),
        ends: ptr::null(),
        emissions: ptr::null(),
        means: ptr::null(),
        variances: ptr::null(),
        covariances: ptr::null(),
    }
}

/// The model of the library's generator, from arrays.
fn ice_cream() -> *mut wk_hmm {
    let parts = IceCream.generate().unwrap().into_parts();
    let warpkov_hmm::model::Emissions::Categorical { symbols, probs } = &parts.emissions else { unreachable!() };
    let given = wk_hmm_parts {
        states: parts.start.len() as u32,
        symbols: *symbols,
        start: parts.start.as_ptr(),
        transitions: parts.transitions.as_ptr(),
        ends: parts.end.as_ref().map_or(ptr::null(), |end| end.as_ptr()),
        emissions: probs.as_ptr(),
        ..hmm_parts()
    };
    // SAFETY: the pointers are valid.
    made(|out| unsafe { wk_hmm_new(&given, out) })
}

const DIARY: [u32; 12] = [1, 2, 2, 1, 2, 1, 0, 0, 0, 1, 0, 0];

#[test]
fn ice_cream_has_the_results_of_the_library() {
    let model = IceCream.generate().unwrap();
    let sequences = Sequences::of_symbols(&[&DIARY[..5], &DIARY[5..]]).unwrap();
    let mut expected =
        recursions(&Place::Cpu, &sequences, warpkov_hmm::options::Precision::F64, Chunks::default()).unwrap();
    expected.set_models(std::slice::from_ref(&model)).unwrap();
    let logs = expected.log_likelihoods().unwrap().remove(0);
    let (paths, posteriors) = (expected.viterbi().unwrap().remove(0), expected.posteriors().unwrap().remove(0));
    let trained = train(
        &mut *expected,
        vec![model],
        &warpkov_hmm::options::Options { iterations: 20, ..Default::default() },
        &mut |_| ControlFlow::Continue(()),
    );
    let trained = trained.unwrap();

    let (hmm, set) = (ice_cream(), options(&[("device", "cpu")]));
    let offsets = [0, 5, 12];
    // SAFETY: the pointers are valid.
    unsafe {
        let data = made(|out| wk_sequences_of_symbols(offsets.as_ptr(), 2, DIARY.as_ptr(), 12, out));
        assert_eq!((wk_sequences_count(data), wk_sequences_steps(data)), (2, 12));
        let (mut scores, mut states, mut best, mut probs) = ([0.0; 2], [9; 12], [0.0; 2], [0.0; 24]);
        assert_eq!(wk_hmm_score(hmm, data, set, scores.as_mut_ptr(), 2), WK_OK, "{}", last_error());
        assert_eq!(wk_hmm_decode(hmm, data, ptr::null(), states.as_mut_ptr(), 12, best.as_mut_ptr(), 2), WK_OK);
        assert_eq!(wk_hmm_posteriors(hmm, data, set, probs.as_mut_ptr(), 24), WK_OK, "{}", last_error());
        assert_eq!((&scores[..], &states[..], &best[..]), (&logs[..], &paths.states[..], &paths.scores[..]));
        assert_eq!(probs[..], posteriors[..]);
        assert_eq!(wk_hmm_score(hmm, data, set, scores.as_mut_ptr(), 1), WK_INVALID);
        assert_eq!(last_error(), "log_likelihoods has 1 elements, expected 2");

        assert_eq!(wk_options_set(set, c"iterations".as_ptr(), c"20".as_ptr()), WK_OK);
        let mut training = ptr::null_mut();
        let status = wk_hmm_train(hmm, data, set, None, ptr::null_mut(), &mut training);
        let ended = text(wk_training_ended(training));
        assert_eq!(
            (status, ended),
            match trained.status {
                warpkov_hmm::train::Status::Converged => (WK_OK, "converged"),
                _ => (WK_NOT_CERTIFIED, "iterations"),
            }
        );
        let found = array(|count| wk_training_log_likelihoods(training, count));
        assert_eq!(found, trained.best().log_likelihoods);
        let new = made(|out| wk_training_model(training, out));
        wk_training_free(training);
        assert_eq!(array(|count| wk_hmm_start(new, count)), trained.best().model.start());
        assert_eq!(array(|count| wk_hmm_transitions(new, count)), trained.best().model.transitions());
        assert!(wk_hmm_states(new) == 2 && array(|count| wk_hmm_covariances(new, count)).is_empty());
        [hmm, new].into_iter().for_each(|hmm| wk_hmm_free(hmm));
        wk_sequences_free(data);
        wk_options_free(set);
    }
}

#[test]
fn vectors_have_densities() {
    let (start, transitions) = ([0.5, 0.5], [0.9, 0.1, 0.2, 0.8]);
    let (means, variances) = ([0.0, 3.0], [1.0, 4.0]);
    let given = wk_hmm_parts {
        states: 2,
        dimensions: 1,
        start: start.as_ptr(),
        transitions: transitions.as_ptr(),
        means: means.as_ptr(),
        variances: variances.as_ptr(),
        ..hmm_parts()
    };
    // SAFETY: the pointers are valid.
    unsafe {
        let hmm = made(|out| wk_hmm_new(&given, out));
        assert_eq!(array(|count| wk_hmm_covariances(hmm, count)), variances);
        let values = [0.5, 2.5];
        let data = made(|out| wk_sequences_of_vectors([0, 2].as_ptr(), 1, 1, values.as_ptr(), 2, out));
        let mut log = 0.0;
        assert_eq!(wk_hmm_score(hmm, data, ptr::null(), &mut log, 1), WK_OK, "{}", last_error());
        let density = |x: f64, i: usize| {
            (-(x - means[i]).powi(2) / (2.0 * variances[i])).exp() / (2.0 * std::f64::consts::PI * variances[i]).sqrt()
        };
        let first = [0, 1].map(|i| start[i] * density(values[0], i));
        let second =
            [0, 1].map(|j| (first[0] * transitions[j] + first[1] * transitions[2 + j]) * density(values[1], j));
        assert!((log - (second[0] + second[1]).ln()).abs() < 1e-12, "{log}");
        let error =
            refused(|out| wk_sequences_of_vectors([0, 2].as_ptr(), 1, 1, [0.5, f64::INFINITY].as_ptr(), 2, out));
        assert_eq!(error, "values has inf, expected finite numbers, or NaN where one is missing");
        let symbols = made(|out| wk_sequences_of_symbols([0, 1].as_ptr(), 1, [0].as_ptr(), 1, out));
        assert_eq!(wk_hmm_score(hmm, symbols, ptr::null(), &mut log, 1), WK_INVALID);
        assert!(last_error().contains("which the model emits"), "{}", last_error());
        [data, symbols].into_iter().for_each(|data| wk_sequences_free(data));
        wk_hmm_free(hmm);
    }
}

#[test]
fn wrong_arguments_are_errors_with_a_place() {
    let (probs, rewards) = ([0.5, 0.5, 0.0, 1.0], [1.0, f64::NAN]);
    let transitions = wk_matrix { rows: 2, count: 4, val: probs.as_ptr(), ..EMPTY };
    let model = |change: &dyn Fn(&mut wk_mdp_parts)| {
        let mut given = wk_mdp_parts { transitions, ..parts(2, 1, 0.9) };
        change(&mut given);
        // SAFETY: the pointers are valid.
        refused(|out| unsafe { wk_mdp_new(&given, out) })
    };
    let size = size_of::<wk_mdp_parts>();
    assert_eq!(model(&|p| p.size = 0), format!("size is 0, expected {size} of this version: sizeof(wk_mdp_parts)"));
    assert_eq!(model(&|p| p.gamma = f64::NAN), "gamma is NaN, expected a number in [0, 1]");
    assert_eq!(model(&|p| p.actions = 0), "actions is 0 and offsets is NULL, expected one of them");
    assert_eq!(
        model(&|p| p.transitions.count = 3),
        "P has 3 values for 2 rows, expected 2 for each, or row pointers and columns"
    );
    assert_eq!(model(&|p| p.transitions.val = ptr::null()), "P.val is NULL");
    assert!(model(&|p| p.transitions.val = ptr::without_provenance(3)).contains("expected a multiple of 8"));
    assert_eq!(model(&|p| p.transitions.col = [0].as_ptr()), "P.row_ptr is NULL");
    assert!(model(&|p| p.transitions.count = usize::MAX).contains("more than the address space"));
    let error = model(&|p| p.action_rewards = rewards.as_ptr());
    assert_eq!(error, "action_rewards row 1 (state 1, action 0) is NaN, expected a finite number");
    assert!(model(&|p| p.states = 0).contains("expected"), "{}", last_error());
    let error = model(&|p| p.transitions.val = [0.5, 0.25, 0.0, 1.0].as_ptr());
    assert_eq!(error, "P row 0 (state 0, action 0): probabilities sum to 0.75, expected 1 within 1e-6");

    // SAFETY: NULL is an error of all these functions.
    unsafe {
        assert_eq!(refused(|out| wk_mdp_new(ptr::null(), out)), "parts is NULL");
        assert_eq!(wk_mdp_new(&parts(2, 1, 0.9), ptr::null_mut()), WK_INVALID);
        assert_eq!(last_error(), "mdp is NULL");
        assert_eq!(refused(|out| wk_mdp_read(ptr::null(), ptr::null(), out)), "path is NULL");
        assert_eq!(refused(|out| wk_mdp_solve(ptr::null(), ptr::null(), None, ptr::null_mut(), out)), "mdp is NULL");
        assert_eq!((wk_mdp_states(ptr::null()), &last_error()[..]), (0, "mdp is NULL"));
        assert!(wk_mdp_bound(ptr::null()).is_nan() && wk_mdp_ended(ptr::null()).is_null());
        assert!(array(|count| wk_mdp_values(ptr::null(), count)).is_empty());
        assert_eq!(last_error(), "solution is NULL");
        assert!(wk_mdp_policy(ptr::null(), ptr::null_mut()).is_null());
        wk_mdp_free(ptr::null_mut());
        wk_mdp_solution_free(ptr::null_mut());
        wk_pomdp_free(ptr::null_mut());
        wk_pomdp_solution_free(ptr::null_mut());
        assert!(wk_pomdp_controller_lower(ptr::null()).is_nan());
        wk_pomdp_controller_free(ptr::null_mut());
        wk_hmm_free(ptr::null_mut());
        wk_sequences_free(ptr::null_mut());
        wk_training_free(ptr::null_mut());
        wk_options_free(ptr::null_mut());
        assert_eq!(
            refused(|out| wk_hmm_new(&hmm_parts(), out)),
            "symbols is 0 and dimensions is 0, expected one of them to be 0"
        );
        let error = refused(|out| wk_sequences_of_symbols([0, 3].as_ptr(), 1, [0, 1].as_ptr(), 2, out));
        assert_eq!(error, "the offsets describe 3 observations, found 2");
        assert_eq!(wk_options_set(ptr::null_mut(), c"device".as_ptr(), c"cpu".as_ptr()), WK_INVALID);
        assert_eq!(wk_start_device(c"gpu".as_ptr(), ptr::null_mut()), WK_INVALID);
        assert_eq!(last_error(), "device is 'gpu', expected auto, cpu, cuda:N or emulated");
        let mut name = ptr::null();
        assert_eq!(wk_start_device(c"cpu".as_ptr(), &mut name), WK_OK);
        assert!(text(name).contains("CPU") && text(wk_version()).starts_with("0."));
    }
}

#[test]
fn options_are_checked_where_they_are_used() {
    // SAFETY: the pointers are valid.
    unsafe {
        let (model, tiger, hmm) = (coin(), tiger(), ice_cream());
        let set = options(&[]);
        assert_eq!(wk_options_set(set, c"metod".as_ptr(), c"values".as_ptr()), WK_INVALID);
        let error = last_error();
        assert!(
            error.starts_with("there is no option 'metod', expected one of at_least, at_most, backups, beliefs,"),
            "{error}"
        );
        assert_eq!(wk_options_set(set, c"method".as_ptr(), c"\xff".as_ptr()), WK_INVALID);
        assert_eq!(last_error(), "value is not UTF-8");
        for (name, value, expected) in [
            (c"method", c"fast", "method is 'fast', expected one of serial, "),
            (c"epsilon", c"-1", "epsilon is '-1', expected a finite number above 0"),
            (c"max-sweeps", c"0", "max_sweeps is '0', expected a whole number of at least 1"),
            (c"skip", c"maybe", "skip is 'maybe', expected true or false"),
            (c"criterion", c"best", "criterion is 'best', expected one of discounted, reach, total, average"),
            (c"criterion", c"reach", "criterion 'reach' needs goal, the states to reach"),
            (c"goal", c"0", "goal needs criterion 'reach' or 'total'"),
            (c"relative", c"1", "relative needs criterion 'reach', 'total' or 'average'"),
            (c"seed", c"1", "an MDP has no option 'seed'"),
        ] {
            assert_eq!(wk_options_set(set, name.as_ptr(), value.as_ptr()), WK_OK);
            let error = refused(|out| wk_mdp_solve(model, set, None, ptr::null_mut(), out));
            assert!(error.starts_with(expected), "{error}");
            assert_eq!(wk_options_set(set, name.as_ptr(), ptr::null()), WK_OK);
        }
        // γ = 1.
        assert!(refused(|out| wk_mdp_solve(model, set, None, ptr::null_mut(), out)).contains("gamma is 1"));
        assert_eq!(wk_options_set(set, c"tie".as_ptr(), c"0".as_ptr()), WK_OK);
        assert_eq!(
            refused(|out| wk_pomdp_solve(tiger, set, None, ptr::null_mut(), out)),
            "a POMDP has no option 'tie'"
        );
        assert_eq!(wk_options_set(set, c"tie".as_ptr(), ptr::null()), WK_OK);
        assert_eq!(wk_options_set(set, c"freeze".as_ptr(), c"start, ends".as_ptr()), WK_OK);
        let data = made(|out| wk_sequences_of_symbols([0, 1].as_ptr(), 1, [0].as_ptr(), 1, out));
        let error = refused(|out| wk_hmm_train(hmm, data, set, None, ptr::null_mut(), out));
        assert!(error.starts_with("freeze is 'start, ends', expected some of start,"), "{error}");
        wk_sequences_free(data);
        wk_options_free(set);
        wk_mdp_free(model);
        wk_pomdp_free(tiger);
        wk_hmm_free(hmm);
    }
}

#[test]
fn panics_are_codes_with_their_text() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let codes = [
        entry(|| panic!("the sky")),
        entry(|| std::panic::panic_any(7)),
        entry(|| {
            let number = text(wk_version()).len();
            panic!("{number} falls")
        }),
    ];
    let error = last_error();
    let looked = look(3, || panic!("down"));
    std::panic::set_hook(hook);
    assert_eq!(codes, [WK_PANIC; 3]);
    assert_eq!((looked, error, last_error()), (3, "panic: 5 falls".to_owned(), "panic: down".to_owned()));
    // What returns no status leaves the text.
    assert_eq!((look(3, || Ok(4)), last_error()), (4, "panic: down".to_owned()));
    assert_eq!(entry(|| Ok(Ending::Complete)), WK_OK);
    assert_eq!(last_error(), "");
}

/// Counts its calls, and stops at the number in the second place.
unsafe extern "C" fn stop_at(user: *mut c_void, progress: *const wk_progress) -> c_int {
    // SAFETY: the tests pass a pair of numbers; the library passes its progress.
    let ([count, last], progress) = unsafe { (&mut *user.cast::<[u64; 2]>(), &*progress) };
    *count += 1;
    assert!(progress.seconds >= 0.0);
    c_int::from(*count == *last)
}

#[test]
fn a_callback_sees_rounds_and_stops_them() {
    // SAFETY: the pointers are valid.
    unsafe {
        let family = c"grid --width 24 --height 24 --gamma 0.9999";
        let (grid, tiger, hmm) = (made(|out| wk_mdp_generate(family.as_ptr(), out)), tiger(), ice_cream());
        // A round is a policy.
        let set = options(&[("method", "krylov"), ("device", "cpu")]);
        let (mut counts, mut solution) = ([0_u64, 2], ptr::null_mut());
        let user = (&raw mut counts).cast();
        assert_eq!(wk_mdp_solve(grid, set, Some(stop_at), user, &mut solution), WK_INTERRUPTED);
        assert_eq!((counts, text(wk_mdp_ended(solution))), ([2, 2], "interrupted"));
        assert!(last_error().starts_with("interrupted: "), "{}", last_error());
        let proven = wk_mdp_bound(solution);
        assert!(proven > 1e-6 && array(|count| wk_mdp_values(solution, count)).len() == 576, "{proven}");
        wk_mdp_solution_free(solution);
        wk_options_free(set);

        // A limit ends a run without a callback.
        let set = options(&[("method", "gauss-seidel"), ("epsilon", "1e-12"), ("max_sweeps", "3"), ("device", "cpu")]);
        assert_eq!(wk_mdp_solve(grid, set, None, ptr::null_mut(), &mut solution), WK_NOT_CERTIFIED);
        assert_eq!((text(wk_mdp_ended(solution)), wk_mdp_sweeps(solution)), ("sweep-limit", 3));
        wk_mdp_solution_free(solution);
        wk_options_free(set);
        wk_mdp_free(grid);

        let (mut counts, mut solution) = ([0_u64, 1], ptr::null_mut());
        let user = (&raw mut counts).cast();
        assert_eq!(wk_pomdp_solve(tiger, ptr::null(), Some(stop_at), user, &mut solution), WK_INTERRUPTED);
        assert_eq!((counts, text(wk_pomdp_ended(solution))), ([1, 1], "interrupted"));
        assert!(wk_pomdp_lower(solution) <= wk_pomdp_upper(solution));
        wk_pomdp_solution_free(solution);
        wk_pomdp_free(tiger);

        let data = made(|out| wk_sequences_of_symbols([0, 12].as_ptr(), 1, DIARY.as_ptr(), 12, out));
        let (mut counts, mut training) = ([0_u64, 2], ptr::null_mut());
        let user = (&raw mut counts).cast();
        assert_eq!(wk_hmm_train(hmm, data, ptr::null(), Some(stop_at), user, &mut training), WK_INTERRUPTED);
        assert_eq!((counts, text(wk_training_ended(training))), ([2, 2], "interrupted"));
        wk_training_free(training);
        wk_sequences_free(data);
        wk_hmm_free(hmm);
    }
}

#[test]
fn threads_share_models_and_have_their_own_errors() {
    /// A handle that threads share.
    #[derive(Clone, Copy)]
    struct Shared(*mut wk_mdp);
    // SAFETY: models do not change.
    unsafe impl Send for Shared {}

    // SAFETY: the pointers are valid.
    unsafe {
        let model = Shared(made(|out| wk_mdp_generate(c"grid --width 16 --height 16 --gamma 0.99".as_ptr(), out)));
        let run = move |number: usize| {
            let shared = model;
            let set = options(&[("device", "cpu"), ("method", ["values", "krylov"][number % 2])]);
            let mut all = Vec::new();
            for round in 0..3 {
                let name = CString::new(format!("thread {number} round {round}")).unwrap();
                assert_eq!(wk_options_set(set, name.as_ptr(), ptr::null()), WK_INVALID);
                thread::yield_now();
                let error = last_error();
                assert!(error.starts_with(&format!("there is no option 'thread {number} round {round}'")), "{error}");
                let solution = made(|out| wk_mdp_solve(shared.0, set, None, ptr::null_mut(), out));
                all.push(array(|count| wk_mdp_values(solution, count)).to_vec());
                wk_mdp_solution_free(solution);
            }
            wk_options_free(set);
            assert_eq!((&all[0], &all[0]), (&all[1], &all[2]));
            all.remove(0)
        };
        let threads: Vec<_> = (0..4).map(|number| thread::spawn(move || run(number))).collect();
        let found: Vec<Vec<f64>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!((&found[0], &found[1]), (&found[2], &found[3]));
        assert!(found[0].iter().zip(&found[1]).all(|(x, y)| (x - y).abs() <= 2e-6));
        wk_mdp_free(model.0);
    }
}
