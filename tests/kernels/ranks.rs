//! Ranks: the kernels for ghosts, and models divided among GPUs.

use std::time::Duration;
use warpkov_runtime::device::AnyDevice;

use libtest_mimic::Trial;
use warpkov::mdp::generate::{Garnet, SlipGrid};
use warpkov::mdp::model::Mdp;
use warpkov::mdp::options::{Limits, Method, Precision, SolveOptions, Spmv, Storage, Target};
use warpkov::mdp::{Solve, SolveError};
use warpkov::runtime::Precise;
use warpkov::runtime::choose::DeviceChoice;
use warpkov::runtime::comm::{Communicator, Local};
use warpkov_device::launch::{Device, IndexBuffer, Shape};
use warpkov_kernels::mdp::ghosts::{pack, unpack};

use crate::check::same;
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("ghosts::f32", ghosts::<f32>);
    suite.add("ghosts::f64", ghosts::<f64>);
}

/// Packs random states and puts them elsewhere; tiles are marked where a value changed.
fn ghosts<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(3);
    for (states, tile) in [(1, 1), (100, 32), (100, 0), (1000 * scale, 256)] {
        let values: Vec<T> = (0..states).map(|state| T::from_f64((state % 7) as f64)).collect();
        let packed: Vec<u32> = (0..states as u32).filter(|_| random.below(3) == 0).collect();
        let ghosts: Vec<u32> = (0..states as u32).filter(|_| random.below(2) == 0).collect();
        let received: Vec<T> = ghosts.iter().map(|_| T::from_f64(random.below(7) as f64)).collect();
        let mut expected = (values.clone(), vec![0; states.div_ceil(tile.max(1))]);
        for (&ghost, &value) in ghosts.iter().zip(&received) {
            if tile > 0 && value != values[ghost as usize] {
                expected.1[ghost as usize / tile] = 1;
            }
            expected.0[ghost as usize] = value;
        }
        let mut v = device.upload(&values)?;
        let (count, list) = (packed.len() as u32, IndexBuffer::upload(device, &packed, states as u32)?);
        let mut found = device.zeros::<T>(packed.len())?;
        if count > 0 {
            let shape = Shape::grid_stride(count.into(), 64);
            pack(device, shape, count, states as u32, &list, &v, &mut found)?;
        }
        let wanted: Vec<T> = packed.iter().map(|&state| values[state as usize]).collect();
        same("packed", &device.to_vec(&found)?, &wanted)?;
        let (count, list, received) = (ghosts.len() as u32, device.upload(&ghosts)?, device.upload(&received)?);
        let mut changed = device.zeros::<u32>(expected.1.len())?;
        if count > 0 {
            let shape = Shape::grid_stride(count.into(), 64);
            // SAFETY: `ghosts` holds distinct states, `received` is as long, and each tile has a flag.
            unsafe { unpack(device, shape, count, &list, &received, &mut v, tile as u32, &mut changed)? };
        }
        same("values", &device.to_vec(&v)?, &expected.0)?;
        same("changed", &device.to_vec(&changed)?, &expected.1)?;
    }
    Ok(())
}

/// Cases of `gpus` GPUs that work together: two ranks on one GPU, through the memory of the host, and a rank on each.
pub fn of_gpus(gpus: u32) -> Vec<Trial> {
    let mut trials = vec![Trial::test("cuda:0,0::ranks", || divided(&[0, 0]))];
    if gpus > 1 {
        let ordinals: Vec<u32> = (0..gpus).collect();
        trials.push(Trial::test("cuda:all::ranks", move || divided(&ordinals)));
    } else {
        eprintln!("one GPU: no case of several");
    }
    trials
}

/// Jacobi sweeps on ranks have the bits of one GPU; all precisions have certified values.
fn divided(ordinals: &[u32]) -> Outcome {
    let grid = SlipGrid { width: 300, height: 400, walls: 0.1, ..SlipGrid::default() }.generate()?;
    let near = Garnet { states: 60_000, window: Some(100), terminals: 0.02, ragged: true, ..Garnet::default() };
    let far = Garnet { states: 20_000, ..Garnet::default() };
    for mdp in [grid, near.generate()?, far.generate()?] {
        let theta = Limits { target: Target::Theta(1e-9), max_sweeps: 250, ..Limits::default() };
        for storage in [None, Some(Storage::Rows), Some(Storage::Slices)] {
            for skip in [true, false] {
                let method = Some(Method::Values);
                let options =
                    SolveOptions { method, storage, skip, precision: Precision::F64, ..SolveOptions::default() };
                let options = SolveOptions { limits: theta, ..options };
                let one = Solve::new(&mdp, &SolveOptions { device: DeviceChoice::Cuda(0), ..options }).run()?;
                let found = solved(&mdp, ordinals, &options)?;
                same("sweeps", &[found.run.sweeps()], &[one.run.sweeps()])?;
                same("values", &found.values, &one.values)?;
            }
        }
        for precision in [Precision::F64, Precision::Mixed, Precision::Refined] {
            for local_sweeps in [1, 5] {
                let (method, storage) = (Some(Method::Values), Some(Storage::Slices));
                let options = SolveOptions { method, precision, storage, local_sweeps, ..SolveOptions::default() };
                let found = solved(&mdp, ordinals, &options)?;
                if !found.converged(&options.limits) {
                    return Err(format!("{precision}, {local_sweeps} local sweeps: {:?}", found.certificate).into());
                }
            }
        }
        for method in [Method::Projected(Spmv::Own), Method::Modified, Method::Krylov] {
            let options = SolveOptions { method: Some(method), ..SolveOptions::default() };
            let found = solved(&mdp, ordinals, &options)?;
            if !found.converged(&options.limits) {
                return Err(format!("{method}: {:?}", found.certificate).into());
            }
        }
    }
    Ok(())
}

fn solved(mdp: &Mdp, ordinals: &[u32], options: &SolveOptions) -> Result<warpkov::mdp::solution::Solution, SolveError> {
    let work = |comm: &Local| {
        let device = DeviceChoice::Cuda(ordinals[comm.rank() as usize]);
        Solve::new(mdp, &SolveOptions { device, ..*options }).run_on(comm)
    };
    Local::run(ordinals.len() as u32, Duration::from_secs(60), work).map(|mut all| all.swap_remove(0))
}
