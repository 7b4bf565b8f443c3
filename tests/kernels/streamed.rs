//! Models streamed through a device: V must have the same bits as with a resident model.

use warpkov::mdp::backend::{GreedySweeps, State, Stop};
use warpkov::mdp::backends::device::{Streamed, Streaming, SweepLayout, ValueIteration};
use warpkov::mdp::generate::SlipGrid;
use warpkov::mdp::model::Mdp;
use warpkov::mdp::options::Storage;
use warpkov::runtime::Precise;
use warpkov_device::device::Offset;
use warpkov_runtime::device::AnyDevice;

use crate::check::same;
use crate::random::Random;
use crate::values::chain;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    instances! { suite,
        "streamed": streamed,
        "streamed_again": streamed_again,
    }
}

fn plan(model: &Mdp, storage: Storage) -> Result<SweepLayout<'_>, &'static str> {
    SweepLayout::new(model, Some(storage)).ok_or("no such layout")
}

fn bits(values: Vec<f64>) -> Vec<u64> {
    values.into_iter().map(f64::to_bits).collect()
}

/// Sweeps and starts with parts of one tile, of several tiles and of all tiles, and with two or more windows.
fn streamed<T: Precise, O: Offset>(device: &AnyDevice, scale: usize) -> Outcome {
    let n = scale as u32;
    let side = if scale > 1 { 300 } else { 31 };
    let grid = SlipGrid { width: side, height: side, ..SlipGrid::default() }.generate().map_err(|e| e.to_string())?;
    let mut random = Random::new(47);
    let models = [grid, random.mdp(1000 * n + 1, 2, 3, 0.9), random.ragged(1100 * n, 3, 4, 0.9), chain(900 * n)];
    let mut tried = 0;
    for model in &models {
        for storage in [Storage::Slices, Storage::Narrow] {
            let Some(all) = SweepLayout::new(model, Some(storage)) else { continue };
            let mut reference = ValueIteration::<T, O>::new(device, &all.without_skipping())?;
            let bytes = plan(model, storage)?.model_bytes::<T, O>();
            for (part_bytes, room) in [(1, 0), (bytes / 3, 0), (bytes / 5, bytes / 2), (bytes, bytes)] {
                tried += 1;
                let start: Vec<f64> = reference.values()?.iter().map(|v| v / 2.0 + 1.0).collect();
                for skipping in [true, false] {
                    let plan = plan(model, storage)?;
                    let plan = if skipping { plan } else { plan.without_skipping() };
                    let streaming = Streaming::new(plan, part_bytes, room).ok_or("nothing to stream")?;
                    let mut tested = Streamed::<T, O>::new(device, &streaming)?;
                    for start in [None, Some(&start[..])] {
                        reference.reset(start)?;
                        tested.reset(start)?;
                        for sweeps in [1, 2, 7] {
                            let got = tested.backup(Stop::Change(0.0), sweeps)?;
                            let expected = reference.backup(Stop::Change(0.0), sweeps)?;
                            same("V", &bits(tested.values()?), &bits(reference.values()?))?;
                            if !skipping && got != expected {
                                return Err(format!("{got:?}, expected {expected:?}").into());
                            }
                        }
                    }
                }
            }
        }
    }
    if tried < 20 { Err(format!("only {tried} cases").into()) } else { Ok(()) }
}

/// A part that is in a window, or whose values cannot change, is not copied again.
fn streamed_again<T: Precise, O: Offset>(device: &AnyDevice, _: usize) -> Outcome {
    // Eight tiles of 256 states and one of 52; each slice has two actions with two successors.
    let model = chain(2100);
    let tile = 256 * 2 * (2 * (4 + size_of::<T>()) + size_of::<T>()) as u64;
    for windows in [2, 3, 5] {
        let all = plan(&model, Storage::Slices)?.without_skipping();
        let streaming = Streaming::new(all, 1, windows * tile).ok_or("nothing to stream")?;
        same("parts", &[streaming.parts::<T>()], &[(9, windows as usize)])?;
        let mut tested = Streamed::<T, O>::new(device, &streaming)?;
        tested.backup(Stop::Change(0.0), 4)?;
        same("copies", &[tested.copies()], &[9 + 3 * (9 - windows)])?;
    }
    // A line with its only reward at the end: nine sweeps change the last two parts only, which stay in their windows.
    let line = SlipGrid { width: 2100, height: 1, ..SlipGrid::default() }.generate().map_err(|e| e.to_string())?;
    let streaming = Streaming::new(plan(&line, Storage::Narrow)?, 1, 0).ok_or("nothing to stream")?;
    let mut tested = Streamed::<T, O>::new(device, &streaming)?;
    let done = tested.backup(Stop::Change(0.0), 9)?;
    same("sweeps and copies", &[(u64::from(done.sweeps), tested.copies())], &[(9, 9)])
}
