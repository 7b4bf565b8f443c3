//! Emissions as Rust code.

use warpkov_device::device::{Parameter, Real};
use warpkov_hmm::channels::{Channel, Code, Exponential, Family};
use warpkov_hmm::io::{self, Format};
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::options::{Options, Precision};
use warpkov_hmm::place::recursions;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::Sequences;
use warpkov_hmm::train::{Status, train};
use warpkov_kernels::emission;
use warpkov_kernels::hmm::Emission;
use warpkov_runtime::choose::{DeviceChoice, Place};

use super::{channel, model, vectors};
use crate::random::Random;

/// Independent components with b(x) = x e^(−x² / 2s) / s, x > 0. The parameters are s of each component.
#[derive(Clone, Copy, Parameter)]
pub struct Rayleigh {
    pub components: u32,
}

impl Emission for Rayleigh {
    fn components(&self) -> u32 {
        self.components
    }

    fn parameters(&self) -> u32 {
        self.components
    }

    fn log_density(&self, theta: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        let term = |c: u32| Real::ln(x(c) / theta(c)) - 0.5 * x(c) * x(c) / theta(c);
        (0..self.components).map(|c| if x(c).is_nan() { 0.0 } else { term(c) }).sum()
    }

    /// Of each component, whether it was observed, and its square.
    fn statistics(&self) -> u32 {
        2 * self.components
    }

    fn statistic(&self, index: u32, _: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        let x = x(index / 2);
        match (x.is_nan(), index % 2) {
            (true, _) => 0.0,
            (_, 0) => 1.0,
            _ => x * x,
        }
    }

    fn maximise(&self, theta: &mut [f64], _: f64, sums: &[f64]) {
        for (square, sums) in theta.iter_mut().zip(sums.chunks_exact(2)) {
            *square = 0.5 * sums[1] / sums[0];
        }
    }

    fn draw(&self, theta: &[f64], uniform: &mut dyn FnMut() -> f64) -> Option<Vec<f64>> {
        Some(theta.iter().map(|square| (-2.0 * square * libm::log(1.0 - uniform())).sqrt()).collect())
    }
}

emission!(Rayleigh);

/// A density, and nothing else.
#[derive(Clone, Copy, Parameter)]
struct Fixed {
    rate: f64,
}

impl Emission for Fixed {
    fn components(&self) -> u32 {
        1
    }

    fn parameters(&self) -> u32 {
        0
    }

    fn log_density(&self, _: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        Real::ln(self.rate) - self.rate * x(0)
    }
}

emission!(Fixed);

fn rayleigh(parameters: &[f64]) -> Family {
    Family::Code(Code::new(Rayleigh { components: 1 }, None, parameters.to_vec()))
}

fn two_states(family: Family) -> Hmm {
    model(&[0.5, 0.5], &[0.9, 0.1, 0.2, 0.8], 1, vec![channel(&[0], family)])
}

fn parameters(model: &Hmm) -> Vec<f64> {
    let Emissions::Channels(channels) = model.emissions() else { panic!("channels") };
    let Family::Code(code) = &channels.list[0].family else { panic!("code") };
    code.parameters().to_vec()
}

/// On the CPU and under emulation.
fn trained(model: &Hmm, sequences: &Sequences) -> Vec<Hmm> {
    let by = |device| {
        let place = Place::open(device, None).unwrap().0;
        let mut all = recursions(&place, sequences, Precision::F64, Default::default()).unwrap();
        let options = Options { iterations: 200, tolerance: 1e-10, ..Options::default() };
        let found = train(&mut *all, vec![model.clone()], &options, &mut |_| std::ops::ControlFlow::Continue(()));
        let found = found.unwrap();
        assert_eq!(found.status, Status::Converged);
        found.best().model.clone()
    };
    [DeviceChoice::Cpu, DeviceChoice::Emulated].map(by).into()
}

#[test]
fn training_finds_the_parameters_of_samples() {
    let truth = two_states(rayleigh(&[1.0, 100.0]));
    let sequences = sample(&truth, 20, Some(100), 3).unwrap().sequences;
    for found in trained(&two_states(rayleigh(&[0.3, 500.0])), &sequences) {
        let found = parameters(&found);
        assert!((found[0] - 1.0).abs() < 0.15 && (found[1] / 100.0 - 1.0).abs() < 0.15, "{found:?}");
    }
}

/// Without statistics, training changes the chain alone.
#[test]
fn what_has_no_statistics_stays() {
    let random = &mut Random(7);
    let sequences = vectors(1, &[(0..40).map(|_| random.unit()).collect(), vec![0.5, f64::NAN, 3.0]]);
    let code = two_states(Family::Code(Code::new(Fixed { rate: 2.0 }, None, Vec::new())));
    let family = two_states(Family::Exponential(Exponential { rates: vec![2.0; 2] }));
    let all = trained(&code, &sequences);
    for found in &all {
        assert_eq!(found.emissions(), code.emissions());
        // The states emit the same, so that every chain is as likely.
        let logs = |model: &Hmm| {
            let place = Place::open(DeviceChoice::Cpu, None).unwrap().0;
            let mut all = recursions(&place, &sequences, Precision::F64, Default::default()).unwrap();
            all.set_models(std::slice::from_ref(model)).unwrap();
            all.log_likelihoods().unwrap().remove(0)
        };
        assert!(logs(found).iter().zip(logs(&family)).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let refused = |columns: &[u32], dimensions, parameters: &[f64]| {
        let family = Family::Code(Code::new(Rayleigh { components: 1 }, None, parameters.to_vec()));
        let channels =
            warpkov_hmm::channels::Channels { dimensions, names: Vec::new(), list: vec![channel(columns, family)] };
        let parts = two_states(rayleigh(&[1.0, 1.0])).into_parts();
        let parts = warpkov_hmm::model::HmmParts { emissions: Emissions::Channels(channels), ..parts };
        parts.validated().unwrap_err().to_string()
    };
    assert_eq!(refused(&[0, 1], 2, &[1.0, 1.0]), "channels[0] is Rayleigh with 2 columns, expected 1");
    assert_eq!(refused(&[0], 1, &[1.0]), "channels[0].parameters has 1 numbers, expected 2 × 1");
    assert_eq!(refused(&[0], 1, &[1.0, f64::NAN]), "channels[0].parameters[1][0] is NaN, expected a finite number");
}

#[test]
fn no_format_holds_code() {
    let model = two_states(rayleigh(&[1.0, 2.0]));
    for format in [Format::Json, Format::Npz, Format::Umdhmm] {
        let mut out = Vec::new();
        let error = io::write_to(&mut out, format, &model).unwrap_err();
        assert!(error.to_string().contains("Rust code"), "{error}");
        assert!(out.is_empty());
    }
}

/// Equal numbers of the same type are the same model; others are not.
#[test]
fn models_of_code_are_compared_by_their_numbers() {
    let fixed = |rate| Channel { columns: vec![0], family: Family::Code(Code::new(Fixed { rate }, None, Vec::new())) };
    assert_eq!(fixed(1.0), fixed(1.0));
    assert_ne!(fixed(1.0), fixed(2.0));
    assert_ne!(rayleigh(&[1.0]), rayleigh(&[2.0]));
}

/// What cannot be drawn says so.
#[test]
fn samples_need_a_function_that_draws() {
    let code = two_states(Family::Code(Code::new(Fixed { rate: 2.0 }, None, Vec::new())));
    let error = sample(&code, 1, Some(3), 0).unwrap_err().to_string();
    assert!(error.contains("a function that draws"), "{error}");
}
