//! Checkpoints of solves on ranks: what is written, and who goes on from it.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use safetensors::tensor::Dtype;
use warpkov_common::checkpoint::{Checkpoints, Hash};
use warpkov_mdp::SolveError;
use warpkov_mdp::checkpoint::{Checkpoint, Proposal, hash, hash_of};
use warpkov_mdp::generate::SlipGrid;
use warpkov_mdp::io as files;
use warpkov_mdp::model::{Mdp, Objective, Whole};
use warpkov_mdp::options::{Limits, Method, Precision, Reorder, SolveOptions, Target};
use warpkov_mdp::solution::{Round, Solution, Status};
use warpkov_mdp::solve::{Initial, Session, Solve};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::{Communicator, Local};

use crate::random::Random;

use super::common::{PATIENCE, assert_agree, cpu, families, models, open, rewritten, solved, widen};

/// Who has what of a model that several ranks solve.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    Whole,
    Part,
}

/// Files of checkpoints of a solve.
#[derive(Clone, Copy, Default)]
struct Kept<'a> {
    resume: Option<&'a Path>,
    write: Option<&'a Path>,
    /// Stops after this number of rounds; 0 for no stop.
    rounds: usize,
}

/// Solves on some ranks with checkpoints. Returns the values of all states, and why the last checkpoint could not be written.
fn kept(
    mdp: &Mdp,
    (ranks, holds): (u32, Holds),
    options: &SolveOptions,
    files: Kept,
) -> Result<(Solution, Option<String>), SolveError> {
    let work = |comm: &Local| {
        let mut checkpoints = files.write.map(|path| match comm.rank() {
            0 => Checkpoints::new(path.to_owned(), Duration::MAX, |_| {}),
            _ => Checkpoints::elsewhere(),
        });
        let mut rounds = 0;
        let observe = &mut |_: &Round| {
            rounds += 1;
            if rounds == files.rounds { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let solve = match holds {
            Holds::Whole => Solve::new(mdp, options),
            Holds::Part => Solve::in_parts(mdp, options),
        };
        let (resume, checkpoints_of_solve) = (files.resume, checkpoints.as_mut());
        let session =
            Session { initial: Initial::Zero, resume, checkpoints: checkpoints_of_solve, observe: Some(observe) };
        let solution = solve.session(session).run_on(comm)?;
        Ok::<_, SolveError>((solution, checkpoints.and_then(|kept| kept.finish().err()).map(|error| error.to_string())))
    };
    let mut all = Local::run(ranks, PATIENCE, work)?.into_iter();
    let (mut first, failed) = all.next().unwrap();
    for (part, _) in all {
        first.values.extend(part.values);
    }
    Ok((first, failed))
}

/// A checkpoint, its file and its values.
struct Stopped {
    solution: Solution,
    checkpoint: Checkpoint,
    values: Vec<f64>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// Solves on some ranks, stops after this number of rounds, and returns the checkpoint of that moment.
fn interrupted(mdp: &Mdp, ranks: (u32, Holds), options: &SolveOptions, rounds: usize) -> Stopped {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let files = Kept { write: Some(&path), rounds, ..Kept::default() };
    let (solution, failed) = kept(mdp, ranks, options, files).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((solution.run.status, failed), (Status::Interrupted, None));
    let (checkpoint, values) = Checkpoint::open(&path, mdp, hash(mdp)).unwrap();
    let values = values.take(0..mdp.states().into()).unwrap();
    Stopped { solution, checkpoint, values, path, _folder: folder }
}

fn resumed(mdp: &Mdp, ranks: (u32, Holds), options: &SolveOptions, path: &Path) -> Solution {
    let files = Kept { resume: Some(path), ..Kept::default() };
    kept(mdp, ranks, options, files).unwrap_or_else(|error| panic!("{error}")).0
}

/// A checkpoint of any number of ranks goes on on any other, with the bits of a run that was not interrupted if the sweeps
/// are those of Jacobi, and with all counters.
#[test]
fn checkpoints_go_on_on_other_numbers_of_ranks() {
    let random = Random::new(5).mdp(500, 3, 20, 0.995);
    let grid = SlipGrid { width: 37, height: 30, gamma: 0.999, ..SlipGrid::default() }.generate().unwrap();
    for (number, mdp) in [grid.clone(), random, grid.with_objective(Objective::Minimize)].into_iter().enumerate() {
        for (method, precision, device) in [
            (Method::Values, Precision::F64, DeviceChoice::Cpu),
            (Method::Values, Precision::Refined, DeviceChoice::Cpu),
            (Method::Values, Precision::F64, DeviceChoice::Emulated),
            (Method::Values, Precision::Mixed, DeviceChoice::Emulated),
            (Method::GaussSeidel, Precision::F64, DeviceChoice::Cpu),
            (Method::Modified, Precision::F64, DeviceChoice::Cpu),
            (Method::Krylov, Precision::F64, DeviceChoice::Cpu),
            (Method::Parallel, Precision::F64, DeviceChoice::Cpu),
        ] {
            // The first model shows what depends on the method, the others what depends on the model.
            if number > 0 && method != Method::Values {
                continue;
            }
            let what = format!("{method} in {precision} on {device}");
            let options = SolveOptions { device, precision, reorder: Reorder::Rcm, ..cpu(Some(method)) };
            let whole = solved(&mdp, 1, None, &options);
            if whole.run.rounds.len() < 3 {
                continue;
            }
            for (before, after) in [(1, 1), (1, 3), (4, 1), (2, 3)] {
                if device == DeviceChoice::Emulated && before + after > 4 {
                    continue;
                }
                let stopped = interrupted(&mdp, (before, Holds::Whole), &options, 2);
                assert_eq!(stopped.checkpoint.run.sweeps(), stopped.solution.run.sweeps());
                let found = resumed(&mdp, (after, Holds::Whole), &options, &stopped.path);
                assert_agree(&what, &found, &whole);
                assert_eq!(found.run.status, Status::Solved, "{what}");
                assert_eq!(found.run.rounds[1].sweeps, stopped.solution.run.rounds[1].sweeps, "{what}");
                assert!(found.run.elapsed >= stopped.solution.run.elapsed);
                // Blocks of Gauss-Seidel sweeps end where the states of a rank do.
                let same = method == Method::Values || method == Method::GaussSeidel && (before, after) == (1, 1);
                if same && precision == Precision::F64 {
                    assert_eq!(found.values, whole.values, "{what}");
                    assert_eq!(found.run.sweeps(), whole.run.sweeps(), "{what}");
                }
            }
        }
    }
}

/// A round of Gauss-Seidel sweeps that a limit cut short goes on where it was.
#[test]
fn a_cut_round_of_gauss_seidel_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let random = Random::new(5).mdp(500, 3, 20, 0.995);
    let grid = SlipGrid { width: 37, height: 30, gamma: 0.999, ..SlipGrid::default() }.generate().unwrap();
    for (number, mdp) in [random, grid].into_iter().enumerate() {
        let options = SolveOptions { precision: Precision::F64, ..cpu(Some(Method::GaussSeidel)) };
        let whole = solved(&mdp, 1, None, &options);
        for most in [1, 64, 127, 128, 129, 150] {
            let path = folder.path().join(format!("{number}-{most}"));
            let limits = Limits { max_sweeps: most, ..options.limits };
            let cut = SolveOptions { limits, ..options };
            kept(&mdp, (1, Holds::Whole), &cut, Kept { write: Some(&path), ..Kept::default() }).unwrap();
            let found = resumed(&mdp, (1, Holds::Whole), &options, &path);
            assert!(found.values == whole.values, "model {number}, {most} of {} sweeps", whole.run.sweeps());
        }
    }
}

/// A run that ends before its results are written has them again from its last checkpoint, without a sweep; but for another target.
#[test]
fn solved_checkpoints_need_no_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let mdp = SlipGrid { width: 37, height: 30, gamma: 0.999, ..SlipGrid::default() }.generate().unwrap();
    for (method, precision, ranks) in [
        (Method::Values, Precision::F64, 1),
        (Method::Values, Precision::F64, 3),
        (Method::Values, Precision::Refined, 1),
        (Method::GaussSeidel, Precision::F64, 1),
        (Method::Modified, Precision::F64, 1),
    ] {
        let path = folder.path().join(format!("{method}-{precision}-{ranks}"));
        let limits = Limits { target: Target::Epsilon(1e-3), ..Limits::default() };
        let options = SolveOptions { precision, limits, ..cpu(Some(method)) };
        let files = Kept { write: Some(&path), ..Kept::default() };
        let whole = kept(&mdp, (ranks, Holds::Whole), &options, files).unwrap().0;
        assert_eq!(whole.run.status, Status::Solved);
        let found = resumed(&mdp, (1, Holds::Whole), &options, &path);
        assert_eq!((found.run.status, found.run.sweeps()), (Status::Solved, whole.run.sweeps()), "{method}");
        assert_eq!((found.values, found.policy), (whole.values, whole.policy), "{method}");
        let limits = Limits { target: Target::Epsilon(1e-6), ..options.limits };
        let tighter = resumed(&mdp, (1, Holds::Whole), &SolveOptions { limits, ..options }, &path);
        assert!(tighter.converged(&limits) && tighter.run.sweeps() > whole.run.sweeps(), "{method}");
    }
}

/// Limits count the sweeps before a checkpoint.
#[test]
fn limits_count_what_came_before_a_checkpoint() {
    let mdp = SlipGrid { gamma: 0.9999, ..SlipGrid::default() }.generate().unwrap();
    let limits = Limits { max_sweeps: 150, ..Limits::default() };
    let options = SolveOptions { limits, ..cpu(Some(Method::Values)) };
    let stopped = interrupted(&mdp, (1, Holds::Whole), &options, 1);
    let found = resumed(&mdp, (2, Holds::Part), &options, &stopped.path);
    assert_eq!((found.run.status, found.run.sweeps()), (Status::SweepLimit, 150));
    assert_eq!(found.values, solved(&mdp, 1, None, &options).values);
}

/// Ranks write their values into one file and read their own: any number of ranks goes on after any other, whoever has the whole model,
/// with the bits of a run that was not interrupted.
#[test]
fn checkpoints_in_parts_go_on_on_other_numbers_of_ranks() {
    use Holds::{Part, Whole};
    let random = Random::new(5).mdp(500, 3, 20, 0.995);
    // The longer the way to the goal, the more sweeps.
    let grid = SlipGrid { width: 400, height: 4, gamma: 0.999, ..SlipGrid::default() }.generate().unwrap();
    let mut stopped_within = 0;
    for mdp in [random, grid.clone(), grid.with_objective(Objective::Minimize)] {
        let options = SolveOptions { precision: Precision::F64, reorder: Reorder::None, ..cpu(Some(Method::Values)) };
        let whole = solved(&mdp, 1, None, &options);
        if whole.run.rounds.len() < 3 {
            continue;
        }
        stopped_within += 1;
        let first = interrupted(&mdp, (1, Whole), &options, 2);
        for (before, after) in [(1, 7), (2, 3), (4, 5), (7, 2), (5, 1)] {
            let stopped = interrupted(&mdp, (before, Part), &options, 2);
            assert!(stopped.values == first.values, "{before} ranks");
            assert_eq!(stopped.checkpoint.run.sweeps(), first.checkpoint.run.sweeps());
            for (path, ranks) in
                [(&stopped.path, (after, Part)), (&stopped.path, (1, Whole)), (&first.path, (after, Part))]
            {
                let found = resumed(&mdp, ranks, &options, path);
                assert!(found.values == whole.values, "{before} ranks, then {ranks:?}");
                assert_eq!((found.run.sweeps(), found.run.status), (whole.run.sweeps(), Status::Solved));
            }
        }
        for method in [Method::GaussSeidel, Method::Modified, Method::Krylov, Method::Parallel] {
            let options = cpu(Some(method));
            if solved(&mdp, 3, None, &options).run.rounds.len() < 2 {
                continue;
            }
            let stopped = interrupted(&mdp, (3, Part), &options, 1);
            let found = resumed(&mdp, (2, Part), &options, &stopped.path);
            assert!(found.converged(&Limits::default()), "{method}: {:?}", found.run.status);
        }
    }
    assert!(stopped_within > 0, "every model is solved before its second round ends");
}

/// The hashes of ranges add up to that of the model, in any format, with columns of any type in any order, and made on demand.
#[test]
fn hashes_of_parts_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut random = Random::new(8);
    let mut sum = |whole: &dyn Whole, parts: usize| {
        let mut splits: Vec<_> = (1..parts).map(|_| random.below(whole.states() + 1)).collect();
        splits.extend([0, whole.states()]);
        splits.sort_unstable();
        splits.windows(2).map(|ends| hash_of(whole, ends[0]..ends[1]).unwrap()).fold(Hash::default(), Hash::and)
    };
    for (number, mdp) in models().iter().enumerate() {
        let expected = hash(mdp);
        let [short, long, turned] =
            ["short", "long", "turned"].map(|name| path(&format!("{name}-{number}.safetensors")));
        files::write(&short, mdp).unwrap();
        rewritten(&short, &long, |arrays| widen(arrays, Dtype::I64));
        let row_ptr = mdp.transitions().row_ptr();
        rewritten(&short, &turned, |arrays| {
            for (name, size) in [("P.indices", 4), ("P.data", 8)] {
                let data = &mut arrays.get_mut(name).unwrap().1;
                for ends in row_ptr.windows(2) {
                    let mut row: Vec<_> = data[ends[0] as usize * size..ends[1] as usize * size]
                        .chunks(size)
                        .map(<[u8]>::to_vec)
                        .collect();
                    row.reverse();
                    data[ends[0] as usize * size..ends[1] as usize * size].copy_from_slice(&row.concat());
                }
            }
        });
        for parts in 1..=7 {
            assert_eq!(sum(mdp, parts), expected, "model {number}");
            for file in [&short, &long, &turned] {
                assert_eq!(sum(&open(file).unwrap(), parts), expected, "{}", file.display());
            }
        }
        // A number that differs gives another hash.
        let values = mdp.transitions().val().to_vec();
        let Some(at) = values.iter().rposition(|&value| value < 1.0 && value > 1e-3) else { continue };
        rewritten(&short, &turned, |arrays| {
            arrays.get_mut("P.data").unwrap().1[8 * at..8 * at + 8]
                .copy_from_slice(&(values[at] * (1.0 - 1e-9)).to_le_bytes());
        });
        assert_ne!(sum(&open(&turned).unwrap(), 3), expected, "model {number}");
    }
    for (name, source, mdp) in families() {
        assert_eq!(sum(&*source, 5), hash(&mdp), "{name}");
    }
}

/// What is wrong with a checkpoint is one message, the same on all ranks. A checkpoint that cannot be written stops no solve.
#[test]
fn faults_of_checkpoints_in_parts_are_told() {
    let mdp = SlipGrid { gamma: 0.99, ..SlipGrid::default() }.generate().unwrap();
    let options = SolveOptions { reorder: Reorder::None, ..cpu(Some(Method::Values)) };
    let stopped = interrupted(&mdp, (3, Holds::Part), &options, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let bytes = fs::read(&stopped.path).unwrap();
    let end = bytes.len();
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let (path, mut bytes) = (path(name), bytes.clone());
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        path
    };
    let old = changed("old", &|bytes| {
        let at = bytes.windows(13).position(|text| text == br#""version":"2""#).unwrap();
        bytes[at + 11] = b'1';
    });
    let other = SlipGrid { slip: 0.3, gamma: 0.99, ..SlipGrid::default() }.generate().unwrap();
    let minimized = mdp.clone().with_objective(Objective::Minimize);
    for (mdp, path, expected) in [
        (&other, &stopped.path, "the checkpoint belongs to another model"),
        (&minimized, &stopped.path, "minimize"),
        (&mdp, &old, "the checkpoint has version \"1\", expected \"2\""),
        (&mdp, &changed("short", &|bytes| bytes.truncate(end - 8)), "damaged"),
        (
            &mdp,
            &changed("nan", &|bytes| bytes[end - 80..end - 72].copy_from_slice(&f64::NAN.to_le_bytes())),
            "4086 is NaN",
        ),
        (&mdp, &path("none"), "No such file"),
    ] {
        let error = |ranks| {
            let files = Kept { resume: Some(path), ..Kept::default() };
            kept(mdp, ranks, &options, files).map(drop).unwrap_err().to_string()
        };
        let one = error((1, Holds::Whole));
        assert!(one.contains(expected) && one.contains(path.to_str().unwrap()), "{one}");
        for ranks in [(3, Holds::Whole), (1, Holds::Part), (4, Holds::Part)] {
            assert_eq!(error(ranks), one, "{ranks:?}");
        }
    }
    let missing = path("none").join("checkpoint");
    for ranks in [(1, Holds::Whole), (3, Holds::Whole), (3, Holds::Part)] {
        let (solution, failed) =
            kept(&mdp, ranks, &options, Kept { write: Some(&missing), ..Kept::default() }).unwrap();
        assert!(solution.converged(&Limits::default()) && failed.is_some_and(|message| message.contains("no folder")));
    }
    // What is no regular file gets the values piece by piece.
    #[cfg(target_os = "linux")]
    for ranks in 1..=3 {
        use std::os::fd::AsRawFd;
        let file = fs::File::create(path("descriptor")).unwrap();
        let descriptor = PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()));
        let files = Kept { write: Some(&descriptor), rounds: 1, ..Kept::default() };
        assert_eq!(kept(&mdp, (ranks, Holds::Part), &options, files).unwrap().1, None);
        let (found, values) = Checkpoint::open(&path("descriptor"), &mdp, hash(&mdp)).unwrap();
        assert_eq!(found.run.sweeps(), stopped.checkpoint.run.sweeps());
        assert!(values.take(0..4096).unwrap() == stopped.values);
    }
}

/// A solve whose certificate sends it on writes one checkpoint, at its end.
#[test]
fn attempts_write_no_checkpoints() {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let mdp = Random::new(2).mdp(300, 3, 9, 0.999);
    for method in [Method::Values, Method::GaussSeidel, Method::Parallel, Method::Modified] {
        let limits = Limits { target: Target::Epsilon(1e-9), ..Limits::default() };
        let options = SolveOptions { limits, precision: Precision::F64, ..cpu(Some(method)) };
        WRITTEN.store(0, Ordering::Relaxed);
        let missing = tempfile::tempdir().unwrap().path().join("none/checkpoint");
        let mut checkpoints = Checkpoints::new(missing, Duration::MAX, |_| {
            WRITTEN.fetch_add(1, Ordering::Relaxed);
        });
        let session = Session { checkpoints: Some(&mut checkpoints), ..Session::default() };
        Solve::new(&mdp, &options).session(session).run().unwrap();
        assert_eq!(WRITTEN.load(Ordering::Relaxed), 1, "{method}");
    }
}

/// A checkpoint is that of one problem; the format of a model does not matter.
#[test]
fn checkpoints_belong_to_a_model() {
    let mdp = SlipGrid { gamma: 0.99, ..SlipGrid::default() }.generate().unwrap();
    let stopped = interrupted(&mdp, (1, Holds::Whole), &cpu(Some(Method::Values)), 1);
    let error = |mdp: &Mdp| Checkpoint::open(&stopped.path, mdp, hash(mdp)).err().unwrap().to_string();
    assert!(error(&SlipGrid { slip: 0.3, ..SlipGrid::default() }.generate().unwrap()).contains("another model"));
    assert!(error(&mdp.clone().with_gamma(0.5).unwrap()).contains("gamma 0.99"));
    assert!(error(&mdp.clone().with_objective(Objective::Minimize)).contains("minimize"));
    assert!(Proposal::read(&stopped.path, &mdp, "average, maximize").unwrap_err().to_string().contains("problem"));
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.json", "model.safetensors", "model.npz"] {
        let model = folder.path().join(name);
        files::write(&model, &mdp).unwrap();
        assert_eq!(hash(&files::read(&model).unwrap()), hash(&mdp), "{name}");
    }
}
