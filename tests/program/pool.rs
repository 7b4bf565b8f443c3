//! Solves on all threads of rayon's pool.
#![cfg(target_os = "linux")]

use std::env;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rayon::prelude::*;
use warpkov::mdp::Solve;
use warpkov::mdp::generate::Garnet;
use warpkov::mdp::options::{Limits, SolveOptions};
use warpkov::runtime::choose::DeviceChoice;

/// Opens the driver that [`solves_on_a_gpu_may_take_all_threads`] names.
#[test]
#[ignore = "needs a GPU, or the library that stands in for one"]
fn solve_on_all_threads() {
    let mdp = Garnet { states: 50, actions: 2, branching: 3, ..Garnet::default() }.generate().unwrap();
    let options = SolveOptions {
        device: DeviceChoice::Cuda(0),
        limits: Limits { max_sweeps: 3, ..Limits::default() },
        ..SolveOptions::default()
    };
    let runs = 8 * rayon::current_num_threads();
    let solved = |_| Solve::new(&mdp, &options).run().unwrap().values.len();
    assert_eq!((0..runs).into_par_iter().with_max_len(1).map(solved).sum::<usize>(), 50 * runs);
}

/// A solve lays out its model on the pool while it opens the GPU. This test runs the one above with a driver whose kernels do nothing.
#[test]
fn solves_on_a_gpu_may_take_all_threads() {
    let this = env::current_exe().unwrap();
    let built = this.ancestors().nth(2).unwrap().join("examples/libdriver.so");
    if !built.exists() {
        // Tests of this package alone do not build it, CI does.
        assert!(env::var_os("WARPKOV_REQUIRE_PTX").is_none(), "expected {}", built.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    symlink(&built, folder.path().join("libcuda.so.1")).unwrap();
    // All threads would wait for each other for ever.
    let status = Command::new("timeout")
        .arg("120")
        .arg(&this)
        .args(["pool::solve_on_all_threads", "--exact", "--ignored"])
        .envs([("LD_LIBRARY_PATH", folder.path()), ("WARPKOV_NVML", Path::new("none"))])
        .env("RAYON_NUM_THREADS", "2")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
