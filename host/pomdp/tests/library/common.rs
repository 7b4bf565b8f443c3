//! Options, random models, the observer of a solve, and the check of a policy.

use std::ops::ControlFlow;

use warpkov_mdp::model::{Choices, MdpParts, Objective};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::model::{Pomdp, PomdpParts};
use warpkov_pomdp::options::{Gap, Limits, SolveOptions};
use warpkov_pomdp::simulate::{Options, Simulator};
use warpkov_pomdp::solution::{Round, Solution};
use warpkov_pomdp::solve::solve_with;
use warpkov_pomdp::verify::verify;
use warpkov_runtime::choose::DeviceChoice;

use crate::distributions::distributions;
use crate::random::Random;

/// Options without a time limit, so that no assertion depends on the speed of the machine.
pub fn options(gap: f64, iterations: u64) -> SolveOptions {
    SolveOptions {
        device: DeviceChoice::Cpu,
        limits: Limits { gap: Gap::Absolute(gap), iterations: Some(iterations), ..Limits::default() },
        ..SolveOptions::default()
    }
}

/// An observer that asserts that bounds do not cross and never become worse.
pub fn watch() -> impl FnMut(&Round) -> ControlFlow<()> {
    let mut last = (f64::NEG_INFINITY, f64::INFINITY);
    move |round| {
        assert!(round.lower <= round.upper, "{round:?}");
        assert!(round.lower >= last.0 && round.upper <= last.1, "{round:?} after {last:?}");
        last = (round.lower, round.upper);
        ControlFlow::Continue(())
    }
}

pub fn solve(model: &Pomdp, options: &SolveOptions) -> Solution {
    solve_with(model, options, &mut watch()).unwrap()
}

/// A random model of 2 or 3 states, 2 actions and 1 or 2 observations.
pub fn model(random: &mut Random) -> Pomdp {
    let (states, actions, observations) = (2 + random.below(2) as u32, 2, 1 + random.below(2) as u32);
    let gamma = 0.3 + 0.4 * random.unit();
    model_of(random, [states, actions, observations], gamma, 2.0)
}

/// A random model with so many states, actions and observations, and rewards or costs up to `size`.
pub fn model_of(random: &mut Random, [states, actions, observations]: [u32; 3], gamma: f64, size: f64) -> Pomdp {
    let rows = (states * actions) as usize;
    let process = MdpParts {
        states,
        choices: Choices::Uniform(actions),
        gamma,
        objective: if random.unit() < 0.3 { Objective::Minimize } else { Objective::Maximize },
        transitions: distributions(random, rows, states),
        action_rewards: random.signed(rows).into_iter().map(|reward| size * reward).collect::<Vec<_>>().into(),
        ..MdpParts::default()
    };
    let observed = distributions(random, rows, observations);
    let start = distributions(random, 1, states);
    let start = Belief::new(start.col().to_vec(), start.val().to_vec()).unwrap();
    let model =
        PomdpParts { process, observation_count: observations, observations: observed, start, ..PomdpParts::default() };
    model.validated().unwrap()
}

/// A gap that random models are solved to: 1e-3 of the largest discounted sum of rewards.
pub fn small_gap(model: &Pomdp) -> f64 {
    let largest = model.expected_rewards().iter().fold(0.0, |most: f64, reward| most.max(reward.abs()));
    1e-3 * largest / (1.0 - model.gamma())
}

/// The same model with another γ.
pub fn discounted(model: Pomdp, gamma: f64) -> Pomdp {
    let parts = model.into_parts();
    PomdpParts { process: MdpParts { gamma, ..parts.process }, ..parts }.validated().unwrap()
}

/// Asserts that the backup of every vector of a policy is at least the vector, and that the policy earns at least its
/// reported value.
pub fn is_attained(model: &Pomdp, solution: &Solution, episodes: u32, what: &str) {
    let end = solution.end();
    let (maximized, sign) = (model.to_maximize(), model.process().objective().sign());
    let (attained, other) = if sign > 0.0 { (end.lower, end.upper) } else { (-end.upper, -end.lower) };
    let vectors = solution.vectors.clone().times(sign);
    let found = verify(&maximized, &vectors, 1e-7, 300, &|| false).unwrap();
    assert!(found.supported == found.vectors, "{what}: {found:?}");
    let size = 1.0 + found.value.abs();
    assert!(found.value >= attained - 1e-9 * size && found.certified >= attained - 1e-3, "{what}: {found:?}, {end:?}");
    assert!(found.attained <= other + 1e-6, "{what}: {found:?}, {end:?}");
    if episodes > 0 {
        let options = Options { episodes, ..Options::default() };
        let earned = Simulator::new(&maximized, &vectors, &options).unwrap().evaluate(&|| false).unwrap();
        // Four standard errors.
        let least = earned.mean + 2.0 * earned.half_width + earned.tail;
        assert!(least >= attained, "{what}: {earned:?}, {end:?}");
    }
}
