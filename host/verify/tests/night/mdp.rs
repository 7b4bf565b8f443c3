//! Markov decision processes: every method, precision and storage, and every criterion.

use warpkov_mdp::Solve;
use warpkov_mdp::criterion::{Criterion, Options as Accuracy, solve_on};
use warpkov_mdp::model::Mdp;
use warpkov_mdp::options::{BlockDivided, Limits, Method, Precision, SolveOptions, Spmv, Storage, Target};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;
use warpkov_verify::mdp::{Claim, Quantity, Verdict, verify};

use crate::models::{Random, Rewards, model};
use crate::{gpu, night};

/// A method, a precision, and a storage.
type How = (Option<Method>, Precision, Option<Storage>);

fn on_cpu() -> Vec<How> {
    use Precision::{F32, F64, Mixed, Refined};

    let methods =
        [Method::Serial, Method::Parallel, Method::Sequential, Method::Values, Method::GaussSeidel, Method::Modified];
    let mut all: Vec<How> = methods.into_iter().flat_map(|m| [(Some(m), F32, None), (Some(m), F64, None)]).collect();
    all.extend([(Some(Method::Values), Refined, None), (Some(Method::Krylov), F64, None), (None, Mixed, None)]);
    all
}

fn on_device() -> Vec<How> {
    use Precision::{F32, F64, Mixed, Refined};

    let values = Some(Method::Values);
    let mut all: Vec<How> = vec![
        (values, Mixed, None),
        (values, Refined, None),
        (Some(Method::Plain), F64, None),
        (Some(Method::Projected(Spmv::Own)), F32, None),
        (Some(Method::Projected(Spmv::Own)), F64, None),
        (Some(Method::Modified), F64, None),
        (Some(Method::Krylov), F64, None),
        (Some(Method::ResultDivided), F64, None),
        (Some(Method::BlockDivided(BlockDivided::PLAIN)), F64, None),
    ];
    for storage in [Storage::Rows, Storage::Slices, Storage::Narrow, Storage::Patterns] {
        all.extend([(values, F32, Some(storage)), (values, F64, Some(storage))]);
    }
    all
}

/// Solves, and verifies what the certificate says. Returns whether the method takes this model.
fn holds(seed: u64, mdp: &Mdp, (method, precision, storage): How, device: DeviceChoice) -> bool {
    let scale = mdp.action_rewards().iter().fold(0.0_f64, |most, r| most.max(r.abs()));
    let epsilon = 1e-5 * if scale > 0.0 { scale } else { 1.0 };
    let limits = Limits {
        target: Target::Epsilon(epsilon),
        // Where ε is not reached, each policy takes all of its sweeps; the certificate holds for any values.
        max_sweeps: match (device, precision) {
            (DeviceChoice::Emulated | DeviceChoice::Cuda(_), _) => 50,
            (_, Precision::F32) => 500,
            _ => 20_000,
        },
        max_policies: if device == DeviceChoice::Cpu { 20 } else { 5 },
        tie: 1e-3 * epsilon * (1.0 - mdp.gamma()),
    };
    let options = SolveOptions { method, device, precision, storage, limits, ..SolveOptions::default() };
    // A method or a storage may have no place for a model; it says so.
    let Ok(solution) = Solve::new(mdp, &options).run() else { return false };
    let what = format!("seed {seed}, {method:?}, {precision:?}, {storage:?}, {device}, γ = {}", mdp.gamma());
    let Some(bound) = solution.certificate.bound.filter(|bound| bound.is_finite()) else { return true };
    let claim = Claim { epsilon: bound, loss: f64::INFINITY, visits: 20_000_000, ..Claim::default() };
    let found = verify(mdp, &Quantity::Discounted, &solution.values, Some(&solution.policy), &claim);
    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(found.verdict(), Verdict::Proved, "{what}, claimed {bound:e}: {found:?}");
    true
}

fn discounted(device: DeviceChoice, all: &[How], count: u64) {
    let (solved, models) = night(device, count, |seed| {
        let mdp = model(&mut Random(seed), Rewards::Both);
        all.iter().filter(|how| holds(seed, &mdp, **how, device)).count()
    });
    assert!(solved * 4 > all.len() * models, "{solved} of {} for each of {models}", all.len());
}

#[test]
fn discounted_on_the_cpu() {
    discounted(DeviceChoice::Cpu, &on_cpu(), 10);
}

#[test]
fn discounted_under_the_emulator() {
    discounted(DeviceChoice::Emulated, &on_device(), 2);
}

#[test]
fn discounted_on_a_gpu() {
    if let Some(gpu) = gpu() {
        discounted(gpu, &on_device(), 25);
    }
}

fn criteria(device: DeviceChoice, count: u64) {
    let (solved, models) = night(device, count, |seed| {
        let mut random = Random(seed);
        let rewards = [Rewards::Gains, Rewards::Costs, Rewards::Both][random.below(3) as usize];
        let mdp = model(&mut random, rewards);
        let mut counted = 0;
        let goal: Vec<u32> = (0..mdp.states()).filter(|_| random.below(3) == 0).collect();
        for (criterion, quantity) in [
            (Criterion::Reach { goal: goal.clone() }, Quantity::Reach(goal.clone())),
            (Criterion::TotalReward { goal: Some(goal.clone()) }, Quantity::Total(Some(goal.clone()))),
            (Criterion::TotalReward { goal: None }, Quantity::Total(None)),
            (Criterion::Average, Quantity::Average),
            (Criterion::Horizon(5), Quantity::Horizon(5)),
        ] {
            let accuracy = Accuracy { max_sweeps: 100_000, ..Accuracy::default() };
            // The total reward of a model may be undefined.
            let Ok(solved) = solve_on(&Local::alone(), device, &mdp, &criterion, &accuracy, &mut |_| {
                std::ops::ControlFlow::Continue(())
            }) else {
                continue;
            };
            let what = format!("seed {seed}, {criterion:?} on {device}");
            let bounded = solved.bounded;
            let error = bounded.error();
            if !error.is_finite() {
                continue;
            }
            let claim = Claim { epsilon: error, loss: 2.0 * error, visits: 20_000_000, ..Claim::default() };
            let found = verify(&mdp, &quantity, &bounded.values(), Some(&bounded.policy), &claim);
            let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_ne!(found.verdict(), Verdict::Refuted, "{what}: {found:?}, claimed {error:e}");
            for (bounds, (lower, upper)) in found.optimal.iter().zip(bounded.lower.iter().zip(&bounded.upper)) {
                assert!(bounds.lo <= *upper && *lower <= bounds.hi, "{what}: {bounds:?}, claimed {lower} to {upper}");
            }
            counted += 1;
        }
        counted
    });
    assert!(solved * 2 > 5 * models, "{solved} of 5 for each of {models}");
}

#[test]
fn other_criteria_on_the_cpu() {
    criteria(DeviceChoice::Cpu, 20);
}

#[test]
fn other_criteria_under_the_emulator() {
    criteria(DeviceChoice::Emulated, 2);
}

#[test]
fn other_criteria_on_a_gpu() {
    if let Some(gpu) = gpu() {
        criteria(gpu, 50);
    }
}
