//! Hidden Markov models.

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::time::Instant;

use warpkov_cli::error::Error;
use warpkov_common::parameters::{NON_NEGATIVE, POSITIVE};
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::io::{self, Format};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{Frozen, Options, Precision, Pseudocounts};
use warpkov_hmm::run::{Running, alone};
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_hmm::train::{Round, Status, Trained, train};

use crate::border::{
    Ending, Out, c_text, elements, entry, file_format, file_path, fill, free, invalid, look, shared, view, wk_status,
};
use crate::mdp::check_size;
use crate::options::{OF_RECURSIONS, OF_TRAINING, wk_options};
use crate::progress::{Observer, wk_observer, wk_progress};

/// The arrays of a hidden Markov model, of which each state emits symbols, or vectors with a normal density. Fill unused members
/// with 0. Everything is copied.
#[repr(C)]
pub struct wk_hmm_parts {
    /// sizeof(wk_hmm_parts): later versions may add members at the end.
    pub size: usize,
    /// N, the number of states.
    pub states: u32,
    /// V, the number of symbols; 0 for vectors.
    pub symbols: u32,
    /// D, the dimension of the vectors; 0 for symbols.
    pub dimensions: u32,
    /// pi, N probabilities of the first state.
    pub start: *const f64,
    /// A, N x N probabilities, row by row: from state i to state j.
    pub transitions: *const f64,
    /// N probabilities that a sequence ends after a state, which sum to 1 with its row of A; NULL if sequences end anywhere.
    pub ends: *const f64,
    /// B, N x V probabilities, row by row: symbol o in state i.
    pub emissions: *const f64,
    /// N x D means.
    pub means: *const f64,
    /// N x D variances, where covariance matrices are diagonal; otherwise NULL.
    pub variances: *const f64,
    /// N x D x D covariances; NULL if `variances` are given.
    pub covariances: *const f64,
}

impl wk_hmm_parts {
    /// # Safety
    /// The pointers are NULL or point at as many elements as the header says.
    unsafe fn model(&self) -> Result<Hmm, Error> {
        check_size::<Self>(self.size, "wk_hmm_parts")?;
        let (n, v, d) = (self.states as usize, self.symbols as usize, self.dimensions as usize);
        let product = |counts: &[usize], name: &str| {
            let product = counts.iter().try_fold(1_usize, |product, &count| product.checked_mul(count));
            product.ok_or_else(|| invalid(format!("{name} has too many elements")))
        };
        let copy = |pointer: *const f64, counts: &[usize], name: &str| -> Result<Vec<f64>, Error> {
            // SAFETY: the caller's guarantee.
            Ok(unsafe { elements(pointer, product(counts, name)?, name) }?.to_vec())
        };
        let emissions = match (v, d) {
            (1.., 0) => {
                Emissions::Categorical { symbols: self.symbols, probs: copy(self.emissions, &[n, v], "emissions")? }
            }
            (0, 1..) => Emissions::Gaussian {
                dimensions: self.dimensions,
                means: copy(self.means, &[n, d], "means")?,
                covariances: match self.variances.is_null() {
                    true => Covariances::Full(copy(self.covariances, &[n, d, d], "covariances")?),
                    false => Covariances::Diagonal(copy(self.variances, &[n, d], "variances")?),
                },
            },
            _ => return Err(invalid(format!("symbols is {v} and dimensions is {d}, expected one of them to be 0"))),
        };
        let end = match self.ends.is_null() {
            true => None,
            false => Some(copy(self.ends, &[n], "ends")?),
        };
        let (start, transitions) = (copy(self.start, &[n], "start")?, copy(self.transitions, &[n, n], "transitions")?);
        HmmParts { start, transitions, end, emissions, names: Names::default() }.validated().map_err(invalid)
    }
}

/// A hidden Markov model. It does not change, so that threads may share it.
pub struct wk_hmm(Hmm);

impl wk_hmm {
    /// B, or the means.
    fn emissions(&self) -> &[f64] {
        match self.0.emissions() {
            Emissions::Categorical { probs: numbers, .. } | Emissions::Gaussian { means: numbers, .. } => numbers,
            Emissions::Channels(_) => &[],
        }
    }

    /// Variances or covariances; none of symbols.
    fn covariances(&self) -> &[f64] {
        match self.0.emissions() {
            Emissions::Categorical { .. } | Emissions::Channels(_) => &[],
            Emissions::Gaussian {
                covariances: Covariances::Diagonal(numbers) | Covariances::Full(numbers), ..
            } => numbers,
        }
    }
}

/// Makes a model of arrays, which are copied and checked.
///
/// \return WK_INVALID if it is no model; the text names the place
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_new(parts: *const wk_hmm_parts, hmm: *mut *mut wk_hmm) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, parts) = unsafe { (Out::new(hmm, "hmm")?, shared(parts, "parts")?) };
        // SAFETY: as above.
        out.put(wk_hmm(unsafe { parts.model() }?));
        Ok(Ending::Complete)
    })
}

/// Reads a model from a file, with the format "json", "npz" or "umdhmm"; with NULL, extension and content decide.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_read(path: *const c_char, format: *const c_char, hmm: *mut *mut wk_hmm) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, path, format) = unsafe { (Out::new(hmm, "hmm")?, file_path(path)?, file_format(format)?) };
        out.put(wk_hmm(io::read(path, format)?));
        Ok(Ending::Complete)
    })
}

/// Writes a model to a file: completely, or not at all. With NULL as the format, the extension decides, or else it is "json".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_write(hmm: *const wk_hmm, path: *const c_char, format: *const c_char) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (hmm, path, format) = unsafe { (shared(hmm, "hmm")?, file_path(path)?, file_format(format)?) };
        io::write(path, format.or(Format::of_name(path)).unwrap_or(Format::Json), &hmm.0)?;
        Ok(Ending::Complete)
    })
}

/// N, the number of states; 0 if `hmm` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_states(hmm: *const wk_hmm) -> u32 {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(hmm, "hmm") }?.0.states()))
}

/// pi, N probabilities. The array stays until the model is freed; its length goes to `count` unless that is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_start(hmm: *const wk_hmm, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(hmm, "hmm").map(|hmm| hmm.0.start())) }
}

/// A, N x N probabilities, row by row, as `wk_hmm_start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_transitions(hmm: *const wk_hmm, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(hmm, "hmm").map(|hmm| hmm.0.transitions())) }
}

/// B, N x V probabilities, or the N x D means of vectors, row by row, as `wk_hmm_start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_emissions(hmm: *const wk_hmm, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(hmm, "hmm").map(wk_hmm::emissions)) }
}

/// N x D variances, or N x D x D covariances of vectors, as `wk_hmm_start`; NULL for symbols.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_covariances(hmm: *const wk_hmm, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(hmm, "hmm").map(wk_hmm::covariances)) }
}

/// Frees a model; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_free(hmm: *mut wk_hmm) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(hmm) };
}

/// Sequences of observations. They do not change, so that threads may share them.
pub struct wk_sequences(Sequences);

/// Copies M offsets and one more.
///
/// # Safety
/// `offsets` is NULL or points at as many elements.
unsafe fn ends(offsets: *const u64, sequences: usize) -> Result<Vec<u64>, Error> {
    let ends = sequences.checked_add(1).ok_or_else(|| invalid("there are too many sequences"))?;
    // SAFETY: the caller's guarantee.
    Ok(unsafe { elements(offsets, ends, "offsets") }?.to_vec())
}

/// Makes M sequences of symbols, one behind the other, which are copied. `offsets` has M + 1 elements, from 0 to `count`: sequence m
/// has the symbols from offsets[m] to before offsets[m + 1], at least one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_sequences_of_symbols(
    offsets: *const u64,
    sequence_count: usize,
    symbols: *const u32,
    count: usize,
    sequences: *mut *mut wk_sequences,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, offsets, symbols) = unsafe {
            (
                Out::new(sequences, "sequences")?,
                ends(offsets, sequence_count)?,
                elements(symbols, count, "symbols")?.to_vec(),
            )
        };
        out.put(wk_sequences(Sequences::new(offsets, Observations::Symbols(symbols)).map_err(invalid)?));
        Ok(Ending::Complete)
    })
}

/// Makes M sequences of vectors of D numbers, one behind the other, which are copied. `values` has `count` vectors, so count x D
/// elements, and NaN is a missing number. `offsets` counts vectors, as in `wk_sequences_of_symbols`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_sequences_of_vectors(
    offsets: *const u64,
    sequence_count: usize,
    dimensions: u32,
    values: *const f64,
    count: usize,
    sequences: *mut *mut wk_sequences,
) -> wk_status {
    entry(|| {
        let all = count.checked_mul(dimensions as usize).filter(|_| dimensions > 0);
        let all =
            all.ok_or_else(|| invalid(format!("{count} vectors of {dimensions} numbers, expected at least 1")))?;
        // SAFETY: the caller guarantees what the header says.
        let (out, offsets, values) = unsafe {
            (
                Out::new(sequences, "sequences")?,
                ends(offsets, sequence_count)?,
                elements(values, all, "values")?.to_vec(),
            )
        };
        if let Some(wrong) = values.iter().find(|value| value.is_infinite()) {
            return Err(invalid(format!("values has {wrong}, expected finite numbers, or NaN where one is missing")));
        }
        let observations = Observations::Vectors { dimensions, values };
        out.put(wk_sequences(Sequences::with_missing(offsets, observations).map_err(invalid)?));
        Ok(Ending::Complete)
    })
}

/// Reads sequences for a model, whose names of symbols they may have, from a file with the format "lines", "csv", "fasta", "npy" or
/// "umdhmm"; with NULL, extension and content decide.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_sequences_read(
    hmm: *const wk_hmm,
    path: *const c_char,
    format: *const c_char,
    sequences: *mut *mut wk_sequences,
) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, hmm) = unsafe { (Out::new(sequences, "sequences")?, shared(hmm, "hmm")?) };
        // SAFETY: as above.
        let (path, format) = unsafe { (file_path(path)?, file_format(format)?) };
        out.put(wk_sequences(io::sequences::read(path, None, format, &hmm.0)?));
        Ok(Ending::Complete)
    })
}

/// M, the number of sequences; 0 if `sequences` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_sequences_count(sequences: *const wk_sequences) -> usize {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(sequences, "sequences") }?.0.len()))
}

/// The number of observations of all sequences; 0 if `sequences` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_sequences_steps(sequences: *const wk_sequences) -> usize {
    // SAFETY: the caller guarantees what the header says.
    look(0, || Ok(unsafe { shared(sequences, "sequences") }?.0.steps()))
}

/// Frees sequences; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_sequences_free(sequences: *mut wk_sequences) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(sequences) };
}

/// A model and its sequences, which fit, and the options.
struct Task<'a> {
    model: &'a Hmm,
    sequences: &'a Sequences,
    options: &'a wk_options,
}

impl<'a> Task<'a> {
    /// # Safety
    /// The handles are NULL or point at values that nobody changes while `'a` lasts.
    unsafe fn new(
        hmm: *const wk_hmm,
        sequences: *const wk_sequences,
        options: *const wk_options,
        none: &'a wk_options,
        names: &[&'static str],
    ) -> Result<Self, Error> {
        // SAFETY: the caller's guarantee.
        let (hmm, sequences): (&wk_hmm, &wk_sequences) =
            unsafe { (shared(hmm, "hmm")?, shared(sequences, "sequences")?) };
        let options = match options.is_null() {
            true => none,
            // SAFETY: the caller's guarantee.
            false => unsafe { shared(options, "options") }?,
        };
        options.check(if names == OF_RECURSIONS { "this function" } else { "training" }, names, &[])?;
        sequences.0.check(&hmm.0).map_err(invalid)?;
        Ok(Self { model: &hmm.0, sequences: &sequences.0, options })
    }

    fn precision(&self) -> Result<Precision, Error> {
        Ok(self.options.choice("precision")?.unwrap_or_default())
    }

    /// Computes a result of the recursions.
    fn compute<T>(&self, over: OverPaths, work: impl FnOnce(&mut Running<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let Self { model, sequences, options } = *self;
        alone(model, sequences, options.device()?, self.precision()?, over, work)
    }
}

/// The result for the only model.
fn only<T: Default>(results: Vec<T>) -> T {
    results.into_iter().next().unwrap_or_default()
}

/// Writes ln P(O) of each sequence to `log_likelihoods`, which has `count` = M elements: minus infinity where a sequence is
/// impossible. `options` may be NULL; they have "device" and "precision".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_score(
    hmm: *const wk_hmm,
    sequences: *const wk_sequences,
    options: *const wk_options,
    log_likelihoods: *mut f64,
    count: usize,
) -> wk_status {
    entry(|| {
        let none = wk_options::default();
        // SAFETY: the caller guarantees what the header says.
        let task = unsafe { Task::new(hmm, sequences, options, &none, &OF_RECURSIONS) }?;
        let found = task.compute(OverPaths::Sums, |recursions| Ok(only(recursions.log_likelihoods()?)))?;
        // SAFETY: as above.
        unsafe { fill(log_likelihoods, count, &found, "log_likelihoods") }?;
        Ok(Ending::Complete)
    })
}

/// Decodes: writes the states of the most probable path of each sequence to `states`, which has `steps` elements, one per observation,
/// and ln P(O, path) to `scores`, which has `count` = M elements, unless that is NULL. An impossible sequence has UINT32_MAX, and minus
/// infinity. Options are those of `wk_hmm_score`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_decode(
    hmm: *const wk_hmm,
    sequences: *const wk_sequences,
    options: *const wk_options,
    states: *mut u32,
    steps: usize,
    scores: *mut f64,
    count: usize,
) -> wk_status {
    entry(|| {
        let none = wk_options::default();
        // SAFETY: the caller guarantees what the header says.
        let task = unsafe { Task::new(hmm, sequences, options, &none, &OF_RECURSIONS) }?;
        let found = task.compute(OverPaths::Maxima, |recursions| Ok(only(recursions.viterbi()?)))?;
        // SAFETY: as above.
        unsafe { fill(states, steps, &found.states, "states") }?;
        if !scores.is_null() {
            // SAFETY: as above.
            unsafe { fill(scores, count, &found.scores, "scores") }?;
        }
        Ok(Ending::Complete)
    })
}

/// Writes the probability of each state at each observation, given its whole sequence, to `probs`, which has `count` elements: N for
/// each observation. Options are those of `wk_hmm_score`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_posteriors(
    hmm: *const wk_hmm,
    sequences: *const wk_sequences,
    options: *const wk_options,
    probs: *mut f64,
    count: usize,
) -> wk_status {
    entry(|| {
        let none = wk_options::default();
        // SAFETY: the caller guarantees what the header says.
        let task = unsafe { Task::new(hmm, sequences, options, &none, &OF_RECURSIONS) }?;
        let found = task.compute(OverPaths::Sums, |recursions| Ok(only(recursions.posteriors()?)))?;
        // SAFETY: as above.
        unsafe { fill(probs, count, &found, "probs") }?;
        Ok(Ending::Complete)
    })
}

/// Parameters that keep their values, of names between commas.
fn frozen(text: &str) -> Result<Frozen, Error> {
    let mut frozen = Frozen::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part {
            "start" => frozen.start = true,
            "transitions" => frozen.transitions = true,
            "emissions" | "symbols" | "means" => frozen.emissions = true,
            "covariances" => frozen.covariances = true,
            _ => {
                let expected = "expected some of start, transitions, emissions, covariances with commas between them";
                return Err(invalid(format!("freeze is '{text}', {expected}")));
            }
        }
    }
    Ok(frozen)
}

/// A trained model, and how its training went. It belongs to the caller of the training.
pub struct wk_training {
    trained: Trained,
    status: CString,
}

/// Trains a model by the algorithm of Baum and Welch, which finds a local maximum of the likelihood. `options` may be NULL, and so may
/// `observer`, which is called with `user` after each E step.
///
/// \param[out] training the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
/// \return WK_OK if the training has converged
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_hmm_train(
    hmm: *const wk_hmm,
    sequences: *const wk_sequences,
    options: *const wk_options,
    observer: wk_observer,
    user: *mut c_void,
    training: *mut *mut wk_training,
) -> wk_status {
    entry(|| {
        let none = wk_options::default();
        // SAFETY: the caller guarantees what the header says.
        let out = unsafe { Out::new(training, "training") }?;
        // SAFETY: as above.
        let task = unsafe { Task::new(hmm, sequences, options, &none, &OF_TRAINING) }?;
        let (given, default) = (task.options, Options::default());
        let count = given.number("pseudocount", &NON_NEGATIVE)?.unwrap_or_default();
        let options = Options {
            iterations: given.count("iterations", 0)?.unwrap_or(default.iterations),
            tolerance: given.number("tolerance", &NON_NEGATIVE)?.unwrap_or(default.tolerance),
            pseudocounts: Pseudocounts { start: count.into(), transitions: count.into(), emissions: count.into() },
            frozen: given.text("freeze").map_or(Ok(Frozen::default()), frozen)?,
            constraint: given.choice("constraint")?.unwrap_or_default(),
            floor: given.number("floor", &POSITIVE)?.unwrap_or(default.floor),
            slack: task.precision()?.slack(),
            ..default
        };
        let (begun, observer) = (Instant::now(), Observer { call: observer, user });
        let mut observe = |round: &Round| {
            let progress = wk_progress::new(round.iteration.into(), begun.elapsed().as_secs_f64());
            observer.see(&wk_progress { log_likelihood: round.log_likelihood, ..progress })
        };
        let trained = task.compute(OverPaths::Sums, |recursions| {
            Ok(train(recursions, vec![task.model.clone()], &options, &mut observe)?)
        })?;
        let (status, text) = match trained.status {
            Status::Converged => ("converged", None),
            Status::Iterations => ("iterations", Some("the training has not converged within its iterations")),
            Status::Fell => ("fell", Some("the likelihood fell: the precision is too low for this model")),
            Status::Interrupted => ("interrupted", Some("interrupted")),
        };
        out.put(wk_training { trained, status: c_text(status.to_owned()) });
        let early = if status == "interrupted" { wk_status::WK_INTERRUPTED } else { wk_status::WK_NOT_CERTIFIED };
        Ok(text.map_or(Ending::Complete, |text| Ending::Early(early, text.to_owned())))
    })
}

/// Makes a copy of the trained model, which the caller frees with `wk_hmm_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_training_model(training: *const wk_training, hmm: *mut *mut wk_hmm) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let (out, training) = unsafe { (Out::new(hmm, "hmm")?, shared(training, "training")?) };
        out.put(wk_hmm(training.trained.best().model.clone()));
        Ok(Ending::Complete)
    })
}

/// ln P(O) of all sequences before the first iteration, and after each. The array stays until the training is freed; its length goes to
/// `count` unless that is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_training_log_likelihoods(training: *const wk_training, count: *mut usize) -> *const f64 {
    // SAFETY: the caller guarantees what the header says.
    unsafe { view(count, shared(training, "training").map(|training| &training.trained.best().log_likelihoods[..])) }
}

/// How the training ended, in a word: "converged", "iterations", "fell" or "interrupted". The text stays until the training is freed;
/// NULL if `training` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_training_ended(training: *const wk_training) -> *const c_char {
    // SAFETY: the caller guarantees what the header says.
    look(ptr::null(), || Ok(unsafe { shared(training, "training") }?.status.as_ptr()))
}

/// Frees a training; NULL is nothing. Models that were taken from it stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_training_free(training: *mut wk_training) {
    // SAFETY: the caller guarantees what the header says.
    unsafe { free(training) };
}
