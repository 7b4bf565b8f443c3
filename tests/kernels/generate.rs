//! Grids that the device generates: their patterns must equal those of the host's model, and so must the solutions and
//! certificates computed on them.

use warpkov_runtime::device::{AnyDevice, DeviceError};

use warpkov::mdp::backend::{State, Stop};
use warpkov::mdp::backends::device::{Certify, Mixed, Residual, SweepLayout, ValueIteration};
use warpkov::mdp::certificate::{certify, certify_centred};
use warpkov::mdp::generate::SlipGrid;
use warpkov::mdp::options::{Limits, Storage, Target};
use warpkov::mdp::solve::loops::{to_the_end, value_iteration};
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::mdp::generate::grid_patterns;
use warpkov_kernels::mdp::residual::largest;
use warpkov_kernels::primitives::copy::copy;

use crate::check::{close, same};
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("grid_patterns", patterns);
    suite.add("generated_grid", solves);
    suite.add("certified_on_the_device", certifies);
    suite.add("largest", magnitude);
    suite.add("copy", copies);
}

/// Grids of all shapes, with and without walls.
fn grids(scale: usize) -> Vec<SlipGrid> {
    let side = if scale > 1 { 300 } else { 23 };
    let walls = SlipGrid { walls: 0.2, obstacles: 0.1, ..SlipGrid::default() };
    let sized = |grid: SlipGrid, width, height| SlipGrid { width, height, ..grid };
    vec![
        sized(SlipGrid::default(), side, side + 4),
        sized(walls, side + 1, side),
        sized(walls, 1, 3 * side),
        sized(SlipGrid::default(), 3 * side, 1),
        sized(walls, 2, 2),
        sized(SlipGrid::default(), 1, 1),
    ]
}

/// The device assigns each cell the host's pattern. (The rows of the patterns are tested where patterns are built.)
fn patterns(device: &AnyDevice, scale: usize) -> Outcome {
    for grid in grids(scale) {
        let made = grid.patterns()?;
        let expected: Vec<u16> = (0..made.states()).map(|cell| made.pattern(cell) as u16).collect();
        let (kinds, index) = (device.upload(made.kinds())?, device.upload(made.index())?);
        let mut found = device.zeros(expected.len())?;
        let walled = u32::from(!made.kinds().is_empty());
        for shape in [Shape::cover(expected.len() as u64, 128), Shape::new(3, 64)] {
            device.clear(&mut found)?;
            let cells = made.states();
            grid_patterns(device, shape, cells, grid.width, grid.height, walled, &kinds, &index, &mut found)?;
            same("pattern", &device.to_vec(&found)?, &expected)?;
        }
    }
    Ok(())
}

/// The results equal those for the same grid uploaded from the host, to the last bit, with and without skipping.
fn solves(device: &AnyDevice, scale: usize) -> Outcome {
    for grid in grids(scale) {
        let (mdp, made) = (grid.generate()?, grid.patterns()?);
        let plan = || SweepLayout::generated(&made).ok_or("no plan");
        let limits = Limits { target: Target::Epsilon(1e-6), ..Limits::default() };
        let stop = Stop::Span(1e-7);
        let Some(host) = SweepLayout::new(&mdp, Some(Storage::Patterns)) else { continue };
        let mut expected = ValueIteration::<f64, u32>::new(device, &host)?;
        let expected_run = value_iteration(&mut expected, stop, &limits, to_the_end)?;
        for plan in [plan()?, plan()?.without_skipping()] {
            let mut tested = ValueIteration::<f64, u32>::new(device, &plan)?;
            let run = value_iteration(&mut tested, stop, &limits, to_the_end)?;
            same("sweeps", &[run.sweeps()], &[expected_run.sweeps()])?;
            same("V", &tested.values()?, &expected.values()?)?;
            same("policy", &tested.policy()?, &expected.policy()?)?;
        }
    }
    Ok(())
}

/// A certificate computed without the model holds, and is nearly as tight as one computed with it.
fn certifies(device: &AnyDevice, scale: usize) -> Outcome {
    let limits = Limits { target: Target::Epsilon(1e-6), ..Limits::default() };
    for grid in grids(scale) {
        let (mdp, made) = (grid.generate()?, grid.patterns()?);
        let plan = SweepLayout::generated(&made).ok_or("no plan")?;
        let mut tested = Mixed::<u32>::new(device, &plan)?;
        for sweeps in [1, 7, 10_000] {
            let limits = Limits { max_sweeps: sweeps, ..limits };
            value_iteration(&mut tested, Stop::Span(1e-9), &limits, to_the_end)?;
            let Residual { range, largest } = tested.residual()?;
            let mut values = tested.values()?;
            let exact = certify(&mdp, &values);
            close("range", &range, &exact.range, 1e-14 * largest.max(1.0), 0.0)?;
            same("‖V‖∞", &[largest], &[values.iter().fold(0.0, |most: f64, value| most.max(value.abs()))])?;
            let (told, shift) = made.extremes(range, largest).centred(grid.gamma);
            let (told, exact) =
                (told.bound.ok_or("no bound")?, certify_centred(&mdp, &mut values).bound.ok_or("none")?);
            if told.is_nan() || (told - exact).abs() > 1e-12 * (largest + shift.abs() + 1.0) {
                return Err(format!("certified to {told}, by the model to {exact}").into());
            }
        }
    }
    Ok(())
}

fn magnitude(device: &AnyDevice, scale: usize) -> Outcome {
    let mut values: Vec<f64> = (0..1000 * scale).map(|i| (i * 7919 % 1009) as f64 - 700.0).collect();
    let found = |values: &[f64]| {
        let (v, mut slots) = (device.upload(values)?, device.zeros(1)?);
        let shape = Shape::grid_stride(values.len() as u64 / 3, 128);
        largest(device, shape, values.len() as u32, &v, &mut slots)?;
        Ok::<_, DeviceError>(f64::from_bits(device.to_vec(&slots)?[0]))
    };
    same("largest", &[found(&values)?], &[700.0])?;
    values[5] = f64::NAN;
    same("largest, not a number", &[found(&values)?], &[f64::INFINITY])
}

fn copies(device: &AnyDevice, scale: usize) -> Outcome {
    let values: Vec<f32> = (0..4004 * scale).map(|i| i as f32).collect();
    let (source, mut target) = (device.upload(&values)?, device.zeros(values.len())?);
    copy(device, Shape::new(3, 64), values.len() as u32 / 4, &source, &mut target)?;
    same("copy", &device.to_vec(&target)?, &values)
}
