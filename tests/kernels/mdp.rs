//! Policy iteration on every device against the CPU in f64, and single kernels where a complete run would
//! hide a fault.

use std::collections::HashSet;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use warpkov::mdp::ask::compare::{Tolerance, compare};
use warpkov::mdp::backend::{Evaluate, GreedySweeps, State, Stop};
use warpkov::mdp::backends::cpu;
use warpkov::mdp::backends::device::{PolicyLayout, Projected};
use warpkov::mdp::baselines::BlockPerState;
use warpkov::mdp::certificate::{certify, certify_centred};
use warpkov::mdp::generate::SlipGrid;
use warpkov::mdp::io::SolutionFile;
use warpkov::mdp::model::Mdp;
use warpkov::mdp::options::{Limits, Target};
use warpkov::mdp::solution::Status;
use warpkov::mdp::solve::loops::{modified_policy_iteration, policy_iteration, to_the_end, value_iteration};
use warpkov::runtime::Precise;
use warpkov_device::device::Offset;

use crate::check::{close, epsilon, same};
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    instances! { suite,
        "evaluate_block_per_state": plain_sweeps,
        "evaluate_slices": slice_sweeps,
        "evaluate_rows": row_sweeps,
        "improve": improvement,
        "plain": plain_solves,
        "projected": projected_solves,
        "projected_on_host": solves_on_host,
        "greedy": greedy_sweeps,
        "modified": modified_solves,
        "slip_grid": slip_grid,
        "table_5_3": table_5_3,
    }
}

/// A backend under test.
#[derive(Clone, Copy, Debug)]
pub enum Tested {
    /// A block per state.
    Plain,
    /// P^π gathered on the device, in this layout.
    Projected(PolicyLayout),
    /// P^π gathered on the host.
    OnHost,
}

impl Tested {
    fn backend<'d, T: Precise, O: Offset>(
        self,
        device: &'d AnyDevice,
        model: &'d Mdp,
    ) -> Result<Box<dyn Evaluate<Error = DeviceError> + 'd>, DeviceError> {
        Ok(match self {
            Self::Plain => Box::new(BlockPerState::<T, O>::new(device, model)?),
            Self::Projected(layout) => Box::new(Projected::<T, O>::new(device, model, layout)?),
            Self::OnHost => Box::new(Projected::<T, O>::on_host(device, model)?),
        })
    }
}

const LAYOUTS: [PolicyLayout; 6] = [
    PolicyLayout::Slices,
    PolicyLayout::Rows { lanes: 2 },
    PolicyLayout::Rows { lanes: 4 },
    PolicyLayout::Rows { lanes: 8 },
    PolicyLayout::Rows { lanes: 16 },
    PolicyLayout::Rows { lanes: 32 },
];

/// Bound on the rounding errors of many sweeps of a contraction in precision T.
fn tolerance<T: Precise>(model: &Mdp) -> f64 {
    16.0 * epsilon::<T>() / (1.0 - model.gamma()).powi(2)
}

/// Evaluates the first policy, then the improved policies. Values and residuals must agree with the CPU.
pub fn sweeps<T: Precise, O: Offset>(device: &AnyDevice, model: &Mdp, tested: Tested) -> Outcome {
    let mut tested = tested.backend::<T, O>(device, model)?;
    let mut reference = cpu::Serial::<f64>::new(model);
    for sweeps in [1, 2, 40] {
        let got = tested.evaluate(0.0, sweeps)?;
        let Ok(expected) = reference.evaluate(0.0, sweeps);
        same("sweeps", &[got.sweeps], &[expected.sweeps])?;
        close("residual", &[got.residual], &[expected.residual], tolerance::<T>(model), 0.0)?;
        let Ok(values) = reference.values();
        close("V", &tested.values()?, &values, tolerance::<T>(model), 0.0)?;
        // In random models, Q-factors differ by more than rounding, so both policies are equal.
        tested.improve(1e-3)?;
        let Ok(_) = reference.improve(1e-3);
        let Ok(policy) = reference.policy();
        same("policy", &tested.policy()?, &policy)?;
    }
    Ok(())
}

fn models(scale: usize) -> Vec<Mdp> {
    let mut random = Random::new(12);
    let n = scale as u32;
    // One state; fewer states than lanes; not a multiple of 32; rows longer than a warp; one action; many actions. A small γ
    // for the larger ones: the same kernels in a quarter of the sweeps.
    vec![
        random.mdp(1, 2, 1, 0.5),
        random.mdp(7, 3, 4, 0.9),
        random.mdp(70 * n + 1, 4, 5, 0.6),
        random.mdp(90, 2, 80, 0.5),
        random.mdp(40 * n, 1, 6, 0.5),
        random.mdp(5, 300, 5, 0.6),
        // Terminal states, rows that end, and states with as many actions as a block has threads, and more.
        random.ragged(75 * n, 4, 5, 0.6),
        random.ragged(6, 300, 4, 0.7),
    ]
}

fn plain_sweeps<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    models(scale).iter().try_for_each(|model| sweeps::<T, O>(device, model, Tested::Plain))
}

fn slice_sweeps<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    models(scale).iter().try_for_each(|model| sweeps::<T, O>(device, model, Tested::Projected(PolicyLayout::Slices)))
}

fn row_sweeps<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    for model in models(scale) {
        for layout in &LAYOUTS[1..] {
            sweeps::<T, O>(device, &model, Tested::Projected(*layout))?;
        }
    }
    Ok(())
}

/// Ties: with equal rewards, no action changes. The same holds if one action is better by less than the tolerance.
/// Of two equally good actions the lower-numbered one wins.
fn improvement<T: Precise, O: Offset>(device: &AnyDevice, _: usize) -> Outcome {
    let model = |rewards: [f64; 3]| {
        let csr =
            |val: Vec<f64>| warpkov::mdp::model::Csr::new((0..=6).collect::<Vec<_>>(), vec![0, 0, 0, 1, 1, 1], val);
        let (transitions, rewards) = (csr(vec![1.0; 6]).unwrap(), csr([rewards, rewards].concat()).unwrap());
        Mdp::new(2, 3, 0.5, transitions, rewards, None)
    };
    for tested in LAYOUTS.map(Tested::Projected).into_iter().chain([Tested::Plain, Tested::OnHost]) {
        for (rewards, expected) in [([1.0, 1.0, 1.0], 0), ([1.0, 1.0 + 1e-3, 1.0], 0), ([0.0, 2.0, 2.0], 1)] {
            let model = model(rewards)?;
            let mut tested = tested.backend::<T, O>(device, &model)?;
            tested.evaluate(1e-6, 100)?;
            let changed = tested.improve(1e-2)?;
            same("policy", &tested.policy()?, &[expected; 2])?;
            same("changed", &[changed], &[if expected == 0 { 0 } else { 2 }])?;
        }
    }
    Ok(())
}

/// Runs policy iteration to completion. The certificate must hold and the policy must be optimal.
fn solves<T: Precise, O: Offset>(device: &AnyDevice, model: &Mdp, tested: Tested) -> Outcome {
    let theta = if T::WIDE { 1e-10 } else { 1e-5 };
    let limits = Limits { target: Target::Theta(theta), max_sweeps: 10_000, max_policies: 1000, tie: theta };
    let mut tested = tested.backend::<T, O>(device, model)?;
    let run = policy_iteration(tested.as_mut(), theta, &limits, to_the_end)?;
    same("status", &[run.status], &[Status::Solved])?;
    let values = tested.values()?;
    let bound = certify(model, &values).bound.ok_or("no certificate")?;
    let allowed = 4.0 * theta / (1.0 - model.gamma());
    if bound > allowed {
        return Err(format!("certified to {bound}, expected {allowed}").into());
    }
    let mut reference = cpu::Parallel::<f64>::new(model);
    let strict = Limits { target: Target::Theta(1e-12), max_sweeps: 10_000, max_policies: 1000, tie: 1e-10 };
    let Ok(_) = policy_iteration(&mut reference, 1e-12, &strict, to_the_end);
    let Ok(optimal) = reference.values();
    close("V", &values, &optimal, bound + 1e-9, 0.0)
}

fn plain_solves<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    models(scale).iter().try_for_each(|model| solves::<T, O>(device, model, Tested::Plain))
}

fn projected_solves<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut chosen = HashSet::new();
    for model in models(scale) {
        let layout = PolicyLayout::choose(&model);
        chosen.insert(format!("{layout:?}"));
        solves::<T, O>(device, &model, Tested::Projected(layout))?;
    }
    // The models must exercise more than one layout.
    if chosen.len() < 2 {
        return Err(format!("every model chose {chosen:?}").into());
    }
    Ok(())
}

/// Models that stay on the host.
fn solves_on_host<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    for model in models(scale) {
        sweeps::<T, O>(device, &model, Tested::OnHost)?;
        solves::<T, O>(device, &model, Tested::OnHost)?;
    }
    Ok(())
}

/// Greedy sweeps, alone and after sweeps of a policy. Values and changes must agree with the CPU.
fn greedy_sweeps<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    for model in models(scale) {
        // Sweeps include states without actions, which never change.
        let terminal = (0..model.states() as usize).any(|state| model.choices().count(state) == 0);
        let still = |x: f64, keep: fn(f64, f64) -> f64| if terminal { keep(x, 0.0) } else { x };
        let layouts = [PolicyLayout::Slices, PolicyLayout::Rows { lanes: 2 }, PolicyLayout::Rows { lanes: 32 }];
        for layout in layouts.map(Some).into_iter().chain([None]) {
            let mut tested = match layout {
                Some(layout) => Projected::<T, O>::new(device, &model, layout)?,
                None => Projected::<T, O>::on_host(device, &model)?,
            };
            let mut reference = cpu::Serial::<f64>::new(&model);
            for sweeps in [1, 3] {
                let got = tested.backup(Stop::Change(0.0), sweeps)?;
                let Ok(expected) = reference.backup(Stop::Change(0.0), sweeps);
                let Ok(values) = reference.values();
                close("V", &tested.values()?, &values, tolerance::<T>(&model), 0.0)?;
                let extremes = [still(expected.least, f64::min), still(expected.greatest, f64::max)];
                close("extremes", &[got.least, got.greatest], &extremes, 2.0 * tolerance::<T>(&model), 0.0)?;
                same("sweeps", &[got.sweeps], &[expected.sweeps])?;
                // Policies may differ where actions tie within rounding, so both continue from the same V.
                tested.evaluate(0.0, 2)?;
                let values = tested.values()?;
                let Ok(()) = reference.reset(Some(&values));
            }
        }
    }
    Ok(())
}

/// Modified policy iteration to completion, by either stopping rule. The certificate must hold and the values must be
/// optimal.
fn modified_solves<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    let epsilon = if T::WIDE { 1e-8 } else { 1e-2 };
    let limits = Limits { target: Target::Epsilon(epsilon), max_sweeps: 10_000, max_policies: 1, tie: 0.0 };
    let side = if scale > 1 { 64 } else { 9 };
    let grid = SlipGrid { width: side, height: side + 2, ..SlipGrid::default() }.generate()?;
    for model in models(scale).into_iter().chain([grid]) {
        let bound = 0.5 * epsilon * (1.0 - model.gamma());
        let mut reference = cpu::Parallel::<f64>::new(&model);
        let Ok(_) = value_iteration(&mut reference, Stop::Change(1e-13), &limits, to_the_end);
        let Ok(optimal) = reference.values();
        for stop in [Stop::Change(bound), Stop::Span(bound)] {
            if stop == Stop::Span(bound) && !model.never_terminates() {
                continue;
            }
            let mut tested = Projected::<T, O>::new(device, &model, PolicyLayout::choose(&model))?;
            let run = modified_policy_iteration(&mut tested, model.gamma(), stop, 5, &limits, to_the_end)?;
            same("status", &[run.status], &[Status::Solved])?;
            let mut values = tested.values()?;
            let found = certify_centred(&model, &mut values).bound.ok_or("no certificate")?;
            if found > epsilon {
                return Err(format!("certified to {found}, expected {epsilon}").into());
            }
            close("V", &values, &optimal, found + 1e-9, 0.0)?;
        }
    }
    Ok(())
}

fn slip_grid<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    let side = if scale > 1 { 64 } else { 8 };
    let grid = SlipGrid { width: side, height: side + 1, walls: 0.2, obstacles: 0.1, ..SlipGrid::default() };
    let model = grid.generate()?;
    solves::<T, O>(device, &model, Tested::Projected(PolicyLayout::choose(&model)))?;
    solves::<T, O>(device, &model, Tested::Plain)
}

/// The source's correctness test on slip grids without walls (Table 5.3: 64 × 64 and 256 × 256 cells): every method
/// agrees with the serial one in the policy of 95 % of the states, and in the values within 10⁻⁴.
fn table_5_3<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    let sides: &[u32] = if scale > 1 { &[64, 256] } else { &[16] };
    for &side in sides {
        let model = SlipGrid { width: side, height: side, ..SlipGrid::default() }.generate()?;
        let tie = if T::WIDE { 1e-9 } else { 1e-6 };
        let limits = Limits { target: Target::Theta(1e-5), max_sweeps: 10_000, max_policies: 10_000, tie };
        let mut serial = cpu::Serial::<T>::new(&model);
        let Ok(_) = policy_iteration(&mut serial, 1e-5, &limits, to_the_end);
        let (Ok(values), Ok(policy)) = (serial.values(), serial.policy());
        let expected = SolutionFile { policy, values, ..SolutionFile::default() };
        for which in [Tested::Plain, Tested::Projected(PolicyLayout::choose(&model))] {
            let mut tested = which.backend::<T, O>(device, &model)?;
            policy_iteration(tested.as_mut(), 1e-5, &limits, to_the_end)?;
            let got = SolutionFile { policy: tested.policy()?, values: tested.values()?, ..SolutionFile::default() };
            let comparison = compare(&got, &expected, Tolerance::default(), None)?;
            if !comparison.agree {
                return Err(format!("{side} × {side}, {which:?}: {comparison:?}").into());
            }
        }
    }
    Ok(())
}
