//! Inner products, linear combinations, and BiCGSTAB.

use warpkov_runtime::device::AnyDevice;

use warpkov::mdp::backend::State;
use warpkov::mdp::backends::cpu::Parallel;
use warpkov::mdp::backends::device::{PolicyLayout, System};
use warpkov::mdp::backends::krylov::{Krylov, Scale};
use warpkov::mdp::options::{Limits, Target};
use warpkov::mdp::solution::Status;
use warpkov::mdp::solve::loops::{policy_iteration, to_the_end};
use warpkov::mdp::team::Team;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::primitives::vector::{THREADS, combine, dots, dots_total};

use crate::check::{close, same};
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("combine", combinations);
    suite.add("dots", inner_products);
    suite.add("krylov", krylov);
}

fn combinations(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 1000 * scale + 7;
    let mut random = Random::new(31);
    let (x, z, mut y) = (random.signed(n), random.signed(n), random.signed(n));
    // With a = 0 the kernel must not read y, which contains a NaN.
    y[5] = f64::NAN;
    let (dx, dz) = (device.upload(&x)?, device.upload(&z)?);
    for a in [0.0, -1.0, 0.5] {
        let mut dy = device.upload(&y)?;
        combine(device, Shape::grid_stride(n as u64, THREADS), n as u64, a, &mut dy, 2.0, &dx, -0.25, &dz)?;
        let mut found = device.to_vec(&dy)?;
        let expected = |i: usize| if a == 0.0 { 0.0 } else { a * y[i] } + (2.0 * x[i] - 0.25 * z[i]);
        let mut expected: Vec<f64> = (0..n).map(expected).collect();
        if a != 0.0 {
            same("not a number", &[found[5].is_nan()], &[true])?;
            (found[5], expected[5]) = (0.0, 0.0);
        }
        close("y", &found, &expected, 1e-15, 1e-15)?;
    }
    Ok(())
}

fn inner_products(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(32);
    // Fewer elements than threads; several blocks, the last one partial.
    for (n, blocks) in [(1, 1), (100, 1), (3000 * scale + 5, 7)] {
        let (x, y, z) = (random.signed(n), random.signed(n), random.signed(n));
        let (dx, dy, dz) = (device.upload(&x)?, device.upload(&y)?, device.upload(&z)?);
        let mut found = Vec::new();
        for _ in 0..2 {
            let (mut parts, mut sums) = (device.zeros::<f64>(2 * blocks)?, device.zeros::<f64>(2)?);
            dots(device, Shape::new(blocks as u32, THREADS), n as u64, &dx, &dy, &dz, &mut parts)?;
            dots_total(device, Shape::new(1, THREADS), blocks as u32, &parts, &mut sums)?;
            found.push(device.to_vec(&sums)?);
        }
        same("the same bits again", &found[0], &found[1])?;
        let dot = |y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        close("x·y, x·z", &found[0], &[dot(&y), dot(&z)], 1e-13 * n as f64, 1e-13)?;
    }
    Ok(())
}

/// Policy iteration with evaluation by BiCGSTAB reaches the optimal values in either layout, and with the model on the host.
fn krylov(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(33);
    let limits = Limits { target: Target::Theta(1e-10), max_sweeps: 10_000, max_policies: 1000, tie: 1e-10 };
    for model in [random.mdp(60 * scale as u32 + 3, 3, 5, 0.99), random.ragged(40 * scale as u32, 3, 4, 0.95)] {
        let mut reference = Parallel::<f64>::new(&model);
        let Ok(_) = policy_iteration(&mut reference, 1e-12, &limits, to_the_end);
        let Ok(optimal) = reference.values();
        for layout in [Some(PolicyLayout::Slices), Some(PolicyLayout::Rows { lanes: 4 }), None] {
            let scale = Scale::new(&model, &Team::alone())?;
            let system = match layout {
                Some(layout) => System::<u32>::new(device, &model, layout)?,
                None => System::<u32>::on_host(device, &model)?,
            };
            let mut tested = Krylov::new(system, scale)?;
            let run = policy_iteration(&mut tested, 1e-10, &limits, to_the_end)?;
            same("status", &[run.status], &[Status::Solved])?;
            close("V", &tested.values()?, &optimal, 1e-7, 0.0)?;
        }
    }
    Ok(())
}
