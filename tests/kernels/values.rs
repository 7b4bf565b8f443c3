//! Value iteration: in every layout, sweeps agree with the CPU, skip no state that changes, and reach the optimal
//! values.

use std::collections::HashSet;
use warpkov_runtime::device::AnyDevice;

use warpkov::mdp::backend::{GreedySweeps, State, Stop};
use warpkov::mdp::backends::cpu;
use warpkov::mdp::backends::device::{Mixed, SweepLayout, ValueIteration};
use warpkov::mdp::certificate::{certify, certify_centred};
use warpkov::mdp::generate::SlipGrid;
use warpkov::mdp::model::{Choices, Mdp, MdpParts};
use warpkov::mdp::options::{Limits, Storage, Target};
use warpkov::mdp::solve::loops::{to_the_end, value_iteration};
use warpkov::runtime::Precise;
use warpkov_device::device::Offset;

use crate::check::{close, epsilon, same};
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    instances! { suite,
        "backup_rows": rows,
        "backup_slices": slices,
        "backup_narrow": narrow,
        "backup_patterns": patterns,
        "skipping": skipping,
    }
    suite.add("mixed", mixed);
}

const STORAGES: [Storage; 4] = [Storage::Rows, Storage::Slices, Storage::Narrow, Storage::Patterns];

/// Models with successors near their states and few distinct probabilities and rewards: some allow every layout.
fn local_models(scale: usize) -> Vec<Mdp> {
    let side = if scale > 1 { 250 } else { 25 };
    let walls = SlipGrid { walls: 0.2, obstacles: 0.1, ..SlipGrid::default() };
    let mut models = vec![
        SlipGrid { width: side, height: side + 3, ..SlipGrid::default() }.generate().expect("a grid"),
        SlipGrid { width: side, height: side, ..walls }.generate().expect("a grid"),
        SlipGrid { width: side * side, height: 1, ..SlipGrid::default() }.generate().expect("a grid"),
    ];
    models.push(chain(if scale > 1 { 100_000 } else { 700 }));
    models
}

/// A walk on a line: two actions, states that end the process, and every seventh state without actions.
pub fn chain(states: u32) -> Mdp {
    let (mut choices, mut row_ptr, mut col, mut val) = (vec![0u64], vec![0u64], Vec::new(), Vec::new());
    let (mut ends, mut earned) = (Vec::new(), Vec::new());
    for state in 0..states {
        if state % 7 != 3 {
            for step in [1, 2] {
                col.extend([state.saturating_sub(step), (state + step).min(states - 1)]);
                val.extend([0.5, 0.25]);
                row_ptr.push(col.len() as u64);
                ends.push(0.25);
                earned.push(if state % 50 == 0 { f64::from(step) } else { -0.125 });
            }
        }
        choices.push(row_ptr.len() as u64 - 1);
    }
    let transitions = warpkov::mdp::model::Csr::new(row_ptr, col, val).unwrap();
    let model = MdpParts {
        states,
        choices: Choices::Ragged(choices.into()),
        gamma: 0.95,
        transitions,
        ends: ends.into(),
        action_rewards: earned.into(),
        ..MdpParts::default()
    };
    model.validated().expect("a valid model")
}

/// Models without structure.
fn scattered_models(scale: usize) -> Vec<Mdp> {
    let mut random = Random::new(31);
    let n = scale as u32;
    vec![
        random.mdp(1, 2, 1, 0.5),
        random.mdp(7, 3, 4, 0.9),
        random.mdp(60 * n + 1, 4, 5, 0.9),
        random.mdp(90, 2, 70, 0.8),
        random.ragged(70 * n, 4, 5, 0.9),
        random.ragged(6, 300, 4, 0.7),
    ]
}

/// Sweeps and solves each model that allows the layout; at least `least` of them must.
fn in_layout<T: Precise, O: Offset>(device: &AnyDevice, models: &[Mdp], storage: Storage, least: usize) -> Outcome {
    let mut found = 0;
    for model in models {
        let Some(plan) = SweepLayout::new(model, Some(storage)) else { continue };
        found += 1;
        sweeps::<T, O>(device, model, &plan)?;
        solves::<T, O>(device, model, &plan)?;
    }
    if found < least { Err(format!("{found} models have the layout, expected {least}").into()) } else { Ok(()) }
}

/// Batches of one sweep, two sweeps, and so on. Values and changes must agree with the CPU.
fn sweeps<T: Precise, O: Offset>(device: &AnyDevice, model: &Mdp, plan: &SweepLayout) -> Outcome {
    let mut tested = ValueIteration::<T, O>::new(device, plan)?;
    let mut reference = cpu::Serial::<f64>::new(model);
    let tolerance = 32.0 * epsilon::<T>() / (1.0 - model.gamma()).powi(2);
    for sweeps in [1, 2, 33] {
        let got = tested.backup(Stop::Change(0.0), sweeps)?;
        let Ok(expected) = reference.backup(Stop::Change(0.0), sweeps);
        let Ok(values) = reference.values();
        close("V", &tested.values()?, &values, tolerance, 0.0)?;
        if got.sweeps == expected.sweeps {
            close("extremes", &[got.least, got.greatest], &[expected.least, expected.greatest], tolerance, 0.0)?;
        } else if !got.fixed {
            return Err(format!("{} sweeps, expected {}", got.sweeps, expected.sweeps).into());
        }
    }
    let start: Vec<f64> =
        (0..model.states()).map(|s| if model.choices().count(s as usize) > 0 { 0.5 } else { 0.0 }).collect();
    tested.reset(Some(&start))?;
    let Ok(()) = reference.reset(Some(&start));
    tested.backup(Stop::Change(0.0), 3)?;
    let Ok(_) = reference.backup(Stop::Change(0.0), 3);
    let Ok(values) = reference.values();
    close("V from a start", &tested.values()?, &values, tolerance, 0.0)
}

/// Runs to completion, by either stopping rule. The certificate must hold.
fn solves<T: Precise, O: Offset>(device: &AnyDevice, model: &Mdp, plan: &SweepLayout) -> Outcome {
    let theta = if T::WIDE { 1e-6 } else { 1e-3 };
    let limits = Limits { target: Target::Theta(theta), max_sweeps: 10_000, max_policies: 1, tie: 0.0 };
    let mut reference = cpu::Parallel::<f64>::new(model);
    let Ok(_) = value_iteration(&mut reference, Stop::Change(1e-13), &limits, to_the_end);
    let Ok(optimal) = reference.values();
    let exact = certify(model, &optimal).bound.ok_or("no certificate")?;
    for stop in [Stop::Change(theta), Stop::Span(theta)] {
        let mut tested = ValueIteration::<T, O>::new(device, plan)?;
        value_iteration(&mut tested, stop, &limits, to_the_end)?;
        let mut values = tested.values()?;
        let bound = certify_centred(model, &mut values).bound.ok_or("no certificate")?;
        if stop == Stop::Change(theta) || model.never_terminates() {
            let allowed = 2.0 * theta / (1.0 - model.gamma()) + 64.0 * epsilon::<T>() / (1.0 - model.gamma()).powi(2);
            if bound > allowed {
                return Err(format!("certified to {bound}, expected {allowed}").into());
            }
        }
        close("V", &values, &optimal, bound + exact, 0.0)?;
    }
    Ok(())
}

fn rows<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    in_layout::<T, O>(device, &scattered_models(scale), Storage::Rows, 6)
}

fn slices<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut models = scattered_models(scale);
    models.push(chain(500));
    in_layout::<T, O>(device, &models, Storage::Slices, 3)
}

fn narrow<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    in_layout::<T, O>(device, &local_models(scale), Storage::Narrow, 4)
}

fn patterns<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    in_layout::<T, O>(device, &local_models(scale), Storage::Patterns, 3)
}

/// The results have the same bits with and without skipping.
fn skipping<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut skipped = HashSet::new();
    for model in local_models(scale) {
        for storage in STORAGES {
            let Some(plan) = SweepLayout::new(&model, Some(storage)) else { continue };
            if plan.skips() {
                skipped.insert(format!("{storage:?}"));
            }
            let mut tested = ValueIteration::<T, O>::new(device, &plan)?;
            let mut all = ValueIteration::<T, O>::new(device, &plan.without_skipping())?;
            for sweeps in [1, 2, 30] {
                let (got, expected) =
                    (tested.backup(Stop::Change(0.0), sweeps)?, all.backup(Stop::Change(0.0), sweeps)?);
                same("sweeps", &[got.sweeps], &[expected.sweeps])?;
                let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
                same("V", &bits(tested.values()?), &bits(all.values()?))?;
            }
        }
    }
    if skipped.len() < STORAGES.len() {
        return Err(format!("only {skipped:?} skip").into());
    }
    Ok(())
}

/// Sweeps in f32 followed by f64 are as accurate as f64 alone.
fn mixed(device: &AnyDevice, scale: usize) -> Outcome {
    let models = local_models(scale).into_iter().chain(scattered_models(scale));
    for model in models {
        let plan = SweepLayout::new(&model, None).ok_or("no plan")?;
        let mut tested = Mixed::<u32>::new(device, &plan)?;
        let limits = Limits { target: Target::Epsilon(1e-9), max_sweeps: 10_000, max_policies: 1, tie: 0.0 };
        let stop = Stop::Change(1e-10 * (1.0 - model.gamma()));
        value_iteration(&mut tested, stop, &limits, to_the_end)?;
        let bound = certify(&model, &tested.values()?).bound.ok_or("no certificate")?;
        if bound > 1e-9 {
            return Err(format!("certified to {bound}").into());
        }
    }
    Ok(())
}
