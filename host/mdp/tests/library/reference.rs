//! Models of the literature with known values.
//!
//! Every method in [`METHODS`] solves every discounted model, and every solution must be certified.

use std::path::PathBuf;

use warpkov_mdp::Solve;
use warpkov_mdp::generate::{
    CarRental, Consensus, Csma, Firewire, Forest, Gambler, Inventory, QueueNetwork, SuttonGrid, Zeroconf,
};
use warpkov_mdp::io::read;
use warpkov_mdp::model::{Choices, Csr, Mdp, MdpParts};
use warpkov_mdp::options::{Limits, Method, Precision, SolveOptions, Spmv, Target};
use warpkov_mdp::solution::Solution;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::gpu::Gpu;

/// Methods and devices for discounted models. If there is a GPU, all emulated methods also run on it.
const METHODS: [(Method, DeviceChoice); 11] = [
    (Method::Serial, DeviceChoice::Cpu),
    (Method::Parallel, DeviceChoice::Cpu),
    (Method::Values, DeviceChoice::Cpu),
    (Method::GaussSeidel, DeviceChoice::Cpu),
    (Method::Modified, DeviceChoice::Cpu),
    (Method::Krylov, DeviceChoice::Cpu),
    (Method::Krylov, DeviceChoice::Emulated),
    (Method::Values, DeviceChoice::Emulated),
    (Method::Modified, DeviceChoice::Emulated),
    (Method::Plain, DeviceChoice::Emulated),
    (Method::Projected(Spmv::Own), DeviceChoice::Emulated),
];

/// Maximum of nonzeros of P times 1/(1 − γ) for emulated methods.
const EMULATED: f64 = 2e4;

/// Required ε of all solutions.
const EPSILON: f64 = 1e-8;

/// The solutions of all methods in f64, to within [`EPSILON`].
fn solutions(mdp: &Mdp) -> Vec<(String, Solution)> {
    let gpu = Gpu::count().is_ok_and(|count| count > 0);
    let emulated = METHODS.into_iter().filter(|(_, device)| *device == DeviceChoice::Emulated);
    let on_gpu = emulated.filter(|_| gpu).map(|(method, _)| (method, DeviceChoice::Cuda(0)));
    let work = mdp.transitions().nnz() as f64 / (1.0 - mdp.gamma());
    let small = |&(_, device): &(Method, DeviceChoice)| device != DeviceChoice::Emulated || work <= EMULATED;
    METHODS
        .into_iter()
        .filter(small)
        .chain(on_gpu)
        .map(|(method, device)| {
            let limits =
                Limits { target: Target::Epsilon(EPSILON), max_sweeps: 1_000_000, max_policies: 1000, tie: 1e-9 };
            let options = SolveOptions {
                method: Some(method),
                device,
                precision: Precision::F64,
                limits,
                ..SolveOptions::default()
            };
            let solution = Solve::new(mdp, &options).run().unwrap();
            let name = format!("{method} on {device}");
            assert!(solution.converged(&limits), "{name}: {:?}", solution.certificate);
            (name, solution)
        })
        .collect()
}

/// Asserts V(s) of every method to within [`EPSILON`] and the rounding of the expected value to `digits` digits.
fn values_are(mdp: &Mdp, expected: &[(usize, f64)], digits: i32) {
    for (name, Solution { values, .. }) in solutions(mdp) {
        for &(state, expected) in expected {
            let error = (values[state] - expected).abs();
            assert!(error <= EPSILON + 0.5 * 10_f64.powi(-digits), "{name}: V({state}) = {}", values[state]);
        }
    }
}

/// A model from dense rows: for each state, its actions in order.
fn dense(gamma: f64, states: &[&[(&[f64], f64)]]) -> Mdp {
    let rows: Vec<_> = states.concat();
    let mut offsets = vec![0];
    for actions in states {
        offsets.push(offsets[offsets.len() - 1] + actions.len() as u64);
    }
    let width = states.len() as u64;
    let mdp = MdpParts {
        states: states.len() as u32,
        choices: Choices::Ragged(offsets.into()),
        gamma,
        transitions: Csr::new(
            (0..=rows.len() as u64).map(|row| row * width).collect::<Vec<_>>(),
            rows.iter().flat_map(|_| 0..width as u32).collect::<Vec<_>>(),
            rows.iter().flat_map(|row| row.0.iter().copied()).collect::<Vec<_>>(),
        )
        .unwrap(),
        action_rewards: rows.iter().map(|row| row.1).collect::<Vec<_>>().into(),
        ..MdpParts::default()
    };
    mdp.validated().unwrap()
}

/// Q(s, a) of a row.
fn q(mdp: &Mdp, rewards: &[f64], values: &[f64], row: usize) -> f64 {
    let (successors, probs) = mdp.transitions().row(row);
    let next = successors.iter().zip(probs).fold(0.0, |sum, (&s, p)| sum + p * values[s as usize]);
    rewards[row] + mdp.gamma() * next
}

/// Sutton and Barto, 2nd edition, example 3.8 and figure 3.5. A is cell 1, B is cell 3.
#[test]
fn sutton_grid() {
    let mdp = SuttonGrid::default().generate().unwrap();
    values_are(&mdp, &[(1, 10.0 / (1.0 - 0.9_f64.powi(5))), (3, 19.419_428_096_994)], 12);
}

/// The random policy on the same grid: figure 3.2.
#[test]
fn sutton_grid_at_random() {
    let mdp = SuttonGrid::default().generate().unwrap();
    let rewards = mdp.expected_rewards();
    let mut values = vec![0.0; 25];
    for _ in 0..1000 {
        values = (0..25)
            .map(|s| mdp.choices().rows(s).map(|row| q(&mdp, &rewards, &values, row)).sum::<f64>() / 4.0)
            .collect();
    }
    assert!((values[1] - 8.789_291_862_596).abs() < 1e-12, "{}", values[1]);
    assert!((values[3] - 5.322_367_593_370).abs() < 1e-12, "{}", values[3]);
}

/// Sutton and Barto, example 4.2: values to six decimals, and the policy of figure 4.2, which moves −4 to 5 cars.
#[test]
fn car_rental() {
    let mdp = CarRental::default().generate().unwrap();
    let expected = [(0, 421.414_063), (10 * 21 + 10, 574.948_324), (20 * 21 + 20, 636.989_607)];
    for (name, Solution { values, policy, .. }) in solutions(&mdp) {
        for (state, expected) in expected {
            assert!((values[state] - expected).abs() <= 0.5e-6 + EPSILON, "{name}: V({state}) = {}", values[state]);
        }
        let names = mdp.action_names().unwrap();
        let moved = |(state, &action): (usize, &u32)| {
            let name = names.of_row[mdp.choices().first(state) + action as usize];
            names.names[name as usize].parse::<i32>().unwrap()
        };
        let moves: Vec<_> = policy.iter().enumerate().map(moved).collect();
        assert_eq!((moves.iter().min(), moves.iter().max()), (Some(&-4), Some(&5)), "{name}");
    }
}

/// The forest example of the MDP toolbox, with the values of its exact policy iteration.
#[test]
fn forest() {
    let forest = Forest::default().generate().unwrap();
    values_are(&forest, &[(0, 26.244), (1, 29.484), (2, 33.484)], 12);
    let patient = Forest { gamma: 0.96, ..Forest::default() }.generate().unwrap();
    values_are(&patient, &[(0, 74.6496), (1, 78.1056), (2, 82.1056)], 12);
}

/// `example.small` of the MDP toolbox.
#[test]
fn toolbox_example() {
    let small =
        |gamma| dense(gamma, &[&[(&[0.5, 0.5], 5.0), (&[0.0, 1.0], 10.0)], &[(&[0.8, 0.2], -1.0), (&[0.1, 0.9], 2.0)]]);
    values_are(&small(0.9), &[(0, 42.441_860_47), (1, 36.046_511_63)], 8);
    values_are(&small(0.99), &[(0, 392.299_107_14), (1, 386.160_714_29)], 8);
}

/// The tables of Gymnasium 1.4, with V by value iteration and by exact policy iteration.
#[test]
fn gymnasium() {
    for (name, gamma, state, expected) in [
        ("frozen-lake-4x4", 0.9, 0, 0.068_890_904_889),
        ("frozen-lake-4x4", 0.95, 0, 0.180_471_578_397),
        ("frozen-lake-4x4", 0.99, 0, 0.542_025_932_000),
        ("frozen-lake-8x8", 0.9, 0, 0.006_411_114_262),
        ("frozen-lake-8x8", 0.99, 0, 0.414_640_361_800),
        ("cliff-walking", 0.9, 36, -7.458_134_171_671),
        ("cliff-walking", 0.99, 36, -12.247_897_700_103),
        ("taxi", 0.9, 0, 17.0),
        ("taxi", 0.95, 0, 18.0),
        ("taxi", 0.99, 0, 18.8),
    ] {
        // Read at run time: the test may run on another machine than the one that built it.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = package.map_or_else(|| ".".into(), |package| package.join("../.."));
        let path = root.join(format!("data/{name}.json"));
        let mdp = read(&path).unwrap().with_gamma(gamma).unwrap();
        values_are(&mdp, &[(state, expected)], 12);
    }
}

/// Puterman, *Markov Decision Processes* (1994), section 3.1: a state with two actions and a state with one.
#[test]
fn puterman_two_states() {
    let mdp = dense(0.95, &[&[(&[0.5, 0.5], 5.0), (&[0.0, 1.0], 10.0)], &[(&[0.0, 1.0], -1.0)]]);
    values_are(&mdp, &[(0, -8.571_428_57), (1, -20.0)], 8);
}

/// Puterman, section 4.6.1: three months of inventory control, undiscounted, by backward induction.
#[test]
fn inventory_over_three_months() {
    let mdp = Inventory::default().generate().unwrap().with_gamma(1.0).unwrap();
    let rewards = mdp.expected_rewards();
    let mut values = vec![0.0; 4];
    for _ in 0..3 {
        let best = |s| mdp.choices().rows(s).map(|row| q(&mdp, &rewards, &values, row)).fold(f64::MIN, f64::max);
        values = (0..4).map(best).collect();
    }
    assert_eq!(values, [67.0, 129.0, 194.0, 227.0].map(|sixteenths| sixteenths / 16.0));
}

/// No published values: all methods agree on a slowly mixing model.
#[test]
fn queues() {
    let mdp = QueueNetwork { capacity: 7, gamma: 0.95, ..QueueNetwork::default() }.generate().unwrap();
    let solutions = solutions(&mdp);
    for (name, solution) in &solutions[1..] {
        let differences = solution.values.iter().zip(&solutions[0].1.values).map(|(a, b)| (a - b).abs());
        assert!(differences.fold(0.0, f64::max) <= 2.0 * EPSILON, "{name}");
    }
}

/// Solves undiscounted models by sweeps from V = 0 until V is stationary. This is slow and proves nothing, but with
/// nonnegative rewards it converges from below to the exact value.
struct Undiscounted<'m> {
    mdp: &'m Mdp,
    rewards: Vec<f64>,
}

impl<'m> Undiscounted<'m> {
    fn new(mdp: &'m Mdp) -> Self {
        Self { mdp, rewards: mdp.expected_rewards() }
    }

    /// V at the initial state. V(s) is fixed to `known(s)` where that is `Some`.
    fn sweep(&self, rewards: &[f64], largest: bool, known: impl Fn(u32) -> Option<f64>) -> f64 {
        let mdp = self.mdp;
        let mut values: Vec<_> = (0..mdp.states()).map(|s| known(s).unwrap_or_default()).collect();
        loop {
            let mut change = 0.0_f64;
            // In descending order, because states have higher numbers than their predecessors.
            for s in (0..mdp.states() as usize).rev().filter(|&s| known(s as u32).is_none()) {
                let factors = mdp.choices().rows(s).map(|row| q(mdp, rewards, &values, row));
                let best = factors.reduce(if largest { f64::max } else { f64::min }).unwrap_or_default();
                change = change.max((best - values[s]).abs() / best.max(1e-9));
                values[s] = best;
            }
            if change < 1e-14 {
                return values[mdp.labels()["init"][0] as usize];
            }
        }
    }

    fn holds(&self, label: &str, state: u32) -> bool {
        self.mdp.labels()[label].binary_search(&state).is_ok()
    }

    /// The probability of reaching a state for which `goal` holds.
    fn probability(&self, largest: bool, goal: impl Fn(u32) -> bool) -> f64 {
        self.sweep(&vec![0.0; self.rewards.len()], largest, |s| goal(s).then_some(1.0))
    }

    /// The expected total reward until a state with `label`.
    fn total(&self, largest: bool, label: &str) -> f64 {
        self.sweep(&self.rewards, largest, |s| self.holds(label, s).then_some(0.0))
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-10 * expected, "{found}, not {expected}");
}

/// Sutton and Barto, example 4.3, with p = .4 and .25: the probabilities of bold play from 25, 50 and 75.
#[test]
fn gambler() {
    for (heads, expected) in [(0.4, [0.16, 0.4, 0.64]), (0.25, [1.0 / 16.0, 0.25, 7.0 / 16.0])] {
        for (capital, expected) in [25, 50, 75].into_iter().zip(expected) {
            let mut parts = Gambler { heads, ..Gambler::default() }.generate().unwrap().into_parts();
            parts.labels.insert("init".into(), vec![capital]);
            let mdp = parts.validated().unwrap();
            let gambler = Undiscounted::new(&mdp);
            close(gambler.sweep(&gambler.rewards, true, |_| None), expected);
            close(gambler.probability(true, |s| gambler.holds("goal", s)), expected);
        }
    }
}

/// Quantitative Verification Benchmark Set, `consensus`: c2, disagree, steps_max and steps_min.
#[test]
fn consensus() {
    let known = [(2, 49.0 / 128.0, Some(13.0 / 120.0), 75.0, 48.0), (4, 325.0 / 1024.0, None, 363.0, 192.0)];
    for (processes, heads, disagree, most, least) in known {
        let mdp = Consensus { processes, bound: 2 }.generate().unwrap();
        let coin = Undiscounted::new(&mdp);
        close(coin.probability(false, |s| coin.holds("finished", s) && coin.holds("all_coins_equal_1", s)), heads);
        if let Some(disagree) = disagree {
            close(coin.probability(true, |s| coin.holds("finished", s) && !coin.holds("agree", s)), disagree);
        }
        close(coin.total(true, "finished"), most);
        close(coin.total(false, "finished"), least);
    }
}

/// `csma`: all_before_max and some_before.
#[test]
fn csma() {
    let mdp = Csma::default().generate().unwrap();
    let bus = Undiscounted::new(&mdp);
    let delivered_first = |s| match bus.holds("collision_max_backoff", s) {
        true => Some(0.0),
        false => bus.holds("all_delivered", s).then_some(1.0),
    };
    close(bus.sweep(&vec![0.0; mdp.rows()], true, delivered_first), 7.0 / 8.0);
    close(bus.probability(false, |s| bus.holds("early", s)), 0.5);
}

/// `firewire`: time_max and time_min.
#[test]
fn firewire() {
    let mdp = Firewire::default().generate().unwrap();
    let bus = Undiscounted::new(&mdp);
    close(bus.total(true, "elected"), 299.0);
    close(bus.total(false, "elected"), 553.0 / 4.0);
}

/// `zeroconf`: correct_max.
#[test]
fn zeroconf() {
    let mdp = Zeroconf::default().generate().unwrap();
    let host = Undiscounted::new(&mdp);
    close(host.probability(true, |s| host.holds("collision", s)), 65_341.0 / 3_250_265_341.0);
}
