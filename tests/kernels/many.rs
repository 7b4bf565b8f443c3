//! Thousands of solves in one process take no more memory than the first ones, on the host and on the device.

use std::fs;
use std::ops::ControlFlow;

use warpkov::hmm::backends::device::Limits as HmmLimits;
use warpkov::hmm::generate::{Kind, Uniform};
use warpkov::hmm::options::Precision;
use warpkov::hmm::place::recursions;
use warpkov::hmm::sample::sample;
use warpkov::mdp::Solve;
use warpkov::mdp::generate::Garnet;
use warpkov::mdp::options::SolveOptions;
use warpkov::pomdp::generate::Tiger;
use warpkov::pomdp::options::{Expansion, Gap, Limits, SolveOptions as PomdpOptions};
use warpkov::pomdp::solve::solve_with;
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::device::AnyDevice;

use crate::{Outcome, Suite};

/// Solves of each class: 10,000 in all; under emulation, which takes longer, a tenth.
const SOLVES: [(&str, usize); 3] = [("mdp", 6000), ("hmm", 3000), ("pomdp", 1000)];

/// What the process may grow by after the first tenth of its solves, in bytes. A leak of a buffer or of a context in every solve
/// is larger by far.
const SLACK: u64 = 8 << 20;

pub fn add(suite: &mut Suite) {
    suite.add_alone("thousands_of_solves", thousands_of_solves);
}

/// Bytes of memory that the process has, and that its GPU has given away.
fn in_use(device: &AnyDevice) -> Result<[u64; 2], Box<dyn std::error::Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let host = resident.ok_or("no resident memory")?.trim().parse::<u64>()? << 10;
    let on_device = match device.gpu() {
        Some(gpu) => {
            let (free, total) = gpu.memory()?;
            total - free
        }
        None => 0,
    };
    Ok([host, on_device])
}

fn thousands_of_solves(open: &AnyDevice) -> Outcome {
    let device = open.gpu().map_or(DeviceChoice::Emulated, |gpu| DeviceChoice::Cuda(gpu.ordinal()));
    let mdp = Garnet { states: 4, actions: 2, branching: 2, gamma: 0.5, ..Garnet::default() }.generate()?;
    let mdp_options = SolveOptions { device, ..SolveOptions::default() };
    let hmm = Uniform { states: 3, kind: Kind::Symbols(2), ends: false, seed: 1 }.generate()?;
    let sequences = sample(&hmm, 2, Some(4), 1)?.sequences;
    let tiger = Tiger::default().generate()?;
    let limits = Limits { gap: Gap::Absolute(1e-9), iterations: Some(1), ..Limits::default() };
    let pomdp_options = PomdpOptions { device, limits, expansion: Some(Expansion::Walks), ..PomdpOptions::default() };
    let mut mdp_solve = || Outcome::Ok(Solve::new(&mdp, &mdp_options).run().map(drop)?);
    let mut hmm_solve = || {
        let (place, _) = Place::open(device, None)?;
        let mut batch = recursions(&place, &sequences, Precision::F32, HmmLimits::default())?;
        batch.set_models(std::slice::from_ref(&hmm))?;
        let (likelihoods, paths) = (batch.log_likelihoods()?, batch.viterbi()?);
        assert!(likelihoods[0].iter().zip(&paths[0].scores).all(|(all, best)| all + 1e-5 >= *best));
        Outcome::Ok(())
    };
    let mut pomdp_solve =
        || Outcome::Ok(solve_with(&tiger, &pomdp_options, &mut |_| ControlFlow::Continue(())).map(drop)?);
    let solves: [&mut dyn FnMut() -> Outcome; 3] = [&mut mdp_solve, &mut hmm_solve, &mut pomdp_solve];
    for ((class, count), solve) in SOLVES.into_iter().zip(solves) {
        let count = if open.gpu().is_some() { count } else { count / 10 };
        let mut before = [0; 2];
        for number in 0..count {
            if number == count / 10 {
                before = in_use(open)?;
            }
            solve()?;
        }
        for ((after, before), place) in in_use(open)?.into_iter().zip(before).zip(["host", "device"]) {
            if after > before + SLACK {
                return Err(format!(
                    "{class}: the {place} had {before} bytes after {} solves, and {after} after {count}",
                    count / 10
                )
                .into());
            }
        }
    }
    Ok(())
}
