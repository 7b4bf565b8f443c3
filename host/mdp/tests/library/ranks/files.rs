//! Files that ranks read and write in parts.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use safetensors::tensor::Dtype;
use warpkov_mdp::SolveError;
use warpkov_mdp::generate::Garnet;
use warpkov_mdp::io as files;
use warpkov_mdp::model::whole::Described;
use warpkov_mdp::options::{Limits, Method, Reorder, SolveOptions, Target};
use warpkov_mdp::report::{Report, SolutionFormat};
use warpkov_mdp::solve::{Initial, Session, Solve};
use warpkov_runtime::comm::{Column, Communicator, Divided, Local};

use super::common::{PATIENCE, cpu, families, models, open, rewritten, solved_in_parts, widen};

/// A file that each rank reads in part gives the bits of one process, with columns of 32 and of 64 bits.
#[test]
fn files_are_read_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (number, mdp) in models().iter().enumerate() {
        let [short, long, signed] =
            ["short", "long", "signed"].map(|kind| path(&format!("{kind}-{number}.safetensors")));
        files::write(&short, mdp).unwrap();
        rewritten(&short, &long, |arrays| widen(arrays, Dtype::U64));
        rewritten(&short, &signed, |arrays| widen(arrays, Dtype::I64));
        let read = files::read(&long).unwrap();
        assert_eq!(read.transitions().col()[..], mdp.transitions().col()[..]);
        assert_eq!((read.labels(), read.grid()), (mdp.labels(), mdp.grid()));
        let limits = Limits { target: Target::Theta(1e-9), max_sweeps: 200, ..Limits::default() };
        let options = SolveOptions { limits, reorder: Reorder::None, ..cpu(Some(Method::Values)) };
        let one = Solve::new(mdp, &options).run().unwrap();
        for (file, ranks) in [(&short, 1..=7), (&long, 2..=3), (&signed, 5..=5)] {
            let mapped = open(file).unwrap();
            assert_eq!(mapped.grid().unwrap().as_ref(), mdp.grid());
            for ranks in ranks {
                let found = solved_in_parts(&mapped, ranks, &options).unwrap();
                let what = format!("{} on {ranks} ranks", file.display());
                assert_eq!((&found.values, &found.policy), (&one.values, &one.policy), "{what}");
                assert_eq!((found.certificate, found.size), (one.certificate, one.size), "{what}");
            }
        }
        let mapped = open(&short).unwrap();
        for method in [None, Some(Method::Krylov), Some(Method::Modified), Some(Method::GaussSeidel)] {
            let found = solved_in_parts(&mapped, 3, &cpu(method)).unwrap();
            assert!(found.converged(&Limits::default()), "model {number}, {method:?}");
        }
    }
}

/// What is wrong in the part of one rank is the error of all, in the words of the whole reader.
#[test]
fn faults_of_a_part_are_those_of_the_whole() {
    type Arrays = HashMap<String, (Dtype, Vec<u8>)>;
    /// Replaces the bytes of an element of a tensor; from its end, if `at` is negative.
    fn set<const N: usize>(arrays: &mut Arrays, name: &str, at: isize, bytes: [u8; N]) {
        let data = &mut arrays.get_mut(name).unwrap().1;
        let first = (at * N as isize).rem_euclid(data.len() as isize) as usize;
        data[first..first + N].copy_from_slice(&bytes);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let good = path("good.safetensors");
    let garnet = Garnet { states: 900, ragged: true, terminals: 0.05, ..Garnet::default() };
    files::write(&good, &garnet.generate().unwrap()).unwrap();
    /// What a message must hold, and the change that leads to it.
    type Planted<'f> = (&'f str, &'f dyn Fn(&mut Arrays));
    let faults: [Planted; 12] = [
        ("expected a state below 900", &|arrays| set(arrays, "P.indices", -7, 900u32.to_le_bytes())),
        ("expected 1 within", &|arrays| set(arrays, "P.data", -7, 0.875f64.to_le_bytes())),
        ("expected a probability", &|arrays| set(arrays, "P.data", -9, f64::NAN.to_le_bytes())),
        ("expected a finite", &|arrays| set(arrays, "action_rewards", -3, f64::INFINITY.to_le_bytes())),
        ("P.indptr falls", &|arrays| set(arrays, "P.indptr", -9, 1u64.to_le_bytes())),
        ("P.indptr falls", &|arrays| set(arrays, "P.indptr", 9, u64::MAX.to_le_bytes())),
        ("P.indptr ends", &|arrays| set(arrays, "P.indptr", -1, (1u64 << 40).to_le_bytes())),
        ("P.indptr[0]", &|arrays| set(arrays, "P.indptr", 0, 3u64.to_le_bytes())),
        ("expected a step", &|arrays| set(arrays, "choices", -9, 1u64.to_le_bytes())),
        ("expected a step", &|arrays| set(arrays, "choices", 5, (u64::MAX - 9).to_le_bytes())),
        ("choices[0]", &|arrays| set(arrays, "choices", 0, 1u64.to_le_bytes())),
        ("more than once", &|arrays| {
            let data = &mut arrays.get_mut("P.indices").unwrap().1;
            let end = data.len();
            data.copy_within(end - 8..end - 4, end - 4);
        }),
    ];
    let wrong = |file: &PathBuf, expected: &str| {
        let whole = files::read(file).err().unwrap_or_else(|| panic!("{expected}")).to_string();
        assert!(whole.contains(expected), "{whole}");
        for ranks in [1, 4, 7] {
            let options = cpu(Some(Method::Values));
            let found = match open(file) {
                Ok(mapped) => solved_in_parts(&mapped, ranks, &options).unwrap_err().to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, whole, "{ranks} ranks");
        }
    };
    for (number, (expected, change)) in faults.into_iter().enumerate() {
        let bad = path(&format!("bad-{number}.safetensors"));
        rewritten(&good, &bad, change);
        wrong(&bad, expected);
    }
    // Columns of 64 bits, one of which no 32 bits hold.
    let far = path("far.safetensors");
    rewritten(&good, &far, |arrays| {
        widen(arrays, Dtype::U64);
        set(arrays, "P.indices", -7, (1u64 << 32 | 5).to_le_bytes());
    });
    wrong(&far, "is 4294967301, expected a state below 900");
    let bytes = std::fs::read(&good).unwrap();
    let short = path("short.safetensors");
    std::fs::write(&short, &bytes[..bytes.len() - 100]).unwrap();
    wrong(&short, "not a safetensors file");
}

/// Ranks write their values and actions into one file, or rank 0 reads them piece by piece: the bytes of one process.
#[test]
fn solutions_in_parts_have_the_bytes_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mdp = &models()[4];
    let file = path("model.safetensors");
    files::write(&file, mdp).unwrap();
    let options = SolveOptions { reorder: Reorder::None, ..cpu(Some(Method::Values)) };
    let one = Solve::new(mdp, &options).run().unwrap();
    let (mut values, mut policy) = (Vec::new(), Vec::new());
    files::write_npy(&mut values, &one.values).unwrap();
    files::write_npy(&mut policy, &one.policy).unwrap();
    let text = |format: SolutionFormat, report: &Report| {
        let mut out = Vec::new();
        format.write(report, &mut out).unwrap();
        out
    };
    let formats = [SolutionFormat::Csv, SolutionFormat::Npy, SolutionFormat::Text];
    let expected = formats.map(|format| text(format, &Report::new(mdp, &options.limits, &one)));
    for ranks in 1..=5 {
        let mapped = open(&file).unwrap();
        let [all_values, all_actions] = ["values.npy", "policy.npy"].map(&path);
        let texts = Local::run(ranks, PATIENCE, |comm: &Local| {
            let found = Solve::in_parts(&mapped, &options).run_on(comm)?;
            let (first, all) = (found.first, found.size.states);
            assert!(files::write_npy_together(comm, &all_values, &found.values, first, all).unwrap());
            assert!(files::write_npy_together(comm, &all_actions, &found.policy, first, all).unwrap());
            let divided = Divided::new(comm, &found.values, &found.policy)?;
            Ok::<_, SolveError>(divided.on_first(|| {
                let (values, policy) = (Column::Divided(&divided, 0), Column::Divided(&divided, 1));
                let report = Report { values, policy, ..Report::new(mdp, &options.limits, &found) };
                formats.map(|format| text(format, &report))
            })?)
        });
        assert!(std::fs::read(&all_values).unwrap() == values && std::fs::read(&all_actions).unwrap() == policy);
        let texts = texts.unwrap().swap_remove(0).unwrap();
        assert!(texts == expected, "{ranks} ranks");
        // From the file of values, each rank reads its own.
        let read = |states| Ok(files::read_values_of(&all_values, states, mdp.states().into())?);
        let again = Local::run(ranks, PATIENCE, |comm: &Local| {
            let session = Session { initial: Initial::Parts(&read), ..Session::default() };
            Solve::in_parts(&mapped, &options).session(session).run_on(comm)
        });
        let again = again.unwrap();
        assert!(again[0].run.sweeps() <= 2, "{} sweeps from the solution", again[0].run.sweeps());
    }
    let wrong = files::read_values_of(&path("values.npy"), 0..1, 7).unwrap_err().to_string();
    assert!(wrong.ends_with("6000 initial values, expected one per state, 7"), "{wrong}");
}

/// A model that ranks write block by block has the bytes of one that is written from memory. A rank that fails leaves no file.
#[test]
fn models_are_written_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole.safetensors", "parts.safetensors"].map(|name| folder.path().join(name));
    let mut all = families();
    all.extend(models().into_iter().map(|mdp| ("model in memory", Box::new(mdp.clone()) as Box<dyn Described>, mdp)));
    for (number, (name, source, mdp)) in all.into_iter().enumerate() {
        files::write(&whole, &mdp).unwrap();
        let expected = fs::read(&whole).unwrap();
        for ranks in [1, 2 + number as u32 % 6] {
            let work = |comm: &Local| {
                let mut last = 0.0;
                let observe = |done: f64| {
                    assert!(done >= last && done <= 1.0 + 1e-9, "{done} after {last}");
                    last = done;
                    ControlFlow::Continue(())
                };
                let written = files::write_blocks(comm, &parts, &*source, observe);
                Ok::<_, SolveError>(written.unwrap_or_else(|error| panic!("{error:?}")))
            };
            assert!(Local::run(ranks, PATIENCE, work).unwrap().into_iter().all(|written| written));
            assert!(fs::read(&parts).unwrap() == expected, "{name} on {ranks} ranks");
            fs::remove_file(&parts).unwrap();
        }
    }
    let garnet = Garnet { states: 50_000, ..Garnet::default() }.source().unwrap();
    for after in [0.1, 0.5] {
        let work = |comm: &Local| {
            let observe = |done| match comm.rank() == 1 && done > after {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            Ok::<_, SolveError>(files::write_blocks(comm, &parts, &garnet, observe).is_err())
        };
        assert_eq!(Local::run(3, PATIENCE, work).unwrap(), [true; 3]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no file is left but the whole one");
    let nowhere = files::write_blocks(&Local::alone(), Path::new("/dev/null"), &garnet, |_| ControlFlow::Continue(()));
    assert!(!nowhere.unwrap());
}
