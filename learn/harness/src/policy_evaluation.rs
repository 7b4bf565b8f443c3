//! Chapter 10: predictions of what a kernel does, and a sweep of policy evaluation that waits less.
//!
//! Every row of P^π has three entries. In the banded model, the successors of state s are s, s + w and s − w (mod S); in
//! the scattered model they are drawn at random.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::{KernelProfile, Operation};
use warpkov_device::launch::Device;

use crate::budget::{self, Budget};
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// γ P^π and r^π in SELL: slice i holds the rows 32i … 32i + 31 as the entries `first[i]..first[i + 1]`; entry j of lane
/// l is element `first[i]` + 32j + l.
pub struct Sell<D: Device> {
    /// S.
    pub states: u32,
    /// ⌈S / 32⌉ + 1 positions.
    pub first: D::Buffer<u32>,
    /// Successor of each entry.
    pub col: D::Buffer<u32>,
    /// γ P(s'|s) of each entry; 0 for padding.
    pub prob: D::Buffer<f32>,
    /// r(s).
    pub reward: D::Buffer<f32>,
}

/// γ P^π and r^π in compressed rows (CSR): row s holds the entries `ptr[s]..ptr[s + 1]`.
pub struct Rows<D: Device> {
    /// S.
    pub states: u32,
    /// S + 1 row pointers.
    pub ptr: D::Buffer<u32>,
    /// Successor of each entry.
    pub col: D::Buffer<u32>,
    /// γ P(s'|s) of each entry.
    pub prob: D::Buffer<f32>,
    /// r(s).
    pub reward: D::Buffer<f32>,
}

// ANCHOR: predictions
/// What the emulator will count for S = 8192, in blocks of 256 threads, and what a multiprocessor of an H200 holds.
pub struct Predictions {
    /// Requests of all loads of `evaluate_sell`, banded model.
    pub sell_loads: f64,
    /// Sectors of these requests.
    pub sell_load_sectors: f64,
    /// Bytes of the sectors of all loads and stores of `evaluate_sell`.
    pub sell_bytes: f64,
    /// Sectors of the loads of `max_change`.
    pub change_load_sectors: f64,
    /// Atomic operations of `max_change` on its one result.
    pub change_atomics: f64,
    /// Sectors of the loads of `evaluate_rows`, scattered model. May be off by a factor of 1.1.
    pub rows_load_sectors: f64,
    /// Resident warps of a multiprocessor, if the compiler gives a thread of `evaluate_sell` 40 registers.
    pub warps_by_registers: f64,
    /// The same, if each block also has 40 KiB of shared memory.
    pub warps_by_shared_memory: f64,
}
// ANCHOR_END: predictions

/// What the student predicts and launches.
pub trait PolicyEvaluation {
    /// Part 1.
    const PREDICTIONS: Predictions;

    /// V_new = r + γ P V from SELL.
    ///
    /// # Errors
    /// Those of the device.
    fn evaluate_sell<D: Device>(
        device: &D,
        model: &Sell<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// V_new = r + γ P V from compressed rows.
    ///
    /// # Errors
    /// Those of the device.
    fn evaluate_rows<D: Device>(
        device: &D,
        model: &Rows<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// Raises the f64 whose bits are `residual[0]` to ‖V_new − V‖∞.
    ///
    /// # Errors
    /// Those of the device.
    fn max_change<D: Device>(
        device: &D,
        states: u32,
        v: &D::Buffer<f32>,
        new: &D::Buffer<f32>,
        residual: &mut D::Buffer<u64>,
    ) -> Result<(), D::Error>;

    /// Part 2: both V_new and the residual.
    ///
    /// # Errors
    /// Those of the device.
    fn sweep<D: Device>(
        device: &D,
        model: &Sell<D>,
        v: &D::Buffer<f32>,
        new: &mut D::Buffer<f32>,
        residual: &mut D::Buffer<u64>,
    ) -> Result<(), D::Error>;
}

/// Entries of a row.
const ENTRIES: usize = 3;

/// γ P(s'|s) of the entries of each row.
const PROB: [f32; ENTRIES] = [0.76, 0.095, 0.095];

/// V_new and ‖V_new − V‖∞ in f64, where `successor(s, j)` is that of entry j.
fn expected(reward: &[f32], v: &[f32], successor: impl Fn(usize, usize) -> usize) -> (Vec<f64>, f64) {
    let value = |s: usize| {
        let terms = PROB.iter().enumerate().map(|(j, &p)| f64::from(p) * f64::from(v[successor(s, j)]));
        f64::from(reward[s]) + terms.sum::<f64>()
    };
    let new: Vec<f64> = (0..v.len()).map(value).collect();
    let residual = new.iter().zip(v).map(|(new, &v)| (new - f64::from(v)).abs()).fold(0.0, f64::max);
    (new, residual)
}

/// The successor in the banded model.
fn banded(states: usize) -> impl Fn(usize, usize) -> usize {
    let width = states.isqrt().next_power_of_two();
    move |s, j| match j {
        0 => s,
        1 => (s + width) % states,
        _ => (s + states * width - width) % states,
    }
}

fn sell<D: Device>(device: &D, reward: &[f32]) -> Result<Sell<D>, D::Error> {
    let states = reward.len();
    let successor = banded(states);
    let slices = states.div_ceil(32);
    let (mut col, mut prob) = (Vec::new(), Vec::new());
    for slice in 0..slices {
        for (j, &p) in PROB.iter().enumerate() {
            for s in 32 * slice..32 * (slice + 1) {
                col.push(if s < states { successor(s, j) as u32 } else { 0 });
                prob.push(if s < states { p } else { 0.0 });
            }
        }
    }
    let first: Vec<u32> = (0..=slices).map(|slice| (32 * ENTRIES * slice) as u32).collect();
    Ok(Sell {
        states: states as u32,
        first: device.upload(&first)?,
        col: device.upload(&col)?,
        prob: device.upload(&prob)?,
        reward: device.upload(reward)?,
    })
}

fn rows<D: Device>(device: &D, reward: &[f32], col: &[u32]) -> Result<Rows<D>, D::Error> {
    let states = reward.len();
    let ptr: Vec<u32> = (0..=states).map(|s| (ENTRIES * s) as u32).collect();
    Ok(Rows {
        states: states as u32,
        ptr: device.upload(&ptr)?,
        col: device.upload(col)?,
        prob: device.upload(&PROB.repeat(states))?,
        reward: device.upload(reward)?,
    })
}

/// The f64 whose bits are the first element.
fn number<D: Device>(lab: &Lab<'_, D>, bits: &D::Buffer<u64>) -> Result<[f32; 1], Failure> {
    Ok([f64::from_bits(lab.device.to_vec(bits)?[0]) as f32])
}

/// Checks a [`PolicyEvaluation`].
pub struct Check<S>(PhantomData<S>);

/// S of the predictions.
const COUNTED: usize = 8192;

impl<S: PolicyEvaluation> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &["predictions", "a sweep with its residual"];

    fn sizes(_: usize) -> Vec<usize> {
        vec![1, 31, 33, 1000, 2500]
    }

    fn counted(_: usize) -> usize {
        COUNTED
    }

    fn timed(_: usize) -> usize {
        1 << 22
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        let (reward, values) = (lab.floats(n, 0), lab.floats(n, 1));
        let (new_expected, change) = expected(&reward, &values, banded(n));
        let model = sell(lab.device, &reward)?;
        let v = lab.device.upload(&values)?;
        let mut new = lab.device.uninitialised(n)?;
        // The same maximum in each launch.
        let mut residual = lab.device.zeros(1)?;
        if part == 0 {
            lab.launch(|device| {
                S::evaluate_sell(device, &model, &v, &mut new)?;
                S::max_change(device, n as u32, &v, &new, &mut residual)
            })?;
        } else {
            lab.launch(|device| S::sweep(device, &model, &v, &mut new, &mut residual))?;
        }
        lab.close("V_new", &lab.device.to_vec(&new)?, &new_expected, 1e-5)?;
        lab.close("residual", &number(lab, &residual)?, &[change], 1e-5)?;
        if part == 0 && n <= COUNTED {
            let col = lab.integers(ENTRIES * n, n as u32, 2);
            let (expected, _) = expected(&reward, &values, |s, j| col[ENTRIES * s + j] as usize);
            let model = rows(lab.device, &reward, &col)?;
            S::evaluate_rows(lab.device, &model, &v, &mut new)?;
            lab.close("V_new", &lab.device.to_vec(&new)?, &expected, 1e-5)?;
        }
        Ok(())
    }

    fn budgets(part: usize) -> Vec<Budget> {
        if part == 1 {
            let most = |kernel: &KernelProfile| kernel.atomics_per_address.first().copied().unwrap_or(0);
            return vec![
                Budget::bytes_of_all(51.0 * COUNTED as f64),
                Budget::of_all("atomic operations on one address", 16.0, move |profile| {
                    profile.kernels.values().map(most).sum::<u64>() as f64
                }),
            ];
        }
        let sectors = |kernel: &KernelProfile| kernel.total(Operation::Load).sectors as f64;
        let resident = |shared_bytes: u32| {
            move |kernel: &KernelProfile| {
                let mut kernel = kernel.clone();
                (kernel.registers, kernel.shared_bytes) = (Some(40), shared_bytes);
                // A multiprocessor holds at most 64 warps.
                64.0 * kernel.occupancy().unwrap_or(f64::NAN)
            }
        };
        let (sell, change, rows) = ("evaluate_sell", "max_change", "evaluate_rows");
        let of = S::PREDICTIONS;
        vec![
            Budget::predicted("loads of evaluate_sell", sell, of.sell_loads, 1.0, |kernel| {
                kernel.total(Operation::Load).requests as f64
            }),
            Budget::predicted("sectors of loads of evaluate_sell", sell, of.sell_load_sectors, 1.0, sectors),
            Budget::predicted("bytes of sectors of evaluate_sell", sell, of.sell_bytes, 1.0, budget::bytes),
            Budget::predicted("sectors of loads of max_change", change, of.change_load_sectors, 1.0, sectors),
            Budget::predicted("atomic operations of max_change", change, of.change_atomics, 1.0, |kernel| {
                kernel.total(Operation::Atomic).lanes as f64
            }),
            Budget::predicted("sectors of loads of evaluate_rows", rows, of.rows_load_sectors, 1.1, sectors),
            Budget::predicted("resident warps with 40 registers", sell, of.warps_by_registers, 1.0, resident(0)),
            Budget::predicted(
                "resident warps with 40 registers and 40 KiB of shared memory",
                sell,
                of.warps_by_shared_memory,
                1.0,
                resident(40 * 1024),
            ),
        ]
    }

    /// Each byte once, in both parts: three entries, r, V read and written, and 1/32 of a position.
    fn work(_: usize, n: usize) -> Work {
        Work { bytes: 36.125 * n as f64, flops: (2 * ENTRIES * n) as f64 }
    }
}
