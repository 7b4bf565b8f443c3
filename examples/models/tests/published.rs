//! The problems of mdpax, with the results that their sources publish.

use warpkov::mdp::matrix_free::{Compiled, ModelSolution, Representation};
use warpkov::mdp::options::{Limits, Target};
use warpkov::mdp::{ModelOptions, solve_model};
use warpkov::runtime::choose::DeviceChoice;
use warpkov_models::models::{DeMoor, Forest, Hendrix, Mirjalili};

fn solve<M: Compiled>(model: &M) -> ModelSolution {
    solve_from(model, Representation::Code)
}

fn solve_from<M: Compiled>(model: &M, representation: Representation) -> ModelSolution {
    let limits = Limits { target: Target::Epsilon(1e-4), ..Limits::default() };
    let device = DeviceChoice::Cpu;
    let options = ModelOptions { device, representation, limits, ..ModelOptions::default() };
    let found = solve_model(model, &options).expect("the model is solved");
    assert!(found.converged(&limits));
    found
}

/// The example of the Markov Decision Processes Toolbox.
#[test]
fn forest() {
    let found = solve(&Forest { ages: 3, wait_reward: 4.0, cut_reward: 2.0, fire: 0.1, gamma: 0.9 });
    assert_eq!(found.policy, [0, 0, 0]);
    for (value, expected) in found.values.iter().zip([26.244, 29.484, 33.484]) {
        assert!((value - expected).abs() < 1e-3);
    }
}

/// Figure 3 of De Moor et al. (2022): the orders for 0 to 8 new units, top to bottom from 8, and 0 to 8 old units.
#[test]
fn de_moor() {
    const LIFO: [[u32; 9]; 9] = [[0; 9], [0; 9], [0; 9], [0; 9], [1; 9], [2; 9], [3; 9], [3; 9], [3; 9]];
    const FIFO: [[u32; 9]; 9] = [
        [1, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0, 0, 0],
        [2, 1, 1, 0, 0, 0, 0, 0, 0],
        [2, 2, 1, 1, 0, 0, 0, 0, 0],
        [3, 2, 2, 1, 1, 1, 1, 0, 0],
        [3, 3, 2, 2, 1, 1, 1, 1, 1],
        [4, 3, 3, 3, 2, 2, 2, 2, 2],
        [4, 4, 3, 3, 3, 3, 3, 3, 3],
        [4, 4, 4, 4, 4, 4, 4, 4, 4],
    ];
    for (newest_first, published) in [(1, LIFO), (0, FIFO)] {
        let found = solve(&DeMoor { newest_first, ..DeMoor::default() });
        for (row, new) in published.iter().zip((0..9).rev()) {
            let of_row = &found.policy[new * 11..new * 11 + 9];
            assert_eq!(of_row, row, "{new} new units, newest first: {newest_first}");
        }
    }
}

/// Orders of experiment 1 on a Monday with no units of two days left and 0 to 10 of one day, as viso_jax reports them.
#[test]
fn mirjalili() {
    // An order of 20 units has 4851 outcomes, most of which lead to few states.
    let found = solve_from(&Mirjalili::default(), Representation::Sparse);
    assert_eq!(found.policy[..11], [13, 12, 12, 11, 7, 6, 5, 0, 0, 0, 0]);
}

/// Units sold and customers who take the other product: the probabilities of all events sum to 1, and more substitution sells
/// more.
#[test]
fn hendrix() {
    let of = |substitution| {
        solve(&Hendrix { life: 2, most: 3, mean_a: 1.5, mean_b: 2.0, substitution, cost: 0.5, gamma: 0.95 }).values
    };
    let (without, with) = (of(0.0), of(0.5));
    assert!(without.iter().zip(&with).all(|(without, with)| *with > without - 2e-4));
    assert!(with[0] > without[0] + 0.1, "{} {}", with[0], without[0]);
}

/// Orders that viso_jax and mdpax report for the average reward of the first experiment: units in stock of a, new and old, and of
/// b; orders of a and b. With γ near 1 the best orders are those for the average.
#[test]
fn hendrix_orders() {
    const REPORTED: [([u64; 4], [u32; 2]); 12] = [
        ([0, 0, 0, 0], [8, 7]),
        ([5, 0, 5, 0], [7, 6]),
        ([8, 0, 7, 0], [5, 5]),
        ([8, 3, 7, 2], [3, 3]),
        ([0, 8, 0, 8], [8, 7]),
        ([10, 10, 10, 10], [1, 0]),
        ([3, 2, 9, 4], [7, 2]),
        ([9, 4, 0, 0], [4, 6]),
        ([0, 0, 9, 4], [8, 2]),
        ([6, 6, 1, 1], [4, 6]),
        ([1, 1, 6, 6], [7, 3]),
        ([7, 0, 6, 3], [6, 4]),
    ];
    let (mean_a, mean_b) = (5.0, 5.0);
    let model = Hendrix { life: 2, most: 10, mean_a, mean_b, substitution: 0.5, cost: 0.5, gamma: 0.9999 };
    // Values are near 5·10⁴.
    let limits = Limits { target: Target::Epsilon(0.05), ..Limits::default() };
    let options = ModelOptions { device: DeviceChoice::Cpu, limits, ..ModelOptions::default() };
    let found = solve_model(&model, &options).expect("the model is solved");
    assert!(found.converged(&limits), "{:?}", found.certificate);
    for ([new_a, old_a, new_b, old_b], [a, b]) in REPORTED {
        let state = ((old_a * 11 + new_a) * 11 + old_b) * 11 + new_b;
        let order = found.policy[state as usize];
        assert_eq!([order / 11, order % 11], [a, b], "{new_a} {old_a}, {new_b} {old_b}");
    }
}
