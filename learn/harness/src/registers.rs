//! Chapter 13: counters of a thread, in registers or in memory.

use std::marker::PhantomData;

use warpkov_device::emulator::Emulator;
use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::compiled::CodeBudget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// States of the chain.
pub const STATES: usize = 8;

/// Successors of each state.
pub const CHOICES: usize = 4;

/// Steps of each walk.
const STEPS: usize = 16;

/// Walks on a device: one for each thread.
pub struct Walks<D: Device> {
    /// Number of walks n.
    pub count: u32,
    /// Steps of each.
    pub steps: u32,
    /// Successors: `next[4·s + c]` follows state s after choice c.
    pub next: D::Buffer<u32>,
    /// Choices: walk i has `choices[step·n + i]` < 4.
    pub choices: D::Buffer<u32>,
}

/// What the student expects of `visits_indexed`, per thread.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// Bytes of local memory.
    pub local_bytes: u32,
    /// Loads of global memory in each step of the walk.
    pub loads_per_step: u32,
    /// Stores to global memory in all.
    pub stores: u32,
}

/// What the student states and launches.
pub trait Registers {
    /// The prediction.
    const PREDICTION: Prediction;

    /// Counts visits by the kernel `visits_indexed`, which is given: `visits[s·n + i]` = steps after which walk i is in
    /// state s. All walks begin in state 0.
    ///
    /// # Errors
    /// Those of the device.
    fn visits_indexed<D: Device>(device: &D, walks: &Walks<D>, visits: &mut D::Buffer<u32>) -> Result<(), D::Error>;

    /// The same by the kernel `visits`.
    ///
    /// # Errors
    /// Those of the device.
    fn visits<D: Device>(device: &D, walks: &Walks<D>, visits: &mut D::Buffer<u32>) -> Result<(), D::Error>;
}

/// Checks a [`Registers`].
pub struct Check<S>(PhantomData<S>);

fn count<S: Registers, D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
    let next = lab.integers(STATES * CHOICES, STATES as u32, 0);
    let choices = lab.integers(n * STEPS, CHOICES as u32, 1);
    let mut expected = vec![0; STATES * n];
    for i in 0..n {
        let mut state = 0;
        for step in 0..STEPS {
            state = next[CHOICES * state + choices[step * n + i] as usize] as usize;
            expected[state * n + i] += 1;
        }
    }
    let (next, choices) = (lab.device.upload(&next)?, lab.device.upload(&choices)?);
    let walks = Walks { count: n as u32, steps: STEPS as u32, next, choices };
    let mut visits = lab.device.uninitialised(STATES * n)?;
    lab.launch(|device| match part {
        0 => S::visits_indexed(device, &walks, &mut visits),
        _ => S::visits(device, &walks, &mut visits),
    })?;
    lab.equal("visits", &lab.device.to_vec(&visits)?, &expected)
}

/// Compares the prediction with what the emulator counts for a warp, and with the array in the source.
fn predicted<S: Registers>() -> Result<(), Failure> {
    let emulator = Emulator::default().profiled();
    count::<S, Emulator>(&Lab::new(&emulator), 0, 32)?;
    let profile = emulator.profile();
    let Some(kernel) = profile.kernels.get("visits_indexed") else {
        return Err(Failure::Wrong("visits_indexed was not launched".into()));
    };
    let Prediction { local_bytes, loads_per_step, stores } = S::PREDICTION;
    let loads = kernel.total(Operation::Load).requests;
    let found = [
        ("loads of global memory in each step", loads_per_step, loads / STEPS as u64),
        ("stores to global memory", stores, kernel.total(Operation::Store).requests),
        ("bytes of local memory, for an array of eight u32", local_bytes, (STATES * size_of::<u32>()) as u64),
    ];
    for (what, predicted, found) in found {
        if u64::from(predicted) != found {
            return Err(Failure::Wrong(format!("your prediction is {predicted} {what}; found {found}")));
        }
    }
    Ok(())
}

impl<S: Registers> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &["reading the compiled code", "counters in registers"];

    fn sizes(_: usize) -> Vec<usize> {
        vec![1, 31, 128, 300]
    }

    fn counted(_: usize) -> usize {
        1024
    }

    fn timed(_: usize) -> usize {
        1 << 20
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        count::<S, D>(lab, part, n)?;
        if part == 0 { predicted::<S>() } else { Ok(()) }
    }

    fn budgets(part: usize) -> Vec<Budget> {
        if part == 0 {
            return Vec::new();
        }
        // A warp reads a choice and a successor in each step, and writes eight counters at the end.
        let warps = 1024.0 / 32.0;
        vec![
            Budget::requests("visits", Operation::Load, warps * (2 * STEPS) as f64),
            Budget::requests("visits", Operation::Store, warps * STATES as f64),
        ]
    }

    fn compiled(part: usize) -> Vec<CodeBudget> {
        if part == 0 {
            vec![CodeBudget::local_bytes("visits_indexed", S::PREDICTION.local_bytes)]
        } else {
            vec![
                CodeBudget::local_bytes("visits", 0),
                CodeBudget::stack_bytes("visits", 0),
                CodeBudget::registers("visits", 40),
            ]
        }
    }

    fn work(_: usize, n: usize) -> Work {
        Work { bytes: (4 * (STEPS + STATES) * n) as f64, flops: 0.0 }
    }
}
