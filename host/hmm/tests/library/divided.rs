//! Several ranks: one model, one end, and one error.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use warpkov_hmm::backend::{Decoded, Expected, Recursions};
use warpkov_hmm::backends::device::Limits;
use warpkov_hmm::divided::{Divided, Division};
use warpkov_hmm::generate::IceCream;
use warpkov_hmm::invariants::Violated;
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::{Options, Precision};
use warpkov_hmm::place::{Dynamic, Error, recursions};
use warpkov_hmm::sequences::Sequences;
use warpkov_hmm::train::{Status, Trained, train};
use warpkov_runtime as runtime;
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Communicator, Local};

const LONG: Duration = Duration::from_secs(60);

/// A backend whose E step fails after this number of E steps.
struct Broken<'a>(Dynamic<'a>, usize, fn() -> Error);

impl Recursions for Broken<'_> {
    type Error = Error;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), Error> {
        self.0.set_models(models)
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        Err(self.2())
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        Err(self.2())
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, Error> {
        Err(self.2())
    }

    fn expect(&mut self) -> Result<Vec<Expected>, Error> {
        Err(self.2())
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        self.1 = self.1.checked_sub(1).ok_or_else(self.2)?;
        self.0.e_step()
    }

    fn take_counts(&mut self) -> Result<Vec<Expected>, Error> {
        self.0.take_counts()
    }

    fn m_step(&mut self, options: &Options) -> Result<(), Error> {
        self.0.m_step(options)
    }

    fn models(&mut self) -> Result<Vec<Hmm>, Error> {
        self.0.models()
    }
}

/// Trains the ice-cream model on three ranks, and scores. The E step of the second rank fails with this error after this
/// number of E steps.
fn broken(after: usize, error: fn() -> Error) -> Result<Vec<(Trained, Error)>, String> {
    let model = IceCream.generate().map_err(|error| error.to_string())?;
    let sequence = |m: u32| -> Vec<u32> { (0..20).map(|t| (t * t + m * t) % 7 % 3).collect() };
    let sequences = Sequences::of_symbols(&(0..9).map(sequence).collect::<Vec<_>>()).unwrap();
    let options = Options { iterations: 9, tolerance: 0.0, ..Options::default() };
    Local::run(3, LONG, |local| {
        let division = Division::new(&sequences, 3);
        let share = division.share(local.rank());
        let open = |share| recursions(&Place::Cpu, share, Precision::F64, Limits::default());
        let mut own = share.as_ref().map(open).transpose().map_err(|error| error.to_string())?;
        if local.rank() == 1 {
            own = own.map(|own| Box::new(Broken(own, after, error)) as Dynamic);
        }
        let mut divided = Divided::new(&division, own, [false; 2], local);
        let trained = train(&mut divided, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(()));
        let trained = trained.map_err(|error| error.to_string())?;
        divided.set_models(std::slice::from_ref(&model)).map_err(|error| error.to_string())?;
        match divided.log_likelihoods() {
            Err(error) => Ok((trained, error)),
            Ok(_) => Err("a rank stopped, and the others did not".to_owned()),
        }
    })
}

#[test]
fn a_stop_request_of_one_rank_stops_all_with_one_model() {
    let stop = || runtime::Error::Interrupted.into();
    let ranks = broken(3, stop).unwrap();
    for (trained, scored) in &ranks {
        assert_eq!(trained.status, Status::Interrupted);
        assert_eq!(trained.best().log_likelihoods.len(), 3);
        assert_eq!(trained, &ranks[0].0);
        assert!(matches!(scored, Error::Runtime(runtime::Error::Interrupted)));
    }
    // The last complete model is that of the third M step.
    let more = broken(4, stop).unwrap();
    assert_ne!(more[0].0.best().model, ranks[0].0.best().model);
    assert_eq!(more[0].0.best().log_likelihoods[..3], ranks[0].0.best().log_likelihoods);
    assert_eq!(broken(0, stop).unwrap_err(), runtime::Error::Interrupted.to_string());
}

#[test]
fn a_rank_that_fails_ends_all_with_its_error() {
    let fault = || Violated { what: "a test", sequence: 2, found: 1.0, expected: "0".to_owned() }.into();
    let begun = Instant::now();
    let message = broken(2, fault).unwrap_err();
    // Sequences of one length go round: this is the second of the second rank.
    assert!(message.contains("a test of sequence 5 is 1, expected 0"), "{message}");
    assert!(begun.elapsed() < LONG);
}

/// Devices add what they store, if all ranks have a share of it.
#[test]
fn ranks_on_devices_take_the_m_step_there() {
    let model = IceCream.generate().unwrap();
    let sequences = Sequences::of_symbols(&[vec![0, 1, 2, 1], vec![2, 2, 0]]).unwrap();
    for (choice, ranks, expected) in
        [(DeviceChoice::Emulated, 2, true), (DeviceChoice::Emulated, 3, false), (DeviceChoice::Cpu, 2, false)]
    {
        let stored = Local::run(ranks, LONG, |local| {
            let division = Division::new(&sequences, ranks);
            let share = division.share(local.rank());
            let (place, _) = Place::open(choice, None).map_err(|error| error.to_string())?;
            let limits = Limits::default();
            let divided = Divided::open(&division, share.as_ref(), &place, Precision::F64, limits, local);
            let mut divided = divided.map_err(|error| error.to_string())?;
            divided.set_models(std::slice::from_ref(&model)).map_err(|error| error.to_string())?;
            divided.e_step().map_err(|error| error.to_string())?;
            divided.common_layout().map_err(|error| error.to_string())
        });
        let stored = stored.unwrap();
        assert!(stored.iter().all(|layout| layout.is_some() == expected));
    }
}

#[test]
fn shares_are_balanced_and_complete() {
    let lengths = [70, 1, 1, 30, 20, 20, 4, 1];
    let sequences: Vec<Vec<u32>> = lengths.iter().map(|&length| vec![0; length]).collect();
    let sequences = Sequences::of_symbols(&sequences).unwrap();
    for ranks in 1..12 {
        let division = Division::new(&sequences, ranks);
        let mut all: Vec<usize> = (0..ranks).flat_map(|rank| division.of_rank(rank).to_vec()).collect();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..lengths.len()), "{all:?}");
        let most = (0..ranks)
            .map(|rank| division.of_rank(rank).iter().map(|&sequence| lengths[sequence]).sum::<usize>())
            .max();
        assert_eq!(
            most,
            Some(if ranks == 1 {
                147
            } else if ranks == 2 {
                74
            } else {
                70
            }),
            "{ranks} ranks"
        );
        let none = (0..ranks).filter(|&rank| division.share(rank).is_none()).count();
        assert_eq!(none, (ranks as usize).saturating_sub(lengths.len()));
    }
}
