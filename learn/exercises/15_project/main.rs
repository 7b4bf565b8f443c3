//! The project: its kernels, reference, budgets and report.

mod kernels;

// ANCHOR: uses
// TODO: `use warpkov_device::emulator::profile::Operation;` for the budgets.
use learn::budget::Budget;
use learn::exercise::Work;
use learn::lab::{Failure, Lab};
use learn::project::{Project, Variant};
use learn::{Device, Shape};
// ANCHOR_END: uses

/// The project.
struct Mine;

impl Project for Mine {
    // ANCHOR: input
    type Input = Vec<f32>;

    const KERNELS: [&'static str; 3] = ["fast", "plain", "wrong"];

    fn sizes() -> Vec<usize> {
        vec![1, 5, 127, 128, 129, 1000]
    }

    fn counted() -> usize {
        4096
    }

    fn timed() -> usize {
        1 << 24
    }

    fn input<D: Device>(lab: &Lab<'_, D>, n: usize) -> Vec<f32> {
        lab.floats(n, 0)
    }

    fn reference(input: &Vec<f32>) -> Vec<f64> {
        // TODO: the expected results, in the most obvious way.
        let _ = input;
        Vec::new()
    }

    fn tolerance() -> f64 {
        1e-6
    }
    // ANCHOR_END: input

    // ANCHOR: run
    fn run<D: Device>(lab: &Lab<'_, D>, variant: Variant, input: &Vec<f32>) -> Result<Vec<f32>, Failure> {
        let (n, x) = (input.len(), lab.device.upload(input)?);
        let mut y = lab.device.uninitialised(n)?;
        let shape = Shape::cover(n as u64, 128);
        // SAFETY: both vectors have n elements.
        lab.launch(|device| unsafe {
            match variant {
                Variant::Fast => kernels::fast(device, shape, n as u32, &x, &mut y),
                Variant::Plain => kernels::plain(device, shape, n as u32, &x, &mut y),
                Variant::Wrong => kernels::wrong(device, shape, n as u32, &x, &mut y),
            }
        })?;
        Ok(lab.device.to_vec(&y)?)
    }
    // ANCHOR_END: run

    // ANCHOR: budgets
    // TODO: at least two budgets, such as `Budget::requests(kernel, Operation::Load, …)`, and the bytes of a launch.
    fn budgets(_kernel: &'static str) -> Vec<Budget> {
        Vec::new()
    }

    fn work(_n: usize) -> Work {
        Work::default()
    }
    // ANCHOR_END: budgets

    fn report() -> &'static str {
        include_str!("report.md")
    }
}

learn::main!(learn::project::Check<Mine>);
