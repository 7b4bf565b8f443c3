//! What the solvers claim, on random models, by every method, precision, storage and device: the verifier refutes none of it.
//! `scripts/night.sh` runs these tests on many models.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use warpkov_runtime::choose::DeviceChoice;

#[path = "../support/hmms.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod hmms;

#[path = "../support/models.rs"]
mod models;

#[path = "../support/pomdps.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod pomdps;

mod hmm;
mod mdp;
mod pomdp;

/// The GPU that the tests take, if there is one.
fn gpu() -> Option<DeviceChoice> {
    warpkov_runtime::gpu::open(0).is_ok().then_some(DeviceChoice::Cuda(0))
}

/// Calls `work` with each seed of a run, on all cores. Returns the sum of what it counts, and how many seeds there are.
fn night(device: DeviceChoice, count: u64, work: impl Fn(u64) -> usize + Sync) -> (usize, usize) {
    let seeds = models::seeds(count);
    eprintln!("{device}: seeds {seeds:?}");
    let (all, done) = (seeds.clone().count(), AtomicUsize::new(0));
    let of_seed = |seed| {
        let counted = work(seed);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done % 100 == 0 {
            eprintln!("{device}: {done} of {all} models");
        }
        counted
    };
    (seeds.into_par_iter().map(of_seed).sum(), all)
}
