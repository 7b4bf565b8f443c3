//! The project: its kernels, reference, budgets and report.

mod kernels;

// ANCHOR: uses
use learn::budget::Budget;
use learn::exercise::Work;
use learn::lab::{Failure, Lab};
use learn::project::{Project, Variant};
use learn::{Device, Shape};
use warpkov_device::emulator::profile::Operation;

/// Costs of keeping a machine, and values, of each state.
struct Chain {
    cost: Vec<f32>,
    value: Vec<f32>,
}
// ANCHOR_END: uses

/// The project.
struct Mine;

impl Project for Mine {
    // ANCHOR: input
    type Input = Chain;

    const KERNELS: [&'static str; 3] = ["backup", "backup_plain", "backup_wrong"];

    fn sizes() -> Vec<usize> {
        vec![1, 5, 127, 128, 129, 1000]
    }

    fn counted() -> usize {
        4096
    }

    fn timed() -> usize {
        1 << 24
    }

    fn input<D: Device>(lab: &Lab<'_, D>, n: usize) -> Chain {
        let positive = |stream| lab.floats(n, stream).into_iter().map(|x| 16.0 * (x + 1.0)).collect();
        Chain { cost: positive(0), value: positive(1) }
    }

    fn reference(input: &Chain) -> Vec<f64> {
        let value = |s: usize| f64::from(input.value[s]);
        let last = input.value.len() - 1;
        let state = |s: usize| {
            let keep = f64::from(input.cost[s]) + 0.95 * (0.3 * value((s + 1).min(last)) + 0.7 * value(s));
            keep.min(20.0 + 0.95 * value(0))
        };
        (0..=last).map(state).collect()
    }

    fn tolerance() -> f64 {
        1e-6
    }
    // ANCHOR_END: input

    // ANCHOR: run
    fn run<D: Device>(lab: &Lab<'_, D>, variant: Variant, chain: &Chain) -> Result<Vec<f32>, Failure> {
        let n = chain.value.len();
        let (cost, value) = (lab.device.upload(&chain.cost)?, lab.device.upload(&chain.value)?);
        let mut next = lab.device.uninitialised(n)?;
        let (states, fours) = (Shape::cover(n as u64, 128), Shape::cover(n.div_ceil(4) as u64, 128));
        // SAFETY: all vectors have n elements.
        lab.launch(|device| unsafe {
            match variant {
                Variant::Fast => kernels::backup(device, fours, n as u32, &cost, &value, &mut next),
                Variant::Plain => kernels::backup_plain(device, states, n as u32, &cost, &value, &mut next),
                Variant::Wrong => kernels::backup_wrong(device, fours, n as u32, &cost, &value, &mut next),
            }
        })?;
        Ok(lab.device.to_vec(&next)?)
    }
    // ANCHOR_END: run

    // ANCHOR: budgets
    fn budgets(kernel: &'static str) -> Vec<Budget> {
        // A warp has 128 states. It loads V and c by 16 bytes a lane, V(0), and for its last lane the state after it.
        let warps = 4096.0 / 128.0;
        vec![
            Budget::requests(kernel, Operation::Load, 4.0 * warps),
            Budget::requests(kernel, Operation::Store, warps),
            Budget::sectors(kernel, Operation::Load, (16.0 + 16.0 + 1.0 + 1.0) * warps),
        ]
    }

    fn work(n: usize) -> Work {
        // Reads c and V, writes V'.
        Work { bytes: 12.0 * n as f64, flops: 7.0 * n as f64 }
    }
    // ANCHOR_END: budgets

    fn report() -> &'static str {
        include_str!("report.md")
    }
}

learn::main!(learn::project::Check<Mine>);
