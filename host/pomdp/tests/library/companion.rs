//! A search on the CPU beside walks on emulated devices: its findings count for the run, and the run ends both.

use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_common::checkpoint::Checkpoints;
use warpkov_pomdp::checkpoint::Checkpoint;
use warpkov_pomdp::generate::Tiger;
use warpkov_pomdp::options::{Gap, Limits, Precision, SolveOptions};
use warpkov_pomdp::solution::Status;
use warpkov_pomdp::solve::{Session, solve_on, solve_session, solve_with};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::Local;

use crate::common::{is_attained, model_of, options, small_gap, solve, watch};
use crate::random::Random;

/// A few walks on the emulator beside trials on the CPU.
fn accompanied(gap: f64, precision: Precision) -> SolveOptions {
    let device = DeviceChoice::Emulated;
    SolveOptions { device, precision, beliefs: 8, companion: true, ..options(gap, 10_000) }
}

/// Walks alone seldom close such a gap. The bounds agree with those of the CPU, and the policy attains its own.
#[test]
fn gaps_close_beside_walks() {
    let mut random = Random::new(45);
    let mut models = vec![Tiger::default().generate().unwrap()];
    for _ in 0..6 {
        let sizes = [2 + random.below(5) as u32, 2 + random.below(2) as u32, 1 + random.below(3) as u32];
        let (gamma, size) = (0.3 + 0.6 * random.unit(), 10_f64.powf(12.0 * random.unit() - 6.0));
        models.push(model_of(&mut random, sizes, gamma, size));
    }
    for (index, model) in models.iter().enumerate() {
        let gap = small_gap(model);
        let known = *solve(model, &options(gap, 20_000)).end();
        // The rounding of f32 alone is a part of so small a gap.
        for (precision, gap) in [(Precision::F64, gap), (Precision::F32, 10.0 * gap)] {
            let what = format!("model {index}, {precision}");
            let solution = solve(model, &accompanied(gap, precision));
            let end = *solution.end();
            assert_eq!(solution.status, Status::Gap, "{what}: {end:?}");
            assert!(end.lower <= known.upper && known.lower <= end.upper, "{what}: {end:?}, {known:?}");
            assert_eq!(solution.device, "the emulator");
            if precision == Precision::F64 && gap > 1e-6 {
                is_attained(model, &solution, 0, &what);
            }
        }
    }
}

/// Of several ranks, each has a companion; all return the same vectors, and bounds that hold.
#[test]
fn ranks_have_companions() {
    let tiger = Tiger::default().generate().unwrap();
    let options = SolveOptions {
        limits: Limits { iterations: Some(40), gap: Gap::Absolute(1e-6), ..Limits::default() },
        ..accompanied(1e-6, Precision::F64)
    };
    let patience = Duration::from_secs(120);
    let all = Local::run(2, patience, |local| solve_on(local, &tiger, &options, &mut watch())).unwrap();
    assert_eq!((&all[0].vectors, all[0].status), (&all[1].vectors, all[1].status));
    for one in &all {
        let end = one.end();
        assert!(end.lower <= 19.3722 && end.upper >= 19.3711, "{end:?}");
    }
    is_attained(&tiger, &all[0], 0, "two ranks");
}

/// The end of a run ends the companion, whatever ends the run; a companion without an end would keep this test waiting.
#[test]
fn runs_end_their_companions() {
    let tiger = Tiger::default().generate().unwrap();
    let endless = accompanied(1e-12, Precision::F64);
    let mut checks = 0;
    let stopped = solve_with(&tiger, &endless, &mut |_| {
        checks += 1;
        if checks > 8 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(stopped.unwrap().status, Status::Interrupted);
    for (limits, status) in [
        (Limits { time: Some(Duration::from_millis(250)), ..endless.limits }, Status::Time),
        (Limits { iterations: Some(3), ..endless.limits }, Status::Iterations),
        (Limits { target: Some(10.0), ..endless.limits }, Status::Target),
    ] {
        assert_eq!(solve(&tiger, &SolveOptions { limits, ..endless }).status, status);
    }
}

/// A checkpoint has the points of the companion, so that a run without one goes on from them.
#[test]
fn checkpoints_have_the_points_of_companions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiger.checkpoint");
    let tiger = Tiger::default().generate().unwrap();
    let options = accompanied(0.01, Precision::F64);
    let mut checkpoints = Checkpoints::new(path.clone(), Duration::MAX, |_| {});
    let session = Session { resume: None, checkpoints: Some(&mut checkpoints) };
    let first = solve_session(&Local::alone(), &tiger, &options, session, &mut watch()).unwrap();
    checkpoints.finish().unwrap();
    assert_eq!(first.status, Status::Gap);
    let kept = Checkpoint::read(&path, &tiger).unwrap();
    let of_start = kept.points.iter().filter(|(belief, _)| belief == tiger.start());
    let upper = of_start.map(|(_, upper)| *upper).fold(f64::INFINITY, f64::min);
    assert!(upper <= first.end().upper + 1e-6, "{upper}, {:?}", first.end());
    let limits = Limits { iterations: Some(kept.iterations + 1), ..options.limits };
    let alone = SolveOptions { companion: false, limits, ..options };
    let session = Session { resume: Some(&kept), checkpoints: None };
    let again = solve_session(&Local::alone(), &tiger, &alone, session, &mut watch()).unwrap();
    assert!(again.end().upper <= first.end().upper && again.end().lower <= 19.3722, "{:?}", again.end());
}

/// Trials on the CPU have no companion, and a note says so.
#[test]
fn searches_on_the_cpu_have_none() {
    let tiger = Tiger::default().generate().unwrap();
    let solution = solve(&tiger, &SolveOptions { companion: true, ..options(1e-3, 10_000) });
    assert!(solution.notes.iter().any(|note| note.contains("companion")), "{:?}", solution.notes);
}
