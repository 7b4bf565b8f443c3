//! Numbers of all magnitudes against the definitions.

use warpkov::hmm::backend::{Expected, Recursions, Statistics};
use warpkov::hmm::backends::cpu::Exact;
use warpkov::hmm::backends::device::{Batch, Limits};
use warpkov::hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov::hmm::sequences::{Observations, Sequences, offsets};
use warpkov::runtime::Precise;
use warpkov_runtime::device::AnyDevice;

use crate::check::{close, same};
use crate::random::Random;
use crate::{Outcome, Suite, wide};

use super::common::{Said, agree, in_logarithms, on, said};
use super::models::{of_two, with_doubt, with_unreachable};

pub fn add(suite: &mut Suite) {
    suite.add("hmm_out_of_range::f32", out_of_range::<f32>);
    suite.add("hmm_out_of_range::f64", out_of_range::<f64>);
    suite.add("hmm_orders_of_magnitude::f32", orders_of_magnitude::<f32>);
    suite.add("hmm_orders_of_magnitude::f64", orders_of_magnitude::<f64>);
    suite.add("hmm_taken_again::f32", taken_again::<f32>);
    suite.add("hmm_taken_again::f64", taken_again::<f64>);
}

/// Results agree with the definitions in one piece, with little memory, and in chunks; larger emulated cases run one of
/// the three.
fn agree_everywhere<T: Precise>(
    device: &AnyDevice,
    scale: usize,
    models: &[Hmm],
    sequences: &Sequences,
    what: &str,
) -> Outcome {
    let n = models[0].states() as usize;
    let truth: Vec<Said> = models.iter().map(|model| in_logarithms(model, sequences)).collect();
    let whole = Limits::default();
    let mut all = vec![("in windows", Limits { trellis: 192 * n, ..whole })];
    if n <= 16 || scale > 1 {
        all.push(("whole", whole));
    }
    if n <= 16 || n <= 64 && (scale > 1 || n == 33) {
        all.push(("in chunks", Limits { chunks: Some(2), ..whole }));
    }
    for (how, limits) in all {
        let got = said(&mut Batch::<T>::new(device, sequences, limits)?, models)?;
        for (k, (got, expected)) in got.iter().zip(&truth).enumerate() {
            agree::<T>(got, expected, &models[k], sequences).map_err(|error| {
                format!("{what}, {how}, N = {n}, model {k}: {}", error.message().unwrap_or_default())
            })?;
        }
    }
    Ok(())
}

/// States whose probability underflows relative to another state, and which later are the only possible ones.
fn out_of_range<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let half = [0.5, 0.5, 0.0, 1.0];
    let symbols = [
        // The observations are unlikely in state 0, the only reachable state.
        of_two([1.0, 0.0], half, [1.0 - 1e-300, 1e-300, 1e-300, 1.0 - 1e-300], None),
        // A state leads by a factor of 10⁴⁰⁰ and then cannot emit the observation.
        of_two([0.5, 0.5], [1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1e-200, 1.0], None),
        of_two([1.0, 0.0], half, [0.5; 4], Some([0.0, 1e-310])),
        // Subnormal probabilities in all states.
        of_two([0.5, 0.5], half, [1.0, 5e-320, 1.0, 2e-315], None),
        of_two([1.0, 1e-310], [1.0, 1e-312, 1e-300, 1.0], [1.0, 0.0, 0.5, 0.5], Some([0.0, 1e-30])),
        // Probabilities of ordinary size.
        of_two([0.5, 0.5], [0.5; 4], [0.25, 0.75, 0.75, 0.25], None),
    ];
    let observed = [vec![1, 0, 1], vec![0, 0, 1], vec![0], vec![0, 1, 0, 1, 1, 0]];
    let vectors = HmmParts {
        start: vec![1.0, 0.0],
        transitions: half.to_vec(),
        end: None,
        emissions: Emissions::Gaussian {
            dimensions: 1,
            means: vec![0.0, 50.0],
            covariances: Covariances::Diagonal(vec![1.0, 1.0]),
        },
        names: Names::default(),
    }
    .validated()
    .unwrap();
    let values = Sequences::new(
        offsets([3, 1, 4]),
        Observations::Vectors { dimensions: 1, values: vec![50.0, 0.0, 50.0, 0.1, 0.0, 0.2, 49.0, 50.0] },
    )
    .unwrap();
    let logs = on::<T>(device, std::slice::from_ref(&vectors), &values)?.remove(0).logs;
    close("ln P(O)", &logs[..1], &[-1_254.143_109_960_734], 1e-9, 0.0)?;
    for n in [2, 12, 33, 130, 300, 1030] {
        if n > 130 && scale == 1 {
            continue;
        }
        let models: Vec<Hmm> = symbols.iter().map(|model| with_unreachable(model, n)).collect();
        let few = n > 16 && scale == 1 || n > 1024;
        let (models, observed) = if few { (&models[..2], &observed[..2]) } else { (&models[..], &observed[..]) };
        agree_everywhere::<T>(device, scale, models, &Sequences::of_symbols(observed)?, "symbols")?;
        if !few {
            agree_everywhere::<T>(device, scale, &[with_unreachable(&vectors, n)], &values, "vectors")?;
        }
    }
    Ok(())
}

/// Models and sequences with numbers of all magnitudes.
fn orders_of_magnitude<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(31);
    for n in [3, 8, 11, 25, 40, 129] {
        if n == 129 && scale == 1 {
            continue;
        }
        let lengths: &[usize] = if n < 32 || scale > 1 { &[7, 1, 12, 4] } else { &[3, 5] };
        for _ in 0..scale.min(8) {
            let models = [random.wild(n, 3, false, false), random.wild(n, 3, true, false)];
            let sequences = random.observed(lengths, 3);
            agree_everywhere::<T>(device, scale, &models, &sequences, "symbols")?;
            let models = [random.wild(n, 3, true, true)];
            let values = random.signed(2 * lengths.iter().sum::<usize>()).into_iter().map(|x| 30.0 * x).collect();
            let observations = Observations::Vectors { dimensions: 2, values };
            let sequences = Sequences::new(offsets(lengths.iter().copied()), observations).unwrap();
            agree_everywhere::<T>(device, scale, &models, &sequences, "vectors")?;
        }
    }
    Ok(())
}

/// Sequences in doubt are recomputed in f64 in every precision. The results agree with the definitions and with the
/// host, and have the same bits with little memory and in chunks.
fn taken_again<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    for seed in 0..if scale > 1 { 150 } else { 24 } {
        let (model, sequences) = wide::random_case(seed);
        let model = with_doubt(&model);
        let n = model.start().len();
        let truths: Vec<_> = (0..sequences.len()).map(|m| wide::truth(&model, &sequences, m)).collect();
        let all: Vec<u32> = (0..sequences.len() as u32).collect();
        let exact = Exact::new(&model).expect(&sequences, &all);
        let mut whole: Option<(Vec<f64>, Vec<f64>, Expected)> = None;
        for (how, limits) in [
            ("whole", Limits::default()),
            ("little memory", Limits { trellis: 600 * n, ..Limits::default() }),
            ("chunks", Limits { chunks: Some(5), ..Limits::default() }),
        ] {
            let what = |what: &str| format!("seed {seed}, {how}, N = {n}: {what}");
            let mut batch = Batch::<T>::new(device, &sequences, limits)?;
            batch.set_models(std::slice::from_ref(&model))?;
            let (logs, gamma) = (batch.log_likelihoods()?.remove(0), batch.posteriors()?.remove(0));
            let expected = batch.expect()?.remove(0);
            let mut pairs = vec![0.0; n * n];
            let mut loosest: f64 = 0.0;
            for (m, truth) in truths.iter().enumerate() {
                let range = sequences.range(m);
                // A sequence of one step uses no transition, so it is not in doubt.
                let unit = if T::WIDE || range.len() > 1 { 1e-12 } else { 1e-4 };
                let steps = range.len() as f64;
                if truth.log.is_finite() {
                    let tolerance = unit * truth.log.abs().max(steps);
                    close(&what("ln P(O)"), &logs[m..=m], &[truth.log], tolerance, 0.0)?;
                } else {
                    same(&what("ln P(O)"), &logs[m..=m], &[truth.log])?;
                }
                let tolerance = unit + 1e-14 * truth.steepest * steps;
                let found = &gamma[range.start * n..range.end * n];
                close(&what("γ"), found, &truth.gamma, tolerance, 0.0)?;
                pairs.iter_mut().zip(&truth.pairs).for_each(|(sum, pairs)| *sum += pairs);
                loosest = loosest.max(tolerance * steps * sequences.len() as f64);
            }
            close(&what("ξ"), &expected.transitions, &pairs, loosest, 0.0)?;
            close(&what("ξ of the host"), &expected.transitions, &exact.transitions, loosest, 0.0)?;
            close(&what("starts"), &expected.start, &exact.start, loosest, 0.0)?;
            close(&what("ends"), &expected.end, &exact.end, loosest, 0.0)?;
            match (&expected.emissions, &exact.emissions) {
                (Statistics::Categorical(got), Statistics::Categorical(expected)) => {
                    close(&what("emissions"), got, expected, loosest, 0.0)?;
                }
                (
                    Statistics::Gaussian { weights, sums, squares },
                    Statistics::Gaussian { weights: of_weights, sums: of_sums, squares: of_squares },
                ) => {
                    // Observations may be far from the means.
                    let far = |x: &[f64]| loosest * x.iter().fold(1.0, |most: f64, x| most.max(x.abs())) * 1e3;
                    close(&what("weights"), weights, of_weights, loosest, 0.0)?;
                    close(&what("sums"), sums, of_sums, far(of_sums), 0.0)?;
                    close(&what("squares"), squares, of_squares, far(of_squares), 0.0)?;
                }
                other => return Err(format!("statistics of two kinds: {other:?}").into()),
            }
            let Some((of_logs, of_gamma, of_expected)) = &whole else {
                whole = Some((logs, gamma, expected));
                continue;
            };
            for m in (0..sequences.len()).filter(|&m| sequences.range(m).len() > 1) {
                let range = sequences.range(m);
                let range = range.start * n..range.end * n;
                same(&what("the bits of ln P(O)"), &logs[m..=m], &of_logs[m..=m])?;
                same(&what("the bits of γ"), &gamma[range.clone()], &of_gamma[range])?;
            }
            close(&what("ξ as before"), &expected.transitions, &of_expected.transitions, loosest, 0.0)?;
        }
    }
    Ok(())
}
