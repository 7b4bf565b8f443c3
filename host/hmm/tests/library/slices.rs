//! The method slices: what it refuses, and what it computes over sets of symbols.

use std::time::Duration;

use warpkov_device::emulator::Emulator;
use warpkov_hmm::backends::device::{ForwardMethod, OverPaths, Scan, UnfitForSlices};
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::Precision;
use warpkov_hmm::place::Error;
use warpkov_hmm::run::Setup;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::Sequences;
use warpkov_runtime::choose::Place;
use warpkov_runtime::comm::{Communicator, Local};
use warpkov_runtime::device::AnyDevice;

fn model(kind: Kind) -> Hmm {
    Uniform { states: 3, kind, ends: true, seed: 4 }.generate().unwrap()
}

fn by_slices<'a>(sequences: &'a Sequences, place: &'a Place, comm: &'a dyn Communicator) -> Setup<'a> {
    let (precision, scan, method) = (Precision::F64, Scan::Auto, ForwardMethod::Slices);
    Setup { sequences, sets: &[], place, precision, scan, over: OverPaths::Sums, method, comm }
}

/// ln P(O) by a setup, or its error.
fn scored(setup: Setup<'_>, model: &Hmm) -> Result<Vec<f64>, Error> {
    let (mut found, _) = setup.with_recursions(
        model,
        1,
        |divided| divided,
        |recursions| {
            recursions.set_models(std::slice::from_ref(model))?;
            recursions.log_likelihoods()
        },
    )?;
    Ok(found.remove(0))
}

#[test]
fn the_method_refuses_what_it_cannot_do() {
    let (symbols, vectors) = (model(Kind::Symbols(4)), model(Kind::Vectors { dimensions: 2, full: false }));
    let drawn = |model: &Hmm| sample(model, 3, None, 1).unwrap().sequences;
    let (of_symbols, of_vectors) = (drawn(&symbols), drawn(&vectors));
    let (cpu, emulated) = (Place::Cpu, Place::Device(AnyDevice::from(Emulator::default())));
    let alone = Local::alone();
    let setup = by_slices(&of_symbols, &emulated, &alone);
    let unfit = |setup: Setup<'_>, model: &Hmm| match scored(setup, model) {
        Err(Error::Method(unfit)) => Some(unfit),
        _ => None,
    };
    assert_eq!(unfit(setup, &symbols), None);
    assert_eq!(unfit(Setup { place: &cpu, ..setup }, &symbols), Some(UnfitForSlices::Cpu));
    assert_eq!(unfit(Setup { sequences: &of_vectors, ..setup }, &vectors), Some(UnfitForSlices::Vectors));
    assert_eq!(unfit(Setup { precision: Precision::Tf32, ..setup }, &symbols), Some(UnfitForSlices::Tf32));
    assert_eq!(unfit(Setup { scan: Scan::Always, ..setup }, &symbols), Some(UnfitForSlices::Scan));
    let ranks = Local::run(2, Duration::from_secs(60), |local| {
        let place = Place::Device(AnyDevice::from(Emulator::default()));
        Ok::<_, String>(unfit(by_slices(&of_symbols, &place, local), &symbols))
    });
    assert_eq!(ranks.unwrap(), [Some(UnfitForSlices::Ranks(2)); 2]);
}

/// A set of symbols has the sum of their probabilities.
#[test]
fn sets_of_symbols_are_symbols() {
    let model = model(Kind::Symbols(4));
    let sequences = Sequences::of_symbols(&[vec![0, 4, 1, 5, 3], vec![5], vec![4, 4, 2]]).unwrap();
    let (sets, alone) = ([vec![0, 2], vec![0, 1, 2, 3]], Local::alone());
    let emulated = Place::Device(AnyDevice::from(Emulator::default()));
    let setup = Setup { sets: &sets, ..by_slices(&sequences, &emulated, &alone) };
    let found = scored(setup, &model).unwrap();
    let expected = scored(Setup { place: &Place::Cpu, method: ForwardMethod::Fused, ..setup }, &model).unwrap();
    for (a, b) in found.iter().zip(&expected) {
        assert!((a - b).abs() < 1e-13 * b.abs().max(1.0), "{found:?} {expected:?}");
    }
}
